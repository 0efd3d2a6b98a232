//! Start and stop of a tier, as far as both tiers share it: what is opened before the tier's own parts, the threads,
//! and a stop in which no answer is lost.
//!
//! A start is three steps: [`encryption`], what the tier itself opens, then [`Prepared::open`]. Addresses are bound only
//! when the rest has gone well, so that a process that takes over another's addresses serves from its first connection.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use mio::Poll;
use posthaste_measure::{Clock, Events, Figures, Meter, Record, RecordError, RunInfo, Scheme};
use posthaste_tls::{Acceptor, ServerFiles, TlsError};

use super::accept::{Endpoint, Listener};
use super::binder::{self, ListenError, ListeningSockets};
use super::gate::Gate;
use super::mailbox::Mailbox;
use super::network::{self, Network, ThreadSetup};
use super::quiet::QuietLimits;
use super::tier::Tier;
use crate::collector::Collector;
use crate::http::Http;

/// Time between two checks of a stop whether all threads have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// How long workers have to end when the drain time is over: enough for what waits in line if the store answers.
const WORKERS_END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long threads have to end that were told to cut their connections: far more than they take.
pub(crate) const CUT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a tier is reached, and what is measured of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<Endpoint>,
    /// Where HTTP listens; None: nowhere.
    pub http: Option<SocketAddr>,
    /// Whether other processes may listen on the same addresses.
    pub reuse_port: bool,
    /// What connections over TCP are encrypted with, those of HTTP too; None: they are not.
    pub tls: Option<ServerFiles>,
    /// Network threads, at least 1.
    pub threads: usize,
    /// Most connections at once.
    pub connections_max: usize,
    /// How long clients may be quiet.
    pub quiet_limits: QuietLimits,
    /// Requests that take longer are logged; None: none are.
    pub slow: Option<Duration>,
    /// Aggregation window.
    pub window: Duration,
    /// Where to write a record, and what it says of the run; None: nowhere.
    pub record: Option<(PathBuf, RunNote)>,
    /// Whether a record contains every single request.
    pub record_requests: bool,
}

impl Options {
    /// Returns where the parts of the program note events for the record; without a record they are dropped.
    #[must_use]
    pub fn events(&self, clock: Clock) -> Events {
        if self.record.is_some() { Events::kept(clock) } else { Events::default() }
    }
}

/// What the record says of this run.
#[derive(Clone, Debug)]
pub struct RunNote {
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// The options in force.
    pub options: serde_json::Value,
}

/// Why a tier could not be started, as far as both tiers share the causes.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Listen(ListenError),
    /// Connections cannot be encrypted, because of what this option names.
    Tls(&'static str, TlsError),
    /// The record cannot be begun.
    Record(RecordError),
    /// The system refused threads or events.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => write!(f, "{error}"),
            Self::Tls(option, error) => write!(f, "{option}: {error}"),
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

/// Returns the encryption of connections, if it is on; `plaintext_answer` is sent to a client that does not speak TLS.
///
/// # Errors
/// What is wrong with the files.
pub fn encryption(
    options: &Options,
    plaintext_answer: &'static [u8],
) -> Result<Option<Arc<Acceptor>>, StartError> {
    let open = |files: &ServerFiles| {
        let opened = Acceptor::open(files.clone(), plaintext_answer).map(Arc::new);
        opened.map_err(|error| StartError::Tls(option_of(files, &error), error))
    };
    let acceptor = options.tls.as_ref().map(open).transpose()?;
    if let Some(fault) = acceptor.as_ref().and_then(|acceptor| acceptor.certificate_fault()) {
        tracing::warn!(
            "the certificate of --tls-cert {fault}, and clients will refuse it: renew it, and send SIGHUP"
        );
    }
    Ok(acceptor)
}

/// Returns the option that names what cannot be used.
fn option_of(files: &ServerFiles, error: &TlsError) -> &'static str {
    match error {
        TlsError::File(path, _) if *path == files.key => "--tls-key",
        TlsError::File(path, _) if files.clients.as_ref() == Some(path) => "--tls-ca",
        TlsError::File(..) => "--tls-cert",
        _ => "--tls-cert and --tls-key",
    }
}

