//! Whether all routers write by the newest table.
//!
//! A write that concerns several servers is claimed, and a claim holds whatever table a request goes by. A write to the
//! only server that is to hold a key claims nothing, which keeps it cheap. By the next table that key may have more
//! copies, or be looked for in a second pool, and an unclaimed write by the old one could leave them different. So a
//! router on a new table neither writes to several servers nor brings values from one to another until all routers have
//! adopted it and are done with unclaimed writes by earlier ones: a turn of each thread and a round trip later.
//!
//! The reverse holds too. By the next table a key may have a single copy, and something that was decided for several by
//! an earlier one may still be on its way there. So writes to a single copy claim their keys as well until all that was
//! claimed by earlier tables is done. They need not wait, except for such a claim on their key.
//!
//! Each router publishes the oldest tables by which it may still write without a claim and hold one, and reads what the
//! others publish only until all have come to the newest. To count these writes where every thread sees it would cost
//! each of them as much as a claim.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use posthaste_measure::lock;

/// Published by a router that writes by no table.
const NO_TABLE: u64 = u64::MAX;

/// For each router of a fleet, the oldest tables by which it may write.
#[derive(Default)]
pub struct Handover(Mutex<Vec<Weak<Oldest>>>);

/// One router's part in the handovers, until it is dropped.
pub struct Participant(Arc<Oldest>);

/// The oldest tables by which a router may write.
struct Oldest {
    unclaimed: AtomicU64,
    claimed: AtomicU64,
}

impl Handover {
    /// Adds one more router, which writes by no table yet.
    #[must_use]
    pub fn join(&self) -> Participant {
        let none = || AtomicU64::new(NO_TABLE);
        let participant = Arc::new(Oldest { unclaimed: none(), claimed: none() });
        let mut all = self.all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&participant));
        Participant(participant)
    }

    /// Returns whether no router writes without a claim by a table before this one.
    #[must_use]
    pub fn is_complete(&self, generation: u64) -> bool {
        let is_past = |oldest: Arc<Oldest>| oldest.unclaimed.load(Ordering::SeqCst) >= generation;
        self.all().iter().filter_map(Weak::upgrade).all(is_past)
    }

    /// Returns whether no router holds a claim by a table before this one.
    #[must_use]
    pub fn are_claims_past(&self, generation: u64) -> bool {
        let is_past = |oldest: Arc<Oldest>| oldest.claimed.load(Ordering::SeqCst) >= generation;
        self.all().iter().filter_map(Weak::upgrade).all(is_past)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Oldest>>> {
        lock(&self.0)
    }
}

impl Participant {
    /// Publishes the oldest tables by which this router may write without a claim, and hold one; `None`: it does so by
    /// no table. The router must check afterwards whether there is a newer table, and adopt it: the thread that put it
    /// in force may have checked this router before.
    pub fn publish(&self, unclaimed: Option<u64>, claimed: Option<u64>) {
        self.0.unclaimed.store(unclaimed.unwrap_or(NO_TABLE), Ordering::SeqCst);
        self.0.claimed.store(claimed.unwrap_or(NO_TABLE), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_is_complete_when_all_routers_that_remain_have_adopted_the_table() {
        let handover = Handover::default();
        let (first, second, idle) = (handover.join(), handover.join(), handover.join());
        idle.publish(None, None);
        first.publish(Some(2), Some(1));
        second.publish(Some(1), Some(2));
        assert!(handover.is_complete(1) && !handover.is_complete(2));
        assert!(handover.are_claims_past(1) && !handover.are_claims_past(2));
        drop(second);
        assert!(handover.is_complete(2) && !handover.is_complete(3));
        assert!(!handover.are_claims_past(2));
        first.publish(Some(2), Some(2));
        assert!(handover.are_claims_past(2) && !handover.are_claims_past(3));
    }
}
