//! A smaller query and a shorter history that still differ: pieces of the text and records are left out as long as they do.

use super::compare::World;
use super::graph::History;
use super::outcome::Difference;
use super::setting::{Baseline, Begin, Setting};
use super::text::Query;

/// Attempts in all; each opens an engine.
const ATTEMPTS_MAX: usize = 1_500;

pub fn minimize(difference: &Difference) -> Difference {
    let mut found = difference.clone();
    let mut attempts = 0;
    loop {
        let before = (found.query.text.len(), size(&found.history));
        simplify_setting(&mut found, &mut attempts);
        shorten_history(&mut found, &mut attempts);
        shorten_text(&mut found, &mut attempts);
        if (found.query.text.len(), size(&found.history)) == before || attempts >= ATTEMPTS_MAX {
            return found;
        }
    }
}

fn size(history: &History) -> usize {
    history.records.iter().map(Vec::len).sum()
}

/// The candidate's difference, if it is one of the same sort.
fn attempt(query: Query, history: History, like: &Difference, attempts: &mut usize) -> Option<Difference> {
    attempt_in(like.setting.clone(), query, history, like, attempts)
}

fn attempt_in(setting: Setting, query: Query, history: History, like: &Difference, attempts: &mut usize) -> Option<Difference> {
    *attempts += 1;
    let found = World::new(history, setting).live(&[query]).err()?;
    (found.sort == like.sort).then_some(*found)
}

/// One worker, one life, no pause, no replacement, no checkpoint, everything from the beginning, each record by itself, and what
/// is simple of the clock: as far as that differs too.
fn simplify_setting(found: &mut Difference, attempts: &mut usize) {
    let simpler: [fn(&mut Setting); 9] = [
        |setting| setting.batches_per_life = None,
        |setting| setting.begins = vec![Begin { after: 0, baseline: Baseline::All }],
        |setting| setting.pauses = Vec::new(),
        |setting| setting.replacements = Vec::new(),
        |setting| setting.checkpoints = Vec::new(),
        |setting| setting.workers = 1,
        |setting| setting.batch_size = 1,
        |setting| setting.clock.iter_mut().flatten().for_each(|passing| passing.after = 0),
        |setting| setting.clock.iter_mut().flatten().for_each(|passing| passing.rests = true),
    ];
    for simplify in simpler {
        let mut setting = found.setting.clone();
        simplify(&mut setting);
        if setting != found.setting
            && let Some(smaller) = attempt_in(setting, found.query.clone(), found.history.clone(), found, attempts)
        {
            *found = smaller;
        }
    }
}

fn shorten_history(found: &mut Difference, attempts: &mut usize) {
    let mut piece = found.history.records.len() / 2;
    while piece > 0 && *attempts < ATTEMPTS_MAX {
        let mut at = 0;
        while at < found.history.records.len() && *attempts < ATTEMPTS_MAX {
            let mut history = found.history.clone();
            // The first record makes the nodes that parameters name.
            let end = (at + piece).min(history.records.len());
            history.records.drain(at.max(1).min(end)..end);
            if history.records.len() < found.history.records.len()
                && let Some(smaller) = attempt(found.query.clone(), history, found, attempts)
            {
                *found = smaller;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
}

fn shorten_text(found: &mut Difference, attempts: &mut usize) {
    let mut piece = pieces(&found.query.text).len() / 2;
    while piece > 0 && *attempts < ATTEMPTS_MAX {
        let mut at = 0;
        loop {
            let words = pieces(&found.query.text);
            if at >= words.len() || *attempts >= ATTEMPTS_MAX {
                break;
            }
            let end = (at + piece).min(words.len());
            let text = [&words[..at], &words[end..]].concat().concat();
            // Rows that are skipped must be the same rows, so all that is sorted by goes or stays.
            let query = Query { text, ordered: found.query.ordered, form: found.query.form };
            match attempt(query, found.history.clone(), found, attempts) {
                Some(smaller) => *found = smaller,
                None => at += 1,
            }
        }
        piece /= 2;
    }
}

/// Words, numbers, texts and signs, each with the blanks behind it; what ORDER BY says up to the next clause is one piece.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut quoted = false;
    let mut last = ' ';
    for c in text.chars() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '.';
        let joins = quoted || c == ' ' || (word(c) && word(last));
        match pieces.last_mut() {
            Some(piece) if joins => piece.push(c),
            _ => pieces.push(c.to_string()),
        }
        if c == '\'' {
            quoted = !quoted;
        }
        last = c;
    }
    let mut joined: Vec<String> = Vec::new();
    let mut sorting = false;
    for piece in pieces {
        let word = piece.trim();
        if ["MATCH", "OPTIONAL", "WITH", "RETURN", "UNWIND", "CALL", "WHERE", "UNION", "}"].contains(&word) {
            sorting = false;
        }
        match joined.last_mut() {
            Some(last) if sorting => *last += &piece,
            _ => joined.push(piece.clone()),
        }
        sorting |= word == "ORDER";
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn what_is_sorted_by_is_one_piece() {
        let text = "MATCH (n1:A) WITH n1 ORDER BY n1, n1.x DESC LIMIT 2 WHERE n1.s = 'a b' RETURN n1.x AS c";
        let found = pieces(text);
        assert_eq!(found.concat(), text);
        assert!(found.contains(&"ORDER BY n1, n1.x DESC LIMIT 2 ".to_owned()), "{found:?}");
        assert!(found.contains(&"'a b' ".to_owned()), "{found:?}");
    }
}
