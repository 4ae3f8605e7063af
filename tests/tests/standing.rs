//! The recorded standing queries of the reference service, step by step against the real binary: after each step the results
//! that stand, those taken back left out, must be the same, and what is refused must be refused with the same words.
//!
//! The reference takes some results back that it never sent, and sends some only to take them back: neither is looked at. What
//! else differs stands in `standing-differences.txt`, with a reason each. The test fails on a difference that is not there,
//! and on an agreement that is. `WEIR_STANDING_LIST=1` prints what differs in the form of the list.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client::Answer;
use weir_tests::endpoint::Endpoint;
use weir_tests::service::{Home, Weir};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recorded/standing.jsonl");

const DIFFERENCES: &str = include_str!("../standing-differences.txt");

/// Where the recorded service sent its results.
const RECORDED_ENDPOINT: &str = "127.0.0.1:18555";

/// How long the results of a step may take; the recording waited half as long.
const STEP_MAX: Duration = Duration::from_secs(1);

/// A reason that begins so stands for what depends on which result comes first.
const MAY_AGREE: &str = "May agree: ";

/// Results that should not be there come within this, if they come.
const QUIET: Duration = Duration::from_millis(60);

#[test]
fn recorded_standing_queries_report_alike() {
    if !Path::new(RECORDING).exists() {
        eprintln!("**** LEFT OUT: {RECORDING} is not there, so no recorded standing query is replayed");
        return;
    }
    let recording = std::fs::read_to_string(RECORDING).expect("the recording can be read");
    let mut differences: BTreeMap<&str, &str> = BTreeMap::new();
    for line in DIFFERENCES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, reason) = line.split_once(" | ").unwrap_or_else(|| panic!("a reason is missing: {line}"));
        differences.insert(name, reason);
    }
    let mut replay = Replay::new();
    let (mut replayed, mut unexpected, mut agreements) = (0, Vec::new(), Vec::new());
    for line in recording.lines() {
        let line: Json = serde_json::from_str(line).expect("a line of JSON");
        let name = line["name"].as_str().expect("a name");
        replayed += 1;
        let reason = differences.get(name);
        let mut differs = replay.differs(&line, STEP_MAX);
        if differs.is_some() && reason.is_none() {
            // On a busy machine results may come late.
            replay = Replay::new();
            differs = replay.differs(&line, 30 * STEP_MAX);
        }
        match (differs, reason) {
            (None, Some(reason)) if reason.starts_with(MAY_AGREE) => {}
            (Some(how), None) => unexpected.push(format!("{name} | {how}")),
            (None, Some(reason)) => agreements.push(format!("{name} | {reason}")),
            _ => {}
        }
    }
    eprintln!("{replayed} scenarios replayed, {} of them known to differ", differences.len());
    if std::env::var_os("WEIR_STANDING_LIST").is_some() {
        println!("{}", unexpected.join("\n"));
    }
    assert!(unexpected.is_empty(), "{} scenarios differ and are not in the list:\n{}", unexpected.len(), unexpected.join("\n"));
    assert!(agreements.is_empty(), "these agree now; take them off the list:\n{}", agreements.join("\n"));
    assert_eq!(replayed, 203);
}

struct Replay {
    endpoint: Endpoint,
    home: Home,
    weir: Weir,
}

impl Replay {
    fn new() -> Replay {
        let home = Home::new();
        let weir = home.start(&["-Dweir.store.type=in-memory"]);
        Replay { endpoint: Endpoint::start("/fail"), home, weir }
    }

