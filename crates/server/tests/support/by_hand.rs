//! A queue tier in one thread, driven by hand: the real network thread, line and worker, over socket pairs, with the
//! plain store, whose clock stands still until it is told. So what happens depends on bytes alone, and a story that
//! went wrong goes wrong again.
//!
//! Only a pop that waits is let go by the real clock.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use posthaste_measure::{Clock, Ending, Meter, Scheme, lock};
use posthaste_server::accounts::AccountsFile;
use posthaste_server::authenticator::Authenticator;
use posthaste_server::clients::Clients;
use posthaste_server::front::gate::Gate;
use posthaste_server::front::network::{Network, ThreadSetup, mailbox};
use posthaste_server::front::socket::Socket;
use posthaste_server::path::bundle::Bundle;
use posthaste_server::path::local::Local;
use posthaste_server::path::mail::{Mail, Mailbox};
use posthaste_server::path::tier::QueueTier;
use posthaste_server::path::waiting_line::{Shift, Taken, WaitingLine};
use posthaste_server::path::worker::{Store, Worker};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{AccountId, Ask, Flow, Millis, News, Outcome, Rules};
use posthaste_server::queue_shared::{Entrance, QueueShared};
use posthaste_server::time::Time;
use posthaste_wire::command::Kind;
use posthaste_wire::fault::Fault;

/// Largest body that the tier accepts, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 1000;
/// Most requests of one connection in a bundle: few, so that pipelines are cut.
const BUNDLE_REQUESTS: usize = 8;
/// Most requests in the waiting line: few, so that some are refused because it is full.
const LINE_REQUESTS: usize = 20;
/// Most requests that a worker takes in one batch.
const BATCH: usize = 16;
const CONNECTIONS: usize = 16;
/// Number of turns after which even the longest story, one request at a time, is over.
const TURNS: usize = 10_000;
/// Time of the store at the beginning, in milliseconds; any time would do.
const MORNING: Millis = 1_000_000;
const RECEIPTS: u64 = 7;

/// The plain store, with a clock that the test sets; it can be emptied.
#[derive(Clone)]
struct Standing {
    store: Arc<Mutex<Memory>>,
    now: Arc<AtomicU64>,
}

impl Standing {
    fn new() -> Self {
        Self { store: Arc::new(Mutex::new(Memory::new(RECEIPTS))), now: Arc::new(AtomicU64::new(MORNING)) }
    }

    fn empty(&self) {
        *lock(&self.store) = Memory::new(RECEIPTS);
        self.now.store(MORNING, Ordering::Relaxed);
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Memory, Millis) -> T) -> T {
        ask(&mut self.store.lock().expect("no panic"), self.now.load(Ordering::Relaxed))
    }
}

impl Rules for Standing {
    type Commit = <Memory as Rules>::Commit;

    fn awaited(&self, requests: usize, bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        self.with(|store, _| store.awaited(requests, bytes))
    }

    fn prepare(&mut self, requests: usize, bytes: usize) -> Result<(), Fault> {
        self.with(|store, _| store.prepare(requests, bytes))
    }

    fn execute(&mut self, _: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        self.with(|store, now| store.execute(now, ask, answer, news))
    }

    fn read(&mut self, _: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        self.with(|store, now| store.read(now, ask, answer))
    }

    fn tick(&mut self, _: Millis, news: &mut Vec<News>) {
        self.with(|store, now| store.tick(now, news));
    }

    fn deadline(&self) -> Option<Millis> {
        self.with(|store, _| store.deadline())
    }

    fn has_work_left(&self) -> bool {
        self.with(|store, _| store.has_work_left())
    }

    fn seal(&mut self) -> Option<Self::Commit> {
        self.with(|store, _| store.seal())
    }

    fn is_commit_full(&self) -> bool {
        self.with(|store, _| store.is_commit_full())
    }

    fn committed(&mut self, commit: Self::Commit, result: &Result<(), Fault>) {
        self.with(|store, _| store.committed(commit, result));
    }

    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.with(|store, _| store.account(name))
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.with(|store, _| store.meet_account(name))
    }

    fn trouble(&self) -> Option<String> {
        self.with(|store, _| store.trouble())
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.with(|store, _| store.figures())
    }
}

