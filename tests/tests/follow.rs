//! Whoever follows the results of a standing query: over server-sent events and both web sockets, coming back after a broken
//! connection and after weir was killed. What a file has got, exactly once and in order, is what they must have been told.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::events::{Event, Events};
use weir_tests::random::Random;
use weir_tests::service::{Home, RESULTS_MAX, Weir, wait_until};
use weir_tests::socket::Socket;

const PATTERN: &str = "MATCH (n) WHERE n.age > 17 RETURN n.name AS name, n.age AS age";
const BASE: &str = "/api/v1/query/standing";
const V2: &str = "/api/v2/graph/quine/standingQueries";

fn create(weir: &Weir, name: &str, outputs: Json) {
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": PATTERN});
    weir.post(&format!("{BASE}/{name}"), &json!({"pattern": pattern, "includeCancellations": true, "outputs": outputs}))
        .expect(201);
}

fn set(weir: &Weir, name: u64, age: u64) {
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('person', {name}) SET n.name = {name}, n.age = {age}"));
}

/// As a file of the structure `WithTick` has it: the id and the rest.
fn timed(line: &Json) -> (String, Json) {
    let mut line = line.clone();
    let meta = line["meta"].as_object_mut().expect("meta");
    let id = meta.remove("eventId").and_then(|id| id.as_str().map(str::to_owned)).expect("an id");
    let tick = meta.remove("tick").expect("a tick");
    assert_eq!(id.split_once('-').map(|(tick, _)| tick), tick.as_str());
    (id, line)
}

fn told(event: &Event) -> (String, Json) {
    let data: Json = serde_json::from_str(&event.data).expect("JSON");
    let positive = data["meta"]["isPositiveMatch"] == true;
    assert_eq!(event.name, if positive { "result" } else { "cancellation" });
    (event.id.clone(), data)
}

#[test]
fn who_comes_back_gets_what_came_behind_also_when_weir_was_killed() {
    let home = Home::new();
    let mut weir = home.start(&["-Dweir.workers=2"]);
    create(&weir, "filed", json!({"file": {"type": "WriteToFile", "path": "out.jsonl", "structure": {"type": "WithTick"}}}));
    // Nobody delivers anything for this one.
    create(&weir, "bare", json!({}));
    let mut random = Random::new(7);
    let places = [format!("{BASE}/filed/results"), format!("{BASE}/bare/results"), format!("{V2}/bare/results")];
    let mut last: [Option<String>; 3] = Default::default();
    let mut found: [Vec<(String, Json)>; 3] = Default::default();
    let mut written = 0;
    for round in 0..12u64 {
        // In some rounds one of them is away.
        let away = (round > 0).then(|| random.below(4) as usize);
        let mut open: Vec<Option<Events>> = places
            .iter()
            .enumerate()
            .map(|(index, place)| {
                (away != Some(index)).then(|| Events::open(&weir, place, last[index].as_deref()).expect("it goes on"))
            })
            .collect();
        for (events, last) in open.iter_mut().zip(&mut last) {
            let Some(events) = events else { continue };
            let first = events.next().expect("an event at once");
            assert!(first.name.is_empty() && first.data.is_empty(), "{first:?}");
            assert!(last.as_ref().is_none_or(|last| *last == first.id), "{last:?} {first:?}");
            *last = Some(first.id);
        }
        for _ in 0..5 {
            // Several at one tick, and some of them equal.
            let (from, age) = (random.below(20), random.below(40));
            weir.rows(&format!(
                "UNWIND range({from}, {from} + 2) AS i MATCH (n) WHERE id(n) = idFrom('person', i) SET n.name = i / 2, n.age = {age}"
            ));
            written += 1;
        }
        // The last of the round.
        set(&weir, 1000 + round, 100);
        let killed = round % 4 == 3;
        let lines = if killed { usize::MAX } else { settled(&home, 1000 + round) };
        for ((events, last), found) in open.iter_mut().zip(&mut last).zip(&mut found) {
            // Before a kill one of them reads all, perhaps before the file has it.
            let Some(events) = events.as_mut().filter(|_| !killed || random.once_in(2)) else { continue };
            // Not all of it is read before the connection breaks.
            let upto = if round % 3 == 2 { lines - random.below(5) as usize } else { lines };
            while found.len() < upto && found.last().is_none_or(|(_, line)| line["data"]["name"] != 1000 + round) {
                let event = events.result();
                *last = Some(event.id.clone());
                found.push(told(&event));
            }
        }
        drop(open);
        if killed {
            weir.kill();
            weir = home.start(&["-Dweir.workers=2"]);
        }
    }
    assert_eq!(written, 60);
    set(&weir, 2000, 100);
    let lines = settled(&home, 2000);
    for ((place, last), found) in places.iter().zip(last).zip(&mut found) {
        let mut events = Events::open(&weir, place, last.as_deref()).expect("it goes on");
        while found.len() < lines {
            found.push(told(&events.result()));
        }
    }
    let of_file: Vec<_> = home.lines("out.jsonl").iter().map(timed).collect();
    assert!(of_file.len() > 60, "{}", of_file.len());
    assert!(of_file.iter().any(|(id, _)| id.ends_with("-3")), "several at one tick");
    let ids = |results: &[(String, Json)]| results.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let without_id = |results: &[(String, Json)]| results.iter().map(|(_, line)| line["data"].clone()).collect::<Vec<_>>();
    assert_eq!(found[0], of_file);
    for bare in &found[1..] {
        // Another query, and so other ids of rows, at the same places.
        assert_eq!((ids(bare), without_id(bare)), (ids(&of_file), without_id(&of_file)));
    }
    weir.stop();
}

