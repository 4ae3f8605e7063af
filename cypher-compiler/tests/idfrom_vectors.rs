//! Ids and hashes against those recorded from a running service: every line of the recording whose id scheme is one of
//! ours and whose expression needs no graph. The recording lies beside the repository; without it the test says so and ends.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use weir_cypher_compiler::{Options, compile};
use weir_model::IdScheme;
use weir_model::expression::GraphFree;
use weir_model::json;
use weir_model::plan::Operator;

/// Where weir differs, and why. Each entry must differ, so that the list does not outlive its reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("toString(quineId(", "the service refuses the call by its static types; weir looks at the value"),
    ("(NaN)", "the recorded version has no such literal; later ones and weir do"),
    ("duration({months:1}", "the service refuses units without a fixed length; weir has months"),
    ("duration({years:1,", "as above"),
    (
        "datetime({epochMillis:1700000000123})",
        "the service attaches the region of its own clock, weir the offset alone, as openCypher",
    ),
    ("quineId('#", "ids are of 128 bits; other lengths name no node"),
    ("quineId('12')", "under `long` an id is an integer, here as in `id(n)`"),
    ("quineId('-12')", "as above"),
];

fn scheme(id_type: &str) -> Option<IdScheme> {
    Some(match id_type {
        "uuid" => IdScheme::Uuid,
        "uuid-3" => IdScheme::Uuid3 { namespace: [0; 16] },
        "uuid-4" => IdScheme::Uuid4,
        "uuid-5" => IdScheme::Uuid5 { namespace: [0; 16] },
        "uuid-5 namespace=6ba7b810-9dad-11d1-80b4-00c04fd430c8" => {
            IdScheme::Uuid5 { namespace: IdScheme::Uuid.parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")?.to_bytes() }
        }
        "long" => IdScheme::Long { consecutive: false },
        "long consecutive-start=10" => IdScheme::Long { consecutive: true },
        _ => return None,
    })
}

/// The cell that `RETURN expr AS v` gives, as JSON; or what went wrong.
fn cell(expr: &str, ids: IdScheme) -> Result<Json, String> {
    let options = Options { ids, ..Options::default() };
    let plan = compile(&format!("RETURN {expr} AS v"), &options).map_err(|errors| format!("{errors:?}"))?;
    let slot = plan.columns.first().ok_or("no column")?.1;
    let item = find_item(&plan.root, slot).ok_or_else(|| format!("no projection in {:?}", plan.root))?;
    let row = vec![weir_model::Value::Null; plan.width];
    let value = item.evaluate(&row, &GraphFree::constants(ids)).map_err(|failure| failure.to_string())?;
    let mut out = Vec::new();
    json::write(&value, ids, &mut out);
    serde_json::from_slice(&out).map_err(|error| error.to_string())
}

fn find_item(operator: &Operator, wanted: weir_model::plan::Slot) -> Option<&weir_model::Expr> {
    match operator {
        Operator::Project { items, .. } if let Some((_, expr)) = items.iter().find(|(slot, _)| *slot == wanted) => Some(expr),
        other => find_item(other.input()?, wanted),
    }
}

#[test]
fn recorded_ids_and_hashes_are_reproduced() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recorded/idfrom-vectors.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: no recording at {}", path.display());
        return;
    };
    let (mut checked, mut wrong, mut listed) = (0, BTreeMap::new(), vec![false; DIFFERENT.len()]);
    for line in text.lines() {
        let line: Json = serde_json::from_str(line).expect("the recording is JSON lines");
        let (Some(ids), Some(expr)) = (line["idType"].as_str().and_then(scheme), line["expr"].as_str()) else { continue };
        if line.get("query").is_some() || line.get("varies").is_some() {
            continue;
        }
        checked += 1;
        let found = cell(expr, ids);
        let agrees = match (&found, line.get("error")) {
            (Ok(found), None) => *found == line["result"],
            (Err(_), Some(_)) => true,
            _ => false,
        };
        if let Some(at) = DIFFERENT.iter().position(|(part, _)| expr.contains(part)) {
            listed[at] |= !agrees;
        } else if !agrees {
            wrong.insert(format!("{}: {expr}", line["idType"]), format!("expected {}, found {found:?}", line));
        }
    }
    let report: Vec<String> = wrong.iter().map(|(what, why)| format!("{what}\n    {why}")).collect();
    assert!(report.is_empty(), "{} of {checked} differ:\n{}", report.len(), report.join("\n"));
    assert!(checked > 600, "only {checked} lines were checked");
    for ((part, reason), differs) in DIFFERENT.iter().zip(listed) {
        assert!(differs, "`{part}` agrees now; take it off the list ({reason})");
    }
}
