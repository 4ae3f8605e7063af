//! A source with its bounds: records skipped and taken, the rate limit, the header row, and the count of records. Once,
//! for all sources.
//!
//! Its position is the source's own with what the bounds need to go on: the number of records taken and the header.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_model::{Position, Text};

use crate::bell::Call;
use crate::decode::{CsvCharacters, split_row};
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits, Progress};
use crate::rate::RateLimiter;
use crate::source::{Source, SourceConfig};
use crate::sources;

/// Which records of a source are taken, and how fast.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Records dropped at the start. A header row counts as one of them: with 1, the second row is the header.
    pub skip: u64,
    /// Records taken after that; a header row is not one.
    pub limit: Option<u64>,
    pub per_second: Option<u32>,
    /// The first row names the columns.
    pub header: Option<CsvCharacters>,
}

pub struct RecordStream {
    source: Box<dyn Source>,
    bounds: Bounds,
    limiter: Option<RateLimiter>,
    place: Place,
    columns: Option<Arc<[Text]>>,
}

/// Where a stream stands: what a position holds.
#[derive(Clone, PartialEq, Debug, Default)]
struct Place {
    /// Records handed out.
    taken: u64,
    /// Records still to be skipped.
    skip: u64,
    /// The header row as it was read.
    header: Option<Vec<u8>>,
    source: Vec<u8>,
}

impl RecordStream {
    /// `open` starts the source at a position of its own.
    pub fn open(
        bounds: Bounds,
        from: Option<&Position>,
        open: impl FnOnce(Option<&Position>) -> Result<Box<dyn Source>, ConnectorError>,
    ) -> Result<RecordStream, ConnectorError> {
        // An empty position is that of a stream which has not handed out anything yet.
        let from = from.filter(|position| !position.0.is_empty());
        let limiter = bounds.per_second.map(RateLimiter::new);
        let Some(position) = from else {
            let place = Place { skip: bounds.skip, ..Place::default() };
            return Ok(RecordStream { source: open(None)?, bounds, limiter, place, columns: None });
        };
        let place = Place::read(&position.0).ok_or_else(|| ConnectorError::Position {
            place: "the stream".to_owned(),
            problem: "the stored position is damaged or not of this version; delete the stream and create it anew".to_owned(),
        })?;
        // So is that of a source which has not.
        let stood = Some(Position(place.source.clone())).filter(|position| !position.0.is_empty());
        let source = open(stood.as_ref())?;
        let columns = place.columns(&bounds)?;
        Ok(RecordStream { source, bounds, limiter, place, columns })
    }

