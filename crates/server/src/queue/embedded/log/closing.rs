//! What an orderly end leaves beside the segments: the number of the last frame.
//!
//! A log that a crash ended may lack its last frame, of which nobody was told. A log that was closed lacks nothing, so
//! when its files end sooner than this number says, somebody cut them short. A number from an earlier end is no lie: the
//! log has only grown since. Hence it is never taken away, and a lost or torn one only loses the check.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::disk::FILE_MODE;

const NAME: &str = "closed";

/// The last frame when the log was last closed in order, if that is known.
pub(super) fn read(directory: &Path) -> Option<u64> {
    fs::read_to_string(directory.join(NAME)).ok()?.trim_end().parse().ok()
}

/// Notes the last frame of a log that is being closed.
pub(super) fn write(directory: &Path, sequence: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    let mut file = options.open(directory.join(NAME))?;
    writeln!(file, "{sequence}")?;
    file.sync_all()
}
