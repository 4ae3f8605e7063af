//! The pass `rings`: payments between accounts, some of which pay and are paid very often; cycles of three and of four in which
//! every amount is over a limit. `rings-floor` is the same written by hand in differential dataflow, `rings-latency` the same
//! paced; `rings-count` reports accounts with some cycles of three, and `rings-not` those cycles of three in which nothing is
//! paid back.
//!
//! A payment is an edge with an amount; another one between the same two accounts takes its place, and one that was not renewed
//! ends after a while. What must come out is counted from outside, by looking for the cycles through each edge that begins or
//! ends to count.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::input::Input;
use weir_cypher_compiler::{StandingMode, compile_standing};
use weir_engine::store::InMemory;
use weir_engine::{Graph, Standing, StandingQuery, Start};
use weir_model::{Mutations, NodeId, QueryId, Symbol, Tick, Value};

use crate::data::mix;
use crate::latency::{Arrivals, Pace};
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

const COUNT: &str = "MATCH (a)-[x:pays]->(b)-[y:pays]->(c)-[z:pays]->(a) \
    WHERE x.amount > 900 AND y.amount > 900 AND z.amount > 900 \
    WITH id(a) AS a, count(*) AS rings WHERE rings >= 3 RETURN a, rings";
const NOT: &str = "MATCH (a)-[x:pays]->(b)-[y:pays]->(c)-[z:pays]->(a) \
    WHERE x.amount > 900 AND y.amount > 900 AND z.amount > 900 AND NOT (b)-[:pays]->(a) \
    RETURN id(a) AS a, id(b) AS b, id(c) AS c";

/// What `rings-count` asks of an account.
const RINGS_MIN: i64 = 3;

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

/// The edges that count, both ways, and all there are.
#[derive(Default)]
struct Counting {
    out: HashMap<u32, HashSet<u32>>,
    into: HashMap<u32, HashSet<u32>>,
    all: HashSet<Edge>,
}

impl Counting {
    fn has(&self, (from, to): Edge) -> bool {
        self.out.get(&from).is_some_and(|out| out.contains(&to))
    }

    /// The nodes that close an edge to a cycle of three.
    fn thirds(&self, (from, to): Edge) -> Vec<u32> {
        let thirds = self.out.get(&to).into_iter().flatten().filter(|third| self.has((**third, from)));
        thirds.copied().collect()
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

    /// Whether the edge counted, and does now.
    fn change(&mut self, (edge, amount): &Change) -> (bool, bool) {
        let (was, is) = (self.has(*edge), amount.is_some_and(|amount| amount > LIMIT));
        if is {
            self.out.entry(edge.0).or_default().insert(edge.1);
            self.into.entry(edge.1).or_default().insert(edge.0);
        } else if was {
            self.out.entry(edge.0).or_default().remove(&edge.1);
            self.into.entry(edge.1).or_default().remove(&edge.0);
        }
        match amount {
            Some(_) => self.all.insert(*edge),
            None => self.all.remove(edge),
        };
        (was, is)
    }
}

/// Matches and cancellations.
type Expected = (u64, u64);

fn expected(events: &[Vec<Change>]) -> Expected {
    let (mut counting, mut begun, mut ended) = (Counting::default(), 0, 0);
    for change in events.iter().flatten() {
        // The matches of an edge are the same whether it counts or not.
        match counting.change(change) {
            (true, false) => ended += counting.matches(change.0),
            (false, true) => begun += counting.matches(change.0),
            _ => {}
        }
    }
    (begun, ended)
}

fn expected_counts(events: &[Vec<Change>]) -> Expected {
    let (mut counting, mut begun, mut ended) = (Counting::default(), 0, 0);
    let mut rings: HashMap<u32, i64> = HashMap::new();
    for event in events {
        let mut before: HashMap<u32, i64> = HashMap::new();
        for change in event {
            let (was, is) = counting.change(change);
            let diff = i64::from(is) - i64::from(was);
            for third in counting.thirds(change.0) {
                for account in [change.0.0, change.0.1, third] {
                    let rings = rings.entry(account).or_default();
                    before.entry(account).or_insert(*rings);
                    *rings += diff;
                }
            }
        }
        for (account, before) in before.into_iter().filter(|(account, before)| rings[account] != *before) {
            begun += u64::from(rings[&account] >= RINGS_MIN);
            ended += u64::from(before >= RINGS_MIN);
        }
    }
    (begun, ended)
}

fn expected_without_payment_back(events: &[Vec<Change>]) -> Expected {
    let (mut counting, mut begun, mut ended) = (Counting::default(), 0, 0);
    let mut found: HashSet<[u32; 3]> = HashSet::new();
    for event in events {
        let mut concerned: HashSet<[u32; 3]> = HashSet::new();
        for change in event {
            let (from, to) = change.0;
            counting.change(change);
            let of_edge = counting.thirds((from, to)).into_iter().flat_map(|third| {
                let [a, b, c] = [from, to, third];
                [[a, b, c], [b, c, a], [c, a, b]]
            });
            concerned.extend(of_edge.chain(counting.thirds((to, from)).into_iter().map(|third| [to, from, third])));
        }
        for [a, b, c] in concerned {
            let is_ring = [(a, b), (b, c), (c, a)].into_iter().all(|edge| counting.has(edge));
            let is = is_ring && !counting.all.contains(&(b, a));
            let changes = if is { found.insert([a, b, c]) } else { found.remove(&[a, b, c]) };
            begun += u64::from(changes && is);
            ended += u64::from(changes && !is);
        }
    }
    (begun, ended)
}

fn install(graph: &Graph, number: u64, text: &str) -> Result<StandingQuery, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: Vec::new(), ids: graph.ids(), ..Default::default() };
    let standing = compile_standing(text, StandingMode::AnyQuery, &options).map_err(|problems| problems[0].to_string())?;
    let id = QueryId(NodeId::new(mix(number), number));
    Ok(graph.install(Standing { id, plan: standing.plan, cancellations: true, start: Start::Now, outputs: Vec::new() })?)
}

