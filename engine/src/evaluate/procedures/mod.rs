//! The procedures that ask or change the graph, by the names under which the compiler declares them.
//!
//! Arguments have been checked against the declaration and completed with its defaults when they come here.

pub(super) mod history;
mod property;
mod read;
mod structure;
mod walk;

use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::procedure::Each;
use weir_model::{Failure, NodeId, Procedure, Text, Value};

use super::operators::Run;

type Implementation = fn(&Run, &Procedure, &[Value], Each) -> Result<(), Failure>;

static IMPLEMENTATIONS: &[(&str, Implementation)] = &[
    ("incrementCounter", property::increment_counter),
    ("int.add", property::int_add),
    ("float.add", property::float_add),
    ("set.insert", property::set_insert),
    ("set.union", property::set_union),
    ("create.setProperty", property::set_property),
    ("create.setLabels", structure::set_labels),
    ("create.relationship", structure::create_relationship),
    ("purgeNode", structure::purge_node),
    ("recentNodes", read::recent_nodes),
    ("recentNodeIds", read::recent_node_ids),
    ("getFilteredEdges", read::filtered_edges),
    ("debug.node", read::debug_node),
    ("history.nodeAt", history::node_at),
    ("history.nodeChanges", history::node_changes),
    ("history.propertyChanges", history::property_changes),
    ("history.edgeChanges", history::edge_changes),
    ("history.edgeChangesBetween", history::edge_changes),
    ("subscribers", read::nobody),
    ("subscriptions", read::nobody),
    ("db.indexes", read::indexes),
    ("db.relationshipTypes", read::relationship_types),
    ("db.propertyKeys", read::property_keys),
    ("dbms.labels", read::labels),
    ("random.walk", walk::random_walk),
    ("debug.sleep", nothing_to_do),
    ("util.sleep", sleep),
    ("log", log),
];

pub(super) fn find(name: &str) -> Option<Implementation> {
    IMPLEMENTATIONS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// The node an argument names, by itself or by id.
fn node(run: &Run, procedure: &Procedure, arguments: &[Value]) -> Result<NodeId, Failure> {
    let named = arguments.first().and_then(|value| run.environment.ids.node_of(value));
    named.ok_or_else(|| procedure.refused(arguments))
}

/// How long a wait goes on before it is looked whether anybody still wants it.
const NAP: Duration = Duration::from_millis(10);

fn sleep(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    let Some(Value::Integer(millis)) = arguments.first() else { return Ok(()) };
    let Ok(millis) = u64::try_from(*millis) else {
        let message = format!("util.sleep takes a number of milliseconds that is not negative, but got {millis}");
        return Err(Failure::new(FailureKind::Runtime, message));
    };
    let time = Duration::from_millis(millis);
    match run.fetched {
        None => wait(run, time),
        Some(fetched) => fetched.sleep(&procedure.name, time, |left| wait(run, left)),
    }
}

fn wait(run: &Run, time: Duration) -> Result<(), Failure> {
    let until = Instant::now().checked_add(time);
    loop {
        run.budget.check()?;
        // A wait whose end is beyond the clock lasts until the query is stopped.
        let left = until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// Nodes are not kept awake, so none has to be put to sleep; that the argument names one is checked all the same.
fn nothing_to_do(run: &Run, procedure: &Procedure, arguments: &[Value], _: Each) -> Result<(), Failure> {
    node(run, procedure, arguments).map(drop)
}

/// `log(value)` and `log(level, value)`: one argument alone is the value.
fn log(_: &Run, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let (level, value) = match arguments {
        [value] => (Text::default(), value),
        [Value::Text(level), value] => (level.to_lowercase(), value),
        _ => return Err(procedure.refused(arguments)),
    };
    let text = value.shown();
    match level.as_str() {
        "error" => tracing::error!(target: "cypher", "{text}"),
        "info" => tracing::info!(target: "cypher", "{text}"),
        "debug" => tracing::debug!(target: "cypher", "{text}"),
        "trace" => tracing::trace!(target: "cypher", "{text}"),
        _ => tracing::warn!(target: "cypher", "{text}"),
    }
    each(&[Value::text(&text)]).map(drop)
}
