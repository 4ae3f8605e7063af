//! The handle of one graph, which everything else goes through.

mod fresh;
mod load;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rustc_hash::FxHashMap;
use weir_model::lock::lock;
use weir_model::{IdScheme, NodeId, Plan, Position, QueryId, Text, Tick};

use self::fresh::FreshIds;
use self::load::Loaded;
use crate::alarm::CLOCK;
use crate::arrangement::{Published, Snapshot};
use crate::cause::Cause;
use crate::checkpoint::Checkpoints;
use crate::command::{Base, Command};
use crate::commit::{Beginning, Change, Committer, Told, wall_clock_millis};
use crate::engine::{GraphOptions, Parts, QueryLimits};
use crate::error::EngineError;
use crate::evaluate::{Limits, Prepared};
use crate::expiry::Expiry;
use crate::history::History;
use crate::history::run::Shelf;
use crate::index::Catalog;
use crate::memory;
use crate::render::QueryNumber;
use crate::standing::StandingState;
use crate::store::{Delivered, Entry, GraphId, StoreError};
use crate::symbols::Symbols;
use crate::together::SmallWrites;

/// Ingest pauses while a standing query has more results waiting than this.
pub const RESULTS_WAITING_MAX: usize = 100_000;

/// A batch of records waits at most this long for standing queries that do not keep up.
const STAGES_WAIT_MAX: Duration = Duration::from_millis(100);

/// How often entries take along how far outputs are that have nothing to deliver.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// `PROGRESS_INTERVAL` is longer by this for each standing query, so that these entries do not fill the log.
const PROGRESS_INTERVAL_BY_QUERY: Duration = Duration::from_millis(10);

/// How long anyone waits for the log before it is called a failure.
pub(crate) const DURABLE_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Graph {
    inner: Arc<GraphInner>,
}

struct GraphInner {
    id: GraphId,
    name: String,
    options: GraphOptions,
    parts: Parts,
    published: Arc<Published>,
    /// The end of the log, for those who read while it is replayed.
    ahead: ArcSwapOption<Snapshot>,
    /// What the workers began with, as long as there is a `tail`.
    base: Mutex<Option<Arc<Base>>>,
    committer: Committer,
    standing: Mutex<FxHashMap<QueryId, Arc<StandingState>>>,
    /// How many standing queries there are.
    standing_count: AtomicU32,
    /// How many standing queries there ever were.
    standing_ever: AtomicU32,
    recovered: FxHashMap<(QueryId, Text), (Tick, Position)>,
    /// From where on queries of before need the log, until it is known which of them there are no more. Those that a start could
    /// not restore are to be found by another where they stood.
    awaited: Mutex<FxHashMap<QueryId, Tick>>,
    tail: Mutex<Vec<Arc<Entry>>>,
    fresh: FreshIds,
    checkpoints: Checkpoints,
    history: History,
    indexes: Catalog,
    expiry: Arc<Expiry>,
    small_writes: SmallWrites,
    leaving: AtomicBool,
    /// What failed the last time, by the thread that looks after it.
    neglected: Mutex<BTreeMap<&'static str, String>>,
}

/// Does not keep the graph.
pub(crate) struct WeakGraph(Weak<GraphInner>);

impl WeakGraph {
    pub fn upgrade(&self) -> Option<Graph> {
        self.0.upgrade().map(|inner| Graph { inner })
    }
}

impl Graph {
    /// A graph that has just been created in the store.
    pub(crate) fn create(parts: &Parts, id: GraphId, name: String, options: GraphOptions) -> Result<Graph, EngineError> {
        Graph::new(parts, id, name, options, Tick::ZERO, Base::default(), Loaded::default())
    }

