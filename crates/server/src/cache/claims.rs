//! Which thread may write a key now.
//!
//! Two writes of one key that reach two replicas in different orders leave them different for good. Writes that one thread
//! sends over its own connections arrive everywhere in the order in which it sent them. So a write that goes to several
//! servers first claims its key for its thread: other writes of the thread may join, those of other threads wait until the
//! last of them is answered. A write that one server decides before the others get it claims the key for itself alone.
//!
//! A thread that gives back a key for which another thread waits does not take it again at once: its next request is
//! ready before the other thread has heard of it, and would be every time. The other threads have a moment to take
//! it. If none does (the client that waited may have gone), it is free for all.
//!
//! Keys share claims by their hash, which costs a wait now and then and keeps the table small: 64 KiB, no locks.

use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::LATER_PATIENCE;

/// Claims in the table.
const PLACES: usize = 8192;

// The bits of a claim:
//
//     63       62      61                 60 … 48  47 … 32  31 … 0
//     WANTED   ALONE   WANTED_ELSEWHERE   SINCE    OWNER    COUNT

/// How many writes hold the claim; 0: it is free, or was given back to threads that wait.
const COUNT: u64 = 0xffff_ffff;
/// The thread that has the claim, or had it.
const OWNER: u64 = 0xffff << OWNER_SHIFT;
const OWNER_SHIFT: u32 = 32;
/// When the claim was given back to threads that wait, in milliseconds modulo 8192. So a later claim may happen to wait
/// a moment for nobody.
const SINCE: u64 = 0x1fff;
const SINCE_SHIFT: u32 = 48;
/// Another thread waits. In a claim that was given back: the thread that had it leaves it to the others for a moment.
const WANTED_ELSEWHERE: u64 = 1 << 61;
/// The claim was made with [`ClaimMode::Exclusive`].
const ALONE: u64 = 1 << 62;
/// A request waits, of whatever thread.
const WANTED: u64 = 1 << 63;

/// Whether a claim is shared among the writes of its thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Other writes of the same thread may join.
    Shared,
    /// No other write may join.
    Exclusive,
}

/// The table of claims, shared by all threads.
pub struct Claims(Vec<AtomicU64>);

/// A claim that is held.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim(usize);

impl Default for Claims {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Claims {
    /// Claims the key with this hash for a thread, at this time in nanoseconds. None: another has it, or other
    /// threads come first; the claim is noted as wanted and is to be tried again.
    #[must_use]
    pub fn claim(&self, hash: u64, thread: u16, mode: ClaimMode, now: u64) -> Option<Claim> {
        self.take(hash, thread, mode, now, WANTED)
    }

    /// Claims the key exclusively for a thread. None: it is not free, and the caller does not try again.
    #[must_use]
    pub fn claim_if_free(&self, hash: u64, thread: u16, now: u64) -> Option<Claim> {
        self.take(hash, thread, ClaimMode::Exclusive, now, 0)
    }

    /// Takes a claim if possible. `wanted`: what is noted of the request otherwise, [`WANTED`] or nothing.
    fn take(&self, hash: u64, thread: u16, mode: ClaimMode, now: u64, wanted: u64) -> Option<Claim> {
        let alone = mode == ClaimMode::Exclusive;
        let place = (hash as usize) % PLACES;
        let change = |state: u64| {
            let owner = u64::from(thread) << OWNER_SHIFT;
            let mine = owner | if alone { ALONE } else { 0 };
            let is_elsewhere = state & OWNER != owner;
            let elsewhere = if is_elsewhere && wanted != 0 { WANTED_ELSEWHERE } else { 0 };
            if state & COUNT > 0 {
                let may_join = state & (OWNER | ALONE | WANTED) == mine && !alone;
                return Some(if may_join { state + 1 } else { state | wanted | elsewhere });
            }
            let is_left = !is_elsewhere && leaves_to_others(state, now);
            if is_left && wanted != 0 {
                return Some(state | wanted);
            }
            // Other threads still wait for it, or the thread that left it to this one does.
            let is_wanted = is_left || is_elsewhere && state & WANTED != 0;
            Some(mine | if is_wanted { WANTED | WANTED_ELSEWHERE } else { 0 } | 1)
        };
        let before = self.0[place].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        let taken = change(before).is_some_and(|after| after & COUNT == (before & COUNT) + 1);
        taken.then_some(Claim(place))
    }

    /// Gives a claim back, at this time. Returns whether a request waits for it: then all threads must be told to try again.
    #[must_use]
    pub fn release(&self, claim: Claim, now: u64) -> bool {
        let change = |state: u64| {
            Some(match state & COUNT {
                1 if state & WANTED_ELSEWHERE != 0 => {
                    state & OWNER | WANTED_ELSEWHERE | (millis(now) & SINCE) << SINCE_SHIFT
                }
                1 => 0,
                _ => state - 1,
            })
        };
        let before = self.0[claim.0].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        before & COUNT == 1 && before & WANTED != 0
    }
}

/// Returns whether the thread that had a key, of which `state` is left, leaves it to the others now.
fn leaves_to_others(state: u64, now: u64) -> bool {
    let since = millis(now).wrapping_sub(state >> SINCE_SHIFT) & SINCE;
    state & WANTED_ELSEWHERE != 0 && u128::from(since) < LATER_PATIENCE.as_millis()
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
    fn who_waits_is_not_passed_by_those_who_could_join() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, Shared, 0).unwrap();
        assert_eq!(claims.claim(7, 2, Shared, 0), None);
        assert_eq!(claims.claim(7, 1, Shared, 0), None, "the line is closed");
        assert!(claims.release(first, 0));
    }

    #[test]
    fn who_claims_alone_keeps_out_even_its_own_thread() {
        let claims = Claims::default();
        let alone = claims.claim(7, 1, Exclusive, 0).unwrap();
        assert_eq!(claims.claim(7, 1, Shared, 0), None);
        assert!(claims.release(alone, 0));
        let joined = claims.claim(7, 1, Shared, 0).unwrap();
        assert_eq!(claims.claim(7, 1, Exclusive, 0), None);
        assert!(claims.release(joined, 0));
    }

    #[test]
    fn who_gives_back_what_another_thread_wants_leaves_it_to_that_one() {
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
    fn what_nobody_takes_who_wanted_it_is_free_after_a_moment() {
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
            for who in 1..=4_u16 {
                let (claims, holder, held) = (&claims, &holder, &held);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Some(claim) =
                            claims.claim(3, who, if who == 4 { Exclusive } else { Shared }, 0)
                        {
                            assert_eq!(holder.swap(u64::from(who), Ordering::SeqCst), 0);
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
