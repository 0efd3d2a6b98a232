//! The choice of a store by `--store`: parsed from text, and opened.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use posthaste_measure::{Clock, Events};
use posthaste_wire::decode::BULK_BYTES_PROTOCOL;

use super::embedded::{self, Embedded, EmbeddedOptions};
use super::memory::Memory;
use super::mock::Mock;
use super::postgres::address::PostgresAddress;
use super::postgres::store::{self, Postgres};
use super::postgres::strategy::Popping;
use crate::path::local::Local;
use crate::path::worker::Store;
use crate::time::Time;

/// A store as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// `embedded:DIR`: durable, in this process.
    Embedded(PathBuf),
    /// `memory:`: plain and not durable.
    Memory,
    /// `mock:BYTES`: fixed answers with a body of that size.
    Mock(usize),
    /// `postgres://…`: a PostgreSQL database, which several middlewares may share.
    Postgres(Box<PostgresAddress>),
}

/// Why a store could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The embedded store failed to open.
    Embedded(embedded::OpenError),
    /// The store in PostgreSQL failed to open.
    Postgres(store::OpenError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(error) => error.fmt(f),
            Self::Postgres(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl FromStr for StoreChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = text.split(':').next().unwrap_or_default();
        let wrong = || match kind {
            "mock" => "mock: needs a number of bytes, as in mock:200".to_owned(),
            _ => format!("unknown store {kind}: write embedded:DIR, postgres://…, memory: or mock:BYTES"),
        };
        match text.split_once(':').ok_or_else(wrong)? {
            ("embedded", "") => {
                Err("embedded: needs a directory, for example embedded:./posthaste-data".into())
            }
            ("postgres" | "postgresql", _) => text.parse().map(|address| Self::Postgres(Box::new(address))),
            ("embedded", dir) => Ok(Self::Embedded(PathBuf::from(dir))),
            ("memory", "") => Ok(Self::Memory),
            ("memory", _) => Err(
                "memory: takes nothing behind it, for it keeps nothing on a disk: write memory: alone, or \
                                  embedded:DIR for a store in a directory"
                    .into(),
            ),
            ("mock", bytes) => match bytes.parse() {
                Ok(bytes) if bytes as u64 <= BULK_BYTES_PROTOCOL => Ok(Self::Mock(bytes)),
                Ok(_) => {
                    Err(format!("mock: takes at most {BULK_BYTES_PROTOCOL} bytes, the limit of the protocol"))
                }
                Err(_) => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(dir) => write!(f, "embedded:{}", dir.display()),
            Self::Memory => f.write_str("memory:"),
            Self::Mock(bytes) => write!(f, "mock:{bytes}"),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

impl StoreChoice {
    /// Returns whether what it has acknowledged outlives the process.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Embedded(_) | Self::Postgres(_))
    }

    /// Opens the store; `unbatched` is for PostgreSQL only. Notable events of the store are recorded in `events`.
    ///
    /// # Errors
    /// What stands in the way and what to do.
    pub fn open(
        &self,
        memory_limit: Option<u64>,
        unbatched: Option<Popping>,
        time: Time,
        clock: Clock,
        events: &Events,
    ) -> Result<Arc<dyn Store>, OpenError> {
        let events = events.clone();
        Ok(match self {
            Self::Embedded(dir) => {
                let options = EmbeddedOptions {
                    memory_limit,
                    events,
                    clock: Some(clock),
                    ..EmbeddedOptions::default()
                };
                let store = Embedded::open(dir, options).map_err(OpenError::Embedded)?;
                Local::new(store, time, clock)
            }
            Self::Memory => Local::new(Memory::new(None).limited(memory_limit), time, clock),
            Self::Mock(bytes) => Local::new(Mock::new(vec![b'x'; *bytes]), time, clock),
            Self::Postgres(address) => {
                Postgres::open(address, unbatched, time, clock, events).map_err(OpenError::Postgres)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StoreChoice;

    #[test]
    fn no_body_is_larger_than_a_client_takes() {
        assert_eq!("mock:536870912".parse(), Ok(StoreChoice::Mock(512 << 20)));
        let error = "mock:99999999999999".parse::<StoreChoice>().expect_err("it is too large");
        assert!(error.contains("at most 536870912 bytes"), "{error}");
    }
}
