//! Points in time as text of a pattern and back, in the letters of Java's `DateTimeFormatter` (`dd.MM.yyyy HH:mm`).
//!
//! The language is English of the United States: its names, and weeks that begin on Sunday, the first of a year being the
//! one with January 1st. Reading is strict about the text and puts together what the fields say as far as they agree.

use weir_model::arithmetic::shortened;
use weir_model::expression::{Failure, FailureKind};
use weir_model::temporal::{Date, LocalDateTime, LocalTime, NANOS_PER_SECOND, Time, zone};
use weir_model::value::Value;

use super::date_map;
use super::iso::{self, Zone};
use super::temporal::Kind;

const MONTHS: &[&str] =
    &["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Names of time that mean a region; others are names of regions.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("EST", "America/New_York"),
    ("EDT", "America/New_York"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("MST", "America/Denver"),
    ("MDT", "America/Denver"),
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("CET", "Europe/Paris"),
    ("CEST", "Europe/Paris"),
    ("BST", "Europe/London"),
    ("EET", "Europe/Athens"),
    ("EEST", "Europe/Athens"),
    ("JST", "Asia/Tokyo"),
    ("IST", "Asia/Kolkata"),
    ("AEST", "Australia/Sydney"),
    ("AEDT", "Australia/Sydney"),
];

/// Sections in brackets may lie in one another so deep.
const DEPTH_MAX: usize = 16;

#[derive(Debug, PartialEq)]
enum Item {
    Literal(String),
    Field {
        letter: char,
        count: usize,
    },
    /// In brackets: left out where it does not apply.
    Optional(Vec<Item>),
}

/// The value as text. A field that it does not have is a failure.
pub(super) fn format(value: &Value, pattern: &str) -> Result<String, Failure> {
    let items = items(pattern)?;
    let at = Shown::of(value);
    let mut out = String::new();
    write(&items, &at, &mut out)?;
    Ok(out)
}

/// Text of that pattern as a value of the kind. Without a zone: UTC; without a time: midnight.
pub(super) fn parse(kind: Kind, text: &str, pattern: &str) -> Result<Value, Failure> {
    let items = items(pattern)?;
    let mut reader = Reader { text, at: 0, furthest: 0, found: Found::default() };
    let read = reader.items(&items);
    let unread = |at: usize, why: &str| {
        let (text, pattern) = (shortened(&Value::text(text)), shortened(&Value::text(pattern)));
        failure(format!("Text {text} could not be parsed with pattern {pattern}: {why} at character {}", at + 1))
    };
    if !read {
        return Err(unread(text[..reader.furthest].chars().count(), "it differs"));
    }
    if reader.at < text.len() {
        return Err(unread(text[..reader.at].chars().count(), "there is more text"));
    }
    reader.found.value(kind).map_err(|missing| {
        let (text, pattern) = (shortened(&Value::text(text)), shortened(&Value::text(pattern)));
        failure(format!("Text {text}, read with pattern {pattern}, {missing}"))
    })
}

fn failure(message: String) -> Failure {
    Failure::new(FailureKind::InvalidArgument, message)
}

fn items(pattern: &str) -> Result<Vec<Item>, Failure> {
    let mut open: Vec<Vec<Item>> = vec![Vec::new()];
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let item = match c {
            'a'..='z' | 'A'..='Z' => {
                let mut count = 1;
                while rest.next_if_eq(&c).is_some() {
                    count += 1;
                }
                check(c, count)?;
                Item::Field { letter: c, count }
            }
            '\'' => {
                let mut literal = String::new();
                loop {
                    match rest.next() {
                        Some('\'') if rest.next_if_eq(&'\'').is_some() => literal.push('\''),
                        Some('\'') => break,
                        Some(other) => literal.push(other),
                        None => return Err(failure(format!("Pattern ends with an incomplete string literal: {pattern}"))),
                    }
                }
                Item::Literal(if literal.is_empty() { "'".to_owned() } else { literal })
            }
            '[' if open.len() < DEPTH_MAX => {
                open.push(Vec::new());
                continue;
            }
            '[' => return Err(failure(format!("Pattern has more than {DEPTH_MAX} sections in one another"))),
            ']' => match open.pop() {
                Some(section) if !open.is_empty() => Item::Optional(section),
                _ => return Err(failure("Pattern invalid as it contains ] without previous [".to_owned())),
            },
            '{' | '}' | '#' => return Err(failure(format!("Pattern includes reserved character: '{c}'"))),
            other => Item::Literal(other.to_string()),
        };
        if let Some(section) = open.last_mut() {
            section.push(item);
        }
    }
    // What is not closed ends with the pattern.
    while open.len() > 1 {
        let section = open.pop().unwrap_or_default();
        if let Some(outer) = open.last_mut() {
            outer.push(Item::Optional(section));
        }
    }
    Ok(open.pop().unwrap_or_default())
}

