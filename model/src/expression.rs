//! Expressions: their shape, and their value over a row.

use std::cell::Cell;
use std::fmt;

use thiserror::Error;

use crate::extent;
use crate::id::{EdgeKey, IdScheme, NodeId};
use crate::membership::Lists;
use crate::plan::{Name, Operator, Slot};
use crate::value::{FullEdge, FullNode, Text, Value};

#[derive(Clone, Debug)]
pub enum Expr {
    Literal(Value),
    Slot(Slot),
    /// An index into `Plan::parameters`.
    Parameter(u32),
    /// `of.key`: of a map, a node, an edge, or a component of a temporal value.
    Property {
        of: Box<Expr>,
        key: Name,
    },
    HasLabels {
        of: Box<Expr>,
        labels: Vec<Name>,
    },
    /// `of[index]`: of a list, a map, a node or an edge.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
    },
    Slice {
        of: Box<Expr>,
        from: Option<Box<Expr>>,
        to: Option<Box<Expr>>,
    },
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Xor(Box<Expr>, Box<Expr>),
    IsNull {
        of: Box<Expr>,
        negated: bool,
    },
    Negate(Box<Expr>),
    Binary {
        operator: Binary,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    List(Vec<Expr>),
    Map(Vec<(Text, Expr)>),
    /// The first branch whose condition is true; `CASE x WHEN y` is written out as comparisons by the compiler.
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Call {
        function: &'static Function,
        arguments: Vec<Expr>,
    },
    /// `[slot IN list WHERE filter | result]`
    Comprehension {
        slot: Slot,
        list: Box<Expr>,
        filter: Option<Box<Expr>>,
        result: Option<Box<Expr>>,
    },
    /// `all`, `any`, `none`, `single (slot IN list WHERE condition)`
    Quantifier {
        kind: Quantifier,
        slot: Slot,
        list: Box<Expr>,
        condition: Box<Expr>,
    },
    /// `reduce(total = initial, slot IN list | step)`
    Reduce {
        total: Slot,
        initial: Box<Expr>,
        slot: Slot,
        list: Box<Expr>,
        step: Box<Expr>,
    },
    /// `of`, which finds in `slot` what is worked out once and asked for more often.
    Let {
        slot: Slot,
        value: Box<Expr>,
        of: Box<Expr>,
    },
    /// What the graph answers to a query that begins at this row.
    Subquery(Box<Subquery>),
    /// A condition that the passing of time alone can turn, once: see `clock`. Only in what is maintained.
    Clocked(Box<Expr>),
}

/// A query inside an expression: EXISTS, COUNT, COLLECT, patterns as predicates, pattern comprehensions.
#[derive(Clone, Debug)]
pub struct Subquery {
    pub kind: SubqueryKind,
    /// Begins at `Argument`: the row the expression is evaluated over. It changes nothing.
    pub plan: Operator,
    /// It answers the same in whatever order edges are listed, as far as that is known: nobody has to put them in order.
    pub any_order: bool,
}

