//! The definition of an output to PostgreSQL, and what writes it: in order, many results in one transaction, without waiting for
//! one before the next is sent. What each result runs is a statement that the server has read before.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, PostgresAccess, is_name};
use super::connection::{Connection, Failed, literal, name};
use super::message::{self, Said, broken};
use super::values;
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::ends::{ANSWER_TIME_MAX, Refused, Writer, way_time_max};
use crate::error::ConnectorError;
use crate::fields::Fields;
use crate::host_policy::HostPolicy;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// The server gives up sooner than weir does: a statement that waits for a lock would wait on for nobody.
const LIMITS: &str =
    "SET lock_timeout TO '15s'; SET statement_timeout TO '15s'; SET idle_in_transaction_session_timeout TO '60s'";

/// Parameters of a statement, as many as the protocol has room for.
const PARAMETERS_MAX: usize = 65_535;

/// What a server says of a result that it will not take the next time either: values that do not fit, constraints, too much for a
/// row or an index, words of a trigger.
const OF_THE_RESULT: [&str; 6] = ["21", "22", "23", "44", "54", "P0"];

/// What it says of a statement that is none, whatever is in the database.
const OF_THE_STATEMENT: [&str; 3] = ["42601", "42P02", "42P18"];

/// Writes each result to a PostgreSQL table, or runs a statement for it.
///
/// Results come in order; with `table`, each result is there once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToPostgres {
    #[serde(flatten)]
    pub access: PostgresAccess,
    /// The table to write to, as `table` or `schema.table`. Give either this or `statement`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What the rows of `table` are. `Changes` when not given.
    #[serde(default)]
    pub rows: PostgresRows,
    /// Whether `table` is created if it does not exist. True when not given.
    #[serde(default = "yes")]
    pub create_table: bool,
    /// The SQL statement to run for each match, instead of writing to `table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<PostgresStatement>,
    /// The SQL statement to run for each cancellation, with `statement`. Cancellations are left out when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation: Option<PostgresStatement>,
}

fn yes() -> bool {
    true
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum PostgresRows {
    /// Each match and each cancellation is a row, with the columns `id`, `tick`, `positive`, `result_id` and `data`.
    #[default]
    Changes,
    /// Each current match is a row, with the columns `result_id`, `tick` and `data`. A cancellation deletes its row.
    Matches,
}

/// An SQL statement and its parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PostgresStatement {
    /// One SQL statement, with `$1`, `$2` and so on for its parameters.
    pub sql: String,
    /// The values of `$1`, `$2` and so on. Each is a JSON pointer into the result, such as `/data/name`; or `id`, which is the
    /// same whenever the same result is sent again; or `tick`.
    #[serde(default)]
    pub parameters: Vec<String>,
}

impl DestinationConfig for WriteToPostgres {
    fn settings(&self) -> Json {
        crate::settings("WriteToPostgres", self)
    }

    fn takes_whole(&self) -> bool {
        true
    }

    fn positive_only(&self) -> bool {
        self.statement.is_some() && self.cancellation.is_none()
    }

    fn check(&self) -> Result<(), ConnectorError> {
        self.plan()?;
        self.access.check(&HostPolicy::default())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = login.place.clone();
        let writing = Writing::new(login, self.plan()?, ANSWERS_TIME_MAX);
        Ok(Box::new(Publisher::new(context, &place, writing)))
    }
}

impl WriteToPostgres {
    fn plan(&self) -> Result<Plan, ConnectorError> {
        match (&self.table, &self.statement) {
            (Some(table), None) if self.cancellation.is_none() => Plan::of_table(table, self.rows, self.create_table),
            (None, Some(statement)) => {
                let matches = Statement::read("statement", statement)?;
                let cancellations =
                    self.cancellation.as_ref().map(|statement| Statement::read("cancellation", statement)).transpose()?;
                Ok(Plan { table: None, matches, cancellations })
            }
            (Some(_), None) => Err(ConnectorError::config("cancellation", "goes with statement, not with table; see rows")),
            (Some(_), Some(_)) => Err(ConnectorError::config("statement", "goes not with table; give one of the two")),
            (None, None) => Err(ConnectorError::config("table", "is missing: give it, or statement")),
        }
    }
}

