//! Held: the matches that a standing query finds when it is installed, and tells when somebody asks for them (`propagate`).
//!
//!     results ─ pauses ─┬─ of the graph at rest ─> held ─ asked for, at a tick ─┐
//!                       └─ later ones, but the end of what is held ─────────────┴─> on
//!
//! What is held lies where results are handed out, by row, and only becomes less. Like the sum of a pause it is kept with the
//! tick up to which it holds: each checkpoint has it, and what is replayed from that tick on is taken off. That tick is never
//! behind where an output stands, for what comes again for that output is told by what was held then. Being asked for is a tick
//! of its own, in the log before it is answered.

use std::collections::hash_map::Entry;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use weir_model::lock::lock;
use weir_model::{Position, QueryId, Text, Tick};

use super::pause::{decode_row, encode_row, take};
use super::{StandingQuery, StandingState};
use crate::error::EngineError;
use crate::graph::Graph;
use crate::render::results::ResultRow;
use crate::render::{ResultBatch, Row};
use crate::store::Delivered;
use crate::store::reserved::HELD;

/// Asked for in a pause: it comes with the end of that, which is not known yet.
const WITH_THE_PAUSE: Tick = Tick::MAX;

/// What one query holds back.
#[derive(Default)]
pub struct Held {
    /// There may be some.
    is_active: bool,
    /// There was some: the store may know of it.
    is_recorded: bool,
    /// What another query holds will be taken over.
    is_awaited: bool,
    rows: Rows,
    /// What comes of earlier ticks makes up what is held.
    begins: Tick,
    /// What comes again from earlier ticks is known.
    known: Tick,
    /// Everything before this has come.
    upper: Tick,
    /// Before which tick it is told.
    asked: Option<Tick>,
    kept: Kept,
    /// What will be kept when every output has got as far.
    next: Option<Kept>,
    /// What is held before a tick is wanted, and is put here.
    marked: Option<(Tick, Option<Rows>)>,
}

/// As the store gets it: what was held before the tick.
#[derive(Default)]
struct Kept {
    tick: Tick,
    asked: Option<Tick>,
    /// None while the graph at rest has not been looked through.
    rows: Option<Vec<u8>>,
    /// Nothing has changed since.
    is_current: bool,
}

#[derive(Clone, Default)]
struct Rows(FxHashMap<Row, Count>);

#[derive(Clone, Copy, Default)]
struct Count {
    /// How often the row is held back.
    back: i64,
    /// How often it came since then, and was told.
    told: i64,
}

impl Rows {
    fn add(&mut self, row: Row, diff: i64) {
        match self.0.entry(row) {
            Entry::Occupied(entry) if entry.get().back + diff == 0 => drop(entry.remove()),
            Entry::Occupied(mut entry) => entry.get_mut().back += diff,
            Entry::Vacant(entry) => drop(entry.insert(Count { back: diff, told: 0 })),
        }
    }

    /// Whether a row that comes or goes is told, and whether it is one of these. One that ends before it was told ends silently.
    /// Of equal rows those that were told end first: whoever was told that one came is told that one went.
    fn hear(&mut self, row: &Row, positive: bool) -> (bool, bool) {
        let Some(count) = self.0.get_mut(row) else { return (true, false) };
        match positive {
            true => count.told += 1,
            false if count.told > 0 => count.told -= 1,
            false => {
                count.back -= 1;
                if count.back <= 0 {
                    self.0.remove(row);
                }
                return (false, true);
            }
        }
        (true, true)
    }

    fn count(&self) -> u64 {
        self.0.values().map(|count| count.back.max(0).unsigned_abs()).sum()
    }

