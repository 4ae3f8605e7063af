//! Match: visits a pattern in the order of its steps, backtracking, one row for each way it fits.
//!
//! A step binds a node or crosses an edge, tests what is known of it, and goes on to the next step; when that returns, the
//! binding is undone. Labels, conditions and reads of a node belong to the moment it is bound.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::plan::{Name, Pattern, PatternEdge, PatternNode, Slot, Step};
use weir_model::{EdgeKey, Failure, NodeId, Path, Symbol, Value};

use super::chain::Ends;
use super::mismatch;
use super::operators::{Flow, GO_ON, Next, Run, STOP};
use crate::view::{Direction, EdgeRef, HalfEdge};

/// Nodes that an edge leads to and that are fetched together, if there are more than `FEW`.
const EXPECTED: usize = 64;
const FEW: usize = 4;

/// Half edges that are listed before the first of them is followed; each further list is `STRETCH_GROWTH` times as long. Of a
/// node of very many the first is mostly enough. To go on, those that were listed are passed over again.
const FIRST_STRETCH: usize = 64;
const STRETCH_GROWTH: usize = 16;

/// In a pattern of at least this many edges it is kept which are taken; in a smaller one each is compared with all others.
const MANY_EDGES: usize = 32;

/// What of a pattern is bound at the moment.
#[derive(Default)]
pub(super) struct Frame {
    pub nodes: Vec<Option<NodeId>>,
    pub edges: Vec<Option<EdgeRef>>,
    /// The edges of each chain, by its place among the edges, in the order in which they were crossed.
    pub chains: Vec<Followed>,
    /// Those chains that are followed right now, each from within the one before: only they have edges.
    followed: Vec<usize>,
    /// In a pattern of many edges, which of them each edge of the graph is at the moment.
    taken: FxHashMap<EdgeRef, SmallVec<[usize; 1]>>,
}

impl Frame {
    fn take(&mut self, index: usize, edge: EdgeRef) {
        self.taken.entry(edge).or_default().push(index);
    }

    /// Gives back what was taken last.
    fn give_back(&mut self, edge: EdgeRef) {
        if let Entry::Occupied(mut by) = self.taken.entry(edge) {
            by.get_mut().pop();
            if by.get().is_empty() {
                by.remove();
            }
        }
    }
}

/// A chain as far as it has been followed.
#[derive(Default)]
pub(super) struct Followed {
    pub edges: Vec<EdgeRef>,
    /// Crossed against the way it is written.
    pub backward: bool,
}

impl Followed {
    /// In the order in which the chain is written.
    pub fn as_written(&self) -> impl Iterator<Item = EdgeRef> + '_ {
        let last = self.edges.len().wrapping_sub(1);
        (0..self.edges.len()).map(move |i| self.edges[if self.backward { last - i } else { i }])
    }
}

/// An edge as crossed from one of its ends.
#[derive(Clone, Copy)]
pub(super) struct Crossing {
    pub edge: EdgeRef,
    /// The end it leads to.
    pub far: NodeId,
}

/// What of a node needs no look when it is visited, because of how it was found.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// It has this many of the labels, from the first on.
    pub labels: usize,
    /// It meets this one of its conditions.
    pub condition: Option<usize>,
}

/// One way through a pattern.
pub(super) struct Walk<'w, 'r> {
    pub run: &'w Run<'r>,
    pub pattern: &'w Pattern,
    pub frame: Frame,
    steps: &'w [Step],
    /// The step before which it is chosen how to go on, where there is a choice.
    choice: Option<usize>,
    /// Whether the pattern has many edges that must differ.
    many: bool,
    next: Next<'w>,
}

impl Run<'_> {
    /// Calls `next` once for each match of the pattern.
    pub(super) fn matches(&self, pattern: &Pattern, row: &mut [Value], next: Next) -> Flow {
        let mut frame = self.scratch.frames.borrow_mut().pop().unwrap_or_default();
        frame.nodes.clear();
        frame.nodes.resize(pattern.nodes.len(), None);
        frame.edges.clear();
        frame.edges.resize(pattern.edges.len(), None);
        frame.chains.resize_with(frame.chains.len().max(pattern.edges.len()), Followed::default);
        frame.chains.iter_mut().for_each(|chain| chain.edges.clear());
        frame.followed.clear();
        frame.taken.clear();
        let choice = (!pattern.orders.is_empty()).then(|| pattern.entered());
        let many = pattern.edges.len() >= MANY_EDGES && !pattern.distinct_edges.is_empty();
        let mut walk = Walk { run: self, pattern, frame, steps: &pattern.steps, choice, many, next };
        let flow = walk.step(0, row);
        self.scratch.frames.borrow_mut().push(walk.frame);
        flow
    }
}

