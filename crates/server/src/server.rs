//! The queue tier as a whole: opens the store, starts the threads, stops them without losing an answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mio::Poll;
use posthaste_measure::{Clock, Figures, Meter, Record, RecordError, RunInfo, Scheme};
use posthaste_tls::{Acceptor, ServerFiles, TlsError};
use posthaste_wire::command::Kind;

use crate::accounts::AccountsFile;
use crate::authenticator::Authenticator;
use crate::clients::Clients;
use crate::collector::Collector;
use crate::house::{Entrance, House};
use crate::http::{self, Http};
use crate::newcomers::Newcomers;
use crate::path::accept::{ListenAddress, Listener};
use crate::path::binder::{self, ListenError, Openings};
use crate::path::limits::BUNDLE_REQUESTS_MAX;
use crate::path::mailbox::{Mail, Mailbox};
use crate::path::network::Network;
use crate::path::waiting_line::WaitingLine;
use crate::path::worker::Store;
use crate::queue::choice::{OpenError, StoreChoice};
use crate::queue::postgres::strategy::Popping;
use crate::slow::SlowLog;
use crate::time::Time;
use crate::trace::Tracer;

/// What a client is told that speaks plain text where TLS is spoken.
const SPEAK_TLS: &[u8] = b"-ERR this port speaks TLS: connect with it (rediss://, redis-cli --tls)\r\n";

/// How to run a queue tier.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<ListenAddress>,
    /// Where HTTP listens; None: nowhere.
    pub http: Option<SocketAddr>,
    /// Whether other processes may listen on the same addresses.
    pub reuse_port: bool,
    /// What connections over TCP are encrypted with, those of HTTP too; None: they are not.
    pub tls: Option<ServerFiles>,
    /// Which store.
    pub store: StoreChoice,
    /// None: any account name may log in.
    pub accounts: Option<PathBuf>,
    /// Network threads, at least 1.
    pub threads: usize,
    /// Workers, at least 1.
    pub workers: usize,
    /// Most requests a worker takes at once, at least 1.
    pub batch: usize,
    /// On PostgreSQL: every request for itself, with pops done like this; `batch` is 1 then.
    pub singly: Option<Popping>,
    /// Largest body in bytes.
    pub message_bytes_max: usize,
    /// Most requests that wait.
    pub line_requests_max: usize,
    /// Kinds of requests that wait in a line of their own and go first.
    pub priority_kinds: Vec<Kind>,
    /// Most connections.
    pub connections_max: usize,
    /// Bytes of selection state above which SEND is refused.
    pub memory_limit: Option<u64>,
    /// How many queues stand in the metrics, those with most messages.
    pub metrics_queues: usize,
    /// Requests that take longer are told in the log.
    pub slow: Option<Duration>,
    /// The collector that gets traces.
    pub traces: Option<String>,
    /// Aggregation window.
    pub window: Duration,
    /// Where to leave a record.
    pub record: Option<(PathBuf, RunNote)>,
    /// With a record: every single request stands in it.
    pub record_requests: bool,
}

/// What the record says of this run.
#[derive(Clone, Debug)]
pub struct RunNote {
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// The options in force.
    pub options: serde_json::Value,
}

/// Why a server could not be started.
#[derive(Debug)]
pub enum StartError {
    /// Anybody could come: an address beyond this machine without accounts.
    Unguarded(ListenAddress),
    /// An address cannot be listened on.
    Listen(ListenError),
    /// Connections cannot be encrypted.
    Tls(TlsError),
    /// The store cannot be opened.
    Store(OpenError),
    /// The accounts file cannot be used.
    Accounts(String),
    /// The record cannot be begun.
    Record(RecordError),
    /// The system refused threads or events.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unguarded(address) => write!(
                f,
                "{address} can be reached from other machines: name the accounts that may log in \
                 (--accounts FILE, made by `posthaste admin account add`) or listen on 127.0.0.1 or unix:PATH"
            ),
            Self::Listen(error) => write!(f, "{error}"),
            Self::Tls(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Accounts(error) => f.write_str(error),
            Self::Record(error) => write!(f, "{error}"),
            Self::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A running queue tier.
pub struct Server {
    house: Arc<House>,
    tls: Option<Arc<Acceptor>>,
    addresses: Vec<ListenAddress>,
    networks: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    collector: Collector,
    http: Option<Http>,
}

/// How a stop went.
#[derive(Debug)]
pub struct Stopped {
    /// Figures of the whole life.
    pub totals: Figures,
    /// The same as a table for people.
    pub summary: String,
    /// Connections that had to be cut because the drain time was over.
    pub cut: usize,
}

impl Server {
    /// Opens the store and starts every thread.
    ///
    /// # Errors
    /// What stands in the way, as one sentence that says what to do.
    pub fn start(options: Options) -> Result<Self, StartError> {
        refuse_unguarded(&options)?;
        let clock = Clock::start();
        let accounts = options.accounts.as_deref().map(AccountsFile::open).transpose();
        let accounts = accounts.map_err(StartError::Accounts)?;
        let tls = options.tls.clone().map(|files| Acceptor::open(files, SPEAK_TLS)).transpose();
        let tls = tls.map_err(StartError::Tls)?.map(Arc::new);
        let store = options.store.open(options.memory_limit, options.singly, Time::start(), clock);
        let store = store.map_err(StartError::Store)?;
        let Openings { listeners, addresses, http } =
            binder::open(&options.listen, options.http, tls.as_ref(), options.reuse_port)
                .map_err(StartError::Listen)?;
        let scheme = Scheme::tier(Kind::NAMES, store.tells());
        let record = begin_record(&options, scheme, clock)?;
        let backlog = record.as_ref().and_then(Record::backlog);
        let meter = Meter::new(scheme, options.window, clock, backlog);
        let polls = (0..options.threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let mailboxes = polls.iter().map(Network::mailbox).collect::<io::Result<Vec<_>>>()?;
        let house = Arc::new(furnish(&options, store, accounts, mailboxes, meter)?);
        house.store.attach(&house.line);
        let workers = start_workers(&options, &house)?;
        let networks = start_networks(polls, listeners, &house)?;
        let collector = Collector::start(Arc::clone(&house.meter), gauges(&house), record)?;
        let routes = http::queue_routes(Arc::clone(&house));
        let http = http.map(|listener| Http::start(listener, tls.clone(), routes)).transpose()?;
        Ok(Self { house, tls, addresses, networks, workers, collector, http })
    }

    /// The addresses really bound.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// The address that HTTP is really bound to.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Http::address)
    }

    /// Reads certificates again, for connections that come from now on; false: there are none.
    ///
    /// # Errors
    /// What is wrong with them; those read before stay in force.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.tls.as_ref().map_or(Ok(false), |tls| tls.reload().map(|()| true))
    }

    /// Stops accepting, finishes what is under way, writes the last answers, closes the store.
    /// Connections that take longer than `drain` are cut.
    #[must_use]
    pub fn stop(self, drain: Duration) -> Stopped {
        let until = Instant::now() + drain;
        // The thread that accepts passes it on, behind all that it has dealt out.
        self.house.mailboxes[0].post(Mail::Stop);
        while !self.networks.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let cut = self.house.clients.len();
        self.house.line.close();
        for worker in self.workers {
            // A worker that panicked has told so.
            let _ = worker.join();
        }
        self.collector.stop();
        if let Some(tracer) = &self.house.tracer {
            tracer.finish();
        }
        if let Some(http) = self.http {
            http.stop();
        }
        let meter = &self.house.meter;
        Stopped { totals: meter.totals(), summary: meter.summary(), cut }
    }
}

