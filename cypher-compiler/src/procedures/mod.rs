//! The table of procedures a query may call.
//!
//! Owns their signatures, what is known of each without running it, and what help says. What they do lies with whoever can
//! do it: the engine over its view, a query in place of the call (`query`, `reify_time`), or the service that brings them in
//! `Options::procedures`.
//!
//! A new procedure is one row here, and one in the engine if its body is `Graph`.

mod help;
mod query;
mod reify_time;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use weir_model::procedure::{Body, Caller, Chosen};
use weir_model::{Failure, Procedure, Text, Value};

use crate::Options;

/// What LOAD CSV calls; not for queries.
pub const LOAD_CSV: &str = "load.csv";

struct Row {
    signature: &'static str,
    effect: Effect,
    idempotent: bool,
    description: &'static str,
    /// A query that runs on an empty graph.
    example: &'static str,
    does: Does,
}

#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Reads,
    Scans,
    Writes,
    /// Reads, and brings things from outside, or runs a text that may.
    Fetches,
    /// Reads, and waits for more.
    Listens,
    /// Reads, and waits for nobody.
    AtOnce,
    /// Ends queries that run, and waits for nobody.
    Ends,
}

use Effect::{AtOnce, Ends, Fetches, Listens, Reads, Scans, Writes};

type Choose = fn(&query::Queries, &dyn Caller, &[Value]) -> Result<Option<Chosen>, Failure>;

