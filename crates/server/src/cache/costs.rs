//! What multi-gets cost whole and split, measured: the choice of `--multiget auto`.
//!
//! For each number of keys the mean time with the servers is kept for both ways, as a moving mean over some 16
//! requests. The cheaper way is taken; one request in 32 goes the other way, so that the means stay true when the
//! load changes. A get that is asked in steps is several requests here: the time until its client has read more is none of
//! the servers'. A get whose keys go by several routes takes as long as the slowest of them: it goes the cheaper way and is
//! not measured. Threads write the same means without locks: a lost update is one sample in a mean.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of keys with means of their own; more keys count as this many.
const KEYS_MAX: usize = 64;

/// One request in this many is spread the dearer way, to keep its mean up to date.
const EXPLORATION_INTERVAL: u64 = 32;

/// A sample's weight in the mean is 1 divided by this.
const WEIGHT: u64 = 16;

/// How a multi-get is spread over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All keys to one server.
    Whole,
    /// The keys shared out among the servers.
    Split,
}

/// Means for one number of keys.
#[derive(Default)]
struct Row {
    /// Requests for which a way was chosen.
    requests: AtomicU64,
    /// Mean nanoseconds, whole and split; 0: not known.
    mean_ns: [AtomicU64; 2],
}

/// The means of one pool, by the number of keys.
pub struct Costs(Vec<Row>);

impl Default for Costs {
    fn default() -> Self {
        Self((0..=KEYS_MAX).map(|_| Row::default()).collect())
    }
}

impl Row {
    /// The mean times, whole and split.
    fn means_ns(&self) -> [u64; 2] {
        [0, 1].map(|spread| self.mean_ns[spread].load(Ordering::Relaxed))
    }

    /// The way that costs less; `Whole` while nothing is known.
    fn cheaper(&self) -> Spread {
        let [whole, split] = self.means_ns();
        if split != 0 && (whole == 0 || split < whole) { Spread::Split } else { Spread::Whole }
    }
}

impl Costs {
    /// The way that costs less for this many keys, as far as is known: for requests that are not measured.
    #[must_use]
    pub fn cheaper(&self, keys: usize) -> Spread {
        self.0[keys.min(KEYS_MAX)].cheaper()
    }

    /// The way to spread a measured request of this many keys.
    #[must_use]
    pub fn choose(&self, keys: usize) -> Spread {
        let row = &self.0[keys.min(KEYS_MAX)];
        let cheaper = row.cheaper();
        let other = if cheaper == Spread::Split { Spread::Whole } else { Spread::Split };
        let requests = row.requests.fetch_add(1, Ordering::Relaxed);
        let is_unknown = row.mean_ns[other as usize].load(Ordering::Relaxed) == 0;
        if is_unknown || requests % EXPLORATION_INTERVAL == EXPLORATION_INTERVAL - 1 {
            other
        } else {
            cheaper
        }
    }

    /// Notes how long a request for this many keys took when spread this way.
    pub fn note(&self, keys: usize, spread: Spread, ns: u64) {
        let mean = &self.0[keys.min(KEYS_MAX)].mean_ns[spread as usize];
        let before = mean.load(Ordering::Relaxed);
        let after = if before == 0 { ns } else { before - before / WEIGHT + ns / WEIGHT };
        mean.store(after.max(1), Ordering::Relaxed);
    }

    /// Writes the means as lines for `stats`, each name with `prefix` before it: what each number of keys costs, and
    /// which way is chosen.
    pub fn describe(&self, prefix: &str, text: &mut String) {
        for (keys, row) in
            self.0.iter().enumerate().filter(|(_, row)| row.requests.load(Ordering::Relaxed) > 0)
        {
            let [whole, split] = row.means_ns();
            let choice = if row.cheaper() == Spread::Split { "split" } else { "whole" };
            let us = |ns: u64| ns as f64 / 1000.0;
            let _ = write!(
                text,
                "STAT {prefix}multiget_{keys} {choice} whole_mean_us={:.1} split_mean_us={:.1}\r\n",
                us(whole),
                us(split)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often `Split` is chosen in this many requests that cost `whole` and `split`.
    fn splits(costs: &Costs, keys: usize, requests: u32, whole: u64, split: u64) -> u32 {
        (0..requests)
            .filter(|_| {
                let spread = costs.choose(keys);
                costs.note(keys, spread, if spread == Spread::Split { split } else { whole });
                spread == Spread::Split
            })
            .count() as u32
    }

    #[test]
    fn the_cheaper_way_is_found_for_each_number_of_keys_and_found_again_when_it_changes() {
        let costs = Costs::default();
        assert!(splits(&costs, 12, 320, 900, 500) > 300);
        assert!(splits(&costs, 2, 320, 100, 300) < 20);
        assert_eq!(
            [2, 12, 13].map(|keys| costs.cheaper(keys)),
            [Spread::Whole, Spread::Split, Spread::Whole]
        );
        splits(&costs, 12, 3200, 100, 500);
        assert!(splits(&costs, 12, 320, 100, 500) < 20);
        let mut text = String::new();
        costs.describe("", &mut text);
        assert!(text.contains("STAT multiget_12 whole whole_mean_us=") && text.contains("multiget_2 whole"));
    }
}
