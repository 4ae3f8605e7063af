//! Watched: nodes found by a value of theirs, a property or what an expression makes of several, and kept from tick to tick for
//! standing queries, which look for the same values again and again.
//!
//! A row of a standing query that looks for nodes by a value is not worked out again at every change, but only when a node that
//! changed has that value or had it. So what a change costs does not depend on how many rows there are.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, PatternNode};
use weir_model::{Context, Expr, NodeId, Symbol, Value};

use super::filed::{Equals, Filed, InOrder, Of, Sight};
use super::operators::Run;
use super::spots::{Ranges, Spot};
use crate::index::key::{self, Place, Places};
use crate::view::View;

/// To see that a node is in no range costs a small part of what a step of the evaluator does.
const LOOKS_PER_STEP: usize = 16;

/// Nodes found by ranges that are held until a row is done, at most.
const HELD_MAX: usize = 1_000_000;

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
    /// The order of what these lookups compare, by where they lie in the plan.
    Order(usize),
}

/// What was looked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Sought {
    At(Place),
    Within(Ranges),
}

/// What was looked for, and what was found.
pub type Asked = FxHashMap<(Which, Sought), Arc<Vec<NodeId>>>;

/// What changed with some nodes.
#[derive(Default)]
pub struct Moved {
    /// Where they are and were.
    pub places: Vec<(Which, Place)>,
    pub spots: Vec<(Which, Spot)>,
    /// Of these nothing is known any more.
    pub lost: Vec<Which>,
}

#[derive(Default)]
pub struct Watched {
    /// Nodes by a value; None where there are too many.
    equals: RefCell<FxHashMap<Which, Option<Equals>>>,
    in_order: RefCell<FxHashMap<Which, Option<InOrder>>>,
    /// What was looked for since somebody took it.
    asked: RefCell<Asked>,
    /// How many nodes of ranges are held in `asked`.
    held: Cell<usize>,
}

/// Whether labels and properties of the node decide the value, and nothing else does.
fn is_own(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::Clocked(_) => false,
        Expr::Call { function, .. } if !function.pure => false,
        _ => expr.children().into_iter().all(is_own),
    }
}

/// Of what is filed, what somebody looks for; filed now, if it is the first time.
fn filed_of<'f, F: Filed>(
    filed: &'f mut FxHashMap<Which, Option<F>>,
    which: Which,
    run: &Run,
    empty: impl FnOnce() -> F,
) -> Option<&'f F> {
    let view = run.reader.view.untracked()?;
    let context = &run.reader.over(view);
    filed.entry(which).or_insert_with(|| empty().filled(Sight { view, context })).as_ref()
}

/// Takes in that nodes have changed. Gives where they are and were.
fn follow<F: Filed>(
    filed: &mut FxHashMap<Which, Option<F>>,
    sight: Sight<'_>,
    changed: &[NodeId],
    lost: &mut Vec<Which>,
) -> Vec<(Which, F::Where)> {
    let mut moved = Vec::new();
    for (which, kept) in filed {
        let Some(filed) = kept else { continue };
        for node in changed {
            let (before, now) = filed.follow(*node, sight);
            let before = before.filter(|before| now.as_ref() != Some(before));
            moved.extend(now.into_iter().chain(before).map(|there| (*which, there)));
        }
        if !filed.fits() {
            *kept = None;
            lost.push(*which);
        }
    }
    moved
}

impl Watched {
    /// The nodes for which one of the lookups may be true; none where that is not kept.
    pub(super) fn find(&self, run: &Run, node: &PatternNode, lookups: &[Lookup], row: &[Value]) -> Option<Arc<Vec<NodeId>>> {
        let of = |operator| lookups.iter().filter(move |lookup| lookup.operator == operator);
        // Without a label, a node that has edges alone may have a made value, and nobody hears of it.
        let made = || of(Binary::Equal).find(|lookup| !node.labels.is_empty() && is_own(&lookup.of));
        let stored = lookups.iter().find(|lookup| lookup.key.is_some() && key::is_equality(lookup.operator));
        match stored.or_else(made).or_else(|| of(Binary::In).next()) {
            Some(lookup) => self.equal(run, node, lookup, row),
            None => self.within(run, node, lookups, row),
        }
    }

