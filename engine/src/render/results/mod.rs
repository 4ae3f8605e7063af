//! Results: rows of a standing query in the order of ticks, and once each where the mode asks for it.
//!
//! All changes of one query come together at one worker. They wait until the frontier says that a tick is complete, then leave in
//! batches, each with the tick up to which everything is in. Where there are no rows nothing leaves: how far a worker has
//! answered is said once for all its queries.
//!
//!     gather    what the results of a query go through at its home worker
//!     at_rest   what is found in the graph at rest, until all of it has been looked through
//!     answer    from changes of rows to results
//!     counts    how often each row is there

mod gather;
mod at_rest;
mod answer;
mod counts;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use weir_model::{Map, Match, Text, Tick, Value, codec};

pub use answer::Answer;
pub use gather::{Gather, Rested};

pub(super) use counts::{PARTS, part_of};

use super::{QueryNumber, Time};
use crate::standing::Inbox;

/// The values of one row. Rows of one or two values, which is most, need no allocation of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub SmallVec<[Value; 2]>);

/// One change of the multiset of rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RowChange {
    pub row: Row,
    pub time: Time,
    pub diff: i32,
    /// The query it belongs to.
    pub query: QueryNumber,
    /// Which pattern of the query it comes from.
    pub source: u32,
}

/// Results of complete ticks.
#[derive(Debug)]
pub struct ResultBatch {
    /// Everything before this tick is in this batch or in an earlier one.
    pub upper: Tick,
    pub columns: Arc<[Text]>,
    pub rows: Vec<ResultRow>,
    /// When they were found; None of those that had been there before the query was, which are in no order yet.
    pub found: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct ResultRow {
    pub tick: Tick,
    pub positive: bool,
    pub row: Row,
}

impl ResultBatch {
    /// Gives rows that had been there before the query was an order.
    pub(crate) fn sort(&mut self) {
        if self.found.is_none() {
            self.rows.sort_unstable_by(|a, b| a.row.cmp(&b.row));
        }
    }

    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        self.rows.iter().map(|result| {
            let mut data = Map::with_capacity(self.columns.len());
            for (column, value) in self.columns.iter().zip(&result.row.0) {
                data.push_unique(column.clone(), value.clone());
            }
            Match { positive: result.positive, tick: result.tick, data: Arc::new(data) }
        })
    }
}

/// What is reported of the matches that are there when a query is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Baseline {
    /// They are results like any other.
    Report,
    /// They were reported in an earlier life of the process, or are held back since then; their end is still reported.
    Known,
}

/// Which results are reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    /// Cancellations of ticks before this are reported.
    pub cancellations_until: Time,
    pub baseline: Baseline,
    /// Rows of ticks before this are the baseline.
    pub installed: Time,
}

/// Where results go, and what is seen of a query from outside.
#[derive(Clone)]
pub struct Outlet {
    /// Only the home worker has it.
    pub results: Option<Sender<ResultBatch>>,
    pub inbox: Arc<Inbox>,
    pub backfill: Arc<Backfill>,
}

/// How much of the graph at rest has been looked at for a query.
#[derive(Debug, Default)]
pub struct Backfill {
    /// About how many nodes there are, once for each pattern.
    pub nodes: AtomicU64,
    pub looked_at: AtomicU64,
    /// Whether the graph at rest has been looked through, and what has changed since has been answered.
    pub done: AtomicBool,
}

impl Backfill {
    pub fn look_at(&self, nodes: u64) {
        self.looked_at.fetch_add(nodes, Ordering::Relaxed);
    }
}

impl Row {
    pub fn from_slice(values: &[Value]) -> Row {
        Row(values.iter().cloned().collect())
    }
}

/// As the bytes of `codec`, so that rows can travel between processes.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        self.0.iter().for_each(|value| codec::encode(value, &mut bytes));
        bytes.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        let mut rest = bytes.as_slice();
        let mut row = SmallVec::new();
        while !rest.is_empty() {
            row.push(codec::decode(&mut rest).ok_or_else(|| D::Error::custom("damaged row"))?);
        }
        Ok(Row(row))
    }
}