/// How many results there are once the one with this name, the last of all, is in the file.
fn settled(home: &Home, name: u64) -> usize {
    let is_last = || home.lines("out.jsonl").last().is_some_and(|line| line["data"]["name"] == name);
    wait_until("all results are in the file", RESULTS_MAX, is_last);
    home.lines("out.jsonl").len()
}

#[test]
fn who_has_heard_nothing_yet_comes_back_all_the_same() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, "q", json!({}));
    let place = format!("{BASE}/q/results");
    let first = Events::open(&weir, &place, None).expect("a stream").next().expect("an event at once");
    set(&weir, 1, 20);
    weir.kill();
    weir = home.start(&[]);
    set(&weir, 2, 30);
    let mut events = Events::open(&weir, &place, Some(&first.id)).expect("it goes on");
    let found = [events.result(), events.result()].map(|event| told(&event).1["data"]["name"].clone());
    assert_eq!(found, [json!(1), json!(2)]);
    weir.delete(&format!("{BASE}/q")).expect(200);
    assert_eq!(events.next(), None);
}

#[test]
fn both_web_sockets_go_on_behind_a_result() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, "q", json!({}));
    let places = [format!("{BASE}/q"), format!("{V2}/q:tap")];
    let mut last = Vec::new();
    for place in &places {
        let mut plain = Socket::open(&weir, place).expect("a socket");
        let mut timed = Socket::open(&weir, &format!("{place}?withTick=true")).expect("a socket");
        // Where it begins is said to those alone who can do something with it.
        let begins = timed.expect();
        assert!(begins["data"].is_null() && begins["meta"]["eventId"].is_string(), "{begins}");
        set(&weir, 1, 20 + last.len() as u64);
        let (mut first, second) = (timed.expect(), plain.expect());
        let id = first["meta"]["eventId"].as_str().expect("an id").to_owned();
        let meta = first["meta"].as_object_mut().expect("meta");
        assert_eq!(meta.remove("tick"), Some(json!(id.split('-').next())));
        meta.remove("eventId");
        assert_eq!(first, second);
        last.push((id, begins["meta"]["eventId"].as_str().expect("an id").to_owned()));
        if last.len() == 2 {
            // The cancellation of the one before came at the same tick, behind the match.
            assert_eq!(timed.expect()["meta"]["isPositiveMatch"], false);
        }
    }
    weir.kill();
    weir = home.start(&[]);
    set(&weir, 2, 30);
    for (place, (id, begins)) in places.iter().zip(&last) {
        let names = |since: &str, count: usize| -> Vec<Json> {
            let mut socket = Socket::open(&weir, &format!("{place}?since={since}")).expect("it goes on");
            (0..count).map(|_| socket.expect()["data"]["name"].clone()).collect()
        };
        let rest = if *id == last[0].0 { 3 } else { 2 };
        assert_eq!(names(id, rest).last(), Some(&json!(2)), "{id}");
        assert_eq!(names(begins, rest + 1).last(), Some(&json!(2)), "{begins}");
        // A tick alone is all of the tick.
        assert_eq!(names(id.split('-').next().expect("a tick"), rest + 1).last(), Some(&json!(2)));
    }
}

#[test]
fn what_is_not_kept_any_more_is_said() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, "q", json!({}));
    set(&weir, 1, 20);
    weir.catch_up();
    let places = [format!("{BASE}/q/results"), format!("{V2}/q/results")];
    let refused = |weir: &Weir, since: &str, status: u16| {
        for place in &places {
            let refusal = weir.get(&format!("{place}?since={since}")).expect(status);
            assert!(refusal.text().contains(since), "{}", refusal.shown());
        }
        for place in [format!("{BASE}/q"), format!("{V2}/q:tap")] {
            let refusal = Socket::open(weir, &format!("{place}?since={since}")).err().expect("a refusal");
            assert!(refusal.starts_with(&format!("HTTP/1.1 {status} ")), "{refusal}");
        }
    };
    // Nobody followed.
    refused(&weir, "1-1", 410);
    // Nobody can have had it.
    refused(&weir, &(u64::MAX >> 1).to_string(), 410);
    refused(&weir, "first", 400);
    let refusal = Events::open(&weir, &places[0], Some("2b1f4c0e")).err().expect("a refusal");
    assert!(refusal.starts_with("HTTP/1.1 400 ") && refusal.contains("Last-Event-ID"), "{refusal}");
    // The newer of the two is meant.
    let begins = Events::open(&weir, &places[0], None).expect("a stream").next().expect("an event at once");
    assert!(Events::open(&weir, &format!("{}?since=1-1", places[0]), Some(&begins.id)).is_ok());
    // One that nobody has followed has nothing kept after a restart, either.
    create(&weir, "other", json!({}));
    set(&weir, 2, 20);
    // How far it has come is in the log with what follows; else all of it would be found again.
    // Every 100 ms it is noted for whatever follows; more than one, as a busy machine may come to that later.
    weir.catch_up();
    for age in 0..6 {
        std::thread::sleep(Duration::from_millis(300));
        set(&weir, 3, age);
    }
    weir.kill();
    weir = home.start(&[]);
    let of_other = weir.get(&format!("{BASE}/other/results?since={}", begins.id)).expect(410);
    assert!(of_other.text().contains(&begins.id), "{}", of_other.shown());
    assert!(Events::open(&weir, &places[0], Some(&begins.id)).is_ok());
}

