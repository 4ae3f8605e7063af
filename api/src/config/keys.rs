//! The table of configuration keys: the one place that says what exists, its type, its default and whether it does anything.
//!
//! Paths stand below any of the roots `weir`, `service` and `quine`. Does not know how values are read or used.

use crate::queries::RUNNING_MAX;

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
    /// A list of anything.
    Objects,
    /// Anything, with anything below it: passed on or ignored as a whole.
    Free,
}

impl Kind {
    /// What a value should be, in words.
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a text".to_owned(),
            Kind::Texts => "a list of texts".to_owned(),
            Kind::Objects => "a list of objects".to_owned(),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer(i64::MIN, i64::MAX) => "a whole number".to_owned(),
            Kind::Integer(low, i64::MAX) => format!("a whole number of at least {low}"),
            Kind::Integer(low, high) => format!("a whole number from {low} to {high}"),
            Kind::Size(low, i64::MAX) => format!("a size such as '64 MiB', of at least {low} bytes"),
            Kind::Size(low, high) => format!("a size such as '64 MiB', from {low} to {high} bytes"),
            Kind::Memory(low) => {
                format!("a size such as '4 GiB', of at least {} MiB, a part of the memory such as '70%', or 'none'", low >> 20)
            }
            Kind::Duration => "a duration such as '10 s', '100 ms' or '2 minutes'".to_owned(),
            Kind::Share => "a number from 0 to 1".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::Free => "a list or an object".to_owned(),
        }
    }
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
    /// What it decides, for the page of all keys; of one that decides nothing, what is so instead, where that matters.
    pub about: &'static str,
}

use Kind::{Boolean, Duration, Free, Integer, Memory, Objects, OneOf, Share, Size, Text, Texts};

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, effect: Effect::Used, about }
}

const fn ignored(path: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { path, kind, default, effect: Effect::Ignored, about: "" }
}

const fn refused(path: &'static str, kind: Kind, default: &'static str, reason: &'static str) -> Key {
    Key { path, kind, default, effect: Effect::Refused(reason), about: "" }
}

const COUNT: Kind = Integer(0, i64::MAX);
const PORT: Kind = Integer(0, 65535);
const SCHEDULES: Kind = OneOf(&["on-node-sleep", "on-node-update", "never"]);

