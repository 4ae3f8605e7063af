//! What the steps of the TCK say.

use super::gherkin::RawStep;
use super::literal::Literal;

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `an empty graph`, and `any graph`, whose content must not matter.
    EmptyGraph,
    /// The name of a folder under `graphs/`.
    NamedGraph(String),
    /// A query that must succeed and whose effects are not counted.
    Setup(String),
    Parameters(Vec<(String, Literal)>),
    Procedure {
        /// As written: `test.labels() :: (label :: STRING?)`.
        signature: String,
        /// The inputs, then the outputs.
        rows: Vec<Vec<Literal>>,
    },
    /// The query under test.
    Execute(String),
    /// A query after it; the expectations that follow are about this one.
    Control(String),
    Rows {
        ordered: bool,
        /// Lists within the rows are multisets.
        lists_unordered: bool,
        columns: Vec<String>,
        rows: Vec<Vec<Literal>>,
    },
    NoRows,
    /// Counters such as `+nodes`; those not named are zero.
    SideEffects(Vec<(String, i64)>),
    Raised {
        kind: String,
        phase: Phase,
        /// `*` for any.
        detail: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Compile,
    Run,
    Any,
}

impl Step {
    pub fn read(raw: &RawStep) -> Result<Step, String> {
        read(raw).map_err(|error| format!("line {}: {error}", raw.line))
    }
}

fn read(raw: &RawStep) -> Result<Step, String> {
    let doc = || raw.doc.clone().ok_or_else(|| format!("a doc string is missing under {:?}", raw.text));
    Ok(match raw.text.as_str() {
        "an empty graph" | "any graph" => Step::EmptyGraph,
        "having executed:" => Step::Setup(doc()?),
        "parameters are:" => {
            Step::Parameters(pairs(raw)?.map(|(k, v)| Ok((k, Literal::parse(&v)?))).collect::<Result<_, String>>()?)
        }
        "executing query:" => Step::Execute(doc()?),
        "executing control query:" => Step::Control(doc()?),
        "the result should be, in any order:" => rows(raw, false, false)?,
        "the result should be, in order:" => rows(raw, true, false)?,
        "the result should be (ignoring element order for lists):" => rows(raw, false, true)?,
        "the result should be, in order (ignoring element order for lists):" => rows(raw, true, true)?,
        "the result should be empty" => Step::NoRows,
        "no side effects" => Step::SideEffects(Vec::new()),
        "the side effects should be:" => {
            let number = |(name, n): (String, String)| n.parse().map(|n| (name, n)).map_err(|_| format!("{n:?} is no number"));
            Step::SideEffects(pairs(raw)?.map(number).collect::<Result<_, String>>()?)
        }
        text => longer(text, raw)?,
    })
}

/// Steps with words of their own in them.
fn longer(text: &str, raw: &RawStep) -> Result<Step, String> {
    if let Some(name) = text.strip_prefix("the ").and_then(|rest| rest.strip_suffix(" graph")) {
        return Ok(Step::NamedGraph(name.to_owned()));
    }
    if let Some(signature) = text.strip_prefix("there exists a procedure ") {
        let signature = signature.trim_end_matches(':').trim().to_owned();
        let (_, rows) = table(raw)?;
        return Ok(Step::Procedure { signature, rows });
    }
    if let Some((kind, rest)) = text.split_once(" should be raised at ") {
        let kind = kind.strip_prefix("an ").or_else(|| kind.strip_prefix("a ")).unwrap_or(kind).to_owned();
        let (phase, detail) = rest.split_once(": ").ok_or_else(|| format!("an error without a detail: {text}"))?;
        let phase = match phase {
            "compile time" => Phase::Compile,
            "runtime" => Phase::Run,
            "any time" => Phase::Any,
            _ => return Err(format!("no phase is called {phase:?}")),
        };
        return Ok(Step::Raised { kind, phase, detail: detail.trim().to_owned() });
    }
    Err(format!("no step is called {text:?}"))
}

fn pairs(raw: &RawStep) -> Result<impl Iterator<Item = (String, String)>, String> {
    match raw.table.iter().find(|row| row.len() != 2) {
        Some(row) => Err(format!("two columns are expected, not {}", row.len())),
        None => Ok(raw.table.iter().map(|row| (row[0].clone(), row[1].clone()))),
    }
}

fn rows(raw: &RawStep, ordered: bool, lists_unordered: bool) -> Result<Step, String> {
    let (columns, rows) = table(raw)?;
    Ok(Step::Rows { ordered, lists_unordered, columns, rows })
}

fn table(raw: &RawStep) -> Result<(Vec<String>, Vec<Vec<Literal>>), String> {
    let Some((columns, rows)) = raw.table.split_first() else { return Ok((Vec::new(), Vec::new())) };
    if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
        return Err(format!("{} columns, and a row of {}", columns.len(), row.len()));
    }
    let rows = rows.iter().map(|row| row.iter().map(|cell| Literal::parse(cell)).collect()).collect::<Result<_, _>>()?;
    Ok((columns.clone(), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str, table: &[&[&str]]) -> RawStep {
        let table = table.iter().map(|row| row.iter().map(|cell| cell.to_string()).collect()).collect();
        RawStep { line: 9, text: text.into(), doc: None, table }
    }

    #[test]
    fn steps_are_told_apart() {
        let error = Step::read(&raw("a SyntaxError should be raised at compile time: UndefinedVariable", &[]));
        let wanted = Step::Raised { kind: "SyntaxError".into(), phase: Phase::Compile, detail: "UndefinedVariable".into() };
        assert_eq!(error, Ok(wanted));
        assert_eq!(Step::read(&raw("the binary-tree-1 graph", &[])), Ok(Step::NamedGraph("binary-tree-1".into())));
        let effects = Step::read(&raw("the side effects should be:", &[&["+nodes", "2"], &["-labels", "1"]]));
        assert_eq!(effects, Ok(Step::SideEffects(vec![("+nodes".into(), 2), ("-labels".into(), 1)])));
        let rows = Step::read(&raw("the result should be, in order:", &[&["n"], &["(:A)"]]));
        let Ok(Step::Rows { ordered: true, lists_unordered: false, columns, rows }) = rows else { panic!("{rows:?}") };
        assert_eq!((columns.len(), rows.len()), (1, 1));
    }

    #[test]
    fn an_unknown_step_is_refused_with_its_line() {
        let error = Step::read(&raw("the moon should be full", &[])).expect_err("no such step");
        assert_eq!(error, "line 9: no step is called \"the moon should be full\"");
    }
}
