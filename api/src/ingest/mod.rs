//! Ingest streams: created, listed, paused, ended, and brought back after a restart.
//!
//! Owns which streams there are, and what a definition says. What one stream is stands in `stream`, how its records travel in
//! `pump`. Does not know any particular source, nor HTTP.

mod again;
mod errors;
mod limit;
mod pump;
mod stream;
mod transformation;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::Value as Json;
use weir_connectors::thread::side_by_side;
use weir_connectors::{ConnectorError, SOURCES, SourceConfig, SourceContext, secret, shown_position};
use weir_engine::{Engine, Graph};
use weir_model::lock::lock;
use weir_model::plan::Operator;
use weir_model::{Plan, Position};

pub use errors::ErrorHandling;
pub use stream::{Status, Stream};
pub use transformation::Transformation;

use self::stream::{Life, Stored};
use crate::clock;
use crate::error::{ApiError, both, chain};
use crate::procedures::{Preparing, Procedures};
use crate::wire::decode::{Mistakes, refuse_elsewhere};
use crate::wire::family::Family;

/// Sources of the reference service that are not here.
const SOURCES_ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "KafkaIngest",
    #[cfg(not(feature = "aws"))]
    "KinesisIngest",
    #[cfg(not(feature = "aws"))]
    "KinesisKCLIngest",
    "PulsarIngest",
    #[cfg(not(feature = "aws"))]
    "SQSIngest",
    #[cfg(not(feature = "aws"))]
    "S3Ingest",
];

/// What a stream is called in errors.
pub const WHAT: &str = "ingest stream";

/// What whoever makes a stream is told where its query visits every node for each record.
pub const SCANS: &str =
    "the query of the ingest stream visits every node for each record; give it an anchor: id(n) = idFrom($that.key)";

/// What whoever makes a stream is told where a record may come again and the query then changes more than it did.
pub const ADDS: &str = "a record of this source may come again after a kill, and what the query of the ingest stream creates, or adds to what is \
    there, it then creates or adds once more; match nodes by an id from the record, id(n) = idFrom($that.key), and set what it says";

/// Streams that rest are ended so many at a time. They only wait.
const ENDING_MAX: usize = 256;

/// What its query is called in errors.
const QUERY: &str = "the query of an ingest stream";

/// Refuses a command about indexes or rules of expiry where a query runs for each of many: it would do nothing, or fail, for all
/// but the first.
pub fn check_no_command(plan: &Plan, whose: &str) -> Result<(), ApiError> {
    match plan.root {
        Operator::Schema(_) => Err(ApiError::bad(format!(
            "The query of {whose} cannot be a command about indexes or rules of expiry; run that once, as a query of its own"
        ))),
        _ => Ok(()),
    }
}

pub struct Ingests {
    engine: Engine,
    context: SourceContext,
    procedures: Arc<Procedures>,
    streams: Mutex<BTreeMap<(String, String), Arc<Stream>>>,
    /// What the counts of the streams lack for those of this process: records of streams that were deleted, less (so it wraps)
    /// what came in earlier processes. Changes with `streams`.
    records_besides: AtomicU64,
    /// What there is changes one at a time. Nothing is waited for under it: neither the world nor the store, whose disk may be
    /// stuck, nor the end of a stream. True once weir stops: then none begins any more.
    changing: Mutex<bool>,
}

impl Ingests {
    pub fn new(engine: Engine, context: SourceContext, procedures: Arc<Procedures>) -> Ingests {
        Ingests {
            engine,
            context,
            procedures,
            streams: Mutex::default(),
            records_besides: AtomicU64::default(),
            changing: Mutex::default(),
        }
    }

