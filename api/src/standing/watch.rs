//! Watch: standing queries that have few results need no thread of their own. One looks after all of them.
//!
//!                                   is new ─> rests ── results ─> the watch is called ─┬ few ──> takes them to the outputs
//!     thread of the query ─ few for a while ─────┘│                                    └ many ─> thread of the query
//!                                                 └ now and then the watch tells the outputs how far the graph is

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender};
use weir_engine::StandingQuery;
use weir_model::crew;
use weir_model::lock::try_lock;

use super::{Query, WAIT, lock};
use crate::error::ApiError;
use crate::live::LiveState;

/// By graph and name.
pub type QueriesByName = Mutex<BTreeMap<(String, String), Arc<Query>>>;

/// The watch spends at most one part in this many of its time looking at the queries that rest, however many they are, unless it
/// would look less often than every `REST_MAX`.
const SHARE: u32 = 20;

/// The longest pause between two looks: whatever took the time may have been one query, or the machine.
const REST_MAX: Duration = Duration::from_secs(5);

/// This many results, at once or within `REST_AFTER`, are many: the other queries should not wait for them.
pub(super) const MANY: usize = 1_000;

/// A query that is called for is looked at for more results at most this often; where there still are more, it gets its thread.
const LOOKS_MAX: usize = 8;

/// What the queries know of the watch.
pub struct Watch {
    pub live: Arc<LiveState>,
    /// Outputs that write one because of the other, at most.
    pub chain_max: u32,
    calls: Sender<Weak<Query>>,
}

impl Watch {
    /// Starts looking after what is in the list, for as long as there is the list.
    pub fn start(live: Arc<LiveState>, chain_max: u32, queries: &Arc<QueriesByName>) -> Arc<Watch> {
        #[expect(clippy::disallowed_methods, reason = "a worker of the engine cannot wait; a query that rests is in it once")]
        let (calls, called) = crossbeam_channel::unbounded();
        let queries = Arc::downgrade(queries);
        let thread = weir_connectors::thread::named("standing", "queries").spawn(move || look_after(&queries, &called));
        if let Err(error) = thread {
            tracing::error!("no thread could be started for standing queries that rest: {error}");
        }
        Arc::new(Watch { live, chain_max, calls })
    }
}

