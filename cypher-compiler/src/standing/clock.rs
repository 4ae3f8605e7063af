//! Conditions on the current time: those that time alone turns once at most can be maintained, and are marked.
//!
//! That is so where one side of `<`, `<=`, `>` or `>=` runs forward (or backward) with the clock, and the other does not look at
//! it: `timestamp() - n.seen > 60000`, `e.at > datetime() - duration('PT5M')`, `n.day < date()`. A name for what runs stands for
//! it where it is compared: `WITH n, timestamp() - n.seen AS age WHERE age > 60000` is the first of these.
//!
//! `+` does not only add: with text, or with a list, it makes one of both, and `'9s'` is behind `'10s'`. What can be seen to be
//! one of these here runs no way; of what turns out to be one later the condition has no value (`weir_model::clock`).

use std::collections::BTreeSet;

use weir_model::clock::{LAST, is_order};
use weir_model::expression::Binary;
use weir_model::plan::{Operator, Slot};
use weir_model::{Expr, GraphFree, IdScheme, Value};

use super::classify::{changes_by_itself, has_offset_of_now};
use crate::bind::Draft;
use crate::bind::types::{LIST, TEXT, type_of};
use crate::walk;

/// What to do where the current time stands elsewhere.
const HINT: &str = "the current time can be compared: with <, <=, > or >=, a number plus or minus what does not look at the \
                    clock, as in `timestamp() - n.seen > 60000`, or an instant plus or minus a duration that is written out, \
                    without months and years, as in `n.at < datetime() - duration('PT5M')` (and nothing that `+` joins to text \
                    or to a list)";

const MONTHS: &str = "months and years have no one length, so the current time is moved by weeks and less alone: move what it is \
                      compared with, as in `n.at + duration('P1M') < datetime()`";

const SPAN: &str = "what lies between two values need not grow with the time: compare the instants, as in \
                    `n.at < datetime() - duration('PT5M')`";

/// What to do about `has_offset_of_now`.
pub const OFFSET: &str = "how far the clocks of a zone are ahead depends on the day: name the offset, as in \
                          `time({hour: 12, timezone: '+01:00'})`, or the day, as in \
                          `time(datetime({year: 2024, month: 7, hour: 12, timezone: 'Europe/Paris'}))`";

const RETURNED: &str = "a result with the current time in it would be another one at each moment: return what the time is \
                        compared with, as in `WHERE timestamp() - n.seen > 60000 RETURN n.seen`";

const NAMED: &str = "a name stands for the current time where it is compared with <, <=, > or >=, once every row comes to such a \
                     comparison, and nothing is returned, grouped, aggregated, ordered or told apart by it: write the time into \
                     the comparison, as in `WHERE timestamp() - n.seen > 60000`";

/// Puts what runs where its name stands, for those names that nothing else is made of: what time alone changes can be maintained
/// in a comparison, and not as a value.
pub fn spell_out(draft: &mut Draft, ids: IdScheme) {
    let mut root = std::mem::replace(&mut draft.root, Operator::Unit);
    let columns: BTreeSet<Slot> = draft.columns.iter().map(|(_, slot)| *slot).collect();
    let mut tried = columns.clone();
    // The first is made of no other.
    while let Some((slot, item)) = named(draft, &mut root, &tried) {
        tried.insert(slot);
        if stands_alone(&mut root, slot, has_a_value(&item, ids), &columns) {
            put(&mut root, slot, &item);
        }
    }
    draft.root = root;
}

/// A name for what runs. Of a subquery there would be two, which fill the same slots.
fn named(draft: &Draft, root: &mut Operator, tried: &BTreeSet<Slot>) -> Option<(Slot, Expr)> {
    let is_named = |(slot, item): &&(Slot, Expr)| {
        let asks = || walk::any(item, &|part| matches!(part, Expr::Subquery(_)));
        !tried.contains(slot) && runs(draft, item).is_some() && !asks()
    };
    let mut found = None;
    walk::operators_mut(root, &mut |operator| {
        if let Operator::Project { items, .. } = operator
            && found.is_none()
        {
            found = items.iter().find(is_named).cloned();
        }
    });
    found
}

/// Whatever the time is. It runs one way, and so do its parts: what has a value first and last has one in between.
fn has_a_value(item: &Expr, ids: IdScheme) -> bool {
    let at = |millis| item.evaluate(&[], &GraphFree::constants(ids).at(millis)).is_ok();
    walk::slots(item).is_empty() && at(0) && at(LAST)
}

/// Whether the slot is filled once, and is in expressions alone. Where the item may have no value each of its rows must be asked
/// for it: such a row is left out, and would else stay where nobody asks, as in `n.x = 1 OR age > 60000`.
fn stands_alone(root: &mut Operator, slot: Slot, has_a_value: bool, columns: &BTreeSet<Slot>) -> bool {
    let (mut places, mut is_asked) = (0, has_a_value);
    walk::operators_mut(root, &mut |operator| {
        let is_place = match &*operator {
            Operator::Distinct { slots, .. } | Operator::Union { distinct: Some(slots), .. } => slots.contains(&slot),
            Operator::Recurse { again, .. } => again.contains(&slot),
            other => other.fills().contains(&slot),
        };
        places += usize::from(is_place);
        is_asked = is_asked || asks_each(operator, slot, columns);
    });
    places == 1 && is_asked
}

