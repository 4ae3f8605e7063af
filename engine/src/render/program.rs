//! Program: the delta join of one pattern, resolved to slots and symbols.
//!
//! Atoms are numbered as in `Pattern::delta`: node i is i, edge j is `nodes + j`. A path that answers for changes of atom
//! a reads atoms of smaller number after the change and atoms of greater number before it, so that a match to which
//! several atoms of one tick contribute is counted exactly once.
//!
//! Constants that a node is compared with are no part of a program (see `constants`), so that queries which differ in nothing
//! else share it.

use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use thiserror::Error;
use weir_model::expression::Binary;
use weir_model::mutation::Tag;
use weir_model::plan::{Atom, Name, Pattern, PatternEdge, PatternNode, Slot};
use weir_model::{Expr, GraphFree, IdScheme, Symbol, Text, Value};

use super::Time;
use super::constants::{self, Compared, Constants};
use super::orders;
use super::results::Row;
use super::walk::holds;
use crate::symbols::Symbols;
use crate::view::Direction;

/// Which side of a change is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Before,
    After,
}

impl Version {
    /// What is read of a change at a tick. Before the first tick is `Time::MAX`.
    pub fn tick(self, time: Time) -> Time {
        match self {
            Version::After => time,
            Version::Before => time.wrapping_sub(1),
        }
    }
}

/// What is asked of a node when it is visited: its local view.
#[derive(Debug)]
pub struct NodeView {
    pub slot: usize,
    pub labels: Vec<Symbol>,
    /// Properties of which nothing is asked but that they are there.
    pub present: Vec<Symbol>,
    pub reads: Vec<(Symbol, usize)>,
    pub reads_all: Option<usize>,
    pub conditions: Vec<Expr>,
    /// The conditions hold for a node of which nothing is known, so being known at all is part of the match.
    pub must_exist: bool,
}

/// An edge of the pattern, and what is asked of it.
#[derive(Debug)]
pub struct EdgeView {
    /// Where the edge is put: itself, or its mark.
    pub slot: Option<usize>,
    /// Of an edge that is only told from others, and whose ends are known, its type and ordinal are put there: a mark costs no
    /// allocation.
    pub marked: bool,
    /// Any of these; empty means any type.
    pub kinds: Vec<Symbol>,
    /// The slots of its ends.
    pub source: usize,
    pub target: usize,
    /// Either direction matches otherwise.
    pub directed: bool,
    pub reads: Vec<(Symbol, usize)>,
    pub conditions: Vec<Expr>,
    pub sieve: Option<Sieve>,
}

/// Conditions that ask for one property of an edge and for nothing else, and do not hold where it is absent. The edges that lead
/// away from a node are then found by that property, and most of them go no further.
#[derive(Debug)]
pub struct Sieve {
    pub key: Symbol,
    pub slot: usize,
    pub conditions: Vec<Expr>,
    /// Sieves with the same name let the same edges through. One has a name where nothing else is asked of the edge, the property
    /// is not asked for elsewhere, and the conditions are settled.
    pub name: Option<Arc<str>>,
}

impl Sieve {
    fn of(view: &EdgeView, width: usize, context: &GraphFree) -> Option<Sieve> {
        let nothing = vec![Value::Null; width];
        let of_read = |(key, slot): &(Symbol, usize)| {
            let alone = |condition: &&Expr| {
                let slots = condition.slots();
                !slots.is_empty() && slots.iter().all(|of| place(*of) == *slot)
            };
            let conditions: Vec<Expr> = view.conditions.iter().filter(alone).cloned().collect();
            let holds_for_nothing = conditions.iter().all(|condition| holds(condition, &nothing, context));
            let is_all = view.directed && view.reads.len() == 1 && conditions.len() == view.conditions.len();
            let says = if is_all { all_settled(&conditions) } else { None };
            let name: Option<Arc<str>> = says.map(|says| format!("{:?} {key:?} {says}", view.kinds).into());
            (!holds_for_nothing).then_some(Sieve { key: *key, slot: *slot, conditions, name })
        };
        if view.kinds.is_empty() { None } else { view.reads.iter().find_map(of_read) }
    }
}

/// What a condition on one property says, wherever that lies, if it is settled: it says the same in every query, and never has no
/// value, as it compares the property with constants. Another one may hold names, which are numbers that mean something in one
/// plan alone, or fail, and then the members are to be told.
fn settled(condition: &Expr) -> Option<String> {
    use Binary::*;
    match condition {
        Expr::Binary { operator, left, right } => match operator {
            Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual | Same | StartsWith | EndsWith | Contains => {
                Some(format!("{operator:?}({}, {})", operand(left)?, operand(right)?))
            }
            In if matches!(**right, Expr::Literal(Value::List(_))) => {
                Some(format!("In({}, {})", operand(left)?, operand(right)?))
            }
            _ => None,
        },
        Expr::IsNull { of, negated } => Some(format!("IsNull({}, {negated})", operand(of)?)),
        Expr::Not(of) => Some(format!("Not({})", settled(of)?)),
        Expr::And(all) => Some(format!("And({})", all_settled(all)?)),
        Expr::Or(all) => Some(format!("Or({})", all_settled(all)?)),
        _ => None,
    }
}

