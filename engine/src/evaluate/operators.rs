//! The operators of a plan, each in the form "for every row of my input, call `next`".
//!
//! `run` answers Break exactly when `next` did: a Limit that has had enough stops its input, not those above it. Whoever
//! changes a slot of a row that is not its own puts back what was there once `next` has returned.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use weir_model::aggregate::Accumulator;
use weir_model::expression::FailureKind;
use weir_model::extent::Holding;
use weir_model::membership::Lists;
use weir_model::plan::{Operator, Slot, Step};
use weir_model::{Aggregate, AggregateKind, Expr, Failure, Mutations, Value};

use super::call::contains_effect;
use super::context::{Reader, path_elements, refers};
use super::fetched::Fetched;
use super::keys::{Key, Keys};
use super::limits::{Budget, Held, weight_of};
use super::pattern::Frame;
use super::profile::Profile;
use super::scan::Scans;
use super::spared::Spared;
use super::unanchored::UnanchoredSoFar;
use super::watched::Watched;
use super::{Environment, Prepared};
use crate::view::overlay::Overlay;
use crate::view::{About, HalfEdge};

pub(super) type Flow = Result<ControlFlow<()>, Failure>;
pub(super) type Next<'n> = &'n mut dyn FnMut(&mut [Value]) -> Flow;

pub(super) const GO_ON: Flow = Ok(ControlFlow::Continue(()));
pub(super) const STOP: Flow = Ok(ControlFlow::Break(()));

/// One run of a plan. Everything that changes lies in cells, so that operators can call each other freely.
pub(super) struct Run<'r> {
    pub prepared: &'r Prepared,
    pub environment: &'r Environment<'r>,
    pub reader: Reader<'r>,
    /// Where the plan reads its own writes.
    pub overlay: Option<&'r Overlay<'r>>,
    /// Rows of `mutations` that are in the overlay.
    pub applied: &'r Cell<usize>,
    pub mutations: &'r RefCell<Mutations>,
    pub budget: &'r Budget<'r>,
    pub scratch: &'r Scratch,
    /// By pattern, which of its orders was chosen.
    pub chosen: RefCell<FxHashMap<usize, usize>>,
    /// What was asked of the graph to choose, as it was told first.
    pub figures: RefCell<SmallVec<[(About, f64); 8]>>,
    pub scans: &'r Scans,
    pub watched: Option<&'r Watched>,
    /// How many queries around this one run it in place of a call.
    pub depth: usize,
    /// Where the operators of the plan are counted, if anybody wants to know.
    pub profile: Option<&'r Profile>,
    /// Where the query may have to run again: what its procedures brought.
    pub fetched: Option<&'r Fetched>,
    pub spared: &'r Spared,
    pub unanchored: &'r UnanchoredSoFar,
}

/// Memory that outlives a run so that the next need not allocate. The vectors are stacks: who pushes truncates.
#[derive(Default)]
pub(super) struct Scratch {
    pub halves: RefCell<Vec<HalfEdge>>,
    pub frames: RefCell<Vec<Frame>>,
    values: RefCell<Vec<Value>>,
    pub buffers: RefCell<Vec<Vec<Value>>>,
    /// Whether what runs answers the same in whatever order edges are listed.
    pub any_order: Cell<bool>,
    pub lists: Lists,
}

impl Scratch {
    /// How high the stacks are: what a run that fails leaves above is taken off again by `reset`.
    pub fn mark(&self) -> (usize, usize) {
        (self.halves.borrow().len(), self.values.borrow().len())
    }

    pub fn reset(&self, mark: (usize, usize)) {
        self.halves.borrow_mut().truncate(mark.0);
        self.values.borrow_mut().truncate(mark.1);
    }
}

/// Rows put by, one after another in one vector.
pub(super) struct Rows<'a, 'r> {
    values: Vec<Value>,
    held: Held<'a, 'r>,
    run: &'a Run<'r>,
}

impl<'a, 'r> Rows<'a, 'r> {
    pub fn new(run: &'a Run<'r>) -> Rows<'a, 'r> {
        Rows { values: run.scratch.buffers.borrow_mut().pop().unwrap_or_default(), held: run.budget.held(), run }
    }

