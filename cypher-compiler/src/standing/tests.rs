//! Standing queries: plans with their delta paths, and the table of refused patterns.

use super::*;
use crate::explain_plan;

fn compiled(mode: StandingMode, text: &str) -> String {
    match compile_standing(text, mode, &Options::default()) {
        Ok(standing) => explain_plan(&standing.plan),
        Err(errors) => errors.iter().map(|e| format!("{}.{} {}: {}\n", e.line, e.column, e.code, e.message)).collect(),
    }
}

#[track_caller]
fn check(mode: StandingMode, text: &str, expected: &str) {
    let lines: Vec<&str> = expected.trim_start_matches('\n').trim_end().lines().collect();
    let indent = lines.first().map_or(0, |line| line.len() - line.trim_start().len());
    let expected: String = lines.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
    assert_eq!(compiled(mode, text), expected, "{text}");
}

/// The conditions on node 0 for a WHERE over it.
#[track_caller]
fn check_local(mode: StandingMode, condition: &str, expected: &str) {
    let returned = if mode == StandingMode::DistinctId { "DISTINCT id(n)" } else { "id(n)" };
    let plan = compiled(mode, &format!("MATCH (n) WHERE {condition} RETURN {returned}"));
    let node = plan.lines().find_map(|line| line.trim_start().strip_prefix("node 0: #0")).unwrap_or(&plan);
    assert_eq!(node.trim(), expected, "{condition}");
}

use StandingMode::{AnyQuery, DistinctId, MultipleValues};

#[test]
fn the_chain() {
    check(
        DistinctId,
        "MATCH (p0)-[:parent]->(p1)-[:parent]->(p2)-[:parent]->(p3) WHERE exists(p0.filename) RETURN DISTINCT id(p0) AS id",
        "
        Facts reads
        Columns id: #5
        Distinct #5
          Project #5 = id(#0)
            Match
              node 0: #0 read #4 = .filename where #4 IS NOT NULL
              node 1: #1
              node 2: #2
              node 3: #3
              edge 0: 0-[:parent]->1
              edge 1: 1-[:parent]->2
              edge 2: 2-[:parent]->3
              distinct nodes: 0-1, 1-2, 2-3
              delta of node 0: expand edge 0 from 0; expand edge 1 from 1; expand edge 2 from 2
              delta of edge 0: expand edge 1 from 1; expand edge 2 from 2
              delta of edge 1: expand edge 0 from 1; expand edge 2 from 2
              delta of edge 2: expand edge 1 from 2; expand edge 0 from 1
              Unit
        ",
    );
}

