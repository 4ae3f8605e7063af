//! Constructors of dates, times and durations, and what is computed from several of them.

use std::sync::Arc;

use weir_model::arithmetic::shortened;
use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::temporal::{Date, DateTime, Duration, LocalTime, NANOS_PER_SECOND, Time};
use weir_model::value::Value;

use super::{date_map, impure, iso, strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    impure("datetime", 0, 1, "datetime(from :: ANY) :: DATETIME", date_time),
    impure("localdatetime", 0, 1, "localdatetime(from :: ANY) :: LOCALDATETIME", local_date_time),
    impure("date", 0, 1, "date(from :: ANY) :: DATE", date),
    impure("time", 0, 1, "time(from :: ANY) :: TIME", time),
    impure("localtime", 0, 1, "localtime(from :: ANY) :: LOCALTIME", local_time),
    strict("duration", 1, 1, "duration(from :: ANY) :: DURATION", duration),
    strict("duration.between", 2, 2, BETWEEN, between),
    strict("datetime.fromEpoch", 2, 2, FROM_EPOCH, from_epoch),
    strict("datetime.fromEpochMillis", 1, 1, FROM_EPOCH_MILLIS, from_epoch_millis),
    impure("timestamp", 0, 0, "timestamp() :: INTEGER", |context, _| Ok(Value::Integer(context.now_millis()))),
];

const BETWEEN: &str = "duration.between(from :: ANY, to :: ANY) :: DURATION";
const FROM_EPOCH: &str = "datetime.fromEpoch(seconds :: INTEGER, nanoseconds :: INTEGER) :: DATETIME";
const FROM_EPOCH_MILLIS: &str = "datetime.fromEpochMillis(milliseconds :: INTEGER) :: DATETIME";

/// The moment of the query, in UTC.
fn now(context: &dyn Context) -> DateTime {
    of_millis(context.now_millis())
}

fn of_millis(millis: i64) -> DateTime {
    DateTime::utc(millis.div_euclid(1000), millis.rem_euclid(1000) as i32 * 1_000_000)
}

fn unreadable(what: &str, text: &Value) -> Failure {
    Failure::new(
        FailureKind::InvalidArgument,
        format!("Text {} could not be parsed as a {what} in ISO 8601 form", shortened(text)),
    )
}

fn date_time(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let at = match arguments {
        [] => now(context),
        [text @ Value::Text(t)] => iso::date_time(t).ok_or_else(|| unreadable("datetime", text))?,
        [Value::Map(map)] => date_map::date_time(map, now(context))?,
        [Value::DateTime(at)] => DateTime::clone(at),
        [Value::LocalDateTime(at)] => at.with_offset(0, None),
        [Value::Date(date)] => date_map::midnight(*date).with_offset(0, None),
        _ => return Err(wrong_signature("datetime(from :: ANY) :: DATETIME", arguments)),
    };
    Ok(Value::DateTime(Arc::new(at)))
}

fn local_date_time(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::LocalDateTime(match arguments {
        [] => now(context).local(),
        [text @ Value::Text(t)] => iso::local_date_time(t).ok_or_else(|| unreadable("localdatetime", text))?,
        [Value::Map(map)] => date_map::local_date_time(map, now(context))?,
        [Value::LocalDateTime(at)] => *at,
        [Value::DateTime(at)] => at.local(),
        [Value::Date(date)] => date_map::midnight(*date),
        _ => return Err(wrong_signature("localdatetime(from :: ANY) :: LOCALDATETIME", arguments)),
    }))
}

fn date(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Date(match arguments {
        [] => now(context).local().date(),
        [text @ Value::Text(t)] => iso::date(t).ok_or_else(|| unreadable("date", text))?,
        [Value::Map(map)] => date_map::date(map)?,
        [value] => date_map::date_of(value).ok_or_else(|| wrong_signature("date(from :: ANY) :: DATE", arguments))?,
        _ => return Err(wrong_signature("date(from :: ANY) :: DATE", arguments)),
    }))
}

fn time(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Time(match arguments {
        [] => Time { nano_of_day: now(context).local().nano_of_day, offset_seconds: 0 },
        [text @ Value::Text(t)] => iso::time(t).ok_or_else(|| unreadable("time", text))?,
        [Value::Map(map)] => date_map::time(map)?,
        [value] => {
            let nano_of_day =
                date_map::nano_of_day(value).ok_or_else(|| wrong_signature("time(from :: ANY) :: TIME", arguments))?;
            Time { nano_of_day, offset_seconds: date_map::offset_of(value).unwrap_or(0) }
        }
        _ => return Err(wrong_signature("time(from :: ANY) :: TIME", arguments)),
    }))
}

fn local_time(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::LocalTime(match arguments {
        [] => LocalTime { nano_of_day: now(context).local().nano_of_day },
        [text @ Value::Text(t)] => iso::local_time(t).ok_or_else(|| unreadable("localtime", text))?,
        [Value::Map(map)] => date_map::local_time(map)?,
        [value] => LocalTime {
            nano_of_day: date_map::nano_of_day(value)
                .ok_or_else(|| wrong_signature("localtime(from :: ANY) :: LOCALTIME", arguments))?,
        },
        _ => return Err(wrong_signature("localtime(from :: ANY) :: LOCALTIME", arguments)),
    }))
}

