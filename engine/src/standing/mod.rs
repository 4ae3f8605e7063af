//! Standing queries from outside the workers: installed, watched, delivered, dropped.
//!
//! A query's results come as batches in the order of ticks. They are handed out only when their ticks are durable. What
//! has been delivered is noted per output and logged with the ticks that follow; after a restart the ticks since then
//! are replayed, and what comes of them is what was not delivered, no more and no less.
//!
//!     render/results (Gather) ─> inbox ─> next ─> durable? ─> first ─> pauses ─> held
//!     api/standing (hand_out) ─> api/outputs (Lane, output)
//!     connectors/delivery (Delivery) ─> set_delivered ─> log

mod inbox;
mod held;
mod pause;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::lock::lock;
use weir_model::{Mutations, Plan, Position, QueryId, Text, Tick};

use self::held::Held;
pub use self::inbox::Inbox;
pub use self::pause::Paused;
use self::pause::{First, Pauses};
use crate::command::{Command, Install};
use crate::error::EngineError;
use crate::graph::{DURABLE_PATIENCE, Graph};
use crate::latency::{Found, Latency};
use crate::render::health::{Health, LeftOut};
use crate::render::probe::home;
use crate::render::results::{Backfill, Baseline};
use crate::render::{Maintained, QueryNumber, ResultBatch};
use crate::store::reserved::{BEGUN, FOLLOWED, HELD, PAUSED, is_reserved};
use crate::store::{Delivered, StoreError};

/// Which of the matches that exist at installation are results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// None, until someone asks (`StandingQuery::propagate`).
    Now,
    /// All of them.
    WholeGraph,
    /// The query was there before a restart: what was not delivered.
    Resume,
    /// All of them, summed up with what comes until `resume`, like the results of a pause.
    Summed,
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
    cancellations: bool,
    /// Its number among those of this run.
    number: QueryNumber,
    /// Results of later ticks only have been found by what was committed since.
    installed: Tick,
    state: Arc<StandingState>,
    results: Receiver<ResultBatch>,
    /// The next one, where it was received and did not become durable in time.
    undurable: Mutex<Option<ResultBatch>>,
    /// Whoever waits for results shall look up.
    bell: (Sender<()>, Receiver<()>),
    columns: Arc<[Text]>,
    /// The progress that was handed out last.
    seen: AtomicU64,
    /// How often nothing was found since.
    in_vain: AtomicU32,
}

/// How often a thread that waits for results looks whether there is progress without any.
const PROGRESS_LOOK: Duration = Duration::from_millis(1);
/// `PROGRESS_LOOK` is longer by this for each standing query, so that a thread a query is no load.
const PROGRESS_LOOK_BY_QUERY: Duration = Duration::from_micros(50);

/// Whoever looks at many queries waits this long for results to be durable. Mostly they are within a sync of the log.
const LOOK_PATIENCE: Duration = Duration::from_millis(50);

/// How soon whoever waits for results to be durable sees that it is roused.
const ROUSED_LOOK: Duration = Duration::from_millis(50);

/// Each look in vain doubles the time to the next, at most this many times.
const PROGRESS_LOOK_DOUBLED_MAX: u32 = 6;

/// What the engine keeps of an installed query.
pub struct StandingState {
    pub inbox: Arc<Inbox>,
    pub backfill: Arc<Backfill>,
    pub health: Arc<Health>,
    /// Up to where each output has delivered, and the position its destination gave.
    pub delivered: Mutex<FxHashMap<Text, (Tick, Position)>>,
    /// The tick of `BEGUN`, as long as the store knows of it.
    begun: Mutex<Option<Tick>>,
    /// Says without a lock whether there is `first`.
    pub has_first: AtomicBool,
    pub(crate) first: Mutex<Option<First>>,
    pub latency: Latency,
    /// Says without a lock whether there are `pauses`.
    pub has_pauses: AtomicBool,
    pauses: Mutex<Pauses>,
    /// Says without a lock whether there may be rows in `held`.
    pub has_held: AtomicBool,
    /// Locked behind `pauses`, where both are, as `commit` says of all of them.
    pub(crate) held: Mutex<Held>,
}

/// Before which tick what there is makes up the first results.
#[derive(Clone, Copy)]
struct Begun {
    tick: Tick,
    /// Some output has not all of them.
    is_awaited: bool,
}

/// What is known of a query from before a restart; what a new one begins with.
struct Recovered {
    begun: Option<Begun>,
    pauses: Pauses,
    held: Held,
}

impl Recovered {
    fn holds(&self, standing: &Standing) -> bool {
        standing.start == Start::Now || self.held.is_active()
    }

    /// Cancellations of ticks before this one are wanted.
    fn cancellations_until(&self, standing: &Standing) -> Tick {
        match self.begun {
            _ if standing.cancellations || self.holds(standing) => Tick::MAX,
            Some(begun) => self.pauses.cancellations_until().max(begun.tick),
            None => self.pauses.cancellations_until(),
        }
    }
}

