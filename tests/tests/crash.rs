//! Exactly once, across kill -9: weir is killed at random moments while streams run, and in the end the graph and the
//! files of results are those of a run that nobody disturbed, and both are those of a calculation that knows no weir.
//!
//!     records ─ file ─> weir (killed, started, killed, …) ─> graph, files of results
//!        └──── the naive calculation ────────────────────────> graph, results record by record      must be equal
//!
//! Meanwhile clients write over HTTP, and an operator creates and deletes standing queries and takes backups: what was
//! acknowledged is so after each start.
//!
//! `WEIR_CRASH_KILLS` says how often (50), `WEIR_CRASH_SEED` when and with which records (the clock).

#[path = "crash/operator.rs"]
mod operator;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::random::Random;
use weir_tests::service::{Home, START_MAX, Weir, wait_until};

use operator::Operator;

const KILLS: u64 = 50;

/// Different processes; few, so that they are renamed, moved and ended often.
const PROCESSES: u64 = 300;

const CUSTOMERS: u64 = 5;

/// Records for each kill, and how many go in a second: the streams are to run when weir is killed, nearly always.
const RECORDS_A_KILL: u64 = 300;
const RECORDS_A_SECOND: u64 = 1_500;

/// The longest time from readiness to the kill.
const LIFE_MAX: Duration = Duration::from_millis(300);

/// Of these starts, one is killed before weir is ready.
const KILLED_AT_START_ONCE_IN: u64 = 4;

/// Clients that write over HTTP at the same time.
const WRITERS: usize = 4;

const SETTINGS: &[&str] = &["-Dweir.should-resume-ingest=true", "-Dweir.workers=2"];

/// What each record does: counts itself at two places (so that a record that is lost or comes twice is seen), sets a
/// property, replaces its edge, and ends the process with everything at it.
const INGEST: &str = "
    MATCH (n), (c) WHERE id(n) = idFrom('process', $that.id) AND id(c) = idFrom('customer', $that.customer)
    SET n:Process, n.id = $that.id, n.name = $that.name, n.events = coalesce(n.events, 0) + 1,
        c.id = $that.customer, c.events = coalesce(c.events, 0) + 1
    WITH n
    OPTIONAL MATCH (n)-[r:parent]->() DELETE r
    WITH DISTINCT n, CASE WHEN $that.exit THEN n END AS ended
    DETACH DELETE ended
    WITH n
    UNWIND $that.parents AS parent
    MATCH (p) WHERE id(p) = idFrom('process', parent)
    CREATE (n)-[:parent]->(p)";

/// A second stream that writes where the first does, so that commits conflict.
const TICKS: &str = "
    MATCH (c) WHERE id(c) = idFrom('customer', toInteger($that) % 5)
    SET c.ticks = coalesce(c.ticks, 0) + 1";

const CHAINS: &str = "
    MATCH (a)-[:parent]->(b)-[:parent]->(c)-[:parent]->(d)
    WHERE a.name IS NOT NULL AND d.name IS NOT NULL
    RETURN DISTINCT id(a) AS id";

const PAIRS: &str = "
    MATCH (a)-[:parent]->(b) WHERE a.name IS NOT NULL
    RETURN a.id AS child, a.name AS name, b.id AS parent, b.name AS parentName";

const EVENTS: &str = "MATCH (n:Process) RETURN n.id AS id, n.events AS events";

/// The standing queries: name, pattern, mode.
const QUERIES: [(&str, &str, &str); 3] =
    [("chains", CHAINS, "DistinctId"), ("pairs", PAIRS, "MultipleValues"), ("events", EVENTS, "MultipleValues")];

#[test]
fn a_killed_weir_loses_nothing_and_does_nothing_twice() {
    let kills = std::env::var("WEIR_CRASH_KILLS").map_or(KILLS, |text| text.parse().expect("WEIR_CRASH_KILLS is a number"));
    let mut random = Random::from_environment("WEIR_CRASH_SEED");
    let records = records(kills.max(10) * RECORDS_A_KILL, &mut random);

    let began = Instant::now();
    let expected = calculate(&records);
    eprintln!("{} records; results to be delivered: {}, calculated in {:?}", records.len(), expected.counts(), began.elapsed());

    let began = Instant::now();
    let undisturbed = run_undisturbed(&records);
    eprintln!("the undisturbed run took {:?}", began.elapsed());
    expected.compare("the undisturbed run", &undisturbed);

    let began = Instant::now();
    let (disturbed, writes) = run_disturbed(&records, kills, &mut random);
    eprintln!("{kills} kills took {:?}", began.elapsed());
    assert_eq!(undisturbed.graph, disturbed.graph, "the graph after {kills} kills is not that of the undisturbed run");
    expected.compare("the run with kills", &disturbed);
    writes.check();
}

