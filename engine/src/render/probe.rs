//! Probe: the timely operators of the standing queries of a graph.
//!
//!     batches ─> changes ─┬──────────────────────────────────────┬─> by query ─> results
//!                         └─> rows bound for other shards ─> hop ─┤
//!                                         ^                       │
//!                                         └── on to another shard ┘
//!
//! One dataflow serves all queries. `changes` turns the batches of its shard into changes of atoms, offers each to the families
//! it can concern, and walks as far as the shard reaches. Rows that must go on elsewhere travel round a loop, once for each time
//! they move; with one worker nothing ever travels. Reads are exact at a tick, so no operator waits for another; one only waits
//! until its own shard has reached the tick of a row that came from outside.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use differential_dataflow::operators::arrange::{ShutdownButton, TraceAgent};
use differential_dataflow::trace::TraceReader;
use smallvec::SmallVec;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Capability, CapabilitySet, Concat, ConnectLoop, Enter, Feedback, Leave};
use timely::dataflow::{Scope, StreamVec};
use timely::order::Product;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;
use weir_model::mutation::Kind;
use weir_model::plan::Atom;
use weir_model::{Expr, NodeId, Symbol, Value};

use super::dense::Dense;
use super::family::Family;
use super::hubs::{Around, HubBounds, Hubs};
use super::maintained::{Interest, TOUCHED};
use super::program::{EdgeView, Path, Version};
use super::queries::{Origin, Queries, Route};
use super::results::RowChange;
use super::stages::looks::Touch;
use super::walk::{Change, Errand, Parcel, Steps, Waiting, Walk, look};
use super::{Time, before};
use crate::arrangement::build::{Located, Shard};
use crate::arrangement::{Batch, Fact, Facts, Layers, Published, Segment, SharedBatch};
use crate::symbols::Symbols;
use crate::view::HalfEdge;

pub type Trace = TraceAgent<Layers>;

/// How often it is looked up whether stages are done with the ticks that are kept apart for them.
pub const ASIDE_LOOK: Duration = Duration::from_millis(1);

/// What the operators of a graph share.
#[derive(Clone)]
pub struct Common {
    pub queries: Rc<RefCell<Queries>>,
    pub published: Arc<Published>,
    pub symbols: Arc<Symbols>,
    pub shard: Shard,
    pub hubs: HubBounds,
}

/// Builds the dataflow of all standing queries of a graph, those to come included.
pub fn render(scope: Scope<'_, Time>, trace: &mut Trace, common: &Common) -> ShutdownButton<CapabilitySet<Time>> {
    let (arranged, button) = trace.import_core(scope, "graph");
    let hubs = Rc::new(RefCell::new(Hubs::new(common.hubs, common.shard.count)));
    let (mut results, parcels) = changes(arranged.stream.clone(), trace.clone(), common.clone(), hubs.clone());
    if common.shard.count > 1 {
        let travelled = scope.iterative::<u32, _, _>(|inner| {
            let (loop_handle, further) = inner.feedback::<Vec<Parcel>>(Product::new(Default::default(), 1));
            let parcels = parcels.enter(inner).concat(further);
            let (results, further) =
                hop(parcels, arranged.stream.clone().enter(inner), trace.clone(), common.clone(), hubs.clone());
            further.connect_loop(loop_handle);
            results.leave(scope)
        });
        results = results.concat(travelled);
    }
    let to_home = Exchange::new(|change: &RowChange| home(change.query));
    let (queries, published, worker) = (common.queries.clone(), common.published.clone(), common.shard.index);
    let done = results.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(to_home, "results", |capability, info| {
        let mut capability = Some(capability);
        let again = scope.activator_for(info.address);
        move |(input, frontier), _| {
            let mut queries = queries.borrow_mut();
            input.for_each(|_, changes| queries.push(changes));
            match frontier.frontier().first() {
                Some(frontier) => {
                    queries.advance(*frontier, (&published, worker));
                    let behind = queries.behind();
                    if behind.is_some() {
                        again.activate_after(ASIDE_LOOK);
                    }
                    let done = behind.map_or(*frontier, |behind| behind.min(*frontier));
                    // One that begins may be further back: until it has come here, its installation keeps the ticks apart.
                    capability
                        .iter_mut()
                        .filter(|capability| *capability.time() < done)
                        .for_each(|capability| capability.downgrade(&done));
                }
                // No frontier: the queries are being taken away.
                None => capability = None,
            }
        }
    });
    // What is worked out again is read from all shards at its tick: no shard may forget that tick before.
    let queries = common.queries.clone();
    done.sink(Pipeline, "held", move |(_, frontier)| {
        if let Some(held) = &mut queries.borrow_mut().held {
            // Of ticks, not of batches: those of stages that take long would become more and more.
            let frontier = frontier.frontier().first().copied();
            frontier.iter().for_each(|frontier| held.set_logical_compaction(AntichainRef::new(&[before(&[*frontier])])));
        }
    });
    button
}

