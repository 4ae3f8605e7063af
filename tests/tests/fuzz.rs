//! Texts at random: no panic, no second lost, no memory filled. A short form of `make fuzz`.
//!
//! `WEIR_FUZZ` says how many inputs for each target, `WEIR_FUZZ_SEED` where to begin, `WEIR_FUZZ_TARGET` names one of them.

use std::time::Instant;

use weir_tests::fuzz::{BIND_TURNS, TARGETS, attempt, corpus, run};

const INPUTS: u64 = 3_000;
/// How often the long form says where it is.
const INPUTS_BETWEEN_WORDS: u64 = 250_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number")))
}

#[test]
fn the_corpus_breaks_nothing() {
    for text in corpus() {
        for target in TARGETS {
            for turn in 0..BIND_TURNS {
                attempt(*target, &text, turn).unwrap_or_else(|why| panic!("{target:?} {why}\n{text}"));
            }
        }
    }
}

#[test]
fn nothing_breaks_what_reads_cypher() {
    let (count, first) = (number("WEIR_FUZZ").unwrap_or(INPUTS), number("WEIR_FUZZ_SEED").unwrap_or(1));
    let only = std::env::var("WEIR_FUZZ_TARGET").ok();
    for target in
        TARGETS.iter().filter(|target| only.as_ref().is_none_or(|only| format!("{target:?}").eq_ignore_ascii_case(only)))
    {
        let (began, end) = (Instant::now(), first + count);
        let mut seed = first;
        while seed < end {
            let some = INPUTS_BETWEEN_WORDS.min(end - seed);
            // A stack that runs over ends the process: then this is the last word about where it was.
            eprintln!("{target:?} from seed {seed}, after {:?}", began.elapsed());
            run(*target, seed, some).unwrap_or_else(|failure| panic!("{failure}"));
            seed += some;
        }
    }
}
