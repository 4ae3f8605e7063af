//! Walk: runs the moves of a path depth first over one shard, changing a single row in place.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use weir_model::{EdgeKey, Expr, GraphFree, Map, NodeId, Symbol, Value};

use super::dense::{Dense, Near, Side};
use super::family::{Ending, Family};
use super::hubs::{Crossing, Hubs, turned};
use super::program::{Closing, EdgeView, Expansion, Move, Program, Version, Way};
use super::results::{Row, RowChange};
use super::{FamilyNumber, QueryNumber, Time};
use crate::arrangement::build::{Located, Shard};
use crate::arrangement::locate::{Locator, by_node, parts};
use crate::arrangement::{Batch, Facts, SharedBatch, Snapshot};
use crate::memory::at_most;
use crate::symbols::{UNKNOWN, WorkerSymbols};
use crate::view::{Direction, HalfEdge};

/// What is kept of the edges between nodes that the row has already and the node that is bound next, each as of its tick. A node
/// that not all of them lead to is passed over. So a node between two others is found by crossing the edges of the one that has
/// fewer, and asking of each node whether an edge of the other one leads there too.
struct Closed<'a>(SmallVec<[(&'a Near, Time); 2]>);

impl Closed<'_> {
    fn lead_to(&self, node: NodeId) -> bool {
        self.0.iter().all(|(near, at)| near.leads_to(node, *at))
    }
}

/// Up to this many edges are crossed without a look at what else there is.
const EDGES_FEW: usize = 2;

/// What a node of another shard counts for: nothing is known of it, and going there has a price.
const EDGES_ELSEWHERE: usize = 64;

/// What an edge counts for whose properties lie at its other end.
const EDGE_INSPECTED_ELSEWHERE: usize = 16;

/// Nodes and edges to which one change is followed, at most. It takes seconds, in which nothing else is done.
const STEPS_MAX: u64 = 1 << 28;

/// Bytes that what is found of one batch may take, where memory is large as well.
const FOUND_BYTES_MAX: usize = 2 << 30;
const PARTS_OF_MEMORY: u64 = 8;

/// What walks go over: the shard as its trace has it now, and what is kept of it.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub batches: &'a [SharedBatch],
    /// The newest of them, with where its nodes lie in the others, when walks begin there.
    pub newest: Option<(&'a Batch, &'a Located)>,
    /// Every shard at one tick, if walks read only that: then they have no need to send rows away.
    pub everywhere: Option<&'a Snapshot>,
    pub symbols: &'a WorkerSymbols,
    pub shard: Shard,
    /// What is kept of nodes that walks have met, if their ticks are among those of the newest batch.
    pub dense: Option<&'a Dense>,
    /// What this shard keeps of nodes with very many edges.
    pub hubs: Option<&'a Hubs>,
}

impl Ground<'_> {
    /// Whether a node lies on a shard that is not read.
    fn is_beyond(&self, node: NodeId) -> bool {
        let Shard { index, count } = self.shard;
        self.everywhere.is_none() && count > 1 && node.shard(count) != index
    }
}

/// What walks find.
#[derive(Default)]
pub struct Findings {
    pub results: Vec<RowChange>,
    /// Rows that go on at other shards.
    pub parcels: Vec<Parcel>,
    /// Where rows wait for the node they go on at, if they are many and may: one for the shard, or one for each that is read.
    waiting: Vec<Waiting>,
}

impl Findings {
    /// Of walks whose rows may wait, over `shards` shards.
    pub fn with_waiting(shards: usize) -> Findings {
        Findings { waiting: (0..shards).map(|_| Waiting::default()).collect(), ..Findings::default() }
    }

    /// Whether any rows wait.
    pub fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.next.is_empty())
    }
}

/// A walk for one family.
pub struct Walk<'a, 'w> {
    pub program: &'a Program,
    /// Whose matches complete rows are.
    pub family: &'a Family,
    pub ground: Ground<'a>,
    pub steps: Steps,
    findings: &'w mut Findings,
}

