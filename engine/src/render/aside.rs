//! Aside: the stages of queries at work beside the workers.
//!
//!     worker ─ changes of complete ticks ─> Mail ─ a thread, some ticks at a time ─> results
//!
//! What a stage costs is up to the query: what is asked row by row may visit the whole graph, and a product has as many rows as
//! one likes. So a worker hands complete ticks over and goes on, and the threads here take them up, one query after another. One
//! that takes long has a thread of its own, which steps back behind the others. What waits for a query is bounded: one that falls
//! back too far ends with a reason that its status shows, and the graph and the other queries go on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::lock::lock;
use weir_model::{Failure, IdScheme, NodeId, QueryId, Text, Tick, Value};

use super::Time;
use super::results::{Answer, Outlet, Row, RowChange};
use super::stages::{Input, Stages};
use crate::memory::{at_most, holds_graph, is_over_limit};
use crate::scheduling;

/// How long a thread works for one query before the others have their turn.
const SLICE: Duration = Duration::from_millis(2);

/// A query with a tick that takes longer has a thread of its own.
const LONG: Duration = Duration::from_millis(20);

/// How long a query waits for one of the threads there are before there is one more.
const PATIENCE: Duration = Duration::from_millis(2);

/// A thread ends when there was nothing to do for so long.
const IDLE: Duration = Duration::from_secs(2);

/// Threads that queries share.
const THREADS_MAX: usize = 64;

/// Whoever writes waits a little while a query has more changes waiting than this.
const WAITING_MAX: usize = 1 << 16;

/// The same while it looks through the graph as it was when it was installed.
const WAITING_FIRST_MAX: usize = 1 << 20;

/// A query ends that has more waiting than this, whatever the reason.
const WAITING_EVER_MAX: usize = 1 << 22;

/// And one to which the graph has more to give when it is installed, where memory is large.
const AT_REST_BYTES_MAX: usize = 1 << 30;
const PARTS_OF_MEMORY: u64 = 16;

/// So long others wait a little for one query; if it has not caught up by half then, it ends.
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// How often it is told at most of rows that are left out, and of a pattern that keeps a worker busy.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// As much of a row as is told.
const SHOWN_MAX: usize = 300;

/// Of rows that are left out, so often one is noted.
const NOTE_INTERVAL: Duration = Duration::from_millis(100);

/// The end of an engine waits so long for what threads are at.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How often a query has ended by itself, of all graphs.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Another number when a query has ended by itself, of whatever graph: thousands need not be asked each time.
pub fn ended() -> usize {
    ENDED.load(Ordering::SeqCst)
}

/// How far the stages of a query are, as all see it.
pub struct Pace {
    query: QueryId,
    /// What people call it; empty where it has no name.
    name: Text,
    text: Text,
    ids: IdScheme,
    /// Of what the query was handed, everything before this has been answered; `Time::MAX` while nothing waits.
    behind: AtomicU64,
    /// Changes that wait.
    waiting: AtomicUsize,
    /// So many may wait until the graph is looked through.
    first_max: usize,
    /// Those that do, of all queries.
    behind_of_all: Arc<AtomicUsize>,
    /// Nothing more is wanted of it.
    over: AtomicBool,
    /// Of one that has ended by itself, the first tick that has no answer.
    ended_at: AtomicU64,
    /// Since when more wait than should.
    full_since: Mutex<Option<Instant>>,
    /// Whether somebody is told what is left out.
    is_told: bool,
    left_out: Mutex<LeftOut>,
    /// When it was told last that its pattern keeps a worker busy.
    busy_told: Mutex<Option<Instant>>,
    failure: OnceLock<String>,
}

/// Rows for which something could not be worked out: because it has no value, such as a division by zero, or not within bounds.
#[derive(Clone, Default, Debug)]
pub struct LeftOut {
    /// How often one was, since the query runs here: each time it is looked at. Nothing is taken off again when it goes, or has a
    /// value.
    pub rows: u64,
    /// One of the last, and why.
    pub last: String,
    noted: Option<Instant>,
    told: Option<Instant>,
}

impl Pace {
    pub fn new(query: QueryId, text: Text, ids: IdScheme) -> Pace {
        Pace {
            query,
            name: Text::default(),
            text,
            ids,
            behind: AtomicU64::new(Time::MAX),
            waiting: AtomicUsize::new(0),
            first_max: WAITING_FIRST_MAX,
            behind_of_all: Arc::default(),
            over: AtomicBool::new(false),
            ended_at: AtomicU64::new(Time::MAX),
            full_since: Mutex::default(),
            is_told: true,
            left_out: Mutex::default(),
            busy_told: Mutex::default(),
            failure: OnceLock::new(),
        }
    }

