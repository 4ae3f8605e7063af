//! Runs one scenario: a graph of its own, its queries, and whether they did what it says.
//!
//! Queries go from the compiler to the engine, without the service around them. The ids are integers, as openCypher has them.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Code, Diagnostic, compile, unknown_parameter};
use weir_engine::store::InMemory;
use weir_engine::{Engine, EngineError, Graph, GraphOptions, QueryOptions};
use weir_model::expression::FailureKind;
use weir_model::procedure::Body;
use weir_model::{IdScheme, Procedure, Value};

use super::Scenario;
use super::effects::Observation;
use super::literal::{Comparison, Literal};
use super::step::{Phase, Step};

const IDS: IdScheme = IdScheme::Long { consecutive: false };

/// A query that is not done by then is interrupted.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// An engine in which scenarios run, one after another or side by side.
pub struct Runner {
    engine: Engine,
    graphs: PathBuf,
    count: AtomicUsize,
}

impl Runner {
    /// `folder` is that of the kit, where the named graphs are.
    pub fn new(folder: &Path) -> Result<Runner, EngineError> {
        let options = weir_engine::Options { workers: 1, ids: IDS, ..weir_engine::Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options)?;
        engine.start()?;
        Ok(Runner { engine, graphs: folder.join("graphs"), count: AtomicUsize::new(0) })
    }

    /// Why the scenario fails, in full; nothing where it passes.
    pub fn run(&self, scenario: &Scenario) -> Result<(), String> {
        let name = format!("tck{}", self.count.fetch_add(1, Ordering::Relaxed));
        let graph =
            self.engine.create_graph(&name, GraphOptions { open_cypher: true }).map_err(|error| format!("the graph: {error}"))?;
        let mut run = Run { graph, graphs: &self.graphs, parameters: Vec::new(), procedures: Vec::new(), query: None };
        let result = scenario.steps.iter().try_for_each(|step| run.step(step)).and_then(|()| run.check_no_surprise());
        drop(run);
        self.engine.drop_graph(&name).map_err(|error| format!("dropping the graph: {error}"))?;
        result
    }
}

/// A procedure that answers from a table: of the rows whose first columns are the arguments, the rest. 2 is 2.0, and null null.
fn declared(signature: &str, rows: &[Vec<Literal>]) -> Result<Procedure, String> {
    let value =
        |literal: &Literal| literal.to_value().ok_or_else(|| format!("{literal:?} cannot be in the table of a procedure"));
    let rows = rows.iter().map(|row| row.iter().map(value).collect()).collect::<Result<Vec<Vec<Value>>, String>>()?;
    let body = Body::Rows(Arc::new(move |_, arguments, each| {
        let fits = |(cell, argument): (&Value, &Value)| match cell.equals(argument) {
            Some(equal) => equal,
            None => cell.is_null() && argument.is_null(),
        };
        for row in rows.iter().filter(|row| row.iter().zip(arguments).all(fits)) {
            if each(row.get(arguments.len()..).unwrap_or_default())?.is_break() {
                break;
            }
        }
        Ok(())
    }));
    Procedure::declare(signature, body).map_err(|error| error.to_string())
}

/// A scenario under way.
struct Run<'a> {
    graph: Graph,
    graphs: &'a Path,
    parameters: Vec<(String, Value)>,
    /// Those the scenario declares.
    procedures: Vec<Arc<Procedure>>,
    /// The last query that expectations are about.
    query: Option<Ran>,
}

/// A query that was run, and what became of it.
struct Ran {
    text: String,
    answer: Result<Answer, Raised>,
    effects: Vec<(String, i64)>,
    /// An expected error was found.
    explained: bool,
}

#[derive(Default)]
struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

