//! Patterns taken apart: what a delta join can follow, what is joined by value, and what is looked for row by row.
//!
//! A pattern falls into parts that no edge connects; those are joined. A part of single edges is one maintained `Match`. In a
//! part with chains or named paths one piece of single edges is maintained, and the rest is looked for from there. What a chain
//! asks for while it is followed (`all(r IN rs WHERE r.w = c.i)`, and of a shortest one whatever is asked of its path) is found
//! before it, wherever it lies.

use weir_model::plan::{Operator, Pattern, PatternPath, Slot};
use weir_model::{Expr, Value, plan};

use super::any::{Maintain, each};
use super::clock::is_clocked;
use super::delta::EDGES_MAX;
use crate::bind::{Holds, is_shortest, is_true};
use crate::functions;
use crate::lower::anchors::is_exact;
use crate::lower::orders::anchored;

/// The pattern of a MATCH that goes on from nodes of the one before, taken into it. The conditions of the first stay.
pub fn merged(input: Operator, pattern: Pattern) -> Result<Operator, Box<(Operator, Pattern)>> {
    match input {
        Operator::Filter { input, condition } => match merged(*input, pattern) {
            Ok(input) => Ok(Operator::Filter { input: Box::new(input), condition }),
            Err(apart) => {
                let (input, pattern) = *apart;
                Err(Box::new((Operator::Filter { input: Box::new(input), condition }, pattern)))
            }
        },
        Operator::Match { input, pattern: mut first } if matches!(*input, Operator::Unit) => {
            let place = |slot: Slot| first.nodes.iter().position(|node| node.slot == slot);
            let known = pattern.nodes.iter().all(|node| !node.bound || place(node.slot).is_some());
            let too_many = first.edges.len() + pattern.edges.len() > EDGES_MAX;
            if !known || too_many || pattern.edges.iter().any(|edge| edge.bound) {
                return Err(Box::new((Operator::Match { input, pattern: first }, pattern)));
            }
            let mut pattern = pattern;
            compare_known(&mut pattern, &first);
            let mut places = Vec::new();
            for mut node in pattern.nodes {
                let Some(at) = first.nodes.iter().position(|known| node.bound && known.slot == node.slot) else {
                    places.push(first.nodes.len());
                    let own = |condition: &Expr| condition.slots().iter().all(|slot| *slot == node.slot);
                    let (own, across) = std::mem::take(&mut node.conditions).into_iter().partition::<Vec<_>, _>(own);
                    // What looks at the rows below looks across the parts of one pattern now.
                    node.conditions = own;
                    first.conditions.extend(across);
                    first.nodes.push(node);
                    continue;
                };
                places.push(at);
                let labels = &mut first.nodes[at].labels;
                node.labels.into_iter().for_each(|label| {
                    if !labels.contains(&label) {
                        labels.push(label);
                    }
                });
            }
            let edges_before = first.edges.len();
            for mut edge in pattern.edges {
                if edge.chain.is_none() {
                    let own = |condition: &Expr| condition.slots().iter().all(|slot| Some(*slot) == edge.slot);
                    let (own, across) = std::mem::take(&mut edge.conditions).into_iter().partition::<Vec<_>, _>(own);
                    edge.conditions = own;
                    first.conditions.extend(across);
                }
                let (source, target) = (places[edge.source], places[edge.target]);
                first.edges.push(plan::PatternEdge { source, target, ..edge });
            }
            let moved = |(a, b): (usize, usize)| (a + edges_before, b + edges_before);
            first.distinct_edges.extend(pattern.distinct_edges.into_iter().map(moved));
            first.paths.extend(pattern.paths.into_iter().map(|path| PatternPath {
                start: places[path.start],
                edges: path.edges.into_iter().map(|edge| edge + edges_before).collect(),
                ..path
            }));
            first.conditions.extend(pattern.conditions);
            Ok(Operator::Match { input, pattern: first })
        }
        other => Err(Box::new((other, pattern))),
    }
}

