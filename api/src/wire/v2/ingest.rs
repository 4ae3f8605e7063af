//! The body that creates an ingest stream in v2: `{name, source, query, …}`. In v1 the source holds everything.

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::SOURCES;

use super::names::{fields_to_v2, mistake, to_v1};
use crate::error::ApiError;
use crate::ingest::{ErrorHandling, Transformation};
use crate::wire::decode::{AT, Fields, IN, Mistakes};
use crate::wire::family::Family;

/// Sources of the reference service that are not here.
const ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "Kafka",
    #[cfg(not(feature = "aws"))]
    "Kinesis",
    #[cfg(not(feature = "aws"))]
    "KinesisKCL",
    #[cfg(not(feature = "aws"))]
    "SQS",
    #[cfg(not(feature = "aws"))]
    "S3",
    "DeltaSharingCdf",
];

/// Counts upwards: its records have no format in v2.
const NUMBERS: &str = "NumberIterator";

/// In the preview its region has a name of its own.
pub const KINESIS_KCL: &str = "KinesisKCL";
pub const REGION_OPT: &str = "regionOpt";

/// Sources whose format is that of files; the records of others come one by one.
const OF_FILES: [&str; 4] = ["File", "S3", "StdInput", "WebSocketFileUpload"];

/// How long a record of `WITH_LINES` may be. v2 has another default than v1, and weir stores and shows what v1 has.
const LINE_BYTES_MAX: u32 = 1_000_000;
const WITH_LINES: [&str; 3] = ["File", "S3", "StdInput"];
const LINE_SIZE: &str = "maximumLineSize";

/// The formats of v2, those of v1, and whether they are for files.
pub const FORMATS: &[(&str, &str, bool)] = &[
    ("Line", "CypherLine", true),
    ("JsonL", "CypherJson", true),
    ("Json", "CypherJsonObjects", true),
    ("CSV", "CypherCsv", true),
    ("AvroContainer", "CypherAvroContainer", true),
    ("Parquet", "CypherParquet", true),
    ("Json", "CypherJson", false),
    ("Raw", "CypherRaw", false),
    ("Protobuf", "CypherProtobuf", false),
    ("Avro", "CypherAvro", false),
    ("Drop", "Drop", false),
];

/// Sources that undo nothing to what they read.
const AS_IT_IS: [&str; 3] = ["StdInput", "WebSocketFileUpload", NUMBERS];

/// What stands beside the source in v2 and in it in v1.
pub const BESIDE: [&str; 3] = ["parallelism", WRITE_PARALLELISM, "maximumPerSecond"];

/// What SQS calls it in v1.
const WRITE_PARALLELISM: &str = "writeParallelism";

/// What stands in the definition as v2 has it.
const OF_V2: [&str; 3] = ["onRecordError", "onStreamError", "transformation"];

/// Where the source stands.
const SOURCE: &str = ".source";

/// The name, and the definition as v1 has it.
pub fn decode(body: &Json) -> Result<(String, Json), Vec<String>> {
    let mut mistakes = Mistakes::default();
    let decoded = read(body, &mut mistakes);
    mistakes.or(decoded)
}

