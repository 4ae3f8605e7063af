//! Rest: the matches of the graph as it is when a standing query is installed.
//!
//! Read as of one tick, it is enough to walk the path of the last atom, which reads every other atom as of after the change. The
//! graph at rest is a snapshot, in which every worker sees all shards: it begins at the nodes of its own and goes wherever
//! they lead.

use weir_model::plan::Atom;
use weir_model::{NodeId, Value};

use super::probe::change_of_edge;
use super::walk::{Change, Walk, look};
use crate::arrangement::{Facts, SharedBatch, Snapshot};
use crate::view::Direction;

/// How many nodes are looked at before other work of the worker gets its turn.
const NODES_AT_ONCE: usize = 4096;

pub struct Rest {
    pub snapshot: Snapshot,
    /// The last node that was looked at.
    after: Option<NodeId>,
}

impl Rest {
    pub fn new(snapshot: Snapshot) -> Rest {
        Rest { snapshot, after: None }
    }

    /// Looks at some nodes of the shard of `walk`, which sees the snapshot; true when there are no more.
    pub fn work(&mut self, walk: &mut Walk<'_>) -> bool {
        let batches = walk.batches;
        let mut positions: Vec<usize> = match self.after {
            Some(after) => batches.iter().map(|batch| batch.ids.partition_point(|id| *id <= after)).collect(),
            None => vec![0; batches.len()],
        };
        for _ in 0..NODES_AT_ONCE {
            let Some(id) = next(batches, &mut positions) else { return true };
            self.after = Some(id);
            walk_from(walk, id, self.snapshot.tick().0);
        }
        false
    }
}

/// The smallest id that comes next in any batch; moves past it in all.
fn next(batches: &[SharedBatch], positions: &mut [usize]) -> Option<NodeId> {
    let id = batches.iter().zip(&*positions).filter_map(|(batch, at)| batch.ids.get(*at)).min().copied()?;
    for (batch, at) in batches.iter().zip(positions) {
        if batch.ids.get(*at) == Some(&id) {
            *at += 1;
        }
    }
    Some(id)
}

fn walk_from(walk: &mut Walk<'_>, id: NodeId, time: u64) {
    let program = walk.program;
    let path = program.last;
    let facts = Facts::find(walk.batches, id);
    let mut row = vec![Value::Null; program.width];
    let change = Change { path, time, diff: 1 };
    match program.paths[path].atom {
        Atom::Node(node) => {
            let view = &program.nodes[node];
            row[view.slot] = Value::Node(id);
            if facts.is_interesting(time) && look(view, &facts, time, &mut row, walk) {
                walk.run(change, 0, &mut row, Some((id, &facts)));
            }
        }
        Atom::Edge(edge) => {
            let view = &program.edges[edge];
            facts.edges(Direction::Outgoing, &view.kinds, time, &mut |half| {
                for (key, slot) in &view.reads {
                    row[*slot] = facts.edge_property(half.kind, half.other, half.ordinal, *key, time);
                }
                change_of_edge(walk, change, edge, (id, &facts), half, &mut row);
            });
        }
    }
}
