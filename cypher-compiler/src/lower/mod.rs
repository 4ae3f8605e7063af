//! Draft to plan: every pattern gets the orders in which it can be visited, and the query its facts.
//!
//! Owns the choice of anchors: a condition `id(n) = e` becomes a `Seek` as soon as its `e` is known, and disappears. One that
//! names several, `id(n) IN e` or an OR of such, is where a pattern begins that would be scanned for, by `SeekEach`.

pub mod anchors;
mod any_order;
pub mod certain;
pub mod facts;
pub mod order;
mod plain;
pub mod orders;
pub mod unseen;

use weir_model::plan::Pattern;
use weir_model::{IdScheme, Plan, Text};

use self::orders::Lists;
use crate::bind::Draft;
use crate::walk;

pub fn lower(text: &str, mut draft: Draft, lists: Lists) -> Plan {
    // A pattern that is maintained is begun at whatever changes, along the paths it has: all its conditions stay.
    let mut order = |pattern: &mut Pattern| {
        if pattern.delta.is_empty() {
            orders::order(pattern, lists);
        }
    };
    walk::operators_mut(&mut draft.root, &mut |operator| {
        // Steps take copies of conditions, so first.
        any_order::mark(operator);
        walk::patterns_mut(operator, &mut order);
    });
    finish(text, draft)
}

/// The plan without any choice made: what tests compare the other with.
pub fn lower_plainly(text: &str, mut draft: Draft, ids: IdScheme) -> Plan {
    anchors::write_out(&mut draft, ids);
    plain::spell_out(&mut draft);
    finish(text, draft)
}

fn finish(text: &str, draft: Draft) -> Plan {
    let facts = facts::facts(&draft);
    Plan {
        root: draft.root,
        columns: draft.columns,
        width: draft.slots.len(),
        variables: draft.slots.iter().map(|slot| slot.told()).collect(),
        names: draft.names.into_all(),
        parameters: draft.parameters.into_all(),
        facts,
        source: Text::new(text),
    }
}
