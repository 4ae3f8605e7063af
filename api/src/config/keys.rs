//! The table of configuration keys: the one place that says what exists, its type, its default and whether it does anything.
//!
//! Paths stand below any of the roots `weir`, `service` and `quine`. Does not know how values are read or used.

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Text,
    Boolean,
    /// At least the first, at most the second.
    Integer(i64, i64),
    /// Bytes, also as `64 MiB`; at least the first, at most the second.
    Size(i64, i64),
    /// Bytes as a `Size`, a part of the machine's memory as `70%`, or `none`.
    Memory(u64),
    Duration,
    /// From 0 to 1.
    Share,
    OneOf(&'static [&'static str]),
    Texts,
    /// Anything, with anything below it: passed on or ignored as a whole.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    Used,
    /// Known to the reference service, accepted so that its files start weir, and without meaning here.
    Ignored,
    /// Would change what a user relies on, and is not built: only the default is accepted. Says what to do.
    Refused(&'static str),
}

pub struct Key {
    pub path: &'static str,
    pub kind: Kind,
    /// As it would be written; empty when the key is absent by default.
    pub default: &'static str,
    pub effect: Effect,
}

use Effect::{Ignored, Refused, Used};
use Kind::{Boolean, Duration, Free, Integer, Memory, OneOf, Share, Size, Text, Texts};

const fn key(path: &'static str, kind: Kind, default: &'static str, effect: Effect) -> Key {
    Key { path, kind, default, effect }
}

const COUNT: Kind = Integer(0, i64::MAX);
const PORT: Kind = Integer(0, 65535);
const SCHEDULES: Kind = OneOf(&["on-node-sleep", "on-node-update", "never"]);

