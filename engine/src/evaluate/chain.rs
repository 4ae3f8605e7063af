//! Chains: `-[*1..3]->`, edges one after another, none of them twice.
//!
//! A chain is followed depth first from one of its ends, on a stack of its own: it may be as long as the graph has edges.
//! What has to hold of each edge and node is tested as they are crossed. Every chain found is handed on as the walk through
//! the pattern hands on a single edge.

use std::mem::size_of;
use std::ops::ControlFlow;

use rustc_hash::FxHashSet;
use weir_model::plan::{Chain, Search};
use weir_model::{Failure, NodeId, Value};

use super::mismatch;
use super::operators::{Flow, GO_ON, STOP};
use super::pattern::{Crossing, Walk, crossing};
use crate::view::{Direction, EdgeRef, HalfEdge};

/// Between what a chain is followed.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub from: NodeId,
    /// The place of the other end in the pattern.
    pub to: usize,
    /// The other end, where it has been visited.
    pub known: Option<NodeId>,
    pub direction: Direction,
}

/// How many edges a chain may have.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    pub min: u64,
    /// None where there is no bound.
    pub max: Option<u64>,
}

/// How a search for trails ended.
pub(super) struct Trailed {
    /// Break where `arrive` has had enough.
    pub flow: ControlFlow<()>,
    /// Whether trails were cut off by the greatest length, so that there may be longer ones.
    pub is_cut: bool,
}

/// A node on the way with the half edges there, as they lie on the stack of half edges.
struct Level {
    node: NodeId,
    start: usize,
    next: usize,
    end: usize,
    bytes: usize,
}

/// A search for chains to a known end that has crossed this many edges looks from that end which nodes lead there at all.
const HOPS_BEFORE_PRUNING: usize = 1000;

/// What becomes of a chain that has come to a node.
pub(super) type Arrival<'a, 'w, 'r> = &'a mut dyn FnMut(&mut Walk<'w, 'r>, NodeId, &mut [Value]) -> Flow;

impl<'w, 'r> Walk<'w, 'r> {
    /// Goes on with every chain that fits.
    pub(super) fn follow(&mut self, index: usize, chain: &Chain, ends: Ends, at: usize, row: &mut [Value]) -> Flow {
        if !self.fits_chain_node(chain, ends.from, row)? {
            return GO_ON;
        }
        if self.pattern.edges[index].bound {
            return self.follow_bound(index, chain, ends, at, row);
        }
        match chain.search {
            Search::All => {
                let lengths = Lengths { min: chain.min, max: chain.max };
                let trailed = self
                    .trails(index, chain, ends, lengths, row, &mut |walk, far, row| walk.arrive(index, ends.to, far, at, row))?;
                Ok(trailed.flow)
            }
            Search::Shortest | Search::AllShortest => self.follow_shortest(index, chain, ends, at, row),
        }
    }

    /// Calls `arrive` at the end of every trail of the wanted lengths, with its edges in the frame.
    pub(super) fn trails(
        &mut self,
        index: usize,
        chain: &Chain,
        ends: Ends,
        Lengths { min, max }: Lengths,
        row: &mut [Value],
        arrive: Arrival<'_, 'w, 'r>,
    ) -> Result<Trailed, Failure> {
        let run = self.run;
        let is_end = |node: NodeId| ends.known.is_none_or(|known| known == node);
        self.frame.chains[index].edges.clear();
        if min == 0 && is_end(ends.from) && arrive(self, ends.from, row)?.is_break() {
            return STOP.map(|flow| Trailed { flow, is_cut: true });
        }
        if max.is_some_and(|max| max < min.max(1)) {
            return GO_ON.map(|flow| Trailed { flow, is_cut: true });
        }
        let mut used: FxHashSet<EdgeRef> = FxHashSet::default();
        let first = self.level(index, ends.from, ends, max == Some(1))?;
        let bottom = first.start;
        let mut levels = vec![first];
        let (mut hops, mut towards) = (0, None);
        // At the last level only what leads to a known end is listed: what else is there may be the way of a longer trail.
        let mut is_cut = max == Some(1);
        let mut flow = GO_ON?;
        while let Some(level) = levels.last_mut() {
            if level.next == level.end {
                run.scratch.halves.borrow_mut().truncate(level.start);
                run.budget.release(level.bytes);
                levels.pop();
                if let Some(edge) = self.frame.chains[index].edges.pop() {
                    used.remove(&edge);
                }
                continue;
            }
            let half = run.scratch.halves.borrow()[level.next];
            let hop = crossing(level.node, half);
            level.next += 1;
            run.budget.step()?;
            if used.contains(&hop.edge) || self.is_taken(index, hop.edge) || !self.fits_hop(chain, hop, row)? {
                continue;
            }
            let length = levels.len() as u64;
            hops += 1;
            if let (Some(known), HOPS_BEFORE_PRUNING) = (ends.known, hops) {
                towards = self.towards(index, chain, (known, ends.direction), max, row)?;
            }
            if let Some(side) = &towards {
                let distance = side.distance(hop.far);
                if distance.is_none_or(|distance| max.is_some_and(|max| length + distance > max)) {
                    is_cut |= distance.is_some() || !side.is_whole();
                    continue;
                }
            }
            self.frame.chains[index].edges.push(hop.edge);
            if length >= min && is_end(hop.far) && arrive(self, hop.far, row)?.is_break() {
                flow = STOP?;
                break;
            }
            if max.is_none_or(|max| length < max) {
                used.insert(hop.edge);
                let last = max == Some(length + 1);
                is_cut |= last;
                let level = self.level(index, hop.far, ends, last)?;
                levels.push(level);
            } else {
                self.frame.chains[index].edges.pop();
            }
        }
        // Only where it was broken off is anything left.
        run.scratch.halves.borrow_mut().truncate(bottom);
        run.budget.release(levels.iter().map(|level| level.bytes).sum());
        run.budget.release(towards.map_or(0, |side| side.bytes));
        self.frame.chains[index].edges.clear();
        Ok(Trailed { flow, is_cut })
    }

