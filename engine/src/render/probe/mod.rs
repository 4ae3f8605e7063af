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
//!
//!     offered   what a batch changes, as changes of atoms of the families it can concern
//!     spent     how long that takes for each, and which of them keeps a worker busy

mod offered;
mod spent;

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
use timely::scheduling::Activator;

use offered::Offered;
use spent::Spent;

pub use offered::{EdgeChange, change_of_edge, has_needs};

use super::dense::Dense;
use super::hubs::{Around, HubBounds, Hubs};
use super::maintained::{Interest, TOUCHED};
use super::queries::Queries;
use super::results::{Row, RowChange};
use super::stages::looks::Touch;
use super::walk::{Errand, Findings, Ground, Parcel};
use super::{QueryNumber, Time, before};
use crate::arrangement::build::Shard;
use crate::arrangement::{Batch, Layers, Published, SharedBatch};
use crate::symbols::WorkerSymbols;

pub type Trace = TraceAgent<Layers>;

/// How often it is looked up whether stages are done with the ticks that are kept apart for them.
pub const ASIDE_LOOK: Duration = Duration::from_millis(1);

/// What the operators of a graph share.
#[derive(Clone)]
pub struct Common {
    pub queries: Rc<RefCell<Queries>>,
    pub published: Arc<Published>,
    pub symbols: Rc<WorkerSymbols>,
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
                    queries.advance(*frontier, &published, worker);
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
pub fn home(query: QueryNumber) -> u64 {
    u64::from(query.0)
}

/// Two outputs: complete rows, and rows that go on at another shard.
type Outputs<'scope, T> = (StreamVec<'scope, T, RowChange>, StreamVec<'scope, T, Parcel>);

/// Room for at most this many results is made ahead.
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
        let mut walks = Walks::new();
        // As many as there were the last time.
        let mut expected = 0;
        move |frontiers| {
            let mut results_handle = results_out.activate();
            let mut parcels_handle = parcels_out.activate();
            let queries = common.queries.borrow();
            let mut hubs = hubs.borrow_mut();
            input.for_each(|capability, data| {
                walks.findings.results.reserve(expected);
                for batch in data.drain(..) {
                    walks.take_in(&batch, &queries, &mut hubs, &common);
                }
                let Findings { results, parcels, .. } = &mut walks.findings;
                expected = results.len().min(RESERVED_MAX);
                if !results.is_empty() {
                    results_handle.session(&capability.retain(0)).give_container(results);
                }
                if !parcels.is_empty() {
                    parcels_handle.session(&capability.retain(1)).give_container(parcels);
                }
            });
            // What has been found goes on its way first.
            let frontier = frontiers[0].frontier().first().copied();
            match tend(&mut hubs, &queries, &common, &trace, frontier) {
                Some(Duration::ZERO) => again.activate(),
                Some(later) => again.activate_after(later),
                None => {}
            }
            allow_compaction(&mut trace, frontier);
        }
    });
    (results, parcels)
}

/// The walks of what the batches of this shard change: what they keep from one batch to the next, and what they have found.
struct Walks {
    /// All batches that a batch is walked over, itself the last; none in between.
    view: Vec<SharedBatch>,
    touched: Vec<(Time, Row)>,
    dense: Dense,
    spent: Spent,
    findings: Findings,
}

impl Walks {
    fn new() -> Walks {
        let (dense, spent, findings) = (Dense::default(), Spent::new(), Findings::with_waiting(1));
        Walks { view: Vec::new(), touched: Vec::new(), dense, spent, findings }
    }

    /// Walks what a batch changes, and tells of it whom it concerns besides.
    fn take_in(&mut self, shared: &SharedBatch, queries: &Queries, hubs: &mut Hubs, common: &Common) {
        let Walks { view, touched, dense, spent, findings } = self;
        let Common { symbols, shard, .. } = common;
        let batch: &Batch = shared;
        let last = before(batch.upper.elements());
        // Batches that were there when the first query was installed come without.
        let Some(located) = shared.located() else {
            dense.forget();
            return hubs.begin_after(last);
        };
        view.extend_from_slice(&located.existing);
        view.push(shared.clone());
        dense.take_in(queries, batch, located);
        hubs.take_in(queries, symbols, batch, located);
        spent.begin();
        let ground = Ground {
            batches: view.as_slice(),
            newest: Some((batch, located)),
            everywhere: None,
            symbols,
            shard: *shard,
            dense: Some(&*dense),
            hubs: Some(&*hubs),
        };
        let offered = Offered { queries, batch, located, ground, spent };
        offered.walk(findings);
        offered.walk_turns(dense, findings);
        spent.end(queries);
        dense.settle(queries, view, last);
        hubs.settle(queries, symbols, batch, located);
        tell_listeners(queries, batch, touched, &mut findings.results);
        view.clear();
    }
}

/// Looks after what is kept of hubs: everything before the frontier has been taken in. Says when to go on, if there is more.
fn tend(hubs: &mut Hubs, queries: &Queries, common: &Common, trace: &Trace, frontier: Option<Time>) -> Option<Duration> {
    hubs.look_ahead(queries, &common.published);
    let at = hubs.has_all_by(frontier.map_or(Time::MAX, |first| before(&[first])));
    if frontier.is_none() || !hubs.is_busy() {
        return None;
    }
    let mut batches: Vec<SharedBatch> = Vec::new();
    trace.map_batches(|batch| batches.push(batch.clone()));
    let Common { symbols, shard, published, .. } = common;
    hubs.tend(&Around { queries, symbols, shard: *shard, published, batches: &batches, at })
}