/// The worker where the results of a query come together, modulo how many there are.
pub fn home(query: u32) -> u64 {
    u64::from(query)
}

/// Two outputs: complete rows, and rows that go on at another shard.
type Outputs<'scope, T> = (StreamVec<'scope, T, RowChange>, StreamVec<'scope, T, Parcel>);

/// Room for no more results than these is made ahead.
const RESERVED_MAX: usize = 4096;

/// The changes of this shard, walked as far as this shard reaches.
fn changes<'scope>(
    batches: StreamVec<'scope, Time, SharedBatch>,
    mut trace: Trace,
    common: Common,
    hubs: Rc<RefCell<Hubs>>,
) -> Outputs<'scope, Time> {
    let scope = batches.scope();
    let mut builder = OperatorBuilder::new("changes".to_owned(), scope);
    let again = scope.activator_for(builder.operator_info().address);
    common.queries.borrow_mut().walks = Some(scope.activator_for(builder.operator_info().address));
    let mut input = builder.new_input(batches, Pipeline);
    let (results_out, results) = builder.new_output();
    let (parcels_out, parcels) = builder.new_output();
    let mut results_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(results_out);
    let mut parcels_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Parcel>>>::from(parcels_out);
    builder.build(move |capabilities| {
        drop(capabilities);
        let mut found: Vec<RowChange> = Vec::new();
        let mut leaving: Vec<Parcel> = Vec::new();
        let mut waiting = Waiting::default();
        let mut view: Vec<SharedBatch> = Vec::new();
        let mut dense = Dense::default();
        // As many as there were the last time.
        let mut expected = 0;
        move |frontiers| {
            let mut results_handle = results_out.activate();
            let mut parcels_handle = parcels_out.activate();
            let queries = common.queries.borrow();
            let mut hubs = hubs.borrow_mut();
            input.for_each(|capability, data| {
                found.reserve(expected);
                for batch in data.drain(..) {
                    // Batches that were there when the first query was installed come without.
                    let Some(located) = batch.located() else {
                        dense.forget();
                        hubs.begin_after(before(batch.upper.elements()));
                        continue;
                    };
                    view.clear();
                    view.extend_from_slice(&located.existing);
                    view.push(batch.clone());
                    dense.take_in(&queries, &batch, located);
                    hubs.take_in(&queries, &common.symbols, &batch, located);
                    let kept = (&dense, &*hubs);
                    let offered = Offered { queries: &queries, common: &common, view: &view, batch: &batch, located, kept };
                    offered.walk(&mut found, &mut leaving, &mut waiting);
                    offered.walk_turns(&mut found, &mut leaving, &mut waiting);
                    dense.settle(&queries, &view, before(batch.upper.elements()));
                    hubs.settle(&queries, &common.symbols, &batch, located);
                    for (query, since, interest) in &queries.interests {
                        touches(&batch, (*query, *since), interest, &mut found);
                    }
                }
                view.clear();
                expected = found.len().min(RESERVED_MAX);
                if !found.is_empty() {
                    results_handle.session(&capability.retain(0)).give_container(&mut found);
                }
                if !leaving.is_empty() {
                    parcels_handle.session(&capability.retain(1)).give_container(&mut leaving);
                }
            });
            // What has been found goes on its way first.
            hubs.look_ahead(&queries, &common.published);
            let frontier = frontiers[0].frontier();
            let at = hubs.has_all_by(frontier.first().map_or(Time::MAX, |first| before(&[*first])));
            if hubs.is_busy() && !frontier.is_empty() {
                view.clear();
                trace.map_batches(|batch| view.push(batch.clone()));
                let Common { symbols, shard, published, .. } = &common;
                let around = Around { queries: &queries, symbols, shard: *shard, published, batches: &view, at };
                match hubs.tend(&around) {
                    Some(Duration::ZERO) => again.activate(),
                    Some(later) => again.activate_after(later),
                    None => {}
                }
                view.clear();
            }
            allow_compaction(&mut trace, frontiers[0].frontier().first().copied());
        }
    });
    (results, parcels)
}

