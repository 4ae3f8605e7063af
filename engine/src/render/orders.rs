//! Orders: the ways in which the rest of a pattern can be visited from a change of one of its atoms.
//!
//! What can be looked up or tested is, at once. Where several edges lead on, all orders are kept, and the walk chooses by the
//! edges there are: of a node of a million edges and one of three, those of the three are crossed and the others looked up among
//! the million. So a cycle costs what the smaller of two neighbourhoods costs, and a chain through a node of many edges ends
//! early where the other side of it is missing.
//!
//! Moves that follow the same edges lead to the same place, so there are at most as many pieces as sets of edges.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Atom, DeltaPath, Pattern, PatternEdge, Step};

use super::program::{Closing, EdgeView, Expansion, Move, Need, NodeView, Others, RenderError, Version, Way, place, refuse};
use crate::arrangement::edge_ranges;
use crate::view::Direction;

/// Larger patterns are visited in the order of the compiler.
const EDGES_MAX: usize = 6;

/// What the paths of a pattern have in common. There are as many paths as edges, so what each would find out anew is found out
/// here.
pub struct Shape<'p> {
    pattern: &'p Pattern,
    nodes: &'p [NodeView],
    edges: &'p [EdgeView],
    /// Of each node the edges at it.
    edges_at: Vec<Vec<usize>>,
    /// Of each node the others that it must differ from, ascending.
    nodes_apart: Vec<Vec<usize>>,
    /// Of each edge the others that it must differ from, ascending.
    edges_apart: Vec<Vec<usize>>,
    /// Of each atom the conditions that look at it.
    asking: Vec<Vec<usize>>,
    /// At how many atoms each condition looks.
    asked: Vec<usize>,
}

