//! The disk of a simulated machine: the one of the log's own tests, which knows what is durable, behind a drive that
//! takes its time, fails, and goes off with the machine.
//!
//! While a commit is under way the drive lets the rest of the server go on: that is when other threads read what is not
//! durable yet, clients leave, and the power fails with half a frame written.

#[path = "../../src/queue/embedded/log/tests/simulated.rs"]
#[allow(dead_code, reason = "the log's own tests use more of it")]
mod simulated;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};

use self::simulated::SimulatedDisk;
use super::mutants::Mutant;
use super::world::{World, current};

/// Bytes that a disk without space still has.
const LAST_BYTES: u64 = 2_000;

/// A drive with its disk.
#[derive(Clone)]
pub(crate) struct Drive {
    disk: SimulatedDisk,
    is_off: Arc<AtomicBool>,
    fails_sync: Arc<AtomicBool>,
    fails_next: Arc<AtomicBool>,
}

impl Drive {
    /// A sound one with this on it.
    fn with(disk: SimulatedDisk) -> Self {
        Self { disk, is_off: Arc::default(), fails_sync: Arc::default(), fails_next: Arc::default() }
    }

    /// An empty one.
    pub(crate) fn empty() -> Self {
        Self::with(SimulatedDisk::new())
    }

    /// From now on nothing reaches it.
    pub(crate) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// What a process finds on it that starts later.
    pub(crate) fn after_kill(&self) -> Self {
        Self::with(self.disk.after_kill())
    }

    /// What is found on it after a power cut.
    pub(crate) fn after_power_cut(&self, dice: &mut Rng) -> Self {
        Self::with(self.disk.after_power_cut(dice))
    }

    /// Somebody else takes all space but a little, or gives it back.
    pub(crate) fn fill(&self, is_full: bool) {
        self.disk.set_capacity(if is_full { self.disk.used() + LAST_BYTES } else { u64::MAX });
    }

    /// Nothing is wrong with it any more.
    pub(crate) fn mend(&self) {
        self.fill(false);
        self.fails_sync.store(false, Ordering::Relaxed);
        self.fails_next.store(false, Ordering::Relaxed);
    }

    /// The next sync of a commit fails.
    pub(crate) fn fail_sync(&self) {
        self.fails_sync.store(true, Ordering::Relaxed);
    }

    /// The next change that is no part of a commit fails.
    pub(crate) fn fail_next(&self) {
        self.fails_next.store(true, Ordering::Relaxed);
    }

    /// Before every change.
    fn change(&self) -> io::Result<()> {
        if self.is_off.load(Ordering::Relaxed) {
            return Err(io::Error::other("the machine is off"));
        }
        let Some(world) = current() else { return Ok(()) };
        let is_commit = world.is_syncing();
        if !is_commit && self.fails_next.swap(false, Ordering::Relaxed) {
            world.count("failed preparations", 1);
            return Err(io::Error::other("the disk failed"));
        }
        if is_commit {
            self.pause(&world)?;
        }
        Ok(())
    }

    /// The disk takes its time, and the machine may go off meanwhile.
    fn pause(&self, world: &World) -> io::Result<()> {
        world.linger(world.below(1 + world.plan.sync_ns));
        if self.is_off.load(Ordering::Relaxed) {
            Err(io::Error::other("the machine went off"))
        } else {
            Ok(())
        }
    }
}

impl Disk for Drive {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Handle> {
        self.change()?;
        Ok(Arc::new(Opened { file: self.disk.create(name)?, drive: self.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Handle> {
        Ok(Arc::new(Opened { file: self.disk.open(name)?, drive: self.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change()?;
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.change()?;
        self.disk.sync()
    }
}

/// An open file of a drive.
struct Opened {
    file: Handle,
    drive: Drive,
}

impl DiskFile for Opened {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.drive.change()?;
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.drive.change()?;
        let Some(world) = current().filter(|world| world.is_syncing()) else { return self.file.sync() };
        if world.mutant == Some(Mutant::LyingDisk) {
            return Ok(());
        }
        if self.drive.fails_sync.swap(false, Ordering::Relaxed) {
            world.count("failed syncs", 1);
            self.drive.disk.fail_next_sync();
        }
        self.file.sync()?;
        // It is durable, and nobody knows yet.
        self.drive.pause(&world)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.drive.change()?;
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.drive.change()?;
        self.file.truncate(bytes)
    }
}
