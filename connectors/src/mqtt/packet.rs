//! Packets of MQTT 3.1.1 as bytes; and of version 5 as much as a broker has to be asked for what it takes.

use crate::fields::Fields;

/// No packet is longer: the most that its length can say.
pub const PACKET_BYTES_MAX: usize = 268_435_455;

/// No answer of a broker that says what it takes is longer.
const LIMITS_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, PartialEq, Debug)]
pub enum Packet {
    /// Whether the broker has kept the session, and 0 or why it refuses.
    Connected {
        kept: bool,
        code: u8,
    },
    Publish(Publish),
    /// The message with this number is acknowledged.
    Acknowledged(u16),
    /// The level that each topic gets, or 0x80.
    Subscribed(Vec<u8>),
    Pong,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Publish {
    pub topic: String,
    /// Where it wants to be acknowledged.
    pub number: Option<u16>,
    /// It may have come before.
    pub again: bool,
    pub retained: bool,
    pub payload: Vec<u8>,
}

/// What a client says first.
pub struct Hello<'a> {
    pub client: &'a str,
    pub forget: bool,
    pub username: Option<&'a str>,
    pub password: Option<&'a str>,
    pub alive_seconds: u16,
}

pub fn connect(hello: &Hello<'_>) -> Vec<u8> {
    greeting(hello, 4)
}

/// As `connect`, in version 5, in which a broker says what it takes.
pub fn connect_for_limits(hello: &Hello<'_>) -> Vec<u8> {
    greeting(hello, 5)
}

fn greeting(hello: &Hello<'_>, version: u8) -> Vec<u8> {
    let mut body = Vec::new();
    text("MQTT", &mut body);
    let flags = u8::from(hello.forget) << 1 | u8::from(hello.password.is_some()) << 6 | u8::from(hello.username.is_some()) << 7;
    body.extend([version, flags]);
    body.extend(hello.alive_seconds.to_be_bytes());
    if version == 5 {
        // No properties.
        body.push(0);
    }
    text(hello.client, &mut body);
    hello.username.into_iter().chain(hello.password).for_each(|word| text(word, &mut body));
    packet(0x10, &body)
}

pub fn subscribe(topics: &[String], level: u8) -> Vec<u8> {
    let mut body = vec![0, 1];
    for topic in topics {
        text(topic, &mut body);
        body.push(level);
    }
    packet(0x82, &body)
}

/// A message that wants to be acknowledged.
pub fn publish(topic: &str, number: u16, retained: bool, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x32 | u8::from(retained));
    length(publish_length(topic, payload), out);
    text(topic, out);
    out.extend(number.to_be_bytes());
    out.extend_from_slice(payload);
}

/// What the packet of such a message says that it has, behind that.
fn publish_length(topic: &str, payload: &[u8]) -> usize {
    2 + topic.len() + 2 + payload.len()
}

/// All bytes of the packet of a message with a number.
pub fn publish_bytes(topic: &str, payload: &[u8]) -> usize {
    let said = publish_length(topic, payload);
    let length_bytes = match said {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    };
    1 + length_bytes + said
}

pub fn acknowledge(number: u16, out: &mut Vec<u8>) {
    out.extend([0x40, 2]);
    out.extend(number.to_be_bytes());
}

pub const PING: [u8; 2] = [0xc0, 0];
pub const BYE: [u8; 2] = [0xe0, 0];

fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![kind];
    length(body.len(), &mut packet);
    packet.extend_from_slice(body);
    packet
}

