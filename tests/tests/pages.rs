//! The pages of weir in a real browser, as a person uses them: queries typed, nodes gone on from, results seen as they come, a
//! request tried. Nothing that the pages do may be refused by their own policy, and nothing may end in an error of the browser's.

use serde_json::json;
use weir_tests::browser::{Browser, Tab};
use weir_tests::service::{Home, Weir};

fn weir() -> Weir {
    Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"])
}

/// Ann knows Ben, and Ben knows Cleo.
const PEOPLE: &str = "MATCH (a), (b), (c) WHERE id(a) = idFrom('ann') AND id(b) = idFrom('ben') AND id(c) = idFrom('cleo') \
    SET a:Person, a.name = 'Ann', b:Person, b.name = 'Ben', c:Person, c.name = 'Cleo', c.born = 9007199254740993 \
    CREATE (a)-[:KNOWS]->(b)-[:KNOWS]->(c)";

/// Writes a query into the bar, in place of what is there, and runs it.
fn run(tab: &mut Tab, query: &str) {
    tab.value("document.getElementById('text').select()");
    tab.click("#text");
    tab.value("document.getElementById('text').select()");
    tab.write(query);
    tab.press("Enter");
}

#[test]
fn the_explorer_draws_what_is_asked_for_and_goes_on_from_there() {
    let Some(browser) = Browser::start("the explorer in a browser") else { return };
    let weir = weir();
    weir.query(PEOPLE).expect(200);
    let mut tab = browser.open(&weir, "/explorer");
    run(&mut tab, "MATCH (n {name: 'Ann'}) RETURN n");
    tab.wait_text("#counts", "1 node, 0 edges");
    tab.wait_text("#labels", "Person");
    // Chosen by its label and opened by a key: the neighbours come, with the edge to them.
    tab.click("#labels button");
    tab.wait_text("#panel", "Ann");
    tab.wait_text("#panel", "KNOWS");
    tab.value("document.getElementById('canvas').focus()");
    tab.press("Enter");
    tab.wait_text("#counts", "2 nodes, 1 edge");
    tab.click("#undo");
    tab.wait_text("#counts", "1 node, 0 edges");
    tab.click("#redo");
    tab.wait_text("#counts", "2 nodes, 1 edge");
    // Numbers are shown as they are, also those that JavaScript cannot hold.
    run(&mut tab, "MATCH (n {name: 'Cleo'}) RETURN n.name, n.born");
    tab.wait_text("#dock table", "9007199254740993");
    // An edge between what is drawn comes without being asked for.
    run(&mut tab, "MATCH (n {name: 'Cleo'}) RETURN n");
    tab.wait_text("#counts", "3 nodes, 2 edges");
    run(&mut tab, "MATCH (n) RETURN nowhere");
    tab.wait_text("#problem-text", "nowhere");
    tab.is_well_but("400");
}

#[test]
fn a_link_with_a_query_that_writes_asks_first() {
    let Some(browser) = Browser::start("links to the explorer in a browser") else { return };
    let weir = weir();
    weir.query(PEOPLE).expect(200);
    let mut reads = browser.open(&weir, "/explorer#query=MATCH%20(n)%20RETURN%20n");
    reads.wait_text("#counts", "3 nodes, 2 edges");
    assert_eq!(reads.value("location.hash"), json!(""), "read again, the page does not run it again");
    let mut writes = browser.open(&weir, "/explorer#query=CREATE%20(n%20%7Bname%3A%20'Dan'%7D)%20RETURN%20n");
    writes.wait("document.getElementById('text').value.startsWith('CREATE')");
    assert_eq!(weir.rows("MATCH (n) RETURN count(*)"), [json!([3])]);
    reads.is_well();
    writes.is_well();
}

#[test]
fn the_past_is_drawn_as_it_was() {
    let Some(browser) = Browser::start("the past in a browser") else { return };
    let weir = weir();
    weir.query(PEOPLE).expect(200);
    let then = weir.rows("RETURN toInteger(datetime().epochMillis)")[0][0].as_i64().expect("a moment") + 1;
    std::thread::sleep(std::time::Duration::from_millis(5));
    weir.query("MATCH (n) WHERE id(n) = idFrom('ann') SET n.name = 'Anna'").expect(200);
    let mut tab = browser.open(&weir, &format!("/explorer?atTime={then}"));
    run(&mut tab, "MATCH (n) WHERE id(n) = idFrom('ann') RETURN n");
    tab.wait_text("#counts", "1 node");
    tab.click("#labels button");
    tab.wait_text("#panel h2", "Ann");
    assert_eq!(tab.text("#panel h2").as_deref(), Some("Ann"));
    tab.click("#to-now");
    tab.wait_text("#panel h2", "Anna");
    tab.is_well();
}

