//! The commands and their flags. What stands here is what `--help` shows.

mod looking;
mod pages;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::rules::{Multiget, Reads, Writes};
use posthaste_server::queue::postgres::strategy::{Backoff, PopStrategy};

pub(crate) use self::looking::{DoctorFlags, ReachCache, TopFlags, WebReach};
pub(crate) use self::pages::{CompletionsFlags, ManFlags, ReferenceFlags, Topic};

/// A middle tier that explains itself: durable message queues over RESP, measured at every stage.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true)]
pub(crate) enum Program {
    /// The queue tier: durable message queues for any Redis client
    Queue(QueueFlags),
    /// The cache tier: a router between memcached clients and memcached servers
    Cache(CacheFlags),
    /// The load generator
    #[command(subcommand)]
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

/// `posthaste queue`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste queue
  posthaste queue --listen 127.0.0.1:7411 --store embedded:/var/lib/posthaste
  posthaste queue --listen 0.0.0.0:7411 --accounts accounts.txt --tls-cert queue.crt --tls-key queue.key
  redis-cli -p 7411 QCREATE orders; redis-cli -p 7411 SEND orders hello; redis-cli -p 7411 POP QUEUE orders")]
pub(crate) struct QueueFlags {
    /// RESP address: HOST:PORT or unix:PATH; may repeat
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: Vec<String>,
    /// Health and live figures over HTTP: HOST:PORT, or `off`
    #[arg(long, value_name = "ADDRESS|off", default_value = "127.0.0.1:7480")]
    pub(crate) http: String,
    /// Let another process listen on the same addresses, so that a restart can begin before the end
    #[arg(long)]
    pub(crate) reuse_port: bool,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// Where messages are kept: embedded:DIR (durable), postgres://… (durable, shared by several middlewares),
    /// memory: (not durable), mock:BYTES (fixed answers)
    #[arg(long, value_name = "STORE", default_value = "embedded:./posthaste-data")]
    pub(crate) store: String,
    /// `open`: any account name may log in; or a file made by `posthaste admin account add`
    #[arg(long, value_name = "open|FILE", default_value = "open")]
    pub(crate) accounts: String,
    /// Network threads [default: number of cores]
    #[arg(long, value_parser = at_least_one)]
    pub(crate) threads: Option<usize>,
    /// Concurrent workers [default: 8 on PostgreSQL, each with a connection of its own; otherwise 1]
    #[arg(long, value_parser = at_least_one)]
    pub(crate) workers: Option<usize>,
    /// Most requests a worker takes from the line at once; 1 = one request, one commit
    #[arg(long, default_value = "256", value_parser = at_least_one)]
    pub(crate) batch: usize,
    #[command(flatten)]
    pub(crate) popping: PoppingFlags,
    /// Largest message body in bytes; larger ones get TOOBIG
    #[arg(long, value_name = "BYTES", default_value = "65536")]
    pub(crate) max_message: usize,
    /// Most requests waiting; beyond it a request gets BUSY
    #[arg(long, value_name = "REQUESTS", default_value = "65536", value_parser = at_least_one)]
    pub(crate) line_limit: usize,
    /// Request kinds that wait in a line of their own and go first, for example peek,readable
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) priority_line: Vec<String>,
    /// Bytes of memory for the selection state; beyond it SEND gets FULL
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_limit: Option<u64>,
    /// Most client connections
    #[arg(long, value_name = "N", default_value = "20000", value_parser = at_least_one)]
    pub(crate) max_clients: usize,
    /// How many queues stand in /metrics, those with most messages; 0: none, which saves a QLIST at every scrape
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) metrics_queues: usize,
    /// Tell in the log of requests that take longer, with their stages
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) slow: Option<Duration>,
    /// Send spans of messages with a header traceparent to this OpenTelemetry collector: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// Aggregation window of the measurements
    #[arg(long, default_value = "1s", value_parser = some_time)]
    pub(crate) window: Duration,
    /// Leave a record (run.json, windows.csv, latency.hlog, system.csv) in this directory, which holds none yet
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Record every single request too, with its six stamps (requests.parquet)
    #[arg(long, requires = "record")]
    pub(crate) record_requests: bool,
    /// How long a graceful stop waits for requests in flight
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) drain: Duration,
    /// Form of the log on stderr
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// TOML file with a `[queue]` table of these options
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `posthaste cache`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste cache --server 10.0.0.1:11211 --server 10.0.0.2:11211
  posthaste cache --writes owner --server 10.0.0.1 --server 10.0.0.2 --server 10.0.0.3
  posthaste cache --workers 16 --multiget split --server 10.0.0.1 --server 10.0.0.2
  posthaste cache --config /etc/posthaste/cache.toml
  posthaste cache --check /etc/posthaste/cache.toml
  posthaste cache --import nutcracker.yml > cache.toml")]
