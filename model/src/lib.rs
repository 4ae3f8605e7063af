//! The words every other crate shares, in the order of the data path.
//!
//!     Record -> Plan (over Values) -> Mutations -> Tick -> Match
//!
//! No input or output, no timely, no parser: types, the semantics of values, and the evaluation of expressions.

pub mod codec;
pub mod expression;
pub mod id;
pub mod mutation;
pub mod plan;
pub mod record;
pub mod temporal;
pub mod tick;
pub mod value;

pub use expression::{Aggregate, AggregateKind, Context, Expr, Failure, Function};
pub use id::{EdgeKey, IdScheme, NodeId, QueryId, Symbol};
pub use mutation::Mutations;
pub use plan::Plan;
pub use record::{Match, Position, Record};
pub use tick::Tick;
pub use value::{FullEdge, FullNode, Map, Path, Text, Value};
