//! What each handler of the table of routes does, for the documents: its name, its words, its parameters, what it takes and
//! what it answers. One row for a handler, whatever the families it answers for.

use serde_json::{Value as Json, json};

use super::bodies::*;
use super::parameters::{self as p, Parameter};
use super::schemas::{Named, list, map, named, of};
use super::why::{WhyAnswer, WhyQuestion};
use crate::transfer::Moved;
use crate::wire::family::Family;
use crate::wire::half_edge::HalfEdge;
use crate::wire::style::{NodeAppearance, QuickQueryEntry, SampleQuery, TapQuery};

/// What a body holds.
#[derive(Clone, Copy)]
pub enum Shape {
    /// No body.
    Empty,
    /// A value, in the envelope of its family.
    Value(Named),
    /// Named things: a list of its own in some families.
    Items(Named),
    /// What was created, with its envelope beside it where two generations share the path.
    Created(Named),
    /// `Empty`, but in the preview.
    Accepted,
    /// Not JSON.
    Text(&'static str),
}

pub struct Operation {
    pub id: &'static str,
    pub group: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub parameters: &'static [Parameter],
    /// Names a graph by a parameter where its path does not.
    pub of_graph: bool,
    /// Kept for old clients; there is something better.
    pub deprecated: bool,
    pub body: Option<Named>,
    /// A body, where that of its schema would be no good one.
    pub example: Option<Json>,
    pub answers: Vec<(u16, Shape)>,
    /// Kinds of text that the answer comes as, too, when a parameter asks for them.
    pub texts: &'static [&'static str],
}

const SYSTEM: &str = "System Administration";
const INGEST: &str = "Ingest Streams";
const STANDING: &str = "Standing Queries";
const ALGORITHMS: &str = "Graph Algorithms";
const CYPHER: &str = "Cypher Query Language";
const STYLE: &str = "UI Styling";
const DEBUG: &str = "Debug Node Operations";
const NAMESPACES: &str = "Namespaces";
const PAGES: &str = "Pages and Documents";
const LOGINS: &str = "Logins";
const ELSEWHERE: &str = "Other Editions";

/// The groups, in the order in which documents show them.
pub const GROUPS: &[(&str, &str)] = &[
    (SYSTEM, "Version, configuration, health, metrics, backups and shutdown of weir."),
    (INGEST, "Ingest streams read records from a source and run a Cypher query on each, which writes to a graph."),
    (STANDING, "Standing queries keep their answer up to date and send each match, and if wanted each cancellation, to outputs."),
    (ALGORITHMS, "Random walks over a graph."),
    (CYPHER, "Queries that read or change a graph when they are sent, and the list of those that run."),
    (STYLE, "What the explorer offers to run, and how it draws nodes. The lists are shared by all users."),
    (DEBUG, "The content of single nodes, for debugging."),
    (NAMESPACES, "Namespaces: named graphs that are independent of each other."),
    (PAGES, "Pages for people, and documents and metrics for tools."),
    (LOGINS, "Who asks, and what they may. Logins are off unless the configuration names a provider."),
    (ELSEWHERE, "Routes of other editions of the service. weir answers them with 404."),
];

fn op(id: &'static str, group: &'static str, title: &'static str, answers: &[(u16, Shape)]) -> Operation {
    Operation {
        id,
        group,
        title,
        about: "",
        parameters: &[],
        of_graph: false,
        deprecated: false,
        body: None,
        example: None,
        answers: answers.to_vec(),
        texts: &[],
    }
}

impl Operation {
    fn about(self, about: &'static str) -> Operation {
        Operation { about, ..self }
    }

    fn takes(self, parameters: &'static [Parameter]) -> Operation {
        Operation { parameters, ..self }
    }

    fn graph(self) -> Operation {
        Operation { of_graph: true, ..self }
    }

    fn deprecated(self) -> Operation {
        Operation { deprecated: true, ..self }
    }

    fn or_as(self, texts: &'static [&'static str]) -> Operation {
        Operation { texts, ..self }
    }

    fn body(self, body: Named) -> Operation {
        Operation { body: Some(body), ..self }
    }

    fn example(self, example: Json) -> Operation {
        Operation { example: Some(example), ..self }
    }
}

