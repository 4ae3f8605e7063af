//! What is told of a stream: why it does not get on, and which of its records came to nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_cypher_compiler::expression_text;
use weir_engine::{RESULTS_WAITING_MAX, Unanchored};

use super::{State, Stream};

/// Records of which an anchor named no node are told of once in this time.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// How many failed records are kept to be looked at; the count goes on.
const FAILURES_KEPT_MAX: usize = 100;

/// A record that had no effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptRecord {
    pub number: u64,
    pub reason: String,
    pub sample: String,
}

#[derive(Default)]
pub(super) struct Told {
    /// Why it has ended.
    pub(super) message: Option<String>,
    /// What keeps the source from reading at the moment.
    pub(super) trouble: Option<String>,
    /// What has happened to what it reads, and does not pass.
    pub(super) notice: Option<String>,
    /// How many records its source has not read, as far as that is known.
    pub(super) lag: Option<u64>,
    /// What keeps dead letters from their destination.
    pub(super) undelivered: Option<String>,
    /// What keeps its records from taking effect.
    pub(super) late: Option<String>,
    /// What keeps what has taken effect from being durable.
    pub(super) undurable: Option<String>,
    /// Results that nobody has taken keep it from changing the graph.
    pub(super) waits_for_results: bool,
    pub(super) failed_records: u64,
    pub(super) kept: Vec<KeptRecord>,
    /// The numbers of failed records whose batch was left without effect as the stream ended. They are before no position: they
    /// are counted, and come again when it is started again.
    pub(super) coming_again: BTreeSet<u64>,
    /// Records of which an anchor of the query named no node.
    pub(super) unanchored_records: u64,
    /// When such records were last told of.
    pub(super) unanchored_told: Option<Instant>,
}

impl Told {
    /// It has ended, for this reason where there is one. What kept it is over.
    pub(super) fn end(&mut self, message: Option<String>) {
        self.message = message;
        (self.trouble, self.undelivered, self.late, self.undurable, self.lag) = (None, None, None, None, None);
    }
}

impl State {
    /// Why it does not get on, or has ended.
    pub(super) fn message(&self) -> Option<String> {
        let State { gate, told, .. } = self;
        let waits = || {
            told.waits_for_results.then(|| {
                format!(
                    "waits: a standing query has more than {RESULTS_WAITING_MAX} results that an output has not taken; `holdsIngest` in its status says which"
                )
            })
        };
        // Of a stream that waits for something else, what it was late for is over.
        let late = || told.late.clone().filter(|_| !gate.holds());
        let known = told.message.as_ref().or(told.undelivered.as_ref()).cloned();
        let known = known.or_else(waits).or_else(late).or_else(|| told.undurable.clone());
        known.or_else(|| told.trouble.clone()).or_else(|| told.notice.clone())
    }
}

impl Stream {
    /// Why it has ended.
    pub fn message(&self) -> Option<String> {
        self.lock().told.message.clone()
    }

    /// Why it has ended, or why it does not get on: what its status tells.
    pub fn told(&self) -> Option<String> {
        self.lock().message()
    }

    /// How many records its source has not read, as far as that is known.
    pub fn lag(&self) -> Option<u64> {
        self.lock().told.lag
    }

    pub fn failed_records(&self) -> u64 {
        self.lock().told.failed_records
    }

    /// The records kept aside but the first ones: number, reason and sample of each.
    pub fn kept_from(&self, first: usize) -> Vec<(u64, String, String)> {
        let state = self.lock();
        state.told.kept.iter().skip(first).map(|kept| (kept.number, kept.reason.clone(), kept.sample.clone())).collect()
    }

    pub(in crate::ingest) fn note_trouble(&self, trouble: Option<String>) {
        self.lock().told.trouble = trouble;
    }

    pub(in crate::ingest) fn note_notice(&self, notice: Option<String>) {
        if notice.is_some() {
            self.lock().told.notice = notice;
        }
    }

    pub(in crate::ingest) fn note_lag(&self, lag: Option<u64>) {
        self.lock().told.lag = lag;
    }

    pub(in crate::ingest) fn note_undelivered(&self, reason: Option<String>) {
        self.lock().told.undelivered = reason;
    }

    pub(in crate::ingest) fn note_late(&self, reason: Option<String>) {
        self.lock().told.late = reason;
    }

    pub(in crate::ingest) fn note_undurable(&self, reason: Option<String>) {
        self.lock().told.undurable = reason;
    }

    /// Nothing fails for such a record, and what it was to change is not changed: without this nobody would know.
    pub(in crate::ingest) fn note_unanchored(&self, Unanchored { records, anchor }: &Unanchored) {
        if *records == 0 {
            return;
        }
        let (mut state, now) = (self.lock(), Instant::now());
        let told = &mut state.told;
        told.unanchored_records += records;
        if told.unanchored_told.is_some_and(|told| now - told < TELL_INTERVAL) {
            return;
        }
        told.unanchored_told = Some(now);
        let total = told.unanchored_records;
        drop(state);
        let anchor = anchor.as_ref().map(|anchor| format!("`{}`", expression_text(&self.query.plan, anchor)));
        let anchor = anchor.as_deref().unwrap_or("an anchor (`id(n) = …`)");
        tracing::warn!(
            ingest = self.name,
            "{anchor} in the query of the stream was null, or no id, and so found no node, in {total} records so far: what hangs on that node did not happen for these. Where that is meant, a condition beside it, such as `$that.key IS NOT NULL`, says so"
        );
    }

    /// Counts a record that had no effect, and keeps it if there is room. The log has the first of them, then every thousandth.
    pub(in crate::ingest) fn set_aside(&self, number: u64, reason: String, sample: String) {
        let mut state = self.lock();
        let told = &mut state.told;
        if told.coming_again.remove(&number) {
            return;
        }
        told.failed_records += 1;
        if self.errors.log_record && (told.failed_records <= 10 || told.failed_records.is_multiple_of(1000)) {
            let count = told.failed_records;
            tracing::warn!(ingest = self.name, record = number, count, "a record had no effect: {reason}");
        }
        if told.kept.len() < FAILURES_KEPT_MAX {
            told.kept.push(KeptRecord { number, reason, sample });
        }
    }

    /// As `set_aside`, for a record that ends the stream and comes again.
    pub(in crate::ingest) fn set_aside_to_come_again(&self, number: u64, reason: String, sample: String) {
        self.set_aside(number, reason, sample);
        self.lock().told.coming_again.insert(number);
    }

    /// Those that were set aside come again: the rest of their batch is left without effect.
    pub(in crate::ingest) fn let_come_again(&self, numbers: impl Iterator<Item = u64>) {
        self.lock().told.coming_again.extend(numbers);
    }
}
