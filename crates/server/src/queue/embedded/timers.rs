//! When time changes a message by itself: a lease or a delay runs out, a TTL is over.
//!
//! The end of a lease must be recorded, which may fail on a full disk; its timer is then deferred until there is space.
//! So it does not hold up the other timers, which need no space and may free some.

use std::collections::BTreeSet;

use crate::queue::rules::{MessageId, Millis};

/// The moment at which time changes a message. Timers are ordered by that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) at: Millis,
    pub(super) message: MessageId,
}

/// Every timer.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeSet<Timer>,
    deferred: BTreeSet<Timer>,
}

impl Timers {
    pub(super) fn set(&mut self, timer: Timer) {
        self.set.insert(timer);
    }

    /// Cancels a timer.
    pub(super) fn clear(&mut self, timer: Timer) {
        if !self.set.remove(&timer) {
            self.deferred.remove(&timer);
        }
    }

    /// Returns the earliest timer that is not deferred.
    pub(super) fn first(&self) -> Option<Timer> {
        self.set.first().copied()
    }

    /// Returns the earliest timer that is deferred.
    pub(super) fn first_deferred(&self) -> Option<Timer> {
        self.deferred.first().copied()
    }

    /// Returns the timers due by `now`, and all that are deferred.
    pub(super) fn due(&self, now: Millis) -> impl Iterator<Item = Timer> {
        self.set.range(..=Timer { at: now, message: MessageId::MAX }).chain(&self.deferred).copied()
    }

    /// Defers a timer: its effect could not be recorded for lack of space.
    pub(super) fn defer(&mut self, timer: Timer) {
        if self.set.remove(&timer) {
            self.deferred.insert(timer);
        }
    }
}
