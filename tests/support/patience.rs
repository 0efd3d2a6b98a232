//! Waiting, in one place, for what comes by itself.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take that is certain to come. Machines that are shared stand still at times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// How long a store may take to be back after a crash: how soon PostgreSQL has recovered is its own affair, and the
/// disk's.
pub(crate) const RECOVERY: Duration = Duration::from_secs(300);

/// How long until it is looked again.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: impl Display, mut holds: impl FnMut() -> bool) {
    wait_for(what, || if holds() { Ok(()) } else { Err("") });
}

/// Waits until a figure has grown so large. Each step of it may take as long as anything may.
#[track_caller]
pub(crate) fn wait_for_growth(what: impl Display, wanted: u64, mut figure: impl FnMut() -> u64) {
    let mut reached = figure();
    while reached < wanted {
        reached = wait_for(format!("{what}: more than {reached} of {wanted}"), || {
            let now = figure();
            if now > reached { Ok(now) } else { Err("") }
        });
    }
}

/// Waits until something is found, and meanwhile is told what is there instead.
#[track_caller]
pub(crate) fn wait_for<T, E: Display>(what: impl Display, look: impl FnMut() -> Result<T, E>) -> T {
    wait_within(PATIENCE, what, look)
}

/// The same for what may take longer.
#[track_caller]
pub(crate) fn wait_within<T, E: Display>(
    time: Duration,
    what: impl Display,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(start.elapsed() < time, "not within {time:?}: {what}\n{instead}"),
        }
        sleep(PAUSE);
    }
}
