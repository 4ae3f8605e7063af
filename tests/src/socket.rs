//! A web socket as the tests need it: the handshake, and whole texts in both directions.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value as Json;

use crate::client;
use crate::service::Weir;

/// How long a message may take; machines under load are slow.
const MESSAGE_MAX: Duration = Duration::from_secs(60);

/// The headers of a handshake.
pub const HANDSHAKE: &[(&str, &str)] = &[
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Connection", "Upgrade"),
];

pub struct Socket {
    stream: TcpStream,
}

impl Socket {
    /// Opens a socket; the error is the beginning of an answer that refuses it.
    pub fn open(weir: &Weir, path: &str) -> Result<Socket, String> {
        Socket::open_with(weir, path, &[])
    }

    /// As `open`, with more headers.
    pub fn open_with(weir: &Weir, path: &str, more: &[(&str, &str)]) -> Result<Socket, String> {
        Socket::open_at(weir.address(), path, more)
    }

    /// As `open_with`, to whoever listens at the address.
    pub fn open_at(address: SocketAddr, path: &str, more: &[(&str, &str)]) -> Result<Socket, String> {
        let headers = [HANDSHAKE, more].concat();
        let mut stream = client::open(address, "GET", path, &headers, b"").expect("it can be reached");
        stream.set_read_timeout(Some(MESSAGE_MAX)).expect("a limit of time");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head of an answer");
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        if !head.starts_with("HTTP/1.1 101 ") {
            return Err(head);
        }
        assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        Ok(Socket { stream })
    }

    pub fn send(&mut self, text: &str) {
        self.frame(1, text.as_bytes());
    }

    pub fn send_binary(&mut self, bytes: &[u8]) {
        self.frame(2, bytes);
    }

    /// Says that nothing more comes.
    pub fn close(&mut self) {
        self.frame(8, &[]);
    }

    /// Clients mask what they send; with zeros it stays readable.
    fn frame(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&u16::try_from(length).expect("a short message").to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).expect("the socket is open");
    }

    /// The next text; none when the socket is closed. Pings are answered meanwhile.
    pub fn message(&mut self) -> Option<Json> {
        loop {
            let (kind, payload) = self.read().ok()?;
            match kind {
                1 => return Some(serde_json::from_slice(&payload).expect("JSON")),
                8 => return None,
                9 => self.frame(10, &payload),
                _ => {}
            }
        }
    }

    pub fn expect(&mut self) -> Json {
        self.message().expect("a message")
    }

    fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        let length = match head[1] & 0x7f {
            126 => {
                let mut long = [0; 2];
                self.stream.read_exact(&mut long)?;
                usize::from(u16::from_be_bytes(long))
            }
            127 => {
                let mut long = [0; 8];
                self.stream.read_exact(&mut long)?;
                u64::from_be_bytes(long) as usize
            }
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok((head[0] & 0x0f, payload))
    }
}