    pub fn push(&mut self, row: &[Value]) -> Result<(), Failure> {
        let before = self.values.len().saturating_sub(row.len());
        self.held.row(row, &self.values[before..])?;
        self.values.extend_from_slice(row);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [Value]> {
        self.values.chunks_exact_mut(self.run.prepared.plan.width.max(1))
    }

    /// Hands the rows on, until it is enough.
    pub fn pass(&mut self, next: Next) -> Flow {
        self.run.budget.go_deeper()?;
        for row in self.iter_mut() {
            if next(row)?.is_break() {
                return STOP;
            }
        }
        GO_ON
    }
}

impl Drop for Rows<'_, '_> {
    fn drop(&mut self) {
        self.values.clear();
        self.run.scratch.buffers.borrow_mut().push(std::mem::take(&mut self.values));
    }
}

impl Run<'_> {
    /// Runs the whole plan; the columns of each row go to `each`.
    pub fn to_columns(&self, row: &mut [Value], each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) -> Result<(), Failure> {
        let columns = &self.prepared.plan.columns;
        if columns.is_empty() {
            return self.drain(&self.prepared.plan.root, row, &mut |_| Ok(()));
        }
        let mut answer: Vec<Value> = Vec::with_capacity(columns.len());
        self.run(&self.prepared.plan.root, row, &mut |row| {
            self.budget.step()?;
            answer.clear();
            let mut room = self.budget.room();
            for (_, slot) in columns {
                let value = &row[slot.0 as usize];
                answer.push(if refers(value) { self.reader.hydrate(value, &mut room)? } else { value.clone() });
            }
            Ok(each(&answer))
        })
        .map(drop)
    }

