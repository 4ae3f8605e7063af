//! Standing queries over HTTP: the create body of v1 and its outputs.

use serde_json::{Value as Json, json};

use super::decode::{Fields, Mistakes, unknown_type};

const OUTPUTS: &[&str] = &["PrintToStandardOut", "WriteToFile", "PostToEndpoint", "CypherQuery", "Drop"];
const OUTPUTS_ELSEWHERE: &[&str] =
    &["WriteToKafka", "WriteToKinesis", "WriteToSNS", "PostToSlack", "InternalQueue", "QuinePatternQuery"];

/// Outputs inside outputs deeper than this are a mistake.
const AND_THEN_DEPTH_MAX: usize = 16;

/// How a secret is shown.
const MASK: &str = "Secret(****)";

#[derive(Clone, Debug, PartialEq)]
pub struct StandingSettings {
    pub pattern: PatternSettings,
    /// In the order of the body.
    pub outputs: Vec<(String, Output)>,
    pub include_cancellations: bool,
    pub input_buffer_size: i64,
    pub hash_results: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PatternSettings {
    pub query: String,
    pub mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    DistinctId,
    MultipleValues,
}

/// Whether a result is sent with its `meta`, or its `data` alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Structure {
    WithMetadata,
    Bare,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    PrintToStandardOut { log_level: &'static str, log_mode: &'static str, structure: Structure },
    WriteToFile { path: String, structure: Structure },
    PostToEndpoint { url: String, parallelism: i64, only_positive_match_data: bool, headers: Vec<(String, String)>, structure: Structure },
    CypherQuery {
        query: String,
        parameter: String,
        parallelism: i64,
        and_then: Option<Box<Output>>,
        allow_all_node_scan: bool,
        should_retry: bool,
        structure: Structure,
    },
    Drop,
}

impl StandingSettings {
    pub fn decode(body: &Json) -> Result<StandingSettings, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let settings = decode(body, &mut mistakes);
        mistakes.or(settings)
    }

    /// As stored: with secrets, so that a restart can use them.
    pub fn to_stored_json(&self) -> Json {
        json!({
            "pattern": self.pattern.to_json(),
            "outputs": self.outputs.iter().map(|(name, output)| (name.clone(), output.json(false))).collect::<serde_json::Map<_, _>>(),
            "includeCancellations": self.include_cancellations,
            "inputBufferSize": self.input_buffer_size,
            "shouldCalculateResultHashCode": self.hash_results,
        })
    }
}

impl PatternSettings {
    pub fn to_json(&self) -> Json {
        let mode = match self.mode {
            Mode::DistinctId => "DistinctId",
            Mode::MultipleValues => "MultipleValues",
        };
        json!({"type": "Cypher", "query": self.query, "mode": mode})
    }
}

fn decode(body: &Json, mistakes: &mut Mistakes) -> Option<StandingSettings> {
    let fields = Fields::of(body, "", mistakes)?;
    let pattern = fields.required("pattern", mistakes).and_then(|value| decode_pattern(value, mistakes));
    let outputs = fields.required("outputs", mistakes).and_then(|value| {
        let outputs = Fields::of(value, ".outputs", mistakes)?;
        let decoded = outputs.entries().map(|(name, value)| Some((name.clone(), decode_output(value, &format!(".outputs.{name}"), 0, mistakes)?)));
        decoded.collect::<Option<Vec<_>>>()
    });
    Some(StandingSettings {
        include_cancellations: fields.boolean("includeCancellations", mistakes).unwrap_or(false),
        input_buffer_size: fields.int("inputBufferSize", mistakes).unwrap_or(32),
        hash_results: fields.boolean("shouldCalculateResultHashCode", mistakes).unwrap_or(false),
        pattern: pattern?,
        outputs: outputs?,
    })
}

fn decode_pattern(value: &Json, mistakes: &mut Mistakes) -> Option<PatternSettings> {
    let (fields, name) = Fields::tagged(value, ".pattern", mistakes)?;
    if name != "Cypher" {
        mistakes.at("", format!("No decoder for discriminator '{name}'!"));
        return None;
    }
    let query = fields.required_text("query", mistakes)?;
    let mode = match fields.get("mode") {
        None => Mode::DistinctId,
        Some(_) => match fields.word("mode", &["DistinctId", "MultipleValues"], mistakes)? {
            "MultipleValues" => Mode::MultipleValues,
            _ => Mode::DistinctId,
        },
    };
    Some(PatternSettings { query, mode })
}

