//! An HTTP server that remembers what it was sent: where outputs post their results in tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::Value as Json;

use crate::client;
use crate::service::wait_until;

/// A client that says nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it may take until those who are gone are known to be.
const ALONE_MAX: Duration = Duration::from_secs(60);

/// A request that is answered, and not remembered.
const MARK: &str = "/-";

/// Listens until the process ends.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    received: Arc<Mutex<Vec<(String, Json)>>>,
    /// What all are answered with, and after how many milliseconds.
    answer: Arc<(AtomicU16, AtomicU64)>,
    /// How many connections there are.
    connections: Arc<AtomicUsize>,
}

impl Endpoint {
    /// Answers requests whose path begins with `failing` with 500, all others with 200.
    pub fn start(failing: &'static str) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = Endpoint {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
            answer: Arc::default(),
            connections: Arc::default(),
        };
        let own = endpoint.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let endpoint = own.clone();
                endpoint.connections.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    endpoint.serve(stream, failing);
                    endpoint.connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        endpoint
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on all requests are answered with this status, after this time.
    pub fn answer_with(&self, status: u16, after: Duration) {
        let _nobody_is_answered = self.lock();
        self.set_answer(status, after);
    }

    /// As `answer_with`, and what came before is forgotten: no request is both remembered and answered as before.
    pub fn begin_anew(&self, status: u16, after: Duration) {
        let mut received = self.lock();
        received.clear();
        self.set_answer(status, after);
    }

    fn set_answer(&self, status: u16, after: Duration) {
        self.answer.0.store(status, Ordering::Relaxed);
        self.answer.1.store(after.as_millis() as u64, Ordering::Relaxed);
    }

    /// Path and body of each request, in the order of their arrival; they are forgotten.
    pub fn take(&self) -> Vec<(String, Json)> {
        std::mem::take(&mut *self.lock())
    }

    /// How many requests have come and were not taken.
    pub fn received(&self) -> usize {
        self.lock().len()
    }

    /// How many of these ask for that path.
    pub fn received_at(&self, path: &str) -> usize {
        self.lock().iter().filter(|(asked, _)| asked == path).count()
    }

    /// Waits until nobody is connected: what a client that is gone had sent has been read then.
    pub fn wait_alone(&self) {
        // Connections are taken in their order: those from before this one are when it has its answer.
        client::send(self.address, "GET", MARK, &[], b"").expect("an answer");
        wait_until("nobody is connected", ALONE_MAX, || self.connections.load(Ordering::Relaxed) == 0);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Json)>> {
        self.received.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn serve(&self, stream: TcpStream, failing: &str) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        // What is written in parts would wait for the other side to say that it has the first.
        let _ = stream.set_nodelay(true);
        let Ok(mut out) = stream.try_clone() else { return };
        let mut input = BufReader::new(stream);
        while let Some((path, _, body)) = request(&mut input) {
            if path == MARK {
                // Whether that arrives is seen by whoever asked.
                let _ = write!(out, "HTTP/1.1 200 -\r\nContent-Length: 0\r\n\r\n");
                return;
            }
            let body = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
            // Remembered before the answer, which is decided in the same moment: who has an answer can be sure of it.
            let mut received = self.lock();
            let status = match self.answer.0.load(Ordering::Relaxed) {
                0 if path.starts_with(failing) => 500,
                0 => 200,
                set => set,
            };
            let after = self.answer.1.load(Ordering::Relaxed);
            received.push((path, body));
            drop(received);
            thread::sleep(Duration::from_millis(after));
            if write!(out, "HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

/// Path, headers by their names in small letters, body; none at the end of the connection.
pub fn request(input: &mut impl BufRead) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        // A client that was killed may have left in the middle.
        input.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let header = header.trim();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers.get("content-length").map_or(Ok(0), |length| length.parse()).ok()?;
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}
