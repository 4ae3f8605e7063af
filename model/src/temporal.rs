//! Dates, times and durations as plain numbers: the calendar, ISO text out, components, and arithmetic.
//!
//! Reading text and building from maps are functions of the compiler crate. No time zone database: a zone is a name
//! beside the offset that was in force.

use std::cmp::Ordering;
use std::fmt;

use crate::value::{Text, Value};

pub const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub const SECONDS_PER_DAY: i64 = 86_400;
pub const NANOS_PER_DAY: i64 = SECONDS_PER_DAY * NANOS_PER_SECOND;
/// The mean length of a Gregorian month.
pub const SECONDS_PER_MONTH: i64 = 2_629_746;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    /// Days since 1970-01-01.
    pub epoch_day: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LocalTime {
    pub nano_of_day: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Time {
    pub nano_of_day: i64,
    pub offset_seconds: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LocalDateTime {
    pub epoch_day: i64,
    pub nano_of_day: i64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DateTime {
    pub epoch_second: i64,
    pub nano: i32,
    pub offset_seconds: i32,
    /// The region, where one was named (`Europe/Berlin`).
    pub zone: Option<Text>,
}

/// `nanos` is 0 to 999,999,999 whatever the sign of `seconds`, as in `seconds + nanos / 1e9`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Duration {
    pub months: i64,
    pub days: i64,
    pub seconds: i64,
    pub nanos: i32,
}

impl Date {
    /// None when there is no such day, or the year has more than nine digits.
    pub fn of(year: i64, month: i64, day: i64) -> Option<Date> {
        let valid = (-999_999_999..=999_999_999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day);
        valid.then(|| Date { epoch_day: days_from_civil(year, month, day) })
    }

    /// Year, month and day.
    pub fn civil(self) -> (i64, i64, i64) {
        // Counts from 0000-03-01, so that a leap day is the last day of its year; in eras of 400 years.
        let z = self.epoch_day + 719_468;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// 1 is Monday.
    pub fn day_of_week(self) -> i64 {
        (self.epoch_day + 3).rem_euclid(7) + 1
    }

    pub fn ordinal_day(self) -> i64 {
        self.epoch_day - days_from_civil(self.civil().0, 1, 1) + 1
    }

    /// ISO week-based year and week.
    pub fn week(self) -> (i64, i64) {
        let thursday = Date { epoch_day: self.epoch_day + 4 - self.day_of_week() };
        (thursday.civil().0, (thursday.ordinal_day() - 1) / 7 + 1)
    }

    pub fn quarter(self) -> i64 {
        (self.civil().1 - 1) / 3 + 1
    }

    pub fn day_of_quarter(self) -> i64 {
        let (year, _, _) = self.civil();
        self.epoch_day - days_from_civil(year, self.quarter() * 3 - 2, 1) + 1
    }

    /// The day of the month is cut to the length of the month arrived at. None beyond the calendar.
    pub fn plus_months(self, months: i64) -> Option<Date> {
        let (year, month, day) = self.civil();
        let count = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(months)?;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) + 1);
        Date::of(year, month, day.min(days_of_month(year, month)))
    }

    pub fn plus_days(self, days: i64) -> Option<Date> {
        let epoch_day = self.epoch_day.checked_add(days)?;
        // 365.25 times a billion years: what `civil` computes without overflow.
        (epoch_day.abs() < 365_249_999_634).then_some(Date { epoch_day })
    }
}

/// Year and month must be sensible; the day may run over.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

pub fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

impl LocalTime {
    pub fn of(hour: i64, minute: i64, second: i64, nano: i64) -> Option<LocalTime> {
        let valid = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..NANOS_PER_SECOND).contains(&nano);
        valid.then(|| LocalTime { nano_of_day: ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + nano })
    }
}

impl Time {
    /// Nanoseconds of the day in UTC; may lie outside it.
    pub fn instant(&self) -> i64 {
        self.nano_of_day - i64::from(self.offset_seconds) * NANOS_PER_SECOND
    }
}

impl LocalDateTime {
    pub fn date(&self) -> Date {
        Date { epoch_day: self.epoch_day }
    }

    pub fn with_offset(&self, offset_seconds: i32, zone: Option<Text>) -> DateTime {
        let local_second = self.epoch_day * SECONDS_PER_DAY + self.nano_of_day / NANOS_PER_SECOND;
        DateTime {
            epoch_second: local_second - i64::from(offset_seconds),
            nano: (self.nano_of_day % NANOS_PER_SECOND) as i32,
            offset_seconds,
            zone,
        }
    }
}

impl DateTime {
    pub fn utc(epoch_second: i64, nano: i32) -> DateTime {
        DateTime { epoch_second, nano, offset_seconds: 0, zone: None }
    }

