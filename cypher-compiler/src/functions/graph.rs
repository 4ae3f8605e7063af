//! Functions of nodes, edges and paths, and those that take anything.

use std::sync::Arc;

use weir_model::expression::{Context, Failure, Function};
use weir_model::id::{EdgeKey, NodeId};
use weir_model::value::{Map, Value};

use super::hash::edge_number;
use super::{id_value, lenient, strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    of_graph("id", "id(entity :: NODE) :: ANY", id).about(
        "The id of a node, and of a relationship a number made of it.",
        "MATCH (n) WHERE id(n) = idFrom('x') RETURN id(n) = idFrom('x')",
    ),
    of_graph("strId", "strId(node :: NODE) :: STRING", str_id)
        .about("The id of a node as text.", "MATCH (n) WHERE id(n) = idFrom('a') RETURN strId(n)"),
    of_graph("elementId", "elementId(entity :: NODE) :: STRING", element_id)
        .about("What `id` gives, as text.", "MATCH (n) WHERE id(n) = idFrom('a') RETURN elementId(n) = strId(n)"),
    of_graph("labels", "labels(entity :: NODE) :: LIST OF STRING", labels)
        .about("The labels of a node, or the one type of a relationship.", "CREATE (n:Person:Admin) RETURN labels(n)"),
    of_graph("properties", "properties(entity :: ANY) :: MAP", properties).about(
        "The properties of a node or a relationship as a map; a map as it is.",
        "CREATE (n:Person {name: 'Ada'}) RETURN properties(n)",
    ),
    of_graph("keys", "keys(entity :: ANY) :: LIST OF STRING", keys).about(
        "The names of the properties of a node or a relationship, or of the entries of a map, in the order of the alphabet.",
        "RETURN keys({a: 1, b: null})",
    ),
    of_graph("type", "type(relationship :: RELATIONSHIP) :: STRING", kind)
        .about("The type of a relationship.", "CREATE (:A)-[r:KNOWS]->(:B) RETURN type(r)"),
    of_graph("startNode", "startNode(relationship :: RELATIONSHIP) :: NODE", start_node)
        .about("The node a relationship comes from.", "CREATE (:A)-[r:KNOWS]->(:B) RETURN labels(startNode(r))"),
    of_graph("endNode", "endNode(relationship :: RELATIONSHIP) :: NODE", end_node)
        .about("The node a relationship leads to.", "CREATE (:A)-[r:KNOWS]->(:B) RETURN labels(endNode(r))"),
    of_graph("nodes", "nodes(path :: PATH) :: LIST OF NODE", nodes)
        .about("The nodes of a path, in order.", "CREATE p = (:A)-[:KNOWS]->(:B) RETURN [n IN nodes(p) | labels(n)]"),
    of_graph("relationships", "relationships(path :: PATH) :: LIST OF RELATIONSHIP", relationships).about(
        "The relationships of a path, in order.",
        "CREATE p = (:A)-[:KNOWS]->(:B) RETURN [r IN relationships(p) | type(r)]",
    ),
    lenient("coalesce", 1, usize::MAX, "coalesce(value :: ANY, ...) :: ANY", coalesce)
        .about("The first of its arguments that is not null.", "RETURN coalesce(null, 'a', 'b')"),
    lenient("nullIf", 2, 2, "nullIf(value :: ANY, other :: ANY) :: ANY", null_if)
        .about("The first of two values, and null where they are equal.", "RETURN [nullIf(1, 1), nullIf(1, 2)]"),
    lenient("exists", 1, 1, "exists(value :: ANY) :: BOOLEAN", |_, arguments| Ok(Value::Boolean(!arguments[0].is_null())))
        .about("Whether the value is not null.", "RETURN exists({a: 1}.a)"),
];

/// One entity in. What only looks at the reference itself is pure; the rest asks the graph.
const fn of_graph(
    name: &'static str,
    signature: &'static str,
    run: fn(&dyn Context, &[Value]) -> Result<Value, Failure>,
) -> Function {
    let asks_graph = matches!(name.as_bytes(), b"labels" | b"properties" | b"keys");
    Function { pure: !asks_graph, asks_graph, ..strict(name, 1, 1, signature, run) }
}

fn node(value: &Value) -> Option<NodeId> {
    match value {
        Value::Node(id) => Some(*id),
        Value::FullNode(node) => Some(node.id),
        _ => None,
    }
}

