//! `weir query`: a query for scripts. Text in, an answer in the wanted form on standard output, errors on standard error,
//! what became of it as the exit code.

use std::future::Future;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::client::{Client, Parameter, Parameters, Problem, Token, encoded};
use crate::clock;
use crate::shell::statement;
use crate::start::exit;
use crate::terminal::{Table, Terminal};

/// The query is wrong, or failed while it ran.
pub const REFUSED: u8 = 1;
/// The command line is wrong. Its parser uses the same code.
pub const USAGE: u8 = 2;
/// weir could not be asked.
const UNREACHABLE: u8 = 3;
/// Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// How long a command has to end by itself at Ctrl-C.
const END_MAX: Duration = Duration::from_millis(200);

/// Which weir is asked, and with what.
#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// Where weir listens; WEIR_URL says the same [default: http://127.0.0.1:8080]
    #[arg(long)]
    pub url: Option<String>,

    /// The namespace that is asked, instead of the default one
    #[arg(long)]
    pub namespace: Option<String>,

    /// Read the graph as it was at the end of this millisecond since 1970, or of a time such as 2026-11-29T14:09:00Z
    #[arg(long, value_name = "TIME", value_parser = clock::read_millis)]
    pub at_time: Option<u64>,

    /// A parameter: `$NAME` in the query. The value is JSON; may be given several times
    #[arg(long, value_name = "NAME=JSON", value_parser = parameter)]
    pub param: Vec<(String, Parameter)>,

    /// A file with a token that says who asks, for a weir with logins; WEIR_TOKEN is one
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl Target {
    pub fn client(&self, url: &str) -> Result<Client, Problem> {
        let mut client = Client::new(url, self.namespace.clone(), Token::of(self.token_file.as_deref()))?;
        client.at = self.at_time;
        Ok(client)
    }

    /// Of a name that is given twice the last one counts.
    pub fn parameters(&self) -> Parameters {
        self.param.iter().cloned().collect()
    }
}

#[derive(clap::Args, Debug, Clone, PartialEq)]
pub struct Question {
    /// The query; several end with `;` each. Without it, or where it is `-`, the text is read from standard input
    pub text: Option<String>,

    /// Read the query from a file
    #[arg(short, long, conflicts_with = "text")]
    pub file: Option<PathBuf>,

    /// How the answer is written [default: table in a terminal, json elsewhere]
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    #[command(flatten)]
    pub target: Target,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq)]
pub enum Format {
    /// The answer as the service gives it: columns, and rows as arrays
    Json,
    /// One JSON object a row
    Jsonl,
    /// A line of names, and one a row; null is nothing at all, an empty text a pair of quotes, and so is null alone in its row
    Csv,
    /// For people
    Table,
}

#[derive(clap::Args, Debug, Clone, PartialEq)]
pub struct PlanOf {
    /// The name of the standing query
    pub name: String,

    /// How the dataflow is shown
    #[arg(long, value_enum, default_value_t)]
    pub format: PlanFormat,

    /// Where weir listens; WEIR_URL says the same [default: http://127.0.0.1:8080]
    #[arg(long)]
    pub url: Option<String>,

    /// The namespace of the standing query, instead of the default one
    #[arg(long)]
    pub namespace: Option<String>,

