//! Standing queries: created, listed, watched, dropped, and brought back after a restart.
//!
//! Owns what is remembered of a query and the threads that take results to the outputs. How a pattern is maintained
//! is the engine's affair, what an output does is in `outputs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use weir_cypher_compiler::{Options, StandingPlan, compile_standing, valueless};
use weir_engine::{Engine, Graph, RESULTS_WAITING_MAX, Row, Standing, StandingQuery, Start};
use weir_model::lock::{lock, read, write};
use weir_model::{IdScheme, NodeId, Plan, QueryId, Text, Tick};

use crate::error::{ApiError, both};
use crate::live::LiveState;
use crate::meter::Meter;
use crate::outputs::{Figures, Hubs, Lane, Link, Opened, RunningOutput, check_secrets};
use crate::procedures::Procedures;
use crate::wire::standing::{Mode, Output, PatternSettings, StandingSettings, StartFrom};

mod change;
mod drain;
mod follow;
mod hand_out;
pub mod parked;
mod replace;
mod since;
mod status;
mod watch;
use follow::Tail;
pub use follow::{Follower, News};
use replace::Successor;
use watch::{Queries, Watch};

/// How soon the thread of a query sees that its graph has been looked through.
const LOOK: Duration = Duration::from_millis(50);

/// How long it waits for results otherwise, and how often those that rest are looked at; who has other news for one rouses it.
const WAIT: Duration = Duration::from_millis(250);

/// Without results for so long while nothing comes in, everything that was found has been handed over.
const QUIET: Duration = Duration::from_millis(100);

/// How long outputs that are dropped or changed may take to deliver what they have.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// See `Query::until`.
const HOLD: u64 = 0;

pub struct Query {
    pub name: String,
    pub id: QueryId,
    graph: Graph,
    settings: Mutex<StandingSettings>,
    installed: RwLock<Arc<StandingQuery>>,
    /// What shall take its place, while it catches up.
    successor: Mutex<Option<Arc<Successor>>>,
    /// Results before this tick are handed out; `HOLD` while it is not known, `u64::MAX` where all are.
    until: AtomicU64,
    /// Everything before this tick has been handed out.
    handed_out: AtomicU64,
    outputs: RwLock<Vec<Arc<Lane>>>,
    /// Results that wait for the slowest of them, as the engine was told.
    weighed: Mutex<usize>,
    /// How often the definition of an output was replaced, where it was.
    changes: Mutex<BTreeMap<String, u64>>,
    /// For those who follow the results.
    pub tail: Arc<Tail>,
    meter: Meter,
    hash: AtomicU64,
    cancellations: AtomicU64,
    started: SystemTime,
    clock: Instant,
    stop: AtomicBool,
    /// None while it rests.
    thread: Mutex<Option<JoinHandle<()>>>,
    watch: Arc<Watch>,
}

pub struct StandingQueries {
    engine: Engine,
    procedures: Arc<Procedures>,
    runtime: Handle,
    queries: Arc<Queries>,
    watch: Arc<Watch>,
    /// Creating, changing and dropping, one at a time.
    changing: Mutex<()>,
    parked: Arc<Notify>,
}

