//! The run's clock, which stamps and schedule share, and the times at which its phases change.

pub(crate) use posthaste_measure::Clock;

use crate::tally::Window;

/// When the phases of the run change, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Time of the first request.
    pub(crate) origin: u64,
    /// The measured stretch.
    pub(crate) window: Window,
    /// Time from which clients only finish what they have begun.
    pub(crate) stop: u64,
    /// Time from which answers are no longer waited for, even if they keep arriving.
    pub(crate) give_up: u64,
}
