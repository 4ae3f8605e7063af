//! Plan: a query as data. Compiled once, read by `evaluate` (rows and mutations over a view), `render` (a dataflow) and
//! `explain` (people). Nothing a reader would have to discover by analysis is left out: the order in which a pattern is
//! visited, the paths of the delta join, which slots a node's properties land in, all stand here.
//!
//! A row is an array of `width` values; a `Slot` is a place in it. Names (property keys, labels, edge types) are indices
//! into `Plan::names`, so that an engine resolves each once and not once a row.

use std::sync::Arc;

use crate::expression::{Aggregate, Binary, Expr};
use crate::procedure::Procedure;
use crate::schema::Schema;
use crate::value::Text;

/// A place in the row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

/// An index into `Plan::names`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(pub u32);

#[derive(Clone, Debug)]
pub struct Plan {
    pub root: Operator,
    /// Columns of the answer in order, with the slots that hold them. Empty for a query that ends in a write.
    pub columns: Vec<(Text, Slot)>,
    /// Length of a row.
    pub width: usize,
    /// By slot the variable it is, for people; empty where it is none, or has had several names. Several variables may have one.
    pub variables: Vec<Text>,
    pub names: Vec<Text>,
    /// Parameter names; `Expr::Parameter` is an index into them. For ingest queries `that` is one of them.
    pub parameters: Vec<Text>,
    pub facts: QueryFacts,
    /// What `explain` prints before the plan itself: each stage of the compiler by name.
    pub source: Text,
}

/// What is known of a query without running it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueryFacts {
    /// Changes the graph.
    pub writes: bool,
    /// Reads the graph. Plans that write and do not read take the fast path of commit.
    pub reads: bool,
    /// Visits every node: a MATCH without an anchor.
    pub scans: bool,
    /// Calls a procedure or a subquery, however that is written: that may take long, or wait for others.
    pub calls: bool,
    /// Calls a procedure that waits for nobody, and nothing that may take long: it waits for no place to run in, and runs once,
    /// as the call may do something.
    pub at_once: bool,
    /// Calls what ends other queries.
    pub ends: bool,
    /// Calls what brings things from outside, or may: files, what web servers answer.
    pub fetches: bool,
    /// Calls what waits for more to come, so that it has to see one moment after another.
    pub listens: bool,
    /// Uses something that differs from run to run (`rand`, `timestamp`, fresh ids).
    pub impure: bool,
    /// May end with a failure, whatever the reason: a division by zero, a type that does not fit, a file that is not there.
    pub fallible: bool,
}

