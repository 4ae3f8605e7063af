//! Hubs: of nodes of very many edges, those neighbours at which a pattern goes on.
//!
//!     walk ─ crosses all ─> wanted ─ looked through, some at a time ─> kept ─ crossed by walks
//!                                                  batches ─ taken in ──^
//!
//! A walk that crosses the edges of a node of a million asks each of the nodes at their other ends for what the pattern wants there, and most
//! have nothing of it. So of such a node those are kept that have: what is asked of the node itself, and an edge for each other edge of the
//! pattern there. Walks from then on cross these alone. Nothing is stored, all of it can be forgotten at any time, and what is not kept is
//! looked up in the graph.
//!
//! What is kept may be too much and never too little. Between batches it is what holds at the last tick. Before a batch is walked, each neighbour that
//! has what is asked at any tick of it is taken in, part by part, for a walk may read one part before a change and another after it; once it has been
//! walked, those go that have it no more. The walk itself asks for the edge, and for all the rest, at its own tick.
//!
//! Whoever gains or loses what is asked is a node of the batch, and knows by its own edges of which hubs it is a neighbour: of hubs and edges
//! the fewer are gone through. So a neighbour is kept on its own shard, wherever the hub lies, and a row at a hub goes to every shard. One that comes late asks
//! about a tick that is past: what has ended is forgotten only when no row of its tick is on its way any more.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use weir_model::mutation::{Kind, Tag};
use weir_model::{NodeId, Symbol, Value};

use super::family::Family;
use super::program::{Move, Program};
use super::queries::Queries;
use super::walk::look;
use super::{Time, before};
use crate::arrangement::build::{Located, Shard};
use crate::arrangement::locate::{Locator, by_node, parts};
use crate::arrangement::{Batch, Fact, Facts, Published, Segment, SharedBatch, edge_ranges};
use crate::symbols::Symbols;
use crate::view::{Direction, HalfEdge};

/// What counts as a hub, and how much is kept of them.
#[derive(Clone, Copy, Debug)]
pub struct HubBounds {
    /// Of nodes with fewer edges to cross nothing is kept.
    pub edges_min: usize,
    /// When more edges than these are kept by a worker, those of some hubs are forgotten.
    pub kept_max: usize,
}

impl Default for HubBounds {
    fn default() -> HubBounds {
        HubBounds { edges_min: 1_024, kept_max: 500_000 }
    }
}

/// So many hubs wait to be looked through; others are asked for again.
const WANTED_MAX: usize = 64;

/// How long a hub is looked through before others get their turn. Where one is walked meanwhile, all of it is at once: the walk took
/// longer than that does.
const AT_ONCE: Duration = Duration::from_micros(250);

/// So many neighbours are found together, and then the clock is looked at.
const NEIGHBOURS_BY_CLOCK: usize = 64;

/// Where more than one of so many neighbours has what is asked, keeping them gains little.
const FEW_OF: usize = 4;

/// So many are kept in any case.
const ENDS_ANYWAY: usize = 256;

/// For so many crossings hubs are kept at a time: they are the bits of a number.
const CROSSINGS_MAX: usize = 64;

/// An edge of the pattern of a family, crossed to the node of this slot.
pub type Crossing = (u32, usize, usize);

pub struct Hubs {
    bounds: HubBounds,
    crossings: Vec<(Crossing, Crossed)>,
    /// The crossings, a bit for each, that an update with a tag can concern; and those that others can.
    concerned: FxHashMap<Tag, u64>,
    concerned_by_any: u64,
    /// How many edges are kept.
    kept: usize,
    /// What walks have asked for.
    wanted: RefCell<FxHashSet<(Crossing, NodeId)>>,
    looking: Option<Looking>,
    /// Whether a walk has met what is being looked through.
    met_again: Cell<bool>,
    /// Crossings, and nodes of this batch that had what they ask for or have it now, by their places.
    touched: Vec<(usize, usize)>,
    leaving: Vec<Leaving>,
    /// Rows with ticks before this do not come any more.
    awaited: Time,
    /// The last tick that has been taken in.
    taken_in: Time,
    locator: Locator,
    row: Vec<Value>,
}

