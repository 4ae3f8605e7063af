//! Clock: conditions on the current time, and the moment at which they turn for time alone.
//!
//! `timestamp() - s.seen > 60000` is false, and a minute after `s.seen` it is true. A condition that looks at the clock on one
//! side, where time only runs forward, turns once at most: so whoever keeps an answer up to date need only be told when.

use std::cell::Cell;

use crate::expression::{Binary, Context, Expr, Failure, FailureKind, Subquery};
use crate::forward_context;
use crate::membership::Lists;
use crate::value::Value;

/// The last moment that a tick can be of.
pub const LAST: i64 = (1 << 44) - 1;

/// The time of a query, in milliseconds since 1970, and who waits for conditions to turn.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'a> {
    pub millis: i64,
    turns: Option<&'a Cell<i64>>,
}

impl<'a> Clock<'a> {
    /// No moment at all: nothing turns.
    pub const NEVER: i64 = i64::MAX;

    pub fn at(millis: i64) -> Clock<'a> {
        Clock { millis, turns: None }
    }

    /// As `at`; the first moment after it at which a condition turns that was looked at is put into the cell, if it is before
    /// what is there.
    pub fn watched(millis: i64, turns: &'a Cell<i64>) -> Clock<'a> {
        Clock { millis, turns: Some(turns) }
    }

    pub fn turns(&self) -> Option<&Cell<i64>> {
        self.turns
    }
}

/// A context at another time.
pub struct At<'c> {
    pub context: &'c dyn Context,
    pub clock: Clock<'c>,
}

/// The value of a condition that turns once at most. It has none where `+` joined the time to text or to a list.
pub fn clocked(condition: &Expr, row: &[Value], context: &dyn Context) -> Result<Value, Failure> {
    let now = context.now_millis();
    let value = condition.evaluate(row, context)?;
    if !value.is_null() {
        check_runs(condition, row, context)?;
    }
    if let Some(turns) = context.turns() {
        let at = |millis| condition.evaluate(row, &At { context, clock: Clock::at(millis) });
        let differs = |millis: i64| millis > now && at(millis).as_ref() != Ok(&value);
        if let Some(turn) = turn(condition, row, context, now, &differs) {
            turns.set(turns.get().min(turn));
        }
    }
    Ok(value)
}

/// `'9s'` is behind `'10s'`: joined to text the time does not run one way, and nobody would know when the condition turns. What
/// was compared is alike on both sides, so one of them is looked at: a slot or a constant where there is one, which is no work.
fn check_runs(condition: &Expr, row: &[Value], context: &dyn Context) -> Result<(), Failure> {
    let Expr::Binary { left, right, .. } = condition else { return Ok(()) };
    let adds = |side: &Expr| matches!(side, Expr::Binary { operator: Binary::Add, .. });
    if !adds(left) && !adds(right) {
        return Ok(());
    }
    let side = if matches!(**right, Expr::Slot(_) | Expr::Literal(_)) { right } else { left };
    let joined = match &*side.look(row, context)? {
        Value::Text(_) => "text",
        Value::List(_) => "a list",
        _ => return Ok(()),
    };
    let message = format!(
        "The current time was joined to {joined} by `+` and is compared as such: it cannot be foreseen when that turns. \
         Add a number, as `toInteger(…)` makes it, or nothing"
    );
    Err(Failure::new(FailureKind::TypeMismatch, message))
}

/// The first moment from which on the condition has another value than now.
fn turn(condition: &Expr, row: &[Value], context: &dyn Context, now: i64, differs: &dyn Fn(i64) -> bool) -> Option<i64> {
    // Milliseconds against milliseconds, nearly always: as far away as the two are.
    if let Expr::Binary { operator, left, right } = condition
        && is_order(*operator)
        && let (Ok(Value::Integer(left)), Ok(Value::Integer(right))) = (left.evaluate(row, context), right.evaluate(row, context))
    {
        let near = now.saturating_add(left.saturating_sub(right).saturating_abs());
        let first = (near.saturating_sub(1)..=near.saturating_add(1)).find(|millis| differs(*millis));
        if let Some(first) = first
            && first <= LAST
            && !differs(first - 1)
        {
            return Some(first);
        }
    }
    if !differs(LAST) {
        return None;
    }
    let (mut before, mut from) = (now, LAST);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        if differs(middle) {
            from = middle;
        } else {
            before = middle;
        }
    }
    Some(from)
}

pub fn is_order(operator: Binary) -> bool {
    matches!(operator, Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual)
}

