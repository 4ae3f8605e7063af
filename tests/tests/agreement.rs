//! Maintained, evaluated and the reference's answers agree, for queries and graphs that nobody chose, as time goes by.
//!
//! `WEIR_QUERIES` says how many queries, `WEIR_QUERIES_SEED` where to begin: `make campaign-queries` asks many. What differs is
//! made small and printed with its seed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_model::Value;
use weir_tests::queries::forms::{FORMS, Form};
use weir_tests::queries::graph::{BEGIN, Change, Edge, History};
use weir_tests::queries::minimize::minimize;
use weir_tests::queries::setting::{Baseline, Begin, Passing, Pause, Replacement, Setting};
use weir_tests::queries::text::Relative;
use weir_tests::queries::{Query, Tally, World, run};

/// In `make test`: a few seconds of them, the same every time.
const QUERIES: usize = 500;
const SEED: u64 = 1;
/// How often the long form says where it is.
const QUERIES_BETWEEN_WORDS: usize = 5_000;
/// A seed is mostly through in a second.
const LONG: Duration = Duration::from_secs(30);
const TOO_LONG: Duration = Duration::from_secs(600);

/// Says which seed takes long, and that it is one that never ends.
fn watch() -> Arc<Mutex<(u64, Instant)>> {
    let current = Arc::new(Mutex::new((0, Instant::now())));
    let watched = Arc::downgrade(&current);
    std::thread::spawn(move || {
        let mut told = None;
        while let Some(current) = watched.upgrade() {
            let (seed, since) = *current.lock().expect("nobody panics with it");
            if since.elapsed() > LONG && told != Some(seed) {
                told = Some(seed);
                eprintln!("seed {seed} takes more than {LONG:?}");
            }
            if since.elapsed() > TOO_LONG {
                eprintln!("seed {seed} does not end");
                #[expect(clippy::disallowed_methods, reason = "the thread that does not end cannot be asked to")]
                std::process::exit(1);
            }
            drop(current);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    current
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number"))
}

#[test]
fn all_ways_to_answer_a_query_agree() {
    let (wanted, mut seed) = (number("WEIR_QUERIES", QUERIES as u64) as usize, number("WEIR_QUERIES_SEED", SEED));
    let mut tally = Tally::default();
    let (mut differing, mut told) = (0, 0);
    let watched = watch();
    while tally.queries < wanted {
        if tally.queries - told >= QUERIES_BETWEEN_WORDS {
            told = tally.queries;
            eprintln!("before seed {seed}: {tally:?}");
        }
        *watched.lock().expect("nobody panics with it") = (seed, Instant::now());
        match run(seed) {
            Ok(one) => tally.add(one),
            Err(difference) => {
                differing += 1;
                let small = minimize(&difference);
                eprintln!(
                    "WEIR_QUERIES_SEED={seed}\n{}\n{:?}\n{}{}as it was found: {}\n",
                    small.query.text,
                    small.setting,
                    small.history.shown(),
                    small.what,
                    difference.query.text
                );
                tally.queries += 1;
                assert!(differing < 10, "enough differences");
            }
        }
        seed += 1;
    }
    println!("{tally:?}");
    assert_eq!(differing, 0, "answers differ, see above");
    // A test that compares nothing proves nothing.
    assert!(tally.refused * 20 < tally.queries, "too many queries are refused: {tally:?}");
    assert!(tally.failed * 50 < tally.comparisons, "too many queries fail: {tally:?}");
    assert!(tally.without_reference * 20 < tally.comparisons, "the reference gives up too often: {tally:?}");
    assert!(tally.filled * 3 > tally.comparisons, "too many answers are empty: {tally:?}");
    assert!(tally.maintained * 40 > tally.queries, "too few queries are maintained: {tally:?}");
    assert!(tally.any_query * 10 > tally.queries * 8, "too few queries are maintained in mode AnyQuery: {tally:?}");
    // Of few worlds, none may have a clock.
    if tally.queries >= QUERIES {
        assert!(tally.clocked * 20 > tally.queries, "too few queries look at the clock: {tally:?}");
        assert!(tally.turned * 100 > tally.queries, "time alone brings next to nothing: {tally:?}");
        assert!(tally.paused * 40 > tally.queries, "the ends of pauses bring next to nothing: {tally:?}");
        assert!(tally.replaced * 40 > tally.queries, "too few queries are replaced: {tally:?}");
        assert!(tally.replaced_brought * 100 > tally.queries, "what takes a place brings next to nothing: {tally:?}");
        assert!(tally.checkpoints > 0, "no checkpoint takes anything in: {tally:?}");
        assert!(tally.from_log > 0, "none begins again from the log alone: {tally:?}");
        assert!(tally.from_checkpoint > 0, "none begins again from a checkpoint: {tally:?}");
        assert!(tally.filled_mixed * 20 > tally.queries, "too few answers are about what is hard to compare: {tally:?}");
        for (form, filled) in FORMS.iter().zip(tally.filled_forms) {
            assert!(filled > 0, "no query of the form {form:?} has an answer: {tally:?}");
        }
    }
}

fn unordered(text: &str) -> Query {
    Query { text: text.to_owned(), ordered: false, form: None }
}

/// Each record by itself, without what most tests here do without.
fn plain(workers: usize, batches_per_life: Option<usize>, begins: Vec<Begin>) -> Setting {
    let (pauses, replacements, checkpoints) = (Vec::new(), Vec::new(), Vec::new());
    Setting { workers, batch_size: 1, batches_per_life, begins, pauses, replacements, checkpoints, clock: None }
}

/// Also where the engine ends in between.
#[test]
fn what_time_and_the_end_of_a_pause_bring_is_compared() {
    let t = |n, after: u64| Change::Property(n, "t", Value::Integer((BEGIN + after) as i64));
    let records = vec![vec![t(0, 3)], vec![t(1, 9)], vec![t(0, 12)], vec![Change::Property(1, "x", Value::Integer(1))]];
    for asked in [
        "MATCH (n) WHERE timestamp() - n.t > 2",
        // The time has a name.
        "MATCH (n) WITH n, timestamp() - n.t AS age WHERE age > 2",
        "WITH timestamp() AS now MATCH (n) WHERE n.t < now - 2",
    ] {
        let query = unordered(&format!("{asked} RETURN id(n) AS n, n.t AS t"));
        for (rests, pauses) in [(false, Vec::new()), (true, vec![Some(Pause { after: 1, batches: 1 })])] {
            let paused = pauses.len();
            let begins = vec![Begin { after: 0, baseline: Baseline::All }];
            let clock = Some(vec![Passing { before: 3, rests, after: 2 }]);
            let setting = Setting { pauses, clock, ..plain(2, Some(2), begins) };
            let history = History { open_cypher: false, records: records.clone() };
            match World::new(history, setting).live(std::slice::from_ref(&query)) {
                // After 6, 12 and 15 ms.
                Ok(tally) => assert!((tally.clocked, tally.turned, tally.paused) == (1, 3, paused), "{asked}: {tally:?}"),
                Err(difference) => panic!("{asked}: {}", difference.what),
            }
        }
    }
}

/// Also where the engine ends while the other catches up, where rows are held back, and where checkpoints have most of the log.
#[test]
fn what_another_query_brings_in_the_place_of_one_is_compared() {
    let label = |n, label, present| Change::Label(n, label, present);
    let x = |n, value| Change::Property(n, "x", Value::Integer(value));
    let records = vec![
        vec![label(0, "A", true), x(0, 1)],
        vec![label(1, "B", true), x(1, 1)],
        vec![label(2, "A", true), x(2, 2)],
        vec![label(0, "B", true)],
        vec![label(2, "B", true)],
        vec![label(0, "A", false)],
        vec![x(1, 3)],
        vec![label(2, "A", false)],
    ];
    let query = unordered("MATCH (n:A) RETURN id(n) AS c0, n.x AS c1");
    let all = Begin { after: 0, baseline: Baseline::All };
    // Asked for what it holds after another has taken its place.
    let later = Begin { after: 1, baseline: Baseline::Later(5) };
    let relatives = [Relative::Labels, Relative::Properties, Relative::Columns];
    for (begin, by) in [all, later].into_iter().flat_map(|begin| relatives.map(|by| (begin, by))) {
        let replacements = vec![Some(Replacement { after: 1, batches: 2, by })];
        let setting = Setting { replacements, checkpoints: vec![true], ..plain(2, Some(2), vec![begin]) };
        let history = History { open_cypher: false, records: records.clone() };
        match World::new(history, setting).live(std::slice::from_ref(&query)) {
            Ok(tally) => {
                let installed = tally.any_query + tally.maintained;
                assert!(tally.any_query == 1 && tally.replaced == installed, "{begin:?}, {by:?}: {tally:?}");
                assert!(tally.replaced_brought == installed, "{begin:?}, {by:?}: {tally:?}");
                assert!(tally.replaced_again == installed, "{begin:?}, {by:?}: {tally:?}");
                // Until it has caught up, all of the log is needed.
                let from_log = usize::from(begin == all);
                assert!((tally.from_log, tally.from_checkpoint) == (from_log, 4 - from_log), "{begin:?}, {by:?}: {tally:?}");
                assert!(tally.checkpoints >= 3, "{begin:?}, {by:?}: {tally:?}");
            }
            Err(difference) => panic!("{begin:?}, {by:?}: {}", difference.what),
        }
    }
}

/// Asked for, all of the answer fails; maintained, the row alone is left out.
#[test]
fn a_row_that_fails_is_left_out_by_itself() {
    let edge = |target| Change::Edge(Edge { source: 0, kind: "R", target, ordinal: 0 }, true);
    let x = |n, value| Change::Property(n, "x", Value::Integer(value));
    let records = vec![vec![edge(1), x(1, 5)], vec![edge(2), x(2, 0)], vec![x(2, 2)]];
    let text = "OPTIONAL MATCH (n1)-[:R]->(n2) WITH n1, n2, 10 / n2.x AS w3 RETURN n2.x AS c0, w3 AS c1";
    let query = Query { form: Some(Form::Fails), ..unordered(text) };
    let setting = plain(1, None, vec![Begin { after: 0, baseline: Baseline::All }]);
    match World::new(History { open_cypher: false, records }, setting).live(std::slice::from_ref(&query)) {
        Ok(tally) => {
            assert!(tally.any_query == 1 && tally.failed == 0, "{tally:?}");
            // Of three looks it fails at the second, with another row beside.
            assert_eq!((tally.filled, tally.filled_forms[Form::Fails as usize]), (2, 1), "{tally:?}");
        }
        Err(difference) => panic!("{}", difference.what),
    }
}

/// Equal and not the same, the same and not equal, neither equal nor not: also as constants, in each mode that takes them.
#[test]
fn what_is_hard_to_compare_is_compared() {
    let v = |n, value| Change::Property(n, "v", value);
    let float = Value::Float;
    let records = vec![
        vec![v(0, Value::Integer(1)), v(1, float(1.0))],
        vec![v(2, float(f64::NAN)), v(3, float(-f64::NAN))],
        vec![v(4, Value::list(vec![Value::Integer(1), Value::Null])), v(5, float(-0.0)), v(6, Value::Integer(0))],
        vec![v(1, Value::text("\u{ffff}")), v(0, Value::text("\u{10ffff}"))],
        vec![v(2, Value::Integer((1 << 53) + 1)), v(3, float((1_u64 << 53) as f64))],
    ];
    for (text, maintained) in [
        ("MATCH (a), (b) WHERE a.v = b.v AND a <> b RETURN id(a) AS c0, id(b) AS c1", 0),
        ("MATCH (a), (b) WHERE a.v < b.v RETURN id(a) AS c0, b.v AS c1", 0),
        ("MATCH (a) RETURN a.v AS c0, count(*) AS c1", 0),
        ("MATCH (a) RETURN min(a.v) AS c0, max(a.v) AS c1, {bag: collect(DISTINCT a.v)} AS c2", 0),
        ("MATCH (a) OPTIONAL MATCH (b) WHERE b.v = a.v AND b <> a RETURN a.v AS c0, b.v AS c1", 0),
        ("MATCH (a) WHERE NOT a.v IN [1, 0.0, (0.0 / 0.0)] RETURN a.v AS c0", 1),
        ("MATCH (a) WHERE a.v = 1 RETURN DISTINCT id(a) AS c0", 1),
    ] {
        let setting = plain(2, Some(2), vec![Begin { after: 0, baseline: Baseline::All }]);
        let history = History { open_cypher: false, records: records.clone() };
        match World::new(history, setting).live(&[unordered(text)]) {
            Ok(tally) => {
                assert!(tally.any_query == 1 && tally.filled > 0 && tally.without_reference == 0, "{text}: {tally:?}");
                assert!(tally.maintained >= maintained, "{text}: {tally:?}");
            }
            Err(difference) => panic!("{text}: {}", difference.what),
        }
    }
}

/// What lies there when the first query comes is not walked: a node of many edges must be looked through with it nevertheless.
#[test]
fn edges_that_were_there_before_the_first_query_are_walked() {
    let edge = |source| Change::Edge(Edge { source, kind: "T", target: 0, ordinal: 0 }, true);
    let records = vec![vec![Change::Exists(0, true), Change::Exists(1, true)], vec![edge(0)], vec![edge(5)]];
    let begins = vec![Begin { after: 0, baseline: Baseline::All }];
    let setting = plain(1, Some(3), begins);
    let query = unordered("MATCH (n3)--()--() RETURN n3.x");
    for _ in 0..10 {
        let history = History { open_cypher: true, records: records.clone() };
        if let Err(difference) = World::new(history, setting.clone()).live(std::slice::from_ref(&query)) {
            panic!("{}", difference.what);
        }
    }
}

/// Neither the list that a path becomes when it leaves the engine nor one value.
#[test]
fn a_path_is_unwound_into_its_nodes_and_edges() {
    let edge = |source, target, present| Change::Edge(Edge { source, kind: "R", target, ordinal: 0 }, present);
    let mut first: Vec<Change> = (0..3).map(|n| Change::Exists(n, true)).collect();
    first.push(edge(0, 1, true));
    let records = vec![first, vec![edge(1, 2, true)], vec![edge(2, 2, true)], vec![edge(0, 1, false)]];
    let begins = vec![Begin { after: 0, baseline: Baseline::All }];
    let setting = plain(1, None, begins);
    let query = unordered("MATCH p = (a)-[r:R]->(b) UNWIND p AS x RETURN x");
    for open_cypher in [false, true] {
        let history = History { open_cypher, records: records.clone() };
        match World::new(history, setting.clone()).live(std::slice::from_ref(&query)) {
            Ok(tally) => assert!(tally.any_query == 1 && tally.filled > 0 && tally.without_reference == 0, "{tally:?}"),
            Err(difference) => panic!("{}", difference.what),
        }
    }
}
