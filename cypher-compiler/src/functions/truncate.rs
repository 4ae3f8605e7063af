//! Points in time cut to a unit: `datetime.truncate('hour', at)`.
//!
//! The value is cut first and made a value of the wanted kind then; last, fields that a map names are set. A zone in the
//! map replaces the zone, and the clock stays.

use std::sync::Arc;

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::temporal::{Date, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, Time};
use weir_model::value::{Map, Value};

use super::iso::{self, Zone};
use super::temporal::Kind;
use super::{date_map, impure, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    impure("date.truncate", 1, 3, DATE, |context, arguments| truncate(Kind::Date, DATE, context, arguments))
        .about("The date on which the unit began: millennium, century, decade, year, weekYear, quarter, month, week or day. Of today unless a value is given; a map sets fields of the result.", "RETURN date.truncate('week', date('1984-10-11'), {dayOfWeek: 2})"),
    impure("localtime.truncate", 1, 3, LOCAL_TIME, |context, arguments| truncate(Kind::LocalTime, LOCAL_TIME, context, arguments))
        .about("The time at which the unit began: day, hour, minute, second, millisecond or microsecond.", "RETURN localtime.truncate('minute', localtime('12:31:14.645'))"),
    impure("time.truncate", 1, 3, TIME, |context, arguments| truncate(Kind::Time, TIME, context, arguments))
        .about("The time at which the unit began, with its offset.", "RETURN time.truncate('hour', time('12:31:14-01:00'), {timezone: '+01:00'})"),
    impure("localdatetime.truncate", 1, 3, LOCAL_DATE_TIME, |context, arguments| truncate(Kind::LocalDateTime, LOCAL_DATE_TIME, context, arguments))
        .about("When the unit began, without a zone.", "RETURN localdatetime.truncate('quarter', localdatetime('1984-11-11T12:31:14'))"),
    impure("datetime.truncate", 1, 3, DATE_TIME, |context, arguments| truncate(Kind::DateTime, DATE_TIME, context, arguments))
        .about("When the unit began by the clocks of the value's zone.", "RETURN datetime.truncate('day', datetime('2024-07-01T10:11:12[Europe/Paris]'))"),
];

const DATE: &str = "date.truncate(unit :: STRING, value :: ANY, fields :: MAP) :: DATE";
const LOCAL_TIME: &str = "localtime.truncate(unit :: STRING, value :: ANY, fields :: MAP) :: LOCALTIME";
const TIME: &str = "time.truncate(unit :: STRING, value :: ANY, fields :: MAP) :: TIME";
const LOCAL_DATE_TIME: &str = "localdatetime.truncate(unit :: STRING, value :: ANY, fields :: MAP) :: LOCALDATETIME";
const DATE_TIME: &str = "datetime.truncate(unit :: STRING, value :: ANY, fields :: MAP) :: DATETIME";