    pub fn named(self, name: &str) -> Pace {
        Pace { name: name.into(), ..self }
    }

    /// Of one among others. What comes of patterns without stages is soon caught up with: there as many wait as memory is made
    /// for.
    pub fn among(self, others: &Asides, is_staged: bool) -> Pace {
        let first_max = if is_staged { WAITING_FIRST_MAX } else { most_at_rest() };
        Pace { first_max, behind_of_all: others.behind.clone(), ..self }
    }

    /// Of who works something out for a moment. What is left out is told to nobody.
    pub fn of_nobody(ids: IdScheme) -> Pace {
        Pace { is_told: false, ..Pace::new(QueryId(NodeId::default()), Text::default(), ids) }
    }

    /// How far the query is, where its worker has handed over everything before `upper`.
    pub fn answered(&self, upper: Tick) -> Tick {
        upper.min(Tick(self.behind.load(Ordering::SeqCst))).min(Tick(self.ended_at.load(Ordering::SeqCst)))
    }

    /// Set as soon as nobody wants more of it.
    pub fn over(&self) -> &AtomicBool {
        &self.over
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What the log calls it.
    pub fn called(&self) -> String {
        if self.name.as_str().is_empty() { self.query.0.to_string() } else { self.name.as_str().to_owned() }
    }

    pub fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Its pattern keeps a worker busy: whether that is to be told now. All workers ask.
    pub fn may_tell_busy(&self) -> bool {
        let (mut told, now) = (lock(&self.busy_told), Instant::now());
        let is_due = told.is_none_or(|told| now - told > TELL_INTERVAL);
        if is_due {
            *told = Some(now);
        }
        is_due
    }

    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::SeqCst) != Time::MAX && !self.is_over()
    }

    /// Why the query has ended by itself.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    pub fn left_out(&self) -> Option<LeftOut> {
        Some(lock(&self.left_out).clone()).filter(|left_out| left_out.rows > 0)
    }

    /// The tick up to which everything is answered, and how many changes wait, where some do.
    pub fn falls_behind(&self) -> Option<(Tick, usize)> {
        self.is_behind().then(|| (Tick(self.behind.load(Ordering::SeqCst)), self.waiting()))
    }

    /// Changes of rows that it has not taken in.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Changes wait until the graph as it was is looked through.
    pub fn fell_behind(&self, changes: usize) {
        self.waiting.fetch_add(changes, Ordering::Relaxed);
        self.behind_of_all.fetch_add(changes, Ordering::Relaxed);
    }

    /// They wait no more, or are handed over and counted there.
    pub fn caught_up(&self, changes: usize) {
        self.waiting.fetch_sub(changes, Ordering::Relaxed);
        self.behind_of_all.fetch_sub(changes, Ordering::Relaxed);
    }

    /// Whether others should wait a little for it. For ever they do not: then the query ends.
    pub fn holds_up(&self, looks_through: bool) -> bool {
        let waiting = self.waiting();
        if waiting <= if looks_through { self.first_max } else { WAITING_MAX } || self.is_over() {
            return false;
        }
        if looks_through {
            // Its time begins when that is done.
            *lock(&self.full_since) = None;
            return true;
        }
        let since = *lock(&self.full_since).get_or_insert_with(Instant::now);
        if since.elapsed() > BEHIND_MAX {
            let seconds = BEHIND_MAX.as_secs();
            self.fail(&format!("for {seconds} s it had more than {WAITING_MAX} changes waiting; it takes longer than they come"));
        }
        !self.is_over()
    }

    /// Ends the query if more changes wait than it may have whose tick is not complete.
    pub fn bound(&self, changes: usize, at_rest: bool) {
        let most = if at_rest { most_at_rest() } else { WAITING_EVER_MAX };
        if changes > most && !self.is_over() {
            self.fail(&format!("more than {most} changes of one moment waited for it"));
        }
    }

    /// Ends the query if very many changes wait until the graph is looked through, and memory has no room for them: others only
    /// wait a little for it, so more and more may come for as long as that takes.
    pub fn bound_behind(&self, is_over_limit: impl FnOnce() -> bool) {
        let waiting = self.waiting();
        if waiting > WAITING_FIRST_MAX && !self.is_over() && is_over_limit() {
            self.fail(&format!("{waiting} changes waited until the graph was looked through, and memory.limit is reached"));
        }
    }

    /// From this tick on, or from an earlier one, a query that has ended answers nothing.
    pub fn ends_at(&self, time: Time) {
        self.ended_at.fetch_min(time, Ordering::SeqCst);
    }

    /// Ends the query. What it had answered stays, and nothing of what it had not is lost: after a restart it is found again.
    pub fn fail(&self, reason: &str) {
        let reason = format!(
            "{reason}. The query has ended, everything else goes on; delete it and create one that costs less (narrow its pattern, bound its chains, anchor what it looks for)"
        );
        if self.failure.set(reason.clone()).is_ok() {
            let called = self.called();
            tracing::error!(query = called.as_str(), text = self.text.as_str(), "a standing query has ended: {reason}");
        }
        self.over.store(true, Ordering::SeqCst);
        ENDED.fetch_add(1, Ordering::SeqCst);
    }

    /// `row`: where it is at hand.
    pub fn leave_out(&self, row: Option<&Row>, failure: &Failure) {
        self.leave_all_out(1, row, failure);
    }

    /// The same of so many rows that belong to a row.
    pub fn leave_all_out(&self, times: u64, row: Option<&Row>, failure: &Failure) {
        if failure.kind == FailureKind::Interrupted || !self.is_told {
            return;
        }
        let (mut left_out, now) = (lock(&self.left_out), Instant::now());
        left_out.rows += times;
        // There may be many, and nobody looks at each.
        if left_out.noted.is_some_and(|noted| now - noted < NOTE_INTERVAL) {
            return;
        }
        left_out.noted = Some(now);
        left_out.last = match row {
            Some(row) => format!("({}): {failure}", self.shown(row)),
            None => failure.to_string(),
        };
        if left_out.told.is_none_or(|told| now - told > TELL_INTERVAL) {
            left_out.told = Some(now);
            let (rows, last, called) = (left_out.rows, &left_out.last, self.called());
            let advice = match failure.kind {
                FailureKind::TimeLimit | FailureKind::MemoryLimit => "narrow its pattern, or bound its chains",
                _ => "where that may happen, let a condition before it, or CASE, keep such values away from it",
            };
            tracing::warn!(
                query = called.as_str(),
                text = self.text.as_str(),
                "a standing query leaves out what belongs to a row: {last}. That makes {rows} so far; {advice}"
            );
        }
    }

    fn shown(&self, row: &Row) -> String {
        let values = row.0.iter().map(|value| match value {
            Value::Node(id) => self.ids.text(*id),
            value => value.shown(),
        });
        values.collect::<Vec<_>>().join(", ").chars().take(SHOWN_MAX).collect()
    }
}

