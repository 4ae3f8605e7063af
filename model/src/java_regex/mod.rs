//! Regular expressions as queries write them: in Java's syntax, each search run in time linear in the text.
//!
//!     pattern ──▶ translate: Java's text to that of the `regex` crate ──▶ cache ──▶ search
//!                 class: what one character may be
//!
//! Patterns that need backtracking are refused with an error that says so: look-around, back-references, atomic groups,
//! and possessive repetition where it makes a difference.
//!
//! It is one search that is linear. All matches of `a*;|a` in a text of `a` are as many searches, each of which looks to the end
//! of the text for the `;`. So whoever goes on from match to match counts `Search::steps` for each. The first is counted here,
//! and so is compiling.
//!
//! Java's `$` is true at the end and before a last line terminator. To the crate, which cannot look ahead, it is the end.
//! So in a text that ends with a terminator other automata search:
//!
//! - Where that is the only one, the `$` of lines is Java's `$`.
//! - Else an automaton looks first whose `$` takes the last terminator up. It tells where Java's match begins and which
//!   end it has; the match itself is then looked for in the text up to that end. Where that could differ from Java,
//!   because what stands behind `$` may take up the terminator itself, the text is refused.

mod class;
mod translate;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use regex::{Captures, Match, Regex, RegexBuilder};

use self::class::TERMINATORS;
use self::translate::{Refused, Translated};
use crate::expression::{Failure, FailureKind};

/// A pattern whose automaton would be larger than the last is refused. The steps tell how large one is, and with it what a
/// search may cost.
const COMPILED_BYTES: [usize; 4] = [16 << 10, 128 << 10, 1 << 20, 4 << 20];
/// Bytes of an automaton times bytes of a text, at most. A search takes time in proportion to that at worst, about a second for
/// this much, and cannot be broken off.
const WORK_MAX: usize = 1 << 35;
/// A step is counted for this many bytes that a search may look at, or that compiling has made.
const STEP_BYTES: usize = 4096;
/// A step is counted for this much work, as `WORK_MAX` counts it, that a search may be. The most work is as many steps as there
/// are between two looks at the clock.
const STEP_WORK: usize = WORK_MAX / 128;
/// Reading a longer pattern alone takes long, whatever becomes of it.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a pattern that an error shows.
const SHOWN_BYTES_MAX: usize = 200;
/// Patterns that a thread keeps compiled, at most. Queries have few; a query that makes patterns out of data must not fill
/// memory.
const CACHED_COUNT_MAX: usize = 32;
/// Bytes of the automata that a thread keeps, at most, but for those of the newest pattern.
const CACHED_BYTES_MAX: usize = 16 << 20;

/// Told of the steps that compiling took and that a search may take, as `Context::spend` is: a failure ends it.
pub type Spend<'s> = &'s dyn Fn(usize) -> Result<(), Failure>;

/// Whether it is a pattern that can be run.
pub fn check(pattern: &str) -> Result<(), Failure> {
    matches(pattern, "", &|_| Ok(())).map(drop)
}

/// `text =~ pattern`: the whole text matches.
pub fn matches(pattern: &str, text: &str, spend: Spend<'_>) -> Result<bool, Failure> {
    thread_local!(static CACHE: Cache = const { Cache::new() });
    let search = CACHE.with(|cache| cache.ready(pattern, true, text, spend))?;
    let found = search.place(text, 0).is_some_and(|(regex, ..)| regex.is_match(text));
    Ok(found && !(search.compiled.caret_led && text.is_empty()))
}

/// The pattern for searching anywhere in this text. The steps of the first search are spent.
pub fn search(pattern: &str, text: &str, spend: Spend<'_>) -> Result<Search, Failure> {
    thread_local!(static CACHE: Cache = const { Cache::new() });
    CACHE.with(|cache| cache.ready(pattern, false, text, spend))
}

/// A pattern made ready for one text.
#[derive(Debug)]
pub struct Search {
    compiled: Rc<Compiled>,
    end: End,
    /// Its automaton has at most this many bytes.
    bytes: usize,
}

impl Search {
    /// What a search from there on may cost, in steps for `Context::spend`.
    pub fn steps(&self, text: &str, from: usize) -> usize {
        let rest = text.len().saturating_sub(from);
        1 + rest / STEP_BYTES + self.bytes.saturating_mul(rest) / STEP_WORK
    }

