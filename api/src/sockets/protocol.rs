//! The query protocol of the explorer: many queries over one socket, each with a number the client has chosen.
//!
//!     RunQuery ─> QueryStarted, results in batches …, QueryFinished or QueryFailed
//!     CancelQuery ─> MessageOk, and the query is finished soon
//!
//! Every message of a client is answered with one message, in order. Results wait for the client: one that takes none holds
//! its queries up, until their limits or somebody else end them. Little waits meanwhile:
//!
//!     a thread ─ rows, 256 KB a query ─> a batch ─ messages, 256 KB a socket ─> the client

use std::collections::HashMap;
use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_cypher_compiler::{Wanted, wanted};
use weir_engine::evaluate::Profile;
use weir_engine::{EngineError, Graph, QueryOptions};
use weir_model::expression::FailureKind;
use weir_model::{Tick, Value};

use super::{Connection, Socket};
use crate::app::App;
use crate::auth::Caller;
use crate::clock;
use crate::error::ApiError;
use crate::queries::{Client, Compiled, Listed, NOT_TAKEN, Running};
use crate::routes::gremlin::told;
use crate::routes::query::{compiled, dataflow, explanation, profile_of};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;
use crate::wire::query::{Drawn, QueryBody, Shape, named, piece};
use crate::wire::values::body_with;

/// A batch is sent when its rows come to this many bytes, however many a client asked for.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// What waits for a client: of one query in rows, and of a socket in messages.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// What a text that waits takes beside its length, so that there are not too many either.
const TEXT_BYTES: usize = 64;

/// The one column of what EXPLAIN and PROFILE answer.
const PLAN: &str = "plan";

/// A conversation.
pub struct Protocol {
    pub app: Arc<App>,
    /// Of the graph, as the handshake has it. It is looked up for each query: a namespace may be deleted while the socket is
    /// open, and another one made that is called the same.
    pub graph_name: Option<String>,
    pub family: Family,
    pub client: Client,
    /// What each query is held to.
    pub caller: Caller,
}

/// What a query sends to its socket.
enum Said {
    Results(String, OwnedSemaphorePermit),
    /// The last message of a query.
    Ended(i64, String),
}

enum Asked {
    Run(Run),
    Cancel(i64),
}

/// A query of the socket.
struct Own {
    running: Arc<Running>,
    /// Its client has asked for its end over this socket, and not somebody elsewhere.
    unwanted: Arc<AtomicBool>,
}

/// How a conversation comes to its end.
enum Over {
    Gone,
    Closed,
    Failed(Error),
    /// Weir ends.
    Stopped,
}

struct Run {
    id: i64,
    body: QueryBody,
    /// Not Cypher.
    gremlin: bool,
    shape: Shape,
    at: Option<Tick>,
    batch_max: Option<usize>,
    within: Option<Duration>,
    /// How it ran is the answer.
    profiled: bool,
}