/// What is kept for a crossing.
struct Crossed {
    asked: Asked,
    /// The members of the family were these: more of them let more through.
    joined: u64,
    hubs: FxHashMap<NodeId, Hub>,
}

enum Hub {
    Few(Ends),
    /// Of so many edges too many lead to where the pattern goes on.
    Many(usize),
}

/// The edges of a hub that lead to where the pattern goes on, by their other end.
pub struct Ends {
    by_node: FxHashMap<NodeId, SmallVec<[End; 1]>>,
    /// All that count are here, after this tick.
    whole: Option<Time>,
    /// More are too many.
    most: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    kind: Symbol,
    outgoing: bool,
    ordinal: u32,
}

/// A hub that is looked through.
struct Looking {
    crossing: Crossing,
    hub: NodeId,
    /// As it sees them; those that have been looked at are gone.
    edges: Vec<HalfEdge>,
    /// Edges that had gone by this tick are not among them.
    as_of: Time,
}

/// A node that may have what is asked no more, or edges of it that are gone, since the last tick of a batch.
struct Leaving {
    since: Time,
    crossing: Crossing,
    node: NodeId,
    edges: SmallVec<[HalfEdge; 4]>,
}

/// What of a graph neighbours are looked for in.
pub struct Around<'a> {
    pub queries: &'a Queries,
    pub symbols: &'a Symbols,
    pub shard: Shard,
    /// All shards; this one may be ahead of them, or behind.
    pub published: &'a Published,
    /// Of this shard, with all that has been taken in.
    pub batches: &'a [SharedBatch],
    /// The last tick that has been taken in: all of it has.
    pub at: Time,
}

/// What a pattern asks of the nodes a crossing leads to.
struct Asked {
    node: usize,
    /// The edge that is crossed, as they see it.
    back: Edges,
    others: Vec<Edges>,
}

/// An edge of a pattern as one of its nodes sees it.
struct Edges {
    direction: Direction,
    kinds: Vec<Symbol>,
    ranges: SmallVec<[(Tag, Tag); 4]>,
    /// So many of a node are needed.
    least: usize,
}

impl Ends {
    pub fn len(&self) -> usize {
        self.by_node.len()
    }

    pub fn each(&self, mut visit: impl FnMut(HalfEdge)) {
        for (other, ends) in &self.by_node {
            for End { kind, outgoing, ordinal } in ends {
                visit(HalfEdge { kind: *kind, outgoing: *outgoing, other: *other, ordinal: *ordinal });
            }
        }
    }

    /// How many more there are by it.
    fn add(&mut self, half: HalfEdge) -> usize {
        let ends = self.by_node.entry(half.other).or_default();
        let end = End { kind: half.kind, outgoing: half.outgoing, ordinal: half.ordinal };
        let new = !ends.contains(&end);
        if new {
            ends.push(end);
        }
        usize::from(new)
    }

    /// How many fewer there are without it.
    fn remove(&mut self, half: HalfEdge) -> usize {
        let Some(ends) = self.by_node.get_mut(&half.other) else { return 0 };
        let (had, gone) = (ends.len(), End { kind: half.kind, outgoing: half.outgoing, ordinal: half.ordinal });
        ends.retain(|end| *end != gone);
        let left = ends.len();
        if left == 0 {
            self.by_node.remove(&half.other);
        }
        had - left
    }

    fn weight(&self) -> usize {
        self.by_node.values().map(SmallVec::len).sum()
    }
}

impl Edges {
    fn new(direction: Direction, kinds: &[Symbol]) -> Edges {
        Edges { direction, kinds: kinds.to_vec(), ranges: edge_ranges(direction, kinds), least: 1 }
    }

    fn concerns(&self, tag: Tag) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&tag))
    }

    /// Whether all that fit another fit this one.
    fn hold(&self, other: &Edges) -> bool {
        let kinds =
            self.kinds.is_empty() || (!other.kinds.is_empty() && other.kinds.iter().all(|kind| self.kinds.contains(kind)));
        kinds && (self.direction == Direction::Both || self.direction == other.direction)
    }

    /// Whether there are enough at a tick.
    fn are_met(&self, facts: &Facts<'_>, at: Time) -> bool {
        facts.has_edges(&self.ranges, self.least, at)
    }

    /// Whether there may be enough at any tick.
    fn may_be_met(&self, facts: &Facts<'_>) -> bool {
        facts.about_edges(self.direction, &self.kinds) >= self.least
    }
}

