//! Thrift's compact form, as headers of pages and the footer are written in. What is passed over takes no longer than its bytes:
//! the library counts what a list says that it has, and there are lists of two thousand millions without a byte in any item.

/// Fields within fields; the format itself has eight.
const DEPTH_MAX: usize = 32;

/// Seven bits each: a number has no more bytes.
const NUMBER_BYTES_MAX: u32 = 10;

pub const TRUE: u8 = 1;
pub const FALSE: u8 = 2;
pub const BYTE: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const DOUBLE: u8 = 7;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub const STRUCT: u8 = 12;
const UUID: u8 = 13;

#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// It may go on behind the bytes that are there.
    Short,
    Wrong(String),
}

pub type Result<T> = std::result::Result<T, Broken>;

pub fn wrong<T>(problem: impl Into<String>) -> Result<T> {
    Err(Broken::Wrong(problem.into()))
}

/// What is left of the bytes.
pub struct Thrift<'a>(pub &'a [u8]);

impl<'a> Thrift<'a> {
    /// The number and the form of the next field of a struct, by those of the field before; none behind its last.
    pub fn field(&mut self, last: i16) -> Result<Option<(i16, u8)>> {
        let byte = self.byte()?;
        let (step, form) = (i16::from(byte >> 4), byte & 0xf);
        if form == 0 {
            return Ok(None);
        }
        let id = match step {
            // What does not fit is cut off, as the library does.
            0 => self.signed()? as i16,
            _ => last.checked_add(step).ok_or_else(|| Broken::Wrong(format!("a field comes {step} behind the field {last}")))?,
        };
        Ok(Some((id, form)))
    }

    /// The form of the items of a list, and how many there are.
    pub fn items(&mut self) -> Result<(u8, usize)> {
        let byte = self.byte()?;
        // Some writers say nothing else of a list without items.
        if byte == 0 {
            return Ok((BYTE, 0));
        }
        let count = match byte >> 4 {
            15 => self.number()?,
            count => u64::from(count),
        };
        Ok((byte & 0xf, self.there(&[byte & 0xf], count)?))
    }

