//! Transfer: a graph as text or as a table, out of weir and into it. `weir export` and `weir import` do it to a store that nobody
//! works with, or, with `--url`, over HTTP with a weir that runs; the routes for that are in `routes/transfer.rs`.
//!
//!     Graph::export ─ items ─> lines | statements | parquet ─> file
//!     file ─ (parquet: rows as) portions of whole lines ─> lines | statements ─> items ─> Graph::import

pub mod lines;
mod online;
mod parquet;
pub mod progress;
pub mod statements;
mod whole;

use std::fs::File;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_cypher_compiler::{Options as CompileOptions, compile};
use weir_engine::transfer::Item;
use weir_engine::{DEFAULT_GRAPH, Engine, EngineError, Graph, GraphOptions, Options, Prepared, QueryOptions};
use weir_model::{IdScheme, Plan, Tick, Value};

use crate::app::{must_stay, open_store};
use crate::clock;
use crate::config::Settings;
use crate::error::chain;
use crate::queries::plans::is_quick;
use crate::terminal::counted;
use crate::tools::{ToolError, open_and_tell};
use lines::Line;

pub use online::{Of, back_up_over_http};
pub use progress::Progress;
pub use whole::{Whole, beside, renamed};

/// What is taken in at once.
pub const PORTION_BYTES: usize = 1 << 20;

/// What leaves at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Things that become one entry of the log.
const ITEMS_AT_ONCE: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// A line of JSON for each node and each relationship; exact
    #[default]
    Jsonl,
    /// Statements that make the graph, one a line
    Cypher,
    /// A table, with a row for each node and each relationship and a column for each property; exact
    Parquet,
}

impl Format {
    pub fn of(name: &str) -> Option<Format> {
        Format::from_str(name, true).ok()
    }

    fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Cypher => "cypher",
            Format::Parquet => "parquet",
        }
    }

    /// As it was asked for, or as the name of the file says.
    fn of_file(given: Option<Format>, file: &Path) -> Format {
        let by_name = match file.extension().and_then(|ending| ending.to_str()) {
            Some("cypher" | "cql") => Format::Cypher,
            Some("parquet") => Format::Parquet,
            _ => Format::Jsonl,
        };
        given.unwrap_or(by_name)
    }
}

/// Takes in whole lines, with the number of the first.
type TakePortion<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<Moved, ToolError>;

/// Takes a part of a text, with how much was written so far.
type EachPart<'a> = &'a mut dyn FnMut(&[u8], Moved) -> Result<(), String>;

/// What both commands are told.
#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
pub struct Transfer {
    /// The file
    pub file: PathBuf,

    /// What it holds; without this its name says: `.cypher` and `.cql` are statements, `.parquet` is a table, anything else is
    /// JSON Lines
    #[arg(long)]
    pub format: Option<Format>,

    /// Ask the weir that runs there, instead of opening the configured store; with an empty text the one at the usual place
    #[arg(long)]
    pub url: Option<String>,

    /// The namespace, instead of the default one
    #[arg(long)]
    pub namespace: Option<String>,

    /// With --url, a file with a token that says who asks, for a weir with logins; WEIR_TOKEN is one
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
}

impl Transfer {
    fn of<'a>(&'a self, url: &'a str) -> Of<'a> {
        Of { url, namespace: self.namespace.as_deref(), token_file: self.token_file.as_deref() }
    }

    fn format(&self) -> Format {
        Format::of_file(self.format, &self.file)
    }
}

/// How much was exported or imported.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// How many nodes.
    pub nodes: u64,
    /// How many edges.
    pub relationships: u64,
    /// How many Cypher statements, if the format is `cypher`.
    pub statements: u64,
}

impl Moved {
    fn count(&mut self, item: &Item) {
        match item {
            Item::Node(_) => self.nodes += 1,
            Item::Edge(_) => self.relationships += 1,
        }
    }

    fn add(&mut self, other: Moved) {
        self.nodes += other.nodes;
        self.relationships += other.relationships;
        self.statements += other.statements;
    }

