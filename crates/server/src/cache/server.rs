//! The cache tier as a whole: starts the threads, stops them without losing an answer.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mio::Poll;
use posthaste_measure::{Clock, Counted, Figures, Meter, Record, RecordError, RunInfo, Scheme};
use posthaste_tls::{Acceptor, ServerFiles, TlsError, Trust};
use posthaste_wire::memcached::decode::Limits;

use super::engine::Engine;
use super::fleet::Fleet;
use super::hall::{Hall, Mail};
use super::kind;
use super::layout::Layout;
use super::limits;
use super::line::Line;
use super::network::{self, Network};
use super::pipelined::Pipelined;
use super::prober::Prober;
use super::queued::Queued;
use super::web;
use super::worker::{Reads, Worker};
use crate::collector::Collector;
use crate::http::Http;
use crate::newcomers::Newcomers;
use crate::path::accept::{ListenAddress, Listener};
use crate::path::binder::{self, ListenError, Openings};
use crate::server::RunNote;
use crate::slow::SlowLog;

/// What a client is told that speaks plain text where TLS is spoken.
const SPEAK_TLS: &[u8] = b"SERVER_ERROR this port speaks TLS: connect with it\r\n";

/// What is measured: the six stamps of a tier, by kind of request; and how many reads from servers each one took.
const SCHEME: Scheme =
    Scheme::tier(kind::NAMES, None).counting(Counted { each: "server_reads", mean: "server_reads_mean" });

/// How to run a cache tier.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<ListenAddress>,
    /// Where HTTP listens; None: nowhere.
    pub http: Option<SocketAddr>,
    /// Servers, pools and routes.
    pub layout: Layout,
    /// Servers that are lost leave until they are well again.
    pub eject: bool,
    /// Whether other processes may listen on the same addresses.
    pub reuse_port: bool,
    /// What connections over TCP are encrypted with, those of HTTP too; None: they are not.
    pub tls: Option<ServerFiles>,
    /// Whom we trust, and who we are, among servers that speak TLS.
    pub server_tls: Trust,
    /// Network threads, at least 1.
    pub threads: usize,
    /// Workers, each with connections of its own; None: pipelined.
    pub workers: Option<usize>,
    /// Most requests that wait for a worker.
    pub line_requests_max: usize,
    /// Most connections.
    pub connections_max: usize,
    /// Largest value in bytes.
    pub value_bytes_max: usize,
    /// Bytes that may be held for clients altogether.
    pub memory_limit: usize,
    /// How long a server may take to answer.
    pub server_timeout: Duration,
    /// Requests that take longer are told in the log.
    pub slow: Option<Duration>,
    /// Aggregation window.
    pub window: Duration,
    /// Where to leave a record.
    pub record: Option<(PathBuf, RunNote)>,
    /// With a record: every single request stands in it.
    pub record_requests: bool,
}

