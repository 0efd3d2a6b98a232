//! The load generator: clients that put a workload on a server, measure its answers and check them.
//!
//! Workloads, clients and checks are plain state machines; one readiness loop per thread drives thousands of
//! them. A run prepares the server, warms up, measures a window, cools down, lets every client finish what
//! it has begun, and with `--check` accounts for every message.

pub mod address;
mod aftermath;
mod alarm;
pub mod check;
pub mod client;
mod clock;
mod connection;
pub mod cpu;
pub mod error;
pub mod mix;
pub mod options;
pub mod pace;
pub mod program;
mod progress;
pub mod report;
pub mod request;
mod run;
pub mod search;
mod session;
mod setup;
pub mod stamp;
pub mod tally;
pub mod timespan;
pub mod twelve_step;
mod worker;
pub mod workload;

pub use error::LoadError;
pub use options::QueueBench;
pub use report::Report;
pub use run::run;
pub use search::find_max_rate;