impl StandingQueries {
    /// To be called within the runtime that waits for the network.
    pub fn new(engine: Engine, live: Arc<LiveState>, procedures: Arc<Procedures>, chain_max: u32) -> StandingQueries {
        let (runtime, queries) = (Handle::current(), Arc::default());
        let watch = Watch::start((live, chain_max), &queries);
        StandingQueries { engine, procedures, runtime, queries, watch, changing: Mutex::default(), parked: Arc::default() }
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
        let _one = lock(&self.changing);
        graph.stays()?;
        if self.get(graph, name).is_some() {
            return Err(ApiError::bad(format!("There is already a standing query named '{name}'")));
        }
        let id = fresh_query_id(graph);
        let opened = self.open_all((id, name), graph.ids(), &settings.outputs, links)?;
        self.store(graph, name, (id, id), (&settings, &BTreeMap::new()), "creating")?;
        let start = match settings.start {
            StartFrom::Now if !asked => Start::Now,
            StartFrom::Now | StartFrom::WholeGraph => Start::WholeGraph,
            StartFrom::Moment(_) => Start::Summed,
        };
        let installed =
            self.install(graph, name, (id, id), (&settings, BTreeMap::new()), plan, Begin::New { start, opened, then });
        let created = installed.and_then(|query| match self.store_installed(&query, &query.settings()) {
            Ok(()) => Ok(query),
            // It would be gone at the next start.
            Err(error) => {
                lock(&self.queries).remove(&(graph.name().to_owned(), name.to_owned()));
                query.end(|_| Instant::now());
                graph.drop_standing(id);
                Err(error)
            }
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
        // Files last: one that is made stays there, also where the next output cannot be opened.
        links.sort_by_key(|(name, _)| outputs.iter().any(|(other, output)| other == name && is_file(output)));
        let mut opened: Vec<(String, Opened)> = Vec::new();
        for (name, link) in links {
            let output = Opened::open((id, query), &name, link, ids, None, &self.runtime)?;
            opened.push((name, output));
        }
        opened.sort_by_key(|(name, _)| outputs.iter().position(|(other, _)| other == name));
        Ok(opened)
    }

    /// The outputs, checked and compiled, beside those that are there.
    fn links(
        &self,
        graph: &Graph,
        there: &[(String, Output)],
        new: &[(String, Output)],
    ) -> Result<Vec<(String, Link)>, ApiError> {
        let (links, problems) = self.looked_at(graph, there, new)?;
        together(problems).map_or(Ok(links), Err)
    }

    fn checked(&self, graph: &Graph, pattern: &mut PatternSettings) -> Result<StandingPlan, ApiError> {
        self.procedures.check_text(&pattern.query)?;
        compiled(graph, pattern)
    }

    /// What could not be read of a request, with what is wrong with the rest of it: a pattern, and outputs beside those that are
    /// there.
    pub fn with_the_rest(
        &self,
        mistakes: Vec<String>,
        graph: &Graph,
        there: &[(String, Output)],
        (pattern, outputs): (Option<PatternSettings>, Vec<(String, Output)>),
    ) -> ApiError {
        let mut error = ApiError::Decode(mistakes);
        if let Some(Err(wrong)) = pattern.map(|mut pattern| self.checked(graph, &mut pattern)) {
            error = error.and(wrong);
        }
        self.with_outputs(error, graph, there, &outputs)
    }

    /// The same of a request to a query, beside all its outputs but those with a name that are to be changed.
    pub fn with_the_rest_for(
        &self,
        query: &Query,
        mistakes: Vec<String>,
        name: Option<&str>,
        rest: (Option<PatternSettings>, Vec<(String, Output)>),
    ) -> ApiError {
        let mut there = query.settings().outputs;
        there.retain(|(other, output)| name.is_none_or(|name| other != name && output.workflow() != Some(name)));
        self.with_the_rest(mistakes, &query.graph, &there, rest)
    }

    /// What is wrong with a request, with what is wrong with the workflows in it.
    fn with_outputs(&self, error: ApiError, graph: &Graph, there: &[(String, Output)], outputs: &[(String, Output)]) -> ApiError {
        // Clients of v1 are told the first that is wrong.
        if !error.is_of_request() || outputs.iter().all(|(_, output)| output.workflow().is_none()) {
            return error;
        }
        let problems = self.looked_at(graph, there, outputs).map_or_else(|_| Vec::new(), |(_, problems)| problems);
        error.and(ApiError::Bad(told(&problems)))
    }

    /// Those of the outputs with which nothing is wrong, and what is wrong with the others.
    fn looked_at<'o>(
        &self,
        graph: &Graph,
        there: &[(String, Output)],
        new: &'o [(String, Output)],
    ) -> Result<LookedAt<'o>, ApiError> {
        let (mut links, mut problems) = (Vec::new(), Vec::new());
        for (index, (name, output)) in new.iter().enumerate() {
            let error = match self.link(graph, there, new, index) {
                Ok(link) => {
                    links.push((name.clone(), link));
                    continue;
                }
                Err(error) => error,
            };
            match output.workflow().filter(|_| error.is_of_request()) {
                Some(workflow) => problems.push(Problem { name, workflow, error }),
                // Clients of v1 are told the first. What is no mistake of the request says nothing of what is.
                None if problems.is_empty() => return Err(error),
                None => break,
            }
        }
        Ok((links, problems))
    }

