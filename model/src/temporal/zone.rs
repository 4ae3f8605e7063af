//! Time zones by name: what the clocks of a region show at an instant, and when they showed it.
//!
//! The rules are those of the IANA database, compiled into the program, so that the same text means the same on every
//! machine. This is the one file that names the crate that has them. Its calendar ends with the year 9999; beyond 8000
//! years from 1970 a year is looked up as the one 400, 800, … years nearer, which has the same days of the week.
//!
//! An offset behind `UTC`, `GMT` or `UT` is a zone with a name, too (`UTC+01:00`), as it is in Java: ids are made of the name.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime as Clock;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use super::{DateTime, LocalDateTime, NANOS_PER_SECOND, Offset, SECONDS_PER_DAY};
use crate::value::Text;

/// The calendar repeats after this many seconds.
const SECONDS_PER_ERA: i64 = 146_097 * SECONDS_PER_DAY;

/// 8000 years.
const LOOKED_UP_MAX: i64 = 20 * SECONDS_PER_ERA;

/// What an offset may stand behind. The longer of two that begin alike comes first.
pub const UNIVERSAL: [&str; 3] = ["UTC", "GMT", "UT"];

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The zone's name as the database writes it. None when there is no such zone.
pub fn known(name: &str) -> Option<Text> {
    with(name, |zone| zone.iana_name().map(Text::new)).flatten()
}

/// The name of the zone that is an offset behind one of `UNIVERSAL`: `UTC+01:00`, and the prefix alone where there is none.
pub fn behind(prefix: &str, offset_seconds: i32) -> Text {
    if offset_seconds == 0 { Text::new(prefix) } else { Text::from(format!("{prefix}{}", Offset(offset_seconds))) }
}

/// The offset of a zone whose name `behind` wrote, if it is none of the database.
fn offset_behind(name: &str) -> Option<i32> {
    if name == "UT" {
        return Some(0);
    }
    let offset = UNIVERSAL.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (mut seconds, mut unit) = (0, 3600);
    for part in digits.split(':') {
        seconds += i32::from(part.parse::<u16>().ok()?) * unit;
        unit /= 60;
    }
    (seconds <= 18 * 3600).then_some(sign * seconds)
}

/// The offset of a zone whose clocks were never moved. None of others.
pub fn only_offset(name: &str) -> Option<i32> {
    let never_moved = |zone: &TimeZone| {
        let is_moved = zone.following(Timestamp::MIN).next().is_some();
        (!is_moved).then(|| zone.to_offset(Timestamp::UNIX_EPOCH).seconds())
    };
    with(name, never_moved).flatten()
}

/// Seconds that clocks of the zone are ahead of UTC at an instant.
pub fn offset_at(name: &str, epoch_second: i64) -> Option<i32> {
    with(name, |zone| Some(zone.to_offset(Timestamp::from_second(near(epoch_second)).ok()?).seconds())).flatten()
}

/// What the zone calls the time it keeps at an instant (`CET`, `CEST`); None where it has but its own name.
pub fn abbreviation_at(name: &str, epoch_second: i64) -> Option<Text> {
    if offset_behind(name).is_some() {
        return None;
    }
    with(name, |zone| {
        let at = Timestamp::from_second(near(epoch_second)).ok()?;
        Some(Text::new(zone.to_offset_info(at).abbreviation()))
    })
    .flatten()
}

/// The instant at which clocks of the zone show that time. A time that they skip is moved on by what was skipped; of a
/// time that they show twice it is the one with the preferred offset, else the first.
pub fn at_local(name: &str, local: LocalDateTime, preferred: Option<i32>) -> Option<DateTime> {
    let local_second = local.epoch_day * SECONDS_PER_DAY + local.nano_of_day / NANOS_PER_SECOND;
    let (before, after) = with(name, |zone| {
        let clock = Timestamp::from_second(near(local_second)).ok()?;
        let clock: Clock = jiff::tz::Offset::UTC.to_datetime(clock);
        Some(match zone.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset.seconds(), offset.seconds()),
            AmbiguousOffset::Gap { before, after } => (before.seconds(), after.seconds()),
            AmbiguousOffset::Fold { after, .. } if preferred == Some(after.seconds()) => (after.seconds(), after.seconds()),
            AmbiguousOffset::Fold { before, .. } => (before.seconds(), before.seconds()),
        })
    })
    .flatten()?;
    Some(DateTime {
        epoch_second: local_second - i64::from(before),
        nano: (local.nano_of_day % NANOS_PER_SECOND) as i32,
        offset_seconds: after,
        zone: Some(Text::new(name)),
    })
}

fn near(second: i64) -> i64 {
    if second > LOOKED_UP_MAX {
        LOOKED_UP_MAX - SECONDS_PER_ERA + (second - LOOKED_UP_MAX).rem_euclid(SECONDS_PER_ERA)
    } else if second < -LOOKED_UP_MAX {
        -LOOKED_UP_MAX + (second + LOOKED_UP_MAX).rem_euclid(SECONDS_PER_ERA)
    } else {
        second
    }
}

