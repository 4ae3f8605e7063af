//! Watched: nodes by the value of a property, kept from tick to tick for whoever looks again and again for those that have one value.
//!
//! A row of a standing query that looks for nodes by a value is not looked at again at each change, but when a node has that value
//! that changed, or had it. So what one change costs does not depend on how many rows there are.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, PatternNode};
use weir_model::{NodeId, Symbol, Value};

use super::operators::Run;
use crate::index::key::{self, Place};
use crate::view::View;

/// More nodes are not kept: about 100 bytes each. Whoever looks for some of them then looks at all.
const NODES_MAX: usize = 1_000_000;

/// The nodes of a label, or all, by a property.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Which {
    label: Option<Symbol>,
    key: Symbol,
}

/// What changed with some nodes.
#[derive(Default)]
pub struct Moved {
    /// Where they are and were.
    pub places: Vec<(Which, Place)>,
    /// Of these nothing is known any more.
    pub lost: Vec<Which>,
}

#[derive(Default)]
pub struct Watched {
    /// None where there are too many.
    filed: RefCell<FxHashMap<Which, Option<Filed>>>,
    /// What was looked for since somebody took it.
    asked: RefCell<Vec<(Which, Place)>>,
}

#[derive(Default)]
struct Filed {
    /// In the order of their ids.
    nodes: FxHashMap<Place, Arc<Vec<NodeId>>>,
    places: FxHashMap<NodeId, Place>,
}

impl Which {
    /// Where a node belongs; nowhere if its value equals none.
    fn place(self, view: &dyn View, node: NodeId) -> Option<Place> {
        let is_one = self.label.is_none_or(|label| view.has_label(node, label));
        is_one.then(|| key::equal(&view.property(node, self.key))).flatten()
    }
}

impl Filed {
    fn of(which: Which, view: &dyn View) -> Option<Filed> {
        let mut filed = Filed::default();
        let mut each = |node| {
            filed.put(node, which.place(view, node));
            filed.places.len() <= NODES_MAX
        };
        match which.label {
            Some(label) => view.labelled(label, &mut each),
            None => view.nodes(&mut each),
        }
        (filed.places.len() <= NODES_MAX).then_some(filed)
    }

    /// Gives where the node was.
    fn put(&mut self, node: NodeId, place: Option<Place>) -> Option<Place> {
        let before = self.places.get(&node).copied();
        if before == place {
            return before;
        }
        if let Some(before) = before
            && let Some(here) = self.nodes.get_mut(&before)
        {
            let nodes = Arc::make_mut(here);
            if let Ok(at) = nodes.binary_search(&node) {
                nodes.remove(at);
            }
            if nodes.is_empty() {
                self.nodes.remove(&before);
            }
        }
        match place {
            Some(place) => {
                self.places.insert(node, place);
                let nodes = Arc::make_mut(self.nodes.entry(place).or_default());
                if let Err(at) = nodes.binary_search(&node) {
                    nodes.insert(at, node);
                }
            }
            None => drop(self.places.remove(&node)),
        }
        before
    }
}

impl Watched {
    /// The nodes for which one of the lookups may be true; none where that is not kept.
    pub(super) fn find(&self, run: &Run, node: &PatternNode, lookups: &[Lookup], row: &[Value]) -> Option<Arc<Vec<NodeId>>> {
        let view = run.reader.view.untracked()?;
        let by_value = |lookup: &&Lookup| lookup.operator == Binary::Equal && lookup.key.is_some();
        let lookup = lookups.iter().find(by_value)?;
        let symbol = |name| run.prepared.symbol(name);
        let which = Which { label: node.labels.first().map(|label| symbol(*label)), key: symbol(lookup.key?) };
        let Some(place) = key::equal(&*lookup.value.look(row, run).ok()?) else { return Some(Arc::default()) };
        let mut filed = self.filed.borrow_mut();
        let filed = filed.entry(which).or_insert_with(|| Filed::of(which, view)).as_ref()?;
        self.asked.borrow_mut().push((which, place));
        Some(filed.nodes.get(&place).cloned().unwrap_or_default())
    }

    /// What was looked for since this was asked last.
    pub fn take_asked(&self) -> Vec<(Which, Place)> {
        let mut asked = self.asked.take();
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Those that have a value.
    pub fn at(&self, (which, place): (Which, Place)) -> Arc<Vec<NodeId>> {
        let filed = self.filed.borrow();
        filed.get(&which).and_then(|filed| filed.as_ref()?.nodes.get(&place).cloned()).unwrap_or_default()
    }

    /// Takes in that nodes have changed.
    pub fn follow(&self, view: &dyn View, changed: &[NodeId]) -> Moved {
        let mut moved = Moved::default();
        for (which, kept) in self.filed.borrow_mut().iter_mut() {
            let Some(filed) = kept else { continue };
            for node in changed {
                let place = which.place(view, *node);
                let before = filed.put(*node, place);
                moved
                    .places
                    .extend(place.into_iter().chain(before.filter(|before| Some(*before) != place)).map(|place| (*which, place)));
            }
            if filed.places.len() > NODES_MAX {
                *kept = None;
                moved.lost.push(*which);
            }
        }
        moved
    }
}
