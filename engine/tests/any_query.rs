//! Proof of exactness for mode AnyQuery: at every tick, what a standing query has reported so far is what the ad-hoc query
//! answers on the graph as it is then.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::any::{NODES, PARTS, QUERIES, comparable_rows, held_against, random_record};
use common::{Random, Rows, ad_hoc, answer, collect, compile, concatenate, node, share_symbols};
use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_standing};
use weir_engine::evaluate::Prepared;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::InMemory;
use weir_engine::{Engine, Graph, GraphOptions, HubBounds, Options, Standing, StandingQuery, Start};
use weir_model::random::STEP;
use weir_model::{IdScheme, Mutations, NodeId, QueryId, Tick, Value};

/// Of each query its answer after each record.
fn answers(queries: &[&str], records: &[Mutations], graph: &Graph) -> Vec<Vec<Rows>> {
    let of_query = |text: &&str| {
        let prepared = Prepared::new(ad_hoc(text), graph.symbols());
        let mut reference = ReferenceGraph::new();
        let after = |record: &Mutations| {
            reference.apply_all(record);
            comparable_rows(answer(&prepared, &reference, graph), text.contains("ORDER BY"))
        };
        records.iter().map(after).collect()
    };
    queries.iter().map(of_query).collect()
}

fn install(engine: &Engine, queries: &[&str], set: u64) -> Vec<StandingQuery> {
    let graph = engine.default_graph();
    let install = |(index, text): (usize, &&str)| {
        let plan = compile(StandingMode::AnyQuery, text);
        let id = QueryId(NodeId::new((index as u64).wrapping_mul(STEP), set));
        graph.install(Standing { id, plan, cancellations: true, start: Start::WholeGraph, outputs: Vec::new() }).unwrap()
    };
    queries.iter().enumerate().map(install).collect()
}

/// How many rows come before `upper`, less those that go.
fn more_rows(query: &StandingQuery, upper: Tick) -> i64 {
    collect(query, upper).values().flat_map(|rows| rows.values()).sum()
}

/// Adds what a query reports, and compares with the answers as they should be.
fn check(text: &str, found: BTreeMap<Tick, Rows>, ticks: &[Tick], wanted: &[Rows]) -> Option<String> {
    let ordered = text.contains("ORDER BY");
    let mut now = Rows::new();
    let mut found = found.into_iter().peekable();
    for (record, (tick, wanted)) in ticks.iter().zip(wanted).enumerate() {
        while let Some((_, rows)) = found.next_if(|(at, _)| at <= tick) {
            for (row, count) in comparable_rows(rows, ordered) {
                *now.entry(row).or_default() += count;
            }
        }
        now.retain(|_, count| *count != 0);
        if now != *wanted {
            let only = |a: &Rows, b: &Rows| -> Rows {
                a.iter().filter(|(row, count)| b.get(*row) != Some(count)).map(|(row, count)| (row.clone(), *count)).collect()
            };
            return Some(format!(
                "{text}\n  after record {record}: reported {:?}, not {:?}",
                only(&now, wanted),
                only(wanted, &now)
            ));
        }
    }
    None
}

type Make = fn(&mut Random, &Graph, &mut Mutations);

/// With edges beside others of their type, or without.
fn open(workers: usize, open_cypher: bool, hubs: HubBounds) -> Engine {
    let graph = Some(GraphOptions { open_cypher });
    Engine::open(Arc::new(InMemory::default()), Options { workers, graph, hubs, ..Options::default() }).unwrap()
}

/// Every node is a hub.
const ALL_HUBS: HubBounds = HubBounds { edges_min: 1, ahead_min: 1, kept_max: 1_000_000 };

fn run(
    (queries, make, open_cypher, hubs): (&[&str], Make, bool, HubBounds),
    seed: u64,
    count: usize,
    settings: &[(usize, usize)],
) {
    let scratch = open(1, open_cypher, hubs);
    let mut random = Random(seed);
    let records: Vec<Mutations> = (0..count)
        .map(|_| {
            let mut record = Mutations::default();
            make(&mut random, &scratch.default_graph(), &mut record);
            record
        })
        .collect();
    let wanted = answers(queries, &records, &scratch.default_graph());
    for (workers, batch) in settings {
        let engine = open(*workers, open_cypher, hubs);
        engine.start().unwrap();
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let from_start = install(&engine, queries, 1);
        let (mut later, mut begun) = (Vec::new(), 0);
        let mut ticks: Vec<Tick> = Vec::new();
        for records in records.chunks(*batch) {
            // A query that comes later finds what is there, and goes on from there.
            if later.is_empty() && ticks.len() >= count / 2 {
                later = install(&engine, queries, 2);
                begun = ticks.len();
            }
            let upper = graph.apply(concatenate(records), records.len()).unwrap();
            ticks.extend((0..records.len()).map(|i| Tick(upper.0 - records.len() as u64 + i as u64)));
        }
        let upper = ticks.last().unwrap().next();
        let what = format!("seed {seed}, {workers} workers, batches of {batch}");
        let mut wrong = Vec::new();
        for ((text, query), wanted) in queries.iter().zip(&from_start).zip(&wanted) {
            wrong.extend(check(text, collect(query, upper), &ticks, wanted));
        }
        for ((text, query), wanted) in queries.iter().zip(&later).zip(&wanted) {
            let found = collect(query, upper);
            wrong.extend(check(text, found, &ticks[begun..], &wanted[begun..]).map(|wrong| format!("installed later: {wrong}")));
        }
        assert!(wrong.is_empty(), "{what}: {} of {} are wrong\n{}", wrong.len(), queries.len(), wrong.join("\n"));
        engine.shutdown().unwrap();
    }
}

const SETTINGS: &[(usize, usize)] = &[(1, 1), (1, 40), (2, 7), (4, 1), (4, 1000)];

#[test]
fn every_tick_has_the_answer_of_its_graph() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((QUERIES, random_record, false, ALL_HUBS), seed, 160, SETTINGS);
    }
}

#[test]
fn what_the_clauses_of_parts_make_is_followed() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((PARTS, random_record, false, ALL_HUBS), seed, 160, SETTINGS);
    }
}