/// Rows flow from the leaves to the root; every operator but the leaves has one input.
#[derive(Clone, Debug)]
pub enum Operator {
    /// One row of nulls: where every query begins.
    Unit,
    /// Inside `Optional`, `Subquery` and `Recurse`: the row of the outer input.
    Argument,
    /// Extends each row by every match of the pattern.
    Match {
        input: Box<Operator>,
        pattern: Pattern,
    },
    /// For each input row the rows of `inner` (which starts at `Argument`); where there are none, the row once with
    /// `nulls` set to null.
    Optional {
        input: Box<Operator>,
        inner: Box<Operator>,
        nulls: Vec<Slot>,
    },
    Filter {
        input: Box<Operator>,
        condition: Expr,
    },
    /// Computes slots from the row. Expressions see the row as it was before any of them was stored.
    Project {
        input: Box<Operator>,
        items: Vec<(Slot, Expr)>,
    },
    /// One row per distinct combination of `keys`; without keys exactly one row.
    Aggregate {
        input: Box<Operator>,
        keys: Vec<(Slot, Expr)>,
        aggregates: Vec<(Slot, Aggregate)>,
    },
    /// Keeps the first of rows that are the same in `slots`.
    Distinct {
        input: Box<Operator>,
        slots: Vec<Slot>,
    },
    /// Orders rows; with `limit`, keeps the first that many (a top-k).
    Sort {
        input: Box<Operator>,
        keys: Vec<SortKey>,
        limit: Option<Expr>,
    },
    Skip {
        input: Box<Operator>,
        count: Expr,
    },
    Limit {
        input: Box<Operator>,
        count: Expr,
    },
    /// One row per element; null gives none, anything but a list gives itself.
    Unwind {
        input: Box<Operator>,
        list: Expr,
        into: Slot,
    },
    /// Applies the writes, in order, once a row; the row passes on.
    Write {
        input: Box<Operator>,
        writes: Vec<Write>,
    },
    /// The matches of the pattern, or, where there are none, one row after `create`. `on_match` and `on_create` follow.
    Merge {
        input: Box<Operator>,
        pattern: Pattern,
        create: Vec<Write>,
        on_create: Vec<Write>,
        on_match: Vec<Write>,
    },
    /// For each input row the rows of the procedure, with its columns by number put into slots. Without columns the row
    /// passes once. A procedure that writes gets all its rows before the first of them goes on, as `Write` does.
    Call {
        input: Box<Operator>,
        procedure: Arc<Procedure>,
        /// One for each input of the procedure; those at the end may be left out.
        arguments: Vec<Expr>,
        yields: Vec<(usize, Slot)>,
    },
    /// For each input row the rows of `inner` (which starts at `Argument`); with `unit` the row once, whatever ran inside.
    Subquery {
        input: Box<Operator>,
        inner: Box<Operator>,
        unit: bool,
    },
    /// For each input row: `inner` (which starts at `Argument`) with the first values in `state`; each of its rows either meets
    /// `until` and goes on, or its `again` are the values of the next round. Rounds come one after another.
    Recurse {
        input: Box<Operator>,
        first: Vec<Expr>,
        state: Vec<Slot>,
        /// What the query calls them, for messages.
        variables: Vec<Text>,
        inner: Box<Operator>,
        again: Vec<Slot>,
        until: Expr,
    },
    /// Each row of `left` with each row of `right` that has the same keys, by Cypher's `=`. The sides know nothing of each
    /// other. Made for standing queries: parts of a pattern that no edge connects, and OPTIONAL MATCH.
    Join {
        left: Box<Operator>,
        right: Box<Operator>,
        keys: Vec<(Expr, Expr)>,
        /// Of OPTIONAL MATCH: the slots that the right side gives, and that are null where a row of the left has no other half.
        /// Both sides may fill the slots of the keys then.
        nulls: Option<Vec<Slot>>,
    },
    /// Rows of both; with `distinct` each once. Both sides leave their columns in the slots of `Plan::columns`.
    Union {
        left: Box<Operator>,
        right: Box<Operator>,
        distinct: Option<Vec<Slot>>,
    },
    /// A command about the graph as a whole. It stands alone, and its columns are those of `Schema::columns`.
    Schema(Schema),
}

#[derive(Clone, Debug)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
}

#[derive(Clone, Debug)]
pub enum Write {
    /// A node with a fresh id, put into `slot`.
    CreateNode {
        slot: Slot,
        labels: Vec<Name>,
        properties: Option<Expr>,
    },
    /// `properties` evaluates to a map.
    CreateEdge {
        slot: Option<Slot>,
        source: Slot,
        kind: Name,
        target: Slot,
        properties: Option<Expr>,
    },
    /// `SET target.key = value`, target a node or an edge.
    SetProperty {
        target: Expr,
        key: Name,
        value: Expr,
    },
    /// `SET n = map` (`replace`) and `SET n += map`. The value is a map, or a node or edge that stands for its properties.
    SetProperties {
        target: Slot,
        value: Expr,
        replace: bool,
    },
    AddLabels {
        target: Slot,
        labels: Vec<Name>,
    },
    RemoveProperty {
        target: Expr,
        key: Name,
    },
    RemoveLabels {
        target: Slot,
        labels: Vec<Name>,
    },
    /// Node, edge or path. Without `detach` a node that has edges is an error.
    Delete {
        target: Expr,
        detach: bool,
    },
    /// FOREACH: `slot` takes each element in turn.
    ForEach {
        slot: Slot,
        list: Expr,
        writes: Vec<Write>,
    },
    /// MERGE inside FOREACH: as the operator of that name, and then the updates that follow it, once for each row it gives.
    Merge {
        pattern: Box<Pattern>,
        create: Vec<Write>,
        on_create: Vec<Write>,
        on_match: Vec<Write>,
        then: Vec<Write>,
    },
}

