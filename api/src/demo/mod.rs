//! The demonstration: a stream of processes being started, renamed and ended, and a standing query over three of them.
//!
//! The generator does what an ingest stream does, through the same door (`Ingester`). A document viewer starts a shell that
//! starts a download: that is the match. Renaming or ending one of the three breaks it: that is the cancellation.

mod generator;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use serde_json::json;
use weir_connectors::status_lines;
use weir_cypher_compiler::{Options, compile};
use weir_engine::{Graph, Ingester};
use weir_model::Text;
use weir_model::visible::visible;

use self::generator::{Change, Generator};
use crate::app::App;
use crate::clock;
use crate::error::{ApiError, chain};
use crate::events::Event;
use crate::wire::standing::StandingSettings;

const QUERY_NAME: &str = "viewer-shell-download";

const PATTERN: &str = "MATCH (viewer:Process)<-[:parent]-(shell:Process)-[:runs_on]->(host:Host), (shell)<-[:parent]-(download:Process) \
WHERE viewer.name = 'viewer' AND shell.name = 'sh' AND download.name = 'curl' \
RETURN host.name AS host, viewer.pid AS viewer, shell.pid AS shell, download.pid AS download";

const START: &str = "MATCH (p), (parent), (host) \
WHERE id(p) = idFrom('demo-process', $that.pid) AND id(parent) = idFrom('demo-process', $that.parent) AND id(host) = idFrom('demo-host', $that.host) \
SET p:Process, p.pid = $that.pid, p.name = $that.name, host:Host, host.name = $that.host \
CREATE (p)-[:parent]->(parent), (p)-[:runs_on]->(host)";

const RENAME: &str = "MATCH (p) WHERE id(p) = idFrom('demo-process', $that.pid) SET p.name = $that.name";

const END: &str = "MATCH (p) WHERE id(p) = idFrom('demo-process', $that.pid) DETACH DELETE p";

/// Starts the stream and the query. The thread ends when weir stops.
pub fn start(app: &Arc<App>, per_second: u32, url: &str) -> Result<JoinHandle<()>, String> {
    let graph = app.engine.default_graph();
    let ingesters = [START, RENAME, END].map(|query| ingester(&graph, query));
    let [Ok(start), Ok(rename), Ok(end)] = ingesters else {
        let reasons: Vec<String> = ingesters.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
        return Err(format!("the demonstration's queries do not compile: {}", reasons.join("; ")));
    };
    if app.standing.get(&graph, QUERY_NAME).is_none() {
        let body = json!({"pattern": {"type": "Cypher", "query": PATTERN, "mode": "MultipleValues"}, "outputs": {}, "includeCancellations": true});
        let settings = StandingSettings::decode(&body).map_err(ApiError::Decode);
        settings
            .and_then(|settings| app.standing.create(&graph, QUERY_NAME, settings, false))
            .map_err(|error| format!("the demonstration's standing query could not be created: {error}"))?;
    }
    introduce(app.settings.webserver.enabled.then_some(url));
    tokio::spawn(print(app.clone()));
    let app = app.clone();
    let named = std::thread::Builder::new().name("demo".to_owned());
    named
        .spawn(move || generate(&app, per_second, start, rename, end))
        .map_err(|error| format!("no thread could be started: {error}"))
}

fn ingester(graph: &Graph, query: &str) -> Result<Ingester, ApiError> {
    let plan = compile(query, &Options { parameters: vec![Text::new("that")], ids: graph.ids(), ..Options::default() })?;
    Ok(Ingester::new(graph.clone(), graph.prepare(plan)))
}

fn generate(app: &App, per_second: u32, mut start: Ingester, mut rename: Ingester, mut end: Ingester) {
    let stop = app.stopping();
    let mut generator = Generator::new(clock::millis(SystemTime::now()));
    let pause = std::time::Duration::from_secs_f64(1.0 / f64::from(per_second));
    while !*stop.borrow() {
        let change = generator.next();
        let (ingester, record) = match &change {
            Change::Start { .. } => (&mut start, change.record()),
            Change::Rename { .. } => (&mut rename, change.record()),
            Change::End { .. } => (&mut end, change.record()),
        };
        match ingester.ingest(&[record], None) {
            Ok(ingested) => {
                for (_, failure) in ingested.failures {
                    tracing::warn!("a record of the demonstration had no effect: {failure}");
                }
            }
            Err(error) => {
                tracing::error!("the demonstration's stream has ended: {}", chain(&error));
                return;
            }
        }
        app.live.generated.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(pause);
    }
}

fn introduce(url: Option<&str>) {
    let page = url.map_or("There is no live page without the web server".to_owned(), |url| format!("The live page is at {url}"));
    let text = format!(
        "\nThe demonstration runs. Processes start, change their names and end; the standing query looks for a document\n\
         viewer whose shell started a download:\n\n  {}\n\nA match is shown when the last piece comes (+), its cancellation when a piece goes (-).\n\
         {page}. Ctrl-C ends it.\n\n",
        PATTERN.replace(" WHERE", "\n  WHERE").replace(" RETURN", "\n  RETURN")
    );
    let _ = print_above(&text);
}

/// A recipe that runs beside the demonstration draws its lines on the same terminal.
fn print_above(text: &str) -> io::Result<()> {
    status_lines::above(&io::stdout(), || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    })
}

/// Prints results as they come. What comes faster than a terminal can show is left to the page.
async fn print(app: Arc<App>) {
    let mut results = app.live.broadcast.listen();
    let colours = io::stdout().is_terminal();
    while let Some(Event { name, data, .. }) = results.recv().await {
        if name != "result" {
            continue;
        }
        let Ok(result) = serde_json::from_str::<serde_json::Value>(&data) else { continue };
        let positive = result["positive"] == true;
        let (sign, word, colour) = if positive { ("+", "match       ", "\x1b[32m") } else { ("-", "cancellation", "\x1b[31m") };
        let data = result["data"].as_object().into_iter().flatten();
        let cells: Vec<String> = data.map(|(key, value)| format!("{key} {}", value.to_string().trim_matches('"'))).collect();
        let line = format!("{}  {sign} {word}  {}", clock::stamp(SystemTime::now()), visible(&cells.join("  ")));
        let line = if colours { format!("{colour}{line}\x1b[0m\n") } else { format!("{line}\n") };
        if print_above(&line).is_err() {
            return;
        }
    }
}
