//! Workers: the timely threads. Each takes commands, steps its dataflows, and sleeps when there is neither.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use differential_dataflow::operators::arrange::ShutdownButton;
use differential_dataflow::trace::TraceReader;
use rustc_hash::FxHashMap;
use timely::communication::WorkerGuards;
use timely::dataflow::operators::CapabilitySet;
use timely::progress::frontier::AntichainRef;
use timely::worker::Worker;
use weir_model::QueryId;
use weir_model::lock::lock;

use crate::alarm::Alarm;
use crate::arrangement::build::Shard;
use crate::command::{Command, Install};
use crate::memory::{gather_freed, holds_graph};
use crate::render::probe::{Common, home, render};
use crate::render::rest::{Installation, Turns};
use crate::render::results::{Baseline, Gather, Outlet, Reported, Rested};
use crate::render::stages::Outside;
use crate::render::{QueryNumber, Time};
use crate::shard::ShardOfGraph;
use crate::store::{Entry, GraphId};
use crate::symbols::WorkerSymbols;

/// The longest sleep: a bound in case a wake-up is missed, not a polling interval that anything relies on.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// What was sent is applied at the end, as far as this is enough for it: it is in the log, and the next start goes on there.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// At the end, what stages are at, and what looks through the graph, is waited for this long: both begin again where they are not
/// done.
const FINISH_ASIDE_MAX: Duration = Duration::from_secs(1);

/// Entries that wait are taken together until they have this many rows.
const JOINED_ROWS: usize = 4096;

/// The threads, and the way to reach them.
pub struct Workers {
    senders: Vec<Sender<Command>>,
    threads: Vec<Thread>,
    guards: Mutex<Option<WorkerGuards<()>>>,
}

impl Workers {
    pub fn start(count: usize) -> Result<Workers, String> {
        #[expect(clippy::disallowed_methods, reason = "committers wait when workers are behind, which bounds what lies here")]
        let (senders, receivers): (Vec<_>, Vec<Receiver<Command>>) = (0..count).map(|_| crossbeam_channel::unbounded()).unzip();
        let receivers = Arc::new(receivers);
        let guards = timely::execute(timely::Config::process(count), move |worker| {
            let commands = receivers[worker.index()].clone();
            run(worker, &commands);
        })?;
        let threads = guards.guards().iter().map(|guard| guard.thread().clone()).collect();
        Ok(Workers { senders, threads, guards: Mutex::new(Some(guards)) })
    }

    pub fn count(&self) -> usize {
        self.senders.len()
    }

    /// Sends a command to every worker. Callers hold a lock while they do, so that all workers see one order.
    pub fn send(&self, command: &Command) {
        for sender in &self.senders {
            // A worker that is gone has stopped on purpose: commands after that have no meaning.
            let _ = sender.send(command.clone());
        }
        self.threads.iter().for_each(Thread::unpark);
    }

    /// Ends the threads once they have done everything sent before. `sending` is the lock of those who send: where one worker was
    /// told to end before a query was installed and another after it, they would wait for each other.
    pub fn stop(&self, sending: &Mutex<()>) {
        {
            let _order = lock(sending);
            self.send(&Command::Stop);
        }
        if let Some(guards) = lock(&self.guards).take() {
            for result in guards.join() {
                if let Err(error) = result {
                    tracing::error!("a worker ended with an error: {error}");
                }
            }
        }
    }
}

/// The dataflow of a graph's standing queries, there while there are any.
struct Standing {
    button: ShutdownButton<CapabilitySet<Time>>,
    common: Common,
    numbers: FxHashMap<QueryId, QueryNumber>,
}

impl Standing {
    /// Lets go of everything the queries keep; what still runs for them sees that they are gone.
    fn end(mut self) {
        self.button.press();
        self.common.queries.take();
    }
}

#[derive(Default)]
struct State {
    graphs: FxHashMap<GraphId, ShardOfGraph>,
    standing: FxHashMap<GraphId, Standing>,
    /// Of the installations that look through a graph, and how many there ever were.
    turns: Turns,
    installations: u64,
}

/// Ends the process with a worker that panics: without it nothing that is committed is applied any more, and whoever waits for it
/// gets nothing but the end of patience. All that was acknowledged is in the log, and the next start goes on from there. It ends
/// at once, as destructors would wait for the worker, and not by a signal that looks like a lack of memory.
struct EndWith {
    worker: usize,
}

impl Drop for EndWith {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                worker = self.worker,
                "a worker of the graph ended through a bug in weir, and weir ends with it; nothing acknowledged is lost"
            );
            std::process::abort();
        }
    }
}

