//! Results to an index of Elasticsearch, with the real binary and a stand-in for the server, across kills of weir.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::elasticsearch::Elasticsearch;
use weir_tests::server::Server;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{RESUME, set_numbers, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

fn numbers_to(weir: &Weir, destination: &Json) -> String {
    let pattern = json!({"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": "MATCH (n:Number) RETURN n.value AS id"});
    let output = json!({"name": "out", "destinations": [destination]});
    let query = json!({"name": "numbers", "pattern": pattern, "outputs": [output], "includeCancellations": true});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201).text()
}

fn counters(weir: &Weir) -> String {
    weir.get("/api/v1/query/standing/numbers").expect(200).text()
}

#[test]
fn each_result_is_one_document_whatever_happens_on_the_way() {
    let server = Elasticsearch::start("Basic d2VpcjpnZWhlaW0=");
    server.failing.store(true, Ordering::Relaxed);
    let home = Home::new();
    let mut weir = home.start_with(&[("WEIR_SECRET_ES", "geheim")], RESUME);
    let destination = json!({"type": "Elasticsearch", "urls": ["http://127.0.0.1:1", server.url()], "index": "numbers", "username": "weir",
        "password": {"env": "WEIR_SECRET_ES"}, "batchDocumentsMax": 7});
    let created = numbers_to(&weir, &destination);
    assert!(created.contains(r#""password":{"env":"WEIR_SECRET_ES"}"#) && !created.contains("geheim"), "{created}");
    for round in 0..4 {
        set_numbers(&weir, round * 60..(round + 1) * 60);
        weir.kill();
        weir = home.start_with(&[("WEIR_SECRET_ES", "geheim")], RESUME);
    }
    // Pauses between tries grow to ten seconds; what is left then comes without further failures.
    wait_until("some have got through", PATIENCE, || server.numbers("numbers").len() >= 20);
    server.failing.store(false, Ordering::Relaxed);
    // They do not fit the mapping, and are given up without holding back the others.
    weir.query("MATCH (n) WHERE id(n) = idFrom('number', 'unfit') SET n:Number, n.value = -1").expect(200);
    set_numbers(&weir, 240..300);
    wait_until("all documents are there", PATIENCE, || server.numbers("numbers").len() >= 300);
    assert!(server.numbers("numbers").into_iter().eq(0..300));
    // A cancellation is a document of its own.
    weir.query("MATCH (n) WHERE id(n) = idFrom('number', 7) REMOVE n:Number").expect(200);
    wait_until("the cancellation is there", PATIENCE, || server.numbers("numbers").len() == 301);
    let of_seven = |positive: bool| {
        let kept = server.kept();
        kept.documents.values().filter(|d| d["data"]["id"] == 7 && d["meta"]["isPositiveMatch"] == positive).count()
    };
    assert_eq!((of_seven(true), of_seven(false)), (1, 1));
    let shown = counters(&weir);
    let kept = server.kept();
    eprintln!("{} requests of up to {} documents, {} documents were written again", kept.requests, kept.most, kept.overwritten);
    assert!(kept.wrong.is_empty(), "{:?}", kept.wrong);
    assert!(kept.overwritten > 0 && kept.most == 7);
    drop(kept);
    wait_until(&format!("what does not fit is told: {shown}"), PATIENCE, || {
        home.read("weir.log").contains("failed to parse field [data.id]")
    });
    weir.stop();
    assert!(!home.read("weir.log").contains("geheim"));
}

#[test]
fn an_index_has_what_matches_now() {
    let server = Elasticsearch::start("ApiKey aWQ6a2V5");
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let destination =
        json!({"type": "Elasticsearch", "urls": [server.url()], "index": "now", "apiKey": "aWQ6a2V5", "cancellations": "Delete"});
    let created = numbers_to(&weir, &destination);
    assert!(created.contains("Secret(****)") && !created.contains("aWQ6a2V5"), "{created}");
    set_numbers(&weir, 0..100);
    server.failing.store(true, Ordering::Relaxed);
    for value in 0..100 {
        let change = match value % 4 {
            0 => "REMOVE n:Number",
            1 => "SET n.value = n.value + 1000",
            _ => "REMOVE n:Number SET n:Number",
        };
        weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) {change}")).expect(200);
        if value % 40 == 20 {
            weir.kill();
            weir = home.start(RESUME);
        }
    }
    let mut expected: Vec<i64> = (0..100).filter(|n| n % 4 != 0).map(|n| if n % 4 == 1 { n + 1000 } else { n }).collect();
    expected.sort_unstable();
    wait_until("the index has what matches", PATIENCE, || server.numbers("now") == expected);
    // Nothing comes behind that.
    server.failing.store(false, Ordering::Relaxed);
    set_numbers(&weir, 500..501);
    wait_until("one more is there", PATIENCE, || server.numbers("now").contains(&500));
    expected.push(500);
    expected.sort_unstable();
    assert_eq!(server.numbers("now"), expected);
    let kept = server.kept();
    assert!(kept.wrong.is_empty() && kept.deleted > 0, "{:?}", kept.wrong);
    drop(kept);
    weir.stop();
}

#[test]
fn what_cannot_work_is_told_and_a_wrong_login_waits() {
    let server = Elasticsearch::start("Basic d2VpcjpnZWhlaW0=");
    let home = Home::new();
    let weir = home.start(&[]);
    let destination = json!({"type": "WriteToElasticsearch", "urls": [server.url()], "index": "numbers", "username": "weir", "password": "falsch"});
    let post = |output: Json| {
        let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
        weir.post("/api/v1/query/standing/numbers", &json!({"pattern": pattern, "outputs": {"out": output}}))
    };
    for (more, problem) in [
        (json!({"index": "Upper"}), "cannot be the name of an index"),
        (json!({"urls": ["ftp://x"]}), "must begin with http"),
        (json!({"apiKey": "k"}), "in the place of `username`"),
        (json!({"cancellations": "Delete", "index": "a-{dd}"}), "the index has one name"),
    ] {
        let told = post(with(destination.clone(), more)).expect(400).text();
        assert!(told.contains(problem), "{told}");
    }
    post(destination).expect(201);
    set_numbers(&weir, 0..1);
    wait_until("the login is refused", PATIENCE, || home.read("weir.log").contains("check `username` and `password`"));
    assert!(server.kept().documents.is_empty() && server.kept().wrong.is_empty());
    weir.stop();
    assert!(!home.read("weir.log").contains("falsch"));
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    const LEFT_OUT: &str = "Elasticsearch that asks for certificates of its clients";
    let server = Elasticsearch::start("Basic d2VpcjpnZWhlaW0=");
    let backend = server.url().replace("http://", "");
    let variables = [("BACKEND", backend.as_str()), ("CLIENT_CERTIFICATES", "1")];
    let Some(proxy) = Server::start_with(&variables, "nghttpx.sh", 1, LEFT_OUT) else { return };
    let home = Home::new();
    let weir = home.start_with(&[("WEIR_SECRET_KEY", proxy.made("client.key").as_str())], &[]);
    let without = json!({"type": "Elasticsearch", "urls": [format!("https://{}", proxy.address(0))], "index": "numbers", "username": "weir",
        "password": "geheim", "certificateAuthorities": proxy.made("ca.pem")});
    let shown = json!({"clientCertificate": proxy.made("client.pem"), "clientKey": {"env": "WEIR_SECRET_KEY"}});
    let query = |name: &str, label: &str, destination: Json| {
        let pattern =
            json!({"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": format!("MATCH (n:{label}) RETURN n.value AS id")});
        let output = json!({"name": name, "destinations": [destination]});
        weir.post("/api/v2/graph/quine/standingQueries", &json!({"name": name, "pattern": pattern, "outputs": [output]}))
            .expect(201)
    };
    query("without", "Other", without.clone());
    let told = query("shown", "Number", with(without, shown)).text();
    assert!(!told.contains("PRIVATE KEY"), "{told}");
    weir.query("CREATE (:Other {value: 1000})").expect(200);
    set_numbers(&weir, 0..50);
    wait_until("all documents are there", PATIENCE, || server.numbers("numbers").len() == 50);
    // Whoever shows none is not let in, and the output says that it waits.
    wait_until("the other output says why it waits", PATIENCE, || {
        home.read("weir.log").contains("output without of standing query without: ")
    });
    assert!(server.numbers("numbers").into_iter().eq(0..50) && server.kept().wrong.is_empty(), "{:?}", server.kept().wrong);
    weir.stop();
    assert!(!home.read("weir.log").contains("PRIVATE KEY"));
}
