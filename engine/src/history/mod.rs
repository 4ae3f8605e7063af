//! History: what a graph was at any past moment, read from the runs of pages and, for what no run holds yet, from the log.
//!
//!     log ──checkpoint──> run, run, run ──merged behind──> fewer, larger runs
//!      └──when asked──> the same in memory, until the checkpoint has come so far
//!
//! Nothing is kept for it on the path of a record: entries and pages hold every version with its tick anyway. How far back
//! they do is the horizon: what only earlier moments could see is dropped when runs are merged.
//!
//!     run      the versions of a stretch of time, sorted by node, and how they are read
//!     cache    chunks that were read lately, of all graphs
//!     merge    several runs become one
//!     erased   nodes of which nothing is known any more from before some tick
//!     past     the graph as of a tick, as a View
//!     since    which nodes have changed since then
//!     changes  what happened to a node, and when
//!     recall   the past as a query that runs may ask for it
//!     batches  which ticks a source brought, and where it stood then

pub mod run;
pub mod cache;
mod merge;
pub mod erased;
mod past;
mod since;
mod changes;
mod recall;
pub mod batches;

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_model::Tick;
use weir_model::lock::{lock, try_lock};

use self::erased::Erasures;
use self::merge::{Keeps, Merging, lost};
use self::past::AsOf;
use self::run::{Indexing, Piece, Run, Shelf, names};
use self::since::Since;
use crate::arrangement::chunk::Chunk;
use crate::arrangement::pages;
use crate::commit::wall_clock_millis;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::scheduling::Breath;
use crate::store::{GraphId, NewRun, Part, RunId, StoreError, read_some};

pub use self::changes::{Change, Changed};
pub use self::past::{Moment, Past};
pub use self::recall::Recall;

/// This many neighbours of like size are merged.
const FAN_IN: usize = 4;

/// As `FAN_IN`, while runs keep coming: each version is written again less often, by threads that streams would have instead.
const FAN_IN_BUSY: usize = 8;

/// Runs keep coming if the last one came no longer ago.
const CALM_AFTER: Duration = Duration::from_secs(2);

/// Runs below this size are of like size.
const SMALL_RUN_BYTES: u64 = 4 << 20;

/// Old versions are collected about this many times within the retention time.
const COLLECTIONS_PER_RETENTION: u64 = 8;

/// How much of what passes for a graph at rest a start may not know of: this part of the retention time, within these bounds.
const NOTES_PER_RETENTION: u64 = 256;
const NOTES_APART: RangeInclusive<u64> = 60_000..=3_600_000;

/// A run in memory is made of at most about this many facts.
const FACTS_PER_PIECE: usize = 500_000;

/// Pieces of the log in memory are merged as far as they have no more than this together: whoever reads waits for it, and of
/// larger ones there are few.
const MERGED_BYTES_MAX: u64 = 16 << 20;

/// How long a read waits for a checkpoint or a merge to say where the pages went.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of the past is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Off: only the newest version of each fact is kept.
    pub journal: bool,
    /// How long versions are kept; None is for ever.
    pub kept: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { journal: true, kept: None }
    }
}

pub struct History {
    shelf: Shelf,
    retention: Retention,
    state: Mutex<State>,
    /// Held while the log is read into memory.
    growing: Mutex<()>,
    /// Held while runs are merged.
    merging: Mutex<()>,
    erasures: Arc<Erasures>,
    /// What was last found to have changed since a moment: who looks around in the past asks for the same one again.
    since: Mutex<Option<Arc<Since>>>,
}

#[derive(Clone, Default)]
struct State {
    /// Oldest first; they hold everything before `upto`.
    runs: Vec<Arc<Run>>,
    upto: Tick,
    /// What was read of the log, oldest first; with the runs, it holds everything before `tail_upto`.
    tail: Vec<Arc<Run>>,
    tail_upto: Tick,
    /// Of moments before this one, versions may be gone; the highest there is while no history is kept at all.
    begins: Tick,
    /// When the last run came.
    grew: Option<Instant>,
    /// A time in milliseconds that commits have got to, and when that was seen.
    reached: Option<(u64, Instant)>,
    /// The latest such time that the next start will find.
    known: u64,
}

