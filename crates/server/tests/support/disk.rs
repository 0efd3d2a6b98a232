//! The simulated disk of the log's own tests, with something that happens before a file is made or opened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};

#[path = "../../src/queue/embedded/log/tests/simulated.rs"]
#[allow(dead_code, reason = "the log's own tests use more of it")]
mod simulated;

/// What is about to be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Open,
}

struct DelayedDisk<F> {
    disk: simulated::SimulatedDisk,
    before: F,
}

/// Makes an empty disk on which `before` is called before each step.
pub(crate) fn delayed_disk(before: impl Fn(Step) + Send + Sync + 'static) -> Arc<dyn Disk> {
    Arc::new(DelayedDisk { disk: simulated::SimulatedDisk::new(), before })
}

impl<F: Fn(Step) + Send + Sync> Disk for DelayedDisk<F> {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Handle> {
        (self.before)(Step::Create);
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Handle> {
        (self.before)(Step::Open);
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}
