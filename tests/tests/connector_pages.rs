//! Every option of sources, formats, destinations and places of dead letters that the OpenAPI documents know stands on a page for
//! those who use connectors. A name that several of them have is looked for once; what is said of it is not read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use weir_tests::service::Home;

const PAGES: [&str; 3] = [
    include_str!("../../docs/connectors.md"),
    include_str!("../../docs/kafka.md"),
    include_str!("../../docs/standing-queries.md"),
];

const DOCUMENTS: [&str; 3] = ["/docs/openapi.json", "/docs/openapi-preview.json", "/api/v2/openapi.json"];

const PLACE: &str = "#/components/schemas/";

/// The definitions that all others are parts of.
const ROOTS: [&str; 3] = ["IngestBody", "Outputs", "LetterBox"];

/// The pages have the names of v1: without their unit they are the durations of v2, as `connectors.md` says at its beginning.
const UNITS: [&str; 4] = ["", "Millis", "InMillis", "Seconds"];

#[test]
fn every_option_stands_on_a_page() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let mut missing = Vec::new();
    for path in DOCUMENTS {
        let document = weir.get(path).expect(200).json();
        let (mut seen, mut found) = (BTreeSet::new(), BTreeMap::new());
        ROOTS.iter().for_each(|root| options_of(&document, root, &mut seen, &mut found));
        // Roots that are called otherwise would have none.
        assert!(found.len() > 150, "{path} has only {} options: {found:?}", found.len());
        let unsaid = found.iter().filter(|(option, _)| !is_said(option));
        missing.extend(unsaid.map(|(option, definition)| format!("{option} of {definition} ({path})")));
    }
    weir.stop();
    assert!(
        missing.is_empty(),
        "not in docs/connectors.md, docs/kafka.md or docs/standing-queries.md, as `name` or \"name\":\n{}",
        missing.join("\n")
    );
}

/// As a name, or in an example.
fn is_said(option: &str) -> bool {
    UNITS.iter().any(|unit| {
        let (name, example) = (format!("`{option}{unit}`"), format!("\"{option}{unit}\""));
        PAGES.iter().any(|page| page.contains(&name) || page.contains(&example))
    })
}

/// The options of a definition and of those that it refers to, each with the definition that has it.
fn options_of<'d>(document: &'d Json, name: &'d str, seen: &mut BTreeSet<&'d str>, found: &mut BTreeMap<&'d str, &'d str>) {
    if seen.insert(name) {
        look(document, &document["components"]["schemas"][name], name, seen, found);
    }
}

fn look<'d>(
    document: &'d Json,
    schema: &'d Json,
    definition: &'d str,
    seen: &mut BTreeSet<&'d str>,
    found: &mut BTreeMap<&'d str, &'d str>,
) {
    match schema {
        Json::Object(fields) => {
            for (keyword, inside) in fields {
                match keyword.as_str() {
                    // What stands in these is data and not a schema.
                    "default" | "examples" | "example" | "const" | "enum" | "discriminator" => {}
                    "$ref" => {
                        let name = inside.as_str().and_then(|place| place.strip_prefix(PLACE)).expect("the name of a definition");
                        options_of(document, name, seen, found);
                    }
                    "properties" => {
                        for (option, schema) in inside.as_object().into_iter().flatten() {
                            found.entry(option.as_str()).or_insert(definition);
                            look(document, schema, definition, seen, found);
                        }
                    }
                    _ => look(document, inside, definition, seen, found),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| look(document, item, definition, seen, found)),
        _ => {}
    }
}
