//! The store's time: milliseconds since 1970 that never go back.
//!
//! Read once from the wall clock at the start and then carried by the monotonic clock, so a clock step while we
//! run moves no lease and no delay. After a restart the wall clock counts again.

use std::time::{Duration, Instant};

use posthaste_measure::Clock;

use crate::queue::rules::Millis;

/// A running clock.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    clock: Clock,
    started: Instant,
    started_unix: Millis,
}

impl Time {
    /// Starts it from the wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::of(Clock::start())
    }

    /// The same time as this clock's.
    #[must_use]
    pub fn of(clock: Clock) -> Self {
        let unix_ns = clock.started_unix_ns() + clock.now();
        Self { clock, started: clock.instant(), started_unix: unix_ns / 1_000_000 }
    }

    /// Now.
    #[must_use]
    pub fn millis(&self) -> Millis {
        self.started_unix + self.elapsed()
    }

    /// When it will be `at`; rounded up, so that at that instant `millis` has reached it.
    #[must_use]
    pub fn instant(&self, at: Millis) -> Instant {
        // Far deadlines are looked at again tomorrow: an Instant cannot hold every number.
        let ahead = at.saturating_sub(self.started_unix).min(self.elapsed() + 86_400_000);
        self.started + Duration::from_millis(ahead)
    }

    fn elapsed(&self) -> Millis {
        millis(self.clock.instant().saturating_duration_since(self.started))
    }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
