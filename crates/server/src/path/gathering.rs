//! How long a worker waits for clients that are about to send their next request.
//!
//! Clients that were just answered often send again at once. A worker that takes what is queued without waiting for
//! them splits the clients into two groups that alternate for ever: each waits for two batches of half the size. Where
//! every batch has a high fixed cost, the worker does better to wait a moment for the other group. It learns what share
//! of the clients returns, and waits for none if none does (clients that think in between, or come once). It does not
//! wait for large groups either: half of such a group fills a batch well, and the answers of the other half are written
//! meanwhile.

use std::time::{Duration, Instant};

/// The wait after a turn is at most the turn's duration divided by this.
const WAIT_DIVISOR: u32 = 4;

/// Most expected bundles for which a worker waits.
const EXPECTED_MAX: usize = 48;

/// Weight of the last turn in the moving average of `return_share`.
const LAST_TURN_WEIGHT: f64 = 0.25;

/// A waiting line's estimate of how many bundles are about to arrive.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// The longest wait; None: workers do not wait.
    wait_max: Option<Duration>,
    /// Share of the answered bundles whose clients sent again within the wait; a moving average.
    return_share: f64,
    /// Bundles that the last turn answered.
    answered: usize,
    /// Bundles that have arrived since then, before the deadline.
    arrived: usize,
    /// The end of the wait after the last turn; None: no turn has ended yet.
    deadline: Option<Instant>,
    /// How many queued bundles end the wait early; 0: no wait.
    expected: usize,
}

impl Gathering {
    /// Makes workers wait from now on, for at most `wait_max` after each turn.
    pub(super) fn enable(&mut self, wait_max: Duration) {
        *self = Self { wait_max: Some(wait_max), return_share: 1.0, ..Self::default() };
    }

    /// Records the end of a turn: its duration, the bundles it answered, and how many bundles are queued.
    pub(super) fn record_turn(&mut self, now: Instant, turn: Duration, answered: usize, queued: usize) {
        let Some(wait_max) = self.wait_max else { return };
        if self.answered > 0 {
            let returned = self.arrived.min(self.answered) as f64 / self.answered as f64;
            self.return_share += (returned - self.return_share) * LAST_TURN_WEIGHT;
        }
        (self.answered, self.arrived) = (answered, 0);
        self.deadline = Some(now + (turn / WAIT_DIVISOR).min(wait_max));
        let expected = queued + (answered as f64 * self.return_share).round() as usize;
        self.expected = if expected <= EXPECTED_MAX { expected } else { 0 };
    }

    /// Records that bundles have arrived.
    pub(super) fn record_arrivals(&mut self, now: Instant, bundles: usize) {
        if self.deadline.is_some_and(|deadline| now < deadline) {
            self.arrived += bundles;
        }
    }

    /// Returns until when a worker should wait while `queued` bundles are queued; None: not at all.
    pub(super) fn wait_deadline(&self, now: Instant, queued: usize) -> Option<Instant> {
        self.deadline.filter(|deadline| queued < self.expected && now < *deadline)
    }

    /// Returns whether workers wait at all, so that arrivals and turns must be recorded.
    pub(super) fn is_enabled(&self) -> bool {
        self.wait_max.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_micros(500);
    const TURN: Duration = Duration::from_micros(800);

    /// Runs turns that answer two bundles each, after which `returning` arrive at once; returns how many are then
    /// expected.
    fn after(turns: u32, returning: usize) -> usize {
        let mut gathering = Gathering::default();
        gathering.enable(WAIT_MAX);
        let mut now = Instant::now();
        for _ in 0..turns {
            gathering.record_turn(now, TURN, 2, 0);
            gathering.record_arrivals(now, returning);
            now += TURN;
        }
        gathering.expected
    }

    #[test]
    fn clients_that_return_are_waited_for_and_others_are_not() {
        assert_eq!((after(20, 2), after(20, 1), after(20, 0)), (2, 1, 0));
    }

    #[test]
    fn no_wait_is_longer_than_a_part_of_a_turn() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.enable(WAIT_MAX);
        gathering.record_turn(now, TURN, 4, 3);
        assert_eq!(gathering.wait_deadline(now, 6), Some(now + TURN / 4));
        assert_eq!(gathering.wait_deadline(now, 7), None, "all are there");
        assert_eq!(gathering.wait_deadline(now + TURN / 4, 6), None, "it takes too long");
        gathering.record_turn(now, 100 * TURN, 0, 7);
        assert_eq!(gathering.wait_deadline(now, 6), Some(now + WAIT_MAX));
    }

    #[test]
    fn without_being_enabled_there_is_no_wait() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.record_turn(now, TURN, 4, 3);
        gathering.record_arrivals(now, 1);
        assert_eq!(gathering.wait_deadline(now, 1), None);
    }

    #[test]
    fn large_groups_are_not_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.enable(WAIT_MAX);
        gathering.record_turn(now, TURN, EXPECTED_MAX / 2, EXPECTED_MAX / 2);
        assert_eq!(gathering.wait_deadline(now, EXPECTED_MAX / 2), Some(now + TURN / 4));
        gathering.record_turn(now, TURN, 0, EXPECTED_MAX + 1);
        assert_eq!(gathering.wait_deadline(now, EXPECTED_MAX), None);
    }
}
