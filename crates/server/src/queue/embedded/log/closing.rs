//! The note that an orderly close leaves beside the segments: the number of the last frame.
//!
//! A log that ended with a crash may lack its last frame, which was never acknowledged. A log that was closed lacks
//! nothing, so if its files end before this number, they were cut short. The note of an earlier close stays true,
//! since the log has only grown since. Hence it is never removed, and if it is lost or torn only this check is lost.

use std::io;

use super::disk::Disk;

/// Name of the file.
pub(super) const NAME: &str = "closed";

/// Most bytes that a note has.
const BYTES_MAX: usize = 32;

/// Returns the number of the last frame when the log was last closed in order, if it is known.
pub(super) fn read(disk: &dyn Disk) -> Option<u64> {
    let mut bytes = [0; BYTES_MAX];
    let read = disk.open_to_read(NAME).and_then(|file| file.read_at(&mut bytes, 0)).ok()?;
    str::from_utf8(&bytes[..read]).ok()?.trim_end().parse().ok()
}

/// Notes the last frame of a log that is being closed.
pub(super) fn write(disk: &dyn Disk, sequence: u64) -> io::Result<()> {
    let file = disk.create(NAME)?;
    file.write_at(format!("{sequence}\n").as_bytes(), 0)?;
    file.sync()
}
