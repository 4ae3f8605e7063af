//! The live page and what feeds it, the explorer, and the page of streams. The live page is one file, the others a few that lie
//! beside each other; none loads anything from elsewhere, so all work offline.

use std::sync::Arc;
use std::time::Duration;

use warp::http::header::{CACHE_CONTROL, LINK};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

use super::reply::{Reply, document};
use super::request::Request;
use crate::app::App;
use crate::auth::{Caller, LOGOUT_PAGE};
use crate::error::{self, ApiError};
use crate::{events, live};

const PAGE: &str = include_str!("../demo/page.html");

const EXPLORER: &str = include_str!("../explorer/page.html");

/// What the page of the explorer asks for, by its name.
const EXPLORER_FILES: &[(&str, &str)] = &[
    ("bar.js", include_str!("../explorer/bar.js")),
    ("canvas.js", include_str!("../explorer/canvas.js")),
    ("cards.js", include_str!("../explorer/cards.js")),
    ("dom.js", include_str!("../explorer/dom.js")),
    ("draw.js", include_str!("../explorer/draw.js")),
    ("layout.js", include_str!("../explorer/layout.js")),
    ("main.js", include_str!("../explorer/main.js")),
    ("panel.js", include_str!("../explorer/panel.js")),
    ("query.js", include_str!("../explorer/query.js")),
    ("rules.js", include_str!("../explorer/rules.js")),
    ("scene.js", include_str!("../explorer/scene.js")),
    ("style.css", include_str!("../explorer/style.css")),
    ("values.js", include_str!("../explorer/values.js")),
];

const STREAMS: &str = include_str!("../streams/page.html");

/// What the page of streams asks for, besides some files of the explorer.
const STREAMS_FILES: &[(&str, &str)] = &[
    ("create.js", include_str!("../streams/create.js")),
    ("definitions.js", include_str!("../streams/definitions.js")),
    ("figures.js", include_str!("../streams/figures.js")),
    ("flow.js", include_str!("../streams/flow.js")),
    ("form.js", include_str!("../streams/form.js")),
    ("ingests.js", include_str!("../streams/ingests.js")),
    ("latency.js", include_str!("../streams/latency.js")),
    ("layout.js", include_str!("../streams/layout.js")),
    ("main.js", include_str!("../streams/main.js")),
    ("mistakes.js", include_str!("../streams/mistakes.js")),
    ("parts.js", include_str!("../streams/parts.js")),
    ("picture.js", include_str!("../streams/picture.js")),
    ("plan.js", include_str!("../streams/plan.js")),
    ("results.js", include_str!("../streams/results.js")),
    ("schema.js", include_str!("../streams/schema.js")),
    ("server.js", include_str!("../streams/server.js")),
    ("standing.js", include_str!("../streams/standing.js")),
    ("style.css", include_str!("../streams/style.css")),
    ("why.js", include_str!("../streams/why.js")),
    ("whynot.js", include_str!("../streams/whynot.js")),
];

/// Nothing is loaded from anywhere but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// As `POLICY`, for a page whose scripts and styles are files: nothing that stands in it runs.
const POLICY_OF_FILES: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Says where the description of the API is, from wherever the page is seen.
pub async fn page(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut page = closed(page_for(&request.caller, PAGE, true));
    page.headers_mut().insert(LINK, HeaderValue::from_static("<openapi.json>; rel=\"service-desc\""));
    Ok(Reply::Whole(page))
}

pub async fn explorer(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(page_of_files(&request.caller, EXPLORER))
}

pub async fn explorer_file(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    file_of(EXPLORER_FILES, request.name(0))
}

pub async fn streams(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(page_of_files(&request.caller, STREAMS))
}

pub async fn streams_file(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    file_of(STREAMS_FILES, request.name(0))
}

fn page_of_files(caller: &Caller, page: &'static str) -> Reply {
    Reply::Whole(held(page_for(caller, page, false), POLICY_OF_FILES))
}

/// How the line looks that says who is logged in, on pages whose styles stand in them. The others have it in their files.
const LOGIN_STYLE: &str = " style=\"position:fixed;right:.75rem;bottom:.5rem;margin:0;font-size:.8rem;opacity:.8\"";

/// A page, for whoever asks for it: it says who is logged in, and leads to the end of that. Nobody else may keep it.
pub fn page_for(caller: &Caller, page: &'static str, is_styled_here: bool) -> Response {
    const HTML: &str = "text/html; charset=UTF-8";
    let Some(identity) = caller.identity() else { return document(HTML, page, Duration::ZERO) };
    let (name, style) = (escaped(identity.shown_name()), if is_styled_here { LOGIN_STYLE } else { "" });
    let line = format!("<p id=\"login\"{style}>{name} · <a href=\"{LOGOUT_PAGE}\">log out</a></p>\n");
    let at = page.rfind("</body>").or_else(|| page.rfind("</html>")).unwrap_or(page.len());
    let mut page = document(HTML, format!("{}{line}{}", &page[..at], &page[at..]), Duration::ZERO);
    page.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn file_of(files: &'static [(&'static str, &'static str)], name: &str) -> Result<Reply, ApiError> {
    let found = files.iter().find(|(file, _)| *file == name);
    let (file, text) = *found.ok_or_else(|| ApiError::absent("file", name))?;
    let content_type = if file.ends_with(".css") { "text/css; charset=UTF-8" } else { "text/javascript; charset=UTF-8" };
    Ok(Reply::Whole(held(document(content_type, text, Duration::ZERO), POLICY_OF_FILES)))
}

/// How soon a page that weir has not yet is asked for again.
const PAGE_SECONDS: u32 = 2;

/// What a browser is shown instead of a page while weir starts; it asks again by itself.
pub fn starting(reason: &str) -> Response {
    let reason = escaped(reason);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"{PAGE_SECONDS}\">\n\
         <title>weir starts</title>\n<style>:root {{ color-scheme: light dark; }} body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}</style>\n\
         <h1>weir starts</h1>\n<p>{reason}</p>\n<p>This page comes by itself when it is ready.</p>\n</html>\n"
    );
    let mut reply = error::response(StatusCode::SERVICE_UNAVAILABLE, Some("text/html; charset=UTF-8"), page);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    error::again_in(PAGE_SECONDS, closed(reply))
}

/// A page that loads nothing from elsewhere, with headers that hold it to that.
pub fn closed(page: Response) -> Response {
    held(page, POLICY)
}

fn held(mut page: Response, policy: &'static str) -> Response {
    let headers = page.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    headers.insert("x-frame-options", HeaderValue::from_static("SAMEORIGIN"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    page
}

pub async fn state(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(live::state(&app)))
}

pub async fn events(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Whole(events::listening(app.live.broadcast.listen(), request.caller.lease())))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn who_looks_while_weir_starts_is_told_why_and_comes_again() {
        let reply = starting("the graph <a & b> is loaded");
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.headers()["retry-after"], "2");
        let body = reply.into_body().collect().await.expect("a body").to_bytes();
        let page = String::from_utf8_lossy(&body);
        assert!(page.contains("<p>the graph &lt;a &amp; b&gt; is loaded</p>"), "{page}");
        assert!(page.contains("http-equiv=\"refresh\" content=\"2\""), "{page}");
    }
}
