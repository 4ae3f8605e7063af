//! The orders in which a pattern can be visited: one for each way to begin where something has to be looked for.
//!
//! Which of them is the cheapest depends on what the graph holds. That is not known here, and changes while a plan lives, so
//! the plan holds them all, the one that seems best by the text alone first.

use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, Pattern, PatternNode, Slot, Step};

use super::anchors::names_node;
use super::facts::is_chance;
use super::order::Order;
use crate::{functions, walk};

/// More ways to begin are not tried: they grow with the product of the parts of a pattern.
const ORDERS_MAX: usize = 8;

/// Of so many parts the beginnings are weighed; what is left is begun where the text alone says.
const STARTS_WEIGHED_MAX: usize = 16;

/// A way to enter the graph at `node` without looking for it.
struct Anchor {
    node: usize,
    by: By,
    from: Origin,
}

enum By {
    Id(Expr),
    /// Either end of this edge, which the input row holds.
    Ends(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// `nodes[node].conditions[i]`
    Node(usize, usize),
    /// `conditions[i]`
    Pattern(usize),
    /// The bound edge at the node.
    Edge,
}

/// What becomes of conditions that name a node by a list of ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// A pattern is entered by them.
    Lead,
    /// They are conditions like others: what is maintained files nodes by what it scans for.
    AreTested,
}

enum Found {
    /// The steps, and the anchors by which they enter the graph.
    Whole(Vec<Step>, Vec<Origin>),
    /// So far, and then one of these.
    Choice(Vec<Start>),
}

/// Where a part is begun.
#[derive(Clone, Copy)]
struct Start {
    node: usize,
    /// At the nodes that a list of ids names, where one does.
    by_list: bool,
}

/// Bound nodes, then anchors as soon as their values are known, then edges from what has been visited, and where all of that
/// is at its end, the nodes that a list of ids names or a scan of a node, of the smallest part that is left.
pub fn order(pattern: &mut Pattern, lists: Lists) {
    let anchors = anchors(pattern);
    let mut whole: Vec<(Vec<Step>, Vec<Origin>)> = Vec::new();
    let mut waiting: Vec<Vec<Start>> = vec![Vec::new()];
    while let Some(starts) = waiting.pop() {
        match visit(pattern, &anchors, lists, &starts) {
            Found::Whole(steps, used) => whole.push((steps, used)),
            Found::Choice(choices) => {
                let room = ORDERS_MAX.saturating_sub(whole.len() + waiting.len()).max(1);
                // The first is the next to be taken off.
                waiting.extend(choices.into_iter().take(room).rev().map(|start| [&starts[..], &[start]].concat()));
            }
        }
    }
    let mut whole = whole.into_iter();
    let (steps, entered) = whole.next().unwrap_or_default();
    pattern.steps = steps;
    // A node that is entered by its id may be one of which nothing is known, a node that is scanned is none of those. So that the
    // answer does not depend on which order is taken, all of them enter by the same anchors.
    let is_alike = |others: &[Origin]| others.len() == entered.len() && others.iter().all(|origin| entered.contains(origin));
    pattern.orders.extend(whole.filter(|(_, others)| is_alike(others)).map(|(steps, _)| steps));
    remove_conditions(pattern, &anchors);
}

fn visit(pattern: &Pattern, anchors: &[Anchor], lists: Lists, starts: &[Start]) -> Found {
    let mut used = Used::default();
    let mut order = Order::new(pattern);
    for anchor in anchors {
        if let Origin::Pattern(condition) = anchor.from {
            order.settle(condition);
        }
    }
    for node in (0..pattern.nodes.len()).filter(|node| pattern.nodes[*node].bound) {
        order.enter(Step::Bound { node });
    }
    let mut weighed = starts.iter();
    loop {
        advance(&mut order, anchors, &mut used);
        let anchored = |node| anchors.iter().any(|anchor| anchor.node == node);
        // Which conditions of a node are left is not known where some of them become anchors.
        let may_lead = |node: usize| lists == Lists::Lead && !anchored(node);
        let listed = |node| may_lead(node) && naming(pattern, &order, node).is_some();
        let Some(best) = order.best_start(&anchored, &listed) else { return Found::Whole(order.steps, used.entered) };
        let start = match weighed.next() {
            None if starts.len() >= STARTS_WEIGHED_MAX => Start { node: best, by_list: true },
            None => return Found::Choice(choices(pattern, &order, &anchored, &listed, best)),
            Some(start) => *start,
        };
        let by_list = if start.by_list && may_lead(start.node) { seek_each(pattern, &order, start.node) } else { None };
        let scan = || Step::Scan { node: start.node, lookups: lookups(pattern, &order, start.node).collect() };
        let step = by_list.unwrap_or_else(scan);
        order.enter(step);
    }
}

/// The anchors that an order has come to.
#[derive(Default)]
struct Used {
    all: Vec<Origin>,
    /// Those whose node had not been visited before.
    entered: Vec<Origin>,
}

