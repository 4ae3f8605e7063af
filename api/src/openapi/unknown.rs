//! Fields of a body that nothing here knows: taken, and told, since most of them are misspelt.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map as JsonMap, Value as Json};

use super::schemas::PLACE;
use crate::wire::family::Family;
use crate::wire::v2::ingest::{KINESIS_KCL, REGION_OPT};
use crate::wire::v2::names::FIELDS;

/// What is told of a body of v2 to whoever sent it.
pub fn warnings(schema: &str, body: &Json) -> Vec<String> {
    fields(schema, body).iter().map(|path| format!("{path} is no field that is known here, and has no effect")).collect()
}

/// The fields of a body of v2 that its schema does not have, by path.
pub fn fields(schema: &str, body: &Json) -> Vec<String> {
    let all = schemas();
    let mut unknown = Vec::new();
    if let Some(schema) = all.get(schema) {
        look(all, schema, body, "", &mut unknown);
    }
    unknown
}

fn schemas() -> &'static JsonMap<String, Json> {
    static SCHEMAS: OnceLock<JsonMap<String, Json>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let mut document = super::document(Family::Current, None);
        document["components"]["schemas"].as_object_mut().map(std::mem::take).unwrap_or_default()
    })
}

fn look(all: &JsonMap<String, Json>, schema: &Json, value: &Json, path: &str, unknown: &mut Vec<String>) {
    let schema = &*resolved(all, schema);
    if let Some(variants) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Json::as_array) {
        return of_variants(all, variants, value, path, unknown);
    }
    match (value, schema.get("properties").and_then(Json::as_object), schema.get("items")) {
        (Json::Object(fields), Some(properties), _) if schema.get("additionalProperties").is_none() => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match property(properties, name) {
                    Some(schema) => look(all, schema, value, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Json::Array(items), _, Some(schema)) => {
            items.iter().enumerate().for_each(|(at, item)| look(all, schema, item, &format!("{path}[{at}]"), unknown));
        }
        _ => {}
    }
}

/// What a schema refers to, with the properties that stand beside the reference.
fn resolved<'s>(all: &'s JsonMap<String, Json>, schema: &'s Json) -> Cow<'s, Json> {
    let place = schema.get("$ref").and_then(Json::as_str).and_then(|place| place.strip_prefix(PLACE));
    let Some(found) = place.and_then(|name| all.get(name)) else { return Cow::Borrowed(schema) };
    let Some(beside) = schema.get("properties").and_then(Json::as_object) else { return resolved(all, found) };
    let mut whole = resolved(all, found).into_owned();
    if let Some(properties) = whole.get_mut("properties").and_then(Json::as_object_mut) {
        properties.extend(beside.clone());
    }
    Cow::Owned(whole)
}

/// A field is known by its names in v1 and in the preview, too.
fn property<'s>(properties: &'s JsonMap<String, Json>, name: &str) -> Option<&'s Json> {
    let other = |name: &str| FIELDS.iter().filter(move |field| field.v1 == name).find_map(|field| properties.get(field.v2));
    let is_kcl = || properties.get("type").is_some_and(|kind| kind["const"] == KINESIS_KCL);
    let of_preview = || properties.get("region").filter(|_| name == REGION_OPT && is_kcl());
    properties.get(name).or_else(|| other(name)).or_else(of_preview)
}

/// The variant that the value says it is, or else the one that knows most of it.
fn of_variants(all: &JsonMap<String, Json>, variants: &[Json], value: &Json, path: &str, unknown: &mut Vec<String>) {
    let fits = |schema: &Json| match value {
        Json::Object(fields) => {
            let of_kind = |kind| Some(kind) == fields.get("type");
            let is_object =
                schema["type"] == "object" || ["properties", "oneOf", "anyOf"].iter().any(|part| schema.get(part).is_some());
            is_object && schema["properties"]["type"].get("const").is_none_or(of_kind)
        }
        Json::Array(_) => schema.get("items").is_some(),
        _ => false,
    };
    let candidates = variants.iter().map(|schema| resolved(all, schema)).filter(|schema| fits(schema));
    let found = candidates.map(|schema| {
        let mut unknown = Vec::new();
        look(all, &schema, value, path, &mut unknown);
        unknown
    });
    unknown.extend(found.min_by_key(Vec::len).into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_have_nothing_that_is_unknown() {
        let mut seen = 0;
        for (name, schema) in schemas() {
            for example in schema.get("examples").and_then(Json::as_array).into_iter().flatten() {
                assert_eq!(fields(name, example), [""; 0], "{name}: {example}");
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
    }

    #[cfg(feature = "aws")]
    #[test]
    fn what_the_preview_names_otherwise_is_known() {
        let of = |kind: &str| json!({"name": "k", "source": {"type": kind, "regionOpt": "us-west-2"}, "query": "RETURN 1"});
        assert_eq!(fields("IngestBody", &of("KinesisKCL")), [""; 0]);
        assert_eq!(fields("IngestBody", &of("Kinesis")), [".source.regionOpt"]);
    }

    #[test]
    fn what_is_misspelt_is_told_with_its_place() {
        let body = json!({"name": "s", "qeury": "x", "query": "RETURN 1", "maxPerSecond": null, "source": {"type": "Kafka", "topics": {"t": [0]},
            "bootstrapServers": "h:1", "kafkaProperties": {"any.thing": "x"}, "recordDecoder": ["GZIP"], "startAtOffset": 1, "format": {"type": "Json", "x": 1},
            "offsetCommitting": {"type": "ExplicitCommit", "maxIntervalMillis": 5, "maxBtach": 1}}});
        let mut found = fields("IngestBody", &body);
        found.sort();
        let expected =
            [".qeury", ".source.format.x", ".source.offsetCommitting.maxBtach", ".source.recordDecoder", ".source.startAtOffset"];
        assert_eq!(found, expected);
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        let body = json!({"name": "q", "pattern": pattern, "outputs": [{"name": "o", "filtre": {}, "destinations": [
            {"type": "HttpEndpoint", "url": "http://h/", "headers": {"A": "b"}, "paralellism": 1}]}]});
        let mut found = fields("NamedStandingBody", &body);
        found.sort();
        assert_eq!(found, [".outputs[0].destinations[0].paralellism", ".outputs[0].filtre"]);
    }
}
