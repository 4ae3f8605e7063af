//! Queries that nobody thought of: random Cypher over random graphs, and the answers of everything that can answer it.
//!
//!     Random ─┬─ graph.rs ───> records of a graph that grows and shrinks ──┐
//!             ├─ setting.rs ─> workers, batches, ends, pauses, time, … ────┼─> compare.rs ─ differs? ─> minimize.rs
//!             └─ text.rs ────> Cypher that reads the graph ────────────────┘     └ maintained.rs ─ replaced.rs
//!                └ pattern.rs, expression.rs, forms.rs, mixed.rs
//!
//! The text is well typed and avoids what has no single answer (the order of rows nobody sorted, which of two shortest paths),
//! so that any two answers that are not alike are a fault of one of those who gave them.

pub mod compare;
pub mod expression;
pub mod forms;
pub mod graph;
pub mod maintained;
pub mod minimize;
pub mod mixed;
pub mod outcome;
pub mod pattern;
pub mod replaced;
pub mod setting;
pub mod text;

pub use compare::{World, run};
pub use graph::History;
pub use outcome::{Difference, Tally};
pub use setting::Setting;
pub use text::{Query, random_clocked_query, random_query};
