//! The oracle: a graph in plain maps, and the answer of a standing query by trying everything.
//!
//! Written to be obviously right, not fast, and to share nothing with `evaluate`, `render` or the arrangement but the
//! meaning of expressions. Tests compare those three with this one; nothing else uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_model::expression::FailureKind;
use weir_model::mutation::Kind;
use weir_model::plan::{Chain, Name, Operator, Pattern, PatternEdge, Search, Slot, Step};
use weir_model::{Expr, Failure, IdScheme, Mutations, NodeId, Symbol, Value, codec};

use crate::evaluate::{Deleted, Environment, Limits, Names, Prepared, Reader, node_of};
use crate::symbols::Symbols;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

#[derive(Clone, Default, Debug, PartialEq)]
pub struct ReferenceGraph {
    /// Only nodes with something to them.
    nodes: BTreeMap<NodeId, ReferenceNode>,
}

#[derive(Clone, Default, Debug, PartialEq)]
struct ReferenceNode {
    labels: BTreeSet<Symbol>,
    properties: BTreeMap<Symbol, Value>,
    edges: BTreeSet<HalfEdge>,
    /// Of outgoing edges, by type, target, ordinal and key.
    edge_properties: BTreeMap<(Symbol, NodeId, u32, Symbol), Value>,
}

impl ReferenceGraph {
    pub fn new() -> ReferenceGraph {
        ReferenceGraph::default()
    }

    /// Applies the rows of a range of records, in order.
    pub fn apply(&mut self, mutations: &Mutations, records: Range<u32>) {
        for row in mutations.rows.iter().filter(|row| records.contains(&row.record())) {
            let node = self.nodes.entry(row.node).or_default();
            let symbol = row.tag.symbol();
            match row.tag.kind() {
                Kind::Label if row.removes() => {
                    node.labels.remove(&symbol);
                }
                Kind::Label => {
                    node.labels.insert(symbol);
                }
                Kind::Property if row.removes() => {
                    node.properties.remove(&symbol);
                }
                Kind::Property => {
                    node.properties.insert(symbol, codec::decode_payload(row.payload, &mutations.arena));
                }
                Kind::Out | Kind::In => {
                    let outgoing = row.tag.kind() == Kind::Out;
                    node.set_half(HalfEdge { kind: symbol, outgoing, other: row.payload.as_node(), ordinal: 0 }, !row.removes());
                }
                Kind::OutParallel | Kind::InParallel => {
                    let outgoing = row.tag.kind() == Kind::OutParallel;
                    let (other, ordinal) = codec::decode_parallel(row.payload, &mutations.arena);
                    node.set_half(HalfEdge { kind: symbol, outgoing, other, ordinal }, !row.removes());
                }
                Kind::EdgeProperty => {
                    let (target, ordinal, key, value) = codec::decode_edge_property(row.payload, &mutations.arena);
                    if row.removes() {
                        node.edge_properties.remove(&(symbol, target, ordinal, key));
                    } else {
                        node.edge_properties.insert((symbol, target, ordinal, key), value);
                    }
                }
                Kind::ClearProperties => node.properties.clear(),
            }
            if *node == ReferenceNode::default() {
                self.nodes.remove(&row.node);
            }
        }
    }

    pub fn apply_all(&mut self, mutations: &Mutations) {
        self.apply(mutations, 0..u32::MAX);
    }

    /// Every edge, by its outgoing half.
    pub fn all_edges(&self) -> Vec<EdgeRef> {
        let halves = self.nodes.iter().flat_map(|(source, node)| node.edges.iter().map(move |half| (*source, *half)));
        halves
            .filter(|(_, half)| half.outgoing)
            .map(|(source, half)| EdgeRef { source, kind: half.kind, target: half.other, ordinal: half.ordinal })
            .collect()
    }
}

impl ReferenceNode {
    fn set_half(&mut self, half: HalfEdge, present: bool) {
        if present {
            self.edges.insert(half);
        } else {
            self.edges.remove(&half);
        }
    }
}

