//! Results: rows of a standing query in the order of ticks, and once each where the mode asks for it.
//!
//! All changes of one query come together at one worker. They wait until the frontier says that a tick is complete, then leave in
//! batches, each with the tick up to which everything is in. Where there are no rows nothing leaves: how far a worker has
//! answered is said once for all its queries.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use weir_model::{Map, Match, NodeId, Text, Tick, Value, codec};

use super::Time;
use super::aside::{Aside, Asides, Pace};
use super::maintained::Maintained;
use super::stages::Stages;
use crate::inbox::Inbox;
use crate::memory::{at_most, is_over_limit};
use crate::sorter::Sorter;

/// The values of one row. Rows of one or two values, which is most, need no allocation of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub SmallVec<[Value; 2]>);

/// One change of the multiset of rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RowChange {
    pub row: Row,
    pub time: Time,
    pub diff: i32,
    /// The query it belongs to.
    pub query: u32,
    /// Which pattern of the query it comes from.
    pub source: u32,
}

/// Results of complete ticks.
#[derive(Debug)]
pub struct ResultBatch {
    /// Everything before this tick is in this batch or in an earlier one.
    pub upper: Tick,
    pub columns: Arc<[Text]>,
    pub rows: Vec<ResultRow>,
    /// When they were found; None of those that had been there before the query was, which are in no order yet.
    pub found: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct ResultRow {
    pub tick: Tick,
    pub positive: bool,
    pub row: Row,
}

impl ResultBatch {
    /// Gives rows that had been there before the query was an order.
    pub(crate) fn sort(&mut self) {
        if self.found.is_none() {
            self.rows.sort_unstable_by(|a, b| a.row.cmp(&b.row));
        }
    }

    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        self.rows.iter().map(|result| {
            let mut data = Map::with_capacity(self.columns.len());
            for (column, value) in self.columns.iter().zip(&result.row.0) {
                data.push_unique(column.clone(), value.clone());
            }
            Match { positive: result.positive, tick: result.tick, data: Arc::new(data) }
        })
    }
}

/// What is reported of the matches that are there when a query is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Baseline {
    /// They are results like any other.
    Report,
    /// They were reported in an earlier life of the process, or are held back since then; their end is still reported.
    Known,
}

/// What a query's results go through at its home worker.
pub struct Gather {
    way: Way,
    pace: Arc<Pace>,
    /// Rows of ticks before this are the baseline.
    installed: Time,
    /// Whether the graph at rest has been looked through.
    looked_through: bool,
    /// And what has changed meanwhile has been answered, or handed over. Before that, changes wait.
    rested: bool,
    /// The baseline, where it is reported.
    first: Baselined,
    /// Rows of the graph at rest that stages will have.
    at_rest: AtRest,
    pending: Vec<RowChange>,
    /// Changes of complete ticks, in their order, that are answered a part at a time. None of them shares a tick with the next.
    behind: VecDeque<Vec<RowChange>>,
}

/// Who answers.
enum Way {
    /// The worker at once: rows are results.
    Here(Answer),
    /// The stages above the patterns.
    Aside(Arc<Aside>),
}

/// How far what follows from the graph at rest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rested {
    Yes,
    /// There is more to do here.
    Soon,
    /// Others are at it.
    Later,
}

/// From changes of rows to results.
pub struct Answer {
    pace: Arc<Pace>,
    columns: Arc<[Text]>,
    distinct: bool,
    /// Cancellations of earlier ticks are sent.
    pub cancellations_until: Time,
    baseline: Baseline,
    /// Rows of ticks before this are the baseline.
    installed: Time,
    out: Outlet,
    counts: Counts,
    sorter: Sorter<(Time, u32)>,
}

/// Where results go, and what is seen of a query from outside.
#[derive(Clone)]
pub struct Outlet {
    /// Only the home worker has it.
    pub results: Option<Sender<ResultBatch>>,
    pub inbox: Arc<Inbox>,
    pub backfill: Arc<Backfill>,
}

/// How much of the graph at rest has been looked at for a query.
#[derive(Debug, Default)]
pub struct Backfill {
    /// About how many nodes there are, once for each pattern.
    pub nodes: AtomicU64,
    pub looked_at: AtomicU64,
    /// It is done, and what has changed since has been answered.
    pub done: AtomicBool,
}

