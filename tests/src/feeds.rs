//! Servers that weir listens to in tests: of events, of web sockets and of reactive streams. They speak the protocols themselves
//! and break off when they are told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

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
            accept(&mut stream).expect("a client that asks for a web socket");
            talk(&mut WebSocket::from_raw_socket(stream, Role::Server, None));
        }
    });
    (address, serving)
}

/// Answers the request that becomes a web socket.
fn accept(stream: &mut TcpStream) -> Option<()> {
    let head = head(stream);
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "))?;
    let accept = derive_accept_key(key.as_bytes());
    let answer =
        format!("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
    stream.write_all(answer.as_bytes()).ok()
}

/// A server that tells each client all numbers so far, as `{"id": n}`, and then those that come.
pub struct Numbers {
    pub address: SocketAddr,
    upto: Arc<AtomicU64>,
}

impl Numbers {
    pub fn over_web_sockets() -> Numbers {
        Numbers::start(|mut stream, mut next| {
            if accept(&mut stream).is_none() {
                return;
            }
            // No sooner: a request that is on its way for longer, on a busy machine or a slow network, would be none.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
            let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
            loop {
                for record in next() {
                    if socket.send(Message::text(record)).is_err() {
                        return;
                    }
                }
                // What is read is answered, as pings are.
                match socket.read() {
                    Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => return,
                    Ok(_) => {}
                }
            }
        })
    }

    pub fn over_a_reactive_stream() -> Numbers {
        Numbers::start(|mut stream, mut next| {
            loop {
                for record in next() {
                    let framed = [&(record.len() as u32).to_be_bytes(), record.as_bytes()].concat();
                    if stream.write_all(&framed).is_err() {
                        return;
                    }
                }
                thread::sleep(Duration::from_millis(5));
            }
        })
    }

    /// Tells `count` numbers more.
    pub fn more(&self, count: u64) {
        self.upto.fetch_add(count, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.upto.load(Ordering::Relaxed)
    }

    fn start(talk: impl Fn(TcpStream, Box<dyn FnMut() -> Vec<String>>) + Clone + Send + 'static) -> Numbers {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let upto = Arc::<AtomicU64>::default();
        let told = upto.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (talk, told, mut at) = (talk.clone(), told.clone(), 0);
                thread::spawn(move || {
                    let next = move || {
                        let from = std::mem::replace(&mut at, told.load(Ordering::Relaxed));
                        (from..at).map(|id| format!("{{\"id\": {id}}}")).collect()
                    };
                    talk(stream, Box::new(next));
                });
            }
        });
        Numbers { address, upto }
    }
}

/// The head of a request.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}
