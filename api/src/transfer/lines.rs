//! JSON Lines: a graph as lines of text, one for each node and each edge, from which an equal graph can be made.
//!
//!     {"type":"graph","format":1,"model":"streaming"}                                  first; other tools may leave it out
//!     {"type":"node","id":"3ae8…","labels":["Person"],"properties":{"name":"Ann"}}      `"created":false` where only what is known of it is there
//!     {"type":"relationship","start":"3ae8…","label":"KNOWS","end":"77d0…","properties":{}}      `"ordinal":1` for a second one
//!
//! Values have the exact form of `weir_model::json::exact`. Lines may stand in any order, and come twice.

use weir_engine::GraphOptions;
use weir_engine::transfer::{EdgeItem, Item, NodeItem};
use weir_model::json::{parse, read_exact_map, write, write_exact_map, write_string};
use weir_model::{IdScheme, Map, NodeId, Text, Value};

const FORMAT: i64 = 1;

/// What a line says.
#[derive(Debug)]
pub enum Line {
    /// The first: the graph model, where it names one.
    Graph(Option<GraphOptions>),
    Item(Item),
}

pub fn write_head(model: GraphOptions, out: &mut Vec<u8>) {
    let model = model.name();
    out.extend_from_slice(format!("{{\"type\":\"graph\",\"format\":{FORMAT},\"model\":\"{model}\"}}\n").as_bytes());
}

pub fn write_item(item: &Item, ids: IdScheme, open_cypher: bool, out: &mut Vec<u8>) {
    match item {
        Item::Node(node) => {
            out.extend_from_slice(b"{\"type\":\"node\",\"id\":");
            write_string(&ids.text(node.id), out);
            // In the other model no node is created, and there is nothing to say.
            out.extend_from_slice(if open_cypher && !node.created { b",\"created\":false" } else { b"" });
            out.extend_from_slice(b",\"labels\":");
            write(&Value::list(node.labels.iter().cloned().map(Value::Text).collect()), ids, out);
            out.extend_from_slice(b",\"properties\":");
            write_exact_map(&node.properties, out);
        }
        Item::Edge(edge) => {
            for (before, text) in [
                (&b"{\"type\":\"relationship\",\"start\":"[..], ids.text(edge.source)),
                (b",\"label\":", edge.kind.to_string()),
                (b",\"end\":", ids.text(edge.target)),
            ] {
                out.extend_from_slice(before);
                write_string(&text, out);
            }
            if edge.ordinal > 0 {
                out.extend_from_slice(format!(",\"ordinal\":{}", edge.ordinal).as_bytes());
            }
            out.extend_from_slice(b",\"properties\":");
            write_exact_map(&edge.properties, out);
        }
    }
    out.extend_from_slice(b"}\n");
}

/// What a line says, or what is wrong with it. An empty one says nothing.
pub fn read_line(line: &[u8], ids: IdScheme) -> Result<Option<Line>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let parsed = parse(line).map_err(|error| format!("this is no JSON: {}", error.message))?;
    let Value::Map(map) = parsed else { return Err("a line is an object with a `type`".to_owned()) };
    let line = Fields { map: &map, ids };
    match line.text("type")?.as_str() {
        "graph" => match map.get("format") {
            Some(Value::Integer(FORMAT)) => Ok(Some(Line::Graph(line.model()?))),
            _ => Err("this was written by a newer weir, or is no export".to_owned()),
        },
        "node" => {
            let labels = match map.get("labels") {
                None => Vec::new(),
                Some(Value::List(labels)) => labels.iter().map(as_text).collect::<Option<_>>().ok_or("`labels` are texts")?,
                Some(_) => return Err("`labels` is a list".to_owned()),
            };
            // Written by another tool, a node is one that was created.
            let created = !matches!(map.get("created"), Some(Value::Boolean(false)));
            let node = NodeItem { id: line.id("id")?, created, labels, properties: line.properties()? };
            Ok(Some(Line::Item(Item::Node(node))))
        }
        "relationship" => {
            let ordinal = match map.get("ordinal") {
                None => 0,
                Some(Value::Integer(n)) => u32::try_from(*n).map_err(|_| "`ordinal` is a small number")?,
                Some(_) => return Err("`ordinal` is a number".to_owned()),
            };
            let (source, target) = (line.id("start")?, line.id("end")?);
            let edge = EdgeItem { source, kind: line.text("label")?, target, ordinal, properties: line.properties()? };
            Ok(Some(Line::Item(Item::Edge(edge))))
        }
        other => Err(format!("`type` is 'node' or 'relationship', not '{other}'")),
    }
}

