//! The pass `rings`: payments between accounts, some of which pay and are paid very often; cycles of three and of four in which every
//! amount is over a limit. `rings-floor` is the same written by hand in differential dataflow.
//!
//! A payment is an edge with an amount; another one between the same two accounts takes its place, and one that was not renewed ends
//! after a while. What must come out is counted from outside, by looking for the cycles through each edge that begins or ends to count.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::input::Input;
use weir_cypher_compiler::{StandingMode, compile_standing};
use weir_engine::store::InMemory;
use weir_engine::{Graph, Standing, Start};
use weir_model::{Mutations, NodeId, QueryId, Tick, Value};

use crate::data::mix;
use crate::measure::{Clock, Run};
use crate::passes::Settings;
use crate::weir::{self, Counter};

const ACCOUNTS: usize = 100_000;
const SKEW: f64 = 1.1;

/// Amounts lie below the first, and count above the second.
const AMOUNT_MAX: u64 = 1_000;
const LIMIT: u64 = 900;

/// A payment ends after this part of all events.
const ENDS_AFTER: u64 = 5;

const THREE: &str = "MATCH (a)-[x:pays]->(b)-[y:pays]->(c)-[z:pays]->(a) \
    WHERE x.amount > 900 AND y.amount > 900 AND z.amount > 900 RETURN id(a) AS a, id(b) AS b, id(c) AS c";
const FOUR: &str = "MATCH (a)-[w:pays]->(b)-[x:pays]->(c)-[y:pays]->(d)-[z:pays]->(a) \
    WHERE w.amount > 900 AND x.amount > 900 AND y.amount > 900 AND z.amount > 900 \
    RETURN id(a) AS a, id(b) AS b, id(c) AS c, id(d) AS d";

type Edge = (u32, u32);

/// An edge that has an amount from here on, or none.
type Change = (Edge, Option<u64>);

/// The changes of each event: a payment, and the end of an old one.
fn events(settings: &Settings) -> Vec<Vec<Change>> {
    let mut sum = 0.0;
    let weights: Vec<f64> = (1..=ACCOUNTS).map(|rank| (rank as f64).powf(-SKEW)).collect();
    let cumulative: Vec<f64> = weights
        .iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    let account = |random: u64| {
        let at = (random >> 11) as f64 / (1u64 << 53) as f64 * sum;
        cumulative.partition_point(|below| *below < at).min(ACCOUNTS - 1) as u32
    };
    let random = |i: u64, n: u64| mix(mix(settings.seed).wrapping_add(i * 8 + n));
    let payment = |i: u64| {
        let from = account(random(i, 0));
        let to = account(random(i, 1));
        ((from, if from == to { (to + 1) % ACCOUNTS as u32 } else { to }), random(i, 2) % AMOUNT_MAX)
    };
    let ends_after = (settings.events / ENDS_AFTER).max(1);
    let mut newest: HashMap<Edge, u64> = HashMap::new();
    (0..settings.events)
        .map(|i| {
            let (edge, amount) = payment(i);
            newest.insert(edge, i);
            let ended = i.checked_sub(ends_after).map(|old| (payment(old).0, old));
            let ended = ended.filter(|(edge, old)| newest.get(edge) == Some(old));
            let ended = ended.map(|(edge, _)| {
                newest.remove(&edge);
                (edge, None)
            });
            ended.into_iter().chain([(edge, Some(amount))]).collect()
        })
        .collect()
}

/// The edges that count, both ways.
#[derive(Default)]
struct Counting {
    out: HashMap<u32, HashSet<u32>>,
    into: HashMap<u32, HashSet<u32>>,
}

impl Counting {
    fn has(&self, (from, to): Edge) -> bool {
        self.out.get(&from).is_some_and(|out| out.contains(&to))
    }

    /// The matches an edge is part of: each cycle once for each of its nodes to begin at.
    fn matches(&self, (from, to): Edge) -> u64 {
        let none = HashSet::new();
        let (out, into) = (self.out.get(&to).unwrap_or(&none), self.into.get(&from).unwrap_or(&none));
        let threes = out.iter().filter(|next| into.contains(next)).count() as u64;
        let mut fours = 0;
        for third in out {
            // An edge may not be used twice.
            fours +=
                into.iter().filter(|fourth| self.has((*third, **fourth)) && !(*third == from && **fourth == to)).count() as u64;
        }
        3 * threes + 4 * fours
    }
}

/// Matches and cancellations.
fn expected(events: &[Vec<Change>]) -> (u64, u64) {
    let (mut counting, mut begun, mut ended) = (Counting::default(), 0, 0);
    for (edge, amount) in events.iter().flatten() {
        let (was, is) = (counting.has(*edge), amount.is_some_and(|amount| amount > LIMIT));
        if was && !is {
            ended += counting.matches(*edge);
            counting.out.entry(edge.0).or_default().remove(&edge.1);
            counting.into.entry(edge.1).or_default().remove(&edge.0);
        }
        if is && !was {
            counting.out.entry(edge.0).or_default().insert(edge.1);
            counting.into.entry(edge.1).or_default().insert(edge.0);
            begun += counting.matches(*edge);
        }
    }
    (begun, ended)
}

