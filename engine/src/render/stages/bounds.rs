//! Bounds: how much stages may do for one row, and how many rows may come of one tick.
//!
//! A row for which more would have to be looked at is left out, and told of. A tick of which more rows come than memory is made for has no
//! answer: the query ends.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use weir_model::expression::{FailureKind, Subquery};
use weir_model::plan::Name;
use weir_model::{Context, EdgeKey, Failure, FullEdge, FullNode, GraphFree, IdScheme, NodeId, Value};

use super::Row;
use crate::render::aside::Pace;

/// How much may be looked at for one row.
pub const STEPS_MAX: u32 = 20_000_000;

/// So many more rows may come of one tick than rows went in.
const MADE_MAX: u64 = 10_000_000;

/// Whether anybody still wants the answer is looked up once for so many rows.
const ROWS_BY_LOOK: u64 = 1024;

/// The rows that were made during one tick, beyond one for each that went in.
pub struct Made<'p> {
    pace: &'p Pace,
    count: Cell<u64>,
    most: Cell<u64>,
    stopped: Cell<bool>,
}

impl<'p> Made<'p> {
    pub fn new(pace: &'p Pace) -> Made<'p> {
        Made { pace, count: Cell::new(0), most: Cell::new(MADE_MAX), stopped: Cell::new(false) }
    }

    /// Another tick.
    pub fn begin(&self) {
        self.count.set(0);
        self.most.set(MADE_MAX);
    }

    /// So many go in where it cannot be told which row comes of which.
    pub fn allow(&self, rows: usize) {
        self.most.set(self.most.get() + rows as u64);
    }

    /// One more row of those that come of one.
    pub fn beyond<T>(&self, found: &[T]) -> ControlFlow<()> {
        if found.len() > 1 { self.one() } else { ControlFlow::Continue(()) }
    }

    pub fn one(&self) -> ControlFlow<()> {
        let count = self.count.get() + 1;
        self.count.set(count);
        if count > self.most.get() || count.is_multiple_of(ROWS_BY_LOOK) && self.pace.is_over() {
            self.stopped.set(true);
        }
        if self.stopped.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub fn is_too_many(&self) -> bool {
        self.stopped.get()
    }

    /// Why the tick has no answer.
    pub fn too_many(&self) -> Option<String> {
        self.stopped.get().then(|| format!("at one record more than {MADE_MAX} rows come of it"))
    }
}

/// The context of expressions over rows, in which one row may only take so much.
pub struct Bounded<'a> {
    base: &'a GraphFree,
    pace: &'a Pace,
    spent: Cell<usize>,
    /// Why something of the row has no value.
    failed: RefCell<Option<Failure>>,
}

impl<'a> Bounded<'a> {
    pub fn new(base: &'a GraphFree, pace: &'a Pace) -> Bounded<'a> {
        Bounded { base, pace, spent: Cell::new(0), failed: RefCell::default() }
    }

    /// Another row.
    pub fn begin(&self) {
        self.spent.set(0);
        self.failed.take();
    }

    /// What was worked out of the row. None where it has no value, which `end` tells.
    pub fn value<T>(&self, evaluated: Result<T, Failure>) -> Option<T> {
        evaluated.map_err(|failure| self.failed.replace(Some(failure))).ok()
    }

    /// Tells of a row of which something has no value, or for which it was too much; of one that goes it was told when it came.
    pub fn end(&self, row: &Row, diff: i64) {
        if diff > 0
            && let Some(failure) = self.failed.take().or_else(|| self.spend(0).err())
        {
            self.pace.leave_out(Some(row), &failure);
        }
    }
}

impl Context for Bounded<'_> {
    fn spend(&self, steps: usize) -> Result<(), Failure> {
        self.spent.set(self.spent.get().saturating_add(steps));
        if self.spent.get() > STEPS_MAX as usize {
            let message = "The query looks at too many elements of lists; bound them";
            return Err(Failure::new(FailureKind::TimeLimit, message));
        }
        if self.pace.is_over() {
            return Err(Failure::new(FailureKind::Interrupted, "The query was cancelled"));
        }
        Ok(())
    }
    fn parameter(&self, index: u32) -> &Value {
        self.base.parameter(index)
    }
    fn name(&self, name: Name) -> &str {
        self.base.name(name)
    }
    fn property(&self, node: NodeId, key: Name) -> Value {
        self.base.property(node, key)
    }
    fn property_by_text(&self, node: NodeId, key: &str) -> Value {
        self.base.property_by_text(node, key)
    }
    fn has_label(&self, node: NodeId, label: Name) -> bool {
        self.base.has_label(node, label)
    }
    fn edge_property(&self, edge: &EdgeKey, key: &str) -> Value {
        self.base.edge_property(edge, key)
    }
    fn full_node(&self, node: NodeId) -> FullNode {
        self.base.full_node(node)
    }
    fn full_edge(&self, edge: &EdgeKey) -> FullEdge {
        self.base.full_edge(edge)
    }
    fn degree(&self, node: NodeId) -> usize {
        self.base.degree(node)
    }
    fn ids(&self) -> IdScheme {
        self.base.ids()
    }
    fn now_millis(&self) -> i64 {
        self.base.now_millis()
    }
    fn subquery(&self, subquery: &Subquery, row: &[Value]) -> Result<Value, Failure> {
        self.base.subquery(subquery, row)
    }
    fn room(&self) -> usize {
        self.base.room()
    }
}
