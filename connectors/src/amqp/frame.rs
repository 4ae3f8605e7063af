//! Frames of AMQP 0.9.1 and the methods in them, as bytes. One channel is all that is used.

use crate::fields::Fields;

/// What ends a frame.
const END: u8 = 0xce;

/// The channel everything but the connection itself happens on.
const CHANNEL: u16 = 1;

/// No frame is longer, whatever a server would like.
pub const FRAME_BYTES_MAX: usize = 128 << 10;

pub const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, END];

/// Class and method, as the protocol numbers them.
pub type Name = (u16, u16);

pub const START: Name = (10, 10);
pub const START_OK: Name = (10, 11);
pub const TUNE: Name = (10, 30);
pub const TUNE_OK: Name = (10, 31);
pub const OPEN: Name = (10, 40);
pub const OPEN_OK: Name = (10, 41);
pub const CLOSE: Name = (10, 50);
pub const CLOSE_OK: Name = (10, 51);
pub const BLOCKED: Name = (10, 60);
pub const UNBLOCKED: Name = (10, 61);
pub const CHANNEL_OPEN: Name = (20, 10);
pub const CHANNEL_OPEN_OK: Name = (20, 11);
pub const CHANNEL_CLOSE: Name = (20, 40);
pub const QOS: Name = (60, 10);
pub const QOS_OK: Name = (60, 11);
pub const CONSUME: Name = (60, 20);
pub const CONSUME_OK: Name = (60, 21);
pub const CANCEL: Name = (60, 30);
pub const PUBLISH: Name = (60, 40);
pub const RETURN: Name = (60, 50);
pub const DELIVER: Name = (60, 60);
pub const ACK: Name = (60, 80);
pub const NACK: Name = (60, 120);
pub const CONFIRM: Name = (85, 10);
pub const CONFIRM_OK: Name = (85, 11);

#[derive(Clone, PartialEq, Debug)]
pub enum Frame {
    Method(Name, Vec<u8>),
    /// How long a message is, and its id if it has one.
    Header(u64, Option<String>),
    Body(Vec<u8>),
    Heartbeat,
}

/// What stands at the beginning, and how long it is; none while it is not whole.
pub fn parse(bytes: &[u8]) -> Result<Option<(Frame, usize)>, String> {
    let broken = || "the server does not speak the protocol of AMQP 0.9.1".to_owned();
    let Some((head, rest)) = bytes.split_first_chunk::<7>() else {
        // A server that wants another version says so, and that is shorter.
        return if bytes.first().is_some_and(|kind| !matches!(kind, 1 | 2 | 3 | 8)) { Err(broken()) } else { Ok(None) };
    };
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if !matches!(head[0], 1 | 2 | 3 | 8) || length > FRAME_BYTES_MAX {
        return Err(broken());
    }
    let Some((payload, end)) = rest.split_at_checked(length) else { return Ok(None) };
    match end.first() {
        None => return Ok(None),
        Some(&END) => {}
        Some(_) => return Err(broken()),
    }
    let frame = match head[0] {
        1 => {
            let mut fields = Fields(payload);
            let name = (fields.u16().ok_or_else(broken)?, fields.u16().ok_or_else(broken)?);
            Frame::Method(name, fields.0.to_vec())
        }
        2 => {
            let mut fields = Fields(payload);
            fields.u32().ok_or_else(broken)?;
            Frame::Header(fields.u64().ok_or_else(broken)?, id(fields))
        }
        3 => Frame::Body(payload.to_vec()),
        _ => Frame::Heartbeat,
    };
    Ok(Some((frame, 7 + length + 1)))
}

/// Among the properties of a message, which stand in the order of their flags, those that are there.
fn id(mut fields: Fields<'_>) -> Option<String> {
    let flags = fields.u16()?;
    for flag in (7..16).rev().map(|bit| 1_u16 << bit).filter(|flag| flags & flag != 0) {
        match flag {
            0x0080 => return fields.word(),
            0x2000 => drop(fields.long()?),
            0x1000 | 0x0800 => drop(fields.u8()?),
            _ => drop(fields.word()?),
        }
    }
    None
}

impl<'b> Fields<'b> {
    /// A text with its length before it, in one byte.
    pub fn word(&mut self) -> Option<String> {
        let length = self.u8()?;
        Some(String::from_utf8_lossy(self.bytes(length.into())?).into_owned())
    }

    /// Bytes with their length before them, in four bytes, as texts and tables are.
    pub fn long(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }
}

/// Fields of a method, one behind the other.
#[derive(Default)]
pub struct Method(Vec<u8>);

impl Method {
    pub fn u8(mut self, value: u8) -> Method {
        self.0.push(value);
        self
    }

