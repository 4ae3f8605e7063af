//! The live page and what feeds it. The page is one file without anything from elsewhere, so it works offline.

use std::sync::Arc;

use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

use super::{Request, json as json_reply};
use crate::app::App;
use crate::error::{self, ApiError};
use crate::{events, live};

const PAGE: &str = include_str!("../demo/page.html");

/// Nothing is loaded from anywhere but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

pub async fn page(_: Arc<App>, _: Request) -> Result<Response, ApiError> {
    let mut reply = error::response(StatusCode::OK, Some("text/html; charset=UTF-8"), PAGE.to_owned());
    let headers = reply.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert("x-frame-options", HeaderValue::from_static("SAMEORIGIN"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Ok(reply)
}

pub async fn state(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    Ok(json_reply(&live::state(&app)))
}

pub async fn events(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    Ok(events::stream(app.live.hub.listen()))
}
