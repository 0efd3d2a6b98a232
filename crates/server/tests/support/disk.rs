//! The simulated disk of the log's own tests, with something that happens before a file is made or opened.

use std::sync::Arc;

pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};
pub(crate) use watched::Step;

#[path = "../../src/queue/embedded/log/tests/simulated.rs"]
#[allow(dead_code, reason = "the log's own tests use more of it")]
mod simulated;
#[path = "../../src/queue/embedded/log/tests/watched.rs"]
mod watched;

/// Makes an empty disk on which `before` is called before each step.
pub(crate) fn delayed_disk(before: impl Fn(Step) + Send + Sync + 'static) -> Arc<dyn Disk> {
    let before = move |step, _: &str| before(step);
    Arc::new(watched::WatchedDisk { disk: simulated::SimulatedDisk::new(), before })
}