#[derive(Clone, Debug)]
struct Record {
    id: u64,
    customer: u64,
    name: Option<u64>,
    parent: Option<u64>,
    exit: bool,
}

fn records(count: u64, random: &mut Random) -> Vec<Record> {
    let record = |_| {
        let id = random.below(PROCESSES);
        let exit = random.once_in(8);
        // A process is nobody's parent before it was seen, and may be anybody's after: circles and self loops occur.
        let parent = (!exit && !random.once_in(10)).then(|| random.below(PROCESSES));
        Record { id, customer: id % CUSTOMERS, name: (!random.once_in(6)).then(|| random.below(4)), parent, exit }
    };
    (0..count).map(record).collect()
}

fn file(records: &[Record]) -> String {
    let line = |record: &Record| {
        let Record { id, customer, name, parent, exit } = record;
        let name = name.map(|name| format!("prog{name}"));
        let parents: Vec<u64> = parent.iter().copied().collect();
        json!({"id": id, "customer": customer, "name": name, "parents": parents, "exit": exit}).to_string()
    };
    records.iter().map(|record| line(record) + "\n").collect()
}

/// What a run leaves: the graph as sorted lines, the results as they stand in the files.
struct Outcome {
    graph: Vec<String>,
    files: BTreeMap<&'static str, Vec<Json>>,
    ids: BTreeMap<String, u64>,
    /// Kept until the comparison is over, so that its files can be looked at when it fails.
    home: Home,
}

// ---- the naive calculation

/// What must come out.
struct Expected {
    graph: Vec<String>,
    /// By query: for each record that causes results, those results as a multiset, in the order of the records.
    results: BTreeMap<&'static str, Vec<Vec<(bool, String)>>>,
}

#[derive(Clone, Default, PartialEq)]
struct Process {
    known: bool,
    name: Option<u64>,
    events: u64,
    parent: Option<usize>,
}

/// Applies record after record and looks at everything after each of them.
fn calculate(records: &[Record]) -> Expected {
    let mut processes = vec![Process::default(); PROCESSES as usize];
    let mut customers = vec![0u64; CUSTOMERS as usize];
    let mut results: BTreeMap<&str, Vec<Vec<(bool, String)>>> = QUERIES.iter().map(|(name, ..)| (*name, Vec::new())).collect();
    let mut shown: BTreeMap<&str, Vec<Option<String>>> =
        QUERIES.iter().map(|(name, ..)| (*name, vec![None; PROCESSES as usize])).collect();
    for record in records {
        let id = record.id as usize;
        customers[record.customer as usize] += 1;
        let events = processes[id].events + 1;
        let touched: Vec<usize> = touched(&processes, id);
        if record.exit {
            processes[id] = Process::default();
            for other in processes.iter_mut().filter(|other| other.parent == Some(id)) {
                other.parent = None;
            }
        } else {
            let parent = record.parent.map(|parent| parent as usize);
            processes[id] = Process { known: true, name: record.name, events, parent };
        }
        for (query, rows) in &mut shown {
            let mut caused = Vec::new();
            for &place in &touched {
                let now = match *query {
                    "chains" => chain(&processes, place),
                    "pairs" => pair(&processes, place),
                    _ => processes[place].known.then(|| json!({"id": place, "events": processes[place].events}).to_string()),
                };
                if rows[place] != now {
                    caused.extend(rows[place].take().map(|row| (false, row)));
                    caused.extend(now.clone().map(|row| (true, row)));
                    rows[place] = now;
                }
            }
            if !caused.is_empty() {
                caused.sort();
                results.entry(query).or_default().push(caused);
            }
        }
    }
    let mut graph = Vec::new();
    for (id, process) in processes.iter().enumerate() {
        if process.known {
            let properties = properties([("id", json!(id)), ("name", name(process)), ("events", json!(process.events))]);
            graph.push(format!("process {id} {}", json!([["Process"], properties])));
        } else if processes.iter().any(|child| child.parent == Some(id)) {
            // An end of an edge is a node, whatever is known of it.
            graph.push(format!("process {id} {}", json!([[], {}])));
        }
        graph.extend(process.parent.map(|parent| format!("process {id} -parent-> process {parent}")));
    }
    for (id, events) in customers.iter().enumerate() {
        let ticks = records.len() as u64 / CUSTOMERS;
        graph.push(format!(
            "customer {id} {}",
            json!([[], properties([("id", json!(id)), ("events", json!(events)), ("ticks", json!(ticks))])])
        ));
    }
    graph.sort();
    Expected { graph, results }
}

