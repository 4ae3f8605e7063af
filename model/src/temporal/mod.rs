//! Dates, times and durations as plain numbers: the calendar, and what moves a point in time.
//!
//! Reading text and building from maps are functions of the compiler crate. A zone is a name beside the offset that is in
//! force there; its rules (`zone`) are asked whenever a clock is moved.

mod component;
mod display;
mod duration;
pub mod zone;

use crate::value::{Text, Value};

pub use component::component;
pub use display::Offset;
pub use duration::{Amounts, DECIMAL_ONE, Decimal};

pub const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub const SECONDS_PER_DAY: i64 = 86_400;
pub const NANOS_PER_DAY: i64 = SECONDS_PER_DAY * NANOS_PER_SECOND;
/// The mean length of a Gregorian month.
pub const SECONDS_PER_MONTH: i64 = 2_629_746;

/// -999999999-01-01, the first day of the calendar: years have at most nine digits.
const EPOCH_DAY_MIN: i64 = -365_243_219_162;
/// +999999999-12-31, the last day of the calendar.
const EPOCH_DAY_MAX: i64 = 365_241_780_471;

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
        (EPOCH_DAY_MIN..=EPOCH_DAY_MAX).contains(&epoch_day).then_some(Date { epoch_day })
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

    /// None beyond the calendar.
    fn plus_nanos(&self, nanos: i128) -> Option<LocalDateTime> {
        let nanos = i128::from(self.nano_of_day) + nanos;
        let date = self.date().plus_days(i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_DAY))).ok()?)?;
        let nano_of_day = nanos.rem_euclid(i128::from(NANOS_PER_DAY)) as i64;
        Some(LocalDateTime { epoch_day: date.epoch_day, nano_of_day })
    }

    /// When the clocks there show this, preferably with the same offset.
    pub fn in_zone_of(&self, other: &DateTime) -> DateTime {
        let by_rules = other.zone.as_deref().and_then(|zone| zone::at_local(zone, *self, Some(other.offset_seconds)));
        by_rules.unwrap_or_else(|| self.with_offset(other.offset_seconds, other.zone.clone()))
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

    /// This instant by the clocks of another offset, or of a zone: then the offset is the one in force there.
    pub fn at_zone(&self, offset_seconds: i32, zone: Option<Text>) -> DateTime {
        let in_force = zone.as_deref().and_then(|zone| zone::offset_at(zone, self.epoch_second));
        DateTime { offset_seconds: in_force.unwrap_or(offset_seconds), zone, ..*self }
    }

    /// None beyond the calendar.
    fn plus_nanos(&self, nanos: i128) -> Option<DateTime> {
        let nanos = i128::from(self.nano) + nanos;
        let second = i128::from(NANOS_PER_SECOND);
        let epoch_second = self.epoch_second.checked_add(i64::try_from(nanos.div_euclid(second)).ok()?)?;
        Date { epoch_day: 0 }.plus_days(epoch_second.div_euclid(SECONDS_PER_DAY))?;
        let moved = DateTime { epoch_second, nano: nanos.rem_euclid(second) as i32, ..self.clone() };
        Some(moved.at_zone(self.offset_seconds, self.zone.clone()))
    }

    /// Beyond 64 bits the outermost there is: for those who have nothing else to say.
    pub fn epoch_millis(&self) -> i64 {
        self.epoch_millis_exactly().unwrap_or(if self.epoch_second < 0 { i64::MIN } else { i64::MAX })
    }

    /// None beyond 64 bits.
    pub fn epoch_millis_exactly(&self) -> Option<i64> {
        i64::try_from(i128::from(self.epoch_second) * 1000 + i128::from(self.nano / 1_000_000)).ok()
    }

    /// Tells apart what the instant does not.
    pub(crate) fn zone_order(&self) -> (i32, &str) {
        (self.offset_seconds, self.zone.as_deref().unwrap_or(""))
    }
}

