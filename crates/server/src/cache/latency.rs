//! How long a server's replies or a route's answers take: counts in buckets that all threads add to.
//!
//! The stages of requests are measured by kind, which does not show the slow one of ten servers. So each reply is
//! counted once more, by its server, from its command's place in the lane to its last byte; and each answer by its
//! route, from when its request was read. That costs one addition without a lock: eight buckets to a doubling, so
//! that no time is off by more than an eighth, and no sum beside them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Times are counted in units of 2^7 ns, since no server answers faster than that.
const UNIT_BITS: u32 = 7;

/// Bits of 8, the number of buckets to each doubling.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;

/// The last bucket holds whatever takes longer than a minute; a server is lost before that.
const BUCKETS: usize = 27 * FINE;

/// The counts of one server or route.
#[derive(Debug)]
pub struct Latency(Box<[AtomicU64]>);

impl Default for Latency {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Latency {
    /// Counts a reply or an answer that took this long.
    pub fn note(&self, ns: u64) {
        self.0[bucket(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// The buckets that are not empty: the time in microseconds that their replies stayed below, and how many there are.
    #[must_use]
    pub fn counts(&self) -> Vec<(f64, u64)> {
        let all = self.0.iter().enumerate().map(|(at, count)| (below_us(at), count.load(Ordering::Relaxed)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// The bucket of a time: short ones each have their own, longer ones are distinguished by their four highest bits.
fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    let doublings = (u64::BITS - units.leading_zeros()).saturating_sub(FINE_BITS + 1);
    (doublings as usize * FINE + (units >> doublings) as usize).min(BUCKETS - 1)
}

/// The end of a bucket in microseconds.
fn below_us(bucket: usize) -> f64 {
    let doublings = (bucket / FINE).saturating_sub(1);
    let units = (bucket - doublings * FINE + 1) << doublings;
    ((units as u64) << UNIT_BITS) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_below_the_end_of_its_bucket_and_at_most_an_eighth_below() {
        let mut ns = 1.0;
        while ns < 60e9 {
            let end = below_us(bucket(ns as u64)) * 1000.0;
            assert!(ns < end && end <= (ns * 1.125).max(ns + 128.0), "{ns} ns is counted below {end}");
            ns *= 1.01;
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for at in 1..BUCKETS {
            let begin = (below_us(at - 1) * 1000.0).round() as u64;
            assert_eq!((bucket(begin), bucket(begin - 1)), (at, at - 1));
        }
    }

    #[test]
    fn what_was_noted_is_counted() {
        let latency = Latency::default();
        [90_000, 90_000, 4_000_000, u64::MAX].into_iter().for_each(|ns| latency.note(ns));
        let counts = latency.counts();
        assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 1, 1]);
        assert!(counts[0].0 > 90.0 && counts[1].0 > 4000.0);
    }
}
