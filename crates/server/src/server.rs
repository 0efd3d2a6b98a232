//! The queue tier as a whole: opens the store, starts the threads, stops them without losing an answer.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste_measure::{Clock, Scheme};
use posthaste_wire::command::Kind;
use posthaste_wire::fault::Fault;

use crate::account_registrar::AccountRegistrar;
use crate::accounts::AccountsFile;
use crate::authenticator::Authenticator;
use crate::clients::Clients;
use crate::front::accept::Endpoint;
use crate::front::lifecycle::{self, Prepared, Running, Stopped, start_workers};
use crate::http;
use crate::path::limits::{BUNDLE_ANSWER_BYTES, BUNDLE_READS_MAX, BUNDLE_REQUESTS_MAX};
use crate::path::mail::{Mail, Mailbox};
use crate::path::tier::QueueTier;
use crate::path::waiting_line::WaitingLine;
use crate::path::worker::Store;
use crate::queue::choice::{OpenError, StoreChoice};
use crate::queue::postgres::strategy::Popping;
use crate::queue_shared::{Entrance, QueueShared};
use crate::slow::SlowLog;
use crate::time::{DriftWatch, Time};
use crate::trace::Tracer;

/// Answer to a client that speaks plain text to a port that speaks TLS.
const SPEAK_TLS: &[u8] =
    b"-ERR this port speaks TLS: connect with it (rediss://, redis-cli --tls, posthaste admin --tls)\r\n";

/// The options that name addresses.
const LISTEN: &str = "--listen";
const HTTP: &str = "--http";

/// How to run a queue tier.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the tier is reached, and what is measured.
    pub front: lifecycle::Options,
    /// Which store.
    pub store: StoreChoice,
    /// The accounts file; None: any account name may log in.
    pub accounts: Option<PathBuf>,
    /// Number of workers, at least 1.
    pub workers: usize,
    /// Most requests a worker takes at once, at least 1.
    pub batch: usize,
    /// On PostgreSQL: every request in a statement of its own, with pops done like this; `batch` is 1 then.
    pub unbatched: Option<Popping>,
    /// Largest body in bytes.
    pub message_bytes_max: usize,
    /// Most requests in the waiting line.
    pub line_requests_max: usize,
    /// Kinds of requests that wait in a line of their own and go first.
    pub priority_kinds: Vec<Kind>,
    /// Bytes of selection state above which SEND is refused.
    pub memory_limit: Option<u64>,
    /// How many queues the metrics show, those with most messages.
    pub metrics_queues: usize,
    /// URL of the collector that gets traces; None: traces are off.
    pub traces: Option<String>,
}

