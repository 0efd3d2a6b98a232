//! A life from its seed to its end, or to the first promise that is broken.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Once;

use super::mutants::Mutant;
use super::plan::{MS, StoreKind};
use super::trace::Counts;
use super::world::{self, Event, Phase, World};

/// Steps and time after which a life is stuck.
const STEPS_MAX: u64 = 2_000_000;
const TIME_MAX: u64 = 3_600_000 * MS;

/// A life to be lived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    pub(crate) mutant: Option<Mutant>,
    /// Keeps its last steps in words.
    pub(crate) tells: bool,
}

impl Life {
    /// The plain one of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self { seed, mutant: None, tells: false }
    }
}

/// A life that went well.
pub(crate) struct Lived {
    pub(crate) hash: u64,
    pub(crate) counts: Counts,
    pub(crate) story: String,
}

/// A life in which a promise was broken.
#[derive(Debug)]
pub(crate) struct Failure {
    seed: u64,
    what: String,
    story: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.story.is_empty() {
            writeln!(f, "{}", self.story)?;
        }
        write!(f, "SEED={} make simulate # {}", self.seed, self.what)
    }
}

thread_local! {
    /// Why the life of this thread failed.
    static WHY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Lives a life.
pub(crate) fn live(life: Life) -> Result<Lived, Failure> {
    listen_to_panics();
    fastrand::seed(life.seed);
    let world = Rc::new(World::new(life));
    world::enter(Some(Rc::clone(&world)));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| world.go_on()));
    world.drive.borrow().turn_off();
    world::enter(None);
    let trace = world.trace.borrow();
    match outcome {
        Ok(()) => {
            Ok(Lived { hash: trace.hash(), counts: world.counts.borrow().clone(), story: trace.story() })
        }
        Err(_) => {
            let what = WHY.with(|why| why.borrow_mut().take()).unwrap_or_default();
            Err(Failure { seed: life.seed, what, story: trace.story() })
        }
    }
}

/// A promise is broken by a panic: what it says is kept for the failure, instead of being printed at once.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if world::current().is_some() {
                WHY.with(|why| {
                    why.borrow_mut().get_or_insert_with(|| panic.to_string().replace('\n', " "));
                });
            } else {
                others(panic);
            }
        }));
    });
}

impl World {
    /// From the first start to the last stop.
    fn go_on(&self) {
        self.note(format_args!("{:?}", self.plan));
        self.schedule(0, Event::Start);
        self.plan.troubles.iter().for_each(|(at, trouble)| self.schedule(*at, Event::Happen(*trouble)));
        self.wake_clients();
        while !self.is_over() {
            self.bury();
            self.see_to_stop();
            if self.phase.get() == Phase::Running && self.has_asked_all() {
                self.settle();
            }
            let went_on = self.step(u64::MAX);
            let lacks =
                || self.clients.iter().filter_map(|client| client.borrow().lacks()).collect::<Vec<_>>();
            assert!(went_on, "nothing will ever happen again: {:?}", lacks());
            let is_stuck = self.counts.borrow().of("steps") > STEPS_MAX || self.now() > TIME_MAX;
            assert!(!is_stuck, "it does not come to an end: {:?}", lacks());
        }
        self.close();
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.borrow().is_done())
            && self.process().is_none_or(|process| process.shared.gate.connections() == 0)
            && self.phase.get() == Phase::Settling
            && self.process().is_some_and(|process| process.stops_since.get().is_none())
            && self.crash.get().is_none()
    }

    fn has_asked_all(&self) -> bool {
        self.clients.iter().all(|client| client.borrow().has_asked_all())
    }

    /// Nothing goes wrong any more.
    fn settle(&self) {
        self.note(format_args!("everything settles"));
        self.phase.set(Phase::Settling);
        self.drive.borrow().mend();
        let is_trouble = |entry: &Reverse<(u64, u64, Event)>| matches!(entry.0.2, Event::Happen(_));
        self.calendar.borrow_mut().retain(|entry| !is_trouble(entry));
        if self.truth().has_failed() {
            self.stop();
        }
        self.wake_clients();
    }

    fn wake_clients(&self) {
        self.clients.iter().for_each(|client| client.borrow_mut().act_within(self, self.plan.think_ns));
    }

    /// The last stop; what is left is what should be.
    fn close(&self) {
        // A worker may still be waiting for who comes back with what somebody asked who has left since.
        let waits = || self.process().is_some_and(|process| !process.shared.line.is_empty());
        while (!self.is_quiet() || waits()) && self.step(u64::MAX) {}
        let process = self.process().expect("it runs");
        assert!(process.shared.clients.is_empty(), "somebody is remembered who has left");
        assert!(process.shared.line.is_empty(), "something waits that nobody asked");
        for seat in &process.networks {
            let network = seat.network.borrow();
            let connections = network.as_ref().map(|network| network.connections());
            let held = connections.map(|connections| (connections.len(), connections.input_bytes()));
            assert_eq!(held, Some((0, 0)), "a network thread holds something of those who have left");
        }
        let figures = process.shared.store.figures();
        let blocked = figures.iter().find(|(name, _)| *name == "blocked_clients").map(|(_, count)| *count);
        assert_eq!(blocked, Some(0), "somebody waits who has left");
        assert!(!self.truth().remembers_who_left(), "somebody who has left is remembered for ever");
        drop(process);
        self.is_closing.set(true);
        self.stop();
        while self.process().is_some() {
            self.bury();
            self.see_to_stop();
            assert!(self.process().is_none() || self.step(u64::MAX), "the server does not stop");
        }
        if self.plan.store == StoreKind::Embedded {
            drop(self.open_embedded(true));
        }
        let swept = self.events.take().iter().filter(|event| event.kind == "segment swept").count();
        self.count("segments swept", swept as u64);
        let left = self.truth().ids();
        self.note(format_args!("{} messages are left", left.len()));
        let accounted = self.ledger.borrow().close(&left);
        self.count("messages accounted for", accounted as u64);
    }
}
