//! Waiting for those who are about to come back.
//!
//! Clients that were just answered often ask again at once. A worker that takes what waits without them splits the clients in
//! two crowds, which take turns for ever: each waits for two batches of half the size. Where a batch has a high price of its
//! own, the worker does better to wait for the others a moment. How many come back, it learns; where nobody does, as with
//! clients that think or come once, it waits for nobody. Nor does it where they are many: half of them fill a batch well, and
//! the others' answers are written meanwhile.

use std::time::{Duration, Instant};

/// Of a turn's time, the part that is spent on waiting afterwards, at most.
const PART: u32 = 4;

/// More bundles than this are not waited for.
const CROWD_MAX: usize = 48;

/// How much of what is believed of those who come back is what the last turn showed.
const NEWS: f64 = 0.25;

/// What a line knows of who comes back.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// No wait is longer; none: nobody is waited for.
    most: Option<Duration>,
    /// Of those answered, the share that asked again while the worker would have waited; a moving average.
    share: f64,
    /// Bundles that the last turn answered, and how many have come since, until that time.
    answered: usize,
    came: usize,
    until: Option<Instant>,
    /// How many bundles are worth waiting for.
    expected: usize,
}

impl Gathering {
    /// From now on workers wait for so long at most.
    pub(super) fn begin(&mut self, most: Duration) {
        *self = Self { most: Some(most), share: 1.0, ..Self::default() };
    }

    /// A turn that took this time has answered so many bundles, while others wait.
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

    /// Bundles have come.
    pub(super) fn arrive(&mut self, now: Instant, bundles: usize) {
        if self.until.is_some_and(|until| now < until) {
            self.came += bundles;
        }
    }

    /// Until when more than `waiting` bundles are worth waiting for; None: they are not.
    pub(super) fn until(&self, now: Instant, waiting: usize) -> Option<Instant> {
        self.until.filter(|until| waiting < self.expected && now < *until)
    }

    /// Whether anything is to be told.
    pub(super) fn is_on(&self) -> bool {
        self.most.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(500);
    const TURN: Duration = Duration::from_micros(800);

    /// Turns of which each answers two bundles, after which `back` come at once; what is worth waiting for then.
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