    /// How a scenario, or an attempt to create a query, goes otherwise than recorded.
    fn differs(&mut self, line: &Json, step_max: Duration) -> Option<String> {
        let steps = line["steps"].as_array().expect("steps");
        if steps.iter().any(|step| step["do"] == "propagate") {
            // What other scenarios left would be reported too.
            *self = Replay::new();
        }
        let name = line["name"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let target = format!("/api/v1/query/standing/{name}");
        let (mut recorded, mut found) = (Net::default(), Net::default());
        let mut seen = Seen::default();
        let mut differs = None;
        // What was still on its way to a query that is no more.
        self.endpoint.take();
        for (at, step) in steps.iter().enumerate() {
            let answer = self.act(&target, step);
            if let Some(how) = answer.and_then(|answer| differs_answer(step, &answer)) {
                differs.get_or_insert(format!("step {at}, {}: {how}", step["do"]));
            }
            items_of(step).into_iter().for_each(|(path, item)| recorded.add(&path, item));
            let begun = Instant::now();
            let mut changed = begun;
            loop {
                for (path, item) in self.received(line, &mut seen) {
                    found.add(&path, item);
                    changed = Instant::now();
                }
                // What stands may be as recorded before anything has come.
                let alike = found.standing == recorded.standing && changed.elapsed() > QUIET;
                if alike || begun.elapsed() > step_max || differs.is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            if let Some(how) = recorded.differs(&found) {
                differs.get_or_insert(format!("step {at}, {}: {how}", step["do"]));
            }
        }
        if steps.iter().any(|step| step["results"].is_array()) {
            std::thread::sleep(QUIET);
            self.received(line, &mut seen).into_iter().for_each(|(path, item)| found.add(&path, item));
            differs = differs.or_else(|| recorded.differs(&found).map(|how| format!("at the end: {how}")));
        }
        if line["mode"] == "DistinctId"
            && let Some((data, id)) =
                recorded.ids.iter().find(|(data, id)| found.ids.get(*data).is_some_and(|found| found != *id))
        {
            differs.get_or_insert(format!("the result id of {data} is not {id}"));
        }
        // Whatever a scenario that went otherwise has left.
        self.weir.send("DELETE", &target, &[], b"");
        differs
    }

    fn act(&self, target: &str, step: &Json) -> Option<Answer> {
        let weir = &self.weir;
        Some(match step["do"].as_str().expect("what is done") {
            "create" => {
                let request = step["request"].to_string().replace(RECORDED_ENDPOINT, &self.endpoint.address().to_string());
                weir.send("POST", target, &[("Content-Type", "application/json")], request.as_bytes())
            }
            "query" => weir.query(step["query"].as_str().expect("a query")),
            "delete" => weir.delete(target),
            "propagate" => {
                let parameters = step["parameters"].as_str().unwrap_or_default();
                let question = if parameters.is_empty() || parameters.starts_with('?') { "" } else { "?" };
                let control = format!("/api/v1/query/standing/control/propagate{question}{parameters}");
                weir.send("POST", &control, &[], b"")
            }
            "wait" => {
                std::thread::sleep(Duration::from_secs_f64(step["seconds"].as_f64().unwrap_or_default()));
                return None;
            }
            other => panic!("nothing is known of the step {other}"),
        })
    }

    /// What has come since the last look: from the endpoint, in the file of an output, on standard output.
    fn received(&self, line: &Json, seen: &mut Seen) -> Vec<(String, Json)> {
        let mut all = self.endpoint.take();
        let outputs = line["steps"].as_array().into_iter().flatten().filter_map(|step| step["request"]["outputs"].as_object());
        for output in outputs.flat_map(|outputs| outputs.values()) {
            if let (Some("WriteToFile"), Some(path)) = (output["type"].as_str(), output["path"].as_str()) {
                let text = std::fs::read_to_string(self.home.file(path)).unwrap_or_default();
                all.extend(lines_of("file", seen.file.unread(&text)));
            }
            if output["type"] == "PrintToStandardOut" {
                let text = self.home.read("stdout");
                all.extend(lines_of("stdout", seen.stdout.unread(&text)));
            }
        }
        all
    }
}

/// How far outputs have been read.
#[derive(Default)]
struct Seen {
    file: Upto,
    stdout: Upto,
}

#[derive(Default)]
struct Upto(usize);

impl Upto {
    /// Whole lines that are new.
    fn unread<'t>(&mut self, text: &'t str) -> &'t str {
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        &text[std::mem::replace(&mut self.0, end)..end]
    }
}

fn lines_of(path: &str, text: &str) -> Vec<(String, Json)> {
    let line = |line: &str| {
        // On standard output there is more around it.
        let json = line.split_once(" match: ").map_or(line, |(_, json)| json);
        (path.to_owned(), serde_json::from_str(json).unwrap_or_else(|_| json!(line)))
    };
    text.lines().map(line).collect()
}

/// What was recorded at a step.
fn items_of(step: &Json) -> Vec<(String, Json)> {
    let mut items = Vec::new();
    for result in step["results"].as_array().into_iter().flatten() {
        let raw = result["raw"].as_str().expect("what came");
        let path = result["path"].as_str().unwrap_or("/r").to_owned();
        items.push((path, serde_json::from_str(raw).unwrap_or_else(|_| json!(raw))));
    }
    for (field, path) in [("fileAppended", "file"), ("stdoutAppended", "stdout")] {
        items.extend(lines_of(path, step[field].as_str().unwrap_or_default()));
    }
    items
}

