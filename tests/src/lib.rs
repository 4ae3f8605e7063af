//! What tests of the whole share: readers of the openCypher TCK, random queries, and the real binary as a child process.
//!
//! The tests themselves stand under `tests/`, one file a subject. Files that are not part of the project are looked for in
//! `../shared`, beside the clone; a test that misses them says so and passes.

pub mod aws;
pub mod browser;
pub mod cases;
pub mod client;
pub mod collector;
pub mod contract;
pub mod elasticsearch;
pub mod endpoint;
pub mod events;
pub mod feeds;
pub mod fuzz;
pub mod kafka;
pub mod nats;
pub mod openid;
pub mod page;
pub mod polled;
pub mod queries;
pub mod random;
pub mod redis;
pub mod registry;
pub mod server;
pub mod service;
pub mod socket;
pub mod streams;
pub mod tck;
pub mod terminal;
pub mod toxiproxy;
