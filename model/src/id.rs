//! Names of things: nodes, edges, standing queries, and the small numbers that stand for strings.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::STEP;
use crate::value::{Text, Value};

/// 128 bits that name a node. Ordered as its sixteen big-endian bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(C)]
pub struct NodeId {
    pub high: u64,
    pub low: u64,
}

impl NodeId {
    pub const fn new(high: u64, low: u64) -> NodeId {
        NodeId { high, low }
    }

    pub fn from_bytes(bytes: [u8; 16]) -> NodeId {
        NodeId::from_number(u128::from_be_bytes(bytes))
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.as_number().to_be_bytes()
    }

    pub fn from_number(n: u128) -> NodeId {
        NodeId { high: (n >> 64) as u64, low: n as u64 }
    }

    /// Ordered as the id.
    pub fn as_number(self) -> u128 {
        (u128::from(self.high) << 64) | u128::from(self.low)
    }

    /// Which of `shards` owns this node. Multiplied first, because the ids of the `long` scheme are not hashes.
    pub fn shard(self, shards: usize) -> usize {
        ((u128::from(self.mixed()) * shards as u128) >> 64) as usize
    }

    /// A number of the node whose high bits are spread evenly, whatever the scheme of the ids is.
    #[inline]
    pub const fn mixed(self) -> u64 {
        (self.high ^ self.low).wrapping_mul(STEP)
    }

    /// An id that lies where hashes do, for tests and benchmarks.
    pub const fn spread(n: u64) -> NodeId {
        NodeId::new(n.wrapping_mul(STEP), n)
    }
}

/// As UUID text, whatever the scheme: for logs and errors. Users see `IdScheme::text`.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (h, l) = (self.high, self.low);
        write!(f, "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", h >> 32, (h >> 16) & 0xffff, h & 0xffff, l >> 48, l & 0xffff_ffff_ffff)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A property key, a label or an edge type, as the number one engine's symbol table gave it. Never leaves the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol(pub u32);

/// What identifies an edge. `ordinal` is 0 except in graphs that allow parallel edges.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeKey {
    pub source: NodeId,
    pub kind: Text,
    pub target: NodeId,
    pub ordinal: u32,
}

/// Names a standing query for as long as it lives; shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct QueryId(pub NodeId);

/// How a graph makes ids out of values and shows them (`id.type`).
///
/// Ids live in 128 bits, so the schemes `byte-array` and the partitioned ones are refused by the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum IdScheme {
    #[default]
    Uuid,
    Uuid3 {
        namespace: [u8; 16],
    },
    Uuid4,
    Uuid5 {
        namespace: [u8; 16],
    },
    /// `consecutive`: ids are the full 64 bits of the hash instead of its remainder by 2^53.
    Long {
        consecutive: bool,
    },
}

impl IdScheme {
    /// What a user sees: `strId(n)`, the `id` of JSON answers.
    pub fn text(&self, id: NodeId) -> String {
        match self {
            IdScheme::Long { .. } => (id.low as i64).to_string(),
            _ if self.is_own(id) => id.to_string(),
            _ => format!("#{:016X}{:016X}", id.high, id.low),
        }
    }

    /// Whether an id is of the version the scheme makes, where it makes one. Others come from bytes alone.
    fn is_own(&self, id: NodeId) -> bool {
        let version = match self {
            IdScheme::Uuid3 { .. } => 3,
            IdScheme::Uuid4 => 4,
            IdScheme::Uuid5 { .. } => 5,
            IdScheme::Uuid | IdScheme::Long { .. } => return true,
        };
        id.high >> 12 & 0xf == version
    }

    /// The node a value names, if it names one: what `id(n) = value` accepts.
    pub fn node_of(&self, value: &Value) -> Option<NodeId> {
        match value {
            Value::Node(id) => Some(*id),
            Value::FullNode(node) => Some(node.id),
            Value::Id(id) => self.has(*id).then_some(*id),
            Value::Integer(n) if matches!(self, IdScheme::Long { .. }) => Some(NodeId::new(0, *n as u64)),
            Value::Text(text) => self.parse(text),
            Value::Bytes(bytes) => self.of_bytes(bytes),
            _ => None,
        }
    }

    /// Whether an id is of as many bits as those of the scheme. What is longer would be shown cut, as the id of another node.
    fn has(&self, id: NodeId) -> bool {
        id.high == 0 || !matches!(self, IdScheme::Long { .. })
    }