enum Does {
    Graph,
    /// Always the same rows.
    Table(fn(&Options) -> Vec<Vec<Value>>),
    /// Another query in place of the call.
    Query(Choose),
    /// Something the service has and the caller of the compiler must bring.
    Service,
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    Row { signature: "recentNodes(count :: INTEGER = 10) :: (node :: NODE)", effect: Reads, idempotent: false,
        description: "Up to `count` nodes of the graph, those that were written last first. The last 4,096 changes are known, of those that were committed together the last 256, after a start those of them that the log still had; behind these it is not said which nodes come",
        example: "CALL recentNodes(3) YIELD node RETURN node", does: Does::Graph },
    Row { signature: "recentNodeIds(count :: INTEGER = 10) :: (nodeId :: ANY)", effect: Reads, idempotent: false,
        description: "The ids, as text, of the nodes that `recentNodes` gives",
        example: "CALL recentNodeIds(3) YIELD nodeId RETURN nodeId", does: Does::Graph },
    Row { signature: "incrementCounter(node :: NODE, key :: STRING, amount :: INTEGER = 1) :: (count :: INTEGER)", effect: Writes, idempotent: false,
        description: "Adds to an integer property in one transaction and gives the sum; a missing property counts as 0",
        example: "MATCH (n) WHERE id(n) = idFrom('page', 1) CALL incrementCounter(n, 'hits', 2) YIELD count RETURN count", does: Does::Graph },
    Row { signature: "int.add(node :: NODE!, key :: STRING, add :: INTEGER = 1) :: (result :: INTEGER)", effect: Writes, idempotent: false,
        description: "Adds to an integer property of a node given by itself or by id, and gives the sum",
        example: "CALL int.add(idFrom('page', 1), 'hits', 2) YIELD result RETURN result", does: Does::Graph },
    Row { signature: "float.add(node :: NODE!, key :: STRING, add :: FLOAT = 1.0) :: (result :: FLOAT)", effect: Writes, idempotent: false,
        description: "Adds to a float property of a node given by itself or by id, and gives the sum",
        example: "CALL float.add(idFrom('page', 1), 'weight', 0.5) YIELD result RETURN result", does: Does::Graph },
    Row { signature: "set.insert(node :: NODE!, key :: STRING, add :: ANY) :: (result :: LIST OF ANY)", effect: Writes, idempotent: true,
        description: "Appends to a list property what is not in it, and gives the list",
        example: "CALL set.insert(idFrom('page', 1), 'tags', 'new') YIELD result RETURN result", does: Does::Graph },
    Row { signature: "set.union(node :: NODE!, key :: STRING, add :: LIST OF ANY) :: (result :: LIST OF ANY)", effect: Writes, idempotent: true,
        description: "Appends to a list property those elements that are not in it, in order, and gives the list",
        example: "CALL set.union(idFrom('page', 1), 'tags', ['a', 'b']) YIELD result RETURN result", does: Does::Graph },
    Row { signature: "create.relationship(from :: NODE, relType :: STRING, props :: MAP, to :: NODE) :: (rel :: RELATIONSHIP)", effect: Writes, idempotent: true,
        description: "Creates a relationship whose type is computed; `props` are its properties",
        example: "CREATE (a), (b) WITH a, b CALL create.relationship(a, 'KNOWS', {}, b) YIELD rel RETURN rel", does: Does::Graph },
    Row { signature: "create.setProperty(node :: NODE, key :: STRING, value :: ANY) :: ()", effect: Writes, idempotent: true,
        description: "Sets a property whose key is computed; null removes it",
        example: "MATCH (n) WHERE id(n) = idFrom(1) CALL create.setProperty(n, 'x' + 1, 2)", does: Does::Graph },
    Row { signature: "create.setLabels(node :: NODE, labels :: LIST OF STRING) :: ()", effect: Writes, idempotent: true,
        description: "Replaces all labels of a node",
        example: "MATCH (n) WHERE id(n) = idFrom(1) CALL create.setLabels(n, ['A', 'B'])", does: Does::Graph },
    Row { signature: "purgeNode(node :: NODE!) :: ()", effect: Writes, idempotent: true,
        description: "Removes everything a node has, labels, properties and edges, and everything that is known of its past",
        example: "CALL purgeNode(idFrom(1))", does: Does::Graph },
    Row { signature: "reify.time(timestamp :: ANY = none, periods :: ANY = none) :: (node :: NODE)", effect: Writes, idempotent: true,
        description: "Makes the nodes of the year, month, ... second that a moment (now, if none is given) lies in, joins each with \
                      the one before and after and with its parent, and gives the one of the finest period asked for",
        example: "CALL reify.time(datetime('2023-01-01T10:20:30Z'), ['year', 'hour']) YIELD node RETURN node", does: Does::Query(reify_time::choose) },
    Row { signature: "do.when(condition :: BOOLEAN, ifQuery :: STRING, elseQuery :: STRING = '', params :: MAP = {}) :: (value :: MAP)", effect: Writes, idempotent: false,
        description: "Runs one of two queries and gives its rows as maps; for an empty text, one empty map",
        example: "CALL do.when(true, 'RETURN $x + 1 AS y', '', {x: 1}) YIELD value RETURN value.y", does: Does::Query(query::when) },
    Row { signature: "cypher.doIt(cypher :: STRING, params :: MAP = {}) :: (value :: MAP)", effect: Writes, idempotent: false,
        description: "Runs a query given as text and gives its rows as maps",
        example: "CALL cypher.doIt('RETURN $x AS x', {x: 1}) YIELD value RETURN value.x", does: Does::Query(query::do_it) },
    Row { signature: "cypher.do.case(conditionals :: LIST, elseQuery :: STRING = '', params :: MAP = {}) :: (value :: MAP)", effect: Writes, idempotent: false,
        description: "Of a list [condition, query, condition, query, ...] runs the first query whose condition is true",
        example: "CALL cypher.do.case([false, 'RETURN 1 AS x', true, 'RETURN 2 AS x']) YIELD value RETURN value.x", does: Does::Query(query::case) },
    Row { signature: "cypher.runTimeboxed(cypher :: STRING, params :: MAP, timeout :: INTEGER) :: (value :: MAP)", effect: Writes, idempotent: false,
        description: "Runs a query and gives its rows until `timeout` milliseconds have passed, then ends without an error",
        example: "CALL cypher.runTimeboxed('UNWIND range(1, 3) AS x RETURN x', {}, 1000) YIELD value RETURN value.x", does: Does::Query(query::timeboxed) },
    Row { signature: "history.queryAt(query :: STRING, atTime :: INTEGER, parameters :: MAP = {}) :: (value :: MAP)", effect: Fetches, idempotent: true,
        description: "Runs a query that only reads on the graph as it was at the end of a millisecond since 1970, or at the moment this query reads if that is earlier",
        example: "CALL history.queryAt('MATCH (n) RETURN count(n) AS n', timestamp()) YIELD value RETURN value.n", does: Does::Query(query::at) },
    Row { signature: "history.nodeAt(node :: NODE!, atTime :: INTEGER) :: (node :: NODE, edges :: LIST)", effect: Reads, idempotent: true,
        description: "What a node was at the end of a millisecond since 1970, with its edges as `debug.node` shows them. A pattern that goes \
                      on from it follows the edges of the moment this query reads",
        example: "CALL history.nodeAt(idFrom(1), timestamp()) YIELD node, edges RETURN labels(node), size(edges)", does: Does::Graph },
    Row { signature: "history.nodeChanges(node :: NODE!, options :: MAP = {}) :: (kind :: STRING, detail :: MAP, changeTime :: INTEGER)", effect: Reads, idempotent: true,
        description: "Everything that happened to a node, in order: kinds `property`, `label`, `edge` and `edgeProperty`. Options are `from` \
                      and `to`, in milliseconds since 1970, and `limit`",
        example: "CALL history.nodeChanges(idFrom(1)) YIELD kind, detail, changeTime RETURN kind, detail, changeTime", does: Does::Graph },
    Row { signature: "history.propertyChanges(node :: NODE!, propertyKey :: STRING, options :: MAP = {}) :: (key :: STRING, value :: ANY, previousValue :: ANY, changeTime :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "Every value a property had since history begins, in order; null is none. Options as those of `history.nodeChanges`",
        example: "CALL history.propertyChanges(idFrom(1), 'x') YIELD value, changeTime RETURN value, changeTime", does: Does::Graph },
    Row { signature: "history.edgeChanges(node :: NODE!, other :: NODE!, edgeType :: STRING?, direction :: STRING?, options :: MAP = {}) :: (action :: STRING, edgeType :: STRING, direction :: STRING, other :: NODE, changeTime :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "When edges between two nodes were `added` and `removed`, in order. A null type or direction (`outgoing`, `incoming`, as \
                      the first node sees it) is any. Options as those of `history.nodeChanges`",
        example: "CALL history.edgeChanges(idFrom(1), idFrom(2), 'KNOWS', 'outgoing') YIELD action, changeTime RETURN action, changeTime", does: Does::Graph },
    Row { signature: "history.edgeChangesBetween(node :: NODE!, other :: NODE!, edgeType :: STRING?, direction :: STRING?, options :: MAP = {}) :: (action :: STRING, edgeType :: STRING, direction :: STRING, other :: NODE, changeTime :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "Another name of `history.edgeChanges`",
        example: "CALL history.edgeChangesBetween(idFrom(1), idFrom(2), null, null) YIELD action, changeTime RETURN action, changeTime", does: Does::Graph },
    Row { signature: "random.walk(start :: NODE!, depth :: INTEGER = 1, return :: FLOAT = 1.0, in-out :: FLOAT = 1.0, seed :: STRING = null) :: (walk :: LIST OF STRING)", effect: Reads, idempotent: false,
        description: "A random walk along edges in either direction, weighted as node2vec has it, as ids from the start on; a seed makes it repeatable",
        example: "CALL random.walk(idFrom(1), 5, 1.0, 1.0, 'seed') YIELD walk RETURN walk", does: Does::Graph },
    Row { signature: "getFilteredEdges(node :: NODE!, edgeTypes :: LIST OF STRING, directions :: LIST OF STRING, allowedNodes :: LIST) :: (edge :: RELATIONSHIP)", effect: Reads, idempotent: true,
        description: "The edges at a node of these types, directions (outgoing, incoming) and other ends; an empty list lets all pass",
        example: "CALL getFilteredEdges(idFrom(1), ['KNOWS'], ['outgoing'], []) YIELD edge RETURN edge", does: Does::Graph },
    Row { signature: "loadJsonLines(url :: STRING) :: (value :: ANY)", effect: Fetches, idempotent: true,
        description: "One row for each line of JSON in a file of an allowed directory, or behind an http or https URL",
        example: "UNWIND [] AS url CALL loadJsonLines(url) YIELD value RETURN value", does: Does::Service },
    Row { signature: "parseProtobuf(bytes :: BYTES?, schemaUrl :: STRING, typeName :: STRING) :: (value :: MAP)", effect: Fetches, idempotent: true,
        description: "The message that some bytes are, by a descriptor set in a file of an allowed directory, or behind an http or https URL; null where they are none",
        example: "UNWIND [] AS bytes CALL parseProtobuf(bytes, 'people.desc', 'Person') YIELD value RETURN value", does: Does::Service },
    Row { signature: "toProtobuf(value :: MAP?, schemaUrl :: STRING, typeName :: STRING) :: (protoBytes :: BYTES)", effect: Fetches, idempotent: true,
        description: "The bytes of the message that a map is, by a descriptor set as for `parseProtobuf`; null where it does not fit",
        example: "UNWIND [] AS value CALL toProtobuf(value, 'people.desc', 'Person') YIELD protoBytes RETURN protoBytes", does: Does::Service },
    Row { signature: "load.csv(url :: STRING, headers :: BOOLEAN, separator :: STRING) :: (row :: ANY)", effect: Fetches, idempotent: true,
        description: "What LOAD CSV reads with",
        example: "UNWIND [] AS url LOAD CSV FROM url AS row RETURN row", does: Does::Service },
    Row { signature: "standing.wiretap(options :: MAP) :: (data :: MAP, meta :: MAP)", effect: Listens, idempotent: true,
        description: "The results of a standing query, given by {name: ...} or {id: ...}, as they are found; it ends with LIMIT, with the time limit of \
                      the query, or with the standing query. What follows reads the graph as it is when a result comes. A query that writes, or that \
                      another one runs, cannot call it: an output of type `CypherQuery` writes because of results",
        example: "UNWIND [] AS name CALL standing.wiretap({name: name}) YIELD data RETURN data LIMIT 1", does: Does::Service },
    Row { signature: "query.running() :: (id :: STRING, query :: STRING, namespace :: STRING, startTime :: STRING, runningMillis :: INTEGER, \
                      rows :: INTEGER, cancelled :: BOOLEAN, userAgent :: STRING, remoteAddress :: STRING)",
        effect: AtOnce, idempotent: false,
        description: "The queries that run or wait, oldest first; what SHOW QUERIES gives",
        example: "SHOW QUERIES YIELD id, query", does: Does::Service },
    Row { signature: "query.terminate(ids :: ANY) :: (id :: STRING, query :: STRING, message :: STRING)", effect: Ends, idempotent: false,
        description: "Ends running queries, given by one id or a list of them; what TERMINATE QUERY does",
        example: "TERMINATE QUERIES '0', '1'", does: Does::Service },
    Row { signature: "schema.indexes() :: (name :: STRING, state :: STRING, type :: STRING, label :: STRING, property :: STRING, entries :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "The indexes; what SHOW INDEXES gives",
        example: "SHOW INDEXES YIELD name, type WHERE type = 'RANGE' RETURN name", does: Does::Service },
    Row { signature: "schema.expiries() :: (name :: STRING, state :: STRING, type :: STRING, label :: STRING, on :: STRING, after :: ANY, \
                      removes :: STRING, waiting :: INTEGER, expired :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "The rules by which things expire; what SHOW EXPIRIES gives",
        example: "SHOW EXPIRIES YIELD name, waiting", does: Does::Service },
    Row { signature: "subscribers(node :: NODE!) :: (queryId :: INTEGER, queryDepth :: INTEGER, receiverId :: STRING, lastResult :: ANY)", effect: Reads, idempotent: true,
        description: "Standing queries that subscribed to a node. In weir a query keeps no state at nodes, so there are no rows",
        example: "CALL subscribers(idFrom(1)) YIELD queryId RETURN queryId", does: Does::Graph },
    Row { signature: "subscriptions(node :: NODE!) :: (queryId :: INTEGER, queryDepth :: INTEGER, receiverId :: STRING, lastResult :: ANY)", effect: Reads, idempotent: true,
        description: "Nodes that a node subscribed to. In weir a query keeps no state at nodes, so there are no rows",
        example: "CALL subscriptions(idFrom(1)) YIELD queryId RETURN queryId", does: Does::Graph },
    Row { signature: "debug.node(node :: NODE!) :: (atTime :: ANY, properties :: MAP, edges :: LIST, latestUpdateMillisAfterSnapshot :: INTEGER, \
                      subscribers :: STRING, subscriptions :: STRING, multipleValuesStandingQueryStates :: LIST, journal :: LIST, graphNodeHashCode :: INTEGER)",
        effect: Reads, idempotent: true,
        description: "What is stored at one node, and what happened to it (`journal`). A node of weir has no snapshot or query state of its own: those columns are null or empty",
        example: "CALL debug.node(idFrom(1)) YIELD properties, edges RETURN properties, edges", does: Does::Graph },
    Row { signature: "debug.sleep(node :: NODE!) :: ()", effect: Reads, idempotent: true,
        description: "Does nothing: nodes of weir are not kept awake, so none can be put to sleep",
        example: "CALL debug.sleep(idFrom(1))", does: Does::Graph },
    Row { signature: "util.sleep(duration :: INTEGER) :: ()", effect: Reads, idempotent: true,
        description: "Waits so many milliseconds",
        example: "CALL util.sleep(1)", does: Does::Graph },
    Row { signature: "log(level :: ANY, value :: ANY = none) :: (log :: STRING)", effect: Reads, idempotent: true,
        description: "Writes a value to the log of weir and gives what was written; log(value) logs a warning, log(level, value) at \
                      error, warn, info, debug or trace",
        example: "CALL log('info', {x: 1}) YIELD log RETURN log", does: Does::Graph },
    Row { signature: "help.functions() :: (name :: STRING, signature :: STRING, description :: STRING)", effect: Reads, idempotent: true,
        description: "Every function",
        example: "CALL help.functions() YIELD name RETURN count(name)", does: Does::Table(|_| help::functions()) },
    Row { signature: "help.builtins() :: (name :: STRING, signature :: STRING, description :: STRING)", effect: Reads, idempotent: true,
        description: "The functions of openCypher",
        example: "CALL help.builtins() YIELD name RETURN count(name)", does: Does::Table(|_| help::builtins()) },
    Row { signature: "help.procedures() :: (name :: STRING, signature :: STRING, description :: STRING, mode :: STRING)", effect: Reads, idempotent: true,
        description: "Every procedure",
        example: "CALL help.procedures() YIELD name, mode RETURN mode, count(name)", does: Does::Table(help::procedures) },
    Row { signature: "db.indexes() :: (description :: STRING, indexName :: STRING, tokenNames :: LIST, properties :: LIST, state :: STRING, \
                      type :: STRING, progress :: FLOAT, provider :: MAP, id :: INTEGER, failureMessage :: STRING)",
        effect: Reads, idempotent: true,
        description: "The indexes reads can use; SHOW INDEXES gives their names, and those that are being built",
        example: "CALL db.indexes() YIELD description RETURN description", does: Does::Graph },
    Row { signature: "db.relationshipTypes() :: (relationshipType :: STRING)", effect: Scans, idempotent: true,
        description: "The types of the relationships in the graph; visits every node",
        example: "CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType", does: Does::Graph },
    Row { signature: "db.propertyKeys() :: (propertyKey :: STRING)", effect: Scans, idempotent: true,
        description: "The keys of the properties of nodes in the graph; visits every node",
        example: "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey", does: Does::Graph },
    Row { signature: "dbms.labels() :: (label :: STRING)", effect: Scans, idempotent: true,
        description: "The labels in the graph; visits every node",
        example: "CALL dbms.labels() YIELD label RETURN label", does: Does::Graph },
];

