//! A message handed to a client, and what became of the lease.

use std::collections::HashMap;

use crate::body::Key;
use crate::operation::{Answer, Call, Delivery, Outcome};
use crate::story::Op;
use crate::{NEVER, Time, millis};

/// Servers count leases in whole milliseconds.
const ROUNDED: Time = millis(2);

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
    pub(crate) free_from: Time,
    /// If nobody did anything it had ended by this.
    pub(crate) over_by: Time,
    /// The acknowledgement that counted, of the story's operations.
    pub(crate) won: Option<usize>,
    /// Acknowledgements that counted.
    pub(crate) wins: u32,
    /// When an acknowledgement began of which nobody knows whether it counted.
    pub(crate) maybe_won: Time,
}

impl Handed<'_> {
    /// The operation by which the message went for good, if it did.
    pub(crate) fn taken_by(&self) -> Option<usize> {
        self.lease.map_or(Some(self.op), |lease| lease.won)
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
        let free_from = op.begin.saturating_add(millis(ms)).saturating_sub(ROUNDED);
        Self { free_from, over_by: op.end.saturating_add(millis(ms)), won: None, wins: 0, maybe_won: NEVER }
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
pub(crate) fn follow_leases(ops: &[Op<'_>], handed: &mut [Handed<'_>]) -> HashMap<Key, usize> {
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
        let counted = matches!(op.outcome, Outcome::Ok(Answer::Number(1..)));
        if !counted && *op.outcome != Outcome::Info {
            continue;
        }
        match op.call {
            Call::Ack { .. } if counted => {
                lease.won = Some(number);
                lease.wins += 1;
            }
            Call::Ack { .. } => lease.maybe_won = lease.maybe_won.min(op.begin),
            Call::Extend { ms, .. } => {
                lease.over_by = lease.over_by.max(op.end.saturating_add(millis(*ms)));
                courses.entry(i).or_default().extend(op, millis(*ms), counted);
            }
            _ => courses.entry(i).or_default().give_up(op.begin),
        }
    }
    for (i, course) in courses {
        if let Some(lease) = &mut handed[i].lease {
            lease.free_from = course.free_from(lease.free_from);
        }
    }
    by_receipt
}

/// What was done with a lease, but for its acknowledgement.
#[derive(Default)]
struct Course {
    /// Begin, end, and until when the lease then lasted at least.
    extensions: Vec<(Time, Time, Time)>,
    /// From here on it may have been given up, or shortened.
    given_up: Option<Time>,
}

impl Course {
    fn extend(&mut self, op: &Op<'_>, by: Time, counted: bool) {
        let until = op.begin.saturating_add(by).saturating_sub(ROUNDED);
        if counted {
            self.extensions.push((op.begin, op.end, until));
        } else {
            self.give_up(until);
        }
    }

    fn give_up(&mut self, at: Time) {
        self.given_up = Some(self.given_up.map_or(at, |given_up| given_up.min(at)));
    }

    /// The last extension that counted says when the lease ended, for it held until then; of those that overlap any may
    /// be the last.
    fn free_from(&self, granted: Time) -> Time {
        let last_begin = self.extensions.iter().map(|(begin, ..)| *begin).max();
        let may_be_last = |(_, end, _): &&(Time, Time, Time)| last_begin.is_some_and(|begin| *end >= begin);
        let last = self.extensions.iter().filter(may_be_last).map(|(.., until)| *until).min();
        last.unwrap_or(granted).min(self.given_up.unwrap_or(NEVER))
    }
}

/// The lease of an acknowledgement, a return or an extension.
pub(crate) fn receipt(call: &Call) -> Option<Key> {
    match call {
        Call::Ack { receipt } | Call::Nack { receipt, .. } | Call::Extend { receipt, .. } => Some(*receipt),
        _ => None,
    }
}
