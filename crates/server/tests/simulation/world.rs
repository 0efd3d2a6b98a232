//! The world: what time it is, what comes next, who is there; and what everything in it may use.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;
use posthaste_measure::{Clock, Events, Hand, lock};
use posthaste_server::front::readiness::Readiness;
use posthaste_server::front::socket::Socket;

use super::client::Client;
use super::desk::Minutes;
use super::disk::Drive;
use super::ends::Crash;
use super::ledger::Ledger;
use super::life::Life;
use super::mutants::Mutant;
use super::plan::{Plan, Trouble};
use super::process::Process;
use super::trace::{Counts, Trace};
use super::truth::Truth;
use super::wire::{End, Line, Shared};

/// When the server's first process starts, on the wall clock.
pub(super) const BEGIN_UNIX_NS: u64 = 1_700_000_000_000_000_000;

/// Receipts that clients remember.
const HANDLES: usize = 64;

/// Something in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A client does something.
    Act(usize),
    /// A client reads from a connection.
    Read(usize, usize),
    /// Bytes of a connection land, upwards or downwards.
    Land(usize, bool),
    /// Something goes wrong.
    Happen(Trouble),
    /// The process is started.
    Start,
}

/// A connection's number, in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) life: u64,
    pub(crate) number: u64,
}

/// How far a life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients ask, and things go wrong.
    Running,
    /// Nothing goes wrong any more, and everything comes to an end.
    Settling,
}

/// The world of one life.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) mutant: Option<Mutant>,
    pub(super) dice: RefCell<Rng>,
    pub(super) seed: u64,
    pub(super) hand: &'static Hand,
    /// What the stores record.
    pub(super) events: Events,
    pub(super) trace: RefCell<Trace>,
    pub(super) counts: RefCell<Counts>,
    pub(super) calendar: RefCell<BinaryHeap<Reverse<(u64, u64, Event)>>>,
    pub(super) entries: Cell<u64>,
    pub(super) phase: Cell<Phase>,
    pub(super) process: RefCell<Option<Rc<Process>>>,
    /// Which process it is.
    pub(super) life: Cell<u64>,
    pub(super) crash: Cell<Option<Crash>>,
    /// A disk is at work in somebody's step.
    pub(super) lingers: Cell<bool>,
    pub(super) syncs: Cell<bool>,
    /// Something went wrong with the disk, in this process or an earlier one.
    pub(super) disk_trouble: Cell<bool>,
    pub(super) is_busy: Cell<bool>,
    /// The last process ended in order.
    pub(super) is_stopped: Cell<bool>,
    /// The next stop is the last one.
    pub(super) is_closing: Cell<bool>,
    pub(super) drive: RefCell<Drive>,
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) minutes: RefCell<Minutes>,
    pub(super) ledger: RefCell<Ledger>,
    pub(super) clients: Vec<RefCell<Client>>,
    pub(super) lines: RefCell<Vec<Shared>>,
    pub(super) handles: RefCell<Vec<String>>,
    pub(super) condemned: RefCell<BTreeSet<Name>>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world that this thread lives in.
pub(crate) fn world() -> Rc<World> {
    current().expect("whoever asks lives")
}

/// The same; None: it is over.
pub(crate) fn current() -> Option<Rc<World>> {
    WORLD.with(|world| world.borrow().clone())
}

/// Puts a thread into a world, or out of it.
pub(super) fn enter(world: Option<Rc<World>>) {
    WORLD.with(|place| *place.borrow_mut() = world);
}

impl World {
    /// A new one for a life.
    pub(super) fn new(life: Life) -> Self {
        let mut dice = Rng::with_seed(life.seed);
        let plan = Plan::draw(&mut dice);
        let hand = Hand::at_zero();
        let client = |index| RefCell::new(Client::new(index, dice.fork(), plan.requests));
        let clients = (0..plan.clients).map(client).collect();
        Self {
            mutant: life.mutant,
            seed: life.seed,
            events: Events::kept(Clock::by_hand(hand, BEGIN_UNIX_NS)),
            hand,
            trace: RefCell::new(Trace::new(life.tells)),
            counts: RefCell::default(),
            calendar: RefCell::default(),
            entries: Cell::new(0),
            phase: Cell::new(Phase::Running),
            process: RefCell::new(None),
            life: Cell::new(0),
            crash: Cell::new(None),
            lingers: Cell::new(false),
            syncs: Cell::new(false),
            disk_trouble: Cell::new(false),
            is_busy: Cell::new(false),
            is_stopped: Cell::new(false),
            is_closing: Cell::new(false),
            drive: RefCell::new(Drive::empty()),
            truth: Arc::new(Mutex::new(Truth::new(life.seed))),
            minutes: RefCell::default(),
            ledger: RefCell::default(),
            clients,
            lines: RefCell::default(),
            handles: RefCell::default(),
            condemned: RefCell::default(),
            dice: RefCell::new(dice),
            plan,
        }
    }
}

/// What everything in the world may use.
impl World {
    /// What the clock shows.
    pub(crate) fn now(&self) -> u64 {
        self.hand.now()
    }

