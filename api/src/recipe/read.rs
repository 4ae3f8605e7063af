//! The file of a recipe, in either version: its form, and the filling in of `$name` values.

use std::collections::BTreeSet;

use serde_json::{Map as JsonMap, Value as Json};

use super::mistakes::{APPEARANCES, Item, QUERIES, STREAMS, in_outputs, in_pattern};
use super::{Recipe, Words};
use crate::ingest::refused;
use crate::openapi::unknown;
use crate::wire::decode::AT;
use crate::wire::letters::ON_RESULT_ERROR;
use crate::wire::standing::StandingSettings;
use crate::wire::style::List;
use crate::wire::v2::ingest::in_its_words;
use crate::wire::v2::names::no_name;
use crate::wire::{decode, v2};

const FIELDS: &[&str] = &[
    "version",
    "title",
    "contributor",
    "summary",
    "description",
    "iconImage",
    "ingestStreams",
    "standingQueries",
    "nodeAppearances",
    "quickQueries",
    "sampleQueries",
    "statusQuery",
];

/// What is said of a recipe to people.
const TEXTS: &[&str] = &["title", "contributor", "summary", "description", "iconImage"];

/// Settings of the graph view that a recipe may replace, and where they are stored.
const UI_BLOCKS: [(&str, List, Words); 3] = [
    (APPEARANCES, List::Appearances, ["node appearance", "node appearances"]),
    ("quickQueries", List::Quick, ["quick query", "quick queries"]),
    ("sampleQueries", List::Samples, ["sample query", "sample queries"]),
];

/// Where `$name` stands for a value: fields of sources, and of outputs. First those of the reference, then those by which weir's
/// own say where.
const SOURCE_FIELDS: &[&str] = &[
    "path",
    "bootstrapServers",
    "streamName",
    "kinesisStreamName",
    "queueUrl",
    "url",
    "initMessages",
    "credentials",
    "region",
    "regionOpt",
    "bucket",
    "key",
    "endpoint",
    "servers",
    "domain",
    "stream",
    "subjects",
    "topicFilters",
    "queue",
    "publication",
    "slot",
];
const OUTPUT_FIELDS: &[&str] = &[
    "url",
    "topic",
    "bootstrapServers",
    "streamName",
    "credentials",
    "region",
    "path",
    "hookUrl",
    "query",
    "endpoint",
    "queueUrl",
    "bucket",
    "prefix",
    "servers",
    "domain",
    "subject",
    "exchange",
    "routingKey",
    "urls",
    "index",
    "table",
    "key",
];
/// As the reference has it, in the first version alone.
const OUTPUT_FIELDS_V1: &[&str] = &["headers"];

/// The fields of both whose texts may be secrets: what is wrong with them is told without them.
const SECRET_FIELDS: &[&str] = &["credentials", "headers"];

