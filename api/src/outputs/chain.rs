//! Outputs that write to the graph may bring each other results, in turns and without end. A chain of them is followed from the
//! record that began it, and ends where it is too long to be meant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_engine::{Cause, Graph};

use super::Sent;

/// In a chain that is longer than two, nobody writes while more results wait than this: where each brings many, they would not
/// find room before the chain is long.
const CROWD_MAX: usize = 1_000_000;
const CROWD_FROM: u32 = 2;

/// Where each brings two (a match, and the cancellation of the one before), as many would write as two to the power of the
/// length. So in a chain that is longer than eight, nobody writes when this times the longest chain have written because of one
/// result.
const FAMILY_MAX: u64 = 100;
const FAMILY_FROM: u32 = 8;

/// A chain of this length is told: it may be a loop, or a series that is meant.
const LONG: u32 = 100;

/// The part of one output.
pub struct Chain {
    query: Arc<str>,
    /// At most this many outputs write one because of the other.
    length_max: u32,
    /// Results that it did not write for.
    pub cut: AtomicU64,
    told_long: AtomicBool,
    told_cut: AtomicBool,
}

impl Chain {
    pub fn new(query: &str, length_max: u32) -> Chain {
        let (told_long, told_cut) = Default::default();
        Chain { query: query.into(), length_max, cut: AtomicU64::new(0), told_long, told_cut }
    }

    /// What the output's write because of a result is caused by. The error says why it must not write.
    pub fn next(&self, graph: &Graph, result: &Sent) -> Result<Arc<Cause>, String> {
        let cause = Cause::new(self.query.clone(), result.cause.as_deref());
        let what = if cause.depth > self.length_max {
            format!("more than {} outputs have written one because of the other (weir.standing.chain-max)", self.length_max)
        } else if cause.depth > FAMILY_FROM && cause.family() > self.family_max() {
            format!(
                "more than {} writes of outputs come of one result ({FAMILY_MAX} times weir.standing.chain-max)",
                self.family_max()
            )
        } else if cause.depth > CROWD_FROM && graph.has_waiting(CROWD_MAX) {
            format!("outputs write one because of the other while more than {CROWD_MAX} results wait")
        } else {
            if cause.depth == LONG && self.length_max > LONG && !self.told_long.swap(true, Ordering::Relaxed) {
                let (queries, max) = (cause.queries.join("' -> '"), self.length_max);
                tracing::warn!(
                    "{LONG} outputs have written one because of the other, of the standing queries '{queries}': if this is not meant, \
                     it is a loop; it is cut after {max} (weir.standing.chain-max)"
                );
            }
            return Ok(Arc::new(cause));
        };
        let names = cause.queries.join("' -> '");
        Err(format!("a loop through the graph was cut: {what}. The standing queries are '{names}'"))
    }

    fn family_max(&self) -> u64 {
        FAMILY_MAX * u64::from(self.length_max)
    }

    /// A result was left out for this reason. The log hears of the first.
    pub fn cut(&self, output: &str, reason: &str) {
        self.cut.fetch_add(1, Ordering::Relaxed);
        if !self.told_cut.swap(true, Ordering::Relaxed) {
            tracing::warn!(query = &*self.query, output, "{reason}; what the output does with such results is left out");
        }
    }
}
