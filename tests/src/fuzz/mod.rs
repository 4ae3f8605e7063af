//! Texts that nobody would write, fed to whatever reads Cypher: none may end it, hold it up, or fill the memory.
//!
//! Own words, changed at random (`mutate.rs`): deterministic, so that a seed is all it takes to see a failure again, and on
//! stable. A corpus is kept beside (`tests/fuzz-corpus.txt`), with every text that once broke something in it.

pub mod mutate;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Options, StandingMode, compile, compile_plainly, compile_standing, parse, unknown_parameter};
use weir_engine::evaluate::{Environment, Limits, Prepared, evaluate};
use weir_engine::symbols::Symbols;
use weir_engine::view::Empty;
use weir_model::{IdScheme, Mutations, NodeId, Value};

use crate::queries::random_query;
use crate::random::Random;

pub const CORPUS: &str = include_str!("../../fuzz-corpus.txt");

/// No input may take longer.
const INPUT_TIME_MAX: Duration = Duration::from_secs(1);
const ATTEMPTS_TOO_LONG: usize = 3;
/// Nor the whole process hold more, the corpus and the compiled program included.
const MEMORY_KIBIBYTES_MAX: u64 = 256 * 1024;
const INPUTS_BETWEEN_MEMORY_CHECKS: u64 = 1_000;

/// What one input is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Lexer,
    Parser,
    Binder,
    Evaluator,
}

pub const TARGETS: &[Target] = &[Target::Lexer, Target::Parser, Target::Binder, Target::Evaluator];

/// One text a line; `\n` stands for a new line.
pub fn corpus() -> Vec<String> {
    CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).map(|line| line.replace("\\n", "\n")).collect()
}

/// So many inputs from a seed on; each input has a seed of its own. Answers the first that fails, with the reason.
pub fn run(target: Target, first_seed: u64, count: u64) -> Result<(), String> {
    let corpus = corpus();
    for seed in first_seed..first_seed + count {
        let input = input(target, &corpus, seed);
        attempt(target, &input, seed).map_err(|why| format!("{target:?}, seed {seed}: {why}\n{input}"))?;
        if seed % INPUTS_BETWEEN_MEMORY_CHECKS == 0 && memory_kibibytes_peak() > MEMORY_KIBIBYTES_MAX {
            let least = seed.saturating_sub(INPUTS_BETWEEN_MEMORY_CHECKS);
            return Err(format!("{target:?}: too much memory with a seed between {least} and {seed}"));
        }
    }
    Ok(())
}

/// The text of a seed: of the corpus or a random query, changed now and then so little that it still means something.
pub fn input(target: Target, corpus: &[String], seed: u64) -> String {
    let mut random = Random::new(seed);
    if target == Target::Evaluator && !random.once_in(4) {
        return mutate::random_call(&mut random);
    }
    let mut text = match random.below(3) {
        0 => random_query(&mut random).text,
        _ => corpus[random.below(corpus.len() as u64) as usize].clone(),
    };
    for _ in 0..random.below(4) {
        text = mutate::mutate(&mut random, text, corpus);
    }
    text
}

/// Gives the input to the target. The turn says which of several things a target does are done.
pub fn attempt(target: Target, input: &str, turn: u64) -> Result<(), String> {
    let mut took = Duration::MAX;
    // A machine that is busy elsewhere holds up anything once; only what takes long each time does so by itself.
    for again in 0..ATTEMPTS_TOO_LONG {
        let worked = if again > 0 { processor_time() } else { None };
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| match target {
            // The only question that asks the lexer and nothing else.
            Target::Lexer => drop(unknown_parameter(input, "p")),
            Target::Parser => drop(parse(input).map(|tree| tree.to_string())),
            Target::Binder => bind(input, turn),
            Target::Evaluator => evaluated(input),
        }));
        if outcome.is_err() {
            return Err("panics".to_owned());
        }
        // On a machine that does other things too, what counts is how long this one was at work.
        let at_work = worked.and_then(|then| Some(processor_time()?.saturating_sub(then)));
        took = took.min(at_work.unwrap_or_else(|| began.elapsed()));
        if took <= INPUT_TIME_MAX {
            return Ok(());
        }
    }
    Err(format!("takes {took:?}"))
}

/// How many ways there are to compile a text.
pub const BIND_TURNS: u64 = 6;

/// One of the ways a text can be compiled, or what is printed of it: all of them for each text would be a sixth of the texts.
fn bind(input: &str, turn: u64) {
    let options = Options::default();
    match turn % BIND_TURNS {
        0 => drop(compile(input, &options)),
        1 => drop(compile_plainly(input, &options)),
        2 => drop(compile_standing(input, StandingMode::DistinctId, &options)),
        3 => drop(compile_standing(input, StandingMode::MultipleValues, &options)),
        4 => drop(compile_standing(input, StandingMode::AnyQuery, &options)),
        _ => drop(weir_cypher_compiler::explain(input, &options)),
    }
}

/// Runs what compiles over a graph with nothing in it. What would wait or write is left out.
fn evaluated(input: &str) {
    let lower = input.to_lowercase();
    if ["sleep", "load", "wiretap"].iter().any(|word| lower.contains(word)) {
        return;
    }
    let Ok(plan) = compile(input, &Options::default()) else { return };
    let symbols = Symbols::load(Vec::new());
    let parameters = vec![Value::Integer(1); plan.parameters.len()];
    let prepared = Prepared::new(plan, &symbols);
    let deadline = Some(Instant::now() + INPUT_TIME_MAX / 4);
    let environment = Environment {
        view: &Empty,
        parameters: &parameters,
        ids: IdScheme::Uuid,
        now: weir_model::Clock::at(0),
        fresh_id: &NodeId::default,
        limits: Limits { deadline, buffer_bytes_max: 16 << 20, ..Limits::NONE },
        open_cypher: true,
        recall: None,
    };
    let mut shown = 0;
    let _ = evaluate(&prepared, &symbols, &environment, &mut Mutations::default(), &mut |row| {
        // Whatever can be answered can be shown.
        shown += row.iter().map(|value| value.shown().to_string().len()).sum::<usize>();
        ControlFlow::Continue(())
    });
}

/// How long this thread has been at work, as the system tells; nothing where it does not.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The most the process has held, as the system tells; nothing where it does not.
fn memory_kibibytes_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
