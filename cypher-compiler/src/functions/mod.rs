//! The table of functions a query may call.
//!
//! Owns names, arity and null rules; each file below holds the functions of one subject. Knows values and the graph only
//! through `Context`. Aggregates are no functions: they are kinds of `Aggregate`, found by the binder.
//!
//! A new function is one row in the table of its subject.

mod graph;

use std::collections::HashMap;
use std::sync::LazyLock;

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::value::Value;

type Run = fn(&dyn Context, &[Value]) -> Result<Value, Failure>;

/// The function of that name, found without regard to case, namespace included.
pub fn find(name: &str) -> Option<&'static Function> {
    static BY_NAME: LazyLock<HashMap<String, &'static Function>> =
        LazyLock::new(|| all().map(|f| (f.name.to_lowercase(), f)).collect());
    BY_NAME.get(&name.to_lowercase()).copied()
}

/// Every function, subject by subject.
pub fn all() -> impl Iterator<Item = &'static Function> {
    [graph::FUNCTIONS].into_iter().flatten()
}

/// A function of its arguments alone, null as soon as one of them is.
const fn strict(name: &'static str, arguments_min: usize, arguments_max: usize, signature: &'static str, run: Run) -> Function {
    Function { name, arguments_min, arguments_max, signature, null_in_null_out: true, pure: true, run }
}

/// Arguments of a type the function is not for.
fn wrong_signature(signature: &str, arguments: &[Value]) -> Failure {
    let _ = arguments;
    Failure::new(FailureKind::WrongSignature, format!("Expected signature `{signature}` but got other arguments"))
}