impl Protocol {
    pub async fn talk(self, connection: Connection) -> Result<(), Error> {
        let mut socket = Socket::over(connection, &self.app);
        let stopped = self.app.stopped();
        tokio::pin!(stopped);
        #[expect(clippy::disallowed_methods, reason = "`room` bounds what lies here, by its bytes")]
        let (sender, mut said) = mpsc::unbounded_channel();
        let voice = Voice { said: sender, room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)) };
        let mut running: HashMap<i64, Own> = HashMap::new();
        let over = loop {
            // What is said next, with the room that it takes until it is.
            let (text, _room) = tokio::select! {
                message = socket.next() => match message {
                    None => break Over::Gone,
                    Some(Ok(Message::Close(_))) => break Over::Closed,
                    Some(Err(error)) => break Over::Failed(error),
                    Some(Ok(Message::Text(text))) => (self.answer(&text, &mut running, &voice), None),
                    Some(Ok(Message::Binary(_))) if self.family == Family::V1 => {
                        // As it was recorded, word for word: v1 has text messages alone, here too.
                        (wrong("Binary websocket messages are not yet supported"), None)
                    }
                    Some(Ok(_)) => continue,
                },
                Some(said) = said.recv() => match said {
                    Said::Results(text, room) => (text, Some(room)),
                    Said::Ended(id, text) => {
                        running.remove(&id);
                        (text, None)
                    }
                },
                () = &mut stopped => break Over::Stopped,
            };
            // A client that takes nothing holds up its own socket, but not the end of weir.
            tokio::select! {
                sent = socket.send(text) => {
                    if let Err(error) = sent {
                        break Over::Failed(error);
                    }
                }
                () = &mut stopped => break Over::Stopped,
            }
        };
        // Nobody wants their answers any more; the client may take its time for what it is told last.
        running.values().for_each(|own| own.running.cancel());
        match over {
            Over::Gone => Ok(()),
            Over::Closed => socket.answer_close().await,
            Over::Failed(error) => Err(socket.fail(error).await),
            Over::Stopped => socket.leave().await,
        }
    }

    fn answer(&self, text: &str, running: &mut HashMap<i64, Own>, voice: &Voice) -> String {
        if let Some(reason) = self.app.not_ready() {
            return wrong(&reason);
        }
        match self.decode(text) {
            Err(mistake) => wrong(&format!("Failed to deserialize client message:\n{mistake}")),
            Ok(Asked::Cancel(id)) => match running.get(&id) {
                None => wrong(&format!("Query ID {id} isn't tracking any current query")),
                Some(own) => {
                    own.unwanted.store(true, Ordering::Relaxed);
                    own.running.cancel();
                    json!({"type": "MessageOk"}).to_string()
                }
            },
            Ok(Asked::Run(run)) if running.contains_key(&run.id) => {
                wrong(&format!("Query ID {} is already being used to track another query", run.id))
            }
            Ok(Asked::Run(_)) if running.len() >= self.running_max() => {
                wrong(&format!("{} queries run over this socket; wait for one, or cancel one", running.len()))
            }
            Ok(Asked::Run(run)) => self.run(run, running, voice).unwrap_or_else(|error| wrong(&error.to_string())),
        }
    }

    /// Queries that run for one socket: others have their share of those that run at all.
    fn running_max(&self) -> usize {
        (self.app.queries.settings.running_max / 2).max(1)
    }

    /// Starts a query; its results follow.
    fn run(&self, mut run: Run, running: &mut HashMap<i64, Own>, voice: &Voice) -> Result<String, ApiError> {
        self.app.queries.check_text(&run.body.text)?;
        let graph = self.app.graph(self.graph_name.as_deref())?;
        if run.gremlin {
            run.body = told(&graph, &run.body)?;
        }
        let (id, table) = (run.id, run.shape == Shape::Table);
        // Plans are tables. Where nodes or edges are asked for, the word stays in the text, and is refused as over HTTP: without
        // it the query would run.
        let mut asked = Wanted::Answer;
        if table {
            let (wanted, text) = wanted(&run.body.text);
            (asked, run.body.text) = (wanted, text.into_owned());
        }
        run.profiled = asked == Wanted::Profile;
        if matches!(asked, Wanted::Plan | Wanted::Dataflow) {
            let explained = tokio::task::block_in_place(|| match asked {
                Wanted::Dataflow => dataflow(&graph, &run.body),
                _ => explanation(&self.app, &graph, &run.body),
            })?;
            let results = json!({"type": "TabularResults", "queryId": id, "columns": explained["columns"], "results": explained["results"]});
            let started = self.started(id, true, false, Some(vec![PLAN.to_owned()]));
            let voice = voice.clone();
            tokio::spawn(async move {
                voice.results(results.to_string()).await;
                voice.ended(id, finished(id));
            });
            return Ok(started);
        }
        let (compiled, parameters) = compiled(&self.app, &graph, &run.body)?;
        self.caller.check_query(&compiled.prepared.plan)?;
        let facts = compiled.prepared.plan.facts;
        self.client.audit(&run.body.text, facts);
        let columns = table.then(|| columns(&run, &compiled));
        let started = self.started(id, !facts.writes, facts.scans, columns);
        let listed = self.app.queries.register.begin(&run.body.text, graph.name(), self.client.clone());
        let (query, unwanted) = (listed.running.clone(), Arc::<AtomicBool>::default());
        running.insert(id, Own { running: query.clone(), unwanted: unwanted.clone() });
        let work = Work { app: self.app.clone(), graph, family: self.family, run, compiled, parameters, running: query };
        tokio::spawn(work.run(listed, unwanted, voice.clone()));
        Ok(started)
    }

    fn started(&self, id: i64, reads: bool, scans: bool, columns: Option<Vec<String>>) -> String {
        let mut message = json!({"type": "QueryStarted", "queryId": id, "isReadOnly": reads, "canContainAllNodeScan": scans});
        match columns {
            Some(columns) => message["columns"] = columns.into(),
            None if self.family.is_v2() => message["columns"] = Json::Null,
            None => {}
        }
        message.to_string()
    }

    /// The first mistake is told.
    fn decode(&self, text: &str) -> Result<Asked, String> {
        let first = |mistakes: Vec<String>| mistakes.into_iter().next().unwrap_or_default();
        let (message, parameters) = body_with(text.as_bytes(), false, "parameters").map_err(first)?;
        let mut mistakes = Mistakes::default();
        let asked = self.read(&message, parameters, &mut mistakes);
        mistakes.or(asked).map_err(first)
    }

    fn read(&self, message: &Json, parameters: Value, mistakes: &mut Mistakes) -> Option<Asked> {
        let (fields, kind) = Fields::tagged(message, "", mistakes)?;
        let known: &[&str] = match kind {
            "CancelQuery" => &["type", "queryId"],
            "RunQuery" => &[
                "type",
                "queryId",
                "query",
                "sort",
                "parameters",
                "language",
                "interpreter",
                "atTime",
                "maxResultBatch",
                "resultsWithinMillis",
            ],
            other => {
                mistakes.at("", format!("No decoder for discriminator '{other}'!"));
                return None;
            }
        };
        let v2 = self.family.is_v2();
        if let Some((unknown, _)) = fields.entries().find(|(name, _)| v2 && !known.contains(&name.as_str())) {
            mistakes.at(&format!(".{unknown}"), format!("unknown field; there are {}", known.join(", ")));
            return None;
        }
        fields.required("queryId", mistakes)?;
        let id = fields.int("queryId", mistakes)?;
        if kind == "CancelQuery" {
            return Some(Asked::Cancel(id));
        }
        let text = fields.required_text("query", mistakes)?;
        fields.required("sort", mistakes)?;
        let sorts: [&'static str; 3] = if v2 { ["Node", "Edge", "Text"] } else { ["NodeSort", "EdgeSort", "TextSort"] };
        let shape = match fields.any_word("sort", &sorts, mistakes)? {
            "Node" | "NodeSort" => Shape::Drawing(Drawn::Nodes),
            "Edge" | "EdgeSort" => Shape::Drawing(Drawn::Edges),
            _ => Shape::Table,
        };
        if !v2 {
            fields.required("parameters", mistakes)?;
            fields.required("language", mistakes)?;
        }
        let languages: &[&'static str] = if v2 { &["Cypher"] } else { &["Gremlin", "Cypher"] };
        let gremlin = fields.any_word("language", languages, mistakes) == Some("Gremlin");
        let shape = if gremlin && shape == Shape::Table { Shape::Values } else { shape };
        let parameters = match fields.get("parameters") {
            None => Vec::new(),
            Some(Json::Object(_)) => named(parameters),
            Some(other) => {
                mistakes.at(".parameters", format!("Got value '{other}' with wrong type, expecting object"));
                return None;
            }
        };
        let at = match fields.get("atTime") {
            Some(Json::String(text)) => match text.parse().ok().or_else(|| clock::parse_instant(text)) {
                Some(millis) => Some(millis),
                None => {
                    mistakes.at(".atTime", format!("'{text}' is no time"));
                    return None;
                }
            },
            _ => fields.long("atTime", mistakes),
        };
        // Where there is no such graph, that is said later.
        if let Some(at) = at
            && let Ok(graph) = self.app.graph(self.graph_name.as_deref())
            && at > graph.now_millis() as i64
        {
            let given = fields.get("atTime").and_then(Json::as_str).map_or_else(|| at.to_string(), str::to_owned);
            let now = clock::spelt_like(&given, clock::from_millis(graph.now_millis()));
            mistakes.at(".atTime", format!("Value {given} must be less than system time {now}"));
        }
        let positive = |name: &str, mistakes: &mut Mistakes| {
            let given = fields.int(name, mistakes)?;
            if given < 1 {
                mistakes.at(&format!(".{name}"), "must be at least 1");
            }
            Some(given.max(1) as u64)
        };
        Some(Asked::Run(Run {
            id,
            body: QueryBody { text, parameters },
            gremlin,
            shape,
            at: at.map(|millis: i64| Tick::end_of_millis(millis.max(0) as u64)),
            batch_max: positive("maxResultBatch", mistakes).map(|count| count as usize),
            within: positive("resultsWithinMillis", mistakes).map(Duration::from_millis),
            profiled: false,
        }))
    }
}

/// The way of the queries of a socket to what it sends. What waits is counted in bytes: messages are of any size.
#[derive(Clone)]
struct Voice {
    said: mpsc::UnboundedSender<Said>,
    room: Arc<Semaphore>,
}

impl Voice {
    /// Waits until there is room for it. Answers whether the socket is still there.
    async fn results(&self, text: String) -> bool {
        let Ok(room) = self.room.clone().acquire_many_owned(room_of(&text)).await else { return false };
        self.said.send(Said::Results(text, room)).is_ok()
    }

    /// One for each query, so there is always room.
    fn ended(&self, id: i64, text: String) {
        // A socket that is gone needs no answer.
        let _ = self.said.send(Said::Ended(id, text));
    }
}

/// What a text takes of the room. One that is larger than all of it waits alone.
fn room_of(text: &str) -> u32 {
    text.len().saturating_add(TEXT_BYTES).min(WAITING_BYTES_MAX) as u32
}

/// The way of the rows of one query from its thread to where they become batches.
struct Rows {
    sender: mpsc::UnboundedSender<Row>,
    room: Arc<Semaphore>,
    running: Arc<Running>,
    deadline: Option<Instant>,
    runtime: Handle,
}

struct Row {
    text: String,
    _room: OwnedSemaphorePermit,
}

/// Why no more rows are taken.
enum Cut {
    /// The query is to end, or its socket is gone.
    Unwanted,
    /// The client took too long for those before.
    Late,
}

impl Rows {
    /// Blocks until there is room.
    fn push(&self, text: String) -> Result<(), Cut> {
        let bytes = room_of(&text);
        let room = match self.room.clone().try_acquire_many_owned(bytes) {
            Ok(room) => room,
            Err(_) => self.runtime.block_on(self.wait(bytes))?,
        };
        self.sender.send(Row { text, _room: room }).map_err(|_| Cut::Unwanted)
    }

    async fn wait(&self, bytes: u32) -> Result<OwnedSemaphorePermit, Cut> {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.running.until_cancelled() => Err(Cut::Unwanted),
            () = self.sender.closed() => Err(Cut::Unwanted),
            room = self.room.clone().acquire_many_owned(bytes) => room.map_err(|_| Cut::Unwanted),
            () = late => Err(Cut::Late),
        }
    }
}

