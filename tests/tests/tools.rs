//! `weir check`, `weir backup`, `weir restore`, `weir export` and `weir import` as operators use them: the real binary, on the
//! stores of one that ran.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, symlink};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use weir_tests::random::Random;
use weir_tests::service::{Home, START_MAX, Weir, binary, wait_until};

fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(binary()).current_dir(home.path()).args(arguments).output().expect("weir runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_wrong_path_is_no_empty_store() {
    let home = Home::new();
    std::fs::create_dir(home.file("empty")).expect("a directory");
    for store in [
        &["-Dweir.store.filepath=typo"] as &[_],
        &["-Dweir.store.filepath=empty"],
        &["-Dweir.store.type=map-db", "-Dweir.store.filepath=typo"],
    ] {
        for tool in [&["check"] as &[_], &["backup", "out"], &["export", "out"]] {
            let (code, _, error) = run(&home, &[tool, store].concat());
            assert_eq!(code, Some(1), "{tool:?} {store:?}");
            assert!(error.contains("there is no store in"), "{tool:?} {store:?}: {error}");
        }
    }
    let left: Vec<_> = std::fs::read_dir(home.path()).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["empty"]);
    assert_eq!(std::fs::read_dir(home.file("empty")).expect("it is there").count(), 0);
}

#[test]
fn a_store_is_checked_backed_up_and_restored_into_another_kind() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("UNWIND range(1, 500) AS n MATCH (a), (b) WHERE id(a) = idFrom(n) AND id(b) = idFrom(n % 10) SET a:N, a.n = n CREATE (a)-[:TO]->(b)");
    let count = "MATCH (a:N)-[:TO]->(b) RETURN count(*), sum(a.n)";
    assert_eq!(weir.rows(count), [json!([500, 125_250])]);
    let (code, _, error) = run(&home, &["backup", "graph.backup", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("in use by another weir"), "{error}");
    weir.stop();
    let (code, out, error) = run(&home, &["check", "-Dweir.store.filepath=one"]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("nothing is damaged"), "{out}");
    let (code, out, error) = run(&home, &["backup", "graph.backup", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(0), "{out}{error}");
    // Secrets of streams are in both.
    let mode = |name: &str| fs::metadata(home.file(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("one"), mode("graph.backup")), (0o700, 0o600));
    let map_db = ["-Dweir.store.type=map-db", "-Dweir.store.filepath=two.weir"];
    let (code, out, error) = run(&home, &["restore", "graph.backup", map_db[0], map_db[1]]);
    assert_eq!(code, Some(0), "{out}{error}");
    let (code, _, error) = run(&home, &["restore", "graph.backup", map_db[0], map_db[1]]);
    assert_eq!(code, Some(1));
    assert!(error.contains("there already"), "{error}");
    let weir = home.start(&map_db);
    assert_eq!(weir.rows(count), [json!([500, 125_250])]);
    let config = weir.get("/api/v1/admin/config").expect(200).text();
    assert!(config.contains("map-db"), "{config}");
    weir.stop();
    let (code, out, _) = run(&home, &["check", map_db[0], map_db[1]]);
    assert_eq!((code, out.contains("nothing is damaged")), (Some(0), true), "{out}");

    let mut backup = fs::read(home.file("graph.backup")).expect("a file");
    let middle = backup.len() / 2;
    backup[middle] ^= 1;
    fs::write(home.file("graph.backup"), backup).expect("writes");
    let (code, _, error) = run(&home, &["restore", "graph.backup", "-Dweir.store.filepath=three"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("damaged"), "{error}");
    assert!(!home.file("three").exists() && !home.file("three.restoring").exists());
}

#[test]
fn a_store_in_a_temporary_file_and_one_of_nothing() {
    for (store, past) in [("map-db", 200), ("empty", 400)] {
        let home = Home::new();
        let weir = home.start(&[&format!("-Dweir.store.type={store}")]);
        weir.rows("CREATE (:A)");
        assert_eq!(weir.rows("MATCH (a:A) RETURN count(a)"), [json!([1])]);
        let target = "/api/v1/query/cypher?at-time=1000";
        weir.send("POST", target, &[("Content-Type", "text/plain")], b"MATCH (a:A) RETURN count(a)").expect(past);
        weir.stop();
        let store = format!("-Dweir.store.type={store}");
        let (code, _, error) = run(&home, &["restore", "x", &store]);
        assert_eq!(code, Some(1));
        assert!(error.contains("in memory"), "{error}");
        home.write("x.jsonl", "{\"type\":\"node\",\"id\":\"00000000-0000-0000-0000-000000000001\"}\n");
        for tool in [&["import", "x.jsonl"] as &[_], &["export", "y.jsonl"], &["backup", "y"], &["check"]] {
            let (code, out, error) = run(&home, &[tool, &[&store]].concat());
            assert_eq!((code, error.contains("set store.type and store.filepath")), (Some(1), true), "{tool:?}: {out}{error}");
        }
    }
}

/// As of a query: what failed is told apart from a weir that could not be asked.
#[test]
fn tools_say_that_nobody_could_be_asked() {
    let home = Home::new();
    home.write("x.jsonl", "{\"type\":\"node\",\"id\":\"00000000-0000-0000-0000-000000000001\"}\n");
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let url = format!("http://{}", weir.address());
    let (code, _, error) = run(&home, &["export", "/dev/full", "--url", &url]);
    assert!(code == Some(1) && error.contains("cannot write /dev/full"), "{error}");
    let (code, _, error) = run(&home, &["export", "y.jsonl", "--namespace", "nowhere", "--url", &url]);
    assert!(code == Some(1) && error.contains("'nowhere'"), "{error}");
    weir.stop();
    for tool in [["backup", "y"], ["export", "y.jsonl"], ["import", "x.jsonl"]] {
        let (code, out, error) = run(&home, &[&tool[..], &["--url", &url]].concat());
        assert_eq!((code, out.as_str()), (Some(3), ""), "{tool:?}: {error}");
        assert!(error.starts_with(&format!("weir at {url} cannot be asked: ")), "{tool:?}: {error}");
    }
    assert!(!home.file("y").exists() && !home.file("y.jsonl").exists());
}

/// Nodes and edges with values of every type that can be stored.
const EVERYTHING: &str = "
    UNWIND range(1, 300) AS n
    MATCH (a), (b) WHERE id(a) = idFrom(n) AND id(b) = idFrom(n % 10)
    SET a:N, a:`odd name`, a.n = n, a.float = n / 7.0, a.whole = 2.0, a.text = 'it\\'s \"quoted\" \\\\ and\\nbroken, é',
        a.bytes = bytes('00ff10'), a.id = idFrom(n), a.list = [1, 'two', [3.0, true]], a.map = {a: 1, `$b`: date('2024-02-29')},
        a.at = datetime('2024-03-31T02:30:00.123456789+02:00'), a.zoned = datetime('2024-10-27T01:30:00[Europe/Berlin]'),
        a.day = date('1969-07-20'), a.time = time('12:00:00.5+01:00'), a.local = localdatetime('2024-01-01T00:00:00.000001'),
        a.clock = localtime('23:59:59'), a.span = duration('P1Y2M3DT4H5M6.007S'), a.`a b` = -1, a.least = -9223372036854775807 - 1
    CREATE (a)-[:TO {weight: n / 2.0, since: date('2020-01-01')}]->(b), (b)-[:`odd type`]->(a)";

/// Exports the default graph into a file and imports it into a new one: they are equal.
fn travels(home: &Home, weir: &Weir, file: &str, into: &str) {
    let url = format!("http://{}", weir.address());
    let (status, out, error) = run(home, &["export", file, "--url", &url]);
    assert_eq!(status, Some(0), "{out}{error}");
    weir.put(&format!("/api/v1/namespace/{into}")).expect(201);
    let (status, out, error) = run(home, &["import", file, "--url", &url, "--namespace", into]);
    assert_eq!(status, Some(0), "{out}{error}");
    assert_eq!(hash(weir, into), hash(weir, "default"), "{file}: {out}");
}

fn hash(weir: &Weir, namespace: &str) -> Json {
    weir.get(&format!("/api/v1/admin/graph-hash-code?namespace={namespace}")).expect(200).json()["value"].clone()
}

#[test]
fn a_graph_written_as_text_and_read_again_is_the_same() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows(EVERYTHING);
    let code = hash(&weir, "default");
    let url = format!("http://{}", weir.address());
    for (file, into) in [("graph.jsonl", "lines"), ("graph.cypher", "texts"), ("graph.parquet", "rows")] {
        travels(&home, &weir, file, into);
    }
    // What is not there, or wrong, is said; and nothing of a portion that is wrong is taken in.
    let (status, _, error) = run(&home, &["export", "none", "--url", &url, "--namespace", "nowhere"]);
    assert_eq!(status, Some(1), "{error}");
    let (status, _, error) = run(&home, &["import", "graph.jsonl", "--url", &url, "--namespace", "nowhere"]);
    assert_eq!((status, error.contains("there is no namespace 'nowhere' at")), (Some(1), true), "{error}");
    home.write("wrong.jsonl", "{\"type\":\"node\",\"id\":\"00000000-0000-0000-0000-000000000001\"}\n\n{\"type\":\"node\"}\n");
    let (status, _, error) = run(&home, &["import", "wrong.jsonl", "--url", &url, "--namespace", "lines"]);
    assert_eq!((status, error.contains("line 3: `id` is missing")), (Some(1), true), "{error}");
    home.write("wrong.cypher", "RETURN 1;\nRETURN nope;\n");
    let (status, _, error) = run(&home, &["import", "wrong.cypher", "--url", &url, "--namespace", "lines"]);
    assert_eq!((status, error.contains("line 2") && error.contains("nope")), (Some(1), true), "{error}");
    assert_eq!(hash(&weir, "lines"), code);
    let (status, _, error) = run(&home, &["export", "x.jsonl", "-Dweir.store.filepath=one"]);
    assert_eq!((status, error.contains("in use by another weir")), (Some(1), true), "{error}");
    weir.stop();

    // And without a weir that runs, from one type of store into another.
    for (file, store) in [("again.jsonl", "two.weir"), ("again.parquet", "three.weir")] {
        let (status, out, error) = run(&home, &["export", file, "-Dweir.store.filepath=one"]);
        assert_eq!(status, Some(0), "{out}{error}");
        let other = ["-Dweir.store.type=map-db".to_owned(), format!("-Dweir.store.filepath={store}")];
        let (status, out, error) = run(&home, &["import", file, &other[0], &other[1]]);
        assert_eq!(status, Some(0), "{out}{error}");
        assert!(out.contains("300 nodes and 600 relationships"), "{out}");
        let weir = home.start(&[&other[0], &other[1]]);
        assert_eq!(hash(&weir, "default"), code);
        weir.stop();
    }
}

/// Statements are committed many at a time, and each sees all before it, those that run alone among them. Those before the first
/// that is wrong, or fails, have run, and no other.
#[test]
fn statements_run_in_their_order_until_one_fails() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let url = format!("http://{}", weir.address());
    let step = |value: u64| format!("MATCH (n) WHERE id(n) = idFrom('n') SET n.x = n.x * 10 % 1000003 + {value};\n");
    let value = |upto: u64| (1..=upto).fold(0, |x, value| x * 10 % 1_000_003 + value);
    let begin = "MATCH (n) WHERE id(n) = idFrom('n') SET n.x = 0, n:N;\n";
    let steps = |from: u64, upto: u64| (from..=upto).map(step).collect::<String>();
    let scan = "MATCH (n:N) SET n.seen = n.x;\n";
    for (name, last, reason) in [
        ("good", String::new(), ""),
        ("wrong", format!("RETURN nope;\n{}", steps(901, 910)), "line 903: "),
        ("fails", format!("MATCH (n) WHERE id(n) = idFrom('n') SET n.x = 1 / 0;\n{}", steps(901, 910)), "line 903: "),
    ] {
        home.write("steps.cypher", format!("{begin}{}{scan}{}{last}", steps(1, 400), steps(401, 900)));
        let (status, out, error) = run(&home, &["import", "steps.cypher", "--url", &url]);
        assert_eq!(status, Some(i32::from(!reason.is_empty())), "{name}: {out}{error}");
        assert!(error.contains(reason) && (!reason.is_empty() || out.contains("902 statements")), "{name}: {out}{error}");
        assert_eq!(weir.rows("MATCH (n:N) RETURN n.x, n.seen"), [json!([value(900), value(400)])], "{name}");
        weir.rows("MATCH (n:N) DETACH DELETE n");
    }
    weir.stop();
}

