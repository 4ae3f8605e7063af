//! The web sockets: the query protocol, the results of standing queries and what flows through their outputs, uploads.

use std::sync::Arc;

use super::reply::Reply;
use super::request::Request;
use super::{ingest, standing};
use crate::app::App;
use crate::error::ApiError;
use crate::events::Hub;
use crate::outputs::RunningOutput;
use crate::sockets::language::Conversation;
use crate::sockets::protocol::Protocol;
use crate::sockets::upload::receive;
use crate::sockets::{accept, listen};

pub async fn query(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    let protocol = Protocol { app, graph, family: request.family, client: request.client() };
    Ok(Reply::Whole(accept(&request.headers, request.upgrade, |socket| protocol.talk(socket))))
}

/// What editors ask about texts.
pub async fn language(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let conversation = Conversation::new(app.clone(), request.graph(&app)?);
    Ok(Reply::Whole(accept(&request.headers, request.upgrade, |socket| conversation.talk(socket))))
}

/// v1: results from now on. The socket ends with the query.
pub async fn results(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = standing::find(&app, &request)?;
    Ok(tapped(app, request, &query.results, false))
}

/// v2: the same, over a socket that stays.
pub async fn tap(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = standing::find(&app, &request)?;
    Ok(tapped(app, request, &query.tap, true))
}

pub async fn tap_before(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let output = output(&app, &request)?;
    Ok(tapped(app, request, &output.taps.before, true))
}

pub async fn tap_after(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let output = output(&app, &request)?;
    Ok(tapped(app, request, &output.taps.after, true))
}

/// v2: the file of a stream that waits for one.
pub async fn upload(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let stream = ingest::find(&app, &request)?;
    let name = &stream.name;
    let upload = stream.upload().ok_or_else(|| ApiError::bad(format!("the ingest stream `{name}` takes no uploads")))?;
    let taken = || ApiError::bad(format!("the ingest stream `{name}` has got its upload; create another one"));
    let uploader = upload.begin().ok_or_else(taken)?;
    Ok(Reply::Whole(accept(&request.headers, request.upgrade, {
        let stream = stream.clone();
        move |socket| receive(app, socket, stream, uploader)
    })))
}

fn output(app: &App, request: &Request) -> Result<Arc<RunningOutput>, ApiError> {
    let name = request.name(1);
    standing::find(app, request)?.output(name).ok_or_else(|| ApiError::absent("output", name))
}

fn tapped(app: Arc<App>, request: Request, hub: &Hub, stays: bool) -> Reply {
    let events = hub.listen();
    Reply::Whole(accept(&request.headers, request.upgrade, move |socket| listen(app, socket, events, stays)))
}