/// Whose rows a change of this process can change: its own, and those from which it can be reached in three steps.
fn touched(processes: &[Process], id: usize) -> Vec<usize> {
    let reaches = |place: &usize| {
        let mut at = Some(*place);
        (0..=3).any(|_| {
            let found = at == Some(id);
            at = at.and_then(|at| processes[at].parent);
            found
        })
    };
    (0..processes.len()).filter(|place| *place == id || reaches(place)).collect()
}

/// Three edges in a row. A pattern in mode DistinctId, unlike an ad-hoc MATCH, may walk one edge twice, but no node is a
/// neighbour of its own: a cycle of two is a chain, a self loop is none.
fn chain(processes: &[Process], a: usize) -> Option<String> {
    let b = processes[a].parent?;
    let c = processes[b].parent?;
    let d = processes[c].parent?;
    let named = processes[a].name.is_some() && processes[d].name.is_some();
    let apart = a != b && b != c && c != d;
    (named && apart).then(|| json!({"id": a}).to_string())
}

fn pair(processes: &[Process], a: usize) -> Option<String> {
    let b = processes[a].parent?;
    processes[a].name?;
    let parent = if processes[b].known { json!(b) } else { Json::Null };
    Some(json!({"child": a, "name": name(&processes[a]), "parent": parent, "parentName": name(&processes[b])}).to_string())
}

fn name(process: &Process) -> Json {
    process.name.map_or(Json::Null, |name| json!(format!("prog{name}")))
}

/// By name, and without those that are not there.
fn properties<const N: usize>(all: [(&str, Json); N]) -> BTreeMap<String, Json> {
    all.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

impl Expected {
    fn counts(&self) -> String {
        let count = |results: &Vec<Vec<(bool, String)>>| results.iter().map(Vec::len).sum::<usize>();
        self.results.iter().map(|(query, results)| format!("{query} {}", count(results))).collect::<Vec<_>>().join(", ")
    }

    fn compare(&self, what: &str, outcome: &Outcome) {
        compare_lines(&format!("{what}: the graph"), &self.graph, &outcome.graph);
        for (query, caused) in &self.results {
            let lines = &outcome.files[query];
            let mut rest = lines.iter();
            // Record by record: the results of one record come in any order, those of the next one after them.
            for (number, expected) in caused.iter().enumerate() {
                let mut found: Vec<(bool, String)> =
                    rest.by_ref().take(expected.len()).map(|line| outcome.result(line)).collect();
                found.sort();
                let at = lines.len() - rest.len();
                assert_eq!(*expected, found, "{what}: the file of {query}, line {at}, change {number} of {}", caused.len());
            }
            assert_eq!(rest.len(), 0, "{what}: the file of {query} has lines too many: {:?}", rest.next());
            self.compare_ids(what, query, lines);
        }
    }

    /// A match and its cancellation have one result id, which no other data has.
    fn compare_ids(&self, what: &str, query: &str, lines: &[Json]) {
        let mut ids: BTreeMap<String, &Json> = BTreeMap::new();
        for line in lines {
            let (data, id) = (line["data"].to_string(), &line["meta"]["resultId"]);
            let known = *ids.entry(data).or_insert(id);
            assert_eq!(known, id, "{what}: {query}: the same data have two result ids: {line}");
        }
        let different: BTreeSet<String> = ids.values().map(|id| id.to_string()).collect();
        assert_eq!(different.len(), ids.len(), "{what}: {query}: different data share a result id");
    }
}

impl Outcome {
    /// A line of a file as the calculation writes it: node ids as the numbers they were made from.
    fn result(&self, line: &Json) -> (bool, String) {
        let mut data = line["data"].clone();
        if let Some(number) = data["id"].as_str().and_then(|id| self.ids.get(id)) {
            data["id"] = json!(number);
        }
        (line["meta"]["isPositiveMatch"].as_bool().expect("a result says whether it is one"), data.to_string())
    }
}

fn compare_lines(what: &str, expected: &[String], found: &[String]) {
    let (wanted, there): (BTreeSet<_>, BTreeSet<_>) = (expected.iter().collect(), found.iter().collect());
    let missing: Vec<_> = wanted.difference(&there).take(10).collect();
    let surplus: Vec<_> = there.difference(&wanted).take(10).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "{what}: missing {missing:#?}, too many {surplus:#?}");
    assert_eq!(expected.len(), found.len(), "{what}: a line is there twice");
}

