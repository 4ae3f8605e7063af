//! Standing queries: created, listed, watched, dropped, and brought back after a restart.
//!
//! Owns what is remembered of a query and the threads that take results to the outputs. How a pattern is maintained
//! is the engine's affair, what an output does is in `outputs`.
//!
//!     query     one standing query as it runs
//!     check     whether a request can be met
//!     stored    what is stored of a query, and brought back after a restart
//!     since     one that begins as of a past moment
//!     watch     queries that have few results, looked after by one thread
//!     hand_out  the thread of one that has many
//!     follow    whoever follows the results
//!     status    a query as the API shows it
//!     change    an output is given another definition
//!     replace   a query is given another pattern
//!     parked    outputs that cannot be opened, tried again until they can
//!     drain     a query is deleted, and what it has found still goes out
//!     end       queries and outputs that end at the same time
//!     turns     one change of a query at a time

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use weir_cypher_compiler::valueless;
use weir_engine::{Engine, Graph, Row, Standing, Start};
use weir_model::lock::lock;
use weir_model::{IdScheme, NodeId, Plan, QueryId};

use crate::error::ApiError;
use crate::live::LiveState;
use crate::outputs::{Lane, Link, Named, Opened};
use crate::procedures::Procedures;
use crate::wire::standing::{Output, StandingSettings, StartFrom};

mod query;
mod check;
mod stored;
mod since;
mod watch;
mod hand_out;
mod follow;
mod status;
mod change;
mod replace;
pub mod parked;
mod drain;
mod end;
mod turns;
#[cfg(test)]
mod full_store;
pub use check::compiled_text;
use check::{check_free, goes_on, together};
use drain::end_deleted;
use end::{end_queries, is_stuck, is_tried_again};
pub use follow::{Follower, News};
pub use query::Query;
use query::frontier;
use stored::{Definition, key};
use turns::{Turn, Turns};
use watch::{QueriesByName, Watch};

/// How soon the thread of a query sees that its graph has been looked through.
const LOOK: Duration = Duration::from_millis(50);

/// How long the thread of a query waits for results once its graph has been looked through, and how often queries that rest are
/// looked at. Who has other news for a query rouses it.
const WAIT: Duration = Duration::from_millis(250);

/// When nothing comes in, and no result has come for this long, everything that was found has been handed over.
const QUIET: Duration = Duration::from_millis(100);

/// How long outputs that are dropped or changed may take to deliver what they have.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// Queries that an error names, at most.
const NAMED_MAX: usize = 10;

/// See `Query::until`.
const HOLD: u64 = 0;
const SWITCHES: u64 = u64::MAX - 1;

pub struct StandingQueries {
    engine: Engine,
    procedures: Arc<Procedures>,
    runtime: Handle,
    queries: Arc<QueriesByName>,
    watch: Arc<Watch>,
    /// Creating, changing and dropping, one at a time for each query.
    turns: Turns,
    /// Weir stops.
    stops: AtomicBool,
    /// Where those are stored that could not be restored.
    unrestored: Mutex<BTreeSet<String>>,
    parked: Arc<Notify>,
}

impl StandingQueries {
    /// To be called within the runtime that waits for the network.
    pub fn new(engine: Engine, live: Arc<LiveState>, procedures: Arc<Procedures>, chain_max: u32) -> StandingQueries {
        let (runtime, queries) = (Handle::current(), Arc::default());
        let watch = Watch::start(live, chain_max, &queries);
        let (turns, stops, unrestored, parked) = Default::default();
        StandingQueries { engine, procedures, runtime, queries, watch, turns, stops, unrestored, parked }
    }

