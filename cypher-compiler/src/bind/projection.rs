//! WITH and RETURN: items, grouping, DISTINCT, ORDER BY, SKIP, LIMIT.
//!
//! An item that is a bare variable keeps its slot, so that passing variables on costs nothing. Items with aggregates are
//! bound to expressions over the slots of their aggregates; the others are the grouping keys.

use std::collections::{HashMap, HashSet};

use weir_model::plan::{Operator, Slot, SortKey};
use weir_model::{Aggregate, Expr, Text, Value};

use super::{Binder, aggregate};
use crate::ast::{Expression, Item, Projection};
use crate::error::{Code, Span};
use crate::walk;

struct BoundItem {
    name: Text,
    expr: Expr,
    slot: Slot,
    aggregates: bool,
    span: Span,
}

struct BoundProjection {
    items: Vec<BoundItem>,
    order: Vec<(SortKey, Span)>,
    condition: Option<(Expr, Span)>,
}

/// What rows are grouped by.
struct Keys {
    by_form: HashMap<String, Slot>,
    slots: HashSet<Slot>,
    /// What the keys are made of.
    mentioned: HashSet<Slot>,
}

impl Keys {
    fn of<'a>(items: impl Iterator<Item = &'a BoundItem>) -> Keys {
        let mut keys = Keys { by_form: HashMap::new(), slots: HashSet::new(), mentioned: HashSet::new() };
        for item in items {
            keys.by_form.entry(walk::form(&item.expr)).or_insert(item.slot);
            keys.slots.insert(item.slot);
            keys.mentioned.extend(walk::slots(&item.expr));
        }
        keys
    }
}

