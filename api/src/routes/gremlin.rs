//! Gremlin over HTTP, for old clients: a traversal is told in Cypher and runs as any other query.

use std::sync::Arc;

use weir_cypher_compiler::gremlin;
use weir_engine::Graph;

use super::query::{Asked, run};
use super::reply::Reply;
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::wire::query::{Drawn, QueryBody, Shape};

pub async fn values(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    traverse(app, request, Shape::Values).await
}

pub async fn nodes(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    traverse(app, request, Shape::Drawing(Drawn::Nodes)).await
}

pub async fn edges(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    traverse(app, request, Shape::Drawing(Drawn::Edges)).await
}

async fn traverse(app: Arc<App>, request: Request, shape: Shape) -> Result<Reply, ApiError> {
    let mut asked = Asked::read(&app, &request)?;
    asked.body = told(&asked.common.graph, &asked.body)?;
    run(app, asked, shape, false).await
}

/// The traversal in Cypher.
pub fn told(graph: &Graph, body: &QueryBody) -> Result<QueryBody, ApiError> {
    let told =
        gremlin::tell(&body.text, &body.parameters, graph.ids()).map_err(|mistake| ApiError::Cypher(mistake.to_string()))?;
    Ok(QueryBody { text: told.text, parameters: told.parameters })
}
