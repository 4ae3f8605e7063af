//! Visiting every expression and operator of a draft. Knows where expressions lie, not what they mean.

use std::collections::HashMap;

use weir_model::Expr;
use weir_model::expression::SubqueryKind;
use weir_model::plan::{Operator, Pattern, Slot, Write};

/// The expressions directly inside `expr`.
pub fn children(expr: &Expr) -> Vec<&Expr> {
    expr.children()
}

/// As `children`, but what stands in the plan of a subquery is left to `operators_mut`.
pub fn children_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    use Expr::*;
    match expr {
        Literal(_) | Slot(_) | Parameter(_) => Vec::new(),
        Property { of, .. } | HasLabels { of, .. } | IsNull { of, .. } | Not(of) | Negate(of) | Clocked(of) => vec![of],
        Index { of, index } => vec![of, index],
        Slice { of, from, to } => [Some(of), from.as_mut(), to.as_mut()].into_iter().flatten().map(|e| &mut **e).collect(),
        And(all) | Or(all) | List(all) | Call { arguments: all, .. } => all.iter_mut().collect(),
        Xor(left, right) | Binary { left, right, .. } => vec![left, right],
        Map(entries) => entries.iter_mut().map(|(_, e)| e).collect(),
        Case { branches, otherwise } => branches.iter_mut().flat_map(|(w, t)| [w, t]).chain([&mut **otherwise]).collect(),
        Comprehension { list, filter, result, .. } => {
            [Some(list), filter.as_mut(), result.as_mut()].into_iter().flatten().map(|e| &mut **e).collect()
        }
        Quantifier { list, condition, .. } => vec![list, condition],
        Reduce { initial, list, step, .. } => vec![initial, list, step],
        Let { value, of, .. } => vec![value, of],
        Subquery(subquery) => match &mut subquery.kind {
            SubqueryKind::Collect(item) => vec![item],
            _ => Vec::new(),
        },
    }
}

pub fn any(expr: &Expr, test: &dyn Fn(&Expr) -> bool) -> bool {
    test(expr) || children(expr).into_iter().any(|child| any(child, test))
}

/// Leaves first.
pub fn rewrite(expr: &mut Expr, change: &mut dyn FnMut(&mut Expr)) {
    for child in children_mut(expr) {
        rewrite(child, change);
    }
    change(expr);
}

pub fn mentions(expr: &Expr, slot: Slot) -> bool {
    slots(expr).contains(&slot)
}

/// Every slot the value of the expression may depend on, those it fills itself among them.
pub fn slots(expr: &Expr) -> Vec<Slot> {
    expr.slots()
}

/// What two expressions have alike that are written the same. The model gives expressions no equality (their functions have
/// none), so the printed form stands for them.
pub fn form(expr: &Expr) -> String {
    format!("{:?}", numbered(expr))
}

/// The expression with the slots it fills itself numbered as they come: `[x IN l | x]` is the same wherever it stands.
fn numbered(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    let own = filled(&mut expr);
    if own.is_empty() {
        return expr;
    }
    rewrite(&mut expr, &mut |part| {
        let slots = if let Expr::Slot(slot) = part { vec![slot] } else { filled_mut(part) };
        for slot in slots {
            if let Some(at) = own.get(slot) {
                *slot = Slot(u32::MAX - at);
            }
        }
    });
    expr
}

/// The slots that an expression and its parts fill themselves, each with its number.
fn filled(expr: &mut Expr) -> HashMap<Slot, u32> {
    let mut own = HashMap::new();
    rewrite(expr, &mut |part| {
        for slot in filled_mut(part) {
            let number = own.len() as u32;
            own.entry(*slot).or_insert(number);
        }
    });
    own
}

/// Every slot of the row around it that the value of the expression may depend on.
pub fn free_slots(expr: &Expr) -> Vec<Slot> {
    let own = filled(&mut expr.clone());
    expr.slots().into_iter().filter(|slot| !own.contains_key(slot)).collect()
}

/// The slots that an expression fills itself.
fn filled_mut(expr: &mut Expr) -> Vec<&mut Slot> {
    match expr {
        Expr::Comprehension { slot, .. } | Expr::Quantifier { slot, .. } | Expr::Let { slot, .. } => vec![slot],
        Expr::Reduce { total, slot, .. } => vec![total, slot],
        _ => Vec::new(),
    }
}

/// Every operator, inputs before what stands on them, and the operators of subqueries before the operator they stand in.
pub fn operators_mut(operator: &mut Operator, visit: &mut dyn FnMut(&mut Operator)) {
    for input in operator.children_mut() {
        operators_mut(input, visit);
    }
    expressions_mut(operator, &mut |expr| subqueries_mut(expr, visit));
    visit(operator);
}

