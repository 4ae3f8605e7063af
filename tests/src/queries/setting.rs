//! How a world is lived: by how many workers, in batches of which size, with which ends and new beginnings of the engine, and
//! when its standing queries come. None of it may show in any answer.

use super::graph::{History, Record};
use crate::random::Random;

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub workers: usize,
    /// Records the engine gets at once.
    pub batch_size: usize,
    /// After so many batches the engine ends, and another goes on with what is stored.
    pub batches_per_life: Option<usize>,
    /// Of the first query, the second, and round again.
    pub begins: Vec<Begin>,
}

/// When a query is installed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begin {
    /// Batches before it.
    pub after: usize,
    pub baseline: Baseline,
}

/// What it reports of the graph it finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Baseline {
    All,
    /// Nothing, until it is asked for everything so many batches later.
    Later(usize),
}

const BEGINS: usize = 7;

impl Setting {
    pub fn random(random: &mut Random, batch_size: usize) -> Setting {
        let workers = [1, 2, 2, 4][random.below(4) as usize];
        let batches_per_life = random.once_in(3).then(|| 1 + random.below(4) as usize);
        let begin = |at: usize, random: &mut Random| {
            // Half of the queries see the whole history.
            let after = if at.is_multiple_of(2) { 0 } else { random.below(6) as usize };
            let later = at % 3 == 1;
            let baseline = if later { Baseline::Later(random.below(3) as usize) } else { Baseline::All };
            // Before the first record the nodes are not there whose ids are given: to seek one finds it all the same, to scan does not.
            Begin { after: if later { after.max(1) } else { after }, baseline }
        };
        let begins = (0..BEGINS).map(|at| begin(at, random)).collect();
        Setting { workers, batch_size, batches_per_life, begins }
    }

    pub fn begin(&self, query: usize) -> Begin {
        self.begins[query % self.begins.len()]
    }

    pub fn batches<'h>(&self, history: &'h History) -> impl ExactSizeIterator<Item = &'h [Record]> + use<'h> {
        history.records.chunks(self.batch_size)
    }
}
