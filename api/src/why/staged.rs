//! Why, of a query with stages: each result is told from the answer down to the patterns, stage by stage.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_engine::view::View;
use weir_engine::why::{
    Answered, AskedOf, Asks, FactOf, Found, Level, Looked, Made, Matched, Meant, Of, Origin, Patience, Staged, Stop, Wanted,
    What, Worked,
};
use weir_engine::{EngineError, Moment, Row};
use weir_model::plan::Slot;
use weir_model::{EdgeKey, Expr, NodeId, Tick, Value};

use super::{Others, Question, SHOWN_MAX, when};
use crate::error::ApiError;

/// Of many rows that became one, at most this many are told.
const ROWS_MAX: usize = 5;
/// Of the facts that were read for a row, at most this many are told.
const FACTS_MAX: usize = 20;

/// The answer as of a moment, and what is needed to tell of it.
struct Telling<'a> {
    question: &'a Question<'a>,
    staged: &'a Staged<'a>,
    worked: Worked<'a>,
    view: &'a dyn View,
    /// Not all could be told in time.
    gave_up: Cell<bool>,
}

impl Question<'_> {
    /// None where there is too much to work out.
    pub fn staged(&self, origins: &[Origin<'_>], at: Option<Tick>) -> Result<Option<Json>, ApiError> {
        let plan = &self.standing.plan;
        let staged = Staged::new(self.graph, plan)?;
        let (moment, at) = self.graph.moment(at)?;
        let nodes: Vec<Vec<(usize, NodeId)>> = origins.iter().map(|origin| self.nodes_given(origin)).collect();
        let seeds = staged.seeds(&self.shown_nodes(), &nodes);
        let view = moment.view();
        let worked = self.graph.work(&staged, &seeds, view, at);
        failed(&moment)?;
        if worked.gave_up {
            return Ok(None);
        }
        let telling = Telling { question: self, staged: &staged, worked, view, gave_up: Cell::new(false) };
        let rows = telling.found_with();
        if !rows.is_empty() && staged.is_late() {
            return Ok(None);
        }
        let answer = telling.answer(&nodes, &seeds, rows)?;
        failed(&moment)?;
        Ok(Some(answer))
    }

    fn nodes_given(&self, origin: &Origin<'_>) -> Vec<(usize, NodeId)> {
        let given = self.asked.nodes.iter();
        given.filter_map(|(name, id)| self.node_named(origin, name).zip(self.graph.ids().parse(id))).collect()
    }

    /// The nodes that columns are asked to show.
    fn shown_nodes(&self) -> Vec<(Slot, NodeId)> {
        let columns = self.standing.plan.columns.iter().filter_map(|(name, slot)| {
            let value = self.asked.data.as_ref()?.get(name.as_str())?;
            Some((*slot, self.node_shown(value)?))
        });
        columns.collect()
    }

    /// Whether a value is shown so. A node is given as a whole only at the very end: before, its id says which it is.
    pub fn shows(&self, value: &Value, wanted: &Json) -> bool {
        match value {
            Value::Node(id) if wanted.is_object() => self.node_shown(wanted) == Some(*id),
            value => self.value(value) == *wanted,
        }
    }

    /// A fact of the graph, by ids.
    pub fn fact_of(&self, fact: &FactOf) -> Json {
        let graph = self.graph;
        let name = |symbol| graph.symbols().name(symbol);
        let id = |id: &NodeId| graph.ids().text(*id);
        let edge = |edge: &weir_engine::view::EdgeRef| json!({"from": id(&edge.source), "type": name(edge.kind).as_str(), "to": id(&edge.target)});
        match fact {
            FactOf::Label { node, label } => json!({"id": id(node), "label": name(*label).as_str()}),
            FactOf::Property { node, key, value } => {
                json!({"id": id(node), "property": name(*key).as_str(), "value": self.value(value)})
            }
            FactOf::Edge { edge: of } => edge(of),
            FactOf::EdgeProperty { edge: of, key, value } => {
                let mut shown = edge(of);
                shown["property"] = name(*key).as_str().into();
                shown["value"] = self.value(value);
                shown
            }
        }
    }
}

pub fn failed(moment: &Moment) -> Result<(), EngineError> {
    moment.take_failure().map_or(Ok(()), Err)
}

