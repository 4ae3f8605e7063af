//! Recall: the past as a query that runs may ask for it, beside the view it reads.

use weir_model::{NodeId, Tick};

use super::changes::Change;
use super::past::Moment;
use crate::commit::wall_clock_millis;
use crate::engine::Graph;
use crate::error::EngineError;

pub struct Recall<'g> {
    graph: &'g Graph,
    /// The moment the query itself reads.
    until: Tick,
}

impl<'g> Recall<'g> {
    pub fn new(graph: &'g Graph, until: Tick) -> Recall<'g> {
        Recall { graph, until }
    }

    /// What happened to a node, up to the moment of the query.
    pub fn changes(&self, node: NodeId) -> Result<Vec<Change>, EngineError> {
        self.graph.changes(node, self.until())
    }

    /// The end of a millisecond, or the moment of the query if that is earlier.
    pub fn at(&self, millis: i64) -> Result<Moment, EngineError> {
        let millis = millis.max(0) as u64;
        if millis > wall_clock_millis() {
            return Err(EngineError::NotYet(millis));
        }
        self.graph.at(Tick::end_of_millis(millis).min(self.until()))
    }

    /// The moment of the query, or a later one at which the graph was still the same: one at rest may have had its last change before history begins.
    fn until(&self) -> Tick {
        let is_unchanged = self.graph.next().0 <= self.until.0.saturating_add(1);
        let before_now = Tick::end_of_millis(wall_clock_millis().saturating_sub(1));
        if is_unchanged { self.until.max(before_now) } else { self.until }
    }
}
