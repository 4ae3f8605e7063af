//! Standing queries over HTTP: the create body of v1 and its outputs.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weir_connectors::{ConnectorError, DESTINATIONS, DestinationConfig, Envelope};

use super::decode::{Fields, Mistakes, refuse_elsewhere};

const CYPHER_QUERY: &str = "CypherQuery";
const OUTPUTS_ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "WriteToKafka",
    "WriteToKinesis",
    "WriteToSNS",
    "InternalQueue",
    "QuinePatternQuery",
];

/// Outputs inside outputs deeper than this are a mistake.
const AND_THEN_DEPTH_MAX: usize = 16;

#[derive(Clone)]
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
    /// It stood in the body. Where it did not, a text that the usual mode refuses may be kept in another.
    pub mode_given: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    DistinctId,
    MultipleValues,
    /// Weir's own: whatever reads.
    AnyQuery,
}

/// What becomes of the results of a query.
#[derive(Clone)]
pub enum Output {
    /// Runs for each result; needs the graph, so it is no connector.
    CypherQuery(CypherOutput),
    Destination(Arc<dyn DestinationConfig>),
}

#[derive(Clone)]
pub struct CypherOutput {
    pub query: String,
    /// The parameter that carries the result.
    pub parameter: String,
    pub parallelism: i64,
    /// Is given each row the query returns.
    pub and_then: Option<Box<Output>>,
    pub allow_all_node_scan: bool,
    pub should_retry: bool,
    pub structure: Envelope,
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
            "outputs": self.outputs.iter().map(|(name, output)| (name.clone(), output.to_stored_json())).collect::<serde_json::Map<_, _>>(),
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
            Mode::AnyQuery => "AnyQuery",
        };
        json!({"type": "Cypher", "query": self.query, "mode": mode})
    }
}

fn decode(body: &Json, mistakes: &mut Mistakes) -> Option<StandingSettings> {
    let fields = Fields::of(body, "", mistakes)?;
    let pattern = fields.required("pattern", mistakes).and_then(|value| decode_pattern(value, mistakes));
    let outputs = fields.required("outputs", mistakes).and_then(|value| {
        let outputs = Fields::of(value, ".outputs", mistakes)?;
        let decoded = outputs
            .entries()
            .map(|(name, value)| Some((name.clone(), decode_output(value, &format!(".outputs.{name}"), 0, mistakes)?)));
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
        // Not among the words of the error below, which reads as recorded.
        Some(Json::String(word)) if word == "AnyQuery" => Mode::AnyQuery,
        Some(_) => match fields.word("mode", &["DistinctId", "MultipleValues"], mistakes)? {
            "MultipleValues" => Mode::MultipleValues,
            _ => Mode::DistinctId,
        },
    };
    Some(PatternSettings { query, mode, mode_given: fields.get("mode").is_some() })
}

impl Output {
    pub fn decode(body: &Json) -> Result<Output, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let output = decode_output(body, "", 0, &mut mistakes);
        mistakes.or(output)
    }

    /// As shown: secrets masked.
    pub fn to_json(&self) -> Json {
        match self {
            Output::Destination(config) => config.settings(),
            Output::CypherQuery(cypher) => cypher.json(&Output::to_json),
        }
    }

    /// As stored: with secrets.
    pub fn to_stored_json(&self) -> Json {
        match self {
            Output::Destination(config) => config.stored(),
            Output::CypherQuery(cypher) => cypher.json(&Output::to_stored_json),
        }
    }
}

impl CypherOutput {
    fn json(&self, next: &dyn Fn(&Output) -> Json) -> Json {
        let mut body =
            json!({"type": CYPHER_QUERY, "query": self.query, "parameter": self.parameter, "parallelism": self.parallelism});
        if let Some(output) = &self.and_then {
            body["andThen"] = next(output);
        }
        body["allowAllNodeScan"] = self.allow_all_node_scan.into();
        body["shouldRetry"] = self.should_retry.into();
        body["structure"] = serde_json::to_value(self.structure).unwrap_or(Json::Null);
        body
    }
}

fn decode_output(value: &Json, path: &str, depth: usize, mistakes: &mut Mistakes) -> Option<Output> {
    if depth > AND_THEN_DEPTH_MAX {
        mistakes.at(path, format!("outputs are nested more than {AND_THEN_DEPTH_MAX} deep"));
        return None;
    }
    let (fields, name) = Fields::tagged(value, path, mistakes)?;
    if name == CYPHER_QUERY {
        return decode_cypher(&fields, depth, mistakes).map(Output::CypherQuery);
    }
    let known: Vec<&str> = DESTINATIONS.iter().map(|row| row.name_v1).chain([CYPHER_QUERY]).collect();
    let before = mistakes.0.len();
    refuse_elsewhere(value, "output", OUTPUTS_ELSEWHERE, &known, mistakes);
    if mistakes.0.len() > before {
        return None;
    }
    match weir_connectors::parse_destination_v1(value) {
        Ok(config) => Some(Output::Destination(config.into())),
        Err(ConnectorError::Config { field, problem }) => {
            mistakes.at(&if field.is_empty() { field } else { format!(".{field}") }, problem);
            None
        }
        Err(other) => {
            mistakes.0.push(other.to_string());
            None
        }
    }
}

