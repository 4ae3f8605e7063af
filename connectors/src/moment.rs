//! Moments in UTC: of results, for names that are the same whenever the result is sent.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_model::Tick;
use weir_model::temporal::DateTime;

/// Year, month, day, hour, minute and second of a mark, which is a tick.
pub fn parts(mark: u64) -> [i64; 6] {
    let seconds = (Tick(mark).millis() / 1000) as i64;
    let (year, month, day) = DateTime::utc(seconds, 0).local().date().civil();
    let of_day = seconds.rem_euclid(86_400);
    [year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60]
}

/// As names have it: what is later sorts behind it.
pub fn text(mark: u64) -> String {
    let [year, month, day, hour, minute, second] = parts(mark);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

/// This moment, in whole seconds.
pub fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [year, month, day, hour, minute, second] = parts(Tick::at_millis(now.as_millis() as u64).0);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_has_a_moment() {
        assert_eq!(parts(0), [1970, 1, 1, 0, 0, 0]);
        assert_eq!(parts(Tick::at_millis(1_772_323_199_999).0 + 7), [2026, 2, 28, 23, 59, 59]);
        assert_eq!(text(Tick::at_millis(1_772_323_199_999).0 + 7), "2026-02-28T23-59-59Z");
    }
}
