//! Commit: one order of ticks for a graph, and every query serializable in it.
//!
//! A batch that read nothing is given its ticks and goes to the log and to the workers, under one short lock. A batch
//! that read is accepted if no node it read was written since its snapshot; otherwise it is evaluated again, with the
//! lock held and the newest state in view, so that even a node everybody counts on makes progress.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::lock::lock;
use weir_model::{Mutations, NodeId, Position, Text, Tick};

use crate::arrangement::{Published, Snapshot};
use crate::cause::{Cause, Causes};
use crate::checkpoint::ENTRY_WEIGHT;
use crate::engine::Parts;
use crate::error::EngineError;
use crate::expiry::Expiry;
use crate::history::erased::Erasures;
use crate::index::Question;
use crate::latency::Commits;
use crate::store::{Delivered, Entry, GraphId};

/// So many entries behind, the workers are waited for by those who commit. Few, so that under load records
/// gather at their sources, where they make larger and so cheaper batches, and not as a queue of small entries here.
const ENTRIES_BEHIND_MAX: usize = 4;

/// The same while the log is replayed: small entries that wait together are applied together.
const REPLAYED_BEHIND_MAX: usize = 256;

/// How long anyone waits for the workers before it is called a failure.
const WORKERS_PATIENCE: Duration = Duration::from_secs(60);

pub struct Committer {
    graph: GraphId,
    parts: Parts,
    published: Arc<Published>,
    /// Facts that went to the log: checkpoints are made by it.
    logged: Arc<AtomicUsize>,
    expiry: Arc<Expiry>,
    erasures: Arc<Erasures>,
    pub commits: Commits,
    pub causes: Causes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The next tick that may be given.
    next: Tick,
    /// No tick before this one is given any more: the moments before it have been read.
    sealed: Tick,
    /// The log has yet to be replayed: what was committed before comes first.
    replaying: bool,
    /// The tick after the last entry the workers were sent.
    sent: Tick,
    /// Ends of the entries the workers may not have applied.
    behind: VecDeque<Tick>,
    /// What was written since the oldest transaction that is under way began; empty when there is none.
    recent: VecDeque<Written>,
    /// Beginnings of the transactions under way, with how many began there.
    active: BTreeMap<Tick, usize>,
    sources: FxHashMap<Text, Position>,
    /// Frontiers of delivery that have not been logged.
    delivered: Vec<Delivered>,
    /// Others, which are not worth an entry.
    progress: Vec<Delivered>,
    progress_noted: Option<Instant>,
}

/// What a transaction read.
pub struct ReadSet {
    pub nodes: FxHashSet<NodeId>,
    pub scanned: bool,
    /// What indexes were asked.
    pub questions: Vec<Question>,
}

/// What an entry wrote.
struct Written {
    upper: Tick,
    nodes: FxHashSet<NodeId>,
    mutations: Arc<Mutations>,
}

/// What goes into an entry besides its ticks.
#[derive(Default)]
pub struct Change {
    pub mutations: Mutations,
    /// How many records the mutations belong to: each gets a tick.
    pub records: usize,
    pub source: Option<(Text, Position)>,
    /// When the first of them came, where that is known.
    pub received: Option<Instant>,
    /// The one of it is written by an output of a standing query.
    pub cause: Option<Arc<Cause>>,
}

impl Committer {
    /// `replaying`: nothing is committed before `end_replay`. It is so from the beginning, for whoever works for a standing query may want to commit as soon
    /// as there is the query, and the workers would be handed what is new before what is replayed.
    pub fn new(
        graph: GraphId,
        parts: &Parts,
        published: Arc<Published>,
        logged: Arc<AtomicUsize>,
        (next, replaying): (Tick, bool),
        sources: FxHashMap<Text, Position>,
        (expiry, erasures): (Arc<Expiry>, Arc<Erasures>),
    ) -> Committer {
        let state = State { next, sent: next, replaying, sources, ..State::default() };
        let (commits, causes) = (Commits::default(), Causes::default());
        Committer { graph, parts: parts.clone(), published, logged, expiry, erasures, commits, causes, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below leaves the state half changed, so a panic elsewhere does not spoil it.
        lock(&self.state)
    }

    /// Commits changes that depend on nothing that was read. Returns the tick after the last one.
    pub fn commit(&self, change: Change) -> Result<Tick, EngineError> {
        let mut state = self.lock();
        let upper = self.append(&mut state, change)?;
        let wait = state.too_far_behind(&self.published, ENTRIES_BEHIND_MAX);
        drop(state);
        self.wait_behind(wait)?;
        Ok(upper)
    }

    /// A tick of its own, in which nothing changes. Waits for no worker: whoever asks may hold what others wait for.
    pub fn tick(&self) -> Result<Tick, EngineError> {
        self.append(&mut self.lock(), Change { records: 1, ..Change::default() })
    }

    /// Starts a transaction: everything committed before is in the snapshot, everything after is remembered until `end`.
    pub fn begin(&self) -> Result<Transaction<'_>, EngineError> {
        let began = {
            let mut state = self.lock();
            self.accepts(&state)?;
            let began = state.sent;
            *state.active.entry(began).or_default() += 1;
            began
        };
        let transaction = Transaction { committer: self, began };
        self.wait_applied(began)?;
        Ok(transaction)
    }

