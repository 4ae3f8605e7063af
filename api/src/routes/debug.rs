//! Single nodes, past Cypher: what is known of one, its edges, and in v1 changes of them.
//!
//! An edge is one thing here, with a half at each end, so there are no halves without the other.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json, json};
use warp::http::StatusCode;
use weir_connectors::{Encoder, Envelope, Generation, Meta};
use weir_cypher_compiler::quoted_name;
use weir_engine::Graph;
use weir_model::{FullNode, Map, NodeId, Text, Tick, Value};

use super::reply::{Reply, blocking};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::queries::fixed::{Fixed, node_id};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::half_edge::{EdgeDirection, HalfEdge};

const NODE: &str = "MATCH (n) WHERE id(n) = $id RETURN n";
const OUTGOING: &str = "MATCH (n)-[r]->(m) WHERE id(n) = $id RETURN type(r), id(m)";
const INCOMING: &str = "MATCH (n)<-[r]-(m) WHERE id(n) = $id RETURN type(r), id(m)";
const SET: &str = "MATCH (n) WHERE id(n) = $id SET n += $properties";
const INSIDE: &str = "CALL debug.node($id) YIELD journal, graphNodeHashCode RETURN journal, graphNodeHashCode";
const CLEAR: &str = "MATCH (n) WHERE id(n) = $id DETACH DELETE n";

/// The node a request is about.
struct Place {
    app: Arc<App>,
    graph: Graph,
    id: NodeId,
    at: Option<Tick>,
    family: Family,
}

impl Place {
    fn of(app: Arc<App>, request: &Request) -> Result<Place, ApiError> {
        let id = request.node(&app, 0)?;
        let common = request.common(&app)?;
        Ok(Place { graph: common.graph, at: common.at, id, family: request.family, app })
    }

    fn ask(&self) -> Fixed<'_> {
        Fixed::new(&self.app, &self.graph, self.at)
    }

    fn node(&self) -> Result<Option<Arc<FullNode>>, ApiError> {
        let ask = self.ask();
        let rows = ask.rows(NODE, &[("id", ask.id(self.id))])?;
        Ok(rows.into_iter().flatten().find_map(|value| if let Value::FullNode(node) = value { Some(node) } else { None }))
    }

    fn edges(&self) -> Result<Vec<HalfEdge>, ApiError> {
        let ask = self.ask();
        let mut edges = Vec::new();
        for (text, direction) in [(OUTGOING, EdgeDirection::Outgoing), (INCOMING, EdgeDirection::Incoming)] {
            for row in ask.rows(text, &[("id", ask.id(self.id))])? {
                if let [Value::Text(kind), other] = row.as_slice()
                    && let Some(other) = node_id(other)
                {
                    edges.push(HalfEdge { edge_type: kind.to_string(), direction, other });
                }
            }
        }
        Ok(edges)
    }

    /// Values as this family writes them.
    fn properties(&self, properties: &Map) -> Json {
        let generation = if self.family == Family::V1 { Generation::V1 } else { Generation::V2 };
        let encoder = Encoder { envelope: Envelope::Bare, generation, ids: self.graph.ids() };
        let mut body = Vec::new();
        encoder.row(&Meta::default(), properties, &mut body);
        serde_json::from_slice(&body).unwrap_or(Json::Null)
    }

    fn edges_json(&self, edges: &[HalfEdge]) -> Json {
        edges.iter().map(|edge| edge.to_json(self.graph.ids())).collect()
    }

    /// Adds or removes an edge with both its halves.
    fn change(&self, edge: &HalfEdge, remove: bool) -> Result<(), ApiError> {
        let (from, to) = match edge.direction {
            EdgeDirection::Incoming => (edge.other, self.id),
            _ => (self.id, edge.other),
        };
        let kind = quoted_name(&edge.edge_type);
        let text = if remove {
            format!("MATCH (a)-[r:{kind}]->(b) WHERE id(a) = $a AND id(b) = $b DELETE r")
        } else {
            format!("MATCH (a), (b) WHERE id(a) = $a AND id(b) = $b MERGE (a)-[:{kind}]->(b)")
        };
        let ask = self.ask();
        ask.rows(&text, &[("a", ask.id(from)), ("b", ask.id(to))]).map(drop)
    }

    fn set(&self, properties: Value) -> Result<(), ApiError> {
        let ask = self.ask();
        ask.rows(SET, &[("id", ask.id(self.id)), ("properties", properties)]).map(drop)
    }
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    blocking(move || {
        let properties = place.node()?.map_or_else(|| json!({}), |node| place.properties(&node.properties));
        Ok(Reply::Value(json!({"properties": properties, "edges": place.edges_json(&place.edges()?)})))
    })
    .await
}

