//! The real binary as a child process, in a directory of its own: started, asked, stopped and killed.
//!
//! Everything here has a limit of time, and a test that fails shows the end of what weir logged. Does not know what is tested.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::client::{self, Answer};

/// How long weir may take to be ready; generous, since machines under load are slow.
pub const START_MAX: Duration = Duration::from_secs(60);

/// How long weir may take to end when it is asked to.
pub const STOP_MAX: Duration = Duration::from_secs(60);

/// How long results may take to be written; generous, since machines under load are slow.
pub const RESULTS_MAX: Duration = Duration::from_secs(60);

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(2);

/// How much of the log the message of a failure shows.
const LOG_SHOWN_BYTES_MAX: u64 = 6_000;

const USUAL: &[&str] = &["-Dweir.webserver.address=127.0.0.1", "-Dweir.webserver.port=0", "-Dweir.store.filepath=data"];

/// A directory for one weir: its working directory, its data, the files it reads and writes, its log. Goes with the last
/// that uses it, unless the test fails.
pub struct Home {
    directory: Arc<Directory>,
}

struct Directory(TempDir);

impl Home {
    pub fn new() -> Home {
        let directory = tempfile::Builder::new().prefix("weir-test-").tempdir().expect("a temporary directory");
        Home { directory: Arc::new(Directory(directory)) }
    }

    pub fn path(&self) -> &Path {
        self.directory.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).expect("a file in the temporary directory");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The whole lines of a file of results, which need not be there yet.
    pub fn lines(&self, name: &str) -> Vec<Json> {
        let text = fs::read_to_string(self.file(name)).unwrap_or_default();
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// Waits for `count` results, and no more may be there.
    pub fn wait_lines(&self, name: &str, count: usize) -> Vec<Json> {
        let deadline = Instant::now() + RESULTS_MAX;
        loop {
            let lines = self.lines(name);
            if lines.len() >= count {
                assert_eq!(lines.len(), count, "{name} has too many lines: {lines:?}");
                return lines;
            }
            assert!(Instant::now() < deadline, "{name} has {} of {count} lines: {lines:?}", lines.len());
            sleep(LOOK);
        }
    }

    /// Starts weir on a free port and waits until it is ready.
    pub fn start(&self, arguments: &[&str]) -> Weir {
        let mut weir = self.spawn(arguments);
        weir.wait_ready();
        weir
    }

    /// As `start`, with more variables in its environment.
    pub fn start_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Weir {
        let mut weir = self.spawn_in(variables, &[USUAL, arguments].concat(), Stdio::null());
        weir.wait_ready();
        weir
    }

    /// As `start`, with something to read from its standard input.
    pub fn start_reading(&self, input: impl Into<Stdio>, arguments: &[&str]) -> Weir {
        let mut weir = self.spawn_in(&[], &[USUAL, arguments].concat(), input.into());
        weir.wait_ready();
        weir
    }

    /// Starts weir with the durable store, on a port the system chooses; does not wait.
    pub fn spawn(&self, arguments: &[&str]) -> Weir {
        self.spawn_bare(&[USUAL, arguments].concat())
    }

    /// Starts weir with these arguments and nothing else.
    pub fn spawn_bare(&self, arguments: &[&str]) -> Weir {
        self.spawn_in(&[], arguments, Stdio::null())
    }

    fn spawn_in(&self, variables: &[(&str, &str)], arguments: &[&str], input: Stdio) -> Weir {
        let log = self.file("weir.log");
        let mut file = OpenOptions::new().create(true).append(true).open(&log).expect("a log in the temporary directory");
        let from = file.seek(SeekFrom::End(0)).expect("a log in the temporary directory");
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.path()).stdin(input);
        // What the caller of the tests has set must not change what they see.
        ["WEIR_LOG", "AWS_REGION", "AWS_DEFAULT_REGION"].iter().for_each(|name| _ = command.env_remove(name));
        command.envs(variables.iter().copied());
        command.stdout(File::create(self.file("stdout")).expect("a file in the temporary directory")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{} cannot be started: {error}", binary().display()));
        Weir { child, log, from, address: None, _directory: self.directory.clone() }
    }
}

impl Default for Home {
    fn default() -> Home {
        Home::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("---- the directory of the test is kept: {}", self.0.path().display());
        }
    }
}

/// The binary beside the test's own.
pub fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    let target = own.parent().and_then(Path::parent).expect("a test lies two directories below its target directory");
    let binary = target.join("weir");
    assert!(
        binary.exists(),
        "{} is not there. These tests run the real binary: `make test` builds it, or `cargo build --release -p weir-api`",
        binary.display()
    );
    binary
}

/// A running weir. It is killed when it goes, and shows its log when that is because the test failed.
pub struct Weir {
    child: Child,
    log: PathBuf,
    /// Where in the log file this start began.
    from: u64,
    address: Option<SocketAddr>,
    _directory: Arc<Directory>,
}

