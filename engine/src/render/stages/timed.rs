//! Timed: rows of which time alone makes something else, worked out again when it does.
//!
//! Of every distinct row that waits for a condition to turn it is kept how often it is there, what came of it, and when that
//! turns. A row that waits for nothing gives the same whenever it is asked, and is not kept.

use std::cell::Cell;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use weir_model::Clock;

use super::{Changes, Row, consolidate};

#[derive(Default)]
pub struct Timed {
    waiting: FxHashMap<Row, Waiting>,
    turns: BTreeSet<(i64, Row)>,
}

struct Waiting {
    count: i64,
    found: Vec<Row>,
    turn: i64,
}

impl Timed {
    /// When the first of the rows turns.
    pub fn next_turn(&self) -> i64 {
        self.turns.first().map_or(Clock::NEVER, |(turn, _)| *turn)
    }

    /// `look` makes rows out of a row at a time.
    pub fn step(&mut self, mut changes: Changes, now: i64, mut look: impl FnMut(&Row, Clock) -> Vec<Row>) -> Changes {
        let mut look = |row: &Row| {
            let turn = Cell::new(Clock::NEVER);
            (look(row, Clock::watched(now, &turn)), turn.get())
        };
        let mut out = Vec::new();
        while self.next_turn() <= now {
            let Some((_, row)) = self.turns.pop_first() else { break };
            let Some(Waiting { count, found, .. }) = self.waiting.remove(&row) else { continue };
            out.extend(found.into_iter().map(|found| (found, -count)));
            let (found, turn) = look(&row);
            out.extend(found.iter().map(|found| (found.clone(), count)));
            self.wait(row, Waiting { count, found, turn });
        }
        consolidate(&mut changes);
        for (row, diff) in changes {
            if let Some(waiting) = self.waiting.get_mut(&row) {
                out.extend(waiting.found.iter().map(|found| (found.clone(), diff)));
                waiting.count += diff;
                if waiting.count == 0 {
                    let turn = waiting.turn;
                    self.waiting.remove(&row);
                    self.turns.remove(&(turn, row));
                }
                continue;
            }
            let (found, turn) = look(&row);
            out.extend(found.iter().map(|found| (found.clone(), diff)));
            self.wait(row, Waiting { count: diff, found, turn });
        }
        consolidate(&mut out);
        out
    }

    fn wait(&mut self, row: Row, waiting: Waiting) {
        if waiting.turn < Clock::NEVER {
            self.turns.insert((waiting.turn, row.clone()));
            self.waiting.insert(row, waiting);
        }
    }
}
