//! A query that takes the place of another while records go on, by the steps of `api/src/standing/replace.rs` on the engine.
//!
//!     install: new one, summed up ─┐                   ┌─ end of the sum: one tick ─> the old one is read up to there ─> dropped
//!     and the old one once more ───┴─ records go on ───┴─ what both found before it ─> the difference is what the new one tells
//!
//! The end of the engine is not survived by what is still beside the old one: nothing stored names it.

use std::time::{Duration, Instant};

use weir_engine::{EngineError, Graph, ResultBatch, Standing, StandingQuery, Start};
use weir_model::{Plan, Position, QueryId, Tick};

use super::maintained::{OUTPUT, PATIENCE};
use super::setting::Replacement;

/// How long a look for results takes while two queries catch up.
const LOOK: Duration = Duration::from_millis(1);

/// A query that shall take the place of another.
pub struct Successor {
    pub plan: Plan,
    /// What the reference is asked.
    pub asked: Plan,
    when: Replacement,
    beside: Option<Beside>,
}

/// While it catches up.
struct Beside {
    /// Installed before this batch.
    since: usize,
    new: StandingQuery,
    /// The old query once more, to know all of its answer. None where the rows of the two have other columns.
    old: Option<StandingQuery>,
}

impl Successor {
    pub fn new(when: Replacement, plan: Plan, asked: Plan) -> Successor {
        Successor { plan, asked, when, beside: None }
    }

    /// Whether it is to be installed before a batch; the old one was before another.
    pub fn begins(&self, (at, installed): (usize, usize)) -> bool {
        self.beside.is_none() && at >= installed + self.when.after
    }

    pub fn install(
        &mut self,
        graph: &Graph,
        at: usize,
        (standing, plan): (&StandingQuery, &Plan),
        [new, old]: [QueryId; 2],
    ) -> Result<(), String> {
        let outputs = vec![OUTPUT.into()];
        let new = Standing { id: new, plan: self.plan.clone(), cancellations: true, start: Start::Summed, outputs };
        let new = graph.install(new).map_err(failed)?;
        let mut beside = Beside { since: at, new, old: None };
        if beside.new.columns() == standing.columns() {
            if standing.holds() {
                beside.new.await_held();
            }
            let outputs = Vec::new();
            let old = Standing { id: old, plan: plan.clone(), cancellations: true, start: Start::WholeGraph, outputs };
            beside.old = Some(graph.install(old).map_err(failed)?);
        }
        self.beside = Some(beside);
        Ok(())
    }

    /// Adds up what there is by now.
    pub fn take(&self) -> Result<(), String> {
        self.beside.as_ref().map_or(Ok(()), Beside::take).map_err(failed)
    }

    /// Whether it is to take over before a batch.
    pub fn is_due(&self, at: usize, last: usize) -> bool {
        self.beside.as_ref().is_some_and(|beside| at >= beside.since + self.when.batches || at == last)
    }

    /// Has it caught up, and gives the tick at which it tells the difference; what was found before is the old one's to tell.
    pub fn end(&self, standing: &StandingQuery) -> Result<Tick, String> {
        let beside = self.beside.as_ref().ok_or("not replaced: there is no other\n")?;
        beside.catch_up()?;
        let first = beside.new.end_pause_marking(standing, || ()).map_err(failed)?;
        beside.new.log_noted().map_err(failed)?;
        beside.take_old(first)?;
        Ok(first)
    }

    /// Takes over from one that has delivered everything before the tick. True where the two have the same columns.
    pub fn take_over(self, graph: &Graph, standing: &StandingQuery, first: Tick) -> Result<(StandingQuery, bool), String> {
        let Beside { new, old, .. } = self.beside.ok_or("not replaced: there is no other\n")?;
        new.put_output(OUTPUT, first, Position::default()).map_err(failed)?;
        new.take_over_held(standing, first);
        new.keep_sum().map_err(failed)?;
        let has_same_columns = old.is_some();
        old.iter().chain([standing]).for_each(|gone| graph.drop_standing(gone.id()));
        Ok((new, has_same_columns))
    }

    /// The engine is no longer there. True where it had begun to catch up; asked for again, it takes over before the next batch,
    /// which no end of the engine prevents.
    pub fn leave(&mut self) -> bool {
        let was_beside = self.beside.take().is_some();
        if was_beside {
            self.when.batches = 0;
        }
        was_beside
    }

    pub fn drop_from(self, graph: &Graph) {
        let Some(Beside { new, old, .. }) = self.beside else { return };
        old.iter().chain([&new]).for_each(|gone| graph.drop_standing(gone.id()));
    }

    /// The log is needed from here on for it.
    pub fn needs_from(&self) -> Option<Tick> {
        let Beside { new, old, .. } = self.beside.as_ref()?;
        old.iter().chain([new]).filter_map(StandingQuery::needs_from).min()
    }
}

impl Beside {
    fn take(&self) -> Result<(), EngineError> {
        self.new.next(LOOK)?;
        let Some(old) = &self.old else { return Ok(()) };
        if let Some(batch) = old.next(LOOK)? {
            self.take_off(batch, Tick::MAX);
        }
        Ok(())
    }

    fn take_off(&self, batch: ResultBatch, until: Tick) {
        let rows = batch.rows.into_iter().filter(|result| result.tick < until);
        self.new.take_off(rows.map(|result| (result.row, if result.positive { 1 } else { -1 })));
    }

    /// Until the graph has been looked through for both, and what was found there is in the sum.
    fn catch_up(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            self.take().map_err(failed)?;
            let both = || self.old.iter().chain([&self.new]);
            if let Some(reason) = both().find_map(StandingQuery::failure) {
                return Err(format!("not replaced: what should take its place ended: {reason}\n"));
            }
            if both().all(|query| query.backfill().is_none()) && self.new.has_summed_rest() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("not replaced: the other has not caught up within {PATIENCE:?}\n"));
            }
        }
    }

    /// Takes the rest of the old query off.
    fn take_old(&self, first: Tick) -> Result<(), String> {
        let Some(old) = &self.old else { return Ok(()) };
        let begun = Instant::now();
        loop {
            if let Some(batch) = old.next(LOOK).map_err(failed)? {
                let upper = batch.upper;
                self.take_off(batch, first);
                if upper >= first {
                    return Ok(());
                }
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("not replaced: the old query, once more, has not come to {first} within {PATIENCE:?}\n"));
            }
        }
    }
}

fn failed(error: EngineError) -> String {
    format!("not replaced: {error}\n")
}