/// What changes of the nodes of this shard, as far as somebody who looked at them may see it.
fn touches(batch: &Batch, (query, since): (u32, Time), interest: &Interest, found: &mut Vec<RowChange>) {
    let mut touches: SmallVec<[(Time, Touch); 4]> = SmallVec::new();
    for (index, id) in batch.ids.iter().enumerate() {
        touches.clear();
        let (segment, facts) = batch.node(index);
        let concerning = segment.tags(facts).filter(|(tag, _)| interest.concerns(*tag));
        let timed = concerning.map(|(_, fact)| (segment.time(fact), fact)).filter(|(time, _)| *time >= since);
        timed.for_each(|(time, fact)| Touch::each(segment, fact, &mut |touch| touches.push((time, touch))));
        touches.sort_unstable();
        touches.dedup();
        for at_once in touches.chunk_by(|(one, _), (other, _)| one == other) {
            let mut found = |row| found.push(RowChange { row, time: at_once[0].0, diff: 1, query, source: TOUCHED });
            Touch::rows(*id, at_once.iter().map(|(_, touch)| *touch), &mut found);
        }
    }
}

/// The dataflow timestamp of rows that travel: how often they have moved comes with the tick.
type Moved = Product<Time, u32>;

/// Rows from other shards, walked as far as this shard reaches.
fn hop<'scope>(
    parcels: StreamVec<'scope, Moved, Parcel>,
    batches: StreamVec<'scope, Moved, SharedBatch>,
    mut trace: Trace,
    Common { queries, symbols, shard, .. }: Common,
    hubs: Rc<RefCell<Hubs>>,
) -> Outputs<'scope, Moved> {
    let scope = parcels.scope();
    let mut builder = OperatorBuilder::new("hop".to_owned(), scope);
    let again = scope.activator_for(builder.operator_info().address);
    let by_shard = Exchange::new(move |parcel: &Parcel| parcel.shard(shard.count) as u64);
    let mut input = builder.new_input(parcels, by_shard);
    let mut ticks = builder.new_input_connection(batches, Pipeline, []);
    let (results_out, results) = builder.new_output_connection([(0, Antichain::from_elem(Default::default()))]);
    let (parcels_out, further) = builder.new_output_connection([(0, Antichain::from_elem(Default::default()))]);
    let mut results_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(results_out);
    let mut parcels_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Parcel>>>::from(parcels_out);
    builder.build(move |capabilities| {
        drop(capabilities);
        let mut waiting: Vec<(Capability<Moved>, Capability<Moved>, Vec<Parcel>)> = Vec::new();
        let mut found: Vec<RowChange> = Vec::new();
        let mut leaving: Vec<Parcel> = Vec::new();
        let mut view: Vec<SharedBatch> = Vec::new();
        move |frontiers| {
            let mut results_handle = results_out.activate();
            let mut parcels_handle = parcels_out.activate();
            ticks.for_each(|_, data| data.clear());
            input.for_each(|capability, data| {
                waiting.push((capability.retain(0), capability.retain(1), std::mem::take(data)));
            });
            // The shard has everything before this.
            let reached = frontiers[1].frontier().first().map_or(Time::MAX, |moved| moved.outer);
            if !waiting.is_empty() {
                let queries = queries.borrow();
                let hubs = hubs.borrow();
                view.clear();
                trace.map_batches(|batch| view.push(batch.clone()));
                for (results_capability, parcels_capability, parcels) in &mut waiting {
                    parcels.retain_mut(|parcel| {
                        // The operator that takes in changes may not have had its turn.
                        let knows = matches!(parcel.errand, Errand::Node) || hubs.knows(parcel.time);
                        if !knows {
                            again.activate();
                        }
                        let ready = knows && parcel.time < reached;
                        // Without a family, its last query has been taken away.
                        if ready && let Some(family) = queries.family(parcel.family) {
                            let mut walk = Walk {
                                program: &family.program,
                                family,
                                number: parcel.family,
                                batches: &view,
                                newest: None,
                                everywhere: None,
                                symbols: &symbols,
                                shard,
                                results: &mut found,
                                parcels: &mut leaving,
                                waiting: &mut [],
                                dense: None,
                                hubs: Some(&*hubs),
                                steps: Steps::of(family),
                            };
                            walk.receive(parcel);
                        }
                        !ready
                    });
                    if !found.is_empty() {
                        results_handle.session(&*results_capability).give_container(&mut found);
                    }
                    if !leaving.is_empty() {
                        parcels_handle.session(&*parcels_capability).give_container(&mut leaving);
                    }
                }
                view.clear();
                waiting.retain(|(_, _, parcels)| !parcels.is_empty());
            }
            let coming = frontiers[0].frontier().iter().map(|moved| moved.outer).min();
            let oldest = waiting.iter().map(|(capability, _, _)| capability.time().outer);
            let awaited = coming.into_iter().chain(oldest).min();
            hubs.borrow_mut().await_from(awaited.unwrap_or(Time::MAX));
            allow_compaction(&mut trace, awaited);
        }
    });
    (results, further)
}

