//! Answer: from changes of rows to results, one tick after another.

use std::sync::Arc;
use std::time::Instant;

use weir_model::{Text, Tick};

use super::counts::Counts;
use super::{Baseline, Outlet, Reported, ResultBatch, ResultRow, RowChange};
use crate::memory::at_most;
use crate::render::Time;
use crate::render::health::Health;
use crate::render::maintained::Maintained;
use crate::sorter::Sorter;

/// The results of one tick take no more than this, where memory is large as well.
const TICK_BYTES_MAX: usize = 2 << 30;
const PARTS_OF_MEMORY: u64 = 8;

/// From changes of rows to results.
pub struct Answer {
    health: Arc<Health>,
    columns: Arc<[Text]>,
    pub(super) distinct: bool,
    /// Cancellations of ticks before this are sent.
    pub cancellations_until: Time,
    pub(super) baseline: Baseline,
    /// Rows of ticks before this are the baseline.
    installed: Time,
    pub(super) out: Outlet,
    pub(super) counts: Counts,
    sorter: Sorter<(Time, u32)>,
}

impl Answer {
    pub(super) fn new(maintained: &Maintained, health: Arc<Health>, reported: Reported, out: Outlet) -> Answer {
        let Reported { cancellations_until, baseline, installed } = reported;
        Answer {
            health,
            columns: maintained.columns.clone(),
            distinct: maintained.distinct,
            cancellations_until,
            baseline,
            installed,
            out,
            counts: Counts::default(),
            sorter: Sorter::default(),
        }
    }

    pub fn outlet(&self) -> &Outlet {
        &self.out
    }

    /// Sends what comes of changes. There are no more of them before `frontier`.
    pub fn answer(&mut self, mut ready: Vec<RowChange>, frontier: Time) {
        if let [change] = ready.as_slice() {
            let (time, mut rows) = (change.time, Vec::with_capacity(1));
            if !self.tick(&mut ready, &mut rows) {
                return self.health.ends_at(time);
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
                self.health.ends_at(upper);
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
                self.health.fail(&format!("{count} results and more come of one change"));
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

    pub(super) fn send(&mut self, rows: Vec<ResultRow>, upper: Time, found: Option<Instant>) {
        let Some(out) = self.out.results.as_ref().filter(|_| !rows.is_empty()) else { return };
        self.out.inbox.put(rows.len(), || {
            // The receiver is gone when the query is being dropped; then nobody wants the rows.
            let _ = out.send(ResultBatch { upper: Tick(upper), columns: self.columns.clone(), rows, found });
        });
    }
}
