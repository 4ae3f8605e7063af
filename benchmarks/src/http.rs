//! The service over HTTP: the binary `weir` in a process of its own, asked by as many clients as there are connections.
//!
//! One thread with one epoll drives all connections, each with one request under way and kept alive: what is measured is the
//! server, and the client takes as little of the two cores as it can. Every answer is read and looked at.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use weir_model::random::STEP;

use crate::measure::{Clock, Durations, Run};
use crate::passes::{Settings, StoreKind};
use crate::weir::Scratch;

/// Nodes that are there when reads begin.
const NODES: u64 = 100_000;

const CONNECTIONS: usize = 64;

/// For what must answer while the graph is busy.
const CONNECTIONS_LIVE: usize = 4;

/// Before anything counts: connections, threads and caches are warm.
const WARM_UP: u64 = 2_000;

const START_MAX: Duration = Duration::from_secs(60);

/// A point query by id, with a parameter.
pub fn read(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(settings, "http")?;
    server.fill(NODES)?;
    let requests = |i: u64| {
        let key = i.wrapping_mul(STEP) % NODES;
        query("MATCH (n) WHERE id(n) = idFrom('k', $k) RETURN n.x", &format!("{{\"k\":{key}}}"))
    };
    server.measure("http", settings.events, CONNECTIONS, &requests, b"{\"columns\":[\"n.x\"],\"results\":[[")
}

/// A write of one node, committed and durable when it is answered.
pub fn write(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(settings, "http-write")?;
    let requests = |i: u64| query("MATCH (n) WHERE id(n) = idFrom('w', $k) SET n:Item, n.x = $k", &format!("{{\"k\":{i}}}"));
    server.measure("http-write", settings.events, CONNECTIONS, &requests, b"{\"columns\":[],\"results\":[]}")
}

/// `GET liveness` while a stream ingests as fast as it can.
pub fn live(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(settings, "http-live")?;
    let stream = "{\"type\":\"NumberIteratorIngest\",\"format\":{\"type\":\"CypherLine\",\
        \"query\":\"MATCH (n) WHERE id(n) = idFrom(toInteger($that)) SET n.x = toInteger($that)\"}}";
    server.ask(&post("/api/v1/ingest/numbers", stream))?;
    let requests = |_| b"GET /api/v1/admin/liveness HTTP/1.1\r\nHost: weir\r\n\r\n".to_vec();
    server.measure("http-live", settings.events, CONNECTIONS_LIVE, &requests, b"")
}

pub fn query(text: &str, parameters: &str) -> Vec<u8> {
    post("/api/v1/query/cypher", &format!("{{\"text\":\"{text}\",\"parameters\":{parameters}}}"))
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    format!("{head}{body}").into_bytes()
}

