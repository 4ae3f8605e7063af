//! Schemas that are put together: sources and destinations from the tables of the connectors, in the notation of v1, or, by
//! the same table of names that reads and writes bodies, of v2.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{DESTINATIONS, Retries, SOURCES};

use super::schemas::{IN_WORDS, PLACE, add_unit, generator, named};
use crate::wire::family::Family;
use crate::wire::letters::{NO_LETTER_BOXES, ON_RESULT_ERROR};
use crate::wire::retries::RETRY_POLICY;
use crate::wire::v2;
use crate::wire::v2::names::{FIELDS, MOMENT, WORDS, to_v2, to_v2_anywhere};

/// Enumerations of which v2 makes objects, beside others that are objects already.
const WORDS_OR_OBJECTS: [&str; 1] = ["IteratorWord"];

/// Everything assembled, by name.
pub fn all(family: Family) -> JsonMap<String, Json> {
    let mut all = JsonMap::new();
    let sources = SOURCES.iter().map(|row| (row.name, row.name_v1, row.schema, (row.sample)())).collect::<Vec<_>>();
    let destinations = DESTINATIONS.iter().map(|row| (row.name, row.name_v1, row.schema, (row.sample)())).collect::<Vec<_>>();
    if family == Family::V1 {
        let mut generator = generator();
        let sources = union(&mut generator, &mut all, sources.into_iter().map(|(_, v1, schema, sample)| (v1, schema, sample)));
        let mut boxes = Vec::new();
        let kinds: Vec<_> = destinations.iter().map(|(kind, v1, _, _)| (*kind, *v1)).collect();
        let outputs =
            union(&mut generator, &mut all, destinations.into_iter().map(|(_, v1, schema, sample)| (v1, schema, sample)));
        let retries = generator.subschema_for::<Retries>().to_value();
        add_definitions(generator, &mut all);
        for (kind, v1) in kinds {
            let name = outputs["discriminator"]["mapping"][v1].as_str().and_then(|place| place.strip_prefix(PLACE)).unwrap_or(v1);
            let Some(mut definition) = all.remove(name) else { continue };
            definition["properties"][RETRY_POLICY] = retries.clone();
            if !NO_LETTER_BOXES.contains(&kind) {
                all.insert(format!("{v1}LetterBox"), letter_box(definition.clone()));
                boxes.push((v1.to_owned(), format!("{v1}LetterBox")));
            }
            definition["properties"][ON_RESULT_ERROR] = named("OnResultError");
            all.insert(name.to_owned(), definition);
        }
        all.insert("LetterBox".to_owned(), described(one_of(boxes), "A destination of dead letters: results that were refused."));
        all.insert("OnResultError".to_owned(), on_result_error());
        all.insert(
            "IngestSettings".to_owned(),
            described(sources, "An ingest stream in v1: a source of records, how they are decoded, and the query for each."),
        );
        all.insert("IngestBody".to_owned(), named("IngestSettings"));
        all.insert("CypherQuery".to_owned(), cypher_output(family));
        let outputs = with_variant(outputs, "CypherQuery");
        all.insert(
            "Output".to_owned(),
            described(outputs, "An output of a standing query: the destination of its results, or a query that runs on each."),
        );
        let about = "The outputs of a standing query, by name.";
        all.insert(
            "Outputs".to_owned(),
            json!({"type": "object", "additionalProperties": named("Output"), "description": about}),
        );
        return all;
    }
    let (sources, formats) = v2_sources(&mut all, sources, family);
    all.insert("Source".to_owned(), described(sources, "The source that records are read from."));
    all.extend(formats);
    all.insert("IngestBody".to_owned(), ingest_body(family));
    let settings = if family == Family::Preview { "Source" } else { "IngestBody" };
    all.insert("IngestSettings".to_owned(), named(settings));
    let (outputs, letter_boxes) = v2_destinations(&mut all, destinations, family);
    all.extend(letter_boxes);
    all.insert("CypherQueryDestination".to_owned(), cypher_output(family));
    let outputs = with_variant(outputs, "CypherQueryDestination");
    all.insert("Output".to_owned(), described(outputs, "A destination of results, or a query that runs on each."));
    all.insert("Workflow".to_owned(), workflow());
    all.insert(
        "Outputs".to_owned(),
        json!({"type": "array", "items": named("Workflow"), "description": "The outputs of a standing query."}),
    );
    all
}