/// No row with a tick before the frontier will be read for again.
fn allow_compaction(trace: &mut Trace, frontier: Option<Time>) {
    let Some(frontier) = frontier else { return };
    trace.set_logical_compaction(AntichainRef::new(&[before(&[frontier])]));
    trace.set_physical_compaction(AntichainRef::new(&[frontier]));
}

/// A batch on offer to the families of all queries.
struct Offered<'a> {
    queries: &'a Queries,
    common: &'a Common,
    view: &'a [SharedBatch],
    batch: &'a Batch,
    located: &'a Located,
    kept: (&'a Dense, &'a Hubs),
}

impl<'a> Offered<'a> {
    /// Walks everything the batch changes, node by node, for the families it can concern. What sieves tell is not among it.
    fn walk(&self, found: &mut Vec<RowChange>, leaving: &mut Vec<Parcel>, waiting: &mut Waiting) {
        let routes = &self.queries.routes;
        // Edges, by their place among the facts of the node; nodes and edges that are looked at before and after, by tick.
        let mut edges: Vec<(Route, usize)> = Vec::new();
        let mut views: Vec<(Route, Time)> = Vec::new();
        // Most changes concern the family the last one did.
        let mut current: Option<(u32, &Family)> = None;
        let mut row: Vec<Value> = Vec::new();
        for (index, id) in self.batch.ids.iter().enumerate() {
            let (segment, updates) = self.batch.node(index);
            edges.clear();
            views.clear();
            for (place, (tag, fact)) in segment.tags(updates).enumerate() {
                if routes.may_concern(tag) {
                    routes.each(tag, |route| match route.from {
                        Origin::Edge => edges.push((route, place)),
                        Origin::Node => views.push((route, segment.time(fact))),
                        Origin::EdgeView => views.push((route, 0)),
                    });
                }
            }
            if edges.is_empty() && views.is_empty() {
                continue;
            }
            views.sort_unstable();
            views.dedup();
            let facts = self.located.facts(self.batch, index);
            let mut seen = SeenEdges::default();
            let offers = edges.iter().map(|(route, place)| (*route, *place, 0));
            for (route, place, time) in offers.chain(views.iter().map(|(route, time)| (*route, 0, *time))) {
                let family = match current {
                    Some((number, family)) if number == route.family => family,
                    _ => {
                        let Some(family) = self.queries.family(route.family) else { continue };
                        if let Some(before) = current.replace((route.family, family)) {
                            self.begin(before, found, leaving, waiting).go_on();
                        }
                        row.clear();
                        row.resize(family.program.width, Value::Null);
                        family
                    }
                };
                let path = usize::from(route.path);
                let time = if route.from == Origin::Edge { segment.time(&updates[place]) } else { time };
                let one_time = matches!(route.from, Origin::Node | Origin::Edge).then_some(time);
                if !has_needs(&family.program.paths[path], &facts, one_time) {
                    continue;
                }
                let mut walk = self.begin((route.family, family), found, leaving, waiting);
                match (family.program.paths[path].atom, route.from) {
                    (Atom::Node(node), _) => change_of_view(&mut walk, path, node, *id, &facts, time, &mut row),
                    (Atom::Edge(edge), Origin::EdgeView) => {
                        change_of_edges(&mut walk, (path, edge), *id, (segment, updates), &facts, &mut seen, &mut row);
                    }
                    (Atom::Edge(edge), _) => {
                        let fact = &updates[place];
                        let change = Change { path, time, diff: if fact.adds() { 1 } else { -1 } };
                        let half = segment.half(fact);
                        change_of_edge(
                            &mut walk,
                            change,
                            edge,
                            (*id, &facts),
                            half,
                            &family.program.edges[edge].conditions,
                            &mut row,
                        );
                    }
                }
            }
        }
        if let Some(last) = current {
            self.begin(last, found, leaving, waiting).go_on();
        }
    }