/// `WEIR_HELD_AGAINST=5000` makes so many queries.
#[test]
fn what_stands_elsewhere_is_there_when_it_is_asked_for() {
    let count = std::env::var("WEIR_HELD_AGAINST").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    let seed = std::env::var("WEIR_HELD_AGAINST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(88172645463325252);
    let mut random = Random(seed);
    for round in 0..count / 50 {
        let queries: Vec<String> = (0..50).map(|_| held_against(&mut random)).collect();
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        // Edges beside others of their type in every other round.
        run((&queries, random_record, round % 2 == 1, ALL_HUBS), seed ^ (round << 32), 70, &[(1, 1), (2, 20)]);
    }
}

/// What is asked of edges is asked of their property `w` alone, so that those that count are kept at the nodes that walks meet.
const SIEVES: &[&str] = &[
    "MATCH (a)-[e:r]->(b)-[f:r]->(c)-[g:r]->(a) WHERE e.w > 1 AND f.w > 1 AND g.w > 1 RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[e:r]->(b)-[f:r]->(c)-[g:r]->(d)-[h:r]->(a) WHERE e.w = 3 AND f.w > 1 AND g.w = 3 AND h.w > 1 RETURN id(a) AS a, id(c) AS c",
    "MATCH (a)-[e:r]->(b)<-[f:r]-(c) WHERE e.w = 2 AND f.w = 2 RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)<-[e:r]-(b)-[f:s]->(c) WHERE e.w >= 2 AND f.w < 2 RETURN id(a) AS a, id(c) AS c",
    "MATCH (a)-[e:r|s]->(b)-[f:r|s]->(a) WHERE e.w < 2 AND f.w < 2 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[e:r]->(b)-[f:r]->(c) WHERE e.w > 2 AND f.w > 2 AND a.z < c.z RETURN count(*) AS n",
    // Of this one more is asked: it is looked up as ever.
    "MATCH (a)-[e:r]->(b)-[f:r]->(c) WHERE e.w > 1 AND f.w > 1 AND e.w < f.w RETURN id(a) AS a, e.w AS w",
];

/// Changes around a few nodes of many edges.
fn edges_of_hubs(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(4) {
        let (hub, other) = (node(random.below(3)), node(random.below(22)));
        let (source, target) = if random.below(2) == 0 { (hub, other) } else { (other, hub) };
        let kind = symbol(if random.below(4) > 0 { "r" } else { "s" });
        let w = if random.below(9) == 0 { Value::Null } else { Value::Integer(random.below(4) as i64) };
        let ordinal = u32::from(graph.open_cypher() && random.below(6) == 0);
        match random.below(8) {
            0 => out.set_edge(source, kind, target, ordinal, false),
            1 => out.set_edge_property(source, kind, target, ordinal, symbol("w"), &w),
            2 => out.set_property(source, symbol("z"), &Value::Integer(random.below(4) as i64)),
            _ => {
                out.set_edge(source, kind, target, ordinal, true);
                out.set_edge_property(source, kind, target, ordinal, symbol("w"), &w);
            }
        }
    }
}

#[test]
fn edges_that_count_are_found_where_they_are_kept() {
    for seed in [88172645463325252, 4101842887655102017] {
        for parallel in [false, true] {
            run((SIEVES, edges_of_hubs, parallel, ALL_HUBS), seed, 260, &[(1, 1), (1, 9), (1, 70), (3, 7)]);
        }
    }
}

/// A node is named by its id, the text of it in either case, its bytes, or by something that is none of them: `id(n) = …` takes
/// them all where the pattern looks for `n`, and is an equation where an earlier one has found it.
const NAMED: &[&str] = &[
    "MATCH (a:A)-[:r]->(b) WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(b:A) WHERE a.ref = strId(b) AND a.ref <> 'no id' RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[:r]->(b)-[:r]->(c) WHERE id(c) = a.ref AND strId(b) = c.ref RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b) WHERE id(a) = '9e3779b9-7f4a-7c15-0000-000000000000' RETURN id(b) AS b",
    "MATCH (a)-[:r]->(b) WHERE strId(a) = '9E3779B9-7F4A-7C15-0000-000000000000' RETURN id(b) AS b",
    "MATCH (a)-[:r]->(b) WHERE id(a) IN ['9E3779B9-7F4A-7C15-0000-000000000000'] RETURN id(b) AS b",
    "MATCH (a)-[:r]->(b) WHERE id(a) = 'no id' OR id(a) = 5.0 OR id(a) = 5 RETURN id(b) AS b",
    "MATCH (a)-[:r]->(b) WHERE id(a) = 5 RETURN id(b) AS b",
    "MATCH (a:A), (b) WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) MATCH (b)-[:r]->(c) WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A)-[:r]->(b) MATCH (b)-[:r]->(c) WHERE id(c) = a.ref RETURN id(a) AS a, id(c) AS c",
    "MATCH (a)-[:r]->(b), (c:A) WHERE id(a) = c.ref AND id(c) = b.ref RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b) WHERE id(a) = b RETURN id(a) AS a",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) WHERE EXISTS { (a)-[:r]->(b) WHERE id(b) = a.ref } RETURN id(a) AS a",
    "MATCH (a:A)-[:r*1..2]->(b) WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r*1..2]->(b) WHERE id(a) = b.ref RETURN id(a) AS a, id(b) AS b",
    // Equations.
    "MATCH (a)-[:r]->(b) MATCH (b)-[:r]->(c) WHERE id(a) = c.ref RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b) MATCH (b), (c:A) WHERE id(a) = c.ref RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) MATCH (b:A) WHERE strId(a) = b.ref RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(b) WITH a, b WHERE id(b) = a.ref RETURN id(a) AS a, id(b) AS b",
];

fn named_nodes(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    const NODES: u64 = 4;
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(3) {
        let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
        match random.below(8) {
            0 | 1 => out.set_label(target, symbol("A"), random.below(4) > 0),
            2..=4 => {
                let id = node(random.below(NODES));
                let text = graph.ids().text(id);
                let value = match random.below(8) {
                    0 => Value::Null,
                    1 => Value::text("no id"),
                    2 => Value::Integer(5),
                    3 => Value::Id(id),
                    4 => Value::Bytes(id.to_bytes().into()),
                    5 => Value::text(&text.to_uppercase()),
                    _ => Value::text(&text),
                };
                out.set_property(target, symbol("ref"), &value);
            }
            other => out.set_edge(source, symbol("r"), target, 0, other > 5),
        }
    }
}

#[test]
fn a_node_is_named_by_what_an_anchor_takes() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((NAMED, named_nodes, false, ALL_HUBS), seed, 160, &[(1, 1), (1, 40), (2, 7)]);
    }
}

