//! Functions of numbers.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::id::{IdScheme, NodeId};
use weir_model::random::{STEP, mix};
use weir_model::value::Value;

use super::{float, impure, strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("abs", 1, 1, "abs(x :: NUMBER) :: NUMBER", abs).about("A number without its sign.", "RETURN [abs(-3), abs(-1.5)]"),
    strict("sign", 1, 1, "sign(x :: NUMBER) :: INTEGER", sign)
        .about("-1, 0 or 1, as the number is below, at or above zero.", "RETURN [sign(-0.5), sign(0), sign(7)]"),
    strict("ceil", 1, 1, "ceil(x :: NUMBER) :: NUMBER", |_, a| whole("ceil", a, f64::ceil))
        .about("The smallest whole number that is not below.", "RETURN [ceil(1.2), ceil(3)]"),
    strict("floor", 1, 1, "floor(x :: NUMBER) :: NUMBER", |_, a| whole("floor", a, f64::floor))
        .about("The greatest whole number that is not above.", "RETURN [floor(1.8), floor(3)]"),
    strict("round", 1, 3, ROUND, round).about(
        "The nearest number with so many decimal places; ties go away from zero unless a mode says otherwise.",
        "RETURN [round(2.5), round(1.249, 1), round(2.5, 0, 'HALF_EVEN')]",
    ),
    strict("sqrt", 1, 1, "sqrt(x :: NUMBER) :: FLOAT", |_, a| of_one("sqrt", a, f64::sqrt))
        .about("The square root.", "RETURN sqrt(256)"),
    strict("exp", 1, 1, "exp(x :: NUMBER) :: FLOAT", |_, a| of_one("exp", a, f64::exp))
        .about("e to the power of x.", "RETURN exp(0)"),
    strict("log", 1, 1, "log(x :: NUMBER) :: FLOAT", |_, a| of_one("log", a, f64::ln))
        .about("The natural logarithm.", "RETURN log(1)"),
    strict("log10", 1, 1, "log10(x :: NUMBER) :: FLOAT", |_, a| of_one("log10", a, f64::log10))
        .about("The logarithm to the base 10.", "RETURN log10(1000)"),
    strict("sin", 1, 1, "sin(x :: NUMBER) :: FLOAT", |_, a| of_one("sin", a, f64::sin))
        .about("The sine of an angle in radians.", "RETURN sin(0)"),
    strict("cos", 1, 1, "cos(x :: NUMBER) :: FLOAT", |_, a| of_one("cos", a, f64::cos))
        .about("The cosine of an angle in radians.", "RETURN cos(0)"),
    strict("tan", 1, 1, "tan(x :: NUMBER) :: FLOAT", |_, a| of_one("tan", a, f64::tan))
        .about("The tangent of an angle in radians.", "RETURN tan(0)"),
    strict("cot", 1, 1, "cot(x :: NUMBER) :: FLOAT", |_, a| of_one("cot", a, |x| 1.0 / x.tan()))
        .about("The cotangent of an angle in radians.", "RETURN round(cot(pi() / 4), 3)"),
    strict("asin", 1, 1, "asin(x :: NUMBER) :: FLOAT", |_, a| of_one("asin", a, f64::asin))
        .about("The angle in radians with that sine.", "RETURN asin(0)"),
    strict("acos", 1, 1, "acos(x :: NUMBER) :: FLOAT", |_, a| of_one("acos", a, f64::acos))
        .about("The angle in radians with that cosine.", "RETURN acos(1)"),
    strict("atan", 1, 1, "atan(x :: NUMBER) :: FLOAT", |_, a| of_one("atan", a, f64::atan))
        .about("The angle in radians with that tangent.", "RETURN atan(0)"),
    strict("atan2", 2, 2, "atan2(y :: NUMBER, x :: NUMBER) :: FLOAT", atan2)
        .about("The angle in radians between the positive x axis and the point (x, y).", "RETURN atan2(0, 1)"),
    strict("sinh", 1, 1, "sinh(x :: NUMBER) :: FLOAT", |_, a| of_one("sinh", a, f64::sinh))
        .about("The hyperbolic sine.", "RETURN sinh(0)"),
    strict("cosh", 1, 1, "cosh(x :: NUMBER) :: FLOAT", |_, a| of_one("cosh", a, f64::cosh))
        .about("The hyperbolic cosine.", "RETURN cosh(0)"),
    strict("tanh", 1, 1, "tanh(x :: NUMBER) :: FLOAT", |_, a| of_one("tanh", a, f64::tanh))
        .about("The hyperbolic tangent.", "RETURN tanh(0)"),
    strict("isNaN", 1, 1, "isNaN(x :: NUMBER) :: BOOLEAN", is_nan)
        .about("Whether a number is the float that is none.", "RETURN [isNaN(0.0 / 0.0), isNaN(1)]"),
    strict("degrees", 1, 1, "degrees(x :: NUMBER) :: FLOAT", |_, a| of_one("degrees", a, f64::to_degrees))
        .about("Radians as degrees.", "RETURN degrees(pi())"),
    strict("radians", 1, 1, "radians(x :: NUMBER) :: FLOAT", |_, a| of_one("radians", a, f64::to_radians))
        .about("Degrees as radians.", "RETURN radians(180) = pi()"),
    strict("haversin", 1, 1, "haversin(x :: NUMBER) :: FLOAT", |_, a| of_one("haversin", a, |x| (x / 2.0).sin().powi(2)))
        .about("Half the versine of an angle in radians.", "RETURN haversin(0)"),
    strict("e", 0, 0, "e() :: FLOAT", |_, _| Ok(Value::Float(std::f64::consts::E)))
        .about("The base of the natural logarithm.", "RETURN e()"),
    strict("pi", 0, 0, "pi() :: FLOAT", |_, _| Ok(Value::Float(std::f64::consts::PI)))
        .about("The ratio of a circle's circumference to its diameter.", "RETURN pi()"),
    impure("rand", 0, 0, "rand() :: FLOAT", |_, _| Ok(Value::Float(random())))
        .about("A number from zero up to but without one, another at each call.", "RETURN rand() < 1"),
    impure("randomUUID", 0, 0, "randomUUID() :: STRING", |_, _| Ok(Value::text(&random_uuid())))
        .about("A UUID of version 4 as text, another at each call.", "RETURN size(randomUUID())"),
];