/// By name in small letters: the row, and what is declared of it.
static DECLARED: LazyLock<HashMap<Text, (&'static Row, Arc<Procedure>)>> = LazyLock::new(|| {
    let declared = TABLE.iter().filter_map(|row| {
        // That every signature can be read is a test.
        let procedure = Procedure::declare(row.signature, Body::Graph).ok()?;
        let procedure = Procedure {
            writes: row.effect == Writes,
            scans: row.effect == Scans,
            listens: row.effect == Listens,
            at_once: matches!(row.effect, AtOnce | Ends),
            ends: row.effect == Ends,
            fetches: row.effect == Fetches,
            idempotent: row.idempotent,
            description: Text::const_new(row.description),
            example: Text::const_new(row.example),
            ..procedure
        };
        Some((procedure.name.to_lowercase(), (row, Arc::new(procedure))))
    });
    declared.collect()
});

/// The procedure of that name, found without regard to case. The error says why one that there is cannot be called here.
pub fn find(name: &str, options: &Options) -> Option<Result<Arc<Procedure>, String>> {
    let name = name.to_lowercase();
    if let Some(brought) = options.procedures.iter().find(|procedure| procedure.name.to_lowercase() == name) {
        return Some(Ok(brought.clone()));
    }
    let (row, declared) = DECLARED.get(name.as_str())?;
    let body = match row.does {
        Does::Graph => return Some(Ok(declared.clone())),
        Does::Table(rows) => {
            let rows = rows(options);
            Body::Rows(Arc::new(move |_, _, each| {
                for row in &rows {
                    if each(row)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }))
        }
        Does::Query(choose) => {
            let queries = query::Queries::new(options);
            Body::Query(Arc::new(move |caller, arguments| choose(&queries, caller, arguments)))
        }
        Does::Service => return Some(Err(format!("Procedure `{}` is not available here: it needs the service", declared.name))),
    };
    Some(Ok(Arc::new(declared.with(body))))
}

/// What is declared of the procedure of that name, whether it can be called here or not.
pub fn known(name: &str, options: &Options) -> Option<Arc<Procedure>> {
    match find(name, options)? {
        Ok(procedure) => Some(procedure),
        Err(_) => DECLARED.get(name.to_lowercase().as_str()).map(|(_, declared)| declared.clone()),
    }
}

/// What the table declares of a procedure that the service does, with what the service does.
pub fn declared(name: &str, body: Body) -> Option<Procedure> {
    DECLARED.get(name.to_lowercase().as_str()).map(|(_, declared)| declared.with(body))
}

/// Every procedure with a name for users, as the reference page has them: those of the service among them.
pub fn documented() -> Vec<Arc<Procedure>> {
    let mut all: Vec<_> = DECLARED.values().map(|(_, declared)| declared.clone()).filter(|p| p.name != LOAD_CSV).collect();
    all.sort_by_key(|procedure| procedure.name.to_lowercase());
    all
}

/// Every procedure that can be called, by name.
pub fn all(options: &Options) -> Vec<Arc<Procedure>> {
    let brought = |name: &Text| options.procedures.iter().any(|procedure| procedure.name.eq_ignore_ascii_case(name));
    let available = |row: &Row| !matches!(row.does, Does::Service);
    let builtin = DECLARED.values().filter(|(row, declared)| available(row) && !brought(&declared.name));
    let mut all: Vec<Arc<Procedure>> =
        builtin.map(|(_, declared)| declared.clone()).chain(options.procedures.iter().cloned()).collect();
    all.retain(|procedure| procedure.name != LOAD_CSV);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// For suggestions.
pub fn names(options: &Options) -> Vec<String> {
    all(options).iter().map(|procedure| procedure.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_declared_and_its_example_compiles() {
        assert_eq!(DECLARED.len(), TABLE.len());
        let options = Options::default();
        for row in TABLE {
            let declared = Procedure::declare(row.signature, Body::Graph).expect(row.signature);
            assert!(!row.description.is_empty());
            let compiled = crate::compile(row.example, &options);
            match row.does {
                Does::Service => assert_eq!(compiled.expect_err(row.example)[0].code, crate::error::Code::ProcedureNotFound),
                _ => {
                    let plan = compiled.unwrap_or_else(|errors| panic!("{}: {}", row.example, errors[0]));
                    assert_eq!(plan.facts.writes, row.effect == Writes, "{}", declared.name);
                }
            }
        }
    }
}
