//! Live events for browsers and SSE clients: one sender, any number of listeners, none of which can hold up the sender.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use warp::Reply;
use warp::http::HeaderValue;
use warp::reply::Response;
use warp::sse::Event;

/// Events waiting for one listener. A listener that is slower loses events rather than slow the graph.
const WAITING_MAX: usize = 1024;

const HEARTBEAT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Live {
    /// `result`, `cancellation`, or a name of the live page.
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
        !self.listeners.lock().unwrap_or_else(|e| e.into_inner()).is_empty()
    }

    pub fn send(&self, live: Live) {
        let mut listeners = self.listeners.lock().unwrap_or_else(|e| e.into_inner());
        listeners.retain(|listener| !matches!(listener.try_send(live.clone()), Err(mpsc::error::TrySendError::Closed(_))));
    }

    pub fn listen(&self) -> mpsc::Receiver<Live> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        self.listeners.lock().unwrap_or_else(|e| e.into_inner()).push(sender);
        receiver
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.listeners.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }
}

/// The events as a response: an empty event at once and after every ten seconds of silence.
pub fn stream(receiver: mpsc::Receiver<Live>) -> Response {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reply = warp::sse::reply(Events { receiver, heartbeat }).into_response();
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
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
            return Poll::Ready(next.map(|live| {
                let event = Event::default().event(live.name).data(live.data);
                Ok(match live.id {
                    Some(id) => event.id(id),
                    None => event,
                })
            }));
        }
        match self.heartbeat.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Event::default().data("")))),
            Poll::Pending => Poll::Pending,
        }
    }
}