impl StandingState {
    fn new(standing: &Standing, recovered: Recovered, health: Health) -> StandingState {
        let holds = recovered.holds(standing);
        let Recovered { begun, pauses, held } = recovered;
        let first = begun.filter(|begun| begun.is_awaited).map(|begun| First::new(begun.tick));
        StandingState {
            inbox: Arc::default(),
            backfill: Arc::default(),
            health: Arc::new(health),
            delivered: Mutex::default(),
            begun: Mutex::new(begun.map(|begun| begun.tick)),
            has_first: AtomicBool::new(first.is_some()),
            first: Mutex::new(first),
            latency: Latency::default(),
            has_pauses: AtomicBool::new(!pauses.is_empty()),
            pauses: Mutex::new(pauses),
            has_held: AtomicBool::new(holds),
            held: Mutex::new(held),
        }
    }

    /// Whether what there is at `installed` is news.
    fn baseline(&self, standing: &Standing, delivered: &FxHashMap<Text, (Tick, Position)>, installed: Tick) -> Baseline {
        let is_told = standing.start != Start::Resume || self.held().wants_rest() || self.has_first.load(Ordering::Relaxed);
        // What is not in the sum of a pause is not known either, however far the outputs are: these are told nothing of it, and
        // get past it. What an empty graph answers comes at the very first tick.
        let mut ends = delivered.values().map(|(tick, _)| *tick).chain(self.pauses().summed_to());
        if !is_told && ends.all(|tick| tick >= installed.max(Tick(1))) { Baseline::Known } else { Baseline::Report }
    }

    /// Everything before this has been delivered by every output; None while there is no output.
    pub fn delivered_by_all(&self) -> Option<Tick> {
        let delivered = lock(&self.delivered);
        delivered.values().map(|(tick, _)| *tick).min()
    }

    /// As `delivered_by_all`, without those who follow the query.
    fn delivered_by_outputs(&self) -> Option<Tick> {
        least_by_outputs(&lock(&self.delivered))
    }

    fn begun(&self) -> MutexGuard<'_, Option<Tick>> {
        lock(&self.begun)
    }

    /// Up to where each output has delivered.
    pub(crate) fn delivered_of(&self, query: QueryId) -> Vec<Delivered> {
        let delivered = lock(&self.delivered);
        let of_output = |(output, (tick, position)): (&Text, &(Tick, Position))| Delivered {
            query,
            output: output.clone(),
            tick: *tick,
            position: position.clone(),
        };
        delivered.iter().map(of_output).collect()
    }

    pub(crate) fn pauses(&self) -> MutexGuard<'_, Pauses> {
        lock(&self.pauses)
    }

    /// The log is needed from here on, to find again what was not delivered. None while there is nobody to deliver to.
    pub fn needs_from(&self) -> Option<Tick> {
        let delivered = self.delivered_by_all();
        delivered.into_iter().chain(self.pause_needs()).chain(self.held_needs()).min()
    }
}

impl Graph {
    /// Installs a standing query. Results begin with the next commit, besides what `start` asks for.
    pub fn install(&self, standing: Standing) -> Result<StandingQuery, EngineError> {
        self.install_named("", standing)
    }

    /// As `install`, for a query that the log is to call by a name instead of its id.
    pub fn install_named(&self, name: &str, standing: Standing) -> Result<StandingQuery, EngineError> {
        if self.standing().contains_key(&standing.id) {
            return Err(EngineError::StandingExists);
        }
        let maintained = Maintained::new(&standing.plan, self.symbols(), self.ids())?;
        #[expect(clippy::disallowed_methods, reason = "a worker cannot wait; ingest does, while too many results lie here")]
        let (sender, results) = crossbeam_channel::unbounded();
        let recovered = self.recovered_of(&standing);
        let cancellations_until = recovered.cancellations_until(&standing);
        let health = Health::new(standing.id, standing.plan.source.as_str().into(), self.ids());
        let health = health.named(name).among(&self.parts().asides, maintained.staged.is_some());
        let state = Arc::new(StandingState::new(&standing, recovered, health));
        let columns = maintained.columns.clone();
        if maintained.clocked && standing.start != Start::Resume {
            // What turned since the last commit had turned before the query was there.
            self.apply(Mutations::default(), 1)?;
        }
        let (number, installed) = self.committer().between(|installed| {
            let number = self.next_query();
            let delivered = self.begins(&standing, installed);
            match standing.start {
                Start::Now => *state.held() = Held::begun(installed),
                Start::WholeGraph if !standing.outputs.is_empty() => *state.begun() = Some(installed.max(Tick(1))),
                _ => {}
            }
            let baseline = state.baseline(&standing, &delivered, installed);
            *lock(&state.delivered) = delivered;
            self.add_standing(standing.id, state.clone());
            self.parts().workers.send(&Command::Install(Arc::new(Install {
                graph: self.id(),
                query: standing.id,
                number,
                maintained,
                open_cypher: self.open_cypher(),
                hubs: self.parts().hubs,
                symbols: self.parts().symbols.clone(),
                cancellations_until,
                baseline,
                results: sender,
                inbox: state.inbox.clone(),
                backfill: state.backfill.clone(),
                asides: self.parts().asides.clone(),
                health: state.health.clone(),
                alarms: self.parts().alarms.clone(),
            })));
            (number, installed)
        });
        let query = StandingQuery {
            graph: self.clone(),
            id: standing.id,
            cancellations: standing.cancellations,
            number,
            installed,
            state,
            results,
            undurable: Mutex::default(),
            bell: crossbeam_channel::bounded(1),
            columns,
            seen: AtomicU64::new(0),
            in_vain: AtomicU32::new(0),
        };
        if standing.start != Start::Resume
            && let Err(error) = query.log_begin(&standing)
        {
            self.drop_standing(standing.id);
            return Err(error);
        }
        Ok(query)
    }