    /// By their values, so that they are the same whenever they are told.
    fn tell(&mut self, tick: Tick, out: &mut Vec<ResultRow>) {
        let mut rows: Vec<(Row, Count)> = std::mem::take(&mut self.0).into_iter().collect();
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (row, count) in rows {
            let result = ResultRow { tick, positive: true, row };
            out.extend(std::iter::repeat_n(result, count.back.max(0) as usize));
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (row, count) in &self.0 {
            out.extend_from_slice(&count.back.to_le_bytes());
            out.extend_from_slice(&count.told.to_le_bytes());
            encode_row(row, &mut out);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Rows> {
        let mut rows = Rows::default();
        while !bytes.is_empty() {
            let (back, told) = (i64::from_le_bytes(*take(&mut bytes)?), i64::from_le_bytes(*take(&mut bytes)?));
            rows.0.insert(decode_row(&mut bytes)?, Count { back, told });
        }
        Some(rows)
    }
}

impl Held {
    /// All that is there before a tick is held back.
    pub fn begun(installed: Tick) -> Held {
        let kept = Kept { tick: installed, ..Kept::default() };
        // What an empty graph answers comes at the very first tick.
        Held { is_active: true, is_recorded: true, begins: installed.max(Tick(1)), kept, ..Held::default() }
    }

    /// As the store had it. None where that is nothing of ours.
    fn recover(tick: Tick, position: &Position) -> Option<Held> {
        let mut bytes = &*position.0;
        if bytes.is_empty() {
            return Some(Held { is_recorded: true, kept: Kept { tick, ..Kept::default() }, ..Held::default() });
        }
        let asked = Some(Tick(u64::from_le_bytes(*take(&mut bytes)?))).filter(|asked| *asked > Tick::ZERO);
        let begins = Tick(u64::from_le_bytes(*take(&mut bytes)?));
        if begins > Tick::ZERO {
            let kept = Kept { tick, asked, ..Kept::default() };
            return bytes.is_empty().then(|| Held { is_active: true, is_recorded: true, begins, asked, kept, ..Held::default() });
        }
        let rows = Rows::decode(bytes)?;
        let kept = Kept { tick, asked, rows: Some(bytes.to_vec()), is_current: true };
        Some(Held { is_active: true, is_recorded: true, rows, known: tick, upper: tick, asked, kept, ..Held::default() })
    }

    fn delivered(&self) -> (Tick, Position) {
        let mut bytes = Vec::new();
        if self.is_active {
            bytes.extend_from_slice(&self.kept.asked.unwrap_or_default().0.to_le_bytes());
            bytes.extend_from_slice(&if self.kept.rows.is_none() { self.begins.0 } else { 0 }.to_le_bytes());
            bytes.extend_from_slice(self.kept.rows.as_deref().unwrap_or_default());
        }
        (self.kept.tick, Position(bytes))
    }

    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// The store may know of it.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Cancellations matter for it.
    pub fn heeds(&self) -> bool {
        self.is_active || self.is_awaited
    }

    /// It has to be looked for among the matches of the graph at rest.
    pub fn wants_rest(&self) -> bool {
        self.is_active && self.kept.rows.is_none()
    }

    /// Whether there are, or may be, rows that nobody has asked for.
    fn can_be_asked(&self) -> bool {
        self.is_active && self.asked.is_none() && (self.upper < self.begins || !self.rows.0.is_empty())
    }

    fn ask(&mut self, until: Tick) {
        self.asked = Some(until);
        self.kept.asked = self.asked;
        self.next.iter_mut().for_each(|next| next.asked = Some(until));
    }

    /// A pause ends, and with it what has been asked for during the pause comes.
    pub fn end_pause(&mut self, until: Tick) -> bool {
        let waits = self.asked == Some(WITH_THE_PAUSE);
        if waits {
            self.ask(until);
        }
        waits
    }

    /// How many results the end of a pause would bring: of the rows that came more or less often in it, and of what was asked for
    /// in it. Counted as `hear` and `tell` would have it.
    pub fn brought<'a>(&self, net: impl Iterator<Item = (&'a Row, i64)>, cancellations: bool) -> u64 {
        let is_asked = self.asked == Some(WITH_THE_PAUSE);
        let mut count = if is_asked { self.rows.count() } else { 0 };
        for (row, diff) in net {
            if diff > 0 {
                count += diff.unsigned_abs();
                continue;
            }
            let held = self.rows.0.get(row).copied().unwrap_or_default();
            let silent = (-diff - held.told).clamp(0, held.back.max(0));
            if is_asked {
                count -= silent.unsigned_abs();
            }
            if cancellations {
                count += (-diff - silent).unsigned_abs();
            }
        }
        count
    }

    /// Takes out of a batch what is held, and puts in what is told of it.
    pub fn pass(&mut self, batch: &mut ResultBatch, cancellations: bool) {
        if !self.is_active {
            return only_wanted(batch, cancellations);
        }
        let mut out = Vec::with_capacity(batch.rows.len());
        for result in std::mem::take(&mut batch.rows) {
            self.reach(result.tick, &mut out);
            if result.tick < self.begins {
                self.rows.add(result.row, if result.positive { 1 } else { -1 });
                continue;
            }
            if result.tick < self.known {
                continue;
            }
            let (told, changes) = self.rows.hear(&result.row, result.positive);
            if changes {
                self.change();
            }
            if told && (result.positive || cancellations) {
                out.push(result);
            }
        }
        self.reach(batch.upper, &mut out);
        batch.rows = out;
        self.upper = self.upper.max(batch.upper);
    }

    fn change(&mut self) {
        self.kept.is_current = false;
        self.next.iter_mut().for_each(|next| next.is_current = false);
    }

    /// Does what is to be done before what comes at a tick.
    fn reach(&mut self, at: Tick, out: &mut Vec<ResultRow>) {
        if let Some(until) = self.asked.filter(|until| *until <= at) {
            self.rows.tell(Tick(until.0 - 1), out);
            self.asked = None;
            self.change();
        }
        if let Some((tick, rows)) = &mut self.marked
            && *tick <= at
            && rows.is_none()
        {
            *rows = Some(self.rows.clone());
        }
    }

    /// What is held before a tick is wanted: it is what is held now, where everything before that has come.
    fn mark(&mut self, tick: Tick) {
        let has_come = self.upper >= tick;
        self.marked = self.is_active.then(|| (tick, has_come.then(|| self.rows.clone())));
    }

    /// Keeps it as of a tick as late as can be, but no later than `bound`, where the outputs stand.
    pub fn advance(&mut self, bound: Tick) {
        if !self.is_active || self.upper < self.begins {
            return;
        }
        if let Some(next) = self.next.take_if(|next| next.tick <= bound) {
            self.kept = next;
        }
        if !self.kept.is_current && (self.upper <= bound || self.next.is_none()) {
            let now = Kept { tick: self.upper, asked: self.asked, rows: Some(self.rows.encode()), is_current: true };
            if self.upper <= bound {
                (self.kept, self.next) = (now, None);
            } else {
                self.next = Some(now);
            }
        }
        if self.kept.is_current {
            self.kept.tick = self.kept.tick.max(self.upper.min(bound));
        }
    }

    /// Nothing is held any more, and none of what is will be looked for again.
    pub fn is_over(&self) -> bool {
        let Kept { rows, is_current, .. } = &self.kept;
        self.is_active && *is_current && rows.as_ref().is_some_and(Vec::is_empty) && self.next.is_none() && self.asked.is_none()
    }

    pub fn end(&mut self) {
        self.is_active = false;
    }

    /// The tick up to which it is kept, while there is some.
    pub fn kept_from(&self) -> Option<Tick> {
        self.is_active.then_some(self.kept.tick)
    }

    /// It has looked through the graph and has nothing left.
    pub fn is_empty(&self) -> bool {
        self.upper >= self.begins && self.rows.0.is_empty()
    }

    /// Goes on with what another query held before a tick.
    fn take_over(&mut self, rows: Rows, at: Tick) {
        let is_active = !rows.0.is_empty();
        let kept = Kept { tick: at, asked: None, rows: Some(rows.encode()), is_current: true };
        *self = Held { is_active, is_recorded: is_active, rows, known: at, upper: at, kept, ..Held::default() };
    }
}

/// Without cancellations, where they are not.
pub fn only_wanted(batch: &mut ResultBatch, cancellations: bool) {
    if !cancellations {
        batch.rows.retain(|result| result.positive);
    }
}

impl StandingQuery {
    /// Reports the matches that were there when it was installed, and still are: at a tick of its own, which is in the log when
    /// this returns. Called again it finds nothing left to report. False when there is nothing.
    pub fn propagate(&self) -> Result<bool, EngineError> {
        let state = self.state();
        {
            // Before what is held, which others look at. A pause begins or ends only while the graph is locked.
            let mut still = self.graph().committer().hold_still();
            let is_paused = state.pauses().is_open();
            let (can_be_asked, is_asked) = {
                let held = state.held();
                (held.can_be_asked(), held.asked.is_some())
            };
            let ask = |until: Tick| {
                let mut held = state.held();
                // The last of it may have ended at this moment.
                if held.can_be_asked() {
                    held.ask(until);
                    self.note_held(&held);
                }
            };
            if can_be_asked && is_paused {
                ask(WITH_THE_PAUSE);
            } else if can_be_asked {
                still.tick(ask)?;
            } else if !is_asked {
                return Ok(false);
            }
        }
        self.log_noted()?;
        Ok(true)
    }

