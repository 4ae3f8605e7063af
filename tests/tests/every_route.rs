//! Every row of the table of routes. Its errors and parameters are tried from the table and the OpenAPI documents themselves: a
//! row that is added is tried here without a word more. What it answers when all is well stands in `every-route.txt`, and a row
//! that is not there fails the test; what stands behind it is in `routes.rs`, `wire.rs` and their like.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use serde_json::Value as Json;
use weir_api::openapi;
use weir_api::routes::{Method, ROUTES, Route, Takes};
use weir_api::wire::family::Family;
use weir_tests::cases::{self, Is, check};
use weir_tests::client::{self, Answer};
use weir_tests::contract::{Sent, breach};
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::socket::Socket;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Not in the words that any parameter knows, nor a number, a moment or a duration.
const NONSENSE: &str = "~nonsense~";

struct Tried {
    weir: Weir,
    id: String,
    requests: u32,
    wrong: Vec<String>,
}

impl Tried {
    /// Sends a request, which must be answered with one of the statuses and as the document says.
    fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8], statuses: &[u16]) -> Answer {
        let answer = self.weir.send(method, target, headers, body);
        self.requests += 1;
        let content_type = headers.iter().find(|(name, _)| *name == "Content-Type").map(|(_, value)| *value);
        let how = match statuses.contains(&answer.status) {
            false => Some(format!("status {} for {statuses:?}", answer.status)),
            true => breach(&Sent { method, target, content_type, body }, &answer),
        };
        if let Some(how) = how {
            self.wrong.push(format!(
                "{method} {target} {headers:?} {:?}\n  {how}: {}",
                String::from_utf8_lossy(body),
                answer.shown()
            ));
        }
        answer
    }

    /// A path of the row, with the name of a thing that is not there, and a graph.
    fn path(&self, route: &Route, graph: &str) -> String {
        let mut path = String::new();
        for (index, part) in route.path.split('/').enumerate() {
            if index > 0 {
                path.push('/');
            }
            match part.split_once('}') {
                Some(("{graphName", _)) => path.push_str(graph),
                Some(("{id", verb)) if !route.path.contains("running") => path.push_str(&format!("{}{verb}", self.id)),
                Some(("{namespace", _)) => path.push_str("nobody"),
                Some((_, verb)) => path.push_str(&format!("nobody{verb}")),
                None => path.push_str(part),
            }
        }
        path
    }
}

fn is_elsewhere(route: &Route) -> bool {
    route.name == "admin::not_enabled"
}

/// What a row takes, with nothing wrong in it that is known without a look at the fields.
fn body(route: &Route) -> (Vec<(&'static str, &'static str)>, &'static [u8]) {
    match route.takes {
        Takes::Nothing => (Vec::new(), b""),
        Takes::Data | Takes::Value => (vec![("Content-Type", JSON)], b"{}"),
        Takes::Query => (vec![("Content-Type", TEXT)], b"RETURN 1"),
        Takes::Records => (vec![("Content-Type", JSON)], b"[{}]"),
    }
}

/// Whether a text cannot be a value of a parameter.
fn refuses(parameter: &Json) -> bool {
    let schema = &parameter["schema"];
    let timed = ["at-time", "atTime", "timeout"].contains(&parameter["name"].as_str().unwrap_or_default());
    timed || schema["enum"].is_array() || ["integer", "number", "boolean"].contains(&schema["type"].as_str().unwrap_or_default())
}

