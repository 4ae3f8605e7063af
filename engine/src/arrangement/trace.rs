//! Hands batches to differential: its traits for a batch shared by `Arc`, and the spine over them.
//!
//! `Arc` rather than the `Rc` of differential's own wrappers, so that a worker can publish its batches to other threads.

use std::ops::Deref;
use std::sync::Arc;

use differential_dataflow::trace::implementations::spine_fueled;
use differential_dataflow::trace::{self, BatchReader, Description};
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

use super::batch::Batch;
use super::merge::Merge;

#[derive(Clone)]
pub struct SharedBatch {
    batch: Arc<Batch>,
    description: Arc<Description<u64>>,
}

/// The trace of one shard.
pub type Spine = spine_fueled::Spine<SharedBatch>;

impl SharedBatch {
    pub fn new(batch: Batch) -> SharedBatch {
        let description = Description::new(batch.lower.clone(), batch.upper.clone(), batch.since.clone());
        SharedBatch { batch: Arc::new(batch), description: Arc::new(description) }
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
    type Merger = SharedMerge;

    fn empty(lower: Antichain<u64>, upper: Antichain<u64>) -> Self {
        SharedBatch::new(Batch::empty(lower, upper))
    }
}

pub struct SharedMerge(Merge);

impl trace::Merger<SharedBatch> for SharedMerge {
    fn new(older: &SharedBatch, newer: &SharedBatch, since: AntichainRef<u64>) -> Self {
        SharedMerge(Merge::new(older, newer, since.to_owned()))
    }

    fn work(&mut self, older: &SharedBatch, newer: &SharedBatch, fuel: &mut isize) {
        self.0.work(older, newer, fuel);
    }

    fn done(self) -> SharedBatch {
        SharedBatch::new(self.0.done())
    }
}
