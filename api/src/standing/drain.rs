//! Queries that are deleted: what one has found by then still goes out, as far as its outputs take it in the time they have.
//!
//!     thread of the query, or who deletes it ─ results before this moment ─> lanes ─ side by side ─> outputs ─> end
//!
//! Results of later ticks are not taken any more. Nobody waits for an output that hangs, has failed or is parked, nor for what is
//! not found yet because the graph is still looked through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_model::Tick;

use super::end::end_queries;
use super::{DROP_PATIENCE, HOLD, Query, lock};
use crate::outputs::Lane;

/// How soon it is seen that the outputs have what they are to get.
const LOOK: Duration = Duration::from_millis(2);

/// An output, and when it is to have ended.
type Ending = (Arc<Lane>, Instant);

/// Ends queries that are deleted, with their outputs, all of them in the time of one. `drains`: the outputs get first what was
/// found of everything before now, query by query.
pub(super) fn end_deleted(queries: &[Arc<Query>], drains: bool) {
    // All of them count from now on: what is handed over and what is delivered then have the same time.
    let ending = |lane: Arc<Lane>| {
        let by = lane.end_by(DROP_PATIENCE);
        (lane, by)
    };
    let with_endings = |query: &Arc<Query>| {
        let until = query.graph.sent();
        (query.clone(), until, query.lanes().into_iter().map(ending).collect::<Vec<Ending>>())
    };
    let deleted: Vec<(Arc<Query>, Tick, Vec<Ending>)> = queries.iter().map(with_endings).collect();
    for (query, until, endings) in deleted.iter().filter(|(.., endings)| drains && !endings.is_empty()) {
        query.drain(*until, endings);
    }
    let times: BTreeMap<*const Lane, Instant> =
        deleted.iter().flat_map(|(.., endings)| endings).map(|(lane, by)| (Arc::as_ptr(lane), *by)).collect();
    end_queries(queries, |lane| times.get(&std::ptr::from_ref(lane)).copied().unwrap_or_else(Instant::now));
    deleted.iter().for_each(|(query, until, endings)| query.tell_left(*until, endings));
}

impl Query {
    /// Waits until each output has been handed what was found of ticks before this one, or its time is over.
    fn drain(self: &Arc<Self>, until: Tick, endings: &[Ending]) {
        // As at a switch, but nothing comes behind it: where much comes in, outputs would never have all. Of an empty graph there
        // is nothing.
        self.until.store(until.0.max(HOLD + 1), Ordering::SeqCst);
        self.installed().rouse();
        let last = endings.iter().map(|(_, by)| *by).max().unwrap_or_else(Instant::now);
        loop {
            let all_came = !self.awaits(until, last);
            if all_came {
                // What waits where a thread that hands it over was not to be had.
                self.give(|lane| lane.hand_over(&self.stop));
            }
            let now = Instant::now();
            let waits = |(lane, by): &Ending| now < *by && lane.takes() && !(all_came && lane.has_all());
            if !endings.iter().any(waits) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether results of ticks before this one may still come. Where the query has no thread, the next are taken to the outputs
    /// here, as long as there is time.
    fn awaits(self: &Arc<Self>, until: Tick, last: Instant) -> bool {
        if self.has_handed_out(until) {
            return false;
        }
        let installed = self.installed();
        let thread = lock(&self.thread);
        let ended = thread.as_ref().map(JoinHandle::is_finished);
        match ended {
            // It has said why.
            Some(true) => return false,
            Some(false) => {}
            None => match installed.next(Duration::ZERO) {
                Ok(Some(batch)) => {
                    if let Some((now, later)) = self.split(batch) {
                        // Nobody gets it any more.
                        self.in_hand.fetch_sub(later.map_or(0, |later| later.rows.len()), Ordering::SeqCst);
                        self.hand_out(&now, self.settings().hash_results, || Instant::now() < last);
                    }
                }
                Ok(None) => {}
                // Its thread finds that out, and says so.
                Err(_) => {
                    drop(thread);
                    self.rouse();
                    return true;
                }
            },
        }
        let finds = installed.backfill().is_none() && installed.failure().is_none();
        !self.has_handed_out(until) && (finds || self.unseen() > 0)
    }

    /// Results that were found and that no lane has; of a batch that is being handed out, all of it. Whoever ends the query
    /// while there are any cuts them off.
    pub(super) fn unseen(&self) -> usize {
        // Under the lock, what the lanes have is what the engine was told they have.
        let weighed = lock(&self.weighed);
        self.installed().waiting().saturating_sub(*weighed) + self.in_hand.load(Ordering::SeqCst)
    }

    /// What nobody gets any more, told once for each output.
    fn tell_left(&self, until: Tick, endings: &[Ending]) {
        for (lane, _) in endings {
            let from = self.begins_at(&lane.name);
            let left = match lane.left(from) {
                Some(0) => continue,
                Some(count) => count.to_string(),
                None => "more than are kept in memory".to_owned(),
            };
            tracing::warn!(
                query = self.name,
                output = lane.name,
                "the query was deleted, and results that were not delivered, or not confirmed, are gone with it: {left}"
            );
        }
        let unseen = self.unseen();
        if unseen > 0 && !endings.is_empty() && !self.has_handed_out(until) {
            tracing::warn!(
                query = self.name,
                "the query was deleted, and results that no output was given yet are gone with it: {unseen}"
            );
        }
    }
}
