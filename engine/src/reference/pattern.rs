//! The matches of a pattern: every choice of an edge for each edge of it and a node for each node, and then a look whether
//! the whole fits. The order in which the plan would visit it is not asked for.

use std::collections::BTreeMap;

use weir_model::plan::{Chain, Name, Pattern, PatternEdge, Search, Step};
use weir_model::{Context, Failure, NodeId, Value};

use super::answer::{Naive, Row};
use crate::view::{EdgeRef, View};

/// What the parts of a pattern are, as far as chosen.
#[derive(Clone)]
struct Choice {
    nodes: Vec<Option<NodeId>>,
    /// One edge each, but for chains, which are the edges from source to target.
    edges: Vec<Option<Vec<EdgeRef>>>,
}

/// Edges one after another, none twice, and where they begin and end.
#[derive(Clone)]
struct Trail {
    start: NodeId,
    end: NodeId,
    edges: Vec<EdgeRef>,
}

impl Naive<'_> {
    /// Chooses a concrete edge for each edge of the pattern and a node for each node that is left, in every way; then
    /// looks whether the whole fits.
    pub(super) fn pattern_rows(&self, pattern: &Pattern, row: &Row) -> Result<Vec<Row>, Failure> {
        let mut start = Choice { nodes: vec![None; pattern.nodes.len()], edges: vec![None; pattern.edges.len()] };
        for (choice, node) in start.nodes.iter_mut().zip(&pattern.nodes).filter(|(_, node)| node.bound) {
            match &row[node.slot.0 as usize] {
                Value::Node(id) => *choice = Some(*id),
                Value::FullNode(full) => *choice = Some(full.id),
                _ => return Ok(Vec::new()),
            }
        }
        let mut choices = vec![start];
        let mut all_nodes = Vec::new();
        self.question.graph.nodes(&mut |node| {
            all_nodes.push(node);
            true
        });
        for (index, edge) in pattern.edges.iter().enumerate() {
            let trails = self.trails(&all_nodes, edge, row)?;
            let mut longer = Vec::new();
            for choice in &choices {
                for trail in &trails {
                    self.choose()?;
                    longer.extend(choice.with_edge(index, trail, (edge.source, edge.target)));
                }
            }
            choices = longer;
        }
        for index in 0..pattern.nodes.len() {
            let mut longer = Vec::new();
            for choice in choices {
                if choice.nodes[index].is_some() {
                    longer.push(choice);
                    continue;
                }
                for node in &all_nodes {
                    self.choose()?;
                    let mut choice = choice.clone();
                    choice.nodes[index] = Some(*node);
                    longer.push(choice);
                }
            }
            choices = longer;
        }
        let mut fitting = Vec::new();
        for choice in &choices {
            fitting.extend(self.fitting_row(pattern, choice, row)?.map(|row| (choice, row)));
        }
        Ok(shortest(pattern, fitting))
    }

    /// Everything an edge of the pattern can be.
    fn trails(&self, all_nodes: &[NodeId], edge: &PatternEdge, row: &Row) -> Result<Vec<Trail>, Failure> {
        let mut all_edges = self.question.graph.all_edges();
        all_edges.retain(|found| edge.kinds.is_empty() || edge.kinds.iter().any(|kind| self.symbol(*kind) == found.kind));
        let (min, max) = match &edge.chain {
            Some(chain) => (chain.min, chain.max.unwrap_or(u64::MAX)),
            None => (1, 1),
        };
        let mut trails: Vec<Trail> = all_nodes.iter().map(|node| Trail { start: *node, end: *node, edges: Vec::new() }).collect();
        let mut found = Vec::new();
        for length in 0..=max.min(all_edges.len() as u64) {
            if length >= min {
                found.extend(trails.iter().cloned());
            }
            let mut longer = Vec::new();
            for trail in &trails {
                for edge_found in all_edges.iter().filter(|found| !trail.edges.contains(found)) {
                    self.choose()?;
                    let (source, target) = (edge_found.source, edge_found.target);
                    let ways = [(source, target), (target, source)];
                    for (from, to) in ways.into_iter().take(if edge.directed || source == target { 1 } else { 2 }) {
                        if from == trail.end {
                            let edges = trail.edges.iter().copied().chain([*edge_found]).collect();
                            longer.push(Trail { start: trail.start, end: to, edges });
                        }
                    }
                }
            }
            trails = longer;
        }
        if let Some(slot) = edge.slot.filter(|_| edge.bound) {
            found.retain(|trail| self.edge_value(edge, &trail.edges) == row[slot.0 as usize]);
        }
        Ok(found)
    }

    /// What the variable of an edge of the pattern is: the edge, or the list of a chain in the order in which it is written.
    fn edge_value(&self, edge: &PatternEdge, found: &[EdgeRef]) -> Value {
        let mut values: Vec<Value> = found.iter().map(|found| Value::Edge(self.edge_key(*found).into())).collect();
        match &edge.chain {
            None => values.remove(0),
            Some(chain) => {
                if chain.reversed {
                    values.reverse();
                }
                Value::list(values)
            }
        }
    }

    /// The row of a complete choice, if it is a match.
    fn fitting_row(&self, pattern: &Pattern, choice: &Choice, row: &Row) -> Result<Option<Row>, Failure> {
        let mut row = row.clone();
        let nodes: Option<Vec<NodeId>> = choice.nodes.iter().copied().collect();
        let edges: Option<Vec<&Vec<EdgeRef>>> = choice.edges.iter().map(Option::as_ref).collect();
        let (Some(nodes), Some(edges)) = (nodes, edges) else { return Ok(None) };
        if pattern.distinct_edges.iter().any(|(x, y)| edges[*x].iter().any(|edge| edges[*y].contains(edge)))
            || pattern.distinct_nodes.iter().any(|(x, y)| nodes[*x] == nodes[*y])
        {
            return Ok(None);
        }
        for (node, id) in pattern.nodes.iter().zip(&nodes) {
            let value = &mut row[node.slot.0 as usize];
            let has = |label: &Name| match &*value {
                Value::FullNode(full) if node.bound => full.labels.iter().any(|have| have == self.name(*label)),
                _ => self.question.graph.has_label(*id, self.symbol(*label)),
            };
            if !node.labels.iter().all(has) {
                return Ok(None);
            }
            if !(node.bound && matches!(value, Value::FullNode(_))) {
                *value = Value::Node(*id);
            }
            for (key, slot) in &node.reads {
                row[slot.0 as usize] = self.question.graph.property(*id, self.symbol(*key));
            }
            if let Some(slot) = node.reads_all {
                row[slot.0 as usize] = Value::Map(self.properties(*id).into());
            }
        }
        for (edge, found) in pattern.edges.iter().zip(&edges) {
            if let Some(slot) = edge.slot {
                row[slot.0 as usize] = self.edge_value(edge, found);
            }
            for (key, slot) in &edge.reads {
                row[slot.0 as usize] = self.question.graph.edge_property(found[0], self.symbol(*key));
            }
        }
        for path in &pattern.paths {
            let mut here = nodes[path.start];
            let mut steps = Vec::new();
            for index in &path.edges {
                let mut crossed = edges[*index].clone();
                if pattern.edges[*index].chain.as_ref().is_some_and(|chain| chain.reversed) {
                    crossed.reverse();
                }
                for edge in crossed {
                    here = if edge.source == here { edge.target } else { edge.source };
                    steps.push((self.edge_key(edge), here));
                }
            }
            row[path.slot.0 as usize] = Value::Path(weir_model::Path { start: nodes[path.start], steps }.into());
        }
        let node_conditions = pattern.nodes.iter().flat_map(|node| &node.conditions);
        let edge_conditions = pattern.edges.iter().flat_map(|edge| &edge.conditions);
        for (edge, found) in pattern.edges.iter().zip(&edges) {
            if let Some(chain) = &edge.chain
                && !self.chain_fits(chain, nodes[edge.source], found, &mut row)?
            {
                return Ok(None);
            }
        }
        for condition in node_conditions.chain(edge_conditions).chain(&pattern.conditions) {
            if !self.holds(condition, &row)? {
                return Ok(None);
            }
        }
        // An anchor is a condition too, wherever the plan keeps it.
        for step in &pattern.steps {
            if let Step::Seek { node, id } = step
                && self.value(id, &row)?.and_then(|value| self.question.ids.node_of(&value)) != Some(nodes[*node])
            {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }

    /// The conditions of a chain, on each edge, on each node, and on the whole.
    fn chain_fits(&self, chain: &Chain, start: NodeId, edges: &[EdgeRef], row: &mut Row) -> Result<bool, Failure> {
        let mut nodes = vec![start];
        for edge in edges {
            let here = nodes[nodes.len() - 1];
            nodes.push(if edge.source == here { edge.target } else { edge.source });
        }
        let edges: Vec<Value> = edges.iter().map(|edge| Value::Edge(self.edge_key(*edge).into())).collect();
        let nodes: Vec<Value> = nodes.into_iter().map(Value::Node).collect();
        for (values, conditions) in [(edges, &chain.edges), (nodes, &chain.nodes)] {
            for value in values {
                for (slot, condition) in conditions {
                    row[slot.0 as usize] = value.clone();
                    if !self.holds(condition, row)? {
                        return Ok(false);
                    }
                }
            }
        }
        for condition in &chain.whole {
            if !self.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Of the rows that differ in a shortest chain alone, those where it is shortest; one of them, if one is wanted.
fn shortest(pattern: &Pattern, mut fitting: Vec<(&Choice, Row)>) -> Vec<Row> {
    for (index, edge) in pattern.edges.iter().enumerate() {
        let Some(chain) = edge.chain.as_ref().filter(|chain| chain.search != Search::All) else { continue };
        let mut groups: BTreeMap<_, Vec<(usize, &Choice, Row)>> = BTreeMap::new();
        for (choice, row) in fitting {
            let mut others = choice.edges.clone();
            let length = others[index].take().map_or(0, |edges| edges.len());
            groups.entry((choice.nodes.clone(), others)).or_default().push((length, choice, row));
        }
        fitting = Vec::new();
        for ((nodes, _), group) in groups {
            let least = group.iter().map(|(length, ..)| *length).min().unwrap_or(0);
            let circle = nodes[edge.source] == nodes[edge.target] && least > 0;
            let wanted = if chain.search == Search::Shortest { 1 } else { usize::MAX };
            let kept = group.into_iter().filter(|(length, ..)| *length == least && !circle);
            fitting.extend(kept.take(wanted).map(|(_, choice, row)| (choice, row)));
        }
    }
    fitting.into_iter().map(|(_, row)| row).collect()
}

impl Choice {
    /// This choice with an edge or chain added, if that agrees with the nodes chosen so far.
    fn with_edge(&self, index: usize, trail: &Trail, ends: (usize, usize)) -> Option<Choice> {
        let mut longer = self.clone();
        longer.edges[index] = Some(trail.edges.clone());
        for (end, id) in [(ends.0, trail.start), (ends.1, trail.end)] {
            if longer.nodes[end].is_some_and(|chosen| chosen != id) {
                return None;
            }
            longer.nodes[end] = Some(id);
        }
        Some(longer)
    }
}
