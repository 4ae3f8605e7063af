//! The table of passes: everything that can be measured, by name. To add one, write its file and add its row.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::data::Processes;
use crate::measure::Run;
use crate::{floor, parse};

pub struct Pass {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Settings) -> Result<Run, Box<dyn Error>>,
}

/// In the order of the data path; the floor, which is not on it, last.
pub static PASSES: &[Pass] = &[
    Pass { name: "parse", about: "read and decode the events of `procs`, and drop them", run: parse::run },
    Pass {
        name: "floor",
        about: "the chain of `procs` written by hand in differential dataflow",
        run: |settings| floor::run(settings.processes(), settings.batch),
    },
];

pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// What a pass is told. The same for all, so that figures of one comparison belong together.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// How many events.
    #[arg(long, default_value_t = 1_000_000)]
    pub events: u64,
    /// Decides the events, down to the byte.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Events that enter a dataflow at once.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: u64,
    /// Where files of events and stores are put.
    #[arg(long, default_value_os_t = std::env::temp_dir().join("weir-bench"))]
    pub directory: PathBuf,
}

impl Settings {
    pub fn processes(&self) -> Processes {
        Processes { seed: self.seed, count: self.events }
    }

    /// The file of events for these settings, written if it is not there yet.
    pub fn events_file(&self) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(format!("procs-{}-{}.jsonl", self.seed, self.events));
        if !path.exists() {
            // Under another name until it is whole: an interrupted run must not leave a short file behind.
            let unfinished = path.with_extension(format!("{}.part", std::process::id()));
            self.processes().write_all(File::create(&unfinished)?)?;
            fs::rename(&unfinished, &path)?;
        }
        Ok(path)
    }

    /// As arguments for another process.
    pub fn to_arguments(&self) -> Vec<std::ffi::OsString> {
        let pairs = [("--events", self.events), ("--seed", self.seed), ("--batch", self.batch)];
        let numbers = pairs.iter().flat_map(|(flag, n)| [flag.into(), n.to_string().into()]);
        numbers.chain(["--directory".into(), self.directory.clone().into()]).collect()
    }
}