/// Presses the button within a place of the page that is named so.
fn press_named(tab: &mut Tab, within: &str, name: &str) {
    let (buttons, name) = (json!(format!("{within} button")), json!(name));
    let named = format!("[...document.querySelectorAll({buttons})].find(one => one.innerText === {name})");
    tab.wait(&named);
    tab.value(&format!("{named}.click()"));
}

fn counts(tab: &mut Tab, shown: &str) {
    tab.wait_text("#counts", shown);
}

#[test]
fn results_that_come_can_be_read_and_copied() {
    let Some(browser) = Browser::start("results in the explorer in a browser") else { return };
    let weir = weir();
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.watched IS NOT NULL RETURN n.watched AS watched", "mode": "AnyQuery"});
    let query = json!({"pattern": pattern, "includeCancellations": true, "outputs": {}});
    weir.post("/api/v1/query/standing/watched", &query).expect(201);
    let mut tab = browser.open(&weir, "/explorer");
    tab.value("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }, 0");
    run(&mut tab, "OBSERVE watched");
    tab.wait_text("#dock", "0 results, live");
    weir.query("MATCH (n) WHERE id(n) = idFrom(1) SET n.watched = 'one'").expect(200);
    tab.wait_text("#dock .rows", "one");
    // While somebody is in the table nothing moves in it.
    tab.click("#dock .rows td:nth-child(3)");
    weir.query("MATCH (n) WHERE id(n) = idFrom(1) SET n.watched = null").expect(200);
    tab.wait_text("#dock .told", "held while you look: 1 more");
    assert!(!tab.text("#dock .rows").unwrap_or_default().contains('−'));
    tab.click("#text");
    tab.wait_text("#dock .rows", "−");
    // What is copied is all of it: what came and what went, and when.
    press_named(&mut tab, "#dock", "Stop");
    tab.wait_text("#dock .told", "stopped");
    press_named(&mut tab, "#dock", "Copy ▾");
    press_named(&mut tab, ".menu", "Copy as CSV");
    let copied = tab.value("copied");
    let lines: Vec<&str> = copied.as_str().expect("a text").lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "change,at,watched"), "{copied}");
    for (line, sign) in [(lines[1], "−,20"), (lines[2], "+,20")] {
        assert!(line.starts_with(sign) && line.ends_with("Z,one"), "{copied}");
    }
    // A table is as wide as what is in it.
    run(&mut tab, "WITH 'as-long-as-it-takes-to-be-wide' AS t RETURN t AS a, t AS b, t AS c, t AS d, t AS e, t AS f, t AS g");
    tab.wait_text("#dock .rows", "as-long-as-it-takes-to-be-wide");
    tab.wait("(rows => rows.scrollWidth > rows.clientWidth)(document.querySelector('#dock .rows'))");
    tab.is_well();
}

#[test]
fn the_address_and_the_links_say_which_graph_is_looked_at() {
    let Some(browser) = Browser::start("namespaces in a browser") else { return };
    let weir = weir();
    weir.put("/api/v1/namespace/other").expect(201);
    let mut tab = browser.open(&weir, "/explorer");
    tab.wait("document.querySelectorAll('#namespace option').length === 2");
    tab.value(
        "(field => { field.value = 'other'; field.dispatchEvent(new Event('change')); })(document.getElementById('namespace'))",
    );
    assert_eq!(tab.value("location.search"), json!("?namespace=other"));
    assert_eq!(tab.text("nav [aria-current=page]").as_deref(), Some("explorer"));
    for page in ["streams", "explorer"] {
        tab.click(&format!("nav a[href='{page}?namespace=other']"));
        tab.wait(&format!("location.pathname === '/{page}' && document.readyState === 'complete'"));
        tab.wait("document.getElementById('namespace').value === 'other'");
    }
    tab.is_well();
}