#[test]
fn a_graph_of_open_cypher_keeps_its_parallel_edges() {
    let home = Home::new();
    let model = "-Dweir.graph-model=open-cypher";
    let weir = home.start(&[model]);
    weir.rows("CREATE (a:A)-[:R {n: 1}]->(b:B), (a)-[:R {n: 2}]->(b), (), (a)-[:R]->(a)");
    let url = format!("http://{}", weir.address());
    for (file, into) in [("g.jsonl", "other"), ("g.parquet", "third")] {
        travels(&home, &weir, file, into);
    }
    let (status, _, error) = run(&home, &["export", "g.cypher", "--url", &url]);
    assert_eq!((status, error.contains("Write it as jsonl")), (Some(1), true), "{error}");
    weir.stop();
}

/// What is lost on the way into another model is what nobody would miss at once: nodes that have nothing.
#[test]
fn a_graph_stays_of_its_model() {
    let home = Home::new();
    let stores = ["-Dweir.store.filepath=open", "-Dweir.store.filepath=plain"];
    let model = "-Dweir.graph-model=open-cypher";
    let mut codes = Vec::new();
    let is_refused = |arguments: &[&str]| {
        let (code, out, error) = run(&home, arguments);
        let named = error.contains("`open-cypher`") && error.contains("`streaming`");
        assert_eq!((code, named), (Some(1), true), "{arguments:?}: {out}{error}");
    };
    for (name, arguments) in [("open", &[stores[0], model][..]), ("plain", &[stores[1]])] {
        let weir = home.start(arguments);
        let url = format!("http://{}", weir.address());
        let export = |file: &str| {
            let (code, out, error) = run(&home, &["export", file, "--url", &url]);
            assert_eq!(code, Some(0), "{out}{error}");
        };
        // Nothing in it says of which it is.
        export(&format!("empty-{name}.jsonl"));
        export(&format!("empty-{name}.parquet"));
        weir.rows("CREATE (), ()-[:R]->(:A)");
        for ending in ["jsonl", "parquet"] {
            export(&format!("{name}.{ending}"));
            if name == "plain" {
                is_refused(&["import", &format!("empty-open.{ending}"), "--url", &url]);
                is_refused(&["import", &format!("open.{ending}"), "--url", &url]);
            }
        }
        codes.push(hash(&weir, "default"));
        weir.stop();
    }
    for ending in ["jsonl", "parquet"] {
        let (open, plain) = (format!("open.{ending}"), format!("plain.{ending}"));
        let new = format!("-Dweir.store.filepath=new-{ending}");
        is_refused(&["import", &open, &new, "-Dweir.graph-model=streaming"]);
        is_refused(&["import", &plain, &new, model]);
        is_refused(&["import", &format!("empty-plain.{ending}"), &new, model]);
        assert!(!home.file(&format!("new-{ending}")).exists());
        let (code, out, error) = run(&home, &["import", &open, &new]);
        assert_eq!(code, Some(0), "{out}{error}");
        is_refused(&["import", &plain, &new]);
        is_refused(&["import", &open, stores[1]]);
        is_refused(&["import", &open, stores[1], "--namespace", "more"]);
        let (code, out, error) = run(&home, &["import", &plain, stores[1]]);
        assert_eq!(code, Some(0), "{out}{error}");
        let weir = home.start(&[&new]);
        assert_eq!((hash(&weir, "default"), weir.rows("MATCH (n) RETURN count(n)")), (codes[0].clone(), vec![json!([3])]));
        weir.stop();
    }
    home.write("odd.jsonl", "{\"type\":\"graph\",\"format\":1,\"model\":\"zzz\"}\n");
    let (code, _, error) = run(&home, &["import", "odd.jsonl", "-Dweir.store.filepath=odd"]);
    assert_eq!((code, error.contains("line 1: ") && error.contains("not 'zzz'")), (Some(1), true), "{error}");
    assert!(!home.file("odd").exists());
    let weir = home.start(&[stores[1]]);
    assert_eq!(hash(&weir, "default"), codes[1]);
    assert_eq!(weir.get("/api/v1/namespace").expect(200).json(), json!(["default"]));
    let line = "{\"type\":\"graph\",\"format\":1,\"model\":\"zzz\"}";
    let answer = weir.send("POST", "/api/v1/admin/import", &[("Content-Type", "text/plain")], line.as_bytes()).expect(400).text();
    assert!(answer.contains("not 'zzz'"), "{answer}");
    weir.stop();
}

