//! The bodies of v2: other names for what v1 says too. They are translated to the notation of v1, which is what is checked,
//! stored and run, and back to be shown.

pub mod ingest;
pub mod names;
pub mod standing;