/// Where a condition stands, a list says whether it has elements.
const LISTED: &[&str] = &[
    "MATCH (n:A) WHERE n.tags RETURN id(n) AS n",
    "MATCH (n) WHERE n.tags RETURN id(n) AS n",
    "MATCH (n) WHERE [n.z] RETURN id(n) AS n",
    "MATCH (n:A) WITH n WHERE [t IN n.tags WHERE t > 3] RETURN id(n) AS n",
    "MATCH (n:A) WITH n, n.tags AS tags WHERE tags RETURN id(n) AS n, tags",
    "MATCH (n:A) WHERE n.z = 1 AND n.tags RETURN id(n) AS n",
    "MATCH (n:A) WHERE n.z = 2 AND n.tags RETURN id(n) AS n",
    "MATCH (n) WHERE n.z > 1 AND n.tags RETURN id(n) AS n",
    "MATCH (n:A)-[:r]->(m) WHERE m.tags AND n.z > 1 RETURN id(n) AS n, id(m) AS m",
    "MATCH (n:A)-[:r]->(m) WHERE n.tags + m.tags RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m) WHERE e.tags RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m)-[f:r]->(o) WHERE e.tags AND f.tags RETURN id(n) AS n, id(m) AS m, id(o) AS o",
    "MATCH (n)-[e:r]->(m) WHERE [e.tags] RETURN id(n) AS n, id(m) AS m",
    "MATCH (n:A), (m:A) WHERE [t IN n.tags WHERE t IN m.tags] RETURN id(n) AS n, id(m) AS m",
    "MATCH (n:A) WHERE EXISTS { (n)-[:r]->(m) WHERE m.tags } RETURN id(n) AS n",
    "MATCH (n:A) OPTIONAL MATCH (n)-[:r]->(m) WHERE m.tags AND n.tags RETURN id(n) AS n, id(m) AS m",
    // Conditions that are tested together.
    "MATCH (n:A) MATCH (n {z: 1}) WHERE n.tags RETURN id(n) AS n",
    "MATCH (n:A) MATCH (m) WHERE n.tags AND n.z > 1 AND m.z = n.z RETURN id(n) AS n, id(m) AS m",
    "MATCH p = (n:A)-[:r]->(m) WHERE length(p) = 1 AND nodes(p)[0].tags RETURN id(n) AS n, id(m) AS m",
];

fn listed(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    const NODES: u64 = 6;
    let symbol = |name: &str| graph.symbols().intern(name);
    let tags = |random: &mut Random| match random.below(5) {
        0 => Value::Null,
        1 => Value::list(Vec::new()),
        2 => Value::list(vec![Value::Integer(1)]),
        3 => Value::list(vec![Value::Integer(4), Value::Integer(2)]),
        _ => Value::list(vec![Value::text("x"), Value::Integer(5)]),
    };
    for _ in 0..=random.below(3) {
        let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
        match random.below(9) {
            0 | 1 => out.set_label(target, symbol("A"), random.below(4) > 0),
            2 | 3 => out.set_property(target, symbol("tags"), &tags(random)),
            4 | 5 => {
                let z = if random.below(5) == 0 { Value::Null } else { Value::Integer(random.below(4) as i64) };
                out.set_property(target, symbol("z"), &z);
            }
            6 => out.set_edge_property(source, symbol("r"), target, 0, symbol("tags"), &tags(random)),
            other => out.set_edge(source, symbol("r"), target, 0, other == 8),
        }
    }
}

#[test]
fn a_list_is_a_condition() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((LISTED, listed, false, ALL_HUBS), seed, 160, &[(1, 1), (1, 40), (2, 7)]);
    }
}

/// Alike but for a name, and what is alike is asked once.
const ALIKE: &[&str] = &[
    "MATCH (n)-[e:r]->(m) WHERE e.at.x = 1 RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m) WHERE e.at.y = 1 RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m) WHERE e.at.z = 1 RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m) WHERE e.at = {x: 1} RETURN id(n) AS n, id(m) AS m",
    "MATCH (n)-[e:r]->(m)-[f:r]->(k) WHERE e.at.y > 0 AND f.at.x > 0 RETURN id(n) AS n, id(k) AS k",
    "MATCH (n)-[e:r]->(m)-[f:r]->(k) WHERE e.at.x > 0 AND f.at.y > 0 RETURN id(n) AS n, id(k) AS k",
];

fn with_maps(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    const NODES: u64 = 5;
    let symbol = |name: &str| graph.symbols().intern(name);
    let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
    if random.below(4) == 0 {
        out.set_edge(source, symbol("r"), target, 0, random.below(3) > 0);
        return;
    }
    let key = ["x", "y", "z"][random.below(3) as usize];
    let number = Value::Integer(random.below(3) as i64);
    let at = if random.below(6) == 0 { Value::Null } else { Value::map([(key.into(), number)]) };
    out.set_edge_property(source, symbol("r"), target, 0, symbol("at"), &at);
}

#[test]
fn queries_that_differ_in_a_name_alone_are_not_one() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((ALIKE, with_maps, false, ALL_HUBS), seed, 160, &[(1, 1), (1, 40), (2, 7)]);
    }
}

/// Where ids are integers, a number that is none names nobody, be it equal to one.
#[test]
fn a_number_that_is_no_integer_is_no_id() {
    let ids = IdScheme::Long { consecutive: false };
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ids, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let (five, six) = (NodeId::new(0, 5), NodeId::new(0, 6));
    let options = CompileOptions { ids, ..CompileOptions::default() };
    let cases = [("5", 1), ("'5'", 1), ("5.0", 0), ("m.x", 0), ("toInteger(m.x)", 1), ("'five'", 0)];
    let texts = cases.map(|(value, _)| format!("MATCH (n)-[:r]->(m) WHERE id(n) = {value} RETURN id(m) AS m"));
    let plans = texts.each_ref().map(|text| compile_standing(text, StandingMode::AnyQuery, &options).unwrap().plan);
    let queries = common::install(&engine, &plans, Start::WholeGraph, &[]);
    let mut record = Mutations::default();
    record.set_edge(five, graph.symbols().intern("r"), six, 0, true);
    record.set_property(six, graph.symbols().intern("x"), &Value::Float(5.0));
    let mut reference = ReferenceGraph::new();
    reference.apply_all(&record);
    let upper = graph.apply(record, 1).unwrap();
    for ((text, query), (_, count)) in texts.iter().zip(&queries).zip(cases) {
        let asked = Prepared::new(weir_cypher_compiler::compile(text, &options).unwrap(), graph.symbols());
        let wanted = answer(&asked, &reference, &graph);
        assert_eq!(wanted.len(), count, "{text}");
        let found: Rows = collect(query, upper).into_values().flatten().collect();
        assert_eq!(found, wanted, "{text}");
    }
    engine.shutdown().unwrap();
}

#[test]
fn an_element_of_a_list_may_be_called_like_a_node() {
    for text in [
        "MATCH (n:A) RETURN [n IN n.xs | n * 2] AS l",
        "MATCH (n:A) RETURN [n IN n.xs WHERE n > 1] AS l, id(n) AS n",
        "MATCH (n:A) WHERE any(n IN n.xs WHERE n > 1) RETURN id(n) AS n",
        "MATCH (n:A)-[:r]->(m) RETURN reduce(m = m.x, n IN n.xs | m + n) AS sum, m.x AS x",
    ] {
        for mode in [StandingMode::MultipleValues, StandingMode::AnyQuery] {
            let engine = open(1, false, HubBounds::default());
            engine.start().unwrap();
            let graph = engine.default_graph();
            let symbol = |name: &str| graph.symbols().intern(name);
            let query = common::install(&engine, &[compile(mode, text)], Start::WholeGraph, &[]).remove(0);
            let mut record = Mutations::default();
            for n in 0..3 {
                let x = n as i64;
                record.set_label(node(n), symbol("A"), true);
                record.set_property(node(n), symbol("x"), &Value::Integer(x));
                record.set_property(node(n), symbol("xs"), &Value::list(vec![Value::Integer(x), Value::Integer(2 * x)]));
                record.set_edge(node(n), symbol("r"), node((n + 1) % 3), 0, true);
            }
            let mut reference = ReferenceGraph::new();
            reference.apply_all(&record);
            let wanted = answer(&Prepared::new(ad_hoc(text), graph.symbols()), &reference, &graph);
            assert!(!wanted.is_empty(), "{text}");
            let upper = graph.apply(record, 1).unwrap();
            let found: Rows = collect(&query, upper).into_values().flatten().collect();
            assert_eq!(found, wanted, "{text} in mode {mode:?}");
            engine.shutdown().unwrap();
        }
    }
}

