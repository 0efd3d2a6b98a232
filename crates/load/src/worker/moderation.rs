//! Sleeps that leave a busy server in peace, as network cards moderate their interrupts.
//!
//! A generator that is faster than its server sleeps until the next answer comes, reads that one, and sleeps again.
//! Each time the server pays: its send wakes a thread on another core, which then takes the lock of the socket on which
//! more answers are being sent. A memcached asked 16 requests deep by 64 clients answers a third more when several
//! answers are let come first, at less than half of the generator's CPU.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::timespan::nanos;

/// A pause is at most the response time divided by this; so response times grow by no more than that part.
const PART: u64 = 32;

/// Shortest pause; a shorter one is not worth its timer.
const SHORTEST: Duration = Duration::from_micros(50);

/// Longest pause; a generator that pauses for longer may itself be waited for.
const LONGEST: Duration = Duration::from_micros(100);

/// Number of answers that a pause should bring at least.
const GAIN: u64 = 2;

/// Decides on the pause after a turn from the answers of that turn, in a closed loop without think times.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Requests that all clients of the thread together have in flight.
    in_flight: u64,
    /// Of the clients answered in this turn, the response time of the one that waited least.
    quickest_ns: u64,
    answers: u64,
}

impl Moderation {
    pub(super) fn new(in_flight: usize) -> Self {
        // Otherwise the system may add as much again to a pause. If it refuses to be exact, that is accepted.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self { in_flight: in_flight as u64, quickest_ns: u64::MAX, answers: 0 }
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self) {
        (self.quickest_ns, self.answers) = (u64::MAX, 0);
    }

    /// Counts the answers of a client, the first of them after `response_ns`.
    pub(super) fn answered(&mut self, answers: usize, response_ns: u64) {
        self.quickest_ns = self.quickest_ns.min(response_ns);
        self.answers += answers as u64;
    }

    /// Returns how long to sleep before looking for answers, if that does good.
    pub(super) fn pause(&self) -> Option<Duration> {
        // If a quarter of all requests was answered at once, the generator is what is waited for.
        if self.answers == 0 || self.answers * 4 > self.in_flight {
            return None;
        }
        let pause = (self.quickest_ns / PART).min(nanos(LONGEST));
        // By Little's law in_flight / response time are answered in a second.
        let gains = self.in_flight.saturating_mul(pause) >= GAIN * self.quickest_ns;
        (gains && pause >= nanos(SHORTEST)).then(|| Duration::from_nanos(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(in_flight: usize, answers: usize, response_us: u64) -> Option<u128> {
        let mut moderation = Moderation::new(in_flight);
        moderation.answered(answers, response_us * 1000);
        moderation.pause().map(|pause| pause.as_micros())
    }

    #[test]
    fn a_pause_is_a_small_part_of_a_response_time() {
        assert_eq!(pause(1024, 5, 2400), Some(75));
        assert_eq!(pause(1024, 5, 1600), Some(50));
        assert_eq!(pause(1024, 5, 1590), None, "not worth it");
        assert_eq!(pause(1024, 5, 40_000), Some(100));
    }

    #[test]
    fn there_is_none_that_brings_nothing() {
        assert_eq!(pause(63, 5, 3200), None, "one answer");
        assert_eq!(pause(64, 5, 3200), Some(100), "two");
        assert_eq!(pause(1024, 5, 60_000), None, "one");
        assert_eq!(pause(1, 1, 3200), None);
        assert_eq!(pause(1024, 0, 3200), None, "nothing is known");
        assert_eq!(pause(1024, 257, 3200), None, "the generator is behind");
    }

    #[test]
    fn the_quickest_answer_of_the_turn_counts() {
        let mut moderation = Moderation::new(1024);
        moderation.answered(1, 3_200_000);
        moderation.answered(1, 300_000);
        assert_eq!(moderation.pause(), None);
        moderation.begin();
        moderation.answered(1, 3_200_000);
        assert_eq!(moderation.pause(), Some(LONGEST));
    }
}
