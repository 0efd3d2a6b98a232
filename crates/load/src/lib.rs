//! The load generator: clients that put a workload on a server, measure its answers and check them.
//!
//! Workloads, clients and checks are plain state machines; one readiness loop per thread drives thousands of
//! them. A run prepares the server, warms up, measures a window, cools down, lets every client finish what
//! it has begun, and with `--check` accounts for what it was told. Loops, schedules and counting are the same for all
//! tiers; the requests and answers of a tier are up to its [`dialogue::Dialogue`].

// A stderr that cannot be written to, as on a full disk, must not make us panic: print through `stderr.rs`.
#![warn(clippy::print_stderr)]

pub mod address;
mod aftermath;
mod alarm;
mod arrivals;
pub mod bench;
pub mod cache;
pub mod client;
mod clock;
mod connection;
pub mod cpu;
pub mod dialogue;
pub mod error;
mod halt;
pub mod laws;
pub mod merge;
pub mod numbers;
pub mod pace;
mod paths;
pub mod probe;
mod probe_connection;
pub mod profile;
mod progress;
pub mod queue;
mod recording;
mod replay;
pub mod report;
mod run;
pub mod run_options;
pub mod search;
mod seeds;
pub mod stderr;
mod summary_file;
mod table;
pub mod tally;
pub mod timespan;
mod timetable;
pub mod tls;
pub mod violations;
mod watch;
mod worker;

pub use cache::CacheBench;
pub use error::LoadError;
pub use halt::{interrupt, is_interrupted};
pub use queue::QueueBench;
pub use report::Report;
pub use run::run;
pub use search::find_max_rate;
pub use summary_file::SummaryFile;
