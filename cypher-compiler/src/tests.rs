//! The compiler as a whole: text in, plan text or diagnostics out.

use std::path::Path;

use super::*;

fn options() -> Options {
    Options { parameters: vec![Text::new("that")], ..Options::default() }
}

/// The printed plan, or the errors one a line.
fn compiled(text: &str) -> String {
    match compile(text, &options()) {
        Ok(plan) => explain_plan(&plan),
        Err(errors) => errors.iter().map(|e| format!("{}.{} {}: {}\n", e.line, e.column, e.code, e.message)).collect(),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let lines: Vec<&str> = expected.trim_start_matches('\n').trim_end().lines().collect();
    let indent = lines.first().map_or(0, |line| line.len() - line.trim_start().len());
    let expected: String = lines.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
    assert_eq!(compiled(text), expected, "{text}");
}

#[track_caller]
fn check_facts(text: &str, expected: &str) {
    let plan = compiled(text);
    assert_eq!(plan.lines().next(), Some(format!("Facts {expected}").as_str()), "{text}\n{plan}");
}

#[track_caller]
fn check_steps(text: &str, expected: &str) {
    let plan = compiled(text);
    let steps: Vec<&str> = plan.lines().filter_map(|line| line.trim_start().strip_prefix("steps: ")).collect();
    assert_eq!(steps.join(" / "), expected, "{text}\n{plan}");
}

const INGEST: &str = "MATCH (n),(p) WHERE id(n)=idFrom('process',$that.process_id) AND id(p)=idFrom('process',$that.parent_id) \
                      SET n = $that, n:Process CREATE (n)-[:parent]->(p)";

#[test]
fn ingest_reads_nothing() {
    check(
        INGEST,
        "
        Facts writes
        Write
          create edge #0-[:parent]->#1
          Write
            set #0 = $that
            add #0:Process
            Match
              node 0: #0
              node 1: #1
              steps: seek 0 by idFrom(\"process\", $that.process_id); seek 1 by idFrom(\"process\", $that.parent_id)
              Unit
        ",
    );
    let plan = compile(INGEST, &options()).expect("compiles");
    assert_eq!(plan.parameters, vec![Text::new("that")]);
    assert_eq!(plan.width, 2);
}

#[test]
fn facts() {
    check_facts("RETURN 1", "none");
    check_facts("RETURN rand() AS x", "impure");
    check_facts("WITH $that AS row MATCH (n) WHERE id(n) = idFrom('o', row.id) SET n = row, n:Order", "writes");
    check_facts("UNWIND $that.list AS x MATCH (n) WHERE id(n) = x.id SET n.x = x.y", "writes");
    check_facts("MATCH (n) WHERE id(n) = 1 SET n.x = n.y", "reads writes");
    check_facts("MATCH (n) WHERE id(n) = 1 AND n.x = 2 SET n.y = 1", "reads writes");
    check_facts("MATCH (n:L) WHERE id(n) = 1 SET n.y = 1", "reads writes");
    check_facts("MATCH (n), (m) WHERE id(n) = 1 AND id(m) = 2 SET n = m", "reads writes");
    check_facts("MATCH (n) WHERE id(n) = 1 RETURN n", "reads");
    check_facts("MATCH (n) WHERE id(n) = 1 RETURN id(n) AS id", "none");
    check_facts("MATCH (n) WHERE id(n) = 1 DETACH DELETE n", "reads writes");
    check_facts("MATCH (n) RETURN count(*)", "reads scans");
    check_facts("MERGE (n {k: 1})", "reads writes scans impure");
    check_facts("CREATE (n {k: $that.k})", "writes impure");
    check_facts("FOREACH (x IN $that.list | CREATE (n {k: x.k}))", "writes impure");
    check_facts("MATCH (n) WHERE id(n) = 1 WITH [n] AS l RETURN l[0].x AS x", "reads");
    check_facts("RETURN 1 AS a UNION RETURN 2 AS a", "none");
}

#[test]
fn anchors() {
    check_steps("MATCH (n) WHERE id(n) = 5 RETURN n", "seek 0 by 5");
    check_steps("MATCH (n) WHERE 5 = strId(n) RETURN n", "seek 0 by 5");
    check_steps("MATCH (n) WHERE n.x = 1 AND id(n) IN [$p] RETURN n", "seek 0 by $p");
    check_steps("MATCH (n) WHERE NOT id(n) = 1 RETURN n", "scan 0");
    check_steps("MATCH (n) WHERE id(n) = id(n) RETURN n", "scan 0");
    check_steps("MATCH (n), (m) WHERE id(n) = m.foo AND id(m) = 5 RETURN n", "seek 1 by 5; seek 0 by #1.foo");
    check_steps(
        "MATCH (n) WHERE id(n) = 1 MATCH (n)-[:R]->(m) WHERE id(m) = n.x RETURN m",
        "bound 0; seek 1 by #0.x; expand edge 0 from 0 / seek 0 by 1",
    );
    check_steps("OPTIONAL MATCH (n) WHERE id(n) = 1 RETURN n", "seek 0 by 1");
    // Of several the first leads to the node, the others test it.
    check_steps("MATCH (n) WHERE id(n) = $p AND 5 = id(n) RETURN n", "seek 0 by $p; seek 0 by 5");
    check_steps(
        "MATCH (n), (m) WHERE id(n) = m.x AND id(m) = 1 AND id(n) = 2 AND n.x < m.x RETURN n",
        "seek 0 by 2; seek 1 by 1; test 0; seek 0 by #1.x",
    );
}

#[test]
fn lists_of_ids_lead_to_nodes() {
    check_steps("MATCH (n) WHERE id(n) IN [1, 2] RETURN n", "seek each 0 by id(#0) IN [1, 2]");
    check_steps("MATCH (n) WHERE id(n) = 1 OR 2 = id(n) RETURN n", "seek each 0 by id(#0) = 1 or id(#0) = 2");
    check_steps("MATCH (n) WHERE strId(n) IN $that OR id(n) = 2 RETURN n", "seek each 0 by strId(#0) IN $that or id(#0) = 2");
    check_steps("MATCH (n) WHERE elementId(n) = $that RETURN n", "seek each 0 by elementId(#0) = $that");
    check_steps("MATCH (a)-->(b:B:C) WHERE id(a) IN $that RETURN b.x", "seek each 0 by id(#0) IN $that; expand edge 0 from 0");
    check_steps("OPTIONAL MATCH (n) WHERE id(n) IN $that RETURN n", "seek each 0 by id(#0) IN $that");
    check_steps("UNWIND $that AS l MATCH (n) WHERE id(n) IN l RETURN n", "seek each 0 by id(#1) IN #0");
    // Nothing leads to a node that is there, and an anchor leads to one node.
    check_steps("MATCH (n) WHERE id(n) = 1 MATCH (n) WHERE id(n) IN $that RETURN n", "bound 0 / seek 0 by 1");
    check_steps("MATCH (n) WHERE id(n) IN $that AND id(n) = 1 RETURN n", "seek 0 by 1");
    // These hold for nodes that are not in the list, or it is another for each node, or each time.
    check_steps("MATCH (n) WHERE NOT id(n) IN $that RETURN n", "scan 0");
    check_steps("MATCH (n) WHERE id(n) IN $that OR n.x = 1 RETURN n", "scan 0");
    check_steps("MATCH (n) WHERE id(n) IN n.ids RETURN n", "scan 0");
    check_steps("MATCH (n) WHERE id(n) IN [1, toInteger(rand() * 9)] RETURN n", "scan 0");
    check_facts("MATCH (n) WHERE id(n) IN $that SET n.x = 1", "reads writes");
    // Which are fewer, those of the list or those that are found otherwise, is not known here.
    let text = "MATCH (n:P) WHERE n.s = 1 AND id(n) IN $that RETURN n.x";
    let plan = compiled(text);
    assert!(plan.contains("steps: seek each 0 by id(#0) IN $that") && plan.contains("or: scan 0 by #0.s = 1"), "{plan}");
    check_facts(text, "reads scans");
}

#[test]
fn what_is_asked_behind_with_leads_to_nodes() {
    check_steps("MATCH (n:M) WITH n WHERE n.k = 5 RETURN n.x", "scan 0 by #0.k = 5");
    check_steps("MATCH (n:M) WITH n, n.k AS k WHERE k = 5 AND n.y > 1 RETURN k", "scan 0 by #0.k = 5, #0.y > 1");
    check_steps("MATCH (n:M) WITH n WITH DISTINCT n ORDER BY n.y WHERE n.k IN [1, 2] RETURN n.x", "scan 0 by #0.k IN [1, 2]");
    check_steps("CALL { MATCH (n:M) RETURN n } WITH n WHERE n.k = 5 RETURN n.x", "scan 0 by #0.k = 5");
    check_steps(
        "MATCH (a:A) MATCH (b:B) WITH a, b WHERE a.k = b.k AND a.x = 1 RETURN a.y",
        "scan 0 by #1.k = #0.k / scan 0 by #0.x = 1",
    );
    // No anchors: these would enter what a scan does not find.
    check_steps("MATCH (n) WITH n WHERE id(n) = $that RETURN n", "seek each 0 by id(#0) IN [$that]");
    check_steps("MATCH (n) WITH n WHERE idFrom('m', $that) = id(n) RETURN n", "seek each 0 by id(#0) IN [idFrom(\"m\", $that)]");
    for text in [
        "MATCH (n:M) WITH n LIMIT 3 WHERE n.k = 5 RETURN n.x",
        "MATCH (n:M) WITH n SKIP 3 WHERE n.k = 5 RETURN n.x",
        "MATCH (n:M) WITH n, count(*) AS c WHERE n.k = 5 RETURN n.x",
        "MATCH (n:M) WITH n WHERE 10 / n.k = 5 RETURN n.x",
        "MATCH (n:M) WITH n, 10 / n.x AS y WHERE n.k = 5 RETURN y",
        "MATCH (n:M) SET n.x = 1 WITH n WHERE n.k = 5 RETURN n.x",
        "OPTIONAL MATCH (n:M) WITH n WHERE n.k = 5 RETURN n.x",
        "MATCH p = (n:M) WITH p, n WHERE p = $that RETURN n.x",
        "MATCH (n:M) WITH n WHERE rand() < 0.5 RETURN n.x",
    ] {
        let plan = compiled(text);
        assert!(plan.contains("steps: scan 0\n") && plan.contains("Filter"), "{text}\n{plan}");
    }
    // One after the other each would be twice as long as the one before.
    let twice = |n: u32| format!("WITH n, idFrom(x{n}, x{n}) AS x{} ", n + 1);
    let doubled: String = (0..40).map(twice).collect();
    let plan = compiled(&format!("MATCH (n:M) WITH n, n.k AS x0 {doubled}WHERE x40 = 1 RETURN n.x"));
    assert!(plan.contains("steps: scan 0\n") && plan.contains("Filter"), "{plan}");
    // What is left of a filter stays there.
    let plan = compiled("MATCH (n:M) WITH n WHERE n.k = 5 AND 10 / n.x > 1 RETURN n.x");
    assert!(plan.contains("Filter ((10 / #0.x) > 1)\n") && plan.contains("steps: scan 0 by #0.k = 5\n"), "{plan}");
}

#[test]
fn equalities_of_one_property_are_a_list() {
    check_steps("MATCH (n:M) WHERE n.k = 1 OR (2 = n.k OR n.k = 'x') RETURN n.x", "scan 0 by #0.k IN [1, 2, \"x\"]");
    check_steps("MATCH (n:M) WHERE n.k = -1 OR n.k = null RETURN n.x", "scan 0 by #0.k IN [-1, null]");
    // Of values that are there before the node is, and cannot fail where OR would not have come to them.
    check_steps("MATCH (n:M) WHERE n.k = $a OR $b = n.k OR n.k = 3 RETURN n.x", "scan 0 by #0.k IN [$a, $b, 3]");
    check_steps("MATCH (n:M) WHERE n.k = $that.a.x OR n.k = $that.a.y RETURN n.x", "scan 0 by #0.k IN [$that.a.x, $that.a.y]");
    check_steps("UNWIND $that AS r MATCH (n:M) WHERE n.k = r.a OR n.k = r.b RETURN n.x", "scan 0 by #1.k IN [#0.a, #0.b]");
    let of_another = "MATCH (m) WHERE id(m) = 1 MATCH (n:M) WHERE m.a = n.k OR n.k = m.b RETURN n.x";
    check_steps(of_another, "scan 0 by #1.k IN [#0.a, #0.b] / seek 0 by 1");
    for condition in [
        "n.k = 1 OR n.j = 2",
        "n.k = 1 OR n.k > 2",
        "n.k = 1 OR n.k = n.j",
        "n.k = $a OR n.k = $that.b",
        "n.k = 1 OR n.k = 1 / $a",
        "n.k = 1 OR n.j",
    ] {
        check_steps(&format!("MATCH (n:M) WHERE {condition} RETURN n.x"), "scan 0");
    }
    // What is deleted fails where it is asked for anything, and OR might not come to it.
    let of_deleted = "MATCH (m) WHERE id(m) = 1 DELETE m WITH m MATCH (n:M) WHERE n.k = 1 OR n.k = m.b RETURN n.x";
    assert!(!compiled(of_deleted).contains(" IN "), "{}", compiled(of_deleted));
    let by_merge = "MATCH (m) WHERE id(m) = 1 FOREACH (x IN [1] | MERGE (q:Q {k: x}) DELETE m) WITH m
        MATCH (n:M) WHERE n.k = 1 OR n.k = m.b RETURN n.x";
    assert!(compiled(by_merge).contains("steps: ") && !compiled(by_merge).contains(" IN "), "{}", compiled(by_merge));
}

/// What is maintained is as it was: it looks nodes up by what it files of them.
#[test]
fn lists_of_ids_are_conditions_to_standing_queries() {
    let text = "MATCH (a:A) OPTIONAL MATCH (b) WHERE id(b) IN a.ids RETURN b.x AS x";
    let standing = crate::compile_standing(text, crate::StandingMode::AnyQuery, &Options::default()).expect(text);
    assert!(!explain_plan(&standing.plan).contains("seek each"), "{}", explain_plan(&standing.plan));
    assert!(compiled(text).contains("seek each"), "{}", compiled(text));
}

#[test]
fn order_of_visits() {
    check_steps("MATCH (a)-->(b:B)-->(c) RETURN a.x", "scan 1; expand edge 0 from 1; expand edge 1 from 1");
    check_steps("MATCH (a)-->(b), (c) RETURN a.x", "scan 2; scan 0; expand edge 0 from 0");
    check_steps(
        "MATCH (a)-[:R]->(b)-[:R]->(c)-[:S]->(a) WHERE a.x < b.x RETURN a.x",
        "scan 0; expand edge 0 from 0; test 0; expand edge 1 from 1; expand edge 2 from 2",
    );
    check_steps(
        "MATCH (a)-[r]->(b) WITH r MATCH (x)-[r]->(y) RETURN x.a",
        "seek 0 by startNode(#1); seek 1 by endNode(#1); expand edge 0 from 0 / scan 0; expand edge 0 from 0",
    );
}

#[test]
fn conditions_go_where_they_are_tested_first() {
    check(
        "WITH 1 AS one MATCH p = (a:A)-[r:R]->(b) WHERE a.x = one AND b:B AND r.w > 2 AND a.y < b.y AND one > $that.min AND length(p) = 1 RETURN a.x",
        "
        Facts reads scans
        Columns a.x: #5
        Project #5 = #1.x
          Filter (length(#4) = 1)
            Match
              node 0: #1:A where (#1.x = #0)
              node 1: #3:B
              edge 0: 0-[#2:R]->1 where (#2.w > 2)
              condition 0: (#1.y < #3.y)
              path #4: from node 0 over edges 0
              steps: scan 0 by #1.x = #0; expand edge 0 from 0; test 0
              or: scan 1; expand edge 0 from 1; test 0
              Filter (#0 > $that.min)
                Project #0 = 1
                  Unit
        ",
    );
}

#[test]
fn projections() {
    check(
        "MATCH (n) WITH n.g AS g, count(*) + sum(n.x) AS c, n ORDER BY c DESC SKIP 1 LIMIT $k WHERE c > 1 RETURN DISTINCT g, n.y + c",
        "
        Facts reads scans
        Columns g: #1, n.y + c: #5
        Distinct #1, #5
          Project #5 = (#0.y + #4)
            Filter (#4 > 1)
              Limit $k
                Skip 1
                  Sort #4 DESC first (1 + $k)
                    Project #4 = (#2 + #3)
                      Aggregate #2 = CountRows(), #3 = Sum(#0.x) by #1 = #0.g, #0 = #0
                        Match
                          node 0: #0
                          steps: scan 0
                          Unit
        ",
    );
    check(
        "WITH 1 AS b, 2 AS a RETURN *",
        "
        Facts none
        Columns a: #1, b: #0
        Project #0 = 1, #1 = 2
          Unit
        ",
    );
    check(
        "RETURN 1 AS a, 2 AS b UNION ALL RETURN 3 AS b, 4 AS a",
        "
        Facts none
        Columns a: #2, b: #3
        Union all
            Project #2 = #5, #3 = #4
              Project #4 = 3, #5 = 4
                Unit
          Project #2 = #0, #3 = #1
            Project #0 = 1, #1 = 2
              Unit
        ",
    );
}

#[test]
fn writes() {
    check(
        "MERGE (n:A {k: $that.k})-[r:R]->(m) ON CREATE SET n.a = 1 ON MATCH SET n += {b: 2}, n:C REMOVE n.x, n:A DELETE r",
        "
        Facts reads writes scans impure
        Write
          delete #2
          Write
            remove #0.x
            remove #0:A
            Merge
              node 0: #0:A where (#0.k SAME $that.k)
              node 1: #1
              edge 0: 0-[#2:R]->1
              steps: scan 0 by #0.k SAME $that.k; expand edge 0 from 0
              else
                create node #0:A {k: $that.k}
                create node #1
                create edge #0-[#2:R]->#1
              on create
                set #0.a = 1
              on match
                set #0 += {b: 2}
                add #0:C
              Unit
        ",
    );
    check(
        "CREATE p = (a)-[:R {w: 1}]->(b)<-[:S]-(a) RETURN length(p) AS l",
        "
        Facts reads writes impure
        Columns l: #5
        Project #5 = length(#4)
          Optional, else null: #4
              Match
                node 0: #0 (bound)
                node 1: #1 (bound)
                edge 0: 0-[#2 (bound):R]->1
                edge 1: 0-[#3 (bound):S]->1
                path #4: from node 0 over edges 0, 1
                steps: bound 0; bound 1; expand edge 0 from 0; expand edge 1 from 0
                Argument
            Write
              create node #0
              create node #1
              create edge #0-[#2:R {w: 1}]->#1
              create edge #0-[#3:S]->#1
              Unit
        ",
    );
}

#[test]
fn folding() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("NOT (true)", "false"),
        ("$p IN [1]", "($p = 1)"),
        ("1 / 0", "(1 / 0)"),
        ("9223372036854775807 + 1", "(9223372036854775807 + 1)"),
        ("CASE $p WHEN null THEN 1 END", "CASE WHEN $p IS NULL THEN 1 ELSE null END"),
        ("1.5 < 2 AND $p", "(true AND $p)"),
        ("exists($that.x)", "$that.x IS NOT NULL"),
        ("idFrom(1)", "#27dd96d6-75be-30f8-8d97-71b670468f39"),
    ] {
        let plan = compiled(&format!("RETURN {text} AS v"));
        assert!(plan.contains(&format!("Project #0 = {expected}\n")), "{text}\n{plan}");
    }
}

#[test]
fn every_error_of_a_query_is_reported() {
    check(
        "MATCH (n) WHERE m.x = 1\nRETURN nope(n), abs(), count(count(n)), n.x AS a, n.y AS a",
        "
        1.17 UndefinedVariable: Variable `m` not defined
        2.8 UnknownFunction: Failed to resolve function `nope`
        2.8 ColumnNameConflict: Multiple result columns with the same name are not supported
        2.17 InvalidNumberOfArguments: Insufficient parameters for function 'abs'
        2.30 NestedAggregation: Can't use aggregate functions inside of aggregate functions.
        ",
    );
    // What a clause that cannot be read declares is not known; functions are.
    check(
        "MATCH (n) WHERE m.x = 1\nUNWIND [1, AS x\nMATCH (o {x: x, y: nope(x)})\nRETRN n",
        "
        1.17 UndefinedVariable: Variable `m` not defined
        2.12 UnexpectedSyntax: Invalid input 'AS': expected an expression
        3.20 UnknownFunction: Failed to resolve function `nope`
        4.1 UnexpectedSyntax: Invalid input 'RETRN': expected a relationship pattern, ',', USING, WHERE, UNION, ; or a clause
        ",
    );
    check(
        "RETURN 1e999 + m",
        "
        1.8 FloatingPointOverflow: floating point number is too large
        1.16 UndefinedVariable: Variable `m` not defined
        ",
    );
}

#[test]
fn every_code_has_the_error_it_is_an_example_of() {
    let standing = |text, mode| compile_standing(text, mode, &Options::default()).err();
    let mut others = Vec::new();
    for code in Code::ALL {
        let found = match code.example() {
            Example::Query(text) => compile(text, &Options::default()).err(),
            Example::DistinctId(text) => standing(text, StandingMode::DistinctId),
            Example::MultipleValues(text) => standing(text, StandingMode::MultipleValues),
            Example::None => continue,
        };
        let found: Vec<Code> = found.unwrap_or_default().iter().map(|error| error.code).collect();
        if found != [*code] {
            others.push(format!("{code}: {:?} has {found:?}", code.example()));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn errors_without_end_are_cut_short() {
    let errors = compile(&format!("RETURN {}1", "x, ".repeat(100_000)), &options()).unwrap_err();
    assert_eq!(errors.len(), error::ERROR_COUNT_MAX);
    assert!(errors.iter().all(|error| error.excerpt.len() < 2000));
}

#[test]
fn a_chain_says_more_of_a_bound_node_in_one_graph_model_alone() {
    for text in ["MATCH (n) CREATE (n:A)-[:R]->()", "MATCH (n) MERGE (n {x: 1})-[:R]->(m)"] {
        let refused = |open_cypher| compile(text, &Options { open_cypher, ..options() }).err().map(|errors| errors[0].code);
        assert_eq!((refused(false), refused(true)), (None, Some(Code::VariableAlreadyBound)), "{text}");
    }
}

#[test]
fn errors() {
    for (text, expected) in [
        ("MATCH (n)", "1.1 InvalidClauseComposition: Query cannot conclude with MATCH (must be RETURN or an update clause)"),
        ("CREATE (n) MATCH (m) RETURN m", "1.12 InvalidClauseComposition: WITH is required between CREATE and MATCH"),
        ("RETURN 1 AS a RETURN 2 AS b", "1.15 InvalidClauseComposition: RETURN can only be used at the end of the query"),
        ("RETURN *", "1.1 NoVariablesInScope: RETURN * is not allowed when there are no variables in scope"),
        ("MATCH (n) WITH n.x RETURN 1", "1.16 NoExpressionAlias: Expression in WITH must be aliased (use AS)"),
        ("MATCH (n) RETURN n LIMIT n.x", "1.26 NonConstantExpression: It is not allowed to refer to variables in LIMIT"),
        (
            "MATCH (n) RETURN n LIMIT size([y IN n.l | y])",
            "1.26 NonConstantExpression: It is not allowed to refer to variables in LIMIT",
        ),
        (
            "MATCH (n) RETURN n LIMIT size([y IN [1] | [y, n]])",
            "1.26 NonConstantExpression: It is not allowed to refer to variables in LIMIT",
        ),
        (
            "MATCH (n) RETURN n LIMIT COUNT { (n)-->() }",
            "1.26 NonConstantExpression: It is not allowed to refer to variables in LIMIT",
        ),
        (
            "RETURN 1 AS x SKIP reduce(t = 0, y IN [t] | y)",
            "1.20 NonConstantExpression: It is not allowed to refer to variables in SKIP",
        ),
        (
            "RETURN 1 LIMIT -1",
            "1.16 NegativeIntegerArgument: Invalid input. '-1' is not a valid value. Must be a non-negative integer.",
        ),
        (
            "RETURN 1 SKIP 1.5",
            "1.15 InvalidArgumentType: Invalid input. '1.5' is not a valid value. Must be a non-negative integer.",
        ),
        (
            "MATCH (n) WHERE count(n) > 1 RETURN n",
            "1.17 InvalidAggregation: Invalid use of aggregating function count(...) in this context",
        ),
        (
            "MATCH (n) RETURN n.a + count(*)",
            "1.18 AmbiguousAggregationExpression: Aggregation column contains implicit grouping expressions: what is said of `n` beside the aggregate must be projected on its own, as a variable or a property",
        ),
        (
            "MATCH (n) RETURN sum(n.n) AS s ORDER BY n.n",
            "1.41 UndefinedVariable: In a WITH/RETURN with DISTINCT or an aggregation, it is not possible to access variables declared before the WITH/RETURN: n",
        ),
        (
            "RETURN 1 AS a UNION RETURN 2 AS b",
            "1.15 DifferentColumnsInUnion: All sub queries in an UNION must have the same column names",
        ),
        ("UNWIND [1] AS x UNWIND [2] AS x RETURN x", "1.31 VariableAlreadyBound: Variable `x` already declared"),
        (
            "MATCH (n)-[r]-(r) RETURN n",
            "1.16 VariableTypeConflict: Type mismatch: r defined with conflicting type Relationship (expected Node)",
        ),
        (
            "MATCH (a)-[r]->(b)-[r]->(c) RETURN a",
            "1.21 RelationshipUniquenessViolation: Cannot use the same relationship variable 'r' for multiple relationships",
        ),
        ("RETURN NOT 1 AS v", "1.12 InvalidArgumentType: Type mismatch: expected Boolean but was Integer"),
        ("WITH 'x' AS x RETURN true XOR x", "1.31 InvalidArgumentType: Type mismatch: expected Boolean but was String"),
        ("MATCH (n) WHERE n RETURN n", "1.17 InvalidArgumentType: Type mismatch: expected Boolean but was Node"),
        ("MATCH (n) RETURN type(n)", "1.23 InvalidArgumentType: Type mismatch: expected Relationship but was Node"),
        ("RETURN 1 IN 2", "1.13 InvalidArgumentType: Type mismatch: expected List<T> but was Integer"),
        (
            "WITH 123 AS n MATCH (n) RETURN n",
            "1.22 VariableTypeConflict: Type mismatch: n defined with conflicting type Integer (expected Node)",
        ),
        ("RETURN CASE WHEN 1 THEN 2 END AS v", "1.18 InvalidArgumentType: Type mismatch: expected Boolean but was Integer"),
        ("RETURN [x IN {a:1} | x] AS v", "1.14 InvalidArgumentType: Type mismatch: expected List<T> but was Map"),
        (
            "RETURN [x IN [1] | count(*)]",
            "1.20 InvalidAggregation: Invalid use of aggregating function count(...) in this context",
        ),
        (
            "MATCH (n) RETURN n.g, min(n.x) ORDER BY sum(n.x)",
            "1.41 UndefinedVariable: In a WITH/RETURN with DISTINCT or an aggregation, ORDER BY can only use aggregates of the projection",
        ),
        ("CREATE (n:A), (n:B)", "1.16 VariableAlreadyBound: Variable `n` already declared"),
        ("MERGE (n:A)-[:R]->(n:B)", "1.20 VariableAlreadyBound: Variable `n` already declared"),
        ("MATCH (n) CREATE (n:A|B)-[:R]->()", "1.18 InvalidLabelExpression: Only labels can be created, not label expressions"),
        ("CREATE (a)-[:R]-(b)", "1.11 RequiresDirectedRelationship: Only directed relationships are supported in CREATE"),
        ("CREATE (a)-[:R|S]->(b)", "1.11 NoSingleRelationshipType: A single relationship type must be specified for CREATE"),
        ("CREATE (a)-[:R*2]->(b)", "1.11 CreatingVarLength: Variable length relationships cannot be used in CREATE"),
        ("FOREACH (x IN [1] | MATCH (n) SET n.x = 1)", "1.21 InvalidClauseComposition: Invalid use of MATCH inside FOREACH"),
        (
            "MATCH (m) FOREACH (x IN [1] | WITH m AS n SET m.x = 1, n.x = x)",
            "1.31 InvalidClauseComposition: Invalid use of WITH inside FOREACH",
        ),
        ("WITH 1 AS b, 2 AS b RETURN b", "1.6 ColumnNameConflict: Multiple result columns with the same name are not supported"),
        (
            "WITH 1 AS b WITH *, 3 AS b RETURN *",
            "1.21 ColumnNameConflict: Multiple result columns with the same name are not supported",
        ),
        (
            "WITH 1 AS x CALL (x) { WITH 2 AS x RETURN x AS y } RETURN y",
            "1.29 VariableAlreadyBound: Variable `x` already declared in outer scope",
        ),
        (
            "MATCH (a)-[*1..$n]->(b) RETURN count(*)",
            "1.16 InvalidParameterUse: The bounds of a length are written out, as in `*1..3`: a parameter cannot stand for them",
        ),
        (
            "MATCH (a)-[:R*$n]->(b) RETURN count(*)",
            "1.15 InvalidParameterUse: The bounds of a length are written out, as in `*1..3`: a parameter cannot stand for them",
        ),
        (
            "MATCH (a)-[*..$n]->(b) RETURN count(*)",
            "1.15 InvalidParameterUse: The bounds of a length are written out, as in `*1..3`: a parameter cannot stand for them",
        ),
        (
            "MATCH (a)-[*9223372036854775808]->(b) RETURN count(*)",
            "1.13 IntegerOverflow: The integer 9223372036854775808 does not fit into 64 bits",
        ),
        (
            "FOREACH (x IN [1] | UNWIND [1] AS y SET x.a = 1)",
            "1.21 InvalidClauseComposition: Invalid use of UNWIND inside FOREACH\n1.41 InvalidArgumentType: Type mismatch: expected Node or Relationship but was Integer",
        ),
        (
            "MATCH (n) RETURN (n)-->()",
            "1.18 UnexpectedSyntax: A pattern expression only tests whether the pattern is there: it belongs where a truth value is wanted, such as WHERE",
        ),
        (
            "MATCH (n) RETURN size((n)-->())",
            "1.23 UnexpectedSyntax: A pattern expression only tests whether the pattern is there: it belongs where a truth value is wanted, such as WHERE",
        ),
        ("MATCH (n) WHERE (n)-[r]->() RETURN n", "1.22 UndefinedVariable: Variable `r` not defined"),
        ("MATCH (n) WHERE (n) RETURN n", "1.17 InvalidArgumentType: Type mismatch: expected Boolean but was Node"),
        (
            "MATCH (n) WHERE EXISTS { MATCH (n)-->(m) SET m.x = 1 } RETURN n",
            "1.42 InvalidClauseComposition: EXISTS { ... } cannot contain any updates, but got SET",
        ),
        ("MATCH (n) RETURN EXISTS { (n)-->(m) } AS e, m", "1.45 UndefinedVariable: Variable `m` not defined"),
        (
            "MATCH (n) RETURN COLLECT { MATCH (n)-->(m) }",
            "1.18 InvalidClauseComposition: COLLECT { ... } takes a query that returns exactly one column",
        ),
        (
            "MATCH p = shortestPath((a)-[*2..]->(b)) RETURN p",
            "1.27 InvalidRelationshipPattern: A shortest path cannot have a minimal length other than 0 or 1",
        ),
        (
            "MATCH (a)-[r]->() MATCH (a)-[r*]->(b) RETURN b",
            "1.30 VariableTypeConflict: Type mismatch: r defined with conflicting type Relationship (expected List<T>)",
        ),
        (
            "MATCH ()-[r*]->(r) RETURN r",
            "1.17 VariableTypeConflict: Type mismatch: r defined with conflicting type List<T> (expected Node)",
        ),
        ("MATCH (n) REMOVE n:``", "1.20 UnexpectedSyntax: The name of a label has at least one character"),
        ("MATCH (a)-[:``]->(b) RETURN b", "1.13 UnexpectedSyntax: The name of a relationship type has at least one character"),
        ("CREATE (n:A|B)", "1.8 InvalidLabelExpression: Only labels can be created, not label expressions"),
        (
            "MATCH (n) SET n:A|B",
            "1.15 InvalidLabelExpression: Label expressions in patterns are not allowed in SET and REMOVE, only labels",
        ),
        ("CREATE (n WHERE n.x = 1)", "1.17 UnexpectedSyntax: WHERE inside a pattern is for patterns that are matched"),
        (
            "MATCH (n) RETURN count(*) + COUNT { (n)-->() }",
            "1.18 AmbiguousAggregationExpression: Aggregation column contains implicit grouping expressions: what is said of `n` beside the aggregate must be projected on its own, as a variable or a property",
        ),
    ] {
        assert_eq!(compiled(text), format!("{expected}\n"), "{text}");
    }
}

/// Where a pattern may begin, and by what: the engine chooses between them.
#[test]
fn ways_to_begin() {
    let check = |text: &str, expected: &[&str]| {
        let plan = compiled(text);
        let ways = |line: &str| line.strip_prefix("steps: ").or(line.strip_prefix("or: ")).map(str::to_owned);
        let ways: Vec<String> = plan.lines().filter_map(|line| ways(line.trim_start())).collect();
        assert_eq!(ways, expected, "{text}\n{plan}");
    };
    check("MATCH (n:A) RETURN n", &["scan 0"]);
    check(
        "MATCH (n:A) WHERE n.x > 1 AND 5 >= n.x AND n.y IN $that AND n.z STARTS WITH 'a' AND n.x <> 3 RETURN n",
        &["scan 0 by #0.x > 1, #0.x <= 5, #0.y IN $that, #0.z STARTS WITH \"a\""],
    );
    check(
        "MATCH (a:A)-[:R]->(b)-[:S]->(c:C) RETURN a",
        &["scan 0; expand edge 0 from 0; expand edge 1 from 1", "scan 2; expand edge 1 from 2; expand edge 0 from 1"],
    );
    check("MATCH (a)-[:R]->(b) RETURN a", &["scan 0; expand edge 0 from 0"]);
    // An anchor is better than any of them.
    check("MATCH (a:A)-[:R]->(b:B) WHERE id(a) = $that RETURN b", &["seek 0 by $that; expand edge 0 from 0"]);
    check("MATCH (a:A)-[:R]->(b), (c) WHERE id(c) = a.x RETURN b", &["scan 0; seek 2 by #0.x; expand edge 0 from 0"]);
    // What leads to a node in the first order leads to it in all; what tests one there is the same anchor, which takes more than
    // `=`.
    check("MATCH (a:A)-[:R]->(b:B) WHERE id(b) = a.x RETURN b", &["scan 0; seek 1 by #0.x; expand edge 0 from 0"]);
    check(
        "MATCH (a:A)-[:R]->(b:B {k: 1}) WHERE id(b) = a.x RETURN a",
        &["scan 1 by #1.k = 1; expand edge 0 from 1; seek 1 by #0.x"],
    );
    check("MATCH (a:A), (b:B) WHERE id(a) = id(b) RETURN a", &["scan 0; seek 1 by id(#0)", "scan 1; seek 0 by id(#1)"]);
    // Two parts: the one that comes second is looked up by the first.
    check(
        "MATCH (a:A), (b:B) WHERE a.x = b.y RETURN a",
        &["scan 0; scan 1 by #1.y = #0.x; test 0", "scan 1; scan 0 by #0.x = #1.y; test 0"],
    );
    check("MATCH (a:A) MATCH (b) WHERE toLower(b.y) = a.x RETURN a", &["scan 0 by toLower(#1.y) = #0.x", "scan 0"]);
    check("MATCH (b:B) WHERE b.y = rand() RETURN b", &["scan 0"]);
    // MERGE asks for what is the same.
    check("MERGE (a:A {x: $that, y: rand()})", &["scan 0 by #0.x SAME $that"]);
    check(
        "UNWIND [1, 2] AS i MERGE (a:A)-[:R]->(b:B {x: i})",
        &["scan 1 by #2.x SAME #0; expand edge 0 from 1", "scan 0; expand edge 0 from 0"],
    );
    // A relationship that is there already leads to its ends.
    check(
        "MATCH ()-[r:R]->() WITH r MATCH (a)-[r]->(b) RETURN a",
        &["seek 0 by startNode(#1); seek 1 by endNode(#1); expand edge 0 from 0", "scan 0; expand edge 0 from 0"],
    );
    check(
        "MATCH ()-[r:R]->() WITH r MATCH (a)-[r]-(b) RETURN a",
        &["ends of edge 0 as 0; expand edge 0 from 0", "scan 0; expand edge 0 from 0"],
    );
}

/// A pattern that ids or earlier clauses lead into goes on from any of them, or from what an index may find.
#[test]
fn ways_to_go_on() {
    let check = |text: &str, expected: &[&str]| {
        let plan = compiled(text);
        let ways = |line: &str| line.strip_prefix("steps: ").or(line.strip_prefix("or: ")).map(str::to_owned);
        let ways: Vec<String> = plan.lines().filter_map(|line| ways(line.trim_start())).collect();
        assert_eq!(ways, expected, "{text}\n{plan}");
    };
    check(
        "MATCH (h)<-[:E]-(m)-[:F]->(x) WHERE id(h) = 1 AND id(x) = 2 RETURN m.k",
        &[
            "seek 0 by 1; seek 2 by 2; expand edge 0 from 0; expand edge 1 from 1",
            "seek 0 by 1; seek 2 by 2; expand edge 1 from 2; expand edge 0 from 1",
        ],
    );
    let by_key = "MATCH (h)<-[:E]-(m:M {k: 77}) WHERE id(h) = 1 RETURN m.x";
    check(by_key, &["seek 0 by 1; expand edge 0 from 0", "seek 0 by 1; scan 1 by #1.k = 77; expand edge 0 from 1"]);
    // No more is looked at for it than an index has.
    check_facts(by_key, "reads");
    check(
        "MATCH (h)-[:E]->(a)-[:F]->(m:M) WHERE id(h) = 1 AND m.k > $that.k RETURN a.x",
        &[
            "seek 0 by 1; expand edge 0 from 0; expand edge 1 from 1",
            "seek 0 by 1; scan 2 by #2.k > $that.k; expand edge 1 from 2; expand edge 0 from 1",
        ],
    );
    check(
        "MATCH (h) WHERE id(h) = 1 MERGE (h)<-[:E]-(m:M {k: 77})",
        &["bound 0; expand edge 0 from 0", "bound 0; scan 1 by #1.k SAME 77; expand edge 0 from 1", "seek 0 by 1"],
    );
    check(
        "MATCH (a)-[:R*1..3]->(b) WHERE id(a) = 1 AND id(b) = 2 RETURN 1",
        &["seek 0 by 1; seek 1 by 2; expand edge 0 from 0", "seek 0 by 1; seek 1 by 2; expand edge 0 from 1"],
    );
    // There is one way.
    check("MATCH (a)-[:R]->(b) WHERE id(a) = 1 AND id(b) = 2 RETURN 1", &["seek 0 by 1; seek 1 by 2; expand edge 0 from 0"]);
    check(
        "MATCH (a:A)-[:R]->(b:B)-[:S]->(c) WHERE id(a) = 1 RETURN c",
        &["seek 0 by 1; expand edge 0 from 0; expand edge 1 from 1"],
    );
    // What may fail is asked of the same nodes whatever the graph holds.
    check("MATCH (h)-[:E]->(m:M {k: 7}) WHERE id(h) = 1 AND 10 / m.x > 1 RETURN m", &["seek 0 by 1; expand edge 0 from 0"]);
    let of_what_may_be_no_edge = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 UNWIND $list AS r
        MATCH (a)-[r]->(b)-[:E]->(m:M {k: 77}) RETURN m.x";
    let plan = compiled(of_what_may_be_no_edge);
    assert!(plan.contains("expand edge 1") && !plan.contains("or: "), "{plan}");
    // What may fail whatever node is asked has to work first.
    let presumed = |conditions: &str| {
        let plan = compiled(&format!("MATCH (h)<-[e:E]-(m)-[:F]->(x) WHERE id(h) = 1 AND id(x) = 2 AND {conditions} RETURN m.k"));
        assert_eq!(plan.matches("or: ").count(), 1, "{conditions}\n{plan}");
        plan.lines().find_map(|line| line.trim_start().strip_prefix("where there is: ").map(str::to_owned)).unwrap_or_default()
    };
    assert_eq!(presumed("m.k = $k AND m.j IN [1, $j] AND e.w > 7"), "");
    assert_eq!(presumed("m.k = 1 / $z"), "= (1 / $z)");
    assert_eq!(presumed("e.w > $that.a.b AND m.k IN $ids AND m.j = $j"), "IN $ids, > $that.a.b");
    // There are never more orders than `ORDERS_MAX`.
    let ends: String = (0..20).map(|i| format!(", (m)-[:R]->(x{i})")).collect();
    let ids: Vec<String> = (0..20).map(|i| format!("id(x{i}) = {i}")).collect();
    let plan = compiled(&format!("MATCH (m:M {{k: 1}}){ends} WHERE {} RETURN m.x", ids.join(" AND ")));
    assert_eq!(plan.matches("or: ").count(), 7, "{plan}");
    // A standing query begins where something changes; what it looks up row by row goes on as the text says.
    let text = "MATCH (a:A) OPTIONAL MATCH (a)-[:R*1..2]->(b:B {k: 1}) RETURN b.x AS x";
    let standing = crate::compile_standing(text, crate::StandingMode::AnyQuery, &Options::default()).expect(text);
    assert!(!explain_plan(&standing.plan).contains("or: bound"), "{}", explain_plan(&standing.plan));
    assert!(compiled(text).contains("or: bound"), "{}", compiled(text));
}

#[test]
fn index_commands() {
    check(
        "CREATE INDEX names IF NOT EXISTS FOR (n:Person) ON (n.name)",
        "
        Facts writes impure
        CreateIndex names :Person (name)
        ",
    );
    check("DROP INDEX names", "\n        Facts writes impure\n        DropIndex names\n        ");
    check(
        "SHOW INDEXES",
        "
        Facts none
        Columns name: #0, state: #1, type: #2, label: #3, property: #4, entries: #5
        ShowIndexes
        ",
    );
}

#[test]
fn chains_and_subqueries() {
    check(
        "MATCH (a) WHERE id(a) = 1 MATCH p = (a)-[r:R* {w: 1}]->(b:B) WHERE none(n IN nodes(p) WHERE n.x > 1) AND size(r) < 3 RETURN b.x",
        "
        Facts reads
        Columns b.x: #6
        Project #6 = #2.x
          Match
            node 0: #0 (bound)
            node 1: #2:B
            edge 0: 0-[#1:R*1..]->1 each edge #4 where (#4.w = 1) each node #5 where NOT (#5.x > 1)
            condition 0: (size(#1) < 3)
            path #3: from node 0 over edges 0
            steps: bound 0; expand edge 0 from 0; test 0
            Match
              node 0: #0
              steps: seek 0 by 1
              Unit
        ",
    );
    check(
        "MATCH (a:A), (b), p = shortestPath((a)-[*..5]-(b)) WHERE (a)-->(b) AND any(n IN nodes(p) WHERE n:C) RETURN 1",
        "
        Facts reads scans
        Columns 1: #4
        Project #4 = 1
          Match
            node 0: #0:A
            node 1: #1
            edge 0: 0-[*1..5]-1 shortest as path #2 where any(#3 IN nodes(#2) WHERE #3:C)
            condition 0: EXISTS { Match | node 0: #0 (bound) | node 1: #1 (bound) | edge 0: 0-[]->1 | steps: bound 0; bound 1; expand edge 0 from 0 | Argument }
            path #2: from node 0 over edges 0
            steps: scan 0; scan 1; test 0; expand edge 0 from 0
            Unit
        ",
    );
    check_steps("MATCH (n) WHERE id(n) = 1 RETURN [(n)-->(m) WHERE id(m) = n.x | m.y]", "seek 0 by 1");
    check_facts("MATCH (n) WHERE id(n) = 1 RETURN EXISTS { MATCH (m:A) WHERE m.x = n.x }", "reads scans");
    check_facts("FOREACH (x IN [1] | MERGE (n:N {x: x}) SET n.y = 1)", "reads writes scans impure");
}

#[test]
fn hints_and_unknown_parameters() {
    let errors = compile("MATCH (person) RETURN persn, toLowr('A')", &options()).expect_err("two names are wrong");
    let hints: Vec<_> = errors.iter().map(|e| e.hint.as_deref()).collect();
    assert_eq!(hints, [Some("did you mean `person`?"), Some("did you mean `toLower`?")]);
    let errors = compile("MATCH (n) USING SCAN z:A RETURN n", &options()).expect_err("there is no z");
    assert_eq!(
        errors[0].to_string(),
        "CompileError at 1.22 Variable `z` not defined\n\nMATCH (n) USING SCAN z:A RETURN n\n                     ^"
    );
    let error = unknown_parameter("RETURN $p", "p");
    assert_eq!(error.to_string(), "CompileError at 1.8 Unknown parameter `p`\n\nRETURN $p\n       ^");
    let names = ["q", "1", "p", "gone"].map(Text::new);
    let errors = unknown_parameters("RETURN $p, $`q`, $1, $q, '$gone'", &names);
    let told: Vec<_> = errors.iter().map(|error| (error.offset, error.message.as_str())).collect();
    assert_eq!(
        told,
        [
            (11, "Unknown parameter `q`"),
            (17, "Unknown parameter `1`"),
            (7, "Unknown parameter `p`"),
            (0, "Unknown parameter `gone`")
        ]
    );
    assert!(unknown_parameters("RETURN $p", &names[..0]).is_empty());
}

#[test]
fn names_are_numbered_as_they_come_and_those_known_beforehand_first() {
    let options = Options { parameters: ["b", "a", "b"].map(Text::new).into(), ..Options::default() };
    let plan = compile("MATCH (n) WHERE id(n) = $c RETURN $b, $a, $d, $c, n.y, n.x, n.y AS z", &options).expect("compiles");
    assert_eq!(plan.parameters, ["b", "a", "b", "c", "d"]);
    assert_eq!(plan.names, ["y", "x"]);
    let columns: Vec<_> = plan.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(columns, ["$b", "$a", "$d", "$c", "n.y", "n.x", "z"]);
}

/// Programs write their data into texts. Each of these takes well under a second, and half a minute where each name is looked
/// for among all the others.
#[test]
fn texts_with_very_many_names_are_compiled_soon() {
    let listed = |count: usize, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<Vec<_>>().join(", ");
    let parameters = listed(100_000, &|n| format!("$p{n}"));
    let columns = |count: usize| listed(count, &|n| format!("{n} AS column{n}"));
    let union = format!("RETURN {0} UNION ALL RETURN {0}", columns(40_000));
    for (what, text, compiles) in [
        ("parameters", format!("RETURN size([{parameters}])"), true),
        ("properties", format!("MATCH (n) WHERE id(n) = 1 RETURN size([{}])", listed(100_000, &|n| format!("n.p{n}"))), true),
        ("columns", format!("RETURN {}", columns(100_000)), true),
        ("a union", union, true),
        ("stars", format!("WITH {} {} RETURN *", columns(10_000), "WITH * ".repeat(50)), true),
        ("columns of one name", format!("RETURN {}, 1 AS column7", columns(100_000)), false),
        ("unknown variables", format!("WITH {} RETURN [{}]", columns(5000), listed(5000, &|n| format!("gone{n}"))), false),
    ] {
        let began = std::time::Instant::now();
        assert_eq!(compile(&text, &options()).is_ok(), compiles, "{what}");
        assert!(began.elapsed().as_secs() < 20, "{what} took {:?}", began.elapsed());
    }
    let names: Vec<Text> = (0..100_000).map(|n| Text::new(format!("p{n}"))).collect();
    let began = std::time::Instant::now();
    assert_eq!(unknown_parameters(&parameters, &names).len(), error::ERROR_COUNT_MAX);
    assert!(began.elapsed().as_secs() < 20, "unknown parameters took {:?}", began.elapsed());
}

#[test]
fn explain_prints_every_stage() {
    let text = explain("MATCH (n) WHERE id(n) IN [1] AND n.x > 2 RETURN n.x AS x LIMIT 3", &options()).expect("compiles");
    let stages: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(
        stages,
        ["syntax tree", "bound", "fold constants", "single element in", "split conditions", "place conditions", "plan"]
    );
    assert!(text.contains("MATCH (n) WHERE ((id(n) IN [1]) AND (n.x > 2))\nRETURN n.x AS x LIMIT 3\n"), "{text}");
    assert!(text.contains("node 0: n where (n.x > 2)\n"), "{text}");
}

/// Nothing a user types may bring the compiler down: every prefix of some queries, and deep and long ones.
#[test]
fn nothing_panics() {
    let whole = [
        INGEST,
        "MATCH p = allShortestPaths((a:A&!B)-[r:%*..2 {x: 1}]-(b)) WHERE EXISTS { MATCH (a)-->(c) WHERE (c)--(b) RETURN c UNION MATCH (c) RETURN c } RETURN [q = (a)-[*]->() WHERE a:A|B | q], COLLECT { RETURN 1 AS x }",
        "MATCH p = (a:A {x: [1, {y: $z}]})<-[r:R|S*1..2]-(b) WHERE all(x IN [y IN a.l | y] WHERE x =~ '\\d') RETURN n {.a, .*}, CASE a WHEN 1 THEN 2 END",
    ];
    for text in whole {
        for (at, _) in text.char_indices() {
            let _ = compile(&text[..at], &options());
            let _ = compile(&text[at..], &options());
            let _ = compile_standing(&text[..at], StandingMode::MultipleValues, &options());
        }
    }
    for (open, close) in [("(", ")"), ("[", "]"), ("{a: ", "}"), ("NOT ", ""), ("-", ""), ("(n {a: ", "})-[1]"), ("[a IN ", "]")]
    {
        let text = format!("RETURN {}1{}", open.repeat(3000), close.repeat(3000));
        assert!(compile(&text, &options()).is_err());
    }
    let nested = |open: &str, close: &str, depth: usize| {
        compile(&format!("MATCH (n) WHERE {}true{} RETURN n", open.repeat(depth), close.repeat(depth)), &options()).is_ok()
    };
    for (open, close) in [
        ("EXISTS { (n) WHERE ", " }"),
        ("EXISTS { MATCH (n) WHERE ", " RETURN n }"),
        ("size([(n)-->(n) WHERE ", " | n]) > 0"),
        ("(n)-[{x: [(n)-->() WHERE ", " | 1]}]->()"),
        ("COUNT { MATCH (n:(A|!B)) WHERE ", " } > 0"),
    ] {
        assert!(nested(open, close, 30), "{open}");
        assert!(!nested(open, close, 3000), "{open}");
    }
    assert!(compile(&format!("MATCH (n:{}A) RETURN n", "!(".repeat(3000)), &options()).is_err());
    assert!(compile(&format!("RETURN 1{} AS x", " + 1".repeat(900)), &options()).is_ok());
    assert!(compile(&format!("RETURN 1{} AS x", " + $x".repeat(5000)), &options()).is_err());
    assert!(compile(&format!("RETURN true{} AS x", " AND $x".repeat(5000)), &options()).is_ok());
    assert!(compile(&"WITH 1 AS x ".repeat(5000), &options()).is_err());
}

/// How much of the openCypher TCK is read; prints counts, fails only when the parser refuses most of it.
#[test]
fn tck_queries_parse() {
    let features = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tck/features");
    if !features.exists() {
        eprintln!("SKIPPED: the openCypher TCK is not beside the repository");
        return;
    }
    let (mut parsed, mut bound, mut all) = (0, 0, 0);
    let mut refusals: std::collections::BTreeMap<String, usize> = Default::default();
    let mut folders = vec![features];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("readable");
            for query in text.split("\"\"\"").skip(1).step_by(2).filter(|query| !query.contains('<') || query.contains("<-")) {
                all += 1;
                match parse(query) {
                    Ok(_) => parsed += 1,
                    Err(errors) => *refusals.entry(errors[0].message.chars().take(60).collect()).or_default() += 1,
                }
                bound += usize::from(compile(query, &options()).is_ok());
            }
        }
    }
    let mut most: Vec<_> = refusals.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    eprintln!("TCK: {all} queries, {parsed} parsed, {bound} compiled");
    most.iter().take(15).for_each(|(message, count)| eprintln!("{count:5} {message}"));
    assert!(parsed * 10 > all * 8);
}

#[test]
fn the_keys_of_a_record_that_a_query_looks_at_are_known() {
    let check = |query: &str, expected: Option<&[&str]>| {
        let plan = compile(query, &Options { parameters: vec!["that".into()], ..options() }).expect(query);
        let asked = plan.keys_asked("that").map(|keys| keys.into_iter().collect::<Vec<_>>());
        assert_eq!(
            asked.as_deref(),
            expected.map(|keys| keys.iter().map(|key| weir_model::Text::new(key)).collect::<Vec<_>>()).as_deref(),
            "{query}"
        );
    };
    check("RETURN 1", Some(&[]));
    check("MATCH (n) WHERE id(n) = idFrom($that.id) SET n.x = $that.x.y, n.z = $that['z']", Some(&["id", "x", "z"]));
    check(
        "MATCH (n) WHERE id(n) = idFrom($that.id) MERGE (n)-[:R]->(m {a: $that.a}) ON CREATE SET m.b = $that.b",
        Some(&["a", "b", "id"]),
    );
    check(
        "UNWIND $that.items AS item CREATE (n:$that_label {x: item}) SET n.k = $that.k".replace(":$that_label", "").as_str(),
        Some(&["items", "k"]),
    );
    check(
        "MATCH (n) WHERE id(n) = idFrom($that.id) FOREACH (x IN $that.list | CREATE (m {v: x, w: $that.w}))",
        Some(&["id", "list", "w"]),
    );
    check(
        "MATCH (n) WHERE id(n) = idFrom(1) AND EXISTS { MATCH (n)-[:R]->(m) WHERE m.q = $that.q } RETURN count(*) AS c ORDER BY $that.o",
        Some(&["o", "q"]),
    );
    check("CALL cypher.doIt('RETURN $x', {x: $that.x}) YIELD value RETURN value", Some(&["x"]));
    check("MATCH (n) WHERE id(n) = idFrom($that.id) SET n = $that", None);
    check("WITH $that AS row MATCH (n) WHERE id(n) = idFrom(row.id) SET n.x = row.x", None);
    check("MATCH (n) WHERE id(n) = idFrom($that.id) SET n.x = $that[$that.key]", None);
    check("RETURN keys($that)", None);
}

#[test]
fn what_is_asked_of_a_text_stands_before_it_among_comments() {
    for (text, asked, rest) in [
        ("RETURN 1", Wanted::Answer, "RETURN 1"),
        (" explain RETURN 1", Wanted::Plan, "         RETURN 1"),
        ("// why\nEXPLAIN RETURN 1", Wanted::Plan, "// why\n        RETURN 1"),
        ("/* é */PROFILE/* of */RETURN 1", Wanted::Profile, "/* é */       /* of */RETURN 1"),
        ("EXPLAIN // as it is\n STANDING /**/ RETURN 1", Wanted::Dataflow, "        // as it is\n          /**/ RETURN 1"),
        ("\u{feff}EXPLAIN\nRETURN 1", Wanted::Plan, "\u{feff}       \nRETURN 1"),
        // Nothing of a query: its errors are told of the whole text.
        ("EXPLAIN", Wanted::Answer, "EXPLAIN"),
        ("EXPLAIN(1)", Wanted::Answer, "EXPLAIN(1)"),
        ("EXPLAINED RETURN 1", Wanted::Answer, "EXPLAINED RETURN 1"),
        ("`EXPLAIN` RETURN 1", Wanted::Answer, "`EXPLAIN` RETURN 1"),
        ("/* EXPLAIN RETURN 1", Wanted::Answer, "/* EXPLAIN RETURN 1"),
        ("", Wanted::Answer, ""),
    ] {
        assert_eq!(wanted(text), (asked, Cow::Borrowed(rest)), "{text}");
    }
}
