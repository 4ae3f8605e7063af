//! Why a standing query has a result, or has none: what was asked is read, the engine looks, and what it found is told in the words
//! of the query's text.

mod staged;

use std::ops::ControlFlow;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{Encoder, Envelope, Generation, Meta};
use weir_cypher_compiler::{StandingPlan, Words};
use weir_engine::Graph;
use weir_engine::why::{Looked, Made, Obstacle, OfRecord, Origin, Reached, Reason, ReasonOf, origins};
use weir_model::plan::{Pattern, Slot};
use weir_model::{EdgeKey, Map, NodeId, Position, Text, Tick, Value};

use crate::clock;
use crate::error::ApiError;
use crate::result_id::result_id;
use crate::standing::Query;
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::standing::Mode;

/// Ways to a result that are told, and results besides those that were asked for.
const SHOWN_MAX: usize = 10;

/// What is asked about: results with these values, with this id, or with these nodes, by the names of variables.
#[derive(Default, Debug)]
pub struct Asked {
    data: Option<JsonMap<String, Json>>,
    result_id: Option<String>,
    nodes: Vec<(String, String)>,
}

impl Asked {
    pub fn decode(body: &Json) -> Result<Asked, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let asked = Fields::of(body, "", &mut mistakes).map(|fields| Asked {
            data: fields
                .get("data")
                .and_then(|data| Fields::of(data, ".data", &mut mistakes))
                .map(|data| data.entries().map(|(key, value)| (key.clone(), value.clone())).collect()),
            result_id: fields.text("resultId", &mut mistakes),
            nodes: fields.texts("nodes", &mut mistakes),
        });
        let asked = mistakes.or(asked)?;
        if asked.data.is_none() && asked.result_id.is_none() && asked.nodes.is_empty() {
            return Err(vec!["give `data`, `resultId` or `nodes`: what the question is about".to_owned()]);
        }
        Ok(asked)
    }
}

