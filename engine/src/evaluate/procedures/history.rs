//! Procedures that ask for the past: what happened to a node, and what it was.

use std::sync::Arc;

use weir_model::expression::FailureKind;
use weir_model::procedure::Each;
use weir_model::{Context, Failure, NodeId, Procedure, Text, Value};

use super::{node, read};
use crate::error::EngineError;
use crate::evaluate::operators::Run;
use crate::history::{Change, Changed, Recall};
use crate::view::HalfEdge;

pub fn recall<'r>(run: &Run<'r>) -> Result<&'r Recall<'r>, Failure> {
    let message = "The past can be asked for by queries that are run once, not by those of streams and standing queries";
    run.environment.recall.ok_or_else(|| Failure::new(FailureKind::Runtime, message))
}

pub fn unavailable(error: EngineError) -> Failure {
    Failure::new(FailureKind::Runtime, error.to_string())
}

/// Which changes are wanted: `from` and `to` in milliseconds, both included, and at most `limit` of them.
struct Wanted {
    from: i64,
    to: i64,
    limit: usize,
}

impl Wanted {
    fn read(procedure: &Procedure, arguments: &[Value], at: usize) -> Result<Wanted, Failure> {
        let mut wanted = Wanted { from: i64::MIN, to: i64::MAX, limit: usize::MAX };
        let Some(Value::Map(options)) = arguments.get(at) else { return Ok(wanted) };
        for (name, value) in options.iter() {
            let Value::Integer(number) = value else { return Err(procedure.refused(arguments)) };
            match &**name {
                "from" => wanted.from = *number,
                "to" => wanted.to = *number,
                "limit" => wanted.limit = usize::try_from(*number).map_err(|_| procedure.refused(arguments))?,
                _ => {
                    let message = format!("`{}` has the options `from`, `to` and `limit`, not `{name}`", procedure.name);
                    return Err(Failure::new(FailureKind::Runtime, message));
                }
            }
        }
        Ok(wanted)
    }

    fn admits(&self, change: &Change) -> bool {
        (self.from..=self.to).contains(&millis(change))
    }
}

fn millis(change: &Change) -> i64 {
    change.tick.millis() as i64
}

/// What is told of a node is not the same after its next change: a query that commits has read it.
fn note_read(run: &Run, here: NodeId) {
    run.reader.view.labels(here, &mut |_| {});
}

/// The changes of a node that are wanted, as rows.
fn each_change(
    run: &Run,
    (here, wanted): (NodeId, &Wanted),
    row: &mut dyn FnMut(&Change) -> Option<Vec<Value>>,
    each: Each,
) -> Result<(), Failure> {
    let recall = recall(run)?;
    note_read(run, here);
    let changes = recall.changes(here).map_err(unavailable)?;
    let rows = changes.iter().filter(|change| wanted.admits(change)).filter_map(row);
    for row in rows.take(wanted.limit) {
        run.budget.step()?;
        if each(&row)?.is_break() {
            break;
        }
    }
    Ok(())
}

pub fn property_changes(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let Value::Text(wanted_key) = &arguments[1] else { return Err(procedure.refused(arguments)) };
    let row = &mut |change: &Change| match &change.what {
        Changed::Property { key, before, after } if run.reader.names.text(*key) == *wanted_key => {
            let at = Value::Integer(millis(change));
            Some(vec![Value::Text(wanted_key.clone()), after.clone(), before.clone(), at])
        }
        _ => None,
    };
    each_change(run, (here, &Wanted::read(procedure, arguments, 2)?), row, each)
}

pub fn node_changes(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let row = &mut |change: &Change| {
        let (kind, detail) = described(run, change);
        Some(vec![Value::text(kind), detail, Value::Integer(millis(change))])
    };
    each_change(run, (here, &Wanted::read(procedure, arguments, 1)?), row, each)
}

