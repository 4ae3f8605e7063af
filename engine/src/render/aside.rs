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
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use weir_model::lock::lock;

use super::Time;
use super::health::{Health, WAITING_EVER_MAX, WAITING_FIRST_MAX, WAITING_MAX};
use super::maintained::TOUCHED;
use super::results::{Answer, Outlet, RowChange};
use super::stages::{Input, Stages, Turned};
use crate::memory::{holds_graph, is_over_limit};
use crate::scheduling;

/// How long a thread works for one query before the others have their turn.
const SLICE: Duration = Duration::from_millis(2);

/// A query with a tick that takes longer has a thread of its own.
const LONG: Duration = Duration::from_millis(20);

/// How long a query waits for one of the threads there are before there is one more.
const PATIENCE: Duration = Duration::from_millis(2);

/// A thread ends when there was nothing to do for this long.
const IDLE: Duration = Duration::from_secs(2);

/// Threads that queries share.
const THREADS_MAX: usize = 64;

/// The end of an engine waits at most this long for what threads are at.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The stages of one query, with what waits for them.
pub struct Aside {
    health: Arc<Health>,
    /// Open as long as the query is there, also one that has ended by itself.
    outlet: Outlet,
    pool: Arc<Asides>,
    mail: Mutex<Mail>,
    /// None once the query is over. Locked by the one thread that works for it, which so never waits here.
    work: Mutex<Option<Work>>,
    cancellations_until: AtomicU64,
    /// The first tick at which time alone changes the answer.
    next_turn: AtomicU64,
    /// Whether its last ticks took long, so that it is to have a thread of its own.
    is_slow: AtomicBool,
}

/// What workers hand over to the thread that works for the query.
struct Mail {
    /// Changes of complete ticks, in parts of which none has an earlier tick than the one before it.
    parts: Vec<Vec<RowChange>>,
    /// Everything before this has been handed over.
    frontier: Time,
    /// Whether a thread works for the query, or will.
    is_taken: bool,
}

