//! The order in which a pattern is visited: one state for ad-hoc matches and for the paths of the delta join.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

use weir_model::Expr;
use weir_model::plan::{Pattern, PatternEdge, Slot, Step};

use crate::walk;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Node(usize),
    Edge(usize),
}

/// What is the same wherever a visit begins. The delta join begins at every node and every edge, so nothing is searched through
/// step by step.
struct Layout {
    /// Which part of the pattern fills a slot; slots not in here are filled by the input row.
    fills: HashMap<Slot, Part>,
    /// Of each node the edges at it.
    edges_at: Vec<Vec<usize>>,
    /// Of each node, and of each edge, the conditions that mention it.
    conditions_of_nodes: Vec<Vec<usize>>,
    conditions_of_edges: Vec<Vec<usize>>,
}

#[derive(Clone)]
pub struct Order<'a> {
    pattern: &'a Pattern,
    layout: Rc<Layout>,
    visited: Vec<bool>,
    crossed: Vec<bool>,
    /// Edges that touch what has been visited, the one to cross first on top: by weight, turn and number. Some have been crossed
    /// since, and some weigh more by now.
    leading: BinaryHeap<(usize, Reverse<u32>, Reverse<usize>)>,
    /// At how many edges from where the visit began each node was reached, if all sides of that take turns.
    distance: Option<Vec<usize>>,
    /// Nodes whose edges lead on only where no other does.
    resting: Vec<bool>,
    /// How much of what each condition mentions has not been visited.
    missing: Vec<usize>,
    /// Conditions of which nothing is missing any more, until they are tested.
    testable: Vec<usize>,
    settled: Vec<bool>,
    pub steps: Vec<Step>,
}

impl<'a> Order<'a> {
    pub fn new(pattern: &'a Pattern) -> Order<'a> {
        let mut fills = HashMap::new();
        for (i, node) in pattern.nodes.iter().enumerate() {
            for slot in node.reads.iter().map(|(_, slot)| *slot).chain(node.reads_all).chain([node.slot]) {
                fills.insert(slot, Part::Node(i));
            }
        }
        let mut edges_at = vec![Vec::new(); pattern.nodes.len()];
        for (i, edge) in pattern.edges.iter().enumerate() {
            for slot in edge.reads.iter().map(|(_, slot)| *slot).chain(edge.slot.filter(|_| !edge.bound)) {
                fills.insert(slot, Part::Edge(i));
            }
            edges_at[edge.source].push(i);
            if edge.target != edge.source {
                edges_at[edge.target].push(i);
            }
        }
        let mut layout = Layout {
            fills,
            edges_at,
            conditions_of_nodes: vec![Vec::new(); pattern.nodes.len()],
            conditions_of_edges: vec![Vec::new(); pattern.edges.len()],
        };
        let mut missing = Vec::new();
        for (i, condition) in pattern.conditions.iter().enumerate() {
            let mut parts: Vec<Part> = walk::slots(condition).iter().filter_map(|slot| layout.fills.get(slot).copied()).collect();
            parts.sort_unstable();
            parts.dedup();
            for part in &parts {
                match part {
                    Part::Node(node) => layout.conditions_of_nodes[*node].push(i),
                    Part::Edge(edge) => layout.conditions_of_edges[*edge].push(i),
                }
            }
            missing.push(parts.len());
        }
        Order {
            pattern,
            layout: Rc::new(layout),
            visited: vec![false; pattern.nodes.len()],
            crossed: vec![false; pattern.edges.len()],
            leading: BinaryHeap::new(),
            distance: None,
            resting: vec![false; pattern.nodes.len()],
            testable: (0..missing.len()).filter(|condition| missing[*condition] == 0).collect(),
            settled: vec![false; missing.len()],
            missing,
            steps: Vec::new(),
        }
    }

    /// Of edges that are as good as one another, those come first that lie nearer to where the visit begins, so that no side of
    /// it is gone through in vain where another ends at once. Each time a side goes twice as far as before: sides are changed
    /// seldom.
    pub fn on_all_sides(mut self) -> Order<'a> {
        self.distance = Some(vec![0; self.visited.len()]);
        self
    }

    pub fn visited(&self, node: usize) -> bool {
        self.visited[node]
    }

    /// The node is there from the beginning.
    pub fn given(&mut self, node: usize) {
        if std::mem::replace(&mut self.visited[node], true) {
            return;
        }
        let layout = self.layout.clone();
        self.found(&layout.conditions_of_nodes[node]);
        self.offer(node);
    }

