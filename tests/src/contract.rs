//! What the OpenAPI documents promise, held against answers: the status must be one of those they list, the body must fit
//! the schema, and hold nothing that the schema does not know. Knows of schemas what the documents use.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map as JsonMap, Value as Json};
use weir_api::openapi;
use weir_api::routes::find;
use weir_api::wire::family::Family;

use crate::client::Answer;

static DOCUMENTS: LazyLock<[(Family, Json); 3]> =
    LazyLock::new(|| [Family::V1, Family::Preview, Family::Current].map(|family| (family, openapi::document(family, None))));

/// Bodies that are taken and not described, by path and a field: v2 takes the notation of v1 as well.
const NOT_DESCRIBED: [(&str, &str); 1] = [("/api/v2/ingests", "type")];

/// A request as it was sent.
pub struct Sent<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
}

/// What of an answer, or of a body that was taken, is not as the document says.
pub fn breach(sent: &Sent<'_>, answer: &Answer) -> Option<String> {
    let path = sent.target.split('?').next().unwrap_or_default();
    let method = sent.method.parse().ok()?;
    // Paths that are not there answer alike whatever the document says.
    let (route, _) = find(&method, path, false)?;
    let (_, document) = DOCUMENTS.iter().find(|(family, _)| *family == route.family())?;
    let operation = &document["paths"][route.path][sent.method.to_ascii_lowercase()];
    let Some(response) = operation["responses"].get(answer.status.to_string()) else {
        return Some(format!("status {} is not documented", answer.status));
    };
    let checked = Check { document, strict: true };
    content(&checked, response, answer).or_else(|| {
        let is_json = sent.content_type.is_some_and(|kind| kind.starts_with("application/json"));
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if answer.status >= 300 || !is_json || schema.is_null() {
            return None;
        }
        let body: Json = serde_json::from_slice(sent.body).ok()?;
        if NOT_DESCRIBED.iter().any(|(path, field)| *path == route.path && body.get(field).is_some()) {
            return None;
        }
        // Clients may send more than is read.
        let taken = Check { document, strict: false }.fits(schema, &body, "");
        taken.err().map(|problem| format!("a body that was taken does not fit: {problem}"))
    })
}

fn content(check: &Check<'_>, response: &Json, answer: &Answer) -> Option<String> {
    let Some(content) = response["content"].as_object() else {
        return (!answer.body.is_empty()).then(|| format!("a body where none is documented: {}", answer.shown()));
    };
    let essence = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
    let Some(described) = content.get(&essence) else {
        return Some(format!("the content type '{essence}' is not documented for {}", answer.status));
    };
    if essence != "application/json" {
        return None;
    }
    check.fits(&described["schema"], &answer.json(), "").err()
}

/// Examples that do not fit their schemas, and bodies without one but for those operations; and how many examples there are.
pub fn wrong_examples(without: &[&str]) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for (family, document) in DOCUMENTS.iter() {
        let mut found = Vec::new();
        examples(&document["components"], &mut found);
        count += found.len();
        for (schema, example) in found {
            let fits = Check { document, strict: true }.fits(schema, example, "");
            wrong.extend(fits.err().map(|problem| format!("{family:?}: {example}: {problem}")));
        }
        let operations = document["paths"].as_object().into_iter().flat_map(|paths| paths.values()).filter_map(Json::as_object);
        for (_, operation) in operations.flatten().filter(|(_, operation)| operation.get("requestBody").is_some()) {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let id = operation["operationId"].as_str().unwrap_or_default();
            if !has_example(document, schema) && !without.iter().any(|other| id.starts_with(other)) {
                wrong.push(format!("{family:?}: {id} has no example"));
            }
        }
    }
    (count, wrong)
}

/// Every example, each with its schema.
fn examples<'d>(schema: &'d Json, found: &mut Vec<(&'d Json, &'d Json)>) {
    match schema {
        Json::Object(fields) => {
            let many = fields.get("examples").and_then(Json::as_array).into_iter().flatten();
            found.extend(many.chain(fields.get("example")).map(|example| (schema, example)));
            let data = ["default", "examples", "example", "const", "enum"];
            fields.iter().filter(|(name, _)| !data.contains(&name.as_str())).for_each(|(_, inside)| examples(inside, found));
        }
        Json::Array(items) => items.iter().for_each(|item| examples(item, found)),
        _ => {}
    }
}

/// Whether there is an example of it, of what it is a list of, or of what it may be.
fn has_example(document: &Json, schema: &Json) -> bool {
    let follow = |reference: &Json| {
        let place = reference.as_str().and_then(|place| document.pointer(&place[1..]));
        place.is_some_and(|schema| has_example(document, schema))
    };
    let some = |key: &str| schema[key].as_array().into_iter().flatten().any(|schema| has_example(document, schema));
    let inside = |key: &str| schema.get(key).is_some_and(|schema| has_example(document, schema));
    schema.get("examples").or(schema.get("example")).is_some()
        || schema.get("$ref").is_some_and(follow)
        || ["allOf", "oneOf", "anyOf"].into_iter().any(some)
        || ["items", "additionalProperties"].into_iter().any(inside)
}

struct Check<'d> {
    document: &'d Json,
    /// Fields that no schema names are wrong.
    strict: bool,
}