#[test]
fn a_moment_in_the_future_is_not_exported() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("CREATE (:A)");
    weir.stop();
    for at in ["17592186044416", "35184372088837", "99999999999999", "18446744073709551615"] {
        let (code, out, error) = run(&home, &["export", "x.jsonl", "--at-time", at, "-Dweir.store.filepath=one"]);
        let named = error.contains(&format!("the moment {at} ")) && error.contains("in the future");
        assert_eq!((code, named), (Some(1), true), "{at}: {out}{error}");
        assert!(!home.file("x.jsonl").exists() && !home.file("x.jsonl.part").exists());
    }
}

/// As it is said to the system: do not wait for the other end.
const NONBLOCK: i32 = 0o4000;

#[test]
fn links_pipes_and_devices_stay_what_they_are() {
    let home = Home::new();
    let store = "-Dweir.store.filepath=one";
    let weir = home.start(&[store]);
    weir.rows("UNWIND range(1, 10) AS n CREATE (:A {n: n})");
    weir.stop();
    let is_link = |name: &str| fs::symlink_metadata(home.file(name)).expect("it is there").is_symlink();
    fs::create_dir(home.file("elsewhere")).expect("a directory");
    home.write("elsewhere/old", "what was there");
    // Links from one to another, to a file and to nothing.
    for (link, to) in [("old", "elsewhere/old"), ("older", "old"), ("new", "elsewhere/new"), ("full", "/dev/full")] {
        symlink(to, home.file(link)).expect("a link");
    }
    for (link, lies) in [("older", "elsewhere/old"), ("new", "elsewhere/new")] {
        for tool in ["export", "backup"] {
            let (code, out, error) = run(&home, &[tool, link, store]);
            assert_eq!(code, Some(0), "{tool} {link}: {out}{error}");
            assert!(is_link(link) && is_link("old") && !is_link(lies), "{tool} {link}");
        }
        let place = format!("-Dweir.store.filepath=from-{link}");
        let (code, out, error) = run(&home, &["restore", lies, &place]);
        assert_eq!(code, Some(0), "{out}{error}");
    }
    for tool in ["export", "backup"] {
        let (code, out, error) = run(&home, &[tool, "full", store]);
        assert_eq!((code, error.contains("No space left")), (Some(1), true), "{tool}: {out}{error}");
        assert!(is_link("full") && !home.file("full.part").exists());
    }
    let (code, out, error) = run(&home, &["export", "/dev/stdout", store]);
    assert_eq!((code, out.lines().count(), error.contains("10 nodes")), (Some(0), 11, true), "{out}{error}");
    let made = Command::new("mkfifo").arg(home.file("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    let mut pipe = fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(home.file("pipe")).expect("a pipe");
    let (code, out, error) = run(&home, &["backup", "pipe", store]);
    assert_eq!(code, Some(0), "{out}{error}");
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).expect("it ends");
    home.write("through.backup", &bytes);
    assert!(fs::symlink_metadata(home.file("pipe")).expect("it is there").file_type().is_fifo());
    let (code, out, error) = run(&home, &["restore", "through.backup", "-Dweir.store.filepath=through"]);
    assert_eq!(code, Some(0), "{out}{error}");
}

#[test]
fn a_store_is_restored_where_it_was_told_to() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("CREATE (:A)");
    weir.stop();
    let (code, out, error) = run(&home, &["backup", "graph.backup", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(0), "{out}{error}");
    fs::create_dir(home.file("empty")).expect("a directory");
    fs::create_dir(home.file("linked")).expect("a directory");
    symlink("linked", home.file("link")).expect("a link");
    for place in ["new/", "empty/", "link", "./other/."] {
        let store = format!("-Dweir.store.filepath={place}");
        let (code, out, error) = run(&home, &["restore", "graph.backup", &store]);
        assert_eq!(code, Some(0), "{place}: {out}{error}");
        let (code, out, error) = run(&home, &["check", &store]);
        assert_eq!((code, out.contains("nothing is damaged")), (Some(0), true), "{place}: {out}{error}");
    }
    let left: Vec<String> = fs::read_dir(home.path())
        .expect("it is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("restoring"))
        .collect();
    assert!(left.is_empty() && !home.file("empty/.restoring").exists(), "{left:?}");

    let mut backup = fs::read(home.file("graph.backup")).expect("a file");
    backup.push(b'\n');
    home.write("longer.backup", &backup);
    let (code, _, error) = run(&home, &["restore", "longer.backup", "-Dweir.store.filepath=longer"]);
    assert_eq!((code, error.contains("behind the end")), (Some(1), true), "{error}");
    assert!(!home.file("longer").exists() && !home.file("longer.restoring").exists());
    let (code, _, error) = run(&home, &["backup", "more", "--since", "longer.backup", "-Dweir.store.filepath=one"]);
    assert_eq!((code, error.contains("behind the end")), (Some(1), true), "{error}");
}

/// Each took what the other one wrote for what one had left that broke off, and removed it.
#[test]
fn two_do_not_restore_into_one_place() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("CREATE (:A)");
    weir.stop();
    let (code, out, error) = run(&home, &["backup", "graph.backup", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(0), "{out}{error}");
    for store in [&["-Dweir.store.filepath=two"] as &[_], &["-Dweir.store.type=map-db", "-Dweir.store.filepath=two.weir"]] {
        let place = store[store.len() - 1].rsplit('=').next().expect("a path");
        let [unfinished, lock] = ["restoring", "restoring.lock"].map(|ending| home.file(&format!("{place}.{ending}")));
        // As of one that is at it.
        let held = fs::File::create(&lock).expect("a file");
        held.lock().expect("nobody else has it");
        fs::write(&unfinished, "x").expect("a file");
        let restore = [&["restore", "graph.backup"][..], store].concat();
        let (code, _, error) = run(&home, &restore);
        assert_eq!((code, error.contains("another weir is restoring into")), (Some(1), true), "{place}: {error}");
        assert_eq!(fs::read(&unfinished).expect("it is there"), b"x", "{place}");
        assert!(!home.file(place).exists() && lock.exists(), "{place}");
        // Of one that was killed.
        drop(held);
        let (code, out, error) = run(&home, &restore);
        assert_eq!(code, Some(0), "{place}: {out}{error}");
        assert!(home.file(place).exists() && !lock.exists() && !unfinished.exists(), "{place}");
    }
    let inside = ["restore", "graph.backup", "-Dweir.store.filepath=three/four", "-Dweir.store.create-parent-dir=true"];
    let (code, out, error) = run(&home, &inside);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(home.file("three/four").exists() && !home.file("three/four.restoring.lock").exists());
}

#[test]
fn names_travel_whatever_they_are() {
    let home = Home::new();
    let weir = home.start(&[]);
    weir.rows(
        "MATCH (a), (b) WHERE id(a) = idFrom(1) AND id(b) = idFrom(2)
         SET a:`new\nline`, a.`a\nb` = 1, a.`tick```=2, a.`back\\slash` = 3, a.map = {`c\rd`: 4}, a.`\\u005cu000a` = 5
         CREATE (a)-[:`R\nS` {`e\nf`: 6}]->(b)",
    );
    assert_eq!(weir.rows(r"MATCH (a) WHERE a.`\u005cu000a` = 5 RETURN a.`a\u000ab`, keys(a)[0] = 'a\nb'")[0][0], json!(1));
    for (file, into) in [("graph.cypher", "texts"), ("graph.jsonl", "lines"), ("graph.parquet", "rows")] {
        travels(&home, &weir, file, into);
    }
    assert_eq!(home.read("graph.cypher").lines().count(), 2);
    weir.stop();
}

#[test]
fn what_could_not_be_read_again_is_not_exported() {
    let home = Home::new();
    let weir = home.start(&[]);
    let url = format!("http://{}", weir.address());
    let set = |levels: usize, innermost: &str| {
        let value = format!("reduce(x = [{innermost}], i IN range(2, {levels}) | [x])");
        weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom(1) SET n:L, n.`deep one` = {value}"));
    };
    for (levels, innermost, can) in [
        (188, "-1.0 / 0.0", &["graph.cypher", "graph.jsonl", "graph.parquet"][..]),
        (252, "date('2020-01-01')", &["graph.jsonl", "graph.parquet"]),
        (254, "1", &["graph.jsonl", "graph.parquet"]),
        (255, "1", &[]),
        (390, "1", &[]),
    ] {
        set(levels, innermost);
        for file in ["graph.cypher", "graph.jsonl", "graph.parquet"] {
            if can.contains(&file) {
                let into = format!("n{levels}{}", file.len());
                travels(&home, &weir, file, &into);
                continue;
            }
            let (code, out, error) = run(&home, &["export", file, "--url", &url]);
            let named = error.contains("node ") && error.contains("`deep one` is nested deeper");
            assert_eq!((code, named), (Some(1), true), "{levels} in {file}: {out}{error}");
        }
    }
    weir.stop();
}

#[test]
fn a_backup_that_is_refused_says_why() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=other"]);
    weir.rows("CREATE (:Quite {another: 1})");
    weir.stop();
    let (code, out, error) = run(&home, &["backup", "other.backup", "-Dweir.store.filepath=other"]);
    assert_eq!(code, Some(0), "{out}{error}");
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("CREATE (:A {b: 1})");
    let url = format!("http://{}", weir.address());
    let (code, _, error) = run(&home, &["backup", "more", "--since", "other.backup", "--url", &url]);
    assert_eq!((code, error.contains("it is of another store: make a full one")), (Some(1), true), "{error}");
    assert!(!home.file("more").exists() && !home.file("more.part").exists());
    let (code, out, error) = run(&home, &["backup", "full", "--url", &url]);
    assert_eq!(code, Some(0), "{out}{error}");
    weir.stop();
    // The store as it was before that backup knows less.
    fs::remove_dir_all(home.file("one")).expect("it goes");
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    let url = format!("http://{}", weir.address());
    let since = run(&home, &["backup", "more", "--since", "full", "--url", &url]);
    assert_eq!((since.0, since.2.contains("make a full one")), (Some(1), true), "{}", since.2);
    // Of a store without names, which had thousands of namespaces: more than a URL has room for.
    let many: String = (1000..6000).map(|graph| format!(".{graph:x}.{:x}", u64::MAX)).collect();
    let body = format!("0.0.0{many}");
    weir.send("POST", "/api/v1/admin/backup", &[("Content-Type", "text/plain")], body.as_bytes()).expect(200);
    weir.stop();
}

/// What was written until then stayed, under a name that nobody knows.
#[test]
fn what_is_interrupted_leaves_no_part() {
    let home = Home::new();
    // One that never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    for (tool, file) in [("export", "graph.jsonl"), ("backup", "graph.backup")] {
        let mut command = Command::new(binary());
        let mut child = command.current_dir(home.path()).args([tool, file, "--url", &url]).spawn().expect("weir");
        let part = home.file(&format!("{file}.part"));
        wait_until("it begins", START_MAX, || part.exists());
        let pid = Pid::from_raw(child.id() as i32).expect("a process has an id above zero");
        kill_process(pid, Signal::INT).expect("a signal can be sent to a child");
        let mut ended = None;
        wait_until("it ends", Duration::from_secs(30), || {
            ended = child.try_wait().expect("it can be asked");
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(130), "{tool}");
        assert!(!part.exists() && !home.file(file).exists(), "{tool}");
    }
}

#[test]
fn backups_of_a_weir_that_runs_go_on_from_one_another() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    let url = format!("http://{}", weir.address());
    weir.rows("UNWIND range(1, 2000) AS n MATCH (a) WHERE id(a) = idFrom(n) SET a:N, a.n = n");
    let (status, out, error) = run(&home, &["backup", "full", "--url", &url]);
    assert_eq!(status, Some(0), "{out}{error}");
    weir.rows("MATCH (a:N) WHERE a.n % 2 = 0 SET a.n = -a.n");
    weir.put("/api/v1/namespace/later").expect(201);
    weir.query("CREATE (:X)").expect(200);
    let (status, out, error) = run(&home, &["backup", "more", "--since", "full", "--url", &url]);
    assert_eq!(status, Some(0), "{out}{error}");
    let code = hash(&weir, "default");
    let at = weir.rows("RETURN timestamp()")[0][0].clone();
    weir.rows("MATCH (a:N) DETACH DELETE a");
    // What it builds on would be gone.
    let (status, _, error) = run(&home, &["backup", "./more", "--since", "more", "--url", &url]);
    assert!(status != Some(0) && error.contains("would be written over"), "{error}");
    let (status, out, error) = run(&home, &["backup", "last", "--since", "more", "--url", &url]);
    assert_eq!(status, Some(0), "{out}{error}");
    let last = hash(&weir, "default");

    // Killed while it gives a backup, weir leaves none; and none that is broken is taken for one.
    weir.rows("UNWIND range(1, 60000) AS n MATCH (a) WHERE id(a) = idFrom('big', n) SET a:Big, a.text = toString(n) + ' is a text of some length'");
    let mut backup =
        Command::new(binary()).current_dir(home.path()).args(["backup", "killed", "--url", &url]).spawn().expect("weir");
    std::thread::sleep(std::time::Duration::from_millis(30));
    weir.kill();
    let ended = backup.wait().expect("an end");
    assert_eq!(ended.success(), home.file("killed").exists());
    assert!(!home.file("killed.part").exists());
    let (status, _, error) = run(&home, &["backup", "killed", "--url", &url]);
    assert_eq!((status, error.contains("cannot be asked")), (Some(3), true), "{error}");

    for (files, expected, place) in [(vec!["full", "more"], &code, "two"), (vec!["full", "more", "last"], &last, "three")] {
        let place = format!("-Dweir.store.filepath={place}");
        let (status, out, error) = run(&home, &[&["restore"], &files[..], &[&place]].concat());
        assert_eq!(status, Some(0), "{out}{error}");
        let (status, out, _) = run(&home, &["check", &place]);
        assert_eq!((status, out.contains("nothing is damaged")), (Some(0), true), "{out}");
        let weir = home.start(&[&place]);
        assert_eq!(hash(&weir, "default"), *expected, "{files:?}");
        let past = weir.get(&format!("/api/v1/admin/graph-hash-code?at-time={at}")).expect(200).json()["value"].clone();
        assert_eq!(past, code, "{files:?}");
        weir.stop();
    }
    let (status, _, error) = run(&home, &["restore", "full", "last", "-Dweir.store.filepath=four"]);
    assert_eq!((status, error.contains("does not go on from the one before it")), (Some(1), true), "{error}");
    let (status, _, error) = run(&home, &["restore", "more", "-Dweir.store.filepath=four"]);
    let expected = "weir: cannot restore: more goes on from an earlier backup; give that one before it\n";
    assert_eq!((status, error.contains(expected), error.contains("damaged")), (Some(1), true, false), "{error}");
}

