//! The live page and what feeds it. The page is one file without anything from elsewhere, so it works offline.

use std::sync::Arc;
use std::time::Duration;

use warp::http::header::CACHE_CONTROL;
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

use super::reply::{Reply, document};
use super::request::Request;
use crate::app::App;
use crate::error::{self, ApiError};
use crate::{events, live};

const PAGE: &str = include_str!("../demo/page.html");

/// Nothing is loaded from anywhere but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

pub async fn page(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Whole(closed(document("text/html; charset=UTF-8", PAGE, Duration::ZERO))))
}

/// What a browser is shown instead of a page while weir starts; it asks again by itself.
pub fn starting(reason: &str) -> Response {
    let reason = reason.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"2\">\n\
         <title>weir starts</title>\n<style>:root {{ color-scheme: light dark; }} body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}</style>\n\
         <h1>weir starts</h1>\n<p>{reason}</p>\n<p>This page comes by itself when it is ready.</p>\n</html>\n"
    );
    let mut reply = error::response(StatusCode::SERVICE_UNAVAILABLE, Some("text/html; charset=UTF-8"), page);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    closed(reply)
}

/// A page that loads nothing from elsewhere, with headers that hold it to that.
pub fn closed(mut page: Response) -> Response {
    let headers = page.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert("x-frame-options", HeaderValue::from_static("SAMEORIGIN"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    page
}

pub async fn state(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(live::state(&app)))
}

pub async fn events(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Whole(events::listening(app.live.hub.listen())))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn who_looks_while_weir_starts_is_told_why_and_comes_again() {
        let reply = starting("the graph <a & b> is loaded");
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = reply.into_body().collect().await.expect("a body").to_bytes();
        let page = String::from_utf8_lossy(&body);
        assert!(page.contains("<p>the graph &lt;a &amp; b&gt; is loaded</p>"), "{page}");
        assert!(page.contains("http-equiv=\"refresh\" content=\"2\""), "{page}");
    }
}
