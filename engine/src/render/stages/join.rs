//! Join: rows of both sides whose keys are equal.
//!
//! Both sides are kept by a coarse form of their keys, the same for all values that Cypher's `=` may call equal (1 and 1.0
//! are); whether they are is looked at then.

use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{Expr, Value};

use super::derive::What;
use super::{Changes, Layout, Row, Stage, Turn, consolidate};

pub struct Join {
    pub left: Side,
    pub right: Side,
    pub(super) out: Layout,
}

pub struct Side {
    pub input: Box<Stage>,
    layout: Layout,
    keys: Vec<Expr>,
    rows: FxHashMap<Vec<Value>, FxHashMap<Keyed, i64>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Keyed {
    keys: Vec<Value>,
    row: Row,
}

impl Join {
    pub fn new(left: (Box<Stage>, Layout), right: (Box<Stage>, Layout), keys: &[(Expr, Expr)], out: Layout) -> Join {
        let side =
            |(input, layout): (Box<Stage>, Layout), keys: Vec<Expr>| Side { input, layout, keys, rows: FxHashMap::default() };
        Join {
            left: side(left, keys.iter().map(|(key, _)| key.clone()).collect()),
            right: side(right, keys.iter().map(|(_, key)| key.clone()).collect()),
            out,
        }
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let (of_left, of_right) = (self.left.changes(turn), self.right.changes(turn));
        turn.made.allow(of_left.len() + of_right.len());
        let mut found = Vec::new();
        // What is new on the left meets the right as it is now, what is new on the right the left as it was.
        self.right.apply(&of_right);
        for (coarse, keyed, diff) in &of_left {
            for (other, count) in self.right.rows.get(coarse).into_iter().flatten() {
                if self.pair(turn, (keyed, other), (*diff, *count), &mut found).is_break() {
                    return found;
                }
            }
        }
        for (coarse, keyed, diff) in &of_right {
            for (other, count) in self.left.rows.get(coarse).into_iter().flatten() {
                if self.pair(turn, (other, keyed), (*diff, *count), &mut found).is_break() {
                    return found;
                }
            }
        }
        self.left.apply(&of_left);
        found
    }

    /// Every pair, with the numbers of its rows; a few more than so many at most.
    pub fn derive<'r>(
        &self,
        left: impl Iterator<Item = &'r Row>,
        right: impl Iterator<Item = &'r Row>,
        turn: &mut Turn,
        most: usize,
    ) -> Vec<(Row, u32, u32)> {
        let mut of_right = FxHashMap::<Vec<Value>, Vec<_>>::default();
        for (row, number) in right.zip(0..) {
            if let Some(keys) = self.right.keys_of(row, turn) {
                of_right.entry(keys.iter().map(coarse).collect()).or_default().push((keys, row, number));
            }
        }
        let mut found = Vec::new();
        for (row, number) in left.zip(0..) {
            let Some(keys) = self.left.keys_of(row, turn) else { continue };
            for (others, other, at) in of_right.get(&keys.iter().map(coarse).collect::<Vec<_>>()).into_iter().flatten() {
                if found.len() > most {
                    return found;
                }
                if keys.iter().zip(others).all(|(a, b)| a.equals(b) == Some(true)) {
                    self.left.layout.spread(row, &mut turn.row);
                    self.right.layout.spread(other, &mut turn.row);
                    found.push((self.out.collect(&turn.row), number, *at));
                }
            }
        }
        found
    }

    pub fn made(&self) -> What<'_> {
        What::Join { left: &self.left.keys, right: &self.right.keys }
    }

    /// Enough, when there are too many.
    fn pair(
        &self,
        turn: &mut Turn,
        (left, right): (&Keyed, &Keyed),
        (diff, count): (i64, i64),
        found: &mut Changes,
    ) -> ControlFlow<()> {
        let Some(count) = turn.made.times(diff, count) else { return ControlFlow::Break(()) };
        let mut bytes = 0;
        if left.keys.iter().zip(&right.keys).all(|(a, b)| a.equals(b) == Some(true)) {
            // Where both have a slot, it is the right one that fills it.
            self.left.layout.spread(&left.row, &mut turn.row);
            self.right.layout.spread(&right.row, &mut turn.row);
            let row = self.out.collect(&turn.row);
            // What values consist of is there already.
            bytes = size_of_val(row.0.as_slice());
            found.push((row, count));
        }
        turn.made.one(bytes)
    }
}

type SideChange = (Vec<Value>, Keyed, i64);

impl Side {
    fn changes(&mut self, turn: &mut Turn) -> Vec<SideChange> {
        let mut changes = self.input.step(turn);
        consolidate(&mut changes);
        let mut out = Vec::with_capacity(changes.len());
        for (row, diff) in changes {
            let keys = self.keys_of(&row, turn);
            turn.context.end(&row, diff);
            if let Some(keys) = keys {
                out.push((keys.iter().map(coarse).collect(), Keyed { keys, row }, diff));
            }
        }
        out
    }

    /// None where one has no value, or is equal to nothing.
    fn keys_of(&self, row: &Row, turn: &mut Turn) -> Option<Vec<Value>> {
        self.layout.spread(row, &mut turn.row);
        turn.context.begin();
        let keys = self.keys.iter().map(|key| turn.context.value(key.evaluate(&turn.row, turn.context)));
        keys.collect::<Option<Vec<_>>>().filter(|keys| !keys.iter().any(Value::is_null))
    }

    fn apply(&mut self, changes: &[SideChange]) {
        for (coarse, keyed, diff) in changes {
            let bucket = self.rows.entry(coarse.clone()).or_default();
            let count = bucket.entry(keyed.clone()).or_default();
            *count += diff;
            if *count == 0 {
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