fn truncate(kind: Kind, signature: &str, context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let wrong = || wrong_signature(signature, arguments);
    let now = || Value::DateTime(Arc::new(super::temporal::of_millis(context.now_millis())));
    let (unit, value, fields) = match arguments {
        [Value::Text(unit)] => (unit, now(), None),
        [Value::Text(unit), value] => (unit, value.clone(), None),
        [Value::Text(unit), value, Value::Map(fields)] => (unit, value.clone(), Some(&**fields)),
        _ => return Err(wrong()),
    };
    let date = date_map::date_of(&value);
    let nano_of_day = date_map::nano_of_day(&value).or(date.map(|_| 0));
    let nothing = Map::default();
    let fields = fields.unwrap_or(&nothing);
    let unfit = || {
        let message = format!("{} cannot be cut to `{unit}`", signature.split('.').next().unwrap_or_default());
        Failure::new(FailureKind::InvalidArgument, message)
    };
    let (of_date, of_time) = (cut_date(unit, date), cut_time(unit, nano_of_day));
    if !is_unit_of_date(unit) && nanos_of(unit).is_none() {
        let message = format!(
            "There is no unit `{unit}`; there are millennium, century, decade, year, weekYear, quarter, month, week, day, hour, \
             minute, second, millisecond and microsecond"
        );
        return Err(Failure::new(FailureKind::InvalidArgument, message));
    }
    let date = || date_map::changed_date(fields, of_date.ok_or_else(wrong)?);
    let time = || {
        let cut = of_time.ok_or_else(wrong)?;
        date_map::changed_time(&within_second(unit, cut, fields), cut)
    };
    let zone = date_map::zone(fields)?;
    match kind {
        Kind::Date if is_unit_of_date(unit) => Ok(Value::Date(date()?)),
        Kind::Date => Err(unfit()),
        Kind::LocalTime | Kind::Time if nanos_of(unit).is_none() => Err(unfit()),
        Kind::LocalTime => Ok(Value::LocalTime(LocalTime { nano_of_day: time()? })),
        Kind::Time => {
            let nano_of_day = time()?;
            let offset_seconds = match (zone, date_map::date_of(&value)) {
                (None, _) => date_map::offset_of(&value).unwrap_or(0),
                (Some(zone), Some(date)) => zone.place(LocalDateTime { epoch_day: date.epoch_day, nano_of_day }).offset_seconds,
                (Some(zone), None) => date_map::offset_of_today(&zone, &|what: &str| super::temporal::current(context, what))?,
            };
            Ok(Value::Time(Time { nano_of_day, offset_seconds }))
        }
        Kind::LocalDateTime | Kind::DateTime => {
            let local = LocalDateTime { epoch_day: date()?.epoch_day, nano_of_day: time()? };
            Ok(match (kind, zone, &value) {
                (Kind::LocalDateTime, ..) => Value::LocalDateTime(local),
                (_, Some(zone), _) => Value::DateTime(Arc::new(zone.place(local))),
                (_, None, Value::DateTime(at)) => Value::DateTime(Arc::new(local.in_zone_of(at))),
                (_, None, _) => Value::DateTime(Arc::new(Zone::Offset(0).place(local))),
            })
        }
    }
}

fn is_unit_of_date(unit: &str) -> bool {
    cut_date(unit, Some(Date { epoch_day: 0 })).is_some() && nanos_of(unit).is_none_or(|nanos| nanos == NANOS_PER_DAY)
}

/// The first day of the unit; the day itself when the unit is smaller.
fn cut_date(unit: &str, date: Option<Date>) -> Option<Date> {
    let date = date?;
    let (year, month, _) = date.civil();
    let years = |count: i64| Date::of(year.div_euclid(count) * count, 1, 1);
    match unit {
        "millennium" => years(1000),
        "century" => years(100),
        "decade" => years(10),
        "year" => years(1),
        "weekYear" => iso::of_week(date.week().0, 1, 1),
        "quarter" => Date::of(year, date.quarter() * 3 - 2, 1),
        "month" => Date::of(year, month, 1),
        "week" => date.plus_days(1 - date.day_of_week()),
        _ => nanos_of(unit).map(|_| date),
    }
}

/// Units of the time of day.
fn nanos_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "day" => NANOS_PER_DAY,
        "hour" => 3600 * NANOS_PER_SECOND,
        "minute" => 60 * NANOS_PER_SECOND,
        "second" => NANOS_PER_SECOND,
        "millisecond" => 1_000_000,
        "microsecond" => 1_000,
        _ => return None,
    })
}

/// Midnight for units of the date.
fn cut_time(unit: &str, nano_of_day: Option<i64>) -> Option<i64> {
    let nanos = nanos_of(unit).unwrap_or(NANOS_PER_DAY);
    nano_of_day.map(|nano_of_day| nano_of_day / nanos * nanos)
}

