//! What routes take in the path, behind the question mark and in a header, in the names of each family.

use serde_json::{Value as Json, json};

use crate::routes::MEMBER_HEADER;
use crate::wire::family::Family;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    Integer {
        from: Option<i64>,
    },
    Number {
        from: f64,
    },
    Boolean,
    /// Milliseconds, or a text as well in v2.
    Moment,
    Duration,
    OneOf(&'static [&'static str]),
    /// A text in a header of the request.
    Header,
}

#[derive(Clone, Copy)]
pub struct Parameter {
    /// Empty where v1 has none.
    pub v1: &'static str,
    pub preview: &'static str,
    pub current: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    pub required: bool,
    /// What holds when it is not given, as JSON.
    pub default: &'static str,
}

const fn same(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Parameter {
    Parameter { v1: name, preview: name, current: name, kind, about, required: false, default }
}

pub const NAMESPACE: Parameter = Parameter {
    current: "graphName",
    ..same(
        "namespace",
        Kind::Text,
        "\"quine\"",
        "The graph (namespace) that the request is for. Its name has 1 to 16 letters and digits, the first a letter.",
    )
};
pub const AT_TIME: Parameter = Parameter {
    current: "atTime",
    ..same(
        "at-time",
        Kind::Moment,
        "",
        "Reads the graph as it was at the end of this millisecond. It must not be in the future, and nothing can be written with \
         it. The present when not given.",
    )
};
pub const TIMEOUT: Parameter = same(
    "timeout",
    Kind::Duration,
    "",
    "How long a request that only reads may take; then it ends with status 500. When not given it is 20 seconds in v2, and has \
     no limit of its own in v1. The setting `query.timeout` (2 minutes) limits all queries, also those that write.",
);
pub const NO_TIMEOUT: Parameter = Parameter { about: "Accepted for compatibility, without effect on this request.", ..TIMEOUT };
pub const MEMBER: Parameter = Parameter {
    v1: "",
    current: MEMBER_HEADER,
    ..same(
        "memberIdx",
        Kind::Integer { from: None },
        "",
        "The member of the cluster that is to answer. There is one, which answers whatever the number is.",
    )
};

pub const KEY: Parameter = Parameter { required: true, ..same("key", Kind::Text, "", "The name of the property.") };
pub const EDGE_LIMIT: Parameter =
    same("limit", Kind::Integer { from: None }, "", "The most edges to return. No limit when not given, or 0 or less.");
pub const EDGE_DIRECTION: Parameter = same(
    "direction",
    Kind::OneOf(&["Outgoing", "Incoming", "Undirected"]),
    "",
    "Only edges of this direction, seen from the node. With `Undirected` there are none: every edge has a direction.",
);
pub const EDGE_OTHER: Parameter = same("other", Kind::Text, "", "Only edges between the node and the one with this id.");
pub const EDGE_TYPE: Parameter = same("type", Kind::Text, "", "Only edges of this type. All types when not given.");
pub const ONLY_FULL: Parameter = Parameter {
    v1: "",
    ..same(
        "onlyFull",
        Kind::Boolean,
        "true",
        "Accepted for compatibility, without effect: every edge is stored at both of its nodes.",
    )
};

/// Of logins.
pub const RETURN_TO: Parameter = same(
    "returnTo",
    Kind::Text,
    "\"/\"",
    "The path of weir's own that the browser is led to in the end. Anything else counts as `/`.",
);
pub const CODE: Parameter = same("code", Kind::Text, "", "What the provider gives the browser to bring here.");
pub const STATE: Parameter = same("state", Kind::Text, "", "Which login this is the end of.");
pub const PROVIDER: Parameter = same("iss", Kind::Text, "", "The provider, where it names itself.");
pub const REFUSED: Parameter = same("error", Kind::Text, "", "Why the provider gives no code.");

pub const HASHED: Parameter = Parameter {
    v1: "",
    ..same(
        "shouldCalculateResultHashCode",
        Kind::Boolean,
        "false",
        "Whether `outputHashCode` in the status sums up the results, so that two runs can be compared.",
    )
};
pub const PROPAGATE_TO: Parameter = Parameter {
    v1: "",
    preview: "",
    ..same(
        "propagateTo",
        Kind::OneOf(&["NONE", "EXCLUDE_SLEEPING", "INCLUDE_SLEEPING"]),
        "\"EXCLUDE_SLEEPING\"",
        "Whether matches that are already in the graph become results when the query is created. With `NONE` they are held back \
         until they are asked for; the other two words have the same effect.",
    )
};
pub const INCLUDE_SLEEPING: Parameter = Parameter {
    current: "includeSleeping",
    ..same("include-sleeping", Kind::Boolean, "false", "Accepted for compatibility, without effect: nodes do not sleep in weir.")
};
pub const WAKE_UP: Parameter = Parameter {
    current: "wakeUpParallelism",
    ..same(
        "wake-up-parallelism",
        Kind::Integer { from: Some(1) },
        "4",
        "Accepted for compatibility, without effect: nodes do not sleep in weir.",
    )
};

pub const WALK_LENGTH: Parameter =
    same("length", Kind::Integer { from: Some(1) }, "10", "The most steps of a walk. It ends sooner where no edge leads on.");
pub const WALK_COUNT: Parameter = same("count", Kind::Integer { from: Some(0) }, "5", "How many walks begin at each node.");
pub const WALK_QUERY: Parameter = same(
    "query",
    Kind::Text,
    "\"RETURN id(thisNode)\"",
    "What each visited node adds to the walk: the end of a Cypher query about `thisNode`, such as `RETURN thisNode.name`. It \
     must only read, and have neither `CALL` nor `LOAD CSV`.",
);
pub const WALK_RETURN: Parameter = same(
    "return",
    Kind::Number { from: 0.0 },
    "1.0",
    "The parameter p of node2vec: a step back to the node before has the weight 1/p. With 0 no step goes back.",
);
pub const WALK_IN_OUT: Parameter = Parameter {
    current: "inOut",
    ..same(
        "in-out",
        Kind::Number { from: 0.0 },
        "1.0",
        "The parameter q of node2vec: a step to a node that is no neighbour of the node before has the weight 1/q. With 0 no \
         step goes to a neighbour of the node before.",
    )
};
pub const WALK_SEED: Parameter =
    same("seed", Kind::Text, "", "Walks with the same seed over the same graph are equal. Random when not given.");
pub const PARALLELISM: Parameter = same(
    "parallelism",
    Kind::Integer { from: Some(1) },
    "16",
    "Accepted for compatibility, without effect: walks are taken one after another.",
);

pub const SINCE_RESULT: Parameter = same(
    "since",
    Kind::Text,
    "",
    "The id of the last result that the client has received; it gets the results after that one. With a tick alone it gets all \
     from that tick on. Results from now on when not given.",
);
pub const LAST_EVENT: Parameter = same(
    "Last-Event-ID",
    Kind::Header,
    "",
    "As `since`, which it takes precedence over. Browsers send it when they connect again.",
);
pub const WITH_TICK: Parameter = Parameter {
    current: "withTick",
    ..same("with-tick", Kind::Boolean, "false", "Whether the `meta` of each result also has its `tick` and `eventId`.")
};
pub const LEAVE_OUT: Parameter = same(
    "leaveOut",
    Kind::Text,
    "",
    "The names of namespaces to leave out, separated by commas. A damaged namespace has to be left out. None when not given.",
);
pub const IDEMPOTENCY_KEY: Parameter = same(
    "Idempotency-Key",
    Kind::Header,
    "",
    "A key of the client's choice for this request. A request that is sent again with the same key has no further effect. The \
     stream remembers the newest 1000 keys, or as many as its `keysRemembered` says.",
);
pub const FORMAT: Parameter =
    same("format", Kind::OneOf(&["jsonl", "cypher"]), "\"jsonl\"", "The format of the body: JSON Lines or Cypher statements.");
pub const EXPORT_FORMAT: Parameter = same(
    "format",
    Kind::OneOf(&["jsonl", "cypher", "parquet"]),
    "\"jsonl\"",
    "The format of the answer: JSON Lines, Cypher statements or Parquet.",
);
pub const PLAN_FORMAT: Parameter = same(
    "format",
    Kind::OneOf(&["json", "text", "mermaid"]),
    "\"json\"",
    "The format of the answer: JSON, a text tree, or a Mermaid drawing.",
);
pub const LINE: Parameter = same(
    "line",
    Kind::Integer { from: Some(1) },
    "1",
    "The number that the first line of the body has in its file. Error messages count lines from there.",
);
pub const RELATIVE: Parameter = same(
    "relative",
    Kind::Boolean,
    "false",
    "Whether the document leaves out `servers`, which is otherwise the advertised address of weir.",
);

impl Parameter {
    /// None where the family has no such parameter.
    pub fn shown(&self, family: Family) -> Option<Json> {
        let name = match family {
            Family::V1 => self.v1,
            Family::Preview => self.preview,
            Family::Current => self.current,
        };
        if name.is_empty() {
            return None;
        }
        let mut schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Header => json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}),
            Kind::Integer { from: None } => json!({"type": "integer", "format": "int64"}),
            Kind::Integer { from: Some(from) } => json!({"type": "integer", "format": "int32", "minimum": from}),
            Kind::Number { from } => json!({"type": "number", "format": "double", "minimum": from}),
            Kind::Boolean => json!({"type": "boolean"}),
            Kind::Moment if family == Family::Current => json!({"type": "string", "format": "date-time"}),
            Kind::Moment => json!({"type": "integer", "format": "int64", "description": "In milliseconds since 1970."}),
            Kind::Duration if family == Family::Current => json!({"type": "string", "examples": ["20s"], "default": "20s"}),
            Kind::Duration => json!({"type": "integer", "format": "int64", "minimum": 0, "description": "In milliseconds."}),
            Kind::OneOf(words) => json!({"type": "string", "enum": words}),
        };
        if let Ok(default) = serde_json::from_str::<Json>(self.default) {
            schema["default"] = default;
        }
        let is_header = self.kind == Kind::Header || name == MEMBER_HEADER;
        let place = if is_header { "header" } else { "query" };
        Some(json!({"name": name, "in": place, "required": self.required, "description": self.about, "schema": schema}))
    }
}

/// What stands in a path, by the name in its braces and the handler of the route.
pub fn in_path(name: &str, handler: &str) -> Json {
    let about = match name {
        "id" if handler.starts_with("running::") => "The id of a running query, as the list of running queries has it.",
        "id" => "The id of a node, as `strId(n)` gives it in a query.",
        "name" if handler.starts_with("standing::") || handler == "sockets::results" => "The name of the standing query.",
        "name" | "ingestName" => "The name of the ingest stream.",
        "standingQueryName" => "The name of the standing query.",
        "output" | "outputName" => "The name of the output.",
        "namespace" | "graphName" => {
            "The name of the graph (namespace): 1 to 16 letters and digits, the first a letter. `quine` and `default` both name \
             the default one."
        }
        "file" => "The name of the file, as the page refers to it.",
        "context" => "The name of the context.",
        "transformation" => "The name of the transformation.",
        _ => "",
    };
    let mut schema = json!({"type": "string", "minLength": 1});
    if matches!(name, "ingestName" | "standingQueryName" | "outputName") {
        schema["maxLength"] = 128.into();
        schema["pattern"] = "^[A-Za-z0-9_.~-]+$".into();
    }
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
}