/// A recipe, its values filled in.
pub fn read(text: &[u8], values: &[(String, String)]) -> Result<Recipe, Vec<String>> {
    let Json::Object(mut recipe) = decode::yaml(text)? else {
        return Err(vec!["a recipe is an object with a version, a title and lists of streams and queries".to_owned()]);
    };
    let version = version(recipe.get("version")).map_err(|problem| vec![problem])?;
    let mut errors = Vec::new();
    // As the reference has it, the second version leaves room for what others put there.
    for field in recipe.keys().filter(|field| version == 1 && !FIELDS.contains(&field.as_str())) {
        errors.push(format!("unknown field '{field}'; the fields are {}", FIELDS.join(", ")));
    }
    if version == 2 && recipe.get("title").is_none_or(Json::is_null) {
        errors.push("the field 'title' is missing".to_owned());
    }
    for field in TEXTS {
        if recipe.get(*field).is_some_and(|value| !value.is_string() && !value.is_null()) {
            errors.push(format!("'{field}' is a text; write it in quotes"));
        }
    }
    let mut ingests = list(&mut recipe, STREAMS, &mut errors);
    let mut standing = list(&mut recipe, QUERIES, &mut errors);
    let mut filling = Filling::new(values);
    for (index, ingest) in ingests.iter_mut().enumerate() {
        filling.place = format!("{STREAMS}[{index}]");
        filling.ingest(ingest);
    }
    for (index, query) in standing.iter_mut().enumerate() {
        filling.place = format!("{QUERIES}[{index}]");
        filling.standing(query);
    }
    errors.extend(filling.missing);
    let mut ui = Vec::new();
    for (field, kept, words) in UI_BLOCKS {
        let mut block = Vec::new();
        for (index, given) in list(&mut recipe, field, &mut errors).into_iter().enumerate() {
            // Each by itself: the API does not always say which one is wrong.
            match kept.decode(&Json::Array(vec![given.clone()])) {
                Ok(decoded) => block.extend(decoded.as_array().into_iter().flatten().cloned()),
                Err(problems) => {
                    let item = Item { list: field, index, version, given: &given };
                    let of_it = |problem: &String| item.said(&problem.replacen(&format!("{AT}[0]"), AT, 1));
                    errors.extend(problems.iter().map(of_it));
                }
            }
        }
        ui.push((kept, words, Json::Array(block)));
    }
    let status_query = match recipe.get("statusQuery") {
        None | Some(Json::Null) => None,
        Some(query) => {
            let text = query.get("cypherQuery").and_then(Json::as_str).map(str::to_owned);
            if text.is_none() {
                errors.push("'statusQuery' is an object with the text 'cypherQuery'".to_owned());
            }
            text
        }
    };
    let mut read = Recipe { ingests: Vec::new(), standing: Vec::new(), ui, status_query };
    for (index, query) in standing.into_iter().enumerate() {
        let given = query.clone();
        match if version == 1 { standing_v1(index, &query) } else { standing_v2(index, query) } {
            Ok(named) => read.standing.push(named),
            Err(problems) => {
                let item = Item { list: QUERIES, index, version, given: &given };
                errors.extend(problems.iter().map(|problem| item.said(problem)));
            }
        }
    }
    for (index, ingest) in ingests.into_iter().enumerate() {
        let given = ingest.clone();
        let item = Item { list: STREAMS, index, version, given: &given };
        match if version == 1 { Ok((format!("INGEST-{}", index + 1), ingest)) } else { ingest_v2(index, ingest) } {
            Ok((name, definition)) => {
                if let Err(error) = weir_connectors::parse_source_v1(&definition) {
                    let problem = if version == 1 { error.to_string() } else { in_its_words(refused(error)).to_string() };
                    errors.push(item.said(&problem));
                }
                read.ingests.push((name, definition));
            }
            Err(problems) => errors.extend(problems.iter().map(|problem| item.said(problem))),
        }
    }
    if errors.is_empty() { Ok(read) } else { Err(errors) }
}

fn version(given: Option<&Json>) -> Result<i64, String> {
    let given = given.filter(|given| !given.is_null());
    match (given, given.and_then(Json::as_i64)) {
        (_, Some(version @ 1..=2)) => Ok(version),
        (_, Some(other)) => Err(format!("there is no version {other} of recipes; there are 1 and 2")),
        (Some(Json::String(text)), _) if ["1", "2"].contains(&text.trim()) => {
            Err(format!("'version' is the text {text:?}; write it without quotes"))
        }
        (Some(_), _) => Err("'version' is no whole number; write 'version: 2'".to_owned()),
        (None, _) => Err("the field 'version' with a whole number is missing; write 'version: 2'".to_owned()),
    }
}

fn standing_v1(index: usize, query: &Json) -> Result<(String, StandingSettings), Vec<String>> {
    let settings = StandingSettings::decode(query).map_err(|problems| in_outputs(query, in_pattern(query, problems)))?;
    Ok((format!("STANDING-{}", index + 1), settings))
}

fn standing_v2(index: usize, mut query: Json) -> Result<(String, StandingSettings), Vec<String>> {
    name(&mut query, format!("standing-query-{index}"));
    for (index, output) in query.get_mut("outputs").and_then(Json::as_array_mut).into_iter().flatten().enumerate() {
        name(output, format!("output-{index}"));
    }
    let outputs = query.get("outputs").and_then(Json::as_array).into_iter().flatten();
    let names = outputs.filter_map(|output| output.get("name").and_then(Json::as_str));
    let decoded = v2::standing::decode(&query).map_err(|problems| in_pattern(&query, problems));
    strict("NamedStandingBody", &query, names, decoded)
}