    /// Clears the batch and fills it with the next records. Returns within `limits.wait_max`, about.
    pub fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        batch.clear();
        let deadline = Instant::now() + limits.wait_max;
        loop {
            let Some(records_max) = self.room(limits, deadline) else {
                return Ok(self.hand_out(batch, Progress::More));
            };
            if records_max == 0 {
                return Ok(self.hand_out(batch, Progress::Finished));
            }
            let wait_max = deadline.saturating_duration_since(Instant::now());
            let progress = self.source.next(&Limits { records_max, wait_max, ..*limits }, batch)?;
            if !batch.position.0.is_empty() {
                self.place.source.clone_from(&batch.position.0);
            }
            if batch.begins && self.bounds.header.is_some() {
                self.place.header = None;
            }
            if self.skipping() {
                self.skip(batch)?;
                // Skipped rows are not a batch: the next ones are read at once, but not for ever.
                if batch.is_empty() && progress == Progress::More && Instant::now() < deadline {
                    batch.clear();
                    continue;
                }
            }
            return Ok(self.hand_out(batch, progress));
        }
    }

    /// Where it stands, also before the first `next`. Never empty.
    pub fn position(&self) -> Position {
        let mut position = Position::default();
        self.place.write(&mut position.0);
        position
    }

    /// Everything up to the position, one that `next` gave, is durable.
    pub fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        match Place::read(&position.0) {
            Some(place) => self.source.durable(&Position(place.source)),
            None => Ok(()),
        }
    }

    /// See `Source::rest`.
    pub fn rest(&mut self, call: Call) -> bool {
        self.source.rest(call)
    }

    /// See `Source::hold`.
    pub fn hold(&mut self) -> Option<Duration> {
        self.source.hold()
    }

    /// See `Source::lag`.
    pub fn lag(&mut self) -> Option<u64> {
        self.source.lag()
    }

    /// What keeps the source from reading at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.source.trouble()
    }

    /// What has happened that nobody would see in the records.
    pub fn notice(&self) -> Option<String> {
        self.source.notice()
    }

    /// Records handed out since the stream was created, also before a restart.
    pub fn taken(&self) -> u64 {
        self.place.taken
    }

    fn skipping(&self) -> bool {
        self.place.skip > 0 || (self.bounds.header.is_some() && self.place.header.is_none())
    }

    /// How many records may come now. None when the rate limit allows none until the deadline.
    fn room(&mut self, limits: &Limits, deadline: Instant) -> Option<usize> {
        // Rows that are skipped pass unmeasured; the header is one row, so that the limits hold for what follows it.
        if self.place.skip > 0 {
            return Some(limits.records_max.min(usize::try_from(self.place.skip).unwrap_or(usize::MAX)));
        }
        if self.skipping() {
            return Some(1);
        }
        let left = self.bounds.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.place.taken));
        let room = limits.records_max.min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(limiter) = &mut self.limiter else { return Some(room) };
        if room == 0 {
            return Some(0);
        }
        loop {
            match limiter.permits(Instant::now()) {
                Ok(permits) => return Some(room.min(permits)),
                Err(wait) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    thread::sleep(wait.min(left));
                }
            }
        }
    }

    fn skip(&mut self, batch: &mut Frames) -> Result<(), ConnectorError> {
        let skipped = batch.len().min(usize::try_from(self.place.skip).unwrap_or(usize::MAX));
        batch.skip(skipped);
        self.place.skip -= skipped as u64;
        if self.place.skip == 0 && self.place.header.is_none() && self.bounds.header.is_some() && !batch.is_empty() {
            self.place.header = Some(batch.get(0).bytes.to_vec());
            batch.skip(1);
            self.columns = self.place.columns(&self.bounds)?;
        }
        Ok(())
    }

    fn hand_out(&mut self, batch: &mut Frames, progress: Progress) -> Progress {
        batch.first_number = self.place.taken;
        batch.columns = self.columns.clone();
        self.place.taken += batch.len() as u64;
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(batch.len(), Instant::now());
        }
        self.place.write(&mut batch.position.0);
        let full = self.bounds.limit.is_some_and(|limit| self.place.taken >= limit) && !self.skipping();
        if full { Progress::Finished } else { progress }
    }
}

impl Place {
    const VERSION: u8 = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(Place::VERSION);
        out.extend_from_slice(&self.taken.to_le_bytes());
        out.extend_from_slice(&self.skip.to_le_bytes());
        // One more than the length, so that 0 is no header.
        let header = self.header.as_ref().map_or(0, |header| header.len() as u64 + 1);
        out.extend_from_slice(&header.to_le_bytes());
        out.extend_from_slice(self.header.as_deref().unwrap_or_default());
        out.extend_from_slice(&self.source);
    }

    fn read(bytes: &[u8]) -> Option<Place> {
        let (version, rest) = bytes.split_first()?;
        let (taken, rest) = rest.split_first_chunk::<8>()?;
        let (skip, rest) = rest.split_first_chunk::<8>()?;
        let (header, rest) = rest.split_first_chunk::<8>()?;
        let (header, source) = match u64::from_le_bytes(*header).checked_sub(1) {
            None => (None, rest),
            Some(length) => {
                let (header, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Some(header.to_vec()), rest)
            }
        };
        let (taken, skip) = (u64::from_le_bytes(*taken), u64::from_le_bytes(*skip));
        (*version == Place::VERSION).then(|| Place { taken, skip, header, source: source.to_vec() })
    }

    fn columns(&self, bounds: &Bounds) -> Result<Option<Arc<[Text]>>, ConnectorError> {
        let (Some(header), Some(characters)) = (&self.header, bounds.header) else { return Ok(None) };
        let columns = split_row(header, characters)
            .map_err(|problem| ConnectorError::Framing { place: "the header row".to_owned(), problem })?;
        Ok(Some(columns.into()))
    }
}

