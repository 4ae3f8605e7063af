//! The recorded exchanges of the reference service, replayed in their order against the real binary: status, content type
//! and body must be the same.
//!
//! What differs stands in `wire-differences.txt`, with a reason each. The test fails on a difference that is not there, and
//! on an agreement that is: the list says how things are. `WEIR_WIRE_LIST=1` prints what differs in the form of the list.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client::Answer;
use weir_tests::contract::{Sent, breach};
use weir_tests::service::{Home, Weir};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recorded/wire-v1.jsonl");

const DIFFERENCES: &str = include_str!("../wire-differences.txt");

/// Fields that vary from run to run, whatever the line says.
const VARYING: &[&str] = &["startTime", "totalRuntime", "rates", "byteRates", "internalId", "bufferSize", "resultId"];

/// Where the recorded service listened.
const RECORDED_ADDRESS: &str = "127.0.0.1:18095";

/// How long a stream is looked at that was recorded while it ran.
const STREAM_LOOK: Duration = Duration::from_millis(500);

/// How long a stream may take to come to the end that was recorded; machines under load are slow.
const STREAM_MAX: Duration = Duration::from_secs(60);

/// The files that were there, as far as the answers tell.
const FILES: &[(&str, &str)] = &[
    ("lines.txt", "one\ntwo\n\nfour"),
    ("rows.jsonl", "{\"id\":1,\"v\":1}\n{\"id\":2,\"v\":[1,\"x\"]}\nnot json !\n"),
    ("noheader.csv", "1,a,\"x, y\"\n2,b\n3,c,d,e\n"),
    ("header.csv", "id,name\n1,Ann\n2,\"Bo \"\"B\"\"\"\n3\n"),
    ("semi.csv", "1;a\n"),
];

/// Some exchanges are not in the recording, and later ones depend on them: before which, what was asked.
const NOT_RECORDED: &[(u64, &str, &str, &str)] = &[
    (138, "POST", "/api/v1/query/cypher", "{\"text\": \"MATCH (a) WHERE id(a) = idFrom('wire', 1) SET a.n = 2\"}"),
    (
        380,
        "POST",
        "/api/v1/ingest/file-offset-limit",
        r#"{"type": "FileIngest", "path": "lines.txt", "startAtOffset": 1, "ingestLimit": 1, "format": {"type": "CypherLine",
            "query": "MATCH (n) WHERE id(n)=idFrom('fo',$that) SET n.oline=$that"}}"#,
    ),
    (
        408,
        "POST",
        "/api/v1/ingest/stdin",
        r#"{"type": "StandardInputIngest", "format": {"type": "CypherLine", "query": "RETURN $that"}}"#,
    ),
    (
        466,
        "POST",
        "/api/v1/query/standing/s1",
        r#"{"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.sq = 1 RETURN DISTINCT id(n) AS id"}, "outputs": {}}"#,
    ),
    (469, "POST", "/api/v1/query/standing/s1/output/d", r#"{"type": "Drop"}"#),
    (479, "DELETE", "/api/v1/query/standing/s1/output/d", ""),
];

/// What is expected to differ.
#[derive(Default)]
struct Differences {
    /// By the beginning of `METHOD path`, or of the name: routes that are not in this version.
    classes: Vec<&'static str>,
    lines: BTreeMap<u64, &'static str>,
}

impl Differences {
    fn read() -> Differences {
        let mut differences = Differences::default();
        for line in DIFFERENCES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (what, reason) = line.split_once(" | ").unwrap_or_else(|| panic!("a reason is missing: {line}"));
            assert!(!reason.trim().is_empty(), "a reason is missing: {line}");
            match what.trim().strip_prefix("class ") {
                Some(class) => differences.classes.push(class.trim()),
                None => {
                    let seq = what.split(' ').next().and_then(|seq| seq.parse().ok());
                    differences.lines.insert(seq.unwrap_or_else(|| panic!("a number is missing: {line}")), reason);
                }
            }
        }
        differences
    }

    fn leave_out(&self, name: &str, method: &str, path: &str) -> bool {
        let request = format!("{method} {path}");
        self.classes.iter().any(|class| name.starts_with(class) || path.starts_with(class) || request.starts_with(class))
    }
}