/// In the order in which `GET admin/config` shows them.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("webserver.address", Text, "0.0.0.0", "where it listens; `<getHostName>` and `<getHostAddress>` stand for this machine's"),
    key("webserver.port", PORT, "8080", "its port; 0 is any free one"),
    key("webserver.enabled", Boolean, "true", "whether there is one"),
    key("webserver.use-tls", Boolean, "", "whether it speaks TLS; when `SSL_KEYSTORE_PATH` and `SSL_KEYSTORE_PASSWORD` are set it does"),
    key("webserver.tls.certificate", Text, "", "a PEM file: the certificate, and those that lead to one that clients know"),
    key("webserver.tls.private-key", Text, "", "a PEM file, unless the key is in that of the certificate"),
    key("webserver.use-mtls.enabled", Boolean, "false", "whether clients must show a certificate"),
    key("webserver.use-mtls.trust-store.path", Text, "", "a PEM file of those that may have signed it"),
    ignored("webserver.use-mtls.trust-store.password", Text, ""),
    key("webserver.use-mtls.health-endpoints.enabled", Boolean, "false", "whether liveness and readiness are answered without TLS, on 127.0.0.1 and a port of their own"),
    key("webserver.use-mtls.health-endpoints.port", PORT, "8081", "that port"),
    key("webserver.body-bytes-max", Size(1, i64::MAX), "67108864", "a longer body is refused with 413"),
    key("webserver.backups-enabled", Boolean, "true", "whether `GET` and `POST /api/v1/admin/backup` are answered; secrets that were given as text are in a backup"),
    key("webserver.connections-max", Integer(1, 1_000_000), "4096", "connections at a time, web sockets included; more wait"),
    key("webserver.header-timeout", Duration, "30 s", "how long the head of a request may take to arrive"),
    key("webserver.body-timeout", Duration, "60 s", "how long its body may take"),
    key("webserver.request-timeout", Duration, "300 s", "how long the answer to a query or a GET may take to begin"),
    key("webserver.allowed-origins", Texts, "[]", "pages that may open web sockets, change things and run queries besides those of weir's own host: `https://host`, `https://host:port`, or `*` for all"),
    key("webserver-advertise.address", Text, "", "where clients find weir, if not there: printed at the start and told in the OpenAPI documents"),
    key("webserver-advertise.port", PORT, "", "the port of that"),
    key("webserver-advertise.path", Text, "", "what its paths begin with there"),
    key("webserver-advertise.use-tls", Boolean, "", "whether it is `https` there"),
    key("auth.enabled", Boolean, "", "`false` turns logins off that are set up: whoever reaches the port may do everything"),
    key("auth.oidc.issuer", Text, "", "a provider of logins (OpenID Connect), as its tokens name it; with it every request needs a credential: [security.md](security.md)"),
    key("auth.oidc.client-id", Text, "", "what weir is called there; without it browsers cannot log in"),
    key("auth.oidc.client-secret", Text, "", "its secret there; best as `WEIR_AUTH_OIDC_CLIENT_SECRET`"),
    key("auth.oidc.audience", Text, "", "for whom bearer tokens must be; without it none is taken"),
    key("auth.oidc.scopes", Texts, "[\"openid\", \"profile\", \"email\"]", "what a browser asks of the provider; `openid` must be among it"),
    key("auth.oidc.roles-claim", Text, "roles", "where a token lists roles: a claim, or the way to one inside others (`resource_access.weir.roles`)"),
    key("auth.oidc.plain-http", Boolean, "false", "whether a provider on another machine may be asked without TLS"),
    key("auth.session.lifetime", Duration, "8 h", "how long a login of a browser lasts, and a web socket or a stream of events at most"),
    key("auth.session.count-max", Integer(1, 1_000_000), "10000", "logins of browsers at a time; for another one that would end first goes"),
    key("store.type", Text, "rocks-db", "`rocks-db`, `map-db`, `in-memory` or `empty`: see [storage.md](storage.md)"),
    key("store.filepath", Text, "", "where the data lie; without it those of `rocks-db` lie at `WEIR_DATA`, `QUINE_DATA` or `graph.weir-data`"),
    key("store.path", Text, "", "the same; one file, or one command line, that says both and not the same is refused"),
    refused("store.write-ahead-log", Boolean, "true", "the log is what makes weir's commits durable: it cannot be left out"),
    key("store.sync-all-writes", Boolean, "false", "whether every commit waits for the disk"),
    key("store.create-parent-dir", Boolean, "false", "whether directories above the data are made"),
    ignored("store.bloom-filter-size", COUNT, ""),
    ignored("store.number-partitions", Integer(1, i64::MAX), "1"),
    ignored("store.commit-interval", Duration, "10 s"),
    key("id.type", OneOf(&["uuid", "uuid-3", "uuid-4", "uuid-5", "long"]), "uuid", "what ids of nodes look like"),
    refused("id.partitioned", Boolean, "false", "weir's ids have 128 bits and no room for a position: leave it off"),
    key("id.namespace", Text, "", "the UUID that ids of `uuid-3` and `uuid-5` are made in"),
    key("id.consecutive-start", Integer(i64::MIN, i64::MAX), "", "with `long`: `idFrom` gives all 64 bits of its hash; which number it is has no effect, for a count would give ids again after a restart"),
    key("graph-model", OneOf(&["streaming", "open-cypher"]), "", "whether edges have properties and may be there twice, as openCypher has it; a store that is there says for itself"),
    key("history", Duration, "", "how much of the past can be asked; all of it without"),
    key("workers", Integer(0, 1024), "0", "threads of the dataflow; 0 is one for each processor"),
    key("memory.limit", Memory(256 << 20), "70%", "what the process may have: [storage.md](storage.md#memory)"),
    key("memory.directory", Text, "", "where what does not find room lies; beside the store without"),
    ignored("timeout", Duration, "2 minutes"),
    key("query.timeout", Duration, "2 minutes", "how long a query may take"),
    key("query.memory-bytes-max", Size(1 << 20, i64::MAX), "536870912", "what a query may hold, and at most a quarter of `memory.limit`"),
    key("query.all-memory-bytes-max", Size(1 << 20, i64::MAX), "2147483648", "what all queries together may hold, and at most half of `memory.limit`"),
    key("query.text-bytes-max", Size(1, 64 << 20), "1048576", "how long the text of a query may be"),
    key("query.running-max", Integer(1, RUNNING_MAX as i64), "64", "queries that run at a time; more wait"),
    key("query.slow-after", Duration, "1 s", "queries that take longer are logged"),
    key("query.client-patience", Duration, "30 s", "how long a query, a backup or an export waits for a client that takes none of it; web sockets are pinged as often, and closed when nothing has come for four times as long"),
    key("standing.chain-max", Integer(1, 1_000_000_000), "10000", "outputs of standing queries that write one because of the other: [loops](standing-queries.md#outputs-that-write-and-loops)"),
    key("should-resume-ingest", Boolean, "false", "whether streams go on after a restart by themselves"),
    key("file-ingest.allowed-directories", Texts, "[\".\"]", "files are read that lie in these, not below them"),
    key("file-ingest.resolution-mode", OneOf(&["dynamic", "static"]), "dynamic", "`static`: only files that are there at the start"),
    key("file-output.allowed-directories", Texts, "", "outputs write files that lie in these, not below them; without it anywhere but into weir's own data"),
    key("outgoing-http.allowed-hosts", Texts, "[\"*\"]", "web servers that may be asked: `*`, `host`, `host:port`, `*.domain`"),
    key("secrets.environment", Texts, "[\"WEIR_SECRET_*\"]", "variables that definitions may refer to for a secret: names, or what they begin with and `*`"),
    key("secrets.directories", Texts, "[\"/run/secrets\"]", "files that lie in these may be referred to for a secret"),
    key("dump-config", Boolean, "false", "whether the configuration in force is printed at the start"),
    key("default-api-version", OneOf(&["v1", "v2"]), "v2", "told to clients that show both: which they should begin with"),
    key("log.level", Text, "info", "a level, or levels by module: `info,weir_engine=debug`"),
    key("log.format", OneOf(&["text", "json"]), "text", "lines of text, or an object of JSON a line"),
    ignored("log-config.show-unsafe", Boolean, "true"),
    ignored("log-config.show-exceptions", Boolean, "true"),
    ignored("log-config.redactor.type", Text, "redact-hide"),
    ignored("labels-property", Text, "__LABEL"),
    Key { about: "the edges of a node have no order; a query that needs one has ORDER BY", ..ignored("edge-iteration", OneOf(&["reverse-insertion", "unordered"]), "reverse-insertion") },
    ignored("shard-count", Integer(1, i64::MAX), "4"),
    ignored("in-memory-soft-node-limit", COUNT, "10000"),
    ignored("in-memory-hard-node-limit", COUNT, "75000"),
    ignored("decline-sleep-when-write-within", Duration, "100 ms"),
    ignored("decline-sleep-when-access-within", Duration, "0 s"),
    ignored("max-catch-up-sleep", Duration, "2 s"),
    key("persistence.journal-enabled", Boolean, "true", "whether the past is kept at all"),
    ignored("persistence.effect-order", OneOf(&["persistor-first", "memory-first"]), "persistor-first"),
    ignored("persistence.snapshot-schedule", SCHEDULES, "on-node-sleep"),
    ignored("persistence.snapshot-singleton", Boolean, "false"),
    ignored("persistence.standing-query-schedule", SCHEDULES, "on-node-sleep"),
    ignored("metrics.enable-debug-metrics", Boolean, "false"),
    key("metrics-reporters", Objects, "[]", "where figures go from time to time: [operations.md](operations.md#figures)"),
    key("traces.endpoint", Text, "", "where traces go, OTLP over HTTP: [operations.md](operations.md#traces)"),
    key("traces.headers", Free, "{}", "sent with them, and never shown"),
    key("traces.service-name", Text, "weir", "what weir is called in them"),
    key("traces.ratio", Share, "1", "which part of the traces that begin here is told"),
    ignored("help-make-quine-better", Boolean, "false"),
];