/// A position of a stream as people are shown it: how many records the stream had given by then, and where its source stood.
/// Without the definition of a stream, as that of one that is gone, it is shown what the position says by itself.
pub fn shown_position(definition: Option<&dyn SourceConfig>, position: &Position) -> Json {
    let Some(Place { taken, source, .. }) = Place::read(&position.0) else { return plain(&position.0) };
    // There are sources that keep nothing, and have none.
    if source.is_empty() {
        return json!({"records": taken, "at": null});
    }
    let shown = match definition {
        Some(definition) => definition.shown_position(&source),
        None => sources::shown_place(&source, None),
    };
    json!({"records": taken, "at": shown.unwrap_or_else(|| plain(&source))})
}

/// As it is written where that is text, else in hexadecimal digits.
fn plain(position: &[u8]) -> Json {
    match std::str::from_utf8(position) {
        Ok(text) if !text.chars().any(char::is_control) => {
            serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
        }
        _ => Json::String(position.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// Runs a stream to its end. `wait` bounds how long it may give nothing.
#[cfg(test)]
pub fn drain(stream: &mut RecordStream, wait: Duration, mut each: impl FnMut(&Frames)) -> Result<Progress, ConnectorError> {
    let mut batch = Frames::default();
    let mut last = Instant::now();
    loop {
        let progress = stream.next(&Limits::default(), &mut batch)?;
        if !batch.is_empty() {
            last = Instant::now();
            each(&batch);
        }
        if progress == Progress::Finished || last.elapsed() > wait {
            return Ok(progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SOURCES, SourceRow, parse_source_v1};

    struct Nothing;

    impl Source for Nothing {
        fn next(&mut self, _limits: &Limits, _batch: &mut Frames) -> Result<Progress, ConnectorError> {
            Ok(Progress::Finished)
        }
    }

    #[test]
    fn a_stream_that_has_read_nothing_has_a_position_too() {
        let open = |from: Option<&Position>| {
            let bounds = Bounds { skip: 2, ..Bounds::default() };
            let begin = |from: Option<&Position>| -> Result<Box<dyn Source>, ConnectorError> {
                assert!(from.is_none(), "the source begins where it would");
                Ok(Box::new(Nothing))
            };
            RecordStream::open(bounds, from, begin).unwrap()
        };
        let position = open(None).position();
        assert!(!position.0.is_empty());
        let mut again = open(Some(&position));
        assert_eq!(again.position(), position);
        let mut batch = Frames::default();
        again.next(&Limits::default(), &mut batch).unwrap();
        assert_eq!(batch.position, position);
    }

    /// As a stream holds it that has given two records.
    fn of_stream(source: &[u8]) -> Position {
        let mut position = Position::default();
        Place { taken: 2, source: source.to_vec(), ..Place::default() }.write(&mut position.0);
        position
    }

    /// Where the file ends up to which was read, as `sources/files.rs` writes it.
    fn of_file(name: &[u8], within: &[u8]) -> Vec<u8> {
        [b"files\0\0\x01\0".as_slice(), &[0; 10], &(name.len() as u32).to_le_bytes(), name, within].concat()
    }

    /// A position of a kind of source, and what people are shown of it.
    fn sample(kind: &str) -> (Vec<u8>, Json) {
        let number = |number: u64| number.to_le_bytes().to_vec();
        match kind {
            "File" => (of_file(b"", &number(42)), json!({"file": "people.jsonl", "byte": 42})),
            "NumberIterator" => (number(7), json!({"number": 7})),
            "StdInput" | "WebSocketFileUpload" => (number(42), json!({"byte": 42})),
            "HttpPush" => ([vec![1], number(5), number(0)].concat(), json!({"requests": 5})),
            "HttpPoll" => (br#"{"cursor":"c5"}"#.to_vec(), json!({"cursor": "c5"})),
            "ServerSentEvent" => (b"e7".to_vec(), json!({"lastEventId": "e7"})),
            "WebsocketClient" | "ReactiveStream" => (Vec::new(), Json::Null),
            "Redis" => (b"1700000000000-0".to_vec(), json!({"id": "1700000000000-0"})),
            "Amqp" | "Mqtt" | "SQS" => (number(3), json!({"message": 3})),
            "Nats" => {
                let created = b"2024-05-06T07:08:09Z".to_vec();
                ([number(9), created].concat(), json!({"sequence": 9, "created": "2024-05-06T07:08:09Z"}))
            }
            "Postgres" => {
                let bytes = [number(1), vec![0], number(7), number(0x16_B374_D848), number(2)].concat();
                (bytes, json!({"lsn": "16/B374D848", "changes": 2}))
            }
            "Kafka" => {
                let bytes = [b"\x01\0t\x01\0\0\0".as_slice(), &3_i32.to_le_bytes(), &17_i64.to_le_bytes()].concat();
                (bytes, json!({"t": {"3": 17}}))
            }
            "Kinesis" | "KinesisKCL" => {
                let bytes = br#"{"from":0,"shards":{"s-0":{"After":"4960"},"s-1":"Begun","s-2":"Read"}}"#.to_vec();
                (bytes, json!({"s-0": "4960", "s-1": "nothing read", "s-2": "read to its end"}))
            }
            "S3" => {
                let bytes = [b"\x05\0\"abc\"".to_vec(), number(42)].concat();
                (bytes, json!({"object": "s3://lake/2026/people.jsonl", "version": "\"abc\"", "byte": 42}))
            }
            other => panic!("how is a position of {other} shown?"),
        }
    }

    #[test]
    fn of_each_source_people_are_shown_where_it_stood() {
        for SourceRow { name, sample: definition, .. } in SOURCES {
            let definition = parse_source_v1(&definition()).unwrap();
            let (position, expected) = sample(name);
            let shown = shown_position(Some(&*definition), &of_stream(&position));
            assert_eq!(shown, json!({"records": 2, "at": expected}), "{name}");
            // What is none of its positions is shown as it is, or as one that it could be.
            for damaged in [&[255; 3][..], &[255; 40][..]] {
                shown_position(Some(&*definition), &of_stream(damaged));
            }
        }
    }

    #[test]
    fn what_a_position_says_depends_on_the_definition() {
        let [eight, sixteen] = [1, 2].map(|count| [5_u64, 3].map(u64::to_le_bytes).concat()[..8 * count].to_vec());
        for (definition, position, expected) in [
            (
                json!({"type": "FileIngest", "path": "*.avro", "format": {"type": "CypherAvroContainer", "query": "RETURN 1"}}),
                of_file(b"a.avro", &sixteen),
                json!({"file": "a.avro", "block": 5, "recordsOfBlock": 3}),
            ),
            (
                json!({"type": "FileIngest", "path": "a.parquet", "format": {"type": "CypherParquet", "query": "RETURN 1"}}),
                of_file(b"", &sixteen),
                json!({"file": "a.parquet", "row": 5}),
            ),
            // As it was written before there were patterns, and where there is a list of JSON around the records.
            (
                json!({"type": "FileIngest", "path": "a.jsonl"}),
                [&eight[..], &[1]].concat(),
                json!({"file": "a.jsonl", "byte": 5}),
            ),
            (
                json!({"type": "RedisIngest", "url": "redis://127.0.0.1:6379", "key": "k", "field": "f", "group": "g"}),
                [&eight[..], b"weir-1"].concat(),
                json!({"message": 5, "consumer": "weir-1"}),
            ),
            (
                json!({"type": "NatsIngest", "servers": ["nats://127.0.0.1:4222"], "stream": "s", "consumer": "c"}),
                eight.clone(),
                json!({"message": 5}),
            ),
        ] {
            let parsed = parse_source_v1(&definition).unwrap();
            let shown = shown_position(Some(&*parsed), &of_stream(&position));
            assert_eq!(shown["at"], expected, "{definition}");
        }
    }

    #[test]
    fn of_a_stream_that_is_gone_it_is_shown_what_the_position_says_by_itself() {
        let number = 42_u64.to_le_bytes();
        for (position, expected) in [
            (of_file(b"a/b.jsonl", &number), json!({"file": "a/b.jsonl", "byte": 42})),
            (of_file(b"", &number), json!({"byte": 42})),
            (br#"{"cursor":"c5"}"#.to_vec(), json!({"cursor": "c5"})),
            (b"e7".to_vec(), json!("e7")),
            (number.to_vec(), json!("2a00000000000000")),
            (Vec::new(), Json::Null),
        ] {
            assert_eq!(shown_position(None, &of_stream(&position)), json!({"records": 2, "at": expected}));
        }
        // Of another version, or none of a stream.
        assert_eq!(shown_position(None, &Position(vec![0, 255])), json!("00ff"));
        assert_eq!(shown_position(None, &Position(b"{\"offset\":5}".to_vec())), json!({"offset": 5}));
    }
}