/// How far a walk has come.
pub struct Steps {
    count: u64,
    /// Whether it was too much, and the queries of the family have ended.
    pub stopped: bool,
}

impl Steps {
    pub fn taken(&self) -> u64 {
        self.count
    }
}

/// Rows that go on at nodes that are not found yet: they are found together.
#[derive(Default)]
struct Waiting {
    /// The rows, one after another.
    rows: Vec<Value>,
    /// The node that each of them goes on at.
    nodes: Vec<NodeId>,
    /// What each of them is about, and the move it goes on with.
    next: Vec<(Change, usize)>,
    locator: Locator,
}

impl Waiting {
    fn push(&mut self, row: &[Value], node: NodeId, next: (Change, usize)) {
        self.rows.extend_from_slice(row);
        self.nodes.push(node);
        self.next.push(next);
    }
}

/// Rows that wait together, at most.
const WAITING_MAX: usize = 512;

/// A row on its way to the shard of a node, with the move it goes on with.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Parcel {
    pub family: FamilyNumber,
    pub node: NodeId,
    pub path: u16,
    pub at: u16,
    pub time: Time,
    pub diff: i64,
    pub row: Row,
    pub errand: Errand,
}

/// What a row travels for.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub enum Errand {
    /// It goes on at its node, on the shard of that.
    Node,
    /// It goes on at those neighbours of its node that are kept on `shard`. The node has about `edges` edges to cross.
    Neighbours { shard: u16, edges: u32 },
    /// Nothing is kept on `shard`: on the shard of its node it crosses those edges of it that lead to `shard`.
    Edges { shard: u16 },
}

impl Parcel {
    /// The shard it goes to.
    pub fn shard(&self, count: usize) -> usize {
        match self.errand {
            Errand::Neighbours { shard, .. } => usize::from(shard),
            Errand::Node | Errand::Edges { .. } => self.node.shard(count),
        }
    }
}

/// A node that a walk is at, with what is known of it.
#[derive(Clone, Copy)]
pub struct Here<'f, 'a> {
    pub id: NodeId,
    pub facts: &'f Facts<'a>,
}

/// What a row is about, apart from its slots.
#[derive(Clone, Copy)]
pub struct Change {
    pub path: usize,
    pub time: Time,
    pub diff: i64,
}

/// A row that is to cross edges: what it is about, the move it is at, and what that says.
struct Expanding<'m> {
    change: Change,
    at: usize,
    expansion: &'m Expansion,
}

impl Expanding<'_> {
    /// The tick as of which edges are crossed.
    fn tick(&self) -> Time {
        self.expansion.version.tick(self.change.time)
    }
}

impl<'a, 'w> Walk<'a, 'w> {
    pub fn new(family: &'a Family, ground: Ground<'a>, findings: &'w mut Findings) -> Walk<'a, 'w> {
        let steps = Steps { count: 0, stopped: family.is_over() };
        Walk { program: &family.program, family, ground, steps, findings }
    }
}

