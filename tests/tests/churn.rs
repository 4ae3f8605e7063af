//! Churn: payments that come and end by themselves for as long as one likes, rings of three found and taken back, and nothing
//! grows. `make churn SECONDS=3600` runs it for an hour and asks for flat memory, disk and latency; here it runs for a short
//! while.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir, wait_until};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

const SECONDS: u64 = 15;
const PER_SECOND: u64 = 4000;

/// Seconds after which a payment ends; the past is kept for as long.
const LIVES: u64 = 10;

/// Parts of the time that are compared with one another. The first ones fill the graph, the past and all buffers.
const PARTS: usize = 12;
const FILLING: usize = 4;

/// Less than this says nothing of growth: buffers fill.
const JUDGED_FROM_SECONDS: u64 = 600;

/// Few accounts make most of the payments.
const PAYMENT: &str = "WITH toInteger(20000 ^ rand()) AS a, toInteger(20000 ^ rand()) AS b, toInteger(1000 * rand()) AS amount \
    MATCH (payer), (payee) WHERE id(payer) = idFrom('account', a) AND id(payee) = idFrom('account', b) \
    SET payer.account = a, payee.account = b \
    CREATE (payer)-[r:pays]->(payee) SET r.amount = amount, r.at = timestamp()";

const RING: &str = "MATCH (a)-[x:pays]->(b)-[y:pays]->(c)-[z:pays]->(a) \
    WHERE x.amount > 900 AND y.amount > 900 AND z.amount > 900 RETURN id(a) AS a, id(b) AS b, id(c) AS c";

/// Means of one part.
struct Part {
    resident_megabytes: f64,
    disk_megabytes: f64,
    /// Of the store.
    files: f64,
    /// From the record to the result delivered.
    latency_millis: f64,
}

#[test]
fn payments_come_and_go_and_nothing_grows() {
    let given = std::env::var("WEIR_CHURN_SECONDS").ok().map(|text| text.parse::<u64>().expect("a number of seconds"));
    let seconds = given.unwrap_or(SECONDS);
    let home = Home::new();
    let weir = home.start(&[&format!("-Dweir.history={LIVES} s")]);
    weir.rows(&format!("CREATE EXPIRY FOR ()-[r:pays]-() ON r.at AFTER duration('PT{LIVES}S')"));
    let pattern = json!({"type": "Cypher", "mode": "ANY_QUERY", "query": RING});
    let query = json!({"pattern": pattern, "includeCancellations": true, "outputs": {"drop": {"type": "Drop"}}});
    weir.post("/api/v1/query/standing/rings", &query).expect(201);
    let stream = json!({"type": "NumberIteratorIngest", "maximumPerSecond": PER_SECOND, "format": {"type": "CypherLine", "query": PAYMENT}});
    weir.post("/api/v1/ingest/payments", &stream).expect(200);

    let mut parts = Vec::new();
    let mut before = latency(&weir);
    for part in 1..=PARTS {
        let until = Instant::now() + Duration::from_secs(seconds) / PARTS as u32;
        let (mut resident, mut disk, mut files, mut looks) = (0.0, 0.0, 0.0, 0.0);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            resident += weir.resident_megabytes() as f64;
            let (count, bytes) = files_below(&home.file("data"));
            disk += bytes as f64 / 1e6;
            files += count as f64;
            looks += 1.0;
        }
        let after = latency(&weir);
        let (count, time) = (after.0 - before.0, after.1 - before.1);
        before = after;
        let (resident_megabytes, disk_megabytes, files) = (resident / looks, disk / looks, files / looks);
        parts.push(Part { resident_megabytes, disk_megabytes, files, latency_millis: time / count.max(1) as f64 });
        println!(
            "{part}/{PARTS} of {seconds} s: {resident_megabytes:.1} MB resident, {disk_megabytes:.1} MB on disk in {files:.0} files, \
             {:.3} ms a result, {count} of them",
            parts[part - 1].latency_millis
        );
    }
    if seconds >= JUDGED_FROM_SECONDS {
        let judged = &parts[FILLING..];
        let (early, late) = judged.split_at(judged.len() / 2);
        let mean = |parts: &[Part], of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>() / parts.len() as f64;
        for (what, of, more) in [
            ("memory", (|part| part.resident_megabytes) as fn(&Part) -> f64, 1.1),
            ("disk", |part| part.disk_megabytes, 1.1),
            // Few are there at a time. Where they grow, it is by one or two a minute.
            ("the number of files", |part| part.files, 1.5),
            ("latency", |part| part.latency_millis, 1.5),
        ] {
            let (early, late) = (mean(early, of), mean(late, of));
            assert!(late <= early * more, "{what} grows, from {early} to {late}");
        }
    }

    let counts = || {
        let counters = weir.get("/api/v1/admin/metrics").expect(200).json()["counters"].clone();
        ["results", "cancellations"].map(|what| {
            let name = format!("standing-queries.{what}.rings");
            let mut named = counters.as_array().into_iter().flatten().filter(|counter| counter["name"] == name.as_str());
            named.next().and_then(|counter| counter["count"].as_u64()).unwrap_or_default()
        })
    };
    // Cancellations are results, too.
    wait_until("some rings are found", PATIENCE, || {
        let [results, cancellations] = counts();
        results.saturating_sub(cancellations) > 10
    });

    // All of it ends, and what was found is taken back.
    weir.put("/api/v1/ingest/payments/pause").expect(200);
    let deadline = Instant::now() + PATIENCE + Duration::from_secs(LIVES);
    let left = || weir.rows("MATCH ()-[r:pays]->() RETURN count(r)");
    while left() != [json!([0])] {
        assert!(Instant::now() < deadline, "payments are left: {:?}", left());
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut found = counts();
    while found[0] != 2 * found[1] {
        assert!(Instant::now() < deadline, "results, and cancellations among them: {found:?}");
        std::thread::sleep(Duration::from_millis(200));
        found = counts();
    }
    println!("{} matches, and as many cancellations", found[1]);
    assert!(found[1] > 10, "hardly anything was found");
    weir.stop();
}

/// How many results were delivered, and how many milliseconds that took in all.
fn latency(weir: &Weir) -> (u64, f64) {
    let shown: Json = weir.get("/api/v1/query/standing/rings").expect(200).json();
    let whole = &shown["stats"]["local"]["latency"]["whole"];
    let count = whole["count"].as_u64().unwrap_or_default();
    (count, whole["meanMillis"].as_f64().unwrap_or_default() * count as f64)
}

/// How many there are, and their bytes.
fn files_below(directory: &Path) -> (u64, u64) {
    // Files come and go meanwhile.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => files_below(&entry.path()),
        Ok(metadata) => (1, metadata.len()),
        Err(_) => (0, 0),
    };
    entries.map(of).fold((0, 0), |(count, bytes), (more, size)| (count + more, bytes + size))
}
