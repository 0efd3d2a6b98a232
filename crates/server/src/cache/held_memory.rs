//! How much memory all network threads hold for clients together.
//!
//! Each thread publishes what it holds once a turn. Only one that holds more than its part of the limit reads what the
//! others do: as long as none does, all together hold no more than they may. So while there is room, no thread waits for
//! memory that another one writes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The limit, and what each thread holds.
#[derive(Debug)]
pub struct HeldMemory {
    limit: usize,
    threads: Box<[Held]>,
}

/// Bytes that one thread holds, apart from those of others: two threads that write to one cache line wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Held(AtomicUsize);

impl HeldMemory {
    /// Creates the limit for so many threads, which may hold `limit` bytes together.
    #[must_use]
    pub fn new(limit: usize, threads: usize) -> Self {
        Self { limit, threads: (0..threads).map(|_| Held::default()).collect() }
    }

    /// Publishes how many bytes a thread holds. Returns whether it must free some: all together hold more than they may, and
    /// it more than its part.
    #[must_use]
    pub fn must_free(&self, thread: usize, held: usize) -> bool {
        self.threads[thread].0.store(held, Ordering::Relaxed);
        let all = || self.threads.iter().map(|held| held.0.load(Ordering::Relaxed)).sum::<usize>();
        held > self.limit / self.threads.len() && all() > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_use_what_others_leave_and_of_too_much_only_those_free_some_that_hold_most() {
        let memory = HeldMemory::new(100, 4);
        let must_free = |held: [usize; 4]| [0, 1, 2, 3].map(|thread| memory.must_free(thread, held[thread]));
        assert_eq!(must_free([100, 0, 0, 0]), [false; 4]);
        assert_eq!(must_free([25; 4]), [false; 4]);
        let held = [60, 30, 10, 1];
        let _ = must_free(held);
        assert_eq!(must_free(held), [true, true, false, false]);
        // A limit below the number of threads is a limit too.
        let small = HeldMemory::new(3, 4);
        assert!(!small.must_free(0, 3) && small.must_free(1, 1));
    }
}