fn check(letter: char, count: usize) -> Result<(), Failure> {
    let allowed = match letter {
        'u' | 'y' | 'Y' => 1..=9,
        'G' | 'E' | 'M' | 'L' | 'Q' | 'q' | 'X' | 'x' | 'Z' => 1..=5,
        'D' => 1..=3,
        'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' | 'w' => 1..=2,
        'e' | 'c' | 'z' => 1..=4,
        'a' | 'W' | 'F' => 1..=1,
        'S' => 1..=9,
        'A' | 'n' | 'N' => 1..=18,
        'V' => 2..=2,
        'v' | 'O' if count == 4 => 4..=4,
        'v' | 'O' => 1..=1,
        _ => return Err(failure(format!("Unknown pattern letter: {letter}"))),
    };
    if allowed.contains(&count) { Ok(()) } else { Err(failure(format!("Wrong number of pattern letters: {letter}"))) }
}

/// What can be shown of a value.
struct Shown {
    date: Option<Date>,
    nano_of_day: Option<i64>,
    offset: Option<i32>,
    region: Option<String>,
    epoch_second: Option<i64>,
}

impl Shown {
    fn of(value: &Value) -> Shown {
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

fn write(items: &[Item], at: &Shown, out: &mut String) -> Result<(), Failure> {
    for item in items {
        match item {
            Item::Literal(text) => out.push_str(text),
            Item::Field { letter, count } => {
                let text = field(*letter, *count, at)
                    .ok_or_else(|| failure(format!("temporal.format: the value has no `{letter}` to show")))?;
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

fn field(letter: char, count: usize, at: &Shown) -> Option<String> {
    let number = |n: i64| format!("{n:0count$}");
    let year = |year: i64| match count {
        2 => format!("{:02}", year.rem_euclid(100)),
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

/// `GMT+1` or `GMT+01:00`.
fn localized(seconds: i32, full: bool) -> String {
    let size = seconds.unsigned_abs();
    let sign = if seconds < 0 { '-' } else { '+' };
    match (seconds, full, size / 60 % 60) {
        (0, ..) => "GMT".to_owned(),
        (_, true, minutes) => format!("GMT{sign}{:02}:{minutes:02}", size / 3600),
        (_, false, 0) => format!("GMT{sign}{}", size / 3600),
        (_, false, minutes) => format!("GMT{sign}{}:{minutes:02}", size / 3600),
    }
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

/// What a text said.
#[derive(Clone, Default)]
struct Found {
    year: Option<i64>,
    year_of_era: Option<i64>,
    before_common_era: bool,
    month: Option<i64>,
    quarter: Option<i64>,
    day: Option<i64>,
    ordinal_day: Option<i64>,
    day_of_week: Option<i64>,
    hour: Option<i64>,
    /// 0 to 11.
    hour_of_half: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    nano: Option<i64>,
    nano_of_day: Option<i64>,
    offset: Option<i32>,
    zone: Option<Zone>,
}

impl Found {
    fn date(&self) -> Result<Option<Date>, &'static str> {
        let of_era = self.year_of_era.map(|year| if self.before_common_era { 1 - year } else { year });
        let Some(year) = self.year.or(of_era) else { return Ok(None) };
        let date = match (self.ordinal_day, self.month, self.quarter, self.day) {
            (Some(ordinal), ..) => iso::of_ordinal(year, ordinal),
            (_, Some(month), _, day) => Date::of(year, month, day.unwrap_or(1)),
            (_, None, Some(quarter), day) => iso::of_quarter(year, quarter, day.unwrap_or(1)),
            (_, None, None, None) => Date::of(year, 1, 1),
            (_, None, None, Some(_)) => return Ok(None),
        };
        let date = date.ok_or("names no day of the calendar")?;
        if self.day_of_week.is_some_and(|day| day != date.day_of_week()) {
            return Err("names another day of the week than its date");
        }
        Ok(Some(date))
    }

    fn time(&self) -> Result<Option<i64>, &'static str> {
        if let Some(nano_of_day) = self.nano_of_day {
            return Ok(Some(nano_of_day));
        }
        let of_half = self.hour_of_half.map(|hour| hour + if self.afternoon == Some(true) { 12 } else { 0 });
        let Some(hour) = self.hour.or(of_half) else { return Ok(None) };
        let parts = [self.minute, self.second, self.nano].map(|part| part.unwrap_or(0));
        let time = LocalTime::of(hour, parts[0], parts[1], parts[2]).ok_or("names no time of the day")?;
        Ok(Some(time.nano_of_day))
    }

    fn value(&self, kind: Kind) -> Result<Value, &'static str> {
        let date = || self.date()?.ok_or("has no date");
        let time = || self.time()?.ok_or("has no time");
        let local =
            || Ok::<_, &'static str>(LocalDateTime { epoch_day: date()?.epoch_day, nano_of_day: self.time()?.unwrap_or(0) });
        let zone = self.zone.clone().or(self.offset.map(Zone::Offset)).unwrap_or(Zone::Offset(0));
        Ok(match kind {
            Kind::Date => Value::Date(date()?),
            Kind::LocalTime => Value::LocalTime(LocalTime { nano_of_day: time()? }),
            Kind::Time => {
                let day = self.date()?.map_or(0, |date| date.epoch_day);
                let placed = zone.place(LocalDateTime { epoch_day: day, nano_of_day: time()? });
                Value::Time(Time { nano_of_day: time()?, offset_seconds: self.offset.unwrap_or(placed.offset_seconds) })
            }
            Kind::LocalDateTime => Value::LocalDateTime(local()?),
            Kind::DateTime => {
                let local = local()?;
                let at = match self.offset {
                    // As in ISO text: the offset tells the instant, the zone how it is shown.
                    Some(offset) => zone.show(&local.with_offset(offset, None)),
                    None => zone.place(local),
                };
                Value::DateTime(at.into())
            }
        })
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Where reading came to before it failed.
    furthest: usize,
    found: Found,
}

impl Reader<'_> {
    fn items(&mut self, items: &[Item]) -> bool {
        for (place, item) in items.iter().enumerate() {
            let read = match item {
                Item::Literal(text) => self.literal(text),
                Item::Field { letter, count } => self.field(*letter, *count, reserved(&items[place + 1..])).is_some(),
                Item::Optional(section) => {
                    let (at, found) = (self.at, self.found.clone());
                    if !self.items(section) {
                        (self.at, self.found) = (at, found);
                    }
                    true
                }
            };
            self.furthest = self.furthest.max(self.at);
            if !read {
                return false;
            }
        }
        true
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn literal(&mut self, text: &str) -> bool {
        let read = self.rest().starts_with(text);
        if read {
            self.at += text.len();
        }
        read
    }

    /// A number of so many digits, less those that the numbers right behind it need.
    fn number(&mut self, min: usize, max: usize, reserved: usize) -> Option<i64> {
        let ahead = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let take = ahead.saturating_sub(reserved).clamp(min, max).min(ahead);
        if take < min {
            return None;
        }
        let number = self.rest()[..take].parse().ok()?;
        self.at += take;
        Some(number)
    }

    /// The place in the list of the name the text goes on with.
    fn name<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Option<i64> {
        let (place, name) =
            names.enumerate().filter(|(_, name)| self.rest().starts_with(name)).max_by_key(|(_, name)| name.len())?;
        self.at += name.len();
        Some(place as i64)
    }

    fn field(&mut self, letter: char, count: usize, reserved: usize) -> Option<()> {
        // A single letter takes as many digits as there are, two or more exactly so many.
        let short = |reader: &mut Self, max: usize| match count {
            1 => reader.number(1, max, reserved),
            _ => reader.number(count, count, 0),
        };
        let found = |place: &mut Option<i64>, n: i64| place.replace(n).is_none_or(|before| before == n).then_some(());
        match letter {
            'u' | 'y' => {
                let year = if count == 2 {
                    2000 + self.number(2, 2, 0)?
                } else {
                    let negative = self.literal("-");
                    if !negative && count >= 4 {
                        self.literal("+");
                    }
                    let size = self.number(count, 9, reserved)?;
                    if negative { -size } else { size }
                };
                found(if letter == 'u' { &mut self.found.year } else { &mut self.found.year_of_era }, year)
            }
            'G' => {
                let names = if count == 4 { ["Anno Domini", "Before Christ"] } else { ["AD", "BC"] };
                self.found.before_common_era = self.name(names.into_iter())? == 1;
                Some(())
            }
            'M' | 'L' => {
                let month = match count {
                    1 | 2 => short(self, 2)?,
                    3 => self.name(MONTHS.iter().map(|name| &name[..3]))? + 1,
                    _ => self.name(MONTHS.iter().copied())? + 1,
                };
                found(&mut self.found.month, month)
            }
            'Q' | 'q' => {
                if count == 3 && !self.literal("Q") {
                    return None;
                }
                let quarter = if count == 2 { self.number(2, 2, 0)? } else { self.number(1, 1, 0)? };
                found(&mut self.found.quarter, quarter)
            }
            'd' => short(self, 2).and_then(|n| found(&mut self.found.day, n)),
            'D' => short(self, 3).and_then(|n| found(&mut self.found.ordinal_day, n)),
            'E' | 'e' | 'c' => {
                let day = match (letter, count) {
                    ('e' | 'c', 1 | 2) => (short(self, 2)? + 5) % 7 + 1,
                    (_, 4) => self.name(DAYS.iter().copied())? + 1,
                    _ => self.name(DAYS.iter().map(|name| &name[..3]))? + 1,
                };
                found(&mut self.found.day_of_week, day)
            }
            'a' => {
                let afternoon = self.name(["AM", "PM"].into_iter())? == 1;
                self.found.afternoon = Some(afternoon);
                Some(())
            }
            'H' => short(self, 2).and_then(|n| found(&mut self.found.hour, n)),
            'k' => short(self, 2).filter(|n| (1..=24).contains(n)).and_then(|n| found(&mut self.found.hour, n % 24)),
            'K' => short(self, 2).filter(|n| (0..=11).contains(n)).and_then(|n| found(&mut self.found.hour_of_half, n)),
            'h' => short(self, 2).filter(|n| (1..=12).contains(n)).and_then(|n| found(&mut self.found.hour_of_half, n % 12)),
            'm' => short(self, 2).and_then(|n| found(&mut self.found.minute, n)),
            's' => short(self, 2).and_then(|n| found(&mut self.found.second, n)),
            'S' => {
                let digits = self.number(count, count, 0)?;
                found(&mut self.found.nano, digits * 10i64.pow(9 - count as u32))
            }
            'n' => self.number(count, 18, reserved).and_then(|n| found(&mut self.found.nano, n)),
            'N' => self.number(count, 18, reserved).and_then(|n| found(&mut self.found.nano_of_day, n)),
            'A' => {
                let nanos = self.number(count, 18, reserved)?.checked_mul(1_000_000)?;
                found(&mut self.found.nano_of_day, nanos)
            }
            'V' | 'z' | 'v' => self.zone(),
            'X' | 'x' | 'Z' | 'O' => {
                if letter == 'O' || (letter == 'Z' && count == 4) {
                    if !self.literal("GMT") {
                        return None;
                    }
                    if !self.rest().starts_with(['+', '-']) {
                        self.found.offset = Some(0);
                        return Some(());
                    }
                }
                self.offset()
            }
            // Fields of weeks make no date here.
            _ => None,
        }
    }

    fn offset(&mut self) -> Option<()> {
        let digits = |c: char| c.is_ascii_digit() || c == ':';
        let end = match self.rest().chars().next()? {
            'Z' => 1,
            '+' | '-' => 1 + self.rest()[1..].find(|c| !digits(c)).unwrap_or(self.rest().len() - 1),
            _ => return None,
        };
        let Zone::Offset(offset) = Zone::of(&self.rest()[..end])? else { return None };
        self.found.offset = Some(offset);
        self.at += end;
        Some(())
    }

    fn zone(&mut self) -> Option<()> {
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+' | ':');
        let end = self.rest().find(|c| !of_name(c)).unwrap_or(self.rest().len());
        let name = &self.rest()[..end];
        let region = ABBREVIATIONS.iter().find(|(short, _)| *short == name).map_or(name, |(_, region)| *region);
        let zone = Zone::of(region)?;
        self.found.zone = Some(zone);
        self.at += end;
        Some(())
    }
}

/// How many digits the numbers need that follow without anything between.
fn reserved(following: &[Item]) -> usize {
    let mut digits = 0;
    for item in following {
        match item {
            Item::Field { letter: 'M' | 'L' | 'Q' | 'q' | 'e' | 'c', count: 3.. } => break,
            Item::Field { letter, count } if *count > 1 || *letter == 'S' => match letter {
                'u' | 'y' | 'M' | 'L' | 'Q' | 'q' | 'd' | 'D' | 'H' | 'k' | 'K' | 'h' | 'm' | 's' | 'S' => digits += count,
                _ => break,
            },
            _ => break,
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn value(kind: &str, text: &str) -> Value {
        call(kind, &[Value::text(text)]).expect(text)
    }

    #[test]
    fn patterns_show_what_java_shows() {
        let at = value("datetime", "2024-02-09T14:05:06.078+01:00[Europe/Paris]");
        for (pattern, expected) in [
            ("yyyy-MM-dd", "2024-02-09"),
            ("dd/MM/yy HH:mm", "09/02/24 14:05"),
            ("EEE MMM d", "Fri Feb 9"),
            ("EEEE, MMMM d, uuuu", "Friday, February 9, 2024"),
            ("EEEEE MMMMM", "F F"),
            ("h:mm a", "2:05 PM"),
            ("HH:mm:ss.SSS", "14:05:06.078"),
            ("D DDD", "40 040"),
            ("w W e YYYY F", "6 2 6 2024 2"),
            ("kk K", "14 2"),
            ("Q QQ QQQ QQQQ", "1 01 Q1 1st quarter"),
            ("n N A", "78000000 50706078000000 50706078"),
            ("SSSSSSSSS S", "078000000 0"),
            ("yyyy'T'HH 'o''clock'", "2024T14 o'clock"),
            ("VV z", "Europe/Paris CET"),
            ("X XX XXX x Z ZZZZ ZZZZZ O OOOO", "+01 +0100 +01:00 +01 +0100 GMT+01:00 +01:00 GMT+1 GMT+01:00"),
            ("G GGGG", "AD Anno Domini"),
        ] {
            assert_eq!(format(&at, pattern).as_deref(), Ok(expected), "{pattern}");
        }
        let utc = value("datetime", "2024-02-09T14:05Z");
        assert_eq!(format(&utc, "X x xxx Z O VV").as_deref(), Ok("Z +00 +00:00 +0000 GMT Z"));
        let local = value("localdatetime", "-0004-01-01T00:05");
        assert_eq!(format(&local, "yyyy G u uuuu h[ XXX]").as_deref(), Ok("0005 BC -4 -0004 12"));
        assert_eq!(format(&value("date", "2023-12-31"), "w YYYY").as_deref(), Ok("1 2024"));
    }

    #[test]
    fn what_cannot_be_shown_fails() {
        let check = |value: &Value, pattern: &str, message: &str| {
            let failure = format(value, pattern).expect_err(pattern);
            assert!(failure.message.contains(message), "{failure}");
        };
        let local = value("localdatetime", "2024-02-09T14:05");
        check(&local, "XXX", "has no `X`");
        check(&value("date", "2024-02-09"), "HH", "has no `H`");
        check(&local, "'", "incomplete string literal");
        check(&local, "b", "Unknown pattern letter: b");
        check(&local, "ddd", "Wrong number of pattern letters: d");
        check(&local, "yyyy]", "without previous [");
        check(&local, "{", "reserved character");
        check(&local, &"[".repeat(100), "sections");
    }

    #[test]
    fn text_is_read_as_it_is_written() {
        let check = |kind: &str, text: &str, pattern: &str, expected: &str| {
            let read = call(kind, &[Value::text(text), Value::text(pattern)]);
            assert_eq!(read.map_or_else(|failure| failure.message, |read| read.to_text()), expected, "{text} by {pattern}");
        };
        check("date", "29/02/2024", "dd/MM/yyyy", "2024-02-29");
        check("date", "Feb 29, 2024", "MMM d, yyyy", "2024-02-29");
        check("date", "20240229", "yyyyMMdd", "2024-02-29");
        check("date", "2024060", "yyyyDDD", "2024-02-29");
        check("localdatetime", "20240229101112123", "yyyyMMddHHmmssSSS", "2024-02-29T10:11:12.123");
        check("localtime", "10:11 PM", "hh:mm a", "22:11");
        check("localtime", "12:11 AM", "hh:mm a", "00:11");
        check("time", "101112+0100", "HHmmssZ", "10:11:12+01:00");
        check("localdatetime", "29.02.24 10h", "dd.MM.yy HH'h'", "2024-02-29T10:00");
        check("datetime", "Thu, 29 Feb 2024 10:11:12 GMT", "EEE, dd MMM yyyy HH:mm:ss zzz", "2024-02-29T10:11:12Z[GMT]");
        check("datetime", "2024-07-01 10:11 EST", "yyyy-MM-dd HH:mm z", "2024-07-01T10:11-04:00[America/New_York]");
        check("datetime", "01/Jul/2024:10:11:12 -0700", "dd/MMM/yyyy:HH:mm:ss Z", "2024-07-01T10:11:12-07:00");
        check("datetime", "2024-07-01 10:11:12.5", "yyyy-MM-dd HH:mm:ss[.S][ X]", "2024-07-01T10:11:12.500Z");
        check("datetime", "2024-07-01 10:11:12", "yyyy-MM-dd HH:mm:ss[.S][ X]", "2024-07-01T10:11:12Z");
        check("datetime", "2024-07-01T10:11Z Europe/Paris", "uuuu-MM-dd'T'HH:mmX VV", "2024-07-01T12:11+02:00[Europe/Paris]");
        check("date", "5 BC", "y G", "-0004-01-01");
        let message = "Text \"2024-02-29x\" could not be parsed with pattern \"yyyy-MM-dd\": there is more text at character 11";
        check("date", "2024-02-29x", "yyyy-MM-dd", message);
        let message = "Text \"2024/02\" could not be parsed with pattern \"yyyy-MM\": it differs at character 5";
        check("date", "2024/02", "yyyy-MM", message);
        let message =
            "Text \"Mon 29/02/2024\", read with pattern \"EEE dd/MM/yyyy\", names another day of the week than its date";
        check("date", "Mon 29/02/2024", "EEE dd/MM/yyyy", message);
        check(
            "date",
            "30/02/2024",
            "dd/MM/yyyy",
            "Text \"30/02/2024\", read with pattern \"dd/MM/yyyy\", names no day of the calendar",
        );
        check("date", "10:11", "HH:mm", "Text \"10:11\", read with pattern \"HH:mm\", has no date");
    }
}