/// A point in time moved by a duration: months first, then days, then the rest. None beyond the calendar.
///
/// Months and days are counted by the clock on the wall, the rest by instants: a day after the evening before clocks are put
/// forward is the next evening, 24 hours after it an hour later.
pub fn plus(point: &Value, duration: &Duration) -> Option<Value> {
    let nanos = duration.nanos_total();
    let day_of = |date: Date| date.plus_months(duration.months)?.plus_days(duration.days);
    let wrapped = |nano_of_day: i64| (i128::from(nano_of_day) + nanos).rem_euclid(i128::from(NANOS_PER_DAY)) as i64;
    Some(match point {
        Value::Date(date) => {
            // Of the part below a day only whole days count.
            let days = i64::try_from(nanos / i128::from(NANOS_PER_DAY)).ok()?;
            Value::Date(day_of(*date)?.plus_days(days)?)
        }
        Value::LocalTime(time) => Value::LocalTime(LocalTime { nano_of_day: wrapped(time.nano_of_day) }),
        Value::Time(time) => Value::Time(Time { nano_of_day: wrapped(time.nano_of_day), offset_seconds: time.offset_seconds }),
        Value::LocalDateTime(at) => {
            let epoch_day = day_of(at.date())?.epoch_day;
            Value::LocalDateTime(LocalDateTime { epoch_day, ..*at }.plus_nanos(nanos)?)
        }
        Value::DateTime(at) => {
            let local = at.local();
            let moved = LocalDateTime { epoch_day: day_of(local.date())?.epoch_day, ..local };
            // Without months and days the instant stays what it was, also when clocks show it twice.
            let moved = if moved == local { DateTime::clone(at) } else { moved.in_zone_of(at) };
            Value::DateTime(moved.plus_nanos(nanos)?.into())
        }
        _ => return None,
    })
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
        assert_eq!(Date::of(-999_999_999, 1, 1), Some(Date { epoch_day: EPOCH_DAY_MIN }));
        assert_eq!(Date::of(999_999_999, 12, 31), Some(Date { epoch_day: EPOCH_DAY_MAX }));
        assert_eq!(Date { epoch_day: EPOCH_DAY_MAX }.plus_days(1), None);
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
    fn days_go_by_the_clock_and_hours_by_instants() {
        let zoned = |text: &str, epoch_second| {
            let at = DateTime::utc(epoch_second, 0).at_zone(0, Some(Text::new("Europe/Paris")));
            assert_eq!(at.to_string(), text);
            Value::DateTime(at.into())
        };
        let moved = |at: &Value, duration| plus(at, &duration).map(|v| v.to_text());
        let evening = zoned("2024-03-30T20:00+01:00[Europe/Paris]", 1_711_825_200);
        let day = Duration { days: 1, ..Duration::default() };
        let hours = Duration { seconds: SECONDS_PER_DAY, ..Duration::default() };
        assert_eq!(moved(&evening, day).as_deref(), Some("2024-03-31T20:00+02:00[Europe/Paris]"));
        assert_eq!(moved(&evening, hours).as_deref(), Some("2024-03-31T21:00+02:00[Europe/Paris]"));
        // The second of the two hours stays the second.
        let repeated = zoned("2024-10-27T02:30+01:00[Europe/Paris]", 1_729_992_600);
        assert_eq!(moved(&repeated, Duration::default()).as_deref(), Some("2024-10-27T02:30+01:00[Europe/Paris]"));
        assert_eq!(plus(&evening, &Duration { seconds: i64::MAX, ..Duration::default() }), None);
    }

    #[test]
    fn months_are_added_before_days() {
        let date = Value::Date(Date::of(2024, 1, 31).expect("a date"));
        let moved = plus(&date, &Duration { months: 1, days: 1, ..Duration::default() });
        assert_eq!(moved.map(|v| v.to_text()).as_deref(), Some("2024-03-01"));
        assert_eq!(plus(&date, &Duration { days: i64::MAX, ..Duration::default() }), None);
    }
}
