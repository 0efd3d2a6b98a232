//! The log on stderr: lines for people, or one JSON object a line.

use std::io::{self, Write};

use tracing::Level;

use crate::flags::{LogFormat, LogLevel, RunFlags};

/// Starts logging; called once.
pub(crate) fn start(flags: &RunFlags) {
    let level = match flags.log_level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_writer(|| Stderr).with_target(false).with_max_level(level);
    match flags.log_format {
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