fn all_settled(conditions: &[Expr]) -> Option<String> {
    let all: Option<Vec<String>> = conditions.iter().map(settled).collect();
    Some(all?.join(", "))
}

/// The property, or a constant: what a text says stands in quotes, so that none is taken for anything else.
fn operand(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Slot(_) => Some("it".to_owned()),
        Expr::Literal(value) => Some(format!("{value:?}")),
        _ => None,
    }
}

#[derive(Debug)]
pub enum Move {
    /// At the node in `NodeView::slot`: its labels, reads and conditions.
    Check { node: usize, version: Version },
    /// At the node in `from`: every edge that fits `edge`, binding its other end to `to`.
    Expand(Expansion),
    /// At the source of the edge that was just crossed, where its properties lie: its reads and conditions.
    Inspect { edge: usize, version: Version },
    /// Anywhere.
    Test { condition: Expr },
    /// Goes on at the move of one of these ways: the one whose node has the fewest edges to cross.
    Choose(Vec<Way>),
    /// The row is complete.
    Done,
}

/// One of several edges that could be crossed next.
#[derive(Debug)]
pub struct Way {
    pub edge: usize,
    pub from: usize,
    pub direction: Direction,
    /// The move it begins with.
    pub at: usize,
}

#[derive(Debug)]
pub struct Expansion {
    pub edge: usize,
    pub from: usize,
    pub to: usize,
    pub direction: Direction,
    pub version: Version,
    /// The other end is known: this is a look-up.
    pub bound: bool,
    /// Edges of which both ends are known once this one is crossed.
    pub closing: Vec<Closing>,
    /// Slots of nodes that are found already and must not be found again.
    pub other_nodes: Others,
    /// Edges, by their numbers, that are found already and must not be found again.
    pub other_edges: Others,
}

/// What must not be found again. Of a long path that is mostly all it has found, one more at each move: they share one list,
/// once. A list for each would grow with the cube of the pattern.
#[derive(Clone, Debug)]
pub enum Others {
    Some(Vec<usize>),
    /// What the path finds, in its order; and how many of it, from the first on.
    First(Arc<[usize]>, usize),
}

impl Deref for Others {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Others::Some(those) => those,
            Others::First(found, count) => found.get(..*count).unwrap_or_default(),
        }
    }
}

/// An edge as its end that is known already sees it.
#[derive(Debug)]
pub struct Closing {
    pub edge: usize,
    pub from: usize,
    pub direction: Direction,
    pub version: Version,
}

#[derive(Debug)]
pub struct Path {
    pub atom: Atom,
    /// Without these half edges of the node where the atom changes, its source if it is an edge, there is nothing to walk to.
    pub needs: Vec<Need>,
    /// A walk begins with the first, and ends at `Done`.
    pub moves: Vec<Move>,
}

/// An edge of the pattern as one of its nodes sees it.
#[derive(Debug)]
pub struct Need {
    /// Where it lies among the facts of the node.
    pub ranges: SmallVec<[(Tag, Tag); 4]>,
    pub version: Version,
}

#[derive(Debug)]
pub struct Program {
    pub width: usize,
    pub nodes: Vec<NodeView>,
    pub edges: Vec<EdgeView>,
    pub paths: Vec<Path>,
    /// The edges that walks may cross to find the node of a slot, each once.
    pub crossings: Vec<(usize, usize)>,
    /// Which slots, of which nodes, decide whose matches a row makes.
    pub compared: Compared,
    /// The path that finds all matches of a graph at rest: the one of the last atom.
    pub last: usize,
    pub context: GraphFree,
}

/// A plan that cannot be maintained.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("this query cannot run as a standing query: {0}")]
pub struct RenderError(pub String);

pub fn refuse<T>(what: &str) -> Result<T, RenderError> {
    Err(RenderError(what.to_string()))
}

