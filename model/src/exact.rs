//! Exact: sums of numbers that are rounded once, at the end. They do not depend on the order in which numbers come, and what was
//! added can be taken away again as if it had never been.
//!
//! A number is a row of digits of 32 bits from the least that counts to the greatest. Numbers that are summed up are mostly of
//! similar sizes, so such a row is short, however far apart the numbers are that floats can be.

use crate::expression::{Failure, FailureKind};
use crate::value::Value;

/// A whole multiple of some power of two, without any rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// The place of the first digit, which counts 2^(32 · low).
    low: i32,
    /// Each at least -2^31 and less than 2^31, so that a number and its negative are alike, and carrying ends soon. The first and
    /// the last are not 0.
    digits: Vec<i32>,
}

const DIGIT_BITS: i32 = 32;

/// The least distance of two floats is 2 to this.
const FLOAT_LEAST: i64 = -1074;

/// Binary digits of a float.
const FLOAT_BITS: i64 = 53;

impl Exact {
    /// Of a float that is finite.
    fn of(x: f64) -> Exact {
        let mut exact = Exact::default();
        let (mantissa, exponent) = parts(x);
        exact.add_shifted(i128::from(mantissa), exponent);
        exact
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Adds a finite float `times` times.
    fn add_float(&mut self, x: f64, times: i64) {
        let (mantissa, exponent) = parts(x);
        self.add_shifted(i128::from(mantissa) * i128::from(times), exponent);
    }

    fn add_integer(&mut self, n: i128) {
        self.add_shifted(n, 0);
    }

    /// Adds another number `times` times.
    pub fn add(&mut self, other: &Exact, times: i64) {
        for (place, digit) in (other.low..).zip(&other.digits) {
            self.add_at(place, i128::from(*digit) * i128::from(times));
        }
        self.trim();
    }

    pub fn times(&self, other: &Exact) -> Exact {
        let mut product = Exact::default();
        for (place, digit) in (self.low + other.low..).zip(&self.digits) {
            for (place, other) in (place..).zip(&other.digits) {
                product.add_at(place, i128::from(*digit) * i128::from(*other));
            }
        }
        product.trim();
        product
    }

    /// Adds n · 2^exponent.
    fn add_shifted(&mut self, n: i128, exponent: i32) {
        let (place, shift) = (exponent.div_euclid(DIGIT_BITS), exponent.rem_euclid(DIGIT_BITS));
        // In halves, for both to fit once they are shifted.
        self.add_at(place, i128::from(n as u64) << shift);
        self.add_at(place + 2, (n >> 64) << shift);
        self.trim();
    }

    /// Adds `n`, no more than 2^96, at a digit; what does not fit into it goes to those after it.
    fn add_at(&mut self, place: i32, n: i128) {
        if n == 0 {
            return;
        }
        if self.digits.is_empty() {
            self.low = place;
        }
        if place < self.low {
            self.digits.splice(0..0, std::iter::repeat_n(0, (self.low - place) as usize));
            self.low = place;
        }
        let mut at = (place - self.low) as usize;
        let mut carried = n;
        while carried != 0 {
            if at >= self.digits.len() {
                self.digits.resize(at + 1, 0);
            }
            let sum = i128::from(self.digits[at]) + carried;
            // The lowest 32 bits, as a number with a sign.
            let digit = sum as i32;
            carried = (sum - i128::from(digit)) >> DIGIT_BITS;
            self.digits[at] = digit;
            at += 1;
        }
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.low = if self.digits.is_empty() { 0 } else { self.low + zeros as i32 };
    }

    /// The nearest float, of two that are equally near the even one.
    pub fn to_float(&self) -> f64 {
        let Some(last) = self.digits.last() else { return 0.0 };
        let negative = *last < 0;
        let digits = magnitude(&self.digits, if negative { -1 } else { 1 });
        let base = i64::from(self.low) * i64::from(DIGIT_BITS);
        let length = digits.last().map_or(0, |last| digits.len() as i64 * 32 - i64::from(last.leading_zeros()));
        // What the last bit of the float counts, and where in the digits it stands.
        let exponent = (base + length - FLOAT_BITS).max(FLOAT_LEAST);
        let place = exponent - base;
        let mut bits = if place <= 0 { window(&digits, 0) << -place } else { window(&digits, place) };
        if place > 0 {
            let half = window(&digits, place - 1) & 1 == 1;
            let more = (0..(place - 1) / 32).any(|at| digits.get(at as usize).is_some_and(|digit| *digit != 0))
                || window(&digits, (place - 1) / 32 * 32) & ((1u64 << ((place - 1) % 32)) - 1) != 0;
            bits += u64::from(half && (more || bits & 1 == 1));
        }
        let unsigned = assemble(bits, exponent);
        if negative { -unsigned } else { unsigned }
    }

    /// The place of the greatest digit.
    fn top(&self) -> i32 {
        self.low + self.digits.len() as i32 - 1
    }

    /// A number that is too large for a float, though it need not be once it is divided.
    fn divided(mut self, divisor: f64) -> f64 {
        // Few enough digits that it still is an ordinary float, and enough for a sum of 2^63 of them.
        const MOVED: i32 = 4;
        self.low -= MOVED;
        self.to_float() / divisor * 2f64.powi(MOVED * DIGIT_BITS)
    }

    /// The root of the number divided by another, as far as floats reach.
    fn divided_root(&self, divisor: f64) -> f64 {
        // Moved to where floats are precise, and back.
        let top = self.top();
        let moved = Exact { low: self.low - top, digits: self.digits.clone() };
        let quarter = 2f64.powi(top * DIGIT_BITS / 4);
        (moved.to_float() / divisor).sqrt() * quarter * quarter
    }
}

/// A finite float as a whole number times a power of two.
fn parts(x: f64) -> (i64, i32) {
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, (bits & ((1 << 52) - 1)) as i64);
    let (mantissa, exponent) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
    (if x.is_sign_negative() { -mantissa } else { mantissa }, exponent)
}

