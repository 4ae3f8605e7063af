//! Plan to stages: which slots each operator must hand on is told from above, so that no stage keeps more of a row than is asked.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use weir_model::plan::{Operator, Pattern, Plan, Slot, SortKey};
use weir_model::{Expr, IdScheme, Value};

use super::each::Each;
use super::group::Group;
use super::join::Join;
use super::timed::Timed;
use super::top::Top;
use super::{Layout, Stage, constant};
use crate::render::maintained::is_clocked;
use crate::render::program::{RenderError, refuse};

type Slots = BTreeSet<Slot>;

/// The patterns of a query, in the order of their numbers, each with the slots wanted of it.
pub type Patterns = Vec<(Pattern, Slots)>;

/// The stages of a plan in the form of mode AnyQuery. Rows of the last have the columns, in their order.
pub fn stages(plan: &Plan, ids: IdScheme, patterns: &mut Patterns) -> Result<Stage, RenderError> {
    let columns: Vec<usize> = plan.columns.iter().map(|(_, slot)| slot.0 as usize).collect();
    let needed: Slots = plan.columns.iter().map(|(_, slot)| *slot).collect();
    let mut build = Build { ids, patterns };
    if let Operator::Subquery { input, inner, unit: false } = &plan.root {
        // At the root nodes and edges are given in full.
        let (stage, layout) = build.stage(input, argument(input, inner, &needed))?;
        return Ok(Stage::Each(Box::new(Each::new(stage, layout, (**inner).clone(), Layout(columns), true))));
    }
    let (stage, layout) = build.stage(&plan.root, needed)?;
    let out = Layout(columns);
    if out.0 == layout.0 {
        return Ok(stage);
    }
    Ok(Stage::Project { input: Box::new(stage), layout, items: Vec::new(), out, timed: None })
}

struct Build<'b> {
    ids: IdScheme,
    patterns: &'b mut Patterns,
}

fn layout(slots: &Slots) -> Layout {
    Layout(slots.iter().map(|slot| slot.0 as usize).collect())
}

fn slots_of<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Slots {
    exprs.into_iter().flat_map(Expr::slots).collect()
}

/// What a part that asks the graph row by row, and hands on what is needed, must have of its rows. What these do not have, the
/// part fills itself, or takes for null.
fn argument(input: &Operator, inner: &Operator, needed: &Slots) -> Slots {
    &(needed | &inner.mentioned()) & &input.filled()
}

/// What is kept of rows if their answer passes with time.
fn timed<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Option<Timed> {
    exprs.into_iter().any(is_clocked).then(Timed::default)
}