/// What is due ends on time whenever weir runs, and at once when it starts again after it was killed.
#[test]
fn what_expires_survives_kill_9() {
    let home = Home::new();
    let weir = home.start(&[]);
    weir.rows("CREATE EXPIRY FOR (n:S) ON n.until");
    weir.rows("UNWIND range(1, 100) AS n MATCH (s) WHERE id(s) = idFrom(n) SET s:S, s.until = timestamp() + n * 30");
    weir.rows("MATCH (s) WHERE id(s) = idFrom('long') SET s:S, s.until = timestamp() + 3600000");
    std::thread::sleep(std::time::Duration::from_millis(300));
    weir.kill();
    let weir = home.start(&[]);
    let ready = std::time::Instant::now();
    let left = || weir.rows("MATCH (s:S) RETURN s.until - timestamp() AS left ORDER BY left")[..].to_vec();
    wait_until("only the long one is left", std::time::Duration::from_secs(60), || {
        let found = left();
        // A moment passes between the snapshot and the clock of the query, and the machine may be busy. Until it was ready, which
        // may have taken long, nothing could end.
        let ready_for = ready.elapsed().as_millis();
        let over = |row: &Json| u128::from(row[0].as_i64().expect("a number").min(0).unsigned_abs());
        assert!(found.iter().all(|row| over(row).min(ready_for) < 3000), "{found:?}, {ready_for} ms after the start");
        found.len() == 1
    });
    let rules = weir.rows("SHOW EXPIRIES");
    assert_eq!((rules.len(), &rules[0][0]), (1, &json!("expiry_S_until")));
    weir.stop();
}