#[test]
fn what_cannot_be_read_again_is_said_and_not_taken_for_the_past() {
    let Some(browser) = Browser::start("the past that cannot be read in a browser") else { return };
    let weir = weir();
    weir.query(PEOPLE).expect(200);
    let then = weir.rows("RETURN toInteger(datetime().epochMillis)")[0][0].as_i64().expect("a moment") + 1;
    std::thread::sleep(std::time::Duration::from_millis(5));
    weir.query("MATCH (c), (d) WHERE id(c) = idFrom('cleo') AND id(d) = idFrom('dan') SET d:Robot, d.name = 'Dan' CREATE (c)-[:KNOWS]->(d)").expect(200);
    let go_there = |tab: &mut Tab| {
        tab.click("#time");
        press_named(tab, ".menu", "At another moment…");
        tab.wait("document.querySelector('dialog input')");
        tab.write(&then.to_string());
        tab.press("Enter");
    };
    let mut tab = browser.open(&weir, "/explorer");
    run(&mut tab, "MATCH (n) RETURN n");
    counts(&mut tab, "4 nodes, 3 edges");
    tab.value("window.asked = fetch, window.broken = /nodeIds/, window.fetch = (path, options) => broken?.test(options?.body) ? Promise.reject(new Error('broken')) : asked(path, options), 0");
    go_there(&mut tab);
    tab.wait_text("#toasts", "could not be read again");
    tab.wait_text("#time", "now");
    assert_eq!(tab.value("[document.body.classList.contains('past'), location.search]"), json!([false, ""]));
    // The same is not said twice.
    tab.click("#refresh");
    tab.wait("document.getElementById('busy').hidden");
    assert_eq!(tab.value("document.querySelectorAll('.toast').length"), json!(1));
    // Nodes that could be read are shown as they were, without edges of another moment.
    tab.value("window.broken = /drawn/, 0");
    go_there(&mut tab);
    counts(&mut tab, "4 nodes, 0 edges");
    tab.wait_text("#toasts .toast:last-child", "are missing");
    assert_eq!(tab.value("location.search"), json!(format!("?atTime={then}")));
    tab.value("window.broken = null, 0");
    tab.click("#to-now");
    counts(&mut tab, "4 nodes, 3 edges");
    // Who was not there then is not taken for a node without anything, and comes back.
    go_there(&mut tab);
    tab.wait_text("#labels", "not there at this moment 1");
    counts(&mut tab, "4 nodes, 2 edges");
    tab.click("#to-now");
    tab.wait_text("#labels", "Robot 1");
    counts(&mut tab, "4 nodes, 3 edges");
    assert_eq!(tab.value("location.search"), json!(""));
    // What has vanished meanwhile can be taken back.
    weir.query("MATCH (:Person)-[e:KNOWS]->(:Robot) DELETE e").expect(200);
    tab.click("#refresh");
    counts(&mut tab, "4 nodes, 2 edges");
    tab.click("#undo");
    counts(&mut tab, "4 nodes, 3 edges");
    // Where not all edges were read, none is taken for one that is gone.
    tab.value("window.fetch = (path, options) => /drawn/.test(options?.body) ? Promise.resolve(new Response(JSON.stringify({columns: ['e'], results: Array(20001).fill([{start: '1', end: '2', name: 'R', properties: {}}])}))) : asked(path, options), 0");
    tab.click("#refresh");
    tab.wait_text("#toasts .toast:last-child", "more than 20,000 edges");
    tab.wait("document.getElementById('busy').hidden");
    counts(&mut tab, "4 nodes, 3 edges");
    tab.is_well();
}

#[test]
fn many_nodes_are_told_and_none_that_is_chosen_is_covered() {
    let Some(browser) = Browser::start("many nodes in a browser") else { return };
    let weir = weir();
    weir.query("UNWIND range(1, 5001) AS i MATCH (h), (s) WHERE id(h) = idFrom('hub') AND id(s) = idFrom('spoke', i) SET h:Hub, s:Spoke, s.name = 'Spoke ' + toString(i) CREATE (h)-[:TO]->(s)").expect(200);
    let mut tab = browser.open(&weir, "/explorer?layout=tree");
    // Edges bring their ends, however many these are.
    run(&mut tab, "MATCH (:Hub)-[e]->() RETURN e");
    tab.wait_text("dialog", "There are 5,002 nodes");
    tab.press("Escape");
    tab.wait("!document.querySelector('dialog')");
    run(&mut tab, "MATCH (h:Hub) RETURN h");
    counts(&mut tab, "1 node");
    tab.click("#labels button");
    tab.click("[aria-label='Expand outgoing TO']");
    tab.wait_text("dialog", "among the first 5,000 that were asked for; there are 5,001 edges");
    tab.press("Escape");
    tab.wait("!document.querySelector('dialog')");
    run(&mut tab, "MATCH (s:Spoke) RETURN s LIMIT 101");
    press_named(&mut tab, "dialog", "All");
    counts(&mut tab, "102 nodes, 101 edges");
    // The last one of a row is seen beside the panel that says what it is.
    press_named(&mut tab, "#panel", "×");
    tab.wait("document.getElementById('panel').hidden");
    tab.click("#save");
    press_named(&mut tab, ".menu", "Clear the canvas");
    run(&mut tab, "MATCH (h:Hub)-[e]->(s) RETURN h, e, s LIMIT 12");
    counts(&mut tab, "13 nodes, 12 edges");
    tab.value("document.getElementById('canvas').focus()");
    for _ in 0..14 {
        tab.press("ArrowRight");
    }
    tab.wait_text("#panel h2", "Spoke");
    tab.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))");
    tab.press("ContextMenu");
    tab.wait("document.querySelector('.menu')");
    let places = tab.value("['.menu', '#panel'].map(one => document.querySelector(one).getBoundingClientRect().left)");
    assert!(places[0].as_f64() < places[1].as_f64(), "{places}");
    tab.is_well();
}

