//! Columns: values of one leaf, as they are written, and what they stand for.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::schema::types::Type;
use weir_model::temporal::{Date, DateTime, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, SECONDS_PER_DAY};
use weir_model::{NodeId, Text, Value, json};

use super::told;
use super::tree::LeafType;
use crate::avro::decimal;

/// The day of 1970-01-01 as astronomers count.
const JULIAN_DAY_OF_EPOCH: i64 = 2_440_588;

/// What the numbers or bytes of a column stand for.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    Plain,
    /// Without a sign.
    Amount,
    Text,
    Json,
    Uuid,
    /// With this many digits behind the point.
    Decimal(usize),
    Date,
    /// How many nanoseconds it counts in.
    Time(i64),
    Timestamp {
        unit: i64,
        utc: bool,
    },
    Interval,
    Half,
}

impl Meaning {
    pub fn of(of: &Type) -> Meaning {
        let info = of.get_basic_info();
        let unit = |unit: &TimeUnit| match unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        };
        let scale = || usize::try_from(of.get_scale()).unwrap_or_default();
        match info.logical_type_ref() {
            Some(LogicalType::String | LogicalType::Enum) => return Meaning::Text,
            Some(LogicalType::Json) => return Meaning::Json,
            Some(LogicalType::Uuid) => return Meaning::Uuid,
            Some(LogicalType::Decimal(_)) => return Meaning::Decimal(scale()),
            Some(LogicalType::Date) => return Meaning::Date,
            Some(LogicalType::Time(time)) => return Meaning::Time(unit(&time.unit)),
            Some(LogicalType::Timestamp(stamp)) => {
                return Meaning::Timestamp { unit: unit(&stamp.unit), utc: stamp.is_adjusted_to_u_t_c };
            }
            Some(LogicalType::Integer(int)) if !int.is_signed => return Meaning::Amount,
            Some(LogicalType::Float16) => return Meaning::Half,
            _ => {}
        }
        // As writers of old say it.
        match info.converted_type() {
            ConvertedType::UTF8 | ConvertedType::ENUM => Meaning::Text,
            ConvertedType::JSON => Meaning::Json,
            ConvertedType::DECIMAL => Meaning::Decimal(scale()),
            ConvertedType::DATE => Meaning::Date,
            ConvertedType::TIME_MILLIS => Meaning::Time(1_000_000),
            ConvertedType::TIME_MICROS => Meaning::Time(1_000),
            ConvertedType::TIMESTAMP_MILLIS => Meaning::Timestamp { unit: 1_000_000, utc: true },
            ConvertedType::TIMESTAMP_MICROS => Meaning::Timestamp { unit: 1_000, utc: true },
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => Meaning::Amount,
            ConvertedType::INTERVAL if of.get_physical_type() == Physical::FIXED_LEN_BYTE_ARRAY => Meaning::Interval,
            _ => Meaning::Plain,
        }
    }
}

/// A column of a group, read from its beginning on.
pub struct Column(ColumnReader);

macro_rules! each_kind {
    ($reader:expr, $column:ident => $what:expr) => {
        match $reader {
            ColumnReader::BoolColumnReader($column) => $what,
            ColumnReader::Int32ColumnReader($column) => $what,
            ColumnReader::Int64ColumnReader($column) => $what,
            ColumnReader::Int96ColumnReader($column) => $what,
            ColumnReader::FloatColumnReader($column) => $what,
            ColumnReader::DoubleColumnReader($column) => $what,
            ColumnReader::ByteArrayColumnReader($column) => $what,
            ColumnReader::FixedLenByteArrayColumnReader($column) => $what,
        }
    };
}

impl Column {
    /// Behind the first rows.
    pub fn new(mut reader: ColumnReader, skipped: u64) -> Result<Column, String> {
        let mut left = usize::try_from(skipped).map_err(|_| "a group has too many rows")?;
        while left > 0 {
            let count = each_kind!(&mut reader, column => column.skip_records(left)).map_err(told)?;
            if count == 0 {
                return Err("a column ends too early".to_owned());
            }
            left -= count;
        }
        Ok(Column(reader))
    }

