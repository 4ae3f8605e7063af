//! Watched: nodes by a value of theirs, a property or what is made of some, kept from tick to tick for whoever looks again and again for those that have one value.
//!
//! A row of a standing query that looks for nodes by a value is not looked at again at each change, but when a node has that value
//! that changed, or had it. So what one change costs does not depend on how many rows there are.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, PatternNode};
use weir_model::{Context, Expr, Failure, NodeId, Symbol, Value};

use super::operators::Run;
use super::scan;
use crate::index::key::{self, Place};
use crate::view::View;

/// More nodes are not kept: about 100 bytes each. Whoever looks for some of them then looks at all.
const NODES_MAX: usize = 1_000_000;

/// The same of those of a label, who are in one list.
const OF_LABEL_MAX: usize = 1 << 16;

/// The nodes of a label, or all, by a value of theirs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Which {
    label: Option<Symbol>,
    by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum By {
    /// Its label alone.
    Label,
    Property(Symbol),
    /// An expression, by where it lies in the plan.
    Made(usize),
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
    asked: RefCell<FxHashSet<(Which, Place)>>,
}

struct Filed {
    of: Of,
    /// In the order of their ids.
    nodes: FxHashMap<Place, Arc<Vec<NodeId>>>,
    places: FxHashMap<NodeId, Place>,
}

/// The value of a node.
enum Of {
    /// All are at one place.
    Nothing,
    Property(Symbol),
    /// Over the node in this slot of a row of the plan, which is so wide.
    Made {
        expr: Expr,
        slot: usize,
        width: usize,
    },
}

/// How nodes are looked at.
#[derive(Clone, Copy)]
struct Sight<'s> {
    view: &'s dyn View,
    context: &'s dyn Context,
}

impl Of {
    fn place(&self, node: NodeId, sight: Sight<'_>) -> Result<Option<Place>, Failure> {
        match self {
            Of::Nothing => Ok(Some(key::LABEL)),
            Of::Property(key) => Ok(key::equal(&sight.view.property(node, *key))),
            Of::Made { expr, slot, width } => {
                let mut row = vec![Value::Null; *width];
                row[*slot] = Value::Node(node);
                Ok(key::equal(&expr.evaluate(&row, sight.context)?))
            }
        }
    }
}

/// Whether labels and properties of the node decide the value, and nothing else does.
fn is_own(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::Clocked(_) => false,
        Expr::Call { function, .. } if !function.pure => false,
        _ => expr.children().into_iter().all(is_own),
    }
}

impl Filed {
    /// None where they are too many, or one has no value.
    fn new(which: Which, of: Of, sight: Sight<'_>) -> Option<Filed> {
        let mut filed = Filed { of, nodes: FxHashMap::default(), places: FxHashMap::default() };
        let mut fits = true;
        let mut each = |node| {
            let place = filed.place(which, node, sight);
            fits = place.map(|place| filed.put(node, place)).is_ok() && filed.fits();
            fits
        };
        match which.label {
            Some(label) => sight.view.labelled(label, &mut each),
            None => sight.view.nodes(&mut each),
        }
        fits.then_some(filed)
    }

    fn fits(&self) -> bool {
        self.places.len() <= if matches!(self.of, Of::Nothing) { OF_LABEL_MAX } else { NODES_MAX }
    }

    /// Where a node belongs; nowhere if its value equals none.
    fn place(&self, which: Which, node: NodeId, sight: Sight<'_>) -> Result<Option<Place>, Failure> {
        let is_one = which.label.is_none_or(|label| sight.view.has_label(node, label));
        if is_one { self.of.place(node, sight) } else { Ok(None) }
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
                scan::put(Arc::make_mut(self.nodes.entry(place).or_default()), node);
            }
            None => drop(self.places.remove(&node)),
        }
        before
    }
}

/// Of what is filed, what somebody looks for; filed now, if it is the first time.
fn filed_of<'f>(filed: &'f mut FxHashMap<Which, Option<Filed>>, which: Which, of: Of, run: &Run) -> Option<&'f Filed> {
    let view = run.reader.view.untracked()?;
    let context = &run.reader.over(view);
    filed.entry(which).or_insert_with(|| Filed::new(which, of, Sight { view, context })).as_ref()
}

