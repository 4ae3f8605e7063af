//! The rows of a plan, each operator over the whole list of rows of its input.
//!
//! What changes the graph, and CALL of procedures, it does not know. Expressions are those of the model; what they ask of the
//! graph, subqueries included, is answered here.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use weir_model::expression::{FailureKind, Subquery, SubqueryKind};
use weir_model::plan::{Name, Operator, Slot, SortKey};
use weir_model::{
    Aggregate, AggregateKind, Context, EdgeKey, Expr, Failure, FullEdge, FullNode, IdScheme, Map, NodeId, Path, Symbol, Value,
    aggregate,
};

use super::ReferenceGraph;
use crate::evaluate::Prepared;
use crate::symbols::Symbols;
use crate::view::{Direction, EdgeRef, View};

pub(super) type Row = Vec<Value>;

/// What each aggregate takes of a row: its arguments.
type Taken = Vec<Vec<Value>>;

/// A plan, and all its answer depends on.
pub struct Question<'a> {
    pub prepared: &'a Prepared,
    pub graph: &'a ReferenceGraph,
    pub symbols: &'a Symbols,
    pub ids: IdScheme,
    /// By `Plan::parameters`.
    pub parameters: &'a [Value],
    /// The current time, in milliseconds since 1970.
    pub now_millis: i64,
    /// Choices to try before it gives up: trying everything takes its time.
    pub choices_max: u64,
}

impl Question<'_> {
    /// The columns of every row, in order, with nodes, edges and paths in full, as a query answers. An expression without a
    /// value fails the whole.
    pub fn answer(&self) -> Result<Vec<Vec<Value>>, Failure> {
        let naive = Naive { question: self, strict: true, choices: Cell::new(0) };
        Ok(naive.columns()?.iter().map(|row| row.iter().map(|value| naive.in_full(value)).collect()).collect())
    }

    /// The columns as a standing query reports them, each row with how often it occurs. A row for which a condition or an
    /// item has no value is no row.
    pub fn matches(&self) -> Result<BTreeMap<Vec<Value>, i64>, Failure> {
        let mut answer = BTreeMap::new();
        for row in (Naive { question: self, strict: false, choices: Cell::new(0) }).columns()? {
            *answer.entry(row).or_default() += 1;
        }
        Ok(answer)
    }
}

/// `Question::matches`, whatever it takes.
pub fn matches(
    prepared: &Prepared,
    graph: &ReferenceGraph,
    symbols: &Symbols,
    ids: IdScheme,
) -> Result<BTreeMap<Vec<Value>, i64>, Failure> {
    Question { prepared, graph, symbols, ids, parameters: &[], now_millis: 0, choices_max: u64::MAX }.matches()
}

pub(super) struct Naive<'a> {
    pub question: &'a Question<'a>,
    /// A failure is the failure of the query, not the end of one row.
    strict: bool,
    choices: Cell<u64>,
}