/// What is run.
struct Plan {
    table: Option<OwnTable>,
    matches: Statement,
    cancellations: Option<Statement>,
}

/// A table whose columns weir chooses.
struct OwnTable {
    /// As SQL names it.
    name: String,
    /// What makes it, if weir may.
    made_by: Option<String>,
}

#[derive(Debug, PartialEq)]
struct Statement {
    sql: String,
    parameters: Vec<Parameter>,
    /// The numbers of their types; none before the server has told them.
    kinds: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Parameter {
    Id,
    Tick,
    Positive,
    /// The id of the match, the same for its cancellation.
    ResultId,
    /// What was returned, without what is around it.
    Data,
    Pointer(String),
}

impl Plan {
    fn of_table(table: &str, rows: PostgresRows, create: bool) -> Result<Plan, ConnectorError> {
        let parts: Vec<&str> = table.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_name(part)) {
            return Err(ConnectorError::config(
                "table",
                "is no name of a table: `table` or `schema.table`, as it is, without quotes",
            ));
        }
        let table = parts.into_iter().map(name).collect::<Vec<_>>().join(".");
        let statement =
            |sql: String, parameters: &[Parameter]| Statement { sql, parameters: parameters.to_vec(), kinds: Vec::new() };
        use Parameter::{Data, Id, Positive, ResultId, Tick};
        let (columns, matches, cancellations) = match rows {
            PostgresRows::Changes => {
                let sql = format!(
                    "INSERT INTO {table} (id, tick, positive, result_id, data) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING"
                );
                let columns =
                    "id text PRIMARY KEY, tick bigint NOT NULL, positive boolean NOT NULL, result_id text, data jsonb NOT NULL";
                (columns, statement(sql, &[Id, Tick, Positive, ResultId, Data]), None)
            }
            PostgresRows::Matches => {
                let sql = format!(
                    "INSERT INTO {table} (result_id, tick, data) VALUES ($1, $2, $3) \
                     ON CONFLICT (result_id) DO UPDATE SET tick = excluded.tick, data = excluded.data"
                );
                let matches = statement(sql, &[ResultId, Tick, Data]);
                let cancellations = statement(format!("DELETE FROM {table} WHERE result_id = $1"), &[ResultId]);
                ("result_id text PRIMARY KEY, tick bigint NOT NULL, data jsonb NOT NULL", matches, Some(cancellations))
            }
        };
        let made_by = create.then(|| format!("CREATE TABLE IF NOT EXISTS {table} ({columns})"));
        Ok(Plan { table: Some(OwnTable { name: table, made_by }), matches, cancellations })
    }

    /// What a result runs, and what that is called on the connection.
    fn statement(&self, positive: bool) -> (&'static str, &Statement) {
        match &self.cancellations {
            Some(statement) if !positive => ("cancellation", statement),
            _ => ("match", &self.matches),
        }
    }

    fn statement_mut(&mut self, positive: bool) -> &mut Statement {
        match &mut self.cancellations {
            Some(statement) if !positive => statement,
            _ => &mut self.matches,
        }
    }
}

impl Statement {
    fn read(field: &str, given: &PostgresStatement) -> Result<Statement, ConnectorError> {
        if given.sql.trim().is_empty() || given.sql.contains('\0') {
            return Err(ConnectorError::config(&format!("{field}.sql"), "is no statement"));
        }
        let wrong = |problem: String| ConnectorError::config(&format!("{field}.parameters"), problem);
        if given.parameters.len() > PARAMETERS_MAX {
            return Err(wrong(format!("{PARAMETERS_MAX} are the most")));
        }
        let parameter = |text: &String| match text.as_str() {
            "id" => Ok(Parameter::Id),
            "tick" => Ok(Parameter::Tick),
            pointer if pointer.is_empty() || pointer.starts_with('/') => Ok(Parameter::Pointer(text.clone())),
            _ => Err(wrong(format!(
                "{text:?} is none: a JSON pointer begins with a slash, as /data/name; else there are id and tick"
            ))),
        };
        let parameters = given.parameters.iter().map(parameter).collect::<Result<_, _>>()?;
        Ok(Statement { sql: given.sql.clone(), parameters, kinds: Vec::new() })
    }