// ---- weir

fn run_undisturbed(records: &[Record]) -> Outcome {
    let home = Home::new();
    home.write("records.jsonl", file(records));
    std::fs::create_dir(home.file("rotated")).expect("a directory");
    let weir = home.start(SETTINGS);
    create(&weir, records.len() as u64, None);
    wait_completed(&weir, records.len() as u64);
    finish(home, weir)
}

/// Kills weir again and again, then lets it finish.
fn run_disturbed(records: &[Record], kills: u64, random: &mut Random) -> (Outcome, Writes) {
    let home = Home::new();
    home.write("records.jsonl", file(records));
    std::fs::create_dir(home.file("rotated")).expect("a directory");
    let weir = home.start(SETTINGS);
    create(&weir, records.len() as u64, Some(RECORDS_A_SECOND));
    let (mut writes, mut operator) = (Writes::default(), Operator::new(random.number()));
    live(weir, &writes, &mut operator, random);
    let (mut killed_at_start, mut start_max) = (0, Duration::from_millis(100));
    for _ in 1..kills {
        let began = Instant::now();
        let mut weir = home.spawn(SETTINGS);
        // Some are killed while they load, replay and reinstall: at any moment of the time that has taken so far.
        let early = random.once_in(KILLED_AT_START_ONCE_IN);
        if early && !weir.wait_ready_at_most(Duration::from_micros(random.below(start_max.as_micros() as u64))) {
            killed_at_start += 1;
            weir.kill();
            continue;
        }
        weir.wait_ready();
        start_max = start_max.max(began.elapsed());
        operator.look(&weir);
        live(weir, &writes, &mut operator, random);
    }
    let weir = home.start(SETTINGS);
    let after_the_last = weir.get("/api/v1/ingest/processes").expect(200).json();
    eprintln!(
        "{killed_at_start} of {kills} kills came during the start, which took up to {start_max:?}; \
         after the last one the stream was {} and of the writes these (acknowledged, made) were: {:?}; {}",
        after_the_last["status"],
        writes.counts(),
        operator.counts()
    );
    operator.look(&weir);
    wait_completed(&weir, records.len() as u64);
    writes.read(&weir);
    let guests = operator.read(&weir);
    let outcome = finish(home, weir);
    operator.check(&outcome.home, &guests);
    (outcome, writes)
}

fn create(weir: &Weir, records: u64, per_second: Option<u64>) {
    for ((name, query, mode), compression) in QUERIES.into_iter().zip(["None", "Gzip", "Zstd"]) {
        let body = json!({
            "pattern": {"type": "Cypher", "query": query, "mode": mode},
            "includeCancellations": true,
            "outputs": {"file": {"type": "WriteToFile", "path": format!("{name}.jsonl")}, "rotated": {"type": "WriteToFile",
                "path": format!("rotated/{name}.jsonl"), "rotation": {"bytesMax": 8_000, "intervalSeconds": 1, "compression": compression}}},
        });
        weir.post(&format!("/api/v1/query/standing/{name}"), &body).expect(201);
    }
    let mut processes = json!({"type": "FileIngest", "path": "records.jsonl", "format": {"type": "CypherJson", "query": INGEST}});
    let mut ticks =
        json!({"type": "NumberIteratorIngest", "ingestLimit": records, "format": {"type": "CypherLine", "query": TICKS}});
    if let Some(per_second) = per_second {
        processes["maximumPerSecond"] = json!(per_second);
        ticks["maximumPerSecond"] = json!(per_second);
    }
    weir.post("/api/v1/ingest/processes", &processes).expect(200);
    weir.post("/api/v1/ingest/ticks", &ticks).expect(200);
}

