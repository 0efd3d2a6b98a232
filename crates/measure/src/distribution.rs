//! Distribution of durations: an HdrHistogram for the percentiles, exact sums for the mean and the standard deviation.
//!
//! Values are whole nanoseconds, the unit that HdrHistogram's own tools expect. Durations above one hour
//! count as one hour. With two significant digits, a percentile is at most 1/128 above the exact value, never
//! below, and exact up to 255 ns; a histogram takes 37 KB. A coarser unit would save a fifth of that and turn
//! the short stages into zeros. The mean is taken from the sum because models are fitted to means, and the
//! middles of buckets would distort them by up to 0.4 %. The standard deviation is taken from the sum of squares because
//! what is spread by less than a bucket's width would have none.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest duration, in nanoseconds; longer ones are counted as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant digits of the histogram.
const DIGITS: u8 = 2;

/// Durations of one stage.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    /// Sum of all durations. 64 bits would be full after months of a thousand requests at a time.
    sum_ns: u128,
    /// Sum of the squares of all durations, in nanoseconds squared.
    squares: u128,
}

impl Distribution {
    /// Makes an empty distribution.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("constant bounds that the histogram accepts");
        Self { histogram, sum_ns: 0, squares: 0 }
    }

    /// Adds a duration in nanoseconds, `times` times.
    #[inline]
    pub fn record(&mut self, ns: u64, times: u64) {
        self.histogram.saturating_record_n(ns, times);
        let (ns, times) = (u128::from(ns), u128::from(times));
        self.sum_ns = self.sum_ns.saturating_add(ns * times);
        self.squares = self.squares.saturating_add((ns * ns).saturating_mul(times));
    }

    /// Adds all durations of `other`.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all distributions have the same bounds");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Removes all durations and keeps the memory.
    pub fn reset(&mut self) {
        self.histogram.reset();
        (self.sum_ns, self.squares) = (0, 0);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact mean in nanoseconds; 0 when empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        ratio(self.sum_ns, self.count())
    }

    /// Returns the standard deviation in nanoseconds, of these durations and not of a population that they are a sample
    /// of; 0 when empty. It is exact: the difference of two sums that may be almost equal is taken of whole numbers,
    /// unless these are too large for it.
    #[must_use]
    pub fn stdev_ns(&self) -> f64 {
        let count = u128::from(self.count());
        let differences = match (self.squares.checked_mul(count), self.sum_ns.checked_pow(2)) {
            (Some(of_squares), Some(of_sum)) => of_squares.saturating_sub(of_sum) as f64,
            _ => (self.squares as f64 * count as f64 - (self.sum_ns as f64).powi(2)).max(0.0),
        };
        differences.sqrt() / self.count().max(1) as f64
    }

    /// Returns the exact sum of all durations in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// For each of the ascending bounds in nanoseconds, returns how many durations are not longer. Durations
    /// up to 1/128 longer than a bound may count as not longer, as they share its bucket in the histogram.
    #[must_use]
    pub fn not_longer_than(&self, bounds_ns: &[u64]) -> Vec<u64> {
        let mut recorded = self.histogram.iter_recorded().peekable();
        let mut count = 0;
        let up_to = |bound: &u64| {
            let end = self.histogram.highest_equivalent(*bound);
            while let Some(place) = recorded.next_if(|place| place.value_iterated_to() <= end) {
                count += place.count_at_value();
            }
            count
        };
        bounds_ns.iter().map(up_to).collect()
    }

    /// Returns the duration in nanoseconds that a share of `quantile` (0 to 1) does not exceed; 0 when empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// Returns the histogram, in nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Returns mean, standard deviation and percentiles in microseconds.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let quantile_us = |q| microseconds(self.quantile_ns(q));
        LatencySummary {
            count: self.count(),
            mean_us: self.mean_ns() / 1000.0,
            stdev_us: self.stdev_ns() / 1000.0,
            p50_us: quantile_us(0.5),
            p90_us: quantile_us(0.9),
            p99_us: quantile_us(0.99),
            p99_9_us: quantile_us(0.999),
            max_us: microseconds(self.histogram.max()),
        }
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

/// A distribution in eight figures. All are 0 when `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Number of durations.
    pub count: u64,
    /// Exact mean.
    pub mean_us: f64,
    /// Exact standard deviation.
    pub stdev_us: f64,
    /// Median: half of the durations are not longer.
    pub p50_us: f64,
    /// 90 % are not longer.
    pub p90_us: f64,
    /// 99 % are not longer.
    pub p99_us: f64,
    /// 99.9 % are not longer.
    pub p99_9_us: f64,
    /// The longest duration.
    pub max_us: f64,
}