    /// The values of the next rows.
    pub fn read(&mut self, of: &LeafType, rows: usize) -> Result<Leaf, String> {
        let mut levels = Levels::default();
        let data = match &mut self.0 {
            ColumnReader::BoolColumnReader(column) => Data::Booleans(read(column, of, rows, &mut levels)?),
            ColumnReader::Int32ColumnReader(column) => Data::Integers(read(column, of, rows, &mut levels)?),
            ColumnReader::Int64ColumnReader(column) => Data::Longs(read(column, of, rows, &mut levels)?),
            ColumnReader::Int96ColumnReader(column) => Data::Stamps(read(column, of, rows, &mut levels)?),
            ColumnReader::FloatColumnReader(column) => Data::Floats(read(column, of, rows, &mut levels)?),
            ColumnReader::DoubleColumnReader(column) => Data::Doubles(read(column, of, rows, &mut levels)?),
            ColumnReader::ByteArrayColumnReader(column) => Data::Bytes(read(column, of, rows, &mut levels)?),
            ColumnReader::FixedLenByteArrayColumnReader(column) => Data::Fixed(read(column, of, rows, &mut levels)?),
        };
        let mut places = Vec::new();
        if of.defined > 0 {
            let mut next = 0;
            places.extend(levels.depths.iter().map(|depth| {
                let there = *depth == of.defined;
                next += u32::from(there);
                if there { next - 1 } else { ABSENT }
            }));
        }
        Ok(Leaf { data, meaning: of.meaning, defined: of.defined, places, depths: levels.depths, levels: levels.levels })
    }
}

#[derive(Default)]
struct Levels {
    depths: Vec<i16>,
    levels: Vec<i16>,
}

fn read<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    of: &LeafType,
    rows: usize,
    levels: &mut Levels,
) -> Result<Vec<T::T>, String> {
    let mut values = Vec::with_capacity(rows);
    let mut count = 0;
    while count < rows {
        let depths = (of.defined > 0).then_some(&mut levels.depths);
        let further = (of.repeated > 0).then_some(&mut levels.levels);
        let (more, _, _) = column.read_records(rows - count, depths, further, &mut values).map_err(told)?;
        if more == 0 {
            return Err("a column has fewer rows than its group".to_owned());
        }
        count += more;
    }
    Ok(values)
}

/// Stands for the place of a value that is not there.
const ABSENT: u32 = u32::MAX;

/// Values of one column, of some rows.
pub struct Leaf {
    data: Data,
    meaning: Meaning,
    defined: i16,
    /// Where the value of each place lies in `data`; empty where all are there.
    places: Vec<u32>,
    depths: Vec<i16>,
    levels: Vec<i16>,
}