    /// All rows of an operator, whatever becomes of them.
    pub fn drain(
        &self,
        operator: &Operator,
        row: &mut [Value],
        each: &mut dyn FnMut(&mut [Value]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.run(operator, row, &mut |row| each(row).and(GO_ON)).map(drop)
    }

    pub fn run(&self, operator: &Operator, row: &mut [Value], next: Next) -> Flow {
        let Some((profile, number)) = self.profile.and_then(|profile| Some((profile, profile.number(operator)?))) else {
            return self.operate(operator, row, next);
        };
        let around = profile.enter(Some(number));
        let flow = self.operate(operator, row, &mut |row| {
            profile.row(number);
            let inside = profile.enter(around);
            let flow = next(row);
            profile.enter(inside);
            flow
        });
        profile.enter(around);
        flow
    }

    fn operate(&self, operator: &Operator, row: &mut [Value], next: Next) -> Flow {
        self.budget.go_deeper()?;
        match operator {
            Operator::Unit | Operator::Argument => next(row),
            Operator::Schema(_) => {
                let message = "A command about the graph as a whole stands alone, and is no query";
                Err(Failure::new(FailureKind::Runtime, message))
            }
            Operator::Match { input, pattern } => self.run(input, row, &mut |row| self.matches(pattern, row, next)),
            Operator::Optional { input, inner, nulls } => {
                let mut each = |row: &mut [Value], next: Next| self.optional(inner, nulls, row, next);
                self.each_once(input, contains_effect(inner), row, next, &mut each)
            }
            Operator::Filter { input, condition } => self.run(input, row, &mut |row| {
                if self.holds(condition, row)? { next(row) } else { GO_ON }
            }),
            Operator::Project { input, items } => self.run(input, row, &mut |row| self.project(items, row, next)),
            Operator::Aggregate { input, keys, aggregates } => match self.counted(input, keys, aggregates) {
                Some((slot, count)) => {
                    let at = self.put(std::iter::once(Value::Integer(count as i64)));
                    self.with_swapped(std::iter::once(slot), at, row, next)
                }
                None => self.aggregate(input, keys, aggregates, row, next),
            },
            Operator::Distinct { input, slots } => {
                let mut seen = Seen::new(self);
                self.run(input, row, &mut |row| if seen.is_new(slots, row)? { next(row) } else { GO_ON })
            }
            Operator::Sort { input, keys, limit } => self.sort(input, keys, limit.as_ref(), row, next),
            Operator::Skip { input, count } => self.skip(input, count, row, next),
            Operator::Limit { input, count } => self.limit(input, count, row, next),
            Operator::Unwind { input, list, into } => self.run(input, row, &mut |row| self.unwind(list, *into, row, next)),
            Operator::Write { input, writes } => self.write(input, writes, row, next),
            Operator::Merge { input, pattern, create, on_create, on_match } => {
                self.merge(input, pattern, [create, on_create, on_match], row, next)
            }
            Operator::Call { input, procedure, arguments, yields } => self.call(input, (procedure, arguments, yields), row, next),
            Operator::Subquery { input, inner, unit } => self.call_subquery(input, inner, *unit, row, next),
            Operator::Recurse { input, first, state, variables, inner, again, until } => {
                let recursion = super::call::Recursion { first, state, variables, inner, again, until };
                self.recurse_each(input, &recursion, row, next)
            }
            Operator::Join { nulls: Some(_), .. } => {
                let message = "An OPTIONAL MATCH that is maintained is not asked row by row";
                Err(Failure::new(FailureKind::Runtime, message))
            }
            Operator::Join { left, right, keys, nulls: None } => {
                self.run(left, row, &mut |row| self.run(right, row, &mut |row| self.join(keys, row, next)))
            }
            Operator::Union { left, right, distinct } => self.union(left, right, distinct.as_deref(), row, next),
        }
    }

    fn optional(&self, inner: &Operator, nulls: &[Slot], row: &mut [Value], next: Next) -> Flow {
        let (mut matched, is_optional) = (false, self.unanchored.is_optional());
        let flow = self.unanchored.within(true, || {
            self.run(inner, row, &mut |row| {
                matched = true;
                self.unanchored.within(is_optional, || next(row))
            })
        })?;
        if matched {
            return Ok(flow);
        }
        let at = self.put(nulls.iter().map(|_| Value::Null));
        self.with_swapped(nulls.iter().copied(), at, row, next)
    }

    /// What is new in the row counts for as long as the row is there, from the first column on.
    fn project(&self, items: &[(Slot, Expr)], row: &mut [Value], next: Next) -> Flow {
        self.budget.go_deeper()?;
        let mut held = Holding::new(self);
        if let [(slot, expr)] = items {
            let value = match expr.evaluate(row, self) {
                Ok(value) => value,
                Err(failure) => return self.end_row_of(Some(expr), failure),
            };
            held.add(&value)?;
            let before = std::mem::replace(&mut row[slot.0 as usize], value);
            let flow = next(row);
            row[slot.0 as usize] = before;
            return flow;
        }
        let at = self.scratch.values.borrow().len();
        for (_, expr) in items {
            let value = match expr.evaluate(row, self) {
                Ok(value) => value,
                Err(failure) => {
                    self.scratch.values.borrow_mut().truncate(at);
                    return self.end_row_of(Some(expr), failure);
                }
            };
            held.add(&value)?;
            self.scratch.values.borrow_mut().push(value);
        }
        self.with_swapped(items.iter().map(|(slot, _)| *slot), at, row, next)
    }

    /// The values of expressions, which count from the first one on until all are there: the caller counts what it keeps of them.
    pub(super) fn push_values<'e>(
        &self,
        exprs: impl Iterator<Item = &'e Expr>,
        row: &[Value],
        values: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        let mut held = Holding::new(self);
        for expr in exprs {
            let value = expr.evaluate(row, self)?;
            held.add(&value)?;
            values.push(value);
        }
        Ok(())
    }

    /// Puts values on the stack; answers where they begin.
    pub(super) fn put(&self, values: impl Iterator<Item = Value>) -> usize {
        let mut stack = self.scratch.values.borrow_mut();
        let at = stack.len();
        stack.extend(values);
        at
    }