#[test]
fn filters_are_tested_as_early_as_possible() {
    check(
        MultipleValues,
        "MATCH (u:U)-[:OWNS]->(d) WHERE d.risk > 7 AND u.x < d.y RETURN id(u) AS u, d.risk AS r, d.risk+1, properties(u) AS p",
        "
        Facts reads
        Columns u: #6, r: #2, d.risk+1: #7, p: #5
        Project #6 = id(#0), #7 = (#2 + 1)
          Match
            node 0: #0:U read #3 = .x, #5 = .*
            node 1: #1 read #2 = .risk, #4 = .y where (#2 > 7)
            edge 0: 0-[:OWNS]->1
            condition 0: (#3 < #4)
            delta of node 0: expand edge 0 from 0; test 0
            delta of node 1: expand edge 0 from 1; test 0
            delta of edge 0: test 0
            Unit
        ",
    );
}

#[test]
fn siblings_differ_in_mode_distinct_id() {
    let text = "MATCH (a)<-[:X]-(n)-[:X]->(b)-[:Y]->(c), (n)-[:Z]->(d)";
    let plan = compiled(DistinctId, &format!("{text} RETURN DISTINCT id(n)"));
    assert!(plan.contains("distinct nodes: 0-2, 0-4, 1-0, 1-2, 1-4, 2-3, 2-4\n"), "{plan}");
    // Seen from another root other nodes are siblings.
    let plan = compiled(DistinctId, &format!("{text} USING SCAN b:B RETURN DISTINCT id(b)"));
    assert!(plan.contains("distinct nodes: 0-4, 1-0, 1-3, 1-4, 2-1, 2-3\n"), "{plan}");
    let plan = compiled(MultipleValues, &format!("{text} RETURN id(n)"));
    assert!(!plan.contains("distinct nodes"), "{plan}");
}

#[test]
fn local_conditions_compare_as_the_store_does() {
    for (mode, condition, expected) in [
        (DistinctId, "n.x = 1", "read #1 = .x where (#1 SAME 1)"),
        (DistinctId, "n.x = [1, {a: -2}]", "read #1 = .x where (#1 SAME [1, {a: -2}])"),
        (DistinctId, "n.x = null", "read #1 = .x where false"),
        (DistinctId, "n.x <> 1", "read #1 = .x where NOT (#1 SAME 1)"),
        (MultipleValues, "n.x <> 1", "read #1 = .x where (#1 IS NOT NULL AND NOT (#1 SAME 1))"),
        (MultipleValues, "n.x <> null", "read #1 = .x where #1 IS NOT NULL"),
        (DistinctId, "n.x IS NULL", "read #1 = .x where #1 IS NULL"),
        (DistinctId, "NOT exists(n.x)", "read #1 = .x where #1 IS NULL"),
        (DistinctId, "n.x IS NOT NULL", "read #1 = .x where #1 IS NOT NULL"),
        (DistinctId, "n.x =~ 'a.*'", "read #1 = .x where (#1 =~ \"a.*\")"),
        (MultipleValues, "1 = n.x", "read #1 = .x where (1 = #1)"),
        (MultipleValues, "n.x = 1 + 2", "read #1 = .x where (#1 = 3)"),
        (MultipleValues, "n.x = 1 AND n.x = 1", "read #1 = .x where (#1 SAME 1)"),
        (MultipleValues, "n.x > 1 OR n.y > 1", "read #1 = .x, #2 = .y where ((#1 > 1) OR (#2 > 1))"),
        (MultipleValues, "NOT (n.x = 1)", "read #1 = .x where NOT (#1 = 1)"),
        (DistinctId, "id(n) = idFrom(1)", "where (id(#0) SAME #27dd96d6-75be-30f8-8d97-71b670468f39)"),
        (
            DistinctId,
            "'27dd96d6-75be-30f8-8d97-71b670468f39' = id(n)",
            "where (id(#0) SAME #27dd96d6-75be-30f8-8d97-71b670468f39)",
        ),
        (
            DistinctId,
            "strId(n) = '27DD96D6-75be-30f8-8d97-71b670468f39'",
            "where (strId(#0) SAME \"27dd96d6-75be-30f8-8d97-71b670468f39\")",
        ),
        (MultipleValues, "id(n) = 'nonsense'", "where (id(#0) = \"nonsense\")"),
    ] {
        check_local(mode, condition, expected);
    }
}

#[test]
fn refused_patterns() {
    for (mode, text, expected) in [
        (
            DistinctId,
            "RETURN 1",
            "1.1 WrongFormat: Wrong format for a standing query (expected `MATCH ... WHERE ... RETURN ...`)",
        ),
        (
            DistinctId,
            "MATCH (n) WITH n RETURN DISTINCT id(n)",
            "1.1 WrongFormat: Wrong format for a standing query (expected `MATCH ... WHERE ... RETURN ...`)",
        ),
        (
            MultipleValues,
            "MATCH (n) RETURN n.x AS x LIMIT 1",
            "1.1 WrongFormat: Wrong format for a standing query (expected `MATCH ... WHERE ... RETURN ...`)",
        ),
        (
            MultipleValues,
            "MATCH (n) WHERE n.at < timestamp() RETURN n.x AS x",
            "1.17 NotMaintainable: A standing query's results follow from the graph: `timestamp()` does not, and cannot stand in them",
        ),
        (
            MultipleValues,
            "MATCH (n) RETURN n.x AS x, [rand()] AS chance",
            "1.28 NotMaintainable: A standing query's results follow from the graph: `rand()` does not, and cannot stand in them",
        ),
        (
            MultipleValues,
            "MATCH (n) RETURN datetime({timezone: 'Asia/Tokyo'}) AS now",
            "1.18 NotMaintainable: A standing query's results follow from the graph: `datetime()` does not, and cannot stand in them",
        ),
        (
            MultipleValues,
            "MATCH (n) RETURN datetime() AS now",
            "1.18 NotMaintainable: A standing query's results follow from the graph: `datetime()` does not, and cannot stand in them",
        ),
        (
            DistinctId,
            "MATCH (n) RETURN id(n)",
            "1.11 DistinctIdMustDistinct: DistinctId Standing Queries must specify a `DISTINCT` keyword",
        ),
        (
            DistinctId,
            "MATCH (n) WHERE n.x > 1 RETURN DISTINCT n.x",
            "1.17 DistinctIdCannotFilter: DistinctId queries cannot filter",
        ),
        (DistinctId, "MATCH (n) RETURN DISTINCT n.x + 1", "1.27 DistinctIdCannotMap: DistinctId queries cannot map"),
        (
            DistinctId,
            "MATCH (n) RETURN DISTINCT n.x",
            "1.27 DistinctIdMustId: DistinctId queries must return exactly the `id` of the root node",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R]->(b) RETURN DISTINCT id(a), id(b)",
            "1.37 DistinctIdMustId: DistinctId queries must return exactly the `id` of the root node",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R]->(b) USING SCAN b:X RETURN DISTINCT id(a)",
            "1.52 DistinctIdMustId: DistinctId queries must return exactly the `id` of the root node",
        ),
        (DistinctId, "MATCH (a) USING SCAN x:X RETURN DISTINCT id(a)", "1.22 UndefinedVariable: Variable `x` not defined"),
        (DistinctId, "MATCH (a)-[:R]->(b)-[:R]->(a) RETURN DISTINCT id(a)", "1.7 HasACycle: Pattern has a cycle"),
        (MultipleValues, "MATCH (a)-[:R]->(a) RETURN id(a)", "1.7 HasACycle: Pattern has a cycle"),
        (DistinctId, "MATCH (a), (b) RETURN DISTINCT id(a)", "1.7 NotConnected: Pattern is not connected"),
        (
            MultipleValues,
            "MATCH (n) RETURN DISTINCT n.x",
            "1.11 MultipleValuesCantDistinct: MultipleValues Standing Queries do not yet support `DISTINCT`",
        ),
        (
            DistinctId,
            "MATCH (a)-[r:R]->(b) RETURN DISTINCT id(a)",
            "1.10 EdgeVariable: Assigning edges to variables is not yet supported in standing query patterns",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R|S]->(b) RETURN DISTINCT id(a)",
            "1.10 EdgeLabel: Edges in standing query patterns must have exactly one label (got :R, :S)",
        ),
        (
            DistinctId,
            "MATCH (a)-->(b) RETURN DISTINCT id(a)",
            "1.10 EdgeLabel: Edges in standing query patterns must have exactly one label (got )",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R]-(b) RETURN DISTINCT id(a)",
            "1.10 EdgeDirection: Edge in standing queries must specify a direction",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R {x: 1}]->(b) RETURN DISTINCT id(a)",
            "1.10 EdgeProperties: Properties on edges are not yet supported",
        ),
        (
            DistinctId,
            "MATCH (a)-[:R*2]->(b) RETURN DISTINCT id(a)",
            "1.10 EdgeLength: Variable length relationships are not yet supported",
        ),
        (
            DistinctId,
            "MATCH (a {x: 1 + 1}) RETURN DISTINCT id(a)",
            "1.7 NodeConstraint: Invalid node constraint (expected a map literal)",
        ),
        (
            DistinctId,
            "MATCH (a $p) RETURN DISTINCT id(a)",
            "1.7 NodeConstraint: Invalid node constraint (expected a map literal)",
        ),
        (
            DistinctId,
            "MATCH p = (a) RETURN DISTINCT id(a)",
            "1.7 NamedPath: Named patterns are not supported in standing queries",
        ),
        (
            MultipleValues,
            "MATCH (a) RETURN a",
            "1.18 NodeVariable: Invalid use of node variable `a` (in standing queries, node variables can only reference constant properties or IDs)",
        ),
        (
            MultipleValues,
            "MATCH (a) WHERE (a)-->() RETURN id(a)",
            "1.17 NotPure: Not a pure expression: the filter condition asks the graph",
        ),
        (
            MultipleValues,
            "MATCH (a) WHERE EXISTS { (a)-->() } RETURN id(a)",
            "1.17 NotPure: Not a pure expression: the filter condition asks the graph",
        ),
        (
            MultipleValues,
            "MATCH (a) RETURN [(a)-->(b) | b.x] AS xs",
            "1.18 NotPure: Not a pure expression: a returned column asks the graph",
        ),
        (
            MultipleValues,
            "MATCH p = shortestPath((a)-[:R*]->(b)) RETURN id(a)",
            "1.7 ShortestPath: Shortest paths are not supported in standing queries",
        ),
        (
            MultipleValues,
            "MATCH (a:A|B) RETURN id(a)",
            "1.7 LabelExpression: Label expressions are not supported in standing queries, only labels a node has to have",
        ),
        (
            MultipleValues,
            "MATCH (a)-[:!R]->(b) RETURN id(a)",
            "1.10 EdgeLabel: Edges in standing query patterns must have exactly one label (got :!R)",
        ),
        (
            MultipleValues,
            "MATCH (a)-[:R WHERE a.x = 1]->(b) RETURN id(a)",
            "1.21 Unsupported: WHERE inside an edge is not supported in standing queries",
        ),
        (MultipleValues, "MATCH (a) RETURN $p AS p", "1.18 Parameter: Unknown parameter `p`"),
        (MultipleValues, "MATCH (a) RETURN b.x AS x", "1.18 UndefinedVariable: Variable `b` not defined"),
        (MultipleValues, "MATCH (a) RETURN count(*) AS c", "1.18 InvalidAggregation: Failed to resolve function `count`"),
        (
            DistinctId,
            "MATCH (a) WHERE a.x = RETURN DISTINCT id(a)",
            "1.23 UnexpectedSyntax: Invalid input 'RETURN': expected an expression",
        ),
    ] {
        assert_eq!(compiled(mode, text), format!("{expected}\n"), "{text}");
    }
}