enum Data {
    Booleans(Vec<bool>),
    Integers(Vec<i32>),
    Longs(Vec<i64>),
    Stamps(Vec<Int96>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

impl Leaf {
    /// The value of a row, of a column that is no list.
    #[inline]
    pub fn row(&self, row: usize) -> Result<Value, String> {
        self.at(row)
    }

    /// How deep a place is defined; none behind the last.
    pub fn depth(&self, place: usize) -> Option<i16> {
        if self.defined == 0 { Some(0) } else { self.depths.get(place).copied() }
    }

    /// At which level of lists a place is a further item.
    pub fn level(&self, place: usize) -> Option<i16> {
        self.levels.get(place).copied()
    }

    // Once a value, and its caller lies in another file: the compiler sees through neither by itself.
    #[inline]
    pub fn at(&self, place: usize) -> Result<Value, String> {
        let at = if self.defined == 0 {
            place
        } else {
            match self.places.get(place) {
                None | Some(&ABSENT) => return Ok(Value::Null),
                Some(at) => *at as usize,
            }
        };
        self.value(at).unwrap_or_else(|| Err("the value is not there".to_owned()))
    }

    #[inline]
    fn value(&self, at: usize) -> Option<Result<Value, String>> {
        Some(match &self.data {
            Data::Booleans(values) => Ok(Value::Boolean(*values.get(at)?)),
            Data::Integers(values) => match (self.meaning, *values.get(at)?) {
                (Meaning::Amount, n) => Ok(Value::Integer(i64::from(n as u32))),
                (meaning, n) => meaning.of_integer(i64::from(n)),
            },
            Data::Longs(values) => self.meaning.of_integer(*values.get(at)?),
            Data::Stamps(values) => local(stamp(values.get(at)?)),
            Data::Floats(values) => Ok(Value::Float(f64::from(*values.get(at)?))),
            Data::Doubles(values) => Ok(Value::Float(*values.get(at)?)),
            Data::Bytes(values) => self.meaning.of_bytes(values.get(at)?.data()),
            Data::Fixed(values) => self.meaning.of_bytes(values.get(at)?.data()),
        })
    }
}

impl Meaning {
    #[inline]
    fn of_integer(self, n: i64) -> Result<Value, String> {
        let range = || format!("{n} is out of range");
        match self {
            Meaning::Date => Date { epoch_day: 0 }.plus_days(n).map(Value::Date).ok_or_else(range),
            Meaning::Time(unit) => {
                let nano_of_day = n.checked_mul(unit).filter(|nanos| (0..NANOS_PER_DAY).contains(nanos)).ok_or_else(range)?;
                Ok(Value::LocalTime(LocalTime { nano_of_day }))
            }
            Meaning::Timestamp { unit, utc } => {
                let nanos = i128::from(n) * i128::from(unit);
                if !utc {
                    return local(nanos);
                }
                let second = i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_SECOND))).map_err(|_| range())?;
                in_years(second).ok_or_else(range)?;
                let nano = nanos.rem_euclid(i128::from(NANOS_PER_SECOND)) as i32;
                Ok(Value::DateTime(Arc::new(DateTime::utc(second, nano))))
            }
            Meaning::Decimal(scale) => decimal(&n.to_be_bytes(), scale).map(|text| Value::Text(text.into())).ok_or_else(range),
            _ => Ok(Value::Integer(n)),
        }
    }

    #[inline]
    fn of_bytes(self, bytes: &[u8]) -> Result<Value, String> {
        match self {
            Meaning::Text => {
                let text = std::str::from_utf8(bytes).map_err(|error| format!("a text is not UTF-8: {error}"))?;
                Ok(Value::Text(Text::new(text)))
            }
            Meaning::Json => json::parse(bytes).map_err(|error| format!("a value is not JSON: {error}")),
            Meaning::Uuid => {
                let id: [u8; 16] = bytes.try_into().map_err(|_| "a UUID has not 16 bytes")?;
                Ok(Value::text(&NodeId::from_bytes(id).to_string()))
            }
            Meaning::Decimal(scale) => {
                let text = decimal(bytes, scale).ok_or("a decimal number has more digits than 256 bits")?;
                Ok(Value::Text(text.into()))
            }
            Meaning::Half => Ok(Value::Float(half(bytes.try_into().map_err(|_| "a number has not two bytes")?))),
            Meaning::Interval => {
                let part = |at: usize| Some(i64::from(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)));
                let parts = [("months", part(0)), ("days", part(4)), ("millis", part(8))];
                let entry = |(name, part): (&str, Option<i64>)| Some((Text::new(name), Value::Integer(part?)));
                let entries = parts.into_iter().map(entry).collect::<Option<Vec<_>>>().ok_or("an interval has not 12 bytes")?;
                Ok(Value::map(entries))
            }
            _ => Ok(Value::Bytes(bytes.into())),
        }
    }
}

fn local(nanos: i128) -> Result<Value, String> {
    let day = i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_DAY))).ok();
    let epoch_day = day.filter(|day| in_years(day.saturating_mul(SECONDS_PER_DAY)).is_some());
    let epoch_day = epoch_day.ok_or_else(|| format!("{nanos} nanoseconds are out of range"))?;
    let nano_of_day = nanos.rem_euclid(i128::from(NANOS_PER_DAY)) as i64;
    Ok(Value::LocalDateTime(LocalDateTime { epoch_day, nano_of_day }))
}

/// What no calendar has is a mistake of the schema.
fn in_years(second: i64) -> Option<()> {
    (second.unsigned_abs() / SECONDS_PER_DAY.unsigned_abs() < 365_000_000).then_some(())
}

/// Nanoseconds of the day, and the day as astronomers count.
fn stamp(stamp: &Int96) -> i128 {
    let [low, high, day] = stamp.data() else { return 0 };
    let nanos = u64::from(*low) | u64::from(*high) << 32;
    i128::from(i64::from(*day) - JULIAN_DAY_OF_EPOCH) * i128::from(NANOS_PER_DAY) + i128::from(nanos)
}

/// A float of 16 bits.
fn half(bytes: [u8; 2]) -> f64 {
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let amount = match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    if bits & 0x8000 == 0 { amount } else { -amount }
}
