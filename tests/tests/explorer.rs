//! The explorer as a browser gets it: the page and its files, their types and the headers that hold them to this server; the
//! parts of it that know no page, tested by `node --test` where there is a Node; and what its samples may do, in a real browser.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::json;
use weir_tests::browser::Browser;
use weir_tests::service::{Home, Weir};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/src/explorer");

/// What lies in the folder and is for tests alone.
const NOT_SERVED: [&str; 3] = ["page.html", "package.json", "pure.test.js"];

fn weir() -> Weir {
    Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"])
}

#[test]
fn the_page_and_its_files_are_served_and_held_to_this_server() {
    let weir = weir();
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(FOLDER).expect("the folder of the explorer") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if !NOT_SERVED.contains(&&*name) {
            files.insert(name);
        }
    }
    assert!(files.contains("main.js") && files.contains("style.css"), "{files:?}");
    let paths = files.iter().map(|name| format!("/explorer/{name}")).chain(["/explorer".to_owned()]);
    for path in paths {
        let answer = weir.get(&path).expect(200);
        let expected = match path.rsplit_once('.') {
            Some((_, "css")) => "text/css; charset=UTF-8",
            Some(_) => "text/javascript; charset=UTF-8",
            None => "text/html; charset=UTF-8",
        };
        assert_eq!(answer.header("content-type"), Some(expected), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("SAMEORIGIN"), "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(weir.send("HEAD", &path, &[], b"").expect(200).header("content-type"), Some(expected), "{path}");
    }
    for name in NOT_SERVED.into_iter().chain(["nothing.js", "..%2fpage.html", "%2e%2e"]) {
        weir.get(&format!("/explorer/{name}")).expect(404);
    }
    let moved = weir.get("/explorer/?layout=tree").expect(308);
    assert_eq!(moved.header("location"), Some("../explorer?layout=tree"), "behind whatever a proxy puts before it");
}

/// What a file asks for is a file that is served, and by a path that begins where the page is.
#[test]
fn nothing_is_asked_for_that_is_not_here() {
    let weir = weir();
    let page = weir.get("/explorer").expect(200).text();
    let mut asked: Vec<String> =
        page.split(['"', '\'']).filter(|part| part.starts_with("explorer/")).map(str::to_owned).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let mut seen = BTreeSet::new();
    while let Some(path) = asked.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = weir.get(&format!("/{path}")).expect(200).text();
        let others = text.lines().filter(|line| line.starts_with("import ")).filter_map(|line| line.split('"').nth(1));
        asked.extend(others.filter_map(|other| other.strip_prefix("./")).map(|other| format!("explorer/{other}")));
        for elsewhere in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"] {
            assert!(!text.contains(elsewhere), "{path} has {elsewhere}");
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
    // Old addresses of the explorer at the first page lead here.
    let first = weir.get("/").expect(200).text();
    assert!(first.contains("location.replace(\"explorer\"") && first.contains("href=\"explorer\""));
    assert!(weir.get("/docs").expect(200).text().contains("href=\"./explorer\""));
}

/// Queries that the page itself sends, as `rules.js` writes them.
const NODES: &str = "UNWIND $nodeIds AS nodeId MATCH (n) WHERE strId(n) = nodeId RETURN n";
const EDGES: &str = "UNWIND $nodeIds AS nodeId MATCH (n)-[e]-(m) WHERE strId(n) = nodeId AND $drawn[strId(m)] IS NOT NULL RETURN DISTINCT e LIMIT ";
const EDGED: &str = "UNWIND $nodeIds AS nodeId MATCH (n)--() WHERE strId(n) = nodeId RETURN DISTINCT nodeId";
const COUNTS: [&str; 2] = [
    "MATCH (n) WHERE strId(n) = $nodeId MATCH (n)-[e]->() RETURN type(e) AS type, true AS out, count(*) AS count ",
    "UNION ALL MATCH (n) WHERE strId(n) = $nodeId MATCH (n)<-[e]-() RETURN type(e) AS type, false AS out, count(*) AS count",
];