struct Raised {
    phase: Phase,
    /// Type and detail in the terms of openCypher: of each thing that is wrong, for the compiler reports all.
    errors: Vec<(&'static str, &'static str)>,
    message: String,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::EmptyGraph => Ok(()),
            Step::NamedGraph(name) => {
                let file = self.graphs.join(name).join(format!("{name}.cypher"));
                let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
                self.set_up(&text)
            }
            Step::Setup(text) => self.set_up(text),
            Step::Parameters(parameters) => {
                for (name, literal) in parameters {
                    let value = literal.to_value().ok_or_else(|| format!("{literal:?} cannot be a parameter"))?;
                    self.parameters.push((name.clone(), value));
                }
                Ok(())
            }
            Step::Procedure { signature, rows, .. } => {
                self.procedures.push(Arc::new(declared(signature, rows)?));
                Ok(())
            }
            Step::Execute(text) | Step::Control(text) => {
                self.check_no_surprise()?;
                let before = Observation::of(&self.graph);
                let answer = self.query(text);
                let effects = before.changes_to(&Observation::of(&self.graph));
                self.query = Some(Ran { text: text.clone(), answer, effects, explained: false });
                Ok(())
            }
            Step::Rows { ordered, lists_unordered, columns, rows } => {
                self.expect_rows(*ordered, Comparison { lists_unordered: *lists_unordered }, columns, rows)
            }
            Step::NoRows => {
                let (text, answer) = self.answer()?;
                if answer.rows.is_empty() { Ok(()) } else { Err(format!("{text}\nno rows wanted\n{}", shown(answer))) }
            }
            Step::SideEffects(wanted) => self.expect_effects(wanted),
            Step::Raised { kind, phase, detail } => self.expect_error(kind, *phase, detail),
        }
    }

    fn set_up(&self, text: &str) -> Result<(), String> {
        self.query(text).map(drop).map_err(|raised| format!("the graph is not set up:\n{text}\n{}", raised.message))
    }

    fn query(&self, text: &str) -> Result<Answer, Raised> {
        let parameters = self.parameters.iter().map(|(name, _)| name.into()).collect();
        let procedures = self.procedures.clone();
        let options = weir_cypher_compiler::Options { parameters, ids: IDS, procedures, open_cypher: true, ..Default::default() };
        let plan = compile(text, &options).map_err(|diagnostics| at_compile_time(&diagnostics))?;
        let mut parameters = Vec::new();
        for name in &plan.parameters {
            let given = self.parameters.iter().find(|(known, _)| known == name);
            let missing = || at_compile_time(&[unknown_parameter(text, name)]);
            parameters.push(given.ok_or_else(missing)?.1.clone());
        }
        let mut answer = Answer::default();
        answer.columns.extend(plan.columns.iter().map(|(name, _)| name.to_string()));
        let query = self.graph.prepare(plan);
        let limits = QueryOptions { deadline: Some(Instant::now() + QUERY_LIMIT), ..QueryOptions::default() };
        let mut each = |row: &[Value]| {
            answer.rows.push(row.to_vec());
            ControlFlow::Continue(())
        };
        self.graph.query(&query, &parameters, limits, &mut each).map_err(at_run_time)?;
        Ok(answer)
    }

    fn last(&self) -> Result<&Ran, String> {
        self.query.as_ref().ok_or_else(|| "an expectation before any query".to_owned())
    }

    fn answer(&self) -> Result<(&str, &Answer), String> {
        let last = self.last()?;
        match &last.answer {
            Ok(answer) => Ok((&last.text, answer)),
            Err(raised) => Err(unexpected(&last.text, raised)),
        }
    }

    fn expect_rows(
        &self,
        ordered: bool,
        comparison: Comparison,
        columns: &[String],
        rows: &[Vec<Literal>],
    ) -> Result<(), String> {
        let (text, answer) = self.answer()?;
        if answer.columns == columns && comparison.same_rows(ordered, rows, &answer.rows) {
            return Ok(());
        }
        let mut wanted = columns.join(" | ");
        for row in rows {
            let cells: Vec<String> = row.iter().map(|cell| format!("{cell:?}")).collect();
            let _ = write!(wanted, "\n{}", cells.join(" | "));
        }
        Err(format!("{text}\nwanted{}\n{wanted}\n{}", if ordered { ", in order" } else { "" }, shown(answer)))
    }

    fn expect_effects(&self, wanted: &[(String, i64)]) -> Result<(), String> {
        let last = self.last()?;
        if let Err(raised) = &last.answer
            && !last.explained
        {
            return Err(unexpected(&last.text, raised));
        }
        let mut wanted: Vec<(String, i64)> = wanted.iter().filter(|(_, count)| *count != 0).cloned().collect();
        wanted.sort();
        if wanted == last.effects {
            return Ok(());
        }
        Err(format!("{}\nside effects wanted {wanted:?}, found {:?}", last.text, last.effects))
    }

    fn expect_error(&mut self, kind: &str, phase: Phase, detail: &str) -> Result<(), String> {
        let Some(last) = &mut self.query else { return Err("an expectation before any query".to_owned()) };
        let wanted = format!("{}\nwanted a {kind} ({detail}, {phase:?})", last.text);
        let raised = match &last.answer {
            Ok(answer) => return Err(format!("{wanted}\n{}", shown(answer))),
            Err(raised) => raised,
        };
        let fits = |(found_kind, found_detail): &(&str, &str)| {
            // The kit calls the same mistake a SyntaxError in one file and a TypeError in another.
            let alike = phase != Phase::Run && kind == "TypeError" && *found_kind == "SyntaxError";
            (kind == *found_kind || alike) && (detail == "*" || detail == *found_detail)
        };
        if !(raised.errors.iter().any(fits) && (phase == Phase::Any || phase == raised.phase)) {
            return Err(format!("{wanted}\nfound a {:?} ({:?}): {}", raised.errors, raised.phase, raised.message));
        }
        if !last.effects.is_empty() {
            return Err(format!("{wanted}\nit failed and yet had side effects: {:?}", last.effects));
        }
        last.explained = true;
        Ok(())
    }

    /// A query that failed although nothing said so.
    fn check_no_surprise(&self) -> Result<(), String> {
        match &self.query {
            Some(Ran { text, answer: Err(raised), explained: false, .. }) => Err(unexpected(text, raised)),
            _ => Ok(()),
        }
    }
}

