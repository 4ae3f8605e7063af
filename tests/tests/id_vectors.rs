//! Ids and hashes recorded from a running service, where they are asked of nodes and edges of a graph: the real binary, once
//! for each scheme of ids. What needs no graph is compared beside the compiler (`cypher-compiler/tests/idfrom_vectors.rs`).
//!
//! Together the two ask every line of the recording but those of schemes that weir's configuration refuses, since its ids
//! have 128 bits: `byte-array` and all with a position.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use weir_tests::service::{Home, Weir};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recorded/idfrom-vectors.jsonl");

/// What the recorded service holds in some of the lines: `(a:L {p:1})-[r:KNOWS]->(b)`.
const GRAPH: &str = "MATCH (a), (b) WHERE id(a) = idFrom('rel', 1) AND id(b) = idFrom('rel', 2) \
                     SET a:L, a.p = 1 CREATE (a)-[:KNOWS]->(b)";

/// Where weir differs, by a part of the expression, and why. Each entry must differ somewhere.
const DIFFERENT: &[(&str, &str)] =
    &[("00ff'", "ids are of 128 bits; other lengths name no node, so there is no row where the service enters an empty one")];

/// The settings of a recorded scheme; none for those that are refused.
fn settings(scheme: &str) -> Option<Vec<String>> {
    let mut words = scheme.split(' ');
    let kind = words.next()?;
    let mut settings = vec![format!("-Dweir.id.type={kind}"), "-Dweir.store.type=in-memory".to_owned()];
    for word in words {
        // `partitioned` has no value.
        let (key, value) = word.split_once('=')?;
        settings.push(format!("-Dweir.id.{key}={value}"));
    }
    (kind != "byte-array").then_some(settings)
}

#[test]
fn ids_of_nodes_are_reproduced() {
    if !Path::new(RECORDING).exists() {
        eprintln!("**** LEFT OUT: {RECORDING} is not there, so no recorded id is asked for");
        return;
    }
    let recording = std::fs::read_to_string(RECORDING).expect("the recording can be read");
    let mut schemes: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    let mut refused = 0;
    for line in recording.lines() {
        let line: Json = serde_json::from_str(line).expect("a line of JSON");
        let scheme = line["idType"].as_str().expect("a scheme").to_owned();
        if settings(&scheme).is_none() {
            refused += 1;
        } else if line.get("query").is_some() {
            schemes.entry(scheme).or_default().push(line);
        }
    }
    let (mut asked, mut wrong, mut listed) = (0, Vec::new(), vec![false; DIFFERENT.len()]);
    for (scheme, lines) in &schemes {
        let home = Home::new();
        let settings = settings(scheme).expect("only such schemes are here");
        let weir = home.start(&settings.iter().map(String::as_str).collect::<Vec<_>>());
        weir.query(GRAPH).expect(200);
        for line in lines {
            asked += 1;
            let how = difference(&weir, line);
            let expression = line["expr"].as_str().unwrap_or_default();
            let known = DIFFERENT.iter().position(|(part, _)| expression.contains(part));
            match (how, known) {
                (Some(_), Some(at)) => listed[at] = true,
                (Some(how), None) => wrong.push(format!("{scheme}: {}\n    {how}", line["query"])),
                _ => {}
            }
        }
        weir.stop();
    }
    eprintln!("{asked} recorded queries asked of {} schemes; {refused} lines are of schemes that are refused", schemes.len());
    assert!(wrong.is_empty(), "{} of {asked} differ:\n{}", wrong.len(), wrong.join("\n"));
    for ((part, reason), differs) in DIFFERENT.iter().zip(listed) {
        assert!(differs, "`{part}` agrees now; take it off the list ({reason})");
    }
}

fn difference(weir: &Weir, line: &Json) -> Option<String> {
    let answer = weir.query(line["query"].as_str().expect("a query"));
    let refused = line.get("error").is_some();
    if refused || answer.status != 200 {
        return (refused != (answer.status == 400)).then(|| format!("expected {line}, found {}", answer.shown()));
    }
    let body = answer.json();
    let rows = body["results"].as_array().expect("rows");
    // Ids that are made anew have only their form in common.
    let found = match rows.first() {
        _ if line.get("varies").is_some() => return rows.is_empty().then(|| "no row".to_owned()),
        None if line["rows"] == 0 => return None,
        None => "no row".to_owned(),
        Some(row) if row[0] == line["result"] && line.get("rows").is_none() => return None,
        Some(row) => row[0].to_string(),
    };
    Some(format!("expected {}, found {found}", if line["rows"] == 0 { "no row".to_owned() } else { line["result"].to_string() }))
}