    /// Calls `next` with the values from `at` on in their slots, then takes both back.
    pub(super) fn with_swapped(
        &self,
        slots: impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator + Clone,
        at: usize,
        row: &mut [Value],
        next: Next,
    ) -> Flow {
        let swap = |row: &mut [Value], kept: &mut Value, slot: Slot| std::mem::swap(&mut row[slot.0 as usize], kept);
        let mut kept = self.scratch.values.borrow_mut();
        slots.clone().zip(&mut kept[at..]).for_each(|(slot, kept)| swap(row, kept, slot));
        drop(kept);
        let flow = next(row);
        let mut kept = self.scratch.values.borrow_mut();
        // The last first: a slot may come twice.
        let count = slots.len();
        slots.rev().zip(kept[at..at + count].iter_mut().rev()).for_each(|(slot, kept)| swap(row, kept, slot));
        kept.truncate(at);
        flow
    }

    fn unwind(&self, of: &Expr, into: Slot, row: &mut [Value], next: Next) -> Flow {
        let list = match self.as_range(of, row) {
            Ok(Some((start, step, length))) => {
                let numbers = (0..length).map(|i| Value::Integer(start.wrapping_add(i.wrapping_mul(step))));
                return self.each_element(numbers, into, row, next);
            }
            Ok(None) => of.evaluate(row, self),
            Err(failure) => Err(failure),
        };
        let list = match list {
            Ok(list) => list,
            Err(failure) => return self.end_row_of(Some(of), failure),
        };
        let mut held = Holding::new(self);
        held.add(&list)?;
        let elements = match list {
            Value::Null => return GO_ON,
            Value::List(items) => items,
            Value::Path(path) => path_elements(&path).into(),
            other => [other].into(),
        };
        self.each_element(elements.iter().cloned(), into, row, next)
    }

    /// The first number of `range(…)`, the distance between two, and how many there are: the list is not made. None where the
    /// function itself has something to say.
    fn as_range(&self, list: &Expr, row: &mut [Value]) -> Result<Option<(i64, i64, i64)>, Failure> {
        let Expr::Call { function, arguments } = list else { return Ok(None) };
        if function.name != "range" {
            return Ok(None);
        }
        let mut numbers = [0, 0, 1];
        for (number, argument) in numbers.iter_mut().zip(arguments) {
            let Value::Integer(given) = argument.evaluate(row, self)? else { return Ok(None) };
            *number = given;
        }
        let [start, end, step] = numbers;
        let distance = i128::from(end) - i128::from(start);
        if step == 0 || distance != 0 && (distance > 0) != (step > 0) {
            return Ok(None);
        }
        let length = i64::try_from(distance / i128::from(step) + 1).ok();
        Ok(length.map(|length| (start, step, length)))
    }

    fn each_element(&self, elements: impl Iterator<Item = Value>, into: Slot, row: &mut [Value], next: Next) -> Flow {
        let into = into.0 as usize;
        let before = std::mem::take(&mut row[into]);
        let mut held = Holding::new(self);
        for element in elements {
            self.budget.step()?;
            held.clear();
            held.add(&element)?;
            row[into] = element;
            if next(row)?.is_break() {
                row[into] = before;
                return STOP;
            }
        }
        row[into] = before;
        GO_ON
    }

    fn skip(&self, input: &Operator, count: &Expr, row: &mut [Value], next: Next) -> Flow {
        let mut left = self.count(count, "SKIP", row)?;
        self.run(input, row, &mut |row| {
            if left == 0 {
                return next(row);
            }
            left -= 1;
            GO_ON
        })
    }

    fn limit(&self, input: &Operator, count: &Expr, row: &mut [Value], next: Next) -> Flow {
        let mut left = self.count(count, "LIMIT", row)?;
        // Nobody waits for a row that is not taken, which may be long in coming; what is written on the way has to happen.
        if left == 0 && !contains_effect(input) {
            return GO_ON;
        }
        let mut above = ControlFlow::Continue(());
        let _ = self.run(input, row, &mut |row| {
            if left > 0 {
                left -= 1;
                above = next(row)?;
            }
            Ok(if left == 0 { ControlFlow::Break(()) } else { above })
        })?;
        Ok(above)
    }

