//! Constructors of dates, times and durations: of now, of text, of maps, of one another.

use std::sync::Arc;

use weir_model::arithmetic::shortened;
use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::temporal::{DateTime, LocalTime, NANOS_PER_SECOND, Time};
use weir_model::value::{Text, Value};

use super::iso::Zone;
use super::{date_map, impure, iso, pattern, strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    impure("date", 0, 2, DATE, |context, arguments| make(Kind::Date, context, arguments))
        .about("A date: of today, of text in ISO 8601 form or of a given pattern, of a map of fields, or of another point in time.", "RETURN date('2024-W09-4')"),
    impure("date.transaction", 0, 1, "date.transaction(zone :: STRING) :: DATE", |c, a| started(Kind::Date, c, a))
        .about("Today, in UTC or the zone, as of the start of the query.", "RETURN date.transaction() = date()"),
    impure("date.statement", 0, 1, "date.statement(zone :: STRING) :: DATE", |c, a| started(Kind::Date, c, a))
        .about("Today, in UTC or the zone, as of the start of the query.", "RETURN date.statement() = date()"),
    impure("date.realtime", 0, 1, "date.realtime(zone :: STRING) :: DATE", |c, a| real(Kind::Date, c, a))
        .about("Today, in UTC or the zone, by the clock at the moment of the call.", "RETURN date.realtime() >= date()"),
    impure("localtime", 0, 2, LOCAL_TIME, |context, arguments| make(Kind::LocalTime, context, arguments))
        .about("A time of day without a zone: of now, of text, of a map of fields, or of another point in time.", "RETURN localtime({hour: 12, minute: 31, millisecond: 5})"),
    impure("localtime.transaction", 0, 1, "localtime.transaction(zone :: STRING) :: LOCALTIME", |c, a| started(Kind::LocalTime, c, a))
        .about("The time on the clock in UTC or the zone, as of the start of the query.", "RETURN localtime.transaction() = localtime()"),
    impure("localtime.statement", 0, 1, "localtime.statement(zone :: STRING) :: LOCALTIME", |c, a| started(Kind::LocalTime, c, a))
        .about("The time on the clock in UTC or the zone, as of the start of the query.", "RETURN localtime.statement() = localtime()"),
    impure("localtime.realtime", 0, 1, "localtime.realtime(zone :: STRING) :: LOCALTIME", |c, a| real(Kind::LocalTime, c, a))
        .about("The time on the clock in UTC or the zone, at the moment of the call.", "RETURN meta.type(localtime.realtime())"),
    impure("time", 0, 2, TIME, |context, arguments| make(Kind::Time, context, arguments))
        .about("A time of day with an offset from UTC: of now, of text, of a map of fields, or of another point in time.", "RETURN time('21:40:32+01:00')"),
    impure("time.transaction", 0, 1, "time.transaction(zone :: STRING) :: TIME", |c, a| started(Kind::Time, c, a))
        .about("The time in UTC or the zone, as of the start of the query.", "RETURN time.transaction() = time()"),
    impure("time.statement", 0, 1, "time.statement(zone :: STRING) :: TIME", |c, a| started(Kind::Time, c, a))
        .about("The time in UTC or the zone, as of the start of the query.", "RETURN time.statement('+01:00').offset"),
    impure("time.realtime", 0, 1, "time.realtime(zone :: STRING) :: TIME", |c, a| real(Kind::Time, c, a))
        .about("The time in UTC or the zone, at the moment of the call.", "RETURN meta.type(time.realtime())"),
    impure("localdatetime", 0, 2, LOCAL_DATE_TIME, |context, arguments| make(Kind::LocalDateTime, context, arguments))
        .about("A date with a time of day, without a zone: of now, of text, of a map of fields, or of another point in time.", "RETURN localdatetime('29.02.24 10h', \"dd.MM.yy HH'h'\")"),
    impure("localdatetime.transaction", 0, 1, "localdatetime.transaction(zone :: STRING) :: LOCALDATETIME", |c, a| started(Kind::LocalDateTime, c, a))
        .about("What clocks show in UTC or the zone, as of the start of the query.", "RETURN localdatetime.transaction() = localdatetime()"),
    impure("localdatetime.statement", 0, 1, "localdatetime.statement(zone :: STRING) :: LOCALDATETIME", |c, a| started(Kind::LocalDateTime, c, a))
        .about("What clocks show in UTC or the zone, as of the start of the query.", "RETURN localdatetime.statement() = localdatetime()"),
    impure("localdatetime.realtime", 0, 1, "localdatetime.realtime(zone :: STRING) :: LOCALDATETIME", |c, a| real(Kind::LocalDateTime, c, a))
        .about("What clocks show in UTC or the zone, at the moment of the call.", "RETURN localdatetime.realtime() >= localdatetime()"),
    impure("datetime", 0, 2, DATE_TIME, |context, arguments| make(Kind::DateTime, context, arguments))
        .about("An instant as shown in a zone: now, of text, of a map of fields, or of another point in time; UTC where no zone is named.", "RETURN datetime({year: 2024, month: 7, hour: 12, timezone: 'Europe/Paris'})"),
    impure("datetime.transaction", 0, 1, "datetime.transaction(zone :: STRING) :: DATETIME", |c, a| started(Kind::DateTime, c, a))
        .about("The start of the query, shown in UTC or the zone.", "RETURN datetime.transaction() = datetime()"),
    impure("datetime.statement", 0, 1, "datetime.statement(zone :: STRING) :: DATETIME", |c, a| started(Kind::DateTime, c, a))
        .about("The start of the query, shown in UTC or the zone.", "RETURN datetime.statement('Asia/Tokyo').timezone"),
    impure("datetime.realtime", 0, 1, "datetime.realtime(zone :: STRING) :: DATETIME", |c, a| real(Kind::DateTime, c, a))
        .about("The moment of the call, shown in UTC or the zone.", "RETURN datetime.realtime() >= datetime()"),
    strict("datetime.fromEpoch", 2, 2, FROM_EPOCH, from_epoch)
        .about("The instant so many seconds and nanoseconds after the beginning of 1970, in UTC.", "RETURN datetime.fromEpoch(416779, 999999999)"),
    strict("datetime.fromEpochMillis", 1, 1, FROM_EPOCH_MILLIS, from_epoch_millis)
        .about("The instant so many milliseconds after the beginning of 1970, in UTC.", "RETURN datetime.fromEpochMillis(237821673987)"),
    impure("timestamp", 0, 0, "timestamp() :: INTEGER", |context, _| Ok(Value::Integer(context.now_millis())))
        .about("Milliseconds since the beginning of 1970, as of the start of the query.", "RETURN timestamp() = datetime().epochMillis"),
    strict("duration", 1, 1, DURATION, duration)
        .about("A length of time, of text in ISO 8601 form or of a map of units; fractions are carried to smaller units.", "RETURN duration({months: 0.75})"),
    strict("temporal.format", 2, 2, FORMAT, format)
        .about("A point in time as text of a pattern, in the letters of Java's DateTimeFormatter and English.", "RETURN temporal.format(datetime('2024-02-09T14:05:06Z'), 'EEEE, MMMM d, uuuu h:mm a')"),
];

