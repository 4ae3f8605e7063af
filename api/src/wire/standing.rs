//! Standing queries over HTTP: the create body of v1 and its outputs. What v2 says besides is kept as an output of its own
//! kind, `Workflow`.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{ConnectorError, DESTINATIONS, DestinationConfig, Envelope, Retries};
use weir_cypher_compiler::StandingMode;
use weir_model::Text;

use super::decode::{Fields, Mistakes, refuse_elsewhere};
use super::family::{Family, plain_word};
use super::letters::{Notation, Refusals};
use super::retries;
use crate::clock;

const CYPHER_QUERY: &str = "CypherQuery";
const WORKFLOW: &str = "Workflow";
const OUTPUTS_ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "WriteToKafka",
    #[cfg(not(feature = "aws"))]
    "WriteToKinesis",
    #[cfg(not(feature = "aws"))]
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
    /// Only looked at when the query is created.
    pub start: StartFrom,
}

/// Which of the results before its creation a query has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StartFrom {
    Now,
    WholeGraph,
    /// What has come and gone since that millisecond.
    Moment(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct PatternSettings {
    pub query: String,
    pub mode: Mode,
    /// It stood in the body. Where it did not, a text that the usual mode refuses may be kept in another.
    pub mode_given: bool,
    /// The order of its columns, where it took the place of a query that has them in another one than its text. Stored beside the
    /// pattern, as nobody gives it.
    pub columns: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    DistinctId,
    MultipleValues,
    /// Weir's own: whatever reads.
    AnyQuery,
}

impl Mode {
    /// As the compiler names it.
    pub fn of_compiler(self) -> StandingMode {
        match self {
            Mode::DistinctId => StandingMode::DistinctId,
            Mode::MultipleValues => StandingMode::MultipleValues,
            Mode::AnyQuery => StandingMode::AnyQuery,
        }
    }
}

/// What becomes of the results of a query.
#[derive(Clone)]
pub enum Output {
    /// Runs for each result; needs the graph, so it is no connector.
    CypherQuery(CypherOutput),
    Destination(DestinationOutput),
    /// One destination of a workflow of v2.
    Workflow(Workflow),
}

#[derive(Clone)]
pub struct DestinationOutput {
    pub config: Arc<dyn DestinationConfig>,
    pub refusals: Refusals,
    pub retries: Retries,
}

#[derive(Clone)]
pub struct Workflow {
    /// The workflow it is a part of.
    pub of: String,
    /// Cancellations are left out.
    pub only_positive: bool,
    /// What of results goes on behind the filter.
    pub structure: Envelope,
    /// Runs for each result; its rows go on.
    pub enrichment: Option<CypherOutput>,
    pub destination: Box<Output>,
    /// Where the destination stands in the body that it came with; empty of what is stored.
    pub place: String,
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

    /// What a query is replaced by: its pattern, and whether cancellations are results, where that is said.
    pub fn decode_replacement(body: &Json) -> Result<(PatternSettings, Option<bool>), Vec<String>> {
        let mut mistakes = Mistakes::default();
        let replacement = Fields::of(body, "", &mut mistakes).and_then(|fields| {
            // All of it is read, so that all that is wrong is told.
            let pattern = fields.required("pattern", &mut mistakes);
            let pattern = pattern.and_then(|pattern| decode_pattern(pattern, &mut mistakes));
            if fields.get("outputs").is_some() {
                mistakes.at(".outputs", "outputs stay as they are; each is changed by itself");
            }
            if fields.get("startFrom").is_some() {
                mistakes.at(".startFrom", "the query goes on from its answer; to begin anew, delete it and create another");
            }
            let cancellations = fields.boolean("includeCancellations", &mut mistakes);
            Some((pattern?, cancellations))
        });
        mistakes.or(replacement)
    }

    /// As stored: with secrets, so that a restart can use them.
    pub fn to_stored_json(&self) -> Json {
        json!({
            "pattern": self.pattern.to_json(Family::V1),
            "outputs": self.outputs.iter().map(|(name, output)| (name.clone(), output.to_stored_json())).collect::<JsonMap<_, _>>(),
            "includeCancellations": self.include_cancellations,
            "inputBufferSize": self.input_buffer_size,
            "shouldCalculateResultHashCode": self.hash_results,
            "startFrom": self.start.to_json(Family::V1),
        })
    }
}

impl StartFrom {
    pub fn to_json(self, family: Family) -> Json {
        match self {
            StartFrom::Now => family.word("Now").into(),
            StartFrom::WholeGraph => family.word("WholeGraph").into(),
            StartFrom::Moment(millis) => clock::instant(clock::from_millis(millis)).into(),
        }
    }
}

impl StandingSettings {
    /// The names of its workflows.
    pub fn workflows(&self) -> impl Iterator<Item = &str> {
        let of_first = |(name, output): &&(String, Output)| matches!(output, Output::Workflow(part) if part.of == *name);
        self.outputs.iter().filter(of_first).map(|(name, _)| name.as_str())
    }

    /// The outputs by name, as shown: secrets masked.
    pub fn outputs_json(&self) -> Json {
        Json::Object(self.outputs.iter().map(|(name, output)| (name.clone(), output.to_json())).collect::<JsonMap<_, _>>())
    }
}

impl PatternSettings {
    pub fn to_json(&self, family: Family) -> Json {
        let mode = match self.mode {
            Mode::DistinctId => "DistinctId",
            Mode::MultipleValues => "MultipleValues",
            Mode::AnyQuery => "AnyQuery",
        };
        json!({"type": "Cypher", "query": self.query, "mode": family.word(mode)})
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
        start: decode_start(&fields, mistakes),
        pattern: pattern?,
        outputs: outputs?,
    })
}