/// With what is behind it: labels, the kinds of values, and what happened to it. v2 has it as a text.
pub async fn verbose(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    blocking(move || {
        let node = place.node()?;
        let kinds = |node: &FullNode| {
            let shown = node.properties.iter().map(|(key, value)| (key.to_string(), kind_text(value)));
            Json::Object(shown.collect::<JsonMap<_, _>>())
        };
        let labels = node.iter().flat_map(|node| node.labels.iter().map(Text::as_str));
        let ask = place.ask();
        let inside = ask.rows(INSIDE, &[("id", ask.id(place.id))])?.into_iter().flatten();
        let mut inside = place.properties(&["journal", "hash"].map(Text::new).into_iter().zip(inside).collect());
        let state = json!({
            "properties": node.as_ref().map_or_else(|| json!({}), |node| kinds(node)),
            "labels": labels.collect::<Vec<_>>(),
            "edges": place.edges_json(&place.edges()?),
            "subscribers": [],
            "subscriptions": [],
            "journal": inside["journal"].take(),
            "graphNodeHashCode": inside["hash"].take(),
        });
        Ok(Reply::Value(if place.family == Family::V1 { state } else { state.to_string().into() }))
    })
    .await
}

fn kind_text(value: &Value) -> Json {
    format!("{}({})", value.type_name(), value.shown()).into()
}

pub async fn property(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let key = request.required("key")?.to_owned();
    let place = Place::of(app, &request)?;
    blocking(move || {
        let value = place.node()?.and_then(|node| node.properties.get(&key).cloned());
        match (value, place.family) {
            (None, Family::V1) => Err(ApiError::absent("property", &key)),
            (None, _) => Ok(Reply::Value(Json::Null)),
            (Some(value), _) => {
                let mut shown = place.properties(&Map::from_iter([(Text::new(&key), value)]));
                Ok(Reply::Value(shown.get_mut(&key).map(Json::take).unwrap_or_default()))
            }
        }
    })
    .await
}

pub async fn edges(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut mistakes = Vec::new();
    let limit = request.integer(&["limit"], &mut mistakes);
    let direction = request.parsed(&["direction"], "direction", &mut mistakes, EdgeDirection::parse);
    let ids = app.settings.ids;
    let other = request.parsed(&["other"], "ID", &mut mistakes, |text| ids.parse(text));
    request.boolean(&["onlyFull"], &mut mistakes);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let kind = request.parameter("type").map(str::to_owned);
    let place = Place::of(app, &request)?;
    blocking(move || {
        let mut edges = place.edges()?;
        edges.retain(|edge| {
            direction.is_none_or(|wanted| wanted == edge.direction)
                && other.is_none_or(|wanted| wanted == edge.other)
                && kind.as_ref().is_none_or(|wanted| *wanted == edge.edge_type)
        });
        // As the reference has it: none, and 0, do not limit.
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            edges.truncate(limit as usize);
        }
        Ok(Reply::Value(place.edges_json(&edges)))
    })
    .await
}

/// Sets what is named and leaves the rest.
pub async fn put(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    let (body, values) = request.data_with("properties")?;
    let mut mistakes = Mistakes::default();
    let read = Fields::of(&body, "", &mut mistakes).and_then(|fields| {
        let properties = fields.required("properties", &mut mistakes);
        let edges = fields.required("edges", &mut mistakes)?;
        if let Some(other) = properties.filter(|value| !value.is_object()) {
            mistakes.at(".properties", format!("Got value '{other}' with wrong type, expecting object"));
        }
        let edges = HalfEdge::decode_list(edges, ".edges", place.graph.ids(), &mut mistakes);
        properties.and(Some((values, edges?)))
    });
    let (properties, edges) = mistakes.or(read).map_err(ApiError::Decode)?;
    changed(move || {
        place.set(properties)?;
        edges.iter().try_for_each(|edge| place.change(edge, false))
    })
    .await
}

pub async fn delete(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    changed(move || {
        let ask = place.ask();
        ask.rows(CLEAR, &[("id", ask.id(place.id))]).map(drop)
    })
    .await
}

pub async fn put_property(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let key = Text::new(request.required("key")?);
    let value = request.value()?;
    let place = Place::of(app, &request)?;
    changed(move || place.set(Value::map([(key, value)]))).await
}

pub async fn delete_property(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let key = Text::new(request.required("key")?);
    let place = Place::of(app, &request)?;
    changed(move || place.set(Value::map([(key, Value::Null)]))).await
}

pub async fn put_edges(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    change_edges(app, request, false).await
}

pub async fn delete_edges(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    change_edges(app, request, true).await
}

async fn change_edges(app: Arc<App>, request: Request, remove: bool) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    let body = request.data()?;
    let mut mistakes = Mistakes::default();
    let edges = HalfEdge::decode_list(&body, "", place.graph.ids(), &mut mistakes);
    let edges = mistakes.or(edges).map_err(ApiError::Decode)?;
    changed(move || edges.iter().try_for_each(|edge| place.change(edge, remove))).await
}

async fn changed(change: impl FnOnce() -> Result<(), ApiError> + Send + 'static) -> Result<Reply, ApiError> {
    blocking(change).await?;
    Ok(Reply::Empty(StatusCode::OK))
}
