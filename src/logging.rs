//! The log on stderr: lines for people, or one JSON object a line.

use crate::flags::LogFormat;

/// Starts logging; called once.
pub(crate) fn start(format: LogFormat) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
