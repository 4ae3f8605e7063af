//! The table of passes: everything that can be measured, by name. To add one, write its file and add its row.

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::data::Processes;
#[cfg(feature = "kafka")]
use crate::kafka;
use crate::measure::Run;
use crate::{
    backfill, churn, decode, decode_parquet, floor, http, hub, large, latency, parse, past, procs, reads, restart, rings,
    service, stages, watch,
};

pub struct Pass {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Settings) -> Result<Run, Box<dyn Error>>,
}

/// The whole first, then its stages in the order of the data path; the floor, which is not on it, last.
pub static PASSES: &[Pass] = &[
    Pass { name: "procs", about: "the whole pipe: file of JSON to durable results, counted", run: procs::run },
    Pass { name: "parse", about: "read and decode the events of `procs`, and drop them", run: parse::run },
    Pass { name: "decode-json", about: "records of 300 bytes in memory to values: JSON", run: decode::json },
    Pass { name: "decode-json-3", about: "the same, three keys of ten", run: decode::json_wanted },
    Pass { name: "decode-csv", about: "the same of CSV", run: decode::csv },
    Pass { name: "decode-protobuf", about: "the same of Protobuf", run: decode::protobuf },
    Pass { name: "decode-protobuf-3", about: "the same, three fields of thirteen", run: decode::protobuf_wanted },
    Pass { name: "decode-avro", about: "the same of Avro", run: decode::avro },
    Pass {
        name: "decode-parquet",
        about: "rows of a file of Parquet to values, three columns of seven",
        run: decode_parquet::run,
    },
    Pass { name: "evaluate", about: "the ingest query over decoded events", run: stages::evaluate },
    Pass { name: "log", about: "mutations to durable entries, no graph", run: stages::log },
    Pass { name: "commit", about: "mutations to the graph in memory: look up, build, merge", run: stages::commit },
    Pass { name: "dataflow", about: "mutations to the graph in memory and through the chain of four", run: stages::dataflow },
    Pass {
        name: "floor",
        about: "the chain of `procs` written by hand in differential dataflow",
        run: |settings| floor::run(settings.processes(), settings.batch),
    },
    Pass { name: "numbers", about: "numbers to nodes: the least a record costs", run: stages::numbers },
    Pass { name: "procs-churn", about: "as `dataflow`, while earlier processes change, move and go", run: churn::run },
    Pass { name: "procs-churn-ingest", about: "the same from a file of JSON into a store", run: churn::ingest },
    Pass { name: "rings", about: "payments to counted cycles of three and of four", run: rings::run },
    Pass { name: "rings-latency", about: "`rings` paced at --load of the rate it reaches", run: rings::paced },
    Pass { name: "rings-count", about: "payments to accounts with three cycles of three or more", run: rings::count },
    Pass { name: "rings-not", about: "payments to counted cycles of three without a payment back", run: rings::not },
    Pass { name: "rings-floor", about: "the same written by hand in differential dataflow", run: rings::floor },
    Pass { name: "watch", about: "--queries standing queries of one node, mutations to counted results", run: watch::distinct },
    Pass { name: "watch-chain", about: "--queries standing queries that share a chain of three", run: watch::sharing },
    Pass { name: "installing", about: "single changes while one query after another is installed", run: watch::installing },
    Pass { name: "installing-any", about: "the same, of queries that are asked row by row", run: watch::installing_any },
    Pass {
        name: "stage-sums",
        about: "one of --events floats of ten groups changes, their sums and averages kept",
        run: stages::sums,
    },
    Pass { name: "stage-window", about: "one of --events rows in order changes, ten in their middle shown", run: stages::window },
    Pass { name: "backfill", about: "the chain of four installed on --events while more come in", run: backfill::run },
    Pass { name: "backfill-ingest", about: "the same while lines of JSON come into a store", run: backfill::beside_ingest },
    Pass { name: "hub", about: "one more edge at a node of --events edges, of which no match comes", run: hub::run },
    Pass { name: "hub-growing", about: "the same while the node grows to --events edges", run: hub::growing },
    Pass { name: "latency", about: "`procs` paced at --load of the rate it reaches", run: latency::paced },
    Pass { name: "idle", about: "one change at a time on an idle engine in memory", run: latency::idle },
    Pass { name: "reads", about: "nodes by id, one after another, while records come in", run: reads::points },
    Pass { name: "expand", about: "two steps from a node, a hundred edges each", run: reads::expand },
    Pass { name: "count", about: "how many of --events nodes have a label", run: reads::count },
    Pass { name: "at-time", about: "nodes of a thousand versions by id, as of moments of the past", run: past::run },
    Pass { name: "plan", about: "the text of an ingest query to its plan", run: reads::plans },
    Pass { name: "restart", about: "opening a store of --events to the first new match; see --end", run: restart::run },
    Pass { name: "large", about: "a graph of --events edges: on disk, and opening it to the first new match", run: large::run },
    Pass { name: "large-memory", about: "the same in memory, part by part", run: large::memory },
    Pass { name: "http", about: "a point query by id, from 64 clients, answered by the binary `weir`", run: http::read },
    Pass { name: "http-write", about: "the same for a write of one node, durable when answered", run: http::write },
    Pass { name: "http-live", about: "GET liveness while a stream ingests as fast as it can", run: http::live },
    Pass {
        name: "http-rows",
        about: "an answer of --events rows: the first, the whole, and its end without a client",
        run: service::rows,
    },
    Pass {
        name: "service-start",
        about: "the binary `weir`, from its start to being ready, with an empty store",
        run: service::start,
    },
    Pass { name: "service-idle", about: "its memory and processor time while nothing happens", run: service::idle },
    #[cfg(feature = "kafka")]
    Pass { name: "pipe", about: "Kafka to Kafka by way of the binary `weir`, counted; needs --kafka", run: kafka::pipe },
    #[cfg(feature = "kafka")]
    Pass { name: "pipe-once", about: "the same with results in transactions", run: kafka::pipe_once },
    #[cfg(feature = "kafka")]
    Pass { name: "pipe-latency", about: "`pipe` paced at --load of the rate it reaches", run: kafka::pipe_latency },
    #[cfg(feature = "kafka")]
    Pass { name: "kafka-source", about: "records of a topic through weir's source, counted and dropped", run: kafka::source },
    #[cfg(feature = "kafka")]
    Pass { name: "kafka-client", about: "the same by librdkafka's own consumer", run: kafka::client },
    Pass { name: "fill", about: "stores the events and ends; part of `restart`", run: restart::fill },
    Pass { name: "large-fill", about: "stores the graph and ends; part of `large`", run: large::fill },
];

