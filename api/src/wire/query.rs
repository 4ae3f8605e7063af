//! Answers of queries: tables, and the nodes and edges the graph view draws. Bodies in: text, or text with parameters.

use std::borrow::Cow;

use serde_json::Value as Json;
use weir_model::json::write;
use weir_model::{FullEdge, FullNode, IdScheme, NodeId, Plan, Text, Value};

use super::decode::Mistakes;
use super::family::Family;

/// `{"text": …, "parameters": {…}}`.
pub struct QueryBody {
    pub text: String,
    pub parameters: Vec<(Text, Value)>,
}

impl QueryBody {
    /// With what `values` has read of the parameters.
    pub fn decode(body: &Json, parameters: Value) -> Result<QueryBody, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let Json::Object(map) = body else {
            mistakes.at(".text", "Missing required field");
            mistakes.at(".parameters", "Missing required field");
            mistakes.at("", format!("Invalid JSON object: {body}"));
            return Err(mistakes.0);
        };
        let text = match map.get("text") {
            Some(Json::String(text)) => Some(text.clone()),
            Some(other) => {
                mistakes.at(".text", format!("Got value '{other}' with wrong type, expecting string"));
                None
            }
            None => {
                mistakes.at(".text", "Missing required field");
                None
            }
        };
        let parameters = match map.get("parameters") {
            None | Some(Json::Null) => Some(Vec::new()),
            Some(Json::Object(_)) => Some(named(parameters)),
            Some(other) => {
                mistakes.at(".parameters", format!("Got value '{other}' with wrong type, expecting object"));
                None
            }
        };
        mistakes.or(text.zip(parameters).map(|(text, parameters)| QueryBody { text, parameters }))
    }
}

/// The entries of a map; none of anything else.
pub fn named(parameters: Value) -> Vec<(Text, Value)> {
    match parameters {
        Value::Map(map) => map.iter().cloned().collect(),
        _ => Vec::new(),
    }
}

/// The form of an answer.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Table,
    Drawing(Drawn),
    /// The cells one by one, for Gremlin.
    Values,
}

/// Writes an answer of any form.
pub enum Writer {
    Table(Table),
    Drawing(Drawing),
    Values(Values),
}

impl Writer {
    pub fn new(shape: Shape, plan: &Plan, ids: IdScheme, family: Family) -> Writer {
        match shape {
            Shape::Table => {
                let columns: Vec<Text> = plan.columns.iter().map(|(name, _)| name.clone()).collect();
                Writer::Table(Table::new(&columns, ids, family))
            }
            Shape::Drawing(drawn) => Writer::Drawing(Drawing::new(drawn, ids, family)),
            Shape::Values => Writer::Values(Values::new(ids)),
        }
    }

    /// The error says why the row has no place in this form.
    pub fn row(&mut self, row: &[Value]) -> Result<(), String> {
        match self {
            Writer::Table(table) => {
                table.row(row);
                Ok(())
            }
            Writer::Drawing(drawing) => drawing.row(row),
            Writer::Values(values) => {
                values.row(row);
                Ok(())
            }
        }
    }

    /// What was written and not taken yet; may be taken.
    pub fn written(&mut self) -> &mut Vec<u8> {
        match self {
            Writer::Table(table) => &mut table.body,
            Writer::Drawing(drawing) => &mut drawing.body,
            Writer::Values(values) => &mut values.body,
        }
    }

    pub fn finish(self) -> String {
        match self {
            Writer::Table(table) => table.finish(),
            Writer::Drawing(drawing) => drawing.finish(),
            Writer::Values(values) => values.finish(),
        }
    }
}

/// What a row adds to the results of a socket: `[…]` of a table, or the things that are drawn.
pub fn piece(shape: Shape, row: &[Value], ids: IdScheme, family: Family) -> Result<String, String> {
    match shape {
        Shape::Table => {
            let mut body = b"[".to_vec();
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    body.push(b',');
                }
                write(&tidy(value, family), ids, &mut body);
            }
            body.push(b']');
            Ok(text(body))
        }
        Shape::Drawing(drawn) => {
            let mut drawing = Drawing::new(drawn, ids, family);
            // Who puts the pieces together puts around them what stands around an answer.
            drawing.body.clear();
            drawing.row(row)?;
            Ok(text(drawing.body))
        }
        Shape::Values => {
            let mut values = Values::new(ids);
            values.body.clear();
            values.row(row);
            Ok(text(values.body))
        }
    }
}

