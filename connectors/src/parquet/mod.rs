//! Files of Parquet: columns of row groups to rows, and of the columns only those that anybody looks at; and rows to columns
//! (`table`).
//!
//!     footer ─> schema ─ tree ─> wanted columns ─ pages ─ columns: some rows at once ─> Rows ─ one row a frame ─> map
//!
//! The library undoes the encodings of pages; how pages are found and what is believed of what they say (docs/decisions/0043),
//! what the numbers and bytes stand for, and how rows are put together of columns that are lists and groups, is here. A position
//! is the number of the next row, and the length of the file it is in.

mod thrift;
mod footer;
mod tree;
mod compression;
mod values;
mod pages;
mod columns;
mod spool;
mod table;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use serde_json::{Value as Json, json};
use weir_model::{Map, Position, Text, Value};

use crate::decode::Decoder;
use crate::error::ConnectorError;
use crate::frames::{Frame, Frames, Limits, Progress};
use crate::source::Source;
use columns::{Column, Leaf};
use pages::{LEVEL_BYTES, Open, Pages};
pub use spool::Spool;
pub use table::{Cell, ColumnKind, Field, TableWriter};
use tree::{LeafType, Root};

/// Rows taken from the columns at once, at most.
const ROWS_MAX: usize = 4096;
/// Bytes taken from the columns at once, about.
const BYTES_MAX: u64 = 8 << 20;

pub struct ParquetReader {
    place: String,
    file: Arc<File>,
    file_bytes: u64,
    metadata: ParquetMetaData,
    /// The wanted fields of a row.
    roots: Arc<[Root]>,
    /// Rows in all groups.
    row_count: u64,
    /// The first row that is not in `rows`.
    next_row: u64,
    group: Option<Group>,
    rows: Option<Arc<Rows>>,
    /// Rows of `rows` that are out.
    out: usize,
}

/// A row group that is read.
struct Group {
    columns: Vec<Column>,
    open: Arc<Open>,
    left: u64,
    rows_at_once: usize,
}

impl ParquetReader {
    /// `wanted`: the fields that anybody looks at; all without them.
    pub fn open(
        path: &Path,
        place: &str,
        wanted: Option<&[Text]>,
        from: Option<&Position>,
    ) -> Result<ParquetReader, ConnectorError> {
        let file = File::open(path).map_err(|error| ConnectorError::io(place, "cannot open the file", error))?;
        ParquetReader::of(file, place, wanted, from)
    }

    /// As `open`, for a file that is open.
    pub fn of(
        file: File,
        place: &str,
        wanted: Option<&[Text]>,
        from: Option<&Position>,
    ) -> Result<ParquetReader, ConnectorError> {
        let file_bytes = file.metadata().map_err(|error| ConnectorError::io(place, "cannot look at the file", error))?.len();
        let wrong = |problem: String| ConnectorError::Framing { place: place.to_owned(), problem };
        let metadata = guarded(|| footer::read(&file, file_bytes));
        let metadata = metadata.map_err(|problem| wrong(format!("is no file of Parquet: {problem}")))?;
        let roots = tree::roots(metadata.file_metadata().schema(), wanted).map_err(wrong)?;
        let groups = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or_default());
        let row_count = groups.fold(0u64, u64::saturating_add);
        let next_row = match from.filter(|position| !position.0.is_empty()) {
            None => 0,
            Some(position) => go_on(place, position, file_bytes)?,
        };
        Ok(ParquetReader {
            place: place.to_owned(),
            file: Arc::new(file),
            file_bytes,
            metadata,
            roots: roots.into(),
            row_count,
            next_row,
            group: None,
            rows: None,
            out: 0,
        })
    }

    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// What whoever wrote the file says of it under this key.
    pub fn about(&self, key: &str) -> Option<&str> {
        let about = self.metadata.file_metadata().key_value_metadata()?;
        about.iter().find(|entry| entry.key == key)?.value.as_deref()
    }

    /// Opens the group of the next row, and goes there in it.
    fn open_group(&self) -> Result<Group, String> {
        let mut before = 0u64;
        for group in self.metadata.row_groups() {
            let count = u64::try_from(group.num_rows()).unwrap_or_default();
            if before.saturating_add(count) <= self.next_row {
                before += count;
                continue;
            }
            let skipped = self.next_row - before;
            let open = Arc::<Open>::default();
            let mut columns = Vec::new();
            let mut bytes = 0u64;
            for leaf in self.roots.iter().flat_map(|root| &root.leaves) {
                let chunk = group.column(leaf.column);
                bytes = bytes.saturating_add(u64::try_from(chunk.uncompressed_size()).unwrap_or_default());
                if leaf.repeated > 0 {
                    let items = u64::try_from(chunk.num_values()).unwrap_or_default();
                    bytes = bytes.saturating_add(items.saturating_mul(LEVEL_BYTES as u64));
                }
                let pages = Pages::of(self.file.clone(), self.file_bytes, chunk, open.clone());
                let column =
                    pages.and_then(|pages| Column::new(get_column_reader(chunk.column_descr_ptr(), Box::new(pages)), skipped));
                columns.push(column.map_err(|problem| self.of_column(leaf, &problem))?);
            }
            let row_bytes = (bytes / count.max(1)).max(1);
            let rows_at_once = usize::try_from(BYTES_MAX / row_bytes).unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX);
            return Ok(Group { columns, open, left: count - skipped, rows_at_once });
        }
        Err("a row is in none of its groups".to_owned())
    }

    fn of_column(&self, leaf: &LeafType, problem: &str) -> String {
        format!("column {}: {problem}", self.metadata.file_metadata().schema_descr().column(leaf.column).path())
    }

    /// Takes some rows from the columns.
    fn take(&mut self) -> Result<Rows, String> {
        let mut group = match self.group.take() {
            Some(group) => group,
            None => self.open_group()?,
        };
        let count = group.rows_at_once.min(usize::try_from(group.left).unwrap_or(usize::MAX));
        group.open.begin();
        let mut fields = Vec::with_capacity(self.roots.len());
        let mut columns = group.columns.iter_mut();
        for root in self.roots.iter() {
            let leaves = root.leaves.iter().map(|leaf| match columns.next() {
                Some(column) => column.read(leaf, count).map_err(|problem| self.of_column(leaf, &problem)),
                None => Err("a column is missing".to_owned()),
            });
            fields.push(root.node.filled(leaves.collect::<Result<_, _>>()?, count)?);
        }
        let first = self.next_row;
        group.left -= count as u64;
        self.next_row += count as u64;
        self.group = Some(group).filter(|group| group.left > 0);
        Ok(Rows { first, roots: self.roots.clone(), fields, count })
    }
}