    /// What a clock on the wall shows.
    pub fn local(&self) -> LocalDateTime {
        let second = self.epoch_second + i64::from(self.offset_seconds);
        LocalDateTime {
            epoch_day: second.div_euclid(SECONDS_PER_DAY),
            nano_of_day: second.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND + i64::from(self.nano),
        }
    }

    pub fn epoch_millis(&self) -> i64 {
        self.epoch_second.saturating_mul(1000).saturating_add(i64::from(self.nano) / 1_000_000)
    }

    /// Tells apart what the instant does not.
    pub(crate) fn zone_order(&self) -> (i32, &str) {
        (self.offset_seconds, self.zone.as_deref().unwrap_or(""))
    }
}

impl Duration {
    /// Carries whole seconds out of the nanoseconds. None when the seconds do not fit.
    pub fn of(months: i64, days: i64, seconds: i64, nanos: i64) -> Option<Duration> {
        let seconds = seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND))?;
        Some(Duration { months, days, seconds, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as i32 })
    }

    /// By the mean length of a month and days of 24 hours.
    pub fn length_nanos(&self) -> i128 {
        let seconds = i128::from(self.months) * i128::from(SECONDS_PER_MONTH)
            + i128::from(self.days) * i128::from(SECONDS_PER_DAY)
            + i128::from(self.seconds);
        seconds * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos)
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

    /// Fractions of a month carry to days and those of a day to seconds, by mean lengths.
    pub fn times(&self, factor: f64) -> Option<Duration> {
        let months = self.months as f64 * factor;
        let days = self.days as f64 * factor + (months.fract() * SECONDS_PER_MONTH as f64) / SECONDS_PER_DAY as f64;
        let nanos = (self.seconds as f64 * NANOS_PER_SECOND as f64 + f64::from(self.nanos)) * factor
            + days.fract() * SECONDS_PER_DAY as f64 * NANOS_PER_SECOND as f64;
        let fits = |x: f64| (x.abs() < i64::MAX as f64).then_some(x as i64);
        let seconds = (nanos / NANOS_PER_SECOND as f64).trunc();
        Duration::of(fits(months)?, fits(days)?, fits(seconds)?, (nanos - seconds * NANOS_PER_SECOND as f64).round() as i64)
    }
}

/// A point in time moved by a duration: months first, then days, then the rest. None beyond the calendar.
pub fn plus(point: &Value, duration: &Duration) -> Option<Value> {
    let nanos = i128::from(duration.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(duration.nanos);
    let local = |at: LocalDateTime| -> Option<LocalDateTime> {
        let date = at.date().plus_months(duration.months)?.plus_days(duration.days)?;
        let nanos = i128::from(at.nano_of_day) + nanos;
        let date = date.plus_days(i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_DAY))).ok()?)?;
        Some(LocalDateTime { epoch_day: date.epoch_day, nano_of_day: nanos.rem_euclid(i128::from(NANOS_PER_DAY)) as i64 })
    };
    let wrapped = |nano_of_day: i64| (i128::from(nano_of_day) + nanos).rem_euclid(i128::from(NANOS_PER_DAY)) as i64;
    Some(match point {
        Value::Date(date) => {
            // Of the part below a day only whole days count.
            let days = i64::try_from(nanos / i128::from(NANOS_PER_DAY)).ok()?;
            Value::Date(date.plus_months(duration.months)?.plus_days(duration.days)?.plus_days(days)?)
        }
        Value::LocalTime(time) => Value::LocalTime(LocalTime { nano_of_day: wrapped(time.nano_of_day) }),
        Value::Time(time) => Value::Time(Time { nano_of_day: wrapped(time.nano_of_day), offset_seconds: time.offset_seconds }),
        Value::LocalDateTime(at) => Value::LocalDateTime(local(*at)?),
        Value::DateTime(at) => Value::DateTime(local(at.local())?.with_offset(at.offset_seconds, at.zone.clone()).into()),
        _ => return None,
    })
}

/// A component by name (`d.year`). Null where the type has none of that name; None when the value is not temporal.
pub fn component(value: &Value, name: &str) -> Option<Value> {
    let number = match value {
        Value::Date(date) => date_component(*date, name),
        Value::LocalTime(time) => time_component(time.nano_of_day, name),
        Value::Time(time) => match offset_component(time.offset_seconds, None, name) {
            Some(value) => return Some(value),
            None => time_component(time.nano_of_day, name),
        },
        Value::LocalDateTime(at) => date_component(at.date(), name).or_else(|| time_component(at.nano_of_day, name)),
        Value::DateTime(at) => match (offset_component(at.offset_seconds, at.zone.as_deref(), name), name) {
            (Some(value), _) => return Some(value),
            (None, "epochSeconds") => Some(at.epoch_second),
            (None, "epochMillis") => Some(at.epoch_millis()),
            (None, _) => {
                let local = at.local();
                date_component(local.date(), name).or_else(|| time_component(local.nano_of_day, name))
            }
        },
        Value::Duration(duration) => duration_component(duration, name),
        _ => return None,
    };
    Some(number.map_or(Value::Null, Value::Integer))
}

