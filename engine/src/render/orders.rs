//! Orders: the ways in which the rest of a pattern can be visited from a change of one of its atoms.
//!
//! What can be looked up or tested is, at once. Where several edges lead on, all orders are kept, and the walk chooses by the edges there
//! are: of a node of a million edges and one of three, those of the three are crossed and the others looked up among the million. So a
//! cycle costs what the smaller of two neighbourhoods costs, and a chain through a node of many edges ends early where the other
//! side of it is missing.
//!
//! Moves that follow the same edges lead to the same place, so there are at most as many pieces as sets of edges.

use rustc_hash::FxHashMap;
use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Atom, DeltaPath, Pattern, PatternEdge, Step};

use super::program::{Closing, EdgeView, Expansion, Move, Need, NodeView, RenderError, Version, Way, place, refuse};
use crate::arrangement::edge_ranges;
use crate::view::Direction;

/// Larger patterns are visited in the order of the compiler.
const EDGES_MAX: usize = 6;

pub fn needs_and_moves(
    pattern: &Pattern,
    path: &DeltaPath,
    nodes: &[NodeView],
    edges: &[EdgeView],
) -> Result<(Vec<Need>, Vec<Move>), RenderError> {
    let atom = match path.atom {
        Atom::Node(i) => i,
        Atom::Edge(j) => nodes.len() + j,
    };
    let mut preferred = Vec::new();
    for step in &path.steps {
        match step {
            Step::Expand { edge, .. } => preferred.push(*edge),
            Step::Test { .. } => {}
            _ => return refuse("a pattern whose parts are not connected"),
        }
    }
    let mut orders =
        Orders { pattern, nodes, edges, atom, preferred, apart: None, moves: Vec::new(), begun: FxHashMap::default() };
    let mut state = State::default();
    match path.atom {
        Atom::Node(node) => state.visited.push(node),
        Atom::Edge(edge) => {
            state.crossed.push(edge);
            let edge = &pattern.edges[edge];
            let ends = [(edge.source, edge.target), (edge.target, edge.source)];
            orders.apart = ends.iter().any(|ends| pattern.distinct_nodes.contains(ends)).then(|| apart(pattern, edge));
            for node in [edge.source, edge.target] {
                if !state.visited.contains(&node) {
                    state.visited.push(node);
                    orders.check(node);
                }
            }
        }
    }
    orders.go_on(state)?;
    Ok((orders.needs(path.atom), orders.moves))
}

fn apart(pattern: &Pattern, edge: &PatternEdge) -> Expr {
    let end = |node: usize| Box::new(Expr::Slot(pattern.nodes[node].slot));
    Expr::Not(Box::new(Expr::Binary { operator: Binary::Same, left: end(edge.source), right: end(edge.target) }))
}

struct Orders<'p> {
    pattern: &'p Pattern,
    nodes: &'p [NodeView],
    edges: &'p [EdgeView],
    /// The number of the atom that changes.
    atom: usize,
    /// The edges in the order of the compiler.
    preferred: Vec<usize>,
    /// That the ends of the edge that changes are two nodes, where they must be. Of few rows it is not so: it is the last thing to be asked.
    apart: Option<Expr>,
    moves: Vec<Move>,
    /// Where the moves begin that follow when these edges have been crossed.
    begun: FxHashMap<Vec<usize>, usize>,
}

/// How far a row is.
#[derive(Clone, Default)]
struct State {
    visited: Vec<usize>,
    crossed: Vec<usize>,
    tested: Vec<usize>,
}