/// What a batch of events changes.
fn mutations(events: &[Vec<Change>], pays: Symbol, amount_of: Symbol) -> Mutations {
    let node = |account: u32| NodeId::new(mix(u64::from(account)), u64::from(account));
    let mut mutations = Mutations::default();
    for (event, record) in events.iter().zip(0..) {
        mutations.start_record(record);
        for ((from, to), amount) in event {
            let value = amount.map_or(Value::Null, |amount| Value::Integer(amount as i64));
            mutations.set_edge(node(*from), pays, node(*to), 0, amount.is_some());
            mutations.set_edge_property(node(*from), pays, node(*to), 0, amount_of, &value);
        }
    }
    mutations
}

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    flat_out(settings, ("rings", "counted cycles of three and of four"), &[THREE, FOUR], expected)
}

pub fn count(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    flat_out(settings, ("rings-count", "accounts with three cycles of three or more"), &[COUNT], expected_counts)
}

pub fn not(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let what = ("rings-not", "counted cycles of three without a payment back");
    flat_out(settings, what, &[NOT], expected_without_payment_back)
}

fn flat_out(
    settings: &Settings,
    (name, what): (&str, &str),
    texts: &[&str],
    expected: fn(&[Vec<Change>]) -> Expected,
) -> Result<Run, Box<dyn Error>> {
    let events = events(settings);
    let expected = expected(&events);
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (pays, amount_of) = (graph.symbols().intern("pays"), graph.symbols().intern("amount"));
    let chunks = events.chunks(settings.batch as usize);
    let batches: Vec<(Mutations, usize)> = chunks.map(|events| (mutations(events, pays, amount_of), events.len())).collect();
    drop(events);
    let mut counters = Vec::new();
    for (text, number) in texts.iter().zip(3..) {
        counters.push(Counter::start(install(&graph, number, text)?, |_| ())?);
    }
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        upper = graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    let found = finish(counters, upper)?;
    let mut run = clock.stop(name, settings.events)?;
    engine.shutdown()?;
    run.settings = format!("payments to {what}, in memory, {} workers, {} events a batch", settings.workers, settings.batch);
    compare(run, found, expected)
}

/// Payments handed over at a part of the rate reached, until the cycles they make or break are received.
pub fn paced(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let rate = match settings.rate {
        Some(rate) => rate,
        None => run(settings)?.rate() * settings.load,
    };
    let events = events(settings);
    let expected = expected(&events);
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (pays, amount_of) = (graph.symbols().intern("pays"), graph.symbols().intern("amount"));
    let arrivals = Arrivals::expecting(settings.events);
    let mut counters = Vec::new();
    for (text, number) in [THREE, FOUR].iter().zip(3..) {
        counters.push(Counter::start(install(&graph, number, text)?, arrivals.noted())?);
    }
    let clock = Clock::start()?;
    let pace = Pace::keep(rate, settings.events, settings.batch, |range| {
        let due = &events[range.start as usize..range.end as usize];
        Ok(graph.apply(mutations(due, pays, amount_of), due.len())?)
    })?;
    let found = finish(counters, pace.upper)?;
    let mut run = clock.stop("rings-latency", settings.events)?;
    engine.shutdown()?;
    run.latency_us = pace.latency(&arrivals);
    run.settings = format!(
        "paced at {rate:.0} events/s, payment due to cycle received, in memory, {} workers, {:.1} events a batch",
        settings.workers,
        pace.average()
    );
    compare(run, found, expected)
}

fn finish(counters: Vec<Counter>, upper: Tick) -> Result<Expected, Box<dyn Error>> {
    let (mut matches, mut cancellations) = (0, 0);
    for counter in counters {
        let counted = counter.finish(upper)?;
        matches += counted.matches;
        cancellations += counted.cancellations;
    }
    Ok((matches, cancellations))
}

fn compare(mut run: Run, (matches, cancellations): Expected, (begun, ended): Expected) -> Result<Run, Box<dyn Error>> {
    run.matches = Some(matches + cancellations);
    run.expected = Some(begun + ended);
    run.settings += &format!("; {matches} matches, {cancellations} cancellations");
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
    fn every_cycle_is_timed() {
        let run = paced(&Settings { rate: Some(50_000.0), ..test_settings("rings-latency", 6_000) }).expect("it runs");
        let latency = run.latency_us.expect("there were results");
        assert!(run.count_is_right() && latency.p50 > 1.0 && latency.p50 <= latency.max, "{run:?}");
    }

    #[test]
    fn cycles_are_counted_right_by_weir_and_by_hand() {
        for workers in [1, 2] {
            let settings = Settings { workers, ..test_settings("rings", 20_000) };
            for pass in [run, floor, count, not] {
                let run = pass(&settings).expect("it runs");
                assert!(run.count_is_right() && run.matches > Some(0), "{run:?}");
            }
        }
    }
}
