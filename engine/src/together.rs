//! Together: small writes of many clients in one entry of the log.
//!
//! A commit costs a handful of wake-ups, of the worker, the log and whoever waits, however little it holds. So one thread takes
//! the writes to a graph that wait, evaluates them one after another, each seeing those before it, and commits them at once;
//! while it waits for that to be durable the next ones gather. Each is a transaction with a tick of its own, as the records of
//! an ingest batch are. One that takes long or holds much is given back, for its caller to run alone: the others do not wait for
//! it, and what it holds counts there.
//!
//!     write ─> what waits ─ a thread of the crew: some at once, …, nothing waits ─> it goes to other work
//!
//! Each graph has a thread of its own while something waits, as a query may have one locked for minutes. Hundreds of graphs that
//! are written to now and then are few threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_model::crew;
use weir_model::expression::FailureKind;
use weir_model::lock::lock;
use weir_model::{Clock, Mutations, Tick, Value};

use crate::commit::Change;
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Limits, Prepared};
use crate::graph::Graph;
use crate::query::Rows;
use crate::view::View;
use crate::view::overlay::Overlay;

/// Writes to one graph that wait. More are refused, and run alone.
const WAITING_MAX: usize = 4096;

/// Writes that are committed at once.
const TOGETHER_MAX: usize = 1024;

/// Steps that a write may take among others: a fraction of a millisecond.
const STEPS_MAX: u32 = 4096;

/// What one may hold, and answer: what is more counts with what all queries hold, and these do not.
const BYTES_MAX: usize = 256 << 10;

/// How often they are tried before they are evaluated under the lock of the graph.
const TRIES: usize = 2;

/// A query that writes.
pub struct Write {
    pub query: Arc<Prepared>,
    pub parameters: Vec<Value>,
    pub done: Done,
}

/// Is told how it went, on a thread that must not be held up.
pub type Done = Box<dyn FnOnce(Written) + Send>;

pub enum Written {
    /// Committed, seen by the next read and durable. Its rows.
    Done(Vec<Vec<Value>>),
    Failed(Arc<EngineError>),
    /// Nothing has happened: it takes long or holds much, too many wait, or there is no thread for it.
    RunAlone,
}

/// A query, and the values of its parameters.
struct Asked<'w> {
    query: &'w Prepared,
    parameters: &'w [Value],
}

/// The small writes to a graph.
#[derive(Default)]
pub struct SmallWrites(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    writes: VecDeque<Write>,
    /// Whether a thread is at them, or will be.
    is_served: bool,
}

impl SmallWrites {
    /// Those that are committed next. None where nothing waits: then nobody is at them any more.
    fn take(&self) -> Option<Vec<Write>> {
        let mut waiting = lock(&self.0);
        let count = waiting.writes.len().min(TOGETHER_MAX);
        if count == 0 {
            *waiting = Waiting::default();
            return None;
        }
        Some(waiting.writes.drain(..count).collect())
    }

    /// There is nobody to do them.
    fn give_back(&self) {
        let Waiting { writes, .. } = std::mem::take(&mut *lock(&self.0));
        writes.into_iter().for_each(|write| (write.done)(Written::RunAlone));
    }
}

impl Graph {
    /// Commits a write that is probably small together with others. Returns at once.
    pub fn write_together(&self, write: Write) {
        let mut waiting = lock(&self.small_writes().0);
        if waiting.writes.len() >= WAITING_MAX {
            drop(waiting);
            (write.done)(Written::RunAlone);
            return;
        }
        waiting.writes.push_back(write);
        let is_served = std::mem::replace(&mut waiting.is_served, true);
        drop(waiting);
        if !is_served {
            self.serve_small_writes();
        }
    }

    /// Has a thread see to them, which then keeps nothing of the graph.
    fn serve_small_writes(&self) {
        let graph = self.clone();
        // A bug in weir ends the writes that it was at, and not those behind them.
        let work = move || while catch_unwind(AssertUnwindSafe(|| graph.commit_small_writes())).is_err() {};
        if let Err(error) = crew::run(work) {
            tracing::error!(graph = self.name(), "no thread could be started for small writes, which run alone: {error}");
            self.small_writes().give_back();
        }
    }

