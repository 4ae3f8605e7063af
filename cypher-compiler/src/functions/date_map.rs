//! Dates, times and durations out of maps of their components (`datetime({year: 2024, month: 2})`).
//!
//! A base (`date`, `time`, `datetime`) gives what the map does not; without one a date begins at 0000-01-01T00:00.
//! Fractions of a second add up. Unknown keys, and parts that make no date, are failures.

use weir_model::arithmetic::{mismatch, shortened};
use weir_model::expression::{Failure, FailureKind};
use weir_model::temporal::{
    Amounts, Date, DateTime, Decimal, Duration, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, SECONDS_PER_DAY, Time,
};
use weir_model::value::{Map, Value};

use super::iso::{self, Zone};

const DATE_KEYS: &[&str] = &["year", "weekYear", "quarter", "month", "week", "dayOfQuarter", "day", "ordinalDay", "dayOfWeek"];
const TIME_KEYS: &[&str] = &["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"];
const ZONE_KEYS: &[&str] = &["timezone", "offsetSeconds"];
const EPOCH_KEYS: &[&str] = &["epochMillis", "epochSeconds"];

/// The current time. Who asks for it says what would be made of it, as there is none in what is kept.
pub(super) type Now<'n> = &'n dyn Fn(&str) -> Result<DateTime, Failure>;

/// Nothing but a zone means now, there.
fn now_in_zone(map: &Map, name: &str, now: Now<'_>) -> Result<Option<DateTime>, Failure> {
    if map.len() != 1 || map.get("timezone").is_none() {
        return Ok(None);
    }
    let now = now(&format!("`{name}` of a zone alone is the current time"))?;
    Ok(zone(map)?.map(|zone| zone.show(&now)))
}

pub(super) fn date(map: &Map, now: Now<'_>) -> Result<Date, Failure> {
    if let Some(now) = now_in_zone(map, "date", now)? {
        return Ok(now.local().date());
    }
    known(map, &[DATE_KEYS, &["date", "datetime"]])?;
    date_part(map, None)
}

pub(super) fn local_time(map: &Map, now: Now<'_>) -> Result<LocalTime, Failure> {
    if let Some(now) = now_in_zone(map, "localtime", now)? {
        return Ok(LocalTime { nano_of_day: now.local().nano_of_day });
    }
    known(map, &[TIME_KEYS, &["time", "datetime"]])?;
    time_part(map, None)
}

/// Without a zone: that of the base, else UTC.
pub(super) fn time(map: &Map, now: Now<'_>) -> Result<Time, Failure> {
    if let Some(now) = now_in_zone(map, "time", now)? {
        return Ok(Time { nano_of_day: now.local().nano_of_day, offset_seconds: now.offset_seconds });
    }
    known(map, &[TIME_KEYS, ZONE_KEYS, &["time", "datetime"]])?;
    let base = base(map, &["time", "datetime"]);
    let local = time_part(map, None)?.nano_of_day;
    let own = base.and_then(offset_of);
    let Some(zone) = zone(map)? else { return Ok(Time { nano_of_day: local, offset_seconds: own.unwrap_or(0) }) };
    let offset_seconds = match base {
        Some(Value::DateTime(at)) => zone.show(at).offset_seconds,
        Some(Value::LocalDateTime(at)) => zone.place(LocalDateTime { nano_of_day: local, ..*at }).offset_seconds,
        _ => offset_of_today(&zone, now)?,
    };
    // The base keeps its instant; the clock moves.
    let moved = own.map_or(local, |own| local + i64::from(offset_seconds - own) * NANOS_PER_SECOND);
    Ok(Time { nano_of_day: moved.rem_euclid(NANOS_PER_DAY), offset_seconds })
}

/// The offset of a time without a day: where clocks are moved it is that of the current one.
pub(super) fn offset_of_today(zone: &Zone, now: Now<'_>) -> Result<i32, Failure> {
    if let Some(offset) = zone.only_offset() {
        return Ok(offset);
    }
    let now = now("a time in a zone whose clocks are moved has the offset of the current time")?;
    Ok(zone.show(&now).offset_seconds)
}

