//! Packets of MQTT 3.1.1 as bytes.

/// No packet is longer: the most that its length can say.
pub const PACKET_BYTES_MAX: usize = 268_435_455;

#[derive(Clone, PartialEq, Debug)]
pub enum Packet {
    /// Whether the broker has kept the session, and 0 or why it refuses.
    Connected {
        kept: bool,
        code: u8,
    },
    Publish(Publish),
    /// Of a message with this number.
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
    let mut body = Vec::new();
    text("MQTT", &mut body);
    let flags = u8::from(hello.forget) << 1 | u8::from(hello.password.is_some()) << 6 | u8::from(hello.username.is_some()) << 7;
    body.extend([4, flags]);
    body.extend(hello.alive_seconds.to_be_bytes());
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
    length(2 + topic.len() + 2 + payload.len(), out);
    text(topic, out);
    out.extend(number.to_be_bytes());
    out.extend_from_slice(payload);
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

/// What stands at the beginning, and how long it is; none while it is not whole.
pub fn parse(bytes: &[u8]) -> Result<Option<(Packet, usize)>, String> {
    let broken = || "the broker does not speak the protocol of MQTT 3.1.1".to_owned();
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let (mut length, mut count) = (0_usize, 0);
    loop {
        let Some(byte) = rest.get(count) else { return if count < 4 { Ok(None) } else { Err(broken()) } };
        length |= usize::from(byte & 0x7f) << (7 * count);
        count += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if count == 4 {
            return Err(broken());
        }
    }
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
}
