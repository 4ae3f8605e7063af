//! Schemas that a definition or a query names by their place: fetched when a stream is made or started or a query runs, and kept,
//! since the next one comes soon.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use weir_model::lock::lock;
use weir_model::protobuf::{MessageType, Schema};

use crate::error::ConnectorError;
use crate::fetch;
use crate::file_policy::FilePolicy;
use crate::host_policy::HostPolicy;

/// A longer one is none.
const SCHEMA_BYTES_MAX: usize = 4 << 20;

/// Schemas kept of each kind.
const KEPT_MAX: usize = 5;

/// For how long what a web server gave is taken for what it has.
const FRESH_TIME_MAX: Duration = Duration::from_secs(10);

/// The state of a file: it is read again when that has changed.
type State = Option<(SystemTime, u64)>;

struct Kept<T> {
    location: String,
    state: State,
    fetched: Instant,
    schema: Arc<T>,
}

/// The newest first.
type Cache<T> = Mutex<VecDeque<Kept<T>>>;

/// The text behind a URL or path, which has to be allowed.
pub fn text(location: &str, files: &FilePolicy, hosts: &HostPolicy) -> Result<Arc<String>, ConnectorError> {
    static KEPT: Cache<String> = Mutex::new(VecDeque::new());
    let read = |bytes| {
        let problem = "the schema is no text in UTF-8";
        String::from_utf8(bytes)
            .map_err(|_| ConnectorError::config("schemaUrl", format!("{}: {problem}", fetch::shown(location))))
    };
    known_or(&KEPT, location, files, hosts, read)
}

static DESCRIPTORS: Cache<Schema> = Mutex::new(VecDeque::new());

/// A message of the descriptor set behind a URL or path, which has to be allowed.
pub fn message(url: &str, name: &str, files: &FilePolicy, hosts: &HostPolicy) -> Result<MessageType, ConnectorError> {
    let read = |bytes: Vec<u8>| Schema::read(&bytes).map_err(|error| wrong(url, "schemaUrl", error));
    known_or(&DESCRIPTORS, url, files, hosts, read)?.message(name).map_err(|error| wrong(url, "typeName", error))
}

/// As `message`, without anything being fetched; None where it would have to be.
pub fn message_at_hand(url: &str, name: &str, files: &FilePolicy) -> Result<Option<MessageType>, ConnectorError> {
    let (_, Some((true, schema))) = known(&DESCRIPTORS, url, files)? else { return Ok(None) };
    schema.message(name).map(Some).map_err(|error| wrong(url, "typeName", error))
}

fn wrong(url: &str, field: &str, error: impl Display) -> ConnectorError {
    ConnectorError::config(field, format!("{}: {error}", fetch::shown(url)))
}

fn known_or<T>(
    cache: &Cache<T>,
    location: &str,
    files: &FilePolicy,
    hosts: &HostPolicy,
    read: impl FnOnce(Vec<u8>) -> Result<T, ConnectorError>,
) -> Result<Arc<T>, ConnectorError> {
    let (state, known) = known(cache, location, files)?;
    if let Some((true, schema)) = known {
        return Ok(schema);
    }
    let schema = match (fetch::whole(location, files, hosts, SCHEMA_BYTES_MAX).and_then(read), known) {
        (Ok(schema), _) => Arc::new(schema),
        (Err(error), Some((_, old))) if error.retryable() => {
            tracing::warn!("{error}; the schema that was there is used further");
            old
        }
        (Err(error), _) => return Err(error),
    };
    let mut kept = lock(cache);
    kept.retain(|other| other.location != location);
    kept.truncate(KEPT_MAX - 1);
    kept.push_front(Kept { location: location.to_owned(), state, fetched: Instant::now(), schema: schema.clone() });
    Ok(schema)
}

/// What is kept, and whether it is still taken for what is there.
type Known<T> = Option<(bool, Arc<T>)>;

/// The state of a file as it is now, and what is kept of the location.
fn known<T>(cache: &Cache<T>, location: &str, files: &FilePolicy) -> Result<(State, Known<T>), ConnectorError> {
    // Of files it is asked each time whether they may be read.
    let state = if fetch::is_file(location) { Some(state(location, files)?) } else { None };
    let known = lock(cache).iter().find(|kept| kept.location == location).map(|kept| {
        let same = if state.is_some() { kept.state == state } else { kept.fetched.elapsed() < FRESH_TIME_MAX };
        (same, kept.schema.clone())
    });
    Ok((state, known))
}

