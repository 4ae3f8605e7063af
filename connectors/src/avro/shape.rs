//! Shapes: a schema of Avro taken apart once, so that nothing has to be looked up while data are read or written.

use std::collections::HashMap;

use apache_avro::Schema;
use apache_avro::schema::{InnerDecimalSchema, Name, UuidSchema};
use serde_json::Value as Json;
use weir_model::Text;

/// Parts within parts; a schema or a record that goes deeper is refused.
pub const DEPTH_MAX: usize = 128;

/// All there is to know of a schema.
#[derive(Debug)]
pub struct Shapes {
    pub root: Shape,
    /// Records, enumerations and strings of fixed length, which may name each other and themselves.
    pub named: Vec<Shape>,
}

/// How the bytes of a value are read.
#[derive(Debug)]
pub enum Shape {
    Null,
    Boolean,
    /// Int and long, which are written alike.
    Integer {
        /// It has to fit 32 bits.
        short: bool,
    },
    Float,
    Double,
    Bytes,
    Fixed(usize),
    Text,
    List(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    Record(Vec<Field>),
    Enum(Vec<Text>),
    /// The place of a named shape.
    Named(usize),
    Logical(Box<Shape>, Logical),
}

/// What a number or some bytes stand for.
#[derive(Clone, Copy, Debug)]
pub enum Logical {
    Date,
    /// How many nanoseconds the number counts in.
    Time(i64),
    Timestamp(i64),
    LocalTimestamp(i64),
    Duration,
    /// With `precision` digits, `scale` of them behind the point.
    Decimal {
        precision: usize,
        scale: usize,
    },
    Uuid,
}

#[derive(Debug)]
pub struct Field {
    pub name: Text,
    pub shape: Shape,
    /// What the schema says it is where nobody says anything.
    pub default: Option<Json>,
}

impl Shapes {
    /// `others` are schemas that it refers to. With `logical`, dates, times, decimals and the like are told from the numbers and
    /// bytes that they are written as.
    pub fn read(schema: &str, others: &[&str], logical: bool) -> Result<Shapes, String> {
        let wrong = |error| format!("the schema is not one of Avro: {error}");
        let (schema, others) = match others {
            [] => (Schema::parse_str(schema).map_err(wrong)?, Vec::new()),
            others => Schema::parse_str_with_list(schema, others).map_err(wrong)?,
        };
        let mut reading = Reading { logical, places: HashMap::new(), named: Vec::new() };
        for other in &others {
            reading.shape(other, None, 0)?;
        }
        let root = reading.shape(&schema, None, 0)?;
        let named = reading.named.into_iter().map(|shape| shape.ok_or("a type of the schema is not defined".to_owned()));
        Ok(Shapes { root, named: named.collect::<Result<_, _>>()? })
    }

    /// What stands behind names.
    pub fn plain<'s>(&'s self, mut shape: &'s Shape) -> &'s Shape {
        // A name never stands for another name.
        while let Shape::Named(place) = shape {
            shape = &self.named[*place];
        }
        shape
    }
}

/// Turns a schema into shapes.
struct Reading {
    logical: bool,
    places: HashMap<String, usize>,
    /// None while it is being read.
    named: Vec<Option<Shape>>,
}

impl Reading {
    fn shape(&mut self, schema: &Schema, namespace: Option<&str>, depth: usize) -> Result<Shape, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the schema has types within types deeper than {DEPTH_MAX}"));
        }
        let integer = |logical| self.marked(Shape::Integer { short: false }, logical);
        let short = |logical| self.marked(Shape::Integer { short: true }, logical);
        Ok(match schema {
            Schema::Null => Shape::Null,
            Schema::Boolean => Shape::Boolean,
            Schema::Int => Shape::Integer { short: true },
            Schema::Long => Shape::Integer { short: false },
            Schema::Float => Shape::Float,
            Schema::Double => Shape::Double,
            Schema::Bytes | Schema::BigDecimal => Shape::Bytes,
            Schema::String => Shape::Text,
            Schema::Array(array) => Shape::List(Box::new(self.shape(&array.items, namespace, depth + 1)?)),
            Schema::Map(map) => Shape::Map(Box::new(self.shape(&map.types, namespace, depth + 1)?)),
            Schema::Union(union) => {
                let branches = union.variants().iter().map(|branch| self.shape(branch, namespace, depth + 1));
                Shape::Union(branches.collect::<Result<_, _>>()?)
            }
            Schema::Record(record) => {
                let name = record.name.fully_qualified_name(namespace).into_owned();
                let place = self.place(&name);
                let mut fields = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    let shape = self.shape(&field.schema, name.namespace(), depth + 1)?;
                    fields.push(Field { name: Text::new(&field.name), shape, default: field.default.clone() });
                }
                self.named[place] = Some(Shape::Record(fields));
                Shape::Named(place)
            }
            Schema::Enum(named) => {
                let symbols = named.symbols.iter().map(|symbol| Text::new(symbol)).collect();
                self.define(&named.name, namespace, Shape::Enum(symbols))
            }
            Schema::Fixed(fixed) => self.define(&fixed.name, namespace, Shape::Fixed(fixed.size)),
            Schema::Ref { name } => Shape::Named(self.place(&name.fully_qualified_name(namespace))),
            Schema::Decimal(decimal) => {
                let inner = match &decimal.inner {
                    InnerDecimalSchema::Bytes => Shape::Bytes,
                    InnerDecimalSchema::Fixed(fixed) => self.define(&fixed.name, namespace, Shape::Fixed(fixed.size)),
                };
                self.marked(inner, Logical::Decimal { precision: decimal.precision, scale: decimal.scale })
            }
            Schema::Uuid(UuidSchema::String) => Shape::Text,
            Schema::Uuid(UuidSchema::Bytes) => self.marked(Shape::Bytes, Logical::Uuid),
            Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                let inner = self.define(&fixed.name, namespace, Shape::Fixed(fixed.size));
                self.marked(inner, Logical::Uuid)
            }
            Schema::Duration(fixed) => {
                let inner = self.define(&fixed.name, namespace, Shape::Fixed(fixed.size));
                self.marked(inner, Logical::Duration)
            }
            Schema::Date => short(Logical::Date),
            Schema::TimeMillis => short(Logical::Time(1_000_000)),
            Schema::TimeMicros => integer(Logical::Time(1_000)),
            Schema::TimestampMillis => integer(Logical::Timestamp(1_000_000)),
            Schema::TimestampMicros => integer(Logical::Timestamp(1_000)),
            Schema::TimestampNanos => integer(Logical::Timestamp(1)),
            Schema::LocalTimestampMillis => integer(Logical::LocalTimestamp(1_000_000)),
            Schema::LocalTimestampMicros => integer(Logical::LocalTimestamp(1_000)),
            Schema::LocalTimestampNanos => integer(Logical::LocalTimestamp(1)),
        })
    }

    fn marked(&self, inner: Shape, logical: Logical) -> Shape {
        if self.logical { Shape::Logical(Box::new(inner), logical) } else { inner }
    }

    /// Where the shape of this name stands or will stand.
    fn place(&mut self, name: &Name) -> usize {
        let named = &mut self.named;
        *self.places.entry(name.fullname(None)).or_insert_with(|| {
            named.push(None);
            named.len() - 1
        })
    }

    fn define(&mut self, name: &Name, namespace: Option<&str>, shape: Shape) -> Shape {
        let place = self.place(&name.fully_qualified_name(namespace));
        self.named[place] = Some(shape);
        Shape::Named(place)
    }
}