fn edge(value: &Value) -> Option<&EdgeKey> {
    match value {
        Value::Edge(edge) => Some(edge),
        Value::FullEdge(edge) => Some(&edge.key),
        _ => None,
    }
}

/// Of a node an integer under the scheme `long`, else the id itself; of an edge an integer.
fn id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match (node(&arguments[0]), edge(&arguments[0])) {
        (Some(id), _) => Ok(id_value(context.ids(), id)),
        (_, Some(edge)) => Ok(Value::Integer(edge_number(edge, context.ids()))),
        _ => Err(wrong_signature("id(entity :: NODE) :: ANY", arguments)),
    }
}

fn str_id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match node(&arguments[0]) {
        Some(id) => Ok(Value::text(&context.ids().text(id))),
        None => Err(wrong_signature("strId(node :: NODE) :: STRING", arguments)),
    }
}

fn element_id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match edge(&arguments[0]) {
        Some(edge) => Ok(Value::text(&edge_number(edge, context.ids()).to_string())),
        None => str_id(context, arguments),
    }
}

fn null_if(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let is_equal = arguments[0].equals_in(&arguments[1], context)? == Some(true);
    Ok(if is_equal { Value::Null } else { arguments[0].clone() })
}

/// Of an edge: the list of its one type.
fn labels(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let labels = match &arguments[0] {
        Value::Node(id) => context.full_node(*id).labels,
        Value::FullNode(node) => node.labels.clone(),
        other => match edge(other) {
            Some(edge) => vec![edge.kind.clone()],
            None => return Err(wrong_signature("labels(entity :: NODE) :: LIST OF STRING", arguments)),
        },
    };
    Ok(Value::List(labels.into_iter().map(Value::Text).collect()))
}

fn properties(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    properties_of(context, &arguments[0])
        .map(Value::Map)
        .ok_or_else(|| wrong_signature("properties(entity :: ANY) :: MAP", arguments))
}

fn keys(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match properties_of(context, &arguments[0]) {
        // A property that is null is none; a key of a map that leads to null is a key.
        Some(map) => {
            let is_map = matches!(arguments[0], Value::Map(_));
            let there = map.in_order().into_iter().filter(|(_, value)| is_map || !value.is_null());
            Ok(names(there.map(|(key, _)| key)))
        }
        None => Err(wrong_signature("keys(entity :: ANY) :: LIST OF STRING", arguments)),
    }
}

fn names<'a>(keys: impl Iterator<Item = &'a weir_model::Text>) -> Value {
    Value::List(keys.map(|key| Value::Text(key.clone())).collect())
}

fn properties_of(context: &dyn Context, value: &Value) -> Option<Arc<Map>> {
    Some(match value {
        Value::Map(map) => map.clone(),
        Value::Node(id) => Arc::new(context.full_node(*id).properties),
        Value::FullNode(node) => Arc::new(node.properties.clone()),
        Value::Edge(edge) => Arc::new(context.full_edge(edge).properties),
        Value::FullEdge(edge) => Arc::new(edge.properties.clone()),
        _ => return None,
    })
}

fn kind(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match edge(&arguments[0]) {
        Some(edge) => Ok(Value::Text(edge.kind.clone())),
        None => Err(wrong_signature("type(relationship :: RELATIONSHIP) :: STRING", arguments)),
    }
}

fn start_node(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match edge(&arguments[0]) {
        Some(edge) => Ok(Value::Node(edge.source)),
        None => Err(wrong_signature("startNode(relationship :: RELATIONSHIP) :: NODE", arguments)),
    }
}

fn end_node(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match edge(&arguments[0]) {
        Some(edge) => Ok(Value::Node(edge.target)),
        None => Err(wrong_signature("endNode(relationship :: RELATIONSHIP) :: NODE", arguments)),
    }
}

fn nodes(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Path(path) = &arguments[0] else {
        return Err(wrong_signature("nodes(path :: PATH) :: LIST OF NODE", arguments));
    };
    Ok(Value::List([path.start].into_iter().chain(path.steps.iter().map(|(_, node)| *node)).map(Value::Node).collect()))
}

fn relationships(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Path(path) = &arguments[0] else {
        return Err(wrong_signature("relationships(path :: PATH) :: LIST OF RELATIONSHIP", arguments));
    };
    Ok(Value::List(path.steps.iter().map(|(edge, _)| Value::Edge(Arc::new(edge.clone()))).collect()))
}

