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
    /// There is a new graph: an empty one, or one that was loaded from the store. Then `base` holds a batch for each shard.
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
    /// A standing query is installed.
    Install(Arc<Install>),
    /// From here on a standing query has to send its cancellations of ticks before `until`.
    Heed {
        graph: GraphId,
        query: QueryId,
        until: Tick,
    },
    /// A standing query goes.
    Drop {
        graph: GraphId,
        query: QueryId,
    },
    /// An index is made: from here on workers keep what changes for it. Each says what its shard holds already.
    BeginIndex {
        graph: GraphId,
        definition: Arc<Definition>,
        began: Sender<Began>,
    },
    /// What each shard held already when an index was begun, as a batch of the index.
    FillIndex {
        graph: GraphId,
        definition: Arc<Definition>,
        bases: Arc<Vec<Option<SharedBatch>>>,
        filled: Sender<()>,
    },
    /// An index goes.
    DropIndex {
        graph: GraphId,
        definition: Arc<Definition>,
    },
    /// Nothing comes after this.
    Stop,
}

/// What a graph holds when its dataflow is built.
#[derive(Default)]
pub struct Base {
    /// One batch a shard, all facts at one tick before `upper`; none for an empty graph.
    pub shards: Vec<SharedBatch>,
    pub upper: Tick,
}

/// A standing query on its way to the workers, with all they have to know of it.
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
    /// The threads that work for its stages, if it has some.
    pub asides: Arc<Asides>,
    pub health: Arc<Health>,
    /// Where it says that it waits for the clock.
    pub alarms: Arc<Alarms>,
}
