//! Starts and ends of the server's process: what goes wrong, what a crash leaves, how a stop goes on, and how the next
//! process finds its store.

use std::rc::Rc;
use std::sync::Arc;

use posthaste_measure::{Clock, lock};
use posthaste_server::path::local::Local;
use posthaste_server::path::worker::Store;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::Rules;
use posthaste_server::time::Time;

use super::desk::Desk;
use super::disk::Drive;
use super::plan::{MS, StoreKind, Trouble};
use super::process::Process;
use super::witness::Witness;
use super::world::{BEGIN_UNIX_NS, Event, World};

/// How long a stop may take before the rest is cut.
const DRAIN: u64 = 20_000 * MS;

/// Bytes from which on a commit is full: few, so that some are.
const COMMIT_BYTES: u64 = 2_000;

/// How long the machine stands still at most: for longer than keys are remembered.
const DOZE: u64 = 15 * 60_000 * MS;

/// How a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    Kill,
    PowerCut,
}

impl World {
    pub(super) fn trouble(&self, trouble: Trouble) {
        self.note(format_args!("{trouble:?}"));
        let disk_troubles = [Trouble::FailSync, Trouble::FailPrepare, Trouble::FillDisk];
        self.disk_trouble.set(self.disk_trouble.get() || disk_troubles.contains(&trouble));
        match trouble {
            Trouble::Kill => self.die(Crash::Kill),
            Trouble::PowerCut => self.die(Crash::PowerCut),
            Trouble::Stop => self.stop(),
            Trouble::FailSync => {
                self.drive.borrow().fail_sync();
                // Whoever runs the server sees that it failed, and starts it anew.
                self.schedule(self.plan.think_ns * 8, Event::Happen(Trouble::Stop));
            }
            Trouble::FailPrepare => self.drive.borrow().fail_next(),
            Trouble::FillDisk => {
                self.count("full disks", 1);
                self.drive.borrow().fill(true);
            }
            Trouble::FreeDisk => self.drive.borrow().fill(false),
            Trouble::Doze => {
                self.count("dozes", 1);
                self.hand.set(self.now() + self.below(DOZE));
            }
        }
    }

    /// The process dies where it is.
    fn die(&self, crash: Crash) {
        if self.process().is_some() && !self.has_crashed() {
            self.count(if crash == Crash::Kill { "kills" } else { "power cuts" }, 1);
            self.drive.borrow().turn_off();
            self.crash.set(Some(crash));
        }
    }

    /// What a crash leaves, once nobody is in the middle of a step.
    pub(super) fn bury(&self) {
        let Some(crash) = self.crash.get() else { return };
        let process = self.process.borrow_mut().take();
        drop(process);
        let drive = match crash {
            Crash::Kill => self.drive.borrow().after_kill(),
            Crash::PowerCut => self.drive.borrow().after_power_cut(&mut self.dice.borrow_mut()),
        };
        *self.drive.borrow_mut() = drive;
        let lines = self.lines.borrow().clone();
        lines.iter().for_each(|line| lock(line).lose_server(self, crash == Crash::Kill));
        if self.plan.store == StoreKind::Memory {
            self.forget_all();
        }
        self.syncs.set(false);
        self.is_busy.set(false);
        self.crash.set(None);
        self.schedule(self.below(20 * MS), Event::Start);
    }

    /// A store in memory is gone with its process.
    fn forget_all(&self) {
        self.clients.iter().for_each(|client| client.borrow_mut().lose_server(self));
        self.truth().forget();
        self.ledger().forget();
    }

    /// The process is told to stop.
    pub(super) fn stop(&self) {
        let Some(process) = self.process().filter(|process| process.stops_since.get().is_none()) else {
            return;
        };
        self.count("stops", 1);
        self.note(format_args!("SIGTERM"));
        process.stops_since.set(Some(self.now()));
        self.lines.borrow().iter().for_each(|line| lock(line).is_excused = true);
        process.shared.mailboxes[0].stop();
    }

    /// A stop goes on: once all is answered the workers end, and then the process.
    pub(super) fn see_to_stop(&self) {
        let Some(process) = self.process() else { return };
        let Some(since) = process.stops_since.get() else { return };
        if !process.has_answered_all() {
            if self.now() > since + DRAIN {
                self.die(Crash::Kill);
            }
            return;
        }
        if !process.is_closed.replace(true) {
            process.shared.line.close();
            process.call_all();
        }
        if process.has_worked_off_all() {
            self.note(format_args!("the process has ended"));
            let last = self.process.borrow_mut().take();
            drop((process, last));
            if self.plan.store == StoreKind::Memory && !self.is_closing.get() {
                self.forget_all();
            }
            self.schedule(self.below(20 * MS), Event::Start);
            self.is_stopped.set(true);
        }
    }

    /// A process begins.
    pub(super) fn start(&self) {
        if self.process().is_some() {
            return;
        }
        let clock = Clock::by_hand(self.hand, BEGIN_UNIX_NS);
        let in_order = self.is_stopped.replace(false);
        let store: Arc<dyn Store> = match self.plan.store {
            StoreKind::Memory => self.shared(Memory::new(self.seed), |_| 0, clock),
            StoreKind::Embedded => {
                let receipts = |store: &Embedded| store.receipt_seed().expect("a seed");
                self.shared(self.open_embedded(in_order), receipts, clock)
            }
        };
        self.life.set(self.life.get() + 1);
        let desk = Arc::new(Desk::new(store, Arc::clone(&self.truth), clock, self.life.get()));
        self.note(format_args!("process {} starts", self.life.get()));
        let process = Process::start(&self.plan, desk, clock).expect("the system has events");
        *self.process.borrow_mut() = Some(Rc::new(process));
    }

    fn shared<R: Rules + 'static>(&self, store: R, receipts: fn(&R) -> u64, clock: Clock) -> Arc<dyn Store> {
        self.truth().restart();
        Local::new(Witness::new(store, Arc::clone(&self.truth), receipts), Time::of(clock), clock)
    }

    /// Opens the store on the disk, after it was found to be what it should be.
    pub(super) fn open_embedded(&self, in_order: bool) -> Embedded {
        let drive = self.drive.borrow().after_kill();
        let open = |drive: Drive, seed| {
            let options = EmbeddedOptions {
                segment_bytes: 8 << 10,
                seed: Some(seed),
                freed_at_once: 1,
                commit_bytes: COMMIT_BYTES,
                prepares_ahead: false,
                events: self.events.clone(),
                ..EmbeddedOptions::default()
            };
            Embedded::open_on(Arc::new(drive), options)
                .unwrap_or_else(|error| panic!("it cannot be opened: {error}"))
        };
        let mut copy = open(drive.clone(), 0);
        let now = (BEGIN_UNIX_NS + self.now()) / MS;
        self.truth().recover(now, &mut copy, in_order);
        drive.turn_off();
        self.count("recoveries", 1);
        let seed = self.truth().receipts();
        open(self.drive.borrow().clone(), seed)
    }
}
