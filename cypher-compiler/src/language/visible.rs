//! The variables that can be used at a place of a text: those declared before it, less what a WITH has not taken along.

use weir_model::Text;

use super::mark::{Block, Class, Marked, mark};
use crate::lexer::{Token, TokenKind, lex};

/// More names of a text are not told; nobody looks through so many.
const NAMES_MAX: usize = 1000;

/// One block of clauses.
#[derive(Default)]
struct Frame {
    known: Vec<Text>,
    /// What the WITH or RETURN that is being read takes along.
    taken: Option<Taken>,
    in_yield: bool,
    of_call: bool,
}

#[derive(Default)]
struct Taken {
    names: Vec<Text>,
    all: bool,
}

impl Frame {
    fn declare(&mut self, name: &Text) {
        if self.known.len() < NAMES_MAX && !self.known.contains(name) {
            self.known.push(name.clone());
        }
    }

    /// A clause begins: what the projection before it did not take is gone.
    fn end_projection(&mut self) {
        self.in_yield = false;
        let Some(taken) = self.taken.take() else { return };
        if !taken.all {
            self.known.clear();
        }
        taken.names.iter().for_each(|name| self.declare(name));
    }
}

/// In the order in which they were declared. The word that ends at the offset is still being written, and does not count.
pub fn visible(text: &str, offset: usize) -> Vec<Text> {
    let tokens = lex(text).tokens;
    let marked = mark(&tokens);
    let mut frames = vec![Frame::default()];
    for (at, (token, marked)) in tokens.iter().zip(&marked).enumerate() {
        if token.span.end >= offset {
            break;
        }
        step(&mut frames, &tokens, at, marked);
    }
    let Some(mut frame) = frames.pop() else { return Vec::new() };
    // ORDER BY and WHERE see what was taken and what was there.
    for name in frame.taken.take().map(|taken| taken.names).unwrap_or_default() {
        frame.declare(&name);
    }
    frame.known
}

/// The names of the parameters that stand in a text.
pub fn parameters(text: &str) -> Vec<Text> {
    let tokens = lex(text).tokens;
    let mut found: Vec<Text> = Vec::new();
    for pair in tokens.windows(2) {
        if let (TokenKind::Symbol("$"), TokenKind::Word(name) | TokenKind::Quoted(name)) = (&pair[0].kind, &pair[1].kind)
            && found.len() < NAMES_MAX
            && !found.contains(name)
        {
            found.push(name.clone());
        }
    }
    found
}

fn step(frames: &mut Vec<Frame>, tokens: &[Token], at: usize, marked: &Marked) {
    match marked.block {
        Some(Block::End) if frames.len() > 1 => {
            let mut inner = frames.pop().unwrap_or_default();
            let returned = inner.taken.take().map(|taken| taken.names).unwrap_or_default();
            if let (true, Some(outer)) = (inner.of_call, frames.last_mut()) {
                returned.iter().for_each(|name| outer.declare(name));
            }
            return;
        }
        Some(Block::OfCall | Block::OfExpression) => {
            let known = frames.last().map(|frame| frame.known.clone()).unwrap_or_default();
            frames.push(Frame { known, of_call: marked.block == Some(Block::OfCall), ..Frame::default() });
            return;
        }
        _ => {}
    }
    let Some(frame) = frames.last_mut() else { return };
    let before = at.checked_sub(1).map(|at| &tokens[at].kind);
    let was = |word: &str| before.is_some_and(|before| before.is_word(word));
    let kind = &tokens[at].kind;
    if let TokenKind::Symbol("*") = kind
        && marked.depth == 0
        && (was("WITH") || was("RETURN") || was("DISTINCT"))
        && let Some(taken) = &mut frame.taken
    {
        taken.all = true;
    }
    let (TokenKind::Word(word) | TokenKind::Quoted(word)) = kind else { return };
    if was("AS") {
        match &mut frame.taken {
            Some(taken) => taken.names.push(word.clone()),
            None => frame.declare(word),
        }
        return;
    }
    match marked.class {
        Some(Class::NodeVariable | Class::Edge | Class::PatternVariable) if frame.taken.is_none() => return frame.declare(word),
        Some(Class::Variable | Class::NodeVariable | Class::Edge | Class::PatternVariable) => {}
        // A property, a label, a function: no name of a row.
        Some(Class::MatchKeyword | Class::ReturnKeyword | Class::CreateKeyword) | None => {
            return clause(frame, kind, marked, was("STARTS") || was("ENDS") || was("ON"));
        }
        _ => return,
    }
    let next = tokens.get(at + 1).map(|token| &token.kind);
    // Of a comprehension, a quantifier, FOREACH.
    if next.is_some_and(|next| next.is_word("IN")) && marked.depth > 0 {
        return frame.declare(word);
    }
    let begins_item =
        matches!(before, Some(TokenKind::Symbol(","))) || ["WITH", "RETURN", "DISTINCT", "YIELD"].into_iter().any(was);
    let ends_item = matches!(next, None | Some(TokenKind::Word(_) | TokenKind::End | TokenKind::Symbol("," | "}" | ";")));
    let renamed = next.is_some_and(|next| next.is_word("AS"));
    if marked.depth == 0 && begins_item && ends_item && !renamed {
        match &mut frame.taken {
            Some(taken) => taken.names.push(word.clone()),
            None if frame.in_yield => frame.declare(word),
            None => {}
        }
    }
}