impl Program {
    /// For a pattern over nothing, with the constants taken out of it. `names` are those of the plan; `asked` are the slots that
    /// somebody else wants to see.
    pub fn new(
        pattern: &Pattern,
        asked: &FxHashSet<usize>,
        (names, width): (&[Text], usize),
        symbols: &Symbols,
        ids: IdScheme,
    ) -> Result<(Program, Constants), RenderError> {
        let making = Making { pattern, asked, names, symbols, width, context: GraphFree::rows(ids, names) };
        let mut nodes = making.node_views();
        let edges = making.edge_views(&nodes)?;
        if !pattern.paths.is_empty() {
            return refuse("a named path in a pattern that is maintained as a whole");
        }
        if pattern.delta.is_empty() {
            return refuse("the plan holds no delta paths");
        }
        let mut paths = Vec::new();
        let shape = orders::Shape::of(pattern, &nodes, &edges);
        for path in &pattern.delta {
            let (needs, moves) = orders::needs_and_moves(&shape, path)?;
            paths.push(Path { atom: path.atom, needs, moves });
        }
        let (last, crossings) = (last_path(&paths, nodes.len()), crossings(&paths));
        let context = making.context;
        let (compared, constants) = constants::take_out(&mut nodes, &context);
        Ok((Program { width, nodes, edges, paths, crossings, compared, last, context }, constants))
    }
}

/// The path of the last atom.
fn last_path(paths: &[Path], nodes: usize) -> usize {
    let number = |path: &Path| match path.atom {
        Atom::Node(i) => i,
        Atom::Edge(j) => nodes + j,
    };
    (0..paths.len()).max_by_key(|index| number(&paths[*index])).unwrap_or(0)
}

fn crossings(paths: &[Path]) -> Vec<(usize, usize)> {
    let crossing = |step: &Move| match step {
        Move::Expand(Expansion { edge, to, bound: false, .. }) => Some((*edge, *to)),
        _ => None,
    };
    let mut crossings: Vec<(usize, usize)> = paths.iter().flat_map(|path| &path.moves).filter_map(crossing).collect();
    crossings.sort_unstable();
    crossings.dedup();
    crossings
}

/// What the views of a pattern are made with.
struct Making<'m> {
    pattern: &'m Pattern,
    /// The slots that somebody else wants to see.
    asked: &'m FxHashSet<usize>,
    names: &'m [Text],
    symbols: &'m Symbols,
    width: usize,
    context: GraphFree,
}