    /// Whether it may hold some back.
    pub fn holds(&self) -> bool {
        self.state().held().is_active
    }

    /// It will take over what another holds.
    pub fn await_held(&self) {
        self.state().held().is_awaited = true;
    }

    /// What is held before a tick is to be taken over. Nothing of that tick has been found: whoever gives it has the graph
    /// locked.
    pub(super) fn mark_held(&self, tick: Tick) {
        self.state().held().mark(tick);
    }

    /// What is held before the tick that was marked is not wanted after all.
    pub fn unmark_held(&self) {
        // What is let go of may be much. That is done when it is not locked any more.
        let _gone = self.state().held().marked.take();
    }

    /// Holds what the other did before the tick that was marked, if it was to take that over. Its own results begin at `at`.
    pub fn take_over_held(&self, other: &StandingQuery, at: Tick) {
        let rows = other.state().held().marked.take().and_then(|(_, rows)| rows).unwrap_or_default();
        let state = self.state();
        let pauses = state.pauses();
        let mut held = state.held();
        if !held.is_awaited {
            return;
        }
        held.take_over(rows, at);
        state.has_held.store(held.is_active, Ordering::SeqCst);
        match held.is_active {
            true => self.note_held(&held),
            false => self.heed_again(&pauses, &held),
        }
    }

