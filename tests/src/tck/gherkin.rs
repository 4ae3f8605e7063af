//! The part of Gherkin that the TCK uses: scenarios, outlines with examples, a background, doc strings, tables, tags.
//!
//! Knows nothing of what steps mean. Errors name the line.

#[derive(Clone, Debug, PartialEq)]
pub struct RawScenario {
    pub name: String,
    pub example: Option<usize>,
    pub tags: Vec<String>,
    pub steps: Vec<RawStep>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawStep {
    pub line: usize,
    /// Without its keyword.
    pub text: String,
    pub doc: Option<String>,
    /// Cells unescaped and trimmed.
    pub table: Vec<Vec<String>>,
}

/// A scenario as written, its examples not filled in yet.
struct Block {
    name: String,
    tags: Vec<String>,
    outline: bool,
    steps: Vec<RawStep>,
    /// Each with its header first.
    examples: Vec<Vec<Vec<String>>>,
}

const KEYWORDS: [&str; 5] = ["Given ", "When ", "Then ", "And ", "But "];

/// Where the next step or row of a table belongs.
enum Place {
    Nowhere,
    Background,
    Steps,
    Examples,
}

pub fn parse(text: &str) -> Result<Vec<RawScenario>, String> {
    let mut background: Vec<RawStep> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut tags: Vec<String> = Vec::new();
    let mut place = Place::Nowhere;
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if trimmed.starts_with('@') {
            tags.extend(trimmed.split_whitespace().map(str::to_owned));
        } else if trimmed.starts_with("Feature:") {
            // Tags of the feature are those of all its scenarios; the TCK has none.
            place = Place::Nowhere;
        } else if trimmed.starts_with("Background:") {
            place = Place::Background;
        } else if let Some((keyword, name)) = scenario_line(trimmed) {
            let outline = keyword != "Scenario:";
            blocks.push(Block {
                name: name.to_owned(),
                tags: std::mem::take(&mut tags),
                outline,
                steps: Vec::new(),
                examples: Vec::new(),
            });
            place = Place::Steps;
        } else if trimmed.starts_with("Examples:") {
            let block = blocks.last_mut().ok_or_else(|| format!("line {number}: examples without a scenario"))?;
            block.examples.push(Vec::new());
            place = Place::Examples;
        } else if let (Place::Examples, Some(block)) = (&place, blocks.last_mut()) {
            let table = block.examples.last_mut().ok_or_else(|| format!("line {number}: a row outside of examples"))?;
            table.push(cells(trimmed).map_err(|error| format!("line {number}: {error}"))?);
        } else {
            let steps = match (&place, blocks.last_mut()) {
                (Place::Background, _) => &mut background,
                (Place::Steps, Some(block)) => &mut block.steps,
                // The free text under a feature's name.
                _ => continue,
            };
            if trimmed.starts_with("\"\"\"") {
                let indent = line.len() - line.trim_start().len();
                let doc = doc_string(&mut lines, indent).ok_or_else(|| format!("line {number}: the doc string does not end"))?;
                last(steps, number)?.doc = Some(doc);
            } else if trimmed.starts_with('|') {
                let row = cells(trimmed).map_err(|error| format!("line {number}: {error}"))?;
                last(steps, number)?.table.push(row);
            } else {
                let step = KEYWORDS.iter().find_map(|keyword| trimmed.strip_prefix(keyword));
                let step = step.ok_or_else(|| format!("line {number}: neither a step nor anything else known: {trimmed}"))?;
                steps.push(RawStep { line: number, text: step.trim().to_owned(), ..RawStep::default() });
            }
        }
    }
    let mut scenarios = Vec::new();
    for mut block in blocks {
        block.steps.splice(0..0, background.iter().cloned());
        if block.outline {
            fill_in(&block, &mut scenarios)?;
        } else {
            scenarios.push(RawScenario { name: block.name, example: None, tags: block.tags, steps: block.steps });
        }
    }
    Ok(scenarios)
}

fn scenario_line(line: &str) -> Option<(&str, &str)> {
    ["Scenario Outline:", "Scenario:"].into_iter().find_map(|keyword| Some((keyword, line.strip_prefix(keyword)?.trim())))
}

fn last(steps: &mut [RawStep], number: usize) -> Result<&mut RawStep, String> {
    steps.last_mut().ok_or_else(|| format!("line {number}: an argument without a step"))
}

