//! A message handed to a client, and what became of the lease.

use std::collections::HashMap;

use crate::body::Key;
use crate::operation::{Call, Delivery, Outcome};
use crate::story::Op;
use crate::{NEVER, Time, millis};

/// How much too early a lease or a delay may seem to end, because servers count in whole milliseconds.
pub(crate) const ROUNDED: Time = millis(2);

/// A message that a POP or the drain handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed<'a> {
    /// Index of the message in `Story::messages`.
    pub(crate) message: u32,
    /// Index of the pop in `Story::ops`.
    pub(crate) op: usize,
    /// The message as the answer showed it.
    pub(crate) delivery: &'a Delivery,
    /// The lease under which it was handed out; None if it was taken for good.
    pub(crate) lease: Option<Lease>,
}

/// What the journals say of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// Time before which the lease cannot have ended.
    pub(crate) lasts: Time,
    /// Earliest time at which another client can have been given the message: the end of the lease, or of the delay
    /// with which it was given back.
    pub(crate) free_from: Time,
    /// Time by which the lease had run out with all its extensions, and the delay of a return was over.
    pub(crate) over_by: Time,
    /// Time by which a message that was given back was available again, even if the timer of its delay was late; None
    /// if it was not given back.
    pub(crate) given_back_by: Option<Time>,
    /// Index in `Story::ops` of the acknowledgement that took effect.
    pub(crate) won: Option<usize>,
    /// Number of acknowledgements that took effect.
    pub(crate) wins: u32,
    /// Earliest begin of an acknowledgement of unknown outcome; [`NEVER`] if there was none.
    pub(crate) maybe_won: Time,
    /// Latest end of an acknowledgement of unknown outcome; 0 if there was none.
    pub(crate) maybe_won_by: Time,
    /// Index in `Story::ops` of the last extension or return that took effect.
    pub(crate) held: Option<usize>,
}

impl Handed<'_> {
    /// Returns the operation that took the message for good, if one did: the pop, or the acknowledgement of its lease.
    pub(crate) fn taken_by(&self) -> Option<usize> {
        self.lease.map_or(Some(self.op), |lease| lease.won)
    }

    /// Returns the last extension or return of the lease that took effect.
    pub(crate) fn held(&self) -> Option<usize> {
        self.lease.and_then(|lease| lease.held)
    }

    /// Returns the earliest time at which another client can have been given the message.
    pub(crate) fn free_from(&self) -> Time {
        match self.lease {
            Some(lease) if lease.won.is_none() => lease.free_from,
            _ => NEVER,
        }
    }
}

impl Lease {
    fn of(op: &Op<'_>, ms: u64) -> Self {
        let lasts = op.begin.saturating_add(millis(ms)).saturating_sub(ROUNDED);
        Self {
            lasts,
            free_from: lasts,
            over_by: op.end.saturating_add(millis(ms)),
            given_back_by: None,
            won: None,
            wins: 0,
            maybe_won: NEVER,
            maybe_won_by: 0,
            held: None,
        }
    }
}

/// Returns the lease under which a pop hands out messages, if it asks for one.
pub(crate) fn lease(op: &Op<'_>) -> Option<Lease> {
    match op.call {
        Call::Pop(select) if select.lease_ms > 0 => Some(Lease::of(op, select.lease_ms)),
        _ => None,
    }
}

