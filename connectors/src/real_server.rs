//! Real servers for tests, started by `tests/services/` in temporary directories on loopback, and ended with the test; and what
//! tests do with them. Where one cannot be had, the test says loudly what it leaves out.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use weir_model::Position;

use crate::conformance::anything;
use crate::*;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct RealServer {
    script: &'static str,
    directory: TempDir,
    port: u16,
}

/// Directories of servers that tests have put secrets into.
static SECRETS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Secrets may be in files of this directory, too, from now on: there is one policy for all tests that run at a time.
pub(crate) fn allow_secrets_in(directory: &Path) {
    let mut all = SECRETS.lock().unwrap();
    all.push(directory.to_owned());
    secret::allow(SecretPolicy::new(all.clone(), vec![secret::USUAL_VARIABLES.to_owned()]).unwrap());
}

/// The first of `count` free ports in a row.
fn free_ports(count: u16) -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Below those the system itself gives out, as far as possible.
        let first = 10_000 + first % 20_000;
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

impl RealServer {
    /// `script` as `redis.sh`; it may take this many ports.
    pub(crate) fn start(script: &'static str, ports: u16, left_out: &str) -> Option<RealServer> {
        RealServer::start_with(&[], script, ports, left_out)
    }

    /// As `start`, with variables that the script looks at.
    pub(crate) fn start_with(variables: &[(&str, &str)], script: &'static str, ports: u16, left_out: &str) -> Option<RealServer> {
        let directory = tempfile::Builder::new().prefix("weir-server-").tempdir().unwrap();
        let server = RealServer { script, directory, port: free_ports(ports) };
        let mut command = server.command("start");
        let started = command.arg(server.port.to_string()).envs(variables.iter().copied()).output().unwrap();
        if started.status.success() {
            return Some(server);
        }
        let reason = String::from_utf8_lossy(&started.stderr).into_owned();
        let reason = reason.trim().lines().last().unwrap_or_default();
        eprintln!("**** LEFT OUT: {left_out}. tests/services/{script} start: {reason}");
        None
    }

    fn command(&self, what: &str) -> Command {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/services").join(self.script);
        let mut command = Command::new("bash");
        command.arg(script).arg(what).arg(self.directory()).stdin(Stdio::null());
        command
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of the port that is this many behind the first.
    pub(crate) fn address(&self, index: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + index))
    }

    /// What the script has said under that name.
    pub(crate) fn said(&self, name: &str) -> String {
        let all = self.made("env");
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("{name} is not in {all}")).to_owned()
    }

    /// A file that the script has made.
    pub(crate) fn made(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join(name)).unwrap()
    }
}

impl std::ops::Drop for RealServer {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody.
        let _ = self.command("stop").output();
    }
}

/// Leads to a server, and cuts when it is told to.
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    open: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    pub(crate) fn to(upstream: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (open, connections) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
        let way = Way { address, open: open.clone(), connections: connections.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                if !open.load(Ordering::Relaxed) {
                    continue;
                }
                connections.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16 << 10];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        way
    }

    pub(crate) fn set(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
        if !open {
            self.connections.lock().unwrap().drain(..).for_each(|connection| {
                let _ = connection.shutdown(Shutdown::Both);
            });
        }
    }
}

pub(crate) fn wait(mut done: impl FnMut() -> bool, what: &str) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn open(definition: &Json, from: Option<&Position>) -> RecordStream {
    parse_source_v1(definition).unwrap().open(&anything(), from).unwrap()
}

/// Reads until `count` records are there; each batch with the position behind it.
pub(crate) fn read(stream: &mut RecordStream, count: usize, durable: bool) -> Vec<(Vec<String>, Position)> {
    let (mut batches, mut batch, mut seen, since) = (Vec::new(), Frames::default(), 0, Instant::now());
    let limits = Limits { records_max: 97, ..Limits::default() };
    while seen < count {
        assert!(since.elapsed() < PATIENCE, "{seen} of {count} records came; trouble: {:?}", stream.trouble());
        stream.next(&limits, &mut batch).unwrap();
        let texts: Vec<String> =
            (0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()).collect();
        seen += texts.len();
        if durable {
            stream.durable(&batch.position).unwrap();
        }
        batches.push((texts, batch.position.clone()));
    }
    batches
}

pub(crate) fn texts(batches: &[(Vec<String>, Position)]) -> Vec<String> {
    batches.iter().flat_map(|(texts, _)| texts.clone()).collect()
}

pub(crate) fn results(count: usize) -> Vec<Outgoing> {
    (0..count)
        .map(|n| Outgoing { body: json!({"key": 0, "n": n}).to_string().into_bytes(), positive: true, mark: n as u64, id: None })
        .collect()
}