#[test]
fn a_query_that_is_replaced_keeps_who_follows() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, "q", json!({}));
    let place = format!("{BASE}/q/results");
    let mut events = Events::open(&weir, &place, None).expect("a stream");
    set(&weir, 1, 20);
    set(&weir, 2, 30);
    let other = json!({"pattern": {"type": "Cypher", "mode": "MultipleValues", "query": PATTERN.replace("17", "25")}});
    weir.send("PUT", &format!("{BASE}/q"), &[("Content-Type", "application/json")], other.to_string().as_bytes()).expect(200);
    set(&weir, 3, 40);
    let all: Vec<Event> = (0..4).map(|_| events.result()).collect();
    let shown: Vec<(bool, Json)> =
        all.iter().map(|event| (event.name == "result", told(event).1["data"]["name"].clone())).collect();
    assert_eq!(shown, [(true, json!(1)), (true, json!(2)), (false, json!(1)), (true, json!(3))]);
    for (index, event) in all.iter().enumerate().take(3) {
        let mut again = Events::open(&weir, &place, Some(&event.id)).expect("it goes on");
        assert_eq!(again.result(), all[index + 1]);
    }
}

#[test]
fn results_carry_their_tick_and_an_id_of_their_own_where_that_is_wanted() {
    let home = Home::new();
    let weir = home.start(&[]);
    let timed_file = |path: &str| json!({"type": "WriteToFile", "path": path, "structure": {"type": "WithTick"}});
    let rows = "UNWIND [1, 2] AS i RETURN $that.meta.eventId AS of, i";
    create(
        &weir,
        "q",
        json!({
            "usual": {"type": "WriteToFile", "path": "usual.jsonl"},
            "timed": timed_file("timed.jsonl"),
            "rows": {"type": "CypherQuery", "query": rows, "structure": {"type": "WithTick"}, "andThen": timed_file("rows.jsonl")},
        }),
    );
    let workflow = json!({"name": "w", "preEnrichmentTransformation": {"type": "WithTick"}, "destinations": [{"type": "File", "path": "v2.jsonl"}]});
    weir.post(&format!("{V2}/q/outputs"), &workflow).expect(201);
    for age in [20, 10, 20] {
        set(&weir, 1, age);
    }
    let usual = home.wait_lines("usual.jsonl", 3);
    let lines = home.wait_lines("timed.jsonl", 3);
    assert_eq!(home.wait_lines("v2.jsonl", 3), lines);
    let timed: Vec<(String, Json)> = lines.iter().map(timed).collect();
    assert_eq!(timed.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), usual, "by default nothing is added");
    assert!(timed.windows(2).all(|two| two[0].0 != two[1].0 && two[0].1["meta"]["resultId"] == two[1].1["meta"]["resultId"]));
    let rows = home.wait_lines("rows.jsonl", 6);
    for (index, row) in rows.iter().enumerate() {
        let of = &timed[index / 2].0;
        assert_eq!((&row["data"]["of"], &row["meta"]["eventId"]), (&json!(of), &json!(format!("{of}-{}", index % 2 + 1))));
    }
    // As it was defined it is shown, and it is there again after a restart.
    let shown = weir.get(&format!("{V2}/q")).expect(200).json();
    let transformed: Vec<&Json> = shown["outputs"]
        .as_array()
        .expect("outputs")
        .iter()
        .map(|output| &output["preEnrichmentTransformation"]["type"])
        .collect();
    assert_eq!(transformed, [&Json::Null, &json!("WithTick"), &json!("WithTick"), &json!("WithTick")]);
    weir.stop();
    let weir = home.start(&[]);
    assert_eq!(weir.get(&format!("{V2}/q")).expect(200).json()["outputs"], shown["outputs"]);
    set(&weir, 2, 20);
    let lines = home.wait_lines("v2.jsonl", 4);
    assert!(lines[3]["meta"]["eventId"].is_string(), "{}", lines[3]);
}