/// What the thread that works for a query needs.
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
        let (health, outlet) = (stages.health().clone(), answer.outlet().clone());
        let cancellations_until = AtomicU64::new(answer.cancellations_until);
        Arc::new(Aside {
            health,
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
        let mut parts: Vec<Vec<RowChange>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let mut mail = lock(&self.mail);
        if self.health.is_over() {
            // Another worker may have ended it at a later tick since the caller looked. What is handed over here has no answer.
            let turn = Some(self.next_turn()).filter(|turn| *turn < frontier);
            parts.iter().flatten().map(|change| change.time).chain(turn).for_each(|time| self.health.ends_at(time));
            return;
        }
        // What the graph at rest has is handed over with a frontier that may be ahead of those who apply what came meanwhile.
        let frontier = frontier.max(mail.frontier);
        mail.frontier = frontier;
        if !mail.is_taken {
            self.dismiss(&mut parts);
            let first = parts.iter().flatten().map(|change| change.time).chain([self.next_turn()]).min();
            let Some(first) = first.filter(|first| *first < frontier) else { return };
            self.health.behind.store(first, Ordering::SeqCst);
        }
        let count = parts.iter().map(Vec::len).sum();
        let waiting = self.health.waiting.fetch_add(count, Ordering::Relaxed) + count;
        // While the graph is looked through, others wait only a little for it, so more may have come: memory bounds that.
        if waiting > WAITING_EVER_MAX && (self.outlet.backfill.done.load(Ordering::Relaxed) || is_over_limit()) {
            self.health.fail(&format!("more than {WAITING_EVER_MAX} changes waited for it"));
        }
        mail.parts.extend(parts);
        if !std::mem::replace(&mut mail.is_taken, true) {
            drop(mail);
            self.pool.push(self.clone());
        }
    }

    /// Takes out what was touched that no row has looked at: of most changes of a graph that is most queries.
    ///
    /// This is exact, for nobody works for it: everything handed over before is answered, and what its rows have looked at is
    /// what they look at until something is handed over again, which happens here alone. All that there is before `frontier`
    /// has come, also from other workers. So up to the first tick at which it is concerned nothing changes; from that tick on
    /// its rows may look elsewhere, and it hears of everything, as it does while somebody works for it.
    fn dismiss(&self, parts: &mut Vec<Vec<RowChange>>) {
        // Whoever has worked for it may not have let go yet.
        let Ok(guard) = self.work.try_lock() else { return };
        let Some(work) = guard.as_ref() else { return };
        let mut first = self.next_turn();
        for change in parts.iter().flatten() {
            if change.time < first && (change.source != TOUCHED || work.stages.hears(&change.row)) {
                first = change.time;
            }
        }
        drop(guard);
        parts.iter_mut().for_each(|part| part.retain(|change| change.time >= first));
        parts.retain(|part| !part.is_empty());
    }

    /// Whether it has to hear of `frontier`, though nothing has changed.
    pub fn awaits(&self, frontier: Time) -> bool {
        // In this order: one that has just finished says first what it waits for next.
        self.health.is_behind() || self.next_turn() < frontier
    }

    /// The first tick at which time alone changes the answer, of those it has not answered.
    pub fn next_turn(&self) -> Time {
        self.next_turn.load(Ordering::SeqCst)
    }

    /// The first tick that it may still look at; None while nothing waits.
    pub fn behind(&self) -> Option<Time> {
        Some(self.health.behind.load(Ordering::SeqCst)).filter(|_| self.health.is_behind())
    }

    /// Cancellations of ticks before this one are wanted.
    pub fn heed(&self, until: Time) {
        self.cancellations_until.store(until, Ordering::SeqCst);
    }

    /// Nothing more is wanted of it. What it keeps may be much: a thread lets go of it.
    pub fn end(self: &Arc<Self>) {
        self.health.over.store(true, Ordering::SeqCst);
        let mut mail = lock(&self.mail);
        if !std::mem::replace(&mut mail.is_taken, true) {
            drop(mail);
            self.pool.push(self.clone());
        }
    }

    /// As `work`. A bug in what one query does ends that query, and not the others.
    fn work_or_fail(&self) -> Left {
        catch_unwind(AssertUnwindSafe(|| self.work())).unwrap_or_else(|_| {
            self.health.fail("it met an error in weir itself, which the log shows; please report it");
            Left::More
        })
    }

    /// Answers some ticks, or lets go of everything when it is over.
    fn work(&self) -> Left {
        let mut guard = lock(&self.work);
        let begun = Instant::now();
        loop {
            let (Some(work), false) = (guard.as_mut(), self.health.is_over()) else {
                self.let_go(&mut guard);
                return Left::Nothing;
            };
            let Turned { changes, upper, taken } = match self.turn(work, begun) {
                Ok(turned) => turned,
                Err(reason) => {
                    // It is over now: the next round lets go of it.
                    self.health.fail(&reason);
                    continue;
                }
            };
            work.answer.answer(changes, upper);
            self.note_taken(work, taken);
            let is_done = self.note_answered(work, upper);
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

    /// Lets go of all that is kept for a query that is over.
    fn let_go(&self, work: &mut Option<Work>) {
        *work = None;
        let parts = std::mem::take(&mut lock(&self.mail).parts);
        drop(parts);
        self.health.waiting.store(0, Ordering::Relaxed);
        // Nobody waits for it.
        self.outlet.backfill.done.store(true, Ordering::SeqCst);
    }

    /// Works out the ticks that were handed over, as many as fit into the slice that has begun.
    fn turn(&self, work: &mut Work, begun: Instant) -> Result<Turned, String> {
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
        })?;
        self.is_slow.store(longest > LONG, Ordering::Relaxed);
        Ok(turned)
    }

    /// So many changes wait no longer.
    fn note_taken(&self, work: &mut Work, taken: usize) {
        let of_rest = taken.min(work.at_rest);
        work.at_rest -= of_rest;
        let taken = taken - of_rest;
        let waiting = self.health.waiting.fetch_sub(taken, Ordering::Relaxed) - taken;
        if waiting <= WAITING_MAX / 2 {
            *lock(&self.health.full_since) = None;
        }
    }

    /// Everything before `upper` has been answered. Says whether that is all there is to do.
    fn note_answered(&self, work: &Work, upper: Time) -> bool {
        let mut mail = lock(&self.mail);
        self.next_turn.store(work.stages.next_turn().unwrap_or(Time::MAX), Ordering::SeqCst);
        // One that has ended meanwhile is not done: what it keeps is let go of in the next round.
        let is_done = upper >= mail.frontier && mail.parts.is_empty() && !self.health.is_over();
        self.health.behind.store(if is_done { Time::MAX } else { upper }, Ordering::SeqCst);
        mail.is_taken = !is_done;
        is_done
    }
}

