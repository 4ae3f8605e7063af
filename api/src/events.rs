//! Live events for browsers and SSE clients: one sender, any number of listeners, none of which can hold up the sender. And the
//! results of a standing query, for those who follow it, which have places to come back to.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use warp::http::HeaderValue;
use warp::reply::Response;
use warp::{Reply, sse};
use weir_connectors::Encoder;
use weir_model::lock::lock;

use crate::auth::Lease;
use crate::outputs::Sent;
use crate::standing::{Follower, News};

/// Events waiting for one listener, and their bytes; one that is larger waits alone. A listener that is slower loses events
/// rather than slow the graph.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 1 << 20;

const HEARTBEAT: Duration = Duration::from_secs(10);

/// Nothing has come for a while. The id is how far that goes.
pub const REST: &str = "";

/// What comes next is not kept any more: the last event.
pub const GAP: &str = "gap";

#[derive(Clone, Debug)]
pub struct Event {
    /// `result`, `cancellation`, `REST`, `GAP`, or a name of the live page.
    pub name: &'static str,
    pub id: Option<String>,
    pub data: String,
}

impl Event {
    fn bytes(&self) -> usize {
        self.data.len() + self.id.as_ref().map_or(0, String::len)
    }
}

pub struct Broadcast {
    /// None once it is closed.
    listeners: Mutex<Option<Vec<Ear>>>,
}

/// The end of the sender.
struct Ear {
    events: mpsc::Sender<Event>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// One who listens.
pub struct Listener {
    events: mpsc::Receiver<Event>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Ear {
    /// Lets it hear the event, if there is room. Only one thread does at a time.
    fn tell(&self, event: &Event) {
        let (bytes, waiting) = (event.bytes(), self.waiting_bytes.load(Ordering::Relaxed));
        if waiting > 0 && waiting + bytes > WAITING_BYTES_MAX {
            return;
        }
        // Counted before, for whoever takes it counts it off.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.events.try_send(event.clone()).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Listener {
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.events.poll_recv(context);
        if let Poll::Ready(Some(event)) = &next {
            self.waiting_bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
        }
        next
    }

    /// The next event; none once the broadcast is closed.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_recv(context)).await
    }
}

impl Default for Broadcast {
    fn default() -> Broadcast {
        Broadcast { listeners: Mutex::new(Some(Vec::new())) }
    }
}

impl Broadcast {
    pub fn is_heard(&self) -> bool {
        lock(&self.listeners).iter().flatten().any(|ear| !ear.events.is_closed())
    }

    pub fn send(&self, event: Event) {
        if let Some(listeners) = &mut *lock(&self.listeners) {
            listeners.retain(|ear| !ear.events.is_closed());
            listeners.iter().for_each(|ear| ear.tell(&event));
        }
    }

    pub fn listen(&self) -> Listener {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let waiting_bytes = Arc::<AtomicUsize>::default();
        if let Some(listeners) = &mut *lock(&self.listeners) {
            // Where nothing is sent for long, this is when those who have gone are seen.
            listeners.retain(|ear| !ear.events.is_closed());
            listeners.push(Ear { events: sender, waiting_bytes: waiting_bytes.clone() });
        }
        Listener { events: receiver, waiting_bytes }
    }

    /// Ends all streams, and those that begin later at once.
    pub fn close(&self) {
        *lock(&self.listeners) = None;
    }
}

/// The results of one who follows, as events: `REST` at once and after every ten seconds of silence.
pub fn follow(follower: Follower, encoder: Encoder) -> impl Stream<Item = Event> + Send + Sync {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let following = Following { follower, encoder, waiting: Vec::new().into_iter(), heartbeat, begun: false, over: false };
    stream::unfold(following, |mut following| async move { following.next().await.map(|event| (event, following)) })
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
    async fn next(&mut self) -> Option<Event> {
        if !self.begun {
            self.begun = true;
            self.heartbeat.reset();
            return Some(rest(self.follower.place().to_string()));
        }
        loop {
            if let Some(result) = self.waiting.next() {
                self.heartbeat.reset();
                return Some(result.event(&self.encoder));
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
                        return Some(Event { name: GAP, id: None, data });
                    }
                    News::Ended => return None,
                },
                _ = self.heartbeat.tick() => return Some(rest(self.follower.rest().to_string())),
            }
        }
    }
}

