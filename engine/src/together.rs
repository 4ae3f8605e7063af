//! Together: small writes of many clients in one entry of the log.
//!
//! A commit costs a handful of wake-ups, of the worker, the log and whoever waits, however little it holds. So one thread takes
//! the writes that wait, evaluates them one after another, each seeing those before it, and commits them at once; while it waits
//! for that to be durable the next ones gather. Each is a transaction with a tick of its own, as the records of an ingest batch
//! are. One that takes long or holds much is given back, for its caller to run alone: the others do not wait for it, and what it
//! holds counts there.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_model::expression::FailureKind;
use weir_model::{Clock, Mutations, Value};

use crate::commit::Change;
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Limits, Prepared};
use crate::graph::Graph;
use crate::query::Rows;
use crate::view::View;
use crate::view::overlay::Overlay;

/// Writes that wait. More are refused, and run alone.
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
    /// Nothing has happened: it takes long or holds much, or too many wait.
    RunAlone,
}

/// A query, and the values of its parameters.
struct Asked<'w> {
    query: &'w Prepared,
    parameters: &'w [Value],
}

pub struct Together {
    sender: Sender<(Graph, Write)>,
}

impl Together {
    /// Starts the thread. It ends when nobody can send it anything any more.
    pub fn start() -> Result<Together, EngineError> {
        let (sender, receiver) = bounded(WAITING_MAX);
        let run = move || run(&receiver);
        let started = std::thread::Builder::new().name("together".to_owned()).spawn(run);
        started.map_err(|error| EngineError::Workers(error.to_string()))?;
        Ok(Together { sender })
    }
}

impl Graph {
    /// Commits a write that is probably small together with others. Returns at once.
    pub fn write_together(&self, write: Write) {
        if let Err(refused) = self.parts().together.sender.try_send((self.clone(), write)) {
            (refused.into_inner().1.done)(Written::RunAlone);
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

fn run(receiver: &Receiver<(Graph, Write)>) {
    let mut next = None;
    while let Some((graph, first)) = next.take().or_else(|| receiver.recv().ok()) {
        let mut writes = vec![first];
        while writes.len() < TOGETHER_MAX {
            match receiver.try_recv() {
                Ok((other, write)) if other.id() == graph.id() => writes.push(write),
                Ok(other) => {
                    next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        let asked: Vec<Asked> = writes.iter().map(|write| Asked { query: &write.query, parameters: &write.parameters }).collect();
        let told = match commit(&graph, &asked, false) {
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

/// `in_order`: the first that does not get done is the last.
fn commit(graph: &Graph, writes: &[Asked<'_>], in_order: bool) -> Result<Vec<Written>, EngineError> {
    graph.readable()?;
    let committer = graph.committer();
    let mut outcomes = Vec::new();
    let received = Some(Instant::now());
    let change = |mutations| Change { mutations, records: writes.len(), received, ..Change::default() };
    let upper = if writes.iter().any(|write| write.query.reads(graph.open_cypher())) {
        committer.transact(TRIES, |view, _, _| {
            let mutations = evaluate(graph, (writes, in_order), view, &mut outcomes);
            Ok((!mutations.is_empty()).then(|| change(mutations)))
        })?
    } else {
        let mutations = evaluate(graph, (writes, in_order), &crate::view::Empty, &mut outcomes);
        if mutations.is_empty() { None } else { Some(committer.commit(change(mutations))?) }
    };
    let Some(upper) = upper else { return Ok(outcomes) };
    let Err(error) = graph.confirm(upper) else { return Ok(outcomes) };
    let error = EngineError::unconfirmed(upper, Vec::new(), error);
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
    let now_millis = crate::commit::wall_clock_millis() as i64;
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
