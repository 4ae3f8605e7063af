//! Values as bytes: the one form shared by mutations, the log, the pages of the store and the arrangement.
//!
//! A payload of 16 bytes holds small values itself. The lowest byte of `a` names the form:
//!
//!     0 nothing   1 false   2 true   3 integer (b)   4 float (bits in b)
//!     5 text of up to 14 bytes: length in the next byte of a, then the bytes
//!     6 text in the arena: length in the upper 4 bytes of a, offset in b
//!     7 any other value in the arena, self-describing (`encode`): length and offset as above
//!
//! A float that is no number is always the same one: which of the many NaNs a computation gives depends on the processor, and
//! equal graphs have equal bytes. Stores of before hold others, so they are made the same when they are read, too.
//!
//! Payloads that point into an arena only mean something beside it; `relocate` moves one from arena to arena.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::id::{EdgeKey, NodeId, Symbol};
use crate::mutation::{Kind, Payload, Tag};
use crate::order::identity_bits;
use crate::value::{Date, DateTime, Duration, LocalDateTime, LocalTime, Map, Text, Time, Value};

const FORM_FALSE: u8 = 1;
pub const FORM_TRUE: u8 = 2;
pub const FORM_INTEGER: u8 = 3;
pub const FORM_FLOAT: u8 = 4;
pub const FORM_TEXT: u8 = 5;
pub const FORM_LONG_TEXT: u8 = 6;
pub const FORM_ENCODED: u8 = 7;
pub const TEXT_INLINE_MAX: usize = 14;

/// Length of what precedes the value in an edge property: target, ordinal, key.
pub const EDGE_PROPERTY_HEAD: usize = 16 + 4 + 4;

pub fn encode_payload(value: &Value, arena: &mut Vec<u8>) -> Payload {
    match value {
        Value::Null => Payload::default(),
        Value::Boolean(false) => Payload { a: FORM_FALSE.into(), b: 0 },
        Value::Boolean(true) => Payload { a: FORM_TRUE.into(), b: 0 },
        Value::Integer(n) => Payload { a: FORM_INTEGER.into(), b: *n as u64 },
        Value::Float(x) => Payload { a: FORM_FLOAT.into(), b: identity_bits(*x) },
        Value::Text(text) if text.len() <= TEXT_INLINE_MAX => short_text(text.as_bytes()),
        Value::Text(text) => {
            let offset = arena.len();
            arena.extend_from_slice(text.as_bytes());
            in_arena(FORM_LONG_TEXT, offset, text.len())
        }
        other => {
            let offset = arena.len();
            encode(other, arena);
            in_arena(FORM_ENCODED, offset, arena.len() - offset)
        }
    }
}

/// Of up to `TEXT_INLINE_MAX` bytes.
pub fn short_text(text: &[u8]) -> Payload {
    let mut bytes = [0u8; 16];
    bytes[0] = FORM_TEXT;
    bytes[1] = text.len() as u8;
    bytes[2..2 + text.len()].copy_from_slice(text);
    let n = u128::from_le_bytes(bytes);
    Payload { a: n as u64, b: (n >> 64) as u64 }
}

/// The bytes of a short text, and how many of them are.
pub fn short_text_bytes(payload: Payload) -> ([u8; TEXT_INLINE_MAX], usize) {
    let bytes = (u128::from(payload.b) << 64 | u128::from(payload.a)).to_le_bytes();
    (take(&bytes, 2), usize::from(bytes[1]).min(TEXT_INLINE_MAX))
}

pub fn decode_payload(payload: Payload, arena: &[u8]) -> Value {
    match payload.a as u8 {
        FORM_FALSE => Value::Boolean(false),
        FORM_TRUE => Value::Boolean(true),
        FORM_INTEGER => Value::Integer(payload.b as i64),
        FORM_FLOAT => Value::Float(float(payload.b)),
        FORM_TEXT => {
            let (bytes, length) = short_text_bytes(payload);
            Value::Text(Text::from_utf8_lossy(&bytes[..length]))
        }
        FORM_LONG_TEXT => Value::Text(Text::from_utf8_lossy(arena_bytes(payload, arena))),
        FORM_ENCODED => stored(arena_bytes(payload, arena)),
        _ => Value::Null,
    }
}

fn float(bits: u64) -> f64 {
    f64::from_bits(identity_bits(f64::from_bits(bits)))
}

/// Whether two payloads, each with its arena, hold the same value.
pub fn same_payload(x: Payload, x_arena: &[u8], y: Payload, y_arena: &[u8]) -> bool {
    let form = x.a as u8;
    if form != y.a as u8 {
        return false;
    }
    if form >= FORM_LONG_TEXT { arena_bytes(x, x_arena) == arena_bytes(y, y_arena) } else { x == y }
}