    /// Waits until the workers have applied everything before `upper`, so that the next snapshot shows it.
    pub fn wait_applied(&self, upper: Tick) -> Result<(), EngineError> {
        if self.published.wait(upper, WORKERS_PATIENCE) { Ok(()) } else { Err(self.stuck()) }
    }

    /// An error where the graph was dropped.
    pub fn check_there(&self) -> Result<(), EngineError> {
        self.published.dropped().map_or(Ok(()), |name| Err(EngineError::NoSuchGraph(name.to_owned())))
    }

    fn accepts(&self, state: &State) -> Result<(), EngineError> {
        self.check_there()?;
        if state.replaying { Err(EngineError::Starting) } else { Ok(()) }
    }

    /// Why the workers do not answer.
    pub fn stuck(&self) -> EngineError {
        self.check_there().err().unwrap_or(EngineError::WorkersStuck)
    }

    /// Waits until the workers have applied everything.
    pub fn wait_applied_all(&self) -> Result<(), EngineError> {
        let sent = self.lock().sent;
        self.wait_applied(sent)
    }

    fn wait_behind(&self, until: Option<Tick>) -> Result<(), EngineError> {
        until.map_or(Ok(()), |upper| self.wait_applied(upper))
    }

    /// Evaluates with the lock held: what the snapshot shows is the last word. For batches that lost a race.
    pub fn alone(&self, evaluate: impl FnOnce(&Snapshot) -> Result<Change, EngineError>) -> Result<Tick, EngineError> {
        let mut state = self.lock();
        self.accepts(&state)?;
        self.wait_applied(state.sent)?;
        let change = evaluate(&self.published.snapshot())?;
        self.append(&mut state, change)
    }

    /// Gives ticks, and hands the entry to the log and to the workers: side by side, in the same order.
    fn append(&self, state: &mut State, change: Change) -> Result<Tick, EngineError> {
        self.accepts(state)?;
        let Change { mutations, records, source, received, cause } = change;
        let first = state.next.max(state.sealed).max(Tick::at_millis(wall_clock_millis()));
        let upper = Tick(first.0 + records.max(1) as u64);
        if !mutations.erased.is_empty() {
            // Here, as it needs the tick: a purge holds up commits for one write of the store.
            self.erasures.note(first, &mutations.erased)?;
        }
        let mutations = Arc::new(mutations);
        let written = (!state.active.is_empty()).then(|| {
            let nodes = mutations.rows.iter().map(|row| row.node).collect();
            Written { upper, nodes, mutations: mutations.clone() }
        });
        // What is known more surely comes last.
        let mut delivered = std::mem::take(&mut state.progress);
        delivered.append(&mut state.delivered);
        let entry = Arc::new(Entry {
            graph: self.graph,
            first,
            upper,
            mutations,
            sources: source.clone().into_iter().collect(),
            delivered,
        });
        self.parts.log.submit(entry.clone())?;
        self.logged.fetch_add(entry.mutations.rows.len() + ENTRY_WEIGHT, Ordering::Relaxed);
        state.next = upper;
        self.expiry.note(&entry.mutations);
        if records > 0 {
            self.commits.note(first, upper, received);
            if let Some(cause) = cause {
                self.causes.note(first, cause);
            }
            let _order = lock(&self.parts.sending);
            self.parts.workers.send(&crate::command::Command::Apply(entry));
            state.sent = upper;
            state.behind.push_back(upper);
        }
        state.recent.extend(written);
        if let Some((name, position)) = source {
            // Without a position it is gone.
            match position.0.is_empty() {
                true => state.sources.remove(&name),
                false => state.sources.insert(name, position),
            };
        }
        Ok(upper)
    }

    /// A tick for nothing, if the workers were sent none after this one: they get past it.
    pub fn pass(&self, moment: Tick) -> Result<(), EngineError> {
        let mut state = self.lock();
        if state.sent <= moment {
            self.append(&mut state, Change { records: 1, ..Change::default() })?;
        }
        Ok(())
    }

    pub fn position(&self, source: &str) -> Option<Position> {
        self.lock().sources.get(source).cloned()
    }

    /// The tick after the last entry.
    pub fn next(&self) -> Tick {
        self.lock().next
    }

    /// From now on nothing is committed at or before a tick, and everything that was is applied. Gives the tick after the last
    /// entry.
    pub fn seal(&self, at: Tick) -> Result<Tick, EngineError> {
        let (next, sent) = {
            let mut state = self.lock();
            state.sealed = state.sealed.max(at.next());
            (state.next, state.sent)
        };
        self.wait_applied(sent)?;
        Ok(next)
    }

