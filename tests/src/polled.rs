//! A web server of records that weir asks again and again: all of them with a name for what they are, or page after page.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::endpoint::request;

/// Items of a page.
const PAGE: u64 = 500;

#[derive(Clone)]
pub struct Polled {
    address: SocketAddr,
    /// Items are `{"id": n}` for every n below.
    pub count: Arc<AtomicU64>,
    /// This many requests are answered wrongly first: not now, cut off, no JSON, by turns.
    pub wrong: Arc<AtomicU64>,
    /// Path and headers that matter of each request.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Polled {
    pub fn start(count: u64) -> Polled {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let polled = Polled { address, count: Arc::new(count.into()), wrong: Arc::default(), asked: Arc::default() };
        let own = polled.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let polled = own.clone();
                thread::spawn(move || polled.serve(stream));
            }
        });
        polled
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(|e| e.into_inner()))
    }

    fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let Ok(input) = stream.try_clone() else { return };
        let mut input = BufReader::new(input);
        while let Some((path, headers, _)) = request(&mut input) {
            let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
            let etag = header("if-none-match");
            self.asked
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .push(format!("{path} {etag} {}", header("x-key")).trim().to_owned());
            let taken = self.wrong.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let wrong = taken.map_or(0, |left| 1 + left % 3);
            if !self.answer(&mut stream, &path, &etag, wrong) {
                return;
            }
        }
    }

    fn answer(&self, out: &mut TcpStream, path: &str, etag: &str, wrong: u64) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let item = |id: u64| json!({"id": id});
        let name = format!("\"{count}\"");
        let body = match path.split_once('?').unwrap_or((path, "")) {
            _ if wrong == 3 => "{\"items\": [".to_owned(),
            ("/all", _) if etag == name && wrong == 0 => {
                return write!(out, "HTTP/1.1 304 Not Modified\r\n\r\n").is_ok();
            }
            ("/all", _) => Json::from_iter((0..count).map(item)).to_string(),
            ("/lines", _) => (0..count).map(|id| format!("{}\n", item(id))).collect(),
            (_, query) => {
                let from = query.split('&').find_map(|pair| pair.strip_prefix("after=")?.parse::<u64>().ok()).unwrap_or(0);
                let to = count.min(from + PAGE);
                json!({"data": {"items": Json::from_iter((from..to).map(item))}, "next": to.to_string()}).to_string()
            }
        };
        let kind = if path == "/lines" { "application/x-ndjson" } else { "application/json" };
        let named = match path {
            "/all" => format!("ETag: {name}\r\n"),
            "/brotli" => "Content-Encoding: br\r\n".to_owned(),
            _ => String::new(),
        };
        match wrong {
            1 => write!(out, "HTTP/1.1 503 Not Now\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n").is_ok(),
            2 => {
                // What is cut off is not read.
                let _ = write!(
                    out,
                    "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{}",
                    body.len(),
                    &body[..body.len() / 2]
                );
                false
            }
            _ => write!(out, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{named}Content-Length: {}\r\n\r\n{body}", body.len())
                .is_ok(),
        }
    }
}