impl Walk<'_, '_> {
    /// Takes step number `at` and all after it.
    pub(super) fn step(&mut self, at: usize, row: &mut [Value]) -> Flow {
        let (run, pattern) = (self.run, self.pattern);
        if self.choice == Some(at) {
            self.steps = run.order(pattern, &self.frame.nodes, row);
        }
        let Some(step) = self.steps.get(at) else { return self.complete(row) };
        run.budget.step()?;
        match step {
            Step::Bound { node } => {
                match row[pattern.nodes[*node].slot.0 as usize] {
                    Value::Node(id) => self.visit(*node, id, at, row),
                    // Its edges are those it has now, whatever moment its value is of.
                    Value::FullNode(ref full) => {
                        let id = full.id;
                        self.visit(*node, id, at, row)
                    }
                    // What an OPTIONAL MATCH did not find is in no pattern.
                    Value::Null => GO_ON,
                    ref other => run.end_row(mismatch("Node", other, "a pattern")),
                }
            }
            Step::Seek { node, id } => {
                let named = match id.look(row, run) {
                    Ok(value) => run.environment.ids.node_of(&value),
                    Err(failure) => return run.end_row(failure),
                };
                match (named, self.frame.nodes[*node]) {
                    (Some(id), None) => {
                        run.reader.note_entered(id);
                        self.visit(*node, id, at, row)
                    }
                    (Some(id), Some(visited)) if id == visited => self.step(at + 1, row),
                    (Some(_), Some(_)) => GO_ON,
                    (None, _) => {
                        run.note_unanchored(id);
                        GO_ON
                    }
                }
            }
            Step::SeekEach { node, ids, met } => self.seek_each(step, *node, (&ids[..], *met), at, row),
            Step::Scan { node, lookups } => self.scan(step, *node, lookups, at, row),
            Step::Ends { node, edge } => {
                let slot = pattern.edges[*edge].slot;
                let key = match slot.map_or(&Value::Null, |slot| &row[slot.0 as usize]) {
                    Value::Edge(key) => key,
                    Value::FullEdge(full) => &full.key,
                    Value::Null => return GO_ON,
                    other => return run.end_row(mismatch("Relationship", other, "a pattern")),
                };
                let (source, target) = (key.source, key.target);
                if self.visit(*node, source, at, row)?.is_break() {
                    return STOP;
                }
                if source == target { GO_ON } else { self.visit(*node, target, at, row) }
            }
            Step::Expand { edge, from } => self.expand(*edge, *from, at, row),
            Step::Test { condition } => {
                if run.holds(&pattern.conditions[*condition], row)? {
                    self.step(at + 1, row)
                } else {
                    GO_ON
                }
            }
        }
    }

    /// Binds a node, and goes on if it is one the pattern wants.
    pub(super) fn visit(&mut self, index: usize, id: NodeId, at: usize, row: &mut [Value]) -> Flow {
        self.visit_known(index, id, Known::default(), at, row)
    }

    /// As `visit`, of a node of which something is known.
    pub(super) fn visit_known(&mut self, index: usize, id: NodeId, known: Known, at: usize, row: &mut [Value]) -> Flow {
        let (pattern, frame) = (self.pattern, &self.frame);
        let node = &pattern.nodes[index];
        for (x, y) in &pattern.distinct_nodes {
            if (*x == index && frame.nodes[*y] == Some(id)) || (*y == index && frame.nodes[*x] == Some(id)) {
                return GO_ON;
            }
        }
        let slot = node.slot.0 as usize;
        // One that the row has in full stays what it is, with its labels and properties.
        let is_full = node.bound && matches!(row[slot], Value::FullNode(_));
        let before = (!is_full).then(|| std::mem::replace(&mut row[slot], Value::Node(id)));
        let flow = if self.fits_node(node, id, known, row)? {
            self.frame.nodes[index] = Some(id);
            let flow = self.step(at + 1, row);
            self.frame.nodes[index] = None;
            flow
        } else {
            GO_ON
        };
        if let Some(before) = before {
            row[slot] = before;
        }
        flow
    }