    /// The values for a result. An error says why there are none.
    fn values(&self, result: &Outgoing, id: &str) -> Result<Vec<Option<String>>, String> {
        let body: Json = serde_json::from_slice(&result.body).map_err(|error| format!("the result is not JSON: {error}"))?;
        let value = |(index, parameter): (usize, &Parameter)| {
            let is_json = self.kinds.get(index).is_some_and(|kind| values::JSON.contains(kind));
            match parameter {
                Parameter::Id => Some(words(id, is_json)),
                Parameter::Tick => Some(result.mark.to_string()),
                Parameter::Positive => Some(result.positive.to_string()),
                Parameter::ResultId => result.id.map(|id| words(&id.to_string(), is_json)),
                // Null is a value of JSON, too.
                Parameter::Data => Some(body["data"].to_string()),
                Parameter::Pointer(pointer) => body.pointer(pointer).and_then(|value| text(value, is_json)),
            }
        };
        Ok(self.parameters.iter().enumerate().map(value).collect())
    }
}

/// A value as the server reads it.
fn text(value: &Json, is_json: bool) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(words(text, is_json)),
        other => Some(other.to_string()),
    }
}

/// A text as the server reads it. All that is not JSON is read without quotes, whatever type it is to have.
fn words(text: &str, is_json: bool) -> String {
    if is_json { Json::from(text).to_string() } else { text.to_owned() }
}

struct Writing {
    login: Login,
    plan: Plan,
    /// Nothing is written behind a row that is refused.
    stops_at_refused: bool,
    /// For one answer, besides the time that what it answers may be under way.
    answer_time_max: Duration,
    /// Results of one transaction. Fewer, for a while, after one in which the server took too long: it tells of many at once, so
    /// that of many slow ones nothing may be heard for longer than of each.
    together_max: usize,
}

impl Writing {
    fn new(login: Login, plan: Plan, answer_time_max: Duration) -> Writing {
        Writing { login, plan, stops_at_refused: false, answer_time_max, together_max: usize::MAX }
    }

    async fn make_table(&self, connection: &mut Connection) -> Result<(), Refused> {
        let Some(table) = &self.plan.table else { return Ok(()) };
        let sql = format!("SELECT to_regclass({})", literal(&table.name));
        let rows = connection.query(&sql, ANSWER_TIME_MAX).await?;
        if rows.first().and_then(|row| row.first()?.as_ref()).is_some() {
            return Ok(());
        }
        // Without the right to make tables it may still be there: so it is looked for first.
        let Some(made_by) = &table.made_by else {
            return Err(Refused::Passing(format!(
                "there is no table {}; make it, or let weir do so with createTable",
                table.name
            )));
        };
        connection.query(made_by, ANSWERS_TIME_MAX).await?;
        Ok(())
    }

    /// Has the statements read, once for all results of the connection.
    async fn prepare(&mut self, connection: &mut Connection) -> Result<(), Refused> {
        for positive in [true, false] {
            let (called, statement) = self.plan.statement(positive);
            if !positive && self.plan.cancellations.is_none() {
                continue;
            }
            let mut bytes = Vec::new();
            message::put_parse(called, &statement.sql, &mut bytes);
            message::put_sync(&mut bytes);
            connection.writer.send(&bytes).await?;
            let deadline = Instant::now() + ANSWERS_TIME_MAX;
            let (mut kinds, mut failed) = (Vec::new(), None);
            loop {
                let answer = connection.answer(deadline).await?;
                match answer.kind {
                    b't' => {
                        let mut fields = Fields(&answer.body);
                        let wanted = fields.u16().ok_or_else(broken)?;
                        kinds = (0..wanted).map(|_| fields.u32()).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
                        let given = statement.parameters.len();
                        if usize::from(wanted) != given {
                            let problem =
                                format!("the statement has {wanted} parameters, and {given} are given: {}", statement.sql);
                            failed = Some(Refused::ForGood(problem));
                        }
                    }
                    b'E' => failed = Some(of_statement(Said::read(&answer.body))),
                    b'Z' => break,
                    _ => {}
                }
            }
            if let Some(failed) = failed {
                return Err(failed);
            }
            self.plan.statement_mut(positive).kinds = kinds;
        }
        Ok(())
    }

