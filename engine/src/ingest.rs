//! Ingest: a batch of records becomes one entry of the log.
//!
//! Each record is a transaction of its own with a tick of its own; that they travel in one batch changes nothing but
//! the cost. A record whose query fails leaves no trace but its failure, and the others go on.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::{Clock, Expr, Failure, Mutations, Position, Text, Tick, Value};

use crate::commit::Change;
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Fetched, Prepared};
use crate::graph::Graph;
use crate::view::View;
use crate::view::overlay::Overlay;

/// How often a batch is tried before it is evaluated under the lock of the graph.
const TRIES: usize = 2;

/// What comes to a stream within this time of its last record goes into one batch, where few came last. A commit costs some 80 µs
/// of processor time whatever is in it.
const GATHERED: Duration = Duration::from_micros(300);
/// A stream waits for more records where fewer than this came last.
const FEW: usize = 128;

/// Lets more records gather at their source, if there were few of them when the last ones came.
pub fn wait_for_more(records: usize, received: Instant) {
    if (1..FEW).contains(&records) {
        std::thread::sleep(GATHERED.saturating_sub(received.elapsed()));
    }
}

/// Runs the ingest query of one stream, batch after batch.
pub struct Ingester {
    graph: Graph,
    query: Arc<Prepared>,
    received: Option<Instant>,
}

#[derive(Debug)]
pub struct Ingested {
    /// The tick after the last record of the batch.
    pub upper: Tick,
    /// Records that had no effect, by index, with the reason.
    pub failures: Vec<(usize, Failure)>,
    pub unanchored: Unanchored,
    /// How long it took, without what was waited for room.
    pub took: Duration,
}

/// Records of which an anchor of the query (`id(n) = …`) named no node: it was null, or no id. What hangs on it did not happen.
#[derive(Debug, Default)]
pub struct Unanchored {
    pub records: u64,
    /// The first of these anchors, where it is one of the plan itself.
    pub anchor: Option<Expr>,
}

/// Of records that may have to be evaluated again, since they read.
#[derive(Clone, Copy)]
struct Again<'a, 'v> {
    overlay: &'a Overlay<'v>,
    fetched: &'a Fetched,
    may_begin_anew: bool,
}

impl Ingester {
    pub fn new(graph: Graph, query: Arc<Prepared>) -> Ingester {
        Ingester { graph, query, received: None }
    }

    /// The records that come next were received earlier than they come here.
    pub fn received(&mut self, at: Instant) -> &mut Ingester {
        self.received = Some(at);
        self
    }

    /// Applies the records, in order. `progress` is the name of the source and where it stands after them: stored in the
    /// same write, so that each record's effect on the graph happens exactly once.
    pub fn ingest(&mut self, records: &[Value], progress: Option<(&str, Position)>) -> Result<Ingested, EngineError> {
        self.graph.wait_for_room()?;
        // Nobody gives it up.
        self.ingest_while(records, progress, &|| true)?.ok_or(EngineError::Closing)
    }

