//! Probe: the timely operators of a standing query.
//!
//! The first one turns the batches of its shard into changes of atoms and walks each as far as it can. Rows that must go
//! on elsewhere travel to a chain of operators, one for each time a row can move; with one worker nothing ever
//! travels. Reads are exact at a tick, so no operator waits for another; one only waits until its own shard has
//! reached the tick of a row that came from outside.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::operators::arrange::{ShutdownButton, TraceAgent};
use differential_dataflow::trace::TraceReader;
use smallvec::SmallVec;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Capability, CapabilitySet, Concatenate};
use timely::dataflow::{Scope, StreamVec};
use weir_model::mutation::{Kind, Tag};
use weir_model::plan::Atom;
use weir_model::{EdgeKey, NodeId, Symbol, Value};

use super::maintained::{Interest, Maintained, TOUCHED};
use super::program::each_concerning;
use super::rest::Rest;
use super::results::{Gather, Row, RowChange};
use super::walk::{Change, Parcel, Walk, is_true, look};
use super::{Program, Time, before};
use crate::arrangement::build::{Located, Shard};
use crate::arrangement::facts::between;
use crate::arrangement::{Batch, Fact, Facts, Layers, Segment, SharedBatch, Snapshot};
use crate::symbols::Symbols;
use crate::view::HalfEdge;

type Trace = TraceAgent<Layers>;

/// Where and since when a standing query runs.
pub struct Place {
    pub shard: Shard,
    /// The graph when the query is installed, if its matches are asked for: the same on every worker.
    pub at_rest: Option<Snapshot>,
    /// The worker where results come together.
    pub home: usize,
}

/// Builds the dataflow of one standing query. At its home worker `gather` takes the results.
pub fn render(
    scope: Scope<'_, Time>,
    trace: &mut Trace,
    maintained: &Maintained,
    symbols: &Arc<Symbols>,
    Place { shard, at_rest, home }: Place,
    gather: Rc<RefCell<Gather>>,
) -> ShutdownButton<CapabilitySet<Time>> {
    let (arranged, button) = trace.import_core(scope, "graph");
    let mut all = Vec::new();
    for (source, program) in maintained.sources.iter().enumerate() {
        let pattern = PatternOf { program: program.clone(), symbols: symbols.clone(), shard, source: source as u32 };
        let hops = if shard.count == 1 { 0 } else { program.hops };
        let (results, mut parcels) = changes(arranged.stream.clone(), trace.clone(), pattern.clone(), at_rest.clone());
        all.push(results);
        for _ in 0..hops {
            let (results, further) = hop(parcels, arranged.stream.clone(), trace.clone(), pattern.clone());
            all.push(results);
            parcels = further;
        }
    }
    // What looks at nothing of the graph goes on with its ticks all the same.
    if let Some(interest) = maintained.interest.clone().or_else(|| all.is_empty().then(Arc::default)) {
        all.push(touches(arranged.stream.clone(), interest));
    }
    let to_home = Exchange::new(move |_: &RowChange| home as u64);
    let results = scope.concatenate(all);
    if maintained.interest.is_none() {
        results.sink(to_home, "results", move |(input, frontier)| {
            let mut gather = gather.borrow_mut();
            input.for_each(|_, changes| gather.push(changes));
            // No frontier: the query is being taken away.
            if let Some(frontier) = frontier.frontier().first() {
                gather.advance(*frontier);
            }
        });
        return button;
    }
    // What is worked out again is read from all shards at its tick: no shard may forget that tick before.
    let mut held = trace.clone();
    let done = results.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(to_home, "results", |capability, _| {
        let mut capability = Some(capability);
        move |(input, frontier), _| {
            let mut gather = gather.borrow_mut();
            input.for_each(|_, changes| gather.push(changes));
            match frontier.frontier().first() {
                Some(frontier) => {
                    gather.advance(*frontier);
                    capability.iter_mut().for_each(|capability| capability.downgrade(frontier));
                }
                None => capability = None,
            }
        }
    });
    done.sink(Pipeline, "held", move |(_, frontier)| allow_compaction(&mut held, &frontier.frontier()));
    button
}

/// One pattern of a query, as its operators know it.
#[derive(Clone)]
struct PatternOf {
    program: Arc<Program>,
    symbols: Arc<Symbols>,
    shard: Shard,
    source: u32,
}