/// In a zone: what clocks there show when it is what the other keys say.
pub(super) fn local_date_time(map: &Map, now: Now<'_>) -> Result<LocalDateTime, Failure> {
    if let Some(now) = now_in_zone(map, "localdatetime", now)? {
        return Ok(now.local());
    }
    known(map, &[DATE_KEYS, TIME_KEYS, EPOCH_KEYS, &["date", "time", "datetime", "timezone"]])?;
    if map.get("timezone").is_some() {
        return Ok(date_time(map, now)?.local());
    }
    local_part(map, epoch(map)?.map(|at| at.local()))
}

pub(super) fn date_time(map: &Map, now: Now<'_>) -> Result<DateTime, Failure> {
    known(map, &[DATE_KEYS, TIME_KEYS, ZONE_KEYS, EPOCH_KEYS, &["date", "time", "datetime"]])?;
    if let Some(now) = now_in_zone(map, "datetime", now)? {
        return Ok(now);
    }
    let zone = zone(map)?;
    if let Some(at) = epoch(map)? {
        let zone = zone.unwrap_or(Zone::Offset(0));
        return Ok(zone.place(local_part(map, Some(zone.show(&at).local()))?));
    }
    let local = local_part(map, None)?;
    let own = match base(map, &["datetime", "time"]) {
        Some(Value::DateTime(at)) => Some(local.in_zone_of(at)),
        Some(Value::Time(time)) => Some(local.with_offset(time.offset_seconds, None)),
        _ => None,
    };
    Ok(match (own, zone) {
        // What has an instant keeps it; the clock moves.
        (Some(own), Some(zone)) => zone.show(&own),
        (Some(own), None) => own,
        (None, Some(zone)) => zone.place(local),
        (None, None) => local.with_offset(0, None),
    })
}

/// Whole numbers of each unit are exact; fractions carry to smaller units.
pub(super) fn duration(map: &Map) -> Result<Duration, Failure> {
    let mut amounts = Amounts::default();
    for (key, value) in map.iter() {
        let count = match value {
            Value::Integer(n) => Some(Decimal::of_integer(*n)),
            Value::Float(x) => Decimal::of_float(*x),
            other => return Err(mismatch("Number", other, "duration component")),
        };
        match count.and_then(|count| amounts.add(key, count)) {
            Some(true) => {}
            Some(false) => return Err(unknown_fields(&[key.as_str()])),
            None => return Err(out_of_range("duration")),
        }
    }
    amounts.duration().ok_or_else(|| out_of_range("duration"))
}

/// What the last argument of `truncate` changes in the date that is left.
pub(super) fn changed_date(map: &Map, date: Date) -> Result<Date, Failure> {
    known(map, &[DATE_KEYS, TIME_KEYS, ZONE_KEYS])?;
    date_part(map, Some(date))
}

/// What the last argument of `truncate` changes in the time of day that is left.
pub(super) fn changed_time(map: &Map, nano_of_day: i64) -> Result<i64, Failure> {
    known(map, &[DATE_KEYS, TIME_KEYS, ZONE_KEYS])?;
    Ok(time_part(map, Some(nano_of_day))?.nano_of_day)
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

fn base<'m>(map: &'m Map, keys: &[&str]) -> Option<&'m Value> {
    keys.iter().find_map(|key| map.get(key))
}

fn integer(map: &Map, key: &str) -> Result<Option<i64>, Failure> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Integer(n)) => Ok(Some(*n)),
        Some(other) => Err(mismatch("Integer", other, &format!("component `{key}`"))),
    }
}