/// The float bits · 2^exponent, where there are no more bits than a float has, or one more if that is all there is.
fn assemble(bits: u64, exponent: i64) -> f64 {
    let (bits, exponent) = if bits == 1 << FLOAT_BITS { (bits >> 1, exponent + 1) } else { (bits, exponent) };
    if bits < 1 << 52 {
        // None but the least have fewer.
        return f64::from_bits(bits);
    }
    match exponent - FLOAT_LEAST + 1 {
        field @ ..0x7ff => f64::from_bits((field as u64) << 52 | (bits & ((1 << 52) - 1))),
        _ => f64::INFINITY,
    }
}

/// Digits without signs of a number that is not negative once it is multiplied by `sign`; the last is not 0.
fn magnitude(digits: &[i32], sign: i64) -> Vec<u32> {
    let mut borrowed = 0;
    let mut plain: Vec<u32> = Vec::with_capacity(digits.len());
    for digit in digits {
        let digit = sign * i64::from(*digit) + borrowed;
        plain.push(digit as u32);
        borrowed = if digit < 0 { -1 } else { 0 };
    }
    while plain.last() == Some(&0) {
        plain.pop();
    }
    plain
}

/// As many bits from a place on as fit.
fn window(digits: &[u32], place: i64) -> u64 {
    let (first, shift) = ((place / 32) as usize, place % 32);
    let three = (0..3).map(|at| u128::from(digits.get(first + at).copied().unwrap_or(0)) << (32 * at));
    (three.sum::<u128>() >> shift) as u64
}

/// Integers and floats, summed up.
#[derive(Clone, Debug, Default)]
pub struct Total {
    integers: i128,
    integer_count: i64,
    floats: Exact,
    float_count: i64,
    /// Of those floats, the ones that have no place among numbers.
    no_numbers: i64,
    infinite: i64,
    minus_infinite: i64,
}

impl Total {
    /// Adds a number `times` times, or takes it away if `times` is negative. False, and nothing happens, if the value is no
    /// number.
    pub fn add(&mut self, value: &Value, times: i64) -> bool {
        match value {
            Value::Integer(n) => {
                self.integers += i128::from(*n) * i128::from(times);
                self.integer_count += times;
            }
            Value::Float(x) => {
                self.float_count += times;
                match *x {
                    x if x.is_nan() => self.no_numbers += times,
                    f64::INFINITY => self.infinite += times,
                    f64::NEG_INFINITY => self.minus_infinite += times,
                    x => self.floats.add_float(x, times),
                }
            }
            _ => return false,
        }
        true
    }

    pub fn count(&self) -> i64 {
        self.integer_count + self.float_count
    }

    /// A float if there is any among them. A failure where there is none and no integer holds it.
    pub fn sum(&self) -> Result<Value, Failure> {
        if self.float_count > 0 {
            return Ok(Value::Float(self.float()));
        }
        let sum = i64::try_from(self.integers);
        sum.map(Value::Integer).map_err(|_| Failure::new(FailureKind::Arithmetic, "The sum is no 64-bit integer"))
    }

