//! Constants: what the nodes of a pattern are compared with, taken out of its program.
//!
//!     user = 'ann' AND amount > 5      =>      a program that reads user and amount, and the constants ['ann'], [5 ..]
//!
//! Queries that differ in constants alone so have one program, and a table of constants says whose matches a row makes. All
//! equalities are taken out, those with ids among them, and the ranges of one slot. A table says less than a condition
//! (`index::key`): long texts share their places with others. So the values and conditions come along, and are tested on the few
//! rows the table lets through.

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
    /// A node, and the slot that lies in a range.
    pub range: Option<(usize, usize)>,
}

/// Of one query.
#[derive(Debug, Default)]
pub struct Constants {
    /// For each slot of `Compared::equal`, in order.
    pub equal: Key,
    /// In any of these, each once.
    pub ranges: Vec<Places>,
    /// Nodes that can be but one, by its id.
    pub ids: SmallVec<[(usize, NodeId); 1]>,
    /// What was taken out: slots that equal a value,
    pub values: SmallVec<[(usize, Value); 2]>,
    /// and what asks otherwise.
    pub conditions: Vec<Expr>,
}

/// Where values lie that decide together.
pub type Key = SmallVec<[Place; 2]>;

/// Takes the constants out of the conditions of nodes.
pub fn take_out(nodes: &mut [NodeView], context: &GraphFree) -> (Compared, Constants) {
    let (mut compared, mut constants) = (Compared::default(), Constants::default());
    for (number, node) in nodes.iter_mut().enumerate() {
        let conditions: Vec<Expr> = std::mem::take(&mut node.conditions).into_iter().flat_map(conjuncts).collect();
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
            let found = comparison(&condition, node, context);
            let asks_for_same = matches!(condition, Expr::Binary { operator: Binary::Same, .. });
            let value = found.as_ref().filter(|(_, operator, _)| *operator == Binary::Equal && !asks_for_same);
            let value = value.map(|(slot, _, value)| (*slot, value.clone()));
            let taken = match found {
                Some((slot, Binary::Equal, value)) if equal.iter().all(|(other, _)| *other != slot) => {
                    place_of(&value, context.ids()).map(|place| equal.push((slot, place))).is_some()
                }
                Some((slot, operator, value)) if compared.range.is_none_or(|range| range == (number, slot)) => {
                    key::ranges(operator, &value).is_some_and(|places| {
                        compared.range = Some((number, slot));
                        ranges = Some(ranges.take().map_or(places.clone(), |before| key::both(before, &places)));
                        true
                    })
                }
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

/// Where a value of a row lies, for equality: a node by its id. None if nothing equals it.
pub fn place_of(value: &Value, ids: IdScheme) -> Option<Place> {
    match value {
        Value::Node(id) => Some(key::node(*id, ids)),
        value => key::equal(value),
    }
}

/// The node that the one in a slot must be, by its id or the text of it: all nodes for which the condition holds lie where that
/// one does.
fn named(condition: &Expr, own: usize, context: &GraphFree) -> Option<NodeId> {
    let Expr::Binary { operator: Binary::Equal | Binary::Same, left, right } = condition else { return None };
    let is_own_slot = |expr: &Expr| matches!(expr, Expr::Slot(slot) if slot.0 as usize == own);
    let is_own = |expr: &Expr| match expr {
        Expr::Call { function, arguments } => {
            matches!(function.name, "id" | "strId" | "elementId") && matches!(&arguments[..], [of] if is_own_slot(of))
        }
        expr => is_own_slot(expr),
    };
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