/// The nodes of this shard that change in a way that anybody who looked at them may see.
fn touches<'scope>(batches: StreamVec<'scope, Time, SharedBatch>, interest: Arc<Interest>) -> StreamVec<'scope, Time, RowChange> {
    batches.unary(Pipeline, "touches", move |_, _| {
        let mut found: Vec<RowChange> = Vec::new();
        let mut times: SmallVec<[Time; 4]> = SmallVec::new();
        move |input, output| {
            input.for_each(|capability, data: &mut Vec<SharedBatch>| {
                // Batches that were there when the query was installed come without: nothing has been looked at by then.
                for batch in data.drain(..).filter(|batch| batch.located().is_some()) {
                    for (index, id) in batch.ids.iter().enumerate() {
                        times.clear();
                        let (segment, facts) = batch.node(index);
                        let concerning = facts.iter().filter(|fact| interest.concerns(fact.tag));
                        times.extend(concerning.map(|fact| segment.time(fact)));
                        times.sort_unstable();
                        times.dedup();
                        let touched = |time: &Time| RowChange {
                            row: Row::from_slice(&[Value::Node(*id)]),
                            time: *time,
                            diff: 1,
                            source: TOUCHED,
                        };
                        found.extend(times.iter().map(touched));
                    }
                }
                if !found.is_empty() {
                    output.session(&capability).give_container(&mut found);
                }
            });
        }
    })
}

/// Two outputs: complete rows, and rows that go on at another shard.
type Outputs<'scope> = (StreamVec<'scope, Time, RowChange>, StreamVec<'scope, Time, Parcel>);

/// The changes of this shard, walked as far as this shard reaches.
fn changes<'scope>(
    batches: StreamVec<'scope, Time, SharedBatch>,
    mut trace: Trace,
    PatternOf { program, symbols, shard, source }: PatternOf,
    at_rest: Option<Snapshot>,
) -> Outputs<'scope> {
    let scope = batches.scope();
    let mut builder = OperatorBuilder::new("changes".to_owned(), scope);
    let info = builder.operator_info();
    let activator = scope.activator_for(info.address);
    let mut input = builder.new_input(batches, Pipeline);
    let (results_out, results) = builder.new_output();
    let (parcels_out, parcels) = builder.new_output();
    let mut results_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(results_out);
    let mut parcels_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Parcel>>>::from(parcels_out);
    builder.build(move |mut capabilities| {
        let results_capability = capabilities.drain(..).next();
        drop(capabilities);
        let mut rest = at_rest.map(Rest::new).zip(results_capability);
        let mut found: Vec<RowChange> = Vec::new();
        let mut leaving: Vec<Parcel> = Vec::new();
        let mut view: Vec<SharedBatch> = Vec::new();
        move |frontiers| {
            let mut results_handle = results_out.activate();
            let mut parcels_handle = parcels_out.activate();
            if let Some((at_rest, capability)) = &mut rest {
                let snapshot = at_rest.snapshot.clone();
                let mut walk = Walk {
                    program: &program,
                    batches: snapshot.shard(shard.index),
                    newest: None,
                    everywhere: Some(&snapshot),
                    symbols: &symbols,
                    shard,
                    source,
                    results: &mut found,
                    parcels: &mut leaving,
                };
                let done = at_rest.work(&mut walk);
                if !found.is_empty() {
                    results_handle.session(&*capability).give_container(&mut found);
                }
                if !done {
                    return activator.activate();
                }
                rest = None;
            }
            input.for_each(|capability, data| {
                for batch in data.drain(..) {
                    // Batches that were there when the query was installed come without; they were looked through above.
                    let Some(located) = batch.located() else { continue };
                    view.clear();
                    view.extend_from_slice(&located.existing);
                    view.push(batch.clone());
                    let mut walk = Walk {
                        program: &program,
                        batches: &view,
                        newest: Some((&batch, located)),
                        everywhere: None,
                        symbols: &symbols,
                        shard,
                        source,
                        results: &mut found,
                        parcels: &mut leaving,
                    };
                    walk_batch(&mut walk, &batch, located);
                }
                view.clear();
                if !found.is_empty() {
                    results_handle.session(&capability.retain(0)).give_container(&mut found);
                }
                if !leaving.is_empty() {
                    parcels_handle.session(&capability.retain(1)).give_container(&mut leaving);
                }
            });
            allow_compaction(&mut trace, &frontiers[0].frontier());
        }
    });
    (results, parcels)
}

