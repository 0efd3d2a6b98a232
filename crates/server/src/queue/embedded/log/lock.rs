//! One process per directory.
//!
//! The lock is the kernel's (`flock`), so it goes when the process goes, however it dies; the number in the file
//! is only for the message. A lock made of the file's existence would outlive a crash.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::disk::{Directory, Disk as _};
use super::error::{LogError, OpenError};

const NAME: &str = "lock";

/// Holds the directory until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the directory, or says who has it.
    pub(super) fn take(directory: &Directory) -> Result<Self, OpenError> {
        let failed = |error: io::Error| LogError::io("lock", &directory.path(NAME), &error);
        let mut file = directory.file(NAME, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(OpenError::Locked { directory: directory.path.clone(), pid: holder(&mut file) });
            }
            Err(error) => return Err(failed(error.into()).into()),
        }
        // The number only serves a message: on a full disk the lock holds without it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