impl Orders<'_> {
    /// Everything that follows on a state, at the end of the moves so far.
    fn go_on(&mut self, mut state: State) -> Result<(), RenderError> {
        self.test(&mut state);
        let closing = |edge: &&usize| {
            let shape = &self.pattern.edges[**edge];
            !state.crossed.contains(edge) && state.visited.contains(&shape.source) && state.visited.contains(&shape.target)
        };
        if let Some(edge) = self.preferred.iter().find(closing).copied() {
            // From its source, where its properties lie.
            self.cross(edge, self.pattern.edges[edge].source, &mut state);
            return self.go_on(state);
        }
        let mut leading: Vec<(usize, usize)> = Vec::new();
        for edge in self.preferred.iter().filter(|edge| !state.crossed.contains(edge)) {
            let shape = &self.pattern.edges[*edge];
            leading.extend(
                [shape.source, shape.target].into_iter().find(|end| state.visited.contains(end)).map(|from| (*edge, from)),
            );
        }
        if self.preferred.len() > EDGES_MAX {
            leading.truncate(1);
        }
        match leading.as_slice() {
            [] if state.tested.len() < self.pattern.conditions.len() => {
                refuse("a condition that asks for what is not in the pattern")
            }
            [] if self.preferred.iter().any(|edge| !state.crossed.contains(edge)) => {
                refuse("a pattern whose parts are not connected")
            }
            [] => {
                self.moves.extend(self.apart.iter().map(|condition| Move::Test { condition: condition.clone() }));
                self.moves.push(Move::Done);
                Ok(())
            }
            [(edge, from)] => {
                self.cross(*edge, *from, &mut state);
                self.go_on(state)
            }
            _ => self.choose(&leading, &state),
        }
    }

    fn choose(&mut self, leading: &[(usize, usize)], state: &State) -> Result<(), RenderError> {
        let choice = self.moves.len();
        self.moves.push(Move::Choose(Vec::new()));
        let mut ways = Vec::new();
        for (edge, from) in leading {
            let mut crossed = state.crossed.clone();
            crossed.push(*edge);
            crossed.sort_unstable();
            let mut state = state.clone();
            let at = self.moves.len();
            self.cross(*edge, *from, &mut state);
            // Whoever comes here has tested all that can be.
            self.test(&mut state);
            match self.begun.get(&crossed) {
                // Another way has led here.
                Some(begun) => {
                    let same =
                        Way { edge: *edge, from: self.nodes[*from].slot, direction: self.direction(*edge, *from), at: *begun };
                    self.moves.push(Move::Choose(vec![same]));
                }
                None => {
                    self.begun.insert(crossed, self.moves.len());
                    self.go_on(state)?;
                }
            }
            ways.push(Way { edge: *edge, from: self.nodes[*from].slot, direction: self.direction(*edge, *from), at });
        }
        self.moves[choice] = Move::Choose(ways);
        Ok(())
    }

    /// The other edges at the node where the atom changes. Of an edge that fits in both directions either end may be its source.
    fn needs(&self, atom: Atom) -> Vec<Need> {
        let node = match atom {
            Atom::Node(node) => node,
            Atom::Edge(edge) if self.pattern.edges[edge].directed => self.pattern.edges[edge].source,
            Atom::Edge(_) => return Vec::new(),
        };
        let at_node = |edge: &usize| {
            let shape = &self.pattern.edges[*edge];
            atom != Atom::Edge(*edge) && (shape.source == node || shape.target == node)
        };
        let need = |edge| Need {
            ranges: edge_ranges(self.direction(edge, node), &self.edges[edge].kinds),
            version: self.version(self.nodes.len() + edge),
        };
        (0..self.pattern.edges.len()).filter(at_node).map(need).collect()
    }

    fn version(&self, other: usize) -> Version {
        if other < self.atom { Version::After } else { Version::Before }
    }

    fn direction(&self, edge: usize, from: usize) -> Direction {
        let shape = &self.pattern.edges[edge];
        match (shape.directed, shape.source == from) {
            (false, _) => Direction::Both,
            (true, true) => Direction::Outgoing,
            (true, false) => Direction::Incoming,
        }
    }

    /// The conditions for which everything is there.
    fn test(&mut self, state: &mut State) {
        for (number, condition) in self.pattern.conditions.iter().enumerate() {
            if state.tested.contains(&number) {
                continue;
            }
            let there = |slot: usize| {
                let of_node = |node: &usize| {
                    let view = &self.nodes[*node];
                    view.slot == slot || view.reads_all == Some(slot) || view.reads.iter().any(|(_, read)| *read == slot)
                };
                let of_edge = |edge: &usize| {
                    let view = &self.edges[*edge];
                    view.slot == Some(slot) || view.reads.iter().any(|(_, read)| *read == slot)
                };
                state.visited.iter().any(of_node) || state.crossed.iter().any(of_edge)
            };
            let known = |slot: usize| {
                let nodes = self.nodes.iter().any(|view| {
                    view.slot == slot || view.reads_all == Some(slot) || view.reads.iter().any(|(_, read)| *read == slot)
                });
                nodes || self.edges.iter().any(|view| view.slot == Some(slot) || view.reads.iter().any(|(_, read)| *read == slot))
            };
            // Slots that the expression fills itself belong to nobody.
            if condition.slots().into_iter().map(place).all(|slot| there(slot) || !known(slot)) {
                state.tested.push(number);
                self.moves.push(Move::Test { condition: condition.clone() });
            }
        }
    }

    fn check(&mut self, node: usize) {
        let view = &self.nodes[node];
        let asks = !(view.labels.is_empty()
            && view.present.is_empty()
            && view.reads.is_empty()
            && view.reads_all.is_none()
            && view.conditions.is_empty());
        if asks {
            self.moves.push(Move::Check { node, version: self.version(node) });
        }
    }

    /// The other edges between a node and those that are visited.
    fn closing(&self, crossed: usize, to: usize, state: &State) -> Vec<Closing> {
        let open = self.preferred.iter().filter(|edge| **edge != crossed && !state.crossed.contains(edge));
        let closing = open.filter_map(|edge| {
            let shape = &self.pattern.edges[*edge];
            let from = match (shape.source == to, shape.target == to) {
                (true, false) => shape.target,
                (false, true) => shape.source,
                _ => return None,
            };
            let (direction, version) = (self.direction(*edge, from), self.version(self.nodes.len() + edge));
            state.visited.contains(&from).then(|| Closing { edge: *edge, from: self.nodes[from].slot, direction, version })
        });
        closing.collect()
    }

    fn cross(&mut self, edge: usize, from: usize, state: &mut State) {
        let shape = &self.pattern.edges[edge];
        let to = if shape.source == from { shape.target } else { shape.source };
        let bound = state.visited.contains(&to);
        let apart_from = |pairs: &[(usize, usize)], what: usize, found: &[usize]| -> Vec<usize> {
            let others = pairs.iter().filter_map(|(a, b)| match (*a == what, *b == what) {
                (true, false) => Some(*b),
                (false, true) => Some(*a),
                _ => None,
            });
            others.filter(|other| found.contains(other)).collect()
        };
        let other_nodes = if bound { Vec::new() } else { apart_from(&self.pattern.distinct_nodes, to, &state.visited) };
        let other_edges = apart_from(&self.pattern.distinct_edges, edge, &state.crossed);
        let closing = if bound { Vec::new() } else { self.closing(edge, to, state) };
        let version = self.version(self.nodes.len() + edge);
        self.moves.push(Move::Expand(Expansion {
            edge,
            from: self.nodes[from].slot,
            to: self.nodes[to].slot,
            direction: self.direction(edge, from),
            version,
            bound,
            closing,
            other_nodes: other_nodes.into_iter().map(|node| self.nodes[node].slot).collect(),
            other_edges,
        }));
        state.crossed.push(edge);
        if !self.edges[edge].reads.is_empty() {
            self.moves.push(Move::Inspect { edge, version });
        }
        if !bound {
            state.visited.push(to);
            self.check(to);
        }
    }
}