/// Refuses keys that name a day in different ways: one of them would be left aside.
fn check_one_way(map: &Map) -> Result<(), Failure> {
    const CALENDAR: u8 = 1;
    const QUARTER: u8 = 1 << 1;
    const ORDINAL: u8 = 1 << 2;
    const WEEK: u8 = 1 << 3;
    const WEEK_OF_WEEK_YEAR: u8 = 1 << 4;
    const ALL: u8 = CALENDAR | QUARTER | ORDINAL | WEEK | WEEK_OF_WEEK_YEAR;
    let ways = map.iter().fold(ALL, |ways, (key, _)| {
        ways & match key.as_str() {
            "year" => ALL & !WEEK_OF_WEEK_YEAR,
            "weekYear" => WEEK_OF_WEEK_YEAR,
            "week" | "dayOfWeek" => WEEK | WEEK_OF_WEEK_YEAR,
            "quarter" => QUARTER | CALENDAR,
            "dayOfQuarter" => QUARTER,
            "month" | "day" => CALENDAR,
            "ordinalDay" => ORDINAL,
            _ => ALL,
        }
    });
    if ways != 0 {
        return Ok(());
    }
    let message = format!(
        "{} names a day in more than one way; there are: year, quarter, month and day; year, quarter and dayOfQuarter; year and \
         ordinalDay; year or weekYear, week and dayOfWeek",
        shortened(&Value::Map(map.clone().into()))
    );
    Err(Failure::new(FailureKind::InvalidArgument, message))
}