    pub fn u16(mut self, value: u16) -> Method {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn u32(mut self, value: u32) -> Method {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Method {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Adds a text of at most 255 bytes.
    pub fn word(mut self, word: &str) -> Method {
        self.0.push(word.len() as u8);
        self.0.extend_from_slice(word.as_bytes());
        self
    }

    pub fn long(mut self, bytes: &[u8]) -> Method {
        self.0.extend((bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// As a frame. Of the connection itself, or of the channel.
    pub fn put(self, name: Name, out: &mut Vec<u8>) {
        let channel = if name.0 == START.0 { 0 } else { CHANNEL };
        let payload = [&name.0.to_be_bytes()[..], &name.1.to_be_bytes(), &self.0].concat();
        frame(1, channel, &payload, out);
    }

    pub fn frame(self, name: Name) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(name, &mut bytes);
        bytes
    }
}

/// The last words on a connection.
pub fn bye() -> Vec<u8> {
    Method::default().u16(200).word("").u16(0).u16(0).frame(CLOSE)
}

/// A table of what a client can do, each of it true.
pub fn abilities(names: &[&str]) -> Vec<u8> {
    let mut inner = Vec::new();
    for name in names {
        inner.push(name.len() as u8);
        inner.extend_from_slice(name.as_bytes());
        inner.extend(b"t\x01");
    }
    let mut table = b"\x0ccapabilitiesF".to_vec();
    table.extend((inner.len() as u32).to_be_bytes());
    table.extend(inner);
    for (name, value) in [("product", "weir"), ("version", env!("CARGO_PKG_VERSION"))] {
        table.push(name.len() as u8);
        table.extend_from_slice(name.as_bytes());
        table.push(b'S');
        table.extend((value.len() as u32).to_be_bytes());
        table.extend_from_slice(value.as_bytes());
    }
    table
}

/// A message behind its method, that servers keep on disk, with an id.
pub fn message(content_type: &str, id: &str, body: &[u8], frame_bytes_max: usize, out: &mut Vec<u8>) {
    // Content type, how it is kept, and the id.
    let header = Method::default().u16(PUBLISH.0).u16(0).u64(body.len() as u64).u16(0x8000 | 0x1000 | 0x0080);
    let header = header.word(content_type).u8(2).word(id);
    frame(2, CHANNEL, &header.0, out);
    for part in body.chunks(frame_bytes_max - 8) {
        frame(3, CHANNEL, part, out);
    }
}

fn frame(kind: u8, channel: u16, payload: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(channel.to_be_bytes());
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END);
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::destination::tests::read;

    /// The kind of the next frame, and what it holds, as the other side reads it.
    pub fn next_frame(connection: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
        let head = read(connection, 7)?;
        let payload = read(connection, u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize)?;
        read(connection, 1)?;
        Some((head[0], payload))
    }

    #[test]
    fn frames_are_put_and_taken_apart_however_they_come() {
        let mut bytes = HEARTBEAT.to_vec();
        Method::default().u64(7).u8(1).put(ACK, &mut bytes);
        message("text/plain", "id", &[9; 20], 16, &mut bytes);
        let (mut at, mut frames) = (0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some((frame, length)) = parse(&bytes[at..end]).unwrap() {
                at += length;
                frames.push(frame);
            }
        }
        assert_eq!(at, bytes.len());
        let ack = [&7_u64.to_be_bytes()[..], &[1]].concat();
        let bodies = [8, 8, 4].map(|length| Frame::Body(vec![9; length]));
        let mut expected = vec![Frame::Heartbeat, Frame::Method(ACK, ack), Frame::Header(20, Some("id".to_owned()))];
        expected.extend(bodies);
        assert_eq!(frames, expected);
        for broken in [
            &b"AMQP\x00\x00\x09\x01"[..],
            b"AM",
            b"\x01\x00\x00\xff\xff\xff\xff",
            b"\x08\x00\x00\x00\x00\x00\x00x",
            b"\x01\x00\x00\x00\x00\x00\x01x\xce",
        ] {
            assert!(parse(broken).is_err_and(|problem| problem.contains("protocol")), "{broken:?}");
        }
    }

    #[test]
    fn fields_are_put_as_they_are_read() {
        let method = Method::default().u8(1).u16(2).u32(3).u64(4).word("five").long(b"six");
        let mut fields = Fields(&method.0);
        assert_eq!((fields.u8(), fields.u16(), fields.u32(), fields.u64()), (Some(1), Some(2), Some(3), Some(4)));
        assert_eq!((fields.word().as_deref(), fields.long(), fields.u8()), (Some("five"), Some(&b"six"[..]), None));
        assert_eq!((Fields(b"\x05abc").word(), Fields(b"\x00\x00\x00\x09x").long()), (None, None));
    }
}
