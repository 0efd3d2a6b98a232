//! The room of queues with limits, where it is noted what came and left and no batch of sends takes it up.

use std::time::{Duration, Instant};

use super::super::link::Link;

/// How often it is: what is noted meanwhile is added up by each SQL client that sends.
const EVERY: Duration = Duration::from_secs(60);

pub(super) struct Rooms {
    settled: Instant,
}

impl Rooms {
    pub(super) fn new() -> Self {
        Self { settled: Instant::now() }
    }

    /// Has the database take up what was noted, once in a while.
    pub(super) fn settle(&mut self, link: &mut Link) {
        if self.settled.elapsed() >= EVERY {
            self.settled = Instant::now();
            // What is left is settled the next time.
            let _ = link.ask("SELECT posthaste.settle_rooms()", &[]);
        }
    }
}