    fn recovered_of(&self, standing: &Standing) -> Recovered {
        let begun = self.recovered_begin(standing);
        let (pauses, held) = match standing.start {
            Start::Resume => (self.recovered_pauses(standing.id), self.recovered_held(standing.id)),
            Start::Summed => (Pauses::from_the_beginning(), Held::default()),
            Start::Now | Start::WholeGraph => Default::default(),
        };
        Recovered { begun, pauses, held }
    }

    /// From which tick on each output gets results, and those who follow the query.
    fn begins(&self, standing: &Standing, installed: Tick) -> FxHashMap<Text, (Tick, Position)> {
        let of_output = |output: &Text| {
            let from = match standing.start {
                Start::Now => (installed, Position::default()),
                // The last tick that there was: its results are all that there is.
                Start::WholeGraph => (Tick(installed.0.saturating_sub(1)), Position::default()),
                Start::Summed => (Tick::ZERO, Position::default()),
                Start::Resume => self.recovered(standing.id, output).unwrap_or((Tick::ZERO, Position::default())),
            };
            (output.clone(), from)
        };
        let followed = self.recovered(standing.id, &Text::new(FOLLOWED)).filter(|_| standing.start == Start::Resume);
        standing.outputs.iter().map(of_output).chain(followed.map(|followed| (Text::new(FOLLOWED), followed))).collect()
    }

    /// None where the store knows of no beginning: the query is new, or every output has had the first results for long.
    fn recovered_begin(&self, standing: &Standing) -> Option<Begun> {
        let of = |output: &Text| self.recovered(standing.id, output).map(|(tick, _)| tick);
        let tick = of(&Text::new(BEGUN)).filter(|_| standing.start == Start::Resume)?;
        let mut ends = standing.outputs.iter().map(|output| of(output).unwrap_or_default()).chain(of(&Text::new(FOLLOWED)));
        Some(Begun { tick, is_awaited: ends.any(|end| end < tick) })
    }

    /// Forgets what the store knows of the delivery of queries that are not installed, and of outputs that they do not have:
    /// those were on the way to be made or deleted when the process was killed, and each start would replay the log from where
    /// they stood. For when all queries have been installed again; until then the log is kept for them.
    pub fn forget_delivery_to_nobody(&self) {
        let installed = self.standing_now();
        let outputs =
            installed.iter().flat_map(|(query, state)| state.delivered_of(*query)).map(|known| (known.query, known.output));
        let (queries, outputs): (FxHashSet<QueryId>, FxHashSet<(QueryId, Text)>) =
            (installed.iter().map(|(query, _)| *query).collect(), outputs.collect());
        let is_there = |key: &(QueryId, Text)| outputs.contains(key) || (is_reserved(key.1.as_str()) && queries.contains(&key.0));
        let gone = self.all_recovered().filter(|key| !is_there(key));
        gone.for_each(|(query, output)| self.committer().note_delivered(Delivered::gone(*query, output.clone())));
        self.awaited().clear();
    }

    /// How often a thread looks for progress.
    fn between_looks(&self) -> Duration {
        PROGRESS_LOOK + PROGRESS_LOOK_BY_QUERY * self.standing_count()
    }

    /// Takes a standing query away that could not be brought back, as if it had not been tried: a later start finds it where it
    /// stood, and the log is kept for it until `forget_delivery_to_nobody`.
    pub fn put_standing_off(&self, query: QueryId) {
        self.take_standing(query);
    }

    fn take_standing(&self, query: QueryId) -> Option<Arc<StandingState>> {
        self.committer().between(|_| self.parts().workers.send(&Command::Drop { graph: self.id(), query }));
        self.remove_standing(query)
    }

