//! A client of NATS as tests need it: asks JetStream, publishes, reads back. One connection, blocking.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::streams::with;

/// A server says that it has a message when its disk has it, and disks stand still for the better part of a minute now and then.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Client {
    input: BufReader<TcpStream>,
    output: TcpStream,
    asked: u64,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let output = TcpStream::connect(address).expect("NATS listens");
        output.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let input = BufReader::new(output.try_clone().expect("a second handle"));
        let mut client = Client { input, output, asked: 0 };
        client.line();
        client.say("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB test.inbox.* 1\r\nPING\r\n");
        while client.line() != "PONG" {}
        client
    }

    fn say(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).expect("it listens");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("an answer in time");
        assert!(!line.is_empty(), "the connection was closed");
        assert!(!line.starts_with("-ERR"), "{line}");
        line.trim().to_owned()
    }

    /// The next message: headers and payload.
    fn message(&mut self) -> (String, Vec<u8>) {
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split(' ').collect();
            let number = |back: usize| words[words.len() - back].parse::<usize>().expect("a length");
            let (head, whole) = match words[0] {
                "MSG" => (0, number(1)),
                "HMSG" => (number(2), number(1)),
                "PING" => {
                    self.say("PONG\r\n");
                    continue;
                }
                _ => continue,
            };
            let mut body = vec![0; whole + 2];
            self.input.read_exact(&mut body).expect("a whole message");
            body.truncate(whole);
            let payload = body.split_off(head);
            return (String::from_utf8_lossy(&body).into_owned(), payload);
        }
    }

    /// Asks JetStream, which must not refuse.
    pub fn ask(&mut self, what: &str, question: &Json) -> Json {
        self.asked += 1;
        let question = question.to_string();
        let inbox = format!("test.inbox.{}", self.asked);
        self.say(&format!("PUB $JS.API.{what} {inbox} {}\r\n{question}\r\n", question.len()));
        let (_, payload) = self.message();
        let answer: Json = serde_json::from_slice(&payload).expect("an answer in JSON");
        assert!(answer.get("error").is_none(), "{what}: {answer}");
        answer
    }

    pub fn add_stream(&mut self, name: &str, subject: &str, more: Json) {
        let config = with(json!({"name": name, "subjects": [subject], "storage": "file", "retention": "limits"}), more);
        self.ask(&format!("STREAM.CREATE.{name}"), &config);
    }

    /// Messages of `{"id": n}`, each acknowledged by the stream.
    pub fn add(&mut self, subject: &str, ids: Range<u64>) {
        self.publish(subject, ids.map(|id| json!({"id": id}).to_string()));
    }

    pub fn publish(&mut self, subject: &str, payloads: impl Iterator<Item = String>) {
        let payloads: Vec<String> = payloads.collect();
        for some in payloads.chunks(500) {
            let all: String =
                some.iter().map(|text| format!("PUB {subject} test.inbox.p {}\r\n{text}\r\n", text.len())).collect();
            self.say(&all);
            for _ in some {
                let (headers, payload) = self.message();
                assert!(payload.starts_with(b"{\"stream\""), "{headers} {}", String::from_utf8_lossy(&payload));
            }
        }
    }

    /// How many messages a stream has.
    pub fn count(&mut self, stream: &str) -> u64 {
        self.ask(&format!("STREAM.INFO.{stream}"), &json!({}))["state"]["messages"].as_u64().expect("a number")
    }
}
