//! Shortest chains between two nodes: breadth first from both ends at once, always on the side with fewer edges to go on along.
//!
//! ```text
//! from ──> level 1 ──> level 2 ══ meet ══ level 2 <── level 1 <── far
//! ```
//!
//! Each side remembers of every node the edges by which it was first reached; the shortest chains are all the ways back from
//! the nodes where the sides meet. Conditions on single edges and nodes hold during the search. Conditions on the whole chain
//! are tested on what it finds; where none of the shortest meets them, longer and longer trails are tried.

use std::mem::size_of;

use rustc_hash::FxHashMap;
use weir_model::plan::{Chain, Search};
use weir_model::{Failure, NodeId, Value};

use super::chain::{Ends, Lengths};
use super::operators::{Flow, GO_ON, STOP};
use super::pattern::{Walk, crossing, with_symbols};
use crate::view::{Direction, EdgeRef};

/// A chain whose end more nodes than this lead to is followed without knowing which do.
const NODES_TO_PRUNE_BY_MAX: usize = 1_000_000;

/// How the search came to a node.
struct Reached {
    depth: u64,
    /// The edges from nodes one nearer to where the side began; one alone where one path is enough.
    by: Vec<(EdgeRef, NodeId)>,
}

pub(super) struct Side {
    reached: FxHashMap<NodeId, Reached>,
    /// The nodes reached last, in the order in which they were.
    frontier: Vec<NodeId>,
    depth: u64,
    direction: Direction,
    /// Counted by the budget.
    pub bytes: usize,
}

impl Side {
    fn new(start: NodeId, direction: Direction) -> Side {
        let reached = FxHashMap::from_iter([(start, Reached { depth: 0, by: Vec::new() })]);
        Side { reached, frontier: vec![start], depth: 0, direction, bytes: 0 }
    }

    pub fn distance(&self, node: NodeId) -> Option<u64> {
        self.reached.get(&node).map(|reached| reached.depth)
    }

    /// Whether every node that leads to where it began has been reached.
    pub fn is_whole(&self) -> bool {
        self.frontier.is_empty()
    }

    fn ways_to(&self, node: NodeId) -> &[(EdgeRef, NodeId)] {
        self.reached.get(&node).map_or(&[], |reached| &reached.by)
    }
}

/// Both sides as they met, and the nodes where they did.
type Met = ([Side; 2], Vec<NodeId>);

/// Where one search is within the pattern.
struct Task<'c> {
    index: usize,
    chain: &'c Chain,
    ends: Ends,
    at: usize,
    /// A chain that meets all conditions was found.
    found: bool,
}

impl Walk<'_, '_> {
    pub(super) fn follow_shortest(&mut self, index: usize, chain: &Chain, ends: Ends, at: usize, row: &mut [Value]) -> Flow {
        let Some(far) = ends.known else { return Err(super::pattern::unvisited(ends.to)) };
        if !self.fits_chain_node(chain, far, row)? {
            return GO_ON;
        }
        let mut task = Task { index, chain, ends, at, found: false };
        if ends.from == far {
            // No chain is shorter than none. One that comes back to where it began is not looked for.
            return if chain.min == 0 { self.offer(&mut task, row) } else { GO_ON };
        }
        let Some((sides, meeting)) = self.meet(&task, far, row)? else { return GO_ON };
        let flow = self.ways_back(&mut task, &sides, &meeting, row)?;
        self.run.budget.release(sides[0].bytes + sides[1].bytes);
        if flow.0.is_break() || task.found || chain.whole.is_empty() {
            return Ok(flow.0);
        }
        self.longer(&mut task, flow.1, row)
    }

