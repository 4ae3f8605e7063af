//! Texts and bytes that nobody would write, fed to whatever reads Cypher and to every decoder of what comes from outside: none
//! may end it, hold it up, or fill the memory.
//!
//! Cypher is own words, changed at random (`mutate.rs`); bytes are well-formed ones (`samples.rs`), changed at a few places
//! (`damage.rs`) and given to what a stream would give them to (`decoders.rs`). All of it is deterministic, so that a seed is all
//! it takes to see a failure again, and on stable. Corpora are kept beside (`tests/fuzz-corpus.txt`,
//! `tests/fuzz-corpus-bytes.txt`), with everything that once broke something in them.

mod damage;
pub mod decoders;
pub mod mutate;
pub mod samples;

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
pub const CORPUS_OF_BYTES: &str = include_str!("../../fuzz-corpus-bytes.txt");

/// No input may take longer.
const INPUT_TIME_MAX: Duration = Duration::from_secs(1);
const ATTEMPTS_TOO_LONG: usize = 3;
/// The whole process may hold no more, the corpus and the compiled program included.
const MEMORY_KIBIBYTES_MAX: u64 = 256 * 1024;
/// Where compression is undone, of 128 MiB at most: what is undone twice is there in both forms, and room for it grows by
/// doubling.
const MEMORY_UNDONE_KIBIBYTES_MAX: u64 = MEMORY_KIBIBYTES_MAX + 3 * 128 * 1024;
const INPUTS_BETWEEN_MEMORY_CHECKS: u64 = 1_000;

/// What one input is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Lexer,
    Parser,
    Binder,
    Evaluator,
    Json,
    JsonObjects,
    Lines,
    Csv,
    Protobuf,
    ProtobufDescriptors,
    ProtobufDeclarations,
    Avro,
    AvroSchema,
    AvroContainer,
    Parquet,
    /// Records behind the number of their schema.
    Registry,
    /// What is undone to a record, and to a whole file.
    Recoding,
    RecodedFile,
    /// Of HTTP.
    Body,
    ServerSentEvents,
    ReactiveStream,
    Nats,
    Mqtt,
    Amqp,
    Redis,
    Postgres,
    KinesisEvents,
}

pub const TARGETS: &[Target] = &[Target::Lexer, Target::Parser, Target::Binder, Target::Evaluator];

pub const DECODERS: &[Target] = &[
    Target::Json,
    Target::JsonObjects,
    Target::Lines,
    Target::Csv,
    Target::Protobuf,
    Target::ProtobufDescriptors,
    Target::ProtobufDeclarations,
    Target::Avro,
    Target::AvroSchema,
    Target::AvroContainer,
    Target::Parquet,
    Target::Registry,
    Target::Recoding,
    Target::RecodedFile,
    Target::Body,
    Target::ServerSentEvents,
    Target::ReactiveStream,
    Target::Nats,
    Target::Mqtt,
    Target::Amqp,
    Target::Redis,
    Target::Postgres,
    Target::KinesisEvents,
];

impl Target {
    fn memory_kibibytes_max(self) -> u64 {
        match self {
            Target::Recoding | Target::RecodedFile | Target::AvroContainer | Target::Parquet => MEMORY_UNDONE_KIBIBYTES_MAX,
            _ => MEMORY_KIBIBYTES_MAX,
        }
    }
}

/// One text a line; `\n` stands for a new line.
pub fn corpus() -> Vec<String> {
    CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).map(|line| line.replace("\\n", "\n")).collect()
}

/// A target, and bytes for it in hexadecimal digits, a line.
pub fn corpus_of_bytes() -> Vec<(Target, Vec<u8>)> {
    let lines = CORPUS_OF_BYTES.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let read = |line: &str| {
        let (name, digits) = line.split_once(' ')?;
        let target = DECODERS.iter().find(|target| format!("{target:?}") == name)?;
        Some((*target, samples::unhex(digits)?))
    };
    lines.map(|line| read(line).unwrap_or_else(|| panic!("no target with bytes: {line}"))).collect()
}

/// Tries `count` inputs from a seed on; each input has a seed of its own. Answers the first that fails, with the reason, or how
/// many meant something.
pub fn run_bytes(target: Target, first_seed: u64, count: u64) -> Result<u64, String> {
    forget_the_peak();
    let _quiet = (target == Target::Parquet).then(Quiet::new);
    let mut meant = 0;
    for seed in first_seed..first_seed + count {
        let input = input_of_bytes(target, seed);
        let told = |why: String| {
            let shown = input.iter().take(4_096).map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("{target:?}, seed {seed}, {} bytes: {why}\n{shown}", input.len())
        };
        meant += u64::from(attempt_bytes(target, &input, seed).map_err(told)? > 0);
        if seed % INPUTS_BETWEEN_MEMORY_CHECKS == 0 && memory_kibibytes_peak() > target.memory_kibibytes_max() {
            let least = seed.saturating_sub(INPUTS_BETWEEN_MEMORY_CHECKS);
            return Err(format!("{target:?}: {} KiB of memory with a seed between {least} and {seed}", memory_kibibytes_peak()));
        }
    }
    Ok(meant)
}

/// The library that reads Parquet asserts things of files, which weir catches; nobody wants to read of each.
struct Quiet;

impl Quiet {
    fn new() -> Quiet {
        std::panic::set_hook(Box::new(|_| {}));
        Quiet
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        drop(std::panic::take_hook());
    }
}

/// The bytes of a seed: well-formed ones, most of them changed.
pub fn input_of_bytes(target: Target, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ (target as u64) << 56);
    let mut bytes = samples::sample(target, &mut random);
    let changes = [0, 1, 1, 2, 3, 6][random.below(6) as usize];
    if changes > 0 {
        let other = if random.once_in(4) { samples::sample(target, &mut random) } else { Vec::new() };
        (0..changes).for_each(|_| damage::damage(&mut random, &mut bytes, samples::words(target), &other));
    }
    bytes
}

/// Gives the bytes to the target; how many values they were.
pub fn attempt_bytes(target: Target, input: &[u8], turn: u64) -> Result<u64, String> {
    in_time(|| decoders::feed(target, input, turn))?
}

/// Tries `count` inputs from a seed on; each input has a seed of its own. Answers the first that fails, with the reason.
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
    in_time(|| match target {
        // The only question that asks the lexer and nothing else.
        Target::Lexer => drop(unknown_parameter(input, "p")),
        Target::Parser => drop(parse(input).map(|tree| tree.to_string())),
        Target::Binder => bind(input, turn),
        _ => evaluated(input),
    })
}

/// What an input comes to, which is no panic and takes no longer than it may.
fn in_time<T>(work: impl Fn() -> T) -> Result<T, String> {
    let mut took = Duration::MAX;
    // A machine that is busy elsewhere holds up anything once; only what takes long each time does so by itself.
    for again in 0..ATTEMPTS_TOO_LONG {
        let worked = if again > 0 { processor_time() } else { None };
        let began = Instant::now();
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(&work)) else { return Err("panics".to_owned()) };
        // On a machine that does other things too, what counts is how long this one was at work.
        let at_work = worked.and_then(|then| Some(processor_time()?.saturating_sub(then)));
        took = took.min(at_work.unwrap_or_else(|| began.elapsed()));
        if took <= INPUT_TIME_MAX {
            return Ok(outcome);
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

/// From now on the peak is of what comes, where the system can be told so.
fn forget_the_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