impl Asked {
    fn new(program: &Program, edge: usize, to: usize) -> Option<Asked> {
        let node = program.nodes.iter().position(|node| node.slot == to)?;
        let seen = |edge: usize| {
            let view = &program.edges[edge];
            let direction = match (view.directed, view.source == to) {
                (false, _) => Direction::Both,
                (true, true) => Direction::Outgoing,
                (true, false) => Direction::Incoming,
            };
            Edges::new(direction, &view.kinds)
        };
        let back = seen(edge);
        let at_node = |other: &usize| {
            let view = &program.edges[*other];
            *other != edge && (view.source == to || view.target == to)
        };
        let other = |other: usize| {
            let mut edges = seen(other);
            // The edge that was crossed is none of them.
            edges.least += usize::from(edges.hold(&back) && told_apart(program, edge, other));
            edges
        };
        let others = (0..program.edges.len()).filter(at_node).map(other).collect();
        Some(Asked { node, back, others })
    }

    /// Whether the local view of a node may be another one after an update.
    fn local(&self, program: &Program, tag: Tag) -> bool {
        let (view, symbol) = (&program.nodes[self.node], tag.symbol());
        match tag.kind() {
            Kind::Label => view.labels.contains(&symbol),
            Kind::Property => {
                let read = view.reads.iter().any(|(key, _)| *key == symbol);
                read || view.reads_all.is_some() || view.present.contains(&symbol)
            }
            _ => false,
        }
    }

    fn concerns(&self, program: &Program, tag: Tag) -> bool {
        self.local(program, tag) || self.back.concerns(tag) || self.others.iter().any(|edges| edges.concerns(tag))
    }

    /// The tags that concern it, or None if they cannot be told one by one.
    fn tags(&self, program: &Program) -> Option<Vec<Tag>> {
        let (view, edges) = (&program.nodes[self.node], || std::iter::once(&self.back).chain(&self.others));
        if view.reads_all.is_some() || edges().any(|edges| edges.kinds.is_empty()) {
            return None;
        }
        let labels = view.labels.iter().map(|label| Tag::new(Kind::Label, *label));
        let keys = view.present.iter().chain(view.reads.iter().map(|(key, _)| key)).map(|key| Tag::new(Kind::Property, *key));
        // With its types given, each range is one tag.
        let halves = edges().flat_map(|edges| edges.ranges.iter().map(|(tag, _)| *tag));
        Some(labels.chain(keys).chain(halves).collect())
    }

