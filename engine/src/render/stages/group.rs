//! Aggregates: the rows of each group as far as their aggregates need them, and the group's row as it was last given.
//!
//! Counts, sums, averages and deviations of numbers are kept as numbers from which what goes is taken off again: sums are exact,
//! so it does not matter in which order rows came and went. Everything else keeps the values of the group in order: the least,
//! the greatest and a percentile are looked up there, and the rest is worked out from them anew when they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::aggregate::Accumulator;
use weir_model::exact::{Spread, Total};
use weir_model::expression::FailureKind;
use weir_model::plan::{Slot, SortKey};
use weir_model::{Aggregate, AggregateKind, Expr, Failure, Value};

use super::derive::What;
use super::percentile::Percentile;
use super::top::{Placed, add};
use super::{Changes, Layout, Row, Stage, Turn};

/// Values of one group that are listed, or gone through one by one, at most.
const LISTED_MAX: i64 = 10_000_000;

pub struct Group {
    pub input: Box<Stage>,
    layout: Layout,
    keys: Vec<Expr>,
    aggregates: Vec<Aggregate>,
    /// The order in which `collect` lists.
    order: Vec<Expr>,
    descending: Arc<[bool]>,
    /// The slots of a row that goes on.
    pub slots: Vec<usize>,
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
struct State {
    /// How often each value is there, where only distinct ones count.
    apart: Option<FxHashMap<Value, i64>>,
    sum: Summed,
}

enum Summed {
    CountRows,
    Count(i64),
    /// Of a sum or an average. What is no number stands by itself.
    Numbers {
        numbers: Total,
        rest: BTreeMap<Placed, i64>,
    },
    Deviation {
        spread: Spread,
        /// How many values are no numbers: of these there is no deviation.
        others: i64,
    },
    Percentile(Percentile),
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
            slots: out.0.clone(),
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
            let parts = self.parts(&row, turn);
            turn.context.end(&row, diff);
            let Some((key, order, arguments)) = parts else { continue };
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
            let now = if there { made(group, &key, &self.aggregates, &self.out, turn) } else { None };
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

impl Group {
    /// The key of a row, where it stands in the order, and what its aggregates take of it. None where one of these has no value.
    fn parts(&self, row: &Row, turn: &mut Turn) -> Option<(Row, Vec<Value>, Vec<Vec<Value>>)> {
        self.layout.spread(row, &mut turn.row);
        turn.context.begin();
        let values =
            |exprs: &[Expr]| -> Option<Vec<Value>> { exprs.iter().map(|expr| turn.context.evaluate(expr, &turn.row)).collect() };
        let arguments: Option<Vec<_>> = self.aggregates.iter().map(|aggregate| values(&aggregate.arguments)).collect();
        Some((Row::from_slice(&values(&self.keys)?), values(&self.order)?, arguments?))
    }

    /// The rows of all groups, each with the numbers of those that went in.
    pub fn derive<'r>(&self, rows: impl Iterator<Item = &'r Row>, turn: &mut Turn) -> Vec<(Row, Vec<u32>)> {
        let mut groups: FxHashMap<Row, (Values, Vec<u32>)> = FxHashMap::default();
        if self.keys.is_empty() {
            groups.insert(Row::from_slice(&[]), (Values::new(&self.aggregates), Vec::new()));
        }
        for (row, number) in rows.zip(0..) {
            let Some((key, order, arguments)) = self.parts(row, turn) else { continue };
            let (values, of) = groups.entry(key).or_insert_with(|| (Values::new(&self.aggregates), Vec::new()));
            values.rows += 1;
            for ((state, aggregate), arguments) in values.states.iter_mut().zip(&self.aggregates).zip(arguments) {
                state.add(aggregate, arguments, &order, &self.descending, 1);
            }
            of.push(number);
        }
        let rows = groups.into_iter();
        let mut rows: Vec<_> =
            rows.filter_map(|(key, (mut values, of))| Some((values.row(&key, &self.aggregates, &self.out).ok()?, of))).collect();
        rows.sort_unstable();
        rows
    }

    pub fn made(&self) -> What<'_> {
        What::Group { keys: &self.keys, aggregates: &self.aggregates, out: &self.out }
    }
}

impl Values {
    fn new(aggregates: &[Aggregate]) -> Values {
        Values { rows: 0, states: aggregates.iter().map(State::new).collect(), shown: None }
    }

    /// An error where an aggregate has no value.
    fn row(&mut self, key: &Row, aggregates: &[Aggregate], out: &[Option<usize>]) -> Result<Row, Failure> {
        let mut made = key.0.to_vec();
        for (state, aggregate) in self.states.iter_mut().zip(aggregates) {
            made.push(state.value(aggregate, self.rows)?);
        }
        Ok(Row(out.iter().map(|at| at.map_or(Value::Null, |at| made[at].clone())).collect()))
    }
}

impl State {
    fn new(aggregate: &Aggregate) -> State {
        use AggregateKind::*;
        let sum = match aggregate.kind {
            CountRows => Summed::CountRows,
            Count => Summed::Count(0),
            Sum | Average => Summed::Numbers { numbers: Total::default(), rest: BTreeMap::new() },
            StandardDeviation | StandardDeviationPopulation => Summed::Deviation { spread: Spread::default(), others: 0 },
            PercentileContinuous | PercentileDiscrete => Summed::Percentile(Percentile::new(aggregate.distinct)),
            Min | Max | Collect => Summed::Values(BTreeMap::new()),
        };
        // Of those that keep values, each has its count there.
        let is_apart = aggregate.distinct && !matches!(sum, Summed::CountRows | Summed::Percentile(_) | Summed::Values(_));
        State { apart: is_apart.then(FxHashMap::default), sum }
    }