/// `{"columns":[…],"results":[[…],…]}`, written row by row as the rows come.
pub struct Table {
    body: Vec<u8>,
    ids: IdScheme,
    family: Family,
    rows: usize,
}

impl Table {
    pub fn new(columns: &[Text], ids: IdScheme, family: Family) -> Table {
        let mut body = opening(family);
        body.extend_from_slice(b"{\"columns\":");
        write(&Value::list(columns.iter().cloned().map(Value::Text).collect()), ids, &mut body);
        body.extend_from_slice(b",\"results\":[");
        Table { body, ids, family, rows: 0 }
    }

    pub fn row(&mut self, row: &[Value]) {
        let separator: &[u8] = if self.rows == 0 { b"[" } else { b",[" };
        self.body.extend_from_slice(separator);
        self.rows += 1;
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                self.body.push(b',');
            }
            write(&tidy(value, self.family), self.ids, &mut self.body);
        }
        self.body.push(b']');
    }

    pub fn finish(mut self) -> String {
        self.body.extend_from_slice(b"]}");
        text(closed(self.body, self.family))
    }
}

/// What the graph view draws.
#[derive(Clone, Copy, PartialEq)]
pub enum Drawn {
    Nodes,
    Edges,
}

/// A JSON array of the nodes (or edges) in the cells, in order. Anything else in a cell is an error, null included.
pub struct Drawing {
    drawn: Drawn,
    body: Vec<u8>,
    ids: IdScheme,
    family: Family,
    cells: usize,
}

impl Drawing {
    pub fn new(drawn: Drawn, ids: IdScheme, family: Family) -> Drawing {
        let mut body = opening(family);
        body.push(b'[');
        Drawing { drawn, body, ids, family, cells: 0 }
    }

