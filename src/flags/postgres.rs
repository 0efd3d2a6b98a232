//! Flags for PostgreSQL stores only.

use clap::Args;
use posthaste_server::queue::postgres::strategy::{Backoff, PopStrategy};

/// How single pops are done on PostgreSQL, for experiments.
#[derive(Args, Debug)]
pub(crate) struct PoppingFlags {
    /// On PostgreSQL: every request is a statement and a commit of its own (--batch 1), and pops are done by skip-locked,
    /// delete-retry, for-update, repeatable-read or mark-update. Without it pops are done as by skip-locked, within batches
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) pop_strategy: Option<PopStrategy>,
    /// What a pop does when a faster one took its message: none (tries again at once) or exponential (pauses before it
    /// does)
    #[arg(long, value_name = "BACKOFF", default_value_t)]
    pub(crate) pop_backoff: Backoff,
}

/// `posthaste migrate`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste migrate --store postgres://app@db.example/posthaste
  PGPASSWORD=… posthaste migrate --store 'postgres://app@db.example/posthaste?sslmode=verify-full'
  posthaste migrate --print | psql posthaste")]
pub(crate) struct MigrateFlags {
    /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    // Text, not an address: an error of the flags would repeat the value, password included.
    #[arg(long, value_name = "URL", required_unless_present = "print")]
    pub(crate) store: Option<String>,
    /// For experiments: afterwards give every request of a middleware a fixed answer with a body of this many bytes,
    /// which touches no table; the database must hold no queue, and keeps none from then on
    #[arg(long, value_name = "BYTES", conflicts_with = "print")]
    pub(crate) mock: Option<u32>,
    /// Change nothing: write the whole schema to stdout as a script for psql
    #[arg(long)]
    pub(crate) print: bool,
}
