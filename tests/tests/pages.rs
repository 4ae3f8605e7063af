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
