//! Recall: the past as a query that runs may ask for it, beside the view it reads.

use weir_model::{NodeId, Tick};

use super::changes::Change;
use super::past::Moment;
use crate::commit::wall_clock_millis;
use crate::error::EngineError;
use crate::handle::Graph;

pub struct Recall<'g> {
    graph: &'g Graph,
    /// The moment the query itself reads.
    until: Tick,
    is_past: bool,
}

impl<'g> Recall<'g> {
    pub fn new(graph: &'g Graph, until: Tick, is_past: bool) -> Recall<'g> {
        Recall { graph, until, is_past }
    }

    /// The millisecond at whose end a query reads that asked for one.
    pub fn moment(&self) -> Option<i64> {
        self.is_past.then(|| self.until.millis() as i64)
    }

    /// What happened to a node since history begins, up to the moment of the query. What is kept of before, so that the first change can say what it
    /// changed, is not told.
    pub fn changes(&self, node: NodeId) -> Result<Vec<Change>, EngineError> {
        let mut changes = self.graph.changes(node, self.until())?;
        let begins = self.graph.history().horizon().unwrap_or_default();
        changes.retain(|change| change.tick >= begins);
        Ok(changes)
    }

    /// The end of a millisecond, or the moment of the query if that is earlier; and how a query recalls that runs as of it.
    pub fn at(&self, millis: i64) -> Result<(Moment, Recall<'g>), EngineError> {
        let millis = millis.max(0) as u64;
        if millis > wall_clock_millis() {
            return Err(EngineError::NotYet(millis));
        }
        let until = Tick::end_of_millis(millis).min(self.until());
        Ok((self.graph.at(until)?, Recall::new(self.graph, until, true)))
    }

    /// The moment of the query, or a later one at which the graph was still the same: one at rest may have had its last change before history begins.
    fn until(&self) -> Tick {
        let is_unchanged = self.graph.next().0 <= self.until.0.saturating_add(1);
        let before_now = Tick::end_of_millis(wall_clock_millis().saturating_sub(1));
        if is_unchanged { self.until.max(before_now) } else { self.until }
    }
}