    /// A number below this one.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.dice.borrow_mut().u64(..end)
    }

    /// Whether something happens that happens so often in a thousand times.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// Something happened.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.borrow_mut().note(self.now(), what);
    }

    /// It is counted.
    pub(crate) fn count(&self, name: &'static str, times: u64) {
        if times > 0 {
            self.counts.borrow_mut().add(name, times);
        }
    }

    /// Something will happen in so many nanoseconds.
    pub(crate) fn schedule(&self, ns: u64, event: Event) {
        let entry = self.entries.replace(self.entries.get() + 1);
        self.calendar.borrow_mut().push(Reverse((self.now() + ns, entry, event)));
    }

    pub(crate) fn minutes(&self) -> RefMut<'_, Minutes> {
        self.minutes.borrow_mut()
    }

    pub(crate) fn ledger(&self) -> RefMut<'_, Ledger> {
        self.ledger.borrow_mut()
    }

    pub(super) fn truth(&self) -> MutexGuard<'_, Truth> {
        lock(&self.truth)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Of a thousand actions of a client, how many break its connection now.
    pub(crate) fn breaks(&self) -> u64 {
        if self.phase.get() == Phase::Running { self.plan.breaks } else { 0 }
    }

    /// Of a thousand reads of a client, how many are slow now.
    pub(crate) fn slowness(&self) -> u64 {
        if self.phase.get() == Phase::Running { self.plan.slowness } else { 0 }
    }

    /// Receipts and ids that clients have seen.
    pub(crate) fn handles(&self) -> Ref<'_, Vec<String>> {
        self.handles.borrow()
    }

    /// Keeps the receipts in an answer.
    pub(crate) fn remember_handles(&self, answer: &[u8]) {
        let Ok(text) = std::str::from_utf8(answer) else { return };
        let mut handles = self.handles.borrow_mut();
        let found = text.split("receipt\r\n").skip(1).filter_map(|rest| rest.split("\r\n").nth(1));
        handles.extend(found.map(str::to_owned));
        let surplus = handles.len().saturating_sub(HANDLES);
        handles.drain(..surplus);
    }

    /// The process as it is; None: there is none.
    pub(super) fn process(&self) -> Option<Rc<Process>> {
        self.process.borrow().clone()
    }

    /// Whether the process is dead, and only its steps end.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crash.get().is_some()
    }

    /// The disk gives the store a reason to fail.
    pub(crate) fn has_disk_trouble(&self) -> bool {
        self.disk_trouble.get()
    }

    /// A commit is under way, or not any more.
    pub(crate) fn syncs(&self, syncs: bool) {
        self.syncs.set(syncs);
    }

    pub(crate) fn is_syncing(&self) -> bool {
        self.syncs.get()
    }

    /// Somebody is at the store, or not any more.
    pub(crate) fn is_busy(&self, is_busy: bool) {
        self.is_busy.set(is_busy);
    }

    pub(crate) fn busy(&self) -> bool {
        self.is_busy.get()
    }

    /// What a mutant does to bytes on their way to a client.
    pub(crate) fn spoil<'a>(&self, mut bytes: impl ExactSizeIterator<Item = &'a mut u8>) {
        if self.mutant == Some(Mutant::AlteredByte) && self.chance(20) && bytes.len() > 0 {
            let place = self.below(bytes.len() as u64);
            if let Some(byte) = bytes.nth(usize::try_from(place).unwrap_or(0)) {
                *byte ^= 1;
            }
        }
    }
}

/// Connections.
impl World {
    /// A client connects: its wire, and the number it has in the server. None: nobody listens.
    pub(crate) fn connect(&self, client: usize) -> Option<(usize, Shared, Name)> {
        let process = self.process().filter(|process| process.stops_since.get().is_none())?;
        let thread = usize::try_from(self.below(self.plan.networks as u64)).ok()?;
        let id = self.lines.borrow().len();
        let line = Line::new(id, client, thread, self.plan.wire_bytes);
        self.lines.borrow_mut().push(Arc::clone(&line));
        let socket = Socket::Simulated(Box::new(End(Arc::clone(&line))));
        let Ok(arrival) = process.shared.gate.admit(socket) else { panic!("there is room") };
        let name = Name { life: self.life.get(), number: arrival.number };
        lock(&line).name = Some(name);
        assert!(process.shared.mailboxes[thread].adopt(arrival).is_none(), "the thread has not ended");
        Some((id, line, name))
    }

    /// How many connections this process has had.
    pub(crate) fn connections(&self) -> u64 {
        self.process().map_or(1, |process| process.shared.gate.accepted().max(1))
    }

    /// Somebody wants this connection closed.
    pub(crate) fn condemn(&self, number: u64) {
        self.condemned.borrow_mut().insert(Name { life: self.life.get(), number });
    }

    pub(crate) fn is_condemned(&self, name: Name) -> bool {
        self.condemned.borrow().contains(&name)
    }

    /// Whether the client of this connection has ended it, or somebody else has.
    pub(crate) fn has_left(&self, name: Name) -> bool {
        let lines = self.lines.borrow();
        let mut lines = lines.iter().map(|line| lock(line));
        self.is_condemned(name) || lines.any(|line| line.name == Some(name) && line.is_over())
    }

    /// A network thread is to be told of a connection.
    pub(crate) fn tell(&self, thread: usize, id: usize, slot: usize, told: Readiness) {
        if let Some(process) = self.process() {
            process.networks[thread].told.borrow_mut().push((id, slot, told));
        }
    }

    /// What a network thread is told now. Who has left meanwhile is told of no more, as with a closed descriptor.
    pub(super) fn told(&self, told: Vec<(usize, usize, Readiness)>) -> Vec<(usize, Readiness)> {
        let lines = self.lines.borrow();
        let is_there = |(id, slot, _): &(usize, usize, Readiness)| lock(&lines[*id]).slot() == Some(*slot);
        told.into_iter().filter(is_there).map(|(_, slot, told)| (slot, told)).collect()
    }
}
