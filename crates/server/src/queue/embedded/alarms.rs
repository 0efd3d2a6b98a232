//! When time changes a message by itself: a lease or a delay runs out, a TTL is over.
//!
//! The end of a lease must be recorded, which may fail on a full disk; its alarm is then kept apart until there is
//! space. So it does not hold up the other alarms, which need no space and may free some.

use std::collections::BTreeSet;

use crate::queue::rules::{MessageId, Millis};

/// The moment at which time changes a message. Alarms are ordered by that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    pub(super) at: Millis,
    pub(super) message: MessageId,
}

/// Every alarm.
#[derive(Default)]
pub(super) struct Alarms {
    set: BTreeSet<Alarm>,
    held_up: BTreeSet<Alarm>,
}

impl Alarms {
    pub(super) fn set(&mut self, alarm: Alarm) {
        self.set.insert(alarm);
    }

    /// Turns an alarm off.
    pub(super) fn clear(&mut self, alarm: Alarm) {
        if !self.set.remove(&alarm) {
            self.held_up.remove(&alarm);
        }
    }

    /// Returns the earliest alarm that is not held up.
    pub(super) fn first(&self) -> Option<Alarm> {
        self.set.first().copied()
    }

    /// Returns the earliest alarm that is held up.
    pub(super) fn first_held_up(&self) -> Option<Alarm> {
        self.held_up.first().copied()
    }

    /// Returns the alarms due by `now`, and all that are held up.
    pub(super) fn due(&self, now: Millis) -> impl Iterator<Item = Alarm> {
        self.set.range(..=Alarm { at: now, message: MessageId::MAX }).chain(&self.held_up).copied()
    }

    /// Marks an alarm as held up: its effect could not be recorded for lack of space.
    pub(super) fn hold_up(&mut self, alarm: Alarm) {
        if self.set.remove(&alarm) {
            self.held_up.insert(alarm);
        }
    }
}
