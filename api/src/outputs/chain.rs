//! Outputs that write to the graph may bring each other results, in turns and without end. A chain of them is followed from the record that began it, and
//! ends where it is too long to be meant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_engine::{Cause, Graph};

use super::Sent;

/// In a chain that is longer than so many, nobody writes while more results wait than this: where each brings several, they would not find room
/// before the chain is long. Of what comes from outside, ingest waits for those behind the first hundred thousand.
const CROWDS: [(u32, usize); 2] = [(2, 1_000_000), (8, 150_000)];

/// The part of one output.
pub struct Chain {
    query: Arc<str>,
    /// So many write one because of the other.
    length_max: u32,
    /// Results that it did not write for.
    pub cut: AtomicU64,
    told: AtomicBool,
}

impl Chain {
    pub fn new(query: &str, length_max: u32) -> Chain {
        Chain { query: query.into(), length_max, cut: AtomicU64::new(0), told: AtomicBool::new(false) }
    }

    /// What the output's write because of a result is caused by. The error says why it must not write.
    pub fn next(&self, graph: &Graph, result: &Sent) -> Result<Arc<Cause>, String> {
        let cause = Cause::new(self.query.clone(), result.cause.as_deref());
        let what = if cause.depth > self.length_max {
            format!("more than {} outputs have written one because of the other (standing.chain-max)", self.length_max)
        } else if let Some((_, crowd)) = CROWDS.iter().find(|(depth, crowd)| cause.depth > *depth && graph.has_waiting(*crowd)) {
            format!("outputs write one because of the other while more than {crowd} results wait")
        } else {
            return Ok(Arc::new(cause));
        };
        let names = cause.queries.join("' -> '");
        Err(format!("a loop through the graph was cut: {what}. The standing queries are '{names}'"))
    }

    /// A result was left out for this reason. The log hears of the first.
    pub fn cut(&self, output: &str, reason: &str) {
        self.cut.fetch_add(1, Ordering::Relaxed);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(query = &*self.query, output, "{reason}; what the output does with such results is left out");
        }
    }
}
