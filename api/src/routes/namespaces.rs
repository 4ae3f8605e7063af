//! Namespaces: graphs of their own.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use warp::http::StatusCode;

use super::reply::{Reply, blocking};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;

pub async fn list(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(Json::from(app.namespaces())))
}

/// The name stands in the path.
pub async fn create(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let name = request.name(0).to_owned();
    made(app, request.family, name).await
}

/// The name stands in the body.
pub async fn create_from_body(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let body = request.data()?;
    let mut mistakes = Mistakes::default();
    let name = Fields::of(&body, "", &mut mistakes).and_then(|fields| fields.required_text("name", &mut mistakes));
    let name = mistakes.or(name).map_err(ApiError::Decode)?;
    made(app, request.family, name).await
}

async fn made(app: Arc<App>, family: Family, name: String) -> Result<Reply, ApiError> {
    let (name, new) = blocking(move || app.create_namespace(&name)).await?;
    Ok(match (family, new) {
        (Family::V1, true) => Reply::Created(json!(true), Vec::new()),
        (Family::V1, false) => Reply::Value(json!(false)),
        (_, true) => Reply::Created(json!(name), Vec::new()),
        (_, false) => Reply::Empty(StatusCode::NO_CONTENT),
    })
}

/// Deletes a namespace with everything in it.
pub async fn delete(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let name = request.name(0).to_owned();
    let (name, was_there) = blocking(move || app.delete_namespace(&name)).await?;
    Ok(Reply::Value(if request.family == Family::V1 { json!(was_there) } else { json!(name) }))
}
