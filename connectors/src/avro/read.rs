//! Reading: one bare datum, by the schema it was written with.
//!
//! A datum says how long its parts are: nothing is made room for before the bytes of it are seen, and parts that take no bytes
//! are counted.

use std::sync::Arc;

use weir_model::temporal::{
    Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, SECONDS_PER_DAY,
};
use weir_model::value::MapBuilder;
use weir_model::{Map, Text, Value};

use super::shape::{DEPTH_MAX, Logical, Shape, Shapes};
use crate::decode::Decoder;
use crate::frames::Frame;

/// Values of a record besides those that take a byte each: nulls, records of nothing, and fixed strings of no bytes. Everything
/// is made of these and of what takes bytes; a schema in which each of sixty records has two of the one before it stands for more
/// values than there are numbers.
const EMPTY_VALUES_MAX: usize = 1 << 16;

/// Bytes of a decimal, without leading ones that only repeat its sign: 256 bits are the most that others write.
const DECIMAL_BYTES_MAX: usize = 32;
/// Digits behind the point of a decimal: the most that others write.
pub const SCALE_MAX: usize = 76;

/// The number of a decimal without its point, in two's complement, the greatest byte first.
pub type Unscaled = [u8; 1 + DECIMAL_BYTES_MAX];

pub struct AvroDecoder {
    shapes: Shapes,
}

impl AvroDecoder {
    /// `logical`: dates, times, decimals and the like become what they stand for instead of the number or bytes they are.
    pub fn new(schema: &str, logical: bool) -> Result<AvroDecoder, String> {
        AvroDecoder::with(schema, &[], logical)
    }

    /// As `new`, for a schema that refers to others.
    pub fn with(schema: &str, others: &[&str], logical: bool) -> Result<AvroDecoder, String> {
        Ok(AvroDecoder { shapes: Shapes::read(schema, others, logical)? })
    }
}

impl AvroDecoder {
    /// How many bytes the datum takes that the bytes begin with.
    pub fn length(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut datum = Datum { decoder: self, rest: bytes, empty: EMPTY_VALUES_MAX };
        datum.pass(&self.shapes.root, 0)?;
        Ok(bytes.len() - datum.rest.len())
    }
}

impl Decoder for AvroDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let mut datum = Datum { decoder: self, rest: frame.bytes, empty: EMPTY_VALUES_MAX };
        let value =
            datum.value(&self.shapes.root, 0).map_err(|problem| format!("the record does not fit the schema: {problem}"))?;
        match datum.rest.len() {
            0 => Ok(value),
            left => Err(format!("the record does not fit the schema: {left} bytes are left at its end")),
        }
    }
}

/// What is left of a record.
struct Datum<'a> {
    decoder: &'a AvroDecoder,
    rest: &'a [u8],
    /// Values that take no bytes and may still come.
    empty: usize,
}

