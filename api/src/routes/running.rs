//! The queries that run: listed and ended. Routes of our own, in the manner of each family.

use std::sync::Arc;

use super::reply::Reply;
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;

pub async fn list(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Items(app.queries.register.list().iter().map(|running| running.to_json()).collect()))
}

/// Answers with the query as it was when it was told to end.
pub async fn cancel(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let id = request.name(0);
    let running = id.parse().ok().and_then(|id| app.queries.register.cancel(id));
    let absent = || ApiError::Absent(format!("there is no running query with the id '{id}'"));
    running.map(|running| Reply::Value(running.to_json())).ok_or_else(absent)
}
