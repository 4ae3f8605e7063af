//! Procedures that look: some nodes, the edges at one, what is stored at one, which names are in use.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_model::expression::FailureKind;
use weir_model::procedure::Each;
use weir_model::{Context, Failure, NodeId, Procedure, Symbol, Text, Value};

use super::{history, node};
use crate::evaluate::operators::Run;
use crate::view::{Direction, EdgeRef, HalfEdge};

pub fn recent_nodes(run: &Run, _: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    some_nodes(run, arguments, &mut |id| each(&[Value::Node(id)]))
}

pub fn recent_node_ids(run: &Run, _: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    some_nodes(run, arguments, &mut |id| each(&[Value::text(&run.environment.ids.text(id))]))
}

/// Those that were written last, as far as that is known, and then any others.
fn some_nodes(
    run: &Run,
    arguments: &[Value],
    each: &mut dyn FnMut(NodeId) -> Result<std::ops::ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let count = if let Some(Value::Integer(count)) = arguments.first() { (*count).max(0) as usize } else { 0 };
    let recent = if count > 0 { run.reader.view.recent(count) } else { Vec::new() };
    for id in &recent {
        if each(*id)?.is_break() {
            return Ok(());
        }
    }
    let (mut left, mut result) = (count.saturating_sub(recent.len()), Ok(()));
    if left == 0 {
        return Ok(());
    }
    let given: FxHashSet<NodeId> = recent.into_iter().collect();
    run.reader.view.nodes(&mut |id| {
        if given.contains(&id) {
            return true;
        }
        left -= 1;
        match each(id) {
            Ok(flow) => flow.is_continue() && left > 0,
            Err(failure) => {
                result = Err(failure);
                false
            }
        }
    });
    result
}

/// The half edges of a node, taken out so that the view is free while they are used.
fn half_edges(run: &Run, node: NodeId, direction: Direction, kinds: &[Symbol]) -> Result<Vec<HalfEdge>, Failure> {
    let mut halves = Vec::new();
    run.reader.view.edges(node, direction, kinds, &mut |half| halves.push(half));
    for _ in &halves {
        run.budget.step()?;
    }
    Ok(halves)
}

fn texts<'v>(procedure: &Procedure, arguments: &'v [Value], at: usize) -> Result<Vec<&'v Text>, Failure> {
    let refused = || procedure.refused(arguments);
    let Value::List(items) = &arguments[at] else { return Err(refused()) };
    items.iter().map(|item| if let Value::Text(text) = item { Ok(text) } else { Err(refused()) }).collect()
}