/// A query on its way.
struct Work {
    app: Arc<App>,
    graph: Graph,
    family: Family,
    run: Run,
    compiled: Arc<Compiled>,
    parameters: Vec<Value>,
    running: Arc<Running>,
}

impl Work {
    async fn run(self, listed: Listed, unwanted: Arc<AtomicBool>, voice: Voice) {
        let id = self.run.id;
        let last = match self.results(&voice).await {
            // The end that its own client has asked for is a success.
            Err(error) if !unwanted.load(Ordering::Relaxed) => {
                listed.running.fail(&error);
                json!({"type": "QueryFailed", "queryId": id, "message": error.to_string()}).to_string()
            }
            _ => finished(id),
        };
        // Whoever reads the last message may ask what runs: not this any more.
        drop(listed);
        voice.ended(id, last);
    }

    /// Runs the query on a thread of its own and sends what it gives in batches.
    async fn results(self, voice: &Voice) -> Result<(), ApiError> {
        let running = self.running.clone();
        let place = self.app.queries.place(self.compiled.prepared.plan.facts, &running).await?;
        #[expect(clippy::disallowed_methods, reason = "`room` bounds what lies here, by its bytes")]
        let (sender, mut rows) = mpsc::unbounded_channel();
        let given = Rows {
            sender,
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)),
            running: running.clone(),
            deadline: Instant::now().checked_add(self.app.queries.settings.time_max),
            runtime: Handle::current(),
        };
        let frame = Frame::of(&self.run, &self.compiled);
        let (batch_max, within) = (self.run.batch_max, self.run.within);
        let query = tokio::task::spawn_blocking(move || {
            let ended = self.query(&given);
            drop(place);
            ended
        });
        // Without a word about batches each row is a message.
        let batch_max = batch_max.unwrap_or(if within.is_some() { usize::MAX } else { 1 });
        let (mut batch, mut bytes, mut cut) = (Vec::new(), 0, false);
        let mut due: Option<Instant> = None;
        loop {
            let next = match due {
                Some(due) => tokio::time::timeout_at(due.into(), rows.recv()).await,
                None => Ok(rows.recv().await),
            };
            let more = match next {
                Ok(Some(Row { text, .. })) => {
                    bytes += text.len();
                    batch.push(text);
                    due = due.or_else(|| within.and_then(|within| Instant::now().checked_add(within)));
                    if batch.len() < batch_max && bytes < BATCH_BYTES_MAX {
                        continue;
                    }
                    true
                }
                Ok(None) => false,
                Err(_) => true,
            };
            (due, bytes) = (None, 0);
            if !batch.is_empty() {
                let text = frame.around(&std::mem::take(&mut batch));
                cut = tokio::select! {
                    biased;
                    () = running.until_cancelled() => true,
                    heard = voice.results(text) => !heard,
                };
            }
            if cut || !more {
                break;
            }
        }
        drop(rows);
        let committed = query.await.map_err(|error| ApiError::Failed(format!("a task failed: {error}")))??;
        if cut { Err(running.ending(committed)) } else { Ok(()) }
    }

    /// Answers whether it has changed anything.
    fn query(&self, rows: &Rows) -> Result<bool, ApiError> {
        let running = &self.running;
        let prepared = &self.compiled.prepared;
        let profile = self.run.profiled.then(|| Profile::new(&prepared.plan));
        let (at, deadline, cancelled) = (self.run.at, rows.deadline, Some(&running.cancelled));
        let options =
            QueryOptions { at, deadline, cancelled, profile: profile.as_ref(), may_listen: true, ..QueryOptions::default() };
        let (mut refused, mut cut) = (None, None);
        let ended = self.graph.query(prepared, &self.parameters, options, &mut |row| {
            running.rows.fetch_add(1, Ordering::Relaxed);
            if self.run.profiled {
                return ControlFlow::Continue(());
            }
            match piece(self.run.shape, row, self.graph.ids(), self.family) {
                Err(reason) => {
                    refused = Some(reason);
                    ControlFlow::Break(())
                }
                // Nothing to be drawn.
                Ok(row) if row.is_empty() => ControlFlow::Continue(()),
                Ok(row) => match rows.push(row) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(why) => {
                        cut = Some(why);
                        ControlFlow::Break(())
                    }
                },
            }
        });
        let committed = match (ended, refused) {
            (_, Some(reason)) => return Err(ApiError::Cypher(reason)),
            (Err(EngineError::Query(failure)), None) if running.is_stopped() && failure.kind == FailureKind::Interrupted => {
                return Err(running.ending(false));
            }
            (Err(error), None) => return Err(self.app.queries.explained(error)),
            (Ok(answered), None) => answered.committed.is_some(),
        };
        match cut {
            Some(Cut::Unwanted) => return Err(running.ending(committed)),
            Some(Cut::Late) => return Err(ApiError::bad(NOT_TAKEN)),
            None => {}
        }
        if let Some(profile) = profile {
            let ways = self.graph.ways(prepared, &self.parameters);
            let plan = profile_of(&prepared.plan, &ways, &profile)["results"][0].take();
            // A socket that is gone needs no answer.
            let _ = rows.push(plan.to_string());
        }
        Ok(committed)
    }
}

