//! `reify.time`: the nodes of the periods a moment lies in.
//!
//! It is a query like any a user could write: ids by `idFrom`, labels and properties by SET, edges by MERGE. Only which
//! moments the periods begin at is computed here.

use std::fmt::Write as _;

use weir_model::expression::FailureKind;
use weir_model::procedure::{Caller, Chosen};
use weir_model::temporal::{Date, DateTime, LocalDateTime, NANOS_PER_SECOND, SECONDS_PER_DAY, zone};
use weir_model::{Failure, Text, Value};

use super::query::Queries;

const PERIODS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];

pub fn choose(queries: &Queries, caller: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    let (moment, periods) = match arguments {
        [] => (None, None),
        [periods @ (Value::List(_) | Value::Text(_))] => (None, Some(periods)),
        [Value::DateTime(at)] => (Some(DateTime::clone(at)), None),
        [Value::DateTime(at), periods @ Value::List(_)] => (Some(DateTime::clone(at)), Some(periods)),
        // A moment that is null is none, and not now: the record would be filed where it does not belong.
        _ => {
            let shown: Vec<String> = arguments.iter().map(weir_model::arithmetic::shortened).collect();
            let signature = "reify.time(timestamp :: DATETIME, periods :: LIST OF STRING) :: (node :: NODE)";
            let message = format!("Expected signature `{signature}` but got arguments {}", shown.join(", "));
            return Err(Failure::new(FailureKind::WrongSignature, message));
        }
    };
    let now = caller.now_millis();
    let moment = moment.unwrap_or_else(|| DateTime::utc(now.div_euclid(1000), 0));
    let periods = periods.map_or(Ok((0..PERIODS.len()).collect()), requested)?;
    let mut parameters: Vec<(Text, Value)> = Vec::new();
    for period in &periods {
        let begins = begins(&moment, *period)
            .ok_or_else(|| Failure::new(FailureKind::InvalidArgument, "reify.time: the moment lies beyond the calendar"))?;
        for (at, role) in begins.into_iter().zip(ROLES) {
            parameters.push((format!("{role}{period}Text").into(), Value::text(&moment_text(&at))));
            parameters.push((format!("{role}{period}").into(), Value::DateTime(at.into())));
        }
    }
    let (names, values): (Vec<Text>, Vec<Value>) = parameters.into_iter().unzip();
    let plan = queries.compile(&text(&periods), names)?;
    Ok(Some(Chosen { plan, parameters: values, as_maps: false, time_ms_max: None, at_ms: None }))
}

/// Before, this one, after.
const ROLES: [&str; 3] = ["b", "t", "a"];

fn text(periods: &[usize]) -> String {
    let nodes = || periods.iter().flat_map(|period| ROLES.map(|role| (role, *period)));
    let mut text = String::from("MATCH ");
    let separated = |i: usize, by: &'static str| if i == 0 { "" } else { by };
    for (i, (role, period)) in nodes().enumerate() {
        let _ = write!(text, "{}({role}{period})", separated(i, ", "));
    }
    for (i, (role, at)) in nodes().enumerate() {
        let word = separated(i, " AND ");
        let word = if word.is_empty() { " WHERE " } else { word };
        let _ = write!(text, "{word}id({role}{at}) = idFrom('time-node', '{}', ${role}{at}Text)", PERIODS[at]);
    }
    for (role, at) in nodes() {
        let (node, name) = (format!("{role}{at}"), PERIODS[at]);
        let _ = write!(text, " SET {node}:`{name}`, {node}.period = '{name}', {node}.start = ${node}");
    }
    for at in periods {
        let _ = write!(text, " MERGE (b{at})-[:NEXT]->(t{at}) MERGE (t{at})-[:NEXT]->(a{at})");
    }
    for pair in periods.windows(2) {
        let _ = write!(text, " MERGE (t{})-[:`{}`]->(t{})", pair[0], PERIODS[pair[1]].to_uppercase(), pair[1]);
    }
    let _ = write!(text, " RETURN t{} AS node", periods.last().copied().unwrap_or_default());
    text
}

/// Indices into `PERIODS`, coarse before fine.
fn requested(value: &Value) -> Result<Vec<usize>, Failure> {
    let names: &[Value] = match value {
        Value::List(names) => names,
        one => std::slice::from_ref(one),
    };
    let refuse = |what: &str| Failure::new(FailureKind::ConstraintViolation, what);
    let mut periods = Vec::new();
    for name in names {
        let known = |known: &str| matches!(name, Value::Text(text) if text.eq_ignore_ascii_case(known));
        match PERIODS.iter().position(|period| known(period)) {
            Some(at) => periods.push(at),
            None => {
                let message = "Argument 'periods' must contain only valid period specifiers (eg, 'year', 'minute', etc.)";
                return Err(refuse(message));
            }
        }
    }
    if periods.is_empty() {
        return Err(refuse("Argument 'periods' must not be empty"));
    }
    periods.sort_unstable();
    periods.dedup();
    Ok(periods)
}

