//! Ad-hoc queries: rows out, and, where the query writes, a commit before the caller hears that it is done.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustc_hash::FxHashMap;
use weir_model::expression::FailureKind;
use weir_model::extent::weight;
use weir_model::plan::Operator;
use weir_model::{Clock, Failure, Mutations, Tick, Value};

use crate::arrangement::Reading;
use crate::cause::Cause;
use crate::commit::Change;
use crate::error::EngineError;
use crate::evaluate::pool::Share;
use crate::evaluate::{Environment, Evaluator, Fetched, Limits, Prepared, Profile};
use crate::graph::Graph;
use crate::history::Recall;
use crate::view::View;
use crate::view::live::Live;

/// How often a query that reads and writes is tried before it is evaluated under the lock of the graph.
const TRIES: usize = 3;

#[derive(Default, Clone, Copy)]
pub struct QueryOptions<'a> {
    /// The moment to read; none is the present.
    pub at: Option<Tick>,
    /// The current time to the query, where it is not that of the clock.
    pub now_millis: Option<u64>,
    pub deadline: Option<Instant>,
    /// Set by whoever no longer wants the answer.
    pub cancelled: Option<&'a AtomicBool>,
    /// Of the plan of the query: filled as it runs.
    pub profile: Option<&'a Profile>,
    /// Gives up after this many steps, for callers that must not be held up.
    pub steps_max: Option<u32>,
    /// An output of a standing query asks, because of a result.
    pub cause: Option<&'a Arc<Cause>>,
    /// Whoever asks takes rows for as long as any come: what waits for more may be called. Those who need an end have it refused.
    pub may_listen: bool,
}

/// A query that is asked, once.
#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a Prepared,
    parameters: &'a [Value],
    options: QueryOptions<'a>,
}

/// How the patterns of the operators of a plan are visited.
pub type Ways = FxHashMap<*const Operator, String>;

/// How a query ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The tick after its changes, if it made any.
    pub committed: Option<Tick>,
}

/// Rows that are given out when the query has committed.
pub(crate) struct Rows<'a> {
    pub rows: Vec<Vec<Value>>,
    bytes: usize,
    bytes_max: usize,
    share: Share<'a>,
    /// Why there were too many.
    failure: Option<Failure>,
}

