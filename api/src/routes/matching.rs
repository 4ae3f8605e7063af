//! Paths and query strings: which pattern a path fits, and the texts in it, decoded.

use std::borrow::Cow;

/// The segments that stand for `{…}`, decoded. `{x}:verb` takes a segment that ends so.
pub fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        let segment = decoded(segments.next()?)?;
        if !part.starts_with('{') {
            if segment != part {
                return None;
            }
            continue;
        }
        let end = part.find('}').map_or("", |end| &part[end + 1..]);
        names.push(segment.strip_suffix(end).filter(|name| !name.is_empty())?.to_owned());
    }
    segments.next().is_none().then_some(names)
}

/// None where that is not UTF-8.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.contains('%') { percent_decode(segment, false).map(Cow::Owned) } else { Some(Cow::Borrowed(segment)) }
}

pub fn parse_query(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode(text, true).unwrap_or_else(|| text.to_owned());
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// None when the result is not UTF-8.
fn percent_decode(text: &str, plus_is_space: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                decoded.push(value);
                at += 2;
            }
            (b'+', _) if plus_is_space => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_by_segment() {
        assert_eq!(matches("/a/{x}/b", "/a/1/b"), Some(vec!["1".to_owned()]));
        assert_eq!(matches("/a/{x}", "/a/%C3%A9%2Fb"), Some(vec!["é/b".to_owned()]));
        assert_eq!(matches("/a/{x}", "/a/"), None);
        assert_eq!(matches("/a/{x}", "/a/1/2"), None);
        assert_eq!(matches("/a/{x}", "/a/%ff"), None);
        assert_eq!(matches("/a/{x}:stop", "/a/1:stop"), Some(vec!["1".to_owned()]));
        assert_eq!(matches("/a/{x}:stop", "/a/1%3Astop"), Some(vec!["1".to_owned()]));
        assert_eq!(matches("/a/{x}/b", "/%61/1/%62"), Some(vec!["1".to_owned()]));
        assert_eq!(matches("/a/b", "/a%2Fb"), None);
        assert_eq!(matches("/a/{x}:stop", "/a/:stop"), None);
        assert_eq!(matches("/a/{x}:stop", "/a/1:go"), None);
    }

    #[test]
    fn query_strings() {
        let parsed = parse_query("a=1&b=x%20y+z&c&=3&d=%zz&e=%+1");
        let pairs: Vec<(&str, &str)> = parsed.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x y z"), ("c", ""), ("", "3"), ("d", "%zz"), ("e", "% 1")]);
    }
}
