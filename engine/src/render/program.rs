//! Program: the delta join of a standing query, resolved to slots and symbols.
//!
//! Atoms are numbered as in `Pattern::delta`: node i is i, edge j is `nodes + j`. A path that answers for changes of atom
//! a reads atoms of smaller number after the change and atoms of greater number before it, so that a match to which
//! several atoms of one tick contribute is counted exactly once.

use thiserror::Error;
use weir_model::mutation::{Kind, Tag};
use weir_model::plan::{Atom, DeltaPath, Operator, Pattern, Plan, Slot, Step};
use weir_model::{Expr, IdScheme, NodeId, Symbol, Text, Value};

use super::walk::GraphFree;
use crate::symbols::Symbols;

/// Which side of a change is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Before,
    After,
}

/// What is asked of a node when it is visited: its local view.
#[derive(Debug)]
pub struct NodeView {
    pub slot: usize,
    pub labels: Vec<Symbol>,
    pub reads: Vec<(Symbol, usize)>,
    pub reads_all: Option<usize>,
    pub conditions: Vec<Expr>,
    /// The conditions hold for a node of which nothing is known, so being known at all is part of the match.
    pub must_exist: bool,
}

#[derive(Debug)]
pub enum Move {
    /// At the node in `NodeView::slot`: its labels, reads and conditions.
    Check { node: usize, version: Version },
    /// At the node in `from`: every edge of these types, binding its other end to `to`.
    Expand { from: usize, to: usize, outgoing: bool, kinds: Vec<Symbol>, version: Version, bound: bool, differs: Vec<usize> },
    /// Anywhere.
    Test { condition: Expr },
}

#[derive(Debug)]
pub struct Path {
    pub atom: Atom,
    pub moves: Vec<Move>,
}

#[derive(Debug)]
pub struct Program {
    pub width: usize,
    pub nodes: Vec<NodeView>,
    /// Edge types, source slot, target slot, by edge of the pattern.
    pub edges: Vec<(Vec<Symbol>, usize, usize)>,
    pub paths: Vec<Path>,
    /// Conditions on a complete row.
    pub filters: Vec<Expr>,
    /// What is made of a complete row.
    pub columns: Vec<(Text, Expr)>,
    /// Each distinct row counts once (mode DistinctId).
    pub distinct: bool,
    /// How often a row can move from node to node: how many operators follow one another.
    pub hops: usize,
    /// The path that finds all matches of a graph at rest: the one of the last atom.
    pub last: usize,
    pub context: GraphFree,
}

/// A plan that cannot be maintained.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("this query cannot run as a standing query: {0}")]
pub struct RenderError(pub String);

fn refuse<T>(what: &str) -> Result<T, RenderError> {
    Err(RenderError(what.to_string()))
}

impl Program {
    pub fn new(plan: &Plan, symbols: &Symbols, ids: IdScheme) -> Result<Program, RenderError> {
        let mut filters = Vec::new();
        let mut distinct = false;
        let mut operator = &plan.root;
        if let Operator::Distinct { input, .. } = operator {
            distinct = true;
            operator = input;
        }
        let Operator::Project { input, items } = operator else { return refuse("a RETURN that is more than a list of items") };
        let item = |slot: &Slot| items.iter().find(|(into, _)| into == slot).map_or(Expr::Slot(*slot), |(_, expr)| expr.clone());
        let columns = plan.columns.iter().map(|(name, slot)| (name.clone(), item(slot))).collect();
        let mut operator = &**input;
        while let Operator::Filter { input, condition } = operator {
            filters.push(condition.clone());
            operator = input;
        }
        let pattern = match operator {
            Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => pattern,
            _ => return refuse("more than one MATCH with conditions and a RETURN"),
        };
        let resolve = |name: &weir_model::plan::Name| symbols.intern(&plan.names[name.0 as usize]);
        let context = GraphFree { ids, names: plan.names.clone() };
        let mut nodes = Vec::new();
        for node in &pattern.nodes {
            let mut view = NodeView {
                slot: place(node.slot),
                labels: node.labels.iter().map(resolve).collect(),
                reads: node.reads.iter().map(|(name, slot)| (resolve(name), place(*slot))).collect(),
                reads_all: node.reads_all.map(place),
                conditions: node.conditions.clone(),
                must_exist: false,
            };
            view.must_exist =
                pattern.edges.is_empty() && view.labels.is_empty() && holds_for_nothing(&view, plan.width, &context);
            nodes.push(view);
        }
        let mut edges = Vec::new();
        for edge in &pattern.edges {
            if !edge.directed {
                return refuse("an edge without a direction");
            }
            if edge.kinds.is_empty() {
                return refuse("an edge without a type");
            }
            if edge.chain.is_some() {
                return refuse("a relationship of variable length");
            }
            if edge.slot.is_some() || !edge.conditions.is_empty() || !edge.reads.is_empty() {
                return refuse("a variable or properties of an edge");
            }
            edges.push((edge.kinds.iter().map(resolve).collect(), nodes[edge.source].slot, nodes[edge.target].slot));
        }
        if !pattern.distinct_edges.is_empty() || !pattern.paths.is_empty() {
            return refuse("a named path, or two edges that must differ");
        }
        if pattern.delta.is_empty() {
            return refuse("the plan holds no delta paths");
        }
        let mut paths = Vec::new();
        for path in &pattern.delta {
            paths.push(Path { atom: path.atom, moves: moves(pattern, path, &nodes, &edges)? });
        }
        let number = |path: &Path| match path.atom {
            Atom::Node(i) => i,
            Atom::Edge(j) => nodes.len() + j,
        };
        let last = (0..paths.len()).max_by_key(|index| number(&paths[*index])).unwrap_or(0);
        let hops =
            paths.iter().map(|path| path.moves.iter().filter(|m| !matches!(m, Move::Test { .. })).count()).max().unwrap_or(0);
        Ok(Program { width: plan.width, nodes, edges, paths, filters, columns, distinct, hops, last, context })
    }
}

