//! The arrivals of an open loop that fall to one thread.
//!
//! Arrivals are counted on a scale on which one request is due per unit, evenly or at random, and the timetable turns
//! each count into a time. At random that gives a Poisson process whose rate is that of the timetable at every moment
//! (E. Çınlar, Introduction to Stochastic Processes, 1975, section 4.7).

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

use crate::pace::{ThreadShare, exponential, phase};
use crate::seeds::{self, Purpose};
use crate::timetable::Timetable;

/// How the arrivals of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Always the same gap.
    #[default]
    Constant,
    /// Gaps from an exponential distribution: as from many people who know nothing of each other.
    Poisson,
}

/// The arrivals of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    timetable: Timetable,
    share: ThreadShare,
    /// Nanosecond at which the run begins.
    origin: u64,
    /// Nanosecond at which the next arrival is due; the last one when there is none.
    next: u64,
    stream: Stream,
}

/// How one arrival follows another, on the scale of counts.
#[derive(Clone, Debug)]
enum Stream {
    /// The clients of all threads take turns, so that together the arrivals are evenly spaced.
    Constant { shift: f64, round: u64, client: usize },
    /// Gaps are drawn from an exponential distribution with this mean.
    Poisson { gap: f64, count: f64, rng: Rng },
}

impl Arrivals {
    /// Returns a thread's part of the arrivals of a run that begins at `origin`, of which each client has an equal
    /// share. The seed also shifts constant ones by part of a gap, so that generators with different seeds do not march
    /// in step. A Poisson stream split at random is Poisson streams (Jain, The Art of Computer Systems Performance
    /// Analysis, 1991, section 30.4), so each thread draws its own.
    pub(crate) fn new(
        timetable: Timetable,
        spacing: Spacing,
        share: ThreadShare,
        seed: u64,
        origin: u64,
    ) -> Self {
        let stream = match spacing {
            Spacing::Constant => {
                let shift = if timetable.may_be_shifted() { phase(seed) } else { 0.0 };
                Stream::Constant { shift, round: 0, client: share.thread }
            }
            Spacing::Poisson => {
                let gap = share.clients as f64 / share.clients() as f64;
                let mut rng = seeds::stream(seed, Purpose::Arrivals, share.thread as u64);
                Stream::Poisson { gap, count: exponential(&mut rng, gap), rng }
            }
        };
        let mut arrivals = Self { timetable, share, origin, next: 0, stream };
        arrivals.next = arrivals.time();
        arrivals
    }

    /// Returns when the next arrival is due, in nanoseconds; `u64::MAX` if there is none.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns how many arrivals are still to come from `start` to `end`; of random ones, on average.
    pub(crate) fn expected(&self, start: u64, end: u64) -> u64 {
        let from = self.next.max(start);
        if from >= end {
            return 0;
        }
        let due_by = |at: u64| self.timetable.due_by(at.saturating_sub(self.origin) as f64);
        let share = self.share.clients() as f64 / self.share.clients as f64;
        ((due_by(end) - due_by(from)) * share).ceil() as u64
    }

    /// Goes on to the next arrival.
    pub(crate) fn advance(&mut self) {
        match &mut self.stream {
            Stream::Constant { round, client, .. } => {
                *client += self.share.threads;
                if *client >= self.share.clients {
                    (*round, *client) = (*round + 1, self.share.thread);
                }
            }
            Stream::Poisson { gap, count, rng } => *count += exponential(rng, *gap),
        }
        self.next = self.time();
    }