/// To a pattern that goes on from a node, `id(n) = e` compares it with what is found; to the two together it would be an anchor,
/// which takes more. Some other form of the id is none.
fn compare_known(pattern: &mut Pattern, first: &Pattern) {
    let Some(same) = functions::find("coalesce") else { return };
    let nodes = pattern.nodes.iter_mut().flat_map(|node| &mut node.conditions);
    let edges = pattern.edges.iter_mut().flat_map(|edge| &mut edge.conditions);
    for condition in nodes.chain(edges).chain(&mut pattern.conditions) {
        let is_anchor = first.nodes.iter().any(|node| anchored(condition, node.slot).is_some()) && !is_exact(condition);
        if let Expr::Binary { left, right, .. } = condition
            && is_anchor
        {
            let is_id = |side: &Expr| matches!(side, Expr::Call { function, .. } if matches!(function.name, "id" | "strId"));
            let id = if is_id(left) { left } else { right };
            let own = std::mem::replace(&mut **id, Expr::Literal(Value::Null));
            **id = Expr::Call { function: same, arguments: vec![own] };
        }
    }
}

/// For each node the number of its part: the smallest node in it.
fn parts(pattern: &Pattern, connects: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..pattern.nodes.len()).collect();
    for edge in (0..pattern.edges.len()).filter(|edge| connects(*edge)) {
        unite(&mut parts, pattern.edges[edge].source, pattern.edges[edge].target);
    }
    parts
}

/// For each node its part. That two chains share no edge is only seen where both are looked for.
fn parts_looked_for(pattern: &Pattern) -> Vec<usize> {
    let mut parts = parts(pattern, |_| true);
    for (a, b) in &pattern.distinct_edges {
        if pattern.edges[*a].chain.is_some() || pattern.edges[*b].chain.is_some() {
            unite(&mut parts, pattern.edges[*a].source, pattern.edges[*b].source);
        }
    }
    parts
}

fn unite(parts: &mut [usize], a: usize, b: usize) {
    let (less, more) = (parts[a].min(parts[b]), parts[a].max(parts[b]));
    parts.iter_mut().filter(|part| **part == more).for_each(|part| *part = less);
}

/// What the conditions look at that are tested while a chain is followed.
pub fn chain_slots(edge: &plan::PatternEdge) -> impl Iterator<Item = Slot> {
    let tested = |chain: &plan::Chain| -> Vec<Slot> {
        let each = chain.edges.iter().chain(&chain.nodes).map(|(_, condition)| condition);
        each.chain(&chain.whole).flat_map(Expr::slots).collect()
    };
    edge.chain.as_ref().map(tested).unwrap_or_default().into_iter()
}

/// For each chain that asks for one of them, itself and a node of the pattern, or an end of an edge.
fn asked_by_chains(pattern: &Pattern) -> Vec<(usize, usize)> {
    let mut asked = Vec::new();
    for (chain, edge) in pattern.edges.iter().enumerate().filter(|(_, edge)| edge.chain.is_some()) {
        for slot in chain_slots(edge) {
            let nodes = pattern.nodes.iter().position(|node| node.slot == slot);
            let of_edge =
                |(at, edge): (usize, &plan::PatternEdge)| (at != chain && edge.slot == Some(slot)).then_some(edge.source);
            asked.extend(nodes.or_else(|| pattern.edges.iter().enumerate().find_map(of_edge)).map(|node| (chain, node)));
        }
    }
    asked
}

/// Takes out the conditions that look at rows from outside.
pub fn take_across(pattern: &mut Pattern, is_outer: &dyn Fn(&Slot) -> bool) -> Vec<Expr> {
    let mut across = Vec::new();
    let mut take = |conditions: &mut Vec<Expr>| {
        let looks_outside = |condition: &Expr| condition.slots().iter().any(is_outer);
        let (outside, inside) = std::mem::take(conditions).into_iter().partition::<Vec<_>, _>(looks_outside);
        *conditions = inside;
        across.extend(outside);
    };
    pattern.nodes.iter_mut().for_each(|node| take(&mut node.conditions));
    pattern.edges.iter_mut().for_each(|edge| take(&mut edge.conditions));
    take(&mut pattern.conditions);
    across
}

