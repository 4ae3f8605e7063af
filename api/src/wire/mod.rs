//! What travels over HTTP, as types: bodies in, bodies out, exactly as clients of the v1 routes know them.
//!
//! `decode` reads JSON with the error texts clients know; the others are one file per noun. Nothing here runs anything.

pub mod decode;
pub mod diagnostic;
pub mod query;
pub mod standing;
