//! Random graphs as the records that make them: nodes, labels, properties and edges come and go; there are self loops, a node
//! that many edges touch and, in the graph model of openCypher, parallel edges. Where a world has a clock, some of their
//! properties are moments around it; in some worlds, others are values that are hard to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use weir_engine::symbols::Symbols;
use weir_model::random::STEP;
use weir_model::temporal::DateTime;
use weir_model::{IdScheme, Mutations, NodeId, Value};

use super::mixed;
use crate::random::Random;

pub const LABELS: &[&str] = &["A", "B", "C"];
pub const KINDS: &[&str] = &["R", "S", "T"];

/// Nodes that are never deleted, whatever happens: what a query may name by its id.
pub const LASTING: usize = 2;

const NODES: usize = 7;

/// Where the clock of a world begins, in milliseconds since 1970: ahead of any machine's, so that it stands still until it is
/// driven, and so shortly before the year 2100 that the day turns on the way.
pub const BEGIN: u64 = NEW_YEAR - 20;
const NEW_YEAR: u64 = 4_102_444_800_000;
/// Moments lie within this many milliseconds from `BEGIN` on.
const MOMENTS: u64 = 48;

pub fn moment(random: &mut Random) -> i64 {
    (BEGIN + random.below(MOMENTS)) as i64
}

pub fn node(n: usize) -> NodeId {
    NodeId::new((n as u64 + 1).wrapping_mul(STEP), n as u64)
}

/// A graph's life, record by record.
#[derive(Clone, Debug)]
pub struct History {
    pub open_cypher: bool,
    pub records: Vec<Record>,
}

/// What one record does, in the order in which it does it.
pub type Record = Vec<Change>;

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// In the graph model of openCypher a node is there from here on.
    Exists(usize, bool),
    Label(usize, &'static str, bool),
    Property(usize, &'static str, Value),
    ClearProperties(usize),
    Edge(Edge, bool),
    EdgeProperty(Edge, &'static str, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub source: usize,
    pub kind: &'static str,
    pub target: usize,
    pub ordinal: u32,
}

/// What a property of each key holds. Of `z` nobody knows; no number of it is an integer and a float at once, so that
/// values which sort alike are the same. `t` is a moment, `d` one as an instant, `ref` the text of the id of some node,
/// mostly of the one that has most edges, `v` anything that is hard to compare.
pub fn property(random: &mut Random, key: &str) -> Value {
    let text = |random: &mut Random| Value::text(["", "a", "b", "ab", "B"][random.below(5) as usize]);
    match key {
        "x" | "y" | "w" => Value::Integer(random.below(5) as i64 - 1),
        "f" => Value::Float([-0.5, 0.5, 1.0, 2.5][random.below(4) as usize]),
        "s" => text(random),
        "b" => Value::Boolean(random.once_in(2)),
        "t" => Value::Integer(moment(random)),
        "v" => mixed::value(random),
        "d" => {
            let millis = moment(random);
            let nano = millis.rem_euclid(1000) * 1_000_000;
            Value::DateTime(Arc::new(DateTime::utc(millis.div_euclid(1000), nano as i32)))
        }
        "ref" => {
            let of = if random.once_in(2) { 0 } else { random.below(NODES as u64) as usize };
            Value::text(&IdScheme::default().text(node(of)))
        }
        "l" => Value::list((0..random.below(4)).map(|_| Value::Integer(random.below(4) as i64)).collect()),
        _ => match random.below(5) {
            0 => text(random),
            1 => Value::Boolean(random.once_in(2)),
            2 => Value::Float(1.5),
            3 => Value::list(vec![Value::Integer(1), Value::text("a")]),
            _ => Value::Integer(random.below(3) as i64),
        },
    }
}

const NODE_KEYS: &[&str] = &["x", "y", "f", "s", "b", "l", "z", "x", "y"];
const EDGE_KEYS: &[&str] = &["w", "s"];
/// Of what is set beside another property.
const BESIDE_KEYS: &[&str] = &["ref", "ref", "l", "x", "x"];
/// What a world may have beside the others; its edges have the first of them.
pub const MOMENT_KEYS: &[&str] = &["t", "t", "d"];
pub const MIXED_KEYS: &[&str] = &["v"];

/// What is there while a history is made.
#[derive(Default)]
struct Present {
    /// Keys that are set beside the others.
    beside: &'static [&'static str],
    nodes: BTreeSet<usize>,
    edges: BTreeMap<Edge, BTreeSet<&'static str>>,
}

impl History {
    pub fn random(random: &mut Random, (open_cypher, beside): (bool, &'static [&'static str]), count: usize) -> History {
        let mut present = Present { beside, ..Present::default() };
        let mut first = Vec::new();
        for n in 0..LASTING {
            present.nodes.insert(n);
            first.extend([Change::Exists(n, true), Change::Property(n, "k", Value::Integer(n as i64))]);
        }
        let mut records = vec![first];
        while records.len() < count {
            let mut record = Vec::new();
            for _ in 0..=random.below(4) {
                present.change(random, open_cypher, &mut record);
            }
            records.push(record);
        }
        History { open_cypher, records }
    }

    /// More properties, beside some of those that are set: so the nodes are there.
    pub fn add_properties(&mut self, random: &mut Random) {
        for record in &mut self.records {
            for change in std::mem::take(record) {
                let set = if let Change::Property(n, ..) = &change { Some(*n) } else { None };
                record.push(change);
                if let Some(n) = set.filter(|_| random.once_in(3)) {
                    let key = choose(random, BESIDE_KEYS);
                    let value = if random.once_in(6) { Value::Null } else { property(random, key) };
                    record.push(Change::Property(n, key, value));
                }
            }
        }
    }

    /// One record as the engine takes it.
    pub fn mutations(&self, record: &Record, symbols: &Symbols) -> Mutations {
        let mut out = Mutations::default();
        for change in record {
            match change {
                // Where no node is there or not, nothing says so.
                Change::Exists(..) if !self.open_cypher => {}
                Change::Exists(n, present) => out.set_label(node(*n), symbols.intern(""), *present),
                Change::Label(n, label, present) => out.set_label(node(*n), symbols.intern(label), *present),
                Change::Property(n, key, value) => out.set_property(node(*n), symbols.intern(key), value),
                Change::ClearProperties(n) => out.clear_properties(node(*n)),
                Change::Edge(edge, present) => {
                    out.set_edge(node(edge.source), symbols.intern(edge.kind), node(edge.target), edge.ordinal, *present);
                }
                Change::EdgeProperty(edge, key, value) => {
                    let (source, target) = (node(edge.source), node(edge.target));
                    out.set_edge_property(source, symbols.intern(edge.kind), target, edge.ordinal, symbols.intern(key), value);
                }
            }
        }
        out
    }

    /// For people: a line a record.
    pub fn shown(&self) -> String {
        let mut text = format!("graph model: {}\n", if self.open_cypher { "open-cypher" } else { "streaming" });
        for record in &self.records {
            let changes: Vec<String> = record.iter().map(|change| format!("{change:?}")).collect();
            let _ = writeln!(text, "  {}", changes.join("; "));
        }
        text
    }
}

