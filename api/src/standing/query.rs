//! One standing query as it runs: what it is in the engine, its outputs, and how far it is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use weir_cypher_compiler::StandingPlan;
use weir_engine::{Graph, RESULTS_WAITING_MAX, Row, StandingQuery, Start};
use weir_model::lock::{lock, read, try_lock, write};
use weir_model::{IdScheme, QueryId, Text, Tick};

use super::DROP_PATIENCE;
use super::change::Changing;
use super::check::compiled;
use super::end::end_outputs;
use super::follow::Tail;
use super::replace::Successor;
use super::stored::Definition;
use super::watch::Watch;
use crate::error::ApiError;
use crate::meter::Meter;
use crate::outputs::{Figures, Lane, Named, Opened, RunningOutput, TapPoints};
use crate::wire::standing::{Mode, Output, StandingSettings};

/// How soon it is seen that a thread has ended.
const LOOK: Duration = Duration::from_millis(1);

pub struct Query {
    pub name: String,
    pub id: QueryId,
    pub(super) graph: Graph,
    pub(super) settings: Mutex<StandingSettings>,
    pub(super) installed: RwLock<Arc<StandingQuery>>,
    /// What shall take its place, while it catches up.
    pub(super) successor: Mutex<Option<Arc<Successor>>>,
    /// Results before this tick are handed out; `HOLD` while it is not known, `u64::MAX` where all are, and `SWITCHES` where all
    /// are by the thread of the query, for which that may change at any moment.
    pub(super) until: AtomicU64,
    /// Everything before this tick has been handed out.
    pub(super) handed_out: AtomicU64,
    outputs: RwLock<Vec<Arc<Lane>>>,
    /// Results that the slowest of them has not taken, as the engine was told.
    pub(super) weighed: Mutex<usize>,
    /// How often the definition of an output was replaced, where it was.
    pub(super) changes: Mutex<BTreeMap<String, u64>>,
    /// For those who follow the results.
    pub tail: Arc<Tail>,
    pub(super) meter: Meter,
    pub(super) hash: AtomicU64,
    pub(super) cancellations: AtomicU64,
    /// Results that were taken from the engine and are being handed out; those of which it ended before stay among them.
    pub(super) in_hand: AtomicUsize,
    pub(super) started: SystemTime,
    pub(super) clock: Instant,
    pub(super) stop: AtomicBool,
    /// Somebody waits for their turn to delete it.
    leaving: AtomicBool,
    /// None while it rests.
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) watch: Arc<Watch>,
}

impl Query {
    /// Of what was installed, whose first results are of this tick or later ones. It has no outputs yet, and has not begun.
    pub(super) fn new(
        graph: &Graph,
        definition: &Definition<'_>,
        installed: StandingQuery,
        begins: Tick,
        watch: Arc<Watch>,
    ) -> Query {
        let tail = Arc::new(Tail::new(begins, definition.installation, installed.followed()));
        Query {
            name: definition.name.to_owned(),
            id: definition.id,
            graph: graph.clone(),
            settings: Mutex::new(definition.settings.clone()),
            installed: RwLock::new(Arc::new(installed)),
            successor: Mutex::default(),
            until: AtomicU64::new(u64::MAX),
            handed_out: AtomicU64::new(0),
            outputs: RwLock::default(),
            weighed: Mutex::default(),
            changes: Mutex::new(definition.changes.clone()),
            tail,
            meter: Meter::default(),
            hash: AtomicU64::new(0),
            cancellations: AtomicU64::new(0),
            in_hand: AtomicUsize::new(0),
            started: SystemTime::now(),
            clock: Instant::now(),
            stop: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            thread: Mutex::default(),
            watch,
        }
    }