    fn shown(&self) -> String {
        match self.statements {
            0 => {
                let relationships = counted(self.relationships, "relationship", "relationships");
                format!("{} and {relationships}", counted(self.nodes, "node", "nodes"))
            }
            statements => counted(statements, "statement", "statements"),
        }
    }
}

/// `url`: of the weir to be asked, where one is.
pub fn export(transfer: &Transfer, url: Option<&str>, at: Option<u64>, settings: &Settings) -> Result<ExitCode, ToolError> {
    let format = transfer.format();
    let whole = Whole::new(&transfer.file);
    let failed = |error: &dyn std::error::Error| format!("cannot write {}: {}", transfer.file.display(), chain(error));
    let write = || -> Result<String, ToolError> {
        let mut out = whole.begin().map_err(|error| failed(&error))?;
        let said = match url {
            Some(url) => {
                let mut write = |part: &[u8]| out.write_all(part).map_err(|error| failed(&error));
                online::export(transfer.of(url), format, at, &mut write)?
            }
            None => {
                // As a weir that runs does, in the number that was given: a tick has no room for some.
                if let Some(at) = at.filter(|at| *at > clock::millis(SystemTime::now())) {
                    return Err(EngineError::NotYet(at).to_string().into());
                }
                let opened = Opened::new(settings, transfer.namespace.as_deref(), false, None)?;
                let mut progress = Progress::new("nodes", Some(opened.graph.about_nodes()));
                let at = at.map(Tick::end_of_millis);
                let moved = write_graph(&opened.graph, format, at, &mut |part, moved| {
                    progress.set(moved.nodes);
                    out.write_all(part).map_err(|error| failed(&error))
                })?;
                progress.end();
                opened.close()?;
                moved.shown()
            }
        };
        whole.sync(out).and_then(|()| whole.end()).map_err(|error| failed(&error))?;
        Ok(said)
    };
    let said = write().inspect_err(|_| whole.give_up())?;
    whole.tell(&format!("{said} in {}", transfer.file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Whole lines of a file that is read.
pub struct Portion {
    lines: Vec<u8>,
    /// The number of the first.
    first: u64,
    /// How much of the file was read with this one.
    done: u64,
}

type Portions = Box<dyn Iterator<Item = Result<Portion, String>>>;

/// `url`: of the weir to be asked, where one is.
pub fn import(transfer: &Transfer, url: Option<&str>, settings: &Settings) -> Result<ExitCode, ToolError> {
    let file = transfer.file.as_path();
    let (format, portions, mut progress) = match transfer.format() {
        Format::Parquet => {
            let rows = parquet::Rows::open(file)?;
            let progress = Progress::new("rows", Some(rows.total()));
            (Format::Jsonl, Box::new(rows) as Portions, progress)
        }
        format => {
            let (portions, length) = portions_of_lines(file)?;
            (format, portions, Progress::new("bytes", Some(length)))
        }
    };
    let mut portions = portions.peekable();
    let of_file = |reason: String| format!("{}: {reason}", file.display());
    let model = match portions.peek() {
        Some(Ok(portion)) if url.is_none() && format == Format::Jsonl => model_of(portion, settings.ids).map_err(of_file)?,
        _ => None,
    };
    let mut moved = Moved::default();
    let read = |take: TakePortion<'_>| {
        for portion in portions {
            let Portion { lines, first, done } = portion?;
            moved.add(take(&lines, first).map_err(|error| {
                let before = format!("\nWhat stands before line {first} is in the graph; the import can be repeated");
                let before = if first > 1 { before.as_str() } else { "" };
                match error {
                    ToolError::Failed(reason) => ToolError::Failed(of_file(reason) + before),
                    // That is no fault of the file.
                    ToolError::Unreachable(reason) => ToolError::Unreachable(reason + before),
                }
            })?);
            progress.set(done);
        }
        Ok::<(), ToolError>(())
    };
    match url {
        Some(url) => {
            let mut importer = online::Importer::new(transfer.of(url), format)?;
            read(&mut |portion, first| importer.send(portion, first))?;
        }
        None => {
            let store = Opened::new(settings, transfer.namespace.as_deref(), true, model)?;
            let options =
                CompileOptions { ids: settings.ids, open_cypher: store.graph.open_cypher(), ..CompileOptions::default() };
            read(&mut |portion, first| Ok(take_in(&store.graph, format, portion, first, &options)?))?;
            store.close()?;
        }
    }
    progress.end();
    let _ = writeln!(stdout(), "{} from {}", moved.shown(), file.display());
    Ok(ExitCode::SUCCESS)
}

/// The graph model that the first line names, where it names one.
fn model_of(portion: &Portion, ids: IdScheme) -> Result<Option<GraphOptions>, String> {
    let line = portion.lines.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    match lines::read_line(line.unwrap_or_default(), ids) {
        Ok(Some(Line::Graph(model))) => Ok(model),
        Ok(_) => Ok(None),
        Err(reason) => Err(at_line(portion.first, &reason)),
    }
}

/// A graph of one model is none of the other: a node of `open-cypher` that has nothing would be none, and not be missed.
fn must_fit(model: Option<GraphOptions>, graph: GraphOptions) -> Result<(), String> {
    match model {
        Some(model) if model != graph => Err(format!(
            "what is to be taken in is a graph of the model `{}`, and would go into one of the model `{}`; give a store of its model (graph-model)",
            model.name(),
            graph.name()
        )),
        _ => Ok(()),
    }
}

/// The portions of a file of text, and how many bytes it has.
fn portions_of_lines(file: &Path) -> Result<(Portions, u64), String> {
    let place = file.display().to_string();
    let unreadable = move |error: std::io::Error| format!("cannot read {place}: {error}");
    let opened = File::open(file).map_err(&unreadable)?;
    let length = opened.metadata().map_err(&unreadable)?.len();
    let mut text = BufReader::with_capacity(PORTION_BYTES, opened);
    let (mut next, mut done) = (1, 0);
    let portions = std::iter::from_fn(move || {
        let (mut lines, first) = (Vec::new(), next);
        while lines.len() < PORTION_BYTES {
            match text.read_until(b'\n', &mut lines) {
                Ok(0) => break,
                Ok(_) => next += 1,
                Err(error) => return Some(Err(unreadable(error))),
            }
        }
        done += lines.len() as u64;
        (!lines.is_empty()).then_some(Ok(Portion { lines, first, done }))
    });
    Ok((Box::new(portions), length))
}

/// Gives a graph out, in parts of a moderate size, with how much that was so far.
pub fn write_graph(graph: &Graph, format: Format, at: Option<Tick>, part: EachPart<'_>) -> Result<Moved, String> {
    let model = GraphOptions { open_cypher: graph.open_cypher() };
    if format == Format::Cypher && model.open_cypher {
        let reason =
            "a graph of the model `open-cypher` cannot be written as statements: CREATE gives its nodes ids of their own";
        return Err(format!("{reason}. Write it as jsonl"));
    }
    if format == Format::Parquet {
        return parquet::write(graph, at, part);
    }
    let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
    if format == Format::Jsonl {
        lines::write_head(model, &mut out);
    }
    let (mut moved, mut failed) = (Moved::default(), None);
    let exported = graph.export(at, &mut |item| {
        moved.count(&item);
        failed = must_be_importable(&item, format, graph.ids()).err();
        match format {
            Format::Cypher => statements::write_item(&item, graph.ids(), &mut out),
            _ => lines::write_item(&item, graph.ids(), model.open_cypher, &mut out),
        }
        if failed.is_none() && out.len() >= CHUNK_BYTES {
            failed = part(&out, moved).err();
            out.clear();
        }
        failed.is_none()
    });
    exported.map_err(|error| chain(&error))?;
    failed.map_or(Ok(()), Err)?;
    part(&out, moved)?;
    Ok(moved)
}

/// Deeper nesting is not read again by the parser of JSON, which takes 256 levels, two of them the line and its properties; nor
/// by that of Cypher, which takes 200, some of them the statement. Values can be stored that are nested 399 levels deep.
const LEVELS_MAX: usize = 254;
const LEVELS_MAX_CYPHER: usize = 190;

/// Better no export than one that turns out to be of no use when it is needed.
fn must_be_importable(item: &Item, format: Format, ids: IdScheme) -> Result<(), String> {
    let levels_max = if format == Format::Cypher { LEVELS_MAX_CYPHER } else { LEVELS_MAX };
    let properties = match item {
        Item::Node(node) => &node.properties,
        Item::Edge(edge) => &edge.properties,
    };
    let Some((key, _)) = properties.iter().find(|(_, value)| levels(value) > levels_max) else { return Ok(()) };
    let of = match item {
        Item::Node(node) => format!("node {}", ids.text(node.id)),
        Item::Edge(edge) => {
            format!("relationship {} from {} to {}", edge.kind, ids.text(edge.source), ids.text(edge.target))
        }
    };
    Err(format!(
        "{of}: its property `{key}` is nested deeper than the {levels_max} levels that can be read again as {}; a backup keeps it",
        format.name()
    ))
}

/// How deep a value is nested in its exact form, or a little more.
fn levels(value: &Value) -> usize {
    match value {
        Value::Null | Value::Boolean(_) | Value::Integer(_) | Value::Text(_) => 0,
        Value::List(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Map(map) => {
            // One with such a key lies in another.
            let own = if map.iter().any(|(key, _)| key.starts_with('$')) { 2 } else { 1 };
            own + map.iter().map(|(_, value)| levels(value)).max().unwrap_or(0)
        }
        // A date is a list in a map.
        _ => 2,
    }
}

/// Takes in whole lines; `first` is the number of the first of them. A portion of JSON Lines with a mistake changes nothing; of
/// statements, those before it have run. Durable when this returns, and the next read shows it.
pub fn take_in(graph: &Graph, format: Format, portion: &[u8], first: u64, options: &CompileOptions) -> Result<Moved, String> {
    let lines = portion.split(|byte| *byte == b'\n').zip(first..);
    let mut moved = Moved::default();
    match format {
        Format::Parquet => {
            return Err(
                "a file of Parquet is read from its end on, and cannot be sent: `weir import --url` sends its rows as lines"
                    .to_owned(),
            );
        }
        Format::Jsonl => {
            let mut items = Vec::new();
            for (line, number) in lines {
                let wrong = |reason: String| at_line(number, &reason);
                match lines::read_line(line, graph.ids()).map_err(wrong)? {
                    Some(Line::Graph(model)) => {
                        must_fit(model, GraphOptions { open_cypher: graph.open_cypher() }).map_err(wrong)?;
                    }
                    Some(Line::Item(item)) => items.push(item),
                    None => {}
                }
            }
            items.iter().for_each(|item| moved.count(item));
            for items in items.chunks(ITEMS_AT_ONCE) {
                let upper = graph.import(items).map_err(|error| chain(&error))?;
                graph.wait_durable(upper).map_err(|error| chain(&error))?;
            }
            graph.wait_visible().map_err(|error| chain(&error))?;
        }
        Format::Cypher => {
            let mut writes = Writes { graph, lines: Vec::new(), queries: Vec::new() };
            for (line, number) in lines.filter(|(line, _)| !line.trim_ascii().is_empty()) {
                let mistake = match std::str::from_utf8(line).map(|text| compile(text, options)) {
                    Ok(Ok(plan)) => {
                        writes.take(number, plan)?;
                        moved.statements += 1;
                        continue;
                    }
                    Ok(Err(mistakes)) => mistakes[0].to_string(),
                    Err(_) => "this is not UTF-8".to_owned(),
                };
                writes.commit()?;
                return Err(at_line(number, &mistake));
            }
            writes.commit()?;
        }
    }
    Ok(moved)
}

fn at_line(number: u64, reason: &str) -> String {
    format!("line {number}: {reason}")
}

/// At most this many statements are committed at once.
const STATEMENTS_AT_ONCE: usize = 256;

/// Statements that write, one after another.
struct Writes<'g> {
    graph: &'g Graph,
    /// The line in which each query stands.
    lines: Vec<u64>,
    queries: Vec<Arc<Prepared>>,
}

impl Writes<'_> {
    /// The next one. Those that are no small write run alone, behind all before them.
    fn take(&mut self, line: u64, plan: Plan) -> Result<(), String> {
        let joins = is_quick(&plan);
        let query = self.graph.prepare(plan);
        if joins && query.writes() {
            self.lines.push(line);
            self.queries.push(query);
            return if self.queries.len() < STATEMENTS_AT_ONCE { Ok(()) } else { self.commit() };
        }
        self.commit()?;
        self.run(line, &query)
    }

    fn run(&self, line: u64, query: &Prepared) -> Result<(), String> {
        let ran = self.graph.query(query, &[], QueryOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()));
        ran.map(drop).map_err(|error| at_line(line, &chain(&error)))
    }

    fn commit(&mut self) -> Result<(), String> {
        let (queries, lines) = (std::mem::take(&mut self.queries), std::mem::take(&mut self.lines));
        let mut done = 0;
        while done < queries.len() {
            done += self.graph.write_in_order(&queries[done..]).map_err(|(which, error)| match which {
                Some(which) => at_line(lines[done + which], &chain(&error)),
                None => format!("lines {} to {}: {}", lines[done], lines[lines.len() - 1], chain(&error)),
            })?;
            if let Some(query) = queries.get(done) {
                self.run(lines[done], query)?;
                done += 1;
            }
        }
        Ok(())
    }
}

