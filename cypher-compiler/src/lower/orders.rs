//! The orders in which a pattern can be visited: one for each way to begin where something has to be looked for, and where
//! nothing has to be one for each node from which it can go on, or which an index may find.
//!
//! Which of them is the cheapest depends on what the graph holds. That is not known here, and changes while a plan lives, so
//! the plan holds them all, the one that seems best by the text alone first.

use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, Pattern, PatternEdge, PatternNode, Slot, Step};

use super::anchors::names_node;
use super::certain::is_yes_or_no;
use super::facts::is_chance;
use super::order::Order;
use crate::bind::Holds;
use crate::{functions, walk};

/// More ways to begin are not tried: they grow with the product of the parts of a pattern.
const ORDERS_MAX: usize = 8;

/// The beginnings of at most this many parts are weighed; the parts that are left begin where the text alone says.
const STARTS_WEIGHED_MAX: usize = 16;

/// A larger pattern that is entered by what is known goes on as the text says.
const ENTERED_NODES_MAX: usize = 32;

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
    /// There are several ways to begin the next part: one of these.
    Choice(Vec<Start>),
}

/// Where a part is begun.
#[derive(Clone, Copy)]
struct Start {
    node: usize,
    /// At the nodes that a list of ids names, where one does.
    by_list: bool,
}

/// Gives a pattern its orders: bound nodes, then anchors as soon as their values are known, then edges from what has been
/// visited, and where all of that is at its end, the nodes that a list of ids names or a scan of a node, of the smallest part
/// that is left.
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
    if lists == Lists::Lead && pattern.nodes.len() <= ENTERED_NODES_MAX && !pattern.looks_for_nodes() {
        let (others, presumed) = going_on(pattern, &anchors);
        if !others.is_empty() {
            pattern.orders.extend(others);
            pattern.presumed = presumed;
        }
    }
    remove_conditions(pattern, &anchors);
}

fn visit(pattern: &Pattern, anchors: &[Anchor], lists: Lists, starts: &[Start]) -> Found {
    let (mut order, mut used) = (begin(pattern, anchors), Used::default());
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

fn begin<'p>(pattern: &'p Pattern, anchors: &[Anchor]) -> Order<'p> {
    let mut order = Order::new(pattern);
    for anchor in anchors {
        if let Origin::Pattern(condition) = anchor.from {
            order.settle(condition);
        }
    }
    for node in (0..pattern.nodes.len()).filter(|node| pattern.nodes[*node].bound) {
        order.enter(Step::Bound { node });
    }
    order
}

/// The other orders of a pattern that is entered by what is known, and looks for no node; and what they presume. One for each
/// node that it can go on from, where these are several: one may have very many edges, another few. And one for each node that
/// an index may find.
///
/// An order asks of some nodes what another never comes to. So where anything that is asked may fail there is the one order, and
/// whether a query fails does not follow from how many edges a node has. All anchors lead in before it goes on.
fn going_on(pattern: &Pattern, anchors: &[Anchor]) -> (Vec<Vec<Step>>, Vec<(Binary, Expr)>) {
    let (mut begun, mut used) = (begin(pattern, anchors), Used::default());
    enter_known(&mut begun, anchors, &mut used);
    let all_lead = anchors.iter().all(|anchor| used.all.contains(&anchor.from));
    let Some(presumed) = what_is_presumed(pattern, anchors, &begun).filter(|_| all_lead) else { return Default::default() };
    let leading = begun.leading_nodes();
    let from = leading.iter().filter(|_| leading.len() > 1).map(|node| (*node, None));
    let is_sought = |node: usize| !begun.visited(node) && !pattern.nodes[node].labels.is_empty();
    let found = (0..pattern.nodes.len()).filter(|node| is_sought(*node)).filter_map(|node| {
        let lookups: Vec<Lookup> = lookups(pattern, &begun, node).filter(|lookup| lookup.key.is_some()).collect();
        (!lookups.is_empty()).then_some((node, Some(Step::Scan { node, lookups })))
    });
    let (mut ways, mut others) = (vec![way(pattern, &pattern.steps)], Vec::new());
    for (node, found) in from.chain(found) {
        if ways.len() == ORDERS_MAX {
            break;
        }
        let (mut order, mut used) = (begun.clone(), used.clone());
        if let Some(step) = found {
            order.enter(step);
        }
        order.lead_from(node);
        advance(&mut order, anchors, &mut used);
        let other = way(pattern, &order.steps);
        if !ways.contains(&other) {
            ways.push(other);
            others.push(order.steps);
        }
    }
    (others, presumed)
}

