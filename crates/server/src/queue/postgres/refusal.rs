//! Why a database was not reached, in one line that says what to do. Never with a password: nothing here is given one.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::error::SqlState;

/// Why no server of an address was reached.
#[derive(Debug)]
pub struct ConnectError {
    /// Each place that was tried, and its reason.
    refusals: Vec<(String, Reason)>,
}

/// Why one place was not reached.
#[derive(Debug)]
pub(super) enum Reason {
    /// Nothing answers there.
    Unreachable(String),
    /// It did not answer within this time.
    TooSlow(Duration),
    /// The server wants a password and there is none; holds why the password file is not used, if there is one.
    NoPassword(Option<String>),
    /// The password is wrong, or the user does not exist; in the server's words.
    WrongPassword(String),
    /// The server's rules do not let this user in, in its words.
    NotAllowed(String),
    /// There is no such database, in the server's words.
    NoDatabase(String),
    /// All connections are in use, in the server's words.
    TooMany(String),
    /// The server starts or stops, in its words.
    NotReady(String),
    /// It takes no writes.
    ReadOnly,
    /// It takes writes, and the URL asks for one that takes none.
    NotReadOnly,
    /// The connection cannot be encrypted as asked for.
    Tls(String),
    /// Another reason.
    Other(String),
}

impl ConnectError {
    pub(super) fn new(refusals: Vec<(String, Reason)>) -> Self {
        Self { refusals }
    }
}

impl Error for ConnectError {}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (place, reason)) in self.refusals.iter().enumerate() {
            write!(f, "{}PostgreSQL at {place} {reason}", if index == 0 { "" } else { "; " })?;
        }
        match &self.refusals[..] {
            [(_, Reason::ReadOnly)] => f.write_str(": name the primary, or all servers with commas"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WHERE: &str = "give it in the URL, in PGPASSWORD or in ~/.pgpass";
        match self {
            Self::Unreachable(why) => {
                write!(f, "cannot be reached ({why}): is it running, and does it listen there?")
            }
            Self::TooSlow(time) => {
                write!(
                    f,
                    "did not answer within {} s: is a firewall or a hanging server between?",
                    time.as_secs_f32()
                )
            }
            Self::NoPassword(None) => write!(f, "wants a password: {WHERE}"),
            Self::NoPassword(Some(unused)) => write!(f, "wants a password, and {unused}"),
            Self::WrongPassword(said) => write!(f, "refuses ({said}): check user and password; {WHERE}"),
            Self::NotAllowed(said) => {
                write!(f, "refuses ({said}): check the user and the server's pg_hba.conf")
            }
            Self::NoDatabase(said) => {
                write!(f, "refuses ({said}): create it with createdb or correct the URL")
            }
            Self::TooMany(said) => {
                write!(f, "refuses ({said}): raise its max_connections or start fewer programs")
            }
            Self::NotReady(said) => write!(f, "is not ready ({said}): try again in a moment"),
            Self::ReadOnly => {
                f.write_str("takes no writes, as on a standby or with default_transaction_read_only")
            }
            Self::NotReadOnly => f.write_str(
                "takes writes, and target_session_attrs=read-only asks for a server that takes none: leave it out",
            ),
            Self::Tls(why) => {
                write!(f, "cannot be talked to encrypted ({why}): check sslmode and certificates")
            }
            Self::Other(why) => write!(f, "refuses ({why})"),
        }
    }
}

impl Reason {
    /// Returns what an error of the library means; `config` is the one that it connected with.
    pub(super) fn of(error: &tokio_postgres::Error, config: &Config) -> Self {
        if let Some(db) = error.as_db_error() {
            return Self::said(db.code(), db.message().replace('\n', " "));
        }
        let why = chain(error);
        match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(io) if io.kind() == io::ErrorKind::PermissionDenied && why.contains("allow writes") => {
                Self::ReadOnly
            }
            Some(io) if io.kind() == io::ErrorKind::PermissionDenied && why.contains("not read only") => {
                Self::NotReadOnly
            }
            Some(io) if is_tls(io) => Self::Tls(io.to_string()),
            Some(io) => Self::Unreachable(io.to_string()),
            None if config.get_password().is_none() && why.contains("password missing") => {
                Self::NoPassword(None)
            }
            None if why.contains("TLS") => Self::Tls(why),
            None => Self::Other(why),
        }
    }

    /// Returns what the server's error means.
    fn said(code: &SqlState, message: String) -> Self {
        match code {
            code if *code == SqlState::INVALID_PASSWORD => Self::WrongPassword(message),
            code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => Self::NotAllowed(message),
            code if *code == SqlState::INVALID_CATALOG_NAME => Self::NoDatabase(message),
            code if *code == SqlState::TOO_MANY_CONNECTIONS => Self::TooMany(message),
            code if *code == SqlState::CANNOT_CONNECT_NOW => Self::NotReady(message),
            _ => Self::Other(message),
        }
    }
}

fn is_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

/// Returns an error with all its causes, in one line.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use tokio_postgres::error::SqlState;

    use super::{ConnectError, Reason};

    #[test]
    fn every_place_is_named_with_its_reason_and_what_to_do() {
        let error = ConnectError::new(vec![
            ("a:1".into(), Reason::ReadOnly),
            ("b:2".into(), Reason::said(&SqlState::TOO_MANY_CONNECTIONS, "too many clients".into())),
        ]);
        let text = error.to_string();
        for words in
            ["a:1", "standby", "default_transaction_read_only", "b:2", "too many clients", "max_connections"]
        {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn who_named_one_server_is_told_that_there_can_be_several() {
        let refused = |places: &[&str]| {
            let refusal = |place: &&str| ((*place).to_owned(), Reason::ReadOnly);
            ConnectError::new(places.iter().map(refusal).collect()).to_string()
        };
        assert!(refused(&["a:1"]).ends_with(": name the primary, or all servers with commas"));
        assert!(!refused(&["a:1", "b:2"]).contains("commas"));
    }
}
