//! What an orderly end leaves beside the segments: the number of the last frame.
//!
//! A log that a crash ended may lack its last frame, of which nobody was told. A log that was closed lacks nothing, so
//! when its files end sooner than this number says, somebody cut them short. A number from an earlier end is no lie: the
//! log has only grown since. Hence it is never taken away, and a lost or torn one only loses the check.

use std::io;

use super::disk::Disk;

const NAME: &str = "closed";

/// No note is longer.
const BYTES_MAX: usize = 32;

/// The last frame when the log was last closed in order, if that is known.
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
