//! Schemas that are put together: sources and destinations from the tables of the connectors, in the notation of v1, or, by
//! the same table of names that reads and writes bodies, of v2.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{DESTINATIONS, SOURCES};

use super::schemas::{PLACE, generator, named};
use crate::wire::family::Family;
use crate::wire::letters::{NO_LETTER_BOXES, ON_RESULT_ERROR};
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
        add_definitions(generator, &mut all);
        for (kind, v1) in kinds {
            let name = outputs["discriminator"]["mapping"][v1].as_str().and_then(|place| place.strip_prefix(PLACE)).unwrap_or(v1);
            let Some(mut definition) = all.remove(name) else { continue };
            if !NO_LETTER_BOXES.contains(&kind) {
                all.insert(format!("{v1}LetterBox"), letter_box(definition.clone()));
                boxes.push((v1.to_owned(), format!("{v1}LetterBox")));
            }
            definition["properties"][ON_RESULT_ERROR] = named("OnResultError");
            all.insert(name.to_owned(), definition);
        }
        all.insert("LetterBox".to_owned(), described(one_of(boxes), "Where a result that is refused goes."));
        all.insert("OnResultError".to_owned(), on_result_error());
        all.insert(
            "IngestSettings".to_owned(),
            described(sources, "A source, what it holds, and the query that runs on each record."),
        );
        all.insert("IngestBody".to_owned(), named("IngestSettings"));
        all.insert("CypherQuery".to_owned(), cypher_output(family));
        let outputs = with_variant(outputs, "CypherQuery");
        all.insert("Output".to_owned(), described(outputs, "What becomes of the results of a standing query."));
        all.insert(
            "Outputs".to_owned(),
            json!({"type": "object", "additionalProperties": named("Output"), "description": "Outputs by name."}),
        );
        return all;
    }
    let (sources, formats) = v2_sources(&mut all, sources, family);
    all.insert("Source".to_owned(), described(sources, "Where records come from."));
    all.extend(formats);
    all.insert("IngestBody".to_owned(), ingest_body(family));
    let settings = if family == Family::Preview { "Source" } else { "IngestBody" };
    all.insert("IngestSettings".to_owned(), named(settings));
    let (outputs, letter_boxes) = v2_destinations(&mut all, destinations, family);
    all.extend(letter_boxes);
    all.insert("CypherQueryDestination".to_owned(), cypher_output(family));
    let outputs = with_variant(outputs, "CypherQueryDestination");
    all.insert("Output".to_owned(), described(outputs, "Where items go."));
    all.insert("Workflow".to_owned(), workflow());
    all.insert(
        "Outputs".to_owned(),
        json!({"type": "array", "items": named("Workflow"), "description": "Outputs, each a workflow."}),
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
            let name = format!("{v2_name}{}", if of_files { "Format" } else { "Records" });
            formats.insert(name.clone(), definition);
            kinds.push(((*v2_name).to_owned(), name));
        }
        formats.insert(union.to_owned(), one_of(kinds));
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
        described(one_of(boxes), "Where a record that failed goes, or a result that is refused."),
    );
    all.insert("OnResultError".to_owned(), on_result_error());
    (one_of(kinds), letter_boxes)
}

