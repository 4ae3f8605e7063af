//! What comes of a run: how much was compared, and what differs.

use super::graph::History;
use super::setting::Setting;
use super::text::Query;

/// What a run has seen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub queries: usize,
    /// Refused by the compiler, by both roads alike.
    pub refused: usize,
    /// Failed in every way of answering.
    pub failed: usize,
    /// Without the answer of the reference, which had too much to try.
    pub without_reference: usize,
    /// Also maintained in one of the restricted modes.
    pub maintained: usize,
    /// Maintained in mode AnyQuery.
    pub any_query: usize,
    /// Of all that is maintained: without the answers of the reference, which had too much to try. The evaluator's stood in.
    pub maintained_evaluated: usize,
    /// Of all that is maintained: left out, since neither had an answer in time.
    pub maintained_not: usize,
    /// Of those in mode AnyQuery: they look at the clock.
    pub clocked: usize,
    /// How often time alone changed the answer of one of them.
    pub turned: usize,
    /// Pauses whose end brought results.
    pub paused: usize,
    pub comparisons: usize,
    /// Answers that were not empty.
    pub filled: usize,
}

/// Two answers that are not alike.
#[derive(Clone, Debug)]
pub struct Difference {
    pub query: Query,
    pub what: String,
    pub history: History,
    pub setting: Setting,
    pub sort: Sort,
}

/// Which answers differ; a smaller difference must be of the same sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Those that do not wait for changes.
    Asked,
    /// What is maintained.
    Maintained,
    /// What is maintained, where the reference fails.
    Fails,
    /// What can be asked and is not maintained. So a text that looks at the clock is not made small to one that may not.
    Refused,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.queries += other.queries;
        self.refused += other.refused;
        self.failed += other.failed;
        self.without_reference += other.without_reference;
        self.maintained += other.maintained;
        self.any_query += other.any_query;
        self.maintained_evaluated += other.maintained_evaluated;
        self.maintained_not += other.maintained_not;
        self.clocked += other.clocked;
        self.turned += other.turned;
        self.paused += other.paused;
        self.comparisons += other.comparisons;
        self.filled += other.filled;
    }
}