/// Half an edge with an ordinal: the other end and the ordinal, in the arena.
pub fn encode_parallel(other: NodeId, ordinal: u32, arena: &mut Vec<u8>) -> Payload {
    let offset = arena.len();
    arena.extend_from_slice(&other.to_bytes());
    arena.extend_from_slice(&ordinal.to_be_bytes());
    in_arena(FORM_ENCODED, offset, 20)
}

#[inline]
pub fn decode_parallel(payload: Payload, arena: &[u8]) -> (NodeId, u32) {
    let bytes = arena_bytes(payload, arena);
    (NodeId::from_bytes(take(bytes, 0)), u32::from_be_bytes(take(bytes, 16)))
}

pub fn encode_edge_property(target: NodeId, ordinal: u32, key: Symbol, value: &Value, arena: &mut Vec<u8>) -> Payload {
    let offset = arena.len();
    arena.extend_from_slice(&target.to_bytes());
    arena.extend_from_slice(&ordinal.to_be_bytes());
    arena.extend_from_slice(&key.0.to_be_bytes());
    encode(value, arena);
    in_arena(FORM_ENCODED, offset, arena.len() - offset)
}

/// What `fact_key` gives for this property of the edge to `target`.
pub fn edge_property_key(target: NodeId, ordinal: u32, key: Symbol) -> FactKey {
    FactKey::Further(target.high, target.low, u64::from(ordinal) << 32 | u64::from(key.0))
}

/// What `fact_key` gives for an edge to or from `other`.
pub fn half_key(other: NodeId, ordinal: u32) -> FactKey {
    match ordinal {
        0 => FactKey::Node(other.high, other.low),
        ordinal => FactKey::Further(other.high, other.low, u64::from(ordinal)),
    }
}

/// The first and the last key that a property of the edge to `target` may have.
pub fn edge_property_keys(target: NodeId, ordinal: u32) -> (FactKey, FactKey) {
    (edge_property_key(target, ordinal, Symbol(0)), edge_property_key(target, ordinal, Symbol(u32::MAX)))
}

/// The first and the last key that an edge with an ordinal to or from `other` may have.
pub fn parallel_keys(other: NodeId) -> (FactKey, FactKey) {
    (half_key(other, 1), half_key(other, u32::MAX))
}

/// Target, ordinal, key and value of an edge property.
pub fn decode_edge_property(payload: Payload, arena: &[u8]) -> (NodeId, u32, Symbol, Value) {
    let bytes = arena_bytes(payload, arena);
    let value = stored(&bytes[EDGE_PROPERTY_HEAD..]);
    (NodeId::from_bytes(take(bytes, 0)), u32::from_be_bytes(take(bytes, 16)), Symbol(u32::from_be_bytes(take(bytes, 20))), value)
}

/// What tells facts with the same tag apart: nothing for labels and properties (a node has one of each), the other end
/// for edges, the target, ordinal and key for edge properties. Two facts are the same fact iff tag and key agree.
#[inline]
pub fn fact_key(tag: Tag, payload: Payload, arena: &[u8]) -> FactKey {
    let number = |bytes: &[u8], at| u64::from_be_bytes(take(bytes, at));
    match tag.kind() {
        Kind::Label | Kind::Property | Kind::ClearProperties => FactKey::Single,
        Kind::Out | Kind::In => FactKey::Node(payload.a, payload.b),
        Kind::OutParallel | Kind::InParallel => {
            let (other, ordinal) = decode_parallel(payload, arena);
            FactKey::Further(other.high, other.low, u64::from(ordinal))
        }
        Kind::EdgeProperty => {
            let bytes = &arena_bytes(payload, arena)[..EDGE_PROPERTY_HEAD];
            FactKey::Further(number(bytes, 0), number(bytes, 8), number(bytes, 16))
        }
    }
}

/// The first part of a `FactKey::Further`. Most keys differ there, and need not be made.
#[inline]
pub fn first_of_key(payload: Payload, arena: &[u8]) -> u64 {
    u64::from_be_bytes(take(arena_bytes(payload, arena), 0))
}

/// In the order of the bytes they are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum FactKey {
    Single,
    Node(u64, u64),
    /// The other end, and the ordinal of the edge; of a property with its key behind it.
    Further(u64, u64, u64),
}

/// Whether a payload points into an arena.
fn points(tag: Tag, payload: Payload) -> bool {
    match tag.kind() {
        Kind::Property => payload.a as u8 >= FORM_LONG_TEXT,
        Kind::EdgeProperty | Kind::OutParallel | Kind::InParallel => true,
        Kind::Label | Kind::Out | Kind::In | Kind::ClearProperties => false,
    }
}

