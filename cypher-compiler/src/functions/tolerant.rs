//! Conversions that give null where those of the same name without an ending fail, and those of every element of a list.

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::value::Value;

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("toIntegerOrNull", 1, 1, "toIntegerOrNull(value :: ANY) :: INTEGER", |c, a| or_null(c, "toInteger", &a[0])).about(
        "As toInteger, and a boolean as 1 or 0; null for everything else.",
        "RETURN [toIntegerOrNull('7'), toIntegerOrNull(true), toIntegerOrNull([])]",
    ),
    strict("toFloatOrNull", 1, 1, "toFloatOrNull(value :: ANY) :: FLOAT", |c, a| or_null(c, "toFloat", &a[0]))
        .about("As toFloat, and null for everything else.", "RETURN [toFloatOrNull('7'), toFloatOrNull([])]"),
    strict("toBooleanOrNull", 1, 1, "toBooleanOrNull(value :: ANY) :: BOOLEAN", |c, a| or_null(c, "toBoolean", &a[0])).about(
        "As toBoolean, and whether an integer is not 0; null for everything else.",
        "RETURN [toBooleanOrNull('true'), toBooleanOrNull(0), toBooleanOrNull([])]",
    ),
    strict("toStringOrNull", 1, 1, "toStringOrNull(value :: ANY) :: STRING", |c, a| or_null(c, "toString", &a[0])).about(
        "As toString, and null for lists, maps, nodes, relationships and paths.",
        "RETURN [toStringOrNull(1.5), toStringOrNull({})]",
    ),
    strict("toIntegerList", 1, 1, "toIntegerList(list :: LIST OF ANY) :: LIST OF INTEGER", |c, a| each(c, "toInteger", a))
        .about("The elements of a list, each as toIntegerOrNull has it.", "RETURN toIntegerList(['1', 2.5, null, 'x'])"),
    strict("toFloatList", 1, 1, "toFloatList(list :: LIST OF ANY) :: LIST OF FLOAT", |c, a| each(c, "toFloat", a))
        .about("The elements of a list, each as toFloatOrNull has it.", "RETURN toFloatList(['1.5', 2, null, 'x'])"),
    strict("toBooleanList", 1, 1, "toBooleanList(list :: LIST OF ANY) :: LIST OF BOOLEAN", |c, a| each(c, "toBoolean", a))
        .about("The elements of a list, each as toBooleanOrNull has it.", "RETURN toBooleanList(['true', 0, null, 'x'])"),
    strict("toStringList", 1, 1, "toStringList(list :: LIST OF ANY) :: LIST OF STRING", |c, a| each(c, "toString", a))
        .about("The elements of a list, each as toStringOrNull has it.", "RETURN toStringList([1, true, null, []])"),
];

fn or_null(context: &dyn Context, strict: &str, value: &Value) -> Result<Value, Failure> {
    match (strict, value) {
        (_, Value::Null) => return Ok(Value::Null),
        ("toInteger", Value::Boolean(truth)) => return Ok(Value::Integer(i64::from(*truth))),
        ("toBoolean", Value::Integer(n)) => return Ok(Value::Boolean(*n != 0)),
        _ => {}
    }
    let Some(function) = super::find(strict) else { return Ok(Value::Null) };
    match (function.run)(context, std::slice::from_ref(value)) {
        Err(failure) if failure.kind == FailureKind::WrongSignature => Ok(Value::Null),
        result => result,
    }
}

fn each(context: &dyn Context, strict: &str, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::List(items) = &arguments[0] else {
        return Err(wrong_signature(&format!("{strict}List(list :: LIST OF ANY) :: LIST OF ANY"), arguments));
    };
    Ok(Value::List(items.iter().map(|item| or_null(context, strict, item)).collect::<Result<Vec<_>, _>>()?.into()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    #[test]
    fn what_cannot_be_converted_is_null() {
        let odd = [Value::Null, Value::text("x"), Value::list(vec![]), Value::map([]), Value::text("7"), Value::Boolean(true)];
        let integers = call("toIntegerList", &[Value::list(odd.to_vec())]).expect("a list");
        let null = || Value::Null;
        assert_eq!(integers, Value::list(vec![null(), null(), null(), null(), Value::Integer(7), Value::Integer(1)]));
        for (value, integer) in odd.iter().zip(match &integers {
            Value::List(items) => items.iter(),
            _ => unreachable!(),
        }) {
            assert_eq!(&call("toIntegerOrNull", std::slice::from_ref(value)).expect("never fails"), integer);
        }
        assert_eq!(call("toBooleanOrNull", &[Value::Integer(2)]), Ok(Value::Boolean(true)));
        assert_eq!(call("toStringOrNull", &[Value::map([])]), Ok(Value::Null));
        assert_eq!(call("toFloatOrNull", &[Value::text("1.5")]), Ok(Value::Float(1.5)));
        assert!(call("toFloatList", &[Value::Integer(1)]).is_err());
    }
}
