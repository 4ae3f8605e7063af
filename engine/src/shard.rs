//! The `graph` operator: a worker's shard of one graph, as a trace that standing queries import.
//!
//! Each entry of the log, or several small ones together, becomes one immutable batch of its net change. The batch goes into the
//! trace, through it to the standing queries, and with the rest of the spine it is published for readers on other threads.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::operators::arrange::{TraceAgent, TraceWriter};
use differential_dataflow::trace::{Trace, TraceReader};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;
use timely::scheduling::activate::Activator;
use timely::worker::Worker;
use weir_model::{Mutations, Tick};

use crate::arrangement::build::{Builder, Shard};
use crate::arrangement::snapshot::Shown;
use crate::arrangement::{Layers, Leisure, Published, SharedBatch, Snapshot};
use crate::command::Base;
use crate::index::shard::ShardIndex;
use crate::index::{Began, Definition};
use crate::store::Entry;

/// Rows of the log that become one batch for those who look ahead.
const AHEAD_ROWS: usize = 1 << 20;

pub struct ShardOfGraph {
    input: InputHandle<u64, CapacityContainerBuilder<Vec<Arc<Entry>>>>,
    pub trace: TraceAgent<Layers>,
    pub published: Arc<Published>,
    shard: Shard,
    /// The tick after the last entry that was put in.
    pub upper: u64,
    /// What the operator works on.
    writing: Rc<RefCell<Writing>>,
    /// How much time the trace has for merges.
    leisure: Rc<Cell<Leisure>>,
    /// Has the operator run, so that it goes on with merges.
    activator: Activator,
}

impl ShardOfGraph {
    /// Builds the dataflow, holding the base from the start.
    pub fn new(worker: &mut Worker, published: Arc<Published>, base: &Base) -> ShardOfGraph {
        let shard = Shard { index: worker.index(), count: worker.peers() };
        let mut input = InputHandle::new();
        let loaded = base.shards.get(shard.index).cloned();
        let publisher = published.clone();
        let (trace, writing, leisure, activator) = worker.dataflow::<u64, _, _>(|scope| {
            let stream = input.to_stream(scope);
            let mut operator = OperatorBuilder::new("graph".to_owned(), scope);
            let info = operator.operator_info();
            let activator = scope.activator_for(info.address.clone());
            let mut entries = operator.new_input(stream, Pipeline);
            let layers = Layers::new(info.clone(), None, Some(activator.clone()));
            let leisure = layers.leisure();
            let (reader, writer) = TraceAgent::new(layers, info, None);
            let trace = reader.clone();
            let mut writing = Writing {
                writer,
                reader,
                builder: Builder::default(),
                joined: Mutations::default(),
                existing: Vec::new(),
                lower: Antichain::from_elem(0),
                published: publisher,
                shard,
                indexes: Vec::new(),
            };
            writing.load(loaded);
            let writing = Rc::new(RefCell::new(writing));
            let shared = writing.clone();
            operator.build(move |_| {
                move |_| {
                    let mut writing = writing.borrow_mut();
                    entries.for_each(|_, data: &mut Vec<Arc<Entry>>| {
                        writing.apply(data);
                        data.clear();
                    });
                    writing.keep_house();
                }
            });
            (trace, shared, leisure, activator)
        });
        input.advance_to(base.upper.0);
        ShardOfGraph { input, trace, published, shard, upper: base.upper.0, writing, leisure, activator }
    }

    /// From here on the shard keeps what changes for an index. It has applied everything that was handed to it.
    pub fn begin_index(&mut self, definition: Arc<Definition>) -> Began {
        let writing = &mut *self.writing.borrow_mut();
        writing.indexes.push(ShardIndex::new(definition, self.upper));
        Began { shard: self.shard.index, batches: writing.existing.clone(), upper: self.upper }
    }

    pub fn fill_index(&mut self, definition: &Arc<Definition>, base: Option<SharedBatch>) {
        let writing = &mut *self.writing.borrow_mut();
        let index = writing.indexes.iter_mut().find(|index| Arc::ptr_eq(&index.definition, definition));
        if let (Some(index), Some(base)) = (index, base) {
            index.fill(base);
            writing.publish();
        }
    }

    pub fn drop_index(&mut self, definition: &Arc<Definition>) {
        let writing = &mut *self.writing.borrow_mut();
        writing.indexes.retain(|index| !Arc::ptr_eq(&index.definition, definition));
        writing.publish();
    }