    /// Commits what waits, until nothing does.
    fn commit_small_writes(&self) {
        while let Some(writes) = self.small_writes().take() {
            let asked: Vec<Asked> =
                writes.iter().map(|write| Asked { query: &write.query, parameters: &write.parameters }).collect();
            let told = match commit(self, &asked, false) {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    let error = Arc::new(error);
                    writes.iter().map(|_| Written::Failed(error.clone())).collect()
                }
            };
            for (write, written) in writes.into_iter().zip(told) {
                (write.done)(written);
            }
        }
    }

    /// Commits writes in their order, each of which sees those before it, at once. Says how many: the next one takes long, and is
    /// to run alone. The first that fails ends it, too; the error says which one that is, if it is of one. What has run is
    /// durable when this returns, and the next read shows it.
    pub fn write_in_order(&self, queries: &[Arc<Prepared>]) -> Result<usize, (Option<usize>, EngineError)> {
        let asked: Vec<Asked> = queries.iter().map(|query| Asked { query, parameters: &[] }).collect();
        let mut outcomes = commit(self, &asked, true).map_err(|error| (None, error))?;
        match outcomes.pop() {
            Some(Written::Failed(error)) => Err((Some(outcomes.len()), EngineError::Shared(error))),
            Some(Written::RunAlone) => Ok(outcomes.len()),
            _ => Ok(queries.len()),
        }
    }
}

