//! Has the database subtract what was noted from the room of queues with limits, also where no batch sends.

use std::time::{Duration, Instant};

use super::super::link::Link;

/// How often: until then each SQL client that sends adds up what was noted.
const EVERY: Duration = Duration::from_secs(60);

/// When rooms were settled last.
pub(super) struct Rooms {
    settled: Instant,
}

impl Rooms {
    pub(super) fn new() -> Self {
        Self { settled: Instant::now() }
    }

    /// Settles rooms, if it is time to.
    pub(super) fn settle(&mut self, link: &mut Link) {
        if self.settled.elapsed() >= EVERY {
            self.settled = Instant::now();
            // After a failure the next time does it.
            let _ = link.ask("SELECT posthaste.settle_rooms()", &[]);
        }
    }
}
