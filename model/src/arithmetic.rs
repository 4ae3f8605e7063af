//! `+ - * / % ^` and unary minus on values.
//!
//! Null with anything is null. Integers never wrap: what does not fit is a failure of kind Arithmetic. An integer with
//! a float is computed in floats. `+` also joins strings (a number joins as its text), lists and elements, and moves
//! points in time by durations.

use std::sync::Arc;

use crate::expression::{Failure, FailureKind};
use crate::temporal;
use crate::value::{Text, Value};

pub fn add(x: &Value, y: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match (x, y) {
        (Integer(a), Integer(b)) => Integer(a.checked_add(*b).ok_or_else(|| overflow(*a, *b))?),
        (Null, _) | (_, Null) => Null,
        (Text(a), Text(b)) => concatenate(a, b),
        (Text(a), Integer(_) | Float(_)) => concatenate(a, &y.to_text()),
        (Integer(_) | Float(_), Text(b)) => concatenate(&x.to_text(), b),
        (List(a), List(b)) => List(a.iter().chain(b.iter()).cloned().collect()),
        (List(a), b) => List(a.iter().chain([b]).cloned().collect()),
        (a, List(b)) => List([a].into_iter().chain(b.iter()).cloned().collect()),
        (Duration(a), Duration(b)) => Duration(Arc::new(a.plus(b).ok_or_else(|| out_of_range(x, y))?)),
        (point, Duration(d)) | (Duration(d), point) if is_point(point) => {
            temporal::plus(point, d).ok_or_else(|| out_of_range(x, y))?
        }
        // What can be moved in time fits; what it is moved by does not.
        (Duration(_), _) => return Err(mismatch("LocalDateTime, DateTime, Duration", y, "addition")),
        (point, _) if is_point(point) => return Err(mismatch("Duration", y, "addition")),
        _ => match (float(x), float(y)) {
            (Some(a), Some(b)) => Float(a + b),
            (Some(_), None) => return Err(mismatch("Number, Str, List(Anything)", y, "addition")),
            _ if matches!(x, Text(_)) => return Err(mismatch("Number, Str, List(Anything)", y, "addition")),
            _ => return Err(mismatch("Number, Str, List(Anything), LocalDateTime, DateTime, Duration", x, "addition")),
        },
    })
}

pub fn subtract(x: &Value, y: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match (x, y) {
        (Integer(a), Integer(b)) => Integer(a.checked_sub(*b).ok_or_else(|| overflow(*a, *b))?),
        (Null, _) | (_, Null) => Null,
        (Duration(a), Duration(b)) => Duration(Arc::new(b.negated().and_then(|b| a.plus(&b)).ok_or_else(|| out_of_range(x, y))?)),
        (point, Duration(d)) if is_point(point) => {
            d.negated().and_then(|d| temporal::plus(point, &d)).ok_or_else(|| out_of_range(x, y))?
        }
        (point, _) if is_point(point) || matches!(point, Duration(_)) => return Err(mismatch("Duration", y, "subtraction")),
        _ => match (float(x), float(y)) {
            (Some(a), Some(b)) => Float(a - b),
            (None, _) => return Err(mismatch("Number, LocalDateTime, DateTime, Duration", x, "subtraction")),
            _ => return Err(mismatch("Number", y, "subtraction")),
        },
    })
}

pub fn multiply(x: &Value, y: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match (x, y) {
        (Integer(a), Integer(b)) => Integer(a.checked_mul(*b).ok_or_else(|| overflow(*a, *b))?),
        (Null, _) | (_, Null) => Null,
        (Duration(d), number) | (number, Duration(d)) if float(number).is_some() => {
            let scaled = decimal(number).and_then(|number| d.times(number));
            Duration(Arc::new(scaled.ok_or_else(|| out_of_range(x, y))?))
        }
        _ => {
            let (a, b) = numbers(x, y, "multiplication")?;
            Float(a * b)
        }
    })
}

pub fn divide(x: &Value, y: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match (x, y) {
        (Integer(a), Integer(0)) => return Err(by_zero(*a)),
        (Integer(a), Integer(b)) => Integer(a.checked_div(*b).ok_or_else(|| overflow(*a, *b))?),
        (Null, _) | (_, Null) => Null,
        (Duration(_), Integer(0)) => return Err(Failure::new(FailureKind::Arithmetic, "A duration cannot be divided by zero")),
        (Duration(d), number) if float(number).is_some() => {
            let scaled = decimal(number).and_then(|number| d.divided(number));
            Duration(Arc::new(scaled.ok_or_else(|| out_of_range(x, y))?))
        }
        _ => {
            let (a, b) = numbers(x, y, "division")?;
            Float(a / b)
        }
    })
}

