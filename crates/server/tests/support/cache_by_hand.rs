//! A network thread of the cache tier, turned by hand in the thread of the test: clients over socket pairs, servers
//! where the layout says. So what happens depends on bytes alone, and on a clock that may be the test's.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mio::{Events, Poll};
use posthaste_measure::{Clock, Meter, Scheme};
use posthaste_server::cache::client_rate_limiters::ClientRateLimiters;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::held_memory::HeldMemory;
use posthaste_server::cache::layout::Layout;
use posthaste_server::cache::pipelined::Pipelined;
use posthaste_server::cache::request_kind;
use posthaste_server::cache::server_limits::ServerLimits;
use posthaste_server::cache::shared::CacheShared;
use posthaste_server::cache::tier::CacheTier;
use posthaste_server::cache::worker::Reads;
use posthaste_server::cache::worker_line::WorkerLine;
use posthaste_server::front::gate::Gate;
use posthaste_server::front::network::{Network, ThreadSetup, mailbox};
use posthaste_server::front::socket::Socket;
use posthaste_wire::memcached::decode::Limits;

/// Largest value that the tier accepts, in bytes.
pub(crate) const VALUE_BYTES: usize = 1 << 20;
/// Time after which a silent server is given up.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(1);
const LIMITS: ServerLimits =
    ServerLimits { connect_timeout: SERVER_TIMEOUT, answer_timeout: SERVER_TIMEOUT, depth: usize::MAX };
const CLIENTS: usize = 16;

/// A network thread of a cache tier.
pub(crate) struct Thread {
    pub(crate) shared: Arc<CacheShared>,
    network: Network<CacheTier<Pipelined>>,
    events: Events,
}

/// What the threads of a tier share, of which one has this poll.
pub(crate) fn share(
    poll: &Poll,
    layout: &Layout,
    ejection: Ejection,
    clock: Clock,
    client_rate_limiters: ClientRateLimiters,
) -> Arc<CacheShared> {
    let fleet = Fleet::new(&layout.clone().with_server_limits(LIMITS), ejection).expect("addresses");
    for server in &fleet.table().servers {
        server.dialect.note(b"VERSION 1.6.18\r\n");
    }
    Arc::new(CacheShared {
        fleet: Arc::new(fleet),
        line: WorkerLine::new(0, 0),
        meter: Meter::new(Scheme::tier(request_kind::NAMES, None), Duration::from_secs(1), clock, None),
        clock,
        mailboxes: vec![mailbox(poll).expect("a waker")],
        limits: Limits { value_bytes: VALUE_BYTES, line_bytes: VALUE_BYTES },
        client_rate_limiters,
        held_memory: HeldMemory::new(usize::MAX, 1),
        gate: Arc::new(Gate::new(CLIENTS, false)),
        reads: Reads::default(),
        cut: AtomicU64::new(0),
        slow: None,
    })
}

impl Thread {
    pub(crate) fn new(layout: &Layout, clock: Clock) -> Self {
        Self::limiting(layout, clock, ClientRateLimiters::default())
    }

    /// Creates a thread with limits for its clients.
    pub(crate) fn limiting(layout: &Layout, clock: Clock, client_rate_limiters: ClientRateLimiters) -> Self {
        let poll = Poll::new().expect("events");
        let shared = share(&poll, layout, Ejection::Never, clock, client_rate_limiters);
        let (mailboxes, gate) = (shared.mailboxes.clone(), Arc::clone(&shared.gate));
        let tier = CacheTier::new(0, Arc::clone(&shared), Pipelined::new(0, Arc::clone(&shared)));
        let setup = ThreadSetup { thread: 0, poll, listeners: Vec::new(), mailboxes, gate, clock };
        let network = Network::new(setup, tier).expect("nothing to register");
        Self { shared, network, events: Events::with_capacity(64) }
    }

    /// Connects a client, whose reads and writes do not wait.
    pub(crate) fn connect(&self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        [&ours, &theirs].into_iter().for_each(|end| end.set_nonblocking(true).expect("a setting"));
        let socket = Socket::Unix(mio::net::UnixStream::from_std(theirs));
        let Ok(arrival) = self.shared.gate.admit(socket) else { panic!("there is room") };
        assert!(self.shared.mailboxes[0].adopt(arrival).is_none(), "the thread has not ended");
        ours
    }

    /// Runs a turn with the events that have happened until now.
    pub(crate) fn turn(&mut self) {
        self.network.step(&mut self.events, Some(Duration::ZERO)).expect("events");
    }

    /// Runs a turn without looking for events, as after a wait that ended with none.
    pub(crate) fn turn_untold(&mut self) {
        self.network.turn_by_hand(&[]);
    }
}
