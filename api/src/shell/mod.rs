//! `weir shell`: statements in, tables out, against a running weir.
//!
//!     terminal ─> editor ─┐
//!                         ├─> statements ─> client ─> tables
//!     pipe, :source ──────┘   commands
//!
//! Everything a user does is carried out here; where lines end, what commands there are and what completes a word is
//! elsewhere. In a pipe there is no prompt, no colour and no editing, and the first error ends it.

mod command;
mod complete;
mod editor;
mod float;
pub mod statement;

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use serde_json::Value as Json;
use tokio::runtime::Runtime;
use weir_model::visible::visible;

use crate::ask::{self, End, Target};
use crate::client::{Answer, Client, Parameter, Parameters, Problem};
use crate::terminal::{self, Colour, Table, Terminal};
use command::Command;
use editor::{Editor, Typed};

/// A file may run another, to this depth.
const SOURCE_DEPTH_MAX: usize = 8;

/// How weir says that nothing is written in the past.
const IN_THE_PAST: &str = "cannot run at a past time";

/// Runs until the user leaves or the input ends.
pub fn run(target: &Target, url: &str) -> ExitCode {
    let opened = Session::open(target, url);
    let mut session = match opened {
        Ok(session) => session,
        Err(problem) => {
            eprintln!("{}", Terminal::of_error().problem(&problem));
            return ask::exit_code(&problem);
        }
    };
    let ran = if io::stdin().is_terminal() { session.converse() } else { session.run_input() };
    match ran {
        Ok(code) => code,
        // Whoever reads has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What follows after something was carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Continue,
    /// It failed; a script ends here.
    Failed,
    /// The user stopped it.
    Stopped,
    Quit,
}

struct Session {
    client: Client,
    runtime: Rc<Runtime>,
    parameters: Parameters,
    version: String,
}

impl Session {
    /// The service must be there: a shell without one is of no use.
    fn open(target: &Target, url: &str) -> Result<Session, Problem> {
        let runtime = Rc::new(ask::runtime()?);
        let client = target.client(url)?;
        let version = runtime.block_on(client.version())?;
        Ok(Session { client, runtime, parameters: target.parameters(), version })
    }

    /// Talks with a user at a terminal.
    fn converse(&mut self) -> io::Result<ExitCode> {
        let mut editor = Editor::new(&self.client, &self.runtime)?;
        say(&format!("weir {} at {}. `:help` lists the commands.\n", visible(&self.version), self.client.url()))?;
        loop {
            editor.know(&self.client, &self.parameters);
            let next = match editor.read(&self.client)? {
                Typed::Nothing => Next::Continue,
                Typed::End => Next::Quit,
                Typed::Text(text) => self.typed(&text, &editor)?,
            };
            if next == Next::Quit {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// A command, or statements up to the first that fails.
    fn typed(&mut self, text: &str, editor: &Editor) -> io::Result<Next> {
        if command::is_one(text) {
            return self.command(text, 0);
        }
        for (start, statement) in statement::split(text).0 {
            let (next, rows) = self.statement(statement, &text[..start])?;
            if next != Next::Continue {
                return Ok(next);
            }
            if rows == Some(0)
                && let Some(suspicion) = editor.suspect(statement)
            {
                say(&format!("{}\n", Terminal::of_output().paint(Colour::Cyan, &suspicion)))?;
            }
        }
        Ok(Next::Continue)
    }

    /// What comes through a pipe.
    fn run_input(&mut self) -> io::Result<ExitCode> {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        Ok(match self.script(&text, 0)? {
            Next::Continue | Next::Quit => ExitCode::SUCCESS,
            Next::Failed => ExitCode::from(ask::REFUSED),
            Next::Stopped => ExitCode::from(ask::INTERRUPTED),
        })
    }

    /// Statements and commands, up to the first that fails. The last statement needs no `;`.
    fn script(&mut self, text: &str, depth: usize) -> io::Result<Next> {
        // What was not run yet of what was read.
        let (mut from, mut to) = (0, 0);
        for line in text.split_inclusive('\n') {
            let is_between = statement::is_blank(&text[from..to]);
            to += line.len();
            if is_between && command::is_one(line) {
                from = to;
                match self.command(line, depth)? {
                    Next::Continue => continue,
                    next => return Ok(next),
                }
            }
            if !line.contains(';') {
                continue;
            }
            let (statements, rest) = statement::split(&text[from..to]);
            for (start, statement) in statements {
                match self.statement(statement, &text[..from + start])?.0 {
                    Next::Continue => {}
                    next => return Ok(next),
                }
            }
            from = to - rest.len();
        }
        let last = text[from..].trim_start();
        if statement::is_blank(last) {
            return Ok(Next::Continue);
        }
        Ok(self.statement(last.trim_end(), &text[..text.len() - last.len()])?.0)
    }

    /// Runs one statement and shows what it gives, as it comes; how many rows that were, where it gives any. Where it stands in a
    /// longer text, `before` is what comes first there.
    fn statement(&self, text: &str, before: &str) -> io::Result<(Next, Option<usize>)> {
        let began = Instant::now();
        let output = Terminal::of_output();
        let mut table = None;
        let mut count = 0;
        let mut take = |columns: &[String], rows: Vec<Vec<Json>>| {
            count += rows.len();
            let table = table.get_or_insert_with(|| Table::new(columns, output));
            Ok(say(&table.rows(rows))?)
        };
        let text = float::written(text, &self.parameters);
        let ended = ask::until_interrupted(&self.runtime, self.client.rows(&text, &self.parameters, &mut take));
        let columns = table.as_ref().is_some_and(|table| !table.is_empty());
        // What came before an error stays.
        say(&table.map_or(String::new(), Table::end))?;
        Ok(match ended {
            None | Some(Err(End::Interrupted)) => {
                say(&output.paint(Colour::Dim, "stopped\n"))?;
                (Next::Stopped, None)
            }
            Some(Err(End::Output(error))) => return Err(error),
            Some(Err(End::Problem(problem))) => {
                complain(&self.with_way_back(problem.behind(before)));
                (Next::Failed, None)
            }
            Some(Ok(())) => {
                let time = began.elapsed().as_secs_f64() * 1e3;
                let rows = match (columns, count) {
                    (false, _) => "done".to_owned(),
                    (true, 1) => "1 row".to_owned(),
                    (true, count) => format!("{count} rows"),
                };
                say(&format!("{}\n", output.paint(Colour::Dim, &format!("{rows}, {time:.1} ms"))))?;
                (Next::Continue, columns.then_some(count))
            }
        })
    }

    /// weir speaks of the parameter of its API; here a command has set it.
    fn with_way_back(&self, problem: Problem) -> Problem {
        let Problem::Refused(mut mistakes) = problem else { return problem };
        for mistake in mistakes.iter_mut().filter(|mistake| self.client.at.is_some() && mistake.text.contains(IN_THE_PAST)) {
            mistake.text.push_str(" (`:at` goes back to the present)");
        }
        Problem::Refused(mistakes)
    }

    fn command(&mut self, line: &str, depth: usize) -> io::Result<Next> {
        let command = match command::parse(line) {
            Ok(command) => command,
            Err(reason) => {
                complain(&Problem::refused(reason));
                return Ok(Next::Failed);
            }
        };
        match command {
            Command::Quit => return Ok(Next::Quit),
            Command::Help => say(&command::help())?,
            Command::ClearScreen if Terminal::of_output().width.is_some() => say("\x1b[H\x1b[2J\x1b[3J")?,
            Command::ClearScreen => {}
            Command::Namespace(name) => self.client.namespace = name,
            Command::At(millis) => self.client.at = millis,
            Command::Parameters => {
                for (name, value) in &self.parameters {
                    say(&shown(name, value))?;
                }
                if self.parameters.is_empty() {
                    say("There are no parameters; `:param name => expression` sets one.\n")?;
                }
            }
            Command::ForgetParameters => self.parameters.clear(),
            Command::ShowParameter(name) => match self.parameters.get(&name) {
                Some(value) => say(&shown(&name, value))?,
                None => {
                    complain(&Problem::refused(format!("there is no parameter ${name}")));
                    return Ok(Next::Failed);
                }
            },
            Command::SetParameter { name, expression } => return self.set_parameter(&name, &expression),
            Command::Source(path) => return self.source(&path, depth),
        }
        Ok(Next::Continue)
    }

    /// The service computes the value, so that whatever Cypher can say can be one.
    fn set_parameter(&mut self, name: &str, expression: &str) -> io::Result<Next> {
        match ask::until_interrupted(&self.runtime, self.value(expression)) {
            None => Ok(Next::Stopped),
            Some(Err(problem)) => {
                complain(&problem);
                Ok(Next::Failed)
            }
            Some(Ok(value)) => {
                let value = Parameter::Computed(value);
                say(&shown(name, &value))?;
                self.parameters.insert(name.to_owned(), value);
                Ok(Next::Continue)
            }
        }
    }

    /// Of an expression. What is more than one (`1 AS a, 2`, `1 UNION …`) cannot stand in parentheses; that is looked at before
    /// anything runs. Mistakes are shown in the text without them, which is the user's.
    async fn value(&self, expression: &str) -> Result<Json, Problem> {
        let query = format!("RETURN {expression}");
        let alone = self.ask(&format!("EXPLAIN RETURN ({expression}\n)")).await;
        if alone.is_err() && self.ask(&format!("EXPLAIN {query}")).await.is_ok() {
            return Err(not_one(expression));
        }
        let mut answer = self.ask(&query).await?;
        let value = answer.results.pop().and_then(|mut row| row.pop());
        value.filter(|_| answer.results.is_empty()).ok_or_else(|| not_one(expression))
    }

    async fn ask(&self, text: &str) -> Result<Answer, Problem> {
        self.client.query(&float::written(text, &self.parameters), &self.parameters, None).await
    }

    fn source(&mut self, path: &Path, depth: usize) -> io::Result<Next> {
        let problem = if depth >= SOURCE_DEPTH_MAX {
            format!("{}: files run one another more than {SOURCE_DEPTH_MAX} deep", path.display())
        } else {
            match std::fs::read_to_string(path) {
                Ok(text) => return self.script(&text, depth + 1),
                Err(error) => format!("{} cannot be read: {error}", path.display()),
            }
        };
        complain(&Problem::refused(problem));
        Ok(Next::Failed)
    }
}

fn not_one(expression: &str) -> Problem {
    Problem::refused(format!("'{expression}' is not one value"))
}

/// A parameter, as a line.
fn shown(name: &str, value: &Parameter) -> String {
    let value = match value {
        Parameter::Given(text) => visible(text.get()),
        Parameter::Computed(value) => terminal::cell(value),
    };
    format!("${} = {value}\n", visible(name))
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn complain(problem: &Problem) {
    eprintln!("{}", Terminal::of_error().problem(problem));
}
