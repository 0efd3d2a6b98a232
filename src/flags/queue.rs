//! The flags of the queue tier.

use std::path::PathBuf;

use clap::Args;
use posthaste_wire::command::Kind;

use super::postgres::PoppingFlags;
use super::serving::{FrontFlags, RunFlags};
use super::{at_least_one, body_bytes, http_address, listen_address, memory_bytes, threads};

/// `posthaste queue`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste queue
  posthaste queue --listen 127.0.0.1:7411 --store embedded:/var/lib/posthaste
  posthaste queue --listen 0.0.0.0:7411 --accounts accounts --tls-cert queue.crt --tls-key queue.key
  redis-cli -p 7411 QCREATE orders
  redis-cli -p 7411 SEND orders hello
  redis-cli -p 7411 POP QUEUE orders")]
pub(crate) struct QueueFlags {
    /// RESP address: HOST:PORT or unix:PATH; may repeat
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411", value_delimiter = ',', value_parser = listen_address)]
    pub(crate) listen: Vec<String>,
    /// HTTP: the console for a browser, the JSON API, health and metrics; HOST:PORT, or `off`
    #[arg(long, value_name = "ADDRESS|off", default_value = "127.0.0.1:7480", value_parser = http_address)]
    pub(crate) http: String,
    #[command(flatten)]
    pub(crate) front: FrontFlags,
    /// Where messages are kept: embedded:DIR (durable), postgres://… (durable, shared by several middlewares),
    /// memory: (not durable), mock:BYTES (fixed answers)
    #[arg(long, value_name = "STORE", default_value = "embedded:./posthaste-data")]
    pub(crate) store: String,
    /// `open`: any account name may log in; or a file made by `posthaste admin account add`
    #[arg(long, value_name = "open|FILE", default_value = "open")]
    pub(crate) accounts: String,
    /// Concurrent workers, on PostgreSQL each with a connection of its own [default: 8; 1 on embedded]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) workers: Option<usize>,
    /// Maximum number of requests a worker takes from the waiting line at once; 1: each has a commit of its own
    /// [default: 256; 1 with --pop-strategy]
    #[arg(long, value_name = "REQUESTS", value_parser = at_least_one)]
    pub(crate) batch: Option<usize>,
    #[command(flatten)]
    pub(crate) popping: PoppingFlags,
    /// Largest message body in bytes, 512 MiB at most; larger ones get TOOBIG
    #[arg(long, value_name = "BYTES", default_value = "65536", value_parser = body_bytes)]
    pub(crate) max_message: usize,
    /// Maximum number of requests that wait; beyond it a request gets BUSY
    #[arg(long, value_name = "REQUESTS", default_value = "65536", value_parser = at_least_one)]
    pub(crate) line_limit: usize,
    /// Request kinds that wait in a line of their own and go first, for example peek,readable
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    pub(crate) priority_line: Vec<Kind>,
    /// Maximum bytes of memory for messages (of the embedded store what is known of them, of memory: their bodies too),
    /// 65536 at least; beyond it what adds something gets FULL, and beyond twice as many POP with LEASE or REQID too
    #[arg(long, value_name = "BYTES", value_parser = memory_bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// How many queues stand in /metrics, those with most messages; 0: none, which saves a QLIST at every scrape
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) metrics_queues: usize,
    /// Send spans of messages with a header traceparent to this OpenTelemetry collector: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// TOML file with a `[queue]` table of these options
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Reads the name of a kind of request.
fn kind(name: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| format!("known are {}", Kind::NAMES.join(", ")))
}
