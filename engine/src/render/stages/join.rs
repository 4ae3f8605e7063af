//! Join: rows of both sides whose keys are equal. Of OPTIONAL MATCH a row of the left that has none stays, with nulls.
//!
//! Both sides are kept by a coarse form of their keys, the same for all values that Cypher's `=` may call equal (1 and 1.0
//! are); whether they are is looked at then.

use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{Expr, Value};

use super::derive::{Of, What};
use super::{Changes, Layout, Row, Stage, Turn, consolidate};

pub struct Join {
    pub left: Side,
    pub right: Side,
    /// Of a row that stays without the other half: what is null. None where there are no such rows.
    nulls: Option<Vec<usize>>,
    pub(super) out: Layout,
}

pub struct Side {
    pub input: Box<Stage>,
    layout: Layout,
    keys: Vec<Expr>,
    rows: FxHashMap<Vec<Value>, FxHashMap<Keyed, Held>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Keyed {
    keys: Vec<Value>,
    row: Row,
}

#[derive(Default)]
struct Held {
    count: i64,
    /// Of a left row that stays without the other half: how many rows there are on the right that have its keys.
    others: i64,
}

/// A stage, and where the values of its rows belong.
type Rows = (Box<Stage>, Layout);

impl Join {
    pub fn new((left, right): (Rows, Rows), keys: &[(Expr, Expr)], stays: bool, out: Layout) -> Join {
        let nulls = || right.1.0.iter().copied().filter(|slot| !left.1.0.contains(slot)).collect();
        let nulls = stays.then(nulls);
        let side = |(input, layout): Rows, keys: Vec<Expr>| Side { input, layout, keys, rows: FxHashMap::default() };
        Join {
            left: side(left, keys.iter().map(|(key, _)| key.clone()).collect()),
            right: side(right, keys.iter().map(|(_, key)| key.clone()).collect()),
            nulls,
            out,
        }
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let (mut of_left, without_keys) = self.left.changes(turn);
        let (of_right, _) = self.right.changes(turn);
        turn.made.allow(of_left.len() + without_keys.len() + of_right.len());
        let mut found = Vec::new();
        // What is equal to nothing has no other half.
        for (row, diff) in &without_keys {
            if self.alone(turn, row, *diff, &mut found).is_break() {
                return found;
            }
        }
        // What is new on the left meets the right as it is now, what is new on the right the left as it was.
        self.right.apply(&of_right);
        for change in &mut of_left {
            for (other, held) in self.right.rows.get(&change.coarse).into_iter().flatten() {
                if !change.keyed.has_keys_of(other) {
                    if turn.made.one(0).is_break() {
                        return found;
                    }
                    continue;
                }
                change.others += held.count;
                if self.pair(turn, (&change.keyed, other), (change.diff, held.count), &mut found).is_break() {
                    return found;
                }
            }
            if change.others == 0 && self.alone(turn, &change.keyed.row, change.diff, &mut found).is_break() {
                return found;
            }
        }
        let mut left = std::mem::take(&mut self.left.rows);
        let met = self.meet(turn, &of_right, &mut left, &mut found);
        self.left.rows = left;
        if met.is_continue() {
            self.left.apply(&of_left);
        }
        found
    }

