//! Whose step is next.
//!
//! Whatever can happen now stands in a list, and the seed picks one: a network thread's turn, a worker's look at the
//! line or its batch, bytes that land, a client that acts, a trouble. When nothing can happen the clock leaps to the
//! next thing in the calendar. While a disk is at work, in the middle of somebody's step, the others go on (`linger`).

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use posthaste_measure::lock;
use posthaste_server::path::waiting_line::Taken;

use super::mutants::Mutant;
use super::plan::MS;
use super::process::Doing;
use super::world::{BEGIN_UNIX_NS, Event, Phase, World};

/// Who can take a step.
#[derive(Clone, Copy, Debug)]
enum Actor {
    Network(usize),
    Worker(usize),
}

impl World {
    /// Others go on for so long, in the middle of somebody's step.
    pub(crate) fn linger(&self, ns: u64) {
        if self.has_crashed() || std::thread::panicking() || self.lingers.replace(true) {
            return;
        }
        let until = self.now() + ns;
        while self.now() < until && !self.has_crashed() {
            self.count("steps during a sync", 1);
            if !self.step(until) {
                break;
            }
        }
        self.lingers.set(false);
    }

    /// Lets one thing happen; when nothing can, time passes up to the next thing, at most until then. False: there is
    /// none.
    pub(super) fn step(&self, until: u64) -> bool {
        self.count("steps", 1);
        let now = self.now();
        self.call_workers();
        let (actors, next) = self.who_can(now);
        let first = self.calendar.borrow().peek().map(|entry| entry.0.0);
        let is_due = first.is_some_and(|at| at <= now);
        let choices = actors.len() + usize::from(is_due);
        if choices == 0 {
            return self.leap(first.into_iter().chain(next).min(), until);
        }
        match actors.get(usize::try_from(self.below(choices as u64)).unwrap_or(0)) {
            Some(Actor::Network(thread)) => self.turn(*thread),
            Some(Actor::Worker(worker)) => self.work(*worker),
            None => self.happen(),
        }
        let back = if self.mutant == Some(Mutant::ClockBack) && self.chance(1) { 20 * MS } else { 0 };
        self.hand.set((self.now() + self.below(self.plan.pace_ns)).saturating_sub(back));
        true
    }

    /// Nothing can happen now.
    fn leap(&self, next: Option<u64>, until: u64) -> bool {
        if !self.lingers.get() && self.process().is_some_and(|process| !process.is_stalled(self.now())) {
            let overdue = self.truth().overdue((BEGIN_UNIX_NS + self.now()) / MS);
            assert!(overdue.is_none(), "everybody sleeps: {}", overdue.unwrap_or_default());
        }
        match next {
            Some(at) if at <= until => self.hand.set(at),
            _ if until == u64::MAX => return false,
            _ => self.hand.set(until),
        }
        true
    }

    /// Whoever can take a step now, and when somebody else can.
    fn who_can(&self, now: u64) -> (Vec<Actor>, Option<u64>) {
        let (mut actors, mut next) = (Vec::new(), None);
        let Some(process) = self.process() else { return (actors, next) };
        let mut add = |at: Option<u64>, actor| match at {
            Some(at) if at <= now => actors.push(actor),
            Some(at) => next = Some(next.map_or(at, |next: u64| next.min(at))),
            None => {}
        };
        for (thread, seat) in process.networks.iter().enumerate() {
            let is_woken =
                self.mutant != Some(Mutant::LostWake) && !process.shared.mailboxes[thread].is_owner_asleep();
            add(seat.ready_at(is_woken, now), Actor::Network(thread));
        }
        for (worker, seat) in process.workers.iter().enumerate() {
            let ready = match &*seat.doing.borrow() {
                Doing::Looks | Doing::Called(_) => Some(now),
                Doing::Waits(wait) => wait.deadline.map(|deadline| self.hand.at(deadline)),
                Doing::Holds => (!self.busy()).then_some(now),
                Doing::Nothing => None,
            };
            add(ready.map(|at| at.max(seat.stalled_until.get())), Actor::Worker(worker));
        }
        (actors, next)
    }

