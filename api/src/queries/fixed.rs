//! Queries of weir's own: routes that look at nodes and change them ask in Cypher like everybody else, with fixed texts.

use std::ops::ControlFlow;
use std::time::Instant;

use weir_cypher_compiler::compile;
use weir_engine::{Graph, QueryOptions};
use weir_model::{IdScheme, NodeId, Tick, Value};

use crate::app::App;
use crate::error::ApiError;

/// Who asks, of which graph, as of when, and until when.
#[derive(Clone, Copy)]
pub struct Fixed<'a> {
    pub app: &'a App,
    pub graph: &'a Graph,
    pub at: Option<Tick>,
    pub deadline: Option<Instant>,
}

impl<'a> Fixed<'a> {
    pub fn new(app: &'a App, graph: &'a Graph, at: Option<Tick>) -> Fixed<'a> {
        Fixed { app, graph, at, deadline: Instant::now().checked_add(app.queries.settings.time_max) }
    }

    pub fn each(
        &self,
        text: &str,
        parameters: &[(&str, Value)],
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let Fixed { app, graph, at, deadline } = *self;
        let compiled = app.queries.plans.get(graph, text, &[], || compile(text, &app.procedures.options(graph, Vec::new())))?;
        let value = |name: &str| parameters.iter().find(|(given, _)| *given == name).map(|(_, value)| value.clone());
        let values = compiled.prepared.plan.parameters.iter().map(|name| value(name).unwrap_or_default()).collect::<Vec<_>>();
        let options = QueryOptions { at, deadline, ..QueryOptions::default() };
        graph.query(&compiled.prepared, &values, options, each).map(drop).map_err(|error| app.queries.explained(error))
    }

    pub fn rows(&self, text: &str, parameters: &[(&str, Value)]) -> Result<Vec<Vec<Value>>, ApiError> {
        let mut rows = Vec::new();
        self.each(text, parameters, &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// An id as queries compare it.
    pub fn id(&self, id: NodeId) -> Value {
        match self.graph.ids() {
            IdScheme::Long { .. } => Value::Integer(id.low as i64),
            _ => Value::Id(id),
        }
    }
}

/// The inverse of `Fixed::id`.
pub fn node_id(value: &Value) -> Option<NodeId> {
    match value {
        Value::Id(id) => Some(*id),
        Value::Integer(low) => Some(NodeId::new(0, *low as u64)),
        _ => None,
    }
}