#[test]
fn who_wants_an_aggregate_is_told_of_the_mode_that_takes_it() {
    for mode in [DistinctId, MultipleValues] {
        for query in ["MATCH (n:A) RETURN count(*)", "MATCH (n:A) RETURN max(n.x) AS x"] {
            let refused = compile_standing(query, mode, &Options::default()).expect_err(query);
            let hint = refused[0].hint.as_deref().unwrap_or_default();
            assert!(hint.ends_with("mode AnyQuery takes them"), "{query}: {}", refused[0]);
            assert!(compile_standing(query, AnyQuery, &Options::default()).is_ok(), "{query}");
        }
    }
}

#[test]
fn who_gives_a_parameter_is_told_that_there_are_none() {
    for mode in [DistinctId, MultipleValues, AnyQuery] {
        let refused = compile_standing("MATCH (n) WHERE n.x = $p RETURN DISTINCT id(n)", mode, &Options::default());
        let refused = &refused.expect_err("a parameter")[0];
        assert_eq!((refused.code, refused.hint.as_deref()), (Code::Parameter, Some(NO_PARAMETERS)), "{mode:?}");
    }
}

#[test]
fn a_regular_expression_that_cannot_be_read_is_pointed_at() {
    for mode in [DistinctId, MultipleValues, AnyQuery] {
        let text = "MATCH (a) WHERE a.x =~ '(' RETURN DISTINCT id(a)";
        let refused = &compile_standing(text, mode, &Options::default()).expect_err("no regular expression")[0];
        assert_eq!((refused.code, refused.column, refused.length), (Code::InvalidRegex, 24, 3), "{mode:?}");
    }
}

#[test]
fn a_pattern_of_too_many_relationships_is_refused() {
    let chain = |count: usize| (1..=count).map(|i| format!("-[:R]->(a{i})")).collect::<String>();
    let text = |count| format!("MATCH (a){} RETURN DISTINCT id(a)", chain(count));
    for mode in [DistinctId, AnyQuery] {
        assert!(compile_standing(&text(delta::EDGES_MAX), mode, &Options::default()).is_ok(), "{mode:?}");
        let refused = &compile_standing(&text(300), mode, &Options::default()).expect_err("300")[0];
        let message = "A connected pattern of a standing query has at most 256 relationships: this one has 300";
        assert_eq!((refused.code, refused.message.as_str()), (Code::TooLong, message), "{mode:?}");
        assert!(refused.hint.as_deref().is_some_and(|hint| hint.contains("a MATCH that goes on")), "{mode:?}");
    }
    // What the hint says goes through.
    let parts = format!("MATCH (a){} MATCH (a200){} RETURN a.x AS x", chain(200), chain(100).replace("(a", "(b"));
    assert!(compiled(AnyQuery, &parts).contains("Subquery"));
    assert!(compile_standing("MATCH (a)-[:R*300]->(b) RETURN b.x AS x", AnyQuery, &Options::default()).is_ok());
}

/// What a chain asks for while it is followed is found before it.
#[test]
fn chains_begin_behind_what_they_ask_for() {
    for text in [
        "MATCH (c:C) MATCH p = shortestPath((a:A)-[:R*1..3]->(b:B)) WHERE c.i = length(p) RETURN c.i AS i",
        "MATCH (c:C), p = shortestPath((a:A)-[:R*1..3]->(b:B)) WHERE c.i = length(p) RETURN c.i AS i",
        "UNWIND [1, 2] AS i MATCH p = shortestPath((a:A)-[:R*1..3]->(b:B)) WHERE i = length(p) RETURN i",
        "MATCH (c:C) MATCH (a:A)-[rs:R*1..3]->(b) WHERE all(r IN rs WHERE r.w = c.i) RETURN c.i AS i",
        "MATCH (c:C) MATCH (c)-[:S]->(d), (a:A)-[rs:R*1..3]->(b) WHERE all(r IN rs WHERE r.w = c.i) RETURN c.i AS i",
    ] {
        let plan = compiled(AnyQuery, text);
        assert!(plan.contains("Join") && plan.contains("Subquery") && !plan.contains("scan"), "{text}\n{plan}");
    }
    // No join: the chain is followed from the end that the condition looks at, though the other is the more restricted.
    for text in [
        "MATCH (c) MATCH (c)-[:S*1..2]->(d), (d)-[rs:R*1..3]->(b:B {x: 1}) WHERE all(r IN rs WHERE r.w = c.i) RETURN c.i AS i",
        "MATCH (c)-[e:S]->(d) MATCH (d)-[rs:R*1..3]->(b:B {x: 1}) WHERE all(r IN rs WHERE r.w = e.w) RETURN c.i AS i",
    ] {
        let plan = compiled(AnyQuery, text);
        assert!(plan.contains("bound") && !plan.contains("Join") && !plan.contains("scan"), "{text}\n{plan}");
    }
}

/// A side that ends at once is met at once, and sides are changed seldom.
#[test]
fn all_sides_of_a_long_pattern_take_turns() {
    let hops = 30;
    let chain: String = (1..=hops).map(|i| format!("-[:R]->(a{i})")).collect();
    let plan = compiled(DistinctId, &format!("MATCH (a){chain} RETURN DISTINCT id(a)"));
    let mut paths = 0;
    for line in plan.lines() {
        let Some((begun, steps)) = line.trim().strip_prefix("delta of edge ").and_then(|path| path.split_once(": ")) else {
            continue;
        };
        let begun: usize = begun.parse().expect("the number of an edge");
        let edge = |step: &str| step.strip_prefix("expand edge ")?.split(' ').next()?.parse().ok();
        let crossed: Vec<usize> = steps.split("; ").filter_map(edge).collect();
        assert_eq!(crossed.len(), hops - 1, "{line}");
        for (before, edge) in crossed.iter().enumerate() {
            assert!(before < 3 * edge.abs_diff(begun), "edge {edge} after {before} others: {line}");
        }
        let turns = crossed.windows(2).filter(|pair| (pair[0] < begun) != (pair[1] < begun)).count();
        assert!(turns <= 10, "{turns} turns: {line}");
        paths += 1;
    }
    assert_eq!(paths, hops, "{plan}");
}