    /// Takes a standing query away. Matches it had reported are not cancelled.
    pub fn drop_standing(&self, query: QueryId) {
        let taken = self.take_standing(query);
        self.awaited().remove(&query);
        if let Some(state) = taken {
            let outputs: Vec<Text> = lock(&state.delivered).keys().cloned().collect();
            let pauses = state.pauses().is_recorded().then(|| Text::new(PAUSED));
            let held = state.held().is_recorded().then(|| Text::new(HELD));
            let begun = state.begun().map(|_| Text::new(BEGUN));
            outputs
                .into_iter()
                .chain(pauses)
                .chain(held)
                .chain(begun)
                .for_each(|output| self.committer().note_delivered(Delivered::gone(query, output)));
        }
    }
}

impl StandingQuery {
    /// Logs from where on results are to be delivered.
    fn log_begin(&self, standing: &Standing) -> Result<(), EngineError> {
        for output in &standing.outputs {
            self.log_frontier(output);
        }
        if let Some(tick) = *self.state.begun() {
            self.graph.committer().note_delivered(begun_at(self.id, tick));
        }
        match standing.start {
            Start::Now => self.log_held(),
            _ => self.graph.committer().log_delivered(),
        }
    }

    pub fn id(&self) -> QueryId {
        self.id
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn state(&self) -> &StandingState {
        &self.state
    }

    /// The tick it was installed before.
    pub(crate) fn installed(&self) -> Tick {
        self.installed
    }

    /// Whether cancellations are results.
    pub fn cancellations(&self) -> bool {
        self.cancellations
    }

    /// The next batch of results, once it is durable; without rows where there is nothing but progress. None when there is
    /// neither within the limit, or when somebody rouses whoever waits; an error when the query was dropped, or the log has
    /// failed before results were durable.
    pub fn next(&self, limit: Duration) -> Result<Option<ResultBatch>, EngineError> {
        if limit.is_zero() {
            return self.look(LOOK_PATIENCE);
        }
        // In a statement of its own, which lets go of the lock: what is not durable then is put there again.
        let undurable = self.undurable().take();
        if let Some(batch) = undurable {
            return self.hand_over(batch, DURABLE_PATIENCE);
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let in_vain = self.in_vain.load(Ordering::Relaxed).min(PROGRESS_LOOK_DOUBLED_MAX);
            let answer = crossbeam_channel::select! {
                recv(self.results) -> batch => batch.map_err(|_| RecvTimeoutError::Disconnected),
                recv(self.bell.1) -> _ => return Ok(None),
                default(left.min(self.graph.between_looks() * (1 << in_vain))) => Err(RecvTimeoutError::Timeout),
            };
            let batch = match answer {
                Ok(batch) => Some(batch),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(10)));
                    return Err(EngineError::StandingGone);
                }
            };
            let found = match batch {
                Some(batch) => self.hand_over(batch, DURABLE_PATIENCE)?,
                None => self.look(DURABLE_PATIENCE)?,
            };
            // Of a batch that is not durable yet when somebody is roused, nothing behind it is looked at.
            if found.is_some() || self.undurable().is_some() {
                return Ok(found);
            }
            self.in_vain.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    /// As `next`, without waiting for results; for those that are there to be durable, no longer than this. Progress is told as
    /// far as that is. Some look at thousands of queries, one after another, most of which have nothing: it costs no look at the
    /// clock.
    fn look(&self, patience: Duration) -> Result<Option<ResultBatch>, EngineError> {
        // What came of everything before this has been sent by now, so if there is nothing, nothing came of it.
        let upper = self.answered();
        let received = self.undurable().take().map_or_else(|| self.results.try_recv(), Ok);
        let batch = match received {
            Ok(batch) => batch,
            Err(TryRecvError::Disconnected) => return Err(EngineError::StandingGone),
            Err(TryRecvError::Empty) if upper.0 <= self.seen.load(Ordering::Relaxed) => return Ok(None),
            Err(TryRecvError::Empty) => {
                let upper = upper.min(self.graph.durable());
                if upper.0 <= self.seen.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                ResultBatch { upper, columns: self.columns.clone(), rows: Vec::new(), found: None }
            }
        };
        self.hand_over(batch, patience)
    }