fn install(graph: &Graph, number: u64, text: &str) -> Result<Counter, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: Vec::new(), ids: graph.ids(), ..Default::default() };
    let standing = compile_standing(text, StandingMode::AnyQuery, &options).map_err(|problems| problems[0].to_string())?;
    let id = QueryId(NodeId::new(mix(number), number));
    let standing = Standing { id, plan: standing.plan, cancellations: true, start: Start::Now, outputs: Vec::new() };
    Ok(Counter::start(graph.install(standing)?, |_| ())?)
}

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let events = events(settings);
    let (begun, ended) = expected(&events);
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (pays, amount_of) = (graph.symbols().intern("pays"), graph.symbols().intern("amount"));
    let node = |account: u32| NodeId::new(mix(u64::from(account)), u64::from(account));
    let batches: Vec<(Mutations, usize)> = events
        .chunks(settings.batch as usize)
        .map(|events| {
            let mut mutations = Mutations::default();
            for (event, record) in events.iter().zip(0..) {
                mutations.start_record(record);
                for ((from, to), amount) in event {
                    let value = amount.map_or(Value::Null, |amount| Value::Integer(amount as i64));
                    mutations.set_edge(node(*from), pays, node(*to), 0, amount.is_some());
                    mutations.set_edge_property(node(*from), pays, node(*to), 0, amount_of, &value);
                }
            }
            (mutations, events.len())
        })
        .collect();
    drop(events);
    let counters = [install(&graph, 3, THREE)?, install(&graph, 4, FOUR)?];
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        upper = graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    let (mut matches, mut cancellations) = (0, 0);
    for counter in counters {
        let counted = counter.finish(upper)?;
        matches += counted.matches;
        cancellations += counted.cancellations;
    }
    let mut run = clock.stop("rings", settings.events)?;
    engine.shutdown()?;
    run.matches = Some(matches + cancellations);
    run.expected = Some(begun + ended);
    run.settings = format!(
        "payments to counted cycles of three and of four, in memory, {} workers, {} events a batch; {matches} matches, {cancellations} \
         cancellations",
        settings.workers, settings.batch
    );
    if matches != begun {
        return Err(format!("{matches} matches, where {begun} are expected").into());
    }
    Ok(run)
}

/// By hand: only the edges that count come in, as two numbers.
pub fn floor(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let events = events(settings);
    let (begun, ended) = expected(&events);
    let batch = settings.batch as usize;
    let run = timely::execute_directly(move |worker| -> std::io::Result<Run> {
        let found = Rc::new(Cell::new(0u64));
        let (threes, fours) = (found.clone(), found.clone());
        let (mut edges_in, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (edges_in, edges) = scope.new_collection::<Edge, isize>();
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.clone().map(|(from, to)| (to, from)).arrange_by_key();
            let paths = by_target.join_core(by_source, |through, from, to| Some(((*from, *to), *through))).arrange_by_key();
            let closing = edges.map(|(from, to)| ((to, from), ())).arrange_by_key();
            let three = paths.clone().join_core(closing, |(a, c), b, ()| Some((*a, *b, *c)));
            let turned = paths.clone().as_collection(|(a, c), b| ((*c, *a), *b)).arrange_by_key();
            let four = paths.join_core(turned, |(a, c), b, d| (!(a == c && b == d)).then_some((*a, *b, *c, *d)));
            let count = |found: Rc<Cell<u64>>, diff: isize| found.set(found.get() + diff.unsigned_abs() as u64);
            let (probe, _) = three.consolidate().inspect(move |(_, _, diff)| count(threes.clone(), *diff)).probe();
            four.consolidate().inspect(move |(_, _, diff)| count(fours.clone(), *diff)).probe_with(&probe);
            (edges_in, probe)
        });
        let mut counting: HashSet<Edge> = HashSet::new();
        let clock = Clock::start()?;
        let mut tick = 0;
        let count = events.len() as u64;
        for events in events.chunks(batch) {
            // Each event has a time of its own, as in weir: results are those of each.
            for event in events {
                for (edge, amount) in event {
                    let is = amount.is_some_and(|amount| amount > LIMIT);
                    match (is, counting.contains(edge)) {
                        (true, false) => {
                            counting.insert(*edge);
                            edges_in.insert(*edge);
                        }
                        (false, true) => {
                            counting.remove(edge);
                            edges_in.remove(*edge);
                        }
                        _ => {}
                    }
                }
                tick += 1;
                edges_in.advance_to(tick);
            }
            edges_in.flush();
            while probe.less_than(&tick) {
                worker.step();
            }
        }
        let mut run = clock.stop("rings-floor", count)?;
        run.matches = Some(found.get());
        Ok(run)
    });
    let mut run = run?;
    run.expected = Some(begun + ended);
    run.settings = format!("hand-written differential dataflow, 1 worker, {batch} events a batch");
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn cycles_are_counted_right_by_weir_and_by_hand() {
        for workers in [1, 2] {
            let settings = Settings { workers, ..test_settings("rings", 6_000) };
            for pass in [run, floor] {
                let run = pass(&settings).expect("it runs");
                assert!(run.count_is_right() && run.matches > Some(0), "{run:?}");
            }
        }
    }
}
