//! What is wrong with an item of a recipe, as whoever wrote it is told: where it is, and what could stand there. The API says
//! less, in words that its clients know: where a mistake is within its part, and of an unknown type not which there are.
//!
//! Does not know how definitions are read.

use std::iter::successors;

use serde_json::Value as Json;
use weir_connectors::{DESTINATIONS, SOURCES};
use weir_cypher_compiler::nearest;

use crate::wire::decode::{AT, IN, Mistakes};
use crate::wire::letters::ON_RESULT_ERROR;
use crate::wire::standing::{decode_output, decode_pattern};
use crate::wire::v2::ingest::{FORMATS, has_format, is_of_files};

pub const STREAMS: &str = "ingestStreams";
pub const QUERIES: &str = "standingQueries";
pub const APPEARANCES: &str = "nodeAppearances";

/// An item of one of the lists of a recipe.
pub struct Item<'a> {
    pub list: &'a str,
    pub index: usize,
    /// The version of the recipe.
    pub version: i64,
    /// As it was typed.
    pub given: &'a Json,
}

impl Item<'_> {
    /// What is wrong with it, given what the API says of that.
    pub fn said(&self, problem: &str) -> String {
        let (problem, place) = parted(problem);
        let (place, told) = self.of_type(problem, place).unwrap_or_else(|| {
            let told = self.of_number(problem).unwrap_or_else(|| problem.to_owned());
            (place.unwrap_or_default().to_owned(), told)
        });
        format!("{}[{}]{place}: {}", self.list, self.index, with_nearest(told))
    }

    /// Of a number that YAML takes for a text, which one: the API says no more than that it is no whole number.
    fn of_number(&self, problem: &str) -> Option<String> {
        let path = problem.strip_suffix(": Long").or_else(|| problem.strip_suffix(": Int"))?;
        let field = path.rsplit(['.', '`']).find(|part| !part.is_empty())?;
        // In quotes it may stand, and be too large.
        let text = text_of(self.given, field).filter(|text| !text.bytes().all(|byte| byte.is_ascii_digit()))?;
        let is_grouped = text.bytes().all(|byte| byte == b'_' || byte.is_ascii_digit());
        let hint = if is_grouped { "; YAML numbers have no `_`" } else { "" };
        Some(format!("{field} is the text `{text}`, and should be a whole number{hint}"))
    }

    /// Of a type that is missing or unknown: where it is, and which there are.
    fn of_type(&self, problem: &str, place: Option<&str>) -> Option<(String, String)> {
        let problem = problem.strip_prefix(AT).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(problem);
        let unknown = problem.strip_prefix("No decoder for discriminator '").and_then(|rest| rest.strip_suffix("'!"));
        if unknown.is_none() && problem != "Missing type discriminator field 'type'!" {
            return None;
        }
        self.tagged(place).into_iter().find_map(|place| {
            let (what, known) = self.types(&place)?;
            let is_it = match (at(self.given, &place)?.get("type"), unknown) {
                (Some(Json::String(kind)), unknown) => unknown == Some(kind.as_str()) && !known.contains(&kind.as_str()),
                (Some(other), Some(unknown)) => other.to_string().as_str() == unknown,
                (_, unknown) => unknown.is_none(),
            };
            let there = match &known[..] {
                [one] => format!("there is {one}"),
                all => format!("there are {}", all.join(", ")),
            };
            let told = match unknown {
                Some(kind) => format!("type '{kind}' names no known {what}; {there}"),
                None => format!("the field 'type' with a text is missing; {there}"),
            };
            is_it.then_some((place, told))
        })
    }

    /// The parts that may lack a type, or have an unknown one, where the API says so of this place, or of none.
    fn tagged(&self, place: Option<&str>) -> Vec<String> {
        let these = |places: &[&str]| -> Vec<String> { places.iter().map(|place| (*place).to_owned()).collect() };
        match (place, self.list) {
            // What is wrong with the output that is given the rows of another is told of that one.
            (Some(place), _) => {
                let next = |place: &String| Some(format!("{place}.andThen")).filter(|next| at(self.given, next).is_some());
                successors(Some(place.to_owned()), next).collect()
            }
            (None, STREAMS) if self.given.get("source").is_some() => these(&[".source", ".source.format"]),
            (None, STREAMS) => these(&["", ".format"]),
            (None, APPEARANCES) => these(&[".label"]),
            _ => Vec::new(),
        }
    }

    /// What a part is, and the types that it may have.
    fn types(&self, place: &str) -> Option<(&'static str, Vec<&'static str>)> {
        let is_v1 = self.version == 1;
        match (self.list, place) {
            (STREAMS, "" | ".source") => {
                Some(("source", SOURCES.iter().map(|row| if is_v1 { row.name_v1 } else { row.name }).collect()))
            }
            (STREAMS, ".format" | ".source.format") => {
                let kind = at(self.given, place.strip_suffix(".format")?)?.get("type")?.as_str()?;
                let row = SOURCES.iter().find(|row| [row.name, row.name_v1].contains(&kind))?;
                // A recipe of the second version may have sources in the notation of the first.
                let is_v1 = is_v1 || kind != row.name;
                let of_files = is_of_files(row.name) || !has_format(row.name);
                let formats = FORMATS.iter().filter(|(_, _, files)| *files == of_files);
                Some(("format", formats.map(|(v2, v1, _)| if is_v1 { *v1 } else { *v2 }).collect()))
            }
            (QUERIES, ".pattern") => Some(("pattern", vec!["Cypher"])),
            // Not every destination takes dead letters.
            (QUERIES, _) if !place.contains(ON_RESULT_ERROR) => {
                let names = DESTINATIONS.iter().map(|row| if is_v1 { row.name_v1 } else { row.name });
                Some((if is_v1 { "output" } else { "destination" }, names.chain(["CypherQuery"]).collect()))
            }
            (APPEARANCES, ".label") => Some(("label", vec!["Constant", "Property"])),
            _ => None,
        }
    }
}

