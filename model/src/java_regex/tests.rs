//! What Java answers to the same patterns and texts, asked of OpenJDK 17, and what is refused.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::*;

const NONE: &str = "\0";

/// What they cost is nobody's concern here.
fn matches(pattern: &str, text: &str) -> Result<bool, Failure> {
    super::matches(pattern, text, &|_| Ok(()))
}

fn search(pattern: &str, text: &str) -> Result<Search, Failure> {
    super::search(pattern, text, &|_| Ok(()))
}

fn whole(pattern: &str, text: &str, expected: bool) {
    assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text:?}");
}

/// Every match with its groups; one that took no part is `NONE`.
fn found(pattern: &str, text: &str, expected: &[&[&str]]) {
    let search = search(pattern, text).unwrap_or_else(|failure| panic!("{failure}"));
    let groups = |captures: Captures<'_>| captures.iter().map(|group| group.map_or(NONE, |g| g.as_str()).to_owned()).collect();
    let all: Vec<Vec<String>> = search.captures_iter(text).map(groups).collect();
    assert_eq!(all, expected, "{pattern} {text:?}");
    let wholes: Vec<&str> = search.find_iter(text).map(|found| found.as_str()).collect();
    assert_eq!(wholes, expected.iter().map(|groups| groups[0]).collect::<Vec<_>>(), "{pattern} {text:?}");
}

#[test]
fn the_end_is_before_a_last_line_terminator_too() {
    found("^(.*) (.*)$", "GET / 200\r\n", &[&["GET / 200", "GET /", "200"]]);
    found("c$", "abc\n", &[&["c"]]);
    found("(?s).+$", "ab\n", &[&["ab\n"]]);
    found("(?s).+?$", "ab\n", &[&["ab"], &["\n"]]);
    found(r"x\s*$", "x\n", &[&["x\n"]]);
    found("$", "a\r\n", &[&[""], &[""]]);
    found(r"\r$", "a\r\n", &[]);
    found(r"\n$", "a\r\n", &[&["\n"]]);
    found(r"\n$", "a\n\n", &[&["\n"], &["\n"]]);
    found("(a$|b)(c|$)", "bca\r", &[&["bc", "b", "c"], &["a", "a", ""]]);
    found(r"(?:^|\s)(\S+)(?:\s|$)", "ab cd\n", &[&["ab ", "ab"]]);
    found("(,|$).*", "a,b\n", &[&[",b", ","], &["", ""], &["", ""]]);
    found(r"(\w+(?:\s|$))+", "ab cd\n", &[&["ab cd\n", "cd\n"]]);
    found("(?:a$)+|b", "ab\na\u{2028}", &[&["b"], &["a"]]);
    found(r"\ba\b$", "b a\u{85}", &[&["a"]]);
    found(r"a\Z", "a\u{85}", &[&["a"]]);
    found(r"a\z", "a\n", &[]);
    found("(?d)a.$", "a\r\n", &[&["a\r"]]);
    found("(?d)a$", "a\r", &[]);
    found("a$", "a\nb", &[]);
    whole("c$", "c\n", false);
    whole(r"c\Z", "c", true);
    whole(".*$", "c\r\n", false);
}

#[test]
fn what_follows_the_end_may_take_up_the_only_line_terminator() {
    found(r"a$\s*", "b a\n", &[&["a\n"]]);
    found(r"(a$)\n|b", "ba\r\n", &[&["b", NONE]]);
    found(r"(a)\z|(a)$", "a\n", &[&["a", NONE, "a"]]);
    found(r"(?:\s|$)+", "a b\r", &[&[" "], &["\r"], &[""]]);
    whole(r"(?s).*b(\s|$).*", "a b\n", true);
    whole(r".*$\s*", "ab\r\n", true);
    whole(r"a$\n", "a\n", true);
    whole(r"a$\n", "a\r\n", false);
}

#[test]
fn lines_end_at_javas_terminators() {
    found("(.+)", "abc\r\n", &[&["abc", "abc"]]);
    found(".", "\n\r\u{85}\u{2028}\u{2029}\u{B}", &[&["\u{B}"]]);
    found("(?s).", "\n\r", &[&["\n"], &["\r"]]);
    found("(?d).", "\n\r\u{85}", &[&["\r"], &["\u{85}"]]);
    found("(?m)^(.*)$", "a\nb\r\nc\n", &[&["a", "a"], &["b", "b"], &["c", "c"]]);
    found("(?m)$", "a\r\n", &[&[""], &[""]]);
    found("(?m)^", "", &[]);
    found("(?m)^", "a\n", &[&[""]]);
    found("(?dm)^(.*)$", "a\r\nb", &[&["a\r", "a\r"], &["b", "b"]]);
    whole("(?m)^$", "", false);
    whole("^$", "", true);
    found(r"\R", "\r\n\n\u{B}", &[&["\r\n"], &["\n"], &["\u{B}"]]);
    found(r"\v+|\h+", " \\t\n\u{85}", &[&[" "], &["\n\u{85}"]]);
    whole(r"\V\H", "aa", true);
}

