//! Time zones by name: what the clocks of a region show at an instant, and when they showed it.
//!
//! The rules are those of the IANA database, compiled into the program, so that the same text means the same on every
//! machine. This is the one file that names the crate that has them. Its calendar ends with the year 9999; beyond 8000
//! years from 1970 a year is looked up as the one 400, 800, … years nearer, which has the same days of the week.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime as Clock;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use super::{DateTime, LocalDateTime, NANOS_PER_SECOND, SECONDS_PER_DAY};
use crate::value::Text;

/// The calendar repeats after this many seconds.
const SECONDS_PER_ERA: i64 = 146_097 * SECONDS_PER_DAY;

/// 8000 years.
const LOOKED_UP_MAX: i64 = 20 * SECONDS_PER_ERA;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The zone's name as the database writes it. None when there is no such zone.
pub fn known(name: &str) -> Option<Text> {
    with(name, |zone| zone.iana_name().map(Text::new)).flatten()
}

/// Seconds that clocks of the zone are ahead of UTC at an instant.
pub fn offset_at(name: &str, epoch_second: i64) -> Option<i32> {
    with(name, |zone| Some(zone.to_offset(Timestamp::from_second(near(epoch_second)).ok()?).seconds())).flatten()
}

/// What the zone calls the time it keeps at an instant (`CET`, `CEST`).
pub fn abbreviation_at(name: &str, epoch_second: i64) -> Option<Text> {
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