impl Backfill {
    pub fn look_at(&self, nodes: u64) {
        self.looked_at.fetch_add(nodes, Ordering::Relaxed);
    }
}

/// How often each row is there now. Most queries in mode DistinctId have rows of a single id.
#[derive(Default)]
struct Counts {
    ids: Parted<NodeId>,
    rows: Parted<Row>,
}

/// Counts in one small map while they are few, as those of most queries are, and then in many: one large one would stop
/// everything for milliseconds whenever it grows.
struct Parted<K> {
    /// None at first, then one, then `PARTS`.
    parts: Vec<FxHashMap<K, i64>>,
}

/// So many are few.
const FEW: usize = 1024;

pub(super) const PARTS: usize = 256;

/// So many changes are answered before other work of the worker gets its turn, about.
const AT_ONCE: usize = 4096;

/// The part of a hash. The last gets about twice as many as the first, and those between in between: maps of one size would all
/// grow at once.
pub(super) fn part_of(hash: u16) -> usize {
    // log2(1 + h), nearly, of a hash between 0 and 1.
    let hash = u64::from(hash);
    ((hash * (88_244 - ((22_708 * hash) >> 16))) >> 24) as usize % PARTS
}

impl<K> Default for Parted<K> {
    fn default() -> Parted<K> {
        Parted { parts: Vec::new() }
    }
}

impl<K: Hash + Eq> Parted<K> {
    fn part(&self, key: &K) -> usize {
        if self.parts.len() < PARTS {
            return 0;
        }
        // The maps themselves use the other bits of a hash.
        part_of((FxBuildHasher.hash_one(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u16)
    }

    fn get(&self, key: &K) -> Option<i64> {
        self.parts.get(self.part(key))?.get(key).copied()
    }

    /// Adds to a count and says what it was before and is after.
    fn add(&mut self, key: K, diff: i64) -> (i64, i64) {
        match self.parts.as_slice() {
            [] => self.parts.push(FxHashMap::default()),
            [few] if few.len() > FEW => {
                let few = std::mem::take(&mut self.parts[0]);
                self.parts.resize_with(PARTS, FxHashMap::default);
                for (key, count) in few {
                    let part = self.part(&key);
                    self.parts[part].insert(key, count);
                }
            }
            _ => {}
        }
        let part = self.part(&key);
        let counts = &mut self.parts[part];
        match counts.entry(key) {
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                *entry.get_mut() += diff;
                if before + diff == 0 {
                    entry.remove();
                }
                (before, before + diff)
            }
            Entry::Vacant(entry) => {
                if diff != 0 {
                    entry.insert(diff);
                }
                (0, diff)
            }
        }
    }
}

/// Rows that come over a long time and leave together: kept in parts, for what grows is moved again and again, all of it at once.
#[derive(Default)]
struct Baselined {
    parts: VecDeque<Vec<ResultRow>>,
    count: usize,
    together: Vec<ResultRow>,
}

impl Baselined {
    const PART: usize = 1 << 13;

    fn push(&mut self, row: ResultRow) {
        self.count += 1;
        match self.parts.back_mut() {
            Some(part) if part.len() < Self::PART => part.push(row),
            _ => self.parts.push_back(vec![row]),
        }
    }

    /// Puts one more part to those that are together; all of them when nothing is left.
    fn gather(&mut self) -> Option<Vec<ResultRow>> {
        self.together.reserve_exact(self.count - self.together.len());
        self.together.append(&mut self.parts.pop_front().unwrap_or_default());
        self.parts.is_empty().then(|| std::mem::take(&mut self.together))
    }
}

/// Rows of the graph at rest, all of one tick. Where there are many, those that are the same become one.
#[derive(Default)]
struct AtRest {
    parts: Vec<Vec<RowChange>>,
    count: usize,
}

/// So many are not many.
const FEW_WAITING: usize = 1 << 16;

/// The results of one tick take no more than this, where memory is large as well.
const TICK_BYTES_MAX: usize = 2 << 30;
const PARTS_OF_MEMORY: u64 = 8;

/// Of so many results that the graph at rest has the memory is looked at.
const MANY_AT_REST: usize = 1 << 20;

impl AtRest {
    const PART: usize = 1 << 13;