/// Paths through nodes of many edges, at whose other ends most have nothing that the pattern goes on by.
const THROUGH_HUBS: &[&str] = &[
    "MATCH (a)-[:r]->(b)-[:r]->(c) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b)-[:r]->(c)-[:r]->(d) WHERE a.x IS NOT NULL RETURN id(a) AS a, id(d) AS d",
    "MATCH (a)-[:s]->(b)-[:r]->(c)-[:r]->(d)-[:s]->(e) RETURN id(a) AS a, id(b) AS b, id(d) AS d, id(e) AS e",
    "MATCH (a)<-[:r]-(b)-[:r]->(c)<-[:s]-(d) RETURN id(a) AS a, id(c) AS c, id(d) AS d",
    "MATCH (a)-[:r]->(b)<-[:r]-(c)-[:s]->(d) RETURN id(a) AS a, id(c) AS c, id(d) AS d",
    "MATCH (a)-[:r]-(b)-[:s]-(c)-[:s]->(d) RETURN id(a) AS a, id(c) AS c, id(d) AS d",
    "MATCH (a)-->(b)-->(c) WHERE a:A RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A)--(b)-[:s]-(c:B) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b)-[:r]->(c)-[:s]->(a) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b)-[:s]->(c)-[:r]->(d)-[:s]->(a) RETURN id(a) AS a, id(b) AS b, id(d) AS d",
    "MATCH (a:A)-[:r]->(b) RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[:r]->(b:A)-[:r]->(c:B) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b)-[:r]->(c) WHERE a.x = 1 AND c.z = 2 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[:r]->(b)-[:r]->(c) WHERE a.x = 2 AND c.z = 1 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[:r]->(b)<-[:s]-(c) WHERE a.z > 1 RETURN id(a) AS a, a.x AS x, id(c) AS c",
    "MATCH (a)-[:s]->(b)<-[:s]-(c) WHERE a.z + 1 = 3 AND a.x < c.x RETURN id(a) AS a, id(c) AS c",
    "MATCH (a)-[e:r]->(b)-[f:s]->(c) WHERE e.w < f.w RETURN id(a) AS a, e.w AS w, id(c) AS c",
    "MATCH (a)-[:s]->(b)-[:s]->(c) RETURN properties(a) AS a, id(b) AS b, c.x AS x",
    "MATCH (a)-[:r|s]->(b)-[:s]->(c)-[:r|s]->(d) WHERE d:B RETURN id(b) AS b, id(c) AS c, count(*) AS n",
    "MATCH (a)-[:r]->(b) MATCH (b)-[:r]->(c) RETURN DISTINCT id(a) AS a, id(c) AS c",
];

/// Most edges are of three nodes, and most of their other ends have no other edge. All of it goes again.
fn around_hubs(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(3) {
        let hub = node(random.below(3));
        let (one, two) = (node(3 + random.below(24)), node(random.below(27)));
        let near = if random.below(5) > 0 { hub } else { two };
        let (source, target) = if random.below(2) == 0 { (near, one) } else { (one, near) };
        let kind = symbol(if random.below(3) > 0 { "r" } else { "s" });
        let ordinal = u32::from(graph.open_cypher() && random.below(6) == 0);
        match random.below(12) {
            0 | 1 => out.set_label(two, symbol(if random.below(2) == 0 { "A" } else { "B" }), random.below(3) == 0),
            2 => {
                let value = if random.below(2) == 0 { Value::Null } else { Value::Integer(random.below(3) as i64) };
                out.set_property(two, symbol("x"), &value);
            }
            3 => out.set_property(one, symbol("z"), &Value::Integer(random.below(4) as i64)),
            4 if random.below(4) == 0 => out.clear_properties(two),
            5 => out.set_edge_property(source, kind, target, ordinal, symbol("w"), &Value::Integer(random.below(4) as i64)),
            // Both ways, so that what is there is met.
            6..=8 => {
                out.set_edge(source, kind, target, ordinal, false);
                out.set_edge(target, kind, source, ordinal, false);
            }
            _ => out.set_edge(source, kind, target, ordinal, true),
        }
    }
}

#[test]
fn what_leads_on_from_a_hub_is_known_at_every_tick() {
    // Little room: what is kept is forgotten again and again.
    let little = HubBounds { edges_min: 2, ahead_min: 2, kept_max: 6 };
    for (seed, parallel) in [(88172645463325252, false), (4101842887655102017, true), (2685821657736338717, false)] {
        for hubs in [ALL_HUBS, little] {
            let settings = &[(1, 1), (1, 4), (1, 25), (1, 110), (2, 5), (4, 2), (4, 60)];
            run((THROUGH_HUBS, around_hubs, parallel, hubs), seed, 220, settings);
        }
    }
}

/// Sums of floats that differ in size, and windows into an order with many equal rows.
const SUMS_AND_WINDOWS: &[&str] = &[
    "MATCH (n) RETURN sum(n.f) AS s, avg(n.f) AS a, stDev(n.f) AS d, stDevP(n.f) AS p",
    "MATCH (n) RETURN n.x AS x, sum(n.f) AS s, avg(n.f) AS a, count(n.f) AS c",
    "MATCH (n) RETURN n.x AS x, sum(DISTINCT n.f) AS s, avg(DISTINCT n.f) AS a, stDev(DISTINCT n.f) AS d, count(DISTINCT n.f) AS c",
    "MATCH (n)-[:r]->(m) RETURN n.x AS x, sum(m.f + n.z) AS s, stDevP(m.f) AS p",
    "MATCH (n) UNWIND [n.f, n.z, -n.f] AS v RETURN sum(v) AS s, avg(v) AS a",
    "MATCH (n) RETURN n.x AS x, percentileCont(n.f, 0.4) AS c, percentileDisc(n.f, 0.9) AS d",
    "MATCH (n)-[:r]->(m) UNWIND [n.f, m.z] AS v RETURN percentileDisc(DISTINCT v, 0.3) AS d, percentileCont(DISTINCT v, 0.7) AS c",
    "MATCH (n) WITH n.x AS x, sum(n.f) AS s RETURN sum(s) AS t, count(s) AS c",
    "MATCH (n)-[:r]->(m) RETURN n.x AS x, m.z AS z ORDER BY x, z SKIP 3 LIMIT 4",
    "MATCH (n)-[:r]->(m) RETURN m.z AS z ORDER BY z DESC SKIP 2",
    "MATCH (n)-[:r]->(m) RETURN m.z AS z, n.x AS x ORDER BY z DESC, x SKIP 1 LIMIT 1",
    "MATCH (n) RETURN toFloat(n.f) AS f ORDER BY f LIMIT 3",
    "MATCH (n) WITH toFloat(n.f) AS f ORDER BY f DESC SKIP 2 LIMIT 5 RETURN sum(f) AS s, count(*) AS c",
    "MATCH (n) RETURN id(n) AS i ORDER BY n.f, i SKIP 3",
    "MATCH (n) RETURN n.x AS x ORDER BY x SKIP 0 LIMIT 0",
    "MATCH (n) RETURN n.x AS x ORDER BY x SKIP 1 LIMIT 9223372036854775807",
];