    /// Both searches up to where they meet, if they do.
    fn meet(&self, task: &Task, far: NodeId, row: &mut [Value]) -> Result<Option<Met>, Failure> {
        let direction = task.ends.direction;
        let mut sides = [Side::new(task.ends.from, direction), Side::new(far, direction.opposite())];
        let keeps_all = task.chain.search == Search::AllShortest || !task.chain.whole.is_empty();
        loop {
            let length = sides[0].depth + sides[1].depth;
            let stuck = sides.iter().any(|side| side.frontier.is_empty());
            if stuck || task.chain.max.is_some_and(|max| length >= max) {
                self.run.budget.release(sides[0].bytes + sides[1].bytes);
                return Ok(None);
            }
            let smaller = self.smaller(task.index, &sides)?;
            self.widen(task.index, task.chain, &mut sides[smaller], keeps_all, row)?;
            let other = &sides[1 - smaller].reached;
            let meeting: Vec<NodeId> = sides[smaller].frontier.iter().copied().filter(|node| other.contains_key(node)).collect();
            if !meeting.is_empty() {
                return Ok(Some((sides, meeting)));
            }
        }
    }

    /// The side that is less work to widen, as far as the view knows; of equals the one that has come less far, so that of two
    /// neighbours of a node of very many edges both come to it before all of its edges are followed.
    fn smaller(&self, index: usize, sides: &[Side; 2]) -> Result<usize, Failure> {
        let by_nodes = |side: usize| (sides[side].frontier.len(), sides[side].depth);
        let fewer = usize::from(by_nodes(1) < by_nodes(0));
        let work = self.work_ahead(index, &sides[fewer], usize::MAX)?;
        // Each of its nodes is one at least.
        if sides[1 - fewer].frontier.len() >= work {
            return Ok(fewer);
        }
        Ok(if self.work_ahead(index, &sides[1 - fewer], work)? < work { 1 - fewer } else { fewer })
    }

    /// About how many nodes and edges a side looks at when it is widened; not counted further once it is `enough`.
    fn work_ahead(&self, index: usize, side: &Side, enough: usize) -> Result<usize, Failure> {
        let view = self.run.reader.view;
        with_symbols(self.run, &self.pattern.edges[index].kinds, |kinds| {
            let mut work = 0;
            for node in &side.frontier {
                if work >= enough {
                    break;
                }
                self.run.budget.step()?;
                work += 1 + view.about_edges(*node, side.direction, kinds);
            }
            Ok(work)
        })
    }

    /// How far nodes are from the known end of a chain, for all that can reach it in time; None where they are too many.
    pub(super) fn towards(
        &self,
        index: usize,
        chain: &Chain,
        (known, direction): (NodeId, Direction),
        max: Option<u64>,
        row: &mut [Value],
    ) -> Result<Option<Side>, Failure> {
        let mut side = Side::new(known, direction.opposite());
        while !side.frontier.is_empty() && max.is_none_or(|max| side.depth < max) {
            self.widen(index, chain, &mut side, false, row)?;
            if side.reached.len() > NODES_TO_PRUNE_BY_MAX {
                self.run.budget.release(side.bytes);
                return Ok(None);
            }
        }
        Ok(Some(side))
    }

    /// One level more. Where all ways are wanted, every edge by which a node is first reached is kept.
    fn widen(&self, index: usize, chain: &Chain, side: &mut Side, keeps_all: bool, row: &mut [Value]) -> Result<(), Failure> {
        let run = self.run;
        side.depth += 1;
        let mut next = Vec::new();
        for near in std::mem::take(&mut side.frontier) {
            let halves = self.halves(near, None, side.direction, &self.pattern.edges[index].kinds);
            for i in halves.clone() {
                run.budget.step()?;
                let hop = crossing(near, run.scratch.halves.borrow()[i]);
                let known = side.distance(hop.far);
                let wanted = known.is_none_or(|depth| depth == side.depth && keeps_all);
                if !wanted || !self.fits_hop(chain, hop, row)? {
                    continue;
                }
                let mut bytes = size_of::<(EdgeRef, NodeId)>();
                if known.is_none() {
                    bytes += size_of::<(NodeId, Reached)>() + size_of::<NodeId>();
                    next.push(hop.far);
                }
                side.bytes += run.budget.hold_bytes(bytes)?;
                let reached = side.reached.entry(hop.far).or_insert_with(|| Reached { depth: side.depth, by: Vec::new() });
                reached.by.push((hop.edge, near));
            }
            run.scratch.halves.borrow_mut().truncate(halves.start);
        }
        side.frontier = next;
        Ok(())
    }

