//! Standing queries: the restricted patterns of two modes, whatever reads in the third, and their plans.
//!
//! A standing pattern of the two is one MATCH … WHERE … RETURN whose nodes form a tree. Everything it reads of a node is copied
//! into slots when the node is visited (`PatternNode::reads`), so that conditions across nodes and the columns ask nothing of the
//! graph. Each refused construct has its own error, in the order the reference answers them.

mod answer_at;
mod any;
mod classify;
mod clock;
mod delta;
mod optional;
mod refuse;
mod split;
mod valueless;

use weir_model::expression::Binary;
use weir_model::plan::{Operator, Pattern, PatternEdge, PatternNode, Plan, QueryFacts, Slot};
use weir_model::{Expr, Text, Value, java_regex};

use crate::ast::{
    Clause, ClauseKind, Direction, EdgePattern, Expression, ExpressionKind, Hint, NodePattern, PatternPart, Projection, Query,
};
use crate::bind::{Binder, Draft, Holds};
use crate::error::{Code, Diagnostic, DiagnosticKind, Span};
use crate::explain::names_of_slots;
use crate::lower::orders::Lists;
use crate::{Options, bind, lower, parser, rewrite, walk};
pub use answer_at::compile_asked;
use classify::{Class, Local, has_offset_of_now};
pub use valueless::valueless;

const AGGREGATES: &str = "aggregates are not supported in standing queries of this mode; mode AnyQuery takes them";

/// What is said to whoever gives a parameter to a text that is kept.
const NO_PARAMETERS: &str = "a standing query takes no parameters: write the value in its text";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandingMode {
    /// One result per root node, on or off.
    DistinctId,
    /// One result per way of matching.
    MultipleValues,
    /// Any query that reads: one result per row of its answer.
    AnyQuery,
}

#[derive(Clone, Debug)]
pub struct StandingPlan {
    /// `Project` over one `Match` over `Unit`; in mode DistinctId a `Distinct` above. In mode AnyQuery what `any` makes of it.
    pub plan: Plan,
    pub mode: StandingMode,
    /// Index into `Pattern::nodes`: the node whose id a DistinctId query answers.
    pub root: usize,
    /// The names of slots, for people: of those without one, `#` and the number.
    pub slots: Vec<String>,
}

type Checked<T> = Result<T, Box<Diagnostic>>;

pub fn compile_standing(text: &str, mode: StandingMode, options: &Options) -> Result<StandingPlan, Vec<Diagnostic>> {
    let tree = parser::parse(text)?;
    if mode == StandingMode::AnyQuery {
        refuse::clauses(text, &tree, options)?;
        let mut draft = marked(text, &tree, options)?;
        refuse::expressions(text, &draft, options)?;
        lower::anchors::write_out(&mut draft, options.ids);
        any::maintainable(&mut draft).map_err(|count| vec![too_many_edges(text, count, mode)])?;
        let slots = names_of_slots(&draft);
        return Ok(StandingPlan { plan: lower::lower(text, draft, Lists::AreTested), mode, root: 0, slots });
    }
    let mut standing =
        Standing { text, mode, options, binder: Binder::new(text, options), pattern: Pattern::default(), filters: Vec::new() };
    let clauses = if tree.unions.is_empty() { tree.first.as_slice() } else { &[] };
    let compiled = standing.compile(clauses);
    let mut errors = std::mem::take(&mut standing.binder.errors);
    match compiled {
        Ok(plan) if errors.is_empty() => return Ok(plan),
        Ok(_) => {}
        Err(error) => errors.push(*error),
    }
    errors.sort_by_key(|error| error.offset);
    Err(errors)
}

/// A query as it is rewritten, with the conditions marked that time alone can turn.
fn marked(text: &str, tree: &Query, options: &Options) -> Result<Draft, Vec<Diagnostic>> {
    let mut draft = bind::bind(text, tree, options)?;
    rewrite::rewrite(&mut draft, options, &mut |_, _| ()).map_err(|broken| vec![broken.diagnostic(text)])?;
    clock::spell_out(&mut draft, options.ids);
    clock::mark(&mut draft);
    Ok(draft)
}