/// The remainder has the sign of the dividend.
pub fn modulo(x: &Value, y: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match (x, y) {
        (Integer(a), Integer(0)) => return Err(by_zero(*a)),
        // The one pair that overflows, i64::MIN % -1, has a remainder all the same.
        (Integer(a), Integer(b)) => Integer(a.wrapping_rem(*b)),
        (Null, _) | (_, Null) => Null,
        _ => {
            let (a, b) = numbers(x, y, "modulus")?;
            Float(a % b)
        }
    })
}

/// Always a float. As in Java, where C has 1.0: anything to the power of NaN is NaN, and so is 1 or -1 to that of an infinity.
pub fn power(x: &Value, y: &Value) -> Result<Value, Failure> {
    if x.is_null() || y.is_null() {
        return Ok(Value::Null);
    }
    let (a, b) = numbers(x, y, "exponentiation")?;
    let has_none = b.is_nan() || (b.is_infinite() && a.abs() == 1.0);
    Ok(Value::Float(if has_none { f64::NAN } else { a.powf(b) }))
}

pub fn negate(x: &Value) -> Result<Value, Failure> {
    use Value::*;
    Ok(match x {
        Null => Null,
        Integer(a) => Integer(a.checked_neg().ok_or_else(|| overflow(0, *a))?),
        Float(a) => Float(-a),
        Duration(d) => Duration(Arc::new(d.negated().ok_or_else(|| out_of_range(x, &Null))?)),
        _ => return Err(mismatch("Number, Duration", x, "unary minus")),
    })
}

/// `Expected type(s) A, B but got value V of type T in CONTEXT`: the form clients know.
pub fn mismatch(expected: &str, got: &Value, place: &str) -> Failure {
    let (value, kind) = (shortened(got), got.type_name());
    Failure::new(
        FailureKind::TypeMismatch,
        format!("Expected type(s) {expected} but got value {value} of type {kind} in {place}"),
    )
}

