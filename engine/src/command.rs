//! Command: everything a worker can be asked. Already validated; every worker gets the same commands in the same order,
//! so every worker builds the same dataflows.

use std::sync::Arc;

use crossbeam_channel::Sender;
use weir_model::{QueryId, Tick};

use crate::alarm::Alarms;
use crate::arrangement::{Published, SharedBatch};
use crate::index::{Began, Definition};
use crate::render::aside::Asides;
use crate::render::health::Health;
use crate::render::results::{Backfill, Baseline};
use crate::render::{HubBounds, Maintained, QueryNumber, ResultBatch};
use crate::standing::Inbox;
use crate::store::{Entry, GraphId};
use crate::symbols::Symbols;

#[derive(Clone)]
pub enum Command {
    /// A new graph, empty, or as loaded from the store: then `base` holds a batch for each shard.
    CreateGraph {
        graph: GraphId,
        published: Arc<Published>,
        base: Arc<Base>,
    },
    DropGraph {
        graph: GraphId,
    },
    /// The changes of a batch of records; their ticks follow those of the entry before.
    Apply(Arc<Entry>),
    Install(Arc<Install>),
    /// Send cancellations of ticks before this one, whoever else wants them.
    Heed {
        graph: GraphId,
        query: QueryId,
        until: Tick,
    },
    Drop {
        graph: GraphId,
        query: QueryId,
    },
    /// Keep what changes for an index from now on, and say what there is.
    BeginIndex {
        graph: GraphId,
        definition: Arc<Definition>,
        began: Sender<Began>,
    },
    /// What there was, by shard.
    FillIndex {
        graph: GraphId,
        definition: Arc<Definition>,
        bases: Arc<Vec<Option<SharedBatch>>>,
        filled: Sender<()>,
    },
    DropIndex {
        graph: GraphId,
        definition: Arc<Definition>,
    },
    Stop,
}

/// What a graph holds when its dataflow is built.
#[derive(Default)]
pub struct Base {
    /// One batch a shard, all facts at one tick before `upper`; none for an empty graph.
    pub shards: Vec<SharedBatch>,
    pub upper: Tick,
}

pub struct Install {
    pub graph: GraphId,
    pub query: QueryId,
    /// The query among those of this run.
    pub number: QueryNumber,
    pub maintained: Maintained,
    pub symbols: Arc<Symbols>,
    pub open_cypher: bool,
    pub hubs: HubBounds,
    /// Cancellations of ticks before this one are wanted.
    pub cancellations_until: Tick,
    pub baseline: Baseline,
    pub results: Sender<ResultBatch>,
    pub inbox: Arc<Inbox>,
    pub backfill: Arc<Backfill>,
    /// Who works for its stages, and how far they are.
    pub asides: Arc<Asides>,
    pub health: Arc<Health>,
    /// Where it says that it waits for the clock.
    pub alarms: Arc<Alarms>,
}