/// A running weir, ended with its data when it goes.
pub struct Server {
    child: Child,
    address: SocketAddr,
    settings: Settings,
    _scratch: Scratch,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn start(settings: &Settings, name: &str) -> Result<Server, Box<dyn Error>> {
        let scratch = Scratch::new(settings, name)?;
        let log = settings.directory.join(format!("{name}-{}.log", std::process::id()));
        let binary: PathBuf = std::env::current_exe()?.parent().map(|here| here.join("weir")).unwrap_or_default();
        if !binary.exists() {
            return Err(format!("{} is not there: cargo build --release -p weir-api", binary.display()).into());
        }
        let store = match settings.store {
            StoreKind::InMemory => "in-memory",
            StoreKind::RocksDb => "rocks-db",
        };
        let mut command = Command::new(binary);
        command.args(["-Dweir.webserver.address=127.0.0.1", "-Dweir.webserver.port=0", "-Dweir.store.create-parent-dir=true"]);
        command.arg(format!("-Dweir.store.type={store}"));
        command.arg(format!("-Dweir.store.filepath={}", scratch.path().display()));
        command.arg(format!("-Dweir.workers={}", settings.workers));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()?;
        let mut server = Server { child, address: ([127, 0, 0, 1], 0).into(), settings: settings.clone(), _scratch: scratch };
        let began = Instant::now();
        loop {
            let said = fs::read_to_string(&log)?;
            let named = said.split_once(" is ready at http://").and_then(|(_, rest)| rest.split_once(';'));
            if let Some(address) = named.and_then(|(address, _)| address.parse().ok()) {
                server.address = address;
                let _ = fs::remove_file(&log);
                return Ok(server);
            }
            if began.elapsed() > START_MAX || server.child.try_wait()?.is_some() {
                return Err(format!("weir did not start; it said:\n{said}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn fill(&self, nodes: u64) -> Result<(), Box<dyn Error>> {
        let text =
            "UNWIND range($from, $to) AS i MATCH (n) WHERE id(n) = idFrom('k', i) SET n:Item, n.x = i, n.name = 'item ' + i";
        for from in (0..nodes).step_by(10_000) {
            self.ask(&query(text, &format!("{{\"from\":{from},\"to\":{}}}", nodes.min(from + 10_000) - 1)))?;
        }
        Ok(())
    }

    /// A body of JSON, which must be taken.
    pub fn post(&self, path: &str, body: &str) -> Result<(), Box<dyn Error>> {
        self.ask(&post(path, body)).map(drop)
    }

    /// The body of what must be there.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, Box<dyn Error>> {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: weir\r\n\r\n").as_bytes())
    }

    /// One request, which must succeed.
    fn ask(&self, request: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut connection = Connection::open(self.address)?;
        connection.stream.set_nonblocking(false)?;
        connection.stream.write_all(request)?;
        loop {
            if let Some(body) = connection.answer()? {
                return Ok(body);
            }
            if !connection.receive()? {
                return Err("weir closed the connection".into());
            }
        }
    }

    fn measure(
        &self,
        name: &str,
        requests: u64,
        connections: usize,
        request: &dyn Fn(u64) -> Vec<u8>,
        expected: &[u8],
    ) -> Result<Run, Box<dyn Error>> {
        let mut clients = Clients::open(self.address, connections)?;
        clients.run(0..WARM_UP.min(requests), request, expected)?;
        let before = self.cpu_seconds()?;
        let clock = Clock::start()?;
        let (right, latencies) = clients.run(WARM_UP..WARM_UP + requests, request, expected)?;
        let mut run = clock.stop(name, requests)?;
        run.matches = Some(right);
        run.expected = Some(requests);
        run.latency_us = latencies.latency();
        run.settings = format!(
            "{connections} connections kept alive, one request each at a time, {} worker(s), {:?}; processor time is the client's, \
             the server took {:.2} s",
            self.settings.workers,
            self.settings.store,
            self.cpu_seconds()? - before
        );
        Ok(run)
    }

    /// Processor time the server has taken.
    pub fn cpu_seconds(&self) -> Result<f64, Box<dyn Error>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let ticks: f64 = after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Ok(ticks / 100.0)
    }
}

struct Clients {
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
}

impl Clients {
    fn open(address: SocketAddr, count: usize) -> Result<Clients, Box<dyn Error>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let connections = (0..count).map(|_| Connection::open(address)).collect::<Result<Vec<_>, _>>()?;
        for (index, connection) in connections.iter().enumerate() {
            epoll::add(&epoll, &connection.stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        }
        Ok(Clients { epoll, connections })
    }

    /// Sends the requests with these numbers, one a connection at a time. How many answers were those expected, and how long
    /// they took.
    fn run(
        &mut self,
        mut numbers: std::ops::Range<u64>,
        request: &dyn Fn(u64) -> Vec<u8>,
        expected: &[u8],
    ) -> Result<(u64, Durations), Box<dyn Error>> {
        let (mut right, mut durations, mut under_way) = (0, Durations::new(), 0usize);
        for connection in &mut self.connections {
            if let Some(number) = numbers.next() {
                connection.send(&request(number))?;
                under_way += 1;
            }
        }
        let mut events = Vec::with_capacity(CONNECTIONS);
        while under_way > 0 {
            events.clear();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                let connection = &mut self.connections[event.data.u64() as usize];
                if !connection.receive()? {
                    return Err("weir closed a connection".into());
                }
                let Some(body) = connection.answer()? else { continue };
                durations.record(connection.sent.elapsed());
                right += u64::from(body.starts_with(expected));
                match numbers.next() {
                    Some(number) => connection.send(&request(number))?,
                    None => under_way -= 1,
                }
            }
        }
        Ok((right, durations))
    }
}

pub struct Connection {
    pub stream: TcpStream,
    received: Vec<u8>,
    sent: Instant,
}

impl Connection {
    pub fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, received: Vec::new(), sent: Instant::now() })
    }

    /// Requests are small: the socket always has room for one.
    fn send(&mut self, request: &[u8]) -> std::io::Result<()> {
        self.sent = Instant::now();
        self.stream.write_all(request)
    }

    /// False at the end.
    fn receive(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The body of an answer, once it is whole. Any status but one of success is an error.
    fn answer(&mut self) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
        let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest.lines().next().unwrap_or_default());
        let whole = end + 4 + length.trim().parse::<usize>()?;
        if self.received.len() < whole {
            return Ok(None);
        }
        let body = self.received[end + 4..whole].to_vec();
        self.received.drain(..whole);
        if !head.starts_with("http/1.1 20") {
            return Err(format!("{}: {}", head.lines().next().unwrap_or_default(), String::from_utf8_lossy(&body)).into());
        }
        Ok(Some(body))
    }
}
