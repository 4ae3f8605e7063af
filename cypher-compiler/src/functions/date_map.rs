//! Dates, times and durations out of maps of their components (`datetime({year: 2024, month: 2})`).
//!
//! A base (`date`, `time`, `datetime`) gives what the map does not; without one a date begins at 0000-01-01T00:00.
//! Fractions of a second add up. Unknown keys, and parts that make no date, are failures.

use weir_model::arithmetic::{mismatch, shortened};
use weir_model::expression::{Failure, FailureKind};
use weir_model::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS_PER_DAY, SECONDS_PER_DAY, Time};
use weir_model::value::{Map, Text, Value};

use super::iso;

const DATE_KEYS: &[&str] =
    &["year", "weekYear", "quarter", "month", "week", "dayOfQuarter", "day", "ordinalDay", "dayOfWeek", "date", "datetime"];
const TIME_KEYS: &[&str] = &["hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "time", "datetime"];
const ZONE_KEYS: &[&str] = &["timezone", "offsetSeconds"];
const EPOCH_KEYS: &[&str] = &["epochMillis", "epochSeconds"];

pub(super) fn date(map: &Map) -> Result<Date, Failure> {
    known(map, &[DATE_KEYS])?;
    date_part(map, None)
}

pub(super) fn local_time(map: &Map) -> Result<LocalTime, Failure> {
    known(map, &[TIME_KEYS])?;
    time_part(map, None)
}

/// Without a zone: that of the base, else UTC.
pub(super) fn time(map: &Map) -> Result<Time, Failure> {
    known(map, &[TIME_KEYS, ZONE_KEYS])?;
    let base = base(map, &["time", "datetime"]).and_then(offset_of).unwrap_or(0);
    let local = time_part(map, None)?.nano_of_day;
    let Some((offset_seconds, _)) = zone(map)? else { return Ok(Time { nano_of_day: local, offset_seconds: base }) };
    // The base keeps its instant; the clock moves.
    let moved = if base_has_zone(map) { local + i64::from(offset_seconds - base) * 1_000_000_000 } else { local };
    Ok(Time { nano_of_day: moved.rem_euclid(NANOS_PER_DAY), offset_seconds })
}

pub(super) fn local_date_time(map: &Map, now: DateTime) -> Result<LocalDateTime, Failure> {
    known(map, &[DATE_KEYS, TIME_KEYS, EPOCH_KEYS, &["timezone"]])?;
    let start = match epoch(map)? {
        Some(at) => Some(at.local()),
        None => only_zone(map).then(|| now.local()),
    };
    Ok(LocalDateTime {
        epoch_day: date_part(map, start.map(|at| at.date()))?.epoch_day,
        nano_of_day: time_part(map, start.map(|at| at.nano_of_day))?.nano_of_day,
    })
}

/// Nothing but a zone means now, in that zone.
pub(super) fn date_time(map: &Map, now: DateTime) -> Result<DateTime, Failure> {
    known(map, &[DATE_KEYS, TIME_KEYS, ZONE_KEYS, EPOCH_KEYS])?;
    let zone = zone(map)?;
    let instant = match epoch(map)? {
        Some(at) => Some(at),
        None => only_zone(map).then_some(now),
    };
    let own = base(map, &["datetime", "time", "date"]).and_then(|base| match base {
        Value::DateTime(at) => Some((at.offset_seconds, at.zone.clone())),
        other => offset_of(other).map(|offset| (offset, None)),
    });
    let start = instant.as_ref().map(DateTime::local);
    let local = LocalDateTime {
        epoch_day: date_part(map, start.map(|at| at.date()))?.epoch_day,
        nano_of_day: time_part(map, start.map(|at| at.nano_of_day))?.nano_of_day,
    };
    let Some((offset_seconds, name)) = zone else {
        let (offset_seconds, name) = own.unwrap_or((0, None));
        return Ok(local.with_offset(offset_seconds, name));
    };
    let before = own.map(|(offset, _)| offset).or(instant.map(|at| at.offset_seconds));
    Ok(match before {
        // What has an instant keeps it; the clock moves.
        Some(before) => DateTime { offset_seconds, zone: name, ..local.with_offset(before, None) },
        None => local.with_offset(offset_seconds, name),
    })
}

/// Whole numbers of each unit are exact; fractions carry to smaller units.
pub(super) fn duration(map: &Map) -> Result<Duration, Failure> {
    let mut total = Duration::default();
    for (key, value) in map.iter() {
        let (months, days, seconds, nanos) = match key.as_str() {
            "years" => (12, 0, 0, 0),
            "quarters" => (3, 0, 0, 0),
            "months" => (1, 0, 0, 0),
            "weeks" => (0, 7, 0, 0),
            "days" => (0, 1, 0, 0),
            "hours" => (0, 0, 3600, 0),
            "minutes" => (0, 0, 60, 0),
            "seconds" => (0, 0, 1, 0),
            "milliseconds" => (0, 0, 0, 1_000_000),
            "microseconds" => (0, 0, 0, 1_000),
            "nanoseconds" => (0, 0, 0, 1),
            _ => return Err(unknown_fields(&[key.as_str()])),
        };
        let part = match value {
            Value::Integer(n) => {
                let fine = i128::from(nanos) * i128::from(*n);
                let carried = i64::try_from(fine.div_euclid(1_000_000_000)).ok();
                let whole = |unit: i64| unit.checked_mul(*n);
                carried.and_then(|carried| {
                    let seconds = whole(seconds)?.checked_add(carried)?;
                    Duration::of(whole(months)?, whole(days)?, seconds, fine.rem_euclid(1_000_000_000) as i64)
                })
            }
            Value::Float(x) => Duration { months, days, seconds, nanos }.times(*x),
            other => return Err(mismatch("Number", other, "duration component")),
        };
        total = part.and_then(|part| total.plus(&part)).ok_or_else(|| out_of_range("duration"))?;
    }
    Ok(total)
}

/// The date of anything that has one.
pub(super) fn date_of(value: &Value) -> Option<Date> {
    match value {
        Value::Date(date) => Some(*date),
        Value::LocalDateTime(at) => Some(at.date()),
        Value::DateTime(at) => Some(at.local().date()),
        _ => None,
    }
}

/// The time on the clock of anything that has one.
pub(super) fn nano_of_day(value: &Value) -> Option<i64> {
    match value {
        Value::LocalTime(time) => Some(time.nano_of_day),
        Value::Time(time) => Some(time.nano_of_day),
        Value::LocalDateTime(at) => Some(at.nano_of_day),
        Value::DateTime(at) => Some(at.local().nano_of_day),
        _ => None,
    }
}

pub(super) fn offset_of(value: &Value) -> Option<i32> {
    match value {
        Value::Time(time) => Some(time.offset_seconds),
        Value::DateTime(at) => Some(at.offset_seconds),
        _ => None,
    }
}

pub(super) fn midnight(date: Date) -> LocalDateTime {
    LocalDateTime { epoch_day: date.epoch_day, nano_of_day: 0 }
}

/// Whether an instant lies in a year the calendar has.
pub(super) fn in_calendar(epoch_second: i64) -> bool {
    Date { epoch_day: 0 }.plus_days(epoch_second.div_euclid(SECONDS_PER_DAY)).is_some()
}

pub(super) fn out_of_range(what: &str) -> Failure {
    Failure::new(FailureKind::InvalidArgument, format!("{what}: the value is out of range"))
}

fn known(map: &Map, allowed: &[&[&str]]) -> Result<(), Failure> {
    let unknown: Vec<&str> =
        map.iter().map(|(key, _)| key.as_str()).filter(|key| !allowed.iter().any(|keys| keys.contains(key))).collect();
    if unknown.is_empty() { Ok(()) } else { Err(unknown_fields(&unknown)) }
}

fn unknown_fields(keys: &[&str]) -> Failure {
    Failure::new(FailureKind::Runtime, format!("Unknown fields in options map: {}", keys.join(", ")))
}

fn only_zone(map: &Map) -> bool {
    map.len() == 1 && map.get("timezone").is_some()
}

fn base<'m>(map: &'m Map, keys: &[&str]) -> Option<&'m Value> {
    keys.iter().find_map(|key| map.get(key))
}

