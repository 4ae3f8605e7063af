//! The words every other crate shares: what values are first, then in the order of the data path.
//!
//!     record (a Value) -> Plan -> Mutations -> Tick -> Match
//!
//! No input or output, no timely, no parser: types, the semantics of values, and the evaluation of expressions.

// What everything is made of.
pub mod id;
pub mod value;
pub mod temporal;
pub mod order;
pub mod arithmetic;
pub mod exact;
pub mod extent;
pub mod text_form;
pub mod java_regex;
pub mod json;
pub mod protobuf;

// The data path.
mod record;
pub mod plan;
pub mod procedure;
pub mod schema;
mod slots;
mod parameter_keys;
pub mod expression;
mod evaluation;
pub mod membership;
pub mod aggregate;
pub mod clock;
pub mod mutation;
pub mod codec;
mod tick;

// For all of it.
pub mod crew;
pub mod lock;
pub mod random;
pub mod visible;

pub use clock::Clock;
pub use expression::{Aggregate, AggregateKind, Context, Expr, Failure, Function, GraphFree};
pub use id::{EdgeKey, IdScheme, NodeId, QueryId, Symbol};
pub use mutation::Mutations;
pub use plan::Plan;
pub use procedure::Procedure;
pub use record::{Match, Place, Position};
pub use tick::Tick;
pub use value::{FullEdge, FullNode, Map, Path, Text, Value};