/// Goes as far as what is known leads.
///
/// An anchor takes more for an id than `=` does, such as its text. So each of them is a step, whether its node has been visited
/// or not: what it takes depends neither on which of several is written first nor on where the order begins.
fn advance(order: &mut Order<'_>, anchors: &[Anchor], used: &mut Used) {
    loop {
        order.test();
        let is_known = |by: &By| matches!(by, By::Id(id) if order.knows_all(id)) || matches!(by, By::Ends(_));
        let is_left = |anchor: &Anchor| match anchor.from {
            // Whether it leads to the node is seen when it is crossed.
            Origin::Edge => !order.visited(anchor.node),
            from => !used.all.contains(&from),
        };
        if let Some(anchor) = anchors.iter().find(|anchor| is_left(anchor) && is_known(&anchor.by)) {
            let node = anchor.node;
            if !order.visited(node) {
                used.entered.push(anchor.from);
            }
            used.all.push(anchor.from);
            order.enter(match &anchor.by {
                By::Id(id) => Step::Seek { node, id: id.clone() },
                By::Ends(edge) => Step::Ends { node, edge: *edge },
            });
        } else if !order.expand() {
            return;
        }
    }
}

/// Where to begin next: at the nodes that a list of ids, a label or a lookup finds, or, if there are none, at the most restricted
/// one. Parts whose anchors may become known by visiting another one wait. A node with both a list of ids and a lookup by a
/// property may be found by either: which are fewer is not known here.
fn choices(
    pattern: &Pattern,
    order: &Order<'_>,
    anchored: &dyn Fn(usize) -> bool,
    listed: &dyn Fn(usize) -> bool,
    best: usize,
) -> Vec<Start> {
    let waits = order.waiting(anchored);
    let wanted = |node: &usize| {
        !order.visited(*node)
            && waits[*node] == waits[best]
            && (!pattern.nodes[*node].labels.is_empty() || lookups(pattern, order, *node).next().is_some() || listed(*node))
    };
    let mut nodes: Vec<usize> = (0..pattern.nodes.len()).filter(wanted).collect();
    match nodes.iter().position(|node| *node == best) {
        Some(at) => nodes.swap(0, at),
        None => nodes.insert(0, best),
    }
    let ways = |node: usize| {
        let has_both = listed(node) && lookups(pattern, order, node).any(|lookup| lookup.key.is_some());
        [Some(Start { node, by_list: true }), has_both.then_some(Start { node, by_list: false })].into_iter().flatten()
    };
    nodes.into_iter().flat_map(ways).collect()
}

/// The first condition that names nodes by values that are known: `id(n) IN e`, or an OR of such and of `id(n) = e`. With its
/// place among those of the node, if it is one of them.
fn naming<'p>(pattern: &'p Pattern, order: &Order<'_>, node: usize) -> Option<(Option<usize>, &'p Expr)> {
    let PatternNode { slot, conditions, .. } = &pattern.nodes[node];
    let own = conditions.iter().enumerate().map(|(i, condition)| (Some(i), condition));
    let mut conditions = own.chain(pattern.conditions.iter().map(|condition| (None, condition)));
    conditions.find(|(_, condition)| names(condition, *slot, &mut |_, _, value| order.knows_all(value)))
}

/// The nodes that it names.
fn seek_each(pattern: &Pattern, order: &Order<'_>, node: usize) -> Option<Step> {
    let (met, condition) = naming(pattern, order, node)?;
    let mut ids = Vec::new();
    names(condition, pattern.nodes[node].slot, &mut |of, operator, value| {
        let waits = order.binds_any_of(value);
        ids.push(Lookup { of: of.clone(), key: None, operator, value: value.clone(), waits });
        true
    });
    Some(Step::SeekEach { node, ids, met })
}

/// Whether a condition holds for no node but those of certain ids, and `each` of the comparisons that say so is as wanted.
fn names(condition: &Expr, slot: Slot, each: &mut dyn FnMut(&Expr, Binary, &Expr) -> bool) -> bool {
    let is_id = |e: &Expr| match e {
        Expr::Call { function, arguments } if matches!(function.name, "id" | "strId" | "elementId") => {
            matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == slot)
        }
        _ => false,
    };
    let (operator, of, value) = match condition {
        Expr::Or(parts) => return parts.iter().all(|part| names(part, slot, each)),
        Expr::Binary { operator: operator @ (Binary::Equal | Binary::In), left, right } if is_id(left) => {
            (*operator, left, right)
        }
        Expr::Binary { operator: operator @ Binary::Equal, left, right } if is_id(right) => (*operator, right, left),
        _ => return false,
    };
    !walk::mentions(value, slot) && !walk::any(value, &is_by_chance) && each(of, operator, value)
}

/// The conditions on a node alone, on its one side, whose other side is known.
fn lookups(pattern: &Pattern, order: &Order<'_>, node: usize) -> impl Iterator<Item = Lookup> {
    let slot = pattern.nodes[node].slot;
    let conditions = pattern.nodes[node].conditions.iter().chain(&pattern.conditions);
    conditions
        .filter_map(move |condition| lookup(condition, slot))
        .filter(move |lookup| order.knows_all(&lookup.value))
        .map(move |lookup| Lookup { waits: order.binds_any_of(&lookup.value), ..lookup })
}