/// A query graph: what one MATCH asks for, however it was written.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    pub nodes: Vec<PatternNode>,
    pub edges: Vec<PatternEdge>,
    /// Conditions over more than one variable.
    pub conditions: Vec<Expr>,
    /// Pairs of `edges` that must not be the same edge (openCypher's rule within one MATCH). The smaller comes first in
    /// each; they are in the order of the greater, and then of the smaller, each once.
    pub distinct_edges: Vec<(usize, usize)>,
    /// Pairs of `nodes` that must not be the same node (siblings in mode DistinctId).
    pub distinct_nodes: Vec<(usize, usize)>,
    /// Named paths: the slot, and the edges they run through with the node they start at.
    pub paths: Vec<PatternPath>,
    /// The order in which `evaluate` visits the pattern.
    pub steps: Vec<Step>,
    /// Other orders that find the same, for `evaluate` to choose from by what the graph holds. They begin with the same steps as
    /// `steps`, as many as `entered` says. Where `steps` look for no node, some of these orders may: those are for indexes alone.
    pub orders: Vec<Vec<Step>>,
    /// Where `steps` look for no node, `orders` are for rows of which each of these values can be worked out, and is a list or
    /// null behind IN: conditions compare with the values, and would fail otherwise. What the values are made of is there once
    /// the pattern is entered.
    pub presumed: Vec<(Binary, Expr)>,
    /// The paths of the delta join; filled for standing queries only. Atoms are numbered: node i is i, edge j is
    /// `nodes.len() + j`. A path answers for changes of its atom and reads atoms of smaller number as of after the
    /// change, atoms of greater number as of before it, so that each match is counted once.
    pub delta: Vec<DeltaPath>,
}

#[derive(Clone, Debug)]
pub struct PatternNode {
    pub slot: Slot,
    /// The slot is filled by the input row: an earlier clause bound it.
    pub bound: bool,
    pub labels: Vec<Name>,
    /// Conditions over this node alone (and, in `evaluate`, over the input row).
    pub conditions: Vec<Expr>,
    /// Standing queries: properties copied into slots when the node is visited, so that everything after is graph-free.
    pub reads: Vec<(Name, Slot)>,
    /// Standing queries: `properties(n)`, as a map.
    pub reads_all: Option<Slot>,
}

#[derive(Clone, Debug)]
pub struct PatternEdge {
    /// Where the edge is put, when anything asks for it.
    pub slot: Option<Slot>,
    /// Indices into `Pattern::nodes`.
    pub source: usize,
    pub target: usize,
    /// Any of these; empty means any type.
    pub kinds: Vec<Name>,
    /// False for `--`: either direction matches.
    pub directed: bool,
    /// The edge variable is bound by the input row.
    pub bound: bool,
    /// Conditions over this edge alone; a chain has its own.
    pub conditions: Vec<Expr>,
    pub reads: Vec<(Name, Slot)>,
    /// Not one edge but several in a row; `slot` then holds the list of them.
    pub chain: Option<Chain>,
}

/// `-[*1..3]->`: edges one after another, none of them twice.
#[derive(Clone, Debug)]
pub struct Chain {
    pub min: u64,
    pub max: Option<u64>,
    pub search: Search,
    /// Written from target to source: the list of edges runs that way.
    pub reversed: bool,
    /// Conditions over a single edge of the chain, tested as soon as it is crossed with the edge in the slot.
    pub edges: Vec<(Slot, Expr)>,
    /// Conditions over a single node of the chain, with the node in the slot; both ends are tested, too.
    pub nodes: Vec<(Slot, Expr)>,
    /// Conditions over the whole of a shortest chain: it is the shortest of those that meet them.
    pub whole: Vec<Expr>,
    /// Where `whole` looks for the named path that consists of this chain.
    pub path: Option<Slot>,
}

/// Which of the chains between two nodes match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    All,
    /// One of the shortest: `shortestPath`.
    Shortest,
    /// Every one of the shortest: `allShortestPaths`.
    AllShortest,
}

#[derive(Clone, Debug)]
pub struct PatternPath {
    pub slot: Slot,
    pub start: usize,
    pub edges: Vec<usize>,
}

