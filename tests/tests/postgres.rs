//! Changes of tables in and results into tables, with the real binary and a real PostgreSQL, across kills of both and faults
//! between them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::server::Server;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{RESUME, STREAMS, counted, message, refused_v1, set_numbers, troubled, with};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each change counts itself, so that one that is lost or comes twice is seen.
const COUNT: &str = "MATCH (n) WHERE id(n) = idFrom($that.row.id) SET n.id = $that.row.id, n.count = coalesce(n.count, 0) + 1";

/// What a change is, whole.
const KEEP: &str = "CREATE (c:Change) SET c.operation = $that.operation, c.at = $that.committed, c.name = $that.schema + '.' + $that.table, \
    c.row = toJson($that.row), c.before = toJson($that.before)";

fn start(left_out: &str) -> Option<Server> {
    Server::start("postgres.sh", 1, left_out)
}

fn sql(server: &Server, sql: &str) -> String {
    let said = server.ask("ask", sql);
    assert!(!said.contains("ERROR:"), "{sql}: {said}");
    said
}

fn access(server: &Server) -> Json {
    json!({"url": format!("postgres://{}/postgres", server.said("POSTGRES_AT")), "username": "weir", "password": "geheim"})
}

fn add(server: &Server, ids: std::ops::Range<u64>) {
    sql(server, &format!("INSERT INTO items SELECT n, 'item ' || n FROM generate_series({}, {}) n", ids.start, ids.end - 1));
}

fn make_items(server: &Server) {
    sql(server, "CREATE TABLE items (id bigint PRIMARY KEY, name text); CREATE PUBLICATION weir FOR TABLE items");
}

#[test]
fn changes_are_read_once_across_kills_of_either_side() {
    let Some(server) = start("changes of PostgreSQL, read") else { return };
    make_items(&server);
    add(&server, 0..500);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let definition = with(
        access(&server),
        json!({"type": "PostgresIngest", "publication": "weir", "slot": "weir_items", "snapshot": true, "maximumPerSecond": 600,
            "format": {"type": "CypherJson", "query": COUNT}}),
    );
    weir.post("/api/v1/ingest/items", &definition).expect(200);
    let shown = weir.get("/api/v1/ingest/items").expect(200).text();
    assert!(shown.contains("Secret(****)") && !shown.contains("geheim"), "{shown}");
    wait_until("all rows that were there are read", PATIENCE, || counted(&weir).0 == 500);
    // One transaction that is longer than a life of either side, and short ones.
    add(&server, 500..4_500);
    let mut end = 4_500;
    for round in 0..4 {
        for _ in 0..20 {
            add(&server, end..end + 10);
            end += 10;
        }
        let before = counted(&weir).0;
        wait_until("some more changes are read", PATIENCE, || counted(&weir).0 > before || before == end);
        if round % 2 == 0 {
            weir.kill();
            weir = home.start(RESUME);
        } else {
            server.kill();
            server.run().expect("it starts again");
        }
    }
    wait_until("all changes are read", PATIENCE, || counted(&weir).0 == end);
    assert_eq!(counted(&weir), (end, 1));

    // The server need not keep what is durable here, also of what others write.
    sql(&server, "CREATE TABLE others AS SELECT generate_series(1, 1000) n");
    let here = sql(&server, "SELECT pg_current_wal_lsn()");
    let told = format!("SELECT confirmed_flush_lsn >= '{here}' FROM pg_replication_slots WHERE slot_name = 'weir_items'");
    wait_until("the server is told", PATIENCE, || sql(&server, &told) == "t");

    // While it is away the stream says so. A slot that was dropped meanwhile is not made anew in silence.
    weir.kill();
    wait_until("the slot is free", PATIENCE, || server.ask("ask", "SELECT pg_drop_replication_slot('weir_items')").is_empty());
    weir = home.start(RESUME);
    weir.wait_ingest("items", "Failed", PATIENCE);
    assert!(message(&weir, "items").contains("there is no slot weir_items any more"), "{}", message(&weir, "items"));
    assert_eq!(counted(&weir), (end, 1));
    weir.stop();
}

