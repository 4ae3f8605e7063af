//! The durations between two points in time, in units of choice.
//!
//! What one of the two lacks is taken from the other: a missing date is the other's, a missing zone the other's, a missing
//! time midnight. Months and days are counted by the clock in the zone of the first, the rest by instants.

use std::sync::Arc;

use weir_model::expression::{Failure, FailureKind, Function};
use weir_model::temporal::{self, Date, DateTime, Duration, LocalDateTime, NANOS_PER_SECOND};
use weir_model::value::Value;

use super::iso::Zone;
use super::{date_map, strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("duration.between", 2, 2, BETWEEN, |_, arguments| {
        between(BETWEEN, arguments, &[Unit::Months, Unit::Days, Unit::Nanos])
    })
    .about(
        "How far the second point in time is from the first, in months, days and seconds.",
        "RETURN duration.between(date('1984-10-11'), date('2015-06-24'))",
    ),
    strict("duration.inMonths", 2, 2, IN_MONTHS, |_, arguments| between(IN_MONTHS, arguments, &[Unit::Months])).about(
        "How many whole months the second point in time is from the first.",
        "RETURN duration.inMonths(date('1984-10-11'), date('2015-06-24'))",
    ),
    strict("duration.inDays", 2, 2, IN_DAYS, |_, arguments| between(IN_DAYS, arguments, &[Unit::Days])).about(
        "How many whole days the second point in time is from the first.",
        "RETURN duration.inDays(date('1984-10-11'), date('2015-06-24'))",
    ),
    strict("duration.inSeconds", 2, 2, IN_SECONDS, |_, arguments| between(IN_SECONDS, arguments, &[Unit::Nanos])).about(
        "How many seconds and nanoseconds the second point in time is from the first.",
        "RETURN duration.inSeconds(datetime('2024-03-30T12:00[Europe/Paris]'), datetime('2024-03-31T12:00[Europe/Paris]'))",
    ),
];

const BETWEEN: &str = "duration.between(from :: ANY, to :: ANY) :: DURATION";
const IN_MONTHS: &str = "duration.inMonths(from :: ANY, to :: ANY) :: DURATION";
const IN_DAYS: &str = "duration.inDays(from :: ANY, to :: ANY) :: DURATION";
const IN_SECONDS: &str = "duration.inSeconds(from :: ANY, to :: ANY) :: DURATION";

#[derive(Clone, Copy)]
enum Unit {
    Months,
    Days,
    Nanos,
}

/// Two points in time made alike.
struct Pair {
    from: DateTime,
    to: DateTime,
    /// Whether both had a date, or one that the other took.
    dated: bool,
}

fn between(signature: &str, arguments: &[Value], units: &[Unit]) -> Result<Value, Failure> {
    let pair = pair(&arguments[0], &arguments[1]).ok_or_else(|| wrong_signature(signature, arguments))?;
    let name = signature.split('(').next().unwrap_or_default();
    let too_long = || Failure::new(FailureKind::Arithmetic, format!("{name}: the span is too long for a duration"));
    let span = pair.span(units).ok_or_else(too_long)?;
    Ok(Value::Duration(Arc::new(span)))
}

fn pair(from: &Value, to: &Value) -> Option<Pair> {
    let (first, second) = (date_map::date_of(from), date_map::date_of(to));
    let dated = first.is_some() || second.is_some();
    let nowhere = Date { epoch_day: 0 };
    let local = |value: &Value, own: Option<Date>, other: Option<Date>| {
        let nano_of_day = date_map::nano_of_day(value).or(own.map(|_| 0))?;
        let date = own.or(other).unwrap_or(nowhere);
        Some(LocalDateTime { epoch_day: date.epoch_day, nano_of_day })
    };
    let (first, second) = (local(from, first, second)?, local(to, second, first)?);
    // A point without a zone of its own is in that of the other.
    let zone = zone_of(from).or_else(|| zone_of(to)).unwrap_or(Zone::Offset(0));
    let place = |value: &Value, local: LocalDateTime| match value {
        Value::DateTime(at) => DateTime::clone(at),
        other => zone_of(other).as_ref().unwrap_or(&zone).place(local),
    };
    Some(Pair { from: place(from, first), to: place(to, second), dated })
}

fn zone_of(value: &Value) -> Option<Zone> {
    match value {
        Value::Time(time) => Some(Zone::Offset(time.offset_seconds)),
        Value::DateTime(at) => Some(at.zone.clone().map_or(Zone::Offset(at.offset_seconds), Zone::Region)),
        _ => None,
    }
}