    /// Runs some results in one transaction. Which one the server refused for good, if any: then nothing of it was done.
    async fn transaction(
        &mut self,
        connection: &mut Connection,
        batch: &[(usize, Vec<u8>)],
    ) -> Result<Option<(usize, String)>, Refused> {
        let mut bytes: Vec<u8> = batch.iter().flat_map(|(_, run)| run.iter().copied()).collect();
        message::put_sync(&mut bytes);
        let fewer = (batch.len() / 2).max(1);
        // One that is far behind with the first of them does not read the others, either.
        connection.writer.send(&bytes).await.inspect_err(|_| self.together_max = fewer)?;
        let patience = self.answer_time_max + way_time_max(bytes.len());
        let (mut done, mut failed) = (0, None);
        loop {
            let Some(answer) = connection.message(Instant::now() + patience).await? else {
                self.together_max = fewer;
                return Err(Refused::Passing("the server does not answer any more".to_owned()));
            };
            match answer.kind {
                // A statement is over.
                b'C' | b'I' | b's' => done += 1,
                b'E' => failed = Some(Said::read(&answer.body)),
                b'Z' => break,
                b'2' | b'D' => {}
                _ => return Err(broken().into()),
            }
            if let Some(said) = failed.take_if(|said| said.fatal) {
                return Err(Failed::Said(said).into());
            }
        }
        match failed {
            None if done == batch.len() => Ok(None),
            None => Err(broken().into()),
            Some(said) if OF_THE_RESULT.iter().any(|class| said.of_class(class)) => Ok(Some((done, said.words))),
            Some(said) => Err(Failed::Said(said).into()),
        }
    }
}

fn of_statement(said: Said) -> Refused {
    if OF_THE_STATEMENT.contains(&said.code.as_str()) {
        Refused::ForGood(format!("the statement cannot be run: {}", said.words))
    } else {
        Failed::Said(said).into()
    }
}

impl Publish for Writing {
    type Connection = Connection;

    const IDS: bool = true;