    /// The first match with its groups.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.captures_at(text, 0)
    }

    /// Every match, as Java finds them: one of nothing may follow right upon another.
    pub fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        each(text, |from| self.captures_at(text, from), |captures| captures.get_match().range())
    }

    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        each(text, |from| self.find_at(text, from), Match::range)
    }

    /// Whether a group of the pattern has this name.
    pub fn has_group(&self, name: &str) -> bool {
        self.compiled.plain.regex.capture_names().flatten().any(|known| known == name)
    }

    fn captures_at<'t>(&self, text: &'t str, from: usize) -> Option<Captures<'t>> {
        let (regex, start, end) = self.place(text, from)?;
        let found = regex.captures_at(&text[..end], start)?;
        self.begins_within(found.get_match(), text).then_some(found)
    }

    fn find_at<'t>(&self, text: &'t str, from: usize) -> Option<Match<'t>> {
        let (regex, start, end) = self.place(text, from)?;
        let found = regex.find_at(&text[..end], start)?;
        self.begins_within(found, text).then_some(found)
    }

    /// At the end of a text no line begins, even behind a line terminator.
    fn begins_within(&self, found: Match<'_>, text: &str) -> bool {
        !self.compiled.caret_led || found.start() < text.len()
    }

    /// Where to look for the next match and with what, and where the text ends for it.
    fn place(&self, text: &str, from: usize) -> Option<(&Regex, usize, usize)> {
        let plain = &self.compiled.plain.regex;
        match self.end {
            End::Text => Some((plain, from, text.len())),
            End::Line => Some((&self.compiled.line.get()?.regex, from, text.len())),
            End::Cut { crlf } => {
                let deciding = self.compiled.deciding[usize::from(crlf)].get()?;
                let found = deciding.automaton.regex.captures_at(text, from)?;
                let cut = deciding.cuts.iter().find_map(|group| found.get(*group));
                Some((plain, found.get_match().start(), cut.map_or(text.len(), |cut| cut.start())))
            }
        }
    }
}

/// As Java goes on: behind a match, or one further when that is where the match began.
fn each<M>(
    text: &str,
    find: impl Fn(usize) -> Option<M>,
    range: impl Fn(&M) -> std::ops::Range<usize>,
) -> impl Iterator<Item = M> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let found = find(next?)?;
        let range = range(&found);
        next =
            if range.is_empty() { text[range.end..].chars().next().map(|c| range.end + c.len_utf8()) } else { Some(range.end) };
        Some(found)
    })
}

/// Where Java's `$` is true.
#[derive(Clone, Copy, Debug)]
enum End {
    /// At the end of the text alone.
    Text,
    /// There and before the only line terminator, which stands last.
    Line,
    /// There and before the last line terminator.
    Cut { crlf: bool },
}

#[derive(Debug)]
struct Compiled {
    plain: Automaton,
    /// Whether all of a text is to match.
    whole: bool,
    /// Whether Java's `$` is in it, and whether all it does is known.
    dollar: bool,
    exact: bool,
    caret_led: bool,
    /// For [`End::Line`]; this and the next are made when the first such text comes.
    line: OnceCell<Automaton>,
    /// For [`End::Cut`]: the last terminator is a single character, or it is `\r\n`.
    deciding: [OnceCell<Deciding>; 2],
}

#[derive(Debug)]
struct Deciding {
    automaton: Automaton,
    /// The groups that hold the terminator.
    cuts: Vec<usize>,
}

#[derive(Debug)]
struct Automaton {
    regex: Regex,
    /// It has at most this many bytes.
    bytes: usize,
}

impl Automaton {
    /// Its bytes, if such a text is not too long for it.
    fn within(&self, pattern: &str, text: &str) -> Result<usize, Failure> {
        if self.bytes.saturating_mul(text.len()) <= WORK_MAX {
            return Ok(self.bytes);
        }
        let message = format!(
            "`{}` is too large a regular expression for a text of {} bytes: it could take very long; write a simpler one, \
             or cut the text",
            shown(pattern),
            text.len()
        );
        Err(Failure::new(FailureKind::ConstraintViolation, message))
    }
}

impl Compiled {
    fn end(&self, text: &str) -> End {
        // What takes up no terminator behind `$` matches all of a text only when `$` is its end.
        if !self.dollar || self.whole && self.exact || !text.ends_with(TERMINATORS) {
            return End::Text;
        }
        let crlf = text.ends_with("\r\n");
        let body = if crlf { &text[..text.len() - 2] } else { text.strip_suffix(['\n', '\r']).unwrap_or(text) };
        if body.len() < text.len() && !body.contains(['\n', '\r']) { End::Line } else { End::Cut { crlf } }
    }

    /// All its automata so far have together at most this many bytes.
    fn bytes(&self) -> usize {
        let deciding = self.deciding.iter().filter_map(OnceCell::get).map(|deciding| deciding.automaton.bytes);
        self.plain.bytes + self.line.get().map_or(0, |line| line.bytes) + deciding.sum::<usize>()
    }

    /// What looks first in a text with that end; made when the first such text comes.
    fn automaton(&self, pattern: &str, end: End) -> Result<&Automaton, Failure> {
        match end {
            End::Text => Ok(&self.plain),
            End::Line => self.line(pattern),
            End::Cut { .. } if !self.exact => Err(undecided(pattern)),
            End::Cut { crlf } => self.deciding(pattern, crlf).map(|deciding| &deciding.automaton),
        }
    }

    fn line(&self, pattern: &str) -> Result<&Automaton, Failure> {
        if let Some(line) = self.line.get() {
            return Ok(line);
        }
        let line = build(pattern, &framed(read(pattern)?.line(), self.whole))?;
        Ok(self.line.get_or_init(|| line))
    }