/// Nanoseconds to microseconds.
pub(crate) fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Returns `sum / count`, or 0 when `count` is 0.
pub(crate) fn ratio(sum: u128, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Durations spread over all magnitudes from nanoseconds to half an hour.
    fn durations() -> impl Strategy<Value = Vec<u64>> {
        let duration = (0_u32..41, any::<u64>()).prop_map(|(bits, raw)| raw % (1 << bits));
        prop::collection::vec(duration, 1..400)
    }

    fn distribution_of(durations: &[u64]) -> Distribution {
        let mut distribution = Distribution::new();
        durations.iter().for_each(|ns| distribution.record(*ns, 1));
        distribution
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn percentiles_are_those_of_a_sort_or_up_to_one_128th_above(mut durations in durations()) {
            let distribution = distribution_of(&durations);
            durations.sort_unstable();
            for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((quantile * durations.len() as f64).ceil() as usize).max(1);
                let exact = durations[rank - 1];
                let reported = distribution.quantile_ns(quantile);
                prop_assert!(reported >= exact && reported <= exact + exact / 128, "{exact} {reported}");
            }
        }

        #[test]
        fn counts_up_to_a_bound_are_exact_or_up_to_one_128th_too_far(durations in durations()) {
            let bounds = [10_000, 1_000_000, 25_000_000, 1_000_000_000, u64::MAX / 2];
            let counts = distribution_of(&durations).not_longer_than(&bounds);
            for (bound, count) in bounds.into_iter().zip(counts) {
                let within = |end: u64| durations.iter().filter(|ns| **ns <= end).count() as u64;
                prop_assert!((within(bound)..=within(bound + bound / 128)).contains(&count), "{bound} {count}");
            }
        }

        #[test]
        fn the_standard_deviation_is_that_of_the_durations(durations in durations(), times in 1_u64..4) {
            let mut distribution = Distribution::new();
            durations.iter().for_each(|ns| distribution.record(*ns, times));
            let mean = durations.iter().sum::<u64>() as f64 / durations.len() as f64;
            let squares: f64 = durations.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
            let expected = (squares / durations.len() as f64).sqrt();
            let stdev = distribution.stdev_ns();
            prop_assert!((stdev - expected).abs() <= expected * 1e-9 + 1e-3, "{stdev} {expected}");
        }

        #[test]
        fn merging_parts_equals_recording_the_whole(durations in durations(), cut in 0_usize..400) {
            let (left, right) = durations.split_at(cut.min(durations.len()));
            let mut merged = distribution_of(left);
            merged.add(&distribution_of(right));
            let whole = distribution_of(&durations);
            prop_assert_eq!(merged.summary(), whole.summary());
            prop_assert_eq!(merged.histogram(), whole.histogram());
        }
    }

    #[test]
    fn mean_and_standard_deviation_are_exact_where_buckets_are_not() {
        let distribution = distribution_of(&[1_000_000_000_001, 1_000_000_000_003]);
        assert!((distribution.mean_ns() - 1_000_000_000_002.0).abs() < 1e-3);
        assert!((distribution.stdev_ns() - 1.0).abs() < 1e-9);
        // Sums end before they overflow.
        let centuries = distribution_of(&[u64::MAX; 3]);
        assert!(centuries.stdev_ns().is_finite());
    }

    #[test]
    fn mean_and_standard_deviation_stay_right_when_all_durations_are_centuries_together() {
        let mut distribution = Distribution::new();
        distribution.record(1_000_000_000_000, 50_000_000);
        distribution.record(3_000_000_000_000, 50_000_000);
        assert!((distribution.mean_ns() - 2e12).abs() < 1.0);
        assert!((distribution.stdev_ns() - 1e12).abs() < 1e3);
    }

    #[test]
    fn longer_than_the_range_counts_as_the_longest() {
        let distribution = distribution_of(&[LONGEST_NS * 3]);
        assert_eq!(distribution.count(), 1);
        let longest = distribution.quantile_ns(1.0);
        assert!((LONGEST_NS..LONGEST_NS + LONGEST_NS / 128).contains(&longest));
    }

    #[test]
    fn a_reset_distribution_equals_a_new_one() {
        let mut distribution = distribution_of(&[5, 50_000, 5_000_000]);
        distribution.reset();
        assert_eq!(distribution.summary(), LatencySummary::default());
        assert_eq!(distribution.histogram(), Distribution::new().histogram());
    }
}