/// So many changes of the graph at rest, or while it is looked through, may wait.
fn most_at_rest() -> usize {
    (at_most(AT_REST_BYTES_MAX, PARTS_OF_MEMORY) / size_of::<RowChange>()).max(WAITING_EVER_MAX)
}

/// The stages of one query, with what waits for them.
pub struct Aside {
    pace: Arc<Pace>,
    /// Open as long as the query is there, also one that has ended by itself.
    outlet: Outlet,
    pool: Arc<Asides>,
    mail: Mutex<Mail>,
    /// Gone once it is over. Only the thread whose turn it is waits for nobody here.
    work: Mutex<Option<Work>>,
    cancellations_until: AtomicU64,
    /// The first tick at which time alone changes the answer.
    next_turn: AtomicU64,
    is_slow: AtomicBool,
}

struct Mail {
    parts: Vec<Vec<RowChange>>,
    /// Everything before this has been handed over.
    frontier: Time,
    /// A thread has it, or will.
    is_taken: bool,
}

struct Work {
    stages: Stages,
    answer: Answer,
    input: Input,
    /// What the graph at rest has, and what changed while it was looked through, lies before this.
    first_until: Time,
    /// Rows of the graph at rest that are left. They are not among those that wait, for which others wait a little.
    at_rest: usize,
}

/// What is left to do for a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    More,
}

impl Aside {
    pub fn new(stages: Stages, answer: Answer, pool: Arc<Asides>) -> Arc<Aside> {
        let (pace, outlet) = (stages.pace().clone(), answer.outlet().clone());
        let cancellations_until = AtomicU64::new(answer.cancellations_until);
        Arc::new(Aside {
            pace,
            outlet,
            pool,
            mail: Mutex::new(Mail { parts: Vec::new(), frontier: 0, is_taken: false }),
            work: Mutex::new(Some(Work { stages, answer, input: Input::default(), first_until: Time::MAX, at_rest: 0 })),
            cancellations_until,
            next_turn: AtomicU64::new(Time::MAX),
            // What the graph at rest has takes as long as it takes.
            is_slow: AtomicBool::new(true),
        })
    }

