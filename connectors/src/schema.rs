//! Schemas that a definition names by their place: fetched when a stream is made or started, and kept for a moment, since
//! both come one after the other.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ConnectorError;
use crate::fetch;
use crate::source::SourceContext;

/// A longer one is none.
const SCHEMA_BYTES_MAX: usize = 4 << 20;

/// Schemas kept, and for how long: then a new version is seen.
const KEPT_MAX: usize = 5;
const KEPT_TIME_MAX: Duration = Duration::from_secs(10);

struct Kept {
    location: String,
    fetched: Instant,
    text: String,
}

/// The text behind a URL or path, which has to be allowed.
pub fn text(location: &str, context: &SourceContext) -> Result<String, ConnectorError> {
    static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // Of files it is asked each time whether they may be read.
    let remote = location.starts_with("http");
    let known = |kept: &&Kept| remote && kept.location == location && kept.fetched.elapsed() < KEPT_TIME_MAX;
    if let Some(known) = kept().iter().find(known) {
        return Ok(known.text.clone());
    }
    let bytes = fetch::whole(location, &context.files, &context.hosts, SCHEMA_BYTES_MAX)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| ConnectorError::config("format.schemaUrl", format!("{location}: the schema is no text in UTF-8")))?;
    let mut kept = kept();
    kept.retain(|other| other.location != location);
    kept.truncate(KEPT_MAX - 1);
    kept.push_front(Kept { location: location.to_owned(), fetched: Instant::now(), text: text.clone() });
    Ok(text)
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
}
