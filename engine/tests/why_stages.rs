//! Why, against the oracle: each row of the answer of a query with stages is found, the facts that are named make it, and it is
//! there since the tick at which it came; of each row that is not there it is told where it stops.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::any::{QUERIES, comparable, comparable_rows, random_record};
use common::{Random, Rows, ad_hoc, answer, compile, node, own_time};
use weir_cypher_compiler::StandingMode;
use weir_engine::evaluate::Prepared;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::InMemory;
use weir_engine::view::{Direction, EdgeRef, HalfEdge, View};
use weir_engine::why::{
    Answered, AskedOf, FactOf, Fits, Meant, Obstacle, Of, Origin, Patience, Reached, ReasonOf, Since, Staged, Wanted, What,
    Worked, deadline, origins,
};
use weir_engine::{Engine, Graph, Options, Row};
use weir_model::plan::Slot;
use weir_model::{Mutations, NodeId, Symbol, Tick, Value};

/// The facts that a row of a stage was made of.
fn facts(
    graph: &Graph,
    staged: &Staged<'_>,
    worked: &Worked<'_>,
    view: &dyn View,
    (at, number): (usize, u32),
    out: &mut Vec<FactOf>,
) {
    let level = &worked.levels[at];
    let of = &level.rows[number as usize].1;
    let below: Vec<(usize, u32)> = match of {
        Of::Match(number) => {
            let What::Pattern(source) = level.what else { panic!("a match of no pattern") };
            let matched = &worked.matches[source][*number as usize];
            let (made, reasons) = graph.reasons_of(staged, source, matched, view, worked.at).unwrap();
            let symbol = |text: &str| graph.symbols().intern(text);
            out.extend(reasons.into_iter().map(|reason| match reason.of {
                ReasonOf::Label { node, label } => FactOf::Label { node: made.nodes[node], label: symbol(&label) },
                ReasonOf::Property { node, key, value } => FactOf::Property { node: made.nodes[node], key: symbol(&key), value },
                ReasonOf::There { by, .. } => by,
                ReasonOf::Edge { edge } => FactOf::Edge { edge: made.edges[edge] },
                ReasonOf::EdgeProperty { edge, key, value } => {
                    FactOf::EdgeProperty { edge: made.edges[edge], key: symbol(&key), value }
                }
            }));
            Vec::new()
        }
        Of::Nothing => Vec::new(),
        Of::One(number) => vec![(0, *number)],
        Of::Right(number) => vec![(1, *number)],
        Of::Two(left, right) => vec![(0, *left), (1, *right)],
        Of::Many(numbers) => numbers.iter().map(|number| (0, *number)).collect(),
    };
    for (input, number) in below {
        let input = level.inputs[input];
        if let What::Each(asks) = level.what {
            out.extend(graph.read_for(staged, asks, &worked.levels[input].rows[number as usize].0, view, worked.at));
        }
        facts(graph, staged, worked, view, (input, number), out);
    }
}

/// A graph of these facts alone.
fn graph_of(facts: &[FactOf]) -> ReferenceGraph {
    let mut changes = Mutations::default();
    for fact in facts {
        match fact {
            FactOf::Label { node, label } => changes.set_label(*node, *label, true),
            FactOf::Property { node, key, value } => changes.set_property(*node, *key, value),
            FactOf::Edge { edge } => changes.set_edge(edge.source, edge.kind, edge.target, edge.ordinal, true),
            FactOf::EdgeProperty { edge, key, value } => {
                changes.set_edge_property(edge.source, edge.kind, edge.target, edge.ordinal, *key, value);
            }
        }
    }
    let mut graph = ReferenceGraph::new();
    graph.apply_all(&changes);
    graph
}

/// Whether more facts can take no row away: nothing is skipped, and no group is made of rows that ask the graph.
fn is_monotone(worked: &Worked<'_>) -> bool {
    let asks = |at: usize| {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if matches!(worked.levels[at].what, What::Each(_)) {
                return true;
            }
            open.extend(&worked.levels[at].inputs);
        }
        false
    };
    worked.levels.iter().all(|level| match level.what {
        What::Window { .. } => false,
        What::Group { .. } => !level.inputs.iter().any(|input| asks(*input)),
        _ => true,
    })
}

