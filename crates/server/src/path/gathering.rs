//! How long a worker waits for clients that are about to send their next request.
//!
//! Clients that were just answered often send again at once. A worker that takes what is queued without waiting for
//! them splits the clients into two groups that alternate for ever: each waits for two batches of half the size. Where
//! every batch has a high fixed cost, the worker does better to wait a moment for the other group. It learns what share
//! comes back, and waits for none if none does (clients that think in between, or come once). It does not wait for
//! large groups either: half of such a group fills a batch well, and the answers of the other half are written
//! meanwhile.

use std::time::{Duration, Instant};

/// The wait after a turn is at most one `PART`-th of the turn's time.
const PART: u32 = 4;

/// No wait if more bundles than this are expected.
const CROWD_MAX: usize = 48;

/// Weight of the last turn in the moving average of `share`.
const NEWS: f64 = 0.25;

/// A waiting line's estimate of how many bundles are about to arrive.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// The longest wait; None: workers do not wait.
    most: Option<Duration>,
    /// Share of the answered bundles whose clients sent again within the wait; a moving average.
    share: f64,
    /// Bundles that the last turn answered, how many have arrived since, and until when arrivals count.
    answered: usize,
    came: usize,
    until: Option<Instant>,
    /// How many queued bundles end the wait; 0: no wait.
    expected: usize,
}

impl Gathering {
    /// Turns waiting on, for at most this long.
    pub(super) fn begin(&mut self, most: Duration) {
        *self = Self { most: Some(most), share: 1.0, ..Self::default() };
    }

    /// Records the end of a turn: its duration, the bundles it answered, and how many bundles are queued.
    pub(super) fn turn_ends(&mut self, now: Instant, turn: Duration, answered: usize, waiting: usize) {
        let Some(most) = self.most else { return };
        if self.answered > 0 {
            let share = self.came.min(self.answered) as f64 / self.answered as f64;
            self.share += (share - self.share) * NEWS;
        }
        (self.answered, self.came) = (answered, 0);
        self.until = Some(now + (turn / PART).min(most));
        let expected = waiting + (answered as f64 * self.share).round() as usize;
        self.expected = if expected <= CROWD_MAX { expected } else { 0 };
    }

    /// Records that bundles have arrived.
    pub(super) fn arrive(&mut self, now: Instant, bundles: usize) {
        if self.until.is_some_and(|until| now < until) {
            self.came += bundles;
        }
    }

    /// Returns until when a worker should wait when `waiting` bundles are queued; None: not at all.
    pub(super) fn until(&self, now: Instant, waiting: usize) -> Option<Instant> {
        self.until.filter(|until| waiting < self.expected && now < *until)
    }

    /// Returns whether waiting is turned on, so that arrivals and turns must be recorded.
    pub(super) fn is_on(&self) -> bool {
        self.most.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(500);
    const TURN: Duration = Duration::from_micros(800);

    /// Runs turns that answer two bundles each, after which `back` arrive at once; returns how many are then expected.
    fn after(turns: u32, back: usize) -> usize {
        let mut gathering = Gathering::default();
        gathering.begin(MOST);
        let mut now = Instant::now();
        for _ in 0..turns {
            gathering.turn_ends(now, TURN, 2, 0);
            gathering.arrive(now, back);
            now += TURN;
        }
        gathering.expected
    }

    #[test]
    fn those_who_come_back_are_waited_for_and_the_others_not() {
        assert_eq!((after(20, 2), after(20, 1), after(20, 0)), (2, 1, 0));
    }

    #[test]
    fn nobody_is_waited_for_longer_than_a_part_of_a_turn() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.begin(MOST);
        gathering.turn_ends(now, TURN, 4, 3);
        assert_eq!(gathering.until(now, 6), Some(now + TURN / 4));
        assert_eq!(gathering.until(now, 7), None, "all are there");
        assert_eq!(gathering.until(now + TURN / 4, 6), None, "it takes too long");
        gathering.turn_ends(now, 100 * TURN, 0, 7);
        assert_eq!(gathering.until(now, 6), Some(now + MOST));
    }

    #[test]
    fn one_that_was_never_told_to_begin_waits_for_nobody() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.turn_ends(now, TURN, 4, 3);
        gathering.arrive(now, 1);
        assert_eq!(gathering.until(now, 1), None);
    }

    #[test]
    fn many_are_not_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.begin(MOST);
        gathering.turn_ends(now, TURN, CROWD_MAX / 2, CROWD_MAX / 2);
        assert_eq!(gathering.until(now, CROWD_MAX / 2), Some(now + TURN / 4));
        gathering.turn_ends(now, TURN, 0, CROWD_MAX + 1);
        assert_eq!(gathering.until(now, CROWD_MAX), None);
    }
}