/// Values the reference service knows and weir does not take, with their keys and why.
pub const VALUES_REFUSED: &[(&str, &str, &str)] =
    &[("id.type", "byte-array", "ids of type 'byte-array' have no fixed length, and weir's have 128 bits")];

/// Stores the reference service knows and this version is built without.
pub const STORES_ELSEWHERE: &[&str] = &["cassandra", "keyspaces", "click-house"];

/// The variable of the environment that sets a key: `WEIR_WEBSERVER_PORT` for `webserver.port`.
pub fn variable(path: &str) -> String {
    let letter = |c: char| if matches!(c, '.' | '-') { '_' } else { c.to_ascii_uppercase() };
    format!("WEIR_{}", path.chars().map(letter).collect::<String>())
}

/// Why a value is not taken that the reference service knows.
pub fn why_refused(path: &str, value: &str) -> Option<&'static str> {
    VALUES_REFUSED.iter().find(|(key, refused, _)| *key == path && *refused == value).map(|(.., reason)| *reason)
}

pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether the path lies below a key that takes anything.
pub fn is_below_free(path: &str) -> bool {
    KEYS.iter().any(|key| key.kind == Free && path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether keys lie below the path.
pub fn is_above(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The known key that looks most like this one, where one does.
pub fn nearest(path: &str) -> Option<&'static str> {
    let nearest = KEYS.iter().map(|key| (distance(path, key.path), key.path)).min()?;
    (nearest.0 * 2 <= path.len()).then_some(nearest.1)
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
