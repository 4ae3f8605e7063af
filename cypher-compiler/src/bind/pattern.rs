//! A MATCH or MERGE pattern becomes a query graph: nodes, edges and conditions, however it was written.

use weir_model::expression::{Binary, Quantifier};
use weir_model::plan::{Chain, Pattern, PatternEdge, PatternNode, PatternPath, Search, Slot};
use weir_model::{Expr, Text, Value};

use super::{Binder, Holds};
use crate::ast::{Direction, EdgePattern, Expression, ExpressionKind, LabelExpression, Name, NodePattern, PatternPart};
use crate::error::{Code, Span};

/// A pattern with the slots it declares.
#[derive(Default)]
pub struct QueryGraph {
    pub pattern: Pattern,
    pub declared: Vec<Slot>,
    /// The variables of its relationships so far. Two of them may stand for one relationship, if an earlier clause gave it both
    /// names.
    relationships: Vec<Text>,
}

/// A property map and what it is about.
struct Properties<'p> {
    of: Slot,
    /// `of` is a list of edges: each has to have them.
    each: bool,
    map: &'p Expression,
}

/// What of a pattern is bound only when all its variables are declared.
#[derive(Default)]
struct Deferred<'p> {
    properties: Vec<Properties<'p>>,
    conditions: Vec<&'p Expression>,
}

