//! Live events for browsers and SSE clients: one sender, any number of listeners, none of which can hold up the sender. And the
//! results of a standing query, for those who follow it, which have places to come back to.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use warp::Reply;
use warp::http::HeaderValue;
use warp::reply::Response;
use warp::sse::Event;
use weir_connectors::Encoder;
use weir_model::lock::lock;

use crate::outputs::Sent;
use crate::standing::{Follower, News};

/// Events waiting for one listener. A listener that is slower loses events rather than slow the graph.
const WAITING_MAX: usize = 1024;

const HEARTBEAT: Duration = Duration::from_secs(10);

/// Nothing has come for a while. The id is how far that goes.
pub const REST: &str = "";

/// What comes next is not kept any more: the last event.
pub const GAP: &str = "gap";

#[derive(Clone, Debug)]
pub struct Live {
    /// `result`, `cancellation`, `REST`, `GAP`, or a name of the live page.
    pub name: &'static str,
    pub id: Option<String>,
    pub data: String,
}

#[derive(Default)]
pub struct Hub {
    listeners: Mutex<Vec<mpsc::Sender<Live>>>,
}

impl Hub {
    pub fn is_heard(&self) -> bool {
        lock(&self.listeners).iter().any(|listener| !listener.is_closed())
    }

    pub fn send(&self, live: Live) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| !matches!(listener.try_send(live.clone()), Err(mpsc::error::TrySendError::Closed(_))));
    }

    pub fn listen(&self) -> mpsc::Receiver<Live> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let mut listeners = lock(&self.listeners);
        // Where nothing is sent for long, this is when those who have gone are seen.
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(sender);
        receiver
    }

    /// Ends all streams.
    pub fn close(&self) {
        lock(&self.listeners).clear();
    }
}

/// The results of one who follows, as events: `REST` at once and after every ten seconds of silence.
pub fn follow(follower: Follower, encoder: Encoder) -> impl Stream<Item = Live> + Send + Sync {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let following = Following { follower, encoder, waiting: Vec::new().into_iter(), heartbeat, begun: false, over: false };
    stream::unfold(following, |mut following| async move { following.next().await.map(|live| (live, following)) })
}

struct Following {
    follower: Follower,
    encoder: Encoder,
    waiting: std::vec::IntoIter<Sent>,
    heartbeat: Interval,
    begun: bool,
    over: bool,
}

impl Following {
    async fn next(&mut self) -> Option<Live> {
        if !self.begun {
            self.begun = true;
            self.heartbeat.reset();
            return Some(rest(self.follower.place().to_string()));
        }
        loop {
            if let Some(result) = self.waiting.next() {
                self.heartbeat.reset();
                return Some(result.live(&self.encoder));
            }
            if self.over {
                return None;
            }
            tokio::select! {
                biased;
                news = self.follower.next() => match news {
                    News::Results(results) => self.waiting = results.into_iter(),
                    News::Lost(behind, kept) => {
                        self.over = true;
                        let data = json!({"behind": behind.to_string(), "keptBehind": kept.to_string()}).to_string();
                        return Some(Live { name: GAP, id: None, data });
                    }
                    News::Ended => return None,
                },
                _ = self.heartbeat.tick() => return Some(rest(self.follower.rest().to_string())),
            }
        }
    }
}

fn rest(place: String) -> Live {
    Live { name: REST, id: Some(place), data: String::new() }
}

/// What one who follows gets, as a response. A browser that has lost the connection comes back with the id of the last event.
pub fn following(events: impl Stream<Item = Live> + Send + Sync + 'static) -> Response {
    respond(events.map(|live| Ok(event(live))))
}

fn event(live: Live) -> Event {
    let event = if live.name == REST { Event::default() } else { Event::default().event(live.name) };
    let event = event.data(live.data);
    match live.id {
        Some(id) => event.id(id),
        None => event,
    }
}

fn respond(events: impl Stream<Item = Result<Event, Infallible>> + Send + Sync + 'static) -> Response {
    let mut reply = warp::sse::reply(events).into_response();
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

/// The events as a response: an empty event at once and after every ten seconds of silence.
pub fn listening(receiver: mpsc::Receiver<Live>) -> Response {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    respond(Events { receiver, heartbeat })
}

struct Events {
    receiver: mpsc::Receiver<Live>,
    heartbeat: Interval,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(next) = self.receiver.poll_recv(context) {
            self.heartbeat.reset();
            return Poll::Ready(next.map(|live| Ok(event(live))));
        }
        match self.heartbeat.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Event::default().data("")))),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_gone_is_let_go_of_though_nothing_is_sent() {
        let hub = Hub::default();
        (0..3).for_each(|_| drop(hub.listen()));
        assert!(!hub.is_heard());
        let _one = hub.listen();
        assert!(hub.is_heard());
        assert_eq!(lock(&hub.listeners).len(), 1);
    }
}
