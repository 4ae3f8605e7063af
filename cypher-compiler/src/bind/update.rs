//! CREATE, MERGE, SET, REMOVE, DELETE, FOREACH.

use weir_model::expression::Binary;
use weir_model::plan::{Operator, Pattern, PatternEdge, PatternNode, PatternPath, Slot, Write};
use weir_model::{Expr, Value};

use super::pattern::QueryGraph;
use super::{Binder, Holds, keyword};
use crate::ast::{
    Clause, ClauseKind, Direction, EdgePattern, Expression, ExpressionKind, Name, NodePattern, PatternPart, SetItem,
};
use crate::error::Code;
use crate::walk;

/// A MERGE, wherever it stands.
struct Merge {
    pattern: Pattern,
    create: Vec<Write>,
    on_create: Vec<Write>,
    on_match: Vec<Write>,
    /// Its path, over what was found or created.
    named: Vec<Pattern>,
}

impl Binder<'_> {
    pub fn update(&mut self, input: Operator, clause: &Clause) -> Operator {
        self.has_writes = true;
        let input = Box::new(input);
        match &clause.kind {
            ClauseKind::Create(parts) => {
                let (writes, paths) = self.create(parts);
                with_paths(Operator::Write { input, writes }, paths)
            }
            ClauseKind::Merge { part, on_create, on_match } => {
                let Merge { pattern, create, on_create, on_match, named } = self.merge(part, on_create, on_match);
                with_paths(Operator::Merge { input, pattern, create, on_create, on_match }, named)
            }
            _ => {
                let writes = self.writes(clause);
                Operator::Write { input, writes }
            }
        }
    }

    /// The clauses that are nothing but writes.
    fn writes(&mut self, clause: &Clause) -> Vec<Write> {
        match &clause.kind {
            ClauseKind::Set(items) => self.set_items(items),
            ClauseKind::Remove(items) => items.iter().filter_map(|item| self.remove_item(item)).collect(),
            ClauseKind::Delete { detach, targets } => targets.iter().map(|target| self.delete(target, *detach)).collect(),
            ClauseKind::ForEach { variable, list, updates } => {
                let list_span = list.span;
                let list = self.expression(list);
                self.expect_list(&list, list_span);
                let slot = self.draft.new_element_slot(&variable.text, &list);
                let before = self.scope.len();
                self.scope.insert(&variable.text, slot);
                let writes = self.for_each_updates(updates);
                self.scope.truncate(before);
                vec![Write::ForEach { slot, list, writes }]
            }
            other => {
                self.not_yet(clause.span, keyword(other));
                Vec::new()
            }
        }
    }

    /// The updates inside FOREACH in order. A MERGE may give several rows, so what follows it happens inside it; so does what
    /// follows a named path.
    fn for_each_updates(&mut self, clauses: &[Clause]) -> Vec<Write> {
        let mut writes = Vec::new();
        for (i, clause) in clauses.iter().enumerate() {
            let rest = &clauses[i + 1..];
            match &clause.kind {
                ClauseKind::Merge { part, on_create, on_match } => {
                    let Merge { pattern, create, on_create, on_match, named } = self.merge(part, on_create, on_match);
                    let then = with_paths_then(named, self.for_each_updates(rest));
                    writes.push(Write::Merge { pattern: Box::new(pattern), create, on_create, on_match, then });
                    return writes;
                }
                ClauseKind::Create(parts) => {
                    let (created, named) = self.create(parts);
                    writes.extend(created);
                    if !named.is_empty() {
                        writes.extend(with_paths_then(named, self.for_each_updates(rest)));
                        return writes;
                    }
                }
                ClauseKind::Set(_) | ClauseKind::Remove(_) | ClauseKind::Delete { .. } | ClauseKind::ForEach { .. } => {
                    writes.extend(self.writes(clause));
                }
                other => {
                    let message = format!("Invalid use of {} inside FOREACH", keyword(other));
                    self.error(clause.span, Code::InvalidClauseComposition, message);
                    self.declared_by(clause);
                }
            }
        }
        writes
    }

    /// What a clause that cannot stand here declares is known all the same, so that one mistake is reported once.
    fn declared_by(&mut self, clause: &Clause) {
        if matches!(clause.kind, ClauseKind::Return(_) | ClauseKind::Schema(_)) {
            return;
        }
        let before = self.scope.clone();
        let _ = self.clause(Operator::Argument, clause);
        // WITH takes away what was there, which is not what anybody meant.
        let declared = std::mem::replace(&mut self.scope, before);
        declared.all().iter().for_each(|(name, slot)| self.scope.insert(name, *slot));
    }

    /// The writes of CREATE in the order written, each node before the edges at it, and a pattern for each named path.
    fn create(&mut self, parts: &[PatternPart]) -> (Vec<Write>, Vec<Pattern>) {
        let mut writes = Vec::new();
        let mut named = Vec::new();
        for part in parts {
            let start = self.create_node(&part.start, part.steps.is_empty(), &mut writes);
            let mut nodes = vec![start];
            let mut edges = Vec::new();
            for (edge, node) in &part.steps {
                let from = nodes[nodes.len() - 1];
                let to = self.create_node(node, false, &mut writes);
                nodes.push(to);
                let properties = edge.properties.as_ref().map(|map| self.expression(map));
                let slot = (edge.variable.is_some() || part.variable.is_some()).then(|| self.declare_edge(edge));
                self.check_created_edge(edge, "CREATE");
                if edge.direction == Direction::Either {
                    self.error(
                        edge.span,
                        Code::RequiresDirectedRelationship,
                        "Only directed relationships are supported in CREATE",
                    );
                }
                let (source, target) = if edge.direction == Direction::Left { (to, from) } else { (from, to) };
                let kind = self.draft.name(edge.kinds.first().map_or("", |kind| &kind.text));
                writes.push(Write::CreateEdge { slot, source, kind, target, properties });
                edges.push((slot, source, kind, target));
            }
            if let Some(variable) = &part.variable
                && self.check_new(variable)
            {
                let slot = self.draft.new_slot(&variable.text, Holds::Path);
                self.scope.insert(&variable.text, slot);
                named.push(path_pattern(slot, start, &edges));
            }
        }
        (writes, named)
    }

    fn declare_edge(&mut self, edge: &EdgePattern) -> Slot {
        if let Some(variable) = &edge.variable {
            self.check_new(variable);
        }
        self.declare(edge.variable.as_ref(), Holds::Edge)
    }

    /// A node that is bound takes on the labels and properties that stand at it in a chain.
    fn create_node(&mut self, node: &NodePattern, alone: bool, writes: &mut Vec<Write>) -> Slot {
        if node.label_expression.is_some() {
            let message = "Only labels can be created, not label expressions";
            self.error(node.span, Code::InvalidLabelExpression, message);
        }
        self.check_no_condition(node.condition.as_ref());
        let labels: Vec<_> = node.labels.iter().map(|label| self.draft.name(&label.text)).collect();
        if let Some(variable) = &node.variable
            && let Some(slot) = self.scope.get(&variable.text)
        {
            let adds = !labels.is_empty() || node.properties.is_some();
            if alone || (adds && self.options.open_cypher) {
                self.already_bound(variable);
            } else if matches!(self.draft.holds(slot), Holds::Edge | Holds::Path) {
                let message = format!("Type mismatch: {} defined with conflicting type (expected Node)", variable.text);
                self.error(variable.span, Code::VariableTypeConflict, message);
            }
            if !labels.is_empty() {
                writes.push(Write::AddLabels { target: slot, labels });
            }
            if let Some(map) = &node.properties {
                writes.push(Write::SetProperties { target: slot, value: self.expression(map), replace: false });
            }
            return slot;
        }
        let properties = node.properties.as_ref().map(|map| self.expression(map));
        let slot = self.declare(node.variable.as_ref(), Holds::Node);
        writes.push(Write::CreateNode { slot, labels, properties });
        slot
    }

    fn already_bound(&mut self, variable: &Name) {
        self.error(variable.span, Code::VariableAlreadyBound, format!("Variable `{}` already declared", variable.text));
    }

    fn check_no_condition(&mut self, condition: Option<&Expression>) {
        if let Some(condition) = condition {
            self.error(condition.span, Code::UnexpectedSyntax, "WHERE inside a pattern is for patterns that are matched");
        }
    }

    fn check_created_edge(&mut self, edge: &EdgePattern, word: &str) {
        self.check_no_condition(edge.condition.as_ref());
        if edge.length.is_some() {
            self.error(edge.span, Code::CreatingVarLength, format!("Variable length relationships cannot be used in {word}"));
        }
        match edge.kinds.len() {
            1 => {}
            0 => self.error(
                edge.span,
                Code::NoSingleRelationshipType,
                format!("Exactly one relationship type must be specified for {word}. Did you forget to prefix your relationship type with a ':'?"),
            ),
            _ => self.error(edge.span, Code::NoSingleRelationshipType, format!("A single relationship type must be specified for {word}")),
        }
    }

    /// The pattern, and the writes that make it where it is not found. Maps compare as the store compares.
    fn merge(&mut self, part: &PatternPart, on_create: &[SetItem], on_match: &[SetItem]) -> Merge {
        let mut graph = QueryGraph::default();
        let mut create = Vec::new();
        let start = self.merge_node(&mut graph, &part.start, part.steps.is_empty(), &mut create);
        let mut at = start;
        let mut edges = Vec::new();
        for (edge, node) in &part.steps {
            let from = at;
            at = self.merge_node(&mut graph, node, false, &mut create);
            let mut conditions = Vec::new();
            let properties = edge.properties.as_ref().map(|map| self.expression(map));
            let asked = edge.variable.is_some() || part.variable.is_some() || properties.is_some();
            let slot = asked.then(|| self.declare_edge(edge));
            self.check_created_edge(edge, "MERGE");
            if let (Some(slot), Some(map)) = (slot, &edge.properties) {
                conditions = self.merged_conditions(&mut graph, slot, map);
            }
            let (source, target) = if edge.direction == Direction::Left { (at, from) } else { (from, at) };
            let kind = self.draft.name(edge.kinds.first().map_or("", |kind| &kind.text));
            let directed = edge.direction != Direction::Either;
            graph.pattern.edges.push(PatternEdge {
                slot,
                source,
                target,
                kinds: vec![kind],
                directed,
                bound: false,
                conditions,
                reads: Vec::new(),
                chain: None,
            });
            let (source, target) = (graph.pattern.nodes[source].slot, graph.pattern.nodes[target].slot);
            create.push(Write::CreateEdge { slot, source, kind, target, properties });
            edges.push((slot, source, kind, target));
        }
        self.distinct_edges(&mut graph.pattern);
        let mut named = Vec::new();
        if let Some(variable) = &part.variable
            && self.check_new(variable)
        {
            let slot = self.draft.new_slot(&variable.text, Holds::Path);
            self.scope.insert(&variable.text, slot);
            let mut path = path_pattern(slot, graph.pattern.nodes[start].slot, &edges);
            // An undirected MERGE may have found its edge the other way round.
            path.edges.iter_mut().zip(&graph.pattern.edges).for_each(|(named, edge)| named.directed = edge.directed);
            named.push(path);
        }
        let on_create = self.set_items(on_create);
        let on_match = self.set_items(on_match);
        Merge { pattern: graph.pattern, create, on_create, on_match, named }
    }

    fn merge_node(&mut self, graph: &mut QueryGraph, node: &NodePattern, alone: bool, create: &mut Vec<Write>) -> usize {
        let bound = node.variable.as_ref().is_some_and(|name| self.scope.get(&name.text).is_some());
        let mut made = Vec::new();
        let slot = self.create_node(node, alone, &mut made);
        if let Some(at) = graph.pattern.nodes.iter().position(|other| other.slot == slot) {
            if let (Some(variable), false) = (&node.variable, made.is_empty()) {
                self.already_bound(variable);
            }
            return at;
        }
        let labels = node.labels.iter().map(|label| self.draft.name(&label.text)).collect();
        let conditions = node.properties.as_ref().map_or(Vec::new(), |map| self.merged_conditions(graph, slot, map));
        create.extend(made);
        graph.pattern.nodes.push(PatternNode { slot, bound, labels, conditions, reads: Vec::new(), reads_all: None });
        graph.pattern.nodes.len() - 1
    }

    /// `{k: e}` as the conditions of one part of the pattern; what names another part is asked when both are there.
    fn merged_conditions(&mut self, graph: &mut QueryGraph, slot: Slot, map: &Expression) -> Vec<Expr> {
        let pattern = &mut graph.pattern;
        let (nodes, edges) = (&pattern.nodes, &pattern.edges);
        let is_found = |slot: &Slot| {
            nodes.iter().any(|node| node.slot == *slot && !node.bound) || edges.iter().any(|edge| edge.slot == Some(*slot))
        };
        let (between, own): (Vec<Expr>, _) = self
            .property_conditions(slot, map, Binary::Same)
            .into_iter()
            .partition(|condition| walk::slots(condition).iter().any(is_found));
        for condition in between {
            if let Expr::Binary { right, .. } = &condition {
                pattern.conditions.push(Expr::IsNull { of: right.clone(), negated: true });
            }
            pattern.conditions.push(condition);
        }
        own
    }

    fn set_items(&mut self, items: &[SetItem]) -> Vec<Write> {
        items.iter().filter_map(|item| self.set_item(item)).collect()
    }

    fn set_item(&mut self, item: &SetItem) -> Option<Write> {
        match item {
            SetItem::Property { of, key, value } => {
                let target = self.expression(of);
                self.expect_entity(&target, of.span);
                let key = self.draft.name(&key.text);
                let value = value.as_ref().map_or(Expr::Literal(Value::Null), |value| self.expression(value));
                Some(Write::SetProperty { target, key, value })
            }
            SetItem::All { variable, value, replace } => {
                let target = self.lookup(variable);
                let place = value.span;
                let value = self.expression(value);
                self.expect_map(&value, place);
                let target = target?;
                self.expect_entity(&Expr::Slot(target), variable.span);
                Some(Write::SetProperties { target, value, replace: *replace })
            }
            SetItem::Labels { variable, labels } => {
                let labels = labels.iter().map(|label| self.draft.name(&label.text)).collect();
                Some(Write::AddLabels { target: self.labelled(variable)?, labels })
            }
        }
    }

    fn remove_item(&mut self, item: &SetItem) -> Option<Write> {
        match item {
            SetItem::Property { of, key, .. } => {
                let target = self.expression(of);
                self.expect_entity(&target, of.span);
                Some(Write::RemoveProperty { target, key: self.draft.name(&key.text) })
            }
            SetItem::Labels { variable, labels } => {
                let labels = labels.iter().map(|label| self.draft.name(&label.text)).collect();
                Some(Write::RemoveLabels { target: self.labelled(variable)?, labels })
            }
            SetItem::All { .. } => None,
        }
    }

    /// The variable of a change of labels.
    fn labelled(&mut self, variable: &Name) -> Option<Slot> {
        let slot = self.lookup(variable)?;
        self.expect_node(&Expr::Slot(slot), variable.span);
        Some(slot)
    }

    fn delete(&mut self, target: &Expression, detach: bool) -> Write {
        if matches!(*target.kind, ExpressionKind::Labels(..)) {
            self.error(target.span, Code::InvalidDelete, "DELETE doesn't support removing labels from a node. Try REMOVE.");
        }
        let expr = self.expression(target);
        self.expect_deletable(&expr, target.span);
        Write::Delete { target: expr, detach }
    }
}