fn run(worker: &mut Worker, commands: &Receiver<Command>) {
    holds_graph();
    let mut state = State::default();
    let mut next = None;
    // Dropped first.
    let _end = EndWith { worker: worker.index() };
    loop {
        state.turns.borrow_mut().begin_round();
        match next.take().map_or_else(|| commands.try_recv(), Ok) {
            Ok(command) => {
                match state.obey(worker, command, commands) {
                    ControlFlow::Continue(further) => next = further,
                    ControlFlow::Break(()) => return state.finish(worker),
                }
                // The graph takes it in, then the standing queries do, and let go of the batches before it, so that those
                // can be merged and reads stay short.
                worker.step();
                worker.step();
            }
            Err(TryRecvError::Disconnected) => return state.finish(worker),
            Err(TryRecvError::Empty) => {
                state.graphs.values().for_each(ShardOfGraph::allow_merges);
                let since = Instant::now();
                worker.step_or_park(Some(SLEEP_MAX));
                if since.elapsed() >= SLEEP_MAX {
                    state.graphs.values_mut().for_each(ShardOfGraph::rest);
                    gather_freed();
                }
            }
        }
    }
}

/// Takes more entries of the same graph if they are there already, so that small ones cost no step each. Shards may do
/// so at different places: each record has its own tick all the same. Also gives back what came next instead.
fn join(first: Arc<Entry>, commands: &Receiver<Command>) -> (Vec<Arc<Entry>>, Option<Command>) {
    let mut rows = first.mutations.rows.len();
    let mut entries = vec![first];
    while rows < JOINED_ROWS {
        match commands.try_recv() {
            Ok(Command::Apply(entry)) if entry.graph == entries[0].graph => {
                rows += entry.mutations.rows.len();
                entries.push(entry);
            }
            Ok(other) => return (entries, Some(other)),
            Err(_) => break,
        }
    }
    (entries, None)
}

/// What the results of a query go through on this worker: where it is at home its stages, if it has some, and the way out.
fn gather(install: &Install, graph: &ShardOfGraph, shard: Shard) -> Gather {
    let Install { number, maintained, .. } = install;
    let is_home = home(*number) % shard.count as u64 == shard.index as u64;
    let outside = Outside {
        published: graph.published.clone(),
        symbols: install.symbols.clone(),
        open_cypher: install.open_cypher,
        alarm: Alarm::new(install.alarms.clone(), install.graph, number.0),
        health: install.health.clone(),
    };
    let staged = maintained.staged.as_ref().filter(|_| is_home);
    let stages = staged.and_then(|staged| staged.start(outside, graph.upper).ok()).map(|stages| (stages, install.asides.clone()));
    let outlet = Outlet {
        results: is_home.then(|| install.results.clone()),
        inbox: install.inbox.clone(),
        backfill: install.backfill.clone(),
    };
    // Of a graph that nothing was ever written to, all that there is was there before.
    let installed = graph.upper.max(1);
    let reported = Reported { cancellations_until: install.cancellations_until.0, baseline: install.baseline, installed };
    Gather::new(maintained, install.health.clone(), stages, reported, outlet)
}

/// Everything that was sent before is applied.
fn step_until_current(worker: &mut Worker, graph: &ShardOfGraph) {
    while !graph.is_current() {
        worker.step();
    }
}