/// Where the period before, the one of the moment and the one after begin, by the clocks of the moment's own zone: each with the
/// offset that is in force there then, which alone is kept of the zone.
fn begins(moment: &DateTime, period: usize) -> Option<[DateTime; 3]> {
    let later = |at: &DateTime, seconds: i64| {
        let epoch_second = at.epoch_second.checked_add(seconds)?;
        in_calendar(epoch_second)?;
        Some(DateTime { epoch_second, ..at.clone() }.at_zone(at.offset_seconds, at.zone.clone()))
    };
    in_calendar(moment.epoch_second)?;
    let this = begin(moment, period)?;
    let before = begin(&later(&this, -1)?, period)?;
    let after = match length(period) {
        None => {
            let first = first_day(this.local().date(), period)?;
            let next = if PERIODS[period] == "day" { first.plus_days(1)? } else { first.plus_months(months(period))? };
            midnight(next, moment)
        }
        // Where clocks are put back by a part of the period, its end is further away.
        Some(length) => {
            let mut ends = [length, 2 * length].into_iter().filter_map(|seconds| begin(&later(&this, seconds)?, period));
            ends.find(|end| end.epoch_second > this.epoch_second)?
        }
    };
    Some([before, this, after].map(|at| DateTime { zone: None, ..at }))
}

fn begin(moment: &DateTime, period: usize) -> Option<DateTime> {
    let local = moment.local();
    match length(period) {
        None => Some(midnight(first_day(local.date(), period)?, moment)),
        Some(length) => {
            let nanos = length * NANOS_PER_SECOND;
            Some(LocalDateTime { nano_of_day: local.nano_of_day / nanos * nanos, ..local }.in_zone_of(moment))
        }
    }
}

/// In seconds, of the periods that have one.
fn length(period: usize) -> Option<i64> {
    match PERIODS[period] {
        "hour" => Some(3600),
        "minute" => Some(60),
        "second" => Some(1),
        _ => None,
    }
}

fn months(period: usize) -> i64 {
    if PERIODS[period] == "year" { 12 } else { 1 }
}

fn first_day(date: Date, period: usize) -> Option<Date> {
    let (year, month, _) = date.civil();
    match PERIODS[period] {
        "year" => Date::of(year, 1, 1),
        "month" => Date::of(year, month, 1),
        _ => Some(date),
    }
}

/// When the day begins in the moment's zone, whatever the time of the moment: where clocks show midnight twice it is the first.
fn midnight(date: Date, moment: &DateTime) -> DateTime {
    let local = LocalDateTime { epoch_day: date.epoch_day, nano_of_day: 0 };
    let in_region = moment.zone.as_deref().and_then(|name| zone::at_local(name, local, None));
    in_region.unwrap_or_else(|| local.with_offset(moment.offset_seconds, None))
}

fn in_calendar(epoch_second: i64) -> Option<Date> {
    Date { epoch_day: 0 }.plus_days(epoch_second.div_euclid(SECONDS_PER_DAY))
}

