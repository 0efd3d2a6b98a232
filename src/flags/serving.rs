//! Flags that both tiers have: how they serve clients, and how they run. Addresses are defined with each
//! tier, because their defaults differ.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use posthaste_server::log_level::LogLevel;

use super::{at_least_one, duration, log_level, some_time, threads};

/// Default limit of client connections.
pub(crate) const MAX_CLIENTS: usize = 20_000;

/// How clients come to a tier, beside its addresses.
#[derive(Args, Debug)]
pub(crate) struct FrontFlags {
    /// Bind with SO_REUSEPORT, so that a new process can start before the old one has stopped
    #[arg(long)]
    pub(crate) reuse_port: bool,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// Network threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Maximum number of client connections; no more are let in than the limit of open files has room for
    #[arg(long, value_name = "N", default_value_t = MAX_CLIENTS, value_parser = at_least_one)]
    pub(crate) max_clients: usize,
    /// Disconnect a client that reads none of its pending answers for this long
    #[arg(long, value_name = "TIME|off", default_value = "60s", value_parser = time_or_off)]
    pub(crate) send_timeout: TimeLimit,
    /// Disconnect a client that sends nothing and waits for nothing for this long
    #[arg(long, value_name = "TIME|off", default_value = "off", value_parser = time_or_off)]
    pub(crate) idle_timeout: TimeLimit,
}

/// A duration; None: `off`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit(pub(crate) Option<Duration>);

pub(super) fn time_or_off(text: &str) -> Result<TimeLimit, String> {
    match text {
        "off" => Ok(TimeLimit(None)),
        text => some_time(text).map(|time| TimeLimit(Some(time))).map_err(|error| format!("{error}, or off")),
    }
}

/// What a tier encrypts its connections with.
#[derive(Args, Debug)]
pub(crate) struct TlsFlags {
    /// Speak TLS over TCP, HTTP included, with the certificate in this file and its chain, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of one of these authorities, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// How a tier runs, and what it tells of itself.
#[derive(Args, Debug)]
pub(crate) struct RunFlags {
    /// Log requests that take longer than this, with their stages
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) slow: Option<Duration>,
    /// Aggregation window of the measurements
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub(crate) window: Duration,
    /// Write a record (run.json, windows.csv, latency.hlog, system.csv) to this directory, which must hold none yet
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Record every single request too, with its six stamps (requests.parquet)
    #[arg(long)]
    pub(crate) record_requests: bool,
    /// How long a graceful stop waits for requests in flight
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) drain: Duration,
    /// Form of the log on stderr
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Least severe messages to log; debug adds every attempt
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level())]
    pub(crate) log_level: LogLevel,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
