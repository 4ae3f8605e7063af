//! Mutation: the only ways a graph can change, as rows in columns.
//!
//! The evaluator writes these rows, the log packs them, the workers read them: one form from evaluation to arrangement.
//! A row is one *fact* asserted or removed at one node; an edge is two rows, one at each end.
//!
//!     Row     node 16 | tag 4 | when 4 | payload 16        = 40 bytes
//!     tag     kind in the high 3 bits, symbol in the low 29
//!     when    index of the record within the batch, shifted left once; the low bit is set for a removal
//!     payload of a property   the value: inline, or a length and an offset into the arena
//!             of an edge      the node at the other end
//!             of the rest     see `Kind`

use crate::codec;
use crate::id::{NodeId, Symbol};
use crate::value::Value;

/// In the order in which the facts of a node lie: what a walk from node to node asks for comes first, and so shares a cache line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Payload unused.
    Label = 0,
    /// Half an edge, at its source; the payload is the target.
    Out = 1,
    /// Half an edge, at its target; the payload is the source.
    In = 2,
    /// As `Out` and `In`, for edges with an ordinal above 0: the arena holds the other end and the ordinal.
    OutParallel = 3,
    InParallel = 4,
    /// At the source of the edge. The symbol is the edge's type; the arena holds target, ordinal, key and value.
    EdgeProperty = 5,
    Property = 6,
    /// Only in mutations, never in the graph: removes every property the node has at this point.
    ClearProperties = 7,
}

impl Kind {
    /// Whether it names another node: the other end of an edge.
    #[inline]
    pub fn has_end(self) -> bool {
        match self {
            Kind::Out | Kind::In | Kind::OutParallel | Kind::InParallel | Kind::EdgeProperty => true,
            Kind::Label | Kind::Property | Kind::ClearProperties => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

impl Tag {
    pub const SYMBOL_BITS: u32 = 29;

    pub const fn new(kind: Kind, symbol: Symbol) -> Tag {
        Tag(((kind as u32) << Self::SYMBOL_BITS) | symbol.0)
    }

    pub const fn kind(self) -> Kind {
        match self.0 >> Self::SYMBOL_BITS {
            0 => Kind::Label,
            1 => Kind::Out,
            2 => Kind::In,
            3 => Kind::OutParallel,
            4 => Kind::InParallel,
            5 => Kind::EdgeProperty,
            6 => Kind::Property,
            _ => Kind::ClearProperties,
        }
    }

    pub const fn symbol(self) -> Symbol {
        Symbol(self.0 & ((1 << Self::SYMBOL_BITS) - 1))
    }
}

impl std::fmt::Debug for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}:{}", self.kind(), self.symbol().0)
    }
}

/// Sixteen bytes whose meaning the tag gives. See `codec` for the forms of a property's value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(C)]
pub struct Payload {
    pub a: u64,
    pub b: u64,
}

impl Payload {
    pub const fn node(id: NodeId) -> Payload {
        Payload { a: id.high, b: id.low }
    }