impl Telling<'_> {
    /// `nodes` are those that are asked for, by pattern, `seeds` those that all is worked out from; `rows` were found with
    /// others that are asked for.
    fn answer(
        &self,
        nodes: &[Vec<(usize, NodeId)>],
        seeds: &[Vec<(usize, NodeId)>],
        rows: Vec<(usize, Vec<bool>)>,
    ) -> Result<Json, ApiError> {
        let question = self.question;
        let columns = &question.standing.plan.columns;
        let asked: Vec<(Slot, &Json)> =
            columns.iter().filter_map(|(name, slot)| Some((*slot, question.asked.data.as_ref()?.get(name.as_str())?))).collect();
        let fits: Vec<_> = asked.iter().map(|(_, wanted)| move |value: &Value| question.shows(value, wanted)).collect();
        let is_asked = |row: &Row| question.asked.result_id.is_none_or(|id| question.result_id(&question.columns(row)) == id);
        let given = nodes.iter().zip(seeds).map(|(nodes, seeds)| seeds.iter().chain(nodes).copied().collect());
        let meant = Meant {
            values: asked.iter().zip(&fits).map(|((slot, _), fits)| (*slot, fits as &dyn Fn(&Value) -> bool)).collect(),
            row: Some(&is_asked),
            nodes: given.collect(),
            rows,
        };
        let found = self.worked.find(question.graph, self.staged, &meant, self.view);
        self.is_late();
        // Equal rows are one result, as often as they are there.
        let mut results: BTreeMap<&Row, Vec<u32>> = BTreeMap::new();
        for number in &found.rows {
            results.entry(&self.worked.rows()[*number as usize].0).or_default().push(*number);
        }
        let more = results.len() > SHOWN_MAX;
        let results = results.into_iter().take(SHOWN_MAX).map(|(row, numbers)| self.result(row, &numbers, nodes));
        let results = results.collect::<Result<Vec<Json>, ApiError>>()?;
        let mut answer =
            json!({"moment": when(self.worked.at), "matches": results, "more": more, "staged": true, "gaveUp": false});
        if !results.is_empty() {
            answer["gaveUp"] = self.gave_up.get().into();
            return Ok(answer);
        }
        self.why_not(answer, &meant, found)
    }

    /// Completes the answer where there is no result: why, and which results there are besides.
    fn why_not(&self, mut answer: Json, meant: &Meant<'_>, found: Found) -> Result<Json, ApiError> {
        let question = self.question;
        let columns = &question.standing.plan.columns;
        let stopped = |stop: &Stop| -> Result<Json, ApiError> {
            let mut told = self.stop(stop)?;
            if let Some((_, slots)) = found.lacks.iter().find(|(of, _)| of == stop) {
                let data = question.asked.data.as_ref();
                let lacking = columns.iter().filter(|(_, slot)| slots.contains(slot)).map(|(name, _)| name.as_str());
                let lacking = lacking.filter_map(|name| Some((name.to_owned(), data?.get(name)?.clone())));
                told["lacks"] = lacking.collect::<JsonMap<String, Json>>().into();
            }
            Ok(told)
        };
        let mut why_not = found.stops.iter().map(stopped).collect::<Result<Vec<Json>, ApiError>>()?;
        for source in &found.missing {
            let origin = &self.staged.origins()[*source];
            let given = meant.nodes.get(*source).map_or(&[][..], Vec::as_slice);
            // That others match says nothing of what is asked for.
            let wanted = self.worked.wanted_of(meant, *source);
            let mut looked = self.how_far(origin, given, &wanted)?;
            // Rows that show some of it are told instead.
            let is_near = found.near.contains(source);
            if looked.reached.is_empty() && !wanted.is_empty() && !is_near {
                looked = self.how_far(origin, given, &[])?;
            }
            if looked.reached.is_empty() && !is_near {
                let fails = "no match of the pattern has these values";
                why_not.push(json!({"pattern": source, "nodes": {}, "edges": [], "fails": fails, "values": {}}));
            }
            why_not.extend(looked.reached.iter().map(|reached| question.reached(origin, *source, reached)));
        }
        if why_not.is_empty() && found.others.is_empty() {
            why_not.extend(self.not_found());
        }
        let nothing_is_known = why_not.is_empty() && found.others.is_empty();
        let all = 0..self.worked.rows().len() as u32;
        let others: Vec<u32> = if nothing_is_known { all.take(SHOWN_MAX).collect() } else { found.others };
        let mut shown = Others::default();
        for number in others {
            shown.add(|| question.columns(&self.worked.rows()[number as usize].0));
        }
        answer["whyNot"] = why_not.into();
        answer["otherResults"] = question.shown(&shown);
        answer["gaveUp"] = self.gave_up.get().into();
        Ok(answer)
    }

    /// How far a pattern gets with these of its nodes.
    fn how_far(&self, origin: &Origin<'_>, given: &[(usize, NodeId)], wanted: &[Wanted<'_>]) -> Result<Looked, EngineError> {
        let mut go_on = |_: &Made| ControlFlow::Break(());
        let bounds = (Patience::Tries, self.staged.deadline());
        let looked = self.question.graph.why(origin, given, wanted, bounds, Some(self.worked.at), &mut go_on)?;
        self.gave_up.set(self.gave_up.get() || looked.gave_up);
        Ok(looked)
    }

    /// Whether there is no time to tell more of a row than its values; the answer says so then.
    fn is_late(&self) -> bool {
        let is_late = self.staged.is_late();
        self.gave_up.set(self.gave_up.get() || is_late);
        is_late
    }

    /// The nodes that are asked for by the name of a variable that is looked for row by row.
    fn looked_for(&self) -> impl Iterator<Item = (&String, Slot, NodeId)> {
        let (question, origins) = (self.question, self.staged.origins());
        let nodes = question.asked.nodes.iter();
        let nodes = nodes.filter(|(name, _)| origins.iter().all(|origin| question.node_named(origin, name).is_none()));
        nodes.filter_map(|(name, id)| Some((name, question.slot_named(name)?, question.graph.ids().parse(id)?)))
    }

    /// By level, which rows were found with these.
    fn found_with(&self) -> Vec<(usize, Vec<bool>)> {
        let mut found = Vec::new();
        for (_, slot, id) in self.looked_for() {
            for at in 0..self.worked.levels.len() {
                let rows = self.question.graph.found_with(self.staged, &self.worked, at, (slot, id), self.view);
                found.extend(rows.map(|rows| (at, rows)));
            }
        }
        found
    }

    /// What is told of these where nothing else can be.
    fn not_found(&self) -> Vec<Json> {
        let text = |name: &str| format!("what is asked of the graph finds no {name} with this id");
        self.looked_for().map(|(name, _, _)| json!({"stage": "Asked", "says": "", "fails": text(name), "values": {}})).collect()
    }

    /// `nodes` are those that are asked for, by pattern.
    fn result(&self, row: &Row, numbers: &[u32], nodes: &[Vec<(usize, NodeId)>]) -> Result<Json, ApiError> {
        let (question, values) = (self.question, self.question.columns(row));
        let (since, at_least) = question.since(self.staged, row, nodes, self.worked.at)?;
        let made = numbers.iter().take(ROWS_MAX).map(|number| self.row(self.worked.root(), *number));
        Ok(json!({
            "resultId": question.result_id(&values).to_string(),
            "data": question.json(&values),
            "times": self.worked.rows().iter().filter(|(other, _)| other == row).count(),
            "since": since,
            "sinceAtLeast": at_least,
            "made": made.collect::<Result<Vec<Json>, ApiError>>()?,
        }))
    }

    /// A row of a stage, and what it was made of.
    fn row(&self, at: usize, number: u32) -> Result<Json, ApiError> {
        let level = &self.worked.levels[at];
        let (row, of) = &level.rows[number as usize];
        // What only hands values on is passed over.
        if let (What::Project([]), Of::One(below)) = (&level.what, of) {
            return self.row(level.inputs[0], *below);
        }
        let mut told = json!({"stage": stage(&level.what), "says": self.says(level), "values": self.values(level, row)});
        let below: Vec<(usize, u32)> = match of {
            Of::Match(number) => {
                self.matched(level, *number, &mut told)?;
                Vec::new()
            }
            Of::Nothing => Vec::new(),
            Of::One(number) => vec![(0, *number)],
            Of::Right(number) => vec![(1, *number)],
            Of::Two(left, right) => vec![(0, *left), (1, *right)],
            Of::Many(numbers) => {
                told["rows"] = numbers.len().into();
                numbers.iter().take(ROWS_MAX).map(|number| (0, *number)).collect()
            }
        };
        match &level.what {
            What::Union => told["part"] = (1 + below.first().map_or(0, |(input, _)| *input)).into(),
            What::Window { .. } => {
                let place = below.first().and_then(|(_, number)| level.order.iter().position(|other| other == number));
                told["place"] = place.map(|place| place + 1).into();
                told["among"] = level.order.len().into();
            }
            What::Join { left, right, stays: true } => {
                if let Of::One(number) = of {
                    self.not_matched(level, *number, (*left, *right), &mut told)?;
                }
            }
            What::Each(asks) => {
                if let Some((_, number)) = below.first() {
                    self.asked(asks, &self.worked.levels[level.inputs[0]].rows[*number as usize].0, &mut told)?;
                }
            }
            _ => {}
        }
        let below = below.into_iter().map(|(input, number)| self.row(level.inputs[input], number));
        let below = below.collect::<Result<Vec<Json>, ApiError>>()?;
        if !below.is_empty() {
            told["of"] = below.into();
        }
        Ok(told)
    }

    /// Why a row of the input has no match in an OPTIONAL MATCH that is joined by these: how far each of its patterns gets, or
    /// that nothing of what they find goes with the row.
    fn not_matched(
        &self,
        level: &Level<'_>,
        number: u32,
        (left, right): (&[Expr], &[Expr]),
        told: &mut Json,
    ) -> Result<(), ApiError> {
        let (question, levels) = (self.question, &self.worked.levels);
        let [input, found, ..] = level.inputs[..] else { return Ok(()) };
        // Not the row that came of it, which has only what is looked at later.
        let values = self.spread(input, &levels[input].rows[number as usize].0);
        let (mut why_not, mut parts) = (Vec::new(), vec![found]);
        while let Some(at) = parts.pop() {
            parts.extend(levels[at].inputs.iter().rev());
            let What::Pattern(source) = levels[at].what else { continue };
            if self.is_late() {
                return Ok(());
            }
            let origin = &self.staged.origins()[source];
            let given = left.iter().filter_map(|key| {
                let Expr::Slot(slot) = key else { return None };
                let node = origin.pattern.nodes.iter().position(|node| node.slot == *slot)?;
                if let Value::Node(id) = values[slot.0 as usize] { Some((node, id)) } else { None }
            });
            let looked = self.how_far(origin, &given.collect::<Vec<_>>(), &[])?;
            why_not.extend(looked.reached.iter().map(|reached| question.reached(origin, source, reached)));
        }
        if why_not.is_empty() {
            let mut keys = JsonMap::new();
            left.iter().for_each(|key| keys.extend(self.looked_at(key, &values)));
            let (says, fails) = (self.says(level), self.no_row(left, right));
            why_not.push(json!({"stage": stage(&level.what), "says": says, "fails": fails, "values": keys}));
        }
        told["whyNot"] = why_not.into();
        Ok(())
    }

    /// A match of a pattern with its facts.
    fn matched(&self, level: &Level<'_>, number: u32, told: &mut Json) -> Result<(), ApiError> {
        let What::Pattern(source) = level.what else { return Ok(()) };
        let of: &Matched = &self.worked.matches[source][number as usize];
        let origin = &self.staged.origins()[source];
        let nodes: Vec<Option<NodeId>> = of.nodes.iter().copied().map(Some).collect();
        told["pattern"] = source.into();
        told["nodes"] = self.question.nodes(origin.pattern, &nodes);
        if self.is_late() {
            return Ok(());
        }
        let (made, reasons) = self.question.graph.reasons_of(self.staged, source, of, self.view, self.worked.at)?;
        let (since, facts) = self.question.facts(origin, &made, &reasons)?;
        told["since"] = since;
        told["facts"] = facts.into();
        Ok(())
    }

    /// What was asked of the graph for a row.
    fn asked(&self, asks: &Asks<'_>, row: &Row, told: &mut Json) -> Result<(), ApiError> {
        let (question, at) = (self.question, self.worked.at);
        if self.is_late() {
            return Ok(());
        }
        let read = question.graph.read_for(self.staged, *asks, row, self.view, at);
        let more = read.len().saturating_sub(FACTS_MAX);
        let facts = question.graph.facts(read.into_iter().take(FACTS_MAX).collect(), at)?;
        let ticks: Vec<Tick> = facts.iter().filter_map(|fact| fact.since).collect();
        let mut records = question.records.find(&ticks)?.into_iter();
        let facts = facts.iter().map(|fact| {
            let mut shown = question.fact_of(&fact.of);
            shown["since"] = fact.since.map(when).into();
            let record = fact.since.and_then(|_| records.next()).flatten();
            shown["record"] = record.map(|record| question.record(&record)).into();
            shown
        });
        told["facts"] = facts.collect();
        if more > 0 {
            told["moreFacts"] = more.into();
        }
        let given: Vec<(Slot, NodeId)> = self.looked_for().map(|(_, slot, id)| (slot, id)).collect();
        let answered = question.graph.asked_with(self.staged, *asks, row, &given, (self.view, at));
        told["asked"] = answered.iter().map(|answered| self.answered(answered)).collect();
        // It may have got late on the way.
        self.is_late();
        Ok(())
    }

    /// One thing that was asked for a row, and how far it got.
    fn answered(&self, answered: &Answered<'_>) -> Json {
        let question = self.question;
        match answered.of {
            AskedOf::Condition(condition) => json!({
                "where": question.words.expr(condition),
                "holds": answered.found,
                "values": self.looked_at(condition, &answered.row),
            }),
            AskedOf::Pattern(pattern, may_be_none) => {
                let edges = (0..pattern.edges.len()).map(|edge| question.words.edge(pattern, edge));
                let shown: Vec<String> = if pattern.edges.is_empty() {
                    pattern.nodes.iter().map(|node| question.words.node(node)).collect()
                } else {
                    edges.collect()
                };
                let ways = answered.made.iter().map(|made| {
                    let nodes: Vec<Option<NodeId>> = made.nodes.iter().copied().map(Some).collect();
                    question.nodes(pattern, &nodes)
                });
                let edges_found = answered
                    .made
                    .iter()
                    .map(|made| made.edges.iter().map(|edge| question.fact_of(&FactOf::Edge { edge: *edge })).collect());
                let is_sought = |slot: Slot| pattern.nodes.iter().any(|node| node.slot == slot && !node.bound);
                let with = self.looked_for().filter(|(_, slot, _)| is_sought(*slot));
                let with = with.map(|(name, _, id)| (name.clone(), Json::String(question.graph.ids().text(id))));
                let mut told = json!({
                    "looksFor": shown.join(", "),
                    "found": answered.found,
                    "mayBeNone": may_be_none,
                    "nodes": ways.collect::<Vec<Json>>(),
                    "edges": edges_found.collect::<Vec<Json>>(),
                    "with": with.collect::<JsonMap<String, Json>>(),
                });
                if !answered.found {
                    let origin = Origin::of(self.staged.plan(), pattern);
                    let reached = answered.reached.iter().map(|reached| {
                        let mut told = question.reached(&origin, 0, reached);
                        told.as_object_mut().map(|told| told.remove("pattern"));
                        told
                    });
                    told["whyNot"] = reached.collect();
                }
                told
            }
        }
    }

    /// Why nothing comes of a row.
    fn stop(&self, stop: &Stop) -> Result<Json, ApiError> {
        let level = &self.worked.levels[stop.level];
        let input = level.inputs[stop.input];
        let (row, _) = &self.worked.levels[input].rows[stop.row as usize];
        let values = self.spread(input, row);
        let of_row = || self.values(&self.worked.levels[input], row);
        let words = &self.question.words;
        let mut told = json!({"stage": stage(&level.what), "says": self.says(level)});
        let mut of = vec![self.row(input, stop.row)?];
        let (fails, values) = match &level.what {
            What::Filter(condition) => {
                let otherwise = || format!("where {} does not hold", words.expr(condition));
                (self.failure_or([*condition], &values, otherwise), self.looked_at(condition, &values))
            }
            What::Window { keys, skip, limit, .. } => {
                (self.window_stop(stop, (*keys, *skip, *limit), &values, &mut told), of_row())
            }
            What::Join { left, right, .. } => self.join_stop(stop, (*left, *right), &values, &mut of)?,
            What::Each(asks) => (self.each_stop(asks, row, &mut told)?, of_row()),
            What::Unwind(list) => {
                let otherwise = || format!("{} is empty or null", words.expr(list));
                (self.failure_or([*list], &values, otherwise), self.looked_at(list, &values))
            }
            What::Project(items) => {
                let otherwise = || {
                    let of: Vec<String> = items.iter().map(|(_, expr)| words.expr(expr)).collect();
                    format!("one of these has no value: {}", of.join(", "))
                };
                (self.failure_or(items.iter().map(|(_, expr)| expr), &values, otherwise), of_row())
            }
            What::Group { keys, aggregates, .. } => {
                let arguments = aggregates.iter().flat_map(|aggregate| &aggregate.arguments);
                let otherwise = || "a key or an aggregate has no value".to_owned();
                (self.failure_or(keys.iter().chain(arguments), &values, otherwise), of_row())
            }
            What::Pattern(_) | What::Unit | What::Distinct | What::Union => {
                ("it is not in the answer".to_owned(), JsonMap::new())
            }
        };
        told["fails"] = fails.into();
        told["values"] = values.into();
        told["of"] = of.into();
        Ok(told)
    }

    /// Why a row is not among those that are shown, and its place in `told`.
    fn window_stop(
        &self,
        stop: &Stop,
        (keys, skip, limit): (&[Expr], usize, Option<usize>),
        values: &[Value],
        told: &mut Json,
    ) -> String {
        let order = &self.worked.levels[stop.level].order;
        let place = order.iter().position(|other| *other == stop.row);
        told["place"] = place.map(|place| place + 1).into();
        told["among"] = order.len().into();
        match place {
            None => self.failure_or(keys, values, || "what it is ordered by has no value".to_owned()),
            Some(place) if place < skip => format!("it is number {} in order, and {skip} are skipped", place + 1),
            Some(place) => format!(
                "it is number {} of {} in order, and only those to number {} are shown",
                place + 1,
                order.len(),
                limit.map_or(usize::MAX, |limit| skip.saturating_add(limit))
            ),
        }
    }

    /// Why a row goes with none of the other part, or not with the one that is meant, which is added to `of`; and the values that
    /// are compared.
    fn join_stop(
        &self,
        stop: &Stop,
        (left, right): (&[Expr], &[Expr]),
        values: &[Value],
        of: &mut Vec<Json>,
    ) -> Result<(String, JsonMap<String, Json>), ApiError> {
        let (keys, others) = if stop.input == 0 { (left, right) } else { (right, left) };
        let mut values_of = JsonMap::new();
        keys.iter().for_each(|key| values_of.extend(self.looked_at(key, values)));
        let fails = match stop.with {
            Some(with) => {
                let other = self.worked.levels[stop.level].inputs[1 - stop.input];
                let values = self.spread(other, &self.worked.levels[other].rows[with as usize].0);
                others.iter().for_each(|key| values_of.extend(self.looked_at(key, &values)));
                of.push(self.row(other, with)?);
                format!("where {} does not hold", self.equal(left, right))
            }
            None => self.no_row(left, right),
        };
        Ok((fails, values_of))
    }

    /// That a row goes with none of the other part.
    fn no_row(&self, left: &[Expr], right: &[Expr]) -> String {
        match left {
            [] => "the other part has no row".to_owned(),
            _ => format!("no row of the other part has {}", self.equal(left, right)),
        }
    }

    /// What must be equal on both sides of a join.
    fn equal(&self, left: &[Expr], right: &[Expr]) -> String {
        let words = &self.question.words;
        let equal = left.iter().zip(right).map(|(left, right)| match (words.expr(left), words.expr(right)) {
            (left, right) if left == right => format!("the same {left}"),
            (left, right) => format!("{left} = {right}"),
        });
        equal.collect::<Vec<String>>().join(" and ")
    }

    /// Why what is asked of the graph for a row gives nothing; what that is goes into `told`.
    fn each_stop(&self, asks: &Asks<'_>, row: &Row, told: &mut Json) -> Result<String, ApiError> {
        self.asked(asks, row, told)?;
        let failure = self.question.graph.failure_for(self.staged, *asks, row, self.view, self.worked.at);
        Ok(match failure {
            Some(failure) => format!("what is asked of the graph for this row has no value: {failure}"),
            None if self.is_late() => "what is asked of the graph for this row gives nothing, or has no value".to_owned(),
            None => "what is asked of the graph for this row gives nothing".to_owned(),
        })
    }

    /// A row of a level as a row of the plan.
    fn spread(&self, level: usize, row: &Row) -> Vec<Value> {
        self.worked.spread(&self.worked.levels[level], row, self.staged.plan().width)
    }

    /// The first of these that has no value in a row, and why; `otherwise` where all have one.
    fn failure_or<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        row: &[Value],
        otherwise: impl FnOnce() -> String,
    ) -> String {
        let graph = self.question.graph;
        let failure = |expr: &'e Expr| Some((expr, self.worked.failure(graph, self.staged, expr, row)?));
        let first = exprs.into_iter().find_map(failure);
        first.map_or_else(otherwise, |(expr, failure)| self.question.no_value(expr, &failure))
    }

    /// What a stage does, in the words of the query.
    fn says(&self, level: &Level<'_>) -> String {
        let words = &self.question.words;
        let all = |exprs: &[Expr]| exprs.iter().map(|expr| words.expr(expr)).collect::<Vec<String>>().join(", ");
        match &level.what {
            What::Pattern(source) => {
                let pattern = self.staged.origins()[*source].pattern;
                match pattern.edges.is_empty() {
                    true => pattern.nodes.iter().map(|node| words.node(node)).collect::<Vec<String>>().join(", "),
                    false => (0..pattern.edges.len()).map(|edge| words.edge(pattern, edge)).collect::<Vec<String>>().join(", "),
                }
            }
            What::Filter(condition) => format!("where {}", words.expr(condition)),
            What::Project(items) => {
                let items = items.iter().map(|(slot, expr)| format!("{} = {}", words.slot(Slot(*slot as u32)), words.expr(expr)));
                items.collect::<Vec<String>>().join(", ")
            }
            What::Unwind(list) => format!("each of {}", words.expr(list)),
            What::Group { keys: [], .. } => "all rows together".to_owned(),
            What::Group { keys, .. } => format!("by {}", all(keys)),
            What::Window { keys, descending, skip, limit } => {
                let keys = keys.iter().zip(descending.iter());
                let keys: Vec<String> =
                    keys.map(|(key, down)| format!("{}{}", words.expr(key), if *down { " DESC" } else { "" })).collect();
                let order = if keys.is_empty() { String::new() } else { format!("ORDER BY {}", keys.join(", ")) };
                let skip = if *skip > 0 { format!(" SKIP {skip}") } else { String::new() };
                format!("{order}{skip}{}", limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"))).trim().to_owned()
            }
            What::Join { left, right, .. } => self.equal(left, right),
            What::Unit | What::Distinct | What::Union | What::Each(_) => String::new(),
        }
    }

    /// By the names of slots.
    fn values(&self, level: &Level<'_>, row: &Row) -> JsonMap<String, Json> {
        let values = level.slots.iter().zip(&row.0);
        values.map(|(slot, value)| (self.question.words.slot(*slot), self.shown(value))).collect()
    }

    fn looked_at(&self, expr: &Expr, row: &[Value]) -> JsonMap<String, Json> {
        let value = |slot: &Slot| row.get(slot.0 as usize).cloned().unwrap_or_default();
        expr.slots().iter().map(|slot| (self.question.words.slot(*slot), self.shown(&value(slot)))).collect()
    }

    /// Nodes by their ids, edges by their ends.
    fn shown(&self, value: &Value) -> Json {
        match value {
            Value::Node(id) => self.question.graph.ids().text(*id).into(),
            Value::Edge(edge) => {
                let edge: &EdgeKey = edge;
                self.question.edge_text(edge).into()
            }
            other => self.question.value(other),
        }
    }
}

fn stage(what: &What<'_>) -> &'static str {
    match what {
        What::Pattern(_) => "Pattern",
        What::Unit => "Start",
        What::Filter(_) => "Filter",
        What::Project(_) => "Project",
        What::Unwind(_) => "Unwind",
        What::Distinct => "Distinct",
        What::Union => "Union",
        What::Each(_) => "Asked",
        What::Group { .. } => "Group",
        What::Window { .. } => "Window",
        What::Join { stays: true, .. } => "Optional",
        What::Join { .. } => "Join",
    }
}