/// Zones already met are kept by each thread: the database takes a lock to hand one out.
fn with<T>(name: &str, ask: impl FnOnce(&TimeZone) -> T) -> Option<T> {
    thread_local! {
        static MET: RefCell<HashMap<Text, TimeZone>> = RefCell::new(HashMap::new());
    }
    if let Some(offset) = offset_behind(name) {
        return Some(ask(&TimeZone::fixed(jiff::tz::Offset::from_seconds(offset).ok()?)));
    }
    MET.with_borrow_mut(|met| {
        if let Some(zone) = met.get(name) {
            return Some(ask(zone));
        }
        let zone = DATABASE.get(name).ok()?;
        let answer = ask(&zone);
        // Only in the spelling of the database, so that there are no more than it has.
        if zone.iana_name() == Some(name) {
            met.insert(Text::new(name), zone);
        }
        Some(answer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::Date;

    fn local(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> LocalDateTime {
        let nano_of_day = (hour * 60 + minute) * 60 * NANOS_PER_SECOND;
        LocalDateTime { epoch_day: Date::of(year, month, day).expect("a date").epoch_day, nano_of_day }
    }

    #[test]
    fn names_are_found_in_any_case_and_only_if_they_are_there() {
        assert_eq!(known("Europe/Paris").as_deref(), Some("Europe/Paris"));
        assert_eq!(known("europe/paris").as_deref(), Some("Europe/Paris"));
        assert_eq!(known("America/Montreal").as_deref(), Some("America/Montreal"));
        assert_eq!(known("UTC").as_deref(), Some("UTC"));
        assert_eq!(known("Mars/Base"), None);
        assert_eq!(known(""), None);
    }

    #[test]
    fn offsets_behind_universal_time_are_zones() {
        assert_eq!(["UTC", "GMT", "UT"].map(|prefix| behind(prefix, 0)), UNIVERSAL);
        for (offset, name) in [(3600, "UTC+01:00"), (-19_800, "UTC-05:30"), (30, "UTC+00:00:30"), (64_800, "UTC+18:00")] {
            assert_eq!(behind("UTC", offset), name);
            assert_eq!((offset_at(name, 0), only_offset(name)), (Some(offset), Some(offset)), "{name}");
            assert_eq!(abbreviation_at(name, 0), None, "{name}");
            let at = at_local(name, local(2024, 1, 1, 0, 0), None).expect("a zone");
            assert_eq!(at.local(), local(2024, 1, 1, 0, 0), "{name}");
            assert!(at.to_string().ends_with(&format!("[{name}]")), "{at}");
        }
        assert_eq!((offset_at("UT", 0), offset_at("GMT-02:00", 0)), (Some(0), Some(-7200)));
        for name in ["UTC+", "UTC+x", "UTC+19:00", "UTC01:00", "UTC+01:00:00:00:65535x", "+01:00", "EST+01:00"] {
            assert_eq!(offset_at(name, 0), None, "{name}");
        }
    }

    #[test]
    fn zones_whose_clocks_were_never_moved_have_one_offset() {
        for (name, offset) in [("UTC", Some(0)), ("Etc/GMT+5", Some(-18_000)), ("Europe/Paris", None), ("Mars/Base", None)] {
            assert_eq!(only_offset(name), offset, "{name}");
        }
    }

    #[test]
    fn clocks_skip_and_repeat_an_hour() {
        let check = |at: LocalDateTime, preferred, expected: &str| {
            assert_eq!(at_local("Europe/Paris", at, preferred).expect("a zone").to_string(), expected);
        };
        check(local(2024, 3, 31, 2, 30), None, "2024-03-31T03:30+02:00[Europe/Paris]");
        check(local(2024, 10, 27, 2, 30), None, "2024-10-27T02:30+02:00[Europe/Paris]");
        check(local(2024, 10, 27, 2, 30), Some(3600), "2024-10-27T02:30+01:00[Europe/Paris]");
        check(local(2024, 7, 1, 12, 0), Some(3600), "2024-07-01T12:00+02:00[Europe/Paris]");
        // Before there was a common time.
        let stockholm = at_local("Europe/Stockholm", local(1818, 7, 21, 21, 40), None).expect("a zone");
        assert_eq!(stockholm.to_string(), "1818-07-21T21:40+00:53:28[Europe/Stockholm]");
    }

    #[test]
    fn every_year_of_the_calendar_has_an_offset() {
        for year in [-999_999_999, -10_000, -9_999, -8_000, 9_999, 10_000, 12_024, 999_999_999] {
            let at = at_local("Europe/Paris", local(year, 7, 1, 0, 0), None).expect("a zone");
            assert_eq!(at.local(), local(year, 7, 1, 0, 0), "{year}");
            assert_eq!(offset_at("Europe/Paris", at.epoch_second), Some(at.offset_seconds), "{year}");
        }
        assert_eq!(offset_at("Europe/Paris", i64::MAX).is_some(), offset_at("Europe/Paris", i64::MIN).is_some());
        assert_eq!(at_local("Europe/Paris", local(12_024, 7, 1, 0, 0), None).map(|at| at.offset_seconds), Some(7200));
    }
}
