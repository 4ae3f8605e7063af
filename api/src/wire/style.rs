//! What the explorer offers and how it draws nodes: sample queries, quick queries, appearances, tap queries. Read from any
//! family's notation, kept in that of v1, shown in each.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map as JsonMap, Value as Json, json};

use super::decode::{Fields, Mistakes};
use super::family::Family;
use super::icons::glyph;

/// A query that the explorer offers to run.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "Recent nodes", "query": "CALL recentNodes(10)"}]))]
pub struct SampleQuery {
    /// The name that is shown.
    pub name: String,
    /// The Cypher query.
    pub query: String,
}

/// Which nodes a rule applies to. All conditions have to hold; without any, every node fits.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Predicate {
    /// Properties that the node must have, with any value.
    pub property_keys: Vec<String>,
    /// Properties that the node must have with these values.
    pub known_values: JsonMap<String, Json>,
    /// A label that the node must have. None is needed when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_label: Option<String>,
}

/// An entry of the menu that the explorer shows for a node.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuickQueryEntry {
    /// Which nodes have this entry.
    pub predicate: Predicate,
    /// What the entry does.
    pub quick_query: QuickQuery,
}

/// A query about a node that a user has clicked on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuickQuery {
    /// The name that the menu shows.
    pub name: String,
    /// The rest of a query that begins with `MATCH (n) WHERE id(n) = …`, for example `MATCH (n)--(m) RETURN DISTINCT m`.
    pub query_suffix: String,
    /// The language of `querySuffix`.
    #[serde(default)]
    #[schemars(extend("x-only-v1" = true))]
    pub query_language: QueryLanguage,
    /// How the answer is shown.
    pub sort: QuerySort,
    /// If given, a dashed edge with this label is drawn from the node to each result. Such edges are not in the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge_label: Option<String>,
}

/// The language of a quick query.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub enum QueryLanguage {
    /// Cypher.
    #[default]
    Cypher,
    /// Gremlin. It is stored, and the explorer does not run it.
    Gremlin,
}

/// How the answer of a quick query is shown.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(extend("x-words" = true, "x-tagged" = true))]
pub enum QuerySort {
    /// As nodes on the canvas.
    Node,
    /// As a table.
    Text,
}

/// How the explorer draws nodes. The first rule that fits a node counts.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("examples" = [{"predicate": {"propertyKeys": ["name"], "knownValues": {}, "dbLabel": "Person"}, "size": 30.0, "icon": "ion-person", "color": "#d11"}]))]
pub struct NodeAppearance {
    /// Which nodes the rule is for.
    pub predicate: Predicate,
    /// The size of the node, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<f64>,
    /// The name of an Ionicons 2 icon, such as `ion-person`, or any character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// A CSS color, such as `#ff0000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The text below the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<NodeLabel>,
}

/// The text below a node.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum NodeLabel {
    /// The same text for all nodes.
    Constant {
        /// The text.
        value: String,
    },
    /// The value of a property.
    Property {
        /// The name of the property.
        key: String,
        /// A text to put before the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
    },
}

/// A query for each result of a standing query that somebody watches. Tap queries are stored and listed; weir does not run them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"name": "who", "standingQueryName": "adults", "query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n"}]))]
pub struct TapQuery {
    /// The name of the tap query.
    pub name: String,
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The standing query whose results are watched.
    pub standing_query_name: String,
    /// The output whose results are watched. Without it, the results of the standing query itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_name: Option<String>,
    /// Whether results are taken before the enrichment of the output. False when not given.
    #[serde(default)]
    pub pre_enrichment: bool,
    /// A Cypher query that only reads. The result is `$that`.
    pub query: String,
    /// Edges to draw that are not in the graph. None when not given.
    #[serde(default)]
    pub synthetic_edges: Vec<SyntheticEdge>,
}