    fn push(&mut self, changes: &mut Vec<RowChange>) {
        self.count += changes.len();
        if self.count <= FEW_WAITING {
            return self.parts.push(std::mem::take(changes));
        }
        match self.parts.last_mut().filter(|last| last.len() < Self::PART) {
            Some(last) => last.append(changes),
            None => self.parts.push(std::mem::take(changes)),
        }
        if let Some(last) = self.parts.last_mut().filter(|last| last.len() >= Self::PART) {
            let before = last.len();
            merge(last);
            self.count -= before - last.len();
        }
    }
}

/// One change of a row at a tick, as far as that can be counted.
fn merge(changes: &mut Vec<RowChange>) {
    changes.sort_unstable_by(|a, b| (a.time, a.source, &a.row).cmp(&(b.time, b.source, &b.row)));
    changes.dedup_by(|next, kept| {
        let same = (next.time, next.source) == (kept.time, kept.source) && next.row == kept.row;
        let sum = kept.diff.checked_add(next.diff).filter(|_| same);
        kept.diff = sum.unwrap_or(kept.diff);
        sum.is_some()
    });
    changes.retain(|change| change.diff != 0);
}

impl Counts {
    /// Looks up the counts that will be added to: they lie far apart, and the processor waits for many of them together.
    fn touch(&self, changes: &[RowChange]) {
        black_box(changes.iter().fold(0, |sum, change| match change.row.0.as_slice() {
            [Value::Id(id)] => sum ^ self.ids.get(id).unwrap_or(0),
            _ => sum ^ self.rows.get(&change.row).unwrap_or(0),
        }));
    }

    /// Adds to the count of a row and says how often it was there before and is after.
    fn add(&mut self, row: &Row, diff: i64) -> (i64, i64) {
        match row.0.as_slice() {
            [Value::Id(id)] => self.ids.add(*id, diff),
            _ => self.rows.add(row.clone(), diff),
        }
    }
}

impl Gather {
    pub fn new(
        maintained: &Maintained,
        pace: Arc<Pace>,
        stages: Option<(Stages, Arc<Asides>)>,
        (cancellations_until, baseline): (Time, Baseline),
        installed: Time,
        out: Outlet,
    ) -> Gather {
        let answer = Answer {
            pace: pace.clone(),
            columns: maintained.columns.clone(),
            distinct: maintained.distinct,
            cancellations_until,
            baseline,
            installed,
            out,
            counts: Counts::default(),
            sorter: Sorter::default(),
        };
        let way = match stages {
            Some((stages, asides)) => Way::Aside(Aside::new(stages, answer, asides)),
            None => Way::Here(answer),
        };
        Gather {
            way,
            pace,
            installed,
            looked_through: false,
            rested: false,
            first: Baselined::default(),
            at_rest: AtRest::default(),
            pending: Vec::new(),
            behind: VecDeque::new(),
        }
    }

    /// Cancellations of ticks before this one are wanted.
    pub fn heed(&mut self, until: Time) {
        match &mut self.way {
            Way::Here(answer) => answer.cancellations_until = until,
            Way::Aside(aside) => aside.heed(until),
        }
    }

    /// Takes over changes whose ticks may not be complete.
    pub fn push(&mut self, changes: &mut Vec<RowChange>) {
        if self.pending.is_empty() {
            std::mem::swap(&mut self.pending, changes);
        } else {
            if self.pending.len() > FEW_WAITING {
                merge(changes);
            }
            self.pending.append(changes);
        }
        if let Way::Aside(_) = &self.way {
            self.pace.bound(self.pending.len(), false);
        }
    }

    /// Whether the query has ended by itself. Then what waits here has no answer.
    fn is_over(&mut self) -> bool {
        if !self.pace.is_over() {
            return false;
        }
        let waiting = self.behind.iter().flatten().chain(&self.pending).chain(self.at_rest.parts.iter().flatten());
        waiting.for_each(|change| self.pace.ends_at(change.time));
        self.first.parts.iter().flatten().for_each(|result| self.pace.ends_at(result.tick.0));
        (self.pending, self.at_rest, self.first) = (Vec::new(), AtRest::default(), Baselined::default());
        self.pace.caught_up(self.behind.drain(..).map(|changes| changes.len()).sum());
        if let Way::Here(answer) = &mut self.way {
            answer.counts = Counts::default();
            answer.out.backfill.done.store(true, Ordering::SeqCst);
        }
        true
    }

