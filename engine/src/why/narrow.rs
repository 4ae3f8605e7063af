//! Narrowing: where nodes of an answer are known, finds which nodes of the query's patterns they are, so that not all of the
//! answer need be worked out.
//!
//! Read from the plan, from the answer down. A slot is followed to the slot below that shows the same node, until a pattern
//! fills it. Where rows become one, only what they all have in common is followed.

use weir_model::plan::{Operator, Pattern, Slot};
use weir_model::{Expr, NodeId};

use super::staged::Staged;

/// What is known of the rows of an operator.
#[derive(Clone)]
struct Known {
    /// Slots that show these nodes in the rows that are wanted.
    shown: Vec<(Slot, NodeId)>,
    /// Slots that show one node in all rows that become one above; None where none become one.
    common: Option<Vec<Slot>>,
}

impl Staged<'_> {
    /// Of each pattern the nodes that are known, where rows are wanted in which these columns show these nodes, and which come
    /// of matches with those `nodes`, given by pattern. All rows of the answer that do come of matches with the known nodes
    /// alone.
    pub fn seeds(&self, columns: &[(Slot, NodeId)], nodes: &[Vec<(usize, NodeId)>]) -> Vec<Vec<(usize, NodeId)>> {
        let mut found = Vec::new();
        patterns(&self.plan().root, Known { shown: columns.to_vec(), common: None }, &mut found);
        let of_pattern = |(number, (pattern, known)): (usize, &(&Pattern, Known))| {
            let place = |slot: Slot| pattern.nodes.iter().position(|node| node.slot == slot);
            let is_common = |node: usize| pattern.nodes.get(node).is_some_and(|node| known.has_in_common(node.slot));
            let shown = known.shown.iter().filter_map(|(slot, id)| Some((place(*slot)?, *id)));
            let given = nodes.get(number).into_iter().flatten().copied().filter(|(node, _)| is_common(*node));
            shown.chain(given).collect()
        };
        let mut seeds: Vec<Vec<(usize, NodeId)>> = found.iter().enumerate().map(of_pattern).collect();
        seeds.resize(self.origins().len(), Vec::new());
        seeds
    }

    /// A column that shows a node of each pattern, so that the answer falls apart into those of its nodes.
    pub fn pivot(&self) -> Option<Slot> {
        let narrows_all = |column: &Slot| {
            let seeds = self.seeds(&[(*column, NodeId::default())], &[]);
            !seeds.is_empty() && seeds.iter().all(|of| !of.is_empty())
        };
        self.plan().columns.iter().map(|(_, slot)| *slot).find(narrows_all)
    }

    /// What a column is of the node that it shows: the node, or a call that gives its id.
    pub(super) fn column(&self, column: Slot) -> (Slot, Expr) {
        let (mut at, mut slot) = (&self.plan().root, column);
        loop {
            let items = match at {
                Operator::Project { items, .. } | Operator::Aggregate { keys: items, .. } => items.as_slice(),
                _ => &[],
            };
            match items.iter().find(|(into, _)| *into == slot) {
                Some((_, Expr::Slot(of))) => slot = *of,
                Some((_, expr)) => return (node_of(expr).unwrap_or(slot), expr.clone()),
                None => {}
            }
            match at.input() {
                Some(input) => at = input,
                None => return (slot, Expr::Slot(slot)),
            }
        }
    }
}

impl Known {
    fn has_in_common(&self, slot: Slot) -> bool {
        self.common.as_ref().is_none_or(|common| common.contains(&slot))
    }

    /// Of the rows below an operator.
    fn below(self, operator: &Operator) -> Known {
        let known = match operator {
            // These rows may be there or not because of any others.
            Operator::Skip { .. } | Operator::Limit { .. } | Operator::Sort { limit: Some(_), .. } => self.merged(&[]),
            Operator::Aggregate { keys, .. } => self.merged(&keys.iter().map(|(slot, _)| *slot).collect::<Vec<Slot>>()),
            Operator::Distinct { slots, .. } => self.merged(slots),
            _ => self,
        };
        let shown = known.shown.into_iter().filter_map(|(slot, id)| Some((below(operator, slot)?, id)));
        let common = known.common.map(|common| common.into_iter().filter_map(|slot| below(operator, slot)).collect());
        Known { shown: shown.collect(), common }
    }

    /// Of rows of which those become one that are the same in these slots.
    fn merged(mut self, slots: &[Slot]) -> Known {
        self.shown.retain(|(slot, _)| slots.contains(slot));
        match &mut self.common {
            Some(common) => common.retain(|slot| slots.contains(slot)),
            None => self.common = Some(slots.to_vec()),
        }
        self
    }

