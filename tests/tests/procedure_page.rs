//! `docs/cypher-procedures.md` is what the table of procedures says; each example runs on the real binary.
//!
//! `UPDATE_EXPECT=1` writes the page anew; the difference is reviewed like any other.

use std::fmt::Write;

use weir_cypher_compiler::procedures::documented;
use weir_model::Procedure;
use weir_tests::page;
use weir_tests::service::Home;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cypher-procedures.md");

const HEAD: &str = "# Procedures of Cypher

Written by a test (`tests/tests/procedure_page.rs`) out of the table of procedures; it runs every example.

`CALL name(arguments) YIELD column, column AS other WHERE ...` stands among other clauses; a procedure without columns passes each
row on. A call that is a query of its own gives all columns without YIELD, and, without parentheses, takes its arguments from the
parameters of the same names. Names are found without regard to case. Arguments in brackets may be left out. A procedure that
writes does so for every row before the first of them goes on. Standing queries call those alone whose rows follow from the graph as
it is, in mode `AnyQuery`: `db.propertyKeys`, `db.relationshipTypes`, `dbms.labels`, `getFilteredEdges`, `subscribers` and
`subscriptions`.
";

#[test]
fn the_page_says_what_the_table_says_and_its_examples_run() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let mut page = HEAD.to_owned();
    for procedure in documented() {
        weir.query(&procedure.example).expect(200);
        let Procedure { name, description, example, .. } = &*procedure;
        let mode = if procedure.writes { "It writes" } else { "It reads" };
        let again = if procedure.idempotent { "" } else { ", and differs from run to run or adds to what is there" };
        let signature = shown(&procedure);
        let entry = format!("\n## {name}\n\n`{signature}`  \n{description}. {mode}{again}.\n\n    {example}\n");
        page.write_str(&entry).expect("a string");
    }
    page::check(PAGE, &page);
}

/// The signature, with defaults.
fn shown(procedure: &Procedure) -> String {
    let inputs = procedure.inputs.iter().map(|input| match &input.default {
        None if input.optional => format!("[{} :: {}]", input.name, input.type_name),
        None => format!("{} :: {}", input.name, input.type_name),
        Some(default) => format!("[{} :: {} = {}]", input.name, input.type_name, default.shown()),
    });
    let outputs = procedure.outputs.iter().map(|output| format!("{} :: {}", output.name, output.type_name));
    let joined = |fields: Vec<String>| fields.join(", ");
    format!("{}({}) :: ({})", procedure.name, joined(inputs.collect()), joined(outputs.collect()))
}
