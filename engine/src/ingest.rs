//! Ingest: a batch of records becomes one entry of the log.
//!
//! Each record is a transaction of its own with a tick of its own; that they travel in one batch changes nothing but
//! the cost. A record whose query fails leaves no trace but its failure, and the others go on.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_model::{Clock, Failure, Mutations, Position, Text, Tick, Value};

use crate::commit::Change;
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Fetched, Prepared};
use crate::graph::Graph;
use crate::view::View;
use crate::view::overlay::Overlay;

/// How often a batch is tried before it is evaluated under the lock of the graph.
const TRIES: usize = 2;

/// What comes to a stream within this time of its last record goes into one batch, where it has so few. A commit costs some 80 µs
/// of processor time whatever is in it.
const GATHERED: Duration = Duration::from_micros(300);
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
    /// How long it took, without what was waited for room.
    pub took: Duration,
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

    /// The same by whoever has waited for room, as long as it is to go on, which is asked before each record. None where it was
    /// given up: then nothing has happened.
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
        let mut failures = Vec::new();
        let source = progress.map(|(name, position)| (Text::new(name), position));
        let change = |mutations| Change { mutations, records: records.len(), source: source.clone(), received, cause: None };

        if !self.query.reads(graph.open_cypher()) {
            let evaluated = self.evaluate(records, &crate::view::Empty, None, goes_on, &mut failures);
            let Some(mutations) = evaluated else { return Ok(None) };
            let upper = committer.commit(change(mutations))?;
            return Ok(Some(Ingested { upper, failures, took: begun.elapsed() }));
        }
        // What queries fetch, they fetch once, and never with the graph locked.
        let fetched = Fetched::default();
        let committed = committer.transact(TRIES, |view, _, locked| {
            failures.clear();
            if locked.is_some() {
                fetched.close();
            }
            let overlay = Overlay::new(view);
            let evaluated = self.evaluate(records, &overlay, Some((&overlay, &fetched)), goes_on, &mut failures);
            Ok(evaluated.map(change))
        })?;
        Ok(committed.map(|upper| Ingested { upper, failures, took: begun.elapsed() }))
    }

    fn evaluate(
        &self,
        records: &[Value],
        view: &dyn View,
        again: Option<(&Overlay<'_>, &Fetched)>,
        goes_on: &dyn Fn() -> bool,
        failures: &mut Vec<(usize, Failure)>,
    ) -> Option<Mutations> {
        let graph = &self.graph;
        let mut evaluator = Evaluator::new(&self.query, graph.symbols()).keeping(again.map(|(_, fetched)| fetched));
        let mut mutations = Mutations::default();
        mutations.rows.reserve(records.len() * 16);
        let fresh_id = || graph.fresh_id();
        let now_millis = crate::commit::wall_clock_millis() as i64;
        for (index, record) in records.iter().enumerate() {
            if !goes_on() {
                return None;
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
                    if let Some((overlay, _)) = again {
                        overlay.apply(&mutations, before..mutations.rows.len());
                    }
                }
                Err(failure) => failures.push((index, failure)),
            }
        }
        Some(mutations)
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