type Row = (&'static str, &'static str, fn(&mut SchemaGenerator) -> Schema, Json);

/// The name of the definition that a schema refers to.
fn name_of(schema: &Json) -> String {
    schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()).unwrap_or_default().to_owned()
}

/// One of several that tell their kind by `type`.
fn one_of(kinds: Vec<(String, String)>) -> Json {
    let mapping: JsonMap<String, Json> =
        kinds.iter().map(|(kind, name)| (kind.clone(), format!("{PLACE}{name}").into())).collect();
    let variants: Vec<Json> = kinds.iter().map(|(_, name)| named(name)).collect();
    json!({"oneOf": variants, "discriminator": {"propertyName": "type", "mapping": mapping}})
}

fn with_variant(mut union: Json, name: &str) -> Json {
    let reference = named(name);
    union["discriminator"]["mapping"]["CypherQuery"] = reference["$ref"].clone();
    if let Some(variants) = union["oneOf"].as_array_mut() {
        variants.push(reference);
    }
    union
}

fn described(mut schema: Json, text: &str) -> Json {
    schema["description"] = text.into();
    schema
}

/// What is said of one kind of a union that tells its kind by `type`.
fn about_kind<'s>(union: Option<&'s Json>, kind: &str) -> Option<&'s str> {
    let mut variants = union?["oneOf"].as_array()?.iter();
    variants.find(|variant| variant["properties"]["type"]["const"] == kind)?["description"].as_str()
}

/// Gives an object its `type`, as the first of its fields.
fn tag(schema: &mut Json, kind: &str) {
    let Some(fields) = schema.as_object_mut() else { return };
    let mut properties = JsonMap::new();
    properties.insert("type".to_owned(), json!({"type": "string", "const": kind}));
    if let Some(Json::Object(others)) = fields.remove("properties") {
        properties.extend(others);
    }
    fields.insert("properties".to_owned(), properties.into());
    let mut required = vec![Json::from("type")];
    if let Some(Json::Array(others)) = fields.remove("required") {
        required.extend(others);
    }
    fields.insert("required".to_owned(), required.into());
}

