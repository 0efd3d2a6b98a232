//! Flags of the `bench` commands that the load generators in `crates/load` do not define themselves.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::postgres::PoppingFlags;
use super::{body_bytes, some_time, up_to};

/// Largest batch; no worker takes as many requests.
const BATCH_MAX: u64 = 1_000_000;
/// Most connections, more than any PostgreSQL accepts.
const CONNECTIONS_MAX: u64 = 262_143;
/// Most repetitions; each takes at least the time of two batches.
const REPETITIONS_MAX: u64 = 1_000_000;

/// `posthaste bench`
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Loads a queue tier and reports throughput and response times
    Queue(Box<posthaste_load::QueueBench>),
    /// Loads a cache, memcached or what speaks like it, and reports throughput, response times, hits and misses
    Cache(Box<posthaste_load::CacheBench>),
    /// Makes one report of the records of several load generators that ran at the same time
    Merge(MergeFlags),
    /// Drives a store directly, without network: what the disk and the store alone can do
    Store(BenchStoreFlags),
}

/// `posthaste bench merge`
#[derive(Args, Debug)]
#[command(after_help = "Example, two processes as one experiment:
  at=$(($(date +%s) + 5))
  posthaste bench queue --clients 64 --start-at $at --record a &
  posthaste bench queue --clients 64 --first-client 65 --start-at $at --record b; wait
  posthaste bench merge a b --json both.json")]
pub(crate) struct MergeFlags {
    /// Directories that --record has left
    #[arg(value_name = "DIR", required = true)]
    pub(crate) records: Vec<PathBuf>,
    /// Write the report here as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `posthaste bench store`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste bench store --store embedded:/tmp/bench --batch 64
  posthaste bench store --store memory: --workload send --preload 1000000
  posthaste bench store --store postgres://app@db.example/bench --connections 16 --batch 1")]
pub(crate) struct BenchStoreFlags {
    /// The store to drive; an embedded directory must be new or empty, and so must a database but for the schema
    #[arg(long, value_name = "STORE", default_value = "embedded:./posthaste-bench")]
    pub(crate) store: String,
    /// What is done
    #[arg(long, value_name = "WORKLOAD", default_value = "pairs")]
    pub(crate) workload: StoreWorkload,
    /// Operations in one commit; may repeat
    #[arg(long, value_name = "N", default_values_t = [1, 16, 64, 256], value_delimiter = ',', value_parser = up_to(BATCH_MAX))]
    pub(crate) batch: Vec<usize>,
    /// On PostgreSQL: connections at once, each with a thread of its own; may repeat [default: 1 4 16]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = up_to(CONNECTIONS_MAX))]
    pub(crate) connections: Vec<usize>,
    #[command(flatten)]
    pub(crate) popping: PoppingFlags,
    /// Body bytes
    #[arg(long, value_name = "BYTES", default_value = "200", value_parser = body_bytes)]
    pub(crate) message_bytes: usize,
    /// Messages sent before anything is measured
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) preload: u64,
    /// How long each batch size is measured, all repetitions together
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub(crate) duration: Duration,
    /// Parts of that time, each a measurement of its own; medians are shown
    #[arg(long, value_name = "N", default_value = "3", value_parser = up_to(REPETITIONS_MAX))]
    pub(crate) repetitions: usize,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What `bench store` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreWorkload {
    /// Sends only
    Send,
    /// As many pops as sends
    Pairs,
    /// The loop of `bench queue`; on PostgreSQL only
    TwelveStep,
}
