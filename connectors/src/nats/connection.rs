//! The protocol of NATS: lines of words, and payloads behind some of them. Knows nothing of JetStream.

use serde::Deserialize;
use serde_json::Value as Json;
use tokio::time::Instant;

use crate::dial::{Server, Wire};
use crate::ends::{ANSWER_TIME_MAX, Incoming, Writer, ends, unanswered};
use crate::names::unlikely;

/// How it is called in what is told.
const OTHER: &str = "the server";

/// No line is longer; the longest is what a server tells of itself.
const LINE_BYTES_MAX: usize = 64 << 10;

/// No message is longer: the most that a server can be told to take.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What a server says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Greeting {
    pub max_payload: usize,
    pub tls_required: bool,
    pub tls_available: bool,
    pub headers: bool,
    pub nonce: Option<String>,
}

impl Greeting {
    pub fn has_tls(&self) -> bool {
        self.tls_required || self.tls_available
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    pub subject: String,
    /// Where an answer is wanted.
    pub reply: Option<String>,
    /// The lines in front of the payload.
    pub headers: String,
    pub payload: Vec<u8>,
}

impl Message {
    /// What a server answers in the place of a message: a number and words.
    pub fn status(&self) -> Option<(u16, &str)> {
        let line = self.headers.lines().next()?.strip_prefix("NATS/1.0")?.trim();
        let (code, words) = line.split_once(' ').unwrap_or((line, ""));
        Some((code.parse().ok()?, words))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.lines().skip(1).filter_map(|line| line.split_once(':'));
        values.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

pub struct Connection {
    pub incoming: Incoming,
    pub writer: Writer,
    pub greeting: Greeting,
    /// Where answers come: what begins with it.
    pub inbox: String,
    /// Questions so far.
    asked: u64,
}

/// What a server says.
#[derive(Debug, PartialEq)]
enum Word {
    Greeting(Json),
    Message(Message),
    Ping,
    Pong,
    Fine,
    Problem(String),
}

impl Connection {
    /// A connection that has heard what the server says of itself.
    pub async fn greeted(wire: Box<dyn Wire>) -> Result<Connection, String> {
        let (incoming, writer) = ends(wire, OTHER);
        let mut connection = Connection {
            incoming,
            writer,
            greeting: Greeting::default(),
            inbox: format!("_INBOX.weir.{}", unlikely()),
            asked: 0,
        };
        match connection.word(Instant::now() + ANSWER_TIME_MAX).await? {
            Some(Word::Greeting(said)) => {
                connection.greeting = serde_json::from_value(said)
                    .map_err(|error| format!("what the server says of itself cannot be read: {error}"))?;
            }
            Some(Word::Problem(problem)) => return Err(problem),
            None => return Err(unanswered()),
            Some(_) => return Err("the server does not speak the protocol of NATS".to_owned()),
        }
        if !connection.greeting.headers {
            return Err("the server knows no headers; NATS 2.2 or newer is needed".to_owned());
        }
        Ok(connection)
    }

    /// This connection with TLS. Nothing but the greeting has been said.
    pub async fn encrypted(self, server: &Server) -> Result<Connection, String> {
        let plain = self.incoming.whole(self.writer).ok_or("the server does not wait for TLS")?;
        let (incoming, writer) = ends(server.encrypt(plain).await?, OTHER);
        Ok(Connection { incoming, writer, ..self })
    }

    /// Says who asks, and where answers are expected.
    pub async fn log_in(&mut self, hello: &Json) -> Result<(), String> {
        self.writer.send(format!("CONNECT {hello}\r\nSUB {}.* 1\r\nPING\r\n", self.inbox).as_bytes()).await?;
        loop {
            match self.word(Instant::now() + ANSWER_TIME_MAX).await? {
                Some(Word::Pong) => return Ok(()),
                Some(Word::Problem(problem)) => return Err(format!("the login is refused: {problem}")),
                Some(Word::Ping) => self.writer.send(b"PONG\r\n").await?,
                Some(_) => {}
                None => return Err(unanswered()),
            }
        }
    }

    /// A subject for the next answer.
    pub fn next_inbox(&mut self) -> String {
        self.asked += 1;
        format!("{}.{}", self.inbox, self.asked)
    }

    /// Asks, and waits for the answer; other messages that come meanwhile are lost.
    pub async fn ask(&mut self, subject: &str, payload: &[u8]) -> Result<Message, String> {
        let inbox = self.next_inbox();
        let mut bytes = Vec::new();
        put(subject, Some(&inbox), "", payload, &mut bytes);
        self.writer.send(&bytes).await?;
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        loop {
            match self.message(deadline).await? {
                Some(message) if message.subject == inbox => return Ok(message),
                Some(_) => {}
                None => return Err(unanswered()),
            }
        }
    }

    /// The next message; none when the time is over, and then what has come of it stays.
    pub async fn message(&mut self, deadline: Instant) -> Result<Option<Message>, String> {
        loop {
            match self.word(deadline).await? {
                None => return Ok(None),
                Some(Word::Message(message)) => return Ok(Some(message)),
                Some(Word::Ping) => self.writer.send(b"PONG\r\n").await?,
                Some(Word::Problem(problem)) => return Err(problem),
                Some(Word::Pong | Word::Fine | Word::Greeting(_)) => {}
            }
        }
    }

    async fn word(&mut self, deadline: Instant) -> Result<Option<Word>, String> {
        self.incoming.next(deadline, parse).await
    }
}

/// A message to a subject. Headers are whole lines.
pub fn put(subject: &str, reply: Option<&str>, headers: &str, payload: &[u8], out: &mut Vec<u8>) {
    let reply = reply.map(|reply| format!(" {reply}")).unwrap_or_default();
    if headers.is_empty() {
        out.extend(format!("PUB {subject}{reply} {}\r\n", payload.len()).as_bytes());
    } else {
        let head = format!("NATS/1.0\r\n{headers}\r\n");
        out.extend(format!("HPUB {subject}{reply} {} {}\r\n{head}", head.len(), head.len() + payload.len()).as_bytes());
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// What stands at the beginning, and how long it is; none while it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<(Word, usize)>, String> {
    let broken = || "the server does not speak the protocol of NATS".to_owned();
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() > LINE_BYTES_MAX { Err(broken()) } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or_else(broken)?;
    let line = std::str::from_utf8(line).map_err(|_| broken())?;
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let next = end + 1;
    let word = match word.to_ascii_uppercase().as_str() {
        "MSG" | "HMSG" => {
            let with_headers = word.len() == 4;
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let numbers = if with_headers { 2 } else { 1 };
            // The subject, the number of the subscription, perhaps where an answer is wanted, then lengths.
            let (subject, reply) = match words.len().checked_sub(numbers) {
                Some(2) => (words[0], None),
                Some(3) => (words[0], Some(words[2].to_owned())),
                _ => return Err(broken()),
            };
            let length = |word: &str| word.parse::<usize>().ok().filter(|length| *length <= MESSAGE_BYTES_MAX).ok_or_else(broken);
            let whole = length(words[words.len() - 1])?;
            let head = if with_headers { length(words[words.len() - 2])? } else { 0 };
            let body = match bytes.get(next..next + whole + 2) {
                None => return Ok(None),
                Some(body) => body.strip_suffix(b"\r\n").ok_or_else(broken)?,
            };
            let (head, payload) = body.split_at_checked(head).ok_or_else(broken)?;
            let headers = String::from_utf8_lossy(head).into_owned();
            let message = Message { subject: subject.to_owned(), reply, headers, payload: payload.to_vec() };
            return Ok(Some((Word::Message(message), next + whole + 2)));
        }
        "INFO" => Word::Greeting(serde_json::from_str(rest).map_err(|_| broken())?),
        "PING" => Word::Ping,
        "PONG" => Word::Pong,
        "+OK" => Word::Fine,
        "-ERR" => Word::Problem(format!("the server says: {}", rest.trim().trim_matches('\''))),
        _ => return Err(broken()),
    };
    Ok(Some((word, next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_apart_however_they_come() {
        let mut bytes = b"INFO {\"headers\":true}\r\nPING\r\n+OK\r\nMSG a.b 1 5\r\nx\r\ny\r\r\n".to_vec();
        bytes.extend(b"HMSG a.b 1 reply.to 38 40\r\nNATS/1.0 408 Request Timeout\r\nA: b\r\n\r\n{}\r\n-ERR 'No'\r\n");
        let mut at = 0;
        let mut words = Vec::new();
        for end in 0..=bytes.len() {
            while let Some((word, length)) = parse(&bytes[at..end]).unwrap() {
                assert!(length > 0);
                at += length;
                words.push(word);
            }
        }
        assert_eq!(at, bytes.len());
        let [Word::Greeting(said), Word::Ping, Word::Fine, Word::Message(plain), Word::Message(headed), Word::Problem(no)] =
            words.as_slice()
        else {
            panic!("{words:?}")
        };
        assert_eq!((&said["headers"], no.as_str()), (&Json::Bool(true), "the server says: No"));
        assert_eq!((plain.subject.as_str(), &plain.reply, plain.payload.as_slice()), ("a.b", &None, &b"x\r\ny\r"[..]));
        assert_eq!((headed.status(), headed.header("a")), (Some((408, "Request Timeout")), Some("b")));
        assert_eq!((headed.reply.as_deref(), headed.payload.as_slice()), (Some("reply.to"), &b"{}"[..]));
        assert_eq!(plain.status(), None);
        for broken in [
            "HTTP/1.1 400\r\n",
            "\n",
            "MSG a 1\r\n",
            "MSG a 1 x\r\n",
            "MSG a 1 99999999999\r\n",
            "HMSG a 1 9 2\r\nab\r\n",
            "MSG a 1 1\r\nabc",
            "INFO x\r\n",
        ] {
            assert!(parse(broken.as_bytes()).is_err_and(|problem| problem.contains("protocol")), "{broken}");
        }
    }

    #[test]
    fn messages_are_put_as_they_are_read() {
        let mut bytes = Vec::new();
        put("a.b", Some("c"), "", b"x", &mut bytes);
        put("a.b", None, "Nats-Msg-Id: 1\r\n", b"xy", &mut bytes);
        assert_eq!(bytes, b"PUB a.b c 1\r\nx\r\nHPUB a.b 28 30\r\nNATS/1.0\r\nNats-Msg-Id: 1\r\n\r\nxy\r\n");
    }
}