fn base_has_zone(map: &Map) -> bool {
    base(map, &["time", "datetime"]).is_some_and(|value| offset_of(value).is_some())
}

fn integer(map: &Map, key: &str) -> Result<Option<i64>, Failure> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Integer(n)) => Ok(Some(*n)),
        Some(other) => Err(mismatch("Integer", other, &format!("component `{key}`"))),
    }
}

fn date_part(map: &Map, start: Option<Date>) -> Result<Date, Failure> {
    let base = match base(map, &["date", "datetime"]) {
        None => start,
        Some(value) => Some(date_of(value).ok_or_else(|| mismatch("Date, LocalDateTime, DateTime", value, "component `date`"))?),
    };
    let (year, week_year) = (integer(map, "year")?, integer(map, "weekYear")?);
    let (month, day) = (integer(map, "month")?, integer(map, "day")?);
    let (week, day_of_week) = (integer(map, "week")?, integer(map, "dayOfWeek")?);
    let (quarter, day_of_quarter) = (integer(map, "quarter")?, integer(map, "dayOfQuarter")?);
    let ordinal = integer(map, "ordinalDay")?;
    // What the base says of a part, else its first value.
    let or_base = |given: Option<i64>, of: fn(Date) -> i64, first: i64| given.unwrap_or_else(|| base.map_or(first, of));
    let civil_year = or_base(year, |d| d.civil().0, 0);
    let made = if week.is_some() || week_year.is_some() || day_of_week.is_some() {
        let year = week_year.or(year).unwrap_or_else(|| base.map_or(0, |d| d.week().0));
        iso::of_week(year, or_base(week, |d| d.week().1, 1), or_base(day_of_week, Date::day_of_week, 1))
    } else if quarter.is_some() || day_of_quarter.is_some() {
        let quarter = or_base(quarter, Date::quarter, 1);
        match (day_of_quarter, month.or(day)) {
            // A quarter with months: the day counts within the month.
            (None, Some(_)) => {
                Date::of(civil_year, or_base(month, |d| d.civil().1, quarter * 3 - 2), or_base(day, |d| d.civil().2, 1))
            }
            _ => iso::of_quarter(civil_year, quarter, or_base(day_of_quarter, Date::day_of_quarter, 1)),
        }
    } else if let Some(ordinal) = ordinal {
        iso::of_ordinal(civil_year, ordinal)
    } else {
        Date::of(civil_year, or_base(month, |d| d.civil().1, 1), or_base(day, |d| d.civil().2, 1))
    };
    made.ok_or_else(|| no_such("date", map))
}

