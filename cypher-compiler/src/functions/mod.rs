//! The table of functions a query may call.
//!
//! Owns names, arity and null rules; each file below holds the functions of one subject. Knows values and the graph only
//! through `Context`. Aggregates are no functions: they are kinds of `Aggregate`, found by the binder, and only described here.
//!
//! A new function is one row in the table of its subject.

mod aggregate;
mod cast;
mod conversion;
mod date_map;
mod generator;
mod graph;
mod hash;
mod iso;
mod list;
mod map;
mod math;
mod pattern;
mod span;
mod string;
mod temporal;
mod text;
mod tolerant;
mod truncate;
mod unlisted;

use std::collections::HashMap;
use std::sync::LazyLock;

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::id::{IdScheme, NodeId};
use weir_model::value::Value;

pub use aggregate::{AGGREGATES, AggregateRow};
pub(crate) use iso::duration as read_duration;
pub(crate) use iso::has_several_offsets;
pub(crate) use unlisted::{HOLDS, NODE_WITH_ID};

type Run = fn(&dyn Context, &[Value]) -> Result<Value, Failure>;

/// Subject by subject, as the reference page has them.
pub static SUBJECTS: &[(&str, &[Function])] = &[
    ("Nodes, relationships and paths", graph::FUNCTIONS),
    ("Ids and hashes", hash::FUNCTIONS),
    ("Conversion", conversion::FUNCTIONS),
    ("Conversion with null for what cannot be converted", tolerant::FUNCTIONS),
    ("Casts", cast::FUNCTIONS),
    ("Text", string::FUNCTIONS),
    ("Text by regular expressions, and of URLs", text::FUNCTIONS),
    ("Lists", list::FUNCTIONS),
    ("Maps", map::FUNCTIONS),
    ("Numbers", math::FUNCTIONS),
    ("Points in time and durations", temporal::FUNCTIONS),
    ("Points in time, cut to a unit", truncate::FUNCTIONS),
    ("From one point in time to another", span::FUNCTIONS),
    ("Values made up out of others", generator::FUNCTIONS),
];

/// The function of that name, found without regard to case, namespace included.
pub fn find(name: &str) -> Option<&'static Function> {
    static BY_NAME: LazyLock<HashMap<String, &'static Function>> =
        LazyLock::new(|| all().map(|function| (function.name.to_lowercase(), function)).collect());
    BY_NAME.get(&name.to_lowercase()).copied()
}

/// Whether a call with these arguments gives the same result whenever it is made. Constructors of points in time are impure
/// for what they do without arguments; what they read out of text is always the same.
pub fn is_constant(function: &Function, arguments: &[Value]) -> bool {
    const OF_TEXT: &[&str] = &["date", "localtime", "time", "localdatetime", "datetime"];
    let of_text = || !arguments.is_empty() && arguments.iter().all(|argument| matches!(argument, Value::Text(_)));
    function.pure || (OF_TEXT.contains(&function.name) && of_text())
}

/// Every function, subject by subject.
pub fn all() -> impl Iterator<Item = &'static Function> {
    SUBJECTS.iter().flat_map(|(_, functions)| functions.iter())
}

/// A function of its arguments alone, null as soon as one of them is.
const fn strict(name: &'static str, arguments_min: usize, arguments_max: usize, signature: &'static str, run: Run) -> Function {
    Function {
        name,
        arguments_min,
        arguments_max,
        signature,
        description: "",
        example: "",
        null_in_null_out: true,
        pure: true,
        asks_graph: false,
        run,
    }
}

/// As `strict`, but the function itself looks at nulls.
const fn lenient(name: &'static str, arguments_min: usize, arguments_max: usize, signature: &'static str, run: Run) -> Function {
    Function { null_in_null_out: false, ..strict(name, arguments_min, arguments_max, signature, run) }
}

/// As `strict`, with a result that differs from run to run.
const fn impure(name: &'static str, arguments_min: usize, arguments_max: usize, signature: &'static str, run: Run) -> Function {
    Function { pure: false, ..strict(name, arguments_min, arguments_max, signature, run) }
}

/// Arguments of a type the function is not for.
fn wrong_signature(signature: &str, arguments: &[Value]) -> Failure {
    let shown: Vec<String> = arguments.iter().map(weir_model::arithmetic::shortened).collect();
    let message = format!("Expected signature `{signature}` but got arguments {}", shown.join(", "));
    Failure::new(FailureKind::WrongSignature, message)
}

/// What `id(n)` gives.
fn id_value(ids: IdScheme, id: NodeId) -> Value {
    match ids {
        IdScheme::Long { .. } => Value::Integer(id.low as i64),
        _ => Value::Id(id),
    }
}

/// A number as a float.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

#[cfg(test)]
mod testing {
    //! Calls by name, as a query would make them.

    use weir_model::expression::{Expr, Failure, GraphFree};
    use weir_model::id::IdScheme;
    use weir_model::value::Value;

    pub fn call(name: &str, arguments: &[Value]) -> Result<Value, Failure> {
        call_with(IdScheme::Uuid, name, arguments)
    }