pub fn filtered_edges(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let types = texts(procedure, arguments, 1)?;
    let mut kinds: Vec<Symbol> = types.iter().filter_map(|kind| run.reader.names.find(kind)).collect();
    let all_known = kinds.len() == types.len();
    kinds.sort_unstable();
    kinds.dedup();
    let (mut outgoing, mut incoming) = (false, false);
    let directions = texts(procedure, arguments, 2)?;
    for direction in &directions {
        match direction.to_lowercase().as_str() {
            "outgoing" => outgoing = true,
            "incoming" => incoming = true,
            // No edge is without a direction here.
            "undirected" => {}
            _ => {
                let message = format!("Expected a direction `outgoing`, `incoming` or `undirected`, but got `{direction}`");
                return Err(Failure::new(FailureKind::Runtime, message));
            }
        }
    }
    let direction = match (outgoing, incoming) {
        (true, false) => Direction::Outgoing,
        (false, true) => Direction::Incoming,
        (false, false) if !directions.is_empty() => return Ok(()),
        _ => Direction::Both,
    };
    let Value::List(allowed) = &arguments[3] else { return Err(procedure.refused(arguments)) };
    let allowed = allowed.iter().map(|value| run.environment.ids.node_of(value).ok_or_else(|| procedure.refused(arguments)));
    let allowed: Vec<NodeId> = allowed.collect::<Result<_, _>>()?;
    if !all_known {
        // A type nobody ever used has no symbol and no edges yet. That there are none is noted of all types, for want of it.
        run.reader.view.edges_while(here, direction, &[], &mut |_| false);
        if kinds.is_empty() {
            return Ok(());
        }
    }
    for half in half_edges(run, here, direction, &kinds)? {
        // A self loop has two halves and is one edge.
        let twice = half.other == here && !half.outgoing && direction == Direction::Both;
        if twice || !(allowed.is_empty() || allowed.contains(&half.other)) {
            continue;
        }
        let (source, target) = if half.outgoing { (here, half.other) } else { (half.other, here) };
        let edge = run.reader.edge_key(EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal });
        if each(&[Value::Edge(Arc::new(edge))])?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Which standing queries a node reports to. Matches are found by probing changes, not by state at nodes.
pub fn nobody(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    node(run, procedure, arguments).map(drop)
}

/// The edges at a node in the form of `debug.node`.
pub fn edges_as_maps(run: &Run, here: NodeId) -> Result<Vec<Value>, Failure> {
    let mut edges = Vec::new();
    for half in half_edges(run, here, Direction::Both, &[])? {
        let direction = if half.outgoing { "Outgoing" } else { "Incoming" };
        let entries = [
            ("edgeType", Value::Text(run.reader.names.text(half.kind))),
            ("direction", Value::text(direction)),
            ("other", Value::text(&run.environment.ids.text(half.other))),
        ];
        edges.push(Value::map(entries.map(|(key, value)| (Text::const_new(key), value))));
    }
    run.budget.hold(&edges)?;
    edges.sort();
    Ok(edges)
}

pub fn debug_node(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let here = node(run, procedure, arguments)?;
    let stored = run.reader.full_node(here);
    let edges = edges_as_maps(run, here)?;
    let mut properties: Vec<(Text, Value)> =
        stored.properties.iter().map(|(key, value)| (key.clone(), Value::text(&value.shown()))).collect();
    if !stored.labels.is_empty() {
        let labels = Value::list(stored.labels.iter().cloned().map(Value::Text).collect());
        properties.push(("__LABEL".into(), Value::text(&labels.shown())));
    }
    properties.sort_by(|a, b| a.0.cmp(&b.0));
    // Of the content alone, so that equal nodes have equal codes, also elsewhere.
    let mut hasher = DefaultHasher::new();
    (&properties, &edges).hash(&mut hasher);
    let nothing = || Value::list(Vec::new());
    let journal = history::journal(run, here)?;
    run.budget.hold(&journal)?;
    let moment = run.environment.recall.and_then(|recall| recall.moment());
    let columns = [
        moment.map_or(Value::Null, Value::Integer),
        Value::map(properties),
        Value::list(edges),
        Value::Null,
        Value::Null,
        Value::Null,
        nothing(),
        Value::list(journal),
        Value::Integer(hasher.finish() as i64),
    ];
    each(&columns).map(drop)
}

pub fn relationship_types(run: &Run, _: &Procedure, _: &[Value], each: Each) -> Result<(), Failure> {
    names_in_use(run, each, &|run, node, names| {
        run.reader.view.edges(node, Direction::Outgoing, &[], &mut |half| {
            names.insert(half.kind);
        });
    })
}

pub fn property_keys(run: &Run, _: &Procedure, _: &[Value], each: Each) -> Result<(), Failure> {
    names_in_use(run, each, &|run, node, names| {
        run.reader.view.properties(node, &mut |key, _| {
            names.insert(key);
        });
    })
}

pub fn indexes(run: &Run, _: &Procedure, _: &[Value], each: Each) -> Result<(), Failure> {
    let mut known = Vec::new();
    run.reader.view.indexes(&mut |label, key| known.push((label, key)));
    for (id, (label, key)) in (1..).zip(known) {
        let label = run.reader.names.text(label);
        let key = key.map(|key| run.reader.names.text(key));
        let description = match &key {
            Some(key) => format!("INDEX ON :{label}({key})"),
            None => format!("INDEX ON :{label}"),
        };
        let kind = Value::text(if key.is_some() { "RANGE" } else { "LOOKUP" });
        let properties = Value::list(key.into_iter().map(Value::Text).collect());
        let (state, failure) = (Value::text("ONLINE"), Value::text(""));
        let (name, labels) = (Value::Null, Value::list(vec![Value::Text(label)]));
        let (progress, provider) = (Value::Float(100.0), Value::map([]));
        let row =
            [Value::text(&description), name, labels, properties, state, kind, progress, provider, Value::Integer(id), failure];
        if each(&row)?.is_break() {
            break;
        }
    }
    Ok(())
}

pub fn labels(run: &Run, _: &Procedure, _: &[Value], each: Each) -> Result<(), Failure> {
    names_in_use(run, each, &|run, node, names| {
        run.reader.view.labels(node, &mut |label| {
            names.insert(label);
        });
    })
}

/// Looks at every node; the names come in the order of the alphabet.
fn names_in_use(run: &Run, each: Each, look: &dyn Fn(&Run, NodeId, &mut BTreeSet<Symbol>)) -> Result<(), Failure> {
    let (mut symbols, mut result) = (BTreeSet::new(), Ok(()));
    run.reader.view.nodes(&mut |node| {
        look(run, node, &mut symbols);
        result = run.budget.step();
        result.is_ok()
    });
    result?;
    // The empty name is that of the label by which a node is there.
    let names: BTreeSet<Text> =
        symbols.into_iter().map(|symbol| run.reader.names.text(symbol)).filter(|name| !name.is_empty()).collect();
    for name in names {
        if each(&[Value::Text(name)])?.is_break() {
            break;
        }
    }
    Ok(())
}
