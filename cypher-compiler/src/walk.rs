//! Visiting every expression and operator of a draft. Knows where expressions lie, not what they mean.

use weir_model::Expr;
use weir_model::plan::{Operator, Pattern, Slot, Write};

/// The expressions directly inside `expr`.
pub fn children(expr: &Expr) -> Vec<&Expr> {
    use Expr::*;
    match expr {
        Literal(_) | Slot(_) | Parameter(_) => Vec::new(),
        Property { of, .. } | HasLabels { of, .. } | IsNull { of, .. } | Not(of) | Negate(of) => vec![of],
        Index { of, index } => vec![of, index],
        Slice { of, from, to } => [Some(of), from.as_ref(), to.as_ref()].into_iter().flatten().map(|e| &**e).collect(),
        And(all) | Or(all) | List(all) | Call { arguments: all, .. } => all.iter().collect(),
        Xor(left, right) | Binary { left, right, .. } => vec![left, right],
        Map(entries) => entries.iter().map(|(_, e)| e).collect(),
        Case { branches, otherwise } => branches.iter().flat_map(|(w, t)| [w, t]).chain([&**otherwise]).collect(),
        Comprehension { list, filter, result, .. } => {
            [Some(list), filter.as_ref(), result.as_ref()].into_iter().flatten().map(|e| &**e).collect()
        }
        Quantifier { list, condition, .. } => vec![list, condition],
        Reduce { initial, list, step, .. } => vec![initial, list, step],
    }
}

pub fn children_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    use Expr::*;
    match expr {
        Literal(_) | Slot(_) | Parameter(_) => Vec::new(),
        Property { of, .. } | HasLabels { of, .. } | IsNull { of, .. } | Not(of) | Negate(of) => vec![of],
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
    any(expr, &|e| matches!(e, Expr::Slot(s) if *s == slot))
}

/// Whether two expressions are written the same. The model gives expressions no equality (their functions have none),
/// so the printed form stands for them.
pub fn same(a: &Expr, b: &Expr) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

/// Every operator, inputs before what stands on them.
pub fn operators_mut(operator: &mut Operator, visit: &mut dyn FnMut(&mut Operator)) {
    use Operator::*;
    match operator {
        Unit | Argument => {}
        Union { left, right, .. } => {
            operators_mut(left, visit);
            operators_mut(right, visit);
        }
        Optional { input, inner, .. } => {
            operators_mut(input, visit);
            operators_mut(inner, visit);
        }
        Match { input, .. }
        | Filter { input, .. }
        | Project { input, .. }
        | Aggregate { input, .. }
        | Distinct { input, .. }
        | Sort { input, .. }
        | Skip { input, .. }
        | Limit { input, .. }
        | Unwind { input, .. }
        | Write { input, .. }
        | Merge { input, .. } => operators_mut(input, visit),
    }
    visit(operator);
}

pub fn operators(operator: &Operator, visit: &mut dyn FnMut(&Operator)) {
    if let Some(input) = operator.input() {
        operators(input, visit);
    }
    match operator {
        Operator::Union { right, .. } => operators(right, visit),
        Operator::Optional { inner, .. } => operators(inner, visit),
        _ => {}
    }
    visit(operator);
}

/// The expressions written in one operator, not in its inputs.
pub fn expressions_mut(operator: &mut Operator, visit: &mut dyn FnMut(&mut Expr)) {
    use Operator::*;
    match operator {
        Unit | Argument | Distinct { .. } | Union { .. } | Optional { .. } => {}
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
    pattern.edges.iter_mut().flat_map(|edge| &mut edge.conditions).for_each(&mut *visit);
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
        }
    }
}
