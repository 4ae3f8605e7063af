//! ISO 8601 text to dates, times and durations: the extended and the basic form, week, quarter and ordinal dates, and
//! anything left out from the right. None when the text is none of these.

use weir_model::temporal::{Amounts, Date, DateTime, Decimal, Duration, LocalDateTime, LocalTime, Time, zone};
use weir_model::value::Text;

pub(super) fn date(text: &str) -> Option<Date> {
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let date = cursor.date()?;
    cursor.at_end().then_some(date)
}

pub(super) fn local_time(text: &str) -> Option<LocalTime> {
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let time = cursor.time()?;
    cursor.at_end().then_some(time)
}

/// Without an offset: UTC.
pub(super) fn time(text: &str) -> Option<Time> {
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let time = cursor.time()?;
    let offset_seconds = cursor.offset()?.unwrap_or(0);
    cursor.at_end().then_some(Time { nano_of_day: time.nano_of_day, offset_seconds })
}

pub(super) fn local_date_time(text: &str) -> Option<LocalDateTime> {
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let local = cursor.local_date_time()?;
    cursor.at_end().then_some(local)
}

/// With an offset and a region the offset tells the instant, and the rules of the region how it is shown. Without either: UTC.
pub(super) fn date_time(text: &str) -> Option<DateTime> {
    let (text, zone) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((text, zone)) => (text, Some(Zone::of(zone)?)),
        None => (text, None),
    };
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let local = cursor.local_date_time()?;
    let offset = cursor.offset()?;
    if !cursor.at_end() {
        return None;
    }
    Some(match (offset, zone) {
        (Some(offset), Some(zone)) => zone.show(&local.with_offset(offset, None)),
        (Some(offset), None) => local.with_offset(offset, None),
        (None, Some(zone)) => zone.place(local),
        (None, None) => local.with_offset(0, None),
    })
}

/// Where clocks are set alike.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Zone {
    Offset(i32),
    Region(Text),
}

impl Zone {
    /// `Z`, `+01`, `+0100`, `+01:00`, `+01:00:30`, the same behind `UTC`, `GMT` or `UT`, which is a region with a name then, or a
    /// region by name, in which a blank may stand for `_`.
    pub(super) fn of(name: &str) -> Option<Zone> {
        let mut cursor = Cursor { bytes: name.as_bytes() };
        match cursor.offset()? {
            Some(offset) if cursor.at_end() => Some(Zone::Offset(offset)),
            _ => universal_time(name).or_else(|| zone::known(&name.replace(' ', "_"))).map(Zone::Region),
        }
    }

    /// The instant at which clocks there show that time.
    pub(super) fn place(&self, local: LocalDateTime) -> DateTime {
        match self {
            Zone::Offset(offset) => local.with_offset(*offset, None),
            Zone::Region(name) => zone::at_local(name, local, None).unwrap_or_else(|| local.with_offset(0, Some(name.clone()))),
        }
    }

    /// The offset that is in force there whatever the day.
    pub(super) fn only_offset(&self) -> Option<i32> {
        match self {
            Zone::Offset(offset) => Some(*offset),
            Zone::Region(name) => zone::only_offset(name),
        }
    }

    /// What clocks there show at that instant.
    pub(super) fn show(&self, at: &DateTime) -> DateTime {
        match self {
            Zone::Offset(offset) => at.at_zone(*offset, None),
            Zone::Region(name) => at.at_zone(0, Some(name.clone())),
        }
    }
}

/// `GMT+1` and its like by the one name that all ways of writing it have.
fn universal_time(name: &str) -> Option<Text> {
    let begins = |prefix: &&str| name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix));
    let prefix = zone::UNIVERSAL.into_iter().find(begins)?;
    let offset = &name[prefix.len()..];
    Some(zone::behind(prefix, if offset.is_empty() { 0 } else { short_offset(offset)? }))
}

/// Whether the name is of a zone in which the offset depends on the day.
pub(crate) fn has_several_offsets(name: &str) -> bool {
    Zone::of(name).is_some_and(|zone| zone.only_offset().is_none())
}

/// An offset behind `GMT`, where its hours may have one digit: `+1`, `+1:30`, and all that has two.
pub(super) fn short_offset(text: &str) -> Option<i32> {
    let mut cursor = Cursor { bytes: text.as_bytes() };
    let offset = cursor.signed_offset(1)??;
    cursor.at_end().then_some(offset)
}

/// `P1Y2M3W4DT5H6M7.008S`, every part optional, signed, and allowed a fraction; or `P2012-02-02T14:37:21.545`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let (negative, text) = match upper.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, upper.strip_prefix('+').unwrap_or(&upper)),
    };
    let text = text.strip_prefix('P')?;
    let year = text.len() >= 8 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    let dated = year && (text.as_bytes()[4] == b'-' || text.as_bytes()[4..8].iter().all(u8::is_ascii_digit));
    let duration = if dated { duration_of_date(text) } else { None };
    let duration = match duration {
        Some(duration) => duration,
        None => duration_of_units(text)?,
    };
    if negative { duration.negated() } else { Some(duration) }
}