/// Of a destination that clients give a format to, and that knows one.
fn json_format() -> Json {
    json!({
        "type": "object",
        "description": "What a message is: the text of the result.",
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
    *definition = json!({"oneOf": variants});
}

fn ingest_body(family: Family) -> Json {
    let rename = |name: &str| to_v2(name, &Json::Null, family).0;
    json!({
        "type": "object",
        "description": "A stream: its source, and the query that runs on each record. The notation of v1 with a name is taken as well.",
        "required": ["name", "source", "query"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the stream."},
            "source": named("Source"),
            "query": {"type": "string", "description": "Cypher that runs on each record."},
            "parameter": {"type": "string", "default": "that", "description": "The parameter that carries the record."},
            "parallelism": {"type": "integer", "minimum": 1, "default": 16, "description": "Taken and shown; records are always evaluated in their order."},
            rename("maximumPerSecond"): {"type": ["integer", "null"], "minimum": 1, "description": "Records a second, at most."},
            "transformation": {
                "type": ["object", "null"],
                "description": "What becomes of a record before the query runs on it.",
                "required": ["type", "function"],
                "properties": {
                    "type": {"type": "string", "const": "JavaScript"},
                    "function": {
                        "type": "string",
                        "description": "The text of one function. It is called with each record, which it cannot change, and what it returns takes the record's place; a record for which it throws fails.",
                        "examples": ["that => ({id: that.user.id, day: that.ts.slice(0, 10)})"],
                    },
                },
            },
            "onRecordError": {
                "type": "object",
                "description": "What happens to a record that fails: it is counted, and the first ones are kept with their reasons.",
                "properties": {
                    "logRecord": {"type": "boolean", "default": true},
                    "retrySettings": {"type": ["object", "null"], "description": "Taken and shown: decoders give the same answer each time."},
                    "stopAfter": {
                        "type": ["object", "null"],
                        "description": "The stream fails when more records than this have failed, and may be started again; weir's own. It never does when not given.",
                        "required": ["records"],
                        "properties": {
                            "records": {"type": "integer", "minimum": 0},
                            "within": {"type": ["string", "null"], "description": "A duration, after which they are counted anew."},
                        },
                    },
                    "deadLetterQueueSettings": {
                        "type": "object",
                        "properties": {"destinations": {
                            "type": "array",
                            "description": "Where such a record goes besides: destinations as the outputs of standing queries have them.",
                            "items": named("LetterBox"),
                        }},
                    },
                },
            },
            "onStreamError": {
                "type": "object",
                "description": "What happens when the stream fails.",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "enum": ["LogStreamError", "RetryStreamError"]},
                    "retryCount": {"type": "integer", "minimum": 0, "description": "How often it begins again by itself; required to retry."},
                    "within": {"type": "string", "default": "31s", "description": "Counted in so long."},
                    "minBackoff": {"type": "string", "default": "10s"},
                    "maxBackoff": {"type": "string", "default": "10s"},
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
        "description": "How it is written there: as it was, or as JSON.",
        "properties": {
            "type": {"type": "string", "enum": ["JSON", "Bytes"]},
            "withInfoEnvelope": {"type": "boolean", "default": false, "description": "JSON with the reason beside it."},
        },
    });
    if by_schema {
        format["description"] = "How it is written there: as it was, as JSON, or as a message of Protobuf.".into();
        let properties = &mut format["properties"];
        properties["type"]["enum"] = json!(["JSON", "Bytes", "Protobuf"]);
        properties["withInfoEnvelope"]["description"] = "With the reason beside it; not of Bytes.".into();
        properties["schemaUrl"] =
            json!({"type": "string", "description": "Of Protobuf: where the compiled descriptor set is found."});
        properties["typeName"] = json!({"type": "string", "description": "Of Protobuf: the message it becomes."});
        properties["schemaRegistry"] = named("SchemaRegistry");
        properties["subject"] =
            json!({"type": "string", "description": "Of Protobuf, with `schemaRegistry`: what the schema is registered for."});
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
        "description": "What becomes of a result that the destination refuses for good, or that was tried as often as the destination tries.",
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string",
                "enum": ["GiveUp", "Fail", "Retry", "DeadLetter"],
                "description": "`GiveUp`, the default: it is counted, and the next one comes. `Fail`: none is given up; what is refused ends the output, and is there for the next definition. `Retry`: it is tried until it works. `DeadLetter`: it goes to `destinations`.",
            },
            "destinations": {
                "type": "array",
                "minItems": 1,
                "description": "Of dead letters; nothing goes on before all of them have it.",
                "items": named("LetterBox"),
            },
        },
        "examples": [{"type": "Fail"}],
    })
}

fn cypher_output(family: Family) -> Json {
    let mut definition = json!({
        "type": "object",
        "description": "Runs a query for each result, and gives its rows to what comes then.",
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "description": "Cypher that runs on each result."},
            "parameter": {"type": "string", "default": "that", "description": "The parameter that carries the result."},
            "parallelism": {"type": "integer", "minimum": 1, "default": 16, "description": "So many results at most are asked about side by side, where the query only reads; others run one after another, so that their effects have the order of the results."},
            "andThen": {"$ref": format!("{PLACE}Output"), "description": "Is given each row the query returns."},
            "allowAllNodeScan": {"type": "boolean", "default": false, "description": "Whether the query may look through all nodes."},
            "shouldRetry": {"type": "boolean", "default": true, "description": "Whether a query that failed for a reason that passes runs again."},
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
        "description": "What becomes of results: filter, transformation, enrichment, then every destination is given each item.",
        "required": ["name", "destinations"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Unique within the standing query."},
            "filter": kind("OnlyPositiveMatch", "Cancellations are left out."),
            "preEnrichmentTransformation": {
                "type": "object",
                "description": "`InlineData`: the data of results alone. `WithTick`: with their tick and an id of their own in `meta`.",
                "required": ["type"],
                "properties": {"type": {"type": "string", "enum": ["InlineData", "WithTick"]}},
            },
            "resultEnrichment": {
                "type": "object",
                "description": "Runs for each result; its rows go on.",
                "required": ["query"],
                "properties": {
                    "query": {"type": "string"},
                    "parameter": {"type": "string", "default": "that"},
                    "parallelism": {"type": "integer", "minimum": 1, "default": 16},
                    "allowAllNodeScan": {"type": "boolean", "default": false},
                    "shouldRetry": {"type": "boolean", "default": true},
                },
            },
            "destinations": {"type": "array", "items": named("Output"), "minItems": 1},
        },
        "examples": [{"name": "log", "destinations": [{"type": "StandardOut"}]}],
    })
}