fn date_part(map: &Map, start: Option<Date>) -> Result<Date, Failure> {
    check_one_way(map)?;
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
            // A quarter with months: the day counts within the month, which is as far into its quarter as that of the base.
            (None, Some(_)) if (1..=4).contains(&quarter) => {
                let month_of_quarter = base.map_or(0, |d| (d.civil().1 - 1) % 3);
                let month = month.unwrap_or(quarter * 3 - 2 + month_of_quarter);
                Date::of(civil_year, month, or_base(day, |d| d.civil().2, 1)).filter(|date| date.quarter() == quarter)
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

fn local_part(map: &Map, start: Option<LocalDateTime>) -> Result<LocalDateTime, Failure> {
    Ok(LocalDateTime {
        epoch_day: date_part(map, start.map(|at| at.date()))?.epoch_day,
        nano_of_day: time_part(map, start.map(|at| at.nano_of_day))?.nano_of_day,
    })
}

fn time_part(map: &Map, start: Option<i64>) -> Result<LocalTime, Failure> {
    let base = match base(map, &["time", "datetime"]) {
        None => start.unwrap_or(0),
        Some(value) => {
            nano_of_day(value).ok_or_else(|| mismatch("LocalTime, Time, LocalDateTime, DateTime", value, "component `time`"))?
        }
    };
    let (seconds, nanos) = (base / NANOS_PER_SECOND, base % NANOS_PER_SECOND);
    let [milli, micro, nano] = [integer(map, "millisecond")?, integer(map, "microsecond")?, integer(map, "nanosecond")?];
    // Each counts within the next larger one that is given.
    let limits = [
        1_000,
        if milli.is_some() { 1_000 } else { 1_000_000 },
        if micro.is_some() {
            1_000
        } else if milli.is_some() {
            1_000_000
        } else {
            NANOS_PER_SECOND
        },
    ];
    let given = [(milli, 1_000_000), (micro, 1_000), (nano, 1)];
    let nano = if given.iter().all(|(n, _)| n.is_none()) {
        Some(nanos)
    } else {
        given.iter().zip(limits).try_fold(0, |sum, ((n, unit), limit)| {
            let n = n.unwrap_or(0);
            (0..limit).contains(&n).then_some(sum + n * unit)
        })
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

/// The zone asked for.
pub(super) fn zone(map: &Map) -> Result<Option<Zone>, Failure> {
    if let Some(offset) = integer(map, "offsetSeconds")? {
        let offset = i32::try_from(offset).ok().filter(|offset| offset.unsigned_abs() <= 18 * 3600);
        return offset.map(|offset| Some(Zone::Offset(offset))).ok_or_else(|| no_such("offset", map));
    }
    match map.get("timezone") {
        None => Ok(None),
        Some(Value::Text(name)) => zone_named(name).map(Some),
        Some(other) => Err(mismatch("Str", other, "component `timezone`")),
    }
}

pub(super) fn zone_named(name: &str) -> Result<Zone, Failure> {
    Zone::of(name).ok_or_else(|| {
        let message = format!(
            "There is no time zone {}; write a name like 'Europe/Paris', or an offset like '+01:00'",
            shortened(&Value::text(name))
        );
        Failure::new(FailureKind::InvalidArgument, message)
    })
}

fn no_such(what: &str, map: &Map) -> Failure {
    let shown = shortened(&Value::Map(map.clone().into()));
    Failure::new(FailureKind::InvalidArgument, format!("{shown} makes no {what}"))
}

#[cfg(test)]
mod tests {
    use weir_model::expression::GraphFree;
    use weir_model::{IdScheme, Text};

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
        check("date", &[("year", n(2024)), ("quarter", n(3)), ("month", n(8)), ("day", n(5))], "2024-08-05");
        let autumn = Value::Date(Date::of(1984, 11, 11).expect("a date"));
        check("date", &[("date", autumn), ("quarter", n(3)), ("day", n(5))], "1984-08-05");
        fails("date", &[("year", n(2024)), ("quarter", n(3)), ("month", n(2))], "makes no date");
        fails("date", &[("year", n(2024)), ("quarter", n(i64::MAX)), ("day", n(2))], "makes no date");
        fails("date", &[("year", n(2023)), ("month", n(2)), ("day", n(29))], "makes no date");
        fails("date", &[("hour", n(1))], "Unknown fields in options map: hour");
        fails("date", &[("year", Value::text("x"))], "component `year`");
    }

    #[test]
    fn keys_that_name_a_day_in_two_ways_are_refused() {
        let one = Value::Integer(1);
        for (first, second) in [
            ("month", "week"),
            ("day", "week"),
            ("month", "dayOfWeek"),
            ("day", "ordinalDay"),
            ("week", "ordinalDay"),
            ("quarter", "week"),
            ("day", "dayOfQuarter"),
            ("year", "weekYear"),
            ("month", "weekYear"),
        ] {
            let keys = [(first, one.clone()), (second, one.clone())];
            for name in ["date", "localdatetime", "datetime"] {
                fails(name, &keys, "names a day in more than one way");
            }
            let map = Value::map(keys.map(|(key, value)| (Text::new(key), value)));
            let day = Value::Date(Date::of(2024, 2, 29).expect("a date"));
            let failure = call("date.truncate", &[Value::text("year"), day, map]).expect_err("two ways");
            assert!(failure.message.contains("names a day in more than one way"), "{failure}");
        }
        check("date", &[("weekYear", one.clone()), ("week", one.clone()), ("dayOfWeek", one.clone())], "0001-01-01");
        check("date", &[("year", one.clone()), ("quarter", one.clone()), ("dayOfQuarter", one)], "0001-01-01");
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
        check(
            "datetime",
            &[("year", n(2024)), ("month", n(7)), ("timezone", Value::text("Europe/Paris"))],
            "2024-07-01T00:00+02:00[Europe/Paris]",
        );
        check(
            "datetime",
            &[("epochMillis", n(1_700_000_000_123)), ("timezone", Value::text("America/New_York"))],
            "2023-11-14T17:13:20.123-05:00[America/New_York]",
        );
        check("datetime", &[("epochSeconds", n(1_700_000_000)), ("nanosecond", n(5))], "2023-11-14T22:13:20.000000005Z");
        check("datetime", &[("timezone", Value::text("Asia/Tokyo"))], "1970-01-01T09:00+09:00[Asia/Tokyo]");
        check("time", &[("hour", n(12)), ("timezone", Value::text("Asia/Tokyo"))], "12:00+09:00");
        check("date", &[("timezone", Value::text("America/New_York"))], "1969-12-31");
        check("time", &[("hour", n(12)), ("offsetSeconds", n(3600))], "12:00+01:00");
        let base = Value::Time(Time { nano_of_day: 0, offset_seconds: 0 });
        check("time", &[("time", base), ("timezone", Value::text("-01:00"))], "23:00-01:00");
        let (tokyo, york) = (Value::text("Asia/Tokyo"), Value::text("America/New_York"));
        check("localdatetime", &[("epochMillis", n(1_700_000_000_123)), ("timezone", york)], "2023-11-14T17:13:20.123");
        check("localdatetime", &[("epochSeconds", n(0)), ("minute", n(5)), ("timezone", tokyo.clone())], "1970-01-01T09:05");
        check("localdatetime", &[("year", n(2024)), ("timezone", tokyo.clone())], "2024-01-01T00:00");
        check("localdatetime", &[("timezone", tokyo)], "1970-01-01T09:00");
        fails("datetime", &[("timezone", Value::text("Mars/Base"))], "There is no time zone");
        fails("localtime", &[("millisecond", n(1)), ("microsecond", n(1_000))], "makes no time");
        fails("localtime", &[("hour", n(24))], "makes no time");
        fails("datetime", &[("epochSeconds", n(i64::MAX))], "makes no datetime");
    }

    #[test]
    fn bases_give_what_the_map_does_not() {
        let n = Value::Integer;
        let make = |name: &str, text: &str| call(name, &[Value::text(text)]).expect("a value");
        let stockholm = make("datetime", "1984-10-11T12:00[Europe/Stockholm]");
        let honolulu = Value::text("Pacific/Honolulu");
        let spring = make("date", "1984-03-28");
        // The zone of the base decides what its clock means on another day; then another zone shows that instant.
        check(
            "datetime",
            &[("date", spring.clone()), ("time", stockholm.clone()), ("second", n(42)), ("timezone", honolulu)],
            "1984-03-28T00:00:42-10:00[Pacific/Honolulu]",
        );
        check("datetime", &[("date", spring), ("time", stockholm.clone())], "1984-03-28T12:00+02:00[Europe/Stockholm]");
        check("time", &[("time", stockholm.clone()), ("timezone", Value::text("+05:00"))], "16:00+05:00");
        check(
            "localdatetime",
            &[("datetime", stockholm.clone()), ("timezone", Value::text("Pacific/Honolulu"))],
            "1984-10-11T01:00",
        );
        // Of a base date only the date counts.
        check("datetime", &[("date", stockholm), ("hour", n(10)), ("timezone", Value::text("+05:00"))], "1984-10-11T10:00+05:00");
    }

    #[test]
    fn what_is_kept_has_no_offset_of_now() {
        let time = |entries: &[(&str, Value)], zone: &str| {
            let zone = ("timezone", Value::text(zone));
            let entries = entries.iter().chain([&zone]).map(|(key, value)| (Text::new(key), value.clone()));
            let function = super::super::find("time").expect("there is one");
            (function.run)(&GraphFree::constants(IdScheme::Uuid), &[Value::map(entries)]).map(|value| value.to_text())
        };
        let noon = ("hour", Value::Integer(12));
        let base = |name: &str, text: &str| ("time", call(name, &[Value::text(text)]).expect(text));
        for (entry, zone) in [(&noon, "Europe/Paris"), (&base("localtime", "12:00"), "Europe/Paris")] {
            let failure = time(std::slice::from_ref(entry), zone).expect_err("clocks are moved there");
            assert!(failure.message.contains("has the offset of the current time"), "{failure}");
        }
        for (entry, zone, expected) in [
            (&noon, "UTC", "12:00Z"),
            (&noon, "Etc/GMT+5", "12:00-05:00"),
            (&noon, "UTC+2", "12:00+02:00"),
            (&noon, "+01:00", "12:00+01:00"),
            (&base("localdatetime", "2024-07-01T12:00"), "Europe/Paris", "12:00+02:00"),
            (&base("datetime", "2024-01-01T12:00Z"), "Europe/Paris", "13:00+01:00"),
        ] {
            assert_eq!(time(std::slice::from_ref(entry), zone).as_deref(), Ok(expected), "{entry:?} {zone}");
        }
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