    /// Where the query begins as of a moment, what was there then is no news.
    pub(super) fn sum_up(&self, start: Start, then: Vec<(Row, i64)>) -> Result<(), ApiError> {
        if start == Start::Summed {
            self.installed().take_off(then);
            self.installed().keep_sum()?;
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> StandingSettings {
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

    pub(super) fn lanes(&self) -> Vec<Arc<Lane>> {
        read(&self.outputs).clone()
    }

    /// Where one listens to the output of that name.
    pub fn tap_points(&self, name: &str) -> Option<Arc<TapPoints>> {
        self.lanes().into_iter().find(|lane| lane.name == name).map(|lane| lane.tap_points.clone())
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

    /// Fails while a query that begins as of a moment still looks through the graph.
    pub(super) fn check_begun(&self) -> Result<(), ApiError> {
        match self.installed().is_summed() {
            true => Err(ApiError::bad(format!("The standing query '{}' is still looking through the graph", self.name))),
            false => Ok(()),
        }
    }

    pub(super) fn has_handed_out(&self, until: Tick) -> bool {
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
    pub(super) fn start_outputs(self: &Arc<Self>, opened: Vec<(String, Opened)>) -> Result<(), ApiError> {
        for (name, output) in &opened {
            let frontier = self.frontier(name);
            if let Some((from, _)) = self.installed().delivered(&frontier) {
                self.installed().put_output(&frontier, from, output.position())?;
            }
        }
        self.start_all(opened)
    }

    pub(super) fn start_all(self: &Arc<Self>, opened: Vec<(String, Opened)>) -> Result<(), ApiError> {
        // All lanes before the first output: with that, results are handed out to those there are.
        let lanes: Vec<_> = opened.iter().map(|(name, _)| self.add_lane(name)).collect();
        let started = lanes.iter().zip(opened).try_for_each(|(lane, (_, output))| self.start_output(lane, output));
        // Behind one that could not be started there are others.
        lanes.iter().for_each(|lane| lane.set_changing(false));
        started
    }

    /// What comes waits there until its output has started, or is parked.
    pub(super) fn add_lane(&self, name: &str) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(Named { query: &self.name, output: name }));
        lane.goes_on_from(self.begins_at(name));
        lane.set_changing(true);
        write(&self.outputs).push(lane.clone());
        lane
    }

    /// The name under which the engine knows how far an output has delivered.
    pub(super) fn frontier(&self, output: &str) -> Text {
        frontier(output, lock(&self.changes).get(output).copied())
    }

    /// The first tick of which an output gets results.
    pub(super) fn begins_at(&self, output: &str) -> Tick {
        self.installed().delivered(&self.frontier(output)).map(|(tick, _)| tick).unwrap_or_default()
    }

    /// Lets an output take the results of its lane, from where the one before it stood. One whose results were let go of begins
    /// when weir starts again: it would be given none of them, nor any that come now.
    pub(super) fn start_output(self: &Arc<Self>, lane: &Arc<Lane>, opened: Opened) -> Result<(), ApiError> {
        // From here on none is let go of.
        let _changing = Changing::begin(self, lane);
        if lane.has_lost() {
            return Err(ApiError::Failed(lane.parked().unwrap_or_default()));
        }
        let frontier = self.frontier(&lane.name);
        let from = self.begins_at(&lane.name);
        lane.goes_on_from(from);
        let (query, of) = (Arc::downgrade(self), Arc::downgrade(lane));
        let turn = lane.begin();
        let progress = Box::new(move |upper, position, rows| {
            if let (Some(query), Some(lane)) = (query.upgrade(), of.upgrade()) {
                lane.delivered(turn, upper, || query.installed().set_delivered(&frontier, upper, position, rows));
                query.weigh_again();
            }
        });
        let named = Named { query: &self.name, output: &lane.name };
        let tap_points = lane.tap_points.clone();
        lane.start(opened.run(named, &self.graph, self.watch.chain_max, tap_points, from, progress)?);
        if lane.has_left() {
            self.rouse();
        }
        Ok(())
    }

    /// Ends the outputs of these names, which the query has no more.
    pub(super) fn close_outputs(&self, are_meant: impl Fn(&str) -> bool) {
        let removed = {
            let mut outputs = write(&self.outputs);
            let all = std::mem::take(&mut *outputs).into_iter();
            let (removed, kept) = all.partition::<Vec<_>, _>(|lane| are_meant(&lane.name));
            *outputs = kept;
            removed
        };
        self.weigh();
        end_outputs(removed, |lane| lane.end_by(DROP_PATIENCE));
    }

    pub(super) fn is_ending(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Somebody waits for their turn to delete it, or does not after all: nobody waits with that for another pattern.
    pub(super) fn set_leaving(&self, is_leaving: bool) {
        self.leaving.store(is_leaving, Ordering::SeqCst);
        if is_leaving && let Some(successor) = &*lock(&self.successor) {
            successor.rouse();
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Its thread takes no more results.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.installed().rouse();
    }

    /// Whether it has no thread any more, and nobody else is at its results. What goes to rest at this moment needs the lock.
    fn has_ended(&self) -> bool {
        let Some(mut thread) = try_lock(&self.thread) else { return false };
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        if thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(query = self.name, "the thread of the query ended through a bug in weir");
        }
        true
    }

    /// Ends the thread, which is waited for until then; one that goes on for longer finds no outputs. Answers with these, which
    /// are left to be ended: nobody finds them here any more.
    pub(super) fn end_thread(&self, by: Instant) -> Vec<Arc<Lane>> {
        self.stop();
        while !self.has_ended() {
            if Instant::now() >= by {
                tracing::warn!(query = self.name, "its thread is still at work, and is not waited for any longer");
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.tail.close();
        std::mem::take(&mut *write(&self.outputs))
    }
}

/// Each definition of an output has a frontier and a position of its own: those of one never meet the destination of another.
pub(super) fn frontier(output: &str, changes: Option<u64>) -> Text {
    changes.map_or_else(|| Text::new(output), |count| Text::new(format!("{output}\0{count}")))
}
