//! PostgreSQL: changes of tables in, by logical replication, and results out, into tables. Its protocol (version 3) is spoken
//! here (docs/decisions/0028).
//!
//!     PostgresIngest ─ START_REPLICATION from the slot ─> pgoutput ─> changes ─> Feed ─> graph
//!        <── status: what is durable ─── Keeper ──────────────────────────────────┘
//!     results ─ Bind and Execute, a batch in one transaction ─> WriteToPostgres

mod access;
pub(crate) mod changes;
pub(crate) mod connection;
pub(crate) mod ingest;
pub(crate) mod message;
mod proof;
mod values;
mod unacknowledged;
mod write;

pub use ingest::PostgresIngest;
pub use write::WriteToPostgres;