    /// What concerns some slots.
    fn of(&self, is_wanted: &dyn Fn(&Slot) -> bool) -> Known {
        Known {
            shown: self.shown.iter().copied().filter(|(slot, _)| is_wanted(slot)).collect(),
            common: self.common.as_ref().map(|common| common.iter().copied().filter(is_wanted).collect()),
        }
    }
}

/// Goes down to the patterns, in the order of their numbers.
fn patterns<'p>(operator: &'p Operator, known: Known, found: &mut Vec<(&'p Pattern, Known)>) {
    match operator {
        Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => found.push((pattern, known)),
        Operator::Union { left, right, distinct } => {
            let known = match distinct {
                Some(slots) => known.merged(slots),
                None => known,
            };
            patterns(left, known.clone(), found);
            patterns(right, known, found);
        }
        // Of the right no more is left out than of the left: a row would seem to have no other half.
        Operator::Join { left, right, keys, nulls: Some(nulls) } => {
            let same = |(of_left, of_right): &(Expr, Expr)| node_of(of_left).filter(|slot| Some(*slot) == node_of(of_right));
            // What one of them below filled does not narrow what its rows come of.
            let mut filled: Vec<Slot> = Vec::new();
            left.each_below(&mut |operator| {
                if let Operator::Join { nulls: Some(nulls), .. } = operator {
                    filled.extend(nulls);
                }
            });
            let same: Vec<Slot> = keys.iter().filter_map(same).filter(|slot| !filled.contains(slot)).collect();
            patterns(left, known.of(&|slot| !nulls.contains(slot)), found);
            patterns(right, known.merged(&same), found);
        }
        Operator::Join { left, right, nulls: None, .. } => {
            let filled = right.filled();
            patterns(left, known.of(&|slot| !filled.contains(slot)), found);
            patterns(right, known.of(&|slot| filled.contains(slot)), found);
        }
        other => {
            if let Some(input) = other.input() {
                patterns(input, known.below(other), found);
            }
        }
    }
}

/// The slot below an operator that shows the same node as one of its rows.
fn below(operator: &Operator, slot: Slot) -> Option<Slot> {
    let of_items = |items: &[(Slot, Expr)]| items.iter().find(|(into, _)| *into == slot).map(|(_, expr)| node_of(expr));
    match operator {
        Operator::Filter { .. } | Operator::Sort { .. } | Operator::Skip { .. } | Operator::Limit { .. } => Some(slot),
        Operator::Project { items, .. } => of_items(items).unwrap_or(Some(slot)),
        Operator::Aggregate { keys, .. } => of_items(keys).flatten(),
        Operator::Distinct { slots, .. } => slots.contains(&slot).then_some(slot),
        Operator::Unwind { into, .. } => (slot != *into).then_some(slot),
        Operator::Match { pattern, .. } => {
            let is_bound = pattern.nodes.iter().any(|node| node.bound && node.slot == slot);
            (is_bound || !pattern.slots().contains(&slot)).then_some(slot)
        }
        Operator::Call { yields, .. } => yields.iter().all(|(_, into)| *into != slot).then_some(slot),
        // Where nothing is found the row goes on as it was.
        Operator::Optional { inner, nulls, .. } => {
            (!nulls.contains(&slot) && argument(inner, slot) == Some(slot)).then_some(slot)
        }
        Operator::Subquery { unit: true, .. } => Some(slot),
        Operator::Subquery { inner, .. } => argument(inner, slot),
        _ => None,
    }
}

/// The slot of the row that a part of the plan begins with, which shows the same node as one of the rows it gives.
fn argument(part: &Operator, slot: Slot) -> Option<Slot> {
    match part {
        Operator::Argument => Some(slot),
        // What is neither key nor aggregate is that of the row it began with.
        Operator::Aggregate { keys, aggregates, .. }
            if keys.iter().all(|(into, _)| *into != slot) && aggregates.iter().all(|(into, _)| *into != slot) =>
        {
            Some(slot)
        }
        Operator::Union { left, right, .. } => argument(left, slot).filter(|found| argument(right, slot) == Some(*found)),
        other => argument(other.input()?, below(other, slot)?),
    }
}

/// The node whose id, or which itself, is the value.
fn node_of(expr: &Expr) -> Option<Slot> {
    match expr {
        Expr::Slot(of) => Some(*of),
        Expr::Call { function, arguments } if matches!(function.name, "id" | "strId") => match arguments.as_slice() {
            [Expr::Slot(of)] => Some(*of),
            _ => None,
        },
        _ => None,
    }
}
