//! What one character may be: Java's `[…]`, `\d` and `\p{…}` as members of a class of the `regex` crate.
//!
//! Java nests classes, joins them and cuts them with `&&`, as the crate does; but what binds how, and which characters
//! are operators, differs. So every class is read by Java's rules and written anew, with nothing left to be taken for an
//! operator.

use std::cell::RefCell;

use regex::Regex;

use super::translate::Flags;

/// The characters that end a line. A [`Set`] tells with a bit for each which of them it has.
pub(super) const TERMINATORS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// Members whose terminators a thread remembers, and how long they may be. The properties of Unicode have names this short.
const REMEMBERED_COUNT_MAX: usize = 64;
const REMEMBERED_BYTES_MAX: usize = 64;

/// Some characters.
#[derive(Clone)]
pub(super) struct Set {
    /// Stands between brackets.
    pub items: String,
    /// Which of the [`TERMINATORS`] are among them.
    pub terminators: u8,
}

impl Set {
    pub fn range(first: char, last: char, flags: Flags) -> Set {
        let mut items = String::new();
        span(first, last, &mut items);
        if flags.ignore_case && !flags.unicode_case {
            // Java folds ASCII alone. The crate folds by all of Unicode, where `k` is the Kelvin sign too.
            for (from, to, other) in [('a', 'z', 'A'), ('A', 'Z', 'a')] {
                let (low, high) = (first.max(from), last.min(to));
                if low <= high {
                    let shifted = |c: char| char::from((c as u32 - from as u32 + other as u32) as u8);
                    span(shifted(low), shifted(high), &mut items);
                }
            }
        }
        let bits = TERMINATORS.iter().enumerate().map(|(at, c)| u8::from((first..=last).contains(c)) << at);
        Set { items, terminators: bits.sum() }
    }

    /// Members written in the crate's syntax; which terminators they have is asked of it. A pattern may do so twenty thousand
    /// times, so it is remembered.
    pub fn members(items: &str) -> Option<Set> {
        thread_local!(static REMEMBERED: RefCell<Vec<(String, u8)>> = const { RefCell::new(Vec::new()) });
        REMEMBERED.with_borrow_mut(|remembered| {
            let known = remembered.iter().find(|(known, _)| known == items).map(|(_, terminators)| *terminators);
            let terminators = match known {
                Some(terminators) => terminators,
                None => {
                    let terminators = terminators_of(items)?;
                    if items.len() <= REMEMBERED_BYTES_MAX {
                        if remembered.len() == REMEMBERED_COUNT_MAX {
                            remembered.remove(0);
                        }
                        remembered.push((items.to_owned(), terminators));
                    }
                    terminators
                }
            };
            Some(Set { items: items.to_owned(), terminators })
        })
    }

    /// Whether this is none of them, also when case is ignored by all of Unicode.
    pub fn lacks(&self, c: char) -> bool {
        let mut only = String::new();
        member(c, &mut only);
        // Cut down to the one, as below.
        let regex = Regex::new(&format!("(?i:[[{}]&&[{only}]])", self.items));
        regex.is_ok_and(|regex| !regex.is_match(c.encode_utf8(&mut [0; 4])))
    }

    /// `\d`, `\H` and their like; none where the letter is no class.
    pub fn predefined(letter: char, flags: Flags) -> Option<Set> {
        let set = |items: &str, terminators| Set { items: items.to_owned(), terminators };
        let found = match letter.to_ascii_lowercase() {
            'd' if flags.unicode_classes => set(r"\p{Nd}", 0),
            'w' if flags.unicode_classes => set(r"\w", 0),
            's' if flags.unicode_classes => set(r"\s", 0b11111),
            'd' => set("0-9", 0),
            'w' => set("a-zA-Z_0-9", 0),
            's' => set(r" \t\n\x0B\f\r", 0b00011),
            'h' => set(r" \t\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}", 0),
            'v' => set(r"\n\x0B\f\r\x{85}\x{2028}\x{2029}", 0b11111),
            _ => return None,
        };
        Some(if letter.is_ascii_uppercase() { found.negated() } else { found })
    }

