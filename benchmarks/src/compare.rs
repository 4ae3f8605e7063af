//! Several passes, several times, in turns: a, b, c, a, b, c. Machines are shared and noisy; what disturbs one pass disturbs
//! its neighbours in time too, so ratios hold where single figures do not.
//!
//! Each run is a process of its own that prints one line of JSON. A rival is a program that prints the same line.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::measure::Run;
use crate::passes::Settings;

/// What to run: one of our passes, or a rival's program, which is given the file of events.
pub enum Contestant {
    /// The settings of its own come after those of all, and win.
    Pass {
        label: String,
        name: &'static str,
        settings: Vec<String>,
    },
    Rival {
        name: String,
        program: PathBuf,
    },
}

impl Contestant {
    fn name(&self) -> &str {
        match self {
            Contestant::Pass { label, .. } => label,
            Contestant::Rival { name, .. } => name,
        }
    }

    fn command(&self, settings: &Settings) -> Result<Command, Box<dyn Error>> {
        Ok(match self {
            Contestant::Pass { name, settings: own, .. } => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("run").arg(name).arg("--json").args(settings.to_arguments()).args(own);
                command
            }
            Contestant::Rival { program, .. } => {
                let mut command = Command::new(program);
                command.arg(settings.events_file()?);
                command
            }
        })
    }
}

/// All runs, in the order they were made.
pub fn run(contestants: &[Contestant], repeats: u32, settings: &Settings) -> Result<Vec<Run>, Box<dyn Error>> {
    let mut runs = Vec::new();
    for repeat in 1..=repeats {
        for contestant in contestants {
            eprintln!("{repeat}/{repeats} {}", contestant.name());
            runs.push(one(contestant, settings).map_err(|e| format!("{}: {e}", contestant.name()))?);
        }
    }
    Ok(runs)
}

fn one(contestant: &Contestant, settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut command = contestant.command(settings)?;
    let started = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = started.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A run whose count is wrong fails, and still says what it found: the report shows it.
    match text.lines().last().and_then(|line| serde_json::from_str::<Run>(line).ok()) {
        Some(run) if output.status.success() || !run.count_is_right() => Ok(Run { name: contestant.name().to_owned(), ..run }),
        _ => Err(format!("ended with {} and without a result", output.status).into()),
    }
}
