//! What could stand at a place of a text, and the name that stands there.

use std::ops::Range;

use crate::functions;

/// What can stand for the word before the cursor.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Wanted {
    /// After `:` in a pattern: labels and relationship types.
    Label,
    /// After a dot behind a variable.
    Property,
    /// After `$`.
    Parameter,
    /// After CALL.
    Procedure,
    Any,
}

/// Where the word begins that ends at the end of the text, and what it may be.
pub fn wanted(text: &str) -> (usize, Wanted) {
    let begin = |text: &str| text.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(text.len(), |(at, _)| at);
    let start = begin(text);
    let before = &text[..start];
    match before.chars().next_back() {
        Some(':' | '|' | '&' | '!') => (start, Wanted::Label),
        Some('$') => (start, Wanted::Parameter),
        Some('.') => {
            // `text.split` is a function, `n.name` a property, and `CALL help.functions` a procedure.
            let dotted =
                text.char_indices().rev().take_while(|(_, c)| is_part(*c) || *c == '.').last().map_or(start, |(at, _)| at);
            let path = &text[dotted..start - 1];
            match (after_call(&text[..dotted]), path) {
                (true, _) => (dotted, Wanted::Procedure),
                (false, path) if is_namespace(path) => (dotted, Wanted::Any),
                _ => (start, Wanted::Property),
            }
        }
        _ if after_call(before) => (start, Wanted::Procedure),
        _ => (start, Wanted::Any),
    }
}

/// The name at an offset, dots in it included, and whether it stands after CALL.
pub fn name_at(text: &str, offset: usize) -> Option<(Range<usize>, bool)> {
    let part = |c: &char| is_part(*c) || *c == '.';
    let (before, after) = (text.get(..offset)?, text.get(offset..)?);
    let start = before.char_indices().rev().take_while(|(_, c)| part(c)).last().map_or(offset, |(at, _)| at);
    let end = offset + after.chars().take_while(part).map(char::len_utf8).sum::<usize>();
    (start < end).then(|| (start..end, after_call(&text[..start])))
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether names of functions begin with it and a dot.
fn is_namespace(path: &str) -> bool {
    let begins = |name: &str| name.get(..path.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(path));
    functions::all().any(|function| begins(function.name) && function.name[path.len()..].starts_with('.'))
}

fn after_call(text: &str) -> bool {
    let text = text.trim_end();
    let word = text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    word.eq_ignore_ascii_case("call")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_follows_from_what_stands_before() {
        for (text, expected) in [
            ("MATCH (n:Per", (9, Wanted::Label)),
            ("MATCH (n)-[:KNOWS|LI", (18, Wanted::Label)),
            ("MATCH (n) WHERE n.na", (18, Wanted::Property)),
            ("RETURN größe.na", (15, Wanted::Property)),
            ("RETURN text.sp", (7, Wanted::Any)),
            ("RETURN $p", (8, Wanted::Parameter)),
            ("CALL rec", (5, Wanted::Procedure)),
            ("call help.fu", (5, Wanted::Procedure)),
            ("RET", (0, Wanted::Any)),
            ("", (0, Wanted::Any)),
        ] {
            assert_eq!(wanted(text), expected, "{text}");
        }
    }

    #[test]
    fn names_reach_to_both_sides() {
        let text = "CALL help.functions() RETURN größe";
        assert_eq!(name_at(text, 8), Some((5..19, true)));
        assert_eq!(name_at(text, 5), Some((5..19, true)));
        assert_eq!(name_at(text, text.len()), Some((29..36, false)));
        assert_eq!(name_at(text, 20), None);
        assert_eq!(name_at(text, 32), None, "inside a character");
        assert_eq!(name_at(text, 99), None);
    }
}
