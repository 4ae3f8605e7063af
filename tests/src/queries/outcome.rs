//! What comes of a run: how much was compared, and what differs.

use super::forms::FORMS;
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
    /// Others have taken their place.
    pub replaced: usize,
    /// Of those: the difference of the two answers brought results.
    pub replaced_brought: usize,
    /// Of all that was replaced, or was to be: the engine ended while the other caught up.
    pub replaced_again: usize,
    /// Checkpoints that took something of the log.
    pub checkpoints: usize,
    /// New engines that had nothing but the log.
    pub from_log: usize,
    /// New engines that had a checkpoint, and what was logged since.
    pub from_checkpoint: usize,
    pub comparisons: usize,
    /// Answers that were not empty.
    pub filled: usize,
    /// Of those: the answers about what is hard to compare.
    pub filled_mixed: usize,
    /// Of the queries of each form; of those of which rows fail, where others did not.
    pub filled_forms: [usize; FORMS.len()],
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
        self.replaced += other.replaced;
        self.replaced_brought += other.replaced_brought;
        self.replaced_again += other.replaced_again;
        self.checkpoints += other.checkpoints;
        self.from_log += other.from_log;
        self.from_checkpoint += other.from_checkpoint;
        self.comparisons += other.comparisons;
        self.filled += other.filled;
        self.filled_mixed += other.filled_mixed;
        self.filled_forms.iter_mut().zip(other.filled_forms).for_each(|(sum, more)| *sum += more);
    }
}
