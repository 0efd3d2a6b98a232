//! When clients ask: think times of a closed loop. (The arrivals of an open one are in `arrivals.rs`.)
//!
//! In a closed loop a client asks when it has its answer and has thought; a slow server is asked less often, and what
//! it would have done to others is never seen. In an open loop requests arrive when the schedule says so, whatever the
//! server does, and a response time counts from that moment.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;

use crate::seeds::{self, Purpose};
use crate::timespan::{self, nanos};

/// The pause of a client between an answer and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Think {
    /// The mean pause.
    #[serde(rename = "think_ms", serialize_with = "timespan::milliseconds")]
    pub mean: Duration,
    /// Whether pauses are drawn from an exponential distribution; otherwise all are the same.
    #[serde(rename = "think_exponential")]
    pub exponential: bool,
}

impl Think {
    /// Draws the next pause, in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let mean = nanos(self.mean);
        if self.exponential { exponential(rng, mean as f64) as u64 } else { mean }
    }

    /// Returns when the first requests of a thread's clients are due, `pipeline` of each, in nanoseconds from the
    /// beginning. Exponential pauses are drawn from the beginning on: they have no memory, so the rate of the first
    /// moment is that of all that follow. Fixed pauses of all threads' clients are spread evenly over one pause, so that
    /// they do not march in step, and shifted by the seed, so that several generators do not either.
    pub(crate) fn first(
        &self,
        share: ThreadShare,
        pipeline: usize,
        seed: u64,
        rng: &mut Rng,
    ) -> Vec<ThinkEnd> {
        let between = nanos(self.mean) as f64 / (share.clients * pipeline) as f64;
        let mut due = |turn: usize, client: usize| {
            if self.exponential {
                self.draw(rng)
            } else {
                let place = turn * share.clients + share.thread + client * share.threads;
                ((place as f64 + phase(seed)) * between) as u64
            }
        };
        let turns = (0..pipeline).flat_map(|turn| (0..share.clients()).map(move |client| (turn, client)));
        turns.map(|(turn, client)| ThinkEnd { at: due(turn, client), client }).collect()
    }

    /// Returns whether there is no pause.
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

/// The end of a client's pause, when its next request is due. Ends are ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThinkEnd {
    /// Time in nanoseconds.
    pub(crate) at: u64,
    /// Index of the client within its thread.
    pub(crate) client: usize,
}

/// Number and sum of the pauses that were drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThinkTimes {
    count: u64,
    nanos: u64,
}

impl ThinkTimes {
    /// Counts a pause of so many nanoseconds.
    pub const fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.nanos += nanos;
    }

    /// Adds the pauses of another thread.
    pub const fn absorb(&mut self, other: Self) {
        self.count += other.count;
        self.nanos += other.nanos;
    }

    /// Returns the mean pause in microseconds; 0 without any.
    #[must_use]
    pub fn mean_us(self) -> f64 {
        self.nanos as f64 / 1e3 / self.count.max(1) as f64
    }
}

/// Which of a run's clients belong to a thread: every `threads`-th, as cards are dealt.
#[derive(Clone, Copy, Debug)]
pub struct ThreadShare {
    /// Index of the thread, which is that of its first client, counted from 0.
    pub thread: usize,
    /// Number of threads; no more than clients.
    pub threads: usize,
    /// Number of clients of the run.
    pub clients: usize,
}

impl ThreadShare {
    /// Returns the number of the thread's clients.
    pub(crate) const fn clients(self) -> usize {
        (self.clients - self.thread).div_ceil(self.threads)
    }
}

/// Returns the random numbers for the think times of a thread's clients under a seed.
pub(crate) fn think_rng(seed: u64, thread: usize) -> Rng {
    seeds::stream(seed, Purpose::Thoughts, thread as u64)
}

/// Returns the part of a gap by which a seed shifts arrivals: golden-ratio steps keep those of neighboring seeds well
/// apart.
pub(crate) fn phase(seed: u64) -> f64 {
    seed.wrapping_sub(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / 2_f64.powi(64)
}

/// Draws from the exponential distribution, by inversion (Jain 1991, section 28.1).
pub(crate) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::seeds::tests::{DRAWS, assert_apart};

    /// A thread of so many, which share five clients.
    pub(crate) const fn of_five(thread: usize, threads: usize) -> ThreadShare {
        ThreadShare { thread, threads, clients: 5 }
    }

    #[test]
    fn threads_and_seeds_have_nothing_in_common_in_think_times() {
        let think: Think = "exponential:10ms".parse().expect("a time");
        let drawn = |seed, thread: u32| -> Vec<f64> {
            let mut rng = think_rng(seed, thread as usize);
            (0..DRAWS).map(|_| think.draw(&mut rng) as f64).collect()
        };
        assert_apart(drawn);
        assert_eq!(drawn(2, 0), drawn(2, 0));
    }

    #[test]
    fn clients_of_all_threads_and_generators_that_think_for_as_long_begin_one_after_the_other() {
        let think: Think = "9ms".parse().expect("a time");
        for (threads, pipeline) in [(1, 1), (2, 1), (3, 2), (5, 3)] {
            let of = |thread, seed| {
                let mut rng = think_rng(seed, thread);
                think.first(of_five(thread, threads), pipeline, seed, &mut rng).into_iter().map(|end| end.at)
            };
            let mut all: Vec<u64> = (0..threads).flat_map(|thread| of(thread, 1)).collect();
            all.sort_unstable();
            let between = 9_000_000 / (5 * pipeline as u64);
            let even: Vec<u64> = (0..5 * pipeline as u64).map(|place| place * between).collect();
            assert_eq!(all, even, "{threads} threads");
            assert!(of(0, 2).all(|due| !all.contains(&due)), "another generator");
        }
    }

    #[test]
    fn clients_whose_pauses_are_drawn_ask_as_often_in_the_first_of_them_as_later() {
        let think: Think = "exponential:10ms".parse().expect("a time");
        let share = ThreadShare { thread: 0, threads: 1, clients: 20_000 };
        let mut rng = think_rng(1, 0);
        let mut asked = [0_usize; 3];
        for ThinkEnd { at: mut due, .. } in think.first(share, 1, 1, &mut rng) {
            while due < 30_000_000 {
                asked[(due / 10_000_000) as usize] += 1;
                due += think.draw(&mut rng);
            }
        }
        assert!(asked.iter().all(|count| count.abs_diff(20_000) < 600), "{asked:?}");
    }

    #[test]
    fn records_tell_fixed_think_times_from_drawn_ones() {
        let recorded =
            |text: &str| serde_json::to_string(&text.parse::<Think>().expect("a time")).expect("JSON");
        assert_eq!(recorded("10ms"), r#"{"think_ms":10.0,"think_exponential":false}"#);
        assert_eq!(recorded("exponential:10ms"), r#"{"think_ms":10.0,"think_exponential":true}"#);
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
