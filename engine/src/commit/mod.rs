//! Commit: one order of ticks for a graph, and every query serializable in it.
//!
//! A batch that read nothing is given its ticks and goes to the log and to the workers, under one short lock. A batch
//! that read is accepted if no node it read was written since its snapshot, and none came into or went from what it listed;
//! otherwise it is evaluated again, in the end with the lock held and the newest state in view, so that even a node everybody
//! counts on makes progress. Whether a write could have changed what a query read is found out in `conflict.rs`.
//!
//! The lock of the graph may be held for as long as a query takes. So whoever waits for it has nothing in hand that others need:
//! neither status pages nor the results of other graphs wait for a query. These locks are taken in this order, where several
//! are, and only the first is held by anybody who waits for the store, the workers or a clock:
//!
//!     graph ─┬─> pauses ─> held ─┬─> sending
//!            │                   └─> noted ─> delivered
//!            └─> begun ──────────────^
//!
//! `pauses`, `held`, `begun` and `delivered` are those of a standing query (`StandingState`), and nobody has those of two. Those
//! of a query that is being installed nobody else knows yet, so there they come behind `sending`, too.

mod conflict;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;
use weir_model::expression::FailureKind;
use weir_model::lock::{lock, try_lock};
use weir_model::{Failure, Mutations, Position, QueryId, Text, Tick};

pub use self::conflict::ReadSet;
use self::conflict::{RECENT_BYTES_MAX, RECENT_PARTS, Recent, Written};
use crate::arrangement::{Published, Reading, Snapshot};
use crate::cause::{Cause, Causes};
use crate::checkpoint::ENTRY_WEIGHT;
use crate::command::Command;
use crate::engine::Parts;
use crate::error::EngineError;
use crate::evaluate::Fetched;
use crate::expiry::Expiry;
use crate::history::erased::Erasures;
use crate::latency::Commits;
use crate::memory::at_most;
use crate::store::{Delivered, Entry, GraphId, lives};
use crate::view::View;
use crate::view::tracked::Tracked;

/// Whoever commits waits for workers that are this many entries behind. Few, so that under load records gather at their sources,
/// where they make larger and so cheaper batches, and not as a queue of small entries here.
pub(crate) const ENTRIES_BEHIND_MAX: usize = 4;

/// As `ENTRIES_BEHIND_MAX`, while the log is replayed: small entries that wait together are applied together.
const REPLAYED_BEHIND_MAX: usize = 256;

/// A query that fetches and lost its race waits this long before it starts over, and twice as long each time.
const ANEW_AFTER: Duration = Duration::from_millis(1);
/// The longest wait of a query that fetches before it starts over.
const ANEW_AFTER_MAX: Duration = Duration::from_secs(1);

/// How long anyone waits for the workers before it is called a failure.
pub const WORKERS_PATIENCE: Duration = Duration::from_secs(60);

/// How often who replays the log, and waits for the workers, looks whether weir is to end.
const END_LOOK: Duration = Duration::from_millis(250);

/// Rows written beside a transaction that are left to be looked through with the graph locked, at most; more are looked through
/// before.
const LOCKED_ROWS_MAX: usize = 1024;
/// How often what was written beside a transaction is looked through before the graph is locked, at most.
const LOOKS_MAX: usize = 8;

pub struct Committer {
    graph: GraphId,
    parts: Parts,
    published: Arc<Published>,
    logged: Arc<AtomicUsize>,
    expiry: Arc<Expiry>,
    erasures: Arc<Erasures>,
    pub commits: Commits,
    pub causes: Causes,
    /// How long the workers, or room in the log, are waited for.
    patience: Duration,
    state: Mutex<State>,
    /// Frontiers of delivery that have not been logged. Apart from the state: an output that has delivered something does not
    /// wait for a query that has the graph locked. They are taken out with the graph locked, so entries have them in order.
    noted: Mutex<BTreeMap<(QueryId, Text), Delivered>>,
}

#[derive(Default)]
struct State {
    /// The next tick that may be given.
    next: Tick,
    /// No tick before this one is given any more: the moments before it have been read.
    sealed: Tick,
    /// The log has yet to be replayed: what was committed before comes first.
    replaying: bool,
    /// Something was committed since the start, and so a life has begun.
    lives: bool,
    /// The tick after the last entry the workers were sent.
    sent: Tick,
    /// Ends of the entries the workers may not have applied.
    behind: VecDeque<Tick>,
    recent: Recent,
    /// Beginnings of the transactions under way, with how many began there.
    active: BTreeMap<Tick, usize>,
    sources: FxHashMap<Text, Position>,
    /// Frontiers of delivery that are not worth an entry.
    progress: Vec<Delivered>,
    progress_noted: Option<Instant>,
}

/// What of a graph hears of each entry that is committed, besides the log.
pub struct Told {
    pub published: Arc<Published>,
    /// How many facts went to the log: when there are enough, a checkpoint is made.
    pub logged: Arc<AtomicUsize>,
    pub expiry: Arc<Expiry>,
    pub erasures: Arc<Erasures>,
}