/// The lines up to the closing quotes, without as much indentation as the opening ones had.
fn doc_string<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, indent: usize) -> Option<String> {
    let mut text: Vec<&str> = Vec::new();
    for (_, line) in lines {
        if line.trim() == "\"\"\"" {
            return Some(text.join("\n"));
        }
        let blanks = line.len() - line.trim_start().len();
        text.push(&line[blanks.min(indent)..]);
    }
    None
}

/// The cells of `| a | b |`. Within a cell `\|` is a bar, `\\` a backslash, `\n` a line break.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let inner = line.strip_prefix('|').ok_or_else(|| format!("a row of a table begins with a bar: {line}"))?;
    let mut cells = vec![String::new()];
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().expect("there is always one");
        match (character, characters.peek()) {
            ('|', _) => {
                *cell = cell.trim().to_owned();
                cells.push(String::new());
            }
            ('\\', Some('|' | '\\')) => cell.extend(characters.next()),
            ('\\', Some('n')) => {
                characters.next();
                cell.push('\n');
            }
            _ => cell.push(character),
        }
    }
    match cells.pop() {
        Some(rest) if rest.trim().is_empty() => Ok(cells),
        _ => Err(format!("a row of a table ends with a bar: {line}")),
    }
}

/// One scenario for each row of the examples.
fn fill_in(block: &Block, scenarios: &mut Vec<RawScenario>) -> Result<(), String> {
    let mut example = 0;
    for table in &block.examples {
        let (header, rows) = table.split_first().ok_or_else(|| format!("{}: examples without a header", block.name))?;
        for row in rows {
            if row.len() != header.len() {
                return Err(format!("{}: the examples have {} columns and a row of {}", block.name, header.len(), row.len()));
            }
            let fill = |text: &str| {
                header.iter().zip(row).fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value))
            };
            example += 1;
            let steps = block.steps.iter().map(|step| RawStep {
                line: step.line,
                text: fill(&step.text),
                doc: step.doc.as_deref().map(fill),
                table: step.table.iter().map(|row| row.iter().map(|cell| fill(cell)).collect()).collect(),
            });
            scenarios.push(RawScenario {
                name: block.name.clone(),
                example: Some(example),
                tags: block.tags.clone(),
                steps: steps.collect(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# A licence.
Feature: Match1 - Nodes
  Free text that means nothing.

  Background:
    Given an empty graph

  @slow @odd
  Scenario: [1] One
    And having executed:
      """
      CREATE (a)
        -[:T]->(b)
      """
    Then the result should be, in any order:
      | a  | b\|c  |
      | 1  | 'x\\' |

  Scenario Outline: [2] Two
    When executing query:
      """
      RETURN <v>
      """
    Then a <error> should be raised

    Examples:
      | v   | error |
      | 1   | E1    |
      | [2] | E2    |

    Examples:
      | v | error |
      | 3 | E3    |
"#;

    #[test]
    fn scenarios_and_outlines_are_read() {
        let scenarios = parse(TEXT).expect("it is well formed");
        let names: Vec<_> = scenarios.iter().map(|s| (s.name.as_str(), s.example)).collect();
        assert_eq!(names, [("[1] One", None), ("[2] Two", Some(1)), ("[2] Two", Some(2)), ("[2] Two", Some(3))]);
        let one = &scenarios[0];
        assert_eq!(one.tags, ["@slow", "@odd"]);
        assert_eq!(
            one.steps.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(),
            ["an empty graph", "having executed:", "the result should be, in any order:"]
        );
        assert_eq!(one.steps[1].doc.as_deref(), Some("CREATE (a)\n  -[:T]->(b)"));
        assert_eq!(one.steps[2].table, [["a", "b|c"], ["1", "'x\\'"]]);
        assert_eq!(scenarios[2].steps[1].doc.as_deref(), Some("RETURN [2]"));
        assert_eq!(scenarios[3].steps[2].text, "a E3 should be raised");
        assert!(scenarios[3].tags.is_empty());
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_line() {
        for (text, wanted) in [
            ("Scenario: x\n  Given y:\n  \"\"\"\n  RETURN 1", "line 3: the doc string does not end"),
            ("Scenario: x\n  Given y\n  | a", "line 3: a row of a table ends with a bar"),
            ("Scenario: x\n  | a |", "line 2: an argument without a step"),
            ("Scenario: x\n  Maybe y", "line 2: neither a step"),
            ("Scenario Outline: x\n  Given y\n  Examples:\n  | a | b |\n  | 1 |", "2 columns and a row of 1"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
