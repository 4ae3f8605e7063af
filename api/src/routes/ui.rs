//! The live page and what feeds it. The page is one file without anything from elsewhere, so it works offline.

use std::sync::Arc;
use std::time::Duration;

use warp::http::HeaderValue;
use warp::reply::Response;

use super::reply::{Reply, document};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::{events, live};

const PAGE: &str = include_str!("../demo/page.html");

/// Nothing is loaded from anywhere but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

pub async fn page(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Whole(closed(document("text/html; charset=UTF-8", PAGE, Duration::ZERO))))
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