/// Where a committer begins.
pub struct Beginning {
    /// The first tick that may be given.
    pub next: Tick,
    /// Whether nothing may be committed before `end_replay`. This is known from the beginning: a standing query may want to
    /// commit as soon as it is there, and then the workers would get what is new before what is replayed.
    pub replaying: bool,
    /// Where sources stood.
    pub sources: FxHashMap<Text, Position>,
}

/// Where a graph stands while it is locked: nothing is committed before `next`, nor until the end of `over`.
#[derive(Clone, Copy)]
pub struct Locked {
    /// The tick after the last entry.
    pub next: Tick,
    /// The end of the last millisecond that is over.
    pub over: Tick,
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
    /// What brought it about, where an output of a standing query writes it.
    pub cause: Option<Arc<Cause>>,
}

impl Committer {
    pub fn new(graph: GraphId, parts: &Parts, told: Told, beginning: Beginning) -> Committer {
        let Told { published, logged, expiry, erasures } = told;
        let Beginning { next, replaying, sources } = beginning;
        let state = State { next, sent: next, replaying, sources, ..State::default() };
        let parts = parts.clone();
        Committer {
            graph,
            parts,
            published,
            logged,
            expiry,
            erasures,
            commits: Commits::default(),
            causes: Causes::default(),
            patience: WORKERS_PATIENCE,
            state: Mutex::new(state),
            noted: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below leaves the state half changed, so a panic elsewhere does not spoil it.
        lock(&self.state)
    }

    /// As `lock`, at once: None where somebody has it locked, which may be for as long as a query takes.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        try_lock(&self.state)
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<(QueryId, Text), Delivered>> {
        lock(&self.noted)
    }

    /// Nothing is committed by others for as long as one has what this gives.
    pub fn hold_still(&self) -> Still<'_> {
        Still { committer: self, state: self.lock() }
    }

    /// Commits changes that depend on nothing that was read. Returns the tick after the last one.
    pub fn commit(&self, change: Change) -> Result<Tick, EngineError> {
        let mut state = self.lock();
        let upper = self.append(&mut state, change)?;
        let wait = state.too_far_behind(ENTRIES_BEHIND_MAX);
        drop(state);
        self.slow_down(wait);
        Ok(upper)
    }

    /// A transaction: evaluated again until what it read has not changed when it is committed, and after `tries` times with the
    /// graph locked. `evaluate` is told the tick of what it sees, and where the graph stands if that is locked. None where there
    /// is nothing to commit.
    ///
    /// After an error nothing has happened: a caller that hears that the workers or the log are late tries again. So nothing may
    /// fail with such an error once the change is appended.
    pub fn transact(
        &self,
        tries: usize,
        mut evaluate: impl FnMut(&dyn View, Tick, Option<Locked>) -> Result<Option<Change>, EngineError>,
    ) -> Result<Option<Tick>, EngineError> {
        for _ in 0..tries {
            let transaction = self.begin()?;
            let snapshot = transaction.snapshot();
            let reading = Reading::new(&snapshot);
            let tracked = Tracked::new(&reading);
            let Some(change) = evaluate(&tracked, snapshot.tick(), None)? else { return Ok(None) };
            let reads = tracked.into_reads();
            if let Some(upper) = transaction.commit(&snapshot, &reads, change)? {
                return Ok(Some(upper));
            }
        }
        self.alone(|snapshot, locked| evaluate(snapshot, snapshot.tick(), Some(locked)))
    }

    /// As `transact`, for a query that fetches something from outside the graph. Each thing is fetched once, and never with the
    /// graph locked: a query that asks for more then lets go of the lock and begins anew, with what it has fetched so far. Before
    /// that `goes_on` is asked, which sets an end to it.
    pub fn transact_fetching(
        &self,
        tries: usize,
        goes_on: &dyn Fn() -> Result<bool, Failure>,
        mut evaluate: impl FnMut(&dyn View, Tick, Option<Locked>, &Fetched) -> Result<Option<Change>, EngineError>,
    ) -> Result<Option<Tick>, EngineError> {
        let fetched = Fetched::default();
        let mut after = ANEW_AFTER;
        loop {
            fetched.open();
            let ended = self.transact(tries, |view, at, locked| {
                fetched.begin();
                if locked.is_some() {
                    fetched.close();
                }
                evaluate(view, at, locked, &fetched)
            });
            match ended {
                Err(EngineError::Query(failure)) if failure.kind == FailureKind::WouldFetch => {
                    if !goes_on()? {
                        return Err(failure.into());
                    }
                }
                ended => return ended,
            }
            std::thread::sleep(after);
            after = (after * 2).min(ANEW_AFTER_MAX);
        }
    }