    /// The count, if there are bytes for as many items. The library takes truths in a list for no bytes at all, and reads
    /// something else behind them: the format has no such list.
    fn there(&self, forms: &[u8], count: u64) -> Result<usize> {
        if count > 0 && forms.iter().any(|form| [TRUE, FALSE].contains(form)) {
            return wrong("it has a list of truths");
        }
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len() => Ok(count),
            _ if count > u64::from(i32::MAX.unsigned_abs()) => wrong(format!("a list says that it has {count} items")),
            _ => Err(Broken::Short),
        }
    }

    /// Goes behind a value.
    pub fn pass(&mut self, form: u8) -> Result<()> {
        self.pass_within(form, 0)
    }

    fn pass_within(&mut self, form: u8, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return wrong(format!("its fields lie within each other deeper than {DEPTH_MAX}"));
        }
        match form {
            TRUE | FALSE => Ok(()),
            BYTE => self.bytes(1).map(drop),
            I16 | I32 | I64 => self.number().map(drop),
            DOUBLE => self.bytes(8).map(drop),
            BINARY => self.binary().map(drop),
            UUID => self.bytes(16).map(drop),
            LIST | SET => {
                let (form, count) = self.items()?;
                (0..count).try_for_each(|_| self.pass_within(form, depth + 1))
            }
            MAP => {
                let count = self.number()?;
                if count == 0 {
                    return Ok(());
                }
                let forms = self.byte()?;
                let (key, value) = (forms >> 4, forms & 0xf);
                for _ in 0..self.there(&[key, value], count)? {
                    self.pass_within(key, depth + 1)?;
                    self.pass_within(value, depth + 1)?;
                }
                Ok(())
            }
            STRUCT => {
                while let Some((_, form)) = self.field(0)? {
                    self.pass_within(form, depth + 1)?;
                }
                Ok(())
            }
            _ => wrong(format!("a field has the form {form}, which nothing has")),
        }
    }

    /// A struct whose fields are numbers and flags, by the number of their field. `inner` is asked about structs in it, and says
    /// whether it has read one; all else is passed over.
    pub fn numbers<const N: usize>(
        &mut self,
        mut inner: impl FnMut(&mut Thrift<'a>, i16) -> Result<bool>,
    ) -> Result<[Option<i64>; N]> {
        let (mut numbers, mut last) = ([None; N], 0);
        while let Some((id, form)) = self.field(last)? {
            last = id;
            let place = usize::try_from(id).ok().and_then(|id| numbers.get_mut(id));
            match (form, place) {
                (TRUE | FALSE, Some(place)) => *place = Some(i64::from(form == TRUE)),
                (I16 | I32 | I64, Some(place)) => *place = Some(self.signed()?),
                (STRUCT, _) if inner(self, id)? => {}
                _ => self.pass(form)?,
            }
        }
        Ok(numbers)
    }

    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(count) if count <= i32::MAX as usize => self.bytes(count),
            _ => wrong(format!("a text says that it has {count} bytes")),
        }
    }

    /// The lowest bit is the sign.
    pub fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for at in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        wrong("a number does not end")
    }

    fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or(Broken::Short)?;
        self.0 = rest;
        Ok(*byte)
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Broken::Short)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_over_ends_with_its_bytes() {
        let pass = |bytes: &[u8], form| {
            let mut thrift = Thrift(bytes);
            thrift.pass(form).map(|()| thrift.0.len())
        };
        assert_eq!(pass(&[0x35, 2, 4, 6, 9], LIST), Ok(1));
        assert_eq!(pass(&[0, 9], LIST), Ok(1), "none, and no form either");
        assert_eq!(pass(&[0x2c, 0x15, 2, 0, 0, 9], LIST), Ok(1));
        assert_eq!(pass(&[2, 0x58, 2, 1, b'a', 4, 0, 9], MAP), Ok(1));
        assert_eq!(pass(&[0, 9], MAP), Ok(1));
        assert_eq!(pass(&[0x11, 0x22, 0], STRUCT), Ok(0), "a flag has no byte of its own");
        assert_eq!(pass(&[0x35, 2, 4], LIST), Err(Broken::Short));
        assert_eq!(pass(&[5, b'a'], BINARY), Err(Broken::Short));
        // 2^31 - 1 and 2^31 of them.
        for form in [3, 5, 7, 8, 9, 11, 12, 13] {
            assert_eq!(pass(&[0xf0 | form, 0xff, 0xff, 0xff, 0xff, 7, 0, 0], LIST), Err(Broken::Short));
            assert!(matches!(pass(&[0xf0 | form, 0x80, 0x80, 0x80, 0x80, 8, 0, 0], LIST), Err(Broken::Wrong(_))));
            assert_eq!(pass(&[0xff, 0xff, 0xff, 0xff, 7, form << 4 | form, 0], MAP), Err(Broken::Short));
        }
        for form in [TRUE, FALSE] {
            assert!(matches!(pass(&[0xf0 | form, 0xff, 0xff, 0xff, 0xff, 7, 1], LIST), Err(Broken::Wrong(_))));
            assert!(matches!(pass(&[1, 0x50 | form, 2, 1], MAP), Err(Broken::Wrong(_))));
            assert_eq!(pass(&[form], LIST), Ok(0), "none of them");
        }
        let deep = |depth: usize| [vec![0x19; depth], vec![0x05]].concat();
        assert_eq!(pass(&deep(DEPTH_MAX - 1), LIST), Ok(0));
        assert!(matches!(pass(&deep(100_000), LIST), Err(Broken::Wrong(_))));
        assert!(matches!(pass(&vec![0x1c; 100_000], STRUCT), Err(Broken::Wrong(_))));
        assert!(matches!(pass(&[0xff; 11], I64), Err(Broken::Wrong(_))));
        assert!(matches!(pass(&[0; 11], 14), Err(Broken::Wrong(_))));
    }

    #[test]
    fn numbers_are_read_by_their_fields() {
        // Fields 1 and 3, a flag, a text, a struct, a field far off.
        let bytes = [0x15, 2, 0x25, 3, 0x11, 0x18, 1, b'a', 0x1c, 0x15, 8, 0, 0x05, 0x80, 0x02, 6, 0, 7];
        let (mut thrift, mut inner) = (Thrift(&bytes), None);
        let numbers = thrift.numbers::<6>(|thrift, id| {
            assert_eq!(id, 6);
            inner = Some(thrift.numbers::<2>(|_, _| Ok(false))?);
            Ok(true)
        });
        assert_eq!(numbers, Ok([None, Some(1), None, Some(-2), Some(1), None]));
        assert_eq!((inner, thrift.0), (Some([None, Some(4)]), &[7][..]));
    }
}
