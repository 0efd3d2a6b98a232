//! Makes sure that only one process has a directory open.
//!
//! The lock is the kernel's (`flock`), so it ends with the process, however that dies; the process id in the file is
//! only for the error message. A lock that consists in the file's existence would outlive a crash. The directory is
//! locked too, if its file system can do that, because somebody may take the file for a left-over and remove it.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::disk::{Directory, Disk as _};
use super::error::{LogError, OpenError};

/// Name of the file.
pub(super) const NAME: &str = "lock";
const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

/// Holds the directory until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the directory, or returns an error that names the process that holds it.
    pub(super) fn take(directory: &Directory) -> Result<Self, OpenError> {
        let held = |pid| OpenError::Locked { directory: directory.path.clone(), pid };
        let failed = |error: io::Error| LogError::io("lock", &directory.path(NAME), &error);
        if flock(&directory.place, EXCLUSIVE) == Err(Errno::WOULDBLOCK) {
            return Err(held(directory.file(NAME, OFlags::RDONLY).ok().and_then(holder)));
        }
        let mut file = directory.file(NAME, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        match flock(&file, EXCLUSIVE) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(holder(file))),
            Err(error) => return Err(failed(error.into()).into()),
        }
        // The process id only serves a message: on a full disk the lock holds without it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(file: File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