/// Seven bits at a time, the lowest first.
fn length(mut rest: usize, out: &mut Vec<u8>) {
    loop {
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        if rest == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn broken() -> String {
    "the broker does not speak the protocol of MQTT 3.1.1".to_owned()
}

/// A length at the beginning, and how many bytes it is; none while it is not whole.
fn length_of(bytes: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let mut length = 0;
    for count in 0..4 {
        let Some(byte) = bytes.get(count) else { return Ok(None) };
        length |= usize::from(byte & 0x7f) << (7 * count);
        if byte & 0x80 == 0 {
            return Ok(Some((length, count + 1)));
        }
    }
    Err(broken())
}

/// What stands at the beginning, and how long it is; none while it is not whole.
pub fn parse(bytes: &[u8]) -> Result<Option<(Packet, usize)>, String> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some((length, count)) = length_of(rest)? else { return Ok(None) };
    // What it is stands first, so that something else is not waited for.
    let kind_known = matches!((kind >> 4, length), (2 | 4, 2) | (3, 2..) | (9, 3..) | (13, 0));
    if !kind_known {
        return Err(broken());
    }
    let Some(body) = rest.get(count..count + length) else { return Ok(None) };
    let number = |bytes: &[u8]| bytes.first_chunk::<2>().map(|two| u16::from_be_bytes(*two)).ok_or_else(broken);
    let packet = match kind >> 4 {
        2 => Packet::Connected { kept: body[0] & 1 == 1, code: body[1] },
        4 => Packet::Acknowledged(number(body)?),
        9 => Packet::Subscribed(body[2..].to_vec()),
        13 => Packet::Pong,
        _ => {
            let (topic, rest) = body[2..].split_at_checked(number(body)?.into()).ok_or_else(broken)?;
            let topic = std::str::from_utf8(topic).map_err(|_| broken())?.to_owned();
            let (numbered, payload) = match kind >> 1 & 3 {
                0 => (None, rest),
                1 => (Some(number(rest)?), rest.get(2..).unwrap_or_default()),
                // That was not subscribed to.
                _ => return Err(broken()),
            };
            let (again, retained) = (kind & 8 != 0, kind & 1 != 0);
            Packet::Publish(Publish { topic, number: numbered, again, retained, payload: payload.to_vec() })
        }
    };
    Ok(Some((packet, 1 + count + length)))
}

/// An answer to `connect_for_limits`: how many bytes a packet may have, if the broker says that.
pub fn parse_limits(bytes: &[u8]) -> Result<Option<(Option<usize>, usize)>, String> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some((length, count)) = length_of(rest)? else { return Ok(None) };
    if *kind != 0x20 || length > LIMITS_BYTES_MAX {
        return Err(broken());
    }
    let Some(body) = rest.get(count..count + length) else { return Ok(None) };
    let packet_bytes_max = match body.get(1).ok_or_else(broken)? {
        0 => body.get(2..).and_then(packet_bytes_max),
        // It does not know that version: in the words of 3.1.1, and of 5.
        1 | 0x84 => None,
        // It says nothing of what it takes.
        code => return Err(format!("the broker does not say what it takes ({code})")),
    };
    Ok(Some((packet_bytes_max, 1 + count + length)))
}

