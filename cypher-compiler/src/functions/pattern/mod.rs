//! Points in time as text of a pattern and back, in the letters of Java's `DateTimeFormatter` (`dd.MM.yyyy HH:mm`).
//!
//! The language is English of the United States: its names, and weeks that begin on Sunday, the first of a year being the
//! one with January 1st. Reading is strict about the text and puts together what the fields say as far as they agree.

mod read;
mod show;

use std::iter::Peekable;
use std::str::Chars;

use weir_model::arithmetic::shortened;
use weir_model::expression::{Failure, FailureKind};
use weir_model::value::Value;

use self::read::{Found, Reader};
use self::show::{Shown, write};
use super::temporal::Kind;

const MONTHS: &[&str] =
    &["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Sections in brackets lie at most this deep in one another.
const DEPTH_MAX: usize = 16;

#[derive(Debug, PartialEq)]
enum Item {
    Literal(String),
    Field {
        letter: char,
        count: usize,
    },
    /// A field that takes `width` characters, with blanks before it: `ppd`.
    Padded {
        width: usize,
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
    if let Some(letter) = unreadable(&items) {
        let pattern = shortened(&Value::text(pattern));
        return Err(failure(format!(
            "Pattern {pattern} has the letter `{letter}`, which is shown and not read, as all of weeks (Y, w, W, F); the year of a \
             date is `yyyy`, and ISO weeks are read without a pattern: date('2024-W06-5')"
        )));
    }
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

/// The first letter that cannot be read, if there is one.
fn unreadable(items: &[Item]) -> Option<char> {
    items.iter().find_map(|item| match item {
        Item::Field { letter, .. } | Item::Padded { letter, .. } => Some(*letter).filter(|c| matches!(c, 'Y' | 'w' | 'W' | 'F')),
        Item::Optional(section) => unreadable(section),
        Item::Literal(_) => None,
    })
}

fn items(pattern: &str) -> Result<Vec<Item>, Failure> {
    let mut open: Vec<Vec<Item>> = vec![Vec::new()];
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let item = match c {
            'a'..='z' | 'A'..='Z' => {
                let count = 1 + repeated(c, &mut rest);
                if c == 'p' {
                    let Some(letter) = rest.next_if(char::is_ascii_alphabetic) else {
                        return Err(failure(format!("Pad letter 'p' must be followed by valid pad pattern: {pattern}")));
                    };
                    let width = count;
                    let count = 1 + repeated(letter, &mut rest);
                    check(letter, count)?;
                    Item::Padded { width, letter, count }
                } else {
                    check(c, count)?;
                    Item::Field { letter: c, count }
                }
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

/// How often the letter comes again; what comes again is passed over.
fn repeated(letter: char, rest: &mut Peekable<Chars<'_>>) -> usize {
    let mut count = 0;
    while rest.next_if_eq(&letter).is_some() {
        count += 1;
    }
    count
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
            ("VV z zzzz", "Europe/Paris CET CET"),
            ("X XX XXX x Z ZZZZ ZZZZZ O OOOO", "+01 +0100 +01:00 +01 +0100 GMT+01:00 +01:00 GMT+1 GMT+01:00"),
            ("G GGGG", "AD Anno Domini"),
            ("MMM ppd|pppHH|ppppa", "Feb  9| 14|  PM"),
        ] {
            assert_eq!(format(&at, pattern).as_deref(), Ok(expected), "{pattern}");
        }
        let utc = value("datetime", "2024-02-09T14:05Z");
        assert_eq!(format(&utc, "X x xxx Z O VV").as_deref(), Ok("Z +00 +00:00 +0000 GMT Z"));
        let behind = value("datetime", "2024-02-09T14:05[GMT+1]");
        assert_eq!(format(&behind, "VV z X").as_deref(), Ok("GMT+01:00 GMT+01:00 +01"));
        let local = value("localdatetime", "-0004-01-01T00:05");
        assert_eq!(format(&local, "yyyy G u uuuu h[ XXX]").as_deref(), Ok("0005 BC -4 -0004 12"));
        assert_eq!(format(&value("date", "2023-12-31"), "w YYYY").as_deref(), Ok("1 2024"));
        assert_eq!(format(&value("date", "-16642-02-01"), "uu yy YY").as_deref(), Ok("42 43 42"));
        let old = value("datetime", "1901-01-01T00:00-00:44:30");
        assert_eq!(format(&old, "O OOOO ZZZZ").as_deref(), Ok("GMT-0:44:30 GMT-00:44:30 GMT-00:44:30"));
        let odd = value("datetime", "1901-01-01T00:00+10:00:05");
        assert_eq!(format(&odd, "O OOOO").as_deref(), Ok("GMT+10:00:05 GMT+10:00:05"));
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
        check(&local, "pp d", "Pad letter 'p'");
        check(&local, "d pp", "Pad letter 'p'");
        check(&local, "ppddd", "Wrong number of pattern letters: d");
        check(&local, "ppMMM", "`Feb` is longer than the 2 characters");
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
        check("localdatetime", "2024 Feb  9 14:05:06", "yyyy MMM ppd HH:mm:ss", "2024-02-09T14:05:06");
        check("localdatetime", "2024 Feb 29 14:05:06", "yyyy MMM ppd HH:mm:ss", "2024-02-29T14:05:06");
        check("date", "2024  1", "yyyypppM", "2024-01-01");
        check("datetime", "2024-07-01 10:11 GMT+8", "yyyy-MM-dd HH:mm O", "2024-07-01T10:11+08:00");
        check("datetime", "2024-07-01 10:11 GMT+0", "yyyy-MM-dd HH:mm O", "2024-07-01T10:11Z");
        check("datetime", "2024-07-01 10:11 GMT-03:30", "yyyy-MM-dd HH:mm ZZZZ", "2024-07-01T10:11-03:30");
        check("datetime", "2024-07-01 10:11 GMT-0:44:30", "yyyy-MM-dd HH:mm O", "2024-07-01T10:11-00:44:30");
        check("datetime", "2024-07-01 10:11 UTC+2", "yyyy-MM-dd HH:mm z", "2024-07-01T10:11+02:00[UTC+02:00]");
        let message = "Text \"2024 Feb 9 14\" could not be parsed with pattern \"yyyy MMM ppd HH\": it differs at character 11";
        check("localdatetime", "2024 Feb 9 14", "yyyy MMM ppd HH", message);
        let message = "Text \"2024-07-01 +1\" could not be parsed with pattern \"yyyy-MM-dd X\": it differs at character 12";
        check("datetime", "2024-07-01 +1", "yyyy-MM-dd X", message);
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
        for (pattern, letter) in [("YYYY-MM-dd", 'Y'), ("yyyy[ W]", 'W'), ("yyyy ppw", 'w'), ("F", 'F')] {
            let failure = call("date", &[Value::text("2024-01-01"), Value::text(pattern)]).expect_err(pattern);
            assert!(failure.message.contains(&format!("has the letter `{letter}`, which is shown and not read")), "{failure}");
        }
    }

    /// As in Java, but for days that a month does not have.
    #[test]
    fn times_are_whole_and_do_not_contradict_themselves() {
        let read = |kind: &str, text: &str, pattern: &str| {
            let read = call(kind, &[Value::text(text), Value::text(pattern)]);
            read.map_or_else(|failure| failure.message, |read| read.to_text())
        };
        for (kind, text, pattern, problem) in [
            ("localtime", "12:30", "hh:mm", "neither AM nor PM"),
            ("localdatetime", "29.02.2024 03:30", "dd.MM.yyyy KK:mm", "neither AM nor PM"),
            ("localtime", "14:00 AM", "HH:mm a", "different times of the day at once"),
            ("localtime", "02:00 PM", "HH:mm a", "different times of the day at once"),
            ("localtime", "14 03 PM", "HH hh a", "different times of the day at once"),
            ("localtime", "14 03", "HH hh", "different times of the day at once"),
            ("localtime", "03 AM 54000000000000", "hh a N", "different times of the day at once"),
            ("localtime", "31 54000000000000", "mm N", "different times of the day at once"),
            ("localdatetime", "29.02.2024 24:00 PM", "dd.MM.yyyy HH:mm a", "different times of the day at once"),
            ("localtime", "24:00", "HH:mm", "names no time of the day"),
            ("time", "29.02.2024 24:00", "dd.MM.yyyy HH:mm", "names no time of the day"),
            ("localdatetime", "29.02.2024 24:01", "dd.MM.yyyy HH:mm", "names no time of the day"),
            ("localdatetime", "29.02.2024 24:00:00.001", "dd.MM.yyyy HH:mm:ss.SSS", "names no time of the day"),
            ("localdatetime", "29.02.2024 25:00", "dd.MM.yyyy HH:mm", "names no time of the day"),
            ("date", "31.12.+999999999 24", "dd.MM.uuuuuuuuu HH", "names no day of the calendar"),
            ("date", "05.01.2024 060", "dd.MM.yyyy DDD", "names different days at once"),
            ("time", "12:00 Europe/London", "HH:mm VV", "names a zone in which the offset depends on the day, and no day"),
            ("date", "05.01.2024 Q3", "dd.MM.yyyy QQQ", "names different days at once"),
            ("date", "2024 5 AD 2025", "uuuu M G y", "names different days at once"),
            ("date", "2024 Q3 45", "yyyy QQQ dd", "names different days at once"),
        ] {
            let message = read(kind, text, pattern);
            assert!(message.contains(problem), "{text} by {pattern}: {message}");
        }
        for (kind, text, pattern, expected) in [
            ("localtime", "14:00 PM", "HH:mm a", "14:00"),
            ("localtime", "14 02 PM", "HH hh a", "14:00"),
            ("localtime", "14 02", "HH hh", "14:00"),
            ("localtime", "03 PM 54000000000000", "hh a N", "15:00"),
            ("localtime", "03 54000000000000", "hh N", "15:00"),
            ("date", "29.02.2024 03", "dd.MM.yyyy hh", "2024-02-29"),
            ("localdatetime", "29.02.2024 24:00", "dd.MM.yyyy HH:mm", "2024-03-01T00:00"),
            ("localdatetime", "29.02.2024 24", "dd.MM.yyyy HH", "2024-03-01T00:00"),
            ("date", "31.12.2024 24:00", "dd.MM.yyyy HH:mm", "2025-01-01"),
            ("date", "29.02.2024 060 Q1", "dd.MM.yyyy DDD QQQ", "2024-02-29"),
            ("time", "01.07.2024 12:00 Europe/London", "dd.MM.yyyy HH:mm VV", "12:00+01:00"),
            ("time", "12:00 UTC", "HH:mm VV", "12:00Z"),
            ("date", "-0004 5 BC", "uuuu y G", "-0004-01-01"),
            ("datetime", "Thu 29.02.2024 24:00 +0100", "EEE dd.MM.yyyy HH:mm Z", "2024-03-01T00:00+01:00"),
            ("localdatetime", "29.02.2024 24:30", "dd.MM.yyyy kk:mm", "2024-02-29T00:30"),
        ] {
            assert_eq!(read(kind, text, pattern), expected, "{text} by {pattern}");
        }
    }
}
