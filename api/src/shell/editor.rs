//! The line editor: prompt, history, lines that go on until a statement ends. The one file that knows rustyline.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Helper};
use tokio::runtime::Runtime;

use super::command;
use super::complete::Completion;
use super::statement;
use crate::client::{Client, Parameters};
use crate::terminal::{Colour, Terminal};

const HISTORY_LENGTH_MAX: usize = 10_000;

/// What the user did.
pub enum Typed {
    Text(String),
    /// Ctrl-C: what was typed is dropped.
    Nothing,
    /// Ctrl-D.
    End,
}

pub struct Editor {
    inner: rustyline::Editor<Rules, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    /// A history that cannot be kept is no reason not to work.
    pub fn new(client: &Client, runtime: &Rc<Runtime>) -> io::Result<Editor> {
        let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true);
        let config = config.max_history_size(HISTORY_LENGTH_MAX).map_err(io::Error::other)?.build();
        let mut inner = rustyline::Editor::with_config(config).map_err(io::Error::other)?;
        inner.set_helper(Some(Rules { completion: Completion::new(client.clone(), runtime.clone()) }));
        let history = history_file();
        if let Some(path) = &history {
            let _ = inner.load_history(path);
        }
        Ok(Editor { inner, history })
    }

    /// What completion needs to know of the session.
    pub fn know(&mut self, client: &Client, parameters: &Parameters) {
        if let Some(rules) = self.inner.helper_mut() {
            rules.completion.set_namespace(client.namespace.clone());
            rules.completion.parameters = parameters.keys().cloned().collect();
        }
    }

    pub fn suspect(&self, text: &str) -> Option<String> {
        self.inner.helper()?.completion.suspect(text)
    }

    pub fn read(&mut self, client: &Client) -> io::Result<Typed> {
        let namespace = client.namespace.as_ref().map_or(String::new(), |name| format!(":{name}"));
        let at = client.at.map_or(String::new(), |millis| format!("@{millis}"));
        let prompt = format!("weir{namespace}{at}> ");
        let painted = Terminal::of_output().paint(Colour::Bold, &prompt);
        match self.inner.readline(&(prompt, painted)) {
            Ok(text) => {
                if !text.trim().is_empty() {
                    self.keep(text.trim_end());
                }
                Ok(Typed::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Nothing),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Into the history, and into its file at once: a window may be closed at any time.
    fn keep(&mut self, text: &str) {
        let added = self.inner.add_history_entry(text).unwrap_or_default();
        let Some(path) = self.history.as_ref().filter(|_| added) else { return };
        if let Err(error) = self.inner.append_history(path) {
            eprintln!("weir: the history cannot be kept in {}: {error}", path.display());
            self.history = None;
        }
    }
}

/// In the directory for data of the user; none where there is no such directory.
fn history_file() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    let directory = data.join("weir");
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("shell-history"))
}

struct Rules {
    completion: Completion,
}

impl Completer for Rules {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.completion.complete(line, cursor))
    }
}

impl Validator for Rules {
    /// Enter sends what is whole; else it begins a new line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let whole = command::is_one(text) || statement::is_blank(statement::split(text).1);
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for Rules {}

impl Hinter for Rules {
    type Hint = String;
}

impl Helper for Rules {}
