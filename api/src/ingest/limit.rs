//! How many records of a stream may fail before it stops: `onRecordError.stopAfter`, of weir's own.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::{parse_duration, setting_text};

const PATH: &str = ".onRecordError.stopAfter";

/// As a definition has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureLimit {
    records: u64,
    /// Counted anew after this; never where it is not given.
    within: Option<Duration>,
}

/// The failures of one attempt.
pub struct Failures {
    limit: Option<FailureLimit>,
    count: u64,
    since: Instant,
}

impl FailureLimit {
    pub fn read(given: &Json, mistakes: &mut Mistakes) -> Option<FailureLimit> {
        let fields = Fields::of(given, PATH, mistakes)?;
        let records = fields.get("records").and_then(Json::as_u64);
        if records.is_none() {
            mistakes.at(&format!("{PATH}.records"), "give the number of records that may fail, at least 0");
        }
        let within = match fields.get("within") {
            None => None,
            Some(given) => {
                let read = given.as_str().and_then(parse_duration).filter(|duration| !duration.is_zero());
                if read.is_none() {
                    mistakes.at(&format!("{PATH}.within"), format!("'{given}' is no duration, such as 10s or 1m30s"));
                }
                Some(read?)
            }
        };
        Some(FailureLimit { records: records?, within })
    }

    pub fn shown(&self) -> Json {
        let mut shown = json!({"records": self.records});
        if let Some(within) = self.within {
            shown["within"] = setting_text(within).into();
        }
        shown
    }
}

impl Failures {
    pub fn new(limit: Option<FailureLimit>) -> Failures {
        Failures { limit, count: 0, since: Instant::now() }
    }

    /// Counts records that failed, the last of them for the reason `last`. An error: they are too many.
    pub fn add(&mut self, records: usize, last: impl FnOnce() -> String) -> Result<(), String> {
        let Some(FailureLimit { records: most, within }) = self.limit.filter(|_| records > 0) else { return Ok(()) };
        if within.is_some_and(|within| self.since.elapsed() > within) || self.count == 0 {
            (self.count, self.since) = (0, Instant::now());
        }
        self.count += records as u64;
        if self.count <= most {
            return Ok(());
        }
        let within =
            within.map_or(" since the stream was started".to_owned(), |within| format!(" within {}", setting_text(within)));
        Err(format!(
            "{} records failed{within}, more than the {most} of onRecordError.stopAfter; the last: {}",
            self.count,
            last()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_so_many_are_too_many_and_others_begin_anew_after_a_while() {
        let read = |given: Json| FailureLimit::read(&given, &mut Mistakes::default());
        // Much longer than a machine stands still between two lines of a test.
        let limit = read(json!({"records": 2, "within": "2500ms"})).expect("a limit");
        assert_eq!(limit.shown(), json!({"records": 2, "within": "2500ms"}));
        let between = json!({"records": 2, "within": "1500ms"});
        assert_eq!(read(between.clone()).map(|limit| limit.shown()), Some(between));
        let mut failures = Failures::new(Some(limit));
        let mut add = |count| failures.add(count, || "so".to_owned());
        assert_eq!([add(0), add(1), add(1)], [Ok(()), Ok(()), Ok(())]);
        std::thread::sleep(Duration::from_millis(2600));
        assert_eq!([add(0), add(2)], [Ok(()), Ok(())]);
        let told = add(1).expect_err("too many");
        assert!(told.starts_with("3 records failed within 2500ms, more than the 2") && told.ends_with("the last: so"), "{told}");
        assert_eq!(Failures::new(None).add(1 << 40, String::new), Ok(()));
        for wrong in [json!({}), json!({"records": -1}), json!({"records": "5"}), json!({"records": 1, "within": "0s"}), json!(5)]
        {
            let mut mistakes = Mistakes::default();
            assert!(FailureLimit::read(&wrong, &mut mistakes).is_none() && !mistakes.0.is_empty(), "{wrong}");
        }
    }
}