/// A text of which packing makes little less.
fn noise(seed: u64, bytes: usize) -> String {
    let mut random = Random::new(seed);
    (0..bytes / 16).map(|_| format!("{:016x}", random.number())).collect()
}

/// The largest file of the tables of a store, changed in one byte so far into it.
fn damage(home: &Home, store: &str, part: f64) -> (std::path::PathBuf, Vec<u8>) {
    let files = fs::read_dir(home.file(store).join("rocks-db")).expect("a directory").map(|item| item.expect("a file").path());
    let tables = files.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let largest = tables.max_by_key(|path| fs::metadata(path).expect("a file").len()).expect("a table");
    let mut bytes = fs::read(&largest).expect("a file");
    let at = (bytes.len() as f64 * part) as usize;
    bytes[at] ^= 0x55;
    fs::write(&largest, &bytes).expect("writes");
    (largest, bytes)
}

#[test]
fn damage_in_one_namespace_stops_no_other() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.put("/api/v1/namespace/two").expect(201);
    for namespace in ["default", "two"] {
        for n in 0..4 {
            let texts: Vec<String> = (0..500).map(|m| noise(1000 * n + m, 1_200)).collect();
            let body = json!({"text": "UNWIND $texts AS text CREATE (:A {text: text})", "parameters": {"texts": texts}});
            weir.post(&format!("/api/v1/query/cypher?namespace={namespace}"), &body).expect(200);
        }
    }
    let count = |weir: &Weir| weir.rows("MATCH (a:A) RETURN count(a)");
    assert_eq!(count(&weir), [json!([2000])]);
    weir.stop();
    let store = "-Dweir.store.filepath=one";
    // The log is one file, the default namespace first.
    let (damaged, bytes) = damage(&home, "one", 0.75);

    let (code, out, _) = run(&home, &["check", store]);
    assert_eq!((code, out.contains("graph 'two'"), out.contains("graph 'quine'")), (Some(1), true, false), "{out}");
    let (code, out, error) = run(&home, &["export", "graph.jsonl", store]);
    assert_eq!(code, Some(0), "{out}{error}");
    let (code, _, error) = run(&home, &["export", "two.jsonl", "--namespace", "two", store]);
    assert_eq!((code, error.contains("namespace 'two' is damaged")), (Some(1), true), "{error}");
    fs::write(home.file("graph.backup"), "the last one").expect("writes");
    let (code, _, error) = run(&home, &["backup", "graph.backup", store]);
    assert_eq!((code, error.contains("--leave-out two")), (Some(1), true), "{error}");
    assert_eq!(home.read("graph.backup"), "the last one");
    let (code, _, error) = run(&home, &["backup", "graph.backup", "--leave-out", "tow", store]);
    assert_eq!((code, error.contains("there is no namespace 'tow'")), (Some(1), true), "{error}");
    let (code, out, error) = run(&home, &["backup", "graph.backup", "--leave-out", "two", store]);
    assert_eq!((code, out.contains("without two")), (Some(0), true), "{out}{error}");
    let (code, out, error) = run(&home, &["restore", "graph.backup", "-Dweir.store.filepath=whole"]);
    assert_eq!(code, Some(0), "{out}{error}");
    let (code, out, _) = run(&home, &["check", "-Dweir.store.filepath=whole"]);
    assert_eq!((code, out.contains("1 graph, ")), (Some(0), true), "{out}");

    let weir = home.start(&[store]);
    assert!(weir.log().contains("a damaged namespace is left as it is"), "{}", weir.log());
    assert_eq!(count(&weir), [json!([2000])]);
    weir.rows("CREATE (:A)");
    weir.get("/api/v2/admin/readiness").expect(204);
    assert_eq!(weir.get("/api/v1/namespace").expect(200).json(), json!(["default", "two"]));
    let status = weir.get("/api/v2/system/status").expect(200).json();
    assert!(status["damagedNamespaces"]["two"].as_str().is_some_and(|reason| reason.contains("log of graph 1")), "{status}");
    let figures = weir.get("/metrics").expect(200).text();
    assert!(figures.contains("weir_namespace_damaged{namespace=\"two\"} 1"), "{figures}");
    let ask = json!({"text": "MATCH (a) RETURN a"});
    let answer = weir.post("/api/v1/query/cypher?namespace=two", &ask).expect(500).text();
    assert!(answer.contains("namespace 'two' is damaged") && answer.contains("drop the namespace"), "{answer}");
    weir.put("/api/v1/namespace/two").expect(500);
    let url = format!("http://{}", weir.address());
    let (code, _, error) = run(&home, &["backup", "graph.backup", "--url", &url]);
    assert_eq!((code, error.contains("--leave-out two")), (Some(1), true), "{error}");
    let (code, out, error) = run(&home, &["backup", "graph.backup", "--leave-out", "two", "--url", &url]);
    assert_eq!(code, Some(0), "{out}{error}");
    weir.stop();
    assert!(fs::read(&damaged).expect("it is left as it was") == bytes);

    let weir = home.start(&[store]);
    weir.delete("/api/v1/namespace/two").expect(200);
    assert_eq!(weir.get("/api/v1/namespace").expect(200).json(), json!(["default"]));
    weir.put("/api/v1/namespace/two").expect(201);
    weir.post("/api/v1/query/cypher?namespace=two", &ask).expect(200);
    weir.stop();
    let weir = home.start(&[store]);
    assert_eq!(count(&weir), [json!([2001])]);
    weir.stop();

    // That without which there is nothing is not done without.
    damage(&home, "whole", 0.5);
    let (status, log) = home.spawn(&["-Dweir.store.filepath=whole"]).wait_end(START_MAX);
    assert!(!status.success() && log.contains("damaged data"), "{log}");
}

