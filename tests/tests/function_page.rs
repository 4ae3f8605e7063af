//! `docs/cypher-functions.md` is what the table of functions says, and what the real binary answers to each example.
//!
//! `UPDATE_EXPECT=1` writes the page anew; the difference is reviewed like any other.

use std::fmt::Write;

use serde_json::Value as Json;
use weir_cypher_compiler::functions::{AGGREGATES, SUBJECTS};
use weir_tests::page;
use weir_tests::service::{Home, Weir};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cypher-functions.md");

const HEAD: &str = "# Functions of Cypher

Written by a test (`tests/tests/function_page.rs`) out of the table of functions, each example with what weir answers to it.
Names are found without regard to case. Unless it says otherwise, a function of null is null. Arguments in brackets may be
left out.
";

#[test]
fn the_page_says_what_the_table_says_and_weir_answers() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let mut page = HEAD.to_owned();
    for (subject, functions) in SUBJECTS {
        write!(page, "\n## {subject}\n").expect("a string");
        for function in *functions {
            let signature = with_optional(function.signature, function.arguments_min);
            entry(&mut page, &weir, &signature, function.description, function.example);
        }
    }
    page.push_str("\n## Aggregates\n\nThey skip nulls, and after `DISTINCT` each value counts once.\n");
    for row in AGGREGATES {
        entry(&mut page, &weir, row.signature, row.description, row.example);
    }
    page::check(PAGE, &page);
}

fn entry(page: &mut String, weir: &Weir, signature: &str, description: &str, example: &str) {
    let answers: Vec<String> = weir
        .rows(example)
        .iter()
        .map(|row| row.as_array().map_or(&[][..], Vec::as_slice).iter().map(Json::to_string).collect::<Vec<_>>().join(", "))
        .collect();
    assert_eq!(answers.len(), 1, "an example has one row: {example} gave {answers:?}");
    write!(page, "\n`{signature}`  \n{description}\n\n    {example}\n    {}\n", answers.join("; ")).expect("a string");
}

/// The arguments that may be left out, in brackets.
fn with_optional(signature: &str, arguments_min: usize) -> String {
    let Some((name, rest)) = signature.split_once('(') else { return signature.to_owned() };
    let Some((arguments, result)) = rest.split_once(')') else { return signature.to_owned() };
    let shown: Vec<String> = arguments
        .split(", ")
        .enumerate()
        .map(|(place, argument)| match place >= arguments_min && !argument.is_empty() && argument != "..." {
            true => format!("[{argument}]"),
            false => argument.to_owned(),
        })
        .collect();
    format!("{name}({}){result}", shown.join(", "))
}
