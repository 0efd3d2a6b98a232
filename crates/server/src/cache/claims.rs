//! Which thread may write a key now.
//!
//! Two writes of one key that reach two replicas in different orders leave them different for good. Writes that one
//! thread sends over its own connections arrive everywhere in the order in which it sent them. So a write that goes to
//! several servers first claims its key for its thread: other writes of the thread may join, those of other threads
//! wait until the last of them is answered. A write that one server decides before the others get it claims the key for
//! itself alone.
//!
//! A claim that is released while another thread waits for it is reserved for the other threads for a moment: otherwise
//! the thread that released it would claim it again each time, since its next request is ready before the others have
//! been told. If none claims it in that time (the client that waited may have left), it is free for all.
//!
//! Keys share claims by their hash, which costs a wait now and then and keeps the table small: 64 KiB, no locks.

use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::RETRY_EVERY;

/// Number of claims in the table.
const SLOTS: usize = 8192;

// The bits of a claim:
//
//     63       62          61                 60 … 48    47 … 32  31 … 0
//     WANTED   EXCLUSIVE   WANTED_BY_OTHERS   RELEASED   OWNER    COUNT

/// How many writes hold the claim; 0: it is free, or reserved for threads that wait.
const COUNT: u64 = 0xffff_ffff;
/// The thread that holds the claim, or held it last.
const OWNER: u64 = 0xffff << OWNER_SHIFT;
const OWNER_SHIFT: u32 = 32;
/// When the claim was released and reserved for threads that wait, in milliseconds modulo 8192: rarely, a much later
/// request finds it reserved once more and waits a moment in vain.
const RELEASED: u64 = 0x1fff;
const RELEASED_SHIFT: u32 = 48;
/// A request of another thread than the owner waits. In a released claim: it is reserved for the others for a moment.
const WANTED_BY_OTHERS: u64 = 1 << 61;
/// The claim was made with [`ClaimMode::Exclusive`].
const EXCLUSIVE: u64 = 1 << 62;
/// A request waits, of any thread.
const WANTED: u64 = 1 << 63;

/// Whether a claim is shared among the writes of its thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Other writes of the same thread may join: for writes that are sent to all copies at once.
    Shared,
    /// No other write may join: for writes that one server decides before the others get them.
    Exclusive,
}

/// The table of claims, shared by all threads.
pub struct Claims(Vec<AtomicU64>);

/// A claim that is held.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim {
    slot: usize,
}

/// Whether a request that cannot claim its key is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// It waits: the claim is noted as wanted.
    Later,
    /// It does without.
    Never,
}

impl Default for Claims {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Claims {
    /// Claims the key with this hash for a thread, at this time in nanoseconds. `None`: it is held, or reserved for other
    /// threads; the claim is noted as wanted, and the caller must try again.
    #[must_use]
    pub fn claim(&self, hash: u64, thread: u16, mode: ClaimMode, now: u64) -> Option<Claim> {
        self.try_claim(hash, thread, mode, now, Retry::Later)
    }

    /// Claims the key exclusively for a thread. `None`: it is held; the caller does not try again.
    #[must_use]
    pub fn claim_if_free(&self, hash: u64, thread: u16, now: u64) -> Option<Claim> {
        self.try_claim(hash, thread, ClaimMode::Exclusive, now, Retry::Never)
    }

    fn try_claim(&self, hash: u64, thread: u16, mode: ClaimMode, now: u64, retry: Retry) -> Option<Claim> {
        let slot = (hash as usize) % SLOTS;
        let owner = u64::from(thread) << OWNER_SHIFT;
        let exclusive = if mode == ClaimMode::Exclusive { EXCLUSIVE } else { 0 };
        let change = |state: u64| {
            let is_own = state & OWNER == owner;
            let wanted = match retry {
                Retry::Never => 0,
                Retry::Later if is_own => WANTED,
                Retry::Later => WANTED | WANTED_BY_OTHERS,
            };
            if state & COUNT > 0 {
                let may_join = mode == ClaimMode::Shared && state & (OWNER | EXCLUSIVE | WANTED) == owner;
                return Some(if may_join { state + 1 } else { state | wanted });
            }
            let is_reserved = is_own && is_reserved_for_others(state, now);
            if is_reserved && retry == Retry::Later {
                return Some(state | wanted);
            }
            // Requests that are still waiting must be told when this claim is released too.
            let is_wanted = is_reserved || !is_own && state & WANTED != 0;
            Some(owner | exclusive | if is_wanted { WANTED | WANTED_BY_OTHERS } else { 0 } | 1)
        };
        let before = self.0[slot].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        let is_claimed = change(before).is_some_and(|after| after & COUNT == (before & COUNT) + 1);
        is_claimed.then_some(Claim { slot })
    }

    /// Returns the same claim for another part of the request that holds it. It is released when all parts have
    /// released theirs.
    #[must_use]
    pub fn share(&self, Claim { slot }: &Claim) -> Claim {
        self.0[*slot].fetch_add(1, Ordering::AcqRel);
        Claim { slot: *slot }
    }