/// Some nodes and edges of a pattern as a pattern of their own, without conditions across.
fn piece(pattern: &Pattern, node: impl Fn(usize) -> bool, edge: impl Fn(usize) -> bool) -> Pattern {
    let nodes: Vec<usize> = (0..pattern.nodes.len()).filter(|at| node(*at)).collect();
    let edges: Vec<usize> = (0..pattern.edges.len()).filter(|at| edge(*at)).collect();
    // Ascending both.
    let node_at = |old: usize| nodes.binary_search(&old).ok();
    let edge_at = |old: usize| edges.binary_search(&old).ok();
    Pattern {
        nodes: nodes.iter().map(|at| pattern.nodes[*at].clone()).collect(),
        edges: edges
            .iter()
            .filter_map(|at| {
                let edge = pattern.edges[*at].clone();
                Some(plan::PatternEdge { source: node_at(edge.source)?, target: node_at(edge.target)?, ..edge })
            })
            .collect(),
        distinct_edges: pattern.distinct_edges.iter().filter_map(|(a, b)| Some((edge_at(*a)?, edge_at(*b)?))).collect(),
        paths: pattern
            .paths
            .iter()
            .filter_map(|path| {
                let edges = path.edges.iter().map(|edge| edge_at(*edge)).collect::<Option<Vec<_>>>()?;
                Some(PatternPath { slot: path.slot, start: node_at(path.start)?, edges })
            })
            .collect(),
        ..Pattern::default()
    }
}

fn is_lone_anchor(pattern: &Pattern) -> bool {
    let [node] = pattern.nodes.as_slice() else { return false };
    let conditions = node.conditions.iter().chain(&pattern.conditions);
    pattern.edges.is_empty() && conditions.into_iter().any(|condition| anchored(condition, node.slot).is_some())
}

/// Whether conditions that look at other pieces, too, say which node of this one is meant: every id names a node, whether or not
/// anything is known of it, so it cannot be one of those that a join would find.
fn is_entered(piece: &Pattern, across: &[Expr]) -> bool {
    piece.nodes.iter().any(|node| across.iter().any(|condition| anchored(condition, node.slot).is_some()))
}