impl Pair {
    /// Each unit takes what is whole in it and leaves the rest to the next.
    fn span(mut self, units: &[Unit]) -> Option<Duration> {
        let mut span = Duration::default();
        let target = self.to.at_zone(self.from.offset_seconds, self.from.zone.clone()).local();
        for unit in units {
            let start = self.from.local();
            let step = match unit {
                Unit::Nanos => {
                    let nanos = instant(&self.to) - instant(&self.from);
                    return span.plus(&Duration::of_nanos(nanos)?);
                }
                Unit::Months if self.dated => Duration { months: months(start, target), ..Duration::default() },
                Unit::Days if self.dated => Duration { days: days(start, target), ..Duration::default() },
                Unit::Months | Unit::Days => continue,
            };
            span = span.plus(&step)?;
            match temporal::plus(&Value::DateTime(Arc::new(self.from)), &step)? {
                Value::DateTime(moved) => self.from = DateTime::clone(&moved),
                _ => return None,
            }
        }
        Some(span)
    }
}

fn instant(at: &DateTime) -> i128 {
    i128::from(at.epoch_second) * i128::from(NANOS_PER_SECOND) + i128::from(at.nano)
}

/// The date that is whole days away: a day less where the time of day does not reach that far.
fn whole_days(from: LocalDateTime, to: LocalDateTime) -> i64 {
    if to.epoch_day > from.epoch_day && to.nano_of_day < from.nano_of_day {
        to.epoch_day - 1
    } else if to.epoch_day < from.epoch_day && to.nano_of_day > from.nano_of_day {
        to.epoch_day + 1
    } else {
        to.epoch_day
    }
}

fn days(from: LocalDateTime, to: LocalDateTime) -> i64 {
    whole_days(from, to) - from.epoch_day
}

fn months(from: LocalDateTime, to: LocalDateTime) -> i64 {
    // Days of a month are fewer than 32, so that months and days are one number.
    let count = |date: Date| {
        let (year, month, day) = date.civil();
        (year * 12 + month - 1) * 32 + day
    };
    (count(Date { epoch_day: whole_days(from, to) }) - count(from.date())) / 32
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn check(name: &str, from: (&str, &str), to: (&str, &str), expected: &str) {
        let make = |(kind, text): (&str, &str)| call(kind, &[Value::text(text)]).expect(text);
        let span = call(name, &[make(from), make(to)]).map(|span| span.to_text());
        assert_eq!(span.as_deref(), Ok(expected), "{name} from {from:?} to {to:?}");
    }

    #[test]
    fn what_one_lacks_is_the_others() {
        let between = "duration.between";
        check(between, ("date", "1984-10-11"), ("datetime", "2015-07-21T21:40:32.142+0100"), "P30Y9M10DT21H40M32.142S");
        check(between, ("time", "14:30"), ("date", "2015-06-24"), "PT-14H-30M");
        check(between, ("time", "14:30"), ("time", "16:30+0100"), "PT1H");
        check(between, ("localtime", "14:30"), ("time", "16:30+0100"), "PT2H");
        check(between, ("datetime", "2014-07-21T21:40:36.143+0200"), ("date", "2015-06-24"), "P11M2DT2H19M23.857S");
        check("duration.inDays", ("date", "1984-10-11"), ("localtime", "16:30"), "PT0S");
        check("duration.inSeconds", ("date", "2017-10-29"), ("datetime", "2017-10-29T04:00[Europe/Stockholm]"), "PT5H");
    }

    #[test]
    fn days_go_by_the_clock_and_seconds_by_instants() {
        let (from, to) = (("datetime", "2024-03-30T12:00[Europe/Paris]"), ("datetime", "2024-03-31T12:00[Europe/Paris]"));
        check("duration.between", from, to, "P1D");
        check("duration.inDays", from, to, "P1D");
        check("duration.inSeconds", from, to, "PT23H");
        check("duration.inMonths", ("datetime", "2018-07-21T21:40+0500"), ("datetime", "1984-07-21T22:40+0200"), "P-33Y-11M");
    }

    #[test]
    fn spans_are_as_long_as_the_calendar() {
        let (first, last) = (("localdatetime", "-999999999-01-01"), ("localdatetime", "+999999999-12-31T23:59:59"));
        check("duration.between", first, last, "P1999999998Y11M30DT23H59M59S");
        check("duration.inSeconds", first, last, "PT17531639991215H59M59S");
        check("duration.inSeconds", last, first, "PT-17531639991215H-59M-59S");
        let failure = call("duration.between", &[Value::Integer(1), Value::Integer(2)]).expect_err("no points in time");
        assert_eq!(failure.kind, FailureKind::WrongSignature);
    }
}
