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

/// A stream to which few records came waits until this long after the last of them, so that what comes meanwhile goes into the
/// same batch: a commit costs some 80 µs of processor time whatever is in it.
const GATHER_TIME: Duration = Duration::from_micros(300);
/// Fewer records than this are few.
const FEW_RECORDS: usize = 128;

/// Lets more records gather at their source, where `records`, the last that were received, were few.
pub fn wait_for_more(records: usize, received: Instant) {
    if (1..FEW_RECORDS).contains(&records) {
        std::thread::sleep(GATHER_TIME.saturating_sub(received.elapsed()));
    }
}

/// Runs the ingest query of one stream, batch after batch.
pub struct Ingester {
    graph: Graph,
    query: Arc<Prepared>,
    /// When the records of the next batch were received, if its caller says so.
    received: Option<Instant>,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Ingested {
    /// The tick after the last record of the batch.
    pub upper: Tick,
    /// Records that had no effect, by index, with the reason.
    pub failures: Vec<(usize, Failure)>,
    /// Records of which an anchor of the query named no node.
    pub unanchored: Unanchored,
    /// How long it took, without the wait for room.
    pub took: Duration,
}

/// Records of which an anchor of the query (`id(n) = …`) named no node: it was null, or no id. What hangs on it did not happen.
#[derive(Debug, Default)]
pub struct Unanchored {
    /// How many there were.
    pub records: u64,
    /// The first of these anchors, where it is one of the plan itself.
    pub anchor: Option<Expr>,
}

/// One attempt at a batch whose query reads: if what it read changes before the commit, the batch is evaluated again.
#[derive(Clone, Copy)]
struct Attempt<'a, 'v> {
    /// The graph with what earlier records of the batch wrote laid over it.
    overlay: &'a Overlay<'v>,
    /// What procedures brought from outside, in this attempt and those before it.
    fetched: &'a Fetched,
    /// Whether there is time for yet another attempt, where a record asks for something from outside while the graph is locked.
    may_begin_anew: bool,
}

/// What became of the records in the last attempt, besides what they write.
#[derive(Default)]
struct Outcome {
    failures: Vec<(usize, Failure)>,
    unanchored: Unanchored,
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

    /// As `ingest`, for a caller that has waited for room itself. `goes_on` is asked before each record: once it says no, the
    /// batch is given up, nothing has happened, and the answer is None.
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
        let mut outcome = Outcome::default();
        let source = progress.map(|(name, position)| (Text::new(name), position));
        let change = |mutations| Change { mutations, records: records.len(), source: source.clone(), received, cause: None };

        let committed = if self.query.reads(graph.open_cypher()) {
            // Nothing is fetched from outside while the graph is locked. A batch that would have to begins anew, until it has
            // done so for as long as a record may take: from then on that is a failure of the record.
            let first_refused = Cell::new(None::<Instant>);
            let begin_anew = || -> Result<bool, Failure> {
                first_refused.set(first_refused.get().or_else(|| Some(Instant::now())));
                Ok(true)
            };
            let has_time = |since: Instant| graph.limits().time_max.is_none_or(|most| since.elapsed() < most);
            committer.transact_fetching(TRIES, &begin_anew, |view, _, _, fetched| {
                let overlay = Overlay::new(view);
                let may_begin_anew = first_refused.get().is_none_or(has_time);
                let attempt = Attempt { overlay: &overlay, fetched, may_begin_anew };
                let evaluated = self.evaluate(records, &overlay, Some(attempt), goes_on, &mut outcome)?;
                Ok(evaluated.map(change))
            })?
        } else {
            let evaluated = self.evaluate(records, &crate::view::Empty, None, goes_on, &mut outcome)?;
            evaluated.map(|mutations| committer.commit(change(mutations))).transpose()?
        };
        let Outcome { failures, unanchored } = outcome;
        Ok(committed.map(|upper| Ingested { upper, failures, unanchored, took: begun.elapsed() }))
    }

    /// Evaluates the records one after another. None where `goes_on` says no; a failure where the whole batch has to begin anew.
    fn evaluate(
        &self,
        records: &[Value],
        view: &dyn View,
        attempt: Option<Attempt<'_, '_>>,
        goes_on: &dyn Fn() -> bool,
        outcome: &mut Outcome,
    ) -> Result<Option<Mutations>, Failure> {
        let graph = &self.graph;
        *outcome = Outcome::default();
        let may_begin_anew = attempt.is_some_and(|attempt| attempt.may_begin_anew);
        let mut evaluator = Evaluator::new(&self.query, graph.symbols()).keeping(attempt.map(|attempt| attempt.fetched));
        let mut mutations = Mutations::default();
        mutations.rows.reserve(records.len() * 16);
        let fresh_id = || graph.fresh_id();
        let now_millis = graph.now_millis() as i64;
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
                    if let Some(Attempt { overlay, .. }) = attempt {
                        overlay.apply(&mutations, before..mutations.rows.len());
                    }
                    outcome.unanchored.records += u64::from(evaluator.take_unanchored());
                }
                Err(failure) if failure.kind == FailureKind::WouldFetch && may_begin_anew => return Err(failure),
                Err(failure) => {
                    outcome.failures.push((index, failure));
                    evaluator.forget_unanchored();
                }
            }
        }
        outcome.unanchored.anchor = evaluator.unanchored_by();
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
        assert!(waited(1, Duration::ZERO) >= GATHER_TIME && waited(FEW_RECORDS - 1, Duration::ZERO) >= GATHER_TIME);
        // Others may hold this thread up now and then, but not every time.
        let at_once = |records, since| (0..100).any(|_| waited(records, since) < GATHER_TIME / 2);
        assert!(at_once(0, Duration::ZERO) && at_once(FEW_RECORDS, Duration::ZERO) && at_once(1, GATHER_TIME));
    }
}