/// Among the properties of an answer, behind how long they are. Each is a number for what it says, and that.
fn packet_bytes_max(bytes: &[u8]) -> Option<usize> {
    let (length, count) = length_of(bytes).ok()??;
    let mut fields = Fields(bytes.get(count..count + length)?);
    loop {
        let (bytes, texts) = match fields.u8()? {
            0x27 => return fields.u32().map(|bytes| bytes as usize),
            0x11 => (4, 0),
            0x13 | 0x21 | 0x22 => (2, 0),
            0x24 | 0x25 | 0x28..=0x2a => (1, 0),
            0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => (0, 1),
            0x26 => (0, 2),
            _ => return None,
        };
        fields.bytes(bytes)?;
        for _ in 0..texts {
            let length = fields.u16()?;
            fields.bytes(length.into())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_put_and_taken_apart_however_they_come() {
        let hello = Hello { client: "c", forget: false, username: Some("u"), password: Some("p"), alive_seconds: 30 };
        assert_eq!(connect(&hello), b"\x10\x13\x00\x04MQTT\x04\xc0\x00\x1e\x00\x01c\x00\x01u\x00\x01p");
        assert_eq!(subscribe(&["a/#".to_owned()], 1), b"\x82\x08\x00\x01\x00\x03a/#\x01");
        let mut bytes = vec![0x20, 2, 1, 0, 0x90, 3, 0, 1, 0x80, 0x40, 2, 1, 2, 0xd0, 0];
        publish("a/b", 258, true, &[7; 200], &mut bytes);
        bytes.extend(
            b"\x30\x03\x00\x01ta\x3a\x05\x00\x01t\x00\x09"
                .iter()
                .copied()
                .enumerate()
                .filter(|(at, _)| *at != 5)
                .map(|(_, byte)| byte),
        );
        let (mut at, mut packets) = (0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some((packet, length)) = parse(&bytes[at..end]).unwrap() {
                at += length;
                packets.push(packet);
            }
        }
        assert_eq!(at, bytes.len());
        let large = Publish { topic: "a/b".to_owned(), number: Some(258), again: false, retained: true, payload: vec![7; 200] };
        let plain = Publish { topic: "t".to_owned(), number: None, again: false, retained: false, payload: Vec::new() };
        let again = Publish { number: Some(9), again: true, ..plain.clone() };
        let expected = [
            Packet::Connected { kept: true, code: 0 },
            Packet::Subscribed(vec![0x80]),
            Packet::Acknowledged(258),
            Packet::Pong,
            Packet::Publish(large),
            Packet::Publish(plain),
            Packet::Publish(again),
        ];
        assert_eq!(packets, expected);
        for broken in [
            &b"HTTP/1.1"[..],
            b"\x20\x03\x00",
            b"\x30\xff\xff\xff\xff",
            b"\x30\x02\x00\x05",
            b"\x34\x05\x00\x01t\x00\x01",
            b"\x32\x03\x00\x01t",
        ] {
            assert!(parse(broken).is_err_and(|problem| problem.contains("protocol")), "{broken:?}");
        }
    }

    #[test]
    fn a_broker_of_version_5_says_how_long_a_packet_may_be() {
        let hello = Hello { client: "c", forget: true, username: None, password: None, alive_seconds: 30 };
        assert_eq!(connect_for_limits(&hello), b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x1e\x00\x00\x01c");
        let others = b"\x11\0\0\0\x01\x13\0\x1e\x12\0\x01c\x26\0\x01k\0\x01v\x24\x01";
        let limit = b"\x27\0\0\x03\xe8";
        let answer = |properties: &[u8]| {
            let mut bytes = vec![0x20, 3 + properties.len() as u8, 0, 0, properties.len() as u8];
            bytes.extend_from_slice(properties);
            bytes
        };
        for (bytes, said) in [
            (answer(limit), Some(1000)),
            (answer(&[&others[..], limit].concat()), Some(1000)),
            (answer(others), None),
            (answer(b""), None),
            (answer(b"\x27\0"), None),
            (answer(b"\x7f"), None),
            // It does not know that version.
            (vec![0x20, 2, 0, 1], None),
            (vec![0x20, 3, 0, 0x84, 0], None),
            (vec![0x20, 2, 0, 0], None),
        ] {
            assert_eq!(parse_limits(&bytes), Ok(Some((said, bytes.len()))), "{bytes:?}");
            for end in 0..bytes.len() {
                assert_eq!(parse_limits(&bytes[..end]), Ok(None), "{bytes:?}");
            }
        }
        // It refuses the login, or is busy, in the words of either version: what it takes is another matter.
        for refused in [&[0x20, 3, 0, 0x86, 0][..], &[0x20, 3, 0, 0x88, 0], &[0x20, 2, 0, 3], &[0x20, 2, 0, 5], &[0x20, 1, 0]] {
            assert!(parse_limits(refused).is_err(), "{refused:?}");
        }
        assert!(parse_limits(b"HTTP/1.1").is_err() && parse_limits(b"\x20\xff\xff\xff\x7f").is_err());
    }

    #[test]
    fn a_packet_is_as_long_as_is_said() {
        for length in [0, 122, 123, 124, 16_378, 16_379, 16_380, 2_097_146, 2_097_147, 2_097_148] {
            let mut bytes = Vec::new();
            publish("t", 1, false, &vec![7; length], &mut bytes);
            assert_eq!(publish_bytes("t", &vec![7; length]), bytes.len(), "{length}");
        }
    }
}
