//! The log level, which can be changed while the program runs. A process has one log, and so one level.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock};

use posthaste_measure::lock;
use serde::{Deserialize, Serialize};

/// A log level; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also what may need attention.
    Warn,
    /// Also what happens normally.
    Info,
    /// Also every attempt.
    Debug,
}

impl LogLevel {
    /// All levels, from the fewest lines to the most.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Returns the level's word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let level = Self::ALL.into_iter().find(|level| level.word() == word);
        level.ok_or_else(|| "write error, warn, info or debug".to_owned())
    }
}

struct ProcessLog {
    level: Mutex<LogLevel>,
    apply: Box<dyn Fn(LogLevel) + Send + Sync>,
}

static LOG: OnceLock<ProcessLog> = OnceLock::new();

/// Registers the log of this process: its level is `first`, and `apply` changes it. Called once, when the log is
/// started.
pub fn install(first: LogLevel, apply: impl Fn(LogLevel) + Send + Sync + 'static) {
    let _ = LOG.set(ProcessLog { level: Mutex::new(first), apply: Box::new(apply) });
}

/// Returns the log level; None: this process has no log.
#[must_use]
pub fn log_level() -> Option<LogLevel> {
    LOG.get().map(|log| *lock(&log.level))
}

/// Sets the log level. Returns false if this process has no log.
pub fn set_log_level(level: LogLevel) -> bool {
    let Some(log) = LOG.get() else { return false };
    let mut current = lock(&log.level);
    (log.apply)(level);
    *current = level;
    true
}
