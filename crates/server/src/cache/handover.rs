//! Whether all routers write by the newest table.
//!
//! A write that concerns several servers is claimed, and a claim holds whatever table a request goes by. A write to the only
//! server that is to hold a key claims nothing, which keeps it cheap. By the next table that key may have more copies, or be
//! looked for in a second pool, and an unclaimed write by the old one could leave them different. So a router on a new table
//! neither writes to several servers nor brings values from one to another until all routers have come to it and are done
//! with unclaimed writes by earlier ones: a turn of each thread and a round trip later.
//!
//! Each router publishes the oldest table by which it may still write so, and looks at what the others publish only until
//! all have come. To count these writes where every thread sees it would cost each of them as much as a claim.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use posthaste_measure::lock;

/// What a router publishes that may write without a claim by no table now.
const NONE: u64 = u64::MAX;

/// The oldest table of each router of a fleet by which that may write without a claim.
#[derive(Default)]
pub struct Handover(Mutex<Vec<Weak<AtomicU64>>>);

/// One router's part in the handover: it counts until this is dropped.
pub struct Participant(Arc<AtomicU64>);

impl Handover {
    /// Adds one more router, which writes by no table yet.
    #[must_use]
    pub fn join(&self) -> Participant {
        let participant = Arc::new(AtomicU64::new(NONE));
        let mut all = self.all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&participant));
        Participant(participant)
    }

    /// Returns whether all routers have come to the table of this number, or to a later one.
    #[must_use]
    pub fn is_done(&self, table: u64) -> bool {
        let has_come = |participant: Arc<AtomicU64>| participant.load(Ordering::SeqCst) >= table;
        self.all().iter().filter_map(Weak::upgrade).all(has_come)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<AtomicU64>>> {
        lock(&self.0)
    }
}

impl Participant {
    /// Publishes which is the oldest table by which this router may write without a claim; None: it does not by any.
    /// Having published it, the router must look whether there is a newer table, and then go by that: the thread that put
    /// it in force may have looked before.
    pub fn publish(&self, oldest: Option<u64>) {
        self.0.store(oldest.unwrap_or(NONE), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_alone_when_all_have_come_to_it_that_are_there() {
        let handover = Handover::default();
        let (one, other, idle) = (handover.join(), handover.join(), handover.join());
        idle.publish(None);
        one.publish(Some(2));
        other.publish(Some(1));
        assert!(handover.is_done(1) && !handover.is_done(2));
        drop(other);
        assert!(handover.is_done(2) && !handover.is_done(3));
    }
}
