//! Erased: nodes of which nothing is known any more from before some tick.
//!
//! To purge a node is a removal like any other, and a note of it beside, which the store has before the log has the removal. From
//! then on nobody sees what was there before; pages are written again without it when the log before it has become pages
//! (`History::tend`), and the note goes with them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weir_model::codec::{decode_edge_property, decode_parallel};
use weir_model::lock::lock;
use weir_model::mutation::Kind;
use weir_model::{NodeId, Tick};

use crate::arrangement::versions::Step;
use crate::store::{GraphId, Store, StoreError};

/// By node: the last tick of which nothing is known but what still holds then.
pub type Erased = FxHashMap<NodeId, Tick>;

/// All pages are written again no sooner than this after the last time.
const WRITE_INTERVAL: Duration = Duration::from_secs(600);

const NOTE_BYTES: usize = 24;

pub struct Erasures {
    graph: GraphId,
    store: Arc<dyn Store>,
    /// Without a lock: whether there are any.
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    erased: Arc<Erased>,
    written: Option<Instant>,
}

impl Erasures {
    /// `end` is the tick after the last entry of the log: what was noted for one that got lost has not happened.
    pub fn open(store: Arc<dyn Store>, graph: GraphId, end: Tick) -> Result<Erasures, StoreError> {
        let mut erased = Erased::default();
        for (key, value) in store.list_metadata(&prefix(graph))? {
            let damaged = || StoreError::damaged("a list of erased nodes", format!("metadata '{key}'"));
            let notes = value.chunks(NOTE_BYTES).map(|note| read(note).ok_or_else(damaged)).collect::<Result<Vec<_>, _>>()?;
            if notes.iter().any(|(_, tick)| *tick >= end) {
                if !store.read_only() {
                    store.delete_metadata(&key)?;
                }
            } else {
                notes.into_iter().for_each(|(node, tick)| note(&mut erased, node, tick));
            }
        }
        let any = AtomicBool::new(!erased.is_empty());
        Ok(Erasures { graph, store, any, known: Mutex::new(Known { erased: Arc::new(erased), written: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is one assignment.
        lock(&self.known)
    }

    /// Notes what records erase whose first has this tick, before they go to the log.
    pub fn note(&self, first: Tick, nodes: &[(u32, NodeId)]) -> Result<(), StoreError> {
        let notes = || nodes.iter().map(|(record, node)| (*node, Tick(first.0 + u64::from(*record))));
        let mut bytes = Vec::with_capacity(nodes.len() * NOTE_BYTES);
        for (node, tick) in notes() {
            bytes.extend_from_slice(&node.high.to_le_bytes());
            bytes.extend_from_slice(&node.low.to_le_bytes());
            bytes.extend_from_slice(&tick.0.to_le_bytes());
        }
        self.store.put_metadata(&key(self.graph, first), &bytes)?;
        if !self.store.rewrites() {
            tracing::warn!(graph = self.graph.0, "files of the store keep what is purged as long as a namespace is damaged");
        }
        let mut known = self.lock();
        let erased = Arc::make_mut(&mut known.erased);
        notes().for_each(|(node, tick)| note(erased, node, tick));
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    pub fn known(&self) -> Arc<Erased> {
        match self.any.load(Ordering::Acquire) {
            true => self.lock().erased.clone(),
            false => Arc::default(),
        }
    }

    /// When the first of those was that pages are to be written again for, if it is time.
    pub fn due(&self) -> Option<Tick> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.lock();
        if known.written.is_some_and(|written| written.elapsed() < WRITE_INTERVAL) {
            return None;
        }
        known.erased.values().min().copied()
    }

    /// No pages know any more what was erased before this tick.
    pub fn forget(&self, upper: Tick) -> Result<(), StoreError> {
        let times = times_rewritten(&*self.store, self.graph)? + 1;
        self.store.put_metadata(&rewritten_key(self.graph), &times.to_le_bytes())?;
        for (key, value) in self.store.list_metadata(&prefix(self.graph))? {
            if value.chunks(NOTE_BYTES).filter_map(read).all(|(_, tick)| tick < upper) {
                self.store.delete_metadata(&key)?;
            }
        }
        let mut known = self.lock();
        Arc::make_mut(&mut known.erased).retain(|_, tick| *tick >= upper);
        known.written = Some(Instant::now());
        self.any.store(!known.erased.is_empty(), Ordering::Release);
        Ok(())
    }
}

/// Where it stands how often pages were written again without what had been erased.
pub fn rewritten_key(graph: GraphId) -> String {
    format!("{}rewritten", graph.metadata_prefix())
}

pub fn times_rewritten(store: &dyn Store, graph: GraphId) -> Result<u64, StoreError> {
    let key = rewritten_key(graph);
    let Some(value) = store.metadata(&key)? else { return Ok(0) };
    read_times(&value).ok_or_else(|| StoreError::damaged("a number that is none", format!("metadata '{key}'")))
}

pub fn read_times(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

pub fn prefix(graph: GraphId) -> String {
    format!("{}erased/", graph.metadata_prefix())
}

fn key(graph: GraphId, first: Tick) -> String {
    format!("{}{:016x}", prefix(graph), first.0)
}

fn read(note: &[u8]) -> Option<(NodeId, Tick)> {
    let number = |from: usize| Some(u64::from_le_bytes(note.get(from..from + 8)?.try_into().ok()?));
    Some((NodeId::new(number(0)?, number(8)?), Tick(number(16)?)))
}

fn note(erased: &mut Erased, node: NodeId, tick: Tick) {
    let last = erased.entry(node).or_default();
    *last = tick.max(*last);
}

/// The tick of which nothing from before is known of a fact: its node was erased, or the one at the other end of its edge.
pub fn erased_at(erased: &Erased, node: NodeId, step: &Step<'_>) -> Option<Tick> {
    if erased.is_empty() {
        return None;
    }
    let (payload, arena) = (step.fact.payload, &step.segment.arena[..]);
    let other = match step.fact.tag.kind() {
        Kind::Out | Kind::In => Some(payload.as_node()),
        Kind::OutParallel | Kind::InParallel => Some(decode_parallel(payload, arena).0),
        Kind::EdgeProperty => Some(decode_edge_property(payload, arena).0),
        Kind::Label | Kind::Property | Kind::ClearProperties => None,
    };
    let of = |node: NodeId| erased.get(&node).copied();
    of(node).max(other.and_then(of))
}

/// The steps of a fact without those that are erased: what it had become by then, if it still is so. `bottom` says that there is
/// nothing older that removals could end.
pub fn rest<'s, 'a>(steps: &'s [Step<'a>], erased: Tick, bottom: bool) -> &'s [Step<'a>] {
    let rest = &steps[steps.partition_point(|step| step.tick <= erased.0).saturating_sub(1)..];
    let ends_nothing = if bottom { rest.iter().take_while(|step| !step.adds).count() } else { 0 };
    &rest[ends_nothing..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::InMemory;

    const NODES: [NodeId; 2] = [NodeId::new(1, 1), NodeId::new(2, 2)];

    fn open(store: &Arc<InMemory>, graph: GraphId, end: u64) -> Vec<(NodeId, u64)> {
        let erasures = Erasures::open(store.clone(), graph, Tick(end)).unwrap();
        let mut known: Vec<(NodeId, u64)> = erasures.known().iter().map(|(node, tick)| (*node, tick.0)).collect();
        known.sort();
        known
    }

    #[test]
    fn notes_are_kept_but_those_of_a_commit_that_was_lost() {
        let store = Arc::new(InMemory::default());
        let graph = store.create_graph("g", &[]).unwrap();
        let erasures = Erasures::open(store.clone(), graph, Tick(5)).unwrap();
        assert_eq!((erasures.known().len(), erasures.due()), (0, None));
        erasures.note(Tick(5), &[(0, NODES[0]), (2, NODES[1])]).unwrap();
        erasures.note(Tick(9), &[(1, NODES[0])]).unwrap();
        assert_eq!(erasures.due(), Some(Tick(7)));
        let both = [(NODES[0], 10), (NODES[1], 7)];
        assert_eq!(open(&store, graph, 11), both);
        // The entry of the second is not in the log; and it is not remembered for one that has its tick later.
        let first = [(NODES[0], 5), (NODES[1], 7)];
        assert_eq!(open(&store, graph, 10), first);
        assert_eq!(open(&store, graph, 11), first);
        store.put_metadata(&key(graph, Tick(3)), b"no note").unwrap();
        assert!(Erasures::open(store, graph, Tick(11)).is_err());
    }

    #[test]
    fn what_no_pages_know_needs_no_note() {
        let store = Arc::new(InMemory::default());
        let graph = store.create_graph("g", &[]).unwrap();
        let erasures = Erasures::open(store.clone(), graph, Tick(5)).unwrap();
        erasures.note(Tick(5), &[(0, NODES[0])]).unwrap();
        erasures.note(Tick(7), &[(0, NODES[1])]).unwrap();
        erasures.forget(Tick(7)).unwrap();
        assert_eq!(open(&store, graph, 11), [(NODES[1], 7)]);
        // All pages are not written again at once.
        assert_eq!((erasures.known().len(), erasures.due()), (1, None));
        erasures.forget(Tick(8)).unwrap();
        assert_eq!((erasures.known().len(), open(&store, graph, 11).len()), (0, 0));
    }
}