fn unexpected(text: &str, raised: &Raised) -> String {
    format!("{text}\nfailed ({:?}, {:?}): {}", raised.errors, raised.phase, raised.message)
}

fn at_compile_time(diagnostics: &[Diagnostic]) -> Raised {
    let error = |diagnostic: &Diagnostic| match diagnostic.code {
        Code::MissingParameter => ("ParameterMissing", diagnostic.code.name()),
        Code::ProcedureNotFound => ("ProcedureError", diagnostic.code.name()),
        _ => ("SyntaxError", diagnostic.code.name()),
    };
    let message = diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n");
    Raised { phase: Phase::Compile, errors: diagnostics.iter().map(error).collect(), message }
}

fn at_run_time(error: EngineError) -> Raised {
    let named = match &error {
        EngineError::Query(failure) => match failure.kind {
            FailureKind::TypeMismatch => ("TypeError", "InvalidArgumentType"),
            FailureKind::WrongSignature => ("TypeError", "InvalidArgumentValue"),
            FailureKind::KeyIsNoText => ("TypeError", "MapElementAccessByNonString"),
            FailureKind::Arithmetic => ("ArithmeticError", ""),
            FailureKind::OutOfRange => ("ArgumentError", "NumberOutOfRange"),
            FailureKind::InvalidArgument => ("ArgumentError", "InvalidArgumentType"),
            FailureKind::NegativeRowCount => ("SyntaxError", "NegativeIntegerArgument"),
            FailureKind::InvalidRowCount => ("SyntaxError", "InvalidArgumentType"),
            FailureKind::StillConnected => ("ConstraintVerificationFailed", "DeleteConnectedNode"),
            FailureKind::Deleted => ("EntityNotFound", "DeletedEntityAccess"),
            FailureKind::MergeWithNull => ("SemanticError", "MergeReadOwnWrites"),
            FailureKind::NotStorable => ("TypeError", "InvalidPropertyType"),
            FailureKind::ConstraintViolation
            | FailureKind::TimeLimit
            | FailureKind::MemoryLimit
            | FailureKind::SharedMemoryLimit
            | FailureKind::Interrupted
            | FailureKind::WouldFetch
            | FailureKind::Runtime => ("", ""),
        },
        _ => ("", ""),
    };
    Raised { phase: Phase::Run, errors: vec![named], message: error.to_string() }
}

fn shown(answer: &Answer) -> String {
    let mut text = format!("found\n{}", answer.columns.join(" | "));
    for row in &answer.rows {
        let cells: Vec<String> = row.iter().map(Value::shown).collect();
        let _ = write!(text, "\n{}", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tck::{folder, gherkin};

    /// The reason for which the scenario fails, or nothing.
    fn outcome(steps: &str) -> String {
        let raw = gherkin::parse(&format!("Scenario: [1] x\n{steps}")).expect("it is well formed");
        let steps = raw[0].steps.iter().map(Step::read).collect::<Result<_, _>>().expect("steps are known");
        let scenario = Scenario { file: String::new(), name: String::new(), example: None, tags: Vec::new(), steps };
        let runner = Runner::new(&folder().unwrap_or_default()).expect("an engine");
        runner.run(&scenario).err().unwrap_or_default()
    }

    #[test]
    fn each_expectation_can_fail() {
        const QUERY: &str = "Given an empty graph\nWhen executing query:\n\"\"\"\nCREATE (n:A {x: 1}) RETURN n.x AS x\n\"\"\"\n";
        for (expectation, wanted) in [
            ("Then the result should be, in any order:\n| x |\n| 1 |", ""),
            ("Then the result should be, in any order:\n| x |\n| 2 |", "wanted"),
            ("Then the result should be, in any order:\n| y |\n| 1 |", "wanted"),
            ("Then the result should be empty", "no rows wanted"),
            ("Then the side effects should be:\n| +nodes | 1 |\n| +labels | 1 |\n| +properties | 1 |", ""),
            ("Then no side effects", "side effects wanted"),
            ("Then a SyntaxError should be raised at compile time: UndefinedVariable", "wanted a SyntaxError"),
        ] {
            let found = outcome(&format!("{QUERY}{expectation}"));
            assert!(if wanted.is_empty() { found.is_empty() } else { found.contains(wanted) }, "{expectation}: {found}");
        }
    }

    #[test]
    fn an_error_is_told_by_its_kind_phase_and_detail() {
        const QUERY: &str = "Given an empty graph\nWhen executing query:\n\"\"\"\nRETURN x\n\"\"\"\n";
        for (expectation, fits) in [
            ("Then a SyntaxError should be raised at compile time: UndefinedVariable", true),
            ("Then a SyntaxError should be raised at compile time: *", true),
            ("Then a SyntaxError should be raised at runtime: UndefinedVariable", false),
            ("Then a SyntaxError should be raised at compile time: VariableAlreadyBound", false),
            ("Then a ArgumentError should be raised at compile time: UndefinedVariable", false),
            ("Then no side effects", false),
        ] {
            let found = outcome(&format!("{QUERY}{expectation}"));
            assert_eq!(found.is_empty(), fits, "{expectation}: {found}");
        }
    }
}
