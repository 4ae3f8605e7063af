//! The protocol of Redis (RESP2): commands are lists of byte strings, and answers come in their order.

use tokio::time::Instant;

use crate::dial::Wire;
use crate::ends::{ANSWER_TIME_MAX, Incoming, Writer, ends, unanswered};

/// A longer answer is refused: nothing that is asked for here needs it.
const ANSWER_BYTES_MAX: usize = 600 << 20;

/// Lists within lists.
const DEPTH_MAX: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    Null,
}

impl Reply {
    /// The answer, if it is no error.
    pub fn ok(self) -> Result<Reply, String> {
        match self {
            Reply::Error(error) => Err(error),
            other => Ok(other),
        }
    }
}

pub struct Connection {
    incoming: Incoming,
    pub writer: Writer,
    /// So many bytes may be needed for the next answer, as far as is known.
    needed: usize,
}

impl Connection {
    pub fn over(wire: Box<dyn Wire>) -> Connection {
        let (incoming, writer) = ends(wire, "the server");
        Connection { incoming, writer, needed: 1 }
    }

    pub async fn ask(&mut self, command: &[&[u8]]) -> Result<Reply, String> {
        let mut bytes = Vec::new();
        put_command(command, &mut bytes);
        self.writer.send(&bytes).await?;
        self.answer(Instant::now() + ANSWER_TIME_MAX).await?.ok_or_else(unanswered)
    }

    /// The next answer; none when the time is over, and then what has come of it stays.
    pub async fn answer(&mut self, deadline: Instant) -> Result<Option<Reply>, String> {
        let needed = &mut self.needed;
        let parse = |bytes: &[u8]| {
            // A long list would be taken apart from its beginning again and again.
            if bytes.len() < *needed {
                return Ok(None);
            }
            match parse(bytes, 0, 0)? {
                Parsed::Whole(reply, length) => {
                    *needed = 1;
                    Ok(Some((reply, length)))
                }
                Parsed::Needs(length) => {
                    *needed = length.max(bytes.len() + 1);
                    let too_long = || Err(format!("an answer has more than {ANSWER_BYTES_MAX} bytes"));
                    if *needed > ANSWER_BYTES_MAX { too_long() } else { Ok(None) }
                }
            }
        };
        self.incoming.next(deadline, parse).await
    }
}

pub fn put_command(command: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", command.len()).as_bytes());
    for part in command {
        out.extend(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

enum Parsed {
    /// With how many bytes it takes.
    Whole(Reply, usize),
    /// So many bytes at least have to be there.
    Needs(usize),
}

fn parse(bytes: &[u8], from: usize, depth: usize) -> Result<Parsed, String> {
    let broken = || "the server does not speak the protocol of Redis".to_owned();
    let rest = bytes.get(from..).unwrap_or_default();
    let Some(end) = memchr::memchr(b'\n', rest) else { return Ok(Parsed::Needs(bytes.len() + 1)) };
    let line = rest[..end].strip_suffix(b"\r").ok_or_else(broken)?;
    let (kind, text) = line.split_first().ok_or_else(broken)?;
    let text = String::from_utf8_lossy(text);
    let next = from + end + 1;
    let number = || text.parse::<i64>().map_err(|_| broken());
    let reply = match kind {
        b'+' => Reply::Status(text.into_owned()),
        b'-' => Reply::Error(text.into_owned()),
        b':' => Reply::Integer(number()?),
        b'$' | b'*' if number()? < 0 => Reply::Null,
        b'$' => {
            let length = usize::try_from(number()?).map_err(|_| broken())?;
            let whole = next.saturating_add(length).saturating_add(2);
            return Ok(match bytes.get(next..whole) {
                Some(part) => Parsed::Whole(Reply::Bytes(part[..length].to_vec()), whole),
                None => Parsed::Needs(whole),
            });
        }
        b'*' if depth < DEPTH_MAX => {
            let mut items = Vec::new();
            let mut at = next;
            for _ in 0..number()? {
                match parse(bytes, at, depth + 1)? {
                    Parsed::Whole(item, end) => {
                        items.push(item);
                        at = end;
                    }
                    needs => return Ok(needs),
                }
            }
            return Ok(Parsed::Whole(Reply::List(items), at));
        }
        _ => return Err(broken()),
    };
    Ok(Parsed::Whole(reply, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart_however_they_come() {
        let bytes = b"*3\r\n$3\r\na\r\n\r\n*-1\r\n*2\r\n:-7\r\n+OK\r\n";
        for end in 0..bytes.len() {
            assert!(
                matches!(parse(&bytes[..end], 0, 0), Ok(Parsed::Needs(needed)) if needed > end && needed <= bytes.len()),
                "{end}"
            );
        }
        let Ok(Parsed::Whole(reply, length)) = parse(bytes, 0, 0) else { panic!("it is whole") };
        let inner = Reply::List(vec![Reply::Integer(-7), Reply::Status("OK".to_owned())]);
        assert_eq!((reply, length), (Reply::List(vec![Reply::Bytes(b"a\r\n".to_vec()), Reply::Null, inner]), bytes.len()));
        let said = |bytes: &[u8]| match parse(bytes, 0, 0) {
            Ok(Parsed::Whole(reply, _)) => reply.ok(),
            Ok(Parsed::Needs(_)) => Ok(Reply::Null),
            Err(error) => Err(error),
        };
        assert_eq!(said(b"-ERR no\r\n"), Err("ERR no".to_owned()));
        assert_eq!(said(b"$-1\r\n"), Ok(Reply::Null));
        for broken in [&b"HTTP/1.1 400\r\n"[..], b"\r\n", b"\n", b"$x\r\n", b"*1\r\n".repeat(9).as_slice()] {
            assert!(said(broken).is_err_and(|error| error.contains("protocol")), "{broken:?}");
        }
    }
}
