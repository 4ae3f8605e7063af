//! Procedures that change one property of a node by what it was: counters, sets, computed keys.
//!
//! The query around them is a transaction, so what they read is what they change.

use weir_model::procedure::Each;
use weir_model::{Context, Failure, NodeId, Procedure, Text, Value, arithmetic};

use super::node;
use crate::evaluate::operators::Run;

/// The node and the key that all of them begin with.
fn place<'v>(run: &Run, procedure: &Procedure, arguments: &'v [Value]) -> Result<(NodeId, &'v Text), Failure> {
    let node = node(run, procedure, arguments)?;
    match arguments.get(1) {
        Some(Value::Text(key)) => Ok((node, key)),
        _ => Err(procedure.refused(arguments)),
    }
}

pub fn increment_counter(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    add(run, procedure, arguments, each, Value::Integer(0), "`incrementCounter` procedure")
}

pub fn int_add(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    add(run, procedure, arguments, each, Value::Integer(0), "Property accessed by int.add procedure")
}

pub fn float_add(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    add(run, procedure, arguments, each, Value::Float(0.0), "Property accessed by float.add procedure")
}

/// The property must be of the type of `nothing`, which it is taken for where it is absent.
fn add(
    run: &Run,
    procedure: &Procedure,
    arguments: &[Value],
    each: Each,
    nothing: Value,
    place_name: &str,
) -> Result<(), Failure> {
    let (node, key) = place(run, procedure, arguments)?;
    let present = match run.reader.property_by_text(node, key) {
        Value::Null => nothing,
        present if present.type_name() == nothing.type_name() => present,
        other => return Err(arithmetic::mismatch(nothing.type_name(), &other, place_name)),
    };
    let sum = arithmetic::add(&present, &arguments[2])?;
    run.set_node_property(node, key, &sum)?;
    each(&[sum]).map(drop)
}

pub fn set_insert(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    insert(run, procedure, arguments, std::slice::from_ref(&arguments[2]), each)
}

pub fn set_union(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    match &arguments[2] {
        Value::List(items) => insert(run, procedure, arguments, items, each),
        _ => Err(procedure.refused(arguments)),
    }
}

/// Elements are told apart as grouping does it: 1 and 1.0 are two.
fn insert(run: &Run, procedure: &Procedure, arguments: &[Value], more: &[Value], each: Each) -> Result<(), Failure> {
    let (node, key) = place(run, procedure, arguments)?;
    let mut items = match run.reader.property_by_text(node, key) {
        Value::Null => Vec::new(),
        Value::List(items) => items.to_vec(),
        other => {
            let place = format!("Property accessed by {} procedure", procedure.name);
            return Err(arithmetic::mismatch("List(Anything)", &other, &place));
        }
    };
    let mut known: rustc_hash::FxHashSet<Value> = items.iter().cloned().collect();
    for item in more {
        run.budget.step()?;
        if known.insert(item.clone()) {
            items.push(item.clone());
        }
    }
    let list = Value::list(items);
    run.set_node_property(node, key, &list)?;
    each(&[list]).map(drop)
}

pub fn set_property(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    let (node, key) = place(run, procedure, arguments)?;
    run.set_node_property(node, key, &arguments[2])
}