    /// Starts a transaction: everything committed before is in the snapshot, everything after is remembered until its end.
    fn begin(&self) -> Result<Transaction<'_>, EngineError> {
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
        if self.published.wait(upper, self.patience) { Ok(()) } else { Err(self.stuck()) }
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

    /// As `wait_applied`, while weir starts, however long it takes: standing queries that cost much may keep a worker busy for
    /// minutes, and a start that is given up comes to the same place the next time. Ends with the graph, or with weir.
    pub fn wait_replayed(&self, upper: Tick) -> Result<(), EngineError> {
        let mut told = Instant::now();
        while !self.published.wait(upper, END_LOOK.min(self.patience)) {
            self.check_there()?;
            if self.parts.closing.load(Ordering::Relaxed) {
                return Err(EngineError::Closing);
            }
            if told.elapsed() >= self.patience {
                told = Instant::now();
                let waited = self.patience;
                tracing::warn!(
                    graph = self.graph.0,
                    "the workers have not applied in {waited:?} what is replayed of the log; the start waits for them"
                );
            }
        }
        Ok(())
    }

    /// As `wait_replayed`, for everything that the workers were sent.
    pub fn wait_replayed_all(&self) -> Result<(), EngineError> {
        let sent = self.lock().sent;
        self.wait_replayed(sent)
    }

    /// Waits until the workers have applied everything.
    pub fn wait_applied_all(&self) -> Result<(), EngineError> {
        let sent = self.lock().sent;
        self.wait_applied(sent)
    }

    /// Waits for the workers after a commit. However late they are, that is no failure: the commit has happened, and whoever
    /// heard of a failure would make it again.
    fn slow_down(&self, until: Option<Tick>) {
        let Some(upper) = until else { return };
        if !self.published.wait(upper, self.patience) && self.published.dropped().is_none() {
            let waited = self.patience;
            tracing::warn!(
                graph = self.graph.0,
                "the workers have not applied in {waited:?} what was committed; it is kept, and commits go on"
            );
        }
    }

    /// Evaluates with the lock held: what the snapshot shows is the last word.
    fn alone(
        &self,
        evaluate: impl FnOnce(&Snapshot, Locked) -> Result<Option<Change>, EngineError>,
    ) -> Result<Option<Tick>, EngineError> {
        let mut state = self.lock();
        self.accepts(&state)?;
        self.wait_applied(state.sent)?;
        // A query may ask for the past while it holds the lock, but not for what would wait for the lock. So what it may ask for
        // is sealed here.
        let over = Tick::end_of_millis(wall_clock_millis().saturating_sub(1));
        state.sealed = state.sealed.max(over.next());
        let locked = Locked { next: state.next, over };
        let change = evaluate(&self.published.snapshot(), locked)?;
        change.map(|change| self.append(&mut state, change)).transpose()
    }

    /// Gives ticks, and hands the entry to the log and to the workers: side by side, in the same order. After an error nothing
    /// has happened, and what was noted is noted still; unless the log has failed, which `log_delivered` says.
    fn append(&self, state: &mut State, change: Change) -> Result<Tick, EngineError> {
        self.append_and(state, change, |_| ())
    }

    /// As `append`. `before` is told the tick after the change once there is room for it: it may change what is not to change
    /// without that. What it notes is in the same entry.
    fn append_and(&self, state: &mut State, change: Change, before: impl FnOnce(Tick)) -> Result<Tick, EngineError> {
        self.accepts(state)?;
        let first = state.first();
        let Change { mutations, records, source, received, cause } = change;
        let upper = Tick(first.0 + records.max(1) as u64);
        let mutations = Arc::new(mutations);
        let sources = source.clone().into_iter().collect();
        let mut entry = Entry { graph: self.graph, first, upper, mutations, sources, delivered: Vec::new() };
        // Before anything is noted: an erasure that the log then refuses would be in force until the next start.
        let room = self.parts.log.room(&entry, self.patience)?;
        if !state.lives {
            // Once in each start, and not of graphs at rest: there may be thousands.
            lives::begin(&*self.parts.store, self.graph, state.next)?;
            state.lives = true;
        }
        if !entry.mutations.erased.is_empty() {
            // Noted with the graph locked, as it needs the tick. So a purge holds up commits for one write of the store.
            self.erasures.note(first, &entry.mutations.erased)?;
        }
        before(upper);
        // Transactions under way look through it. What changes nothing, as a tick of the clock, cannot be in their way.
        let is_of_interest = !state.active.is_empty() && !entry.mutations.is_empty();
        let written = is_of_interest.then(|| Written::new(upper, entry.mutations.clone()));
        // What was noted comes behind what was only asked for from time to time, and so counts over it: an output may have gone.
        entry.delivered = std::mem::take(&mut state.progress);
        entry.delivered.extend(std::mem::take(&mut *self.noted()).into_values());
        let entry = Arc::new(entry);
        room.submit(entry.clone())?;
        self.logged.fetch_add(entry.mutations.rows.len() + ENTRY_WEIGHT, Ordering::Relaxed);
        state.next = upper;
        self.expiry.note(&entry.mutations);
        self.published.last_changes.note(first, &entry.mutations);
        if records > 0 {
            self.commits.note(first, upper, received);
            if let Some(cause) = cause {
                self.causes.note(first, cause);
            }
            self.send(state, entry);
        }
        if let Some(written) = written {
            state.recent.push(written, at_most(RECENT_BYTES_MAX, RECENT_PARTS));
        }
        if let Some((name, position)) = source {
            // Without a position the source has been forgotten.
            match position.0.is_empty() {
                true => state.sources.remove(&name),
                false => state.sources.insert(name, position),
            };
        }
        Ok(upper)
    }

