//! `weir check`, `weir backup` and `weir restore` as operators use them: the real binary, on the stores of one that ran.

use std::fs;
use std::process::{Command, Output};

use serde_json::json;
use weir_tests::service::{Home, binary};

fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(binary()).current_dir(home.path()).args(arguments).output().expect("weir runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
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
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.contains("nothing is damaged"), "{out}");
    let (code, out, error) = run(&home, &["backup", "graph.backup", "-Dweir.store.filepath=one"]);
    assert_eq!(code, Some(0), "{out}{error}");
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
        let (code, _, error) = run(&home, &["restore", "x", &format!("-Dweir.store.type={store}")]);
        assert_eq!(code, Some(1));
        assert!(error.contains("in memory"), "{error}");
    }
}
