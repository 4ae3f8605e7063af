//! Text of a pattern as a point in time.

use weir_model::temporal::{Date, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, Time};
use weir_model::value::Value;

use super::super::iso::{self, Zone};
use super::super::temporal::Kind;
use super::{DAYS, Item, MONTHS};

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

/// What a text said.
#[derive(Clone, Default)]
pub(super) struct Found {
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

const NO_TIME: &str = "names no time of the day";

impl Found {
    /// With `24:00` it is the day after.
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
        let (of_year, month, day) = date.civil();
        let said = [
            (of_era, of_year),
            (self.quarter, date.quarter()),
            (self.month, month),
            (self.day, day),
            (self.ordinal_day, date.ordinal_day()),
        ];
        if said.iter().any(|(said, is)| said.is_some_and(|said| said != *is)) {
            return Err("names different days at once");
        }
        if self.is_end_of_day() {
            return date.plus_days(1).map(Some).ok_or("names no day of the calendar");
        }
        Ok(Some(date))
    }

    /// `24:00`.
    fn is_end_of_day(&self) -> bool {
        let smaller = [self.minute, self.second, self.nano];
        self.hour == Some(24) && self.nano_of_day.is_none() && smaller.into_iter().flatten().all(|part| part == 0)
    }

    fn time(&self) -> Result<Option<i64>, &'static str> {
        let hour = match (self.hour, self.hour_of_half, self.afternoon) {
            (Some(_), ..) if self.is_end_of_day() => Some(0),
            (None, Some(_), None) if self.nano_of_day.is_none() => {
                return Err("has an hour of half a day, and neither AM nor PM; add `a` to the pattern, or write `HH`");
            }
            (None, Some(hour), Some(afternoon)) => Some(if afternoon { hour + 12 } else { hour }),
            (hour, ..) => hour,
        };
        let [minute, second, nano] = [self.minute, self.second, self.nano].map(|part| part.unwrap_or(0));
        let time = match (self.nano_of_day, hour) {
            (Some(nano_of_day), _) => Some(nano_of_day).filter(|nano_of_day| *nano_of_day < NANOS_PER_DAY).ok_or(NO_TIME)?,
            (None, Some(hour)) => LocalTime::of(hour, minute, second, nano).ok_or(NO_TIME)?.nano_of_day,
            (None, None) => return Ok(None),
        };
        let of_day = |seconds: i64| time / (seconds * NANOS_PER_SECOND);
        let said = [
            (hour, of_day(3600)),
            (self.hour_of_half, of_day(3600) % 12),
            (self.afternoon.map(i64::from), of_day(3600) / 12),
            (self.minute, of_day(60) % 60),
            (self.second, of_day(1) % 60),
            (self.nano, time % NANOS_PER_SECOND),
        ];
        if said.iter().any(|(said, is)| said.is_some_and(|said| said != *is)) {
            return Err("names different times of the day at once");
        }
        Ok(Some(time))
    }

    pub(super) fn value(&self, kind: Kind) -> Result<Value, &'static str> {
        let date = || self.date()?.ok_or("has no date");
        let time = || self.time()?.ok_or("has no time");
        // A time alone has no day that another could follow.
        if matches!(kind, Kind::LocalTime | Kind::Time) && self.is_end_of_day() {
            return Err(NO_TIME);
        }
        let local =
            || Ok::<_, &'static str>(LocalDateTime { epoch_day: date()?.epoch_day, nano_of_day: self.time()?.unwrap_or(0) });
        let zone = self.zone.clone().or(self.offset.map(Zone::Offset)).unwrap_or(Zone::Offset(0));
        Ok(match kind {
            Kind::Date => Value::Date(date()?),
            Kind::LocalTime => Value::LocalTime(LocalTime { nano_of_day: time()? }),
            Kind::Time => {
                let nano_of_day = time()?;
                let offset_seconds = match (self.offset.or(zone.only_offset()), self.date()?) {
                    (Some(offset), _) => offset,
                    (None, Some(date)) => zone.place(LocalDateTime { epoch_day: date.epoch_day, nano_of_day }).offset_seconds,
                    (None, None) => return Err("names a zone in which the offset depends on the day, and no day"),
                };
                Value::Time(Time { nano_of_day, offset_seconds })
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

pub(super) struct Reader<'t> {
    pub text: &'t str,
    pub at: usize,
    /// Where reading came to before it failed.
    pub furthest: usize,
    pub found: Found,
}

impl Reader<'_> {
    pub(super) fn items(&mut self, items: &[Item]) -> bool {
        for (place, item) in items.iter().enumerate() {
            let read = match item {
                Item::Literal(text) => self.literal(text),
                Item::Field { letter, count } => self.field(*letter, *count, reserved(&items[place + 1..])).is_some(),
                Item::Padded { width, letter, count } => self.padded(*width, *letter, *count).is_some(),
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

    /// A number of `min` to `max` digits. It leaves the `reserved` ones that the numbers right behind it need.
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

    /// A field in exactly `width` characters, blanks before it.
    fn padded(&mut self, width: usize, letter: char, count: usize) -> Option<()> {
        let (whole, rest) = (self.text, self.rest());
        let end = self.at + rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(width)?;
        self.text = &whole[..end];
        while self.literal(" ") {}
        let read = self.field(letter, count, 0);
        self.text = whole;
        read.filter(|()| self.at == end)
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
                let behind_gmt = letter == 'O' || (letter == 'Z' && count == 4);
                if behind_gmt {
                    if !self.literal("GMT") {
                        return None;
                    }
                    if !self.rest().starts_with(['+', '-']) {
                        self.found.offset = Some(0);
                        return Some(());
                    }
                }
                self.offset(behind_gmt)
            }
            // Those of weeks: patterns with them are not read.
            _ => None,
        }
    }

    fn offset(&mut self, behind_gmt: bool) -> Option<()> {
        let digits = |c: char| c.is_ascii_digit() || c == ':';
        let end = match self.rest().chars().next()? {
            'Z' => 1,
            '+' | '-' => 1 + self.rest()[1..].find(|c| !digits(c)).unwrap_or(self.rest().len() - 1),
            _ => return None,
        };
        let text = &self.rest()[..end];
        let offset = if behind_gmt {
            iso::short_offset(text)?
        } else {
            let Zone::Offset(offset) = Zone::of(text)? else { return None };
            offset
        };
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
