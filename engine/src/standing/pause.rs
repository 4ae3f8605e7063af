//! Pause: what a standing query finds while nobody is to hear of it, as a net difference.
//!
//!     results ─ before a pause ─────────────────────────────────> on
//!             ─ during it ─ summed up by row ─ its last tick ─> what came and went more often
//!
//! A pause is a stretch of ticks. The sum is as large as the difference between the answers at its ends, however long it is. With
//! the tick up to which it holds, it is kept like the frontier of an output: in the log, and in each checkpoint. So the log need
//! not be kept for the length of a pause, and after a restart the sum goes on where it stood.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weir_model::lock::lock;
use weir_model::{Position, QueryId, Text, Tick, Value, codec};

use super::held::{Held, only_wanted};
use super::{StandingQuery, StandingState};
use crate::command::Command;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::render::results::ResultRow;
use crate::render::{ResultBatch, Row};
use crate::store::reserved::PAUSED;
use crate::store::{Delivered, StoreError};

/// The sum is kept again after this long at the earliest.
const KEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Writing the sum takes at most one of this many parts of the time.
const KEEP_SHARE: u32 = 50;

/// The pauses of one query that are not over for all of its outputs.
#[derive(Default)]
pub struct Pauses {
    stretches: VecDeque<Stretch>,
    /// How many of the first ones have ended and been told of.
    told: usize,
    /// The sum of the first that has not been told of.
    net: Net,
    /// What comes again from earlier ticks is in `net`.
    known: Tick,
    /// Everything before this has come.
    upper: Tick,
    kept: Kept,
    /// There was one: the store may know of it.
    is_recorded: bool,
}

/// From the first tick on, up to but without the other.
#[derive(Clone, Copy)]
struct Stretch {
    from: Tick,
    until: Option<Tick>,
}

/// The sum as it is in the log: everything before the tick is in it.
#[derive(Default)]
struct Kept {
    tick: Tick,
    rows: Vec<u8>,
    /// Nothing has been added since.
    is_current: bool,
    next: Option<Instant>,
}

/// What is to be seen of a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paused {
    pub since: Tick,
    /// How many results its end would bring now.
    pub held_back: u64,
}

/// How often rows came more than they went.
#[derive(Default)]
struct Net(FxHashMap<Row, i64>);

impl Net {
    fn add(&mut self, row: Row, diff: i64) {
        match self.0.entry(row) {
            Entry::Occupied(entry) if *entry.get() + diff == 0 => drop(entry.remove()),
            Entry::Occupied(mut entry) => *entry.get_mut() += diff,
            Entry::Vacant(entry) => drop(entry.insert(diff)),
        }
    }