    /// Creates a stream and starts it. Its name is taken first. The definition is stored before it begins: a crash leaves no
    /// stream, or one that can go on.
    pub fn create(&self, graph: &Graph, name: &str, definition: &Json) -> Result<Arc<Stream>, ApiError> {
        let definition = read(definition)?;
        let text = definition.config.query().map_or(Ok(()), |query| self.procedures.check_text(query.text));
        both(text, definition.transformation.check())?;
        let free = || match self.get(graph, name) {
            Some(_) => {
                Err(ApiError::bad(format!("Cannot create ingest stream `{name}` (a stream with this name already exists)")))
            }
            None => Ok(()),
        };
        free()?;
        let source = format!("{name}#{}", clock::millis(SystemTime::now()));
        let preparing = Preparing::new(graph, &self.procedures);
        let stream = Stream::new(preparing, name, source, definition, Life::first(Status::Running))?;
        // Not when it is restored: an earlier version took it, and it is to be seen why its records fail.
        check_no_command(&stream.query.plan, "an ingest stream")?;
        secret::check(|| stream.config.stored()).map_err(refused)?;
        stream.config.check(&SourceContext { stream: name.to_owned(), ..self.context.clone() }).map_err(refused)?;
        stream.errors.check(&stream.source, &*stream.config, stream.graph.ids(), &self.context).map_err(refused)?;
        // Servers may have been asked meanwhile.
        let one = self.turn()?;
        graph.stays()?;
        free()?;
        self.keep(stream.clone());
        drop(one);
        if let Err(error) = self.store(&stream) {
            let one = lock(&self.changing);
            stream.stop();
            drop(one);
            // Whoever found it meanwhile may have started it, and stored it. The error is the one that is told.
            let _ = self.end_and_forget(&stream);
            self.let_go(&stream);
            return Err(error);
        }
        // Somebody may have paused or deleted it by now. Where weir stops, it begins with the next start.
        if let Ok(_one) = self.turn()
            && !stream.is_stopping()
            && stream.status() == Status::Running
        {
            stream.run(&self.engine, &self.context);
        }
        if stream.adds_again() {
            tracing::warn!(ingest = name, "{ADDS}");
        }
        Ok(stream)
    }

    /// What is wrong with a stream as v2 sends it, and with its query.
    pub fn with_the_query(&self, error: ApiError, graph: &Graph, body: &Json) -> ApiError {
        let runs = error.is_of_request() && body["source"]["format"]["type"] != "Drop";
        let Some(text) = body["query"].as_str().filter(|_| runs) else { return error };
        let parameter = body["parameter"].as_str().unwrap_or("that");
        let preparing = Preparing::new(graph, &self.procedures);
        match self.procedures.check_text(text).and_then(|()| preparing.compile(text, parameter, QUERY)) {
            Ok(_) => error,
            Err(wrong) => error.and(wrong),
        }
    }

    /// Brings back what was there before a restart. With `resume`, streams that ran go on where they stood.
    pub fn restore(&self, resume: bool) -> Result<(), ApiError> {
        for graph in self.engine.graphs().iter().filter_map(|name| self.engine.graph(name)) {
            for (key, stored) in self.engine.metadata_list(&key(&graph, ""))? {
                match self.revive(&graph, &stored, resume) {
                    Ok(stream) => {
                        self.records_besides.fetch_sub(stream.ingested(), Ordering::Relaxed);
                        self.keep(stream.clone());
                        if stream.status() == Status::Running {
                            stream.run(&self.engine, &self.context);
                        }
                    }
                    Err(error) => tracing::error!("the ingest stream stored as '{key}' cannot be restored: {error}"),
                }
            }
        }
        Ok(())
    }

    fn revive(&self, graph: &Graph, stored: &[u8], resume: bool) -> Result<Arc<Stream>, ApiError> {
        let stored: Json = serde_json::from_slice(stored).map_err(|error| ApiError::Failed(error.to_string()))?;
        let text = |field: &str| stored[field].as_str().unwrap_or_default();
        let before = Status::ALL.into_iter().find(|status| status.name() == text("status")).unwrap_or(Status::Restored);
        let status = match before {
            Status::Running | Status::Restored if resume => Status::Running,
            Status::Running => Status::Restored,
            other => other,
        };
        let definition = read_again(&stored["settings"])?;
        // Of one that an earlier version stored nothing is known.
        let past = Stored::deserialize(&stored["past"]).unwrap_or_default();
        let life = Life { status, message: stored["message"].as_str().map(str::to_owned), past };
        let (preparing, source) = (Preparing::again(graph, &self.procedures), text("source").to_owned());
        let stream = Stream::new(preparing, text("name"), source, definition, life)?;
        if status.is_terminal() {
            stream.freeze();
        }
        Ok(stream)
    }