    /// One of the new outputs.
    fn link(&self, graph: &Graph, there: &[(String, Output)], new: &[(String, Output)], index: usize) -> Result<Link, ApiError> {
        let (name, output) = &new[index];
        let taken = there.iter().any(|(other, known)| other == name || known.workflow() == Some(name.as_str()));
        if name.is_empty() {
            return Err(ApiError::bad("The name of a standing query output has at least one character"));
        }
        if name.contains('\0') {
            return Err(ApiError::bad("The name of a standing query output cannot contain a zero byte".to_owned()));
        }
        if taken || new[..index].iter().any(|(other, _)| other == name) {
            return Err(ApiError::bad(format!("There is already a standing query output named '{name}'")));
        }
        output.texts().into_iter().try_for_each(|text| self.procedures.check_text(text))?;
        let prepare = || Link::prepare(output, graph, &self.procedures);
        let link = match output.workflow() {
            Some(_) => both(check_secrets(output), prepare())?.1,
            // Clients of v1 are told the first that is wrong.
            None => check_secrets(output).and_then(|()| prepare())?,
        };
        let is_part = |other: &Output| other.workflow().is_some() && other.workflow() == output.workflow();
        let parts = new.iter().filter(|(_, other)| is_part(other)).count();
        if parts > 1 && link.writes() {
            return Err(ApiError::bad(format!(
                "The resultEnrichment of '{name}' changes the graph and would do so for each of its {parts} destinations; give each an output of its own"
            )));
        }
        Ok(link)
    }

    /// Brings back the queries that were there. To be called before the engine replays its log, so that results that were
    /// not delivered before the restart are found.
    pub fn restore(&self) -> Result<(), ApiError> {
        for graph in self.engine.graphs().iter().filter_map(|name| self.engine.graph(name)) {
            let mut are_all_there = true;
            for (key, stored) in self.engine.metadata_list(&key(&graph, ""))? {
                if let Err(error) = self.revive(&graph, &key, &stored) {
                    tracing::error!("the standing query stored as '{key}' cannot be restored: {error}");
                    are_all_there = false;
                }
            }
            // What one that is not restored has delivered is to be known to a weir that can restore it.
            if are_all_there {
                graph.forget_delivery_to_nobody();
            }
        }
        Ok(())
    }

    fn revive(&self, graph: &Graph, key: &str, stored: &[u8]) -> Result<(), ApiError> {
        let stored: Json = serde_json::from_slice(stored).map_err(|error| ApiError::Failed(error.to_string()))?;
        if stored["state"] != "installed" {
            self.engine.set_metadata(key, None)?;
            return Ok(());
        }
        let name = stored["name"].as_str().unwrap_or_default();
        let id = stored["id"].as_str().and_then(|text| IdScheme::Uuid.parse(text));
        let id = QueryId(id.ok_or_else(|| ApiError::Failed("it has no id".to_owned()))?);
        let mut settings = StandingSettings::decode(&stored["settings"]).map_err(ApiError::Decode)?;
        let columns = stored["columns"].as_array().into_iter().flatten();
        settings.pattern.columns = columns.filter_map(Json::as_str).map(Text::new).collect();
        let plan = compiled(graph, &mut settings.pattern)?.plan;
        let changes = stored["changes"].as_object().into_iter().flatten();
        let changes = changes.filter_map(|(output, count)| Some((output.clone(), count.as_u64()?))).collect();
        let installation = match stored["installation"].as_str() {
            None => id,
            Some(text) => {
                let other = IdScheme::Uuid.parse(text);
                QueryId(other.ok_or_else(|| ApiError::Failed("its installation has no id".to_owned()))?)
            }
        };
        self.install(graph, name, (id, installation), (&settings, changes), plan, Begin::Again)?;
        Ok(())
    }