    /// A file with a token that says who asks, for a weir with logins; WEIR_TOKEN is one
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl PlanOf {
    pub fn target(&self) -> Target {
        Target {
            url: self.url.clone(),
            namespace: self.namespace.clone(),
            token_file: self.token_file.clone(),
            ..Target::default()
        }
    }
}

#[derive(ValueEnum, Debug, Clone, Copy, Default, PartialEq)]
pub enum PlanFormat {
    /// A tree, for people
    #[default]
    Text,
    /// A drawing, as Mermaid reads it
    Mermaid,
    /// The same tree, for programs
    Json,
}

/// Prints the dataflow of a standing query.
pub fn plan(of: &PlanOf, url: &str) -> ExitCode {
    end_when_interrupted(|| ());
    let asked = || -> Result<Option<Vec<u8>>, Problem> {
        let (runtime, client) = (runtime()?, of.target().client(url)?);
        let format = of.format.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        let mut body = Vec::new();
        let mut part = |bytes: &[u8], _| {
            body.extend_from_slice(bytes);
            Ok(())
        };
        let path = format!("/api/v1/query/standing/{}/plan", encoded(&of.name));
        let asked = (path.as_str(), &[("format", format)][..], None);
        let ended = until_interrupted(&runtime, client.download(("standing query", &of.name), asked, &mut part));
        ended.map_or(Ok(None), |ended| ended.map(|_| Some(body)))
    };
    match asked() {
        Ok(Some(body)) => match io::stdout().write_all(&body) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("weir: the plan cannot be written: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Ok(None) => ExitCode::from(INTERRUPTED),
        Err(problem) => {
            eprintln!("{}", Terminal::of_error().problem(&problem));
            exit_code(&problem)
        }
    }
}

/// Runs the queries, one after the other, up to the first that fails.
pub fn run(question: &Question, url: &str) -> ExitCode {
    let text = match text(question) {
        Ok(text) => text,
        Err(reason) => {
            eprintln!("weir: {reason}");
            return ExitCode::from(USAGE);
        }
    };
    end_when_interrupted(|| ());
    match answer(question, url, &text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(End::Problem(problem)) => {
            eprintln!("{}", Terminal::of_error().problem(&problem));
            exit_code(&problem)
        }
        // Whoever reads has had enough.
        Err(End::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(End::Output(error)) => {
            eprintln!("weir: the answer cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is no more of an answer.
pub enum End {
    Problem(Problem),
    /// It cannot be written.
    Output(io::Error),
    Interrupted,
}

impl From<Problem> for End {
    fn from(problem: Problem) -> End {
        End::Problem(problem)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Output(error)
    }
}

fn answer(question: &Question, url: &str, text: &str) -> Result<(), End> {
    let runtime = runtime()?;
    let client = question.target.client(url)?;
    let parameters = question.target.parameters();
    let format = question.format.unwrap_or(if io::stdout().is_terminal() { Format::Table } else { Format::Json });
    let (mut statements, rest) = statement::split(text);
    // A text of nothing is sent too: the service says what is wrong with it.
    if !statement::is_blank(rest) || statements.is_empty() {
        statements.push((text.len() - rest.len(), rest));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (index, (start, statement)) in statements.into_iter().enumerate() {
        let written = write(&client, statement, &parameters, format, index > 0, &mut out);
        let written = until_interrupted(&runtime, written).unwrap_or(Err(End::Interrupted));
        out.flush()?;
        written.map_err(|end| match end {
            End::Problem(problem) => End::Problem(problem.behind(&text[..start])),
            end => end,
        })?;
    }
    Ok(())
}

/// Writes the answer to one query, in a form; others may stand before it.
async fn write(
    client: &Client,
    text: &str,
    parameters: &Parameters,
    format: Format,
    apart: bool,
    out: &mut impl Write,
) -> Result<(), End> {
    if format == Format::Json {
        out.write_all(&client.ask(text, parameters, None).await?)?;
        return Ok(out.write_all(b"\n")?);
    }
    let mut form = Form::new(format, apart);
    let ended = client.rows(text, parameters, &mut |columns, rows| form.rows(columns, rows, out)).await;
    // What came before an error stays.
    form.end(out)?;
    ended
}

fn text(question: &Question) -> Result<String, String> {
    match (&question.file, question.text.as_deref()) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display())),
        (None, Some(text)) if text != "-" => Ok(text.to_owned()),
        (None, None) if io::stdin().is_terminal() => Err(
            "there is no query: give one as `weir query 'RETURN 1'`, by --file, or through a pipe; `weir shell` asks for them"
                .into(),
        ),
        _ => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input cannot be read: {error}"))?;
            Ok(text)
        }
    }
}

/// What writes rows as they come.
enum Form {
    Lines,
    /// Whether other rows stand before.
    Csv {
        apart: bool,
        begun: bool,
    },
    Table(Option<Table>),
}

impl Form {
    fn new(format: Format, apart: bool) -> Form {
        match format {
            Format::Json | Format::Jsonl => Form::Lines,
            Format::Csv => Form::Csv { apart, begun: false },
            Format::Table => Form::Table(None),
        }
    }

    /// Called at least once.
    fn rows(&mut self, columns: &[String], rows: Vec<Vec<Json>>, out: &mut impl Write) -> Result<(), End> {
        match self {
            Form::Lines => {
                for row in rows {
                    let object: Map<String, Json> = columns.iter().cloned().zip(row).collect();
                    writeln!(out, "{}", Json::Object(object))?;
                }
            }
            Form::Csv { apart, begun } => {
                if !std::mem::replace(begun, true) {
                    csv_head(columns, *apart, out)?;
                }
                for row in rows {
                    csv_line(row.iter().map(csv_cell), out)?;
                }
            }
            Form::Table(table) => {
                let table = table.get_or_insert_with(|| Table::new(columns, Terminal::of_output()));
                out.write_all(table.rows(rows).as_bytes())?;
            }
        }
        // Whoever reads sees the first rows before the last are there.
        Ok(out.flush()?)
    }

    fn end(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Form::Table(Some(table)) => out.write_all(table.end().as_bytes()),
            _ => Ok(()),
        }
    }
}

fn csv_head(columns: &[String], apart: bool, out: &mut impl Write) -> io::Result<()> {
    if apart {
        out.write_all(b"\r\n")?;
    }
    if columns.is_empty() { Ok(()) } else { csv_line(columns.iter().map(|name| quoted(name)), out) }
}

fn csv_line(cells: impl Iterator<Item = String>, out: &mut impl Write) -> io::Result<()> {
    let line = cells.collect::<Vec<_>>().join(",");
    // Of null alone nothing would be left: readers skip lines that are empty, and here one stands between answers.
    let line = if line.is_empty() { "\"\"" } else { line.as_str() };
    write!(out, "{line}\r\n")
}

fn csv_cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    }
}

/// As RFC 4180 has it. An empty text is quoted, so that it is not taken for null.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.trim() == text && !text.contains([',', '"', '\n', '\r']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

pub fn exit_code(problem: &Problem) -> ExitCode {
    ExitCode::from(match problem {
        Problem::Refused(_) => REFUSED,
        Problem::Unreachable(_) => UNREACHABLE,
    })
}

/// One thread is enough to wait for one answer at a time.
pub fn runtime() -> Result<Runtime, Problem> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Problem::Unreachable(format!("the network cannot be used: {error}")))
}