impl Build<'_> {
    /// The stage of an operator, and where the values of its rows belong: `needed`, in order.
    fn stage(&mut self, operator: &Operator, needed: Slots) -> Result<(Stage, Layout), RenderError> {
        let out = layout(&needed);
        let stage = match operator {
            Operator::Unit => Stage::Unit(needed.len()),
            Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => {
                self.patterns.push((pattern.clone(), needed));
                Stage::Source(self.patterns.len() - 1)
            }
            Operator::Filter { input, condition } => {
                let (input, layout) = self.input(input, &needed | &slots_of([condition]))?;
                Stage::Filter { input, layout, condition: condition.clone(), out: out.clone(), timed: timed([condition]) }
            }
            Operator::Project { input, items } => {
                let items: Vec<&(Slot, Expr)> = items.iter().filter(|(slot, _)| needed.contains(slot)).collect();
                let made: Slots = items.iter().map(|(slot, _)| *slot).collect();
                let below = &(&needed - &made) | &slots_of(items.iter().map(|(_, expr)| expr));
                let (input, layout) = self.input(input, below)?;
                let timed = timed(items.iter().map(|(_, expr)| expr));
                let items = items.into_iter().map(|(slot, expr)| (slot.0 as usize, expr.clone())).collect();
                Stage::Project { input, layout, items, out: out.clone(), timed }
            }
            Operator::Unwind { input, list, into } => {
                let mut below = needed.clone();
                below.remove(into);
                let (input, layout) = self.input(input, &below | &slots_of([list]))?;
                Stage::Unwind { input, layout, list: list.clone(), into: into.0 as usize, out: out.clone(), timed: timed([list]) }
            }
            Operator::Distinct { input, slots } => {
                let (input, layout) = self.input(input, slots.iter().copied().collect())?;
                Stage::Distinct { input, layout, counts: FxHashMap::default(), out: out.clone() }
            }
            Operator::Union { left, right, distinct } => {
                let below = distinct.as_ref().map_or(needed, |slots| slots.iter().copied().collect());
                let (left, layout) = self.input(left, below.clone())?;
                let (right, _) = self.input(right, below)?;
                let both = Stage::Union(left, right);
                match distinct {
                    Some(_) => Stage::Distinct { input: Box::new(both), layout, counts: FxHashMap::default(), out: out.clone() },
                    None => both,
                }
            }
            Operator::Aggregate { input, keys, aggregates } => {
                // A sort right below is there for `collect`.
                let (input, order): (&Operator, &[SortKey]) = match &**input {
                    Operator::Sort { input, keys, limit: None } => (input, keys),
                    input => (input, &[]),
                };
                let exprs = keys.iter().map(|(_, key)| key).chain(order.iter().map(|key| &key.expr));
                let below = slots_of(exprs.chain(aggregates.iter().flat_map(|(_, aggregate)| &aggregate.arguments)));
                let (input, layout) = self.input(input, below)?;
                Stage::Group(Box::new(Group::new(input, layout, keys, aggregates, order, &out)))
            }
            Operator::Sort { .. } | Operator::Skip { .. } | Operator::Limit { .. } => return self.top(operator, needed),
            Operator::Subquery { input, inner, unit: false } => {
                let (input, layout) = self.input(input, argument(input, inner, &needed))?;
                Stage::Each(Box::new(Each::new(*input, layout, (**inner).clone(), out.clone(), false)))
            }
            Operator::Join { left, right, keys, nulls } => {
                let given: Slots = nulls.as_ref().map_or_else(|| right.filled(), |nulls| nulls.iter().copied().collect());
                let of_left = &(&needed - &given) | &slots_of(keys.iter().map(|(key, _)| key));
                let of_right = &(&needed & &given) | &slots_of(keys.iter().map(|(_, key)| key));
                let (left, left_layout) = self.input(left, of_left)?;
                let (right, right_layout) = self.input(right, of_right)?;
                let sides = ((left, left_layout), (right, right_layout));
                Stage::Join(Box::new(Join::new(sides, keys, nulls.is_some(), out.clone())))
            }
            other => {
                let name = format!("{other:?}");
                return refuse(&format!("the operator {}", name.split([' ', '{']).next().unwrap_or_default()));
            }
        };
        Ok((stage, out))
    }

    fn input(&mut self, operator: &Operator, needed: Slots) -> Result<(Box<Stage>, Layout), RenderError> {
        let (stage, layout) = self.stage(operator, needed)?;
        Ok((Box::new(stage), layout))
    }

    /// ORDER BY, SKIP and LIMIT, each where it is there. An order alone changes nothing.
    fn top(&mut self, operator: &Operator, needed: Slots) -> Result<(Stage, Layout), RenderError> {
        let (mut skip, mut limit, mut order, mut below): (usize, Option<usize>, &[SortKey], &Operator) = (0, None, &[], operator);
        if let Operator::Limit { input, count } = below {
            (limit, below) = (Some(self.count(count)?), input);
        }
        if let Operator::Skip { input, count } = below {
            (skip, below) = (self.count(count)?, input);
        }
        if let Operator::Sort { input, keys, .. } = below {
            (order, below) = (keys, input);
        }
        if skip == 0 && limit.is_none() {
            return self.stage(below, needed);
        }
        let out = layout(&needed);
        let (input, layout) = self.input(below, &needed | &slots_of(order.iter().map(|key| &key.expr)))?;
        Ok((Stage::Top(Box::new(Top::new(input, layout, order, skip, limit, out.clone()))), out))
    }

    /// The number after SKIP or LIMIT.
    fn count(&self, count: &Expr) -> Result<usize, RenderError> {
        match constant(count, self.ids) {
            Some(Value::Integer(n)) if n >= 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            _ => refuse("a SKIP or LIMIT that is no constant number"),
        }
    }
}