/// The threads of an engine that work for stages. There are none while there is nothing to do.
pub struct Asides {
    /// Changes that wait until the graph is looked through for their query, of all that are being installed.
    pub(super) behind: Arc<AtomicUsize>,
    state: Mutex<State>,
    changed: Condvar,
    /// At most this many threads work at a time, unless some queries take long.
    at_once: usize,
}

#[derive(Default)]
struct State {
    /// The queries that wait, and since when each does.
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

    /// Has somebody work for a query soon. To be called by threads that do not step back: those it starts are of their kind.
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

    /// Sees to it that at least one thread waits for work.
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
    use crate::render::results::{Baseline, Gather, Reported, Rested};
    use crate::render::stages::looks::Touch;
    use crate::render::stages::tests::{LOOKS, found, started, touched};
    use crate::symbols::Symbols;

    /// Nobody works for it, or is about to let go.
    fn settle(aside: &Aside) {
        while lock(&aside.mail).is_taken || aside.work.try_lock().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The graph at rest may be looked through before those are told who apply what came meanwhile. What they hand over then is
    /// before the beginning, and must not make it look as if there were nothing to answer.
    #[test]
    fn what_is_complete_does_not_become_less() {
        let (symbols, pool) = (Arc::new(Symbols::default()), Arc::new(Asides::new(1)));
        let (maintained, stages) = started(LOOKS, &symbols);
        let health = stages.health().clone();
        let reported = Reported { cancellations_until: Time::MAX, baseline: Baseline::Known, installed: 1 };
        let outlet = Outlet { results: None, inbox: Arc::default(), backfill: Arc::default() };
        let gather = Gather::new(&maintained, health, Some((stages, pool.clone())), reported, outlet);
        let aside = gather.aside().expect("it has stages").clone();
        // As if somebody worked for it.
        lock(&aside.mail).is_taken = true;
        aside.hand_over([], 5);
        aside.hand_over([], 2);
        assert_eq!(lock(&aside.mail).frontier, 5);
        lock(&aside.mail).is_taken = false;
        drop(gather);
        pool.stop();
    }

    #[test]
    fn what_no_row_has_looked_at_is_not_handed_over_until_one_may() {
        let (symbols, pool) = (Arc::new(Symbols::default()), Arc::new(Asides::new(1)));
        let (maintained, stages) = started(LOOKS, &symbols);
        let health = stages.health().clone();
        let reported = Reported { cancellations_until: Time::MAX, baseline: Baseline::Known, installed: 1 };
        let outlet = Outlet { results: None, inbox: Arc::default(), backfill: Arc::default() };
        let mut gather = Gather::new(&maintained, health, Some((stages, pool.clone())), reported, outlet);
        let aside = gather.aside().expect("it has stages").clone();
        while gather.rested(2) != Rested::Yes {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (node, kind) = (NodeId::new(1, 1), symbols.intern("P"));
        let stranger = |time: Time| touched(NodeId::new(time, time), &[Touch::Own, Touch::Edges(kind)], time);
        let strangers = |ticks: std::ops::Range<Time>| ticks.flat_map(stranger).collect::<Vec<_>>();
        let left = |changes: Vec<RowChange>| -> Vec<Time> {
            settle(&aside);
            let mut parts = vec![changes];
            aside.dismiss(&mut parts);
            parts.into_iter().flatten().map(|change| change.time).collect()
        };
        // Before there is a row nobody looks anywhere; from the tick of one on it may look anywhere.
        assert!(left([touched(node, &[Touch::Edges(kind)], 2), strangers(3..9)].concat()).is_empty());
        let row = found(&maintained, node, 3);
        assert_eq!(left([strangers(2..5), vec![row.clone()]].concat()), [3, 3, 4, 4, 3]);
        settle(&aside);
        gather.push(&mut vec![row]);
        gather.advance(4);
        settle(&aside);
        // It has looked at the edges of its node, and at nothing else.
        gather.push(&mut strangers(4..1000));
        gather.advance(1000);
        assert_eq!((aside.behind(), aside.health.waiting(), lock(&aside.mail).frontier), (None, 0, 1000));
        let concerned = touched(node, &[Touch::Edges(kind)], 1010);
        assert_eq!(left([strangers(1000..1012), concerned].concat()), [1010, 1010, 1011, 1011, 1010]);
        drop(gather);
        pool.stop();
    }
}
