//! Values as PostgreSQL writes them, as JSON. Pure: what does not look as it should stays a text.

use weir_model::json::{self, write_string};

/// Types whose values are not texts, by their numbers, which are the same everywhere.
const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INTEGERS: [u32; 4] = [20, 21, 23, 26];
const FLOATS: [u32; 2] = [700, 701];
const NUMERIC: u32 = 1700;
pub const JSON: [u32; 2] = [114, 3802];
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const TIMESTAMP_TZ: u32 = 1184;

/// Arrays, and what is in them; those of texts are here too, so that they come as lists.
const ARRAYS: [(u32, u32); 21] = [
    (1000, BOOL),
    (1001, BYTEA),
    (1005, 21),
    (1007, 23),
    (1016, 20),
    (1028, 26),
    (1021, 700),
    (1022, 701),
    (1231, NUMERIC),
    (199, 114),
    (3807, 3802),
    (1115, TIMESTAMP),
    (1185, TIMESTAMP_TZ),
    (1182, DATE),
    (1183, 1083),
    (1187, 1186),
    (1009, 25),
    (1014, 1042),
    (1015, 1043),
    (2951, 2950),
    (1003, 19),
];

/// Digits that a float keeps, whatever they are.
const EXACT_DIGITS: usize = 15;

/// Arrays in arrays; PostgreSQL has no more.
const DEPTH_MAX: usize = 6;

/// Appends the value of a type.
pub fn put(kind: u32, text: &str, out: &mut Vec<u8>) {
    let as_it_is = match kind {
        BOOL => match text {
            "t" => return out.extend_from_slice(b"true"),
            "f" => return out.extend_from_slice(b"false"),
            _ => false,
        },
        _ if INTEGERS.contains(&kind) => text.parse::<i64>().is_ok(),
        _ if FLOATS.contains(&kind) => is_number(text) && text.parse::<f64>().is_ok_and(f64::is_finite),
        NUMERIC => is_exact(text),
        // There is JSON of PostgreSQL that has no value here, as a number of a thousand digits.
        _ if JSON.contains(&kind) => json::parse(text.as_bytes()).is_ok(),
        BYTEA => return write_string(text.strip_prefix("\\x").unwrap_or(text), out),
        DATE | TIMESTAMP => return write_string(moment(text, "").as_deref().unwrap_or(text), out),
        TIMESTAMP_TZ => return write_string(moment(text, "Z").as_deref().unwrap_or(text), out),
        _ => {
            let element = ARRAYS.iter().find(|(array, _)| *array == kind);
            let start = out.len();
            if let Some((_, element)) = element {
                // An array whose places do not begin with 1 says so first.
                let items = if text.starts_with('[') { text.split_once('=').map_or(text, |(_, items)| items) } else { text };
                if list(*element, items, 1, out).is_some_and(str::is_empty) {
                    return;
                }
                out.truncate(start);
            }
            false
        }
    };
    if as_it_is { out.extend_from_slice(text.as_bytes()) } else { write_string(text, out) }
}

/// Whether it can be written so in JSON.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(|byte| b"0123456789.e+-".contains(&byte))
}

/// Whether a decimal number is the same as an integer or a float.
fn is_exact(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match digits.split_once('.') {
        _ if !plain => false,
        None => text.parse::<i64>().is_ok(),
        Some((whole, behind)) => {
            let all = format!("{whole}{}", behind.trim_end_matches('0'));
            !behind.is_empty() && all.trim_start_matches('0').len() <= EXACT_DIGITS
        }
    }
}

/// A day or a moment as ISO 8601 has it: 1 BC is the year 0, and years before that and those of more than four digits have a
/// sign. None of what is neither, as `infinity`.
fn moment(text: &str, zone: &str) -> Option<String> {
    let (text, before_christ) = text.strip_suffix(" BC").map_or((text, false), |text| (text, true));
    let (year, rest) = text.split_once('-')?;
    let year: i64 = year.parse().ok()?;
    let year = if before_christ { 1 - year } else { year };
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    let date = |month_and_day: &str| format!("{sign}{:04}-{month_and_day}", year.abs());
    match rest.split_once(' ') {
        None => Some(date(rest)),
        Some((rest, time)) if !time.contains(' ') && time.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(format!("{}T{}{zone}", date(rest), time.strip_suffix("+00").unwrap_or(time)))
        }
        _ => None,
    }
}

/// Appends the list that stands at the beginning, and says what stands behind it.
fn list<'t>(element: u32, text: &'t str, depth: usize, out: &mut Vec<u8>) -> Option<&'t str> {
    let mut rest = text.strip_prefix('{').filter(|_| depth <= DEPTH_MAX)?;
    out.push(b'[');
    if let Some(behind) = rest.strip_prefix('}') {
        out.push(b']');
        return Some(behind);
    }
    loop {
        rest = if rest.starts_with('{') { list(element, rest, depth + 1, out)? } else { item(element, rest, out)? };
        match rest.split_at_checked(1)? {
            (",", behind) => {
                out.push(b',');
                rest = behind;
            }
            ("}", behind) => {
                out.push(b']');
                return Some(behind);
            }
            _ => return None,
        }
    }
}