#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// Whether there is a row.
    Exists,
    /// How many rows there are.
    Count,
    /// The list of the values of an expression over each row.
    Collect(Expr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    In,
    StartsWith,
    EndsWith,
    Contains,
    /// `=~`: the whole string matches.
    Regex,
    /// Structural identity, as the store sees it: how property constraints of standing queries and MERGE compare.
    Same,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantifier {
    All,
    Any,
    None,
    Single,
}

/// A row of the table of functions. The table itself lives in the compiler crate; a plan points into it.
pub struct Function {
    /// As documented; found without regard to case.
    pub name: &'static str,
    pub arguments_min: usize,
    pub arguments_max: usize,
    /// For help and error messages: `left(text :: STRING, length :: INTEGER) :: STRING`.
    pub signature: &'static str,
    /// One sentence, for help and the reference page.
    pub description: &'static str,
    /// A query that shows it, the same answer every time.
    pub example: &'static str,
    /// Any null argument makes the result null before the function runs.
    pub null_in_null_out: bool,
    /// Always gives the same result for the same arguments, and does not ask the graph.
    pub pure: bool,
    /// Is not `pure` because it asks the graph, and not because it differs from run to run.
    pub asks_graph: bool,
    pub run: fn(&dyn Context, &[Value]) -> Result<Value, Failure>,
}

impl Function {
    pub const fn about(self, description: &'static str, example: &'static str) -> Function {
        Function { description, example, ..self }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[derive(Clone, Debug)]
pub struct Aggregate {
    pub kind: AggregateKind,
    /// `count(*)` has none; the percentiles have the fraction as a second one.
    pub arguments: Vec<Expr>,
    pub distinct: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    CountRows,
    Count,
    Sum,
    Average,
    Min,
    Max,
    Collect,
    StandardDeviation,
    StandardDeviationPopulation,
    PercentileContinuous,
    PercentileDiscrete,
}

/// What an expression may ask beyond its row. Implemented by the engine over a view of the graph, and by
/// `GraphFree` where there is none.
pub trait Context {
    fn parameter(&self, index: u32) -> &Value;
    /// The text of a name of the running plan.
    fn name(&self, name: Name) -> &str;
    fn property(&self, node: NodeId, key: Name) -> Value;
    fn property_by_text(&self, node: NodeId, key: &str) -> Value;
    fn has_label(&self, node: NodeId, label: Name) -> bool;
    fn edge_property(&self, edge: &EdgeKey, key: &str) -> Value;
    fn full_node(&self, node: NodeId) -> FullNode;
    fn full_edge(&self, edge: &EdgeKey) -> FullEdge;
    fn degree(&self, node: NodeId) -> usize;
    fn ids(&self) -> IdScheme;
    /// Milliseconds since 1970, the same for the whole query.
    fn now_millis(&self) -> i64;
    /// Only who runs plans can answer.
    fn subquery(&self, _: &Subquery, _: &[Value]) -> Result<Value, Failure> {
        Err(Failure::new(FailureKind::Runtime, "A pattern or subquery asks the graph, and there is none here"))
    }
    /// Told of work that can go on for long, in steps of about the size of an element looked at: fails once the query is out
    /// of time.
    fn spend(&self, _steps: usize) -> Result<(), Failure> {
        Ok(())
    }
    /// The bytes that a value made here may have.
    fn room(&self) -> usize {
        extent::ROOM
    }
    /// Told of values that are there while more are made, until `release`: fails once they are more than the query may hold.
    fn hold(&self, _bytes: usize) -> Result<(), Failure> {
        Ok(())
    }
    fn release(&self, _bytes: usize) {}
    /// The lists that rows before this one were looked for in; none where each is searched.
    fn lists(&self) -> Option<&Lists> {
        None
    }
    /// Who waits for conditions to turn as time passes; mostly nobody.
    fn turns(&self) -> Option<&Cell<i64>> {
        None
    }
    /// Whether what is made here is kept, so that it cannot follow the current time.
    fn is_kept(&self) -> bool {
        self.turns().is_some()
    }
    /// Milliseconds since 1970 at the moment of asking.
    fn clock_millis(&self) -> i64 {
        self.now_millis()
    }
}

/// What a `Context` in front of another one hands on as it is: all that the plan and the graph are asked. The rest is about time
/// and bounds, and for each to decide. Stands in the `impl`, as `forward_context!(self, self.base);`.
#[macro_export]
macro_rules! forward_context {
    ($self_:ident, $base:expr) => {
        fn parameter(&$self_, index: u32) -> &$crate::Value {
            $base.parameter(index)
        }
        fn name(&$self_, name: $crate::plan::Name) -> &str {
            $base.name(name)
        }
        fn property(&$self_, node: $crate::NodeId, key: $crate::plan::Name) -> $crate::Value {
            $base.property(node, key)
        }
        fn property_by_text(&$self_, node: $crate::NodeId, key: &str) -> $crate::Value {
            $base.property_by_text(node, key)
        }
        fn has_label(&$self_, node: $crate::NodeId, label: $crate::plan::Name) -> bool {
            $base.has_label(node, label)
        }
        fn edge_property(&$self_, edge: &$crate::EdgeKey, key: &str) -> $crate::Value {
            $base.edge_property(edge, key)
        }
        fn full_node(&$self_, node: $crate::NodeId) -> $crate::FullNode {
            $base.full_node(node)
        }
        fn full_edge(&$self_, edge: &$crate::EdgeKey) -> $crate::FullEdge {
            $base.full_edge(edge)
        }
        fn degree(&$self_, node: $crate::NodeId) -> usize {
            $base.degree(node)
        }
        fn ids(&$self_) -> $crate::IdScheme {
            $base.ids()
        }
    };
}

/// Why an expression has no value. `kind` decides how the API names it; the text says what to do.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    TypeMismatch,
    /// A map or an entity was asked for a key that is no text.
    KeyIsNoText,
    Arithmetic,
    ConstraintViolation,
    /// A node is to be deleted and still has edges.
    StillConnected,
    WrongSignature,
    InvalidArgument,
    /// A number outside of what a function takes.
    OutOfRange,
    /// SKIP or LIMIT of less than nothing.
    NegativeRowCount,
    /// SKIP or LIMIT of something that is no integer.
    InvalidRowCount,
    /// What was deleted is asked for more than its name.
    Deleted,
    /// MERGE by a property that is null: it would never find what it makes.
    MergeWithNull,
    /// A value that no property can hold.
    NotStorable,
    /// Longer than a query may take.
    TimeLimit,
    /// More than a query may hold.
    MemoryLimit,
    /// More than all queries may hold that run at a time.
    SharedMemoryLimit,
    /// Nobody wants the answer any more.
    Interrupted,
    /// Something would have to be brought from outside while others wait for the query. Evaluated anew, the query may do without.
    WouldFetch,
    Runtime,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// The failure `WouldFetch` of a procedure.
    pub fn would_fetch(procedure: &str) -> Failure {
        let message = format!(
            "{procedure} would have to be asked for more while the graph is locked, since others keep changing what this query \
             reads; run it again"
        );
        Failure::new(FailureKind::WouldFetch, message)
    }
}

/// The context of expressions that ask nothing of a graph: all they need is in the row. Every node is empty.
#[derive(Debug)]
pub struct GraphFree {
    ids: IdScheme,
    names: Vec<Text>,
    room: usize,
    /// None where what is made is kept.
    now_millis: Option<i64>,
    lists: Lists,
}

impl GraphFree {
    /// For constants, which are kept for as long as their plan.
    pub fn constants(ids: IdScheme) -> GraphFree {
        GraphFree { ids, names: Vec::new(), room: 64 << 10, now_millis: None, lists: Lists::default() }
    }

    /// For rows of a plan with these names.
    pub fn rows(ids: IdScheme, names: &[Text]) -> GraphFree {
        GraphFree { ids, names: names.to_vec(), room: extent::ROOM, now_millis: None, lists: Lists::default() }
    }

    /// This context at a moment, in milliseconds since 1970.
    pub fn at(self, now_millis: i64) -> GraphFree {
        GraphFree { now_millis: Some(now_millis), ..self }
    }
}

impl Context for GraphFree {
    fn parameter(&self, _: u32) -> &Value {
        &Value::Null
    }
    fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", |name| name.as_str())
    }
    fn property(&self, _: NodeId, _: Name) -> Value {
        Value::Null
    }
    fn property_by_text(&self, _: NodeId, _: &str) -> Value {
        Value::Null
    }
    fn has_label(&self, _: NodeId, _: Name) -> bool {
        false
    }
    fn edge_property(&self, _: &EdgeKey, _: &str) -> Value {
        Value::Null
    }
    fn full_node(&self, id: NodeId) -> FullNode {
        FullNode { id, labels: Vec::new(), properties: Default::default() }
    }
    fn full_edge(&self, edge: &EdgeKey) -> FullEdge {
        FullEdge { key: edge.clone(), properties: Default::default() }
    }
    fn degree(&self, _: NodeId) -> usize {
        0
    }
    fn ids(&self) -> IdScheme {
        self.ids
    }
    fn now_millis(&self) -> i64 {
        self.now_millis.unwrap_or_default()
    }
    fn is_kept(&self) -> bool {
        self.now_millis.is_none()
    }
    fn room(&self) -> usize {
        self.room
    }
    fn lists(&self) -> Option<&Lists> {
        Some(&self.lists)
    }
}
