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

struct Dial {
    stands_at: Mutex<LogLevel>,
    turn: Box<dyn Fn(LogLevel) + Send + Sync>,
}

static DIAL: OnceLock<Dial> = OnceLock::new();

/// Registers the log of this process: its level is `first`, and `turn` changes it. Called once, when the log is
/// started.
pub fn install(first: LogLevel, turn: impl Fn(LogLevel) + Send + Sync + 'static) {
    let _ = DIAL.set(Dial { stands_at: Mutex::new(first), turn: Box::new(turn) });
}

/// Returns the log level; None: this process has no log.
#[must_use]
pub fn log_level() -> Option<LogLevel> {
    DIAL.get().map(|dial| *lock(&dial.stands_at))
}

/// Sets the log level. Returns false if this process has no log.
pub fn set_log_level(level: LogLevel) -> bool {
    let Some(dial) = DIAL.get() else { return false };
    let mut stands_at = lock(&dial.stands_at);
    (dial.turn)(level);
    *stands_at = level;
    true
}