fn read(body: &Json, mistakes: &mut Mistakes) -> Option<(String, Json)> {
    let fields = Fields::of(body, "", mistakes)?;
    let name = fields.required_name(mistakes);
    // Also as in v1, with the settings of the source beside the name.
    let Some(source) = fields.get("source").or_else(|| fields.get("type").map(|_| body)) else {
        fields.required("source", mistakes);
        fields.required("query", mistakes);
        return None;
    };
    // In the notation of v1 the body is the source.
    let place = if fields.get("source").is_some() { SOURCE } else { "" };
    let mut of_it = Mistakes::default();
    let tagged = Fields::tagged(source, SOURCE, &mut of_it);
    mistakes.within(place, of_it);
    let (source, kind) = tagged?;
    if let Some(row) = SOURCES.iter().find(|row| row.name_v1 == kind && row.name_v1 != row.name) {
        let mut definition: JsonMap<String, Json> = source.entries().map(|(name, value)| (name.clone(), value.clone())).collect();
        definition.remove("name");
        definition.insert("type".to_owned(), row.name_v1.into());
        return Some((name?, Json::Object(definition)));
    }
    let known = || SOURCES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let Some(row) = SOURCES.iter().find(|row| row.name == kind) else {
        let problem = if ELSEWHERE.contains(&kind) {
            format!("the source '{kind}' is not in this version of weir; there are {}", known())
        } else {
            format!("type '{kind}' names no known source; there are {}", known())
        };
        mistakes.at(".source", problem);
        return None;
    };
    let mut definition = JsonMap::new();
    definition.insert("type".to_owned(), row.name_v1.into());
    let beside = ["type", "format", "name", "query", "parameter", "source"];
    definition
        .extend(source.entries().filter(|(name, _)| !beside.contains(&name.as_str())).map(|(name, value)| to_v1(name, value)));
    if kind == KINESIS_KCL
        && let Some(region) = definition.remove(REGION_OPT)
    {
        definition.entry("region").or_insert(region);
    }
    if WITH_LINES.contains(&kind) && definition.get(LINE_SIZE).is_none_or(Json::is_null) {
        definition.insert(LINE_SIZE.to_owned(), LINE_BYTES_MAX.into());
    }
    for (name, value) in fields.entries() {
        let (name, value) = to_v1(name, value);
        if BESIDE.contains(&name.as_str()) {
            definition.insert(name, value);
        }
    }
    // They are of v2 alone, and kept as they are.
    for name in OF_V2 {
        definition.extend(fields.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    unsupported(&source, kind, mistakes);
    let format = format(&source, kind, mistakes);
    let mut format = format?;
    if format["type"] != "Drop" {
        format["query"] = fields.required_text("query", mistakes)?.into();
        format["parameter"] = fields.text("parameter", mistakes).unwrap_or_else(|| "that".to_owned()).into();
    }
    definition.insert("format".to_owned(), format);
    Some((name?, Json::Object(definition)))
}

fn format(source: &Fields<'_>, kind: &str, mistakes: &mut Mistakes) -> Option<Json> {
    if !has_format(kind) {
        return Some(json!({"type": "CypherJson"}));
    }
    let of_files = is_of_files(kind);
    let Some(format) = source.get("format") else {
        mistakes.at(".source.format", "Missing required field");
        return None;
    };
    let mut of_it = Mistakes::default();
    let tagged = Fields::tagged(format, ".source.format", &mut of_it);
    mistakes.within(".source.format", of_it);
    let (fields, name) = tagged?;
    let known = FORMATS.iter().filter(|(_, _, files)| *files == of_files);
    let Some((_, v1, _)) = known.clone().find(|(v2, ..)| *v2 == name) else {
        let known = known.map(|(v2, ..)| *v2).collect::<Vec<_>>().join(", ");
        let problem = format!("type '{name}' names no format of the source '{kind}'; there are {known}");
        mistakes.at(".source.format", problem);
        return None;
    };
    let mut format: JsonMap<String, Json> = fields.entries().map(|(name, value)| to_v1(name, value)).collect();
    format.insert("type".to_owned(), (*v1).into());
    Some(Json::Object(format))
}

/// What would change what a stream does, and is not here, is refused; its defaults are taken.
fn unsupported(source: &Fields<'_>, kind: &str, mistakes: &mut Mistakes) {
    let decoders = source.get("recordDecoders").and_then(Json::as_array);
    if AS_IT_IS.contains(&kind) && decoders.is_some_and(|decoders| !decoders.is_empty()) {
        let problem = format!("recordDecoders of the source '{kind}' are not in this version of weir; leave it out");
        mistakes.at(".source.recordDecoders", problem);
    }
}

/// Whether its records have a format in v2.
pub fn has_format(kind: &str) -> bool {
    kind != NUMBERS
}

/// Whether that is one of files.
pub fn is_of_files(kind: &str) -> bool {
    OF_FILES.contains(&kind)
}

/// The schema of a source with the defaults of v2 where they are not those of v1.
pub fn set_defaults(schema: &mut Json) {
    if let Some(size) = schema["properties"].get_mut(LINE_SIZE) {
        size["default"] = LINE_BYTES_MAX.into();
    }
}

/// The name of a kind of source, by that of v1.
pub fn kind(v1: &str) -> &str {
    SOURCES.iter().find(|row| row.name_v1 == v1).map_or(v1, |row| row.name)
}

/// The settings of v1 as the preview shows them, the source alone, and as they are shown today, the whole body.
pub fn shown(name: &str, settings: &Json, (errors, transformation): (&ErrorHandling, &Transformation), family: Family) -> Json {
    let kind = kind(settings["type"].as_str().unwrap_or_default());
    let mut source = JsonMap::new();
    source.insert("type".to_owned(), kind.into());
    let without = ["type", "format"].iter().chain(&BESIDE).copied().collect::<Vec<_>>();
    let fields = fields_to_v2(settings, &without, family);
    let format = &settings["format"];
    if has_format(kind) {
        let of_files = is_of_files(kind);
        let v1 = format["type"].as_str().unwrap_or_default();
        let v2 = FORMATS.iter().find(|(_, name, files)| *name == v1 && *files == of_files).map_or(v1, |(v2, ..)| v2);
        let mut shown = JsonMap::new();
        shown.insert("type".to_owned(), v2.into());
        shown.extend(fields_to_v2(format, &["type", "query", "parameter"], family));
        source.insert("format".to_owned(), Json::Object(shown));
    }
    source.extend(fields);
    if family == Family::Preview {
        let mut source = Json::Object(source);
        rename_region(kind, &mut source, family);
        return source;
    }
    let mut whole = json!({"name": name, "source": source});
    for field in ["query", "parameter"] {
        if let Some(value) = format.get(field) {
            whole[field] = value.clone();
        }
    }
    for field in BESIDE {
        if let Some(value) = settings.get(field) {
            let (named, value) = super::names::to_v2(field, value, family);
            let named = if field == WRITE_PARALLELISM { "parallelism".to_owned() } else { named };
            whole[named] = value;
        }
    }
    transformation.show(&mut whole);
    errors.show(&mut whole, family);
    whole
}

/// The field as the family has it, of a source or of what describes one.
pub fn rename_region(kind: &str, fields: &mut Json, family: Family) {
    if (kind, family) == (KINESIS_KCL, Family::Preview)
        && let Some(fields) = fields.as_object_mut()
        && let Some(region) = fields.remove("region")
    {
        fields.insert(REGION_OPT.to_owned(), region);
    }
}

/// What is wrong with a definition, in the names of v2.
pub fn in_its_words(error: ApiError) -> ApiError {
    reworded(error, mistake)
}

fn reworded(error: ApiError, words: impl Fn(String) -> String) -> ApiError {
    match error {
        ApiError::Decode(reasons) => ApiError::Decode(reasons.into_iter().map(words).collect()),
        // Beside what was read and is wrong there may be what could not be read.
        ApiError::Bad(reasons) => ApiError::Bad(reasons.into_iter().map(words).collect()),
        other => other,
    }
}

/// As `in_its_words`, for a definition that stood in the source of a body. Clients know the path of a mistake from the source on,
/// so it is said that the mistake is there.
pub fn in_its_place(error: ApiError) -> ApiError {
    reworded(error, |reason| {
        let known = says_where(&reason);
        let told = mistake(reason);
        if known { told } else { format!("{told} (in {SOURCE})") }
    })
}

/// Whether that is no mistake in the source, or says that it is.
fn says_where(reason: &str) -> bool {
    let told = reason.strip_prefix(AT).and_then(|rest| rest.split_once(": "));
    let Some((path, problem)) = told else { return true };
    let first = path.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default();
    let is_beside = BESIDE.iter().chain(&OF_V2).chain(&["name", "query", "parameter"]).any(|name| *name == first);
    is_beside || path.starts_with(SOURCE) || problem.contains(IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(body: Json, expected: &str) {
        let reasons = decode(&body).expect_err("should have been refused");
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{reasons:?}");
    }

    #[test]
    fn a_source_becomes_one_of_v1_and_is_shown_again() {
        let body = json!({"name": "people", "source": {"type": "File", "path": "p.csv", "format": {"type": "CSV", "headers": true,
            "delimiter": "SEMICOLON"}, "startOffset": 2, "limit": 5, "characterEncoding": "UTF-8"},
            "query": "RETURN $row", "parameter": "row", "parallelism": 4, "maxPerSecond": 10});
        let (name, definition) = decode(&body).expect("is read");
        let expected = json!({"type": "FileIngest", "path": "p.csv", "startAtOffset": 2, "ingestLimit": 5, "encoding": "UTF-8",
            "parallelism": 4, "maximumPerSecond": 10, "maximumLineSize": 1_000_000,
            "format": {"type": "CypherCsv", "headers": true, "delimiter": "Semicolon", "query": "RETURN $row", "parameter": "row"}});
        assert_eq!((name.as_str(), &definition), ("people", &expected));
        let settings = weir_connectors::parse_source_v1(&definition).expect("a source").settings();
        let errors = ErrorHandling::read(&definition).expect("nothing of it is there");
        let shown = shown(&name, &settings, (&errors, &Transformation::default()), Family::Current);
        for (field, value) in body.as_object().expect("an object").iter().filter(|(field, _)| *field != "source") {
            assert_eq!(&shown[field], value);
        }
        assert_eq!(shown["source"]["format"]["delimiter"], "SEMICOLON");
        let mut again = decode(&shown).expect("is read again").1;
        for name in OF_V2 {
            again.as_object_mut().expect("an object").remove(name);
        }
        assert_eq!(again, settings);
    }

    #[test]
    fn lines_are_as_long_as_v2_has_them() {
        let size = |with: Json| {
            let mut source = json!({"type": "StdInput", "format": {"type": "Line"}});
            source.as_object_mut().expect("an object").extend(with.as_object().cloned().unwrap_or_default());
            decode(&json!({"name": "n", "source": source, "query": "RETURN 1"})).expect("is read").1["maximumLineSize"].clone()
        };
        assert_eq!(size(json!({})), 1_000_000);
        assert_eq!(size(json!({"maximumLineSize": null})), 1_000_000);
        assert_eq!(size(json!({"maximumLineSize": 5_000_000})), 5_000_000);
        let numbers = json!({"name": "n", "source": {"type": "NumberIterator"}, "query": "RETURN 1"});
        assert_eq!(decode(&numbers).expect("is read").1.get("maximumLineSize"), None);
    }

    #[cfg(feature = "aws")]
    #[test]
    fn the_preview_has_another_name_for_a_region() {
        let source = json!({"type": "KinesisKCL", "kinesisStreamName": "s", "applicationName": "a", "regionOpt": "us-west-2",
            "format": {"type": "Json"}});
        let (name, definition) = decode(&json!({"name": "k", "source": source, "query": "RETURN $that"})).expect("is read");
        assert_eq!((&definition["region"], definition.get("regionOpt")), (&json!("us-west-2"), None));
        let settings = weir_connectors::parse_source_v1(&definition).expect("a source").settings();
        let errors = ErrorHandling::read(&definition).expect("nothing of it is there");
        let shown = |family: Family| shown(&name, &settings, (&errors, &Transformation::default()), family);
        let (preview, current) = (shown(Family::Preview), shown(Family::Current));
        assert_eq!((&preview["regionOpt"], preview.get("region")), (&json!("us-west-2"), None));
        assert_eq!(current["source"]["region"], "us-west-2");
    }

    #[test]
    fn the_notation_of_v1_is_taken_too() {
        let body = json!({"name": "n", "type": "NumberIteratorIngest", "ingestLimit": 3});
        let (_, definition) = decode(&body).expect("is read");
        assert_eq!(definition, json!({"type": "NumberIteratorIngest", "ingestLimit": 3}));
        let body = json!({"name": "n", "type": "NumberIterator", "limit": 3, "query": "RETURN $that"});
        let (_, definition) = decode(&body).expect("is read");
        assert_eq!((&definition["ingestLimit"], &definition["format"]["query"]), (&json!(3), &json!("RETURN $that")));
    }

    #[test]
    fn what_is_wrong_in_the_source_is_told_to_be_there() {
        let told = |text: &str| match in_its_place(ApiError::Decode(vec![format!("DecodingFailure at {text}")])) {
            ApiError::Decode(reasons) => reasons[0].trim_start_matches("DecodingFailure at ").to_owned(),
            other => panic!("{other}"),
        };
        assert_eq!(told(".startAtOffset: Long"), ".startOffset: Long (in .source)");
        assert_eq!(told(".maxIntervalMillis: Int"), ".maxInterval: a duration such as 10s (in .source)");
        assert_eq!(told(": No decoder"), ": No decoder (in .source)");
        assert_eq!(told(".maximumPerSecond: Int"), ".maxPerSecond: Int");
        for known in [
            ".query: Missing required field",
            ".onRecordError.retrySettings.maxRetries: Int",
            ".source.format: Missing required field",
            ".path: Missing required field (in .onRecordError.deadLetterQueueSettings.destinations[0])",
        ] {
            assert_eq!(told(known), known);
        }
        let reasons = decode(&json!({"name": "n", "source": {"format": 5}, "query": "RETURN 1"})).expect_err("has no type");
        assert_eq!(reasons, ["DecodingFailure at : Missing type discriminator field 'type'! (in .source)"]);
    }

    #[test]
    fn what_is_not_here_is_refused_by_its_name() {
        let with = |source: Json| json!({"name": "n", "source": source, "query": "RETURN 1"});
        refused(json!({}), "DecodingFailure at .name: Missing required field");
        refused(json!({"name": "n"}), "DecodingFailure at .source: Missing required field");
        refused(with(json!({"type": "DeltaSharingCdf"})), "the source 'DeltaSharingCdf' is not in this version");
        refused(with(json!({"type": "Nope"})), "type 'Nope' names no known source");
        refused(with(json!({"type": "File", "path": "x", "format": {"type": "Nope"}})), "names no format");
        refused(with(json!({"type": "File", "path": "x"})), ".source.format: Missing required field");
        refused(
            with(json!({"type": "NumberIterator", "recordDecoders": ["GZIP"]})),
            "recordDecoders of the source 'NumberIterator' are not in this version",
        );
    }
}
