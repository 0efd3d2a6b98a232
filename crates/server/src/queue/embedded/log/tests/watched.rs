//! The simulated disk, with something that happens before a file is made or opened.

use std::io;
use std::path::PathBuf;

use super::super::disk::{Disk, Handle};
use super::simulated::SimulatedDisk;

/// What is about to be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Open,
}

/// A disk on which `before` is called before each step, with the file's name.
pub(super) struct WatchedDisk<F> {
    pub(super) disk: SimulatedDisk,
    pub(super) before: F,
}

impl<F: Fn(Step, &str) + Send + Sync> Disk for WatchedDisk<F> {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Handle> {
        (self.before)(Step::Create, name);
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Handle> {
        (self.before)(Step::Open, name);
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
