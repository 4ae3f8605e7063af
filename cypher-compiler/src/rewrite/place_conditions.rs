//! Rule: each condition goes where it can be tested first.
//!
//! Over one node or one edge that the pattern finds (and the input row): onto it. Over the input row alone, nodes bound by
//! it included: a filter below the match. Over a named path: a filter above, because paths are made when the match is
//! complete; but over a shortest path: into its search, because it is the shortest of those that meet the condition. All
//! others stay, those over the list of a chain among them.

use weir_model::Expr;
use weir_model::plan::{Operator, Pattern, Slot};

use super::split_conditions::joined;
use crate::bind::{Draft, is_shortest};
use crate::lower::facts::has_chance;
use crate::{Options, walk};

enum Place {
    Node(usize),
    Edge(usize),
    Shortest(usize),
    Below,
    Above,
    Pattern,
}

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    walk::operators_mut(&mut draft.root, &mut |operator| {
        let Operator::Match { input, pattern } = operator else { return };
        let (mut below, mut above) = (Vec::new(), Vec::new());
        let mut stay = Vec::new();
        for condition in std::mem::take(&mut pattern.conditions) {
            match place(pattern, &condition) {
                Place::Node(node) => pattern.nodes[node].conditions.push(condition),
                Place::Edge(edge) => pattern.edges[edge].conditions.push(condition),
                Place::Shortest(edge) => {
                    let path = pattern.paths.iter().find(|path| path.edges == [edge]).map(|path| path.slot);
                    if let Some(chain) = &mut pattern.edges[edge].chain {
                        chain.path = path.filter(|path| walk::mentions(&condition, *path)).or(chain.path);
                        chain.whole.push(condition);
                    }
                }
                Place::Below => below.push(condition),
                Place::Above => above.push(condition),
                Place::Pattern => {
                    stay.push(condition);
                    continue;
                }
            }
            changed = true;
        }
        pattern.conditions = stay;
        if !below.is_empty() {
            let inner = std::mem::replace(&mut **input, Operator::Unit);
            **input = filter(inner, below);
        }
        if !above.is_empty() {
            let inner = std::mem::replace(operator, Operator::Unit);
            *operator = filter(inner, above);
        }
    });
    changed
}

fn filter(input: Operator, conditions: Vec<Expr>) -> Operator {
    Operator::Filter { input: Box::new(input), condition: joined(conditions) }
}

fn place(pattern: &Pattern, condition: &Expr) -> Place {
    let slots = walk::slots(condition);
    if let Some(place) = place_by_path(pattern, &slots) {
        return place;
    }
    let new_node = |i: &usize| !pattern.nodes[*i].bound && slots.contains(&pattern.nodes[*i].slot);
    let new_edge = |i: &usize| !pattern.edges[*i].bound && pattern.edges[*i].slot.is_some_and(|slot| slots.contains(&slot));
    let nodes: Vec<usize> = (0..pattern.nodes.len()).filter(new_node).collect();
    let edges: Vec<usize> = (0..pattern.edges.len()).filter(new_edge).collect();
    match (nodes.as_slice(), edges.as_slice()) {
        // Chance is asked for each match, and not once for all that one row leads to.
        ([], []) if has_chance(condition) => Place::Above,
        ([], []) => Place::Below,
        ([node], []) => Place::Node(*node),
        ([], [edge]) if pattern.edges[*edge].chain.is_none() => Place::Edge(*edge),
        _ => Place::Pattern,
    }
}

/// Where a condition belongs that is over paths or shortest chains.
fn place_by_path(pattern: &Pattern, slots: &[Slot]) -> Option<Place> {
    let mut paths = pattern.paths.iter().filter(|path| slots.contains(&path.slot));
    let mut shortest: Vec<usize> = (0..pattern.edges.len())
        .filter(|edge| is_shortest(&pattern.edges[*edge]) && pattern.edges[*edge].slot.is_some_and(|slot| slots.contains(&slot)))
        .collect();
    let others = paths.any(|path| match path.edges.as_slice() {
        [edge] if is_shortest(&pattern.edges[*edge]) => {
            shortest.push(*edge);
            false
        }
        _ => true,
    });
    shortest.dedup();
    match shortest.as_slice() {
        [] if others => Some(Place::Above),
        [] => None,
        [edge] if !others => Some(Place::Shortest(*edge)),
        _ => Some(Place::Above),
    }
}