    /// Whether a node has at a tick what is asked of it.
    fn is_met(
        &self,
        (family, symbols): (&Family, &Symbols),
        (id, facts): (NodeId, &Facts<'_>),
        at: Time,
        row: &mut Vec<Value>,
    ) -> bool {
        self.others.iter().all(|edges| edges.are_met(facts, at)) && self.looks(family, symbols, (id, facts), at, row)
    }

    /// Whether its local view is one that the pattern asks for.
    fn looks(
        &self,
        family: &Family,
        symbols: &Symbols,
        (id, facts): (NodeId, &Facts<'_>),
        at: Time,
        row: &mut Vec<Value>,
    ) -> bool {
        row.resize(family.program.width, Value::Null);
        row[family.program.nodes[self.node].slot] = Value::Node(id);
        look(self.node, facts, at, row, family, symbols)
    }

    /// Whether a node of a batch may have it at any tick of it, each part at its own.
    fn may_be_met(
        &self,
        (family, symbols): (&Family, &Symbols),
        (id, facts): (NodeId, &Facts<'_>),
        ((segment, updates), last): ((&Segment, &[Fact]), Time),
        row: &mut Vec<Value>,
    ) -> bool {
        let local = updates.iter().filter(|fact| self.local(&family.program, fact.tag)).map(|fact| segment.time(fact));
        self.others.iter().all(|edges| edges.may_be_met(facts))
            && std::iter::once(last).chain(local).any(|at| self.looks(family, symbols, (id, facts), at, row))
    }

    /// The edges that a hub would be at the other end of, among those of a node at a tick.
    fn each_back(&self, facts: &Facts<'_>, at: Time, hubs: &FxHashMap<NodeId, Hub>, visit: &mut dyn FnMut(HalfEdge)) {
        let Edges { direction, kinds, .. } = &self.back;
        if kinds.is_empty() || facts.about_edges(*direction, kinds) <= hubs.len() {
            return facts.edges(*direction, kinds, at, visit);
        }
        hubs.keys().for_each(|hub| facts.edges_to(*hub, *direction, kinds, at, visit));
    }

    /// Those that come or go in a batch.
    fn each_changed<'a>(&'a self, segment: &'a Segment, updates: &'a [Fact]) -> impl Iterator<Item = (HalfEdge, bool)> + 'a {
        updates.iter().filter(|fact| self.back.concerns(fact.tag)).map(|fact| (segment.half(fact), fact.adds()))
    }
}

/// Whether a pattern has two edges that must not be the same.
fn told_apart(program: &Program, one: usize, other: usize) -> bool {
    program.paths.iter().flat_map(|path| &path.moves).any(|step| match step {
        Move::Expand(expansion) => {
            let apart = |a: usize, b: usize| expansion.edge == a && expansion.other_edges.contains(&b);
            apart(one, other) || apart(other, one)
        }
        _ => false,
    })
}

/// An edge as its other end sees it.
pub fn turned(half: HalfEdge, node: NodeId) -> HalfEdge {
    HalfEdge { other: node, outgoing: !half.outgoing, ..half }
}

impl Crossed {
    /// An edge leads from a hub to where the pattern goes on. How many more are kept by it, or fewer, where they are too many by now.
    fn add(&mut self, hub: NodeId, half: HalfEdge) -> isize {
        let Some(there @ Hub::Few(_)) = self.hubs.get_mut(&hub) else { return 0 };
        let Hub::Few(ends) = there else { return 0 };
        let added = ends.add(half);
        if ends.len() <= ends.most {
            return added as isize;
        }
        let all = ends.weight();
        *there = Hub::Many(ends.most * FEW_OF);
        added as isize - all as isize
    }

    fn remove(&mut self, hub: NodeId, half: HalfEdge) -> usize {
        match self.hubs.get_mut(&hub) {
            Some(Hub::Few(ends)) => ends.remove(half),
            _ => 0,
        }
    }

    fn weight(&self) -> usize {
        self.hubs.values().map(|hub| if let Hub::Few(ends) = hub { ends.weight() } else { 0 }).sum()
    }
}

impl Hubs {
    /// Of one shard, or of one of several: then rows come from others.
    pub fn new(bounds: HubBounds, shards: usize) -> Hubs {
        let awaited = if shards > 1 { 0 } else { Time::MAX };
        Hubs {
            bounds,
            crossings: Vec::new(),
            concerned: FxHashMap::default(),
            concerned_by_any: 0,
            kept: 0,
            wanted: RefCell::default(),
            looking: None,
            met_again: Cell::default(),
            touched: Vec::new(),
            leaving: Vec::new(),
            awaited,
            taken_in: 0,
            locator: Locator::default(),
            row: Vec::new(),
        }
    }

    /// Whether a node with these facts may be one.
    pub fn may_be(&self, facts: &Facts<'_>) -> bool {
        facts.has_at_least(self.bounds.edges_min)
    }

    fn crossed(&self, crossing: Crossing) -> Option<&Crossed> {
        self.crossings.iter().find(|(of, _)| *of == crossing).map(|(_, crossed)| crossed)
    }

    /// What this shard keeps of the edges of a node for a crossing, before and after a change at a tick.
    pub fn ends(&self, crossing: Crossing, family: &Family, node: NodeId, time: Time) -> Option<&Ends> {
        let crossed = self.crossed(crossing).filter(|crossed| crossed.joined == family.joined)?;
        match crossed.hubs.get(&node)? {
            Hub::Few(ends) => Some(ends).filter(|ends| self.knows(time) && ends.whole.is_some_and(|whole| whole < time)),
            Hub::Many(_) => None,
        }
    }