    /// Sends an entry to the workers. They get the commands of all graphs in one order, so there is a lock for that, too.
    fn send(&self, state: &mut State, entry: Arc<Entry>) {
        let upper = entry.upper;
        let order = lock(&self.parts.sending);
        self.parts.workers.send(&Command::Apply(entry));
        drop(order);
        state.note_sent(upper, &self.published);
    }

    /// Sees to it that the workers get past a moment: if they were sent no entry after it, they are sent a tick in which nothing
    /// changes. False where they do not get past it for now, as the graph is locked, or as the clock was set back to before
    /// the moment. The caller asks this of all graphs in turn, and comes again.
    pub fn get_past(&self, moment: Tick) -> Result<bool, EngineError> {
        let Some(mut state) = self.try_lock() else { return Ok(false) };
        if state.sent <= moment {
            self.append(&mut state, Change { records: 1, ..Change::default() })?;
        }
        Ok(state.sent > moment)
    }

    /// How far a checkpoint may go, if all before `until` is durable: not beyond what the workers were sent, which is where
    /// standing queries begin. A start that found more in pages would take what was there before a query for what came after it.
    ///
    /// Where the last entries only say how far others are, and so were not sent, the workers are sent a tick in which nothing
    /// changes. Waits for nobody: where the graph is locked, a checkpoint may go as far as the workers have come.
    pub fn lead_to(&self, until: Tick) -> Result<Tick, EngineError> {
        let Some(mut state) = self.try_lock() else { return Ok(until.min(self.published.upper())) };
        if state.sent < until && self.accepts(&state).is_ok() {
            self.append(&mut state, Change { records: 1, ..Change::default() })?;
        }
        Ok(until.min(state.sent))
    }

    pub fn position(&self, source: &str) -> Option<Position> {
        self.lock().sources.get(source).cloned()
    }

    /// The tick after the last entry.
    pub fn next(&self) -> Tick {
        self.lock().next
    }

    /// As `next`, at once; None while somebody has the graph locked.
    pub fn try_next(&self) -> Option<Tick> {
        self.try_lock().map(|state| state.next)
    }

    /// Sees to it that nothing is committed at or before a tick any more, and waits until what was is applied. Gives the tick
    /// after the last entry.
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
            self.parts.workers.send(&Command::DropGraph { graph: self.graph });
        });
    }

    /// Remembers how far results were delivered, for the next entry. A frontier that is further back than one noted before, as
    /// its caller looked earlier, changes nothing. Does not wait for whoever has the graph locked.
    pub fn note_delivered(&self, delivered: Delivered) {
        self.note_looked_up(|| [delivered]);
    }

    /// As `note_delivered`, for what is looked up while nobody else notes anything: so an output that goes at the same time is
    /// noted as gone after that, and stays gone. What is looked up together is in one entry.
    pub fn note_looked_up<I: IntoIterator<Item = Delivered>>(&self, look: impl FnOnce() -> I) {
        let mut noted = self.noted();
        for delivered in look() {
            let key = (delivered.query, delivered.output.clone());
            let is_further = |known: &Delivered| known.is_gone() || delivered.is_gone() || known.tick <= delivered.tick;
            if noted.get(&key).is_none_or(is_further) {
                noted.insert(key, delivered);
            }
        }
    }

    /// Has the next entry take along how far results were delivered, unless that was done within the interval. Nothing is
    /// committed while `outputs` says how far they are: that one of them is gone is noted in the same entry then, or in a later
    /// one. Where the graph is locked nothing happens, and the caller comes again.
    pub fn note_progress(&self, interval: Duration, outputs: impl FnOnce() -> Vec<Delivered>) {
        let Some(mut state) = self.try_lock() else { return };
        if state.progress_noted.is_none_or(|at| at.elapsed() >= interval) {
            state.progress = outputs();
            state.progress_noted = Some(Instant::now());
        }
    }

    /// Logs what `note_delivered` collected, if no entry has taken it along. An error where the log has failed: one that it
    /// refused may have taken that along.
    pub fn log_delivered(&self) -> Result<(), EngineError> {
        let mut state = self.lock();
        self.append_delivered(&mut state)?;
        Ok(self.parts.log.check()?)
    }

    /// As `log_delivered`; where the graph is locked nothing happens, as with `note_progress`.
    pub fn try_log_delivered(&self) -> Result<(), EngineError> {
        self.try_lock().map_or(Ok(()), |mut state| self.append_delivered(&mut state))
    }

    fn append_delivered(&self, state: &mut State) -> Result<(), EngineError> {
        let has_noted = !self.noted().is_empty();
        if has_noted {
            self.append(state, Change::default())?;
        }
        Ok(())
    }

    /// All of the log has been replayed, and what is new may come.
    pub fn end_replay(&self) {
        self.lock().replaying = false;
    }

    /// Feeds an entry of the log to the workers again, after a restart. One that changes nothing is passed over, unless it is the
    /// last: standing queries have to get as far as its end.
    pub fn replay(&self, entry: Arc<Entry>, is_last: bool) -> Result<(), EngineError> {
        let mut state = self.lock();
        assert!(state.replaying && entry.first >= state.next, "the log is replayed in its order, and before anything else");
        state.next = entry.upper;
        if entry.mutations.is_empty() && !is_last {
            return Ok(());
        }
        self.send(&mut state, entry);
        let wait = state.too_far_behind(REPLAYED_BEHIND_MAX);
        drop(state);
        wait.map_or(Ok(()), |upper| self.wait_replayed(upper))
    }
}