    pub const fn as_node(self) -> NodeId {
        NodeId { high: self.a, low: self.b }
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Row {
    pub node: NodeId,
    pub tag: Tag,
    pub when: u32,
    pub payload: Payload,
}

impl Row {
    /// Index of the record within the batch.
    pub const fn record(&self) -> u32 {
        self.when >> 1
    }

    pub const fn removes(&self) -> bool {
        self.when & 1 == 1
    }
}

/// The changes of a batch of records, in order.
#[derive(Clone, Debug, Default)]
pub struct Mutations {
    pub rows: Vec<Row>,
    pub arena: Vec<u8>,
    /// Nodes whose past goes, too, with the records that say so.
    pub erased: Vec<(u32, NodeId)>,
    record: u32,
}

impl Mutations {
    /// Rows from here on belong to the record with this index.
    pub fn start_record(&mut self, record: u32) {
        self.record = record;
    }

    pub fn record(&self) -> u32 {
        self.record
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.erased.is_empty()
    }

    /// What they take in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..]) + self.arena.len()
    }

    /// Appends changes made elsewhere: all of them become changes of the current record.
    pub fn append(&mut self, other: &Mutations) {
        let offset = self.arena.len() as u64;
        self.arena.extend_from_slice(&other.arena);
        let when = self.record << 1;
        self.rows.extend(other.rows.iter().map(|row| Row {
            when: when | (row.when & 1),
            payload: codec::shift(row.tag, row.payload, offset),
            ..*row
        }));
        self.erased.extend(other.erased.iter().map(|(_, node)| (self.record, *node)));
    }

    /// Appends the changes of a batch that follows: its records are numbered from `first` on.
    pub fn append_records(&mut self, other: &Mutations, first: u32) {
        let offset = self.arena.len() as u64;
        self.arena.extend_from_slice(&other.arena);
        self.rows.extend(other.rows.iter().map(|row| Row {
            when: row.when + (first << 1),
            payload: codec::shift(row.tag, row.payload, offset),
            ..*row
        }));
        self.erased.extend(other.erased.iter().map(|(record, node)| (record + first, *node)));
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.arena.clear();
        self.erased.clear();
        self.record = 0;
    }

    /// Where the batch stands; `truncate` goes back there when a record fails halfway.
    pub fn mark(&self) -> (usize, usize, usize) {
        (self.rows.len(), self.arena.len(), self.erased.len())
    }

    pub fn truncate(&mut self, mark: (usize, usize, usize)) {
        self.rows.truncate(mark.0);
        self.arena.truncate(mark.1);
        self.erased.truncate(mark.2);
    }

    /// Of what a node was before the current record, nothing is known any more.
    pub fn erase(&mut self, node: NodeId) {
        self.erased.push((self.record, node));
    }

    /// Sets a property; null removes it. The value must be storable (`codec::storable`).
    pub fn set_property(&mut self, node: NodeId, key: Symbol, value: &Value) {
        if value.is_null() {
            return self.push(node, Tag::new(Kind::Property, key), true, Payload::default());
        }
        let payload = codec::encode_payload(value, &mut self.arena);
        self.push(node, Tag::new(Kind::Property, key), false, payload);
    }

    pub fn clear_properties(&mut self, node: NodeId) {
        self.push(node, Tag::new(Kind::ClearProperties, Symbol(0)), true, Payload::default());
    }

    pub fn set_label(&mut self, node: NodeId, label: Symbol, present: bool) {
        self.push(node, Tag::new(Kind::Label, label), !present, Payload::default());
    }

    /// Adds or removes an edge: both of its halves.
    pub fn set_edge(&mut self, source: NodeId, kind: Symbol, target: NodeId, ordinal: u32, present: bool) {
        if ordinal == 0 {
            self.push(source, Tag::new(Kind::Out, kind), !present, Payload::node(target));
            self.push(target, Tag::new(Kind::In, kind), !present, Payload::node(source));
        } else {
            let out = codec::encode_parallel(target, ordinal, &mut self.arena);
            self.push(source, Tag::new(Kind::OutParallel, kind), !present, out);
            let inward = codec::encode_parallel(source, ordinal, &mut self.arena);
            self.push(target, Tag::new(Kind::InParallel, kind), !present, inward);
        }
    }

    /// Sets a property of an edge; null removes it.
    pub fn set_edge_property(&mut self, source: NodeId, kind: Symbol, target: NodeId, ordinal: u32, key: Symbol, value: &Value) {
        let payload = codec::encode_edge_property(target, ordinal, key, value, &mut self.arena);
        self.push(source, Tag::new(Kind::EdgeProperty, kind), value.is_null(), payload);
    }

    fn push(&mut self, node: NodeId, tag: Tag, removes: bool, payload: Payload) {
        self.rows.push(Row { node, tag, when: (self.record << 1) | u32::from(removes), payload });
    }
}
