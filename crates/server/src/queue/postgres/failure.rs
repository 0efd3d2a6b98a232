//! Why a call of the database has no reply, and what that says of the call: nothing happened, or nobody knows.

use std::fmt;
use std::time::Duration;

use tokio_postgres::error::{Severity, SqlState};

use super::link::ANSWER_WITHIN;

/// Why a call has no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call was never sent: nothing happened.
    Unreachable(String),
    /// Another server answered than the one that was meant, or it has lost something since: nothing happened.
    Elsewhere,
    /// The database refused the whole call: nothing happened.
    Refused(tokio_postgres::Error),
    /// The database stopped the call because it took too long: nothing happened. A sentence says on whose word.
    Stopped(String),
    /// The connection broke before the reply came, or the reply is worth nothing: the outcome is unknown.
    Broken(String),
}

/// Shows a failure in one line, whatever a server says: answers and log entries are one line each.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Broken(why) | Self::Stopped(why) => f.write_str(&joined(why)),
            Self::Elsewhere => f.write_str("PostgreSQL has begun anew, or another server took over"),
            Self::Refused(error) => f.write_str(&one_line(error)),
        }
    }
}

impl Failure {
    /// Returns the detail of a refusal with this SQLSTATE, one of our own; empty: it failed otherwise.
    pub(super) fn detail(&self, code: &str) -> &str {
        let Self::Refused(error) = self else { return "" };
        let refused = error.as_db_error().filter(|error| error.code().code() == code);
        refused.and_then(|error| error.detail()).unwrap_or_default()
    }

    /// Returns the failure of a call that this middleware has told the database to stop.
    pub(super) fn told_to_stop() -> Self {
        let seconds = ANSWER_WITHIN.as_secs();
        Self::Stopped(format!("PostgreSQL has not answered for {seconds} seconds and was told to stop"))
    }
}

/// Returns the failure of a statement without a reply within this time; `error` is how it failed, if it did, after the
/// server was told to stop it. A reply that comes then is not believed: a commit that waits for a standby is cancelled
/// too.
pub(super) fn given_up(error: Option<tokio_postgres::Error>, within: Duration) -> Failure {
    match error {
        Some(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Failure::told_to_stop(),
        Some(error) if is_refusal(&error) => Failure::Refused(error),
        _ => {
            let seconds = within.as_millis().div_ceil(1000);
            Failure::Broken(format!("PostgreSQL has not answered for {seconds} seconds"))
        }
    }
}

/// Returns whether the server answered the call with an error and keeps the session: nothing of the call happened. A
/// server that ends the session sends an error too, as a pooler does that has lost the server; then the outcome is
/// unknown.
pub(super) fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        let ends = match db.parsed_severity() {
            Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
            // PgBouncer tells it only in the field that PostgreSQL translates.
            None => matches!(db.severity(), "FATAL" | "PANIC"),
        };
        !ends && !matches!(*db.code(), SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN)
    })
}

/// Returns what an error says, in one line.
pub(super) fn one_line(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => joined(db.message()),
        None => joined(&error.to_string()),
    }
}

/// Returns a text's lines as one.
fn joined(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
