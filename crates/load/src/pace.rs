//! When clients ask: think times of a closed loop, arrivals of an open one.
//!
//! In a closed loop a client asks when it has its answer and has thought; a slow server is asked less often, and what
//! it would have done to others is never seen. In an open loop requests arrive when the schedule says so, whatever the
//! server does, and a response time counts from that moment.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use serde::{Serialize, Serializer};

use crate::timespan::{self, nanos};

/// The pause of a client between an answer and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think {
    /// Its mean.
    pub mean: Duration,
    /// Drawn from an exponential distribution; otherwise always the same.
    pub exponential: bool,
}

impl Think {
    /// The next pause, in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let mean = nanos(self.mean);
        if self.exponential { exponential(rng, mean as f64) as u64 } else { mean }
    }

    /// Whether there is no pause.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.mean.is_zero()
    }
}

impl FromStr for Think {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (exponential, time) = match text.strip_prefix("exponential:") {
            Some(time) => (true, time),
            None => (false, text),
        };
        Ok(Self { mean: timespan::parse(time)?, exponential })
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", if self.exponential { "exponential:" } else { "" }, self.mean)
    }
}

impl Serialize for Think {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        timespan::milliseconds(&self.mean, serializer)
    }
}

/// The pauses that were drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thought {
    count: u64,
    nanos: u64,
}

impl Thought {
    /// Counts a pause of so many nanoseconds.
    pub const fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.nanos += nanos;
    }

    /// Takes over those of another thread.
    pub const fn absorb(&mut self, other: Self) {
        self.count += other.count;
        self.nanos += other.nanos;
    }

    /// Their mean in microseconds; 0 without any.
    #[must_use]
    pub fn mean_us(self) -> f64 {
        self.nanos as f64 / 1e3 / self.count.max(1) as f64
    }
}

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

/// The arrivals of an open loop that fall to one thread.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Nanoseconds since the origin, with a fraction: rounding must not add up.
    next: f64,
    gap: f64,
    /// None: constant.
    rng: Option<Rng>,
}

impl Arrivals {
    /// Of `rate_per_s` arrivals in all, those of thread `thread` of `threads`. Constant ones are dealt out in turn, so that
    /// together they are evenly spaced; a Poisson stream split at random is Poisson streams (Jain, The Art of Computer
    /// Systems Performance Analysis, 1991, section 30.4), so each thread draws its own.
    #[must_use]
    pub fn new(rate_per_s: f64, spacing: Spacing, thread: usize, threads: usize, seed: u64) -> Self {
        let between = 1e9 / rate_per_s;
        let gap = between * threads as f64;
        match spacing {
            Spacing::Constant => Self { next: between * thread as f64, gap, rng: None },
            Spacing::Poisson => {
                let mut rng = Rng::with_seed(seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                Self { next: exponential(&mut rng, gap), gap, rng: Some(rng) }
            }
        }
    }

    /// The same arrivals, from `origin` on.
    #[must_use]
    pub fn from(self, origin: u64) -> Self {
        Self { next: self.next + origin as f64, ..self }
    }

    /// When the next one is due, in nanoseconds since the origin.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next as u64
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        self.next += match &mut self.rng {
            None => self.gap,
            Some(rng) => exponential(rng, self.gap),
        };
    }
}

/// A draw from the exponential distribution, by inversion (Jain 1991, section 28.1).
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(mut arrivals: Arrivals, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let next = arrivals.next();
                arrivals.advance();
                next
            })
            .collect()
    }

    #[test]
    fn constant_arrivals_of_all_threads_are_evenly_spaced() {
        let mut all: Vec<u64> =
            (0..3).flat_map(|t| first(Arrivals::new(3e6, Spacing::Constant, t, 3, 1), 100)).collect();
        all.sort_unstable();
        assert_eq!((all[0], all[299]), (0, 99_666));
        assert!(all.windows(2).all(|pair| (333..=334).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_scatter_of_an_exponential() {
        let times = first(Arrivals::new(1e6, Spacing::Poisson, 0, 1, 7), 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "the coefficient of variation is 1");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_each_thread_its_own() {
        let of = |thread, seed| first(Arrivals::new(1e3, Spacing::Poisson, thread, 2, seed), 10);
        assert_eq!(of(0, 5), of(0, 5));
        assert_ne!(of(0, 5), of(1, 5));
        assert_ne!(of(0, 5), of(0, 6));
    }

    #[test]
    fn think_times_are_read_and_drawn() {
        let fixed: Think = "10ms".parse().expect("a time");
        assert_eq!(fixed.draw(&mut Rng::with_seed(1)), 10_000_000);
        let drawn: Think = "exponential:10ms".parse().expect("a time");
        let mut rng = Rng::with_seed(1);
        let mean = (0..20_000).map(|_| drawn.draw(&mut rng) as f64).sum::<f64>() / 20_000.0;
        assert!((mean / 1e7 - 1.0).abs() < 0.03, "{mean}");
        assert!("exponential:5".parse::<Think>().is_err());
    }
}
