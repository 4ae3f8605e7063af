//! Plans written by hand, run over the reference graph.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_model::expression::{Binary, FailureKind, Function};
use weir_model::plan::{Pattern, PatternEdge, PatternNode, PatternPath, QueryFacts, Slot, SortKey, Step};
use weir_model::{Aggregate, AggregateKind, Text};

use super::*;
use crate::reference::{self, ReferenceGraph};

/// Stands in for `idFrom`: a node id out of one integer or text.
static NODE: Function = Function {
    name: "node",
    arguments_min: 1,
    arguments_max: 2,
    signature: "(ANY) → NODE ID",
    description: "",
    example: "",
    null_in_null_out: true,
    pure: true,
    asks_graph: false,
    run: |_, arguments| {
        let number = match &arguments[arguments.len() - 1] {
            Value::Integer(n) => *n as u64,
            other => return Err(Failure::new(FailureKind::WrongSignature, format!("{other:?}"))),
        };
        Ok(Value::Id(id(number)))
    },
};

fn id(n: u64) -> NodeId {
    NodeId::spread(n)
}

fn slot(n: u32) -> Expr {
    Expr::Slot(Slot(n))
}

fn literal(n: i64) -> Expr {
    Expr::Literal(Value::Integer(n))
}

fn node_id(of: Expr) -> Expr {
    Expr::Call { function: &NODE, arguments: vec![of] }
}

fn binary(operator: Binary, left: Expr, right: Expr) -> Expr {
    Expr::Binary { operator, left: Box::new(left), right: Box::new(right) }
}

fn list(items: impl IntoIterator<Item = i64>) -> Expr {
    Expr::List(items.into_iter().map(literal).collect())
}

/// Collects the names of a plan while it is written.
#[derive(Default)]
struct Builder {
    names: Vec<Text>,
    width: u32,
}

impl Builder {
    fn name(&mut self, text: &str) -> Name {
        let at = self.names.iter().position(|name| name == text).unwrap_or_else(|| {
            self.names.push(text.into());
            self.names.len() - 1
        });
        Name(at as u32)
    }

    fn property(&mut self, of: u32, key: &str) -> Expr {
        Expr::Property { of: Box::new(slot(of)), key: self.name(key) }
    }

    fn set(&mut self, target: u32, key: &str, value: Expr) -> Write {
        Write::SetProperty { target: slot(target), key: self.name(key), value }
    }

    fn create(&mut self, into: u32, labels: &[&str], properties: &[(&str, Expr)]) -> Write {
        let labels = labels.iter().map(|label| self.name(label)).collect();
        let properties = Expr::Map(properties.iter().map(|(key, value)| ((*key).into(), value.clone())).collect());
        Write::CreateNode { slot: Slot(into), labels, properties: Some(properties) }
    }

    fn connect(&mut self, source: u32, kind: &str, target: u32, into: Option<u32>) -> Write {
        let kind = self.name(kind);
        Write::CreateEdge { slot: into.map(Slot), source: Slot(source), kind, target: Slot(target), properties: None }
    }

    fn edge(&mut self, source: usize, kinds: &[&str], target: usize) -> PatternEdge {
        let kinds = kinds.iter().map(|kind| self.name(kind)).collect();
        PatternEdge {
            slot: None,
            source,
            target,
            kinds,
            directed: true,
            bound: false,
            conditions: vec![],
            reads: vec![],
            chain: None,
        }
    }

    fn plan(&self, root: Operator, columns: &[u32], facts: QueryFacts) -> Plan {
        Plan {
            root,
            columns: columns.iter().map(|slot| (Text::from(format!("c{slot}")), Slot(*slot))).collect(),
            width: self.width.max(8) as usize,
            variables: vec![],
            names: self.names.clone(),
            parameters: vec!["that".into()],
            facts,
            source: Text::default(),
        }
    }
}

const READS: QueryFacts = QueryFacts {
    writes: false,
    reads: true,
    scans: false,
    calls: false,
    at_once: false,
    ends: false,
    fetches: false,
    listens: false,
    impure: false,
    fallible: true,
};
const BOTH: QueryFacts = QueryFacts { writes: true, ..READS };
const WRITES: QueryFacts = QueryFacts { reads: false, ..BOTH };

fn node(slot: u32) -> PatternNode {
    PatternNode { slot: Slot(slot), bound: false, labels: vec![], conditions: vec![], reads: vec![], reads_all: None }
}

fn bound(slot: u32) -> PatternNode {
    PatternNode { bound: true, ..node(slot) }
}

fn unit() -> Box<Operator> {
    Box::new(Operator::Unit)
}