/// Numbers of all sizes that come, change and go, now and then one that is none.
fn numbers(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(3) {
        let (one, other) = (node(random.below(NODES)), node(random.below(NODES)));
        match random.below(8) {
            0..4 => {
                let sizes = [1.0, 0.1, 1e-300, 1e17, -0.1, 3e-5];
                let value = match random.below(16) {
                    0 => Value::Null,
                    1 => Value::Float([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX][random.below(4) as usize]),
                    2 | 3 => Value::Integer(random.below(5) as i64),
                    n => Value::Float(random.below(7) as f64 * sizes[n as usize % sizes.len()]),
                };
                out.set_property(one, symbol("f"), &value);
            }
            4 => out.set_property(one, symbol("x"), &Value::Integer(random.below(3) as i64)),
            5 => out.set_property(one, symbol("z"), &Value::Integer(random.below(4) as i64)),
            6 if random.below(3) == 0 => out.clear_properties(one),
            _ => out.set_edge(one, symbol("r"), other, 0, random.below(3) > 0),
        }
    }
}

#[test]
fn sums_and_windows_are_the_same_whatever_came_and_went() {
    for seed in [88172645463325252, 4101842887655102017] {
        run((SUMS_AND_WINDOWS, numbers, false, ALL_HUBS), seed, 400, &[(1, 1), (1, 50), (2, 7), (3, 1000)]);
    }
}

/// Patterns of so many relationships that they are visited in one order: chains, one with a branch, a ring.
fn long_patterns() -> Vec<String> {
    let hops = |count: usize| "-[:r]->()".repeat(count - 1) + "-[:r]->";
    vec![
        format!("MATCH (a){}(z) RETURN id(a) AS a, id(z) AS z", hops(9)),
        format!("MATCH (a:A){}(z) WHERE a.x < z.x RETURN id(a) AS a, z.x AS x", hops(8)),
        format!("MATCH (a){}(m:A){}(z) RETURN id(a) AS a, m.x AS x, id(z) AS z", hops(4), hops(4)),
        format!("MATCH (a){}(m){}(z), (m)-[:s]->(t){}(u) RETURN id(m) AS m, t.x AS x", hops(3), hops(3), hops(2)),
        format!("MATCH (a){}(a) RETURN id(a) AS a", hops(9)),
        format!("MATCH (a:A){}-[:r]-(z) RETURN id(a) AS a, id(z) AS z", "-[:r]-()".repeat(7)),
    ]
}

/// Changes of a ring, most of which is there.
fn around_a_ring(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    const COUNT: u64 = 9;
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(2) {
        let number = random.below(COUNT);
        let (one, next) = (node(number), node((number + 1) % COUNT));
        match random.below(8) {
            0 => out.set_label(one, symbol("A"), random.below(2) == 0),
            1 => out.set_property(one, symbol("x"), &Value::Integer(random.below(3) as i64)),
            2 => out.set_edge(one, symbol("s"), node(random.below(COUNT)), 0, random.below(3) > 0),
            _ => out.set_edge(one, symbol("r"), next, 0, random.below(6) > 0),
        }
    }
}

#[test]
fn long_patterns_are_found_from_each_of_their_parts() {
    let queries = long_patterns();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    for (seed, hubs) in [(88172645463325252, ALL_HUBS), (4101842887655102017, HubBounds::default())] {
        run((&queries, around_a_ring, false, hubs), seed, 160, &[(1, 1), (1, 40), (3, 7)]);
    }
}

/// What has to be done row by row where it goes wrong takes half a minute and more, on a machine that has nothing else to do.
/// What goes right takes a second or two.
const SOON: Duration = Duration::from_secs(20);

/// A node and edges between all of some.
fn clique(graph: &Graph, first: u64, count: u64) {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    record.set_label(node(first), symbol("Start"), true);
    for one in first..first + count {
        for other in (first..first + count).filter(|other| *other != one) {
            record.set_edge(node(one), symbol("r"), node(other), 0, true);
        }
    }
    graph.apply(record, 1).unwrap();
}

/// A node with edges to `count` others, each of another number.
fn hub(graph: &Graph, count: u64) -> Tick {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    record.set_label(node(1_000), symbol("Hub"), true);
    for other in 1..=count {
        record.set_property(node(1_000 + other), symbol("x"), &Value::Integer(other as i64));
        record.set_edge(node(1_000), symbol("r"), node(1_000 + other), 0, true);
    }
    graph.apply(record, 1).unwrap()
}

#[test]
fn all_queries_say_that_they_are_behind_while_a_pattern_keeps_their_workers_busy() {
    // Half a second of work or so: in that time it has to be seen.
    const SPOKES: u64 = 600;
    const PATIENCE: Duration = Duration::from_secs(20);
    for workers in [1, 2] {
        let engine = open(workers, false, HubBounds::default());
        engine.start().unwrap();
        let graph = engine.default_graph();
        let queries = install(
            &engine,
            &[
                "MATCH (n:Tick) RETURN n.x AS x",
                "MATCH (a)<-[:r]-(h:Hub)-[:r]->(b) WHERE a.x + 1 = b.x RETURN a.x AS a, b.x AS b",
            ],
            1,
        );
        let mut first = Mutations::default();
        first.set_label(node(1), graph.symbols().intern("Tick"), true);
        let upper = graph.apply(first, 1).unwrap();
        queries.iter().for_each(|query| drop(collect(query, upper)));
        let begun = Instant::now();
        while queries.iter().any(|query| query.behind().is_some()) {
            assert!(begun.elapsed() < PATIENCE, "everything is answered");
        }
        // What is late is late since the commit, not since the one before.
        std::thread::sleep(Duration::from_millis(20));
        let (upper, begun) = (hub(&graph, SPOKES), Instant::now());
        let late = Some((Tick(upper.0 - 1), 0));
        let mut seen = [false; 2];
        while seen != [true; 2] {
            seen.iter_mut().zip(&queries).for_each(|(seen, query)| *seen |= query.behind() == late);
            assert!(begun.elapsed() < PATIENCE, "they do not say so: {seen:?}, not {late:?}");
        }
        assert_eq!(more_rows(&queries[1], upper), SPOKES as i64 - 1);
        assert_eq!(more_rows(&queries[0], upper), 0);
        while queries.iter().any(|query| query.behind().is_some()) {
            assert!(begun.elapsed() < 2 * PATIENCE, "everything is answered again");
        }
    }
}

