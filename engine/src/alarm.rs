//! Alarm: standing queries whose conditions ask for the current time are woken when one of these turns. If nothing else is
//! committed at that moment, an empty commit brings the tick.
//!
//!     stages ─ next moment at which a condition turns ─> Alarms ─ it has come ─> a commit of nothing, if there was none since
//!
//! What turns at a moment belongs to the first tick of that millisecond, whichever commit lets the workers get past it. So the
//! results are the same in a stream and at rest, and again in a replay.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use weir_model::Tick;
use weir_model::lock::lock;

use crate::commit::wall_clock_millis;
use crate::store::GraphId;

/// The thread that watches them is called so.
pub const CLOCK: &str = "clock";

/// The longest sleep while something waits: the clock of the machine may be set forward meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Between two looks at what has come, so that what is due at every millisecond is no commit at every millisecond.
const BETWEEN: Duration = Duration::from_millis(2);

/// The alarms of an engine.
#[derive(Default)]
pub struct Alarms {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// In milliseconds, by graph and number of the query.
    moments: BTreeMap<(GraphId, u32), u64>,
    stopping: bool,
}

/// The alarm of one standing query; gone with it.
pub struct Alarm {
    alarms: Arc<Alarms>,
    query: (GraphId, u32),
    set: Option<u64>,
}

impl Alarm {
    pub fn new(alarms: Arc<Alarms>, graph: GraphId, number: u32) -> Alarm {
        Alarm { alarms, query: (graph, number), set: None }
    }

    pub fn set(&mut self, moment: Option<u64>) {
        if self.set == moment {
            return;
        }
        self.set = moment;
        let mut state = self.alarms.lock();
        match moment {
            Some(moment) => state.moments.insert(self.query, moment),
            None => state.moments.remove(&self.query),
        };
        self.alarms.wake.notify_all();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.set(None);
    }
}

impl Alarms {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of it is one step.
        lock(&self.state)
    }

    /// Waits for moments that have come, and has the workers of each graph get past its earliest; then they say what they wait
    /// for next. Where `get_past` says that it could not be done now, it is asked again soon, the others in between. Returns when
    /// the alarms are stopped.
    pub fn watch(&self, mut get_past: impl FnMut(GraphId, Tick) -> bool) {
        // By query: one that is slow to say what it waits for next keeps no other from its moment.
        let mut passed: BTreeMap<(GraphId, u32), u64> = BTreeMap::new();
        let mut state = self.lock();
        while !state.stopping {
            let now = wall_clock_millis();
            passed.retain(|query, moment| state.moments.get(query) == Some(moment));
            let mut first: BTreeMap<GraphId, u64> = BTreeMap::new();
            // Those that were let past are only waited for.
            for (query, moment) in state.moments.iter().filter(|(query, _)| !passed.contains_key(query)) {
                first.entry(query.0).and_modify(|first| *first = (*first).min(*moment)).or_insert(*moment);
            }
            let (come, later): (Vec<_>, Vec<_>) = first.into_iter().partition(|(_, moment)| *moment <= now);
            if !come.is_empty() {
                let queries = |(graph, earliest): (GraphId, u64)| {
                    let of_graph = state.moments.range((graph, 0)..=(graph, u32::MAX));
                    let let_past = of_graph.filter(|(_, moment)| **moment <= earliest).map(|(query, moment)| (*query, *moment));
                    (graph, earliest, let_past.collect::<Vec<_>>())
                };
                let come: Vec<_> = come.into_iter().map(queries).collect();
                drop(state);
                for (graph, earliest, queries) in come {
                    if get_past(graph, Tick::at_millis(earliest)) {
                        passed.extend(queries);
                    }
                }
                std::thread::sleep(BETWEEN);
                state = self.lock();
                continue;
            }
            state = match later.iter().map(|(_, moment)| moment - now).min() {
                Some(left) => {
                    let left = Duration::from_millis(left).min(SLEEP_MAX);
                    self.wake.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0
                }
                None => self.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
            };
        }
    }

    /// Whether a query of the graph waits for a moment.
    pub fn any_of(&self, graph: GraphId) -> bool {
        self.lock().moments.range((graph, 0)..=(graph, u32::MAX)).next().is_some()
    }

    pub fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_says_nothing_more_holds_up_no_other() {
        let alarms = Arc::new(Alarms::default());
        let now = wall_clock_millis();
        let [mut stuck, mut other] = [1, 2].map(|number| Alarm::new(alarms.clone(), GraphId(7), number));
        stuck.set(Some(now));
        other.set(Some(now + 20));
        let (told, heard) = std::sync::mpsc::sync_channel(8);
        let watching = alarms.clone();
        let watch = std::thread::spawn(move || {
            watching.watch(|graph, tick| {
                told.send((graph, tick.millis())).unwrap();
                true
            });
        });
        let patience = Duration::from_secs(60);
        assert_eq!(heard.recv_timeout(patience), Ok((GraphId(7), now)));
        assert_eq!(heard.recv_timeout(patience), Ok((GraphId(7), now + 20)));
        // Each is told once.
        assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
        other.set(Some(now + 40));
        assert_eq!(heard.recv_timeout(patience), Ok((GraphId(7), now + 40)));
        alarms.stop();
        watch.join().unwrap();
    }

    #[test]
    fn what_cannot_be_done_now_is_asked_for_again_and_the_others_come_in_between() {
        let alarms = Arc::new(Alarms::default());
        let now = wall_clock_millis();
        let [mut locked, mut other] = [1, 2].map(|graph| Alarm::new(alarms.clone(), GraphId(graph), 1));
        locked.set(Some(now));
        other.set(Some(now + 20));
        let (told, heard) = std::sync::mpsc::sync_channel(64);
        let watching = alarms.clone();
        let watch = std::thread::spawn(move || {
            let mut others = 0;
            watching.watch(|graph, _| {
                others += u32::from(graph == GraphId(2));
                told.send(graph).unwrap();
                // As long as the other has had no turn.
                graph == GraphId(2) || others > 0
            });
        });
        let mut turns = Vec::new();
        while turns.last() != Some(&GraphId(1)) || !turns.contains(&GraphId(2)) {
            turns.push(heard.recv_timeout(Duration::from_secs(60)).unwrap());
        }
        assert_eq!(turns.iter().filter(|graph| **graph == GraphId(2)).count(), 1);
        assert_eq!(turns.first(), Some(&GraphId(1)), "it was asked for first, and in vain");
        // Now that it is done, no more.
        assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
        alarms.stop();
        watch.join().unwrap();
    }
}