const READ: &[Parameter] = &[p::AT_TIME, p::TIMEOUT];
/// Of routes that do not heed a limit of their client.
const LOOK: &[Parameter] = &[p::AT_TIME, p::NO_TIMEOUT];
const EXPORT: &[Parameter] = &[p::EXPORT_FORMAT, p::AT_TIME, p::NO_TIMEOUT];
const EDGES: &[Parameter] =
    &[p::EDGE_LIMIT, p::EDGE_DIRECTION, p::EDGE_OTHER, p::EDGE_TYPE, p::ONLY_FULL, p::AT_TIME, p::NO_TIMEOUT];
const FOLLOW: &[Parameter] = &[p::SINCE_RESULT, p::WITH_TICK];
const KEYED: &[Parameter] = &[p::KEY, p::AT_TIME, p::NO_TIMEOUT];
const WALK: &[Parameter] =
    &[p::WALK_LENGTH, p::WALK_QUERY, p::WALK_RETURN, p::WALK_IN_OUT, p::WALK_SEED, p::AT_TIME, p::NO_TIMEOUT];
const WALKS: &[Parameter] = &[
    p::WALK_LENGTH,
    p::WALK_COUNT,
    p::WALK_QUERY,
    p::WALK_RETURN,
    p::WALK_IN_OUT,
    p::WALK_SEED,
    p::PARALLELISM,
    p::AT_TIME,
    p::NO_TIMEOUT,
];

