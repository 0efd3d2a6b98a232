//! `posthaste admin backup`: copies an embedded store while its server runs.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::embedded::log;

use crate::config::Misuse;
use crate::stdout::say;

/// Makes the copy and says how to use it.
pub(crate) fn run(store: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let from = match store.parse() {
        Ok(StoreChoice::Embedded(directory)) => directory,
        Ok(StoreChoice::Postgres(_)) => {
            return Err(Misuse(
                "admin backup copies an embedded store; back up a database with PostgreSQL's own tools, such as pg_basebackup"
                    .into(),
            )
            .into());
        }
        Ok(other) => return Err(Misuse(format!("{other} keeps nothing that could be copied")).into()),
        Err(error) => return Err(Misuse(format!("--store: {error}")).into()),
    };
    let begun = Instant::now();
    let copied = log::copy(&from, to)?;
    say(&format!(
        "copied {} file{}, {:.1} MB, in {:.1} s, to {}; use a copy of it, for a server that is started on it changes it\n",
        copied.segments,
        if copied.segments == 1 { "" } else { "s" },
        copied.bytes as f64 / 1e6,
        begun.elapsed().as_secs_f64(),
        to.display()
    ))
}