/// Whether each row with the slot comes here, as long as it has a value.
fn asks_each(operator: &Operator, slot: Slot, columns: &BTreeSet<Slot>) -> bool {
    let needs = |expr: &Expr| needs(expr, slot);
    let asks = match operator {
        Operator::Filter { condition: Expr::And(all), .. } => all.iter().any(needs),
        Operator::Filter { condition, .. } => needs(condition),
        // What else is made may be needed by nobody, and is not made then.
        Operator::Project { items, .. } => items.iter().any(|(into, item)| columns.contains(into) && needs(item)),
        Operator::Match { pattern, .. } => {
            pattern.nodes.iter().flat_map(|node| &node.conditions).chain(&pattern.conditions).any(needs)
        }
        _ => false,
    };
    let Some(mut below) = operator.input().filter(|_| asks) else { return false };
    loop {
        match below {
            Operator::Project { items, .. } if items.iter().any(|(into, _)| *into == slot) => return true,
            // Each row by itself: not LIMIT, where a row that is left out makes room for another.
            Operator::Filter { input, .. } | Operator::Project { input, .. } | Operator::Match { input, .. } => below = input,
            Operator::Unwind { input, .. } | Operator::Sort { input, limit: None, .. } => below = input,
            _ => return false,
        }
    }
}

/// Whether an expression has no value where the slot has none.
fn needs(expr: &Expr, slot: Slot) -> bool {
    match expr {
        Expr::Slot(of) => *of == slot,
        Expr::Binary { left, right, .. } => needs(left, slot) || needs(right, slot),
        Expr::Not(of) | Expr::Negate(of) | Expr::Property { of, .. } | Expr::IsNull { of, .. } => needs(of, slot),
        Expr::And(all) | Expr::Or(all) => all.first().is_some_and(|first| needs(first, slot)),
        _ => false,
    }
}

fn put(root: &mut Operator, slot: Slot, item: &Expr) {
    let mut put = |part: &mut Expr| {
        if matches!(part, Expr::Slot(of) if *of == slot) {
            *part = item.clone();
        }
    };
    walk::operators_mut(root, &mut |operator| {
        walk::expressions_mut(operator, &mut |expr| walk::rewrite(expr, &mut put));
        if let Operator::Project { input, items } = operator {
            items.retain(|(into, _)| *into != slot);
            if items.is_empty() {
                let below = std::mem::replace(&mut **input, Operator::Unit);
                *operator = below;
            }
        }
    });
}

pub fn mark(draft: &mut Draft) {
    let mut root = std::mem::replace(&mut draft.root, Operator::Unit);
    let mut marked = |expr: &mut Expr| {
        if let Expr::Binary { operator, left, right } = &*expr
            && is_order(*operator)
            && (runs(draft, left).is_some() && !looks_at_clock(right) || runs(draft, right).is_some() && !looks_at_clock(left))
        {
            let condition = std::mem::replace(expr, Expr::Literal(Value::Null));
            *expr = Expr::Clocked(Box::new(condition));
        }
    };
    walk::operators_mut(&mut root, &mut |operator| {
        walk::expressions_mut(operator, &mut |expr| walk::rewrite(expr, &mut marked));
    });
    draft.root = root;
}

/// What to do about the first expression that looks at the clock and is not marked.
pub fn hint(draft: &Draft) -> &'static str {
    let mut found = None;
    draft.root.each_below(&mut |operator| {
        if found.is_none() {
            found = hint_of(draft, operator);
        }
    });
    found.unwrap_or(HINT)
}

fn hint_of(draft: &Draft, operator: &Operator) -> Option<&'static str> {
    let mut expressions = Vec::new();
    operator.expressions(&mut expressions);
    let refused = expressions.into_iter().find(|expr| has_unmarked(expr, &changes_by_itself))?;
    if has_unmarked(refused, &has_offset_of_now) {
        return Some(OFFSET);
    }
    if has_unmarked(refused, &|part| is_moved_by_months(draft, part)) {
        return Some(MONTHS);
    }
    let is_span = |part: &Expr| matches!(part, Expr::Call { function, .. } if function.name.starts_with("duration."));
    if has_unmarked(refused, &|part| is_span(part) && looks_at_clock(part)) {
        return Some(SPAN);
    }
    let items = match operator {
        Operator::Project { items, .. } | Operator::Aggregate { keys: items, .. } => items.as_slice(),
        _ => &[],
    };
    let item = items.iter().find(|(_, item)| has_unmarked(item, &changes_by_itself));
    Some(match item {
        Some((slot, _)) if draft.columns.iter().any(|(_, column)| column == slot) => RETURNED,
        Some((_, item)) if runs(draft, item).is_some() => NAMED,
        None if matches!(operator, Operator::Aggregate { .. } | Operator::Sort { .. }) => NAMED,
        _ => HINT,
    })
}

