//! Limits the rate of requests: so many in a second, and so many at once after a pause.
//!
//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling): all that is remembered is when the next request
//! would arrive if those admitted so far came at exactly the limited rate.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::RateLimit;

const NS_PER_S: u64 = 1_000_000_000;

/// Most requests in a second that a limit can have: beyond it the interval would hardly be a whole number of nanoseconds.
pub const PER_SECOND_MAX: u32 = 1_000_000;

/// A limit, and the requests counted against it.
#[derive(Debug)]
pub struct RateLimiter {
    /// The limit as configured.
    pub limit: RateLimit,
    /// When the next request would arrive at exactly the limited rate, in nanoseconds.
    theoretical_arrival: AtomicU64,
}

impl RateLimiter {
    /// Creates a limiter that has admitted nothing yet.
    #[must_use]
    pub fn new(limit: RateLimit) -> Self {
        Self { limit, theoretical_arrival: AtomicU64::new(0) }
    }

    /// Returns whether no request is admitted now, in nanoseconds of any monotonic clock.
    #[must_use]
    pub fn is_exhausted(&self, now: u64) -> bool {
        let ahead = self.theoretical_arrival.load(Ordering::Relaxed).saturating_sub(now);
        ahead > self.interval_ns().saturating_mul(u64::from(self.limit.burst.max(1)) - 1)
    }

    /// Returns whether the full burst is admitted now, as by a new limiter.
    #[must_use]
    pub fn is_unused(&self, now: u64) -> bool {
        self.theoretical_arrival.load(Ordering::Relaxed) <= now
    }

    /// Counts requests against the limit, even more than it admits: later ones wait for the excess too.
    pub fn count(&self, requests: u64, now: u64) {
        let delayed =
            |arrival: u64| Some(arrival.max(now).saturating_add(self.interval_ns().saturating_mul(requests)));
        let _ = self.theoretical_arrival.fetch_update(Ordering::Relaxed, Ordering::Relaxed, delayed);
    }

    /// Returns the time between two requests at exactly the limited rate.
    fn interval_ns(&self) -> u64 {
        NS_PER_S / u64::from(self.limit.per_second.clamp(1, PER_SECOND_MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many requests at these times are admitted.
    fn admitted(limiter: &RateLimiter, times: impl IntoIterator<Item = u64>) -> u64 {
        let admit = |now: &u64| {
            let may = !limiter.is_exhausted(*now);
            may.then(|| limiter.count(1, *now));
            may
        };
        times.into_iter().filter(admit).count() as u64
    }

    #[test]
    fn a_burst_is_admitted_at_once_and_the_rate_after_it() {
        let limiter = RateLimiter::new(RateLimit { per_second: 100, burst: 5 });
        assert_eq!(admitted(&limiter, [NS_PER_S; 20]), 5);
        let every_ms = (0..1000).map(|ms| NS_PER_S + ms * 1_000_000);
        assert_eq!(admitted(&limiter, every_ms), 99, "one for each 10 ms that went by");
        assert_eq!(admitted(&limiter, [9 * NS_PER_S; 20]), 5, "a pause gives the burst back and no more");
    }

    #[test]
    fn what_is_counted_beyond_the_limit_delays_what_follows() {
        let limiter = RateLimiter::new(RateLimit { per_second: 10, burst: 10 });
        limiter.count(30, 0);
        assert!(limiter.is_exhausted(2_099_999_999));
        assert!(!limiter.is_exhausted(2_100_000_000));
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_a_burst(
            per_second in 1..=PER_SECOND_MAX,
            burst in 1..1000_u32,
            pauses in prop::collection::vec(0..NS_PER_S / 10, 1..200),
        ) {
            let limiter = RateLimiter::new(RateLimit { per_second, burst });
            let mut now = 0;
            let times: Vec<u64> = pauses.into_iter().map(|pause| { now += pause; now }).collect();
            let most = u64::from(burst) + now / (NS_PER_S / u64::from(per_second));
            prop_assert!(admitted(&limiter, times) <= most);
        }
    }
}
