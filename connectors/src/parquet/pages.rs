//! Pages of one column of a group: what their headers say is held against the bytes that are there, and then they are read and
//! their compression is undone. The library gets them as they are behind that; it would believe the headers.
//!
//!     header ─ thrift: kind, lengths, counts ─ is that possible? ─> bytes ─ compression ─> values: as many as it says? ─> Page

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescPtr;

use super::compression::Compression;
use super::thrift::{Broken, Thrift, wrong};
use super::values;

/// Bytes read of a header at first.
const HEADER_BYTES: usize = 512;
/// Bytes read of a header at most: there may be a least and a greatest value in it.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// Bytes of a page whose compression is undone, at most. Writers make them of a megabyte, and some of a hundred.
const PAGE_BYTES_MAX: usize = 512 << 20;

/// Bytes of the pages of all columns that lie open at the same time, at most.
const OPEN_BYTES_MAX: usize = 2 << 30;

/// Bytes of the pages of all columns that some rows are taken from, at most, with what their levels take where rows are lists. A
/// row may go on over pages without end, and one that repeats a level millions of times has a few bytes.
const TAKEN_BYTES_MAX: usize = 4 << 30;

/// What an item of a list takes besides its bytes: its levels, and where it lies.
pub const LEVEL_BYTES: usize = 16;

/// The open pages of a group.
pub struct Open {
    /// How many bytes they have.
    bytes: AtomicUsize,
    /// How many more may come until the rows are taken. Of rows that are passed over nothing stays.
    left: AtomicUsize,
}

impl Open {
    /// Further rows are taken.
    pub fn begin(&self) {
        self.left.store(TAKEN_BYTES_MAX, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) -> Option<()> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(bytes)?;
        self.left.store(left, Ordering::Relaxed);
        Some(())
    }
}

impl Default for Open {
    fn default() -> Open {
        Open { bytes: AtomicUsize::new(0), left: AtomicUsize::new(usize::MAX) }
    }
}

pub struct Pages {
    file: Arc<File>,
    column: ColumnDescPtr,
    compression: Option<Compression>,
    /// Where the next header begins; or, where it has been read, the bytes of its page.
    at: u64,
    end: u64,
    next: Option<Header>,
    open: Arc<Open>,
    /// How many of the bytes in `open` are those of the page before.
    before: usize,
    /// Bytes as they are in the file.
    packed: Vec<u8>,
}

impl Pages {
    pub fn of(file: Arc<File>, file_bytes: u64, chunk: &ColumnChunkMetaData, open: Arc<Open>) -> Result<Pages, String> {
        // A dictionary is the first page, if there is one; some writers say 0 where there is none.
        let data = chunk.data_page_offset();
        let at = chunk.dictionary_page_offset().filter(|at| *at > 0 && *at < data).unwrap_or(data);
        let place = u64::try_from(at).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let (at, length) = place.ok_or("its footer says that it begins, or ends, before the file")?;
        Ok(Pages {
            file,
            column: chunk.column_descr_ptr(),
            compression: Compression::of(chunk.compression_codec())?,
            at,
            end: at.saturating_add(length).min(file_bytes),
            next: None,
            open,
            before: 0,
            packed: Vec::new(),
        })
    }

    /// The next page that is not only there for those who look something up.
    fn header(&mut self) -> Result<Option<&Header>, String> {
        while self.next.is_none() && self.at < self.end {
            let begin = self.at;
            let header = self.read_header().map_err(|problem| format!("the page at byte {begin}: {problem}"))?;
            match header.kind {
                Kind::Index => self.at += header.packed as u64,
                _ => self.next = Some(header),
            }
        }
        Ok(self.next.as_ref())
    }

    fn read_header(&mut self) -> Result<Header, String> {
        let left = self.end - self.at;
        let mut length = HEADER_BYTES;
        loop {
            let there = length.min(usize::try_from(left).unwrap_or(usize::MAX));
            match Header::read(self.bytes(there)?) {
                Ok((header, length)) => {
                    header.check(left - length as u64, self.compression.as_ref())?;
                    self.at += length as u64;
                    return Ok(header);
                }
                Err(Broken::Wrong(problem)) => return Err(format!("its header is damaged: {problem}")),
                Err(Broken::Short) if there == length && length < HEADER_BYTES_MAX => length *= 8,
                Err(Broken::Short) => return Err(format!("its header does not end within {there} bytes")),
            }
        }
    }