impl State {
    /// The time by what was committed and what has passed since then, whatever the clock says. It may be earlier than it is, as
    /// what passes while no weir runs does not count.
    fn passed(&self) -> u64 {
        self.reached.map_or(0, |(time, seen)| time.saturating_add(millis(seen.elapsed())))
    }

    /// Something was committed at that time, or it was noted.
    fn reach(&mut self, time: u64) {
        self.known = self.known.max(time);
        if time > self.passed() {
            self.reached = Some((time, Instant::now()));
        }
    }

    /// The newest two pieces of the log, if they are to be merged.
    fn newest_alike(&self) -> Option<[Arc<Run>; 2]> {
        let [.., older, newer] = &self.tail[..] else { return None };
        let are_alike = older.bytes <= 2 * newer.bytes && older.bytes + newer.bytes <= MERGED_BYTES_MAX;
        are_alike.then(|| [older.clone(), newer.clone()])
    }

    /// Unless they are no longer the newest: a checkpoint has gone past one of them, or what was purged has gone with them.
    fn put_in_place_of(&mut self, two: &[Arc<Run>; 2], merged: Run) {
        if let [.., older, newer] = &self.tail[..]
            && Arc::ptr_eq(older, &two[0])
            && Arc::ptr_eq(newer, &two[1])
        {
            self.tail.truncate(self.tail.len() - 2);
            self.tail.push(Arc::new(merged));
        }
    }

    /// Lets go of what was read of the log, if some of it is from before this tick. It is read again, from where the runs end.
    fn forget_tail(&mut self, upper: Tick) {
        if self.tail.iter().any(|piece| piece.first < upper) {
            self.tail.clear();
            self.tail_upto = self.upto;
        }
    }
}

