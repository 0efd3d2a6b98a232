//! The cache tier before real memcached servers.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/certificates.rs"]
mod certificates;

#[path = "../support/cut.rs"]
mod cut;

#[path = "../support/process.rs"]
mod process;

#[path = "../support/still.rs"]
mod still;

mod client;
mod commands;
mod dns;
mod memcached;
mod talk;

mod bounds;
mod differential;
mod doctor;
mod draining;
mod encrypted;
mod flushes;
mod guide;
mod limits;
mod mixups;
mod multigets;
mod names;
mod operation;
mod order;
mod record;
mod reload;
mod renewal;
mod replicas;
mod report;
mod returns;
mod routes;
mod shards;
mod standins;