fn wait_completed(weir: &Weir, records: u64) {
    // A hundred a second is what a debug build under load would reach.
    let limit = Duration::from_secs(60 + records / 100);
    for stream in ["processes", "ticks"] {
        let stream = weir.wait_ingest(stream, "Completed", limit);
        assert!(stream.get("failedRecords").is_none(), "records failed: {stream}");
    }
}

/// Reads the graph, stops weir in good order, reads the files; and makes sure that a last start adds nothing to either.
fn finish(home: Home, weir: Weir) -> Outcome {
    let graph = graph(&weir);
    weir.stop();
    let files = files(&home);
    let weir = home.start(SETTINGS);
    assert_eq!(graph.0, self::graph(&weir).0, "an orderly stop and a start changed the graph");
    weir.stop();
    for (query, lines) in self::files(&home) {
        assert_eq!(files[query].len(), lines.len(), "an orderly stop and a start added results of {query}");
    }
    Outcome { graph: graph.0, files, ids: graph.1, home }
}

fn files(home: &Home) -> BTreeMap<&'static str, Vec<Json>> {
    let lines = |name: &str| {
        let text = home.read(&format!("{name}.jsonl"));
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        assert!(sorted(&text) == sorted(&rotated(home, name)), "the files of {name} that were put aside hold other results");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    };
    QUERIES.iter().map(|(name, ..)| (*name, lines(name))).collect()
}

/// What the file that is put aside holds, in all its parts. Of one that is there in both forms one is enough: weir may have ended
/// between the two.
fn rotated(home: &Home, name: &str) -> String {
    let entries = std::fs::read_dir(home.file("rotated")).expect("the directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names.filter(|found| found.starts_with(&format!("{name}-"))).collect();
    names.sort_unstable();
    let compressed: BTreeSet<String> = names.iter().filter_map(|name| Some(name.rsplit_once(".jsonl.")?.0.to_owned())).collect();
    let parts = names.iter().filter(|name| !name.strip_suffix(".jsonl").is_some_and(|stem| compressed.contains(stem)));
    let part = |name: &String| {
        let file = std::fs::File::open(home.file(&format!("rotated/{name}"))).expect("the file");
        let mut text = String::new();
        let mut reader: Box<dyn std::io::Read> = match name.rsplit('.').next() {
            Some("gz") => Box::new(flate2::read::GzDecoder::new(file)),
            Some("zst") => Box::new(zstd::Decoder::new(file).expect("a decoder")),
            _ => Box::new(file),
        };
        reader.read_to_string(&mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
        text
    };
    let parts: Vec<String> = parts.map(part).collect();
    assert!(parts.len() > 3, "hardly a file of {name} was put aside");
    parts.concat() + &home.read(&format!("rotated/{name}.jsonl"))
}

/// Everything the streams made, as lines; and the number behind each id.
fn graph(weir: &Weir) -> (Vec<String>, BTreeMap<String, u64>) {
    let mut names = BTreeMap::new();
    let mut ids = BTreeMap::new();
    for (kind, count) in [("process", PROCESSES), ("customer", CUSTOMERS)] {
        for row in weir.rows(&format!("UNWIND range(0, {count} - 1) AS number RETURN idFrom('{kind}', number), number")) {
            let (id, number) = (row[0].as_str().expect("an id").to_owned(), row[1].as_u64().expect("a number"));
            names.insert(id.clone(), format!("{kind} {number}"));
            if kind == "process" {
                ids.insert(id, number);
            }
        }
    }
    let name = |id: &Json| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_else(|| format!("unknown {id}"));
    let nodes = weir.rows("MATCH (n) WHERE n.write IS NULL RETURN strId(n), labels(n), properties(n)");
    let node = |row: &Json| {
        let properties: BTreeMap<String, Json> = serde_json::from_value(row[2].clone()).expect("properties");
        format!("{} {}", name(&row[0]), json!([row[1], properties]))
    };
    let edges = weir.rows("MATCH (a)-[r]->(b) RETURN strId(a), type(r), strId(b)");
    let edge = |row: &Json| format!("{} -{}-> {}", name(&row[0]), row[1].as_str().unwrap_or_default(), name(&row[2]));
    let mut lines: Vec<String> = nodes.iter().map(node).chain(edges.iter().map(edge)).collect();
    lines.sort();
    (lines, ids)
}

/// Lets weir live for a while, writing to it all the time, and kills it.
fn live(weir: Weir, writes: &Writes, operator: &mut Operator, random: &mut Random) {
    let life = Duration::from_micros(random.below(LIFE_MAX.as_micros() as u64));
    let address = weir.address();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(move || while writes.write(address) {});
        }
        scope.spawn(move || while operator.act(address, writes) {});
        sleep(life);
        weir.kill();
    });
}

