//! The log on stderr: lines for people, or one JSON object a line.

use std::io::{self, Write};

use crate::flags::LogFormat;

/// Starts logging; called once.
pub(crate) fn start(format: LogFormat) {
    let log = tracing_subscriber::fmt().with_writer(|| Stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Stderr that may be gone: whoever read the log is no reason for the server to end.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