    /// Creates a query; matches that exist already are held back until `propagate`, or told at once where that is `asked` for
    /// already.
    ///
    /// The definition is stored first, as one that is being created; a crash before the end leaves nothing of it, since
    /// nobody was told that it exists. Answers with what whoever creates it should look at, too: what of it never has a value.
    pub fn create(
        &self,
        graph: &Graph,
        name: &str,
        mut settings: StandingSettings,
        asked: bool,
    ) -> Result<(Arc<Query>, Vec<String>), ApiError> {
        let plan = match self.checked(graph, &mut settings.pattern) {
            Ok(compiled) => compiled.plan,
            Err(error) => return Err(self.with_outputs(error, graph, &[], &settings.outputs)),
        };
        let doubts = valueless(&plan, graph.ids());
        let links = self.links(graph, &[], &settings.outputs)?;
        let then = self.answer_then(graph, &settings)?;
        let _one = self.turns.of(graph, name, "created")?;
        graph.stays()?;
        self.check_goes_on()?;
        if self.get(graph, name).is_some() {
            return Err(ApiError::bad(format!("There is already a standing query named '{name}'")));
        }
        if self.is_unrestored(graph, name) {
            return Err(ApiError::bad(format!(
                "There is already a standing query named '{name}', which could not be restored when weir was started (its \
                 log says why); delete it first to make it anew"
            )));
        }
        let id = fresh_query_id(graph);
        let opened = self.open_all((id, name), graph.ids(), &settings.outputs, links)?;
        let changes = BTreeMap::new();
        let definition = Definition { name, id, installation: id, settings: &settings, changes: &changes };
        self.store(graph, &definition, "creating")?;
        let start = match settings.start {
            StartFrom::Now if !asked => Start::Now,
            StartFrom::Now | StartFrom::WholeGraph => Start::WholeGraph,
            StartFrom::Moment(_) => Start::Summed,
        };
        let installed = self.install(graph, &definition, plan, Begin::New { start, opened, then });
        let created = installed.and_then(|query| {
            let stored = self.check_goes_on().and_then(|()| self.store_installed(&query, &query.settings()));
            let Err(error) = stored else { return Ok(query) };
            // It would be gone at the next start.
            lock(&self.queries).remove(&(graph.name().to_owned(), name.to_owned()));
            end_queries(&[query], |_| Instant::now());
            graph.drop_standing(id);
            Err(error)
        });
        // What is wrong is why it was not created. Where this is left, the next start takes it away.
        if created.is_err()
            && let Err(error) = self.engine.set_metadata(&key(graph, name), None)
        {
            tracing::warn!(
                query = name,
                "what was stored of a query that was not created stays until weir starts again: {error}"
            );
        }
        let query = created?;
        tell_doubts(name, &doubts);
        Ok((query, doubts))
    }

    /// Opens outputs, in the order of their definitions, before anything is kept of one of them.
    fn open_all(
        &self,
        (id, query): (QueryId, &str),
        ids: IdScheme,
        outputs: &[(String, Output)],
        mut links: Vec<(String, Link)>,
    ) -> Result<Vec<(String, Opened)>, ApiError> {
        // Files last, and none where another output cannot be opened: one that is made stays there.
        links.sort_by_key(|(name, _)| outputs.iter().any(|(other, output)| other == name && is_file(output)));
        let mut opened: Vec<(String, Opened)> = Vec::new();
        let mut problems = Vec::new();
        for (name, link) in links {
            let Some((_, output)) = outputs.iter().find(|(other, _)| *other == name) else { continue };
            if !problems.is_empty() && is_file(output) {
                break;
            }
            match Opened::open(id, Named { query, output: &name }, link, ids, None, &self.runtime) {
                Ok(output) => opened.push((name, output)),
                Err(error) => {
                    if !goes_on(&mut problems, (name, output), error)? {
                        break;
                    }
                }
            }
        }
        if let Some(error) = together(problems) {
            return Err(error);
        }
        opened.sort_by_key(|(name, _)| outputs.iter().position(|(other, _)| other == name));
        Ok(opened)
    }

    fn install(&self, graph: &Graph, definition: &Definition<'_>, plan: Plan, begin: Begin) -> Result<Arc<Query>, ApiError> {
        let &Definition { name, installation, settings, changes, .. } = definition;
        let outputs = settings.outputs.iter().map(|(name, _)| frontier(name, changes.get(name).copied())).collect();
        let cancellations = settings.include_cancellations;
        let start = if let Begin::New { start, .. } = &begin { *start } else { Start::Resume };
        let standing = Standing { id: installation, plan, cancellations, start, outputs };
        let begins = if start == Start::Resume { graph.known_end() } else { graph.next() };
        let installed = graph.install_named(name, standing)?;
        let query = Arc::new(Query::new(graph, definition, installed, begins, self.watch.clone()));
        let started = match begin {
            Begin::New { start, opened, then } => query.sum_up(start, then).and_then(|()| query.start_outputs(opened)),
            Begin::Again => self.reopen(&query, settings),
        };
        if let Err(error) = started.and_then(|()| query.begin()) {
            end_queries(&[query], |_| Instant::now());
            match start {
                Start::Resume => graph.put_standing_off(installation),
                _ => graph.drop_standing(installation),
            }
            return Err(error);
        }
        lock(&self.queries).insert((graph.name().to_owned(), name.to_owned()), query.clone());
        Ok(query)
    }

    /// To be asked of a query that is in the list already: where weir does not stop, its end finds the query there.
    fn check_goes_on(&self) -> Result<(), ApiError> {
        if self.stops.load(Ordering::SeqCst) { Err(ApiError::stopping()) } else { Ok(()) }
    }

    pub fn get(&self, graph: &Graph, name: &str) -> Option<Arc<Query>> {
        lock(&self.queries).get(&(graph.name().to_owned(), name.to_owned())).cloned()
    }

