//! `posthaste migrate`: brings the schema of a PostgreSQL store up to date, or prints it.

use std::error::Error;

use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::{migrations, mock};

use crate::config::Misuse;
use crate::flags::MigrateFlags;
use crate::stdout::say;

/// Migrates the schema, or prints it.
pub(crate) fn run(flags: &MigrateFlags) -> Result<(), Box<dyn Error>> {
    match &flags.store {
        _ if flags.print => say(&migrations::script()),
        Some(url) => {
            let address: PostgresAddress =
                url.parse().map_err(|error| Misuse(format!("--store: {error}")))?;
            let applied = report(&migrations::migrate_at(&address)?);
            match flags.mock {
                Some(bytes) => mock::install(&address, bytes)?,
                None => return say(&applied),
            }
            say(&format!("{applied}every request gets a fixed answer now\n"))
        }
        None => Err(Misuse("--store is missing".into()).into()),
    }
}

fn report(applied: &[u32]) -> String {
    match applied {
        [] => "up to date\n".into(),
        applied => applied.iter().map(|number| format!("applied {number:04}\n")).collect(),
    }
}