    pub fn get(&self, graph: &Graph, name: &str) -> Option<Arc<Stream>> {
        lock(&self.streams).get(&(graph.name().to_owned(), name.to_owned())).cloned()
    }

    /// By name.
    pub fn list(&self, graph: &Graph) -> Vec<Arc<Stream>> {
        lock(&self.streams).iter().filter(|((of, _), _)| of == graph.name()).map(|(_, stream)| stream.clone()).collect()
    }

    /// A position as people are shown it. `source` is what the engine knows the stream by, which may be gone: another one of its
    /// name says nothing of it.
    pub fn shown_position(&self, graph: &Graph, source: &str, position: &Position) -> Json {
        let stream = self.get(graph, stream_name(source)).filter(|stream| stream.source == source);
        shown_position(stream.as_ref().map(|stream| &*stream.config), position)
    }

    /// How many records came from all streams since the start, those that were deleted included.
    pub fn records(&self) -> u64 {
        let streams = lock(&self.streams);
        let there: u64 = streams.values().map(|stream| stream.ingested()).sum();
        there.wrapping_add(self.records_besides.load(Ordering::Relaxed))
    }

    /// Holds a stream. Nothing more of it takes effect when this has returned, or has waited for long.
    pub fn pause(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        let one = self.turn()?;
        self.still_there(stream)?;
        stream.set_running(false)?;
        drop(one);
        self.store(stream)?;
        stream.wait_until_committed();
        Ok(())
    }

    /// Lets a stream go on where it stood: one that was paused, brought back, or failed.
    pub fn start(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        let one = self.turn()?;
        self.still_there(stream)?;
        if stream.status() == Status::Failed {
            stream.begin_again();
        }
        stream.set_running(true)?;
        stream.run(&self.engine, &self.context);
        drop(one);
        self.store(stream)
    }

    /// Ends a stream, waits for it, and forgets it. Answers with it as it ended.
    pub fn delete(&self, graph: &Graph, name: &str) -> Result<Option<Arc<Stream>>, ApiError> {
        let one = lock(&self.changing);
        let Some(stream) = self.get(graph, name) else { return Ok(None) };
        stream.stop();
        drop(one);
        // As long as it is there nobody creates another one of its name.
        self.end_and_forget(&stream)?;
        self.let_go(&stream);
        Ok(Some(stream))
    }

    /// The end of a stream that was told to stop.
    fn end_and_forget(&self, stream: &Stream) -> Result<(), ApiError> {
        stream.join();
        stream.end(Status::Terminated, None);
        Ok(stream.forget(&self.engine)?)
    }

    /// Ends the streams of a graph that is being left, and forgets them: no new one comes.
    pub fn delete_all(&self, graph: &Graph) -> Result<(), ApiError> {
        let one = lock(&self.changing);
        let streams = self.list(graph);
        streams.iter().for_each(|stream| stream.stop());
        drop(one);
        end_resting(&streams);
        streams.iter().try_for_each(|stream| self.delete(graph, &stream.name).map(drop))
    }

    /// The turn of whoever begins or holds a stream. None comes once weir stops, which ends the streams that it finds then.
    fn turn(&self) -> Result<MutexGuard<'_, bool>, ApiError> {
        let stops = lock(&self.changing);
        if *stops { Err(ApiError::stopping()) } else { Ok(stops) }
    }

    fn is_there(&self, stream: &Arc<Stream>) -> bool {
        self.get(&stream.graph, &stream.name).is_some_and(|there| Arc::ptr_eq(&there, stream))
    }

    /// Refuses a stream that was deleted meanwhile, or is about to be: it would be stored again.
    fn still_there(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        if self.is_there(stream) && !stream.is_stopping() { Ok(()) } else { Err(ApiError::absent(WHAT, &stream.name)) }
    }

    /// Weir stops: every stream hands in what it has read, as far as that takes no longer than `FINISH_TIME_MAX`, and ends. Their
    /// status is as it was, so that they come back.
    pub fn shut_down(&self) {
        let streams: Vec<_> = {
            let mut stops = lock(&self.changing);
            *stops = true;
            lock(&self.streams).values().cloned().collect()
        };
        streams.iter().for_each(|stream| stream.stop());
        end_resting(&streams);
        for stream in streams {
            stream.join();
            // The end of one that has ended is stored.
            if !stream.status().is_terminal()
                && let Err(error) = self.store(&stream)
            {
                tracing::warn!(ingest = stream.name, "how much it has read could not be stored: {error}");
            }
        }
    }

    fn keep(&self, stream: Arc<Stream>) {
        lock(&self.streams).insert((stream.graph.name().to_owned(), stream.name.clone()), stream);
    }

    /// It is not there any more. Somebody else may have said so, too, and yet another one created one of its name.
    fn let_go(&self, stream: &Arc<Stream>) {
        let _one = lock(&self.changing);
        if self.is_there(stream) {
            let mut streams = lock(&self.streams);
            streams.remove(&(stream.graph.name().to_owned(), stream.name.clone()));
            self.records_besides.fetch_add(stream.ingested(), Ordering::Relaxed);
        }
    }

    fn store(&self, stream: &Stream) -> Result<(), ApiError> {
        Ok(stream.store(&self.engine)?)
    }
}

