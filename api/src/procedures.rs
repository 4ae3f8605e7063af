//! Procedures: what queries may call that only the service has, and the options with which every query is compiled.
//!
//! LOAD CSV, `loadJsonLines`, `parseProtobuf` and `toProtobuf` read the files and web servers that the policies allow;
//! `standing.wiretap` listens to a standing query; SHOW QUERIES and TERMINATE QUERY look at what runs. SHOW INDEXES and SHOW
//! EXPIRIES that choose from what is shown are queries, too.
//! A plan holds these for as long as it lives, and ingest streams hold plans, so the way back to the App is a weak one.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use weir_connectors::fetch::{Fetch, Form};
use weir_connectors::{Encoder, Envelope, FilePolicy, Generation, HostPolicy, schema};
use weir_cypher_compiler::{Options, compile, procedures};
use weir_engine::Graph;
use weir_model::expression::FailureKind;
use weir_model::procedure::{Body, Caller, Each};
use weir_model::protobuf::{MessageType, Wanted};
use weir_model::schema::Schema;
use weir_model::{Failure, IdScheme, Plan, Procedure, Text, Value, json};

use crate::app::App;
use crate::error::{ApiError, chain};
use crate::queries::check_text;
use crate::standing::News;

/// How long a query that waits for results sleeps before it is looked whether anybody still wants it.
const NAP: Duration = Duration::from_millis(5);

/// Reads a schema, which is mostly kept: also with the graph locked it answers where it is.
const PARSE: &str = "parseProtobuf";
/// Reads a schema as `PARSE` does.
const WRITE: &str = "toProtobuf";

/// What `query.running` gives, by their names over HTTP.
const RUNNING_COLUMNS: [&str; 9] =
    ["id", "query", "namespace", "startTime", "runningMillis", "rows", "cancelled", "userAgent", "remoteAddress"];

pub struct Procedures {
    files: FilePolicy,
    hosts: HostPolicy,
    text_bytes_max: usize,
    app: OnceLock<Weak<App>>,
}

/// What is the same on the whole way on which a stream or an output is prepared.
#[derive(Clone, Copy)]
pub struct Preparing<'a> {
    pub graph: &'a Graph,
    pub procedures: &'a Arc<Procedures>,
    /// Somebody sends it now; otherwise it was there before. Only a new one is refused for what its queries call: an earlier
    /// version took the others.
    pub is_new: bool,
    /// Where it stands in what was sent, if whoever sent it is told; empty otherwise.
    pub place: &'a str,
}

impl<'a> Preparing<'a> {
    pub fn new(graph: &'a Graph, procedures: &'a Arc<Procedures>) -> Preparing<'a> {
        Preparing { graph, procedures, is_new: true, place: "" }
    }

    /// What is there already.
    pub fn again(graph: &'a Graph, procedures: &'a Arc<Procedures>) -> Preparing<'a> {
        Preparing { is_new: false, ..Preparing::new(graph, procedures) }
    }

    /// A query of it, which is called `whose` where it is refused.
    pub fn compile(&self, text: &str, parameter: &str, whose: &'static str) -> Result<Plan, ApiError> {
        let options = self.procedures.options(self.graph, vec![Text::new(parameter)]);
        Ok(compile(text, &Options { runs_as: self.is_new.then_some(whose), ..options })?)
    }
}

impl Procedures {
    pub fn new(files: FilePolicy, hosts: HostPolicy, text_bytes_max: usize) -> Arc<Procedures> {
        Arc::new(Procedures { files, hosts, text_bytes_max, app: OnceLock::new() })
    }

    /// Checks the text of a standing query, an output or a stream that somebody sends. What is stored is not checked: the limit
    /// may be a later one.
    pub fn check_text(&self, text: &str) -> Result<(), ApiError> {
        check_text(text, self.text_bytes_max)
    }

    /// The web servers that queries and outputs may ask.
    pub fn hosts(&self) -> &HostPolicy {
        &self.hosts
    }

    /// The files they may read and write.
    pub fn files(&self) -> &FilePolicy {
        &self.files
    }

    /// To be called once, when there is an App.
    pub fn connect(&self, app: &Arc<App>) {
        // A second call would name the same App.
        let _ = self.app.set(Arc::downgrade(app));
    }