    /// The number after SKIP or LIMIT.
    pub(super) fn count(&self, count: &Expr, clause: &str, row: &mut [Value]) -> Result<usize, Failure> {
        match count.evaluate(row, self)? {
            Value::Integer(n) if n >= 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            Value::Integer(n) => {
                let message = format!("{clause} takes a number that is not negative, but got {n}");
                Err(Failure::new(FailureKind::NegativeRowCount, message))
            }
            other => {
                let message = format!("{clause} takes an integer, but got {}", other.shown());
                Err(Failure::new(FailureKind::InvalidRowCount, message))
            }
        }
    }

    /// Hands on a row of both sides, if they belong together.
    #[inline]
    fn join(&self, keys: &[(Expr, Expr)], row: &mut [Value], next: Next) -> Flow {
        for (left, right) in keys {
            match left.evaluate(row, self).and_then(|left| left.equals_in(&right.evaluate(row, self)?, self)) {
                Ok(Some(true)) => {}
                Ok(_) => return GO_ON,
                Err(failure) => return self.end_row(failure),
            }
        }
        next(row)
    }

    fn union(&self, left: &Operator, right: &Operator, distinct: Option<&[Slot]>, row: &mut [Value], next: Next) -> Flow {
        let mut seen = Seen::new(self);
        let mut both = |row: &mut [Value]| match distinct {
            Some(slots) if !seen.is_new(slots, row)? => GO_ON,
            _ => next(row),
        };
        if self.run(left, row, &mut both)?.is_break() {
            // What the other side writes has to happen all the same.
            if contains_effect(right) {
                self.drain(right, row, &mut |_| Ok(()))?;
            }
            return STOP;
        }
        self.run(right, row, &mut both)
    }

    fn aggregate(
        &self,
        input: &Operator,
        keys: &[(Slot, Expr)],
        aggregates: &[(Slot, Aggregate)],
        row: &mut [Value],
        next: Next,
    ) -> Flow {
        let fresh = || aggregates.iter().map(|(_, aggregate)| Accumulator::new(aggregate)).collect::<Vec<_>>();
        let mut numbers: FxHashMap<Key, usize> = FxHashMap::default();
        // In the order in which the groups appeared.
        let mut groups: Vec<Group> = Vec::new();
        if keys.is_empty() {
            groups.push((Vec::new(), fresh()));
        }
        let (mut known, mut key, mut arguments) = (Keys::default(), Key::default(), Vec::new());
        let mut held = self.budget.held();
        self.drain(input, row, &mut |row| {
            self.budget.step()?;
            key.values.clear();
            arguments.clear();
            let taken = aggregates.iter().flat_map(|(_, aggregate)| &aggregate.arguments);
            let keyed = self.push_values(keys.iter().map(|(_, expr)| expr), row, &mut key.values);
            if let Err(failure) = keyed.and_then(|()| self.push_values(taken, row, &mut arguments)) {
                // A row of which one of them has no value is in no group, and no aggregate has it: `count(*)` neither.
                return self.end_row(failure).map(drop);
            }
            let mut group = 0;
            if !keys.is_empty() {
                known.hash(&mut key);
                group = match numbers.get(&key) {
                    Some(number) => *number,
                    None => {
                        held.bytes(2 * (known.weight(&key) + ENTRY_BYTES) + aggregates.len() * size_of::<Accumulator>())?;
                        numbers.insert(key.clone(), groups.len());
                        groups.push((key.values.clone(), fresh()));
                        groups.len() - 1
                    }
                };
            }
            let accumulators = &mut groups[group].1;
            if let Some(failure) = accumulate(aggregates, accumulators, &arguments, &mut held)? {
                let _ = self.end_row(failure)?;
                // The group has no row, whatever else comes into it.
                accumulators.clear();
            }
            Ok(())
        })?;
        self.give_groups(keys, aggregates, groups, row, next)
    }

