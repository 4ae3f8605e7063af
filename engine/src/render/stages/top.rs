//! ORDER BY … SKIP … LIMIT: all rows in order, and the window of them that is shown. What a change costs does not depend on how
//! large that is.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::plan::SortKey;
use weir_model::{Expr, Value};

use super::derive::What;
use super::{Changes, Layout, Row, Stage, Turn, consolidate};

/// A row at its place: by its keys, then by its values.
#[derive(Clone, Debug)]
pub struct Placed {
    pub keys: Vec<Value>,
    pub row: Row,
    pub descending: Arc<[bool]>,
}

impl Ord for Placed {
    fn cmp(&self, other: &Placed) -> Ordering {
        for ((a, b), descending) in self.keys.iter().zip(&other.keys).zip(self.descending.iter()) {
            let order = a.order(b);
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        self.row.cmp(&other.row)
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Placed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Placed) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Placed {}

pub struct Top {
    pub input: Box<Stage>,
    layout: Layout,
    keys: Vec<Expr>,
    descending: Arc<[bool]>,
    pub(super) out: Layout,
    window: Window,
}

impl Top {
    pub fn new(input: Box<Stage>, layout: Layout, order: &[SortKey], skip: usize, limit: Option<usize>, out: Layout) -> Top {
        let most = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        Top {
            input,
            layout,
            keys: order.iter().map(|key| key.expr.clone()).collect(),
            descending: order.iter().map(|key| key.descending).collect(),
            out,
            window: Window::new(most(skip), limit.map_or(i64::MAX, most)),
        }
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let mut changes = self.input.step(turn);
        consolidate(&mut changes);
        for (row, diff) in changes {
            let placed = self.placed(&row, turn);
            turn.context.end(&row, diff);
            if let Some(placed) = placed {
                self.window.add(placed, diff);
            }
        }
        self.window.settle()
    }

    /// A row at its place. None where what it is ordered by has no value.
    fn placed(&self, row: &Row, turn: &mut Turn) -> Option<Placed> {
        self.layout.spread(row, &mut turn.row);
        turn.context.begin();
        let keys = self.keys.iter().map(|key| turn.context.evaluate(key, &turn.row));
        Some(Placed { keys: keys.collect::<Option<_>>()?, row: self.out.collect(&turn.row), descending: self.descending.clone() })
    }

    /// What is shown, each with the number of its row; and the numbers of all, in order.
    pub fn derive<'r>(&self, rows: impl Iterator<Item = &'r Row>, turn: &mut Turn) -> (Vec<(Row, u32)>, Vec<u32>) {
        let mut all: Vec<(Placed, u32)> =
            rows.zip(0..).filter_map(|(row, number)| Some((self.placed(row, turn)?, number))).collect();
        all.sort();
        let order = all.iter().map(|(_, number)| *number).collect();
        let count = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
        let shown = all.into_iter().skip(count(self.window.skip)).take(count(self.window.limit));
        (shown.map(|(placed, number)| (placed.row, number)).collect(), order)
    }

    pub fn made(&self) -> What<'_> {
        let Window { skip, limit, .. } = &self.window;
        let limit = Some(*limit).filter(|limit| *limit < i64::MAX).map(|limit| limit as usize);
        What::Window { keys: &self.keys, descending: &self.descending, skip: *skip as usize, limit }
    }
}

/// Rows in order, in three parts: what is skipped, what is shown, and what comes after. Equal rows may lie in several. So a
/// change costs a look-up, and as many rows as move from one part to another.
struct Window {
    before: Part,
    shown: Part,
    after: Part,
    skip: i64,
    limit: i64,
    /// What has come into the part that is shown, and gone, since it was last told.
    changes: Changes,
}

#[derive(Default)]
struct Part {
    rows: BTreeMap<Placed, i64>,
    count: i64,
}

impl Part {
    /// Whether the row belongs no further back than this part reaches.
    fn reaches(&self, placed: &Placed) -> bool {
        self.rows.last_key_value().is_some_and(|(last, _)| placed <= last)
    }

    fn put(&mut self, placed: Placed, count: i64) {
        self.count += count;
        add(&mut self.rows, placed, count);
    }

    /// Takes away a row as often as it is there, up to `most` times; answers how often.
    fn take(&mut self, placed: &Placed, most: i64) -> i64 {
        let Some(there) = self.rows.get_mut(placed) else { return 0 };
        let taken = most.min(*there);
        *there -= taken;
        if *there == 0 {
            self.rows.remove(placed);
        }
        self.count -= taken;
        taken
    }

    /// Takes away the first row, or the last, as often as it is there, up to `most` times; answers which, and how often.
    fn take_end(&mut self, first: bool, most: i64) -> Option<(Placed, i64)> {
        let mut end = if first { self.rows.first_entry()? } else { self.rows.last_entry()? };
        if *end.get() > most {
            *end.get_mut() -= most;
            self.count -= most;
            return Some((end.key().clone(), most));
        }
        let (placed, count) = end.remove_entry();
        self.count -= count;
        Some((placed, count))
    }
}

