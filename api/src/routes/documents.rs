//! What is read by people and tools: figures for Prometheus, the OpenAPI documents, the page that shows them.

use std::sync::Arc;
use std::time::Duration;

use super::reply::{Reply, blocking, document};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::metrics;

pub async fn prometheus(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let text = blocking(move || Ok(metrics::text(&app))).await?;
    Ok(Reply::Whole(document("text/plain; version=0.0.4; charset=utf-8", text, Duration::ZERO)))
}