impl Binder<'_> {
    pub fn return_clause(&mut self, input: Operator, projection: &Projection, span: Span) -> (Operator, Vec<(Text, Slot)>) {
        if projection.star && self.scope.len() == 0 {
            self.error(span, Code::NoVariablesInScope, "RETURN * is not allowed when there are no variables in scope");
        }
        self.project(input, projection, None)
    }

    pub fn with_clause(&mut self, input: Operator, projection: &Projection, condition: Option<&Expression>) -> Operator {
        for item in &projection.items {
            if item.alias.is_none() && item.expression.as_variable().is_none() {
                self.error(item.expression.span, Code::NoExpressionAlias, "Expression in WITH must be aliased (use AS)");
            }
        }
        let (operator, columns) = self.project(input, projection, condition);
        self.scope = self.outer.clone();
        for (name, slot) in columns {
            // Not in what this clause has declared so far: two columns of one name are told as such.
            if self.outer.get(&name).is_some_and(|constant| constant != slot) {
                let message = format!("Variable `{name}` already declared in outer scope");
                self.error(
                    projection.items.first().map_or_else(Span::default, |item| item.expression.span),
                    Code::VariableAlreadyBound,
                    message,
                );
            }
            self.draft.call(slot, &name);
            self.scope.insert(&name, slot);
        }
        operator
    }

    fn project(
        &mut self,
        input: Operator,
        projection: &Projection,
        condition: Option<&Expression>,
    ) -> (Operator, Vec<(Text, Slot)>) {
        let grouped = projection.items.iter().any(|item| aggregate::contains(&item.expression));
        let (bound, found) = if grouped {
            self.collecting(|binder| binder.bind_projection(projection, condition))
        } else {
            (self.bind_projection(projection, condition), Vec::new())
        };
        let BoundProjection { mut items, mut order, mut condition } = bound;
        // After grouping or DISTINCT only the projected values exist: expressions over them are found again by their form.
        if grouped || projection.distinct {
            let grouping = || items.iter().filter(|item| !item.aggregates);
            let keys = Keys::of(grouping());
            // Beside an aggregate only what is plainly one of the keys may stand: a variable or a property.
            let simple = Keys::of(grouping().filter(|item| is_simple(&item.expr)));
            if grouped {
                let spans: Vec<Span> = items.iter().map(|item| item.span).collect();
                for (item, span) in items.iter_mut().zip(spans).filter(|(item, _)| item.aggregates) {
                    if let Some(left) = self.over_keys(&mut item.expr, &simple, &HashSet::new()) {
                        self.ambiguous(span, left);
                    }
                }
            }
            let projected: HashSet<Slot> = items.iter().map(|item| item.slot).collect();
            let aggregated: HashSet<Slot> = found.iter().map(|(slot, _)| *slot).collect();
            for (expr, span) in
                order.iter_mut().map(|(key, span)| (&mut key.expr, *span)).chain(condition.iter_mut().map(|(e, s)| (e, *s)))
            {
                let beside = walk::slots(expr).iter().any(|slot| aggregated.contains(slot));
                let Some(left) = self.over_keys(expr, if beside { &simple } else { &keys }, &projected) else { continue };
                if beside && keys.mentioned.contains(&left) {
                    self.ambiguous(span, left);
                } else {
                    let name = &self.draft.slots[left.0 as usize].name;
                    let message = format!(
                        "In a WITH/RETURN with DISTINCT or an aggregation, it is not possible to access variables declared before the WITH/RETURN: {name}"
                    );
                    self.error(span, Code::UndefinedVariable, message);
                }
            }
        }
        let mut root = if grouped { group(input, &items, found) } else { compute(input, items.iter()) };
        if projection.distinct {
            root = Operator::Distinct { input: Box::new(root), slots: unique(items.iter().map(|item| item.slot)) };
        }
        if !order.is_empty() {
            root = Operator::Sort { input: Box::new(root), keys: order.into_iter().map(|(key, _)| key).collect(), limit: None };
        }
        if let Some(skip) = &projection.skip {
            let count = self.row_count("SKIP", skip);
            root = Operator::Skip { input: Box::new(root), count };
        }
        if let Some(limit) = &projection.limit {
            let count = self.row_count("LIMIT", limit);
            root = Operator::Limit { input: Box::new(root), count };
        }
        if let Some((condition, _)) = condition {
            root = Operator::Filter { input: Box::new(root), condition };
        }
        (root, items.into_iter().map(|item| (item.name, item.slot)).collect())
    }

    /// Items in the scope before the projection; ORDER BY and WHERE see the new names too, which hide the old.
    fn bind_projection(&mut self, projection: &Projection, condition: Option<&Expression>) -> BoundProjection {
        let mut items: Vec<BoundItem> = Vec::new();
        if projection.star {
            for (name, slot) in self.scope.all() {
                items.push(BoundItem { name, expr: Expr::Slot(slot), slot, aggregates: false, span: Span::default() });
            }
        }
        for item in &projection.items {
            let bound = self.item(item);
            items.push(bound);
        }
        let mut names: HashSet<&str> = HashSet::with_capacity(items.len());
        if let Some(item) = items.iter().find(|item| !names.insert(&item.name)) {
            let first = projection.items.first().map_or(item.span, |item| item.expression.span);
            self.error(first, Code::ColumnNameConflict, "Multiple result columns with the same name are not supported");
        }
        let before = self.scope.len();
        // What `*` stands for is in the scope already.
        let starred = items.len() - projection.items.len();
        for item in &items[starred..] {
            self.scope.insert(&item.name, item.slot);
        }
        let ordered = if projection.order.is_empty() { &[] } else { projection.items.as_slice() };
        let mut said: HashMap<String, usize> = HashMap::new();
        for (place, item) in ordered.iter().enumerate().filter(|(_, item)| item.expression.as_variable().is_none()) {
            said.entry(written(&item.expression, &item.source)).or_insert(place);
        }
        let order = projection
            .order
            .iter()
            .map(|(key, descending)| {
                // What an item says is that item, also where its name hides what it is made of (`n.x AS n ORDER BY n.x`).
                let source = self.text.get(key.span.start..key.span.end).unwrap_or_default();
                let expr = match said.get(&written(key, source)) {
                    Some(place) if key.as_variable().is_none() => Expr::Slot(items[starred + place].slot),
                    _ => self.order_key(key),
                };
                (SortKey { expr, descending: *descending }, key.span)
            })
            .collect();
        let condition = condition.map(|condition| (self.condition(condition), condition.span));
        self.scope.truncate(before);
        BoundProjection { items, order, condition }
    }

    /// A key of ORDER BY may use the aggregates of the items, not others: their rows are gone.
    fn order_key(&mut self, key: &Expression) -> Expr {
        let known = self.aggregates.as_ref().map(|found| found.all.len());
        let expr = self.expression(key);
        if self.aggregates.as_ref().map(|found| found.all.len()) > known {
            let message = "In a WITH/RETURN with DISTINCT or an aggregation, ORDER BY can only use aggregates of the projection";
            self.error(key.span, Code::UndefinedVariable, message);
        }
        expr
    }

    fn item(&mut self, item: &Item) -> BoundItem {
        let expr = self.expression(&item.expression);
        let slot = match expr {
            Expr::Slot(slot) => slot,
            _ => self.draft.new_slot_for(item.alias.as_ref().map_or("", |alias| &alias.text), &expr),
        };
        let name = match (&item.alias, item.expression.as_variable()) {
            (Some(alias), _) => alias.text.clone(),
            (None, Some(variable)) => variable.clone(),
            (None, None) => item.source.clone(),
        };
        BoundItem { name, expr, slot, aggregates: aggregate::contains(&item.expression), span: item.expression.span }
    }

    fn ambiguous(&mut self, span: Span, left: Slot) {
        let name = &self.draft.slots[left.0 as usize].name;
        let message = format!(
            "Aggregation column contains implicit grouping expressions: what is said of `{name}` beside the aggregate must be projected on its own, as a variable or a property"
        );
        self.error(span, Code::AmbiguousAggregationExpression, message);
    }

    /// Replaces what equals a key by the slot of the key; gives a variable that is left over.
    fn over_keys(&self, expr: &mut Expr, keys: &Keys, projected: &HashSet<Slot>) -> Option<Slot> {
        if !keys.by_form.is_empty()
            && let Some(slot) = keys.by_form.get(&walk::form(expr))
        {
            *expr = Expr::Slot(*slot);
            return None;
        }
        let lost = |slot: &Slot| {
            let name = &self.draft.slots[slot.0 as usize].name;
            let visible_before = self.scope.get(name) == Some(*slot) && self.outer.get(name) != Some(*slot);
            (visible_before && !projected.contains(slot)).then_some(*slot)
        };
        if let Expr::Slot(slot) = expr {
            return lost(slot);
        }
        // A subquery goes on from the row: what it names has to be there as it is.
        if let Expr::Subquery(_) = expr {
            return walk::slots(expr).iter().filter(|slot| !keys.slots.contains(slot)).find_map(lost);
        }
        walk::children_mut(expr).into_iter().filter_map(|child| self.over_keys(child, keys, projected)).next_back()
    }

    /// The number after SKIP or LIMIT: no variables but its own, and not negative where that can be seen.
    fn row_count(&mut self, word: &str, expression: &Expression) -> Expr {
        let refused = |binder: &mut Self| {
            let message = format!("It is not allowed to refer to variables in {word}");
            binder.error(expression.span, Code::NonConstantExpression, message);
            Expr::Literal(Value::Null)
        };
        if expression.has_free_variable() {
            return refused(self);
        }
        let count = self.expression(expression);
        // What a pattern or a subquery in it goes on from.
        let mentioned = walk::slots(&count);
        if !mentioned.is_empty() && self.scope.all().iter().any(|(_, slot)| mentioned.contains(slot)) {
            return refused(self);
        }
        let code = match &count {
            Expr::Literal(Value::Integer(n)) if *n < 0 => Some(Code::NegativeIntegerArgument),
            Expr::Literal(Value::Integer(_)) => None,
            Expr::Literal(_) => Some(Code::InvalidArgumentType),
            _ => None,
        };
        if let Some(code) = code {
            let message = format!("Invalid input. '{expression}' is not a valid value. Must be a non-negative integer.");
            self.error(expression.span, code, message);
        }
        count
    }
}

