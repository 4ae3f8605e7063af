//! Value: anything a Cypher expression can be.
//!
//! The relations between values live in `order`, arithmetic in `arithmetic`, text forms in `text_form`, JSON in `json`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::id::{EdgeKey, NodeId};
pub use crate::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, Time};

/// A string of up to 24 bytes lies in the value itself.
pub type Text = compact_str::CompactString;

#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
    Bytes(Arc<[u8]>),
    /// The id of a node under every scheme but `long`, where ids are integers.
    Id(NodeId),
    List(Arc<[Value]>),
    Map(Arc<Map>),
    Date(Date),
    LocalTime(LocalTime),
    Time(Time),
    LocalDateTime(LocalDateTime),
    DateTime(Arc<DateTime>),
    Duration(Arc<Duration>),
    /// A reference to a node: its labels and properties are read from the view in force.
    Node(NodeId),
    /// A reference to an edge.
    Edge(Arc<EdgeKey>),
    Path(Arc<Path>),
    /// A node with what was known of it when the row left the engine. Only in results, never in a running query.
    FullNode(Arc<FullNode>),
    FullEdge(Arc<FullEdge>),
}

/// A map in the order in which its entries were written; keys are unique, the last mention wins.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Text, Value)>,
}

#[derive(Clone, Debug)]
pub struct Path {
    pub start: NodeId,
    /// Each edge with the node it leads to.
    pub steps: Vec<(EdgeKey, NodeId)>,
}

#[derive(Clone, Debug)]
pub struct FullNode {
    pub id: NodeId,
    pub labels: Vec<Text>,
    pub properties: Map,
}

#[derive(Clone, Debug)]
pub struct FullEdge {
    pub key: EdgeKey,
    pub properties: Map,
}

impl Map {
    pub fn with_capacity(n: usize) -> Map {
        Map { entries: Vec::with_capacity(n) }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    pub fn insert(&mut self, key: Text, value: Value) {
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key, value)),
        }
    }

    /// For decoders that know the key to be new.
    pub fn push_unique(&mut self, key: Text, value: Value) {
        self.entries.push((key, value));
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(k, _)| k == key)?;
        Some(self.entries.remove(at).1)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Text, Value)> {
        self.entries.iter()
    }

    /// By key. Maps are equal whatever the order of their entries, so whoever lists them where that can be told must not depend
    /// on it.
    pub fn in_order(&self) -> Vec<&(Text, Value)> {
        let mut entries: Vec<&(Text, Value)> = self.entries.iter().collect();
        if !entries.is_sorted_by(|(x, _), (y, _)| x <= y) {
            entries.sort_unstable_by(|(x, _), (y, _)| x.cmp(y));
        }
        entries
    }

    /// Its entries by key, whatever the order in which they came.
    pub fn sorted(mut self) -> Map {
        self.entries.sort_unstable_by(|(x, _), (y, _)| x.cmp(y));
        self
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
impl Map {
    /// For how many entries there is room without more memory.
    pub fn room(&self) -> usize {
        self.entries.capacity()
    }
}

/// A map while its entries come, of which some may be there already. Keys are looked for one by one until there are many;
/// then they are indexed, so that a million keys of somebody's JSON cost no more than a million.
#[derive(Default)]
pub struct MapBuilder {
    map: Map,
    places: FxHashMap<Text, usize>,
}

/// Maps with fewer entries are searched.
const INDEXED_FROM: usize = 64;

impl MapBuilder {
    pub fn with_capacity(n: usize) -> MapBuilder {
        MapBuilder { map: Map::with_capacity(n), places: FxHashMap::default() }
    }

    pub fn insert(&mut self, key: Text, value: Value) {
        if self.map.len() < INDEXED_FROM {
            return self.map.insert(key, value);
        }
        self.index();
        match self.places.get(&key) {
            Some(at) => self.map.entries[*at].1 = value,
            None => self.push_unique(key, value),
        }
    }

    /// For decoders that know the key to be new.
    pub fn push_unique(&mut self, key: Text, value: Value) {
        if self.map.len() >= INDEXED_FROM {
            self.index();
            self.places.insert(key.clone(), self.map.len());
        }
        self.map.push_unique(key, value);
    }

    fn index(&mut self) {
        if self.places.is_empty() {
            self.places.extend(self.map.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)));
        }
    }

    pub fn finish(self) -> Map {
        self.map
    }
}

impl FromIterator<(Text, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Text, Value)>>(entries: I) -> Map {
        let mut builder = MapBuilder::default();
        for (key, value) in entries {
            builder.insert(key, value);
        }
        builder.finish()
    }
}

impl Value {
    pub fn text(s: &str) -> Value {
        Value::Text(Text::new(s))
    }

    pub fn list(items: Vec<Value>) -> Value {
        Value::List(items.into())
    }

    pub fn map(entries: impl IntoIterator<Item = (Text, Value)>) -> Value {
        Value::Map(Arc::new(entries.into_iter().collect()))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn is_true(&self) -> bool {
        matches!(self, Value::Boolean(true))
    }

    /// Whether a WHERE of this value holds: null is no, and a list says whether it has elements.
    pub fn holds(&self) -> bool {
        match self {
            Value::Boolean(answer) => *answer,
            Value::List(items) => !items.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_many_keys_keep_their_order_and_the_last_mention() {
        let entries = |n: i64| (0..n).map(move |i| (Text::from(format!("k{i}")), Value::Integer(i)));
        let map: Map = entries(100_000).chain(entries(100_000)).chain([(Text::new("k7"), Value::Null)]).collect();
        assert_eq!(map.len(), 100_000);
        assert!(map.iter().take(7).zip(0..).all(|((key, _), i)| *key == format!("k{i}")));
        assert!(map.get("k7").is_some_and(Value::is_null));
    }
}