    fn install(
        &self,
        graph: &Graph,
        name: &str,
        (id, installation): (QueryId, QueryId),
        (settings, changes): (&StandingSettings, BTreeMap<String, u64>),
        plan: Plan,
        begin: Begin,
    ) -> Result<Arc<Query>, ApiError> {
        let outputs = settings.outputs.iter().map(|(name, _)| frontier(name, changes.get(name).copied())).collect();
        let cancellations = settings.include_cancellations;
        let start = if let Begin::New { start, .. } = &begin { *start } else { Start::Resume };
        let standing = Standing { id: installation, plan, cancellations, start, outputs };
        let begins = if start == Start::Resume { graph.known_end() } else { graph.next() };
        let installed = Arc::new(graph.install_named(name, standing)?);
        let tail = Arc::new(Tail::new(begins, installation, installed.followed()));
        let query = Arc::new(Query {
            name: name.to_owned(),
            id,
            graph: graph.clone(),
            settings: Mutex::new(settings.clone()),
            installed: RwLock::new(installed),
            successor: Mutex::default(),
            until: AtomicU64::new(u64::MAX),
            handed_out: AtomicU64::new(0),
            outputs: RwLock::default(),
            weighed: Mutex::default(),
            changes: Mutex::new(changes),
            tail,
            meter: Meter::default(),
            hash: AtomicU64::new(0),
            cancellations: AtomicU64::new(0),
            started: SystemTime::now(),
            clock: Instant::now(),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
            watch: self.watch.clone(),
        });
        let started = match begin {
            Begin::New { start, opened, then } => query.sum_up(start, then).and_then(|()| query.start_outputs(opened)),
            Begin::Again => self.reopen(&query, settings),
        };
        if let Err(error) = started.and_then(|()| query.begin()) {
            query.end(|_| Instant::now());
            graph.drop_standing(installation);
            return Err(error);
        }
        lock(&self.queries).insert((graph.name().to_owned(), name.to_owned()), query.clone());
        Ok(query)
    }

    pub fn get(&self, graph: &Graph, name: &str) -> Option<Arc<Query>> {
        lock(&self.queries).get(&(graph.name().to_owned(), name.to_owned())).cloned()
    }

    /// By name.
    pub fn list(&self, graph: &Graph) -> Vec<Arc<Query>> {
        lock(&self.queries).iter().filter(|((of, _), _)| of == graph.name()).map(|(_, query)| query.clone()).collect()
    }

    /// Those of a graph that is left, in which none comes any more.
    pub fn last_of(&self, graph: &Graph) -> Vec<Arc<Query>> {
        let _one = lock(&self.changing);
        self.list(graph)
    }

    /// False when somebody else was faster.
    pub fn delete(&self, query: &Arc<Query>) -> Result<bool, ApiError> {
        let _one = lock(&self.changing);
        let place = (query.graph.name().to_owned(), query.name.clone());
        if lock(&self.queries).get(&place).is_none_or(|there| there.id != query.id) {
            return Ok(false);
        }
        self.engine.set_metadata(&key(&query.graph, &query.name), None)?;
        lock(&self.queries).remove(&place);
        // Its thread first: the end of a query is a tick that never becomes durable, which nobody should wait for. Of a namespace
        // that is left there may be many, which go one after another: what their outputs were not handed yet goes with it.
        query.end_deleted(query.graph.stays().is_ok());
        query.graph.drop_standing(query.installed().id());
        Ok(true)
    }