/// The union of rows, each definition with its kind and an example.
fn union(
    generator: &mut SchemaGenerator,
    all: &mut JsonMap<String, Json>,
    rows: impl Iterator<Item = (&'static str, fn(&mut SchemaGenerator) -> Schema, Json)>,
) -> Json {
    let mut kinds = Vec::new();
    for (kind, schema, sample) in rows {
        let name = name_of(&schema(generator).to_value());
        let mut definition = generator.definitions().get(&name).cloned().unwrap_or_else(|| json!({"type": "object"}));
        tag(&mut definition, kind);
        definition["examples"] = json!([sample]);
        all.insert(name.clone(), definition);
        kinds.push((kind.to_owned(), name));
    }
    one_of(kinds)
}

fn add_definitions(mut generator: SchemaGenerator, all: &mut JsonMap<String, Json>) {
    for (name, definition) in generator.take_definitions(true) {
        all.entry(name).or_insert(definition);
    }
}

/// The union of the sources of v2, and all formats.
fn v2_sources(all: &mut JsonMap<String, Json>, rows: Vec<Row>, family: Family) -> (Json, JsonMap<String, Json>) {
    let mut generator = generator();
    let mut kinds = Vec::new();
    let mut formats = JsonMap::new();
    let mut v1 = Vec::new();
    for (kind, _, schema, sample) in rows {
        let name = name_of(&schema(&mut generator).to_value());
        v1.push((kind, name, sample));
    }
    let mut definitions = generator.take_definitions(true);
    let words = enumerations(&definitions);
    for (kind, name, sample) in v1 {
        let Some(mut definition) = definitions.remove(&name) else { continue };
        let without: Vec<&str> = v2::ingest::BESIDE.iter().copied().chain(["format"]).collect();
        remove(&mut definition, &without);
        notation(&mut definition, family);
        tag(&mut definition, kind);
        v2::ingest::rename_region(kind, &mut definition["properties"], family);
        v2::ingest::set_defaults(&mut definition);
        let mut example = Json::Object(v2::names::fields_to_v2(&sample, &without, Family::Preview));
        example["type"] = kind.into();
        v2::ingest::rename_region(kind, &mut example, family);
        if v2::ingest::has_format(kind) {
            let format = if v2::ingest::is_of_files(kind) { "FileFormat" } else { "StreamFormat" };
            definition["properties"]["format"] = named(format);
            if let Some(required) = definition["required"].as_array_mut() {
                required.push("format".into());
            }
            example["format"] = json!({"type": if format == "FileFormat" { "JsonL" } else { "Json" }});
        } else if let Some(example) = example.as_object_mut() {
            example.remove("format");
        }
        definition["examples"] = json!([example]);
        let name = format!("{kind}Source");
        all.insert(name.clone(), definition);
        kinds.push((kind.to_owned(), name));
    }
    for (of_files, union) in [(true, "FileFormat"), (false, "StreamFormat")] {
        let mut kinds = Vec::new();
        for (v2_name, v1_name, _) in v2::ingest::FORMATS.iter().filter(|(_, _, files)| *files == of_files) {
            // These have options; the others are their names.
            let mut definition = match (definitions.get(*v1_name), *v1_name) {
                (Some(options), "CypherCsv" | "CypherAvro" | "CypherAvroContainer" | "CypherProtobuf") => options.clone(),
                _ => json!({"type": "object", "properties": {}}),
            };
            remove(&mut definition, &["query", "parameter"]);
            notation(&mut definition, family);
            tag(&mut definition, v2_name);
            if let Some(about) = about_kind(definitions.get(union), v1_name) {
                definition = described(definition, about);
            }
            let name = format!("{v2_name}{}", if of_files { "Format" } else { "Records" });
            formats.insert(name.clone(), definition);
            kinds.push(((*v2_name).to_owned(), name));
        }
        let about = definitions.get(union).and_then(|union| union["description"].as_str()).unwrap_or_default();
        formats.insert(union.to_owned(), described(one_of(kinds), about));
    }
    // The formats of v1 are not those of v2, and their names may be the same.
    let of_v1 = ["FileFormat", "StreamFormat", "CypherLine", "CypherJson", "CypherCsv", "CypherRaw", "CypherParquet"];
    definitions.retain(|name, _| !of_v1.contains(&name.as_str()));
    take(all, definitions, &words, family);
    (one_of(kinds), formats)
}

/// Where results go, and where records that failed do.
fn v2_destinations(all: &mut JsonMap<String, Json>, rows: Vec<Row>, family: Family) -> (Json, JsonMap<String, Json>) {
    let mut generator = generator();
    let (mut kinds, mut boxes, mut letter_boxes) = (Vec::new(), Vec::new(), JsonMap::new());
    let v1: Vec<_> =
        rows.into_iter().map(|(kind, _, schema, sample)| (kind, name_of(&schema(&mut generator).to_value()), sample)).collect();
    let retries = generator.subschema_for::<Retries>().to_value();
    let mut definitions = generator.take_definitions(true);
    let words = enumerations(&definitions);
    for (kind, name, sample) in v1 {
        let Some(mut definition) = definitions.remove(&name) else { continue };
        remove(&mut definition, &v2::standing::ONLY_V1);
        if kind == v2::standing::HTTP_ENDPOINT {
            remove(&mut definition, &["onlyPositiveMatchData"]);
        }
        notation(&mut definition, family);
        tag(&mut definition, kind);
        definition["properties"][RETRY_POLICY] = retries.clone();
        let mut example = Json::Object(v2::names::fields_to_v2(&sample, &v2::standing::ONLY_V1, family));
        example["type"] = kind.into();
        definition["examples"] = json!([example]);
        if !NO_LETTER_BOXES.contains(&kind) {
            let name = format!("{kind}LetterBox");
            letter_boxes.insert(name.clone(), letter_box(definition.clone()));
            boxes.push((kind.to_owned(), name));
        }
        if kind == v2::standing::SNS {
            definition["properties"]["format"] = json_format();
        }
        definition["properties"][ON_RESULT_ERROR] = named("OnResultError");
        let name = format!("{kind}Destination");
        all.insert(name.clone(), definition);
        kinds.push((kind.to_owned(), name));
    }
    definitions.retain(|name, _| !["Envelope", "LogLevel", "LogMode"].contains(&name.as_str()));
    take(all, definitions, &words, family);
    letter_boxes.insert(
        "LetterBox".to_owned(),
        described(one_of(boxes), "A destination of dead letters: records that failed, or results that were refused."),
    );
    all.insert("OnResultError".to_owned(), on_result_error());
    (one_of(kinds), letter_boxes)
}

/// Of a destination that clients give a format to, and that knows one.
fn json_format() -> Json {
    json!({
        "type": "object",
        "description": "How a result is written. JSON is the only format of this destination.",
        "required": ["type"],
        "properties": {"type": {"type": "string", "const": "JSON"}},
        "default": {"type": "JSON"},
    })
}

/// What definitions refer to, in the notation of v2.
fn take(all: &mut JsonMap<String, Json>, definitions: JsonMap<String, Json>, words: &[(String, &'static str)], family: Family) {
    for (name, mut definition) in definitions {
        match words.iter().find(|(of, _)| *of == name) {
            Some((_, field)) => respell(&mut definition, field, family),
            None if WORDS_OR_OBJECTS.contains(&name.as_str()) => tag_words(&mut definition),
            None => notation(&mut definition, family),
        }
        all.entry(name).or_insert(definition);
    }
}

fn remove(definition: &mut Json, names: &[&str]) {
    if let Some(properties) = definition["properties"].as_object_mut() {
        properties.retain(|name, _| !names.contains(&name.as_str()));
    }
    if let Some(required) = definition.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|name| !names.iter().any(|other| name == other));
    }
}

/// Each word as an object with nothing but its type.
fn tag_words(definition: &mut Json) {
    for variant in definition.get_mut("oneOf").and_then(Json::as_array_mut).into_iter().flatten() {
        let mut tagged = json!({"type": "object", "properties": {"type": {"type": "string", "const": variant["const"]}}, "required": ["type"]});
        if let Some(description) = variant.get("description") {
            tagged["description"] = description.clone();
        }
        *variant = tagged;
    }
}

/// Renames the fields of an object, and gives those that are durations today their unit.
fn notation(definition: &mut Json, family: Family) {
    let rename = |name: &str| match name {
        name if name == MOMENT.0 && family == Family::Current => MOMENT.1.1.to_owned(),
        name => to_v2_anywhere(name, &Json::Null, family).0,
    };
    if let Some(Json::Object(properties)) = definition.get_mut("properties") {
        for (name, mut schema) in std::mem::take(properties) {
            if let Some(default) = schema.get("default").cloned() {
                schema["default"] = to_v2_anywhere(&name, &default, family).1;
            }
            let duration = FIELDS.iter().any(|field| field.v1 == name && field.unit_millis.is_some());
            if duration && family == Family::Current {
                schema = as_text(&schema, json!({"examples": ["1m30s"]}));
                schema.as_object_mut().into_iter().for_each(|schema| add_unit(schema, IN_WORDS));
            }
            if name == MOMENT.0 && family == Family::Current {
                schema = as_text(&schema, json!({"format": "date-time", "examples": ["2026-01-02T03:04:05Z"]}));
                properties.insert(MOMENT.1.1.to_owned(), schema);
                continue;
            }
            properties.insert(rename(&name), schema);
        }
    }
    for name in definition.get_mut("required").and_then(Json::as_array_mut).into_iter().flatten() {
        *name = rename(name.as_str().unwrap_or_default()).into();
    }
    for variant in definition.get_mut("oneOf").and_then(Json::as_array_mut).into_iter().flatten() {
        notation(variant, family);
    }
}

/// What is a number in v1 and a text in v2; may be left out where that one may.
fn as_text(schema: &Json, more: Json) -> Json {
    let may_be_null = schema["type"].as_array().is_some_and(|types| types.contains(&"null".into()));
    let mut text = json!({"type": if may_be_null { json!(["string", "null"]) } else { json!("string") }});
    for field in ["description", "default"] {
        if let Some(value) = schema.get(field).filter(|value| !value.is_null()) {
            text[field] = value.clone();
        }
    }
    if let (Json::Object(text), Json::Object(more)) = (&mut text, more) {
        text.extend(more);
    }
    text
}

/// The enumerations that fields of `WORDS` hold, with the field.
fn enumerations(definitions: &JsonMap<String, Json>) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for definition in definitions.values() {
        for (field, _) in WORDS {
            let mut references = Vec::new();
            collect_references(&definition["properties"][*field], &mut references);
            found.extend(references.into_iter().map(|name| (name, *field)));
        }
    }
    found
}