    /// An id as its bytes: 8 of the `long` scheme, big endian, which may have as many zeros before them; else 16.
    fn of_bytes(&self, bytes: &[u8]) -> Option<NodeId> {
        if let (IdScheme::Long { .. }, Ok(bytes)) = (self, <[u8; 8]>::try_from(bytes)) {
            return Some(NodeId::new(0, u64::from_be_bytes(bytes)));
        }
        <[u8; 16]>::try_from(bytes).ok().map(NodeId::from_bytes).filter(|id| self.has(*id))
    }

    /// The inverse of `text`; also accepts `#` and hexadecimal digits, and upper-case UUIDs.
    pub fn parse(&self, text: &str) -> Option<NodeId> {
        if let Some(hex) = text.strip_prefix('#') {
            return match hex.len() {
                32 => hex_id(hex).filter(|id| self.has(*id)),
                16 if matches!(self, IdScheme::Long { .. }) => hex_id(hex),
                _ => None,
            };
        }
        match self {
            IdScheme::Long { .. } => text.parse::<i64>().ok().map(|n| NodeId::new(0, n as u64)),
            _ => {
                // Leading zeros of a part may be left out, as Java's parser allows.
                let parts: Vec<&str> = text.split('-').collect();
                let fits = |(part, length): (&&str, usize)| (1..=length).contains(&part.len());
                let widths = [8, 4, 4, 4, 12];
                if parts.len() != widths.len() || !parts.iter().zip(widths).all(fits) {
                    return None;
                }
                let padded: String = parts.iter().zip(widths).map(|(part, width)| format!("{part:0>width$}")).collect();
                hex_id(&padded).filter(|id| self.is_own(*id))
            }
        }
    }
}

/// As the configuration says it (`id.type` and what belongs to it). Two schemes with one text make the same ids and show them
/// alike.
impl fmt::Display for IdScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, namespace) = match self {
            IdScheme::Uuid => ("uuid", None),
            IdScheme::Uuid3 { namespace } => ("uuid-3", Some(namespace)),
            IdScheme::Uuid4 => ("uuid-4", None),
            IdScheme::Uuid5 { namespace } => ("uuid-5", Some(namespace)),
            IdScheme::Long { consecutive: false } => ("long", None),
            IdScheme::Long { consecutive: true } => ("long with consecutive-start", None),
        };
        f.write_str(name)?;
        // The one that is taken where none is given.
        match namespace.filter(|namespace| **namespace != [0; 16]) {
            Some(namespace) => write!(f, " with namespace {}", NodeId::from_bytes(*namespace)),
            None => Ok(()),
        }
    }
}

fn hex_id(hex: &str) -> Option<NodeId> {
    if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let n = u128::from_str_radix(hex, 16).ok()?;
    Some(NodeId { high: (n >> 64) as u64, low: n as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_another_version_are_shown_as_bytes() {
        let text = "27dd96d6-75be-30f8-8d97-71b670468f39";
        let id = IdScheme::Uuid.parse(text).expect("a UUID");
        for scheme in [IdScheme::Uuid, IdScheme::Uuid3 { namespace: [0; 16] }] {
            assert_eq!((scheme.text(id).as_str(), scheme.parse(text)), (text, Some(id)));
        }
        for scheme in [IdScheme::Uuid4, IdScheme::Uuid5 { namespace: [0; 16] }] {
            assert_eq!(scheme.parse(text), None);
            assert_eq!(scheme.text(id), "#27DD96D675BE30F88D9771B670468F39");
            assert_eq!(scheme.parse(&scheme.text(id)), Some(id));
        }
    }

    #[test]
    fn bytes_name_the_node_that_is_shown() {
        let long = IdScheme::Long { consecutive: false };
        let named = |scheme: IdScheme, bytes: &[u8]| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let of_text = scheme.node_of(&Value::text(&format!("#{hex}")));
            assert_eq!(scheme.node_of(&Value::Bytes(bytes.into())), of_text, "{scheme} {hex}");
            of_text
        };
        let minus_five = NodeId::new(0, -5i64 as u64);
        assert_eq!(named(long, &(-5i64).to_be_bytes()), Some(minus_five));
        assert_eq!(named(long, &minus_five.to_bytes()), Some(minus_five));
        // Each of these would be shown as 5, which is another node.
        let longer = NodeId::new(1, 5);
        assert_eq!(named(long, &longer.to_bytes()), None);
        assert_eq!(long.node_of(&Value::Id(longer)), None);
        assert_eq!(named(IdScheme::Uuid, &longer.to_bytes()), Some(longer));
        for bytes in [&[5][..], &[0; 15], &[0; 17]] {
            assert_eq!((named(long, bytes), named(IdScheme::Uuid, bytes)), (None, None));
        }
        assert_eq!(named(IdScheme::Uuid, &5i64.to_be_bytes()), None);
        assert_eq!((long.parse("#+000000000000005"), long.parse("#5")), (None, None));
    }
}