/// Whether an edge brings a node of which nothing else is said: where all nodes are counted, it is one more.
fn brings_another(facts: &[FactOf]) -> bool {
    let told: BTreeSet<NodeId> = facts
        .iter()
        .filter_map(|fact| match fact {
            FactOf::Label { node, .. } | FactOf::Property { node, .. } => Some(*node),
            FactOf::Edge { .. } | FactOf::EdgeProperty { .. } => None,
        })
        .collect();
    facts.iter().any(|fact| match fact {
        FactOf::Edge { edge } => !told.contains(&edge.source) || !told.contains(&edge.target),
        _ => false,
    })
}

fn comparable_row(row: &[Value], ordered: bool) -> Vec<Value> {
    row.iter().map(|value| comparable(value, ordered)).collect()
}

/// The rows of an answer that come of matches with these nodes.
fn rows_of(graph: &Graph, staged: &Staged<'_>, worked: &Worked<'_>, nodes: &[Vec<(usize, NodeId)>], view: &dyn View) -> Vec<Row> {
    let found = worked.find(graph, staged, &Meant { nodes: nodes.to_vec(), ..Meant::default() }, view);
    let mut rows: Vec<Row> = found.rows.iter().map(|number| worked.rows()[*number as usize].0.clone()).collect();
    rows.sort_unstable();
    rows
}

/// What follows from nodes that are given leaves the rows that come of them as they are. Gives how often it was less than all,
/// and what is wrong.
fn narrowed(graph: &Graph, staged: &Staged<'_>, worked: &Worked<'_>, view: &dyn View) -> (usize, Vec<String>) {
    let (mut less, mut wrong) = (0, Vec::new());
    for (source, matches) in worked.matches.iter().enumerate() {
        for (place, id) in matches.iter().step_by(3).take(3).flat_map(|of| of.nodes.iter().enumerate()) {
            let mut nodes = vec![Vec::new(); worked.matches.len()];
            nodes[source].push((place, *id));
            let seeds = staged.seeds(&[], &nodes);
            less += usize::from(seeds.iter().any(|of| !of.is_empty()));
            let part = graph.work(staged, &seeds, view, worked.at);
            let [found, wanted] = [&part, worked].map(|worked| rows_of(graph, staged, worked, &nodes, view));
            if found != wanted {
                wrong.push(format!("of pattern {source} with {id} as {place}: {found:?}, not {wanted:?}"));
            }
        }
    }
    (less, wrong)
}

const RECORDS: usize = 120;

