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
const ELSEWHERE: &str = "Other Editions";

/// The groups, in the order in which documents show them.
pub const GROUPS: &[(&str, &str)] = &[
    (SYSTEM, "What runs here, how it is set, what it counts."),
    (INGEST, "Streams of records into a graph."),
    (STANDING, "Patterns whose matches are maintained, and where these go."),
    (ALGORITHMS, "Random walks."),
    (CYPHER, "Questions to a graph, and changes of it."),
    (STYLE, "What the explorer offers and how it draws."),
    (DEBUG, "Single nodes, past Cypher."),
    (NAMESPACES, "Graphs of their own."),
    (PAGES, "For people and tools."),
    (ELSEWHERE, "What belongs to other editions; these routes say so."),
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
const EXPORT: &[Parameter] = &[p::EXPORT_FORMAT, p::AT_TIME, p::TIMEOUT];
const EDGES: &[Parameter] =
    &[p::EDGE_LIMIT, p::EDGE_DIRECTION, p::EDGE_OTHER, p::EDGE_TYPE, p::ONLY_FULL, p::AT_TIME, p::TIMEOUT];
const FOLLOW: &[Parameter] = &[p::SINCE_RESULT, p::WITH_TICK];
const KEYED: &[Parameter] = &[p::KEY, p::AT_TIME, p::TIMEOUT];
const WALK: &[Parameter] = &[p::WALK_LENGTH, p::WALK_QUERY, p::WALK_RETURN, p::WALK_IN_OUT, p::WALK_SEED, p::AT_TIME, p::TIMEOUT];
const WALKS: &[Parameter] = &[
    p::WALK_LENGTH,
    p::WALK_COUNT,
    p::WALK_QUERY,
    p::WALK_RETURN,
    p::WALK_IN_OUT,
    p::WALK_SEED,
    p::PARALLELISM,
    p::AT_TIME,
    p::TIMEOUT,
];

/// The operation of a handler, by its name in the table of routes. None is a row that somebody forgot, which a test finds.
#[rustfmt::skip]
pub fn of_handler(handler: &str, family: Family) -> Option<Operation> {
    use Shape::{Accepted, Created, Empty, Items, Text, Value};
    let v1 = family == Family::V1;
    let text: Named = of::<String>;
    let operation = match handler {
        // Pages and documents.
        "ui::page" => op("live-page", PAGES, "The live page", &[(200, Text("text/html"))]),
        "ui::state" => op("live-state", PAGES, "What the live page begins with", &[(200, Value(of::<LiveState>))]),
        "ui::events" => op("live-events", PAGES, "What the live page is told, as server-sent events", &[(200, Text("text/event-stream"))]),
        "ui::explorer" => op("explorer", PAGES, "The explorer: the graph, asked and drawn", &[(200, Text("text/html"))]),
        "ui::explorer_file" => op("explorer-file", PAGES, "A script or the style of the explorer", &[(200, Text("text/javascript"))]).or_as(&["text/css"]),
        "ui::streams" => op("streams-page", PAGES, "Streams and standing queries, seen and managed", &[(200, Text("text/html"))]),
        "ui::streams_file" => op("streams-page-file", PAGES, "A script or the style of the page of streams", &[(200, Text("text/javascript"))]).or_as(&["text/css"]),
        "documents::prometheus" => op("prometheus", PAGES, "Figures for Prometheus", &[(200, Text("text/plain"))]),
        "documents::openapi_v1" => op("openapi-v1", PAGES, "The description of v1, in OpenAPI 3.0", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::openapi_preview" => op("openapi-preview", PAGES, "The description of v2 in kebab-case, in OpenAPI 3.1", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::openapi" => op("openapi", PAGES, "The description of v2 as of today, in OpenAPI 3.1", &[(200, Value(map::<Json>))]).takes(&[p::RELATIVE]),
        "documents::page" | "documents::page_v1" => op("reference", PAGES, "These descriptions as a page to read and to try", &[(200, Text("text/html"))]),

        // Administration.
        "admin::build_info" => op("get-system-info", SYSTEM, "What runs here", &[(200, Value(of::<BuildInfo>))]),
        "admin::config" => op("get-config", SYSTEM, "The configuration in force", &[(200, Value(of::<Configuration>))])
            .about("Secrets are hidden. `weir config` shows the same with where each value came from."),
        "admin::garbage_collection" => op("collect-garbage", SYSTEM, "Ask for memory to be given back", &[(202, Accepted)])
            .about("Memory is given back as it becomes free, so nothing is left to do."),
        "admin::graph_hash" => op("get-graph-hashcode", SYSTEM, "A number that equal graphs share", &[(200, Value(of::<GraphHash>))]).takes(READ).graph(),
        "admin::graph_sizes" => op("get-graph-sizes", SYSTEM, "Nodes by label, edges by type, and bytes", &[(200, Value(of::<GraphSizes>))]).takes(&[p::TIMEOUT]).graph()
            .about("Counted exactly, in one pass over the graph, which ends with the limit of time."),
        "admin::liveness" => op("get-liveness", SYSTEM, "Whether weir lives", &[(204, Empty)]),
        "admin::readiness" => op("get-readiness", SYSTEM, "Whether weir takes requests; 503 while it does not", &[(204, Empty)]),
        "admin::metadata" => op("get-metadata", SYSTEM, "What is stored beside the graphs", &[(200, Value(map::<String>))]).about("In v1 as base64."),
        "logs::level" => op("get-log-level", SYSTEM, "What is logged", &[(200, Value(of::<Logging>))]),
        "logs::set_level" => op("set-log-level", SYSTEM, "Log more or less from now on", &[(200, Value(of::<Logging>))]).body(of::<Logging>)
            .about("Until weir ends; `log.level` says it for good."),
        "admin::metrics" => op("get-metrics", SYSTEM, "Counters, timers and gauges", &[(200, Value(of::<Figures>))]).takes(&[p::MEMBER]),
        "admin::request_sleep" => op("sleep-node", SYSTEM, "Ask a node to sleep", &[(202, Accepted)]).about("Nodes do not sleep here; the id is looked at.").graph(),
        "admin::shutdown" => op("initiate-shutdown", SYSTEM, "Stop weir", &[(202, Accepted)]).about("What was read is written and what was found is delivered before it ends."),
        "admin::status" => op("get-status", SYSTEM, "The members of the cluster", &[(200, Value(of::<ClusterStatus>))]),
        "admin::usage" => op("get-usage", SYSTEM, "What each namespace has taken in", &[(200, Value(of::<Usage>))]),
        "admin::backpressure" => op("get-backpressure", SYSTEM, "Where records, results and writes stand still", &[(200, Value(list::<Pressure>))]),
        "transfer::back_up" => op("back-up", SYSTEM, "A backup of everything, or of what has come since another", &[(200, Text("application/octet-stream"))]).takes(&[p::SINCE, p::LEAVE_OUT])
            .about("What `weir backup --url` asks for and `weir restore` reads."),
        "transfer::export" => op("export-graph", SYSTEM, "A graph as text or as a table", &[(200, Text("application/x-ndjson"))]).takes(EXPORT).graph().or_as(&["text/plain", "application/vnd.apache.parquet"])
            .about("JSON Lines, or Cypher as `text/plain`."),
        "transfer::import" => op("import-graph", SYSTEM, "Add what was exported to a graph", &[(200, Value(of::<Moved>))]).takes(&[p::FORMAT, p::LINE]).graph().body(text)
            .about("The body is JSON Lines, or Cypher."),
        "shards::get" => op("get-shard-sizes", SYSTEM, "Limits of nodes in memory", &[(200, Value(map::<ShardLimit>))]).takes(&[p::MEMBER]).about("Kept and told; nothing follows from them."),
        "shards::set" => op("update-shard-sizes", SYSTEM, "Set limits of nodes in memory", &[(200, Value(map::<ShardLimit>))])
            .about("Shards that are not named keep their limits. Nothing follows from them.").body(map::<ShardLimit>)
            .example(json!({"0": {"softLimit": 10000, "hardLimit": 75000}})),

        // Queries.
        "query::table" => op("query-cypher", CYPHER, "Run a query and get its rows", &[(200, Value(of::<Table>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .about("EXPLAIN and PROFILE before a query give how it would run, and how it ran. The text alone may be sent as `text/plain`."),
        "query::nodes" => op("query-cypher-nodes", CYPHER, "Run a query and get the nodes in its rows", &[(200, Value(list::<UiNode>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .example(json!({"text": "MATCH (n) RETURN n LIMIT 10"})),
        "query::edges" => op("query-cypher-edges", CYPHER, "Run a query and get the edges in its rows", &[(200, Value(list::<UiEdge>))]).takes(READ).graph().body(of::<CypherQuestion>)
            .example(json!({"text": "MATCH ()-[e]->() RETURN e LIMIT 10"})),
        "gremlin::values" => op("query-gremlin", CYPHER, "Run a traversal and get its values", &[(200, Value(list::<Json>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated()
            .about("Gremlin, for old clients; a subset that reads. Ask in Cypher instead."),
        "gremlin::nodes" => op("query-gremlin-nodes", CYPHER, "Run a traversal and get the nodes it leads to", &[(200, Value(list::<UiNode>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated(),
        "gremlin::edges" => op("query-gremlin-edges", CYPHER, "Run a traversal and get the edges it leads to", &[(200, Value(list::<UiEdge>))]).takes(READ).graph().body(of::<GremlinQuestion>).deprecated()
            .example(json!({"text": "g.V().limit(10).outE()"})),
        "query::user_defined" => op("load-user-defined", CYPHER, "Load functions and procedures", &if v1 { [(200, Empty)] } else { [(200, Value(list::<String>))] }).body(list::<String>).example(json!([]))
            .about("They come with weir, so only an empty list is taken."),
        "running::list" => op("list-running-queries", CYPHER, "The queries that run", &[(200, Items(of::<RunningQuery>))]),
        "running::cancel" => op("cancel-query", CYPHER, "End a query", &[(200, Value(of::<RunningQuery>))]),
        "sockets::language" => op("lsp-websocket", CYPHER, "A language server for editors: JSON-RPC over a web socket", &[(101, Empty)]).graph()
            .about("Completion, hover, diagnostics, semantic tokens: LSP 3.17, one message a frame."),
        "sockets::query" => op("query-websocket", CYPHER, "A web socket that takes many queries", &[(101, Empty)]).graph(),

        // Streams.
        "ingest::list" if v1 => op("list-ingests", INGEST, "All streams, by name", &[(200, Value(map::<StreamState>))]).graph(),
        "ingest::list" => op("list-ingests", INGEST, "All streams", &[(200, Items(of::<Stream>))]).takes(&[p::MEMBER]).graph(),
        "ingest::create" => op("create-ingest", INGEST, "Create a stream", &[(200, Empty)]).graph().body(|_| named("IngestBody")),
        "ingest::create_named" => op("create-ingest", INGEST, "Create a stream", &[(201, Created(of::<Stream>))]).takes(&[p::MEMBER]).graph().body(|_| named("IngestBody")),
        "ingest::get" => op("get-ingest-status", INGEST, "A stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph()
            .about("In v2 a handshake of a web socket on the same path sends records to a stream whose source is `WebSocketFileUpload`."),
        "ingest::push" => op("push-records", INGEST, "Hand in records to a stream whose source is HttpPush", &[(200, Value(of::<PushedRecords>))]).takes(&[p::IDEMPOTENCY_KEY]).graph()
            .body(of::<Json>).about("Answered when the records are durable. A list of JSON is its elements, `application/x-ndjson` and `text/plain` are cut into lines, `application/octet-stream` is one record; `Content-Encoding` may be gzip, deflate or zstd. While the graph is behind or the stream is paused the answer is 503 with `Retry-After`."),
        "ingest::delete" => op("delete-ingest", INGEST, "Stop and forget a stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph().about("Answers with the stream as it ended."),
        "ingest::pause" => op("pause-ingest", INGEST, "Pause a stream", &[(200, Value(of::<Stream>))]).takes(&[p::MEMBER]).graph(),
        "ingest::start" => op("resume-ingest", INGEST, "Let a stream go on", &[(200, Value(of::<Stream>))])
            .about("Also one that failed, where it stood. One that is completed does not go on.")
            .takes(&[p::MEMBER])
            .graph(),

        // Standing queries.
        "standing::list" => op("list-standing-queries", STANDING, "All standing queries", &[(200, Items(of::<Standing>))]).graph(),
        "standing::create" => op("create-standing-query", STANDING, "Create a standing query", &[(201, Empty)]).graph().body(of::<StandingBody>),
        "standing::create_named" => op("create-standing-query", STANDING, "Create a standing query", &[(201, Created(of::<Standing>))])
            .takes(&[p::HASHED, p::PROPAGATE_TO, p::WAKE_UP]).graph().body(of::<NamedStandingBody>),
        "standing::get" => op("get-standing-query-status", STANDING, "A standing query", &[(200, Value(of::<Standing>))]).graph(),
        "standing::delete" => op("delete-standing-query", STANDING, "Forget a standing query", &[(200, Value(of::<Standing>))]).graph().about("Answers with the query as it was."),
        "standing::replace" => op("replace-standing-query", STANDING, "Give a standing query another pattern", &[(200, Created(of::<Standing>))]).graph().body(of::<StandingReplacement>)
            .about("The new one catches up beside the old one and takes its place at one tick, at which the difference of their answers comes. Answers when that is done."),
        "standing::pause" => op("pause-standing-query", STANDING, "Pause a standing query", &[(200, Value(of::<Standing>))]).graph()
            .about("Results from now on are held back, summed up: what comes and goes meanwhile leaves nothing."),
        "standing::resume" => op("resume-standing-query", STANDING, "Let a standing query go on", &[(200, Value(of::<Standing>))]).graph()
            .about("The difference between its answer at the pause and its answer now comes at once, then what comes."),
        "standing::why" => op("why-standing-query", STANDING, "Why a standing query has a result, or has none", &[(200, Value(of::<WhyAnswer>))]).takes(&[p::AT_TIME]).graph().body(of::<WhyQuestion>)
            .about("Worked out from the graph as of a moment and its history, when it is asked for."),
        "standing::plan" => op("standing-query-plan", STANDING, "The dataflow of a standing query", &[(200, Value(of::<DataflowPart>))]).takes(&[p::PLAN_FORMAT]).graph().or_as(&["text/plain", "text/vnd.mermaid"])
            .about("From the results down to the changes of the graph it begins with. As `text` a tree, as `mermaid` a drawing."),
        "standing::results" => op("standing-query-results", STANDING, "Results from now on, or from behind one, as server-sent events", &[(200, Text("text/event-stream"))]).takes(&[p::SINCE_RESULT, p::WITH_TICK, p::LAST_EVENT]).graph()
            .about("The id of each event says where it stands among the results. Those of the last ten minutes, up to 100,000, are kept while somebody follows the query and ten minutes beyond."),
        "standing::add_output" => op("create-standing-query-output", STANDING, "Add an output", &[(201, Empty)]).graph().body(|_| named("Output")),
        "standing::add_workflow" => op("create-standing-query-output", STANDING, "Add an output", &[(201, Empty)]).graph().body(|_| named("Workflow"))
            .about("A standing query that is not there is a mistake of the request: 400."),
        "standing::change_output" => op("replace-standing-query-output", STANDING, "Give an output another definition", &[(200, if v1 { Value(|_| named("Output")) } else { Created(|_| named("Workflow")) })]).graph()
            .body(if v1 { |_| named("Output") } else { |_| named("Workflow") }).about("It goes on where the one before it stood: no result is lost or repeated. Answers with the new definition."),
        "standing::remove_output" => op("delete-standing-query-output", STANDING, "Remove an output", &[(200, Value(if v1 { |_| named("Output") } else { |_| named("Workflow") }))]).graph()
            .about("Answers with the output as it was."),
        "standing::propagate" => op("propagate-standing-queries", STANDING, "Report what matched when queries were created", &[(202, Accepted)]).takes(&[p::INCLUDE_SLEEPING, p::WAKE_UP]).graph(),
        "sockets::results" => op("standing-query-socket", STANDING, "Results from now on, or from behind one, over a web socket", &[(101, Empty)]).takes(FOLLOW).graph(),
        "sockets::tap" => op("sq-raw-tap", STANDING, "Results from now on, or from behind one, over a web socket", &[(101, Empty)]).takes(FOLLOW),
        "sockets::tap_before" => op("sq-pre-enrichment-tap", STANDING, "What an output enriches, over a web socket", &[(101, Empty)]),
        "sockets::tap_after" => op("sq-post-enrichment-tap", STANDING, "What destinations get, over a web socket", &[(101, Empty)]),

        // Algorithms, namespaces, the explorer's lists, single nodes.
        "algorithms::walk" => op("generate-random-walk", ALGORITHMS, "A random walk from a node", &[(200, Value(list::<String>))]).takes(WALK).graph(),
        "algorithms::save" => op("save-random-walks", ALGORITHMS, "Save random walks from every node", &[(202, if v1 { Text("text/plain") } else { Accepted })]).takes(WALKS).graph().body(of::<WalkFile>)
            .about("Answers when the file is there; the walks follow."),
        "namespaces::list" => op("list-namespaces", NAMESPACES, "All namespaces", &[(200, Value(list::<String>))]),
        "namespaces::create" if v1 => op("create-namespace", NAMESPACES, "Create a namespace", &[(201, Value(of::<bool>)), (200, Value(of::<bool>))]).about("200 when it is there."),
        "namespaces::create" | "namespaces::create_from_body" => {
            let create = op("create-namespace", NAMESPACES, "Create a namespace", &[(201, Value(text)), (204, Empty)]).about("204 when it is there.");
            if handler == "namespaces::create" { create } else { create.body(of::<NewNamespace>) }
        }
        "namespaces::delete" => op("delete-namespace", NAMESPACES, "Delete a namespace with everything in it", &[(200, Value(if v1 { of::<bool> } else { text }))]),
        "query_ui::samples" => op("list-sample-queries", STYLE, "Sample queries", &[(200, Value(list::<SampleQuery>))]),
        "query_ui::set_samples" => op("replace-sample-queries", STYLE, "Replace the sample queries", &[(204, Empty)]).body(list::<SampleQuery>),
        "query_ui::quick" => op("list-quick-queries", STYLE, "Quick queries", &[(200, Value(list::<QuickQueryEntry>))]),
        "query_ui::set_quick" => op("replace-quick-queries", STYLE, "Replace the quick queries", &[(204, Empty)]).body(list::<QuickQueryEntry>)
            .example(quick_queries(family)),
        "query_ui::appearances" => op("list-node-appearances", STYLE, "How nodes are drawn", &[(200, Value(list::<NodeAppearance>))]),
        "query_ui::set_appearances" => op("replace-node-appearances", STYLE, "Replace how nodes are drawn", &[(204, Empty)]).body(list::<NodeAppearance>),
        "query_ui::taps" => op("list-tap-queries", STYLE, "Tap queries", &[(200, Value(list::<TapQuery>))]),
        "query_ui::set_taps" => op("replace-tap-queries", STYLE, "Replace the tap queries", &[(204, Empty)]).body(list::<TapQuery>),
        "debug::get" => op("get-node", DEBUG, "What is known of a node", &[(200, Value(of::<DebugNode>))]).takes(READ).graph(),
        "debug::put" => op("put-node", DEBUG, "Set properties and add edges", &[(200, Empty)]).takes(READ).graph().body(of::<DebugNode>),
        "debug::delete" => op("delete-node", DEBUG, "Remove the properties and edges of a node", &[(200, Empty)]).takes(READ).graph(),
        "debug::verbose" => op("get-node-verbose", DEBUG, "What is known of a node, with the kinds of values", &[(200, Value(if v1 { of::<DebugState> } else { text }))]).takes(READ).graph(),
        "debug::property" => op("get-node-property", DEBUG, "A property", &[(200, Value(of::<Json>))]).takes(KEYED).graph(),
        "debug::put_property" => op("put-node-property", DEBUG, "Set a property", &[(200, Empty)]).takes(KEYED).graph().body(of::<Json>).example(json!("Ann")),
        "debug::delete_property" => op("delete-node-property", DEBUG, "Remove a property", &[(200, Empty)]).takes(KEYED).graph(),
        "debug::edges" => op("list-node-edges", DEBUG, "The edges of a node", &[(200, Value(list::<HalfEdge>))]).takes(EDGES).graph(),
        "debug::put_edges" => op("put-node-edges", DEBUG, "Add edges", &[(200, Empty)]).takes(READ).graph().body(list::<HalfEdge>),
        "debug::delete_edges" => op("delete-node-edges", DEBUG, "Remove edges", &[(200, Empty)]).takes(READ).graph().body(list::<HalfEdge>),
        "admin::not_enabled" => op("not-enabled", ELSEWHERE, "Not in this edition", &[]),
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