/// Reads the paths over what has just been written, each by a pattern of bound nodes and edges of its own. Where an end was null,
/// nothing was written and the path is null: the row passes all the same.
fn with_paths(operator: Operator, named: Vec<Pattern>) -> Operator {
    named.into_iter().fold(operator, |input, pattern| {
        let nulls = pattern.paths.iter().map(|path| path.slot).collect();
        let inner = Operator::Match { input: Box::new(Operator::Argument), pattern };
        Operator::Optional { input: Box::new(input), inner: Box::new(inner), nulls }
    })
}

/// As `with_paths`, inside FOREACH, where the only pattern is that of MERGE: it finds what is there once, and where it finds
/// nothing it creates nothing and the path is null.
fn with_paths_then(named: Vec<Pattern>, then: Vec<Write>) -> Vec<Write> {
    if then.is_empty() {
        return then;
    }
    named.into_iter().rev().fold(then, |then, pattern| {
        let pattern = Box::new(pattern);
        vec![Write::Merge { pattern, create: Vec::new(), on_create: Vec::new(), on_match: Vec::new(), then }]
    })
}

fn path_pattern(slot: Slot, start: Slot, edges: &[(Option<Slot>, Slot, weir_model::plan::Name, Slot)]) -> Pattern {
    let mut named = Pattern::default();
    let mut node = |slot: Slot| {
        named.nodes.iter().position(|node| node.slot == slot).unwrap_or_else(|| {
            named.nodes.push(PatternNode {
                slot,
                bound: true,
                labels: Vec::new(),
                conditions: Vec::new(),
                reads: Vec::new(),
                reads_all: None,
            });
            named.nodes.len() - 1
        })
    };
    let start = node(start);
    let mut path = Vec::new();
    let ends: Vec<(usize, usize)> = edges.iter().map(|(_, source, _, target)| (node(*source), node(*target))).collect();
    for ((slot, _, kind, _), (source, target)) in edges.iter().zip(ends) {
        path.push(named.edges.len());
        let bound = slot.is_some();
        named.edges.push(PatternEdge {
            slot: *slot,
            source,
            target,
            kinds: vec![*kind],
            directed: true,
            bound,
            conditions: Vec::new(),
            reads: Vec::new(),
            chain: None,
        });
    }
    named.paths.push(PatternPath { slot, start, edges: path });
    named
}