/// When a file was written, and its length.
fn state(location: &str, files: &FilePolicy) -> Result<(SystemTime, u64), ConnectorError> {
    let path = fetch::file(location, files)?;
    let known = fs::metadata(&path).and_then(|known| Ok((known.modified()?, known.len())));
    known.map_err(|error| ConnectorError::io(location, "cannot be looked at", error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::conformance::anything;
    use crate::decode::decode;
    use crate::frames::Frames;
    use crate::{ConnectorError, FilePolicy, SourceContext};

    #[test]
    fn records_are_read_by_a_schema_from_a_file_that_may_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("person.avsc");
        let source = |path: &std::path::Path| {
            let format = json!({"type": "CypherAvro", "query": "RETURN 1", "schemaUrl": path});
            let definition = json!({"type": "ServerSentEventsIngest", "url": "http://h/", "format": format});
            crate::parse_source_v1(&definition).unwrap()
        };
        let problem = |path: &std::path::Path| source(path).check(&anything()).unwrap_err().to_string();
        assert!(problem(&path).contains("no such file"));
        std::fs::write(&path, "{}").unwrap();
        assert!(problem(&path).contains("option `format.schemaUrl`"), "{}", problem(&path));
        std::fs::write(&path, r#"{"type": "record", "name": "p", "fields": [{"name": "age", "type": "int"}]}"#).unwrap();
        source(&path).check(&anything()).unwrap();
        let nothing = SourceContext { files: FilePolicy::default(), ..anything() };
        assert!(matches!(source(&path).check(&nothing), Err(ConnectorError::File { .. })));
        let (mut frames, mut records, mut failures) = (Frames::default(), Vec::new(), Vec::new());
        [&[84][..], &[], &[2, 2]].iter().for_each(|bytes| frames.push(bytes));
        decode(&*source(&path).decoder(&anything()).unwrap(), &frames, &mut records, &mut failures);
        assert_eq!(records.iter().map(weir_model::Value::shown).collect::<Vec<_>>(), ["{ age: 42 }"]);
        assert_eq!(failures.len(), 2);
    }

    const DESCRIPTORS: &[u8] = include_bytes!("../../model/src/protobuf/vectors/all.desc");

    #[test]
    fn messages_are_read_by_descriptors_from_a_file_that_may_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shapes.desc");
        let source = |name: &str| {
            let format = json!({"type": "CypherProtobuf", "query": "RETURN 1", "schemaUrl": path, "typeName": name});
            let definition = json!({"type": "ServerSentEventsIngest", "url": "http://h/", "format": format});
            crate::parse_source_v1(&definition).unwrap()
        };
        let problem = |name: &str| source(name).check(&anything()).unwrap_err().to_string();
        assert!(problem("Times").contains("no such file"));
        std::fs::write(&path, "syntax = \"proto3\";").unwrap();
        assert!(problem("Times").starts_with("option `format.schemaUrl`"), "{}", problem("Times"));
        assert!(problem("Times").contains("not a descriptor set"));
        std::fs::write(&path, DESCRIPTORS).unwrap();
        source("shapes.Times").check(&anything()).unwrap();
        assert!(problem("Nothing").starts_with("option `format.typeName`"), "{}", problem("Nothing"));
        assert!(problem("Tree").contains("may be any of shapes.Tree, fresh.Tree"), "{}", problem("Tree"));
        let nothing = SourceContext { files: FilePolicy::default(), ..anything() };
        assert!(matches!(source("Times").check(&nothing), Err(ConnectorError::File { .. })));
        let at_hand = |path: &std::path::Path| {
            super::message_at_hand(path.to_str().unwrap(), "Times", &anything().files).unwrap().is_some()
        };
        let other = directory.path().join("other.desc");
        std::fs::write(&other, DESCRIPTORS).unwrap();
        source("Times").check(&anything()).unwrap();
        assert_eq!([at_hand(&path), at_hand(&other)], [true, false]);
        assert!(super::message_at_hand(path.to_str().unwrap(), "Nothing", &anything().files).is_err());
        std::fs::write(&path, [DESCRIPTORS, DESCRIPTORS].concat()).unwrap();
        assert!(!at_hand(&path), "it has changed");
        std::fs::write(&path, DESCRIPTORS).unwrap();
        let (mut frames, mut records, mut failures) = (Frames::default(), Vec::new(), Vec::new());
        [&[0x18, 84][..], &[], &[0x18]].iter().for_each(|bytes| frames.push(bytes));
        decode(&*source("Times").decoder(&anything()).unwrap(), &frames, &mut records, &mut failures);
        let shown: Vec<_> = records.iter().map(weir_model::Value::shown).collect();
        assert_eq!(shown, ["{ millis: 84, text: \"\" }", "{ millis: 0, text: \"\" }"]);
        let reason = "the record is not shapes.Times: field `millis`: the message ends too early";
        assert_eq!(failures.iter().map(|failure| failure.reason.as_str()).collect::<Vec<_>>(), [reason]);
    }
}
