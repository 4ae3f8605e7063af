//! Packing: numbers in as few bits as the largest of a column needs, and such of any length, one after another.
//!
//!     stream    bytes: numbers of 7 bits a byte, texts, and for each packed column its least number and its width
//!     bits      the packed columns, each from a whole byte on
//!
//! What is read back is checked: nothing here panics or takes much memory because of bytes that are wrong.

/// What is being written.
#[derive(Default)]
pub struct Packed {
    pub stream: Vec<u8>,
    pub bits: Vec<u8>,
}

impl Packed {
    pub fn number(&mut self, number: u64) {
        put_number(&mut self.stream, number);
    }

    /// A column of numbers of one width.
    pub fn column(&mut self, numbers: &[u64]) {
        let (least, width) = measure(numbers);
        self.number(least);
        self.stream.push(width as u8);
        let (mut held, mut count) = (0u128, 0);
        self.bits.reserve((numbers.len() * width as usize).div_ceil(8));
        for number in numbers {
            held |= u128::from(number - least) << count;
            count += width;
            if count >= u64::BITS {
                self.bits.extend_from_slice(&(held as u64).to_le_bytes());
                held >>= u64::BITS;
                count -= u64::BITS;
            }
        }
        self.bits.extend_from_slice(&held.to_le_bytes()[..count.div_ceil(8) as usize]);
    }

    /// Integers, as a column or one after another, whatever is less.
    pub fn integers(&mut self, numbers: &[i64]) {
        let flipped: Vec<u64> = numbers.iter().map(|number| *number as u64 ^ SIGN).collect();
        let (_, width) = measure(&flipped);
        let one_by_one: usize = numbers.iter().map(|number| length(zigzag(*number))).sum();
        if (numbers.len() * width as usize).div_ceil(8) <= one_by_one {
            self.stream.push(0);
            return self.column(&flipped);
        }
        self.stream.push(1);
        numbers.iter().for_each(|number| self.number(zigzag(*number)));
    }
}

/// Turned around, negative numbers come before the others.
const SIGN: u64 = 1 << 63;

/// The least number, and how many bits it takes to tell how much more the others are.
fn measure(numbers: &[u64]) -> (u64, u32) {
    let (least, most) = numbers.iter().fold((u64::MAX, 0), |(least, most), number| (least.min(*number), most.max(*number)));
    if numbers.is_empty() { (0, 0) } else { (least, u64::BITS - (most - least).leading_zeros()) }
}

pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes a number takes in the stream.
fn length(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Small numbers of either sign become small ones without.
pub fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

pub fn from_zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// What is being read.
#[derive(Clone, Copy)]
pub struct Unpacking<'a> {
    pub stream: &'a [u8],
    pub bits: &'a [u8],
}

impl<'a> Unpacking<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.stream.split_first()?;
        self.stream = rest;
        Some(*byte)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn count(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.stream.split_at_checked(count)?;
        self.stream = rest;
        Some(bytes)
    }

    /// Bytes as they are, from where the columns are.
    pub fn raw(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.bits.split_at_checked(count)?;
        self.bits = rest;
        Some(bytes)
    }

    /// `count` is known not to be too large for memory.
    pub fn column(&mut self, count: usize) -> Option<Vec<u64>> {
        let least = self.number()?;
        let width = u32::from(self.byte()?);
        if width > u64::BITS {
            return None;
        }
        let bytes = self.raw(count.checked_mul(width as usize)?.div_ceil(8))?;
        let mask = if width == u64::BITS { u64::MAX } else { (1 << width) - 1 };
        let (words, rest) = bytes.as_chunks();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut words = words.iter().chain(std::iter::once(&last)).map(|word| u64::from_le_bytes(*word));
        let (mut held, mut there) = (0u128, 0);
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            if there < width {
                held |= u128::from(words.next()?) << there;
                there += u64::BITS;
            }
            numbers.push(least.wrapping_add(held as u64 & mask));
            held >>= width;
            there -= width;
        }
        Some(numbers)
    }

    pub fn integers(&mut self, count: usize) -> Option<Vec<i64>> {
        match self.byte()? {
            0 => Some(self.column(count)?.into_iter().map(|number| (number ^ SIGN) as i64).collect()),
            1 => (0..count).map(|_| self.number().map(from_zigzag)).collect(),
            _ => None,
        }
    }

    /// Nothing is left.
    pub fn ended(&self) -> bool {
        self.stream.is_empty() && self.bits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        let mut seed = 88172645463325252_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for width in 0..=64 {
            for count in [0, 1, 2, 7, 8, 9, 100] {
                let numbers: Vec<u64> = (0..count).map(|_| random().checked_shr(64 - width).unwrap_or(0)).collect();
                let signed: Vec<i64> = numbers.iter().map(|number| (*number as i64).wrapping_sub(1 << 20)).collect();
                let mut packed = Packed::default();
                packed.column(&numbers);
                packed.integers(&signed);
                numbers.iter().for_each(|number| packed.number(*number));
                let mut reading = Unpacking { stream: &packed.stream, bits: &packed.bits };
                assert_eq!(reading.column(numbers.len()), Some(numbers.clone()));
                assert_eq!(reading.integers(signed.len()), Some(signed.clone()));
                assert!(numbers.iter().all(|number| reading.number() == Some(*number)) && reading.ended());
                let end = packed.stream.len() - 1;
                let mut short = Unpacking { stream: &packed.stream[..end], bits: &packed.bits };
                let all = short.column(numbers.len()).is_some() && short.integers(signed.len()).is_some();
                assert!(!all || !numbers.iter().all(|number| short.number() == Some(*number)) || numbers.is_empty());
            }
        }
        let extremes = [i64::MIN, -1, 0, 1, i64::MAX];
        let mut packed = Packed::default();
        packed.integers(&extremes);
        let mut reading = Unpacking { stream: &packed.stream, bits: &packed.bits };
        assert_eq!(reading.integers(5).as_deref(), Some(&extremes[..]));
    }
}