/// The levels that stand in every window.
fn gauges(house: &Arc<House>) -> impl Fn() -> Vec<(&'static str, u64)> + Send + use<> {
    let house = Arc::clone(house);
    move || vec![("line_requests", house.line.len() as u64), ("connections", house.clients.len() as u64)]
}

/// Anybody could come to an open server: then only from this machine.
fn refuse_unguarded(options: &Options) -> Result<(), StartError> {
    if options.accounts.is_some() {
        return Ok(());
    }
    let http = options.http.map(ListenAddress::Tcp);
    match options.listen.iter().chain(&http).find(|address| !address.is_local()) {
        Some(open) => Err(StartError::Unguarded(open.clone())),
        None => Ok(()),
    }
}

fn begin_record(options: &Options, scheme: Scheme, clock: Clock) -> Result<Option<Record>, StartError> {
    let Some((dir, note)) = &options.record else { return Ok(None) };
    let info = RunInfo {
        command: note.command.clone(),
        version: crate::info::VERSION.to_owned(),
        options: note.options.clone(),
        window: options.window,
        clock,
        scheme,
        requests: options.record_requests,
    };
    Record::create(dir, info).map(Some).map_err(StartError::Record)
}

fn furnish(
    options: &Options,
    store: Arc<dyn Store>,
    accounts: Option<AccountsFile>,
    mailboxes: Vec<Arc<Mailbox>>,
    meter: Arc<Meter>,
) -> io::Result<House> {
    let entrance = match accounts {
        None => Entrance::Open(store.account(b"default")),
        Some(accounts) => {
            for name in accounts.names() {
                store.account(name);
            }
            Entrance::Closed(Authenticator::start(accounts, mailboxes.clone()))
        }
    };
    let tracer = options.traces.as_deref().map(|url| Tracer::start(url, meter.clock())).transpose()?;
    Ok(House {
        store,
        line: Arc::new(WaitingLine::new(options.line_requests_max, options.priority_kinds.clone())),
        clock: meter.clock(),
        meter,
        clients: Clients::default(),
        newcomers: Newcomers::new(options.connections_max, options.accounts.is_some()),
        entrance,
        mailboxes,
        message_bytes_max: options.message_bytes_max,
        bundle_requests_max: options.batch.min(BUNDLE_REQUESTS_MAX),
        connections_max: options.connections_max,
        connections: AtomicUsize::new(0),
        store_name: options.store.to_string(),
        store_dir: match &options.store {
            StoreChoice::Embedded(dir) => Some(dir.clone()),
            _ => None,
        },
        metrics_queues: options.metrics_queues,
        slow: options.slow.map(SlowLog::start).transpose()?,
        tracer,
    })
}

fn start_workers(options: &Options, house: &Arc<House>) -> io::Result<Vec<JoinHandle<()>>> {
    let requests = options.batch;
    let start = |number: usize| {
        let worker = house.worker();
        Builder::new().name(format!("worker-{number}")).spawn(move || worker.run(requests))
    };
    (0..options.workers).map(start).collect()
}

fn start_networks(
    polls: Vec<Poll>,
    mut listeners: Vec<Listener>,
    house: &Arc<House>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for (number, poll) in polls.into_iter().enumerate() {
        let network = Network::new(number, poll, Arc::clone(house), std::mem::take(&mut listeners))?;
        threads.push(Builder::new().name(format!("network-{number}")).spawn(move || run(network))?);
    }
    Ok(threads)
}

/// A network thread without events cannot serve; the others cannot serve its clients: the whole tier stops.
fn run(network: Network) {
    if let Err(error) = network.run() {
        tracing::error!("a network thread ended: {error}");
        // Without the signal the tier goes on without this thread, which the log has told.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
}