impl Window {
    fn new(skip: i64, limit: i64) -> Window {
        let [before, shown, after] = Default::default();
        Window { before, shown, after, skip, limit, changes: Vec::new() }
    }

    fn add(&mut self, placed: Placed, diff: i64) {
        if diff > 0 {
            if self.before.reaches(&placed) {
                self.before.put(placed, diff);
            } else if self.shown.reaches(&placed) {
                self.show(placed, diff);
            } else {
                self.after.put(placed, diff);
            }
            return;
        }
        let mut left = -diff;
        left -= self.after.take(&placed, left);
        let of_shown = self.shown.take(&placed, left);
        if of_shown > 0 {
            self.changes.push((placed.row.clone(), -of_shown));
        }
        left -= of_shown;
        left -= self.before.take(&placed, left);
        debug_assert_eq!(left, 0, "what goes was there");
    }

    fn show(&mut self, placed: Placed, count: i64) {
        self.changes.push((placed.row.clone(), count));
        self.shown.put(placed, count);
    }

    fn hide(&mut self, first: bool, most: i64) -> Option<(Placed, i64)> {
        let (placed, count) = self.shown.take_end(first, most)?;
        self.changes.push((placed.row.clone(), -count));
        Some((placed, count))
    }

    /// Moves rows until each part has as many as it should, and tells how what is shown has changed.
    fn settle(&mut self) -> Changes {
        while self.before.count > self.skip
            && let Some((placed, count)) = self.before.take_end(false, self.before.count - self.skip)
        {
            self.show(placed, count);
        }
        while self.before.count < self.skip {
            let missing = self.skip - self.before.count;
            let Some((placed, count)) = self.hide(true, missing).or_else(|| self.after.take_end(true, missing)) else { break };
            self.before.put(placed, count);
        }
        while self.shown.count > self.limit
            && let Some((placed, count)) = self.hide(false, self.shown.count - self.limit)
        {
            self.after.put(placed, count);
        }
        while self.shown.count < self.limit
            && let Some((placed, count)) = self.after.take_end(true, self.limit - self.shown.count)
        {
            self.show(placed, count);
        }
        let mut changes = std::mem::take(&mut self.changes);
        consolidate(&mut changes);
        changes
    }
}

/// Adds to the count of a row, which is kept only while it is not 0.
pub fn add(rows: &mut BTreeMap<Placed, i64>, placed: Placed, diff: i64) {
    use std::collections::btree_map::Entry;
    match rows.entry(placed) {
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += diff;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        Entry::Vacant(entry) => {
            if diff != 0 {
                entry.insert(diff);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(n: i64, descending: bool) -> Placed {
        Placed { keys: vec![Value::Integer(n / 2)], row: Row::from_slice(&[Value::Integer(n)]), descending: [descending].into() }
    }

    #[test]
    fn the_window_is_always_the_one_of_all_rows_in_order() {
        let mut state = 88172645463325252u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        for (skip, limit) in [(0, 0), (0, 3), (2, 2), (5, i64::MAX), (7, 1), (40, 9), (i64::MAX, 3), (0, i64::MAX)] {
            for descending in [false, true] {
                let mut window = Window::new(skip, limit);
                let (mut all, mut shown) = (BTreeMap::<Placed, i64>::new(), BTreeMap::<i64, i64>::new());
                for round in 0..400 {
                    for _ in 0..random(4) {
                        let placed = placed(random(12) as i64, descending);
                        let there = all.get(&placed).copied().unwrap_or(0);
                        // For a while more comes than goes, then the other way round.
                        let diff =
                            if random(10) < if round < 200 { 6 } else { 3 } { 1 + random(3) as i64 } else { -there.min(2) };
                        add(&mut all, placed.clone(), diff);
                        window.add(placed, diff);
                    }
                    for (row, diff) in window.settle() {
                        let Some(Value::Integer(n)) = row.0.first() else { panic!("{row:?}") };
                        *shown.entry(*n).or_default() += diff;
                    }
                    shown.retain(|_, count| *count != 0);
                    let (mut before, mut left, mut expected) = (skip, limit, BTreeMap::<i64, i64>::new());
                    for (placed, count) in &all {
                        let skipped = before.min(*count);
                        before -= skipped;
                        let taken = left.min(count - skipped);
                        left -= taken;
                        if let (true, Some(Value::Integer(n))) = (taken > 0, placed.row.0.first()) {
                            expected.insert(*n, taken);
                        }
                    }
                    assert_eq!(shown, expected, "SKIP {skip} LIMIT {limit}, round {round}");
                }
            }
        }
    }
}
