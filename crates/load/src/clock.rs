//! The run's clock: nanoseconds since its origin, the same for all threads.

use std::time::Instant;

use crate::tally::Window;
use crate::timespan::nanos;

/// Tells the time since the run's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub(crate) fn now(self) -> u64 {
        nanos(self.origin.elapsed())
    }
}

/// When the run changes, in nanoseconds since the origin of its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// What is measured.
    pub(crate) window: Window,
    /// From here on clients only finish what they have begun.
    pub(crate) stop: u64,
    /// From here on answers are no longer waited for.
    pub(crate) give_up: u64,
}