/// Ends what streams that are to end are while they rest, side by side: each client of Kafka waits for a broker that may be away.
fn end_resting(streams: &[Arc<Stream>]) {
    let resting: Vec<_> = streams.iter().filter_map(|stream| stream.take_resting()).collect();
    side_by_side("end streams", resting, ENDING_MAX, drop);
}

/// The settings of a stored stream as they may be shown: secrets masked. None where they cannot be read.
pub fn shown(settings: &Json) -> Option<Json> {
    let mut shown = parse(settings).ok()?.settings();
    ErrorHandling::decode(settings).ok()?.show(&mut shown, Family::Current);
    Transformation::read(settings).ok()?.show(&mut shown);
    Some(shown)
}

/// The name of a stream, of what the engine knows its source by: behind it stands when the stream was created.
pub fn stream_name(source: &str) -> &str {
    source.rsplit_once('#').map_or(source, |(name, _)| name)
}

/// What a definition says of the source, of failures, and of records before their query.
struct Definition {
    config: Box<dyn SourceConfig>,
    errors: ErrorHandling,
    transformation: Transformation,
}

fn read(definition: &Json) -> Result<Definition, ApiError> {
    let rest = both(ErrorHandling::read(definition), Transformation::read(definition));
    let (config, (errors, transformation)) = both(parse(definition), rest)?;
    Ok(Definition { config, errors, transformation })
}

/// As `read`, for a stored definition. What it refers to may be gone: the stream says so when it runs, and goes on when it is
/// back.
fn read_again(definition: &Json) -> Result<Definition, ApiError> {
    Ok(Definition {
        config: parse(definition)?,
        errors: ErrorHandling::decode(definition)?,
        transformation: Transformation::read(definition)?,
    })
}

fn parse(definition: &Json) -> Result<Box<dyn SourceConfig>, ApiError> {
    let known: Vec<&str> = SOURCES.iter().map(|row| row.name_v1).collect();
    let mut mistakes = Mistakes::default();
    refuse_elsewhere(definition, "source", SOURCES_ELSEWHERE, &known, &mut mistakes);
    mistakes.or(Some(())).map_err(ApiError::Decode)?;
    weir_connectors::parse_source_v1(definition).map_err(refused)
}

/// Where a definition is stored: with its graph, so that it goes when the graph does.
fn key(graph: &Graph, name: &str) -> String {
    format!("{}ingest/{name}", graph.id().metadata_prefix())
}

/// A definition that cannot work, in the words clients know.
pub fn refused(error: ConnectorError) -> ApiError {
    match error {
        ConnectorError::Config { field, problem } if field.is_empty() => {
            ApiError::Decode(vec![format!("DecodingFailure at : {problem}")])
        }
        ConnectorError::Config { field, problem } => ApiError::Decode(vec![format!("DecodingFailure at .{field}: {problem}")]),
        other => ApiError::bad(chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// As the client of a stream whose broker is away.
    struct EndsSlowly;

    impl Drop for EndsSlowly {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[test]
    fn streams_that_rest_are_ended_side_by_side() {
        let begun = Instant::now();
        side_by_side("end streams", (0..200).map(|_| EndsSlowly).collect(), ENDING_MAX, drop);
        assert!(begun.elapsed() < Duration::from_secs(10), "one after another: {:?}", begun.elapsed());
    }
}