fn collect_references(schema: &Json, into: &mut Vec<String>) {
    match schema {
        Json::Object(fields) => {
            if fields.contains_key("$ref") {
                into.push(name_of(schema));
            }
            fields.values().for_each(|value| collect_references(value, into));
        }
        Json::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

/// The words of an enumeration as the family has them.
fn respell(definition: &mut Json, field: &str, family: Family) {
    let word = |value: &Json| to_v2(field, value, family).1;
    let schema = |spelt: Json, description: Option<&Json>| {
        let mut schema = match &spelt["type"] {
            Json::String(kind) => {
                json!({"type": "object", "properties": {"type": {"type": "string", "const": kind}}, "required": ["type"]})
            }
            _ => json!({"type": "string", "const": spelt}),
        };
        if let Some(description) = description {
            schema["description"] = description.clone();
        }
        schema
    };
    let mut variants = Vec::new();
    for variant in definition["oneOf"].as_array().into_iter().flatten() {
        let values = variant["enum"].as_array().cloned().unwrap_or_else(|| vec![variant["const"].clone()]);
        variants.extend(values.iter().map(|value| schema(word(value), variant.get("description"))));
    }
    for value in definition["enum"].as_array().into_iter().flatten() {
        variants.push(schema(word(value), None));
    }
    let about = definition.get("description").cloned();
    *definition = json!({"oneOf": variants});
    if let Some(about) = about {
        definition["description"] = about;
    }
}

fn ingest_body(family: Family) -> Json {
    let rename = |name: &str| to_v2(name, &Json::Null, family).0;
    json!({
        "type": "object",
        "description": "An ingest stream in v2: its source, and the query that runs on each record. A definition of v1 with a `name` is accepted, too.",
        "required": ["name", "source", "query"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the stream, unique within its graph."},
            "source": named("Source"),
            "query": {"type": "string", "description": "The Cypher query that runs on each record."},
            "parameter": {"type": "string", "default": "that", "description": "The name of the query parameter that carries the record. `that` means the query refers to it as `$that`."},
            "parallelism": {"type": "integer", "minimum": 1, "default": 16, "description": "Accepted for compatibility, without effect: the records of a stream take effect one after another, in order."},
            rename("maximumPerSecond"): {"type": ["integer", "null"], "minimum": 1, "description": "The most records to read per second. No limit when not given."},
            "transformation": {
                "type": ["object", "null"],
                "description": "A function that changes each record before the query runs on it. None when not given.",
                "required": ["type", "function"],
                "properties": {
                    "type": {"type": "string", "const": "JavaScript"},
                    "function": {
                        "type": "string",
                        "description": "The text of a JavaScript function. It is called with each record, and what it returns takes the place of the record. A record for which it throws, or takes longer than a second, fails.",
                        "examples": ["that => ({id: that.user.id, day: that.ts.slice(0, 10)})"],
                    },
                },
            },
            "onRecordError": {
                "type": "object",
                "description": "What happens to records that cannot be decoded or whose query fails. In any case they are counted, the first ones are kept with their reasons, and the stream goes on as far as `stopAfter` allows.",
                "properties": {
                    "logRecord": {"type": "boolean", "default": true, "description": "Whether such records are logged: the first ten, then every thousandth."},
                    "retrySettings": {"type": ["object", "null"], "description": "Accepted for compatibility, without effect: a record that cannot be decoded will not be the next time."},
                    "stopAfter": {
                        "type": ["object", "null"],
                        "description": "The stream fails when too many records have failed. It can be started again. It does not fail for that reason when not given.",
                        "required": ["records"],
                        "properties": {
                            "records": {"type": "integer", "minimum": 0, "description": "How many records may fail. The stream fails at the next one."},
                            "within": {"type": ["string", "null"], "description": "The time after which failed records are counted from 0 again, such as `10m`. When not given, they are counted from each start of the stream."},
                        },
                    },
                    "deadLetterQueueSettings": {
                        "type": "object",
                        "description": "Where failed records are sent to.",
                        "properties": {"destinations": {
                            "type": "array",
                            "description": "Destinations that each failed record is sent to. The stream waits until they have it.",
                            "items": named("LetterBox"),
                        }},
                    },
                },
            },
            "onStreamError": {
                "type": "object",
                "description": "What happens when the stream fails. It stays failed when not given.",
                "required": ["type"],
                "properties": {
                    "type": {
                        "type": "string",
                        "enum": ["LogStreamError", "RetryStreamError"],
                        "description": "`LogStreamError`: the error is logged, and the stream stays failed. `RetryStreamError`: where the failure may pass, the stream begins again by itself.",
                    },
                    "retryCount": {"type": "integer", "minimum": 0, "description": "How many times in a row the stream begins again by itself. Required with `RetryStreamError`."},
                    "within": {"type": "string", "default": "31s", "description": "Attempts are counted from 0 again when the last one is longer ago than this."},
                    "minBackoff": {"type": "string", "default": "10s", "description": "The pause before the first attempt. It grows with each further one."},
                    "maxBackoff": {"type": "string", "default": "10s", "description": "The longest pause before an attempt."},
                },
            },
        },
        "examples": [{"name": "numbers", "source": {"type": "NumberIterator", "startOffset": 0, "limit": 1000},
            "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Number, n.value = $that"}],
    })
}

/// A destination, as records that failed go to it, and results that were refused.
fn letter_box(mut definition: Json) -> Json {
    let by_schema = definition["properties"].get("format").is_some();
    remove(&mut definition, &["format"]);
    let mut format = json!({
        "type": "object",
        "required": ["type"],
        "description": "How a dead letter is written. JSON when not given.",
        "properties": {
            "type": {"type": "string", "enum": ["JSON", "Bytes"], "description": "`JSON`: as JSON. `Bytes`: as it came, or was to be sent."},
            "withInfoEnvelope": {"type": "boolean", "default": false, "description": "Whether the JSON is an object that also has the reason and the place of the record or result."},
        },
    });
    if by_schema {
        format["description"] = "How a dead letter is written. JSON when not given.".into();
        let properties = &mut format["properties"];
        properties["type"]["description"] =
            "`JSON`: as JSON. `Bytes`: as it came, or was to be sent. `Protobuf`: as a Protobuf message.".into();
        properties["type"]["enum"] = json!(["JSON", "Bytes", "Protobuf"]);
        properties["withInfoEnvelope"]["description"] =
            "Whether the reason and the place of the record or result are written, too. Not with `Bytes`.".into();
        properties["schemaUrl"] =
            json!({"type": "string", "description": "With `Protobuf`: the URL or path of the compiled descriptor set."});
        properties["typeName"] = json!({"type": "string", "description": "With `Protobuf`: the message type."});
        properties["schemaRegistry"] = named("SchemaRegistry");
        properties["subject"] =
            json!({"type": "string", "description": "With `Protobuf` and `schemaRegistry`: the subject of the schema."});
    }
    definition["properties"]["outputFormat"] = format;
    for example in
        definition.get_mut("examples").and_then(Json::as_array_mut).into_iter().flatten().filter_map(Json::as_object_mut)
    {
        example.remove("format");
        example.insert("outputFormat".to_owned(), json!({"type": "JSON", "withInfoEnvelope": true}));
    }
    definition
}

/// What becomes of a result that the other side refuses.
fn on_result_error() -> Json {
    json!({
        "type": "object",
        "description": "What becomes of a result that the destination refuses for good, or that was tried as often as it may be. `GiveUp` when not given.",
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string",
                "enum": ["GiveUp", "Fail", "Retry", "DeadLetter"],
                "description": "`GiveUp`: the result is counted as failed, and the next one is sent. `Fail`: the output ends and keeps the result for its next definition or start. `Retry`: the result is tried until it works; the results behind it wait. `DeadLetter`: the result is sent to `destinations`.",
            },
            "destinations": {
                "type": "array",
                "minItems": 1,
                "description": "With `DeadLetter`: where the result is sent to. The output goes on when all of them have it.",
                "items": named("LetterBox"),
            },
        },
        "examples": [{"type": "Fail"}],
    })
}