fn coalesce(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(arguments.iter().find(|value| !value.is_null()).cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::testing::{call, call_with};
    use super::*;
    use weir_model::expression::{FailureKind, GraphFree};
    use weir_model::value::{FullNode, Path, Text};
    use weir_model::{IdScheme, forward_context};

    fn an_edge() -> EdgeKey {
        EdgeKey { source: NodeId::new(0, 1), kind: Text::new("T"), target: NodeId::new(0, 2), ordinal: 0 }
    }

    #[test]
    fn ids_depend_on_the_scheme() {
        let node = Value::Node(NodeId::new(0, -5i64 as u64));
        let long = IdScheme::Long { consecutive: false };
        assert_eq!(call_with(long, "id", std::slice::from_ref(&node)), Ok(Value::Integer(-5)));
        assert_eq!(call_with(long, "strId", std::slice::from_ref(&node)), Ok(Value::text("-5")));
        assert_eq!(call("id", &[Value::Node(NodeId::new(1, 2))]), Ok(Value::Id(NodeId::new(1, 2))));
        let edge = Value::Edge(an_edge().into());
        let parallel = Value::Edge(EdgeKey { ordinal: 1, ..an_edge() }.into());
        let number = call("id", std::slice::from_ref(&edge)).expect("an edge has a number");
        assert!(matches!(number, Value::Integer(0..0x20_0000_0000_0000)), "{number:?}");
        assert_eq!(call("id", &[edge]), Ok(number.clone()));
        assert_ne!(call("id", &[parallel]), Ok(number));
        assert_eq!(call("id", &[Value::Integer(1)]).map_err(|f| f.kind), Err(FailureKind::WrongSignature));
    }

    /// Lists may have millions of elements, and the clock has to be looked at between them.
    #[test]
    fn null_if_tells_of_what_it_compares() {
        struct Told {
            base: GraphFree,
            steps: Cell<usize>,
        }
        impl Context for Told {
            forward_context!(self, self.base);

            fn now_millis(&self) -> i64 {
                self.base.now_millis()
            }
            fn spend(&self, steps: usize) -> Result<(), Failure> {
                self.steps.set(self.steps.get() + steps);
                Ok(())
            }
        }
        let context = Told { base: GraphFree::constants(IdScheme::Uuid), steps: Cell::new(0) };
        let list = Value::list(vec![Value::Integer(1); 640]);
        assert_eq!(null_if(&context, &[list.clone(), list]), Ok(Value::Null));
        assert_eq!(context.steps.get(), 80);
    }

    #[test]
    fn entities_show_what_they_are_made_of() {
        let properties: Map = [(Text::new("a"), Value::Integer(1)), (Text::new("b"), Value::Null)].into_iter().collect();
        let node = FullNode { id: NodeId::new(0, 1), labels: vec![Text::new("L")], properties: properties.clone() };
        let node = Value::FullNode(node.into());
        assert_eq!(call("labels", std::slice::from_ref(&node)), Ok(Value::list(vec![Value::text("L")])));
        assert_eq!(call("keys", std::slice::from_ref(&node)), Ok(Value::list(vec![Value::text("a")])));
        assert_eq!(call("properties", &[node]), Ok(Value::Map(properties.clone().into())));
        let both = Value::list(vec![Value::text("a"), Value::text("b")]);
        assert_eq!(call("keys", &[Value::Map(properties.into())]), Ok(both));
        let edge = Value::Edge(an_edge().into());
        assert_eq!(call("type", std::slice::from_ref(&edge)), Ok(Value::text("T")));
        assert_eq!(call("endNode", std::slice::from_ref(&edge)), Ok(Value::Node(NodeId::new(0, 2))));
        let path = Path { start: NodeId::new(0, 1), steps: vec![(an_edge(), NodeId::new(0, 2))] };
        let path = Value::Path(path.into());
        let ends = Value::list(vec![Value::Node(NodeId::new(0, 1)), Value::Node(NodeId::new(0, 2))]);
        assert_eq!(call("nodes", std::slice::from_ref(&path)), Ok(ends));
        assert_eq!(call("relationships", &[path]), Ok(Value::list(vec![edge])));
    }

    #[test]
    fn only_two_functions_look_at_nulls() {
        assert_eq!(call("coalesce", &[Value::Null, Value::Integer(2)]), Ok(Value::Integer(2)));
        assert_eq!(call("coalesce", &[Value::Null]), Ok(Value::Null));
        assert_eq!(call("exists", &[Value::Null]), Ok(Value::Boolean(false)));
        assert_eq!(call("labels", &[Value::Null]), Ok(Value::Null));
    }
}
