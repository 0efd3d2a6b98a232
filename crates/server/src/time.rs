//! The store's time: milliseconds since 1970 that never go back.
//!
//! The wall clock is read once at the start; from then on the monotonic clock counts, so that a step of the wall clock
//! moves no lease and no delay. After a restart the wall clock counts again.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste_measure::Clock;

use crate::queue::rules::Millis;

/// Nanoseconds in a millisecond.
const MILLISECOND_NS: u64 = 1_000_000;

const DAY_MS: Millis = 86_400_000;

/// A clock of the store's time.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    clock: Clock,
    started: Instant,
    started_unix_ns: u64,
}

impl Time {
    /// Starts a clock from the wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::of(Clock::start())
    }

    /// Returns the store's time by the clock of the stamps.
    #[must_use]
    pub fn of(clock: Clock) -> Self {
        let started_unix_ns = clock.started_unix_ns() + clock.now();
        Self { clock, started: clock.instant(), started_unix_ns }
    }

    /// Returns the time now, rounded down once: if the start and the time since were rounded separately, it could be
    /// behind by up to 2 ms, and a lease that another process began would end early.
    #[must_use]
    pub fn millis(&self) -> Millis {
        let passed = self.clock.instant().saturating_duration_since(self.started);
        self.started_unix_ns.saturating_add(nanos(passed)) / MILLISECOND_NS
    }

    /// Returns the instant of the time `at`, rounded up, so that `millis` has reached it then.
    #[must_use]
    pub fn instant(&self, at: Millis) -> Instant {
        // Deadlines beyond a day are checked again after a day: an Instant cannot hold every number.
        let at = at.min(self.millis() + DAY_MS);
        self.started + Duration::from_nanos((at * MILLISECOND_NS).saturating_sub(self.started_unix_ns))
    }
}

/// Difference from the wall clock of which the log tells.
const DRIFT_MS: u64 = 60_000;

/// Compares a store's time with the wall clock now and then: they part when the wall clock is set, and when the machine
/// sleeps, as the monotonic clock stands still meanwhile. What is sent then bears a wrong date, which nothing else shows.
pub struct DriftWatch {
    time: Time,
    was_told: Cell<bool>,
}

impl DriftWatch {
    /// Watches this time.
    #[must_use]
    pub fn new(time: Time) -> Self {
        Self { time, was_told: Cell::new(false) }
    }

    /// Compares, and logs when the clocks have parted.
    pub fn look(&self) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(drift) = self.new_drift(nanos(wall) / MILLISECOND_NS) {
            tracing::warn!("{drift}");
        }
    }

    /// Returns what to tell of the difference when it is `wall` by the wall clock; None: little, or it was told.
    fn new_drift(&self, wall: Millis) -> Option<String> {
        let store = self.time.millis();
        let is_far = wall.abs_diff(store) > DRIFT_MS;
        let was_told = self.was_told.replace(is_far);
        (is_far && !was_told).then(|| {
            let (seconds, place) = (wall.abs_diff(store) / 1000, if wall > store { "behind" } else { "ahead of" });
            format!(
                "the store's clock is {seconds} s {place} the machine's, which was set, or slept: messages get a sent_ms \
                 that is wrong by that; restart the server to have it follow"
            )
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use posthaste_measure::{Clock, Hand};

    use super::{DriftWatch, Time};
    use crate::queue::rules::after;

    /// Wherever in a millisecond an interval begins, and whichever process it began in, it is never too short.
    #[test]
    fn an_interval_in_milliseconds_does_not_end_early() {
        const LASTS_MS: u64 = 5;
        for started_ns in [0, 1, 400_000, 999_999] {
            for begun_ns in [0, 1, 600_000, 999_999, 1_000_001] {
                let begun = at(started_ns, begun_ns).millis();
                let over = after(begun, LASTS_MS);
                let least_ns = started_ns + begun_ns + LASTS_MS * 1_000_000;
                // The next process may have been started in another part of a millisecond.
                for next_ns in [started_ns, 0, 1, 999_999] {
                    let just_before = at(next_ns, least_ns - next_ns - 1).millis();
                    assert!(just_before < over, "{started_ns}, {begun_ns}, {next_ns}");
                    let late = at(next_ns, least_ns - next_ns + 1_000_000).millis();
                    assert!(late >= over, "nor more than one later: {started_ns}, {begun_ns}, {next_ns}");
                }
            }
        }
    }

    #[test]
    fn an_instant_is_the_first_at_which_its_millisecond_has_come() {
        for started_ns in [0, 1, 999_999] {
            let hand = Hand::at_zero();
            let clock = Clock::by_hand(hand, started_ns);
            let time = Time::of(clock);
            let due = time.instant(7);
            let ahead = u64::try_from(due.duration_since(clock.instant()).as_nanos()).expect("short");
            hand.set(ahead - 1);
            assert_eq!(time.millis(), 6, "{started_ns}");
            hand.set(ahead);
            assert_eq!(time.millis(), 7, "{started_ns}");
        }
    }

    #[test]
    fn that_the_clocks_part_is_told_once_each_time() {
        let watch = DriftWatch::new(at(0, 1_000_000_000_000));
        for (wall, said) in [
            (1_000_000, None),
            (1_060_000, None),
            (1_061_000, Some("61 s behind")),
            (4_600_000, None),
            (1_000_000, None),
            (900_000, Some("100 s ahead of")),
        ] {
            let told = watch.new_drift(wall);
            assert_eq!(told.is_some(), said.is_some(), "{wall}: {told:?}");
            assert!(told.is_none_or(|told| told.contains(said.unwrap_or_default())), "{wall}");
        }
    }

    /// The time `passed_ns` after a start at `started_ns`.
    fn at(started_ns: u64, passed_ns: u64) -> Time {
        let hand = Hand::at_zero();
        let time = Time::of(Clock::by_hand(hand, started_ns));
        hand.set(passed_ns);
        time
    }
}