impl State {
    /// The first tick of the next entry.
    fn first(&self) -> Tick {
        self.next.max(self.sealed).max(Tick::at_millis(wall_clock_millis()))
    }

    /// The workers were sent an entry, and may have applied others.
    fn note_sent(&mut self, end: Tick, published: &Published) {
        let applied = published.upper();
        while self.behind.front().is_some_and(|end| *end <= applied) {
            self.behind.pop_front();
        }
        self.sent = end;
        self.behind.push_back(end);
    }

    /// The tick to wait for when the workers have fallen back too far.
    fn too_far_behind(&self, most: usize) -> Option<Tick> {
        let excess = self.behind.len().checked_sub(most)?;
        self.behind.get(excess).copied()
    }
}

/// A graph that its owner has locked.
pub struct Still<'a> {
    committer: &'a Committer,
    state: MutexGuard<'a, State>,
}

impl Still<'_> {
    /// A tick of its own, in which nothing changes. Does not wait for workers, as the caller may hold what others wait for.
    ///
    /// `before` is told the tick after it once there is room for that in the log, and what it notes is in the same entry. In an
    /// entry behind this one, it could be lost: a process that is killed between the two may have told somebody results of the
    /// tick, and would not know that after its next start.
    pub fn tick(&mut self, before: impl FnOnce(Tick)) -> Result<Tick, EngineError> {
        self.committer.append_and(&mut self.state, Change { records: 1, ..Change::default() }, before)
    }
}

/// A transaction under way. Dropping it ends it.
struct Transaction<'a> {
    committer: &'a Committer,
    began: Tick,
}

impl Transaction<'_> {
    fn snapshot(&self) -> Snapshot {
        self.committer.published.snapshot()
    }

    /// Commits if nothing that was read has changed since the snapshot; otherwise the answer is None, and the query is to be
    /// evaluated again. Where much was written meanwhile, most of it is looked through before the graph is locked, so that nobody
    /// waits for that.
    fn commit(&self, snapshot: &Snapshot, reads: &ReadSet, change: Change) -> Result<Option<Tick>, EngineError> {
        let mut seen = snapshot.tick().next();
        for _ in 0..LOOKS_MAX {
            let unseen: Option<Vec<Arc<Written>>> =
                self.committer.lock().recent.after(seen).map(|unseen| unseen.cloned().collect());
            let Some(unseen) = unseen else { return Ok(None) };
            let rows: usize = unseen.iter().map(|written| written.mutations.rows.len()).sum();
            let Some(last) = unseen.last().filter(|_| rows > LOCKED_ROWS_MAX) else { break };
            if unseen.iter().any(|written| written.may_change(reads, snapshot)) {
                return Ok(None);
            }
            seen = last.upper;
        }
        let mut state = self.committer.lock();
        if state.recent.may_change(reads, seen, snapshot) {
            return Ok(None);
        }
        let upper = self.committer.append(&mut state, change)?;
        let wait = state.too_far_behind(ENTRIES_BEHIND_MAX);
        drop(state);
        self.committer.slow_down(wait);
        Ok(Some(upper))
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
        let oldest = state.active.keys().next().copied();
        state.recent.keep_from(oldest);
    }
}

