//! How large a graph is: its nodes by label and its edges by type, counted in one pass over what holds now.

use rustc_hash::FxHashMap;
use weir_model::{Symbol, Text};

use crate::error::EngineError;
use crate::graph::Graph;
use crate::view::{Direction, View};

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GraphSizes {
    pub nodes: u64,
    /// How many nodes there are by label. A node with several counts for each.
    pub labels: Vec<(Text, u64)>,
    pub edges: u64,
    pub types: Vec<(Text, u64)>,
    /// Bytes of the graph's pages in the store, with its past.
    pub page_bytes: u64,
}

/// Nodes between two questions whether to go on.
const NODES_AT_ONCE: u64 = 1024;

impl Graph {
    /// None when `go_on` said no before the end.
    pub fn sizes(&self, go_on: &dyn Fn() -> bool) -> Result<Option<GraphSizes>, EngineError> {
        self.readable()?;
        let snapshot = self.snapshot();
        let (mut labels, mut types) = (FxHashMap::<Symbol, u64>::default(), FxHashMap::<Symbol, u64>::default());
        let (mut nodes, mut edges, mut whole) = (0u64, 0u64, true);
        snapshot.nodes(&mut |node| {
            whole = !nodes.is_multiple_of(NODES_AT_ONCE) || go_on();
            if whole {
                nodes += 1;
                snapshot.labels(node, &mut |label| *labels.entry(label).or_default() += 1);
                snapshot.edges(node, Direction::Outgoing, &[], &mut |half| {
                    edges += 1;
                    *types.entry(half.kind).or_default() += 1;
                });
            }
            whole
        });
        let named = |counts: FxHashMap<Symbol, u64>| {
            let mut named: Vec<(Text, u64)> =
                counts.into_iter().map(|(symbol, count)| (self.symbols().name(symbol), count)).collect();
            // By the label without a name a node is there, in the graph model of openCypher.
            named.retain(|(name, _)| !name.is_empty());
            named.sort_unstable();
            named
        };
        let runs = self.parts().store.runs(self.id())?;
        let page_bytes = runs.iter().map(|run| run.bytes).sum();
        Ok(whole.then(|| GraphSizes { nodes, labels: named(labels), edges, types: named(types), page_bytes }))
    }
}