impl<'a> Datum<'a> {
    fn value(&mut self, shape: &Shape, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("values lie within values deeper than {DEPTH_MAX}"));
        }
        Ok(match shape {
            Shape::Null => {
                self.spend()?;
                Value::Null
            }
            Shape::Boolean => match self.take(1)?[0] {
                0 => Value::Boolean(false),
                1 => Value::Boolean(true),
                other => return Err(format!("a boolean is {other}")),
            },
            Shape::Integer { .. } => Value::Integer(self.integer()?),
            Shape::Float => Value::Float(f64::from(f32::from_le_bytes(self.array()?))),
            Shape::Double => Value::Float(f64::from_le_bytes(self.array()?)),
            Shape::Bytes => Value::Bytes(self.sized()?.into()),
            Shape::Fixed(size) => Value::Bytes(self.fixed(*size)?.into()),
            Shape::Text => Value::Text(self.text()?),
            Shape::List(item) => {
                let mut items = Vec::new();
                while let Some(block) = self.block()? {
                    for _ in 0..block.count {
                        items.push(self.value(item, depth + 1)?);
                    }
                    self.end(block)?;
                }
                Value::list(items)
            }
            Shape::Map(item) => {
                let mut map = MapBuilder::with_capacity(0);
                while let Some(block) = self.block()? {
                    for _ in 0..block.count {
                        let key = self.text()?;
                        map.insert(key, self.value(item, depth + 1)?);
                    }
                    self.end(block)?;
                }
                Value::Map(Arc::new(map.finish()))
            }
            Shape::Union(branches) => {
                let branch = self.integer()?;
                let found = usize::try_from(branch).ok().and_then(|at| branches.get(at));
                let found = found.ok_or_else(|| format!("branch {branch} of a union of {}", branches.len()))?;
                self.value(found, depth + 1)?
            }
            Shape::Record(fields) => {
                if fields.is_empty() {
                    self.spend()?;
                }
                let mut map = Map::with_capacity(fields.len());
                for field in fields {
                    // A schema names no field twice.
                    map.push_unique(field.name.clone(), self.value(&field.shape, depth + 1)?);
                }
                Value::Map(Arc::new(map))
            }
            Shape::Enum(symbols) => {
                let symbol = self.integer()?;
                let found = usize::try_from(symbol).ok().and_then(|at| symbols.get(at));
                Value::Text(found.ok_or_else(|| format!("symbol {symbol} of an enumeration of {}", symbols.len()))?.clone())
            }
            Shape::Named(place) => {
                let decoder = self.decoder;
                self.value(&decoder.shapes.named[*place], depth + 1)?
            }
            Shape::Logical(inner, logical) => {
                let value = self.value(inner, depth + 1)?;
                logical.of(&value).ok_or_else(|| format!("{} is out of range", value.shown()))?
            }
        })
    }

    /// Passes over a value.
    fn pass(&mut self, shape: &Shape, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("values lie within values deeper than {DEPTH_MAX}"));
        }
        match shape {
            Shape::Null => self.spend()?,
            Shape::Boolean => drop(self.take(1)?),
            Shape::Integer { .. } | Shape::Enum(_) => drop(self.integer()?),
            Shape::Float => drop(self.take(4)?),
            Shape::Double => drop(self.take(8)?),
            Shape::Bytes | Shape::Text => drop(self.sized()?),
            Shape::Fixed(size) => drop(self.fixed(*size)?),
            Shape::List(item) => self.pass_blocks(item, false, depth)?,
            Shape::Map(item) => self.pass_blocks(item, true, depth)?,
            Shape::Union(branches) => {
                let branch = self.integer()?;
                let found = usize::try_from(branch).ok().and_then(|at| branches.get(at));
                let found = found.ok_or_else(|| format!("branch {branch} of a union of {}", branches.len()))?;
                self.pass(found, depth + 1)?;
            }
            Shape::Record(fields) if fields.is_empty() => self.spend()?,
            Shape::Record(fields) => fields.iter().try_for_each(|field| self.pass(&field.shape, depth + 1))?,
            Shape::Named(place) => {
                let decoder = self.decoder;
                self.pass(&decoder.shapes.named[*place], depth + 1)?;
            }
            Shape::Logical(inner, _) => self.pass(inner, depth + 1)?,
        }
        Ok(())
    }

    fn pass_blocks(&mut self, item: &Shape, keys: bool, depth: usize) -> Result<(), String> {
        loop {
            let count = self.integer()?;
            match count {
                0 => return Ok(()),
                // Its bytes are said for those who pass over it.
                ..0 => drop(self.sized()?),
                _ => {
                    for _ in 0..count {
                        if keys {
                            self.sized()?;
                        }
                        self.pass(item, depth + 1)?;
                    }
                }
            }
        }
    }

    fn fixed(&mut self, size: usize) -> Result<&'a [u8], String> {
        if size == 0 {
            self.spend()?;
        }
        self.take(size)
    }

    fn spend(&mut self) -> Result<(), String> {
        self.empty = self.empty.checked_sub(1).ok_or_else(|| format!("there are more than {EMPTY_VALUES_MAX} empty values"))?;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "it ends too early".to_owned())
    }

    /// Zigzag, seven bits a byte.
    fn integer(&mut self) -> Result<i64, String> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(10) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err("a number has more than ten bytes".to_owned())
    }

    fn sized(&mut self) -> Result<&'a [u8], String> {
        let length = self.integer()?;
        self.take(usize::try_from(length).map_err(|_| format!("a length is {length}"))?)
    }

    fn text(&mut self) -> Result<Text, String> {
        let bytes = self.sized()?;
        std::str::from_utf8(bytes).map(Text::new).map_err(|error| format!("a text is not UTF-8: {error}"))
    }

    /// What follows; None behind the last.
    fn block(&mut self) -> Result<Option<Block>, String> {
        let count = self.integer()?;
        // Its bytes are said too, for those who pass over it.
        let bytes = if count < 0 { Some(self.integer()?) } else { None };
        let left = bytes.map(|bytes| usize::try_from(bytes).ok().and_then(|bytes| self.rest.len().checked_sub(bytes)));
        let left = left.map(|left| left.ok_or("it ends too early")).transpose()?;
        Ok(Some(Block { count: count.unsigned_abs(), left }).filter(|block| block.count > 0))
    }

    /// Whoever reads a block and whoever passes over it have to end at the same place: containers are cut into records by the
    /// one, and these are read by the other.
    fn end(&self, block: Block) -> Result<(), String> {
        match block.left {
            Some(left) if left != self.rest.len() => Err("a block has more or fewer bytes than it says".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Items one behind the other.
struct Block {
    count: u64,
    /// How many bytes are behind it, where it says how many it has.
    left: Option<usize>,
}

impl Logical {
    /// None when it is out of range.
    fn of(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Logical::Date, Value::Integer(days)) => Date { epoch_day: 0 }.plus_days(*days).map(Value::Date),
            (Logical::Time(unit), Value::Integer(n)) => {
                let nano_of_day = n.checked_mul(unit).filter(|nanos| (0..NANOS_PER_DAY).contains(nanos))?;
                Some(Value::LocalTime(LocalTime { nano_of_day }))
            }
            (Logical::Timestamp(unit), Value::Integer(n)) => {
                let (second, nano) = split(*n, unit)?;
                Some(Value::DateTime(Arc::new(DateTime::utc(second, nano))))
            }
            (Logical::LocalTimestamp(unit), Value::Integer(n)) => {
                let (second, nano) = split(*n, unit)?;
                let epoch_day = second.div_euclid(SECONDS_PER_DAY);
                let nano_of_day = second.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND + i64::from(nano);
                Some(Value::LocalDateTime(LocalDateTime { epoch_day, nano_of_day }))
            }
            (Logical::Duration, Value::Bytes(bytes)) => {
                let part = |at: usize| Some(i64::from(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)));
                let (months, days, millis) = (part(0)?, part(4)?, part(8)?);
                let duration = Duration::of(months, days, millis / 1000, millis % 1000 * 1_000_000)?;
                Some(Value::Duration(Arc::new(duration)))
            }
            (Logical::Decimal { scale, .. }, Value::Bytes(bytes)) => Some(Value::Text(Text::new(&decimal(bytes, scale)?))),
            (Logical::Uuid, Value::Bytes(bytes)) => {
                let id = weir_model::NodeId::from_bytes(bytes[..].try_into().ok()?);
                Some(Value::text(&id.to_string()))
            }
            _ => None,
        }
    }
}