/// The operation of a handler, by its name in the table of routes. None is a row that somebody forgot, which a test finds.
#[rustfmt::skip]
pub fn of_handler(handler: &str, family: Family) -> Option<Operation> {
    use Shape::{Accepted, Created, Empty, Items, Text, Value};
    let v1 = family == Family::V1;
    let text: Named = of::<String>;
    let operation = match handler {
        // Pages and documents.
        "ui::page" => op("live-page", PAGES, "The live page: what runs and what it finds", &[(200, Text("text/html"))]),
        "ui::state" => op("live-state", PAGES, "What the live page shows when it is opened", &[(200, Value(of::<LiveState>))]),
        "ui::events" => op("live-events", PAGES, "Updates of the live page, as server-sent events", &[(200, Text("text/event-stream"))])
            .about("The page at `/` listens to them. Their content may change from version to version."),
        "ui::explorer" => op("explorer", PAGES, "The explorer page: ask the graph and see it drawn", &[(200, Text("text/html"))]),
        "ui::explorer_file" => op("explorer-file", PAGES, "A script or stylesheet of the explorer", &[(200, Text("text/javascript"))]).or_as(&["text/css"]),
        "ui::streams" => op("streams-page", PAGES, "The streams page: manage ingest streams and standing queries", &[(200, Text("text/html"))]),
        "ui::streams_file" => op("streams-page-file", PAGES, "A script or stylesheet of the streams page", &[(200, Text("text/javascript"))]).or_as(&["text/css"]),
        "documents::prometheus" => op("prometheus", PAGES, "Metrics in the format of Prometheus", &[(200, Text("text/plain"))])
            .about("Counters, gauges and histograms of weir, its graphs, streams, standing queries and outputs."),
        "documents::openapi_v1" => op("openapi-v1", PAGES, "The OpenAPI 3.0 document of v1", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::openapi_preview" => op("openapi-preview", PAGES, "The OpenAPI 3.1 document of the preview of v2", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::openapi" => op("openapi", PAGES, "The OpenAPI 3.1 document of current v2", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::page" | "documents::page_v1" => op("reference", PAGES, "The API reference page", &[(200, Text("text/html"))])
            .about("Shows the OpenAPI documents, and sends requests from the browser."),

        // Administration.
        "admin::build_info" => op("get-system-info", SYSTEM, "Get the version of weir", &[(200, Value(of::<BuildInfo>))]),
        "admin::config" => op("get-config", SYSTEM, "Get the configuration in force", &[(200, Value(of::<Configuration>))])
            .about("Secrets are hidden. `weir config` on the command line also shows where each value comes from."),
        "admin::garbage_collection" => op("collect-garbage", SYSTEM, "Request a garbage collection (no effect)", &[(202, Accepted)])
            .about("Nothing is left to collect: memory is given back as it becomes free. The request is accepted for compatibility."),
        "admin::graph_hash" => op("get-graph-hashcode", SYSTEM, "Get a hash of a graph", &[(200, Value(of::<GraphHash>))]).takes(LOOK).graph()
            .about("Graphs with equal content have equal hashes, so two graphs can be compared. The whole graph is read."),
        "admin::graph_sizes" => op("get-graph-sizes", SYSTEM, "Get the size of a graph", &[(200, Value(of::<GraphSizes>))]).takes(&[p::TIMEOUT]).graph()
            .about("Counts nodes by label and edges by type exactly, and gives the bytes that the graph and the store take. The whole graph is read once; when `timeout` is over the answer is 500."),
        "admin::liveness" => op("get-liveness", SYSTEM, "Check whether weir is alive", &[(204, Empty)])
            .about("204 whenever weir can answer, also while it starts or stops."),
        "admin::readiness" => op("get-readiness", SYSTEM, "Check whether weir is ready", &[(204, Empty)])
            .about("204 when weir takes requests. 503 while it starts or stops, or after a failed write to the store; in v2 the body says why."),
        "admin::metadata" => op("get-metadata", SYSTEM, "Get the metadata in the store", &[(200, Value(map::<String>))]).about("Definitions and settings that are stored beside the graphs, by key. Secrets are masked. In v1 each value is base64."),
        "logs::level" => op("get-log-level", SYSTEM, "Get the log level", &[(200, Value(of::<Logging>))])
            .about("A level, pairs of a module and a level, or both."),
        "logs::set_level" => op("set-log-level", SYSTEM, "Change the log level", &[(200, Value(of::<Logging>))]).body(of::<Logging>)
            .about("Takes effect at once and lasts until weir ends. The setting `log.level` changes it for good."),
        "admin::metrics" => op("get-metrics", SYSTEM, "Get metrics", &[(200, Value(of::<Figures>))]).takes(&[p::MEMBER])
            .about("Counters, timers and gauges of weir, its graphs, streams and standing queries, under the names of the reference service. `/metrics` has more of them, for Prometheus."),
        "admin::request_sleep" => op("sleep-node", SYSTEM, "Request that a node sleeps (no effect)", &[(202, Accepted)]).about("Nodes do not sleep in weir. The request is accepted for compatibility; an id that is not valid is refused.").graph(),
        "admin::shutdown" => op("initiate-shutdown", SYSTEM, "Shut weir down", &[(202, Accepted)]).about("Answers at once. weir then stops its sources, writes what was read, delivers what was found and ends, within 60 seconds. Nothing that was acknowledged is lost."),
        "admin::status" => op("get-status", SYSTEM, "Get the status of weir", &[(200, Value(of::<ClusterStatus>))])
            .about("Says whether weir is ready and, if not, why. The cluster has one member."),
        "admin::usage" => op("get-usage", SYSTEM, "Get how much each graph has ingested", &[(200, Value(of::<Usage>))])
            .about("Records and bytes that each ingest stream has read, and how many standing queries there are, by graph."),
        "admin::backpressure" => op("get-backpressure", SYSTEM, "Get what holds ingest and results up", &[(200, Value(list::<Pressure>))])
            .about("Rates, queues and states of all ingest streams, standing queries and outputs, and the latency of the store."),
        "transfer::back_up" => op("back-up", SYSTEM, "Download a backup", &[(200, Text("application/octet-stream"))]).takes(&[p::LEAVE_OUT])
            .about("A consistent copy of all graphs with their history, streams and standing queries, while weir goes on. `weir restore` reads it. It holds the secrets of definitions. Refused with 400 if `webserver.backups-enabled` is false."),
        "transfer::back_up_since" => op("back-up-since", SYSTEM, "Download what has come since a backup", &[(200, Text("application/octet-stream"))]).takes(&[p::LEAVE_OUT]).body(text)
            .about("As a download of everything, but only with what has come since an earlier backup. The body is the text that says where that one ended, which `weir backup --since` reads from its file. Refused with 400 if the store no longer holds what that backup does."),
        "transfer::export" => op("export-graph", SYSTEM, "Export a graph", &[(200, Text("application/x-ndjson"))]).takes(EXPORT).graph().or_as(&["text/plain", "application/vnd.apache.parquet"])
            .about("All nodes and edges, as of one moment. As JSON Lines (`application/x-ndjson`), Cypher statements (`text/plain`) or Parquet, as `format` says. Streams and standing queries are not part of it."),
        "transfer::import" => op("import-graph", SYSTEM, "Import into a graph", &[(200, Value(of::<Moved>))]).takes(&[p::FORMAT, p::LINE]).graph().body(text)
            .about("The body is what an export has given, as JSON Lines or Cypher, in whole lines. It may be sent in portions, and repeated. The answer comes when the import is durable."),
        "shards::get" => op("get-shard-sizes", SYSTEM, "Get the node limits of shards (no effect)", &[(200, Value(map::<ShardLimit>))]).takes(&[p::MEMBER]).about("The limits are kept and shown, and have no effect: nodes do not sleep in weir."),
        "shards::set" => op("update-shard-sizes", SYSTEM, "Set the node limits of shards (no effect)", &[(200, Value(map::<ShardLimit>))])
            .about("Shards that are not named keep their limits. The limits are kept until weir ends, and have no effect: nodes do not sleep in weir.").body(map::<ShardLimit>)
            .example(json!({"0": {"softLimit": 10000, "hardLimit": 75000}})),

        // Queries.
        "query::table" => op("query-cypher", CYPHER, "Run a query and return its rows", &[(200, Value(of::<Table>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .about("The body is an object with the query and its parameters or, as `text/plain`, the query alone. With EXPLAIN in front the answer is how the query would run; with PROFILE it is run, and the answer is how it ran."),
        "query::nodes" => op("query-cypher-nodes", CYPHER, "Run a query and return the nodes in its rows", &[(200, Value(list::<UiNode>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .example(json!({"text": "MATCH (n) RETURN n LIMIT 10"}))
            .about("The body is as for queries that return rows. Values that are not nodes are refused."),
        "query::edges" => op("query-cypher-edges", CYPHER, "Run a query and return the edges in its rows", &[(200, Value(list::<UiEdge>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .example(json!({"text": "MATCH ()-[e]->() RETURN e LIMIT 10"}))
            .about("The body is as for queries that return rows. Values that are not edges are refused."),
        "gremlin::values" => op("query-gremlin", CYPHER, "Run a Gremlin traversal and return its values", &[(200, Value(list::<Json>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated()
            .about("For old clients: a subset of Gremlin that only reads. New clients should use Cypher."),
        "gremlin::nodes" => op("query-gremlin-nodes", CYPHER, "Run a Gremlin traversal and return the nodes it leads to", &[(200, Value(list::<UiNode>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated()
            .about("For old clients: a subset of Gremlin that only reads. New clients should use Cypher."),
        "gremlin::edges" => op("query-gremlin-edges", CYPHER, "Run a Gremlin traversal and return the edges it leads to", &[(200, Value(list::<UiEdge>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated()
            .example(json!({"text": "g.V().limit(10).outE()"}))
            .about("For old clients: a subset of Gremlin that only reads. New clients should use Cypher."),
        "query::user_defined" => op("load-user-defined", CYPHER, "Load user-defined functions (not supported)", &if v1 { [(200, Empty)] } else { [(200, Value(list::<String>))] }).body(list::<String>).example(json!([]))
            .about("All functions and procedures are part of weir. Only an empty list is accepted."),
        "running::list" => op("list-running-queries", CYPHER, "List running queries", &[(200, Items(of::<RunningQuery>))])
            .about("Queries that run, or wait for a place to run in, the oldest first."),
        "running::cancel" => op("cancel-query", CYPHER, "Cancel a running query", &[(200, Value(of::<RunningQuery>))])
            .about("Tells the query to end, and answers with its state at that moment. The client of the query gets an error. What a query has not committed has no effect."),
        "sockets::language" => op("lsp-websocket", CYPHER, "Language server for Cypher editors, over a web socket", &[(101, Empty)]).graph()
            .about("The Language Server Protocol as JSON-RPC 2.0, one message per frame: diagnostics, completion, hover and semantic tokens."),
        "sockets::query" => op("query-websocket", CYPHER, "Run many queries over a web socket", &[(101, Empty)]).graph()
            .about("The query protocol of the explorer. Messages are JSON: `RunQuery` starts a query under a number that the client chooses, `CancelQuery` ends it; results come in batches."),

        // Streams.
        "ingest::list" if v1 => op("list-ingests", INGEST, "List ingest streams", &[(200, Value(map::<StreamState>))]).graph()
            .about("The state, definition and figures of each stream."),
        "ingest::list" => op("list-ingests", INGEST, "List ingest streams", &[(200, Items(of::<Stream>))]).takes(&[p::MEMBER]).graph()
            .about("The state, definition and figures of each stream."),
        "ingest::create" => op("create-ingest", INGEST, "Create an ingest stream", &[(200, Empty)]).graph().body(|_| named("IngestBody"))
            .about("The stream starts at once. A name that is in use is refused."),
        "ingest::create_named" => op("create-ingest", INGEST, "Create an ingest stream", &[(201, Created(of::<Stream>))]).takes(&[p::MEMBER]).graph().body(|_| named("IngestBody"))
            .about("The stream starts at once. A name that is in use is refused. The answer is the stream; `warnings` and the header `Warning` tell of unknown fields, and of queries that are slow or not repeatable."),
        "ingest::get" => op("get-ingest-status", INGEST, "Get an ingest stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph()
            .about("The state, definition and figures of the stream. In v2 a web socket handshake on the same path uploads a file to a stream whose source is `WebSocketFileUpload`."),
        "ingest::push" => op("push-records", INGEST, "Send records to an ingest stream", &[(200, Value(of::<PushedRecords>))]).takes(&[p::IDEMPOTENCY_KEY]).graph()
            .body(of::<Json>).about("For streams whose source is `HttpPush` (v1: `HttpPushIngest`). The answer comes when the effect of the records is durable. In JSON each element of a list is a record; `application/x-ndjson` and `text/plain` have one record per line; `application/octet-stream` is one record. `Content-Encoding` may be gzip, deflate or zstd."),
        "ingest::delete" => op("delete-ingest", INGEST, "Delete an ingest stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph().about("Stops the stream and deletes its definition and position. What it has written stays in the graph. The answer is its last state."),
        "ingest::pause" => op("pause-ingest", INGEST, "Pause an ingest stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph()
            .about("The stream stops reading and keeps its position. A batch that is taking effect is finished first, for up to 2 seconds; then it is taken back and begun again later."),
        "ingest::start" => op("resume-ingest", INGEST, "Start or resume an ingest stream", &[(200, Value(of::<Stream>))])
            .about("Goes on where the stream stood, also after a failure or a restart of weir. A stream that is complete cannot be started again.")
            .takes(&[p::MEMBER])
            .graph(),

        // Standing queries.
        "standing::list" => op("list-standing-queries", STANDING, "List standing queries", &[(200, Items(of::<Standing>))]).graph()
            .about("The definition, state and figures of each standing query."),
        "standing::create" => op("create-standing-query", STANDING, "Create a standing query", &[(201, Empty)]).graph().body(of::<StandingBody>)
            .about("A name that is in use is refused. Matches that are already in the graph become results as `startFrom` says."),
        "standing::create_named" => op("create-standing-query", STANDING, "Create a standing query", &[(201, Created(of::<Standing>))])
            .takes(&[p::HASHED, p::PROPAGATE_TO, p::WAKE_UP]).graph().body(of::<NamedStandingBody>)
            .about("A name that is in use is refused. Matches that are already in the graph become results as `startFrom` and, in current v2, `propagateTo` say. `warnings` and the header `Warning` tell of unknown fields, and of expressions that never have a value."),
        "standing::get" => op("get-standing-query-status", STANDING, "Get a standing query", &[(200, Value(of::<Standing>))]).graph()
            .about("The definition, state and figures of the standing query and its outputs."),
        "standing::delete" => op("delete-standing-query", STANDING, "Delete a standing query", &[(200, Value(of::<Standing>))]).graph().about("Results that were found before are delivered first, for up to 5 seconds. The answer is the last state of the query. Matches are not cancelled."),
        "standing::replace" => op("replace-standing-query", STANDING, "Replace the pattern of a standing query", &[(200, Created(of::<Standing>))]).graph().body(of::<StandingReplacement>)
            .about("The new pattern is first worked out beside the old one and then takes its place at one moment. Only the difference between their answers is sent. The request is answered when that is done; it is refused with 400 if an output does not deliver the results of the old pattern within 20 seconds, or if the query is paused."),
        "standing::pause" => op("pause-standing-query", STANDING, "Pause a standing query", &[(200, Value(of::<Standing>))]).graph()
            .about("The query stays up to date and sends nothing. At the end of the pause the difference between its answers before and after is sent; what comes and goes in between leaves no trace. A pause survives a restart."),
        "standing::resume" => op("resume-standing-query", STANDING, "Resume a standing query", &[(200, Value(of::<Standing>))]).graph()
            .about("Sends the difference between the answer at the beginning of the pause and now, then results as they come."),
        "standing::why" => op("why-standing-query", STANDING, "Explain why a standing query has a result, or has none", &[(200, Value(of::<WhyAnswer>))]).takes(&[p::AT_TIME]).graph().body(of::<WhyQuestion>)
            .about("Says on which nodes, edges and properties a result rests, since when each is there, and which record brought it; or how far the pattern gets if there is no result. It is worked out for each request from the graph and its history."),
        "standing::plan" => op("standing-query-plan", STANDING, "Get the dataflow of a standing query", &[(200, Value(of::<DataflowPart>))]).takes(&[p::PLAN_FORMAT]).graph().or_as(&["text/plain", "text/vnd.mermaid"])
            .about("The operators that keep the query up to date, from its results down to the changes of the graph. As JSON, a text tree or a Mermaid drawing, as `format` says."),
        "standing::results" => op("standing-query-results", STANDING, "Follow the results of a standing query, as server-sent events", &[(200, Text("text/event-stream"))]).takes(&[p::SINCE_RESULT, p::WITH_TICK, p::LAST_EVENT]).graph()
            .about("Each event is a `result` or a `cancellation` with an `id` that says where it stands. A client that comes back with the last id misses nothing: while somebody follows the query, and for ten minutes after, the results of the last ten minutes are kept, up to 100,000."),
        "standing::add_output" => op("create-standing-query-output", STANDING, "Add an output to a standing query", &[(201, Empty)]).graph().body(|_| named("Output"))
            .about("The output gets results from now on. A name that is in use is refused."),
        "standing::add_workflow" => op("create-standing-query-output", STANDING, "Add an output to a standing query", &[(201, Empty)]).graph().body(|_| named("Workflow"))
            .about("The output gets results from now on. A name that is in use is refused. If the standing query does not exist the answer is 400."),
        "standing::change_output" => op("replace-standing-query-output", STANDING, "Replace an output of a standing query", &[(200, if v1 { Value(|_| named("Output")) } else { Created(|_| named("Workflow")) })]).graph()
            .body(if v1 { |_| named("Output") } else { |_| named("Workflow") }).about("The new definition goes on where the old one stood: no result is lost, and none is repeated if the old destination says what it has taken. If the new one cannot be opened the old one stays. The answer is the new definition."),
        "standing::remove_output" => op("delete-standing-query-output", STANDING, "Remove an output from a standing query", &[(200, Value(if v1 { |_| named("Output") } else { |_| named("Workflow") }))]).graph()
            .about("Results that it has been handed are delivered first, for up to 5 seconds; what is left is dropped. The answer is its last definition."),
        "standing::propagate" => op("propagate-standing-queries", STANDING, "Report matches that were held back", &[(202, Accepted)]).takes(&[p::INCLUDE_SLEEPING, p::WAKE_UP]).graph()
            .about("Sends the matches that were in the graph when standing queries with `startFrom` `Now` were created, for all standing queries of the graph. Those that are being changed for more than 30 seconds are left out, and the answer is then 503 and names them: ask again."),
        "sockets::results" => op("standing-query-socket", STANDING, "Follow the results of a standing query, over a web socket", &[(101, Empty)]).takes(FOLLOW).graph()
            .about("Each message is a result, as JSON, from now on or from after the one that `since` names. A client that is too slow is disconnected with code 1008."),
        "sockets::tap" => op("sq-raw-tap", STANDING, "Follow the results of a standing query, over a web socket", &[(101, Empty)]).takes(FOLLOW)
            .about("Each message is a result, as JSON, from now on or from after the one that `since` names. A client that is too slow is disconnected with code 1008."),
        "sockets::tap_before" => op("sq-pre-enrichment-tap", STANDING, "Follow an output before its enrichment, over a web socket", &[(101, Empty)])
            .about("Each message is what the enrichment query of the output gets. A client that is too slow misses some."),
        "sockets::tap_after" => op("sq-post-enrichment-tap", STANDING, "Follow what an output delivers, over a web socket", &[(101, Empty)])
            .about("Each message is what the destinations of the output get. A client that is too slow misses some."),

        // Algorithms, namespaces, the explorer's lists, single nodes.
        "algorithms::walk" => op("generate-random-walk", ALGORITHMS, "Take a random walk from a node", &[(200, Value(list::<String>))]).takes(WALK).graph()
            .about("Returns the ids of the nodes that are visited, or for each node what `query` returns. Steps follow edges in either direction, with the probabilities of node2vec. Runs as a query does: it is listed, can be ended, ends when its client leaves, waits for one of `query.running-max` places, and is refused when it holds more than `query.memory-bytes-max`."),
        "algorithms::save" => op("save-random-walks", ALGORITHMS, "Save random walks from every node to a file", &[(202, if v1 { Text("text/plain") } else { Accepted })]).takes(WALKS).graph().body(of::<WalkFile>)
            .about("Answers when the file has been begun; the walks are then written to it in the background, as CSV with one walk per row. It has `.part` behind its name until all walks are in it, and is removed when they cannot be, as when weir stops. Listed with the running queries, and can be ended like them. In v1 the answer is the name of the file."),
        "namespaces::list" => op("list-namespaces", NAMESPACES, "List namespaces", &[(200, Value(list::<String>))])
            .about("The names of all namespaces."),
        "namespaces::create" if v1 => op("create-namespace", NAMESPACES, "Create a namespace", &[(201, Value(of::<bool>)), (200, Value(of::<bool>))]).about("The body is true with 201 if the namespace was created, and false with 200 if it existed before."),
        "namespaces::create" | "namespaces::create_from_body" => {
            let create = op("create-namespace", NAMESPACES, "Create a namespace", &[(201, Value(text)), (204, Empty)]).about("201 if the namespace was created, 204 if it existed before.");
            if handler == "namespaces::create" { create } else { create.body(of::<NewNamespace>) }
        }
        "namespaces::delete" => op("delete-namespace", NAMESPACES, "Delete a namespace", &[(200, Value(if v1 { of::<bool> } else { text }))])
            .about("Deletes the graph with its history, streams and standing queries. The default namespace cannot be deleted."),
        "query_ui::samples" => op("list-sample-queries", STYLE, "List sample queries", &[(200, Value(list::<SampleQuery>))])
            .about("Queries that the explorer offers."),
        "query_ui::set_samples" => op("replace-sample-queries", STYLE, "Replace the list of sample queries", &[(204, Empty)]).body(list::<SampleQuery>)
            .about("The body is the whole new list."),
        "query_ui::quick" => op("list-quick-queries", STYLE, "List quick queries", &[(200, Value(list::<QuickQueryEntry>))])
            .about("The entries of the menu that the explorer shows for a node."),
        "query_ui::set_quick" => op("replace-quick-queries", STYLE, "Replace the list of quick queries", &[(204, Empty)]).body(list::<QuickQueryEntry>)
            .example(quick_queries(family))
            .about("The body is the whole new list."),
        "query_ui::appearances" => op("list-node-appearances", STYLE, "List the appearance rules of nodes", &[(200, Value(list::<NodeAppearance>))])
            .about("How the explorer draws nodes. The first rule that fits a node counts."),
        "query_ui::set_appearances" => op("replace-node-appearances", STYLE, "Replace the appearance rules of nodes", &[(204, Empty)]).body(list::<NodeAppearance>)
            .about("The body is the whole new list."),
        "query_ui::taps" => op("list-tap-queries", STYLE, "List tap queries", &[(200, Value(list::<TapQuery>))])
            .about("Tap queries are stored for clients; weir does not run them."),
        "query_ui::set_taps" => op("replace-tap-queries", STYLE, "Replace the list of tap queries", &[(204, Empty)]).body(list::<TapQuery>)
            .about("The body is the whole new list."),
        "debug::get" => op("get-node", DEBUG, "Get a node", &[(200, Value(of::<DebugNode>))]).takes(LOOK).graph()
            .about("The properties and edges of the node. Every valid id has a node; one without content has neither. A node with more edges than fit into `query.memory-bytes-max`, each counted as 1 KiB, is refused: ask for some of its edges."),
        "debug::put" => op("put-node", DEBUG, "Set properties of a node and add edges", &[(200, Empty)]).takes(LOOK).graph().body(of::<DebugNode>)
            .about("Properties and edges that are not named stay as they are."),
        "debug::delete" => op("delete-node", DEBUG, "Clear a node", &[(200, Empty)]).takes(LOOK).graph()
            .about("Removes all properties, labels and edges of the node."),
        "debug::verbose" => op("get-node-verbose", DEBUG, "Get a node with everything that is known of it", &[(200, Value(if v1 { of::<DebugState> } else { text }))]).takes(LOOK).graph()
            .about("Properties with their types, labels, edges, and the changes of the node. In v2 the answer is this as JSON in a text. A node with more edges than fit into `query.memory-bytes-max`, each counted as 1 KiB, is refused."),
        "debug::property" => op("get-node-property", DEBUG, "Get a property of a node", &[(200, Value(of::<Json>))]).takes(KEYED).graph()
            .about("In v1 a property that does not exist is 404; in v2 it is null."),
        "debug::put_property" => op("put-node-property", DEBUG, "Set a property of a node", &[(200, Empty)]).takes(KEYED).graph().body(of::<Json>).example(json!("Ann"))
            .about("The body is the new value, as JSON."),
        "debug::delete_property" => op("delete-node-property", DEBUG, "Remove a property of a node", &[(200, Empty)]).takes(KEYED).graph()
            .about("A property that does not exist is no error."),
        "debug::edges" => op("list-node-edges", DEBUG, "List the edges of a node", &[(200, Value(list::<HalfEdge>))]).takes(EDGES).graph()
            .about("Edges in both directions, seen from the node. No more are read than are asked for; more than fit into `query.memory-bytes-max`, each counted as 1 KiB, are refused."),
        "debug::put_edges" => op("put-node-edges", DEBUG, "Add edges to a node", &[(200, Empty)]).takes(LOOK).graph().body(list::<HalfEdge>)
            .about("Each edge is written at both of its nodes. One that exists stays."),
        "debug::delete_edges" => op("delete-node-edges", DEBUG, "Remove edges from a node", &[(200, Empty)]).takes(LOOK).graph().body(list::<HalfEdge>)
            .about("Edges that do not exist are ignored."),
        "auth::me" => op("get-me", LOGINS, "Get who you are, and what you may", &[(200, Value(of::<Me>))]),
        "auth::roles" => op("list-roles", LOGINS, "List the roles, and what each may", &[(200, Value(list::<RoleRights>))])
            .about("The table that weir decides by, also where there are no logins."),
        "auth::log_in" => op("log-in", LOGINS, "Log in with a browser", &[(302, Empty)]).takes(&[p::RETURN_TO])
            .about("Sends the browser to the provider, which sends it back to `callback`."),
        "auth::callback" => op("end-login", LOGINS, "End a login", &[(302, Empty)]).takes(&[p::CODE, p::STATE, p::PROVIDER, p::REFUSED])
            .about("Where the provider sends the browser. It gets the cookie of a session, and is led to where it began."),
        "auth::log_out" => op("log-out", LOGINS, "Log out", &[(302, Empty), (204, Empty)])
            .about("Ends the session of the browser, with the web sockets and streams of events that it has opened. `GET` sends it on to the provider, to log out there too; `POST` answers 204."),

        "admin::not_enabled" => op("not-enabled", ELSEWHERE, "Not available in this edition", &[])
            .about("Contexts and stored transformations are not part of weir."),
        _ => return None,
    };
    Some(operation)
}

/// An entry of the menu of nodes, in the words of a family.
fn quick_queries(family: Family) -> Json {
    let word = family.word("Node");
    let sort = if family == Family::Preview { json!({"type": word}) } else { json!(word) };
    json!([{
        "predicate": {"propertyKeys": [], "knownValues": {}, "dbLabel": "Person"},
        "quickQuery": {"name": "Neighbours", "querySuffix": "MATCH (n)--(m) RETURN DISTINCT m", "sort": sort},
    }])
}