impl Check<'_> {
    fn fits(&self, schema: &Json, value: &Json, at: &str) -> Result<(), String> {
        self.keywords(schema, value, at)?;
        let Json::Object(fields) = value else { return Ok(()) };
        let mut known = BTreeSet::new();
        let open = self.names(schema, value, &mut known);
        match fields.keys().find(|name| !known.contains(name.as_str())) {
            Some(name) if self.strict && !open => Err(format!("{at}/{name} is not in the schema")),
            _ => Ok(()),
        }
    }

    fn keywords(&self, schema: &Json, value: &Json, at: &str) -> Result<(), String> {
        let Json::Object(schema) = schema else { return Ok(()) };
        let wrong = |what: String| Err(format!("{at}: {value} {what}"));
        if value.is_null() && schema.get("nullable") == Some(&Json::Bool(true)) {
            return Ok(());
        }
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            self.keywords(self.document.pointer(&reference[1..]).expect("references lead somewhere"), value, at)?;
        }
        for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            self.keywords(part, value, at)?;
        }
        for kind in ["oneOf", "anyOf"] {
            let Some(variants) = schema.get(kind).and_then(Json::as_array) else { continue };
            let tried: Vec<_> = variants.iter().map(|variant| self.fits(variant, value, at)).collect();
            if !tried.iter().any(Result::is_ok) {
                return wrong(format!(
                    "is none of: {}",
                    tried.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("; ")
                ));
            }
        }
        if let Some(expected) = schema.get("type")
            && !types(expected).any(|name| is_a(value, name))
        {
            return wrong(format!("is no {expected}"));
        }
        if schema.get("const").is_some_and(|only| only != value) {
            return wrong(format!("is not {}", schema["const"]));
        }
        if schema.get("enum").and_then(Json::as_array).is_some_and(|values| !values.contains(value)) {
            return wrong(format!("is none of {}", schema["enum"]));
        }
        if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Json::as_f64), value.as_f64())
            && number < least
        {
            return wrong(format!("is less than {least}"));
        }
        match value {
            Json::Array(items) => {
                if schema.get("minItems").and_then(Json::as_u64).is_some_and(|least| (items.len() as u64) < least) {
                    return wrong("is too short".to_owned());
                }
                let Some(each) = schema.get("items") else { return Ok(()) };
                items.iter().enumerate().try_for_each(|(index, item)| self.fits(each, item, &format!("{at}/{index}")))
            }
            Json::Object(fields) => self.object(schema, fields, at),
            _ => Ok(()),
        }
    }

    fn object(&self, schema: &JsonMap<String, Json>, fields: &JsonMap<String, Json>, at: &str) -> Result<(), String> {
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        if let Some(name) = required.into_iter().find(|name| !fields.contains_key(*name)) {
            return Err(format!("{at}/{name} is missing"));
        }
        for (name, value) in fields {
            let own = schema.get("properties").and_then(|properties| properties.get(name));
            if let Some(inside) = own.or_else(|| schema.get("additionalProperties")) {
                // Absent and null are the same to whoever reads a body.
                if !self.strict && value.is_null() {
                    continue;
                }
                self.fits(inside, value, &format!("{at}/{name}"))?;
            }
        }
        Ok(())
    }

    /// Collects the names of fields that a schema knows; true when it takes any.
    fn names<'s>(&'s self, schema: &'s Json, value: &Json, known: &mut BTreeSet<&'s str>) -> bool {
        let Json::Object(schema) = schema else { return true };
        let properties = schema.get("properties").and_then(Json::as_object);
        known.extend(properties.into_iter().flatten().map(|(name, _)| name.as_str()));
        let mut open = schema.contains_key("additionalProperties");
        let mut parts = 0;
        let reference = schema.get("$ref").and_then(Json::as_str).and_then(|reference| self.document.pointer(&reference[1..]));
        let all = schema.get("allOf").and_then(Json::as_array).into_iter().flatten();
        let either = ["oneOf", "anyOf"].into_iter().filter_map(|kind| schema.get(kind).and_then(Json::as_array)).flatten();
        let either = either.filter(|variant| self.fits(variant, value, "").is_ok());
        for part in reference.into_iter().chain(all).chain(either) {
            parts += 1;
            open |= self.names(part, value, known);
        }
        open || (properties.is_none() && parts == 0)
    }
}

fn types(expected: &Json) -> impl Iterator<Item = &str> {
    let several = expected.as_array().map(Vec::as_slice).unwrap_or_default();
    expected.as_str().into_iter().chain(several.iter().filter_map(Json::as_str))
}

fn is_a(value: &Json, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_found() {
        let document = json!({"d": {
            "node": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "size": {"type": ["number", "null"]}}},
            "kind": {"oneOf": [{"type": "object", "required": ["type"], "properties": {"type": {"const": "A"}}},
                {"type": "object", "required": ["type"], "properties": {"type": {"const": "B"}, "n": {"type": "integer", "minimum": 1}}}]}}});
        let fits = |schema: Json, value: Json| Check { document: &document, strict: true }.fits(&schema, &value, "");
        let node = || json!({"$ref": "#/d/node"});
        assert_eq!(fits(node(), json!({"id": "x", "size": null})), Ok(()));
        assert_eq!(fits(node(), json!({"size": 1})), Err("/id is missing".to_owned()));
        assert_eq!(fits(node(), json!({"id": "x", "more": 1})), Err("/more is not in the schema".to_owned()));
        assert_eq!(
            fits(json!({"type": "array", "items": node()}), json!([{"id": 5}])),
            Err("/0/id: 5 is no \"string\"".to_owned())
        );
        let both = json!({"allOf": [node(), {"type": "object", "properties": {"more": {}}}]});
        assert_eq!(fits(both, json!({"id": "x", "more": 1})), Ok(()));
        let kind = || json!({"$ref": "#/d/kind"});
        assert_eq!(fits(kind(), json!({"type": "B", "n": 1})), Ok(()));
        assert!(fits(kind(), json!({"type": "B", "n": 0})).is_err());
        assert!(fits(kind(), json!({"type": "A", "n": 1})).is_err());
        assert_eq!(fits(json!({"type": "object", "additionalProperties": {"type": "integer"}}), json!({"any": 1})), Ok(()));
    }
}