fn ingest_v2(index: usize, mut ingest: Json) -> Result<(String, Json), Vec<String>> {
    name(&mut ingest, format!("ingest-stream-{index}"));
    let decoded = v2::ingest::decode(&ingest);
    // In the notation of v1 with a name there is no schema.
    if ingest.get("source").is_some() { strict("IngestBody", &ingest, [], decoded) } else { decoded }
}

/// What was decoded, unless a field, its name or one of those within is wrong. The API tells what it does not know and goes on; a
/// recipe is refused, as the reference has it.
fn strict<'b, T>(
    schema: &str,
    body: &'b Json,
    within: impl IntoIterator<Item = &'b str>,
    decoded: Result<(String, T), Vec<String>>,
) -> Result<(String, T), Vec<String>> {
    let unknown = unknown::fields(schema, body);
    let mut problems: Vec<String> = unknown.iter().map(|path| format!("{path} is no field that is known here")).collect();
    let names = body.get("name").and_then(Json::as_str).into_iter().chain(within);
    // Of an empty one the mistakes tell.
    problems.extend(names.filter(|name| !name.is_empty()).filter_map(no_name));
    match decoded {
        Ok(named) if problems.is_empty() => Ok(named),
        Ok(_) => Err(problems),
        Err(mistakes) => {
            problems.extend(mistakes);
            Err(problems)
        }
    }
}

/// What has no name gets this one.
fn name(object: &mut Json, name: String) {
    if let Json::Object(fields) = object
        && fields.get("name").is_none_or(Json::is_null)
    {
        fields.insert("name".to_owned(), name.into());
    }
}

fn list(recipe: &mut JsonMap<String, Json>, field: &str, errors: &mut Vec<String>) -> Vec<Json> {
    match recipe.remove(field) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) => items,
        Some(_) => {
            errors.push(format!("'{field}' is a list"));
            Vec::new()
        }
    }
}

/// Puts values in the places of `$name`.
struct Filling<'a> {
    values: &'a [(String, String)],
    /// The stream or query that is filled in.
    place: String,
    /// What is said of values that were not given, of each name once.
    missing: BTreeSet<String>,
}

