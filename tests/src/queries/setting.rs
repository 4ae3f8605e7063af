//! How a world is lived: by how many workers, in batches of which size, with which ends and new beginnings of the engine, when
//! its standing queries come, pause and are replaced, and when checkpoints are made. None of it may show in any answer, but in
//! that of what was replaced. With a clock of its own, also how time goes by: that shows only where a query looks at it.

use super::graph::{History, Record};
use super::text::Relative;
use crate::random::Random;

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub workers: usize,
    /// Records the engine gets at once.
    pub batch_size: usize,
    /// After this many batches the engine ends, and another goes on with what is stored.
    pub batches_per_life: Option<usize>,
    /// When the first query is installed, the second, and round again.
    pub begins: Vec<Begin>,
    /// When the first query pauses, the second, and round again; without any, nothing is paused.
    pub pauses: Vec<Option<Pause>>,
    /// When the first query is replaced, the second, and round again; without any, nothing is replaced.
    pub replacements: Vec<Option<Replacement>>,
    /// Whether a checkpoint is made after the first batch, the second, and round again. Of a world that lives once, nothing is
    /// ever read from one.
    pub checkpoints: Vec<bool>,
    /// How time goes by around the first batch, the second, and round again. Without it time is the machine's, and no query may
    /// look at it.
    pub clock: Option<Vec<Passing>>,
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
    /// Nothing, until it is asked for everything this many batches later.
    Later(usize),
}

/// When a query holds back its results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// Batches since it was installed.
    pub after: usize,
    /// At the last one of the world it is over in any case.
    pub batches: usize,
}

/// When another query takes the place of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replacement {
    /// Batches since it was installed, before the other is installed beside it; at least one.
    pub after: usize,
    /// Batches in which both are there. In a pause the old one stays until that is over, and where the engine ends, the other is
    /// installed anew. At the last batch of the world it takes over in any case.
    pub batches: usize,
    pub by: Relative,
}

/// Milliseconds in which nothing else happens.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Passing {
    pub before: u64,
    /// Something is committed before the batch, too: nothing. Otherwise its first record has the first tick of the millisecond.
    pub rests: bool,
    /// After the batch; where the engine ends there, after the next has begun.
    pub after: u64,
}

const BEGINS: usize = 7;
/// Not as many as `BEGINS`: so each beginning meets each pause.
const PAUSES: usize = 5;
const PASSINGS: usize = 11;
const REPLACEMENTS: usize = 11;
const CHECKPOINTS: usize = 5;
/// A world with a clock lives for about this many milliseconds.
const MILLIS: u64 = 40;

impl Setting {
    pub fn random(random: &mut Random, batch_size: usize) -> Setting {
        let workers = [1, 2, 2, 4][random.below(4) as usize];
        let batches_per_life = random.once_in(3).then(|| 1 + random.below(4) as usize);
        let begin = |at: usize, random: &mut Random| {
            // Half of the queries see the whole history.
            let after = if at.is_multiple_of(2) { 0 } else { random.below(6) as usize };
            let later = at % 3 == 1;
            let baseline = if later { Baseline::Later(random.below(3) as usize) } else { Baseline::All };
            // Before the first record the nodes are not there whose ids are given: to seek one finds it all the same, to scan
            // does not.
            Begin { after: if later { after.max(1) } else { after }, baseline }
        };
        let begins = (0..BEGINS).map(|at| begin(at, random)).collect();
        Setting {
            workers,
            batch_size,
            batches_per_life,
            begins,
            pauses: Vec::new(),
            replacements: Vec::new(),
            checkpoints: Vec::new(),
            clock: None,
        }
    }

    /// Half of the queries pause, once each.
    pub fn add_pauses(&mut self, random: &mut Random) {
        let pause = |random: &mut Random| Pause { after: random.below(4) as usize, batches: 1 + random.below(4) as usize };
        self.pauses = (0..PAUSES).map(|_| random.once_in(2).then(|| pause(random))).collect();
    }

    /// A clock for a world of `batches` batches.
    pub fn add_clock(&mut self, random: &mut Random, batches: usize) {
        let most = (MILLIS / batches as u64).max(1);
        let passing = |random: &mut Random| Passing {
            before: random.below(most + 1),
            rests: random.once_in(2),
            after: random.below(most + 1),
        };
        self.clock = Some((0..PASSINGS).map(|_| passing(random)).collect());
    }

    /// A fifth of the queries are replaced, once each.
    pub fn add_replacements(&mut self, random: &mut Random) {
        let replacement = |random: &mut Random| Replacement {
            after: 1 + random.below(4) as usize,
            batches: random.below(3) as usize,
            by: [Relative::Labels, Relative::Labels, Relative::Properties, Relative::Columns][random.below(4) as usize],
        };
        self.replacements = (0..REPLACEMENTS).map(|_| random.once_in(5).then(|| replacement(random))).collect();
    }

    /// After about half of the batches, where the engine ends now and then.
    pub fn add_checkpoints(&mut self, random: &mut Random) {
        if self.batches_per_life.is_some() {
            self.checkpoints = (0..CHECKPOINTS).map(|_| random.once_in(2)).collect();
        }
    }

    pub fn pause(&self, query: usize) -> Option<Pause> {
        self.pauses.get(query % self.pauses.len().max(1)).copied().flatten()
    }

    pub fn replacement(&self, query: usize) -> Option<Replacement> {
        self.replacements.get(query % self.replacements.len().max(1)).copied().flatten()
    }

    pub fn makes_checkpoint(&self, batch: usize) -> bool {
        self.checkpoints.get(batch % self.checkpoints.len().max(1)).copied().unwrap_or_default()
    }

    pub fn passing(&self, batch: usize) -> Passing {
        let clock = self.clock.as_deref().unwrap_or_default();
        let passing = clock.get(batch % clock.len().max(1)).copied().unwrap_or_default();
        // Nor is there a tick before the first record, at which a node that is sought would be found and not scanned.
        if batch == 0 { Passing { before: 0, rests: false, ..passing } } else { passing }
    }

    pub fn begin(&self, query: usize) -> Begin {
        self.begins[query % self.begins.len()]
    }

    pub fn batches<'h>(&self, history: &'h History) -> impl ExactSizeIterator<Item = &'h [Record]> + use<'h> {
        history.records.chunks(self.batch_size)
    }
}