impl Context for At<'_> {
    forward_context!(self, self.context);

    fn now_millis(&self) -> i64 {
        self.clock.millis
    }
    fn turns(&self) -> Option<&Cell<i64>> {
        self.clock.turns()
    }
    fn is_kept(&self) -> bool {
        self.context.is_kept()
    }
    fn clock_millis(&self) -> i64 {
        self.clock.millis
    }
    fn subquery(&self, subquery: &Subquery, row: &[Value]) -> Result<Value, Failure> {
        self.context.subquery(subquery, row)
    }
    fn spend(&self, steps: usize) -> Result<(), Failure> {
        self.context.spend(steps)
    }
    fn room(&self) -> usize {
        self.context.room()
    }
    fn hold(&self, bytes: usize) -> Result<(), Failure> {
        self.context.hold(bytes)
    }
    fn release(&self, bytes: usize) {
        self.context.release(bytes);
    }
    fn lists(&self) -> Option<&Lists> {
        self.context.lists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Function, GraphFree};
    use crate::id::IdScheme;
    use crate::plan::Slot;

    static NOW: Function = Function {
        name: "now",
        arguments_min: 0,
        arguments_max: 0,
        signature: "",
        description: "",
        example: "",
        null_in_null_out: false,
        pure: false,
        asks_graph: false,
        run: |context, _| Ok(Value::Integer(context.now_millis())),
    };

    /// The sides of a comparison, of the current time, a slot and a number.
    type Way = fn(Expr, Expr, Expr) -> (Expr, Expr);

    fn binary(operator: Binary, left: Expr, right: Expr) -> Expr {
        Expr::Binary { operator, left: Box::new(left), right: Box::new(right) }
    }

    /// The value at a moment, and when it turns.
    fn looked_at(condition: &Expr, row: &[Value], now: i64) -> (Value, i64) {
        let (context, turns) = (GraphFree::rows(IdScheme::Uuid, &[]), Cell::new(Clock::NEVER));
        let value = clocked(condition, row, &At { context: &context, clock: Clock::watched(now, &turns) });
        (value.unwrap_or_default(), turns.get())
    }

    #[test]
    fn a_condition_turns_when_it_first_differs_and_only_then() {
        let now = || Expr::Call { function: &NOW, arguments: Vec::new() };
        let slot = || Expr::Slot(Slot(0));
        let number = |n: i64| Expr::Literal(Value::Integer(n));
        let ways: [Way; 4] = [
            |now, slot, number| (binary(Binary::Subtract, now, slot), number),
            |now, slot, number| (slot, binary(Binary::Subtract, now, number)),
            |now, slot, number| (binary(Binary::Divide, now, number), slot),
            |now, slot, number| {
                (binary(Binary::Multiply, now, number), binary(Binary::Add, slot, Expr::Literal(Value::Float(0.5))))
            },
        ];
        for operator in [Binary::Less, Binary::LessOrEqual, Binary::Greater, Binary::GreaterOrEqual] {
            for way in ways {
                for flipped in [false, true] {
                    let (left, right) = way(now(), slot(), number(7));
                    let condition = if flipped { binary(operator, right, left) } else { binary(operator, left, right) };
                    for at in [0, 3, 20, 1_000] {
                        let row = [Value::Integer(at)];
                        let values: Vec<Value> = (0..9_000).map(|now| looked_at(&condition, &row, now).0).collect();
                        for now in [0, 1, 5, 26, 27, 28, 999, 1_000, 1_007, 8_000] {
                            let expected = (now + 1..values.len()).find(|then| values[*then] != values[now]);
                            let (_, turn) = looked_at(&condition, &row, now as i64);
                            let turn = Some(turn).filter(|turn| *turn < values.len() as i64).map(|turn| turn as usize);
                            assert_eq!(turn, expected, "{condition:?} of {at} at {now}");
                        }
                    }
                }
            }
        }
    }

    /// At 1765000000000 the first of them would turn, and at the last moment of all be what it is now.
    #[test]
    fn what_the_time_is_joined_to_has_no_value() {
        let joined = || {
            let now = Expr::Call { function: &NOW, arguments: Vec::new() };
            Box::new(binary(Binary::Add, now, Expr::Slot(Slot(0))))
        };
        let slot = || Box::new(Expr::Slot(Slot(1)));
        let otherwise = || Box::new(Expr::Case { branches: Vec::new(), otherwise: slot() });
        let list = |value| Value::list(vec![value]);
        for (row, fails) in [
            ([Value::text("s"), Value::text("1765")], true),
            ([list(Value::Integer(5)), list(Value::Integer(7))], true),
            // What differs in kind has no answer, whenever it is asked.
            ([Value::text("s"), Value::Integer(7)], false),
            ([Value::Integer(5), Value::text("1765")], false),
            ([Value::Integer(5), Value::Integer(1_765_000_000_000)], false),
            ([Value::Null, Value::text("1765")], false),
        ] {
            for (left, right) in [(joined(), slot()), (slot(), joined()), (joined(), otherwise()), (otherwise(), joined())] {
                let condition = Expr::Binary { operator: Binary::Less, left, right };
                let (context, turns) = (GraphFree::rows(IdScheme::Uuid, &[]), Cell::new(Clock::NEVER));
                let clock = Clock::watched(1_700_000_000_000, &turns);
                let found = clocked(&condition, &row, &At { context: &context, clock });
                assert_eq!(found.is_err(), fails, "{condition:?} of {row:?}: {found:?}");
                let is_of_numbers = !fails && row.iter().all(|value| matches!(value, Value::Integer(_)));
                assert_eq!(turns.get() < Clock::NEVER, is_of_numbers, "{condition:?} of {row:?}");
            }
        }
    }

    #[test]
    fn what_has_no_time_never_turns() {
        let now = Expr::Call { function: &NOW, arguments: Vec::new() };
        let condition = binary(Binary::Less, now, Expr::Slot(Slot(0)));
        for value in [Value::Null, Value::text("tomorrow"), Value::Integer(i64::MIN), Value::Integer(i64::MAX)] {
            assert_eq!(looked_at(&condition, &[value], 1_700_000_000_000).1, Clock::NEVER);
        }
    }
}