impl Output {
    pub fn decode(body: &Json) -> Result<Output, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let output = decode_output(body, "", 0, &mut mistakes);
        mistakes.or(output)
    }

    /// As shown: secrets masked.
    pub fn to_json(&self) -> Json {
        self.json(true)
    }

    fn json(&self, mask: bool) -> Json {
        match self {
            Output::PrintToStandardOut { log_level, log_mode, structure } => {
                json!({"type": "PrintToStandardOut", "logLevel": log_level, "logMode": log_mode, "structure": structure.to_json()})
            }
            Output::WriteToFile { path, structure } => json!({"type": "WriteToFile", "path": path, "structure": structure.to_json()}),
            Output::PostToEndpoint { url, parallelism, only_positive_match_data, headers, structure } => {
                let shown = |value: &String| if mask { MASK.to_owned() } else { value.clone() };
                let headers: serde_json::Map<String, Json> =
                    headers.iter().map(|(name, value)| (name.clone(), Json::String(shown(value)))).collect();
                json!({
                    "type": "PostToEndpoint",
                    "url": url,
                    "parallelism": parallelism,
                    "onlyPositiveMatchData": only_positive_match_data,
                    "headers": headers,
                    "structure": structure.to_json(),
                })
            }
            Output::CypherQuery { query, parameter, parallelism, and_then, allow_all_node_scan, should_retry, structure } => {
                let mut body = json!({"type": "CypherQuery", "query": query, "parameter": parameter, "parallelism": parallelism});
                if let Some(next) = and_then {
                    body["andThen"] = next.json(mask);
                }
                body["allowAllNodeScan"] = (*allow_all_node_scan).into();
                body["shouldRetry"] = (*should_retry).into();
                body["structure"] = structure.to_json();
                body
            }
            Output::Drop => json!({"type": "Drop"}),
        }
    }
}

impl Structure {
    fn to_json(self) -> Json {
        match self {
            Structure::WithMetadata => json!({"type": "WithMetadata"}),
            Structure::Bare => json!({"type": "Bare"}),
        }
    }
}

fn decode_output(value: &Json, path: &str, depth: usize, mistakes: &mut Mistakes) -> Option<Output> {
    if depth > AND_THEN_DEPTH_MAX {
        mistakes.at(path, format!("outputs are nested more than {AND_THEN_DEPTH_MAX} deep"));
        return None;
    }
    let (fields, name) = Fields::tagged(value, path, mistakes)?;
    let output = match name {
        "PrintToStandardOut" => Output::PrintToStandardOut {
            log_level: word_or(&fields, "logLevel", &["Info", "Trace", "Debug", "Warn", "Error"], mistakes)?,
            log_mode: word_or(&fields, "logMode", &["Complete", "FastSampling"], mistakes)?,
            structure: decode_structure(&fields, mistakes)?,
        },
        "WriteToFile" => {
            Output::WriteToFile { path: fields.required_text("path", mistakes)?, structure: decode_structure(&fields, mistakes)? }
        }
        "PostToEndpoint" => Output::PostToEndpoint {
            url: fields.required_text("url", mistakes)?,
            parallelism: parallelism(&fields, 8, mistakes)?,
            only_positive_match_data: fields.boolean("onlyPositiveMatchData", mistakes).unwrap_or(false),
            headers: fields.texts("headers", mistakes),
            structure: decode_structure(&fields, mistakes)?,
        },
        "CypherQuery" => Output::CypherQuery {
            query: fields.required_text("query", mistakes)?,
            parameter: fields.text("parameter", mistakes).unwrap_or_else(|| "that".to_owned()),
            parallelism: parallelism(&fields, 16, mistakes)?,
            and_then: match fields.get("andThen") {
                Some(next) => Some(Box::new(decode_output(next, ".andThen", depth + 1, mistakes)?)),
                None => None,
            },
            allow_all_node_scan: fields.boolean("allowAllNodeScan", mistakes).unwrap_or(false),
            should_retry: fields.boolean("shouldRetry", mistakes).unwrap_or(true),
            structure: decode_structure(&fields, mistakes)?,
        },
        "Drop" => Output::Drop,
        other => {
            unknown_type(other, "output", OUTPUTS, OUTPUTS_ELSEWHERE, mistakes);
            return None;
        }
    };
    Some(output)
}