fn decode_cypher(fields: &Fields<'_>, depth: usize, mistakes: &mut Mistakes) -> Option<CypherOutput> {
    let parallelism = if fields.get("parallelism").is_none() { 16 } else { fields.int("parallelism", mistakes)? };
    if parallelism < 1 {
        mistakes.at(".parallelism", "must be at least 1");
        return None;
    }
    let structure = match fields.get("structure") {
        None => Envelope::WithMetadata,
        Some(value) => match Fields::tagged(value, ".structure", mistakes)?.1 {
            "WithMetadata" => Envelope::WithMetadata,
            "Bare" => Envelope::Bare,
            other => {
                mistakes.at("", format!("No decoder for discriminator '{other}'!"));
                return None;
            }
        },
    };
    Some(CypherOutput {
        query: fields.required_text("query", mistakes)?,
        parameter: fields.text("parameter", mistakes).unwrap_or_else(|| "that".to_owned()),
        parallelism,
        and_then: match fields.get("andThen") {
            Some(next) => Some(Box::new(decode_output(next, ".andThen", depth + 1, mistakes)?)),
            None => None,
        },
        allow_all_node_scan: fields.boolean("allowAllNodeScan", mistakes).unwrap_or(false),
        should_retry: fields.boolean("shouldRetry", mistakes).unwrap_or(true),
        structure,
    })
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
        let Ok(settings) = decode_text(&format!(
            r#"{{{PATTERN}, "zzz": 1, "outputs": {{"log": {{"type": "PrintToStandardOut"}},
              "post": {{"type": "CypherQuery", "query": "RETURN 1",
                "andThen": {{"type": "PostToEndpoint", "url": "http://x/", "headers": {{"X-Key": "hush"}}}}}}}}}}"#
        )) else {
            panic!("should have been decoded")
        };
        assert_eq!(settings.pattern.mode, Mode::DistinctId);
        assert_eq!(settings.input_buffer_size, 32);
        assert_eq!(
            settings.outputs[0].1.to_json().to_string(),
            r#"{"type":"PrintToStandardOut","logLevel":"Info","logMode":"Complete","structure":{"type":"WithMetadata"}}"#
        );
        let stored = settings.to_stored_json();
        assert_eq!(StandingSettings::decode(&stored).map(|again| again.to_stored_json()), Ok(stored.clone()));
        assert!(stored.to_string().contains("hush"));
        let shown = settings.outputs[1].1.to_json().to_string();
        assert!(shown.contains("Secret(****)") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn any_query_is_a_mode() {
        let body = r#"{"pattern": {"type": "Cypher", "query": "RETURN 1", "mode": "AnyQuery"}, "outputs": {}}"#;
        let Ok(settings) = decode_text(body) else { panic!("should have been decoded") };
        assert_eq!(settings.pattern.mode, Mode::AnyQuery);
        assert_eq!(settings.to_stored_json()["pattern"]["mode"], "AnyQuery");
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
            (
                r#"{"pattern": {"type": "Graph"}, "outputs": {}}"#.to_owned(),
                vec!["DecodingFailure at : No decoder for discriminator 'Graph'!"],
            ),
            (
                format!(r#"{{{PATTERN}, "outputs": {{}}, "inputBufferSize": "x"}}"#),
                vec!["DecodingFailure at .inputBufferSize: Int"],
            ),
            (
                r#"{"pattern": {"type": "Cypher", "query": "x", "mode": "Nope"}, "outputs": {}}"#.to_owned(),
                vec!["DecodingFailure at .mode: Invalid value: Nope ; valid values are: DistinctId, MultipleValues"],
            ),
        ] {
            assert_eq!(decode_text(&body).err().expect("should have been refused"), expected, "{body}");
        }
    }

    #[test]
    fn outputs_of_other_editions_are_named() {
        let error = Output::decode(&json!({"type": "WriteToKinesis"})).err().expect("not built in");
        assert!(error[0].contains("not in this version of weir"), "{error:?}");
        let error = Output::decode(&json!({"type": "Nope"})).err().expect("unknown");
        assert_eq!(error, ["DecodingFailure at : No decoder for discriminator 'Nope'!"]);
    }
}
