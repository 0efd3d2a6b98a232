//! Who may write a key now.
//!
//! Two writes of one key that reach two replicas in different orders leave them different for good. Writes that one
//! thread sends over its own connections arrive everywhere in the order in which it sent them. So a write that goes
//! to several servers first claims its key for its thread: others of the thread may join, those of other threads
//! wait until the last of them is answered. A write that is decided by one server before the others hear of it
//! claims the key for itself alone.
//!
//! Keys share claims by their hash, which costs a wait now and then and keeps the table small: 64 KiB, no locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Claims in the table.
const PLACES: usize = 8192;

const COUNT: u64 = 0xffff_ffff;
const OWNER_SHIFT: u32 = 32;
const OWNER: u64 = 0xffff << OWNER_SHIFT;
const ALONE: u64 = 1 << 62;
const WANTED: u64 = 1 << 63;

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
    /// Claims the key with this hash for the thread `who`. None: somebody else has it; who releases it will be told
    /// that it is wanted.
    #[must_use]
    pub fn claim(&self, hash: u64, who: u16, alone: bool) -> Option<Claim> {
        let place = (hash as usize) % PLACES;
        let change = |state: u64| {
            let mine = (u64::from(who) << OWNER_SHIFT) | if alone { ALONE } else { 0 };
            if state & COUNT == 0 {
                return Some(mine | 1);
            }
            let may_join = state & (OWNER | ALONE | WANTED) == mine && !alone;
            Some(if may_join { state + 1 } else { state | WANTED })
        };
        let before = self.0[place].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        let taken = change(before).is_some_and(|after| after & COUNT == (before & COUNT) + 1);
        taken.then_some(Claim(place))
    }

    /// Gives a claim back. True: somebody wants it, and all threads must be told to try again.
    #[must_use]
    pub fn release(&self, claim: Claim) -> bool {
        let change = |state: u64| Some(if state & COUNT == 1 { 0 } else { state - 1 });
        let before = self.0[claim.0].fetch_update(Ordering::AcqRel, Ordering::Acquire, change).unwrap_or(0);
        before & COUNT == 1 && before & WANTED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_joins_itself_and_keeps_others_out() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, false).unwrap();
        let second = claims.claim(7, 1, false).unwrap();
        assert_eq!(claims.claim(7, 2, false), None);
        assert!(!claims.release(first), "one is left");
        assert!(claims.release(second), "thread 2 wants it");
        assert!(claims.claim(7, 2, false).is_some());
    }

    #[test]
    fn who_waits_is_not_passed_by_those_who_could_join() {
        let claims = Claims::default();
        let first = claims.claim(7, 1, false).unwrap();
        assert_eq!(claims.claim(7, 2, false), None);
        assert_eq!(claims.claim(7, 1, false), None, "the line is closed");
        assert!(claims.release(first));
    }

    #[test]
    fn who_claims_alone_keeps_out_even_its_own_thread() {
        let claims = Claims::default();
        let alone = claims.claim(7, 1, true).unwrap();
        assert_eq!(claims.claim(7, 1, false), None);
        assert!(claims.release(alone));
        let joined = claims.claim(7, 1, false).unwrap();
        assert_eq!(claims.claim(7, 1, true), None);
        assert!(claims.release(joined));
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
                        if let Some(claim) = claims.claim(3, who, who == 4) {
                            assert_eq!(holder.swap(u64::from(who), Ordering::SeqCst), 0);
                            held.fetch_add(1, Ordering::Relaxed);
                            holder.store(0, Ordering::SeqCst);
                            let _ = claims.release(claim);
                        }
                    }
                });
            }
        });
        assert!(held.load(Ordering::Relaxed) > 0);
        assert!(claims.claim(3, 9, true).is_some(), "all were given back");
    }
}
