//! A running standing query is replaced: the new one looks through the graph and catches up beside the old one, then takes its
//! place at one tick.
//!
//!     old ─ results ──────────────────────────> tick ┐
//!     new ─ summed up, the old one taken off ─> tick ┴ the difference ─ results ─>
//!
//! The outputs stay as they are. What counts after a crash is which of the two the stored definition names, and that changes in
//! one write, when the outputs have delivered all of the old one and the sum of the new one is in the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{StandingPlan, valueless};
use weir_engine::{EngineError, Standing, StandingQuery, Start};
use weir_model::lock::write;
use weir_model::{QueryId, Text, Tick};

use super::check::{compiled, in_order};
use super::{HOLD, Query, SWITCHES, StandingQueries, fresh_query_id, lock, tell_doubts};
use crate::error::ApiError;
use crate::wire::standing::{PatternSettings, StandingSettings};

/// How long a look for results takes while two queries catch up.
const LOOK: Duration = Duration::from_millis(5);

/// How long the outputs may take to deliver what the old query has found; then it stays.
const SWITCH_PATIENCE: Duration = Duration::from_secs(20);

/// A query that shall take the place of another, while it catches up.
pub struct Successor {
    installed: Arc<StandingQuery>,
    /// The names under which it knows the outputs that were there when it began.
    outputs: Vec<Text>,
    /// The old query once more, to know all of its answer. None where the rows of the two have other columns, and nothing to do
    /// with each other.
    old: Option<StandingQuery>,
}

impl StandingQueries {
    /// Gives a query another pattern. Returns when the switch is done.
    pub fn replace(&self, query: &Arc<Query>, mut pattern: PatternSettings, cancellations: Option<bool>) -> Result<(), ApiError> {
        let mut plan = self.checked(&query.graph, &mut pattern)?;
        let doubts = valueless(&plan.plan, query.graph.ids());
        let before = query.settings();
        let old = compiled(&query.graph, &mut before.pattern.clone())?;
        // Rows are compared, and their ids are made, by the places of their values.
        let names: Vec<Text> = old.plan.columns.iter().map(|(name, _)| name.clone()).collect();
        let has_them_so = plan.plan.columns.iter().map(|(name, _)| name).eq(&names);
        if let Some(columns) = in_order(&plan.plan.columns, &names).filter(|_| !has_them_so) {
            plan.plan.columns = columns;
            pattern.columns = names;
        }
        let mut settings = StandingSettings { pattern, ..before };
        settings.include_cancellations = cancellations.unwrap_or(settings.include_cancellations);
        let successor = {
            let _one = self.turn(query, "replaced")?;
            query.check_begun()?;
            if let Some(reason) = query.installed().failure() {
                return Err(ApiError::bad(format!("The standing query '{}' has no answer to go on from: {reason}", query.name)));
            }
            if lock(&query.successor).is_some() {
                return Err(ApiError::bad(format!("The standing query '{}' is being replaced already", query.name)));
            }
            let successor = Arc::new(self.begin(query, plan, old, settings.include_cancellations)?);
            *lock(&query.successor) = Some(successor.clone());
            successor
        };
        let switched = self.catch_up(query, &successor).and_then(|()| self.switch(query, &successor, settings));
        *lock(&query.successor) = None;
        if let Some(old) = &successor.old {
            query.graph.drop_standing(old.id());
        }
        if switched.is_err() {
            query.installed().unmark_held();
            query.graph.drop_standing(successor.installed.id());
        } else {
            tell_doubts(&query.name, &doubts);
        }
        switched
    }

    /// What comes after the installation of each is added to what there was, so that later their answers are of the same tick.
    fn begin(&self, query: &Query, new: StandingPlan, old: StandingPlan, cancellations: bool) -> Result<Successor, ApiError> {
        let outputs: Vec<Text> = query.settings().outputs.iter().map(|(name, _)| query.frontier(name)).collect();
        let id = fresh_query_id(&query.graph);
        let standing = Standing { id, plan: new.plan, cancellations, start: Start::Summed, outputs: outputs.clone() };
        let installed = Arc::new(query.graph.install_named(&query.name, standing)?);
        if installed.columns() != query.installed().columns() {
            return Ok(Successor { installed, outputs, old: None });
        }
        let id = fresh_query_id(&query.graph);
        if query.installed().holds() {
            installed.await_held();
        }
        let standing = Standing { id, plan: old.plan, cancellations: true, start: Start::WholeGraph, outputs: Vec::new() };
        match query.graph.install_named(&query.name, standing) {
            Ok(old) => Ok(Successor { installed, outputs, old: Some(old) }),
            Err(error) => {
                query.graph.drop_standing(installed.id());
                Err(error.into())
            }
        }
    }

    /// Goes on until the graph has been looked through for both, and what was found there is in the sum: the log does not have
    /// it.
    fn catch_up(&self, query: &Query, successor: &Successor) -> Result<(), ApiError> {
        loop {
            successor.take(LOOK)?;
            query.check_stays()?;
            if let Some(reason) = successor.failure() {
                let message = format!(
                    "The standing query '{}' stays as it was, for what should take its place ended: {reason}",
                    query.name
                );
                return Err(ApiError::bad(message));
            }
            if successor.backfill().is_none() && successor.installed.has_summed_rest() {
                return Ok(());
            }
        }
    }