    fn undurable(&self) -> MutexGuard<'_, Option<ResultBatch>> {
        lock(&self.undurable)
    }

    /// None where somebody rouses whoever waits before it is durable.
    fn hand_over(&self, mut batch: ResultBatch, patience: Duration) -> Result<Option<ResultBatch>, EngineError> {
        let awaited = self.await_durable(batch.upper, patience);
        if !matches!(awaited, Ok(true)) {
            // Whoever asks again gets it, and none behind it before.
            *self.undurable() = Some(batch);
            return awaited.map(|_| None);
        }
        let count = batch.rows.len();
        batch.sort();
        let passed = self.pass(&mut batch).map(|()| self.measure(&batch));
        // Not before whoever asks has them: of many this takes a while, and where nothing waits weir may stop.
        self.state.inbox.taken(count);
        passed?;
        self.seen.fetch_max(batch.upper.0, Ordering::Relaxed);
        self.in_vain.store(0, Ordering::Relaxed);
        Ok(Some(batch))
    }

    /// Waits until everything before a tick is durable. False: somebody rouses whoever waits, and it is not.
    fn await_durable(&self, upper: Tick, patience: Duration) -> Result<bool, EngineError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.graph.wait_durable_for(left.min(ROUSED_LOOK), upper) {
                Err(EngineError::Store(StoreError::TooSlow { .. })) if left > ROUSED_LOOK => {
                    if self.bell.1.try_recv().is_ok() {
                        return Ok(false);
                    }
                }
                Err(EngineError::Store(StoreError::TooSlow { graph, tick, .. })) => {
                    return Err(StoreError::TooSlow { graph, tick, patience }.into());
                }
                awaited => return awaited.map(|()| true),
            }
        }
    }

    /// Whoever waits for results, or will next, is told that there are none, and then looks often again.
    pub fn rouse(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
        // Where it has been rung already, once is enough.
        let _ = self.bell.0.try_send(());
    }

    /// Nobody waits for results from here on; `wake` is called when there are the next, once. False, and it is not, when some
    /// wait already.
    pub fn rest(&self, wake: impl FnOnce() + Send + 'static) -> bool {
        self.state.inbox.rest(wake)
    }

    /// Notes how long the results of a batch, which is durable, have taken.
    fn measure(&self, batch: &ResultBatch) {
        let Some(at) = batch.found else { return };
        let ticks = batch.rows.iter().map(|row| row.tick).filter(|tick| *tick >= self.installed);
        let durable = |upper| self.graph.parts().log.durable_at(self.graph.id(), upper);
        let has_outputs = self.state.delivered_by_outputs().is_some();
        let results = Found { ticks, upper: batch.upper, at };
        self.state.latency.ready(results, &self.graph.committer().commits, durable, has_outputs);
    }

    /// How long results have taken so far.
    pub fn latency(&self) -> &Latency {
        &self.state.latency
    }

    pub fn columns(&self) -> &[Text] {
        &self.columns
    }

    /// Everything before this has been looked at and its results sent.
    fn answered(&self) -> Tick {
        if !self.state.backfill.done.load(Ordering::SeqCst) {
            return Tick::ZERO;
        }
        self.state.health.answered(self.graph.published().answered(home(self.number)))
    }

    /// How many nodes of the graph at rest have been looked at, and of about how many. None once it has been looked through.
    pub fn backfill(&self) -> Option<(u64, u64)> {
        let Backfill { nodes, looked_at, done } = &*self.state.backfill;
        let looked_at = looked_at.load(Ordering::Relaxed);
        (!done.load(Ordering::SeqCst)).then(|| (looked_at, nodes.load(Ordering::Relaxed).max(looked_at)))
    }

    /// Whether results of the graph at rest may still come. Where nothing had been written there are none, though `backfill` may
    /// end with the first tick only.
    pub fn looks_through_rest(&self) -> bool {
        self.installed > Tick::ZERO && self.backfill().is_some()
    }

    /// Why it has ended by itself: it cost too much, and has no results from there on.
    pub fn failure(&self) -> Option<&str> {
        self.state.health.failure()
    }

    /// While what was committed has not been answered: up to where its results are there, and how many changes of rows wait for
    /// it. There are none where it waits for its worker, which is at work for this query or another: what their patterns cost all
    /// of them wait for. Then it is the first commit without an answer, not the end of the last one with, which may be long ago.
    pub fn behind(&self) -> Option<(Tick, usize)> {
        let health = &self.state.health;
        if let Some(behind) = health.falls_behind() {
            return Some(behind);
        }
        let answered = self.answered();
        if answered == Tick::ZERO || health.is_over() {
            return None;
        }
        Some((self.graph.committer().commits.first_from(answered)?, 0))
    }

    /// Rows that are not in its answer because too much would have to be looked at for them.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.state.health.left_out()
    }

    /// Results that were found and not yet taken: with `next`, or by the slowest of those that whoever takes them hands them to.
    pub fn waiting(&self) -> usize {
        self.state.inbox.waiting()
    }

    /// Says how many results that were taken with `next` wait for the slowest of those they are handed to. Ingest waits for
    /// these, too.
    pub fn set_behind(&self, results: usize) {
        self.state.inbox.set_behind(results);
    }

    /// Up to where an output has delivered, and where its destination stood then. Results of earlier ticks are skipped.
    pub fn delivered(&self, output: &str) -> Option<(Tick, Position)> {
        lock(&self.state.delivered).get(output).cloned()
    }

    /// An output has delivered everything before `upper`. `rows` says whether anything was sent for it: progress without
    /// rows is only worth writing down along with something else.
    pub fn set_delivered(&self, output: &str, upper: Tick, position: Position, rows: bool) {
        let mut delivered = lock(&self.state.delivered);
        let before = delivered.insert(output.into(), (upper, position));
        if output != FOLLOWED
            && let (Some((from, _)), Some(by_all)) = (before, least_by_outputs(&delivered))
        {
            // Under the lock: results are counted for this output before another, by its word, has them forgotten.
            self.state.latency.delivered(from, upper, by_all);
        }
        drop(delivered);
        if rows {
            self.log_frontier(output);
        }
        self.forget_begin();
    }

    /// Nothing of the first results is found again from here on. That outputs have them is in the log no later than that.
    fn forget_begin(&self) {
        let mut begun = self.state.begun();
        if begun.is_some_and(|begun| self.state.delivered_by_all().is_none_or(|tick| tick >= begun)) {
            *begun = None;
            self.log_frontiers();
            self.graph.committer().note_delivered(Delivered::gone(self.id, Text::new(BEGUN)));
        }
    }

    /// The log is needed from here on for this query.
    pub fn needs_from(&self) -> Option<Tick> {
        self.state.needs_from()
    }

    /// An output that gets the results of a tick and later ones: a new one, or one that goes on where another stood. Durable when
    /// this returns.
    pub fn put_output(&self, output: &str, from: Tick, position: Position) -> Result<(), EngineError> {
        self.set_delivered(output, from, position, true);
        self.log_noted()
    }

    /// Has in the log what was noted of the query when this returns: how far it has delivered, who follows it, its pauses.
    pub fn log_noted(&self) -> Result<(), EngineError> {
        self.graph.committer().log_delivered()?;
        self.graph.wait_durable(self.graph.next())
    }

    /// Up to where results are not found again for those who follow the query, and what was noted with it.
    pub fn followed(&self) -> Option<(Tick, Position)> {
        self.delivered(FOLLOWED)
    }

    /// Those who follow the query may ask for the results of a tick and later ones, also after a crash, once that is in the log
    /// (`log_noted`). `rows` as in `set_delivered`.
    pub fn keep_followed(&self, from: Tick, note: Position, rows: bool) {
        self.set_delivered(FOLLOWED, from, note, rows);
    }

    /// Nobody follows the query any more.
    pub fn end_followed(&self) {
        self.remove_output(FOLLOWED);
    }

    pub fn remove_output(&self, output: &str) {
        if lock(&self.state.delivered).remove(output).is_some() {
            self.graph.committer().note_delivered(Delivered::gone(self.id, output.into()));
            self.forget_begin();
        }
    }

    /// Has the next entry take along how far all outputs have delivered.
    fn log_frontiers(&self) {
        self.graph.committer().note_looked_up(|| self.state.delivered_of(self.id));
    }

    fn log_frontier(&self, output: &str) {
        self.graph.committer().note_looked_up(|| {
            let (tick, position) = self.delivered(output)?;
            Some(Delivered { query: self.id, output: output.into(), tick, position })
        });
    }
}