/// It was not noted that it was asked for, so the row stayed as it was.
#[test]
fn a_key_that_nobody_has_written_yet_is_looked_for_all_the_same() {
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let query = &install(&engine, &["MATCH (a:A)-[:r]->(b) RETURN b[a.key] AS v"], 1)[0];
    let rows = |record: Mutations| -> Rows { collect(query, graph.apply(record, 1).unwrap()).into_values().flatten().collect() };
    let mut record = Mutations::default();
    record.set_label(node(1), symbol("A"), true);
    record.set_property(node(1), symbol("key"), &Value::text("nobody's"));
    record.set_edge(node(1), symbol("r"), node(2), 0, true);
    assert_eq!(rows(record), Rows::from([(vec![Value::Null], 1)]));
    let mut record = Mutations::default();
    record.set_property(node(2), symbol("nobody's"), &Value::Integer(5));
    assert_eq!(rows(record), Rows::from([(vec![Value::Null], -1), (vec![Value::Integer(5)], 1)]));
    engine.shutdown().unwrap();
}

#[test]
fn a_query_that_costs_too_much_holds_up_nobody() {
    const BOUND: Duration = Duration::from_secs(2);
    for workers in [1, 2] {
        let engine = open(workers, false, HubBounds::default());
        engine.start().unwrap();
        let graph = engine.default_graph();
        let cheap = install(
            &engine,
            &[
                "MATCH (n:Tick) RETURN n.x AS x",
                "MATCH (n:Tick) RETURN count(*) AS c",
                "MATCH (n:Tick) OPTIONAL MATCH (n)-[:s]->(m) RETURN n.x AS x, id(m) AS m",
            ],
            1,
        );
        clique(&graph, 1_000, 14);
        let costly = install(
            &engine,
            &[
                "MATCH (a:Start) WHERE NOT EXISTS { (a)-[:r*]->(:Never) } RETURN id(a) AS a",
                "MATCH (a:Start) CALL RECURSIVELY WITH 1 AS n UNTIL (n < 0) { RETURN n + 1 AS n } RETURN n",
                "MATCH (a:Start) UNWIND range(1, 9000) AS x UNWIND range(1, 9000) AS y RETURN x + y AS s, a.x AS b",
                "MATCH (a:Start) RETURN reduce(s = 0, x IN range(1, 100000) | s + size([y IN range(1, 100000) WHERE y < x])) AS n",
            ],
            2,
        );
        let begun = Instant::now();
        let (mut number, mut took) = (0, Vec::new());
        let is_told = |query: &weir_engine::StandingQuery| query.left_out().is_some() || query.failure().is_some();
        while number < 50 || !costly.iter().all(is_told) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", costly.iter().map(is_told).collect::<Vec<_>>());
            let since = Instant::now();
            let mut record = Mutations::default();
            record.set_label(node(number), graph.symbols().intern("Tick"), true);
            record.set_property(node(number), graph.symbols().intern("x"), &Value::Integer(number as i64));
            // What concerns the costly ones.
            record.set_edge(node(1_000), graph.symbols().intern("r"), node(2_000 + number), 0, true);
            let upper = graph.apply(record, 1).unwrap();
            graph.wait_visible().unwrap();
            for query in &cheap {
                let found = collect(query, upper);
                assert!(found.keys().next_back().is_some_and(|tick| tick.next() == upper), "{found:?}");
            }
            took.push(since.elapsed());
            number += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        // A machine that stands still for a moment holds up some of them.
        took.sort_unstable();
        assert!(took[(took.len() - 1) * 9 / 10] < BOUND && took[took.len() - 1] < 5 * BOUND, "records took {took:?}");
        let told = |query: &weir_engine::StandingQuery| query.left_out().map(|left_out| left_out.last).unwrap_or_default();
        assert!(told(&costly[0]).contains("visits too much"), "{}", told(&costly[0]));
        let failure = costly[2].failure().expect("too many rows");
        assert!(failure.contains("rows come of it") && failure.contains("delete it"), "{failure}");
        assert!(told(&costly[3]).contains("elements of lists"), "{}", told(&costly[3]));
        assert!(costly[2].next(Duration::from_millis(50)).unwrap().is_none_or(|batch| batch.rows.is_empty()));
        let since = Instant::now();
        engine.shutdown().unwrap();
        assert!(since.elapsed() < Duration::from_secs(5), "the end took {:?}", since.elapsed());
    }
}

/// Only rows that a change concerns look again for the nodes that have a value; where labels and properties alone do not decide
/// it, what one of them scans for is kept for the others of its tick.
#[test]
fn parts_that_a_value_joins_are_not_scanned_row_by_row() {
    let watched = [
        "MATCH (a:P) WHERE NOT EXISTS { MATCH (c:Q) WHERE c.v = a.v } RETURN id(a) AS a",
        "MATCH (a:P) OPTIONAL MATCH (c:Q) WHERE c.v = a.v WITH a, c WHERE c IS NULL RETURN id(a) AS a",
        "MATCH (a:P) WHERE NOT EXISTS { MATCH (c:Q) WHERE c.v + 1 = a.v + 1 } RETURN id(a) AS a",
        "MATCH (a:P) WHERE NOT EXISTS { MATCH (c:Q) WHERE c.v IN [a.v, 'none'] } RETURN id(a) AS a",
    ];
    let without = |number: u64| 1 + i64::from(number == 0);
    // With all rows looked at again it would be half a minute.
    joined_by_value(20_000, 200, &watched, without);
    // Row by row it was half a second a tick and more: half a minute.
    let by_all = "MATCH (a:P) WHERE NOT EXISTS { MATCH (c:Q) WHERE properties(c).v = a.v } RETURN id(a) AS a";
    joined_by_value(1_500, 60, &[by_all], without);
}

/// Rows that were grouped are joined by a value like those of a pattern: every one with every node would be 400,000,000 pairs.
#[test]
fn rows_behind_a_group_are_joined_by_a_value() {
    const COUNT: u64 = 20_000;
    let queries = [
        "MATCH (a:P) WITH a, count(*) AS c MATCH (b:Q {v: a.v}) RETURN id(a) AS a, c",
        "MATCH (a:P) WITH DISTINCT a MATCH (b:Q) WHERE b.v = a.v RETURN id(a) AS a",
    ];
    joined_by_value(COUNT, 200, &queries, |number| if number == 0 { COUNT as i64 - 2 } else { -1 });
}