/// What an order looks for, and the edges in the order in which it crosses them, each with the end that it crosses it from, where
/// that is more than a check.
fn way(pattern: &Pattern, steps: &[Step]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut visited = vec![false; pattern.nodes.len()];
    let mut way = Vec::new();
    for step in steps {
        match step {
            Step::Bound { node } | Step::Seek { node, .. } | Step::SeekEach { node, .. } | Step::Ends { node, .. } => {
                visited[*node] = true;
            }
            Step::Scan { node, .. } => {
                visited[*node] = true;
                way.push((None, Some(*node)));
            }
            Step::Expand { edge, from } => {
                let PatternEdge { source, target, chain, .. } = &pattern.edges[*edge];
                let is_check = visited[*source] && visited[*target] && chain.is_none();
                visited[*source] = true;
                visited[*target] = true;
                way.push((Some(*edge), (!is_check).then_some(*from)));
            }
            Step::Test { .. } => {}
        }
    }
    way
}

/// What has to work so that nothing of the pattern fails once the anchors are gone: values that a property of a node or an edge
/// is compared with, all of which are known where it goes on. None where something else may fail.
fn what_is_presumed(pattern: &Pattern, anchors: &[Anchor], begun: &Order<'_>) -> Option<Vec<(Binary, Expr)>> {
    // What an earlier clause put there may be no edge.
    if pattern.edges.iter().any(|edge| edge.bound) {
        return None;
    }
    let chains = || pattern.edges.iter().filter_map(|edge| edge.chain.as_ref());
    let known = |slot: Slot| {
        let of_chain = |(of, _): &(Slot, Expr)| *of == slot;
        let is_node = pattern.nodes.iter().any(|node| node.slot == slot);
        let is_edge = pattern.edges.iter().any(|edge| edge.slot == Some(slot) && edge.chain.is_none());
        if is_node || chains().any(|chain| chain.nodes.iter().any(of_chain)) {
            Holds::Node
        } else if is_edge || chains().any(|chain| chain.edges.iter().any(of_chain)) {
            Holds::Edge
        } else {
            Holds::Anything
        }
    };
    let is_left = |origin: Origin| anchors.iter().all(|anchor| anchor.from != origin);
    // Each with the node or edge that it is about, if that is one.
    let mut conditions: Vec<(&Expr, Option<Slot>)> = Vec::new();
    for (node, PatternNode { slot, conditions: own, .. }) in pattern.nodes.iter().enumerate() {
        let own = own.iter().enumerate().filter(|(i, _)| is_left(Origin::Node(node, *i)));
        conditions.extend(own.map(|(_, condition)| (condition, Some(*slot))));
    }
    for edge in &pattern.edges {
        conditions.extend(edge.conditions.iter().map(|condition| (condition, edge.slot)));
    }
    for chain in chains() {
        conditions.extend(chain.edges.iter().chain(&chain.nodes).map(|(slot, condition)| (condition, Some(*slot))));
    }
    let across = pattern.conditions.iter().enumerate().filter(|(i, _)| is_left(Origin::Pattern(*i)));
    conditions.extend(across.map(|(_, condition)| (condition, None)));
    let mut presumed = Vec::new();
    for (condition, slot) in conditions {
        if is_yes_or_no(condition, &known) {
            continue;
        }
        let Lookup { key: Some(_), operator, value, .. } = lookup(condition, slot?)? else { return None };
        if !begun.knows_all(&value) {
            return None;
        }
        presumed.push((operator, value));
    }
    Some(presumed)
}

/// The anchors that an order has come to.
#[derive(Clone, Default)]
struct Used {
    all: Vec<Origin>,
    /// Those whose node had not been visited before.
    entered: Vec<Origin>,
}

/// Goes as far as what is known leads.
fn advance(order: &mut Order<'_>, anchors: &[Anchor], used: &mut Used) {
    loop {
        enter_known(order, anchors, used);
        if !order.expand() {
            return;
        }
    }
}

/// As far as it leads without an edge.
///
/// An anchor takes more for an id than `=` does, such as its text. So each of them is a step, whether its node has been visited
/// or not: what it takes depends neither on which of several is written first nor on where the order begins.
fn enter_known(order: &mut Order<'_>, anchors: &[Anchor], used: &mut Used) {
    loop {
        order.test();
        let is_known = |by: &By| matches!(by, By::Id(id) if order.knows_all(id)) || matches!(by, By::Ends(_));
        let is_left = |anchor: &Anchor| match anchor.from {
            // Whether it leads to the node is seen when it is crossed.
            Origin::Edge => !order.visited(anchor.node),
            from => !used.all.contains(&from),
        };
        let Some(anchor) = anchors.iter().find(|anchor| is_left(anchor) && is_known(&anchor.by)) else { return };
        let node = anchor.node;
        if !order.visited(node) {
            used.entered.push(anchor.from);
        }
        used.all.push(anchor.from);
        order.enter(match &anchor.by {
            By::Id(id) => Step::Seek { node, id: id.clone() },
            By::Ends(edge) => Step::Ends { node, edge: *edge },
        });
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