    /// `\p{name}`; none where nothing is known by that name.
    pub fn property(name: &str, flags: Flags) -> Option<Set> {
        let value = name.split_once('=').map(|(key, value)| (key.to_ascii_lowercase(), value));
        match value {
            Some((key, value)) => match key.as_str() {
                "blk" | "block" => block(value),
                "sc" | "script" => Set::members(&format!(r"\p{{sc={value}}}")),
                "gc" | "general_category" => Set::members(&format!(r"\p{{gc={value}}}")),
                _ => None,
            },
            None if name.starts_with("In") => block(&name[2..]),
            None => Set::members(&named(name, flags)),
        }
    }

    pub fn negated(self) -> Set {
        Set { items: format!("[^{}]", self.items), terminators: !self.terminators & 0b11111 }
    }

    pub fn and(self, other: Set) -> Set {
        let items = format!("[[{}]&&[{}]]", self.items, other.items);
        Set { items, terminators: self.terminators & other.terminators }
    }

    pub fn joined(this: Option<Set>, other: Set) -> Set {
        let Some(mut all) = this else { return other };
        all.items.push_str(&other.items);
        all.terminators |= other.terminators;
        all
    }
}

/// Cut down to those five, the automaton is a small one whatever the members are; that of all letters takes long to make.
fn terminators_of(items: &str) -> Option<u8> {
    let regex = Regex::new(&format!(r"[[{items}]&&[\n\r\x{{85}}\x{{2028}}\x{{2029}}]]")).ok()?;
    let mut text = [0; 4];
    let bits = TERMINATORS.iter().enumerate().map(|(at, c)| u8::from(regex.is_match(c.encode_utf8(&mut text))) << at);
    Some(bits.sum())
}

fn span(first: char, last: char, out: &mut String) {
    member(first, out);
    if last > first {
        out.push('-');
        member(last, out);
    }
}

fn member(c: char, out: &mut String) {
    if c.is_alphanumeric() {
        out.push(c);
    } else {
        out.push_str(&format!(r"\x{{{:X}}}", c as u32));
    }
}

/// The members of a property that is not written `key=value`. The classes of POSIX are ASCII, unless `(?U)` is set.
fn named(name: &str, flags: Flags) -> String {
    // To Java, whoever ignores case sees no difference between small and capital letters.
    let cased = flags.ignore_case;
    let unicode = flags.unicode_classes;
    let items = match name {
        "Lower" | "Upper" if cased && !unicode => "a-zA-Z",
        "Lu" | "Ll" | "Lt" | "IsLu" | "IsLl" | "IsLt" if cased => r"\p{Lu}\p{Ll}\p{Lt}",
        "javaLowerCase" | "javaUpperCase" | "javaTitleCase" if cased => r"\p{Lowercase}\p{Uppercase}\p{Lt}",
        "Lower" | "Upper" if cased => r"\p{Lowercase}\p{Uppercase}\p{Lt}",
        "Lower" if unicode => r"\p{Lowercase}",
        "Upper" if unicode => r"\p{Uppercase}",
        "Alpha" if unicode => r"\p{Alphabetic}",
        "Digit" if unicode => r"\p{Nd}",
        "Alnum" if unicode => r"\p{Alphabetic}\p{Nd}",
        "Punct" if unicode => r"\p{P}",
        "Space" if unicode => r"\p{White_Space}",
        "Blank" if unicode => r"\p{Zs}\t",
        "Cntrl" if unicode => r"\p{Cc}",
        "XDigit" if unicode => r"\p{Nd}\p{Hex_Digit}",
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => "[:punct:]",
        "Graph" => "[:graph:]",
        "Print" => "[:print:]",
        "Blank" => r" \t",
        "Cntrl" => "[:cntrl:]",
        "XDigit" => "0-9a-fA-F",
        "Space" => r" \t\n\x0B\f\r",
        "ASCII" => r"\x00-\x7F",
        "L1" => r"\x00-\x{FF}",
        "LD" | "javaLetterOrDigit" => r"\p{L}\p{Nd}",
        "all" => r"\x00-\x{10FFFF}",
        "javaLowerCase" => r"\p{Lowercase}",
        "javaUpperCase" => r"\p{Uppercase}",
        "javaTitleCase" => r"\p{Lt}",
        "javaAlphabetic" => r"\p{Alphabetic}",
        "javaIdeographic" => r"\p{Ideographic}",
        "javaDigit" => r"\p{Nd}",
        "javaLetter" => r"\p{L}",
        "javaDefined" => r"\P{Cn}",
        "javaSpaceChar" => r"\p{Z}",
        "javaISOControl" => r"\p{Cc}",
        "javaWhitespace" => r"\t-\r\x1C-\x1F[\p{Z}&&[^\x{A0}\x{2007}\x{202F}]]",
        _ => match name.strip_prefix("Is").unwrap_or(name) {
            "Lowercase" | "Uppercase" | "Titlecase" if cased => r"\p{Lowercase}\p{Uppercase}\p{Lt}",
            "Titlecase" => r"\p{Lt}",
            "Alnum" => r"\p{Alphabetic}\p{Nd}",
            "Blank" => r"\p{Zs}\t",
            "Word" => r"\w",
            known => return format!(r"\p{{{known}}}"),
        },
    };
    items.to_owned()
}

