//! `posthaste bench queue`: hands over to the load generator and turns its verdict into an exit code.

use std::error::Error;

use posthaste_load::QueueBench;

/// Runs the load; a violated check, a lost connection or an unanswered request is an error.
pub(crate) fn run(flags: QueueBench) -> Result<(), Box<dyn Error>> {
    let report = match flags.run.find_max_rate {
        Some(limit) => posthaste_load::find_max_rate(&flags, limit)?,
        None => posthaste_load::run(flags)?,
    };
    print!("{report}");
    report.verdict().map_err(Into::into)
}