fn run(seed: u64) {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let mut random = Random(seed);
    let (mut reference, mut states, mut ticks) = (ReferenceGraph::new(), vec![ReferenceGraph::new()], Vec::new());
    for _ in 0..RECORDS {
        let mut record = Mutations::default();
        random_record(&mut random, &graph, &mut record);
        reference.apply_all(&record);
        states.push(reference.clone());
        ticks.push(Tick(graph.apply(record, 1).unwrap().0 - 1));
    }
    graph.wait_visible().unwrap();
    let (mut wrong, mut sufficient, mut stopped, mut since_when) = (Vec::new(), 0, 0, 0);
    let (mut sought, mut less) = (0, 0);
    for text in QUERIES {
        let ordered = text.contains("ORDER BY");
        let asked = Prepared::new(ad_hoc(text), graph.symbols());
        let answers: Vec<Rows> = states.iter().map(|state| comparable_rows(answer(&asked, state, &graph), ordered)).collect();
        let plan = compile(StandingMode::AnyQuery, text);
        let staged = Staged::new(&graph, &plan).unwrap();
        for record in [RECORDS / 3, RECORDS / 2, RECORDS - 1] {
            let at = ticks[record];
            let (moment, at) = graph.moment(Some(at)).unwrap();
            let view = moment.view();
            let worked = graph.work(&staged, &[], view, at);
            assert!(!worked.gave_up);
            let mut rows = Rows::new();
            worked.rows().iter().for_each(|(row, _)| *rows.entry(row.0.to_vec()).or_default() += 1);
            let (rows, wanted) = (comparable_rows(rows, ordered), &answers[record + 1]);
            if rows != *wanted {
                wrong.push(format!("{text}\n  at record {record}: worked out {rows:?}, not {wanted:?}"));
                continue;
            }
            let (fewer, other) = narrowed(&graph, &staged, &worked, view);
            less += fewer;
            wrong.extend(other.into_iter().map(|other| format!("{text}\n  at record {record}: {other}")));
            let all: BTreeSet<&Row> = worked.rows().iter().map(|(row, _)| row).collect();
            let tested: Vec<Row> = all.into_iter().take(4).cloned().collect();
            for row in tested {
                let fits: Vec<_> = row.0.iter().map(|wanted| move |value: &Value| value == wanted).collect();
                let values = plan.columns.iter().zip(&fits).map(|((_, slot), fits)| (*slot, fits as &dyn Fn(&Value) -> bool));
                let meant = Meant { values: values.collect(), ..Meant::default() };
                let found = worked.find(&graph, &staged, &meant, view);
                if found.rows.is_empty() || found.rows.iter().any(|number| worked.rows()[*number as usize].0 != row) {
                    wrong.push(format!("{text}\n  at record {record}: not found {row:?}: {:?}", found.rows));
                    continue;
                }
                let wanted = comparable_row(&row.0, ordered);
                if is_monotone(&worked) {
                    let mut of = Vec::new();
                    facts(&graph, &staged, &worked, view, (worked.root(), found.rows[0]), &mut of);
                    let alone = comparable_rows(answer(&asked, &graph_of(&of), &graph), ordered);
                    let counts = worked.levels.iter().any(|level| matches!(level.what, What::Group { .. }));
                    let is_comparable = !(counts && brings_another(&of));
                    sufficient += usize::from(is_comparable);
                    if is_comparable && !alone.contains_key(&wanted) {
                        wrong.push(format!("{text}\n  at record {record}: {of:?} make no {row:?}, but {alone:?}"));
                    }
                }
                // The first of the records since when it is there.
                let there = answers[..=record + 1].iter().rev().take_while(|rows| rows.contains_key(&wanted)).count();
                let expected = match (record + 2).checked_sub(there + 1) {
                    None => Since::Always,
                    Some(last) => Since::Tick(ticks[last]),
                };
                let since = graph.since(&staged, &[], at, &|other| *other == row).unwrap();
                since_when += 1;
                // The row is there as often from the nodes that it shows alone.
                let shown = plan.columns.iter().zip(&row.0);
                let shown: Vec<(Slot, NodeId)> =
                    shown.filter_map(|((_, slot), value)| Some((*slot, graph.ids().node_of(value)?))).collect();
                let seeds = staged.seeds(&shown, &[]);
                let part = graph.work(&staged, &seeds, view, at);
                let times = |worked: &Worked<'_>| worked.rows().iter().filter(|(other, _)| *other == row).count();
                if times(&part) != times(&worked) {
                    wrong.push(format!("{text}\n  at record {record}: {row:?} is not there as often from {seeds:?}"));
                }
                let since_of_part = graph.since(&staged, &seeds, at, &|other| *other == row).unwrap();
                if since_of_part != since {
                    wrong.push(format!("{text}\n  at record {record}: {row:?} since {since_of_part:?} from {seeds:?}"));
                }
                if let Some(column) = staged.pivot() {
                    let found = graph.seek_row(&staged, column, view, at, &|other| *other == row);
                    sought += 1;
                    if found.found.as_ref() != Some(&row) {
                        wrong.push(format!("{text}\n  at record {record}: {row:?} is sought, not {found:?}"));
                    }
                }
                if since != expected {
                    wrong.push(format!("{text}\n  at record {record}: {row:?} since {since:?}, not {expected:?}"));
                }
            }
            // What was there at other times and is not now.
            let now = &answers[record + 1];
            let gone: BTreeSet<&Vec<Value>> =
                answers.iter().flat_map(|rows| rows.keys()).filter(|row| !now.contains_key(*row)).collect();
            for row in gone.into_iter().take(4) {
                let fits: Vec<_> = row.iter().map(|wanted| move |value: &Value| comparable(value, ordered) == *wanted).collect();
                let values = plan.columns.iter().zip(&fits).map(|((_, slot), fits)| (*slot, fits as &dyn Fn(&Value) -> bool));
                let meant = Meant { values: values.collect(), ..Meant::default() };
                let found = worked.find(&graph, &staged, &meant, view);
                let is_told = !(found.stops.is_empty() && found.others.is_empty() && found.missing.is_empty());
                stopped += usize::from(!found.stops.is_empty());
                if !found.rows.is_empty() || (!is_told && worked.rows().is_empty()) {
                    wrong.push(format!("{text}\n  at record {record}: nothing is told of {row:?}, which is not there"));
                }
            }
            assert!(moment.take_failure().is_none());
        }
    }
    eprintln!(
        "seed {seed}: {sufficient} rows made of their facts, {since_when} since when, {stopped} that stop, {sought} sought, \
         {less} narrowed"
    );
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(sufficient > 100 && since_when > 200 && stopped > 50 && sought > 50 && less > 200);
    engine.shutdown().unwrap();
}