impl<'a> Walk<'a, '_> {
    /// Makes move `at` of the path, and those behind it for each row that comes of it. `here` is a node already found. A move
    /// that needs the facts of another node has the row wait for them, or sends it to the shard that has them.
    pub fn run(&mut self, change: Change, at: usize, row: &mut [Value], here: Option<Here<'_, 'a>>) {
        self.steps.count += 1;
        if self.steps.count > STEPS_MAX {
            self.stop(change.time, &format!("a change leads to more than {STEPS_MAX} nodes and edges"));
        }
        if self.steps.stopped {
            return;
        }
        let program = self.program;
        let next = &program.paths[change.path].moves[at];
        let id = match next {
            Move::Done => return self.finish(change, row),
            Move::Choose(ways) => return self.run(change, self.choose(ways, change.time, row, here), row, here),
            Move::Test { condition } => {
                if self.family.passes(condition, row) {
                    self.run(change, at + 1, row, here);
                }
                return;
            }
            Move::Check { node, .. } => node_in(row, program.nodes[*node].slot),
            Move::Expand(expansion) => node_in(row, expansion.from),
            Move::Inspect { edge, .. } => self.edge_in(&program.edges[*edge], row).map(|(source, _)| source),
        };
        // Where the row has no node there, there is no match.
        let Some(id) = id else { return };
        if let Move::Expand(expansion) = next
            && self.cross_kept(&Expanding { change, at, expansion }, row, id, here)
        {
            return;
        }
        if let Some(here) = here
            && here.id == id
        {
            return self.visit(change, at, next, row, here);
        }
        if self.ground.is_beyond(id) {
            return self.send(change, at, row, id, Errand::Node);
        }
        let shard = self.ground.everywhere.map_or(0, |snapshot| snapshot.shard_of(id));
        if self.ground.newest.is_none_or(|(batch, _)| batch.index_of(id).is_none())
            && let Some(waiting) = self.findings.waiting.get_mut(shard)
        {
            waiting.push(row, id, (change, at));
            if waiting.next.len() == WAITING_MAX {
                self.go_on();
            }
            return;
        }
        let facts = self.find(id);
        self.visit(change, at, next, row, Here { id, facts: &facts });
    }

    /// Does what a row has come for.
    pub fn receive(&mut self, parcel: &mut Parcel) {
        let Parcel { node, path, at, time, diff, row, errand, .. } = parcel;
        let (change, at) = (Change { path: usize::from(*path), time: *time, diff: *diff }, usize::from(*at));
        let Move::Expand(expansion) = &self.program.paths[change.path].moves[at] else {
            return self.run(change, at, &mut row.0, None);
        };
        let expanding = Expanding { change, at, expansion };
        match *errand {
            Errand::Node => self.run(change, at, &mut row.0, None),
            Errand::Neighbours { edges, .. } => self.cross_from_elsewhere(&expanding, &mut row.0, *node, edges as usize),
            Errand::Edges { shard } => {
                let facts = self.find(*node);
                let here = Here { id: *node, facts: &facts };
                self.cross_from_here(&expanding, &mut row.0, here, Some(usize::from(shard)));
            }
        }
    }

    fn send(&mut self, Change { path, time, diff }: Change, at: usize, row: &[Value], node: NodeId, errand: Errand) {
        let (family, row) = (self.family.number, Row::from_slice(row));
        self.findings.parcels.push(Parcel { family, node, path: path as u16, at: at as u16, time, diff, row, errand });
        self.check_room(time);
    }

    /// Ends the queries of the family where what was found takes too much memory: a pattern that is crossed a thousand times at
    /// each of a thousand nodes has no answer.
    fn check_room(&mut self, time: Time) {
        let Findings { results, parcels, .. } = &*self.findings;
        let (found, bytes) = (results.len(), size_of_val(results.as_slice()) + size_of_val(parcels.as_slice()));
        if bytes > at_most(FOUND_BYTES_MAX, PARTS_OF_MEMORY) {
            self.stop(time, &format!("more than {found} matches were found at one time"));
        }
    }

    /// Ends the queries of the family, which nothing is found for any more.
    #[cold]
    fn stop(&mut self, time: Time, reason: &str) {
        if std::mem::replace(&mut self.steps.stopped, true) {
            return;
        }
        let family = self.family;
        let ended: FxHashSet<QueryNumber> = family.all().map(|member| member.query).collect();
        let of_results = self.findings.results.iter().filter(|change| ended.contains(&change.query)).map(|change| change.time);
        let of_parcels = self.findings.parcels.iter().filter(|parcel| parcel.family == family.number).map(|parcel| parcel.time);
        let first = of_results.chain(of_parcels).fold(time, Time::min);
        family.ended.set(true);
        for member in family.all() {
            member.health.ends_at(first);
            member.health.fail(reason);
        }
        self.findings.results.retain(|change| !ended.contains(&change.query));
        self.findings.parcels.retain(|parcel| parcel.family != family.number);
    }

    /// Goes on with the rows that wait, and with those that wait because of them.
    pub fn go_on(&mut self) {
        while let Some(shard) = self.findings.waiting.iter().position(|waiting| !waiting.next.is_empty()) {
            let Waiting { mut rows, mut nodes, mut next, mut locator } = std::mem::take(&mut self.findings.waiting[shard]);
            let batches = self.ground.everywhere.map_or(self.ground.batches, |snapshot| snapshot.shard(shard));
            let found = locator.locate(&nodes, batches);
            let of_nodes = by_node(&found, nodes.len());
            for (number, ((change, at), here)) in next.drain(..).zip(of_nodes).enumerate() {
                let facts = Facts::known(parts(batches, here));
                let row = &mut rows[number * self.program.width..][..self.program.width];
                self.run(change, at, row, Some(Here { id: nodes[number], facts: &facts }));
            }
            // Their room is used again.
            if self.findings.waiting[shard].next.is_empty() {
                rows.clear();
                nodes.clear();
                self.findings.waiting[shard] = Waiting { rows, nodes, next, locator };
            }
        }
    }

    pub fn node_reader(&self) -> NodeReader<'a> {
        NodeReader { family: self.family, symbols: self.ground.symbols }
    }

    fn find(&self, id: NodeId) -> Facts<'a> {
        if let Some(snapshot) = self.ground.everywhere {
            return snapshot.facts(id);
        }
        if let Some((batch, located)) = self.ground.newest
            && let Some(index) = batch.index_of(id)
        {
            return located.facts(batch, index);
        }
        Facts::find(self.ground.batches, id)
    }

    fn visit(&mut self, change: Change, at: usize, next: &Move, row: &mut [Value], here: Here<'_, 'a>) {
        let facts = here.facts;
        let tick = |version: &Version| version.tick(change.time);
        match next {
            Move::Check { node, version } => {
                if self.node_reader().read(*node, facts, tick(version), row) {
                    self.run(change, at + 1, row, Some(here));
                }
            }
            Move::Expand(expansion) => self.expand(&Expanding { change, at, expansion }, row, here),
            Move::Inspect { edge, version } => {
                let view = &self.program.edges[*edge];
                let Some((_, half)) = self.edge_in(view, row) else { return };
                for (property, slot) in &view.reads {
                    row[*slot] = facts.edge_property(half.kind, half.other, half.ordinal, *property, tick(version));
                }
                if view.conditions.iter().all(|condition| self.family.passes(condition, row)) {
                    self.run(change, at + 1, row, Some(here));
                }
            }
            Move::Test { .. } | Move::Choose(_) | Move::Done => {}
        }
    }

    /// What is kept of a side of a node for an edge of the pattern.
    fn kept(&self, edge: usize, node: NodeId, direction: Direction) -> Option<&'a Near> {
        let dense = self.ground.dense?;
        let sieve = self.family.sieves[edge]?;
        dense.near(Side { sieve, node, outgoing: direction == Direction::Outgoing })
    }

    /// Of a node, those edges that count may be kept from the next batch on. With several shards it is not known here what is
    /// written at the other ends.
    fn want(&self, edge: usize, node: NodeId, direction: Direction) {
        let outgoing = direction == Direction::Outgoing;
        if let (Some(dense), Some(sieve)) = (self.ground.dense, self.family.sieves[edge])
            && (outgoing || self.ground.shard.count == 1)
        {
            dense.want(Side { sieve, node, outgoing }, &self.family.program, edge);
        }
    }

    /// An edge crossed from a node of the row.
    fn crossing(&self, edge: usize, from: usize) -> Crossing {
        let EdgeView { source, target, .. } = self.program.edges[edge];
        Crossing { family: self.family.number, edge, to: if source == from { target } else { source } }
    }

    /// Crosses the edges that are kept of one of the ends. False where none is.
    fn cross_kept(&mut self, expanding: &Expanding<'_>, row: &mut [Value], id: NodeId, here: Option<Here<'_, 'a>>) -> bool {
        let Expanding { change, at, expansion } = *expanding;
        let Expansion { edge, to, direction, .. } = *expansion;
        let expected = match (expansion.bound, &row[to]) {
            (true, Value::Node(expected)) => Some(*expected),
            (true, _) => return true,
            (false, _) => None,
        };
        let (near, of, outgoing) = match (self.kept(edge, id, direction), expected) {
            (Some(near), _) => (near, expected, direction == Direction::Outgoing),
            // Asked of the other end, it is the same edge.
            (None, Some(expected)) => match self.kept(edge, expected, direction.opposite()) {
                Some(near) => (near, Some(id), direction != Direction::Outgoing),
                None => return false,
            },
            (None, None) => return false,
        };
        let closing = self.closing(expanding, row);
        near.each(of, outgoing, expanding.tick(), |half| {
            let half = match expected {
                Some(expected) => HalfEdge { outgoing: direction == Direction::Outgoing, other: expected, ..half },
                None => half,
            };
            if closing.lead_to(half.other) && self.bind(expansion, half, id, row) {
                // What would be asked of the edge holds.
                self.run(change, at + 2, row, here);
            }
        });
        true
    }

    /// What is kept of the edges that lead from nodes of the row to where an expansion leads.
    fn closing(&self, &Expanding { change, expansion, .. }: &Expanding<'_>, row: &[Value]) -> Closed<'a> {
        let of_edge = |closing: &Closing| match row[closing.from] {
            Value::Node(id) => Some((self.kept(closing.edge, id, closing.direction)?, closing.version.tick(change.time))),
            _ => None,
        };
        Closed(expansion.closing.iter().filter_map(of_edge).collect())
    }

    /// Puts an edge into the row that was found from a node. False where the pattern has another place for it.
    fn bind(&self, expansion: &Expansion, half: HalfEdge, id: NodeId, row: &mut [Value]) -> bool {
        let second_half_of_loop = expansion.direction == Direction::Both && half.other == id && !half.outgoing;
        let taken = expansion.other_nodes.iter().any(|slot| matches!(row[*slot], Value::Node(other) if other == half.other));
        if second_half_of_loop || taken {
            return false;
        }
        let ends = if half.outgoing { [id, half.other] } else { [half.other, id] };
        if expansion.other_edges.iter().any(|edge| self.is_in(*edge, row, ends, half)) {
            return false;
        }
        self.put(expansion.edge, row, ends, half);
        row[expansion.to] = Value::Node(half.other);
        true
    }

    /// Puts an edge where the pattern wants it.
    pub fn put(&self, edge: usize, row: &mut [Value], [source, target]: [NodeId; 2], half: HalfEdge) {
        let view = &self.program.edges[edge];
        let Some(slot) = view.slot else { return };
        row[slot] = match view.marked {
            true => mark(half),
            false => {
                Value::Edge(EdgeKey { source, kind: self.ground.symbols.text(half.kind), target, ordinal: half.ordinal }.into())
            }
        };
    }

    /// Whether this is the edge that the row has there.
    fn is_in(&self, edge: usize, row: &[Value], [source, target]: [NodeId; 2], half: HalfEdge) -> bool {
        let view = &self.program.edges[edge];
        let is_node = |slot: usize, node: NodeId| matches!(row[slot], Value::Node(id) if id == node);
        match view.slot.map(|slot| &row[slot]) {
            Some(there @ Value::Integer(_)) => {
                is_node(view.source, source) && is_node(view.target, target) && *there == mark(half)
            }
            Some(Value::Edge(there)) => {
                (there.source, there.target, there.ordinal) == (source, target, half.ordinal)
                    && self.ground.symbols.is(half.kind, &there.kind)
            }
            _ => false,
        }
    }

    /// The edge that the row has there: its source, and how that sees it.
    fn edge_in(&self, view: &EdgeView, row: &[Value]) -> Option<(NodeId, HalfEdge)> {
        match (row.get(view.slot?)?, &row[view.source], &row[view.target]) {
            (Value::Edge(key), ..) => {
                // Mostly one that the pattern asks for.
                let asked = view.kinds.iter().copied().find(|kind| self.ground.symbols.is(*kind, &key.kind));
                let kind = asked.or_else(|| self.ground.symbols.find(&key.kind)).unwrap_or(UNKNOWN);
                Some((key.source, HalfEdge { kind, outgoing: true, other: key.target, ordinal: key.ordinal }))
            }
            (Value::Integer(mark), Value::Node(source), Value::Node(target)) => {
                let (kind, ordinal) = (Symbol((mark >> 32) as u32), *mark as u32);
                Some((*source, HalfEdge { kind, outgoing: true, other: *target, ordinal }))
            }
            _ => None,
        }
    }

    /// The way that begins at the node with the fewest edges to cross.
    fn choose(&self, ways: &[Way], time: Time, row: &[Value], here: Option<Here<'_, 'a>>) -> usize {
        let [_, _, ..] = ways else { return ways.first().map_or(0, |way| way.at) };
        let node = |way: &Way| match row[way.from] {
            Value::Node(id) => id,
            _ => NodeId::default(),
        };
        let (mut best, mut others) = ((usize::MAX, 0), SmallVec::<[&Way; 4]>::new());
        for way in ways {
            match self.kept(way.edge, node(way), way.direction) {
                Some(near) => best = best.min((near.len(), way.at)),
                None => others.push(way),
            }
        }
        if best.0 <= EDGES_FEW || others.is_empty() {
            return best.1;
        }
        let mut offer = |way: &Way, facts: Option<&Facts<'_>>| {
            let view = &self.program.edges[way.edge];
            let here = view.reads.is_empty() || way.direction == Direction::Outgoing;
            let price = if here { 1 } else { EDGE_INSPECTED_ELSEWHERE };
            let all = |facts: &Facts<'_>| facts.about_edges(way.direction, &view.kinds);
            // Other shards keep about as many as this one.
            let few = |facts: &Facts<'_>| {
                let hubs = self.ground.hubs.filter(|hubs| self.family.sieves[way.edge].is_none() && hubs.may_be(facts))?;
                let ends = hubs.ends(self.crossing(way.edge, way.from), self.family, node(way), time)?;
                Some(ends.len() * self.ground.shard.count)
            };
            let count = facts.map_or(EDGES_ELSEWHERE, |facts| few(facts).unwrap_or_else(|| all(facts)));
            if facts.is_some() {
                self.want(way.edge, node(way), way.direction);
            }
            best = best.min((count * price, way.at));
            best
        };
        for way in &others {
            if let Some(Here { id, facts }) = here
                && id == node(way)
                && offer(way, Some(facts)).0 <= EDGES_FEW
            {
                return best.1;
            }
        }
        for way in others.iter().filter(|way| here.is_none_or(|here| here.id != node(way))) {
            let id = node(way);
            if self.ground.is_beyond(id) {
                offer(way, None);
            } else {
                offer(way, Some(&self.find(id)));
            }
        }
        best.1
    }

    /// Crosses the edges of a node. Of one with very many, each shard crosses those that lead to nodes of its own.
    fn expand(&mut self, expanding: &Expanding<'_>, row: &mut [Value], here: Here<'_, 'a>) {
        let Here { id, facts } = here;
        let Expanding { change, at, expansion } = *expanding;
        let Expansion { edge, from, bound, direction, .. } = *expansion;
        if !bound {
            self.want(edge, id, direction);
        }
        let hubs = self.ground.hubs.filter(|hubs| !bound && self.family.sieves[edge].is_none() && hubs.may_be(facts));
        let edges = hubs.map_or(0, |_| facts.about_edges(direction, &self.program.edges[edge].kinds));
        let Some(hubs) = hubs.filter(|hubs| edges >= hubs.edges_min()) else {
            return self.cross_from_here(expanding, row, here, None);
        };
        let Shard { index, count } = self.ground.shard;
        for shard in (0..count).filter(|shard| *shard != index) {
            let edges = edges.min(u32::MAX as usize) as u32;
            self.send(change, at, row, id, Errand::Neighbours { shard: shard as u16, edges });
        }
        let crossing = self.crossing(edge, from);
        let Some(ends) = hubs.ends(crossing, self.family, id, change.time) else {
            hubs.want(crossing, id, edges);
            let own = (count > 1).then_some(index);
            return self.cross_from_here(expanding, row, here, own);
        };
        let (tick, closing) = (expanding.tick(), self.closing(expanding, row));
        ends.each(|half| {
            if closing.lead_to(half.other) && facts.has_half(half, tick) {
                self.cross(expanding, row, (id, half), here);
            }
        });
    }

    /// Crosses the edges of a hub of another shard that lead to nodes of this one, by what this shard keeps of them. Where it
    /// keeps nothing, the row goes back to the shard of the hub, to cross them there.
    fn cross_from_elsewhere(&mut self, expanding: &Expanding<'_>, row: &mut [Value], id: NodeId, edges: usize) {
        let Expanding { change, at, expansion } = *expanding;
        let crossing = self.crossing(expansion.edge, expansion.from);
        let Some(hubs) = self.ground.hubs else { return };
        let Some(ends) = hubs.ends(crossing, self.family, id, change.time) else {
            hubs.want(crossing, id, edges);
            return self.send(change, at, row, id, Errand::Edges { shard: self.ground.shard.index as u16 });
        };
        let (tick, closing) = (expanding.tick(), self.closing(expanding, row));
        ends.each(|half| {
            let facts = self.find(half.other);
            if closing.lead_to(half.other) && facts.has_half(turned(half, id), tick) {
                self.cross(expanding, row, (id, half), Here { id: half.other, facts: &facts });
            }
        });
    }

    /// Crosses the edges of a node of this shard, by its facts; with `only_to`, those alone that lead to nodes of that shard.
    fn cross_from_here(&mut self, expanding: &Expanding<'_>, row: &mut [Value], here: Here<'_, 'a>, only_to: Option<usize>) {
        let Here { id, facts } = here;
        let (program, expansion) = (self.program, expanding.expansion);
        let (view, tick) = (&program.edges[expansion.edge], expanding.tick());
        let expected = match (expansion.bound, &row[expansion.to]) {
            (true, Value::Node(expected)) => Some(*expected),
            (true, _) => return,
            (false, _) => None,
        };
        let closing = self.closing(expanding, row);
        let shards = self.ground.shard.count;
        let mut cross = |half: HalfEdge, value: Option<Value>| {
            if only_to.is_some_and(|shard| half.other.shard(shards) != shard) || !closing.lead_to(half.other) {
                return;
            }
            if let (Some(value), Some(sieve)) = (value, &view.sieve) {
                row[sieve.slot] = value;
                for condition in &sieve.conditions {
                    match condition.look(row, &program.context).map(|value| value.holds()) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(failure) => {
                            // Otherwise the other end is put there when the edge is crossed.
                            row[expansion.to] = Value::Node(half.other);
                            return self.family.tell(condition, row, &failure);
                        }
                    }
                }
                if !facts.has_half(half, tick) {
                    return;
                }
            }
            if expected.is_none_or(|expected| expected == half.other) {
                self.cross(expanding, row, (id, half), here);
            }
        };
        match (expected, &view.sieve) {
            (Some(expected), _) => {
                facts.edges_to(expected, expansion.direction, &view.kinds, tick, &mut |half| cross(half, None));
            }
            (None, Some(sieve)) if expansion.direction == Direction::Outgoing => {
                for kind in &view.kinds {
                    facts.edges_by_property(*kind, sieve.key, tick, &mut |half, value| cross(half, Some(value)));
                }
            }
            _ => facts.edges(expansion.direction, &view.kinds, tick, &mut |half| cross(half, None)),
        }
    }

    /// Crosses an edge that is there.
    fn cross(&mut self, expanding: &Expanding<'_>, row: &mut [Value], (id, half): (NodeId, HalfEdge), here: Here<'_, 'a>) {
        let Expanding { change, at, expansion } = *expanding;
        let view = &self.program.edges[expansion.edge];
        if !self.bind(expansion, half, id, row) {
            return;
        }
        // With reads, the conditions are tested where those are made.
        if view.reads.is_empty() && !view.conditions.iter().all(|condition| self.family.passes(condition, row)) {
            return;
        }
        self.run(change, at + 1, row, Some(here));
    }

    /// Every move is made: the row is a result of each member whose constants and filters it meets.
    fn finish(&mut self, change: Change, row: &mut [Value]) {
        let (results, program) = (&mut self.findings.results, self.program);
        self.family.each(change.time, row, |member| {
            let Ending { filters, columns, context, .. } = &*member.ending;
            if !filters.iter().all(|filter| member.passes(filter, row, program)) {
                return;
            }
            let mut values = SmallVec::new();
            for (_, expr) in columns {
                // A row whose expression fails is no result, as in a filter.
                match expr.evaluate(row, context) {
                    Ok(value) => values.push(value),
                    Err(failure) => return member.tell(expr, row, program, &failure),
                }
            }
            let (query, source) = (member.query, member.source);
            results.push(RowChange { row: Row(values), time: change.time, diff: change.diff as i32, query, source });
        });
        self.check_room(change.time);
    }
}

