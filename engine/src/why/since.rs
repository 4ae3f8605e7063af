//! Since: from which tick on a row has been in the answer of a query with stages without a break.
//!
//! The answer is worked out as of the moment, then as of just before the newest change that it can depend on, and so on, until
//! the row is not there. What it can depend on is what was asked of the graph while it was worked out; where nodes were listed,
//! every node there ever was can have been among them.

use std::ops::{Range, RangeInclusive};

use rustc_hash::FxHashMap;
use weir_model::{Clock, NodeId, Tick};

use super::staged::Staged;
use super::watching::{Seen, Watching};
use crate::error::EngineError;
use crate::graph::Graph;
use crate::history::{Change, Past};
use crate::render::Row;

/// The answer is worked out at most this often for one row.
const ANSWERS_MAX: usize = 200;

/// About this many rows and nodes are looked at for one row, at most.
const LOOKS_MAX: usize = 100_000;

/// Since when a row is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// From this tick on.
    Tick(Tick),
    /// As far back as history goes, or from the beginning.
    Always,
    /// At least from this tick on; more would have had to be looked at.
    AtLeast(Tick),
}

impl Graph {
    /// Since when a row that is in the answer at a tick is in it.
    pub fn since(
        &self,
        staged: &Staged<'_>,
        seeds: &[Vec<(usize, NodeId)>],
        at: Tick,
        is_meant: &dyn Fn(&Row) -> bool,
    ) -> Result<Since, EngineError> {
        let past = match self.past(at) {
            Ok(past) => past,
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => return Ok(Since::AtLeast(at)),
            Err(error) => return Err(error),
        };
        let mut changes = Changes { past: &past, of: FxHashMap::default(), every: None, looks: 0 };
        let (mut looks, mut known) = (0, at);
        let mut answers = 0..ANSWERS_MAX;
        let mut upto = at;
        loop {
            if answers.next().is_none() || looks + changes.looks > LOOKS_MAX || staged.is_late() {
                return Ok(Since::AtLeast(known));
            }
            let Some(answer) = self.answer_at(staged, seeds, upto, is_meant)? else { return Ok(Since::AtLeast(known)) };
            looks += answer.looks;
            if !answer.is_there {
                return Ok(Since::Tick(known));
            }
            let newest = changes.newest(&answer.seen, upto);
            // Where history could not be read, nothing it says is to be believed: not that there was no change either.
            match past.take_failure() {
                Some(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => return Ok(Since::AtLeast(known)),
                Some(error) => return Err(error),
                None => {}
            }
            let Some(before) = newest else { return Ok(Since::AtLeast(known)) };
            // All that can have changed since then is the time.
            let from = before.unwrap_or(Tick::ZERO);
            if staged.is_clocked() {
                match self.turned(staged, seeds, from..=upto, is_meant, &mut answers)? {
                    Some(since) if since > from => return Ok(Since::Tick(since)),
                    Some(_) => {}
                    None => return Ok(Since::AtLeast(known)),
                }
            }
            known = from;
            if before.is_none() || from == Tick::ZERO {
                return Ok(Since::Always);
            }
            upto = Tick(from.0 - 1);
        }
    }

    /// None where there was too much to look at, or no history.
    fn answer_at(
        &self,
        staged: &Staged<'_>,
        seeds: &[Vec<(usize, NodeId)>],
        at: Tick,
        is_meant: &dyn Fn(&Row) -> bool,
    ) -> Result<Option<Answer>, EngineError> {
        let moment = match self.at(at) {
            Ok(moment) => moment,
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let watching = Watching::new(moment.view());
        let worked = self.work(staged, seeds, &watching, at);
        if let Some(error) = moment.take_failure() {
            return Err(error);
        }
        let is_there = worked.rows().iter().any(|(row, _)| is_meant(row));
        let looks = worked.levels.iter().map(|level| level.rows.len()).sum::<usize>();
        let (turn, gave_up) = (worked.turn, worked.gave_up);
        let seen = watching.into_seen();
        let looks = looks + seen.nodes().count();
        Ok((!gave_up).then_some(Answer { is_there, turn, seen, looks }))
    }

    /// Of a stretch in which nothing changes but the time: since when the row is there at its end. None where it would take too
    /// long.
    fn turned(
        &self,
        staged: &Staged<'_>,
        seeds: &[Vec<(usize, NodeId)>],
        stretch: RangeInclusive<Tick>,
        is_meant: &dyn Fn(&Row) -> bool,
        answers: &mut Range<usize>,
    ) -> Result<Option<Tick>, EngineError> {
        let (mut at, mut since) = (*stretch.start(), None);
        loop {
            if answers.next().is_none() {
                return Ok(None);
            }
            let Some(answer) = self.answer_at(staged, seeds, at, is_meant)? else { return Ok(None) };
            since = if answer.is_there { since.or(Some(at)) } else { None };
            let next = Tick::at_millis(answer.turn.max(0) as u64);
            if answer.turn == Clock::NEVER || next > *stretch.end() || next <= at {
                return Ok(since);
            }
            at = next;
        }
    }
}

struct Answer {
    is_there: bool,
    turn: i64,
    seen: Seen,
    looks: usize,
}

/// What happened to nodes.
struct Changes<'p> {
    past: &'p Past,
    of: FxHashMap<NodeId, Vec<Change>>,
    /// Every node there ever was, once that was asked.
    every: Option<Vec<NodeId>>,
    looks: usize,
}

impl Changes<'_> {
    /// The newest change at or before a tick that what was seen can depend on. None within where there is none, none at all where
    /// it is too much.
    fn newest(&mut self, seen: &Seen, upto: Tick) -> Option<Option<Tick>> {
        let mut newest = None;
        let mut look = |node: NodeId| {
            let looks = &mut self.looks;
            let changes = self.of.entry(node).or_insert_with(|| {
                let changes = self.past.changes(node);
                *looks += 1 + changes.len();
                changes
            });
            let before = changes.partition_point(|change| change.tick <= upto);
            let concerns = |change: &&Change| seen.concerns(node, &change.what);
            newest = newest.max(changes[..before].iter().rev().find(concerns).map(|change| change.tick));
            *looks < LOOKS_MAX
        };
        if seen.has_listed() {
            if self.every.is_none() {
                let mut every = Vec::new();
                self.past.every(&mut |node| {
                    every.push(node);
                    every.len() < LOOKS_MAX
                });
                self.every = Some(every);
            }
            self.every.iter().flatten().all(|node| look(*node)).then_some(())?;
        }
        seen.nodes().all(&mut look).then_some(())?;
        Some(newest)
    }
}