#[test]
fn the_bar_goes_through_what_was_run_and_to_what_is_wrong() {
    let Some(browser) = Browser::start("the bar of the explorer in a browser") else { return };
    let weir = weir();
    let mut tab = browser.open(&weir, "/explorer");
    for (text, name) in [("RETURN 1 AS one", "one"), ("RETURN 2\nAS two", "two")] {
        run(&mut tab, text);
        tab.wait_text("#dock table", name);
    }
    let written = |tab: &mut Tab| tab.value("document.getElementById('text').value");
    let write = |tab: &mut Tab, text: &str| {
        tab.value("document.getElementById('text').select()");
        tab.write(text);
    };
    // What is being written is kept, also in the place of one of them.
    for draft in ["draft", "another"] {
        write(&mut tab, draft);
        let steps = [
            ("ArrowUp", "RETURN 2\nAS two"),
            ("ArrowUp", "RETURN 1 AS one"),
            ("ArrowDown", "RETURN 2\nAS two"),
            ("ArrowDown", draft),
        ];
        for (key, text) in steps {
            tab.press(key);
            assert_eq!(written(&mut tab), json!(text));
        }
        tab.press("ArrowUp");
    }
    run(&mut tab, "MATCH (n)\nRETURN nowhere");
    tab.wait_text("#problem-text", "nowhere");
    assert_eq!(
        tab.value("(field => field.value.slice(field.selectionStart))(document.getElementById('text'))"),
        json!("nowhere")
    );
    tab.is_well_but("400");
}

#[test]
fn the_first_page_shows_results_as_they_come() {
    let Some(browser) = Browser::start("the live page in a browser") else { return };
    let weir = weir();
    let query = json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.watched IS NOT NULL RETURN n.watched AS watched", "mode": "AnyQuery"}, "includeCancellations": true, "outputs": {}});
    weir.post("/api/v1/query/standing/watched", &query).expect(201);
    let mut tab = browser.open(&weir, "/");
    tab.wait_text("#connection", "live");
    tab.wait_text("#standing", "watched");
    weir.query("MATCH (n) WHERE id(n) = idFrom(1) SET n.watched = 9007199254740993").expect(200);
    tab.wait_text("#results", "9007199254740993");
    weir.query("MATCH (n) WHERE id(n) = idFrom(1) SET n.watched = null").expect(200);
    tab.wait_text("#results", "cancellation");
    tab.is_well();
    // The explorer follows the same results.
    tab.click("header a[href=explorer]");
    tab.wait("location.pathname === '/explorer' && document.readyState === 'complete'");
    run(&mut tab, "OBSERVE watched");
    tab.wait_text("#dock", "0 results, live");
    weir.query("MATCH (n) WHERE id(n) = idFrom(2) SET n.watched = 'seen here'").expect(200);
    tab.wait_text("#dock", "seen here");
    tab.is_well();
}

#[test]
fn a_request_is_tried_on_the_page_of_the_api() {
    let Some(browser) = Browser::start("the page of the API in a browser") else { return };
    let weir = weir();
    let mut tab = browser.open(&weir, "/docs");
    tab.wait("document.querySelectorAll('details.operation').length > 40");
    tab.value("document.getElementById('find').focus()");
    tab.write("cypher:query rows");
    let operation = "details.operation:not([hidden])";
    tab.wait("document.querySelectorAll('details.operation:not([hidden])').length === 3");
    tab.click(&format!("{operation} summary"));
    tab.click(&format!("{operation} textarea"));
    tab.value(&format!("document.querySelector('{operation} textarea').select()"));
    tab.write("{\"text\": \"RETURN 6 * 7 AS answer\"}");
    tab.click(&format!("{operation} button[type=submit]"));
    tab.wait_text(operation, "42");
    tab.is_well();
}