/// Years, months and days as the fields of a date are written, though they are none: months and days are not limited.
fn duration_of_date(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00"));
    let (years, months, days) = match date.len() {
        10 if date.as_bytes()[7] == b'-' => (date.get(..4)?, date.get(5..7)?, date.get(8..)?),
        8 => (date.get(..4)?, date.get(4..6)?, date.get(6..)?),
        _ => return None,
    };
    let number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?;
    let months = number(years)? * 12 + number(months)?;
    Duration::of(months, number(days)?, 0, local_time(time)?.nano_of_day)
}

fn duration_of_units(text: &str) -> Option<Duration> {
    let (date, time) = match text.split_once('T') {
        // A `T` with nothing behind it is a mistake.
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    const OF_DATE: &[(char, &str)] = &[('Y', "years"), ('M', "months"), ('W', "weeks"), ('D', "days")];
    const OF_TIME: &[(char, &str)] = &[('H', "hours"), ('M', "minutes"), ('S', "seconds")];
    let mut amounts = Amounts::default();
    for (part, units) in [(date, OF_DATE), (time, OF_TIME)] {
        let (mut rest, mut units) = (part, units);
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let letter = rest[end..].chars().next()?;
            // Units come in order, each once.
            let place = units.iter().position(|(unit, _)| *unit == letter)?;
            amounts.add(units[place].1, Decimal::of_text(&rest[..end])?)?;
            units = &units[place + 1..];
            rest = &rest[end + 1..];
        }
    }
    amounts.duration()
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl Cursor<'_> {
    fn at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.bytes.first() == Some(&byte);
        if found {
            self.bytes = &self.bytes[1..];
        }
        found
    }

    fn digits_ahead(&self) -> usize {
        self.bytes.iter().take_while(|b| b.is_ascii_digit()).count()
    }

    /// A number of exactly `count` digits.
    fn number(&mut self, count: usize) -> Option<i64> {
        if count > 18 || self.digits_ahead() < count {
            return None;
        }
        let (digits, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Some(digits.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
    }

    fn date(&mut self) -> Option<Date> {
        let signed = matches!(self.bytes.first(), Some(b'+' | b'-'));
        let negative = self.take(b'-');
        if !negative {
            self.take(b'+');
        }
        // Only a signed year may have more than four digits, and then its end must be marked.
        let length = if signed { self.digits_ahead().clamp(4, 9) } else { 4 };
        let year = self.number(length)? * if negative { -1 } else { 1 };
        let dashed = self.take(b'-');
        match self.bytes.first() {
            Some(b'W') => {
                self.take(b'W');
                let week = self.number(2)?;
                let day = self.optional_part(dashed, 1)?;
                of_week(year, week, day)
            }
            Some(b'Q') => {
                self.take(b'Q');
                let quarter = self.number(1)?;
                let day = self.optional_part(dashed, 2)?;
                of_quarter(year, quarter, day)
            }
            _ => match self.digits_ahead() {
                0 if !dashed => Date::of(year, 1, 1),
                3 => of_ordinal(year, self.number(3)?),
                2 if dashed => {
                    let month = self.number(2)?;
                    let day = self.optional_part(true, 2)?;
                    Date::of(year, month, day)
                }
                2 => Date::of(year, self.number(2)?, 1),
                4 if !dashed => Date::of(year, self.number(2)?, self.number(2)?),
                _ => None,
            },
        }
    }

    /// A part that may be left out and is then 1. In the extended form a dash goes before it.
    fn optional_part(&mut self, dashed: bool, count: usize) -> Option<i64> {
        let given = if dashed { self.take(b'-') } else { self.digits_ahead() > 0 };
        if given { self.number(count) } else { Some(1) }
    }

    fn time(&mut self) -> Option<LocalTime> {
        let hour = self.number(2)?;
        let spread = self.take(b':');
        let (mut minute, mut second, mut nano) = (0, 0, 0);
        if spread || self.digits_ahead() > 0 {
            minute = self.number(2)?;
            if if spread { self.take(b':') } else { self.digits_ahead() > 0 } {
                second = self.number(2)?;
                if self.take(b'.') || self.take(b',') {
                    let count = self.digits_ahead();
                    if count == 0 || count > 9 {
                        return None;
                    }
                    nano = self.number(count)? * 10i64.pow(9 - count as u32);
                }
            }
        }
        LocalTime::of(hour, minute, second, nano)
    }

    fn local_date_time(&mut self) -> Option<LocalDateTime> {
        let date = self.date()?;
        let time = if self.take(b'T') || self.take(b't') { self.time()? } else { LocalTime { nano_of_day: 0 } };
        Some(LocalDateTime { epoch_day: date.epoch_day, nano_of_day: time.nano_of_day })
    }

    /// Some(None) when there is none; None when it is malformed.
    fn offset(&mut self) -> Option<Option<i32>> {
        if self.take(b'Z') || self.take(b'z') {
            return Some(Some(0));
        }
        self.signed_offset(2)
    }

    /// As `offset`, but without `Z`, and hours may have fewer than two digits.
    fn signed_offset(&mut self, hour_digits_min: usize) -> Option<Option<i32>> {
        let sign = if self.take(b'+') {
            1
        } else if self.take(b'-') {
            -1
        } else {
            return Some(None);
        };
        let hours = self.number(self.digits_ahead().clamp(hour_digits_min, 2))?;
        let mut rest = [0; 2];
        if self.bytes.first() == Some(&b':') {
            for part in &mut rest {
                if self.take(b':') {
                    *part = self.number(2)?;
                }
            }
        } else {
            for part in &mut rest {
                if self.digits_ahead() > 0 {
                    *part = self.number(2)?;
                }
            }
        }
        let seconds = (hours * 60 + rest[0]) * 60 + rest[1];
        (rest[0] < 60 && rest[1] < 60 && seconds <= 18 * 3600).then_some(Some(sign * seconds as i32))
    }
}

/// Week 1 is the one with the first Thursday.
pub(super) fn of_week(year: i64, week: i64, day: i64) -> Option<Date> {
    let fourth = Date::of(year, 1, 4)?;
    let monday = fourth.epoch_day - fourth.day_of_week() + 1;
    let date = Date { epoch_day: monday }.plus_days(week.checked_sub(1)?.checked_mul(7)?.checked_add(day)?.checked_sub(1)?)?;
    ((1..=7).contains(&day) && date.week() == (year, week)).then_some(date)
}

pub(super) fn of_quarter(year: i64, quarter: i64, day: i64) -> Option<Date> {
    if !(1..=4).contains(&quarter) {
        return None;
    }
    let date = Date::of(year, quarter * 3 - 2, 1)?.plus_days(day.checked_sub(1)?)?;
    (date.civil().0 == year && date.quarter() == quarter).then_some(date)
}

pub(super) fn of_ordinal(year: i64, day: i64) -> Option<Date> {
    let date = Date::of(year, 1, 1)?.plus_days(day.checked_sub(1)?)?;
    (date.civil().0 == year).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_all_their_forms() {
        let check = |text: &str, expected: &str| {
            assert_eq!(date(text).map(|d| d.to_string()).as_deref(), (!expected.is_empty()).then_some(expected), "{text}");
        };
        check("2015-07-21", "2015-07-21");
        check("20150721", "2015-07-21");
        check("2015-07", "2015-07-01");
        check("201507", "2015-07-01");
        check("2015-W30-2", "2015-07-21");
        check("2015W302", "2015-07-21");
        check("2015-W30", "2015-07-20");
        check("2015W30", "2015-07-20");
        check("2015-202", "2015-07-21");
        check("2015202", "2015-07-21");
        check("2015-Q3-21", "2015-07-21");
        check("2015", "2015-01-01");
        check("-0001-12-31", "-0001-12-31");
        check("+12345-01-01", "+12345-01-01");
        for bad in
            ["", "2015-13-01", "2015-02-29", "2015-W54-1", "2015-1-1", "2015-366", "2015-", "x", "2015-07-21T", "2015-Q5-01"]
        {
            check(bad, "");
        }
    }

    #[test]
    fn times_and_instants() {
        let check = |text: &str, expected: &str| {
            assert_eq!(date_time(text).map(|d| d.to_string()).as_deref(), (!expected.is_empty()).then_some(expected), "{text}");
        };
        check("2020-12-09T13:15:41.914-05:00", "2020-12-09T13:15:41.914-05:00");
        check("2020-12-09T13:15:41.914-05:00[America/Montreal]", "2020-12-09T13:15:41.914-05:00[America/Montreal]");
        check("2023-04-25T22:04:39Z", "2023-04-25T22:04:39Z");
        check("20150721T2140-0130", "2015-07-21T21:40-01:30");
        check("2015-W30-2T214032.142+0100", "2015-07-21T21:40:32.142+01:00");
        check("2015T22+18:00", "2015-01-01T22:00+18:00");
        check("2024-01-01T00:00:00[UTC]", "2024-01-01T00:00Z[UTC]");
        check("2015-07-21T21:40:32.142[Europe/London]", "2015-07-21T21:40:32.142+01:00[Europe/London]");
        check("2015-07-21T21:40:32.142+0845[Australia/Eucla]", "2015-07-21T21:40:32.142+08:45[Australia/Eucla]");
        check("1818-07-21T21:40:32.142[Europe/Stockholm]", "1818-07-21T21:40:32.142+00:53:28[Europe/Stockholm]");
        check("2024-07-01T10:11:12Z[Europe/Paris]", "2024-07-01T12:11:12+02:00[Europe/Paris]");
        check("2024-07-01T10:11:12[america/New York]", "2024-07-01T10:11:12-04:00[America/New_York]");
        check("+12345-07-01T10:11[Europe/Paris]", "+12345-07-01T10:11+02:00[Europe/Paris]");
        check("2020-12-09T13:15:41.914-00:44:30", "2020-12-09T13:15:41.914-00:44:30");
        check("2024-01-01t10:11:12.5z", "2024-01-01T10:11:12.500Z");
        check("20240101t101112+0100", "2024-01-01T10:11:12+01:00");
        check("2024-01-01T10:00[UTC+02:00]", "2024-01-01T10:00+02:00[UTC+02:00]");
        check("2024-01-01T10:00[GMT-2]", "2024-01-01T10:00-02:00[GMT-02:00]");
        check("2024-01-01T10:00Z[UT+0530]", "2024-01-01T15:30+05:30[UT+05:30]");
        check("2024-01-01T10:00[gmt+8:30]", "2024-01-01T10:00+08:30[GMT+08:30]");
        check("2024-01-01T10:00[UT]", "2024-01-01T10:00Z[UT]");
        check("2024-01-01T10:00[utc]", "2024-01-01T10:00Z[UTC]");
        check("2024-01-01T10:00[GMT-0]", "2024-01-01T10:00Z[GMT]");
        check("2024-01-01T10:00[GMT0]", "2024-01-01T10:00Z[GMT0]");
        check("2024-01-01T10:00+02:00[UTC+02:00]", "2024-01-01T10:00+02:00[UTC+02:00]");
        check("2024-01-01T10:00[z]", "2024-01-01T10:00Z");
        for bad in [
            "2024-01-01T25:00Z",
            "2024-01-01T00:00+19:00",
            "2024-01-01T00:00[Mars/Base]",
            "2024-01-01T00:00Zx",
            "now",
            "2024-01-01T00:00+01:",
            "2024-01-01T00:00+1",
            "2024-01-01t",
            "2024-01-01T00:00[+1]",
            "2024-01-01T00:00[UTCZ]",
            "2024-01-01T00:00[UTC+]",
            "2024-01-01T00:00[GMT+19]",
            "2024-01-01T00:00[GMT+830]",
            "2024-01-01T00:00[UTX]",
            "2024-01-01T00:00[EST+2]",
        ] {
            check(bad, "");
        }
        assert_eq!(local_time("21:40:32,142").map(|t| t.to_string()).as_deref(), Some("21:40:32.142"));
        assert_eq!(time("10:04:24-07:00").map(|t| t.to_string()).as_deref(), Some("10:04:24-07:00"));
        assert_eq!(local_date_time("2020-12-09T13").map(|t| t.to_string()).as_deref(), Some("2020-12-09T13:00"));
    }

    #[test]
    fn durations_of_units_and_of_dates() {
        let check = |text: &str, expected: &str| {
            assert_eq!(duration(text).map(|d| d.to_string()).as_deref(), (!expected.is_empty()).then_some(expected), "{text}");
        };
        check("PT20.345S", "PT20.345S");
        check("P14DT16H12M", "P14DT16H12M");
        check("P5M1.5D", "P5M1DT12H");
        check("P0.75M", "P22DT19H51M49.5S");
        check("PT0.75M", "PT45S");
        check("P2.5W", "P17DT12H");
        check("PT-0.5S", "PT-0.5S");
        check("-PT1H", "PT-1H");
        check("P12Y5M14DT16H12M70S", "P12Y5M14DT16H13M10S");
        check("P2012-02-02T14:37:21.545", "P2012Y2M2DT14H37M21.545S");
        check("P20120202T143721.545", "P2012Y2M2DT14H37M21.545S");
        check("P20120202D", "P20120202D");
        check("P0.1Y", "P1M6DT2H5M49.2S");
        check("P0.3Y0.4M", "P4M");
        check("pt0,5h", "PT30M");
        check("P-1Y2M-3DT4H", "P-10M-3DT4H");
        check("-P1DT0.5S", "P-1DT-0.5S");
        for bad in
            ["", "P", "PT", "P1", "P1H", "PT1D", "1D", "P1D1Y", "P1DT", "P1.D", "P--1D", "PT1e3S", "P99999999999999999999Y"]
        {
            check(bad, "");
        }
    }
}
