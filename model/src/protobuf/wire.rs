//! The wire format of Protobuf: tags, varints, lengths. It knows no schema.
//!
//! Lengths are those of bytes that are there, so nothing is made room for that has not been seen.

use super::DEPTH_MAX;

const TOO_SHORT: &str = "the message ends too early";

/// How the bytes behind a tag are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    Varint,
    Fixed64,
    Sized,
    GroupStart,
    GroupEnd,
    Fixed32,
}

/// What is left of a message.
pub struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub fn new(bytes: &'a [u8]) -> Wire<'a> {
        Wire { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of the next field and how it is laid out; none at the end.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<(u32, Layout)>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| "a tag has more than 32 bits")?;
        let layout = match tag & 7 {
            0 => Layout::Varint,
            1 => Layout::Fixed64,
            2 => Layout::Sized,
            3 => Layout::GroupStart,
            4 => Layout::GroupEnd,
            5 => Layout::Fixed32,
            _ => return Err("a tag has a wire type that there is not"),
        };
        if tag >> 3 == 0 {
            return Err("a field has the number 0");
        }
        Ok(Some((tag >> 3, layout)))
    }

    /// Seven bits a byte, the lowest first.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, &'static str> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        let mut number = 0u64;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.rest.len() < 10 { TOO_SHORT } else { "a number has more than ten bytes" })
    }

    pub fn fixed32(&mut self) -> Result<[u8; 4], &'static str> {
        self.array()
    }

    pub fn fixed64(&mut self) -> Result<[u8; 8], &'static str> {
        self.array()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// As many bytes as the length before them says.
    #[inline]
    pub fn sized(&mut self) -> Result<&'a [u8], &'static str> {
        let length = usize::try_from(self.varint()?).map_err(|_| TOO_SHORT)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    /// What lies between the start of a group, which is read, and its end.
    pub fn group(&mut self, number: u32) -> Result<&'a [u8], &'static str> {
        let whole = self.rest;
        let length = self.skip_group(number, 0)?;
        Ok(&whole[..length])
    }

    /// Passes over a field whose tag is read.
    pub fn skip(&mut self, number: u32, layout: Layout) -> Result<(), &'static str> {
        self.skip_within(number, layout, 0)
    }

    fn skip_within(&mut self, number: u32, layout: Layout, depth: usize) -> Result<(), &'static str> {
        match layout {
            Layout::Varint => self.varint().map(|_| ()),
            Layout::Fixed32 => self.fixed32().map(|_| ()),
            Layout::Fixed64 => self.fixed64().map(|_| ()),
            Layout::Sized => self.sized().map(|_| ()),
            Layout::GroupStart => self.skip_group(number, depth + 1).map(|_| ()),
            Layout::GroupEnd => Err("a group ends that was not begun"),
        }
    }

    /// Returns the length of what is in the group.
    fn skip_group(&mut self, number: u32, depth: usize) -> Result<usize, &'static str> {
        if depth > DEPTH_MAX {
            return Err("groups lie within groups too deeply");
        }
        let begin = self.rest.len();
        loop {
            let before = self.rest.len();
            match self.tag()?.ok_or(TOO_SHORT)? {
                (ended, Layout::GroupEnd) if ended == number => return Ok(begin - before),
                (inner, layout) => self.skip_within(inner, layout, depth)?,
            }
        }
    }
}

pub fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn put_tag(number: u32, layout: Layout, out: &mut Vec<u8>) {
    let kind = match layout {
        Layout::Varint => 0,
        Layout::Fixed64 => 1,
        Layout::Sized => 2,
        Layout::GroupStart => 3,
        Layout::GroupEnd => 4,
        Layout::Fixed32 => 5,
    };
    put_varint(u64::from(number) << 3 | kind, out);
}

/// What `fill` appends, with its length before it.
pub fn put_sized<E>(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let at = out.len();
    // One byte is enough for most lengths; where it is not, what is behind it moves.
    out.push(0);
    fill(out)?;
    let length = out.len() - at - 1;
    if length < 0x80 {
        out[at] = length as u8;
    } else {
        let mut written = Vec::with_capacity(5);
        put_varint(length as u64, &mut written);
        out.splice(at..=at, written);
    }
    Ok(())
}

pub fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}