impl<'p> Shape<'p> {
    pub fn of(pattern: &'p Pattern, nodes: &'p [NodeView], edges: &'p [EdgeView]) -> Shape<'p> {
        let mut edges_at = vec![Vec::new(); nodes.len()];
        for (number, edge) in pattern.edges.iter().enumerate() {
            edges_at[edge.source].push(number);
            if edge.target != edge.source {
                edges_at[edge.target].push(number);
            }
        }
        let mut atoms: FxHashMap<usize, usize> = FxHashMap::default();
        for (number, view) in nodes.iter().enumerate() {
            let reads = view.reads.iter().map(|(_, slot)| *slot).chain(view.reads_all);
            atoms.extend(reads.chain([view.slot]).map(|slot| (slot, number)));
        }
        for (number, view) in edges.iter().enumerate() {
            let reads = view.reads.iter().map(|(_, slot)| *slot).chain(view.slot);
            atoms.extend(reads.map(|slot| (slot, nodes.len() + number)));
        }
        let (mut asking, mut asked) = (vec![Vec::new(); nodes.len() + edges.len()], Vec::new());
        for (number, condition) in pattern.conditions.iter().enumerate() {
            // Slots that the expression fills itself belong to nobody.
            let slots = condition.slots().into_iter().map(place);
            let mut of: Vec<usize> = slots.filter_map(|slot| atoms.get(&slot).copied()).collect();
            of.sort_unstable();
            of.dedup();
            of.iter().for_each(|atom| asking[*atom].push(number));
            asked.push(of.len());
        }
        let nodes_apart = by_end(&pattern.distinct_nodes, nodes.len());
        let edges_apart = by_end(&pattern.distinct_edges, edges.len());
        Shape { pattern, nodes, edges, edges_at, nodes_apart, edges_apart, asking, asked }
    }
}

/// Of each number below `count` those that it is paired with, ascending.
fn by_end(pairs: &[(usize, usize)], count: usize) -> Vec<Vec<usize>> {
    let mut others = vec![Vec::new(); count];
    for (a, b) in pairs.iter().filter(|(a, b)| a != b) {
        others[*a].push(*b);
        others[*b].push(*a);
    }
    for those in &mut others {
        those.sort_unstable();
        those.dedup();
    }
    others
}

pub fn needs_and_moves(shape: &Shape<'_>, path: &DeltaPath) -> Result<(Vec<Need>, Vec<Move>), RenderError> {
    let pattern = shape.pattern;
    let atom = match path.atom {
        Atom::Node(i) => i,
        Atom::Edge(j) => shape.nodes.len() + j,
    };
    let (mut preferred, mut position) = (Vec::new(), vec![usize::MAX; pattern.edges.len()]);
    for step in &path.steps {
        match step {
            Step::Expand { edge, .. } => {
                position[*edge] = preferred.len();
                preferred.push(*edge);
            }
            Step::Test { .. } => {}
            _ => return refuse("a pattern whose parts are not connected"),
        }
    }
    let chooses = preferred.len() <= EDGES_MAX;
    let mut orders =
        Orders { shape, atom, preferred, position, chooses, apart: None, moves: Vec::new(), begun: FxHashMap::default() };
    let mut state = State::new(shape);
    match path.atom {
        Atom::Node(node) => state.visit(node, shape),
        Atom::Edge(edge) => {
            state.cross(edge, shape);
            let edge = &pattern.edges[edge];
            let ends = [(edge.source, edge.target), (edge.target, edge.source)];
            orders.apart = ends.iter().any(|ends| pattern.distinct_nodes.contains(ends)).then(|| apart(pattern, edge));
            for node in [edge.source, edge.target] {
                if !state.visited[node] {
                    state.visit(node, shape);
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
    shape: &'p Shape<'p>,
    /// The number of the atom that changes.
    atom: usize,
    /// The edges in the order of the compiler.
    preferred: Vec<usize>,
    /// The place of each edge in `preferred`.
    position: Vec<usize>,
    /// Whether all orders are kept.
    chooses: bool,
    /// The condition that the ends of the edge that changes are two nodes, where they must be. It fails for few rows: it is the
    /// last thing to be asked.
    apart: Option<Expr>,
    moves: Vec<Move>,
    /// Where the moves begin that follow when these edges have been crossed.
    begun: FxHashMap<Vec<usize>, usize>,
}

/// How far a row is.
#[derive(Clone)]
struct State {
    visited: Vec<bool>,
    crossed: Vec<bool>,
    /// The nodes that have been visited, in the order in which they were.
    nodes: Vec<usize>,
    edges: Vec<usize>,
    /// Edges both of whose ends have been visited before them.
    closing: Vec<usize>,
    /// For each condition, at how many of its atoms it cannot look yet.
    missing: Vec<usize>,
    /// Conditions that have become testable and have not been tested.
    testable: Vec<usize>,
    /// How many conditions have been tested.
    tested_count: usize,
    /// How many edges have been crossed without a gap, from the first in the order of the compiler.
    preferred_count: usize,
}

impl State {
    fn new(shape: &Shape<'_>) -> State {
        State {
            visited: vec![false; shape.nodes.len()],
            crossed: vec![false; shape.edges.len()],
            nodes: Vec::new(),
            edges: Vec::new(),
            closing: Vec::new(),
            missing: shape.asked.clone(),
            testable: (0..shape.asked.len()).filter(|condition| shape.asked[*condition] == 0).collect(),
            tested_count: 0,
            preferred_count: 0,
        }
    }

    fn visit(&mut self, node: usize, shape: &Shape<'_>) {
        self.visited[node] = true;
        self.nodes.push(node);
        self.look_at(node, shape);
        for edge in &shape.edges_at[node] {
            let ends = &shape.pattern.edges[*edge];
            if !self.crossed[*edge] && self.visited[ends.source] && self.visited[ends.target] {
                self.closing.push(*edge);
            }
        }
    }

    fn cross(&mut self, edge: usize, shape: &Shape<'_>) {
        self.crossed[edge] = true;
        self.edges.push(edge);
        self.closing.retain(|closing| *closing != edge);
        self.look_at(shape.nodes.len() + edge, shape);
    }

    fn look_at(&mut self, atom: usize, shape: &Shape<'_>) {
        for condition in &shape.asking[atom] {
            self.missing[*condition] -= 1;
            if self.missing[*condition] == 0 {
                self.testable.push(*condition);
            }
        }
    }
}

impl Orders<'_> {
    /// Everything that follows on a state, at the end of the moves so far.
    fn go_on(&mut self, mut state: State) -> Result<(), RenderError> {
        self.test(&mut state);
        if let Some(edge) = state.closing.iter().copied().min_by_key(|edge| self.position[*edge]) {
            // From its source, where its properties lie.
            self.cross(edge, self.shape.pattern.edges[edge].source, &mut state);
            return self.go_on(state);
        }
        let leading = self.leading(&mut state);
        match leading.as_slice() {
            [] if state.tested_count < self.shape.asked.len() => refuse("a condition that asks for what is not in the pattern"),
            [] if self.preferred.iter().any(|edge| !state.crossed[*edge]) => refuse("a pattern whose parts are not connected"),
            [] => {
                self.moves.extend(self.apart.iter().map(|condition| Move::Test { condition: condition.clone() }));
                self.moves.push(Move::Done);
                self.share(&state);
                Ok(())
            }
            [(edge, from)] => {
                self.cross(*edge, *from, &mut state);
                self.go_on(state)
            }
            _ => self.choose(&leading, &state),
        }
    }

    /// The edges that could be crossed next, each from the end that has been visited; where all orders are too many, the first of
    /// them.
    fn leading(&self, state: &mut State) -> Vec<(usize, usize)> {
        let is_crossed = |edge: &&usize| state.crossed[**edge];
        state.preferred_count += self.preferred[state.preferred_count..].iter().take_while(is_crossed).count();
        let rest = self.preferred[state.preferred_count..].iter().filter(|edge| !state.crossed[**edge]);
        let mut leading = rest.filter_map(|edge| {
            let ends = &self.shape.pattern.edges[*edge];
            [ends.source, ends.target].into_iter().find(|end| state.visited[*end]).map(|from| (*edge, from))
        });
        if self.chooses { leading.collect() } else { leading.next().into_iter().collect() }
    }

    /// Where there is one order alone, everything has been found in it: the lists of what must not be found again are parts of
    /// that.
    fn share(&mut self, state: &State) {
        if self.chooses {
            return;
        }
        let slots: Arc<[usize]> = state.nodes.iter().map(|node| self.shape.nodes[*node].slot).collect();
        let edges: Arc<[usize]> = state.edges.as_slice().into();
        for step in &mut self.moves {
            if let Move::Expand(expansion) = step {
                for (others, found) in [(&mut expansion.other_nodes, &slots), (&mut expansion.other_edges, &edges)] {
                    if let Others::First(list, _) = others {
                        *list = found.clone();
                    }
                }
            }
        }
    }

    fn choose(&mut self, leading: &[(usize, usize)], state: &State) -> Result<(), RenderError> {
        let choice = self.moves.len();
        self.moves.push(Move::Choose(Vec::new()));
        let mut ways = Vec::new();
        for (edge, from) in leading {
            let mut crossed = state.edges.clone();
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
                    let same = Way {
                        edge: *edge,
                        from: self.shape.nodes[*from].slot,
                        direction: self.direction(*edge, *from),
                        at: *begun,
                    };
                    self.moves.push(Move::Choose(vec![same]));
                }
                None => {
                    self.begun.insert(crossed, self.moves.len());
                    self.go_on(state)?;
                }
            }
            ways.push(Way { edge: *edge, from: self.shape.nodes[*from].slot, direction: self.direction(*edge, *from), at });
        }
        self.moves[choice] = Move::Choose(ways);
        Ok(())
    }

    /// The other edges at the node where the atom changes. Of an edge that fits in both directions either end may be its source.
    fn needs(&self, atom: Atom) -> Vec<Need> {
        let node = match atom {
            Atom::Node(node) => node,
            Atom::Edge(edge) if self.shape.pattern.edges[edge].directed => self.shape.pattern.edges[edge].source,
            Atom::Edge(_) => return Vec::new(),
        };
        let need = |edge: &usize| Need {
            ranges: edge_ranges(self.direction(*edge, node), &self.shape.edges[*edge].kinds),
            version: self.version(self.shape.nodes.len() + edge),
        };
        self.shape.edges_at[node].iter().filter(|edge| atom != Atom::Edge(**edge)).map(need).collect()
    }

    fn version(&self, other: usize) -> Version {
        if other < self.atom { Version::After } else { Version::Before }
    }

    fn direction(&self, edge: usize, from: usize) -> Direction {
        let ends = &self.shape.pattern.edges[edge];
        match (ends.directed, ends.source == from) {
            (false, _) => Direction::Both,
            (true, true) => Direction::Outgoing,
            (true, false) => Direction::Incoming,
        }
    }

    /// The conditions for which everything is there.
    fn test(&mut self, state: &mut State) {
        state.testable.sort_unstable();
        state.tested_count += state.testable.len();
        let condition = |number: usize| Move::Test { condition: self.shape.pattern.conditions[number].clone() };
        self.moves.extend(state.testable.drain(..).map(condition));
    }

    fn check(&mut self, node: usize) {
        let view = &self.shape.nodes[node];
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
        let mut open: Vec<usize> = self.shape.edges_at[to].clone();
        open.retain(|edge| *edge != crossed && !state.crossed[*edge]);
        open.sort_unstable_by_key(|edge| self.position[*edge]);
        let closing = open.into_iter().filter_map(|edge| {
            let ends = &self.shape.pattern.edges[edge];
            let from = match (ends.source == to, ends.target == to) {
                (true, false) => ends.target,
                (false, true) => ends.source,
                _ => return None,
            };
            let (direction, version) = (self.direction(edge, from), self.version(self.shape.nodes.len() + edge));
            state.visited[from].then(|| Closing { edge, from: self.shape.nodes[from].slot, direction, version })
        });
        closing.collect()
    }

    /// Those of what is found already that must not be found again.
    fn others(&self, apart: &[Vec<usize>], what: usize, found: &[usize]) -> Vec<usize> {
        found.iter().copied().filter(|other| apart[what].binary_search(other).is_ok()).collect()
    }

    /// Whether that is all that is found, whatever it is.
    fn is_first(&self, apart: &[Vec<usize>], what: usize) -> bool {
        !self.chooses && apart[what].len() + 1 == apart.len()
    }

    fn cross(&mut self, edge: usize, from: usize, state: &mut State) {
        let shape = self.shape;
        let ends = &shape.pattern.edges[edge];
        let to = if ends.source == from { ends.target } else { ends.source };
        let bound = state.visited[to];
        let other_nodes = if bound {
            Others::Some(Vec::new())
        } else if self.is_first(&shape.nodes_apart, to) {
            Others::First(Arc::default(), state.nodes.len())
        } else {
            let others = self.others(&shape.nodes_apart, to, &state.nodes);
            Others::Some(others.into_iter().map(|node| shape.nodes[node].slot).collect())
        };
        let other_edges = if self.is_first(&shape.edges_apart, edge) {
            Others::First(Arc::default(), state.edges.len())
        } else {
            Others::Some(self.others(&shape.edges_apart, edge, &state.edges))
        };
        let closing = if bound { Vec::new() } else { self.closing(edge, to, state) };
        let version = self.version(shape.nodes.len() + edge);
        self.moves.push(Move::Expand(Expansion {
            edge,
            from: shape.nodes[from].slot,
            to: shape.nodes[to].slot,
            direction: self.direction(edge, from),
            version,
            bound,
            closing,
            other_nodes,
            other_edges,
        }));
        state.cross(edge, shape);
        if !shape.edges[edge].reads.is_empty() {
            self.moves.push(Move::Inspect { edge, version });
        }
        if !bound {
            state.visit(to, shape);
            self.check(to);
        }
    }
}