    /// Lists the half edges at a node of the chain; where only one edge more is wanted, those to the end alone.
    fn level(&self, index: usize, node: NodeId, ends: Ends, last: bool) -> Result<Level, Failure> {
        let far = ends.known.filter(|_| last);
        let halves = self.halves(node, far, ends.direction, &self.pattern.edges[index].kinds);
        let bytes =
            self.run.budget.hold_bytes(halves.len() * size_of::<HalfEdge>() + size_of::<Level>() + 2 * size_of::<EdgeRef>())?;
        Ok(Level { node, start: halves.start, next: halves.start, end: halves.end, bytes })
    }

    /// The list an earlier clause bound, if it is a chain that leads from here as the pattern says.
    fn follow_bound(&mut self, index: usize, chain: &Chain, ends: Ends, at: usize, row: &mut [Value]) -> Flow {
        let edge = &self.pattern.edges[index];
        let items = match edge.slot.map(|slot| &row[slot.0 as usize]) {
            Some(Value::List(items)) => items.clone(),
            Some(Value::Null) | None => return GO_ON,
            Some(other) => return self.run.end_row(mismatch("List of Relationships", other, "a pattern")),
        };
        let length = items.len() as u64;
        if length < chain.min || chain.max.is_some_and(|max| length > max) {
            return GO_ON;
        }
        let mut used: FxHashSet<EdgeRef> = FxHashSet::default();
        let mut here = ends.from;
        for i in 0..items.len() {
            self.run.budget.step()?;
            let item = &items[if self.frame.chains[index].backward { items.len() - 1 - i } else { i }];
            let fits = match self.bound_edge(edge, item, here, ends.direction)? {
                Some(hop) => {
                    here = hop.far;
                    self.frame.chains[index].edges.push(hop.edge);
                    used.insert(hop.edge) && !self.is_taken(index, hop.edge) && self.fits_hop(chain, hop, row)?
                }
                None => false,
            };
            if !fits {
                self.frame.chains[index].edges.clear();
                return GO_ON;
            }
        }
        let flow = self.arrive(index, ends.to, here, at, row);
        self.frame.chains[index].edges.clear();
        flow
    }

    /// The chain in the frame ends at `far`: goes on from there.
    pub(super) fn arrive(&mut self, index: usize, to: usize, far: NodeId, at: usize, row: &mut [Value]) -> Flow {
        let known = self.frame.nodes[to];
        if known.is_some_and(|known| known != far) {
            return GO_ON;
        }
        let edge = &self.pattern.edges[index];
        let restore = edge.slot.filter(|_| !edge.bound).map(|slot| {
            let slot = slot.0 as usize;
            (slot, std::mem::replace(&mut row[slot], self.chain_list(index)))
        });
        let flow = match known {
            Some(_) => self.step(at + 1, row),
            None => self.visit(to, far, at, row),
        };
        if let Some((slot, before)) = restore {
            row[slot] = before;
        }
        flow
    }

    /// The edges of the chain in the frame, as a list in the order in which it is written.
    pub(super) fn chain_list(&self, index: usize) -> Value {
        let edges = self.frame.chains[index].as_written();
        Value::List(edges.map(|edge| Value::Edge(self.run.reader.edge_key(edge).into())).collect())
    }

    /// What the chain says of each edge and each node it comes to.
    pub(super) fn fits_hop(&self, chain: &Chain, hop: Crossing, row: &mut [Value]) -> Result<bool, Failure> {
        for (slot, condition) in &chain.edges {
            row[slot.0 as usize] = Value::Edge(self.run.reader.edge_key(hop.edge).into());
            if !self.run.holds(condition, row)? {
                return Ok(false);
            }
        }
        self.fits_chain_node(chain, hop.far, row)
    }

    pub(super) fn fits_chain_node(&self, chain: &Chain, node: NodeId, row: &mut [Value]) -> Result<bool, Failure> {
        for (slot, condition) in &chain.nodes {
            row[slot.0 as usize] = Value::Node(node);
            if !self.run.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
