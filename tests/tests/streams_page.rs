//! The page of streams and standing queries: its files as a browser gets them, the parts of it that know no page (by `node
//! --test`, where there is a Node), and the page itself in a real browser, where streams and queries are made, seen, paused and
//! removed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value as Json, json};
use weir_tests::browser::{Browser, Tab};
use weir_tests::service::{Home, Weir};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/src/streams");

/// What lies in the folder and is for tests alone.
const NOT_SERVED: [&str; 3] = ["page.html", "package.json", "pure.test.js"];

fn weir() -> Weir {
    Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"])
}

#[test]
fn the_page_and_its_files_are_served_and_held_to_this_server() {
    let weir = weir();
    let names = fs::read_dir(FOLDER).expect("the folder of the page").map(|entry| entry.expect("an entry").file_name());
    let files: BTreeSet<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(files.contains("main.js") && files.contains("style.css"), "{files:?}");
    let served = files.iter().filter(|name| !NOT_SERVED.contains(&name.as_str()));
    for path in served.map(|name| format!("/streams/{name}")).chain(["/streams".to_owned()]) {
        let answer = weir.get(&path).expect(200);
        let expected = match path.rsplit_once('.') {
            Some((_, "css")) => "text/css; charset=UTF-8",
            Some(_) => "text/javascript; charset=UTF-8",
            None => "text/html; charset=UTF-8",
        };
        assert_eq!(answer.header("content-type"), Some(expected), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
    for name in NOT_SERVED.into_iter().chain(["nothing.js", "..%2fpage.html"]) {
        weir.get(&format!("/streams/{name}")).expect(404);
    }
    assert_eq!(weir.get("/streams/").expect(308).header("location"), Some("../streams"));
}

/// What a file asks for is a file that is served, by a path that begins where the page is; and the pages lead to each other.
#[test]
fn nothing_is_asked_for_that_is_not_here() {
    let weir = weir();
    let page = weir.get("/streams").expect(200).text();
    let is_file = |part: &&str| part.starts_with("streams/") || part.starts_with("explorer/");
    let mut asked: Vec<String> = page.split('"').filter(is_file).map(str::to_owned).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let mut seen = BTreeSet::new();
    while let Some(path) = asked.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = weir.get(&format!("/{path}")).expect(200).text();
        let (folder, _) = path.split_once('/').expect("a folder");
        for import in text.lines().filter(|line| line.starts_with("import ")).filter_map(|line| line.split('"').nth(1)) {
            let beside = import.strip_prefix("./").map(|name| format!("{folder}/{name}"));
            asked.extend(beside.or_else(|| import.strip_prefix("../").map(str::to_owned)));
        }
        for elsewhere in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"] {
            assert!(!text.contains(elsewhere), "{path} has {elsewhere}");
        }
    }
    assert!(seen.len() > 18, "{seen:?}");
    for page in ["/", "/explorer", "/docs"] {
        let text = weir.get(page).expect(200).text();
        assert!(text.contains("href=\"streams\"") || text.contains("href=\"./streams\""), "{page}");
    }
    for other in ["./", "explorer", "docs"] {
        assert!(page.contains(&format!("href=\"{other}\"")), "{other}");
    }
}

#[test]
fn parts_that_know_no_page_do_what_they_say() {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 20) {
        eprintln!("**** LEFT OUT: the tests of the scripts of the page of streams need Node 20 or later (there is {version:?})");
        return;
    }
    let output = Command::new("node").args(["--test", "pure.test.js"]).current_dir(FOLDER).output().expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes into a field, in place of what is there.
fn fill(tab: &mut Tab, selector: &str, text: &str) {
    tab.wait(&format!("document.querySelector({})?.checkVisibility()", json!(selector)));
    tab.value(&format!("(field => {{ field.focus(); field.select(); }})(document.querySelector({}))", json!(selector)));
    tab.write(text);
}

/// Chooses an option, as a person who picks it from the list does.
fn choose(tab: &mut Tab, selector: &str, option: &str) {
    tab.value(&format!(
        "(field => {{ field.value = {}; field.dispatchEvent(new Event(\"change\")); }})(document.querySelector({}))",
        json!(option),
        json!(selector)
    ));
}

const NAME: &str = "dialog [data-path='name']";
const CREATE: &str = "dialog button.main";

