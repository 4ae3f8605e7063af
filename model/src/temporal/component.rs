//! Components of temporal values by name (`d.year`, `length.minutesOfHour`).

use super::display::Offset;
use super::{Date, Duration, NANOS_PER_SECOND};
use crate::expression::{Failure, FailureKind};
use crate::value::Value;

/// A component by name (`d.year`). Null where the type has none of that name, a failure where it does not fit into 64 bits; None
/// when the value is not temporal.
pub fn component(value: &Value, name: &str) -> Option<Result<Value, Failure>> {
    let number = match value {
        Value::Date(date) => date_component(*date, name),
        Value::LocalTime(time) => time_component(time.nano_of_day, name),
        Value::Time(time) => match offset_component(time.offset_seconds, None, name) {
            Some(value) => return Some(Ok(value)),
            None => time_component(time.nano_of_day, name),
        },
        Value::LocalDateTime(at) => date_component(at.date(), name).or_else(|| time_component(at.nano_of_day, name)),
        Value::DateTime(at) => match (offset_component(at.offset_seconds, at.zone.as_deref(), name), name) {
            (Some(value), _) => return Some(Ok(value)),
            (None, "epochSeconds") => Some(at.epoch_second),
            (None, "epochMillis") => match at.epoch_millis_exactly() {
                Some(millis) => Some(millis),
                None => return Some(Err(too_large(value, name))),
            },
            (None, _) => {
                let local = at.local();
                date_component(local.date(), name).or_else(|| time_component(local.nano_of_day, name))
            }
        },
        Value::Duration(duration) => match duration_total(duration, name).map(i64::try_from) {
            Some(Ok(total)) => Some(total),
            Some(Err(_)) => return Some(Err(too_large(value, name))),
            None => duration_component(duration, name),
        },
        _ => return None,
    };
    Some(Ok(number.map_or(Value::Null, Value::Integer)))
}

fn too_large(of: &Value, name: &str) -> Failure {
    let message = format!("`{name}` of {} does not fit into an integer of 64 bits", of.shown());
    Failure::new(FailureKind::Arithmetic, message)
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

/// `hours` and the like: the whole time part in that unit.
fn duration_total(duration: &Duration, name: &str) -> Option<i128> {
    let total = i128::from(duration.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(duration.nanos);
    let unit = match name {
        "hours" => 3_600_000_000_000,
        "minutes" => 60_000_000_000,
        "milliseconds" => 1_000_000,
        "microseconds" => 1_000,
        "nanoseconds" => 1,
        _ => return None,
    };
    Some(total / unit)
}

/// What is kept by itself, and `minutesOfHour` and the like, the remainder.
fn duration_component(duration: &Duration, name: &str) -> Option<i64> {
    let (months, days, seconds, nanos) = (duration.months, duration.days, duration.seconds, i64::from(duration.nanos));
    match name {
        "years" => Some(months / 12),
        "quarters" => Some(months / 3),
        "months" => Some(months),
        "weeks" => Some(days / 7),
        "days" => Some(days),
        "seconds" => Some(seconds),
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
