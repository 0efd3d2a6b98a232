//! The cache tier as a whole: starts the threads, stops them without losing an answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_measure::{Clock, Counted, Scheme};
use posthaste_wire::memcached::decode::Limits;

use super::client_rate_limiters::ClientRateLimiters;
use super::fleet::{Fleet, FleetOptions};
use super::health::Ejection;
use super::held_memory::HeldMemory;
use super::layout::Layout;
use super::name_refresher::NameRefresher;
use super::pipelined::Pipelined;
use super::prober::Prober;
use super::queued::Queued;
use super::request_kind;
use super::shared::{CacheShared, Mail};
use super::tier::CacheTier;
use super::web;
use super::worker::{Reads, Worker};
use super::worker_line::WorkerLine;
use crate::front::lifecycle::{self, Prepared, Running, Stopped, start_workers};
use crate::slow::SlowLog;

/// The answer to a client that speaks plain text to a TLS port.
const SPEAK_TLS: &[u8] = b"SERVER_ERROR this port speaks TLS: connect with it\r\n";

/// What is measured: the six stamps of a tier, by kind of request, and how many reads from servers each request took.
const SCHEME: Scheme = Scheme::tier(request_kind::NAMES, None)
    .counting(Counted { each: "server_reads", mean: "server_reads_mean" });

/// How to run a cache tier.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the tier is reached.
    pub front: lifecycle::Options,
    /// Servers, pools and routes.
    pub layout: Layout,
    /// Whether requests do without servers that are lost.
    pub ejection: Ejection,
    /// Which servers to trust and how to identify ourselves, with TLS; and where to look names up.
    pub fleet_options: FleetOptions,
    /// How often names of servers are looked up again; None: never.
    pub resolve_every: Option<Duration>,
    /// Number of workers, each with connections of its own; None: pipelined.
    pub workers: Option<usize>,
    /// Most requests that wait for a worker.
    pub line_requests_max: usize,
    /// The largest value in bytes.
    pub value_bytes_max: usize,
    /// The longest line of a multi-get in bytes.
    pub line_bytes_max: usize,
    /// Most requests in a second from one address.
    pub client_limit: Option<u32>,
    /// Most bytes that the network threads may hold for clients altogether; and the waiting line for workers.
    pub memory_limit: usize,
}

/// Why a cache tier could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A server cannot be found, or a file of TLS to servers cannot be used.
    Server(String),
    /// The front cannot be started.
    Front(lifecycle::StartError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => f.write_str(error),
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

/// A running cache tier.
pub struct Server {
    shared: Arc<CacheShared>,
    prober: Prober,
    name_refresher: NameRefresher,
    running: Running<Mail>,
}

impl Server {
    /// Starts every thread.
    ///
    /// # Errors
    /// What stands in the way, as one sentence that says what to do.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let clock = Clock::start();
        let tls = lifecycle::encryption(&options.front, SPEAK_TLS)?;
        let events = options.front.events(clock);
        let fleet = Fleet::with_options(
            &options.layout,
            options.ejection,
            options.fleet_options.clone(),
            events.clone(),
        )
        .map_err(StartError::Server)?;
        let prepared = Prepared::open(&options.front, tls, SCHEME, clock, events, false)?;
        let shared = Arc::new(make_shared(&options, fleet, &prepared)?);
        let weak = Arc::downgrade(&shared);
        // Not set before: the fleet is new.
        let _ = shared
            .fleet
            .about
            .set(Box::new(move |topic| weak.upgrade().map(|shared| shared.about(topic)).unwrap_or_default()));
        let prober = Prober::start(Arc::clone(&shared))?;
        let name_refresher = NameRefresher::start(Arc::clone(&shared), options.resolve_every)?;
        let running = serve(&options, prepared, &shared)?;
        Ok(Self { shared, prober, name_refresher, running })
    }

    /// The running front, which knows the addresses.
    #[must_use]
    pub fn running(&self) -> &Running<Mail> {
        &self.running
    }

    /// How many servers the pools have; a server in several pools counts once.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.shared.fleet.table().in_use().len()
    }

    /// Puts other pools and routes in force, and reads the files of TLS again, or leaves everything as it is.
    /// Requests under way and connections go on as they began.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found, or the file that cannot be used.
    pub fn reload(&self, layout: &Layout) -> Result<(), String> {
        let renew = self.running.read_certificates().map_err(|error| error.to_string())?;
        self.shared.fleet.load(layout)?;
        // Nothing can fail from here on.
        renew();
        self.shared.tell_retry();
        Ok(())
    }

    /// Stops accepting, finishes the requests under way, and writes the last answers. Connections that take longer
    /// than `drain` are cut.
    #[must_use]
    pub fn stop(self, drain: Duration) -> Stopped {
        let stopped = self.running.stop(drain, || self.shared.line.close());
        self.name_refresher.stop();
        self.prober.stop();
        stopped
    }
}