    /// What is new on the right meets the left.
    fn meet(
        &self,
        turn: &mut Turn,
        of_right: &[SideChange],
        left: &mut FxHashMap<Vec<Value>, FxHashMap<Keyed, Held>>,
        found: &mut Changes,
    ) -> ControlFlow<()> {
        for change in of_right {
            for (other, held) in left.get_mut(&change.coarse).into_iter().flatten() {
                if !other.has_keys_of(&change.keyed) {
                    turn.made.one(0)?;
                    continue;
                }
                self.pair(turn, (other, &change.keyed), (change.diff, held.count), found)?;
                let before = held.others;
                held.others += change.diff;
                if before == 0 {
                    self.alone(turn, &other.row, -held.count, found)?;
                } else if held.others == 0 {
                    self.alone(turn, &other.row, held.count, found)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Every row, with the numbers of those it is made of; not many more than `most`.
    pub fn derive<'r>(
        &self,
        left: impl Iterator<Item = &'r Row>,
        right: impl Iterator<Item = &'r Row>,
        turn: &mut Turn,
        most: usize,
    ) -> Vec<(Row, Of)> {
        let mut of_right = FxHashMap::<Vec<Value>, Vec<_>>::default();
        for (row, number) in right.zip(0..) {
            if let Some(keys) = self.right.keys_of(row, turn) {
                let keyed = Keyed { keys, row: row.clone() };
                of_right.entry(keyed.coarse()).or_default().push((keyed, number));
            }
        }
        let mut found = Vec::new();
        for (row, number) in left.zip(0..) {
            let before = found.len();
            if let Some(keys) = self.left.keys_of(row, turn) {
                let keyed = Keyed { keys, row: row.clone() };
                for (other, at) in of_right.get(&keyed.coarse()).into_iter().flatten() {
                    if found.len() > most {
                        return found;
                    }
                    if keyed.has_keys_of(other) {
                        found.push((self.together(turn, row, &other.row), Of::Two(number, *at)));
                    }
                }
            }
            if found.len() == before
                && let Some(nulls) = &self.nulls
            {
                found.push((self.without(turn, row, nulls), Of::One(number)));
            }
        }
        found
    }

    pub fn made(&self) -> What<'_> {
        What::Join { left: &self.left.keys, right: &self.right.keys, stays: self.nulls.is_some() }
    }

    /// Gives a row of both sides. Breaks when there are too many.
    fn pair(
        &self,
        turn: &mut Turn,
        (left, right): (&Keyed, &Keyed),
        (diff, count): (i64, i64),
        found: &mut Changes,
    ) -> ControlFlow<()> {
        let Some(count) = turn.made.times(diff, count) else { return ControlFlow::Break(()) };
        let row = self.together(turn, &left.row, &right.row);
        give(turn, row, count, found)
    }

    /// A row of the left that has no other half any more, or, with a `diff` below zero, has one.
    fn alone(&self, turn: &mut Turn, row: &Row, diff: i64, found: &mut Changes) -> ControlFlow<()> {
        let Some(nulls) = &self.nulls else { return ControlFlow::Continue(()) };
        let row = self.without(turn, row, nulls);
        give(turn, row, diff, found)
    }

    fn together(&self, turn: &mut Turn, left: &Row, right: &Row) -> Row {
        // Where both have a slot, it is the right one that fills it.
        self.left.layout.spread(left, &mut turn.row);
        self.right.layout.spread(right, &mut turn.row);
        self.out.collect(&turn.row)
    }

    fn without(&self, turn: &mut Turn, left: &Row, nulls: &[usize]) -> Row {
        nulls.iter().for_each(|slot| turn.row[*slot] = Value::Null);
        self.left.layout.spread(left, &mut turn.row);
        self.out.collect(&turn.row)
    }
}

fn give(turn: &Turn, row: Row, count: i64, found: &mut Changes) -> ControlFlow<()> {
    // What values consist of is there already.
    let bytes = size_of_val(row.0.as_slice());
    found.push((row, count));
    turn.made.one(bytes)
}

struct SideChange {
    coarse: Vec<Value>,
    keyed: Keyed,
    diff: i64,
    /// As `Held::others`.
    others: i64,
}

impl Keyed {
    fn coarse(&self) -> Vec<Value> {
        self.keys.iter().map(coarse).collect()
    }

    /// By Cypher's `=`.
    fn has_keys_of(&self, other: &Keyed) -> bool {
        self.keys.iter().zip(&other.keys).all(|(a, b)| a.equals(b) == Some(true))
    }
}

impl Side {
    /// Those that have keys, and those whose keys are equal to nothing.
    fn changes(&mut self, turn: &mut Turn) -> (Vec<SideChange>, Changes) {
        let mut changes = self.input.step(turn);
        consolidate(&mut changes);
        let (mut out, mut without_keys) = (Vec::with_capacity(changes.len()), Vec::new());
        for (row, diff) in changes {
            let keys = self.keys_of(&row, turn);
            turn.context.end(&row, diff);
            match keys {
                Some(keys) => {
                    let keyed = Keyed { keys, row };
                    out.push(SideChange { coarse: keyed.coarse(), keyed, diff, others: 0 });
                }
                None => without_keys.push((row, diff)),
            }
        }
        (out, without_keys)
    }

    /// None where one has no value, or is equal to nothing.
    fn keys_of(&self, row: &Row, turn: &mut Turn) -> Option<Vec<Value>> {
        self.layout.spread(row, &mut turn.row);
        turn.context.begin();
        let keys = self.keys.iter().map(|key| turn.context.evaluate(key, &turn.row));
        keys.collect::<Option<Vec<_>>>().filter(|keys| !keys.iter().any(Value::is_null))
    }

    fn apply(&mut self, changes: &[SideChange]) {
        for SideChange { coarse, keyed, diff, others } in changes {
            let bucket = self.rows.entry(coarse.clone()).or_default();
            let held = bucket.entry(keyed.clone()).or_default();
            held.count += diff;
            held.others = *others;
            if held.count == 0 {
                bucket.remove(keyed);
                if bucket.is_empty() {
                    self.rows.remove(coarse);
                }
            }
        }
    }
}

fn coarse(value: &Value) -> Value {
    match value {
        Value::Integer(n) => Value::Float(*n as f64),
        Value::Float(x) if *x == 0.0 => Value::Float(0.0),
        Value::Float(_) | Value::Text(_) | Value::Boolean(_) | Value::Node(_) | Value::Bytes(_) => value.clone(),
        Value::Date(_) | Value::LocalTime(_) | Value::Time(_) | Value::LocalDateTime(_) | Value::DateTime(_) => value.clone(),
        Value::Id(id) => Value::Bytes(id.to_bytes().as_slice().into()),
        Value::List(items) => Value::list(items.iter().map(coarse).collect()),
        Value::Map(map) => Value::Map(Arc::new(map.iter().map(|(key, value)| (key.clone(), coarse(value))).collect())),
        _ => Value::Null,
    }
}