    /// The graph at rest, and what changed meanwhile before `frontier`.
    pub fn begin(
        self: &Arc<Self>,
        mut at_rest: Vec<Vec<RowChange>>,
        meanwhile: impl IntoIterator<Item = Vec<RowChange>>,
        frontier: Time,
    ) {
        if let Some(work) = lock(&self.work).as_mut() {
            work.first_until = frontier;
            work.at_rest = at_rest.iter().map(Vec::len).sum();
            work.input.extend(&mut at_rest);
        }
        // Also where there is nothing: nothing has an answer, too.
        self.next_turn.store(0, Ordering::SeqCst);
        self.hand_over(meanwhile, frontier);
    }

    /// Takes over changes of complete ticks; there are no others before `frontier`.
    pub fn hand_over(self: &Arc<Self>, parts: impl IntoIterator<Item = Vec<RowChange>>, frontier: Time) {
        let parts: Vec<Vec<RowChange>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let mut mail = lock(&self.mail);
        if self.pace.is_over() {
            // Another worker may have ended it at a later tick since the caller looked. What is handed over here has no answer.
            let turn = Some(self.next_turn()).filter(|turn| *turn < frontier);
            parts.iter().flatten().map(|change| change.time).chain(turn).for_each(|time| self.pace.ends_at(time));
            return;
        }
        mail.frontier = frontier;
        if !mail.is_taken {
            let first = parts.iter().flatten().map(|change| change.time).chain([self.next_turn()]).min();
            let Some(first) = first.filter(|first| *first < frontier) else { return };
            self.pace.behind.store(first, Ordering::SeqCst);
        }
        let count = parts.iter().map(Vec::len).sum();
        let waiting = self.pace.waiting.fetch_add(count, Ordering::Relaxed) + count;
        // As the graph is looked through, others have waited a little for it, and more may have come nevertheless: memory bounds
        // that.
        if waiting > WAITING_EVER_MAX && (self.outlet.backfill.done.load(Ordering::Relaxed) || is_over_limit()) {
            self.pace.fail(&format!("more than {WAITING_EVER_MAX} changes waited for it"));
        }
        mail.parts.extend(parts);
        if !std::mem::replace(&mut mail.is_taken, true) {
            drop(mail);
            self.pool.push(self.clone());
        }
    }

    /// Whether it has to hear of `frontier`, though nothing has changed.
    pub fn awaits(&self, frontier: Time) -> bool {
        // In this order: one that has just finished says first what it waits for next.
        self.pace.is_behind() || self.next_turn() < frontier
    }

    /// The first tick at which time alone changes the answer, of those it has not answered.
    pub fn next_turn(&self) -> Time {
        self.next_turn.load(Ordering::SeqCst)
    }

    /// The first tick that it may still look at; None while nothing waits.
    pub fn behind(&self) -> Option<Time> {
        Some(self.pace.behind.load(Ordering::SeqCst)).filter(|_| self.pace.is_behind())
    }

    /// Cancellations of ticks before this one are wanted.
    pub fn heed(&self, until: Time) {
        self.cancellations_until.store(until, Ordering::SeqCst);
    }

    /// Nothing more is wanted of it. What it keeps may be much: a thread lets go of it.
    pub fn end(self: &Arc<Self>) {
        self.pace.over.store(true, Ordering::SeqCst);
        let mut mail = lock(&self.mail);
        if !std::mem::replace(&mut mail.is_taken, true) {
            drop(mail);
            self.pool.push(self.clone());
        }
    }

    /// A bug in what one query does is no reason to end the others.
    fn work_or_fail(&self) -> Left {
        catch_unwind(AssertUnwindSafe(|| self.work())).unwrap_or_else(|_| {
            self.pace.fail("it met an error in weir itself, which the log shows; please report it");
            Left::More
        })
    }