#[test]
fn each_row_is_told_with_what_makes_it_and_since_when() {
    for seed in [88172645463325252, 4101842887655102017] {
        run(seed);
    }
}

/// A row that came because time passed is there since the millisecond in which it turned.
#[test]
fn what_time_alone_brings_is_there_since_then() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let change = |n: u64, key: &str, value: i64| {
        let mut record = Mutations::default();
        record.set_label(node(n), symbol("A"), true);
        record.set_property(node(n), symbol(key), &Value::Integer(value));
        Tick(graph.apply(record, 1).unwrap().0 - 1)
    };
    let first = change(1, "until", 0).millis() as i64;
    let turns = [first + 30, first + 60];
    change(1, "until", turns[0]);
    change(2, "until", turns[1]);
    let mut last = change(3, "other", 1);
    while (last.millis() as i64) < turns[1] + 20 {
        std::thread::sleep(Duration::from_millis(5));
        last = change(3, "other", last.millis() as i64);
    }
    let tested = [
        ("MATCH (n:A) WHERE n.until < timestamp() RETURN id(n) AS n", [turns[0] + 1, turns[1] + 1]),
        ("MATCH (n:A) WHERE n.until < timestamp() RETURN n.until AS u, count(*) AS c", [turns[0] + 1, turns[1] + 1]),
        ("MATCH (n:A) WHERE n.until < timestamp() RETURN count(*) AS c", [turns[1] + 1, turns[1] + 1]),
    ];
    for (text, expected) in tested {
        let plan = compile(StandingMode::AnyQuery, text);
        let staged = Staged::new(&graph, &plan).unwrap();
        let (moment, at) = graph.moment(Some(last)).unwrap();
        let worked = graph.work(&staged, &[], moment.view(), at);
        let mut found: Vec<i64> = worked
            .rows()
            .iter()
            .map(|(row, _)| match graph.since(&staged, &[], at, &|other| other == row).unwrap() {
                Since::Tick(tick) => tick.millis() as i64,
                other => panic!("{text}: {row:?} since {other:?}"),
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        let mut expected = expected.to_vec();
        expected.dedup();
        assert_eq!(found, expected, "{text}");
    }
    engine.shutdown().unwrap();
}

/// More nodes than are worked out at once, some of which two patterns have in common.
#[test]
fn a_row_is_sought_among_many_nodes() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    for n in 0..5_000 {
        record.set_label(node(n), symbol("A"), true);
        record.set_property(node(n), symbol("x"), &Value::Integer(n as i64));
        if n.is_multiple_of(2) {
            record.set_label(node(n), symbol("B"), true);
        }
    }
    graph.apply(record, 1).unwrap();
    graph.wait_visible().unwrap();
    let text = "MATCH (n:A) RETURN id(n) AS n, n.x AS x UNION ALL MATCH (n:B) RETURN id(n) AS n, n.x AS x";
    let plan = compile(StandingMode::AnyQuery, text);
    let staged = Staged::new(&graph, &plan).unwrap();
    let column = staged.pivot().unwrap();
    let (moment, at) = graph.moment(None).unwrap();
    let seek = |x: i64| {
        let looks = Cell::new(0);
        let found = graph.seek_row(&staged, column, moment.view(), at, &|row| {
            looks.set(looks.get() + 1);
            row.0[1] == Value::Integer(x)
        });
        assert!(!found.gave_up);
        (found.found.is_some(), looks.get())
    };
    for x in [0, 1, 1_999, 2_000, 4_999] {
        assert!(seek(x).0, "{x}");
    }
    assert_eq!(seek(5_000), (false, 7_500), "each row of the answer once");
    engine.shutdown().unwrap();
}

