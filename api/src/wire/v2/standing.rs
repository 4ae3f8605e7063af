//! The body that creates a standing query in v2: outputs are workflows, with a filter, an enrichment and destinations.
//!
//! A workflow with several destinations is as many outputs: each of them knows for itself how far it has delivered.

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::config::wrong_type;
use weir_connectors::{DESTINATIONS, Envelope, Generation};

use super::names::{fields_to_v2, mistake, to_v1};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::letters::{Notation, takes_a_format, taking_a_format};
use crate::wire::standing::{
    CypherOutput, DestinationOutput, Output, PatternSettings, StandingSettings, Workflow, decode_cypher, decode_output,
    decode_pattern, decode_start,
};

/// Destinations of the reference service that are not here.
const ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "Kafka",
    #[cfg(not(feature = "aws"))]
    "Kinesis",
    #[cfg(not(feature = "aws"))]
    "SNS",
];

const CYPHER_QUERY: &str = "CypherQuery";

/// Whether it sends cancellations is decided by the workflow.
pub const HTTP_ENDPOINT: &str = "HttpEndpoint";

/// Its messages are texts. In v2 it has a format nevertheless, which can only be JSON.
pub const SNS: &str = "SNS";

/// What v1 says of a destination and v2 elsewhere or not at all.
pub const ONLY_V1: [&str; 4] = ["type", "structure", "logLevel", "logMode"];

/// What a workflow is called that is sent by itself, and whose name cannot be read.
const NO_NAME: &str = "(no name)";

/// The name, and the rest.
pub fn decode(body: &Json) -> Result<(String, StandingSettings), Vec<String>> {
    let mut mistakes = Mistakes::default();
    let decoded = read(body, &mut mistakes);
    mistakes.or(decoded)
}

fn read(body: &Json, mistakes: &mut Mistakes) -> Option<(String, StandingSettings)> {
    let fields = Fields::of(body, "", mistakes)?;
    let name = fields.required_name(mistakes);
    let pattern = fields.required("pattern", mistakes).and_then(|pattern| decode_pattern(pattern, mistakes));
    let outputs = read_outputs(&fields, mistakes);
    let settings = StandingSettings {
        include_cancellations: fields.boolean("includeCancellations", mistakes).unwrap_or(false),
        input_buffer_size: fields.int("inputBufferSize", mistakes).unwrap_or(32),
        hash_results: false,
        start: decode_start(&fields, mistakes),
        pattern: pattern?,
        outputs,
    };
    Some((name?, settings))
}

