//! The schema of a file as a tree, and rows put together along it.
//!
//! Each leaf is a column of values with two numbers each: how deep the value is defined, and at which level of lists it is a
//! further item. A group or list is there where its leaves are defined as deep as it is.

use std::collections::HashSet;
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::Type;
use weir_model::value::MapBuilder;
use weir_model::{Text, Value};

use super::Filled;
use super::columns::{Leaf, Meaning};

/// Groups within groups.
pub const DEPTH_MAX: usize = 64;

/// A field of a row.
pub struct Root {
    pub name: Text,
    pub node: Node,
    /// In the order of the tree.
    pub leaves: Vec<LeafType>,
}

/// A column, and what is known of it.
pub struct LeafType {
    pub column: usize,
    pub meaning: Meaning,
    /// As deep as values of it are defined.
    pub defined: i16,
    /// Lists it lies in.
    pub repeated: i16,
}

pub enum Node {
    /// By its place among the leaves.
    Leaf(usize),
    Group {
        fields: Vec<(Text, Node)>,
        defined: i16,
    },
    List {
        item: Box<Node>,
        /// How deep the list is defined, and how deep an item.
        defined: i16,
        filled: i16,
        /// What says that an item belongs to the list of the one before.
        further: i16,
    },
    Map {
        entry: Box<(Node, Node)>,
        defined: i16,
        filled: i16,
        further: i16,
    },
}

/// The fields of a row that are wanted, all without names.
pub fn roots(schema: &Type, wanted: Option<&[Text]>) -> Result<Vec<Root>, String> {
    let (mut roots, mut column, mut names) = (Vec::new(), 0, HashSet::new());
    for field in schema.get_fields() {
        let mut building = Building { column, leaves: Vec::new() };
        let node = building.node(field, 0, 0, 0)?;
        column = building.column;
        let name = Text::new(field.name());
        if !names.insert(name.clone()) {
            return Err(format!("the file has two columns with the name {name}"));
        }
        if wanted.is_none_or(|wanted| wanted.contains(&name)) {
            roots.push(Root { name, node, leaves: building.leaves });
        }
    }
    Ok(roots)
}

struct Building {
    column: usize,
    leaves: Vec<LeafType>,
}

impl Building {
    fn node(&mut self, of: &Type, defined: i16, repeated: i16, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the columns of the file lie within each other deeper than {DEPTH_MAX}"));
        }
        let info = of.get_basic_info();
        match if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED } {
            Repetition::REQUIRED => self.inner(of, defined, repeated, depth),
            Repetition::OPTIONAL => self.inner(of, defined + 1, repeated, depth),
            // A list without a name of its own.
            Repetition::REPEATED => {
                let item = Box::new(self.inner(of, defined + 1, repeated + 1, depth)?);
                Ok(Node::List { item, defined, filled: defined + 1, further: repeated + 1 })
            }
        }
    }

    /// What is there where it is there.
    fn inner(&mut self, of: &Type, defined: i16, repeated: i16, depth: usize) -> Result<Node, String> {
        if of.is_primitive() {
            self.leaves.push(LeafType { column: self.column, meaning: Meaning::of(of), defined, repeated });
            self.column += 1;
            return Ok(Node::Leaf(self.leaves.len() - 1));
        }
        let info = of.get_basic_info();
        let (filled, further) = (defined + 1, repeated + 1);
        let (is_list, is_map) = match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => (true, false),
            (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => (false, true),
            _ => (false, false),
        };
        if let [inner] = of.get_fields() {
            let is_repeated =
                inner.get_basic_info().has_repetition() && inner.get_basic_info().repetition() == Repetition::REPEATED;
            if is_list && is_repeated {
                // Writers of old have no level of their own for the items.
                let is_item = inner.is_primitive()
                    || inner.get_fields().len() != 1
                    || inner.name() == "array"
                    || inner.name() == format!("{}_tuple", of.name());
                let item = if is_item {
                    self.inner(inner, filled, further, depth + 1)?
                } else {
                    self.node(&inner.get_fields()[0], filled, further, depth + 1)?
                };
                return Ok(Node::List { item: Box::new(item), defined, filled, further });
            }
            if is_map
                && is_repeated
                && !inner.is_primitive()
                && let [key, value] = inner.get_fields()
            {
                let entry =
                    Box::new((self.node(key, filled, further, depth + 1)?, self.node(value, filled, further, depth + 1)?));
                return Ok(Node::Map { entry, defined, filled, further });
            }
        }
        let mut fields = Vec::new();
        for field in of.get_fields() {
            fields.push((Text::new(field.name()), self.node(field, defined, repeated, depth + 1)?));
        }
        if self.leaves.is_empty() {
            return Err(format!("the column {} has no values at all", of.name()));
        }
        Ok(Node::Group { fields, defined })
    }
}