impl Maintain<'_> {
    /// A pattern that stands for itself.
    pub fn source(&mut self, pattern: Pattern) -> Operator {
        let mut parts = parts_looked_for(&pattern);
        for (chain, node) in asked_by_chains(&pattern) {
            unite(&mut parts, pattern.edges[chain].source, node);
        }
        let mut numbers = parts.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() <= 1 {
            return self.part(pattern);
        }
        let mut pieces: Vec<Pattern> = numbers
            .iter()
            .map(|number| {
                let node = |at: usize| parts[at] == *number;
                piece(&pattern, node, |edge| node(pattern.edges[edge].source))
            })
            .collect();
        let slots: Vec<Vec<Slot>> = pieces.iter().map(Pattern::slots).collect();
        let mut across = Vec::new();
        for condition in pattern.conditions {
            let mentioned = condition.slots();
            let of: Vec<usize> = (0..pieces.len()).filter(|at| slots[*at].iter().any(|slot| mentioned.contains(slot))).collect();
            match of.as_slice() {
                [one] => pieces[*one].conditions.push(condition),
                _ => across.push(condition),
            }
        }
        for (a, b) in &pattern.distinct_edges {
            let (a, b) = (&pattern.edges[*a], &pattern.edges[*b]);
            if parts[a.source] != parts[b.source]
                && let (Some(a), Some(b)) = (a.slot, b.slot)
            {
                let (left, right) = (Box::new(Expr::Slot(a)), Box::new(Expr::Slot(b)));
                let same = Expr::Binary { operator: weir_model::expression::Binary::Same, left, right };
                across.push(Expr::Not(Box::new(same)));
            }
        }
        let mut joined = Operator::Unit;
        while !pieces.is_empty() {
            let next = pieces.iter().position(|piece| !is_entered(piece, &across)).unwrap_or(0);
            let mut piece = pieces.remove(next);
            if matches!(joined, Operator::Unit) {
                joined = self.source(piece);
                continue;
            }
            let known = &joined.filled() | &piece.slots().into_iter().collect();
            let all_known = |condition: &Expr| {
                pieces.is_empty() || slots.iter().flatten().all(|slot| known.contains(slot) || !condition.slots().contains(slot))
            };
            let is_entered = is_entered(&piece, &across);
            let (now, later) = across.into_iter().partition(all_known);
            across = later;
            if is_entered {
                piece.conditions.extend(now);
                joined = each(joined, |argument| Operator::Match { input: Box::new(argument), pattern: piece });
            } else {
                let right = self.source(piece);
                joined = self.joined(joined, right, now);
            }
        }
        joined
    }

    /// A connected pattern.
    fn part(&mut self, pattern: Pattern) -> Operator {
        if pattern.edges.iter().any(|edge| edge.chain.is_some()) || !pattern.paths.is_empty() {
            return self.begun_at_pieces(Operator::Unit, pattern);
        }
        if is_lone_anchor(&pattern) {
            return each(Operator::Unit, |argument| Operator::Match { input: Box::new(argument), pattern });
        }
        let mut pattern = pattern;
        let mut conditions = std::mem::take(&mut pattern.conditions);
        pattern.nodes.iter_mut().for_each(|node| conditions.append(&mut node.conditions));
        pattern.edges.iter_mut().for_each(|edge| conditions.append(&mut edge.conditions));
        let mut operator = Operator::Match { input: Box::new(Operator::Unit), pattern };
        let (mut free, mut above) = (Vec::new(), Vec::new());
        for mut condition in conditions.into_iter().filter(|condition| !is_true(condition)) {
            self.copy_reads(&mut operator, &mut condition);
            if crate::lower::facts::asks(self.draft, &condition) || is_clocked(&condition) {
                above.push(condition);
            } else {
                free.push(condition);
            }
        }
        if let Operator::Match { pattern, .. } = &mut operator {
            free.into_iter().for_each(|condition| place(pattern, condition));
        }
        self.filter(operator, above)
    }

    /// A pattern with chains or named paths over rows that its chains may ask for: of each part pieces of single edges, those
    /// that chains ask for among them, joined with each other and the rows; and from what is found so the rest.
    pub fn begun_at_pieces(&mut self, input: Operator, mut pattern: Pattern) -> Operator {
        let start = self.start(&pattern);
        let in_start = |pattern: &Pattern, edge: usize| {
            pattern.edges[edge].chain.is_none() && start[pattern.edges[edge].source] && start[pattern.edges[edge].target]
        };
        let mut outer = piece(&pattern, |node| start[node], |edge| in_start(&pattern, edge));
        outer.paths.clear();
        let (filled, of_start) = (input.filled(), outer.slots());
        let elsewhere: Vec<Slot> = pattern.slots().into_iter().filter(|slot| !of_start.contains(slot)).collect();
        let conditions = std::mem::take(&mut pattern.conditions);
        let (rest, own): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| condition.slots().iter().any(|slot| elsewhere.contains(slot)));
        outer.conditions = own;
        // What the rest needs of the edges that are bound: to be told apart from others, or to be in a path.
        let needed: Vec<bool> = (0..pattern.edges.len())
            .map(|edge| {
                let apart = pattern
                    .distinct_edges
                    .iter()
                    .any(|(a, b)| (*a == edge && !in_start(&pattern, *b)) || (*b == edge && !in_start(&pattern, *a)));
                !in_start(&pattern, edge) || apart || pattern.paths.iter().any(|path| path.edges.contains(&edge))
            })
            .collect();
        let mut outer_edges = outer.edges.iter_mut();
        let bound: Vec<usize> = (0..pattern.edges.len()).filter(|edge| in_start(&pattern, *edge)).collect();
        for edge in bound {
            if let Some(outer) = outer_edges.next()
                && needed[edge]
            {
                let slot = outer.slot.unwrap_or_else(|| self.draft.new_slot("", Holds::Edge));
                outer.slot = Some(slot);
                let inner = &mut pattern.edges[edge];
                (inner.slot, inner.bound) = (Some(slot), true);
                inner.conditions.clear();
                inner.reads.clear();
            }
        }
        for (node, _) in pattern.nodes.iter_mut().zip(&start).filter(|(_, start)| **start) {
            node.bound = true;
            node.labels.clear();
            node.conditions.clear();
            node.reads.clear();
            node.reads_all = None;
        }
        let mut inner = piece(&pattern, |_| true, |edge| needed[edge]);
        inner.conditions = rest;
        let across = take_across(&mut outer, &|slot| filled.contains(slot));
        let outer = self.source(outer);
        let begun = if matches!(input, Operator::Unit) { outer } else { self.joined(input, outer, across) };
        each(begun, |argument| Operator::Match { input: Box::new(argument), pattern: inner })
    }

    /// Which nodes are found before the chains are followed.
    fn start(&self, pattern: &Pattern) -> Vec<bool> {
        let pieces = parts(pattern, |edge| pattern.edges[edge].chain.is_none());
        let mut asked: Vec<usize> = asked_by_chains(pattern).into_iter().map(|(_, node)| pieces[node]).collect();
        // A search runs between two nodes that are there.
        let searches = pattern.edges.iter().filter(|edge| is_shortest(edge));
        asked.extend(searches.flat_map(|edge| [pieces[edge.source], pieces[edge.target]]));
        let parts = parts_looked_for(pattern);
        let mut begun: Vec<usize> = asked.clone();
        for part in (0..parts.len()).filter(|node| parts[*node] == *node) {
            let nodes: Vec<usize> = (0..parts.len()).filter(|node| parts[*node] == part).collect();
            let chained = pattern.edges.iter().any(|edge| edge.chain.is_some() && parts[edge.source] == part);
            if !chained {
                begun.extend(nodes.iter().map(|node| pieces[*node]));
            } else if !nodes.iter().any(|node| asked.contains(&pieces[*node])) {
                begun.push(self.best_piece(pattern, &pieces, &nodes));
            }
        }
        pieces.iter().map(|piece| begun.contains(piece)).collect()
    }

    /// The piece among those of some nodes that the fewest matches begin with, as far as the text tells.
    fn best_piece(&self, pattern: &Pattern, pieces: &[usize], among: &[usize]) -> usize {
        let weight = |piece: usize| {
            let nodes = || (0..pieces.len()).filter(move |node| pieces[*node] == piece).map(|node| &pattern.nodes[node]);
            let anchors = nodes().filter(|node| node.conditions.iter().any(|c| anchored(c, node.slot).is_some())).count();
            let restrictions: usize = nodes().map(|node| node.labels.len() + 2 * node.conditions.len()).sum();
            (anchors, restrictions)
        };
        let mut best = among.first().map_or(0, |node| pieces[*node]);
        for piece in among.iter().map(|node| pieces[*node]) {
            if weight(piece) > weight(best) {
                best = piece;
            }
        }
        best
    }
}

/// A condition on the node or edge it is about, or on the pattern where it is about several.
fn place(pattern: &mut Pattern, condition: Expr) {
    let mentioned = condition.slots();
    let has = |slots: Vec<Slot>| slots.iter().any(|slot| mentioned.contains(slot));
    let nodes: Vec<usize> = (0..pattern.nodes.len())
        .filter(|at| {
            let node = &pattern.nodes[*at];
            has(node.reads.iter().map(|(_, slot)| *slot).chain(node.reads_all).chain([node.slot]).collect())
        })
        .collect();
    let edges: Vec<usize> = (0..pattern.edges.len())
        .filter(|at| {
            let edge = &pattern.edges[*at];
            has(edge.reads.iter().map(|(_, slot)| *slot).chain(edge.slot).collect())
        })
        .collect();
    match (nodes.as_slice(), edges.as_slice()) {
        ([node], []) => pattern.nodes[*node].conditions.push(condition),
        ([], [edge]) => pattern.edges[*edge].conditions.push(condition),
        _ => pattern.conditions.push(condition),
    }
}
