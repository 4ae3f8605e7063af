//! `docs/how-to.md` as a reader would follow it: the commands of each part, typed into a shell in an empty directory beside a
//! weir that has just been started there, print what the page says. So does the program of the README, and a graph goes over as
//! `docs/migration.md` says.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use weir_tests::service::{Home, RESULTS_MAX, Weir, binary};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/how-to.md");
const MIGRATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/migration.md");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");

/// One part of the page: its heading, what is typed, and lines that are printed, in this order.
struct Part<'p> {
    heading: &'p str,
    typed: &'p str,
    printed: &'p str,
}

fn parts(page: &str) -> Vec<Part<'_>> {
    fn part(text: &str) -> Part<'_> {
        let (heading, text) = text.split_once('\n').expect("a heading ends");
        let (_, text) = text.split_once("```sh\n").unwrap_or_else(|| panic!("{heading}: nothing is typed"));
        let (typed, text) = text.split_once("```\n").expect("a block ends");
        let (_, text) = text.split_once("```\n").unwrap_or_else(|| panic!("{heading}: nothing is printed"));
        let (printed, _) = text.split_once("```").expect("a block ends");
        Part { heading, typed, printed }
    }
    page.split("\n## ").skip(1).map(part).collect()
}

#[test]
fn what_the_page_says_happens() {
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let parts = parts(&page);
    assert!(parts.len() > 8, "{} parts", parts.len());
    for part in parts {
        // A reader's pauses are short, and the machine of a test may stand still for longer.
        let tries: Vec<String> = (0..3).map_while(|_| follow(&part).err()).collect();
        assert!(tries.len() < 3, "{}", tries[0]);
    }
}

fn follow(part: &Part<'_>) -> Result<(), String> {
    let home = Home::new();
    let weir = home.start(&[]);
    let typed = part.typed.replace("localhost:8080", &weir.address().to_string());
    let beside = binary().parent().map(Path::to_path_buf).expect("the binary has a directory");
    let path = format!("{}:{}", beside.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &typed])
        .current_dir(home.path())
        .env("PATH", path)
        .env("WEIR_URL", format!("http://{}", weir.address()))
        .output()
        .expect("there is a bash");
    weir.stop();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let answer = std::fs::read_to_string(home.file("answer.json")).unwrap_or_default();
    let said = format!("{}: it printed\n{out}\nand said\n{error}\nthe last answer was\n{answer}", part.heading);
    if !output.status.success() {
        return Err(said);
    }
    let mut rest = &*out;
    for line in part.printed.lines() {
        let at = rest.find(line).ok_or_else(|| format!("`{line}` is not printed there. {said}"))?;
        rest = &rest[at + line.len()..];
    }
    Ok(())
}

/// What `docs/migration.md` says of data, typed between two that run: the second has the graph of the first, every number of it.
#[test]
fn data_that_are_taken_along_are_as_they_were() {
    let page = std::fs::read_to_string(MIGRATION).expect("the page is there");
    let part = page.split_once("\n## Data\n").expect("the part about data").1;
    let block = |text| str::split_once(text, "```").expect("a block ends").0;
    let typed: String = part.split("```sh\n").skip(1).map(block).collect();
    for address in ["http://old:8080/", "http://127.0.0.1:8080/"] {
        assert_eq!(typed.matches(address).count(), 2, "{typed}");
    }
    let (there, here) = (Home::new(), Home::new());
    let arguments = ["-Dweir.store.type=in-memory", "-Dweir.workers=1"];
    let (old, new) = (there.start(&arguments), here.start(&arguments));
    let graph = "MATCH (a), (b), (c) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') AND id(c) = idFrom('c') \
        SET a:A, a:B, a.large = 9007199254740993, a.least = -9223372036854775808, a.whole = 1.0, a.part = 0.1, a.zero = -0.0, \
        a.huge = 1e300, a.tiny = 5e-324, b.none = 0.0 / 0.0, b.most = 1.0 / 0.0, b.minus = -1.0 / 0.0, b.text = 'NaN', \
        b.list = [1, 'x', true], b.map = {a: 1, b: 1.5}, b.said = 'a \"word\", a snowman ☃ and a smile 😀' \
        CREATE (a)-[:KNOWS]->(b), (b)-[:KNOWS]->(a), (b)-[:LIKES]->(c), (c)-[:LIKES]->(c)";
    old.query(graph).expect(200);
    let typed = typed.replace("http://127.0.0.1:8080/", &format!("http://{}/", new.address()));
    let typed = typed.replace("http://old:8080/", &format!("http://{}/", old.address()));
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &typed]).current_dir(here.path()).env("no_proxy", "127.0.0.1");
    let output = bash.output().expect("there is a bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (stream, records) in [("nodes", 3), ("edges", 4)] {
        let told = new.wait_ingest(stream, "Completed", RESULTS_MAX);
        assert_eq!(told["stats"]["ingestedCount"], records, "{told}");
    }
    let nodes = "MATCH (n) RETURN strId(n) AS id, labels(n), properties(n) ORDER BY id";
    assert_eq!(new.rows(nodes), old.rows(nodes));
    let hash = |weir: &Weir| weir.get("/api/v1/admin/graph-hash-code").expect(200).json()["value"].clone();
    assert_eq!(hash(&new), hash(&old), "the rows are the same, and the types of values, or the edges, are not");
    let halves = "MATCH (n) WHERE id(n) = idFrom('a') RETURN n.whole / 2, n.large";
    assert_eq!(new.rows(halves), [json!([0.5, 9_007_199_254_740_993_i64])]);
}

/// What it prints stands behind its last line.
#[test]
fn the_program_of_the_readme_prints_what_it_says() {
    let page = std::fs::read_to_string(README).expect("the page is there");
    let program = page.split_once("```python\n").and_then(|(_, text)| text.split_once("```")).expect("a program").0;
    let printed = program.rsplit_once("   # ").expect("what it prints").1;
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    assert_eq!(program.matches("127.0.0.1:8080").count(), 1, "{program}");
    let program = program.replace("127.0.0.1:8080", &weir.address().to_string());
    let mut python = Command::new("python3");
    let Ok(output) = python.args(["-c", &program]).env("no_proxy", "127.0.0.1").output() else {
        eprintln!("**** LEFT OUT: there is no python3 to run the program of the README");
        return;
    };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == printed, "it printed\n{out}\nand said\n{error}");
}
