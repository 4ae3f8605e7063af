//! Names that are spelled alike, for suggestions.

/// Fewer letters than these are no part of a longer name worth proposing.
const PART_LENGTH_MIN: usize = 4;

/// Shorter names are only the last part of a dotted one when every letter is.
const DOTTED_LENGTH_MIN: usize = 6;

/// `did you mean …?` for a name that is close to one of the known ones.
///
/// Close is: the same but for case, a few letters more, fewer, other or swapped, the last part of a dotted name, or the
/// beginning of it. Names of one or two letters are only taken for each other when nothing but the case differs: whoever
/// writes `b` seldom means `a`.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = match wanted.len() {
        0..=2 => 0,
        length => (length / 3).min(3),
    };
    known
        .filter_map(|candidate| Some((farness(&wanted, candidate, limit)?, candidate)))
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// How far a candidate is from what was written, unless it is too far.
fn farness(wanted: &[char], candidate: &str, limit: usize) -> Option<usize> {
    let lower = candidate.to_lowercase();
    let known: Vec<char> = lower.chars().collect();
    // The length alone settles most: this runs over every function there is.
    if known.len().abs_diff(wanted.len()) <= limit {
        let edits = distance(wanted, &known);
        if edits <= limit {
            return Some(edits);
        }
    }
    if wanted.len() < PART_LENGTH_MIN || wanted.contains(&'.') {
        return None;
    }
    let alike = |part: &str, limit: usize| {
        let part: Vec<char> = part.chars().collect();
        part.len() < known.len() && part.len().abs_diff(wanted.len()) <= limit && distance(wanted, &part) <= limit
    };
    // Short last parts of names are many, and something is always close to one of them.
    let dotted_limit = if wanted.len() < DOTTED_LENGTH_MIN { 0 } else { limit };
    let first_word = lower.split(' ').next().unwrap_or_default();
    if alike(first_word, limit) || alike(lower.rsplit('.').next().unwrap_or_default(), dotted_limit) {
        return Some(limit + 1);
    }
    known.starts_with(wanted).then_some(limit + 2)
}

/// Edits between two words: insert, delete, replace, swap neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = row[j] + usize::from(x != y);
            next[j + 1] = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                next[j + 1] = next[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        for (written, known, expected) in [
            ("tolowre", &["toLower", "toUpper"][..], "toLower"),
            ("RETRUN", &["RETURN", "CREATE"], "RETURN"),
            ("ODER", &["AS", "ORDER BY", "OR"], "ORDER BY"),
            ("regexFirstMach", &["text.regexFirstMatch"], "text.regexFirstMatch"),
            ("split", &["text.split"], "text.split"),
            ("nope", &["castOrNull.node"], ""),
            ("substr", &["size", "substring"], "substring"),
            ("N", &["m", "n"], "n"),
            ("größer", &["groesser", "grösser", "größe"], "größe"),
            ("xyz", &["toLower"], ""),
            ("b", &["a"], ""),
            ("", &["a"], ""),
        ] {
            let hint = nearest(written, known.iter().copied()).unwrap_or_default();
            let expected = if expected.is_empty() { String::new() } else { format!("did you mean `{expected}`?") };
            assert_eq!(hint, expected, "{written}");
        }
    }
}