fn place(slot: Slot) -> usize {
    slot.0 as usize
}

/// Whether the conditions may hold for a node of which nothing is known. Those that ask for its id may hold for one of them: they
/// say something else, or fail, when there is no node.
fn holds_for_nothing(view: &NodeView, width: usize, context: &GraphFree) -> bool {
    let nobody = vec![Value::Null; width];
    let mut anybody = nobody.clone();
    anybody[view.slot] = Value::Node(NodeId::default());
    view.conditions.iter().all(|condition| match (condition.evaluate(&nobody, context), condition.evaluate(&anybody, context)) {
        (Ok(x), Ok(y)) if x == y => x.is_true(),
        _ => true,
    })
}

fn moves(
    pattern: &Pattern,
    path: &DeltaPath,
    nodes: &[NodeView],
    edges: &[(Vec<Symbol>, usize, usize)],
) -> Result<Vec<Move>, RenderError> {
    let atom = match path.atom {
        Atom::Node(i) => i,
        Atom::Edge(j) => nodes.len() + j,
    };
    let version = |other: usize| if other < atom { Version::After } else { Version::Before };
    let mut visited: Vec<usize> = Vec::new();
    let mut moves = Vec::new();
    let check = |node: usize, moves: &mut Vec<Move>| {
        let view = &nodes[node];
        if !(view.labels.is_empty() && view.reads.is_empty() && view.reads_all.is_none() && view.conditions.is_empty()) {
            moves.push(Move::Check { node, version: version(node) });
        }
    };
    match path.atom {
        Atom::Node(node) => visited.push(node),
        Atom::Edge(edge) => {
            let edge = &pattern.edges[edge];
            for node in [edge.source, edge.target] {
                if !visited.contains(&node) {
                    visited.push(node);
                    check(node, &mut moves);
                }
            }
        }
    }
    for step in &path.steps {
        match step {
            Step::Expand { edge, from } => {
                let shape = &pattern.edges[*edge];
                let outgoing = shape.source == *from;
                let to = if outgoing { shape.target } else { shape.source };
                let bound = visited.contains(&to);
                let differs = pattern.distinct_nodes.iter().filter_map(|(a, b)| match (*a == to, *b == to) {
                    (true, false) if visited.contains(b) => Some(nodes[*b].slot),
                    (false, true) if visited.contains(a) => Some(nodes[*a].slot),
                    _ => None,
                });
                moves.push(Move::Expand {
                    from: nodes[*from].slot,
                    to: nodes[to].slot,
                    outgoing,
                    kinds: edges[*edge].0.clone(),
                    version: version(nodes.len() + *edge),
                    bound,
                    differs: if bound { Vec::new() } else { differs.collect() },
                });
                if !bound {
                    visited.push(to);
                    check(to, &mut moves);
                }
            }
            Step::Test { condition } => moves.push(Move::Test { condition: pattern.conditions[*condition].clone() }),
            _ => return refuse("a pattern whose parts are not connected"),
        }
    }
    Ok(moves)
}

/// The tags whose changes can change the local view of a node.
pub fn concerns(view: &NodeView, tag: Tag) -> bool {
    match tag.kind() {
        _ if view.must_exist => true,
        Kind::Label => view.labels.contains(&tag.symbol()),
        Kind::Property => view.reads_all.is_some() || view.reads.iter().any(|(key, _)| *key == tag.symbol()),
        _ => false,
    }
}
