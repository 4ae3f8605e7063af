//! Events: what a service sends on one answer as it happens, as messages one behind the other.
//!
//!     length u32 | length of the headers u32 | check u32 | headers | payload | check of all before it u32
//!
//! A header is a name, a type and a value; those that matter are texts.

use reqwest::Response;

use super::client::{ANSWER_BYTES_MAX, said};
use crate::fields::Fields;
use crate::http;

/// Lengths, and their check.
const PRELUDE_BYTES: usize = 12;
/// Bytes of a check.
const CHECK_BYTES: usize = 4;

/// An answer whose messages have not all come.
pub struct Events {
    answer: Response,
    come: Vec<u8>,
}

#[derive(PartialEq, Debug)]
pub enum Told {
    /// The name of an event, and its JSON.
    Event(String, Vec<u8>),
    /// The service ends the answer: what it calls that, and why.
    Failure(String, String),
}

impl Events {
    pub fn new(answer: Response) -> Events {
        Events { answer, come: Vec::new() }
    }

    /// The next one; none at the end. Nothing is lost when this is not waited for.
    pub async fn next(&mut self) -> Result<Option<Told>, String> {
        loop {
            if let Some(told) = take(&mut self.come)? {
                return Ok(Some(told));
            }
            match self.answer.chunk().await.map_err(|error| http::chain(&error.without_url()))? {
                Some(part) => self.come.extend_from_slice(&part),
                None if self.come.is_empty() => return Ok(None),
                None => return Err("the answer ends within a message".to_owned()),
            }
        }
    }
}

/// The first message of what has come, once it is whole.
pub fn take(come: &mut Vec<u8>) -> Result<Option<Told>, String> {
    match length(come)? {
        Some(length) if come.len() >= length => {
            let told = read(&come[..length]).ok_or("a message that cannot be read")?;
            come.drain(..length);
            Ok(Some(told))
        }
        _ => Ok(None),
    }
}

/// The length of the first message, as soon as it is known.
fn length(come: &[u8]) -> Result<Option<usize>, String> {
    let Some(length) = Fields(come).u32() else { return Ok(None) };
    let length = length as usize;
    if !(PRELUDE_BYTES + CHECK_BYTES..=ANSWER_BYTES_MAX).contains(&length) {
        return Err(format!("a message of {length} bytes"));
    }
    Ok(Some(length))
}

fn read(message: &[u8]) -> Option<Told> {
    let (checked, mut check) =
        message.split_at_checked(message.len().checked_sub(CHECK_BYTES)?).map(|(all, end)| (all, Fields(end)))?;
    let mut rest = Fields(checked);
    let (_, headers, of_prelude) = (rest.u32()?, rest.u32()?, rest.u32()?);
    if crc32fast::hash(&checked[..PRELUDE_BYTES - CHECK_BYTES]) != of_prelude || crc32fast::hash(checked) != check.u32()? {
        return None;
    }
    let mut headers = Fields(rest.bytes(headers as usize)?);
    let payload = rest.0;
    let (mut kind, mut event, mut failure, mut code) = ("event", "", "", "");
    let mut message = String::new();
    while !headers.0.is_empty() {
        let length = headers.u8()?.into();
        let name = std::str::from_utf8(headers.bytes(length)?).ok()?;
        let Some(value) = value(&mut headers)? else { continue };
        match name {
            ":message-type" => kind = value,
            ":event-type" => event = value,
            ":exception-type" => failure = value,
            ":error-code" => code = value,
            ":error-message" => message = value.to_owned(),
            _ => {}
        }
    }
    match kind {
        "event" => Some(Told::Event(event.to_owned(), payload.to_vec())),
        "exception" => {
            let (named, message) = said("", payload);
            Some(Told::Failure(if failure.is_empty() { named } else { failure.to_owned() }, message))
        }
        _ => Some(Told::Failure(code.to_owned(), message)),
    }
}

/// The value of a header, if it is a text.
fn value<'b>(headers: &mut Fields<'b>) -> Option<Option<&'b str>> {
    const TEXT: u8 = 7;
    let length = match headers.u8()? {
        // True and false.
        0 | 1 => 0,
        // Numbers of one, two, four and eight bytes, and a time.
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 => headers.u16()?.into(),
        TEXT => {
            let length = headers.u16()?.into();
            return Some(Some(std::str::from_utf8(headers.bytes(length)?).ok()?));
        }
        // A UUID.
        9 => 16,
        _ => return None,
    };
    headers.bytes(length).map(|_| None)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::aws) fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = (PRELUDE_BYTES + headers.len() + payload.len() + CHECK_BYTES) as u32;
        let mut bytes = [length.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend([headers, payload].concat());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    /// A header.
    pub(in crate::aws) fn text(name: &str, value: &str) -> Vec<u8> {
        let mut header = vec![name.len() as u8];
        header.extend(name.as_bytes());
        header.push(7);
        header.extend((value.len() as u16).to_be_bytes());
        header.extend(value.as_bytes());
        header
    }

    #[test]
    fn events_and_failures_are_told_apart_and_other_headers_passed_over() {
        let others = [
            &b"\x01a\x00"[..],
            b"\x01b\x02\x09",
            b"\x01c\x05\0\0\0\0\0\0\0\x01",
            b"\x01d\x06\0\x02xy",
            &[b"\x01e\x09", &[0; 16][..]].concat(),
        ];
        let event = [others.concat(), text(":message-type", "event"), text(":event-type", "SubscribeToShardEvent")].concat();
        let told = read(&message(&event, b"{}")).unwrap();
        assert_eq!(told, Told::Event("SubscribeToShardEvent".to_owned(), b"{}".to_vec()));
        let exception = [text(":message-type", "exception"), text(":exception-type", "ResourceInUseException")].concat();
        let told = read(&message(&exception, br#"{"message": "taken over"}"#)).unwrap();
        assert_eq!(told, Told::Failure("ResourceInUseException".to_owned(), "taken over".to_owned()));
        let error =
            [text(":message-type", "error"), text(":error-code", "InternalFailure"), text(":error-message", "why")].concat();
        assert_eq!(read(&message(&error, b"")).unwrap(), Told::Failure("InternalFailure".to_owned(), "why".to_owned()));
    }

    #[test]
    fn what_is_damaged_or_cut_is_no_message() {
        let whole = message(&text(":event-type", "a"), b"payload");
        assert!(read(&whole).is_some());
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_none(), "a bit of byte {at}");
            assert!(read(&whole[..at]).is_none(), "cut at {at}");
        }
        assert_eq!(length(&whole[..3]), Ok(None));
        assert_eq!(length(&whole), Ok(Some(whole.len())));
        assert!(length(&[0, 0, 0, 3]).is_err() && length(&[255; 4]).is_err());
    }
}
