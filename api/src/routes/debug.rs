//! Single nodes, past Cypher: what is known of one, its edges, and in v1 changes of them.
//!
//! An edge is one thing here, with a half at each end, so there are no halves without the other.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map as JsonMap, Value as Json, json};
use warp::http::StatusCode;
use weir_connectors::{Encoder, Envelope, Generation, Meta};
use weir_cypher_compiler::quoted_name;
use weir_engine::Graph;
use weir_model::{FullNode, Map, NodeId, Text, Tick, Value};

use super::reply::{Reply, blocking, reading};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::queries::fixed::{Fixed, node_id};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::half_edge::{EdgeDirection, HalfEdge};

const NODE: &str = "MATCH (n) WHERE id(n) = $id RETURN n";
const SET: &str = "MATCH (n) WHERE id(n) = $id SET n += $properties";
const INSIDE: &str = "CALL debug.node($id) YIELD journal, graphNodeHashCode RETURN journal, graphNodeHashCode";
const CLEAR: &str = "MATCH (n) WHERE id(n) = $id DETACH DELETE n";

/// What an edge takes until its answer has left, beside its type: as JSON, and as the text made of it.
const EDGE_BYTES: usize = 1 << 10;

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

    fn node(&self, gone: &AtomicBool) -> Result<Option<Arc<FullNode>>, ApiError> {
        let ask = self.ask().until(gone);
        let rows = ask.rows(NODE, &[("id", ask.id(self.id))])?;
        Ok(rows.into_iter().flatten().find_map(|value| if let Value::FullNode(node) = value { Some(node) } else { None }))
    }

    fn edges(&self, wanted: &Wanted, gone: &AtomicBool) -> Result<Json, ApiError> {
        let (ask, ids) = (self.ask().until(gone), self.graph.ids());
        let mut parameters = vec![("id", ask.id(self.id))];
        parameters.extend(wanted.other.map(|other| ("other", ask.id(other))));
        let most = wanted.limit.unwrap_or(usize::MAX);
        let (mut edges, mut bytes) = (Vec::new(), 0);
        for direction in [EdgeDirection::Outgoing, EdgeDirection::Incoming] {
            let Some(text) = wanted.query(direction).filter(|_| edges.len() < most) else { continue };
            let mut fits = Ok(());
            ask.each(&text, &parameters, &mut |row| {
                if let [Value::Text(kind), other] = row
                    && let Some(other) = node_id(other)
                {
                    bytes += EDGE_BYTES + kind.len();
                    fits = ask.may_hold(bytes);
                    edges.push(HalfEdge { edge_type: kind.to_string(), direction, other }.to_json(ids));
                }
                if fits.is_ok() && edges.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            fits?;
        }
        Ok(Json::Array(edges))
    }

    /// Values as this family writes them.
    fn properties(&self, properties: &Map) -> Json {
        let generation = if self.family == Family::V1 { Generation::V1 } else { Generation::V2 };
        let encoder = Encoder { envelope: Envelope::Bare, generation, ids: self.graph.ids() };
        let mut body = Vec::new();
        encoder.row(&Meta::default(), properties, &mut body);
        serde_json::from_slice(&body).unwrap_or(Json::Null)
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

/// The edges of a node that are asked for; all of them where nothing is said.
#[derive(Default)]
struct Wanted {
    direction: Option<EdgeDirection>,
    kind: Option<String>,
    other: Option<NodeId>,
    limit: Option<usize>,
}

impl Wanted {
    /// Finds those of one direction. None where there can be none.
    fn query(&self, direction: EdgeDirection) -> Option<String> {
        if self.direction.is_some_and(|wanted| wanted != direction) || self.kind.as_deref() == Some("") {
            return None;
        }
        let kind = self.kind.as_ref().map(|kind| format!(":{}", quoted_name(kind))).unwrap_or_default();
        let (from, to) = if direction == EdgeDirection::Incoming { ("<-", "-") } else { ("-", "->") };
        let other = if self.other.is_some() { " AND id(m) = $other" } else { "" };
        Some(format!("MATCH (n){from}[r{kind}]{to}(m) WHERE id(n) = $id{other} RETURN type(r), id(m)"))
    }
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    reading(move |gone| {
        let properties = place.node(gone)?.map_or_else(|| json!({}), |node| place.properties(&node.properties));
        let mut body = json!({"properties": properties, "edges": null});
        // Put there, where the macro would copy them.
        body["edges"] = place.edges(&Wanted::default(), gone)?;
        Ok(Reply::Value(body))
    })
    .await
}

/// With what is behind it: labels, the kinds of values, and what happened to it. v2 has it as a text.
pub async fn verbose(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let place = Place::of(app, &request)?;
    reading(move |gone| {
        let node = place.node(gone)?;
        let kinds = |node: &FullNode| {
            let shown = node.properties.iter().map(|(key, value)| (key.to_string(), kind_text(value)));
            Json::Object(shown.collect::<JsonMap<_, _>>())
        };
        let labels = node.iter().flat_map(|node| node.labels.iter().map(Text::as_str));
        let ask = place.ask().until(gone);
        let inside = ask.rows(INSIDE, &[("id", ask.id(place.id))])?.into_iter().flatten();
        let mut inside = place.properties(&["journal", "hash"].map(Text::new).into_iter().zip(inside).collect());
        let mut state = json!({
            "properties": node.as_ref().map_or_else(|| json!({}), |node| kinds(node)),
            "labels": labels.collect::<Vec<_>>(),
            "edges": null,
            "subscribers": [],
            "subscriptions": [],
            "journal": inside["journal"].take(),
            "graphNodeHashCode": inside["hash"].take(),
        });
        state["edges"] = place.edges(&Wanted::default(), gone)?;
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
    reading(move |gone| {
        let value = place.node(gone)?.and_then(|node| node.properties.get(&key).cloned());
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
    // As the reference has it: none, and 0, do not limit.
    let limit = limit.filter(|limit| *limit > 0).map(|limit| limit as usize);
    let wanted = Wanted { direction, kind, other, limit };
    let place = Place::of(app, &request)?;
    reading(move |gone| Ok(Reply::Value(place.edges(&wanted, gone)?))).await
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

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, compile};

    use super::*;

    #[test]
    fn edges_that_nobody_wants_are_not_asked_for() {
        let all = Wanted::default();
        let text = |wanted: &Wanted, direction| wanted.query(direction).expect("there may be some");
        assert_eq!(text(&all, EdgeDirection::Outgoing), "MATCH (n)-[r]->(m) WHERE id(n) = $id RETURN type(r), id(m)");
        let kind = Some("a `b`".to_owned());
        let some = Wanted { direction: Some(EdgeDirection::Incoming), kind, other: Some(NodeId::new(0, 7)), limit: None };
        let asked = text(&some, EdgeDirection::Incoming);
        assert_eq!(asked, "MATCH (n)<-[r:`a ``b```]-(m) WHERE id(n) = $id AND id(m) = $other RETURN type(r), id(m)");
        assert!(compile(&asked, &Options::default()).is_ok());
        assert_eq!(some.query(EdgeDirection::Outgoing), None);
        // None has such a direction here, and none such a type.
        let undirected = Wanted { direction: Some(EdgeDirection::Undirected), ..Wanted::default() };
        let nameless = Wanted { kind: Some(String::new()), ..Wanted::default() };
        for wanted in [undirected, nameless] {
            assert_eq!([EdgeDirection::Outgoing, EdgeDirection::Incoming].map(|direction| wanted.query(direction)), [None, None]);
        }
    }
}
