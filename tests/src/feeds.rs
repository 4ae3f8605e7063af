//! Servers that weir listens to in tests: of events and of web sockets. They speak the protocols themselves and break off
//! when they are told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio_tungstenite::tungstenite::WebSocket;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A server of numbered events, which a client goes on behind by `Last-Event-ID`.
pub struct Events {
    address: SocketAddr,
    /// Connections so far.
    pub connections: Arc<AtomicU64>,
}

impl Events {
    /// Sends `{"id": n}` for every n below `count`, cuts each connection in the middle of an event after `at_once`, and
    /// tells clients not to come back when there is no more.
    pub fn start(count: u64, at_once: u64) -> Events {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::<AtomicU64>::default();
        let counted = connections.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    let head = head(&mut stream);
                    let id = head.lines().find_map(|line| line.strip_prefix("last-event-id: ")?.parse::<u64>().ok());
                    let from = id.map_or(0, |id| id + 1);
                    if from >= count {
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                        return;
                    }
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 10\n\n");
                    for n in from..count.min(from + at_once) {
                        if stream.write_all(format!("id: {n}\ndata: {{\"id\": {n}}}\n\n").as_bytes()).is_err() {
                            return;
                        }
                        thread::sleep(Duration::from_micros(500));
                    }
                    let _ = stream.write_all(b"id: 99999\ndata: {\"id\": ");
                });
            }
        });
        Events { address, connections }
    }

    pub fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }
}

/// What a server does with one connection.
pub type Talk = Box<dyn FnOnce(&mut WebSocket<TcpStream>) + Send>;

/// Serves one web socket after another; each connection is given to the next of `talks`. Ends with the last of them.
pub fn web_sockets(talks: Vec<Talk>) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = thread::spawn(move || {
        for talk in talks {
            let (mut stream, _) = listener.accept().expect("a client");
            let head = head(&mut stream);
            let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).expect("a key");
            let accept = derive_accept_key(key.as_bytes());
            let answer =
                format!("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("the client is there");
            talk(&mut WebSocket::from_raw_socket(stream, Role::Server, None));
        }
    });
    (address, serving)
}

/// The head of a request.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}
