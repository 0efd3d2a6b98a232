//! The cache tier before real memcached servers.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod memcached;

mod differential;
mod limits;
mod mixups;
mod operation;
mod replicas;
mod report;
mod shards;