/// What has come, in the order of the commits: operation, row, before.
fn kept(weir: &Weir) -> Vec<(String, Json, Json)> {
    let rows = weir.rows("MATCH (c:Change) RETURN c.operation, c.row, c.before ORDER BY c.at");
    let read = |text: &Json| serde_json::from_str(text.as_str().unwrap_or("null")).expect("JSON");
    rows.iter().map(|row| (row[0].as_str().expect("a text").to_owned(), read(&row[1]), read(&row[2]))).collect()
}

#[test]
fn values_keep_their_types_and_tell_what_was_before() {
    let Some(server) = start("values of PostgreSQL") else { return };
    let weir = Home::new().start(&[]);
    let source = with(
        access(&server),
        json!({"type": "Postgres", "tls": true, "certificateAuthorities": server.authority(), "publication": "all", "slot": "s1",
            "format": {"type": "Json"}}),
    );
    weir.post(STREAMS, &json!({"name": "changes", "source": source, "query": KEEP})).expect(201);
    wait_until("the publication is missed", PATIENCE, || message(&weir, "changes").contains("there is no publication all"));
    sql(
        &server,
        "CREATE TABLE kinds (id int PRIMARY KEY, yes bool, small int2, big int8, real float4, double float8, exact numeric, long numeric, \
         words text, doc jsonb, raw bytea, day date, at timestamptz, local timestamp, span interval, list int[], texts text[], key uuid); \
         CREATE TABLE whole (id int, words text); ALTER TABLE whole REPLICA IDENTITY FULL; \
         CREATE PUBLICATION \"all\" FOR ALL TABLES",
    );
    wait_until("the slot is made", PATIENCE, || {
        sql(&server, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's1' AND active") == "1"
    });
    sql(
        &server,
        "INSERT INTO kinds VALUES (1, true, -2, 9007199254740993, 0.5, 1e300, 12.50, 12345678901234567890.5, E'a \"b\"\\n\u{e9}', '{\"a\": [1, null]}', \
         '\\xcafe', '2026-11-23', '2026-11-23 02:00:00+01', '2026-11-23 01:02:03.5', '1 day 2 hours', '{1,NULL,3}', '{a,\"b,c\"}', \
         'a141cc4b-6257-6e65-4caa-5b7eaafdf343')",
    );
    sql(&server, "UPDATE kinds SET id = 2, yes = NULL WHERE id = 1");
    sql(&server, "DELETE FROM kinds WHERE id = 2");
    // A long value that was not touched is there all the same where the old row is told.
    sql(&server, "ALTER TABLE whole ALTER words SET STORAGE EXTERNAL; INSERT INTO whole VALUES (1, repeat('x', 5000))");
    sql(&server, "UPDATE whole SET id = 2");
    sql(&server, "TRUNCATE kinds, whole");
    wait_until("all changes have come", PATIENCE, || kept(&weir).len() == 7);
    let all = kept(&weir);
    let first = json!({"id": 1, "yes": true, "small": -2, "big": 9_007_199_254_740_993_u64, "real": 0.5, "double": 1e300, "exact": 12.5,
        "long": "12345678901234567890.5", "words": "a \"b\"\n\u{e9}", "doc": {"a": [1, null]}, "raw": "cafe", "day": "2026-11-23",
        "at": "2026-11-23T01:00:00Z", "local": "2026-11-23T01:02:03.5", "span": "P1DT2H", "list": [1, null, 3], "texts": ["a", "b,c"],
        "key": "a141cc4b-6257-6e65-4caa-5b7eaafdf343"});
    assert_eq!(all[0], ("insert".to_owned(), first, Json::Null));
    assert_eq!(
        (all[1].0.as_str(), &all[1].1["id"], &all[1].1["yes"], &all[1].2),
        ("update", &json!(2), &Json::Null, &json!({"id": 1}))
    );
    assert_eq!(all[2], ("delete".to_owned(), Json::Null, json!({"id": 2})));
    let long = "x".repeat(5_000);
    let row = |id: u64| json!({"id": id, "words": long});
    assert_eq!((&all[3].1, &all[4]), (&row(1), &("update".to_owned(), row(2), row(1))));
    assert_eq!((all[5].0.as_str(), all[6].0.as_str()), ("truncate", "truncate"));
    assert_eq!(weir.rows("MATCH (c:Change) WHERE c.name = 'public.whole' RETURN count(c)"), [json!([3])]);
    weir.stop();
}

#[test]
fn a_publication_that_was_made_anew_is_said_to_be_later_than_the_slot() {
    let Some(server) = start("publications of PostgreSQL that are made anew") else { return };
    make_items(&server);
    let weir = Home::new().start(&[]);
    let source =
        with(access(&server), json!({"type": "Postgres", "publication": "weir", "slot": "s1", "format": {"type": "Json"}}));
    weir.post(STREAMS, &json!({"name": "items", "source": source, "query": COUNT})).expect(201);
    wait_until("the slot is made", PATIENCE, || {
        sql(&server, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's1' AND active") == "1"
    });
    add(&server, 0..1);
    wait_until("a change is read", PATIENCE, || counted(&weir).0 == 1);
    sql(&server, "DROP PUBLICATION weir");
    add(&server, 1..2);
    sql(&server, "CREATE PUBLICATION weir FOR TABLE items");
    wait_until("the stream says what to do", PATIENCE, || {
        message(&weir, "items").contains("as of the place where the slot s1 stands; where it was made anew since, drop the slot")
    });
    weir.stop();
}

#[test]
fn a_snapshot_has_the_columns_of_changes_and_every_year_is_read() {
    let Some(server) = start("generated columns and years of PostgreSQL") else { return };
    sql(
        &server,
        "CREATE TABLE priced (id int PRIMARY KEY, price int, twice int GENERATED ALWAYS AS (price * 2) STORED, day date, at timestamptz, \
         local timestamp, night time, over date); \
         INSERT INTO priced VALUES (1, 5, DEFAULT, '0044-03-15 BC', '0044-03-15 13:00:00+01 BC', '12345-01-01', '24:00', 'infinity'); \
         CREATE PUBLICATION weir FOR TABLE priced",
    );
    let weir = Home::new().start(&[]);
    let source = with(
        access(&server),
        json!({"type": "Postgres", "publication": "weir", "slot": "s1", "snapshot": true, "format": {"type": "Json"}}),
    );
    let query = "CREATE (c:Change) SET c.operation = $that.operation, c.row = toJson($that.row), \
        c.years = [date($that.row.day).year, datetime($that.row.at).year, localdatetime($that.row.local).year]";
    weir.post(STREAMS, &json!({"name": "changes", "source": source, "query": query})).expect(201);
    let changes = || weir.rows("MATCH (c:Change) RETURN c.row, c.years ORDER BY c.operation");
    wait_until("the row is read", PATIENCE, || changes().len() == 1);
    sql(&server, "UPDATE priced SET price = 6");
    wait_until("the change is read", PATIENCE, || changes().len() == 2);
    for (change, price) in changes().iter().zip([5, 6]) {
        let row: Json = serde_json::from_str(change[0].as_str().expect("a text")).expect("JSON");
        let expected = json!({"id": 1, "price": price, "day": "-0043-03-15", "at": "-0043-03-15T12:00:00Z",
            "local": "+12345-01-01T00:00:00", "night": "24:00:00", "over": "infinity"});
        assert_eq!((row, &change[1]), (expected, &json!([-43, -43, 12_345])));
    }
    weir.stop();
}

#[test]
fn a_snapshot_has_each_row_of_a_hierarchy_of_tables_once() {
    let Some(server) = start("child tables and partitions of PostgreSQL") else { return };
    sql(
        &server,
        "CREATE TABLE parents (id int PRIMARY KEY); CREATE TABLE children (name text) INHERITS (parents); \
         CREATE TABLE grandchildren () INHERITS (children); \
         INSERT INTO parents VALUES (1); INSERT INTO children VALUES (2), (3); INSERT INTO grandchildren VALUES (4); \
         CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); \
         CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10); CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20); \
         INSERT INTO parts VALUES (5), (15); \
         CREATE PUBLICATION root FOR TABLE parents, parts WITH (publish_via_partition_root = true); \
         CREATE PUBLICATION leaves FOR TABLE parts",
    );
    let weir = Home::new().start(&[]);
    let query = |stream: &str| format!("CREATE (c:Change) SET c.stream = '{stream}', c.name = $that.table, c.id = $that.row.id");
    for publication in ["root", "leaves"] {
        let source = with(
            access(&server),
            json!({"type": "Postgres", "publication": publication, "slot": publication, "snapshot": true, "format": {"type": "Json"}}),
        );
        weir.post(STREAMS, &json!({"name": publication, "source": source, "query": query(publication)})).expect(201);
        wait_until("changes are read", PATIENCE, || {
            let slot = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{publication}' AND active");
            sql(&server, &slot) == "1"
        });
    }
    // Changes come behind the rows that were there.
    sql(&server, "INSERT INTO parts VALUES (16)");
    let read =
        |stream: &str| weir.rows(&format!("MATCH (c:Change) WHERE c.stream = '{stream}' RETURN c.name, c.id ORDER BY c.id"));
    for (publication, count) in [("root", 7), ("leaves", 3)] {
        wait_until("all is read", PATIENCE, || read(publication).len() >= count);
    }
    let rows = |rows: &[(&str, u32)]| rows.iter().map(|(table, id)| json!([table, id])).collect::<Vec<_>>();
    let whole =
        [("parents", 1), ("children", 2), ("children", 3), ("grandchildren", 4), ("parts", 5), ("parts", 15), ("parts", 16)];
    assert_eq!(read("root"), rows(&whole));
    assert_eq!(read("leaves"), rows(&[("low", 5), ("high", 15), ("high", 16)]));
    weir.stop();
}

/// A standing query of numbers, whose results go to these.
fn numbers_to(weir: &Weir, destinations: Json) -> String {
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
    let enrichment = json!({"query": "MATCH (n) WHERE id(n) = $that.data.id \
        RETURN n.value AS value, toString(n.value) AS digits, \"it's\" AS words"});
    let output = json!({"name": "out", "resultEnrichment": enrichment, "destinations": destinations});
    let query = json!({"name": "numbers", "pattern": pattern, "includeCancellations": true, "outputs": [output]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201).text()
}

#[test]
fn results_are_rows_once_across_kills_of_either_side() {
    let Some(server) = start("results to PostgreSQL") else { return };
    sql(
        &server,
        "CREATE TABLE alerts (id text PRIMARY KEY, value int CHECK (value % 10 <> 3), words text, positive bool); \
         CREATE TABLE documents (id text PRIMARY KEY, words jsonb, same json, digits jsonb, value jsonb); \
         GRANT ALL ON alerts, documents TO weir",
    );
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let to = |more: Json| with(with(access(&server), json!({"type": "Postgres"})), more);
    let insert = |positive: bool| json!({"sql": format!("INSERT INTO alerts VALUES ($1, $2, $3, {positive}) ON CONFLICT DO NOTHING"), "parameters": ["id", "/data/value", "/data/words"]});
    let documents = json!({"sql": "INSERT INTO documents VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        "parameters": ["id", "/data/words", "/data/words", "/data/digits", "/data/value"]});
    let created = numbers_to(
        &weir,
        json!([
            to(json!({"table": "public.results", "tls": true, "certificateAuthorities": server.authority()})),
            to(json!({"table": "matches", "rows": "Matches"})),
            to(json!({"statement": insert(true), "cancellation": insert(false)})),
            to(json!({"statement": documents})),
        ]),
    );
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    set_numbers(&weir, 0..100);
    server.kill();
    set_numbers(&weir, 100..150);
    weir.kill();
    weir = home.start(RESUME);
    server.run().expect("it starts again");
    set_numbers(&weir, 150..200);
    let count = |of: &str| server.ask("ask", &format!("SELECT count(*) FROM {of}"));
    wait_until("all results are there", PATIENCE, || {
        count("results") == "200" && count("matches") == "200" && count("alerts") == "180" && count("documents") == "200"
    });
    let whole = sql(
        &server,
        "SELECT count(DISTINCT result_id), count(DISTINCT data ->> 'value'), bool_and(positive), min(tick) > 0 FROM results",
    );
    assert_eq!(whole, "200|200|t|t");
    assert_eq!(sql(&server, "SELECT count(*), min(words), sum(value) FROM alerts"), format!("180|it's|{}", 19_900 - 1_960));
    // Texts stay texts in columns of JSON.
    let same =
        "words = '\"it''s\"' AND same::text = '\"it''s\"' AND digits = to_jsonb(value::text) AND jsonb_typeof(value) = 'number'";
    assert_eq!(count(&format!("documents WHERE {same}")), "200");

    // Cancellations: rows of their own, rows that go, and what the definition says.
    for value in 0..50 {
        weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) REMOVE n:Number")).expect(200);
    }
    wait_until("the cancellations are there", PATIENCE, || {
        count("results") == "250" && count("matches") == "150" && count("alerts") == "225"
    });
    assert_eq!(sql(&server, "SELECT count(*) FROM results WHERE NOT positive"), "50");
    assert_eq!(sql(&server, "SELECT min((data ->> 'value')::int) FROM matches"), "50");
    assert_eq!(sql(&server, "SELECT count(*) FROM alerts WHERE NOT positive"), "45");
    weir.stop();
}

#[test]
fn connections_that_are_cut_lose_and_repeat_nothing() {
    let left_out = "faults between weir and PostgreSQL";
    let Some(server) = start(left_out) else { return };
    let Some(proxy) = Toxiproxy::start(left_out) else { return };
    let port = free_ports(1);
    proxy.lead("postgres", ([127, 0, 0, 1], port).into(), server.address(0));
    make_items(&server);
    let weir = Home::new().start(&[]);
    let through = with(access(&server), json!({"type": "Postgres", "url": format!("postgres://127.0.0.1:{port}/postgres")}));
    let source = with(through.clone(), json!({"publication": "weir", "slot": "weir_items", "format": {"type": "Json"}}));
    let query = "MATCH (n) WHERE id(n) = idFrom('number', $that.row.id) \
        SET n:Number, n.value = $that.row.id, n.count = coalesce(n.count, 0) + 1";
    numbers_to(&weir, json!([with(through, json!({"table": "copies"}))]));
    weir.post(STREAMS, &json!({"name": "items", "source": source, "query": query, "maxPerSecond": 2000})).expect(201);
    wait_until("the slot is made", PATIENCE, || sql(&server, "SELECT count(*) FROM pg_replication_slots WHERE active") == "1");
    add(&server, 0..1_000);
    // A transaction that is longer than any connection would never end.
    wait_until("these changes are read", PATIENCE, || counted(&weir).0 == 1_000);
    // Cut after some bytes, again and again.
    proxy.poison("postgres", "limit_data", "downstream", json!({"bytes": 30_000}));
    for part in 0..40 {
        add(&server, 1_000 + part * 50..1_050 + part * 50);
    }
    wait_until("most are read", PATIENCE, || counted(&weir).0 > 1_500);
    proxy.cure("postgres", "limit_data", "downstream");
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 3_000);
    assert_eq!(counted(&weir), (3_000, 1));
    wait_until("all results are out", PATIENCE, || sql(&server, "SELECT count(*) FROM copies") == "3000");
    assert_eq!(sql(&server, "SELECT count(DISTINCT data ->> 'value') FROM copies"), "3000");
    // Closed for a while.
    proxy.open("postgres", false);
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "items").contains("cannot connect"));
    add(&server, 3_000..3_100);
    proxy.open("postgres", true);
    wait_until("it goes on", PATIENCE, || counted(&weir).0 == 3_100);
    assert_eq!(counted(&weir), (3_100, 1));
    let next = std::cell::Cell::new(3_100);
    let during = |_: &str| {
        add(&server, next.get()..next.get() + 100);
        next.set(next.get() + 100);
    };
    proxy.each_fault("postgres", during, |fault| {
        wait_until(&format!("{fault}: all are read"), PATIENCE, || counted(&weir).0 == next.get());
        assert_eq!(counted(&weir), (next.get(), 1), "{fault}");
    });
    let all = next.get().to_string();
    wait_until("all results are out", PATIENCE, || sql(&server, "SELECT count(*) FROM copies") == all);
    assert_eq!(sql(&server, "SELECT count(DISTINCT data ->> 'value') FROM copies"), all);
    weir.stop();
}

#[test]
fn logins_are_those_of_the_server_and_passwords_stay_secret() {
    let Some(server) = start("logins of PostgreSQL") else { return };
    let weir = Home::new().start(&[]);
    let source = |more: Json| {
        with(
            access(&server),
            with(json!({"type": "Postgres", "publication": "p", "slot": "s", "format": {"type": "Json"}}), more),
        )
    };
    let tls = |user: &str| json!({"username": user, "tls": true, "certificateAuthorities": server.authority()});
    // They are let in, and then there is something else.
    troubled(&weir, "scram", &source(json!({})), "there is no publication p");
    troubled(&weir, "md5", &source(json!({"username": "old"})), "replication role");
    troubled(&weir, "clear", &source(tls("clear")), "replication role");
    troubled(&weir, "tls", &source(tls("tls")), "replication role");
    let bearer =
        json!({"password": null, "clientCertificate": server.made("client.pem"), "clientKey": server.made("client.key")});
    troubled(&weir, "bearer", &source(with(tls("bearer"), bearer)), "there is no publication p");
    // They are not.
    troubled(&weir, "open", &source(json!({"username": "clear"})), "set tls");
    troubled(&weir, "wrong", &source(json!({"password": "wrong"})), "the login is refused");
    troubled(&weir, "none", &source(json!({"password": null})), "none is given");
    troubled(&weir, "stranger", &source(json!({"tls": true})), "cannot connect");
    troubled(&weir, "bare-handed", &source(with(tls("bearer"), json!({"password": null}))), "the login is refused");
    troubled(&weir, "bare", &source(json!({"username": "tls"})), "the login is refused");
    let log = std::fs::read_to_string(server.directory().join("log")).unwrap_or_default();
    assert!(!log.contains("PANIC"), "{log}");
    weir.stop();
}

#[test]
fn definitions_that_cannot_work_are_refused() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"example.com\"]"]);
    let refused = |more: Json, problem: &str| {
        let usual = json!({"type": "PostgresIngest", "url": "postgres://example.com/db", "username": "u", "publication": "p", "slot": "s"});
        refused_v1(&weir, &with(usual, more), problem);
    };
    refused(json!({"url": "postgres://127.0.0.1:1/db"}), "outgoing-http.allowed-hosts");
    refused(json!({"url": "mysql://example.com/db"}), "postgres://");
    refused(json!({"url": "postgres://u:p@example.com/db"}), "belong into `username` and `password`");
    refused(json!({"url": "postgres://example.com/db?sslmode=require"}), "give it as options");
    refused(json!({"slot": "My Slot"}), "slot");
    refused(json!({"publication": ""}), "publication");
    refused(json!({"username": null}), "username");
    refused(json!({"tls": true, "certificateAuthorities": "x"}), "holds no certificate");
    let output = |more: Json| {
        let destination = with(json!({"type": "WriteToPostgres", "url": "postgres://example.com/db", "username": "u"}), more);
        let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
        weir.post("/api/v1/query/standing/refused", &json!({"pattern": pattern, "outputs": {"out": destination}}))
            .expect(400)
            .text()
    };
    for (more, problem) in [
        (json!({}), "table"),
        (json!({"table": "a.b.c"}), "is no name of a table"),
        (json!({"table": "t", "statement": {"sql": "SELECT 1"}}), "give one of the two"),
        (json!({"statement": {"sql": "SELECT $1", "parameters": ["data.name"]}}), "statement.parameters"),
    ] {
        let told = output(more);
        assert!(told.contains(problem), "{told}");
    }
    weir.stop();
}