/// What the future gives; none when the user pressed Ctrl-C first. Then the future is dropped, and with it the connection.
pub fn until_interrupted<T>(runtime: &Runtime, future: impl Future<Output = T>) -> Option<T> {
    runtime.block_on(async {
        tokio::select! {
            result = future => Some(result),
            _ = tokio::signal::ctrl_c() => None,
        }
    })
}

/// Ends the process after Ctrl-C wherever it is, also in a write that waits for whoever reads the output: nothing else listens
/// then. `clean` removes what is not to stay.
pub fn end_when_interrupted(clean: impl FnOnce() + Send + 'static) {
    let (listens, is_heard) = sync_channel(1);
    let listen = move || {
        let Ok(runtime) = runtime() else { return };
        runtime.block_on(async move {
            let Ok(mut pressed) = signal(SignalKind::interrupt()) else { return };
            let _ = listens.send(());
            if pressed.recv().await.is_some() {
                thread::sleep(END_MAX);
                clean();
                exit(INTERRUPTED)
            }
        });
    };
    // Where there is no thread for it the system ends the process, and what is not to stay does.
    if thread::Builder::new().name("interrupt".to_owned()).spawn(listen).is_ok() {
        let _ = is_heard.recv();
    }
}

/// The value is only looked at: what its numbers are, the service decides, as it does of any body.
fn parameter(text: &str) -> Result<(String, Parameter), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' should be name=value"))?;
    let name = name.trim().trim_start_matches('$');
    if name.is_empty() {
        return Err(format!("'{text}' should be name=value"));
    }
    match serde_json::from_str::<Box<RawValue>>(value) {
        Ok(value) => Ok((name.to_owned(), Parameter::Given(value))),
        Err(error) => Err(format!("the value of {name} is not JSON ({error}); a text stands in quotes: {name}='\"{value}\"'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(format: Format, columns: &[&str], rows: Json) -> String {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut form = Form::new(format, false);
        let mut out = Vec::new();
        // In two parts, of which the first has none.
        for part in [json!([]), rows] {
            let rows = serde_json::from_value(part).expect("rows");
            form.rows(&columns, rows, &mut out).unwrap_or_else(|_| panic!("memory can be written"));
        }
        form.end(&mut out).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    fn rows() -> Json {
        json!([[1, "a,b", null], [1.5, "", [1, {"k": "é"}]], [true, "say \"x\"\n", " b"]])
    }

    const COLUMNS: &[&str] = &["n", "text, or not", "any"];

    #[test]
    fn answers_as_csv() {
        assert_eq!(
            written(Format::Csv, COLUMNS, rows()),
            "n,\"text, or not\",any\r\n1,\"a,b\",\r\n1.5,\"\",\"[1,{\"\"k\"\":\"\"é\"\"}]\"\r\ntrue,\"say \"\"x\"\"\n\",\" b\"\r\n"
        );
        assert_eq!(written(Format::Csv, &[], json!([])), "");
        assert_eq!(written(Format::Csv, &["a"], json!([[1], [null]])), "a\r\n1\r\n\"\"\r\n", "an empty line is no row");
    }

    #[test]
    fn answers_as_lines() {
        let lines = written(Format::Jsonl, COLUMNS, rows());
        assert_eq!(lines.lines().next(), Some(r#"{"n":1,"text, or not":"a,b","any":null}"#));
        assert_eq!(lines.lines().count(), 3);
    }

    #[test]
    fn parameters_are_json() {
        let given = |name: &str, text: &str| {
            let value = RawValue::from_string(text.to_owned()).expect("JSON");
            Ok((name.to_owned(), Parameter::Given(value)))
        };
        assert_eq!(parameter("a=[1, \"x\"]"), given("a", "[1, \"x\"]"));
        assert_eq!(parameter("$a=\"=\""), given("a", "\"=\""));
        assert_eq!(parameter("n= 9007199254740993.0 "), given("n", "9007199254740993.0"));
        assert_eq!(parameter("n=-1e400"), given("n", "-1e400"));
        for wrong in ["a", "=1", "a=x", "a=", "a=1 2", "a=01", "a=.5", "a=NaN"] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }
}
