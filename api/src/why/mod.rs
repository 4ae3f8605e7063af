//! Why a standing query has a result, or has none: what was asked is read, the engine looks, and what it found is told in the
//! words of the query's text.

mod by_id;
mod staged;

use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{Encoder, Envelope, Generation, Meta};
use weir_cypher_compiler::{StandingPlan, Words};
use weir_engine::why::{
    Fits, Looked, Made, Obstacle, OfRecord, Origin, Patience, Reached, Reason, ReasonOf, Records, Since, Staged, Wanted,
    deadline, origins,
};
use weir_engine::{Graph, Row};
use weir_model::expression::Failure;
use weir_model::plan::{Operator, Pattern, Slot};
use weir_model::{EdgeKey, Expr, IdScheme, Map, NodeId, Text, Tick, Value};

use self::by_id::ById;
use crate::clock;
use crate::error::ApiError;
use crate::ingest::{Ingests, stream_name};
use crate::result_id::result_id;
use crate::standing::Query;
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::standing::Mode;

/// Ways to a result that are told, and results besides those that were asked for.
const SHOWN_MAX: usize = 10;

/// Of other results, at most this many are looked at for something new to show.
const OTHERS_MAX: usize = 1000;

/// What is asked about: results with these values, with this id, or with these nodes, by the names of variables.
#[derive(Clone, Default, Debug)]
pub struct Asked {
    data: Option<JsonMap<String, Json>>,
    result_id: Option<NodeId>,
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
            result_id: fields.text("resultId", &mut mistakes).and_then(|text| {
                let id = IdScheme::Uuid.parse(&text);
                if id.is_none() {
                    mistakes.at(&fields.path_of("resultId"), format!("'{text}' is no id of a result: those are UUIDs"));
                }
                id
            }),
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
pub fn why(
    query: &Query,
    (graph, ingests): (&Graph, &Ingests),
    asked: &Asked,
    at: Option<Tick>,
    family: Family,
) -> Result<Json, ApiError> {
    let standing = query.compiled()?;
    let origins = origins(&standing.plan);
    let mode = query.mode();
    let generation = if family == Family::V1 { Generation::V1 } else { Generation::V2 };
    let encoder = Encoder { envelope: Envelope::Bare, generation, ids: graph.ids() };
    let asked = asked.clone();
    let (words, records) = (Words::of(&standing), Records::of(graph));
    let question = Question { query, graph, ingests, asked, mode, encoder, standing: &standing, words, records };
    question.check(&origins)?;
    // What stands above patterns may make other results, or none, of what matches.
    let is_staged = origins.is_empty() || origins.iter().any(|origin| !origin.whole);
    match question.by_id(&origins, at)? {
        ById::Is(data) => {
            let asked = Asked { data: Some(data), ..question.asked };
            Question { asked, ..question }.answer(&origins, is_staged, at)
        }
        ById::NoRow { at, gave_up, others } => Ok(question.no_row(at, is_staged, gave_up, &others)),
        ById::Nothing => question.answer(&origins, is_staged, at),
    }
}

struct Question<'a> {
    query: &'a Query,
    graph: &'a Graph,
    ingests: &'a Ingests,
    asked: Asked,
    mode: Mode,
    encoder: Encoder,
    standing: &'a StandingPlan,
    words: Words<'a>,
    records: Records<'a>,
}

/// What a pattern matches: what is meant, and some of what is not.
#[derive(Default)]
struct Matches {
    made: Vec<Made>,
    others: Others,
}

/// Some of what has other values than those that are meant. Matches that show the same are told once.
#[derive(Clone, Default)]
struct Others {
    values: Vec<Map>,
    /// How many there were.
    came: usize,
}

impl Others {
    fn add(&mut self, values: impl FnOnce() -> Map) {
        if self.are_enough() {
            return;
        }
        self.came += 1;
        let values = values();
        if !self.values.contains(&values) {
            self.values.push(values);
        }
    }

    fn are_enough(&self) -> bool {
        self.values.len() == SHOWN_MAX || self.came == OTHERS_MAX
    }
}