/// Rows from other shards, walked as far as this shard reaches.
fn hop<'scope>(
    parcels: StreamVec<'scope, Time, Parcel>,
    batches: StreamVec<'scope, Time, SharedBatch>,
    mut trace: Trace,
    PatternOf { program, symbols, shard, source }: PatternOf,
) -> Outputs<'scope> {
    let scope = parcels.scope();
    let mut builder = OperatorBuilder::new("hop".to_owned(), scope);
    let by_shard = Exchange::new(move |parcel: &Parcel| parcel.node.shard(shard.count) as u64);
    let mut input = builder.new_input(parcels, by_shard);
    let mut ticks = builder.new_input_connection(batches, Pipeline, []);
    let (results_out, results) = builder.new_output_connection([(0, timely::progress::Antichain::from_elem(Default::default()))]);
    let (parcels_out, further) = builder.new_output_connection([(0, timely::progress::Antichain::from_elem(Default::default()))]);
    let mut results_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(results_out);
    let mut parcels_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Parcel>>>::from(parcels_out);
    builder.build(move |capabilities| {
        drop(capabilities);
        let mut waiting: Vec<(Capability<Time>, Capability<Time>, Vec<Parcel>)> = Vec::new();
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
            let reached = frontiers[1].frontier().first().copied().unwrap_or(Time::MAX);
            if !waiting.is_empty() {
                view.clear();
                trace.map_batches(|batch| view.push(batch.clone()));
                for (results_capability, parcels_capability, parcels) in &mut waiting {
                    let mut walk = Walk {
                        program: &program,
                        batches: &view,
                        newest: None,
                        everywhere: None,
                        symbols: &symbols,
                        shard,
                        source,
                        results: &mut found,
                        parcels: &mut leaving,
                    };
                    parcels.retain_mut(|parcel| {
                        let ready = parcel.time < reached;
                        if ready {
                            let change = Change { path: parcel.path as usize, time: parcel.time, diff: parcel.diff };
                            walk.run(change, parcel.at as usize, &mut parcel.row.0, None);
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
                waiting.retain(|(_, _, parcels)| !parcels.is_empty());
            }
            let oldest = waiting.iter().map(|(capability, _, _)| *capability.time());
            let frontier = frontiers[0].frontier().first().copied().into_iter().chain(oldest).min();
            allow_compaction(&mut trace, frontier.as_slice());
        }
    });
    (results, further)
}

/// No row with a tick before the frontier will be read for again.
fn allow_compaction(trace: &mut Trace, frontier: &[Time]) {
    if frontier.is_empty() {
        return;
    }
    trace.set_logical_compaction(timely::progress::frontier::AntichainRef::new(&[before(frontier)]));
    trace.set_physical_compaction(timely::progress::frontier::AntichainRef::new(frontier));
}

/// Everything a batch changes, atom by atom.
fn walk_batch<'a>(walk: &mut Walk<'a>, batch: &'a Batch, located: &'a Located) {
    let program = walk.program;
    let mut row = vec![Value::Null; program.width];
    for (index, id) in batch.ids.iter().enumerate() {
        let (segment, updates) = batch.node(index);
        let mut facts = None;
        for (path, atom) in program.paths.iter().enumerate().map(|(index, path)| (index, path.atom)) {
            match atom {
                Atom::Node(node) => {
                    let view = &program.nodes[node];
                    let mut times: SmallVec<[Time; 4]> = SmallVec::new();
                    each_concerning(view, updates, |fact| times.push(segment.time(fact)));
                    times.sort_unstable();
                    times.dedup();
                    for time in times {
                        let facts = facts.get_or_insert_with(|| located.facts(batch, index));
                        change_of_view(walk, path, node, *id, facts, time, &mut row);
                    }
                }
                Atom::Edge(edge) => {
                    let view = &program.edges[edge];
                    if !view.reads.is_empty() {
                        let facts = facts.get_or_insert_with(|| located.facts(batch, index));
                        change_of_edges(walk, (path, edge), *id, (segment, updates), facts, &mut row);
                        continue;
                    }
                    let mut halves = |of: &[Fact]| {
                        for fact in of {
                            let facts = facts.get_or_insert_with(|| located.facts(batch, index));
                            let diff = if fact.adds() { 1 } else { -1 };
                            let change = Change { path, time: segment.time(fact), diff };
                            let (other, ordinal) = other_end(fact, segment);
                            let half = HalfEdge { kind: fact.tag.symbol(), outgoing: true, other, ordinal };
                            change_of_edge(walk, change, edge, (*id, facts), half, &mut row);
                        }
                    };
                    for kind in [Kind::Out, Kind::OutParallel] {
                        if view.kinds.is_empty() {
                            halves(between(updates, Tag::new(kind, Symbol(0)), Tag::new(kind, LAST_SYMBOL)));
                        }
                        for symbol in &view.kinds {
                            halves(between(updates, Tag::new(kind, *symbol), Tag::new(kind, *symbol)));
                        }
                    }
                }
            }
        }
    }
}

const LAST_SYMBOL: Symbol = Symbol((1 << Tag::SYMBOL_BITS) - 1);

/// An edge, given by its outgoing half, came or went: every way in which it fits the pattern does.
pub fn change_of_edge<'a>(
    walk: &mut Walk<'a>,
    change: Change,
    edge: usize,
    (id, facts): (NodeId, &Facts<'a>),
    half: HalfEdge,
    row: &mut [Value],
) {
    let view = &walk.program.edges[edge];
    let other = half.other;
    if let Some(slot) = view.slot {
        let kind = walk.symbols.name(half.kind);
        row[slot] = Value::Edge(EdgeKey { source: id, kind, target: other, ordinal: half.ordinal }.into());
    }
    let both = [(id, other), (other, id)];
    let ways = if view.directed || id == other { 1 } else { 2 };
    for (source, target) in &both[..ways] {
        if view.source == view.target && source != target {
            continue;
        }
        row[view.source] = Value::Node(*source);
        row[view.target] = Value::Node(*target);
        if view.conditions.iter().all(|condition| is_true(condition, row, &walk.program.context)) {
            walk.run(change, 0, row, Some((id, facts)));
        }
    }
}

/// Edges of which properties are read: each that came, went or has other properties, as it was and as it is.
fn change_of_edges<'a>(
    walk: &mut Walk<'a>,
    (path, edge): (usize, usize),
    id: NodeId,
    (segment, updates): (&Segment, &[Fact]),
    facts: &Facts<'a>,
    row: &mut [Value],
) {
    let view = &walk.program.edges[edge];
    let mut touched: Vec<(HalfEdge, Time)> = Vec::new();
    for fact in updates {
        let kind = fact.tag.symbol();
        if !view.kinds.is_empty() && !view.kinds.contains(&kind) {
            continue;
        }
        let (other, ordinal) = match fact.tag.kind() {
            Kind::Out | Kind::OutParallel => other_end(fact, segment),
            Kind::EdgeProperty => {
                let (target, ordinal, key, _) = weir_model::codec::decode_edge_property(fact.payload, &segment.arena);
                if !view.reads.iter().any(|(read, _)| *read == key) {
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
    for (half, time) in touched {
        let mut read = |at: Time| -> Option<Vec<Value>> {
            let property = |(key, _): &(Symbol, usize)| facts.edge_property(half.kind, half.other, half.ordinal, *key, at);
            facts.has_half(half, at).then(|| view.reads.iter().map(property).collect())
        };
        let (was, is) = (time.checked_sub(1).and_then(&mut read), read(time));
        if was == is {
            continue;
        }
        for (values, diff) in [(was, -1), (is, 1)] {
            let Some(values) = values else { continue };
            view.reads.iter().zip(values).for_each(|((_, slot), value)| row[*slot] = value);
            change_of_edge(walk, Change { path, time, diff }, edge, (id, facts), half, row);
        }
    }
}

fn other_end(fact: &Fact, segment: &Segment) -> (NodeId, u32) {
    match fact.tag.kind() {
        Kind::Out => (fact.payload.as_node(), 0),
        _ => weir_model::codec::decode_parallel(fact.payload, &segment.arena),
    }
}

/// A node's local view before and after a tick; where they differ, what was goes and what is comes.
fn change_of_view<'a>(
    walk: &mut Walk<'a>,
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
    let was = look(view, facts, time.wrapping_sub(1), row, walk);
    let old = was.then(|| row.to_vec());
    let is = look(view, facts, time, row, walk);
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