impl State {
    /// Gives back the command behind entries that were taken in together. Breaks where it is told to stop.
    fn obey(&mut self, worker: &mut Worker, command: Command, commands: &Receiver<Command>) -> ControlFlow<(), Option<Command>> {
        match command {
            Command::CreateGraph { graph, published, base } => {
                self.graphs.insert(graph, ShardOfGraph::new(worker, published, &base));
            }
            Command::DropGraph { graph } => {
                if let Some(standing) = self.standing.remove(&graph) {
                    standing.end();
                }
                self.graphs.remove(&graph);
                self.turns.borrow().rouse();
            }
            Command::Apply(entry) => {
                let (entries, further) = join(entry, commands);
                self.apply(entries);
                return ControlFlow::Continue(further);
            }
            Command::Install(install) => self.install(worker, &install),
            Command::Heed { graph, query, until } => {
                if let Some(standing) = self.standing.get(&graph)
                    && let Some(number) = standing.numbers.get(&query)
                {
                    standing.common.queries.borrow_mut().heed(*number, until.0);
                }
            }
            Command::Drop { graph, query } => {
                if let Some(standing) = self.standing.get_mut(&graph)
                    && let Some(number) = standing.numbers.remove(&query)
                {
                    standing.common.queries.borrow_mut().remove(number);
                }
                self.turns.borrow().rouse();
            }
            Command::BeginIndex { graph, definition, began } => {
                if let Some(graph) = self.graphs.get_mut(&graph) {
                    step_until_current(worker, graph);
                    // Whoever asked may have gone.
                    let _ = began.send(graph.begin_index(definition));
                }
            }
            Command::FillIndex { graph, definition, bases, filled } => {
                if let Some(graph) = self.graphs.get_mut(&graph) {
                    step_until_current(worker, graph);
                    graph.fill_index(&definition, bases.get(worker.index()).cloned().flatten());
                }
                let _ = filled.send(());
            }
            Command::DropIndex { graph, definition } => {
                if let Some(graph) = self.graphs.get_mut(&graph) {
                    step_until_current(worker, graph);
                    graph.drop_index(&definition);
                }
            }
            Command::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(None)
    }

    /// Ends the dataflow of standing queries if the last has gone. Only now: the arrangement lets go of who listened to it when
    /// its next batch comes, so where nothing is written, those made and dropped meanwhile would each leave something.
    fn apply(&mut self, entries: Vec<Arc<Entry>>) {
        let Some(id) = entries.first().map(|entry| entry.graph) else { return };
        if self.standing.get(&id).is_some_and(|standing| standing.numbers.is_empty())
            && let Some(standing) = self.standing.remove(&id)
        {
            standing.end();
        }
        if let Some(graph) = self.graphs.get_mut(&id) {
            graph.apply(entries);
        }
    }

    fn install(&mut self, worker: &mut Worker, install: &Install) {
        let Some(graph) = self.graphs.get_mut(&install.graph) else { return };
        // The trace must hold exactly what was committed before the query: the same on every worker.
        step_until_current(worker, graph);
        let shard = Shard { index: worker.index(), count: worker.peers() };
        let gather = gather(install, graph, shard);
        let Install { number, maintained, .. } = install;
        // Without a count of each row, nothing is to be known of the matches that were there.
        let asked = maintained.distinct || maintained.staged.is_some() || !matches!(install.baseline, Baseline::Known);
        let at_rest = asked.then(|| graph.at_rest(worker));

        let standing = self.standing.entry(install.graph).or_insert_with(|| {
            let common = Common {
                queries: Default::default(),
                published: graph.published.clone(),
                symbols: Rc::new(WorkerSymbols::new(install.symbols.clone())),
                shard,
                hubs: install.hubs,
            };
            let button = worker.dataflow::<Time, _, _>(|scope| render(scope, &mut graph.trace, &common));
            Standing { button, common, numbers: FxHashMap::default() }
        });
        standing.numbers.insert(install.query, *number);
        let mut queries = standing.common.queries.borrow_mut();
        queries.install(*number, &install.health, graph.upper, maintained, gather);
        if maintained.interest.is_some() {
            queries.held.get_or_insert_with(|| {
                let mut held = graph.trace.clone();
                held.set_physical_compaction(AntichainRef::new(&[]));
                held
            });
        }
        let Some(snapshot) = at_rest else {
            while queries.rested(*number) != Rested::Yes {}
            return;
        };
        drop(queries);
        let patterns = Installation::patterns(*number, maintained, &install.health);
        let (backfill, mut held) = (install.backfill.clone(), graph.trace.clone());
        // It keeps ticks apart, not batches: unmerged, they would become more and more as long as it takes.
        held.set_physical_compaction(AntichainRef::new(&[]));
        let installation = Installation { query: *number, graph: install.graph, patterns, snapshot, backfill, held };
        self.installations += 1;
        let (turns, turn) = (self.turns.clone(), self.installations);
        worker.dataflow::<Time, _, _>(|scope| installation.render(scope, &standing.common, turns, turn));
    }

    /// Applies what was sent, lets standing queries run dry, and ends the dataflows.
    fn finish(mut self, worker: &mut Worker) {
        let behind = |state: &State| {
            let waits = |(graph, standing): (&GraphId, &Standing)| {
                state.graphs.get(graph).is_some_and(|graph| !standing.common.queries.borrow().is_current(graph.upper))
            };
            state.graphs.values().any(|graph| !graph.is_current()) || state.standing.iter().any(waits)
        };
        let begun = Instant::now();
        let until = begun + FINISH_MAX;
        let is_beside = |standing: &Standing| {
            let mut queries = standing.common.queries.borrow_mut();
            !queries.is_rested() || queries.behind().is_some()
        };
        while behind(&self) || begun.elapsed() < FINISH_ASIDE_MAX && self.standing.values().any(is_beside) {
            if Instant::now() > until {
                tracing::error!(worker = worker.index(), "this worker ends without having applied what it was sent");
                break;
            }
            self.turns.borrow_mut().begin_round();
            worker.step();
        }
        self.standing.drain().for_each(|(_, standing)| standing.end());
        self.turns.borrow().rouse();
        self.graphs.clear();
        while worker.has_dataflows() {
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use weir_model::{Mutations, Tick};

    use super::*;
    use crate::arrangement::Published;

    /// Who stops did not wait for who was sending, so one worker could be told to end before a command and another after it.
    #[test]
    fn the_workers_are_told_to_end_after_what_is_being_sent() {
        let (workers, sending) = (Arc::new(Workers::start(2).unwrap()), Arc::new(Mutex::new(())));
        let graph = GraphId(1);
        let published = Arc::new(Published::new(workers.count()));
        let order = lock(&sending);
        let ending = {
            let (workers, sending) = (workers.clone(), sending.clone());
            thread::spawn(move || workers.stop(&sending))
        };
        // So that it has got as far as it gets.
        thread::sleep(Duration::from_millis(200));
        workers.send(&Command::CreateGraph { graph, published: published.clone(), base: Arc::default() });
        workers.send(&Command::Apply(Arc::new(Entry {
            graph,
            first: Tick(1),
            upper: Tick(2),
            mutations: Arc::new(Mutations::default()),
            sources: Vec::new(),
            delivered: Vec::new(),
        })));
        drop(order);
        assert!(published.wait(Tick(2), Duration::from_secs(20)), "a worker has ended before");
        ending.join().unwrap();
    }
}
