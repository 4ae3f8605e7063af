//! Server-sent events as a browser has them: one after another, each with the id to come back with.

use std::io::{BufRead, BufReader, Lines, Read};
use std::net::TcpStream;

use crate::client;
use crate::service::Weir;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Empty where nothing has come for a while.
    pub name: String,
    pub id: String,
    pub data: String,
}

pub struct Events {
    lines: Lines<BufReader<TcpStream>>,
}

impl Events {
    /// Follows from now on, or from behind the last event. The error is an answer that refuses it.
    pub fn open(weir: &Weir, target: &str, last: Option<&str>) -> Result<Events, String> {
        let last = last.map(|id| ("Last-Event-ID", id));
        let headers: Vec<(&str, &str)> = [("Accept", "text/event-stream")].into_iter().chain(last).collect();
        let mut stream = client::open(weir.address(), "GET", target, &headers, b"").expect("weir can be reached");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head of an answer");
            head.push(byte[0]);
        }
        let mut head = String::from_utf8_lossy(&head).into_owned();
        if !head.starts_with("HTTP/1.1 200 ") {
            stream.read_to_string(&mut head).expect("the rest of the answer");
            return Err(head);
        }
        Ok(Events { lines: BufReader::new(stream).lines() })
    }

    /// The next that is a result.
    pub fn result(&mut self) -> Event {
        loop {
            let event = self.next().expect("a result");
            if !event.name.is_empty() {
                return event;
            }
        }
    }
}

/// Until the stream ends.
impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut is_one = false;
        loop {
            // Sizes of pieces stand between the lines, and are none of them.
            let line = self.lines.next()?.ok()?;
            match line.trim_end().split_once(':') {
                Some(("event", name)) => event.name = name.trim().to_owned(),
                Some(("id", id)) => event.id = id.trim().to_owned(),
                Some(("data", data)) => (event.data, is_one) = (data.trim().to_owned(), true),
                _ if line.trim_end().is_empty() && is_one => return Some(event),
                _ => {}
            }
        }
    }
}