fn cypher_output(family: Family) -> Json {
    let mut definition = json!({
        "type": "object",
        "description": "Runs a Cypher query for each result. Its rows go to the output in `andThen`, if there is one.",
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "description": "The Cypher query that runs on each result."},
            "parameter": {"type": "string", "default": "that", "description": "The name of the query parameter that carries the result. `that` means the query refers to it as `$that`."},
            "parallelism": {"type": "integer", "minimum": 1, "default": 16, "description": "The most queries that run at a time, if the query only reads. A query that writes runs for one result after another, in their order."},
            "andThen": {"$ref": format!("{PLACE}Output"), "description": "The output that gets each row of the query. Rows are dropped when not given."},
            "allowAllNodeScan": {"type": "boolean", "default": false, "description": "Whether the query may look through all nodes of the graph. If false, a query that might do so is refused."},
            "shouldRetry": {"type": "boolean", "default": true, "description": "Whether a query that cannot be run at the moment, through no fault of its own, is tried every 0.2 s until it can. If false, it counts as failed."},
        },
        "examples": [{"type": "CypherQuery", "query": "MATCH (n) WHERE id(n) = $that.data.id SET n.seen = true"}],
    });
    if family == Family::V1 {
        definition["properties"]["structure"] = named("Envelope");
    }
    tag(&mut definition, "CypherQuery");
    definition
}

