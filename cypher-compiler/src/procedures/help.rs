//! What can be called, as rows.

use weir_model::{Function, Procedure, Value};

use super::all;
use crate::{Options, functions};

/// The functions openCypher has, as opposed to those that came with streaming.
const OF_OPEN_CYPHER: &[&str] = &[
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "coalesce",
    "cos",
    "cot",
    "degrees",
    "e",
    "exp",
    "floor",
    "haversin",
    "head",
    "id",
    "keys",
    "labels",
    "last",
    "left",
    "length",
    "log",
    "log10",
    "ltrim",
    "nodes",
    "pi",
    "properties",
    "radians",
    "rand",
    "range",
    "relationships",
    "replace",
    "reverse",
    "right",
    "round",
    "rtrim",
    "sign",
    "sin",
    "size",
    "split",
    "sqrt",
    "substring",
    "tail",
    "tan",
    "timestamp",
    "toboolean",
    "tofloat",
    "tointeger",
    "tolower",
    "tostring",
    "toupper",
    "trim",
    "type",
];

/// Functions and aggregates, by name.
pub fn functions() -> Vec<Vec<Value>> {
    let aggregates = functions::AGGREGATES.iter().map(|row| (row.name, row.signature, row.description));
    rows(functions::all().map(described).chain(aggregates))
}

pub fn builtins() -> Vec<Vec<Value>> {
    let builtin = |name: &str| OF_OPEN_CYPHER.contains(&name.to_lowercase().as_str());
    rows(functions::all().filter(|f| builtin(f.name)).map(described))
}

fn described(function: &Function) -> (&'static str, &'static str, &'static str) {
    (function.name, function.signature, function.description)
}

pub fn procedures(options: &Options) -> Vec<Vec<Value>> {
    let row = |procedure: &std::sync::Arc<Procedure>| {
        let mode = if procedure.writes { "WRITE" } else { "READ" };
        [procedure.name.as_str(), &procedure.signature(), &procedure.description, mode].map(Value::text).to_vec()
    };
    all(options).iter().map(row).collect()
}

fn rows(described: impl Iterator<Item = (&'static str, &'static str, &'static str)>) -> Vec<Vec<Value>> {
    let mut described: Vec<_> = described.collect();
    described.sort_by_key(|(name, ..)| name.to_lowercase());
    described.into_iter().map(|(name, signature, description)| [name, signature, description].map(Value::text).to_vec()).collect()
}