impl Question<'_> {
    fn answer(&self, origins: &[Origin<'_>], is_staged: bool, at: Option<Tick>) -> Result<Json, ApiError> {
        if is_staged && let Some(answer) = self.staged(origins, at)? {
            return Ok(answer);
        }
        let (mut matches, mut reached, mut seen) = (Vec::new(), Vec::new(), Matches::default());
        let (mut gave_up, mut more, mut moment) = (false, false, None);
        let until = deadline();
        for (number, origin) in origins.iter().enumerate() {
            let Some(given) = self.given(origin)? else { continue };
            // One among all: that it was not among the first says nothing.
            let patience = if given.is_empty() && self.asked.result_id.is_some() { Patience::Time } else { Patience::Tries };
            let bounds = (patience, until);
            let asked = self.wanted(origin);
            let fits: Vec<_> = asked.iter().map(|(_, wanted)| move |value: &Value| self.shows(value, wanted)).collect();
            let wanted: Vec<Wanted<'_>> =
                asked.iter().zip(&fits).map(|((expr, _), fits)| (expr.clone(), fits as Fits<'_>)).collect();
            let others_before = seen.others.clone();
            let mut looked = self.look(origin, &given, Some(&wanted), bounds, at, &mut seen)?;
            let mut halves = std::mem::take(&mut looked.reached);
            gave_up |= looked.gave_up;
            // What is meant is not there; what is, with other values.
            if !wanted.is_empty() && seen.made.is_empty() {
                seen.others = others_before;
                looked = self.look(origin, &given, None, bounds, at, &mut seen)?;
                gave_up |= looked.gave_up;
                if halves.is_empty() {
                    halves = std::mem::take(&mut looked.reached);
                }
            }
            let mut made = std::mem::take(&mut seen.made);
            more |= made.len() > SHOWN_MAX;
            made.truncate(SHOWN_MAX);
            let rows = if is_staged { None } else { Some(Staged::new(self.graph, &self.standing.plan)?) };
            for one in &made {
                matches.push(self.told(origin, one, number, (&looked, rows.as_ref()))?);
            }
            moment = Some(looked.at);
            reached.extend(halves.iter().map(|reached| self.reached(origin, number, reached)));
        }
        let moment = match moment {
            Some(moment) => moment,
            None => self.graph.moment(at)?.1,
        };
        // Too much for the whole answer: what is told is of patterns alone.
        let gave_up = gave_up || is_staged;
        let mut answer =
            json!({"moment": when(moment), "matches": matches, "more": more, "staged": is_staged, "gaveUp": gave_up});
        if answer["matches"].as_array().is_some_and(Vec::is_empty) {
            answer["whyNot"] = reached.into();
            answer["otherResults"] = self.shown(&seen.others);
        }
        Ok(answer)
    }

    /// Looks for matches of a pattern. `wanted` is none where it was looked for that before, without success: then it is looked
    /// for others alone, of which some are enough.
    fn look(
        &self,
        origin: &Origin<'_>,
        given: &[(usize, NodeId)],
        wanted: Option<&[Wanted<'_>]>,
        bounds: (Patience, Instant),
        at: Option<Tick>,
        seen: &mut Matches,
    ) -> Result<Looked, ApiError> {
        let others_alone = wanted.is_none();
        let looked = self.graph.why(origin, given, wanted.unwrap_or_default(), bounds, at, &mut |one| {
            if self.is_meant(origin, one) {
                seen.made.push(one.clone());
            } else {
                seen.others.add(|| self.values(origin, one));
            }
            let is_enough = others_alone && seen.made.is_empty() && seen.others.are_enough();
            if seen.made.len() <= SHOWN_MAX && !is_enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(looked)
    }

    /// What is asked for of columns, over what the pattern fills.
    fn wanted(&self, origin: &Origin<'_>) -> Vec<(Expr, &Json)> {
        let columns = self.standing.plan.columns.iter().filter_map(|(name, slot)| {
            let value = self.asked.data.as_ref()?.get(name.as_str())?;
            Some((origin.expr_of(*slot)?, value))
        });
        columns.collect()
    }

    fn check(&self, origins: &[Origin<'_>]) -> Result<(), ApiError> {
        let mut problems = Vec::new();
        let named = |name: &str| origins.iter().any(|origin| self.node_named(origin, name).is_some());
        for (name, id) in &self.asked.nodes {
            if !named(name) && self.slot_named(name).is_none() {
                let known = self.names_of_nodes().join(", ");
                problems.push(format!("no pattern of the query has a node '{name}'; there are {known}"));
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

    /// Of a node that is looked for row by row: OPTIONAL MATCH, what a chain of edges leads to, EXISTS.
    fn slot_named(&self, name: &str) -> Option<Slot> {
        self.slots_of_nodes().into_iter().find(|slot| self.words.slot(*slot) == name)
    }

    fn slots_of_nodes(&self) -> Vec<Slot> {
        let (root, mut slots, mut asked) = (&self.standing.plan.root, Vec::new(), Vec::new());
        nodes_sought(root, &mut slots);
        root.all_expressions(&mut asked);
        asked.into_iter().for_each(|expr| nodes_within(expr, &mut slots));
        slots
    }

    /// Each once. What has no name in the text has none by which it could be asked for.
    fn names_of_nodes(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.slots_of_nodes().into_iter().map(|slot| self.words.slot(slot)) {
            if !name.starts_with('#') && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The node that a value shows: by its id, or as a whole.
    fn node_shown(&self, value: &Json) -> Option<NodeId> {
        let id = value.get("id").unwrap_or(value);
        let shown = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        self.graph.ids().parse(&shown)
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
            if let (Some(node), Some(id)) = (origin.node_of(*slot), self.node_shown(value))
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

    fn shown(&self, others: &Others) -> Json {
        others.values.iter().map(|values| self.json(values)).collect()
    }

    fn json(&self, values: &Map) -> Json {
        let mut body = Vec::new();
        self.encoder.row(&Meta::default(), values, &mut body);
        serde_json::from_slice(&body).unwrap_or(Json::Null)
    }

    fn is_meant(&self, origin: &Origin<'_>, made: &Made) -> bool {
        let values = self.values(origin, made);
        if let Some(id) = self.asked.result_id
            && !(origin.whole && self.result_id(&values) == id)
        {
            return false;
        }
        let Some(wanted) = &self.asked.data else { return true };
        let shown = self.json(&values);
        wanted.iter().all(|(key, value)| shown.get(key).is_none_or(|shown| shown == value))
    }

    fn result_id(&self, values: &Map) -> NodeId {
        result_id(self.mode, self.query.id, values, self.graph.ids())
    }

    /// A row of the answer by the names of its columns.
    fn columns(&self, row: &Row) -> Map {
        let columns = &self.standing.plan.columns;
        columns.iter().zip(&row.0).map(|((name, _), value)| (name.clone(), value.clone())).collect()
    }

    /// Since when a row of the answer is there, or else since when at least. `nodes` are of the matches that it came of, by
    /// pattern.
    fn since(&self, staged: &Staged<'_>, row: &Row, nodes: &[Vec<(usize, NodeId)>], at: Tick) -> Result<(Json, Json), ApiError> {
        let columns = self.standing.plan.columns.iter().zip(&row.0);
        let shown = columns.filter_map(|((_, slot), value)| Some((*slot, self.node_shown(&self.value(value))?)));
        let seeds = staged.seeds(&shown.collect::<Vec<_>>(), nodes);
        Ok(match self.graph.since(staged, &seeds, at, &|other| other == row)? {
            Since::Tick(tick) => (when(tick), Json::Null),
            Since::Always => (Json::Null, Json::Null),
            Since::AtLeast(tick) => (Json::Null, when(tick)),
        })
    }

    /// A match, with the facts it rests on and the records that brought them. Where its row is a result it is told since when
    /// that is there: facts may be newer than it, as others were there before, and time alone may have brought it.
    fn told(
        &self,
        origin: &Origin<'_>,
        made: &Made,
        number: usize,
        (looked, rows): (&Looked, Option<&Staged<'_>>),
    ) -> Result<Json, ApiError> {
        let reasons = self.graph.reasons(origin, made, looked.at)?;
        let (since, facts) = self.facts(origin, made, &reasons)?;
        let values = self.values(origin, made);
        let (since, at_least) = match rows {
            Some(staged) => {
                let nodes = vec![made.nodes.iter().copied().enumerate().collect()];
                let row: Vec<Value> = values.iter().map(|(_, value)| value.clone()).collect();
                self.since(staged, &Row::from_slice(&row), &nodes, looked.at)?
            }
            None => (since, Json::Null),
        };
        Ok(json!({
            "resultId": origin.whole.then(|| self.result_id(&values).to_string()),
            "pattern": number,
            "data": self.json(&values),
            "nodes": self.nodes(origin.pattern, &made.nodes.iter().copied().map(Some).collect::<Vec<_>>()),
            "since": since,
            "sinceAtLeast": at_least,
            "facts": facts,
        }))
    }

    /// The facts of a match, and since when all of them are there.
    fn facts(&self, origin: &Origin<'_>, made: &Made, reasons: &[Reason]) -> Result<(Json, Vec<Json>), ApiError> {
        let ticks: Vec<Tick> = reasons.iter().filter_map(|reason| reason.since).collect();
        let mut records = self.records.find(&ticks)?.into_iter();
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
        fact["record"] = record.map(|record| self.record(&record)).into();
        fact
    }

    fn record(&self, OfRecord { place, batch }: &OfRecord) -> Json {
        let position = self.ingests.shown_position(self.graph, &batch.source, &batch.position);
        json!({"ingest": stream_name(&batch.source), "placeInBatch": place, "positionAfterBatch": position})
    }

    fn reached(&self, origin: &Origin<'_>, number: usize, reached: &Reached) -> Json {
        let pattern = origin.pattern;
        let node = |at: usize| self.words.node(&pattern.nodes[at]);
        let mut values = JsonMap::new();
        let fails = match &reached.obstacle {
            Obstacle::NoNode(at) => format!("there is no node that could be {}", node(*at)),
            Obstacle::Label(at, label) => format!("{} has no label {}", node(*at), self.words.name(*label)),
            Obstacle::NoEdge { edge, from } => format!("no edge {} at {}", self.words.edge(pattern, *edge), node(*from)),
            Obstacle::NoWay { edge, from } => {
                format!("no way {} at {} that meets the rest of the pattern", self.words.edge(pattern, *edge), node(*from))
            }
            Obstacle::SameNode(a, b) => format!("{} and {} are the same node", node(*a), node(*b)),
            Obstacle::SameEdge(a, b) => {
                format!("{} and {} are the same edge", self.words.edge(pattern, *a), self.words.edge(pattern, *b))
            }
            Obstacle::Condition(condition) => {
                values = self.values_at(condition, &reached.row, pattern);
                format!("where {} does not hold", self.words.expr(condition))
            }
            Obstacle::NoValue(expr, failure) => {
                values = self.values_at(expr, &reached.row, pattern);
                self.no_value(expr, failure)
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

    /// The nodes that were found, by the names of their variables.
    fn nodes(&self, pattern: &Pattern, nodes: &[Option<NodeId>]) -> Json {
        let found = pattern.nodes.iter().zip(nodes).filter_map(|(node, id)| Some((node, (*id)?)));
        let shown = found.map(|(node, id)| (self.words.slot(node.slot), Json::String(self.graph.ids().text(id))));
        Json::Object(shown.collect())
    }

    fn no_value(&self, expr: &Expr, failure: &Failure) -> String {
        format!("no value: {}: {failure}", self.words.expr(expr))
    }

    /// What an expression looks at.
    fn values_at(&self, expr: &Expr, row: &[Value], pattern: &Pattern) -> JsonMap<String, Json> {
        let value = |slot: &Slot| row.get(slot.0 as usize).cloned().unwrap_or_default();
        let shown = |slot: &Slot| (self.words.slot(*slot), self.value_at(&value(slot), *slot, pattern));
        expr.slots().iter().map(shown).collect()
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

/// The nodes that patterns of a part of the plan look for.
fn nodes_sought(part: &Operator, slots: &mut Vec<Slot>) {
    part.each_below(&mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            slots.extend(pattern.nodes.iter().filter(|node| !node.bound).map(|node| node.slot));
        }
    });
}

/// As `nodes_sought`, for the subqueries in an expression.
fn nodes_within(expr: &Expr, slots: &mut Vec<Slot>) {
    if let Expr::Subquery(subquery) = expr {
        nodes_sought(&subquery.plan, slots);
    }
    expr.children().into_iter().for_each(|child| nodes_within(child, slots));
}

/// A tick; its number is larger than JavaScript can hold.
fn when(tick: Tick) -> Json {
    json!({"tick": tick.0.to_string(), "time": clock::instant(clock::from_millis(tick.millis()))})
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
            (json!({"resultId": 5}), "expecting string"),
            (json!({"resultId": "xx"}), "DecodingFailure at .resultId: 'xx' is no id of a result"),
        ] {
            let problems = Asked::decode(&body).expect_err("it asks nothing");
            assert!(problems[0].contains(expected), "{body}: {problems:?}");
        }
        assert!(Asked::decode(&json!({"data": {}})).is_ok(), "any result at all");
    }
}