/// Writes over HTTP, each to a node of its own and to one of ten counters.
#[derive(Default)]
struct Writes {
    next: AtomicU64,
    acknowledged: Mutex<BTreeSet<u64>>,
    /// In the end: which are there, and what the counters add up to.
    there: BTreeSet<u64>,
    counted: Option<u64>,
}

impl Writes {
    /// False when weir is gone.
    fn write(&self, address: SocketAddr) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let counter = number % 10;
        let query = format!(
            "MATCH (w), (c) WHERE id(w) = idFrom('write', {number}) AND id(c) = idFrom('counter', {counter})
             SET w.write = {number}, c.write = 0, c.count = coalesce(c.count, 0) + 1 RETURN c.count"
        );
        match client::send(address, "POST", "/api/v1/query/cypher", &[("Content-Type", "text/plain")], query.as_bytes()) {
            Ok(answer) => {
                assert_eq!(answer.status, 200, "a write was refused: {}", answer.shown());
                self.acknowledged.lock().expect("no writer panics with it").insert(number)
            }
            // It may have happened or not.
            Err(_) => false,
        }
    }

    fn acknowledged(&self) -> BTreeSet<u64> {
        self.acknowledged.lock().expect("no writer panics with it").clone()
    }

    fn counts(&self) -> (usize, u64) {
        (self.acknowledged.lock().expect("no writer panics with it").len(), self.next.load(Ordering::Relaxed))
    }

    fn read(&mut self, weir: &Weir) {
        let rows = weir.rows("MATCH (w) WHERE w.write IS NOT NULL AND w.count IS NULL RETURN w.write");
        self.there = rows.iter().map(|row| row[0].as_u64().expect("a number")).collect();
        self.counted = weir.rows("MATCH (c) WHERE c.count IS NOT NULL RETURN sum(c.count)")[0][0].as_u64();
    }

    /// What was acknowledged is there, what was not may be; and each write that is there was counted once.
    fn check(self) {
        let (_, made) = self.counts();
        assert!(self.there.iter().all(|number| *number < made), "there are writes that nobody made");
        self.check_against(&self.acknowledged());
    }

    fn check_against(&self, acknowledged: &BTreeSet<u64>) {
        let lost: Vec<u64> = acknowledged.difference(&self.there).copied().collect();
        assert!(lost.is_empty(), "of {} writes that were acknowledged these are lost: {lost:?}", acknowledged.len());
        assert_eq!(self.counted, Some(self.there.len() as u64), "a write is counted without being there, or twice");
    }
}

#[test]
fn a_kill_before_anything_happened_leaves_a_directory_that_opens() {
    let home = Home::new();
    for micros in [0, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000] {
        let mut weir = home.spawn(SETTINGS);
        weir.wait_ready_at_most(Duration::from_micros(micros));
        weir.kill();
    }
    let weir = home.start(SETTINGS);
    wait_until("weir says that it is ready", START_MAX, || weir.get("/api/v1/admin/readiness").status == 204);
    assert_eq!(weir.rows("MATCH (n) RETURN count(n)"), [json!([0])]);
    weir.stop();
}