fn time_part(map: &Map, start: Option<i64>) -> Result<LocalTime, Failure> {
    let base = match base(map, &["time", "datetime"]) {
        None => start.unwrap_or(0),
        Some(value) => {
            nano_of_day(value).ok_or_else(|| mismatch("LocalTime, Time, LocalDateTime, DateTime", value, "component `time`"))?
        }
    };
    let (seconds, nanos) = (base / 1_000_000_000, base % 1_000_000_000);
    let fractions = [integer(map, "millisecond")?, integer(map, "microsecond")?, integer(map, "nanosecond")?];
    let nano = if fractions.iter().all(Option::is_none) {
        Some(nanos)
    } else {
        let units = [1_000_000, 1_000, 1];
        fractions.iter().zip(units).try_fold(0i64, |sum, (n, unit)| sum.checked_add(n.unwrap_or(0).checked_mul(unit)?))
    };
    let made = nano.and_then(|nano| {
        LocalTime::of(
            integer(map, "hour").ok()?.unwrap_or(seconds / 3600),
            integer(map, "minute").ok()?.unwrap_or(seconds / 60 % 60),
            integer(map, "second").ok()?.unwrap_or(seconds % 60),
            nano,
        )
    });
    for key in ["hour", "minute", "second"] {
        integer(map, key)?;
    }
    made.ok_or_else(|| no_such("time", map))
}

fn epoch(map: &Map) -> Result<Option<DateTime>, Failure> {
    let at = match (integer(map, "epochMillis")?, integer(map, "epochSeconds")?) {
        (Some(millis), _) => DateTime::utc(millis.div_euclid(1000), millis.rem_euclid(1000) as i32 * 1_000_000),
        (None, Some(seconds)) => DateTime::utc(seconds, 0),
        (None, None) => return Ok(None),
    };
    if in_calendar(at.epoch_second) { Ok(Some(at)) } else { Err(no_such("datetime", map)) }
}

/// Offset and name of the zone asked for.
fn zone(map: &Map) -> Result<Option<(i32, Option<Text>)>, Failure> {
    if let Some(offset) = integer(map, "offsetSeconds")? {
        let offset = i32::try_from(offset).ok().filter(|offset| offset.abs() <= 18 * 3600);
        return offset.map(|offset| Some((offset, None))).ok_or_else(|| no_such("offset", map));
    }
    match map.get("timezone") {
        None => Ok(None),
        Some(Value::Text(zone)) => match iso::offset_of_zone(zone) {
            // An offset has no name of its own.
            Some(offset) if zone.starts_with(['+', '-', 'Z']) && zone != "Zulu" => Ok(Some((offset, None))),
            Some(offset) => Ok(Some((offset, Some(zone.clone())))),
            None => {
                let message = format!("The rules of time zone `{zone}` are not known; use an offset such as '+01:00', or 'UTC'");
                Err(Failure::new(FailureKind::InvalidArgument, message))
            }
        },
        Some(other) => Err(mismatch("Str", other, "component `timezone`")),
    }
}