/// A network thread with its waiting line and its worker, in front of any store.
pub(crate) struct Thread {
    pub(crate) shared: Arc<QueueShared>,
    pub(crate) worker: Worker,
    network: Network<QueueTier>,
    events: Events,
    batch: usize,
}

/// Bounds of a [`Thread`].
pub(crate) struct Bounds {
    /// Most connections.
    pub(crate) connections: usize,
    /// Most requests of one connection in a bundle.
    pub(crate) bundle: usize,
    /// Most requests in the waiting line.
    pub(crate) line: usize,
    /// Most requests that the worker takes in one batch.
    pub(crate) batch: usize,
}

impl Thread {
    /// Creates a thread in front of this store.
    pub(crate) fn before(
        store: Arc<dyn Store>,
        clock: Clock,
        bounds: &Bounds,
        entrance: impl FnOnce(&[Arc<Mailbox>]) -> Entrance,
    ) -> Self {
        let poll = Poll::new().expect("events");
        let mailboxes = vec![mailbox(&poll).expect("a waker")];
        let gate = Arc::new(Gate::new(bounds.connections, false));
        let shared = Arc::new(QueueShared {
            entrance: entrance(&mailboxes),
            store,
            line: Arc::new(WaitingLine::new(clock, bounds.line, Vec::new())),
            meter: Meter::new(Scheme::tier(Kind::NAMES, None), Duration::from_secs(1), clock, None),
            clock,
            clients: Clients::default(),
            gate: Arc::clone(&gate),
            mailboxes: mailboxes.clone(),
            message_bytes_max: MESSAGE_BYTES,
            bundle_requests_max: bounds.bundle,
            bundle_reads_max: usize::MAX,
            store_name: "memory:".into(),
            store_is_durable: false,
            store_dir: None,
            metrics_queues: 10,
            slow: None,
            tracer: None,
        });
        let setup = ThreadSetup { thread: 0, poll, listeners: Vec::new(), mailboxes, gate, clock };
        let network =
            Network::new(setup, QueueTier::new(0, Arc::clone(&shared))).expect("nothing to register");
        let worker = shared.worker();
        Self { shared, worker, network, events: Events::with_capacity(64), batch: bounds.batch }
    }

    /// Connects a client; None if there are too many connections.
    pub(crate) fn connect(&self) -> Option<UnixStream> {
        let (ours, socket) = pair();
        let arrival = self.shared.gate.admit(socket).ok()?;
        assert!(self.shared.mailboxes[0].adopt(arrival).is_none(), "the thread has not ended");
        Some(ours)
    }

    /// Connects a client inside of the process, as HTTP does.
    pub(crate) fn connect_inside(&self) -> UnixStream {
        let (ours, socket) = pair();
        let arrival = self.shared.gate.admit_inside(socket, None);
        assert!(self.shared.mailboxes[0].adopt(arrival).is_none(), "the thread has not ended");
        ours
    }

    /// Runs one turn of the network thread.
    pub(crate) fn turn(&mut self) {
        self.network.step(&mut self.events, Some(Duration::ZERO)).expect("events");
    }

    /// Lets the worker take a batch, if anything waits or is due, as a thread of its own would.
    pub(crate) fn work(&mut self) {
        match self.worker.try_take(self.batch) {
            Ok(_) => self.worker.run_batch(),
            Err(wait) => self.shared.line.end_wait(&wait),
        }
    }
}

fn pair() -> (UnixStream, Socket) {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    for end in [&ours, &theirs] {
        end.set_nonblocking(true).expect("a setting");
    }
    (ours, Socket::Unix(mio::net::UnixStream::from_std(theirs)))
}

/// A queue tier over the plain store.
pub(crate) struct Tier {
    pub(crate) shared: Arc<QueueShared>,
    store: Standing,
    thread: Thread,
    taken: Vec<Box<Bundle>>,
}

