//! Fields of a message that lie one behind the other, numbers with their greatest byte first. What texts look like is for each
//! protocol to add.

/// What is left of them, taken off from the front. None where there is not enough.
#[derive(Clone, Debug)]
pub struct Fields<'b>(pub &'b [u8]);

impl<'b> Fields<'b> {
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }
}