    /// The next `count` bytes, from where it stands on.
    fn bytes(&mut self, count: usize) -> Result<&[u8], String> {
        if self.packed.len() < count {
            self.packed.resize(count, 0);
        }
        let bytes = &mut self.packed[..count];
        self.file.read_exact_at(bytes, self.at).map_err(|error| format!("its bytes cannot be read: {error}"))?;
        Ok(bytes)
    }

    fn page(&mut self) -> Result<Option<Page>, String> {
        self.header()?;
        let Some(header) = self.next.take() else { return Ok(None) };
        let begin = self.at;
        let page = self.read_page(&header).map_err(|problem| format!("the page whose bytes begin at {begin}: {problem}"))?;
        self.at = begin + header.packed as u64;
        Ok(Some(page))
    }

    fn read_page(&mut self, header: &Header) -> Result<Page, String> {
        self.make_room(header)?;
        let levels = header.levels();
        let bytes = match self.compression.take() {
            Some(mut compression) if header.is_compressed() => {
                let packed = self.bytes(header.packed)?;
                let (levels, packed) = packed.split_at(levels);
                let count = header.unpacked - levels.len();
                // Where nothing but levels is there, there may be no compressed nothing either.
                let undone = if count == 0 { Ok(levels.to_vec()) } else { compression.undone(levels, packed, count) };
                self.compression = Some(compression);
                undone?
            }
            compression => {
                self.compression = compression;
                let mut bytes = vec![0; header.packed];
                self.file.read_exact_at(&mut bytes, self.at).map_err(|error| format!("its bytes cannot be read: {error}"))?;
                bytes
            }
        };
        let page = header.page(bytes)?;
        values::check(&page, &self.column).ok_or("it says that it has more values than it can have")?;
        Ok(page)
    }

    /// A dictionary stays as long as its column is read, another page until the next.
    fn make_room(&mut self, header: &Header) -> Result<(), String> {
        let bytes = if header.is_compressed() { header.unpacked } else { header.packed };
        self.open.bytes.fetch_sub(std::mem::take(&mut self.before), Ordering::Relaxed);
        if self.open.bytes.fetch_add(bytes, Ordering::Relaxed) > OPEN_BYTES_MAX - bytes {
            return Err(format!(
                "it has {bytes} bytes, and with the pages of other columns that are more than {OPEN_BYTES_MAX}; read fewer columns"
            ));
        }
        if !matches!(header.kind, Kind::Dictionary { .. }) {
            self.before = bytes;
        }
        let levels = if self.column.max_rep_level() > 0 { header.metadata().num_levels.unwrap_or_default() } else { 0 };
        self.open.take(levels.saturating_mul(LEVEL_BYTES).saturating_add(bytes)).ok_or_else(|| {
            format!(
                "with the pages before it, it has more than the {TAKEN_BYTES_MAX} bytes that are read at once; read fewer columns"
            )
        })
    }
}

struct Header {
    kind: Kind,
    /// Bytes as they are in the file, and when their compression is undone.
    packed: usize,
    unpacked: usize,
}

enum Kind {
    Index,
    Dictionary { values: u32, encoding: Encoding, sorted: bool },
    Data { values: u32, encoding: Encoding, depths: Encoding, levels: Encoding },
    Data2 { values: u32, nulls: u32, rows: u32, encoding: Encoding, depth_bytes: u32, level_bytes: u32, compressed: bool },
}