    /// Hands entries to the operator, to become one batch; the next `step` of the worker applies them.
    pub fn apply(&mut self, mut entries: Vec<Arc<Entry>>) {
        let Some(last) = entries.last() else { return };
        let in_order = entries.iter().try_fold(self.upper, |upper, entry| (entry.first.0 >= upper).then_some(entry.upper.0));
        // Asked here: once several have become one batch, nobody can see any more in which order they came.
        assert!(in_order.is_some(), "entries come in the order of ticks, and none of what was loaded");
        // What is imported next begins with what has been applied by then, so this handle holds nothing back.
        let applied = self.published.shard_upper(self.shard.index);
        allow_compaction(&mut self.trace, &self.published, applied);
        self.upper = last.upper.0;
        self.input.send_batch(&mut entries);
        self.input.advance_to(self.upper);
        self.input.flush();
    }

    /// Nothing waits: time for the merges that are under way.
    pub fn allow_merges(&self) {
        if self.leisure.get() == Leisure::None {
            self.leisure.set(Leisure::Some);
        }
    }

    /// Nothing has come in for a while: time to merge more than has to be.
    pub fn rest(&mut self) {
        if self.leisure.replace(Leisure::Plenty) != Leisure::Plenty {
            let applied = self.published.shard_upper(self.shard.index);
            allow_compaction(&mut self.trace, &self.published, applied);
            self.activator.activate();
        }
    }

    /// All shards as they are after everything that this one was handed so far: the same moment on each worker, as all get the
    /// same commands. Waits for the other shards. None of them can be past that moment and have forgotten it before this worker
    /// goes on.
    pub fn at_rest(&self, worker: &mut Worker) -> Snapshot {
        while self.published.upper().0 < self.upper {
            worker.step();
            std::thread::yield_now();
        }
        self.published.snapshot()
    }

    /// Whether the operator has applied everything that was handed to it.
    pub fn is_current(&self) -> bool {
        self.published.shard_upper(self.shard.index) >= self.upper
    }
}

/// One shard as it will be when `entries` of the log have been applied to what was loaded. For reads while they are replayed.
///
/// Such reads see the end alone, so each batch is one change, at its last tick. To keep the ticks of the records apart would take
/// memory for each of them, even where it changed nothing, and there may be very many where outputs are behind.
pub fn look_ahead(loaded: Option<SharedBatch>, entries: &[Arc<Entry>], shard: Shard) -> Vec<SharedBatch> {
    let (mut builder, mut joined) = (Builder::default(), Mutations::default());
    let mut batches: Vec<SharedBatch> = loaded.into_iter().collect();
    let mut rows = 0;
    // Portions of so many rows, so that there are few batches to look into.
    let portions = entries.chunk_by(|entry, _| {
        rows += entry.mutations.rows.len();
        let is_full = rows >= AHEAD_ROWS;
        if is_full {
            rows = 0;
        }
        !is_full
    });
    for portion in portions {
        let Some(Tick(upper)) = portion.last().map(|entry| entry.upper) else { continue };
        joined.clear();
        portion.iter().for_each(|entry| joined.append(&entry.mutations));
        let lower = batches.last().map_or_else(|| Antichain::from_elem(0), |batch| batch.upper.clone());
        let last = vec![upper.saturating_sub(1)];
        let batch = builder.build(&joined, last, lower, Antichain::from_elem(upper), shard, &batches);
        batches.push(batch.without_located());
    }
    batches
}

/// The state of the operator.
struct Writing {
    writer: TraceWriter<Layers>,
    reader: TraceAgent<Layers>,
    builder: Builder,
    /// Several entries as one; kept, so that its room is used again.
    joined: Mutations,
    /// The batches of the spine, oldest first.
    existing: Vec<SharedBatch>,
    /// The end of the last batch, where the next one begins.
    lower: Antichain<u64>,
    published: Arc<Published>,
    shard: Shard,
    indexes: Vec<ShardIndex>,
}

impl Writing {
    fn load(&mut self, base: Option<SharedBatch>) {
        if let Some(batch) = base {
            self.lower.clone_from(&batch.upper);
            self.writer.insert(batch, Some(0));
        }
        self.publish();
    }

    fn apply(&mut self, entries: &[Arc<Entry>]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let upper = Antichain::from_elem(last.upper.0);
        let batch = self.net_change(entries, upper.clone());
        self.indexes.iter_mut().for_each(|index| index.apply(&batch));
        self.writer.insert(batch, Some(first.first.0));
        self.lower = upper;
        self.publish();
    }

    /// One batch of what entries that follow one another really change on this shard. It reaches from the batch before it to
    /// `upper`.
    fn net_change(&mut self, entries: &[Arc<Entry>], upper: Antichain<u64>) -> SharedBatch {
        let times: Vec<u64> = entries.iter().flat_map(|entry| entry.first.0..entry.upper.0).collect();
        let mutations = if let [entry] = entries {
            &*entry.mutations
        } else {
            self.joined.clear();
            let mut records = 0;
            for entry in entries {
                self.joined.append_records(&entry.mutations, records);
                records += (entry.upper.0 - entry.first.0) as u32;
            }
            &self.joined
        };
        self.builder.build(mutations, times, self.lower.clone(), upper, self.shard, &self.existing)
    }