fn subqueries_mut(expr: &mut Expr, visit: &mut dyn FnMut(&mut Operator)) {
    if let Expr::Subquery(subquery) = expr {
        operators_mut(&mut subquery.plan, visit);
        if let SubqueryKind::Collect(item) = &mut subquery.kind {
            subqueries_mut(item, visit);
        }
        return;
    }
    children_mut(expr).into_iter().for_each(|child| subqueries_mut(child, visit));
}

/// As `operators_mut`, without those of subqueries.
pub fn operators(operator: &Operator, visit: &mut dyn FnMut(&Operator)) {
    operator.children().into_iter().for_each(|child| operators(child, visit));
    visit(operator);
}

/// The expressions written in one operator, not in its inputs.
pub fn expressions_mut(operator: &mut Operator, visit: &mut dyn FnMut(&mut Expr)) {
    use Operator::*;
    match operator {
        Unit | Argument | Schema(_) | Distinct { .. } | Union { .. } | Optional { .. } | Subquery { .. } => {}
        Call { arguments, .. } => arguments.iter_mut().for_each(visit),
        Join { keys, .. } => keys.iter_mut().flat_map(|(left, right)| [left, right]).for_each(visit),
        Recurse { first, until, .. } => {
            first.iter_mut().for_each(&mut *visit);
            visit(until);
        }
        Match { pattern, .. } => pattern_expressions_mut(pattern, visit),
        Filter { condition, .. } => visit(condition),
        Project { items, .. } => items.iter_mut().for_each(|(_, e)| visit(e)),
        Aggregate { keys, aggregates, .. } => {
            keys.iter_mut().for_each(|(_, e)| visit(e));
            aggregates.iter_mut().flat_map(|(_, a)| &mut a.arguments).for_each(visit);
        }
        Sort { keys, limit, .. } => {
            keys.iter_mut().for_each(|key| visit(&mut key.expr));
            limit.iter_mut().for_each(visit);
        }
        Skip { count, .. } | Limit { count, .. } => visit(count),
        Unwind { list, .. } => visit(list),
        Write { writes, .. } => writes_expressions_mut(writes, visit),
        Merge { pattern, create, on_create, on_match, .. } => {
            pattern_expressions_mut(pattern, visit);
            for writes in [create, on_create, on_match] {
                writes_expressions_mut(writes, visit);
            }
        }
    }
}

fn pattern_expressions_mut(pattern: &mut Pattern, visit: &mut dyn FnMut(&mut Expr)) {
    pattern.nodes.iter_mut().flat_map(|node| &mut node.conditions).for_each(&mut *visit);
    for edge in &mut pattern.edges {
        edge.conditions.iter_mut().for_each(&mut *visit);
        if let Some(chain) = &mut edge.chain {
            chain.edges.iter_mut().chain(&mut chain.nodes).for_each(|(_, e)| visit(e));
            chain.whole.iter_mut().for_each(&mut *visit);
        }
    }
    pattern.conditions.iter_mut().for_each(&mut *visit);
}

fn writes_expressions_mut(writes: &mut [Write], visit: &mut dyn FnMut(&mut Expr)) {
    for write in writes {
        match write {
            Write::CreateNode { properties, .. } | Write::CreateEdge { properties, .. } => {
                properties.iter_mut().for_each(&mut *visit)
            }
            Write::SetProperty { target, value, .. } => {
                visit(target);
                visit(value);
            }
            Write::SetProperties { value, .. } => visit(value),
            Write::RemoveProperty { target, .. } | Write::Delete { target, .. } => visit(target),
            Write::AddLabels { .. } | Write::RemoveLabels { .. } => {}
            Write::ForEach { list, writes, .. } => {
                visit(list);
                writes_expressions_mut(writes, visit);
            }
            Write::Merge { pattern, create, on_create, on_match, then } => {
                pattern_expressions_mut(pattern, visit);
                for writes in [create, on_create, on_match, then] {
                    writes_expressions_mut(writes, visit);
                }
            }
        }
    }
}

/// Every pattern of an operator, those inside FOREACH included.
pub fn patterns_mut(operator: &mut Operator, visit: &mut dyn FnMut(&mut Pattern)) {
    fn of_writes(writes: &mut [Write], visit: &mut dyn FnMut(&mut Pattern)) {
        for write in writes {
            match write {
                Write::ForEach { writes, .. } => of_writes(writes, visit),
                Write::Merge { pattern, create, on_create, on_match, then } => {
                    visit(pattern);
                    [create, on_create, on_match, then].into_iter().for_each(|writes| of_writes(writes, visit));
                }
                _ => {}
            }
        }
    }
    match operator {
        Operator::Match { pattern, .. } => visit(pattern),
        Operator::Merge { pattern, create, on_create, on_match, .. } => {
            visit(pattern);
            [create, on_create, on_match].into_iter().for_each(|writes| of_writes(writes, visit));
        }
        Operator::Write { writes, .. } => of_writes(writes, visit),
        _ => {}
    }
}
