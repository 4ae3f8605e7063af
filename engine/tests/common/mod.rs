//! Random graphs with deletions, the queries that watch them, and what the oracle says those must report.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

pub mod any;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_standing};
use weir_engine::evaluate::{Environment, Limits, Prepared, evaluate};
use weir_engine::reference::{ReferenceGraph, matches};
use weir_engine::view::{Direction, View};
use weir_engine::{Engine, Graph, Standing, StandingQuery, Start};
use weir_model::random::STEP;
use weir_model::{Mutations, NodeId, Plan, QueryId, Symbol, Tick, Value};

/// One of each: local conditions, chains, trees, branches that must differ, values that change, absent properties.
pub const QUERIES: &[(StandingMode, &str)] = &[
    (StandingMode::DistinctId, "MATCH (n:A) RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n) WHERE n.x <> 1 RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n:A {x: 1})-[:r]->(m:B) RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (a)-[:r]->(b)-[:r]->(c)-[:r]->(d) WHERE exists(a.x) RETURN DISTINCT id(a) AS id"),
    (StandingMode::DistinctId, "MATCH (a)<-[:r]-(n)-[:r]->(b) WHERE n.y IS NULL RETURN DISTINCT id(n) AS id"),
    (StandingMode::MultipleValues, "MATCH (n) WHERE n.x > 1 RETURN id(n) AS id, n.x AS x, n.y AS y"),
    (StandingMode::MultipleValues, "MATCH (n) RETURN properties(n) AS all"),
    // Those that differ in an id alone.
    (StandingMode::DistinctId, "MATCH (n) WHERE id(n) = '9e3779b9-7f4a-7c15-0000-000000000000' RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n) WHERE id(n) = '3c6ef372-fe94-f82a-0000-000000000001' RETURN DISTINCT id(n) AS id"),
    (StandingMode::MultipleValues, "MATCH (n:A) WHERE id(n) = '9e3779b9-7f4a-7c15-0000-000000000000' AND n.x = 1 RETURN n.y"),
    (StandingMode::MultipleValues, "MATCH (n:A) WHERE id(n) = '3c6ef372-fe94-f82a-0000-000000000001' AND n.x = 1 RETURN n.y"),
    (StandingMode::MultipleValues, "MATCH ()-[:r]->(m) WHERE strId(m) = '9e3779b9-7f4a-7c15-0000-000000000000' RETURN m.x"),
    (StandingMode::MultipleValues, "MATCH ()-[:r]->(m) WHERE strId(m) = '3c6ef372-fe94-f82a-0000-000000000001' RETURN m.x"),
    // Any id will do, so it is being there that makes a match.
    (StandingMode::MultipleValues, "MATCH (n) WHERE id(n) = id(n) RETURN id(n) AS id, 1 + 1 AS two"),
    (StandingMode::MultipleValues, "MATCH (n:A)-[:r]->(m) WHERE n.x < m.x RETURN id(n) AS n, id(m) AS m, m.y AS y"),
    (StandingMode::MultipleValues, "MATCH (a)-[:r]->(b)<-[:s]-(c) RETURN a.x + c.x AS sum, b.y AS y"),
    (StandingMode::MultipleValues, "MATCH (a)<-[:r]-(n)-[:r]->(b) WHERE id(a) <> id(b) RETURN id(a) AS a, id(b) AS b"),
    (StandingMode::MultipleValues, "MATCH (a)-[:r]->(b)-[:s]->(c) WHERE id(a) = id(c) RETURN id(a) AS a, a.x AS x"),
    (StandingMode::AnyQuery, "MATCH (a)-[:r]->(b)-[:s]->(c)-[:r]->(a) RETURN id(a) AS a, b.x AS x"),
    (StandingMode::AnyQuery, "MATCH (a:A)-[:r]->(b) WITH a, count(*) AS c WHERE c > 1 RETURN id(a) AS a, c"),
    (StandingMode::AnyQuery, "MATCH (a:A) OPTIONAL MATCH (a)-[:s]->(b:B) RETURN id(a) AS a, b.x AS x"),
    (StandingMode::AnyQuery, "MATCH (a:A) WHERE NOT EXISTS { (a)-[:r]->(b) WHERE b.x = 1 } RETURN a"),
    (StandingMode::AnyQuery, "MATCH (a:A) WITH DISTINCT a, a.x AS x RETURN x"),
    (StandingMode::AnyQuery, "MATCH (a:A), (b:B) WHERE a.x = b.x RETURN id(a) AS a, id(b) AS b"),
    (StandingMode::AnyQuery, "MATCH (a:A)-[:s*1..2]->(b) RETURN id(a) AS a, id(b) AS b"),
    (StandingMode::AnyQuery, "MATCH (n:B) WITH n ORDER BY n.x, id(n) LIMIT 2 RETURN id(n) AS n"),
];

