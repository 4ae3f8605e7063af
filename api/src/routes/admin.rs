//! Administration: what runs here, how it is set, whether it lives, what it counts, and its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use serde_json::{Map as JsonMap, Value as Json, json};
use warp::http::StatusCode;
use weir_connectors::secret::MASKED;

use super::reply::{Reply, blocking, reading};
use super::request::Request;
use crate::app::App;
use crate::clock;
use crate::error::ApiError;
use crate::ingest;
use crate::metrics::{self, ReporterSettings};
use crate::wire::family::Family;
use crate::wire::standing::StandingSettings;

/// The format of the store, as the reference numbers its own.
const STORE_FORMAT: &str = "1.0.0";

/// What is stored beside the graphs, and beside one of them, that holds no secrets: keys, or what they begin with.
const OPEN: &[&str] = &["ids", "sample_queries", "quick_queries", "node_appearances"];
const OPEN_OF_GRAPH: &[&str] = &["tap_queries", "history", "erased/", "index/", "expiry/"];

/// What clients of the reference service require and weir has not.
const NO_JAVA: &str = "n/a";

pub async fn build_info(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut body = json!({"version": crate::VERSION});
    if let Some(commit) = option_env!("WEIR_COMMIT") {
        body["gitCommit"] = commit.into();
    }
    body["javaVersion"] = NO_JAVA.into();
    if request.family.is_v2() {
        body["javaRuntimeVersion"] = NO_JAVA.into();
        body["javaAvailableProcessors"] = std::thread::available_parallelism().map_or(1, |count| count.get()).into();
        body["javaMaxMemory"] = metrics::memory_bytes_total().into();
    }
    body["persistenceWriteVersion"] = STORE_FORMAT.into();
    if request.family.is_v2() {
        body["quineType"] = "Oss".into();
    }
    Ok(Reply::Value(body))
}

/// The full form below both product roots, and beside it the summary newer clients read.
pub async fn config(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let settings = &app.settings;
    let full = &settings.effective;
    Ok(Reply::Value(json!({
        "quine": full,
        "service": full,
        "persistor": {"persistorType": settings.store.label(), "isLocal": true},
        "webserver": {
            "address": settings.webserver.address,
            "port": settings.webserver.port,
            "enabled": settings.webserver.enabled,
            "useTls": settings.webserver.tls.is_some(),
        },
        "shardCount": full["shard-count"],
        "inMemorySoftNodeLimit": full["in-memory-soft-node-limit"],
        "inMemoryHardNodeLimit": full["in-memory-hard-node-limit"],
        "metricsReporterTypes": settings.reporters.iter().map(ReporterSettings::kind).collect::<Vec<_>>(),
        "defaultApiVersion": full["default-api-version"],
    })))
}

pub async fn liveness(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Empty(StatusCode::NO_CONTENT))
}

pub async fn readiness(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    match app.not_ready() {
        None => Ok(Reply::Empty(StatusCode::NO_CONTENT)),
        Some(reason) => Err(ApiError::NotReady(reason)),
    }
}

pub async fn shutdown(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    app.stop("a request to shut down");
    Ok(Reply::Accepted)
}

/// Memory is given back as it becomes free here, so there is nothing to collect: the request is taken, as clients expect.
pub async fn garbage_collection(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Accepted)
}

/// Nodes do not sleep here. The id is looked at, so that mistakes are found.
pub async fn request_sleep(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    request.node(&app, 0)?;
    request.graph(&app)?;
    Ok(Reply::Accepted)
}

/// What is stored beside the graphs; v1 as base64, since values need not be text.
pub async fn metadata(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let entries = blocking(move || Ok(app.engine.metadata_list("")?)).await?;
    let shown = |value: Vec<u8>| match request.family {
        Family::V1 => base64(&value),
        _ => String::from_utf8_lossy(&value).into_owned(),
    };
    let entries = entries.into_iter().map(|(key, value)| {
        let value = without_secrets(&key, value);
        (key, Json::String(shown(value)))
    });
    Ok(Reply::Value(Json::Object(entries.collect::<JsonMap<_, _>>())))
}

