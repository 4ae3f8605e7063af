//! The protocol of Redis (RESP2): commands are lists of byte strings, and answers come in their order.

use std::time::Duration;

use tokio::time::Instant;

use crate::dial::Wire;
use crate::ends::{ANSWER_TIME_MAX, Incoming, Writer, ends};

/// A longer answer is refused: nothing that is asked for here needs it.
const ANSWER_BYTES_MAX: usize = 600 << 20;

/// No line is longer: they hold numbers, or words of the server.
const LINE_BYTES_MAX: usize = 64 << 10;

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
    pub incoming: Incoming,
    pub writer: Writer,
    answer: Answer,
}

impl Connection {
    pub fn over(wire: Box<dyn Wire>) -> Connection {
        let (incoming, writer) = ends(wire, "the server");
        Connection { incoming, writer, answer: Answer::default() }
    }

    pub async fn ask(&mut self, command: &[&[u8]]) -> Result<Reply, String> {
        let mut bytes = Vec::new();
        put_command(command, &mut bytes);
        self.writer.send(&bytes).await?;
        self.awaited(ANSWER_TIME_MAX).await
    }

    /// The next answer, which has to come: after a silence of `silence_max` it will not.
    pub async fn awaited(&mut self, silence_max: Duration) -> Result<Reply, String> {
        loop {
            if let Some(reply) = self.answer(Instant::now() + silence_max).await? {
                return Ok(reply);
            }
            self.incoming.heard_within(silence_max)?;
        }
    }

    /// The next answer; none when the time is over, and then what has come of it stays.
    pub async fn answer(&mut self, deadline: Instant) -> Result<Option<Reply>, String> {
        self.incoming.next(deadline, |bytes| self.answer.parse(bytes)).await
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

/// An answer that comes piece by piece. What was taken apart once is not looked at again: a long list would be, from its
/// beginning, with each piece of it.
#[derive(Default)]
struct Answer {
    /// How many bytes of it are taken apart.
    taken: usize,
    /// Lists that are not whole, each in the one before it, and how many items of each have to come.
    open: Vec<(i64, Vec<Reply>)>,
}

impl Answer {
    /// `bytes` is what was given before, and more. With a whole answer, how many bytes it has.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<(Reply, usize)>, String> {
        while let Some((item, length)) = item(&bytes[self.taken..])? {
            self.taken += length;
            let mut whole = match item {
                Item::Whole(reply) => reply,
                Item::List(0) => Reply::List(Vec::new()),
                Item::List(_) if self.open.len() == DEPTH_MAX => return Err(broken()),
                Item::List(count) => {
                    self.open.push((count, Vec::new()));
                    continue;
                }
            };
            // It may have been the last of its list, and that of the one around it.
            loop {
                let Some((left, items)) = self.open.last_mut() else {
                    return Ok(Some((whole, std::mem::take(&mut self.taken))));
                };
                items.push(whole);
                *left -= 1;
                if *left > 0 {
                    break;
                }
                whole = Reply::List(std::mem::take(items));
                self.open.pop();
            }
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(format!("an answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        Ok(None)
    }
}

enum Item {
    Whole(Reply),
    /// A list, of which this many items follow.
    List(i64),
}

fn broken() -> String {
    "the server does not speak the protocol of Redis".to_owned()
}

/// What stands at the beginning, and how long it is; none while it is not whole.
fn item(bytes: &[u8]) -> Result<Option<(Item, usize)>, String> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() > LINE_BYTES_MAX { Err(broken()) } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or_else(broken)?;
    let (kind, text) = line.split_first().ok_or_else(broken)?;
    let text = String::from_utf8_lossy(text);
    let next = end + 1;
    let number = || text.parse::<i64>().map_err(|_| broken());
    let reply = match kind {
        b'+' => Reply::Status(text.into_owned()),
        b'-' => Reply::Error(text.into_owned()),
        b':' => Reply::Integer(number()?),
        b'$' | b'*' if number()? < 0 => Reply::Null,
        b'$' => {
            let length = usize::try_from(number()?).ok().filter(|length| *length <= ANSWER_BYTES_MAX);
            let length = length.ok_or_else(|| format!("an answer has more than {ANSWER_BYTES_MAX} bytes"))?;
            let Some(part) = bytes.get(next..next + length + 2) else { return Ok(None) };
            return Ok(Some((Item::Whole(Reply::Bytes(part[..length].to_vec())), next + length + 2)));
        }
        b'*' => return Ok(Some((Item::List(number()?), next))),
        _ => return Err(broken()),
    };
    Ok(Some((Item::Whole(reply), next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart_however_they_come() {
        let bytes = b"*3\r\n$3\r\na\r\n\r\n*-1\r\n*2\r\n:-7\r\n+OK\r\n*0\r\n";
        let mut answer = Answer::default();
        let (mut replies, mut at) = (Vec::new(), 0);
        for end in 0..=bytes.len() {
            while let Some((reply, length)) = answer.parse(&bytes[at..end]).unwrap() {
                at += length;
                replies.push(reply);
            }
        }
        let inner = Reply::List(vec![Reply::Integer(-7), Reply::Status("OK".to_owned())]);
        let list = Reply::List(vec![Reply::Bytes(b"a\r\n".to_vec()), Reply::Null, inner]);
        assert_eq!((replies, at), (vec![list, Reply::List(Vec::new())], bytes.len()));
        let said = |bytes: &[u8]| match Answer::default().parse(bytes) {
            Ok(Some((reply, _))) => reply.ok(),
            Ok(None) => Ok(Reply::Null),
            Err(error) => Err(error),
        };
        assert_eq!(said(b"-ERR no\r\n"), Err("ERR no".to_owned()));
        assert_eq!(said(b"$-1\r\n"), Ok(Reply::Null));
        for broken in [&b"HTTP/1.1 400\r\n"[..], b"\r\n", b"\n", b"$x\r\n", b"*1\r\n".repeat(9).as_slice(), &[b'+'; 70_000]] {
            assert!(said(broken).is_err_and(|error| error.contains("protocol")), "{broken:?}");
        }
        assert!(said(b"$99999999999\r\n").is_err_and(|error| error.contains("more than")));
    }

    #[test]
    fn a_long_list_that_comes_in_small_pieces_is_looked_at_once() {
        let bytes = [&b"*200000\r\n"[..], &b":1\r\n".repeat(200_000)].concat();
        let (mut answer, began) = (Answer::default(), std::time::Instant::now());
        let found = (0..=bytes.len()).find_map(|end| answer.parse(&bytes[..end]).unwrap());
        assert!(matches!(found, Some((Reply::List(items), length)) if items.len() == 200_000 && length == bytes.len()));
        // From the beginning each time it would be some minutes.
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