    /// Walks from the edges that begin or end to pass a sieve, one path after another.
    fn walk_turns(&self, found: &mut Vec<RowChange>, leaving: &mut Vec<Parcel>, waiting: &mut Waiting) {
        let mut row: Vec<Value> = Vec::new();
        for (sieve, turns) in self.kept.0.turns() {
            for (number, path) in self.queries.routes.of_sieve(sieve) {
                let (path, Some(family)) = (usize::from(*path), self.queries.family(*number)) else { continue };
                let Atom::Edge(edge) = family.program.paths[path].atom else { continue };
                row.clear();
                row.resize(family.program.width, Value::Null);
                let mut walk = self.begin((*number, family), found, leaving, waiting);
                for of_node in turns.chunk_by(|a, b| a.node == b.node) {
                    let node = of_node[0].node;
                    let (id, facts) = (self.batch.ids[node], self.located.facts(self.batch, node));
                    if !has_needs(&family.program.paths[path], &facts, None) {
                        continue;
                    }
                    for turn in of_node {
                        let change = Change { path, time: turn.time, diff: if turn.begins { 1 } else { -1 } };
                        change_of_edge(&mut walk, change, edge, (id, &facts), turn.half, &[], &mut row);
                    }
                }
                walk.go_on();
            }
        }
    }

    fn begin<'w>(
        &self,
        (number, family): (u32, &'a Family),
        results: &'w mut Vec<RowChange>,
        parcels: &'w mut Vec<Parcel>,
        waiting: &'w mut Waiting,
    ) -> Walk<'a, 'w> {
        Walk {
            program: &family.program,
            family,
            number,
            batches: self.view,
            newest: Some((self.batch, self.located)),
            everywhere: None,
            symbols: &self.common.symbols,
            shard: self.common.shard,
            results,
            parcels,
            waiting: std::slice::from_mut(waiting),
            dense: Some(self.kept.0),
            hubs: Some(self.kept.1),
            steps: Steps::of(family),
        }
    }
}

/// False where the node lacks an edge that every match in question has. Without a time it is one of several.
pub fn has_needs(path: &Path, facts: &Facts<'_>, time: Option<Time>) -> bool {
    path.needs.iter().all(|need| {
        let at = match need.version {
            Version::After => time,
            Version::Before => time.and_then(|time| time.checked_sub(1)),
        };
        facts.may_have(&need.ranges, at.unwrap_or(Time::MAX))
    })
}

/// An edge, given by its outgoing half, came or went: every way in which it fits the pattern does. The conditions are those that
/// are not known to hold.
pub fn change_of_edge<'a>(
    walk: &mut Walk<'a, '_>,
    change: Change,
    edge: usize,
    (id, facts): (NodeId, &Facts<'a>),
    half: HalfEdge,
    conditions: &[Expr],
    row: &mut [Value],
) {
    let view = &walk.program.edges[edge];
    let other = half.other;
    walk.put(edge, row, (id, other), half);
    let both = [(id, other), (other, id)];
    let ways = if view.directed || id == other { 1 } else { 2 };
    for (source, target) in &both[..ways] {
        if view.source == view.target && source != target {
            continue;
        }
        row[view.source] = Value::Node(*source);
        row[view.target] = Value::Node(*target);
        if conditions.iter().all(|condition| walk.family.passes(condition, row)) {
            walk.run(change, 0, row, Some((id, facts)));
        }
    }
}

/// Edges of which properties are read: each that came, went or has other properties, as it was and as it is.
fn change_of_edges<'a>(
    walk: &mut Walk<'a, '_>,
    (path, edge): (usize, usize),
    id: NodeId,
    updates: (&Segment, &[Fact]),
    facts: &Facts<'a>,
    seen: &mut SeenEdges,
    row: &mut [Value],
) {
    let view = &walk.program.edges[edge];
    if !seen.is_of(view) {
        *seen = SeenEdges::new(view, updates, facts);
    }
    for SeenEdge { half, time, was, is } in &seen.edges {
        for (values, diff) in [(was, -1), (is, 1)] {
            let Some(values) = values else { continue };
            view.reads.iter().zip(values).for_each(|((_, slot), value)| row[*slot].clone_from(value));
            change_of_edge(walk, Change { path, time: *time, diff }, edge, (id, facts), *half, &view.conditions, row);
        }
    }
}