    /// Answers some ticks, or lets go of everything when it is over.
    fn work(&self) -> Left {
        let mut guard = lock(&self.work);
        let begun = Instant::now();
        loop {
            let (Some(work), false) = (guard.as_mut(), self.pace.is_over()) else {
                *guard = None;
                let parts = std::mem::take(&mut lock(&self.mail).parts);
                drop(parts);
                self.pace.waiting.store(0, Ordering::Relaxed);
                // Nobody waits for it.
                self.outlet.backfill.done.store(true, Ordering::SeqCst);
                return Left::Nothing;
            };
            let frontier = {
                let mut mail = lock(&self.mail);
                work.input.extend(&mut mail.parts);
                mail.frontier
            };
            work.answer.cancellations_until = self.cancellations_until.load(Ordering::SeqCst);
            let (mut since, mut longest) = (begun, Duration::ZERO);
            let turned = work.stages.turn(&mut work.input, frontier, &mut || {
                let now = Instant::now();
                longest = longest.max(now - since);
                since = now;
                now - begun >= SLICE
            });
            let turned = match turned {
                Ok(turned) => turned,
                Err(reason) => {
                    self.pace.fail(&reason);
                    continue;
                }
            };
            self.is_slow.store(longest > LONG, Ordering::Relaxed);
            let upper = turned.upper;
            work.answer.answer(turned.changes, upper);
            let of_rest = turned.taken.min(work.at_rest);
            work.at_rest -= of_rest;
            let taken = turned.taken - of_rest;
            let waiting = self.pace.waiting.fetch_sub(taken, Ordering::Relaxed) - taken;
            if waiting <= WAITING_MAX / 2 {
                *lock(&self.pace.full_since) = None;
            }
            let mut mail = lock(&self.mail);
            self.next_turn.store(work.stages.next_turn().unwrap_or(Time::MAX), Ordering::SeqCst);
            // One that has ended meanwhile is not done: what it keeps is let go of here.
            let is_done = upper >= mail.frontier && mail.parts.is_empty() && !self.pace.is_over();
            self.pace.behind.store(if is_done { Time::MAX } else { upper }, Ordering::SeqCst);
            mail.is_taken = !is_done;
            drop(mail);
            if upper >= work.first_until {
                self.outlet.backfill.done.store(true, Ordering::SeqCst);
            }
            if is_done {
                return Left::Nothing;
            }
            if begun.elapsed() >= SLICE {
                return Left::More;
            }
        }
    }
}

/// The threads of an engine that work for stages. There are none while there is nothing to do.
pub struct Asides {
    /// Changes that wait until the graph is looked through for their query, of all that are being installed.
    behind: Arc<AtomicUsize>,
    state: Mutex<State>,
    changed: Condvar,
    /// So many work at a time, unless some take long.
    at_once: usize,
}

#[derive(Default)]
struct State {
    /// Since when each waits.
    queue: VecDeque<(Instant, Arc<Aside>)>,
    threads: usize,
    working: usize,
    /// Threads that one query has for itself.
    alone: usize,
    stopping: bool,
}

impl Asides {
    pub fn new(at_once: usize) -> Asides {
        Asides { behind: Arc::default(), state: Mutex::default(), changed: Condvar::new(), at_once }
    }

    /// Whether anything waits for stages, or may; or much waits until the graph is looked through.
    pub fn is_at_work(&self) -> bool {
        if self.behind.load(Ordering::Relaxed) > WAITING_FIRST_MAX {
            return true;
        }
        let state = lock(&self.state);
        state.threads + state.alone > 0 || !state.queue.is_empty()
    }

