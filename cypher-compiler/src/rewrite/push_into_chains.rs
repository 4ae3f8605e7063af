//! Rule: what holds of every edge or node of a chain is tested while the chain is followed.
//!
//! `all(r IN rs WHERE …)` over the edges of a chain, `all(n IN nodes(p) WHERE …)` over a path of chains, and the same with
//! `none`, go into the chains, so that a chain that breaks the condition is left at once. Where the path has more to it than
//! one chain the condition stays as well.

use weir_model::Expr;
use weir_model::expression::Quantifier;
use weir_model::plan::{Operator, Pattern, Slot};

use crate::bind::{Draft, is_shortest};
use crate::{Options, walk};

/// What a quantifier runs over.
enum Over {
    /// The list of a chain.
    Edges(usize),
    EdgesOfPath(usize),
    NodesOfPath(usize),
}

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    walk::operators_mut(&mut draft.root, &mut |operator| {
        let Operator::Match { pattern, .. } = operator else { return };
        if pattern.edges.iter().all(|edge| edge.chain.is_none()) {
            return;
        }
        for condition in std::mem::take(&mut pattern.conditions) {
            let settled = match pushed(pattern, &condition) {
                Some(settled) => {
                    changed = true;
                    settled
                }
                None => false,
            };
            if !settled {
                pattern.conditions.push(condition);
            }
        }
    });
    changed
}

/// Puts the condition into the chains it is about. Answers whether nothing is left of it.
fn pushed(pattern: &mut Pattern, condition: &Expr) -> Option<bool> {
    let Expr::Quantifier { kind, slot, list, condition } = condition else { return None };
    let each = match kind {
        Quantifier::All => (**condition).clone(),
        // Of each the opposite; null is neither.
        Quantifier::None => Expr::Not(condition.clone()),
        Quantifier::Any | Quantifier::Single => return None,
    };
    let over = over(pattern, list)?;
    let mentioned = walk::slots(condition);
    let edges = match over {
        Over::Edges(edge) => vec![edge],
        Over::EdgesOfPath(path) | Over::NodesOfPath(path) => pattern.paths[path].edges.clone(),
    };
    let chains: Vec<usize> = edges.iter().copied().filter(|edge| pattern.edges[*edge].chain.is_some()).collect();
    if chains.is_empty() || !chains.iter().all(|chain| known(pattern, *chain, &mentioned)) {
        return None;
    }
    for edge in &chains {
        let Some(chain) = &mut pattern.edges[*edge].chain else { continue };
        match over {
            Over::NodesOfPath(_) => chain.nodes.push((*slot, each.clone())),
            _ => chain.edges.push((*slot, each.clone())),
        }
    }
    Some(edges.len() == 1)
}

fn over(pattern: &Pattern, list: &Expr) -> Option<Over> {
    match list {
        Expr::Slot(slot) => {
            let edge = pattern.edges.iter().position(|edge| edge.chain.is_some() && edge.slot == Some(*slot))?;
            Some(Over::Edges(edge))
        }
        Expr::Call { function, arguments } => {
            let [Expr::Slot(slot)] = arguments.as_slice() else { return None };
            let path = pattern.paths.iter().position(|path| path.slot == *slot)?;
            match function.name {
                "nodes" => Some(Over::NodesOfPath(path)),
                "relationships" => Some(Over::EdgesOfPath(path)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether everything the condition names is there when the chain is followed: what the row brings, and, as a shortest chain
/// comes last, for that all else but the paths.
fn known(pattern: &Pattern, chain: usize, mentioned: &[Slot]) -> bool {
    let last = is_shortest(&pattern.edges[chain]);
    let node = pattern.nodes.iter().any(|node| !node.bound && !last && mentioned.contains(&node.slot));
    let edge = pattern.edges.iter().any(|edge| {
        let later = !edge.bound && (!last || is_shortest(edge));
        later && edge.slot.is_some_and(|slot| mentioned.contains(&slot))
    });
    let path = pattern.paths.iter().any(|path| mentioned.contains(&path.slot));
    !(node || edge || path)
}