/// The edges of a node that a batch changes, as edges of a pattern see them. Most edges of a pattern see the same.
#[derive(Default)]
struct SeenEdges {
    kinds: Vec<Symbol>,
    keys: Vec<Symbol>,
    edges: Vec<SeenEdge>,
}

struct SeenEdge {
    half: HalfEdge,
    time: Time,
    /// Its properties; none where it is not there.
    was: Option<Vec<Value>>,
    is: Option<Vec<Value>>,
}

impl SeenEdges {
    fn new(view: &EdgeView, updates: (&Segment, &[Fact]), facts: &Facts<'_>) -> SeenEdges {
        let keys: Vec<Symbol> = view.reads.iter().map(|(key, _)| *key).collect();
        let seen = |(half, time): (HalfEdge, Time)| {
            let mut read = |at: Time| -> Option<Vec<Value>> {
                let property = |key: &Symbol| facts.edge_property(half.kind, half.other, half.ordinal, *key, at);
                facts.has_half(half, at).then(|| keys.iter().map(property).collect())
            };
            let (was, is) = (time.checked_sub(1).and_then(&mut read), read(time));
            (was != is).then_some(SeenEdge { half, time, was, is })
        };
        let edges = touched_edges((&view.kinds, &keys), updates).into_iter().filter_map(seen).collect();
        SeenEdges { kinds: view.kinds.clone(), keys, edges }
    }

    fn is_of(&self, view: &EdgeView) -> bool {
        !self.keys.is_empty() && self.kinds == view.kinds && self.keys.iter().eq(view.reads.iter().map(|(key, _)| key))
    }
}

/// The edges of these types, or of any, that lead away from a node which an update is about, of the edge or of one of these
/// properties, and when.
fn touched_edges((kinds, keys): (&[Symbol], &[Symbol]), (segment, updates): (&Segment, &[Fact])) -> Vec<(HalfEdge, Time)> {
    let mut touched: Vec<(HalfEdge, Time)> = Vec::new();
    for fact in updates {
        let kind = fact.tag.symbol();
        if !kinds.is_empty() && !kinds.contains(&kind) {
            continue;
        }
        let (other, ordinal) = match fact.tag.kind() {
            Kind::Out | Kind::OutParallel => {
                let half = segment.half(fact);
                (half.other, half.ordinal)
            }
            Kind::EdgeProperty => {
                let (target, ordinal, key, _) = weir_model::codec::decode_edge_property(fact.payload, &segment.arena);
                if !keys.contains(&key) {
                    continue;
                }
                (target, ordinal)
            }
            _ => continue,
        };
        touched.push((HalfEdge { kind, outgoing: true, other, ordinal }, segment.time(fact)));
    }
    touched.sort_unstable();
    touched.dedup();
    touched
}

/// A node's local view before and after a tick; where they differ, what was goes and what is comes.
fn change_of_view<'a>(
    walk: &mut Walk<'a, '_>,
    path: usize,
    node: usize,
    id: NodeId,
    facts: &Facts<'a>,
    time: Time,
    row: &mut [Value],
) {
    let program = walk.program;
    let view = &program.nodes[node];
    row[view.slot] = Value::Node(id);
    let was = look(node, facts, time.wrapping_sub(1), row, walk.family, walk.symbols);
    let old = was.then(|| row.to_vec());
    let is = look(node, facts, time, row, walk.family, walk.symbols);
    if let Some(mut old) = old {
        if is && seen(view, &old) == seen(view, row) {
            return;
        }
        walk.run(Change { path, time, diff: -1 }, 0, &mut old, Some((id, facts)));
    }
    if is {
        walk.run(Change { path, time, diff: 1 }, 0, row, Some((id, facts)));
    }
}

fn seen(view: &super::program::NodeView, row: &[Value]) -> Vec<Value> {
    let slots = view.reads.iter().map(|(_, slot)| *slot).chain(view.reads_all);
    slots.map(|slot| row[slot].clone()).collect()
}
