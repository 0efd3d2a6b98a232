//! Output on stdout.

use std::error::Error;
use std::io::{ErrorKind, Write as _, stdout};

/// Writes to stdout; a reader that closes the pipe early is no error.
pub(crate) fn say(text: &str) -> Result<(), Box<dyn Error>> {
    let mut stdout = stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
