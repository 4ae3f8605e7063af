//! A point in time as text of a pattern.

use std::iter;

use weir_model::expression::Failure;
use weir_model::temporal::{Date, NANOS_PER_SECOND, zone};
use weir_model::value::Value;

use super::super::date_map;
use super::{DAYS, Item, MONTHS, failure};

/// What can be shown of a value.
pub(super) struct Shown {
    date: Option<Date>,
    nano_of_day: Option<i64>,
    offset: Option<i32>,
    region: Option<String>,
    epoch_second: Option<i64>,
}

impl Shown {
    pub(super) fn of(value: &Value) -> Shown {
        let (region, epoch_second) = match value {
            Value::DateTime(at) => (at.zone.as_deref().map(str::to_owned), Some(at.epoch_second)),
            _ => (None, None),
        };
        Shown {
            date: date_map::date_of(value),
            nano_of_day: date_map::nano_of_day(value),
            offset: date_map::offset_of(value),
            region,
            epoch_second,
        }
    }
}

pub(super) fn write(items: &[Item], at: &Shown, out: &mut String) -> Result<(), Failure> {
    for item in items {
        match item {
            Item::Literal(text) => out.push_str(text),
            Item::Field { letter, count } => out.push_str(&shown(*letter, *count, at)?),
            Item::Padded { width, letter, count } => {
                let text = shown(*letter, *count, at)?;
                let blanks = width.checked_sub(text.chars().count()).ok_or_else(|| {
                    failure(format!("temporal.format: `{text}` is longer than the {width} characters that `p` gives it"))
                })?;
                out.extend(iter::repeat_n(' ', blanks));
                out.push_str(&text);
            }
            Item::Optional(section) => {
                let length = out.len();
                if write(section, at, out).is_err() {
                    out.truncate(length);
                }
            }
        }
    }
    Ok(())
}

fn shown(letter: char, count: usize, at: &Shown) -> Result<String, Failure> {
    field(letter, count, at).ok_or_else(|| failure(format!("temporal.format: the value has no `{letter}` to show")))
}