/// One move through a pattern. Labels, conditions and reads of a node are applied as soon as it is visited, those of an
/// edge as soon as it is crossed.
#[derive(Clone, Debug)]
pub enum Step {
    /// The input row already holds the node.
    Bound { node: usize },
    /// The node with this id: the value of an expression over the input row and what earlier steps bound. Where the node has been
    /// visited, a check.
    Seek { node: usize, id: Expr },
    /// Each node that one of `ids` names, once, if a scan would come by it. `met` is the condition on the node, of those in
    /// `PatternNode::conditions`, that asks for nothing else. It stays there for whoever gets to the node otherwise.
    SeekEach { node: usize, ids: Vec<Lookup>, met: Option<usize> },
    /// Every node that can fit: fewer where an index, or what an earlier scan of the same run kept, answers one of the lookups.
    Scan { node: usize, lookups: Vec<Lookup> },
    /// The node is one end of the edge, which the input row holds, and then the other.
    Ends { node: usize, edge: usize },
    /// From a visited node over `edge` to its other end. Where that end has been visited too, a check. A shortest chain is
    /// crossed last, between nodes that have been visited.
    Expand { edge: usize, from: usize },
    /// `Pattern::conditions[i]`: everything it needs is there.
    Test { condition: usize },
}

/// A condition on a node by which it can be found: `of operator value`. It is among the conditions of the pattern as well, so
/// that whoever finds more nodes, or all, is right too.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Over the node alone, as its only variable.
    pub of: Expr,
    /// Where `of` is this property of the node: then an index of the graph may know.
    pub key: Option<Name>,
    pub operator: Binary,
    pub value: Expr,
    /// The value depends on what earlier steps bind, not on the input row alone.
    pub waits: bool,
}

#[derive(Clone, Debug)]
pub struct DeltaPath {
    pub atom: Atom,
    /// `Expand` and `Test` only; `Scan` where the pattern is in several parts.
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atom {
    /// The local view of a node: its labels, conditions and reads.
    Node(usize),
    Edge(usize),
}

impl Pattern {
    /// Whether two of `edges` must not be the same edge.
    pub fn must_differ(&self, x: usize, y: usize) -> bool {
        let pair = (x.max(y), x.min(y));
        self.distinct_edges.binary_search_by_key(&pair, |(less, greater)| (*greater, *less)).is_ok()
    }

    /// Whether `steps` look for a node: what is known leads to some part of the pattern neither at once nor over edges.
    pub fn looks_for_nodes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Scan { .. } | Step::SeekEach { .. }))
    }

    /// How many steps come before the first that goes over an edge or looks for a node. In all orders they are the same.
    pub fn entered(&self) -> usize {
        let enters = |step: &&Step| !matches!(step, Step::Scan { .. } | Step::SeekEach { .. } | Step::Expand { .. });
        self.steps.iter().take_while(enters).count()
    }
}

impl Operator {
    /// Its input, then what it runs besides.
    pub fn children(&self) -> Vec<&Operator> {
        let second = match self {
            Operator::Union { right, .. } | Operator::Join { right, .. } => Some(&**right),
            Operator::Optional { inner, .. } | Operator::Subquery { inner, .. } | Operator::Recurse { inner, .. } => {
                Some(&**inner)
            }
            _ => None,
        };
        self.input().into_iter().chain(second).collect()
    }

    /// As `children`, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Operator> {
        use Operator::*;
        match self {
            Unit | Argument | Schema(_) => Vec::new(),
            Union { left, right, .. } | Join { left, right, .. } => vec![left, right],
            Optional { input, inner, .. } | Subquery { input, inner, .. } | Recurse { input, inner, .. } => vec![input, inner],
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
            | Merge { input, .. }
            | Call { input, .. } => vec![input],
        }
    }

    pub fn input(&self) -> Option<&Operator> {
        use Operator::*;
        match self {
            Unit | Argument | Schema(_) => None,
            Match { input, .. }
            | Optional { input, .. }
            | Filter { input, .. }
            | Project { input, .. }
            | Aggregate { input, .. }
            | Distinct { input, .. }
            | Sort { input, .. }
            | Skip { input, .. }
            | Limit { input, .. }
            | Unwind { input, .. }
            | Write { input, .. }
            | Merge { input, .. }
            | Call { input, .. }
            | Subquery { input, .. }
            | Recurse { input, .. } => Some(input),
            Union { left, .. } | Join { left, .. } => Some(left),
        }
    }
}