/// Why a cache tier could not be started.
#[derive(Debug)]
pub enum StartError {
    /// There is no such server.
    Server(String),
    /// An address cannot be listened on.
    Listen(ListenError),
    /// Connections cannot be encrypted.
    Tls(TlsError),
    /// The record cannot be begun.
    Record(RecordError),
    /// The system refused threads or events.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => f.write_str(error),
            Self::Listen(error) => write!(f, "{error}"),
            Self::Tls(error) => write!(f, "{error}"),
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

/// A running cache tier.
pub struct Server {
    hall: Arc<Hall>,
    tls: Option<Arc<Acceptor>>,
    addresses: Vec<ListenAddress>,
    networks: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    prober: Prober,
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
    /// Starts every thread.
    ///
    /// # Errors
    /// What stands in the way, as one sentence that says what to do.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let clock = Clock::start();
        let tls = options.tls.clone().map(|files| Acceptor::open(files, SPEAK_TLS)).transpose();
        let tls = tls.map_err(StartError::Tls)?.map(Arc::new);
        let trust = options.server_tls.clone();
        let fleet = Fleet::trusting(&options.layout, options.eject, trust).map_err(StartError::Server)?;
        let Openings { listeners, addresses, http } =
            binder::open(&options.listen, options.http, tls.as_ref(), options.reuse_port)
                .map_err(StartError::Listen)?;
        let record = begin_record(&options, clock)?;
        let backlog = record.as_ref().and_then(Record::backlog);
        let meter = Meter::new(SCHEME, options.window, clock, backlog);
        let polls = (0..options.threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let hall = Arc::new(furnish(&options, fleet, &polls, meter)?);
        let weak = Arc::downgrade(&hall);
        // Nobody has told before: the fleet is new.
        let _ = hall
            .fleet
            .about
            .set(Box::new(move || weak.upgrade().map(|hall| hall.about()).unwrap_or_default()));
        let workers = start_workers(&options, &hall)?;
        let networks = start_networks(&options, polls, listeners, &hall)?;
        let prober = Prober::start(Arc::clone(&hall.fleet))?;
        let collector = Collector::start(Arc::clone(&hall.meter), gauges(&hall), record)?;
        let http = http.map(|listener| serve(listener, tls.clone(), &hall)).transpose()?;
        Ok(Self { hall, tls, addresses, networks, workers, prober, collector, http })
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

    /// Puts other pools and routes in force, or leaves everything as it is. What is under way goes on as it began.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found.
    pub fn reload(&self, layout: &Layout) -> Result<(), String> {
        self.hall.fleet.load(layout)?;
        self.hall.tell_retry();
        Ok(())
    }

    /// Reads certificates again, for connections that come from now on; false: there are none.
    ///
    /// # Errors
    /// What is wrong with them; those read before stay in force.
    pub fn reload_certificates(&self) -> Result<bool, TlsError> {
        self.tls.as_ref().map_or(Ok(false), |tls| tls.reload().map(|()| true))
    }

    /// Stops accepting, finishes what is under way, writes the last answers.
    /// Connections that take longer than `drain` are cut.
    #[must_use]
    pub fn stop(self, drain: Duration) -> Stopped {
        let until = Instant::now() + drain;
        // The thread that accepts passes it on, behind all that it has dealt out.
        self.hall.mailboxes[0].post(Mail::Stop);
        while !self.networks.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let cut = self.hall.connections.load(Ordering::Relaxed);
        self.hall.line.close();
        for worker in self.workers {
            // A worker that panicked has told so.
            let _ = worker.join();
        }
        self.prober.stop();
        self.collector.stop();
        if let Some(http) = self.http {
            http.stop();
        }
        Stopped { totals: self.hall.meter.totals(), summary: self.hall.meter.summary(), cut }
    }
}

fn serve(listener: TcpListener, tls: Option<Arc<Acceptor>>, hall: &Arc<Hall>) -> io::Result<Http> {
    let is_local = listener.local_addr()?.ip().is_loopback();
    Http::start(listener, tls, web::routes(hall, is_local))
}

fn begin_record(options: &Options, clock: Clock) -> Result<Option<Record>, StartError> {
    let Some((dir, note)) = &options.record else { return Ok(None) };
    let info = RunInfo {
        command: note.command.clone(),
        version: crate::info::VERSION.to_owned(),
        options: note.options.clone(),
        window: options.window,
        clock,
        scheme: SCHEME,
        requests: options.record_requests,
    };
    Record::create(dir, info).map(Some).map_err(StartError::Record)
}

fn furnish(options: &Options, fleet: Fleet, polls: &[Poll], meter: Arc<Meter>) -> io::Result<Hall> {
    Ok(Hall {
        fleet: Arc::new(fleet),
        line: Line::new(options.line_requests_max),
        clock: meter.clock(),
        meter,
        mailboxes: polls.iter().map(network::mailbox).collect::<io::Result<Vec<_>>>()?,
        limits: Limits { value_bytes: options.value_bytes_max, line_bytes: limits::LINE_BYTES_MAX },
        server_timeout: options.server_timeout,
        memory_per_thread: options.memory_limit / options.threads,
        connections_max: options.connections_max,
        connections: AtomicUsize::new(0),
        newcomers: Newcomers::new(options.connections_max, false),
        accepted: AtomicU64::new(0),
        reads: Reads::default(),
        cut: AtomicU64::new(0),
        slow: options.slow.map(SlowLog::start).transpose()?,
    })
}

fn start_workers(options: &Options, hall: &Arc<Hall>) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |number: usize| {
        let worker = Worker::new(number, Arc::clone(hall));
        Builder::new().name(format!("worker-{number}")).spawn(move || worker.run())
    };
    (0..options.workers.unwrap_or(0)).map(start).collect()
}

fn start_networks(
    options: &Options,
    polls: Vec<Poll>,
    mut listeners: Vec<Listener>,
    hall: &Arc<Hall>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for (number, poll) in polls.into_iter().enumerate() {
        let (hall, listeners) = (Arc::clone(hall), std::mem::take(&mut listeners));
        let name = Builder::new().name(format!("network-{number}"));
        let engine_hall = Arc::clone(&hall);
        threads.push(if options.workers.is_some() {
            let network = Network::new(number, poll, hall, Queued::new(number, engine_hall), listeners)?;
            name.spawn(move || run(network))?
        } else {
            let network = Network::new(number, poll, hall, Pipelined::new(number, engine_hall), listeners)?;
            name.spawn(move || run(network))?
        });
    }
    Ok(threads)
}

/// A network thread without events cannot serve; the others cannot serve its clients: the whole tier stops.
fn run<E: Engine>(network: Network<E>) {
    if let Err(error) = network.run() {
        tracing::error!("a network thread ended: {error}");
        // Without the signal the tier goes on without this thread, which the log has told.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
}

/// The levels that stand in every window: what waits, who is there, and what each server was sent so far.
fn gauges(hall: &Arc<Hall>) -> impl Fn() -> Vec<(&'static str, u64)> + Send + use<> {
    let hall = Arc::clone(hall);
    // Names of gauges live as long as the program; there are as many as servers, made once.
    let leak = |name: String| -> &'static str { Box::leak(name.into_boxed_str()) };
    // A record's columns stay the same for its life: servers of later files have none.
    let servers = hall.fleet.table().servers.clone();
    let names: Vec<_> = (1..=servers.len())
        .map(|number| [leak(format!("server_{number}_requests")), leak(format!("server_{number}_keys"))])
        .collect();
    move || {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut gauges = vec![
            ("line_requests", hall.line.len() as u64),
            ("connections", hall.connections.load(Ordering::Relaxed) as u64),
            ("servers_live", hall.fleet.table().live() as u64),
            ("get_misses", load(&hall.fleet.misses)),
            ("worker_read_us", load(&hall.reads.waited_ns) / 1000),
            ("worker_reads", load(&hall.reads.calls)),
        ];
        for ([requests, keys], server) in names.iter().zip(&servers) {
            let counts = &server.counts;
            gauges.extend([(*requests, load(&counts.requests)), (*keys, load(&counts.keys))]);
        }
        gauges
    }
}
