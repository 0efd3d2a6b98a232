//! `posthaste bench queue`, `cache` and `merge`: hands over to the load generator and turns its verdict into an exit code.

use std::error::Error;
use std::fs;

use posthaste_load::bench::Bench;
use posthaste_load::{CacheBench, LoadError, find_max_rate};

use crate::flags::MergeFlags;
use crate::stdout::say;

/// Runs the load; a violated check, a lost connection or an unanswered request is an error.
pub(crate) fn run<B: Bench>(flags: B) -> Result<(), Box<dyn Error>> {
    let report = match flags.options().find_max_rate {
        Some(limit) => find_max_rate(&flags, limit)?,
        None => posthaste_load::run(flags)?,
    };
    say(&report.to_string())?;
    report.verdict().map_err(Into::into)
}

/// The same for a cache, whose options may be in memtier's words.
pub(crate) fn run_cache(flags: CacheBench) -> Result<(), Box<dyn Error>> {
    run(flags.translated()?)
}

/// Makes one report of the records of several load generators.
pub(crate) fn merge(flags: &MergeFlags) -> Result<(), Box<dyn Error>> {
    let merged = posthaste_load::merge::merge(&flags.records)?;
    say(&merged.to_string())?;
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&merged)?;
        fs::write(path, text + "\n").map_err(|source| LoadError::Json { path: path.clone(), source })?;
    }
    Ok(())
}