#[test]
fn what_is_not_done_for_a_namespace_is_told_until_it_is_done() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    // Pages that go by way of a file, for which there is no place.
    fs::remove_dir(home.file("one/incoming")).expect("it is empty");
    for n in 0..8 {
        let texts: Vec<String> = (0..500).map(|m| noise(1000 * n + m, 1_200)).collect();
        weir.rows_with("UNWIND $texts AS text CREATE (:A {text: text})", json!({"texts": texts}));
    }
    weir.rows("MATCH (a) WHERE id(a) = idFrom('a') SET a:A");
    // It asks for a checkpoint at once.
    weir.rows("CALL purgeNode(idFrom('a'))");
    let status = || weir.get("/api/v2/system/status").expect(200).json();
    let is_told = || status()["neglectedNamespaces"]["quine"]["checkpoints"].is_string();
    let limit = std::time::Duration::from_secs(60);
    wait_until("it is told that there is no checkpoint", limit, is_told);
    assert_eq!(status()["fullyUp"], json!(true));
    let line = "weir_namespace_neglected{namespace=\"quine\",task=\"checkpoints\"} 1";
    let figures = || weir.get("/metrics").expect(200).text();
    assert!(figures().contains(line), "{}", figures());
    fs::create_dir(home.file("one/incoming")).expect("a directory");
    wait_until("there is one", limit, || status().get("neglectedNamespaces").is_none());
    assert!(!figures().contains(line), "{}", figures());
    weir.stop();
}

