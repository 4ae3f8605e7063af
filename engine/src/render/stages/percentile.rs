//! Percentiles: the values of a group in order, and the place among them that was last asked for. One value more or less moves
//! the percentile by one place at most, so a change costs a look-up and a step or two.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use smallvec::{SmallVec, smallvec};
use weir_model::aggregate::{percentile, percentile_fraction, percentile_number};
use weir_model::{Failure, Value};

pub struct Percentile {
    distinct: bool,
    values: BTreeMap<InOrder, Fractions>,
    count: i64,
    /// A value, which may have gone meanwhile, and how many there are before it.
    mark: InOrder,
    before: i64,
}

/// The fractions that came with a value, in order, and how often each did. Mostly it is one, as it is a constant.
type Fractions = SmallVec<[(Value, i64); 1]>;

/// A value that sorts as for ORDER BY, with ties told apart.
#[derive(Clone)]
struct InOrder(Value);

impl Ord for InOrder {
    fn cmp(&self, other: &InOrder) -> Ordering {
        self.0.order_fully(&other.0)
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &InOrder) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InOrder {
    fn eq(&self, other: &InOrder) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InOrder {}

impl Percentile {
    pub fn new(distinct: bool) -> Percentile {
        Percentile { distinct, values: BTreeMap::new(), count: 0, mark: InOrder(Value::Null), before: 0 }
    }

    /// How many values there are; where only distinct ones count, of those.
    pub fn count(&self) -> i64 {
        self.count
    }

    pub fn add(&mut self, value: &Value, fraction: &Value, diff: i64) {
        if diff == 0 {
            return;
        }
        let change = match self.values.entry(InOrder(value.clone())) {
            Entry::Vacant(entry) => {
                let fractions = entry.insert(smallvec![(fraction.clone(), diff)]);
                weight(self.distinct, fractions)
            }
            Entry::Occupied(mut entry) => {
                let fractions = entry.get_mut();
                match fractions.binary_search_by(|(known, _)| known.cmp(fraction)) {
                    Ok(at) => {
                        fractions[at].1 += diff;
                        if fractions[at].1 == 0 {
                            fractions.remove(at);
                        }
                    }
                    Err(at) => fractions.insert(at, (fraction.clone(), diff)),
                }
                let is_gone = fractions.is_empty();
                if is_gone {
                    entry.remove();
                }
                if self.distinct { -i64::from(is_gone) } else { diff }
            }
        };
        self.count += change;
        if value.order_fully(&self.mark.0).is_lt() {
            self.before += change;
        }
    }

    /// The fraction is the one of the first value.
    pub fn value(&mut self, continuous: bool) -> Result<Value, Failure> {
        let Some((InOrder(first), fractions)) = self.values.first_key_value() else { return Ok(Value::Null) };
        let fraction = percentile_fraction(fractions.first().map_or(&Value::Null, |(fraction, _)| fraction))?;
        // What is no number comes before all numbers.
        percentile_number(first)?;
        let count = usize::try_from(self.count).unwrap_or(0);
        Ok(percentile(count, fraction, continuous, |at| self.value_at(at as i64)))
    }

    /// The value at a place that there is.
    fn value_at(&mut self, at: i64) -> Value {
        let from = self.mark.clone();
        if at < self.before {
            for (value, fractions) in self.values.range(..from).rev() {
                self.before -= weight(self.distinct, fractions);
                self.mark = value.clone();
                if self.before <= at {
                    break;
                }
            }
        } else {
            for (value, fractions) in self.values.range(from..) {
                self.mark = value.clone();
                let here = weight(self.distinct, fractions);
                if at < self.before + here {
                    break;
                }
                self.before += here;
            }
        }
        self.mark.0.clone()
    }
}

/// How often a value counts.
fn weight(distinct: bool, fractions: &Fractions) -> i64 {
    if distinct { 1 } else { fractions.iter().map(|(_, count)| count).sum() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_model::aggregate::Accumulator;
    use weir_model::{Aggregate, AggregateKind};

    use super::*;
    use crate::random::Random;

    /// Of all rows, one by one in their order.
    fn anew(rows: &[(InOrder, Value)], continuous: bool, distinct: bool) -> Result<Value, Failure> {
        let kind = if continuous { AggregateKind::PercentileContinuous } else { AggregateKind::PercentileDiscrete };
        let mut accumulator = Accumulator::new(&Aggregate { kind, arguments: Vec::new(), distinct });
        for (value, fraction) in rows {
            accumulator.add(&[value.0.clone(), fraction.clone()])?;
        }
        accumulator.finish()
    }

    #[test]
    fn a_percentile_is_always_the_one_of_all_rows_in_order() {
        let mut seeded = Random(88172645463325252);
        let mut random = |below: usize| seeded.index_below(below);
        let mut values: Vec<Value> = (-3..9).map(Value::Integer).collect();
        values.extend([-1.5, -0.0, 0.0, 0.5, 1.0, 2.5, 7.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(Value::Float));
        values.extend([Value::Integer(i64::MAX), Value::Integer(i64::MAX - 1), Value::Float(i64::MAX as f64)]);
        let numbers = values.len();
        values.extend([Value::text("a"), Value::Boolean(true), Value::list(vec![])]);
        let constants = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0].map(|fraction| vec![Value::Float(fraction)]);
        let several = vec![Value::Float(0.2), Value::Float(0.7), Value::Integer(1)];
        let wrong = vec![Value::Float(0.5), Value::Float(1.5), Value::Null];
        for fractions in constants.into_iter().chain([several, wrong]) {
            for distinct in [false, true] {
                let (mut kept, mut rows) = (Percentile::new(distinct), Vec::<(InOrder, Value)>::new());
                for round in 0..500 {
                    for _ in 0..random(4) {
                        // For a while more comes than goes, then the other way round.
                        if rows.is_empty() || random(10) < if round < 250 { 6 } else { 3 } {
                            // Other values than numbers come seldom, or there would be no other answer than an error.
                            let among = if random(60) == 0 { values.len() } else { numbers };
                            let (value, fraction) = (&values[random(among)], &fractions[random(fractions.len())]);
                            let times = 1 + random(3);
                            kept.add(value, fraction, times as i64);
                            rows.extend(vec![(InOrder(value.clone()), fraction.clone()); times]);
                        } else {
                            let (value, fraction) = rows.swap_remove(random(rows.len()));
                            kept.add(&value.0, &fraction, -1);
                        }
                    }
                    rows.sort();
                    for continuous in [false, true] {
                        let (found, expected) = (kept.value(continuous), anew(&rows, continuous, distinct));
                        assert_eq!(found, expected, "{fractions:?}, distinct {distinct}, round {round}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_costs_the_same_however_many_there_are() {
        let (mut kept, fraction, begun) = (Percentile::new(false), Value::Float(0.5), Instant::now());
        for n in 0..100_000_i64 {
            kept.add(&Value::Integer(n * 7919 % 100_003), &fraction, 1);
            assert!(kept.value(true).is_ok());
            // Where each value is gone through each time, it is a hundred times as long.
            assert!(begun.elapsed() < Duration::from_secs(20), "{n} values took too long");
        }
    }
}