const DATE: &str = "date(from :: ANY, pattern :: STRING) :: DATE";
const LOCAL_TIME: &str = "localtime(from :: ANY, pattern :: STRING) :: LOCALTIME";
const TIME: &str = "time(from :: ANY, pattern :: STRING) :: TIME";
const LOCAL_DATE_TIME: &str = "localdatetime(from :: ANY, pattern :: STRING) :: LOCALDATETIME";
const DATE_TIME: &str = "datetime(from :: ANY, pattern :: STRING) :: DATETIME";
const DURATION: &str = "duration(from :: ANY) :: DURATION";
const FROM_EPOCH: &str = "datetime.fromEpoch(seconds :: INTEGER, nanoseconds :: INTEGER) :: DATETIME";
const FROM_EPOCH_MILLIS: &str = "datetime.fromEpochMillis(milliseconds :: INTEGER) :: DATETIME";
const FORMAT: &str = "temporal.format(value :: ANY, pattern :: STRING) :: STRING";

/// The points in time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Date,
    LocalTime,
    Time,
    LocalDateTime,
    DateTime,
}

impl Kind {
    /// The name of the type, and of its constructor, too.
    fn name(self) -> &'static str {
        match self {
            Kind::Date => "date",
            Kind::LocalTime => "localtime",
            Kind::Time => "time",
            Kind::LocalDateTime => "localdatetime",
            Kind::DateTime => "datetime",
        }
    }

    fn signature(self) -> &'static str {
        match self {
            Kind::Date => DATE,
            Kind::LocalTime => LOCAL_TIME,
            Kind::Time => TIME,
            Kind::LocalDateTime => LOCAL_DATE_TIME,
            Kind::DateTime => DATE_TIME,
        }
    }

    /// What of an instant is of this kind.
    fn of(self, at: DateTime) -> Value {
        let local = at.local();
        match self {
            Kind::Date => Value::Date(local.date()),
            Kind::LocalTime => Value::LocalTime(LocalTime { nano_of_day: local.nano_of_day }),
            Kind::Time => Value::Time(Time { nano_of_day: local.nano_of_day, offset_seconds: at.offset_seconds }),
            Kind::LocalDateTime => Value::LocalDateTime(local),
            Kind::DateTime => Value::DateTime(Arc::new(at)),
        }
    }

    /// What of another point in time is of this kind. A date is midnight; what has no zone is in UTC.
    fn project(self, value: &Value) -> Option<Value> {
        let nano_of_day = || date_map::nano_of_day(value);
        let local = || match value {
            Value::LocalDateTime(at) => Some(*at),
            Value::Date(date) => Some(date_map::midnight(*date)),
            _ => None,
        };
        Some(match (self, value) {
            (_, Value::DateTime(at)) => self.of(DateTime::clone(at)),
            (Kind::Date, _) => Value::Date(date_map::date_of(value)?),
            (Kind::LocalTime, _) => Value::LocalTime(LocalTime { nano_of_day: nano_of_day()? }),
            (Kind::Time, _) => {
                Value::Time(Time { nano_of_day: nano_of_day()?, offset_seconds: date_map::offset_of(value).unwrap_or(0) })
            }
            (Kind::LocalDateTime, _) => Value::LocalDateTime(local()?),
            (Kind::DateTime, _) => self.of(local()?.with_offset(0, None)),
        })
    }

    fn of_text(self, text: &str) -> Option<Value> {
        Some(match self {
            Kind::Date => Value::Date(iso::date(text)?),
            Kind::LocalTime => Value::LocalTime(iso::local_time(text)?),
            Kind::Time => Value::Time(iso::time(text)?),
            Kind::LocalDateTime => Value::LocalDateTime(iso::local_date_time(text)?),
            Kind::DateTime => Value::DateTime(Arc::new(iso::date_time(text)?)),
        })
    }
}

