//! The log on stderr: lines for people, or one JSON object a line.

use std::io::{self, Write};
use std::sync::OnceLock;

use posthaste_server::log_level::{self, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{registry, reload};

use crate::flags::{LogFormat, RunFlags};

/// The format of the log, once logging has started.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Returns whether the output of this program is to be lines of JSON.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Starts logging; called once.
pub(crate) fn start(flags: &RunFlags) {
    FORMAT.get_or_init(|| flags.log_format);
    let (least, dial) = reload::Layer::new(filter(flags.log_level));
    log_level::install(flags.log_level, move |level| {
        // Fails only when the log is gone, which lasts as long as the process.
        let _ = dial.reload(filter(level));
    });
    let log = tracing_subscriber::fmt::layer().with_writer(|| Stderr).with_target(false);
    match flags.log_format {
        LogFormat::Text => registry().with(least).with(log.with_ansi(false)).init(),
        LogFormat::Json => registry().with(least).with(log.json().flatten_event(true)).init(),
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Stderr, ignoring errors: a reader of the log that is gone is no reason for the server to end.
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