/// The payload after its arena was appended to another one that held `offset` bytes.
pub fn shift(tag: Tag, payload: Payload, offset: u64) -> Payload {
    if points(tag, payload) { Payload { b: payload.b.wrapping_add(offset), ..payload } } else { payload }
}

/// Where the bytes lie that a payload points at.
pub fn extent(tag: Tag, payload: Payload) -> Option<Range<usize>> {
    let start = payload.b as usize;
    points(tag, payload).then(|| start..start + (payload.a >> 32) as usize)
}

/// Whether a payload read from outside is one this codec could have written beside an arena of this length.
pub fn payload_in_range(tag: Tag, payload: Payload, arena: usize) -> bool {
    if !points(tag, payload) {
        return tag.kind() != Kind::Property || payload.a as u8 <= FORM_TEXT;
    }
    let length = (payload.a >> 32) as usize;
    let length_min = match tag.kind() {
        Kind::EdgeProperty => EDGE_PROPERTY_HEAD,
        Kind::OutParallel | Kind::InParallel => 20,
        _ => 0,
    };
    let end = (payload.b as usize).checked_add(length);
    payload.a as u8 <= FORM_ENCODED && length >= length_min && end.is_some_and(|end| end <= arena)
}

/// Copies what a payload points at from one arena to another, and points there.
pub fn relocate(tag: Tag, payload: Payload, from: &[u8], to: &mut Vec<u8>) -> Payload {
    if !points(tag, payload) {
        return payload;
    }
    let bytes = arena_bytes(payload, from);
    let offset = to.len();
    to.extend_from_slice(bytes);
    Payload { a: payload.a, b: offset as u64 }
}

/// Whether a value may be a property: everything but references into the graph. Lists and maps hold storable values.
pub fn storable(value: &Value) -> bool {
    match value {
        Value::Node(_) | Value::Edge(_) | Value::Path(_) | Value::FullNode(_) | Value::FullEdge(_) => false,
        Value::List(items) => items.iter().all(storable),
        Value::Map(map) => map.iter().all(|(_, v)| storable(v)),
        _ => true,
    }
}

/// A payload of this form that points into an arena.
pub fn in_arena(form: u8, offset: usize, length: usize) -> Payload {
    Payload { a: u64::from(form) | (length as u64) << 32, b: offset as u64 }
}

