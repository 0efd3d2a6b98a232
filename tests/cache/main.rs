//! The cache tier before real memcached servers.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/certificates.rs"]
mod certificates;

mod client;
mod memcached;

mod differential;
mod draining;
mod guide;
mod limits;
mod mixups;
mod operation;
mod record;
mod reload;
mod renewal;
mod replicas;
mod report;
mod routes;
mod shards;
mod standins;
