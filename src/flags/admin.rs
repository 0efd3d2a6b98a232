//! The flags of the management console on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use posthaste_load::address::Address;
use posthaste_server::accounts::check_name;
use posthaste_server::log_level::LogLevel;

use super::over_http::{DoctorFlags, ReachCache, TopFlags, WebReach};
use super::{account, duration, log_level};

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
    pub(crate) connect: Address,
    /// Log in as this account
    #[arg(long, value_name = "NAME", value_parser = account)]
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
    #[command(after_help = "Examples:
  posthaste admin queues
  posthaste admin queues orders --json")]
    Queues {
        /// Only this queue
        queue: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// The messages of a queue, of every recipient and state, without taking any
    #[command(after_help = "Example:
  posthaste admin messages orders --after 17 --count 5")]
    Messages {
        /// The queue
        queue: String,
        /// Only messages with a larger id
        #[arg(long, value_name = "ID", default_value = "0")]
        after: u64,
        /// At most this many
        #[arg(long, value_name = "N", default_value = "20", value_parser = value_parser!(u32).range(1..=10_000))]
        count: u32,
        #[command(flatten)]
        reach: Reach,
    },
    /// All accounts the server knows
    #[command(after_help = "Example:
  posthaste admin accounts --user alice --secret-file secret.txt")]
    Accounts {
        #[command(flatten)]
        reach: Reach,
    },
    /// Who is connected, to a queue tier or (--http) to a cache tier
    #[command(after_help = "Examples:
  posthaste admin clients
  posthaste admin clients --kill 17
  posthaste admin clients --http 127.0.0.1:7481")]
    Clients {
        /// Close this connection instead
        #[arg(long, value_name = "ID")]
        kill: Option<u64>,
        /// The cache tier that serves HTTP here (its --http), instead of a queue tier; https://HOST:PORT speaks TLS
        #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["connect", "user"])]
        http: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Removes every message of a queue
    #[command(after_help = "Example:
  posthaste admin purge orders")]
    Purge {
        /// The queue
        queue: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Deletes a queue with its messages
    #[command(after_help = "Example:
  posthaste admin delete orders")]
    Delete {
        /// The queue
        queue: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Moves dead letters back
    #[command(after_help = "Examples:
  posthaste admin redrive failed
  posthaste admin redrive failed orders")]
    Redrive {
        /// The dead-letter queue
        from: String,
        /// Move all of them to this queue [default: each to the one it came from]
        to: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// What a tier does right now: rates, response times, where the time goes, queues or servers, clients
    Top(TopFlags),
    /// Looks a tier over, and what is behind it, and says what to do; exit code 1 when something must be done
    Doctor(DoctorFlags),
    /// Shows the least severe messages that a running tier logs, or sets them
    #[command(after_help = "Examples:
  posthaste admin log-level
  posthaste admin log-level debug --http 127.0.0.1:7481")]
    LogLevel {
        /// The least severe messages to log from now on
        #[arg(value_parser = log_level())]
        level: Option<LogLevel>,
        #[command(flatten)]
        reach: WebReach,
    },
    /// Of a cache tier: its memcached servers
    #[command(after_help = "Example:
  posthaste admin servers --json")]
    Servers {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: takes a server out (down), spares it (drain) or lets it take part (up)
    #[command(after_help = "Examples:
  posthaste admin server 10.0.0.1:11211 drain
  posthaste admin server 10.0.0.1:11211 up")]
    Server {
        /// The server, as `admin servers` names it
        name: String,
        /// What it is to be
        #[arg(value_parser = ["up", "drain", "down"])]
        state: String,
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: its pools
    #[command(after_help = "Example:
  posthaste admin pools")]
    Pools {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: its routes
    #[command(after_help = "Example:
  posthaste admin routes")]
    Routes {
        #[command(flatten)]
        reach: ReachCache,
    },
    /// Of a cache tier: where a key goes, and why
    #[command(after_help = "Examples:
  posthaste admin route user:17
  posthaste admin route user:17 --command set --file cache.toml")]
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
    #[command(after_help = "Example:
  posthaste admin store --store postgres://app@db.example/posthaste")]
    Store {
        /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
        // Text, not an address: an error of the flags would repeat the value, password included.
        #[arg(long, value_name = "URL")]
        store: String,
        /// Report only transactions that have been open for at least this long
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
        older_than: Duration,
        /// JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Copies an embedded store, while its server goes on or at rest; run it where the store is
    #[command(after_help = "Example:
  posthaste admin backup --store embedded:/var/lib/posthaste/posthaste-data --to /backup/monday")]
    Backup {
        /// The store: embedded:DIR
        #[arg(long, value_name = "STORE", default_value = "embedded:./posthaste-data")]
        store: String,
        /// A directory for the copy, empty or not there yet
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Accounts of a closed server, in its accounts file
    #[command(
        subcommand,
        after_help = "Examples:
  posthaste admin account add alice --file accounts.txt < secret.txt
  posthaste admin account list --file accounts.txt
  posthaste admin account remove alice --file accounts.txt"
    )]
    Account(AccountCommand),
}

/// Commands of `posthaste admin account`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Adds an account, or gives it a new secret; the secret is read from stdin
    #[command(after_help = "Examples:
  posthaste admin account add alice --file accounts.txt < secret.txt
  posthaste admin account add mailer --send 'mail.*' --receive 'mail.*' < secret.txt")]
    Add {
        /// The account
        #[arg(value_parser = account_of_file)]
        name: String,
        /// The accounts file
        #[arg(long, value_name = "FILE", default_value = "accounts.txt")]
        file: PathBuf,
        #[command(flatten)]
        roles: RoleFlags,
    },
    /// Takes an account out
    #[command(after_help = "Example:
  posthaste admin account remove alice --file accounts.txt")]
    Remove {
        /// The account
        #[arg(value_parser = account_of_file)]
        name: String,
        /// The accounts file
        #[arg(long, value_name = "FILE", default_value = "accounts.txt")]
        file: PathBuf,
    },
    /// Who is in the file, and what they may do
    #[command(after_help = "Examples:
  posthaste admin account list --file accounts.txt
  posthaste admin account list --file accounts.txt --json")]
    List {
        /// The accounts file
        #[arg(long, value_name = "FILE", default_value = "accounts.txt")]
        file: PathBuf,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
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

/// Checks the name of an account for an accounts file.
fn account_of_file(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}