/// In the order in which `GET admin/config` shows them.
pub const KEYS: &[Key] = &[
    key("webserver.address", Text, "0.0.0.0", Used),
    key("webserver.port", PORT, "8080", Used),
    key("webserver.enabled", Boolean, "true", Used),
    key("webserver.use-tls", Boolean, "", Used),
    key("webserver.tls.certificate", Text, "", Used),
    key("webserver.tls.private-key", Text, "", Used),
    key("webserver.use-mtls.enabled", Boolean, "false", Used),
    key("webserver.use-mtls.trust-store.path", Text, "", Used),
    key("webserver.use-mtls.trust-store.password", Text, "", Ignored),
    key("webserver.use-mtls.health-endpoints.enabled", Boolean, "false", Used),
    key("webserver.use-mtls.health-endpoints.port", PORT, "8081", Used),
    key("webserver.body-bytes-max", Size(1, i64::MAX), "67108864", Used),
    key("webserver.connections-max", Integer(1, 1_000_000), "4096", Used),
    key("webserver.header-timeout", Duration, "30 s", Used),
    key("webserver.body-timeout", Duration, "60 s", Used),
    key("webserver.request-timeout", Duration, "300 s", Used),
    key("webserver-advertise.address", Text, "", Used),
    key("webserver-advertise.port", PORT, "", Used),
    key("webserver-advertise.path", Text, "", Used),
    key("webserver-advertise.use-tls", Boolean, "", Used),
    key("store.type", Text, "rocks-db", Used),
    key("store.filepath", Text, "", Used),
    key("store.path", Text, "", Used),
    key("store.write-ahead-log", Boolean, "true", Refused("the log is what makes weir's commits durable: it cannot be left out")),
    key("store.sync-all-writes", Boolean, "false", Used),
    key("store.create-parent-dir", Boolean, "false", Used),
    key("store.bloom-filter-size", COUNT, "", Ignored),
    key("store.number-partitions", Integer(1, i64::MAX), "1", Ignored),
    key("store.commit-interval", Duration, "10 s", Ignored),
    key("id.type", OneOf(&["uuid", "uuid-3", "uuid-4", "uuid-5", "long", "byte-array"]), "uuid", Used),
    key("id.partitioned", Boolean, "false", Refused("weir's ids have 128 bits and no room for a position: leave it off")),
    key("id.namespace", Text, "", Used),
    key("id.consecutive-start", Integer(i64::MIN, i64::MAX), "", Used),
    key("graph-model", OneOf(&["streaming", "open-cypher"]), "", Used),
    key("history", Duration, "", Used),
    key("workers", Integer(0, 1024), "0", Used),
    key("memory.limit", Memory(256 << 20), "70%", Used),
    key("memory.directory", Text, "", Used),
    key("timeout", Duration, "2 minutes", Used),
    key("query.timeout", Duration, "2 minutes", Used),
    key("query.memory-bytes-max", Size(1 << 20, i64::MAX), "536870912", Used),
    key("query.all-memory-bytes-max", Size(1 << 20, i64::MAX), "2147483648", Used),
    key("query.text-bytes-max", Size(1, 64 << 20), "1048576", Used),
    key("query.running-max", Integer(1, 512), "64", Used),
    key("query.slow-after", Duration, "1 s", Used),
    key("query.client-patience", Duration, "30 s", Used),
    key("should-resume-ingest", Boolean, "false", Used),
    key("file-ingest.allowed-directories", Texts, "[\".\"]", Used),
    key("file-ingest.resolution-mode", OneOf(&["dynamic", "static"]), "dynamic", Used),
    key("outgoing-http.allowed-hosts", Texts, "[\"*\"]", Used),
    key("dump-config", Boolean, "false", Used),
    key("default-api-version", OneOf(&["v1", "v2"]), "v1", Used),
    key("log.level", Text, "info", Used),
    key("log.format", OneOf(&["text", "json"]), "text", Used),
    key("log-config.show-unsafe", Boolean, "true", Ignored),
    key("log-config.show-exceptions", Boolean, "true", Ignored),
    key("log-config.redactor.type", Text, "redact-hide", Ignored),
    key("labels-property", Text, "__LABEL", Ignored),
    key("edge-iteration", OneOf(&["reverse-insertion", "unordered"]), "reverse-insertion", Ignored),
    key("shard-count", Integer(1, i64::MAX), "4", Ignored),
    key("in-memory-soft-node-limit", COUNT, "10000", Ignored),
    key("in-memory-hard-node-limit", COUNT, "75000", Ignored),
    key("decline-sleep-when-write-within", Duration, "100 ms", Ignored),
    key("decline-sleep-when-access-within", Duration, "0 s", Ignored),
    key("max-catch-up-sleep", Duration, "2 s", Ignored),
    key("persistence.journal-enabled", Boolean, "true", Used),
    key("persistence.effect-order", OneOf(&["persistor-first", "memory-first"]), "persistor-first", Ignored),
    key("persistence.snapshot-schedule", SCHEDULES, "on-node-sleep", Ignored),
    key("persistence.snapshot-singleton", Boolean, "false", Ignored),
    key("persistence.standing-query-schedule", SCHEDULES, "on-node-sleep", Ignored),
    key("metrics.enable-debug-metrics", Boolean, "false", Ignored),
    key("metrics-reporters", Free, "[]", Used),
    key("traces.endpoint", Text, "", Used),
    key("traces.headers", Free, "{}", Used),
    key("traces.service-name", Text, "weir", Used),
    key("traces.ratio", Share, "1", Used),
    key("help-make-quine-better", Boolean, "false", Ignored),
];

/// Stores the reference service knows and this version is built without.
pub const STORES_ELSEWHERE: &[&str] = &["cassandra", "keyspaces", "click-house"];

/// The variable of the environment that sets a key: `WEIR_WEBSERVER_PORT` for `webserver.port`.
pub fn variable(path: &str) -> String {
    let letter = |c: char| if matches!(c, '.' | '-') { '_' } else { c.to_ascii_uppercase() };
    format!("WEIR_{}", path.chars().map(letter).collect::<String>())
}

pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether the path lies below a key that takes anything.
pub fn is_below_free(path: &str) -> bool {
    KEYS.iter().any(|key| key.kind == Free && path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.')))
}

/// The known key that looks most like this one.
pub fn nearest(path: &str) -> &'static str {
    KEYS.iter().map(|key| key.path).min_by_key(|known| distance(path, known)).unwrap_or_default()
}

/// Edits (insert, delete, replace) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