/// One of the words, the first of which is the default.
fn word_or(fields: &Fields<'_>, name: &str, words: &[&'static str], mistakes: &mut Mistakes) -> Option<&'static str> {
    if fields.get(name).is_none() { words.first().copied() } else { fields.word(name, words, mistakes) }
}

fn parallelism(fields: &Fields<'_>, default: i64, mistakes: &mut Mistakes) -> Option<i64> {
    let count = if fields.get("parallelism").is_none() { default } else { fields.int("parallelism", mistakes)? };
    if count < 1 {
        mistakes.at(".parallelism", "must be at least 1");
        return None;
    }
    Some(count)
}

fn decode_structure(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Option<Structure> {
    let Some(value) = fields.get("structure") else { return Some(Structure::WithMetadata) };
    match Fields::tagged(value, ".structure", mistakes)?.1 {
        "WithMetadata" => Some(Structure::WithMetadata),
        "Bare" => Some(Structure::Bare),
        other => {
            mistakes.at("", format!("No decoder for discriminator '{other}'!"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = r#""pattern": {"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"}"#;

    fn decode_text(body: &str) -> Result<StandingSettings, Vec<String>> {
        StandingSettings::decode(&serde_json::from_str(body).expect("JSON"))
    }

    #[test]
    fn defaults_and_the_way_back() {
        let settings = decode_text(&format!(
            r#"{{{PATTERN}, "zzz": 1, "outputs": {{"log": {{"type": "PrintToStandardOut"}},
              "post": {{"type": "CypherQuery", "query": "RETURN 1",
                "andThen": {{"type": "PostToEndpoint", "url": "http://x/", "headers": {{"X-Key": "hush"}}}}}}}}}}"#
        ))
        .expect("decodes");
        assert_eq!(settings.pattern.mode, Mode::DistinctId);
        assert_eq!(settings.input_buffer_size, 32);
        assert_eq!(
            settings.outputs[0].1.to_json().to_string(),
            r#"{"type":"PrintToStandardOut","logLevel":"Info","logMode":"Complete","structure":{"type":"WithMetadata"}}"#
        );
        assert_eq!(StandingSettings::decode(&settings.to_stored_json()), Ok(settings.clone()));
        let shown = settings.outputs[1].1.to_json().to_string();
        assert!(shown.contains(MASK) && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn mistakes_read_as_recorded() {
        for (body, expected) in [
            (r#"{"outputs": {}}"#.to_owned(), vec!["DecodingFailure at .pattern: Missing required field"]),
            (format!("{{{PATTERN}}}"), vec!["DecodingFailure at .outputs: Missing required field"]),
            (
                r#"{"pattern": 5, "outputs": 5}"#.to_owned(),
                vec![
                    "DecodingFailure at .pattern: Got value '5' with wrong type, expecting object",
                    "DecodingFailure at .outputs: Got value '5' with wrong type, expecting object",
                ],
            ),
            (r#"{"pattern": {"type": "Graph"}, "outputs": {}}"#.to_owned(), vec!["DecodingFailure at : No decoder for discriminator 'Graph'!"]),
            (format!(r#"{{{PATTERN}, "outputs": {{}}, "inputBufferSize": "x"}}"#), vec!["DecodingFailure at .inputBufferSize: Int"]),
            (
                r#"{"pattern": {"type": "Cypher", "query": "x", "mode": "Nope"}, "outputs": {}}"#.to_owned(),
                vec!["DecodingFailure at .mode: Invalid value: Nope ; valid values are: DistinctId, MultipleValues"],
            ),
        ] {
            assert_eq!(decode_text(&body).expect_err("should have been refused"), expected, "{body}");
        }
    }

    #[test]
    fn outputs_of_other_editions_are_named() {
        let error = Output::decode(&json!({"type": "WriteToKafka"})).expect_err("not built in");
        assert!(error[0].contains("not in this version of weir"), "{error:?}");
        let error = Output::decode(&json!({"type": "Nope"})).expect_err("unknown");
        assert_eq!(error, ["DecodingFailure at : No decoder for discriminator 'Nope'!"]);
    }
}
