//! The paths of the delta join: for everything that can change, how the rest of the pattern is found from there.

use weir_model::plan::{Atom, DeltaPath, Pattern, Step};

use crate::lower::order::Order;

/// Patterns of more edges have no paths. What is kept of one, and the time to make it, grow with the square of it: 256 in a chain
/// take some 10 MB, and several times that where each node is compared with the next.
pub const EDGES_MAX: usize = 256;

/// One path for each edge, and for each node that anything depends on: a node without labels, conditions and reads never changes,
/// because every id is a node, except where it is all there is. An error is how many edges there are, where they are too many.
pub fn paths(pattern: &Pattern) -> Result<Vec<DeltaPath>, usize> {
    if pattern.edges.len() > EDGES_MAX {
        return Err(pattern.edges.len());
    }
    let alone = pattern.nodes.len() == 1 && pattern.edges.is_empty();
    let watched = |i: &usize| {
        let node = &pattern.nodes[*i];
        let reads = !node.reads.is_empty() || node.reads_all.is_some();
        !node.labels.is_empty() || !node.conditions.is_empty() || reads || alone
    };
    let begun = Order::new(pattern).on_all_sides();
    let nodes = (0..pattern.nodes.len()).filter(watched).map(|i| {
        let mut order = begun.clone();
        order.given(i);
        DeltaPath { atom: Atom::Node(i), steps: finish(order) }
    });
    let edges = (0..pattern.edges.len()).map(|j| {
        let mut order = begun.clone();
        order.given_edge(j);
        DeltaPath { atom: Atom::Edge(j), steps: finish(order) }
    });
    Ok(nodes.chain(edges).collect())
}

fn finish(mut order: Order<'_>) -> Vec<Step> {
    loop {
        order.test();
        if order.expand() {
            continue;
        }
        match order.best_start(&|_| false, &|_| false) {
            Some(node) => order.enter(Step::Scan { node, lookups: Vec::new() }),
            None => return order.steps,
        }
    }
}

/// Pairs of a node and a branch of it, and of branches of one node, in the tree below `root`: branches must be satisfied by
/// different neighbours, and no node is a neighbour of its own.
pub fn siblings(pattern: &Pattern, root: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut reached = vec![false; pattern.nodes.len()];
    let mut waiting = vec![root];
    reached[root] = true;
    while let Some(node) = waiting.pop() {
        let mut branches = Vec::new();
        for edge in &pattern.edges {
            let far = match (edge.source == node, edge.target == node) {
                (true, false) => edge.target,
                (false, true) => edge.source,
                _ => continue,
            };
            if !reached[far] {
                reached[far] = true;
                branches.push(far);
            }
        }
        for (i, right) in branches.iter().enumerate() {
            pairs.push((node, *right));
            pairs.extend(branches[..i].iter().map(|left| (*left, *right)));
        }
        waiting.extend(branches);
    }
    pairs.sort_unstable();
    pairs
}