/// The names of those of a table.
fn columns(run: &Run, compiled: &Compiled) -> Vec<String> {
    if run.profiled {
        return vec![PLAN.to_owned()];
    }
    compiled.prepared.plan.columns.iter().map(|(name, _)| name.to_string()).collect()
}

/// What stands around a batch.
struct Frame {
    before: String,
}

impl Frame {
    fn of(run: &Run, compiled: &Compiled) -> Frame {
        let (kind, columns) = match run.shape {
            Shape::Table => ("TabularResults", format!("\"columns\":{},", json!(columns(run, compiled)))),
            Shape::Values => ("NonTabularResults", String::new()),
            Shape::Drawing(Drawn::Nodes) => ("NodeResults", String::new()),
            Shape::Drawing(Drawn::Edges) => ("EdgeResults", String::new()),
        };
        Frame { before: format!("{{\"type\":\"{kind}\",\"queryId\":{},{columns}\"results\":[", run.id) }
    }

    fn around(&self, rows: &[String]) -> String {
        format!("{}{}]}}", self.before, rows.join(","))
    }
}

fn finished(id: i64) -> String {
    json!({"type": "QueryFinished", "queryId": id}).to_string()
}

fn wrong(reason: &str) -> String {
    json!({"type": "MessageError", "error": reason}).to_string()
}