    /// Whether time alone may change the answer before `frontier`.
    pub fn may_turn(&self, frontier: Time) -> bool {
        matches!(&self.way, Way::Aside(aside) if self.rested && aside.awaits(frontier))
    }

    /// Nothing waits for its tick to be complete.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub fn is_rested(&self) -> bool {
        self.rested
    }

    /// The stages, if there are some.
    pub fn aside(&self) -> Option<&Arc<Aside>> {
        if let Way::Aside(aside) = &self.way { Some(aside) } else { None }
    }

    /// Matches of the graph at rest, a part of them at a time.
    pub fn at_rest(&mut self, changes: &mut Vec<RowChange>) {
        let answer = match &mut self.way {
            Way::Aside(_) => {
                self.at_rest.push(changes);
                return self.pace.bound(self.at_rest.count, true);
            }
            Way::Here(answer) => answer,
        };
        if answer.distinct {
            answer.counts.touch(changes);
        }
        for RowChange { row, time, diff, .. } in changes.drain(..) {
            let mut diff = i64::from(diff);
            if answer.distinct {
                let (before, after) = answer.counts.add(&row, diff);
                diff = i64::from(after > 0) - i64::from(before > 0);
            }
            match answer.baseline {
                Baseline::Report => {
                    let result = ResultRow { tick: Tick(time), positive: true, row };
                    (0..diff).for_each(|_| self.first.push(result.clone()));
                }
                Baseline::Known => {}
            }
        }
        if self.first.count > MANY_AT_REST && is_over_limit() {
            let count = self.first.count;
            self.pace.fail(&format!("{count} results and more come of the graph as it is, and memory.limit is reached"));
        }
    }

    /// There are no more of them; everything before `frontier` has arrived. Unless the answer is yes this wants to be
    /// called again: others need not wait for all of it.
    pub fn rested(&mut self, frontier: Time) -> Rested {
        if self.is_over() {
            self.rested = true;
            return Rested::Yes;
        }
        if let Way::Aside(aside) = &self.way {
            let aside = aside.clone();
            if !self.rested {
                self.fall_behind(frontier);
                let at_rest = std::mem::take(&mut self.at_rest).parts;
                self.pace.caught_up(self.behind.iter().map(Vec::len).sum());
                aside.begin(at_rest, self.behind.drain(..), frontier.max(self.installed));
                self.rested = true;
            }
            return if aside.behind().is_none() { Rested::Yes } else { Rested::Later };
        }
        if !self.looked_through {
            let Some(rows) = self.first.gather() else { return Rested::Soon };
            self.looked_through = true;
            if let Way::Here(answer) = &mut self.way {
                answer.send(rows, self.installed, None);
            }
        }
        if !self.catch_up(frontier) {
            return Rested::Soon;
        }
        self.rested = true;
        if !self.pending.is_empty() {
            self.turn(frontier.max(self.installed));
        }
        if let Way::Here(Answer { out, .. }) = &self.way
            && out.results.is_some()
        {
            out.backfill.done.store(true, Ordering::SeqCst);
        }
        Rested::Yes
    }

    /// Answers a part of what has changed before `frontier`. True when nothing is left.
    fn catch_up(&mut self, frontier: Time) -> bool {
        self.fall_behind(frontier);
        let mut ready = self.behind.pop_front().unwrap_or_default();
        while ready.len() < AT_ONCE
            && let Some(mut next) = self.behind.pop_front()
        {
            ready.append(&mut next);
        }
        self.pace.caught_up(ready.len());
        if let (Some(last), Way::Here(answer)) = (ready.last().map(|change| change.time), &mut self.way) {
            answer.answer(ready, last + 1);
        }
        self.behind.is_empty()
    }

    /// Keeps changes of complete ticks for later.
    fn fall_behind(&mut self, frontier: Time) {
        self.pending.sort_by_key(|change| change.time);
        let later = self.pending.split_off(self.pending.partition_point(|change| change.time < frontier));
        let complete = std::mem::replace(&mut self.pending, later);
        if !complete.is_empty() {
            self.pace.fell_behind(complete.len());
            self.behind.push_back(complete);
        }
    }