impl<'a> Rows<'a> {
    pub fn new(limits: &Limits<'a>) -> Rows<'a> {
        let share = Share::of(limits.pool);
        Rows { rows: Vec::new(), bytes: 0, bytes_max: limits.buffer_bytes_max, share, failure: None }
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.bytes = 0;
        self.failure = None;
    }

    /// Break when they are too many: see `checked`.
    pub fn push(&mut self, row: &[Value]) -> ControlFlow<()> {
        self.bytes = self.bytes.saturating_add(row.iter().map(weight).sum());
        let fits = if self.bytes > self.bytes_max {
            let message = format!("The query writes, and its answer is larger than {} bytes", self.bytes_max);
            Err(Failure::new(FailureKind::MemoryLimit, message))
        } else {
            self.share.cover(self.bytes)
        };
        match fits {
            Ok(()) => self.rows.push(row.to_vec()),
            Err(failure) => self.failure = Some(failure),
        }
        if self.failure.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    pub fn checked(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Graph {
    /// Runs a query. Rows of a query that only reads are given out as they are found, of one moment unless it waits for what
    /// comes; those of a query that writes after its changes are committed. When this returns, the next read shows the
    /// changes, and they are durable.
    pub fn query(
        &self,
        query: &Prepared,
        parameters: &[Value],
        options: QueryOptions<'_>,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<Answered, EngineError> {
        let asked = Asked { query, parameters, options };
        if let Some(at) = options.at {
            return self.query_past(asked, at, each);
        }
        if let Operator::Schema(schema) = &query.plan.root {
            self.run_schema(schema, each)?;
            return Ok(Answered { committed: None });
        }
        self.readable()?;
        if query.writes() {
            return self.query_writing(asked, each);
        }
        if query.plan.facts.listens && options.may_listen {
            let recall = Recall::new(self, Tick::ZERO, false);
            self.run(asked, &recall, None, &Live::new(self, &recall), each)?;
        } else {
            let snapshot = self.snapshot();
            let recall = Recall::new(self, snapshot.tick(), false);
            self.run(asked, &recall, None, &Reading::new(&snapshot), each)?;
        }
        Ok(Answered { committed: None })
    }

    /// A query that writes: its rows are kept until its changes are committed, and given out then.
    fn query_writing(
        &self,
        asked: Asked<'_>,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<Answered, EngineError> {
        let limits = self.query_limits();
        let (mut rows, mut seen) = (Rows::new(&limits), Tick::ZERO);
        let upper = if asked.query.reads(self.open_cypher()) {
            self.read_and_write(asked, &mut rows, &mut seen)?
        } else {
            let mut keep = |row: &[Value]| rows.push(row);
            let recall = Recall::new(self, Tick::MAX, false);
            let change = self.run(asked, &recall, None, &crate::view::Empty, &mut keep)?;
            rows.checked()?;
            if change.mutations.is_empty() { None } else { Some(self.committer().commit(change)?) }
        };
        // The caller takes the end of this call as a promise: the change is seen, and it stays. So does what others have changed,
        // where that leaves nothing to change.
        match upper {
            Some(upper) => {
                if let Err(error) = self.confirm(upper) {
                    return Err(EngineError::unconfirmed(upper, rows.rows, error));
                }
            }
            None => self.wait_durable_at(seen)?,
        }
        for row in &rows.rows {
            if each(row).is_break() {
                break;
            }
        }
        Ok(Answered { committed: upper })
    }

    /// Waits until the next read shows what was committed before a tick, and it is durable.
    pub fn confirm(&self, upper: Tick) -> Result<(), EngineError> {
        self.committer().wait_applied(upper)?;
        self.wait_durable(upper)
    }

    /// Waits until everything that shows at a tick is durable.
    pub(crate) fn wait_durable_at(&self, seen: Tick) -> Result<(), EngineError> {
        // Of a graph that nothing was ever written to, nothing is missing.
        if seen == Tick::ZERO { Ok(()) } else { self.wait_durable(seen.next()) }
    }

    /// A query as of a moment, at which it can only read.
    fn query_past(
        &self,
        asked: Asked<'_>,
        at: Tick,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<Answered, EngineError> {
        let answered = Answered { committed: None };
        match &asked.query.plan.root {
            // Indexes and rules are no part of the graph.
            Operator::Schema(schema) if schema.only_shows() => {
                self.run_schema(schema, each)?;
                return Ok(answered);
            }
            Operator::Schema(_) => return Err(EngineError::PastIsReadOnly),
            _ if asked.query.writes() => return Err(EngineError::PastIsReadOnly),
            _ => {}
        }
        let moment = self.at(at)?;
        let mut each = |row: &[Value]| if moment.has_failed() { ControlFlow::Break(()) } else { each(row) };
        let recall = Recall::new(self, at, true);
        let ran = self.run(asked, &recall, None, moment.view(), &mut each);
        match moment.take_failure() {
            Some(failure) => Err(failure),
            None => ran.map(|_| answered),
        }
    }

    /// How the patterns of a query would be visited now: which of their orders, and by which indexes. For EXPLAIN and PROFILE.
    pub fn ways(&self, query: &Prepared, parameters: &[Value]) -> Ways {
        let (snapshot, fresh_id) = (self.snapshot(), || self.fresh_id());
        let environment = Environment {
            view: &snapshot,
            recall: None,
            parameters,
            ids: self.ids(),
            now: Clock::at(self.now_millis() as i64),
            fresh_id: &fresh_id,
            limits: Limits::NONE,
            open_cypher: self.open_cypher(),
        };
        let index_name = |label: &str, property: Option<&str>| self.index_name(label, property);
        Evaluator::new(query, self.symbols()).ways(&environment, &index_name)
    }

    /// Applies changes that were made without a query. Returns the tick after the last record.
    pub fn apply(&self, mutations: Mutations, records: usize) -> Result<Tick, EngineError> {
        self.committer().commit(Change { mutations, records, ..Change::default() })
    }

    /// A transaction, evaluated until it can be committed: in the end with the graph locked. What its procedures bring from
    /// outside is brought once, and not while the graph is locked: the query begins anew until it has all of that, for as long
    /// as it may take. `seen` becomes the last tick that it saw.
    fn read_and_write(&self, asked: Asked<'_>, rows: &mut Rows<'_>, seen: &mut Tick) -> Result<Option<Tick>, EngineError> {
        let options = asked.options;
        let most = self.limits().time_max.and_then(|most| Instant::now().checked_add(most));
        let ends = [options.deadline, most].into_iter().flatten().min();
        let goes_on = || match options.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Failure::new(FailureKind::Interrupted, "The query was cancelled")),
            _ => Ok(ends.is_none_or(|ends| Instant::now() < ends)),
        };
        self.committer().transact_fetching(TRIES, &goes_on, |view, at, locked, fetched| {
            rows.clear();
            *seen = at;
            let recall = Recall::new(self, at, false).within(locked);
            let change = self.run(asked, &recall, Some(fetched), view, &mut |row| rows.push(row))?;
            rows.checked()?;
            Ok((!change.mutations.is_empty()).then_some(change))
        })
    }

    /// Evaluates a query over a view, once. The change that it asks for is for the caller to commit.
    fn run(
        &self,
        Asked { query, parameters, options }: Asked<'_>,
        recall: &Recall<'_>,
        fetched: Option<&Fetched>,
        view: &dyn View,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<Change, EngineError> {
        let mut change =
            Change { records: 1, received: Some(Instant::now()), cause: options.cause.cloned(), ..Change::default() };
        let fresh_id = || self.fresh_id();
        let QueryOptions { now_millis, deadline, cancelled, steps_max, .. } = options;
        let now = now_millis.unwrap_or_else(|| self.now_millis());
        let environment = Environment {
            view,
            recall: Some(recall),
            parameters,
            ids: self.ids(),
            now: Clock::at(now as i64),
            fresh_id: &fresh_id,
            limits: Limits { deadline, cancelled, steps_max, ..self.query_limits() },
            open_cypher: self.open_cypher(),
        };
        let mut evaluator = Evaluator::new(query, self.symbols()).keeping(fetched);
        evaluator.run_profiled(&environment, options.profile, &mut change.mutations, each)?;
        Ok(change)
    }
}

#[cfg(all(test, feature = "rocks-db"))]
mod tests {
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use weir_cypher_compiler::{Options as CompileOptions, compile};
    use weir_model::NodeId;
    use weir_model::lock::lock;

    use super::*;
    use crate::store::conformance::FaultyStore;
    use crate::store::{RocksDb, RocksDbOptions};
    use crate::{Engine, Options, Write, Written};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// It was answered at once, and what it had found was gone when the process was killed.
    #[test]
    fn who_finds_a_change_made_is_answered_when_that_is_durable() {
        let temporary = tempfile::tempdir().unwrap();
        let inner = RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap();
        let store = Arc::new(FaultyStore::new(Arc::new(inner), usize::MAX));
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = &engine.default_graph();
        let merge = compile("MERGE (u:U {no: 1})", &CompileOptions::default());
        let merge = &graph.prepare(merge.unwrap_or_else(|problems| panic!("{}", problems[0])));
        std::thread::scope(|scope| {
            let stuck = lock(&store.stuck);
            let mut user = Mutations::default();
            user.set_label(NodeId::spread(1), graph.symbols().intern("U"), true);
            user.set_property(NodeId::spread(1), graph.symbols().intern("no"), &Value::Integer(1));
            let upper = graph.apply(user, 1).unwrap();
            graph.wait_visible().unwrap();

            let (sender, answers) = bounded(3);
            let (alone, in_order, together) = (sender.clone(), sender.clone(), sender);
            scope.spawn(move || {
                let answered = graph.query(merge, &[], QueryOptions::default(), &mut |_| ControlFlow::Continue(()));
                alone.send(answered.is_ok_and(|answered| answered.committed.is_none())).unwrap();
            });
            scope.spawn(move || in_order.send(graph.write_in_order(std::slice::from_ref(merge)).is_ok()).unwrap());
            let done = Box::new(move |written: Written| together.send(matches!(written, Written::Done(_))).unwrap());
            graph.write_together(Write { query: merge.clone(), parameters: Vec::new(), done });

            let early = answers.recv_timeout(Duration::from_millis(300));
            assert!(early.is_err() && graph.durable() < upper, "{early:?}");
            drop(stuck);
            let answered: Vec<_> = (0..3).map(|_| answers.recv_timeout(PATIENCE)).collect();
            assert_eq!(answered, [Ok(true); 3]);
            assert!(graph.durable() >= upper);
            assert_eq!(graph.next(), upper, "there was nothing to change");
        });
        engine.shutdown().unwrap();
    }

    /// A graph that nothing was ever written to waits for nothing.
    #[test]
    fn a_write_that_changes_nothing_of_an_empty_graph_is_answered() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let delete = compile("MATCH (n) DETACH DELETE n", &CompileOptions::default());
        let delete = graph.prepare(delete.unwrap_or_else(|problems| panic!("{}", problems[0])));
        let begun = Instant::now();
        graph.query(&delete, &[], QueryOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        graph.export(None, &mut |_| true).unwrap();
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        engine.shutdown().unwrap();
    }
}