/// Where the button stands that lies below the picture and the streams.
fn place_of_new_query(tab: &mut Tab) -> Json {
    tab.value("document.getElementById('new-query').getBoundingClientRect().y + scrollY")
}

/// Answers to the question why come when the test says so, with a text of the test.
const HOLD_ANSWERS: &str = "window.held = [], window.asked = fetch, window.fetch = (path, options) => String(path).endsWith('/why') ? new Promise(done => held.push(fails => done(new Response(JSON.stringify({matches: [], whyNot: [{fails}]}))))) : asked(path, options), 0";

#[test]
fn a_stream_is_made_by_the_form_seen_paused_and_deleted() {
    let Some(browser) = Browser::start("the page of streams in a browser") else { return };
    let weir = weir();
    let mut tab = browser.open(&weir, "/streams");
    tab.wait_text("#no-ingest", "No stream");
    let place = place_of_new_query(&mut tab);
    tab.click("#new-ingest");
    tab.wait_text("dialog .cards", "Kafka");
    tab.click("dialog .cards button:nth-child(2)");
    fill(&mut tab, NAME, "numbers");
    fill(&mut tab, "dialog [data-path='query']", "MATCH (n) WHERE id(n) = idFrom($that)\nSET n.value = nowhere");
    // What is wrong is told at the form, and where it is in the text is chosen there.
    tab.click(CREATE);
    tab.wait_text("dialog .problem", "nowhere");
    let at =
        tab.value("(field => field.value.slice(field.selectionStart))(document.querySelector(\"dialog [aria-invalid='true']\"))");
    assert_eq!(at, json!("nowhere"));
    fill(&mut tab, "dialog [data-path='query']", "MATCH (n) WHERE id(n) = idFrom($that) SET n:Number, n.value = $that");
    fill(&mut tab, "dialog [data-path='source.limit']", "1000000000");
    tab.click("dialog .dialog-body > .fields > .more-fields > summary");
    fill(&mut tab, "dialog [data-path='maxPerSecond']", "100");
    tab.click(CREATE);
    tab.wait("!document.querySelector('dialog')");
    tab.wait_text("#ingest-rows", "NumberIterator");
    tab.wait_text("#ingest-rows tr td:nth-of-type(4)", "/s");
    // What is drawn has no innerText.
    tab.wait("document.querySelector('#boxes').textContent.includes('numbers')");
    assert_eq!(place_of_new_query(&mut tab), place, "nothing moves away from who wants to click on it");
    let settings = weir.get("/api/v2/graph/quine/ingests/numbers").expect(200).json();
    assert_eq!(
        (&settings["settings"]["maxPerSecond"], &settings["settings"]["source"]["limit"]),
        (&json!(100), &json!(1000000000))
    );
    // What is told below its name stays open while the page looks again.
    tab.click("#ingest-rows button.name");
    tab.wait_text("#ingest-rows .details", "idFrom($that)");
    tab.click("[aria-label='Pause numbers']");
    tab.wait_text("#ingest-rows .state", "paused");
    assert_eq!(weir.get("/api/v2/graph/quine/ingests/numbers").expect(200).json()["status"], "PAUSED");
    tab.click("[aria-label='Resume numbers']");
    tab.wait("(state => state && state.innerText !== 'paused')(document.querySelector('#ingest-rows .state'))");
    tab.wait_text("#ingest-rows .details", "idFrom($that)");
    // It asks first.
    tab.click("[aria-label='Delete numbers']");
    tab.wait_text("#ingest-rows .question", "Delete numbers?");
    tab.press("Escape");
    tab.wait("!document.querySelector('#ingest-rows .question')");
    tab.click("[aria-label='Delete numbers']");
    tab.click("#ingest-rows button.danger");
    tab.wait_text("#no-ingest", "No stream");
    weir.get("/api/v2/graph/quine/ingests/numbers").expect(404);
    // The query that was refused.
    tab.is_well_but("400");
}