/// The crate knows no blocks; these are those of the scripts most in use. Sorted by where they begin.
fn block(name: &str) -> Option<Set> {
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect();
    let range = match plain.as_str() {
        "basiclatin" => r"\x00-\x7F",
        "latin1supplement" => r"\x{80}-\x{FF}",
        "latinextendeda" => r"\x{100}-\x{17F}",
        "latinextendedb" => r"\x{180}-\x{24F}",
        "ipaextensions" => r"\x{250}-\x{2AF}",
        "spacingmodifierletters" => r"\x{2B0}-\x{2FF}",
        "combiningdiacriticalmarks" => r"\x{300}-\x{36F}",
        "greek" | "greekandcoptic" => r"\x{370}-\x{3FF}",
        "cyrillic" => r"\x{400}-\x{4FF}",
        "armenian" => r"\x{530}-\x{58F}",
        "hebrew" => r"\x{590}-\x{5FF}",
        "arabic" => r"\x{600}-\x{6FF}",
        "devanagari" => r"\x{900}-\x{97F}",
        "bengali" => r"\x{980}-\x{9FF}",
        "thai" => r"\x{E00}-\x{E7F}",
        "georgian" => r"\x{10A0}-\x{10FF}",
        "hanguljamo" => r"\x{1100}-\x{11FF}",
        "latinextendedadditional" => r"\x{1E00}-\x{1EFF}",
        "greekextended" => r"\x{1F00}-\x{1FFF}",
        "generalpunctuation" => r"\x{2000}-\x{206F}",
        "currencysymbols" => r"\x{20A0}-\x{20CF}",
        "letterlikesymbols" => r"\x{2100}-\x{214F}",
        "arrows" => r"\x{2190}-\x{21FF}",
        "mathematicaloperators" => r"\x{2200}-\x{22FF}",
        "boxdrawing" => r"\x{2500}-\x{257F}",
        "cjksymbolsandpunctuation" => r"\x{3000}-\x{303F}",
        "hiragana" => r"\x{3040}-\x{309F}",
        "katakana" => r"\x{30A0}-\x{30FF}",
        "cjkunifiedideographs" => r"\x{4E00}-\x{9FFF}",
        "hangulsyllables" => r"\x{AC00}-\x{D7AF}",
        "halfwidthandfullwidthforms" => r"\x{FF00}-\x{FFEF}",
        "emoticons" => r"\x{1F600}-\x{1F64F}",
        _ => return None,
    };
    Set::members(range)
}
