//! Writes without a claim whose clients were answered before the server was: it may still carry them out.
//!
//! A key of which there is one copy is written without a claim: its commands reach the server in some order, and while
//! their clients wait, any order is right. It is no longer right once a client was told that there is no answer in time
//! and goes on: a late write could undo what was written and answered after it. So the key of such a write is noted, and
//! until the server has answered, or its connection is lost, no other thread writes the key. What the same thread writes
//! goes behind it over the same connection.
//!
//! Keys share their places here by their hash: now and then a write waits in vain. The table takes 64 KiB and no locks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of places in the table.
const SLOTS: usize = 8192;

/// How many late writes a place has.
const COUNT: u64 = 0xffff_ffff;
/// The thread whose writes they are, above the count.
const OWNER_SHIFT: u32 = 32;
/// Stands for the owner of late writes of several threads.
const SEVERAL: u64 = 1 << 16;

/// The late writes of all threads.
pub struct LateWrites {
    /// How many there are: mostly none, and then nobody looks further.
    under_way: AtomicUsize,
    places: Vec<AtomicU64>,
}

/// The place of a late write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateWrite(usize);

impl Default for LateWrites {
    fn default() -> Self {
        Self { under_way: AtomicUsize::new(0), places: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl LateWrites {
    /// Notes a late write of a key with this hash, by a thread. It counts until [`LateWrites::end`].
    #[must_use]
    pub fn begin(&self, hash: u64, thread: u16) -> LateWrite {
        let place = hash as usize % SLOTS;
        let own = u64::from(thread) << OWNER_SHIFT;
        self.change(place, |state| match state & COUNT {
            0 => own | 1,
            count if state & !COUNT == own => own | (count + 1),
            count => SEVERAL << OWNER_SHIFT | (count + 1),
        });
        self.under_way.fetch_add(1, Ordering::Release);
        LateWrite(place)
    }

    /// Notes that a late write was carried out, or never will be.
    pub fn end(&self, LateWrite(place): LateWrite) {
        self.change(place, |state| if state & COUNT == 1 { 0 } else { state - 1 });
        self.under_way.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether there is any late write.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    /// Returns whether a key with this hash may have a late write of another thread than this one.
    #[must_use]
    pub fn concern(&self, hash: u64, thread: u16) -> bool {
        let state = self.places[hash as usize % SLOTS].load(Ordering::Acquire);
        state & COUNT > 0 && state >> OWNER_SHIFT != u64::from(thread)
    }

    fn change(&self, place: usize, change: impl Fn(u64) -> u64) {
        // It never refuses.
        let _ =
            self.places[place].fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(change(state)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_write_concerns_all_threads_but_its_own_until_it_ends() {
        let late = LateWrites::default();
        assert!(!late.are_any() && !late.concern(7, 1));
        let first = late.begin(7, 0);
        let second = late.begin(7, 0);
        assert!(late.are_any());
        assert_eq!([0, 1].map(|thread| late.concern(7, thread)), [false, true]);
        assert!(!late.concern(8, 1), "another key");
        let others = late.begin(7, 1);
        assert_eq!([0, 1].map(|thread| late.concern(7, thread)), [true, true]);
        [first, others].into_iter().for_each(|one| late.end(one));
        assert_eq!([0, 1].map(|thread| late.concern(7, thread)), [true, true], "nobody knows whose is left");
        late.end(second);
        assert_eq!([0, 1].map(|thread| late.concern(7, thread)), [false, false]);
        assert!(!late.are_any());
    }
}
