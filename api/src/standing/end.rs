//! How queries and outputs end, several at once: with their namespace, with weir, or as the destinations of one workflow.
//!
//!     threads of the queries ─> outputs that take what they get ─> those that do not ─> all that are late, at the same moment
//!                                └ so many side by side
//!
//! Each output delivers what it was handed until its time is over. One that is down makes use of all of that, so where there are
//! more than end at a time it comes last: the others would begin to end when there is no time left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_connectors::thread::side_by_side;

use super::{DROP_PATIENCE, Query};
use crate::outputs::Lane;

/// So many outputs end at a time. They only wait.
const ENDING_MAX: usize = 256;

/// How long the threads of queries that end are waited for, all of them together. One that takes longer waits for a query that
/// has the graph locked, which may be for minutes, and hands out nothing more.
const THREADS_PATIENCE: Duration = Duration::from_secs(1);

/// Ends queries, then their outputs, each `by` then.
pub(super) fn end_queries(queries: &[Arc<Query>], by: impl Fn(&Lane) -> Instant) {
    // All of them before the first is waited for.
    queries.iter().for_each(|query| query.stop());
    let threads_by = Instant::now() + THREADS_PATIENCE;
    end_outputs(queries.iter().flat_map(|query| query.end_thread(threads_by)).collect(), by);
}

/// Ends outputs, each `by` then.
pub(super) fn end_outputs(lanes: Vec<Arc<Lane>>, by: impl Fn(&Lane) -> Instant) {
    // The time of all of them counts from now on, not from the end of the one before.
    let with_its_time = |lane: Arc<Lane>| {
        let by = by(&lane);
        (lane, by)
    };
    let mut endings: Vec<(Arc<Lane>, Instant)> = lanes.into_iter().map(with_its_time).collect();
    endings.sort_by_cached_key(|(lane, by)| (is_stuck(lane), *by));
    let last = endings.iter().map(|(_, by)| *by).max();
    let all_are_late = AtomicBool::new(false);
    side_by_side("end outputs", endings.clone(), ENDING_MAX, |(lane, deadline)| {
        // Those that are late end together, not one after another.
        if !all_are_late.load(Ordering::Relaxed) {
            let now = Instant::now();
            endings.iter().filter(|(_, by)| *by <= now).for_each(|(late, _)| late.give_up());
            all_are_late.fetch_or(last.is_some_and(|last| last <= now), Ordering::Relaxed);
        }
        lane.end(deadline);
    });
}

/// Whether an output runs that takes nothing for now: what it was given last is tried again, or has no answer for long.
pub(super) fn is_stuck(lane: &Lane) -> bool {
    is_tried_again(lane) || lane.running().is_some_and(|running| running.end_by(DROP_PATIENCE) <= Instant::now())
}

/// Whether what an output was given last has failed.
pub(super) fn is_tried_again(lane: &Lane) -> bool {
    lane.running().is_some_and(|running| running.counters.state().tries > 0)
}
