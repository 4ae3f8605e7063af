//! Recall: the past as a query that runs may ask for it, beside the view it reads.

use std::cell::Cell;

use weir_model::{NodeId, Tick};

use super::changes::Change;
use super::past::{AsOf, Moment};
use crate::commit::{Locked, wall_clock_millis};
use crate::error::EngineError;
use crate::graph::Graph;

pub struct Recall<'g> {
    graph: &'g Graph,
    /// The moment the query itself reads.
    until: Cell<Tick>,
    is_past: bool,
    /// Where the graph stands, if the query runs with it locked: to ask the graph itself would be to wait for oneself.
    locked: Option<Locked>,
}

impl<'g> Recall<'g> {
    pub fn new(graph: &'g Graph, until: Tick, is_past: bool) -> Recall<'g> {
        Recall { graph, until: Cell::new(until), is_past, locked: None }
    }

    /// For a query that runs while the graph is locked.
    pub fn within(self, locked: Option<Locked>) -> Recall<'g> {
        Recall { locked, ..self }
    }

    /// The millisecond at whose end a query reads that asked for one.
    pub fn moment(&self) -> Option<i64> {
        self.is_past.then(|| self.until.get().millis() as i64)
    }

    /// The query reads a later moment from here on.
    pub fn reach(&self, tick: Tick) {
        self.until.set(tick);
    }

    /// What happened to a node since history begins, up to the moment of the query. What is kept of before, so that the first
    /// change can say what it changed, is not told.
    pub fn changes(&self, node: NodeId) -> Result<Vec<Change>, EngineError> {
        let until = self.until();
        let past = self.graph.past_settled(self.settle(until)?)?;
        let mut changes = past.all_changes(node)?;
        let begins = self.graph.history().horizon().unwrap_or_default();
        changes.retain(|change| change.tick >= begins);
        Ok(changes)
    }

    /// Whether the end of a millisecond is behind what the query sees: what is told of it may become different by what is
    /// committed before the query is.
    pub fn is_open(&self, millis: i64) -> bool {
        Tick::end_of_millis(millis.max(0) as u64) > self.until()
    }

    /// The end of a millisecond, or the moment of the query if that is earlier; and how a query recalls that runs as of it.
    pub fn at(&self, millis: i64) -> Result<(Moment, Recall<'g>), EngineError> {
        let millis = millis.max(0) as u64;
        if millis > self.graph.now_millis() {
            return Err(EngineError::NotYet(millis));
        }
        let until = Tick::end_of_millis(millis).min(self.until());
        let moment = self.graph.at_settled(self.settle(until)?)?;
        Ok((moment, Recall::new(self.graph, until, true).within(self.locked)))
    }

    /// The moment of the query, or a later one at which the graph was still the same: one at rest may have had its last change
    /// before history begins.
    fn until(&self) -> Tick {
        let Locked { next, over } = self.locked.unwrap_or_else(|| {
            // First: what is committed after `next` is asked is later than this.
            let over = Tick::end_of_millis(wall_clock_millis().saturating_sub(1));
            Locked { next: self.graph.next(), over }
        });
        let until = self.until.get();
        let is_unchanged = next.0 <= until.0.saturating_add(1);
        if is_unchanged { until.max(over) } else { until }
    }

    /// As the graph settles a moment; where it is locked, each that is asked for is.
    fn settle(&self, at: Tick) -> Result<AsOf, EngineError> {
        let Some(locked) = self.locked else { return self.graph.settle(at) };
        self.graph.readable_at(at)?;
        self.graph.history().check(at)?;
        Ok(AsOf { at, next: locked.next })
    }
}
