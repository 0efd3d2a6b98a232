//! What is measured, how long, and where the result goes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures posthaste beside its peers; every scenario unless some are named.
#[derive(Debug, Parser)]
#[command(name = "side-by-side")]
pub(crate) struct Options {
    /// Scenarios to run
    chosen: Vec<Scenario>,
    /// Short runs, and one round unless --rounds is given: to see that everything works. One round proves nothing
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; medians are shown
    #[arg(long)]
    rounds: Option<usize>,
    /// Where the Markdown report goes
    #[arg(long, value_name = "FILE", default_value = "target/side-by-side.md")]
    pub(crate) out: PathBuf,
    /// Servers keep their data below this directory; it must be on a real disk
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub(crate) dir: PathBuf,
    /// For the scenario `measuring`: a posthaste built without measuring
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) unmeasured: Option<PathBuf>,
    /// For the scenario `pairs-over-postgres`: pgmq's functions as one SQL file
    #[arg(long, value_name = "FILE")]
    pub(crate) pgmq: Option<PathBuf>,
    /// For the scenario `churn`: how long it takes
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u32,
    /// For the scenario `memtier`: memtier_benchmark, when it is not on the PATH
    #[arg(long, value_name = "PROGRAM", env = "MEMTIER_BENCHMARK")]
    pub(crate) memtier: Option<PathBuf>,
    /// For the scenario `cache`: a memcached built with its own proxy, which the distribution's is not
    #[arg(long, value_name = "PROGRAM", env = "MEMCACHED_PROXY")]
    pub(crate) memcached_proxy: Option<PathBuf>,
    /// Given by `cargo bench`, not by `cargo test --all-targets`, which must not take a quarter of an hour
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// One question and its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Durable sends and pairs beside Redis, beanstalkd and NATS
    Durable,
    /// The request path alone beside redis-server's PING
    Path,
    /// The twelve-step workload beside PostgreSQL
    TwelveStep,
    /// The twelve-step workload over PostgreSQL, beside its functions without a middleware
    StepsOverPostgres,
    /// Pairs over PostgreSQL, beside pgmq and full batches
    PairsOverPostgres,
    /// A PostgreSQL store under churn while a transaction is held open; only when named
    Churn,
    /// Ten million stored messages beside one thousand
    Depth,
    /// The embedded store beside raw appends
    Store,
    /// What measuring costs
    Measuring,
    /// The load generator for caches beside memtier_benchmark
    Memtier,
    /// What a record costs the load generator and the tier
    Recording,
    /// The cache tier beside twemproxy, memcached's own proxy and a bare memcached
    Cache,
}

impl Scenario {
    /// Its heading.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Durable => "Durable messaging",
            Self::Path => "The path alone",
            Self::TwelveStep => "Twelve-step workload",
            Self::StepsOverPostgres => "Twelve-step workload over PostgreSQL",
            Self::PairsOverPostgres => "Pairs over PostgreSQL",
            Self::Churn => "Churn over PostgreSQL",
            Self::Depth => "Depth",
            Self::Store => "Embedded store",
            Self::Measuring => "Cost of measuring",
            Self::Memtier => "The load generator",
            Self::Recording => "Cost of a record",
            Self::Cache => "The cache tier",
        }
    }
}

impl Options {
    /// Those named on the command line, else all but the one that takes an hour.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        if !self.chosen.is_empty() {
            return self.chosen.clone();
        }
        Scenario::value_variants().iter().copied().filter(|scenario| *scenario != Scenario::Churn).collect()
    }

    /// How long the scenario `churn` takes.
    pub(crate) fn minutes(&self) -> Duration {
        if self.quick { Duration::from_secs(180) } else { Duration::from_secs(60) * self.minutes }
    }

    /// How often every figure is taken.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }

    /// Time for caches and buffers to settle before a figure is taken.
    pub(crate) const fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 100 } else { 300 })
    }

    /// How long one figure is taken.
    pub(crate) const fn span(&self) -> Duration {
        Duration::from_millis(if self.quick { 400 } else { 1000 })
    }
}
