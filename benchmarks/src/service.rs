//! The binary `weir` as those who operate it see it: how soon it is ready, what it takes while nothing happens, and an answer of
//! a million rows as a client takes it, or leaves it.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::http::{Connection, Server, query};
use crate::measure::{Clock, Durations, Latency, Run};
use crate::passes::Settings;

const STARTS: u64 = 20;

/// Threads that start things up have had their time by then.
const SETTLING: Duration = Duration::from_secs(3);
const RESTING: Duration = Duration::from_secs(15);

const ROWS: &str = "MATCH (n:Item) RETURN id(n), n.x, n.name";
const ABORTS: u64 = 20;

/// Bytes that a client has taken when it leaves.
const TAKEN: usize = 1 << 20;

/// Checkpoints and pages that follow many writes have had their time by then, and their memory.
const KEEPING_HOUSE: Duration = Duration::from_secs(12);

/// How often the memory of the server is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A query that goes on for longer than this after its client has left is not counted: it is an error.
const ABORT_MAX: Duration = Duration::from_secs(10);

/// From the process being started to its saying that it is ready, with a store that is empty.
pub fn start(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut durations = Durations::new();
    let clock = Clock::start()?;
    for _ in 0..STARTS {
        let began = Instant::now();
        let server = Server::start(settings, "service-start")?;
        durations.record(began.elapsed());
        server.get("/api/v2/system/readiness")?;
    }
    let mut run = clock.stop("service-start", STARTS)?;
    run.latency_us = durations.latency();
    run.settings = format!("{STARTS} starts with an empty store, {:?}", settings.store);
    Ok(run)
}

/// Memory and processor time of a weir that nobody asks anything.
pub fn idle(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(settings, "service-idle")?;
    std::thread::sleep(SETTLING);
    let clock = Clock::start()?;
    let before = server.cpu_nanoseconds()?;
    std::thread::sleep(RESTING);
    let took = server.cpu_nanoseconds()?.saturating_sub(before);
    let mut run = clock.stop("service-idle", 1)?;
    run.settings = format!(
        "{:.1} MB resident, {:.2} % of a core over {} s, {:?}",
        megabytes(server.resident_bytes()?),
        took as f64 * 100.0 / RESTING.as_nanos() as f64,
        RESTING.as_secs(),
        settings.store
    );
    Ok(run)
}

/// `--events` rows: how soon the first is there, how soon the query ends when its client leaves, and what memory the whole takes.
pub fn rows(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(settings, "http-rows")?;
    server.fill(settings.events)?;
    let (mut first, mut ended) = (Durations::new(), Durations::new());
    for _ in 0..ABORTS {
        let mut answer = Answer::ask(&server)?;
        first.record(answer.first_row()?);
        while answer.taken < TAKEN && answer.receive()? {}
        let running = || Ok::<_, Box<dyn Error>>(server.get("/api/v1/query/cypher/running")? != b"[]");
        if !running()? {
            return Err("the answer was over before its client could leave: more --events are needed".into());
        }
        drop(answer);
        let left = Instant::now();
        while running()? {
            if left.elapsed() > ABORT_MAX {
                return Err("the query goes on though its client has left".into());
            }
        }
        ended.record(left.elapsed());
    }
    // Memory that the first answers left behind is there for those after them.
    std::thread::sleep(KEEPING_HOUSE);
    let before = server.resident_bytes()?;
    let clock = Clock::start()?;
    let mut answer = Answer::ask(&server)?;
    let (mut most, mut looked) = (before, Instant::now());
    while answer.receive()? {
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            most = most.max(server.resident_bytes()?);
        }
    }
    let mut run = clock.stop("http-rows", settings.events)?;
    run.matches = Some(answer.rows());
    run.expected = Some(settings.events);
    run.latency_us = ended.latency();
    run.settings = format!(
        "timed is a query's end after its client has left, {ABORTS} times; first row {}; {:.1} MB resident before the whole answer of \
         {:.0} MB, {:.1} MB at most during it; {:?}",
        shown(first.latency()),
        megabytes(before),
        megabytes(answer.taken as u64),
        megabytes(most),
        settings.store
    );
    Ok(run)
}

fn shown(latency: Option<Latency>) -> String {
    latency.map_or_else(String::new, |Latency { p50, max, .. }| format!("p50 {:.2} ms, at most {:.2} ms", p50 / 1e3, max / 1e3))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// An answer on its way, in chunks.
struct Answer {
    connection: Connection,
    sent: Instant,
    taken: usize,
    /// Lists whose beginning has been seen: the columns, then the rows.
    lists: u64,
    /// The end of what was looked at.
    tail: Vec<u8>,
}

/// How the list of columns begins, and each row, which begins with an id.
const LIST: &[u8] = b"[\"";

impl Answer {
    fn ask(server: &Server) -> Result<Answer, Box<dyn Error>> {
        let mut connection = Connection::open(server.address())?;
        connection.stream.set_nonblocking(false)?;
        let request = query(ROWS, "{}");
        let sent = Instant::now();
        connection.stream.write_all(&request)?;
        Ok(Answer { connection, sent, taken: 0, lists: 0, tail: Vec::new() })
    }

    fn rows(&self) -> u64 {
        self.lists.saturating_sub(1)
    }

    fn first_row(&mut self) -> Result<Duration, Box<dyn Error>> {
        while self.rows() == 0 {
            if !self.receive()? {
                return Err("there was no row".into());
            }
        }
        Ok(self.sent.elapsed())
    }

    /// False at the end.
    fn receive(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut buffer = [0; 64 << 10];
        let count = self.connection.stream.read(&mut buffer)?;
        if self.taken == 0 && !buffer[..count].starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&buffer[..count]).into_owned().into());
        }
        self.taken += count;
        self.tail.extend_from_slice(&buffer[..count]);
        self.lists += self.tail.windows(LIST.len()).filter(|two| *two == LIST).count() as u64;
        // The last chunk is empty.
        let over = count == 0 || self.tail.ends_with(b"\r\n0\r\n\r\n");
        let keep = self.tail.len().saturating_sub(LIST.len() - 1);
        self.tail.drain(..keep);
        Ok(!over)
    }
}

impl Server {
    pub fn resident_bytes(&self) -> Result<u64, Box<dyn Error>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
    }

    /// Processor time of all threads that live.
    fn cpu_nanoseconds(&self) -> Result<u64, Box<dyn Error>> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.process()))? {
            // A thread may end while it is looked at.
            let Ok(stat) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            sum += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(sum)
    }
}
