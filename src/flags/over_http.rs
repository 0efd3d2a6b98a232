//! Flags of the commands that ask a tier over HTTP: `admin top`, `admin doctor`, and the `admin` commands
//! for a cache.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use posthaste_load::tls::TlsOptions;

use super::cache::ServerTlsFlags;
use super::{account, duration, some_time};

/// How to reach a tier over HTTP.
#[derive(Args, Debug)]
pub(crate) struct WebReach {
    /// Where the tier serves HTTP (its --http): 127.0.0.1:7480 for queues, 127.0.0.1:7481 for caches; https://HOST:PORT
    /// speaks TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7480")]
    pub(crate) http: String,
    /// Log in as this account
    #[arg(long, value_name = "NAME", value_parser = account_over_http)]
    pub(crate) user: Option<String>,
    /// The file that holds its secret
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}

/// `posthaste admin top`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste admin top
  posthaste admin top --http 127.0.0.1:7481 --every 5s --count 12")]
pub(crate) struct TopFlags {
    #[command(flatten)]
    pub(crate) reach: WebReach,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub(crate) every: Duration,
    /// End after this many looks [default: when it is interrupted]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Queues, clients and servers shown
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) rows: usize,
}

/// `posthaste admin doctor`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste admin doctor
  posthaste admin doctor --store postgres://app@db.example/posthaste
  posthaste admin doctor --http 127.0.0.1:7481 --json
  posthaste admin doctor --http 127.0.0.1:7481 --server-tls-ca ca.crt
  posthaste admin doctor --http queue.example:7480 --tls --user alice --secret-file alice.secret")]
pub(crate) struct DoctorFlags {
    #[command(flatten)]
    pub(crate) reach: WebReach,
    /// Look at the database behind it too: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    // Text, not an address: an error of the flags would repeat the value, password included.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) server_tls: ServerTlsFlags,
    /// Report only transactions that have been open for at least this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) older_than: Duration,
    /// JSON instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to reach a cache tier, and the form of the output.
#[derive(Args, Debug)]
pub(crate) struct ReachCache {
    /// Where the cache tier serves HTTP (its --http); https://HOST:PORT speaks TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7481")]
    pub(crate) http: String,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
    /// JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks the name of an account for HTTP, where a name ends at a colon.
fn account_over_http(text: &str) -> Result<String, String> {
    match text.contains(':') {
        true => Err("an account with a colon in its name cannot log in over HTTP: name another".into()),
        false => account(text),
    }
}
