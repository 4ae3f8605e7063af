//! Rule: each condition goes where it can be tested first.
//!
//! Over one node or one edge that the pattern finds (and the input row): onto it. Over the input row alone, nodes bound by
//! it included: a filter below the match. Over a named path: a filter above, because paths are made when the match is complete. All others stay.

use weir_model::Expr;
use weir_model::plan::{Operator, Pattern};

use crate::bind::Draft;
use crate::{Options, walk};

enum Place {
    Node(usize),
    Edge(usize),
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

fn filter(input: Operator, mut conditions: Vec<Expr>) -> Operator {
    let condition = if conditions.len() == 1 { conditions.remove(0) } else { Expr::And(conditions) };
    Operator::Filter { input: Box::new(input), condition }
}

fn place(pattern: &Pattern, condition: &Expr) -> Place {
    if pattern.paths.iter().any(|path| walk::mentions(condition, path.slot)) {
        return Place::Above;
    }
    let new_node = |i: &usize| !pattern.nodes[*i].bound && walk::mentions(condition, pattern.nodes[*i].slot);
    let new_edge =
        |i: &usize| !pattern.edges[*i].bound && pattern.edges[*i].slot.is_some_and(|slot| walk::mentions(condition, slot));
    let nodes: Vec<usize> = (0..pattern.nodes.len()).filter(new_node).collect();
    let edges: Vec<usize> = (0..pattern.edges.len()).filter(new_edge).collect();
    match (nodes.as_slice(), edges.as_slice()) {
        ([], []) => Place::Below,
        ([node], []) => Place::Node(*node),
        ([], [edge]) => Place::Edge(*edge),
        _ => Place::Pattern,
    }
}
