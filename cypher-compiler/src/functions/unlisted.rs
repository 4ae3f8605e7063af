//! Functions that the compiler writes and nobody calls: they stand in no table.

use weir_model::arithmetic::mismatch;
use weir_model::expression::{Context, Failure, Function};
use weir_model::value::Value;

use super::strict;

/// What an anchor does with its value. `id(n) = e` takes more for an id than `=` does, such as its text; `n = nodeWithId(e)`
/// takes as much.
pub static NODE_WITH_ID: Function = strict("nodeWithId", 1, 1, "nodeWithId(id :: ANY) :: NODE", node_with_id);

/// What WHERE does with its value, as a truth value: a list says whether it has elements.
pub static HOLDS: Function = strict("holds", 1, 1, "holds(condition :: ANY) :: BOOLEAN", holds);

fn node_with_id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(context.ids().node_of(&arguments[0]).map_or(Value::Null, Value::Node))
}

fn holds(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        condition @ (Value::Boolean(_) | Value::List(_)) => Ok(Value::Boolean(condition.holds())),
        other => Err(mismatch("Bool", other, "a condition")),
    }
}
