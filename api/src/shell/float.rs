//! Floats that are whole. JSON has one kind of number, and weir takes `1.0` in it for the integer `1`; a value that `:param`
//! computed and that has such a float in it stands in the statement itself, and does not travel beside it. What `--param` gives
//! is JSON, and travels as it was written.

use std::borrow::Cow;

use serde_json::{Number, Value as Json};
use weir_cypher_compiler::quoted_name;

use super::statement;
use crate::client::{Parameter, Parameters};

/// Floats beyond are floats in JSON, too.
const WHOLE_MAX: f64 = 9.2e18;

/// The statement, with the parameters written into it that JSON cannot carry.
pub fn written<'a>(text: &'a str, parameters: &Parameters) -> Cow<'a, str> {
    if !parameters.values().any(|value| whole_in(value).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut end = 0;
    for (place, name) in statement::parameters(text) {
        let Some(value) = parameters.get(&name).and_then(whole_in) else { continue };
        out.push_str(&text[end..place.start]);
        literal(value, &mut out);
        end = place.end;
    }
    out.push_str(&text[end..]);
    Cow::Owned(out)
}

/// The value, where it has to stand in the statement.
fn whole_in(parameter: &Parameter) -> Option<&Json> {
    match parameter {
        Parameter::Computed(value) => Some(value).filter(|value| has_whole(value)),
        Parameter::Given(_) => None,
    }
}

fn has_whole(value: &Json) -> bool {
    match value {
        Json::Number(number) => is_whole(number),
        Json::Array(items) => items.iter().any(has_whole),
        Json::Object(fields) => fields.values().any(has_whole),
        _ => false,
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_f64() && number.as_f64().is_some_and(|x| x.fract() == 0.0 && x.abs() < WHOLE_MAX)
}

/// As Cypher reads it. A sign would belong to what stands before.
fn literal(value: &Json, out: &mut String) {
    match value {
        Json::Number(number) if number.as_f64().is_some_and(f64::is_sign_negative) => out.push_str(&format!("({number})")),
        // Texts have the same escapes in JSON.
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => out.push_str(&value.to_string()),
        Json::Array(items) => listed('[', items.iter().map(|item| (None, item)), ']', out),
        Json::Object(fields) => listed('{', fields.iter().map(|(name, value)| (Some(name), value)), '}', out),
    }
}

fn listed<'a>(open: char, items: impl Iterator<Item = (Option<&'a String>, &'a Json)>, close: char, out: &mut String) {
    out.push(open);
    for (index, (name, item)) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if let Some(name) = name {
            out.push_str(&quoted_name(name));
            out.push_str(": ");
        }
        literal(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    #[test]
    fn whole_floats_stand_in_the_statement() {
        let given = json!({"x": 1.0, "y": 1, "z": 1.5, "l": {"a b": [-2.0, "\"\n", null, 3]}, "huge": 1e300});
        let Json::Object(given) = given else { panic!("it is a map") };
        let mut given: Parameters = given.into_iter().map(|(name, value)| (name, Parameter::Computed(value))).collect();
        let text = RawValue::from_string("1.0".to_owned()).expect("JSON");
        given.insert("given".to_owned(), Parameter::Given(text));
        for (text, expected) in [
            ("RETURN $x / 2, '$x'", "RETURN 1.0 / 2, '$x'"),
            ("RETURN $y, $z, $huge, $nothing, $given", "RETURN $y, $z, $huge, $nothing, $given"),
            ("RETURN $l.`a b`", "RETURN {`a b`: [(-2.0), \"\\\"\\n\", null, 3]}.`a b`"),
        ] {
            assert_eq!(written(text, &given), expected);
        }
        assert_eq!(written("RETURN $x", &Parameters::new()), "RETURN $x");
    }
}