/// The changes of the edges between two nodes, as the first one sees them. A null type or direction is any.
pub fn edge_changes(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let other = run.environment.ids.node_of(&arguments[1]).ok_or_else(|| procedure.refused(arguments))?;
    let kind = if let Value::Text(kind) = &arguments[2] { Some(kind.clone()) } else { None };
    let outgoing = match &arguments[3] {
        Value::Text(direction) => match direction.to_lowercase().as_str() {
            "outgoing" => Some(true),
            "incoming" => Some(false),
            _ => {
                let message = format!("Expected a direction `outgoing` or `incoming`, but got `{direction}`");
                return Err(Failure::new(FailureKind::Runtime, message));
            }
        },
        _ => None,
    };
    let row = &mut |change: &Change| {
        let Changed::Edge { half, there } = &change.what else { return None };
        let name = run.reader.names.text(half.kind);
        let is_meant = half.other == other
            && kind.as_ref().is_none_or(|kind| *kind == name)
            && outgoing.is_none_or(|outgoing| outgoing == half.outgoing);
        let action = Value::text(if *there { "added" } else { "removed" });
        let (direction, other) = (Value::text(direction(half)), Value::Node(half.other));
        is_meant.then(|| vec![action, Value::Text(name), direction, other, Value::Integer(millis(change))])
    };
    each_change(run, (here, &Wanted::read(procedure, arguments, 4)?), row, each)
}

fn direction(half: &HalfEdge) -> &'static str {
    if half.outgoing { "outgoing" } else { "incoming" }
}

/// What a node was at the end of a millisecond, with its edges.
pub fn node_at(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let Value::Integer(at) = &arguments[1] else { return Err(procedure.refused(arguments)) };
    let recall = recall(run)?;
    if recall.is_open(*at) {
        note_read(run, here);
    }
    let (moment, recall) = recall.at(*at).map_err(unavailable)?;
    let row = run.at_moment((moment.view(), &recall), |run| {
        let node = Value::FullNode(Arc::new(run.reader.full_node(here)));
        Ok([node, Value::list(read::edges_as_maps(run, here)?)])
    })?;
    match moment.take_failure() {
        Some(error) => Err(unavailable(error)),
        None => each(&row).map(drop),
    }
}

/// Everything that happened to a node, as `debug.node` shows it; nothing where there is no history.
pub fn journal(run: &Run, here: NodeId) -> Result<Vec<Value>, Failure> {
    let changes = match run.environment.recall.map(|recall| recall.changes(here)) {
        None | Some(Err(EngineError::NoHistory)) => return Ok(Vec::new()),
        Some(changes) => changes.map_err(unavailable)?,
    };
    let entry = |change: &Change| {
        let (kind, detail) = described(run, change);
        let entries = [("kind", Value::text(kind)), ("detail", detail), ("changeTime", Value::Integer(millis(change)))];
        Value::map(entries.map(|(key, value)| (Text::const_new(key), value)))
    };
    Ok(changes.iter().map(entry).collect())
}

/// What happened, in a word and in detail.
fn described(run: &Run, change: &Change) -> (&'static str, Value) {
    let text = |symbol| Value::Text(run.reader.names.text(symbol));
    let action = |there: bool| Value::text(if there { "added" } else { "removed" });
    let edge = |half: &HalfEdge| {
        let other = Value::text(&run.environment.ids.text(half.other));
        [("edgeType", text(half.kind)), ("direction", Value::text(direction(half))), ("other", other)]
    };
    let map =
        |entries: Vec<(&'static str, Value)>| Value::map(entries.into_iter().map(|(key, value)| (Text::const_new(key), value)));
    match &change.what {
        Changed::Label { label, there } => ("label", map(vec![("action", action(*there)), ("label", text(*label))])),
        Changed::Property { key, before, after } => {
            let values = vec![("key", text(*key)), ("value", after.clone()), ("previousValue", before.clone())];
            ("property", map(values))
        }
        Changed::Edge { half, there } => ("edge", map(std::iter::once(("action", action(*there))).chain(edge(half)).collect())),
        Changed::EdgeProperty { half, key, before, after } => {
            let values = [("key", text(*key)), ("value", after.clone()), ("previousValue", before.clone())];
            ("edgeProperty", map(edge(half).into_iter().chain(values).collect()))
        }
    }
}