/// Where a graph is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StoreKind {
    InMemory,
    RocksDb,
}

/// Of the standing query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mode {
    DistinctId,
    MultipleValues,
}

/// How the process ended that filled a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum End {
    Shutdown,
    Abort,
    /// Ten seconds at rest, then as `Abort`.
    Rest,
}

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
    /// Worker threads of the engine.
    #[arg(long, default_value_t = 1)]
    pub workers: usize,
    #[arg(long, value_enum, default_value_t = if cfg!(feature = "rocks-db") { StoreKind::RocksDb } else { StoreKind::InMemory })]
    pub store: StoreKind,
    #[arg(long, value_enum, default_value_t = Mode::DistinctId)]
    pub mode: Mode,
    /// Of `watch` and its like: how many standing queries.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub queries: u64,
    /// Of `latency`: which part of the rate that `procs` reaches.
    #[arg(long, default_value_t = 0.5)]
    pub load: f64,
    /// Of `latency`: events a second, instead of a part of what is reached.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Of `restart` and `large`: how the process before ends.
    #[arg(long, value_enum, default_value_t = End::Abort)]
    pub end: End,
    /// What the process may have of memory, in MiB; all there is when it is not given.
    #[arg(long)]
    pub memory_limit: Option<u64>,
    /// Of the passes with Kafka: the broker, as HOST:PORT.
    #[arg(long)]
    pub kafka: Option<String>,
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
    pub fn to_arguments(&self) -> Vec<OsString> {
        let Settings { events, seed, batch, workers, store, mode, queries, load, rate, end, memory_limit, kafka, directory } =
            self;
        let named = |value: Option<PossibleValue>| value.map_or(String::new(), |value| value.get_name().to_owned());
        let mut pairs = vec![
            ("--events", events.to_string()),
            ("--seed", seed.to_string()),
            ("--batch", batch.to_string()),
            ("--workers", workers.to_string()),
            ("--store", named(store.to_possible_value())),
            ("--mode", named(mode.to_possible_value())),
            ("--queries", queries.to_string()),
            ("--load", load.to_string()),
            ("--end", named(end.to_possible_value())),
        ];
        pairs.extend(rate.map(|rate| ("--rate", rate.to_string())));
        pairs.extend(memory_limit.map(|limit| ("--memory-limit", limit.to_string())));
        pairs.extend(kafka.clone().map(|kafka| ("--kafka", kafka)));
        let pairs = pairs.into_iter().flat_map(|(flag, value)| [flag.into(), value.into()]);
        pairs.chain(["--directory".into(), directory.clone().into()]).collect()
    }
}

/// Small, in memory, in a directory of its own.
#[cfg(test)]
pub fn test_settings(name: &str, events: u64) -> Settings {
    Settings {
        events,
        seed: 3,
        batch: 100,
        workers: 1,
        store: StoreKind::InMemory,
        mode: Mode::DistinctId,
        queries: 3,
        load: 0.5,
        rate: None,
        end: End::Shutdown,
        memory_limit: None,
        kafka: None,
        directory: std::env::temp_dir().join(format!("weir-bench-{name}-{}", std::process::id())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn settings_survive_the_way_to_another_process() {
        let settings = Settings { rate: Some(12.5), end: End::Abort, mode: Mode::MultipleValues, ..test_settings("a b", 7) };
        let arguments = std::iter::once("bench".into()).chain(settings.to_arguments());
        assert_eq!(format!("{:?}", Line::parse_from(arguments).settings), format!("{settings:?}"));
    }
}
