//! What crosses the wire, as types, where the code that reads or writes it goes field by field: the readers for the sake of
//! error texts that clients know, the writers because families differ. The tests hold every answer they get to these.

mod query;
mod ingest;
mod standing;
mod system;
mod logins;
mod debug;
mod errors;

pub use debug::*;
pub use errors::*;
pub use ingest::*;
pub use logins::*;
pub use query::*;
pub use standing::*;
pub use system::*;