    fn deciding(&self, pattern: &str, crlf: bool) -> Result<&Deciding, Failure> {
        let cell = &self.deciding[usize::from(crlf)];
        if let Some(deciding) = cell.get() {
            return Ok(deciding);
        }
        let automaton = build(pattern, &read(pattern)?.deciding(crlf))?;
        let names = automaton.regex.capture_names().enumerate();
        let cuts = names.filter(|(_, name)| name.is_some_and(|name| name.starts_with(translate::CUT)));
        let cuts = cuts.map(|(group, _)| group).collect();
        Ok(cell.get_or_init(|| Deciding { automaton, cuts }))
    }
}

/// Least recently used goes first; with so few entries a vector beats a map.
struct Cache(RefCell<Vec<(String, Rc<Compiled>)>>);

impl Cache {
    const fn new() -> Cache {
        Cache(RefCell::new(Vec::new()))
    }

    /// The pattern, with the automaton that this text needs.
    fn ready(&self, pattern: &str, whole: bool, text: &str, spend: Spend<'_>) -> Result<Search, Failure> {
        let mut entries = self.0.borrow_mut();
        let (compiled, known_bytes) = match entries.iter().position(|(known, _)| known == pattern) {
            Some(at) => {
                let last = entries.len() - 1;
                entries[at..].rotate_left(1);
                let compiled = entries[last].1.clone();
                let bytes = compiled.bytes();
                (compiled, bytes)
            }
            None => {
                let compiled = Rc::new(compile(pattern, whole)?);
                entries.push((pattern.to_owned(), compiled.clone()));
                (compiled, 0)
            }
        };
        let end = compiled.end(text);
        let bytes = compiled.automaton(pattern, end).and_then(|automaton| automaton.within(pattern, text));
        // Also where that failed: the pattern itself is kept.
        let made = compiled.bytes() - known_bytes;
        if made > 0 {
            trim(&mut entries);
        }
        drop(entries);
        let bytes = bytes?;
        if made > 0 {
            spend(1 + (pattern.len() + made) / STEP_BYTES)?;
        }
        let search = Search { compiled, end, bytes };
        spend(search.steps(text, 0))?;
        Ok(search)
    }
}

/// The oldest go until the others are within bounds; the newest is in use.
fn trim(entries: &mut Vec<(String, Rc<Compiled>)>) {
    let mut bytes: usize = entries.iter().map(|(_, compiled)| compiled.bytes()).sum();
    let mut left = entries.len();
    for (_, compiled) in entries.iter() {
        if left <= 1 || left <= CACHED_COUNT_MAX && bytes <= CACHED_BYTES_MAX {
            break;
        }
        bytes -= compiled.bytes();
        left -= 1;
    }
    entries.drain(..entries.len() - left);
}

fn compile(pattern: &str, whole: bool) -> Result<Compiled, Failure> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!(
            "`{}` is a regular expression of {} bytes, and one has {PATTERN_BYTES_MAX} at most",
            shown(pattern),
            pattern.len()
        );
        return Err(Failure::new(FailureKind::ConstraintViolation, message));
    }
    let translated = read(pattern)?;
    let plain = build(pattern, &framed(translated.plain(), whole))?;
    let (dollar, exact, caret_led) = (translated.dollar, translated.exact, translated.caret_led);
    Ok(Compiled { plain, whole, dollar, exact, caret_led, line: OnceCell::new(), deciding: Default::default() })
}

fn read(pattern: &str) -> Result<Translated, Failure> {
    translate::translate(pattern).map_err(|Refused(reason)| unable(pattern, &reason))
}

fn framed(translated: String, whole: bool) -> String {
    if whole { format!(r"\A(?:{translated})\z") } else { translated }
}

fn build(pattern: &str, translated: &str) -> Result<Automaton, Failure> {
    let mut sizes = COMPILED_BYTES.into_iter();
    let built = loop {
        let bytes = sizes.next().unwrap_or_default();
        match RegexBuilder::new(translated).size_limit(bytes).build() {
            Err(regex::Error::CompiledTooBig(_)) if sizes.len() > 0 => {}
            built => break built.map(|regex| Automaton { regex, bytes }),
        }
    };
    built.map_err(|error| {
        let text = error.to_string();
        unable(pattern, text.lines().last().unwrap_or_default().trim_start_matches("error: "))
    })
}

fn unable(pattern: &str, reason: &str) -> Failure {
    let message = format!("`{}` is not a regular expression weir can run: {reason}", shown(pattern));
    Failure::new(FailureKind::ConstraintViolation, message)
}

fn undecided(pattern: &str) -> Failure {
    let reason = "in a text of lines, the last of which is ended too, what follows its `$` could take up that end; write \
                  `\\z`, or `\\R?\\z`";
    unable(pattern, reason)
}

fn shown(pattern: &str) -> String {
    let end = pattern.floor_char_boundary(SHOWN_BYTES_MAX);
    if end == pattern.len() { pattern.to_owned() } else { format!("{}...", &pattern[..end]) }
}

#[cfg(test)]
mod tests;
