//! Ends a run before its time, on all threads: what was measured until then is reported, with the reason.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::LoadError;

/// How often threads look whether the run is to end.
pub(crate) const HALT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Whether [`interrupt`] was called.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the run at hand, and every later one of this process, as soon as clients have finished what they began.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Returns whether [`interrupt`] was called.
#[must_use]
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if the run was interrupted; for the steps before the first request.
///
/// # Errors
/// The run was interrupted: there is nothing to report.
pub(crate) fn unless_interrupted() -> Result<(), LoadError> {
    if is_interrupted() { Err(LoadError::Interrupted) } else { Ok(()) }
}

/// How the threads of a run tell each other that it is to end.
#[derive(Debug, Default)]
pub(crate) struct Halt {
    overrun: AtomicBool,
}

impl Halt {
    /// Ends the run, since more requests are due than will ever be sent.
    pub(crate) fn overrun(&self) {
        self.overrun.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Halt::overrun`] ended the run.
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Returns whether the run is to end now.
    pub(crate) fn is_called(&self) -> bool {
        self.is_overrun() || is_interrupted()
    }
}
