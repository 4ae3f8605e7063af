//! Rest: the matches of the graph as it is when a standing query is installed.
//!
//! Read as of one tick, it is enough to walk the path of the last atom, which reads every other atom as of after the change. The
//! graph at rest is a snapshot, in which every worker sees all shards: it begins at the nodes of its own and goes wherever
//! they lead.

use std::hint::black_box;

use weir_model::mutation::Kind;
use weir_model::plan::Atom;
use weir_model::{NodeId, Symbol, Value};

use super::probe::change_of_edge;
use super::program::{Move, Program};
use super::walk::{Change, Walk, look};
use crate::arrangement::{Fact, Facts, SharedBatch, Snapshot};
use crate::view::Direction;

/// How many nodes are looked at before other work of the worker gets its turn.
const NODES_AT_ONCE: usize = 4096;

/// How many of them at a time are brought near: with what the walks from them read, they fit the processor's second cache.
const NODES_WARMED: usize = 256;

pub struct Rest {
    pub snapshot: Snapshot,
    /// The last node that was looked at.
    after: Option<NodeId>,
    /// Whether many of the nodes lead somewhere, so far.
    fruitful: bool,
}

impl Rest {
    pub fn new(snapshot: Snapshot) -> Rest {
        Rest { snapshot, after: None, fruitful: false }
    }

    /// Looks at some nodes of the shard of `walk`, which sees the snapshot; true when there are no more.
    pub fn work(&mut self, walk: &mut Walk<'_>) -> bool {
        let batches = walk.batches;
        let mut positions: Vec<usize> = match self.after {
            Some(after) => batches.iter().map(|batch| batch.ids.partition_point(|id| *id <= after)).collect(),
            None => vec![0; batches.len()],
        };
        let mut nodes = Vec::with_capacity(NODES_WARMED);
        for _ in 0..NODES_AT_ONCE / NODES_WARMED {
            nodes.clear();
            while nodes.len() < NODES_WARMED
                && let Some(id) = next(batches, &mut positions)
            {
                nodes.push(id);
            }
            let Some(last) = nodes.last() else { return true };
            self.after = Some(*last);
            let before = walk.results.len();
            if self.fruitful {
                Warming { snapshot: &self.snapshot, program: walk.program }.bring_near(&nodes);
            }
            for id in &nodes {
                walk_from(walk, *id, self.snapshot.tick().0);
            }
            self.fruitful = walk.results.len() - before > nodes.len() / 8;
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

/// Touches what walks from some nodes will read. A walk waits for memory at every node it comes to, one after another; here the
/// waits of many nodes pass at once. Only speed depends on it.
struct Warming<'a> {
    snapshot: &'a Snapshot,
    program: &'a Program,
}

impl<'a> Warming<'a> {
    fn bring_near(&self, roots: &[NodeId]) {
        let Program { nodes, edges, paths, last, .. } = self.program;
        let path = &paths[*last];
        let of_roots = self.touch(roots);
        // What lies at each slot reached so far.
        let mut reached = match path.atom {
            Atom::Node(node) => vec![(nodes[node].slot, of_roots)],
            Atom::Edge(edge) => {
                let edge = &edges[edge];
                let ends = ends(&of_roots, Direction::Outgoing, &edge.kinds);
                vec![(edge.source, of_roots), (edge.target, self.touch(&ends))]
            }
        };
        for step in &path.moves {
            if let Move::Expand(expansion) = step
                && let Some((_, facts)) = reached.iter().find(|(slot, _)| *slot == expansion.from)
            {
                let ends = ends(facts, expansion.direction, &edges[expansion.edge].kinds);
                reached.push((expansion.to, self.touch(&ends)));
            }
        }
    }

    fn touch(&self, ids: &[NodeId]) -> Vec<&'a [Fact]> {
        let mut found = Vec::with_capacity(ids.len());
        let (mut here, mut scratch) = (Vec::with_capacity(ids.len()), Vec::new());
        for (shard, batches) in self.snapshot.shards().enumerate() {
            here.clear();
            here.extend(ids.iter().filter(|id| self.snapshot.shard_of(**id) == shard));
            for batch in batches {
                batch.locate(&here, &mut scratch, |_, position| found.push(batch.node(position).1));
            }
        }
        let touched = found.iter().flat_map(|facts| facts.iter().step_by(2).take(8));
        black_box(touched.fold(0, |sum, fact| sum ^ fact.tag.0));
        found
    }
}

/// Where edges of these types lead, as far as that is worth following.
fn ends(of: &[&[Fact]], direction: Direction, kinds: &[Symbol]) -> Vec<NodeId> {
    let leads = |fact: &&Fact| {
        let along = match fact.tag.kind() {
            Kind::Out => direction != Direction::Incoming,
            Kind::In => direction != Direction::Outgoing,
            _ => false,
        };
        along && (kinds.is_empty() || kinds.contains(&fact.tag.symbol()))
    };
    of.iter().flat_map(|facts| facts.iter()).filter(leads).map(|fact| fact.payload.as_node()).take(4 * NODES_WARMED).collect()
}
