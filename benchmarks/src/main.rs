//! `bench`: the command line of the benchmarks. Wiring only: what is measured stands in `passes`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::json;
use weir_benchmarks::compare::{self, Contestant};
use weir_benchmarks::passes::{self, PASSES, Settings};
use weir_benchmarks::report::{self, Environment};
use weir_benchmarks::{measure::Run, plot};
use weir_engine::memory;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

#[derive(Parser)]
#[command(about = "Measures weir: rates, latencies, memory, and whether the counts are right")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists what can be measured.
    List,
    /// Writes the events of the workload `procs`, and says how many matches its chain of four must give.
    Data {
        file: PathBuf,
        #[command(flatten)]
        settings: Settings,
    },
    /// Runs one pass in this process, once.
    #[command(args_override_self = true)]
    Run {
        name: String,
        /// Prints one line of JSON instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Runs several passes in turns, each run in a process of its own, and prints one table.
    Compare {
        /// Passes, each with settings of its own if it needs them: procs "dataflow --batch 100"; those of the table when
        /// none is given.
        names: Vec<String>,
        /// A program that measures itself on a file of events, as NAME=PROGRAM; see `rivals/`.
        #[arg(long)]
        rival: Vec<String>,
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        repeats: u32,
        /// Writes every run as JSON into this file.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Draws the rates as SVG into this file.
        #[arg(long)]
        plot: Option<PathBuf>,
        #[command(flatten)]
        settings: Settings,
    },
}

fn main() -> ExitCode {
    // As the binary does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    weir_engine::scheduling::prompt();
    match run(Arguments::parse().command) {
        Ok(runs) if runs.iter().all(Run::count_is_right) => ExitCode::SUCCESS,
        Ok(_) => {
            eprintln!("bench: the matches found are not those expected; the figures mean nothing");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<Vec<Run>, Box<dyn Error>> {
    match command {
        Command::List => {
            PASSES.iter().for_each(|pass| println!("{:<10} {}", pass.name, pass.about));
            Ok(Vec::new())
        }
        Command::Data { file, settings } => {
            let processes = settings.processes();
            let bytes =
                processes.write_all(BufWriter::new(File::create(&file).map_err(|e| format!("{}: {e}", file.display()))?))?;
            println!("{}", json!({"events": processes.count, "bytes": bytes, "chains_of_4": processes.expected_chains(4)}));
            Ok(Vec::new())
        }
        Command::Run { name, json, settings } => {
            if let Some(limit) = settings.memory_limit {
                std::fs::create_dir_all(&settings.directory)?;
                memory::bound(limit << 20, &settings.directory)?;
            }
            let run = (pass(&name)?.run)(&settings)?;
            if json {
                println!("{}", serde_json::to_string(&run)?);
            } else {
                show(&Environment::here(&settings), std::slice::from_ref(&run));
            }
            Ok(vec![run])
        }
        Command::Compare { names, rival, repeats, json, plot, settings } => {
            let environment = Environment::here(&settings);
            let runs = compare::run(&contestants(&names, &rival)?, repeats, &settings)?;
            show(&environment, &runs);
            if let Some(file) = json {
                let text = serde_json::to_string_pretty(&json!({"environment": environment, "runs": runs}))?;
                write(&file, &text)?;
            }
            if let Some(file) = plot {
                write(&file, &plot::svg(&environment, &runs))?;
            }
            Ok(runs)
        }
    }
}

fn pass(name: &str) -> Result<&'static passes::Pass, String> {
    passes::find(name).ok_or_else(|| {
        let known: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        format!("there is no pass {name:?}; there are {}", known.join(", "))
    })
}

fn contestants(names: &[String], rivals: &[String]) -> Result<Vec<Contestant>, String> {
    let mut all = Vec::new();
    let shown = ["procs", "parse", "evaluate", "log", "commit", "dataflow", "floor", "numbers", "latency", "idle", "restart"];
    let shown: Vec<String> = shown.map(str::to_owned).to_vec();
    for label in if names.is_empty() { &shown } else { names } {
        let mut words = label.split_whitespace();
        let name = pass(words.next().unwrap_or_default())?.name;
        all.push(Contestant::Pass { label: label.clone(), name, settings: words.map(str::to_owned).collect() });
    }
    for rival in rivals {
        let (name, program) = rival.split_once('=').ok_or_else(|| format!("--rival {rival:?}: NAME=PROGRAM is expected"))?;
        all.push(Contestant::Rival { name: name.to_owned(), program: program.into() });
    }
    Ok(all)
}

fn show(environment: &Environment, runs: &[Run]) {
    println!("{environment}\n\n{}\n{}", report::table(runs), report::settings(runs));
}

fn write(file: &PathBuf, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}
