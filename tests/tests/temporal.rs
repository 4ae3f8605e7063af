//! Dates, times and durations in queries: what is computed with them, and what is stored.

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir};

fn check(weir: &Weir, expressions: &[(&str, Json)]) {
    for (expression, expected) in expressions {
        let rows = weir.rows(&format!("RETURN {expression} AS v"));
        assert_eq!(rows, [json!([expected])], "{expression}");
    }
}

#[test]
fn points_in_time_are_moved_compared_and_asked() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let long = "duration({years: 12.5, months: 5.5, days: 14.5, hours: 16.5, minutes: 12.5, seconds: 70.5, nanoseconds: 3})";
    let mixed = "duration({months: 1, days: -14, hours: 16, minutes: -12, seconds: 70})";
    check(
        &weir,
        &[
            // Of what is below a day a date counts whole days.
            (&format!("date('1984-10-11') + {long}"), json!("1997-10-11")),
            (&format!("date('1984-10-11') - {long}"), json!("1971-10-12")),
            (&format!("date('1984-10-11') + {mixed}"), json!("1984-10-28")),
            (&format!("{mixed} + date('1984-10-11')"), json!("1984-10-28")),
            // A time goes round; days and months are nothing to it.
            (&format!("localtime('12:31:14.000000001') + {mixed}"), json!("04:20:24.000000001")),
            (&format!("time('12:31:14+01:00') - {mixed}"), json!("20:42:04+01:00")),
            (&format!("localdatetime('1984-10-11T12:31:14') + {mixed}"), json!("1984-10-29T04:20:24")),
            (&format!("datetime('1984-10-11T12:31:14+01:00') - {mixed}"), json!("1984-09-24T20:42:04+01:00")),
            ("date('2024-01-31') + duration('P1M')", json!("2024-02-29")),
            ("date('2024-03-31') - duration({months: 1})", json!("2024-02-29")),
            ("datetime('2024-03-30T02:30[Europe/Paris]') + duration('P1D')", json!("2024-03-31T03:30+02:00[Europe/Paris]")),
            ("datetime('2024-03-30T02:30[Europe/Paris]') + duration('PT24H')", json!("2024-03-31T03:30+02:00[Europe/Paris]")),
            ("datetime('2024-03-30T12:00[Europe/Paris]') + duration('PT24H')", json!("2024-03-31T13:00+02:00[Europe/Paris]")),
            (&format!("{mixed} + {mixed}"), json!("P2M-28DT31H38M20S")),
            (&format!("{mixed} - {mixed}"), json!("PT0S")),
            (&format!("{mixed} * 0.5"), json!("P8DT13H9M8S")),
            (&format!("{mixed} / 2"), json!("P8DT13H9M8S")),
            (&format!("0.5 * {mixed}"), json!("P8DT13H9M8S")),
            ("duration('PT0.000000001S') / 2", json!("PT0S")),
            ("duration({seconds: 2, milliseconds: -1}) * -1", json!("PT-1.999S")),
            ("-duration('P1M2DT3.5S')", json!("P-1M-2DT-3.5S")),
            // Comparing.
            ("date('2024-02-29') < date('2024-03-01')", json!(true)),
            ("time('10:00+01:00') < time('09:30Z')", json!(true)),
            ("datetime('2024-02-29T10:00Z') = datetime('2024-02-29T11:00+01:00')", json!(false)),
            ("datetime('2024-02-29T11:00+01:00') <= datetime('2024-02-29T10:00Z')", json!(true)),
            ("date('2024-02-29') < localdatetime('2024-02-29T10:00')", json!(null)),
            ("duration({days: 1}) = duration({hours: 24})", json!(false)),
            (
                "[x IN [date('2024-03-01'), date('-0001-01-01')] | x] = [date({year: 2024, month: 3}), date('-0001-01-01')]",
                json!(true),
            ),
            // Components.
            (
                "[d IN [date('1984-11-11')] | [d.year, d.quarter, d.month, d.week, d.weekYear, d.day, d.ordinalDay, d.weekDay, \
                 d.dayOfQuarter]][0]",
                json!([1984, 4, 11, 45, 1984, 11, 316, 7, 42]),
            ),
            ("[d IN [date('1984-01-01')] | [d.week, d.weekYear]][0]", json!([52, 1983])),
            (
                "[t IN [time('12:31:14.645876123+01:00')] | [t.hour, t.minute, t.second, t.millisecond, t.microsecond, \
                 t.nanosecond, t.timezone, t.offset, t.offsetMinutes, t.offsetSeconds]][0]",
                json!([12, 31, 14, 645, 645876, 645876123, "+01:00", "+01:00", 60, 3600]),
            ),
            (
                "[d IN [datetime('1984-11-11T12:31:14.645[Europe/Stockholm]')] | [d.timezone, d.offset, d.epochSeconds, \
                 d.epochMillis, d.day]][0]",
                json!(["Europe/Stockholm", "+01:00", 469020674, 469020674645i64, 11]),
            ),
            (
                "[d IN [duration({years: 1, months: 4, days: 10, hours: 1, minutes: 1, seconds: 1, nanoseconds: 111111111})] | \
                 [d.years, d.quarters, d.months, d.weeks, d.days, d.hours, d.minutes, d.seconds, d.milliseconds, d.microseconds, \
                 d.nanoseconds]][0]",
                json!([1, 5, 16, 1, 10, 1, 61, 3661, 3661111, 3661111111i64, 3661111111111i64]),
            ),
            (
                "[d IN [duration({years: 1, months: 4, days: 10, hours: 1, minutes: 1, seconds: 1, nanoseconds: 111111111})] | \
                 [d.quartersOfYear, d.monthsOfQuarter, d.monthsOfYear, d.daysOfWeek, d.minutesOfHour, d.secondsOfMinute, \
                 d.millisecondsOfSecond, d.microsecondsOfSecond, d.nanosecondsOfSecond]][0]",
                json!([1, 1, 4, 3, 1, 1, 111, 111111, 111111111]),
            ),
            ("date('2024-02-29').hour", json!(null)),
        ],
    );
    for (query, message) in [
        ("RETURN date('+999999999-12-31') + duration('P1D')", "out of range"),
        ("RETURN duration('P1D') / 0", "divided by zero"),
        ("RETURN duration('P1D') * (1.0 / 0)", "out of range"),
        ("RETURN date({year: 2023, month: 2, day: 29})", "makes no date"),
        ("RETURN datetime('2024-01-01T00:00[Mars/Base]')", "could not be parsed"),
        ("RETURN date.truncate('fortnight')", "no unit `fortnight`"),
        ("RETURN duration('P1D') - date('2024-01-01')", "subtraction"),
    ] {
        let answer = weir.query(query).expect(400);
        assert!(answer.text().contains(message), "{query}: {}", answer.shown());
    }
}

#[test]
fn what_is_stored_comes_back_after_a_restart() {
    let home = Home::new();
    let stored = "[date('-0044-03-15'), localtime('12:31:14.000000001'), time('12:31-02:30'), localdatetime('2024-02-29T10:11'), \
                  datetime('2024-07-01T10:11[Europe/Paris]'), duration('P1M-2DT0.5S')]";
    let weir = home.start(&[]);
    weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('kept') SET n.values = {stored}")).expect(200);
    weir.stop();
    let weir = home.start(&[]);
    let rows = weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('kept') RETURN n.values = {stored}, n.values"));
    let values = [
        "-0044-03-15",
        "12:31:14.000000001",
        "12:31-02:30",
        "2024-02-29T10:11",
        "2024-07-01T10:11+02:00[Europe/Paris]",
        "P1M-2DT0.5S",
    ];
    assert_eq!(rows, [json!([true, values])]);
}