    /// Every change before `frontier` has arrived: sends on what is complete.
    pub fn advance(&mut self, frontier: Time) {
        if self.is_over() {
            return;
        }
        if self.rested {
            self.turn(frontier);
        } else {
            self.fall_behind(frontier);
        }
    }

    fn turn(&mut self, frontier: Time) {
        let ready: Vec<RowChange> = if self.pending.iter().all(|change| change.time < frontier) {
            std::mem::take(&mut self.pending)
        } else {
            let (ready, later) = std::mem::take(&mut self.pending).into_iter().partition(|change| change.time < frontier);
            self.pending = later;
            ready
        };
        match &mut self.way {
            Way::Here(answer) => answer.answer(ready, frontier),
            Way::Aside(aside) => aside.hand_over([ready], frontier),
        }
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        self.pace.caught_up(self.behind.iter().map(Vec::len).sum());
        if let Way::Aside(aside) = &self.way {
            aside.end();
        }
    }
}

impl Answer {
    pub fn outlet(&self) -> &Outlet {
        &self.out
    }

    /// Sends what comes of changes. There are no more of them before `frontier`.
    pub fn answer(&mut self, mut ready: Vec<RowChange>, frontier: Time) {
        if let [change] = ready.as_slice() {
            let (time, mut rows) = (change.time, Vec::with_capacity(1));
            if !self.tick(&mut ready, &mut rows) {
                return self.pace.ends_at(time);
            }
            let found = (!rows.is_empty()).then(Instant::now);
            return self.send(rows, frontier, found);
        }
        if self.distinct {
            self.counts.touch(&ready);
        }
        // Rows are large: their ticks are sorted, and each row moves once.
        let mut order: Vec<(Time, u32)> = ready.iter().map(|change| change.time).zip(0..).collect();
        self.sorter.sort(&mut order, |(time, _)| *time);
        let mut rows = Vec::with_capacity(ready.len());
        let mut changes = Vec::new();
        let mut upper = frontier;
        for tick in order.chunk_by(|a, b| a.0 == b.0) {
            let is_answered = if let [(_, place)] = tick {
                self.tick(std::slice::from_mut(&mut ready[*place as usize]), &mut rows)
            } else {
                changes.clear();
                changes.extend(tick.iter().map(|(_, place)| std::mem::take(&mut ready[*place as usize])));
                self.tick(&mut changes, &mut rows)
            };
            if !is_answered {
                upper = tick[0].0;
                self.pace.ends_at(upper);
                break;
            }
        }
        let found = (!rows.is_empty()).then(Instant::now);
        self.send(rows, upper, found);
    }

    /// The net change of one tick: what came first, then what went. False, and nothing, where that is more than memory is made
    /// for, which ends the query.
    fn tick(&mut self, changes: &mut [RowChange], out: &mut Vec<ResultRow>) -> bool {
        let before = out.len();
        if changes.len() > 1 {
            changes.sort_by(|a, b| a.row.cmp(&b.row));
        }
        let mut gone = Vec::new();
        for same in changes.chunk_by_mut(|a, b| a.row == b.row) {
            let mut diff = same.iter().map(|change| i64::from(change.diff)).sum();
            let RowChange { row, time, .. } = &same[0];
            if self.distinct {
                let (before, after) = self.counts.add(row, diff);
                diff = i64::from(after > 0) - i64::from(before > 0);
            }
            // Only stages answer for the graph at rest here.
            if *time < self.installed && self.baseline == Baseline::Known {
                continue;
            }
            // A row may be there many times.
            let count = (out.len() - before + gone.len()).saturating_add(diff.unsigned_abs() as usize);
            if count.saturating_mul(size_of::<ResultRow>()) > at_most(TICK_BYTES_MAX, PARTS_OF_MEMORY) {
                self.pace.fail(&format!("{count} results and more come of one change"));
                out.truncate(before);
                return false;
            }
            if diff > 0 {
                let result = ResultRow { tick: Tick(*time), positive: true, row: std::mem::take(&mut same[0].row) };
                out.extend(std::iter::repeat_n(result, diff as usize));
                continue;
            }
            if *time < self.cancellations_until {
                let result = ResultRow { tick: Tick(*time), positive: false, row: std::mem::take(&mut same[0].row) };
                gone.extend(std::iter::repeat_n(result, diff.unsigned_abs() as usize));
            }
        }
        out.append(&mut gone);
        true
    }