fn no_such(what: &str, map: &Map) -> Failure {
    let shown = shortened(&Value::Map(map.clone().into()));
    Failure::new(FailureKind::InvalidArgument, format!("{shown} makes no {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn check(name: &str, entries: &[(&str, Value)], expected: &str) {
        let map = Value::map(entries.iter().map(|(key, value)| (Text::new(key), value.clone())));
        let made = call(name, &[map]).map(|value| value.to_text());
        assert_eq!(made.as_deref(), Ok(expected), "{name}{entries:?}");
    }

    fn fails(name: &str, entries: &[(&str, Value)], message: &str) {
        let map = Value::map(entries.iter().map(|(key, value)| (Text::new(key), value.clone())));
        let failure = call(name, &[map]).expect_err(message);
        assert!(failure.message.contains(message), "{failure}");
    }

    #[test]
    fn dates_by_month_week_quarter_and_day() {
        let n = Value::Integer;
        check("date", &[("year", n(1984)), ("month", n(10)), ("day", n(11))], "1984-10-11");
        check("date", &[("year", n(1984)), ("week", n(10)), ("dayOfWeek", n(3))], "1984-03-07");
        check("date", &[("year", n(1984)), ("quarter", n(3)), ("dayOfQuarter", n(45))], "1984-08-14");
        check("date", &[("year", n(1984)), ("ordinalDay", n(202))], "1984-07-20");
        check("date", &[], "0000-01-01");
        let base = Value::Date(Date::of(2024, 2, 29).expect("a date"));
        check("date", &[("date", base.clone()), ("day", n(1))], "2024-02-01");
        check("date", &[("date", base), ("week", n(1))], "2024-01-04");
        fails("date", &[("year", n(2023)), ("month", n(2)), ("day", n(29))], "makes no date");
        fails("date", &[("hour", n(1))], "Unknown fields in options map: hour");
        fails("date", &[("year", Value::text("x"))], "component `year`");
    }

    #[test]
    fn instants_keep_what_they_are_under_another_zone() {
        let n = Value::Integer;
        let parts = [("year", n(2024)), ("hour", n(12)), ("millisecond", n(5)), ("microsecond", n(7))];
        check("localdatetime", &parts, "2024-01-01T12:00:00.005007");
        check("datetime", &[("epochMillis", n(1_700_000_000_123))], "2023-11-14T22:13:20.123Z");
        check("datetime", &[("epochSeconds", n(0)), ("timezone", Value::text("+01:00"))], "1970-01-01T01:00+01:00");
        check("datetime", &[("year", n(2024)), ("timezone", Value::text("+01:00"))], "2024-01-01T00:00+01:00");
        check("datetime", &[("year", n(2024)), ("timezone", Value::text("UTC"))], "2024-01-01T00:00Z[UTC]");
        check("time", &[("hour", n(12)), ("offsetSeconds", n(3600))], "12:00+01:00");
        let base = Value::Time(Time { nano_of_day: 0, offset_seconds: 0 });
        check("time", &[("time", base), ("timezone", Value::text("-01:00"))], "23:00-01:00");
        fails("datetime", &[("timezone", Value::text("Europe/Paris"))], "are not known");
        fails("localtime", &[("hour", n(24))], "makes no time");
        fails("datetime", &[("epochSeconds", n(i64::MAX))], "makes no datetime");
    }

    #[test]
    fn durations_add_their_parts() {
        let n = Value::Integer;
        check("duration", &[("days", n(14)), ("hours", n(16)), ("minutes", n(12))], "P14DT16H12M");
        check("duration", &[("months", Value::Float(0.75))], "P22DT19H51M49.5S");
        check("duration", &[("seconds", n(1)), ("milliseconds", n(-1))], "PT0.999S");
        check("duration", &[("nanoseconds", n(i64::MAX))], "PT2562047H47M16.854775807S");
        fails("duration", &[("days", n(i64::MAX)), ("weeks", n(1))], "out of range");
        fails("duration", &[("fortnights", n(1))], "Unknown fields");
    }
}
