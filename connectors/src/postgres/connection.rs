//! A connection to a server of PostgreSQL: the login, questions of SQL, and whatever comes else, one message behind the other.

use std::time::Duration;

use tokio::time::Instant;

use super::message::{self, Message, Said, broken};
use super::proof::{SCRAM, Scram, md5};
use crate::dial::{Server, Wire};
use crate::ends::{ANSWER_TIME_MAX, Incoming, Refused, Writer, ends, unanswered};
use crate::fields::Fields;

const OTHER: &str = "the server";

/// What a connection begins with: a wish for TLS, or the version of the protocol.
const TLS_PLEASE: u32 = 80_877_103;
const VERSION_3: u32 = 3 << 16;

/// No message is longer: of a stranger, and of a server that has let us in.
const LOGIN_BYTES_MAX: usize = 64 << 10;
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Rows of an answer that is kept as a whole.
const ROWS_MAX: usize = 100_000;

/// What a session is told first: values are written in one way, whatever the server is set up for.
const SETTINGS: &str = "SET DateStyle TO 'ISO, YMD'; SET TimeZone TO 'UTC'; SET IntervalStyle TO 'iso_8601'; \
    SET extra_float_digits TO 1; SET bytea_output TO 'hex'; SET standard_conforming_strings TO on";

/// Who logs in, and where.
pub struct Hello<'a> {
    pub username: &'a str,
    pub password: Option<&'a str>,
    pub database: &'a str,
    /// Changes are asked for.
    pub replication: bool,
}

/// Why something was not done.
#[derive(Debug)]
pub enum Failed {
    /// The server will not.
    Said(Said),
    Lost(Refused),
}

impl From<String> for Failed {
    fn from(problem: String) -> Failed {
        Failed::Lost(Refused::Passing(problem))
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Refused {
        match failed {
            Failed::Said(said) => Refused::Passing(format!("the server says: {}", said.words)),
            Failed::Lost(refused) => refused,
        }
    }
}

pub type Row = Vec<Option<String>>;

pub struct Connection {
    pub incoming: Incoming,
    pub writer: Writer,
    bytes_max: usize,
}

impl Connection {
    /// A connection that is logged in.
    pub async fn open(server: &Server, hello: &Hello<'_>) -> Result<Connection, Failed> {
        let mut wire = server.connect_plain().await?;
        if server.is_encrypted() {
            wire = encrypted(wire, server).await?;
        }
        Connection::over(wire, hello, server.is_encrypted()).await
    }

    pub async fn over(wire: Box<dyn Wire>, hello: &Hello<'_>, private: bool) -> Result<Connection, Failed> {
        let (incoming, writer) = ends(wire, OTHER);
        let mut connection = Connection { incoming, writer, bytes_max: LOGIN_BYTES_MAX };
        let mut fields = vec![("user", hello.username), ("database", hello.database), ("client_encoding", "UTF8")];
        fields.push(("application_name", "weir"));
        if hello.replication {
            fields.push(("replication", "database"));
        }
        let mut first = Vec::new();
        message::put_first(VERSION_3, &fields, &mut first);
        connection.writer.send(&first).await?;
        connection.log_in(hello, private).await?;
        connection.bytes_max = MESSAGE_BYTES_MAX;
        connection.query(SETTINGS, ANSWER_TIME_MAX).await?;
        Ok(connection)
    }

