//! Conditions on the current time: those that time alone turns once at most can be maintained, and are marked.
//!
//! That is so where one side of `<`, `<=`, `>` or `>=` runs forward (or backward) with the clock, and the other does not look at
//! it: `timestamp() - n.seen > 60000`, `e.at > datetime() - duration('PT5M')`, `n.day < date()`.
//!
//! `+` does not only add: with text, or with a list, it makes one of both, and `'9s'` is behind `'10s'`. What can be seen to be
//! one of these here runs no way; of what turns out to be one later the condition has no value (`weir_model::clock`).

use weir_model::clock::is_order;
use weir_model::expression::Binary;
use weir_model::plan::Operator;
use weir_model::{Expr, Value};

use super::classify::changes_by_itself;
use crate::bind::Draft;
use crate::bind::types::{LIST, TEXT, type_of};
use crate::walk;

/// What to do where the current time stands elsewhere.
pub const HINT: &str = "the current time can be compared: with <, <=, > or >=, a number plus or minus what does not look at \
                        the clock, an instant plus or minus a duration that is written out, as in `timestamp() - n.seen > 60000` \
                        (and nothing that `+` joins to text or to a list)";

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
        Expr::Call { function, arguments } if arguments.is_empty() => match function.name {
            "timestamp" => Some(Runs::Number),
            name => match name.strip_suffix(".transaction").or(name.strip_suffix(".statement")).unwrap_or(name) {
                "datetime" | "localdatetime" | "date" => Some(Runs::Instant),
                _ => None,
            },
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
