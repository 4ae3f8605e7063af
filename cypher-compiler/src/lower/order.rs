//! The order in which a pattern is visited: one state for ad-hoc matches and for the paths of the delta join.

use std::collections::HashMap;

use weir_model::Expr;
use weir_model::plan::{Pattern, PatternEdge, Slot, Step};

use crate::walk;

#[derive(Clone, Copy)]
enum Part {
    Node(usize),
    Edge(usize),
}

pub struct Order<'a> {
    pattern: &'a Pattern,
    /// Which part of the pattern fills a slot; slots not in here are filled by the input row.
    fills: HashMap<Slot, Part>,
    visited: Vec<bool>,
    crossed: Vec<bool>,
    tested: Vec<bool>,
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
        for (i, edge) in pattern.edges.iter().enumerate() {
            for slot in edge.reads.iter().map(|(_, slot)| *slot).chain(edge.slot.filter(|_| !edge.bound)) {
                fills.insert(slot, Part::Edge(i));
            }
        }
        Order {
            pattern,
            fills,
            visited: vec![false; pattern.nodes.len()],
            crossed: vec![false; pattern.edges.len()],
            tested: vec![false; pattern.conditions.len()],
            steps: Vec::new(),
        }
    }

    pub fn visited(&self, node: usize) -> bool {
        self.visited[node]
    }

    /// The node is there from the beginning.
    pub fn given(&mut self, node: usize) {
        self.visited[node] = true;
    }

    /// The edge is there from the beginning, with both its ends.
    pub fn given_edge(&mut self, edge: usize) {
        self.crossed[edge] = true;
        self.given(self.pattern.edges[edge].source);
        self.given(self.pattern.edges[edge].target);
    }

    /// Visits nodes otherwise than over an edge.
    pub fn enter(&mut self, step: Step) {
        if let Step::Bound { node } | Step::Seek { node, .. } | Step::Scan { node, .. } | Step::Ends { node, .. } = step {
            self.visited[node] = true;
        }
        self.steps.push(step);
    }

    /// The condition needs no test any more.
    pub fn settle(&mut self, condition: usize) {
        self.tested[condition] = true;
    }

    /// Whether the expression mentions anything that the input row does not hold.
    pub fn binds_any_of(&self, expr: &Expr) -> bool {
        walk::slots(expr).iter().any(|slot| match self.fills.get(slot) {
            Some(Part::Node(node)) => !self.pattern.nodes[*node].bound,
            Some(Part::Edge(_)) => true,
            None => false,
        })
    }

    /// Whether everything the expression mentions has been visited.
    pub fn knows_all(&self, expr: &Expr) -> bool {
        walk::slots(expr).iter().all(|slot| match self.fills.get(slot) {
            Some(Part::Node(node)) => self.visited[*node],
            Some(Part::Edge(edge)) => self.crossed[*edge],
            None => true,
        })
    }

    /// Tests every condition that has become testable.
    pub fn test(&mut self) {
        for condition in 0..self.pattern.conditions.len() {
            if !self.tested[condition] && self.knows_all(&self.pattern.conditions[condition]) {
                self.tested[condition] = true;
                self.steps.push(Step::Test { condition });
            }
        }
    }

    /// Crosses one edge: one between visited nodes if there is one (a check costs least), else the one that leads to the most
    /// restricted node. Chains come after single edges, a shortest chain when everything else is there. False when no edge
    /// touches what has been visited.
    pub fn expand(&mut self) -> bool {
        let is_shortest = |edge: usize| crate::bind::is_shortest(&self.pattern.edges[edge]);
        let rest_done = self.visited.iter().all(|visited| *visited)
            && (0..self.crossed.len()).all(|edge| self.crossed[edge] || is_shortest(edge));
        let weight = |edge: usize| -> Option<usize> {
            let graph_edge = &self.pattern.edges[edge];
            let towards = |node: usize| self.restrictions(node) * 2 + usize::from(!graph_edge.kinds.is_empty());
            match (self.visited[graph_edge.source], self.visited[graph_edge.target]) {
                _ if self.crossed[edge] => None,
                (false, false) => None,
                _ if is_shortest(edge) => rest_done.then_some(0),
                (both, other) if graph_edge.chain.is_some() => Some(usize::from(both && other)),
                (true, true) => Some(usize::MAX),
                (true, false) => Some(towards(graph_edge.target) + 2),
                (false, true) => Some(towards(graph_edge.source) + 2),
            }
        };
        let best = (0..self.pattern.edges.len())
            .filter_map(|edge| Some((weight(edge)?, edge)))
            .max_by_key(|(weight, edge)| (*weight, std::cmp::Reverse(*edge)));
        let Some((_, edge)) = best else { return false };
        let graph_edge = &self.pattern.edges[edge];
        let from = if self.visited[graph_edge.source] { graph_edge.source } else { graph_edge.target };
        self.crossed[edge] = true;
        self.visited[graph_edge.source] = true;
        self.visited[graph_edge.target] = true;
        self.steps.push(Step::Expand { edge, from });
        true
    }

    fn restrictions(&self, node: usize) -> usize {
        self.pattern.nodes[node].labels.len() + self.pattern.nodes[node].conditions.len()
    }

    /// Where to scan: a part without an anchor before one whose anchor may become known by visiting another part, smaller
    /// parts first, and in a part the most restricted node, the first written among equals.
    pub fn best_start(&self, anchored: &dyn Fn(usize) -> bool) -> Option<usize> {
        let parts = self.parts();
        let mut about = vec![(false, 0); parts.len()];
        for (node, part) in parts.iter().enumerate() {
            let (waits, size) = &mut about[*part];
            *waits |= anchored(node);
            *size += 1;
        }
        (0..parts.len())
            .filter(|node| !self.visited[*node])
            .min_by_key(|node| (about[parts[*node]], std::cmp::Reverse(self.restrictions(*node)), *node))
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