    /// Whether everything by a tick has been taken in.
    pub fn knows(&self, tick: Time) -> bool {
        tick <= self.taken_in
    }

    /// Nothing by this tick comes any more. Batches may have come that are later: gives the last tick of them all.
    pub fn has_all_by(&mut self, tick: Time) -> Time {
        self.taken_in = self.taken_in.max(tick);
        self.taken_in
    }

    pub fn edges_min(&self) -> usize {
        self.bounds.edges_min
    }

    /// A walk crosses all edges of a node, which are about so many.
    pub fn want(&self, crossing: Crossing, node: NodeId, edges: usize) {
        if edges < self.bounds.edges_min {
            return;
        }
        match self.crossed(crossing).and_then(|crossed| crossed.hubs.get(&node)) {
            Some(Hub::Many(many)) if edges / 2 < *many => {}
            Some(Hub::Few(_)) => self.met_again.set(true),
            _ => {
                let mut wanted = self.wanted.borrow_mut();
                if wanted.len() < WANTED_MAX {
                    wanted.insert((crossing, node));
                }
            }
        }
    }

    /// Takes in what a batch changes. It is not walked yet.
    pub fn take_in(&mut self, queries: &Queries, symbols: &Symbols, batch: &Batch, located: &Located) {
        self.has_all_by(before(batch.upper.elements()));
        self.touched.clear();
        self.forget_unknown(queries);
        if self.crossings.is_empty() {
            return;
        }
        let last = before(batch.lower.elements());
        let Hubs { crossings, concerned, concerned_by_any, kept, touched, row, .. } = self;
        for (index, id) in batch.ids.iter().enumerate() {
            let (segment, updates) = batch.node(index);
            let bits = updates.iter().filter_map(|fact| concerned.get(&fact.tag));
            let mut bits = bits.fold(*concerned_by_any, |all, bits| all | bits);
            if bits == 0 {
                continue;
            }
            let facts = located.facts(batch, index);
            while let Some(number) = bits.checked_ilog2() {
                bits ^= 1 << number;
                let (crossing, crossed) = &mut crossings[number as usize];
                let Some(family) = queries.family(crossing.0) else { continue };
                if !updates.iter().any(|fact| crossed.asked.concerns(&family.program, fact.tag)) {
                    continue;
                }
                let of = (family, symbols);
                let had = crossed.asked.is_met(of, (*id, &facts), last, row);
                if !had && !crossed.asked.may_be_met(of, (*id, &facts), ((segment, updates), last), row) {
                    continue;
                }
                touched.push((number as usize, index));
                let mut halves: SmallVec<[HalfEdge; 8]> = SmallVec::new();
                if !had {
                    crossed.asked.each_back(&facts, last, &crossed.hubs, &mut |half| halves.push(half));
                }
                let changed = crossed.asked.each_changed(segment, updates);
                halves.extend(changed.filter(|(_, adds)| *adds).map(|(half, _)| half));
                for half in halves {
                    *kept = kept.saturating_add_signed(crossed.add(half.other, turned(half, *id)));
                }
            }
        }
    }

    /// A batch has been walked: notes what may not hold any more after it.
    pub fn settle(&mut self, queries: &Queries, symbols: &Symbols, batch: &Batch, located: &Located) {
        let (first, last) = (before(batch.lower.elements()), before(batch.upper.elements()));
        let Hubs { crossings, touched, leaving, row, .. } = self;
        for (number, index) in touched.drain(..) {
            let (crossing, crossed) = &crossings[number];
            let Some(family) = queries.family(crossing.0) else { continue };
            let (node, facts, (segment, updates)) = (batch.ids[index], located.facts(batch, index), batch.node(index));
            let is_met = crossed.asked.is_met((family, symbols), (node, &facts), last, row);
            let mut edges: SmallVec<[HalfEdge; 4]> = SmallVec::new();
            let changed = crossed.asked.each_changed(segment, updates);
            edges.extend(changed.filter(|(_, adds)| !is_met || !adds).map(|(half, _)| half));
            if !is_met {
                crossed.asked.each_back(&facts, first, &crossed.hubs, &mut |half| edges.push(half));
            }
            edges.retain(|half| crossed.hubs.contains_key(&half.other));
            if !edges.is_empty() {
                leaving.push(Leaving { since: last, crossing: *crossing, node, edges });
            }
        }
    }