fn make_shared(options: &Options, fleet: Fleet, prepared: &Prepared<Mail>) -> io::Result<CacheShared> {
    Ok(CacheShared {
        fleet: Arc::new(fleet),
        line: WorkerLine::new(options.line_requests_max, options.memory_limit),
        clock: prepared.meter.clock(),
        meter: Arc::clone(&prepared.meter),
        mailboxes: prepared.mailboxes.clone(),
        gate: Arc::clone(&prepared.gate),
        limits: Limits { value_bytes: options.value_bytes_max, line_bytes: options.line_bytes_max },
        client_rate_limiters: ClientRateLimiters::new(options.client_limit),
        held_memory: HeldMemory::new(options.memory_limit, options.front.threads),
        reads: Reads::default(),
        cut: AtomicU64::new(0),
        slow: options.front.slow.map(SlowLog::start).transpose()?,
    })
}

/// Starts the threads: network threads that pass requests to workers, or that route them themselves.
fn serve(
    options: &Options,
    prepared: Prepared<Mail>,
    shared: &Arc<CacheShared>,
) -> io::Result<Running<Mail>> {
    let routes = |address: SocketAddr| web::routes(shared, address.ip().is_loopback());
    let Some(workers) = options.workers else {
        let tier =
            |thread| CacheTier::new(thread, Arc::clone(shared), Pipelined::new(thread, Arc::clone(shared)));
        return prepared.start(Vec::new(), tier, gauges(shared), routes);
    };
    let workers = start_workers(workers, |number| {
        let worker = Worker::new(number, Arc::clone(shared));
        move || worker.run()
    })?;
    let tier = |thread| CacheTier::new(thread, Arc::clone(shared), Queued::new(thread, Arc::clone(shared)));
    prepared.start(workers, tier, gauges(shared), routes)
}

/// The gauges of every window: what waits, how many are connected, and what each server was sent so far.
fn gauges(shared: &Arc<CacheShared>) -> impl Fn() -> Vec<(&'static str, u64)> + Send + use<> {
    let shared = Arc::clone(shared);
    // Names of gauges live as long as the program; there are as many as servers, made once.
    let leak = |name: String| -> &'static str { Box::leak(name.into_boxed_str()) };
    // A record's columns stay the same for its life: servers of later configurations have none.
    let servers = shared.fleet.table().servers.clone();
    let names: Vec<_> = (1..=servers.len())
        .map(|number| [leak(format!("server_{number}_requests")), leak(format!("server_{number}_keys"))])
        .collect();
    move || {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut gauges = vec![
            ("line_requests", shared.line.len() as u64),
            ("connections", shared.gate.connections() as u64),
            ("servers_live", shared.fleet.table().live() as u64),
            ("get_misses", load(&shared.fleet.misses)),
            ("worker_read_us", load(&shared.reads.waited_ns) / 1000),
            ("worker_reads", load(&shared.reads.calls)),
        ];
        for ([requests, keys], server) in names.iter().zip(&servers) {
            let counts = &server.counts;
            gauges.extend([(*requests, load(&counts.requests)), (*keys, load(&counts.keys))]);
        }
        gauges
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::super::claims::ClaimMode;
    use super::super::layout::MemberPlan;
    use super::super::rules::Rules;
    use super::*;
    use crate::front::accept::Endpoint;

    /// A tier of one network thread before two servers that are not there.
    fn start() -> Server {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let front = lifecycle::Options {
            listen: vec![Endpoint::Tcp(here)],
            http: None,
            reuse_port: false,
            tls: None,
            threads: 1,
            connections_max: 10,
            quiet_limits: Default::default(),
            slow: None,
            window: Duration::from_secs(1),
            record: None,
            record_requests: false,
        };
        let members = ["127.0.0.1:1", "127.0.0.1:2"].map(MemberPlan::of).into();
        let options = Options {
            front,
            layout: Layout::of_one_pool(members, Rules::default()),
            ejection: Ejection::OnLoss,
            fleet_options: FleetOptions::default(),
            resolve_every: None,
            workers: None,
            line_requests_max: 10,
            value_bytes_max: 1000,
            line_bytes_max: 10_000,
            client_limit: None,
            memory_limit: 1_000_000,
        };
        Server::start(options).unwrap()
    }

    /// A client of this server that has sent `text`.
    fn client(server: &Server, text: &[u8]) -> TcpStream {
        let [Endpoint::Tcp(addr)] = server.running().addresses() else { panic!("one address") };
        let mut client = TcpStream::connect(addr).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client.write_all(text).unwrap();
        client
    }

    #[test]
    fn a_request_that_waits_is_tried_again_though_its_thread_hears_of_nothing() {
        let server = start();
        let claims = &server.shared.fleet.claims;
        let held: Vec<_> =
            (0..8192).filter_map(|place| claims.claim(place, 9, ClaimMode::Exclusive, 0)).collect();
        let mut waiting = client(&server, b"set k 0 0 1\r\nx\r\n");
        let mut other = client(&server, b"mn\r\n");
        let mut answer = [0; 4];
        other.read_exact(&mut answer).unwrap();
        // The thread has looked at both requests, and gets no event any more.
        let wanted = held.into_iter().map(|claim| claims.release(claim, 0));
        assert_eq!(wanted.filter(|wanted| *wanted).count(), 1);
        let mut answer = [0; 12];
        waiting.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"SERVER_ERROR");
        drop((waiting, other));
        let _ = server.stop(Duration::from_secs(1));
    }
}
