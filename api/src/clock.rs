//! Moments as text: ISO instants for bodies, the stamps of log lines. UTC throughout.

use std::time::{SystemTime, UNIX_EPOCH};

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

/// `2026-01-05 10:20:30,123`: what stands before a result on standard output.
pub fn stamp(time: SystemTime) -> String {
    let m = moment(time);
    let (hour, minute, second) = (m.second_of_day / 3600, m.second_of_day / 60 % 60, m.second_of_day % 60);
    format!("{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02},{:03}", m.year, m.month, m.day, m.nanos / 1_000_000)
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
    fn dates_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_770_091_506_789, "2026-02-03T04:05:06.789Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(instant(from_millis(millis)), expected);
        }
        assert_eq!(stamp(from_millis(1_770_091_506_009)), "2026-02-03 04:05:06,009");
    }
}