    /// Notes what is held, for the next entry, with where the outputs stand: it is never kept of a tick behind that.
    pub(crate) fn note_held(&self, held: &Held) {
        let kept = kept(self.id(), held);
        self.graph().committer().note_looked_up(|| self.state().delivered_of(self.id()).into_iter().chain(kept));
    }

    /// Has what is held in the log when this returns.
    pub(crate) fn log_held(&self) -> Result<(), EngineError> {
        self.note_held(&self.state().held());
        self.graph().committer().log_delivered()?;
        self.graph().wait_durable(self.graph().next())
    }
}

impl StandingState {
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    /// The log is needed from here on for what is held.
    pub(crate) fn held_needs(&self) -> Option<Tick> {
        let mut held = self.held();
        // Looked up while nothing passes: an output that has just come may stand before what passed meanwhile.
        held.advance(self.delivered_by_all().unwrap_or(Tick::MAX));
        held.kept_from()
    }
}

impl Graph {
    /// What a query held when the store was opened.
    pub(crate) fn recovered_held(&self, query: QueryId) -> Held {
        let Some((tick, position)) = self.recovered(query, &Text::new(HELD)) else { return Held::default() };
        Held::recover(tick, &position).unwrap_or_else(|| {
            tracing::error!(query = %query.0, "what the query holds back cannot be read; it goes on without");
            Held::default()
        })
    }
}

/// For the log and for checkpoints: what a query holds, as it is kept.
pub(super) fn kept(query: QueryId, held: &Held) -> Option<Delivered> {
    let (tick, position) = held.is_recorded.then(|| held.delivered())?;
    Some(Delivered { query, output: Text::new(HELD), tick, position })
}

#[cfg(test)]
mod tests {
    use weir_model::Value;

    use super::*;

    fn row(value: i64) -> Row {
        Row::from_slice(&[Value::Integer(value), Value::text("a text that lies somewhere else")])
    }

    fn told(held: &mut Held, upper: u64, rows: &[(u64, bool, i64)]) -> Vec<(u64, bool, Row)> {
        let result =
            |(tick, positive, value): &(u64, bool, i64)| ResultRow { tick: Tick(*tick), positive: *positive, row: row(*value) };
        let rows = rows.iter().map(result).collect();
        let mut batch = ResultBatch { upper: Tick(upper), columns: [].into(), rows, found: None };
        held.pass(&mut batch, true);
        batch.rows.into_iter().map(|result| (result.tick.0, result.positive, result.row)).collect()
    }

    fn again(held: &Held) -> Held {
        let (tick, position) = held.delivered();
        Held::recover(tick, &position).expect("what was written is read")
    }

    const RESTS: &[(u64, bool, i64)] = &[(9, true, 1), (9, true, 1), (9, true, 2), (9, true, 3)];
    /// The rows of `RESTS`, as they come out of an earlier graph.
    const EARLIER: &[(u64, bool, i64)] = &[(3, true, 1), (5, true, 7), (8, true, 1), (8, true, 2), (9, true, 3), (9, false, 7)];
    const LATER: &[(u64, bool, i64)] =
        &[(12, true, 1), (13, false, 2), (14, false, 1), (15, false, 1), (16, true, 2), (17, false, 2)];

