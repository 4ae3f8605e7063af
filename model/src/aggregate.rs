//! Aggregates: one `Accumulator` folds the values of a group.
//!
//! Nulls are skipped by all but `count(*)`. DISTINCT goes by identity (`Value::same`): 1 and 1.0 are two values. What an
//! accumulator holds is constant in size except for `collect`, the percentiles and DISTINCT. Sums, averages and deviations of
//! numbers are exact until they are given out, so the order of the rows does not matter.

use rustc_hash::FxHashSet;

use crate::arithmetic::{self, mismatch};
use crate::exact::{Spread, Total};
use crate::expression::{Aggregate, AggregateKind, Failure, FailureKind};
use crate::extent::weight;
use crate::value::Value;

#[derive(Clone, Debug)]
pub struct Accumulator {
    /// The values met, where only distinct ones count.
    seen: Option<FxHashSet<Value>>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Count { rows: bool, count: i64 },
    Sum { numbers: Total, durations: Option<(Value, i64)>, mean: bool },
    Extreme { best: Value, largest: bool },
    Collect(Vec<Value>),
    Deviation { spread: Spread, population: bool },
    Percentile { values: Vec<Value>, fraction: Option<f64>, continuous: bool },
}

impl Accumulator {
    pub fn new(aggregate: &Aggregate) -> Accumulator {
        let state = match aggregate.kind {
            AggregateKind::CountRows => State::Count { rows: true, count: 0 },
            AggregateKind::Count => State::Count { rows: false, count: 0 },
            AggregateKind::Sum => State::Sum { numbers: Total::default(), durations: None, mean: false },
            AggregateKind::Average => State::Sum { numbers: Total::default(), durations: None, mean: true },
            AggregateKind::Min => State::Extreme { best: Value::Null, largest: false },
            AggregateKind::Max => State::Extreme { best: Value::Null, largest: true },
            AggregateKind::Collect => State::Collect(Vec::new()),
            AggregateKind::StandardDeviation => State::Deviation { spread: Spread::default(), population: false },
            AggregateKind::StandardDeviationPopulation => State::Deviation { spread: Spread::default(), population: true },
            AggregateKind::PercentileContinuous => State::Percentile { values: Vec::new(), fraction: None, continuous: true },
            AggregateKind::PercentileDiscrete => State::Percentile { values: Vec::new(), fraction: None, continuous: false },
        };
        Accumulator { seen: aggregate.distinct.then(FxHashSet::default), state }
    }

    /// Takes the arguments of one row.
    pub fn add(&mut self, arguments: &[Value]) -> Result<(), Failure> {
        if let State::Count { rows: true, count } = &mut self.state {
            *count += 1;
            return Ok(());
        }
        let value = arguments.first().unwrap_or(&Value::Null);
        if let State::Percentile { fraction: fraction @ None, .. } = &mut self.state {
            // The first row gives the fraction, also when its value is null.
            *fraction = Some(percentile_fraction(arguments.get(1).unwrap_or(&Value::Null))?);
        }
        if value.is_null() || self.seen.as_mut().is_some_and(|seen| !seen.insert(value.clone())) {
            return Ok(());
        }
        match &mut self.state {
            State::Count { count, .. } => *count += 1,
            // The first value decides what is summed: numbers or durations.
            State::Sum { numbers, durations, mean } => match (value, durations.as_mut()) {
                (Value::Duration(_), Some((sum, count))) => {
                    *sum = arithmetic::add(sum, value)?;
                    *count += 1;
                }
                (Value::Duration(_), None) if numbers.count() == 0 => *durations = Some((value.clone(), 1)),
                (Value::Integer(_) | Value::Float(_), None) => {
                    numbers.add(value, 1);
                }
                _ => {
                    let place = if *mean { "average of values" } else { "sum of values" };
                    let expected = match durations {
                        Some(_) => "Duration",
                        None if numbers.count() > 0 => "Number",
                        None => "Number, Duration",
                    };
                    return Err(mismatch(expected, value, place));
                }
            },
            State::Extreme { best, largest } => {
                let order = value.order_fully(best);
                if best.is_null() || (if *largest { order.is_gt() } else { order.is_lt() }) {
                    *best = value.clone();
                }
            }
            State::Collect(values) => values.push(value.clone()),
            State::Deviation { spread, .. } => {
                if !spread.add(value, 1) {
                    return Err(mismatch("Number", value, "standard deviation of values"));
                }
            }
            State::Percentile { values, .. } => {
                percentile_number(value)?;
                values.push(value.clone());
            }
        }
        Ok(())
    }