/// Whether there is such a part outside what can be maintained.
fn has_unmarked(expr: &Expr, test: &dyn Fn(&Expr) -> bool) -> bool {
    let is_marked = matches!(expr, Expr::Clocked(_));
    !is_marked && (test(expr) || expr.children().into_iter().any(|child| has_unmarked(child, test)))
}

fn is_moved_by_months(draft: &Draft, expr: &Expr) -> bool {
    let Expr::Binary { operator: Binary::Add | Binary::Subtract, left, right } = expr else { return false };
    let by_months = |running: &Expr, by: &Expr| {
        matches!(by, Expr::Literal(Value::Duration(by)) if by.months != 0) && runs(draft, running) == Some(Runs::Instant)
    };
    by_months(left, right) || by_months(right, left)
}

/// Whether its value can differ for time alone.
pub fn is_clocked(expr: &Expr) -> bool {
    walk::any(expr, &|part| matches!(part, Expr::Clocked(_)))
}

fn looks_at_clock(expr: &Expr) -> bool {
    walk::any(expr, &|part| changes_by_itself(part) || matches!(part, Expr::Clocked(_)))
}

#[derive(Clone, Copy, PartialEq)]
enum Runs {
    /// A number.
    Number,
    /// A date or an instant.
    Instant,
}

/// What an expression is whose value runs one way with the clock, never back.
fn runs(draft: &Draft, expr: &Expr) -> Option<Runs> {
    match expr {
        Expr::Call { function, arguments } => match (function.name, arguments.as_slice()) {
            ("timestamp", []) => Some(Runs::Number),
            (name, []) => match name.strip_suffix(".transaction").or(name.strip_suffix(".statement")).unwrap_or(name) {
                "datetime" | "localdatetime" | "date" => Some(Runs::Instant),
                _ => None,
            },
            // Its day, or when its minute began, stands still for a while and never goes back.
            ("datetime" | "localdatetime" | "date", [of])
            | ("datetime.truncate" | "localdatetime.truncate" | "date.truncate", [Expr::Literal(Value::Text(_)), of]) => {
                runs(draft, of).filter(|runs| *runs == Runs::Instant)
            }
            ("datetime.truncate" | "localdatetime.truncate" | "date.truncate", [Expr::Literal(Value::Text(_))]) => {
                Some(Runs::Instant)
            }
            _ => None,
        },
        Expr::Property { of, key } => {
            let is_whole = matches!(draft.names.get(key.0 as usize)?.as_str(), "epochMillis" | "epochSeconds" | "year");
            (is_whole && runs(draft, of)? == Runs::Instant).then_some(Runs::Number)
        }
        Expr::Negate(of) => runs(draft, of).filter(|runs| *runs == Runs::Number),
        Expr::Binary { operator: Binary::Add, left, right } => {
            moved(draft, left, right, true).or_else(|| moved(draft, right, left, true))
        }
        Expr::Binary { operator: Binary::Subtract, left, right } => {
            moved(draft, left, right, true).or_else(|| moved(draft, right, left, false))
        }
        Expr::Binary { operator: operator @ (Binary::Multiply | Binary::Divide), left, right } => {
            let by_number = |running: &Expr, by: &Expr| {
                let is_number = matches!(by, Expr::Literal(Value::Integer(_) | Value::Float(_)));
                runs(draft, running).filter(|runs| is_number && *runs == Runs::Number)
            };
            by_number(left, right).or_else(|| by_number(right, left).filter(|_| *operator == Binary::Multiply))
        }
        _ => None,
    }
}

/// What runs, further by what does not. Months have no one length: a day later need not be later with a month taken off both.
fn moved(draft: &Draft, running: &Expr, by: &Expr, instants: bool) -> Option<Runs> {
    match runs(draft, running)? {
        Runs::Number => (!looks_at_clock(by) && !is_joined(draft, by)).then_some(Runs::Number),
        Runs::Instant => match by {
            Expr::Literal(Value::Duration(by)) if instants && by.months == 0 => Some(Runs::Instant),
            _ => None,
        },
    }
}

/// Whether it is text, or a list, as far as the query's text tells: `+` joins what is added to it.
fn is_joined(draft: &Draft, expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value) => matches!(value, Value::Text(_) | Value::List(_)),
        Expr::Call { function, .. } => {
            let gives = function.signature.rsplit(" :: ").next().unwrap_or_default();
            gives == "STRING" || gives.starts_with("LIST OF ")
        }
        Expr::Binary { operator: Binary::Add, left, right } => is_joined(draft, left) || is_joined(draft, right),
        Expr::Case { branches, otherwise } => {
            branches.iter().any(|(_, value)| is_joined(draft, value)) || is_joined(draft, otherwise)
        }
        other => matches!(type_of(draft, other), Some(TEXT | LIST)),
    }
}