fn duration(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let duration = match &arguments[0] {
        text @ Value::Text(t) => iso::duration(t).ok_or_else(|| unreadable("duration", text))?,
        Value::Map(map) => date_map::duration(map)?,
        Value::Duration(_) => return Ok(arguments[0].clone()),
        _ => return Err(wrong_signature("duration(from :: ANY) :: DURATION", arguments)),
    };
    Ok(Value::Duration(Arc::new(duration)))
}

/// In seconds and nanoseconds, exact. Two instants are compared as instants, two local datetimes by the clock.
fn between(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let nanos = |at: &Value| -> Option<i128> {
        Some(match at {
            Value::DateTime(at) => i128::from(at.epoch_second) * i128::from(NANOS_PER_SECOND) + i128::from(at.nano),
            Value::LocalDateTime(at) => {
                let at = at.with_offset(0, None);
                i128::from(at.epoch_second) * i128::from(NANOS_PER_SECOND) + i128::from(at.nano)
            }
            Value::Date(Date { epoch_day }) => i128::from(*epoch_day) * 86_400 * i128::from(NANOS_PER_SECOND),
            _ => return None,
        })
    };
    let same_kind = std::mem::discriminant(&arguments[0]) == std::mem::discriminant(&arguments[1]);
    let (Some(from), Some(to), true) = (nanos(&arguments[0]), nanos(&arguments[1]), same_kind) else {
        return Err(wrong_signature(BETWEEN, arguments));
    };
    let span = to - from;
    let second = i128::from(NANOS_PER_SECOND);
    let seconds = i64::try_from(span.div_euclid(second)).ok();
    seconds
        .and_then(|seconds| Duration::of(0, 0, seconds, span.rem_euclid(second) as i64))
        .map(|duration| Value::Duration(Arc::new(duration)))
        .ok_or_else(|| Failure::new(FailureKind::Arithmetic, "duration.between: the span is too long for a duration"))
}

fn from_epoch(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Integer(seconds), Value::Integer(nanos)] = arguments else { return Err(wrong_signature(FROM_EPOCH, arguments)) };
    let at = seconds
        .checked_add(nanos.div_euclid(NANOS_PER_SECOND))
        .filter(|seconds| date_map::in_calendar(*seconds))
        .map(|seconds| DateTime::utc(seconds, nanos.rem_euclid(NANOS_PER_SECOND) as i32));
    at.map(|at| Value::DateTime(Arc::new(at))).ok_or_else(|| date_map::out_of_range("datetime.fromEpoch"))
}

fn from_epoch_millis(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(millis) => Ok(Value::DateTime(Arc::new(of_millis(*millis)))),
        _ => Err(wrong_signature(FROM_EPOCH_MILLIS, arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn check(name: &str, arguments: &[Value], expected: &str) {
        let shown = call(name, arguments).map(|value| value.shown());
        assert_eq!(shown.as_deref(), Ok(expected), "{name}{arguments:?}");
    }

    #[test]
    fn text_in_text_out() {
        check(
            "datetime",
            &[Value::text("2024-02-03T04:05:06.007+01:00[Europe/Paris]")],
            "datetime(\"2024-02-03T04:05:06.007+01:00[Europe/Paris]\")",
        );
        check("localdatetime", &[Value::text("2024-02-03T04:05")], "localdatetime(\"2024-02-03T04:05\")");
        check("date", &[Value::text("2024-02-29")], "date(\"2024-02-29\")");
        check("time", &[Value::text("10:04:24-07:00")], "time(\"10:04:24-07:00\")");
        check("localtime", &[Value::text("10:04:24")], "localtime(\"10:04:24\")");
        check("duration", &[Value::text("PT1H30M")], "duration(\"PT1H30M\")");
        let failure = call("date", &[Value::text("yesterday")]).expect_err("no date");
        assert!(failure.message.contains("\"yesterday\""), "{failure}");
        assert_eq!(call("date", &[Value::Null]), Ok(Value::Null));
    }

    #[test]
    fn spans_between_points_of_one_kind() {
        let at = |text: &str| call("datetime", &[Value::text(text)]).expect("a datetime");
        check("duration.between", &[at("2024-01-01T00:00Z"), at("2024-01-02T01:00+01:00")], "duration(\"PT24H\")");
        let local = call("localdatetime", &[Value::text("2024-01-01T00:00")]).expect("a localdatetime");
        assert!(call("duration.between", &[at("2024-01-01T00:00Z"), local]).is_err());
        check("datetime.fromEpoch", &[Value::Integer(1), Value::Integer(-1)], "datetime(\"1970-01-01T00:00:00.999999999Z\")");
        check("datetime.fromEpochMillis", &[Value::Integer(-1)], "datetime(\"1969-12-31T23:59:59.999Z\")");
    }
}