/// Where no row shows all that is asked for, those near it are looked for once in each stage, however many patterns lie below it.
#[test]
fn rows_that_show_some_of_it_are_looked_for_once() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let labels = ["A", "B", "C", "D", "E", "F"];
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        for (n, label) in (0..60).zip(labels.into_iter().cycle()) {
            record.set_label(node(n), symbol(label), true);
            record.set_property(node(n), symbol("x"), &Value::Integer(n as i64));
            record.set_property(node(n), symbol("y"), &Value::Integer(1));
        }
    });
    let branches = labels.map(|label| format!("MATCH (n:{label}) RETURN n.x AS x, n.y AS y"));
    let plan = compile(StandingMode::AnyQuery, &branches.join(" UNION ALL "));
    let staged = Staged::new(&graph, &plan).unwrap();
    let (moment, at) = graph.moment(None).unwrap();
    let worked = graph.work(&staged, &[], moment.view(), at);
    assert_eq!(worked.rows().len(), 60);
    let looks = Cell::new(0);
    let is_x = |value: &Value| {
        looks.set(looks.get() + 1);
        *value == Value::Integer(12)
    };
    let is_y = |value: &Value| *value == Value::Integer(2);
    let (x, y) = (plan.columns[0].1, plan.columns[1].1);
    let meant = Meant { values: vec![(x, &is_x as Fits<'_>), (y, &is_y as Fits<'_>)], ..Meant::default() };
    let found = worked.find(&graph, &staged, &meant, moment.view());
    assert!(found.rows.is_empty() && found.stops.is_empty());
    let others: Vec<&Value> = found.others.iter().map(|number| &worked.rows()[*number as usize].0.0[0]).collect();
    assert_eq!(others, [&Value::Integer(12)]);
    let rows: usize = worked.levels.iter().map(|level| level.rows.len()).sum();
    assert!(looks.get() <= 2 * rows, "{} looks at {rows} rows of all stages", looks.get());
    engine.shutdown().unwrap();
}

/// The time there is holds for the telling, too.
#[test]
fn what_is_late_is_not_told() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    record.set_label(node(2), symbol("B"), true);
    record.set_edge(node(1), symbol("r"), node(2), 0, true);
    graph.apply(record, 1).unwrap();
    graph.wait_visible().unwrap();
    let plan = compile(StandingMode::AnyQuery, "MATCH (a) WHERE EXISTS { (a)-[:r]->(:B) } RETURN id(a) AS a");
    let staged = Staged::new(&graph, &plan).unwrap();
    let late = Staged::new(&graph, &plan).unwrap().until(Instant::now());
    let (moment, at) = graph.moment(None).unwrap();
    let worked = graph.work(&staged, &[], moment.view(), at);
    let mut told = 0;
    for level in &worked.levels {
        let What::Each(asks) = level.what else { continue };
        let (row, _) = &worked.levels[level.inputs[0]].rows[0];
        told += graph.asked(&staged, asks, row, moment.view(), at).len();
        assert!(graph.asked(&late, asks, row, moment.view(), at).is_empty());
    }
    assert!(told > 0);
    assert!(graph.work(&late, &[], moment.view(), at).gave_up);
    engine.shutdown().unwrap();
}

