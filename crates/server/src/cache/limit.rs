//! A limit of requests: a number in a second, and a number at once after a pause.
//!
//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling): all that is remembered is when the requests taken so
//! far would be done, one after the other at the limit's pace.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::LimitPlan;

const NS_PER_S: u64 = 1_000_000_000;

/// Most requests in a second that a limit can have: beyond it the pace would hardly be a whole number of nanoseconds.
pub const PER_SECOND_MAX: u32 = 1_000_000;

/// A limit and what was taken of it.
#[derive(Debug)]
pub struct Limit {
    /// The limit as configured.
    pub plan: LimitPlan,
    done_at: AtomicU64,
}

impl Limit {
    /// A limit of which nothing is taken yet.
    #[must_use]
    pub fn new(plan: LimitPlan) -> Self {
        Self { plan, done_at: AtomicU64::new(0) }
    }

    /// Returns whether no more may be taken now, in nanoseconds of any monotonic clock.
    #[must_use]
    pub fn is_exhausted(&self, now: u64) -> bool {
        let ahead = self.done_at.load(Ordering::Relaxed).saturating_sub(now);
        ahead > self.pace_ns().saturating_mul(u64::from(self.plan.burst.max(1)) - 1)
    }

    /// Returns whether nothing is taken of the limit now.
    #[must_use]
    pub fn is_whole(&self, now: u64) -> bool {
        self.done_at.load(Ordering::Relaxed) <= now
    }

    /// Takes requests, even more than are left: the excess is missing afterwards.
    pub fn take(&self, requests: u64, now: u64) {
        let took =
            |done_at: u64| Some(done_at.max(now).saturating_add(self.pace_ns().saturating_mul(requests)));
        let _ = self.done_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, took);
    }

    fn pace_ns(&self) -> u64 {
        NS_PER_S / u64::from(self.plan.per_second.clamp(1, PER_SECOND_MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many requests at these times are taken.
    fn taken(limit: &Limit, times: impl IntoIterator<Item = u64>) -> u64 {
        let asks = |now: &u64| {
            let may = !limit.is_exhausted(*now);
            may.then(|| limit.take(1, *now));
            may
        };
        times.into_iter().filter(asks).count() as u64
    }

    #[test]
    fn a_burst_is_taken_at_once_and_the_pace_after_it() {
        let limit = Limit::new(LimitPlan { per_second: 100, burst: 5 });
        assert_eq!(taken(&limit, [NS_PER_S; 20]), 5);
        let every_ms = (0..1000).map(|ms| NS_PER_S + ms * 1_000_000);
        assert_eq!(taken(&limit, every_ms), 99, "one for each 10 ms that went by");
        assert_eq!(taken(&limit, [9 * NS_PER_S; 20]), 5, "a pause gives the burst back and no more");
    }

    #[test]
    fn what_is_taken_beyond_the_limit_is_missing_afterwards() {
        let limit = Limit::new(LimitPlan { per_second: 10, burst: 10 });
        limit.take(30, 0);
        assert!(limit.is_exhausted(2_099_999_999));
        assert!(!limit.is_exhausted(2_100_000_000));
    }

    proptest! {
        #[test]
        fn never_more_than_the_pace_and_a_burst(
            per_second in 1..=PER_SECOND_MAX,
            burst in 1..1000_u32,
            pauses in prop::collection::vec(0..NS_PER_S / 10, 1..200),
        ) {
            let limit = Limit::new(LimitPlan { per_second, burst });
            let mut now = 0;
            let times: Vec<u64> = pauses.into_iter().map(|pause| { now += pause; now }).collect();
            let most = u64::from(burst) + now / (NS_PER_S / u64::from(per_second));
            prop_assert!(taken(&limit, times) <= most);
        }
    }
}