fn item<'t>(element: u32, text: &'t str, out: &mut Vec<u8>) -> Option<&'t str> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '}'])?;
        let (value, behind) = text.split_at(end);
        if value.eq_ignore_ascii_case("NULL") {
            out.extend_from_slice(b"null")
        } else {
            put(element, value, out)
        }
        return Some(behind);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => {
                put(element, &value, out);
                return Some(&quoted[at + 1..]);
            }
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: u32, text: &str, expected: &str) {
        let mut out = Vec::new();
        put(kind, text, &mut out);
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        assert!(json::parse(&out).is_ok(), "{expected} is JSON");
    }

    #[test]
    fn values_become_json() {
        check(BOOL, "t", "true");
        check(BOOL, "f", "false");
        check(20, "-9223372036854775808", "-9223372036854775808");
        check(26, "4294967295", "4294967295");
        check(701, "1.5e-07", "1.5e-07");
        check(700, "NaN", "\"NaN\"");
        check(701, "-Infinity", "\"-Infinity\"");
        check(BYTEA, "\\xcafe", "\"cafe\"");
        check(3802, "{\"a\": [1, null]}", "{\"a\": [1, null]}");
        check(114, "no", "\"no\"");
        check(25, "a\"\n\u{1}é", "\"a\\\"\\n\\u0001é\"".replace('é', &shown('é')).as_str());
        check(2950, "a141cc4b-6257-6e65-4caa-5b7eaafdf343", "\"a141cc4b-6257-6e65-4caa-5b7eaafdf343\"");
        check(TIMESTAMP, "2026-11-23 01:02:03.5", "\"2026-11-23T01:02:03.5\"");
        check(TIMESTAMP_TZ, "2026-11-23 01:02:03+00", "\"2026-11-23T01:02:03Z\"");
        check(TIMESTAMP_TZ, "infinity", "\"infinity\"");
    }

    #[test]
    fn years_of_other_than_four_digits_have_a_sign() {
        check(DATE, "2026-11-23", "\"2026-11-23\"");
        check(DATE, "0044-03-15 BC", "\"-0043-03-15\"");
        check(DATE, "0001-01-01 BC", "\"0000-01-01\"");
        check(DATE, "12345-01-01", "\"+12345-01-01\"");
        check(DATE, "9999-12-31", "\"9999-12-31\"");
        check(DATE, "-infinity", "\"-infinity\"");
        check(TIMESTAMP, "0044-03-15 12:00:00.25 BC", "\"-0043-03-15T12:00:00.25\"");
        check(TIMESTAMP, "294276-12-31 23:59:59.999999", "\"+294276-12-31T23:59:59.999999\"");
        check(TIMESTAMP_TZ, "4713-01-01 00:00:00+00 BC", "\"-4712-01-01T00:00:00Z\"");
        check(TIMESTAMP, "2026-11-23 noon", "\"2026-11-23 noon\"");
        check(1182, "{\"0044-03-15 BC\",infinity,NULL}", r#"["-0043-03-15","infinity",null]"#);
    }

    /// As texts are written.
    fn shown(c: char) -> String {
        let mut out = Vec::new();
        write_string(&c.to_string(), &mut out);
        String::from_utf8(out).unwrap().trim_matches('"').to_owned()
    }

    #[test]
    fn decimal_numbers_are_numbers_where_nothing_is_lost() {
        check(NUMERIC, "12.50", "12.50");
        check(NUMERIC, "-0.000000000000000000012345", "-0.000000000000000000012345");
        check(NUMERIC, "9223372036854775807", "9223372036854775807");
        check(NUMERIC, "9223372036854775808", "\"9223372036854775808\"");
        check(NUMERIC, "123456789.123456789", "\"123456789.123456789\"");
        check(NUMERIC, "1.00000000000000000000000", "1.00000000000000000000000");
        check(NUMERIC, "NaN", "\"NaN\"");
    }

    #[test]
    fn arrays_become_lists() {
        check(1007, "{1,NULL,-3}", "[1,null,-3]");
        check(1007, "{}", "[]");
        check(1007, "{{1,2},{3,4}}", "[[1,2],[3,4]]");
        check(1007, "[0:1]={1,2}", "[1,2]");
        check(1009, r#"{a,"b,\"}\\","NULL",NULL}"#, r#"["a","b,\"}\\","NULL",null]"#);
        check(3807, r#"{"{\"a\": 1}","[1]"}"#, r#"[{"a": 1},[1]]"#);
        // What is none stays a text.
        for odd in ["{1", "{1}x", "{1,}", "", "{\"a", "{{{{{{{1}}}}}}}"] {
            let mut out = Vec::new();
            put(1007, odd, &mut out);
            assert!(json::parse(&out).is_ok(), "{odd}: {}", String::from_utf8_lossy(&out));
        }
    }
}