impl Naive<'_> {
    fn columns(&self) -> Result<Vec<Row>, Failure> {
        self.question.prepared.look_for_names(self.question.symbols);
        let plan = &self.question.prepared.plan;
        let rows = self.rows(&plan.root, &vec![Value::Null; plan.width.max(1)])?;
        Ok(rows.iter().map(|row| plan.columns.iter().map(|(_, slot)| at(row, *slot).clone()).collect()).collect())
    }

    /// The rows of an operator; `argument` is the row of the query around it.
    fn rows(&self, operator: &Operator, argument: &Row) -> Result<Vec<Row>, Failure> {
        let mut rows = match operator.input() {
            Some(input) => self.rows(input, argument)?,
            None => return Ok(vec![argument.clone()]),
        };
        let mut found = Vec::new();
        match operator {
            Operator::Match { pattern, .. } => {
                for row in &rows {
                    found.extend(self.pattern_rows(pattern, row)?);
                }
            }
            Operator::Optional { inner, nulls, .. } => {
                for row in &rows {
                    let mut inside = self.rows(inner, row)?;
                    if inside.is_empty() {
                        inside.push(with(row, nulls.iter().map(|slot| (*slot, Value::Null))));
                    }
                    found.extend(inside);
                }
            }
            Operator::Filter { condition, .. } => {
                for row in rows {
                    if self.holds(condition, &row)? {
                        found.push(row);
                    }
                }
            }
            Operator::Project { items, .. } => {
                for row in &rows {
                    let values = items.iter().map(|(slot, expr)| Ok(self.value(expr, row)?.map(|value| (*slot, value))));
                    if let Some(values) = values.collect::<Result<Option<Vec<_>>, Failure>>()? {
                        found.push(with(row, values));
                    }
                }
            }
            Operator::Aggregate { keys, aggregates, .. } => return self.groups(keys, aggregates, &rows, argument),
            Operator::Distinct { slots, .. } => found = once_each(rows, slots),
            Operator::Sort { keys, limit, .. } => {
                found = self.sorted(keys, rows)?;
                if let Some(limit) = limit.as_ref().and_then(|limit| self.number(limit, argument).ok()) {
                    found.truncate(limit);
                }
            }
            Operator::Skip { count, .. } => {
                let count = self.number(count, argument)?;
                found = rows.into_iter().skip(count).collect();
            }
            Operator::Limit { count, .. } => {
                rows.truncate(self.number(count, argument)?);
                found = rows;
            }
            Operator::Unwind { list, into, .. } => {
                for row in &rows {
                    let items = match self.value(list, row)? {
                        None | Some(Value::Null) => Vec::new(),
                        Some(Value::List(items)) => items.to_vec(),
                        Some(Value::Path(path)) => elements(&path),
                        Some(other) => vec![other],
                    };
                    found.extend(items.into_iter().map(|item| with(row, [(*into, item)])));
                }
            }
            Operator::Subquery { inner, unit, .. } => {
                for row in rows {
                    let inside = self.rows(inner, &row)?;
                    found.extend(if *unit { vec![row] } else { inside });
                }
            }
            Operator::Union { right, distinct, .. } => {
                rows.extend(self.rows(right, argument)?);
                found = match distinct {
                    Some(slots) => once_each(rows, slots),
                    None => rows,
                };
            }
            other => {
                let name = format!("{other:?}");
                let name = name.split([' ', '{']).next().unwrap_or_default();
                let message = format!("The reference evaluator does not know the operator {name}");
                return Err(Failure::new(FailureKind::Runtime, message));
            }
        }
        Ok(found)
    }

    /// None where there is no value and that is the end of the row only.
    pub(super) fn value(&self, expr: &Expr, row: &Row) -> Result<Option<Value>, Failure> {
        match expr.evaluate(row, self) {
            Ok(value) => Ok(Some(value)),
            Err(failure) if self.strict || failure.kind == FailureKind::Interrupted => Err(failure),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn holds(&self, condition: &Expr, row: &Row) -> Result<bool, Failure> {
        Ok(self.value(condition, row)?.is_some_and(|value| value.holds()))
    }

    /// One choice more.
    pub(super) fn choose(&self) -> Result<(), Failure> {
        self.choices.set(self.choices.get() + 1);
        if self.choices.get() > self.question.choices_max {
            return Err(Failure::new(FailureKind::Interrupted, "The reference evaluator has too much to try"));
        }
        Ok(())
    }

    fn number(&self, count: &Expr, argument: &Row) -> Result<usize, Failure> {
        match self.value(count, argument)? {
            Some(Value::Integer(n)) if n >= 0 => Ok(n as usize),
            other => Err(Failure::new(FailureKind::InvalidRowCount, format!("not a number of rows: {other:?}"))),
        }
    }

    fn sorted(&self, keys: &[SortKey], rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
        let mut keyed: Vec<(Vec<Value>, Row)> = Vec::new();
        for row in rows {
            let values = keys.iter().map(|key| self.value(&key.expr, &row)).collect::<Result<Option<Vec<_>>, _>>()?;
            keyed.extend(values.map(|values| (values, row)));
        }
        keyed.sort_by(|(x, _), (y, _)| {
            let orders = keys.iter().zip(x.iter().zip(y)).map(|(key, (x, y))| match key.descending {
                true => x.order(y).reverse(),
                false => x.order(y),
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }

    fn groups(
        &self,
        keys: &[(Slot, Expr)],
        aggregates: &[(Slot, Aggregate)],
        rows: &[Row],
        argument: &Row,
    ) -> Result<Vec<Row>, Failure> {
        let mut groups: Vec<(Vec<Value>, Vec<Taken>)> = Vec::new();
        if keys.is_empty() {
            groups.push((Vec::new(), Vec::new()));
        }
        for row in rows {
            let key = self.values(keys.iter().map(|(_, expr)| expr), row)?;
            let taken = aggregates.iter().map(|(_, aggregate)| self.values(&aggregate.arguments, row));
            let taken = taken.collect::<Result<Option<Taken>, Failure>>()?;
            // One of them has no value: the row is in no group.
            let (Some(key), Some(taken)) = (key, taken) else { continue };
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, members)) => members.push(taken),
                None => groups.push((key, vec![taken])),
            }
        }
        let mut found = Vec::new();
        for (key, members) in groups {
            let mut row = with(argument, keys.iter().map(|(slot, _)| *slot).zip(key));
            for (at, (slot, aggregate)) in aggregates.iter().enumerate() {
                let arguments: Vec<&[Value]> = members.iter().map(|taken| taken[at].as_slice()).collect();
                row[slot.0 as usize] = aggregated(aggregate, &arguments)?;
            }
            found.push(row);
        }
        Ok(found)
    }

    /// None where one of them has no value.
    fn values<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>, row: &Row) -> Result<Option<Vec<Value>>, Failure> {
        exprs.into_iter().map(|expr| self.value(expr, row)).collect()
    }

    pub(super) fn symbol(&self, name: Name) -> Symbol {
        self.question.prepared.symbol(name)
    }

    pub(super) fn edge_key(&self, edge: EdgeRef) -> EdgeKey {
        EdgeKey { source: edge.source, kind: self.question.symbols.name(edge.kind), target: edge.target, ordinal: edge.ordinal }
    }

    fn edge_ref(&self, key: &EdgeKey) -> Option<EdgeRef> {
        let kind = self.question.symbols.get(&key.kind)?;
        Some(EdgeRef { source: key.source, kind, target: key.target, ordinal: key.ordinal })
    }

    pub(super) fn properties(&self, node: NodeId) -> Map {
        let mut map = Map::default();
        self.question.graph.properties(node, &mut |key, value| map.insert(self.question.symbols.name(key), value));
        map
    }

    /// As a value leaves the engine: nodes and edges with what is known of them, a path as the list of its nodes and edges.
    fn in_full(&self, value: &Value) -> Value {
        match value {
            Value::Node(id) => Value::FullNode(self.full_node(*id).into()),
            Value::Edge(key) => Value::FullEdge(self.full_edge(key).into()),
            Value::List(items) => Value::list(items.iter().map(|item| self.in_full(item)).collect()),
            Value::Map(map) => Value::map(map.iter().map(|(key, value)| (key.clone(), self.in_full(value)))),
            Value::Path(path) => Value::list(elements(path).iter().map(|element| self.in_full(element)).collect()),
            other => other.clone(),
        }
    }
}

impl Context for Naive<'_> {
    fn parameter(&self, index: u32) -> &Value {
        self.question.parameters.get(index as usize).unwrap_or(&Value::Null)
    }

    fn name(&self, name: Name) -> &str {
        &self.question.prepared.plan.names[name.0 as usize]
    }

    fn property(&self, node: NodeId, key: Name) -> Value {
        self.question.graph.property(node, self.symbol(key))
    }

    fn property_by_text(&self, node: NodeId, key: &str) -> Value {
        self.properties(node).get(key).cloned().unwrap_or_default()
    }

    fn has_label(&self, node: NodeId, label: Name) -> bool {
        self.question.graph.has_label(node, self.symbol(label))
    }

    fn edge_property(&self, edge: &EdgeKey, key: &str) -> Value {
        self.full_edge(edge).properties.get(key).cloned().unwrap_or_default()
    }

    /// The label without a name is how the graph model of openCypher says that a node is there; nobody sees it.
    fn full_node(&self, id: NodeId) -> FullNode {
        let mut labels = Vec::new();
        self.question.graph.labels(id, &mut |label| labels.push(self.question.symbols.name(label)));
        labels.retain(|label| !label.is_empty());
        labels.sort();
        FullNode { id, labels, properties: self.properties(id) }
    }

    fn full_edge(&self, edge: &EdgeKey) -> FullEdge {
        let mut properties = Map::default();
        if let Some(found) = self.edge_ref(edge) {
            self.question
                .graph
                .edge_properties(found, &mut |key, value| properties.insert(self.question.symbols.name(key), value));
        }
        FullEdge { key: edge.clone(), properties }
    }

    fn degree(&self, node: NodeId) -> usize {
        let mut count = 0;
        self.question.graph.edges(node, Direction::Both, &[], &mut |_| count += 1);
        count
    }

    fn ids(&self) -> IdScheme {
        self.question.ids
    }

    fn now_millis(&self) -> i64 {
        self.question.now_millis
    }

    fn subquery(&self, subquery: &Subquery, row: &[Value]) -> Result<Value, Failure> {
        let mut argument = row.to_vec();
        argument.resize(self.question.prepared.plan.width.max(1), Value::Null);
        let inside = Naive { question: self.question, strict: true, choices: Cell::new(self.choices.get()) };
        let rows = inside.rows(&subquery.plan, &argument);
        self.choices.set(inside.choices.get());
        let rows = rows?;
        match &subquery.kind {
            SubqueryKind::Exists => Ok(Value::Boolean(!rows.is_empty())),
            SubqueryKind::Count => Ok(Value::Integer(rows.len() as i64)),
            SubqueryKind::Collect(item) => {
                Ok(Value::list(rows.iter().map(|row| item.evaluate(row, &inside)).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// `rows` are the arguments of each row of a group.
fn aggregated(aggregate: &Aggregate, rows: &[&[Value]]) -> Result<Value, Failure> {
    use AggregateKind::*;
    if aggregate.arguments.is_empty() {
        return Ok(Value::Integer(rows.len() as i64));
    }
    let mut values: Vec<Value> = Vec::new();
    for value in rows.iter().filter_map(|row| row.first()) {
        if !(value.is_null() || aggregate.distinct && values.contains(value)) {
            values.push(value.clone());
        }
    }
    let integers: Option<Vec<i64>> = values.iter().map(|v| if let Value::Integer(n) = v { Some(*n) } else { None }).collect();
    Ok(match (aggregate.kind, integers) {
        (CountRows | Count, _) => Value::Integer(values.len() as i64),
        (Collect, _) => Value::list(values),
        (Min, _) => values.into_iter().reduce(|x, y| if y.order_fully(&x).is_lt() { y } else { x }).unwrap_or_default(),
        (Max, _) => values.into_iter().reduce(|x, y| if y.order_fully(&x).is_gt() { y } else { x }).unwrap_or_default(),
        (Sum, Some(integers)) => Value::Integer(integers.iter().sum()),
        (Average, Some(integers)) if !integers.is_empty() => {
            Value::Float(integers.iter().sum::<i64>() as f64 / integers.len() as f64)
        }
        // What is told from its definition less plainly is that of the model.
        _ => {
            let mut accumulator = aggregate::Accumulator::new(&Aggregate { distinct: false, ..aggregate.clone() });
            let second = rows.first().and_then(|row| row.get(1)).cloned().unwrap_or_default();
            for value in values {
                accumulator.add(&[value, second.clone()])?;
            }
            accumulator.finish()?
        }
    })
}

/// The nodes and edges of a path in turn.
fn elements(path: &Path) -> Vec<Value> {
    let steps = path.steps.iter().flat_map(|(edge, node)| [Value::Edge(edge.clone().into()), Value::Node(*node)]);
    [Value::Node(path.start)].into_iter().chain(steps).collect()
}

fn at(row: &Row, slot: Slot) -> &Value {
    &row[slot.0 as usize]
}

fn with(row: &Row, values: impl IntoIterator<Item = (Slot, Value)>) -> Row {
    let mut row = row.clone();
    for (slot, value) in values {
        row[slot.0 as usize] = value;
    }
    row
}

/// The first of the rows that are the same in the slots.
fn once_each(rows: Vec<Row>, slots: &[Slot]) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        if !kept.iter().any(|other| slots.iter().all(|slot| at(&row, *slot) == at(other, *slot))) {
            kept.push(row);
        }
    }
    kept
}