pub async fn metrics(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    request.check_member()?;
    Ok(Reply::Value(blocking(move || Ok(metrics::to_json(&app))).await?))
}

/// Equal graphs have equal hashes. Ends when nobody waits for it any more.
pub async fn graph_hash(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let common = request.common(&app)?;
    let value = reading(move |gone| Ok(common.graph.hash_code_while(common.at, &|| !gone.load(Ordering::Relaxed))?)).await?;
    let millis = common.at_millis.unwrap_or_else(|| clock::millis(SystemTime::now()) as i64);
    let at_time = match request.family {
        Family::Current => clock::instant(clock::from_millis(millis.max(0) as u64)).into(),
        _ => Json::from(millis),
    };
    Ok(Reply::Value(json!({"value": value.to_string(), "atTime": at_time})))
}

/// How large a graph is: nodes by label, edges by type, bytes by part. Counted exactly, in one pass over what holds now; ends
/// with its limit of time, or when nobody waits for it any more.
pub async fn graph_sizes(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let common = request.common(&app)?;
    if common.at.is_some() {
        return Err(ApiError::bad("sizes are of the present: leave the time out"));
    }
    let limit = common.timeout.unwrap_or(app.settings.query.time_max).min(app.settings.query.time_max);
    let sizes = reading(move |gone| {
        let began = Instant::now();
        let go_on = || !gone.load(Ordering::Relaxed) && began.elapsed() < limit;
        let counted = common.graph.sizes(&go_on)?.ok_or(ApiError::TimeLimit(limit.as_millis()))?;
        Ok((counted, app.engine.sizes()?, common.graph.name().to_owned()))
    });
    let (counted, store, name) = sizes.await?;
    let named = |counts: Vec<(weir_model::Text, u64)>| -> JsonMap<String, Json> {
        counts.into_iter().map(|(name, count)| (name.to_string(), count.into())).collect()
    };
    Ok(Reply::Value(json!({
        "namespace": name,
        "nodes": counted.nodes,
        "nodesByLabel": named(counted.labels),
        "edges": counted.edges,
        "edgesByType": named(counted.types),
        "pageBytes": counted.page_bytes,
        "store": {"logBytes": store.log, "pageBytes": store.pages, "otherBytes": store.other},
    })))
}

/// There is one member, and it is up when it answers.
pub async fn status(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let webserver = &app.settings.webserver;
    let member = json!({"address": webserver.address, "port": webserver.port, "uid": std::process::id()});
    let cluster = json!({"clusterMembers": {"0": member}, "hotSpares": [], "targetSize": 1});
    let not_ready = app.not_ready();
    let mut body = json!({"fullyUp": not_ready.is_none(), "cluster": cluster});
    // What clients of the reference service know nothing of is there when there is something to say.
    if let Some(reason) = not_ready {
        body["notReady"] = reason.into();
    }
    let damaged = app.engine.damaged();
    if !damaged.is_empty() {
        body["damagedNamespaces"] = damaged.into_iter().collect();
    }
    let neglected = app.neglected();
    if !neglected.is_empty() {
        body["neglectedNamespaces"] = neglected.into_iter().map(|(name, neglected)| (name, json!(neglected))).collect();
    }
    Ok(Reply::Value(body))
}

/// What each namespace has taken in.
pub async fn usage(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let graphs = app.engine.graphs();
    let namespaces = graphs.iter().filter_map(|name| app.engine.graph(name)).map(|graph| {
        let streams = app.ingests.list(&graph);
        let streams = streams.iter().map(
            |stream| json!({"name": stream.name, "ingestedCount": stream.ingested(), "ingestedBytes": stream.ingested_bytes()}),
        );
        let queries = app.standing.list(&graph).len();
        json!({"namespace": graph.name(), "ingests": streams.collect::<Vec<_>>(), "standingQueries": queries})
    });
    let namespaces = namespaces.collect::<Vec<_>>();
    Ok(Reply::Value(json!({"atTime": clock::instant(SystemTime::now()), "namespaces": namespaces})))
}