/// A map that sets nanoseconds means those below what was left by the cut, not all of the second's.
fn within_second(unit: &str, cut: i64, fields: &Map) -> Map {
    let mut fields = fields.clone();
    let nanos = cut % NANOS_PER_SECOND;
    let smaller: &[&str] = match unit {
        "millisecond" => &["microsecond", "nanosecond"],
        "microsecond" => &["nanosecond"],
        _ => &[],
    };
    let given = |key: &str| fields.get(key).is_some();
    if smaller.iter().any(|key| given(key)) && !given("millisecond") {
        let micros = !given("microsecond") && unit == "microsecond";
        fields.insert("millisecond".into(), Value::Integer(nanos / 1_000_000));
        if micros {
            fields.insert("microsecond".into(), Value::Integer(nanos / 1_000 % 1_000));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use weir_model::IdScheme;
    use weir_model::expression::GraphFree;

    use super::super::testing::call;
    use super::*;

    fn check(name: &str, unit: &str, value: (&str, &str), fields: &[(&str, Value)], expected: &str) {
        let value = call(value.0, &[Value::text(value.1)]).expect("a point in time");
        let fields = Value::map(fields.iter().map(|(key, value)| ((*key).into(), value.clone())));
        let cut = call(name, &[Value::text(unit), value, fields]);
        let shown = cut.map_or_else(|failure| failure.message, |value| value.to_text());
        assert_eq!(shown, expected, "{name} to {unit}");
    }

    #[test]
    fn every_unit_has_a_beginning() {
        let at = ("datetime", "1984-11-11T12:31:14.645876123+01:00");
        for (unit, expected) in [
            ("millennium", "1000-01-01T00:00+01:00"),
            ("century", "1900-01-01T00:00+01:00"),
            ("decade", "1980-01-01T00:00+01:00"),
            ("year", "1984-01-01T00:00+01:00"),
            ("weekYear", "1984-01-02T00:00+01:00"),
            ("quarter", "1984-10-01T00:00+01:00"),
            ("month", "1984-11-01T00:00+01:00"),
            ("week", "1984-11-05T00:00+01:00"),
            ("day", "1984-11-11T00:00+01:00"),
            ("hour", "1984-11-11T12:00+01:00"),
            ("minute", "1984-11-11T12:31+01:00"),
            ("second", "1984-11-11T12:31:14+01:00"),
            ("millisecond", "1984-11-11T12:31:14.645+01:00"),
            ("microsecond", "1984-11-11T12:31:14.645876+01:00"),
        ] {
            check("datetime.truncate", unit, at, &[], expected);
        }
        check("date.truncate", "weekYear", ("date", "1984-01-01"), &[], "1983-01-03");
        check("date.truncate", "decade", ("date", "-0005-06-07"), &[], "-0010-01-01");
        check("date.truncate", "hour", at, &[], "date cannot be cut to `hour`");
        check("time.truncate", "month", at, &[], "time cannot be cut to `month`");
        assert!(call("date.truncate", &[Value::text("fortnight")]).is_err_and(|f| f.message.contains("no unit `fortnight`")));
        assert_eq!(call("date.truncate", &[Value::text("year")]).map(|v| v.to_text()).as_deref(), Ok("1970-01-01"));
    }

    #[test]
    fn fields_are_set_after_the_cut() {
        let at = ("datetime", "1984-10-11T12:31:14.645876123-01:00");
        let two = Value::Integer(2);
        check("date.truncate", "week", at, &[("dayOfWeek", two.clone())], "1984-10-09");
        check("datetime.truncate", "millisecond", at, &[("nanosecond", two.clone())], "1984-10-11T12:31:14.645000002-01:00");
        check("datetime.truncate", "microsecond", at, &[("nanosecond", two.clone())], "1984-10-11T12:31:14.645876002-01:00");
        check("time.truncate", "hour", at, &[("timezone", Value::text("+01:00"))], "12:00+01:00");
        let stockholm = [("timezone", Value::text("Europe/Stockholm"))];
        check("datetime.truncate", "hour", at, &stockholm, "1984-10-11T12:00+01:00[Europe/Stockholm]");
        check("localtime.truncate", "day", ("localdatetime", "1984-10-11T12:31"), &[("nanosecond", two)], "00:00:00.000000002");
        check("time.truncate", "hour", ("localdatetime", "2024-07-01T12:31"), &stockholm, "12:00+02:00");
    }

    /// Not that of the day with the number 0: in 1970 London had the time of summer all year.
    #[test]
    fn a_time_without_a_day_has_the_offset_of_today() {
        let time = call("localtime", &[Value::text("12:31")]).expect("a time");
        let fields = |zone: &str| Value::map([("timezone".into(), Value::text(zone))]);
        let cut = |context: &GraphFree, zone: &str| {
            let function = super::super::find("time.truncate").expect("there is one");
            (function.run)(context, &[Value::text("hour"), time.clone(), fields(zone)]).map(|value| value.to_text())
        };
        let kept = || GraphFree::constants(IdScheme::Uuid);
        // A day in winter, and one in summer.
        for (millis, expected) in [(1_704_067_200_000, "12:00Z"), (1_719_792_000_000, "12:00+01:00")] {
            assert_eq!(cut(&kept().at(millis), "Europe/London").as_deref(), Ok(expected));
        }
        assert!(cut(&kept(), "Europe/London").is_err_and(|failure| failure.message.contains("offset of the current time")));
        assert_eq!(cut(&kept(), "UTC").as_deref(), Ok("12:00Z"));
    }
}
