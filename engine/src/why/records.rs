//! Records: which record of which batch a tick was given to, so that a fact of an answer leads back to where it came from.
//!
//!     tick ─ runs: batches of entries that were taken out of the log ─┬─> batch and place
//!          └ log: entries behind the last checkpoint, read once ──────┘

use std::cell::OnceCell;

use weir_model::Tick;

use crate::error::EngineError;
use crate::graph::Graph;
use crate::history::batches::{self, Batch};
use crate::store::StoreError;

/// The record that a tick was given to.
#[derive(Clone, Debug, PartialEq)]
pub struct OfRecord {
    /// Its place in its batch.
    pub place: u64,
    pub batch: Batch,
}

/// What sources brought to a graph, for one answer.
pub struct Records<'g> {
    graph: &'g Graph,
    /// What the log held when it was first looked at. An answer has hundreds of facts, and each would read all of it again.
    of_log: OnceCell<Vec<Batch>>,
}

impl<'g> Records<'g> {
    pub fn of(graph: &'g Graph) -> Records<'g> {
        Records { graph, of_log: OnceCell::new() }
    }

    /// Which records ticks were given to: None for those that no source brought, or before history begins.
    pub fn find(&self, ticks: &[Tick]) -> Result<Vec<Option<OfRecord>>, EngineError> {
        let Some(last) = ticks.iter().max() else { return Ok(Vec::new()) };
        let store = &*self.graph.parts().store;
        let of_log: &[Batch] = if store.progress(self.graph.id())?.upto <= *last { self.of_log()? } else { &[] };
        // A checkpoint may have taken some out of the log just now, so runs are looked at last.
        let of_runs = batches::find(store, self.graph.id(), ticks)?;
        let in_log = |tick: Tick| {
            let place = of_log.partition_point(|batch| batch.upper <= tick);
            of_log.get(place).filter(|batch| batch.holds(tick)).cloned()
        };
        let of_tick = |(tick, of_run): (&Tick, Option<Batch>)| {
            let batch = of_run.or_else(|| in_log(*tick))?;
            Some(OfRecord { place: tick.0 - batch.first.0, batch })
        };
        Ok(ticks.iter().zip(of_runs).map(of_tick).collect())
    }

    /// Of ticks that were given by now: no others are asked about.
    fn of_log(&self) -> Result<&[Batch], EngineError> {
        if let Some(known) = self.of_log.get() {
            return Ok(known);
        }
        let (next, mut found) = (self.graph.next(), Vec::new());
        let read = self.graph.parts().store.read_log(self.graph.id(), Tick::ZERO, &mut |entry| {
            if entry.first >= next {
                return Err(StoreError::Stopped);
            }
            found.extend(Batch::of(&entry));
            Ok(())
        });
        read.or_else(|error| if matches!(error, StoreError::Stopped) { Ok(()) } else { Err(error) })?;
        Ok(self.of_log.get_or_init(|| found))
    }
}
