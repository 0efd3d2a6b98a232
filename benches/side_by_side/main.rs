//! The tier beside the systems one would otherwise choose, on the same machine, in turn, in one run.
//!
//! ```text
//! cargo bench --bench side-by-side                       everything, most of an hour
//! cargo bench --bench side-by-side -- --quick durable    one short round of one scenario
//! ```
//!
//! Absolute figures of a shared machine vary by a factor of two from hour to hour, so only ratios of neighboring
//! measurements are claimed: every round measures each system for about a second before any is measured again,
//! in an order that rotates, and a ratio is taken within its round. One client ([`load`]) drives every messaging
//! protocol, so no system gains from a better load generator. Criterion was not taken: it times functions in its
//! own process, not servers under concurrent clients.
//!
//! Servers are real processes on private ports or unix sockets in a temporary directory; they are stopped by pid,
//! and the kernel stops them if this program is killed. A peer that is not installed is left out with a message.

mod cores;
mod cpu;
mod interrupt;
mod load;
mod machine;
mod memcache;
mod options;
mod peers;
mod perf;
mod process;
mod protocol;
mod report;
mod resp;
mod scenarios;
mod statistics;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser as _;

use options::{Options, Scenario};
use report::Report;

/// Anything that can go wrong ends the scenario with a sentence for the reader.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("side-by-side: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if !options.bench {
        eprintln!("nothing measured: run it with cargo bench --bench side-by-side");
        return Ok(());
    }
    interrupt::catch()?;
    machine::warn_if_in_memory(&options.dir);
    let mut report = Report::new(machine::describe(options));
    let mut failed = Vec::new();
    for scenario in options.scenarios() {
        eprintln!("== {}", scenario.title());
        let result = match scenario {
            Scenario::Durable => scenarios::durable::run(options),
            Scenario::Path => scenarios::path::run(options),
            Scenario::TwelveStep => scenarios::twelve_step::run(options),
            Scenario::StepsOverPostgres => scenarios::steps_over_postgres::run(options),
            Scenario::PairsOverPostgres => scenarios::pairs_over_postgres::run(options),
            Scenario::Churn => scenarios::churn::run(options),
            Scenario::Depth => scenarios::depth::run(options),
            Scenario::Store => scenarios::store::run(options),
            Scenario::Measuring => scenarios::measuring::run(options),
            Scenario::Memtier => scenarios::memtier::run(options),
            Scenario::Cache => scenarios::cache::run(options),
            Scenario::Recording => scenarios::recording::run(options),
        };
        interrupt::check()?;
        match result {
            Ok(section) => {
                println!("{}", section.as_text());
                report.add(section);
            }
            // One broken scenario must not cost the figures of the others.
            Err(error) => failed.push(format!("{}: {error}", scenario.title())),
        }
    }
    report.write(&options.out)?;
    eprintln!("written to {}", options.out.display());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}