/// A graph in the configured store, which nothing else works with.
struct Opened {
    engine: Ending,
    graph: Graph,
}

/// An engine that has ended when this is gone. One that is dropped may end in a thread of its own, and the process before the
/// store is closed.
struct Ending(Engine);

impl Drop for Ending {
    fn drop(&mut self) {
        // After `close` nothing is left to do. Elsewhere something failed before, and that is told.
        let _ = self.0.shutdown();
    }
}

impl Opened {
    /// `make`: a store, or a namespace, that is not there is made; a store of the model of what comes into it, unless the
    /// configuration says which.
    fn new(settings: &Settings, namespace: Option<&str>, make: bool, model: Option<GraphOptions>) -> Result<Opened, String> {
        must_fit(model, settings.graph.or(model).unwrap_or_default())?;
        let open = |store| match make {
            true => must_stay(store).and_then(|_| open_store(store)).map_err(|error| chain(&error)),
            false => open_and_tell(store),
        };
        let store = open(&settings.store).map_err(|reason| format!("{reason}\nWith --url a weir that runs is asked"))?;
        let cannot = |error: &dyn std::error::Error| format!("cannot open the graph: {}", chain(error));
        let is_new = store.graphs().map_err(|error| cannot(&error))?.is_empty();
        let options = Options {
            workers: settings.workers,
            ids: settings.ids,
            retention: settings.retention,
            graph: settings.graph.or(model.filter(|_| is_new)),
            // A tool changes nothing that it was not told to.
            nothing_ends: true,
            ..Options::default()
        };
        let ending = Ending(Engine::open(store, options).map_err(|error| cannot(&error))?);
        let engine = &ending.0;
        engine.start().map_err(|error| cannot(&error))?;
        let name = match namespace {
            None | Some("default") => DEFAULT_GRAPH.to_owned(),
            Some(name) => name.to_ascii_lowercase(),
        };
        let graph = match engine.graph(&name) {
            Some(graph) => graph,
            None => {
                engine.check_graph(&name).map_err(|error| cannot(&error))?;
                if !make {
                    return Err(format!("there is no namespace '{name}'; there are: {}", engine.graphs().join(", ")));
                }
                let like = GraphOptions { open_cypher: engine.default_graph().open_cypher() };
                must_fit(model, like)?;
                engine.create_graph(&name, like).map_err(|error| cannot(&error))?
            }
        };
        Ok(Opened { engine: ending, graph })
    }

    fn close(self) -> Result<(), String> {
        self.engine.0.shutdown().map_err(|error| format!("the store could not be closed cleanly: {}", chain(&error)))
    }
}