impl Tier {
    /// Creates a tier in which every account is open.
    pub(crate) fn new() -> Self {
        Self::behind(|store, _| Entrance::Open(store.meet_account(b"default").expect("it holds any")))
    }

    /// Creates a tier that only these accounts may log in to. Secrets are checked by a thread of its own, whose
    /// verdicts come at any time.
    pub(crate) fn closed(accounts: AccountsFile) -> Self {
        Self::behind(|_, mailboxes| {
            Entrance::Closed(Authenticator::start(accounts, mailboxes.to_vec()).expect("a thread"))
        })
    }

    fn behind(entrance: impl FnOnce(&dyn Store, &[Arc<Mailbox>]) -> Entrance) -> Self {
        let (clock, store) = (Clock::start(), Standing::new());
        let local = Local::new(store.clone(), Time::start(), clock);
        let bounds =
            Bounds { connections: CONNECTIONS, bundle: BUNDLE_REQUESTS, line: LINE_REQUESTS, batch: BATCH };
        let thread = Thread::before(local.clone(), clock, &bounds, |mailboxes| entrance(&*local, mailboxes));
        Self { shared: Arc::clone(&thread.shared), store, thread, taken: Vec::new() }
    }

    /// Connects a client; None if there are too many connections.
    pub(crate) fn connect(&self) -> Option<UnixStream> {
        self.thread.connect()
    }

    /// Connects a client inside of the process, as HTTP does.
    pub(crate) fn connect_inside(&self) -> UnixStream {
        self.thread.connect_inside()
    }

    /// Runs one turn of the network thread.
    pub(crate) fn turn(&mut self) {
        self.thread.turn();
    }

    /// Lets the worker take a batch, if anything waits, and lets time pass in the store.
    pub(crate) fn work(&mut self) {
        let taken = self.shared.line.take(BATCH, Some(Instant::now()), &mut self.taken);
        let shift = (taken == Taken::Batch).then(|| Shift::of(&self.shared.line, self.taken.len()));
        self.thread.worker.run_here(&mut self.taken, 0);
        assert!(self.taken.is_empty(), "nobody else is at the store");
        drop(shift);
        while let Some(bundle) = self.thread.worker.next_done_here() {
            self.shared.mailboxes[0].post(Mail::Answered(bundle));
        }
    }

    /// Lets so many milliseconds pass in the store.
    pub(crate) fn pass(&self, millis: Millis) {
        self.store.now.fetch_add(millis, Ordering::Relaxed);
    }

    /// Returns the number of pops that wait.
    pub(crate) fn waiting(&self) -> u64 {
        let figures = self.shared.store.figures();
        figures.iter().find(|(name, _)| *name == "blocked_clients").map_or(0, |(_, waiting)| *waiting)
    }

    /// Returns the number of requests read from the connections that are open.
    pub(crate) fn requests(&self) -> u64 {
        let clients = self.shared.clients.find(|_| true);
        clients.iter().map(|client| client.requests.load(Ordering::Relaxed)).sum()
    }

    /// Returns the requests counted so far, for each kind: those that were done, found nothing, were refused.
    pub(crate) fn counted(&self) -> Vec<(&'static str, [u64; 3])> {
        self.shared.meter.turn(&[]);
        let endings = [Ending::Ok, Ending::Null, Ending::Error];
        let tallies = self.shared.meter.tallies();
        tallies.active().map(|(kind, tally)| (kind, endings.map(|ending| tally.ended(ending)))).collect()
    }

    /// Waits until all clients, which have closed their ends, are gone, checks that nothing is left of them, and empties
    /// the store for others.
    pub(crate) fn begin_anew(&mut self) {
        for _ in 0..TURNS {
            self.turn();
            self.work();
            if self.shared.gate.connections() == 0 {
                break;
            }
        }
        assert_eq!(self.shared.gate.connections(), 0, "whoever was let in has left");
        assert!(self.shared.clients.is_empty(), "and has no card");
        assert_eq!(self.waiting(), 0, "nobody waits who is not there");
        assert!(self.shared.line.is_empty(), "nor does anything in the line");
        self.store.empty();
        self.shared.store.meet_account(b"default").expect("it holds any");
    }
}