    #[test]
    fn what_ends_before_it_is_told_ends_silently_also_when_it_is_looked_for_again() {
        let mut held = Held::begun(Tick(10));
        assert_eq!(told(&mut held, 10, RESTS), []);
        let all = [(12, true, row(1)), (14, false, row(1)), (16, true, row(2)), (17, false, row(2))];
        // Nothing was kept yet: the graph at rest may be an earlier one then.
        for earlier in [RESTS, EARLIER] {
            let mut restarted = again(&Held::begun(Tick(10)));
            assert!(restarted.wants_rest());
            assert_eq!(told(&mut restarted, 10, earlier), []);
            assert_eq!(told(&mut restarted, 20, LATER), all);
            restarted.ask(Tick(22));
            assert_eq!(
                told(&mut restarted, 25, &[(23, false, 3)]),
                [(21, true, row(1)), (21, true, row(3)), (23, false, row(3))]
            );
        }
        assert_eq!(told(&mut held, 20, LATER), all);
        // Kept no later than the outputs are, and again from there.
        held.advance(Tick(13));
        assert_eq!(held.kept_from(), Some(Tick(10)));
        held.advance(Tick(20));
        assert_eq!(held.kept_from(), Some(Tick(20)));
        held.ask(Tick(22));
        let mut restarted = again(&held);
        assert!(!restarted.wants_rest());
        let later = [(21, false, 1), (23, false, 3)];
        assert_eq!(told(&mut restarted, 25, &[LATER, &later[..]].concat()), [(21, true, row(3)), (23, false, row(3))]);
        assert!(!restarted.is_over());
        restarted.advance(Tick(25));
        assert!(restarted.is_over() && !restarted.can_be_asked());
        restarted.end();
        assert!(!again(&restarted).is_active && again(&restarted).is_recorded, "nothing is left of it");
    }

    #[test]
    fn what_is_kept_waits_for_the_outputs() {
        let mut held = Held::begun(Tick(10));
        told(&mut held, 10, RESTS);
        held.advance(Tick(10));
        told(&mut held, 14, LATER.split_at(2).0);
        held.advance(Tick(12));
        assert_eq!(held.kept_from(), Some(Tick(10)), "at 12 it was more");
        told(&mut held, 20, LATER.split_at(2).1);
        held.advance(Tick(15));
        assert_eq!(held.kept_from(), Some(Tick(14)));
        assert_eq!(told(&mut again(&held), 20, LATER), [(14, false, row(1)), (16, true, row(2)), (17, false, row(2))]);
    }

    /// Whether everything before the tick came before it was marked, or comes after.
    #[test]
    fn what_is_held_before_a_marked_tick_is_taken_over() {
        for come in [12, 20] {
            let mut held = Held::begun(Tick(10));
            told(&mut held, 10, RESTS);
            assert_eq!(told(&mut held, come, &[]), []);
            held.mark(Tick(20));
            let cancelled: &[(u64, bool, i64)] = &[(20, false, 3)];
            assert_eq!(told(&mut held, 25, cancelled), []);
            let (_, rows) = held.marked.take().expect("it is marked");
            let mut next = Held::default();
            next.take_over(rows.expect("all before it has come"), Tick(20));
            assert_eq!(told(&mut next, 25, cancelled), [], "it was held, and ends silently");
            assert_eq!(told(&mut next, 30, &[(27, false, 3)]), [(27, false, row(3))]);
        }
    }

    #[test]
    fn what_the_end_of_a_pause_brings_is_counted_as_it_is_told() {
        let all =
            (-3..=3).flat_map(|net: i64| (0..=2).flat_map(move |back| (0..=2).map(move |told| (net, Count { back, told }))));
        for (net, count) in all {
            for (asked, cancellations) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut held = Held { is_active: true, ..Held::default() };
                held.rows.0.insert(row(2), Count { back: 1, told: 0 });
                if count.back > 0 {
                    held.rows.0.insert(row(1), count);
                }
                if asked {
                    held.ask(WITH_THE_PAUSE);
                }
                let changed = row(1);
                let brought = held.brought([(&changed, net)].into_iter().filter(|(_, diff)| *diff != 0), cancellations);
                assert_eq!(held.end_pause(Tick(30)), asked);
                let result = ResultRow { tick: Tick(29), positive: net > 0, row: changed };
                let rows = std::iter::repeat_n(result, net.unsigned_abs() as usize).collect();
                let mut batch = ResultBatch { upper: Tick(30), columns: [].into(), rows, found: None };
                held.pass(&mut batch, cancellations);
                let (back, told) = (count.back, count.told);
                assert_eq!(brought, batch.rows.len() as u64, "{net} with {back}, {told}, {asked}, {cancellations}");
            }
        }
    }

    #[test]
    fn what_is_damaged_is_nothing_of_ours() {
        assert!(Held::recover(Tick(1), &Position(vec![1])).is_none());
        assert!(Held::recover(Tick(1), &Position([[0; 16].as_slice(), &[5]].concat())).is_none());
        assert!(Held::recover(Tick(1), &Position([[1; 16].as_slice(), &[5]].concat())).is_none());
    }
}