    /// To be called while nothing else changes. Whoever found a query may have waited for that while it was deleted: what is
    /// stored of it then would bring it back with the next start.
    fn check_known(&self, query: &Arc<Query>) -> Result<(), ApiError> {
        match self.get(&query.graph, &query.name) {
            Some(there) if Arc::ptr_eq(&there, query) => Ok(()),
            _ => Err(ApiError::absent("standing query", &query.name)),
        }
    }

    /// The outputs get the results from here on.
    pub fn add_outputs(&self, query: &Arc<Query>, outputs: Vec<(String, Output)>) -> Result<(), ApiError> {
        let _one = lock(&self.changing);
        self.check_known(query)?;
        let links = self.links(&query.graph, &query.settings().outputs, &outputs)?;
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

    /// The outputs of that name, or of the workflow of that name; none when there are none.
    pub fn remove_output(&self, query: &Arc<Query>, name: &str) -> Result<Vec<(String, Output)>, ApiError> {
        let _one = lock(&self.changing);
        self.check_known(query)?;
        let is_meant = |(other, output): &(String, Output)| other == name || output.workflow() == Some(name);
        let removed: Vec<_> = query.settings().outputs.into_iter().filter(is_meant).collect();
        removed.iter().try_for_each(|(name, _)| self.remove_one(query, name))?;
        Ok(removed)
    }

    fn remove_one(&self, query: &Query, name: &str) -> Result<(), ApiError> {
        let mut settings = query.settings();
        settings.outputs.retain(|(other, _)| other != name);
        self.store_installed(query, &settings)?;
        *lock(&query.settings) = settings;
        // Its last reports first: one that came later would bring its frontier back, and the log would be kept for nobody.
        query.close_output(name);
        query.installed().remove_output(&query.frontier(name));
        Ok(())
    }

    /// Holds results back from now on, summed up. One that is paused stays so.
    pub fn pause(&self, query: &Query) -> Result<(), ApiError> {
        let _one = lock(&self.changing);
        query.check_begun()?;
        query.installed().pause()?;
        Ok(())
    }

    /// Hands out the difference that a pause has made, then what comes. One that is not paused stays so.
    pub fn resume(&self, query: &Arc<Query>) -> Result<(), ApiError> {
        let _one = lock(&self.changing);
        query.installed().resume()?;
        query.rouse();
        Ok(())
    }

    /// Reports what matched when the queries were created. What was asked for comes, whatever happens to the process then.
    pub fn propagate(&self, graph: &Graph) -> Result<(), ApiError> {
        let _one = lock(&self.changing);
        for query in self.list(graph) {
            if query.installed().propagate()? {
                query.rouse();
            }
        }
        Ok(())
    }

    /// Waits until what was found has been delivered, as far as the time allows, and ends the outputs.
    pub fn shut_down(&self, deadline: Instant) {
        let queries: Vec<_> = lock(&self.queries).values().cloned().collect();
        let mut quiet_since = Instant::now();
        let mut counted = 0;
        while quiet_since.elapsed() < QUIET && Instant::now() < deadline {
            let waiting: usize = queries.iter().map(|query| query.installed().waiting()).sum();
            let count: u64 = queries.iter().map(|query| query.meter.count()).sum();
            if waiting > 0 || count != counted {
                (counted, quiet_since) = (count, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // All of them before the first is waited for.
        queries.iter().for_each(|query| query.stop());
        queries.iter().for_each(|query| query.end(|_| deadline));
    }

    fn store_installed(&self, query: &Query, settings: &StandingSettings) -> Result<(), ApiError> {
        let ids = (query.id, query.installed().id());
        self.store(&query.graph, &query.name, ids, (settings, &lock(&query.changes)), "installed")
    }

    fn store(
        &self,
        graph: &Graph,
        name: &str,
        (id, installation): (QueryId, QueryId),
        (settings, changes): (&StandingSettings, &BTreeMap<String, u64>),
        state: &str,
    ) -> Result<(), ApiError> {
        let mut stored = json!({"name": name, "id": id.0.to_string(), "state": state, "settings": settings.to_stored_json()});
        if installation != id {
            stored["installation"] = installation.0.to_string().into();
        }
        if !changes.is_empty() {
            stored["changes"] = json!(changes);
        }
        if !settings.pattern.columns.is_empty() {
            stored["columns"] = settings.pattern.columns.iter().map(|name| name.as_str()).collect();
        }
        Ok(self.engine.set_metadata(&key(graph, name), Some(stored.to_string().as_bytes()))?)
    }
}

/// What is wrong with an output of v2, which is one destination of a workflow.
struct Problem<'a> {
    name: &'a str,
    workflow: &'a str,
    error: ApiError,
}

/// Outputs with which nothing is wrong, and what is wrong with others.
type LookedAt<'a> = (Vec<(String, Link)>, Vec<Problem<'a>>);

/// All that is wrong with the workflows of a request; none where nothing is. One problem alone is told as it is, also where
/// several destinations share it.
fn together(problems: Vec<Problem<'_>>) -> Option<ApiError> {
    let all = told(&problems);
    let are_unreadable = problems.iter().all(|problem| matches!(problem.error, ApiError::Decode(_)));
    let first = problems.into_iter().next()?.error;
    Some(match (first.reasons().len() == all.len(), are_unreadable) {
        (true, _) => first,
        (false, true) => ApiError::Decode(all),
        (false, false) => ApiError::Bad(all),
    })
}

/// Each of the problems once, by the workflow.
fn told(problems: &[Problem<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for Problem { name, workflow, error } in problems {
        for reason in error.reasons() {
            // The names of further destinations are weir's own.
            let reason = reason.replace(&format!("'{name}'"), &format!("'{workflow}'"));
            let told = format!("The output '{workflow}': {reason}");
            if !all.contains(&told) {
                all.push(told);
            }
        }
    }
    all
}

/// How a query comes to be here.
enum Begin {
    /// With its outputs, and what its answer was at the moment it begins as of.
    New { start: Start, opened: Vec<(String, Opened)>, then: Vec<(Row, i64)> },
    /// It was there before a restart: its outputs are opened where they stood.
    Again,
}

impl Query {
    /// Of one that begins as of a moment, what was there then is no news.
    fn sum_up(&self, start: Start, then: Vec<(Row, i64)>) -> Result<(), ApiError> {
        if start == Start::Summed {
            self.installed().take_off(then);
            self.installed().keep_sum()?;
        }
        Ok(())
    }

    fn settings(&self) -> StandingSettings {
        lock(&self.settings).clone()
    }

    pub fn pattern(&self) -> String {
        lock(&self.settings).pattern.query.clone()
    }

    pub fn mode(&self) -> Mode {
        lock(&self.settings).pattern.mode
    }

    pub fn result_count(&self) -> u64 {
        self.meter.count()
    }

    /// How ids are shown.
    pub fn ids(&self) -> IdScheme {
        self.graph.ids()
    }

    /// Found, and not taken by every output yet.
    pub fn waiting(&self) -> usize {
        self.installed().waiting()
    }

    /// The outputs that run.
    pub fn outputs(&self) -> Vec<Arc<RunningOutput>> {
        self.lanes().iter().filter_map(|lane| lane.running()).collect()
    }

    /// How each output is, and whether ingest waits for it.
    pub fn figures(&self) -> Vec<(Figures, bool)> {
        let figures: Vec<Figures> = self.lanes().iter().map(|lane| Figures::of(lane)).collect();
        let most = figures.iter().map(|figures| figures.behind).max().unwrap_or(0);
        let holds = most > 0 && self.waiting() > RESULTS_WAITING_MAX;
        figures
            .into_iter()
            .map(|figures| (holds && figures.behind == most, figures))
            .map(|(holds, figures)| (figures, holds))
            .collect()
    }

    fn lanes(&self) -> Vec<Arc<Lane>> {
        read(&self.outputs).clone()
    }

    /// Where one listens to the output of that name.
    pub fn hubs(&self, name: &str) -> Option<Arc<Hubs>> {
        self.lanes().into_iter().find(|lane| lane.name == name).map(|lane| lane.hubs.clone())
    }

    /// What the definition says of an output.
    pub fn output_settings(&self, name: &str) -> Option<Output> {
        self.settings().outputs.into_iter().find(|(other, _)| other == name).map(|(_, output)| output)
    }

    /// As it was compiled when it was installed.
    pub fn compiled(&self) -> Result<StandingPlan, ApiError> {
        compiled(&self.graph, &mut self.settings().pattern)
    }

    /// As the engine has it: another one when it has been replaced.
    pub fn installed(&self) -> Arc<StandingQuery> {
        read(&self.installed).clone()
    }

    /// One that begins as of a moment has looked through the graph.
    fn check_begun(&self) -> Result<(), ApiError> {
        match self.installed().is_summed() {
            true => Err(ApiError::bad(format!("The standing query '{}' is still looking through the graph", self.name))),
            false => Ok(()),
        }
    }

    fn has_handed_out(&self, until: Tick) -> bool {
        self.handed_out.load(Ordering::SeqCst) >= until.0
    }

    pub fn cancellation_count(&self) -> u64 {
        self.cancellations.load(Ordering::Relaxed)
    }

    pub fn results_per_second(&self) -> f64 {
        self.meter.recent()
    }

    /// Starts outputs of a new query, storing first where their destinations stand. A crash then finds where to go on, however
    /// soon it comes: what is stored as installed has all of them.
    fn start_outputs(self: &Arc<Self>, opened: Vec<(String, Opened)>) -> Result<(), ApiError> {
        for (name, output) in &opened {
            let frontier = self.frontier(name);
            if let Some((from, _)) = self.installed().delivered(&frontier) {
                self.installed().put_output(&frontier, from, output.position())?;
            }
        }
        self.start_all(opened)
    }

    fn start_all(self: &Arc<Self>, opened: Vec<(String, Opened)>) -> Result<(), ApiError> {
        // All lanes before the first output: with that, results are handed out to those there are.
        let lanes: Vec<_> = opened.iter().map(|(name, _)| self.add_lane(name)).collect();
        lanes.iter().zip(opened).try_for_each(|(lane, (_, output))| self.start_output(lane, output))
    }

    fn add_lane(&self, name: &str) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(name));
        lane.goes_on_from(self.begins_at(name));
        write(&self.outputs).push(lane.clone());
        lane
    }

    /// The name under which the engine knows how far an output has delivered.
    fn frontier(&self, output: &str) -> Text {
        frontier(output, lock(&self.changes).get(output).copied())
    }

    /// The first tick of which an output gets results.
    fn begins_at(&self, output: &str) -> Tick {
        self.installed().delivered(&self.frontier(output)).map(|(tick, _)| tick).unwrap_or_default()
    }

    /// Lets an output take the results of its lane, from where the one before it stood.
    fn start_output(self: &Arc<Self>, lane: &Arc<Lane>, opened: Opened) -> Result<(), ApiError> {
        let frontier = self.frontier(&lane.name);
        let from = self.begins_at(&lane.name);
        lane.goes_on_from(from);
        let (query, of) = (Arc::downgrade(self), Arc::downgrade(lane));
        let turn = lane.begin();
        let progress = Box::new(move |upper, position, rows| {
            if let (Some(query), Some(lane)) = (query.upgrade(), of.upgrade()) {
                lane.delivered(turn, upper, || query.installed().set_delivered(&frontier, upper, position, rows));
            }
        });
        let (chain_max, hubs) = (self.watch.chain_max, lane.hubs.clone());
        lane.start(opened.run((&self.name, &lane.name), &self.graph, (chain_max, hubs), from, progress)?);
        if lane.has_left() {
            self.rouse();
        }
        Ok(())
    }

    fn close_output(&self, name: &str) {
        let removed = {
            let mut outputs = write(&self.outputs);
            outputs.iter().position(|output| output.name == name).map(|index| outputs.remove(index))
        };
        if let Some(lane) = removed {
            self.weigh();
            lane.end(lane.end_by(DROP_PATIENCE));
        }
    }

    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Its thread takes no more results.
    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.installed().rouse();
    }