#[test]
fn queries_of_the_page_run() {
    let weir = weir();
    let rules = weir.get("/explorer/rules.js").expect(200).text();
    for text in [NODES, EDGES, EDGED].into_iter().chain(COUNTS) {
        assert!(rules.contains(&format!("\"{text}\"")), "{text}");
    }
    weir.query("MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') SET a:A, b:B CREATE (a)-[:KNOWS]->(b)")
        .expect(200);
    let ids: Vec<String> =
        weir.rows("MATCH (n) RETURN strId(n)").iter().map(|row| row[0].as_str().expect("an id").to_owned()).collect();
    let drawn: serde_json::Map<_, _> = ids.iter().map(|id| (id.clone(), json!(true))).collect();
    let nodes = weir.rows_with(NODES, json!({"nodeIds": ids}));
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    let fields: BTreeSet<&String> = nodes[0][0].as_object().expect("a node").keys().collect();
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), ["id", "labels", "properties"]);
    let edges = weir.rows_with(&format!("{EDGES}20000"), json!({"nodeIds": ids, "drawn": drawn}));
    assert_eq!(edges.len(), 1, "{edges:?}");
    let fields: BTreeSet<&String> = edges[0][0].as_object().expect("an edge").keys().collect();
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), ["end", "name", "properties", "start"]);
    // Any id has a row, and one that nothing is known of has no edge.
    let absent = json!({"nodeIds": [ids[0], "00000000-0000-3000-8000-000000000000"]});
    assert_eq!(weir.rows_with(EDGED, absent), [json!([ids[0]])]);
    for id in &ids {
        let counts = weir.rows_with(&COUNTS.concat(), json!({"nodeId": id}));
        assert_eq!((counts.len(), &counts[0][0], &counts[0][2]), (1, &json!("KNOWS"), &json!(1)));
    }
}

/// Anybody who reaches the API may have put a sample on the list.
#[test]
fn a_sample_that_writes_asks_first() {
    let Some(browser) = Browser::start("samples of the explorer in a browser") else { return };
    let weir = weir();
    weir.query("MATCH (n) WHERE id(n) = idFrom('ann') SET n:Person").expect(200);
    let samples =
        json!([{"name": "All", "query": "MATCH (n) RETURN n"}, {"name": "Tidy up", "query": "MATCH (n) DETACH DELETE n"}]);
    let headers = [("Content-Type", "application/json")];
    weir.send("PUT", "/api/v1/query-ui/sample-queries", &headers, samples.to_string().as_bytes()).expect(204);
    let mut tab = browser.open(&weir, "/explorer");
    tab.click("#try button:nth-child(2)");
    tab.wait_text("dialog", "Run this query?");
    assert_eq!(tab.value("document.getElementById('text').value"), json!("MATCH (n) DETACH DELETE n"));
    tab.press("Escape");
    tab.wait("!document.querySelector('dialog')");
    tab.click("#try button:nth-child(1)");
    tab.wait_text("#counts", "1 node");
    assert_eq!(weir.rows("MATCH (n) RETURN count(*)"), [json!([1])]);
    // The keyboard goes on where it was; with the last table gone, on the canvas.
    tab.value("document.getElementById('text').select()");
    tab.write("RETURN 1 AS one");
    tab.press("Enter");
    tab.wait_text("#dock table", "one");
    tab.value("document.querySelector(\"#dock [aria-label^='Close']\").focus()");
    tab.press("Enter");
    tab.wait("document.activeElement.id === 'canvas'");
    tab.is_well();
}

#[test]
fn parts_that_know_no_page_do_what_they_say() {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 20) {
        eprintln!("**** LEFT OUT: the tests of the explorer's scripts need Node 20 or later (there is {version:?})");
        return;
    }
    let output = Command::new("node").args(["--test", "pure.test.js"]).current_dir(FOLDER).output().expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
