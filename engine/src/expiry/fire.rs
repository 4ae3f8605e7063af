//! Fire: the thread that ends what is due, in slices, so that nobody else waits long for a commit.
//!
//! A slice is a batch as an ingest stream makes them: each thing that ends is a record of its own with a tick of its own,
//! all of them one entry of the log, committed if nothing that was read has changed since.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use weir_model::lock::lock;
use weir_model::{Mutations, Value};

use super::queue::Subject;
use super::rule::{Of, Rule};
use super::{Expiry, LATE, SLEEP_MAX, State};
use crate::arrangement::walk;
use crate::commit::{Change, wall_clock_millis};
use crate::error::{EngineError, caught};
use crate::evaluate::removal;
use crate::graph::{Graph, WeakGraph};
use crate::view::View;
use crate::view::overlay::Overlay;

/// What is looked at for one commit.
const SLICE_MAX: usize = 2048;

/// No more is added to a commit that has this many rows: nodes may have many edges.
const SLICE_ROWS: usize = 20_000;

/// How often a slice is tried before it is evaluated under the lock of the graph.
const TRIES: usize = 2;

/// After a commit that failed. The log says why, and mostly nothing more is accepted.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How many nodes a look through the graph sees before it hands over what it found: about a millisecond.
const NODES_AT_ONCE: usize = 4096;

enum Work {
    Fill,
    Look(Vec<Subject>),
}

pub fn run(expiry: &Expiry, graph: &WeakGraph) {
    let mut has_failed = false;
    while let Some(work) = next(expiry, has_failed) {
        let Some(graph) = graph.upgrade() else { return };
        let done = match work {
            Work::Fill => fill(expiry, &graph),
            Work::Look(subjects) => look(expiry, &graph, &subjects),
        };
        let ends = matches!(done, Err(EngineError::Closing));
        if !ends {
            graph.note_care("expiry", done.as_ref().err());
        }
        has_failed = done.is_err();
        if let Err(error) = done {
            if !ends {
                tracing::error!(graph = graph.name(), "what is due stays for now: {error}");
            }
            drop(graph);
            expiry.late.store(false, Ordering::Relaxed);
            let state = expiry.lock();
            if !expiry.stopping.load(Ordering::SeqCst) {
                let _unlock = sleep(expiry, state, AFTER_FAILURE);
            }
        }
    }
}

/// Waits for something to do. None at the end. What failed is looked at once more when there are no rules any more, so that
/// nobody is told of it for ever.
fn next(expiry: &Expiry, has_failed: bool) -> Option<Work> {
    let mut state = expiry.lock();
    loop {
        if expiry.stopping.load(Ordering::SeqCst) {
            return None;
        }
        state.fill |= state.queue.wants_more();
        let now = wall_clock_millis();
        let subjects = take(expiry, &mut state, now);
        if !subjects.is_empty() {
            return Some(Work::Look(subjects));
        }
        if state.fill && !state.rules.is_empty() {
            return Some(Work::Fill);
        }
        state.fill = false;
        if has_failed && state.rules.is_empty() {
            return Some(Work::Look(Vec::new()));
        }
        let until = state.queue.first().map(|due| Duration::from_millis(due - now));
        state = match until {
            Some(until) => sleep(expiry, state, until.min(SLEEP_MAX)),
            None => expiry.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
        };
    }
}

/// The next slice of what is due, and whether it comes late.
fn take(expiry: &Expiry, state: &mut State, now: u64) -> Vec<Subject> {
    let subjects = state.queue.take(now, SLICE_MAX);
    let waits = |due: u64| due > 0 && due + LATE < now;
    expiry.late.store(state.queue.first().is_some_and(waits), Ordering::Relaxed);
    subjects
}

fn sleep<'a>(expiry: &Expiry, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
    expiry.wake.wait_timeout(state, time).unwrap_or_else(|e| e.into_inner()).0
}

/// Puts everything into the queue that ends some time, as far as there is room.
fn fill(expiry: &Expiry, graph: &Graph) -> Result<(), EngineError> {
    let rules: Vec<(u32, Arc<Rule>)> = {
        let mut state = expiry.lock();
        state.fill = false;
        state.filling = true;
        // What is committed from here on is noted whatever its time, and what was before is seen below.
        state.queue.open();
        state.rules.iter().map(|(number, rule)| (*number, rule.clone())).collect()
    };
    let filled = caught(|| fill_from(expiry, graph, &rules));
    let mut state = expiry.lock();
    state.filling = false;
    state.fill |= filled.is_err();
    filled
}

fn fill_from(expiry: &Expiry, graph: &Graph, rules: &[(u32, Arc<Rule>)]) -> Result<(), EngineError> {
    graph.wait_visible()?;
    let snapshot = graph.snapshot();
    let at = snapshot.tick().0;
    let mut found: Vec<(Subject, u64)> = Vec::new();
    let (mut seen, mut done) = (0usize, Ok(()));
    for shard in 0..graph.parts().workers.count() {
        walk(snapshot.shard(shard).iter(), &mut |node, facts| {
            for (number, rule) in rules {
                rule.all_due(*number, node, facts, at, &mut |subject, due| found.push((subject, due)));
            }
            seen += 1;
            if seen.is_multiple_of(NODES_AT_ONCE) {
                hand_over(expiry, &mut found);
                done = look_at_due(expiry, graph);
            }
            done.is_ok() && !expiry.stopping.load(Ordering::Relaxed)
        });
    }
    hand_over(expiry, &mut found);
    done
}

/// What is due does not wait until the whole graph has been looked through.
fn look_at_due(expiry: &Expiry, graph: &Graph) -> Result<(), EngineError> {
    while !expiry.stopping.load(Ordering::Relaxed) {
        let subjects = take(expiry, &mut expiry.lock(), wall_clock_millis());
        if subjects.is_empty() {
            break;
        }
        look(expiry, graph, &subjects)?;
    }
    Ok(())
}