    /// How a query of this graph is compiled.
    pub fn options(self: &Arc<Self>, graph: &Graph, parameters: Vec<Text>) -> Options {
        let (ids, open_cypher) = (graph.ids(), graph.open_cypher());
        Options { parameters, ids, procedures: self.of(graph), open_cypher, ..Options::default() }
    }

    fn of(self: &Arc<Self>, graph: &Graph) -> Vec<Arc<Procedure>> {
        let (csv, lines, tap, graph) = (self.clone(), self.clone(), self.clone(), graph.name().to_owned());
        let (parsing, writing) = (self.clone(), self.clone());
        let (list, end) = (self.clone(), self.clone());
        let shows = |schema: Schema| {
            let (show, graph) = (self.clone(), graph.clone());
            Body::Rows(Arc::new(move |_, _, each| show.show(&graph, &schema, each)))
        };
        let (indexes, expiries) = (shows(Schema::ShowIndexes), shows(Schema::ShowExpiries));
        let brought: [(&str, Body); 9] = [
            ("schema.indexes", indexes),
            ("schema.expiries", expiries),
            ("query.running", Body::Rows(Arc::new(move |_, _, each| list.running(each)))),
            ("query.terminate", Body::Rows(Arc::new(move |_, arguments, each| end.terminate(arguments, each)))),
            (procedures::LOAD_CSV, Body::Rows(Arc::new(move |caller, arguments, each| csv.load_csv(caller, arguments, each)))),
            ("loadJsonLines", Body::Rows(Arc::new(move |caller, arguments, each| lines.load_lines(caller, arguments, each)))),
            (PARSE, Body::Rows(Arc::new(move |caller, arguments, each| parsing.parse_protobuf(caller, arguments, each)))),
            (WRITE, Body::Rows(Arc::new(move |caller, arguments, each| writing.to_protobuf(caller, arguments, each)))),
            (
                "standing.wiretap",
                Body::Rows(Arc::new(move |caller, arguments, each| tap.wiretap(&graph, caller, arguments, each))),
            ),
        ];
        let declared = |(name, body): (&str, Body)| {
            let at_hand = [PARSE, WRITE].contains(&name);
            Some(Arc::new(Procedure { at_hand, ..procedures::declared(name, body)? }))
        };
        brought.into_iter().filter_map(declared).collect()
    }

    fn load_csv(&self, caller: &dyn Caller, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let [Value::Text(location), Value::Boolean(headers), Value::Text(separator)] = arguments else { return Ok(()) };
        let [separator] = separator.as_bytes() else {
            return Err(failed(format!("FIELDTERMINATOR takes one character of ASCII, but got '{separator}'")));
        };
        self.load(location, Form::Csv { separator: *separator, headers: *headers }, caller, each)
    }

    fn load_lines(&self, caller: &dyn Caller, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let [Value::Text(location)] = arguments else { return Ok(()) };
        self.load(location, Form::JsonLines, caller, each)
    }