/// The results that stand, by where they went.
#[derive(Default)]
struct Net {
    standing: BTreeMap<(String, String), i64>,
    /// Of each result id the data that stand with it, in one order: the recorded cancellations do not say which they take back,
    /// and the rows of one result may be sent side by side.
    data: BTreeMap<(String, String), Vec<String>>,
    /// In mode DistinctId results have ids that follow from their data.
    ids: BTreeMap<String, String>,
    shapes: BTreeMap<String, Vec<String>>,
}

impl Net {
    fn add(&mut self, path: &str, item: Json) {
        let Some(id) = item["meta"]["resultId"].as_str().filter(|_| item["meta"]["isPositiveMatch"].is_boolean()) else {
            *self.standing.entry((path.to_owned(), masked(&canonical(&item)))).or_default() += 1;
            return;
        };
        let fields = |of: &Json| {
            let mut names: Vec<String> = of.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
            names.sort();
            names
        };
        self.shapes.insert("result".to_owned(), fields(&item));
        self.shapes.insert("meta".to_owned(), fields(&item["meta"]));
        let known = (path.to_owned(), id.to_owned());
        let rows = self.data.entry(known).or_default();
        if item["meta"]["isPositiveMatch"] == true {
            let text = canonical(&item["data"]);
            self.ids.insert(text.clone(), id.to_owned());
            rows.insert(rows.partition_point(|row| *row <= text), text.clone());
            *self.standing.entry((path.to_owned(), text)).or_default() += 1;
        } else if !rows.is_empty() {
            let taken_back = (path.to_owned(), rows.remove(0));
            *self.standing.entry(taken_back).or_default() -= 1;
            self.standing.retain(|_, count| *count > 0);
        }
    }

    fn differs(&self, found: &Net) -> Option<String> {
        if self.standing != found.standing {
            let only = |a: &Net, b: &Net| -> Vec<String> {
                let differs = a.standing.iter().filter(|(key, count)| b.standing.get(*key) != Some(*count));
                differs.map(|((path, data), count)| format!("{count} x {path} {data}")).collect()
            };
            return Some(format!("recorded {:?}, got {:?}", only(self, found), only(found, self)));
        }
        if self.shapes != found.shapes && !self.shapes.is_empty() && !found.shapes.is_empty() {
            return Some(format!("recorded results have {:?}, these {:?}", self.shapes, found.shapes));
        }
        None
    }
}

/// With the keys of its objects in order, and without the result ids that are part of its data.
fn canonical(value: &Json) -> String {
    match value {
        Json::Object(fields) => {
            let mut fields: Vec<(&String, String)> = fields
                .iter()
                .map(|(key, value)| (key, if key == "resultId" { "…".to_owned() } else { canonical(value) }))
                .collect();
            fields.sort();
            let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// Without the ids that are new each time.
fn masked(text: &str) -> String {
    match text.split_once("*Result ID:* ") {
        Some((before, after)) => format!("{before}*Result ID:* …{}", after.get(36..).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn differs_answer(step: &Json, answer: &Answer) -> Option<String> {
    if step["status"] != json!(answer.status) {
        return Some(format!("status {} for {}, {}", answer.status, step["status"], answer.text()));
    }
    let expected = step["responseBody"].as_str()?;
    let found = answer.text();
    let alike = match (serde_json::from_str::<Json>(expected), serde_json::from_str::<Json>(&found)) {
        (Ok(expected), Ok(found)) => expected == found || hinted(&expected, &found),
        _ => expected == found,
    };
    (!alike).then(|| format!("{found} for {expected}"))
}

/// Whether what is found is the expected error with one line more, which says what to do about it.
fn hinted(expected: &Json, found: &Json) -> bool {
    let (Some([expected]), Some([found])) = (expected.as_array().map(Vec::as_slice), found.as_array().map(Vec::as_slice)) else {
        return false;
    };
    let (Some(expected), Some(found)) = (expected.as_str(), found.as_str()) else { return false };
    found.strip_prefix(expected).and_then(|rest| rest.strip_prefix('\n')).is_some_and(|hint| !hint.contains('\n'))
}