    /// Whether no thread of the server has anything to do.
    pub(super) fn is_quiet(&self) -> bool {
        self.call_workers();
        let is_stalled = self.process().is_some_and(|process| process.is_stalled(self.now()));
        !is_stalled && self.who_can(self.now()).0.is_empty()
    }

    /// A call at the line wakes one of those that wait, whichever.
    fn call_workers(&self) {
        let Some(process) = self.process() else { return };
        let calls = process.shared.line.calls();
        // Now and then one wakes for no reason, as condition variables let them.
        let called = calls - process.calls.replace(calls) + u64::from(self.chance(1));
        for _ in 0..called {
            let waits = |worker: &usize| matches!(*process.workers[*worker].doing.borrow(), Doing::Waits(_));
            let waiting: Vec<usize> = (0..process.workers.len()).filter(waits).collect();
            if waiting.is_empty() {
                break;
            }
            let called = waiting[usize::try_from(self.below(waiting.len() as u64)).unwrap_or(0)];
            let mut doing = process.workers[called].doing.borrow_mut();
            if let Doing::Waits(wait) = std::mem::replace(&mut *doing, Doing::Nothing) {
                *doing = Doing::Called(wait);
            }
        }
    }

    /// How long a thread gets no processor after a step.
    fn stall(&self) -> u64 {
        if self.phase.get() == Phase::Running && self.chance(self.plan.stalls) {
            self.count("stalls", 1);
            self.now() + self.below(100 * MS)
        } else {
            0
        }
    }

    /// A turn of a network thread.
    fn turn(&self, thread: usize) {
        let Some(process) = self.process() else { return };
        let seat = &process.networks[thread];
        let Some(mut network) = seat.network.borrow_mut().take() else { return };
        let told = self.told(seat.told.take());
        self.note(format_args!("network {thread} turns, told {}", told.len()));
        network.turn_by_hand(&told);
        if network.is_over() {
            self.note(format_args!("network {thread} ends"));
            return;
        }
        let timeout = network.poll_timeout();
        seat.is_awake.set(timeout.is_some_and(|timeout| timeout.is_zero()));
        seat.wakes_at.set(timeout.map(|timeout| self.now() + nanoseconds(timeout)));
        seat.stalled_until.set(self.stall());
        *seat.network.borrow_mut() = Some(network);
    }

    /// A step of a worker.
    fn work(&self, index: usize) {
        let Some(process) = self.process() else { return };
        let seat = &process.workers[index];
        let Some(mut worker) = seat.worker.borrow_mut().take() else { return };
        let doing = seat.doing.replace(Doing::Nothing);
        self.note(format_args!("worker {index} {}", doing.name()));
        let next = match doing {
            Doing::Holds => {
                worker.run_batch();
                Doing::Looks
            }
            doing => {
                if let Doing::Waits(wait) | Doing::Called(wait) = doing {
                    process.shared.line.end_wait(&wait);
                }
                match worker.try_take(self.plan.batch) {
                    Ok(Taken::Closed) => return,
                    Ok(Taken::Batch | Taken::Nothing) => Doing::Holds,
                    Err(wait) => Doing::Waits(wait),
                }
            }
        };
        seat.stalled_until.set(self.stall());
        *seat.doing.borrow_mut() = next;
        *seat.worker.borrow_mut() = Some(worker);
    }

    /// The first thing in the calendar happens.
    fn happen(&self) {
        let Some(Reverse((_, _, event))) = self.calendar.borrow_mut().pop() else { return };
        match event {
            Event::Act(client) => self.clients[client].borrow_mut().act(self),
            Event::Read(client, line) => self.clients[client].borrow_mut().read(self, line),
            Event::Land(line, upwards) => {
                let line = Arc::clone(&self.lines.borrow()[line]);
                lock(&line).land(self, upwards);
            }
            Event::Happen(trouble) => self.trouble(trouble),
            Event::Start => self.start(),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
