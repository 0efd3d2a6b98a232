//! A database with fixed answers: its functions are replaced, to measure the way to it and back.
//!
//! The store finds the schema that it knows, with functions that read and write nothing. See sql/mock.sql.

use super::address::PostgresAddress;
use super::connect::with_connection;
use super::migrations::MigrateError;

const FUNCTIONS: &str = include_str!("../../../../../sql/mock.sql");

/// Why a database in use is refused.
const IN_USE: &str = "it holds queues, whose messages nobody could reach any more: name a new database";

/// Replaces the functions of a database that has the schema and no queue. Readers get bodies of `body_bytes` bytes.
///
/// # Errors
/// What stands in the way and what to do.
pub fn install(address: &PostgresAddress, body_bytes: u32) -> Result<(), MigrateError> {
    with_connection(address, async |client| {
        let transaction = client.transaction().await?;
        let used = transaction.query_one("SELECT EXISTS (SELECT FROM posthaste.queue)", &[]).await?;
        if used.get(0) {
            return Err(MigrateError::File { file: "sql/mock.sql".into(), why: IN_USE.into() });
        }
        transaction.batch_execute(&FUNCTIONS.replace("BODY_BYTES", &body_bytes.to_string())).await?;
        transaction.commit().await?;
        Ok(())
    })
}
