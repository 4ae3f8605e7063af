//! The schemas of one family: collected from types as operations name them, then spelt as that family spells words, durations
//! and, in v1, schemas themselves.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map as JsonMap, Value as Json, json};

use super::definitions;
use crate::wire::family::Family;

pub const PLACE: &str = "#/components/schemas/";

/// Marks of what each family spells in its own way; no document has them.
const WORDS: &str = "x-words";
const DURATION: &str = "x-duration";
/// A default that is a word of `WORDS`.
const DEFAULT_WORD: &str = "x-default-word";
/// A word that is a tagged object in the preview.
const TAGGED: &str = "x-tagged";
/// A field that v2 does not have.
const ONLY_V1: &str = "x-only-v1";

/// A schema that an operation names.
pub type Named = fn(&mut Schemas) -> Json;

pub struct Schemas {
    pub family: Family,
    generator: SchemaGenerator,
    /// The schemas that are not of one type.
    assembled: JsonMap<String, Json>,
}

impl Schemas {
    pub fn new(family: Family) -> Schemas {
        let definitions = definitions::all(family);
        Schemas { family, generator: generator(), assembled: definitions }
    }

    /// All there are, by name.
    pub fn finish(mut self) -> JsonMap<String, Json> {
        let mut all = self.generator.take_definitions(true);
        all.extend(self.assembled);
        all.values_mut().for_each(|schema| spell(schema, self.family));
        all
    }
}

pub fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.into_generator()
}

/// The schema of a type.
pub fn of<T: JsonSchema>(schemas: &mut Schemas) -> Json {
    anything(schemas.generator.subschema_for::<T>().to_value())
}

/// A schema that anything fits as an object: `true` is one too, but not every generator of clients knows that.
fn anything(schema: Json) -> Json {
    if schema == Json::Bool(true) { json!({}) } else { schema }
}

/// A list of these.
pub fn list<T: JsonSchema>(schemas: &mut Schemas) -> Json {
    json!({"type": "array", "items": of::<T>(schemas)})
}

/// An object with these under any names.
pub fn map<T: JsonSchema>(schemas: &mut Schemas) -> Json {
    json!({"type": "object", "additionalProperties": of::<T>(schemas)})
}

/// One that `definitions` assembles.
pub fn named(name: &str) -> Json {
    json!({"$ref": format!("{PLACE}{name}")})
}