/// Where records, results and writes stand still.
pub async fn backpressure(app: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(blocking(move || Ok(metrics::backpressure(&app))).await?))
}

/// What belongs to other editions says so.
pub async fn not_enabled(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Err(ApiError::Absent("This edition is not enabled: there are no contexts and no transformations".to_owned()))
}

/// Definitions are stored with their secrets; these stay here, and so does whatever nobody knows to have none.
fn without_secrets(key: &str, stored: Vec<u8>) -> Vec<u8> {
    let of_graph = key.strip_prefix("graph/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
    let begins = |open: &[&str], key: &str| open.iter().any(|open| *open == key || open.ends_with('/') && key.starts_with(*open));
    let masked: fn(&Json) -> Option<Json> = match of_graph {
        None if begins(OPEN, key) => return stored,
        Some(key) if begins(OPEN_OF_GRAPH, key) => return stored,
        Some(key) if key.starts_with("standing/") => |settings| {
            let outputs = StandingSettings::decode(settings).ok()?.outputs_json();
            let mut settings = settings.clone();
            settings["outputs"] = outputs;
            Some(settings)
        },
        Some(key) if key.starts_with("ingest/") => ingest::shown,
        _ => return MASKED.into(),
    };
    let Ok(Json::Object(mut definition)) = serde_json::from_slice(&stored) else { return MASKED.into() };
    let settings = definition.get("settings").and_then(masked).unwrap_or_default();
    definition.insert("settings".to_owned(), settings);
    Json::Object(definition).to_string().into_bytes()
}

/// Standard alphabet, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            text.push(if shown { ALPHABET[(word >> (18 - 6 * digit)) as usize & 63].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_here() {
        let shown =
            |key: &str, stored: &Json| String::from_utf8(without_secrets(key, stored.to_string().into_bytes())).expect("text");
        let output = json!({"type": "PostToEndpoint", "url": "http://x/", "headers": {"X-Key": "hush"}});
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        let stored = json!({"name": "q", "settings": {"pattern": pattern, "outputs": {"o": output}}});
        let query = shown("graph/0/standing/q", &stored);
        assert!(query.contains("http://x/") && !query.contains("hush"), "{query}");
        let unreadable = json!({"settings": {"outputs": {"o": {"type": "Nope", "key": "hush"}}}});
        assert!(!shown("graph/0/standing/q", &unreadable).contains("hush"));

        let format = json!({"type": "CypherAvro", "query": "RETURN 1", "schemaRegistry": {"url": "http://r/", "username": "u",
            "password": "hush"}});
        let boxes = json!([{"type": "HttpEndpoint", "url": "http://d:hush@d/", "headers": {"A": "hush"}}]);
        let settings = json!({"type": "RedisIngest", "url": "redis://h", "key": "orders", "password": "hush", "format": format,
            "onRecordError": {"deadLetterQueueSettings": {"destinations": boxes}}});
        let stored = json!({"name": "s", "source": "s#1", "status": "Running", "settings": settings});
        // The name of a stream is anybody's choice.
        for key in ["graph/0/ingest/s", "graph/12/ingest/standing/s", "graph/0/ingest/index/s"] {
            let stream = shown(key, &stored);
            for seen in ["orders", "s#1", "Running", "http://r/", "RETURN 1", "@d/", MASKED] {
                assert!(stream.contains(seen), "{seen} is missing in {stream}");
            }
            assert!(!stream.contains("hush"), "{stream}");
        }
        let unreadable = json!({"settings": {"type": "Nope", "password": "hush"}});
        assert!(!shown("graph/0/ingest/s", &unreadable).contains("hush"));
        for unknown in ["graph/0/novel/x", "novel", "graph", "indexes", "graph/0/indexes"] {
            assert_eq!(shown(unknown, &json!("hush")), MASKED);
        }
        for open in ["graph/0/index/x", "graph/3/history", "sample_queries"] {
            assert_eq!(without_secrets(open, b"\x00\x01".to_vec()), b"\x00\x01");
        }
    }

    #[test]
    fn base64_is_padded() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy"), ("{}", "e30=")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
