//! Bytes at random for every decoder: no panic, no second lost, no memory filled. A short form of `make fuzz`.
//!
//! `WEIR_FUZZ` says how many inputs for each target, `WEIR_FUZZ_SEED` where to begin, `WEIR_FUZZ_TARGET` names one of them.
//! What is measured is the memory of the process, so that all of it is one test.

use std::time::Instant;

use weir_tests::fuzz::{DECODERS, Target, attempt_bytes, corpus_of_bytes, input_of_bytes, run_bytes};

const INPUTS: u64 = 2_000;
/// Where each sample is a file.
const INPUTS_OF_FILES: u64 = 1_000;
/// How often the long form says where it is.
const INPUTS_BETWEEN_WORDS: u64 = 250_000;
/// At least one of this many inputs means something, or what is tried is the first check of a decoder and nothing behind it.
const MEANT_ONE_IN: u64 = 20;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number")))
}

#[test]
fn nothing_breaks_what_reads_bytes() {
    for (target, bytes) in corpus_of_bytes() {
        for turn in 0..16 {
            attempt_bytes(target, &bytes, turn)
                .unwrap_or_else(|why| panic!("{target:?} {why}, with what is in the corpus: {bytes:02x?}"));
        }
    }
    let (given, first) = (number("WEIR_FUZZ"), number("WEIR_FUZZ_SEED").unwrap_or(1));
    let only = std::env::var("WEIR_FUZZ_TARGET").ok();
    for target in
        DECODERS.iter().filter(|target| only.as_ref().is_none_or(|only| format!("{target:?}").eq_ignore_ascii_case(only)))
    {
        let files = matches!(target, Target::Parquet | Target::AvroContainer | Target::ProtobufDescriptors);
        let count = given.unwrap_or(if files { INPUTS_OF_FILES } else { INPUTS });
        let (began, end) = (Instant::now(), first + count);
        let (mut seed, mut meant) = (first, 0);
        while seed < end {
            let some = INPUTS_BETWEEN_WORDS.min(end - seed);
            // A stack that runs over ends the process: then this is the last word about where it was.
            eprintln!("{target:?} from seed {seed}, after {:?}; {meant} meant something", began.elapsed());
            meant += run_bytes(*target, seed, some).unwrap_or_else(|failure| panic!("{failure}"));
            seed += some;
        }
        eprintln!("{target:?}: {count} inputs, {meant} of which meant something, {:?}", began.elapsed());
        assert!(meant >= count / MEANT_ONE_IN, "{target:?}: only {meant} of {count} inputs meant anything");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for target in DECODERS {
        assert_eq!(input_of_bytes(*target, 7), input_of_bytes(*target, 7), "{target:?}");
    }
}