    /// Null of nothing.
    pub fn mean(&self) -> Value {
        let count = self.count();
        if count == 0 {
            return Value::Null;
        }
        let sum = self.float();
        if sum.is_infinite() && self.is_finite() {
            return Value::Float(self.finite().divided(count as f64));
        }
        Value::Float(sum / count as f64)
    }

    fn float(&self) -> f64 {
        match (self.no_numbers > 0, self.infinite > 0, self.minus_infinite > 0) {
            (true, _, _) | (_, true, true) => f64::NAN,
            (_, true, _) => f64::INFINITY,
            (_, _, true) => f64::NEG_INFINITY,
            _ => self.finite().to_float(),
        }
    }

    fn finite(&self) -> Exact {
        let mut sum = self.floats.clone();
        sum.add_integer(self.integers);
        sum
    }

    fn is_finite(&self) -> bool {
        self.no_numbers == 0 && self.infinite == 0 && self.minus_infinite == 0
    }
}

/// How far numbers lie apart.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    total: Total,
    squares: Exact,
}

impl Spread {
    /// As `Total::add`.
    pub fn add(&mut self, value: &Value, times: i64) -> bool {
        let number = match value {
            Value::Integer(n) => {
                let mut exact = Exact::default();
                exact.add_integer(i128::from(*n));
                exact
            }
            Value::Float(x) if x.is_finite() => Exact::of(*x),
            _ => Exact::default(),
        };
        self.squares.add(&number.times(&number), times);
        self.total.add(value, times)
    }

