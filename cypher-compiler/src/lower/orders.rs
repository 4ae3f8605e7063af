//! The orders in which a pattern can be visited: one for each way to begin where something has to be looked for.
//!
//! Which of them is the cheapest depends on what the graph holds. That is not known here, and changes while a plan lives, so
//! the plan holds them all, the one that seems best by the text alone first.

use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, Pattern, Slot, Step};

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

enum Found {
    Whole(Vec<Step>, Vec<Origin>),
    /// So far, and then one of these.
    Choice(Vec<usize>),
}

/// Bound nodes, then anchors as soon as their values are known, then edges from what has been visited, and where all of that
/// is at its end, a scan of a node of the smallest part that is left.
pub fn order(pattern: &mut Pattern) {
    let anchors = anchors(pattern);
    let mut whole: Vec<(Vec<Step>, Vec<Origin>)> = Vec::new();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new()];
    while let Some(starts) = waiting.pop() {
        match visit(pattern, &anchors, &starts) {
            Found::Whole(steps, used) => whole.push((steps, used)),
            Found::Choice(choices) => {
                let room = ORDERS_MAX.saturating_sub(whole.len() + waiting.len()).max(1);
                // The first is the next to be taken off.
                waiting.extend(choices.into_iter().take(room).rev().map(|start| [&starts[..], &[start]].concat()));
            }
        }
    }
    let mut whole = whole.into_iter();
    let (steps, used) = whole.next().unwrap_or_default();
    pattern.steps = steps;
    // An anchor takes more for an id than `=` does, such as its text. So that the answer does not depend on which order is taken,
    // all of them use the same anchors.
    let is_alike = |others: &[Origin]| others.len() == used.len() && others.iter().all(|origin| used.contains(origin));
    pattern.orders.extend(whole.filter(|(_, others)| is_alike(others)).map(|(steps, _)| steps));
    for origin in &used {
        if let Origin::Node(node, condition) = origin {
            pattern.nodes[*node].conditions.remove(*condition);
        }
    }
    remove_conditions(pattern, &used);
}

fn visit(pattern: &Pattern, anchors: &[Anchor], starts: &[usize]) -> Found {
    let mut used: Vec<Origin> = Vec::new();
    let mut order = Order::new(pattern);
    for node in (0..pattern.nodes.len()).filter(|node| pattern.nodes[*node].bound) {
        order.enter(Step::Bound { node });
    }
    let mut weighed = starts.iter();
    loop {
        advance(&mut order, anchors, &mut used);
        let anchored = |node| anchors.iter().any(|anchor| anchor.node == node);
        let Some(best) = order.best_start(&anchored) else { return Found::Whole(order.steps, used) };
        match weighed.next() {
            None if starts.len() >= STARTS_WEIGHED_MAX => {
                order.enter(Step::Scan { node: best, lookups: lookups(pattern, &order, best) });
            }
            None => return Found::Choice(choices(pattern, &order, &anchored, best)),
            Some(node) => order.enter(Step::Scan { node: *node, lookups: lookups(pattern, &order, *node) }),
        }
    }
}

/// Goes as far as what is known leads.
fn advance(order: &mut Order<'_>, anchors: &[Anchor], used: &mut Vec<Origin>) {
    loop {
        order.test();
        let is_known = |by: &By| matches!(by, By::Id(id) if order.knows_all(id)) || matches!(by, By::Ends(_));
        let wanted = |anchor: &&Anchor| !order.visited(anchor.node) && is_known(&anchor.by);
        if let Some(anchor) = anchors.iter().find(wanted) {
            let node = anchor.node;
            order.enter(match &anchor.by {
                By::Id(id) => Step::Seek { node, id: id.clone() },
                By::Ends(edge) => Step::Ends { node, edge: *edge },
            });
            if let Origin::Pattern(condition) = anchor.from {
                order.settle(condition);
            }
            used.push(anchor.from);
        } else if !order.expand() {
            return;
        }
    }
}

/// Where to begin next: at the nodes that a label or a lookup finds, or, if there are none, at the most restricted one. Parts
/// whose anchors may become known by visiting another one wait.
fn choices(pattern: &Pattern, order: &Order<'_>, anchored: &dyn Fn(usize) -> bool, best: usize) -> Vec<usize> {
    let waits = order.waiting(anchored);
    let wanted = |node: &usize| {
        !order.visited(*node)
            && waits[*node] == waits[best]
            && (!pattern.nodes[*node].labels.is_empty() || !lookups(pattern, order, *node).is_empty())
    };
    let mut nodes: Vec<usize> = (0..pattern.nodes.len()).filter(wanted).collect();
    match nodes.iter().position(|node| *node == best) {
        Some(at) => nodes.swap(0, at),
        None => nodes.insert(0, best),
    }
    nodes
}

/// The conditions on a node alone, on its one side, whose other side is known.
fn lookups(pattern: &Pattern, order: &Order<'_>, node: usize) -> Vec<Lookup> {
    let slot = pattern.nodes[node].slot;
    let conditions = pattern.nodes[node].conditions.iter().chain(&pattern.conditions);
    let known = conditions.filter_map(|condition| lookup(condition, slot)).filter(|lookup| order.knows_all(&lookup.value));
    known.map(|lookup| Lookup { waits: order.binds_any_of(&lookup.value), ..lookup }).collect()
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

/// Drops the cross conditions that became anchors and renumbers the tests of the others.
fn remove_conditions(pattern: &mut Pattern, used: &[Origin]) {
    let gone: Vec<usize> =
        used.iter().filter_map(|origin| if let Origin::Pattern(i) = origin { Some(*i) } else { None }).collect();
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

/// At most one anchor of each kind and node; the first written wins.
fn anchors(pattern: &Pattern) -> Vec<Anchor> {
    let mut anchors = Vec::new();
    for (node, graph_node) in pattern.nodes.iter().enumerate().filter(|(_, node)| !node.bound) {
        let local = graph_node.conditions.iter().enumerate().find_map(|(i, c)| Some((i, anchored(c, graph_node.slot)?)));
        if let Some((i, id)) = local {
            anchors.push(Anchor { node, by: By::Id(id.clone()), from: Origin::Node(node, i) });
            continue;
        }
        for (i, condition) in pattern.conditions.iter().enumerate() {
            if let Some(id) = anchored(condition, graph_node.slot) {
                anchors.push(Anchor { node, by: By::Id(id.clone()), from: Origin::Pattern(i) });
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

/// The `e` of `id(slot) = e` or `strId(slot) = e`, on either side.
pub fn anchored(condition: &Expr, slot: Slot) -> Option<&Expr> {
    let Expr::Binary { operator: Binary::Equal, left, right } = condition else { return None };
    let is_id = |e: &Expr| match e {
        Expr::Call { function, arguments } if matches!(function.name, "id" | "strId") => {
            matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == slot)
        }
        _ => false,
    };
    let (id, value) = if is_id(left) { (left, right) } else { (right, left) };
    (is_id(id) && !walk::mentions(value, slot)).then_some(&**value)
}