/// `2023-01-01T00:00:00Z`: what the id of a node is made of.
fn moment_text(at: &DateTime) -> String {
    let local = at.local();
    let (year, month, day) = Date { epoch_day: local.epoch_day }.civil();
    let second = local.nano_of_day / 1_000_000_000;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let sign = if year < 0 {
        "-"
    } else if year > 9999 {
        "+"
    } else {
        ""
    };
    let mut text = format!("{sign}{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", year.abs());
    let offset = at.offset_seconds;
    if offset == 0 {
        text.push('Z');
    } else {
        let (sign, all) = (if offset < 0 { '-' } else { '+' }, offset.abs());
        let _ = write!(text, "{sign}{:02}:{:02}", all / 3600, all / 60 % 60);
        if all % 60 != 0 {
            let _ = write!(text, ":{:02}", all % 60);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_where_the_calendar_says() {
        // 2024-02-29T23:59:58.5+01:00
        let moment = DateTime { epoch_second: 1_709_247_598, nano: 500_000_000, offset_seconds: 3600, zone: None };
        let shown = |period: &str| {
            let at = PERIODS.iter().position(|known| *known == period).expect("a period");
            begins(&moment, at).expect("in the calendar").map(|at| moment_text(&at)).join(" ")
        };
        assert_eq!(shown("year"), "2023-01-01T00:00:00+01:00 2024-01-01T00:00:00+01:00 2025-01-01T00:00:00+01:00");
        assert_eq!(shown("month"), "2024-01-01T00:00:00+01:00 2024-02-01T00:00:00+01:00 2024-03-01T00:00:00+01:00");
        assert_eq!(shown("day"), "2024-02-28T00:00:00+01:00 2024-02-29T00:00:00+01:00 2024-03-01T00:00:00+01:00");
        assert_eq!(shown("hour"), "2024-02-29T22:00:00+01:00 2024-02-29T23:00:00+01:00 2024-03-01T00:00:00+01:00");
        assert_eq!(shown("second"), "2024-02-29T23:59:57+01:00 2024-02-29T23:59:58+01:00 2024-02-29T23:59:59+01:00");
        let far = DateTime { epoch_second: i64::MAX, nano: 0, offset_seconds: 0, zone: None };
        assert!((0..6).all(|period| begins(&far, period).is_none()));
    }

    /// A year has clocks of winter and of summer, whichever the moment lies in.
    #[test]
    fn periods_of_a_region_begin_by_its_clocks() {
        let check = |text: &str, zone: &str, local: LocalDateTime, preferred: Option<i32>, period: &str, expected: &str| {
            let moment = zone::at_local(zone, local, preferred).expect("a zone");
            assert_eq!(moment.to_string(), format!("{text}[{zone}]"));
            let at = PERIODS.iter().position(|known| *known == period).expect("a period");
            let begins = begins(&moment, at).expect("in the calendar");
            assert!(begins.iter().all(|at| at.zone.is_none()));
            assert_eq!(begins.map(|at| moment_text(&at)).join(" "), expected, "{period} of {moment}");
        };
        let local = |year, month, day, hour: i64, minute: i64| LocalDateTime {
            epoch_day: Date::of(year, month, day).expect("a date").epoch_day,
            nano_of_day: (hour * 60 + minute) * 60 * NANOS_PER_SECOND,
        };
        let paris = |text: &str, local: LocalDateTime, preferred: Option<i32>, period: &str, expected: &str| {
            check(text, "Europe/Paris", local, preferred, period, expected);
        };
        let (july, text) = (local(2024, 7, 1, 10, 11), "2024-07-01T10:11+02:00");
        paris(text, july, None, "year", "2023-01-01T00:00:00+01:00 2024-01-01T00:00:00+01:00 2025-01-01T00:00:00+01:00");
        paris(text, july, None, "month", "2024-06-01T00:00:00+02:00 2024-07-01T00:00:00+02:00 2024-08-01T00:00:00+02:00");
        let (spring, text) = (local(2024, 3, 31, 12, 0), "2024-03-31T12:00+02:00");
        paris(text, spring, None, "month", "2024-02-01T00:00:00+01:00 2024-03-01T00:00:00+01:00 2024-04-01T00:00:00+02:00");
        paris(text, spring, None, "day", "2024-03-30T00:00:00+01:00 2024-03-31T00:00:00+01:00 2024-04-01T00:00:00+02:00");
        let (skipped, text) = (local(2024, 3, 31, 3, 30), "2024-03-31T03:30+02:00");
        paris(text, skipped, None, "hour", "2024-03-31T01:00:00+01:00 2024-03-31T03:00:00+02:00 2024-03-31T04:00:00+02:00");
        let (twice, text) = (local(2024, 10, 27, 2, 30), "2024-10-27T02:30+01:00");
        let hours = "2024-10-27T02:00:00+02:00 2024-10-27T02:00:00+01:00 2024-10-27T03:00:00+01:00";
        paris(text, twice, Some(3600), "hour", hours);
        // Clocks are put back by half an hour at two.
        let hours = "2024-04-07T00:00:00+11:00 2024-04-07T01:00:00+11:00 2024-04-07T02:00:00+10:30";
        check("2024-04-07T01:10+11:00", "Australia/Lord_Howe", local(2024, 4, 7, 1, 10), None, "hour", hours);
        // They show midnight twice, and the day begins once.
        let days = "2024-11-02T00:00:00-04:00 2024-11-03T00:00:00-04:00 2024-11-04T00:00:00-05:00";
        check("2024-11-03T12:00-05:00", "America/Havana", local(2024, 11, 3, 12, 0), None, "day", days);
    }

    #[test]
    fn periods_of_a_region_follow_one_another() {
        for name in ["Europe/Paris", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "Europe/Amsterdam", "UTC"] {
            for (period, step) in [(2, 40_000), (3, 2_000), (4, 40)] {
                for from in [1_711_846_800, 1_712_415_600, 1_729_990_800, 1_325_239_200, -1_025_741_972] {
                    for count in -60..60 {
                        let at = DateTime::utc(from + count * step, 0).at_zone(0, Some(name.into()));
                        let [before, this, after] = begins(&at, period).expect("in the calendar");
                        assert!(this.epoch_second <= at.epoch_second && at.epoch_second < after.epoch_second, "{at}");
                        let there = |at: &DateTime| at.at_zone(0, Some(name.into()));
                        let beginning = |at: &DateTime| begins(&there(at), period).expect("in the calendar");
                        let (earlier, later) = (beginning(&before), beginning(&after));
                        assert_eq!((&earlier[1], &earlier[2]), (&before, &this), "{} of {at}", PERIODS[period]);
                        assert_eq!((&later[0], &later[1]), (&this, &after), "{} of {at}", PERIODS[period]);
                    }
                }
            }
        }
    }
}
