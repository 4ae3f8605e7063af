//! Server-sent events: from the bytes of a body to events, as the HTML standard has them.
//!
//! A line ends with a newline, a carriage return, or both; an empty one ends an event. It knows nothing of connections.
//! The bounds are its own: eventsource-client, which was considered, has none, and wants to be given an HTTP client anyway.

use std::time::Duration;

/// Bytes of a line, at most, as the reference service has it.
pub const LINE_BYTES_MAX: usize = 5 << 20;
/// Bytes of the data of one event, at most.
pub const EVENT_BYTES_MAX: usize = LINE_BYTES_MAX + 1;

/// Reads one connection.
#[derive(Debug, Default)]
pub struct EventParser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a newline that follows ends no further line.
    after_return: bool,
    /// A byte order mark may stand before the first line only.
    lines: u64,
    data: Vec<u8>,
    has_data: bool,
    /// The type of the event that is being read.
    kind: String,
    /// The id of the newest event, also one of an earlier connection.
    id: String,
    /// The id of the newest event that has ended, also of one without data: what the next connection goes on behind.
    pub ended_id: String,
    /// How long the server wants to be left alone after a connection.
    pub retry: Option<Duration>,
    /// What the event that is being read says of that.
    retry_of_event: Option<Duration>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    pub data: Vec<u8>,
    /// The id to go on behind; of an earlier event when this one has none.
    pub id: String,
    /// Empty where it has none.
    pub kind: String,
    pub retry: Option<Duration>,
}

impl EventParser {
    pub fn new(id: String) -> EventParser {
        EventParser { ended_id: id.clone(), id, ..EventParser::default() }
    }

    /// The next connection; what the last one left unfinished is none.
    pub fn begin_anew(&mut self, id: String) {
        *self = EventParser { retry: self.retry, ..EventParser::new(id) };
    }

    /// Reads what has come; events that are complete are appended.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), String> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.extend(&bytes[..end])?;
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, events)?;
            self.line = line;
            self.line.clear();
            let rest = &bytes[end + 1..];
            bytes = match (bytes[end], rest) {
                (b'\r', []) => {
                    self.after_return = true;
                    rest
                }
                (b'\r', [b'\n', rest @ ..]) => rest,
                _ => rest,
            };
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(format!("a line of an event has more than {LINE_BYTES_MAX} bytes"));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], events: &mut Vec<Event>) -> Result<(), String> {
        let line = if self.lines == 0 { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) } else { line };
        self.lines += 1;
        if line.is_empty() {
            self.ended_id.clone_from(&self.id);
            if std::mem::take(&mut self.has_data) {
                events.push(Event {
                    data: std::mem::take(&mut self.data),
                    id: self.id.clone(),
                    kind: std::mem::take(&mut self.kind),
                    retry: self.retry_of_event,
                });
            }
            self.kind.clear();
            self.retry_of_event = None;
            return Ok(());
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                if self.data.len() + value.len() > EVENT_BYTES_MAX {
                    return Err(format!("an event has more than {EVENT_BYTES_MAX} bytes"));
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            // An id with a zero in it counts as none.
            b"id" if !value.contains(&0) => self.id = String::from_utf8_lossy(value).into_owned(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = millis.map(Duration::from_millis);
                self.retry_of_event = self.retry;
            }
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            // Comments, and what is not known.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::Random;

    fn events(text: &str) -> Vec<(String, String)> {
        let (mut parser, mut events) = (EventParser::new("0".to_owned()), Vec::new());
        parser.push(text.as_bytes(), &mut events).unwrap();
        // However it is cut into chunks, the same.
        for size in 1..5 {
            let (mut parser, mut again) = (EventParser::new("0".to_owned()), Vec::new());
            text.as_bytes().chunks(size).for_each(|chunk| parser.push(chunk, &mut again).unwrap());
            assert_eq!(again, events, "in chunks of {size}");
        }
        events.into_iter().map(|event| (String::from_utf8(event.data).unwrap(), event.id)).collect()
    }

    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(data, id)| ((*data).to_owned(), (*id).to_owned())).collect();
        assert_eq!(events(text), expected, "{text:?}");
    }

    #[test]
    fn events_are_read_as_the_standard_has_them() {
        check("data: YHOO\ndata: +2\ndata: 10\n\n", &[("YHOO\n+2\n10", "0")]);
        check(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            &[("first event", "1"), ("second event", ""), (" third event", "")],
        );
        check("data\n\ndata\ndata\n\ndata:", &[("", "0"), ("\n", "0")]);
        check("data:a\r\rdata:b\r\n\r\ndata:c\n\n", &[("a", "0"), ("b", "0"), ("c", "0")]);
        check("\u{feff}data:a\n\n\u{feff}data:b\n\n", &[("a", "0")]);
        check("event: x\nid: 7\n\nfoo: bar\nretry: x\ndata: é\n\n", &[("é", "7")]);
        check("id: a\0b\ndata: 1\n\n", &[("1", "0")]);
    }

    #[test]
    fn an_event_without_data_has_an_id_too() {
        let mut parser = EventParser::new("0".to_owned());
        for (text, id) in [("id: 1\ndata: a", "0"), ("\n\n", "1"), ("id: 2\n\nid: 3\n", "2")] {
            parser.push(text.as_bytes(), &mut Vec::new()).unwrap();
            assert_eq!(parser.ended_id, id, "{text:?}");
        }
    }

    #[test]
    fn an_event_has_what_it_says_of_waiting_itself() {
        let (mut parser, mut events) = (EventParser::default(), Vec::new());
        parser.push(b"retry: 5\n\nretry: 7\ndata: a\n\ndata: b\n\n", &mut events).unwrap();
        let told: Vec<_> = events.iter().map(|event| event.retry.map(|retry| retry.as_millis())).collect();
        assert_eq!((told, parser.retry), (vec![Some(7), None], Some(Duration::from_millis(7))));
    }

    #[test]
    fn the_server_says_how_long_to_wait() {
        let (mut parser, mut events) = (EventParser::default(), Vec::new());
        parser.push(b"retry: 1500\nretry: 1x\n", &mut events).unwrap();
        assert_eq!(parser.retry, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_kept() {
        let (mut parser, mut events) = (EventParser::default(), Vec::new());
        let chunk = vec![b'x'; 1 << 20];
        assert!((0..5).all(|_| parser.push(&chunk, &mut events).is_ok()));
        assert!(parser.push(b"x", &mut events).unwrap_err().contains("more than 5242880 bytes"));
        let (mut parser, mut line) = (EventParser::default(), b"data:".to_vec());
        line.extend_from_slice(&chunk);
        line.push(b'\n');
        let refused = (0..6).find_map(|_| parser.push(&line, &mut events).err());
        assert!(refused.unwrap().contains("an event has more than 5242881 bytes"));
    }

    #[test]
    fn any_bytes_are_events_or_nothing() {
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let (mut parser, mut events) = (EventParser::default(), Vec::new());
            let bytes = random.bytes(b"data:id:retry: \r\n\n:1\0");
            let cut = random.below(bytes.len() + 1);
            parser.push(&bytes[..cut], &mut events).unwrap();
            parser.push(&bytes[cut..], &mut events).unwrap();
            assert!(events.iter().map(|event| event.data.len()).sum::<usize>() <= bytes.len());
        }
    }
}
