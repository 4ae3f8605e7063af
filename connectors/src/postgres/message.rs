//! Messages of PostgreSQL's protocol 3, as bytes: a letter, a length, fields. Knows nothing of what they are for.

use crate::fields::Fields;

/// A message that came.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
}

/// What stands at the beginning, and how long it is; none while it is not whole.
pub fn parse(bytes: &[u8], bytes_max: usize) -> Result<Option<(Message, usize)>, String> {
    let Some((head, rest)) = bytes.split_first_chunk::<5>() else { return Ok(None) };
    let [kind, length @ ..] = *head;
    // The length counts itself.
    let length = (u32::from_be_bytes(length) as usize).checked_sub(4);
    let Some(length) = length.filter(|_| kind.is_ascii_alphanumeric()) else { return Err(broken()) };
    if length > bytes_max {
        return Err(format!("the server sends a message of {length} bytes, more than {bytes_max}"));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    Ok(Some((Message { kind, body: body.to_vec() }, 5 + length)))
}

pub fn broken() -> String {
    "the server does not speak the protocol of PostgreSQL".to_owned()
}

impl Fields<'_> {
    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    /// A text that ends with a zero.
    pub fn text(&mut self) -> Option<String> {
        let end = memchr::memchr(0, self.0)?;
        let text = String::from_utf8_lossy(self.bytes(end)?).into_owned();
        self.u8()?;
        Some(text)
    }
}

/// What a server says of something that it did not do.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Said {
    /// SQLSTATE.
    pub code: String,
    pub words: String,
    /// The server closes the connection.
    pub fatal: bool,
}

/// No more of it is told.
const WORDS_MAX: usize = 1_000;

impl Said {
    pub fn read(body: &[u8]) -> Said {
        let mut fields = Fields(body);
        let mut said = Said::default();
        let (mut message, mut detail, mut hint) = (String::new(), String::new(), String::new());
        while let Some(kind) = fields.u8().filter(|kind| *kind != 0) {
            let Some(text) = fields.text() else { break };
            match kind {
                // As the server names it in every language.
                b'V' => said.fatal = text != "ERROR",
                b'C' => said.code = text,
                b'M' => message = text,
                b'D' => detail = format!(": {text}"),
                b'H' => hint = format!("; {text}"),
                _ => {}
            }
        }
        said.words = format!("{message}{detail}{hint}");
        if let Some((end, _)) = said.words.char_indices().nth(WORDS_MAX) {
            said.words.truncate(end);
        }
        said.words = format!("{} ({})", said.words, said.code);
        said
    }

    pub fn of_class(&self, class: &str) -> bool {
        self.code.starts_with(class)
    }
}

/// A message without a letter: the first words of a connection.
pub fn put_first(code: u32, fields: &[(&str, &str)], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&code.to_be_bytes());
    for (name, value) in fields {
        put_text(name, out);
        put_text(value, out);
    }
    if !fields.is_empty() {
        out.push(0);
    }
    close(start, out);
}

/// A message whose fields `fill` appends.
pub fn put(kind: u8, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    close(start, out);
}

/// Writes how long what begins there is.
fn close(start: usize, out: &mut [u8]) {
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A text with a zero behind it. Zeros within would end it too early: names and words with such are refused before.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

pub fn put_query(sql: &str, out: &mut Vec<u8>) {
    put(b'Q', out, |out| put_text(sql, out));
}

/// Has a statement read, described and kept under a name.
pub fn put_parse(name: &str, sql: &str, out: &mut Vec<u8>) {
    put(b'P', out, |out| {
        put_text(name, out);
        put_text(sql, out);
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
    put(b'D', out, |out| {
        out.push(b'S');
        put_text(name, out);
    });
}

/// Runs a statement that is kept, with parameters as text.
pub fn put_run(name: &str, parameters: &[Option<String>], out: &mut Vec<u8>) {
    put(b'B', out, |out| {
        put_text("", out);
        put_text(name, out);
        out.extend_from_slice(&0_u16.to_be_bytes());
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            match parameter {
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(text) => {
                    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
            }
        }
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
    put(b'E', out, |out| {
        put_text("", out);
        out.extend_from_slice(&0_u32.to_be_bytes());
    });
}

/// Ends what belongs together, and asks what became of it.
pub fn put_sync(out: &mut Vec<u8>) {
    put(b'S', out, |_| {});
}

/// Good bye.
pub fn bye() -> Vec<u8> {
    vec![b'X', 0, 0, 0, 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_when_they_are_whole_and_not_too_long() {
        let mut bytes = Vec::new();
        put_query("SELECT 1", &mut bytes);
        assert_eq!(bytes, b"Q\0\0\0\x0dSELECT 1\0");
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], 100), Ok(None), "{end}");
        }
        let (message, length) = parse(&[&bytes[..], b"rest"].concat(), 100).unwrap().unwrap();
        assert_eq!((message.kind, length), (b'Q', bytes.len()));
        assert_eq!(Fields(&message.body).text().as_deref(), Some("SELECT 1"));
        assert!(parse(&bytes, 8).is_err_and(|problem| problem.contains("more than 8")));
        assert!(parse(b"HTTP/1.1 400", 1 << 20).is_err(), "another protocol");
        assert!(parse(b"Z\0\0\0\x03", 100).is_err(), "a length that does not count itself");
        assert!(parse(b"\0\0\0\0\x08", 100).is_err());
    }

    #[test]
    fn what_is_said_is_read_and_any_bytes_are_an_answer() {
        let said = Said::read(b"SFEHLER\0VERROR\0C23505\0Mduplicate key\0DKey (id)=(1) exists.\0\0");
        assert_eq!((said.code.as_str(), said.fatal), ("23505", false));
        assert_eq!(said.words, "duplicate key: Key (id)=(1) exists. (23505)");
        assert!(said.of_class("23") && !said.of_class("22"));
        assert!(Said::read(b"VFATAL\0").fatal);
        for bytes in [&b""[..], b"M", b"Mabc", b"\0", b"M\xff\xfe\0"] {
            Said::read(bytes);
        }
        assert!(Said::read(&[&b"M"[..], "é".repeat(5_000).as_bytes(), b"\0"].concat()).words.len() < 2_100);
        assert_eq!(Fields(&[1]).u16(), None);
        assert_eq!(Fields(b"abc").text(), None);
    }
}
