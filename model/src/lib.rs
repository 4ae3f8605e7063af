//! The words every other crate shares, in the order of the data path.
//!
//!     Record -> Plan (over Values) -> Mutations -> Tick -> Match
//!
//! No input or output, no timely, no parser: types, the semantics of values, and the evaluation of expressions.

pub mod aggregate;
pub mod arithmetic;
pub mod asked;
pub mod clock;
pub mod codec;
pub mod evaluation;
pub mod exact;
pub mod expression;
pub mod extent;
pub mod id;
pub mod java_regex;
pub mod json;
pub mod lock;
pub mod mutation;
pub mod order;
pub mod plan;
pub mod procedure;
pub mod protobuf;
pub mod record;
pub mod schema;
pub mod slots;
pub mod temporal;
pub mod text_form;
pub mod tick;
pub mod value;

pub use clock::Clock;
pub use expression::{Aggregate, AggregateKind, Context, Expr, Failure, Function, GraphFree};
pub use id::{EdgeKey, IdScheme, NodeId, QueryId, Symbol};
pub use mutation::Mutations;
pub use plan::Plan;
pub use procedure::Procedure;
pub use record::{Match, Place, Position, Record};
pub use tick::Tick;
pub use value::{FullEdge, FullNode, Map, Path, Text, Value};