/// The answer, as of a moment; none is the present.
pub fn why(query: &Query, graph: &Graph, asked: &Asked, at: Option<Tick>, family: Family) -> Result<Json, ApiError> {
    let standing = query.compiled()?;
    let origins = origins(&standing.plan);
    let mode = query.mode();
    let generation = if family == Family::V1 { Generation::V1 } else { Generation::V2 };
    let encoder = Encoder { envelope: Envelope::Bare, generation, ids: graph.ids() };
    let question = Question { query, graph, asked, mode, encoder, standing: &standing, words: Words::of(&standing) };
    question.check(&origins)?;
    // What stands above patterns may make other results, or none, of what matches.
    let is_staged = origins.is_empty() || origins.iter().any(|origin| !origin.whole);
    if is_staged && let Some(answer) = question.staged(&origins, at)? {
        return Ok(answer);
    }
    let (mut matches, mut reached, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gave_up, mut more, mut moment) = (false, false, at.unwrap_or_default());
    for (number, origin) in origins.iter().enumerate() {
        let Some(given) = question.given(origin)? else { continue };
        let mut made = Vec::new();
        let looked = graph.why(origin, &given, at, &mut |one| {
            if question.is_meant(origin, one) {
                made.push(one.clone());
            } else if others.len() < SHOWN_MAX {
                others.push(question.data(origin, one));
            }
            if made.len() <= SHOWN_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        more |= made.len() > SHOWN_MAX;
        made.truncate(SHOWN_MAX);
        for one in &made {
            matches.push(question.told(origin, one, number, &looked)?);
        }
        gave_up |= looked.gave_up;
        moment = looked.at;
        reached.extend(looked.reached.iter().map(|reached| question.reached(origin, number, reached)));
    }
    // Too much for the whole answer: what is told is of patterns alone.
    let gave_up = gave_up || is_staged;
    let mut answer = json!({"moment": when(moment), "matches": matches, "more": more, "staged": is_staged, "gaveUp": gave_up});
    if answer["matches"].as_array().is_some_and(Vec::is_empty) {
        answer["whyNot"] = reached.into();
        answer["otherResults"] = others.into();
    }
    Ok(answer)
}

struct Question<'a> {
    query: &'a Query,
    graph: &'a Graph,
    asked: &'a Asked,
    mode: Mode,
    encoder: Encoder,
    standing: &'a StandingPlan,
    words: Words<'a>,
}

impl Question<'_> {
    fn check(&self, origins: &[Origin<'_>]) -> Result<(), ApiError> {
        let mut problems = Vec::new();
        let named = |name: &str| origins.iter().any(|origin| self.node_named(origin, name).is_some());
        for (name, id) in &self.asked.nodes {
            if !named(name) {
                let known: Vec<String> =
                    origins.iter().flat_map(|origin| &origin.pattern.nodes).map(|node| self.words.slot(node.slot)).collect();
                problems.push(format!("no pattern of the query has a node '{name}'; there are {}", known.join(", ")));
            }
            if self.graph.ids().parse(id).is_none() {
                problems.push(format!("'{id}' is no id of a node"));
            }
        }
        let columns = &self.standing.plan.columns;
        for key in self.asked.data.iter().flat_map(|data| data.keys()) {
            if !columns.iter().any(|(name, _)| name == key) {
                problems.push(format!("the query has no column '{key}'"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ApiError::Bad(problems)) }
    }

    fn node_named(&self, origin: &Origin<'_>, name: &str) -> Option<usize> {
        origin.pattern.nodes.iter().position(|node| self.words.slot(node.slot) == name)
    }

    /// The nodes that what was asked fixes. None where it says nothing of this pattern.
    fn given(&self, origin: &Origin<'_>) -> Result<Option<Vec<(usize, NodeId)>>, ApiError> {
        let mut given: Vec<(usize, NodeId)> = Vec::new();
        for (name, id) in &self.asked.nodes {
            if let (Some(node), Some(id)) = (self.node_named(origin, name), self.graph.ids().parse(id)) {
                given.push((node, id));
            }
        }
        let asks = self.asked.result_id.is_some() || self.asked.data.is_some();
        let mut concerned = !given.is_empty() || (asks && origin.whole);
        for (name, slot) in &self.standing.plan.columns {
            let Some(value) = self.asked.data.as_ref().and_then(|data| data.get(name.as_str())) else { continue };
            concerned |= origin.fills(*slot);
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let (Some(node), Some(id)) = (origin.node_of(*slot), self.graph.ids().parse(&shown))
                && given.iter().all(|(other, _)| *other != node)
            {
                given.push((node, id));
            }
        }
        Ok(concerned.then_some(given))
    }

    /// What the columns hold, as far as that is known where the pattern ends.
    fn values(&self, origin: &Origin<'_>, made: &Made) -> Map {
        let columns = self.standing.plan.columns.iter().filter(|(_, slot)| origin.whole || origin.fills(*slot));
        columns.map(|(name, slot)| (name.clone(), made.row.get(slot.0 as usize).cloned().unwrap_or_default())).collect()
    }

    fn data(&self, origin: &Origin<'_>, made: &Made) -> Json {
        self.json(&self.values(origin, made))
    }

    fn json(&self, values: &Map) -> Json {
        let mut body = Vec::new();
        self.encoder.row(&Meta::default(), values, &mut body);
        serde_json::from_slice(&body).unwrap_or(Json::Null)
    }

    fn is_meant(&self, origin: &Origin<'_>, made: &Made) -> bool {
        let values = self.values(origin, made);
        if let Some(id) = &self.asked.result_id
            && !(origin.whole && self.result_id(&values) == *id)
        {
            return false;
        }
        let Some(wanted) = &self.asked.data else { return true };
        let shown = self.json(&values);
        wanted.iter().all(|(key, value)| shown.get(key).is_none_or(|shown| shown == value))
    }

    fn result_id(&self, values: &Map) -> String {
        result_id(self.mode, self.query.id, values, self.graph.ids()).to_string()
    }

    /// A match, with the facts it rests on and the records that brought them.
    fn told(&self, origin: &Origin<'_>, made: &Made, number: usize, looked: &Looked) -> Result<Json, ApiError> {
        let reasons = self.graph.reasons(origin, made, looked.at)?;
        let (since, facts) = self.facts(origin, made, &reasons)?;
        let values = self.values(origin, made);
        let mut told = json!({
            "pattern": number,
            "data": self.json(&values),
            "nodes": self.nodes(origin.pattern, &made.nodes.iter().copied().map(Some).collect::<Vec<_>>()),
            "since": since,
            "facts": facts,
        });
        if origin.whole {
            told["resultId"] = self.result_id(&values).into();
        }
        Ok(told)
    }

    /// The facts of a match, and since when all of them are there.
    fn facts(&self, origin: &Origin<'_>, made: &Made, reasons: &[Reason]) -> Result<(Json, Vec<Json>), ApiError> {
        let ticks: Vec<Tick> = reasons.iter().filter_map(|reason| reason.since).collect();
        let mut records = self.graph.records_of(&ticks)?.into_iter();
        let facts = reasons.iter().map(|reason| {
            let record = reason.since.and_then(|_| records.next()).flatten();
            self.fact(origin, made, reason, record)
        });
        Ok((ticks.iter().max().map(|tick| when(*tick)).into(), facts.collect()))
    }

    fn fact(&self, origin: &Origin<'_>, made: &Made, reason: &Reason, record: Option<OfRecord>) -> Json {
        let pattern = origin.pattern;
        let node = |number: usize| self.words.slot(pattern.nodes[number].slot);
        let id = |id: NodeId| self.graph.ids().text(id);
        let mut fact = match &reason.of {
            ReasonOf::Label { node: at, label } => json!({"node": node(*at), "id": id(made.nodes[*at]), "label": label.as_str()}),
            ReasonOf::Property { node: at, key, value } => {
                json!({"node": node(*at), "id": id(made.nodes[*at]), "property": key.as_str(), "value": self.value(value)})
            }
            ReasonOf::There { node: at, by } => {
                let mut fact = self.fact_of(by);
                fact["node"] = node(*at).into();
                fact
            }
            ReasonOf::Edge { edge } => json!({"edge": self.words.edge(pattern, *edge)}),
            ReasonOf::EdgeProperty { edge, key, value } => {
                json!({"edge": self.words.edge(pattern, *edge), "property": key.as_str(), "value": self.value(value)})
            }
        };
        if let ReasonOf::Edge { edge } | ReasonOf::EdgeProperty { edge, .. } = &reason.of {
            let found = made.edges[*edge];
            fact["from"] = id(found.source).into();
            fact["type"] = self.graph.symbols().name(found.kind).as_str().into();
            fact["to"] = id(found.target).into();
        }
        fact["since"] = reason.since.map(when).into();
        fact["record"] = record.map(record_json).into();
        fact
    }

    fn reached(&self, origin: &Origin<'_>, number: usize, reached: &Reached) -> Json {
        let pattern = origin.pattern;
        let node = |at: usize| self.words.node(&pattern.nodes[at]);
        let mut values = JsonMap::new();
        let fails = match &reached.obstacle {
            Obstacle::NoNode(at) => format!("there is no node that could be {}", node(*at)),
            Obstacle::Label(at, label) => format!("{} has no label {}", node(*at), self.words.name(*label)),
            Obstacle::NoEdge { edge, from } => format!("no edge {} at {}", self.words.edge(pattern, *edge), node(*from)),
            Obstacle::SameNode(a, b) => format!("{} and {} are the same node", node(*a), node(*b)),
            Obstacle::SameEdge(a, b) => {
                format!("{} and {} are the same edge", self.words.edge(pattern, *a), self.words.edge(pattern, *b))
            }
            Obstacle::Condition(condition) => {
                for slot in condition.slots() {
                    let value = reached.row.get(slot.0 as usize).cloned().unwrap_or_default();
                    values.insert(self.words.slot(slot), self.value_at(&value, slot, pattern));
                }
                format!("where {} does not hold", self.words.expr(condition))
            }
        };
        let edges = reached.edges.iter().enumerate().filter(|(_, found)| found.is_some());
        json!({
            "pattern": number,
            "nodes": self.nodes(pattern, &reached.nodes),
            "edges": edges.map(|(at, _)| self.words.edge(pattern, at)).collect::<Vec<_>>(),
            "fails": fails,
            "values": values,
        })
    }

    /// Those that were found, by the names of their variables.
    fn nodes(&self, pattern: &Pattern, nodes: &[Option<NodeId>]) -> Json {
        let found = pattern.nodes.iter().zip(nodes).filter_map(|(node, id)| Some((node, (*id)?)));
        let shown = found.map(|(node, id)| (self.words.slot(node.slot), Json::String(self.graph.ids().text(id))));
        Json::Object(shown.collect())
    }

    fn value_at(&self, value: &Value, slot: Slot, pattern: &Pattern) -> Json {
        match value {
            // Shown by its id: nothing more was read of it.
            Value::Node(id) if pattern.nodes.iter().any(|node| node.slot == slot) => self.graph.ids().text(*id).into(),
            Value::Edge(edge) => self.edge_text(edge).into(),
            other => self.value(other),
        }
    }

    fn edge_text(&self, edge: &EdgeKey) -> String {
        let ids = self.graph.ids();
        format!("({})-[:{}]->({})", ids.text(edge.source), edge.kind, ids.text(edge.target))
    }

    fn value(&self, value: &Value) -> Json {
        let mut map = Map::default();
        map.push_unique(Text::new("value"), value.clone());
        self.json(&map)["value"].take()
    }
}

/// A tick; its number is larger than JavaScript can hold.
fn when(tick: Tick) -> Json {
    json!({"tick": tick.0.to_string(), "time": clock::instant(clock::from_millis(tick.millis()))})
}

fn record_json(record: OfRecord) -> Json {
    let (stream, position) = match record.source {
        Some((name, position)) => (Json::from(stream_name(&name)), position_json(&position)),
        None => (Json::Null, Json::Null),
    };
    json!({"ingest": stream, "placeInBatch": record.place, "positionAfterBatch": position})
}

/// The engine knows a stream by its name and the time it was created at.
fn stream_name(source: &str) -> &str {
    source.rsplit_once('#').map_or(source, |(name, _)| name)
}

/// As the source writes it, where that is text; else in hexadecimal digits.
fn position_json(position: &Position) -> Json {
    match std::str::from_utf8(&position.0) {
        Ok(text) if !text.chars().any(char::is_control) => {
            serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
        }
        _ => Json::String(position.0.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_about_something() {
        for (body, expected) in [
            (json!({}), "give `data`"),
            (json!({"nodes": {}}), "give `data`"),
            (json!(5), "expecting object"),
            (json!({"nodes": {"a": 5}}), "expecting string"),
            (json!({"data": 5}), "expecting object"),
        ] {
            let problems = Asked::decode(&body).expect_err("it asks nothing");
            assert!(problems[0].contains(expected), "{body}: {problems:?}");
        }
        assert!(Asked::decode(&json!({"data": {}})).is_ok(), "any result at all");
    }

    #[test]
    fn positions_are_shown_as_text_where_they_are() {
        assert_eq!(position_json(&Position(b"{\"offset\":5}".to_vec())), json!({"offset": 5}));
        assert_eq!(position_json(&Position(vec![0, 255])), json!("00ff"));
    }
}