    async fn log_in(&mut self, hello: &Hello<'_>, private: bool) -> Result<(), Failed> {
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        let password = || hello.password.ok_or_else(|| "the server asks for a password, and none is given".to_owned());
        let mut scram: Option<Scram> = None;
        let mut proven = true;
        loop {
            let message = self.answer(deadline).await?;
            let mut fields = Fields(&message.body);
            match message.kind {
                b'E' => {
                    let Said { words, code, fatal } = Said::read(&message.body);
                    let words = if code.starts_with("28") { format!("the login is refused: {words}") } else { words };
                    return Err(Failed::Said(Said { words, code, fatal }));
                }
                b'Z' if proven => return Ok(()),
                b'R' => match fields.u32() {
                    Some(0) if proven => {}
                    Some(3) if !private => {
                        let problem = "the server wants the password as it is, over a connection that others can read; set tls";
                        return Err(problem.to_owned().into());
                    }
                    Some(3) => self.say_password(password()?.as_bytes()).await?,
                    Some(5) => {
                        let salt = fields.bytes(4).ok_or_else(broken)?;
                        self.say_password(md5(hello.username, password()?, salt).as_bytes()).await?;
                    }
                    Some(10) => {
                        let mut offered = std::iter::from_fn(|| fields.text().filter(|name| !name.is_empty()));
                        if !offered.any(|name| name == SCRAM) {
                            return Err("the server knows no way to log in that weir does".to_owned().into());
                        }
                        let begun = scram.insert(Scram::new(password()?)?);
                        let first = begun.first();
                        let mut bytes = Vec::new();
                        message::put(b'p', &mut bytes, |out| {
                            message::put_text(SCRAM, out);
                            out.extend_from_slice(&(first.len() as u32).to_be_bytes());
                            out.extend_from_slice(first.as_bytes());
                        });
                        // From now on the server has to prove something, too.
                        proven = false;
                        self.writer.send(&bytes).await?;
                    }
                    Some(11) => {
                        let last = scram.as_mut().ok_or_else(broken)?.last(&String::from_utf8_lossy(fields.0))?;
                        let mut bytes = Vec::new();
                        message::put(b'p', &mut bytes, |out| out.extend_from_slice(last.as_bytes()));
                        self.writer.send(&bytes).await?;
                    }
                    Some(12) => {
                        scram.as_ref().ok_or_else(broken)?.verify(&String::from_utf8_lossy(fields.0))?;
                        proven = true;
                    }
                    _ => return Err("the server wants a login of a kind that weir does not know".to_owned().into()),
                },
                b'v' => {}
                _ => return Err(broken().into()),
            }
        }
    }

    async fn say_password(&mut self, password: &[u8]) -> Result<(), String> {
        let mut bytes = Vec::new();
        message::put(b'p', &mut bytes, |out| {
            out.extend_from_slice(password);
            out.push(0);
        });
        self.writer.send(&bytes).await
    }

    /// What comes next; none when the time is over, and then what has come of it stays. What a server tells without being asked
    /// is passed over.
    pub async fn message(&mut self, deadline: Instant) -> Result<Option<Message>, String> {
        let bytes_max = self.bytes_max;
        loop {
            let next = self.incoming.next(deadline, |bytes| message::parse(bytes, bytes_max)).await?;
            if !next.as_ref().is_some_and(|message| matches!(message.kind, b'N' | b'S' | b'A' | b'K')) {
                return Ok(next);
            }
        }
    }

    /// As `message`, for an answer, which has to come.
    pub async fn answer(&mut self, deadline: Instant) -> Result<Message, String> {
        self.message(deadline).await?.ok_or_else(unanswered)
    }

    /// The rows of the last statement that has any.
    pub async fn query(&mut self, sql: &str, patience: Duration) -> Result<Vec<Row>, Failed> {
        let mut bytes = Vec::new();
        message::put_query(sql, &mut bytes);
        self.writer.send(&bytes).await?;
        let deadline = Instant::now() + patience;
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            let message = match self.message(deadline).await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(format!("there was no answer within {} s", patience.as_secs()).into()),
                Err(problem) => return Err(failed.map_or_else(|| problem.into(), Failed::Said)),
            };
            match message.kind {
                b'T' => rows.clear(),
                b'D' if rows.len() < ROWS_MAX => rows.push(row(&message.body).ok_or_else(broken)?),
                b'D' => return Err(format!("the server gives more than {ROWS_MAX} rows").into()),
                b'E' => failed = Some(Said::read(&message.body)),
                b'Z' => return failed.map_or(Ok(rows), |said| Err(Failed::Said(said))),
                b'C' | b'I' => {}
                _ => return Err(broken().into()),
            }
        }
    }
}

