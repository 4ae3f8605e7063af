//! Aggregates: the rows of each group as far as their aggregates need them, and the group's row as it was last given.
//!
//! Counts, and sums and averages of integers, are numbers. Everything else keeps the values of the group in order, and is worked out from
//! them anew when they change: sums of floats depend on the order in which they are added, and must be the same after a
//! restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::aggregate::Accumulator;
use weir_model::plan::{Slot, SortKey};
use weir_model::{Aggregate, AggregateKind, Expr, Value};

use super::top::{Placed, add};
use super::{Changes, Layout, Row, Stage, Turn};

pub struct Group {
    pub input: Box<Stage>,
    layout: Layout,
    keys: Vec<Expr>,
    aggregates: Vec<Aggregate>,
    /// The order in which `collect` lists.
    order: Vec<Expr>,
    descending: Arc<[bool]>,
    /// For each value of a row that goes on: the key or, after the keys, the aggregate it is.
    out: Vec<Option<usize>>,
    groups: FxHashMap<Row, Values>,
}

struct Values {
    rows: i64,
    states: Vec<State>,
    shown: Option<Row>,
}

/// What is kept for one aggregate of one group.
enum State {
    CountRows,
    Count(i64),
    /// Of an average, too. Integers as their sum, and how many; the rest one by one.
    Sum {
        integers: i128,
        count: i64,
        rest: BTreeMap<Placed, i64>,
    },
    Values(BTreeMap<Placed, i64>),
}

impl Group {
    pub fn new(
        input: Box<Stage>,
        layout: Layout,
        keys: &[(Slot, Expr)],
        aggregates: &[(Slot, Aggregate)],
        order: &[SortKey],
        out: &Layout,
    ) -> Group {
        let made: Vec<usize> = keys
            .iter()
            .map(|(slot, _)| slot)
            .chain(aggregates.iter().map(|(slot, _)| slot))
            .map(|slot| slot.0 as usize)
            .collect();
        Group {
            input,
            layout,
            keys: keys.iter().map(|(_, key)| key.clone()).collect(),
            aggregates: aggregates.iter().map(|(_, aggregate)| aggregate.clone()).collect(),
            order: order.iter().map(|key| key.expr.clone()).collect(),
            descending: order.iter().map(|key| key.descending).collect(),
            out: out.0.iter().map(|slot| made.iter().position(|made| made == slot)).collect(),
            groups: FxHashMap::default(),
        }
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let mut changed: FxHashSet<Row> = FxHashSet::default();
        if turn.first && self.keys.is_empty() {
            // Nothing is a group too, where nothing tells groups apart.
            changed.insert(Row::from_slice(&[]));
        }
        for (row, diff) in self.input.step(turn) {
            self.layout.spread(&row, &mut turn.row);
            let values = |exprs: &[Expr]| -> Option<Vec<Value>> {
                exprs.iter().map(|expr| expr.evaluate(&turn.row, turn.context).ok()).collect()
            };
            let arguments: Option<Vec<_>> = self.aggregates.iter().map(|aggregate| values(&aggregate.arguments)).collect();
            let (Some(key), Some(order), Some(arguments)) = (values(&self.keys), values(&self.order), arguments) else {
                continue;
            };
            let key = Row::from_slice(&key);
            let group = self.groups.entry(key.clone()).or_insert_with(|| Values::new(&self.aggregates));
            group.rows += diff;
            for ((state, aggregate), arguments) in group.states.iter_mut().zip(&self.aggregates).zip(arguments) {
                state.add(aggregate, arguments, &order, &self.descending, diff);
            }
            changed.insert(key);
        }
        let mut out = Vec::new();
        for key in changed {
            let group = self.groups.entry(key.clone()).or_insert_with(|| Values::new(&self.aggregates));
            let there = group.rows > 0 || self.keys.is_empty();
            let now = if there { group.row(&key, &self.aggregates, &self.out) } else { None };
            if now != group.shown {
                out.extend(group.shown.take().map(|row| (row, -1)));
                out.extend(now.clone().map(|row| (row, 1)));
                group.shown = now;
            }
            if !there {
                self.groups.remove(&key);
            }
        }
        out
    }
}

impl Values {
    fn new(aggregates: &[Aggregate]) -> Values {
        Values { rows: 0, states: aggregates.iter().map(State::new).collect(), shown: None }
    }

    /// None where an aggregate has no value.
    fn row(&self, key: &Row, aggregates: &[Aggregate], out: &[Option<usize>]) -> Option<Row> {
        let mut made = key.0.to_vec();
        for (state, aggregate) in self.states.iter().zip(aggregates) {
            made.push(state.value(aggregate, self.rows)?);
        }
        Some(Row(out.iter().map(|at| at.map_or(Value::Null, |at| made[at].clone())).collect()))
    }
}

impl State {
    fn new(aggregate: &Aggregate) -> State {
        match aggregate.kind {
            AggregateKind::CountRows => State::CountRows,
            AggregateKind::Count if !aggregate.distinct => State::Count(0),
            AggregateKind::Sum | AggregateKind::Average if !aggregate.distinct => {
                State::Sum { integers: 0, count: 0, rest: BTreeMap::new() }
            }
            _ => State::Values(BTreeMap::new()),
        }
    }

    fn add(&mut self, aggregate: &Aggregate, arguments: Vec<Value>, order: &[Value], descending: &Arc<[bool]>, diff: i64) {
        let value = match arguments.first() {
            Some(value) if !value.is_null() => value,
            Some(_) => return,
            None => &Value::Null,
        };
        match self {
            State::CountRows => {}
            State::Count(count) => *count += diff,
            State::Sum { integers, count, .. } if matches!(value, Value::Integer(_)) => {
                if let Value::Integer(n) = value {
                    *integers += i128::from(*n) * i128::from(diff);
                    *count += diff;
                }
            }
            State::Sum { rest: values, .. } | State::Values(values) => {
                // Without an order of its own, a value stands where ORDER BY would put it.
                let by_value = aggregate.kind != AggregateKind::Collect || order.is_empty();
                let (keys, descending) = match by_value {
                    true => (vec![value.clone()], Arc::from([false])),
                    false => (order.to_vec(), descending.clone()),
                };
                add(values, Placed { keys, row: Row(arguments.into()), descending }, diff);
            }
        }
    }

    fn value(&self, aggregate: &Aggregate, rows: i64) -> Option<Value> {
        let mut accumulator = Accumulator::new(aggregate);
        let values = match self {
            State::CountRows => return Some(Value::Integer(rows)),
            State::Count(count) => return Some(Value::Integer(*count)),
            State::Sum { integers, count, rest } => {
                accumulator.add_integers(*integers, *count).ok()?;
                rest
            }
            State::Values(values) => match (aggregate.kind, aggregate.distinct) {
                (AggregateKind::Count, _) => return Some(Value::Integer(values.len() as i64)),
                (AggregateKind::Min, _) => return Some(edge(values.first_key_value())),
                (AggregateKind::Max, _) => return Some(edge(values.last_key_value())),
                _ => values,
            },
        };
        for (placed, count) in values {
            for _ in 0..if aggregate.distinct { 1 } else { *count } {
                accumulator.add(&placed.row.0).ok()?;
            }
        }
        accumulator.finish().ok()
    }
}

fn edge(end: Option<(&Placed, &i64)>) -> Value {
    end.and_then(|(placed, _)| placed.row.0.first()).cloned().unwrap_or_default()
}
