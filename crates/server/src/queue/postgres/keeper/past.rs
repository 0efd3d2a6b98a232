//! What was due before a tick and comes to light only after it: a lease or delay whose transaction committed late.
//!
//! So all of the past is gone through now and then, back from where ticks begin. That takes long where a transaction
//! elsewhere keeps dead entries in the indexes by time, and the keeper has other work. So each tick goes through one
//! stretch of time, which is shorter after one that took long, and longer after one that did not.

use std::time::{Duration, Instant};

/// How often the past is gone through.
const EVERY: Duration = Duration::from_secs(60);

/// How long the first stretch is: as short as one may become, since nothing is known of the past then.
const WIDTH_MIN_MS: i64 = 1_000;

/// A stretch that took less time than `QUICK` is followed by a longer one, one that took more than `SLOW` by a shorter.
const QUICK: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(20);

/// How long a stretch may take, since timers are late meanwhile, and into how many it is cut when it takes longer.
pub(super) const WITHIN: Duration = Duration::from_secs(1);
const CUT: i64 = 16;

/// A stretch of the past, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// How far the past has been gone through.
pub(super) struct Past {
    /// When going through it last began; None: it has not yet.
    begun: Option<Instant>,
    /// What is before this time is left to do; None: all was done.
    to_ms: Option<i64>,
    /// Length of the next stretch.
    width_ms: i64,
}

impl Past {
    /// Returns a past of which nothing has been gone through.
    pub(super) fn new() -> Self {
        Self { begun: None, to_ms: None, width_ms: WIDTH_MIN_MS }
    }

    /// Returns the next stretch, if one is due; `ticks_from_ms` is the time from which ticks do what is due.
    pub(super) fn next(&mut self, ticks_from_ms: i64) -> Option<Stretch> {
        if self.to_ms.is_none() && self.begun.is_none_or(|begun| begun.elapsed() >= EVERY) {
            *self = Self { begun: Some(Instant::now()), to_ms: Some(ticks_from_ms), ..Self::new() };
        }
        self.to_ms.map(|to_ms| Stretch { from_ms: self.beginning(to_ms), to_ms })
    }

    fn beginning(&self, to_ms: i64) -> i64 {
        to_ms.saturating_sub(self.width_ms).max(0)
    }

    /// Notes that the stretch was gone through to its end.
    pub(super) fn done(&mut self, took: Duration) {
        self.to_ms = self.to_ms.map(|to_ms| self.beginning(to_ms)).filter(|from_ms| *from_ms > 0);
        self.adapt_width(took);
    }

    /// Notes that the stretch was gone through and may hold more than one call does: it is the next one again.
    pub(super) fn done_in_part(&mut self, took: Duration) {
        self.adapt_width(took);
    }

    fn adapt_width(&mut self, took: Duration) {
        if took > SLOW {
            self.width_ms = (self.width_ms / 2).max(WIDTH_MIN_MS);
        } else if took < QUICK {
            self.width_ms = self.width_ms.saturating_mul(2);
        }
    }

    /// Makes stretches much shorter: the last one took so long that it was given up.
    pub(super) fn cut(&mut self) {
        self.width_ms = (self.width_ms / CUT).max(WIDTH_MIN_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;
    const LONG: Duration = WITHIN;

    /// Goes through all of the past, with so much time for each stretch; returns how many there were.
    fn stretches(past: &mut Past, took: impl Fn(i64, i64) -> Duration) -> usize {
        let (mut down_to, mut count) = (NOW, 0);
        while let Some(Stretch { from_ms: from, to_ms: to }) = past.next(NOW) {
            assert!(to == down_to && from < to, "{from} to {to} after {down_to}");
            (down_to, count) = (from, count + 1);
            past.done(took(from, to));
        }
        assert_eq!(down_to, 0, "nothing is left out");
        count
    }

    #[test]
    fn all_of_the_past_is_gone_through_once_and_then_not_for_a_while() {
        let mut past = Past::new();
        assert!(stretches(&mut past, |_, _| Duration::ZERO) < 40, "where nothing is it takes no time");
        assert_eq!(past.next(NOW), None);
        past.begun = Some(Instant::now() - EVERY);
        assert_eq!(past.next(NOW), Some(Stretch { from_ms: NOW - WIDTH_MIN_MS, to_ms: NOW }));
    }

    #[test]
    fn where_it_takes_long_stretches_are_short() {
        const DENSE: i64 = 3_600_000;
        let mut past = Past::new();
        // A millisecond for a second of the last hour.
        let took = |from: i64, to: i64| {
            let dense = to - from.max(NOW - DENSE);
            let took = Duration::from_millis(u64::try_from(dense / 1000).unwrap_or(0));
            assert!(took <= 3 * SLOW, "{from} to {to} takes {took:?}");
            took
        };
        assert!(stretches(&mut past, took) < 1000);
    }

    #[test]
    fn one_that_holds_more_than_a_tick_does_is_gone_through_again() {
        let mut past = Past::new();
        let first = past.next(NOW);
        past.done_in_part(SLOW);
        assert_eq!(past.next(NOW), first);
    }

    #[test]
    fn one_that_takes_too_long_is_cut() {
        let mut past = Past::new();
        past.width_ms = NOW;
        past.to_ms = Some(NOW);
        for _ in 0..20 {
            past.cut();
        }
        let cut = Stretch { from_ms: NOW - WIDTH_MIN_MS, to_ms: NOW };
        assert_eq!(past.next(NOW), Some(cut));
        past.done(LONG);
        assert_eq!(past.next(NOW), Some(Stretch { from_ms: cut.from_ms - WIDTH_MIN_MS, to_ms: cut.from_ms }));
    }
}