fn date_component(date: Date, name: &str) -> Option<i64> {
    let (year, month, day) = date.civil();
    Some(match name {
        "year" => year,
        "quarter" => date.quarter(),
        "month" => month,
        "week" => date.week().1,
        "weekYear" => date.week().0,
        "day" => day,
        "ordinalDay" => date.ordinal_day(),
        "weekDay" | "dayOfWeek" => date.day_of_week(),
        "dayOfQuarter" => date.day_of_quarter(),
        _ => return None,
    })
}

/// `millisecond`, `microsecond` and `nanosecond` are each the fraction of the second in that unit.
fn time_component(nano_of_day: i64, name: &str) -> Option<i64> {
    let (seconds, nanos) = (nano_of_day / NANOS_PER_SECOND, nano_of_day % NANOS_PER_SECOND);
    Some(match name {
        "hour" => seconds / 3600,
        "minute" => seconds / 60 % 60,
        "second" => seconds % 60,
        "millisecond" => nanos / 1_000_000,
        "microsecond" => nanos / 1_000,
        "nanosecond" => nanos,
        _ => return None,
    })
}

fn offset_component(offset_seconds: i32, zone: Option<&str>, name: &str) -> Option<Value> {
    Some(match (name, zone) {
        ("timezone", Some(zone)) => Value::text(zone),
        ("offset" | "timezone", _) => Value::text(&Offset(offset_seconds).to_string()),
        ("offsetMinutes", _) => Value::Integer(i64::from(offset_seconds) / 60),
        ("offsetSeconds", _) => Value::Integer(i64::from(offset_seconds)),
        _ => return None,
    })
}

/// `hours` and the like are the whole time part in that unit; `minutesOfHour` and the like the remainder.
fn duration_component(duration: &Duration, name: &str) -> Option<i64> {
    let (months, days, seconds, nanos) = (duration.months, duration.days, duration.seconds, i64::from(duration.nanos));
    let total = i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos);
    let total_in = |unit: i128| i64::try_from(total / unit).ok();
    match name {
        "years" => Some(months / 12),
        "quarters" => Some(months / 3),
        "months" => Some(months),
        "weeks" => Some(days / 7),
        "days" => Some(days),
        "hours" => total_in(3_600_000_000_000),
        "minutes" => total_in(60_000_000_000),
        "seconds" => Some(seconds),
        "milliseconds" => total_in(1_000_000),
        "microseconds" => total_in(1_000),
        "nanoseconds" => total_in(1),
        "quartersOfYear" => Some(months / 3 % 4),
        "monthsOfQuarter" => Some(months % 3),
        "monthsOfYear" => Some(months % 12),
        "daysOfWeek" => Some(days % 7),
        "minutesOfHour" => Some(seconds / 60 % 60),
        "secondsOfMinute" => Some(seconds % 60),
        "millisecondsOfSecond" => Some(nanos / 1_000_000),
        "microsecondsOfSecond" => Some(nanos / 1_000),
        "nanosecondsOfSecond" => Some(nanos),
        _ => None,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        let sign = match year.cmp(&0) {
            Ordering::Less => "-",
            _ if year > 9999 => "+",
            _ => "",
        };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
    }
}

/// Seconds are left out when they and the fraction are zero; the fraction has 3, 6 or 9 digits.
impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.nano_of_day / NANOS_PER_SECOND, self.nano_of_day % NANOS_PER_SECOND);
        write!(f, "{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
        if seconds % 60 != 0 || nanos != 0 {
            write!(f, ":{:02}", seconds % 60)?;
        }
        match nanos {
            0 => Ok(()),
            n if n % 1_000_000 == 0 => write!(f, ".{:03}", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, ".{:06}", n / 1_000),
            n => write!(f, ".{n:09}"),
        }
    }
}

/// `Z`, `+01:00`, `-00:44:30`.
pub struct Offset(pub i32);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("Z");
        }
        let size = self.0.unsigned_abs();
        write!(f, "{}{:02}:{:02}", if self.0 < 0 { '-' } else { '+' }, size / 3600, size / 60 % 60)?;
        if !size.is_multiple_of(60) { write!(f, ":{:02}", size % 60) } else { Ok(()) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", LocalTime { nano_of_day: self.nano_of_day }, Offset(self.offset_seconds))
    }
}

