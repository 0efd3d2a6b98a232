//! The clock of a program: nanoseconds since its start, never going back.
//!
//! A stamp is a `u64` instead of an `Instant`, so that it is cheap to store, to subtract and to write down.
//! The start is kept on the wall clock and on the machine's monotonic clock: by the latter, records of
//! several programs on one machine can be aligned exactly, whatever the wall clock did meanwhile.
//!
//! A clock can also be driven by hand. Its users do not notice, so a whole tier can run on simulated time. A
//! program on the machine's clock pays one comparison for that, where reading the clock costs fifty.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A started clock. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_monotonic_ns: u64,
    started_unix_ns: u64,
    hand: Option<&'static Hand>,
}

/// Drives a clock by hand: the time stands still until it is set.
#[derive(Debug)]
pub struct Hand {
    began: Instant,
    now_ns: AtomicU64,
}

impl Hand {
    /// Makes a hand that shows zero. It lives as long as the program, since clocks are copied freely.
    #[must_use]
    pub fn at_zero() -> &'static Self {
        Box::leak(Box::new(Self { began: Instant::now(), now_ns: AtomicU64::new(0) }))
    }

    /// Returns the time it shows, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Sets the time it shows, in nanoseconds.
    pub fn set(&self, now_ns: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Returns the time it will show at an instant taken from its clock.
    #[must_use]
    pub fn at(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The wall clock and the machine's monotonic clock at one instant. Two of these, from the start and the end
/// of a run, show whether the wall clock was set in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockPair {
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Nanoseconds of the machine's monotonic clock.
    pub monotonic_ns: u64,
    /// Error bound: both were read within this time of each other.
    pub error_ns: u64,
}

/// Number of readings of which the best is taken: a thread may lose the processor between two clocks.
const PAIRS: usize = 5;

impl ClockPair {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        let read = |_| {
            let before = monotonic_ns();
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let error_ns = (monotonic_ns() - before).div_ceil(2);
            let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
            Self { unix_ns, monotonic_ns: before + error_ns, error_ns }
        };
        (1..PAIRS)
            .map(read)
            .fold(read(0), |best, pair| if pair.error_ns < best.error_ns { pair } else { best })
    }
}

impl Clock {
    /// Starts a clock at zero. To be called once per program.
    #[must_use]
    pub fn start() -> Self {
        let pair = ClockPair::now();
        Self { started_monotonic_ns: pair.monotonic_ns, started_unix_ns: pair.unix_ns, hand: None }
    }

    /// Makes a clock driven by `hand`, with this start on the wall clock.
    #[must_use]
    pub fn by_hand(hand: &'static Hand, started_unix_ns: u64) -> Self {
        Self { started_monotonic_ns: 0, started_unix_ns, hand: Some(hand) }
    }

    /// Returns the nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        match self.hand {
            None => monotonic_ns() - self.started_monotonic_ns,
            Some(hand) => hand.now(),
        }
    }

    /// Returns the current time as an `Instant`, for code that calculates with those.
    #[must_use]
    pub fn instant(&self) -> Instant {
        match self.hand {
            None => Instant::now(),
            Some(hand) => hand.began + Duration::from_nanos(hand.now()),
        }
    }

    /// Returns the nanoseconds since the start, for a stamp. With the feature `unmeasured`, which shows the
    /// cost of measuring, it is 0 and free.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> u64 {
        if cfg!(feature = "unmeasured") { 0 } else { self.now() }
    }

    /// Returns the start in milliseconds since 1970, as the wall clock showed it then.
    #[must_use]
    pub fn started_unix_ms(&self) -> u64 {
        self.started_unix_ns / 1_000_000
    }

    /// Returns the start in nanoseconds since 1970, as the wall clock showed it then.
    #[must_use]
    pub fn started_unix_ns(&self) -> u64 {
        self.started_unix_ns
    }

    /// Returns the start in nanoseconds of the machine's monotonic clock.
    #[must_use]
    pub fn started_monotonic_ns(&self) -> u64 {
        self.started_monotonic_ns
    }
}

#[inline]
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_driven_by_hand_shows_what_it_is_told_in_both_ways() {
        let hand = Hand::at_zero();
        let clock = Clock::by_hand(hand, 7_000_000);
        let before = clock.instant();
        hand.set(5);
        assert_eq!((clock.now(), clock.instant() - before), (5, Duration::from_nanos(5)));
        assert_eq!((hand.at(clock.instant()), clock.started_unix_ms()), (5, 7));
    }

    #[test]
    fn time_advances_by_what_was_slept_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let before = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let after = copy.now();
        assert!(after - before >= 5_000_000);
        assert!(after < 60_000_000_000, "counted from the start, not from boot");
    }
}