impl Weir {
    pub fn address(&self) -> SocketAddr {
        self.address.expect("weir is not ready yet")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many of its threads have a name that begins so.
    pub fn threads_named(&self, name: &str) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a running weir");
        let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|found| found.starts_with(name)).count()
    }

    pub fn resident_megabytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") >> 10
    }

    /// Waits until weir says that it is ready; fails when it ends before, or takes too long.
    pub fn wait_ready(&mut self) {
        let deadline = Instant::now() + START_MAX;
        while !self.look_ready() {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                panic!("weir ended with {status} instead of starting; it said:\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "weir was not ready within {START_MAX:?}; it said:\n{}", self.log());
            sleep(LOOK);
        }
    }

    /// Waits until weir is ready, for at most this long.
    pub fn wait_ready_at_most(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.look_ready() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(LOOK);
        }
        true
    }

    /// The log names the address, which is how the port that the system chose is known.
    fn look_ready(&mut self) -> bool {
        if self.address.is_none() {
            let log = self.log();
            let named = log.split_once(" is ready at http").and_then(|(_, rest)| rest.split_once(';'));
            let address = named.and_then(|(url, _)| url.split_once("://")).map(|(_, address)| address);
            self.address = address.and_then(|address| address.parse().ok());
        }
        self.address.is_some()
    }

    /// What was logged since this start.
    pub fn log(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_end(&mut bytes)
        });
        read.map_or_else(|error| format!("(the log cannot be read: {error})"), |_| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// SIGKILL: no code of weir runs any more.
    pub fn kill(mut self) {
        self.end_at_once();
    }

    fn end_at_once(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The orderly end: SIGTERM, and exit code 0.
    pub fn stop(self) {
        self.signal(Signal::TERM);
        let (status, log) = self.wait_end(STOP_MAX);
        assert!(status.success(), "weir ended with {status}; it said:\n{log}");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process has an id above zero");
        kill_process(pid, signal).expect("a signal can be sent to a child");
    }

    /// Waits for the end, and gives what was logged.
    pub fn wait_end(mut self, limit: Duration) -> (ExitStatus, String) {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return (status, self.log());
            }
            assert!(Instant::now() < deadline, "weir did not end within {limit:?}; it said:\n{}", self.log());
            sleep(LOOK);
        }
    }

    /// Any request. A connection that breaks is the caller's business.
    pub fn try_send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        client::send(self.address(), method, target, headers, body)
    }

    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, target, headers, body)
            .unwrap_or_else(|error| panic!("{method} {target}: {error}; weir said:\n{}", self.log()))
    }

    pub fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], b"")
    }

    pub fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, &[], b"")
    }

    pub fn put(&self, target: &str) -> Answer {
        self.send("PUT", target, &[], b"")
    }

    pub fn post(&self, target: &str, body: &Json) -> Answer {
        self.send("POST", target, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// Cypher as text; the answer of whatever status.
    pub fn query(&self, text: &str) -> Answer {
        self.send("POST", "/api/v1/query/cypher", &[("Content-Type", "text/plain")], text.as_bytes())
    }

    /// The rows of a query that must succeed.
    pub fn rows(&self, text: &str) -> Vec<Json> {
        let mut answer = self.query(text).expect(200).json();
        match answer["results"].take() {
            Json::Array(rows) => rows,
            other => panic!("{text} gave {other} for rows"),
        }
    }

    /// The rows of a query with parameters.
    pub fn rows_with(&self, text: &str, parameters: Json) -> Vec<Json> {
        let answer = self.post("/api/v1/query/cypher", &json!({"text": text, "parameters": parameters})).expect(200);
        answer.json()["results"].as_array().cloned().expect("rows")
    }

    /// Waits until an ingest stream has the status, and reads show what it brought.
    pub fn wait_ingest(&self, name: &str, status: &str, limit: Duration) -> Json {
        let deadline = Instant::now() + limit;
        loop {
            let stream = self.get(&format!("/api/v1/ingest/{name}")).expect(200).json();
            if stream["status"] == status {
                self.catch_up();
                return stream;
            }
            assert!(Instant::now() < deadline, "stream {name} is not {status} within {limit:?}: {stream}\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    /// A stream is completed when its records are safe, which can be a moment before reads show them. A query that might
    /// write is evaluated on everything before it, so reads after it show that.
    pub fn catch_up(&self) {
        self.rows("MATCH (n) WHERE id(n) = idFrom('nothing') AND n.nothing IS NOT NULL SET n.nothing = true");
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        self.end_at_once();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(LOG_SHOWN_BYTES_MAX as usize);
            let shown = log.get(from..).unwrap_or(&log);
            eprintln!("---- the end of what weir logged\n{shown}\n----");
        }
    }
}

/// What is left of the results when each cancellation has taken a match away. No row is taken away that is not there.
pub fn net(lines: &[Json]) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in lines {
        let row = line["data"].to_string();
        match line["meta"]["isPositiveMatch"] == true {
            true => rows.push(row),
            false => {
                let place =
                    rows.iter().position(|other| *other == row).unwrap_or_else(|| panic!("cancelled and not there: {row}"));
                rows.remove(place);
            }
        }
    }
    rows.sort();
    rows
}

/// One of a few tries takes no longer than this: a machine is busy for a moment at times, a fault is there in each of them.
#[track_caller]
pub fn takes_at_most(what: &str, bound: Duration, mut once: impl FnMut() -> Duration) {
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        shortest = shortest.min(once());
        if shortest <= bound {
            return;
        }
    }
    panic!("{what}: {shortest:?} at best, not {bound:?}");
}

/// Waits until something holds.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(5));
    }
}