/// A schema as the family has it.
pub fn spell(schema: &mut Json, family: Family) {
    match schema {
        Json::Object(fields) => {
            if fields.remove(DURATION).is_some() {
                add_unit(fields, if family == Family::Current { IN_WORDS } else { "In milliseconds." });
                if family == Family::Current {
                    fields.remove("minimum");
                    fields.remove("format");
                    fields.insert("type".to_owned(), "string".into());
                    fields.insert("examples".to_owned(), json!(["1m30s"]));
                }
            }
            let shouted = fields.remove(WORDS).is_some();
            let tagged = fields.remove(TAGGED).is_some() && family == Family::Preview;
            if fields.remove(DEFAULT_WORD).is_some()
                && let Some(Json::String(word)) = fields.get_mut("default")
            {
                *word = family.word(word);
            }
            without_v1(fields, family);
            enumerate(fields);
            for (name, value) in fields.iter_mut() {
                // What stands in these is data and not a schema.
                if matches!(name.as_str(), "default" | "examples" | "const" | "enum") {
                    continue;
                }
                spell(value, family);
                match (name.as_str(), value) {
                    ("items", value) => *value = anything(value.take()),
                    ("properties", Json::Object(properties)) => {
                        properties.values_mut().for_each(|value| *value = anything(value.take()))
                    }
                    _ => {}
                }
            }
            if tagged {
                let about = fields.remove("description");
                let word = json!({"oneOf": fields.get("oneOf"), "enum": fields.get("enum")});
                let words = word.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
                let word: JsonMap<String, Json> = words.map(|(name, value)| (name.clone(), value.clone())).collect();
                *fields = JsonMap::from_iter([
                    ("type".to_owned(), "object".into()),
                    ("required".to_owned(), json!(["type"])),
                    ("properties".to_owned(), json!({"type": word})),
                ]);
                fields.extend(about.map(|about| ("description".to_owned(), about)));
            } else if shouted {
                shout(fields, family);
            }
            if family == Family::V1 {
                older(fields);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| spell(item, family)),
        _ => {}
    }
}

/// What a duration is in the current family.
pub const IN_WORDS: &str = "A duration such as `1m30s`.";

/// Says the unit of a number, or what a text is, behind what is said of it.
pub fn add_unit(fields: &mut JsonMap<String, Json>, unit: &str) {
    let about = fields.get("description").and_then(Json::as_str).unwrap_or_default();
    let told = format!("{about} {unit}").trim_start().to_owned();
    fields.insert("description".to_owned(), told.into());
}

/// A choice between words is one enumeration: of a union of constants, generators of clients make types that cannot be read.
/// What is said of single words is told in the description.
fn enumerate(fields: &mut JsonMap<String, Json>) {
    let Some(Json::Array(variants)) = fields.get("oneOf") else { return };
    let (mut words, mut about) = (Vec::new(), Vec::new());
    for variant in variants {
        let Some(variant) = variant.as_object().filter(|variant| variant.get("type") == Some(&json!("string"))) else { return };
        let of_variant = match (variant.get("const"), variant.get("enum")) {
            (Some(word @ Json::String(_)), None) => vec![word.clone()],
            (None, Some(Json::Array(words))) => words.clone(),
            _ => return,
        };
        if let (Some(Json::String(said)), [Json::String(word)]) = (variant.get("description"), of_variant.as_slice()) {
            about.push(format!("- `{word}`: {said}"));
        }
        words.extend(of_variant);
    }
    if !about.is_empty() {
        let before = fields.get("description").and_then(Json::as_str).unwrap_or_default();
        let told = format!("{before}\n\n{}", about.join("\n")).trim_start().to_owned();
        fields.insert("description".to_owned(), told.into());
    }
    fields.remove("oneOf");
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), words.into());
}

/// Takes out the fields that only v1 has.
fn without_v1(fields: &mut JsonMap<String, Json>, family: Family) {
    let Some(Json::Object(properties)) = fields.get_mut("properties") else { return };
    let marked = |schema: &Json| schema.get(ONLY_V1).is_some();
    let gone: Vec<String> = properties.iter().filter(|(_, schema)| marked(schema)).map(|(name, _)| name.clone()).collect();
    for name in gone {
        if family == Family::V1 {
            if let Some(schema) = properties.get_mut(&name).and_then(Json::as_object_mut) {
                schema.remove(ONLY_V1);
            }
            continue;
        }
        properties.remove(&name);
        if let Some(Json::Array(required)) = fields.get_mut("required") {
            required.retain(|other| *other != name);
        }
        return without_v1(fields, family);
    }
}

/// The words of an enumeration.
fn shout(fields: &mut JsonMap<String, Json>, family: Family) {
    let word = |value: &mut Json| {
        if let Json::String(text) = value {
            *text = family.word(text);
        }
    };
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("enum", Json::Array(values)) => values.iter_mut().for_each(word),
            ("const", value) => word(value),
            ("oneOf", Json::Array(variants)) => {
                variants.iter_mut().filter_map(Json::as_object_mut).for_each(|variant| shout(variant, family));
            }
            _ => {}
        }
    }
}

