//! Lengths of time: months, days and seconds side by side, because how many days a month has depends on where it lies.
//!
//! What is no whole number of a unit is carried to the smaller ones by mean lengths, in whole numbers throughout, so that
//! a tenth is a tenth and not the float beside it.

use super::{Duration, NANOS_PER_SECOND, SECONDS_PER_DAY, SECONDS_PER_MONTH};

/// A number with 18 places behind the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal(pub i128);

/// One, as a `Decimal` counts.
pub const DECIMAL_ONE: i128 = 1_000_000_000_000_000_000;

const PLACES: usize = 18;

impl Decimal {
    pub fn of_integer(n: i64) -> Decimal {
        Decimal(i128::from(n) * DECIMAL_ONE)
    }

    /// The shortest decimal that reads back as the float. None when it is too large, or no number.
    pub fn of_float(x: f64) -> Option<Decimal> {
        // Rust writes floats without an exponent.
        if x.abs() < 1e20 { Decimal::of_text(&x.to_string()) } else { None }
    }

    /// Digits with an optional sign and fraction, after a point or a comma; places beyond the last are cut.
    pub fn of_text(text: &str) -> Option<Decimal> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once(['.', ',']).unwrap_or((digits, "0"));
        let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(fraction) {
            return None;
        }
        let fraction: i128 = format!("{fraction:0<PLACES$}").get(..PLACES)?.parse().ok()?;
        let size = whole.parse::<i128>().ok()?.checked_mul(DECIMAL_ONE)?.checked_add(fraction)?;
        Some(Decimal(if negative { -size } else { size }))
    }
}

/// Amounts of each kind of unit before they are a duration, in parts of one.
#[derive(Clone, Copy, Default, Debug)]
pub struct Amounts {
    pub months: i128,
    pub days: i128,
    pub seconds: i128,
    pub nanos: i128,
}

impl Amounts {
    /// Adds `count` of a unit, named as the keys of `duration({…})`. None when it does not fit; an unknown unit adds nothing and
    /// gives false.
    pub fn add(&mut self, unit: &str, count: Decimal) -> Option<bool> {
        let (place, size) = match unit {
            "years" => (&mut self.months, 12),
            "quarters" => (&mut self.months, 3),
            "months" => (&mut self.months, 1),
            "weeks" => (&mut self.days, 7),
            "days" => (&mut self.days, 1),
            "hours" => (&mut self.seconds, 3600),
            "minutes" => (&mut self.seconds, 60),
            "seconds" => (&mut self.seconds, 1),
            "milliseconds" => (&mut self.nanos, 1_000_000),
            "microseconds" => (&mut self.nanos, 1_000),
            "nanoseconds" => (&mut self.nanos, 1),
            _ => return Some(false),
        };
        *place = place.checked_add(count.0.checked_mul(size)?)?;
        Some(true)
    }

    pub fn duration(&self) -> Option<Duration> {
        self.over(DECIMAL_ONE)
    }

    /// The amounts divided by `parts`, which is above zero: months whole, what is left of them in days, days whole, what is
    /// left of them in seconds; nanoseconds are cut.
    fn over(&self, parts: i128) -> Option<Duration> {
        // A month is 97,398 / 3,200 days: its 2,629,746 seconds by the 86,400 of a day.
        const DAYS: i128 = 3_200;
        const MONTH: i128 = SECONDS_PER_MONTH as i128 * DAYS / SECONDS_PER_DAY as i128;
        const SECONDS: i128 = SECONDS_PER_DAY as i128 / DAYS;
        let second = i128::from(NANOS_PER_SECOND);
        let day_parts = parts.checked_mul(DAYS)?;
        let days = self.days.checked_mul(DAYS)?.checked_add((self.months % parts).checked_mul(MONTH)?)?;
        let seconds = self.seconds.checked_add((days % day_parts).checked_mul(SECONDS)?)?;
        let nanos = (seconds % parts).checked_mul(second)?.checked_add(self.nanos)?;
        let whole = (seconds / parts).checked_mul(second)?.checked_add(nanos.div_euclid(parts))?;
        // Cut towards zero, whatever the signs of what was added up.
        let total = if whole < 0 && nanos.rem_euclid(parts) > 0 { whole + 1 } else { whole };
        Duration::of(
            i64::try_from(self.months / parts).ok()?,
            i64::try_from(days / day_parts).ok()?,
            i64::try_from(total.div_euclid(second)).ok()?,
            total.rem_euclid(second) as i64,
        )
    }
}