    /// Whether `tend` has anything to do.
    pub fn is_busy(&self) -> bool {
        self.kept > self.bounds.kept_max
            || self.looking.is_some()
            || !self.wanted.borrow().is_empty()
            || self.leaving.first().is_some_and(|leaving| leaving.since < self.awaited)
    }

    /// No row with a tick before this one is on its way any more.
    pub fn await_from(&mut self, tick: Time) {
        self.awaited = tick;
    }

    /// Forgets what does not hold any more, and looks through some of what walks have asked for. True if there is more to look through.
    pub fn tend(&mut self, around: &Around<'_>) -> bool {
        self.forget_unknown(around.queries);
        self.let_go(around);
        self.look_through(around);
        self.forget_some();
        // What waits for other shards is looked at with the next batch.
        self.looking.is_some() || (around.shard.count == 1 && !self.wanted.borrow().is_empty())
    }

    fn let_go(&mut self, around: &Around<'_>) {
        let Hubs { crossings, leaving, kept, row, awaited, .. } = self;
        let done = leaving.partition_point(|leaving| leaving.since < *awaited);
        let gone: Vec<Leaving> = leaving.drain(..done).collect();
        // What came back, and left once more while a row may still ask about the time between, leaves with that.
        let mut again: FxHashMap<(Crossing, NodeId), &mut Leaving> =
            leaving.iter_mut().map(|leaving| ((leaving.crossing, leaving.node), leaving)).collect();
        for Leaving { crossing, node, edges, .. } in gone {
            if let Some(leaving) = again.get_mut(&(crossing, node)) {
                leaving.edges.extend(edges);
                continue;
            }
            let crossed = crossings.iter_mut().find(|(of, _)| *of == crossing).map(|(_, crossed)| crossed);
            let (Some(crossed), Some(family)) = (crossed, around.queries.family(crossing.0)) else { continue };
            let facts = Facts::find(around.batches, node);
            // It may have come back since.
            let is_met = crossed.asked.is_met((family, around.symbols), (node, &facts), around.at, row);
            for half in edges {
                if !is_met || !facts.has_half(half, around.at) {
                    *kept -= crossed.remove(half.other, turned(half, node));
                }
            }
        }
    }

    /// Looks at some neighbours of a node.
    fn look_through(&mut self, around: &Around<'_>) {
        let end = Instant::now() + AT_ONCE;
        let met_again = self.met_again.take();
        let Some(mut looking) = self.looking.take().or_else(|| self.begin(around)) else { return };
        let Some(family) = around.queries.family(looking.crossing.0) else { return };
        let Some((_, crossed)) = self.crossings.iter_mut().find(|(of, _)| *of == looking.crossing) else { return };
        let of = (family, around.symbols);
        while !looking.edges.is_empty() && (met_again || Instant::now() < end) {
            let from = looking.edges.len().saturating_sub(NEIGHBOURS_BY_CLOCK);
            let nodes: Vec<NodeId> = looking.edges[from..].iter().map(|half| half.other).collect();
            let found = self.locator.locate(&nodes, around.batches);
            for (half, here) in looking.edges[from..].iter().zip(by_node(&found, nodes.len())) {
                let facts = Facts::known(parts(around.batches, here));
                let is_met = crossed.asked.is_met(of, (half.other, &facts), around.at, &mut self.row);
                if is_met && facts.has_half(turned(*half, looking.hub), around.at) {
                    self.kept = self.kept.saturating_add_signed(crossed.add(looking.hub, *half));
                }
            }
            looking.edges.truncate(from);
        }
        match crossed.hubs.get_mut(&looking.hub) {
            Some(Hub::Few(ends)) if looking.edges.is_empty() => ends.whole = Some(looking.as_of.max(around.at)),
            Some(Hub::Few(_)) => self.looking = Some(looking),
            // They are too many.
            _ => {}
        }
    }