fn matching(input: Box<Operator>, pattern: Pattern) -> Box<Operator> {
    Box::new(Operator::Match { input, pattern })
}

fn unwind(items: Expr, into: u32) -> Box<Operator> {
    Box::new(Operator::Unwind { input: unit(), list: items, into: Slot(into) })
}

fn write(input: Box<Operator>, writes: Vec<Write>) -> Operator {
    Operator::Write { input, writes }
}

/// `MATCH (s) WHERE id(s) = node(n)`
fn seek(slot: u32, n: Expr) -> Pattern {
    Pattern { nodes: vec![node(slot)], steps: vec![Step::Seek { node: 0, id: node_id(n) }], ..Pattern::default() }
}

struct Fixture {
    symbols: Symbols,
    graph: ReferenceGraph,
    fresh: Cell<u64>,
    open_cypher: bool,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { symbols: Symbols::default(), graph: ReferenceGraph::new(), fresh: Cell::new(1000), open_cypher: false }
    }

    fn run_limited(&mut self, plan: Plan, parameters: &[Value], limits: Limits, rows_max: usize) -> Result<Vec<String>, Failure> {
        let prepared = Prepared::new(plan, &self.symbols);
        let fresh_id = || {
            self.fresh.set(self.fresh.get() + 1);
            id(self.fresh.get())
        };
        let environment = Environment {
            view: &self.graph,
            parameters,
            ids: IdScheme::Uuid,
            now: weir_model::Clock::at(0),
            fresh_id: &fresh_id,
            limits,
            open_cypher: self.open_cypher,
            recall: None,
        };
        let mut mutations = Mutations::default();
        let mut rows = Vec::new();
        let result = evaluate(&prepared, &self.symbols, &environment, &mut mutations, &mut |row| {
            rows.push(row.iter().map(show).collect::<Vec<_>>().join(" "));
            if rows.len() < rows_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if result.is_err() {
            assert!(mutations.is_empty() && mutations.arena.is_empty(), "a failed run leaves nothing behind");
        }
        self.graph.apply_all(&mutations);
        result.map(|()| rows)
    }

    fn run(&mut self, plan: Plan) -> Vec<String> {
        self.run_limited(plan, &[], Limits::default(), usize::MAX).expect("the plan runs")
    }

    fn fails(&mut self, plan: Plan) -> FailureKind {
        let before = self.graph.clone();
        let failure = self.run_limited(plan, &[], Limits::default(), usize::MAX).expect_err("the plan fails");
        assert!(!failure.message.is_empty());
        assert!(self.graph == before);
        failure.kind
    }

    /// Nodes 0 to `n` with a property `n`, and edges `next` from each to the one after it.
    fn chain(n: u64) -> Fixture {
        let mut fixture = Fixture::new();
        let mut b = Builder::default();
        let two = Pattern {
            nodes: vec![node(1), node(2)],
            steps: vec![
                Step::Seek { node: 0, id: node_id(slot(0)) },
                Step::Seek { node: 1, id: node_id(binary(Binary::Add, slot(0), literal(1))) },
            ],
            ..Pattern::default()
        };
        let writes =
            vec![b.set(1, "n", slot(0)), b.set(2, "n", binary(Binary::Add, slot(0), literal(1))), b.connect(1, "next", 2, None)];
        let root = write(matching(unwind(list(0..n as i64), 0), two), writes);
        fixture.run(b.plan(root, &[], WRITES));
        fixture
    }

    /// `property key of node number`, for looking at the graph.
    fn property(&self, n: u64, key: &str) -> Value {
        self.graph.property(id(n), self.symbols.intern(key))
    }

    fn edges(&self) -> usize {
        self.graph.all_edges().len()
    }

    fn nodes(&self) -> usize {
        let mut count = 0;
        self.graph.nodes(&mut |_| {
            count += 1;
            true
        });
        count
    }
}

/// Short text of a value; nodes by their number.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Boolean(b) => b.to_string(),
        Value::Text(text) => format!("'{text}'"),
        Value::FullNode(node) => {
            let labels: String = node.labels.iter().map(|label| format!(":{label}")).collect();
            let properties: BTreeMap<_, _> = node.properties.iter().map(|(k, v)| (k.to_string(), show(v))).collect();
            format!("({}{labels}{properties:?})", node.id.low).replace(['"'], "").replace(": ", ":")
        }
        Value::FullEdge(edge) => format!("[{}-{}->{}]", edge.key.source.low, edge.key.kind, edge.key.target.low),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// `(a)-[:next]->(b)`, from a node that is found by number.
fn hop(b: &mut Builder, from: i64) -> Pattern {
    Pattern {
        nodes: vec![node(0), node(1)],
        edges: vec![b.edge(0, &["next"], 1)],
        steps: vec![Step::Seek { node: 0, id: node_id(literal(from)) }, Step::Expand { edge: 0, from: 0 }],
        ..Pattern::default()
    }
}

#[test]
fn seek_gives_a_row_also_for_a_node_never_written() {
    let b = Builder::default();
    let plan = |value| b.plan(*matching(unit(), seek(0, value)), &[0], READS);
    assert_eq!(Fixture::new().run(plan(literal(7))), ["(7{})"]);
    assert_eq!(Fixture::new().run(plan(Expr::Literal(Value::Null))), Vec::<String>::new());
}

#[test]
fn what_names_a_node() {
    let uuid = "27dd96d6-75be-30f8-8d97-71b670468f39";
    let found = IdScheme::Uuid.node_of(&Value::text(uuid)).expect("an id");
    assert_eq!(found.to_string(), uuid);
    assert_eq!(IdScheme::Uuid.node_of(&Value::Integer(5)), None);
    assert_eq!(IdScheme::Long { consecutive: false }.node_of(&Value::Integer(-5)), Some(NodeId::new(0, -5i64 as u64)));
    assert_eq!(IdScheme::Uuid.node_of(&Value::text("no id")), None);
    assert_eq!(IdScheme::Uuid.node_of(&Value::Bytes([1; 3].into())), None);
}

#[test]
fn expand_follows_edges_both_ways() {
    let mut fixture = Fixture::chain(4);
    let mut b = Builder::default();
    let forward = hop(&mut b, 2);
    assert_eq!(fixture.run(b.plan(*matching(unit(), forward.clone()), &[1], READS)), ["(3{n:3})"]);
    let mut backward = forward.clone();
    backward.edges[0] = PatternEdge { source: 1, target: 0, ..backward.edges[0].clone() };
    assert_eq!(fixture.run(b.plan(*matching(unit(), backward), &[1], READS)), ["(1{n:1})"]);
    let mut undirected = forward;
    undirected.edges[0] = PatternEdge { directed: false, kinds: vec![], ..undirected.edges[0].clone() };
    let mut rows = fixture.run(b.plan(*matching(unit(), undirected), &[1], READS));
    rows.sort();
    assert_eq!(rows, ["(1{n:1})", "(3{n:3})"]);
}

#[test]
fn a_self_loop_is_found_once_also_without_direction() {
    let mut fixture = Fixture::new();
    let mut b = Builder::default();
    let connect = b.connect(0, "next", 0, None);
    fixture.run(b.plan(write(matching(unit(), seek(0, literal(2))), vec![connect]), &[], WRITES));
    for (directed, kinds, target) in [(true, 1, 1), (false, 1, 1), (false, 0, 1), (false, 1, 0), (false, 0, 0), (true, 1, 0)] {
        let mut pattern = hop(&mut b, 2);
        pattern.edges[0].directed = directed;
        pattern.edges[0].kinds.truncate(kinds);
        pattern.edges[0].target = target;
        pattern.nodes.truncate(target + 1);
        assert_eq!(fixture.run(b.plan(*matching(unit(), pattern), &[0], READS)), ["(2{})"], "{directed} {kinds} {target}");
    }
}

#[test]
fn edges_of_one_match_differ_when_they_must() {
    let mut fixture = Fixture::chain(1);
    let mut b = Builder::default();
    // (a)--(b)--(c) over a single edge: only back to a, and only if that is allowed.
    let mut pattern = hop(&mut b, 0);
    pattern.nodes.push(node(2));
    pattern.edges.push(b.edge(1, &["next"], 2));
    pattern.edges.iter_mut().for_each(|edge| edge.directed = false);
    pattern.steps.push(Step::Expand { edge: 1, from: 1 });
    assert_eq!(fixture.run(b.plan(*matching(unit(), pattern.clone()), &[2], READS)), ["(0{n:0})"]);
    let mut differing = pattern.clone();
    differing.distinct_edges = vec![(0, 1)];
    assert!(fixture.run(b.plan(*matching(unit(), differing), &[2], READS)).is_empty());
    pattern.distinct_nodes = vec![(0, 2)];
    assert!(fixture.run(b.plan(*matching(unit(), pattern), &[2], READS)).is_empty());
}

#[test]
fn paths_and_edges_come_out_in_full() {
    let mut fixture = Fixture::chain(2);
    let mut b = Builder::default();
    let mut pattern = hop(&mut b, 0);
    pattern.edges[0].slot = Some(Slot(3));
    pattern.paths = vec![PatternPath { slot: Slot(4), start: 1, edges: vec![0] }];
    let plan = b.plan(*matching(unit(), pattern), &[3, 4], READS);
    assert_eq!(fixture.run(plan), ["[0-next->1] [(1{n:1}), [0-next->1], (0{n:0})]"]);
}

#[test]
fn optional_gives_nulls_once() {
    let mut fixture = Fixture::chain(2);
    let mut b = Builder::default();
    let mut pattern = hop(&mut b, 0);
    pattern.nodes[0].bound = true;
    pattern.steps[0] = Step::Bound { node: 0 };
    let each = matching(unwind(list([0, 2]), 5), seek(0, slot(5)));
    let inner = matching(Box::new(Operator::Argument), pattern);
    let root = Operator::Optional { input: each, inner, nulls: vec![Slot(1)] };
    assert_eq!(fixture.run(b.plan(root, &[5, 1], READS)), ["0 (1{n:1})", "2 null"]);
}

#[test]
fn scans_labels_and_conditions() {
    let mut fixture = Fixture::chain(9);
    let mut b = Builder::default();
    let odd = b.name("Odd");
    let one = matching(unwind(list([1, 3, 5]), 1), seek(0, slot(1)));
    fixture.run(b.plan(write(one, vec![Write::AddLabels { target: Slot(0), labels: vec![odd] }]), &[], WRITES));
    let mut pattern =
        Pattern { nodes: vec![node(0)], steps: vec![Step::Scan { node: 0, lookups: vec![] }], ..Pattern::default() };
    pattern.nodes[0].labels = vec![odd];
    pattern.nodes[0].conditions = vec![binary(Binary::Greater, b.property(0, "n"), literal(1))];
    pattern.conditions = vec![binary(Binary::Less, b.property(0, "n"), literal(5))];
    pattern.steps.push(Step::Test { condition: 0 });
    let plan = b.plan(*matching(unit(), pattern.clone()), &[0], READS);
    assert_eq!(fixture.run(plan.clone()), ["(3:Odd{n:3})"]);
    // The oracle has read the same plan.
    let answer = reference::matches(&Prepared::new(plan, &fixture.symbols), &fixture.graph, &fixture.symbols, IdScheme::Uuid);
    assert_eq!(answer.expect("an answer").into_iter().collect::<Vec<_>>(), [(vec![Value::Node(id(3))], 1)]);
}

#[test]
fn the_oracle_counts_like_the_evaluator() {
    let mut fixture = Fixture::chain(6);
    let mut b = Builder::default();
    // (a)--(b)--(c) everywhere, projected to b.n.
    let mut pattern = hop(&mut b, 0);
    pattern.nodes.push(node(2));
    pattern.edges.push(b.edge(2, &["next"], 1));
    pattern.edges[0].directed = false;
    pattern.steps =
        vec![Step::Scan { node: 1, lookups: vec![] }, Step::Expand { edge: 0, from: 1 }, Step::Expand { edge: 1, from: 1 }];
    for distinct_edges in [vec![], vec![(0, 1)]] {
        pattern.distinct_edges = distinct_edges;
        let items = vec![(Slot(4), b.property(1, "n"))];
        let root = Operator::Project { input: matching(unit(), pattern.clone()), items };
        let plan = b.plan(root, &[4], READS);
        let mut counted = BTreeMap::new();
        fixture.run(plan.clone()).into_iter().for_each(|row| *counted.entry(row).or_insert(0) += 1);
        let answer = reference::matches(&Prepared::new(plan, &fixture.symbols), &fixture.graph, &fixture.symbols, IdScheme::Uuid);
        let expected: BTreeMap<String, i64> = answer.expect("an answer").into_iter().map(|(k, n)| (show(&k[0]), n)).collect();
        assert_eq!(counted, expected);
        assert!(!counted.is_empty());
    }
}

#[test]
fn projection_sees_the_row_before_it_and_undoes_itself() {
    let b = Builder::default();
    let swap = Operator::Project { input: unwind(list([1, 2]), 0), items: vec![(Slot(0), literal(9)), (Slot(1), slot(0))] };
    assert_eq!(Fixture::new().run(b.plan(swap, &[0, 1], READS)), ["9 1", "9 2"]);
}

#[test]
fn rows_are_sorted_grouped_and_counted() {
    let b = Builder::default();
    let numbers = || unwind(list([3, 1, 2, 3, 1]), 0);
    let one = |operator| Fixture::new().run(b.plan(operator, &[0], READS));
    let key = |descending| vec![SortKey { expr: slot(0), descending }];
    assert_eq!(one(Operator::Sort { input: numbers(), keys: key(false), limit: None }), ["1", "1", "2", "3", "3"]);
    assert_eq!(one(Operator::Sort { input: numbers(), keys: key(true), limit: Some(literal(2)) }), ["3", "3"]);
    assert_eq!(one(Operator::Distinct { input: numbers(), slots: vec![Slot(0)] }), ["3", "1", "2"]);
    assert_eq!(one(Operator::Skip { input: numbers(), count: literal(3) }), ["3", "1"]);
    assert_eq!(one(Operator::Limit { input: numbers(), count: literal(2) }), ["3", "1"]);
    assert!(one(Operator::Limit { input: numbers(), count: literal(0) }).is_empty());
    let both = |distinct| Operator::Union { left: numbers(), right: unwind(list([7, 1]), 0), distinct };
    assert_eq!(one(both(None)).len(), 7);
    assert_eq!(one(both(Some(vec![Slot(0)]))), ["3", "1", "2", "7"]);
    let count = (Slot(1), Aggregate { kind: AggregateKind::CountRows, arguments: vec![], distinct: false });
    let grouped = Operator::Aggregate { input: numbers(), keys: vec![(Slot(0), slot(0))], aggregates: vec![count.clone()] };
    assert_eq!(Fixture::new().run(b.plan(grouped, &[0, 1], READS)), ["3 2", "1 2", "2 1"]);
    let none = Operator::Aggregate { input: unwind(list([]), 0), keys: vec![], aggregates: vec![count] };
    assert_eq!(Fixture::new().run(b.plan(none, &[1], READS)), ["0"]);
}

#[test]
fn a_long_top_k_lets_go_of_the_rest() {
    let b = Builder::default();
    let descending = unwind(list((0..5000).rev()), 0);
    let sort =
        Operator::Sort { input: descending, keys: vec![SortKey { expr: slot(0), descending: false }], limit: Some(literal(3)) };
    let limits = Limits { buffer_bytes_max: 1 << 20, ..Limits::NONE };
    let rows = Fixture::new().run_limited(b.plan(sort, &[0], READS), &[], limits, usize::MAX);
    assert_eq!(rows.expect("fits"), ["0", "1", "2"]);
}

#[test]
fn counts_of_limit_are_checked() {
    let b = Builder::default();
    for wrong in [literal(-1), Expr::Literal(Value::text("two"))] {
        Fixture::new().fails(b.plan(Operator::Limit { input: unit(), count: wrong }, &[0], READS));
    }
}

#[test]
fn a_limit_does_not_stop_writes() {
    for facts in [WRITES, BOTH] {
        let mut fixture = Fixture::new();
        let mut b = Builder::default();
        let create = write(unwind(list(0..10), 0), vec![b.create(1, &["A"], &[("x", slot(0))])]);
        let limited = Operator::Limit { input: Box::new(create), count: literal(1) };
        assert_eq!(fixture.run(b.plan(limited, &[0], facts)), ["0"]);
        assert_eq!(fixture.nodes(), 10);
    }
}

#[test]
fn what_a_clause_writes_the_next_one_reads() {
    let mut fixture = Fixture::new();
    let mut b = Builder::default();
    // MATCH (n) WHERE id(n) = node(1) SET n.a = 1, n.b = n.a SET n = {c: n.b} RETURN n
    let first = vec![b.set(0, "a", literal(1)), {
        let a = b.property(0, "a");
        b.set(0, "b", a)
    }];
    let map = Expr::Map(vec![("c".into(), b.property(0, "b")), ("d".into(), Expr::Literal(Value::Null))]);
    let second = vec![Write::SetProperties { target: Slot(0), value: map, replace: true }];
    let root = write(Box::new(write(matching(unit(), seek(0, literal(1))), first)), second);
    assert_eq!(fixture.run(b.plan(root, &[0], BOTH)), ["(1{c:1})"]);
    assert_eq!(fixture.property(1, "c"), Value::Integer(1));
    assert_eq!(fixture.property(1, "a"), Value::Null);
}

#[test]
fn a_match_does_not_see_what_its_own_rows_create() {
    let mut fixture = Fixture::chain(3);
    let mut b = Builder::default();
    let everything = Pattern { nodes: vec![node(0)], steps: vec![Step::Scan { node: 0, lookups: vec![] }], ..Pattern::default() };
    let root = write(matching(unit(), everything), vec![b.create(1, &["Copy"], &[])]);
    fixture.run(b.plan(root, &[], BOTH));
    assert_eq!(fixture.nodes(), 8);
}

#[test]
fn set_of_null_and_on_null() {
    let mut fixture = Fixture::chain(1);
    let mut b = Builder::default();
    let writes = vec![
        b.set(0, "n", Expr::Literal(Value::Null)),
        b.set(3, "x", literal(1)),
        Write::AddLabels { target: Slot(3), labels: vec![b.name("L")] },
        Write::Delete { target: slot(3), detach: false },
        b.connect(0, "next", 3, Some(4)),
    ];
    let plan = b.plan(write(matching(unit(), seek(0, literal(0))), writes), &[4], BOTH);
    assert_eq!(fixture.run(plan), ["null"]);
    assert_eq!(fixture.property(0, "n"), Value::Null);
    assert_eq!(fixture.edges(), 1);
}

#[test]
fn what_cannot_be_stored() {
    let mut b = Builder::default();
    let at = |b: &Builder, write_: Write| b.plan(write(matching(unit(), seek(0, literal(0))), vec![write_]), &[], BOTH);
    // A node is stored as a map.
    let set = b.set(0, "m", slot(0));
    let mut fixture = Fixture::chain(1);
    fixture.run(at(&b, set));
    let Value::Map(stored) = fixture.property(0, "m") else { panic!("a map is stored") };
    assert_eq!((stored.get("n"), stored.get("_id")), (Some(&Value::Integer(0)), Some(&Value::Id(id(0)))));
    // A path is not, nor is a number all of somebody's properties.
    let path = Value::Path(weir_model::Path { start: id(0), steps: vec![] }.into());
    let set = b.set(0, "m", Expr::List(vec![literal(1), Expr::Literal(path)]));
    assert_eq!(fixture.fails(at(&b, set)), FailureKind::NotStorable);
    let all = Write::SetProperties { target: Slot(0), value: literal(1), replace: false };
    assert_eq!(fixture.fails(at(&b, all)), FailureKind::TypeMismatch);
}

#[test]
fn a_failure_takes_back_what_was_written_before_it() {
    let mut b = Builder::default();
    let writes = vec![b.set(0, "x", Expr::Literal(Value::text("a text of more than fourteen bytes"))), b.set(1, "x", literal(1))];
    let input = Operator::Project { input: matching(unit(), seek(0, literal(0))), items: vec![(Slot(1), literal(5))] };
    assert_eq!(Fixture::new().fails(b.plan(write(Box::new(input), writes), &[], WRITES)), FailureKind::TypeMismatch);
}

#[test]
fn delete_wants_no_edges_left() {
    let mut b = Builder::default();
    let mut fixture = Fixture::chain(2);
    let delete = |detach| vec![Write::Delete { target: slot(0), detach }];
    let plan = |b: &Builder, writes| b.plan(write(matching(unit(), seek(0, literal(1))), writes), &[], BOTH);
    assert_eq!(fixture.fails(plan(&b, delete(false))), FailureKind::StillConnected);
    fixture.run(plan(&b, delete(true)));
    assert_eq!((fixture.nodes(), fixture.edges()), (2, 0));
    fixture.run(plan(&b, delete(false)));

    // Once more where something has come back since, or edges were left.
    let mut fixture = Fixture::chain(2);
    let writes = [delete(true), vec![b.set(0, "x", literal(1))], delete(true), delete(true)].concat();
    fixture.run(plan(&b, writes));
    assert_eq!((fixture.nodes(), fixture.edges()), (2, 0));
    let mut fixture = Fixture::chain(2);
    fixture.run(plan(&b, [delete(false), delete(false), delete(true)].concat()));
    assert_eq!((fixture.nodes(), fixture.edges()), (2, 0));

    // The node first and then its only edge, in one clause.
    let mut fixture = Fixture::chain(1);
    let mut pattern = hop(&mut b, 0);
    pattern.edges[0].slot = Some(Slot(2));
    let writes = vec![
        Write::Delete { target: slot(0), detach: false },
        Write::Delete { target: Expr::List(vec![slot(2)]), detach: false },
    ];
    assert_eq!(fixture.fails(b.plan(write(matching(unit(), pattern.clone()), writes), &[], BOTH)), FailureKind::TypeMismatch);
    let writes = vec![Write::Delete { target: slot(0), detach: false }, Write::Delete { target: slot(2), detach: false }];
    fixture.run(b.plan(write(matching(unit(), pattern), writes), &[], BOTH));
    assert_eq!((fixture.nodes(), fixture.edges()), (1, 0));
}

#[test]
fn a_deleted_edge_loses_its_properties() {
    let mut fixture = Fixture::chain(1);
    let mut b = Builder::default();
    let mut pattern = hop(&mut b, 0);
    pattern.edges[0].slot = Some(Slot(2));
    let on = |b: &Builder, writes| b.plan(write(matching(unit(), pattern.clone()), writes), &[2], BOTH);
    let set = b.set(2, "weight", literal(3));
    fixture.run(on(&b, vec![set.clone()]));
    let edge = fixture.graph.all_edges()[0];
    let weight = fixture.symbols.intern("weight");
    assert_eq!(fixture.graph.edge_property(edge, weight), Value::Integer(3));
    fixture.run(on(&b, vec![Write::Delete { target: slot(2), detach: false }, set]));
    assert_eq!(fixture.edges(), 0);
    assert_eq!(fixture.graph.edge_property(edge, weight), Value::Null);
}

#[test]
fn edges_are_one_or_many() {
    for (parallel, expected) in [(false, 1), (true, 3)] {
        let mut fixture = Fixture::new();
        fixture.open_cypher = parallel;
        let mut b = Builder::default();
        let connect = b.connect(0, "next", 0, Some(1));
        let input = matching(unwind(list(0..3), 2), seek(0, literal(1)));
        fixture.run(b.plan(write(input, vec![connect]), &[], WRITES));
        assert_eq!(fixture.edges(), expected);
        let mut pattern = hop(&mut b, 1);
        pattern.edges[0].slot = Some(Slot(2));
        assert_eq!(fixture.run(b.plan(*matching(unit(), pattern), &[2], READS)).len(), expected);
    }
}

#[test]
fn merge_finds_or_creates_row_by_row() {
    let mut fixture = Fixture::new();
    let mut b = Builder::default();
    // UNWIND [1, 2, 1] AS x MERGE (n:N {x: x}) ON CREATE SET n.new = true ON MATCH SET n.new = false RETURN n
    let mut pattern =
        Pattern { nodes: vec![node(1)], steps: vec![Step::Scan { node: 0, lookups: vec![] }], ..Pattern::default() };
    pattern.nodes[0].labels = vec![b.name("N")];
    pattern.nodes[0].conditions = vec![binary(Binary::Same, b.property(1, "x"), slot(0))];
    let root = Operator::Merge {
        input: unwind(list([1, 2, 1]), 0),
        pattern,
        create: vec![b.create(1, &["N"], &[("x", slot(0))])],
        on_create: vec![b.set(1, "new", Expr::Literal(Value::Boolean(true)))],
        on_match: vec![b.set(1, "new", Expr::Literal(Value::Boolean(false)))],
    };
    let rows = fixture.run(b.plan(root, &[1], BOTH));
    assert_eq!(rows, ["(1001:N{new:false, x:1})", "(1002:N{new:true, x:2})", "(1001:N{new:false, x:1})"]);
    assert_eq!(fixture.nodes(), 2);
}

#[test]
fn foreach_runs_its_writes_and_the_row_passes_once() {
    let mut fixture = Fixture::new();
    let mut b = Builder::default();
    let writes = vec![b.create(1, &["N"], &[("x", slot(0))])];
    let each = Write::ForEach { slot: Slot(0), list: list([1, 2, 3]), writes };
    assert_eq!(fixture.run(b.plan(write(unit(), vec![each]), &[0], BOTH)), ["null"]);
    assert_eq!(fixture.nodes(), 3);
}

#[test]
fn bound_edges_are_checked() {
    let mut fixture = Fixture::chain(2);
    let mut b = Builder::default();
    let mut first = hop(&mut b, 0);
    first.edges[0].slot = Some(Slot(2));
    let mut second = Pattern {
        nodes: vec![bound(1), node(3)],
        edges: vec![PatternEdge { slot: Some(Slot(2)), bound: true, ..b.edge(1, &["next"], 0) }],
        steps: vec![Step::Bound { node: 0 }, Step::Expand { edge: 0, from: 0 }],
        ..Pattern::default()
    };
    let run = |fixture: &mut Fixture, b: &Builder, second: &Pattern| {
        fixture.run(b.plan(*matching(matching(unit(), first.clone()), second.clone()), &[3], READS))
    };
    assert_eq!(run(&mut fixture, &b, &second), ["(0{n:0})"]);
    second.edges[0] = PatternEdge { source: 0, target: 1, ..second.edges[0].clone() };
    assert!(run(&mut fixture, &b, &second).is_empty());
    second.edges[0].directed = false;
    assert_eq!(run(&mut fixture, &b, &second), ["(0{n:0})"]);
    second.edges[0].kinds = vec![b.name("other")];
    assert!(run(&mut fixture, &b, &second).is_empty());
}

#[test]
fn limits_interrupt() {
    let mut fixture = Fixture::chain(3);
    let b = Builder::default();
    let long = || Operator::Unwind { input: unwind(list(0..100), 0), list: list(0..100), into: Slot(1) };
    let mut fails = |operator, limits| {
        fixture.run_limited(b.plan(operator, &[0], READS), &[], limits, usize::MAX).expect_err("interrupted").kind
    };
    let now = Limits { deadline: Some(Instant::now() - Duration::from_millis(1)), ..Limits::NONE };
    assert_eq!(fails(long(), now), FailureKind::TimeLimit);
    let flag = AtomicBool::new(true);
    assert_eq!(fails(long(), Limits { cancelled: Some(&flag), ..Limits::NONE }), FailureKind::Interrupted);
    let sort = Operator::Sort { input: Box::new(long()), keys: vec![], limit: None };
    assert_eq!(fails(sort, Limits { buffer_bytes_max: 10_000, ..Limits::NONE }), FailureKind::MemoryLimit);
}

#[test]
fn the_receiver_can_have_enough() {
    let b = Builder::default();
    let plan = b.plan(*unwind(list(0..100), 0), &[0], READS);
    assert_eq!(Fixture::new().run_limited(plan, &[], Limits::NONE, 2).expect("runs"), ["0", "1"]);
}

/// Prints what a record of the ingest path costs: two nodes by id, ten properties, a label, an edge.
#[test]
fn the_ingest_path_takes_about_a_microsecond() {
    let mut b = Builder::default();
    let that = |b: &mut Builder, key: &str| Expr::Property { of: Box::new(Expr::Parameter(0)), key: b.name(key) };
    let text = Expr::Literal(Value::text("process"));
    let anchor = |key| Expr::Call { function: &NODE, arguments: vec![text.clone(), key] };
    let pattern = Pattern {
        nodes: vec![node(0), node(1)],
        steps: vec![
            Step::Seek { node: 0, id: anchor(that(&mut b, "process_id")) },
            Step::Seek { node: 1, id: anchor(that(&mut b, "parent_id")) },
        ],
        ..Pattern::default()
    };
    let process = b.name("Process");
    let writes = vec![
        Write::SetProperties { target: Slot(0), value: Expr::Parameter(0), replace: true },
        Write::AddLabels { target: Slot(0), labels: vec![process] },
        b.connect(0, "parent", 1, None),
    ];
    let plan = b.plan(write(matching(unit(), pattern), writes), &[], WRITES);
    let symbols = Symbols::default();
    let prepared = Prepared::new(plan, &symbols);
    assert!(!prepared.reads(false) && prepared.reads(true));

    let record = |n: i64| {
        let mut fields: Vec<(Text, Value)> = ["process_id", "parent_id", "time", "session"]
            .map(Text::from)
            .into_iter()
            .map(|key| (key, Value::Integer(n)))
            .collect();
        fields.extend(["user", "host", "name", "integrity"].map(|key| (key.into(), Value::text("short text"))));
        fields.extend(
            ["command_line", "image_path"].map(|key| (key.into(), Value::text("C:\\Windows\\System32\\svchost.exe -k netsvcs"))),
        );
        [Value::map(fields)]
    };
    let records: Vec<[Value; 1]> = (0..1000).map(record).collect();
    let graph = ReferenceGraph::new();
    let fresh_id = || id(0);
    let mut evaluator = Evaluator::new(&prepared, &symbols);
    let mut mutations = Mutations::default();
    let mut best = Duration::MAX;
    for _ in 0..50 {
        mutations.clear();
        let start = Instant::now();
        for (number, parameters) in records.iter().enumerate() {
            mutations.start_record(number as u32);
            let environment = Environment {
                view: &graph,
                parameters,
                ids: IdScheme::Uuid,
                now: weir_model::Clock::at(0),
                fresh_id: &fresh_id,
                limits: Limits::NONE,
                open_cypher: false,
                recall: None,
            };
            evaluator.run(&environment, &mut mutations, &mut |_| ControlFlow::Continue(())).expect("the plan runs");
        }
        best = best.min(start.elapsed());
    }
    assert_eq!(mutations.rows.len(), 1000 * (1 + 10 + 1 + 2));
    println!("evaluate, one process event: {} ns", best.as_nanos() / 1000);
    assert!(best < Duration::from_millis(20), "1000 records took {best:?}");
}