    /// The standard deviation, of the population or of a sample.
    pub fn deviation(&self, population: bool) -> f64 {
        let count = self.total.count();
        let divisor = if population { count } else { count - 1 };
        if divisor <= 0 {
            return 0.0;
        }
        if !self.total.is_finite() {
            return f64::NAN;
        }
        // n · Σx² − (Σx)², which is n times the sum of the squared distances from the mean.
        let sum = self.total.finite();
        let mut distances = Exact::default();
        distances.add(&self.squares, count);
        distances.add(&sum.times(&sum), -1);
        if distances.is_zero() { 0.0 } else { distances.divided_root(count as f64 * divisor as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Of any size, or of similar ones, the least and the greatest among them.
        fn float(&mut self) -> f64 {
            let bits = self.next();
            match self.next() % 5 {
                0 => f64::from_bits(bits & !(0x7ff << 52) | (bits >> 52 & 0x7ff).min(0x7fe) << 52),
                1 => f64::from_bits(bits & !(0x7fe << 52)),
                2 => f64::from_bits(bits & !(0x7ff << 52) | 0x7fe << 52),
                _ => (bits as i64 >> 20) as f64 / 1024.0 * [1.0, 1e-7, 0.1, 3e9][bits as usize % 4],
            }
        }
    }

    fn sum(floats: &[f64]) -> f64 {
        let mut exact = Exact::default();
        floats.iter().for_each(|x| exact.add_float(*x, 1));
        exact.to_float()
    }

    #[test]
    fn every_float_is_itself_and_two_are_added_as_the_machine_does() {
        let mut random = Random(88172645463325252);
        for _ in 0..300_000 {
            let (x, y) = (random.float(), random.float());
            assert_eq!(sum(&[x]), x);
            // Of two the machine's sum is the exact one, rounded.
            assert_eq!(sum(&[x, y]), x + y, "{x:e} + {y:e}");
            let product = Exact::of(x).times(&Exact::of(y));
            assert_eq!(product.to_float(), x * y, "{x:e} * {y:e}");
        }
        for x in [0.0, -0.0, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 5e-324, -5e-324, f64::EPSILON, 1.0, -1.0] {
            assert_eq!(sum(&[x]), x);
            assert_eq!(sum(&[x, x]), x + x);
        }
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX, "no step of it is too large");
        assert_eq!(sum(&[1e308, 1e308]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, 2f64.powi(969)]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, 2f64.powi(970)]), f64::INFINITY, "half of the last place, and odd");
        assert_eq!(sum(&[1.0, 2f64.powi(-53), 5e-324]), 1.0 + f64::EPSILON, "a little more than half");
        assert_eq!(sum(&[1.0, 2f64.powi(-53)]), 1.0);
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
    }

    #[test]
    fn what_is_taken_away_leaves_nothing_and_order_does_not_matter() {
        let mut random = Random(4101842887655102017);
        for round in 0..300 {
            let floats: Vec<f64> = (0..50).map(|_| random.float()).collect();
            let mut exact = Exact::default();
            floats.iter().for_each(|x| exact.add_float(*x, 3));
            let before = exact.clone();
            let (go, stay) = floats.split_at(round % 50);
            go.iter().rev().for_each(|x| exact.add_float(*x, -3));
            let mut rest = Exact::default();
            stay.iter().rev().for_each(|x| (0..3).for_each(|_| rest.add_float(*x, 1)));
            assert_eq!(exact, rest);
            go.iter().for_each(|x| exact.add_float(*x, 3));
            assert_eq!(exact, before);
            floats.iter().for_each(|x| exact.add_float(*x, -3));
            assert_eq!(exact, Exact::default());
        }
        let mut many = Exact::default();
        many.add_float(0.1, i64::MAX);
        many.add_float(0.1, -i64::MAX + 10);
        assert_eq!(many.to_float(), 1.0);
    }

    #[test]
    fn totals_are_integers_until_there_is_a_float() {
        let mut total = Total::default();
        assert_eq!((total.sum(), total.mean()), (Ok(Value::Integer(0)), Value::Null));
        assert!(total.add(&Value::Integer(i64::MAX), 2) && !total.add(&Value::text("1"), 1));
        assert!(total.sum().is_err());
        assert_eq!(total.mean(), Value::Float(i64::MAX as f64));
        assert!(total.add(&Value::Integer(i64::MAX), -1));
        assert_eq!(total.sum(), Ok(Value::Integer(i64::MAX)), "the way there does not matter");
        total.add(&Value::Float(0.5), 1);
        assert_eq!(total.sum(), Ok(Value::Float(i64::MAX as f64 + 0.5)));
        for (odd, sum) in [(f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NEG_INFINITY), (f64::NAN, f64::NAN)] {
            total.add(&Value::Float(odd), 1);
            assert_eq!(total.float().total_cmp(&sum), std::cmp::Ordering::Equal);
            total.add(&Value::Float(odd), -1);
        }
        total.add(&Value::Float(f64::INFINITY), 1);
        total.add(&Value::Float(f64::NEG_INFINITY), 1);
        assert!(total.float().is_nan());
    }

    #[test]
    fn a_mean_is_there_where_the_sum_is_too_large_for_a_float() {
        let mean = |values: &[(f64, i64)]| {
            let mut total = Total::default();
            values.iter().for_each(|(x, times)| assert!(total.add(&Value::Float(*x), *times)));
            total.mean()
        };
        assert_eq!(mean(&[(1e308, 2)]), Value::Float(1e308));
        assert_eq!(mean(&[(-1e308, 2)]), Value::Float(-1e308));
        assert_eq!(mean(&[(f64::MAX, 1 << 62)]), Value::Float(f64::MAX));
        assert_eq!(mean(&[(f64::MAX, 2), (0.0, 2)]), Value::Float(f64::MAX / 2.0));
        for times in [3, 5, 7, 1000, i64::MAX] {
            let Value::Float(mean) = mean(&[(f64::MAX, times)]) else { panic!("a float") };
            assert!(mean <= f64::MAX && mean / f64::MAX > 1.0 - 1e-15, "{times}: {mean:e}");
        }
        assert_eq!(mean(&[(f64::INFINITY, 1), (1e308, 2)]), Value::Float(f64::INFINITY));
        assert_eq!(mean(&[(f64::NEG_INFINITY, 1), (1e308, 2)]), Value::Float(f64::NEG_INFINITY));
    }

    #[test]
    fn deviations_hold_however_large_the_mean_is() {
        let deviation = |values: &[Value], population| {
            let mut spread = Spread::default();
            values.iter().for_each(|value| assert!(spread.add(value, 1)));
            spread.deviation(population)
        };
        let floats = |values: &[f64]| values.iter().map(|x| Value::Float(*x)).collect::<Vec<_>>();
        assert_eq!(deviation(&[], true), 0.0);
        assert_eq!(deviation(&floats(&[7.5]), false), 0.0);
        assert_eq!(deviation(&floats(&[1e15 + 1.0, 1e15 + 3.0]), true), 1.0);
        assert!((deviation(&floats(&[1e300, 3e300]), true) / 1e300 - 1.0).abs() < 1e-15);
        assert!((deviation(&floats(&[1e-300, 3e-300]), true) / 1e-300 - 1.0).abs() < 1e-15);
        assert_eq!(deviation(&[Value::Integer(i64::MIN), Value::Integer(i64::MAX)], true), 2f64.powi(63));
        assert!(deviation(&floats(&[1.0, f64::INFINITY]), true).is_nan());
        assert_eq!(deviation(&floats(&[0.1, 0.1, 0.1]), false), 0.0);
    }
}
