//! Recipes: one file that names streams, standing queries and a query of state, run from the command line (`-r`).
//!
//! Owns the file's form (version 1), the filling in of `$name` values, and what is printed while a recipe runs. How its
//! parts work is the affair of those parts.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map as JsonMap, Value as Json};
use weir_cypher_compiler::compile;
use weir_engine::QueryOptions;
use weir_model::{Text, Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::ingest::Stream;
use crate::standing::Query;
use crate::wire::decode;
use crate::wire::standing::StandingSettings;
use crate::wire::style::List;

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

/// Settings of the graph view that a recipe may replace, and where they are stored.
const UI_BLOCKS: [(&str, List, &str); 3] = [
    ("nodeAppearances", List::Appearances, "node appearances"),
    ("quickQueries", List::Quick, "quick queries"),
    ("sampleQueries", List::Samples, "sample queries"),
];

/// Where `$name` stands for a value: fields of sources, and of outputs.
const SOURCE_FIELDS: &[&str] =
    &["path", "bootstrapServers", "streamName", "kinesisStreamName", "queueUrl", "url", "initMessages", "credentials", "region"];
const OUTPUT_FIELDS: &[&str] =
    &["url", "headers", "topic", "bootstrapServers", "streamName", "credentials", "region", "path", "hookUrl", "query"];

const STATUS_INTERVAL: Duration = Duration::from_secs(5);
const STATUS_TIME_MAX: Duration = Duration::from_secs(5);
const STATUS_ROWS_MAX: usize = 10;

/// A column's name is cut beyond this many characters.
const STATUS_NAME_MAX: usize = 20;

#[derive(Debug)]
pub struct Recipe {
    pub title: String,
    ingests: Vec<Json>,
    standing: Vec<Json>,
    ui: Vec<(List, &'static str, Json)>,
    status_query: Option<String>,
}

impl Recipe {
    /// Reads a recipe and fills in its values. Everything that is wrong is reported at once.
    pub fn load(argument: &str, values: &[(String, String)]) -> Result<Recipe, Vec<String>> {
        let lower = argument.to_lowercase();
        if !["json", "yaml", "yml"].iter().any(|ending| lower.ends_with(&format!(".{ending}"))) || lower.contains("://") {
            return Err(vec![format!(
                "'{argument}' is not a recipe file: it ends in .yaml, .yml or .json and lies on this machine. \
                 Recipes by name or address are not in this version; download the file and give its path"
            )]);
        }
        let text = std::fs::read(argument).map_err(|error| vec![format!("the recipe {argument} cannot be read: {error}")])?;
        Recipe::parse(&text, values).map_err(|errors| errors.into_iter().map(|error| format!("{argument}: {error}")).collect())
    }

    fn parse(text: &[u8], values: &[(String, String)]) -> Result<Recipe, Vec<String>> {
        let Json::Object(mut recipe) = decode::yaml(text)? else {
            return Err(vec!["a recipe is an object with a version, a title and lists of streams and queries".to_owned()]);
        };
        match recipe.get("version").map(Json::as_i64) {
            Some(Some(1)) => {}
            Some(Some(2)) => return Err(vec!["recipes of version 2 are not in this version of weir; version 1 is".to_owned()]),
            Some(Some(other)) => return Err(vec![format!("there is no version {other} of recipes; the supported one is 1")]),
            _ => return Err(vec!["the field 'version' with a whole number is missing; write 'version: 1'".to_owned()]),
        }
        let mut errors = Vec::new();
        for field in recipe.keys().filter(|field| !FIELDS.contains(&field.as_str())) {
            errors.push(format!("unknown field '{field}'; the fields are {}", FIELDS.join(", ")));
        }
        let mut ingests = list(&mut recipe, "ingestStreams", &mut errors);
        let mut standing = list(&mut recipe, "standingQueries", &mut errors);
        let mut filling = Filling { values, missing: BTreeSet::new() };
        ingests.iter_mut().for_each(|ingest| filling.fields(ingest, SOURCE_FIELDS));
        for query in &mut standing {
            if let Some(Json::Object(outputs)) = query.get_mut("outputs") {
                outputs.values_mut().for_each(|output| filling.output(output));
            }
        }
        for name in filling.missing {
            errors.push(format!("the value of '${name}' is missing; give it with --recipe-value {name}=<value>"));
        }
        let mut ui = Vec::new();
        for (field, kept, words) in UI_BLOCKS {
            match kept.decode(&Json::Array(list(&mut recipe, field, &mut errors))) {
                Ok(block) => ui.push((kept, words, block)),
                Err(problems) => errors.extend(problems.iter().map(|problem| format!("{field}: {problem}"))),
            }
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
        if errors.is_empty() {
            for (index, query) in standing.iter().enumerate() {
                let problems = StandingSettings::decode(query).err().unwrap_or_default();
                errors.extend(problems.iter().map(|problem| format!("standingQueries[{index}]: {problem}")));
            }
            for (index, ingest) in ingests.iter().enumerate() {
                if let Err(problem) = weir_connectors::parse_source_v1(ingest) {
                    errors.push(format!("ingestStreams[{index}]: {problem}"));
                }
            }
        }
        let title = recipe.get("title").and_then(Json::as_str).unwrap_or("RECIPE").to_owned();
        if errors.is_empty() { Ok(Recipe { title, ingests, standing, ui, status_query }) } else { Err(errors) }
    }

    /// The directories of the files it reads: those may be read because the recipe says so.
    pub fn directories(&self) -> Vec<PathBuf> {
        let paths = self.ingests.iter().filter_map(|ingest| ingest.get("path")?.as_str());
        let parents = paths.filter_map(|path| Path::new(path).parent().map(Path::to_owned));
        parents.map(|parent| if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent }).collect()
    }

    /// Starts its parts, queries before streams, and reports on them until weir stops. What cannot start is said, and the
    /// rest runs.
    pub fn run(self, app: &Arc<App>, url: &str) {
        let graph = app.engine.default_graph();
        for (kept, words, block) in &self.ui {
            let count = block.as_array().map_or(0, Vec::len);
            if count > 0 {
                match app.engine.set_metadata(kept.key(), Some(block.to_string().as_bytes())) {
                    Ok(()) => say(&format!("Using {count} {words}")),
                    Err(error) => say(&format!("The {words} could not be stored: {error}")),
                }
            }
        }
        let mut queries = Vec::new();
        for (index, definition) in self.standing.iter().enumerate() {
            let name = format!("STANDING-{}", index + 1);
            let settings = StandingSettings::decode(definition).map_err(ApiError::Decode);
            match settings.and_then(|settings| app.standing.create(&graph, &name, settings)) {
                Ok(query) => {
                    say(&format!("Running Standing Query {name}"));
                    queries.push(query);
                }
                Err(error) => say(&format!("Standing Query {name} could not be started: {error}")),
            }
        }
        let mut streams = Vec::new();
        for (index, definition) in self.ingests.iter().enumerate() {
            let name = format!("INGEST-{}", index + 1);
            match app.ingests.create(&graph, &name, definition) {
                Ok(stream) => {
                    say(&format!("Running Ingest Stream {name}"));
                    streams.push(stream);
                }
                Err(error) => say(&format!("Ingest Stream {name} could not be started: {error}")),
            }
        }
        tokio::spawn(watch(app.clone(), streams, queries));
        if let Some(query) = self.status_query {
            say(&format!("Status query URL is {url}#{}", fragment(&query)));
            tokio::spawn(status(app.clone(), query));
        }
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
    missing: BTreeSet<String>,
}

impl Filling<'_> {
    fn fields(&mut self, object: &mut Json, fields: &[&str]) {
        for field in fields {
            if let Some(value) = object.get_mut(*field) {
                self.deep(value);
            }
        }
    }

    fn output(&mut self, output: &mut Json) {
        self.fields(output, OUTPUT_FIELDS);
        if let Some(next) = output.get_mut("andThen") {
            self.output(next);
        }
    }

    fn deep(&mut self, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Some(filled) = self.text(text) {
                    *text = filled;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.deep(item)),
            Json::Object(map) => map.values_mut().for_each(|item| self.deep(item)),
            _ => {}
        }
    }

    /// `$name` is a value, `$$x` is `$x`, everything else is itself.
    fn text(&mut self, text: &str) -> Option<String> {
        let name = text.strip_prefix('$')?;
        if name.starts_with('$') {
            return Some(name.to_owned());
        }
        // The last one given counts.
        let value = self.values.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        if value.is_none() {
            self.missing.insert(name.to_owned());
        }
        value
    }
}

/// What people read goes to standard error; standard output belongs to results.
fn say(line: &str) {
    eprintln!("{line}");
}

fn fragment(query: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    query.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// One line a stream when it ends; on a terminal, the state of all of them every second.
async fn watch(app: Arc<App>, mut streams: Vec<Arc<Stream>>, queries: Vec<Arc<Query>>) {
    let mut stop = app.stopping();
    let mut timer = tokio::time::interval(Duration::from_secs(1));
    let terminal = std::io::stderr().is_terminal();
    let mut drawn = 0;
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let line = |stream: &Arc<Stream>| {
            format!("{} status is {} and ingested {}", stream.name, stream.status().name().to_lowercase(), stream.ingested())
        };
        let mut text = String::new();
        if drawn > 0 {
            text.push_str(&format!("\x1b[{drawn}A\x1b[J"));
        }
        drawn = 0;
        streams.retain(|stream| {
            let ended = stream.status().is_terminal();
            if ended {
                text.push_str(&line(stream));
                text.push('\n');
            }
            !ended
        });
        if terminal {
            let lines = streams
                .iter()
                .map(line)
                .chain(queries.iter().map(|query| format!("{} count {}", query.name, query.result_count())));
            for line in lines {
                text.push_str(&format!(" | => {line}\n"));
                drawn += 1;
            }
        }
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if streams.is_empty() && !terminal {
            return;
        }
    }
}

/// Asks the status query again and again, and prints what it says when that has changed.
async fn status(app: Arc<App>, query: String) {
    let mut stop = app.stopping();
    let mut before = String::new();
    loop {
        tokio::select! {
            _ = tokio::time::sleep(STATUS_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let (asked, text) = (app.clone(), query.clone());
        match tokio::task::spawn_blocking(move || ask(&asked, &text)).await {
            Ok(Ok(shown)) if shown != before => {
                say(&shown);
                before = shown;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                say(&format!("The status query failed and is not asked again: {error}"));
                return;
            }
            Err(_) => return,
        }
    }
}

fn ask(app: &App, query: &str) -> Result<String, ApiError> {
    let graph = app.engine.default_graph();
    let plan = compile(query, &app.procedures.options(&graph, Vec::new()))?;
    let columns: Vec<Text> = plan.columns.iter().map(|(name, _)| name.clone()).collect();
    let prepared = graph.prepare(plan);
    let deadline = Instant::now() + STATUS_TIME_MAX;
    let mut shown = String::new();
    let mut rows = 0;
    let options = QueryOptions { deadline: Some(deadline), ..QueryOptions::default() };
    let ended = graph.query(&prepared, &[], options, &mut |row| {
        rows += 1;
        let cells: Vec<(&str, String)> =
            columns.iter().map(Text::as_str).zip(row.iter().map(|value| compact(value, app))).collect();
        shown.push_str(&block(rows, &cells));
        if rows < STATUS_ROWS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match ended {
        Ok(_) => Ok(shown),
        Err(_) if Instant::now() >= deadline => Ok(format!("The status query took longer than {} s", STATUS_TIME_MAX.as_secs())),
        Err(error) => Err(error.into()),
    }
}

fn compact(value: &Value, app: &App) -> String {
    let mut text = Vec::new();
    json::write(value, app.settings.ids, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// One row of the answer, as a small table.
fn block(number: usize, cells: &[(&str, String)]) -> String {
    let cut = |name: &str| name.chars().take(STATUS_NAME_MAX).collect::<String>();
    let name_width = cells.iter().map(|(name, _)| cut(name).chars().count()).max().unwrap_or(0);
    let value_width = cells.iter().map(|(_, value)| value.chars().count()).max().unwrap_or(0);
    let width = (name_width + 3 + value_width).clamp(40, 200);
    let mut text = format!("---[ Status Query result {number} ]");
    text.push_str(&"-".repeat(width.saturating_sub(text.chars().count())));
    text.push('\n');
    for (name, value) in cells {
        text.push_str(&format!("{:name_width$} | {value}\n", cut(name)));
    }
    text.push_str(&"-".repeat(name_width + 1));
    text.push('+');
    text.push_str(&"-".repeat(width.saturating_sub(name_width + 2)));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let recipe = Recipe::parse(DOOR_LOG.as_bytes(), &given).expect("parses");
        assert_eq!(recipe.title, "Door log");
        assert_eq!(recipe.ingests[0]["path"], "data/doors.jsonl");
        assert!(recipe.ingests[0]["format"]["query"].as_str().expect("text").contains("$that.door"));
        assert_eq!(recipe.standing[0]["outputs"]["out"]["query"], "$that");
        assert_eq!(recipe.standing[0]["outputs"]["out"]["andThen"]["path"], "out.jsonl");
        assert_eq!(recipe.directories(), [PathBuf::from("data")]);
        assert!(recipe.status_query.is_some());
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let errors = Recipe::parse(format!("{DOOR_LOG}\nnope: 1\nquickQueries: 5").as_bytes(), &[]).expect_err("wrong");
        let text = errors.join("\n");
        for part in ["unknown field 'nope'", "'$in_file' is missing", "'$out-file' is missing", "'quickQueries' is a list"] {
            assert!(text.contains(part), "{text}");
        }
        let error = |text: &str| Recipe::parse(text.as_bytes(), &[]).expect_err("wrong").join("\n");
        assert!(error("title: x").contains("'version'"));
        assert!(error("version: 7").contains("no version 7"));
        assert!(error("version: 2\ntitle: x").contains("version 2"));
        assert!(error("- 1").contains("an object"));
        assert!(Recipe::load("wikipedia", &[]).expect_err("a name").join("").contains("not a recipe file"));
        assert!(Recipe::load("/nowhere/x.yaml", &[]).expect_err("no file").join("").contains("cannot be read"));
    }

    #[test]
    fn the_status_is_a_table() {
        let shown = block(1, &[("people", "12".to_owned())]);
        let expected = "---[ Status Query result 1 ]------------\npeople | 12\n-------+--------------------------------\n";
        assert_eq!(shown, expected);
    }
}