const ROUND: &str = "round(x :: NUMBER, precision :: INTEGER, mode :: STRING) :: FLOAT";

/// Outside its domain a function is NaN.
fn of_one(name: &str, arguments: &[Value], f: fn(f64) -> f64) -> Result<Value, Failure> {
    match float(&arguments[0]) {
        Some(x) => Ok(Value::Float(f(x))),
        None => Err(wrong_signature(&format!("{name}(x :: NUMBER) :: FLOAT"), arguments)),
    }
}

/// An integer stays what it is.
fn whole(name: &str, arguments: &[Value], f: fn(f64) -> f64) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(n) => Ok(Value::Integer(*n)),
        Value::Float(x) => Ok(Value::Float(f(*x))),
        _ => Err(wrong_signature(&format!("{name}(x :: NUMBER) :: NUMBER"), arguments)),
    }
}

fn is_nan(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match float(&arguments[0]) {
        Some(x) => Ok(Value::Boolean(x.is_nan())),
        None => Err(wrong_signature("isNaN(x :: NUMBER) :: BOOLEAN", arguments)),
    }
}

/// The smallest integer has no opposite and stays itself.
fn abs(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(n) => Ok(Value::Integer(n.wrapping_abs())),
        Value::Float(x) => Ok(Value::Float(x.abs())),
        _ => Err(wrong_signature("abs(x :: NUMBER) :: NUMBER", arguments)),
    }
}

fn sign(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(n) => Ok(Value::Integer(n.signum())),
        Value::Float(x) => Ok(Value::Integer(i64::from(*x > 0.0) - i64::from(*x < 0.0))),
        _ => Err(wrong_signature("sign(x :: NUMBER) :: INTEGER", arguments)),
    }
}

fn atan2(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match (float(&arguments[0]), float(&arguments[1])) {
        (Some(y), Some(x)) => Ok(Value::Float(y.atan2(x))),
        _ => Err(wrong_signature("atan2(y :: NUMBER, x :: NUMBER) :: FLOAT", arguments)),
    }
}