/// A value for a message; a long one is cut.
pub fn shortened(value: &Value) -> String {
    const CHARACTERS_MAX: usize = 300;
    let text = value.shown();
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn concatenate(x: &str, y: &str) -> Value {
    let mut text = Text::with_capacity(x.len() + y.len());
    text.push_str(x);
    text.push_str(y);
    Value::Text(text)
}

fn float(x: &Value) -> Option<f64> {
    match x {
        Value::Integer(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn numbers(x: &Value, y: &Value, place: &str) -> Result<(f64, f64), Failure> {
    let number = |value: &Value| float(value).ok_or_else(|| mismatch("Number", value, place));
    Ok((number(x)?, number(y)?))
}

/// A number as exact as it was written. None when it is too large for any duration.
fn decimal(x: &Value) -> Option<temporal::Decimal> {
    match x {
        Value::Integer(x) => Some(temporal::Decimal::of_integer(*x)),
        Value::Float(x) => temporal::Decimal::of_float(*x),
        _ => None,
    }
}

fn is_point(value: &Value) -> bool {
    matches!(value, Value::Date(_) | Value::LocalTime(_) | Value::Time(_) | Value::LocalDateTime(_) | Value::DateTime(_))
}

fn overflow(x: i64, y: i64) -> Failure {
    Failure::new(FailureKind::Arithmetic, format!("Arithmetic long overflow with operands {x}, {y}"))
}

fn by_zero(x: i64) -> Failure {
    Failure::new(FailureKind::Arithmetic, format!("Arithmetic / by zero with operands {x}, 0"))
}

fn out_of_range(x: &Value, y: &Value) -> Failure {
    Failure::new(FailureKind::Arithmetic, format!("The result is out of range, with operands {}, {}", x.shown(), y.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Date, Duration};

    fn check(result: Result<Value, Failure>, expected: Value) {
        assert_eq!(result, Ok(expected));
    }

    fn fails(result: Result<Value, Failure>, kind: FailureKind, message: &str) {
        assert_eq!(result, Err(Failure::new(kind, message)));
    }

    #[test]
    fn integers_do_not_wrap() {
        use FailureKind::Arithmetic;
        use Value::Integer;
        check(add(&Integer(2), &Integer(3)), Integer(5));
        check(divide(&Integer(-7), &Integer(2)), Integer(-3));
        check(modulo(&Integer(-7), &Integer(2)), Integer(-1));
        check(modulo(&Integer(i64::MIN), &Integer(-1)), Integer(0));
        let max = Integer(i64::MAX);
        fails(add(&max, &Integer(1)), Arithmetic, "Arithmetic long overflow with operands 9223372036854775807, 1");
        fails(divide(&Integer(1), &Integer(0)), Arithmetic, "Arithmetic / by zero with operands 1, 0");
        fails(modulo(&Integer(0), &Integer(0)), Arithmetic, "Arithmetic / by zero with operands 0, 0");
        assert!(divide(&Integer(i64::MIN), &Integer(-1)).is_err());
        fails(negate(&Integer(i64::MIN)), Arithmetic, "Arithmetic long overflow with operands 0, -9223372036854775808");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let day = Value::Duration(Duration { months: 0, days: 1, seconds: 0, nanos: 0 }.into());
        let date = Value::Date(Date { epoch_day: 0 });
        let one = Value::Integer(1);
        for (result, expected) in [
            (add(&day, &one), "LocalDateTime, DateTime, Duration but got value 1 of type Integer in addition"),
            (add(&date, &one), "Duration but got value 1 of type Integer in addition"),
            (subtract(&day, &one), "Duration but got value 1 of type Integer in subtraction"),
            (subtract(&date, &date), "Duration but got value date(\"1970-01-01\") of type Date in subtraction"),
            (subtract(&one, &day), "Number but got value duration(\"P1D\") of type Duration in subtraction"),
        ] {
            fails(result, FailureKind::TypeMismatch, &format!("Expected type(s) {expected}"));
        }
    }

    #[test]
    fn floats_follow_ieee_and_null_is_null() {
        use Value::*;
        check(divide(&Float(1.0), &Integer(0)), Float(f64::INFINITY));
        check(divide(&Float(0.0), &Float(0.0)), Float(f64::NAN));
        check(power(&Integer(2), &Integer(3)), Float(8.0));
        check(power(&Integer(1), &Float(f64::NAN)), Float(f64::NAN));
        check(power(&Float(f64::NAN), &Integer(0)), Float(1.0));
        for (x, y) in [(1, f64::INFINITY), (-1, f64::INFINITY), (1, f64::NEG_INFINITY), (-1, f64::NEG_INFINITY)] {
            check(power(&Integer(x), &Float(y)), Float(f64::NAN));
        }
        check(power(&Integer(2), &Float(f64::INFINITY)), Float(f64::INFINITY));
        check(add(&Null, &Value::map([])), Null);
        check(multiply(&Value::text("a"), &Null), Null);
    }

    #[test]
    fn plus_joins_strings_and_lists() {
        use Value::*;
        check(add(&Value::text("a"), &Float(1.0)), Value::text("a1.0"));
        check(add(&Integer(1), &Value::text("a")), Value::text("1a"));
        let one = Value::list(vec![Integer(1)]);
        check(add(&one, &Value::text("x")), Value::list(vec![Integer(1), Value::text("x")]));
        check(add(&Boolean(true), &one), Value::list(vec![Boolean(true), Integer(1)]));
        check(add(&one, &one), Value::list(vec![Integer(1), Integer(1)]));
        check(add(&one, &Null), Null);
        let message = "Expected type(s) Number, Str, List(Anything) but got value true of type Bool in addition";
        fails(add(&Integer(1), &Boolean(true)), FailureKind::TypeMismatch, message);
    }

    #[test]
    fn durations_move_points_in_time() {
        let day = Value::Duration(Arc::new(Duration { days: 1, ..Duration::default() }));
        let date = Value::Date(Date { epoch_day: 10 });
        check(add(&date, &day), Value::Date(Date { epoch_day: 11 }));
        check(add(&day, &date), Value::Date(Date { epoch_day: 11 }));
        check(subtract(&date, &day), Value::Date(Date { epoch_day: 9 }));
        check(multiply(&day, &Value::Integer(3)), Value::Duration(Arc::new(Duration { days: 3, ..Duration::default() })));
        check(divide(&day, &Value::Integer(2)), Value::Duration(Arc::new(Duration { seconds: 43_200, ..Duration::default() })));
    }
}
