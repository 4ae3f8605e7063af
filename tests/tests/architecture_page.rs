//! The map in `docs/ARCHITECTURE.md` names every module of each crate, and of the two parts of the engine that it shows one level
//! deeper; the header of a directory of many files names those. What is said of them is not read.

use std::fs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const PAGE: &str = include_str!("../../docs/ARCHITECTURE.md");

/// Where modules are declared, and the rows of the map that lead to theirs.
const PLACES: [(&str, &[&str]); 7] = [
    ("model/src/lib.rs", &["model/"]),
    ("cypher-compiler/src/lib.rs", &["cypher-compiler/"]),
    ("engine/src/lib.rs", &["engine/"]),
    ("engine/src/arrangement/mod.rs", &["engine/", "arrangement/"]),
    ("engine/src/render/mod.rs", &["engine/", "render/"]),
    ("connectors/src/lib.rs", &["connectors/"]),
    ("api/src/lib.rs", &["api/"]),
];

/// Directories whose header is a map: it names each module in a row that begins with its name, in the order they are declared in.
const HEADERS: [&str; 11] = [
    "engine/src/arrangement/mod.rs",
    "engine/src/evaluate/mod.rs",
    "engine/src/history/mod.rs",
    "engine/src/render/mod.rs",
    "engine/src/render/stages/mod.rs",
    "engine/src/store/mod.rs",
    "engine/src/why/mod.rs",
    "cypher-compiler/src/bind/mod.rs",
    "connectors/src/kafka/mod.rs",
    "api/src/outputs/mod.rs",
    "api/src/standing/mod.rs",
];

#[test]
fn every_module_stands_on_the_map() {
    let page: Vec<&str> = PAGE.lines().collect();
    let mut missing = Vec::new();
    for (file, way) in PLACES {
        let source = fs::read_to_string(format!("{ROOT}/{file}")).expect("a file of the workspace");
        let modules: Vec<&str> = source.lines().filter_map(declared).collect();
        // Modules that are declared otherwise would not be looked for.
        assert!(modules.len() > 10, "{file} declares only {modules:?}");
        let rows = way.iter().fold(page.as_slice(), |rows, part| below(rows, part));
        missing.extend(modules.into_iter().filter(|module| !names(rows, module)).map(|module| format!("{module} of {file}")));
    }
    assert!(
        missing.is_empty(),
        "not on the map in docs/ARCHITECTURE.md, as `name.rs` or `name/` below the row of its crate:\n{}",
        missing.join("\n")
    );
}

#[test]
fn headers_name_modules_in_the_order_of_their_declarations() {
    for file in HEADERS {
        let source = fs::read_to_string(format!("{ROOT}/{file}")).expect("a file of the workspace");
        let lines: Vec<&str> = source.lines().collect();
        let of_tests = |at: usize| at > 0 && lines[at - 1] == "#[cfg(test)]";
        let modules: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| !of_tests(*at)).filter_map(|(_, line)| declared(line)).collect();
        assert!(modules.len() > 6, "{file} declares only {modules:?}");
        let rows = lines.iter().filter_map(|line| line.strip_prefix("//!     "));
        let named: Vec<&str> =
            rows.filter_map(|row| row.split_whitespace().next()).filter(|name| modules.contains(name)).collect();
        assert_eq!(named, modules, "the rows of the header of {file}, and what it declares");
    }
}

/// The module that a line declares, if it lies in a file of its own.
fn declared(line: &str) -> Option<&str> {
    line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')
}

/// The rows of the map that are indented further than the one of `name`, up to the next that is not.
fn below<'r, 'p>(rows: &'r [&'p str], name: &str) -> &'r [&'p str] {
    let is_row = |row: &&str| row.starts_with("    ") && row.split_whitespace().next() == Some(name);
    let at = rows.iter().position(is_row).unwrap_or_else(|| panic!("no row of {name} in docs/ARCHITECTURE.md"));
    let rest = &rows[at + 1..];
    let end = rest.iter().position(|row| indent(row) <= indent(rows[at])).unwrap_or(rest.len());
    &rest[..end]
}

fn indent(row: &str) -> usize {
    row.len() - row.trim_start().len()
}

fn names(rows: &[&str], module: &str) -> bool {
    let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
    let mut words = rows.iter().flat_map(|row| row.split_whitespace()).map(|word| word.trim_matches([',', ';']));
    words.any(|word| word == file || word == folder)
}