/// An edge that is drawn and is not in the graph.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyntheticEdge {
    /// Where a client finds the id of the node that the edge begins at. weir stores the text as it is.
    pub from_node: String,
    /// Where a client finds the id of the node that the edge leads to. weir stores the text as it is.
    pub to_node: String,
    /// The text at the edge.
    pub label: String,
    /// How the edge is drawn.
    pub direction: EdgeDirection,
    /// Where `fromNode` and `toNode` are looked up. In the watched result when not given.
    #[serde(default)]
    pub node_ids_from: NodeIdsFrom,
}

/// The direction in which an edge is drawn.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "SyntheticEdgeDirection")]
pub enum EdgeDirection {
    /// From `fromNode` to `toNode`.
    Out,
    /// From `toNode` to `fromNode`.
    In,
    /// Without a direction.
    Undirected,
}

/// Where the nodes of a drawn edge are looked up.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeIdsFrom {
    /// In the result that is watched.
    #[default]
    WiretapMessage,
    /// In the answer of the query.
    QueryResult,
}

/// One of the lists.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum List {
    Samples,
    Quick,
    Appearances,
    Taps,
}

impl List {
    /// Under which it is stored; tap queries belong to a graph, whose prefix stands before it.
    pub fn key(self) -> &'static str {
        match self {
            List::Samples => "sample_queries",
            List::Quick => "quick_queries",
            List::Appearances => "node_appearances",
            List::Taps => "tap_queries",
        }
    }

    /// A replacement of the list, checked, in the form in which it is stored.
    pub fn decode(self, body: &Json) -> Result<Json, Vec<String>> {
        let Json::Array(items) = body else {
            return Err(vec![format!("DecodingFailure at : Got value '{body}' with wrong type, expecting array")]);
        };
        let mut mistakes = Mistakes::default();
        let decoded = items.iter().enumerate().map(|(index, item)| {
            let path = format!("[{index}]");
            let fields = Fields::of(item, &path, &mut mistakes)?;
            let value = match self {
                List::Samples => serde_json::to_value(sample(&fields, &mut mistakes)?),
                List::Quick => serde_json::to_value(quick(&fields, &path, &mut mistakes)?),
                List::Appearances => serde_json::to_value(appearance(&fields, &path, &mut mistakes)?),
                List::Taps => serde_json::to_value(tap(&fields, &path, &mut mistakes)?),
            };
            value.ok()
        });
        let decoded = decoded.collect::<Vec<Option<Json>>>();
        mistakes.or(Some(decoded.into_iter().flatten().collect()))
    }

    /// What there is before anybody has replaced it.
    pub fn usual(self) -> Json {
        let all = json!({"propertyKeys": [], "knownValues": {}});
        let labelled = |label: &str| json!({"propertyKeys": [], "knownValues": {}, "dbLabel": label});
        let quick = |name: &str, suffix: &str, sort: &str| json!({"predicate": all, "quickQuery": {"name": name, "querySuffix": suffix, "queryLanguage": "Cypher", "sort": sort}});
        match self {
            List::Samples => json!([
                {"name": "Get a few recent nodes", "query": "CALL recentNodes(10)"},
                {"name": "Get nodes by their ID(s)", "query": "MATCH (n) WHERE id(n) = idFrom(0) RETURN n"},
            ]),
            List::Quick => json!([
                quick("Adjacent Nodes", "MATCH (n)--(m) RETURN DISTINCT m", "Node"),
                quick("Refresh", "RETURN n", "Node"),
                quick("Local Properties", "RETURN id(n), properties(n)", "Text"),
            ]),
            List::Appearances => json!([
                {"predicate": labelled("Person"), "icon": "\u{f47e}", "label": {"type": "Property", "key": "name"}},
                {"predicate": labelled("File"), "icon": "\u{f381}", "label": {"type": "Property", "key": "path", "prefix": "File path: "}},
            ]),
            List::Taps => json!([]),
        }
    }

    /// What is stored, in the notation of a family.
    pub fn shown(self, mut stored: Json, family: Family) -> Json {
        if self == List::Quick && family.is_v2() {
            for entry in stored.as_array_mut().into_iter().flatten() {
                let Some(quick) = entry.get_mut("quickQuery").and_then(Json::as_object_mut) else { continue };
                quick.remove("queryLanguage");
                if let Some(Json::String(sort)) = quick.get("sort") {
                    let sort = if family == Family::Preview { json!({"type": sort}) } else { family.word(sort).into() };
                    quick.insert("sort".to_owned(), sort);
                }
            }
        }
        stored
    }
}

