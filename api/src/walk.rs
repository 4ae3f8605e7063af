//! Random walks over a graph, in the manner of node2vec: from one node, or from every node into a file.
//!
//! A walk steps along edges regardless of their direction. Where it came from decides how likely each step is: back with 1/p,
//! to a node beside the last one with 1, away from it with 1/q. The same seed gives the same walk over the same graph.
//!
//! Zero means something else than in the procedure `random.walk`, where it rules out its steps unless nothing else is left: here
//! a p of 0 rules out the way back, a q of 0 all but the steps away, and a walk of which no step is left ends.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use weir_cypher_compiler::compile;
use weir_model::plan::QueryFacts;
use weir_model::random::{STEP, mix};
use weir_model::{IdScheme, NodeId, Value, json};

use crate::error::{ApiError, chain};
use crate::queries::fixed::{Fixed, node_id};

const NEIGHBOURS: &str = "MATCH (n)--(m) WHERE id(n) = $n RETURN id(m)";
const NODES: &str = "MATCH (n) RETURN id(n)";
const PREFIX: &str = "MATCH (thisNode) WHERE id(thisNode) = $n ";

/// What an item takes beside its text: its place in the list, in the JSON made of it, and what each allocation adds.
const ITEM_BYTES: usize = 128;

/// What a neighbour takes while the next step is chosen: in a list, with a weight, and in the set of those around the last node.
const NEIGHBOUR_BYTES: usize = 96;

#[derive(Clone, Debug)]
pub struct WalkSettings {
    /// Steps.
    pub length: u32,
    /// Walks from each node.
    pub count: u32,
    /// What a node on the way contributes, as the end of a query; its id where nothing is said.
    pub query: Option<String>,
    /// p: how unlikely it is to go back. 0 is never.
    pub return_weight: f64,
    /// q: how unlikely it is to go away. 0 leaves nothing else.
    pub in_out: f64,
    pub seed: Option<String>,
}

impl WalkSettings {
    /// Refuses a query that does more than read, or would look at every node for each node. Any page can have a browser ask for a
    /// walk, and what is called or loaded may tell other servers what was read, or end what others run.
    pub fn check(&self, ask: &Fixed<'_>) -> Result<(), ApiError> {
        let Some(query) = &self.query else { return Ok(()) };
        let text = format!("{PREFIX}{query}");
        ask.app.queries.check_text(&text)?;
        let plan = compile(&text, &ask.app.procedures.options(ask.graph, Vec::new()))?;
        let QueryFacts { writes, calls, at_once, scans, .. } = plan.facts;
        let wrong = match (writes, calls || at_once, scans) {
            (true, ..) => "must only read",
            (_, true, _) => "must not call a procedure or a subquery, nor load a file, for that may do more than read the graph",
            (.., true) => "must not look at every node",
            _ => return Ok(()),
        };
        Err(ApiError::bad(format!("The query of a walk {wrong}: {query}")))
    }

    /// As the list of what runs has it.
    pub fn shown(&self, from: &str) -> String {
        let query = self.query.as_ref().map(|query| format!(": {query}")).unwrap_or_default();
        format!("random walk of {} steps from {from}{query}", self.length)
    }

    fn random(&self, start: NodeId, number: u32) -> Random {
        let seed = self.seed.as_deref().map_or_else(fresh, |seed| seed.bytes().fold(7, |hash, byte| mix(hash ^ u64::from(byte))));
        Random(mix(seed ^ mix(start.high ^ mix(start.low ^ u64::from(number)))))
    }
}

/// What the nodes of one walk contribute, the first node's before that of the first step.
pub fn walk(ask: &Fixed<'_>, settings: &WalkSettings, start: NodeId, number: u32) -> Result<Vec<String>, ApiError> {
    let mut random = settings.random(start, number);
    let mut items = Items::default();
    contribute(ask, settings, start, &mut items)?;
    let (mut here, mut before): (NodeId, Option<(NodeId, BTreeSet<NodeId>)>) = (start, None);
    for _ in 0..settings.length {
        ask.go_on()?;
        let (mut around, mut fits) = (Vec::new(), Ok(()));
        ask.each(NEIGHBOURS, &[("n", ask.id(here))], &mut |row| {
            around.extend(row.first().and_then(node_id));
            fits = ask.may_hold(items.bytes + around.len() * NEIGHBOUR_BYTES);
            while_fits(&fits)
        })?;
        fits?;
        around.sort_unstable();
        let weight = |node: &NodeId| match &before {
            None => 1.0,
            Some((last, _)) if last == node => inverse(settings.return_weight, 0.0),
            Some((_, beside)) if beside.contains(node) => f64::from(u8::from(settings.in_out != 0.0)),
            Some(_) => inverse(settings.in_out, 1.0),
        };
        let weights: Vec<f64> = around.iter().map(weight).collect();
        let Some(next) = random.choose(&weights).and_then(|index| around.get(index).copied()) else { break };
        before = Some((here, around.into_iter().collect()));
        here = next;
        contribute(ask, settings, here, &mut items)?;
    }
    Ok(items.texts)
}

