//! Walk: runs the moves of a path depth first over one shard, changing a single row in place.

use smallvec::SmallVec;
use weir_model::plan::Name;
use weir_model::{Context, EdgeKey, Expr, FullEdge, FullNode, IdScheme, Map, NodeId, Text, Value};

use super::Time;
use super::program::{Move, NodeView, Program, Version};
use super::results::{Row, RowChange};
use crate::arrangement::build::{Located, Shard};
use crate::arrangement::{Batch, Facts, SharedBatch};
use crate::symbols::Symbols;
use crate::view::Direction;

/// What a walk works with: the shard as its trace has it now, and where its findings go.
pub struct Walk<'a> {
    pub program: &'a Program,
    pub batches: &'a [SharedBatch],
    /// The newest of them, with where its nodes lie in the others, when the walk begins there.
    pub newest: Option<(&'a Batch, &'a Located)>,
    pub symbols: &'a Symbols,
    pub shard: Shard,
    pub results: &'a mut Vec<RowChange>,
    pub parcels: &'a mut Vec<Parcel>,
}

/// A row on its way to the shard of a node, with the move it goes on with.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Parcel {
    pub node: NodeId,
    pub path: u16,
    pub at: u16,
    pub time: Time,
    pub diff: i64,
    pub row: Row,
}

/// What a row is about, apart from its slots.
#[derive(Clone, Copy)]
pub struct Change {
    pub path: usize,
    pub time: Time,
    pub diff: i64,
}

impl<'a> Walk<'a> {
    /// Goes on with move `at` of the path. `here` holds the facts of a node already found.
    pub fn run(&mut self, change: Change, at: usize, row: &mut [Value], here: Option<(NodeId, &Facts<'a>)>) {
        let program = self.program;
        let Some(next) = program.paths[change.path].moves.get(at) else {
            return self.finish(change, row);
        };
        let location = match next {
            Move::Test { condition } => {
                if is_true(condition, row, &program.context) {
                    self.run(change, at + 1, row, here);
                }
                return;
            }
            Move::Check { node, .. } => program.nodes[*node].slot,
            Move::Expand { from, .. } => *from,
        };
        let Value::Node(id) = row[location] else { return };
        if let Some((known, facts)) = here
            && known == id
        {
            return self.visit(change, at, next, row, id, facts);
        }
        if self.shard.count > 1 && id.shard(self.shard.count) != self.shard.index {
            let row = Row::from_slice(row);
            self.parcels.push(Parcel {
                node: id,
                path: change.path as u16,
                at: at as u16,
                time: change.time,
                diff: change.diff,
                row,
            });
            return;
        }
        let facts = self.find(id);
        self.visit(change, at, next, row, id, &facts);
    }

    fn find(&self, id: NodeId) -> Facts<'a> {
        if let Some((batch, located)) = self.newest
            && let Some(index) = batch.index_of(id)
        {
            return located.facts(batch, index);
        }
        Facts::find(self.batches, id)
    }

    fn visit(&mut self, change: Change, at: usize, next: &Move, row: &mut [Value], id: NodeId, facts: &Facts<'a>) {
        let tick = |version: &Version| match version {
            Version::After => change.time,
            Version::Before => change.time.wrapping_sub(1),
        };
        match next {
            Move::Check { node, version } => {
                if look(&self.program.nodes[*node], facts, tick(version), row, self) {
                    self.run(change, at + 1, row, Some((id, facts)));
                }
            }
            Move::Expand { to, outgoing, kinds, version, bound, differs, .. } => {
                let expected = if *bound { Some(row[*to].clone()) } else { None };
                let direction = if *outgoing { Direction::Outgoing } else { Direction::Incoming };
                facts.edges(direction, kinds, tick(version), &mut |half| {
                    let other = Value::Node(half.other);
                    let fits = match &expected {
                        Some(Value::Node(expected)) => *expected == half.other,
                        Some(_) => false,
                        None => !differs.iter().any(|slot| matches!(row[*slot], Value::Node(id) if id == half.other)),
                    };
                    if fits {
                        row[*to] = other;
                        self.run(change, at + 1, row, Some((id, facts)));
                    }
                });
            }
            Move::Test { .. } => {}
        }
    }

    /// Every move is made: the row is a result unless a filter says no.
    fn finish(&mut self, change: Change, row: &mut [Value]) {
        let program = self.program;
        if !program.filters.iter().all(|filter| is_true(filter, row, &program.context)) {
            return;
        }
        let mut values = SmallVec::new();
        for (_, expr) in &program.columns {
            // A row whose expression fails is no result, as in a filter.
            let Ok(value) = expr.evaluate(row, &program.context) else { return };
            values.push(value);
        }
        self.results.push(RowChange { row: Row(values), time: change.time, diff: change.diff });
    }

    fn symbol_text(&self, symbol: weir_model::Symbol) -> Text {
        self.symbols.name(symbol)
    }
}

/// Puts the local view of a node into the row; false where the node does not pass. `at` may be "before the first tick".
pub fn look(view: &NodeView, facts: &Facts<'_>, at: Time, row: &mut [Value], walk: &Walk<'_>) -> bool {
    let nothing = at == Time::MAX;
    if !view.labels.iter().all(|label| !nothing && facts.has_label(*label, at)) {
        return false;
    }
    if view.must_exist && (nothing || !facts.is_interesting(at)) {
        return false;
    }
    for (key, slot) in &view.reads {
        row[*slot] = if nothing { Value::Null } else { facts.property(*key, at) };
    }
    if let Some(slot) = view.reads_all {
        let mut map = Map::default();
        if !nothing {
            facts.properties(at, |key, value| map.push_unique(walk.symbol_text(key), value));
        }
        row[slot] = Value::Map(map.into());
    }
    view.conditions.iter().all(|condition| is_true(condition, row, &walk.program.context))
}

/// A condition that fails counts as not true: the row is no match.
fn is_true(condition: &Expr, row: &mut [Value], context: &GraphFree) -> bool {
    condition.evaluate(row, context).is_ok_and(|value| value.is_true())
}

/// The context of a standing query's expressions: everything they need of the graph already lies in the row.
#[derive(Debug)]
pub struct GraphFree {
    pub ids: IdScheme,
    pub names: Vec<Text>,
}

impl Context for GraphFree {
    fn parameter(&self, _: u32) -> &Value {
        &Value::Null
    }
    fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", |name| name.as_str())
    }
    fn property(&self, _: NodeId, _: Name) -> Value {
        Value::Null
    }
    fn property_by_text(&self, _: NodeId, _: &str) -> Value {
        Value::Null
    }
    fn has_label(&self, _: NodeId, _: Name) -> bool {
        false
    }
    fn edge_property(&self, _: &EdgeKey, _: &str) -> Value {
        Value::Null
    }
    fn full_node(&self, id: NodeId) -> FullNode {
        FullNode { id, labels: Vec::new(), properties: Map::default() }
    }
    fn full_edge(&self, edge: &EdgeKey) -> FullEdge {
        FullEdge { key: edge.clone(), properties: Map::default() }
    }
    fn degree(&self, _: NodeId) -> usize {
        0
    }
    fn ids(&self) -> IdScheme {
        self.ids
    }
    fn now_millis(&self) -> i64 {
        0
    }
}
