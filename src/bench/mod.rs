//! `posthaste bench`: runs the load generator and turns its verdict into an exit code.

mod driver;
mod raw;
mod store;
mod store_postgres;

use std::error::Error;
use std::thread;

use posthaste_load::bench::Bench;
use posthaste_load::stderr::complain;
use posthaste_load::{CacheBench, LoadError, SummaryFile, find_max_rate, interrupt, is_interrupted};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::flags::{BenchStoreFlags, MergeFlags};
use crate::stdout::say;

/// Runs the load; a violated check, a lost connection or an unanswered request is an error.
pub(crate) fn run<B: Bench>(flags: B) -> Result<(), Box<dyn Error>> {
    report_at_interrupt()?;
    let report = match flags.options().find_max_rate {
        Some(limit) => find_max_rate(&flags, limit)?,
        None => posthaste_load::run(flags)?,
    };
    say(&report.to_string())?;
    report.verdict()?;
    // A script that runs several in a row must see that this one was interrupted.
    if is_interrupted() { Err(LoadError::Failed("interrupted".to_owned()).into()) } else { Ok(()) }
}

/// Handles SIGINT and SIGTERM: the first ends and reports the run, the second ends the program.
fn report_at_interrupt() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            complain(
                "posthaste: interrupted: clients finish what they have begun; once more ends it at once",
            );
            interrupt();
        }
        if let Some(signal) = signals.next() {
            SummaryFile::remove_unwritten();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs the load against a cache, whose options may be in memtier's words.
pub(crate) fn run_cache(flags: CacheBench) -> Result<(), Box<dyn Error>> {
    run(flags.translated()?)
}

/// Runs the load on a store directly, and leaves no file that was made for the run.
pub(crate) fn run_store(flags: &BenchStoreFlags) -> Result<(), Box<dyn Error>> {
    end_at_interrupt()?;
    store::run(flags)
}

/// Handles SIGINT and SIGTERM: the first ends the program, and removes the file that was made for the run.
fn end_at_interrupt() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _no_more = raw::remove_file();
            SummaryFile::remove_unwritten();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Merges the records of several load generators into one report; an error if one of them failed.
pub(crate) fn merge(flags: &MergeFlags) -> Result<(), Box<dyn Error>> {
    let summary = flags.json.as_deref().map(SummaryFile::open).transpose()?;
    let merged = posthaste_load::merge::merge(&flags.records)?;
    if let Some(summary) = summary {
        summary.write(&(serde_json::to_string_pretty(&merged)? + "\n"))?;
    }
    say(&merged.to_string())?;
    Ok(merged.verdict()?)
}
