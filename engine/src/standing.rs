//! Standing queries from outside the workers: installed, watched, delivered, dropped.
//!
//! A query's results come as batches in the order of ticks. They are handed out only when their ticks are durable. What
//! has been delivered is noted per output and logged with the ticks that follow; after a restart the ticks since then
//! are replayed, and what comes of them is what was not delivered, no more and no less.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use rustc_hash::FxHashMap;
use weir_model::{Plan, Position, QueryId, Text, Tick};

use crate::command::{Command, Install};
use crate::engine::Graph;
use crate::error::EngineError;
use crate::render::results::Baseline;
use crate::render::{Maintained, ResultBatch};
use crate::store::Delivered;

/// Which of the matches that exist at installation are results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// None, until someone asks (`propagate`).
    Now,
    /// All of them.
    WholeGraph,
    /// The query was there before a restart: what was not delivered.
    Resume,
}

pub struct Standing {
    pub id: QueryId,
    pub plan: Plan,
    pub cancellations: bool,
    pub start: Start,
    /// Names of the outputs whose delivery is remembered.
    pub outputs: Vec<Text>,
}

/// Results arriving in order. One per query; whoever holds it sees every batch once.
pub struct StandingQuery {
    graph: Graph,
    id: QueryId,
    state: Arc<StandingState>,
    results: Receiver<ResultBatch>,
}

/// What the engine keeps of an installed query.
pub struct StandingState {
    /// Results sent and not consumed.
    pub waiting: Arc<AtomicUsize>,
    /// Up to where each output has delivered, and the position its destination gave.
    pub delivered: Mutex<FxHashMap<Text, (Tick, Position)>>,
}

impl StandingState {
    /// Everything before this has been delivered by every output; None while there is no output.
    pub fn delivered_by_all(&self) -> Option<Tick> {
        let delivered = self.delivered.lock().unwrap_or_else(|e| e.into_inner());
        delivered.values().map(|(tick, _)| *tick).min()
    }
}

impl Graph {
    /// Installs a standing query. Results begin with the next commit, besides what `start` asks for.
    pub fn install(&self, standing: Standing) -> Result<StandingQuery, EngineError> {
        let maintained = Maintained::new(&standing.plan, self.symbols(), self.ids())?;
        #[expect(clippy::disallowed_methods, reason = "a worker cannot wait; ingest does, while too many results lie here")]
        let (sender, results) = crossbeam_channel::unbounded();
        let state = Arc::new(StandingState { waiting: Arc::default(), delivered: Mutex::default() });
        if self.standing().contains_key(&standing.id) {
            return Err(EngineError::StandingExists);
        }
        self.committer().between(|installed| {
            let mut known = FxHashMap::default();
            for output in &standing.outputs {
                let from = match standing.start {
                    Start::Now => (installed, Position::default()),
                    Start::WholeGraph => (Tick::ZERO, Position::default()),
                    Start::Resume => self.recovered(standing.id, output).unwrap_or((Tick::ZERO, Position::default())),
                };
                known.insert(output.clone(), from);
            }
            let baseline = match standing.start {
                Start::Now => Baseline::Hold,
                Start::WholeGraph => Baseline::Report,
                Start::Resume if known.values().all(|(tick, _)| *tick >= installed) => Baseline::Known,
                Start::Resume => Baseline::Report,
            };
            *state.delivered.lock().unwrap_or_else(|e| e.into_inner()) = known;
            self.standing().insert(standing.id, state.clone());
            self.parts().workers.send(&Command::Install(Arc::new(Install {
                graph: self.id(),
                query: standing.id,
                maintained,
                open_cypher: self.open_cypher(),
                symbols: self.parts().symbols.clone(),
                cancellations: standing.cancellations,
                baseline,
                results: sender,
                waiting: state.waiting.clone(),
            })));
        });
        let query = StandingQuery { graph: self.clone(), id: standing.id, state, results };
        if standing.start != Start::Resume {
            for output in &standing.outputs {
                query.log_frontier(output);
            }
            self.committer().log_delivered()?;
        }
        Ok(query)
    }

    /// Reports the matches that were there when a query was installed from now on, and still are. A second call finds
    /// nothing left to report.
    pub fn propagate(&self, query: QueryId) {
        self.committer().between(|_| self.parts().workers.send(&Command::Propagate { graph: self.id(), query }));
    }

    /// Takes a standing query away. Matches it had reported are not cancelled.
    pub fn drop_standing(&self, query: QueryId) {
        self.committer().between(|_| self.parts().workers.send(&Command::Drop { graph: self.id(), query }));
        self.standing().remove(&query);
    }
}

impl StandingQuery {
    pub fn id(&self) -> QueryId {
        self.id
    }

    /// The next batch of results, once it is durable. None when there is none within the limit; an error when the query
    /// was dropped or the log has failed.
    pub fn next(&self, limit: Duration) -> Result<Option<ResultBatch>, EngineError> {
        let deadline = Instant::now() + limit;
        match self.results.recv_timeout(limit) {
            Ok(batch) => {
                self.graph.wait_durable(batch.upper)?;
                self.state.waiting.fetch_sub(batch.rows.len(), Ordering::Relaxed);
                Ok(Some(batch))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(10)));
                Err(EngineError::StandingGone)
            }
        }
    }

    /// Results that were found and not yet taken with `next`.
    pub fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// Up to where an output has delivered, and where its destination stood then. Results of earlier ticks are skipped.
    pub fn delivered(&self, output: &str) -> Option<(Tick, Position)> {
        self.state.delivered.lock().unwrap_or_else(|e| e.into_inner()).get(output).cloned()
    }

    /// An output has delivered everything before `upper`. `rows` says whether anything was sent for it: progress without
    /// rows is only worth writing down along with something else.
    pub fn set_delivered(&self, output: &str, upper: Tick, position: Position, rows: bool) {
        self.state.delivered.lock().unwrap_or_else(|e| e.into_inner()).insert(output.into(), (upper, position));
        if rows {
            self.log_frontier(output);
        }
    }

    /// A new output: it gets the results from here on.
    pub fn add_output(&self, output: &str) -> Result<(), EngineError> {
        let next = self.graph.committer().next();
        self.set_delivered(output, next, Position::default(), true);
        self.graph.committer().log_delivered()
    }

    pub fn remove_output(&self, output: &str) {
        self.state.delivered.lock().unwrap_or_else(|e| e.into_inner()).remove(output);
    }

    fn log_frontier(&self, output: &str) {
        if let Some((tick, position)) = self.delivered(output) {
            self.graph.committer().note_delivered(Delivered { query: self.id, output: output.into(), tick, position });
        }
    }
}