/// OpenAPI 3.0, which v1 is described in, has a dialect of its own: one type, `nullable`, nothing beside a `$ref`, one example.
fn older(fields: &mut JsonMap<String, Json>) {
    if let Some(Json::Array(types)) = fields.get("type") {
        let (null, others): (Vec<Json>, Vec<Json>) = types.iter().cloned().partition(|name| name == "null");
        if !null.is_empty() {
            fields.insert("nullable".to_owned(), true.into());
        }
        match others.as_slice() {
            [one] => fields.insert("type".to_owned(), one.clone()),
            _ => fields.remove("type"),
        };
    }
    for kind in ["anyOf", "oneOf"] {
        let Some(Json::Array(variants)) = fields.get_mut(kind) else { continue };
        let before = variants.len();
        variants.retain(|variant| variant["type"] != "null");
        if variants.len() < before {
            fields.insert("nullable".to_owned(), true.into());
        }
    }
    if let Some(value) = fields.remove("const") {
        fields.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Json::Array(mut examples)) = fields.remove("examples")
        && !examples.is_empty()
    {
        fields.insert("example".to_owned(), examples.remove(0));
    }
    // A default that is an object has no place beside a reference for many who read this dialect, so it is told in words.
    if fields.contains_key("$ref")
        && let Some(default) = fields.get("default").filter(|default| default.is_object()).cloned()
    {
        fields.remove("default");
        let about = fields.get("description").and_then(Json::as_str).unwrap_or_default();
        let told = format!("{about} Default: {default}").trim_start().to_owned();
        fields.insert("description".to_owned(), told.into());
    }
    if fields.len() > 1
        && let Some(reference) = fields.remove("$ref")
    {
        fields.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
}

/// How long something took or takes: milliseconds, or a text in the current family.
pub struct Span;

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "format": "int64", "minimum": 0, "x-duration": true})
    }
}

/// A moment, such as `2026-02-03T04:05:06.789Z`.
#[derive(serde::Serialize)]
pub struct Instant;

impl JsonSchema for Instant {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Instant".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// One that `definitions` assembles, inside a type.
pub struct Assembled<const NAME: usize>;

/// What these stand for.
pub const INGEST_SETTINGS: usize = 0;
pub const OUTPUTS: usize = 1;
const NAMES: [&str; 2] = ["IngestSettings", "Outputs"];

impl<const NAME: usize> JsonSchema for Assembled<NAME> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        NAMES[NAME].into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"$ref": format!("{PLACE}{}", NAMES[NAME])})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_spelling() {
        let schema = json!({"x-words": true, "oneOf": [{"type": "string", "const": "DistinctId", "description": "Once."}, {"type": "string", "enum": ["A", "B"]}], "properties": {"for": {"type": "integer", "x-duration": true}}});
        let spelt = |family| {
            let mut schema = schema.clone();
            spell(&mut schema, family);
            schema
        };
        let current = spelt(Family::Current);
        assert_eq!(
            (&current["enum"], &current["properties"]["for"]["type"]),
            (&json!(["DISTINCT_ID", "A", "B"]), &json!("string"))
        );
        let v1 = spelt(Family::V1);
        assert_eq!((&v1["enum"], &v1["properties"]["for"]["type"]), (&json!(["DistinctId", "A", "B"]), &json!("integer")));
        assert_eq!((v1.get("oneOf"), &v1["description"]), (None, &json!("- `DistinctId`: Once.")));
        let unit = |spelt: &Json| spelt["properties"]["for"]["description"].clone();
        assert_eq!((unit(&v1), unit(&current)), (json!("In milliseconds."), json!("A duration such as `1m30s`.")));
        assert!(v1.get("x-words").is_none());
    }

    #[test]
    fn the_older_dialect_has_one_type_and_nothing_beside_references() {
        let mut schema = json!({"properties": {
            "a": {"type": ["string", "null"]}, "b": {"$ref": "#/x", "description": "d"}, "c": true,
            "d": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}, "e": {"$ref": "#/x", "default": {"type": "JSON"}}}});
        spell(&mut schema, Family::V1);
        assert_eq!(
            schema,
            json!({"properties": {
            "a": {"type": "string", "nullable": true}, "b": {"description": "d", "allOf": [{"$ref": "#/x"}]}, "c": {},
            "d": {"anyOf": [{"$ref": "#/x"}], "nullable": true},
            "e": {"description": "Default: {\"type\":\"JSON\"}", "allOf": [{"$ref": "#/x"}]}}})
        );
    }
}