/// `in_order`: the first that does not get done is the last.
fn commit(graph: &Graph, writes: &[Asked<'_>], in_order: bool) -> Result<Vec<Written>, EngineError> {
    graph.readable()?;
    let committer = graph.committer();
    let mut outcomes = Vec::new();
    let received = Some(Instant::now());
    let change = |mutations| Change { mutations, records: writes.len(), received, ..Change::default() };
    let mut seen = Tick::ZERO;
    let upper = if writes.iter().any(|write| write.query.reads(graph.open_cypher())) {
        committer.transact(TRIES, |view, at, _| {
            seen = at;
            let mutations = evaluate(graph, (writes, in_order), view, &mut outcomes);
            Ok((!mutations.is_empty()).then(|| change(mutations)))
        })?
    } else {
        let mutations = evaluate(graph, (writes, in_order), &crate::view::Empty, &mut outcomes);
        if mutations.is_empty() { None } else { Some(committer.commit(change(mutations))?) }
    };
    let confirmed = match upper {
        Some(upper) => graph.confirm(upper).map_err(|error| EngineError::unconfirmed(upper, Vec::new(), error)),
        // What others have changed leaves nothing to change, and is to stay, too.
        None => graph.wait_durable_at(seen),
    };
    let Err(error) = confirmed else { return Ok(outcomes) };
    if in_order {
        return Err(error);
    }
    // Of the others it is known that nothing has happened.
    let error = Arc::new(error);
    let told = outcomes.into_iter().map(|outcome| match outcome {
        Written::Done(_) => Written::Failed(error.clone()),
        other => other,
    });
    Ok(told.collect())
}

fn evaluate(graph: &Graph, (writes, in_order): (&[Asked<'_>], bool), view: &dyn View, outcomes: &mut Vec<Written>) -> Mutations {
    outcomes.clear();
    let overlay = Overlay::new(view);
    let mut mutations = Mutations::default();
    let fresh_id = || graph.fresh_id();
    let limits = graph.limits();
    let limits = Limits { steps_max: Some(STEPS_MAX), buffer_bytes_max: limits.buffer_bytes_max.min(BYTES_MAX), ..limits };
    let now_millis = graph.now_millis() as i64;
    for (index, write) in writes.iter().enumerate() {
        mutations.start_record(index as u32);
        let mark = mutations.mark();
        let environment = Environment {
            view: &overlay,
            parameters: write.parameters,
            ids: graph.ids(),
            now: Clock::at(now_millis),
            fresh_id: &fresh_id,
            limits,
            open_cypher: graph.open_cypher(),
            recall: None,
        };
        let mut rows = Rows::new(&limits);
        let ended = Evaluator::new(write.query, graph.symbols()).run(&environment, &mut mutations, &mut |row| rows.push(row));
        let failure = match ended.and_then(|()| rows.checked()) {
            Ok(()) => {
                overlay.apply(&mutations, mark.0..mutations.rows.len());
                outcomes.push(Written::Done(rows.rows));
                continue;
            }
            Err(failure) => failure,
        };
        // Also where its answer is what is too large.
        mutations.truncate(mark);
        // By the limits that hold here.
        let is_not_small = matches!(failure.kind, FailureKind::TimeLimit | FailureKind::MemoryLimit);
        outcomes.push(if is_not_small { Written::RunAlone } else { Written::Failed(Arc::new(failure.into())) });
        if in_order {
            break;
        }
    }
    mutations
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use crossbeam_channel::{Receiver, bounded};
    use weir_cypher_compiler::{Options as CompileOptions, compile};

    use super::*;
    use crate::store::InMemory;
    use crate::{Engine, GraphOptions, Options};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn engine() -> Engine {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        engine
    }

    fn create(graph: &Graph) -> Arc<Prepared> {
        let options = CompileOptions { parameters: vec!["that".into()], ..CompileOptions::default() };
        let plan = compile("CREATE (:N {k: $that})", &options).unwrap_or_else(|problems| panic!("{}", problems[0]));
        graph.prepare(plan)
    }

    /// Creates a node for each number. What is told, with the number it is told of.
    fn create_all(graph: &Graph, numbers: Range<i64>) -> Receiver<(i64, Written)> {
        let (sender, receiver) = bounded(numbers.clone().count());
        let query = create(graph);
        for number in numbers {
            let sender = sender.clone();
            let done = Box::new(move |written: Written| drop(sender.send((number, written))));
            graph.write_together(Write { query: query.clone(), parameters: vec![Value::Integer(number)], done });
        }
        receiver
    }

    fn created(told: &Receiver<(i64, Written)>) -> Vec<i64> {
        let is_done = |(number, written): (i64, Written)| matches!(written, Written::Done(_)).then_some(number);
        // Not for ever, where nobody is at them.
        std::iter::from_fn(|| told.recv_timeout(PATIENCE).ok()).filter_map(is_done).collect()
    }

    /// One thread committed those to all graphs, and stood before the first that was locked.
    #[test]
    fn a_graph_that_is_locked_holds_up_no_small_write_to_another() {
        const COUNT: usize = WAITING_MAX + TOGETHER_MAX + 100;
        let engine = engine();
        let (locked, other) = (engine.default_graph(), engine.create_graph("other", GraphOptions::default()).unwrap());
        let mut told = Vec::new();
        let evaluated = locked.committer().transact(0, |_, _, _| {
            let of_locked = create_all(&locked, 0..COUNT as i64);
            // Those for which there was no room, of each graph by itself.
            let refused: Vec<(i64, Written)> = of_locked.try_iter().collect();
            assert!(refused.len() >= 100 && refused.iter().all(|(_, written)| matches!(written, Written::RunAlone)));
            for number in 0..3 {
                let of_other = create_all(&other, number..number + 1);
                let (_, written) = of_other.recv_timeout(PATIENCE).expect("it waits for nobody");
                assert!(matches!(written, Written::Done(_)));
            }
            assert!(of_locked.is_empty());
            told.push((refused.len(), of_locked));
            Ok(None)
        });
        assert!(evaluated.unwrap().is_none());
        let (refused, of_locked) = told.remove(0);
        let created = created(&of_locked);
        assert_eq!(created.len() + refused, COUNT);
        assert!(created.is_sorted(), "they keep their order");
        engine.shutdown().unwrap();
    }

    /// Whoever writes and a thread that goes to rest meet at any moment: nothing may be left lying.
    #[test]
    fn each_write_is_told_how_it_went_whenever_it_comes() {
        let engine = engine();
        let graphs = [engine.default_graph(), engine.create_graph("other", GraphOptions::default()).unwrap()];
        std::thread::scope(|scope| {
            for client in 0..4 {
                let graph = &graphs[client % 2];
                scope.spawn(move || {
                    for number in 0..200 {
                        let told = create_all(graph, number..number + 1);
                        assert!(matches!(told.recv_timeout(PATIENCE), Ok((_, Written::Done(_)))), "{number}");
                    }
                });
            }
        });
        engine.shutdown().unwrap();
    }

    #[test]
    fn who_panics_holds_up_nobody_behind() {
        let engine = engine();
        let graph = engine.default_graph();
        let (sender, receiver) = bounded(1);
        let done: Done = Box::new(move |_| {
            sender.send(()).unwrap();
            panic!("on purpose");
        });
        graph.write_together(Write { query: create(&graph), parameters: vec![Value::Integer(0)], done });
        receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(created(&create_all(&graph, 1..3)), [1, 2]);
        engine.shutdown().unwrap();
    }
}
