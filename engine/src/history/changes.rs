//! Changes: what happened to a node, and when, as far back as history goes.

use weir_model::codec::{decode_edge_property, decode_parallel, decode_payload};
use weir_model::mutation::Kind;
use weir_model::{NodeId, Symbol, Tick, Value};

use super::erased::{erased_at, rest};
use super::past::{Ends, Past};
use crate::arrangement::versions::{Step, sequences};
use crate::error::EngineError;
use crate::view::HalfEdge;

/// One fact of a node came or went, or a property got another value.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub tick: Tick,
    pub what: Changed,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Changed {
    Label {
        label: Symbol,
        there: bool,
    },
    /// Null is a property that is not there.
    Property {
        key: Symbol,
        before: Value,
        after: Value,
    },
    Edge {
        half: HalfEdge,
        there: bool,
    },
    EdgeProperty {
        half: HalfEdge,
        key: Symbol,
        before: Value,
        after: Value,
    },
}

impl Past {
    /// What happened to a node until this moment, in the order in which it did. History that begins later than the graph begins
    /// with what there was then.
    pub fn changes(&self, node: NodeId) -> Vec<Change> {
        let (found, at) = (self.find(node, Ends::Known), self.tick().0);
        let mut changes = Vec::new();
        sequences(&super::past::hits(&found), true, 0, &mut |steps| {
            let gone = steps.first().and_then(|step| erased_at(self.erased(), node, step));
            let steps = gone.map_or(steps, |tick| rest(steps, tick, true));
            let mut before = Value::Null;
            for step in steps.iter().take_while(|step| step.tick <= at) {
                changes.push(Change { tick: Tick(step.tick), what: changed(step, &mut before) });
            }
        });
        changes.sort_by_key(|change| change.tick);
        changes
    }

    /// As `changes`, or an error where some of it cannot be read.
    pub fn all_changes(&self, node: NodeId) -> Result<Vec<Change>, EngineError> {
        let changes = self.changes(node);
        self.take_failure().map_or(Ok(changes), Err)
    }
}

/// `value` is what the fact held before, and holds after.
fn changed(step: &Step<'_>, value: &mut Value) -> Changed {
    let (tag, payload, arena) = (step.fact.tag, step.fact.payload, &step.segment.arena[..]);
    let (symbol, there) = (tag.symbol(), step.adds);
    let mut become_value = |next: Value| (std::mem::replace(value, next.clone()), next);
    match tag.kind() {
        Kind::Label => Changed::Label { label: symbol, there },
        Kind::Out | Kind::In => {
            let half = HalfEdge { kind: symbol, outgoing: tag.kind() == Kind::Out, other: payload.as_node(), ordinal: 0 };
            Changed::Edge { half, there }
        }
        Kind::OutParallel | Kind::InParallel => {
            let (other, ordinal) = decode_parallel(payload, arena);
            Changed::Edge { half: HalfEdge { kind: symbol, outgoing: tag.kind() == Kind::OutParallel, other, ordinal }, there }
        }
        Kind::EdgeProperty => {
            let (other, ordinal, key, next) = decode_edge_property(payload, arena);
            let (before, after) = become_value(if there { next } else { Value::Null });
            Changed::EdgeProperty { half: HalfEdge { kind: symbol, outgoing: true, other, ordinal }, key, before, after }
        }
        Kind::Property | Kind::ClearProperties => {
            let (before, after) = become_value(if there { decode_payload(payload, arena) } else { Value::Null });
            Changed::Property { key: symbol, before, after }
        }
    }
}