impl History {
    /// `next` is the tick after everything the store holds, `upto` that after everything in the runs.
    pub fn open(shelf: Shelf, retention: Retention, runs: Vec<Run>, upto: Tick, next: Tick) -> Result<History, StoreError> {
        let key = horizon_key(shelf.graph);
        let stored = shelf.store.metadata(&key)?;
        let damaged = || StoreError::damaged("a length that does not match", format!("metadata '{key}'"));
        let stored = stored.map(|bytes| bytes.try_into().map(u64::from_le_bytes).map_err(|_| damaged())).transpose()?;
        let stored = stored.map(Tick);
        let begins = match (retention.journal, stored) {
            (false, _) => Tick::MAX,
            // History was off until now.
            (true, Some(Tick::MAX)) => next,
            (true, stored) => {
                let last = runs.iter().filter(|run| !run.has_past).map(|run| Tick(run.upper.0 - 1)).max();
                // A clock that was ahead may have noted a later one. Nothing was committed behind the end, so nothing is gone.
                stored.max(last).unwrap_or_default().min(next)
            }
        };
        if let Some(stored) = stored.filter(|stored| retention.journal && *stored != Tick::MAX && *stored > next) {
            tracing::warn!(
                graph = shelf.graph.0,
                noted = stored.millis(),
                begins = begins.millis(),
                "history was noted to begin after the last change, as where a clock was ahead; it begins there"
            );
        }
        if stored.unwrap_or_default() != begins && !shelf.store.read_only() {
            shelf.store.put_metadata(&key, &begins.0.to_le_bytes())?;
        }
        let runs = runs.into_iter().map(Arc::new).collect();
        let erasures = Arc::new(Erasures::open(shelf.store.clone(), shelf.graph, next)?);
        let mut state = State { runs, upto, tail_upto: upto, begins, ..State::default() };
        state.reach(next.millis());
        state.reach(noted_passed(&shelf)?);
        Ok(History {
            shelf,
            retention,
            state: Mutex::new(state),
            growing: Mutex::default(),
            merging: Mutex::default(),
            erasures,
            since: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything that could panic.
        lock(&self.state)
    }

    /// A checkpoint has made a run of everything up to its end.
    pub fn add(&self, run: Run) {
        let mut state = self.lock();
        state.upto = run.upper;
        state.tail_upto = state.tail_upto.max(run.upper);
        state.tail.retain(|piece| piece.upper > run.upper);
        state.reach(run.upper.millis());
        state.runs.push(Arc::new(run));
        state.grew = Some(Instant::now());
    }

    /// The first moment that can be read; none while no history is kept.
    fn horizon(&self) -> Option<Tick> {
        let begins = self.lock().begins;
        let policy = self.retention.kept.map_or(Tick::ZERO, |kept| long_before(wall_clock_millis(), kept));
        (begins != Tick::MAX).then_some(begins.max(policy))
    }

    fn check(&self, at: Tick) -> Result<(), EngineError> {
        match self.horizon() {
            None => Err(EngineError::NoHistory),
            Some(begins) if at < begins => Err(EngineError::TooLongAgo { asked: at.millis(), begins: begins.millis() }),
            Some(_) => Ok(()),
        }
    }

    /// Everything that holds versions from before the end of `at`, oldest first. `next` is the tick after the last commit.
    fn pieces(&self, graph: &Graph, AsOf { at, next }: AsOf) -> Result<Vec<Piece>, EngineError> {
        let wanted = at.next().min(next);
        let state = loop {
            self.grow(graph, wanted)?;
            let state = self.lock().clone();
            // What was read of the log may have been let go meanwhile.
            if state.tail_upto >= wanted {
                break state;
            }
        };
        let early = |run: &&Arc<Run>| run.first <= at;
        let mut runs: Vec<Arc<Run>> = state.runs.iter().filter(early).cloned().collect();
        if wanted > state.upto {
            runs.extend(state.tail.iter().filter(early).cloned());
        }
        Ok(Piece::of(&runs))
    }

    /// Reads the log into memory until everything before `wanted` is there or in runs.
    fn grow(&self, graph: &Graph, wanted: Tick) -> Result<(), EngineError> {
        let is_there = || self.lock().tail_upto >= wanted;
        if is_there() {
            return Ok(());
        }
        // While the log is replayed all there is was read from it.
        if graph.ahead().is_none() {
            graph.wait_durable(wanted)?;
        }
        let _one = lock(&self.growing);
        let began = Instant::now();
        while !is_there() {
            let from = self.lock().tail_upto;
            let (entries, _) = read_some(&*self.shelf.store, self.shelf.graph, from..Tick::MAX, FACTS_PER_PIECE)?;
            // A checkpoint may have cut the log meanwhile; it is about to say which run holds what was cut.
            let cut = self.shelf.store.progress(self.shelf.graph)?.upto > from;
            let Some(last) = entries.last().filter(|_| !cut) else {
                graph.committer().check_there()?;
                if began.elapsed() > PATIENCE {
                    return Err(EngineError::WorkersStuck);
                }
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let upper = last.upper;
            let piece = held(entries[0].first, upper, pages::run(&entries).map(|chunk| Ok((Part::Newest, chunk))))?;
            self.extend(Arc::new(piece), from, upper)?;
        }
        Ok(())
    }

    /// Adds a piece of the log, and merges the newest of them where they are of like size: whoever reads what is there already
    /// does not wait for that.
    fn extend(&self, piece: Arc<Run>, from: Tick, upper: Tick) -> Result<(), EngineError> {
        {
            let mut state = self.lock();
            if state.tail_upto != from {
                // A checkpoint has gone past it.
                return Ok(());
            }
            state.tail.push(piece);
            state.tail_upto = upper;
        }
        loop {
            let Some(two) = self.lock().newest_alike() else { return Ok(()) };
            let going_on = AtomicBool::new(false);
            let chunks = Merging::new(
                &self.shelf,
                Piece::of(&two),
                Vec::new(),
                Keeps { bottom: false, horizon: 0 },
                Arc::default(),
                &going_on,
            )?;
            let merged = held(two[0].first, two[1].upper, chunks)?;
            self.lock().put_in_place_of(&two, merged);
        }
    }

    /// What is known to have changed since a moment, as far as that goes and is not beyond `upto`.
    fn since(&self, at: Tick, upto: Tick) -> Option<Arc<Since>> {
        let last = lock(&self.since);
        last.as_ref().filter(|since| since.at == at && since.upto <= upto).cloned()
    }

    fn remember_since(&self, since: Since) -> Arc<Since> {
        let since = Arc::new(since);
        *lock(&self.since) = Some(since.clone());
        since
    }

    /// Merges runs where there are too many of like size, and lets go of what nobody can ask for any more. True when there
    /// may be more to do. Waits for others who merge, or keep it from being done.
    pub fn tend(&self, stop: &AtomicBool) -> Result<bool, EngineError> {
        let one = self.no_merges();
        self.tend_alone(stop, &one)
    }

    fn tend_alone(&self, stop: &AtomicBool, _one: &MutexGuard<'_, ()>) -> Result<bool, EngineError> {
        let collect = self.advance_horizon(wall_clock_millis())?;
        let (runs, horizon, upto, fan_in) = {
            let state = self.lock();
            let is_calm = state.grew.is_none_or(|at| at.elapsed() >= CALM_AFTER);
            (state.runs.clone(), state.begins, state.upto, if is_calm { FAN_IN } else { FAN_IN_BUSY })
        };
        let erased = self.erasures.known();
        // Where files may not be rewritten all of it waits, and the notes say what for.
        let is_due = |first: &Tick| *first < upto && self.shelf.store.rewrites();
        let erasing = self.erasures.due().filter(is_due).map(|_| {
            let last = erased.values().filter(|tick| **tick < upto).max();
            runs.partition_point(|run| last.is_some_and(|last| run.first <= *last))
        });
        let erasing = erasing.filter(|count| *count > 0);
        let window = match collect.and_then(|before| outdated(&runs, before, horizon)).max(erasing) {
            Some(count) => 0..count,
            None => match alike(&runs, fan_in) {
                Some(window) => window,
                None => return Ok(false),
            },
        };
        let began = Instant::now();
        let merged = &runs[window.clone()];
        let (first, upper) = (merged[0].first, merged[merged.len() - 1].upper);
        let old: Vec<RunId> = merged.iter().filter_map(|run| run.id()).collect();
        // Nothing older than what the first of all runs holds is anywhere.
        let _breath = Breath::begin();
        let keeps = Keeps { bottom: window.start == 0, horizon: horizon.0 };
        let pieces = Piece::of(merged);
        let (nodes, names) = names(&self.shelf, &pieces).map_err(lost)?;
        let mut merging = Merging::new(&self.shelf, pieces, names, keeps, erased, stop)?;
        let mut chunks = Indexing::new(&mut merging, nodes);
        let batches = batches::of_runs(&self.shelf, merged, horizon);
        let mut all = chunks.by_ref().chain(batches);
        let new = NewRun { first, upper, chunks: &mut all };
        let info = self.shelf.store.replace_runs(self.shelf.graph, &old, new)?;
        let run = Run::stored(&info, chunks.index);
        self.lock().runs.splice(window, [Arc::new(run)]);
        self.shelf.cache.forget(self.shelf.graph, &old);
        if erasing.is_some() {
            // A piece of the log may begin before what has become pages ends, and it was read with what was erased in it.
            self.lock().forget_tail(upper);
            // Before the note goes: after a crash on the way it is done again.
            self.shelf.store.wipe(self.shelf.graph)?;
            self.erasures.forget(upper)?;
        }
        let bytes = (merged.iter().map(|run| run.bytes).sum::<u64>(), info.bytes);
        tracing::debug!(graph = self.shelf.graph.0, runs = old.len(), ?bytes, took = ?began.elapsed(), "merged runs");
        Ok(true)
    }

    pub fn erasures(&self) -> &Arc<Erasures> {
        &self.erasures
    }

    /// Pages are to be written again without what was erased, as soon as the log before that has become pages.
    pub fn wants_checkpoint(&self) -> bool {
        self.erasures.due().is_some_and(|first| first >= self.lock().upto)
    }

    /// No runs are merged as long as this is held.
    pub fn no_merges(&self) -> MutexGuard<'_, ()> {
        lock(&self.merging)
    }

    /// Moves the horizon on when enough of the retention time has passed, for good; gives where it was then.
    ///
    /// Not by the clock alone: one that is ahead for a moment would take with it what is still to be kept. Nor beyond what is in
    /// runs, as there is nothing to collect.
    fn advance_horizon(&self, clock: u64) -> Result<Option<Tick>, EngineError> {
        let Some(kept) = self.retention.kept else { return Ok(None) };
        let (before, horizon, is_all, unknown) = {
            let state = self.lock();
            let passed = clock.min(state.passed());
            let apart = (millis(kept) / NOTES_PER_RETENTION).clamp(*NOTES_APART.start(), *NOTES_APART.end());
            // Of one that has nothing to be collected, nobody need know.
            let is_due = state.begins < state.upto && passed.saturating_sub(state.known) >= apart;
            let horizon = long_before(passed, kept);
            (state.begins, horizon.min(state.upto), horizon >= state.upto, is_due.then_some(passed))
        };
        if let Some(passed) = unknown {
            // A graph at rest would begin to age anew with each start.
            self.shelf.store.put_metadata(&passed_key(self.shelf.graph), &passed.to_le_bytes())?;
            self.lock().known = passed;
        }
        let due = millis(kept) / COLLECTIONS_PER_RETENTION;
        // What is left of a graph at rest is collected at once: it may be less than that.
        if horizon <= before || !is_all && horizon.millis().saturating_sub(before.millis()) <= due {
            return Ok(None);
        }
        // Before anything is dropped, so that no later start takes for whole what is not.
        self.shelf.store.put_metadata(&horizon_key(self.shelf.graph), &horizon.0.to_le_bytes())?;
        self.lock().begins = horizon;
        Ok(Some(before))
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The first moment that is kept at a time in milliseconds.
fn long_before(time: u64, kept: Duration) -> Tick {
    Tick::at_millis(time.saturating_sub(millis(kept)))
}

/// The key of metadata under which it is noted where the history of a graph begins.
pub fn horizon_key(graph: GraphId) -> String {
    format!("{}history", graph.metadata_prefix())
}

/// The key of metadata under which it is noted what time it is at least, for a graph at rest.
fn passed_key(graph: GraphId) -> String {
    format!("{}passed", graph.metadata_prefix())
}

fn noted_passed(shelf: &Shelf) -> Result<u64, StoreError> {
    let key = passed_key(shelf.graph);
    let Some(value) = shelf.store.metadata(&key)? else { return Ok(0) };
    let damaged = |_| StoreError::damaged("a length that does not match", format!("metadata '{key}'"));
    value.try_into().map(u64::from_le_bytes).map_err(damaged)
}

/// How many runs, from the first, hold versions that nobody asks for since the horizon moved on from `before`.
fn outdated(runs: &[Arc<Run>], before: Tick, horizon: Tick) -> Option<usize> {
    let count = runs.partition_point(|run| run.first < horizon);
    runs[..count].iter().any(|run| run.has_older() || run.upper > before).then_some(count)
}

/// The oldest neighbours that are enough of one size to be merged, with what is smaller between and behind them. Smaller ones
/// alone are not enough: a large run would be written again for every few that come.
fn alike(runs: &[Arc<Run>], enough: usize) -> Option<std::ops::Range<usize>> {
    let level = |run: &Arc<Run>| (run.bytes / SMALL_RUN_BYTES).checked_ilog(FAN_IN as u64).map_or(0, |level| level + 1);
    (0..runs.len()).find_map(|start| {
        let top = level(&runs[start]);
        let window = || runs[start..].iter().map(level).take_while(|level| *level <= top);
        let count = window().filter(|level| *level == top).count();
        (count >= enough).then(|| start..start + window().count())
    })
}

/// A run in memory.
fn held(first: Tick, upper: Tick, chunks: impl Iterator<Item = Result<(Part, Chunk), StoreError>>) -> Result<Run, StoreError> {
    let mut parts: [Vec<Arc<Chunk>>; 2] = Default::default();
    for chunk in chunks {
        let (part, chunk) = chunk?;
        parts[usize::from(part == Part::Older)].push(Arc::new(chunk));
    }
    Ok(Run::held(first, upper, parts))
}

/// Looks after the runs of a graph until there is nothing to do. A graph that is being dropped needs no care, and one of which
/// somebody fetches a backup gets it afterwards: the others are not to wait for that.
pub fn tend(graph: &Graph) -> Result<(), EngineError> {
    if graph.parts().store.read_only() {
        return Ok(());
    }
    let history = graph.history();
    loop {
        let Some(one) = try_lock(&history.merging) else { return Ok(()) };
        match history.tend_alone(&graph.parts().closing, &one) {
            Ok(true) => {}
            Ok(false) | Err(EngineError::Store(StoreError::Stopped | StoreError::NoSuchGraph(_))) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use weir_model::{Mutations, NodeId};

    use super::*;
    use crate::history::run::Index;
    use crate::store::conformance::FaultyStore;
    use crate::store::{InMemory, RunInfo, Store};
    use crate::{Engine, Options, checkpoint};

    /// Without `start`, so that nobody makes checkpoints or merges but the test.
    fn engine() -> Engine {
        Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap()
    }

    fn node(n: u64) -> NodeId {
        NodeId::new(0, n)
    }

    /// A node gets a label or loses it; the tick after that.
    fn label(graph: &Graph, n: u64, there: bool, erased: bool) -> Tick {
        let mut mutations = Mutations::default();
        mutations.set_label(node(n), graph.symbols().intern("l"), there);
        if erased {
            mutations.erase(node(n));
        }
        let upper = graph.apply(mutations, 1).unwrap();
        graph.wait_durable(upper).unwrap();
        upper
    }

    #[test]
    fn what_was_purged_does_not_come_back_out_of_the_log_in_memory() {
        let engine = engine();
        let graph = engine.default_graph();
        label(&graph, 1, true, false);
        let purged = label(&graph, 1, false, true);
        let end = label(&graph, 2, true, false);
        let told = || {
            let past = graph.past(Tick(end.0 - 1)).unwrap();
            [1, 2].map(|n| past.all_changes(node(n)).unwrap().len())
        };
        assert_eq!(told(), [0, 1]);
        // A checkpoint ends amid what was read of the log.
        checkpoint::make(&graph, purged).unwrap();
        let history = graph.history();
        assert!(history.lock().tail.iter().any(|piece| piece.first < purged && piece.upper > purged));
        assert!(history.tend(&AtomicBool::new(false)).unwrap());
        assert!(history.erasures().known().is_empty(), "it is still to be erased");
        assert_eq!(told(), [0, 1]);
        let state = history.lock().clone();
        assert_eq!((state.upto, state.tail_upto), (purged, end));
        assert_eq!(state.tail.iter().map(|piece| piece.first).collect::<Vec<_>>(), [Tick(end.0 - 1)]);
        engine.shutdown().unwrap();
    }

    /// The notes went, and files kept it for ever.
    #[test]
    fn what_cannot_be_wiped_while_something_is_damaged_is_wiped_later() {
        let store = Arc::new(FaultyStore::new(Arc::new(InMemory::default()), usize::MAX));
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        label(&graph, 1, true, false);
        let purged = label(&graph, 1, false, true);
        checkpoint::make(&graph, purged).unwrap();
        let (history, stop) = (graph.history(), AtomicBool::new(false));
        store.is_damaged.store(true, Ordering::SeqCst);
        assert!(!history.tend(&stop).unwrap(), "there is nothing that may be done");
        assert_eq!(history.erasures().known().len(), 1);
        store.is_damaged.store(false, Ordering::SeqCst);
        assert!(history.tend(&stop).unwrap());
        assert!(history.erasures().known().is_empty());
        engine.shutdown().unwrap();
    }

    #[test]
    fn pieces_of_the_log_are_merged_unless_others_have_come_instead() {
        let engine = engine();
        let graph = engine.default_graph();
        let history = graph.history();
        for n in 0..8 {
            let upper = label(&graph, n, true, false);
            history.grow(&graph, upper).unwrap();
            let state = history.lock();
            assert_eq!(state.tail_upto, upper);
            assert!(state.tail.windows(2).all(|two| two[0].upper <= two[1].first));
            assert!(state.tail.len() <= 3, "{} pieces of {} entries", state.tail.len(), n + 1);
        }
        let piece = |n: u64| Arc::new(Run::held(Tick(n), Tick(n + 1), Default::default()));
        let mut state = State { tail: vec![piece(1), piece(2), piece(3)], ..State::default() };
        let two = state.newest_alike().unwrap();
        // Those were taken when this one was there.
        state.tail.pop();
        state.put_in_place_of(&two, Run::held(Tick(2), Tick(4), Default::default()));
        assert_eq!(state.tail.iter().map(|piece| piece.upper).collect::<Vec<_>>(), [Tick(2), Tick(3)]);
        let two = state.newest_alike().unwrap();
        state.put_in_place_of(&two, Run::held(Tick(1), Tick(3), Default::default()));
        assert_eq!(state.tail.iter().map(|piece| (piece.first, piece.upper)).collect::<Vec<_>>(), [(Tick(1), Tick(3))]);
        assert!(state.newest_alike().is_none());
        engine.shutdown().unwrap();
    }

    const KEPT: Duration = Duration::from_secs(3600);

    /// All that was to be kept was gone for good, though the clock was right again after a moment.
    #[test]
    fn a_clock_that_is_ahead_for_a_moment_takes_no_history_with_it() {
        let retention = Retention { journal: true, kept: Some(KEPT) };
        let options = Options { workers: 1, retention, ..Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options).unwrap();
        let graph = engine.default_graph();
        let end = label(&graph, 1, true, false);
        checkpoint::make(&graph, end).unwrap();
        let history = graph.history();
        let a_year_ahead = wall_clock_millis() + 365 * 86_400_000;
        history.advance_horizon(a_year_ahead).unwrap();
        let begins = history.lock().begins;
        assert!(begins.millis() + millis(KEPT) <= wall_clock_millis(), "it begins at {begins}");
        history.check(Tick(end.0 - 1)).unwrap();
        // Once so much time has passed, all that the graph at rest has is collected, and it is done.
        let later = end.millis() + 2 * millis(KEPT);
        history.lock().reached = Some((later, Instant::now()));
        assert_eq!(history.advance_horizon(later).unwrap(), Some(begins));
        assert_eq!(history.lock().begins, end);
        assert_eq!(history.advance_horizon(a_year_ahead).unwrap(), None);
        engine.shutdown().unwrap();
    }

    /// As it was left by a clock that had been ahead: every moment was refused, also that of the next start.
    #[test]
    fn history_begins_nowhere_behind_the_last_change() {
        let store: Arc<dyn Store> = Arc::new(InMemory::default());
        let graph = store.create_graph("a", b"").unwrap();
        let key = horizon_key(graph);
        for (noted, begins) in [(60_u64, 60_u64), (70, 70), (71, 70), (u64::MAX, 70)] {
            store.put_metadata(&key, &noted.to_le_bytes()).unwrap();
            let shelf = Shelf { graph, store: store.clone(), cache: Arc::default() };
            let history = History::open(shelf, Retention::default(), Vec::new(), Tick(50), Tick(70)).unwrap();
            assert_eq!(history.lock().begins, Tick(begins), "noted as {noted}");
            assert_eq!(store.metadata(&key).unwrap(), Some(begins.to_le_bytes().to_vec()));
        }
    }

    /// It aged from its last change on with each start anew, and was never collected where those came often.
    #[test]
    fn a_graph_at_rest_ages_across_starts() {
        let store: Arc<dyn Store> = Arc::new(InMemory::default());
        let graph = store.create_graph("a", b"").unwrap();
        let (changed, each) = (365 * 86_400_000, millis(KEPT) / 5);
        let upto = Tick::at_millis(changed);
        let clock = changed + 10 * millis(KEPT);
        for start in 1..=5 {
            let shelf = Shelf { graph, store: store.clone(), cache: Arc::default() };
            let retention = Retention { journal: true, kept: Some(KEPT) };
            let history = History::open(shelf, retention, Vec::new(), upto, upto).unwrap();
            let passed = history.lock().passed();
            history.lock().reached = Some((passed + each, Instant::now()));
            history.advance_horizon(clock).unwrap();
            assert_eq!(history.lock().begins == upto, start == 5, "after {start} starts");
        }
    }

    fn of_bytes(bytes: u64) -> Arc<Run> {
        let info = RunInfo { id: RunId(0), first: Tick::ZERO, upper: Tick::ZERO, chunks: Default::default(), bytes };
        Arc::new(Run::stored(&info, Index::default()))
    }

    /// How often each byte was written again when `count` runs of one size had come, and how many runs there were at most.
    fn written_again(count: u64, bytes: u64, enough: usize) -> (u64, usize) {
        let (mut runs, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..count {
            runs.push(of_bytes(bytes));
            while let Some(window) = alike(&runs, enough) {
                let merged = runs[window.clone()].iter().map(|run| run.bytes).sum();
                written += merged;
                runs.splice(window, [of_bytes(merged)]);
            }
            most = most.max(runs.len());
        }
        (written / (count * bytes), most)
    }

    #[test]
    fn what_is_written_again_grows_as_the_logarithm_does() {
        for bytes in [SMALL_RUN_BYTES, 2 * SMALL_RUN_BYTES, 11 * SMALL_RUN_BYTES / 3] {
            for (enough, again_max) in [(FAN_IN, 5), (FAN_IN_BUSY, 3)] {
                let (again, most) = written_again(2_000, bytes, enough);
                assert!(again <= again_max && most <= 6 * enough, "{bytes} B, {enough} at once: {again} times, {most} runs");
            }
        }
    }

    #[test]
    fn a_large_run_waits_for_others_of_its_size() {
        let runs = |sizes: &[u64]| sizes.iter().map(|size| of_bytes(size * SMALL_RUN_BYTES)).collect::<Vec<_>>();
        assert_eq!(alike(&runs(&[100, 1, 1, 1]), 4), None);
        assert_eq!(alike(&runs(&[100, 1, 1, 1, 1]), 4), Some(1..5));
        assert_eq!(alike(&runs(&[5, 1, 5, 5, 2, 5, 1]), 4), Some(0..7), "and what is between and behind");
        assert_eq!(alike(&runs(&[1, 5, 1, 1, 1]), 4), None);
    }
}