    fn new(
        parts: &Parts,
        id: GraphId,
        name: String,
        options: GraphOptions,
        upto: Tick,
        base: Base,
        loaded: Loaded,
    ) -> Result<Graph, EngineError> {
        let shelf = Shelf { graph: id, store: parts.store.clone(), cache: parts.chunks.clone() };
        let end = loaded.tail.last().map_or(base.upper, |entry| entry.upper);
        let history = History::open(shelf, parts.retention, loaded.runs, upto, end)?;
        let mut published = Published::new(parts.workers.count());
        published.last_changes = loaded.last_changes;
        let published = Arc::new(published);
        let expiry = Arc::<Expiry>::default();
        let told = Told {
            published: published.clone(),
            logged: loaded.checkpoints.logged().clone(),
            expiry: expiry.clone(),
            erasures: history.erasures().clone(),
        };
        let beginning = Beginning { next: base.upper, replaying: loaded.was_there, sources: loaded.sources };
        let committer = Committer::new(id, parts, told, beginning);
        let base = Arc::new(base);
        let kept = (!loaded.tail.is_empty()).then(|| base.clone());
        {
            let _order = lock(&parts.sending);
            parts.workers.send(&Command::CreateGraph { graph: id, published: published.clone(), base });
        }
        let inner = GraphInner {
            id,
            name,
            options,
            parts: parts.clone(),
            published,
            ahead: ArcSwapOption::empty(),
            base: Mutex::new(kept),
            committer,
            standing: Mutex::default(),
            standing_count: AtomicU32::new(0),
            standing_ever: AtomicU32::new(0),
            recovered: loaded.delivered,
            awaited: Mutex::new(loaded.needs),
            tail: Mutex::new(loaded.tail),
            fresh: FreshIds::new(),
            checkpoints: loaded.checkpoints,
            history,
            indexes: Catalog::default(),
            expiry,
            small_writes: SmallWrites::default(),
            leaving: AtomicBool::new(false),
            neglected: Mutex::default(),
        };
        Ok(Graph { inner: Arc::new(inner) })
    }

    pub fn id(&self) -> GraphId {
        self.inner.id
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn options(&self) -> GraphOptions {
        self.inner.options
    }

    pub(crate) fn entries_to_replay(&self) -> usize {
        lock(&self.inner.tail).len()
    }

    pub fn open_cypher(&self) -> bool {
        self.inner.options.open_cypher
    }

    pub fn ids(&self) -> IdScheme {
        self.inner.parts.ids
    }

    pub fn symbols(&self) -> &Symbols {
        &self.inner.parts.symbols
    }

    /// What a record of an ingest stream may take: whatever queries hold, it goes on.
    pub(crate) fn limits(&self) -> Limits<'static> {
        let QueryLimits { time_max, memory_bytes_max, .. } = self.inner.parts.limits;
        Limits { time_max: Some(time_max), buffer_bytes_max: memory_bytes_max, ..Limits::NONE }
    }

