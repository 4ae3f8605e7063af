//! Unanchored: runs in which an anchor (`id(n) = …`) named no node, because it was null or no id.
//!
//! No node is found then, as Cypher has it. Whoever wrote the query of a stream hardly meant it: what a record was to change is
//! not changed, and nothing fails. So it is noted, for the stream to tell. Not where nothing is missed, in an OPTIONAL MATCH or
//! an expression that asks the graph.
//!
//! It is only looked at where it has happened.

use std::cell::{Cell, RefCell};

use weir_model::Expr;

use super::operators::Run;

#[derive(Default)]
pub(super) struct UnanchoredSoFar {
    met: Cell<bool>,
    /// The first of those met now, in terms of the plan.
    met_anchor: RefCell<Option<Expr>>,
    /// The first of those that were taken.
    anchor: RefCell<Option<Expr>>,
    is_optional: Cell<bool>,
}

impl UnanchoredSoFar {
    /// Whether there was one since this was asked last.
    pub fn take(&self) -> bool {
        let met = self.met.take();
        if met {
            let own = self.met_anchor.take();
            let mut first = self.anchor.borrow_mut();
            if first.is_none() {
                *first = own;
            }
        }
        met
    }

    pub fn forget(&self) {
        self.met.set(false);
        self.met_anchor.take();
    }

    pub fn anchor(&self) -> Option<Expr> {
        self.anchor.borrow().clone()
    }

    pub fn is_optional(&self) -> bool {
        self.is_optional.get()
    }

    /// Does something within which a node that is not found is missed, or is not.
    pub fn within<T>(&self, is_optional: bool, act: impl FnOnce() -> T) -> T {
        let before = self.is_optional.replace(is_optional);
        let done = act();
        self.is_optional.set(before);
        done
    }
}

impl Run<'_> {
    #[cold]
    pub(super) fn note_unanchored(&self, anchor: &Expr) {
        let unanchored = self.unanchored;
        if unanchored.is_optional() {
            return;
        }
        unanchored.met.set(true);
        // Of a query that is run in place of a call the plan is another one.
        if self.depth == 0 && unanchored.met_anchor.borrow().is_none() {
            unanchored.met_anchor.replace(Some(anchor.clone()));
        }
    }
}