/// What both tiers need before they serve anything.
pub struct Prepared<M> {
    /// The meter that records all requests.
    pub meter: Arc<Meter>,
    /// The network threads' mailboxes.
    pub mailboxes: Vec<Arc<Mailbox<M>>>,
    /// Decides which connections are let in.
    pub gate: Arc<Gate>,
    tls: Option<Arc<Acceptor>>,
    addresses: Vec<Endpoint>,
    listeners: Vec<Listener>,
    http: Option<TcpListener>,
    polls: Vec<Poll>,
    record: Option<Record>,
}

impl<M: Send + 'static> Prepared<M> {
    /// Listens, and begins to measure; the record contains what is noted in `events`. With `must_log_in`, a client is a
    /// newcomer until it has logged in.
    ///
    /// # Errors
    /// What prevents the start.
    pub fn open(
        options: &Options,
        tls: Option<Arc<Acceptor>>,
        scheme: Scheme,
        clock: Clock,
        events: Events,
        must_log_in: bool,
    ) -> Result<Self, StartError> {
        let ListeningSockets { listeners, addresses, http } =
            binder::open(&options.listen, options.http, tls.as_ref(), options.reuse_port)
                .map_err(StartError::Listen)?;
        let record = begin_record(options, scheme, clock, events)?;
        let backlog = record.as_ref().and_then(Record::backlog);
        let meter = Meter::new(scheme, options.window, clock, backlog);
        let polls = (0..options.threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let mailboxes = polls.iter().map(network::mailbox).collect::<io::Result<Vec<_>>>()?;
        let gate = Gate::new(options.connections_max, must_log_in).with_quiet_limits(options.quiet_limits);
        let gate = Arc::new(gate.with_tls(tls.clone()));
        Ok(Self { meter, mailboxes, gate, tls, addresses, listeners, http, polls, record })
    }

    /// Starts the network threads, each with its part of the tier; the collector, which notes these `gauges` in every
    /// window; and HTTP, whose paths may depend on the address that it is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn start<T: Tier<Mail = M> + Send + 'static>(
        self,
        workers: Vec<JoinHandle<()>>,
        tier: impl Fn(usize) -> T,
        gauges: impl Fn() -> Vec<(&'static str, u64)> + Send + 'static,
        routes: impl FnOnce(SocketAddr) -> Router,
    ) -> io::Result<Running<M>>
    where
        T::Connection: Send,
    {
        let Self { meter, mailboxes, gate, tls, addresses, mut listeners, http, polls, record } = self;
        let has_failed = Arc::<AtomicBool>::default();
        let mut networks = Vec::new();
        for (thread, poll) in polls.into_iter().enumerate() {
            let listeners = std::mem::take(&mut listeners);
            let (mailboxes, gate, clock) = (mailboxes.clone(), Arc::clone(&gate), meter.clock());
            let setup = ThreadSetup { thread, poll, listeners, mailboxes, gate, clock };
            let network = Network::new(setup, tier(thread))?;
            let has_failed = Arc::clone(&has_failed);
            let builder = Builder::new().name(format!("network-{thread}"));
            networks.push(builder.spawn(move || run(network, &has_failed))?);
        }
        let collector = Collector::start(Arc::clone(&meter), gauges, record)?;
        let http = match http {
            None => None,
            Some(listener) => {
                let routes = routes(listener.local_addr()?);
                Some(Http::start(listener, tls.clone(), routes, Arc::clone(&gate), meter.clock())?)
            }
        };
        Ok(Running { meter, mailboxes, gate, tls, addresses, networks, has_failed, workers, collector, http })
    }
}

/// Starts the threads of so many workers.
///
/// # Errors
/// The system's.
pub fn start_workers<W: FnOnce() + Send + 'static>(
    count: usize,
    worker: impl Fn(usize) -> W,
) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |number: usize| Builder::new().name(format!("worker-{number}")).spawn(worker(number));
    (0..count).map(start).collect()
}

fn begin_record(
    options: &Options,
    scheme: Scheme,
    clock: Clock,
    events: Events,
) -> Result<Option<Record>, StartError> {
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
    Record::create(dir, info, events).map(Some).map_err(StartError::Record)
}