/// Which of the matches that are there are results.
pub fn decode_start(fields: &Fields<'_>, mistakes: &mut Mistakes) -> StartFrom {
    let instant = |value: &Json| match value {
        Json::Number(millis) => millis.as_u64(),
        Json::String(text) => clock::parse_instant(text).and_then(|millis| millis.try_into().ok()),
        _ => None,
    };
    if let Some(millis) = fields.get("startFrom").and_then(instant) {
        return StartFrom::Moment(millis);
    }
    let Some(given) = fields.get("startFrom") else { return StartFrom::Now };
    match plain_word(given).as_deref() {
        Some("Now") => StartFrom::Now,
        Some("WholeGraph") => StartFrom::WholeGraph,
        _ => {
            let moment = "a moment, in milliseconds or as in 2026-02-03T04:05:06Z";
            mistakes.at(&fields.path_of("startFrom"), not_one_of(given, &["Now", "WholeGraph", moment]));
            StartFrom::Now
        }
    }
}

/// In the spelling in which it was asked: of v2 as of today, or of everything else.
fn not_one_of(given: &Json, words: &[&str]) -> String {
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    let is_shouted = shown.chars().any(|c| c.is_ascii_uppercase()) && !shown.chars().any(|c| c.is_ascii_lowercase());
    let family = if is_shouted { Family::Current } else { Family::V1 };
    let spelt = |word: &&str| if word.contains(' ') { (*word).to_owned() } else { family.word(word) };
    format!("Invalid value: {shown} ; valid values are: {}", words.iter().map(spelt).collect::<Vec<_>>().join(", "))
}

pub fn decode_pattern(value: &Json, mistakes: &mut Mistakes) -> Option<PatternSettings> {
    let (fields, name) = Fields::tagged(value, ".pattern", mistakes)?;
    if name != "Cypher" {
        mistakes.at("", format!("No decoder for discriminator '{name}'!"));
        return None;
    }
    let query = fields.required_text("query", mistakes);
    let (mode, mode_given) = match fields.get("mode").map(|mode| (mode, plain_word(mode))) {
        None => (Mode::DistinctId, false),
        Some((_, Some(word))) if word == "DistinctId" => (Mode::DistinctId, true),
        Some((_, Some(word))) if word == "MultipleValues" => (Mode::MultipleValues, true),
        Some((_, Some(word))) if word == "AnyQuery" => (Mode::AnyQuery, true),
        Some((given, _)) => {
            mistakes.at(&fields.path_of("mode"), not_one_of(given, &["DistinctId", "MultipleValues", "AnyQuery"]));
            // Of the text is told what is wrong with it in every mode.
            (Mode::DistinctId, false)
        }
    };
    Some(PatternSettings { query: query?, mode, mode_given, columns: Vec::new() })
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
            Output::Destination(to) => to.written(to.config.settings(), Notation::Shown(Family::V1)),
            Output::CypherQuery(cypher) => cypher.json(&Output::to_json),
            Output::Workflow(workflow) => workflow.as_output_json(),
        }
    }

    /// As stored: with secrets.
    pub fn to_stored_json(&self) -> Json {
        match self {
            Output::Destination(to) => to.written(to.config.stored(), Notation::Stored),
            Output::CypherQuery(cypher) => cypher.json(&Output::to_stored_json),
            Output::Workflow(workflow) => json!({
                "type": WORKFLOW,
                "of": workflow.of,
                "onlyPositive": workflow.only_positive,
                "structure": written(workflow.structure),
                "enrichment": workflow.enrichment.as_ref().map(|cypher| cypher.json(&Output::to_stored_json)),
                "destination": workflow.destination.to_stored_json(),
            }),
        }
    }

    /// The queries in it.
    pub fn texts(&self) -> Vec<&str> {
        let (cypher, next) = match self {
            Output::Destination(_) => (None, None),
            Output::CypherQuery(cypher) => (Some(cypher), cypher.and_then.as_ref()),
            Output::Workflow(workflow) => (workflow.enrichment.as_ref(), Some(&workflow.destination)),
        };
        let own = cypher.iter().map(|cypher| cypher.query.as_str());
        own.chain(next.iter().flat_map(|next| next.texts())).collect()
    }

    /// Where its results go in the end.
    pub fn end(&self) -> &Output {
        match self {
            Output::Destination(_) => self,
            Output::CypherQuery(cypher) => cypher.and_then.as_ref().map_or(self, |next| next.end()),
            Output::Workflow(workflow) => workflow.destination.end(),
        }
    }

    /// Where it is nothing but a destination: which.
    pub fn own_destination(&self) -> Option<&DestinationOutput> {
        if let Output::Destination(to) = self { Some(to) } else { None }
    }

    /// The workflow of v2 it is a part of.
    pub fn workflow(&self) -> Option<&str> {
        if let Output::Workflow(workflow) = self { Some(&workflow.of) } else { None }
    }
}

