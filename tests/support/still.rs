//! Waiting until what goes on stands still.

use std::thread::sleep;
use std::time::Duration;

use crate::support::patience::wait_until;

/// What has not grown for so long has stopped.
const STILL: Duration = Duration::from_millis(300);

/// Waits until a figure has begun to grow and grows no more.
#[track_caller]
pub(crate) fn wait_until_still(what: &str, mut figure: impl FnMut() -> u64) {
    let mut before = 0;
    wait_until(format!("{what}: no more of them"), || {
        sleep(STILL);
        let now = figure();
        let is_still = now > 0 && now == before;
        before = now;
        is_still
    });
}