    /// Releases a claim, at this time. Returns whether a request waits for it: then all threads must be told to try
    /// again.
    #[must_use]
    pub fn release(&self, claim: Claim, now: u64) -> bool {
        let change = |state: u64| {
            Some(match state & COUNT {
                1 if state & WANTED_BY_OTHERS != 0 => {
                    state & OWNER | WANTED_BY_OTHERS | (millis(now) & RELEASED) << RELEASED_SHIFT
                }
                1 => 0,
                _ => state - 1,
            })
        };
        let before =
            self.0[claim.slot].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        before & COUNT == 1 && before & WANTED != 0
    }
}

/// Returns whether a released claim is still reserved for other threads than the one that held it.
fn is_reserved_for_others(state: u64, now: u64) -> bool {
    let since_ms = millis(now).wrapping_sub(state >> RELEASED_SHIFT) & RELEASED;
    state & WANTED_BY_OTHERS != 0 && u128::from(since_ms) < RETRY_EVERY.as_millis()
}

fn millis(ns: u64) -> u64 {
    ns / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::ClaimMode::{Exclusive, Shared};
    use super::*;

    #[test]
    fn a_thread_joins_itself_and_keeps_others_out() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, Shared, 0).unwrap();
        let second = claims.claim(7, 1, Shared, 0).unwrap();
        assert_eq!(claims.claim(7, 2, Shared, 0), None);
        assert!(!claims.release(first, 0), "one is left");
        assert!(claims.release(second, 0), "thread 2 wants it");
        assert!(claims.claim(7, 2, Shared, 0).is_some());
    }

    #[test]
    fn a_request_that_waits_is_not_overtaken_by_those_that_could_join() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, Shared, 0).unwrap();
        assert_eq!(claims.claim(7, 2, Shared, 0), None);
        assert_eq!(claims.claim(7, 1, Shared, 0), None, "the line is closed");
        assert!(claims.release(first, 0));
    }

    #[test]
    fn an_exclusive_claim_keeps_out_even_its_own_thread() {
        let claims = Claims::default();
        let alone = claims.claim(7, 1, Exclusive, 0).unwrap();
        assert_eq!(claims.claim(7, 1, Shared, 0), None);
        assert!(claims.release(alone, 0));
        let joined = claims.claim(7, 1, Shared, 0).unwrap();
        assert_eq!(claims.claim(7, 1, Exclusive, 0), None);
        assert!(claims.release(joined, 0));
    }

    #[test]
    fn a_claim_that_was_shared_is_held_until_both_parts_are_released() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, Exclusive, 0).unwrap();
        let second = claims.share(&first);
        assert_eq!(claims.claim(7, 2, Shared, 0), None);
        assert!(!claims.release(first, 0));
        assert_eq!(claims.claim_if_free(7, 2, 0), None);
        assert!(claims.release(second, 0), "thread 2 wants it");
        assert!(claims.claim(7, 2, Shared, 0).is_some());
    }

    #[test]
    fn a_released_claim_is_reserved_for_the_thread_that_waits() {
        let (claims, ms) = (Claims::default(), 1_000_000);
        let first = claims.claim(7, 1, Exclusive, 0).unwrap();
        assert_eq!(claims.claim(7, 2, Exclusive, 0), None);
        assert!(claims.release(first, ms));
        assert_eq!(claims.claim(7, 1, Exclusive, 2 * ms), None, "thread 2 has not heard of it yet");
        let passing = claims.claim_if_free(7, 1, 2 * ms).unwrap();
        assert!(claims.release(passing, 2 * ms), "thread 2 waits still");
        assert_eq!(claims.claim(7, 1, Exclusive, 2 * ms), None);
        let second = claims.claim(7, 2, Exclusive, 2 * ms).unwrap();
        assert!(claims.release(second, 3 * ms), "thread 1 waits since");
        assert_eq!(claims.claim(7, 2, Exclusive, 3 * ms), None);
        let third = claims.claim(7, 1, Exclusive, 3 * ms).unwrap();
        assert!(claims.release(third, 3 * ms), "thread 2 waits since");
    }

    #[test]
    fn a_reserved_claim_that_nobody_makes_is_free_after_a_moment() {
        let (claims, ms) = (Claims::default(), 1_000_000);
        let first = claims.claim(7, 1, Shared, 8190 * ms).unwrap();
        assert_eq!(claims.claim(7, 2, Exclusive, 0), None);
        assert!(claims.release(first, 8190 * ms));
        assert_eq!(claims.claim(7, 1, Shared, 8194 * ms), None);
        let again = claims.claim(7, 1, Shared, 8195 * ms).unwrap();
        assert!(!claims.release(again, 8195 * ms));
        // No other thread waits here: one request waits on the thread that has the claim, one does not wait.
        let alone = claims.claim(7, 1, Exclusive, 0).unwrap();
        assert_eq!((claims.claim(7, 1, Exclusive, 0), claims.claim_if_free(7, 2, 0)), (None, None));
        assert!(claims.release(alone, 0));
        assert!(claims.claim_if_free(7, 1, 0).is_some());
    }

    #[test]
    fn many_threads_never_hold_one_claim_together() {
        let claims = Claims::default();
        let (holder, held) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 1..=4_u16 {
                let (claims, holder, held) = (&claims, &holder, &held);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Some(claim) =
                            claims.claim(3, thread, if thread == 4 { Exclusive } else { Shared }, 0)
                        {
                            assert_eq!(holder.swap(u64::from(thread), Ordering::SeqCst), 0);
                            held.fetch_add(1, Ordering::Relaxed);
                            holder.store(0, Ordering::SeqCst);
                            let _ = claims.release(claim, 0);
                        }
                    }
                });
            }
        });
        assert!(held.load(Ordering::Relaxed) > 0);
        assert!(claims.claim(3, 9, Exclusive, 0).is_some(), "all were given back");
    }
}
