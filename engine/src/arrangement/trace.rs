//! The trace of a shard: its batches, and what is merged when. Hands both to differential through its traits.
//!
//! Batches are shared by `Arc` rather than the `Rc` of differential's own wrappers, so that a worker can publish them to
//! other threads. Differential's own spine merges two and two, which copies every fact once for each doubling of the
//! graph; here about `FAN_IN` batches become one, which halves the copies (see docs/decisions/0007).
//!
//!     oldest                                               newest
//!     [ 9M ] [ 3M 2M 3M -> merging ] [ 900k ] [ 300k ] [ 13k ] [ 13k ]

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::logging::Logger;
use differential_dataflow::trace::{self, BatchReader, Description, ExertionLogic, Trace, TraceReader};
use timely::PartialOrder;
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;
use timely::scheduling::activate::Activator;

use super::batch::Batch;
use super::build::Located;
use super::merge::Merge;

/// The newest batches are merged when together they are this many times the largest of them.
const FAN_IN: f64 = 4.0;

/// While nothing comes in, the newest batches are merged when together they are this many times the largest of them: fewer
/// batches are read faster, and the time costs nobody anything.
const AT_REST: f64 = 1.25;

/// How many facts the newest merge goes on by for each fact that comes in, and each older one: merges end before as much again
/// has gathered. Older ones have time, and when several are under way they are what a batch waits for.
const MERGED_PER_FACT: [isize; 2] = [4, 2];

/// How many facts each merge goes on by at least for each batch, so that small batches do not pile up.
const MERGED_PER_BATCH: isize = 512;

/// How many facts are merged at a time while there is nothing else to do: some microseconds.
const MERGED_WHEN_IDLE: isize = 4096;

#[derive(Clone)]
pub struct SharedBatch {
    batch: Arc<Batch>,
    description: Arc<Description<u64>>,
    located: Option<Arc<Located>>,
}

impl SharedBatch {
    pub fn new(batch: Batch) -> SharedBatch {
        let description = Description::new(batch.lower.clone(), batch.upper.clone(), batch.since.clone());
        SharedBatch { batch: Arc::new(batch), description: Arc::new(description), located: None }
    }

    /// A batch on its way to the standing queries, with what was found while it was built.
    pub fn with_located(batch: Batch, located: Located) -> SharedBatch {
        SharedBatch { located: Some(Arc::new(located)), ..SharedBatch::new(batch) }
    }

    pub fn without_located(self) -> SharedBatch {
        SharedBatch { located: None, ..self }
    }

    pub fn located(&self) -> Option<&Located> {
        self.located.as_deref()
    }
}

impl Deref for SharedBatch {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        &self.batch
    }
}

impl BatchReader for SharedBatch {
    type Time = u64;

    fn len(&self) -> usize {
        self.batch.len()
    }

    fn description(&self) -> &Description<u64> {
        &self.description
    }
}

impl trace::Batch for SharedBatch {
    type Merger = Merge;

    fn empty(lower: Antichain<u64>, upper: Antichain<u64>) -> Self {
        SharedBatch::new(Batch::empty(lower, upper))
    }
}

impl trace::Merger<SharedBatch> for Merge {
    fn new(older: &SharedBatch, newer: &SharedBatch, since: AntichainRef<u64>) -> Self {
        Merge::new(&[older.clone(), newer.clone()], since.to_owned())
    }

    fn work(&mut self, _: &SharedBatch, _: &SharedBatch, fuel: &mut isize) {
        Merge::work(self, fuel);
    }

    fn done(self) -> SharedBatch {
        SharedBatch::new(Merge::done(self))
    }
}

/// The batches of one shard.
pub struct Layers {
    /// Oldest first; each begins where the one before it ends.
    layers: Vec<Layer>,
    upper: Antichain<u64>,
    /// Times before this may be made one.
    logical: Antichain<u64>,
    /// Batches that end by this may be made one.
    physical: Antichain<u64>,
    activator: Option<Activator>,
    leisure: Rc<Cell<Leisure>>,
}

/// How much time a worker has for merges.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Leisure {
    /// Batches come in. What they wait for is what each of them pays for, and no more.
    #[default]
    None,
    /// No batch waits: merges that are under way go on.
    Some,
    /// None has come for a while: what has not to be merged yet is merged, too.
    Plenty,
}

enum Layer {
    Whole(SharedBatch),
    Merging(Box<Merge>),
}

impl Layers {
    pub fn empty(activator: Option<Activator>) -> Layers {
        let zero = || Antichain::from_elem(0);
        let leisure = Rc::default();
        Layers { layers: Vec::new(), upper: zero(), logical: zero(), physical: zero(), activator, leisure }
    }

    /// To be set by the worker; what comes in takes it back.
    pub fn leisure(&self) -> Rc<Cell<Leisure>> {
        self.leisure.clone()
    }