/// What the nodes of a walk have contributed so far.
#[derive(Default)]
struct Items {
    texts: Vec<String>,
    bytes: usize,
}

impl Items {
    fn add(&mut self, text: String, ask: &Fixed<'_>) -> Result<(), ApiError> {
        // Once here, and once in the answer.
        self.bytes += 2 * text.len() + ITEM_BYTES;
        self.texts.push(text);
        ask.may_hold(self.bytes)
    }
}

fn while_fits(fits: &Result<(), ApiError>) -> ControlFlow<()> {
    if fits.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// One over a number; 0 stands for something of its own.
fn inverse(number: f64, of_zero: f64) -> f64 {
    if number == 0.0 { of_zero } else { 1.0 / number }
}

fn contribute(ask: &Fixed<'_>, settings: &WalkSettings, node: NodeId, items: &mut Items) -> Result<(), ApiError> {
    let ids = ask.graph.ids();
    let Some(query) = &settings.query else { return items.add(ids.text(node), ask) };
    let mut fits = Ok(());
    ask.each(&format!("{PREFIX}{query}"), &[("n", ask.id(node))], &mut |row| {
        fits = row.iter().try_for_each(|value| items.add(text(value, ids), ask));
        while_fits(&fits)
    })?;
    fits
}

fn text(value: &Value, ids: IdScheme) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Id(id) => ids.text(*id),
        other => {
            let mut out = Vec::new();
            json::write(other, ids, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    }
}

/// Walks from every node into a file of comma separated values, a walk a row. `written` counts them also where not all are.
pub fn save(ask: Fixed<'_>, settings: &WalkSettings, file: File, written: &mut u64) -> Result<(), ApiError> {
    // A file of walks takes as long as it takes; each walk has its limit.
    let mut nodes = Vec::new();
    ask.each(NODES, &[], &mut |row| {
        nodes.extend(row.first().and_then(node_id));
        ControlFlow::Continue(())
    })?;
    let failed = |error: io::Error| ApiError::Failed(format!("the walks could not be written: {}", chain(&error)));
    let stopping = ask.app.stopping();
    let mut out = BufWriter::new(file);
    for node in nodes {
        for number in 0..settings.count {
            if *stopping.borrow() {
                return Err(ApiError::stopping());
            }
            let ask = Fixed { cancelled: ask.cancelled, ..Fixed::new(ask.app, ask.graph, ask.at) };
            ask.go_on()?;
            let items = walk(&ask, settings, node, number)?;
            let row = std::iter::once(ask.graph.ids().text(node)).chain(items).map(|item| csv(&item)).collect::<Vec<_>>();
            writeln!(out, "{}", row.join(",")).map_err(failed)?;
            *written += 1;
        }
    }
    out.into_inner().map_err(io::Error::from).and_then(|file| file.sync_all()).map_err(failed)
}

fn csv(item: &str) -> String {
    if item.contains([',', '"', '\n', '\r']) { format!("\"{}\"", item.replace('"', "\"\"")) } else { item.to_owned() }
}

struct Random(u64);

impl Random {
    /// An index, with a chance by its weight. None when none has any.
    fn choose(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if total <= 0.0 || !total.is_finite() {
            return None;
        }
        self.0 = self.0.wrapping_add(STEP);
        let mut left = (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64 * total;
        let index = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Sums of fractions may fall short of their total.
        index.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))
    }
}

fn fresh() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_weights() {
        let mut random = Random(1);
        assert_eq!(random.choose(&[]), None);
        assert_eq!(random.choose(&[0.0, 0.0]), None);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[random.choose(&[1.0, 0.0, 3.0]).expect("a choice")] += 1;
        }
        assert!(counts[1] == 0 && (2_200..2_800).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn items_are_quoted_where_they_must_be() {
        assert_eq!((csv("a b").as_str(), csv("a,\"b\"").as_str()), ("a b", "\"a,\"\"b\"\"\""));
    }
}
