//! Which slots of the row expressions and operators look at, and which they fill.

use std::collections::BTreeSet;

use crate::expression::{Expr, SubqueryKind};
use crate::plan::{Operator, Pattern, Slot, Step};

impl Expr {
    /// The expressions directly inside this one, those in the plan of a subquery among them.
    pub fn children(&self) -> Vec<&Expr> {
        use Expr::*;
        match self {
            Literal(_) | Slot(_) | Parameter(_) => Vec::new(),
            Property { of, .. } | HasLabels { of, .. } | IsNull { of, .. } | Not(of) | Negate(of) | Clocked(of) => vec![of],
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
            Let { value, of, .. } => vec![value, of],
            Subquery(subquery) => {
                let mut all = Vec::new();
                subquery.plan.all_expressions(&mut all);
                if let SubqueryKind::Collect(item) = &subquery.kind {
                    all.push(item);
                }
                all
            }
        }
    }

    /// Every slot the value of the expression may depend on, those it fills itself among them. The nodes and edges of the
    /// patterns in a subquery count: the row around it may have bound them.
    pub fn slots(&self) -> Vec<Slot> {
        let mut found = Vec::new();
        self.collect_slots(&mut found);
        found
    }

    fn collect_slots(&self, found: &mut Vec<Slot>) {
        match self {
            Expr::Slot(slot) => found.push(*slot),
            Expr::Subquery(subquery) => subquery.plan.each_below(&mut |operator| {
                if let Operator::Match { pattern, .. } = operator {
                    found.extend(pattern.nodes.iter().map(|node| node.slot));
                    found.extend(pattern.edges.iter().filter_map(|edge| edge.slot));
                }
            }),
            _ => {}
        }
        self.children().into_iter().for_each(|child| child.collect_slots(found));
    }
}

impl Operator {
    /// Every operator, inputs first, without those of subqueries in expressions.
    pub fn each_below<'o>(&'o self, visit: &mut dyn FnMut(&'o Operator)) {
        self.children().into_iter().for_each(|child| child.each_below(visit));
        visit(self);
    }

    /// The expressions of an operator and all below it. What is written counts for nothing.
    pub fn all_expressions<'e>(&'e self, all: &mut Vec<&'e Expr>) {
        self.each_below(&mut |operator| operator.expressions(all));
    }

    /// Those written in this operator.
    pub fn expressions<'e>(&'e self, all: &mut Vec<&'e Expr>) {
        use Operator::*;
        match self {
            Unit | Argument | Schema(_) | Distinct { .. } | Union { .. } | Optional { .. } | Subquery { .. } => {}
            Call { arguments, .. } => all.extend(arguments),
            Recurse { first, until, .. } => all.extend(first.iter().chain([until])),
            Match { pattern, .. } => pattern.expressions(all),
            Filter { condition, .. } => all.push(condition),
            Project { items, .. } => all.extend(items.iter().map(|(_, e)| e)),
            Aggregate { keys, aggregates, .. } => {
                all.extend(keys.iter().map(|(_, e)| e));
                all.extend(aggregates.iter().flat_map(|(_, a)| &a.arguments));
            }
            Sort { keys, limit, .. } => all.extend(keys.iter().map(|key| &key.expr).chain(limit)),
            Skip { count, .. } | Limit { count, .. } => all.push(count),
            Unwind { list, .. } => all.push(list),
            Join { keys, .. } => all.extend(keys.iter().flat_map(|(left, right)| [left, right])),
            // A subquery changes nothing.
            Write { .. } | Merge { .. } => {}
        }
    }

    /// The slots that the operators below, this one included, look at: by expressions, as bound parts of patterns, and as the
    /// columns of DISTINCT.
    pub fn mentioned(&self) -> BTreeSet<Slot> {
        let mut expressions = Vec::new();
        self.all_expressions(&mut expressions);
        let mut found: BTreeSet<Slot> = expressions.into_iter().flat_map(Expr::slots).collect();
        self.each_below(&mut |operator| match operator {
            Operator::Match { pattern, .. } => {
                found.extend(pattern.nodes.iter().map(|node| node.slot));
                found.extend(pattern.edges.iter().filter_map(|edge| edge.slot));
            }
            Operator::Distinct { slots, .. } | Operator::Union { distinct: Some(slots), .. } => found.extend(slots),
            Operator::Recurse { again, .. } => found.extend(again),
            _ => {}
        });
        found
    }

    /// The slots that this operator fills for those above; of a pattern also those that it finds filled already.
    pub fn fills(&self) -> Vec<Slot> {
        match self {
            Operator::Match { pattern, .. } => pattern.slots(),
            Operator::Optional { nulls, .. } | Operator::Join { nulls: Some(nulls), .. } => nulls.clone(),
            Operator::Project { items, .. } => items.iter().map(|(slot, _)| *slot).collect(),
            Operator::Aggregate { keys, aggregates, .. } => {
                keys.iter().map(|(slot, _)| *slot).chain(aggregates.iter().map(|(slot, _)| *slot)).collect()
            }
            Operator::Unwind { into, .. } => vec![*into],
            Operator::Call { yields, .. } => yields.iter().map(|(_, slot)| *slot).collect(),
            Operator::Recurse { state, .. } => state.clone(),
            _ => Vec::new(),
        }
    }

    /// As `fills`, of this operator and all below it.
    pub fn filled(&self) -> BTreeSet<Slot> {
        let mut found = BTreeSet::new();
        self.each_below(&mut |operator| found.extend(operator.fills()));
        found
    }
}

impl Pattern {
    /// Every slot that has its value when the pattern is matched, those that are bound before among them.
    pub fn slots(&self) -> Vec<Slot> {
        let nodes = self.nodes.iter().flat_map(|node| {
            let reads = node.reads.iter().map(|(_, slot)| *slot);
            [node.slot].into_iter().chain(reads).chain(node.reads_all)
        });
        let edges = self.edges.iter().flat_map(|edge| edge.slot.into_iter().chain(edge.reads.iter().map(|(_, slot)| *slot)));
        nodes.chain(edges).chain(self.paths.iter().map(|path| path.slot)).collect()
    }

    /// Whether the slot is of a node or an edge that the input row has, so that matching leaves it as it is.
    pub fn is_bound(&self, slot: Slot) -> bool {
        self.nodes.iter().any(|node| node.bound && node.slot == slot)
            || self.edges.iter().any(|edge| edge.bound && edge.slot == Some(slot))
    }

    fn expressions<'e>(&'e self, all: &mut Vec<&'e Expr>) {
        all.extend(self.nodes.iter().flat_map(|node| &node.conditions));
        for edge in &self.edges {
            all.extend(&edge.conditions);
            if let Some(chain) = &edge.chain {
                all.extend(chain.edges.iter().chain(&chain.nodes).map(|(_, e)| e).chain(&chain.whole));
            }
        }
        all.extend(&self.conditions);
        all.extend(self.steps.iter().filter_map(|step| if let Step::Seek { id, .. } = step { Some(id) } else { None }));
    }
}