    /// Ends the thread, then the outputs, each `by` then.
    fn end(&self, by: impl Fn(&Lane) -> Instant) {
        self.stop();
        // What goes to rest at this moment needs the lock.
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(query = self.name, "the thread of the query ended through a bug in weir");
        }
        self.tail.close();
        let lanes = std::mem::take(&mut *write(&self.outputs));
        // All of them count from now on, not from the end of the one before.
        let deadlines: Vec<Instant> = lanes.iter().map(|lane| by(lane)).collect();
        for (lane, deadline) in lanes.iter().zip(&deadlines) {
            // Those that are late end together, not one after another.
            let now = Instant::now();
            lanes.iter().zip(&deadlines).filter(|(_, by)| **by <= now).for_each(|(late, _)| late.give_up());
            lane.end(*deadline);
        }
    }
}

/// The plan of a text that names no mode.
pub fn compiled_text(graph: &Graph, text: &str) -> Result<StandingPlan, ApiError> {
    let (query, mode) = (text.to_owned(), Mode::DistinctId);
    compiled(graph, &mut PatternSettings { query, mode, mode_given: false, columns: Vec::new() })
}

/// Clients of v1, and whoever replaces a pattern, are told nowhere else.
fn tell_doubts(query: &str, doubts: &[String]) {
    doubts.iter().for_each(|doubt| tracing::warn!(query, "{doubt}"));
}