impl View for ReferenceGraph {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.nodes.get(&node).and_then(|node| node.properties.get(&key)).cloned().unwrap_or_default()
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        for (key, value) in self.nodes.get(&node).iter().flat_map(|node| &node.properties) {
            each(*key, value.clone());
        }
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.labels.contains(&label))
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.nodes.get(&node).iter().flat_map(|node| &node.labels).for_each(|label| each(*label));
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        for half in self.nodes.get(&node).iter().flat_map(|node| &node.edges) {
            let direction_fits = match direction {
                Direction::Both => true,
                Direction::Outgoing => half.outgoing,
                Direction::Incoming => !half.outgoing,
            };
            if direction_fits && (kinds.is_empty() || kinds.contains(&half.kind)) {
                each(*half);
            }
        }
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        let half = HalfEdge { kind: edge.kind, outgoing: true, other: edge.target, ordinal: edge.ordinal };
        self.nodes.get(&edge.source).is_some_and(|node| node.edges.contains(&half))
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        let at = (edge.kind, edge.target, edge.ordinal, key);
        self.nodes.get(&edge.source).and_then(|node| node.edge_properties.get(&at)).cloned().unwrap_or_default()
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        for ((kind, target, ordinal, key), value) in self.nodes.get(&edge.source).iter().flat_map(|node| &node.edge_properties) {
            if (*kind, *target, *ordinal) == (edge.kind, edge.target, edge.ordinal) {
                each(*key, value.clone());
            }
        }
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        for node in self.nodes.iter().filter(|(_, node)| node.interesting()).map(|(id, _)| *id) {
            if !each(node) {
                return;
            }
        }
    }
}

impl ReferenceNode {
    /// The properties of an edge that is not there do not make a node worth showing.
    fn interesting(&self) -> bool {
        !(self.labels.is_empty() && self.properties.is_empty() && self.edges.is_empty())
    }
}

type Row = Vec<Value>;

/// The rows of a standing plan over a graph, each with how often it occurs. The plan is made of Unit, Match, Filter,
/// Project and Distinct. A row for which a condition or an item has no value is no row, as in the dataflow.
pub fn matches(
    prepared: &Prepared,
    graph: &ReferenceGraph,
    symbols: &Symbols,
    ids: IdScheme,
) -> Result<BTreeMap<Vec<Value>, i64>, Failure> {
    let fresh_id = || NodeId::default();
    let environment = Environment {
        view: graph,
        parameters: &[],
        ids,
        now_millis: 0,
        fresh_id: &fresh_id,
        limits: Limits::NONE,
        open_cypher: true,
    };
    let names = Names::new(symbols);
    let reader = Reader { prepared, names: &names, view: graph, environment: &environment, deleted: Deleted::default().into() };
    let naive = Naive { prepared, graph, reader, ids };
    let mut answer = BTreeMap::new();
    for row in naive.rows(&prepared.plan.root)? {
        let columns = prepared.plan.columns.iter().map(|(_, slot)| row[slot.0 as usize].clone()).collect();
        *answer.entry(columns).or_default() += 1;
    }
    Ok(answer)
}