impl<'a> Filling<'a> {
    fn new(values: &'a [(String, String)]) -> Filling<'a> {
        Filling { values, place: String::new(), missing: BTreeSet::new() }
    }

    /// The second version has the source, and the query beside it. Where failed records go stands beside them in both.
    fn ingest(&mut self, ingest: &mut Json) {
        let besides: &[&str] = match ingest.get_mut("source") {
            Some(source) => {
                self.fields(source, SOURCE_FIELDS);
                self.fields(ingest, &["query"]);
                &[]
            }
            None => {
                self.fields(ingest, SOURCE_FIELDS);
                OUTPUT_FIELDS_V1
            }
        };
        self.destinations(ingest.pointer_mut("/onRecordError/deadLetterQueueSettings"), besides);
    }

    fn standing(&mut self, query: &mut Json) {
        match query.get_mut("outputs") {
            Some(Json::Object(outputs)) => outputs.values_mut().for_each(|output| self.output(output, OUTPUT_FIELDS_V1)),
            Some(Json::Array(workflows)) => {
                for workflow in workflows {
                    if let Some(enrichment) = workflow.get_mut("resultEnrichment") {
                        self.fields(enrichment, &["query"]);
                    }
                    self.destinations(Some(workflow), &[]);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, object: &mut Json, fields: &[&str]) {
        for field in fields {
            if let Some(value) = object.get_mut(*field) {
                self.deep(value, field);
            }
        }
    }

    fn output(&mut self, output: &mut Json, besides: &[&str]) {
        self.fields(output, OUTPUT_FIELDS);
        self.fields(output, besides);
        if let Some(next) = output.get_mut("andThen") {
            self.output(next, besides);
        }
        self.destinations(output.get_mut(ON_RESULT_ERROR), besides);
    }

    /// Those of results, or of dead letters.
    fn destinations(&mut self, of: Option<&mut Json>, besides: &[&str]) {
        let destinations = of.and_then(|of| of.get_mut("destinations")).and_then(Json::as_array_mut);
        destinations.into_iter().flatten().for_each(|destination| self.output(destination, besides));
    }

    /// `path`: where it stands in a source or an output.
    fn deep(&mut self, value: &mut Json, path: &str) {
        match value {
            Json::String(text) => {
                if let Some(filled) = self.text(text, path) {
                    *text = filled;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.deep(item, path)),
            Json::Object(map) => map.iter_mut().for_each(|(field, item)| self.deep(item, &format!("{path}.{field}"))),
            _ => {}
        }
    }

    /// `$name` is a value, `$$x` is `$x`, everything else is itself.
    fn text(&mut self, text: &str, path: &str) -> Option<String> {
        let name = text.strip_prefix('$')?;
        if name.starts_with('$') {
            return Some(name.to_owned());
        }
        // The last one given counts.
        let value = self.values.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        if value.is_none() {
            self.missing.insert(self.without_value(name, path));
        }
        value
    }

    /// What is said of `$name` where no value of that name was given. The text may also have been meant as it is, as `$SYS/#` is.
    fn without_value(&self, name: &str, path: &str) -> String {
        let is_secret = path.split('.').next().is_some_and(|field| SECRET_FIELDS.contains(&field));
        if is_secret {
            let place = &self.place;
            return format!(
                "{place}: the text of `{path}` begins with `$`, and no value of that name is given; give it with \
                 --recipe-value <name>=<value>, or write `$$` in place of the `$` for the text itself"
            );
        }
        if name.is_empty() {
            return format!("{}: the text of `{path}` is '$', which names no value; write '$$' for the text itself", self.place);
        }
        format!(
            "the value of '${name}' is missing; give it with --recipe-value {name}=<value>, or write '$${name}' for the text itself"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;
    use weir_connectors::{DESTINATIONS, SOURCES};

    use super::*;
    use crate::recipe::NoRecipe;
    use crate::recipe::gallery::GALLERY;

    const DOOR_LOG: &str = "
version: 1
title: Door log
ingestStreams:
  - type: FileIngest
    path: $in_file
    format: {type: CypherJson, query: 'MATCH (d) WHERE id(d) = idFrom($that.door) SET d.last = $that.t'}
standingQueries:
  - pattern: {type: Cypher, query: 'MATCH (p:Person) RETURN DISTINCT id(p) AS id'}
    outputs:
      out: {type: CypherQuery, query: $$that, andThen: {type: WriteToFile, path: $out-file}}
statusQuery: {cypherQuery: 'MATCH (p:Person) RETURN count(p) AS people'}
";

    fn values(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn values_are_filled_in_where_they_belong() {
        let given = values(&[("in_file", "a"), ("in_file", "data/doors.jsonl"), ("out-file", "out.jsonl"), ("unused", "x")]);
        let Ok(recipe) = read(DOOR_LOG.as_bytes(), &given) else { panic!("should have been read") };
        assert_eq!(recipe.ingests[0].1["path"], "data/doors.jsonl");
        assert!(recipe.ingests[0].1["format"]["query"].as_str().expect("text").contains("$that.door"));
        let outputs = recipe.standing[0].1.outputs_json();
        assert_eq!((&outputs["out"]["query"], &outputs["out"]["andThen"]["path"]), (&"$that".into(), &"out.jsonl".into()));
        assert_eq!((recipe.ingests[0].0.as_str(), recipe.standing[0].0.as_str()), ("INGEST-1", "STANDING-1"));
        assert_eq!(recipe.directories(), [PathBuf::from("data")]);
        assert!(recipe.status_query.is_some());
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let wrong = DOOR_LOG.replace("FileIngest", "FileIngset").replace("{type: Cypher,", "{type: Cyhper,");
        let errors = read(format!("{wrong}\nnope: 1\nquickQueries: 5").as_bytes(), &[]).err().expect("wrong");
        let text = errors.join("\n");
        for part in [
            "unknown field 'nope'",
            "'$in_file' is missing",
            "'$out-file' is missing",
            "'quickQueries' is a list",
            "standingQueries[0].pattern: ",
            "ingestStreams[0]: ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let error = |text: &str| read(text.as_bytes(), &[]).err().expect("wrong").join("\n");
        assert!(error("title: x").contains("'version'"));
        assert!(error("version: 7").contains("no version 7"));
        assert_eq!(error("version: '1'"), "'version' is the text \"1\"; write it without quotes");
        assert_eq!(error("version: two"), "'version' is no whole number; write 'version: 2'");
        assert_eq!(error("version: null"), error("title: x"));
        assert_eq!(error("version: 2"), "the field 'title' is missing");
        for version in [1, 2] {
            let texts = "title: [1]\nsummary: 5\ndescription: null\ncontributor: me";
            let expected = "'title' is a text; write it in quotes\n'summary' is a text; write it in quotes";
            assert_eq!(error(&format!("version: {version}\n{texts}")), expected);
        }
        assert!(error("- 1").contains("an object"));
    }

    #[test]
    fn a_recipe_that_is_not_there_is_a_mistake_and_a_server_that_is_not_is_none() {
        for (argument, is_mistake, reason) in [
            ("wikipedia", true, "with weir come"),
            ("/nowhere/x.yaml", true, "cannot be read"),
            ("file:///nowhere/x.yaml", true, "cannot be read"),
            ("ftp://x/y.yaml", true, "`ftp:` URLs are not read"),
            ("http://127.0.0.1:1/y.yaml", false, "the recipe http://127.0.0.1:1/y.yaml cannot be read"),
        ] {
            let why = Recipe::load(argument, &[]).err().expect("there is none");
            assert_eq!(matches!(why, NoRecipe::Mistaken(_)), is_mistake, "{argument}: {why}");
            assert!(why.to_string().contains(reason), "{argument}: {why}");
        }
    }

    /// The API has short words for it, which its clients know. Whoever writes YAML does not expect a text there.
    #[test]
    fn a_number_that_is_none_in_yaml_is_shown() {
        let text = "
version: 2
title: t
ingestStreams:
  - {source: {type: NumberIterator, limit: 1_000, startOffset: 0}, query: RETURN 1}
  - {source: {type: NumberIterator, limit: '99999999999999999999'}, query: RETURN 1}
  - {source: {type: NumberIterator, limit: 1.5}, query: RETURN 1}
standingQueries:
  - {pattern: {type: Cypher, query: MATCH (n) RETURN DISTINCT id(n) AS id}, inputBufferSize: many, outputs: []}
";
        let mut errors = read(text.as_bytes(), &[]).err().expect("wrong");
        errors.sort();
        let expected = [
            "ingestStreams[0]: limit is the text `1_000`, and should be a whole number; YAML numbers have no `_`",
            "ingestStreams[1]: DecodingFailure at .limit: Long",
            "ingestStreams[2]: DecodingFailure at .limit: Long",
            "standingQueries[0]: inputBufferSize is the text `many`, and should be a whole number",
        ];
        assert_eq!(errors, expected);
        let text = "
version: 1
ingestStreams:
  - {type: NumberIteratorIngest, ingestLimit: 1_000, format: {type: CypherLine, query: RETURN 1}}
";
        let errors = read(text.as_bytes(), &[]).err().expect("wrong");
        assert_eq!(errors, [expected[0].replace("limit", "ingestLimit")]);
    }

    /// The texts of every connector that are no place are known: a new one has its fields in the lists, or its texts here.
    #[test]
    fn whatever_says_where_is_filled_in() {
        let given = values(&[("x", "filled")]);
        let others = [
            "applicationName",
            "clientId",
            "compression",
            "field",
            "recordsAt",
            // The reference leaves it as it is.
            "topics",
            "type",
            "username",
        ];
        let source: fn(&mut Filling<'_>, &mut Json) = |filling, definition| filling.ingest(definition);
        let output: fn(&mut Filling<'_>, &mut Json) = |filling, definition| filling.output(definition, &[]);
        let sources = SOURCES.iter().map(|row| ((row.sample)(), source));
        let outputs = DESTINATIONS.iter().map(|row| ((row.sample)(), output));
        for (mut sample, fill) in sources.chain(outputs) {
            let mut texts = Vec::new();
            for (field, value) in sample.as_object_mut().expect("an object") {
                let text = if let Json::Array(items) = value { items.first_mut() } else { Some(value) };
                if let Some(text) = text.filter(|text| text.is_string() && !others.contains(&field.as_str())) {
                    *text = "$x".into();
                    texts.push(field.clone());
                }
            }
            fill(&mut Filling::new(&given), &mut sample);
            for field in texts {
                let value = &sample[&field];
                assert_eq!(value.get(0).unwrap_or(value), "filled", "{field} of {sample}");
            }
        }
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recipes.md")).expect("the page");
        for (begin, fields) in [("| of sources |", SOURCE_FIELDS), ("| of outputs |", OUTPUT_FIELDS)] {
            let line = page.lines().find(|line| line.starts_with(begin)).expect("the line that lists them");
            fields.iter().for_each(|field| assert!(line.contains(&format!("`{field}`")), "{field} is not listed: {line}"));
        }
    }

    #[test]
    fn a_text_that_begins_with_a_dollar_can_be_written() {
        let read = |filter: &str, version: u32| {
            let name = if version == 1 { "MqttIngest" } else { "Mqtt" };
            let mut source = json!({"type": name, "url": "mqtt://127.0.0.1:1", "clientId": "c", "topicFilters": [filter]});
            if version == 2 {
                source["format"] = json!({"type": "Json"});
                source = json!({"source": source, "query": "RETURN 1"});
            }
            let recipe = json!({"version": version, "title": "t", "ingestStreams": [source]});
            let read = read(recipe.to_string().as_bytes(), &values(&[("topic", "a/b")]));
            read.map(|recipe| recipe.ingests[0].1["topicFilters"][0].clone())
        };
        for version in [1, 2] {
            assert_eq!(read("$topic", version), Ok("a/b".into()));
            assert_eq!(read("$$SYS/#", version), Ok("$SYS/#".into()));
            // Also what looks like a name may be meant as it is.
            for name in ["SYS/#", "other"] {
                let missing = format!(
                    "the value of '${name}' is missing; give it with --recipe-value {name}=<value>, or write '$${name}' for the text itself"
                );
                assert_eq!(read(&format!("${name}"), version), Err(vec![missing]));
            }
            let nameless =
                "ingestStreams[0]: the text of `topicFilters` is '$', which names no value; write '$$' for the text itself";
            assert_eq!(read("$", version), Err(vec![nameless.to_owned()]));
            assert_eq!(read("$$", version), Ok("$".into()));
        }
    }

    /// A password may begin with `$`: it was printed, and stood in logs.
    #[test]
    fn what_may_be_a_secret_is_not_told() {
        let credentials = json!({"accessKeyId": "a", "secretAccessKey": "$hush1"});
        let source = json!({"type": "KinesisIngest", "streamName": "$stream-name", "credentials": credentials});
        let end = json!({"type": "PostToEndpoint", "url": "http://h/", "headers": {"X-Key": "$hush2"}});
        let query = "MATCH (n) RETURN DISTINCT id(n) AS id";
        let standing = json!({"pattern": {"type": "Cypher", "query": query}, "outputs": {"o": {"type": "Drop", "andThen": end}}});
        let mut recipe = json!({"version": 1, "title": "t", "ingestStreams": [{"type": "NumberIteratorIngest"}, source]});
        recipe["standingQueries"] = json!([standing]);
        let errors = read(recipe.to_string().as_bytes(), &[]).err().expect("values are missing").join("\n");
        for begin in [
            "ingestStreams[1]: the text of `credentials.secretAccessKey` begins with `$`",
            "standingQueries[0]: the text of `headers.X-Key` begins with `$`",
            "the value of '$stream-name' is missing",
        ] {
            assert!(errors.lines().any(|line| line.starts_with(begin)), "{begin}: {errors}");
        }
        assert!(!errors.contains("hush"), "{errors}");
    }

    #[test]
    fn headers_are_filled_in_the_first_version_alone() {
        let given = values(&[("key", "k"), ("at", "http://h/")]);
        let filled = |outputs: Json, output: &str| {
            let mut query = json!({"outputs": outputs});
            Filling::new(&given).standing(&mut query);
            let output = query.pointer(output).expect("it is there");
            [output["url"].clone(), output["headers"]["X-Key"].clone()]
        };
        let end = |kind: &str| json!({"type": kind, "url": "$at", "headers": {"X-Key": "$key"}});
        assert_eq!(filled(json!({"o": end("PostToEndpoint")}), "/outputs/o"), ["http://h/", "k"]);
        let workflow = json!([{"name": "o", "destinations": [end("HttpEndpoint")]}]);
        assert_eq!(filled(workflow, "/outputs/0/destinations/0"), ["http://h/", "$key"]);
    }

    #[test]
    fn where_dead_letters_go_is_filled_in() {
        let given = values(&[("records", "records.jsonl"), ("results", "results.jsonl"), ("key", "k")]);
        let letters = |kind: &str, path: &str| json!([{"type": "StandardOut"}, {"type": kind, "path": path}]);
        let refused = |kind: &str| json!({"type": "DeadLetter", "destinations": letters(kind, "$results")});
        let query = "MATCH (n) RETURN DISTINCT id(n) AS id";
        for version in [1, 2] {
            let (kind, numbers) = if version == 1 { ("WriteToFile", "NumberIteratorIngest") } else { ("File", "NumberIterator") };
            let failed = json!({"deadLetterQueueSettings": {"destinations": letters(kind, "$records")}});
            let end = json!({"type": kind, "path": "x", "onResultError": refused(kind)});
            let (stream, outputs) = if version == 1 {
                let and_then = json!({"type": "CypherQuery", "query": "RETURN 1", "andThen": end});
                (json!({"type": numbers, "onRecordError": failed}), json!({"o": and_then}))
            } else {
                let stream = json!({"source": {"type": numbers}, "query": "RETURN 1", "onRecordError": failed});
                (stream, json!([{"name": "o", "destinations": [end]}]))
            };
            let standing = json!({"pattern": {"type": "Cypher", "query": query}, "outputs": outputs});
            let recipe = json!({"version": version, "title": "t", "ingestStreams": [stream], "standingQueries": [standing]});
            let read = |values: &[(String, String)]| read(recipe.to_string().as_bytes(), values);
            let Ok(filled) = read(&given) else { panic!("should have been read") };
            let of_records = &filled.ingests[0].1["onRecordError"]["deadLetterQueueSettings"]["destinations"][1];
            assert_eq!(of_records["path"], "records.jsonl", "version {version}");
            let output = filled.standing[0].1.outputs_json()["o"].take();
            let end = output.get("andThen").unwrap_or(&output);
            assert_eq!(end["onResultError"]["destinations"][1]["path"], "results.jsonl", "version {version}: {output}");
            let errors = read(&[]).err().expect("values are missing").join("\n");
            assert!(errors.contains("'$records' is missing") && errors.contains("'$results' is missing"), "{errors}");
        }
        let key = |mut stream: Json| {
            stream["onRecordError"] =
                json!({"deadLetterQueueSettings": {"destinations": [{"type": "HttpEndpoint", "headers": {"X-Key": "$key"}}]}});
            Filling::new(&given).ingest(&mut stream);
            stream["onRecordError"]["deadLetterQueueSettings"]["destinations"][0]["headers"]["X-Key"].take()
        };
        assert_eq!([key(json!({"type": "FileIngest"})), key(json!({"source": {}}))], ["k", "$key"]);
    }

    #[test]
    fn the_second_version_has_names_and_workflows() {
        let text = "
version: 2
title: Door log
anything: else
ingestStreams:
  - source: {type: File, path: $in_file, format: {type: JsonL}}
    query: 'MATCH (d) WHERE id(d) = idFrom($that.door) SET d.last = $that.t'
  - {name: numbers, source: {type: NumberIterator, limit: 3}, query: $$that}
standingQueries:
  - pattern: {type: Cypher, mode: MULTIPLE_VALUES, query: 'MATCH (p:Person) RETURN p.name AS name'}
    outputs:
      - destinations: [{type: File, path: $out-file}]
";
        let given = values(&[("in_file", "in/a.jsonl"), ("out-file", "b")]);
        let Ok(recipe) = read(text.as_bytes(), &given) else { panic!("should have been read") };
        let names: Vec<&str> = recipe.ingests.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, recipe.standing[0].0.as_str()), (vec!["ingest-stream-0", "numbers"], "standing-query-0"));
        assert_eq!((&recipe.ingests[0].1["type"], &recipe.ingests[0].1["path"]), (&"FileIngest".into(), &"in/a.jsonl".into()));
        assert_eq!(recipe.ingests[1].1["format"]["query"], "$that");
        assert_eq!(recipe.standing[0].1.outputs_json()["output-0"]["path"], "b");
        let errors = read(text.as_bytes(), &[]).err().expect("values are missing").join("\n");
        assert!(errors.contains("$in_file") && errors.contains("$out-file"), "{errors}");
    }

    #[test]
    fn the_second_version_is_strict_inside_of_what_the_api_knows() {
        let text = "
version: 2
title: Door log
ingestStreams:
  - {source: {type: NumberIterator, limit: 3, bogus: 1}, query: RETURN 1, transform: {type: JavaScript, function: x}}
  - {name: bad name, source: {type: NumberIterator}, query: RETURN 1}
  - {name: worse name, source: {type: NumberIterator}}
standingQueries:
  - pattern: {type: Cypher, query: MATCH (n) RETURN DISTINCT id(n) AS id}
    output: []
  - pattern: {type: Cypher, query: MATCH (n) RETURN DISTINCT id(n) AS id}
    outputs: [{name: b c, destinations: [{type: Drop}, {type: Drop}]}]
  - name: d e
    pattern: {type: Cypher, query: MATCH (n) RETURN DISTINCT id(n) AS id}
    outputs: [{name: f g, destinations: [{type: Nowhere}]}, {name: '', destinations: [{type: Drop}]}]
";
        let mut errors = read(text.as_bytes(), &[]).err().expect("wrong");
        errors.sort();
        let expected = [
            "ingestStreams[0]: .source.bogus is no field",
            "ingestStreams[0]: .transform is no field",
            "ingestStreams[1]: 'bad name' is no name",
            "ingestStreams[2]: 'worse name' is no name",
            "ingestStreams[2]: DecodingFailure at .query: Missing required field",
            "standingQueries[0]: .output is no field",
            "standingQueries[1]: 'b c' is no name",
            "standingQueries[2]: 'd e' is no name",
            "standingQueries[2]: 'f g' is no name",
            "standingQueries[2]: DecodingFailure at .outputs[0].destinations[0]",
            "standingQueries[2]: DecodingFailure at .outputs[1].name: a name has at least one character",
        ];
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        errors.iter().zip(expected).for_each(|(error, begin)| assert!(error.starts_with(begin), "{error}"));
        let marked = read(format!("\u{feff}{DOOR_LOG}").as_bytes(), &values(&[("in_file", "a"), ("out-file", "b")]));
        assert!(marked.is_ok());
    }

    #[test]
    fn every_recipe_that_comes_with_weir_can_be_read() {
        for shipped in GALLERY {
            let (recipe, data) = Recipe::load(shipped.name, &[]).unwrap_or_else(|errors| panic!("{}: {errors:?}", shipped.name));
            let place = data.expect("a place for its data").path.clone();
            assert!(!place.exists(), "{}: the data go with whoever holds them", shipped.name);
            assert!(!recipe.ingests.is_empty() && !recipe.standing.is_empty(), "{}", shipped.name);
        }
    }
}
