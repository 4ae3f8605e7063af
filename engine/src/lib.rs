//! The graph and its dataflows, in the order of the data path:
//!
//!     record batch -> evaluate -> Mutations -> commit -> Tick -> log -> arrangement -> probe -> match

pub mod symbols;
pub mod view;