    pub fn row(&mut self, row: &[Value]) -> Result<(), String> {
        for value in row {
            if self.cells > 0 {
                self.body.push(b',');
            }
            self.cells += 1;
            match (self.drawn, value) {
                (Drawn::Nodes, Value::FullNode(node)) => self.node(node),
                (Drawn::Edges, Value::FullEdge(edge)) => self.edge(edge),
                (drawn, other) => {
                    let (wanted, place) = match drawn {
                        Drawn::Nodes => ("Node", "node"),
                        Drawn::Edges => ("Relationship", "edge"),
                    };
                    let (shown, kind) = (other.shown(), other.type_name());
                    return Err(format!(
                        "TypeMismatchError Expected type(s) {wanted} but got value {shown} of type {kind} in {place} query return value"
                    ));
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &FullNode) {
        let id = self.ids.text(node.id);
        let mut labels: Vec<&str> = node.labels.iter().map(Text::as_str).collect();
        labels.sort_unstable();
        let label = if labels.is_empty() { format!("ID: {id}") } else { labels.join(":") };
        let entries = [
            ("id", Value::text(&id)),
            ("hostIndex", Value::Integer(0)),
            ("label", Value::text(&label)),
            ("properties", Value::Map(std::sync::Arc::new(node.properties.clone()))),
        ];
        self.object(entries);
    }

    fn edge(&mut self, edge: &FullEdge) {
        let entries = [
            ("from", Value::text(&self.ids.text(edge.key.source))),
            ("edgeType", Value::Text(edge.key.kind.clone())),
            ("to", Value::text(&self.ids.text(edge.key.target))),
            ("isDirected", Value::Boolean(true)),
        ];
        self.object(entries);
    }

    fn object<const N: usize>(&mut self, entries: [(&str, Value); N]) {
        let map = Value::map(entries.map(|(key, value)| (Text::new(key), value)));
        write(&tidy(&map, self.family), self.ids, &mut self.body);
    }

    pub fn finish(mut self) -> String {
        self.body.push(b']');
        text(closed(self.body, self.family))
    }
}

/// A JSON array of the cells, as Gremlin has them: nodes and edges are texts. There is no Gremlin in v2, so no envelope.
pub struct Values {
    body: Vec<u8>,
    ids: IdScheme,
    cells: usize,
}

impl Values {
    fn new(ids: IdScheme) -> Values {
        Values { body: b"[".to_vec(), ids, cells: 0 }
    }

    fn row(&mut self, row: &[Value]) {
        for value in row {
            if self.cells > 0 {
                self.body.push(b',');
            }
            self.cells += 1;
            write(&self.shown(value), self.ids, &mut self.body);
        }
    }

    /// Word for word as it was recorded.
    fn shown(&self, value: &Value) -> Value {
        let id = |id: NodeId| match self.ids {
            IdScheme::Long { .. } => format!("QuineId({:016X})", id.low),
            _ => format!("QuineId({:016X}{:016X})", id.high, id.low),
        };
        match value {
            Value::FullNode(node) => Value::text(&format!("Vertex({})", id(node.id))),
            Value::FullEdge(edge) => {
                Value::text(&format!("Edge({}, {}, {})", id(edge.key.source), edge.key.kind, id(edge.key.target)))
            }
            Value::List(items) => Value::list(items.iter().map(|item| self.shown(item)).collect()),
            Value::Map(map) => Value::map(map.iter().map(|(key, value)| (key.clone(), self.shown(value)))),
            other => other.clone(),
        }
    }

    fn finish(mut self) -> String {
        self.body.push(b']');
        text(self.body)
    }
}

/// What stands around an answer in the preview of v2.
fn opening(family: Family) -> Vec<u8> {
    if family == Family::Preview { b"{\"content\":".to_vec() } else { Vec::new() }
}

fn closed(mut body: Vec<u8>, family: Family) -> Vec<u8> {
    if family == Family::Preview {
        body.extend_from_slice(b",\"warnings\":[]}");
    }
    body
}

/// v2 leaves out the keys of maps whose value is null.
fn tidy(value: &Value, family: Family) -> Cow<'_, Value> {
    if family.is_v2() && has_null_in_map(value) { Cow::Owned(without_nulls(value)) } else { Cow::Borrowed(value) }
}

fn has_null_in_map(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(_, value)| matches!(value, Value::Null) || has_null_in_map(value)),
        Value::List(items) => items.iter().any(has_null_in_map),
        _ => false,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(_, value)| !matches!(value, Value::Null));
            Value::map(kept.map(|(key, value)| (key.clone(), without_nulls(value))))
        }
        Value::List(items) => Value::list(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// The writer only emits UTF-8.
fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use weir_model::{EdgeKey, Map};

    #[test]
    fn tables() {
        let mut table = Table::new(&[Text::new("x"), Text::new("y")], IdScheme::Uuid, Family::V1);
        assert_eq!(Table::new(&[], IdScheme::Uuid, Family::V1).finish(), r#"{"columns":[],"results":[]}"#);
        table.row(&[Value::Integer(1), Value::text("é🌈")]);
        table.row(&[Value::Float(1.0), Value::Null]);
        assert_eq!(table.finish(), r#"{"columns":["x","y"],"results":[[1,"é🌈"],[1.0,null]]}"#);
    }

    #[test]
    fn v2_has_its_own_way_with_nulls() {
        let map = Value::map([("a".into(), Value::Null), ("b".into(), Value::list(vec![Value::Null]))]);
        let written = |family| {
            let mut table = Table::new(&[Text::new("x")], IdScheme::Uuid, family);
            table.row(std::slice::from_ref(&map));
            table.row(&[Value::Null]);
            table.finish()
        };
        assert_eq!(written(Family::V1), r#"{"columns":["x"],"results":[[{"a":null,"b":[null]}],[null]]}"#);
        assert_eq!(written(Family::Current), r#"{"columns":["x"],"results":[[{"b":[null]}],[null]]}"#);
        let enveloped = r#"{"content":{"columns":["x"],"results":[[{"b":[null]}],[null]]},"warnings":[]}"#;
        assert_eq!(written(Family::Preview), enveloped);
    }

    #[test]
    fn drawings_take_nodes_or_edges_only() {
        let id = NodeId::new(1, 2);
        let labels = vec![Text::new("Person"), Text::new("Admin")];
        let node = Value::FullNode(Arc::new(FullNode { id, labels, properties: Map::default() }));
        let key = EdgeKey { source: id, kind: Text::new("KNOWS"), target: id, ordinal: 0 };
        let edge = Value::FullEdge(Arc::new(FullEdge { key, properties: Map::default() }));
        let mut nodes = Drawing::new(Drawn::Nodes, IdScheme::Uuid, Family::V1);
        nodes.row(&[node.clone(), node.clone()]).expect("nodes");
        let shown = nodes.finish();
        assert!(shown.starts_with(
            r#"[{"id":"00000000-0000-0001-0000-000000000002","hostIndex":0,"label":"Admin:Person","properties":{}},{"#
        ));
        let mut edges = Drawing::new(Drawn::Edges, IdScheme::Long { consecutive: false }, Family::V1);
        edges.row(std::slice::from_ref(&edge)).expect("an edge");
        let mut values = Values::new(IdScheme::Uuid);
        values.row(&[Value::list(vec![node.clone()]), edge.clone(), Value::Null]);
        let (id, no) = ("QuineId(00000000000000010000000000000002)", "null");
        assert_eq!(values.finish(), format!(r#"[["Vertex({id})"],"Edge({id}, KNOWS, {id})",{no}]"#));
        assert_eq!(edges.finish(), r#"[{"from":"2","edgeType":"KNOWS","to":"2","isDirected":true}]"#);
        assert_eq!(
            Drawing::new(Drawn::Nodes, IdScheme::Uuid, Family::V1).row(&[Value::Integer(1)]),
            Err("TypeMismatchError Expected type(s) Node but got value 1 of type Integer in node query return value".to_owned())
        );
        assert!(Drawing::new(Drawn::Nodes, IdScheme::Uuid, Family::V1).row(&[Value::Null]).is_err());
    }

    /// In the preview of v2 a part of the envelope was left before the things.
    #[test]
    fn pieces_have_nothing_around_them() {
        let ids = IdScheme::Long { consecutive: false };
        let node = Value::FullNode(Arc::new(FullNode { id: NodeId::new(0, 2), labels: Vec::new(), properties: Map::default() }));
        let key = EdgeKey { source: NodeId::new(0, 2), kind: Text::new("R"), target: NodeId::new(0, 3), ordinal: 0 };
        let edge = Value::FullEdge(Arc::new(FullEdge { key, properties: Map::default() }));
        let nodes = r#"{"id":"2","hostIndex":0,"label":"ID: 2","properties":{}}"#;
        for family in [Family::V1, Family::Preview, Family::Current] {
            let two = piece(Shape::Drawing(Drawn::Nodes), &[node.clone(), node.clone()], ids, family);
            assert_eq!(two, Ok(format!("{nodes},{nodes}")));
            assert_eq!(
                piece(Shape::Drawing(Drawn::Edges), std::slice::from_ref(&edge), ids, family).as_deref(),
                Ok(r#"{"from":"2","edgeType":"R","to":"3","isDirected":true}"#)
            );
            assert_eq!(piece(Shape::Table, &[Value::Integer(1)], ids, family).as_deref(), Ok("[1]"));
            assert_eq!(piece(Shape::Values, &[Value::Integer(1)], ids, family).as_deref(), Ok("1"));
        }
    }

    #[test]
    fn bodies_and_their_mistakes() {
        let errors = |body: Json| QueryBody::decode(&body, Value::Null).err().expect("should have been refused");
        assert_eq!(errors(json!({"parameters": {}})), ["DecodingFailure at .text: Missing required field"]);
        assert_eq!(
            errors(json!({"text": "x", "parameters": [1]})),
            ["DecodingFailure at .parameters: Got value '[1]' with wrong type, expecting object"]
        );
        assert_eq!(errors(json!([])).len(), 3);
        let parameters = Value::map([("a".into(), Value::Integer(1)), ("b".into(), Value::Float(2.5))]);
        let body = QueryBody::decode(&json!({"text": "x", "parameters": {}}), parameters).expect("decodes");
        assert!(matches!(body.parameters[0].1, Value::Integer(1)));
        assert!(matches!(body.parameters[1].1, Value::Float(_)));
        assert!(QueryBody::decode(&json!({"text": "x", "parameters": null}), Value::Null).is_ok());
    }
}
