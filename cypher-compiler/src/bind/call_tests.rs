//! What is wrong with a call, and where; and what the plan of one looks like.

use std::sync::Arc;

use weir_model::procedure::Body;
use weir_model::{Procedure, Text};

use crate::{Options, compile, explain_plan, procedures};

fn options() -> Options {
    let nothing = || Body::Rows(Arc::new(|_, _, _| Ok(())));
    let declare = |signature: &str| Arc::new(Procedure::declare(signature, nothing()).expect("a signature"));
    let listens = Arc::new(procedures::declared("standing.wiretap", nothing()).expect("it is in the table"));
    let declared = [
        "test.my.proc(name :: STRING?, in :: INTEGER?) :: (out :: INTEGER?)",
        "test.labels() :: (label :: STRING?)",
        "test.doNothing() :: ()",
    ];
    Options {
        parameters: vec![Text::new("name")],
        procedures: declared.map(declare).into_iter().chain([listens]).collect(),
        ..Options::default()
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = match compile(text, &options()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(|e| format!("{}.{} {}", e.line, e.column, e.code)).collect(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn calls_are_checked_before_they_run() {
    check("CALL test.my.proc('a', 1)", &[]);
    check("CALL test.my.proc", &[]);
    check("CALL TEST.MY.PROC('a', null) YIELD *", &[]);
    check("CALL test.my.proc('a', 1) YIELD out AS x RETURN x", &[]);
    check("CALL test.doNothing", &[]);
    check("MATCH (n) CALL test.doNothing()", &[]);
    check("MATCH (n) CALL test.doNothing() YIELD - RETURN n", &[]);
    check("CALL test.my.proc('Dobby')", &["1.6 InvalidNumberOfArguments"]);
    check("CALL test.my.proc('Dobby', 1, 2) YIELD out RETURN out", &["1.6 InvalidNumberOfArguments"]);
    check("CALL test.my.proc(1, true)", &["1.19 InvalidArgumentType", "1.22 InvalidArgumentType"]);
    check("CALL no.such()", &["1.6 ProcedureNotFound"]);
    check("CALL no.such() YIELD x RETURN x", &["1.6 ProcedureNotFound"]);
    check("CALL test.labels() RETURN label", &["1.1 UndefinedVariable", "1.27 UndefinedVariable"]);
    check("CALL test.labels() YIELD nope RETURN 1 AS x", &["1.1 UndefinedVariable"]);
    check("WITH 'Hi' AS label CALL test.labels() YIELD label RETURN *", &["1.45 VariableAlreadyBound"]);
    check("CALL test.labels() YIELD label AS a, label AS a RETURN a", &["1.47 VariableAlreadyBound"]);
    check("CALL test.my.proc YIELD out RETURN out", &["1.6 InvalidArgumentPassingMode"]);
    check("CALL test.labels() YIELD * RETURN 1 AS x", &["1.6 UnexpectedSyntax"]);
    check("MATCH (n) CALL test.my.proc('a', count(n)) YIELD out RETURN out", &["1.34 InvalidAggregation"]);
    check("MATCH (n) CALL test.labels() YIELD label", &["1.11 InvalidClauseComposition"]);
    check("LOAD CSV FROM 'x' AS row RETURN row", &["1.15 ProcedureNotFound"]);
    check("CALL loadJsonLines('x')", &["1.6 ProcedureNotFound"]);
}

/// Whoever writes waits for the last row, and there was none: neither LIMIT nor a limit of time ended it.
#[test]
fn what_listens_stands_only_in_queries_that_read() {
    let tap = "CALL standing.wiretap({name: 'x'}) YIELD data";
    check(&format!("{tap} MATCH (n) WHERE id(n) = data.id RETURN n"), &[]);
    check(&format!("CALL {{ {tap} RETURN data LIMIT 1 }} RETURN data"), &[]);
    check("CALL standing.wiretap({name: 'x'})", &[]);
    check(&format!("{tap} MATCH (n) WHERE id(n) = data.id SET n.seen = true RETURN n LIMIT 1"), &["1.6 Unsupported"]);
    check(&format!("{tap} FOREACH (i IN [1] | CREATE ({{i: i}}))"), &["1.6 Unsupported"]);
    check(&format!("{tap} WITH data LIMIT 1 MERGE (n {{id: data.id}})"), &["1.6 Unsupported"]);
    check(&format!("CREATE (n) WITH n {tap} RETURN data"), &["1.24 Unsupported"]);
    check(&format!("CALL {{ {tap} RETURN data LIMIT 1 }} CREATE (n)"), &["1.13 Unsupported"]);
    check(&format!("{tap} CALL cypher.doIt('RETURN 1 AS x') YIELD value RETURN value"), &["1.6 Unsupported"]);
    check(&format!("{tap} CALL int.add(data.id, 'seen') YIELD result RETURN result"), &["1.6 Unsupported"]);
    // A text that nobody sends by itself, whether it writes or not.
    for text in [format!("{tap} RETURN data"), format!("{tap} CREATE (n)")] {
        let inside = Options { runs_as: Some("the query of an output"), ..options() };
        let errors = compile(&text, &inside).expect_err("it never ends");
        assert_eq!((errors.len(), errors[0].column), (1, 6));
        let told = errors[0].to_string();
        let parts = ["standing.wiretap", "cannot stand in the query of an output", "CypherQuery"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
}

#[test]
fn subqueries_are_checked() {
    check("WITH 1 AS x CALL { RETURN x AS y } RETURN y", &["1.27 UndefinedVariable"]);
    check("WITH 1 AS x CALL { WITH x AS z RETURN z } RETURN z", &["1.20 InvalidClauseComposition"]);
    check("WITH 1 AS x CALL { WITH x WHERE x > 1 RETURN x AS z } RETURN z", &["1.20 InvalidClauseComposition"]);
    check("WITH 1 AS x CALL { WITH 2 AS y RETURN y } RETURN x + y AS z", &[]);
    check("WITH 1 AS x CALL { WITH x RETURN x } RETURN x", &["1.13 VariableAlreadyBound"]);
    check("WITH 1 AS x CALL (x) { WITH 2 AS x RETURN x AS y } RETURN y", &["1.29 VariableAlreadyBound"]);
    check("CALL (nope) { RETURN 1 AS y } RETURN y", &["1.7 UndefinedVariable"]);
    check("CALL { MATCH (n) } RETURN 1 AS y", &["1.8 InvalidClauseComposition"]);
    check("CALL { RETURN 1 AS y }", &["1.1 InvalidClauseComposition"]);
    check("CALL { RETURN 1 AS a UNION RETURN 2 AS b } RETURN a", &["1.22 DifferentColumnsInUnion"]);
    check("CALL { CREATE (n) } IN TRANSACTIONS OF 10 ROWS", &["1.21 Unsupported"]);
    check("CALL { CREATE (n) } IN 3 CONCURRENT TRANSACTIONS", &["1.21 Unsupported"]);
    check("CALL {", &["1.7 UnexpectedSyntax"]);
    check(&format!("{}RETURN 1 AS x{}", "CALL { ".repeat(500), " }".repeat(500)), &["1.1408 TooDeep"]);
    let deep = |n: usize| {
        format!("{}RETURN 1 AS x{} RETURN x", "CALL { ".repeat(n), " RETURN x }".repeat(n).replacen(" RETURN x", "", 1))
    };
    check(&deep(190), &[]);
}

#[test]
fn recursion_is_checked() {
    check("CALL RECURSIVELY WITH 1 AS x UNTIL (y > 3) { RETURN x + 1 AS y } RETURN y", &["1.1 UndefinedVariable"]);
    check("WITH 1 AS o CALL RECURSIVELY WITH o AS x UNTIL (x > 3) { RETURN x + o AS x } RETURN x", &["1.69 UndefinedVariable"]);
    check("CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { WITH x RETURN x } RETURN x", &["1.46 InvalidClauseComposition"]);
    check("CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { RETURN x }", &["1.1 InvalidClauseComposition"]);
}

#[test]
fn plans_of_calls() {
    let plan = compile(
        "MATCH (n) WHERE id(n) = 1 CALL incrementCounter(n, 'c') YIELD count AS c CALL { WITH c CREATE ({c: c}) } RETURN c",
        &options(),
    );
    let shown = explain_plan(&plan.expect("compiles"));
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    assert_eq!(lines[..4], ["Facts reads writes impure", "Columns c: #1", "Subquery for its effect", "Write"], "{shown}");
    assert!(lines.contains(&"Call incrementCounter(#0, \"c\") yields count as #1"), "{shown}");
}