    /// Does something between two entries: no entry is given ticks meanwhile. It is told where the workers stand.
    pub fn between<R>(&self, act: impl FnOnce(Tick) -> R) -> R {
        let state = self.lock();
        let _order = lock(&self.parts.sending);
        act(state.sent)
    }

    /// Nothing is committed any more, and nobody waits for the workers, who let go of the graph.
    pub fn end(&self, name: &str) {
        self.between(|_| {
            self.published.drop_graph(name);
            self.parts.workers.send(&crate::command::Command::DropGraph { graph: self.graph });
        });
    }

    /// Remembers how far results were delivered, for the next entry. Who looked earlier and comes later takes nothing back.
    pub fn note_delivered(&self, delivered: Delivered) {
        let mut state = self.lock();
        let same = |other: &Delivered| other.query == delivered.query && other.output == delivered.output;
        match state.delivered.iter_mut().find(|other| same(other)) {
            Some(other) if !other.is_gone() && !delivered.is_gone() && delivered.tick < other.tick => {}
            Some(other) => *other = delivered,
            None => state.delivered.push(delivered),
        }
    }

    /// Has the next entry take along how far results were delivered, if it was not asked that within the interval. No output comes or goes meanwhile.
    pub fn note_progress(&self, interval: Duration, outputs: impl FnOnce() -> Vec<Delivered>) {
        let mut state = self.lock();
        if state.progress_noted.is_none_or(|at| at.elapsed() >= interval) {
            state.progress = outputs();
            state.progress_noted = Some(Instant::now());
        }
    }

    /// Logs what `note_delivered` collected, if no entry has taken it along.
    pub fn log_delivered(&self) -> Result<(), EngineError> {
        let mut state = self.lock();
        if !state.delivered.is_empty() {
            self.append(&mut state, Change::default())?;
        }
        Ok(())
    }

    /// All of the log has been replayed, and what is new may come.
    pub fn end_replay(&self) {
        self.lock().replaying = false;
    }

    /// Feeds an entry of the log to the workers again, after a restart. One of nothing is passed over, but the last: the standing
    /// queries answer for everything before its end.
    pub fn replay(&self, entry: Arc<Entry>, is_last: bool) -> Result<(), EngineError> {
        let mut state = self.lock();
        assert!(state.replaying && entry.first >= state.next, "the log is replayed in its order, and before anything else");
        state.next = entry.upper;
        if entry.mutations.is_empty() && !is_last {
            return Ok(());
        }
        state.sent = entry.upper;
        state.behind.push_back(entry.upper);
        let _order = lock(&self.parts.sending);
        self.parts.workers.send(&crate::command::Command::Apply(entry));
        let wait = state.too_far_behind(&self.published, REPLAYED_BEHIND_MAX);
        drop(state);
        self.wait_behind(wait)
    }
}

impl State {
    /// The tick to wait for when the workers have fallen back too far.
    fn too_far_behind(&mut self, published: &Published, most: usize) -> Option<Tick> {
        let upper = published.upper();
        while self.behind.front().is_some_and(|end| *end <= upper) {
            self.behind.pop_front();
        }
        let excess = self.behind.len().checked_sub(most)?;
        self.behind.get(excess).copied()
    }
}

/// A transaction under way. Dropping it ends it.
pub struct Transaction<'a> {
    committer: &'a Committer,
    began: Tick,
}

impl Transaction<'_> {
    pub fn snapshot(&self) -> Snapshot {
        self.committer.published.snapshot()
    }

    /// Commits if nothing that was read has changed since the snapshot; otherwise gives the change back.
    pub fn commit(&self, snapshot: &Snapshot, reads: &ReadSet, change: Change) -> Result<Result<Tick, Change>, EngineError> {
        let mut state = self.committer.lock();
        let stale = |written: &Written| {
            let gains = |question: &Question| question.may_gain(&written.mutations);
            let touched = || !written.nodes.is_disjoint(&reads.nodes) || reads.questions.iter().any(gains);
            written.upper > snapshot.tick().next() && (reads.scanned || touched())
        };
        if state.recent.iter().any(stale) {
            return Ok(Err(change));
        }
        let upper = self.committer.append(&mut state, change)?;
        let wait = state.too_far_behind(&self.committer.published, ENTRIES_BEHIND_MAX);
        drop(state);
        self.committer.wait_behind(wait)?;
        Ok(Ok(upper))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let mut state = self.committer.lock();
        if let Some(count) = state.active.get_mut(&self.began) {
            *count -= 1;
            if *count == 0 {
                state.active.remove(&self.began);
            }
        }
        match state.active.keys().next().copied() {
            None => state.recent.clear(),
            Some(oldest) => {
                while state.recent.front().is_some_and(|written| written.upper <= oldest) {
                    state.recent.pop_front();
                }
            }
        }
    }
}

pub fn wall_clock_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