fn lookup(condition: &Expr, slot: Slot) -> Option<Lookup> {
    use Binary::*;
    let Expr::Binary { operator, left, right } = condition else { return None };
    let turned = match operator {
        Equal | Same => Some(*operator),
        Less => Some(Greater),
        LessOrEqual => Some(GreaterOrEqual),
        Greater => Some(Less),
        GreaterOrEqual => Some(LessOrEqual),
        _ => None,
    };
    let own = |e: &Expr| {
        let slots = walk::free_slots(e);
        !slots.is_empty() && slots.iter().all(|of| *of == slot)
    };
    let (of, operator, value) = match (own(left), own(right), operator) {
        (true, false, Equal | Same | Less | LessOrEqual | Greater | GreaterOrEqual | In | StartsWith) => (left, *operator, right),
        (false, true, _) => (right, turned?, left),
        _ => return None,
    };
    let key = match &**of {
        Expr::Property { of, key } if matches!(**of, Expr::Slot(_)) => Some(*key),
        // Only equality is looked up without an index, and only of what stays the same.
        _ if operator == Equal && !walk::any(of, &is_by_chance) => None,
        _ => return None,
    };
    let known = !walk::mentions(value, slot) && !walk::any(value, &is_by_chance);
    known.then(|| Lookup { of: (**of).clone(), key, operator, value: (**value).clone(), waits: false })
}

fn is_by_chance(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { function, .. } if is_chance(function)) || matches!(expr, Expr::Subquery(_))
}

/// Drops the conditions that became anchors and renumbers the tests of the others.
fn remove_conditions(pattern: &mut Pattern, anchors: &[Anchor]) {
    let is_gone = |origin: Origin| anchors.iter().any(|anchor| anchor.from == origin);
    for (node, graph_node) in pattern.nodes.iter_mut().enumerate() {
        let mut i = 0;
        graph_node.conditions.retain(|_| {
            i += 1;
            !is_gone(Origin::Node(node, i - 1))
        });
    }
    let gone: Vec<usize> = (0..pattern.conditions.len()).filter(|i| is_gone(Origin::Pattern(*i))).collect();
    if gone.is_empty() {
        return;
    }
    for step in pattern.orders.iter_mut().chain([&mut pattern.steps]).flatten() {
        if let Step::Test { condition } = step {
            *condition -= gone.iter().filter(|i| **i < *condition).count();
        }
    }
    let mut i = 0;
    pattern.conditions.retain(|_| {
        i += 1;
        !gone.contains(&(i - 1))
    });
}

/// Of each node first the conditions on it alone, in the order of the text; the bound edges come last.
fn anchors(pattern: &Pattern) -> Vec<Anchor> {
    let mut anchors = Vec::new();
    for (node, graph_node) in pattern.nodes.iter().enumerate().filter(|(_, node)| !node.bound) {
        let own = graph_node.conditions.iter().enumerate().map(|(i, condition)| (Origin::Node(node, i), condition));
        let across = pattern.conditions.iter().enumerate().map(|(i, condition)| (Origin::Pattern(i), condition));
        for (from, condition) in own.chain(across) {
            if let Some(id) = anchored(condition, graph_node.slot) {
                anchors.push(Anchor { node, by: By::Id(id.clone()), from });
            }
        }
    }
    for (index, edge) in pattern.edges.iter().enumerate().filter(|(_, edge)| edge.bound && edge.chain.is_none()) {
        let ends = [(edge.source, "startNode"), (edge.target, "endNode")].into_iter();
        let mut free = ends.filter(|(node, _)| !pattern.nodes[*node].bound);
        if !edge.directed {
            anchors.extend(free.next().map(|(node, _)| Anchor { node, by: By::Ends(index), from: Origin::Edge }));
            continue;
        }
        for (node, function) in free {
            if let (Some(function), Some(slot)) = (functions::find(function), edge.slot) {
                let id = Expr::Call { function, arguments: vec![Expr::Slot(slot)] };
                anchors.push(Anchor { node, by: By::Id(id), from: Origin::Edge });
            }
        }
    }
    anchors
}

/// The `e` of `id(slot) = e` or `strId(slot) = e`, on either side, and of what `anchors` makes of them.
pub fn anchored(condition: &Expr, slot: Slot) -> Option<&Expr> {
    let Expr::Binary { operator: Binary::Equal, left, right } = condition else { return None };
    let is_id = |e: &Expr| match e {
        Expr::Call { function, arguments } if matches!(function.name, "id" | "strId") => {
            matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == slot)
        }
        _ => false,
    };
    let is_node = |e: &Expr| matches!(e, Expr::Slot(of) if *of == slot);
    let is_written_out = names_node(right) && is_node(left);
    let (id, value) = if is_id(left) || is_written_out { (left, right) } else { (right, left) };
    ((is_id(id) || is_written_out) && !walk::mentions(value, slot)).then_some(&**value)
}