    /// Ends the threads. What they were at is left as it is.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopping = true;
        let left = std::mem::take(&mut state.queue);
        self.changed.notify_all();
        let is_left = |state: &mut State| state.threads + state.alone > 0;
        drop(self.changed.wait_timeout_while(state, STOP_PATIENCE, is_left));
        drop(left);
    }

    /// Somebody works for it soon. To be called by threads that do not step back: those that it starts are of their kind.
    fn push(self: &Arc<Self>, aside: Arc<Aside>) {
        let mut state = lock(&self.state);
        if state.stopping {
            return;
        }
        if aside.is_slow.load(Ordering::Relaxed)
            && self.start(&mut state, "stages alone", {
                let (pool, aside) = (self.clone(), aside.clone());
                move || pool.work_alone(&aside)
            })
        {
            state.alone += 1;
            return;
        }
        state.queue.push_back((Instant::now(), aside));
        self.see_to_threads(&mut state);
        drop(state);
        self.changed.notify_one();
    }

    /// One thread at least waits for work.
    fn see_to_threads(self: &Arc<Self>, state: &mut State) {
        let pool = self.clone();
        if state.threads == state.working && state.threads < THREADS_MAX && self.start(state, "stages", move || pool.work()) {
            state.threads += 1;
        }
    }

    fn start(&self, state: &mut State, name: &str, run: impl FnOnce() + Send + 'static) -> bool {
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        if let Err(error) = &started
            && state.threads == 0
        {
            tracing::error!("no thread could be started for standing queries, which wait: {error}");
        }
        started.is_ok()
    }

    fn work_alone(&self, aside: &Arc<Aside>) {
        scheduling::polite();
        holds_graph();
        while aside.work_or_fail() == Left::More {}
        lock(&self.state).alone -= 1;
        self.changed.notify_all();
    }

    fn work(self: &Arc<Self>) {
        holds_graph();
        while let Some(aside) = self.next() {
            let left = aside.work_or_fail();
            lock(&self.state).working -= 1;
            if left == Left::More {
                self.push(aside);
            }
        }
    }

    /// The query that waits longest; None when the thread is to end. Beyond those that work at a time one helps out only when
    /// others take long.
    fn next(self: &Arc<Self>) -> Option<Arc<Aside>> {
        let mut state = lock(&self.state);
        loop {
            let waited = state.queue.front().map(|(since, _)| since.elapsed());
            let patience = match waited {
                _ if state.stopping => break,
                Some(waited) if state.working < self.at_once || waited >= PATIENCE => {
                    let (_, aside) = state.queue.pop_front()?;
                    state.working += 1;
                    self.see_to_threads(&mut state);
                    return Some(aside);
                }
                Some(waited) => PATIENCE - waited,
                None => IDLE,
            };
            let (again, timeout) = self.changed.wait_timeout(state, patience).unwrap_or_else(|e| e.into_inner());
            state = again;
            if timeout.timed_out() && waited.is_none() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        self.changed.notify_all();
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_model::NodeId;

    use super::*;

    fn pace() -> Pace {
        Pace::new(QueryId(NodeId::new(1, 2)), "MATCH (n) RETURN n".into(), IdScheme::Uuid)
    }

    #[test]
    fn others_wait_for_a_query_that_is_behind_but_not_for_ever() {
        let pace = pace();
        pace.waiting.store(WAITING_MAX, Ordering::SeqCst);
        assert!(!pace.holds_up(false) && lock(&pace.full_since).is_none());
        pace.waiting.store(WAITING_MAX + 1, Ordering::SeqCst);
        assert!(pace.holds_up(false) && !pace.holds_up(true) && pace.failure().is_none());
        *lock(&pace.full_since) = Instant::now().checked_sub(BEHIND_MAX + Duration::from_secs(1));
        assert!(!pace.holds_up(true) && pace.failure().is_none(), "what is there at first may take its time");
        pace.waiting.store(WAITING_FIRST_MAX + 1, Ordering::SeqCst);
        assert!(pace.holds_up(true) && pace.holds_up(false) && pace.failure().is_none(), "what it is given begins afterwards");
        pace.waiting.store(WAITING_MAX + 1, Ordering::SeqCst);
        *lock(&pace.full_since) = Instant::now().checked_sub(BEHIND_MAX + Duration::from_secs(1));
        assert!(!pace.holds_up(false));
        assert!(pace.is_over() && pace.failure().is_some_and(|reason| reason.contains("65536 changes waiting")));
        pace.fail("and what comes after");
        assert!(pace.failure().is_some_and(|reason| reason.contains("65536 changes waiting")));
    }

    #[test]
    fn what_waits_until_the_graph_is_looked_through_is_bounded_by_memory() {
        let pace = pace();
        pace.fell_behind(WAITING_FIRST_MAX);
        pace.bound_behind(|| true);
        assert!(pace.failure().is_none(), "so many are few");
        pace.fell_behind(1);
        pace.bound_behind(|| false);
        assert!(pace.failure().is_none(), "there is room");
        pace.bound_behind(|| true);
        assert!(pace.is_over() && pace.failure().is_some_and(|reason| reason.contains("1048577 changes waited")));
    }

    #[test]
    fn one_that_is_behind_has_answered_no_more_than_it_has() {
        let pace = pace();
        assert_eq!(pace.answered(Tick(7)), Tick(7));
        pace.behind.store(5, Ordering::SeqCst);
        assert_eq!((pace.answered(Tick(7)), pace.answered(Tick(3))), (Tick(5), Tick(3)));
        pace.fail("it costs too much");
        assert_eq!(pace.answered(Tick(9)), Tick(5), "nothing of what it had not answered is passed over");
    }
}