/// What is wrong with a query, with the place of what is wrong with its pattern.
pub fn in_pattern(query: &Json, mut problems: Vec<String>) -> Vec<String> {
    let mut of_it = Mistakes::default();
    if let Some(pattern) = query.get("pattern").filter(|pattern| !pattern.is_null()) {
        decode_pattern(pattern, &mut of_it);
    }
    place(".pattern", of_it, &mut problems);
    problems
}

/// What is wrong with a query of the first version, with the places of what is wrong with its outputs. The API ends with the
/// first output that is.
pub fn in_outputs(query: &Json, mut problems: Vec<String>) -> Vec<String> {
    for (name, output) in query.get("outputs").and_then(Json::as_object).into_iter().flatten() {
        let (path, mut of_it) = (format!(".outputs.{name}"), Mistakes::default());
        decode_output(output, &path, 0, &mut of_it);
        place(&path, of_it, &mut problems);
    }
    problems
}

/// Tells what is wrong with a part with its place, in place of what the whole tells of it.
fn place(path: &str, of_it: Mistakes, problems: &mut Vec<String>) {
    for told in of_it.0 {
        if let Some(at) = problems.iter().position(|problem| *problem == told) {
            problems.remove(at);
        }
        let mut placed = Mistakes::default();
        placed.within(path, Mistakes(vec![told]));
        problems.extend(placed.0);
    }
}

/// What is wrong, and the part it is told to be in.
fn parted(problem: &str) -> (&str, Option<&str>) {
    let parts = problem.strip_suffix(')').and_then(|whole| Some((whole, whole.rfind(IN)?)));
    // The point at its end is the beginning of the path.
    parts.map_or((problem, None), |(whole, end)| (&whole[..end], Some(&whole[end + IN.len() - 1..])))
}

/// With the type that was meant, perhaps, where those are told that there are.
fn with_nearest(told: String) -> String {
    let meant = told.split_once("type '").and_then(|(_, rest)| {
        let (written, rest) = rest.split_once('\'')?;
        let (_, known) = rest.split_once("; there are ")?;
        nearest(written, known.split(", "))
    });
    match meant {
        Some(meant) => format!("{told}; {meant}"),
        None => told,
    }
}