/// Enters acknowledgements, extensions and returns in the leases; returns the index in `handed` of each receipt's
/// delivery.
pub(crate) fn follow_leases(ops: &[Op<'_>], handed: &mut [Handed<'_>], late: Time) -> HashMap<Key, usize> {
    let mut by_receipt: HashMap<Key, usize> = HashMap::new();
    for (i, one) in handed.iter().enumerate() {
        if let (Some(receipt), Some(_)) = (one.delivery.receipt, one.lease) {
            by_receipt.insert(receipt, i);
        }
    }
    let mut courses: HashMap<usize, Course> = HashMap::new();
    for (number, op) in ops.iter().enumerate() {
        let Some(i) = receipt(op.call).and_then(|receipt| by_receipt.get(&receipt).copied()) else {
            continue;
        };
        let Some(lease) = &mut handed[i].lease else { continue };
        let counted = op.counted();
        if !counted && *op.outcome != Outcome::Info {
            continue;
        }
        match op.call {
            Call::Ack { .. } if counted => {
                lease.won = Some(number);
                lease.wins += 1;
            }
            Call::Ack { .. } => {
                lease.maybe_won = lease.maybe_won.min(op.begin);
                lease.maybe_won_by = lease.maybe_won_by.max(op.end);
            }
            Call::Extend { ms, .. } => {
                lease.over_by = lease.over_by.max(op.end.saturating_add(millis(*ms)));
                lease.hold(ops, number);
                courses.entry(i).or_default().extend(op, millis(*ms), counted);
            }
            Call::Nack { delay_ms, .. } => {
                lease.give_back(op, *delay_ms, counted, late);
                lease.hold(ops, number);
                courses.entry(i).or_default().give_back(op, millis(*delay_ms), counted);
            }
            _ => {}
        }
    }
    for (i, course) in courses {
        if let Some(lease) = &mut handed[i].lease {
            let last = course.last_extension().unwrap_or(lease.lasts);
            lease.lasts = last.min(course.given_up);
            lease.free_from = course.back_from.unwrap_or(lease.lasts);
        }
    }
    by_receipt
}

impl Lease {
    /// Sets `held` to an extension or return that took effect, if it began later than the one before.
    fn hold(&mut self, ops: &[Op<'_>], number: usize) {
        let is_later = self.held.is_none_or(|held| ops[held].begin < ops[number].begin);
        if ops[number].counted() && is_later {
            self.held = Some(number);
        }
    }

    fn give_back(&mut self, op: &Op<'_>, delay_ms: u64, counted: bool, late: Time) {
        let back = op.end.saturating_add(millis(delay_ms));
        self.over_by = self.over_by.max(back);
        if counted {
            let late = if delay_ms == 0 { 0 } else { late };
            self.given_back_by = Some(back.saturating_add(late));
        }
    }
}

/// The extensions and returns of one lease.
struct Course {
    /// Extensions that took effect: begin, end, and the time up to which the lease then lasted at least.
    extensions: Vec<(Time, Time, Time)>,
    /// Time from which the lease may be over by a return, or by an extension of unknown outcome that shortened it.
    given_up: Time,
    /// Time from which the message can have been handed out again, if it was given back.
    back_from: Option<Time>,
}

impl Default for Course {
    fn default() -> Self {
        Self { extensions: Vec::new(), given_up: NEVER, back_from: None }
    }
}

impl Course {
    fn extend(&mut self, op: &Op<'_>, by: Time, counted: bool) {
        let until = op.begin.saturating_add(by).saturating_sub(ROUNDED);
        if counted {
            self.extensions.push((op.begin, op.end, until));
        } else {
            self.given_up = self.given_up.min(until);
        }
    }

    fn give_back(&mut self, op: &Op<'_>, delay: Time, counted: bool) {
        self.given_up = self.given_up.min(op.begin);
        if counted {
            self.back_from = Some(op.begin.saturating_add(delay.saturating_sub(ROUNDED)));
        }
    }

    /// Returns the earliest time at which the lease can have ended by its last extension that took effect. Of
    /// extensions that overlap in time, any may be the last.
    fn last_extension(&self) -> Option<Time> {
        let last_begin = self.extensions.iter().map(|(begin, ..)| *begin).max();
        let may_be_last = |(_, end, _): &&(Time, Time, Time)| last_begin.is_some_and(|begin| *end >= begin);
        self.extensions.iter().filter(may_be_last).map(|(.., until)| *until).min()
    }
}

/// Returns the receipt that an acknowledgement, a return or an extension names.
pub(crate) fn receipt(call: &Call) -> Option<Key> {
    match call {
        Call::Ack { receipt } | Call::Nack { receipt, .. } | Call::Extend { receipt, .. } => Some(*receipt),
        _ => None,
    }
}