impl Node {
    /// The field of `count` rows.
    pub fn filled(&self, mut leaves: Vec<Leaf>, count: usize) -> Result<Filled, String> {
        if matches!(self, Node::Leaf(_))
            && leaves.len() == 1
            && let Some(leaf) = leaves.pop()
        {
            return Ok(Filled::Plain(leaf));
        }
        let mut reading = Reading { places: vec![0; leaves.len()], leaves };
        let rows = (0..count).map(|_| {
            let mut failure = None;
            let value = reading.value(self, &mut failure)?;
            Ok(failure.map_or(Ok(value), Err))
        });
        Ok(Filled::Nested(rows.collect::<Result<_, String>>()?))
    }

    fn first_leaf(&self) -> usize {
        match self {
            Node::Leaf(leaf) => *leaf,
            Node::Group { fields, .. } => fields.first().map_or(0, |(_, node)| node.first_leaf()),
            Node::List { item, .. } => item.first_leaf(),
            Node::Map { entry, .. } => entry.0.first_leaf(),
        }
    }

    fn each_leaf(&self, each: &mut impl FnMut(usize)) {
        match self {
            Node::Leaf(leaf) => each(*leaf),
            Node::Group { fields, .. } => fields.iter().for_each(|(_, node)| node.each_leaf(each)),
            Node::List { item, .. } => item.each_leaf(each),
            Node::Map { entry, .. } => {
                entry.0.each_leaf(each);
                entry.1.each_leaf(each);
            }
        }
    }
}

/// Leaves of one field, and how far each has been read.
struct Reading {
    leaves: Vec<Leaf>,
    places: Vec<usize>,
}

impl Reading {
    /// The next value. What is wrong with it alone goes to `failure`; an error is that of the columns as a whole.
    fn value(&mut self, node: &Node, failure: &mut Option<String>) -> Result<Value, String> {
        let depth = self.depth(node)?;
        Ok(match node {
            Node::Leaf(leaf) => {
                let at = self.places[*leaf];
                self.places[*leaf] += 1;
                self.leaves[*leaf].at(at).unwrap_or_else(|problem| {
                    failure.get_or_insert(problem);
                    Value::Null
                })
            }
            Node::Group { defined, .. } if depth < *defined => self.pass(node, Value::Null),
            Node::Group { fields, .. } => {
                let mut map = MapBuilder::with_capacity(fields.len());
                for (name, field) in fields {
                    map.insert(name.clone(), self.value(field, failure)?);
                }
                Value::Map(Arc::new(map.finish()))
            }
            Node::List { defined, .. } | Node::Map { defined, .. } if depth < *defined => self.pass(node, Value::Null),
            Node::List { filled, .. } if depth < *filled => self.pass(node, Value::list(Vec::new())),
            Node::Map { filled, .. } if depth < *filled => self.pass(node, Value::map([])),
            Node::List { item, further, .. } => {
                let mut items = vec![self.value(item, failure)?];
                while self.goes_on(item, *further) {
                    items.push(self.value(item, failure)?);
                }
                Value::list(items)
            }
            Node::Map { entry, further, .. } => {
                let mut map = MapBuilder::with_capacity(4);
                loop {
                    let key = match self.value(&entry.0, failure)? {
                        Value::Text(text) => text,
                        other => Text::from(other.to_text()),
                    };
                    let value = self.value(&entry.1, failure)?;
                    map.insert(key, value);
                    if !self.goes_on(&entry.0, *further) {
                        break;
                    }
                }
                Value::Map(Arc::new(map.finish()))
            }
        })
    }

    fn depth(&self, node: &Node) -> Result<i16, String> {
        let leaf = node.first_leaf();
        self.leaves[leaf].depth(self.places[leaf]).ok_or_else(|| "its columns have different numbers of rows".to_owned())
    }

    fn goes_on(&self, node: &Node, further: i16) -> bool {
        let leaf = node.first_leaf();
        self.leaves[leaf].level(self.places[leaf]) == Some(further)
    }

    /// All leaves have one place for what is not there.
    fn pass(&mut self, node: &Node, value: Value) -> Value {
        let places = &mut self.places;
        node.each_leaf(&mut |leaf| places[leaf] += 1);
        value
    }
}
