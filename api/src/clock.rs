//! Moments as text: ISO instants for bodies, the stamps of log lines. UTC throughout.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_model::temporal::{days_from_civil, days_of_month};

struct Moment {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    nanos: u32,
}

fn moment(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as i64;
    let days = seconds / 86_400;
    // Days to a date, in eras of 400 years that begin on a first of March: leap days come last.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    Moment {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * shifted + 2) / 5 + 1,
        second_of_day: seconds % 86_400,
        nanos: since.subsec_nanos(),
    }
}

/// `2026-02-03T04:05:06.789Z`; the fraction only where there is one.
pub fn instant(time: SystemTime) -> String {
    let m = moment(time);
    let (hour, minute, second) = (m.second_of_day / 3600, m.second_of_day / 60 % 60, m.second_of_day % 60);
    let fraction = match m.nanos / 1_000_000 {
        0 => String::new(),
        millis => format!(".{millis:03}"),
    };
    format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z", m.year, m.month, m.day)
}

/// `2026-02-03T04:05:06.789Z`, or with an offset, as milliseconds.
pub fn parse_instant(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(at);
    let numbers = |text: &str, separator: char, count: usize| -> Option<Vec<i64>> {
        let parts: Vec<&str> = text.split(separator).collect();
        let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() != count || !parts.iter().all(digits) {
            return None;
        }
        parts.iter().map(|part| part.parse().ok()).collect()
    };
    let date = numbers(date, '-', 3)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let time = numbers(time, ':', time.split(':').count().clamp(2, 3))?;
    let valid = (1..=12).contains(&date[1])
        && (1..=days_of_month(date[0], date[1])).contains(&date[2])
        && (0..10_000).contains(&date[0])
        && time.iter().zip([24, 60, 60]).all(|(part, limit)| *part < limit);
    if !valid || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let offset = match zone.strip_prefix(['+', '-']) {
        None if zone.len() == 1 => 0,
        None => return None,
        Some(offset) => {
            let parts = numbers(offset, ':', 2)?;
            let minutes = parts[0] * 60 + parts[1];
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let seconds = time[0] * 3600 + time[1] * 60 + time.get(2).copied().unwrap_or_default() - offset * 60;
    Some((days_from_civil(date[0], date[1], date[2]) * 86_400 + seconds) * 1000 + millis)
}

/// What a user types for a moment of the past: milliseconds since 1970, or an instant.
pub fn read_millis(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let read = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        parse_instant(text).and_then(|millis| u64::try_from(millis).ok())
    };
    read.ok_or_else(|| {
        format!("'{text}' is no time: it should be milliseconds since 1970, or a date and a time with its zone, such as 2026-11-29T14:09:00Z")
    })
}

/// `2026-01-05 10:20:30,123`: what stands before a result on standard output.
pub fn stamp(time: SystemTime) -> String {
    let m = moment(time);
    let (hour, minute, second) = (m.second_of_day / 3600, m.second_of_day / 60 % 60, m.second_of_day % 60);
    format!("{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02},{:03}", m.year, m.month, m.day, m.nanos / 1_000_000)
}

/// A time for whoever has spelt another one: in milliseconds since 1970 if that was, else as an instant.
pub fn spelt_like(given: &str, time: SystemTime) -> String {
    if given.parse::<i64>().is_ok() { millis(time).to_string() } else { instant(time) }
}

pub fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

pub fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + std::time::Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_spelt_as_another_is() {
        let time = from_millis(1_500);
        assert_eq!(spelt_like("99999999999999", time), "1500");
        assert_eq!(spelt_like("2999-01-01T00:00:00Z", time), "1970-01-01T00:00:01.500Z");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_770_091_506_789, "2026-02-03T04:05:06.789Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(instant(from_millis(millis)), expected);
            assert_eq!(parse_instant(expected), Some(millis as i64));
        }
        assert_eq!(stamp(from_millis(1_770_091_506_009)), "2026-02-03 04:05:06,009");
    }

    #[test]
    fn moments_are_typed_in_milliseconds_or_as_instants() {
        assert_eq!(read_millis(" 1700000000000 "), Ok(1_700_000_000_000));
        assert_eq!(read_millis("2023-11-14T23:13:20.5+01:00"), Ok(1_700_000_000_500));
        for wrong in ["", "noon", "-1", "1969-12-31T23:59:59Z", "2026-11-29T14:09:00", "99999999999999999999"] {
            assert!(read_millis(wrong).is_err_and(|reason| reason.contains("milliseconds since 1970")), "{wrong}");
        }
    }

    #[test]
    fn instants_are_read_in_any_zone() {
        assert_eq!(parse_instant("1970-01-01T01:00+01:00"), Some(0));
        assert_eq!(parse_instant("1969-12-31T23:59:59.9-00:30"), Some(1_799_900));
        for wrong in ["", "1970-01-01", "1970-02-30T00:00:00Z", "1970-01-01T24:00:00Z", "1970-01-01T00:00:00", "soon", "é-T:Z"] {
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }
}