/// Up to where all outputs have delivered, without those who follow the query.
fn least_by_outputs(delivered: &FxHashMap<Text, (Tick, Position)>) -> Option<Tick> {
    delivered.iter().filter(|(output, _)| output.as_str() != FOLLOWED).map(|(_, (tick, _))| *tick).min()
}

fn begun_at(query: QueryId, tick: Tick) -> Delivered {
    Delivered { query, output: Text::new(BEGUN), tick, position: Position::default() }
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{StandingMode, compile_standing};
    use weir_model::lock::try_lock;
    use weir_model::{NodeId, Value};

    use super::*;
    use crate::render::{ResultRow, Row};
    use crate::store::InMemory;
    use crate::{Engine, Options};

    /// One that nobody but the test looks after.
    fn install(outputs: &[&str]) -> (Engine, StandingQuery) {
        let engine = Engine::open(Arc::new(InMemory::new()), Options { workers: 1, ..Options::default() }).unwrap();
        let query = engine.default_graph().install(standing(7, Start::Now, outputs)).unwrap();
        (engine, query)
    }

    fn standing(number: u64, start: Start, outputs: &[&str]) -> Standing {
        let text = "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id";
        let plan = compile_standing(text, StandingMode::DistinctId, &Default::default()).expect("it compiles").plan;
        let outputs = outputs.iter().map(|output| Text::new(output)).collect();
        Standing { id: QueryId(NodeId::new(1, number)), plan, cancellations: false, start, outputs }
    }

    /// Whether something comes to its end while the graph is locked, and `waits` waits for that.
    fn goes_on_while_locked(graph: &Graph, waits: impl FnOnce() + Send, act: impl FnOnce() + Send) -> bool {
        let still = graph.committer().hold_still();
        std::thread::scope(|scope| {
            scope.spawn(waits);
            // It should have come to where it waits.
            std::thread::sleep(Duration::from_millis(50));
            let acting = scope.spawn(act);
            let begun = Instant::now();
            while !acting.is_finished() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let goes_on = acting.is_finished();
            drop(still);
            goes_on
        })
    }

    /// A query may have the graph locked for minutes. Whoever reports what an output has delivered has the lane of that locked,
    /// and the thread that takes results of all graphs to their outputs waits for that.
    #[test]
    fn what_is_delivered_while_a_query_has_the_graph_locked_is_noted_at_once_and_logged_later() {
        let (engine, query) = install(&["file", "gone"]);
        let graph = engine.default_graph();
        let (before, upper) = (graph.next(), graph.next().next());
        let deliver = || {
            query.set_delivered("file", upper, Position::default(), true);
            query.remove_output("gone");
        };
        assert!(goes_on_while_locked(&graph, || (), deliver));
        assert_eq!((graph.next(), query.delivered("file")), (before, Some((upper, Position::default()))));
        graph.committer().log_delivered().unwrap();
        assert!(graph.next() > before, "it is in the log");
        let logged = graph.next();
        graph.committer().log_delivered().unwrap();
        assert_eq!(graph.next(), logged, "once is enough");
        engine.shutdown().unwrap();
    }

    /// They were lost with the error.
    #[test]
    fn results_that_pass_while_the_log_has_no_room_are_in_the_sum_and_logged_later() {
        let (engine, _query) = install(&["file"]);
        let graph = engine.default_graph();
        let query = graph.install(standing(8, Start::Summed, &[])).unwrap();
        graph.committer().log_delivered().unwrap();
        let before = graph.next();
        // Of what was there when it was installed.
        let row = ResultRow { tick: Tick::ZERO, positive: true, row: Row::from_slice(&[Value::Integer(1)]) };
        let mut batch = ResultBatch { upper: Tick(1), columns: [].into(), rows: vec![row], found: None };
        let full = graph.parts().log.full();
        query.pass(&mut batch).unwrap();
        assert!(batch.rows.is_empty() && graph.next() == before);
        drop(full);
        graph.committer().log_delivered().unwrap();
        assert!(graph.next() > before, "it is in the log");
        engine.shutdown().unwrap();
    }

    /// Status pages look at it, and checkpoints; results pass through it.
    #[test]
    fn who_waits_for_the_graph_to_pause_resume_or_propagate_holds_up_nobody() {
        let (engine, query) = install(&["file"]);
        let graph = engine.default_graph();
        let next = graph.install(standing(8, Start::Summed, &[])).unwrap();
        let look = || {
            for query in [&query, &next] {
                let _ = (query.paused(), query.holds(), query.needs_from(), query.is_summed());
                // One that has not come as far as the installation, so what was there then may still come, and be asked for.
                let upper = Tick::ZERO;
                let mut batch = ResultBatch { upper, columns: [].into(), rows: Vec::new(), found: None };
                query.pass(&mut batch).unwrap();
            }
            let _ = (graph.delivered(), graph.needs_from());
        };
        assert!(goes_on_while_locked(&graph, || assert!(query.propagate().unwrap()), look), "propagate");
        assert!(goes_on_while_locked(&graph, || assert!(query.pause().unwrap()), look), "pause");
        assert!(query.paused().is_some() && !query.pause().unwrap());
        assert!(goes_on_while_locked(&graph, || assert!(query.end_pause().unwrap()), look), "end of a pause");
        assert!(query.paused().is_none() && !query.end_pause().unwrap());
        let begins = AtomicBool::new(false);
        let switch = || {
            let first = next.end_pause_marking(&query, || begins.store(true, Ordering::SeqCst)).unwrap();
            assert_eq!(first.next(), graph.next());
        };
        let look_again = || {
            look();
            assert!(!begins.load(Ordering::SeqCst), "the results of the other are held back for as long as it waits");
        };
        assert!(goes_on_while_locked(&graph, switch, look_again), "switch to another");
        assert!(begins.load(Ordering::SeqCst));
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_graph_that_nothing_was_written_to_is_not_looked_through() {
        let (engine, query) = install(&[]);
        let graph = engine.default_graph();
        graph.apply(Mutations::default(), 1).unwrap();
        let next = graph.install(standing(8, Start::Now, &[])).unwrap();
        for query in [&query, &next] {
            let begun = Instant::now();
            while query.backfill().is_some() {
                assert!(begun.elapsed() < Duration::from_secs(20), "it looks through a graph without nodes");
                std::thread::sleep(Duration::from_millis(1));
            }
            // As where that takes long.
            query.state.backfill.done.store(false, Ordering::SeqCst);
        }
        assert!(query.backfill().is_some() && !query.looks_through_rest());
        assert!(next.looks_through_rest());
        engine.shutdown().unwrap();
    }

    #[test]
    fn what_is_held_ends_while_a_query_has_the_graph_locked() {
        let (engine, query) = install(&[]);
        let graph = engine.default_graph();
        let upper = Tick(graph.next().0 + 20);
        let pass = || {
            let mut batch = ResultBatch { upper, columns: [].into(), rows: Vec::new(), found: None };
            query.pass(&mut batch).unwrap();
        };
        assert!(goes_on_while_locked(&graph, || (), pass));
        assert!(!query.holds(), "there was nothing to be held");
        engine.shutdown().unwrap();
    }

    #[test]
    fn who_waits_for_results_to_be_durable_is_roused() {
        let (engine, query) = install(&[]);
        // What never becomes durable.
        let upper = Tick(engine.default_graph().next().0 + 1_000);
        *query.undurable() = Some(ResultBatch { upper, columns: [].into(), rows: Vec::new(), found: None });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(ROUSED_LOOK * 2);
                query.rouse();
            });
            assert!(matches!(query.next(Duration::from_secs(1)), Ok(None)));
        });
        assert!(query.undurable().is_some(), "it comes before all behind it");
        engine.shutdown().unwrap();
    }

    #[test]
    fn an_output_that_is_gone_is_not_noted_by_whoever_was_about_to() {
        let (engine, query) = install(&["file"]);
        let graph = engine.default_graph();
        let (query, before, upper) = (&query, graph.next(), graph.next().next());
        std::thread::scope(|scope| {
            // Nobody notes anything meanwhile.
            graph.committer().note_looked_up(|| {
                scope.spawn(move || query.set_delivered("file", upper, Position::default(), true));
                while query.delivered("file").is_none_or(|(tick, _)| tick != upper) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(50));
                lock(&query.state.delivered).clear();
                Vec::new()
            });
        });
        graph.committer().log_delivered().unwrap();
        assert_eq!(graph.next(), before, "there was nothing to be noted");
        engine.shutdown().unwrap();
    }

    #[test]
    fn a_checkpoint_has_a_pause_and_what_was_asked_for_in_it_of_one_moment() {
        let (engine, query) = install(&[]);
        query.pause().unwrap();
        let (graph, state) = (engine.default_graph(), query.state());
        std::thread::scope(|scope| {
            let held = state.held();
            let looking = scope.spawn(|| graph.delivered().len());
            let begun = Instant::now();
            while try_lock(&state.pauses).is_some() {
                assert!(begun.elapsed() < Duration::from_secs(10), "the pause may end before it is looked what is held");
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(held);
            assert_eq!(looking.join().unwrap(), 2, "it has both");
        });
        engine.shutdown().unwrap();
    }

    /// The end of weir took what was being looked through for delivered.
    #[test]
    fn results_wait_until_whoever_asks_has_them() {
        let (engine, query) = install(&[]);
        query.pause().unwrap();
        let state = query.state();
        state.inbox.put(1, || ());
        let rows = vec![ResultRow { tick: Tick::ZERO, positive: true, row: Row::from_slice(&[Value::Integer(1)]) }];
        let batch = ResultBatch { upper: Tick::ZERO, columns: [].into(), rows, found: None };
        std::thread::scope(|scope| {
            let held = state.held();
            let handing = scope.spawn(|| query.hand_over(batch, DURABLE_PATIENCE).map(drop));
            let begun = Instant::now();
            while try_lock(&state.pauses).is_some() {
                assert!(begun.elapsed() < Duration::from_secs(10), "the batch does not come to the pauses");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(query.waiting(), 1);
            drop(held);
            handing.join().unwrap().unwrap();
            assert_eq!(query.waiting(), 0);
        });
        engine.shutdown().unwrap();
    }

    #[test]
    fn what_is_held_is_kept_no_later_than_an_output_that_has_just_come() {
        let (engine, query) = install(&[]);
        let from = engine.default_graph().next();
        let state = query.state();
        std::thread::scope(|scope| {
            let mut held = state.held();
            scope.spawn(|| state.needs_from());
            std::thread::sleep(Duration::from_millis(50));
            lock(&state.delivered).insert("file".into(), (from, Position::default()));
            let upper = Tick(from.0 + 20);
            held.pass(&mut ResultBatch { upper, columns: [].into(), rows: Vec::new(), found: None }, false);
        });
        assert!(state.held().kept_from() <= Some(from), "{:?}", state.held().kept_from());
        assert!(state.needs_from().is_some());
        engine.shutdown().unwrap();
    }
}