    /// By name.
    pub fn list(&self, graph: &Graph) -> Vec<Arc<Query>> {
        lock(&self.queries).iter().filter(|((of, _), _)| of == graph.name()).map(|(_, query)| query.clone()).collect()
    }

    /// False when somebody else was faster.
    pub fn delete(&self, query: &Arc<Query>) -> Result<bool, ApiError> {
        // Another pattern that is about to take its place waits for its outputs for long.
        query.set_leaving(true);
        let deleted = self.turns.of(&query.graph, &query.name, "deleted").and_then(|_one| {
            let is_there = self.is_known(query);
            if is_there {
                self.delete_these(std::slice::from_ref(query), query.graph.stays().is_ok())?;
            }
            Ok(is_there)
        });
        query.set_leaving(false);
        deleted
    }

    /// Deletes the queries of a graph that is being left: no new one comes. There may be many: what their outputs were not handed
    /// yet goes with them. `first` something else is done, once nobody changes one of them: who waits for that in vain has ended
    /// nothing.
    pub fn delete_all(&self, graph: &Graph, first: impl FnOnce() -> Result<(), ApiError>) -> Result<(), ApiError> {
        let set_leaving = |leaves| self.list(graph).iter().for_each(|query| query.set_leaving(leaves));
        set_leaving(true);
        let deleted = self.turns.of_all(graph, "deleted").and_then(|_all| {
            first()?;
            self.delete_these(&self.list(graph), false)
        });
        set_leaving(false);
        deleted
    }

    /// To be called by whoever has the turn of all of them. Where one stays as it cannot be forgotten, so do those behind it.
    fn delete_these(&self, queries: &[Arc<Query>], drains: bool) -> Result<(), ApiError> {
        let forget = |query: &Arc<Query>| -> Result<(), ApiError> {
            self.engine.set_metadata(&key(&query.graph, &query.name), None)?;
            lock(&self.queries).remove(&(query.graph.name().to_owned(), query.name.clone()));
            Ok(())
        };
        let mut forgotten = 0;
        let all = queries.iter().try_for_each(|query| forget(query).map(|()| forgotten += 1));
        let gone = &queries[..forgotten];
        // Their threads first: the end of a query is a tick that never becomes durable, which nobody should wait for.
        end_deleted(gone, drains);
        gone.iter().for_each(|query| query.graph.drop_standing(query.installed().id()));
        all
    }

    fn is_known(&self, query: &Arc<Query>) -> bool {
        self.get(&query.graph, &query.name).is_some_and(|there| Arc::ptr_eq(&there, query))
    }

    fn check_known(&self, query: &Arc<Query>) -> Result<(), ApiError> {
        if self.is_known(query) { Ok(()) } else { Err(ApiError::absent("standing query", &query.name)) }
    }

