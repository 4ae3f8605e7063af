//! Filed: how `watched` keeps nodes, those of a label or all: by a value that they have (`Equals`), or in the order of properties
//! (`InOrder`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{Context, Expr, NodeId, Symbol, Value};

use super::scan;
use super::spots::{Spot, Spots};
use crate::index::key::{self, Place, Places};
use crate::view::View;

/// Nodes that are kept, at most: about 200 bytes each. Of more none are kept, and whoever looks for some looks at all.
const NODES_MAX: usize = 1_000_000;

/// As `NODES_MAX`, for the nodes of a label, which are in one list.
const OF_LABEL_MAX: usize = 1 << 16;

/// How nodes are looked at.
#[derive(Clone, Copy)]
pub(super) struct Sight<'s> {
    pub view: &'s dyn View,
    pub context: &'s dyn Context,
}

impl Sight<'_> {
    fn is_of(self, node: NodeId, label: Option<Symbol>) -> bool {
        label.is_none_or(|label| self.view.has_label(node, label))
    }

    fn each(self, label: Option<Symbol>, each: &mut dyn FnMut(NodeId) -> bool) {
        match label {
            Some(label) => self.view.labelled(label, each),
            None => self.view.nodes(each),
        }
    }
}

/// The value of a node.
pub(super) enum Of {
    /// All are at one place.
    Nothing,
    Property(Symbol),
    /// An expression over the node in this slot of a row of the plan, which has `width` slots.
    Made {
        expr: Expr,
        slot: usize,
        width: usize,
    },
}

impl Of {
    /// Where the value of a node lies. Where it fails to be made, whoever looks for any value must find the node, and say so.
    fn place(&self, node: NodeId, sight: Sight<'_>) -> Option<Place> {
        match self {
            Of::Nothing => Some(key::LABEL),
            Of::Property(key) => key::equal(&sight.view.property(node, *key)),
            Of::Made { expr, slot, width } => {
                let mut row = vec![Value::Null; *width];
                row[*slot] = Value::Node(node);
                expr.evaluate(&row, sight.context).map_or(Some(key::FAILS), |value| key::equal(&value))
            }
        }
    }
}

/// Nodes by where they lie.
pub(super) trait Filed: Sized {
    type Where: Clone + PartialEq;

    fn label(&self) -> Option<Symbol>;

    fn fits(&self) -> bool;

    /// Takes in how a node is now. Gives where it was and where it is.
    fn follow(&mut self, node: NodeId, sight: Sight<'_>) -> (Option<Self::Where>, Option<Self::Where>);

    /// With all nodes that belong here; None where they are too many.
    fn filled(mut self, sight: Sight<'_>) -> Option<Self> {
        let mut fits = true;
        sight.each(self.label(), &mut |node| {
            self.follow(node, sight);
            fits = self.fits();
            fits
        });
        fits.then_some(self)
    }
}

/// By a value that equals others.
pub(super) struct Equals {
    label: Option<Symbol>,
    of: Of,
    /// In the order of their ids.
    nodes: FxHashMap<Place, Arc<Vec<NodeId>>>,
    places: FxHashMap<NodeId, Place>,
}

impl Equals {
    pub fn new(label: Option<Symbol>, of: Of) -> Equals {
        Equals { label, of, nodes: FxHashMap::default(), places: FxHashMap::default() }
    }

    pub fn at(&self, place: Place) -> Arc<Vec<NodeId>> {
        self.nodes.get(&place).cloned().unwrap_or_default()
    }
}

impl Filed for Equals {
    type Where = Place;

    fn label(&self) -> Option<Symbol> {
        self.label
    }

    fn fits(&self) -> bool {
        self.places.len() <= if matches!(self.of, Of::Nothing) { OF_LABEL_MAX } else { NODES_MAX }
    }

    fn follow(&mut self, node: NodeId, sight: Sight<'_>) -> (Option<Place>, Option<Place>) {
        let before = self.places.get(&node).copied();
        let now = if sight.is_of(node, self.label) { self.of.place(node, sight) } else { None };
        if before == now {
            return (before, now);
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
        match now {
            Some(place) => {
                self.places.insert(node, place);
                scan::put(Arc::make_mut(self.nodes.entry(place).or_default()), node);
            }
            None => drop(self.places.remove(&node)),
        }
        (before, now)
    }
}

/// By properties that have an order. A node that lacks one of them, or has one that is compared with nothing, is not there.
pub(super) struct InOrder {
    label: Option<Symbol>,
    keys: Vec<Symbol>,
    nodes: Spots,
    /// The first of the places of each.
    first: FxHashMap<NodeId, Place>,
}

impl InOrder {
    pub fn new(label: Option<Symbol>, keys: Vec<Symbol>) -> InOrder {
        InOrder { label, keys, nodes: Spots::default(), first: FxHashMap::default() }
    }

    /// The nodes in these ranges, in the order of their ids; and how much had to be looked at.
    pub fn within(&self, ranges: &[Places]) -> (Vec<NodeId>, usize) {
        self.nodes.within(ranges)
    }
}

impl Filed for InOrder {
    type Where = Spot;

    fn label(&self) -> Option<Symbol> {
        self.label
    }

    fn fits(&self) -> bool {
        self.first.len() <= NODES_MAX
    }

    fn follow(&mut self, node: NodeId, sight: Sight<'_>) -> (Option<Spot>, Option<Spot>) {
        let place = |key: &Symbol| key::ordered(&sight.view.property(node, *key));
        let now: Option<Spot> = if sight.is_of(node, self.label) { self.keys.iter().map(place).collect() } else { None };
        let before = self.first.remove(&node).and_then(|first| self.nodes.remove(node, first));
        if let Some(spot) = &now {
            self.first.insert(node, spot[0]);
            self.nodes.insert(node, spot.clone());
        }
        (before, now)
    }
}
