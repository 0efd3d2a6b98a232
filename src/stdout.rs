//! What the program says to whoever called it.

use std::error::Error;
use std::io::{ErrorKind, Write as _, stdout};

/// Writes to stdout; whoever reads only the beginning of it is no failure.
pub(crate) fn say(text: &str) -> Result<(), Box<dyn Error>> {
    let mut stdout = stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