/// Seconds and nanoseconds of a moment, within the years of four digits: what no calendar has is a mistake of the schema.
fn split(n: i64, unit: i64) -> Option<(i64, i32)> {
    let nanos = i128::from(n) * i128::from(unit);
    let second = i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_SECOND))).ok()?;
    let in_range = second.unsigned_abs() / SECONDS_PER_DAY.unsigned_abs() < 365_000_000;
    in_range.then(|| (second, nanos.rem_euclid(i128::from(NANOS_PER_SECOND)) as i32))
}

/// The text of a number in two's complement, the greatest byte first. None with more digits than 256 bits have.
pub fn decimal(bytes: &[u8], scale: usize) -> Option<String> {
    let is_negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let fill = if is_negative { 0xff } else { 0 };
    // Of a wide one most bytes say no more than its sign.
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == fill).count()..];
    if bytes.len() > DECIMAL_BYTES_MAX || scale > SCALE_MAX {
        return None;
    }
    let mut whole: Unscaled = [fill; 1 + DECIMAL_BYTES_MAX];
    let start = whole.len() - bytes.len();
    whole[start..].copy_from_slice(bytes);
    let width = scale + 1;
    let digits = match whole.last_chunk::<16>() {
        Some(low) if bytes.len() < low.len() => format!("{:0>width$}", i128::from_be_bytes(*low).unsigned_abs()),
        _ => format!("{:0>width$}", wide_digits(whole, is_negative)),
    };
    let sign = if is_negative { "-" } else { "" };
    let (front, back) = digits.split_at(digits.len() - scale);
    Some(if back.is_empty() { format!("{sign}{front}") } else { format!("{sign}{front}.{back}") })
}

/// The digits of a number that 128 bits may not hold, without its sign.
fn wide_digits(number: Unscaled, is_negative: bool) -> String {
    let mut number = if is_negative { negated(number) } else { number };
    let mut digits = String::new();
    while number.iter().any(|byte| *byte > 0) {
        let mut rest = 0;
        for byte in &mut number {
            let part = (rest << 8) | u32::from(*byte);
            *byte = (part / 10) as u8;
            rest = part % 10;
        }
        digits.insert(0, char::from(b'0' + rest as u8));
    }
    digits
}

pub fn negated(mut number: Unscaled) -> Unscaled {
    let mut carry = true;
    for byte in number.iter_mut().rev() {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
    number
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