/// A graph of one record.
fn graph_with(engine: &Engine, change: impl FnOnce(&Graph, &mut Mutations)) -> Graph {
    engine.start().unwrap();
    let graph = engine.default_graph();
    let mut record = Mutations::default();
    change(&graph, &mut record);
    graph.apply(record, 1).unwrap();
    graph.wait_visible().unwrap();
    graph
}

/// What was asked of the graph for the first row of each stage, with these nodes.
fn all_asked<'s>(
    graph: &Graph,
    staged: &'s Staged<'s>,
    worked: &Worked<'s>,
    view: &dyn View,
    given: &[(Slot, NodeId)],
) -> Vec<Answered<'s>> {
    let mut all = Vec::new();
    for level in &worked.levels {
        if let What::Each(asks) = level.what
            && let Some((row, _)) = worked.levels[level.inputs[0]].rows.first()
        {
            all.extend(graph.asked_with(staged, asks, row, given, (view, worked.at)));
        }
    }
    all.retain(|answered| matches!(answered.of, AskedOf::Pattern(..)));
    all
}

/// Of the one row that a query has, whether each pattern that was asked of the graph for it was found.
fn found_for_one_row(graph: &Graph, text: &str) -> Vec<bool> {
    let plan = compile(StandingMode::AnyQuery, text);
    let staged = Staged::new(graph, &plan).unwrap();
    let (moment, at) = graph.moment(None).unwrap();
    let worked = graph.work(&staged, &[], moment.view(), at);
    assert_eq!(worked.rows().len(), 1);
    all_asked(graph, &staged, &worked, moment.view(), &[]).iter().map(|answered| answered.found).collect()
}

/// Of an anti-pattern it is told whether it is found with a node, and what is missing.
#[test]
fn nodes_within_a_subquery_are_asked_for() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        record.set_label(node(1), symbol("A"), true);
        record.set_label(node(2), symbol("B"), true);
        record.set_label(node(3), symbol("B"), true);
        record.set_edge(node(1), symbol("r"), node(2), 0, true);
    });
    let plan = compile(StandingMode::AnyQuery, "MATCH (a:A) WHERE NOT EXISTS { (a)-[:r]->(m:B) } RETURN id(a) AS a");
    let staged = Staged::new(&graph, &plan).unwrap();
    let (moment, at) = graph.moment(None).unwrap();
    let worked = graph.work(&staged, &[], moment.view(), at);
    let asked = |given: &[(Slot, NodeId)]| all_asked(&graph, &staged, &worked, moment.view(), given).remove(0);
    let AskedOf::Pattern(pattern, _) = asked(&[]).of else { panic!("no pattern was asked for") };
    let m = pattern.nodes.iter().find(|node| !node.bound).unwrap().slot;
    let with = asked(&[(m, node(2))]);
    assert!(with.found && with.made.len() == 1 && with.made[0].nodes.contains(&node(2)), "{:?}", with.made);
    let without = asked(&[(m, node(3))]);
    let obstacle = without.reached.first().map(|reached| &reached.obstacle);
    assert!(!without.found && matches!(obstacle, Some(Obstacle::NoEdge { .. })), "{obstacle:?}");
    engine.shutdown().unwrap();
}

/// What is asked within what is asked is asked for each row in there, and not for the row outside.
#[test]
fn subqueries_within_subqueries_are_told_for_their_rows() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        record.set_label(node(1), symbol("A"), true);
        record.set_edge(node(1), symbol("r"), node(2), 0, true);
        record.set_edge(node(2), symbol("s"), node(3), 0, true);
    });
    let text = "MATCH (a:A) WHERE EXISTS { MATCH (a)-[:r]->(b) WHERE EXISTS { (b)-[:s]->(c) } } RETURN id(a) AS a";
    let found = found_for_one_row(&graph, text);
    assert!(!found.is_empty() && found.iter().all(|found| *found), "all of it is found, each time it is told");
    engine.shutdown().unwrap();
}