const MODES: &[&str] = &["UP", "DOWN", "CEILING", "FLOOR", "HALF_UP", "HALF_DOWN", "HALF_EVEN", "UNNECESSARY"];

/// Rounds the shortest decimal that is the number, not its binary value: 1.005 to two places is 1.01.
fn round(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (x, precision, mode) = match arguments {
        [x] => (float(x), 0, "HALF_UP".to_owned()),
        [x, Value::Integer(precision)] => (float(x), *precision, "HALF_UP".to_owned()),
        [x, Value::Integer(precision), Value::Text(mode)] => (float(x), *precision, mode.to_uppercase().into()),
        _ => (None, 0, String::new()),
    };
    let Some(x) = x else { return Err(wrong_signature(ROUND, arguments)) };
    if x.is_nan() || x.is_infinite() {
        return Err(Failure::new(FailureKind::Arithmetic, format!("round: {} cannot be rounded", arguments[0].shown())));
    }
    rounded(x, precision, &mode).map(Value::Float)
}

fn rounded(x: f64, precision: i64, mode: &str) -> Result<f64, Failure> {
    // Looked at first: what is no mode is none of a number that needs no rounding either.
    if !MODES.contains(&mode) {
        let message = format!(
            "round: `{mode}` is no rounding mode; use UP, DOWN, CEILING, FLOOR, HALF_UP, HALF_DOWN, HALF_EVEN or UNNECESSARY"
        );
        return Err(Failure::new(FailureKind::ConstraintViolation, message));
    }
    let scientific = format!("{:e}", x.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    let exponent: i64 = exponent.parse().unwrap_or(0);
    // The digits before the place to round to; it may lie before the first or behind the last.
    let kept = exponent.saturating_add(1).saturating_add(precision);
    if x == 0.0 {
        return Ok(0.0);
    }
    if kept >= digits.len() as i64 {
        return Ok(x);
    }
    let kept_count = kept.max(0) as usize;
    let (head, rest) = digits.split_at(kept_count);
    let inexact = rest.iter().any(|digit| *digit != 0);
    // The first dropped digit, unless the place lies so far left that it is a zero not written.
    let first = if kept >= 0 { rest.first().copied().unwrap_or(0) } else { 0 };
    let half =
        if kept < 0 { std::cmp::Ordering::Less } else { first.cmp(&5).then((rest.iter().skip(1).any(|d| *d != 0)).cmp(&false)) };
    let odd = head.last().is_some_and(|digit| digit % 2 == 1);
    let up = match mode {
        "UP" => inexact,
        "DOWN" => false,
        "CEILING" => inexact && x > 0.0,
        "FLOOR" => inexact && x < 0.0,
        "HALF_UP" => half.is_ge(),
        "HALF_DOWN" => half.is_gt(),
        "HALF_EVEN" => half.is_gt() || (half.is_eq() && odd),
        // UNNECESSARY, which is left.
        _ if inexact => return Err(Failure::new(FailureKind::Arithmetic, "Rounding necessary")),
        _ => false,
    };
    let mut number: u128 = head.iter().fold(0, |n, digit| n * 10 + u128::from(*digit));
    number += u128::from(up);
    let size = format!("{number}e{}", -precision.clamp(-400, 400)).parse::<f64>().unwrap_or(0.0);
    // A decimal has one zero, without a sign.
    Ok(if size == 0.0 { 0.0 } else { size.copysign(x) })
}

/// In [0, 1). Good enough for sampling, not for secrets.
fn random() -> f64 {
    (random_bits() >> 11) as f64 / (1u64 << 53) as f64
}

fn random_uuid() -> String {
    let version = random_bits() & !0xf000 | 0x4000;
    let variant = random_bits() >> 2 | 1 << 63;
    IdScheme::Uuid.text(NodeId::new(version, variant))
}

fn random_bits() -> u64 {
    thread_local!(static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id())));
    STATE.with(|state| {
        state.set(state.get().wrapping_add(STEP));
        mix(state.get())
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn check(name: &str, arguments: &[Value], expected: Value) {
        assert_eq!(call(name, arguments), Ok(expected), "{name}{arguments:?}");
    }

    #[test]
    fn integers_stay_integers_where_they_can() {
        use Value::{Float, Integer};
        check("abs", &[Integer(-3)], Integer(3));
        check("abs", &[Integer(i64::MIN)], Integer(i64::MIN));
        check("ceil", &[Integer(2)], Integer(2));
        check("ceil", &[Float(1.2)], Float(2.0));
        check("floor", &[Float(-1.2)], Float(-2.0));
        check("sign", &[Float(f64::NAN)], Integer(0));
        check("sign", &[Float(-0.5)], Integer(-1));
        check("sqrt", &[Integer(-1)], Float(f64::NAN));
        check("log10", &[Integer(100)], Float(2.0));
        check("atan2", &[Integer(0), Integer(1)], Float(0.0));
        check("e", &[], Float(std::f64::consts::E));
    }

    #[test]
    fn rounding_goes_by_the_decimal() {
        let check = |x: f64, precision: i64, mode: &str, expected: f64| {
            let arguments = [Value::Float(x), Value::Integer(precision), Value::text(mode)];
            assert_eq!(call("round", &arguments), Ok(Value::Float(expected)), "{x} {precision} {mode}");
        };
        check(2.5, 0, "HALF_UP", 3.0);
        check(-2.5, 0, "half_up", -3.0);
        check(2.5, 0, "HALF_DOWN", 2.0);
        check(2.5, 0, "HALF_EVEN", 2.0);
        check(3.5, 0, "HALF_EVEN", 4.0);
        check(2.51, 0, "HALF_EVEN", 3.0);
        check(1.005, 2, "HALF_UP", 1.01);
        check(1234.0, -2, "HALF_UP", 1200.0);
        check(51.0, -2, "HALF_UP", 100.0);
        check(5.0, -2, "HALF_UP", 0.0);
        check(5.0, -2, "UP", 100.0);
        check(0.04, 1, "UP", 0.1);
        check(0.5, 0, "HALF_UP", 1.0);
        check(0.05, 0, "HALF_UP", 0.0);
        check(-1.1, 0, "CEILING", -1.0);
        check(-1.1, 0, "FLOOR", -2.0);
        check(9.99, 1, "HALF_UP", 10.0);
        check(1e300, 400, "HALF_UP", 1e300);
        assert!(call("round", &[Value::Float(1.5), Value::Integer(0), Value::text("UNNECESSARY")]).is_err());
        for x in [1.5, 2.0, 0.0] {
            let failure = call("round", &[Value::Float(x), Value::Integer(0), Value::text("SIDEWAYS")]).expect_err("no mode");
            assert_eq!(failure.kind, FailureKind::ConstraintViolation, "{x}");
        }
        assert!(call("round", &[Value::Float(f64::NAN)]).is_err());
        for (x, precision) in [(-0.0, 0), (-0.0, 3), (-0.4, 0), (-0.04, 1), (-4.0, -1), (-1e-300, 5)] {
            let rounded = call("round", &[Value::Float(x), Value::Integer(precision)]);
            assert!(matches!(rounded, Ok(Value::Float(zero)) if zero.to_bits() == 0), "{x} {precision}: {rounded:?}");
        }
        assert!(matches!(call("ceil", &[Value::Float(-0.5)]), Ok(Value::Float(zero)) if zero.to_bits() == (-0.0f64).to_bits()));
        assert_eq!(call("round", &[Value::Integer(7)]), Ok(Value::Float(7.0)));
    }

    #[test]
    fn random_ids_are_of_version_4() {
        let ids: Vec<String> = (0..100).map(|_| random_uuid()).collect();
        for id in &ids {
            let bytes = id.as_bytes();
            assert!(id.len() == 36 && bytes[14] == b'4' && b"89ab".contains(&bytes[19]), "{id}");
            assert_eq!(ids.iter().filter(|other| *other == id).count(), 1);
        }
    }

    #[test]
    fn random_numbers_fill_the_unit_interval() {
        let numbers: Vec<f64> = (0..1000).map(|_| random()).collect();
        assert!(numbers.iter().all(|x| (0.0..1.0).contains(x)));
        assert!(numbers.iter().any(|x| *x < 0.1) && numbers.iter().any(|x| *x > 0.9));
    }
}