/// Its footer is what a table cannot be opened without.
#[test]
fn a_table_without_its_end_stops_no_other_namespace() {
    let home = Home::new();
    let store = "-Dweir.store.filepath=one";
    let weir = home.start(&[store]);
    weir.put("/api/v1/namespace/two").expect(201);
    weir.rows("CREATE (:A)");
    let many = json!({"text": "UNWIND range(1, 60000) AS n CREATE (:B {x: n, y: n, z: n})"});
    // Enough that the log is cut, and with it what both have in one file.
    for _ in 0..6 {
        weir.post("/api/v1/query/cypher?namespace=two", &many).expect(200);
    }
    weir.stop();
    let files = fs::read_dir(home.file("one/rocks-db")).expect("a directory").map(|item| item.expect("a file").path());
    let tables = files.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let largest = tables.max_by_key(|path| fs::metadata(path).expect("a file").len()).expect("a table");
    let whole = fs::read(&largest).expect("a file");
    fs::write(&largest, &whole[..whole.len() - 20]).expect("writes");

    let (code, out, _) = run(&home, &["check", store]);
    assert_eq!((code, out.contains("of graph 1"), out.contains("of graph 0")), (Some(1), true, false), "{out}");
    let (code, out, error) = run(&home, &["export", "graph.jsonl", store]);
    // A line that says what it is, and the node.
    assert_eq!((code, home.read("graph.jsonl").lines().count()), (Some(0), 2), "{out}{error}");
    let (code, _, error) = run(&home, &["backup", "graph.backup", store]);
    assert_eq!((code, error.contains("--leave-out two")), (Some(1), true), "{error}");
    let (code, out, error) = run(&home, &["backup", "graph.backup", "--leave-out", "two", store]);
    assert_eq!(code, Some(0), "{out}{error}");
    let weir = home.start(&[store]);
    weir.rows("CREATE (:A)");
    assert_eq!(weir.rows("MATCH (a:A) RETURN count(a)"), [json!([2])]);
    let status = weir.get("/api/v2/system/status").expect(200).json();
    assert!(status["damagedNamespaces"]["two"].is_string(), "{status}");
    weir.stop();
    // As it was before: nothing of it was lost meanwhile.
    fs::write(&largest, &whole).expect("writes");
    let weir = home.start(&[store]);
    let count = json!({"text": "MATCH (b:B) RETURN count(b)"});
    let counted = weir.post("/api/v1/query/cypher?namespace=two", &count).expect(200).json();
    assert_eq!((counted["results"].clone(), weir.rows("MATCH (a:A) RETURN count(a)")), (json!([[360000]]), vec![json!([2])]));
    weir.stop();
}