pub(crate) struct CacheFlags {
    /// Address for memcached clients: HOST:PORT or unix:PATH; may repeat
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7412")]
    pub(crate) listen: Vec<String>,
    /// Health and live figures over HTTP: HOST:PORT, or `off`
    #[arg(long, value_name = "ADDRESS|off", default_value = "127.0.0.1:7481")]
    pub(crate) http: String,
    /// Let another process listen on the same addresses, so that a restart can begin before the end
    #[arg(long)]
    pub(crate) reuse_port: bool,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// A memcached server: HOST, HOST:PORT or unix:PATH, or tls:HOST:PORT if it speaks TLS; may repeat
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Vec<String>,
    #[command(flatten)]
    pub(crate) server_tls: ServerTlsFlags,
    /// all: to every server, they are replicas; owner: to the key's owner, they share the keys
    #[arg(long, value_name = "all|owner", default_value_t)]
    pub(crate) writes: Writes,
    /// round-robin, nearest (fewest requests under way) or owner [default: round-robin; owner with --writes owner]
    #[arg(long, value_name = "RULE")]
    pub(crate) reads: Option<Reads>,
    /// Several keys from replicas: whole (one server), split (evenly over all) or auto (what costs less, as measured)
    #[arg(long, value_name = "RULE", default_value_t)]
    pub(crate) multiget: Multiget,
    /// Who owns a key: ketama (libmemcached), jump (memcached's proxy), rendezvous (pymemcache), modulo-crc32
    /// (gomemcache), dalli, spymemcached, spymemcached-modulo, twemproxy or mcrouter
    #[arg(long, value_name = "RULE", default_value_t)]
    pub(crate) hash: Hash,
    /// on: a server that is lost is left out until it is well again, and then serves nothing that it missed; off: it
    /// stays in every answer [default: on; off with workers]
    #[arg(long, value_name = "on|off")]
    pub(crate) eject: Option<Switch>,
    /// pipelined: network threads share connections to servers among their clients; N: so many workers, each with
    /// connections of its own and one request at a time
    #[arg(long, value_name = "pipelined|N", default_value = "pipelined", value_parser = workers)]
    pub(crate) workers: Workers,
    /// on: flush_all reaches every server; off: it is refused
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub(crate) flush_all: Switch,
    /// Fixed answers with values of so many bytes, and no servers
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "1024")]
    pub(crate) mock: Option<usize>,
    /// How long a server may take to answer
    #[arg(long, default_value = "1s", value_parser = some_time)]
    pub(crate) server_timeout: Duration,
    /// Network threads [default: number of cores]
    #[arg(long, value_parser = at_least_one)]
    pub(crate) threads: Option<usize>,
    /// With workers: most requests waiting; beyond it a request gets an error
    #[arg(long, value_name = "REQUESTS", default_value = "65536", value_parser = at_least_one)]
    pub(crate) line_limit: usize,
    /// Most client connections
    #[arg(long, value_name = "N", default_value = "20000", value_parser = at_least_one)]
    pub(crate) max_clients: usize,
    /// Largest value in bytes; larger ones are refused as memcached refuses them
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    pub(crate) max_value: usize,
    /// Bytes held for clients altogether: beyond it the client that holds most is cut
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = at_least_one)]
    pub(crate) memory_limit: usize,
    /// Tell in the log of requests that take longer, with their stages
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) slow: Option<Duration>,
    /// Aggregation window of the measurements
    #[arg(long, default_value = "1s", value_parser = some_time)]
    pub(crate) window: Duration,
    /// Leave a record (run.json, windows.csv, latency.hlog, system.csv) in this directory, which holds none yet
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Record every single request too, with its six stamps and its reads from servers (requests.parquet)
    #[arg(long, requires = "record")]
    pub(crate) record_requests: bool,
    /// How long a graceful stop waits for requests in flight
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) drain: Duration,
    /// Form of the log on stderr
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// TOML file with a `[cache]` table of these options, of pools and of routes; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Start nothing: read this file as --config would, and say what it means
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) check: Option<PathBuf>,
    /// Start nothing: translate this configuration of mcrouter (JSON) or twemproxy (YAML) to a file for --config, and say
    /// what it left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "check"])]
    pub(crate) import: Option<PathBuf>,
    /// With --import: the pool of a file of twemproxy that has several
    #[arg(long, value_name = "NAME", requires = "import")]
    pub(crate) pool: Option<String>,
}

