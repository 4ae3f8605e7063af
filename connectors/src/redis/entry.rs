//! Entries of a stream as Redis answers with them, however they were asked for, and how many to ask for the next time.

use serde_json::{Map as JsonMap, Value as Json};

use super::connection::Reply;
use crate::ends::Refused;

/// Bytes of one answer, about.
const ANSWER_BYTES: usize = 4 << 20;

/// Entries asked for at once, at first.
const COUNT_FIRST: usize = 100;
/// Entries asked for at once, at most.
const COUNT_MAX: usize = 5_000;

pub struct Entry {
    pub id: Vec<u8>,
    /// Bytes of all its fields, as they came.
    pub bytes: usize,
    /// None of one without the field, and of one that was deleted meanwhile.
    pub record: Option<Vec<u8>>,
}

/// How many entries to ask for.
pub struct Count(usize);

impl Count {
    pub fn new() -> Count {
        Count(COUNT_FIRST)
    }

    pub fn get(&self) -> usize {
        self.0
    }

    /// More or fewer, after the size of these.
    pub fn learn(&mut self, entries: &[Entry]) {
        let bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
        if let Some(entry_bytes) = bytes.checked_div(entries.len()) {
            self.0 = (ANSWER_BYTES / entry_bytes.max(1)).clamp(1, COUNT_MAX).min(self.0 * 4);
        }
    }

    /// Fewer: the answer was longer than it may be, or something on its way cut it off, and so it would the same one.
    pub fn cut(&mut self) {
        self.0 = (self.0 / 4).max(1);
    }
}

/// An error of Redis that stays what it is.
pub fn refused(reply: Reply) -> Result<Reply, Refused> {
    reply.ok().map_err(|error| match error.split(' ').next() {
        Some("WRONGTYPE") => Refused::ForGood("the key holds something else than a stream".to_owned()),
        Some("MOVED") => Refused::ForGood(format!("{error}: give the server of the cluster that has the key")),
        _ => Refused::Passing(error),
    })
}

fn odd() -> Refused {
    Refused::Passing("the answer is not one with entries of a stream".to_owned())
}

/// The entries of an answer about one stream; none when there was nothing in time.
pub fn of_stream(reply: Reply, field: Option<&[u8]>) -> Result<Vec<Entry>, Refused> {
    let streams = match reply {
        Reply::Null => return Ok(Vec::new()),
        Reply::List(streams) => streams,
        _ => return Err(odd()),
    };
    let Some(Reply::List(stream)) = streams.into_iter().next() else { return Err(odd()) };
    listed(stream.into_iter().nth(1).ok_or_else(odd)?, field)
}

/// The entries of a list.
pub fn listed(list: Reply, field: Option<&[u8]>) -> Result<Vec<Entry>, Refused> {
    let Reply::List(entries) = list else { return Err(odd()) };
    let entry = |entry: Reply| {
        let Reply::List(parts) = entry else { return Err(odd()) };
        let mut parts = parts.into_iter();
        let (Some(Reply::Bytes(id)), Some(fields)) = (parts.next(), parts.next()) else { return Err(odd()) };
        let fields = if let Reply::List(fields) = fields { fields } else { Vec::new() };
        let bytes = fields.iter().map(|part| if let Reply::Bytes(bytes) = part { bytes.len() } else { 0 }).sum();
        Ok(Entry { id, bytes, record: record(fields, field) })
    };
    // Redis before 7 has nothing at the place of an entry that was deleted.
    entries.into_iter().filter(|reply| *reply != Reply::Null).map(entry).collect()
}

fn record(fields: Vec<Reply>, wanted: Option<&[u8]>) -> Option<Vec<u8>> {
    let bytes = |reply: Reply| if let Reply::Bytes(bytes) = reply { bytes } else { Vec::new() };
    let mut fields = fields.into_iter().map(bytes);
    if let Some(wanted) = wanted {
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            if name == wanted {
                return Some(value);
            }
        }
        return None;
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut all = JsonMap::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        all.insert(text(name), text(value).into());
    }
    (!all.is_empty()).then(|| Json::Object(all).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_nobody_wants_count_too() {
        let part = |length: usize| Reply::Bytes(vec![b'f'; length]);
        let entry = Reply::List(vec![part(3), Reply::List(vec![part(1), part(2), part(9), part(2 << 20)])]);
        let entries = listed(Reply::List(vec![entry]), Some(b"f")).unwrap();
        assert_eq!(entries[0].record.as_deref(), Some(&b"ff"[..]));
        let mut count = Count::new();
        count.learn(&entries);
        assert_eq!(count.get(), 1, "two would have more than an answer is to have");
        // More again, little by little.
        let small = listed(Reply::List(vec![Reply::List(vec![part(3), Reply::List(vec![part(1), part(2)])])]), None).unwrap();
        count.learn(&small);
        assert_eq!(count.get(), 4);
        count.cut();
        count.cut();
        assert_eq!(count.get(), 1);
    }
}