impl Source for ParquetReader {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        if self.rows.as_ref().is_none_or(|rows| self.out == rows.count) && self.next_row < self.row_count {
            let first = self.next_row;
            let rows = guarded(|| self.take());
            let rows = rows.map_err(|problem| ConnectorError::Framing {
                place: self.place.clone(),
                problem: format!("the file of Parquet cannot be read on at row {first}: {problem}"),
            })?;
            self.rows = Some(Arc::new(rows));
            self.out = 0;
        }
        let mut left = 0;
        if let Some(rows) = &self.rows {
            while !batch.full(limits) && self.out < rows.count {
                batch.push((rows.first + self.out as u64).to_string().as_bytes());
                self.out += 1;
            }
            left = rows.count - self.out;
            batch.decoder = Some(rows.clone());
        }
        let position = &mut batch.position.0;
        position.clear();
        position.extend((self.next_row - left as u64).to_le_bytes());
        position.extend(self.file_bytes.to_le_bytes());
        let ended = left == 0 && self.next_row >= self.row_count;
        Ok(if ended { Progress::Finished } else { Progress::More })
    }
}

/// Rows of the wanted columns. A frame is the number of one of them in the file, as text: it is what is shown of a row that
/// fails.
struct Rows {
    first: u64,
    roots: Arc<[Root]>,
    fields: Vec<Filled>,
    count: usize,
}

/// A field of all rows.
enum Filled {
    Plain(Leaf),
    /// Put together already; an error is that of its row.
    Nested(Vec<Result<Value, String>>),
}

impl Decoder for Rows {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let number = std::str::from_utf8(frame.bytes).ok().and_then(|text| text.parse::<u64>().ok());
        let row =
            number.and_then(|number| usize::try_from(number.checked_sub(self.first)?).ok()).ok_or("this is no row of Parquet")?;
        let mut map = Map::with_capacity(self.fields.len());
        for (root, field) in self.roots.iter().zip(&self.fields) {
            let value = match field {
                Filled::Plain(leaf) => leaf.row(row),
                Filled::Nested(values) => values.get(row).cloned().unwrap_or_else(|| Err("the row is not there".to_owned())),
            };
            map.push_unique(root.name.clone(), value.map_err(|problem| format!("column {}: {problem}", root.name))?);
        }
        Ok(Value::Map(Arc::new(map)))
    }
}

/// A position as people are shown it.
pub fn shown_position(position: &[u8]) -> Option<Json> {
    place_in(position).map(|(row, _)| json!({"row": row}))
}

/// The next row, and how long the file is.
fn place_in(position: &[u8]) -> Option<(u64, u64)> {
    let (row, length) = position.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*row), u64::from_le_bytes(length.try_into().ok()?)))
}

/// The next row of a stored position.
fn go_on(place: &str, position: &Position, file_bytes: u64) -> Result<u64, ConnectorError> {
    let wrong = |problem: String| ConnectorError::Position { place: place.to_owned(), problem };
    match place_in(&position.0) {
        Some((row, length)) if length == file_bytes => Ok(row),
        Some((_, length)) => Err(wrong(format!(
            "the file had {length} bytes and has {file_bytes}; put it back, or delete the stream and create it anew"
        ))),
        None => Err(wrong("the stored position is not one of Parquet; delete the stream and create it anew".to_owned())),
    }
}

/// Without what stands before it in the library's own words.
fn told(error: ParquetError) -> String {
    match error {
        ParquetError::General(problem) | ParquetError::EOF(problem) => problem,
        other => other.to_string(),
    }
}

/// The library asserts things about files that may not hold of damaged ones; that must not end more than the stream.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it is damaged".to_owned()))
}

#[cfg(test)]
mod tests;