    /// Starts every merge that is due.
    fn plan(&mut self) {
        // What is newer than the newest merge under way: what is older had its turn before.
        let start = self.layers.iter().rposition(|layer| matches!(layer, Layer::Merging(_))).map_or(0, |index| index + 1);
        let tail: Vec<SharedBatch> = self.layers[start..].iter().flat_map(Layer::batches).cloned().collect();
        let settled = tail.iter().take_while(|batch| PartialOrder::less_equal(&batch.upper, &self.physical)).count();
        let fan_in = if self.leisure.get() == Leisure::Plenty { AT_REST } else { FAN_IN };
        let (mut together, mut largest, mut from) = (0, 0, None);
        for (index, batch) in tail[..settled].iter().enumerate().rev() {
            together += batch.len();
            largest = largest.max(batch.len());
            if index + 1 < settled && together as f64 >= fan_in * largest as f64 {
                from = Some(index);
            }
        }
        if let Some(from) = from {
            let merge = Merge::new(&tail[from..settled], self.logical.clone());
            self.layers.splice(start + from..start + settled, [Layer::Merging(Box::new(merge))]);
        }
    }

    /// Goes on with each merge, newest first: with the newest by `newest` facts, with each other by `older`.
    fn work(&mut self, newest: isize, older: isize) {
        let mut fuel = newest;
        for layer in self.layers.iter_mut().rev() {
            if let Layer::Merging(merge) = layer
                && merge.work(&mut std::mem::replace(&mut fuel, older))
            {
                let merge = std::mem::replace(merge, Box::new(Merge::new(&[], Antichain::new())));
                *layer = Layer::Whole(SharedBatch::new(merge.done()));
            }
        }
        self.plan();
    }
}

impl Layer {
    fn batches(&self) -> impl Iterator<Item = &SharedBatch> {
        let (whole, merging) = match self {
            Layer::Whole(batch) => (Some(batch), None),
            Layer::Merging(merge) => (None, Some(merge.sources())),
        };
        whole.into_iter().chain(merging.into_iter().flatten())
    }
}

impl TraceReader for Layers {
    type Time = u64;
    type Batch = SharedBatch;

    fn batches_through(&mut self, upper: AntichainRef<u64>) -> Option<Vec<SharedBatch>> {
        let mut batches = Vec::new();
        self.map_batches(|batch| {
            if PartialOrder::less_equal(&batch.upper.borrow(), &upper) && !batch.is_empty() {
                batches.push(batch.clone());
            }
        });
        Some(batches)
    }

    fn set_logical_compaction(&mut self, frontier: AntichainRef<u64>) {
        self.logical = frontier.to_owned();
    }

    fn get_logical_compaction(&mut self) -> AntichainRef<'_, u64> {
        self.logical.borrow()
    }

    fn set_physical_compaction(&mut self, frontier: AntichainRef<'_, u64>) {
        self.physical = frontier.to_owned();
        self.plan();
    }

    fn get_physical_compaction(&mut self) -> AntichainRef<'_, u64> {
        self.physical.borrow()
    }

    fn map_batches<F: FnMut(&SharedBatch)>(&self, f: F) {
        self.layers.iter().flat_map(Layer::batches).for_each(f);
    }
}

impl Trace for Layers {
    fn new(_: OperatorInfo, _: Option<Logger>, activator: Option<Activator>) -> Layers {
        Layers::empty(activator)
    }

    /// Goes on with merges while there is nothing else to do.
    fn exert(&mut self) {
        if self.leisure.get() == Leisure::Plenty {
            self.plan();
        }
        if self.layers.iter().any(|layer| matches!(layer, Layer::Merging(_))) {
            if self.leisure.get() != Leisure::None {
                self.work(MERGED_WHEN_IDLE, MERGED_WHEN_IDLE);
            }
            if let Some(activator) = &self.activator {
                activator.activate();
            }
        }
    }

    /// How much is merged when is not for others to say.
    fn set_exert_logic(&mut self, _: ExertionLogic) {}

    fn insert(&mut self, mut batch: SharedBatch) {
        // Those who are told of the batch have it; kept here, it would hold batches long merged.
        batch.located = None;
        assert!(batch.lower == self.upper, "batches follow one another");
        self.upper.clone_from(&batch.upper);
        self.leisure.set(Leisure::None);
        let count = batch.len() as isize;
        let [newest, older] = MERGED_PER_FACT.map(|facts| (count * facts).max(MERGED_PER_BATCH));
        self.layers.push(Layer::Whole(batch));
        self.work(newest, older);
    }

    fn close(&mut self) {
        if !self.upper.is_empty() {
            self.insert(trace::Batch::empty(self.upper.clone(), Antichain::new()));
        }
    }
}