/// Tells queries whose stages look at nodes of those that change.
fn tell_listeners(queries: &Queries, batch: &Batch, touched: &mut Vec<(Time, Row)>, results: &mut Vec<RowChange>) {
    for listeners in &queries.listeners {
        touched.clear();
        touches(batch, &listeners.interest, touched);
        for (query, since) in &listeners.queries {
            let heard = touched.iter().filter(|(time, _)| time >= since);
            results.extend(heard.map(|(time, row)| RowChange {
                row: row.clone(),
                time: *time,
                diff: 1,
                query: *query,
                source: TOUCHED,
            }));
        }
    }
}

/// What changes of the nodes of this shard, as far as somebody who looked at them may see it.
fn touches(batch: &Batch, interest: &Interest, found: &mut Vec<(Time, Row)>) {
    let mut touches: SmallVec<[(Time, Touch); 4]> = SmallVec::new();
    for (index, id) in batch.ids.iter().enumerate() {
        touches.clear();
        let (segment, facts) = batch.node(index);
        for (_, fact) in segment.tags(facts).filter(|(tag, _)| interest.concerns(*tag)) {
            let time = segment.time(fact);
            Touch::each(segment, fact, &mut |touch| touches.push((time, touch)));
        }
        touches.sort_unstable();
        touches.dedup();
        for at_once in touches.chunk_by(|(one, _), (other, _)| one == other) {
            Touch::rows(*id, at_once.iter().map(|(_, touch)| *touch), &mut |row| found.push((at_once[0].0, row)));
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
        let mut waiting: Vec<Arrived> = Vec::new();
        // No row waits here for others that go on at the same node.
        let mut findings = Findings::default();
        let mut view: Vec<SharedBatch> = Vec::new();
        let spent = Spent::new();
        move |frontiers| {
            let mut results_handle = results_out.activate();
            let mut parcels_handle = parcels_out.activate();
            ticks.for_each(|_, data| data.clear());
            input.for_each(|capability, data| {
                let (for_results, for_parcels) = (capability.retain(0), capability.retain(1));
                waiting.push(Arrived { for_results, for_parcels, parcels: std::mem::take(data) });
            });
            // The shard has everything before this.
            let reached = frontiers[1].frontier().first().map_or(Time::MAX, |moved| moved.outer);
            if !waiting.is_empty() {
                let queries = queries.borrow();
                let hubs = hubs.borrow();
                view.clear();
                trace.map_batches(|batch| view.push(batch.clone()));
                spent.begin();
                let ground = Ground {
                    batches: &view,
                    newest: None,
                    everywhere: None,
                    symbols: &symbols,
                    shard,
                    dense: None,
                    hubs: Some(&*hubs),
                };
                let reception = Reception { queries: &queries, hubs: &hubs, ground, spent: &spent, reached, again: &again };
                for Arrived { for_results, for_parcels, parcels } in &mut waiting {
                    parcels.retain_mut(|parcel| !reception.receive(parcel, &mut findings));
                    if !findings.results.is_empty() {
                        results_handle.session(&*for_results).give_container(&mut findings.results);
                    }
                    if !findings.parcels.is_empty() {
                        parcels_handle.session(&*for_parcels).give_container(&mut findings.parcels);
                    }
                }
                spent.end(&queries);
                view.clear();
                waiting.retain(|arrived| !arrived.parcels.is_empty());
            }
            let coming = frontiers[0].frontier().iter().map(|moved| moved.outer).min();
            let oldest = waiting.iter().map(|arrived| arrived.for_results.time().outer);
            let awaited = coming.into_iter().chain(oldest).min();
            hubs.borrow_mut().await_from(awaited.unwrap_or(Time::MAX));
            allow_compaction(&mut trace, awaited);
        }
    });
    (results, further)
}

/// Rows that came from other shards together, and with what that comes of them may be sent on.
struct Arrived {
    for_results: Capability<Moved>,
    for_parcels: Capability<Moved>,
    /// Those that wait for this shard to get as far as they are.
    parcels: Vec<Parcel>,
}

/// This shard, as rows from other shards find it.
struct Reception<'a> {
    queries: &'a Queries,
    hubs: &'a Hubs,
    ground: Ground<'a>,
    spent: &'a Spent,
    /// The shard has everything before this tick.
    reached: Time,
    again: &'a Activator,
}

impl Reception<'_> {
    /// Walks on with a row. False where it has to wait, as the shard is not as far as the row.
    fn receive(&self, parcel: &mut Parcel, findings: &mut Findings) -> bool {
        // The operator that takes in changes, `changes`, may not have had its turn.
        let knows = matches!(parcel.errand, Errand::Node) || self.hubs.knows(parcel.time);
        if !knows {
            self.again.activate();
        }
        if !knows || parcel.time >= self.reached {
            return false;
        }
        // Without a family, its last query has been taken away.
        if let Some(family) = self.queries.family(parcel.family) {
            self.spent.visit(family, self.ground, findings, |walk| walk.receive(parcel));
        }
        true
    }
}

/// No row with a tick before the frontier will be read for again.
fn allow_compaction(trace: &mut Trace, frontier: Option<Time>) {
    let Some(frontier) = frontier else { return };
    trace.set_logical_compaction(AntichainRef::new(&[before(&[frontier])]));
    trace.set_physical_compaction(AntichainRef::new(&[frontier]));
}
