//! Queries that nobody thought of: random Cypher over random graphs, and the answers of everything that can answer it.
//!
//!     Random ─ graph.rs ──> records of a graph that grows and shrinks ──┐
//!        └──── text.rs ───> Cypher that reads it ───────────────────────┴─> compare.rs ─ differs? ─> minimize.rs
//!
//! The text is well typed and avoids what has no single answer (the order of rows nobody sorted, which of two shortest paths),
//! so that any two answers that are not alike are a fault of one of those who gave them.

pub mod compare;
pub mod expression;
pub mod graph;
pub mod minimize;
pub mod pattern;
pub mod text;

pub use compare::{Difference, Tally, World, run};
pub use graph::History;
pub use text::{Query, random_query};
