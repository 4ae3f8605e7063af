//! Procedures that change labels and edges, or take a node away.

use std::sync::Arc;

use weir_model::procedure::Each;
use weir_model::{Failure, Map, Procedure, Text, Value};

use super::node;
use crate::evaluate::operators::Run;

pub fn set_labels(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    let node = node(run, procedure, arguments)?;
    let Value::List(labels) = &arguments[1] else { return Err(procedure.refused(arguments)) };
    let text = |label: &Value| if let Value::Text(text) = label { Some(text.clone()) } else { None };
    let labels: Option<Vec<Text>> = labels.iter().map(text).collect();
    // A query cannot write a label without a character either.
    let labels =
        labels.filter(|labels| labels.iter().all(|label| !label.is_empty())).ok_or_else(|| procedure.refused(arguments))?;
    run.replace_labels(node, &labels)
}

pub fn create_relationship(run: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let ids = run.environment.ids;
    let (Some(from), Value::Text(kind), Some(to)) = (ids.node_of(&arguments[0]), &arguments[1], ids.node_of(&arguments[3]))
    else {
        return Err(procedure.refused(arguments));
    };
    if kind.is_empty() {
        return Err(procedure.refused(arguments));
    }
    let none = Map::default();
    let properties = if let Value::Map(map) = &arguments[2] { map } else { &none };
    let edge = run.create_edge_of([from, to], kind, properties)?;
    each(&[Value::Edge(Arc::new(edge))]).map(drop)
}

pub fn purge_node(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    run.purge(node(run, procedure, arguments)?);
    Ok(())
}