fn field(letter: char, count: usize, at: &Shown) -> Option<String> {
    let number = |n: i64| format!("{n:0count$}");
    let year = |year: i64| match count {
        2 => format!("{:02}", year.unsigned_abs() % 100),
        _ if count >= 4 && year >= 10i64.pow(count as u32) => format!("+{year}"),
        _ if year < 0 => format!("-{:0count$}", -year),
        _ => number(year),
    };
    let name = |name: &str| match count {
        1..=3 => name.get(..3).map(str::to_owned),
        4 => Some(name.to_owned()),
        _ => name.get(..1).map(str::to_owned),
    };
    let date = || Some((at.date?, at.date?.civil()));
    let seconds = || Some(at.nano_of_day? / NANOS_PER_SECOND);
    let hour = || Some(seconds()? / 3600);
    Some(match letter {
        'G' => {
            let common = date()?.1.0 > 0;
            match (count, common) {
                (4, true) => "Anno Domini".to_owned(),
                (4, false) => "Before Christ".to_owned(),
                (5, true) => "A".to_owned(),
                (5, false) => "B".to_owned(),
                (_, true) => "AD".to_owned(),
                (_, false) => "BC".to_owned(),
            }
        }
        'u' => year(date()?.1.0),
        'y' => {
            let proleptic = date()?.1.0;
            year(if proleptic > 0 { proleptic } else { 1 - proleptic })
        }
        'Y' => year(week_of_year(date()?.0).0),
        'w' => number(week_of_year(date()?.0).1),
        'W' => number(week_of_month(date()?.0)),
        'M' | 'L' if count > 2 => name(MONTHS[(date()?.1.1 - 1) as usize])?,
        'M' | 'L' => number(date()?.1.1),
        'Q' | 'q' => {
            let quarter = date()?.0.quarter();
            match count {
                3 => format!("Q{quarter}"),
                4 => ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"][(quarter - 1) as usize].to_owned(),
                5 => quarter.to_string(),
                _ => number(quarter),
            }
        }
        'd' => number(date()?.1.2),
        'D' => number(date()?.0.ordinal_day()),
        'F' => number((date()?.1.2 - 1) % 7 + 1),
        'e' | 'c' if count < 3 => number(date()?.0.day_of_week() % 7 + 1),
        'E' | 'e' | 'c' => name(DAYS[(date()?.0.day_of_week() - 1) as usize])?,
        'a' => if hour()? < 12 { "AM" } else { "PM" }.to_owned(),
        'H' => number(hour()?),
        'k' => number(if hour()? == 0 { 24 } else { hour()? }),
        'K' => number(hour()? % 12),
        'h' => number(if hour()? % 12 == 0 { 12 } else { hour()? % 12 }),
        'm' => number(seconds()? / 60 % 60),
        's' => number(seconds()? % 60),
        'S' => format!("{:09}", at.nano_of_day? % NANOS_PER_SECOND).get(..count)?.to_owned(),
        'n' => number(at.nano_of_day? % NANOS_PER_SECOND),
        'N' => number(at.nano_of_day?),
        'A' => number(at.nano_of_day? / 1_000_000),
        'V' => match &at.region {
            Some(region) => region.clone(),
            None => offset(at.offset?, "Z", true, false, false),
        },
        // Nobody here knows the long names that Java has for four letters: the short one is what there is.
        'z' | 'v' => match (&at.region, at.epoch_second) {
            (Some(region), Some(second)) => zone::abbreviation_at(region, second).map_or(region.clone(), |name| name.to_string()),
            _ => offset(at.offset?, "Z", true, false, false),
        },
        'O' => localized(at.offset?, count == 4),
        'X' | 'x' => {
            let zero = match (letter, count) {
                ('X', _) => "Z",
                (_, 1) => "+00",
                (_, 2 | 4) => "+0000",
                _ => "+00:00",
            };
            offset(at.offset?, zero, matches!(count, 3 | 5), count == 1, count < 4)
        }
        'Z' if count == 4 => localized(at.offset?, true),
        'Z' if count == 5 => offset(at.offset?, "Z", true, false, false),
        'Z' => offset(at.offset?, "+0000", false, false, true),
        _ => return None,
    })
}

/// `+01:00`; without zero minutes where `short`, without seconds where `minutes_only`.
fn offset(offset: i32, zero: &str, colon: bool, short: bool, minutes_only: bool) -> String {
    if offset == 0 {
        return zero.to_owned();
    }
    let size = offset.unsigned_abs();
    let separator = if colon { ":" } else { "" };
    let mut text = format!("{}{:02}", if offset < 0 { '-' } else { '+' }, size / 3600);
    let (minutes, seconds) = (size / 60 % 60, size % 60);
    if !short || minutes != 0 {
        text.push_str(&format!("{separator}{minutes:02}"));
    }
    if seconds != 0 && !minutes_only {
        text.push_str(&format!("{separator}{seconds:02}"));
    }
    text
}

/// `GMT+1` or `GMT+01:00`; seconds where there are any.
fn localized(seconds: i32, full: bool) -> String {
    let mut text = offset(seconds, "", true, !full && seconds % 60 == 0, false);
    // Hours have one digit where that is enough.
    if !full && text.as_bytes().get(1) == Some(&b'0') {
        text.remove(1);
    }
    format!("GMT{text}")
}

/// Year and week, of weeks that begin on Sunday; the week with January 1st is the first.
fn week_of_year(date: Date) -> (i64, i64) {
    let sunday = date.epoch_day - date.day_of_week() % 7;
    let (year, ..) = Date { epoch_day: sunday + 6 }.civil();
    let first = date.epoch_day - date.ordinal_day() + 1;
    let first = if year == date.civil().0 { Date { epoch_day: first } } else { return (year, 1) };
    (year, (date.ordinal_day() - 1 + first.day_of_week() % 7) / 7 + 1)
}

fn week_of_month(date: Date) -> i64 {
    let (.., day) = date.civil();
    let first = Date { epoch_day: date.epoch_day - day + 1 };
    (day - 1 + first.day_of_week() % 7) / 7 + 1
}
