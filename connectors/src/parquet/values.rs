//! Values of a page, counted before the library reads them: it makes room for as many as the page says that it has, and a damaged
//! one says two thousand millions, or more than there is memory anywhere.
//!
//! Values that take bytes are no more than these. Where they need none, as lengths and levels that are all the same, what counts
//! is a bound.

use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

/// Values of a page for which room is made at once; writers make pages of some ten thousands.
const VALUES_MAX: u64 = 1 << 24;

/// None: the page has not as much as it says.
pub fn check(page: &Page, column: &ColumnDescriptor) -> Option<()> {
    let (defined, repeated) = (column.max_def_level(), column.max_rep_level());
    let (buf, count, encoding, values) = match page {
        Page::DictionaryPage { buf, num_values, .. } => return (*num_values as usize <= buf.len()).then_some(()),
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
            let mut values = &buf[..];
            for (max, encoding) in [(repeated, rep_level_encoding), (defined, def_level_encoding)] {
                values = behind_levels(values, max, *encoding, *num_values)?;
            }
            (buf, *num_values, *encoding, values)
        }
        Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = (*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize)?;
            (buf, *num_values, *encoding, buf.get(levels..)?)
        }
    };
    let count = u64::from(count);
    // A row has as many items as there are: all of them may be asked for at once.
    if repeated > 0 && count > VALUES_MAX.max(buf.len() as u64) {
        return None;
    }
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => behind_lengths(values, count).map(drop),
        Encoding::DELTA_BYTE_ARRAY => behind_lengths(behind_lengths(values, count)?, count).map(drop),
        _ => Some(()),
    }
}

/// What is behind levels as the first kind of page has them.
fn behind_levels(bytes: &[u8], max: i16, encoding: Encoding, count: u32) -> Option<&[u8]> {
    if max == 0 {
        return Some(bytes);
    }
    if encoding == Encoding::RLE {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        return rest.get(u32::from_le_bytes(*length) as usize..);
    }
    let bits = u64::from(16 - max.leading_zeros()) * u64::from(count);
    bytes.get(usize::try_from(bits.div_ceil(8)).ok()?..)
}

/// What is behind lengths, of which there are no more than `count_max`; they are packed as differences.
fn behind_lengths(bytes: &[u8], count_max: u64) -> Option<&[u8]> {
    let mut rest = bytes;
    let (block, parts, count, _first) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
    if count > count_max.min(VALUES_MAX) || parts == 0 {
        return None;
    }
    let (part, mut left) = (block / parts, count.saturating_sub(1));
    while left > 0 {
        number(&mut rest)?;
        let (widths, packed) = rest.split_at_checked(usize::try_from(parts).ok()?)?;
        rest = packed;
        for width in widths {
            if left == 0 {
                break;
            }
            rest = rest.get(usize::try_from(u64::from(*width).checked_mul(part)? / 8).ok()?..)?;
            left = left.saturating_sub(part.max(1));
        }
    }
    Some(rest)
}

/// Seven bits a byte.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 128 in four parts: `count` values, which are all the same.
    fn lengths(count: u64, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        let mut left = count;
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.extend([left as u8, 2]);
        (0..count.saturating_sub(1).div_ceil(128).min(4)).for_each(|_| bytes.extend([0, 0, 0, 0, 0]));
        [&bytes, behind].concat()
    }

    #[test]
    fn lengths_are_no_more_than_values() {
        for count in [0, 1, 2, 128, 129, 130, 500] {
            assert_eq!(behind_lengths(&lengths(count, b"ab"), count), Some(&b"ab"[..]), "{count}");
            assert_eq!(behind_lengths(&lengths(count + 1, b""), count), None, "{count}");
        }
        assert_eq!(behind_lengths(&lengths(u64::MAX, b""), u64::MAX), None);
        assert_eq!(behind_lengths(&lengths(VALUES_MAX, b""), VALUES_MAX), None, "blocks are missing");
        // Two values of 8 bits behind the first.
        let packed = [&[0x80, 1, 4, 3, 2, 0, 8, 0, 0, 0][..], &[7; 32], b"x"].concat();
        assert_eq!(behind_lengths(&packed, 3), Some(&b"x"[..]));
        assert_eq!(behind_lengths(&packed[..20], 3), None);
        assert_eq!(behind_levels(&[2, 0, 0, 0, 1, 1, 5], 1, Encoding::RLE, 9), Some(&[5][..]));
        assert_eq!(behind_levels(&[2, 0, 0, 0, 1], 1, Encoding::RLE, 9), None);
        #[expect(deprecated, reason = "old files have it")]
        let packed = Encoding::BIT_PACKED;
        assert_eq!(behind_levels(&[1, 1, 5], 1, packed, 9), Some(&[5][..]));
    }
}
