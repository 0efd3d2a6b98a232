//! Faults under load, one file for each, and an account of every message afterwards.
//!
//! `make test` does a few of each, `make faults` as many as `KILLS` says, and `make soak` goes on for `MINUTES`. Every
//! campaign prints a row with what it counted; docs/trust.md shows those of the longest ones.

#[path = "../support/client.rs"]
mod client;
#[path = "../support/cut.rs"]
mod cut;
#[path = "../support/pair.rs"]
mod pair;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/rows.rs"]
mod rows;
#[path = "../support/stalls.rs"]
mod stalls;
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/witness.rs"]
mod witness;

mod campaign;
mod crew;
mod disk;
mod kept;
mod member;
mod notes;
mod place;
mod tier;
mod verdict;

mod answers;
mod cache;
mod clients;
mod clocks;
mod connections;
mod control;
mod frozen;
mod full;
mod middlewares;
mod postmaster;
mod power;
mod soak;
mod standby;
mod syncs;