struct Naive<'a> {
    prepared: &'a Prepared,
    graph: &'a ReferenceGraph,
    reader: Reader<'a>,
    ids: IdScheme,
}

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
    fn rows(&self, operator: &Operator) -> Result<Vec<Row>, Failure> {
        Ok(match operator {
            Operator::Unit => vec![vec![Value::Null; self.prepared.plan.width.max(1)]],
            Operator::Match { input, pattern } => {
                self.rows(input)?.iter().flat_map(|row| self.pattern_rows(pattern, row)).collect()
            }
            Operator::Filter { input, condition } => {
                let mut rows = self.rows(input)?;
                rows.retain(|row| self.holds(condition, row));
                rows
            }
            Operator::Project { input, items } => {
                self.rows(input)?.into_iter().filter_map(|row| self.projected(items, row)).collect()
            }
            Operator::Distinct { input, slots } => {
                let mut seen = BTreeSet::new();
                let mut rows = self.rows(input)?;
                rows.retain(|row| seen.insert(slots.iter().map(|slot| row[slot.0 as usize].clone()).collect::<Vec<_>>()));
                rows
            }
            other => {
                let name = format!("{other:?}");
                let name = name.split([' ', '{']).next().unwrap_or_default();
                let message = format!("The reference evaluator does not know the operator {name}");
                return Err(Failure::new(FailureKind::Runtime, message));
            }
        })
    }

    fn projected(&self, items: &[(Slot, Expr)], row: Row) -> Option<Row> {
        let mut result = row.clone();
        for (slot, expr) in items {
            result[slot.0 as usize] = self.value(expr, &row)?;
        }
        Some(result)
    }

    fn value(&self, expr: &Expr, row: &Row) -> Option<Value> {
        expr.evaluate(row, &self.reader).ok()
    }

    fn holds(&self, condition: &Expr, row: &Row) -> bool {
        match self.value(condition, row) {
            Some(Value::Boolean(answer)) => answer,
            Some(Value::List(items)) => !items.is_empty(),
            _ => false,
        }
    }

    /// Chooses a concrete edge for each edge of the pattern and a node for each node that is left, in every way; then
    /// looks whether the whole fits.
    fn pattern_rows(&self, pattern: &Pattern, row: &Row) -> Vec<Row> {
        let mut start = Choice { nodes: vec![None; pattern.nodes.len()], edges: vec![None; pattern.edges.len()] };
        for (choice, node) in start.nodes.iter_mut().zip(&pattern.nodes).filter(|(_, node)| node.bound) {
            match &row[node.slot.0 as usize] {
                Value::Node(id) => *choice = Some(*id),
                _ => return Vec::new(),
            }
        }
        let mut choices = vec![start];
        let mut all_nodes = Vec::new();
        self.graph.nodes(&mut |node| {
            all_nodes.push(node);
            true
        });
        for (index, edge) in pattern.edges.iter().enumerate() {
            let trails = self.trails(&all_nodes, edge);
            let with = |choice: &Choice| -> Vec<Choice> {
                trails.iter().filter_map(|trail| choice.with_edge(index, trail, (edge.source, edge.target))).collect()
            };
            choices = choices.iter().flat_map(with).collect();
        }
        for index in 0..pattern.nodes.len() {
            let mut longer = Vec::new();
            for choice in choices {
                if choice.nodes[index].is_some() {
                    longer.push(choice);
                    continue;
                }
                longer.extend(all_nodes.iter().map(|node| {
                    let mut choice = choice.clone();
                    choice.nodes[index] = Some(*node);
                    choice
                }));
            }
            choices = longer;
        }
        let fitting = choices.iter().filter_map(|choice| Some((choice, self.fitting_row(pattern, choice, row)?))).collect();
        shortest(pattern, fitting)
    }

    /// Everything an edge of the pattern can be.
    fn trails(&self, all_nodes: &[NodeId], edge: &PatternEdge) -> Vec<Trail> {
        let all_edges = self.graph.all_edges();
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
            let longer = |trail: &Trail| -> Vec<Trail> {
                let mut longer = Vec::new();
                for edge_found in all_edges.iter().filter(|found| !trail.edges.contains(found)) {
                    let (source, target) = (edge_found.source, edge_found.target);
                    let ways = [(source, target), (target, source)];
                    for (from, to) in ways.into_iter().take(if edge.directed || source == target { 1 } else { 2 }) {
                        if from == trail.end {
                            let edges = trail.edges.iter().copied().chain([*edge_found]).collect();
                            longer.push(Trail { start: trail.start, end: to, edges });
                        }
                    }
                }
                longer
            };
            trails = trails.iter().flat_map(longer).collect();
        }
        found
    }

    /// The row of a complete choice, if it is a match.
    fn fitting_row(&self, pattern: &Pattern, choice: &Choice, row: &Row) -> Option<Row> {
        let mut row = row.clone();
        let nodes: Vec<NodeId> = choice.nodes.iter().copied().collect::<Option<_>>()?;
        let edges: Vec<&Vec<EdgeRef>> = choice.edges.iter().map(Option::as_ref).collect::<Option<_>>()?;
        if pattern.distinct_edges.iter().any(|(x, y)| edges[*x].iter().any(|edge| edges[*y].contains(edge)))
            || pattern.distinct_nodes.iter().any(|(x, y)| nodes[*x] == nodes[*y])
        {
            return None;
        }
        for (node, id) in pattern.nodes.iter().zip(&nodes) {
            if !node.labels.iter().all(|label| self.graph.has_label(*id, self.symbol(*label))) {
                return None;
            }
            row[node.slot.0 as usize] = Value::Node(*id);
            for (key, slot) in &node.reads {
                row[slot.0 as usize] = self.graph.property(*id, self.symbol(*key));
            }
            if let Some(slot) = node.reads_all {
                row[slot.0 as usize] = Value::Map(self.reader.properties(*id).into());
            }
        }
        for (edge, found) in pattern.edges.iter().zip(&edges) {
            let kind_fits = |found: &EdgeRef| edge.kinds.iter().any(|kind| self.symbol(*kind) == found.kind);
            if !(edge.kinds.is_empty() || found.iter().all(kind_fits)) {
                return None;
            }
            let mut values: Vec<Value> = found.iter().map(|found| Value::Edge(self.reader.edge_key(*found).into())).collect();
            if let Some(slot) = edge.slot {
                row[slot.0 as usize] = match &edge.chain {
                    None => values.remove(0),
                    Some(chain) => {
                        if chain.reversed {
                            values.reverse();
                        }
                        Value::list(values)
                    }
                };
            }
            for (key, slot) in &edge.reads {
                row[slot.0 as usize] = self.graph.edge_property(found[0], self.symbol(*key));
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
                    steps.push((self.reader.edge_key(edge), here));
                }
            }
            row[path.slot.0 as usize] = Value::Path(weir_model::Path { start: nodes[path.start], steps }.into());
        }
        let node_conditions = pattern.nodes.iter().flat_map(|node| &node.conditions);
        let edge_conditions = pattern.edges.iter().flat_map(|edge| &edge.conditions);
        for (edge, found) in pattern.edges.iter().zip(&edges) {
            if let Some(chain) = &edge.chain
                && !self.chain_fits(chain, nodes[edge.source], found, &mut row)
            {
                return None;
            }
        }
        let fits = node_conditions.chain(edge_conditions).chain(&pattern.conditions).all(|condition| self.holds(condition, &row));
        // An anchor is a condition too, wherever the plan keeps it.
        let anchored = pattern.steps.iter().all(|step| match step {
            Step::Seek { node, id } => self.value(id, &row).and_then(|value| node_of(&value, self.ids)) == Some(nodes[*node]),
            _ => true,
        });
        (fits && anchored).then_some(row)
    }

    /// The conditions of a chain, on each edge, on each node, and on the whole.
    fn chain_fits(&self, chain: &Chain, start: NodeId, edges: &[EdgeRef], row: &mut Row) -> bool {
        let mut nodes = vec![start];
        for edge in edges {
            let here = nodes[nodes.len() - 1];
            nodes.push(if edge.source == here { edge.target } else { edge.source });
        }
        let edges = edges.iter().map(|edge| Value::Edge(self.reader.edge_key(*edge).into()));
        let nodes = nodes.into_iter().map(Value::Node);
        let mut all_fit = |values: Vec<Value>, conditions: &[(Slot, Expr)]| {
            values.into_iter().all(|value| {
                conditions.iter().all(|(slot, condition)| {
                    row[slot.0 as usize] = value.clone();
                    self.holds(condition, row)
                })
            })
        };
        all_fit(edges.collect(), &chain.edges)
            && all_fit(nodes.collect(), &chain.nodes)
            && chain.whole.iter().all(|condition| self.holds(condition, row))
    }

    fn symbol(&self, name: Name) -> Symbol {
        self.prepared.symbol(name)
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