#[test]
fn every_row_refuses_what_is_wrong_as_its_document_says() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let id = weir.rows("RETURN idFrom('r')")[0][0].as_str().expect("an id").to_owned();
    let mut tried = Tried { weir, id, requests: 0, wrong: Vec::new() };
    let documents: Vec<(Family, Json)> =
        [Family::V1, Family::Preview, Family::Current].map(|family| (family, openapi::document(family, None))).into();
    let mut methods: BTreeMap<&str, Vec<&Method>> = BTreeMap::new();
    ROUTES.iter().for_each(|route| methods.entry(route.path).or_default().push(&route.method));
    let mut of_headers = 0;
    for route in ROUTES {
        let method = route.method.as_str();
        let path = tried.path(route, "quine");
        let document = documents.iter().find(|(family, _)| *family == route.family()).map(|(_, document)| document);
        let operation = document.map_or(&Json::Null, |document| &document["paths"][route.path][method.to_ascii_lowercase()]);
        let parameters: Vec<&Json> = operation["parameters"].as_array().into_iter().flatten().collect();
        let needed = parameters.iter().filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        let needed: String = needed.map(|parameter| format!("&{}=x", parameter["name"].as_str().unwrap_or_default())).collect();
        let with = |pair: &str| format!("{path}?{pair}{needed}");
        let (headers, fine) = body(route);
        if route.takes != Takes::Nothing {
            tried.send(method, &path, &[("Content-Type", "image/png")], b"x", &[415]);
            let broken = tried.send(method, &with(""), &[("Content-Type", JSON)], b"{\"a\": ", &[400, 404]);
            let told = ["ParsingFailure", "no JSON", "does not exist"];
            if broken.status == 400 && !told.iter().any(|told| broken.text().contains(told)) {
                tried.wrong.push(format!("{method} {path}: does not say that it is no JSON: {}", broken.shown()));
            }
            let wrong = tried.send(method, &path, &[("Content-Type", JSON)], b"17", &[400, 404]);
            if wrong.body.is_empty() && wrong.status == 400 {
                tried.wrong.push(format!("{method} {path}: says nothing"));
            }
        }
        if !route.gives.is_empty() && !route.is_socket() {
            let accept = [headers.as_slice(), &[("Accept", "image/png")]].concat();
            tried.send(method, &path, &accept, fine, &[406]);
        }
        if !route.is_socket() {
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query" && refuses(parameter)) {
                let name = parameter["name"].as_str().expect("a name");
                let answer = tried.send(method, &with(&format!("{name}={NONSENSE}")), &headers, fine, &[400]);
                // What is wrong with the body may be said first.
                if !matches!(route.takes, Takes::Data | Takes::Value) && !answer.text().contains(name) {
                    tried.wrong.push(format!("{method} {path}: {name} is wrong, and this is said: {}", answer.shown()));
                }
            }
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "header" && refuses(parameter)) {
                let name = parameter["name"].as_str().expect("a name");
                let answer = tried.send(method, &with(""), &[headers.as_slice(), &[(name, NONSENSE)]].concat(), fine, &[400]);
                if !matches!(route.takes, Takes::Data | Takes::Value) && !answer.text().contains(name) {
                    tried.wrong.push(format!("{method} {path}: {name} is wrong, and this is said: {}", answer.shown()));
                }
                of_headers += 1;
            }
        }
        // A graph that is not there, and one that cannot be.
        let named = parameters.iter().find(|parameter| {
            parameter["in"] == "query" && ["namespace", "graphName"].contains(&parameter["name"].as_str().unwrap_or_default())
        });
        let graphs = ["nobody", "no%20name"].map(|graph| match named.and_then(|parameter| parameter["name"].as_str()) {
            Some(parameter) => Some(with(&format!("{parameter}={graph}"))),
            None => route.path.contains("{graphName}").then(|| tried.path(route, graph)),
        });
        for target in graphs.into_iter().flatten().filter(|_| !is_elsewhere(route)) {
            // A list of what is in a graph that is not there is empty, as clients of v1 know it.
            let statuses: &[u16] = if route.path == "/api/v1/ingest" { &[200, 400] } else { &[400, 404] };
            tried.send(method, &target, &headers, fine, statuses);
        }
        // Methods that no row of the path has, and a slash too many.
        let other = [Method::PUT, Method::DELETE, Method::PATCH, Method::POST, Method::GET];
        let taken = |method: &Method| {
            ROUTES.iter().any(|other| {
                other.method == *method
                    && weir_api::routes::find(method, &path, false).is_some_and(|(found, _)| found.path == other.path)
            })
        };
        if let Some(other) = other.iter().find(|method| !taken(method)) {
            let status = if route.family().is_v2() { 405 } else { 404 };
            tried.send(other.as_str(), &path, &[], b"", &[status]);
        }
        if route.path != "/" {
            let answer = tried.weir.send(method, &format!("{path}/"), &[], b"");
            // What is under /api/ is where it says; pages are beside each other, whatever a proxy puts before them.
            let page = path.rsplit('/').next().filter(|_| !path.starts_with("/api/")).map(|page| format!("../{page}"));
            let is_there = |place: &str| page.as_ref().map_or(place.ends_with(&path), |page| place == page);
            let moved = answer.status == 308 && answer.header("location").is_some_and(is_there);
            // Behind the slash another name could stand.
            let named = weir_api::routes::find(&route.method, &format!("{path}/"), false).is_some();
            if !moved && !named && !route.family().is_v2() {
                tried.wrong.push(format!("{method} {path}/: {}", answer.shown()));
            }
        }
    }
    assert!(of_headers >= 8, "only {of_headers} routes of v2 name the header of a member");
    tried.weir.get("/api/v2/system/liveness").expect(204);
    assert!(!tried.weir.log().contains("panicked"), "{}", tried.weir.log());
    eprintln!("{} rows, {} requests", ROUTES.len(), tried.requests);
    assert!(tried.wrong.is_empty(), "{} of {} requests:\n{}", tried.wrong.len(), tried.requests, tried.wrong.join("\n"));
}

const WELL: &str = include_str!("../every-route.txt");

/// A query that ends when it is told to.
const ENDLESS: &str = "UNWIND range(1, 1000000) AS x UNWIND range(1, 1000000) AS y WITH x, y WHERE x + y < 0 RETURN x";
const RUNNING: &str = "/api/v1/query/cypher/running";
const SOON: Duration = Duration::from_secs(60);

/// A request of the file: its first line, its body, the status and what the answer is.
struct Well {
    request: &'static str,
    body: String,
    status: u16,
    is: &'static str,
}