    /// What came before what went, each by its values, so that it is the same whenever it is told.
    fn tell(&mut self, tick: Tick, cancellations: bool, out: &mut Vec<ResultRow>) {
        let mut rows: Vec<(Row, i64)> = std::mem::take(&mut self.0).into_iter().collect();
        rows.sort_unstable_by(|(a, m), (b, n)| (*m < 0).cmp(&(*n < 0)).then_with(|| a.cmp(b)));
        for (row, count) in rows.into_iter().filter(|(_, count)| *count > 0 || cancellations) {
            let result = ResultRow { tick, positive: count > 0, row };
            out.extend(std::iter::repeat_n(result, count.unsigned_abs() as usize));
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (row, count) in &self.0 {
            out.extend_from_slice(&count.to_le_bytes());
            encode_row(row, &mut out);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Net> {
        let mut net = Net::default();
        while !bytes.is_empty() {
            let count = i64::from_le_bytes(*take(&mut bytes)?);
            net.0.insert(decode_row(&mut bytes)?, count);
        }
        Some(net)
    }
}

pub(crate) fn encode_row(row: &Row, out: &mut Vec<u8>) {
    out.extend_from_slice(&(row.0.len() as u32).to_le_bytes());
    row.0.iter().for_each(|value| codec::encode(value, out));
}

pub(crate) fn decode_row(bytes: &mut &[u8]) -> Option<Row> {
    let width = u32::from_le_bytes(*take(bytes)?);
    let row: Vec<Value> = (0..width).map(|_| codec::decode(bytes)).collect::<Option<_>>()?;
    Some(Row(row.into()))
}

pub(crate) fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

impl Pauses {
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// The store may know of one.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Everything before this is in the sum as the store knows it, while there is one.
    pub(crate) fn summed_to(&self) -> Option<Tick> {
        (!self.is_empty()).then_some(self.kept.tick)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stretches.back().is_some_and(|last| last.until.is_none())
    }

    /// Cancellations of earlier ticks matter for the sum.
    pub fn cancellations_until(&self) -> Tick {
        self.stretches.back().map_or(Tick::ZERO, |last| last.until.unwrap_or(Tick::MAX))
    }

    /// All that there is and comes is summed up.
    pub fn from_the_beginning() -> Pauses {
        let mut pauses = Pauses::default();
        pauses.begin(Tick::ZERO);
        pauses
    }

    /// As the log had it. None where that is no sum of ours.
    pub fn recover(tick: Tick, position: &Position) -> Option<Pauses> {
        let mut bytes = &*position.0;
        if bytes.is_empty() {
            let kept = Kept { tick, ..Kept::default() };
            return Some(Pauses { kept, is_recorded: true, ..Pauses::default() });
        }
        let count = u32::from_le_bytes(*take(&mut bytes)?);
        let mut stretches = VecDeque::new();
        for _ in 0..count {
            let from = Tick(u64::from_le_bytes(*take(&mut bytes)?));
            let until = Tick(u64::from_le_bytes(*take(&mut bytes)?));
            stretches.push_back(Stretch { from, until: Some(until).filter(|until| *until != Tick::MAX) });
        }
        let net = Net::decode(bytes)?;
        let kept = Kept { tick, rows: bytes.to_vec(), is_current: true, next: None };
        Some(Pauses { stretches, told: 0, net, known: tick, upper: tick, kept, is_recorded: true })
    }

    /// For the log: where the sum stands, and the sum.
    fn delivered(&self) -> (Tick, Position) {
        let mut bytes = (self.stretches.len() as u32).to_le_bytes().to_vec();
        for Stretch { from, until } in &self.stretches {
            bytes.extend_from_slice(&from.0.to_le_bytes());
            bytes.extend_from_slice(&until.unwrap_or(Tick::MAX).0.to_le_bytes());
        }
        bytes.extend_from_slice(&self.kept.rows);
        (self.kept.tick, Position(if self.is_empty() { Vec::new() } else { bytes }))
    }

    fn begin(&mut self, from: Tick) {
        if self.is_empty() {
            self.known = from;
            self.kept = Kept { tick: from, is_current: true, ..Kept::default() };
        }
        self.stretches.push_back(Stretch { from, until: None });
        self.is_recorded = true;
    }

    /// Takes out of a batch what is of a pause, and puts in what the ends of pauses bring. True when there was something to take.
    fn pass(&mut self, batch: &mut ResultBatch, cancellations: bool) -> bool {
        let mut taken = false;
        let mut out = Vec::new();
        for result in std::mem::take(&mut batch.rows) {
            self.end(result.tick, cancellations, &mut out);
            let is_of_pause = self.stretches.get(self.told).is_some_and(|stretch| stretch.from <= result.tick);
            if is_of_pause && result.tick >= self.known {
                self.net.add(result.row, if result.positive { 1 } else { -1 });
                taken = true;
            } else if !is_of_pause && (result.positive || cancellations) {
                out.push(result);
            }
        }
        self.end(batch.upper, cancellations, &mut out);
        batch.rows = out;
        self.upper = self.upper.max(batch.upper);
        self.kept.is_current &= !taken;
        taken
    }

    /// Tells of the pauses that end at or before a tick.
    fn end(&mut self, at: Tick, cancellations: bool, out: &mut Vec<ResultRow>) {
        while let Some(until) = self.stretches.get(self.told).and_then(|stretch| stretch.until).filter(|until| *until <= at) {
            self.net.tell(Tick(until.0 - 1), cancellations, out);
            self.kept.is_current = false;
            self.told += 1;
        }
    }

    /// Some have ended, and not for every output.
    fn has_told(&self) -> bool {
        self.told > 0
    }

    /// Forgets pauses that are over for every output. True when there were some.
    fn forget(&mut self, delivered: Option<Tick>) -> bool {
        let over = |stretch: &Stretch| stretch.until.is_some_and(|until| delivered.is_none_or(|tick| until <= tick));
        let count = self.stretches.iter().take(self.told).take_while(|stretch| over(stretch)).count();
        let ends = self.stretches.drain(..count).filter_map(|stretch| stretch.until).next_back();
        self.told -= count;
        if let Some(end) = ends {
            // Of a pause that has not been told of, the sum begins with it. That there is none is known as of the last end, and
            // so better than what was kept before that.
            let tick = self.stretches.front().map_or(end, |next| next.from);
            self.kept = Kept { tick, ..Kept::default() };
        }
        count > 0
    }

    /// Keeps the sum as it is now, where that is due or `at_once`. True when it has been written anew.
    fn keep(&mut self, at_once: bool) -> bool {
        if self.told > 0 || self.stretches.front().is_none_or(|first| first.from > self.upper) {
            return false;
        }
        if self.kept.is_current {
            self.kept.tick = self.kept.tick.max(self.upper);
            return false;
        }
        let begun = Instant::now();
        if !at_once && self.kept.next.is_some_and(|next| begun < next) {
            return false;
        }
        let rows = self.net.encode();
        let next = Some(Instant::now() + KEEP_INTERVAL.max(begun.elapsed() * KEEP_SHARE));
        self.kept = Kept { tick: self.upper, rows, is_current: true, next };
        true
    }
}

/// The first results of a query that some output had not got before a restart: all that there was before a tick, summed up again.
/// Nothing of it is kept, for the log is needed from there on as long as that is so.
pub(crate) struct First {
    until: Tick,
    net: Net,
}

impl First {
    pub fn new(until: Tick) -> First {
        First { until, net: Net::default() }
    }

    /// Takes what is of earlier ticks out of a batch, and puts in the sum where that is complete. True when it was.
    fn pass(&mut self, batch: &mut ResultBatch, cancellations: bool) -> bool {
        let of_first = |result: &ResultRow| result.tick < self.until;
        let (first, later): (Vec<_>, Vec<_>) = std::mem::take(&mut batch.rows).into_iter().partition(of_first);
        first.into_iter().for_each(|result| self.net.add(result.row, if result.positive { 1 } else { -1 }));
        let is_complete = batch.upper >= self.until;
        if is_complete {
            self.net.tell(Tick(self.until.0 - 1), cancellations, &mut batch.rows);
        }
        batch.rows.extend(later);
        is_complete
    }
}

impl StandingQuery {
    /// From now on results are summed up and not handed out. False when that is so already.
    pub fn pause(&self) -> Result<bool, EngineError> {
        let state = self.state();
        {
            // Before the pauses, which others look at. And whether there is one now changes only while the graph is locked.
            let mut still = self.graph().committer().hold_still();
            if state.pauses().is_open() {
                return Ok(false);
            }
            // A tick of its own, so that its beginning is the time of now and not of what was written last. What begins with the
            // very first tick is a sum of everything; this begins behind one.
            let from = still.tick(|_| ())?;
            let mut pauses = state.pauses();
            self.heed(Tick::MAX);
            pauses.begin(from);
            state.has_pauses.store(true, Ordering::SeqCst);
            self.note(&pauses);
        }
        self.log_noted()?;
        Ok(true)
    }

    /// The end of a pause is a tick of its own: at it comes the difference between what there is and what there was. False when
    /// there is no pause.
    pub fn resume(&self) -> Result<bool, EngineError> {
        let has_ended = self.end_pause()?;
        if has_ended {
            self.log_noted()?;
        }
        Ok(has_ended)
    }

    /// As `resume`; it may not be durable before `log_noted`.
    pub fn end_pause(&self) -> Result<bool, EngineError> {
        self.end_pause_and(|_| ())
    }

    /// As `end_pause`, of a query that takes the place of another. Gives the tick of the end: what the other holds before that
    /// is to be taken over (`take_over_held`). `begins` is called right before that tick is given, with the graph locked: of
    /// what is taken from the other by then, all is of ticks before it.
    pub fn end_pause_marking(&self, other: &StandingQuery, begins: impl FnOnce()) -> Result<Tick, EngineError> {
        self.end_pause_and(|until| {
            begins();
            other.mark_held(Tick(until.0 - 1));
        })?;
        Ok(Tick(self.summed_until().0 - 1))
    }

    /// `and` is told the tick after the end, of which nothing can have been found yet, and nothing of the end itself.
    fn end_pause_and(&self, and: impl FnOnce(Tick)) -> Result<bool, EngineError> {
        let state = self.state();
        // As in `pause`.
        let mut still = self.graph().committer().hold_still();
        if !state.pauses().is_open() {
            return Ok(false);
        }
        still.tick(|until| {
            and(until);
            let mut pauses = state.pauses();
            if let Some(open) = pauses.stretches.back_mut() {
                open.until = Some(until);
            }
            let mut held = state.held();
            if held.end_pause(until) {
                self.note_held(&held);
            }
            self.note(&pauses);
        })?;
        drop(still);
        let (pauses, held) = (state.pauses(), state.held());
        self.heed_again(&pauses, &held);
        Ok(true)
    }

    /// It sums up its results from the first on (`Start::Summed`).
    pub fn is_summed(&self) -> bool {
        let has = self.state().has_pauses.load(Ordering::SeqCst);
        let begins = |pauses: &Pauses| pauses.is_open() && pauses.stretches.back().is_some_and(|last| last.from == Tick::ZERO);
        has && begins(&self.state().pauses())
    }

    /// What was there when it was installed is in the sum.
    pub fn has_summed_rest(&self) -> bool {
        self.state().pauses().upper >= self.installed()
    }

    /// Takes rows off the sum, as often as is said with each.
    pub fn take_off(&self, others: impl IntoIterator<Item = (Row, i64)>) {
        let mut pauses = self.state().pauses();
        others.into_iter().for_each(|(row, count)| pauses.net.add(row, -count));
        pauses.kept.is_current = false;
    }

    /// The tick before which the newest pause ends.
    pub fn summed_until(&self) -> Tick {
        self.state().pauses().cancellations_until()
    }

    /// Has the sum as it is now in the log when this returns.
    pub fn keep_sum(&self) -> Result<(), EngineError> {
        {
            let mut pauses = self.state().pauses();
            pauses.keep(true);
            self.note(&pauses);
        }
        self.log_noted()
    }

    pub fn paused(&self) -> Option<Paused> {
        let pauses = self.state().pauses();
        let since = pauses.stretches.back().filter(|last| pauses.is_open() && last.from > Tick::ZERO)?.from;
        // Before it is told of, the sum is of an earlier one.
        let is_of_this = pauses.told + 1 == pauses.stretches.len();
        let net = pauses.net.0.iter().filter(|_| is_of_this).map(|(row, count)| (row, *count));
        Some(Paused { since, held_back: self.state().held().brought(net, self.cancellations()) })
    }

    /// What is of a pause stays here, and what one has held back comes with its end. Then what is held from the beginning stays.
    pub(crate) fn pass(&self, batch: &mut ResultBatch) -> Result<(), EngineError> {
        let state = self.state();
        if state.has_first.load(Ordering::SeqCst) {
            let mut first = lock(&state.first);
            if first.as_mut().is_none_or(|first| first.pass(batch, self.cancellations())) {
                *first = None;
                state.has_first.store(false, Ordering::SeqCst);
            }
        }
        let (has_pauses, has_held) = (state.has_pauses.load(Ordering::SeqCst), state.has_held.load(Ordering::SeqCst));
        if !has_pauses && !has_held {
            // Some were wanted, and are no longer.
            only_wanted(batch, self.cancellations());
            return Ok(());
        }
        let mut pauses = state.pauses();
        let mut held = state.held();
        // Whatever was there when the query was installed is of a tick before that, also where stages made it.
        let is_rest = batch.rows.first().is_some_and(|first| first.tick < self.installed().max(Tick(1)));
        let taken = has_pauses && pauses.pass(batch, self.cancellations() || held.is_active());
        held.pass(batch, self.cancellations());
        let delivered = state.delivered_by_all();
        if pauses.has_told() || held.is_empty() {
            held.advance(delivered.unwrap_or(Tick::MAX));
        }
        // What is held goes on from where it is kept with what comes of a pause, and not with what came in it.
        let forgotten = pauses.forget(delivered.into_iter().chain(held.kept_from()).min());
        // The log does not have what was there when the query was installed: without it in the sum, the next start replays all
        // that led to it.
        let is_rest = taken && is_rest;
        let at_once = pauses.keep(is_rest) && is_rest;
        state.has_pauses.store(!pauses.is_empty(), Ordering::SeqCst);
        let over = held.is_over();
        if over {
            held.end();
            state.has_held.store(false, Ordering::SeqCst);
            self.heed_again(&pauses, &held);
        }
        if forgotten || over {
            // Where the outputs stand is in the log no later than that nothing is held back for them any more.
            self.note_held(&held);
        }
        if forgotten || at_once {
            self.note(&pauses);
        }
        drop((pauses, held));
        if !at_once {
            return Ok(());
        }
        // Other results would wait where somebody has the graph locked. What is noted is logged as soon as it is not.
        match self.graph().committer().try_log_delivered() {
            // And as soon as the log has been replayed, or has room again. An error would lose the batch.
            Err(EngineError::Starting | EngineError::Store(StoreError::TooSlow { .. })) => Ok(()),
            logged => logged,
        }
    }

    /// Cancellations of ticks before this are wanted. Whoever finds out which has the pauses locked until it is said, so that
    /// what is said last counts. Where they are wanted from the next entry on, the graph is locked.
    fn heed(&self, until: Tick) {
        let until = if self.cancellations() { Tick::MAX } else { until };
        let (graph, query) = (self.graph().id(), self.id());
        let parts = self.graph().parts();
        let _order = lock(&parts.sending);
        parts.workers.send(&Command::Heed { graph, query, until });
    }

    /// Cancellations are wanted where they matter for a pause or for what is held, and others no more.
    pub(crate) fn heed_again(&self, pauses: &Pauses, held: &Held) {
        self.heed(if held.heeds() { Tick::MAX } else { pauses.cancellations_until() });
    }

    fn note(&self, pauses: &Pauses) {
        self.graph().committer().note_delivered(kept(self.id(), pauses));
    }
}

impl StandingState {
    /// For checkpoints: the sum of the pause of a query, as it is kept; or that the last pause is over, for a checkpoint may let
    /// go of the log that says so, or be made before that is in it. And what the query holds, as of the same moment: what was
    /// asked for in a pause comes with its end. Were only one of the two kept so, it would come before that after a crash, or
    /// never.
    pub(crate) fn kept(&self, query: QueryId) -> Vec<Delivered> {
        let (pauses, held) = (self.pauses(), self.held());
        let pause = pauses.is_recorded.then(|| kept(query, &pauses));
        pause.into_iter().chain(super::held::kept(query, &held)).collect()
    }

    /// The log is needed from here on for the pauses.
    pub(crate) fn pause_needs(&self) -> Option<Tick> {
        let has = self.has_pauses.load(Ordering::SeqCst);
        has.then(|| self.pauses()).and_then(|pauses| pauses.summed_to())
    }
}

impl Graph {
    /// The pauses a query had when the store was opened.
    pub(crate) fn recovered_pauses(&self, query: QueryId) -> Pauses {
        let Some((tick, position)) = self.recovered(query, &Text::new(PAUSED)) else { return Pauses::default() };
        Pauses::recover(tick, &position).unwrap_or_else(|| {
            tracing::error!(query = %query.0, "the pause of the query cannot be read; it goes on without the results of the pause");
            Pauses::default()
        })
    }
}

fn kept(query: QueryId, pauses: &Pauses) -> Delivered {
    let (tick, position) = pauses.delivered();
    Delivered { query, output: Text::new(PAUSED), tick, position }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: i64) -> Row {
        Row::from_slice(&[Value::Integer(value), Value::text("a text that lies somewhere else")])
    }

    fn batch(upper: u64, rows: &[(u64, bool, i64)]) -> ResultBatch {
        let result =
            |(tick, positive, value): &(u64, bool, i64)| ResultRow { tick: Tick(*tick), positive: *positive, row: row(*value) };
        ResultBatch { upper: Tick(upper), columns: [].into(), rows: rows.iter().map(result).collect(), found: None }
    }

    fn told(pauses: &mut Pauses, mut batch: ResultBatch) -> Vec<(u64, bool, Row)> {
        pauses.pass(&mut batch, true);
        batch.rows.into_iter().map(|result| (result.tick.0, result.positive, result.row)).collect()
    }

    fn again(pauses: &Pauses) -> Pauses {
        let (tick, position) = pauses.delivered();
        Pauses::recover(tick, &position).expect("what was written is read")
    }

    #[test]
    fn a_sum_goes_on_where_it_was_kept() {
        let mut pauses = Pauses::default();
        pauses.begin(Tick(10));
        assert_eq!(told(&mut pauses, batch(12, &[(9, true, 1), (10, true, 2), (11, true, 3)])), [(9, true, row(1))]);
        assert!(pauses.keep(true));
        assert_eq!(told(&mut pauses, batch(20, &[(15, false, 2), (16, false, 1)])), []);
        let mut again = again(&pauses);
        assert_eq!((again.kept.tick, again.net.0.len()), (Tick(12), 2));
        // The end, with what comes a second time.
        again.stretches[0].until = Some(Tick(18));
        let rows = told(&mut again, batch(20, &[(10, true, 2), (11, true, 3), (15, false, 2), (16, false, 1), (19, true, 7)]));
        assert_eq!(rows, [(17, true, row(3)), (17, false, row(1)), (19, true, row(7))]);
        assert!(!again.forget(Some(Tick(17))) && again.forget(Some(Tick(18))) && again.is_empty());
        assert!(again.delivered().1.0.is_empty(), "nothing is left of it");
    }

    #[test]
    fn two_pauses_while_an_output_is_behind() {
        let mut pauses = Pauses::default();
        pauses.begin(Tick(10));
        pauses.stretches[0].until = Some(Tick(12));
        pauses.begin(Tick(14));
        let rows = told(&mut pauses, batch(20, &[(10, true, 1), (13, true, 2), (15, true, 3)]));
        assert_eq!(rows, [(11, true, row(1)), (13, true, row(2))]);
        assert!(!pauses.keep(true), "the first is still needed");
        let mut restarted = again(&pauses);
        assert_eq!(restarted.kept.tick, Tick(10));
        assert_eq!(told(&mut restarted, batch(20, &[(10, true, 1), (13, true, 2), (15, true, 3)])), rows);
        assert!(pauses.forget(Some(Tick(12))) && pauses.keep(false));
        assert_eq!(pauses.kept.tick, Tick(20));
        assert_eq!(again(&pauses).net.0.len(), 1);
    }

    #[test]
    fn without_cancellations_what_went_is_not_told() {
        let mut pauses = Pauses::default();
        pauses.begin(Tick(10));
        pauses.stretches[0].until = Some(Tick(13));
        let mut found = batch(20, &[(8, false, 9), (10, false, 1), (11, true, 2), (11, false, 3), (12, true, 3), (15, false, 4)]);
        pauses.pass(&mut found, false);
        let rows: Vec<_> = found.rows.into_iter().map(|result| (result.tick.0, result.row)).collect();
        assert_eq!(rows, [(12, row(2))]);
    }

    #[test]
    fn what_is_damaged_is_no_sum() {
        assert!(Pauses::recover(Tick(1), &Position(vec![1])).is_none());
        assert!(Pauses::recover(Tick(1), &Position(vec![1, 0, 0, 0, 5])).is_none());
        assert!(Pauses::recover(Tick(1), &Position(vec![0, 0, 0, 0, 5])).is_none());
    }
}