fn read_outputs(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Vec<(String, Output)> {
    let workflows = match fields.get("outputs") {
        None => return Vec::new(),
        Some(Json::Array(workflows)) => workflows,
        Some(other) => {
            mistakes.at(".outputs", wrong_type(other, "array"));
            return Vec::new();
        }
    };
    let mut outputs = Vec::new();
    for (index, workflow) in workflows.iter().enumerate() {
        let read = read_workflow(workflow, &format!(".outputs[{index}]"), mistakes);
        outputs.extend(read.into_iter().flat_map(|(_, parts)| parts));
    }
    outputs
}

/// What can be read of a body in which something is wrong, so that what is wrong with the rest can be told, too.
pub fn readable(body: &Json) -> (Option<PatternSettings>, Vec<(String, Output)>) {
    let mut told = Mistakes::default();
    let Some(fields) = Fields::of(body, "", &mut told) else { return (None, Vec::new()) };
    let pattern = fields.get("pattern").and_then(|pattern| decode_pattern(pattern, &mut told));
    (pattern, read_outputs(&fields, &mut told))
}

/// As `readable`, for a workflow.
pub fn readable_workflow(body: &Json) -> Vec<(String, Output)> {
    read_workflow(body, "", &mut Mistakes::default()).map_or_else(Vec::new, |(_, parts)| parts)
}

/// A workflow: its name, and the outputs it is with theirs.
pub type NamedWorkflow = (String, Vec<(String, Output)>);

pub fn decode_workflow(body: &Json) -> Result<NamedWorkflow, Vec<String>> {
    let mut mistakes = Mistakes::default();
    let decoded = read_workflow(body, "", &mut mistakes);
    mistakes.or(decoded)
}

/// All parts are read, so that all that is wrong is told; of those with which something is, the rest is given.
fn read_workflow(body: &Json, path: &str, mistakes: &mut Mistakes) -> Option<NamedWorkflow> {
    let fields = Fields::of(body, path, mistakes)?;
    let name = fields.required_name(mistakes);
    let only_positive = one_of(&fields, "filter", "OnlyPositiveMatch", mistakes);
    let structure = transformation(&fields, mistakes);
    let enrichment = match fields.get("resultEnrichment") {
        None => None,
        Some(value) => {
            let inner = Fields::of(value, &format!("{path}.resultEnrichment"), mistakes);
            inner.and_then(|inner| decode_cypher(&inner, 0, mistakes))
        }
    };
    let mut destinations = read_destinations(&fields, path, mistakes);
    if destinations.is_empty() {
        // For what is wrong with the query before them.
        let nowhere = decode_output(&json!({"type": "Drop"}), path, 0, &mut Mistakes::default());
        destinations.extend(nowhere.map(|nowhere| (String::new(), nowhere)));
    }
    // Never empty: that would be refused in place of what is wrong with the query.
    let usual = if path.is_empty() { NO_NAME } else { path.trim_start_matches('.') };
    let name = name.unwrap_or_else(|| usual.to_owned());
    let (only_positive, structure) = (only_positive.unwrap_or(false), structure.unwrap_or_default());
    let part = |(index, (place, destination)): (usize, (String, Output))| {
        let workflow = Workflow {
            of: name.clone(),
            only_positive,
            structure,
            enrichment: enrichment.clone(),
            destination: Box::new(destination),
            place,
        };
        let own = if index == 0 { name.clone() } else { format!("{name}#{}", index + 1) };
        (own, Output::Workflow(workflow))
    };
    let parts = destinations.into_iter().enumerate().map(part).collect();
    Some((name.clone(), parts))
}

/// Each with its place.
fn read_destinations(fields: &Fields<'_>, path: &str, mistakes: &mut Mistakes) -> Vec<(String, Output)> {
    let Some(given) = fields.required_here("destinations", mistakes) else { return Vec::new() };
    let Some(given) = given.as_array() else {
        mistakes.at(&fields.path_of("destinations"), wrong_type(given, "array"));
        return Vec::new();
    };
    if given.is_empty() {
        mistakes.at(&fields.path_of("destinations"), "at least one destination is needed");
        return Vec::new();
    }
    let read = |(index, value): (usize, &Json)| {
        let (path, mut of_it) = (format!("{path}.destinations[{index}]"), Mistakes::default());
        let output = read_destination(value, &path, &mut of_it);
        if output.is_none() && of_it.0.is_empty() {
            of_it.at(&path, "it cannot be read");
        }
        mistakes.within(&path, of_it);
        output.map(|output| (path, output))
    };
    given.iter().enumerate().filter_map(read).collect()
}

/// A tagged object of which there is one kind: whether it is there.
fn one_of(fields: &Fields<'_>, name: &str, kind: &'static str, mistakes: &mut Mistakes) -> Option<bool> {
    if fields.get(name).is_none() {
        return Some(false);
    }
    fields.any_word(name, &[kind], mistakes).map(|_| true)
}

/// What of results goes on.
fn transformation(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Option<Envelope> {
    const NAME: &str = "preEnrichmentTransformation";
    if fields.get(NAME).is_none() {
        return Some(Envelope::WithMetadata);
    }
    let word = fields.any_word(NAME, &["InlineData", "WithTick"], mistakes)?;
    Some(if word == "WithTick" { Envelope::WithTick } else { Envelope::Bare })
}

pub fn read_destination(value: &Json, path: &str, mistakes: &mut Mistakes) -> Option<Output> {
    let (fields, kind) = Fields::tagged(value, path, mistakes)?;
    // The outputs of v1 are taken too, with what they give their rows to.
    if kind == CYPHER_QUERY
        && let Some(next) = fields.get("andThen")
    {
        let next = read_destination(next, &format!("{path}.andThen"), mistakes);
        let alone = fields.entries().filter(|(name, _)| *name != "andThen").map(|(name, value)| (name.to_owned(), value.clone()));
        let Output::CypherQuery(query) = decode_output(&Json::Object(alone.collect()), path, 0, mistakes)? else { return None };
        return Some(Output::CypherQuery(CypherOutput { and_then: Some(Box::new(next?)), ..query }));
    }
    if kind == CYPHER_QUERY || DESTINATIONS.iter().any(|row| row.name_v1 == kind && row.name != kind) {
        return decode_output(value, path, 0, mistakes);
    }
    let known = || DESTINATIONS.iter().map(|row| row.name).chain([CYPHER_QUERY]).collect::<Vec<_>>().join(", ");
    let Some(row) = DESTINATIONS.iter().find(|row| row.name == kind) else {
        let problem = if ELSEWHERE.contains(&kind) {
            format!("the destination '{kind}' is not in this version of weir; there are {}", known())
        } else {
            format!("type '{kind}' names no known destination; there are {}", known())
        };
        mistakes.at(path, problem);
        return None;
    };
    let is_json = |format: &Json| format["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("JSON"));
    // In v1 what is not known has no effect.
    if fields.get("format").is_some_and(|format| !is_json(format)) && !takes_a_format(row) {
        let problem = format!("this destination is given JSON; those that take another format are {}", taking_a_format());
        mistakes.at(".format", problem);
        return None;
    }
    let of_v2 = fields.entries().filter(|(name, _)| !ONLY_V1.contains(&name.as_str()));
    let mut v1: JsonMap<String, Json> = of_v2.map(|(name, value)| to_v1(name, value)).collect();
    v1.insert("type".to_owned(), row.name_v1.into());
    let mut of_v1 = Mistakes::default();
    let output = decode_output(&Json::Object(v1), path, 0, &mut of_v1);
    mistakes.0.extend(of_v1.0.into_iter().map(mistake));
    output
}

/// The workflows of a query, in their order, each with all of its destinations.
pub fn workflows(outputs: &[(String, Output)], family: Family) -> Vec<Json> {
    let mut shown: Vec<(String, Json)> = Vec::new();
    for (name, output) in outputs {
        let (of, mut workflow) = workflow(name, output, family);
        match shown.iter_mut().find(|(other, _)| *other == of) {
            Some((_, known)) => {
                if let (Some(all), Some(more)) = (known["destinations"].as_array_mut(), workflow["destinations"].as_array_mut()) {
                    all.append(more);
                }
            }
            None => shown.push((of, workflow)),
        }
    }
    shown.into_iter().map(|(_, workflow)| workflow).collect()
}

fn workflow(name: &str, output: &Output, family: Family) -> (String, Json) {
    let (of, only_positive, structure, enrichment, destination) = match output {
        Output::Workflow(w) => (w.of.as_str(), w.only_positive, w.structure, w.enrichment.as_ref(), &*w.destination),
        // An output of v1 with a query first is one that enriches.
        Output::CypherQuery(cypher) => match &cypher.and_then {
            Some(next) => (name, false, cypher.structure, Some(cypher), &**next),
            None => (name, false, cypher.structure, None, output),
        },
        Output::Destination(DestinationOutput { config, .. }) => {
            // What v2 has around the data anyway is no transformation, such as that of Slack.
            (name, config.positive_only(), config.envelope(Generation::V2), None, output)
        }
    };
    let mut shown = json!({"name": of});
    if only_positive {
        shown["filter"] = json!({"type": "OnlyPositiveMatch"});
    }
    match structure {
        Envelope::WithMetadata => {}
        Envelope::WithTick => shown["preEnrichmentTransformation"] = json!({"type": "WithTick"}),
        Envelope::Bare => shown["preEnrichmentTransformation"] = json!({"type": "InlineData"}),
    }
    if let Some(cypher) = enrichment {
        shown["resultEnrichment"] = query(cypher);
    }
    shown["destinations"] = json!([destination_json(destination, family)]);
    (of.to_owned(), shown)
}

/// The kind of destination at the end of an output.
pub fn destination_kind(output: &Output) -> String {
    let end = match output {
        Output::Workflow(workflow) => &*workflow.destination,
        Output::CypherQuery(cypher) => cypher.and_then.as_deref().unwrap_or(output),
        Output::Destination(_) => output,
    };
    destination_json(end, Family::Current)["type"].as_str().unwrap_or_default().to_owned()
}

pub fn destination_json(output: &Output, family: Family) -> Json {
    let mut shown = JsonMap::new();
    match output {
        Output::Destination(DestinationOutput { config, .. }) => {
            let settings = config.settings();
            let v1 = settings["type"].as_str().unwrap_or_default();
            let kind = DESTINATIONS.iter().find(|row| row.name_v1 == v1).map_or(v1, |row| row.name);
            shown.insert("type".to_owned(), kind.into());
            shown.extend(fields_to_v2(&settings, &ONLY_V1, family));
            if kind == HTTP_ENDPOINT {
                shown.remove("onlyPositiveMatchData");
            }
            if kind == SNS {
                shown.insert("format".to_owned(), json!({"type": "JSON"}));
            }
        }
        Output::CypherQuery(cypher) => {
            shown.insert("type".to_owned(), CYPHER_QUERY.into());
            if let Json::Object(fields) = query(cypher) {
                shown.extend(fields);
            }
            if let Some(next) = &cypher.and_then {
                shown.insert("andThen".to_owned(), destination_json(next, family));
            }
        }
        Output::Workflow(inner) => return destination_json(&inner.destination, family),
    }
    let mut shown = Json::Object(shown);
    if let Output::Destination(to) = output {
        to.write_common(&mut shown, Notation::Shown(family));
    }
    shown
}

fn query(cypher: &CypherOutput) -> Json {
    json!({
        "query": cypher.query,
        "parameter": cypher.parameter,
        "parallelism": cypher.parallelism,
        "allowAllNodeScan": cypher.allow_all_node_scan,
        "shouldRetry": cypher.should_retry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(outputs: Json) -> Json {
        let pattern = json!({"type": "Cypher", "mode": "DISTINCT_ID", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        json!({"name": "q", "pattern": pattern, "outputs": outputs})
    }

    #[track_caller]
    fn refused(outputs: Json, expected: &str) {
        let reasons = decode(&body(outputs)).err().expect("should have been refused");
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{reasons:?}");
    }

    #[test]
    fn all_that_is_wrong_with_a_workflow_is_told() {
        let workflow = json!({"name": "o", "filter": {"type": "Odd"}, "preEnrichmentTransformation": {"type": "Even"},
            "resultEnrichment": {"parallelism": 0, "query": "RETURN 1"},
            "destinations": [{"type": "Nowhere"}, {"type": "Drop"}, {"type": "Elsewhere"}]});
        let reasons = decode(&body(json!([workflow]))).err().expect("should have been refused");
        assert_eq!(reasons.len(), 5, "{reasons:?}");
        for (reason, word) in reasons.iter().zip(["Odd", "Even", "parallelism", "Nowhere", "Elsewhere"]) {
            assert!(reason.contains(word), "{reasons:?}");
        }
    }

    #[test]
    fn what_can_be_read_beside_mistakes_is_given() {
        let broken = json!([
            {"filter": {"type": "Odd"}, "resultEnrichment": {"query": "RETURN 1"}, "destinations": [{"type": "Nowhere"}]},
            {"name": "two", "resultEnrichment": {}, "destinations": [{"type": "Drop"}, 5, {"type": "StandardOut"}]},
        ]);
        let (pattern, outputs) = readable(&body(broken.clone()));
        assert!(pattern.is_some_and(|pattern| pattern.query.starts_with("MATCH")));
        let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["outputs[0]", "two", "two#2"]);
        assert_eq!(outputs[0].1.texts(), ["RETURN 1"]);
        assert_eq!(readable_workflow(&broken[1]).len(), 2);
        assert_eq!(readable_workflow(&broken[0])[0].0, NO_NAME);
        assert!(decode(&body(broken.clone())).is_err() && decode_workflow(&broken[1]).is_err());
        assert!(readable(&json!({"pattern": 5, "outputs": 5})).0.is_none() && readable(&json!(5)).1.is_empty());
    }

    #[test]
    fn workflows_go_there_and_back() {
        let workflow = json!({"name": "hook", "filter": {"type": "OnlyPositiveMatch"}, "preEnrichmentTransformation": {"type": "InlineData"},
            "resultEnrichment": {"query": "RETURN 1", "parameter": "that", "parallelism": 16, "allowAllNodeScan": false, "shouldRetry": true},
            "destinations": [{"type": "StandardOut"}, {"type": "Slack", "hookUrl": "http://x/", "onlyPositiveMatchData": false, "interval": "30s"}]});
        let (_, settings) =
            decode(&body(json!([workflow, {"name": "drop", "destinations": [{"type": "Drop"}]}]))).expect("is read");
        let names: Vec<&str> = settings.outputs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["hook", "hook#2", "drop"]);
        let shown = workflows(&settings.outputs, Family::Current);
        let mut workflow = workflow;
        workflow["destinations"][1]["hookUrl"] = "Secret(****)".into();
        assert_eq!(shown, [workflow, json!({"name": "drop", "destinations": [{"type": "Drop"}]})]);
        let stored = settings.to_stored_json();
        let again = StandingSettings::decode(&stored).expect("what is stored is read");
        assert_eq!(workflows(&again.outputs, Family::Current), shown);
        let v1 = settings.outputs_json();
        assert_eq!(v1["hook"]["andThen"]["type"], "PrintToStandardOut");
        assert_eq!(v1["hook"]["andThen"]["structure"], json!({"type": "Bare"}));
    }

    #[test]
    fn a_format_is_for_destinations_that_take_one() {
        let to = |format: Json| json!([{"name": "o", "destinations": [{"type": "File", "path": "x", "format": format}]}]);
        let by_schema = json!({"type": "Protobuf", "schemaUrl": "x.desc", "typeName": "X"});
        refused(to(by_schema), ".format: this destination is given JSON; those that take another format are ");
        assert!(decode(&body(to(json!({"type": "JSON"})))).is_ok());
    }

    #[cfg(feature = "aws")]
    #[test]
    fn the_format_of_a_topic_is_json() {
        use crate::openapi::unknown;

        let format = json!({"type": "JSON"});
        let topic = json!({"type": SNS, "topic": "arn:aws:sns:eu-west-1:123456789012:results", "format": format});
        let sent = body(json!([{"name": "o", "destinations": [topic]}]));
        assert_eq!(unknown::fields("NamedStandingBody", &sent), [""; 0]);
        let (_, settings) = decode(&sent).expect("is read");
        assert_eq!(workflows(&settings.outputs, Family::Current)[0]["destinations"][0]["format"], format);
        assert_eq!(settings.outputs_json()["o"].get("format"), None, "v1 has none");
        let by_schema = json!({"type": "Protobuf", "schemaUrl": "x.desc", "typeName": "X"});
        let topic = json!({"type": SNS, "topic": "arn:aws:sns:eu-west-1:123456789012:results", "format": by_schema});
        refused(json!([{"name": "o", "destinations": [topic]}]), ".format: this destination is given JSON; ");
        // What a letter is says its own format.
        let mut letters = json!({"type": SNS, "topic": "arn:aws:sns:eu-west-1:123456789012:letters"});
        let end = json!([{"type": "File", "path": "x", "onResultError": {"type": "DeadLetter", "destinations": [letters]}}]);
        let (_, settings) = decode(&body(json!([{"name": "o", "destinations": end}]))).expect("is read");
        let shown = workflows(&settings.outputs, Family::Current).remove(0);
        letters = shown["destinations"][0]["onResultError"]["destinations"][0].clone();
        assert_eq!((letters.get("format"), &letters["outputFormat"]["type"]), (None, &json!("JSON")));
    }

    #[test]
    fn outputs_of_v1_are_shown_as_workflows() {
        let output =
            Output::decode(&json!({"type": "CypherQuery", "query": "RETURN 1", "andThen": {"type": "PrintToStandardOut"}}));
        let shown = workflows(&[("log".to_owned(), output.expect("an output"))], Family::Preview);
        assert_eq!((&shown[0]["name"], &shown[0]["destinations"]), (&json!("log"), &json!([{"type": "StandardOut"}])));
        assert_eq!(shown[0]["resultEnrichment"]["query"], "RETURN 1");
    }

    #[test]
    fn the_form_of_an_output_of_v1_is_that_of_its_workflow() {
        let bare = json!({"type": "InlineData"});
        let shown = |output: Json| {
            let output = Output::decode(&output).expect("an output");
            workflows(&[("o".to_owned(), output)], Family::Current).remove(0)
        };
        let url = "http://x/";
        for (output, transformation) in [
            (json!({"type": "PostToEndpoint", "url": url, "onlyPositiveMatchData": true}), &bare),
            (json!({"type": "PostToEndpoint", "url": url, "structure": {"type": "Bare"}}), &bare),
            (json!({"type": "PostToEndpoint", "url": url}), &Json::Null),
            (json!({"type": "WriteToFile", "path": "x", "structure": {"type": "WithTick"}}), &json!({"type": "WithTick"})),
            // Here it is the generation that says what is shown.
            (json!({"type": "PostToSlack", "hookUrl": url}), &Json::Null),
        ] {
            let shown = shown(output.clone());
            assert_eq!(&shown["preEnrichmentTransformation"], transformation, "{output}");
            assert!(shown.get("filter").is_none(), "{output}");
            let (_, parts) = decode_workflow(&shown).expect("what is shown is read");
            let Output::Workflow(workflow) = &parts[0].1 else { panic!("a workflow") };
            assert_eq!(workflow.structure == Envelope::Bare, *transformation == bare, "{output}");
        }
        let slack = shown(json!({"type": "PostToSlack", "hookUrl": url, "onlyPositiveMatchData": true}));
        assert_eq!(slack["filter"], json!({"type": "OnlyPositiveMatch"}));
    }

    /// As every field that is not known.
    #[test]
    fn what_only_v1_says_of_a_destination_has_no_effect() {
        let printed = |with: Json| {
            let destination = [json!({"type": "StandardOut"}), with].into_iter().filter_map(|part| part.as_object().cloned());
            let destination: JsonMap<String, Json> = destination.flatten().collect();
            let workflow = json!({"name": "o", "destinations": [destination]});
            decode_workflow(&workflow).map(|(_, parts)| parts[0].1.to_stored_json())
        };
        let usual = printed(json!({})).expect("is read");
        for with in [
            json!({"logLevel": "INFO"}),
            json!({"logLevel": {"type": "Info"}, "logMode": "COMPLETE"}),
            json!({"logMode": "FAST_SAMPLING"}),
            json!({"logLevel": "Trace", "logMode": "FastSampling", "structure": {"type": "Nope"}}),
        ] {
            assert_eq!(printed(with.clone()).as_ref(), Ok(&usual), "{with}");
        }
    }

    #[test]
    fn what_is_not_here_is_refused_by_its_name() {
        refused(json!([{"name": "o", "destinations": []}]), "at least one destination");
        refused(json!([{"name": "", "destinations": [{"type": "Drop"}]}]), ".outputs[0].name: a name has at least one character");
        refused(json!([{"name": "o"}]), "DecodingFailure at .outputs[0].destinations: Missing required field");
        refused(
            json!([{"name": "o", "destinations": {"type": "StandardOut"}}]),
            "DecodingFailure at .outputs[0].destinations: Got an object with wrong type, expecting array",
        );
        let drop = json!([{"type": "Drop"}]);
        let named = json!({"name": "o", "destinations": drop});
        refused(json!([named, {"destinations": drop}]), "DecodingFailure at .outputs[1].name: Missing required field");
        refused(
            json!([named, {"name": "p", "resultEnrichment": {}, "destinations": drop}]),
            "DecodingFailure at .outputs[1].resultEnrichment.query: Missing required field",
        );
        let file = json!([{"type": "Drop"}, {"type": "File"}]);
        refused(json!([named, {"name": "p", "destinations": file}]), " (in .outputs[1].destinations[1])");
        let letters = json!({"type": "DeadLetter", "destinations": [{"type": "StandardOut"}, {"type": "File"}]});
        let end = json!([{"type": "File", "path": "x", "onResultError": letters}]);
        refused(
            json!([named, {"name": "p", "destinations": end}]),
            "at .path: Missing required field (in .outputs[1].destinations[0].onResultError.destinations[1])",
        );
        // An output alone has no place before its own, and that of a letter's destination ends as its own does.
        let letters = json!({"type": "DeadLetter", "destinations": [{"type": "File"}]});
        let end = json!([{"type": "File", "path": "x", "onResultError": letters}]);
        let reasons = decode_workflow(&json!({"name": "o", "destinations": end})).err();
        let place = "(in .destinations[0].onResultError.destinations[0])";
        assert_eq!(reasons, Some(vec![format!("DecodingFailure at .path: Missing required field {place}")]));
        refused(json!([named, {"name": "p", "destinations": [{"type": "Drop"}, 5]}]), "at .outputs[1].destinations[1]: ");
        refused(json!([{"name": "o", "destinations": [{"type": "Nope"}]}]), "names no known destination");
        refused(json!([{"name": "o", "filter": {"type": "Odd"}, "destinations": [{"type": "Drop"}]}]), "Invalid value");
        refused(json!({}), "expecting array");
    }
}
