//! Temporal values as ISO 8601 text.

use std::cmp::Ordering;
use std::fmt;

use super::{Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS_PER_SECOND, Time};

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        let sign = match year.cmp(&0) {
            Ordering::Less => "-",
            _ if year > 9999 => "+",
            _ => "",
        };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
    }
}

/// Seconds are left out when they and the fraction are zero; the fraction has 3, 6 or 9 digits.
impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.nano_of_day / NANOS_PER_SECOND, self.nano_of_day % NANOS_PER_SECOND);
        write!(f, "{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
        if seconds % 60 != 0 || nanos != 0 {
            write!(f, ":{:02}", seconds % 60)?;
        }
        match nanos {
            0 => Ok(()),
            n if n % 1_000_000 == 0 => write!(f, ".{:03}", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, ".{:06}", n / 1_000),
            n => write!(f, ".{n:09}"),
        }
    }
}

/// `Z`, `+01:00`, `-00:44:30`.
pub struct Offset(pub i32);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("Z");
        }
        let size = self.0.unsigned_abs();
        write!(f, "{}{:02}:{:02}", if self.0 < 0 { '-' } else { '+' }, size / 3600, size / 60 % 60)?;
        if !size.is_multiple_of(60) { write!(f, ":{:02}", size % 60) } else { Ok(()) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", LocalTime { nano_of_day: self.nano_of_day }, Offset(self.offset_seconds))
    }
}

impl fmt::Display for LocalDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date(), LocalTime { nano_of_day: self.nano_of_day })
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.local(), Offset(self.offset_seconds))?;
        match &self.zone {
            Some(zone) => write!(f, "[{zone}]"),
            None => Ok(()),
        }
    }
}

/// `P1Y2M3DT4H5M6.007S`, each part with its own sign; `PT0S` when there is nothing.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, n: i64, unit: char| if n == 0 { Ok(()) } else { write!(f, "{n}{unit}") };
        f.write_str("P")?;
        part(f, self.months / 12, 'Y')?;
        part(f, self.months % 12, 'M')?;
        part(f, self.days, 'D')?;
        // Towards zero, so that all parts of the time have one sign.
        let total = i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos);
        let (seconds, nanos) = ((total / 1_000_000_000) as i64, (total % 1_000_000_000) as i64);
        if total == 0 {
            return if self.months == 0 && self.days == 0 { f.write_str("T0S") } else { Ok(()) };
        }
        f.write_str("T")?;
        part(f, seconds / 3600, 'H')?;
        part(f, seconds / 60 % 60, 'M')?;
        if nanos == 0 {
            return part(f, seconds % 60, 'S');
        }
        let fraction = format!("{:09}", nanos.abs());
        let sign = if total < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{}S", (seconds % 60).abs(), fraction.trim_end_matches('0'))
    }
}
