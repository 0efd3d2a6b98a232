//! The one clock of a program: nanoseconds since its start, never going back.
//!
//! A stamp is a `u64` instead of an `Instant`, so that it is cheap to store, to subtract and to write down.
//! The start is kept on the wall clock and on the machine's monotonic clock: with the second, records of
//! several programs on one machine are aligned exactly, whatever the wall clock did meanwhile.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A started clock. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_monotonic_ns: u64,
    started_unix_ms: u64,
}

impl Clock {
    /// Starts at zero, now. Once per program.
    #[must_use]
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started_monotonic_ns: monotonic_ns(),
            started_unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        monotonic_ns() - self.started_monotonic_ns
    }

    /// The same for a stamp. In a build made to show what measuring costs (feature `unmeasured`) it is 0 for nothing.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> u64 {
        if cfg!(feature = "unmeasured") { 0 } else { self.now() }
    }

    /// The start in milliseconds since 1970, as the wall clock showed it then.
    #[must_use]
    pub fn started_unix_ms(&self) -> u64 {
        self.started_unix_ms
    }

    /// The start in nanoseconds of the machine's monotonic clock.
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
