//! The table of routes: every one there is, by family and group, with what it takes, what its caller must be allowed to, and
//! its handler. Where several rows fit a path the first is taken, so a row with a verb stands before one without.

use warp::http::Method;

use super::reply::JSON;
use super::{
    Capability, Route, Takes, admin, algorithms, debug, documents, gremlin, ingest, logs, namespaces, query, query_ui, running,
    shards, sockets, standing, transfer, ui,
};

/// What begins so names its graph in the path.
pub const OF_GRAPH: &str = "/api/v2/graph/{graphName}";

/// What a route gives that turns the connection into a web socket.
pub const SOCKET: &str = "websocket";

const ANY: &str = "";

macro_rules! route {
    ($method:ident $path:literal, $takes:ident, $capability:ident, $gives:expr, $handler:path) => {
        Route {
            method: Method::$method,
            path: $path,
            takes: Takes::$takes,
            capability: Capability::$capability,
            gives: $gives,
            name: stringify!($handler),
            handler: |app, request| Box::pin($handler(app, request)),
        }
    };
}

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    // Pages, documents and figures.
    route!(GET "/", Nothing, Open, ANY, ui::page),
    route!(GET "/live/state", Nothing, Open, JSON, ui::state),
    route!(GET "/live/events", Nothing, Open, ANY, ui::events),
    route!(GET "/metrics", Nothing, Open, ANY, documents::prometheus),
    route!(GET "/docs", Nothing, Open, ANY, documents::page),
    route!(GET "/v1docs", Nothing, Open, ANY, documents::page_v1),
    route!(GET "/docs/openapi.json", Nothing, Open, JSON, documents::openapi_v1),
    route!(GET "/docs/openapi-preview.json", Nothing, Open, JSON, documents::openapi_preview),
    route!(GET "/openapi.json", Nothing, Open, JSON, documents::openapi),
    route!(GET "/api/v2/openapi.json", Nothing, Open, JSON, documents::openapi),
    //
    // v1: administration.
    route!(GET "/api/v1/admin/build-info", Nothing, SystemRead, JSON, admin::build_info),
    route!(GET "/api/v1/admin/config", Nothing, SystemRead, JSON, admin::config),
    route!(POST "/api/v1/admin/garbage-collection", Nothing, SystemWrite, ANY, admin::garbage_collection),
    route!(GET "/api/v1/admin/graph-hash-code", Nothing, GraphQuery, JSON, admin::graph_hash),
    route!(GET "/api/v1/admin/ingest-usage", Nothing, SystemRead, JSON, admin::usage),
    route!(GET "/api/v1/admin/liveness", Nothing, Open, ANY, admin::liveness),
    route!(GET "/api/v1/admin/meta-data", Nothing, SystemRead, JSON, admin::metadata),
    route!(GET "/api/v1/admin/metrics", Nothing, SystemRead, JSON, admin::metrics),
    route!(GET "/api/v1/admin/readiness", Nothing, Open, ANY, admin::readiness),
    route!(POST "/api/v1/admin/request-node-sleep/{id}", Nothing, GraphDebug, ANY, admin::request_sleep),
    route!(POST "/api/v1/admin/shutdown", Nothing, SystemWrite, ANY, admin::shutdown),
    route!(GET "/api/v1/admin/status", Nothing, SystemRead, JSON, admin::status),
    route!(POST "/api/v1/admin/shard-sizes", Data, SystemWrite, JSON, shards::set),
    //
    // Of weir's own: what is logged; everything, out and in.
    route!(GET "/api/v1/admin/log-level", Nothing, SystemRead, JSON, logs::level),
    route!(PUT "/api/v1/admin/log-level", Data, SystemWrite, JSON, logs::set_level),
    route!(GET "/api/v1/admin/backup", Nothing, SystemWrite, ANY, transfer::back_up),
    route!(GET "/api/v1/admin/export", Nothing, GraphQuery, ANY, transfer::export),
    route!(POST "/api/v1/admin/import", Query, GraphQuery, JSON, transfer::import),
    //
    // v1: queries.
    route!(POST "/api/v1/query/cypher", Query, GraphQuery, JSON, query::table),
    route!(POST "/api/v1/query/cypher/nodes", Query, GraphQuery, JSON, query::nodes),
    route!(POST "/api/v1/query/cypher/edges", Query, GraphQuery, JSON, query::edges),
    route!(POST "/api/v1/query/cypher/user-defined", Data, SystemWrite, ANY, query::user_defined),
    route!(POST "/api/v1/query/gremlin", Query, GraphQuery, JSON, gremlin::values),
    route!(POST "/api/v1/query/gremlin/nodes", Query, GraphQuery, JSON, gremlin::nodes),
    route!(POST "/api/v1/query/gremlin/edges", Query, GraphQuery, JSON, gremlin::edges),
    route!(GET "/api/v1/query/cypher/running", Nothing, GraphQuery, JSON, running::list),
    route!(DELETE "/api/v1/query/cypher/running/{id}", Nothing, GraphQuery, JSON, running::cancel),
    route!(GET "/api/v1/query", Nothing, GraphQuery, SOCKET, sockets::query),
    route!(GET "/api/v1/lsp", Nothing, GraphQuery, SOCKET, sockets::language),
    //
    // v1: ingest streams.
    route!(GET "/api/v1/ingest", Nothing, IngestRead, JSON, ingest::list),
    route!(POST "/api/v1/ingest/{name}", Data, IngestWrite, ANY, ingest::create),
    route!(GET "/api/v1/ingest/{name}", Nothing, IngestRead, JSON, ingest::get),
    route!(DELETE "/api/v1/ingest/{name}", Nothing, IngestWrite, JSON, ingest::delete),
    route!(PUT "/api/v1/ingest/{name}/pause", Nothing, IngestWrite, JSON, ingest::pause),
    route!(PUT "/api/v1/ingest/{name}/start", Nothing, IngestWrite, JSON, ingest::start),
    //
    // v1: standing queries. One path is a page and a web socket; a request to be upgraded goes to the socket.
    route!(GET "/api/v1/query/standing", Nothing, StandingRead, JSON, standing::list),
    route!(POST "/api/v1/query/standing/control/propagate", Nothing, StandingWrite, ANY, standing::propagate),
    route!(POST "/api/v1/query/standing/{name}", Data, StandingWrite, ANY, standing::create),
    route!(GET "/api/v1/query/standing/{name}", Nothing, StandingRead, SOCKET, sockets::results),
    route!(GET "/api/v1/query/standing/{name}", Nothing, StandingRead, JSON, standing::get),
    route!(PUT "/api/v1/query/standing/{name}", Data, StandingWrite, JSON, standing::replace),
    route!(DELETE "/api/v1/query/standing/{name}", Nothing, StandingWrite, JSON, standing::delete),
    route!(GET "/api/v1/query/standing/{name}/results", Nothing, StandingRead, ANY, standing::results),
    route!(PUT "/api/v1/query/standing/{name}/pause", Nothing, StandingWrite, JSON, standing::pause),
    route!(PUT "/api/v1/query/standing/{name}/start", Nothing, StandingWrite, JSON, standing::resume),
    route!(POST "/api/v1/query/standing/{name}/why", Data, StandingRead, JSON, standing::why),
    route!(GET "/api/v1/query/standing/{name}/plan", Nothing, StandingRead, JSON, standing::plan),
    route!(POST "/api/v1/query/standing/{name}/output/{output}", Data, StandingWrite, ANY, standing::add_output),
    route!(PUT "/api/v1/query/standing/{name}/output/{output}", Data, StandingWrite, JSON, standing::change_output),
    route!(DELETE "/api/v1/query/standing/{name}/output/{output}", Nothing, StandingWrite, JSON, standing::remove_output),
    //
    // v1: algorithms, namespaces, the explorer's lists, single nodes.
    route!(GET "/api/v1/algorithm/walk/{id}", Nothing, GraphQuery, JSON, algorithms::walk),
    route!(PUT "/api/v1/algorithm/walk", Data, GraphQuery, ANY, algorithms::save),
    route!(GET "/api/v1/namespace", Nothing, NamespaceRead, JSON, namespaces::list),
    route!(PUT "/api/v1/namespace/{namespace}", Nothing, NamespaceWrite, JSON, namespaces::create),
    route!(DELETE "/api/v1/namespace/{namespace}", Nothing, NamespaceWrite, JSON, namespaces::delete),
    route!(GET "/api/v1/query-ui/sample-queries", Nothing, StyleRead, JSON, query_ui::samples),
    route!(PUT "/api/v1/query-ui/sample-queries", Data, StyleWrite, ANY, query_ui::set_samples),
    route!(GET "/api/v1/query-ui/quick-queries", Nothing, StyleRead, JSON, query_ui::quick),
    route!(PUT "/api/v1/query-ui/quick-queries", Data, StyleWrite, ANY, query_ui::set_quick),
    route!(GET "/api/v1/query-ui/node-appearances", Nothing, StyleRead, JSON, query_ui::appearances),
    route!(PUT "/api/v1/query-ui/node-appearances", Data, StyleWrite, ANY, query_ui::set_appearances),
    route!(GET "/api/v1/debug/{id}", Nothing, GraphDebug, JSON, debug::get),
    route!(PUT "/api/v1/debug/{id}", Data, GraphDebug, ANY, debug::put),
    route!(DELETE "/api/v1/debug/{id}", Nothing, GraphDebug, ANY, debug::delete),
    route!(GET "/api/v1/debug/{id}/verbose", Nothing, GraphDebug, JSON, debug::verbose),
    route!(GET "/api/v1/debug/{id}/props", Nothing, GraphDebug, JSON, debug::property),
    route!(PUT "/api/v1/debug/{id}/props", Data, GraphDebug, ANY, debug::put_property),
    route!(DELETE "/api/v1/debug/{id}/props", Nothing, GraphDebug, ANY, debug::delete_property),
    route!(GET "/api/v1/debug/{id}/edges", Nothing, GraphDebug, JSON, debug::edges),
    route!(GET "/api/v1/debug/{id}/edges/half", Nothing, GraphDebug, JSON, debug::edges),
    route!(PUT "/api/v1/debug/{id}/edges", Data, GraphDebug, ANY, debug::put_edges),
    route!(DELETE "/api/v1/debug/{id}/edges", Data, GraphDebug, ANY, debug::delete_edges),
    //
    // v2, preview: administration.
    route!(GET "/api/v2/admin/system-info", Nothing, SystemRead, JSON, admin::build_info),
    route!(GET "/api/v2/admin/config", Nothing, SystemRead, JSON, admin::config),
    route!(POST "/api/v2/admin/garbage-collection", Nothing, SystemWrite, ANY, admin::garbage_collection),
    route!(GET "/api/v2/admin/graph-hash-code", Nothing, GraphQuery, JSON, admin::graph_hash),
    route!(GET "/api/v2/admin/license-usage", Nothing, SystemRead, JSON, admin::usage),
    route!(GET "/api/v2/admin/liveness", Nothing, Open, ANY, admin::liveness),
    route!(GET "/api/v2/admin/metadata", Nothing, SystemRead, JSON, admin::metadata),
    route!(GET "/api/v2/admin/metrics", Nothing, SystemRead, JSON, admin::metrics),
    route!(GET "/api/v2/admin/readiness", Nothing, Open, ANY, admin::readiness),
    route!(POST "/api/v2/admin/nodes/{id}/request-sleep", Nothing, GraphDebug, ANY, admin::request_sleep),
    route!(GET "/api/v2/admin/roles", Nothing, SystemRead, ANY, admin::not_enabled),
    route!(GET "/api/v2/admin/shards/size-limits", Nothing, SystemRead, JSON, shards::get),
    route!(POST "/api/v2/admin/shutdown", Nothing, SystemWrite, ANY, admin::shutdown),
    route!(GET "/api/v2/admin/status", Nothing, SystemRead, JSON, admin::status),
    route!(GET "/api/v2/admin/log-level", Nothing, SystemRead, JSON, logs::level),
    route!(PUT "/api/v2/admin/log-level", Data, SystemWrite, JSON, logs::set_level),
    route!(POST "/api/v2/admin/shards/size-limits", Data, SystemWrite, JSON, shards::set),
    //
    // v2, preview: queries.
    route!(POST "/api/v2/cypher-queries/query-graph", Query, GraphQuery, JSON, query::table),
    route!(POST "/api/v2/cypher-queries/query-nodes", Query, GraphQuery, JSON, query::nodes),
    route!(POST "/api/v2/cypher-queries/query-edges", Query, GraphQuery, JSON, query::edges),
    route!(POST "/api/v2/cypher-queries/user-defined", Data, SystemWrite, ANY, query::user_defined),
    route!(GET "/api/v2/cypher-queries/running", Nothing, GraphQuery, JSON, running::list),
    route!(DELETE "/api/v2/cypher-queries/running/{id}", Nothing, GraphQuery, JSON, running::cancel),
    route!(GET "/api/v2/query/ws", Nothing, GraphQuery, SOCKET, sockets::query),
    //
    // v2, preview: ingest streams and standing queries.
    route!(GET "/api/v2/ingests", Nothing, IngestRead, JSON, ingest::list),
    route!(POST "/api/v2/ingests", Data, IngestWrite, JSON, ingest::create_named),
    route!(GET "/api/v2/ingests/{name}", Nothing, IngestWrite, SOCKET, sockets::upload),
    route!(GET "/api/v2/ingests/{name}", Nothing, IngestRead, JSON, ingest::get),
    route!(DELETE "/api/v2/ingests/{name}", Nothing, IngestWrite, JSON, ingest::delete),
    route!(POST "/api/v2/ingests/{name}/pause", Nothing, IngestWrite, JSON, ingest::pause),
    route!(POST "/api/v2/ingests/{name}/start", Nothing, IngestWrite, JSON, ingest::start),
    route!(GET "/api/v2/standing-queries", Nothing, StandingRead, JSON, standing::list),
    route!(POST "/api/v2/standing-queries", Data, StandingWrite, JSON, standing::create_named),
    route!(PUT "/api/v2/standing-queries/control/propagate", Nothing, StandingWrite, ANY, standing::propagate),
    route!(GET "/api/v2/standing-queries/{name}", Nothing, StandingRead, JSON, standing::get),
    route!(PUT "/api/v2/standing-queries/{name}", Data, StandingWrite, JSON, standing::replace),
    route!(DELETE "/api/v2/standing-queries/{name}", Nothing, StandingWrite, JSON, standing::delete),
    route!(POST "/api/v2/standing-queries/{name}/pause", Nothing, StandingWrite, JSON, standing::pause),
    route!(POST "/api/v2/standing-queries/{name}/start", Nothing, StandingWrite, JSON, standing::resume),
    route!(POST "/api/v2/standing-queries/{name}/why", Data, StandingRead, JSON, standing::why),
    route!(GET "/api/v2/standing-queries/{name}/plan", Nothing, StandingRead, JSON, standing::plan),
    route!(POST "/api/v2/standing-queries/{name}/outputs", Data, StandingWrite, ANY, standing::add_workflow),
    route!(PUT "/api/v2/standing-queries/{name}/outputs/{output}", Data, StandingWrite, JSON, standing::change_output),
    route!(DELETE "/api/v2/standing-queries/{name}/outputs/{output}", Nothing, StandingWrite, JSON, standing::remove_output),
    //
    // v2, preview: algorithms, namespaces, the explorer's lists, what belongs to other editions.
    route!(POST "/api/v2/algorithm/nodes/{id}/walk", Nothing, GraphQuery, JSON, algorithms::walk),
    route!(POST "/api/v2/algorithm/save-walk", Data, GraphQuery, ANY, algorithms::save),
    route!(GET "/api/v2/namespaces", Nothing, NamespaceRead, JSON, namespaces::list),
    route!(POST "/api/v2/namespaces", Data, NamespaceWrite, ANY, namespaces::create_from_body),
    route!(PUT "/api/v2/namespaces/{namespace}", Nothing, NamespaceWrite, ANY, namespaces::create),
    route!(DELETE "/api/v2/namespaces/{namespace}", Nothing, NamespaceWrite, JSON, namespaces::delete),
    route!(GET "/api/v2/query-ui/sample-queries", Nothing, StyleRead, JSON, query_ui::samples),
    route!(PUT "/api/v2/query-ui/sample-queries", Data, StyleWrite, ANY, query_ui::set_samples),
    route!(GET "/api/v2/query-ui/quick-queries", Nothing, StyleRead, JSON, query_ui::quick),
    route!(PUT "/api/v2/query-ui/quick-queries", Data, StyleWrite, ANY, query_ui::set_quick),
    route!(GET "/api/v2/query-ui/node-appearances", Nothing, StyleRead, JSON, query_ui::appearances),
    route!(PUT "/api/v2/query-ui/node-appearances", Data, StyleWrite, ANY, query_ui::set_appearances),
    route!(GET "/api/v2/auth/me", Nothing, Open, ANY, admin::not_enabled),
    route!(GET "/api/v2/auth/login", Nothing, Open, ANY, admin::not_enabled),
    route!(GET "/api/v2/auth/callback", Nothing, Open, ANY, admin::not_enabled),
    route!(GET "/api/v2/contexts/{context}", Nothing, Open, ANY, admin::not_enabled),
    route!(DELETE "/api/v2/contexts/{context}", Nothing, Open, ANY, admin::not_enabled),
    route!(POST "/api/v2/contexts/{context}/observations", Nothing, Open, ANY, admin::not_enabled),
    route!(POST "/api/v2/contexts/{context}/observations/bulk", Nothing, Open, ANY, admin::not_enabled),
    route!(DELETE "/api/v2/contexts/{context}/observations", Nothing, Open, ANY, admin::not_enabled),
    route!(POST "/api/v2/transformations", Nothing, Open, ANY, admin::not_enabled),
    route!(POST "/api/v2/transformations/test", Nothing, Open, ANY, admin::not_enabled),
    route!(GET "/api/v2/transformations", Nothing, Open, ANY, admin::not_enabled),
    route!(GET "/api/v2/transformations/{transformation}", Nothing, Open, ANY, admin::not_enabled),
    route!(PUT "/api/v2/transformations/{transformation}", Nothing, Open, ANY, admin::not_enabled),
    route!(DELETE "/api/v2/transformations/{transformation}", Nothing, Open, ANY, admin::not_enabled),
    //
    // v2, today: the system.
    route!(GET "/api/v2/lsp", Nothing, GraphQuery, SOCKET, sockets::language),
    route!(GET "/api/v2/system/systemInfo", Nothing, SystemRead, JSON, admin::build_info),
    route!(GET "/api/v2/system/config", Nothing, SystemRead, JSON, admin::config),
    route!(GET "/api/v2/system/liveness", Nothing, Open, ANY, admin::liveness),
    route!(GET "/api/v2/system/readiness", Nothing, Open, ANY, admin::readiness),
    route!(GET "/api/v2/system/metadata", Nothing, SystemRead, JSON, admin::metadata),
    route!(GET "/api/v2/system/metrics", Nothing, SystemRead, JSON, admin::metrics),
    route!(GET "/api/v2/system/backpressure", Nothing, SystemRead, JSON, admin::backpressure),
    route!(GET "/api/v2/system/status", Nothing, SystemRead, JSON, admin::status),
    route!(GET "/api/v2/system/shardSizeLimits", Nothing, SystemRead, JSON, shards::get),
    route!(POST "/api/v2/system/nodes/{id}:requestSleep", Nothing, GraphDebug, ANY, admin::request_sleep),
    route!(PATCH "/api/v2/system/shardSizeLimits", Data, SystemWrite, JSON, shards::set),
    route!(GET "/api/v2/system/logLevel", Nothing, SystemRead, JSON, logs::level),
    route!(PUT "/api/v2/system/logLevel", Data, SystemWrite, JSON, logs::set_level),
    route!(POST "/api/v2/system:shutdown", Nothing, SystemWrite, ANY, admin::shutdown),
    //
    // v2, today: a graph.
    route!(GET "/api/v2/graph/{graphName}/hashCode", Nothing, GraphQuery, JSON, admin::graph_hash),
    route!(POST "/api/v2/graph/{graphName}/cypher:query", Query, GraphQuery, JSON, query::table),
    route!(POST "/api/v2/graph/{graphName}/cypher:queryNodes", Query, GraphQuery, JSON, query::nodes),
    route!(POST "/api/v2/graph/{graphName}/cypher:queryEdges", Query, GraphQuery, JSON, query::edges),
    route!(GET "/api/v2/graph/{graphName}/query/ws", Nothing, GraphQuery, SOCKET, sockets::query),
    route!(GET "/api/v2/graph/{graphName}/ingests", Nothing, IngestRead, JSON, ingest::list),
    route!(POST "/api/v2/graph/{graphName}/ingests", Data, IngestWrite, JSON, ingest::create_named),
    route!(GET "/api/v2/graph/{graphName}/ingests/{ingestName}", Nothing, IngestWrite, SOCKET, sockets::upload),
    route!(GET "/api/v2/graph/{graphName}/ingests/{ingestName}", Nothing, IngestRead, JSON, ingest::get),
    route!(DELETE "/api/v2/graph/{graphName}/ingests/{ingestName}", Nothing, IngestWrite, JSON, ingest::delete),
    route!(POST "/api/v2/graph/{graphName}/ingests/{ingestName}:pause", Nothing, IngestWrite, JSON, ingest::pause),
    route!(POST "/api/v2/graph/{graphName}/ingests/{ingestName}:resume", Nothing, IngestWrite, JSON, ingest::start),
    route!(GET "/api/v2/graph/{graphName}/standingQueries", Nothing, StandingRead, JSON, standing::list),
    route!(POST "/api/v2/graph/{graphName}/standingQueries", Data, StandingWrite, JSON, standing::create_named),
    route!(POST "/api/v2/graph/{graphName}/standingQueries:propagate", Nothing, StandingWrite, ANY, standing::propagate),
    route!(GET "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}:tap", Nothing, StandingRead, SOCKET, sockets::tap),
    route!(GET "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}", Nothing, StandingRead, JSON, standing::get),
    route!(PUT "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}", Data, StandingWrite, JSON, standing::replace),
    route!(DELETE "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}", Nothing, StandingWrite, JSON, standing::delete),
    route!(POST "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}:pause", Nothing, StandingWrite, JSON, standing::pause),
    route!(POST "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}:resume", Nothing, StandingWrite, JSON, standing::resume),
    route!(POST "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/why", Data, StandingRead, JSON, standing::why),
    route!(GET "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/plan", Nothing, StandingRead, JSON, standing::plan),
    route!(POST "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/outputs", Data, StandingWrite, ANY, standing::add_workflow),
    route!(GET "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/outputs/{outputName}:tapPreEnrichment", Nothing, StandingRead, SOCKET, sockets::tap_before),
    route!(GET "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/outputs/{outputName}:tap", Nothing, StandingRead, SOCKET, sockets::tap_after),
    route!(PUT "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/outputs/{outputName}", Data, StandingWrite, JSON, standing::change_output),
    route!(DELETE "/api/v2/graph/{graphName}/standingQueries/{standingQueryName}/outputs/{outputName}", Nothing, StandingWrite, JSON, standing::remove_output),
    route!(POST "/api/v2/graph/{graphName}/algorithms/randomWalk/nodes/{id}:generateRandomWalk", Nothing, GraphQuery, JSON, algorithms::walk),
    route!(POST "/api/v2/graph/{graphName}/algorithms/randomWalk:saveWalks", Data, GraphQuery, ANY, algorithms::save),
    route!(GET "/api/v2/graph/{graphName}/queryUi/tapQueries", Nothing, StyleRead, JSON, query_ui::taps),
    route!(PUT "/api/v2/graph/{graphName}/queryUi/tapQueries", Data, StyleWrite, ANY, query_ui::set_taps),
    //
    // v2, today: the explorer's lists and single nodes.
    route!(GET "/api/v2/queryUi/sampleQueries", Nothing, StyleRead, JSON, query_ui::samples),
    route!(PUT "/api/v2/queryUi/sampleQueries", Data, StyleWrite, ANY, query_ui::set_samples),
    route!(GET "/api/v2/queryUi/quickQueries", Nothing, StyleRead, JSON, query_ui::quick),
    route!(PUT "/api/v2/queryUi/quickQueries", Data, StyleWrite, ANY, query_ui::set_quick),
    route!(GET "/api/v2/queryUi/nodeAppearances", Nothing, StyleRead, JSON, query_ui::appearances),
    route!(PUT "/api/v2/queryUi/nodeAppearances", Data, StyleWrite, ANY, query_ui::set_appearances),
    route!(GET "/api/v2/debug/nodes/{id}", Nothing, GraphDebug, JSON, debug::get),
    route!(GET "/api/v2/debug/nodes/{id}/verbose", Nothing, GraphDebug, JSON, debug::verbose),
    route!(GET "/api/v2/debug/nodes/{id}/props", Nothing, GraphDebug, JSON, debug::property),
    route!(GET "/api/v2/debug/nodes/{id}/edges", Nothing, GraphDebug, JSON, debug::edges),
    route!(GET "/api/v2/debug/nodes/{id}/edges/half", Nothing, GraphDebug, JSON, debug::edges),
];
