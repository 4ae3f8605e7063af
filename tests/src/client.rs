//! HTTP as the tests need it: one blocking request a connection, everything about the answer visible.
//!
//! Written here because a test wants to see what a client library hides: a connection that breaks, a body without a
//! content type, a header that is not there.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value as Json;

/// Longer than any answer may take in these tests, also where a disk stands still for the better part of a minute.
const ANSWER_MAX: Duration = Duration::from_secs(120);

const BODY_BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}; the answer was {}", self.shown()))
    }

    /// The answer, which must have the status.
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "the answer was {}", self.shown());
        self
    }

    pub fn shown(&self) -> String {
        format!("{} {:?} {}", self.status, self.header("content-type"), self.text())
    }
}

/// Sends a request and reads the whole answer. An error is one of the connection.
pub fn send(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
    read(open(address, method, target, headers, body)?, method == "HEAD")
}

/// The whole answer to what `open` has sent.
pub fn read(mut stream: TcpStream, without_body: bool) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    Read::take(&mut stream, BODY_BYTES_MAX).read_to_end(&mut bytes)?;
    parse(&bytes, without_body)
}

/// Sends a request and leaves the answer to be read, for answers without an end.
pub fn open(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_nodelay(true)?;
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT") {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    stream.write_all(&bytes)?;
    Ok(stream)
}

fn parse(bytes: &[u8], without_body: bool) -> io::Result<Answer> {
    let cut = |what: &str| io::Error::new(io::ErrorKind::UnexpectedEof, format!("the answer was cut off: {what}"));
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| cut("no end of the head"))?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(|| cut("no status"))?;
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let mut answer = Answer { status, headers, body: Vec::new() };
    let rest = &bytes[end + 4..];
    if without_body {
        return Ok(answer);
    }
    let length = answer.header("content-length").and_then(|text| text.parse::<usize>().ok());
    answer.body = match (answer.header("transfer-encoding"), length) {
        (Some("chunked"), _) => unchunked(rest).ok_or_else(|| cut("no last chunk"))?,
        (_, Some(length)) => rest.get(..length).ok_or_else(|| cut("the body is shorter than its length"))?.to_vec(),
        (_, None) => rest.to_vec(),
    };
    Ok(answer)
}

/// None when the last chunk is missing.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_refused() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\ncontent-length: 2\r\n\r\n{}", false).unwrap();
        assert_eq!((answer.status, answer.header("content-type"), answer.text().as_str()), (200, Some("a/b"), "{}"));
        let chunked =
            parse(b"HTTP/1.1 400 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", false).unwrap();
        assert_eq!((chunked.status, chunked.text().as_str()), (400, "abcd"));
        for cut in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        ] {
            assert!(parse(cut.as_bytes(), false).is_err(), "{cut:?}");
        }
        assert_eq!(parse(b"HTTP/1.1 405 X\r\ncontent-length: 9\r\n\r\n", true).unwrap().body, b"");
    }
}