#[test]
fn a_query_is_made_by_the_form_and_says_why_it_has_a_result() {
    let Some(browser) = Browser::start("standing queries on the page of streams in a browser") else { return };
    let weir = weir();
    let mut tab = browser.open(&weir, "/streams");
    tab.wait_text("#no-query", "No standing query");
    tab.click("#new-query");
    fill(&mut tab, NAME, "adults");
    fill(&mut tab, "dialog [data-path='pattern.query']", "MATCH (p:Person) WHERE p.age > 17 RETURN id(p) AS id, p.name AS name");
    tab.click("dialog [data-path='includeCancellations']");
    tab.click("dialog [aria-label='Add to outputs']");
    fill(&mut tab, "dialog [data-path='outputs.0.name']", "nowhere");
    choose(&mut tab, "dialog [data-path='outputs.0.destinations.0.type']", "Drop");
    tab.click(CREATE);
    tab.wait("!document.querySelector('dialog')");
    tab.wait_text("#query-rows", "AnyQuery");
    tab.wait_text("#query-rows span.outputs", "nowhere");
    let made = weir.get("/api/v2/graph/quine/standingQueries/adults").expect(200).json();
    assert_eq!((&made["includeCancellations"], &made["outputs"][0]["destinations"][0]["type"]), (&json!(true), &json!("Drop")));
    tab.click("#query-rows button.name");
    tab.wait_text(".live-head", "None has come yet");
    weir.query("MATCH (p) WHERE id(p) = idFrom('ann') SET p:Person, p.name = 'Ann', p.age = 40").expect(200);
    tab.wait_text(".results li.match", "Ann");
    tab.click(".results li.match button");
    tab.wait_text(".answer", ".age = 40");
    tab.wait_text(".answer", "no stream");
    let link = tab.value("document.querySelector('.answer a').getAttribute('href')");
    assert!(link.as_str().is_some_and(|link| link.starts_with("explorer#query=UNWIND")), "{link}");
    weir.query("MATCH (p) WHERE id(p) = idFrom('ann') SET p.age = 4").expect(200);
    tab.click("#query-head");
    tab.wait_text(".results li.gone", "Ann");
    // Of two answers that are waited for, that of what was asked last stays.
    tab.value(HOLD_ANSWERS);
    tab.click(".results li.match button");
    tab.click(".results li.gone button");
    tab.wait("held.length === 2");
    tab.value("held[1]('the last'), 0");
    tab.wait_text(".answer", "the last");
    tab.value("held[0]('the first'), new Promise(done => setTimeout(done, 200, 0))");
    let told = tab.text(".answer").unwrap_or_default();
    assert!(told.contains("the last"), "{told}");
    tab.value("window.fetch = asked, 0");
    tab.click("#query-head");
    // While nobody sees the page nothing is followed; then it goes on from where it was.
    let hidden = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}}), document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    tab.value(&hidden(true));
    weir.query("MATCH (p) WHERE id(p) = idFrom('ann') SET p.age = 41").expect(200);
    weir.query("MATCH (p) WHERE id(p) = idFrom('ann') SET p.age = 4").expect(200);
    tab.value("new Promise(done => setTimeout(done, 1000))");
    let said = tab.text(".live-head").unwrap_or_default();
    assert!(said.contains("2 so far"), "{said}");
    tab.value(&hidden(false));
    tab.wait_text(".live-head", "4 so far");
    let tab_named =
        |name: &str| format!("[...document.querySelectorAll('[role=tab]')].find(one => one.innerText === '{name}').click()");
    tab.value(&tab_named("Plan"));
    tab.wait("document.querySelector('.plan-picture')?.textContent.includes('Changes of (p:Person)')");
    tab.value(&tab_named("Why not"));
    fill(&mut tab, ".whynot [aria-label='Its name']", "name");
    fill(&mut tab, ".whynot [aria-label='Its value']", "Ann");
    tab.click(".whynot button.main");
    tab.wait_text(".why", "(p.age > 17) does not hold");
    tab.value(&tab_named("Outputs"));
    tab.wait_text(".output", "Drop");
    tab.click("[aria-label='Remove nowhere']");
    tab.click(".output button.danger");
    tab.wait("!document.querySelector('.output')");
    tab.click("[aria-label='Delete adults']");
    tab.click("#query-rows button.danger");
    tab.wait_text("#no-query", "No standing query");
    tab.is_well();
}