/// Reads the local views of nodes: what the pattern of a family asks of each.
#[derive(Clone, Copy)]
pub struct NodeReader<'a> {
    pub family: &'a Family,
    pub symbols: &'a WorkerSymbols,
}

impl NodeReader<'_> {
    /// Reads the local view of a node into the row; false where the node does not pass. Before the first tick, which is
    /// `Time::MAX` (see `Version::tick`), there is nothing to read.
    pub fn read(self, node: usize, facts: &Facts<'_>, at: Time, row: &mut [Value]) -> bool {
        self.read_by(node, facts, at, row, |condition, row| self.family.passes(condition, row))
    }

    /// As `read`, where `passes` says which conditions hold.
    #[inline]
    pub fn read_by(
        self,
        node: usize,
        facts: &Facts<'_>,
        at: Time,
        row: &mut [Value],
        passes: impl Fn(&Expr, &[Value]) -> bool,
    ) -> bool {
        let view = &self.family.program.nodes[node];
        let nothing = at == Time::MAX;
        if !view.labels.iter().all(|label| !nothing && facts.has_label(*label, at)) {
            return false;
        }
        if !view.present.iter().all(|key| !nothing && facts.has_property(*key, at)) {
            return false;
        }
        if view.must_exist && (nothing || !facts.is_interesting(at)) {
            return false;
        }
        for (key, slot) in &view.reads {
            row[*slot] = if nothing { Value::Null } else { facts.property(*key, at) };
        }
        if let Some(slot) = view.reads_all {
            let mut map = Map::default();
            if !nothing {
                facts.properties(at, |key, value| map.push_unique(self.symbols.text(key), value));
            }
            row[slot] = Value::Map(map.sorted().into());
        }
        self.family.admits(node, row) && view.conditions.iter().all(|condition| passes(condition, row))
    }
}

/// The node that a row has in a slot.
fn node_in(row: &[Value], slot: usize) -> Option<NodeId> {
    match row[slot] {
        Value::Node(id) => Some(id),
        _ => None,
    }
}

/// What tells an edge from others between the same nodes.
fn mark(half: HalfEdge) -> Value {
    Value::Integer((u64::from(half.kind.0) << 32 | u64::from(half.ordinal)) as i64)
}

/// A condition that fails does not hold: the row is no match.
pub fn holds(condition: &Expr, row: &[Value], context: &GraphFree) -> bool {
    condition.look(row, context).is_ok_and(|value| value.holds())
}
