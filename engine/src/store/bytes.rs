//! Reading bytes that may be damaged: a cursor that never runs past the end, and the few shapes all records share.
//! Everything is little endian; lengths are 4 bytes.

use weir_model::{NodeId, Position, QueryId, Text, Tick};

use super::Delivered;

/// What is wrong with the bytes, in words that complete "damaged data: …".
pub type Wrong = &'static str;

pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, length: u64) -> Result<&'a [u8], Wrong> {
        let length = usize::try_from(length).map_err(|_| "a length beyond the end")?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or("a length beyond the end")?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("an early end")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u32(&mut self) -> Result<u32, Wrong> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Wrong> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn tick(&mut self) -> Result<Tick, Wrong> {
        self.u64().map(Tick)
    }

    pub fn block(&mut self) -> Result<&'a [u8], Wrong> {
        let length = self.u32()?;
        self.take(length.into())
    }

    pub fn text(&mut self) -> Result<&'a str, Wrong> {
        std::str::from_utf8(self.block()?).map_err(|_| "a text that is not UTF-8")
    }

    pub fn sources(&mut self) -> Result<Vec<(Text, Position)>, Wrong> {
        let count = self.u32()?;
        (0..count).map(|_| Ok((Text::new(self.text()?), Position(self.block()?.to_vec())))).collect()
    }

    pub fn delivered(&mut self) -> Result<Vec<Delivered>, Wrong> {
        let count = self.u32()?;
        let one = |_| {
            Ok(Delivered {
                query: QueryId(NodeId::from_bytes(self.array()?)),
                output: Text::new(self.text()?),
                tick: self.tick()?,
                position: Position(self.block()?.to_vec()),
            })
        };
        (0..count).map(one).collect()
    }

    pub fn end(&self) -> Result<(), Wrong> {
        if self.0.is_empty() { Ok(()) } else { Err("bytes after the end") }
    }
}

pub fn put_block(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("names and positions are far below 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

pub fn put_sources(out: &mut Vec<u8>, sources: &[(Text, Position)]) {
    out.extend_from_slice(&(sources.len() as u32).to_le_bytes());
    for (name, position) in sources {
        put_block(out, name.as_bytes());
        put_block(out, &position.0);
    }
}

pub fn put_delivered(out: &mut Vec<u8>, delivered: &[Delivered]) {
    out.extend_from_slice(&(delivered.len() as u32).to_le_bytes());
    for one in delivered {
        out.extend_from_slice(&one.query.0.to_bytes());
        put_block(out, one.output.as_bytes());
        out.extend_from_slice(&one.tick.0.to_le_bytes());
        put_block(out, &one.position.0);
    }
}
