//! A MATCH or MERGE pattern becomes a query graph: nodes, edges and conditions, however it was written.

use weir_model::expression::Binary;
use weir_model::plan::{Pattern, PatternEdge, PatternNode, PatternPath, Slot};
use weir_model::{Expr, Value};

use super::{Binder, Holds};
use crate::ast::{Direction, EdgePattern, Expression, ExpressionKind, Name, NodePattern, PatternPart};

/// A pattern with the slots it declares.
#[derive(Default)]
pub struct QueryGraph {
    pub pattern: Pattern,
    pub declared: Vec<Slot>,
}

impl Binder<'_> {
    /// All variables first, then property maps: a map may name a variable that stands further right.
    pub fn query_graph(&mut self, parts: &[PatternPart]) -> QueryGraph {
        let mut graph = QueryGraph::default();
        let mut properties: Vec<(Slot, &Expression)> = Vec::new();
        let mut conditions: Vec<&Expression> = Vec::new();
        for part in parts {
            let mut at = self.graph_node(&mut graph, &part.start, &mut properties);
            conditions.extend(&part.start.condition);
            let start = at;
            let mut edges = Vec::new();
            for (edge, node) in &part.steps {
                let index = self.graph_edge(&mut graph, edge, part.variable.is_some(), &mut properties);
                let from = std::mem::replace(&mut at, self.graph_node(&mut graph, node, &mut properties));
                let ends = if edge.direction == Direction::Left { (at, from) } else { (from, at) };
                (graph.pattern.edges[index].source, graph.pattern.edges[index].target) = ends;
                conditions.extend(&node.condition);
                edges.push(index);
            }
            if let Some(variable) = &part.variable
                && self.check_new(variable)
            {
                let slot = self.draft.new_slot(&variable.text, Holds::Path);
                self.scope.insert(&variable.text, slot);
                graph.declared.push(slot);
                graph.pattern.paths.push(PatternPath { slot, start, edges });
            }
        }
        for (slot, expression) in properties {
            let found = self.property_conditions(slot, expression, Binary::Equal);
            graph.pattern.conditions.extend(found);
        }
        for condition in conditions {
            let condition = self.condition(condition);
            graph.pattern.conditions.push(condition);
        }
        self.distinct_edges(&mut graph.pattern);
        graph
    }

    fn graph_node<'p>(
        &mut self,
        graph: &mut QueryGraph,
        node: &'p NodePattern,
        properties: &mut Vec<(Slot, &'p Expression)>,
    ) -> usize {
        let labels: Vec<_> = node.labels.iter().map(|label| self.draft.name(&label.text)).collect();
        let known = node.variable.as_ref().and_then(|name| self.scope.get(&name.text));
        if let (Some(slot), Some(name)) = (known, &node.variable) {
            self.check_type(name, slot, Holds::Node);
        }
        let slot = known.unwrap_or_else(|| self.declare(node.variable.as_ref(), Holds::Node));
        if let Some(map) = &node.properties {
            properties.push((slot, map));
        }
        if let Some(at) = graph.pattern.nodes.iter().position(|other| other.slot == slot) {
            let node = &mut graph.pattern.nodes[at];
            labels.into_iter().for_each(|label| {
                if !node.labels.contains(&label) {
                    node.labels.push(label)
                }
            });
            return at;
        }
        if known.is_none() {
            graph.declared.push(slot);
        }
        let bound = known.is_some();
        graph.pattern.nodes.push(PatternNode { slot, bound, labels, conditions: Vec::new(), reads: Vec::new(), reads_all: None });
        graph.pattern.nodes.len() - 1
    }

    /// The caller knows the ends; the edge comes first so that its variable is declared in the order of the text.
    fn graph_edge<'p>(
        &mut self,
        graph: &mut QueryGraph,
        edge: &'p EdgePattern,
        in_path: bool,
        properties: &mut Vec<(Slot, &'p Expression)>,
    ) -> usize {
        if edge.length.is_some() {
            self.not_yet(edge.span, "A relationship of variable length");
        }
        let known = edge.variable.as_ref().and_then(|name| self.scope.get(&name.text));
        if let (Some(slot), Some(name)) = (known, &edge.variable) {
            self.check_type(name, slot, Holds::Edge);
            if graph.pattern.edges.iter().any(|other| other.slot == Some(slot)) {
                let message = format!("Cannot use the same relationship variable '{}' for multiple relationships", name.text);
                self.error(name.span, "RelationshipUniquenessViolation", message);
            }
        }
        let asked = edge.variable.is_some() || in_path || edge.properties.is_some();
        let slot = known.or_else(|| {
            asked.then(|| {
                let slot = self.declare(edge.variable.as_ref(), Holds::Edge);
                graph.declared.push(slot);
                slot
            })
        });
        if let (Some(slot), Some(map)) = (slot, &edge.properties) {
            properties.push((slot, map));
        }
        graph.pattern.edges.push(PatternEdge {
            slot,
            source: 0,
            target: 0,
            kinds: edge.kinds.iter().map(|kind| self.draft.name(&kind.text)).collect(),
            directed: edge.direction != Direction::Either,
            bound: known.is_some(),
            conditions: Vec::new(),
            reads: Vec::new(),
        });
        graph.pattern.edges.len() - 1
    }

    pub fn declare(&mut self, variable: Option<&Name>, holds: Holds) -> Slot {
        let slot = self.draft.new_slot(variable.map_or("", |name| &name.text), holds);
        if let Some(name) = variable {
            self.scope.insert(&name.text, slot);
        }
        slot
    }

    /// A variable of an earlier clause must be able to hold what the pattern makes of it.
    fn check_type(&mut self, name: &Name, slot: Slot, wanted: Holds) {
        let wanted = if wanted == Holds::Node { "Node" } else { "Relationship" };
        if let Some(found) = super::types::type_of(&self.draft, &Expr::Slot(slot))
            && found != wanted
        {
            let message = format!("Type mismatch: {} defined with conflicting type {found} (expected {wanted})", name.text);
            self.error(name.span, "VariableTypeConflict", message);
        }
    }

    /// `{k: e}` as conditions.
    pub fn property_conditions(&mut self, slot: Slot, expression: &Expression, operator: Binary) -> Vec<Expr> {
        let ExpressionKind::Map(entries) = &*expression.kind else {
            let message = format!(
                "Parameter maps cannot be used in MATCH and MERGE patterns (use a literal map instead, e.g. `{{id: {expression}.id}}`)"
            );
            self.error(expression.span, "InvalidParameterUse", message);
            return Vec::new();
        };
        let mut conditions = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let of = Box::new(Expr::Slot(slot));
            let left = Box::new(Expr::Property { of, key: self.draft.name(&key.text) });
            conditions.push(Expr::Binary { operator, left, right: self.boxed(value) });
        }
        conditions
    }

    /// Within one clause no edge is matched twice. Only pairs whose types can coincide are worth a look.
    pub fn distinct_edges(&mut self, pattern: &mut Pattern) {
        for right in 1..pattern.edges.len() {
            for left in 0..right {
                let (a, b) = (&pattern.edges[left].kinds, &pattern.edges[right].kinds);
                if a.is_empty() || b.is_empty() || a.iter().any(|kind| b.contains(kind)) {
                    pattern.distinct_edges.push((left, right));
                }
            }
        }
        for (left, right) in pattern.distinct_edges.clone() {
            for edge in [left, right] {
                if pattern.edges[edge].slot.is_none() {
                    pattern.edges[edge].slot = Some(self.draft.new_slot("", Holds::Edge));
                }
            }
        }
    }
}

/// A condition that every row meets.
pub fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Value::Boolean(true)))
}