    /// Goes on with merges, and shows what comes of them also while nothing else does: fewer batches are read faster.
    fn keep_house(&mut self) {
        self.writer.exert();
        let mut count = 0;
        self.reader.map_batches(|_| count += 1);
        if count != self.existing.len() {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let upper = self.lower.elements().first().copied().unwrap_or(0);
        self.existing.clear();
        let existing = &mut self.existing;
        self.reader.map_batches(|batch| existing.push(batch.clone()));
        let since = self.reader.get_logical_compaction().first().copied().unwrap_or(0);
        let indexes = self.indexes.iter().filter_map(ShardIndex::shown).collect();
        self.published.publish(self.shard.index, Shown { batches: self.existing.clone(), upper, since, indexes });
        allow_compaction(&mut self.reader, &self.published, upper);
        let slowest = self.published.upper().0.saturating_sub(1);
        self.indexes.iter_mut().for_each(|index| index.allow_compaction(slowest, upper));
    }
}

/// Snapshots are taken at the moment of the slowest shard, so nothing older needs to be told apart.
fn allow_compaction(trace: &mut TraceAgent<Layers>, published: &Published, upper: u64) {
    let slowest = published.upper().0.saturating_sub(1);
    trace.set_logical_compaction(AntichainRef::new(&[slowest]));
    trace.set_physical_compaction(AntichainRef::new(&[upper]));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use weir_model::{Mutations, NodeId, Symbol, Tick, Value};

    use super::look_ahead;
    use crate::arrangement::Snapshot;
    use crate::arrangement::build::Shard;
    use crate::store::{Entry, GraphId, InMemory};
    use crate::view::View;
    use crate::{Engine, Options};

    #[test]
    fn what_is_read_ahead_is_one_change_however_many_records_there_were() {
        let (node, [value, other, label]) = (NodeId::new(7, 7), [1, 2, 3].map(Symbol));
        let entry = |first: u64, records: u64| {
            let mut mutations = Mutations::default();
            mutations.start_record(5);
            mutations.set_property(node, other, &Value::Boolean(true));
            mutations.start_record(records as u32 - 1);
            if first > 0 {
                mutations.clear_properties(node);
            }
            mutations.set_property(node, value, &Value::Integer(first as i64));
            mutations.set_label(node, label, first == 1000);
            let (first, upper, mutations) = (Tick(first), Tick(first + records), Arc::new(mutations));
            Arc::new(Entry { graph: GraphId(0), first, upper, mutations, sources: Vec::new(), delivered: Vec::new() })
        };
        let batches = look_ahead(None, &[entry(0, 1000), entry(1000, 5000), entry(9000, 100)], Shard { index: 0, count: 1 });
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].node(0).0.times, [9099]);
        let snapshot = Snapshot::new(vec![batches], 9100);
        assert_eq!((snapshot.property(node, value), snapshot.property(node, other)), (Value::Integer(9000), Value::Null));
        assert!(!snapshot.has_label(node, label));
    }

    #[test]
    fn a_graph_at_rest_is_merged_and_shown_as_such() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options::default()).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let key = graph.symbols().intern("n");
        let node = NodeId::spread;
        let sizes = || -> Vec<usize> { graph.snapshot().shard(0).iter().map(|batch| batch.len()).collect() };
        let is_merged = |sizes: &[usize]| sizes.iter().max().is_some_and(|largest| sizes.iter().sum::<usize>() * 4 < largest * 5);
        let mut was_merged = true;
        for round in 0..10 {
            let mut mutations = Mutations::default();
            for n in 0..500 {
                mutations.set_property(node(n + 500 * (round % 7)), key, &Value::Integer((n + 1000 * round) as i64));
            }
            graph.apply(mutations, 1).unwrap();
            graph.wait_visible().unwrap();
            was_merged &= is_merged(&sizes());
        }
        assert!(!was_merged, "there is something to merge");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_merged(&sizes()) {
            assert!(Instant::now() < deadline, "{:?}", sizes());
            std::thread::sleep(Duration::from_millis(20));
        }
        for n in 0..3500 {
            let round = if n < 1500 { n / 500 + 7 } else { n / 500 };
            assert_eq!(graph.snapshot().property(node(n), key), Value::Integer((n % 500 + 1000 * round) as i64));
        }
        engine.shutdown().unwrap();
    }
}