#[test]
fn repetition_that_gives_nothing_back_is_had_where_nothing_would_be() {
    whole("a*+", "aaa", true);
    found("a++|b", "aab", &[&["aa"], &["b"]]);
    whole(r#""[^"]*+""#, "\"ab\"", true);
    found(r"\d++:", "12:3", &[&["12:"]]);
    whole("a?{2}", "a", true);
    found(r"\b{1,2}a", "ba a", &[&["a"]]);
}

#[test]
fn a_match_of_nothing_may_follow_upon_another() {
    found("a*", "aab", &[&["aa"], &[""], &[""]]);
    found("|a", "a", &[&[""], &[""]]);
    found(r"\b", "é a", &[&[""], &[""], &[""], &[""]]);
}

#[test]
fn classes_are_javas() {
    whole("[+--]", "-", true);
    whole("[!~~]", "~", true);
    whole("[a~~a]", "a", true);
    whole("[a-z&&[^bc]]", "b", false);
    whole("[a-z&&[^bc]]", "d", true);
    whole("[a-z&&^b]", "b", true);
    whole("[a&&b&&c]", "a", false);
    whole("[&&a]", "a", true);
    whole("[a&b]", "&", true);
    whole("[ab&&&]", "&", true);
    whole("[a[bc]]", "c", true);
    whole("[^a[b]]", "b", false);
    whole("[^a[b]]", "c", true);
    whole("[]a]", "]", true);
    whole("[^]a]", "]", false);
    whole("[a-[b]]", "-", true);
    whole(r"[\d-a]", "-", true);
    whole(r"[\v-x]", "\u{B}", true);
    whole("[[:alpha:]]", "b", false);
    whole(r"[\Q^]\E]", "]", true);
    whole(r"[\uD83D\uDE00]", "😀", true);
    whole(r"[^\W\d]", "1", false);
    whole(r"\s", "\u{B}", true);
    whole(r"\s", "\u{85}", false);
    whole(r"\d", "٣", false);
    whole(r"(?U)\w\d\s", "é٣\u{85}", true);
}

#[test]
fn properties_are_javas() {
    whole(r"\p{Lower}", "é", false);
    whole(r"(?U)\p{Lower}", "é", true);
    whole(r"(?i)\p{Lower}", "A", true);
    whole(r"(?i)\p{Lu}", "a", true);
    whole(r"\p{javaLowerCase}", "é", true);
    whole(r"\p{IsAlphabetic}\P{L}", "é1", true);
    whole(r"\p{InGreek}", "α", true);
    whole(r"\p{InGreek}", "ἀ", false);
    whole(r"\p{IsGreek}", "ἀ", true);
    whole(r"\p{InLatin-1Supplement}", "é", true);
    whole(r"\p{gc=Lu}\p{sc=Latn}\p{blk=Greek}", "Ééα", true);
    whole(r"\p{IsWhite_Space}\p{IsPunctuation}", " !", true);
    whole(r"\pL\p{L1}\p{all}", "éé\n", true);
    whole(r"\p{Punct}", "$", true);
}

#[test]
fn case_is_folded_as_java_folds_it() {
    whole("(?i)k", "K", true);
    whole("(?iu)k", "K", true);
    whole("(?i)é", "É", false);
    whole("(?iu)é", "É", true);
    whole("(?i)[b-d]", "C", true);
    whole("(?i)[^b-d]", "C", false);
    whole(r"(?i)\w", "K", true);
    whole("(?i)a(?-i)b", "AB", false);
    whole("(?i:a)b", "Ab", true);
    whole("a(?i)b|c", "C", true);
    whole("(a(?i)b)c", "aBC", false);
}

#[test]
fn characters_are_written_as_in_java() {
    whole(r"\cA\e\a\00", "\u{1}\u{1B}\u{7}\u{0}", true);
    whole(r"\0141\07\0477", "a\u{7}'7", true);
    whole(r"\x41\u0042\x{1F600}\uD83D\uDE00", "AB😀😀", true);
    whole(r"\Qa.b\E+", "a.bb", true);
    whole(r"\Q\d(\E", "\\d(", true);
    whole(r"\\Qa", "\\Qa", true);
    whole(r"\_\#}]", "_#}]", true);
    whole("(?x)ab # c", "ab", true);
    whole("(?x)a b[ c]", "abc", true);
    whole("(?x)a # )\n + \\#\\ ", "aa# ", true);
}

#[test]
fn the_whole_text_matches() {
    whole("a|ab", "ab", true);
    whole("a", "ab", false);
    whole("(?i)HELLO", "hello", true);
    whole(r"\d+", "12", true);
    whole(r"\d+", "١٢", false);
    whole(r"[\d.]+", "1.2", true);
    whole(r"\w+\s\W", "a_1 !", true);
    whole(r"\Qa.b\E+", "a.bb", true);
    whole(r"\Qa.b\E", "axb", false);
    whole(r"\p{Alpha}+\p{IsLatin}", "abé", true);
    whole("a.c", "a\nc", false);
    whole("(?s)a.c", "a\nc", true);
    whole("", "", true);
}

/// A million characters, as a query can make them, took seconds to be read.
#[test]
fn very_long_patterns_are_refused_before_they_are_read() {
    let failure = search(&"é".repeat(40_000), "a").expect_err("too long");
    assert!(failure.message.contains("of 80000 bytes") && failure.message.len() < 400, "{failure}");
    assert!(search(&"ab".repeat(10_000), "a").is_ok());
}

#[test]
fn what_needs_backtracking_or_too_much_memory_is_refused() {
    for (pattern, reason) in [
        ("(", "a group is not closed"),
        ("a)", "a `)` closes no group"),
        ("(?=a)b", "look-ahead and look-behind are not supported"),
        ("(?<!a)b", "look-ahead and look-behind are not supported"),
        (r"(a)\1", "back-references are not supported"),
        (r"(?<n>a)\k<n>", "back-references are not supported"),
        ("(?>a)b", "atomic groups, `(?>...)`, are not supported"),
        ("a*+a", "possessive repetition (`*+`) is not supported before what it could have repeated"),
        ("a++a", "possessive repetition (`*+`) is not supported before what it could have repeated"),
        ("a?+aaaa", "possessive repetition (`*+`) is not supported before what it could have repeated"),
        ("(?i)a++A", "possessive repetition (`*+`) is not supported before what it could have repeated"),
        ("(a|ab)*+", "possessive repetition (`*+`) of more than one character is not supported"),
        (r"\X", r"`\X` is not supported"),
        (r"\b{g}", r"`\b{g}` is not supported"),
        (r"\b{x}", r"`{x}` is no count; write `\{` for the brace itself"),
        (r"\y", r"`\y` is not supported"),
        ("a**", "nothing stands before the `*`"),
        ("a{,3}", r"`{,3}` is no count; write `\{` for the brace itself"),
        ("[b-a]", "a range ends before it begins"),
        ("[a", "a class is not closed"),
        (r"\p{InFoo}", "no property of characters is known as `InFoo`"),
        (r"(?:\w{1000}){1000}", "Compiled regex exceeds size limit of 4194304 bytes."),
    ] {
        let failure = matches(pattern, "x").expect_err(pattern);
        assert_eq!(failure.kind, FailureKind::ConstraintViolation);
        assert_eq!(failure.message, format!("`{pattern}` is not a regular expression weir can run: {reason}"));
    }
}

#[test]
fn an_end_that_would_need_a_look_ahead_is_refused_where_it_does() {
    for pattern in [r"a$\s*", r"a$\n", r"(?:\s|$)+", r"a$|a\z", r"a$\b"] {
        assert!(search(pattern, "a").is_ok(), "{pattern}");
        assert!(search(pattern, "a\nb").is_ok() && search(pattern, "a\r\n").is_ok(), "{pattern}");
        let failure = search(pattern, "b\na\n").expect_err(pattern);
        assert!(failure.message.contains("could take up that end"), "{failure}");
        assert!(matches(pattern, "b\na\r\n").is_err(), "{pattern}");
    }
}

#[test]
fn patterns_that_nest_deep_are_refused_or_run() {
    for (open, close) in [("(", ")"), ("(?:", ")"), ("[", "]"), ("[a&&", "]")] {
        for depth in [20, 50, 100, 10_000] {
            let _ = matches(&format!("{}a$|b{}", open.repeat(depth), close.repeat(depth)), "a\n");
        }
    }
}

#[test]
fn what_could_take_very_long_is_refused_before_it_begins() {
    let text = "ab".repeat(1 << 20);
    // Automata of many states at once, which no cache of them helps: time goes with states and text.
    let began = std::time::Instant::now();
    let failure = matches("(?:a|b)*a(?:a|b){9000}", &text).expect_err("too much work");
    assert_eq!(failure.kind, FailureKind::ConstraintViolation);
    assert!(failure.message.contains("cut the text"), "{failure}");
    assert!(search("(?:a|b)*a(?:a|b){9000}", &text).is_err());
    assert_eq!(matches("(?:ab)+", &text), Ok(true));
    assert_eq!(matches("(?:a|b)*a(?:a|b){9}", &text), Ok(true));
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Every match looked through the rest of the text, and was counted as one step.
#[test]
fn a_search_is_counted_by_what_it_may_look_at() {
    let text = "a".repeat(64 << 10);
    let all = search("a*;|a", &text).expect("a pattern");
    let steps: usize = all.find_iter(&text).take(100).map(|found| all.steps(&text, found.end())).sum();
    assert!((1_500..10_000).contains(&steps), "{steps}");
    assert_eq!((all.steps("a", 1), all.steps("a", 2)), (1, 1));
    // The more states, the more work.
    let short = &text[..16 << 10];
    let large = search("(?:a|b)*a(?:a|b){2000}", short).expect("a pattern");
    assert!(large.steps(short, 0) > all.steps(short, 0));
    let lines = text + "\n";
    assert!(search("a*;$|a", &lines).expect("a pattern").steps(&lines, 0) > 16);
}

/// `=~` and a search for the first match cost nothing, and nor did compiling.
#[test]
fn compiling_and_the_first_search_are_counted() {
    let spent = Cell::new(0);
    let spend = |steps: usize| {
        spent.set(spent.get() + steps);
        Ok::<(), Failure>(())
    };
    let matching = |pattern: &str, text: &str| {
        super::matches(pattern, text, &spend).expect(pattern);
        spent.take()
    };
    let searching = |pattern: &str, text: &str| {
        super::search(pattern, text, &spend).expect(pattern);
        spent.take()
    };
    let large = "(?:a|b)*a(?:a|b){2001}";
    let long = "a".repeat(16 << 10);
    for of in [&matching as &dyn Fn(&str, &str) -> usize, &searching] {
        assert!(of(large, "a") > 20, "it is compiled");
        assert_eq!(of(large, "a"), 1);
        assert!(of(large, &long) > 4);
    }
    // Another automaton is made when the first text with such an end comes.
    assert!(searching("abz$", "ab") > 1);
    assert!(searching("abz$", "x\nab\n") > 1);
    assert_eq!((searching("abz$", "ab"), searching("abz$", "x\nab\n")), (1, 1));
    let late = Failure::new(FailureKind::TimeLimit, "late");
    assert_eq!(super::matches("late", "late", &|_| Err(late.clone())), Err(late.clone()));
    assert_eq!(super::search("late", "late", &|_| Err(late.clone())).map(drop), Err(late.clone()));
    assert_eq!(matches("late", "late"), Ok(true));
}

/// An automaton was made of each, to learn which line terminators they have.
#[test]
fn properties_that_come_often_are_looked_up_once() {
    let began = Instant::now();
    assert!(translate::translate(&r"\p{L}".repeat(13_000)).is_ok());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for terminators in ["Cc", "Z", "Zl", "Zp", "L", "IsWhite_Space", "Cntrl", "Space", "javaWhitespace", "InGeneralPunctuation"] {
        for at in TERMINATORS {
            let set = class::Set::property(terminators, translate::Flags::default()).expect(terminators);
            let alone = Regex::new(&format!("[{}]", set.items)).expect(terminators).is_match(&at.to_string());
            let bit = TERMINATORS.iter().position(|c| *c == at).expect("one of them");
            assert_eq!((set.terminators >> bit) & 1 == 1, alone, "{terminators} {at:?}");
        }
    }
}

/// What is kept was bounded by number alone: 32 automata of 4 MiB and more.
#[test]
fn the_cache_is_bounded_in_bytes() {
    let cache = Cache::new();
    for n in 0..24 {
        let pattern = format!("[ab]{{{}}}", 20_000 + n);
        for _ in 0..2 {
            assert!(cache.ready(&pattern, false, "a", &|_| Ok(())).is_ok());
        }
        let entries = cache.0.borrow();
        assert_eq!(entries.last().map(|(known, _)| known), Some(&pattern));
        let bytes: usize = entries.iter().map(|(_, compiled)| compiled.bytes()).sum();
        assert!(bytes <= CACHED_BYTES_MAX, "{bytes}");
    }
    assert!((2..24).contains(&cache.0.borrow().len()));
}

#[test]
fn the_cache_stays_small() {
    for n in 0..100 {
        assert_eq!(matches(&format!("a{n}"), &format!("a{n}")), Ok(true));
    }
    assert_eq!(matches("a99", "a98"), Ok(false));
    let cache = Cache::new();
    for n in 0..100 {
        assert!(cache.ready(&format!("a{n}"), true, "a", &|_| Ok(())).is_ok());
    }
    assert_eq!(cache.0.borrow().len(), CACHED_COUNT_MAX);
}
