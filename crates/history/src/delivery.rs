//! A message handed to a client, and what became of the lease.

use std::collections::HashMap;

use crate::body::Key;
use crate::operation::{Call, Delivery, Outcome};
use crate::story::Op;
use crate::{NEVER, Time, millis};

/// Servers count leases in whole milliseconds.
pub(crate) const ROUNDED: Time = millis(2);

/// A message that a POP or the drain handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed<'a> {
    /// Of the story's messages.
    pub(crate) message: u32,
    /// Of the story's operations.
    pub(crate) op: usize,
    /// What the answer said.
    pub(crate) delivery: &'a Delivery,
    /// None: taken for good.
    pub(crate) lease: Option<Lease>,
}

/// What the journals say of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// It cannot have ended before this.
    pub(crate) lasts: Time,
    /// Nobody else can have had the message before this: the lease lasted, or it was given back with a delay.
    pub(crate) free_from: Time,
    /// If nobody did anything it had ended by this, and what was given back with a delay could be had.
    pub(crate) over_by: Time,
    /// If it was given back it could be had by this; a delay may be late.
    pub(crate) given_back_by: Option<Time>,
    /// The acknowledgement that counted, of the story's operations.
    pub(crate) won: Option<usize>,
    /// Acknowledgements that counted.
    pub(crate) wins: u32,
    /// When an acknowledgement began of which nobody knows whether it counted.
    pub(crate) maybe_won: Time,
    /// When the last of these was over.
    pub(crate) maybe_won_by: Time,
    /// The last extension or return that counted.
    pub(crate) held: Option<usize>,
}

impl Handed<'_> {
    /// The operation by which the message went for good, if it did.
    pub(crate) fn taken_by(&self) -> Option<usize> {
        self.lease.map_or(Some(self.op), |lease| lease.won)
    }

    /// The last extension or return of its lease that counted.
    pub(crate) fn held(&self) -> Option<usize> {
        self.lease.and_then(|lease| lease.held)
    }

    /// Nobody else can have been given the message before this time.
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

/// The lease with which a pop hands out, if it does.
pub(crate) fn lease(op: &Op<'_>) -> Option<Lease> {
    match op.call {
        Call::Pop(select) if select.lease_ms > 0 => Some(Lease::of(op, select.lease_ms)),
        _ => None,
    }
}

/// Enters what holders did with their leases; says which delivery a receipt is of.
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
    /// An extension or a return.
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

/// What was done with a lease, but for its acknowledgement.
struct Course {
    /// Begin, end, and until when the lease then lasted at least.
    extensions: Vec<(Time, Time, Time)>,
    /// From here on it may have been given up, or shortened.
    given_up: Time,
    /// It was given back, and from here on the message can have been had.
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

    /// The last extension that counted says when the lease ended, for it held until then; of those that overlap any may
    /// be the last.
    fn last_extension(&self) -> Option<Time> {
        let last_begin = self.extensions.iter().map(|(begin, ..)| *begin).max();
        let may_be_last = |(_, end, _): &&(Time, Time, Time)| last_begin.is_some_and(|begin| *end >= begin);
        self.extensions.iter().filter(may_be_last).map(|(.., until)| *until).min()
    }
}

/// The lease of an acknowledgement, a return or an extension.
pub(crate) fn receipt(call: &Call) -> Option<Key> {
    match call {
        Call::Ack { receipt } | Call::Nack { receipt, .. } | Call::Extend { receipt, .. } => Some(*receipt),
        _ => None,
    }
}