    /// What a query of this graph may take.
    pub(crate) fn query_limits(&self) -> Limits<'_> {
        Limits { pool: Some(&self.inner.parts.pool), ..self.limits() }
    }

    /// It is about to be dropped: nothing that goes on should begin in it any more.
    pub fn leave(&self, leaves: bool) {
        self.inner.leaving.store(leaves, Ordering::SeqCst);
    }

    /// An error where it is about to be dropped, or is no more.
    pub fn stays(&self) -> Result<(), EngineError> {
        if self.inner.leaving.load(Ordering::SeqCst) { Err(EngineError::NoSuchGraph(self.name().to_owned())) } else { Ok(()) }
    }

    /// A thread that looks after the graph has done so, or failed.
    pub(crate) fn note_care(&self, by: &'static str, failed: Option<&EngineError>) {
        let mut neglected = lock(&self.inner.neglected);
        match failed {
            Some(error) => drop(neglected.insert(by, error.to_string())),
            None => drop(neglected.remove(by)),
        }
    }

    /// What is not done for the graph for now, each with the reason, by the threads that should: checkpoints and merges of pages,
    /// say. They try again.
    pub fn neglected(&self) -> BTreeMap<&'static str, String> {
        let mut neglected = lock(&self.inner.neglected);
        // The clock is asked no more where no query waits for it any more.
        if !self.parts().alarms.any_of(self.id()) {
            neglected.remove(CLOCK);
        }
        neglected.clone()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.inner.parts
    }

    pub(crate) fn committer(&self) -> &Committer {
        &self.inner.committer
    }

    pub(crate) fn standing(&self) -> MutexGuard<'_, FxHashMap<QueryId, Arc<StandingState>>> {
        lock(&self.inner.standing)
    }

    pub(crate) fn add_standing(&self, query: QueryId, state: Arc<StandingState>) {
        let mut standing = self.standing();
        standing.insert(query, state);
        self.inner.standing_count.store(standing.len() as u32, Ordering::Relaxed);
    }

    pub(crate) fn remove_standing(&self, query: QueryId) -> Option<Arc<StandingState>> {
        let mut standing = self.standing();
        let gone = standing.remove(&query);
        self.inner.standing_count.store(standing.len() as u32, Ordering::Relaxed);
        gone
    }

    /// A number for a standing query, in the order in which they are installed.
    pub(crate) fn next_query(&self) -> QueryNumber {
        QueryNumber(self.inner.standing_ever.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn standing_count(&self) -> u32 {
        self.inner.standing_count.load(Ordering::Relaxed)
    }

    pub(crate) fn published(&self) -> &Published {
        &self.inner.published
    }

    /// The standing queries as of now. What is asked of them takes locks of theirs, and those who ingest wait for the list.
    pub(crate) fn standing_now(&self) -> Vec<(QueryId, Arc<StandingState>)> {
        self.standing().iter().map(|(query, state)| (*query, state.clone())).collect()
    }

    /// How far every output of every standing query has delivered, and the sums of pauses.
    pub(crate) fn delivered(&self) -> Vec<Delivered> {
        let of_query = |(query, state): (QueryId, Arc<StandingState>)| {
            // Before the outputs: neither is kept of a tick behind one of them.
            let kept = state.kept(query);
            state.delivered_of(query).into_iter().chain(kept).collect::<Vec<_>>()
        };
        self.standing_now().into_iter().flat_map(of_query).collect()
    }

    /// The log is needed from here on, to find again what was not delivered. None while there is nobody to deliver to.
    pub(crate) fn needs_from(&self) -> Option<Tick> {
        let awaited = {
            let standing = self.standing();
            self.awaited().iter().filter(|(query, _)| !standing.contains_key(query)).map(|(_, tick)| *tick).min()
        };
        self.standing_now().iter().filter_map(|(_, state)| state.needs_from()).chain(awaited).min()
    }

    /// From where on queries need the log that were there before and may not have been installed again.
    pub(crate) fn awaited(&self) -> MutexGuard<'_, FxHashMap<QueryId, Tick>> {
        lock(&self.inner.awaited)
    }

    /// Logs how far outputs have delivered results. Where they have come further without any, the next entry takes that along, so
    /// that a start need not replay it. Where the graph is locked that is left to the next time: there are others.
    pub(crate) fn log_delivery(&self) -> Result<(), EngineError> {
        let interval = PROGRESS_INTERVAL + PROGRESS_INTERVAL_BY_QUERY * self.standing_count();
        let outputs = || self.standing_now().iter().flat_map(|(query, state)| state.delivered_of(*query)).collect();
        self.committer().note_progress(interval, outputs);
        self.committer().try_log_delivered()
    }

    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.inner.checkpoints
    }

    pub fn history(&self) -> &History {
        &self.inner.history
    }

    pub(crate) fn indexes(&self) -> &Catalog {
        &self.inner.indexes
    }

    pub(crate) fn expiry(&self) -> &Arc<Expiry> {
        &self.inner.expiry
    }

    pub(crate) fn small_writes(&self) -> &SmallWrites {
        &self.inner.small_writes
    }

    pub(crate) fn downgrade(&self) -> WeakGraph {
        WeakGraph(Arc::downgrade(&self.inner))
    }

    /// What the store knew of the delivery of a query's results when it was opened, by output.
    pub(crate) fn recovered(&self, query: QueryId, output: &Text) -> Option<(Tick, Position)> {
        self.inner.recovered.get(&(query, output.clone())).cloned()
    }

    /// The outputs of queries of which it knew that.
    pub(crate) fn all_recovered(&self) -> impl Iterator<Item = &(QueryId, Text)> {
        self.inner.recovered.keys()
    }

    /// Resolves the names of a plan, once for all its runs, of which each looks at one moment.
    pub fn prepare(&self, plan: Plan) -> Arc<Prepared> {
        Arc::new(Prepared::of_moments(plan, self.symbols()))
    }

    /// The present: everything whose commit has returned is in it.
    pub fn snapshot(&self) -> Snapshot {
        match self.ahead() {
            Some(ahead) => Snapshot::clone(&ahead),
            None => self.inner.published.snapshot(),
        }
    }

    /// The present while the workers are not there yet.
    pub(crate) fn ahead(&self) -> Option<Arc<Snapshot>> {
        self.inner.ahead.load_full()
    }

    /// The tick after the last commit that is known, also while the log has yet to be replayed.
    pub fn known_end(&self) -> Tick {
        lock(&self.inner.tail).last().map_or_else(|| self.next(), |entry| entry.upper)
    }

    /// The tick after the last commit.
    pub fn next(&self) -> Tick {
        self.inner.committer.next()
    }

    pub(crate) fn try_next(&self) -> Option<Tick> {
        self.inner.committer.try_next()
    }

    /// The end of the last entry that the workers were sent: standing queries answer for what is before it. What comes behind it
    /// only says how far outputs are, and is no work for them.
    pub fn sent(&self) -> Tick {
        self.inner.committer.between(|sent| sent)
    }

    /// Everything before this tick survives the end of the process (or of power, with `sync_all_writes`).
    pub fn durable(&self) -> Tick {
        self.inner.parts.log.durable(self.inner.id)
    }

    pub fn wait_durable(&self, upper: Tick) -> Result<(), EngineError> {
        self.wait_durable_for(DURABLE_PATIENCE, upper)
    }

    pub(crate) fn wait_durable_for(&self, patience: Duration, upper: Tick) -> Result<(), EngineError> {
        self.inner.parts.log.wait_durable(self.inner.id, upper, patience).map_err(|error| match error {
            StoreError::NoSuchGraph(_) => EngineError::NoSuchGraph(self.name().to_owned()),
            error => error.into(),
        })
    }

    /// Waits until reads show everything that was committed. Queries that write have done so when they return.
    pub fn wait_visible(&self) -> Result<(), EngineError> {
        self.inner.committer.wait_applied_all()
    }

    /// An error once a write to the log has failed: what is in memory holds what was refused then.
    pub(crate) fn readable(&self) -> Result<(), EngineError> {
        self.inner.parts.log.failure().map_or(Ok(()), |failure| Err(EngineError::Refused(failure)))
    }

    /// Where a source stood after its last record that was committed.
    pub fn position(&self, source: &str) -> Option<Position> {
        self.inner.committer.position(source)
    }

    /// Forgets a source that is gone, so that one of the same name starts anew.
    pub fn forget_source(&self, source: &str) -> Result<(), EngineError> {
        self.inner.committer.commit(Change { source: Some((source.into(), Position::default())), ..Change::default() })?;
        Ok(())
    }

    /// The current time for whoever evaluates: not before the last change that shows. Ticks stand still where the system's clock
    /// is set back, and standing queries tell the time by them.
    pub fn now_millis(&self) -> u64 {
        let last = match self.ahead() {
            Some(ahead) => ahead.tick(),
            None => Tick(self.inner.published.upper().0.saturating_sub(1)),
        };
        wall_clock_millis().max(last.millis())
    }

    pub fn fresh_id(&self) -> NodeId {
        self.inner.fresh.next(self.ids())
    }

    /// Ingest waits here while memory is tight, while standing queries have too many results that nobody has taken, and while
    /// what is due does not come to its end in time.
    pub(crate) fn wait_for_room(&self) -> Result<(), EngineError> {
        if self.wait_for_room_while(|| true) { Ok(()) } else { Err(EngineError::Closing) }
    }

    /// As `wait_for_room`, for as long as `goes_on` says yes, which is asked every now and then while results wait or what is due
    /// is late. False: there is no room, and weir ends or `goes_on` says no.
    pub fn wait_for_room_while(&self, goes_on: impl Fn() -> bool) -> bool {
        memory::wait_for_room();
        if !self.wait_for_results(&goes_on) {
            return false;
        }
        while self.expiry().is_late() && !self.is_closing() {
            if !goes_on() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.inner.parts.closing.load(Ordering::Relaxed)
    }

    /// Why there is a tick, where an output of a standing query has written it.
    pub fn cause(&self, tick: Tick) -> Option<Arc<Cause>> {
        self.committer().causes.of(tick)
    }

    /// Whether more results of one standing query than this wait for its outputs.
    pub fn has_waiting(&self, results: usize) -> bool {
        self.standing().values().any(|state| state.inbox.waiting() > results)
    }

    /// False: results wait, and weir ends or `goes_on` says no.
    pub(crate) fn wait_for_results(&self, goes_on: impl Fn() -> bool) -> bool {
        while self.has_waiting(RESULTS_WAITING_MAX) {
            if self.is_closing() || !goes_on() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait_for_stages();
        true
    }

    /// A little, while standing queries do not keep up. What they cost slows those who write, and never stops them.
    fn wait_for_stages(&self) {
        // Asked first: there may be thousands of queries, and mostly none of them has stages.
        if !self.parts().asides.is_at_work() {
            return;
        }
        let begun = Instant::now();
        let is_behind = |state: &Arc<StandingState>| {
            let looks_through = !state.backfill.done.load(Ordering::Relaxed);
            state.health.holds_up(looks_through)
        };
        while begun.elapsed() < STAGES_WAIT_MAX && self.standing().values().any(is_behind) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
