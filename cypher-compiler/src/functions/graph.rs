//! Functions of nodes, edges and paths.

use weir_model::expression::{Context, Failure, Function};
use weir_model::id::IdScheme;
use weir_model::value::Value;

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[strict("id", 1, 1, "id(node :: NODE) :: ANY", id)];

/// An integer under the scheme `long`, else the id itself.
fn id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let node = match &arguments[0] {
        Value::Node(node) => *node,
        Value::FullNode(node) => node.id,
        _ => return Err(wrong_signature("id(node :: NODE) :: ANY", arguments)),
    };
    Ok(match context.ids() {
        IdScheme::Long { .. } => Value::Integer(node.low as i64),
        _ => Value::Id(node),
    })
}