fn make(kind: Kind, context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let now = |what: &str| current(context, what);
    Ok(match arguments {
        [] => kind.of(of_millis(context.now_millis())),
        [Value::Text(text)] => kind.of_text(text).ok_or_else(|| unreadable(kind.name(), &arguments[0]))?,
        [Value::Map(map)] => match kind {
            Kind::Date => Value::Date(date_map::date(map, &now)?),
            Kind::LocalTime => Value::LocalTime(date_map::local_time(map, &now)?),
            Kind::Time => Value::Time(date_map::time(map, &now)?),
            Kind::LocalDateTime => Value::LocalDateTime(date_map::local_date_time(map, &now)?),
            Kind::DateTime => Value::DateTime(Arc::new(date_map::date_time(map, &now)?)),
        },
        [value] => kind.project(value).ok_or_else(|| wrong_signature(kind.signature(), arguments))?,
        [Value::Text(text), Value::Text(pattern)] => pattern::parse(kind, text, pattern)?,
        _ => return Err(wrong_signature(kind.signature(), arguments)),
    })
}

/// The current time, for `date_map::Now`.
pub(super) fn current(context: &dyn Context, what: &str) -> Result<DateTime, Failure> {
    if context.is_kept() {
        let message = format!("A standing query's results follow from the graph: {what}, and has no value in them");
        return Err(Failure::new(FailureKind::InvalidArgument, message));
    }
    Ok(of_millis(context.now_millis()))
}