/// What OPTIONAL MATCH did not find is no node, and not any.
#[test]
fn what_is_bound_to_nothing_is_not_found() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        record.set_label(node(1), symbol("A"), true);
        record.set_edge(node(2), symbol("s"), node(3), 0, true);
    });
    // Joined, or asked of the graph for the row.
    for (optional, asked) in [("(a)-[:r]->(b)", 1), ("(a)-[:r*1..2]->(b)", 2)] {
        let text =
            format!("MATCH (a:A) OPTIONAL MATCH {optional} WITH a, b WHERE NOT EXISTS {{ (b)-[:s]->(c) }} RETURN id(a) AS a");
        let found = found_for_one_row(&graph, &text);
        assert!(found.len() >= asked && found.iter().all(|found| !found), "{optional}: nothing is found");
    }
    engine.shutdown().unwrap();
}

/// An edge that a row binds is looked at like any other: whether it leads so, is of the type, and, where the pattern names no
/// direction, from either of its ends.
#[test]
fn edges_that_are_bound_are_held_against_the_pattern() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        record.set_label(node(1), symbol("A"), true);
        record.set_edge(node(1), symbol("r"), node(2), 0, true);
    });
    for (text, ways) in [
        ("MATCH (x:A)-[e:r]->(y) WHERE EXISTS { (x)-[e]->(y) } RETURN id(x) AS x", 1),
        ("MATCH (x:A)-[e:r]->(y) WHERE EXISTS { (x)-[e]-(y) } RETURN id(x) AS x", 1),
        ("MATCH (x:A)-[e:r]->(y) WHERE EXISTS { (y)-[e]-(x) } RETURN id(x) AS x", 1),
        ("MATCH (x:A)-[e:r]->(y) WHERE EXISTS { (p)-[e]-(q) } RETURN id(x) AS x", 2),
        ("MATCH (x:A)-[e:r]->(y) WHERE EXISTS { (y)-[e]-(q) } RETURN id(x) AS x", 1),
        ("MATCH (x:A)-[e:r]->(y) WHERE NOT EXISTS { (y)-[e]->(x) } RETURN id(x) AS x", 0),
        ("MATCH (x:A)-[e:r]->(y) WHERE NOT EXISTS { (x)-[e:s]->(y) } RETURN id(x) AS x", 0),
        ("MATCH (x:A)-[e:r]->(y) WHERE NOT EXISTS { (p)-[e]-(p) } RETURN id(x) AS x", 0),
    ] {
        let plan = compile(StandingMode::AnyQuery, text);
        let staged = Staged::new(&graph, &plan).unwrap();
        let (moment, at) = graph.moment(None).unwrap();
        let worked = graph.work(&staged, &[], moment.view(), at);
        assert_eq!(worked.rows().len(), 1, "{text}");
        let asked = all_asked(&graph, &staged, &worked, moment.view(), &[]);
        let told = asked.iter().find(|answered| answered.found == (ways > 0)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(told.made.len(), ways, "{text}: {:?}", told.made);
        assert!(asked.iter().all(|answered| answered.found == (ways > 0)), "{text}");
        let edge = EdgeRef { source: node(1), kind: graph.symbols().intern("r"), target: node(2), ordinal: 0 };
        assert!(told.made.iter().all(|made| made.edges == [edge]), "{text}");
        let is_no_edge = matches!(told.reached.first().map(|reached| &reached.obstacle), Some(Obstacle::NoEdge { .. }));
        assert_eq!(is_no_edge, ways == 0, "{text}");
    }
    engine.shutdown().unwrap();
}

/// The choices that are told, and how many match.
fn how_far(graph: &Graph, origin: &Origin<'_>, wanted: &[Wanted<'_>]) -> (Vec<Reached>, usize) {
    let mut rows = 0;
    let bounds = (Patience::Tries, deadline());
    let looked = graph.why(origin, &[], wanted, bounds, None, &mut |_| {
        rows += 1;
        ControlFlow::Continue(())
    });
    (looked.unwrap().reached, rows)
}