impl Duration {
    /// Carries whole seconds out of the nanoseconds. None when the seconds do not fit.
    pub fn of(months: i64, days: i64, seconds: i64, nanos: i64) -> Option<Duration> {
        let seconds = seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND))?;
        Some(Duration { months, days, seconds, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as i32 })
    }

    /// Nothing but seconds and nanoseconds.
    pub fn of_nanos(nanos: i128) -> Option<Duration> {
        let second = i128::from(NANOS_PER_SECOND);
        Duration::of(0, 0, i64::try_from(nanos.div_euclid(second)).ok()?, nanos.rem_euclid(second) as i64)
    }

    /// The part below a day.
    pub fn nanos_total(&self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos)
    }

    /// By the mean length of a month and days of 24 hours.
    pub fn length_nanos(&self) -> i128 {
        let seconds =
            i128::from(self.months) * i128::from(SECONDS_PER_MONTH) + i128::from(self.days) * i128::from(SECONDS_PER_DAY);
        seconds * i128::from(NANOS_PER_SECOND) + self.nanos_total()
    }

    pub fn plus(&self, other: &Duration) -> Option<Duration> {
        Duration::of(
            self.months.checked_add(other.months)?,
            self.days.checked_add(other.days)?,
            self.seconds.checked_add(other.seconds)?,
            i64::from(self.nanos) + i64::from(other.nanos),
        )
    }

    pub fn negated(&self) -> Option<Duration> {
        Duration::of(self.months.checked_neg()?, self.days.checked_neg()?, self.seconds.checked_neg()?, -i64::from(self.nanos))
    }

    pub fn times(&self, factor: Decimal) -> Option<Duration> {
        self.amounts(factor.0)?.over(DECIMAL_ONE)
    }

    /// None also when the divisor is zero.
    pub fn divided(&self, divisor: Decimal) -> Option<Duration> {
        match divisor.0 {
            0 => None,
            negative if negative < 0 => self.amounts(-DECIMAL_ONE)?.over(-negative),
            positive => self.amounts(DECIMAL_ONE)?.over(positive),
        }
    }

    fn amounts(&self, factor: i128) -> Option<Amounts> {
        let times = |count: i64| i128::from(count).checked_mul(factor);
        Some(Amounts {
            months: times(self.months)?,
            days: times(self.days)?,
            seconds: times(self.seconds)?,
            nanos: times(i64::from(self.nanos))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(months: i64, days: i64, seconds: i64, nanos: i64) -> Duration {
        Duration::of(months, days, seconds, nanos).expect("fits")
    }

    #[test]
    fn fractions_are_carried_down_exactly() {
        let check = |units: &[(&str, f64)], expected: &str| {
            let mut amounts = Amounts::default();
            for (unit, count) in units {
                assert_eq!(amounts.add(unit, Decimal::of_float(*count).expect("a number")), Some(true));
            }
            assert_eq!(amounts.duration().expect("fits").to_string(), expected, "{units:?}");
        };
        check(&[("months", 0.75)], "P22DT19H51M49.5S");
        check(&[("days", 0.7)], "PT16H48M");
        check(&[("years", 0.3), ("months", 0.4)], "P4M");
        check(&[("weeks", 2.5)], "P17DT12H");
        check(&[("seconds", 0.1), ("milliseconds", 0.2)], "PT0.1002S");
        check(&[("nanoseconds", 1.9)], "PT0.000000001S");
        check(&[("nanoseconds", -1.9)], "PT-0.000000001S");
        check(&[("seconds", 1.0), ("nanoseconds", -0.5)], "PT0.999999999S");
        check(
            &[("years", 12.5), ("months", 5.5), ("days", 14.5), ("hours", 16.5), ("minutes", 12.5), ("seconds", 70.5)],
            "P12Y11M29DT33H58M13.5S",
        );
    }

    #[test]
    fn products_and_quotients() {
        let whole = of(149, 14, 58_390, 1);
        let by = |x: f64| Decimal::of_float(x).expect("a number");
        assert_eq!(whole.times(by(2.0)).expect("fits").to_string(), "P24Y10M28DT32H26M20.000000002S");
        assert_eq!(whole.times(by(0.5)).expect("fits").to_string(), "P6Y2M22DT13H21M8S");
        assert_eq!(whole.divided(by(0.5)).expect("fits").to_string(), "P24Y10M28DT32H26M20.000000002S");
        assert_eq!(of(0, 1, 0, 0).divided(Decimal::of_integer(3)), Some(of(0, 0, 28_800, 0)));
        assert_eq!(of(1, 0, 0, 0).divided(Decimal::of_integer(-3)).expect("fits").to_string(), "P-10DT-3H-29M-42S");
        assert_eq!(whole.divided(Decimal::of_integer(0)), None);
        assert_eq!(of(0, 0, i64::MAX, 0).times(Decimal::of_integer(2)), None);
        assert_eq!(Decimal::of_float(f64::NAN), None);
        assert_eq!(Decimal::of_float(1e300), None);
        assert_eq!(Decimal::of_float(1e-30), Some(Decimal(0)));
    }
}
