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
        "The graph, where the path does not name one. Its name has 1 to 16 letters and digits, the first a letter.",
    )
};
pub const AT_TIME: Parameter = Parameter {
    current: "atTime",
    ..same("at-time", Kind::Moment, "", "Reads the graph as of this moment, which must not lie in the future.")
};
pub const TIMEOUT: Parameter =
    same("timeout", Kind::Duration, "", "How long a query that only reads may take; in v2 20 seconds when not given.");
pub const MEMBER: Parameter = Parameter {
    v1: "",
    current: MEMBER_HEADER,
    ..same(
        "memberIdx",
        Kind::Integer { from: None },
        "",
        "The member of a cluster. There is one, which answers whatever the number is.",
    )
};

pub const KEY: Parameter = Parameter { required: true, ..same("key", Kind::Text, "", "The name of the property.") };
pub const EDGE_LIMIT: Parameter = same("limit", Kind::Integer { from: None }, "", "How many edges at most; 0 does not limit.");
pub const EDGE_DIRECTION: Parameter =
    same("direction", Kind::OneOf(&["Outgoing", "Incoming", "Undirected"]), "", "Only edges of this direction.");
pub const EDGE_OTHER: Parameter = same("other", Kind::Text, "", "Only edges to the node with this id.");
pub const EDGE_TYPE: Parameter = same("type", Kind::Text, "", "Only edges of this type.");
pub const ONLY_FULL: Parameter =
    Parameter { v1: "", ..same("onlyFull", Kind::Boolean, "true", "Every edge of weir has both its halves.") };

pub const HASHED: Parameter = Parameter {
    v1: "",
    ..same("shouldCalculateResultHashCode", Kind::Boolean, "false", "Whether the results are summed up to a number.")
};
pub const PROPAGATE_TO: Parameter = Parameter {
    v1: "",
    preview: "",
    ..same(
        "propagateTo",
        Kind::OneOf(&["NONE", "EXCLUDE_SLEEPING", "INCLUDE_SLEEPING"]),
        "\"EXCLUDE_SLEEPING\"",
        "Whether matches that are there already are reported. No node sleeps here.",
    )
};
pub const INCLUDE_SLEEPING: Parameter = Parameter {
    current: "includeSleeping",
    ..same("include-sleeping", Kind::Boolean, "false", "No node sleeps here, so this changes nothing.")
};
pub const WAKE_UP: Parameter = Parameter {
    current: "wakeUpParallelism",
    ..same("wake-up-parallelism", Kind::Integer { from: Some(1) }, "4", "No node sleeps here, so this changes nothing.")
};

pub const WALK_LENGTH: Parameter = same("length", Kind::Integer { from: Some(1) }, "10", "Steps of a walk, at most.");
pub const WALK_COUNT: Parameter = same("count", Kind::Integer { from: Some(0) }, "5", "Walks from each node.");
pub const WALK_QUERY: Parameter = same(
    "query",
    Kind::Text,
    "\"RETURN id(thisNode)\"",
    "What is told of each node: Cypher that only reads, about `thisNode`, without `CALL` and `LOAD CSV`.",
);
pub const WALK_RETURN: Parameter =
    same("return", Kind::Number { from: 0.0 }, "1.0", "How unlikely it is to step back; 0 is never.");
pub const WALK_IN_OUT: Parameter = Parameter {
    current: "inOut",
    ..same("in-out", Kind::Number { from: 0.0 }, "1.0", "How unlikely it is to leave the neighbourhood; 0 never visits it.")
};
pub const WALK_SEED: Parameter = same("seed", Kind::Text, "", "Walks of the same seed are the same.");
pub const PARALLELISM: Parameter = same("parallelism", Kind::Integer { from: Some(1) }, "16", "Walks at a time.");

pub const SINCE: Parameter = same("since", Kind::Text, "", "Where the backup ended that this one goes on from.");
pub const SINCE_RESULT: Parameter = same(
    "since",
    Kind::Text,
    "",
    "The id of the last result that the client has had: it gets those behind it. Of a tick alone, all from that on.",
);
pub const LAST_EVENT: Parameter =
    same("Last-Event-ID", Kind::Header, "", "The same as `since`, which it outdoes: browsers send it when they come back.");
pub const WITH_TICK: Parameter = Parameter {
    current: "withTick",
    ..same("with-tick", Kind::Boolean, "false", "Whether `meta` has the tick of the result, and its id.")
};
pub const LEAVE_OUT: Parameter =
    same("leaveOut", Kind::Text, "", "Namespaces that are left out, separated by commas: a damaged one cannot be backed up.");
pub const IDEMPOTENCY_KEY: Parameter = same(
    "Idempotency-Key",
    Kind::Header,
    "",
    "What the request is known by: records that come again with the same key have no effect.",
);
pub const FORMAT: Parameter = same("format", Kind::OneOf(&["jsonl", "cypher"]), "\"jsonl\"", "What the text is.");
pub const EXPORT_FORMAT: Parameter =
    same("format", Kind::OneOf(&["jsonl", "cypher", "parquet"]), "\"jsonl\"", "What the graph is written as.");
pub const PLAN_FORMAT: Parameter =
    same("format", Kind::OneOf(&["json", "text", "mermaid"]), "\"json\"", "How the dataflow is shown.");
pub const LINE: Parameter =
    same("line", Kind::Integer { from: Some(1) }, "1", "The number of the first line of the body, for messages.");
pub const RELATIVE: Parameter = same("relative", Kind::Boolean, "false", "Leaves out where the server is.");

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
            Kind::Moment => json!({"type": "integer", "format": "int64", "description": "Milliseconds since 1970."}),
            Kind::Duration if family == Family::Current => json!({"type": "string", "examples": ["20s"], "default": "20s"}),
            Kind::Duration => json!({"type": "integer", "format": "int64", "minimum": 0, "description": "Milliseconds."}),
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

/// What stands in a path, by the name in its braces.
pub fn in_path(name: &str) -> Json {
    let about = match name {
        "id" => "The id of a node, as queries show it.",
        "name" | "ingestName" | "standingQueryName" => "The name of the resource.",
        "output" | "outputName" => "The name of the output.",
        "namespace" | "graphName" => {
            "The graph; `quine` and `default` are the default one. A name has 1 to 16 letters and digits, the first a letter."
        }
        "file" => "The name of the file.",
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
