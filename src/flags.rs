//! The commands and their flags. What stands here and below is what `--help` shows.

mod admin;
mod bench;
mod cache;
mod lab;
mod looking;
mod pages;
mod postgres;
mod queue;
mod serving;

use std::time::Duration;

use clap::Parser;

pub(crate) use self::admin::{AccountCommand, Admin, AdminCommand, Reach, RoleFlags};
pub(crate) use self::bench::{Bench, BenchStoreFlags, MergeFlags, StoreWorkload};
pub(crate) use self::cache::{CacheFlags, ServerTlsFlags, Switch};
pub(crate) use self::lab::LabFlags;
pub(crate) use self::looking::{DoctorFlags, ReachCache, TopFlags, WebReach};
pub(crate) use self::pages::{CompletionsFlags, ManFlags, ReferenceFlags, Topic};
pub(crate) use self::postgres::{MigrateFlags, PoppingFlags};
pub(crate) use self::queue::QueueFlags;
pub(crate) use self::serving::{FrontFlags, LogFormat, RunFlags, TlsFlags};

/// A middle tier that explains itself: durable message queues over RESP, measured at every stage.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true)]
pub(crate) enum Program {
    /// The queue tier: durable message queues for any Redis client
    Queue(QueueFlags),
    /// The cache tier: a router between memcached clients and memcached servers
    Cache(CacheFlags),
    /// The load generator
    #[command(subcommand)]
    Bench(Bench),
    /// The management console on the command line
    Admin(Admin),
    /// Brings the schema of a PostgreSQL store up to date
    Migrate(MigrateFlags),
    /// The performance laboratory: runs experiments and reports them
    Lab(LabFlags),
    /// Writes what a shell needs to complete this program's commands and options
    Completions(CompletionsFlags),
    /// Writes manual pages
    Man(ManFlags),
    /// Writes what is also in docs/reference: all options, all metrics, a configuration file with every default
    Reference(ReferenceFlags),
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".into()),
    }
}

/// A duration that is not nothing.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(10) => Err("must be at least 10ms".into()),
        time => Ok(time),
    }
}

/// `500ms`, `1s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    posthaste_load::timespan::parse(text)
}