/// Why a queue tier could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The address of this option can be reached from other machines, and there is no accounts file.
    Unguarded(&'static str, Endpoint),
    /// The store cannot be opened.
    Store(OpenError),
    /// The accounts file cannot be used.
    Accounts(String),
    /// The store cannot register the account of connections without a login.
    DefaultAccount(Fault),
    /// Something that any tier needs is not available.
    Front(lifecycle::StartError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unguarded(option, address) => {
                let otherwise = if *option == HTTP { "off" } else { "unix:PATH" };
                write!(
                    f,
                    "{option} {address} can be reached from other machines: name the accounts that may log in \
                     (--accounts FILE, made by `posthaste admin account add`), or have it on 127.0.0.1 or {otherwise}"
                )
            }
            Self::Store(error) => write!(f, "{error}"),
            Self::Accounts(error) => f.write_str(error),
            Self::DefaultAccount(fault) => write!(f, "the account default cannot be made: {}", fault.text),
            Self::Front(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<lifecycle::StartError> for StartError {
    fn from(error: lifecycle::StartError) -> Self {
        Self::Front(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Front(error.into())
    }
}

/// A running queue tier.
pub struct Server {
    shared: Arc<QueueShared>,
    running: Running<Mail>,
    registrar: Option<AccountRegistrar>,
}

impl Server {
    /// Opens the store and starts every thread.
    ///
    /// # Errors
    /// What prevents the start, as one sentence that says what to do.
    pub fn start(options: Options) -> Result<Self, StartError> {
        refuse_unguarded(&options)?;
        let clock = Clock::start();
        let accounts = options.accounts.as_deref().map(AccountsFile::open).transpose();
        let accounts = accounts.map_err(StartError::Accounts)?;
        accounts.iter().for_each(AccountsFile::warn_if_empty);
        let tls = lifecycle::encryption(&options.front, SPEAK_TLS)?;
        let events = options.front.events(clock);
        let store =
            options.store.open(options.memory_limit, options.unbatched, Time::of(clock), clock, &events);
        let store = store.map_err(StartError::Store)?;
        let accounts_path = options.accounts.as_deref();
        let registrar = accounts_path.map(|path| AccountRegistrar::start(path, &store)).transpose();
        let registrar = registrar.map_err(StartError::Accounts)?;
        let scheme = Scheme::tier(Kind::NAMES, store.reported_time());
        let prepared = Prepared::open(&options.front, tls, scheme, clock, events, accounts.is_some())?;
        let shared = Arc::new(make_shared(&options, store, accounts, &prepared)?);
        shared.store.attach(&shared.line);
        let batch = options.batch;
        let workers = start_workers(options.workers, |_| {
            let worker = shared.worker();
            move || worker.run(batch)
        })?;
        let tier = |thread| QueueTier::new(thread, Arc::clone(&shared));
        let routes = |_| http::queue_routes(Arc::clone(&shared));
        let running = prepared.start(workers, tier, gauges(&shared), routes)?;
        Ok(Self { shared, running, registrar })
    }

    /// Returns the running front: addresses, certificates.
    #[must_use]
    pub fn running(&self) -> &Running<Mail> {
        &self.running
    }

    /// Stops accepting, finishes what is under way, writes the last answers, closes the store.
    /// Connections that take longer than `drain` are cut.
    #[must_use]
    pub fn stop(self, drain: Duration) -> Stopped {
        // Before the store is closed: the registrar's thread must not hold the last reference and close it, as nothing
        // waits for that thread.
        drop(self.registrar);
        let stopped = self.running.stop(drain, || self.shared.line.close());
        if let Some(tracer) = &self.shared.tracer {
            tracer.flush();
        }
        stopped
    }
}

/// Returns a function that reads the gauges, which every window records. With each window the clock of a store in this
/// process is compared with the machine's.
fn gauges(shared: &Arc<QueueShared>) -> impl Fn() -> Vec<(&'static str, u64)> + Send + use<> {
    let shared = Arc::clone(shared);
    let watch = (!shared.store.is_far()).then(|| DriftWatch::new(Time::of(shared.clock)));
    move || {
        watch.iter().for_each(DriftWatch::look);
        vec![
            ("line_requests", shared.line.len() as u64),
            ("connections", shared.gate.connections_from_outside() as u64),
        ]
    }
}

/// Refuses a server without accounts that other machines can reach.
fn refuse_unguarded(options: &Options) -> Result<(), StartError> {
    if options.accounts.is_some() {
        return Ok(());
    }
    let listen = options.front.listen.iter().map(|address| (LISTEN, address.clone()));
    let http = options.front.http.map(|address| (HTTP, Endpoint::Tcp(address)));
    match listen.chain(http).find(|(_, address)| !address.is_local()) {
        Some((option, address)) => Err(StartError::Unguarded(option, address)),
        None => Ok(()),
    }
}

/// Returns the account of connections without a login, which count as such only once somebody logs in as it. An
/// application's open transaction may keep it in a database: this waits for its end.
fn default_account(store: &dyn Store) -> Result<u32, Fault> {
    loop {
        match store.meet_account(b"default") {
            Err(fault) if store.is_far() => {
                tracing::warn!("the account default cannot be made, trying again: {}", fault.text);
                std::thread::sleep(Duration::from_secs(1));
            }
            made => return made,
        }
    }
}

fn make_shared(
    options: &Options,
    store: Arc<dyn Store>,
    accounts: Option<AccountsFile>,
    prepared: &Prepared<Mail>,
) -> Result<QueueShared, StartError> {
    let mailboxes: Vec<Arc<Mailbox>> = prepared.mailboxes.clone();
    let clock = prepared.meter.clock();
    let entrance = match accounts {
        None => Entrance::Open(default_account(&*store).map_err(StartError::DefaultAccount)?),
        Some(accounts) => Entrance::Closed(Authenticator::start(accounts, mailboxes.clone())?),
    };
    let tracer = options.traces.as_deref().map(|url| Tracer::start(url, clock)).transpose()?;
    Ok(QueueShared {
        store,
        line: Arc::new(WaitingLine::new(clock, options.line_requests_max, options.priority_kinds.clone())),
        clock,
        meter: Arc::clone(&prepared.meter),
        clients: Clients::default(),
        gate: Arc::clone(&prepared.gate),
        entrance,
        mailboxes,
        message_bytes_max: options.message_bytes_max,
        bundle_requests_max: options.batch.min(BUNDLE_REQUESTS_MAX),
        bundle_reads_max: match options.store {
            StoreChoice::Postgres(_) => {
                (BUNDLE_ANSWER_BYTES / options.message_bytes_max.max(1)).clamp(1, BUNDLE_READS_MAX)
            }
            _ => usize::MAX,
        },
        store_name: options.store.to_string(),
        store_is_durable: options.store.is_durable(),
        store_dir: match &options.store {
            StoreChoice::Embedded(dir) => Some(dir.clone()),
            _ => None,
        },
        metrics_queues: options.metrics_queues,
        slow: options.front.slow.map(SlowLog::start).transpose()?,
        tracer,
    })
}