impl Making<'_> {
    fn symbol(&self, name: &Name) -> Symbol {
        self.symbols.intern(&self.names[name.0 as usize])
    }

    fn reads(&self, reads: &[(Name, Slot)]) -> Vec<(Symbol, usize)> {
        reads.iter().map(|(name, slot)| (self.symbol(name), place(*slot))).collect()
    }

    fn node_views(&self) -> Vec<NodeView> {
        let mut nodes: Vec<NodeView> = self.pattern.nodes.iter().map(|node| self.node_view(node)).collect();
        only_present(&mut nodes, self.pattern, self.asked);
        nodes
    }

    fn node_view(&self, node: &PatternNode) -> NodeView {
        let mut view = NodeView {
            slot: place(node.slot),
            labels: node.labels.iter().map(|label| self.symbol(label)).collect(),
            present: Vec::new(),
            reads: self.reads(&node.reads),
            reads_all: node.reads_all.map(place),
            conditions: node.conditions.clone(),
            must_exist: false,
        };
        let stands_alone = self.pattern.edges.is_empty() && view.labels.is_empty();
        view.must_exist = stands_alone && holds_for_nothing(&view, self.width, &self.context);
        view
    }

    fn edge_views(&self, nodes: &[NodeView]) -> Result<Vec<EdgeView>, RenderError> {
        let told_apart: FxHashSet<usize> = self.pattern.distinct_edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let mut edges = Vec::new();
        for (number, edge) in self.pattern.edges.iter().enumerate() {
            if edge.chain.is_some() || edge.bound {
                return refuse("a relationship of variable length in a pattern that is maintained as a whole");
            }
            let view = self.edge_view(number, edge, nodes);
            let is_asked = told_apart.contains(&number) || !view.reads.is_empty() || !view.conditions.is_empty();
            if view.slot.is_none() && is_asked {
                return refuse("something is asked of an edge that is put nowhere");
            }
            edges.push(view);
        }
        Ok(edges)
    }

    fn edge_view(&self, number: usize, edge: &PatternEdge, nodes: &[NodeView]) -> EdgeView {
        let mut kinds: Vec<Symbol> = edge.kinds.iter().map(|kind| self.symbol(kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut view = EdgeView {
            slot: edge.slot.map(place),
            marked: false,
            kinds,
            source: nodes[edge.source].slot,
            target: nodes[edge.target].slot,
            directed: edge.directed,
            reads: self.reads(&edge.reads),
            conditions: edge.conditions.clone(),
            sieve: None,
        };
        view.marked = view.directed && view.slot.is_some_and(|slot| !self.is_asked(slot, number, &view.conditions));
        view.sieve = Sieve::of(&view, self.width, &self.context);
        if let Some(sieve) = &mut view.sieve
            && self.is_asked(sieve.slot, number, &[])
        {
            sieve.name = None;
        }
        view
    }

    /// Whether a slot is asked for by anybody but the edge with this number, or by these conditions of its own.
    fn is_asked(&self, slot: usize, edge: usize, own: &[Expr]) -> bool {
        let Pattern { nodes, edges, conditions, .. } = self.pattern;
        let others = edges.iter().enumerate().filter(|(other, _)| *other != edge);
        let conditions = others.flat_map(|(_, other)| &other.conditions).chain(conditions).chain(own);
        let mut conditions = conditions.chain(nodes.iter().flat_map(|node| &node.conditions));
        self.asked.contains(&slot) || conditions.any(|condition| condition.slots().iter().any(|of| place(*of) == slot))
    }
}

impl Program {
    /// Programs with the same name are the same. It says what the paths are made of: they themselves are a hundred times as long.
    pub fn name(&self, pattern: &Pattern) -> String {
        let Program { width, nodes, edges, paths: _, crossings: _, compared, last: _, context } = self;
        let Pattern { conditions, distinct_edges, distinct_nodes, delta, .. } = pattern;
        format!(
            "{width} {nodes:?} {edges:?} {compared:?} {context:?} {conditions:?} {distinct_edges:?} {distinct_nodes:?} {delta:?}"
        )
    }
}

impl Program {
    /// Which row it is that an expression has no value for, as people are told it: the nodes that it looks at, be it by their
    /// edges, and the values. What is not found yet may hold what was found before, so only of a row that is complete it is all
    /// nodes.
    pub fn told(&self, expr: &Expr, row: &[Value], is_complete: bool) -> Row {
        let looked_at: Vec<usize> = expr.slots().into_iter().map(place).collect();
        let looks_at = |slot: usize| looked_at.contains(&slot);
        let reads = |reads: &[(Symbol, usize)]| reads.iter().any(|(_, slot)| looks_at(*slot));
        let of_edges = self.edges.iter().filter(|edge| edge.slot.is_some_and(looks_at) || reads(&edge.reads));
        let ends: Vec<usize> = of_edges.flat_map(|edge| [edge.source, edge.target]).collect();
        let is_told = |node: &&NodeView| {
            let of_node = looks_at(node.slot) || node.reads_all.is_some_and(looks_at) || reads(&node.reads);
            is_complete || of_node || ends.contains(&node.slot)
        };
        let mut slots: Vec<usize> = self.nodes.iter().filter(is_told).map(|node| node.slot).collect();
        for slot in looked_at {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        // Nothing stands where the expression names something itself, as elements of a list.
        let values = slots.into_iter().filter_map(|slot| row.get(slot)).filter(|value| **value != Value::Null);
        Row(values.cloned().collect())
    }
}

pub fn place(slot: Slot) -> usize {
    slot.0 as usize
}

/// Takes out the reads of properties of which no condition asks more than `IS NOT NULL`: then no value has to be made of them,
/// and another value is no change.
fn only_present(nodes: &mut [NodeView], pattern: &Pattern, asked: &FxHashSet<usize>) {
    fn present(condition: &Expr) -> Option<usize> {
        match condition {
            Expr::IsNull { of, negated: true } => match **of {
                Expr::Slot(slot) => Some(place(slot)),
                _ => None,
            },
            _ => None,
        }
    }
    let mut asked = asked.clone();
    let more = nodes.iter().flat_map(|node| &node.conditions).filter(|condition| present(condition).is_none());
    let elsewhere = pattern.edges.iter().flat_map(|edge| &edge.conditions).chain(&pattern.conditions);
    asked.extend(more.chain(elsewhere).flat_map(Expr::slots).map(place));
    for node in nodes {
        let NodeView { present: keys, reads, conditions, .. } = node;
        reads.retain(|(key, slot)| {
            let only = !asked.contains(slot) && conditions.iter().any(|condition| present(condition) == Some(*slot));
            if only {
                keys.push(*key);
                conditions.retain(|condition| present(condition) != Some(*slot));
            }
            !only
        });
    }
}

/// Whether the conditions may hold for a node of which nothing is known. Those that ask for its id may hold for one of them,
/// whatever else they ask.
fn holds_for_nothing(view: &NodeView, width: usize, context: &GraphFree) -> bool {
    let nobody = vec![Value::Null; width];
    view.conditions.iter().all(|condition| {
        let asks_for_id = condition.slots().iter().any(|slot| place(*slot) == view.slot);
        asks_for_id || condition.evaluate(&nobody, context).map_or(true, |value| value.holds())
    })
}