/// That others match says nothing of those that are asked for: how far these get is told, and what shows other values is passed
/// over.
#[test]
fn how_far_those_get_that_show_a_value() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let symbol = |name: &str| graph.symbols().intern(name);
        for n in 1..=20 {
            record.set_label(node(n), symbol("A"), true);
            record.set_property(node(n), symbol("x"), &Value::Integer(n as i64));
            if n != 7 {
                record.set_edge(node(n), symbol("r"), node(100), 0, true);
            }
        }
    });
    let plan = compile(StandingMode::MultipleValues, "MATCH (a:A)-[:r]->(b) RETURN a.x + 1 AS x, b.y AS y");
    let origins = origins(&plan);
    let shown = origins[0].expr_of(plan.columns[0].1).unwrap();
    let with = |x: i64| {
        let fits = move |value: &Value| *value == Value::Integer(x);
        how_far(&graph, &origins[0], &[(shown.clone(), &fits as Fits<'_>)])
    };
    let (reached, rows) = how_far(&graph, &origins[0], &[]);
    assert_eq!((reached.len(), rows), (0, 19), "something matches");
    assert_eq!(with(5).1, 1, "only the one that shows it");
    let (reached, rows) = with(8);
    assert_eq!((reached.len(), rows), (1, 0), "{reached:?}");
    assert!(reached[0].nodes.contains(&Some(node(7))), "{reached:?}");
    assert!(matches!(reached[0].obstacle, Obstacle::NoEdge { .. }), "{reached:?}");
    let (reached, rows) = with(50);
    assert_eq!((reached.len(), rows), (0, 0), "nothing shows it");
    engine.shutdown().unwrap();
}

/// Counts the half edges that are listed.
struct Listing<'a> {
    base: &'a dyn View,
    count: Cell<usize>,
}

impl View for Listing<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.properties(node, each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.base.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.base.labels(node, each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges(node, direction, kinds, &mut |half| {
            self.count.set(self.count.get() + 1);
            each(half);
        });
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges_to(node, other, direction, kinds, each);
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.base.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.base.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.edge_properties(edge, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.base.nodes(each);
    }
}

/// Where the other end is known, edges are looked up; and the history of a node of very many is read once, not for each of them.
#[test]
fn a_node_of_very_many_edges_is_told_of_in_time() {
    const EDGES: u64 = 20_000;
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let graph = graph_with(&engine, |graph, record| {
        let r = graph.symbols().intern("r");
        (1..=EDGES).for_each(|n| record.set_edge(node(0), r, node(n), 0, true));
    });
    let (moment, at) = graph.moment(None).unwrap();
    let plan = compile(StandingMode::AnyQuery, "MATCH (a)-[:r]->(b) RETURN id(a) AS a, id(b) AS b");
    let staged = Staged::new(&graph, &plan).unwrap();
    let listing = Listing { base: moment.view(), count: Cell::new(0) };
    let edge = &staged.origins()[0].pattern.edges[0];
    let pair = vec![(edge.source, node(0)), (edge.target, node(EDGES))];
    assert_eq!(graph.work(&staged, &[pair], &listing, at).rows().len(), 1);
    assert_eq!(listing.count.get(), 0, "one edge was looked up");
    let plan = compile(StandingMode::AnyQuery, "MATCH (n) RETURN id(n) AS n");
    let staged = Staged::new(&graph, &plan).unwrap();
    let worked = graph.work(&staged, &[vec![(0, node(0))]], moment.view(), at);
    let begun = own_time();
    let (_, reasons) = graph.reasons_of(&staged, 0, &worked.matches[0][0], moment.view(), at).unwrap();
    assert!(matches!(reasons.as_slice(), [reason] if matches!(reason.of, ReasonOf::There { .. })), "{reasons:?}");
    let took = own_time() - begun;
    assert!(took < Duration::from_secs(10), "{took:?}");
    engine.shutdown().unwrap();
}