/// TLS, if the server has it.
async fn encrypted(wire: Box<dyn Wire>, server: &Server) -> Result<Box<dyn Wire>, Failed> {
    let (mut incoming, writer) = ends(wire, OTHER);
    let mut wish = Vec::new();
    message::put_first(TLS_PLEASE, &[], &mut wish);
    writer.send(&wish).await?;
    let one = |bytes: &[u8]| Ok(bytes.first().map(|byte| (*byte, 1)));
    match incoming.next(Instant::now() + ANSWER_TIME_MAX, one).await? {
        Some(b'S') => {}
        Some(b'N') => return Err("the server has no TLS; leave out tls for a connection without it".to_owned().into()),
        Some(_) => return Err(broken().into()),
        None => return Err(unanswered().into()),
    }
    // Nothing may come before it that would be taken for a word of the server.
    let plain = incoming.whole(writer).ok_or("the server does not wait for TLS").map_err(str::to_owned)?;
    Ok(server.encrypt(plain).await?)
}

/// Values as text.
pub fn row(body: &[u8]) -> Option<Row> {
    let mut fields = Fields(body);
    let count = fields.u16()?;
    let value = |_| match fields.u32()? {
        u32::MAX => Some(None),
        length => Some(Some(String::from_utf8_lossy(fields.bytes(length as usize)?).into_owned())),
    };
    (0..count).map(value).collect()
}

/// A name as SQL takes it.
pub fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL takes it.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::conformance::runtime;

    /// What a login comes to if the server says this.
    fn login(server: &'static [u8], password: Option<&str>, private: bool) -> (Result<(), String>, Vec<u8>) {
        runtime().block_on(async {
            let (wire, mut other) = tokio::io::duplex(1 << 16);
            other.write_all(server).await.unwrap();
            let hello = Hello { username: "weir", password, database: "db", replication: false };
            let opened = Connection::over(Box::new(wire), &hello, private);
            let ended = tokio::time::timeout(Duration::from_secs(2), opened).await;
            let mut said = vec![0; 1 << 16];
            let count = other.read(&mut said).await.unwrap();
            said.truncate(count);
            let ended = match ended {
                Err(_) => Ok(()),
                Ok(opened) => opened.map(|_| ()).map_err(|failed| match Refused::from(failed) {
                    Refused::Passing(problem) => problem,
                    other => format!("{other:?}"),
                }),
            };
            (ended, said)
        })
    }

    #[test]
    fn a_login_gives_nothing_away_and_believes_nothing() {
        let (ended, said) = login(b"R\0\0\0\x08\0\0\0\x03", Some("geheim"), false);
        assert!(ended.is_err_and(|problem| problem.contains("set tls") && !problem.contains("geheim")));
        assert!(!said.windows(6).any(|part| part == b"geheim"));
        let (_, said) = login(b"R\0\0\0\x08\0\0\0\x03", Some("geheim"), true);
        assert!(said.ends_with(b"p\0\0\0\x0bgeheim\0"));
        let (ended, _) = login(b"R\0\0\0\x0c\0\0\0\x05abcd", None, false);
        assert!(ended.is_err_and(|problem| problem.contains("none is given")));
        // One that says it is fine before it has proven that it knows the password.
        let (ended, _) = login(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", Some("geheim"), false);
        assert!(ended.is_err(), "{ended:?}");
        for (nonsense, word) in [
            (&b"HTTP/1.1 400 Bad Request"[..], "more than 65536"),
            (b"R\x7f\0\0\0\0", "more than 65536"),
            (b"R\0\0\0\x04", "does not know"),
            (b"E\0\0\0\x0cC28P01\0\0", "the login is refused"),
            (b"R\0\0\0\x0a\0\0\0\x0cv\0", "does not speak"),
        ] {
            let (ended, _) = login(nonsense, Some("geheim"), false);
            assert!(ended.as_ref().is_err_and(|problem| problem.contains(word)), "{ended:?}");
        }
    }

    #[test]
    fn names_and_texts_stay_what_they_are() {
        assert_eq!((name("a\"b"), literal("it's\\")), ("\"a\"\"b\"".to_owned(), "'it''s\\'".to_owned()));
        assert_eq!(row(b"\0\x02\xff\xff\xff\xff\0\0\0\x01x"), Some(vec![None, Some("x".to_owned())]));
        assert_eq!(row(b"\0\x02\xff\xff\xff\xff\0\0\0\x09x"), None);
    }
}