/// What stands at a place such as `.outputs[0].destinations[1]`. Names may have dots in them, as those of outputs.
fn at<'d>(given: &'d Json, place: &str) -> Option<&'d Json> {
    if place.is_empty() {
        return Some(given);
    }
    match given {
        Json::Array(items) => {
            let (index, rest) = place.strip_prefix('[')?.split_once(']')?;
            at(items.get(index.parse::<usize>().ok()?)?, rest)
        }
        Json::Object(fields) => {
            let place = place.strip_prefix('.')?;
            fields.iter().find_map(|(name, value)| at(value, place.strip_prefix(name.as_str())?))
        }
        _ => None,
    }
}

/// The text that a field has, at whatever depth.
fn text_of<'a>(given: &'a Json, field: &str) -> Option<&'a str> {
    match given {
        Json::Object(fields) => {
            let here = fields.get(field).and_then(Json::as_str);
            here.or_else(|| fields.values().find_map(|inside| text_of(inside, field)))
        }
        Json::Array(items) => items.iter().find_map(|item| text_of(item, field)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::recipe::read::read;

    /// Each expected mistake by how it begins and how it ends, and no other.
    #[track_caller]
    fn check(recipe: &str, expected: &[(&str, &str)]) {
        let errors = read(recipe.as_bytes(), &[]).err().expect("wrong");
        for (begin, end) in expected {
            let found = errors.iter().any(|error| error.starts_with(begin) && error.ends_with(end));
            assert!(found, "{begin} … {end} is not among\n{}", errors.join("\n"));
        }
        assert_eq!(errors.len(), expected.len(), "{}", errors.join("\n"));
    }

    #[test]
    fn of_the_first_version_is_said_where_it_is_wrong_and_what_could_be() {
        let files = "CypherLine, CypherJson, CypherJsonObjects, CypherCsv, CypherAvroContainer, CypherParquet";
        let recipe = "
version: 1
ingestStreams:
  - {type: FileIngets, path: x}
  - {path: x}
  - {type: FileIngest, path: x, format: {type: CypherJsn, query: RETURN 1}}
  - {type: FileIngest, path: x, format: {query: RETURN 1}}
  - {type: 5}
standingQueries:
  - {pattern: {query: x}, outputs: {}}
  - {pattern: {type: Cyhper, query: x}, outputs: {}}
  - pattern: {type: Cypher}
    outputs:
      a: {type: PrintToStandartOut}
      b.c: {}
      d: {type: CypherQuery}
      e: {type: CypherQuery, query: x, andThen: {type: Drp}}
      f: {type: CypherQuery, query: x, parallelism: 1_000}
sampleQueries: [{name: a, query: b}, {name: c}]
quickQueries:
  - {predicate: {propertyKeys: [], knownValues: {}}, quickQuery: {name: a, querySuffix: b, sort: NODES}}
  - 5
nodeAppearances: [{predicate: {propertyKeys: [], knownValues: {}}, label: {type: Constnt}}]
";
        let expected = [
            (
                "ingestStreams[0]: type 'FileIngets' names no known source; there are FileIngest, NumberIteratorIngest, ",
                "; did you mean `FileIngest`?",
            ),
            ("ingestStreams[1]: the field 'type' with a text is missing; there are FileIngest, NumberIteratorIngest, ", ""),
            (
                "ingestStreams[2].format: type 'CypherJsn' names no known format; there are CypherLine, CypherJson, ",
                "; did you mean `CypherJson`?",
            ),
            ("ingestStreams[3].format: the field 'type' with a text is missing; there are ", files),
            ("ingestStreams[4]: the field 'type' with a text is missing; there are ", ""),
            ("standingQueries[0].pattern: the field 'type' with a text is missing; there is Cypher", ""),
            ("standingQueries[1].pattern: type 'Cyhper' names no known pattern; there is Cypher", ""),
            ("standingQueries[2].pattern: DecodingFailure at .query: Missing required field", ""),
            (
                "standingQueries[2].outputs.a: type 'PrintToStandartOut' names no known output; there are ",
                "; did you mean `PrintToStandardOut`?",
            ),
            ("standingQueries[2].outputs.b.c: the field 'type' with a text is missing; there are ", ", CypherQuery"),
            ("standingQueries[2].outputs.d: DecodingFailure at .query: Missing required field", ""),
            ("standingQueries[2].outputs.e.andThen: type 'Drp' names no known output; there are ", "; did you mean `Drop`?"),
            ("standingQueries[2].outputs.f: parallelism is the text `1_000`, and should be a whole number; YAML", " no `_`"),
            ("sampleQueries[1]: DecodingFailure at .query: Missing required field", ""),
            ("quickQueries[0]: DecodingFailure at .quickQuery.sort: Invalid value: NODES ; valid values are: Node, Text", ""),
            ("quickQueries[1]: DecodingFailure at : Got value '5' with wrong type, expecting object", ""),
            (
                "nodeAppearances[0].label: type 'Constnt' names no known label; there are Constant, Property",
                "; did you mean `Constant`?",
            ),
        ];
        check(recipe, &expected);
    }

    #[test]
    fn of_the_second_version_is_said_where_it_is_wrong_and_what_could_be() {
        let recipe = "
version: 2
title: t
ingestStreams:
  - {source: {type: Fil, path: x, format: {type: Json}}, query: x}
  - {source: {path: x}, query: x}
  - {source: {type: File, path: x, format: {}}, query: x}
  - {type: FileIngest, path: x, format: {type: CypherJsn}}
standingQueries:
  - {pattern: {query: x}, outputs: []}
  - {pattern: {type: Cypher, query: x}, outputs: [{name: a, destinations: [{}, {type: Fil}]}]}
  - {pattern: {type: Cypher, query: x}, outputs: [{name: a, destinations: {type: StandardOut}}]}
";
        let expected = [
            (
                "ingestStreams[0]: DecodingFailure at .source: type 'Fil' names no known source; there are File, ",
                "; did you mean `File`?",
            ),
            ("ingestStreams[1].source: the field 'type' with a text is missing; there are File, NumberIterator, ", ""),
            (
                "ingestStreams[2].source.format: the field 'type' with a text is missing; there are Line, JsonL, Json, CSV, ",
                "AvroContainer, Parquet",
            ),
            (
                "ingestStreams[3].format: type 'CypherJsn' names no known format; there are CypherLine, CypherJson, ",
                "; did you mean `CypherJson`?",
            ),
            ("standingQueries[0].pattern: the field 'type' with a text is missing; there is Cypher", ""),
            (
                "standingQueries[1].outputs[0].destinations[0]: the field 'type' with a text is missing; there are StandardOut, ",
                ", CypherQuery",
            ),
            (
                "standingQueries[1]: DecodingFailure at .outputs[0].destinations[1]: type 'Fil' names no known destination; ",
                "; did you mean `File`?",
            ),
            (
                "standingQueries[2]: DecodingFailure at .outputs[0].destinations: Got an object with wrong type, ",
                "expecting array",
            ),
        ];
        check(recipe, &expected);
    }

    /// The formats that are told of a source are those that it takes.
    #[test]
    fn the_formats_of_a_source_are_taken_and_no_others() {
        for row in SOURCES {
            let mut given = (row.sample)();
            for (_, format, _) in FORMATS {
                given["format"] = json!({"type": format});
                let item = Item { list: STREAMS, index: 0, version: 1, given: &given };
                let (_, known) = item.types(".format").expect("a source has formats");
                let refused = weir_connectors::parse_source_v1(&given).err().map(|error| error.to_string());
                let is_unknown = refused.is_some_and(|refused| refused.contains("No decoder for discriminator"));
                assert_eq!(known.contains(format), !is_unknown, "{given}");
            }
        }
    }

    #[test]
    fn names_with_dots_are_found() {
        let given = json!({"a": {"c": 1}, "a.b": [{"c": 2}], "ab": 3});
        assert_eq!(at(&given, ".a.b[0].c"), Some(&json!(2)));
        assert_eq!(at(&given, ".ab"), Some(&json!(3)));
        assert_eq!((at(&given, ".a.b[1]"), at(&given, ".abc"), at(&given, "a")), (None, None, None));
        assert_eq!(parted("x: Int (in .a.b[0])"), ("x: Int", Some(".a.b[0]")));
        assert_eq!(parted("of (them)"), ("of (them)", None));
    }
}