impl Header {
    /// A header, and how long it is.
    fn read(bytes: &[u8]) -> Result<(Header, usize), Broken> {
        let mut thrift = Thrift(bytes);
        let (mut data, mut dictionary, mut data2) = ([None; 5], [None; 4], [None; 8]);
        let own: [Option<i64>; 4] = thrift.numbers(|thrift, field| {
            match field {
                5 => data = thrift.numbers(|_, _| Ok(false))?,
                7 => dictionary = thrift.numbers(|_, _| Ok(false))?,
                8 => data2 = thrift.numbers(|_, _| Ok(false))?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let [_, kind, unpacked, packed] = own;
        let kind = match kind {
            Some(0) => {
                let [_, values, encoding, depths, levels] = data;
                Kind::Data {
                    values: amount(values, "values")?,
                    encoding: encoded(encoding)?,
                    depths: encoded(depths)?,
                    levels: encoded(levels)?,
                }
            }
            Some(1) => Kind::Index,
            Some(2) => {
                let [_, values, encoding, sorted] = dictionary;
                Kind::Dictionary { values: amount(values, "values")?, encoding: encoded(encoding)?, sorted: sorted == Some(1) }
            }
            Some(3) => {
                let [_, values, nulls, rows, encoding, depth_bytes, level_bytes, compressed] = data2;
                Kind::Data2 {
                    values: amount(values, "values")?,
                    nulls: amount(nulls, "nulls")?,
                    rows: amount(rows, "rows")?,
                    encoding: encoded(encoding)?,
                    depth_bytes: amount(depth_bytes, "bytes of levels")?,
                    level_bytes: amount(level_bytes, "bytes of levels")?,
                    compressed: compressed != Some(0),
                }
            }
            kind => return wrong(format!("its kind is {}, which is not read", shown(kind))),
        };
        let (packed, unpacked) = (amount(packed, "compressed bytes")?, amount(unpacked, "bytes")?);
        Ok((Header { kind, packed: packed as usize, unpacked: unpacked as usize }, bytes.len() - thrift.0.len()))
    }

    /// Whether its lengths are possible, where `left` bytes are left for it.
    fn check(&self, left: u64, compression: Option<&Compression>) -> Result<(), String> {
        let Header { packed, unpacked, .. } = self;
        if *packed as u64 > left {
            return Err(format!("it says that it takes {packed} bytes, and {left} are left of its column"));
        }
        let levels = self.levels();
        if levels > *packed || levels > *unpacked {
            return Err(format!("it says that its levels alone have {levels} bytes, of {packed}"));
        }
        if let Some(compression) = compression.filter(|_| self.is_compressed()) {
            let most = (packed - levels).saturating_mul(compression.bytes_of_one_max()).saturating_add(levels);
            if *unpacked > most {
                let name = compression.name();
                return Err(format!(
                    "it says that it has {unpacked} bytes when its {name} is undone; of the {packed} it takes can come no more than {most}"
                ));
            }
        }
        if *unpacked > PAGE_BYTES_MAX || *packed > PAGE_BYTES_MAX {
            return Err(format!("it says that it has {} bytes; no more than {PAGE_BYTES_MAX} are read", unpacked.max(packed)));
        }
        Ok(())
    }

    /// How many bytes stand uncompressed before the others.
    fn levels(&self) -> usize {
        match self.kind {
            Kind::Data2 { depth_bytes, level_bytes, .. } => depth_bytes as usize + level_bytes as usize,
            _ => 0,
        }
    }

    /// Whether it is compressed where its column is.
    fn is_compressed(&self) -> bool {
        !matches!(self.kind, Kind::Data2 { compressed: false, .. })
    }

    fn metadata(&self) -> PageMetadata {
        let (num_rows, num_levels) = match self.kind {
            Kind::Data { values, .. } => (None, Some(values as usize)),
            Kind::Data2 { values, rows, .. } => (Some(rows as usize), Some(values as usize)),
            Kind::Dictionary { .. } | Kind::Index => (None, None),
        };
        PageMetadata { num_rows, num_levels, is_dict: matches!(self.kind, Kind::Dictionary { .. }) }
    }

    fn page(&self, bytes: Vec<u8>) -> Result<Page, String> {
        let buf = bytes.into();
        Ok(match self.kind {
            Kind::Dictionary { values, encoding, sorted } => {
                Page::DictionaryPage { buf, num_values: values, encoding, is_sorted: sorted }
            }
            Kind::Data { values, encoding, depths, levels } => Page::DataPage {
                buf,
                num_values: values,
                encoding,
                def_level_encoding: depths,
                rep_level_encoding: levels,
                statistics: None,
            },
            Kind::Data2 { values, nulls, rows, encoding, depth_bytes, level_bytes, compressed } => Page::DataPageV2 {
                buf,
                num_values: values,
                encoding,
                num_nulls: nulls,
                num_rows: rows,
                def_levels_byte_len: depth_bytes,
                rep_levels_byte_len: level_bytes,
                is_compressed: compressed,
                statistics: None,
            },
            // They are passed over when their header is read.
            Kind::Index => return Err("it is an index, which has no values".to_owned()),
        })
    }
}

fn shown(number: Option<i64>) -> String {
    number.map_or("missing".to_owned(), |number| number.to_string())
}

fn amount(number: Option<i64>, of: &str) -> Result<u32, Broken> {
    match number.and_then(|number| i32::try_from(number).ok()).and_then(|number| u32::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => wrong(format!("the number of its {of} is {}", shown(number))),
    }
}

fn encoded(number: Option<i64>) -> Result<Encoding, Broken> {
    match Encoding::VARIANTS.iter().find(|encoding| number == Some(**encoding as i64)) {
        Some(encoding) => Ok(*encoding),
        None => wrong(format!("an encoding of it is {}, which nobody knows", shown(number))),
    }
}

impl Iterator for Pages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        self.page().map_err(ParquetError::General)
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        Ok(self.header().map_err(ParquetError::General)?.map(Header::metadata))
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.header().map_err(ParquetError::General)?;
        self.at += self.next.take().map_or(0, |header| header.packed as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::basic::{CompressionCodec, Repetition, Type as Physical};
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

    use super::*;

    fn number(n: i64) -> Vec<u8> {
        let (mut left, mut bytes) = ((n << 1 ^ n >> 63) as u64, Vec::new());
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    /// The header of plain values without levels, with something more in it.
    fn header(unpacked: i64, packed: i64, values: i64, more: &[u8]) -> Vec<u8> {
        let field = |n: i64| [&[0x15][..], &number(n)].concat();
        let data = [&[0x2c][..], &field(values), &field(0), &field(3), &field(3), &[0]].concat();
        [&field(0)[..], &field(unpacked), &field(packed), &data, more, &[0]].concat()
    }

    /// As many pages as are read of a file.
    fn read(file: &[u8], codec: CompressionCodec) -> Result<Vec<Page>, String> {
        pages(file, codec, 0).collect::<Result<_, _>>().map_err(crate::parquet::told)
    }

    /// The pages of a column that lies in this many lists.
    fn pages(file: &[u8], codec: CompressionCodec, lists: i16) -> Pages {
        let mut copy = tempfile::tempfile().unwrap();
        copy.write_all(file).unwrap();
        let of = Type::primitive_type_builder("x", Physical::INT32).with_repetition(Repetition::REQUIRED).build().unwrap();
        Pages {
            file: Arc::new(copy),
            column: Arc::new(ColumnDescriptor::new(Arc::new(of), 0, lists, ColumnPath::from("x"))),
            compression: Compression::of(codec).unwrap(),
            at: 0,
            end: file.len() as u64,
            next: None,
            open: Arc::default(),
            before: 0,
            packed: Vec::new(),
        }
    }

    #[test]
    fn pages_are_read_one_behind_the_other() {
        let index = [0x15, 2, 0x15, 6, 0x15, 6, 0x3c, 0, 0, 9, 9, 9];
        // A text of 5,000 bytes in a field that nobody knows, and a list.
        let long = [&[0x08, 0x64, 0x88, 0x27][..], &[b'a'; 5_000], &[0x19, 0x35, 2, 4, 6]].concat();
        let bytes: Vec<u8> = [5i32, 6, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let snappy = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
        for (codec, body) in [(CompressionCodec::UNCOMPRESSED, &bytes), (CompressionCodec::SNAPPY, &snappy)] {
            let page = |more: &[u8]| [&header(12, body.len() as i64, 3, more)[..], body].concat();
            let pages = read(&[&page(&[]), &index[..], &page(&long), &page(&[])].concat(), codec).unwrap();
            assert_eq!(pages.len(), 3);
            for page in pages {
                let Page::DataPage { buf, num_values: 3, encoding: Encoding::PLAIN, .. } = page else { panic!("{codec}") };
                assert_eq!(buf, bytes);
            }
        }
    }

    #[test]
    fn an_index_is_passed_over_wherever_it_is_and_has_no_values() {
        let index = [0x15, 2, 0x15, 6, 0x15, 6, 0x3c, 0, 0, 9, 9, 9];
        let bytes: Vec<u8> = [5i32, 6, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let data = [&header(12, 12, 3, &[])[..], &bytes].concat();
        let file = [&index[..], &index, &data, &index, &data, &index].concat();
        for codec in [CompressionCodec::UNCOMPRESSED, CompressionCodec::SNAPPY] {
            let mut pages = pages(&file, codec, 0);
            for _ in 0..2 {
                assert!(pages.peek_next_page().unwrap().is_some_and(|page| page.num_levels == Some(3)));
                pages.skip_next_page().unwrap();
            }
            assert!(pages.peek_next_page().unwrap().is_none());
            pages.skip_next_page().unwrap();
            assert!(pages.get_next_page().unwrap().is_none());
        }
        let (header, _) = Header::read(&index).unwrap_or_else(|_| panic!("a header"));
        assert!(header.page(vec![9; 3]).is_err());
    }

    /// Some bytes a page were as many items as there are gigabytes.
    #[test]
    fn a_row_is_not_read_over_pages_without_end() {
        // The level of a further item, `1 << 24` times.
        let levels = [5, 0, 0, 0, 0x80, 0x80, 0x80, 0x10, 1];
        let file = [&header(9, 9, 1 << 24, &[])[..], &levels].concat().repeat(20);
        let pages = || pages(&file, CompressionCodec::UNCOMPRESSED, 1);
        assert_eq!(pages().filter(Result::is_ok).count(), 20, "they are passed over");
        let taken = pages();
        taken.open.begin();
        let told = taken.collect::<Result<Vec<Page>, _>>().map_err(crate::parquet::told).unwrap_err();
        assert!(told.contains("that are read at once"), "{told}");
        let mut one_by_one = pages();
        for _ in 0..20 {
            one_by_one.open.begin();
            assert!(one_by_one.next().unwrap().is_ok());
        }
    }

    #[test]
    fn headers_are_not_believed() {
        let told = |header: &[u8], codec| read(&[header, &[7; 28_000]].concat(), codec).unwrap_err();
        let snappy = |header: &[u8]| told(header, CompressionCodec::SNAPPY);
        let most = i64::from(i32::MAX);
        assert!(snappy(&header(most, 28_000, 3, &[])).ends_with("it takes can come no more than 616000"));
        assert!(snappy(&header(616_000, 28_000, 3, &[])).contains("its snappy is damaged"));
        assert!(told(&header(most, 28_000, 3, &[]), CompressionCodec::ZSTD).contains("can come no more than"));
        assert!(told(&header(most >> 2, 28_000, 3, &[]), CompressionCodec::ZSTD).contains("its zstd is damaged"));
        assert!(told(&header(most >> 1, 40_000, 3, &[]), CompressionCodec::ZSTD).contains("28000 are left"));
        assert!(told(&header(most, 28_000, 3, &[]), CompressionCodec::UNCOMPRESSED).contains("no more than 536870912 are read"));
        assert!(snappy(&header(-1, 28_000, 3, &[])).contains("is -1"));
        assert!(snappy(&header(100, most + 1, 3, &[])).contains("is 2147483648"));
        // Two thousand millions of truths, of structs, of lists, in a field that nobody knows.
        for form in [1, 2, 12, 9, 7] {
            let endless = [0x09, 0x64, 0xf0 | form, 0xff, 0xff, 0xff, 0xff, 7];
            let told = snappy(&header(100, 28_000, 3, &endless));
            assert!(told.starts_with("the page at byte 0: its header"), "{told}");
        }
        assert!(snappy(&[0x15, 10, 0]).contains("its kind is 5"));
        assert!(read(&[0x15, 0x80], CompressionCodec::SNAPPY).unwrap_err().contains("does not end within 2 bytes"));
    }
}