pub const NODES: u64 = 14;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Ids spread like hashes; node 0 is a supernode that half of all edges touch.
pub fn node(n: u64) -> NodeId {
    NodeId::new((n + 1).wrapping_mul(STEP), n)
}

/// The changes of one record: one to four of any kind, deletions included.
fn random_record(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(4) {
        let target = node(random.below(NODES));
        let hub = if random.below(2) == 0 { node(0) } else { node(random.below(NODES)) };
        let (source, other) = if random.below(2) == 0 { (target, hub) } else { (hub, target) };
        match random.below(10) {
            0 => out.set_label(target, symbol(if random.below(2) == 0 { "A" } else { "B" }), random.below(3) > 0),
            1..=3 => {
                let value = match random.below(6) {
                    0 => Value::Null,
                    1 => Value::text("a text that is too long to lie inline"),
                    2 => Value::Float(1.0),
                    n => Value::Integer(n as i64 - 3),
                };
                out.set_property(target, symbol(if random.below(2) == 0 { "x" } else { "y" }), &value);
            }
            4 => {
                out.clear_properties(target);
                out.set_property(target, symbol("x"), &Value::Integer(random.below(4) as i64));
            }
            5 if random.below(4) == 0 => out.clear_properties(target),
            6 | 7 => out.set_edge(source, symbol(if random.below(3) > 0 { "r" } else { "s" }), other, 0, true),
            8 => out.set_edge(source, symbol(if random.below(3) > 0 { "r" } else { "s" }), other, 0, false),
            _ => out.set_edge(target, symbol("r"), target, 0, random.below(2) == 0),
        }
    }
}

/// How long the thread that asks has run by now: of what it does itself, whatever else the machine has to do.
#[expect(unsafe_code, reason = "neither the standard library nor rustix as it is built here tells of it")]
pub fn own_time() -> Duration {
    let mut told = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to, and lives longer than the call.
    let said = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut told) };
    assert_eq!(said, 0, "the system knows no such clock");
    Duration::new(told.tv_sec as u64, told.tv_nsec as u32)
}

/// All that a graph holds, in the order of its ids.
pub fn describe(view: &dyn View) -> String {
    let mut out = String::new();
    view.nodes(&mut |id: NodeId| {
        let mut facts = Vec::new();
        view.labels(id, &mut |label| facts.push(format!("{label:?}")));
        view.properties(id, &mut |key, value| facts.push(format!("{key:?} {value:?}")));
        view.edges(id, Direction::Both, &[], &mut |half| facts.push(format!("{half:?}")));
        facts.sort();
        out += &format!("{id:?} {facts:?}\n");
        true
    });
    out
}

pub type Rows = BTreeMap<Vec<Value>, i64>;

/// The changes of each query at each record, as the oracle sees them.
pub fn expected(plans: &[Plan], records: &[Mutations], engine: &Engine) -> Vec<BTreeMap<usize, Rows>> {
    let graph = engine.default_graph();
    plans
        .iter()
        .map(|plan| {
            let prepared = Prepared::new(plan.clone(), graph.symbols());
            let mut reference = ReferenceGraph::new();
            let mut before = Rows::new();
            let is_any = |(mode, text): &(StandingMode, &str)| *mode == StandingMode::AnyQuery && *text == plan.source;
            let any = QUERIES.iter().find(|query| is_any(query));
            let any = any.map(|(_, text)| Prepared::new(ad_hoc(text), graph.symbols()));
            let mut changes = BTreeMap::new();
            for (index, record) in records.iter().enumerate() {
                reference.apply_all(record);
                let after = match &any {
                    Some(any) => answer(any, &reference, &graph),
                    None => matches(&prepared, &reference, graph.symbols(), graph.ids()).expect("a plan the oracle knows"),
                };
                let mut change = after.clone();
                for (row, count) in &before {
                    *change.entry(row.clone()).or_default() -= count;
                }
                change.retain(|_, count| *count != 0);
                if !change.is_empty() {
                    changes.insert(index, change);
                }
                before = after;
            }
            changes
        })
        .collect()
}

