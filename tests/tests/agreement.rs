//! Maintained, evaluated and the reference's answers agree, for queries and graphs that nobody chose, as time goes by.
//!
//! `WEIR_QUERIES` says how many queries, `WEIR_QUERIES_SEED` where to begin: `make campaign-queries` asks many. What differs is
//! made small and printed with its seed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_model::Value;
use weir_tests::queries::graph::{BEGIN, Change, Edge, History};
use weir_tests::queries::minimize::minimize;
use weir_tests::queries::setting::{Baseline, Begin, Passing, Pause, Setting};
use weir_tests::queries::{Query, Tally, World, run};

/// In `make test`: a few seconds of them, the same every time.
const QUERIES: usize = 400;
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
    }
}

/// Also where the engine ends in between.
#[test]
fn what_time_and_the_end_of_a_pause_bring_is_compared() {
    let t = |n, after: u64| Change::Property(n, "t", Value::Integer((BEGIN + after) as i64));
    let records = vec![vec![t(0, 3)], vec![t(1, 9)], vec![t(0, 12)], vec![Change::Property(1, "x", Value::Integer(1))]];
    let query = Query { text: "MATCH (n) WHERE timestamp() - n.t > 2 RETURN id(n) AS n, n.t AS t".to_owned(), ordered: false };
    for (rests, pauses) in [(false, Vec::new()), (true, vec![Some(Pause { after: 1, batches: 1 })])] {
        let paused = pauses.len();
        let begins = vec![Begin { after: 0, baseline: Baseline::All }];
        let clock = Some(vec![Passing { before: 3, rests, after: 2 }]);
        let setting = Setting { workers: 2, batch_size: 1, batches_per_life: Some(2), begins, pauses, clock };
        let history = History { open_cypher: false, records: records.clone() };
        match World::new(history, setting).live(std::slice::from_ref(&query)) {
            // After 6, 12 and 15 ms.
            Ok(tally) => assert!((tally.clocked, tally.turned, tally.paused) == (1, 3, paused), "{tally:?}"),
            Err(difference) => panic!("{}", difference.what),
        }
    }
}

/// What lies there when the first query comes is not walked: a node of many edges must be looked through with it nevertheless.
#[test]
fn edges_that_were_there_before_the_first_query_are_walked() {
    let edge = |source| Change::Edge(Edge { source, kind: "T", target: 0, ordinal: 0 }, true);
    let records = vec![vec![Change::Exists(0, true), Change::Exists(1, true)], vec![edge(0)], vec![edge(5)]];
    let begins = vec![Begin { after: 0, baseline: Baseline::All }];
    let setting = Setting { workers: 1, batch_size: 1, batches_per_life: Some(3), begins, pauses: Vec::new(), clock: None };
    let query = Query { text: "MATCH (n3)--()--() RETURN n3.x".to_owned(), ordered: false };
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
    let setting = Setting { workers: 1, batch_size: 1, batches_per_life: None, begins, pauses: Vec::new(), clock: None };
    let query = Query { text: "MATCH p = (a)-[r:R]->(b) UNWIND p AS x RETURN x".to_owned(), ordered: false };
    for open_cypher in [false, true] {
        let history = History { open_cypher, records: records.clone() };
        match World::new(history, setting.clone()).live(std::slice::from_ref(&query)) {
            Ok(tally) => assert!(tally.any_query == 1 && tally.filled > 0 && tally.without_reference == 0, "{tally:?}"),
            Err(difference) => panic!("{}", difference.what),
        }
    }
}
