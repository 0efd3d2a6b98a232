//! One process of the server, from its start to its end: its threads as things that take steps.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::Poll;
use posthaste_measure::{Clock, Meter, Scheme};
use posthaste_server::clients::Clients;
use posthaste_server::front::gate::Gate;
use posthaste_server::front::network::{self, Network, ThreadSetup};
use posthaste_server::front::readiness::Readiness;
use posthaste_server::path::tier::QueueTier;
use posthaste_server::path::waiting_line::{Wait, WaitingLine};
use posthaste_server::path::worker::{Store, Worker};
use posthaste_server::queue_shared::{Entrance, QueueShared};
use posthaste_wire::command::Kind;

use super::plan::Plan;

/// Bytes of the largest body.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2_000;

/// Most connections.
const CONNECTIONS_MAX: usize = 10_000;

/// A network thread.
pub(crate) struct NetworkSeat {
    /// None while it takes a step, and when it has ended.
    pub(crate) network: RefCell<Option<Network<QueueTier>>>,
    /// What it is to be told: which connection, its slot, what.
    pub(crate) told: RefCell<Vec<(usize, usize, Readiness)>>,
    /// It has something to do without being told.
    pub(crate) is_awake: Cell<bool>,
    /// When it wakes by itself.
    pub(crate) wakes_at: Cell<Option<u64>>,
    /// It does not get a processor before this time.
    pub(crate) stalled_until: Cell<u64>,
}

/// What a worker is about.
#[derive(Debug)]
pub(crate) enum Doing {
    /// To look at the line.
    Looks,
    /// It waits at the line.
    Waits(Wait),
    /// It was called.
    Called(Wait),
    /// It has taken something, or is to look around in the store.
    Holds,
    /// It takes a step just now, or has ended.
    Nothing,
}

impl Doing {
    /// In a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Looks => "looks",
            Self::Waits(_) => "looks at its time",
            Self::Called(_) => "looks, for it is called",
            Self::Holds => "works",
            Self::Nothing => "has ended",
        }
    }
}

/// A worker.
pub(crate) struct WorkerSeat {
    pub(crate) worker: RefCell<Option<Worker>>,
    pub(crate) doing: RefCell<Doing>,
    pub(crate) stalled_until: Cell<u64>,
}

/// A process.
pub(crate) struct Process {
    pub(crate) shared: Arc<QueueShared>,
    pub(crate) networks: Vec<NetworkSeat>,
    pub(crate) workers: Vec<WorkerSeat>,
    /// Calls to workers that are seen to.
    pub(crate) calls: Cell<u64>,
    /// It was told to stop, at this time.
    pub(crate) stops_since: Cell<Option<u64>>,
    /// The line is closed.
    pub(crate) is_closed: Cell<bool>,
}

impl Process {
    /// Starts it over this store.
    pub(crate) fn start(plan: &Plan, store: Arc<dyn Store>, clock: Clock) -> io::Result<Self> {
        let scheme = Scheme::tier(Kind::NAMES, store.reported_time());
        let polls = (0..plan.networks).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let mailboxes = polls.iter().map(network::mailbox).collect::<io::Result<Vec<_>>>()?;
        let gate = Arc::new(Gate::new(CONNECTIONS_MAX, false));
        let line = Arc::new(WaitingLine::new(clock, plan.line, plan.first_kinds.clone()));
        if plan.gather_ns > 0 {
            line.gather(Duration::from_nanos(plan.gather_ns));
        }
        let shared = Arc::new(QueueShared {
            entrance: Entrance::Open(store.meet_account(b"default").map_err(io::Error::other)?),
            store,
            line,
            meter: Meter::new(scheme, Duration::from_secs(1), clock, None),
            clock,
            clients: Clients::default(),
            gate: Arc::clone(&gate),
            mailboxes: mailboxes.clone(),
            message_bytes_max: MESSAGE_BYTES_MAX,
            bundle_requests_max: plan.batch.min(posthaste_server::path::limits::BUNDLE_REQUESTS_MAX),
            bundle_reads_max: usize::MAX,
            store_name: "simulated".into(),
            store_is_durable: true,
            store_dir: None,
            metrics_queues: 0,
            slow: None,
            tracer: None,
        });
        shared.store.attach(&shared.line);
        let seat = |(thread, poll)| {
            let (mailboxes, gate) = (mailboxes.clone(), Arc::clone(&gate));
            let setup = ThreadSetup { thread, poll, listeners: Vec::new(), mailboxes, gate, clock };
            Network::new(setup, QueueTier::new(thread, Arc::clone(&shared))).map(NetworkSeat::new)
        };
        let networks = polls.into_iter().enumerate().map(seat).collect::<io::Result<Vec<_>>>()?;
        let workers = (0..plan.workers).map(|_| WorkerSeat::new(shared.worker())).collect();
        Ok(Self {
            shared,
            networks,
            workers,
            calls: Cell::new(0),
            stops_since: Cell::new(None),
            is_closed: Cell::new(false),
        })
    }

    /// Whether every network thread has ended.
    pub(crate) fn has_answered_all(&self) -> bool {
        self.networks.iter().all(|seat| seat.network.borrow().is_none())
    }

    /// All workers that wait are called.
    pub(crate) fn call_all(&self) {
        for seat in &self.workers {
            let mut doing = seat.doing.borrow_mut();
            *doing = match std::mem::replace(&mut *doing, Doing::Nothing) {
                Doing::Waits(wait) => Doing::Called(wait),
                other => other,
            };
        }
    }

    /// Whether some thread gets no processor.
    pub(crate) fn is_stalled(&self, now: u64) -> bool {
        let networks = self.networks.iter().map(|seat| seat.stalled_until.get());
        networks.chain(self.workers.iter().map(|seat| seat.stalled_until.get())).any(|until| until > now)
    }

    /// Whether every worker has ended.
    pub(crate) fn has_worked_off_all(&self) -> bool {
        self.workers.iter().all(|seat| seat.worker.borrow().is_none())
    }
}

impl NetworkSeat {
    fn new(network: Network<QueueTier>) -> Self {
        Self {
            network: RefCell::new(Some(network)),
            told: RefCell::default(),
            is_awake: Cell::new(true),
            wakes_at: Cell::new(None),
            stalled_until: Cell::new(0),
        }
    }

    /// When it could take a step; None: only when it is told something.
    pub(crate) fn ready_at(&self, is_woken: bool, now: u64) -> Option<u64> {
        self.network.borrow().as_ref()?;
        let is_due = self.is_awake.get() || is_woken || !self.told.borrow().is_empty();
        let ready = if is_due { Some(now) } else { self.wakes_at.get() };
        ready.map(|at| at.max(self.stalled_until.get()))
    }
}

impl WorkerSeat {
    fn new(worker: Worker) -> Self {
        Self {
            worker: RefCell::new(Some(worker)),
            doing: RefCell::new(Doing::Looks),
            stalled_until: Cell::new(0),
        }
    }
}