impl Binder<'_> {
    /// All variables first, then property maps and conditions: these may name a variable that stands further right.
    pub fn query_graph(&mut self, parts: &[PatternPart]) -> QueryGraph {
        let mut graph = QueryGraph::default();
        let mut deferred = Deferred::default();
        for part in parts {
            let mut at = self.graph_node(&mut graph, &part.start, &mut deferred);
            let start = at;
            let mut edges = Vec::new();
            for (edge, node) in &part.steps {
                let index = self.graph_edge(&mut graph, edge, part, &mut deferred);
                let from = std::mem::replace(&mut at, self.graph_node(&mut graph, node, &mut deferred));
                let ends = if edge.direction == Direction::Left { (at, from) } else { (from, at) };
                (graph.pattern.edges[index].source, graph.pattern.edges[index].target) = ends;
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
        for Properties { of, each, map } in deferred.properties {
            let found = if each {
                self.each_edge(of, |binder, edge| binder.property_conditions(edge, map, Binary::Equal))
            } else {
                self.property_conditions(of, map, Binary::Equal)
            };
            graph.pattern.conditions.extend(found);
        }
        for condition in deferred.conditions {
            let condition = self.condition(condition);
            graph.pattern.conditions.push(condition);
        }
        self.distinct_edges(&mut graph.pattern);
        graph
    }

    fn graph_node<'p>(&mut self, graph: &mut QueryGraph, node: &'p NodePattern, deferred: &mut Deferred<'p>) -> usize {
        let labels: Vec<_> = node.labels.iter().map(|label| self.draft.name(&label.text)).collect();
        let known = node.variable.as_ref().and_then(|name| self.scope.get(&name.text));
        if let (Some(slot), Some(name)) = (known, &node.variable) {
            self.check_variable(name, slot, "Node");
        }
        let slot = known.unwrap_or_else(|| self.declare(node.variable.as_ref(), Holds::Node));
        deferred.properties.extend(node.properties.iter().map(|map| Properties { of: slot, each: false, map }));
        deferred.conditions.extend(&node.condition);
        if let Some(labels) = &node.label_expression {
            let condition = self.label_condition(&Expr::Slot(slot), labels);
            graph.pattern.conditions.push(condition);
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
        part: &PatternPart,
        deferred: &mut Deferred<'p>,
    ) -> usize {
        let chain = self.chain(edge, part);
        let known = edge.variable.as_ref().and_then(|name| self.scope.get(&name.text));
        if let (Some(slot), Some(name)) = (known, &edge.variable) {
            self.check_variable(name, slot, if chain.is_some() { super::types::LIST } else { "Relationship" });
            if graph.relationships.contains(&name.text) {
                let message = format!("Cannot use the same relationship variable '{}' for multiple relationships", name.text);
                self.error(name.span, Code::RelationshipUniquenessViolation, message);
            }
            if part.search != Search::All {
                let message = format!("Bound relationships not allowed in a shortest path: `{}`", name.text);
                self.error(name.span, Code::VariableAlreadyBound, message);
            }
        }
        graph.relationships.extend(edge.variable.iter().map(|name| name.text.clone()));
        let restricted = edge.properties.is_some() || edge.kind_expression.is_some();
        let asked = edge.variable.is_some() || restricted || (part.variable.is_some() && chain.is_none());
        let slot = known.or_else(|| {
            asked.then(|| {
                let slot = self.declare(edge.variable.as_ref(), if chain.is_some() { Holds::Anything } else { Holds::Edge });
                if chain.is_some() {
                    self.draft.slots[slot.0 as usize].type_name = Some(super::types::LIST);
                }
                graph.declared.push(slot);
                slot
            })
        });
        if let Some(slot) = slot {
            let each = chain.is_some();
            deferred.properties.extend(edge.properties.iter().map(|map| Properties { of: slot, each, map }));
            if let Some(kinds) = &edge.kind_expression {
                let conditions = if each {
                    self.each_edge(slot, |binder, edge| vec![binder.label_condition(&Expr::Slot(edge), kinds)])
                } else {
                    vec![self.label_condition(&Expr::Slot(slot), kinds)]
                };
                graph.pattern.conditions.extend(conditions);
            }
        }
        deferred.conditions.extend(&edge.condition);
        let mut kinds: Vec<_> = edge.kinds.iter().map(|kind| self.draft.name(&kind.text)).collect();
        // `[:T|T]` is one type.
        kinds.sort_unstable();
        kinds.dedup();
        graph.pattern.edges.push(PatternEdge {
            slot,
            source: 0,
            target: 0,
            kinds,
            directed: edge.direction != Direction::Either,
            bound: known.is_some(),
            conditions: Vec::new(),
            reads: Vec::new(),
            chain,
        });
        graph.pattern.edges.len() - 1
    }

    /// `*1..3`, if that is what the edge is. A shortest path without a length is one edge long.
    fn chain(&mut self, edge: &EdgePattern, part: &PatternPart) -> Option<Chain> {
        let (min, max) = match edge.length {
            Some((min, max)) => (min.unwrap_or(1), max),
            None if part.search != Search::All => (1, Some(1)),
            None => return None,
        };
        if part.search != Search::All && min > 1 {
            let message = "A shortest path cannot have a minimal length other than 0 or 1";
            self.error(edge.span, Code::InvalidRelationshipPattern, message);
        }
        let reversed = edge.direction == Direction::Left;
        let (edges, nodes, whole) = (Vec::new(), Vec::new(), Vec::new());
        Some(Chain { min, max, search: part.search, reversed, edges, nodes, whole, path: None })
    }

    /// Conditions over each edge of a list. Written as quantifiers; a rule moves them into the chain where that can be.
    fn each_edge(&mut self, list: Slot, conditions: impl FnOnce(&mut Self, Slot) -> Vec<Expr>) -> Vec<Expr> {
        let slot = self.draft.new_slot("", Holds::Edge);
        let list = || Box::new(Expr::Slot(list));
        let all = |condition| Expr::Quantifier { kind: Quantifier::All, slot, list: list(), condition: Box::new(condition) };
        conditions(self, slot).into_iter().map(all).collect()
    }

    /// `of:A&!B` as a truth value.
    pub fn label_condition(&mut self, of: &Expr, labels: &LabelExpression) -> Expr {
        let boxed = || Box::new(of.clone());
        match labels {
            LabelExpression::Name(name) => Expr::HasLabels { of: boxed(), labels: vec![self.draft.name(&name.text)] },
            LabelExpression::Any => {
                let found = self.resolve("labels", vec![of.clone()], Span::default());
                let none = Box::new(Expr::List(Vec::new()));
                Expr::Binary { operator: Binary::NotEqual, left: Box::new(found), right: none }
            }
            LabelExpression::Not(inner) => Expr::Not(Box::new(self.label_condition(of, inner))),
            LabelExpression::And(parts) => match labels.all_of() {
                Some(names) => {
                    let labels = names.into_iter().map(|name| self.draft.name(&name.text)).collect();
                    Expr::HasLabels { of: boxed(), labels }
                }
                None => Expr::And(parts.iter().map(|part| self.label_condition(of, part)).collect()),
            },
            LabelExpression::Or(parts) => Expr::Or(parts.iter().map(|part| self.label_condition(of, part)).collect()),
        }
    }

    pub fn declare(&mut self, variable: Option<&Name>, holds: Holds) -> Slot {
        let slot = self.draft.new_slot(variable.map_or("", |name| &name.text), holds);
        if let Some(name) = variable {
            self.scope.insert(&name.text, slot);
        }
        slot
    }

    /// A variable of an earlier clause must be able to hold what the pattern makes of it.
    fn check_variable(&mut self, name: &Name, slot: Slot, wanted: &'static str) {
        if let Some(found) = super::types::type_of(&self.draft, &Expr::Slot(slot))
            && found != wanted
        {
            let message = format!("Type mismatch: {} defined with conflicting type {found} (expected {wanted})", name.text);
            self.error(name.span, Code::VariableTypeConflict, message);
        }
    }

    /// `{k: e}` as conditions.
    pub fn property_conditions(&mut self, slot: Slot, expression: &Expression, operator: Binary) -> Vec<Expr> {
        let ExpressionKind::Map(entries) = &*expression.kind else {
            let message = format!(
                "Parameter maps cannot be used in MATCH and MERGE patterns (use a literal map instead, e.g. `{{id: {expression}.id}}`)"
            );
            self.error(expression.span, Code::InvalidParameterUse, message);
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

    /// Within one clause no edge is matched twice. Only pairs whose types can coincide are worth a look. Shortest paths
    /// stand apart: they are the shortest there are, whatever else is matched.
    pub fn distinct_edges(&mut self, pattern: &mut Pattern) {
        for right in 1..pattern.edges.len() {
            for left in 0..right {
                let (a, b) = (&pattern.edges[left].kinds, &pattern.edges[right].kinds);
                let apart = [left, right].iter().any(|edge| is_shortest(&pattern.edges[*edge]));
                if !apart && (a.is_empty() || b.is_empty() || a.iter().any(|kind| b.contains(kind))) {
                    pattern.distinct_edges.push((left, right));
                }
            }
        }
        for (left, right) in pattern.distinct_edges.clone() {
            for edge in [left, right] {
                if pattern.edges[edge].slot.is_none() && pattern.edges[edge].chain.is_none() {
                    pattern.edges[edge].slot = Some(self.draft.new_slot("", Holds::Edge));
                }
            }
        }
    }
}

pub fn is_shortest(edge: &PatternEdge) -> bool {
    edge.chain.as_ref().is_some_and(|chain| chain.search != Search::All)
}

/// A condition that every row meets.
pub fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Value::Boolean(true)))
}