fn look_after(queries: &Weak<QueriesByName>, called: &Receiver<Weak<Query>>) {
    let mut next = Instant::now() + WAIT;
    loop {
        match called.recv_deadline(next) {
            Ok(query) => serve(&query),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Also while calls keep coming.
        if Instant::now() < next {
            continue;
        }
        let Some(queries) = queries.upgrade() else { return };
        let all: Vec<_> = lock(&queries).values().cloned().collect();
        let mut spent = Duration::ZERO;
        for query in all {
            called.try_iter().take(called.len()).for_each(|query| serve(&query));
            let begun = Instant::now();
            query.glance();
            spent += begun.elapsed();
        }
        next = Instant::now() + pause_after(spent);
    }
}

/// How long nobody looks at the queries that rest, after a look that has taken so long.
fn pause_after(spent: Duration) -> Duration {
    (spent * SHARE).clamp(WAIT, REST_MAX)
}

fn serve(query: &Weak<Query>) {
    let Some(query) = query.upgrade() else { return };
    if let Some(thread) = try_lock(&query.thread) {
        return query.serve(thread);
    }
    // Somebody else is at it, as who deletes it is for seconds. The others do not wait for that.
    let of = query.clone();
    if let Err(error) = crew::run(move || of.serve(lock(&of.thread))) {
        tracing::warn!(query = query.name, "its results wait until it is looked at: no thread could be started: {error}");
    }
}

impl Query {
    /// From here on its results are taken to the outputs. Thousands may begin at once, of which most have none for long.
    pub(super) fn begin(self: &Arc<Self>) -> Result<(), ApiError> {
        let installed = self.installed();
        if self.is_settled(&installed) && self.rest(&installed) { Ok(()) } else { self.work() }
    }

    /// Sees to it that there is a thread that takes results to the outputs.
    pub(super) fn work(self: &Arc<Self>) -> Result<(), ApiError> {
        let mut thread = lock(&self.thread);
        if thread.is_none() && !self.stop.load(Ordering::SeqCst) {
            let query = self.clone();
            let started = weir_connectors::thread::named("results", &self.name).spawn(move || query.run());
            *thread = Some(started.map_err(|error| ApiError::Failed(format!("no thread could be started: {error}")))?);
        }
        Ok(())
    }

    fn work_or_say(self: &Arc<Self>) {
        if let Err(error) = self.work() {
            tracing::error!(query = self.name, "its results wait: {error}");
        }
    }

    /// There is news for whoever takes results, other than results.
    pub(super) fn rouse(self: &Arc<Self>) {
        self.installed().rouse();
        self.work_or_say();
    }

    /// For its own thread: whether that can go. Then the watch looks after the query.
    pub(super) fn rests(self: &Arc<Self>) -> bool {
        let mut thread = lock(&self.thread);
        let installed = self.installed();
        if self.stop.load(Ordering::SeqCst) || !self.is_calm(&installed) {
            return false;
        }
        let rests = self.rest(&installed);
        if rests {
            *thread = None;
        }
        rests
    }

    /// The watch is called with the next result. False, and it is not, when some wait already.
    fn rest(self: &Arc<Self>, installed: &StandingQuery) -> bool {
        let (query, calls) = (Arc::downgrade(self), self.watch.calls.clone());
        installed.rest(move || {
            // Should there be no watch, which only a bug or a lack of threads can bring about, results come all the same.
            if let Err(SendError(query)) = calls.send(query)
                && let Some(query) = query.upgrade()
            {
                query.work_or_say();
            }
        })
    }

    /// It has results.
    fn serve(self: &Arc<Self>, thread: MutexGuard<'_, Option<JoinHandle<()>>>) {
        if thread.is_some() || self.stop.load(Ordering::SeqCst) {
            return;
        }
        let installed = self.installed();
        let mut looks = (0..LOOKS_MAX).map_while(|_| self.take(&installed).then(|| self.rest(&installed)));
        if !looks.any(|rests| rests) {
            drop(thread);
            self.work_or_say();
        }
    }

    /// Tells the outputs of a query that rests how far it is. One that has more to do gets its thread. Where somebody else is at
    /// it, as who deletes the query is for seconds, nobody waits for that.
    fn glance(self: &Arc<Self>) {
        if let Err(error) = self.keep_tail(false) {
            tracing::debug!(query = self.name, "from where on results are kept cannot be said: {error}");
        }
        let Some(thread) = try_lock(&self.thread) else { return };
        if thread.is_none() && !self.stop.load(Ordering::SeqCst) && !self.take(&self.installed()) {
            drop(thread);
            self.work_or_say();
        }
    }

    /// Takes the next results to the outputs, for none of which it waits. False where there are many, or something else is under
    /// way.
    fn take(self: &Arc<Self>, installed: &StandingQuery) -> bool {
        // What an output has not taken is no work for a thread.
        if !self.is_settled(installed) || self.unseen() >= MANY {
            return false;
        }
        match installed.next(Duration::ZERO) {
            Ok(Some(batch)) => self.hand_out(&batch, self.settings().hash_results, || !self.is_ending()),
            Ok(None) => self.give(|lane| lane.hand_over(&self.stop)),
            // Its thread finds that out, and says so.
            Err(_) => return false,
        }
        true
    }

    /// Whether nothing is under way but what an engine finds, and outputs have all of that.
    fn is_calm(&self, installed: &StandingQuery) -> bool {
        self.is_settled(installed) && self.lanes().iter().all(|lane| lane.is_free())
    }

    fn is_settled(&self, installed: &StandingQuery) -> bool {
        self.until.load(Ordering::SeqCst) == u64::MAX && !installed.is_summed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::tests::{a_query, created, wait_for_results, write_node};

    /// One look that took five seconds was followed by none for a hundred.
    #[test]
    fn however_long_a_look_takes_the_next_comes_soon() {
        assert_eq!(pause_after(Duration::ZERO), WAIT);
        assert_eq!(pause_after(Duration::from_millis(100)), Duration::from_secs(2), "of many queries it takes its share");
        assert_eq!(pause_after(Duration::from_secs(60)), REST_MAX);
    }

    /// The watch waited for whoever was at one of them.
    #[test]
    fn a_query_that_somebody_is_at_holds_up_no_results_of_the_others() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries, query) = a_query();
        let graph = engine.default_graph();
        let other = created(&queries, &graph, "other", Vec::new());
        let at_it = lock(&query.thread);
        // Before the second the watch was called for both.
        for number in 1..=2 {
            write_node(&graph, number);
            wait_for_results(&other, number);
        }
        drop(at_it);
        wait_for_results(&query, 2);
    }

    #[test]
    fn a_query_that_somebody_is_at_holds_up_no_look_at_the_others() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, _queries, query) = a_query();
        std::thread::scope(|scope| {
            let at_it = lock(&query.thread);
            let looking = scope.spawn(|| query.glance());
            let begun = Instant::now();
            while !looking.is_finished() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let goes_on = looking.is_finished();
            // The scope would wait for one that is still there.
            drop(at_it);
            assert!(goes_on);
        });
    }
}