fn workflow() -> Json {
    let kind = |kind: &str, text: &str| json!({"type": "object", "description": text, "required": ["type"], "properties": {"type": {"type": "string", "const": kind}}});
    json!({
        "type": "object",
        "description": "An output of a standing query in v2: a result passes the filter, the transformation and the enrichment, as far as they are given, and is then sent to every destination.",
        "required": ["name", "destinations"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the output, unique within the standing query."},
            "filter": kind("OnlyPositiveMatch", "`OnlyPositiveMatch`: cancellations are left out. Nothing is left out when not given."),
            "preEnrichmentTransformation": {
                "type": "object",
                "description": "What results consist of from here on. They have `meta` (`isPositiveMatch`, `resultId`) and `data` when not given.",
                "required": ["type"],
                "properties": {"type": {
                    "type": "string",
                    "enum": ["InlineData", "WithTick"],
                    "description": "`InlineData`: the data alone, without `meta`. `WithTick`: `meta` also has `tick` and `eventId`, which no other result has.",
                }},
            },
            "resultEnrichment": {
                "type": "object",
                "description": "A Cypher query that runs for each result; its rows go to the destinations instead of the result. None when not given.",
                "required": ["query"],
                "properties": {
                    "query": {"type": "string", "description": "The Cypher query that runs on each result."},
                    "parameter": {"type": "string", "default": "that", "description": "The name of the query parameter that carries the result."},
                    "parallelism": {"type": "integer", "minimum": 1, "default": 16, "description": "The most queries that run at a time, if the query only reads."},
                    "allowAllNodeScan": {"type": "boolean", "default": false, "description": "Whether the query may look through all nodes of the graph. If false, a query that might do so is refused."},
                    "shouldRetry": {"type": "boolean", "default": true, "description": "Whether a query that cannot be run at the moment is tried every 0.2 s until it can. If false, it counts as failed."},
                },
            },
            "destinations": {"type": "array", "items": named("Output"), "minItems": 1, "description": "Where each result is sent to."},
        },
        "examples": [{"name": "log", "destinations": [{"type": "StandardOut"}]}],
    })
}