/// What of a plan in mode AnyQuery is found by delta joins, and what is asked row by row.
#[test]
fn any_query_is_taken_apart() {
    for (text, has, has_not) in [
        (
            "MATCH (a:A)-[e:R]->(b) WHERE e.w > 1 RETURN b.x AS x, count(*) AS c",
            vec!["Aggregate", "delta of node 0", "delta of edge 0", "read"],
            vec!["Subquery", "Join"],
        ),
        // A condition on the second node compares it with one of the clause before: in the part of the second alone it has no
        // value.
        (
            "MATCH (a) MATCH (a), (b) WHERE a.k < b.k RETURN id(a) AS a",
            vec!["Filter (#", "Join", "delta of node 0"],
            vec!["where"],
        ),
        ("MATCH (a)-[:R]->(b)-[:R]->(c)-[:R]->(a) RETURN id(a) AS a", vec!["distinct edges: 0-1, 0-2, 1-2"], vec!["Subquery"]),
        ("MATCH (a)-[:R]->(b) MATCH (b)-[:S]->(c) RETURN id(c) AS c", vec!["delta of edge 1"], vec!["Subquery", "Join"]),
        ("MATCH (a:A), (b:B) WHERE a.x = b.x RETURN id(a) AS a", vec!["Join on", "delta of node 0"], vec!["Subquery", "Filter"]),
        ("MATCH (a:A)-[:R*1..3]->(b) RETURN id(b) AS b", vec!["Subquery", "Argument", "delta of node 0"], vec!["Scan"]),
        ("MATCH (a:A) WHERE EXISTS { (a)-->(:B) } RETURN id(a) AS a", vec!["Subquery", "delta of node 0"], vec![]),
        ("MATCH (a) RETURN a", vec!["\nSubquery\n"], vec![]),
        // A map that is made of another holds the nodes of that one, which are shown in full and asked for what they have.
        ("MATCH (a)-[:R]->(b) WITH {who: a, to: b} AS m RETURN m {.*, n: 1} AS k", vec!["\nSubquery\n"], vec![]),
        ("MATCH (a) WITH {who: a} AS m WITH properties(m) AS k RETURN k.who.name AS name", vec!["\nSubquery\n"], vec![]),
        ("MATCH (a:A) WITH a {.*} AS m, properties(a) AS p RETURN m.x AS x, p.y AS y", vec!["= .*"], vec!["Subquery"]),
        // WHERE takes a list, which AND does not.
        (
            "MATCH (n:A) WHERE labels(n) AND keys(n) RETURN id(n) AS id",
            vec!["Subquery", "holds(labels(", "AND holds(keys("],
            vec!["Filter labels"],
        ),
        // What is asked behind a WITH is a condition of the pattern, or joins two of them.
        ("MATCH (a:A) WITH DISTINCT a WHERE a.x = 5 RETURN id(a) AS a", vec!["Distinct", " = 5)"], vec!["Filter"]),
        (
            "MATCH (a:A) MATCH (b:B) WITH a, b WHERE a.x = b.x AND id(b) = idFrom('b') RETURN id(a) AS a",
            vec!["Join on", " IN ["],
            vec!["Filter", "nodeWithId"],
        ),
        // What nothing below the rows can copy is asked for each of them, and not for each pair.
        (
            "MATCH (a:A)-[:R]->() WITH a, count(*) AS c MATCH (b:B {iban: a.iban}) RETURN id(a) AS a, c",
            vec!["Join on", "Subquery", "Aggregate"],
            vec!["Filter"],
        ),
        (
            "MATCH (a:A) WITH DISTINCT a MATCH (b:B) WHERE b.x = a.x RETURN id(a) AS a",
            vec!["Join on", "Distinct"],
            vec!["Filter"],
        ),
        (
            "MATCH (a:A) WITH a ORDER BY a.t LIMIT 9 MATCH (b:B) WHERE a.x = b.x RETURN id(a) AS a",
            vec!["Join on", "Limit"],
            vec!["Filter"],
        ),
        (
            "CALL { MATCH (a:A) RETURN a UNION MATCH (a:C) RETURN a } MATCH (b:B) WHERE b.x = a.x RETURN id(b) AS b",
            vec!["Join on", "Union"],
            vec!["Filter"],
        ),
        ("MATCH (a:A), (b:B) WHERE labels(a) = labels(b) RETURN id(a) AS a", vec!["Join on", "Subquery"], vec!["Filter"]),
        (
            "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-->(m) RETURN m.x AS x } RETURN id(a) AS a, x",
            vec!["Subquery", "Optional, else null", "delta of node 0"],
            vec!["Scan"],
        ),
        ("MATCH (a:A) OPTIONAL CALL getFilteredEdges(a, [], [], []) YIELD edge RETURN edge", vec!["Optional, else null"], vec![]),
        // OPTIONAL MATCH is maintained, with what its nodes are bound by.
        (
            "MATCH (h:Hub) WHERE h.x = 1 OPTIONAL MATCH (h)<-[:E]-(m) WHERE h.y = 2 RETURN id(h), count(m.z)",
            vec!["Optional join on #0, else null: #1, #6", "delta of edge 0"],
            vec!["Subquery", "Distinct"],
        ),
        (
            "MATCH (h) WHERE id(h) = idFrom('hub') OPTIONAL MATCH (h)<-[:E]-(m) RETURN count(m) AS c",
            vec!["Optional join on #0, else null: #1", "delta of edge 0"],
            vec!["Distinct"],
        ),
        (
            "MATCH (a:A)-[:X]->(h) OPTIONAL MATCH (h)<-[:E]-(m) WHERE m.x > a.y RETURN id(h), count(m) AS c",
            vec!["Optional join on #1, #0, else null: #2", "Distinct"],
            vec!["Subquery"],
        ),
        (
            "MATCH (h:Hub) OPTIONAL MATCH (h)<-[:E]-(m) WITH h, count(m) AS c OPTIONAL MATCH (h)-[:F]->(x) WHERE x.n = c RETURN id(h), x.n AS n",
            vec!["Optional join on #0, #2 = #", "Optional join on #0, else null: #1"],
            vec!["Subquery"],
        ),
        (
            "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE b.x = a.x RETURN id(a) AS a, id(b) AS b",
            vec!["Optional join on "],
            vec!["Subquery", "Filter"],
        ),
        // What leaves rows out may leave few; and a join tests nothing but what is equal.
        (
            "MATCH (a:A) WITH a ORDER BY a.t LIMIT 9 OPTIONAL MATCH (a)-->(b) RETURN id(b) AS b",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
        (
            "MATCH (a:A)-->(b) WITH a, count(b) AS c WHERE c > 9 OPTIONAL MATCH (a)-->(d) RETURN id(d) AS d",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
        (
            "MATCH (a:A) WITH a, a.x AS x OPTIONAL MATCH (a)-->(b) WHERE b.x > x RETURN id(b) AS b",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
        (
            "MATCH (a:A) OPTIONAL MATCH (a)-[:E*1..3]->(b) RETURN id(b) AS b",
            vec!["Optional, else null: #"],
            vec!["Optional join"],
        ),
        // Of each group it would be found once more for each of its rows.
        (
            "MATCH (u)-[:IN]->(g:Group) WITH g, count(u) AS n OPTIONAL MATCH (g)<-[:OWNS]-(o) RETURN n, count(o) AS o",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
        // What the rows' side is may have no value, and then the row would be gone.
        (
            "MATCH (h:Hub) UNWIND [0, 1] AS c OPTIONAL MATCH (h)-->(b) WHERE b.n = h.y + 10 / (c * COUNT { (:X)-->() }) RETURN b.x AS x",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
        (
            "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE b.z = 10 / COUNT { (a)-->() } RETURN b.x AS x",
            vec!["Subquery", "Optional, else null: #"],
            vec!["Optional join"],
        ),
    ] {
        let plan = compiled(AnyQuery, text);
        for part in has {
            assert!(plan.contains(part), "{text} has no {part}\n{plan}");
        }
        for part in has_not {
            assert!(!plan.contains(part), "{text} has {part}\n{plan}");
        }
    }
}

/// `collect`, SKIP and LIMIT go by the order of an ORDER BY before them, which is carried up over what stands between.
#[test]
fn an_order_is_carried_up() {
    for (text, expected) in [
        (
            "MATCH (a:A) WITH a ORDER BY a.t DESC MATCH (b:B) RETURN b.k AS k, collect(a.x) AS xs",
            vec!["Aggregate", "Sort", "Join", "Sort"],
        ),
        (
            "MATCH (a:A) WITH a ORDER BY a.t MATCH (b:B) WHERE b.x = a.x RETURN b.k AS k, collect(id(a)) AS ids",
            vec!["Aggregate", "Sort", "Join", "Sort"],
        ),
        // Each `b` has them in this order.
        (
            "MATCH (b:B) CALL { MATCH (a:A) RETURN a ORDER BY a.t } RETURN b.k AS k, collect(id(a)) AS ids",
            vec!["Aggregate", "Sort", "Join", "Sort"],
        ),
        ("MATCH (n) WITH n ORDER BY n.x RETURN collect(id(n)) AS ids", vec!["Aggregate", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x DESC RETURN n.y AS y LIMIT 3", vec!["Limit", "Sort", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x LIMIT 5 RETURN id(n) AS n SKIP 2", vec!["Skip", "Sort", "Limit", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x SKIP 1 RETURN id(n) AS n SKIP 2 LIMIT 3", vec!["Limit", "Skip", "Sort", "Skip", "Sort"]),
        (
            "MATCH (n) WITH n ORDER BY n.x WITH n, n.z AS z LIMIT 3 MATCH (n)-->(m) RETURN z, id(m) AS m",
            vec!["Limit", "Sort", "Sort"],
        ),
        ("MATCH (n) WITH n ORDER BY n.x OPTIONAL MATCH (n)-->(m) RETURN id(m) AS m LIMIT 3", vec!["Limit", "Sort", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x UNWIND n.l AS v RETURN v LIMIT 3", vec!["Limit", "Sort", "Sort"]),
        ("CALL { MATCH (n:A) RETURN n ORDER BY n.x DESC } RETURN id(n) AS n LIMIT 2", vec!["Limit", "Sort", "Sort"]),
        ("MATCH (b:B) CALL { MATCH (a:A) RETURN a ORDER BY a.t } RETURN a.x AS x LIMIT 2", vec!["Limit", "Sort", "Join", "Sort"]),
        (
            "MATCH (a:A) CALL { WITH a MATCH (a)-->(b) RETURN b ORDER BY b.x DESC } RETURN id(b) AS b LIMIT 2",
            vec!["Limit", "Sort", "Sort"],
        ),
        (
            "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-->(b) RETURN b ORDER BY b.x DESC } RETURN id(b) AS b LIMIT 2",
            vec!["Limit", "Sort", "Sort"],
        ),
        // The order that stands right below is the only one.
        ("MATCH (n) RETURN n.x AS x ORDER BY x SKIP 1 LIMIT 3", vec!["Limit", "Skip", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x RETURN n.y AS y ORDER BY y LIMIT 3", vec!["Limit", "Sort", "Sort"]),
        // What is made of many rows has no order.
        ("MATCH (n) WITH n ORDER BY n.x RETURN DISTINCT n.y AS y LIMIT 3", vec!["Limit", "Distinct", "Sort"]),
        ("MATCH (n) WITH n ORDER BY n.x RETURN n.y AS y, count(*) AS c LIMIT 3", vec!["Limit", "Aggregate", "Sort"]),
        ("MATCH (n) RETURN n.x AS x LIMIT 3", vec!["Limit"]),
    ] {
        let plan = compiled(AnyQuery, text);
        let words = plan.lines().filter_map(|line| line.split_whitespace().next());
        let counted = ["Aggregate", "Distinct", "Limit", "Skip", "Sort", "Join"];
        let found: Vec<&str> = words.filter(|word| counted.contains(word)).collect();
        assert_eq!(found, expected, "{text}\n{plan}");
    }
}

/// The keys of an order go with the rows in slots of their own, whatever the clauses between leave of what they are made of. What
/// is made for each of some rows without an order comes together.
#[test]
fn a_carried_order_has_slots_of_its_own() {
    for (text, before) in [
        ("CALL { MATCH (n:A) RETURN n.y AS y ORDER BY n.x DESC } RETURN y + 1 AS more LIMIT 2", ""),
        ("MATCH (b:B) CALL { MATCH (n:A) RETURN n.y AS y ORDER BY n.x DESC } RETURN y + 1 AS more LIMIT 2", "#0, "),
    ] {
        let plan = compiled(AnyQuery, text);
        let sorts: Vec<&str> = plan.lines().filter_map(|line| line.trim_start().strip_prefix("Sort ")).collect();
        let [above, below] = sorts.as_slice() else { panic!("{text}\n{plan}") };
        assert_eq!(*above, format!("{before}{below}"), "{text}\n{plan}");
        let slot = below.trim_end_matches(" DESC");
        assert!(slot.starts_with('#') && plan.contains(&format!("Project {slot} = ")), "{text}\n{plan}");
    }
    // Among equal ones as well.
    let text = "MATCH (b:B) WITH b ORDER BY b.x CALL { MATCH (n:A) RETURN n ORDER BY n.x DESC } RETURN id(n) AS n LIMIT 2";
    let plan = compiled(AnyQuery, text);
    let sorts: Vec<&str> = plan.lines().filter_map(|line| line.trim_start().strip_prefix("Sort ")).collect();
    let [above, inner, outer] = sorts.as_slice() else { panic!("{plan}") };
    assert_eq!(*above, format!("{outer}, #0, {inner}"), "{plan}");
    // What the row has already stays, where nothing is found for it.
    let found = "MATCH (a)-->(b) CALL { WITH b MATCH (b)-->(c) RETURN c ORDER BY c.x } RETURN c";
    let plan = compiled(AnyQuery, &format!("MATCH (a:A) OPTIONAL CALL (a) {{ {found} }} RETURN id(a) AS a, id(c) AS c LIMIT 4"));
    let nulls = plan.lines().find_map(|line| line.trim_start().strip_prefix("Optional, else null: "));
    assert!(nulls.is_some_and(|nulls| nulls.starts_with('#') && nulls != "#0" && !nulls.contains(',')), "{plan}");
}

/// The text of an id is none to `=`. A condition that is tested where it would be an anchor elsewhere takes it all the same.
#[test]
fn what_names_a_node_is_written_out() {
    for (text, has) in [
        ("MATCH (a:A)-[:R]->(b:B) WHERE id(b) = a.ref RETURN id(b) AS b", " = nodeWithId(#"),
        (
            "MATCH (n)-[:R]->(m) WHERE strId(n) = '27DD96D6-75be-30f8-8d97-71b670468f39' RETURN m.x AS x",
            "(#0 = #27dd96d6-75be-30f8-8d97-71b670468f39)",
        ),
        ("MATCH (n)-[:R]->(m) WHERE id(n) = 'no id' RETURN m.x AS x", "(#0 = nodeWithId(\"no id\"))"),
        ("MATCH (n)-[:R]->(m) WHERE id(n) = idFrom('x', m.x) RETURN m.x AS x", "(id(#0) = idFrom("),
        // Still an anchor.
        ("MATCH (n) WHERE id(n) = '27dd96d6-75be-30f8-8d97-71b670468f39' RETURN n.x AS x", "steps: seek 0 by #27dd96d6"),
        // None to the pattern that it stands in.
        ("MATCH (a)-[:R]->(x) MATCH (x), (b:B) WHERE id(a) = b.ref RETURN id(b) AS b", "Join on"),
    ] {
        let plan = compiled(AnyQuery, text);
        assert!(plan.contains(has), "{text} has no {has}\n{plan}");
    }
}

/// A name that a list gives to its elements hides a node, there and no further.
#[test]
fn elements_of_a_list_may_be_called_like_a_node() {
    let compile = |returned: &str| {
        let text = format!("MATCH (n:A)-[:R]->(m) RETURN {returned} AS l");
        compile_standing(&text, MultipleValues, &Options::default()).map_err(|problems| problems[0].code)
    };
    for returned in [
        "[n IN n.xs | n * 2]",
        "[n IN n.xs WHERE n > m.x | [m IN m.xs | m + n]]",
        "all(m IN n.xs WHERE m > 1)",
        "reduce(m = m.x, n IN n.xs | m + n)",
    ] {
        assert!(compile(returned).is_ok(), "{returned}");
    }
    for returned in
        ["[x IN n.xs | n]", "[n IN [n] | 1]", "any(n IN [m] WHERE true)", "reduce(n = n, x IN m.xs | x)", "[[n IN n.xs | n], n]"]
    {
        assert_eq!(compile(returned).err(), Some(Code::NodeVariable), "{returned}");
    }
}

#[test]
fn what_any_query_cannot_maintain_is_refused_with_its_place() {
    macro_rules! by_itself {
        ($name:literal) => {
            concat!("A standing query's results follow from the graph: `", $name, "()` does not, and cannot stand in them")
        };
    }
    for (text, place, code, message) in [
        (
            "MATCH (n) RETURN EXISTS { (n)-->(m) WHERE m.x =~ '(' } AS x",
            "1.50",
            "InvalidRegex",
            "`(` is not a regular expression weir can run: a group is not closed",
        ),
        (
            "MATCH (n) SET n.x = 1 RETURN n",
            "1.11",
            "NotMaintainable",
            "A standing query's results follow from the graph: SET changes it, and cannot stand there",
        ),
        (
            "CALL { CREATE (n) } RETURN 1 AS x",
            "1.8",
            "NotMaintainable",
            "A standing query's results follow from the graph: CREATE changes it, and cannot stand there",
        ),
        (
            "CALL recentNodes(5) YIELD node RETURN node",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: procedure `recentNodes` does more than look at the graph, and cannot stand in it",
        ),
        (
            "MATCH (n) CALL util.sleep(1) RETURN n.x AS x",
            "1.11",
            "NotMaintainable",
            "A standing query's results follow from the graph: procedure `util.sleep` keeps all others waiting, and cannot stand in it",
        ),
        (
            "MATCH (n) CALL history.nodeChanges(n) YIELD kind RETURN kind",
            "1.11",
            "NotMaintainable",
            "A standing query's results follow from the graph: procedure `history.nodeChanges` tells of the past, and cannot stand in it",
        ),
        (
            "MATCH (n) OPTIONAL CALL (n) { SET n.x = 1 RETURN 1 AS one } RETURN one",
            "1.31",
            "NotMaintainable",
            "A standing query's results follow from the graph: SET changes it, and cannot stand there",
        ),
        (
            "MATCH (n) RETURN EXISTS { CALL debug.node(n) YIELD journal WHERE size(journal) > 1 RETURN 1 AS one } AS e",
            "1.27",
            "NotMaintainable",
            "A standing query's results follow from the graph: procedure `debug.node` tells of the past as well, and cannot stand in it",
        ),
        (
            "SHOW INDEXES",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: SHOW INDEXES tells of indexes, which are no facts of it, and cannot stand in it",
        ),
        (
            "SHOW EXPIRIES",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: SHOW EXPIRIES tells of rules, which are no facts of it, and cannot stand in it",
        ),
        (
            "SHOW INDEXES YIELD name RETURN name",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: SHOW INDEXES tells of indexes, which are no facts of it, and cannot stand in it",
        ),
        (
            "DROP INDEX people",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: a command that makes or drops an index or a rule has none, and cannot stand there",
        ),
        (
            "SHOW QUERIES",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: SHOW QUERIES tells of queries that run, and cannot stand in it",
        ),
        (
            "TERMINATE QUERY \"1\"",
            "1.1",
            "NotMaintainable",
            "A standing query's results follow from the graph: TERMINATE QUERY ends queries that run, and cannot stand in it",
        ),
        ("MATCH (n) RETURN timestamp() - n.at AS age", "1.18", "NotMaintainable", by_itself!("timestamp")),
        // What turns more than once, or cannot be foreseen.
        ("MATCH (n) WHERE n.at = timestamp() RETURN n", "1.24", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE timestamp() % 60000 < n.x RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE datetime() - duration('P1M') > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("datetime")),
        ("MATCH (n) WHERE datetime().hour > 8 RETURN n", "1.17", "NotMaintainable", by_itself!("datetime")),
        ("MATCH (n) WHERE timestamp() < n.x + rand() RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE datetime.realtime() > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("datetime.realtime")),
        // What `+` joins to text or to a list.
        ("MATCH (n) WHERE timestamp() + 's' > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE n.at < toString(n.x) + timestamp() RETURN n", "1.40", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE timestamp() + (n.x + 's') > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE timestamp() - 5 + [n.x] > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE timestamp() + keys(n) > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("timestamp")),
        ("MATCH (n) WHERE datetime() + 's' > n.at RETURN n", "1.17", "NotMaintainable", by_itself!("datetime")),
        (
            "MATCH (n) WHERE timestamp() + CASE WHEN n.x = 1 THEN 's' ELSE 5 END > n.at RETURN n",
            "1.17",
            "NotMaintainable",
            by_itself!("timestamp"),
        ),
        ("RETURN [rand()] AS r", "1.9", "NotMaintainable", by_itself!("rand")),
        ("MATCH (n) RETURN randomUUID() AS u", "1.18", "NotMaintainable", by_itself!("randomUUID")),
        (
            "MATCH (n) WHERE n.at < datetime.truncate('second', datetime(), {year: n.x}) RETURN n",
            "1.52",
            "NotMaintainable",
            by_itself!("datetime"),
        ),
        ("MATCH (n) RETURN datetime.truncate('second') AS t", "1.18", "NotMaintainable", by_itself!("datetime.truncate")),
        ("MATCH (n) RETURN datetime({timezone: n.zone}) AS d", "1.18", "NotMaintainable", by_itself!("datetime")),
        ("MATCH (n) RETURN time({hour: n.hour, timezone: 'Europe/Paris'}) AS t", "1.18", "NotMaintainable", by_itself!("time")),
        (
            "MATCH (n) WHERE n.a = time({hour: 1}) AND n.t < time({hour: 12, timezone: 'Europe/Paris'}) RETURN n",
            "1.49",
            "NotMaintainable",
            by_itself!("time"),
        ),
        ("MATCH (n) WITH date('2020-01-01') AS d, date() AS e RETURN d, e", "1.41", "NotMaintainable", by_itself!("date")),
        ("MATCH (n) WHERE EXISTS { MATCH (n)-->(m) WHERE m.x > rand() } RETURN n", "1.54", "NotMaintainable", by_itself!("rand")),
        ("RETURN $p AS p", "1.8", "Parameter", "Unknown parameter `p`"),
    ] {
        assert_eq!(compiled(AnyQuery, text), format!("{place} {code}: {message}\n"), "{text}");
    }
}

/// A call like the one that is refused may stand elsewhere, where it is understood.
#[test]
fn of_several_calls_the_one_that_is_refused_is_shown() {
    for (text, place) in [
        ("MATCH (n) WHERE timestamp() - n.at > 5 RETURN timestamp() AS now", "1.47"),
        ("MATCH (n) WHERE n.at < timestamp() AND n.at = timestamp() RETURN n", "1.47"),
        ("MATCH (n) WHERE n.at = timestamp() AND n.at < timestamp() RETURN n", "1.24"),
        ("WITH 'datetime()' AS x MATCH (n) WHERE n.at < datetime() RETURN datetime().hour AS x", "1.65"),
        ("MATCH (n) WHERE EXISTS { (n)-->(m) WHERE m.at < date() } RETURN date() /* date() */ AS d", "1.65"),
        ("RETURN datetime({epochMillis: 1}) AS a, datetime(datetime({timezone: 'Asia/Tokyo'})) AS b", "1.50"),
        (
            "MATCH (n) WHERE timestamp() > n.a AND timestamp() > n.b AND timestamp() > n.c RETURN [timestamp(), timestamp()] AS t",
            "1.87",
        ),
    ] {
        let refused = compiled(AnyQuery, text);
        assert!(refused.starts_with(&format!("{place} NotMaintainable: ")), "{text}\n{refused}");
    }
}

/// A new procedure is refused until its rows are said to follow from the graph.
#[test]
fn of_all_procedures_those_that_follow_from_the_graph_are_taken() {
    let mut taken = Vec::new();
    for procedure in crate::procedures::documented() {
        match compile_standing(&procedure.example, AnyQuery, &Options::default()) {
            Ok(_) => taken.push(procedure.name.to_string()),
            Err(refused) => assert_eq!(refused[0].code, Code::NotMaintainable, "{}: {}", procedure.name, refused[0]),
        }
    }
    let follow = ["db.propertyKeys", "db.relationshipTypes", "dbms.labels", "getFilteredEdges", "subscribers", "subscriptions"];
    assert_eq!(taken, follow);
}

#[test]
fn conditions_that_time_turns_once_are_maintained_above_the_pattern() {
    for condition in [
        "n.at < timestamp()",
        "timestamp() - n.at > 60000",
        "n.at + 5 >= timestamp() / 1000",
        "-timestamp() < n.at",
        "n.at > datetime() - duration('PT5M')",
        "datetime().epochMillis > n.at",
        "n.day < date()",
        "date(datetime()) > n.day",
        "datetime.truncate('minute', datetime()) - duration('PT1H') > n.at",
        "n.at < datetime.truncate('second')",
        "NOT n.at < timestamp() OR n.x = 1",
        // Whether it is a number is seen when it is there.
        "timestamp() + n.grace > n.at",
        "n.at < abs(n.grace) + timestamp()",
    ] {
        let plan = compiled(AnyQuery, &format!("MATCH (n) WHERE {condition} RETURN n.x AS x"));
        assert!(plan.contains("Filter"), "{condition}\n{plan}");
    }
}

/// A plan without the numbers of its slots.
fn unnumbered(text: &str) -> String {
    let mut is_number = false;
    let keep = |c: &char| {
        is_number = *c == '#' || is_number && c.is_ascii_digit();
        !is_number || *c == '#'
    };
    compiled(AnyQuery, text).chars().filter(keep).collect()
}

#[test]
fn a_name_for_the_current_time_is_the_time_where_it_is_compared() {
    for (named, written) in [
        (
            "MATCH (h:H) WITH h, timestamp() - h.seen AS age WHERE age > 1500 RETURN h.name AS name",
            "MATCH (h:H) WITH h WHERE timestamp() - h.seen > 1500 RETURN h.name AS name",
        ),
        (
            "WITH timestamp() AS now MATCH (n:N) WHERE n.x = 1 OR n.t < now - 1000 RETURN n.x AS x",
            "MATCH (n:N) WHERE n.x = 1 OR n.t < timestamp() - 1000 RETURN n.x AS x",
        ),
        (
            "MATCH (n:N) WITH n, datetime() AS now WITH n, now - duration('PT5M') AS since WHERE n.t > since RETURN n.x AS x",
            "MATCH (n:N) WITH n WHERE n.t > datetime() - duration('PT5M') RETURN n.x AS x",
        ),
        (
            "MATCH (h:H) WITH h, timestamp() - h.seen AS age MATCH (h)-[:R]->(b) WHERE age > b.limit RETURN b.x AS x",
            "MATCH (h:H) MATCH (h)-[:R]->(b) WHERE timestamp() - h.seen > b.limit RETURN b.x AS x",
        ),
        (
            "WITH datetime() AS now MATCH (n:N) WHERE EXISTS { (n)-->(b) WHERE b.t > now } RETURN n.x AS x",
            "MATCH (n:N) WHERE EXISTS { (n)-->(b) WHERE b.t > datetime() } RETURN n.x AS x",
        ),
        (
            "MATCH (h:H) WITH h, timestamp() - h.seen AS age RETURN h.name AS name, age > 60000 AS late",
            "MATCH (h:H) RETURN h.name AS name, timestamp() - h.seen > 60000 AS late",
        ),
    ] {
        let plan = unnumbered(named);
        assert!(plan.contains("timestamp()") || plan.contains("datetime()"), "{named}\n{plan}");
        assert_eq!(plan, unnumbered(written), "{named}");
    }
}

/// Of what may have no value the row is left out: it must be asked for each.
#[test]
fn who_uses_the_current_time_otherwise_is_told_what_to_write() {
    for (text, part) in [
        ("MATCH (n) WHERE n.t = timestamp() RETURN n", "without months and years"),
        ("MATCH (n) WHERE n.t < datetime() - duration('P1M') RETURN n", "`n.at + duration('P1M') < datetime()`"),
        ("MATCH (n) WHERE duration.inSeconds(n.t, datetime()).seconds > 1 RETURN n", "compare the instants"),
        ("MATCH (n) WITH n, timestamp() - n.t AS age WHERE age > 5 RETURN age", "another one at each moment"),
        ("WITH timestamp() AS now MATCH (n) WHERE n.t < now RETURN now - n.t AS age", "another one at each moment"),
        ("MATCH (n) RETURN date() AS day, count(*) AS c", "another one at each moment"),
        ("MATCH (n) WHERE n.t < time({hour: 12, timezone: 'Europe/Paris'}) RETURN n", "name the offset"),
        ("MATCH (n) RETURN time({timezone: 'Europe/Paris'}) AS t", "another one at each moment"),
        ("MATCH (n) WITH n, timestamp() - n.t AS age WHERE n.x = 1 OR age > 5 RETURN n", "write the time into the comparison"),
        (
            "MATCH (n) WITH n, timestamp() - n.t AS age WITH n, age, age > 5 AS late WHERE n.x = 1 OR age > 60 RETURN n.x AS x",
            "write the time into the comparison",
        ),
        ("MATCH (n) WITH n, timestamp() - n.t AS age LIMIT 5 WHERE age > 5 RETURN n", "write the time into the comparison"),
        ("MATCH (n) WITH DISTINCT n, timestamp() - n.t AS age WHERE age > 5 RETURN n", "write the time into the comparison"),
        ("MATCH (n) WITH n, timestamp() - n.t AS age ORDER BY age WHERE age > 5 RETURN n", "write the time into the comparison"),
        ("MATCH (n) WITH max(timestamp() - n.t) AS age WHERE age > 5 RETURN 1 AS one", "write the time into the comparison"),
        ("WITH timestamp() AS now MATCH (n) WITH now, count(n) AS c WHERE c > 5 RETURN c", "write the time into the comparison"),
        (
            "MATCH (n) RETURN COUNT { WITH timestamp() AS now MATCH (n)-->(m) WITH DISTINCT now RETURN now } AS c",
            "another one at each moment",
        ),
    ] {
        let refused = &compile_standing(text, AnyQuery, &Options::default()).expect_err(text)[0];
        let hint = refused.hint.as_deref().unwrap_or_default();
        assert!(refused.code == Code::NotMaintainable && hint.contains(part), "{text}: {refused}, {hint}");
    }
}

#[test]
fn times_whose_offset_is_told_are_maintained() {
    for time in [
        "time({hour: 12, timezone: '+01:00'})",
        "time({hour: n.hour, timezone: 'UTC'})",
        "time({hour: 12, timezone: n.zone})",
        "time({hour: 12, timezone: 'Europe/Paris', offsetSeconds: 3600})",
        "time({time: n.at, timezone: 'Europe/Paris'})",
        "time(datetime({year: 2024, month: 7, hour: 12, timezone: 'Europe/Paris'}))",
    ] {
        for mode in [AnyQuery, MultipleValues] {
            let taken = compile_standing(&format!("MATCH (n:N) RETURN n.x AS x, {time} AS t"), mode, &Options::default());
            assert!(taken.is_ok(), "{time}: {taken:?}");
        }
    }
    let refused = "MATCH (n:N) RETURN n.x AS x, time({hour: n.hour, timezone: 'Europe/Paris'}) AS t";
    for mode in [AnyQuery, MultipleValues] {
        let refused = &compile_standing(refused, mode, &Options::default()).expect_err("it has the offset of now")[0];
        let hint = refused.hint.as_deref().unwrap_or_default();
        assert!(refused.code == Code::NotMaintainable && hint.contains("name the offset"), "{refused}, {hint}");
    }
}

/// Found by making a differing query smaller: constants are folded before the errors of the binder are looked at.
#[test]
fn a_call_without_its_arguments_is_an_error() {
    let found = compiled(MultipleValues, "MATCH (n) WHERE id() = strId() RETURN id(n)");
    assert!(found.contains("InvalidNumberOfArguments"), "{found}");
}