fn sample(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Option<SampleQuery> {
    let name = fields.required_text("name", mistakes);
    Some(SampleQuery { query: fields.required_text("query", mistakes)?, name: name? })
}

fn predicate(fields: &Fields<'_>, path: &str, mistakes: &mut Mistakes) -> Option<Predicate> {
    let inner = Fields::of(fields.required("predicate", mistakes)?, &format!("{path}.predicate"), mistakes)?;
    inner.required("propertyKeys", mistakes)?;
    let property_keys = inner.text_list("propertyKeys", mistakes)?;
    let known_values = match inner.required("knownValues", mistakes)? {
        Json::Object(values) => values.clone(),
        other => {
            mistakes.at(&inner.path_of("knownValues"), format!("Got value '{other}' with wrong type, expecting object"));
            return None;
        }
    };
    Some(Predicate { property_keys, known_values, db_label: inner.text("dbLabel", mistakes) })
}

fn quick(fields: &Fields<'_>, path: &str, mistakes: &mut Mistakes) -> Option<QuickQueryEntry> {
    let predicate = predicate(fields, path, mistakes);
    let inner = Fields::of(fields.required("quickQuery", mistakes)?, &format!("{path}.quickQuery"), mistakes)?;
    let query_language = match inner.get("queryLanguage") {
        // Only v1 has another one.
        None => QueryLanguage::Cypher,
        Some(_) => match inner.word("queryLanguage", &["Gremlin", "Cypher"], mistakes)? {
            "Gremlin" => QueryLanguage::Gremlin,
            _ => QueryLanguage::Cypher,
        },
    };
    inner.required("sort", mistakes)?;
    let sort = match inner.any_word("sort", &["Node", "Text"], mistakes)? {
        "Node" => QuerySort::Node,
        _ => QuerySort::Text,
    };
    let quick_query = QuickQuery {
        name: inner.required_text("name", mistakes)?,
        query_suffix: inner.required_text("querySuffix", mistakes)?,
        query_language,
        sort,
        edge_label: inner.text("edgeLabel", mistakes),
    };
    Some(QuickQueryEntry { predicate: predicate?, quick_query })
}

fn appearance(fields: &Fields<'_>, path: &str, mistakes: &mut Mistakes) -> Option<NodeAppearance> {
    let predicate = predicate(fields, path, mistakes);
    let size = fields.get("size").and_then(|value| {
        let number = value.as_f64();
        if number.is_none() {
            mistakes.at(&fields.path_of("size"), "Double");
        }
        number
    });
    let label = match fields.get("label") {
        None => None,
        Some(value) => {
            let (inner, kind) = Fields::tagged(value, "", mistakes)?;
            match kind {
                "Constant" => Some(NodeLabel::Constant { value: inner.required_text("value", mistakes)? }),
                "Property" => {
                    let key = inner.required_text("key", mistakes)?;
                    Some(NodeLabel::Property { key, prefix: inner.text("prefix", mistakes) })
                }
                other => {
                    mistakes.at("", format!("No decoder for discriminator '{other}'!"));
                    return None;
                }
            }
        }
    };
    let icon = fields.text("icon", mistakes).map(|icon| glyph(&icon));
    Some(NodeAppearance { size, icon, color: fields.text("color", mistakes), label, predicate: predicate? })
}

fn tap(fields: &Fields<'_>, path: &str, mistakes: &mut Mistakes) -> Option<TapQuery> {
    let edges = match fields.get("syntheticEdges") {
        None => Vec::new(),
        Some(Json::Array(edges)) => {
            let edge = |(index, edge)| synthetic_edge(edge, &format!("{path}.syntheticEdges[{index}]"), mistakes);
            edges.iter().enumerate().map(edge).collect::<Option<_>>()?
        }
        Some(other) => {
            let problem = format!("Got value '{other}' with wrong type, expecting array");
            mistakes.at(&fields.path_of("syntheticEdges"), problem);
            return None;
        }
    };
    Some(TapQuery {
        name: fields.required_text("name", mistakes)?,
        description: fields.text("description", mistakes),
        standing_query_name: fields.required_text("standingQueryName", mistakes)?,
        output_name: fields.text("outputName", mistakes),
        pre_enrichment: fields.boolean("preEnrichment", mistakes).unwrap_or(false),
        query: fields.required_text("query", mistakes)?,
        synthetic_edges: edges,
    })
}

fn synthetic_edge(value: &Json, path: &str, mistakes: &mut Mistakes) -> Option<SyntheticEdge> {
    let fields = Fields::of(value, path, mistakes)?;
    fields.required("direction", mistakes)?;
    let direction = match fields.any_word("direction", &["Out", "In", "Undirected"], mistakes)? {
        "Out" => EdgeDirection::Out,
        "In" => EdgeDirection::In,
        _ => EdgeDirection::Undirected,
    };
    let node_ids_from = match fields.get("nodeIdsFrom") {
        None => NodeIdsFrom::WiretapMessage,
        Some(_) => match fields.any_word("nodeIdsFrom", &["WiretapMessage", "QueryResult"], mistakes)? {
            "QueryResult" => NodeIdsFrom::QueryResult,
            _ => NodeIdsFrom::WiretapMessage,
        },
    };
    Some(SyntheticEdge {
        from_node: fields.required_text("fromNode", mistakes)?,
        to_node: fields.required_text("toNode", mistakes)?,
        label: fields.required_text("label", mistakes)?,
        direction,
        node_ids_from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_at_first_is_as_it_would_be_sent() {
        for list in [List::Samples, List::Quick, List::Appearances, List::Taps] {
            assert_eq!(list.decode(&list.usual()), Ok(list.usual()), "{list:?}");
        }
    }

    #[test]
    fn sorts_are_spelt_as_the_family_does() {
        for sort in [json!("Text"), json!("TEXT"), json!({"type": "Text"})] {
            let body = json!([{"predicate": {"propertyKeys": [], "knownValues": {}}, "quickQuery": {"name": "n", "querySuffix": "s", "sort": sort}}]);
            let stored = List::Quick.decode(&body).expect("is read");
            assert_eq!(stored[0]["quickQuery"]["sort"], "Text");
            assert_eq!(List::Quick.shown(stored.clone(), Family::Preview)[0]["quickQuery"]["sort"], json!({"type": "Text"}));
            assert_eq!(List::Quick.shown(stored, Family::Current)[0]["quickQuery"]["sort"], "TEXT");
        }
    }

    #[test]
    fn mistakes_name_their_place() {
        for (list, body, expected) in [
            (List::Samples, json!([{"name": "a"}]), "DecodingFailure at .query: Missing required field"),
            (List::Samples, json!({}), "DecodingFailure at : Got value '{}' with wrong type, expecting array"),
            (
                List::Appearances,
                json!([{"predicate": {"propertyKeys": [], "knownValues": {}}, "size": "big"}]),
                "DecodingFailure at [0].size: Double",
            ),
            (List::Taps, json!([{"name": "t"}]), "DecodingFailure at .standingQueryName: Missing required field"),
        ] {
            assert_eq!(list.decode(&body), Err(vec![expected.to_owned()]));
        }
    }
}