    /// The turn of whoever changes a query that is there: `what` is done with it. What counts is what it says from then on.
    /// Whoever found it may have waited while it was deleted: what is stored of it then would bring it back with the next start.
    fn turn(&self, query: &Arc<Query>, what: &'static str) -> Result<Turn<'_>, ApiError> {
        let turn = self.turns.of(&query.graph, &query.name, what)?;
        self.check_known(query)?;
        Ok(turn)
    }

    /// The outputs get the results from here on.
    pub fn add_outputs(&self, query: &Arc<Query>, outputs: Vec<(String, Output)>) -> Result<(), ApiError> {
        // What is looked up for them, as a region or a schema, may take seconds, and nobody else should wait for that.
        self.check_known(query)?;
        let links = self.links(&query.graph, &query.settings().outputs, &outputs)?;
        let _one = self.turn(query, "given outputs")?;
        check_free(&query.settings().outputs, &outputs)?;
        self.add_linked(query, outputs, links)
    }

    /// All of them or none, each with its link.
    fn add_linked(&self, query: &Arc<Query>, outputs: Vec<(String, Output)>, links: Vec<(String, Link)>) -> Result<(), ApiError> {
        let opened = self.open_all((query.id, &query.name), query.graph.ids(), &outputs, links)?;
        let mut settings = query.settings();
        settings.outputs.extend(outputs);
        // Where they begin is stored before their definitions: one without the other would be given the whole past.
        let (installed, from) = (query.installed(), query.graph.next());
        let mut each = opened.iter();
        let begun = each.try_for_each(|(name, output)| installed.put_output(&query.frontier(name), from, output.position()));
        if let Err(error) = begun.map_err(ApiError::from).and_then(|()| self.store_installed(query, &settings)) {
            opened.iter().for_each(|(name, _)| installed.remove_output(&query.frontier(name)));
            return Err(error);
        }
        *lock(&query.settings) = settings;
        query.start_all(opened)
    }

    /// Removes the outputs of that name, or of the workflow of that name: all of them or, after an error or a crash, none. None
    /// when there are none.
    pub fn remove_output(&self, query: &Arc<Query>, name: &str) -> Result<Vec<(String, Output)>, ApiError> {
        let _one = self.turn(query, "relieved of an output")?;
        let mut settings = query.settings();
        let is_meant = |(other, output): &(String, Output)| other == name || output.workflow() == Some(name);
        let (removed, kept) = settings.outputs.into_iter().partition::<Vec<_>, _>(is_meant);
        settings.outputs = kept;
        if removed.is_empty() {
            return Ok(removed);
        }
        self.store_installed(query, &settings)?;
        *lock(&query.settings) = settings;
        // Their last reports first: one that came later would bring its frontier back, and the log would be kept for nobody.
        query.close_outputs(|name| removed.iter().any(|(gone, _)| gone == name));
        removed.iter().for_each(|(name, _)| query.installed().remove_output(&query.frontier(name)));
        Ok(removed)
    }

    /// Holds results back from now on, summed up. One that is paused stays so.
    pub fn pause(&self, query: &Arc<Query>) -> Result<(), ApiError> {
        let _one = self.turn(query, "paused")?;
        query.check_begun()?;
        query.installed().pause()?;
        Ok(())
    }

    /// Hands out the difference that a pause has made, then what comes. One that is not paused stays so.
    pub fn resume(&self, query: &Arc<Query>) -> Result<(), ApiError> {
        let _one = self.turn(query, "resumed")?;
        query.installed().resume()?;
        query.rouse();
        Ok(())
    }

    /// Reports what matched when the queries were created. What was asked for comes, whatever happens to the process then.
    ///
    /// Where one is being changed for long, all others are asked all the same, and the error names it. Whoever asks again asks
    /// nobody twice.
    pub fn propagate(&self, graph: &Graph) -> Result<(), ApiError> {
        self.propagate_within(turns::PATIENCE, graph)
    }

    fn propagate_within(&self, patience: Duration, graph: &Graph) -> Result<(), ApiError> {
        let deadline = Instant::now() + patience;
        let ask = |query: &Arc<Query>, patience: Duration| -> Result<(), ApiError> {
            let _one = self.turns.of_within(patience, (graph.name(), &query.name), "asked for what it holds back")?;
            // One that was deleted meanwhile is not asked.
            if self.is_known(query) && query.installed().propagate()? {
                query.rouse();
            }
            Ok(())
        };
        // Those that nobody is at come first: what the others take is then no time of theirs.
        let mut busy = Vec::new();
        for query in self.list(graph) {
            match ask(&query, Duration::ZERO) {
                Err(ApiError::Busy { .. }) => busy.push(query),
                asked => asked?,
            }
        }
        let (mut left, mut why) = (Vec::new(), None);
        for query in busy {
            match ask(&query, deadline.saturating_duration_since(Instant::now())) {
                Err(ApiError::Busy { reason, seconds }) => {
                    left.push(format!("'{}'", query.name));
                    why.get_or_insert((reason, seconds));
                }
                asked => asked?,
            }
        }
        let Some((reason, seconds)) = why else { return Ok(()) };
        if let Some(unnamed) = left.len().checked_sub(NAMED_MAX).filter(|unnamed| *unnamed > 0) {
            left.truncate(NAMED_MAX);
            left.push(format!("and {unnamed} more"));
        }
        let told = "What these standing queries hold back was not asked for, unlike that of the others";
        Err(ApiError::Busy { reason: format!("{told}: {}. {reason}", left.join(", ")), seconds })
    }

    /// Waits until what was found has been delivered, as far as the time allows, and ends the outputs.
    pub fn shut_down(&self, deadline: Instant) {
        // Before the list is looked at, and without a turn: somebody may have theirs for longer than there is time.
        self.stops.store(true, Ordering::SeqCst);
        let queries: Vec<_> = lock(&self.queries).values().cloned().collect();
        // The outputs need some of the time to end in: what one holds is stored then, say.
        let handed_over_by = deadline.checked_sub(DROP_PATIENCE).unwrap_or(deadline);
        let mut quiet_since = Instant::now();
        let mut counted = 0;
        while quiet_since.elapsed() < QUIET && Instant::now() < handed_over_by {
            // What an output has been handed is waited for when it ends: one that is down must not take the time of all others,
            // nor with what it has no room for.
            let is_fed = |lane: &Arc<Lane>| lane.takes() && !lane.has_all() && !is_stuck(lane);
            let is_waiting = queries.iter().any(|query| query.unseen() > 0 || query.lanes().iter().any(is_fed));
            let count: u64 = queries.iter().map(|query| query.result_count()).sum();
            if is_waiting || count != counted {
                (counted, quiet_since) = (count, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // What is tried again comes after the next start. What only has no answer may yet be taken, and would then come twice.
        let soon = Instant::now() + DROP_PATIENCE;
        end_queries(&queries, |lane| if is_tried_again(lane) { deadline.min(soon) } else { deadline });
    }
}

/// How a query comes to be here.
enum Begin {
    /// With its outputs, and what its answer was at the moment it begins as of.
    New { start: Start, opened: Vec<(String, Opened)>, then: Vec<(Row, i64)> },
    /// It was there before a restart: its outputs are opened where they stood.
    Again,
}

/// Clients of v1, and whoever replaces a pattern, are told nowhere else.
fn tell_doubts(query: &str, doubts: &[String]) {
    doubts.iter().for_each(|doubt| tracing::warn!(query, "{doubt}"));
}

/// A random UUID whatever the scheme of the graph's own ids is.
fn fresh_query_id(graph: &Graph) -> QueryId {
    let (a, b) = (graph.fresh_id(), graph.fresh_id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let (high, low) = (a.high ^ b.low.rotate_left(17) ^ now, a.low ^ b.high.rotate_left(31));
    QueryId(NodeId::new(high & !0xf000 | 0x4000, low >> 2 | 1 << 63))
}

/// Whether its results go to a file.
fn is_file(output: &Output) -> bool {
    matches!(output.end(), Output::Destination(to) if to.config.stored()["path"].is_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use crossbeam_channel::{Receiver, Sender, bounded};
    use serde_json::{Value as Json, json};
    use weir_connectors::destination::Written;
    use weir_connectors::{
        ConnectorError, Destination, DestinationConfig, DestinationContext, Envelope, FilePolicy, HostPolicy, Outgoing, Retries,
    };
    use weir_cypher_compiler::Options as CompileOptions;
    use weir_engine::store::{InMemory, Store};
    use weir_engine::{GraphOptions, Options, ResultBatch, ResultRow};
    use weir_model::{Position, Tick, Value};

    use super::full_store::FullStore;
    use super::*;
    use crate::transfer::{Format, take_in};
    use crate::wire::family::Family;
    use crate::wire::letters::Refusals;
    use crate::wire::standing::{DestinationOutput, Workflow};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Less than two outputs are given that end one after another.
    const TOGETHER: Duration = Duration::from_secs(9);

    /// Says that it is asked, and hangs until somebody lets go.
    #[derive(Clone)]
    struct Hangs {
        asked: Sender<()>,
        goes_on: Receiver<()>,
    }

    impl DestinationConfig for Hangs {
        fn settings(&self) -> Json {
            json!({"type": "Hangs"})
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Destination for Hangs {
        fn write(&mut self, _: &[Outgoing], _: u64) -> Result<Written, ConnectorError> {
            let _ = self.asked.send(());
            let _ = self.goes_on.recv();
            Ok(Written::default())
        }
    }

    /// Nobody is there: all is tried again.
    struct Down;

    impl DestinationConfig for Down {
        fn settings(&self) -> Json {
            json!({"type": "Down"})
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Ok(Box::new(Down))
        }
    }

    impl Destination for Down {
        fn write(&mut self, _: &[Outgoing], _: u64) -> Result<Written, ConnectorError> {
            Err(ConnectorError::passing("down", "nobody is there".to_owned()))
        }
    }

    /// Says at its end whether it has time for that.
    #[derive(Clone)]
    struct Closes {
        in_time: Sender<bool>,
        stop: Arc<AtomicBool>,
    }

    impl DestinationConfig for Closes {
        fn settings(&self) -> Json {
            json!({"type": "Closes"})
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Destination for Closes {
        fn write(&mut self, _: &[Outgoing], _: u64) -> Result<Written, ConnectorError> {
            Ok(Written::default())
        }

        fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
            self.stop = stop.clone();
        }

        fn close(&mut self) -> Result<(), ConnectorError> {
            let _ = self.in_time.send(!self.stop.load(Ordering::Relaxed));
            Ok(())
        }
    }

    /// Has ended when as many others are about to.
    #[derive(Clone)]
    struct ClosesWithOthers(Arc<Barrier>);

    impl DestinationConfig for ClosesWithOthers {
        fn settings(&self) -> Json {
            json!({"type": "ClosesWithOthers"})
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Destination for ClosesWithOthers {
        fn write(&mut self, _: &[Outgoing], _: u64) -> Result<Written, ConnectorError> {
            Ok(Written::default())
        }

        fn close(&mut self) -> Result<(), ConnectorError> {
            self.0.wait();
            Ok(())
        }
    }

    /// Says that it is opened, and waits until it is told that the rest has been done.
    struct OpensLate {
        asked: Sender<()>,
        goes_on: Receiver<()>,
    }

    impl DestinationConfig for OpensLate {
        fn settings(&self) -> Json {
            json!({"type": "OpensLate"})
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            let is_told = self.asked.send(()).is_ok() && self.goes_on.recv_timeout(Duration::from_secs(20)).is_ok();
            let opened = is_told.then(|| Box::new(Down) as Box<dyn Destination>);
            opened.ok_or_else(|| ConnectorError::config("type", "nothing else was done meanwhile"))
        }
    }

    fn output(config: impl DestinationConfig + 'static) -> Output {
        let config = Arc::new(config);
        Output::Destination(DestinationOutput { config, refusals: Refusals::GiveUp, retries: Retries::default() })
    }

    /// A destination of the workflow `flow`.
    fn part(name: &str) -> (String, Output) {
        let part = Workflow {
            of: "flow".to_owned(),
            only_positive: false,
            structure: Envelope::Bare,
            enrichment: None,
            destination: Box::new(output(Down)),
            place: String::new(),
        };
        (name.to_owned(), Output::Workflow(part))
    }

    pub(super) fn created(queries: &StandingQueries, graph: &Graph, name: &str, outputs: Vec<(String, Output)>) -> Arc<Query> {
        queries.create(graph, name, StandingSettings { outputs, ..settings() }, false).expect("it is created").0
    }

    /// One result, of a tick that far behind where any query begins.
    fn hand_out(query: &Arc<Query>, tick: u64) {
        let tick = 1_000_000 + tick;
        let row = ResultRow { tick: Tick(tick), positive: true, row: Row::from_slice(&[Value::Integer(1)]) };
        let columns = query.installed().columns().into();
        query.hand_out(&ResultBatch { upper: Tick(tick + 1), columns, rows: vec![row], found: None }, false, || true);
    }

    fn wait_until_stuck(query: &Query, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while query.lanes().iter().filter(|lane| is_stuck(lane)).count() < count {
            assert!(Instant::now() < deadline, "they are not tried again");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Each query has it as one more result.
    pub(super) fn write_node(graph: &Graph, number: u64) {
        let id = graph.ids().text(NodeId::new(0, number));
        let line = json!({"type": "node", "id": id, "labels": ["N"], "properties": {"x": 1}});
        let options = CompileOptions { ids: graph.ids(), ..CompileOptions::default() };
        take_in(graph, Format::Jsonl, line.to_string().as_bytes(), 1, &options).expect("it is written");
    }

    pub(super) fn wait_for_results(query: &Query, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while query.result_count() < count {
            assert!(Instant::now() < deadline, "{} of {count} results of {}", query.result_count(), query.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// To be called within a runtime.
    pub(super) fn queries() -> (Engine, StandingQueries) {
        queries_over(Arc::new(InMemory::default()))
    }

    fn queries_over(store: Arc<dyn Store>) -> (Engine, StandingQueries) {
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() });
        let engine = engine.expect("an engine in memory");
        engine.start().expect("there is nothing to replay");
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        (engine.clone(), StandingQueries::new(engine, Arc::default(), procedures, 10))
    }

    fn settings() -> StandingSettings {
        let pattern = json!({"type": "Cypher", "mode": "AnyQuery", "query": "MATCH (n) RETURN n.x AS x"});
        StandingSettings::decode(&json!({"pattern": pattern, "outputs": {}})).expect("settings")
    }

    /// One without outputs. To be called within a runtime.
    pub(super) fn a_query() -> (Engine, StandingQueries, Arc<Query>) {
        let (engine, queries) = queries();
        let (query, _) = queries.create(&engine.default_graph(), "q", settings(), false).expect("it is created");
        (engine, queries, query)
    }

    #[test]
    fn no_query_begins_once_weir_stops() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        queries.shut_down(Instant::now());
        let created = queries.create(&graph, "late", settings(), false);
        assert!(matches!(created.err(), Some(ApiError::Busy { .. })));
        assert!(queries.list(&graph).is_empty());
        assert!(engine.metadata(&key(&graph, "late")).expect("it can be read").is_none());
    }

    /// Each had a time of its own to end in.
    #[test]
    fn queries_whose_outputs_hang_end_together() {
        const COUNT: u32 = 8;
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        let (asked, is_asked) = bounded(COUNT as usize);
        let (go_on, goes_on) = bounded::<()>(0);
        for number in 0..COUNT {
            let hangs = output(Hangs { asked: asked.clone(), goes_on: goes_on.clone() });
            let query = created(&queries, &graph, &format!("q{number}"), vec![("hook".to_owned(), hangs)]);
            hand_out(&query, 0);
            is_asked.recv_timeout(PATIENCE).expect("it is to write");
        }
        let begun = Instant::now();
        queries.shut_down(begun + Duration::from_millis(200));
        let took = begun.elapsed();
        drop(go_on);
        assert!(took < Duration::from_secs(6), "{took:?}");
    }

    /// Each query had a time of its own, one after another.
    #[test]
    fn queries_of_a_namespace_that_is_left_end_together() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.create_graph("gone", GraphOptions::default()).expect("it is created");
        let elsewhere = created(&queries, &engine.default_graph(), "q0", Vec::new());
        for number in 0..4 {
            let query = created(&queries, &graph, &format!("q{number}"), vec![("hook".to_owned(), output(Down))]);
            hand_out(&query, 0);
            wait_until_stuck(&query, 1);
        }
        graph.leave(true);
        let begun = Instant::now();
        queries.delete_all(&graph, || Ok(())).expect("all are deleted");
        let took = begun.elapsed();
        assert!(took < TOGETHER, "{took:?}");
        assert!(queries.list(&graph).is_empty() && queries.is_known(&elsewhere));
        assert!(engine.metadata_list(&key(&graph, "")).expect("it can be read").is_empty());
        assert!(queries.create(&graph, "late", settings(), false).is_err());
    }

    /// Whoever has to come again, as one of the queries is being changed, finds all of it as it was.
    #[test]
    fn nothing_of_a_namespace_ends_before_all_of_it_can() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.create_graph("gone", GraphOptions::default()).expect("it is created");
        let query = created(&queries, &graph, "q", Vec::new());
        let turn = queries.turn(&query, "paused").expect("nobody has it");
        graph.leave(true);
        let ended = AtomicBool::new(false);
        let end = || {
            ended.store(true, Ordering::SeqCst);
            Ok(())
        };
        std::thread::scope(|scope| {
            let deleting = scope.spawn(|| queries.delete_all(&graph, end));
            while !query.is_leaving() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!ended.load(Ordering::SeqCst), "the query is being changed");
            drop(turn);
            deleting.join().expect("it ends").expect("all are deleted");
        });
        assert!(ended.load(Ordering::SeqCst) && queries.list(&graph).is_empty());
    }

    /// Whoever asked for it waited for all changes in the namespace, and had all others wait.
    #[test]
    fn what_was_never_there_is_deleted_without_waiting_for_anybody() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        let query = created(&queries, &graph, "q", Vec::new());
        let turn = queries.turn(&query, "paused").expect("nobody has it");
        let begun = Instant::now();
        let deleted = queries.delete_unrestored(&graph, "none", Family::V1).expect("nobody is waited for");
        assert!(deleted.is_none() && begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(turn);
    }

    /// Each destination had a time of its own, and was stored by itself.
    #[test]
    fn the_destinations_of_a_workflow_end_together() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let outputs = vec![part("flow"), ("hook".to_owned(), output(Down)), part("flow#2"), part("flow#3")];
        let query = created(&queries, &engine.default_graph(), "q", outputs);
        hand_out(&query, 0);
        wait_until_stuck(&query, 4);
        let begun = Instant::now();
        let removed = queries.remove_output(&query, "flow").expect("it is removed");
        let took = begun.elapsed();
        assert!(took < TOGETHER, "{took:?}");
        assert_eq!(removed.len(), 3);
        let left: Vec<String> = query.lanes().iter().map(|lane| lane.name.clone()).collect();
        let named: Vec<String> = query.settings().outputs.into_iter().map(|(name, _)| name).collect();
        assert_eq!((left, named), (vec!["hook".to_owned()], vec!["hook".to_owned()]));
        assert!(queries.remove_output(&query, "flow").expect("there is none").is_empty());
    }

    /// Where each was stored by itself, an error left a part of them.
    #[test]
    fn a_workflow_is_removed_in_one_write_or_not_at_all() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let store = Arc::new(FullStore::default());
        let (engine, queries) = queries_over(store.clone());
        let graph = engine.default_graph();
        let outputs = vec![part("flow"), ("hook".to_owned(), output(Down)), part("flow#2"), part("flow#3")];
        let query = created(&queries, &graph, "q", outputs);
        let all = || {
            let lanes: Vec<String> = query.lanes().iter().map(|lane| lane.name.clone()).collect();
            let named: Vec<String> = query.settings().outputs.into_iter().map(|(name, _)| name).collect();
            (lanes, named, engine.metadata(&key(&graph, "q")).expect("it can be read"))
        };
        let before = all();
        store.definitions_left.store(0, Ordering::SeqCst);
        assert!(queries.remove_output(&query, "flow").is_err());
        assert_eq!(all(), before);
        store.definitions_left.store(1, Ordering::SeqCst);
        assert_eq!(queries.remove_output(&query, "flow").expect("there is room for one").len(), 3);
        let (lanes, named, stored) = all();
        assert_eq!((lanes, named), (vec!["hook".to_owned()], vec!["hook".to_owned()]));
        assert!(stored != before.2, "it would be there again after a start");
    }

    /// Each was waited for before the next began to end.
    #[test]
    fn outputs_that_take_what_they_get_end_side_by_side() {
        const COUNT: usize = 4;
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let all = Arc::new(Barrier::new(COUNT));
        let outputs = (0..COUNT).map(|number| (format!("o{number}"), output(ClosesWithOthers(all.clone())))).collect();
        let query = created(&queries, &engine.default_graph(), "q", outputs);
        hand_out(&query, 0);
        let begun = Instant::now();
        queries.shut_down(begun + PATIENCE);
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    }

    /// It may wait for a query that has the graph locked for minutes.
    #[test]
    fn the_thread_of_a_query_that_ends_is_not_waited_for_without_end() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, queries, query) = a_query();
        let (go_on, goes_on) = bounded::<()>(0);
        *lock(&query.thread) = Some(std::thread::spawn(move || _ = goes_on.recv()));
        let (tell, told) = bounded(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queries.shut_down(Instant::now() + Duration::from_secs(6));
                tell.send(())
            });
            let has_ended = told.recv_timeout(PATIENCE).is_ok();
            drop(go_on);
            assert!(has_ended, "it is waited for");
        });
    }

    /// The first that was being changed kept all behind it from being asked.
    #[test]
    fn what_is_held_back_is_asked_for_though_a_query_is_being_changed() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        write_node(&graph, 1);
        let [a, b] = ["a", "b"].map(|name| created(&queries, &graph, name, Vec::new()));
        let turn = queries.turn(&a, "replaced").expect("nobody has it");
        let reason = match queries.propagate_within(Duration::ZERO, &graph) {
            Err(ApiError::Busy { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason.contains("of the others: 'a'. The standing query 'a' is being replaced"), "{reason}");
        wait_for_results(&b, 1);
        assert_eq!(a.result_count(), 0);
        drop(turn);
        queries.propagate_within(PATIENCE, &graph).expect("nobody is at any of them");
        wait_for_results(&a, 1);
        assert_eq!(b.result_count(), 1, "nobody is asked twice");
    }

    /// The end waited for it to take what it had no room for, until there was no time left for anybody.
    #[test]
    fn an_output_that_is_down_takes_neither_all_of_the_time_nor_that_of_others() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let (in_time, ended) = bounded(1);
        let closes = output(Closes { in_time, stop: Arc::default() });
        let outputs = vec![("down".to_owned(), output(Down)), ("closes".to_owned(), closes)];
        let query = created(&queries, &engine.default_graph(), "q", outputs);
        (0..300).for_each(|tick| hand_out(&query, tick));
        wait_until_stuck(&query, 1);
        assert!(query.lanes().iter().any(|lane| lane.name == "down" && !lane.has_all()), "there is room for all of it");
        let begun = Instant::now();
        queries.shut_down(begun + Duration::from_secs(30));
        let took = begun.elapsed();
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(true), "it has no time to end in");
        assert!(took < Duration::from_secs(20), "{took:?}");
    }

    /// There was one lock for all queries, and whoever changed one kept it for as long as that took.
    #[test]
    fn who_waits_for_an_output_holds_up_no_other_query() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        let query = created(&queries, &graph, "q", Vec::new());
        let (asked, is_asked) = bounded(1);
        let (go_on, goes_on) = bounded(1);
        let late = vec![("late".to_owned(), output(OpensLate { asked, goes_on }))];
        let added = std::thread::scope(|scope| {
            let adding = scope.spawn(|| {
                let _entered = threads.enter();
                queries.add_outputs(&query, late)
            });
            is_asked.recv_timeout(PATIENCE).expect("it is opened");
            let other = created(&queries, &graph, "other", Vec::new());
            queries.pause(&other).expect("it is paused");
            assert!(queries.delete(&other).expect("it is deleted"));
            go_on.send(()).expect("it is waited for");
            adding.join().expect("it ends")
        });
        added.expect("all else was done meanwhile");
    }

    /// Whoever waited while it was deleted was told that it is paused, and the store kept that.
    #[test]
    fn what_is_gone_is_neither_paused_nor_resumed_nor_replaced() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let query = created(&queries, &engine.default_graph(), "q", Vec::new());
        assert!(queries.delete(&query).expect("it is deleted"));
        let pattern = query.settings().pattern;
        for changed in [queries.pause(&query), queries.resume(&query), queries.replace(&query, pattern, None)] {
            assert!(matches!(changed, Err(ApiError::Absent(_))), "{changed:?}");
        }
        assert!(!queries.delete(&query).expect("somebody else was faster"));
    }
}