/// The plan of a text as an ad-hoc query.
pub fn ad_hoc(text: &str) -> Plan {
    match weir_cypher_compiler::compile(text, &CompileOptions::default()) {
        Ok(plan) => plan,
        Err(problems) => panic!("{text}: {}", problems[0]),
    }
}

/// What an ad-hoc query answers.
pub fn answer(prepared: &Prepared, reference: &ReferenceGraph, graph: &Graph) -> Rows {
    answer_at(prepared, reference, graph, 0)
}

/// What it answers at a millisecond.
pub fn answer_at(prepared: &Prepared, reference: &ReferenceGraph, graph: &Graph, now: i64) -> Rows {
    let environment = Environment {
        view: reference,
        parameters: &[],
        ids: graph.ids(),
        now: weir_model::Clock::at(now),
        fresh_id: &NodeId::default,
        limits: Limits::NONE,
        open_cypher: graph.open_cypher(),
        recall: None,
    };
    let mut rows = Rows::new();
    evaluate(prepared, graph.symbols(), &environment, &mut Mutations::default(), &mut |row| {
        *rows.entry(row.to_vec()).or_default() += 1;
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|failure| panic!("{}: {failure}", prepared.plan.source));
    rows
}

pub fn compile(mode: StandingMode, text: &str) -> Plan {
    match compile_standing(text, mode, &CompileOptions::default()) {
        Ok(standing) => standing.plan,
        Err(problems) => panic!("{text}: {}", problems[0]),
    }
}

pub fn install(engine: &Engine, plans: &[Plan], start: Start, outputs: &[&str]) -> Vec<StandingQuery> {
    let graph = engine.default_graph();
    let install = |(index, plan): (usize, &Plan)| {
        let id = QueryId(NodeId::new(index as u64, 7));
        let outputs = outputs.iter().map(|name| (*name).into()).collect();
        let standing = Standing { id, plan: plan.clone(), cancellations: true, start, outputs };
        graph.install(standing).expect("a maintainable query")
    };
    plans.iter().enumerate().map(install).collect()
}

/// Everything a query reports before `upper`, net, by tick.
pub fn collect(query: &StandingQuery, upper: Tick) -> BTreeMap<Tick, Rows> {
    let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
    loop {
        let batch = query.next(Duration::from_secs(20)).expect("a living query").expect("results within 20 s");
        for result in batch.rows {
            let count = found.entry(result.tick).or_default().entry(result.row.0.to_vec()).or_default();
            *count += if result.positive { 1 } else { -1 };
        }
        if batch.upper >= upper {
            return found;
        }
    }
}

pub fn plans() -> Vec<Plan> {
    QUERIES.iter().map(|(mode, text)| compile(*mode, text)).collect()
}

/// Records made with the symbols of `graph`.
pub fn random_records(seed: u64, count: usize, graph: &Graph) -> Vec<Mutations> {
    let mut random = Random(seed);
    let record = |_| {
        let mut record = Mutations::default();
        random_record(&mut random, graph, &mut record);
        record
    };
    (0..count).map(record).collect()
}

/// Gives `to` the symbols of `from`, so that records made with the one mean the same in the other.
pub fn share_symbols(from: &Graph, to: &Graph) {
    for number in 0..from.symbols().len() {
        to.symbols().intern(&from.symbols().name(Symbol(number as u32)));
    }
}

/// The records as one batch.
pub fn concatenate(records: &[Mutations]) -> Mutations {
    let mut all = Mutations::default();
    for (index, record) in records.iter().enumerate() {
        all.start_record(index as u32);
        all.append(record);
    }
    all
}