fn hand_over(expiry: &Expiry, found: &mut Vec<(Subject, u64)>) {
    let mut state = expiry.lock();
    found.drain(..).for_each(|(subject, due)| state.queue.push(subject, due));
}

/// Ends those of a slice that are due, and puts the others back for when they are; after a failure, all of them.
fn look(expiry: &Expiry, graph: &Graph, subjects: &[Subject]) -> Result<(), EngineError> {
    let slice = caught(|| end_due(expiry, graph, subjects));
    let mut state = expiry.lock();
    match slice {
        Ok(slice) => {
            for rule in &slice.ended {
                rule.expired.fetch_add(1, Ordering::Relaxed);
            }
            slice.later.iter().for_each(|(subject, due)| state.queue.push(*subject, *due));
            Ok(())
        }
        Err(error) => {
            subjects.iter().for_each(|subject| state.queue.push(*subject, 0));
            Err(error)
        }
    }
}

fn end_due(expiry: &Expiry, graph: &Graph, subjects: &[Subject]) -> Result<Slice, EngineError> {
    if !graph.wait_for_results(|| !expiry.stopping.load(Ordering::Relaxed)) {
        return Err(EngineError::Closing);
    }
    let _ending = lock(&expiry.ending);
    let rules = expiry.lock().rules.clone();
    let mut slice = Slice::default();
    // Everything that made these worth a look is in what it sees: it was committed before they were taken.
    graph.committer().transact(TRIES, |view, _, _| {
        let change = slice.evaluate(view, subjects, &rules);
        Ok((change.records > 0).then_some(change))
    })?;
    Ok(slice)
}

#[derive(Default)]
struct Slice {
    /// By whose rules something ended.
    ended: Vec<Arc<Rule>>,
    /// What is not due yet, or did not fit.
    later: Vec<(Subject, u64)>,
}

impl Slice {
    fn evaluate(&mut self, view: &dyn View, subjects: &[Subject], rules: &BTreeMap<u32, Arc<Rule>>) -> Change {
        self.ended.clear();
        self.later.clear();
        let overlay = Overlay::new(view);
        let mut mutations = Mutations::default();
        let mut records = 0;
        for subject in subjects {
            // A rule that was dropped ends nothing.
            let Some(rule) = rules.get(&subject.rule) else { continue };
            let Some(due) = rule.due(&overlay, *subject) else { continue };
            if due > wall_clock_millis() || mutations.rows.len() >= SLICE_ROWS {
                self.later.push((*subject, due));
                continue;
            }
            mutations.start_record(records as u32);
            let before = mutations.rows.len();
            match (rule.of, rule.removes) {
                (Of::Nodes(_), Some(key)) => mutations.set_property(subject.node, key, &Value::Null),
                (Of::Nodes(_), None) => removal::detach_node(&overlay, subject.node, &mut mutations),
                (Of::Edges(kind), Some(key)) => {
                    let edge = rule.edge(*subject, kind);
                    removal::edge_property(edge, key, &mut mutations);
                }
                (Of::Edges(kind), None) => removal::edge(&overlay, rule.edge(*subject, kind), &mut mutations),
            }
            overlay.apply(&mutations, before..mutations.rows.len());
            records += 1;
            self.ended.push(rule.clone());
        }
        Change { mutations, records, ..Change::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weir_model::schema::{Expires, ExpiryRule};
    use weir_model::{NodeId, Text};

    use super::*;
    use crate::store::InMemory;
    use crate::store::conformance::FaultyStore;
    use crate::{Engine, Options};

    /// The thread ended with it, and nothing of the graph ended by itself from then on.
    #[test]
    fn what_is_due_ends_after_a_panic() {
        let store = Arc::new(FaultyStore::new(Arc::new(InMemory::new()), usize::MAX));
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let [first, second, seen] = ["L", "M", "seen"].map(|name| graph.symbols().intern(name));
        let node = NodeId::new(1, 2);
        let mut mutations = Mutations::default();
        for (node, label) in [(node, first), (NodeId::new(3, 4), second)] {
            mutations.set_label(node, label, true);
            mutations.set_property(node, seen, &Value::Integer(1));
        }
        graph.apply(mutations, 1).unwrap();
        graph.wait_visible().unwrap();
        let begun = Instant::now();
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(40), "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        store.panics.store(true, Ordering::SeqCst);
        let names: [Text; 2] = ["l", "m"].map(Text::new);
        let rule = |label: &str| {
            let of = Expires::Nodes(label.into());
            ExpiryRule { of, on: "seen".into(), after_millis: 0, removes: None }
        };
        graph.create_expiry(Some(&names[0]), &rule("L"), false).unwrap();
        let is_told = || graph.neglected().contains_key("expiry");
        until("nobody says that it failed", &is_told);
        assert!(graph.neglected()["expiry"].contains("simulated: a mistake in weir"));
        store.panics.store(false, Ordering::SeqCst);
        until("it does not end", &|| graph.snapshot().property(node, seen) == Value::Null);
        until("it is said to fail", &|| !is_told());
        // The last rule takes along what is said of it.
        assert!(graph.drop_expiry(&names[0]).unwrap());
        store.panics.store(true, Ordering::SeqCst);
        graph.create_expiry(Some(&names[1]), &rule("M"), false).unwrap();
        until("nobody says that it failed again", &is_told);
        assert!(graph.drop_expiry(&names[1]).unwrap());
        until("it is said to fail though there is no rule", &|| !is_told());
        store.panics.store(false, Ordering::SeqCst);
        engine.shutdown().unwrap();
    }
}
