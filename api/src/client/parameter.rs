//! What stands beside a query for its `$name`s.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// By name.
pub type Parameters = BTreeMap<String, Parameter>;

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// JSON as the user wrote it, for the service to read: as a float `9007199254740993.0` would be one less, and `1e400` is
    /// none.
    Given(Box<RawValue>),
    /// What an answer of the service had in it.
    Computed(Json),
}

/// By the text: there is no other use than to compare what was typed.
impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        match (self, other) {
            (Parameter::Given(one), Parameter::Given(other)) => one.get() == other.get(),
            (Parameter::Computed(one), Parameter::Computed(other)) => one == other,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_given_is_sent_as_it_was_written() {
        for text in ["9007199254740993.0", "1e400", "[1.10, {\"a\": -0.0}]", "\"\\ud800\"", "123456789012345678901234567890"] {
            let given = Parameter::Given(RawValue::from_string(text.to_owned()).expect("JSON"));
            let parameters = Parameters::from([("x".to_owned(), given), ("y".to_owned(), Parameter::Computed(json!(1.0)))]);
            assert_eq!(serde_json::to_string(&parameters).expect("is written"), format!("{{\"x\":{text},\"y\":1.0}}"));
        }
    }
}
