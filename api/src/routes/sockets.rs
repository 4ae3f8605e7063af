//! The web sockets: the query protocol, the results of standing queries and what flows through their outputs, uploads.

use std::future::ready;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::json;
use weir_connectors::Envelope;
use weir_model::Place;

use super::reply::Reply;
use super::request::Request;
use super::standing::Following;
use super::{ingest, standing};
use crate::app::App;
use crate::error::ApiError;
use crate::events::{self, Broadcast, Event, REST};
use crate::outputs::{Tap, TapPoints};
use crate::sockets::language::Conversation;
use crate::sockets::protocol::Protocol;
use crate::sockets::upload::receive;
use crate::sockets::{accept, is_handshake, listen, refusal};

pub async fn query(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    // One that is not there is told in the handshake.
    request.graph(&app)?;
    let graph_name = request.named_graph().map(str::to_owned);
    let (client, caller) = (request.client(), request.caller.clone());
    let protocol = Protocol { app, graph_name, family: request.family, client, caller };
    Ok(Reply::Whole(accept(request, |socket| protocol.talk(socket))))
}

/// What editors ask about texts.
pub async fn language(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    request.graph(&app)?;
    let conversation = Conversation::new(app, request.named_graph().map(str::to_owned));
    Ok(Reply::Whole(accept(request, |socket| conversation.talk(socket))))
}

/// v1: results as they come. The socket ends with the query.
pub async fn results(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    follow(app, request, false).await
}

/// v2: the same, over a socket that stays.
pub async fn tap(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    follow(app, request, true).await
}

async fn follow(app: Arc<App>, request: Request, stays: bool) -> Result<Reply, ApiError> {
    let following = Following::of(&request)?;
    let query = standing::find(&app, &request)?;
    let (follower, encoder) = following.begin(query).await?;
    let with_tick = encoder.envelope == Envelope::WithTick;
    let first = with_tick.then(|| begins(follower.place()));
    let events = events::follow(follower, encoder).filter(|event| ready(event.name != REST));
    let events = stream::iter(first).chain(events);
    Ok(Reply::Whole(accept(request, move |socket| listen(app, socket, events, stays))))
}

/// Where the results begin: what a client comes back with that has got none.
fn begins(place: Place) -> Event {
    let data = json!({"meta": {"tick": place.tick.0.to_string(), "eventId": place.to_string()}}).to_string();
    Event { name: "begins", id: None, data }
}

pub async fn tap_before(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    tapped(app, request, |points| &points.before)
}

pub async fn tap_after(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    tapped(app, request, |points| &points.after)
}

/// v2: the file of a stream that waits for one.
pub async fn upload(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let stream = ingest::find(&app, &request)?;
    let name = &stream.name;
    let upload = stream.upload().ok_or_else(|| ApiError::bad(format!("the ingest stream `{name}` takes no uploads")))?;
    // One that ended before a restart still has its inlet, and nobody reads what comes there.
    if stream.status().is_terminal() {
        return Err(ApiError::bad(format!("the ingest stream `{name}` has ended; create another one")));
    }
    // The only inlet is not for those who are refused.
    if !is_handshake(&request.headers) {
        return Ok(Reply::Whole(refusal()));
    }
    let taken = || ApiError::bad(format!("the ingest stream `{name}` has got its upload; create another one"));
    let uploader = upload.begin().ok_or_else(taken)?;
    Ok(Reply::Whole(accept(request, {
        let stream = stream.clone();
        move |socket| receive(app, socket, stream, uploader)
    })))
}

/// To an output, or to all destinations of a workflow.
fn tapped(app: Arc<App>, request: Request, which: fn(&TapPoints) -> &Broadcast) -> Result<Reply, ApiError> {
    let name = request.resource(1, "outputName")?;
    let query = standing::find(&app, &request)?;
    let is_part = |own: &str| query.output_settings(own).is_some_and(|output| output.workflow() == Some(name));
    let outputs = query.figures().into_iter().map(|(figures, _)| figures.name);
    let outputs = outputs.filter(|own| own == name || is_part(own));
    let tap_points: Vec<Arc<TapPoints>> = outputs.filter_map(|own| query.tap_points(&own)).collect();
    if tap_points.is_empty() {
        return Err(ApiError::absent("output", name));
    }
    let tap = Tap::of(tap_points.iter().map(|points| which(points)));
    Ok(Reply::Whole(accept(request, move |socket| listen(app, socket, tap, true))))
}
