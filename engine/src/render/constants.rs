//! Constants: what the nodes of a pattern are compared with, taken out of its program.
//!
//!     user = 'ann' AND amount > 5      =>      a program that reads user and amount, and the constants ['ann'], [5 ..]
//!
//! Queries that differ in constants alone so have one program, and a table of constants says whose matches a row makes. All
//! equalities are taken out, and the ranges of one slot. A table says less than a condition (`index::key`): long texts share
//! their places with others. So the values and conditions come along, and are tested on the few rows the table lets through.

use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::{Expr, GraphFree, Value};

use super::program::NodeView;
use crate::index::key::{self, Place, Places};

/// The slots that constants were compared with.
#[derive(Debug, Default)]
pub struct Compared {
    /// Node by node, the slots that equal a constant, ascending.
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
            let found = comparison(&condition, node, context);
            let asks_for_same = matches!(condition, Expr::Binary { operator: Binary::Same, .. });
            let value = found.as_ref().filter(|(_, operator, _)| *operator == Binary::Equal && !asks_for_same);
            let value = value.map(|(slot, _, value)| (*slot, value.clone()));
            let taken = match found {
                Some((slot, Binary::Equal, value)) if equal.iter().all(|(other, _)| *other != slot) => {
                    key::equal(&value).map(|place| equal.push((slot, place))).is_some()
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