    /// What `min` and `max` keep, in bytes; of the others nothing.
    pub fn extreme_bytes(&self) -> usize {
        if let State::Extreme { best, .. } = &self.state { weight(best) } else { 0 }
    }

    pub fn finish(self) -> Result<Value, Failure> {
        Ok(match self.state {
            State::Count { count, .. } => Value::Integer(count),
            State::Sum { durations: Some((sum, count)), mean: true, .. } => arithmetic::divide(&sum, &Value::Integer(count))?,
            State::Sum { durations: Some((sum, _)), .. } => sum,
            State::Sum { numbers, mean: true, .. } => numbers.mean(),
            State::Sum { numbers, .. } => numbers.sum()?,
            State::Extreme { best, .. } => best,
            State::Collect(values) => Value::list(values),
            State::Deviation { spread, population } => Value::Float(spread.deviation(population)),
            State::Percentile { mut values, fraction, continuous } => {
                values.sort_by(Value::order_fully);
                percentile(values.len(), fraction.unwrap_or(0.0), continuous, |at| values[at].clone())
            }
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

/// What a percentile takes: a number.
pub fn percentile_number(value: &Value) -> Result<f64, Failure> {
    number(value).ok_or_else(|| mismatch("Number", value, "percentile of values"))
}

/// Which part of the values is to lie below a percentile.
pub fn percentile_fraction(value: &Value) -> Result<f64, Failure> {
    let fraction = percentile_number(value)?;
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    let message = format!("Invalid input for `percentile`: {} is not in the range 0.0 to 1.0", value.shown());
    Err(Failure::new(FailureKind::OutOfRange, message))
}

/// The percentile of `count` numbers, which are asked for by their place in the order of `Value::order_fully`.
pub fn percentile(count: usize, fraction: f64, continuous: bool, mut value_at: impl FnMut(usize) -> Value) -> Value {
    let Some(last) = count.checked_sub(1) else { return Value::Null };
    let at = fraction * last as f64;
    if !continuous {
        return value_at(((at + 0.5).floor() as usize).min(last));
    }
    if last == 0 {
        return value_at(0);
    }
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let mut number_at = |at: usize| number(&value_at(at)).unwrap_or(f64::NAN);
    let (low, high) = (number_at(below), number_at(above));
    let share = at - below as f64;
    let distance = high - low;
    Value::Float(if share == 0.0 {
        // At a value itself nothing is interpolated, so that infinities beside it do not matter.
        low
    } else if distance.is_infinite() && low.is_finite() && high.is_finite() {
        // Two of opposite signs may lie further apart than a float can say.
        low * (1.0 - share) + high * share
    } else {
        low + distance * share
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::Duration;

    fn fold(kind: AggregateKind, distinct: bool, values: &[Value]) -> Result<Value, Failure> {
        let mut accumulator = Accumulator::new(&Aggregate { kind, arguments: Vec::new(), distinct });
        values.iter().try_for_each(|value| accumulator.add(std::slice::from_ref(value)))?;
        accumulator.finish()
    }

    fn check(kind: AggregateKind, values: &[Value], expected: Value) {
        assert_eq!(fold(kind, false, values), Ok(expected), "{kind:?} of {values:?}");
    }

    #[test]
    fn nothing_has_an_aggregate_too() {
        use AggregateKind::*;
        check(CountRows, &[], Value::Integer(0));
        check(Sum, &[], Value::Integer(0));
        check(Average, &[], Value::Null);
        check(Min, &[Value::Null], Value::Null);
        check(Collect, &[Value::Null], Value::list(vec![]));
        check(StandardDeviation, &[], Value::Float(0.0));
        check(PercentileDiscrete, &[], Value::Null);
    }

    #[test]
    fn counts_sums_and_means() {
        use AggregateKind::*;
        use Value::*;
        check(CountRows, &[Null, Integer(1)], Integer(2));
        check(Count, &[Null, Integer(1)], Integer(1));
        check(Sum, &[Integer(1), Null, Integer(2)], Integer(3));
        check(Sum, &[Integer(1), Float(0.5)], Float(1.5));
        check(Sum, &[Float(1e100), Integer(1), Float(-1e100)], Float(1.0));
        check(Average, &[Float(0.1), Float(0.2), Float(0.3), Float(-0.3)], Float((0.1f64 + 0.2) / 4.0));
        check(Sum, &[Integer(i64::MAX), Integer(1), Integer(-1)], Integer(i64::MAX));
        check(Average, &[Integer(1), Integer(2)], Float(1.5));
        check(Max, &[Integer(1), Value::text("z"), Null], Integer(1));
        check(Min, &[Integer(1), Value::text("z")], Value::text("z"));
        check(
            StandardDeviation,
            &[Integer(2), Integer(4), Integer(4), Integer(4), Integer(5), Integer(5), Integer(7), Integer(9)],
            Float((32.0f64 / 7.0).sqrt()),
        );
        check(StandardDeviationPopulation, &[Integer(1), Integer(3)], Float(1.0));
        assert_eq!(fold(Sum, false, &[Integer(i64::MAX), Integer(1)]).map_err(|f| f.kind), Err(FailureKind::Arithmetic));
        assert_eq!(fold(Sum, false, &[Value::text("a")]).map_err(|f| f.kind), Err(FailureKind::TypeMismatch));
    }

    /// As a standing query has it, which does not know which came first.
    #[test]
    fn which_of_two_alike_is_given_does_not_depend_on_their_order() {
        use AggregateKind::*;
        let (whole, float) = (Value::Integer(1), Value::Float(1.0));
        for values in [[whole.clone(), float.clone()], [float.clone(), whole.clone()]] {
            check(Min, &values, whole.clone());
            check(Max, &values, float.clone());
            let mut accumulator =
                Accumulator::new(&Aggregate { kind: PercentileDiscrete, arguments: Vec::new(), distinct: false });
            for value in &values {
                assert_eq!(accumulator.add(&[value.clone(), Value::Float(0.0)]), Ok(()));
            }
            assert_eq!(accumulator.finish(), Ok(whole.clone()), "{values:?}");
        }
    }

    #[test]
    fn durations_add_up_but_not_with_numbers() {
        let hours = |n: i64| Value::Duration(Duration { seconds: n * 3600, ..Duration::default() }.into());
        check(AggregateKind::Sum, &[hours(1), hours(2)], hours(3));
        check(AggregateKind::Average, &[hours(1), hours(3)], hours(2));
        for kind in [AggregateKind::Sum, AggregateKind::Average] {
            assert!(fold(kind, false, &[hours(1), Value::Integer(1)]).is_err());
            assert!(fold(kind, false, &[Value::Integer(1), hours(1)]).is_err());
        }
    }

    #[test]
    fn distinct_tells_integers_from_floats() {
        let values = [Value::Integer(1), Value::Float(1.0), Value::Integer(1), Value::Null, Value::Null];
        assert_eq!(fold(AggregateKind::Count, true, &values), Ok(Value::Integer(2)));
        assert_eq!(fold(AggregateKind::Collect, true, &values), Ok(Value::list(values[..2].to_vec())));
    }

    #[test]
    fn percentiles_take_their_fraction_from_the_first_row() {
        let run = |kind, fraction: f64, values: &[i64]| {
            let mut accumulator = Accumulator::new(&Aggregate { kind, arguments: Vec::new(), distinct: false });
            for value in values {
                accumulator.add(&[Value::Integer(*value), Value::Float(fraction)])?;
            }
            accumulator.finish()
        };
        let (discrete, continuous) = (AggregateKind::PercentileDiscrete, AggregateKind::PercentileContinuous);
        assert_eq!(run(discrete, 0.5, &[30, 10, 20]), Ok(Value::Integer(20)));
        assert_eq!(run(discrete, 1.0, &[30, 10, 20]), Ok(Value::Integer(30)));
        assert_eq!(run(continuous, 0.25, &[10, 20]), Ok(Value::Float(12.5)));
        assert_eq!(run(continuous, 0.3, &[10]), Ok(Value::Integer(10)));
        assert_eq!(run(continuous, 1.5, &[10]).map_err(|f| f.kind), Err(FailureKind::OutOfRange));
    }

    #[test]
    fn percentiles_between_values_that_are_very_far_apart() {
        let run = |fraction: f64, mut values: [f64; 2]| {
            values.sort_by(f64::total_cmp);
            percentile(values.len(), fraction, true, |at| Value::Float(values[at]))
        };
        assert_eq!(run(0.5, [-f64::MAX, f64::MAX]), Value::Float(0.0));
        let (large, half) = (2f64.powi(1023), 2f64.powi(1022));
        assert_eq!(run(0.25, [large, -large]), Value::Float(-half));
        assert_eq!(run(0.75, [large, -large]), Value::Float(half));
        assert_eq!(run(0.5, [1.0, f64::INFINITY]), Value::Float(f64::INFINITY));
    }
}
