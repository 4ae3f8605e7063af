//! `castOrNull.T` and `castOrThrow.T`: no conversion, only the claim that a value is of a type.

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::value::Value;

use super::conversion::type_name;
use super::strict;

/// Both casts of one type.
macro_rules! casts {
    ($($type:literal $kind:literal $example:literal),* $(,)?) => {
        &[$(
            strict(
                concat!("castOrNull.", $type), 1, 1,
                concat!("castOrNull.", $type, "(value :: ANY) :: ", $kind),
                |_: &dyn Context, arguments: &[Value]| Ok(cast(&arguments[0], $kind).unwrap_or_default()),
            )
            .about(
                concat!("The value itself if its type is ", $kind, ", else null. Converts nothing."),
                concat!("RETURN castOrNull.", $type, "(", $example, ") IS NOT NULL"),
            ),
            strict(
                concat!("castOrThrow.", $type), 1, 1,
                concat!("castOrThrow.", $type, "(value :: ANY) :: ", $kind),
                |_: &dyn Context, arguments: &[Value]| {
                    cast(&arguments[0], $kind).ok_or_else(|| failure(&arguments[0], $kind))
                },
            )
            .about(
                concat!("The value itself if its type is ", $kind, ", else a failure. Converts nothing."),
                concat!("RETURN castOrThrow.", $type, "(", $example, ") IS NOT NULL"),
            ),
        )*]
    };
}

pub(super) static FUNCTIONS: &[Function] = casts![
    "integer" "INTEGER" "1",
    "float" "FLOAT" "1.5",
    "boolean" "BOOLEAN" "true",
    "string" "STRING" "'a'",
    "map" "MAP" "{a: 1}",
    "bytes" "BYTES" "bytes('01')",
    "node" "NODE" "gen.node.from('a')",
    "relationship" "RELATIONSHIP" "null",
    "path" "PATH" "null",
    "localdatetime" "LOCALDATETIME" "localdatetime('2024-02-03T04:05')",
    "datetime" "DATETIME" "datetime('2024-02-03T04:05Z')",
    "duration" "DURATION" "duration('PT1S')",
    "list" "LIST OF ANY" "[1]",
];

fn cast(value: &Value, kind: &str) -> Option<Value> {
    (type_name(value) == kind).then(|| value.clone())
}

fn failure(value: &Value, kind: &str) -> Failure {
    let shown = weir_model::arithmetic::shortened(value);
    Failure::new(
        FailureKind::Runtime,
        format!("Cast failed: Cypher execution cast the value {shown} to type {kind}, but it is {}", type_name(value)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    #[test]
    fn a_cast_converts_nothing() {
        assert_eq!(call("castOrNull.integer", &[Value::Integer(1)]), Ok(Value::Integer(1)));
        assert_eq!(call("castOrNull.integer", &[Value::Float(1.0)]), Ok(Value::Null));
        assert_eq!(call("castOrThrow.list", &[Value::list(vec![])]), Ok(Value::list(vec![])));
        let failure = call("castOrThrow.map", &[Value::Integer(1)]).expect_err("no map");
        assert_eq!(failure.kind, FailureKind::Runtime);
        assert!(failure.message.starts_with("Cast failed:"), "{failure}");
    }
}