#[test]
fn of_a_store_that_cannot_be_opened_it_is_said_what_is_sound() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("UNWIND range(1, 500) AS n CREATE (:A {n: n})");
    weir.stop();
    let tables = |home: &Home| {
        let files = fs::read_dir(home.file("one/rocks-db")).expect("a directory").map(|item| item.expect("a file").path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect::<Vec<_>>()
    };
    let log = tables(&home).into_iter().max_by_key(|path| fs::metadata(path).expect("a file").len()).expect("a table");
    let whole = fs::read(&log).expect("a file");
    fs::write(&log, &whole[..whole.len() / 2]).expect("writes");
    let (code, out, error) = run(&home, &["check", "-Dweir.store.filepath=one"]);
    assert_eq!((code, out.contains("graph 'quine'")), (Some(1), true), "{out}{error}");
    assert!(out.contains("everything not named is sound"), "{out}");
    fs::write(&log, &whole).expect("writes");
    let (code, out, error) = run(&home, &["check", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(0), "{out}{error}");
    let files = fs::read_dir(home.file("one/rocks-db")).expect("a directory").map(|item| item.expect("a file").path());
    let is_manifest =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST"));
    fs::remove_file(files.into_iter().find(is_manifest).expect("a manifest")).expect("it goes");
    let (code, out, error) = run(&home, &["check", "-Dweir.store.filepath=one"]);
    assert_eq!(
        (code, error.contains("a file is missing"), error.contains("restore the data directory")),
        (Some(1), true, true),
        "{out}{error}"
    );
}

#[test]
fn a_store_keeps_to_its_ids() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.filepath=one"]);
    weir.rows("CREATE (:A)");
    weir.stop();
    let (status, log) = home.spawn(&["-Dweir.store.filepath=one", "-Dweir.id.type=long"]).wait_end(START_MAX);
    assert!(!status.success() && log.contains("ids of `id.type` uuid, not long"), "{log}");
    let (code, _, error) = run(&home, &["export", "out.jsonl", "-Dweir.store.filepath=one", "-Dweir.id.type=uuid-5"]);
    assert_eq!((code, error.contains("ids of `id.type` uuid, not uuid-5")), (Some(1), true), "{error}");
    let weir = home.start(&["-Dweir.store.filepath=one", "-Dweir.id.type=uuid"]);
    assert_eq!(weir.rows("MATCH (a:A) RETURN count(a)"), [json!([1])]);
    weir.stop();
}

#[test]
fn what_is_no_number_is_the_same_wherever_it_goes() {
    let home = Home::new();
    let weir = home.start(&[]);
    weir.rows("MATCH (n) WHERE id(n) = idFrom(1) SET n:L, n.v = 0.0 / 0.0, n.w = [0.0 / 0.0]");
    travels(&home, &weir, "graph.jsonl", "two");
    weir.stop();
}

#[test]
fn a_namespace_that_is_dropped_frees_the_disk() {
    let home = Home::new();
    let weir = home.start(&[]);
    weir.put("/api/v1/namespace/big").expect(201);
    for n in 0..5 {
        let texts: Vec<String> = (0..1000).map(|m| noise(1000 * n + m, 3_600)).collect();
        let body = json!({"text": "UNWIND $texts AS text CREATE (:A {text: text})", "parameters": {"texts": texts}});
        weir.post("/api/v1/query/cypher?namespace=big", &body).expect(200);
    }
    let bytes = || {
        let figures = weir.get("/metrics").expect(200).text();
        let line = figures.lines().find(|line| line.starts_with("weir_store_bytes ")).expect("a figure").to_owned();
        line.split(' ').nth(1).expect("a value").parse::<f64>().expect("a number")
    };
    assert!(bytes() > 15e6, "{}", bytes());
    weir.delete("/api/v1/namespace/big").expect(200);
    // A merge that was under way holds its files until it has ended.
    wait_until("its files are gone", std::time::Duration::from_secs(60), || bytes() < 4e6);
    weir.stop();
}