    fn equal(&self, run: &Run, node: &PatternNode, lookup: &Lookup, row: &[Value]) -> Option<Arc<Vec<NodeId>>> {
        let symbol = |name| run.prepared.symbol(name);
        let label = node.labels.first().map(|label| symbol(*label));
        let by = lookup.key.map_or(By::Made(std::ptr::from_ref(lookup).addr()), |key| By::Property(symbol(key)));
        let which = Which { label, by };
        let ranges = key::ranges(lookup.operator, &*lookup.value.look(row, run).ok()?)?;
        let made = || Of::Made { expr: lookup.of.clone(), slot: node.slot.0 as usize, width: row.len() };
        let mut filed = self.equals.borrow_mut();
        let empty = || Equals::new(label, lookup.key.map_or_else(made, |key| Of::Property(symbol(key))));
        let filed = filed_of(&mut filed, which, run, empty)?;
        run.budget.steps(ranges.len()).ok()?;
        let failing = matches!(by, By::Made(_)).then_some(key::FAILS);
        let places = ranges.iter().map(|range| range.first).chain(failing);
        let (mut asked, mut found) = (self.asked.borrow_mut(), Vec::new());
        for place in places {
            let nodes = filed.at(place);
            if !nodes.is_empty() {
                found.push(nodes.clone());
            }
            asked.insert((which, Sought::At(place)), nodes);
        }
        Some(match &found[..] {
            [] => Arc::default(),
            [one] => one.clone(),
            several => {
                let mut all: Vec<NodeId> = several.iter().flat_map(|nodes| nodes.iter().copied()).collect();
                all.sort_unstable();
                all.dedup();
                Arc::new(all)
            }
        })
    }

    /// By properties that are compared with values that have an order.
    fn within(&self, run: &Run, node: &PatternNode, lookups: &[Lookup], row: &[Value]) -> Option<Arc<Vec<NodeId>>> {
        let symbol = |name| run.prepared.symbol(name);
        let mut keys: Vec<Symbol> = Vec::new();
        let mut ranges = Ranges::new();
        for lookup in lookups {
            let Some(key) = lookup.key.map(symbol) else { continue };
            let of_it = key::ranges(lookup.operator, &*lookup.value.look(row, run).ok()?)?;
            // What is compared with nothing is nowhere.
            let range = of_it.first().copied().unwrap_or(Places::NOWHERE);
            match keys.iter().position(|known| *known == key) {
                Some(at) => ranges[at] = ranges[at].both(range),
                None => {
                    keys.push(key);
                    ranges.push(range);
                }
            }
        }
        if keys.is_empty() {
            return None;
        }
        let label = node.labels.first().map(|label| symbol(*label));
        let which = Which { label, by: By::Order(lookups.as_ptr().addr()) };
        let mut filed = self.in_order.borrow_mut();
        let filed = filed_of(&mut filed, which, run, || InOrder::new(label, keys))?;
        let (found, looked_at) = filed.within(&ranges);
        // Where that is too much, the next step of the row is its last.
        let _ = run.budget.steps(looked_at / LOOKS_PER_STEP);
        let found = Arc::new(found);
        let held = self.held.get() + found.len();
        // Of more it is noted one by one that they were looked at, as far as they are.
        let kept = if held <= HELD_MAX { found.clone() } else { Arc::default() };
        self.held.set(self.held.get() + kept.len());
        self.asked.borrow_mut().insert((which, Sought::Within(ranges)), kept);
        Some(found)
    }

    /// All nodes of a label, where these are kept.
    pub(super) fn all(&self, run: &Run, node: &PatternNode) -> Option<Arc<Vec<NodeId>>> {
        let label = run.prepared.symbol(*node.labels.first()?);
        let which = Which { label: Some(label), by: By::Label };
        let mut filed = self.equals.borrow_mut();
        let filed = filed_of(&mut filed, which, run, || Equals::new(Some(label), Of::Nothing))?;
        let found = filed.at(key::LABEL);
        self.asked.borrow_mut().insert((which, Sought::At(key::LABEL)), found.clone());
        Some(found)
    }

    /// What was looked for since this was asked last.
    pub fn take_asked(&self) -> Asked {
        self.held.set(0);
        self.asked.take()
    }

    /// Whether nothing is kept that changes of nodes would have to be taken in for.
    pub fn is_empty(&self) -> bool {
        self.equals.borrow().values().all(Option::is_none) && self.in_order.borrow().values().all(Option::is_none)
    }

    /// Takes in that nodes have changed.
    pub fn follow(&self, view: &dyn View, context: &dyn Context, changed: &[NodeId]) -> Moved {
        let (mut lost, sight) = (Vec::new(), Sight { view, context });
        let places = follow(&mut self.equals.borrow_mut(), sight, changed, &mut lost);
        let spots = follow(&mut self.in_order.borrow_mut(), sight, changed, &mut lost);
        Moved { places, spots, lost }
    }
}