    async fn connect(&mut self) -> Result<Connection, Refused> {
        let mut connection = self.login.connect(false).await?;
        connection.query(LIMITS, ANSWER_TIME_MAX).await?;
        self.make_table(&mut connection).await?;
        self.prepare(&mut connection).await?;
        Ok(connection)
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    async fn publish(
        &mut self,
        connection: &mut Connection,
        results: &[Outgoing],
        ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused> {
        let (mut batch, mut bytes, mut end, mut unfit) = (Vec::new(), 0, first, None);
        while end < results.len() && bytes < BYTES_MAX {
            let (called, statement) = self.plan.statement(results[end].positive);
            match statement.values(&results[end], &ids[end]) {
                Ok(values) => {
                    let mut run = Vec::new();
                    message::put_run(called, &values, &mut run);
                    bytes += run.len();
                    batch.push((end, run));
                }
                Err(problem) => {
                    unfit = Some((end, problem));
                    end += 1;
                    break;
                }
            }
            end += 1;
        }
        // What stands before a result that is refused is run again without it, then that alone is looked at, then the rest. Where
        // little gets through, little is sent together: else each of many that are refused would be sent as often as there are.
        let (mut left, mut together) = (batch.as_slice(), batch.len().min(self.together_max));
        while !left.is_empty() {
            let some = &left[..together.min(left.len())];
            let Some((place, problem)) = self.transaction(connection, some).await? else {
                left = &left[some.len()..];
                together = (2 * some.len()).min(self.together_max);
                continue;
            };
            // One that is refused when all is to be kept has no place, and is found by halves.
            let known = (1..some.len()).contains(&place);
            together = if known { place } else { (some.len() / 2).max(1) };
            if place == 0 || some.len() == 1 {
                let refused = some[0].0;
                written.refused.push((refused, problem));
                if written.holds_up(self.stops_at_refused) {
                    return Ok(refused + 1);
                }
                left = &left[1..];
            }
        }
        written.refused.extend(unfit);
        // Not before all are written: one that takes too long has all of them written again, and would do so each time.
        if end == results.len() {
            self.together_max = self.together_max.saturating_add(self.together_max / 8 + 1);
        }
        Ok(end)
    }

    fn writer(connection: &Connection) -> &Writer {
        &connection.writer
    }

    fn bye() -> Vec<u8> {
        message::bye()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use serde_json::json;
    use tokio::runtime::Runtime;
    use weir_model::NodeId;

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side, read, write};

    fn definition(more: Json) -> Result<Plan, ConnectorError> {
        let mut definition = json!({"url": "postgres://127.0.0.1/db", "username": "weir"});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        crate::config::from_json::<WriteToPostgres>(&definition)?.plan()
    }

    #[test]
    fn results_become_parameters() {
        let plan = definition(json!({"statement": {"sql": "INSERT INTO a VALUES ($1, $2, $3, $4, $5, $6)",
            "parameters": ["id", "tick", "/data/a~1b", "/data/list", "/data/none", "/meta/isPositiveMatch"]}}))
        .unwrap();
        let body = br#"{"meta":{"isPositiveMatch":true},"data":{"a/b":"it's","list":[1.5,null]}}"#.to_vec();
        let match_id = NodeId::new(1, 2);
        let result = Outgoing { body, positive: true, mark: 9, id: Some(match_id) };
        let (called, statement) = plan.statement(true);
        let expected = [Some("i"), Some("9"), Some("it's"), Some("[1.5,null]"), None, Some("true")];
        assert_eq!(
            (called, statement.values(&result, "i").unwrap()),
            ("match", expected.map(|text| text.map(str::to_owned)).to_vec())
        );

        let plan = definition(json!({"table": "my schema.t\"", "rows": "Matches"})).unwrap();
        assert_eq!(plan.table.as_ref().unwrap().name, "\"my schema\".\"t\"\"\"");
        let (called, statement) = plan.statement(false);
        assert_eq!((called, statement.values(&result, "i").unwrap()), ("cancellation", vec![Some(match_id.to_string())]));
        let plan = definition(json!({"table": "t"})).unwrap();
        let values = plan.statement(false).1.values(&result, "i").unwrap();
        let data = r#"{"a/b":"it's","list":[1.5,null]}"#;
        assert_eq!(values, ["i", "9", "true", &match_id.to_string(), data].map(|text| Some(text.to_owned())));
        assert!(plan.statement(true).1.values(&Outgoing::default(), "i").is_err_and(|problem| problem.contains("is not JSON")));
    }

    #[test]
    fn texts_are_quoted_where_json_is_wanted() {
        let parameters = ["id", "/data/text", "/data/text", "/data/digits", "/data/list", "/data/number", "/data/none", "tick"];
        let mut plan = definition(json!({"statement": {"sql": "SELECT $1", "parameters": parameters}})).unwrap();
        let statement = plan.statement_mut(true);
        statement.kinds = vec![3802, 25, 114, 3802, 3802, 3802, 3802, 114];
        let body = br#"{"data":{"text":"it's \"a\"","digits":"123","list":["a",{"b":1}],"number":1.5,"none":null}}"#.to_vec();
        let result = Outgoing { body, positive: true, mark: 9, id: None };
        let (quoted, list) = (r#""it's \"a\"""#, r#"["a",{"b":1}]"#);
        let expected = ["\"i\"", "it's \"a\"", quoted, "\"123\"", list, "1.5", "", "9"];
        let expected = expected.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        assert_eq!(statement.values(&result, "i").unwrap(), expected);
    }

    /// What a row takes where it says that it is slow.
    const SLOW: Duration = Duration::from_millis(40);

    const REFUSAL: &[u8] = b"SERROR\0VERROR\0C23514\0Mit is checked\0\0";

    /// A length that counts itself, and what stands behind it.
    fn counted(connection: &mut TcpStream) -> Option<Vec<u8>> {
        let length = u32::from_be_bytes(read(connection, 4)?.try_into().unwrap());
        read(connection, length as usize - 4)
    }

    fn put(kind: u8, body: &[u8], out: &mut Vec<u8>) {
        message::put(kind, out, |out| out.extend_from_slice(body));
    }

    /// A server as far as an output with one statement of one parameter needs one: what runs up to a Sync is a transaction, and
    /// one with a value that holds "no" breaks a constraint, as one with "late" does when it is committed. One with "slow" takes
    /// a while; that it is done is said at once where it is "told", too. It keeps the values of those that are committed, and
    /// counts all that it was sent.
    fn serve(mut connection: TcpStream, taken: &Mutex<Vec<String>>, sent: &AtomicUsize) -> Option<()> {
        counted(&mut connection)?;
        let mut out = Vec::new();
        put(b'R', &[0; 4], &mut out);
        put(b'Z', b"I", &mut out);
        let (mut run, mut failed) = (Vec::<String>::new(), false);
        let mut kind = b'S';
        loop {
            // What it says leaves at the end of a transaction, as that of a server does.
            if matches!(kind, b'S' | b'Q') {
                connection.write_all(&out).ok()?;
                out.clear();
            }
            kind = read(&mut connection, 1)?[0];
            let body = counted(&mut connection)?;
            match kind {
                b'Q' => {
                    put(b'C', b"SET\0", &mut out);
                    put(b'Z', b"I", &mut out);
                }
                b'P' => put(b'1', b"", &mut out),
                b'D' => {
                    // One parameter, of type text.
                    put(b't', &[0, 1, 0, 0, 0, 25], &mut out);
                    put(b'n', b"", &mut out);
                }
                b'S' => {
                    let done = std::mem::take(&mut run);
                    let late = done.iter().any(|value| value.contains("late"));
                    match std::mem::take(&mut failed) {
                        true => {}
                        false if late => put(b'E', REFUSAL, &mut out),
                        false => taken.lock().unwrap().extend(done),
                    }
                    put(b'Z', b"I", &mut out);
                }
                b'B' | b'E' if failed => _ = sent.fetch_add(usize::from(kind == b'B'), Ordering::Relaxed),
                b'B' => {
                    sent.fetch_add(1, Ordering::Relaxed);
                    let mut fields = Fields(&body);
                    fields.text()?;
                    fields.text()?;
                    assert_eq!((fields.u16()?, fields.u16()?), (0, 1));
                    let length = fields.u32()?;
                    run.push(String::from_utf8(fields.bytes(length as usize)?.to_vec()).unwrap());
                    put(b'2', b"", &mut out);
                }
                b'E' if run.last()?.contains("no") => {
                    failed = true;
                    put(b'E', REFUSAL, &mut out);
                }
                b'E' => {
                    let value = run.last()?;
                    if value.contains("slow") {
                        thread::sleep(SLOW);
                    }
                    put(b'C', b"INSERT 0 1\0", &mut out);
                    if value.contains("told") {
                        connection.write_all(&out).ok()?;
                        out.clear();
                    }
                }
                _ => return None,
            }
        }
    }

    struct Counting {
        taken: Arc<Mutex<Vec<String>>>,
        /// How many rows it was sent, again and again.
        sent: Arc<AtomicUsize>,
        config: Box<dyn DestinationConfig>,
    }

    /// A server that counts, and an output to it.
    fn counting() -> Counting {
        let sent = Arc::<AtomicUsize>::default();
        let counting = sent.clone();
        let (address, taken) = other_side(move |connection, taken| serve(connection, taken, &counting));
        let definition = json!({"type": "WriteToPostgres", "url": format!("postgres://{address}/db"), "username": "weir",
            "statement": {"sql": "INSERT INTO t VALUES ($1)", "parameters": [""]}});
        Counting { taken, sent, config: crate::parse_destination_v1(&definition).unwrap() }
    }

    #[test]
    fn rows_that_are_refused_are_sent_a_few_times_however_many_they_are() {
        const COUNT: usize = 512;
        const TIMES_MAX: usize = 6;
        let runtime = runtime();
        for refused in [r#"["no"]"#, r#"["late"]"#] {
            for every in [1, 2, 7, COUNT] {
                let Counting { taken, sent, config } = counting();
                let rows: Vec<String> =
                    (0..COUNT).map(|n| if n % every == every - 1 { refused.to_owned() } else { n.to_string() }).collect();
                let results = bodies(&rows.iter().map(String::as_str).collect::<Vec<_>>());
                let mut destination = config.open(&output(&runtime), None).unwrap();
                let written = write(&mut *destination, &results);
                let (bad, good): (Vec<usize>, Vec<usize>) = (0..COUNT).partition(|n| rows[*n] == refused);
                assert_eq!(written.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), bad);
                assert!(written.left.is_empty());
                assert_eq!(*taken.lock().unwrap(), good.iter().map(|n| rows[*n].clone()).collect::<Vec<_>>());
                let sent = sent.load(Ordering::Relaxed);
                assert!(sent <= TIMES_MAX * COUNT, "one of {every} is {refused}: {sent} for {COUNT}");
                destination.close().unwrap();
            }
        }
    }

    /// An output to a server that counts, which waits so long for an answer.
    fn waiting(address: SocketAddr, answer_time_max: Duration, runtime: &Runtime) -> Publisher<Writing> {
        let definition = json!({"url": format!("postgres://{address}/db"), "username": "weir",
            "statement": {"sql": "INSERT INTO t VALUES ($1)", "parameters": [""]}});
        let definition = crate::config::from_json::<WriteToPostgres>(&definition).unwrap();
        let context = output(runtime);
        let login = definition.access.login(&context.hosts).unwrap();
        Publisher::new(&context, "there", Writing::new(login, definition.plan().unwrap(), answer_time_max))
    }

    #[test]
    fn each_answer_has_its_time() {
        const COUNT: usize = 50;
        let (sent, runtime) = (Arc::<AtomicUsize>::default(), runtime());
        let counting = sent.clone();
        let (address, taken) = other_side(move |connection, taken| serve(connection, taken, &counting));
        // All of them take longer.
        let mut destination = waiting(address, SLOW * 25, &runtime);
        let results = bodies(&[r#""slow, and told""#; COUNT]);
        let written = write(&mut destination, &results);
        assert!(written.left.is_empty() && written.refused.is_empty());
        assert_eq!((sent.load(Ordering::Relaxed), taken.lock().unwrap().len()), (COUNT, COUNT));
        destination.close().unwrap();
    }

    #[test]
    fn rows_that_take_too_long_together_are_written_a_few_at_a_time() {
        const COUNT: usize = 32;
        let (sent, runtime) = (Arc::<AtomicUsize>::default(), runtime());
        let counting = sent.clone();
        let (address, taken) = other_side(move |connection, taken| serve(connection, taken, &counting));
        let mut destination = waiting(address, SLOW * 12, &runtime);
        let rows: Vec<String> = (0..COUNT).map(|n| format!("\"slow {n:02}\"")).collect();
        let results = bodies(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        // The first learns how many, and the second tries a few more.
        for _ in 0..2 {
            let written = write(&mut destination, &results);
            assert!(written.left.is_empty() && written.refused.is_empty());
        }
        // A transaction that took too long is committed all the same, perhaps after those of the next tries.
        let mut values = taken.lock().unwrap().clone();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values, (0..COUNT).map(|n| format!("slow {n:02}")).collect::<Vec<_>>());
        destination.close().unwrap();
    }

    #[test]
    fn nothing_overtakes_a_row_that_is_refused() {
        let Counting { taken, config, .. } = counting();
        let runtime = runtime();
        let open = || config.open(&output(&runtime), None).unwrap();
        // All of them go out together, and what is before the one that is refused is run again without it.
        let results = bodies(&["1", "2", r#"["no"]"#, "3", "4"]);
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
        // One that is not even JSON is not sent.
        taken.lock().unwrap().clear();
        let results = bodies(&["1", "{", "2"]);
        nothing_overtakes_what_is_refused(open, &results, 1, || taken.lock().unwrap().clone());
    }

    #[test]
    fn a_definition_says_one_thing() {
        let statement = |parameter: &str| json!({"statement": {"sql": "SELECT $1", "parameters": [parameter]}});
        for (wrong, field) in [
            (json!({}), "table"),
            (json!({"table": "a.b.c"}), "table"),
            (json!({"table": ""}), "table"),
            (json!({"table": "t", "rows": "Some"}), "rows"),
            (json!({"table": "t", "statement": {"sql": "SELECT 1"}}), "statement"),
            (json!({"table": "t", "cancellation": {"sql": "SELECT 1"}}), "cancellation"),
            (json!({"statement": {"sql": " "}}), "statement.sql"),
            (statement("name"), "statement.parameters"),
        ] {
            let refused = definition(wrong.clone()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(&format!("`{field}`")), "{wrong}: {refused}");
        }
        assert!(definition(statement("")).is_ok(), "all of it");
        let statement = crate::config::from_json::<WriteToPostgres>(
            &json!({"url": "postgres://h/d", "username": "u", "statement": {"sql": "SELECT 1"}}),
        );
        assert!(statement.unwrap().positive_only());
    }
}