    /// Labels, reads and conditions of a node whose slot is filled.
    fn fits_node(&self, node: &PatternNode, id: NodeId, known: Known, row: &mut [Value]) -> Result<bool, Failure> {
        let view = self.run.reader.view;
        let has = |label: &Name| match &row[node.slot.0 as usize] {
            Value::FullNode(full) => full.labels.contains(&self.run.prepared.plan.names[label.0 as usize]),
            _ => view.has_label(id, self.run.prepared.symbol(*label)),
        };
        if !node.labels.iter().skip(known.labels).all(has) {
            return Ok(false);
        }
        for (key, slot) in &node.reads {
            row[slot.0 as usize] = view.property(id, self.run.prepared.symbol(*key));
        }
        if let Some(slot) = node.reads_all {
            row[slot.0 as usize] = Value::Map(self.run.reader.properties(id).into());
        }
        for (i, condition) in node.conditions.iter().enumerate() {
            if known.condition != Some(i) && !self.run.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn expand(&mut self, index: usize, from: usize, at: usize, row: &mut [Value]) -> Flow {
        let (run, edge, frame) = (self.run, &self.pattern.edges[index], &self.frame);
        let near = frame.nodes[from].ok_or_else(|| unvisited(from))?;
        let to = if from == edge.source { edge.target } else { edge.source };
        let direction = direction_from(edge, from);
        if let Some(chain) = &edge.chain {
            let backward = (from == edge.source) == chain.reversed;
            let ends = Ends { from: near, to, known: frame.nodes[to], direction };
            let followed = &mut self.frame.chains[index];
            followed.edges.clear();
            followed.backward = backward;
            self.frame.followed.push(index);
            let flow = self.follow(index, chain, ends, at, row);
            self.frame.followed.pop();
            return flow;
        }
        if edge.bound {
            let bound = edge.slot.map_or(&Value::Null, |slot| &row[slot.0 as usize]);
            return match self.bound_edge(edge, bound, near, direction)? {
                Some(crossing) => self.cross(index, to, crossing, at, row),
                None => GO_ON,
            };
        }
        let known = frame.nodes[to];
        let (mut passed, mut most) = (0, FIRST_STRETCH);
        loop {
            let (halves, all) = match known {
                Some(_) => (self.halves(near, known, direction, &edge.kinds), true),
                None => self.stretch(near, direction, &edge.kinds, &mut passed, most),
            };
            let many = halves.len() > FEW && known.is_none();
            let leads_on =
                many && self.steps[at + 1..].iter().any(|step| matches!(step, Step::Expand { from, .. } if *from == to));
            let asked = many && (leads_on || self.asks(to));
            for i in halves.clone() {
                run.budget.step()?;
                if asked && (i - halves.start).is_multiple_of(EXPECTED) {
                    self.prefetch(i..halves.end.min(i + EXPECTED), leads_on);
                }
                let half = run.scratch.halves.borrow()[i];
                if self.cross(index, to, crossing(near, half), at, row)?.is_break() {
                    run.scratch.halves.borrow_mut().truncate(halves.start);
                    return STOP;
                }
            }
            run.scratch.halves.borrow_mut().truncate(halves.start);
            if all {
                return GO_ON;
            }
            most *= STRETCH_GROWTH;
        }
    }

    /// Where these half edges lead will be asked for next. Apart from `expand`, which stands on the stack once for each edge.
    #[inline(never)]
    fn prefetch(&self, halves: std::ops::Range<usize>, edges: bool) {
        let nodes: SmallVec<[NodeId; EXPECTED]> =
            self.run.scratch.halves.borrow()[halves].iter().map(|half| half.other).collect();
        self.run.reader.view.prefetch(&nodes, edges);
    }

    /// Whether, once a node is bound, a label or property of it is read, at once or later.
    fn asks(&self, node: usize) -> bool {
        let PatternNode { slot, labels, reads, reads_all, .. } = &self.pattern.nodes[node];
        !labels.is_empty() || !reads.is_empty() || reads_all.is_some() || self.run.prepared.asked.contains(slot)
    }

    /// The next half edges at `near` that may match, about `most` of them, put on the stack of half edges; answers where, and
    /// whether they are the last. The first `passed` are passed over.
    fn stretch(
        &self,
        near: NodeId,
        direction: Direction,
        kinds: &[Name],
        passed: &mut usize,
        most: usize,
    ) -> (std::ops::Range<usize>, bool) {
        let (run, view) = (self.run, self.run.reader.view);
        let mut halves = run.scratch.halves.borrow_mut();
        let (start, mut given) = (halves.len(), 0);
        let all = with_symbols(run, kinds, |kinds| {
            let mut list = |half: HalfEdge| {
                given += 1;
                if given > *passed && !is_second_of_loop(near, half, direction) {
                    halves.push(half);
                }
                given < *passed + most
            };
            if run.scratch.any_order.get() {
                view.some_edges(near, direction, kinds, &mut list)
            } else {
                view.edges_while(near, direction, kinds, &mut list)
            }
        });
        if let Some(profile) = run.profile {
            profile.read((given - *passed) as u64);
        }
        *passed = given;
        (start..halves.len(), all)
    }

    /// All half edges at `near` that may match, put on the stack of half edges; answers where. A self loop comes once.
    pub(super) fn halves(
        &self,
        near: NodeId,
        far: Option<NodeId>,
        direction: Direction,
        kinds: &[Name],
    ) -> std::ops::Range<usize> {
        let (run, view) = (self.run, self.run.reader.view);
        let start = run.scratch.halves.borrow().len();
        with_symbols(run, kinds, |kinds| match far {
            // Between two known nodes a look-up will do, unless edges are many or of any type.
            Some(far) if !kinds.is_empty() && !run.environment.open_cypher => {
                for (_, kind) in kinds.iter().enumerate().filter(|(i, kind)| !kinds[..*i].contains(kind)) {
                    for outgoing in [true, false] {
                        let half = HalfEdge { kind: *kind, outgoing, other: far, ordinal: 0 };
                        let wanted = match direction {
                            Direction::Outgoing => outgoing,
                            Direction::Incoming => !outgoing,
                            Direction::Both => outgoing || far != near,
                        };
                        if wanted && view.has_edge(crossing(near, half).edge) {
                            run.scratch.halves.borrow_mut().push(half);
                        }
                    }
                }
            }
            _ => {
                let mut halves = run.scratch.halves.borrow_mut();
                let mut list = |half: HalfEdge| {
                    if !is_second_of_loop(near, half, direction) {
                        halves.push(half);
                    }
                };
                match far {
                    Some(far) => {
                        // A type that is named twice is one.
                        let mut kinds: SmallVec<[Symbol; 4]> = kinds.into();
                        kinds.sort_unstable();
                        kinds.dedup();
                        view.edges_to(near, far, direction, &kinds, &mut list);
                    }
                    None => view.edges(near, direction, kinds, &mut list),
                }
            }
        });
        start..run.scratch.halves.borrow().len()
    }

    /// The edge an earlier clause bound, if it still is there and leads from `near` as the pattern says.
    pub(super) fn bound_edge(
        &self,
        edge: &PatternEdge,
        bound: &Value,
        near: NodeId,
        direction: Direction,
    ) -> Result<Option<Crossing>, Failure> {
        let key: &EdgeKey = match bound {
            Value::Edge(key) => key,
            Value::FullEdge(full) => &full.key,
            Value::Null => return Ok(None),
            other => return self.run.end_row(mismatch("Relationship", other, "a pattern")).map(|_| None),
        };
        let found = self.run.reader.edge_ref(key);
        let far = match direction {
            Direction::Outgoing | Direction::Both if found.source == near => found.target,
            Direction::Incoming | Direction::Both if found.target == near => found.source,
            _ => return Ok(None),
        };
        let kind_fits = edge.kinds.is_empty() || edge.kinds.iter().any(|kind| self.run.prepared.symbol(*kind) == found.kind);
        Ok((kind_fits && self.run.reader.view.has_edge(found)).then_some(Crossing { edge: found, far }))
    }

    /// Binds an edge, and goes on to its far end if both are what the pattern wants.
    fn cross(&mut self, index: usize, to: usize, crossing: Crossing, at: usize, row: &mut [Value]) -> Flow {
        let (pattern, frame) = (self.pattern, &self.frame);
        let edge = &pattern.edges[index];
        let known_far = frame.nodes[to];
        if known_far.is_some_and(|far| far != crossing.far) {
            return GO_ON;
        }
        if self.is_taken(index, crossing.edge) {
            return GO_ON;
        }
        let restore = edge.slot.filter(|_| !edge.bound).map(|Slot(slot)| {
            let key = Value::Edge(self.run.reader.edge_key(crossing.edge).into());
            (slot as usize, std::mem::replace(&mut row[slot as usize], key))
        });
        let flow = if self.fits_edge(edge, crossing.edge, row)? {
            self.frame.edges[index] = Some(crossing.edge);
            if self.many {
                self.frame.take(index, crossing.edge);
            }
            let flow = match known_far {
                Some(_) => self.step(at + 1, row),
                None => self.visit(to, crossing.far, at, row),
            };
            self.frame.edges[index] = None;
            if self.many {
                self.frame.give_back(crossing.edge);
            }
            flow
        } else {
            GO_ON
        };
        if let Some((slot, before)) = restore {
            row[slot] = before;
        }
        flow
    }

    /// Whether another edge of the pattern, one that must differ from this, is this very edge.
    pub(super) fn is_taken(&self, index: usize, edge: EdgeRef) -> bool {
        let (pattern, frame) = (self.pattern, &self.frame);
        let is_this = |taken: &EdgeRef| taken.target == edge.target && *taken == edge;
        if self.many {
            let by_chain = |other: &usize| pattern.must_differ(index, *other) && frame.chains[*other].edges.iter().any(is_this);
            return frame.taken.get(&edge).is_some_and(|by| by.iter().any(|other| pattern.must_differ(index, *other)))
                || frame.followed.iter().any(by_chain);
        }
        pattern.distinct_edges.iter().any(|(x, y)| {
            let other = match (*x == index, *y == index) {
                (true, _) => *y,
                (_, true) => *x,
                _ => return false,
            };
            frame.edges[other].as_ref().is_some_and(is_this) || frame.chains[other].edges.iter().any(is_this)
        })
    }

    fn fits_edge(&self, edge: &PatternEdge, found: EdgeRef, row: &mut [Value]) -> Result<bool, Failure> {
        for (key, slot) in &edge.reads {
            row[slot.0 as usize] = self.run.reader.view.edge_property(found, self.run.prepared.symbol(*key));
        }
        for condition in &edge.conditions {
            if !self.run.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Everything is bound: builds the named paths.
    fn complete(&mut self, row: &mut [Value]) -> Flow {
        for path in &self.pattern.paths {
            row[path.slot.0 as usize] = self.path(path.start, &path.edges)?;
        }
        (self.next)(row)
    }

    /// The path from a node over edges and chains.
    pub(super) fn path(&self, start: usize, edges: &[usize]) -> Result<Value, Failure> {
        let frame = &self.frame;
        let start = frame.nodes[start].ok_or_else(|| unvisited(start))?;
        let (mut here, mut steps) = (start, Vec::with_capacity(edges.len()));
        let mut cross = |edge: EdgeRef| {
            here = if edge.source == here { edge.target } else { edge.source };
            steps.push((self.run.reader.edge_key(edge), here));
        };
        for edge in edges {
            match &self.pattern.edges[*edge].chain {
                Some(_) => frame.chains[*edge].as_written().for_each(&mut cross),
                None => cross(frame.edges[*edge].ok_or_else(|| unvisited(*edge))?),
            }
        }
        Ok(Value::Path(Path { start, steps }.into()))
    }
}

/// The way an edge of the pattern leads from one of its ends.
pub(super) fn direction_from(edge: &PatternEdge, from: usize) -> Direction {
    match (edge.directed, from == edge.source) {
        (false, _) => Direction::Both,
        (true, true) => Direction::Outgoing,
        (true, false) => Direction::Incoming,
    }
}

/// Whether it is the other half of a loop that is listed from both its ends.
fn is_second_of_loop(near: NodeId, half: HalfEdge, direction: Direction) -> bool {
    direction == Direction::Both && half.other == near && !half.outgoing
}

pub(super) fn crossing(near: NodeId, half: HalfEdge) -> Crossing {
    let (source, target) = if half.outgoing { (near, half.other) } else { (half.other, near) };
    Crossing { edge: EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal }, far: half.other }
}

/// A plan whose steps do not hang together: a bug of the compiler, reported rather than answered wrongly.
pub(super) fn unvisited(part: usize) -> Failure {
    let message = format!("The plan uses part {part} of a pattern before it is bound; please report this query");
    Failure::new(weir_model::expression::FailureKind::Runtime, message)
}

/// The symbols of edge types, without allocating for the few a pattern mostly has.
pub(super) fn with_symbols<R>(run: &Run, names: &[Name], body: impl FnOnce(&[Symbol]) -> R) -> R {
    let mut few = [Symbol(0); 8];
    if names.len() > few.len() {
        let all: Vec<Symbol> = names.iter().map(|name| run.prepared.symbol(*name)).collect();
        return body(&all);
    }
    for (symbol, name) in few.iter_mut().zip(names) {
        *symbol = run.prepared.symbol(*name);
    }
    body(&few[..names.len()])
}