/// Runs a network thread. If it fails, the other threads cannot serve its clients: the whole tier stops.
fn run<T: Tier>(network: Network<T>, has_failed: &AtomicBool) {
    if let Err(error) = network.run() {
        tracing::error!("a network thread ended: {error}");
        has_failed.store(true, Ordering::Relaxed);
        // If the signal fails, the tier goes on without this thread; the log says so.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
}

/// Waits until the condition holds, at most until the deadline.
pub(crate) fn wait_for(deadline: Instant, holds: impl Fn() -> bool) {
    while !holds() && Instant::now() < deadline {
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// A running tier.
pub struct Running<M> {
    meter: Arc<Meter>,
    mailboxes: Vec<Arc<Mailbox<M>>>,
    gate: Arc<Gate>,
    tls: Option<Arc<Acceptor>>,
    addresses: Vec<Endpoint>,
    networks: Vec<JoinHandle<()>>,
    has_failed: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    collector: Collector,
    http: Option<Http>,
}

/// How a stop went.
#[derive(Debug)]
pub struct Stopped {
    /// Figures of the whole run.
    pub totals: Figures,
    /// The figures as a readable table.
    pub summary: String,
    /// Connections that had to be cut because the drain time was over.
    pub cut: usize,
    /// Whether the tier stopped because a network thread had failed.
    pub has_failed: bool,
}

impl<M> Running<M> {
    /// Returns the addresses really bound.
    #[must_use]
    pub fn addresses(&self) -> &[Endpoint] {
        &self.addresses
    }

    /// Returns the URL of HTTP, with the address really bound.
    #[must_use]
    pub fn http_url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.http.as_ref().map(|http| format!("{scheme}://{}", http.address()))
    }

    /// Returns whether HTTP is served to other machines.
    #[must_use]
    pub fn is_http_reached_by_others(&self) -> bool {
        self.http.as_ref().is_some_and(|http| !http.address().ip().is_loopback())
    }

    /// Reads the certificates again, for connections from now on. Returns false if there are none.
    ///
    /// # Errors
    /// What is wrong with them; the old certificates stay in force.
    pub fn reload_certificates(&self) -> Result<bool, TlsError> {
        self.tls.as_ref().map_or(Ok(false), |tls| tls.reload().map(|()| true))
    }

    /// Reads the certificates again, if there are any, without changing anything yet, for a tier that must read more
    /// before a change. The function returned puts them in force.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read_certificates(&self) -> Result<impl FnOnce() + use<'_, M>, TlsError> {
        let read = self.tls.as_ref().map(|tls| tls.read_again().map(|renewed| (tls, renewed)));
        let renewal = read.transpose()?;
        Ok(move || {
            if let Some((tls, renewed)) = renewal {
                tls.renew(renewed);
            }
        })
    }

    /// Stops accepting, finishes the requests under way, writes the last answers; then has the workers' line closed and
    /// waits for clients that still read an answer over HTTP. Connections that take longer than `drain` are cut, but
    /// their threads end: each holds the store, which is closed in order only when nobody does. Workers whose store
    /// does not answer are left behind.
    pub fn stop(self, drain: Duration, close_line: impl FnOnce()) -> Stopped {
        let deadline = Instant::now() + drain;
        self.gate.close();
        // The thread that accepts passes the stop on, after all connections that it has distributed.
        self.mailboxes[0].stop();
        wait_for(deadline, || self.networks.iter().all(JoinHandle::is_finished));
        let cut = self.gate.connections();
        close_line();
        wait_for(deadline.max(Instant::now() + WORKERS_END_TIMEOUT), || {
            self.workers.iter().all(JoinHandle::is_finished)
        });
        let unfinished = self.workers.iter().filter(|worker| !worker.is_finished()).count();
        if unfinished > 0 {
            tracing::warn!(workers = unfinished, "the drain time was over: not all requests were done");
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.cut());
        wait_for(Instant::now() + CUT_TIMEOUT, || self.networks.iter().all(JoinHandle::is_finished));
        self.collector.stop();
        if let Some(http) = self.http {
            http.stop(deadline);
        }
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        Stopped { totals: self.meter.totals(), summary: self.meter.summary(), cut, has_failed }
    }
}
