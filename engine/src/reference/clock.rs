//! The clock of a graph, driven by a test: time goes by when it says so, and what a seed brought comes again.

use weir_model::Tick;

use crate::error::EngineError;
use crate::graph::Graph;

/// From now on what a graph commits is of this millisecond, or of a later one. Of one that is ahead of the clock of the machine,
/// time stands still until this is called again; an engine that is opened later goes on where it committed last.
pub fn pass_to(graph: &Graph, millis: u64) -> Result<(), EngineError> {
    let before = Tick(Tick::at_millis(millis).0.saturating_sub(1));
    graph.committer().seal(before)?;
    Ok(())
}