fn started(kind: Kind, context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    at(kind, context.now_millis(), arguments)
}

fn real(kind: Kind, context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    at(kind, context.clock_millis(), arguments)
}

fn at(kind: Kind, millis: i64, arguments: &[Value]) -> Result<Value, Failure> {
    let zone = match arguments {
        [] => Zone::Offset(0),
        [Value::Text(zone)] => date_map::zone_named(zone)?,
        _ => return Err(wrong_signature(kind.signature(), arguments)),
    };
    Ok(kind.of(zone.show(&of_millis(millis))))
}

pub(super) fn of_millis(millis: i64) -> DateTime {
    DateTime::utc(millis.div_euclid(1000), millis.rem_euclid(1000) as i32 * 1_000_000)
}

fn unreadable(what: &str, text: &Value) -> Failure {
    let message = format!("Text {} could not be parsed as a {what} in ISO 8601 form", shortened(text));
    Failure::new(FailureKind::InvalidArgument, message)
}

fn duration(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let duration = match &arguments[0] {
        text @ Value::Text(t) => iso::duration(t).ok_or_else(|| unreadable("duration", text))?,
        Value::Map(map) => date_map::duration(map)?,
        Value::Duration(_) => return Ok(arguments[0].clone()),
        _ => return Err(wrong_signature(DURATION, arguments)),
    };
    Ok(Value::Duration(Arc::new(duration)))
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

fn format(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match arguments {
        [value, Value::Text(pattern)] if date_map::date_of(value).is_some() || date_map::nano_of_day(value).is_some() => {
            pattern::format(value, pattern).map(|text| Value::Text(Text::from(text)))
        }
        _ => Err(wrong_signature(FORMAT, arguments)),
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
    fn one_kind_out_of_another() {
        let at = call("datetime", &[Value::text("2024-02-03T04:05:06+01:00[Europe/Paris]")]).expect("a datetime");
        let out_of = |name: &str, value: &Value, expected: &str| check(name, std::slice::from_ref(value), expected);
        out_of("date", &at, "date(\"2024-02-03\")");
        out_of("localtime", &at, "localtime(\"04:05:06\")");
        out_of("time", &at, "time(\"04:05:06+01:00\")");
        out_of("localdatetime", &at, "localdatetime(\"2024-02-03T04:05:06\")");
        let date = call("date", &[at]).expect("a date");
        out_of("datetime", &date, "datetime(\"2024-02-03T00:00Z\")");
        assert_eq!(call("time", &[date]).map_err(|f| f.kind), Err(FailureKind::WrongSignature));
    }

    #[test]
    fn now_is_that_of_the_query_and_of_the_zone() {
        check("datetime", &[], "datetime(\"1970-01-01T00:00Z\")");
        check("datetime.transaction", &[], "datetime(\"1970-01-01T00:00Z\")");
        check("datetime.statement", &[Value::text("Asia/Tokyo")], "datetime(\"1970-01-01T09:00+09:00[Asia/Tokyo]\")");
        check("date.realtime", &[Value::text("America/New_York")], "date(\"1969-12-31\")");
        check("time.transaction", &[Value::text("-02:30")], "time(\"21:30-02:30\")");
        assert_eq!(call("localtime.realtime", &[Value::Null]), Ok(Value::Null));
        let failure = call("date.statement", &[Value::text("Mars/Base")]).expect_err("no zone");
        assert!(failure.message.contains("There is no time zone \"Mars/Base\""), "{failure}");
    }

    #[test]
    fn instants_of_epochs() {
        check("datetime.fromEpoch", &[Value::Integer(1), Value::Integer(-1)], "datetime(\"1970-01-01T00:00:00.999999999Z\")");
        check("datetime.fromEpochMillis", &[Value::Integer(-1)], "datetime(\"1969-12-31T23:59:59.999Z\")");
        assert!(call("datetime.fromEpoch", &[Value::Integer(i64::MAX), Value::Integer(0)]).is_err());
    }
}