/// What a tier encrypts its connections with.
#[derive(Args, Debug)]
pub(crate) struct TlsFlags {
    /// Speak TLS over TCP, HTTP included: this certificate and those that lead to its authority, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Take only clients with a certificate of these authorities
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Whom the cache tier trusts among its servers.
#[derive(Args, Debug)]
pub(crate) struct ServerTlsFlags {
    /// Authorities of servers that speak TLS, or their own certificates [default: the system's authorities]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_ca: Option<PathBuf>,
    /// The certificate shown to servers that ask for one
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_key: Option<PathBuf>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// `--workers`: None is pipelined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers(pub(crate) Option<usize>);

/// `pipelined` or a number. Threads and workers are told apart by 16 bits.
fn workers(text: &str) -> Result<Workers, String> {
    match text {
        "pipelined" => Ok(Workers(None)),
        text => match at_least_one(text) {
            Ok(number) if number <= 10_000 => Ok(Workers(Some(number))),
            Ok(_) => Err("must be at most 10000".into()),
            Err(_) => Err("write pipelined, or a number of workers".into()),
        },
    }
}

/// How single pops are done on PostgreSQL, for experiments.
#[derive(Args, Debug)]
pub(crate) struct PoppingFlags {
    /// On PostgreSQL with --batch 1: every request is a statement of its own, and pops are done by skip-locked,
    /// delete-retry, for-update, repeatable-read or mark-update
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) pop_strategy: Option<PopStrategy>,
    /// What a pop does that lost its message to a faster one: none (tries again at once) or exponential (pauses)
    #[arg(long, value_name = "BACKOFF", default_value_t)]
    pub(crate) pop_backoff: Backoff,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// `posthaste bench`
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Loads a queue tier and reports throughput and response times
    Queue(Box<posthaste_load::QueueBench>),
    /// Loads a cache, memcached or what speaks like it, and reports throughput, response times, hits and misses
    Cache(Box<posthaste_load::CacheBench>),
    /// Makes one report of the records of several load generators that ran at the same time
    Merge(MergeFlags),
    /// Drives a store directly, without network: what the disk and the store alone can do
    Store(BenchStoreFlags),
}

/// `posthaste bench merge`
#[derive(Args, Debug)]
#[command(after_help = "Example, two processes as one experiment:
  at=$(($(date +%s) + 5))
  posthaste bench queue --clients 64 --start-at $at --record a &
  posthaste bench queue --clients 64 --first-client 65 --start-at $at --record b; wait
  posthaste bench merge a b --json both.json")]
pub(crate) struct MergeFlags {
    /// Directories that --record has left
    #[arg(value_name = "DIR", required = true)]
    pub(crate) records: Vec<PathBuf>,
    /// Write the report here as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `posthaste bench store`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste bench store --store embedded:/tmp/bench --batch 64
  posthaste bench store --store memory: --workload send --preload 1000000
  posthaste bench store --store postgres://app@db.example/bench --workload twelve-step --connections 16 --batch 1")]
pub(crate) struct BenchStoreFlags {
    /// The store to drive; an embedded directory must be new or empty, and so must a database but for the schema
    #[arg(long, value_name = "STORE", default_value = "embedded:./posthaste-bench")]
    pub(crate) store: String,
    /// What is done
    #[arg(long, default_value = "pairs")]
    pub(crate) workload: StoreWorkload,
    /// Operations in one commit; may repeat
    #[arg(long, default_values_t = [1, 16, 64, 256], value_parser = at_least_one)]
    pub(crate) batch: Vec<usize>,
    /// On PostgreSQL: connections at once, each with a thread of its own; may repeat [default: 1 4 16]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) connections: Vec<usize>,
    #[command(flatten)]
    pub(crate) popping: PoppingFlags,
    /// Body bytes
    #[arg(long, value_name = "BYTES", default_value = "200")]
    pub(crate) message_bytes: usize,
    /// Messages sent before anything is measured
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) preload: u64,
    /// How long each batch size is measured
    #[arg(long, default_value = "5s", value_parser = some_time)]
    pub(crate) duration: Duration,
    /// Repetitions of the whole series; medians are shown
    #[arg(long, default_value = "3", value_parser = at_least_one)]
    pub(crate) repetitions: usize,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What `bench store` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreWorkload {
    /// Sends only
    Send,
    /// As many pops as sends
    Pairs,
    /// The loop of `bench queue`; on PostgreSQL only
    TwelveStep,
}

/// `posthaste admin`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste admin queues
  posthaste admin messages orders --count 5 --json
  posthaste admin clients --kill 17
  posthaste admin store --store postgres://app@db.example/posthaste
  posthaste admin top
  posthaste admin doctor --http 127.0.0.1:7481
  posthaste admin account add alice --file accounts.txt < secret.txt
  posthaste admin account add mailer --send 'mail.*' --receive 'mail.*' < secret.txt
  posthaste admin queues --user alice --secret-file secret.txt")]
pub(crate) struct Admin {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

/// How to reach the server, and the form of the output.
#[derive(Args, Debug)]
pub(crate) struct Reach {
    /// The queue tier: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) connect: String,
    /// Log in as this account
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The file that holds its secret
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: posthaste_load::tls::TlsOptions,
    /// JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands of `posthaste admin`.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// All queues with their counts, or one with its options
    Queues {
        /// Only this queue
        queue: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// The messages of a queue, of every recipient and state, without taking any
    Messages {
        /// The queue
        queue: String,
        /// Only messages with a larger id
        #[arg(long, value_name = "ID", default_value = "0")]
        after: u64,
        /// At most this many
        #[arg(long, value_name = "N", default_value = "20")]
        count: u32,
        #[command(flatten)]
        reach: Reach,
    },
    /// All accounts the server knows
    Accounts {
        #[command(flatten)]
        reach: Reach,
    },
    /// Who is connected
    Clients {
        /// Close this connection instead
        #[arg(long, value_name = "ID")]
        kill: Option<u64>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Removes every message of a queue
    Purge {
        /// The queue
        queue: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Deletes a queue with its messages
    Delete {
        /// The queue
        queue: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Moves dead letters back
    Redrive {
        /// The dead-letter queue
        from: String,
        /// Another queue than the one each came from
        to: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// What a tier does right now: rates, response times, where the time goes, queues or servers, clients
    Top(TopFlags),
    /// Looks a tier over, and what is behind it, and says what to do; exit code 1 when something must be done
    Doctor(DoctorFlags),
    /// Of a cache tier: its memcached servers
    Servers {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: takes a server out (down), spares it (drain) or lets it take part (up)
    Server {
        /// The server, as `admin servers` names it
        name: String,
        /// up, drain or down
        state: String,
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: its pools
    Pools {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: its routes
    Routes {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: where a key goes, and why
    Route {
        /// The key
        key: String,
        /// What is asked of it: get, set, delete, …
        #[arg(long, value_name = "COMMAND", default_value = "get")]
        command: String,
        /// Ask this file, and no server
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        reach: ReachCache,
    },
    /// How a PostgreSQL store is: sizes, dead rows, who keeps them from being removed, and what to do
    Store {
        /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
        // Text, not an address: an error of the flags would repeat the value, password included.
        #[arg(long, value_name = "URL")]
        store: String,
        /// Transactions that have been open for less are no finding
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
        older_than: Duration,
        /// JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Accounts of a closed server, in its accounts file
    #[command(subcommand)]
    Account(AccountCommand),
}

/// Commands of `posthaste admin account`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Adds an account, or gives it a new secret; the secret is read from stdin
    Add {
        /// The account
        name: String,
        /// The accounts file
        #[arg(long, value_name = "FILE", default_value = "accounts.txt")]
        file: PathBuf,
        #[command(flatten)]
        roles: RoleFlags,
    },
    /// Takes an account out
    Remove {
        /// The account
        name: String,
        /// The accounts file
        #[arg(long, value_name = "FILE", default_value = "accounts.txt")]
        file: PathBuf,
    },
}

/// What an account may do. With none of these a new account may do everything, and one that was there keeps what it may.
#[derive(Args, Debug)]
pub(crate) struct RoleFlags {
    /// May send to queues of these names: * stands for any characters, ? for one; may repeat
    #[arg(long, value_name = "PATTERN")]
    pub(crate) send: Vec<String>,
    /// May peek and pop from queues of these names; may repeat
    #[arg(long, value_name = "PATTERN")]
    pub(crate) receive: Vec<String>,
    /// May create, delete, purge, redrive and browse queues of these names; may repeat
    #[arg(long, value_name = "PATTERN")]
    pub(crate) administer: Vec<String>,
}

/// `posthaste migrate`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste migrate --store postgres://app@db.example/posthaste
  PGPASSWORD=… posthaste migrate --store 'postgres://app@db.example/posthaste?sslmode=verify-full'
  posthaste migrate --print | psql posthaste")]
pub(crate) struct MigrateFlags {
    /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    // Text, not an address: an error of the flags would repeat the value, password included.
    #[arg(long, value_name = "URL", required_unless_present = "print")]
    pub(crate) store: Option<String>,
    /// For experiments: afterwards give every request a fixed answer with a body of so many bytes, which touches no
    /// table; the database must hold no queue, and keeps none from then on
    #[arg(long, value_name = "BYTES", conflicts_with = "print")]
    pub(crate) mock: Option<u32>,
    /// Change nothing: write the whole schema to stdout as a script for psql
    #[arg(long)]
    pub(crate) print: bool,
}

/// `posthaste lab`
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  posthaste lab run experiments/clients.toml --quick
  posthaste lab report results/clients-quick
  posthaste lab --help"
)]
pub(crate) struct LabFlags {
    /// What the laboratory is to do: run, report, models, …; `posthaste lab --help` lists it
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".into()),
    }
}

/// A duration that is not nothing.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(10) => Err("must be at least 10ms".into()),
        time => Ok(time),
    }
}

/// `500ms`, `1s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    posthaste_load::timespan::parse(text)
}