#[test]
fn recorded_exchanges_are_answered_alike() {
    if !Path::new(RECORDING).exists() {
        eprintln!("**** LEFT OUT: {RECORDING} is not there, so no recorded exchange is replayed");
        return;
    }
    let recording = std::fs::read_to_string(RECORDING).expect("the recording can be read");
    let differences = Differences::read();
    let home = Home::new();
    FILES.iter().for_each(|(name, text)| home.write(name, text));
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let (mut replayed, mut left_out) = (0, 0);
    let (mut unexpected, mut agreements, mut list) = (Vec::new(), Vec::new(), Vec::new());
    let mut undocumented = Vec::new();
    let lines: Vec<Json> = recording.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    for (at, line) in lines.iter().enumerate() {
        let (Some(seq), Some(name)) = (line["seq"].as_u64(), line["name"].as_str()) else {
            left_out += 1;
            continue;
        };
        let text = |field: &str| line["request"][field].as_str().unwrap_or_default();
        let (method, path) = (text("method"), text("path"));
        if differences.leave_out(name, method, path) {
            left_out += 1;
            continue;
        }
        replayed += 1;
        for (_, method, path, body) in NOT_RECORDED.iter().filter(|(before, ..)| *before == seq) {
            let answer = weir.send(method, path, &[("Content-Type", "application/json")], body.as_bytes());
            assert!(answer.status < 300, "{method} {path}: {}", answer.shown());
            if path.starts_with("/api/v1/ingest/") {
                wait_stream(&weir, path, &lines[at..]);
            }
        }
        let headers: Vec<(&str, &str)> = line["request"]["headers"]
            .as_object()
            .map(|headers| headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect())
            .unwrap_or_default();
        let answer = weir.send(method, path, &headers, text("body").as_bytes());
        // Bodies in are those of an older release, some of which are taken and not described.
        let sent = Sent { method, target: path, content_type: None, body: b"" };
        undocumented.extend(breach(&sent, &answer).map(|how| format!("{seq} {name} {method} {path}: {how}")));
        if method == "POST" && path.starts_with("/api/v1/ingest/") && answer.status == 200 {
            wait_stream(&weir, path, &lines[at..]);
        }
        match (differs(line, &answer, &weir), differences.lines.get(&seq)) {
            (Some(how), None) => {
                list.push(format!("{seq} {name} | {how}"));
                let recorded = &line["response"];
                unexpected.push(format!("{seq} {name}: {how}\n  recorded {recorded}\n  got      {}", answer.shown()));
            }
            (None, Some(reason)) => agreements.push(format!("{seq} {name} | {reason}")),
            _ => {}
        }
    }
    eprintln!(
        "{replayed} exchanges replayed, {} of them known to differ, {left_out} of routes that are not here",
        differences.lines.len()
    );
    if std::env::var_os("WEIR_WIRE_LIST").is_some() {
        println!("{}", list.join("\n"));
    }
    assert!(unexpected.is_empty(), "{} exchanges differ and are not in the list:\n{}", unexpected.len(), unexpected.join("\n"));
    assert!(undocumented.is_empty(), "{} answers are not as documented:\n{}", undocumented.len(), undocumented.join("\n"));
    assert!(agreements.is_empty(), "these agree now; take them off the list:\n{}", agreements.join("\n"));
}

/// The recording looked at a stream some time after it was created: once it had ended, if it did. `rest`: what was recorded
/// since.
fn wait_stream(weir: &Weir, path: &str, rest: &[Json]) {
    let status = rest.iter().filter(|line| line["request"]["path"] == path).find_map(|line| {
        let body = match &line["response"]["body"] {
            Json::String(text) => serde_json::from_str(text).ok()?,
            body => body.clone(),
        };
        body["status"].as_str().map(str::to_owned)
    });
    let ends = match status {
        Some(status) => ["Completed", "Failed"].contains(&status.as_str()),
        // Nobody looked.
        None => rest[0]["request"]["body"].as_str().is_some_and(|body| body.contains("ingestLimit")),
    };
    let deadline = Instant::now() + if ends { STREAM_MAX } else { STREAM_LOOK };
    while Instant::now() < deadline && matches!(weir.get(path).json()["status"].as_str(), Some("Running")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    weir.catch_up();
}

/// How the answer differs from the recorded one.
fn differs(line: &Json, answer: &Answer, weir: &Weir) -> Option<String> {
    let recorded = &line["response"];
    if recorded["status"] != json!(answer.status) {
        return Some(format!("status {} for {}", answer.status, recorded["status"]));
    }
    if recorded["content_type"].as_str() != answer.header("content-type") {
        return Some(format!("content type {:?} for {}", answer.header("content-type"), recorded["content_type"]));
    }
    let expected = recorded["body"].as_str().map_or_else(|| recorded["body"].to_string(), str::to_owned);
    let expected = expected.replace(RECORDED_ADDRESS, &weir.address().to_string());
    let found = answer.text();
    // Long bodies were shortened on purpose.
    let alike = match expected.split_once('…') {
        Some((begin, _)) => found.starts_with(begin),
        None => match (serde_json::from_str::<Json>(&expected), serde_json::from_str::<Json>(&found)) {
            (Ok(mut expected), Ok(mut found)) => {
                let varies = line["varies"].as_array().into_iter().flatten().filter_map(Json::as_str);
                for pointer in varies.filter_map(|pointer| pointer.split_once("(parsed)").map(|(_, pointer)| pointer)) {
                    for body in [&mut expected, &mut found] {
                        body.pointer_mut(pointer).map(Json::take);
                    }
                }
                mask(&mut expected);
                mask(&mut found);
                return difference(&expected, &found, "");
            }
            _ => expected == found,
        },
    };
    (!alike).then(|| "body".to_owned())
}

/// The first place where two bodies differ.
fn difference(expected: &Json, found: &Json, at: &str) -> Option<String> {
    match (expected, found) {
        (Json::Object(a), Json::Object(b)) => {
            let missing = a.keys().find(|key| !b.contains_key(*key)).map(|key| format!("body: {at}/{key} is missing"));
            let surplus = || b.keys().find(|key| !a.contains_key(*key)).map(|key| format!("body: {at}/{key} is new"));
            let inside = || a.iter().find_map(|(key, value)| difference(value, b.get(key)?, &format!("{at}/{key}")));
            inside().or(missing).or_else(surplus)
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(index, (a, b))| difference(a, b, &format!("{at}/{index}")))
        }
        _ if expected == found => None,
        _ => Some(format!("body: {at} is {found} for {expected}")),
    }
}

fn mask(body: &mut Json) {
    match body {
        Json::Object(fields) => {
            for (name, value) in fields {
                if VARYING.contains(&name.as_str()) { *value = Json::Null } else { mask(value) }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}