    /// The edges at a node that has been visited may be crossed.
    fn offer(&mut self, node: usize) {
        let layout = self.layout.clone();
        let distance = self.distance.as_ref().map_or(0, |distance| distance[node]);
        let turn = usize::BITS - distance.leading_zeros();
        for edge in &layout.edges_at[node] {
            if let Some(weight) = self.weight(*edge) {
                self.leading.push((weight, Reverse(turn), Reverse(*edge)));
            }
        }
    }

    /// The nodes that have been visited and from which it can go on: an edge leads to a node that has not been, or a chain is to
    /// be followed between two that have been.
    pub fn leading_nodes(&self) -> Vec<usize> {
        let leads = |edge: usize| {
            let graph_edge = &self.pattern.edges[edge];
            let (source, target) = (graph_edge.source, graph_edge.target);
            let is_check = self.visited[source] && self.visited[target] && (graph_edge.chain.is_none() || source == target);
            !self.crossed[edge] && !is_check && !crate::bind::is_shortest(graph_edge)
        };
        let visited = (0..self.visited.len()).filter(|node| self.visited[*node]);
        visited.filter(|node| self.layout.edges_at[*node].iter().any(|edge| leads(*edge))).collect()
    }

    /// From here on it goes on from this node, which has been visited, and from what that leads to; from the others that have
    /// been visited only where nothing else leads on.
    pub fn lead_from(&mut self, node: usize) {
        self.resting.clone_from(&self.visited);
        self.resting[node] = false;
        // What is in there weighs otherwise by now.
        self.leading.clear();
        for node in 0..self.visited.len() {
            if self.visited[node] {
                self.offer(node);
            }
        }
    }

    /// The edge is there from the beginning, with both its ends.
    pub fn given_edge(&mut self, edge: usize) {
        self.cross(edge);
        self.given(self.pattern.edges[edge].source);
        self.given(self.pattern.edges[edge].target);
    }

    fn cross(&mut self, edge: usize) {
        if !std::mem::replace(&mut self.crossed[edge], true) {
            let layout = self.layout.clone();
            self.found(&layout.conditions_of_edges[edge]);
        }
    }

    /// One thing that these conditions mention is there now.
    fn found(&mut self, conditions: &[usize]) {
        for condition in conditions {
            self.missing[*condition] -= 1;
            if self.missing[*condition] == 0 {
                self.testable.push(*condition);
            }
        }
    }

    /// Visits nodes otherwise than over an edge.
    pub fn enter(&mut self, step: Step) {
        match step {
            Step::Bound { node }
            | Step::Seek { node, .. }
            | Step::SeekEach { node, .. }
            | Step::Scan { node, .. }
            | Step::Ends { node, .. } => self.given(node),
            Step::Expand { .. } | Step::Test { .. } => {}
        }
        self.steps.push(step);
    }

    /// The condition needs no test any more.
    pub fn settle(&mut self, condition: usize) {
        self.settled[condition] = true;
    }

    /// Whether the expression mentions anything that the input row does not hold.
    pub fn binds_any_of(&self, expr: &Expr) -> bool {
        walk::slots(expr).iter().any(|slot| match self.layout.fills.get(slot) {
            Some(Part::Node(node)) => !self.pattern.nodes[*node].bound,
            Some(Part::Edge(_)) => true,
            None => false,
        })
    }

    /// Whether everything the expression mentions has been visited.
    pub fn knows_all(&self, expr: &Expr) -> bool {
        walk::slots(expr).iter().all(|slot| match self.layout.fills.get(slot) {
            Some(Part::Node(node)) => self.visited[*node],
            Some(Part::Edge(edge)) => self.crossed[*edge],
            None => true,
        })
    }

    /// Tests every condition that has become testable.
    pub fn test(&mut self) {
        self.testable.sort_unstable();
        let testable = self.testable.drain(..).filter(|condition| !self.settled[*condition]);
        self.steps.extend(testable.map(|condition| Step::Test { condition }));
    }