/// An expression as it is written, whatever blanks and brackets are in it. Where names are in back-ticks, which are not printed,
/// that is its text.
fn written(expression: &Expression, source: &str) -> String {
    if source.contains('`') { source.to_owned() } else { expression.to_string() }
}

fn is_simple(key: &Expr) -> bool {
    match key {
        Expr::Slot(_) => true,
        Expr::Property { of, .. } => is_simple(of),
        _ => false,
    }
}

/// Stores the items that are not in their slots already.
fn compute<'a>(input: Operator, items: impl Iterator<Item = &'a BoundItem>) -> Operator {
    let computed: Vec<(Slot, Expr)> = items
        .filter(|item| !matches!(item.expr, Expr::Slot(slot) if slot == item.slot))
        .map(|item| (item.slot, item.expr.clone()))
        .collect();
    if computed.is_empty() { input } else { Operator::Project { input: Box::new(input), items: computed } }
}

fn group(input: Operator, items: &[BoundItem], aggregates: Vec<(Slot, Aggregate)>) -> Operator {
    let mut seen: HashSet<Slot> = HashSet::new();
    let keys = items.iter().filter(|item| !item.aggregates && seen.insert(item.slot));
    let keys: Vec<(Slot, Expr)> = keys.map(|item| (item.slot, item.expr.clone())).collect();
    compute(Operator::Aggregate { input: Box::new(input), keys, aggregates }, items.iter().filter(|item| item.aggregates))
}

fn unique(slots: impl Iterator<Item = Slot>) -> Vec<Slot> {
    let mut seen: HashSet<Slot> = HashSet::new();
    slots.filter(|slot| seen.insert(*slot)).collect()
}
