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
    let (mut compared, mut constants) = (Compared::default(), Constants::default());
    for node in nodes.iter_mut() {
        node.conditions = std::mem::take(&mut node.conditions).into_iter().flat_map(conjuncts).collect();
    }
    // There is place for one range. Lists of ids have it where no property is asked for by one: of those there are more.
    let is_range = |node: &NodeView, condition: &Expr| {
        let found = comparison(condition, node, context).filter(|(_, operator, _)| *operator != Binary::Equal);
        found.is_some_and(|(_, operator, value)| key::ranges(operator, &value).is_some())
    };
    let lists = !nodes.iter().any(|node| node.conditions.iter().any(|condition| is_range(node, condition)));
    for (number, node) in nodes.iter_mut().enumerate() {
        let conditions = std::mem::take(&mut node.conditions);
        let mut equal: Vec<(usize, Place)> = Vec::new();
        let mut ranges: Option<Vec<Places>> = None;
        for condition in conditions {
            // A second id is asked for as anything else is.
            let id = named(&condition, node.slot, context).filter(|_| equal.iter().all(|(other, _)| *other != node.slot));
            if let Some(id) = id {
                equal.push((node.slot, key::node(id, context.ids())));
                // A long id does not show all of a node's.
                constants.ids.extend((!matches!(context.ids(), IdScheme::Long { .. })).then_some((number, id)));
                constants.conditions.push(condition);
                continue;
            }
            let is_free = |slot: usize| compared.range.is_none_or(|range| range == (number, slot));
            let mut places = Vec::new();
            if lists && is_free(node.slot) && is_among(&condition, node.slot, context, &mut places) {
                compared.range = Some((number, node.slot));
                ranges = Some(within(ranges.take(), places));
                constants.conditions.push(condition);
                continue;
            }
            let found = comparison(&condition, node, context);
            let asks_for_same = matches!(condition, Expr::Binary { operator: Binary::Same, .. });
            let value = found.as_ref().filter(|(_, operator, _)| *operator == Binary::Equal && !asks_for_same);
            let value = value.map(|(slot, _, value)| (*slot, value.clone()));
            let taken = match found {
                Some((slot, Binary::Equal, value)) if equal.iter().all(|(other, _)| *other != slot) => {
                    place_of(&value, context.ids()).map(|place| equal.push((slot, place))).is_some()
                }
                Some((slot, operator, value)) if is_free(slot) => key::ranges(operator, &value).is_some_and(|places| {
                    compared.range = Some((number, slot));
                    ranges = Some(within(ranges.take(), places));
                    true
                }),
                _ => false,
            };
            match value {
                _ if !taken => node.conditions.push(condition),
                Some(value) => constants.values.push(value),
                None => constants.conditions.push(condition),
            }
        }
        constants.ranges.extend(ranges.into_iter().flatten());
        constants.ranges.sort_unstable();
        constants.ranges.dedup();
        equal.sort_unstable_by_key(|(slot, _)| *slot);
        if !equal.is_empty() {
            constants.equal.extend(equal.iter().map(|(_, place)| *place));
            compared.equal.push((number, equal.into_iter().map(|(slot, _)| slot).collect()));
        }
    }
    (compared, constants)
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