    pub fn call_with(ids: IdScheme, name: &str, arguments: &[Value]) -> Result<Value, Failure> {
        let function = super::find(name).unwrap_or_else(|| panic!("no function {name}"));
        assert!((function.arguments_min..=function.arguments_max).contains(&arguments.len()), "arity of {name}");
        let arguments = arguments.iter().cloned().map(Expr::Literal).collect();
        Expr::Call { function, arguments }.evaluate(&[], &GraphFree::constants(ids).at(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let mut names: Vec<String> = all().map(|function| function.name.to_lowercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(find("TEXT.regexfirstmatch").map(|f| f.name), Some("text.regexFirstMatch"));
        assert!(find("nosuch").is_none());
    }

    #[test]
    fn signatures_begin_with_the_name() {
        for function in all() {
            assert!(function.signature.starts_with(&format!("{}(", function.name)), "{}", function.signature);
            assert!(function.arguments_min <= function.arguments_max, "{}", function.name);
        }
    }

    #[test]
    fn the_library_of_the_service_is_here() {
        let built_in = "abs acos asin atan atan2 ceil coalesce cos cot degrees e exp floor haversin head id keys labels last left \
                        length log log10 lTrim nodes pi properties radians rand range relationships replace reverse right rTrim \
                        round sign sin size split sqrt substring tail tan timestamp toBoolean toFloat toInteger toLower toString \
                        toUpper trim type startNode endNode exists";
        let user_defined = "strId quineId bytes convert.stringToBytes hash kafkaHash idFrom locIdFrom getHost toJson parseJson \
                            text.utf8Decode text.utf8Encode map.fromPairs map.sortedProperties map.merge map.removeKey \
                            map.dropNullValues text.split text.regexFirstMatch text.regexGroups text.regexReplaceAll \
                            text.urlencode text.urldecode datetime date time localtime localdatetime duration duration.between \
                            temporal.format coll.max coll.min meta.type";
        for name in built_in.split_whitespace().chain(user_defined.split_whitespace()) {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn only_what_is_always_the_same_is_constant() {
        let constant = |name: &str, arguments: &[Value]| is_constant(find(name).expect(name), arguments);
        assert!(constant("abs", &[Value::Integer(1)]));
        assert!(constant("datetime", &[Value::text("2024-02-03T04:05Z")]));
        assert!(constant("date", &[Value::text("03.02.2024"), Value::text("dd.MM.yyyy")]));
        assert!(!constant("datetime", &[]));
        assert!(!constant("datetime", &[Value::map([("timezone".into(), Value::text("Asia/Tokyo"))])]));
        assert!(!constant("date.statement", &[Value::text("Asia/Tokyo")]));
        assert!(!constant("rand", &[]));
    }

    #[test]
    fn every_function_is_described_and_shown() {
        for function in all() {
            let description = function.description;
            assert!(description.ends_with('.') && description.len() > 10, "{}: {description:?}", function.name);
            assert!(function.example.contains(&format!("{}(", function.name)), "{}: {:?}", function.name, function.example);
            let compiled = crate::compile(function.example, &crate::Options::default());
            assert!(compiled.is_ok(), "{}: {compiled:?}", function.example);
        }
    }

    /// Whatever is passed, a function answers or fails; it does not panic.
    #[test]
    fn no_argument_makes_a_function_panic() {
        let odd = [
            Value::Null,
            Value::Boolean(true),
            Value::Integer(0),
            Value::Integer(-3),
            Value::Integer(i64::MIN),
            Value::Integer(i64::MAX),
            Value::Float(f64::NAN),
            Value::Float(-1e300),
            Value::text(""),
            Value::text("é🌈x"),
            Value::text("("),
            Value::text("2024-13-45T99:99"),
            Value::Bytes([0xff, 0xfe].as_slice().into()),
            Value::Id(NodeId::new(1, 2)),
            Value::Node(NodeId::new(1, 2)),
            Value::list(vec![]),
            Value::list(vec![Value::Null, Value::Integer(1), Value::text("x")]),
            Value::map([]),
            Value::map([("hour".into(), Value::Integer(i64::MIN)), ("week".into(), Value::text("x"))]),
            Value::Date(weir_model::value::Date { epoch_day: 365_241_780_471 }),
            Value::DateTime(
                weir_model::value::DateTime::utc(-31_557_014_135_596_800, 999_999_999)
                    .at_zone(0, Some("Asia/Tokyo".into()))
                    .into(),
            ),
            Value::Duration(
                weir_model::value::Duration { months: i64::MIN, days: i64::MAX, seconds: i64::MIN, nanos: 999_999_999 }.into(),
            ),
            Value::text("yyyy-MM-dd[ HH]"),
            Value::text("week"),
        ];
        let context = weir_model::expression::GraphFree::constants(IdScheme::Uuid);
        for function in all() {
            for count in function.arguments_min..=function.arguments_max.min(3) {
                for pick in 0..odd.len().pow(count as u32) {
                    let arguments: Vec<Value> =
                        (0..count).map(|place| odd[pick / odd.len().pow(place as u32) % odd.len()].clone()).collect();
                    let _ = (function.run)(&context, &arguments);
                }
            }
        }
    }
}
