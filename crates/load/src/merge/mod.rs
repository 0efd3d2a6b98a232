//! Several load generators as one experiment: their records become one report.
//!
//! Throughputs add up, and only over the time that all of them measured; histograms are merged, for a percentile of
//! percentiles is nothing. What does not belong together is refused: runs that did not overlap, or that asked for
//! different things. Each record counts with the windows that lie within the common stretch, so a generator that
//! began a second earlier adds nothing from that second.

mod histogram;
mod read;
mod report;
mod timeline;

use std::path::PathBuf;

pub use report::{Merged, MergedKeys, Part};

use crate::error::LoadError;
use read::ReadRecord;
use timeline::Timeline;

/// Options that may differ between generators of one experiment: which servers they load, with how much, which of them
/// sets up, and which files of their machines they read and write.
const MAY_DIFFER: [&str; 22] = [
    "connect",
    "clients",
    "threads",
    "first_client",
    "secret_file",
    "tls_ca",
    "tls_cert",
    "start_at",
    "duration_s",
    "warmup_s",
    "cooldown_s",
    "seed",
    "dataset",
    "preload",
    "rate",
    "rate_per_client",
    "rate_profile",
    "replay",
    "replay_speed",
    "json",
    "record",
    "record_requests",
];

/// Merges the records in these directories.
///
/// # Errors
/// One of them cannot be read, or they do not belong together; the text says which and why.
pub fn merge(dirs: &[PathBuf]) -> Result<Merged, LoadError> {
    let records: Vec<ReadRecord> = dirs.iter().map(|dir| ReadRecord::open(dir)).collect::<Result<_, _>>()?;
    let Some((first, others)) = records.split_first() else {
        return Err(LoadError::Usage("name the directories of the records to be merged".to_owned()));
    };
    for (place, other) in others.iter().enumerate() {
        if let Some(twin) = records[..=place].iter().find(|record| record.is_same_run(other)) {
            return Err(LoadError::Failed(format!(
                "{} and {} are of the same run; name each record once",
                twin.name, other.name
            )));
        }
        if let Some(difference) = first.unlike(other, &MAY_DIFFER) {
            return Err(LoadError::Failed(format!(
                "{} and {} are no parts of one experiment: {difference}",
                first.name, other.name
            )));
        }
    }
    let timeline = Timeline::of(&records)?;
    Merged::of(&records, &timeline)
}
