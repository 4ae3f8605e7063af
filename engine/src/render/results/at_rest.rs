//! At rest: keeps what is found in the graph at rest until all of the graph has been looked through.

use std::collections::VecDeque;

use super::{ResultRow, RowChange};

/// Rows that come over a long time and leave together: kept in parts, for what grows is moved again and again, all of it at once.
#[derive(Default)]
pub(super) struct Baselined {
    pub(super) parts: VecDeque<Vec<ResultRow>>,
    pub(super) count: usize,
    together: Vec<ResultRow>,
}

impl Baselined {
    pub(super) const PART: usize = 1 << 13;

    pub(super) fn push(&mut self, row: ResultRow) {
        self.count += 1;
        match self.parts.back_mut() {
            Some(part) if part.len() < Self::PART => part.push(row),
            _ => self.parts.push_back(vec![row]),
        }
    }

    /// Puts one more part to those that are together; gives all of them when no part is left.
    pub(super) fn gather(&mut self) -> Option<Vec<ResultRow>> {
        self.together.reserve_exact(self.count - self.together.len());
        self.together.append(&mut self.parts.pop_front().unwrap_or_default());
        self.parts.is_empty().then(|| std::mem::take(&mut self.together))
    }
}

/// Rows of the graph at rest, all of one tick. Where there are many, those that are the same become one.
#[derive(Default)]
pub(super) struct AtRest {
    pub(super) parts: Vec<Vec<RowChange>>,
    pub(super) count: usize,
}

/// With more rows than this that wait, those that are the same become one.
pub(super) const FEW_WAITING: usize = 1 << 16;

impl AtRest {
    const PART: usize = 1 << 13;

    pub(super) fn push(&mut self, changes: &mut Vec<RowChange>) {
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
pub(super) fn merge(changes: &mut Vec<RowChange>) {
    changes.sort_unstable_by(|a, b| (a.time, a.source, &a.row).cmp(&(b.time, b.source, &b.row)));
    changes.dedup_by(|next, kept| {
        let same = (next.time, next.source) == (kept.time, kept.source) && next.row == kept.row;
        let sum = kept.diff.checked_add(next.diff).filter(|_| same);
        kept.diff = sum.unwrap_or(kept.diff);
        sum.is_some()
    });
    changes.retain(|change| change.diff != 0);
}

#[cfg(test)]
mod tests {
    use weir_model::{NodeId, Value};

    use super::*;
    use crate::render::QueryNumber;
    use crate::render::results::Row;

    #[test]
    fn of_many_rows_that_wait_those_that_are_the_same_are_one() {
        let row = |n| Row::from_slice(&[Value::Id(NodeId::new(1, n))]);
        let change = |n: u64| RowChange { row: row(n % 7), time: 1, diff: 1, query: QueryNumber(0), source: (n % 2) as u32 };
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
}