/// A pattern that would take long to make and much to keep. Nobody writes so many out who could write less.
fn too_many_edges(text: &str, count: usize, mode: StandingMode) -> Diagnostic {
    let max = delta::EDGES_MAX;
    let message = format!("A connected pattern of a standing query has at most {max} relationships: this one has {count}");
    let parts = "in parts, each a MATCH that goes on from a node of the one before";
    let hint = match mode {
        StandingMode::AnyQuery => {
            format!("write relationships that are alike as a length, as in `-[:R*{count}]->`, or them all {parts}")
        }
        _ => format!("mode AnyQuery takes more {parts}"),
    };
    Diagnostic::compile(text, Span::default(), Code::TooLong, message).with_hint(Some(hint))
}

/// The parts of a query that fits.
struct Shape<'c> {
    parts: &'c [PatternPart],
    hints: &'c [Hint],
    condition: Option<&'c Expression>,
    projection: &'c Projection,
    /// Of RETURN.
    span: Span,
}

struct Standing<'a> {
    text: &'a str,
    mode: StandingMode,
    options: &'a Options,
    binder: Binder<'a>,
    pattern: Pattern,
    filters: Vec<(Span, Expr)>,
}

impl Standing<'_> {
    fn error(&self, span: Span, code: Code, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::compile(self.text, span, code, message))
    }

    /// What a mode cannot do, as opposed to what no standing query can.
    fn refused(&self, span: Span, code: Code, message: &str) -> Box<Diagnostic> {
        Box::new(Diagnostic::new(self.text, span, DiagnosticKind::Pattern, code, message))
    }

    fn compile(&mut self, clauses: &[Clause]) -> Checked<StandingPlan> {
        let Shape { parts, hints, condition, projection, span } = self.shape(clauses)?;
        for part in parts {
            self.part(part)?;
        }
        let hinted = match hints.iter().find(|hint| hint.scan) {
            Some(hint) => Some(self.node_of(&hint.variable.text).ok_or_else(|| {
                self.error(hint.variable.span, Code::UndefinedVariable, format!("Variable `{}` not defined", hint.variable.text))
            })?),
            None => None,
        };
        if let Some(condition) = condition {
            self.condition(condition)?;
        }
        let columns = self.columns(projection)?;
        let is_id = |item: &Expression| self.id_of(item);
        let root =
            hinted.or_else(|| if let [item] = projection.items.as_slice() { is_id(&item.expression) } else { None }).unwrap_or(0);
        if !self.binder.errors.is_empty() {
            // The others are told with it.
            return Err(Box::new(self.binder.errors.remove(0)));
        }
        self.check_mode(projection, root, span)?;
        self.check_tree(parts[0].span)?;
        self.plan(columns, root).map_err(|count| Box::new(too_many_edges(self.text, count, self.mode)))
    }

    /// Exactly one MATCH and one RETURN.
    fn shape<'c>(&self, clauses: &'c [Clause]) -> Checked<Shape<'c>> {
        if let [first, second] = clauses
            && let ClauseKind::Match { optional: false, parts, hints, condition } = &first.kind
            && let ClauseKind::Return(projection) = &second.kind
            && !projection.star
            && projection.order.is_empty()
            && projection.skip.is_none()
            && projection.limit.is_none()
        {
            return Ok(Shape { parts, hints, condition: condition.as_ref(), projection, span: second.span });
        }
        let message = "Wrong format for a standing query (expected `MATCH ... WHERE ... RETURN ...`)";
        let error = self.error(Span::default(), Code::WrongFormat, message);
        let fits = |(i, clause): (usize, &Clause)| match &clause.kind {
            ClauseKind::Match { optional, .. } => i == 0 && !optional,
            ClauseKind::Return(_) => i == 1,
            _ => false,
        };
        let hint = match clauses.iter().enumerate().find(|clause| !fits(*clause)) {
            Some((_, clause)) => format!("{} cannot stand here", crate::bind::keyword(&clause.kind)),
            None => "one MATCH and one RETURN, without `*`, ORDER BY, SKIP, LIMIT and UNION".to_owned(),
        };
        Err(Box::new(error.with_hint(Some(hint))))
    }

    fn part(&mut self, part: &PatternPart) -> Checked<()> {
        if part.search != weir_model::plan::Search::All {
            return Err(self.error(part.span, Code::ShortestPath, "Shortest paths are not supported in standing queries"));
        }
        if part.variable.is_some() {
            return Err(self.error(part.span, Code::NamedPath, "Named patterns are not supported in standing queries"));
        }
        let mut at = self.node(&part.start)?;
        for (edge, node) in &part.steps {
            let from = at;
            at = self.node(node)?;
            self.edge(edge, from, at)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &NodePattern) -> Checked<usize> {
        if let Some(condition) = &node.condition {
            return Err(self.error(
                condition.span,
                Code::Unsupported,
                "WHERE inside a node is not supported in standing queries",
            ));
        }
        if node.label_expression.is_some() {
            let message = "Label expressions are not supported in standing queries, only labels a node has to have";
            return Err(self.error(node.span, Code::LabelExpression, message));
        }
        let name = node.variable.as_ref().map_or("", |name| &name.text);
        let at = match self.node_of(name) {
            Some(at) => at,
            None => {
                let slot = self.binder.declare(node.variable.as_ref(), Holds::Node);
                self.pattern.nodes.push(PatternNode {
                    slot,
                    bound: false,
                    labels: Vec::new(),
                    conditions: Vec::new(),
                    reads: Vec::new(),
                    reads_all: None,
                });
                self.pattern.nodes.len() - 1
            }
        };
        for label in &node.labels {
            let label = self.binder.draft.name(&label.text);
            if !self.pattern.nodes[at].labels.contains(&label) {
                self.pattern.nodes[at].labels.push(label);
            }
        }
        if let Some(properties) = &node.properties {
            let entries = match &*properties.kind {
                ExpressionKind::Map(entries) => entries,
                _ => {
                    return Err(self.error(node.span, Code::NodeConstraint, "Invalid node constraint (expected a map literal)"));
                }
            };
            for (key, value) in entries {
                let Some(literal) = classify::literal(value) else {
                    return Err(self.error(node.span, Code::NodeConstraint, "Invalid node constraint (expected a map literal)"));
                };
                self.local(at, &key.text, Local::Equal(literal));
            }
        }
        Ok(at)
    }

    /// The pattern node of a variable; anonymous nodes have none.
    fn node_of(&self, name: &str) -> Option<usize> {
        let slot = self.binder.scope.get(name)?;
        self.pattern.nodes.iter().position(|node| node.slot == slot)
    }

    fn edge(&mut self, edge: &EdgePattern, from: usize, to: usize) -> Checked<()> {
        let refuse = |code, message: String| Err(self.error(edge.span, code, message));
        if edge.variable.is_some() {
            return refuse(
                Code::EdgeVariable,
                "Assigning edges to variables is not yet supported in standing query patterns".into(),
            );
        }
        if edge.length.is_some() {
            return refuse(Code::EdgeLength, "Variable length relationships are not yet supported".into());
        }
        if edge.properties.is_some() {
            return refuse(Code::EdgeProperties, "Properties on edges are not yet supported".into());
        }
        if let Some(condition) = &edge.condition {
            return Err(self.error(
                condition.span,
                Code::Unsupported,
                "WHERE inside an edge is not supported in standing queries",
            ));
        }
        if let Some(kinds) = &edge.kind_expression {
            let message = format!("Edges in standing query patterns must have exactly one label (got :{kinds})");
            return Err(self.error(edge.span, Code::EdgeLabel, message));
        }
        let [kind] = edge.kinds.as_slice() else {
            let got = edge.kinds.iter().map(|kind| format!(":{kind}")).collect::<Vec<_>>().join(", ");
            return refuse(Code::EdgeLabel, format!("Edges in standing query patterns must have exactly one label (got {got})"));
        };
        let (source, target) = match edge.direction {
            Direction::Right => (from, to),
            Direction::Left => (to, from),
            Direction::Either => return refuse(Code::EdgeDirection, "Edge in standing queries must specify a direction".into()),
        };
        let kinds = vec![self.binder.draft.name(&kind.text)];
        self.pattern.edges.push(PatternEdge {
            slot: None,
            source,
            target,
            kinds,
            directed: true,
            bound: false,
            conditions: Vec::new(),
            reads: Vec::new(),
            chain: None,
        });
        Ok(())
    }

    /// The slot a property of a node is copied into.
    fn read(&mut self, node: usize, key: &str) -> Slot {
        let name = self.binder.draft.name(key);
        if let Some((_, slot)) = self.pattern.nodes[node].reads.iter().find(|(known, _)| *known == name) {
            return *slot;
        }
        let slot = self.binder.draft.new_slot("", Holds::Plain);
        self.pattern.nodes[node].reads.push((name, slot));
        slot
    }

    fn condition(&mut self, condition: &Expression) -> Checked<()> {
        let mut seen: Vec<(usize, Text, Local)> = Vec::new();
        for conjunct in condition.conjuncts() {
            match self.classify(conjunct) {
                Class::Property { node, key, local } => {
                    let same_key = |other: &&(usize, Text, Local)| other.0 == node && other.1 == key;
                    match seen.iter().find(same_key).map(|(_, _, other)| *other == local) {
                        Some(true) => {}
                        // Another condition on the same key counts as a filter, with Cypher's comparison.
                        Some(false) => self.filter(conjunct)?,
                        None => {
                            self.check_regex(&local, conjunct)?;
                            self.local(node, &key, local.clone());
                            seen.push((node, key, local));
                        }
                    }
                }
                Class::Id { node, function, value } => self.local_id(node, function, &value, conjunct)?,
                Class::Filter => self.filter(conjunct)?,
            }
        }
        Ok(())
    }

    /// A condition on one property, compared as the store compares: type and value.
    fn local(&mut self, node: usize, key: &str, local: Local) {
        let slot = self.read(node, key);
        let value = || Box::new(Expr::Slot(slot));
        let same =
            |literal: Value| Expr::Binary { operator: Binary::Same, left: value(), right: Box::new(Expr::Literal(literal)) };
        let present = Expr::IsNull { of: value(), negated: true };
        let condition = match local {
            // What is absent reads as null, and a stored null does not occur.
            Local::Equal(Value::Null) => Expr::Literal(Value::Boolean(false)),
            Local::Equal(literal) => same(literal),
            Local::NotEqual(Value::Null) if self.mode == StandingMode::DistinctId => Expr::Literal(Value::Boolean(true)),
            Local::NotEqual(Value::Null) => present,
            // An absent property differs in mode DistinctId only.
            Local::NotEqual(literal) if self.mode == StandingMode::DistinctId => Expr::Not(Box::new(same(literal))),
            Local::NotEqual(literal) => Expr::And(vec![present, Expr::Not(Box::new(same(literal)))]),
            Local::IsNull => Expr::IsNull { of: value(), negated: false },
            Local::IsNotNull => present,
            Local::Regex(regex) => {
                Expr::Binary { operator: Binary::Regex, left: value(), right: Box::new(Expr::Literal(Value::Text(regex))) }
            }
        };
        self.pattern.nodes[node].conditions.push(condition);
    }

    fn check_regex(&self, local: &Local, conjunct: &Expression) -> Checked<()> {
        let (Local::Regex(regex), ExpressionKind::Binary(_, _, written)) = (local, &*conjunct.kind) else { return Ok(()) };
        java_regex::check(regex).map_err(|failure| self.error(written.span, Code::InvalidRegex, failure.message))
    }

    /// `id(v) = value`, where the value is a constant: a comparison with the node of that id. A constant that is no id is
    /// left to an ordinary comparison.
    fn local_id(&mut self, node: usize, function: &'static str, value: &Expression, conjunct: &Expression) -> Checked<()> {
        let mut constant = self.binder.expression(value);
        rewrite::fold(&mut constant, self.options.ids);
        let id = if let Expr::Literal(constant) = &constant { classify::node_id(constant, self.options.ids) } else { None };
        let Some(id) = id else { return self.filter(conjunct) };
        let left = self.binder.resolve(function, vec![Expr::Slot(self.pattern.nodes[node].slot)], conjunct.span);
        let right = match function {
            "id" => classify::id_value(id, self.options.ids),
            _ => Value::Text(self.options.ids.text(id).into()),
        };
        let condition = Expr::Binary { operator: Binary::Same, left: Box::new(left), right: Box::new(Expr::Literal(right)) };
        self.pattern.nodes[node].conditions.push(condition);
        Ok(())
    }

    fn filter(&mut self, conjunct: &Expression) -> Checked<()> {
        let expr = self.graph_free(conjunct, "the filter condition")?;
        self.filters.push((conjunct.span, expr));
        Ok(())
    }

    /// Binds an expression and replaces what it reads of nodes by slots.
    fn graph_free(&mut self, expression: &Expression, what: &str) -> Checked<Expr> {
        self.check_nodes(expression, &[], what)?;
        let mut expr = self.binder.expression(expression);
        self.copy_reads(&mut expr);
        rewrite::fold(&mut expr, self.options.ids);
        let mut found = Vec::new();
        refuse::of_expression(&expr, &mut found);
        if let Some(&(name, _)) = found.first() {
            let hint = if walk::any(&expr, &has_offset_of_now) {
                clock::OFFSET
            } else {
                "mode AnyQuery takes conditions on the current time, as in `timestamp() - n.seen > 60000`"
            };
            let hint = (!name.starts_with("rand")).then(|| hint.to_owned());
            return Err(Box::new(self.error(expression.span, Code::NotMaintainable, refuse::by_itself(name)).with_hint(hint)));
        }
        Ok(expr)
    }

    /// Node variables stand only in `n.key`, `properties(n)`, `id(n)` and `strId(n)`; nothing else may ask the graph. Of the
    /// names that an expression around this one gives to elements of a list, none is a node.
    fn check_nodes(&self, expression: &Expression, elements: &[&Text], what: &str) -> Checked<()> {
        let is_node =
            |e: &Expression| e.as_variable().is_some_and(|name| !elements.contains(&name) && self.node_of(name).is_some());
        // What is worked out for each element, and what is not.
        let check_apart = |names: &[&Text], each: &[&Expression], rest: &[&Expression]| {
            let names = [elements, names].concat();
            rest.iter().try_for_each(|of| self.check_nodes(of, elements, what))?;
            each.iter().try_for_each(|of| self.check_nodes(of, &names, what))
        };
        match &*expression.kind {
            ExpressionKind::Comprehension { variable, list, filter, result } => {
                let each: Vec<&Expression> = filter.iter().chain(result).collect();
                check_apart(&[&variable.text], &each, &[list])
            }
            ExpressionKind::Quantifier { variable, list, condition, .. } => check_apart(&[&variable.text], &[condition], &[list]),
            ExpressionKind::Reduce { total, initial, variable, list, step } => {
                check_apart(&[&total.text, &variable.text], &[step], &[initial, list])
            }
            ExpressionKind::Variable(name) if is_node(expression) => Err(self.error(
                expression.span,
                Code::NodeVariable,
                format!("Invalid use of node variable `{name}` (in standing queries, node variables can only reference constant properties or IDs)"),
            )),
            ExpressionKind::Labels(of, _) if is_node(of) => {
                let span = Span { start: of.span.end, end: expression.span.end };
                Err(self.error(span, Code::Unsupported, "Unsupported expression"))
            }
            ExpressionKind::Call { name, .. } if crate::bind::is_aggregate(&name.text) => {
                let error = self.error(expression.span, Code::InvalidAggregation, format!("Failed to resolve function `{name}`"));
                Err(Box::new(error.with_hint(Some(AGGREGATES.into()))))
            }
            ExpressionKind::CountRows => {
                let error = self.error(expression.span, Code::InvalidAggregation, "Failed to resolve function `count`");
                Err(Box::new(error.with_hint(Some(AGGREGATES.into()))))
            }
            ExpressionKind::Property(of, _) if is_node(of) => Ok(()),
            ExpressionKind::Call { name, arguments, .. }
                if ["id", "strId", "properties"].iter().any(|known| name.text.eq_ignore_ascii_case(known))
                    && matches!(arguments.as_slice(), [of] if is_node(of)) =>
            {
                Ok(())
            }
            ExpressionKind::Parameter(name) => {
                let error = self.error(expression.span, Code::Parameter, format!("Unknown parameter `{name}`"));
                Err(Box::new(error.with_hint(Some(NO_PARAMETERS.into()))))
            }
            ExpressionKind::Pattern(_) | ExpressionKind::PatternComprehension { .. } | ExpressionKind::Subquery { .. } => {
                Err(self.error(expression.span, Code::NotPure, format!("Not a pure expression: {what} asks the graph")))
            }
            _ => expression.children().into_iter().try_for_each(|child| self.check_nodes(child, elements, what)),
        }
    }

    fn copy_reads(&mut self, expr: &mut Expr) {
        let node_at = |pattern: &Pattern, slot: Slot| pattern.nodes.iter().position(|node| node.slot == slot);
        match expr {
            Expr::Property { of, key } => {
                if let Expr::Slot(slot) = **of
                    && let Some(node) = node_at(&self.pattern, slot)
                {
                    let key = self.binder.draft.names[key.0 as usize].clone();
                    *expr = Expr::Slot(self.read(node, &key));
                    return;
                }
            }
            Expr::Call { function, arguments } => {
                if let [Expr::Slot(slot)] = arguments.as_slice()
                    && function.name == "properties"
                    && let Some(node) = node_at(&self.pattern, *slot)
                {
                    let all = self.pattern.nodes[node].reads_all.unwrap_or_else(|| self.binder.draft.new_slot("", Holds::Plain));
                    self.pattern.nodes[node].reads_all = Some(all);
                    *expr = Expr::Slot(all);
                    return;
                }
            }
            _ => {}
        }
        for child in walk::children_mut(expr) {
            self.copy_reads(child);
        }
    }

    fn columns(&mut self, projection: &Projection) -> Checked<Vec<(Text, Expr)>> {
        let mut columns: Vec<(Text, Expr)> = Vec::new();
        for item in &projection.items {
            let name = item.alias.as_ref().map_or(item.source.clone(), |alias| alias.text.clone());
            if columns.iter().any(|(other, _)| *other == name) {
                let first = projection.items[0].expression.span;
                return Err(self.error(
                    first,
                    Code::ColumnNameConflict,
                    "Multiple result columns with the same name are not supported",
                ));
            }
            let expr = self.graph_free(&item.expression, "a returned column")?;
            columns.push((name, expr));
        }
        Ok(columns)
    }

    /// The node of `id(n)` or `strId(n)`.
    fn id_of(&self, expression: &Expression) -> Option<usize> {
        let (_, node) = classify::id_call(expression)?;
        self.node_of(node)
    }

    /// What each mode demands of DISTINCT, WHERE and RETURN, in the order of the reference.
    fn check_mode(&self, projection: &Projection, root: usize, span: Span) -> Checked<()> {
        if self.mode == StandingMode::MultipleValues {
            return match projection.distinct {
                true => Err(self.refused(
                    span,
                    Code::MultipleValuesCantDistinct,
                    "MultipleValues Standing Queries do not yet support `DISTINCT`",
                )),
                false => Ok(()),
            };
        }
        if !projection.distinct {
            return Err(self.refused(
                span,
                Code::DistinctIdMustDistinct,
                "DistinctId Standing Queries must specify a `DISTINCT` keyword",
            ));
        }
        if let Some((span, _)) = self.filters.first() {
            return Err(self.refused(*span, Code::DistinctIdCannotFilter, "DistinctId queries cannot filter"));
        }
        let watched = |item: &Expression| match &*item.kind {
            ExpressionKind::Property(of, _) => of.as_variable().is_some(),
            ExpressionKind::Call { name, arguments, .. } if name.text.eq_ignore_ascii_case("properties") => {
                matches!(arguments.as_slice(), [of] if of.as_variable().is_some())
            }
            _ => self.id_of(item).is_some(),
        };
        if let Some(item) = projection.items.iter().find(|item| !watched(&item.expression)) {
            return Err(self.refused(item.expression.span, Code::DistinctIdCannotMap, "DistinctId queries cannot map"));
        }
        match projection.items.as_slice() {
            [item] if self.id_of(&item.expression) == Some(root) => Ok(()),
            items => {
                let span = items.first().map_or(span, |item| item.expression.span);
                Err(self.refused(
                    span,
                    Code::DistinctIdMustId,
                    "DistinctId queries must return exactly the `id` of the root node",
                ))
            }
        }
    }

    /// The pattern must be a tree once directions are ignored. A self-loop is let through in mode DistinctId.
    fn check_tree(&self, span: Span) -> Checked<()> {
        let mut part: Vec<usize> = (0..self.pattern.nodes.len()).collect();
        for edge in &self.pattern.edges {
            if edge.source == edge.target && self.mode == StandingMode::DistinctId {
                continue;
            }
            let (a, b) = (part[edge.source], part[edge.target]);
            if a == b {
                return Err(self.refused(span, Code::HasACycle, "Pattern has a cycle"));
            }
            part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
        }
        if part.iter().any(|p| *p != part[0]) {
            return Err(self.refused(span, Code::NotConnected, "Pattern is not connected"));
        }
        Ok(())
    }

    /// An error is the number of relationships, where they are too many.
    fn plan(&mut self, columns: Vec<(Text, Expr)>, root: usize) -> Result<StandingPlan, usize> {
        self.place_filters(root);
        self.pattern.nodes.iter_mut().for_each(|node| node.conditions.retain(|e| !crate::bind::is_true(e)));
        if self.mode == StandingMode::DistinctId {
            self.pattern.distinct_nodes = delta::siblings(&self.pattern, root);
        }
        self.pattern.delta = delta::paths(&self.pattern)?;
        let impure = columns
            .iter()
            .map(|(_, e)| e)
            .chain(&self.pattern.conditions)
            .chain(self.pattern.nodes.iter().flat_map(|node| &node.conditions))
            .any(|e| walk::any(e, &|e| matches!(e, Expr::Call { function, .. } if !function.pure)));
        let mut items = Vec::new();
        let columns: Vec<(Text, Slot)> = columns
            .into_iter()
            .map(|(name, expr)| match expr {
                Expr::Slot(slot) => (name, slot),
                expr => {
                    let slot = self.binder.draft.new_slot(&name, Holds::Plain);
                    items.push((slot, expr));
                    (name, slot)
                }
            })
            .collect();
        let matched = Operator::Match { input: Box::new(Operator::Unit), pattern: std::mem::take(&mut self.pattern) };
        let mut plan = Operator::Project { input: Box::new(matched), items };
        if self.mode == StandingMode::DistinctId {
            plan = Operator::Distinct { input: Box::new(plan), slots: columns.iter().map(|(_, slot)| *slot).collect() };
        }
        let slots = names_of_slots(&self.binder.draft);
        let draft = &mut self.binder.draft;
        let plan = Plan {
            root: plan,
            columns,
            width: draft.slots.len(),
            variables: draft.slots.iter().map(|slot| slot.told()).collect(),
            names: std::mem::take(&mut draft.names).into_all(),
            parameters: std::mem::take(&mut draft.parameters).into_all(),
            facts: QueryFacts { reads: true, impure, ..QueryFacts::default() },
            source: Text::new(self.text),
        };
        Ok(StandingPlan { plan, mode: self.mode, root, slots })
    }

    /// A filter over the slots of one node is tested when that node is visited; one over none, at the root.
    fn place_filters(&mut self, root: usize) {
        for (_, filter) in std::mem::take(&mut self.filters) {
            let mentioned: Vec<usize> = (0..self.pattern.nodes.len())
                .filter(|i| {
                    let node = &self.pattern.nodes[*i];
                    let mut slots = node.reads.iter().map(|(_, slot)| *slot).chain(node.reads_all).chain([node.slot]);
                    slots.any(|slot| walk::mentions(&filter, slot))
                })
                .collect();
            match mentioned.as_slice() {
                [] => self.pattern.nodes[root].conditions.push(filter),
                [node] => self.pattern.nodes[*node].conditions.push(filter),
                _ => self.pattern.conditions.push(filter),
            }
        }
    }
}

#[cfg(test)]
mod tests;
