//! Constants: what the nodes of a pattern are compared with, taken out of its program.
//!
//!     user = 'ann' AND amount > 5      =>      a program that reads user and amount, and the constants ['ann'], [5 ..]
//!
//! Queries that differ in constants alone so have one program, and a table of constants says whose matches a row makes. All
//! equalities are taken out, those with ids among them, and the ranges of one slot, as which a list of ids counts. A table says
//! less than a condition (`index::key`): long texts share their places with others. So the values and conditions come along, and
//! are tested on the few rows the table lets through.

use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::{Context, Expr, GraphFree, IdScheme, NodeId, Value};

use super::program::NodeView;
use crate::index::key::{self, Place, Places};

/// The slots that constants were compared with.
#[derive(Debug, Default)]
pub struct Compared {
    /// Node by node, the slots that equal a constant, ascending. That of the node itself is one where its id does.
    pub equal: Vec<(usize, SmallVec<[usize; 4]>)>,
    /// A node, and the slot that lies in a range: one of its properties, or its own slot where it is one of a list of nodes.
    pub range: Option<(usize, usize)>,
}

/// The constants of one pattern of a query.
#[derive(Debug, Default)]
pub struct Constants {
    /// Where the constant lies for each slot of `Compared::equal`, in order.
    pub equal: Key,
    /// Ranges, each once, one of which must hold the value in the slot of `Compared::range`.
    pub ranges: Vec<Places>,
    /// Nodes that can be but one, by its id.
    pub ids: SmallVec<[(usize, NodeId); 1]>,
    /// What was taken out: the slots that equal a value.
    pub values: SmallVec<[(usize, Value); 2]>,
    /// What was taken out: the conditions that ask otherwise.
    pub conditions: Vec<Expr>,
}

/// Where values lie that decide together.
pub type Key = SmallVec<[Place; 2]>;

/// Takes the constants out of the conditions of nodes.
pub fn take_out(nodes: &mut [NodeView], context: &GraphFree) -> (Compared, Constants) {
    for node in nodes.iter_mut() {
        node.conditions = std::mem::take(&mut node.conditions).into_iter().flat_map(conjuncts).collect();
    }
    // There is room for one range. A list of ids gets it only where no property is asked for by a range: those are more frequent.
    let is_range = |node: &NodeView, condition: &Expr| {
        let found = comparison(condition, node, context).filter(|(_, operator, _)| *operator != Binary::Equal);
        found.is_some_and(|(_, operator, value)| key::ranges(operator, &value).is_some())
    };
    let takes_lists = !nodes.iter().any(|node| node.conditions.iter().any(|condition| is_range(node, condition)));
    let mut taking = Taking { context, takes_lists, compared: Compared::default(), constants: Constants::default() };
    nodes.iter_mut().enumerate().for_each(|(number, node)| taking.take_from(number, node));
    (taking.compared, taking.constants)
}

/// What has been taken out of the nodes so far.
struct Taking<'c> {
    context: &'c GraphFree,
    /// Whether the place for a range is for lists of ids.
    takes_lists: bool,
    compared: Compared,
    constants: Constants,
}

/// What has been taken out of one node so far.
#[derive(Default)]
struct OfNode {
    /// Slots that equal a constant, and where that lies.
    equal: Vec<(usize, Place)>,
    /// Where the value in the slot of the range may lie, once that is one of this node.
    ranges: Option<Vec<Places>>,
}

/// What becomes of a condition.
enum Outcome {
    /// It stays with the node.
    Stays,
    /// It is taken out: a slot equals a value.
    Value(usize, Value),
    /// It is taken out as it is.
    Condition,
}

impl Taking<'_> {
    fn take_from(&mut self, number: usize, node: &mut NodeView) {
        let mut of_node = OfNode::default();
        for condition in std::mem::take(&mut node.conditions) {
            match self.take(number, node, &condition, &mut of_node) {
                Outcome::Stays => node.conditions.push(condition),
                Outcome::Value(slot, value) => self.constants.values.push((slot, value)),
                Outcome::Condition => self.constants.conditions.push(condition),
            }
        }
        let OfNode { mut equal, ranges } = of_node;
        let constants = &mut self.constants;
        constants.ranges.extend(ranges.into_iter().flatten());
        constants.ranges.sort_unstable();
        constants.ranges.dedup();
        equal.sort_unstable_by_key(|(slot, _)| *slot);
        if !equal.is_empty() {
            constants.equal.extend(equal.iter().map(|(_, place)| *place));
            self.compared.equal.push((number, equal.into_iter().map(|(slot, _)| slot).collect()));
        }
    }

    fn take(&mut self, number: usize, node: &NodeView, condition: &Expr, of_node: &mut OfNode) -> Outcome {
        let ids = self.context.ids();
        // A second id is asked for as anything else is.
        let id = named(condition, node.slot, self.context).filter(|_| of_node.equals_nothing(node.slot));
        if let Some(id) = id {
            of_node.equal.push((node.slot, key::node(id, ids)));
            // A long id does not show all of a node's.
            self.constants.ids.extend((!matches!(ids, IdScheme::Long { .. })).then_some((number, id)));
            return Outcome::Condition;
        }
        let mut places = Vec::new();
        let takes_list = self.takes_lists && self.has_room(number, node.slot);
        if takes_list && is_among(condition, node.slot, self.context, &mut places) {
            self.take_range((number, node.slot), places, of_node);
            return Outcome::Condition;
        }
        let Some((slot, operator, value)) = comparison(condition, node, self.context) else { return Outcome::Stays };
        let is_taken = if operator == Binary::Equal && of_node.equals_nothing(slot) {
            place_of(&value, ids).map(|place| of_node.equal.push((slot, place))).is_some()
        } else if self.has_room(number, slot) {
            key::ranges(operator, &value).map(|places| self.take_range((number, slot), places, of_node)).is_some()
        } else {
            false
        };
        let asks_for_same = matches!(condition, Expr::Binary { operator: Binary::Same, .. });
        match operator {
            _ if !is_taken => Outcome::Stays,
            Binary::Equal if !asks_for_same => Outcome::Value(slot, value),
            _ => Outcome::Condition,
        }
    }

    /// Whether a slot can be that of the range.
    fn has_room(&self, number: usize, slot: usize) -> bool {
        self.compared.range.is_none_or(|range| range == (number, slot))
    }

    fn take_range(&mut self, range: (usize, usize), places: Vec<Places>, of_node: &mut OfNode) {
        self.compared.range = Some(range);
        of_node.ranges = Some(within(of_node.ranges.take(), places));
    }
}

