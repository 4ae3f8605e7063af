//! `reify.time`: the nodes of the periods a moment lies in.
//!
//! It is a query like any a user could write: ids by `idFrom`, labels and properties by SET, edges by MERGE. Only which
//! moments the periods begin at is computed here.

use std::fmt::Write as _;

use weir_model::expression::FailureKind;
use weir_model::procedure::{Caller, Chosen};
use weir_model::temporal::{Date, DateTime, SECONDS_PER_DAY};
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

/// Where the period before, the one of the moment and the one after begin, by the clock of the moment's own offset.
fn begins(moment: &DateTime, period: usize) -> Option<[DateTime; 3]> {
    let offset = i64::from(moment.offset_seconds);
    let local = moment.epoch_second.checked_add(offset)?;
    let of_local = |second: i64| {
        Some(DateTime { epoch_second: second.checked_sub(offset)?, nano: 0, offset_seconds: moment.offset_seconds, zone: None })
    };
    let (day, second_of_day) = (local.div_euclid(SECONDS_PER_DAY), local.rem_euclid(SECONDS_PER_DAY));
    let seconds = match PERIODS[period] {
        "year" | "month" => {
            let (year, month, _) = Date { epoch_day: day }.plus_days(0)?.civil();
            let (first, months) =
                if PERIODS[period] == "year" { (Date::of(year, 1, 1)?, 12) } else { (Date::of(year, month, 1)?, 1) };
            let at = |date: Date| date.epoch_day.checked_mul(SECONDS_PER_DAY);
            [at(first.plus_months(-months)?)?, at(first)?, at(first.plus_months(months)?)?]
        }
        name => {
            let length = match name {
                "day" => SECONDS_PER_DAY,
                "hour" => 3600,
                "minute" => 60,
                _ => 1,
            };
            let start = (day * SECONDS_PER_DAY) + second_of_day / length * length;
            [start.checked_sub(length)?, start, start.checked_add(length)?]
        }
    };
    let [before, this, after] = seconds;
    Some([of_local(before)?, of_local(this)?, of_local(after)?])
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
        assert!((0..6).all(|period| begins(&far, period).is_none() || period > 1));
    }
}
