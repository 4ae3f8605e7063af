//! Table: rows of columns that are known beforehand, as a file of Parquet. It leaves in parts, a row group at a time.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use weir_model::Text;

/// A row group ends with the row that takes it to one of these.
const GROUP_ROWS: usize = 1 << 16;
const GROUP_BYTES: usize = 32 << 20;

/// What a column holds; each can be missing in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    Boolean,
    Integer,
    Float,
    Text,
    Json,
    Bytes,
    Texts,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Field {
    Column(Text, ColumnKind),
    /// Columns side by side under one name, one at least.
    Group(Text, Vec<(Text, ColumnKind)>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// For columns of texts, JSON or bytes.
    Bytes(&'a [u8]),
    Texts(&'a [Text]),
}

pub struct TableWriter {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Column>,
    /// Rows of the group in the making.
    rows: usize,
    bytes: usize,
}

/// A column of the group in the making.
struct Column {
    values: Values,
    /// For each row, or each item of a list: how much of the way to a value is there.
    depths: Vec<i16>,
    /// For lists: 0 where an item begins a row.
    repeats: Vec<i16>,
    /// Rows that are settled.
    rows: usize,
}

enum Values {
    Booleans(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl TableWriter {
    /// `about`: what is said of the file in its footer.
    pub fn new(fields: &[Field], about: &[(&str, &str)]) -> Result<TableWriter, String> {
        let schema = schema(fields).map_err(|error| error.to_string())?;
        let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(about))
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(|error| error.to_string())?;
        let kinds = fields.iter().flat_map(|field| match field {
            Field::Column(_, kind) => vec![*kind],
            Field::Group(_, columns) => columns.iter().map(|(_, kind)| *kind).collect(),
        });
        Ok(TableWriter { writer, columns: kinds.map(Column::new).collect(), rows: 0, bytes: 0 })
    }

    /// A value of the row at hand. Columns are counted through the groups; what does not belong into one is left out.
    pub fn set(&mut self, column: usize, cell: Cell<'_>) {
        let Some(column) = self.columns.get_mut(column) else { return };
        column.settle(self.rows);
        self.bytes += column.push(cell);
        column.rows = self.rows + 1;
    }

    /// Closes the row at hand. Gives what is ready to leave.
    pub fn end_row(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.rows += 1;
        if self.rows < GROUP_ROWS && self.bytes < GROUP_BYTES {
            return Ok(None);
        }
        self.end_group().map_err(|error| error.to_string())?;
        self.writer.flush().map_err(|error| error.to_string())?;
        Ok(Some(std::mem::take(self.writer.inner_mut())))
    }

    /// The rest of the file.
    pub fn finish(mut self) -> Result<Vec<u8>, String> {
        let ended = self.end_group().and_then(|()| self.writer.into_inner());
        ended.map_err(|error| error.to_string())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.settle(rows);
            let Some(writer) = group.next_column()? else { break };
            column.write(writer)?;
        }
        group.close()?;
        Ok(())
    }
}

impl Column {
    fn new(kind: ColumnKind) -> Column {
        let values = match kind {
            ColumnKind::Boolean => Values::Booleans(Vec::new()),
            ColumnKind::Integer => Values::Integers(Vec::new()),
            ColumnKind::Float => Values::Floats(Vec::new()),
            ColumnKind::Text | ColumnKind::Json | ColumnKind::Bytes | ColumnKind::Texts => Values::Bytes(Vec::new()),
        };
        Column { values, depths: Vec::new(), repeats: Vec::new(), rows: 0 }
    }

    /// Rows before this one that said nothing have nothing.
    fn settle(&mut self, row: usize) {
        let missing = row.saturating_sub(self.rows);
        self.depths.resize(self.depths.len() + missing, 0);
        self.repeats.resize(self.repeats.len() + missing, 0);
        self.rows = self.rows.max(row);
    }

    /// Gives about how many bytes it takes.
    fn push(&mut self, cell: Cell<'_>) -> usize {
        match (&mut self.values, cell) {
            (Values::Booleans(values), Cell::Boolean(value)) => values.push(value),
            (Values::Integers(values), Cell::Integer(value)) => values.push(value),
            (Values::Floats(values), Cell::Float(value)) => values.push(value),
            (Values::Bytes(values), Cell::Bytes(value)) => values.push(ByteArray::from(value.to_vec())),
            (Values::Bytes(values), Cell::Texts(texts)) => {
                values.extend(texts.iter().map(|text| ByteArray::from(text.as_bytes().to_vec())));
                // An empty list is one, and has no value.
                self.depths.extend(std::iter::repeat_n(if texts.is_empty() { 1 } else { 2 }, texts.len().max(1)));
                self.repeats.extend((0..texts.len().max(1)).map(|place| i16::from(place > 0)));
                return texts.iter().map(|text| text.len() + 8).sum();
            }
            _ => {
                self.settle(self.rows + 1);
                return 0;
            }
        }
        self.depths.push(1);
        self.repeats.push(0);
        if let Cell::Bytes(bytes) = cell { bytes.len() + 8 } else { 8 }
    }

    fn write(&mut self, mut writer: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Booleans(values) => write::<BoolType>(&mut writer, values, &self.depths, &self.repeats)?,
            Values::Integers(values) => write::<Int64Type>(&mut writer, values, &self.depths, &self.repeats)?,
            Values::Floats(values) => write::<DoubleType>(&mut writer, values, &self.depths, &self.repeats)?,
            Values::Bytes(values) => write::<ByteArrayType>(&mut writer, values, &self.depths, &self.repeats)?,
        }
        self.depths.clear();
        self.repeats.clear();
        self.rows = 0;
        writer.close()
    }
}

fn write<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    depths: &[i16],
    repeats: &[i16],
) -> Result<(), ParquetError> {
    writer.typed::<T>().write_batch(values, Some(depths), Some(repeats))?;
    values.clear();
    Ok(())
}

fn schema(fields: &[Field]) -> Result<TypePtr, ParquetError> {
    let fields = fields.iter().map(|field| match field {
        Field::Column(name, kind) => column(name, *kind),
        Field::Group(name, columns) => {
            let columns = columns.iter().map(|(name, kind)| column(name, *kind)).collect::<Result<_, _>>()?;
            group(name, Repetition::REQUIRED, None, columns)
        }
    });
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields.collect::<Result<_, _>>()?).build()?))
}

fn column(name: &str, kind: ColumnKind) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        ColumnKind::Boolean => (Physical::BOOLEAN, None),
        ColumnKind::Integer => (Physical::INT64, None),
        ColumnKind::Float => (Physical::DOUBLE, None),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        ColumnKind::Bytes => (Physical::BYTE_ARRAY, None),
        ColumnKind::Texts => {
            let item = plain("element", Repetition::REQUIRED, Physical::BYTE_ARRAY, Some(LogicalType::String))?;
            let items = group("list", Repetition::REPEATED, None, vec![item])?;
            return group(name, Repetition::OPTIONAL, Some(LogicalType::List), vec![items]);
        }
    };
    plain(name, Repetition::OPTIONAL, physical, logical)
}

fn plain(name: &str, repetition: Repetition, physical: Physical, logical: Option<LogicalType>) -> Result<TypePtr, ParquetError> {
    let built = Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical);
    Ok(Arc::new(built.build()?))
}

fn group(
    name: &str,
    repetition: Repetition,
    logical: Option<LogicalType>,
    fields: Vec<TypePtr>,
) -> Result<TypePtr, ParquetError> {
    let built = Type::group_type_builder(name).with_repetition(repetition).with_logical_type(logical).with_fields(fields);
    Ok(Arc::new(built.build()?))
}