#[test]
fn an_output_is_changed_in_its_place_and_no_mask_is_sent() {
    let Some(browser) = Browser::start("outputs on the page of streams in a browser") else { return };
    let weir = weir();
    let hook = json!({"name": "hook", "destinations": [{"type": "HttpEndpoint", "url": "http://u:hush@127.0.0.1:9/old"}]});
    let step = json!({"name": "..", "destinations": [{"type": "Drop"}]});
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n:Number) RETURN n.text AS text"});
    let body = json!({"name": "q", "pattern": pattern, "outputs": [hook, step]});
    weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
    let outputs = || weir.get("/api/v2/graph/quine/standingQueries/q").expect(200).json()["outputs"].clone();
    let mut tab = browser.open(&weir, "/streams");
    tab.click("#query-rows button.name");
    tab.wait_text(".live-head", "None has come yet");
    tab.value("[...document.querySelectorAll('[role=tab]')].find(one => one.innerText === 'Outputs').click()");
    tab.click("[aria-label='Change hook']");
    tab.wait_text("dialog .problem.mild", "destinations.0.url");
    tab.click(CREATE);
    tab.wait_text("dialog pre.problem", "mask of a secret");
    fill(&mut tab, "dialog [data-path='destinations.0.url']", "http://127.0.0.1:9/new");
    tab.click(CREATE);
    tab.wait("!document.querySelector('dialog')");
    // Who has closed a dialog is where it was opened.
    tab.wait("document.activeElement.ariaLabel === 'Change hook'");
    assert_eq!(outputs()[0]["destinations"][0]["url"], "http://127.0.0.1:9/new");
    // A browser takes this name for a step of the path, which leads to the query.
    tab.click("[aria-label='Remove ..']");
    tab.click(".output button.danger");
    tab.wait_text("#toasts .wrong", "curl --path-as-is");
    assert_eq!(outputs()[1]["name"], "..");
    tab.is_well();
}

/// v2 takes few names; what v1 has made may have any, and is managed by the page all the same.
#[test]
fn what_has_a_strange_name_is_seen_paused_and_deleted() {
    let Some(browser) = Browser::start("strange names on the page of streams in a browser") else { return };
    let weir = weir();
    let format = json!({"type": "CypherLine", "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Number, n.text = $that"});
    let stream = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 50, "format": format});
    weir.post("/api/v1/ingest/a%2Fb%20%3C50%25%3E", &stream).expect(200);
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n:Number) RETURN n.text AS text"});
    let query = json!({"pattern": pattern, "outputs": {"c/d?": {"type": "Drop"}}});
    weir.post("/api/v1/query/standing/a%2Fb%20%3C50%25%3E", &query).expect(201);
    let mut tab = browser.open(&weir, "/streams");
    // A box of the picture leads to its row, and that of an output to it, whatever slashes there are.
    tab.wait("document.querySelectorAll('#boxes [role=button]').length === 3");
    tab.value("document.querySelectorAll('#boxes [role=button]')[2].dispatchEvent(new Event('click'))");
    tab.wait_text("#query-rows .output", "c/d?");
    tab.click("[aria-label='Remove c/d?']");
    tab.click(".output button.danger");
    tab.wait("!document.querySelector('.output')");
    tab.value("[...document.querySelectorAll('[role=tab]')].find(one => one.innerText === 'Plan').click()");
    tab.wait("document.querySelector('.plan-picture')");
    tab.value("[...document.querySelectorAll('[role=tab]')].find(one => one.innerText === 'Results').click()");
    tab.wait("document.querySelector('.results li.match')");
    for (rows, none) in [("#ingest-rows", "#no-ingest"), ("#query-rows", "#no-query")] {
        tab.click(&format!("{rows} [aria-label='Pause a/b <50%>']"));
        tab.wait_text(&format!("{rows} .state"), "paused");
        tab.click(&format!("{rows} [aria-label='Resume a/b <50%>']"));
        tab.wait(&format!("(state => state && !state.innerText.includes('paused'))(document.querySelector('{rows} .state'))"));
        tab.click(&format!("{rows} [aria-label='Delete a/b <50%>']"));
        tab.click(&format!("{rows} button.danger"));
        tab.wait(&format!("document.querySelector('{none}').checkVisibility()"));
    }
    weir.get("/api/v1/ingest/a%2Fb%20%3C50%25%3E").expect(404);
    tab.is_well();
}
