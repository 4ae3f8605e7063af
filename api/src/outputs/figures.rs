//! How an output is, in figures: for the status of its query, the metrics, and whoever asks what ingest waits for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value as Json, json};
use weir_connectors::DeliveryCounters;
use weir_model::Tick;

use super::Lane;
use crate::clock;
use crate::wire::family::Family;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It takes results, or is about to.
    Running,
    /// What it was given last failed, and is tried again.
    Retrying,
    /// It could not be opened, or too much has come since it ended: its results are kept in the log.
    Parked,
    /// It has ended by itself: its results wait for another definition, or for the next start.
    Failed,
}

pub struct Figures {
    pub name: String,
    pub state: State,
    /// Why it is parked or has failed.
    pub reason: Option<String>,
    /// Found, and not delivered.
    pub waiting: usize,
    /// How many of `waiting` its destination has not taken: ingest waits when they are too many.
    pub behind: usize,
    /// When the oldest of those that wait was found.
    pub oldest: Option<Tick>,
    /// Results that it is through with, delivered or given up: how many, and how many a second lately.
    pub done: (u64, f64),
    /// Results that it would have written for in a loop, and did not.
    pub loops: u64,
    /// The counters of the definition that runs; none where none does.
    pub counters: Option<Arc<DeliveryCounters>>,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "Running",
            State::Retrying => "Retrying",
            State::Parked => "Parked",
            State::Failed => "Failed",
        }
    }
}

impl Figures {
    pub fn of(lane: &Lane) -> Figures {
        let (running, held) = (lane.running(), lane.held());
        let failure = running.as_ref().and_then(|running| running.failure());
        let is_tried = |counters: &Arc<DeliveryCounters>| counters.state().tries > 0;
        let (state, reason) = match (&running, failure) {
            // What it was given last is being ended, or it has just come.
            (None, _) if lane.is_changing() => (State::Running, None),
            (None, _) => (State::Parked, lane.parked()),
            (Some(_), Some(reason)) => (State::Failed, Some(reason)),
            (Some(running), None) if is_tried(&running.counters) => (State::Retrying, None),
            (Some(_), None) => (State::Running, None),
        };
        Figures {
            name: lane.name.clone(),
            state,
            reason,
            waiting: held.waiting,
            behind: lane.behind(),
            oldest: held.oldest,
            done: (lane.done.count(), lane.done.recent()),
            loops: running.as_ref().map_or(0, |running| running.chain.cut.load(Ordering::Relaxed)),
            counters: running.map(|running| running.counters.clone()),
        }
    }

    /// One of the counts; 0 where nothing runs.
    pub fn count(&self, read: fn(&DeliveryCounters) -> u64) -> u64 {
        self.counters.as_ref().map_or(0, |counters| read(counters))
    }

    /// How long ago the oldest of those that wait was found.
    pub fn lag(&self) -> Duration {
        let since = self.oldest.map(|tick| clock::from_millis(tick.millis()));
        since.and_then(|since| SystemTime::now().duration_since(since).ok()).unwrap_or_default()
    }

    /// `holds`: ingest waits for its query, which waits for this one.
    pub fn to_json(&self, family: Family, holds: bool) -> Json {
        let count = |read| self.count(read);
        let mut shown = json!({
            "state": family.word(self.state.name()),
            "delivered": count(|counters| counters.delivered.load(Ordering::Relaxed)),
            "waiting": self.waiting,
            "lag": family.duration(self.lag()),
            "failed": count(|counters| counters.failed.load(Ordering::Relaxed)),
            "deadLetters": count(|counters| counters.dead_letters.load(Ordering::Relaxed)),
            "dropped": count(|counters| counters.dropped.load(Ordering::Relaxed)),
            "retries": count(|counters| counters.retries.load(Ordering::Relaxed)),
            "holdsIngest": holds,
        });
        if let Some(reason) = &self.reason {
            shown["reason"] = reason.as_str().into();
        }
        // There only where a loop was found.
        if self.loops > 0 {
            shown["loops"] = self.loops.into();
        }
        let Some(state) = self.counters.as_ref().map(|counters| counters.state()) else { return shown };
        let policy = state.policy;
        shown["retryPolicy"] =
            json!({"minBackoff": family.duration(policy.backoff_min), "maxBackoff": family.duration(policy.backoff_max)});
        if let Some(tries) = policy.tries_max {
            shown["retryPolicy"]["maxTries"] = tries.into();
        }
        if state.tries > 0 {
            shown["tries"] = state.tries.into();
        }
        if let Some(next) = state.next_try {
            shown["nextTry"] = clock::instant(next).into();
        }
        if let Some(asked) = state.asked {
            shown["unansweredFor"] = family.duration(Instant::now().saturating_duration_since(asked));
        }
        if let Some((message, at)) = state.last_error {
            shown["lastError"] = json!({"message": message, "at": clock::instant(at)});
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::Named;

    /// It was shown as parked, without a reason, while its old definition ended.
    #[test]
    fn an_output_that_is_changed_is_not_parked() {
        let lane = Lane::new(Named { query: "adults", output: "hook" });
        let shown = || {
            let figures = Figures::of(&lane);
            (figures.state, figures.reason)
        };
        lane.set_changing(true);
        assert_eq!(shown(), (State::Running, None));
        lane.park("there is no such directory");
        assert_eq!(shown(), (State::Parked, Some("there is no such directory".to_owned())));
    }
}
