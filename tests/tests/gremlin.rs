//! Gremlin against the real binary: what each step leads to, over HTTP and over the socket of the explorer.

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir};
use weir_tests::socket::Socket;

/// Ann -KNOWS-> Bo -KNOWS-> Cy, Ann -LIKES-> Cy.
fn weir() -> Weir {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    weir.rows(
        "MATCH (a), (b), (c) WHERE id(a) = idFrom('g', 1) AND id(b) = idFrom('g', 2) AND id(c) = idFrom('g', 3) \
         SET a:Person, a.name = 'Ann', a.n = 1, b:Person, b.name = 'Bo', b.n = 2, c:Dog, c.name = 'Cy' \
         CREATE (a)-[:KNOWS]->(b)-[:KNOWS]->(c), (a)-[:LIKES]->(c)",
    );
    weir
}

fn ask(weir: &Weir, path: &str, text: &str) -> Json {
    let answer = weir.send("POST", path, &[("Content-Type", "text/plain")], text.as_bytes());
    assert_eq!(answer.status, 200, "{text}: {}", answer.shown());
    answer.json()
}

#[test]
fn every_step_leads_where_it_should() {
    let weir = weir();
    let ann = "g.V(idFrom('g', 1))";
    let all = "g.V(idFrom('g', 1), idFrom('g', 2), idFrom('g', 3))";
    for (text, expected) in [
        (format!("{ann}.values('name')"), json!(["Ann"])),
        (format!("{ann}.values('name', 'n', 'nope')"), json!(["Ann", 1])),
        (format!("{ann}.values()"), json!([1, "Ann"])),
        (format!("{ann}.valueMap()"), json!([{"n": 1, "name": "Ann"}])),
        (format!("{ann}.valueMap('name', 'nope')"), json!([{"name": "Ann"}])),
        (format!("{ann}.out().values('name')"), json!(["Bo", "Cy"])),
        (format!("{ann}.out('LIKES').values('name')"), json!(["Cy"])),
        (format!("{ann}.out('LIKES', 'KNOWS').values('name')"), json!(["Bo", "Cy"])),
        (format!("x = ['LIKES']; {ann}.out(x).values('name')"), json!(["Cy"])),
        (format!("{ann}.in()"), json!([])),
        (format!("{ann}.out('LIKES').in().values('name')"), json!(["Ann", "Bo"])),
        (format!("{ann}.out('KNOWS').both().values('name')"), json!(["Ann", "Cy"])),
        (format!("{ann}.outLimit(1).count()"), json!([1])),
        (format!("{all}.outLimit('KNOWS', 1).count()"), json!([2])),
        (format!("{all}.out().limit(2).count()"), json!([2])),
        (format!("{all}.out().count()"), json!([3])),
        (format!("{all}.out().dedup().count()"), json!([2])),
        (format!("{all}.as('x').out().dedup().count()"), json!([2])),
        (format!("{ann}.outE().inV().values('name')"), json!(["Bo", "Cy"])),
        (format!("{ann}.outE('LIKES').outV().values('name')"), json!(["Ann"])),
        (format!("{ann}.outE('LIKES').bothV().values('name')"), json!(["Ann", "Cy"])),
        (format!("{ann}.bothE().count()"), json!([2])),
        (format!("{all}.has('n').count()"), json!([2])),
        (format!("{all}.hasNot('n').values('name')"), json!(["Cy"])),
        (format!("{all}.has('n', 2).values('name')"), json!(["Bo"])),
        (format!("{all}.has('n', neq(2)).values('name')"), json!(["Ann"])),
        (format!("{all}.has('name', within(['Ann', 'Cy'])).count()"), json!([2])),
        (format!("{all}.has('name', regex('.o')).values('name')"), json!(["Bo"])),
        (format!("{all}.has(label, 'Dog').values('name')"), json!(["Cy"])),
        (format!("{all}.hasLabel('Person').count()"), json!([2])),
        (format!("{all}.hasId(idFrom('g', 2)).values('name')"), json!(["Bo"])),
        (format!("{all}.values('n').is(2)"), json!([2])),
        (format!("{ann}.as('a').out('LIKES').in('LIKES').eqToVar('a').count()"), json!([1])),
        (format!("{ann}.as('a').out('KNOWS').as('b').select('a').values('name')"), json!(["Ann"])),
        (format!("{ann}.values('name').as('a').select('a', 'a')"), json!([{"a": "Ann"}])),
        (format!("{all}.where(_.out('LIKES')).values('name')"), json!(["Ann"])),
        (format!("{all}.not(_.out()).values('name')"), json!(["Cy"])),
        (format!("{all}.and(_.out(), _.in()).values('name')"), json!(["Bo"])),
        (format!("{all}.or(_.out('LIKES'), _.has(label, 'Dog')).values('name')"), json!(["Ann", "Cy"])),
        (format!("{ann}.union(_.out('LIKES'), _.out('KNOWS'), _.has('n')).values('name')"), json!(["Ann", "Bo", "Cy"])),
        (format!("{all}.where(_.out().has('n', 2)).values('name')"), json!(["Ann"])),
        (format!("{ann}.out('KNOWS').out('KNOWS').unrollPath().values('name')"), json!(["Ann", "Bo", "Cy"])),
        (format!("{all}.out().groupCount()"), Json::Null),
        (format!("{all}.out().values('name').groupCount()"), json!([{"Bo": 1, "Cy": 2}])),
        ("g.V().count()".to_owned(), json!([3])),
        ("g.recentV(2).count()".to_owned(), json!([2])),
        ("g.V(recent_nodes).count()".to_owned(), json!([3])),
        ("g.V(idFrom('g', 9)).values('name')".to_owned(), json!([])),
    ] {
        let mut found = ask(&weir, "/api/v1/query/gremlin", &text);
        // In what order there are several is not said.
        if let Some(items) = found.as_array_mut() {
            items.sort_by_key(Json::to_string);
        }
        if expected.is_null() {
            assert_eq!(found[0].as_object().map(serde_json::Map::len), Some(2), "{text}: {found}");
            continue;
        }
        let mut expected = expected;
        expected.as_array_mut().expect("an array").sort_by_key(Json::to_string);
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn things_are_shown_and_drawn() {
    let weir = weir();
    let id = ask(&weir, "/api/v1/query/gremlin", "g.V(idFrom('g', 1)).id()")[0].as_str().expect("an id").to_owned();
    assert_eq!(ask(&weir, "/api/v1/query/gremlin", &format!("g.V('{id}').strId()")), json!([id]));
    let hex = id.replace('-', "").to_uppercase();
    assert_eq!(ask(&weir, "/api/v1/query/gremlin", &format!("g.V('{id}')")), json!([format!("Vertex(QuineId({hex}))")]));
    let edge = ask(&weir, "/api/v1/query/gremlin", &format!("g.V('{id}').outE('LIKES')"))[0].to_string();
    assert!(edge.starts_with(&format!("\"Edge(QuineId({hex}), LIKES, QuineId(")), "{edge}");
    let nodes = ask(&weir, "/api/v1/query/gremlin/nodes", &format!("g.V('{id}').out('LIKES')"));
    assert_eq!((&nodes[0]["label"], &nodes[0]["properties"]), (&json!("Dog"), &json!({"name": "Cy"})));
    let edges = ask(&weir, "/api/v1/query/gremlin/edges", &format!("g.V('{id}').outE('LIKES')"));
    assert_eq!((&edges[0]["from"], &edges[0]["edgeType"]), (&json!(id), &json!("LIKES")));
    let body = json!({"text": "g.V(ids).out(kind).values('name')", "parameters": {"ids": [id], "kind": "LIKES", "other": 1}});
    assert_eq!(weir.post("/api/v1/query/gremlin", &body).expect(200).json(), json!(["Cy"]));
    assert_eq!(ask(&weir, "/api/v1/query/gremlin?at-time=1000", &format!("g.V('{id}').values('name')")), json!([]));
}

#[test]
fn mistakes_name_their_place() {
    let weir = weir();
    for (path, text, expected) in [
        ("/api/v1/query/gremlin", "g.V().\nnope()", "ParseError at 2.1: there is no step `nope`"),
        ("/api/v1/query/gremlin", "g.V(y)", "UnboundVariableError at 1.5: the variable `y` has no value"),
        ("/api/v1/query/gremlin", "g.V('x')", "FailedDeserializationError at 1.5: 'x' is no id"),
        ("/api/v1/query/gremlin", "g.V().values('n').out()", "TypeMismatchError at 1.19: `out` begins at a vertex"),
        ("/api/v1/query/gremlin", "g.V() #", "LexicalError at 1.7: Invalid input '#'"),
        ("/api/v1/query/gremlin/nodes", "g.V().values('n')", "TypeMismatchError"),
        ("/api/v1/query/gremlin/edges", "g.V()", "TypeMismatchError"),
    ] {
        let answer = weir.send("POST", path, &[("Content-Type", "text/plain")], text.as_bytes());
        assert_eq!(answer.status, 400, "{text}: {}", answer.shown());
        let reason = answer.json()[0].as_str().expect("a reason").to_owned();
        assert!(reason.starts_with(expected), "{text}: {reason}");
    }
}

#[test]
fn the_socket_of_the_explorer_takes_traversals() {
    let weir = weir();
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    let mut run = |sort: &str, query: &str| {
        let message =
            json!({"type": "RunQuery", "queryId": 1, "query": query, "sort": sort, "parameters": {}, "language": "Gremlin"});
        socket.send(&message.to_string());
        let first = socket.expect();
        if first["type"] == "MessageError" {
            return first["error"].clone();
        }
        assert_eq!((&first["type"], first.get("columns")), (&json!("QueryStarted"), None), "{first}");
        let results = socket.expect();
        assert_eq!(socket.expect()["type"], "QueryFinished");
        json!([results["type"], results["results"]])
    };
    assert_eq!(run("TextSort", "g.V(idFrom('g', 1)).values('name')"), json!(["NonTabularResults", ["Ann"]]));
    assert_eq!(run("NodeSort", "g.V(idFrom('g', 1))")[1][0]["label"], "Person");
    assert_eq!(run("EdgeSort", "g.V(idFrom('g', 1)).outE('LIKES')")[1][0]["edgeType"], "LIKES");
    assert!(run("TextSort", "g.V(").as_str().is_some_and(|text| text.starts_with("ParseError at 1.5: ")));
}