    fn load(&self, location: &str, form: Form, caller: &dyn Caller, each: Each) -> Result<(), Failure> {
        let mut fetch = Fetch::open(location, form, &self.files, &self.hosts).map_err(|error| failed(chain(&error)))?;
        let mut values = Vec::new();
        while fetch.next(&mut values).map_err(|error| failed(chain(&error)))? {
            caller.check()?;
            for value in values.drain(..) {
                if each(&[value])?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn parse_protobuf(&self, caller: &dyn Caller, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let [bytes, Value::Text(url), Value::Text(name)] = arguments else { return Ok(()) };
        let message = self.message(caller, PARSE, url, name)?;
        let map = match bytes {
            Value::Bytes(bytes) => message.decode(bytes, &Wanted::All).ok(),
            _ => None,
        };
        each(&[map.map_or(Value::Null, |map| Value::Map(Arc::new(map)))]).map(|_| ())
    }

    fn to_protobuf(&self, caller: &dyn Caller, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let [value, Value::Text(url), Value::Text(name)] = arguments else { return Ok(()) };
        let (message, mut bytes) = (self.message(caller, WRITE, url, name)?, Vec::new());
        let encoded = match value {
            Value::Map(map) => message.encode(map, caller.ids(), &mut bytes).is_ok(),
            _ => false,
        };
        each(&[if encoded { Value::Bytes(bytes.into()) } else { Value::Null }]).map(|_| ())
    }

    fn message(&self, caller: &dyn Caller, procedure: &str, url: &str, name: &str) -> Result<MessageType, Failure> {
        let known = match caller.may_fetch() {
            true => schema::message(url, name, &self.files, &self.hosts).map(Some),
            false => schema::message_at_hand(url, name, &self.files),
        };
        known.map_err(|error| failed(chain(&error)))?.ok_or_else(|| Failure::would_fetch(procedure))
    }

    fn app(&self) -> Result<Arc<App>, Failure> {
        self.app.get().and_then(Weak::upgrade).ok_or_else(|| failed("weir is starting or stopping"))
    }

    fn running(&self, each: Each) -> Result<(), Failure> {
        for running in self.app()?.queries.register.list() {
            let shown = json::parse(running.to_json().to_string().as_bytes()).map_err(|error| failed(error.to_string()))?;
            let Value::Map(shown) = &shown else { continue };
            let row = RUNNING_COLUMNS.map(|column| shown.get(column).cloned().unwrap_or_default());
            if each(&row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn terminate(&self, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let ids = match arguments {
            [Value::List(ids)] => ids.to_vec(),
            others => others.to_vec(),
        };
        let app = self.app()?;
        for id in ids {
            let id = match id {
                Value::Text(text) => text,
                Value::Integer(n) => n.to_string().into(),
                other => return Err(failed(format!("The id of a query is a text or an integer, but got {}", other.shown()))),
            };
            let ended = id.parse().ok().and_then(|id| app.queries.register.cancel(id));
            let message = if ended.is_some() { "It is told to end" } else { "No query with this id runs" };
            let query = ended.map_or(Value::Null, |running| Value::text(&running.shown()));
            if each(&[Value::Text(id), query, Value::text(message)])?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn show(&self, graph: &str, schema: &Schema, each: Each) -> Result<(), Failure> {
        let graph = self.app()?.engine.graph(graph).ok_or_else(|| failed("the graph is gone"))?;
        let mut taken = Ok(());
        let shown = graph.run_schema(schema, &mut |row| {
            each(row).unwrap_or_else(|failure| {
                taken = Err(failure);
                ControlFlow::Break(())
            })
        });
        taken.and_then(|()| shown.map_err(|error| failed(chain(&error))))
    }

    fn wiretap(&self, graph: &str, caller: &dyn Caller, arguments: &[Value], each: Each) -> Result<(), Failure> {
        let (name, id) = match arguments.first() {
            Some(Value::Map(options)) => (options.get("name").cloned(), options.get("id").cloned()),
            _ => (None, None),
        };
        let app = self.app()?;
        let graph = app.engine.graph(graph).ok_or_else(|| failed("the graph is gone"))?;
        let query = match (name, id) {
            (Some(Value::Text(name)), None) => {
                app.standing.get(&graph, &name).ok_or_else(|| failed(format!("Cannot find standing query with name `{name}`")))?
            }
            (None, Some(Value::Text(text))) => {
                let id = IdScheme::Uuid.parse(&text);
                let id = id.ok_or_else(|| failed(format!("Expected standing query ID to be UUID, but got `{text}`")))?;
                let found = app.standing.list(&graph).into_iter().find(|query| query.id.0 == id);
                found.ok_or_else(|| failed(format!("Cannot find standing query with id `{text}`")))?
            }
            _ => return Err(failed("One of `name` or `id` needs to be specified")),
        };
        let mut results = query.tail.overhear();
        let encoder = Encoder { envelope: Envelope::WithMetadata, generation: Generation::V1, ids: query.ids() };
        // The query may end, and weir with it, while nobody holds them for our sake.
        drop((query, graph, app));
        loop {
            caller.check()?;
            let results = match results.look() {
                Some(News::Results(results)) => {
                    // What follows may read what the results tell of.
                    results.last().map_or(Ok(()), |last| caller.move_on(last.place.tick))?;
                    results
                }
                Some(News::Lost(..)) => return Err(failed("The rows were taken too slowly: some results are not kept any more")),
                Some(News::Ended) => return Ok(()),
                None => {
                    caller.rest();
                    std::thread::sleep(NAP);
                    continue;
                }
            };
            for result in results {
                let row = json::parse(result.event(&encoder).data.as_bytes()).map_err(|error| failed(error.to_string()))?;
                let part = |key: &str| match &row {
                    Value::Map(map) => map.get(key).cloned().unwrap_or_default(),
                    _ => Value::Null,
                };
                if each(&[part("data"), part("meta")])?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Runtime, message)
}