impl Watched {
    /// The nodes for which one of the lookups may be true; none where that is not kept.
    pub(super) fn find(&self, run: &Run, node: &PatternNode, lookups: &[Lookup], row: &[Value]) -> Option<Arc<Vec<NodeId>>> {
        let of = |operator| lookups.iter().filter(move |lookup| lookup.operator == operator);
        // Without a label, a node that has edges alone may have a made value, and nobody hears of it.
        let made = || of(Binary::Equal).find(|lookup| !node.labels.is_empty() && is_own(&lookup.of));
        let lookup = of(Binary::Equal).find(|lookup| lookup.key.is_some()).or_else(made).or_else(|| of(Binary::In).next())?;
        let symbol = |name| run.prepared.symbol(name);
        let by = lookup.key.map_or(By::Made(std::ptr::from_ref(lookup).addr()), |key| By::Property(symbol(key)));
        let which = Which { label: node.labels.first().map(|label| symbol(*label)), by };
        let places = key::ranges(lookup.operator, &*lookup.value.look(row, run).ok()?)?;
        let made = || Of::Made { expr: lookup.of.clone(), slot: node.slot.0 as usize, width: row.len() };
        let mut filed = self.filed.borrow_mut();
        let filed = filed_of(&mut filed, which, lookup.key.map_or_else(made, |key| Of::Property(symbol(key))), run)?;
        run.budget.steps(places.len()).ok()?;
        self.asked.borrow_mut().extend(places.iter().map(|place| (which, place.first)));
        if places.is_empty() && matches!(by, By::Made(_)) {
            // Nothing equals it. Yet a node may come whose value fails, of which whoever looks through all must say so.
            self.asked.borrow_mut().insert((which, key::LABEL));
        }
        let mut found = places.iter().filter_map(|place| filed.nodes.get(&place.first));
        Some(match (found.next(), found.next()) {
            (None, _) => Arc::default(),
            (Some(one), None) => one.clone(),
            (Some(one), Some(two)) => {
                let mut all: Vec<NodeId> = [one, two].into_iter().chain(found).flat_map(|nodes| nodes.iter().copied()).collect();
                all.sort_unstable();
                all.dedup();
                Arc::new(all)
            }
        })
    }

    /// All nodes of a label, where these are kept.
    pub(super) fn all(&self, run: &Run, node: &PatternNode) -> Option<Arc<Vec<NodeId>>> {
        let which = Which { label: Some(run.prepared.symbol(*node.labels.first()?)), by: By::Label };
        let mut filed = self.filed.borrow_mut();
        let filed = filed_of(&mut filed, which, Of::Nothing, run)?;
        self.asked.borrow_mut().insert((which, key::LABEL));
        Some(filed.nodes.get(&key::LABEL).cloned().unwrap_or_default())
    }

    /// What was looked for since this was asked last.
    pub fn take_asked(&self) -> Vec<(Which, Place)> {
        self.asked.take().into_iter().collect()
    }

    /// Those that have a value.
    pub fn at(&self, (which, place): (Which, Place)) -> Arc<Vec<NodeId>> {
        let filed = self.filed.borrow();
        filed.get(&which).and_then(|filed| filed.as_ref()?.nodes.get(&place).cloned()).unwrap_or_default()
    }

    /// Takes in that nodes have changed.
    pub fn follow(&self, view: &dyn View, context: &dyn Context, changed: &[NodeId]) -> Moved {
        let (mut moved, sight) = (Moved::default(), Sight { view, context });
        for (which, kept) in self.filed.borrow_mut().iter_mut() {
            let Some(filed) = kept else { continue };
            let mut go_on = true;
            for node in changed {
                let Ok(place) = filed.place(*which, *node, sight) else {
                    go_on = false;
                    break;
                };
                let before = filed.put(*node, place);
                moved
                    .places
                    .extend(place.into_iter().chain(before.filter(|before| Some(*before) != place)).map(|place| (*which, place)));
            }
            if !go_on || !filed.fits() {
                *kept = None;
                moved.lost.push(*which);
            }
        }
        moved
    }
}