    fn add(&mut self, aggregate: &Aggregate, arguments: Vec<Value>, order: &[Value], descending: &Arc<[bool]>, diff: i64) {
        let value = match arguments.first() {
            Some(value) if !value.is_null() => value,
            Some(_) => return,
            None => &Value::Null,
        };
        let diff = match &mut self.apart {
            Some(counts) => {
                let (before, after) = change(counts, value, diff);
                i64::from(after > 0) - i64::from(before > 0)
            }
            None => diff,
        };
        match &mut self.sum {
            Summed::CountRows => {}
            Summed::Count(count) => *count += diff,
            Summed::Deviation { spread, others } => {
                if !spread.add(value, diff) {
                    *others += diff;
                }
            }
            Summed::Numbers { numbers, .. } if matches!(value, Value::Integer(_) | Value::Float(_)) => {
                numbers.add(value, diff);
            }
            Summed::Percentile(percentile) => percentile.add(value, arguments.get(1).unwrap_or(&Value::Null), diff),
            Summed::Numbers { rest: values, .. } | Summed::Values(values) => {
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

    fn value(&mut self, aggregate: &Aggregate, rows: i64) -> Result<Value, Failure> {
        let no_numbers = || Failure::new(FailureKind::TypeMismatch, "An aggregate of numbers met other values among them");
        // A single row may be there as often as two parts of a pattern have nodes, multiplied.
        let bound = |count: i64| {
            let message = || format!("An aggregate of a group has more than {LISTED_MAX} values");
            if count > LISTED_MAX { Err(Failure::new(FailureKind::MemoryLimit, message())) } else { Ok(()) }
        };
        let values: &BTreeMap<Placed, i64> = match &mut self.sum {
            Summed::CountRows => return Ok(Value::Integer(rows)),
            Summed::Count(count) => return Ok(Value::Integer(*count)),
            Summed::Deviation { spread, others } => {
                let population = aggregate.kind == AggregateKind::StandardDeviationPopulation;
                let is_of_numbers = *others == 0;
                return is_of_numbers.then(|| Value::Float(spread.deviation(population))).ok_or_else(no_numbers);
            }
            Summed::Numbers { numbers, rest } if rest.is_empty() => {
                return if aggregate.kind == AggregateKind::Sum { numbers.sum() } else { Ok(numbers.mean()) };
            }
            Summed::Numbers { numbers, .. } if numbers.count() > 0 => return Err(no_numbers()),
            Summed::Numbers { rest, .. } => rest,
            Summed::Percentile(percentile) => {
                bound(percentile.count())?;
                return percentile.value(aggregate.kind == AggregateKind::PercentileContinuous);
            }
            Summed::Values(values) => match aggregate.kind {
                AggregateKind::Min => return Ok(edge(values.first_key_value())),
                AggregateKind::Max => return Ok(edge(values.last_key_value())),
                _ => values,
            },
        };
        let times = |count: &i64| if aggregate.distinct { 1 } else { *count };
        bound(values.values().map(times).fold(0, i64::saturating_add))?;
        let mut accumulator = Accumulator::new(aggregate);
        for (placed, count) in values {
            for _ in 0..times(count) {
                accumulator.add(&placed.row.0)?;
            }
        }
        accumulator.finish()
    }
}

/// The row of a group. None where an aggregate has no value, which is told.
fn made(group: &mut Values, key: &Row, aggregates: &[Aggregate], out: &[Option<usize>], turn: &Turn) -> Option<Row> {
    group.row(key, aggregates, out).map_err(|failure| turn.health.leave_out(|| key, &failure, None)).ok()
}

/// Adds to the count of a value, and says what it was before and is after.
fn change(counts: &mut FxHashMap<Value, i64>, value: &Value, diff: i64) -> (i64, i64) {
    let before = counts.get(value).copied().unwrap_or(0);
    match before + diff {
        0 => drop(counts.remove(value)),
        after => drop(counts.insert(value.clone(), after)),
    }
    (before, before + diff)
}

fn edge(end: Option<(&Placed, &i64)>) -> Value {
    end.and_then(|(placed, _)| placed.row.0.first()).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_too_often_to_be_listed_has_no_value() {
        let value = |kind, distinct, count| {
            let aggregate = Aggregate { kind, arguments: Vec::new(), distinct };
            let mut state = State::new(&aggregate);
            state.add(&aggregate, vec![Value::Integer(7), Value::Float(0.5)], &[], &Arc::from([]), count);
            state.value(&aggregate, count)
        };
        use AggregateKind::{Collect, PercentileContinuous, Sum};
        let sevens = |count| Value::list(vec![Value::Integer(7); count]);
        assert_eq!(value(Collect, false, 3).unwrap(), sevens(3));
        assert_eq!(value(Collect, true, i64::MAX).unwrap(), sevens(1));
        assert_eq!(value(Sum, false, 1 << 40).unwrap(), Value::Integer(7 << 40));
        for kind in [Collect, PercentileContinuous] {
            assert!(value(kind, false, LISTED_MAX + 1).is_err_and(|failure| failure.kind == FailureKind::MemoryLimit));
        }
    }
}