impl Present {
    fn change(&mut self, random: &mut Random, open_cypher: bool, out: &mut Record) {
        let n = random.below(NODES as u64) as usize;
        if open_cypher && !self.nodes.contains(&n) {
            self.nodes.insert(n);
            out.push(Change::Exists(n, true));
        }
        if !self.beside.is_empty() && random.once_in(3) {
            let key = choose(random, self.beside);
            let value = if random.once_in(6) { Value::Null } else { property(random, key) };
            out.push(Change::Property(n, key, value));
            return;
        }
        match random.below(16) {
            0..=2 => out.push(Change::Label(n, choose(random, LABELS), !random.once_in(8))),
            3..=6 => {
                let key = choose(random, NODE_KEYS);
                let value = if random.once_in(5) { Value::Null } else { property(random, key) };
                out.push(Change::Property(n, key, value));
            }
            7..=11 => self.add_edge(random, open_cypher, n, out),
            12 => self.set_edge_property(random, out),
            13 => {
                let at = random.below(self.edges.len().max(1) as u64) as usize;
                if let Some(edge) = self.edges.keys().nth(at).copied() {
                    self.remove_edge(edge, out);
                }
            }
            14 if n >= LASTING => out.push(Change::ClearProperties(n)),
            15 if n >= LASTING => self.delete(n, out),
            _ => out.push(Change::Label(n, choose(random, LABELS), true)),
        }
    }

    fn add_edge(&mut self, random: &mut Random, open_cypher: bool, n: usize, out: &mut Record) {
        let mut other = if random.once_in(3) { 0 } else { random.below(NODES as u64) as usize };
        if open_cypher && !self.nodes.contains(&other) {
            other = n;
        }
        let (source, target) = if random.once_in(2) { (n, other) } else { (other, n) };
        let ordinal = if open_cypher && random.once_in(4) { 1 + random.below(2) as u32 } else { 0 };
        let edge = Edge { source, kind: choose(random, KINDS), target, ordinal };
        self.edges.entry(edge).or_default();
        out.push(Change::Edge(edge, true));
    }

    fn set_edge_property(&mut self, random: &mut Random, out: &mut Record) {
        let at = random.below(self.edges.len().max(1) as u64) as usize;
        let Some((edge, keys)) = self.edges.iter_mut().nth(at) else { return };
        let key = match self.beside.first() {
            Some(&key) if random.once_in(2) => key,
            _ => choose(random, EDGE_KEYS),
        };
        keys.insert(key);
        let value = if random.once_in(5) { Value::Null } else { property(random, key) };
        out.push(Change::EdgeProperty(*edge, key, value));
    }

    fn remove_edge(&mut self, edge: Edge, out: &mut Record) {
        for key in self.edges.remove(&edge).unwrap_or_default() {
            out.push(Change::EdgeProperty(edge, key, Value::Null));
        }
        out.push(Change::Edge(edge, false));
    }

    fn delete(&mut self, n: usize, out: &mut Record) {
        let touching: Vec<Edge> = self.edges.keys().filter(|edge| edge.source == n || edge.target == n).copied().collect();
        for edge in touching {
            self.remove_edge(edge, out);
        }
        out.push(Change::ClearProperties(n));
        out.extend(LABELS.iter().map(|label| Change::Label(n, label, false)));
        out.push(Change::Exists(n, false));
        self.nodes.remove(&n);
    }
}

pub fn choose<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}