    /// Every chain over a node where the sides meet: back to the first end, then on to the other. Answers their length too.
    fn ways_back(
        &mut self,
        task: &mut Task,
        [first, second]: &[Side; 2],
        meeting: &[NodeId],
        row: &mut [Value],
    ) -> Result<(std::ops::ControlFlow<()>, u64), Failure> {
        let (back, length) = (first.depth as usize, (first.depth + second.depth) as usize);
        for middle in meeting {
            // The node to choose a way at, the ways tried there, and the edges chosen before.
            let mut choices: Vec<(NodeId, usize)> = vec![(*middle, 0)];
            let mut edges: Vec<EdgeRef> = Vec::with_capacity(length);
            while let Some((node, tried)) = choices.last_mut() {
                self.run.budget.step()?;
                let side = if edges.len() < back { first } else { second };
                let Some((edge, next)) = side.ways_to(*node).get(*tried) else {
                    choices.pop();
                    edges.pop();
                    continue;
                };
                *tried += 1;
                edges.push(*edge);
                if edges.len() < length {
                    choices.push((if edges.len() == back { *middle } else { *next }, 0));
                    continue;
                }
                let chain = &mut self.frame.chains[task.index].edges;
                chain.clear();
                chain.extend(edges[..back].iter().rev().chain(&edges[back..]));
                let flow = self.offer(task, row)?;
                if flow.is_break() || (task.found && task.chain.search == Search::Shortest) {
                    return Ok((flow, length as u64));
                }
                edges.pop();
            }
        }
        GO_ON.map(|flow| (flow, length as u64))
    }

    /// Trails of one length after another, until some meet the conditions on the whole or none can be longer.
    fn longer(&mut self, task: &mut Task, mut length: u64, row: &mut [Value]) -> Flow {
        while task.chain.max.is_none_or(|max| length < max) {
            length += 1;
            let mut above = GO_ON?;
            let (index, chain, ends) = (task.index, task.chain, task.ends);
            let lengths = Lengths { min: length, max: Some(length) };
            let trailed = self.trails(index, chain, ends, lengths, row, &mut |walk, _, row| {
                above = walk.offer(task, row)?;
                let enough = above.is_break() || (task.found && chain.search == Search::Shortest);
                if enough { STOP } else { GO_ON }
            })?;
            if above.is_break() || task.found || !trailed.is_cut {
                return Ok(above);
            }
        }
        GO_ON
    }

    /// The chain in the frame, if it meets the conditions on the whole.
    fn offer(&mut self, task: &mut Task, row: &mut [Value]) -> Flow {
        let far = task.ends.known.unwrap_or(task.ends.from);
        if self.fits_whole(task.index, task.chain, row)? {
            task.found = true;
            return self.arrive(task.index, task.ends.to, far, task.at, row);
        }
        GO_ON
    }

    fn fits_whole(&self, index: usize, chain: &Chain, row: &mut [Value]) -> Result<bool, Failure> {
        if chain.whole.is_empty() {
            return Ok(true);
        }
        if let Some(slot) = self.pattern.edges[index].slot {
            row[slot.0 as usize] = self.chain_list(index);
        }
        if let Some(slot) = chain.path
            && let Some(path) = self.pattern.paths.iter().find(|path| path.slot == slot)
        {
            row[slot.0 as usize] = self.path(path.start, &path.edges)?;
        }
        for condition in &chain.whole {
            if !self.run.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
