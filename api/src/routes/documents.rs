//! What is read by people and tools: figures for Prometheus, the OpenAPI documents, the page that shows them.

use std::sync::Arc;
use std::time::Duration;

use warp::http::HeaderValue;
use warp::http::header::ACCESS_CONTROL_ALLOW_ORIGIN;

use super::reply::{JSON, Reply, blocking, document};
use super::request::Request;
use super::ui::{closed, page_for};
use crate::app::App;
use crate::error::ApiError;
use crate::wire::family::Family;
use crate::{metrics, openapi};

pub async fn prometheus(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let text = blocking(move || Ok(metrics::text(&app))).await?;
    Ok(Reply::Whole(document("text/plain; version=0.0.4; charset=utf-8", text, Duration::ZERO)))
}

pub async fn openapi_v1(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    described(app, request, Family::V1).await
}

pub async fn openapi_preview(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    described(app, request, Family::Preview).await
}

pub async fn openapi(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    described(app, request, Family::Current).await
}

/// For pages of others too, so that any reader of such documents can be pointed here.
async fn described(app: Arc<App>, request: Request, family: Family) -> Result<Reply, ApiError> {
    let mut mistakes = Vec::new();
    let relative = request.boolean(&["relative"], &mut mistakes).unwrap_or(false);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let text = blocking(move || {
        let server = app.settings.webserver.advertised.as_deref().unwrap_or("/");
        Ok(openapi::document_of(family, (!relative).then_some(server), app.settings.auth.as_ref()).to_string())
    });
    let mut reply = document(JSON, text.await?, Duration::ZERO);
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    Ok(Reply::Whole(reply))
}

/// The description of the API for people. The page asks for the document it shows.
pub async fn page(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Whole(closed(page_for(&request.caller, openapi::PAGE, true))))
}

pub async fn page_v1(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    page(app, request).await
}
