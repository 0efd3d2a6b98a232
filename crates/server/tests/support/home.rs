//! A directory for a store that commits thousands of times in a test which is not about the disk.

use std::path::Path;

use tempfile::TempDir;

/// As much as a test may need there.
const ENOUGH_BYTES: u64 = 256 << 20;

/// Makes one that is gone when the test is: in memory where there is room, as a disk may take half a second for a sync.
pub(crate) fn home() -> TempDir {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    let in_memory = (free >= ENOUGH_BYTES).then(|| tempfile::tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a temporary directory"))
}