    /// Computes when the next arrival is due.
    fn time(&self) -> u64 {
        let count = match &self.stream {
            // Computed from the count of rounds, not summed up: rounding errors must not accumulate.
            Stream::Constant { shift, round, client } => {
                *round as f64 * self.share.clients as f64 + *client as f64 + shift
            }
            Stream::Poisson { count, .. } => *count,
        };
        self.timetable.time_of(count).map_or(u64::MAX, |ns| self.origin.saturating_add(ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pace::tests::of_five;
    use crate::seeds::tests::{DRAWS, assert_apart};

    fn even(per_s: f64, spacing: Spacing, share: ThreadShare, seed: u64) -> Arrivals {
        Arrivals::new(Timetable::Even(per_s), spacing, share, seed, 0)
    }

    fn first(mut arrivals: Arrivals, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let next = arrivals.next();
                arrivals.advance();
                next
            })
            .collect()
    }

    /// How many arrivals are due within a second.
    fn in_a_second(spacing: Spacing, share: ThreadShare) -> usize {
        first(even(50_000.0, spacing, share, 3), 60_000).partition_point(|at| *at < 1_000_000_000)
    }

    #[test]
    fn constant_arrivals_of_all_threads_are_evenly_spaced() {
        for threads in 1..=5 {
            let of = |thread| first(even(3e6, Spacing::Constant, of_five(thread, threads), 1), 500);
            let mut all: Vec<u64> = (0..threads).flat_map(of).collect();
            all.sort_unstable();
            // Threads of fewer clients go on for longer.
            all.truncate(500);
            assert_eq!((all[0], all[499]), (0, 166_333), "{threads} threads");
            assert!(
                all.windows(2).all(|pair| (333..=334).contains(&(pair[1] - pair[0]))),
                "{threads}: {all:?}"
            );
        }
    }

    #[test]
    fn each_client_has_the_same_rate_however_many_share_a_thread() {
        assert_eq!(
            [0, 1, 2].map(|thread| in_a_second(Spacing::Constant, of_five(thread, 3))),
            [20_000, 20_000, 10_000]
        );
        for (thread, clients) in [(0, 2.0), (1, 2.0), (2, 1.0)] {
            let each = in_a_second(Spacing::Poisson, of_five(thread, 3)) as f64 / clients;
            assert!((each / 1e4 - 1.0).abs() < 0.04, "{each} of thread {thread}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_scatter_of_an_exponential() {
        let times = first(even(1e6, Spacing::Poisson, of_five(0, 1), 7), 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "the coefficient of variation is 1");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_each_thread_its_own() {
        let of = |thread, seed| first(even(1e3, Spacing::Poisson, of_five(thread, 2), seed), 10);
        assert_eq!(of(0, 5), of(0, 5));
        assert_ne!(of(0, 5), of(1, 5));
        assert_ne!(of(0, 5), of(0, 6));
    }

    #[test]
    fn threads_and_seeds_have_nothing_in_common_in_arrivals() {
        assert_apart(|seed, thread| {
            let share = ThreadShare { thread: thread as usize - 1, threads: 4, clients: 4 };
            let times = first(even(1e3, Spacing::Poisson, share, seed), DRAWS + 1);
            times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
        });
    }

    #[test]
    fn constant_arrivals_of_generators_with_different_seeds_lie_apart() {
        let mut starts: Vec<u64> =
            (1..=4).map(|seed| even(1e3, Spacing::Constant, of_five(0, 1), seed).next()).collect();
        starts.sort_unstable();
        assert!(
            starts.windows(2).all(|pair| pair[1] - pair[0] > 100_000),
            "{starts:?} of a gap of 1,000,000 ns"
        );
    }

    /// Arrivals of all threads under a profile that rises, steps up and falls.
    fn under_profile(spacing: Spacing, threads: usize, origin: u64) -> Vec<u64> {
        let profile = Arc::new("0s:1000 2s:9000 2s:20000 3s:0".parse().expect("a profile"));
        let timetable = Timetable::Profile { profile, warmup_s: 0.0 };
        let of = |thread| {
            let arrivals = Arrivals::new(timetable.clone(), spacing, of_five(thread, threads), 1, origin);
            std::iter::successors(Some(arrivals), |arrivals| {
                let mut arrivals = arrivals.clone();
                arrivals.advance();
                Some(arrivals)
            })
            .map(|arrivals| arrivals.next())
            .take_while(|at| *at < u64::MAX)
        };
        let mut all: Vec<u64> = (0..threads).flat_map(of).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn arrivals_under_a_profile_are_its_integral_apart() {
        for threads in 1..=5 {
            let all = under_profile(Spacing::Constant, threads, 7);
            // 10,000 while it rises, 10,000 while it falls to nothing, and the first of all at once. Rounding decides
            // whether the last one, due at the very end, comes.
            assert!((20_000..=20_001).contains(&all.len()), "{} by {threads} threads", all.len());
            let within = |from_ms: u64, to_ms: u64| {
                let place = |ms: u64| all.partition_point(|at| *at < 7 + ms * 1_000_000);
                place(to_ms) - place(from_ms)
            };
            // The integral of 1000 + 4000 t over the first half second is 1000.
            let counts = [within(0, 500), within(0, 2_000), within(2_000, 2_500), within(2_500, 3_001)];
            for (count, due) in counts.into_iter().zip([1_000, 10_000, 7_500, 2_500]) {
                assert!(count.abs_diff(due) <= 1, "{count} for {due} by {threads} threads");
            }
            assert_eq!(all[0], 7);
        }
    }

    #[test]
    fn random_arrivals_under_a_profile_follow_it_on_average() {
        let all = under_profile(Spacing::Poisson, 3, 0);
        for (until_ms, due) in
            [(500_u64, 1_000.0_f64), (2_000, 10_000.0), (2_500, 17_500.0), (3_000, 20_000.0)]
        {
            let count = all.partition_point(|at| *at < until_ms * 1_000_000) as f64;
            assert!((count - due).abs() < 4.0 * due.sqrt(), "{count} for {due}");
        }
    }

    #[test]
    fn what_is_still_expected_is_the_threads_share_of_the_integral() {
        let profile = Arc::new("0s:1000 10s:1000 10s:0".parse().expect("a profile"));
        let timetable = Timetable::Profile { profile, warmup_s: 0.0 };
        let arrivals = Arrivals::new(timetable, Spacing::Constant, of_five(0, 3), 1, 1_000);
        assert_eq!(arrivals.expected(0, 1_000 + 5_000_000_000), 2_000, "two of five clients");
        assert_eq!(arrivals.expected(0, u64::MAX - 1), 4_000);
        assert_eq!(arrivals.expected(20_000_000_000, 30_000_000_000), 0);
    }
}