struct Fields<'a> {
    map: &'a Map,
    ids: IdScheme,
}

impl Fields<'_> {
    fn text(&self, key: &str) -> Result<Text, String> {
        self.map.get(key).and_then(as_text).ok_or_else(|| format!("`{key}` is missing, or no text"))
    }

    fn id(&self, key: &str) -> Result<NodeId, String> {
        let text = self.text(key)?;
        self.ids.parse(&text).ok_or_else(|| format!("`{key}`: '{text}' is no id here; the scheme is set by weir.id.type"))
    }

    fn model(&self) -> Result<Option<GraphOptions>, String> {
        if self.map.get("model").is_none() {
            return Ok(None);
        }
        let name = self.text("model")?;
        let unknown = || format!("`model` is 'streaming' or 'open-cypher', not '{name}'");
        GraphOptions::named(&name).map(Some).ok_or_else(unknown)
    }

    /// The properties in `properties`, and those that a table has no column for.
    fn properties(&self) -> Result<Map, String> {
        let mut properties = Map::default();
        for field in ["properties", "other"] {
            match self.map.get(field) {
                None => {}
                Some(Value::Map(map)) => {
                    let read = read_exact_map(map).ok_or_else(|| format!("`{field}` has a map with `$` that means nothing"))?;
                    if properties.is_empty() {
                        properties = read;
                    } else {
                        read.iter().for_each(|(key, value)| properties.insert(key.clone(), value.clone()));
                    }
                }
                Some(_) => return Err(format!("`{field}` is an object")),
            }
        }
        Ok(properties)
    }
}

fn as_text(value: &Value) -> Option<Text> {
    if let Value::Text(text) = value { Some(text.clone()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let ids = IdScheme::default();
        let properties: Map =
            [("a b".into(), Value::Float(2.0)), ("$x".into(), Value::Bytes(vec![1].into()))].into_iter().collect();
        let (source, target) = (NodeId::new(1, 2), NodeId::new(3, 4));
        let node =
            NodeItem { id: source, created: true, labels: vec!["A".into(), "b \"c".into()], properties: properties.clone() };
        let edge = EdgeItem { source, kind: "R".into(), target, ordinal: 2, properties };
        for item in [Item::Node(node), Item::Edge(edge)] {
            let mut text = Vec::new();
            write_item(&item, ids, true, &mut text);
            let Some(Line::Item(again)) = read_line(&text, ids).unwrap() else { panic!("{text:?}") };
            assert_eq!(format!("{item:?}"), format!("{again:?}"));
        }
        for open_cypher in [false, true] {
            let mut head = Vec::new();
            write_head(GraphOptions { open_cypher }, &mut head);
            let read = read_line(&head, ids).unwrap();
            assert!(matches!(read, Some(Line::Graph(Some(model))) if model.open_cypher == open_cypher), "{read:?}");
        }
        let without = read_line(br#"{"type":"graph","format":1}"#, ids).unwrap();
        assert!(matches!(without, Some(Line::Graph(None))), "{without:?}");
        assert!(read_line(b" \r", ids).unwrap().is_none());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, reason) in [
            ("{", "this is no JSON"),
            ("[]", "a line is an object"),
            ("{}", "`type` is missing"),
            (r#"{"type":"nod"}"#, "not 'nod'"),
            (r#"{"type":"graph","format":2}"#, "a newer weir"),
            (r#"{"type":"graph","format":1,"model":"zzz"}"#, "not 'zzz'"),
            (r#"{"type":"graph","format":1,"model":1}"#, "`model` is missing, or no text"),
            (r#"{"type":"node"}"#, "`id` is missing"),
            (r#"{"type":"node","id":"x"}"#, "'x' is no id here"),
            (r#"{"type":"node","id":"00000000-0000-0000-0000-000000000001","labels":[1]}"#, "`labels` are texts"),
            (r#"{"type":"node","id":"00000000-0000-0000-0000-000000000001","properties":{"a":{"$b":1}}}"#, "means nothing"),
        ] {
            let error = read_line(line.as_bytes(), IdScheme::default()).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