pub fn wall_clock_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weir_cypher_compiler::{Options as CompileOptions, compile};
    use weir_model::{NodeId, Symbol, Value};

    use super::*;
    use crate::alarm::Alarm;
    #[cfg(feature = "rocks-db")]
    use crate::log::{Log, LogOptions};
    use crate::store::InMemory;
    #[cfg(feature = "rocks-db")]
    use crate::store::conformance::FaultyStore;
    #[cfg(feature = "rocks-db")]
    use crate::store::{RocksDb, RocksDbOptions, StoreError};
    use crate::{Engine, GraphOptions, Options, QueryOptions};

    /// A store on disk that takes so many appends.
    #[cfg(feature = "rocks-db")]
    fn faulty(appends: usize) -> (tempfile::TempDir, Arc<FaultyStore>) {
        let temporary = tempfile::tempdir().unwrap();
        let inner = RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap();
        let store = Arc::new(FaultyStore::new(Arc::new(inner), appends));
        (temporary, store)
    }

    fn engine() -> Engine {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        engine
    }

    pub(super) fn node(n: u64) -> NodeId {
        NodeId::new(0, n)
    }

    /// Something happens to a node.
    pub(super) fn change(n: u64) -> Change {
        let mut mutations = Mutations::default();
        mutations.set_label(node(n), Symbol(1), true);
        Change { mutations, records: 1, ..Change::default() }
    }

    pub(super) fn reads(nodes: &[u64], listed: bool) -> ReadSet {
        let nodes = nodes.iter().copied().map(node).collect();
        ReadSet { nodes, labels: Vec::new(), listed, everything: false, questions: Vec::new() }
    }

    #[test]
    fn what_changes_nothing_is_in_nobodys_way() {
        let engine = engine();
        let graph = engine.default_graph();
        let committer = graph.committer();
        let commits = |meanwhile: Change| {
            let transaction = committer.begin().unwrap();
            let snapshot = transaction.snapshot();
            committer.commit(meanwhile).unwrap();
            transaction.commit(&snapshot, &reads(&[7], true), change(1)).unwrap().is_some()
        };
        assert!(commits(Change { records: 1, ..Change::default() }), "a tick");
        assert!(commits(Change { source: Some(("s".into(), Position(vec![1]))), ..Change::default() }), "progress of a source");
        assert!(!commits(change(2)), "a scan sees every node");
        assert!(commits(change(2)), "it has the label");
        engine.shutdown().unwrap();
    }

    /// More than is looked through with the graph locked.
    #[test]
    fn large_writes_beside_a_transaction_are_seen_too() {
        let engine = engine();
        let graph = engine.default_graph();
        let committer = graph.committer();
        let commits = |reads: &ReadSet, meanwhile: std::ops::Range<u64>| {
            let transaction = committer.begin().unwrap();
            let snapshot = transaction.snapshot();
            for first in meanwhile.clone().step_by(500) {
                let mut mutations = Mutations::default();
                for n in (first..meanwhile.end).take(500) {
                    mutations.set_label(node(n), Symbol(1), true);
                }
                committer.commit(Change { mutations, records: 1, ..Change::default() }).unwrap();
            }
            transaction.commit(&snapshot, reads, change(1)).unwrap().is_some()
        };
        let end = 10 + 5 * LOCKED_ROWS_MAX as u64;
        assert!(commits(&reads(&[7], false), 10..end));
        assert!(!commits(&reads(&[10], false), 10..end) && !commits(&reads(&[end - 1], false), 10..end));
        assert!(commits(&reads(&[], true), 10..end), "they are there");
        assert!(!commits(&reads(&[], true), end..2 * end));
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_tick_takes_along_what_is_noted_with_it() {
        let engine = engine();
        let graph = engine.default_graph();
        let mut told = Tick::ZERO;
        let committer = graph.committer();
        let upper = committer.hold_still().tick(|upper| {
            told = upper;
            committer.note_delivered(Delivered::gone(QueryId(node(1)), "output".into()));
        });
        assert_eq!((upper.unwrap(), graph.next()), (told, told));
        assert!(committer.noted().is_empty(), "the entry has it");
        engine.shutdown().unwrap();
    }

    /// Waits until it is so.
    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_graph_that_is_locked_holds_up_no_other() {
        let engine = engine();
        // The clock goes through them by number, who looks after delivery by name: the default graph comes first in both.
        let other = engine.create_graph("z", GraphOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let graphs = [engine.default_graph(), other];
        let gone = || Delivered::gone(QueryId(node(1)), "output".into());
        let [locked, other] = graphs.each_ref().map(|graph| graph.committer());
        let state = locked.lock();
        locked.note_delivered(gone());
        other.note_delivered(gone());
        let moment = wall_clock_millis();
        let alarms = graphs.each_ref().map(|graph| {
            let mut alarm = Alarm::new(graph.parts().alarms.clone(), graph.id(), 1000);
            alarm.set(Some(moment));
            alarm
        });
        let has_passed = |committer: &Committer| committer.lock().sent > Tick::at_millis(moment);
        until("the other gets no tick", || has_passed(other));
        until("of the other nothing is logged", || other.noted().is_empty());
        // Whoever has locked it holds up none of these, and none of them has done anything.
        locked.note_progress(Duration::ZERO, || panic!("it is locked"));
        let said = (locked.get_past(Tick::at_millis(moment)), locked.try_log_delivered());
        assert!(matches!(said, (Ok(false), Ok(()))), "{said:?}");
        assert!(!locked.noted().is_empty(), "it was to be logged");
        drop(state);
        // Its turn comes again.
        until("it gets no tick", || has_passed(locked));
        until("of it nothing is logged", || locked.noted().is_empty());
        drop(alarms);
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_moment_that_the_clock_has_not_reached_is_not_passed() {
        let engine = engine();
        let graph = engine.default_graph();
        let moment = wall_clock_millis();
        assert!(matches!(graph.committer().get_past(Tick::at_millis(moment)), Ok(true)));
        // As where the clock was set back between the look at it and the tick.
        assert!(matches!(graph.committer().get_past(Tick::at_millis(moment + 600_000)), Ok(false)));
        engine.shutdown().unwrap();
    }

    /// Standing queries tell the time by ticks. Who evaluates found it earlier, and so answered otherwise than they do.
    #[test]
    fn where_the_clock_was_set_back_the_time_is_that_of_the_last_change() {
        let engine = engine();
        let graph = engine.default_graph();
        let moment = wall_clock_millis() + 3_600_000;
        graph.committer().lock().next = Tick::at_millis(moment);
        graph.committer().hold_still().tick(|_| ()).unwrap();
        graph.committer().wait_applied_all().unwrap();
        let prepare = |text: &str| {
            let plan = compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{}", problems[0]));
            graph.prepare(plan)
        };
        graph.write_in_order(&[prepare("CREATE (n {at: timestamp()})")]).unwrap();
        let mut found = Vec::new();
        let mut each = |row: &[Value]| {
            found.extend_from_slice(row);
            ControlFlow::Continue(())
        };
        let query = prepare("CREATE (n {at: timestamp()}) WITH timestamp() AS now MATCH (m) RETURN now, m.at AS at");
        graph.query(&query, &[], QueryOptions::default(), &mut each).unwrap();
        assert_eq!(found, vec![Value::Integer(moment as i64); 4]);
        engine.shutdown().unwrap();
    }

    #[test]
    fn what_was_applied_is_no_longer_waited_for() {
        let engine = engine();
        let graph = engine.default_graph();
        let committer = graph.committer();
        for _ in 0..100 {
            committer.hold_still().tick(|_| ()).unwrap();
            committer.wait_applied_all().unwrap();
        }
        assert_eq!(committer.lock().behind.len(), 1);
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_commit_that_workers_are_late_for_has_happened_all_the_same() {
        let engine = engine();
        let graph = engine.default_graph();
        let erasures = graph.history().erasures().clone();
        // Nobody tells it what is applied.
        let published = Arc::new(Published::new(1));
        let beginning = Beginning { next: graph.next(), replaying: false, sources: FxHashMap::default() };
        let told = Told { published, logged: Arc::default(), expiry: Arc::default(), erasures };
        let mut committer = Committer::new(graph.id(), graph.parts(), told, beginning);
        committer.patience = Duration::from_millis(1);
        for n in 0..2 * ENTRIES_BEHIND_MAX as u64 {
            let upper = committer.commit(change(n)).unwrap();
            assert_eq!(committer.next(), upper);
        }
        assert!(matches!(committer.begin(), Err(EngineError::WorkersStuck)));
        drop(committer);
        engine.shutdown().unwrap();
    }

    /// A stream was told of nothing, and whoever wanted the graph waited with it.
    #[cfg(feature = "rocks-db")]
    #[test]
    fn where_the_log_has_no_room_nothing_happens() {
        let (_temporary, store) = faulty(usize::MAX);
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        // Of a second log over the same store, in which every entry goes alone.
        let options = LogOptions { queue_bytes_max: 1, ..LogOptions::default() };
        let log = Arc::new(Log::start(store.clone(), graph.parts().symbols.clone(), options));
        let parts = Parts { log: log.clone(), ..graph.parts().clone() };
        let erasures = graph.history().erasures().clone();
        let told = Told { published: Arc::new(Published::new(1)), logged: Arc::default(), expiry: Arc::default(), erasures };
        let beginning = Beginning { next: graph.next(), replaying: false, sources: FxHashMap::default() };
        let mut committer = Committer::new(graph.id(), &parts, told, beginning);
        committer.patience = Duration::from_millis(50);
        let gone = |output: &str| Delivered::gone(QueryId(node(1)), output.into());
        let is_late = |ended: &Result<Tick, EngineError>| matches!(ended, Err(EngineError::Store(StoreError::TooSlow { .. })));

        let stuck = lock(&store.stuck);
        committer.commit(change(1)).unwrap();
        until("the writer does not take the first", || committer.commit(change(2)).is_ok());
        committer.note_delivered(gone("noted"));
        committer.note_progress(Duration::ZERO, || vec![gone("progress")]);
        let next = committer.next();
        assert!(is_late(&committer.commit(change(3))));
        let mut purge = change(1);
        purge.mutations.erase(node(1));
        assert!(is_late(&committer.commit(purge)));
        assert!(graph.history().erasures().known().is_empty());
        let mut told = None;
        assert!(is_late(&committer.hold_still().tick(|upper| told = Some(upper))));
        assert_eq!((told, committer.next()), (None, next));
        assert_eq!((committer.noted().len(), committer.lock().progress.len()), (1, 1));

        drop(stuck);
        until("there is no room", || committer.hold_still().tick(|upper| told = Some(upper)).is_ok());
        assert_eq!(told, Some(committer.next()));
        log.wait_durable(graph.id(), committer.next(), Duration::from_secs(60)).unwrap();
        assert_eq!((committer.noted().len(), committer.lock().progress.len()), (0, 0));
        drop(committer);
        engine.shutdown().unwrap();
    }

    /// The second time nothing was noted any more, and a definition was stored for which the log has nothing.
    #[cfg(feature = "rocks-db")]
    #[test]
    fn what_a_log_that_has_failed_refuses_is_never_called_logged() {
        let (_temporary, store) = faulty(0);
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let other = engine.create_graph("z", GraphOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let upper = other.committer().commit(change(1)).unwrap();
        other.wait_durable(upper).unwrap_err();
        let graph = engine.default_graph();
        let committer = graph.committer();
        committer.note_delivered(Delivered::gone(QueryId(node(1)), "output".into()));
        for _ in 0..2 {
            let said = committer.log_delivered();
            assert!(matches!(said, Err(EngineError::Store(StoreError::Poisoned(_)))), "{said:?}");
        }
        // As where it failed when there was room already.
        committer.noted().clear();
        assert!(committer.log_delivered().is_err());
        assert!(engine.shutdown().is_err());
    }

    /// Called a failure, it would end each start.
    #[test]
    fn a_replay_waits_for_the_workers_until_weir_or_the_graph_ends() {
        let engine = engine();
        let graph = engine.default_graph();
        let (mut begin, records) = (graph.committer().hold_still().tick(|_| ()).unwrap(), 2 * REPLAYED_BEHIND_MAX as u64);
        let entry = |first: Tick, n: u64| {
            let upper = first.next();
            let mutations = Arc::new(change(n).mutations);
            Arc::new(Entry { graph: graph.id(), first, upper, mutations, sources: Vec::new(), delivered: Vec::new() })
        };
        for dropped in [true, false] {
            // Nobody tells it what is applied.
            let published = Arc::new(Published::new(1));
            let next = begin;
            let beginning = Beginning { next, replaying: true, sources: FxHashMap::default() };
            let erasures = graph.history().erasures().clone();
            let told = Told { published: published.clone(), logged: Arc::default(), expiry: Arc::default(), erasures };
            let mut committer = Committer::new(graph.id(), graph.parts(), told, beginning);
            committer.patience = Duration::from_millis(1);
            std::thread::scope(|scope| {
                let replay = || (0..records).try_for_each(|n| committer.replay(entry(Tick(next.0 + n), n), false));
                let replaying = scope.spawn(replay);
                until("nothing was to be waited for", || committer.next() >= Tick(next.0 + REPLAYED_BEHIND_MAX as u64));
                std::thread::sleep(Duration::from_millis(100));
                assert!(!replaying.is_finished(), "it was given up");
                if dropped {
                    published.drop_graph("g");
                } else {
                    engine.close_ingest();
                }
                let ended = replaying.join().unwrap();
                match dropped {
                    true => assert!(matches!(ended, Err(EngineError::NoSuchGraph(_))), "{ended:?}"),
                    false => assert!(matches!(ended, Err(EngineError::Closing)), "{ended:?}"),
                }
            });
            // The workers of the graph have got them.
            begin = Tick(next.0 + records);
        }
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_checkpoint_is_led_no_further_than_the_workers() {
        let engine = engine();
        let graph = engine.default_graph();
        let committer = graph.committer();
        let sent = committer.hold_still().tick(|_| ()).unwrap();
        committer.wait_applied_all().unwrap();
        assert_eq!((committer.lead_to(sent).unwrap(), graph.next()), (sent, sent), "they are there");
        graph.forget_source("s").unwrap();
        let end = graph.next();
        assert!(end > sent && graph.sent() == sent);
        // Whoever has it locked is not waited for.
        let state = committer.lock();
        assert_eq!(committer.lead_to(end).unwrap(), sent);
        drop(state);
        // Those that keep house have it locked now and then.
        until("it is not led on", || committer.lead_to(end).unwrap() == end);
        assert!(graph.sent() > end);
        committer.wait_applied_all().unwrap();
        // Once is enough.
        let next = graph.next();
        assert_eq!((committer.lead_to(next).unwrap(), graph.next()), (next, next));
        engine.shutdown().unwrap();
    }
}