/// What a payload points at.
#[inline]
pub fn arena_bytes(payload: Payload, arena: &[u8]) -> &[u8] {
    let offset = payload.b as usize;
    &arena[offset..offset + (payload.a >> 32) as usize]
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Appends any value, self-describing. Integers are little endian; lengths are 4 bytes.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    let text = |out: &mut Vec<u8>, s: &str| {
        out.extend_from_slice(&(s.len() as u32).to_le_bytes());
        out.extend_from_slice(s.as_bytes());
    };
    match value {
        Value::Null => out.push(0),
        Value::Boolean(b) => out.push(1 + u8::from(*b)),
        Value::Integer(n) => {
            out.push(3);
            out.extend_from_slice(&n.to_le_bytes());
        }
        Value::Float(x) => {
            out.push(4);
            out.extend_from_slice(&identity_bits(*x).to_le_bytes());
        }
        Value::Text(s) => {
            out.push(5);
            text(out, s);
        }
        Value::Bytes(bytes) => {
            out.push(6);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Value::Id(id) => {
            out.push(7);
            out.extend_from_slice(&id.to_bytes());
        }
        Value::List(items) => {
            out.push(8);
            out.extend_from_slice(&(items.len() as u32).to_le_bytes());
            items.iter().for_each(|item| encode(item, out));
        }
        Value::Map(map) => {
            out.push(9);
            encode_map(map, out);
        }
        Value::Date(d) => {
            out.push(10);
            out.extend_from_slice(&d.epoch_day.to_le_bytes());
        }
        Value::LocalTime(t) => {
            out.push(11);
            out.extend_from_slice(&t.nano_of_day.to_le_bytes());
        }
        Value::Time(t) => {
            out.push(12);
            out.extend_from_slice(&t.nano_of_day.to_le_bytes());
            out.extend_from_slice(&t.offset_seconds.to_le_bytes());
        }
        Value::LocalDateTime(t) => {
            out.push(13);
            out.extend_from_slice(&t.epoch_day.to_le_bytes());
            out.extend_from_slice(&t.nano_of_day.to_le_bytes());
        }
        Value::DateTime(t) => {
            out.push(14);
            out.extend_from_slice(&t.epoch_second.to_le_bytes());
            out.extend_from_slice(&t.nano.to_le_bytes());
            out.extend_from_slice(&t.offset_seconds.to_le_bytes());
            text(out, t.zone.as_deref().unwrap_or(""));
        }
        Value::Duration(d) => {
            out.push(15);
            for n in [d.months, d.days, d.seconds] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            out.extend_from_slice(&d.nanos.to_le_bytes());
        }
        Value::Node(id) => {
            out.push(16);
            out.extend_from_slice(&id.to_bytes());
        }
        Value::Edge(edge) => {
            out.push(17);
            encode_edge(edge, out);
        }
        Value::Path(path) => {
            out.push(18);
            out.extend_from_slice(&path.start.to_bytes());
            out.extend_from_slice(&(path.steps.len() as u32).to_le_bytes());
            for (edge, node) in &path.steps {
                encode_edge(edge, out);
                out.extend_from_slice(&node.to_bytes());
            }
        }
        Value::FullNode(node) => {
            out.push(19);
            out.extend_from_slice(&node.id.to_bytes());
            out.extend_from_slice(&(node.labels.len() as u32).to_le_bytes());
            node.labels.iter().for_each(|label| text(out, label));
            encode_map(&node.properties, out);
        }
        Value::FullEdge(edge) => {
            out.push(20);
            encode_edge(&edge.key, out);
            encode_map(&edge.properties, out);
        }
    }
}

/// By key: equal maps have the same bytes, and what is stored reads the same however it was written.
fn encode_map(map: &Map, out: &mut Vec<u8>) {
    out.extend_from_slice(&(map.len() as u32).to_le_bytes());
    for (key, value) in map.in_order() {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(key.as_bytes());
        encode(value, out);
    }
}

fn encode_edge(edge: &EdgeKey, out: &mut Vec<u8>) {
    out.extend_from_slice(&edge.source.to_bytes());
    out.extend_from_slice(&edge.target.to_bytes());
    out.extend_from_slice(&edge.ordinal.to_le_bytes());
    out.extend_from_slice(&(edge.kind.len() as u32).to_le_bytes());
    out.extend_from_slice(edge.kind.as_bytes());
}

/// Whom to tell of a value that is stored and cannot be read.
static UNREADABLE: OnceLock<fn(usize)> = OnceLock::new();

/// From now on `tell` gets the length in bytes of every value that is stored and cannot be read, whenever one is asked for. Who
/// says so first is told.
pub fn on_unreadable(tell: fn(usize)) {
    let _ = UNREADABLE.set(tell);
}

/// A value that was stored; null where it cannot be read, as there is nobody here who could refuse the rest of its node.
fn stored(bytes: &[u8]) -> Value {
    decode(&mut &*bytes).unwrap_or_else(|| {
        if let Some(tell) = UNREADABLE.get() {
            tell(bytes.len());
        }
        Value::Null
    })
}

/// Reads one value and moves past it. None when the bytes are no value: damage, or a format from the future.
pub fn decode(bytes: &mut &[u8]) -> Option<Value> {
    Reader { bytes, depth: 0 }.value()
}

/// Nesting beyond this is damage, not data: nothing is stored that is nested as deep (`extent::STORED_DEPTH_MAX`).
const DEPTH_MAX: usize = 512;

struct Reader<'a, 'b> {
    bytes: &'a mut &'b [u8],
    depth: usize,
}

impl Reader<'_, '_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        *self.bytes = rest;
        Some(*head)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        self.array().map(|b| u32::from_le_bytes(b) as usize)
    }

    fn slice(&mut self) -> Option<&[u8]> {
        let length = self.length()?;
        let (head, rest) = self.bytes.split_at_checked(length)?;
        *self.bytes = rest;
        Some(head)
    }

    fn text(&mut self) -> Option<Text> {
        Text::from_utf8(self.slice()?).ok()
    }

    fn node(&mut self) -> Option<NodeId> {
        self.array().map(NodeId::from_bytes)
    }

    fn map(&mut self) -> Option<Map> {
        let length = self.length()?;
        let mut map = Map::default();
        for _ in 0..length {
            let key = self.text()?;
            map.push_unique(key, self.value()?);
        }
        Some(map)
    }

    fn edge(&mut self) -> Option<EdgeKey> {
        let (source, target) = (self.node()?, self.node()?);
        let ordinal = self.array().map(u32::from_le_bytes)?;
        Some(EdgeKey { source, kind: self.text()?, target, ordinal })
    }

    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let [tag] = self.array::<1>()?;
        let value = match tag {
            0 => Value::Null,
            1 => Value::Boolean(false),
            2 => Value::Boolean(true),
            3 => Value::Integer(self.i64()?),
            4 => Value::Float(float(self.i64()? as u64)),
            5 => Value::Text(self.text()?),
            6 => Value::Bytes(self.slice()?.into()),
            7 => Value::Id(self.node()?),
            8 => {
                let length = self.length()?;
                let mut items = Vec::new();
                for _ in 0..length {
                    items.push(self.value()?);
                }
                Value::list(items)
            }
            9 => Value::Map(Arc::new(self.map()?)),
            10 => Value::Date(Date { epoch_day: self.i64()? }),
            11 => Value::LocalTime(LocalTime { nano_of_day: self.i64()? }),
            12 => Value::Time(Time { nano_of_day: self.i64()?, offset_seconds: self.i32()? }),
            13 => Value::LocalDateTime(LocalDateTime { epoch_day: self.i64()?, nano_of_day: self.i64()? }),
            14 => {
                let (epoch_second, nano, offset_seconds) = (self.i64()?, self.i32()?, self.i32()?);
                let zone = Some(self.text()?).filter(|zone| !zone.is_empty());
                Value::DateTime(Arc::new(DateTime { epoch_second, nano, offset_seconds, zone }))
            }
            15 => {
                let (months, days, seconds, nanos) = (self.i64()?, self.i64()?, self.i64()?, self.i32()?);
                Value::Duration(Arc::new(Duration { months, days, seconds, nanos }))
            }
            16 => Value::Node(self.node()?),
            17 => Value::Edge(Arc::new(self.edge()?)),
            18 => {
                let start = self.node()?;
                let length = self.length()?;
                let mut steps = Vec::new();
                for _ in 0..length {
                    steps.push((self.edge()?, self.node()?));
                }
                Value::Path(Arc::new(crate::value::Path { start, steps }))
            }
            19 => {
                let id = self.node()?;
                let length = self.length()?;
                let mut labels = Vec::new();
                for _ in 0..length {
                    labels.push(self.text()?);
                }
                Value::FullNode(Arc::new(crate::value::FullNode { id, labels, properties: self.map()? }))
            }
            20 => Value::FullEdge(Arc::new(crate::value::FullEdge { key: self.edge()?, properties: self.map()? })),
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn there_is_one_value_that_is_no_number() {
        let others = [-f64::NAN, f64::from_bits(f64::NAN.to_bits() | 1), std::hint::black_box(0.0) / std::hint::black_box(0.0)];
        let bits = f64::NAN.to_bits();
        for other in others {
            let (mut arena, mut list) = (Vec::new(), Vec::new());
            assert_eq!(encode_payload(&Value::Float(other), &mut arena).b, bits);
            encode(&Value::list(vec![Value::Float(other)]), &mut list);
            assert_eq!(list[list.len() - 8..], bits.to_le_bytes());
            // As stores of before have it.
            let payload = Payload { a: FORM_FLOAT.into(), b: other.to_bits() };
            assert!(matches!(decode_payload(payload, &[]), Value::Float(x) if x.to_bits() == bits));
            list.truncate(list.len() - 8);
            list.extend_from_slice(&other.to_bits().to_le_bytes());
            let Some(Value::List(items)) = decode(&mut &list[..]) else { panic!("a list") };
            assert!(matches!(items[0], Value::Float(x) if x.to_bits() == bits));
        }
        assert_eq!(encode_payload(&Value::Float(-0.0), &mut Vec::new()).b, (-0.0f64).to_bits());
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        on_unreadable(|bytes| {
            TOLD.fetch_add(bytes, Ordering::Relaxed);
        });
        let nested = |levels: usize| (0..levels).fold(Value::Boolean(true), |value, _| Value::list(vec![value]));
        let read = |value: &Value| {
            let before = TOLD.load(Ordering::Relaxed);
            let mut arena = Vec::new();
            let payload = encode_payload(value, &mut arena);
            let of_node = decode_payload(payload, &arena);
            let payload = encode_edge_property(NodeId::new(1, 2), 0, Symbol(3), value, &mut arena);
            let (.., of_edge) = decode_edge_property(payload, &arena);
            (of_node, of_edge, TOLD.load(Ordering::Relaxed) - before)
        };
        let deepest = nested(crate::extent::STORED_DEPTH_MAX);
        assert_eq!(read(&deepest), (deepest.clone(), deepest, 0));
        // Each level is a byte and a length.
        assert_eq!(read(&nested(DEPTH_MAX)), (Value::Null, Value::Null, 2 * (5 * DEPTH_MAX + 1)));
    }
}