    fn switch(&self, query: &Arc<Query>, successor: &Successor, settings: StandingSettings) -> Result<(), ApiError> {
        let _one = self.turns.of(&query.graph, &query.name, "replaced")?;
        query.check_stays()?;
        if !self.is_known(query) {
            return Err(ApiError::bad(format!("The standing query '{}' has ended", query.name)));
        }
        if query.installed().paused().is_some() {
            return Err(ApiError::bad(format!("The standing query '{}' is paused; resume it before it is replaced", query.name)));
        }
        // Outputs may have come and gone meanwhile: what counts is which there are now.
        let outputs = query.settings().outputs;
        let settings = StandingSettings { outputs, ..settings };
        // The watch may be about to take results without another look at `until`; from here on the thread of the query does.
        query.until.store(SWITCHES, Ordering::SeqCst);
        drop(lock(&query.thread));
        query.rouse();
        // What is found behind the switch is not for the old one to tell. It goes on for as long as the tick of it waits for a
        // query that has the graph locked.
        let holds = || query.until.store(HOLD, Ordering::SeqCst);
        // At this tick the new query tells its sum: an empty commit of its own, for outputs that are told they have everything
        // before a tick take nothing that comes from before it. What the old one tells ends there.
        let first = successor.installed.end_pause_marking(&query.installed(), holds).map_err(ApiError::from);
        let settled = first.and_then(|first| {
            query.until.store(first.0, Ordering::SeqCst);
            query.rouse();
            self.settle(query, successor, first)
        });
        let switched = settled.and_then(|()| {
            self.store_as(query, successor.installed.id(), &settings)?;
            Ok(query.succeed(successor.installed.clone(), settings))
        });
        query.until.store(u64::MAX, Ordering::SeqCst);
        let old = switched?;
        query.graph.drop_standing(old);
        Ok(())
    }

    /// Everything of the old query, which is what comes before a tick, is delivered, and everything of the new one can be found
    /// again.
    fn settle(&self, query: &Query, successor: &Successor, first: Tick) -> Result<(), ApiError> {
        let deadline = Instant::now() + SWITCH_PATIENCE;
        successor.installed.log_noted()?;
        successor.take_old(query, first, deadline)?;
        let outputs: Vec<Text> = query.settings().outputs.iter().map(|(name, _)| query.frontier(name)).collect();
        let behind = |output: &&Text| query.installed().delivered(output).is_none_or(|(tick, _)| tick < first);
        loop {
            query.check_stays()?;
            let late = outputs.iter().find(behind);
            if late.is_none() && query.has_handed_out(first) {
                break;
            }
            // What is held until there is enough for an object would be waited for in vain.
            query.outputs().iter().for_each(|output| output.store_up_to(first));
            if Instant::now() >= deadline {
                let name = |output: &Text| output.split('\0').next().unwrap_or_default().to_owned();
                let output =
                    late.map_or_else(|| "one of its outputs".to_owned(), |output| format!("its output '{}'", name(output)));
                return Err(ApiError::bad(format!(
                    "The standing query '{}' stays as it was: {output} has not delivered what was found so far within {} s",
                    query.name,
                    SWITCH_PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(LOOK);
        }
        successor
            .outputs
            .iter()
            .filter(|output| !outputs.contains(output))
            .for_each(|gone| successor.installed.remove_output(gone));
        for output in outputs {
            let (_, position) = query.installed().delivered(&output).unwrap_or_default();
            successor.installed.put_output(&output, first, position)?;
        }
        // The difference is told as far as the old query had told its part of it; what it holds back, and the new one has, stays
        // held.
        successor.installed.take_over_held(&query.installed(), first);
        Ok(successor.installed.keep_sum()?)
    }
}

impl Successor {
    /// Why one of the two has ended.
    fn failure(&self) -> Option<&str> {
        self.installed.failure().or_else(|| self.old.as_ref()?.failure())
    }

    /// Who waits for its results looks up.
    pub fn rouse(&self) {
        self.installed.rouse();
        self.old.iter().for_each(StandingQuery::rouse);
    }

    /// How many nodes of the graph at rest have been looked at, and of about how many.
    pub fn backfill(&self) -> Option<(u64, u64)> {
        self.installed.backfill().or_else(|| self.old.as_ref()?.backfill())
    }

    /// Adds to the sum what there is.
    fn take(&self, limit: Duration) -> Result<(), EngineError> {
        self.installed.next(limit)?;
        let Some(old) = &self.old else { return Ok(()) };
        if let Some(batch) = old.next(limit)? {
            self.installed.take_off(batch.rows.into_iter().map(|result| (result.row, if result.positive { 1 } else { -1 })));
        }
        Ok(())
    }

    /// Takes the rest of what the old query told off: what comes before a tick.
    fn take_old(&self, query: &Query, first: Tick, deadline: Instant) -> Result<(), ApiError> {
        let Some(old) = &self.old else { return Ok(()) };
        loop {
            query.check_stays()?;
            if let Some(batch) = old.next(LOOK)? {
                let rows = batch.rows.into_iter().filter(|result| result.tick < first);
                self.installed.take_off(rows.map(|result| (result.row, if result.positive { 1 } else { -1 })));
                if batch.upper >= first {
                    return Ok(());
                }
            }
            if Instant::now() >= deadline {
                return Err(ApiError::Failed("the standing query could not keep up with the graph".to_owned()));
            }
        }
    }
}

impl Query {
    /// Fails where it has ended, or somebody waits for their turn to delete it.
    fn check_stays(&self) -> Result<(), ApiError> {
        match self.is_ending() || self.is_leaving() {
            true => Err(ApiError::bad(format!("The standing query '{}' has ended", self.name))),
            false => Ok(()),
        }
    }

    /// Another installation takes over. Answers with the id of the one before.
    fn succeed(&self, installed: Arc<StandingQuery>, settings: StandingSettings) -> QueryId {
        *lock(&self.settings) = settings;
        let _told = self.tail.hold();
        let mut place = write(&self.installed);
        std::mem::replace(&mut *place, installed).id()
    }
}