    /// Begins with one that was asked for: from here on all changes are taken in.
    fn begin(&mut self, around: &Around<'_>) -> Option<Looking> {
        let Around { queries, shard, batches, at, .. } = *around;
        let (crossing, hub) = self.wanted.get_mut().iter().next().copied()?;
        let elsewhere = shard.count > 1 && hub.shard(shard.count) != shard.index;
        let snapshot = elsewhere.then(|| around.published.snapshot());
        if snapshot.as_ref().is_some_and(|snapshot| snapshot.tick().0 < at) {
            // Its shard may have edges that were taken in here, and are not there yet.
            return None;
        }
        self.wanted.get_mut().remove(&(crossing, hub));
        let family = queries.family(crossing.0)?;
        if self.crossed(crossing).is_none() {
            let asked = Asked::new(&family.program, crossing.1, crossing.2)?;
            if self.crossings.len() == CROSSINGS_MAX {
                let (_, forgotten) = self.crossings.remove(0);
                self.kept -= forgotten.weight();
            }
            self.crossings.push((crossing, Crossed { asked, joined: family.joined, hubs: FxHashMap::default() }));
            self.number(queries);
        }
        let (_, crossed) = self.crossings.iter_mut().find(|(of, _)| *of == crossing)?;
        let Edges { direction, kinds, .. } = &crossed.asked.back;
        let direction = match direction {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
            Direction::Both => Direction::Both,
        };
        let as_of = snapshot.as_ref().map_or(at, |snapshot| snapshot.tick().0);
        let facts = snapshot.as_ref().map_or_else(|| Facts::find(batches, hub), |snapshot| snapshot.facts(hub));
        let mut edges = Vec::new();
        facts.edges(direction, kinds, as_of, &mut |half| {
            if shard.count == 1 || half.other.shard(shard.count) == shard.index {
                edges.push(half);
            }
        });
        let most = (edges.len() / FEW_OF).max(ENDS_ANYWAY);
        let nothing = Hub::Few(Ends { by_node: FxHashMap::default(), whole: None, most });
        if let Some(Hub::Few(before)) = crossed.hubs.insert(hub, nothing) {
            self.kept -= before.weight();
        }
        Some(Looking { crossing, hub, edges, as_of })
    }

    /// Notes which tags concern which crossings.
    fn number(&mut self, queries: &Queries) {
        self.concerned.clear();
        self.concerned_by_any = 0;
        for (number, (crossing, crossed)) in self.crossings.iter().enumerate() {
            let Some(family) = queries.family(crossing.0) else { continue };
            match crossed.asked.tags(&family.program) {
                Some(tags) => tags.into_iter().for_each(|tag| *self.concerned.entry(tag).or_default() |= 1 << number),
                None => self.concerned_by_any |= 1 << number,
            }
        }
    }

    /// Forgets what was kept for families that have gone, or that others have joined.
    fn forget_unknown(&mut self, queries: &Queries) {
        let known = |(crossing, crossed): &(Crossing, Crossed)| {
            queries.family(crossing.0).is_some_and(|family| family.joined == crossed.joined)
        };
        if self.crossings.iter().all(known) {
            return;
        }
        self.crossings.retain(known);
        self.kept = self.crossings.iter().map(|(_, crossed)| crossed.weight()).sum();
        self.number(queries);
        if self.looking.as_ref().is_some_and(|looking| self.crossed(looking.crossing).is_none()) {
            self.looking = None;
        }
    }

    /// Where too much is kept, forgets one hub after another.
    fn forget_some(&mut self) {
        let Hubs { bounds, crossings, kept, looking, .. } = self;
        for (crossing, crossed) in crossings {
            crossed.hubs.retain(|hub, kept_of| match kept_of {
                Hub::Few(ends) if *kept > bounds.kept_max => {
                    *kept -= ends.weight();
                    looking.take_if(|looking| (looking.crossing, looking.hub) == (*crossing, *hub));
                    false
                }
                _ => true,
            });
        }
    }

    /// What is kept may be wrong from here on.
    pub fn forget(&mut self) {
        *self = Hubs { awaited: self.awaited, ..Hubs::new(self.bounds, 1) };
    }
}