impl fmt::Display for LocalDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date(), LocalTime { nano_of_day: self.nano_of_day })
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.local(), Offset(self.offset_seconds))?;
        match &self.zone {
            Some(zone) => write!(f, "[{zone}]"),
            None => Ok(()),
        }
    }
}

/// `P1Y2M3DT4H5M6.007S`, each part with its own sign; `PT0S` when there is nothing.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, n: i64, unit: char| if n == 0 { Ok(()) } else { write!(f, "{n}{unit}") };
        f.write_str("P")?;
        part(f, self.months / 12, 'Y')?;
        part(f, self.months % 12, 'M')?;
        part(f, self.days, 'D')?;
        // Towards zero, so that all parts of the time have one sign.
        let total = i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos);
        let (seconds, nanos) = ((total / 1_000_000_000) as i64, (total % 1_000_000_000) as i64);
        if total == 0 {
            return if self.months == 0 && self.days == 0 { f.write_str("T0S") } else { Ok(()) };
        }
        f.write_str("T")?;
        part(f, seconds / 3600, 'H')?;
        part(f, seconds / 60 % 60, 'M')?;
        if nanos == 0 {
            return part(f, seconds % 60, 'S');
        }
        let fraction = format!("{:09}", nanos.abs());
        let sign = if total < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{}S", (seconds % 60).abs(), fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_goes_there_and_back() {
        for epoch_day in (-800_000..800_000).step_by(37) {
            let date = Date { epoch_day };
            let (year, month, day) = date.civil();
            assert_eq!(Date::of(year, month, day), Some(date));
        }
        assert_eq!(Date::of(1970, 1, 1), Some(Date { epoch_day: 0 }));
        assert_eq!(Date::of(2023, 2, 29), None);
        assert_eq!(Date::of(2000, 2, 29).map(|d| d.to_string()).as_deref(), Some("2000-02-29"));
        assert_eq!(Date::of(0, 1, 1).map(|d| d.to_string()).as_deref(), Some("0000-01-01"));
    }

    #[test]
    fn weeks_are_those_of_iso() {
        let check = |(y, m, d): (i64, i64, i64), week, day| {
            let date = Date::of(y, m, d).expect("a date");
            assert_eq!((date.week(), date.day_of_week()), (week, day), "{date}");
        };
        check((2021, 1, 3), (2020, 53), 7);
        check((2024, 12, 30), (2025, 1), 1);
        check((1984, 10, 11), (1984, 41), 4);
    }

    #[test]
    fn text_leaves_out_zero_seconds() {
        let at = |h, m, s, n| LocalTime::of(h, m, s, n).expect("a time").to_string();
        assert_eq!(at(4, 5, 0, 0), "04:05");
        assert_eq!(at(4, 5, 6, 7_000_000), "04:05:06.007");
        assert_eq!(at(0, 0, 0, 7_000), "00:00:00.000007");
        let day = Date::of(2024, 2, 3).expect("a date").epoch_day;
        let local = LocalDateTime { epoch_day: day, nano_of_day: 4 * 3600 * NANOS_PER_SECOND };
        assert_eq!(local.with_offset(3600, Some(Text::new("Europe/Paris"))).to_string(), "2024-02-03T04:00+01:00[Europe/Paris]");
        assert_eq!(local.with_offset(0, None).to_string(), "2024-02-03T04:00Z");
    }

    #[test]
    fn durations_sign_each_part() {
        let check = |months, days, seconds, nanos, expected: &str| {
            assert_eq!(Duration::of(months, days, seconds, nanos).expect("fits").to_string(), expected);
        };
        check(0, 0, 0, 0, "PT0S");
        check(149, 14, 58_390, 1, "P12Y5M14DT16H13M10.000000001S");
        check(0, 0, -60, -1_000_000, "PT-1M-0.001S");
        check(0, 0, 3723, 500_000_000, "PT1H2M3.5S");
        check(0, 2, 0, 0, "P2D");
        check(0, 0, -18_000 - 1_800, 0, "PT-5H-30M");
    }

    #[test]
    fn months_are_added_before_days() {
        let date = Value::Date(Date::of(2024, 1, 31).expect("a date"));
        let moved = plus(&date, &Duration { months: 1, days: 1, ..Duration::default() });
        assert_eq!(moved.map(|v| v.to_text()).as_deref(), Some("2024-03-01"));
        assert_eq!(plus(&date, &Duration { days: i64::MAX, ..Duration::default() }), None);
    }
}