fn rest(place: String) -> Event {
    Event { name: REST, id: Some(place), data: String::new() }
}

/// What one who follows gets, as a response. A browser that has lost the connection comes back with the id of the last event.
/// Ends with the login of whoever asked.
pub fn following(events: impl Stream<Item = Event> + Send + Sync + 'static, lease: Lease) -> Response {
    respond(events.map(|event| Ok(written(event))).take_until(lease.ended()))
}

fn written(event: Event) -> sse::Event {
    let written = if event.name == REST { sse::Event::default() } else { sse::Event::default().event(event.name) };
    let written = written.data(event.data);
    match event.id {
        Some(id) => written.id(id),
        None => written,
    }
}

fn respond(events: impl Stream<Item = Result<sse::Event, Infallible>> + Send + Sync + 'static) -> Response {
    let mut reply = sse::reply(events).into_response();
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

/// The events as a response: an empty event at once and after every ten seconds of silence. Ends as `following` does.
pub fn listening(listener: Listener, lease: Lease) -> Response {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    respond(Events { listener, heartbeat }.take_until(lease.ended()))
}

struct Events {
    listener: Listener,
    heartbeat: Interval,
}

impl Stream for Events {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(next) = self.listener.poll_recv(context) {
            self.heartbeat.reset();
            return Poll::Ready(next.map(|event| Ok(written(event))));
        }
        match self.heartbeat.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(sse::Event::default().data("")))),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_has_gone_is_let_go_of_though_nothing_is_sent() {
        let broadcast = Broadcast::default();
        (0..3).for_each(|_| drop(broadcast.listen()));
        assert!(!broadcast.is_heard());
        let _one = broadcast.listen();
        assert!(broadcast.is_heard());
        assert_eq!(lock(&broadcast.listeners).as_ref().map(Vec::len), Some(1));
    }

    /// All that waits.
    fn heard(listener: &mut Listener) -> Vec<usize> {
        std::iter::from_fn(|| listener.recv().now_or_never().flatten()).map(|event| event.data.len()).collect()
    }

    /// A thousand were kept for one who took nothing, whatever they were: hundreds of megabytes.
    #[test]
    fn what_waits_for_a_listener_is_bounded_by_its_bytes_and_its_number() {
        let broadcast = Broadcast::default();
        let send = |bytes: usize| broadcast.send(Event { name: "result", id: None, data: "x".repeat(bytes) });
        let mut listener = broadcast.listen();
        (0..10).for_each(|_| send(WAITING_BYTES_MAX / 4));
        send(1);
        assert_eq!(heard(&mut listener), [WAITING_BYTES_MAX / 4; 4]);
        // There is room again, also for one that is larger than all of it.
        (0..2).for_each(|_| send(2 * WAITING_BYTES_MAX));
        assert_eq!(heard(&mut listener), [2 * WAITING_BYTES_MAX]);
        (0..2 * WAITING_MAX).for_each(|_| send(1));
        assert_eq!(heard(&mut listener).len(), WAITING_MAX);
        send(1);
        assert_eq!(heard(&mut listener), [1], "those that had no room are not counted");
    }

    #[test]
    fn who_comes_after_the_end_is_sent_off() {
        let broadcast = Broadcast::default();
        let mut before = broadcast.listen();
        broadcast.close();
        for listener in [&mut before, &mut broadcast.listen()] {
            assert!(matches!(listener.recv().now_or_never(), Some(None)));
        }
        assert!(!broadcast.is_heard());
    }
}