fn read_well() -> Vec<Well> {
    let blocks = WELL.split("\n\n").map(str::trim).filter(|block| !block.is_empty() && !block.starts_with('#'));
    let read = |block: &'static str| {
        let (request, rest) = block.split_once('\n').unwrap_or_else(|| panic!("no answer: {block}"));
        let (body, answer) = rest.rsplit_once('\n').unwrap_or(("", rest));
        let (status, is) = answer.split_once(' ').unwrap_or((answer, ""));
        let status = status.parse().unwrap_or_else(|_| panic!("no status: {block}"));
        Well { request, body: body.to_owned(), status, is }
    };
    blocks.map(read).collect()
}

#[test]
fn every_row_answers_as_its_document_says_when_all_is_well() {
    let home = Home::new();
    let start = |home: &Home| {
        let weir = home.start(&["-Dweir.workers=1"]);
        weir.rows(cases::TWO);
        weir
    };
    let weir = start(&home);
    let id = weir.rows("RETURN idFrom('r')")[0][0].as_str().expect("an id").to_owned();
    let mut reached: BTreeSet<(&str, &str, bool)> = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut open = Vec::new();
    for well in read_well() {
        let (verb, target) = well.request.split_once(' ').expect("a method and a path");
        let mut running = String::new();
        if [well.request, well.is].iter().any(|text| text.contains("{running}")) {
            let listed = || weir.get(RUNNING).expect(200).json();
            if listed().as_array().is_some_and(Vec::is_empty) {
                let headers = [("Content-Type", TEXT)];
                let route = "/api/v1/query/cypher";
                open.push(client::open(weir.address(), "POST", route, &headers, ENDLESS.as_bytes()).expect("a connection"));
                wait_until("the query is listed", SOON, || listed().as_array().is_some_and(|all| all.len() == 1));
            }
            running = listed()[0]["id"].as_str().expect("an id").to_owned();
        }
        let filled = |text: &str| text.replace("{id}", &id).replace("{running}", &running);
        let (target, body) = (filled(target), filled(&well.body));
        let path = target.split('?').next().unwrap_or_default();
        let method = if matches!(verb, "SOCKET" | "EVENTS") { "GET" } else { verb };
        let row = weir_api::routes::find(&method.parse().expect("a method"), path, verb == "SOCKET");
        let Some((row, _)) = row else {
            wrong.push(format!("{}: there is no such row", well.request));
            continue;
        };
        reached.insert((row.method.as_str(), row.path, row.is_socket()));
        let how = match verb {
            "SOCKET" => Socket::open(&weir, &target).err(),
            "EVENTS" => events(&weir, &target),
            _ => {
                let is_json = body.starts_with(['{', '[', '"']) || body.parse::<f64>().is_ok();
                let kind = if is_json { JSON } else { TEXT };
                let headers: &[(&str, &str)] = if body.is_empty() { &[] } else { &[("Content-Type", kind)] };
                // Who is told to end needs a weir of its own.
                let ends = path.ends_with("shutdown").then(Home::new).map(|home| (start(&home), home));
                let asked = ends.as_ref().map_or(&weir, |(weir, _)| weir);
                let answer = asked.send(method, &target, headers, body.as_bytes());
                let is = filled(well.is);
                let is = match serde_json::from_str(&is) {
                    Ok(json) => Is::Json(json),
                    _ if is.is_empty() => Is::Empty,
                    _ => Is::Text(if well.is == "ANYTHING" { "" } else { well.is }),
                };
                let content_type = headers.first().map(|(_, kind)| *kind);
                let sent = Sent { method, target: &target, content_type, body: body.as_bytes() };
                let how = check(well.status, &is, &answer).err().or_else(|| breach(&sent, &answer));
                if let Some((weir, _home)) = ends {
                    let (status, log) = weir.wait_end(Duration::from_secs(60));
                    assert!(status.success(), "{target}: {log}");
                }
                how.map(|how| format!("{how}\n  answered {}", answer.shown()))
            }
        };
        wrong.extend(how.map(|how| format!("{}\n  {how}", well.request)));
        if verb == "DELETE" && !running.is_empty() {
            // It is listed until it has seen that it shall end.
            let listed = || weir.get(RUNNING).expect(200).text().contains(&format!("\"{running}\""));
            wait_until("the query is gone", SOON, || !listed());
        }
    }
    for row in ROUTES.iter().filter(|row| !is_elsewhere(row)) {
        if !reached.contains(&(row.method.as_str(), row.path, row.is_socket())) {
            wrong.push(format!("{} {} ({}) is not in every-route.txt", row.method, row.path, row.name));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    drop(open);
    weir.stop();
}

/// Reads the head of an answer without an end; how it is not what it should be.
fn events(weir: &Weir, target: &str) -> Option<String> {
    let mut stream = client::open(weir.address(), "GET", target, &[("Accept", "text/event-stream")], b"").expect("a connection");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_err() {
            break;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let fine = head.starts_with("http/1.1 200 ") && head.contains("content-type: text/event-stream");
    (!fine).then_some(head)
}