    /// Crosses one edge: one between visited nodes if there is one (a check costs least), else the one that leads to the most
    /// restricted node. Chains come after single edges, what leads on from a node that rests after both, a shortest chain when
    /// everything else is there. False when no edge touches what has been visited.
    pub fn expand(&mut self) -> bool {
        let mut best = None;
        while let Some((weight, _, Reverse(edge))) = self.leading.pop() {
            if self.weight(edge) == Some(weight) {
                best = Some(edge);
                break;
            }
        }
        let Some(edge) = best.or_else(|| self.search()) else { return false };
        let graph_edge = &self.pattern.edges[edge];
        let (source, target) = (graph_edge.source, graph_edge.target);
        // Of two ends that have been visited the one it goes on from: what rests may have very many edges.
        let turns = self.visited[target] && self.resting[source] && !self.resting[target];
        let from_source = self.visited[source] && (!turns || crate::bind::is_shortest(graph_edge));
        let (from, to) = if from_source { (source, target) } else { (target, source) };
        if let Some(distance) = &mut self.distance
            && !self.visited[to]
        {
            distance[to] = distance[from] + 1;
        }
        self.given_edge(edge);
        self.steps.push(Step::Expand { edge, from });
        true
    }

    /// How much an edge that touches what has been visited is to be crossed next.
    fn weight(&self, edge: usize) -> Option<usize> {
        let graph_edge = &self.pattern.edges[edge];
        let towards = |node: usize| self.restrictions(node) * 2 + usize::from(!graph_edge.kinds.is_empty());
        let is_chain = graph_edge.chain.is_some();
        match (self.visited[graph_edge.source], self.visited[graph_edge.target]) {
            _ if self.crossed[edge] || crate::bind::is_shortest(graph_edge) => None,
            (false, false) => None,
            (true, false) if self.resting[graph_edge.source] => Some(usize::from(!is_chain)),
            (false, true) if self.resting[graph_edge.target] => Some(usize::from(!is_chain)),
            (both, other) if is_chain => Some(2 + usize::from(both && other)),
            (true, true) => Some(usize::MAX),
            (true, false) => Some(towards(graph_edge.target) + 4),
            (false, true) => Some(towards(graph_edge.source) + 4),
        }
    }

    /// The first shortest chain, if everything else is there.
    fn search(&self) -> Option<usize> {
        let is_shortest = |edge: usize| crate::bind::is_shortest(&self.pattern.edges[edge]);
        let rest_done = self.visited.iter().all(|visited| *visited)
            && (0..self.crossed.len()).all(|edge| self.crossed[edge] || is_shortest(edge));
        (0..self.crossed.len()).find(|edge| rest_done && !self.crossed[*edge])
    }

    fn restrictions(&self, node: usize) -> usize {
        self.pattern.nodes[node].labels.len() + self.pattern.nodes[node].conditions.len()
    }

    /// Where to begin: a part without an anchor before one whose anchor may become known by visiting another part, smaller
    /// parts first, and in a part the most restricted node, the first written among equals. In a part without an anchor a node
    /// that is named by a list of ids comes first; in others it could change which node an anchor enters.
    pub fn best_start(&self, anchored: &dyn Fn(usize) -> bool, listed: &dyn Fn(usize) -> bool) -> Option<usize> {
        if self.visited.iter().all(|visited| *visited) {
            return None;
        }
        let parts = self.parts();
        let mut about = vec![(false, 0); parts.len()];
        for (node, part) in parts.iter().enumerate() {
            let (waits, size) = &mut about[*part];
            *waits |= anchored(node);
            *size += 1;
        }
        (0..parts.len()).filter(|node| !self.visited[*node]).min_by_key(|node| {
            let (waits, size) = about[parts[*node]];
            (waits, size, waits || !listed(*node), Reverse(self.restrictions(*node)), *node)
        })
    }

    /// For each node whether one of those is anchored that can be visited from it by edges, a shortest chain not among them.
    pub fn waiting(&self, anchored: &dyn Fn(usize) -> bool) -> Vec<bool> {
        let parts = self.parts_over(&|edge| !crate::bind::is_shortest(edge));
        let mut of_part = vec![false; parts.len()];
        for (node, part) in parts.iter().enumerate() {
            of_part[*part] |= anchored(node);
        }
        parts.into_iter().map(|part| of_part[part]).collect()
    }

    /// For each node the smallest node of its connected part.
    fn parts(&self) -> Vec<usize> {
        self.parts_over(&|_| true)
    }

    fn parts_over(&self, connects: &dyn Fn(&PatternEdge) -> bool) -> Vec<usize> {
        let mut parts: Vec<usize> = (0..self.pattern.nodes.len()).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for edge in self.pattern.edges.iter().filter(|edge| connects(edge)) {
                let least = parts[edge.source].min(parts[edge.target]);
                for end in [edge.source, edge.target] {
                    changed |= parts[end] != least;
                    parts[end] = least;
                }
            }
        }
        parts
    }
}