/// The plan in the mode that was asked for. Where none was, and the usual one takes no such text, any query that reads is taken.
fn compiled(graph: &Graph, pattern: &mut PatternSettings) -> Result<StandingPlan, ApiError> {
    let options = Options { ids: graph.ids(), ..Options::default() };
    let compile = |mode: Mode| compile_standing(&pattern.query, mode.of_compiler(), &options);
    let mut standing = match compile(pattern.mode) {
        Err(_) if !pattern.mode_given => {
            let standing = compile(Mode::AnyQuery)?;
            pattern.mode = Mode::AnyQuery;
            standing
        }
        compiled => compiled?,
    };
    if let Some(columns) = in_order(&standing.plan.columns, &pattern.columns) {
        standing.plan.columns = columns;
    }
    Ok(standing)
}

/// Columns in the order of these names. None where they are not the same.
fn in_order<T: Clone>(columns: &[(Text, T)], names: &[Text]) -> Option<Vec<(Text, T)>> {
    if columns.len() != names.len() {
        return None;
    }
    names.iter().map(|name| columns.iter().find(|(other, _)| other == name).cloned()).collect()
}

/// A random UUID whatever the scheme of the graph's own ids is.
fn fresh_query_id(graph: &Graph) -> QueryId {
    let (a, b) = (graph.fresh_id(), graph.fresh_id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let (high, low) = (a.high ^ b.low.rotate_left(17) ^ now, a.low ^ b.high.rotate_left(31));
    QueryId(NodeId::new(high & !0xf000 | 0x4000, low >> 2 | 1 << 63))
}

/// Each definition of an output has a frontier and a position of its own: those of one never meet the destination of another.
fn frontier(output: &str, changes: Option<u64>) -> Text {
    changes.map_or_else(|| Text::new(output), |count| Text::new(format!("{output}\0{count}")))
}

/// Whether its results go to a file.
fn is_file(output: &Output) -> bool {
    matches!(output.end(), Output::Destination(to) if to.config.stored()["path"].is_string())
}

/// Where a definition is stored: with its graph, so that it goes when the graph does.
fn key(graph: &Graph, name: &str) -> String {
    format!("{}standing/{name}", graph.id().metadata_prefix())
}
