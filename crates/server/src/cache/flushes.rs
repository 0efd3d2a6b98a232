//! Flushes under way, for the writes beside them.
//!
//! A `flush_all` claims no key. So it may come before a write of another thread on one replica and after it on the
//! next, and then only one of them has the value. So before a thread releases a claim, it checks whether a flush was
//! under way since then. If so the key is deleted on all servers that hold it, and the write counts as one from before
//! the flush.
//!
//! A thread's own flushes and writes reach every server in one order, except for writes that one server decides before
//! the others get them. So a thread's own flushes are counted apart: what a client writes behind its flush stays.

use std::sync::atomic::{AtomicU64, Ordering};

use super::claims::ClaimMode;

/// The flushes of all threads of a fleet.
#[derive(Debug, Default)]
pub struct Flushes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// The flushes of one thread.
#[derive(Debug, Default)]
pub struct OwnFlushes {
    begun: u64,
    ended: u64,
}

/// The state of the counters when a key was claimed.
#[derive(Debug, PartialEq, Eq)]
pub struct Mark {
    /// How many flushes other threads had begun. None: not all of those had ended.
    others: Option<u64>,
    /// How many the thread itself had begun, if the claim is for a write whose order with them differs between servers.
    own: Option<u64>,
}

impl Flushes {
    /// Notes that a thread begins a flush: to be called before anything of it is sent.
    pub fn begin(&self, own: &mut OwnFlushes) {
        own.begun += 1;
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that all servers have answered a thread's flush, or never will.
    pub fn end(&self, own: &mut OwnFlushes) {
        own.ended += 1;
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks the present state for a thread that claims a key in this mode.
    #[must_use]
    pub fn mark(&self, own: &OwnFlushes, mode: ClaimMode) -> Mark {
        // In this order: a flush that begins meanwhile counts as not ended.
        let ended = self.ended.load(Ordering::SeqCst) - own.ended;
        let begun = self.begun(own);
        Mark {
            others: (begun == ended).then_some(begun),
            own: (mode == ClaimMode::Exclusive).then_some(own.begun),
        }
    }

    /// Returns whether a flush was under way since then that may have come before the write on one server and after
    /// it on the next.
    #[must_use]
    pub fn was_any_under_way(&self, own: &OwnFlushes, since: &Mark) -> bool {
        since.others != Some(self.begun(own)) || since.own.is_some_and(|begun| begun != own.begun)
    }

    /// How many flushes other threads have begun.
    fn begun(&self, own: &OwnFlushes) -> u64 {
        self.begun.load(Ordering::SeqCst) - own.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_another_thread_is_beside_what_begins_before_its_end_and_ends_after_its_beginning() {
        let (flushes, mut mine, mut others) = <(Flushes, OwnFlushes, OwnFlushes)>::default();
        for mode in [ClaimMode::Shared, ClaimMode::Exclusive] {
            let before = flushes.mark(&mine, mode);
            assert!(!flushes.was_any_under_way(&mine, &before));
            flushes.begin(&mut others);
            let meanwhile = flushes.mark(&mine, mode);
            assert!(
                flushes.was_any_under_way(&mine, &before) && flushes.was_any_under_way(&mine, &meanwhile)
            );
            flushes.end(&mut others);
            let after = flushes.mark(&mine, mode);
            assert!(
                flushes.was_any_under_way(&mine, &before) && flushes.was_any_under_way(&mine, &meanwhile)
            );
            assert!(!flushes.was_any_under_way(&mine, &after));
            // The order of the thread's own flushes and writes is known.
            flushes.begin(&mut mine);
            let behind = flushes.mark(&mine, mode);
            assert_eq!(flushes.was_any_under_way(&mine, &after), mode == ClaimMode::Exclusive);
            assert!(!flushes.was_any_under_way(&mine, &behind));
            flushes.end(&mut mine);
            assert!(!flushes.was_any_under_way(&mine, &behind));
        }
    }
}
