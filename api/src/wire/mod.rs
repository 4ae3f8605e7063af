//! What travels over HTTP, as types: bodies in, bodies out, exactly as clients know them.
//!
//! `decode` reads JSON with the error texts clients know, `values` what is a value of queries in it, `yaml_values` the same in
//! YAML; the others are one file per noun. Nothing here runs anything.

pub mod decode;
pub mod diagnostic;
pub mod family;
pub mod half_edge;
pub mod icons;
pub mod letters;
pub mod query;
pub mod retries;
pub mod standing;
pub mod style;
pub mod v2;
pub mod values;
mod yaml_values;