    fn send(&mut self, rows: Vec<ResultRow>, upper: Time, found: Option<Instant>) {
        let Some(out) = self.out.results.as_ref().filter(|_| !rows.is_empty()) else { return };
        self.out.inbox.put(rows.len(), || {
            // The receiver is gone when the query is being dropped; then nobody wants the rows.
            let _ = out.send(ResultBatch { upper: Tick(upper), columns: self.columns.clone(), rows, found });
        });
    }
}

impl Row {
    pub fn from_slice(values: &[Value]) -> Row {
        Row(values.iter().cloned().collect())
    }
}

/// As the bytes of `codec`, so that rows can travel between processes.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        self.0.iter().for_each(|value| codec::encode(value, &mut bytes));
        bytes.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        let mut rest = bytes.as_slice();
        let mut row = SmallVec::new();
        while !rest.is_empty() {
            row.push(codec::decode(&mut rest).ok_or_else(|| D::Error::custom("damaged row"))?);
        }
        Ok(Row(row))
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Receiver, bounded};
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::IdScheme;

    use super::*;
    use crate::symbols::Symbols;

    fn gather() -> (Gather, Receiver<ResultBatch>) {
        let text = "MATCH (n:A) RETURN DISTINCT id(n) AS id";
        let plan = compile_standing(text, StandingMode::DistinctId, &Options::default()).expect("it compiles").plan;
        let maintained = Maintained::new(&plan, &Symbols::default(), IdScheme::default()).expect("it can be maintained");
        let (sender, results) = bounded(1000);
        let out = Outlet { results: Some(sender), inbox: Arc::default(), backfill: Arc::default() };
        let pace = Arc::new(Pace::of_nobody(IdScheme::default()));
        (Gather::new(&maintained, pace, None, (Time::MAX, Baseline::Report), 2, out), results)
    }

    /// Ids that come and go, some at each tick.
    fn changes(count: u64) -> impl DoubleEndedIterator<Item = RowChange> {
        (0..count).map(|n| {
            let row = Row::from_slice(&[Value::Id(NodeId::new(0, n % 701))]);
            RowChange { row, time: 2 + n / 7, diff: if n / 701 % 2 == 0 { 1 } else { -1 }, query: 0, source: 0 }
        })
    }

    fn told(batches: &[ResultBatch]) -> Vec<(Tick, bool, &Row)> {
        batches.iter().flat_map(|batch| &batch.rows).map(|row| (row.tick, row.positive, &row.row)).collect()
    }

    #[test]
    fn parts_are_of_different_sizes() {
        let mut sizes = [0; PARTS];
        (0..=u16::MAX).for_each(|hash| sizes[part_of(hash)] += 1);
        assert!(sizes.iter().all(|size| *size > 0));
        let (least, most) = (*sizes.iter().min().unwrap() as f64, *sizes.iter().max().unwrap() as f64);
        assert!((1.8..2.4).contains(&(most / least)), "{least} and {most}");
        assert!((0..u16::MAX).all(|hash| part_of(hash) <= part_of(hash + 1)));
    }

    #[test]
    fn of_many_rows_that_wait_those_that_are_the_same_are_one() {
        let row = |n| Row::from_slice(&[Value::Id(NodeId::new(1, n))]);
        let change = |n: u64| RowChange { row: row(n % 7), time: 1, diff: 1, query: 0, source: (n % 2) as u32 };
        let mut waiting = AtRest::default();
        const COUNT: u64 = 3_000_000;
        (0..COUNT / 1000).for_each(|n| waiting.push(&mut (n * 1000..(n + 1) * 1000).map(change).collect()));
        assert_eq!(waiting.count, waiting.parts.iter().map(Vec::len).sum::<usize>());
        assert!(waiting.count < FEW_WAITING + AtRest::PART + 1000, "{}", waiting.count);
        let mut all: Vec<RowChange> = waiting.parts.into_iter().flatten().collect();
        merge(&mut all);
        assert_eq!(all.len(), 14);
        assert_eq!(all.iter().map(|change| u64::from(change.diff.unsigned_abs())).sum::<u64>(), COUNT);
        let gone = RowChange { diff: -all[0].diff, ..all[0].clone() };
        let most = RowChange { diff: i32::MAX, ..all[1].clone() };
        all.extend([gone, most.clone(), most]);
        merge(&mut all);
        assert_eq!(all.len(), 15, "one has gone, and of another there are more than one change can count");
    }

    #[test]
    fn many_matches_of_the_graph_at_rest_leave_together_and_others_have_their_turn_before() {
        const COUNT: u64 = 3 * Baselined::PART as u64 + 17;
        let (mut gather, results) = gather();
        let row = |n| Row::from_slice(&[Value::Id(NodeId::new(1, n))]);
        let change = |n| RowChange { row: row(n), time: 1, diff: 1, query: 0, source: 0 };
        (0..COUNT).for_each(|n| gather.at_rest(&mut vec![change(n)]));
        let mut calls = 1;
        while gather.rested(2) != Rested::Yes {
            assert!(results.is_empty());
            calls += 1;
        }
        assert_eq!(calls, 4);
        let batches: Vec<ResultBatch> = results.try_iter().collect();
        assert_eq!(batches.len(), 1);
        let rows: Vec<Row> = (0..COUNT).map(row).collect();
        assert!(told(&batches).into_iter().eq(rows.iter().map(|row| (Tick(1), true, row))));
    }

    #[test]
    fn much_that_changed_meanwhile_is_answered_in_parts_and_just_the_same() {
        const COUNT: u64 = 30_000;
        let end = 2 + COUNT / 7 + 1;
        let (mut keeping_up, results) = gather();
        assert_eq!(keeping_up.rested(2), Rested::Yes);
        keeping_up.push(&mut changes(COUNT).collect());
        keeping_up.advance(end);
        let expected: Vec<ResultBatch> = results.try_iter().collect();
        assert_eq!(told(&expected).len(), COUNT as usize);

        for backwards in [false, true] {
            let (mut late, results) = gather();
            let all: Vec<RowChange> = changes(COUNT).collect();
            let (before, after) = all.split_at(COUNT as usize * 9 / 10);
            let mut complete = 2;
            for part in before.chunks(500) {
                let mut part = part.to_vec();
                // What has arrived before it is complete, and the tick it begins with may not be.
                complete = part[0].time;
                if backwards {
                    part.reverse();
                }
                late.push(&mut part);
                late.advance(complete);
            }
            let waits = |late: &Gather| late.behind.iter().map(Vec::len).sum::<usize>();
            assert!(waits(&late) > COUNT as usize * 4 / 5);
            let mut calls = 1;
            while late.rested(complete) != Rested::Yes {
                assert_eq!(late.pace.waiting(), waits(&late), "others see how much waits");
                calls += 1;
                if calls == 3 {
                    late.push(&mut after.to_vec());
                }
                assert!(!late.is_rested() && calls < 100);
            }
            assert!(calls > 4, "{calls}");
            assert_eq!(late.pace.waiting(), 0);
            late.advance(end);
            let batches: Vec<ResultBatch> = results.try_iter().collect();
            assert!(
                batches.is_sorted_by(|one, next| one.upper < next.upper && next.rows.iter().all(|row| row.tick >= one.upper))
            );
            assert!(batches.iter().all(|batch| batch.rows.iter().all(|row| row.tick < batch.upper)));
            assert!(told(&batches) == told(&expected));
        }
    }

    #[test]
    fn what_waits_for_a_query_that_ends_or_goes_waits_no_more() {
        for ends in [true, false] {
            let (mut gather, _results) = gather();
            let pace = gather.pace.clone();
            gather.push(&mut changes(70).collect());
            gather.advance(5);
            assert_eq!(pace.waiting(), 21);
            if ends {
                pace.fail("it costs too much");
                assert_eq!(gather.rested(5), Rested::Yes);
            } else {
                drop(gather);
            }
            assert_eq!(pace.waiting(), 0);
        }
    }
}