/// What a keyword does to the names.
fn clause(frame: &mut Frame, kind: &TokenKind, marked: &Marked, part_of_another: bool) {
    let is = |words: &[&str]| words.iter().any(|word| kind.is_word(word));
    if marked.depth > 0 || part_of_another {
        return;
    }
    if is(&["WITH", "RETURN"]) {
        frame.end_projection();
        frame.taken = Some(Taken::default());
    } else if is(&["UNION"]) {
        *frame = Frame { of_call: frame.of_call, ..Frame::default() };
    } else if is(&["YIELD"]) {
        frame.end_projection();
        frame.in_yield = true;
    } else if is(&[
        "MATCH", "OPTIONAL", "CREATE", "MERGE", "UNWIND", "SET", "DELETE", "DETACH", "REMOVE", "FOREACH", "CALL", "LOAD",
    ]) {
        frame.end_projection();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the end of the text, or at `^`.
    fn check(text: &str, expected: &str) {
        let offset = text.find('^').unwrap_or(text.len());
        let plain = text.replace('^', "");
        assert_eq!(joined(visible(&plain, offset)), expected, "{text}");
    }

    fn joined(names: Vec<Text>) -> String {
        names.iter().map(Text::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn variables_up_to_the_cursor() {
        check("MATCH p = (n)-[r]->(m:Person {x: 1}) RETURN ", "p n r m");
        check("MATCH (n) UNWIND [1] AS i RETURN ^ LIMIT 1", "n i");
        check("MATCH (n) WITH n.x AS x, n AS m WHERE ^", "n x m");
        check("MATCH (n), (k) WITH n.x AS x, k MATCH (o) RETURN ", "x k o");
        check("MATCH (n), (k) WITH *, 1 AS i MATCH (o) RETURN ", "n k i o");
        check("MATCH (n) RETURN n UNION MATCH (m) RETURN ", "m");
        check("CALL recentNodes(3) YIELD node AS n, other RETURN ", "n other");
        check("MATCH (n) CALL { WITH n MATCH (n)--(m) RETURN m } RETURN ", "n m");
        check("MATCH (n) CALL { WITH n MATCH (n)--(m) RETURN ^ } RETURN 1", "n m");
        check("MATCH (n) WHERE EXISTS { (n)--(m) } RETURN ", "n");
        check("MATCH (n) WHERE n.x STARTS WITH 'a' RETURN ", "n");
        check("MATCH (n) RETURN [x IN n.list WHERE ^", "n x");
        check("MATCH (na", "");
        check("", "");
        assert_eq!(joined(parameters("RETURN $a + $b.c + $a")), "a b");
    }
}