    /// A row of each group. One without a value for an aggregate has none.
    fn give_groups(
        &self,
        keys: &[(Slot, Expr)],
        aggregates: &[(Slot, Aggregate)],
        groups: Vec<Group>,
        row: &mut [Value],
        next: Next,
    ) -> Flow {
        let slots: Vec<Slot> = keys.iter().map(|(slot, _)| *slot).chain(aggregates.iter().map(|(slot, _)| *slot)).collect();
        'groups: for (key, accumulators) in groups {
            if accumulators.len() < aggregates.len() {
                continue;
            }
            let mut values = key;
            for accumulator in accumulators {
                match accumulator.finish() {
                    Ok(value) => values.push(value),
                    Err(failure) => {
                        let _ = self.end_row(failure)?;
                        continue 'groups;
                    }
                }
            }
            let at = self.put(values.into_iter());
            if self.with_swapped(slots.iter().copied(), at, row, next)?.is_break() {
                return STOP;
            }
        }
        GO_ON
    }

    /// The number of nodes with a label, where that is all that is asked and the view knows it.
    fn counted(&self, input: &Operator, keys: &[(Slot, Expr)], aggregates: &[(Slot, Aggregate)]) -> Option<(Slot, u64)> {
        let ([], [(slot, Aggregate { kind, arguments, .. })]) = (keys, aggregates) else { return None };
        let Operator::Match { input, pattern } = input else { return None };
        let ([node], [Step::Scan { .. }]) = (pattern.nodes.as_slice(), pattern.steps.as_slice()) else { return None };
        let [label] = node.labels.as_slice() else { return None };
        // Every node of a scan comes once, so those that are distinct are all.
        let of_node = match kind {
            AggregateKind::CountRows => true,
            AggregateKind::Count => matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == node.slot),
            _ => false,
        };
        let nothing_else = matches!(**input, Operator::Unit) && node.conditions.is_empty() && pattern.paths.is_empty();
        if !of_node || !nothing_else {
            return None;
        }
        self.reader.view.count_labelled(self.prepared.symbol(*label)).map(|count| (*slot, count))
    }
}

/// Its key, and what its aggregates have come to; nothing any more where one of them has no value.
type Group = (Vec<Value>, Vec<Accumulator>);

/// Takes a row into the aggregates of its group. What has no value is given back; an error is that too much is kept.
fn accumulate(
    aggregates: &[(Slot, Aggregate)],
    accumulators: &mut [Accumulator],
    arguments: &[Value],
    held: &mut Held<'_, '_>,
) -> Result<Option<Failure>, Failure> {
    let mut rest = arguments;
    for ((_, aggregate), accumulator) in aggregates.iter().zip(accumulators) {
        let (own, others) = rest.split_at(aggregate.arguments.len());
        rest = others;
        if keeps_arguments(aggregate) {
            held.bytes(weight_of(own))?;
        }
        let before = accumulator.extreme_bytes();
        if let Err(failure) = accumulator.add(own) {
            return Ok(Some(failure));
        }
        held.change(before, accumulator.extreme_bytes())?;
    }
    Ok(None)
}

/// What a vector in a table costs besides what is in it.
pub(super) const ENTRY_BYTES: usize = 48;

/// Whether the state of an aggregate grows with its rows.
fn keeps_arguments(aggregate: &Aggregate) -> bool {
    use AggregateKind::*;
    aggregate.distinct || matches!(aggregate.kind, Collect | PercentileContinuous | PercentileDiscrete)
}

/// The rows a Distinct has met, by the slots it looks at.
struct Seen<'a, 'r> {
    rows: FxHashSet<Key>,
    known: Keys,
    key: Key,
    held: Held<'a, 'r>,
}

impl<'a, 'r> Seen<'a, 'r> {
    fn new(run: &'a Run<'r>) -> Seen<'a, 'r> {
        Seen { rows: FxHashSet::default(), known: Keys::default(), key: Key::default(), held: run.budget.held() }
    }

    fn is_new(&mut self, slots: &[Slot], row: &[Value]) -> Result<bool, Failure> {
        self.key.values.clear();
        self.key.values.extend(slots.iter().map(|slot| row[slot.0 as usize].clone()));
        self.known.hash(&mut self.key);
        if self.rows.contains(&self.key) {
            return Ok(false);
        }
        self.held.bytes(self.known.weight(&self.key) + ENTRY_BYTES)?;
        self.rows.insert(self.key.clone());
        Ok(true)
    }
}
