//! What the reference service was recorded to answer to single queries, and to small stories of queries on a graph, asked of
//! the real binary: the same values, and a refusal where it refused.
//!
//! Where both refuse, the words are not compared: those of the recording are partly Java's. Everything else that differs
//! stands in `values-differences.txt`, with a reason each. The test fails on a difference that is not there, and on an
//! agreement that is: the list says how things are. `UPDATE_EXPECT=1` takes off it what agrees now, and puts what is new
//! under a heading that fails until somebody has judged it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value as Json, json};
use weir_tests::client::Answer;
use weir_tests::service::{Home, Weir};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recorded/cypher-values.jsonl");

const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/values-differences.txt");

const NOT_JUDGED: &str = "## Not judged yet";

/// The reason of each line that is expected to differ: the heading above it.
fn differences(list: &str) -> BTreeMap<&str, &str> {
    let mut reason = "";
    let mut known = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        match line.strip_prefix("## ") {
            Some(heading) => reason = heading,
            None => {
                assert!(!reason.is_empty(), "a reason is missing: {line}");
                for name in line.split_whitespace() {
                    assert!(known.insert(name, reason).is_none(), "{name} is in the list twice");
                }
            }
        }
    }
    known
}

/// The list without what agrees and with what is new. Headings with nothing below them go.
fn updated(list: &str, agree: &BTreeSet<String>, new: &[String]) -> String {
    let mut out = String::new();
    for section in list.split("\n## ") {
        let mut lines = section.lines();
        let heading = lines.next().unwrap_or_default();
        let names: Vec<&str> = lines.flat_map(str::split_whitespace).filter(|name| !agree.contains(*name)).collect();
        if out.is_empty() {
            out.push_str(section.trim_end());
            out.push('\n');
        } else if !names.is_empty() {
            out.push_str(&format!("\n## {heading}\n{}", wrapped(&names)));
        }
    }
    if !new.is_empty() {
        out.push_str(&format!("\n{NOT_JUDGED}\n{}", wrapped(&new.iter().map(String::as_str).collect::<Vec<_>>())));
    }
    out
}

fn wrapped(names: &[&str]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for name in names {
        let fits = width > 0 && width + name.len() < 120;
        text.push_str(if fits {
            " "
        } else if width > 0 {
            "\n"
        } else {
            ""
        });
        text.push_str(name);
        width = if fits { width + 1 + name.len() } else { name.len() };
    }
    text + "\n"
}

#[test]
fn recorded_values_are_answered_alike() {
    if !Path::new(RECORDING).exists() {
        eprintln!("**** LEFT OUT: {RECORDING} is not there, so no recorded value is asked for");
        return;
    }
    let recording = std::fs::read_to_string(RECORDING).expect("the recording can be read");
    let committed = std::fs::read_to_string(DIFFERENCES).expect("the list can be read");
    let known = differences(&committed);
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let (mut asked, mut unexpected, mut agreements, mut list) = (0, Vec::new(), BTreeSet::new(), Vec::new());
    let mut judge = |name: &str, step: &Json, answer: &Answer| {
        asked += 1;
        match (difference(step, answer), known.get(name)) {
            (Some(how), None) => {
                list.push(name.to_owned());
                unexpected.push(format!("{name}: {how}\n  {step}\n  got {}", answer.shown()));
            }
            (None, Some(_)) => {
                agreements.insert(name.to_owned());
            }
            _ => {}
        }
    };
    for line in recording.lines() {
        let line: Json = serde_json::from_str(line).expect("a line of JSON");
        let name = line["name"].as_str().expect("a name");
        match line["steps"].as_array() {
            None => judge(name, &line, &ask(&weir, &line)),
            Some(steps) => {
                weir.query("MATCH (n) DETACH DELETE n").expect(200);
                for (place, step) in steps.iter().enumerate() {
                    judge(&format!("{name}#{place}"), step, &ask(&weir, step));
                }
            }
        }
    }
    eprintln!("{asked} recorded queries asked, {} of them known to be answered differently", known.len());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(DIFFERENCES, updated(&committed, &agreements, &list)).expect("the list can be written");
        return;
    }
    assert!(unexpected.is_empty(), "{} answers differ and are not in the list:\n{}", unexpected.len(), unexpected.join("\n"));
    assert!(agreements.is_empty(), "these agree now; take them off the list: {agreements:?}");
    assert!(!committed.contains(NOT_JUDGED), "what stands under `{NOT_JUDGED}` needs a reason, or a change of weir");
}

fn ask(weir: &Weir, step: &Json) -> Answer {
    let query = step["query"].as_str().expect("a query");
    let parameters = match (step["parametersText"].as_str(), step.get("parameters")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(parameters)) if !parameters.is_null() => parameters.to_string(),
        _ => return weir.query(query),
    };
    // As it was sent: numbers are not to be read and written again on the way.
    let body = format!("{{\"text\":{},\"parameters\":{parameters}}}", json!(query));
    weir.send("POST", "/api/v1/query/cypher", &[("Content-Type", "application/json")], body.as_bytes())
}

/// How the answer differs from the recorded one.
fn difference(step: &Json, answer: &Answer) -> Option<String> {
    let refused = step["status"] != json!(200);
    if refused != (answer.status != 200) {
        return Some(if refused { "it was refused" } else { "it was answered" }.to_owned());
    }
    // Of what changes from run to run only that it is answered can be the same.
    let varies = step.get("varies").is_some_and(|varies| !matches!(varies, Json::Bool(false) | Json::Null));
    if refused || varies {
        return (answer.status >= 500).then(|| "it failed".to_owned());
    }
    let recorded: Json = serde_json::from_str(step["body"].as_str().unwrap_or_default()).expect("a body of JSON");
    let mut bodies = [recorded, answer.json()];
    if !step["query"].as_str().unwrap_or_default().to_uppercase().contains("ORDER BY") {
        for body in &mut bodies {
            if let Some(rows) = body["results"].as_array_mut() {
                rows.sort_by_key(Json::to_string);
            }
        }
    }
    (bodies[0] != bodies[1]).then(|| "the values differ".to_owned())
}
