//! Commands and their flags. The doc comments of commands and flags, here and in the other files, are what
//! `--help` shows.

mod admin;
mod bench;
mod cache;
mod lab;
mod over_http;
mod pages;
mod postgres;
mod queue;
mod serving;

use std::os::unix::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use posthaste_server::accounts::is_name;
use posthaste_server::log_level::LogLevel;
use posthaste_wire::decode::BULK_BYTES_PROTOCOL;

pub(crate) use self::admin::{AccountCommand, Admin, AdminCommand, Reach, RoleFlags};
pub(crate) use self::bench::{Bench, BenchStoreFlags, MergeFlags, StoreWorkload};
pub(crate) use self::cache::{CacheFlags, ServerTlsFlags, Switch};
pub(crate) use self::lab::LabFlags;
pub(crate) use self::over_http::{DoctorFlags, ReachCache, TopFlags, WebReach};
pub(crate) use self::pages::{CompletionsFlags, ManFlags, ReferenceFlags, Topic};
pub(crate) use self::postgres::{MigrateFlags, PoppingFlags};
pub(crate) use self::queue::QueueFlags;
pub(crate) use self::serving::{FrontFlags, LogFormat, MAX_CLIENTS, RunFlags, TlsFlags};

/// A middle tier that explains itself: durable message queues over RESP, measured at every stage.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true)]
pub(crate) enum Program {
    /// The queue tier: durable message queues for any Redis client
    Queue(QueueFlags),
    /// The cache tier: a router between memcached clients and memcached servers
    Cache(Box<CacheFlags>),
    /// The load generator
    #[command(
        subcommand,
        after_help = "Examples:
  posthaste bench queue --clients 64 --duration 10s
  posthaste bench cache --clients 64 --duration 10s --preload
  posthaste bench store --store embedded:/tmp/bench --batch 64"
    )]
    Bench(Bench),
    /// The management console on the command line
    Admin(Admin),
    /// Brings the schema of a PostgreSQL store up to date
    Migrate(MigrateFlags),
    /// The performance laboratory: runs experiments and reports them
    Lab(LabFlags),
    /// Writes what a shell needs to complete this program's commands and options
    Completions(CompletionsFlags),
    /// Writes manual pages
    Man(ManFlags),
    /// Writes what is also in docs/reference: all options, all metrics, a configuration file with every default
    Reference(ReferenceFlags),
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".into()),
    }
}

/// Reads the size of a body, at most the protocol's limit.
fn body_bytes(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        bytes if bytes as u64 <= BULK_BYTES_PROTOCOL => Ok(bytes),
        _ => Err(format!("must be at most {BULK_BYTES_PROTOCOL}, the limit of the protocol")),
    }
}

/// Reads the memory for data about messages: at least enough for some messages, with their queues and accounts.
fn memory_bytes(text: &str) -> Result<u64, String> {
    const BYTES_MIN: u64 = 65_536;
    match text.parse() {
        Ok(bytes) if bytes >= BYTES_MIN => Ok(bytes),
        Ok(_) => Err(format!("must be at least {BYTES_MIN} bytes, or nothing can be done with it")),
        Err(_) => Err("must be a whole number".into()),
    }
}

/// Returns a parser of numbers from 1 to `most`.
fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Reads a number of threads. No machine has room for more, and the cache tier numbers its threads with 16 bits.
fn threads(text: &str) -> Result<usize, String> {
    const THREADS_MAX: usize = 10_000;
    match at_least_one(text)? {
        number if number > THREADS_MAX => Err(format!("must be at most {THREADS_MAX}")),
        number => Ok(number),
    }
}

/// Checks `HOST:PORT` or `unix:PATH`, as far as possible without resolving the host.
fn listen_address(text: &str) -> Result<String, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("unix: needs a path, for example unix:/run/posthaste.sock".into()),
        Some(path) if SocketAddr::from_pathname(path).is_err() => {
            Err("a unix socket's path has at most 107 bytes".into())
        }
        Some(_) => Ok(text.to_owned()),
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
            _ => Err("write HOST:PORT or unix:PATH".into()),
        },
    }
}

/// Checks `HOST:PORT` or `off`.
fn http_address(text: &str) -> Result<String, String> {
    match text {
        "off" => Ok(text.to_owned()),
        text if text.starts_with("unix:") => Err("write HOST:PORT or off".into()),
        text => listen_address(text).map_err(|_| "write HOST:PORT or off".into()),
    }
}

/// Returns a parser of log levels.
fn log_level() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(LogLevel::ALL.map(LogLevel::word)).try_map(|word| word.parse::<LogLevel>())
}

/// Checks the name of an account.
fn account(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name is 1 to 255 bytes without control characters, and neither * nor -".into()),
    }
}

/// Reads a duration that is not zero.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(10) => Err("must be at least 10ms".into()),
        time => Ok(time),
    }
}

/// Reads a duration: `500ms`, `1s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    posthaste_load::timespan::parse(text)
}

#[cfg(test)]
mod tests {
    use super::{body_bytes, memory_bytes};

    #[test]
    fn sizes_with_which_nothing_could_be_done_are_refused() {
        assert_eq!(body_bytes("1"), Ok(1));
        assert!(body_bytes("0").is_err_and(|said| said.contains("at least 1")));
        assert_eq!(memory_bytes("65536"), Ok(65_536));
        assert!(memory_bytes("65535").is_err_and(|said| said.contains("at least 65536")));
    }
}