    /// As `ingest`, for whoever has waited for room. Goes on as long as `goes_on` says yes, which is asked before each record.
    /// None where it was given up: then nothing has happened.
    pub fn ingest_while(
        &mut self,
        records: &[Value],
        progress: Option<(&str, Position)>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<Ingested>, EngineError> {
        let graph = self.graph.clone();
        let received = Some(self.received.take().unwrap_or_else(Instant::now));
        let begun = Instant::now();
        let committer = graph.committer();
        let (mut failures, mut unanchored) = (Vec::new(), Unanchored::default());
        let source = progress.map(|(name, position)| (Text::new(name), position));
        let change = |mutations| Change { mutations, records: records.len(), source: source.clone(), received, cause: None };

        if !self.query.reads(graph.open_cypher()) {
            let evaluated = self.evaluate(records, &crate::view::Empty, None, goes_on, &mut failures, &mut unanchored)?;
            let Some(mutations) = evaluated else { return Ok(None) };
            let upper = committer.commit(change(mutations))?;
            return Ok(Some(Ingested { upper, failures, unanchored, took: begun.elapsed() }));
        }
        // What of them would have to be fetched with the graph locked has them all begin anew, for as long as a record may take.
        // After that it is a failure of the record. Whether they are given up meanwhile is asked before each record.
        let refused = Cell::new(None::<Instant>);
        let note_refused = || -> Result<bool, Failure> {
            refused.set(refused.get().or_else(|| Some(Instant::now())));
            Ok(true)
        };
        let has_time = |since: Instant| graph.limits().time_max.is_none_or(|most| since.elapsed() < most);
        let committed = committer.transact_fetching(TRIES, &note_refused, |view, _, _, fetched| {
            failures.clear();
            let overlay = Overlay::new(view);
            let again = Again { overlay: &overlay, fetched, may_begin_anew: refused.get().is_none_or(has_time) };
            let evaluated = self.evaluate(records, &overlay, Some(again), goes_on, &mut failures, &mut unanchored)?;
            Ok(evaluated.map(change))
        })?;
        Ok(committed.map(|upper| Ingested { upper, failures, unanchored, took: begun.elapsed() }))
    }

    /// None where it was given up; a failure where all of them begin anew.
    fn evaluate(
        &self,
        records: &[Value],
        view: &dyn View,
        again: Option<Again<'_, '_>>,
        goes_on: &dyn Fn() -> bool,
        failures: &mut Vec<(usize, Failure)>,
        unanchored: &mut Unanchored,
    ) -> Result<Option<Mutations>, Failure> {
        let graph = &self.graph;
        let mut evaluator = Evaluator::new(&self.query, graph.symbols()).keeping(again.map(|again| again.fetched));
        let mut mutations = Mutations::default();
        mutations.rows.reserve(records.len() * 16);
        let fresh_id = || graph.fresh_id();
        let now_millis = crate::commit::wall_clock_millis() as i64;
        unanchored.records = 0;
        for (index, record) in records.iter().enumerate() {
            if !goes_on() {
                return Ok(None);
            }
            mutations.start_record(index as u32);
            let before = mutations.rows.len();
            let environment = Environment {
                view,
                parameters: std::slice::from_ref(record),
                ids: graph.ids(),
                now: Clock::at(now_millis),
                fresh_id: &fresh_id,
                limits: graph.limits(),
                open_cypher: graph.open_cypher(),
                recall: None,
            };
            match evaluator.run(&environment, &mut mutations, &mut |_| ControlFlow::Continue(())) {
                Ok(()) => {
                    if let Some(Again { overlay, .. }) = again {
                        overlay.apply(&mutations, before..mutations.rows.len());
                    }
                    unanchored.records += u64::from(evaluator.take_unanchored());
                }
                Err(failure) if failure.kind == FailureKind::WouldFetch && again.is_some_and(|again| again.may_begin_anew) => {
                    return Err(failure);
                }
                Err(failure) => {
                    failures.push((index, failure));
                    evaluator.forget_unanchored();
                }
            }
        }
        unanchored.anchor = evaluator.unanchored_by();
        Ok(Some(mutations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_few_records_wait_for_others() {
        let waited = |records: usize, since: Duration| {
            let begun = Instant::now();
            wait_for_more(records, begun.checked_sub(since).unwrap_or(begun));
            begun.elapsed()
        };
        assert!(waited(1, Duration::ZERO) >= GATHERED && waited(FEW - 1, Duration::ZERO) >= GATHERED);
        // Others may hold this thread up now and then, but not every time.
        let at_once = |records, since| (0..100).any(|_| waited(records, since) < GATHERED / 2);
        assert!(at_once(0, Duration::ZERO) && at_once(FEW, Duration::ZERO) && at_once(1, GATHERED));
    }
}