impl DestinationOutput {
    fn written(&self, mut definition: Json, notation: Notation) -> Json {
        self.write_common(&mut definition, notation);
        definition
    }

    /// Adds what every destination takes beside the options of its own.
    pub fn write_common(&self, definition: &mut Json, notation: Notation) {
        retries::write(&self.retries, definition, notation);
        self.refusals.write(definition, notation);
    }
}

impl Workflow {
    /// What is around the data of an item that reaches the destination.
    pub fn envelope(&self) -> Envelope {
        if self.enrichment.is_some() { Envelope::Bare } else { self.structure }
    }

    /// The output of v1 that does about the same; a filter is not told there.
    fn as_output_json(&self) -> Json {
        let mut destination = self.destination.to_json();
        if destination.get("structure").is_some() {
            destination["structure"] = written(self.envelope());
        }
        let Some(cypher) = &self.enrichment else { return destination };
        let mut shown = cypher.json(&Output::to_json);
        shown["andThen"] = destination;
        shown["structure"] = written(self.structure);
        shown
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
        body["structure"] = written(self.structure);
        body
    }
}

pub fn decode_output(value: &Json, path: &str, depth: usize, mistakes: &mut Mistakes) -> Option<Output> {
    if depth > AND_THEN_DEPTH_MAX {
        mistakes.at(path, format!("outputs are nested more than {AND_THEN_DEPTH_MAX} deep"));
        return None;
    }
    let (fields, name) = Fields::tagged(value, path, mistakes)?;
    if name == CYPHER_QUERY {
        return decode_cypher(&fields, depth, mistakes).map(Output::CypherQuery);
    }
    if name == WORKFLOW {
        return decode_workflow(&fields, depth, mistakes).map(Output::Workflow);
    }
    let known: Vec<&str> = DESTINATIONS.iter().map(|row| row.name_v1).chain([CYPHER_QUERY]).collect();
    let before = mistakes.0.len();
    refuse_elsewhere(value, "output", OUTPUTS_ELSEWHERE, &known, mistakes);
    if mistakes.0.len() > before {
        return None;
    }
    match weir_connectors::parse_destination_v1(value) {
        Ok(config) => {
            // Both are read, so that all that is wrong is told.
            let refusals = Refusals::read(&fields, &*config, mistakes);
            let retries = retries::read(&fields, &*config, mistakes)?;
            Some(Output::Destination(DestinationOutput { config: config.into(), refusals: refusals?, retries }))
        }
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

/// As it is stored.
fn decode_workflow(fields: &Fields<'_>, depth: usize, mistakes: &mut Mistakes) -> Option<Workflow> {
    let enrichment = match fields.get("enrichment") {
        None => None,
        Some(value) => {
            let (fields, _) = Fields::tagged(value, ".enrichment", mistakes)?;
            Some(decode_cypher(&fields, depth + 1, mistakes)?)
        }
    };
    let destination = decode_output(fields.required("destination", mistakes)?, ".destination", depth + 1, mistakes)?;
    let structure = match decode_structure(fields, mistakes)? {
        Some(structure) => structure,
        // As it was stored before there was more to say.
        None if fields.boolean("bare", mistakes) == Some(true) => Envelope::Bare,
        None => Envelope::WithMetadata,
    };
    Some(Workflow {
        of: fields.required_text("of", mistakes)?,
        only_positive: fields.boolean("onlyPositive", mistakes).unwrap_or(false),
        structure,
        enrichment,
        destination: Box::new(destination),
        place: String::new(),
    })
}

/// None inside where nothing is said.
fn decode_structure(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Option<Option<Envelope>> {
    let Some(value) = fields.get("structure") else { return Some(None) };
    let structure = match Fields::tagged(value, ".structure", mistakes)?.1 {
        "WithMetadata" => Envelope::WithMetadata,
        "WithTick" => Envelope::WithTick,
        "Bare" => Envelope::Bare,
        other => {
            mistakes.at("", format!("No decoder for discriminator '{other}'!"));
            return None;
        }
    };
    Some(Some(structure))
}

fn written(structure: Envelope) -> Json {
    serde_json::to_value(structure).unwrap_or(Json::Null)
}

pub fn decode_cypher(fields: &Fields<'_>, depth: usize, mistakes: &mut Mistakes) -> Option<CypherOutput> {
    // All of it is read, so that all that is wrong is told.
    let parallelism = if fields.get("parallelism").is_none() { Some(16) } else { fields.int("parallelism", mistakes) };
    if parallelism.is_some_and(|count| count < 1) {
        mistakes.at(&fields.path_of("parallelism"), "must be at least 1");
    }
    let structure = decode_structure(fields, mistakes);
    let query = fields.required_here("query", mistakes).and_then(|_| fields.text("query", mistakes));
    let parameter = fields.text("parameter", mistakes).unwrap_or_else(|| "that".to_owned());
    let and_then = match fields.get("andThen") {
        Some(next) => decode_output(next, ".andThen", depth + 1, mistakes).map(|next| Some(Box::new(next))),
        None => Some(None),
    };
    Some(CypherOutput {
        allow_all_node_scan: fields.boolean("allowAllNodeScan", mistakes).unwrap_or(false),
        should_retry: fields.boolean("shouldRetry", mistakes).unwrap_or(true),
        parameter,
        query: query?,
        parallelism: parallelism.filter(|count| *count >= 1)?,
        and_then: and_then?,
        structure: structure?.unwrap_or_default(),
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
                // In the reference service without the last.
                vec!["DecodingFailure at .mode: Invalid value: Nope ; valid values are: DistinctId, MultipleValues, AnyQuery"],
            ),
            (
                r#"{"pattern": {"type": "Cypher", "query": "x", "mode": "DISTINCT"}, "outputs": {}}"#.to_owned(),
                vec![
                    "DecodingFailure at .mode: Invalid value: DISTINCT ; valid values are: DISTINCT_ID, MULTIPLE_VALUES, ANY_QUERY",
                ],
            ),
            (
                format!(r#"{{{PATTERN}, "outputs": {{}}, "startFrom": "yesterday"}}"#),
                vec![
                    "DecodingFailure at .startFrom: Invalid value: yesterday ; valid values are: Now, WholeGraph, a moment, \
                     in milliseconds or as in 2026-02-03T04:05:06Z",
                ],
            ),
        ] {
            assert_eq!(decode_text(&body).err().expect("should have been refused"), expected, "{body}");
        }
    }

    #[test]
    fn all_that_is_wrong_with_a_replacement_is_told() {
        let body = json!({"pattern": {"type": "Cypher", "mode": "Nope"}, "outputs": {}, "startFrom": "WholeGraph",
            "includeCancellations": "maybe"});
        let told = StandingSettings::decode_replacement(&body).expect_err("should have been refused");
        assert_eq!(told.len(), 5, "{told:?}");
        for (told, word) in told.iter().zip([".query: ", ".mode: ", ".outputs: ", ".startFrom: ", ".includeCancellations: "]) {
            assert!(told.contains(word), "{told}");
        }
        let query = json!({"type": "CypherQuery", "parallelism": 0, "andThen": {"type": "Nope"}, "shouldRetry": 1});
        let told = Output::decode(&query).err().expect("should have been refused");
        assert_eq!(told.len(), 4, "{told:?}");
        for (told, word) in told.iter().zip([".parallelism: ", ".query: ", "'Nope'", ".shouldRetry: "]) {
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn outputs_of_other_editions_are_named() {
        let error = Output::decode(&json!({"type": "QuinePatternQuery"})).err().expect("not built in");
        assert!(error[0].contains("not in this version of weir"), "{error:?}");
        let error = Output::decode(&json!({"type": "Nope"})).err().expect("unknown");
        assert_eq!(error, ["DecodingFailure at : No decoder for discriminator 'Nope'!"]);
    }
}
