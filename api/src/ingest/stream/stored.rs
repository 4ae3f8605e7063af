//! What is stored of a stream, and what clients are shown of it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use weir_engine::{Engine, EngineError};
use weir_model::lock::lock;

use super::told::KeptRecord;
use super::{State, Status, Stream};
use crate::clock;
use crate::ingest::key;
use crate::wire::family::Family;
use crate::wire::v2;

/// What is told of a stream after a restart, as it was when it was last stored.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stored {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) failed_records: u64,
    pub(super) kept: Vec<KeptRecord>,
    pub(super) coming_again: BTreeSet<u64>,
    // Streams that are stored already have it under this name.
    #[serde(rename = "unnamed_records")]
    pub(super) unanchored_records: u64,
    /// Milliseconds since 1970; none of a stream that is new.
    pub(super) started: Option<u64>,
    /// Milliseconds.
    pub(super) ran: u64,
}

/// How a stream begins, or comes back: with its status, the reason for it, and what is told of its earlier lives.
pub struct Life {
    pub status: Status,
    pub message: Option<String>,
    pub past: Stored,
}

impl Life {
    /// The first one.
    pub fn first(status: Status) -> Life {
        Life { status, message: None, past: Stored::default() }
    }
}

impl Stream {
    fn runtime(&self, state: &State) -> Duration {
        state.ended_after.unwrap_or_else(|| self.ran + self.clock.elapsed())
    }

    /// Stores it as it is. What is forgotten stays so.
    pub(in crate::ingest) fn store(&self, engine: &Engine) -> Result<(), EngineError> {
        let is_forgotten = lock(&self.storing);
        if *is_forgotten {
            return Ok(());
        }
        let mut settings = self.config.stored();
        self.errors.store(&mut settings);
        self.transformation.show(&mut settings);
        let state = self.lock();
        let told = &state.told;
        let past = Stored {
            records: self.records.count(),
            bytes: self.bytes.count(),
            failed_records: told.failed_records,
            kept: told.kept.clone(),
            coming_again: told.coming_again.clone(),
            unanchored_records: told.unanchored_records,
            started: Some(clock::millis(self.started)),
            ran: self.runtime(&state).as_millis() as u64,
        };
        let stored = json!({
            "name": self.name,
            "source": self.source,
            "status": state.gate.status.name(),
            "message": told.message,
            "settings": settings,
            "past": past,
        });
        drop(state);
        engine.set_metadata(&key(&self.graph, &self.name), Some(stored.to_string().as_bytes()))
    }

    /// Removes what is stored of it, and what the graph knows of its source.
    pub(in crate::ingest) fn forget(&self, engine: &Engine) -> Result<(), EngineError> {
        let mut is_forgotten = lock(&self.storing);
        // Somebody else may have been faster, and the name be that of another one.
        if !*is_forgotten {
            engine.set_metadata(&key(&self.graph, &self.name), None)?;
            self.graph.forget_source(&self.source)?;
            *is_forgotten = true;
        }
        Ok(())
    }

    /// The end of one that has ended by itself.
    pub(in crate::ingest) fn store_end(&self, engine: &Engine) {
        if let Err(error) = self.store(engine) {
            tracing::error!(ingest = self.name, "its end could not be stored: {error}");
        }
    }

    /// What clients see; `name` where the answer is not an object keyed by it.
    pub fn to_json(&self, family: Family, with_name: bool) -> Json {
        let state = self.lock();
        let told = &state.told;
        let mut info = if with_name { json!({"name": self.name}) } else { json!({}) };
        info["status"] = family.word(state.gate.status.name()).into();
        if let Some(message) = state.message() {
            info["message"] = message.into();
        }
        let settings = self.config.settings();
        info["settings"] = if family.is_v2() {
            v2::ingest::shown(&self.name, &settings, (&self.errors, &self.transformation), family)
        } else {
            settings
        };
        let runtime = self.runtime(&state);
        info["stats"] = json!({
            "ingestedCount": self.records.count(),
            "rates": self.records.to_json(),
            "byteRates": self.bytes.to_json(),
            "startTime": clock::instant(self.started),
            "totalRuntime": family.duration(runtime),
        });
        if let Some(lag) = told.lag {
            info["stats"]["lag"] = lag.into();
        }
        if told.unanchored_records > 0 {
            info["stats"]["withoutAnchor"] = told.unanchored_records.into();
        }
        if told.failed_records > 0 {
            let kept =
                told.kept.iter().map(|record| json!({"number": record.number, "reason": record.reason, "sample": record.sample}));
            info["failedRecords"] = json!({"count": told.failed_records, "first": kept.collect::<Vec<_>>()});
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_weirs_stored_is_read() {
        let past = Stored { unanchored_records: 3, ..Stored::default() };
        assert_eq!(serde_json::to_value(&past).expect("it is stored")["unnamed_records"], 3);
        let read: Stored = serde_json::from_value(json!({"unnamed_records": 4})).expect("it is read");
        assert_eq!(read.unanchored_records, 4);
    }
}