impl OfNode {
    /// Whether nothing was taken out yet that a slot equals.
    fn equals_nothing(&self, slot: usize) -> bool {
        self.equal.iter().all(|(other, _)| *other != slot)
    }
}

fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::And(all) => all.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

fn within(ranges: Option<Vec<Places>>, places: Vec<Places>) -> Vec<Places> {
    match ranges {
        Some(before) => key::both(before, &places),
        None => places,
    }
}

/// Where a value of a row lies, for equality: a node by its id. None if nothing equals it.
pub fn place_of(value: &Value, ids: IdScheme) -> Option<Place> {
    match value {
        Value::Node(id) => Some(key::node(*id, ids)),
        value => key::equal(value),
    }
}

/// As `place_of`, for ranges.
pub fn places_of(value: &Value, ids: IdScheme) -> SmallVec<[Place; 2]> {
    match value {
        Value::Node(id) => std::iter::once(key::node(*id, ids)).collect(),
        value => key::places(value),
    }
}

/// The node that the one in a slot must be, by its id or the text of it: all nodes for which the condition holds lie where that
/// one does.
fn named(condition: &Expr, own: usize, context: &GraphFree) -> Option<NodeId> {
    let Expr::Binary { operator: Binary::Equal | Binary::Same, left, right } = condition else { return None };
    let is_own = |expr: &Expr| is_id(expr, own) || is_slot(expr, own);
    let value = match (&**left, &**right) {
        (one, Expr::Literal(value)) | (Expr::Literal(value), one) if is_own(one) => value,
        _ => return None,
    };
    let id = context.ids().node_of(value)?;
    // `=` takes less than what names a node: the text of an id is not the id.
    let mut row = vec![Value::Null; own + 1];
    row[own] = Value::Node(id);
    condition.look(&row, context).is_ok_and(|value| value.holds()).then_some(id)
}

/// Whether the node in a slot must be one of some nodes, by a list of their ids or the texts of them, or by one or the other;
/// `places` are those of them.
fn is_among(condition: &Expr, own: usize, context: &GraphFree, places: &mut Vec<Places>) -> bool {
    let mut put = |id: NodeId| places.push(Places::only(key::node(id, context.ids())));
    match condition {
        Expr::Or(parts) => parts.iter().all(|part| is_among(part, own, context, places)),
        Expr::Binary { operator: Binary::In, left, right } if is_id(left, own) => {
            let Expr::Literal(Value::List(items)) = &**right else { return false };
            for item in &items[..] {
                // Where ids are integers a float may equal one. What names no node is the id of none.
                let whole = if let Value::Float(x) = item { Value::Integer(*x as i64) } else { item.clone() };
                context.ids().node_of(&whole).into_iter().for_each(&mut put);
            }
            true
        }
        condition => named(condition, own, context).map(put).is_some(),
    }
}

fn is_slot(expr: &Expr, own: usize) -> bool {
    matches!(expr, Expr::Slot(slot) if slot.0 as usize == own)
}

/// Whether it is the id of the node in a slot, or the text of it.
fn is_id(expr: &Expr, own: usize) -> bool {
    let Expr::Call { function, arguments } = expr else { return false };
    matches!(function.name, "id" | "strId" | "elementId") && matches!(&arguments[..], [of] if is_slot(of, own))
}

/// `slot operator constant`, for a property of the node.
fn comparison(condition: &Expr, node: &NodeView, context: &GraphFree) -> Option<(usize, Binary, Value)> {
    let Expr::Binary { operator, left, right } = condition else { return None };
    let slot = |expr: &Expr| match expr {
        Expr::Slot(slot) => node.reads.iter().map(|(_, read)| *read).find(|read| *read == slot.0 as usize),
        _ => None,
    };
    let constant = |expr: &Expr| expr.slots().is_empty().then(|| expr.evaluate(&[], context).ok()).flatten();
    let (slot, operator, value) = match (slot(left), slot(right)) {
        // What is the same lies at one place, as what is equal does.
        (Some(slot), None) if *operator == Binary::Same => (slot, Binary::Equal, constant(right)?),
        (Some(slot), None) => (slot, *operator, constant(right)?),
        (None, Some(slot)) => (slot, turned(*operator)?, constant(left)?),
        _ => return None,
    };
    let is_range = matches!(
        operator,
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual | Binary::StartsWith | Binary::In
    );
    (operator == Binary::Equal || is_range).then_some((slot, operator, value))
}

/// The operator with its sides exchanged.
fn turned(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Equal | Binary::Same => Binary::Equal,
        Binary::Less => Binary::Greater,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        _ => return None,
    })
}
