//! Workers: the timely threads. Each takes commands, steps its dataflows, and sleeps when there is neither.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use differential_dataflow::operators::arrange::ShutdownButton;
use rustc_hash::FxHashMap;
use timely::communication::WorkerGuards;
use timely::dataflow::operators::CapabilitySet;
use timely::worker::Worker;
use weir_model::QueryId;

use crate::arrangement::build::Shard;
use crate::command::{Command, Install};
use crate::graph::ShardOfGraph;
use crate::render::Time;
use crate::render::probe::{Place, render};
use crate::render::results::{Baseline, Gather};
use crate::render::stages::Outside;
use crate::store::{Entry, GraphId};

/// The longest sleep: a bound in case a wake-up is missed, not a polling interval that anything relies on.
const SLEEP_MAX: Duration = Duration::from_millis(100);

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

    /// Ends the threads once they have done everything sent before.
    pub fn stop(&self) {
        self.send(&Command::Stop);
        if let Some(guards) = self.guards.lock().unwrap_or_else(|e| e.into_inner()).take() {
            for result in guards.join() {
                if let Err(error) = result {
                    tracing::error!("a worker ended with an error: {error}");
                }
            }
        }
    }
}

struct Standing {
    button: ShutdownButton<CapabilitySet<Time>>,
    gather: Rc<RefCell<Gather>>,
}

#[derive(Default)]
struct State {
    graphs: FxHashMap<GraphId, ShardOfGraph>,
    standing: FxHashMap<(GraphId, QueryId), Standing>,
}

fn run(worker: &mut Worker, commands: &Receiver<Command>) {
    let mut state = State::default();
    let mut next = None;
    loop {
        match next.take().map_or_else(|| commands.try_recv(), Ok) {
            Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return state.finish(worker),
            Ok(command) => {
                match command {
                    Command::Apply(entry) => {
                        let (entries, further) = join(entry, commands);
                        next = further;
                        state.apply(entries);
                    }
                    command => state.obey(worker, command),
                }
                // The graph takes it in, then the standing queries do, and let go of the batches before it, so that those
                // can be merged and reads stay short.
                worker.step();
                worker.step();
            }
            Err(TryRecvError::Empty) => {
                worker.step_or_park(Some(SLEEP_MAX));
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

/// Everything that was sent before is applied.
fn step_until_current(worker: &mut Worker, graph: &ShardOfGraph) {
    while !graph.is_current() {
        worker.step();
    }
}

impl State {
    fn obey(&mut self, worker: &mut Worker, command: Command) {
        match command {
            Command::CreateGraph { graph, published, base } => {
                self.graphs.insert(graph, ShardOfGraph::new(worker, published, &base));
            }
            Command::DropGraph { graph } => {
                self.standing.retain(|(of, _), standing| {
                    if *of == graph {
                        standing.button.press();
                    }
                    *of != graph
                });
                self.graphs.remove(&graph);
            }
            Command::Apply(entry) => self.apply(vec![entry]),
            Command::Install(install) => self.install(worker, &install),
            Command::Propagate { graph, query } => {
                if let Some(standing) = self.standing.get(&(graph, query)) {
                    standing.gather.borrow_mut().propagate();
                }
            }
            Command::Drop { graph, query } => {
                if let Some(mut standing) = self.standing.remove(&(graph, query)) {
                    standing.button.press();
                }
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
            Command::Stop => {}
        }
    }

    fn apply(&mut self, entries: Vec<Arc<Entry>>) {
        if let Some(graph) = entries.first().and_then(|entry| self.graphs.get_mut(&entry.graph)) {
            graph.apply(entries);
        }
    }

    fn install(&mut self, worker: &mut Worker, install: &Install) {
        let Some(graph) = self.graphs.get_mut(&install.graph) else { return };
        // The trace must hold exactly what was committed before the query: the same on every worker.
        step_until_current(worker, graph);
        let shard = Shard { index: worker.index(), count: worker.peers() };
        let home = install.query.0.shard(shard.count);
        let maintained = &install.maintained;
        let outside =
            Outside { published: graph.published.clone(), symbols: install.symbols.clone(), open_cypher: install.open_cypher };
        let staged = maintained.staged.as_ref().filter(|_| shard.index == home);
        let stages = staged.and_then(|staged| staged.start(outside, graph.upper).ok());
        let gather = Rc::new(RefCell::new(Gather::new(
            maintained.columns.clone(),
            maintained.distinct,
            install.cancellations,
            install.baseline,
            // Of a graph that nothing was ever written to, all that there is was there before.
            graph.upper.max(1),
            (shard.index == home).then(|| install.results.clone()),
            install.waiting.clone(),
            stages,
        )));
        // Without a count of each row, nothing is to be known of the matches that were there.
        let asked = maintained.distinct || maintained.staged.is_some() || !matches!(install.baseline, Baseline::Known);
        let at_rest = asked.then(|| graph.at_rest(worker));
        let (trace, results) = (&mut graph.trace, gather.clone());
        let place = Place { shard, at_rest, home };
        let button = worker.dataflow::<Time, _, _>(|scope| render(scope, trace, maintained, &install.symbols, place, results));
        self.standing.insert((install.graph, install.query), Standing { button, gather });
    }

    /// Applies what was sent, lets standing queries run dry, and ends the dataflows.
    fn finish(mut self, worker: &mut Worker) {
        let behind = |state: &State| {
            let waits = |((graph, _), standing): (&(GraphId, QueryId), &Standing)| {
                state.graphs.get(graph).is_some_and(|graph| standing.gather.borrow().upper() < graph.upper)
            };
            state.graphs.values().any(|graph| !graph.is_current()) || state.standing.iter().any(waits)
        };
        while behind(&self) {
            worker.step();
        }
        for standing in self.standing.values_mut() {
            standing.button.press();
        }
        self.graphs.clear();
        while worker.has_dataflows() {
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
    }
}
