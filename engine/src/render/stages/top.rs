//! ORDER BY … SKIP … LIMIT: all rows in order, and the window of them that is shown.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::plan::SortKey;
use weir_model::{Expr, Value};

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
    skip: usize,
    limit: Option<usize>,
    out: Layout,
    rows: BTreeMap<Placed, i64>,
    shown: Changes,
}

impl Top {
    pub fn new(input: Box<Stage>, layout: Layout, order: &[SortKey], (skip, limit): (usize, Option<usize>), out: Layout) -> Top {
        Top {
            input,
            layout,
            keys: order.iter().map(|key| key.expr.clone()).collect(),
            descending: order.iter().map(|key| key.descending).collect(),
            skip,
            limit,
            out,
            rows: BTreeMap::new(),
            shown: Vec::new(),
        }
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let mut changes = self.input.step(turn);
        consolidate(&mut changes);
        if changes.is_empty() {
            return changes;
        }
        for (row, diff) in changes {
            self.layout.spread(&row, &mut turn.row);
            let keys = self.keys.iter().map(|key| key.evaluate(&turn.row, turn.context)).collect::<Result<Vec<_>, _>>();
            let Ok(keys) = keys else { continue };
            add(&mut self.rows, Placed { keys, row: self.out.collect(&turn.row), descending: self.descending.clone() }, diff);
        }
        let mut shown = self.window();
        consolidate(&mut shown);
        let mut changes = shown.clone();
        changes.extend(std::mem::replace(&mut self.shown, shown).into_iter().map(|(row, count)| (row, -count)));
        consolidate(&mut changes);
        changes
    }

    fn window(&self) -> Changes {
        let (mut skip, mut left) =
            (self.skip as i64, self.limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut shown = Vec::new();
        for (placed, count) in &self.rows {
            if left == 0 {
                break;
            }
            let skipped = skip.min(*count);
            skip -= skipped;
            let taken = left.min(count - skipped);
            left -= taken;
            if taken > 0 {
                shown.push((placed.row.clone(), taken));
            }
        }
        shown
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