/// `count` nodes of each label, each with the value of one of the other label, and changes after each of which so many more rows
/// are there as `wanted` says.
fn joined_by_value(count: u64, changes: u64, queries: &[&str], wanted: impl Fn(u64) -> i64) {
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let [p, q, v] = ["P", "Q", "v"].map(symbol);
    let mut record = Mutations::default();
    for (first, label) in [(0, p), (count, q)] {
        for number in 0..count {
            record.set_label(node(first + number), label, true);
            record.set_property(node(first + number), v, &Value::Integer(number as i64));
        }
    }
    graph.apply(record, 1).unwrap();
    let installed = install(&engine, queries, 1);
    let begun = Instant::now();
    for number in 0..changes {
        // A value that no Q has, and what it had before to the next.
        let mut record = Mutations::default();
        record.set_property(node(number), v, &Value::Integer(-1));
        record.set_property(node(count + number + 1), v, &Value::Integer(number as i64));
        let upper = graph.apply(record, 1).unwrap();
        for query in &installed {
            let rows = more_rows(query, upper);
            assert_eq!(rows, wanted(number), "at {number}");
        }
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    engine.shutdown().unwrap();
}

/// Rows that look through the nodes of a label do not look again when others change.
#[test]
fn rows_that_look_through_a_label_are_concerned_by_its_nodes_alone() {
    const ROWS: u64 = 20_000;
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let [p, q, v] = ["P", "Q", "v"].map(|name| graph.symbols().intern(name));
    let mut record = Mutations::default();
    for number in 0..ROWS {
        record.set_label(node(number), p, true);
        record.set_property(node(number), v, &Value::Integer(number as i64));
    }
    let bound = node(1_000_000);
    record.set_label(bound, q, true);
    record.set_property(bound, v, &Value::Integer(ROWS as i64));
    graph.apply(record, 1).unwrap();
    let text = "MATCH (a:P) WHERE NOT EXISTS { MATCH (b:Q) WHERE b.v > a.v } RETURN id(a) AS a";
    let installed = &install(&engine, &[text], 1)[0];
    let change = |record: Mutations| {
        let upper = graph.apply(record, 1).unwrap();
        more_rows(installed, upper)
    };
    let begun = Instant::now();
    for number in 0..300 {
        let mut record = Mutations::default();
        record.set_property(node(number), v, &Value::Integer(2 * ROWS as i64));
        assert_eq!(change(record), 1, "at {number}");
    }
    // With all of them it would be a minute.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A node of the label changes, loses it, and gets it again.
    let mut record = Mutations::default();
    record.set_property(bound, v, &Value::Integer(ROWS as i64 - 10));
    assert_eq!(change(record), 10);
    let mut record = Mutations::default();
    record.set_label(bound, q, false);
    assert_eq!(change(record), ROWS as i64 - 310);
    let mut record = Mutations::default();
    record.set_label(bound, q, true);
    assert_eq!(change(record), 310 - ROWS as i64);
    engine.shutdown().unwrap();
}

/// Rows that look for a node in whose range they are look again when one changes in whose range they are or were.
#[test]
fn rows_that_look_for_a_range_are_concerned_by_what_is_in_it_alone() {
    const ROWS: u64 = 10_000;
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let [p, q, v, first, last] = ["P", "Q", "v", "first", "last"].map(|name| graph.symbols().intern(name));
    let mut record = Mutations::default();
    let set = |record: &mut Mutations, number: u64, range: (u64, u64)| {
        record.set_property(node(ROWS + number), first, &Value::Integer(range.0 as i64));
        record.set_property(node(ROWS + number), last, &Value::Integer(range.1 as i64));
    };
    for number in 0..ROWS {
        record.set_label(node(number), p, true);
        record.set_property(node(number), v, &Value::Integer(10 * number as i64));
        record.set_label(node(ROWS + number), q, true);
        set(&mut record, number, (10 * number, 10 * number + 5));
    }
    graph.apply(record, 1).unwrap();
    let text = "MATCH (a:P) WHERE NOT EXISTS { MATCH (b:Q) WHERE b.first <= a.v AND a.v <= b.last } RETURN id(a) AS a";
    let begun = Instant::now();
    let installed = &install(&engine, &[text], 1)[0];
    let change = |record: Mutations| {
        let upper = graph.apply(record, 1).unwrap();
        more_rows(installed, upper)
    };
    for number in 0..300 {
        // The rows from here on were in it and are not; those of the next two come to be.
        let mut record = Mutations::default();
        set(&mut record, number, (10 * number + 20, 10 * number + 35));
        assert_eq!(change(record), if number < 2 { 1 } else { 0 }, "at {number}");
    }
    // With all of them it would be minutes.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let mut record = Mutations::default();
    record.set_property(node(ROWS + 5_000), last, &Value::Null);
    assert_eq!(change(record), 1);
    engine.shutdown().unwrap();
}

/// A node of which the value that is looked for fails is told of as long as it does, and no longer.
#[test]
fn what_fails_for_a_node_fails_until_it_changes() {
    const ROWS: u64 = 20_000;
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let [p, q, v] = ["P", "Q", "v"].map(|name| graph.symbols().intern(name));
    let mut record = Mutations::default();
    for number in 0..ROWS {
        record.set_label(node(number), p, true);
        record.set_property(node(number), v, &Value::Integer(100 + number as i64));
    }
    for (number, value) in [(ROWS, 1), (ROWS + 1, 5)] {
        record.set_label(node(number), q, true);
        record.set_property(node(number), v, &Value::Integer(value));
    }
    graph.apply(record, 1).unwrap();
    let text = "MATCH (a:P) WHERE NOT EXISTS { MATCH (b:Q) WHERE 1000 / b.v = a.v } RETURN id(a) AS a";
    let installed = &install(&engine, &[text], 1)[0];
    let set = |number: u64, value: i64| {
        let mut record = Mutations::default();
        record.set_property(node(number), v, &Value::Integer(value));
        let upper = graph.apply(record, 1).unwrap();
        more_rows(installed, upper)
    };
    // 1000 and 200 are found, later 1000 and 500.
    assert_eq!(set(ROWS + 1, 0), 0, "all of them are gone again");
    let left_out = installed.left_out().unwrap();
    assert!(left_out.last.contains("zero"), "{left_out:?}");
    assert_eq!(set(ROWS + 1, 2), ROWS as i64 - 2);
    let begun = Instant::now();
    for number in 0..300 {
        assert_eq!(set(number, 1000), -1, "at {number}");
    }
    // With all of them it would be a minute.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    engine.shutdown().unwrap();
}

/// All rows look at one node. Those that look for an edge between two nodes, or at labels and properties, do not look again when
/// it gets another edge.
#[test]
fn an_edge_of_a_node_of_many_concerns_few_of_those_who_look_at_it() {
    const FOLLOWERS: u64 = 20_000;
    let engine = open(1, false, HubBounds::default());
    engine.start().unwrap();
    let graph = engine.default_graph();
    let (follows, v) = (graph.symbols().intern("follows"), graph.symbols().intern("v"));
    let hub = node(0);
    let mut record = Mutations::default();
    record.set_property(hub, v, &Value::Integer(1));
    (1..=FOLLOWERS).for_each(|number| record.set_edge(node(number), follows, hub, 0, true));
    graph.apply(record, 1).unwrap();
    let queries = [
        "MATCH (a)-[:follows]->(b) WHERE NOT EXISTS { (b)-[:follows]->(a) } RETURN id(a) AS a, id(b) AS b",
        "MATCH (a)-[:follows]->(b) WHERE NOT EXISTS { (a)<-[e:follows]-(b) WHERE e.at > 1 } RETURN id(a) AS a, id(b) AS b",
        "MATCH (a)-[:follows]->(b) WHERE EXISTS { MATCH (b) WHERE b.v = 1 } RETURN id(a) AS a",
    ];
    let installed = install(&engine, &queries, 1);
    let begun = Instant::now();
    for number in 1..=200 {
        let mut record = Mutations::default();
        record.set_edge(node(FOLLOWERS + number), follows, hub, 0, true);
        let upper = graph.apply(record, 1).unwrap();
        for query in &installed {
            let rows = more_rows(query, upper);
            assert_eq!(rows, if number == 1 { FOLLOWERS as i64 + 1 } else { 1 }, "at {number}");
        }
    }
    // With all of them it would be half a minute.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // Followed back: one row goes, and the new pair is none, either.
    let mut record = Mutations::default();
    record.set_edge(hub, follows, node(7), 0, true);
    let upper = graph.apply(record, 1).unwrap();
    let rows = more_rows(&installed[0], upper);
    assert_eq!(rows, -1);
    engine.shutdown().unwrap();
}

/// A graph with an `A`, and what is reported of it from now on.
fn one_of_a(engine: &Engine, text: &str) -> weir_engine::StandingQuery {
    let graph = engine.default_graph();
    let mut record = Mutations::default();
    record.set_label(node(0), graph.symbols().intern("A"), true);
    graph.apply(record, 1).unwrap();
    let plan = compile(StandingMode::AnyQuery, text);
    let standing =
        Standing { id: QueryId(NodeId::new(1, 1)), plan, cancellations: true, start: Start::Now, outputs: vec!["output".into()] };
    graph.install(standing).unwrap()
}

/// A division by zero, a text among numbers: such a row is not there, and that is told.
#[test]
fn rows_without_a_value_are_told_of() {
    use StandingMode::{AnyQuery, MultipleValues};
    for (mode, text, reason, there) in [
        (AnyQuery, "MATCH (n:A) RETURN id(n) AS n, 10 / n.x AS q", "zero", 1),
        (MultipleValues, "MATCH (n:A) WHERE 10 / n.x > 1 RETURN id(n) AS n", "zero", 1),
        (MultipleValues, "MATCH (n:A)-[:r]->(m) WHERE 10 / (n.x + m.x) < 9 RETURN id(n) AS n", "zero", 1),
        (AnyQuery, "MATCH (n:A) WITH n WHERE 10 / n.x > 1 RETURN id(n) AS n", "zero", 1),
        (AnyQuery, "MATCH (n)-[e:r]->() WHERE 10 / e.w > 1 RETURN id(n) AS n", "zero", 1),
        (AnyQuery, "MATCH (n:A) RETURN sum(10 / n.x) AS s", "zero", 1),
        (AnyQuery, "MATCH (n:A) RETURN avg(n.y) AS s", "numbers", 0),
        (AnyQuery, "MATCH (n:A) WITH n ORDER BY 10 / n.x LIMIT 3 RETURN id(n) AS n", "zero", 1),
        (AnyQuery, "MATCH (n:A) UNWIND range(1, 10 / n.x) AS i WITH n WHERE n.x > 4 RETURN id(n) AS n", "zero", 2),
        (AnyQuery, "MATCH (n:A), (m:A) WHERE n.x = 10 / m.x AND n.x = 5 RETURN id(n) AS n", "zero", 0),
        (AnyQuery, "MATCH (n:A) RETURN id(n) AS n, COUNT { (n)-[:r]->(m) WHERE 10 / n.x > 1 } AS c", "zero", 1),
        (AnyQuery, "MATCH (n:A) WITH n {timezone: 'UTC'} AS z RETURN datetime(z).year AS y", "zone", 0),
        (
            AnyQuery,
            "MATCH (n:A) RETURN EXISTS { (n)-[:r]->() WHERE date(n {timezone: 'UTC'}) > date('2024-01-01') } AS e",
            "zone",
            0,
        ),
    ] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let symbol = |name: &str| graph.symbols().intern(name);
        let query = common::install(&engine, &[compile(mode, text)], Start::WholeGraph, &[]).remove(0);
        let mut record = Mutations::default();
        for (n, x) in [(0, 5), (1, 0)] {
            record.set_label(node(n), symbol("A"), true);
            record.set_property(node(n), symbol("x"), &Value::Integer(x));
            record.set_property(node(n), symbol("y"), &if x == 0 { Value::text("none") } else { Value::Integer(x) });
            record.set_edge(node(n), symbol("r"), node(1), 0, true);
            record.set_edge_property(node(n), symbol("r"), node(1), 0, symbol("w"), &Value::Integer(x));
        }
        let upper = graph.apply(record, 1).unwrap();
        let rows = more_rows(&query, upper);
        let left_out = query.left_out().unwrap_or_else(|| panic!("{text}: {rows} rows, and none left out"));
        assert!(left_out.rows > 0 && left_out.last.contains(reason), "{text}: {left_out:?}");
        assert_eq!(rows, there, "{text}");
        engine.shutdown().unwrap();
    }
}

#[test]
fn what_is_held_back_comes_however_soon_it_is_asked_for() {
    for text in ["MATCH (a:A) RETURN id(a) AS a", "MATCH (a:A) RETURN count(*) AS c", "RETURN 1 AS one"] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 2, ..Options::default() }).unwrap();
        let query = one_of_a(&engine, text);
        let (begins, _) = query.delivered("output").unwrap();
        query.propagate().unwrap();
        let mut found = 0;
        while found == 0 {
            let batch = query.next(Duration::from_secs(20)).unwrap().expect("what was asked for");
            assert!(batch.rows.iter().all(|row| row.positive && row.tick >= begins), "{text}: {batch:?}");
            found += batch.rows.len();
        }
        assert_eq!(found, 1, "{text}");
        engine.shutdown().unwrap();
    }
}
