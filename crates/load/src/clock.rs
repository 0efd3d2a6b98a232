//! The run's clock, which stamps and schedule share, and when the run changes.

pub(crate) use posthaste_measure::Clock;

use crate::tally::Window;

/// When the run changes, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// The first request.
    pub(crate) origin: u64,
    /// What is measured.
    pub(crate) window: Window,
    /// From here on clients only finish what they have begun.
    pub(crate) stop: u64,
    /// From here on answers are no longer waited for, even if they come.
    pub(crate) give_up: u64,
}
