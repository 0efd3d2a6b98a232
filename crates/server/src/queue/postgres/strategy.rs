//! Pop strategies: ways for many readers to agree on which of them gets a message, one request at a time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Upper bounds of the first pause and of any pause: about one commit, and what no client takes for a failure yet.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// How a pop that takes one message makes sure that no other pop gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopStrategy {
    /// Skips rows that others are taking.
    SkipLocked,
    /// Deletes the row; looks again if another pop has deleted it first.
    DeleteRetry,
    /// Waits for the row's lock, then deletes.
    ForUpdate,
    /// Deletes in a REPEATABLE READ transaction, and repeats that when it fails.
    RepeatableRead,
    /// Marks the row as taken; a later tick removes it.
    MarkUpdate,
}

/// What a pop does after another one was faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Tries again at once.
    #[default]
    None,
    /// Tries again after a random time, whose upper bound doubles with each loss.
    Exponential,
}

/// How single pops are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popping {
    /// How it is decided which pop gets the message.
    pub strategy: PopStrategy,
    /// How pops try again that were not the fastest.
    pub backoff: Backoff,
}

impl PopStrategy {
    /// All strategies.
    pub const ALL: [Self; 5] =
        [Self::SkipLocked, Self::DeleteRetry, Self::ForUpdate, Self::RepeatableRead, Self::MarkUpdate];

    /// Returns its name on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::SkipLocked => "skip-locked",
            Self::DeleteRetry => "delete-retry",
            Self::ForUpdate => "for-update",
            Self::RepeatableRead => "repeatable-read",
            Self::MarkUpdate => "mark-update",
        }
    }

    /// Returns whether a pop can find that another one was faster.
    #[must_use]
    pub const fn can_lose(self) -> bool {
        !matches!(self, Self::SkipLocked)
    }

    /// Returns the statement that pops one message.
    pub(super) const fn statement(self) -> &'static str {
        match self {
            Self::SkipLocked => "SELECT * FROM posthaste.pop_skip_locked($1, $2, $3, $4, $5, $6, $7)",
            Self::DeleteRetry => "SELECT * FROM posthaste.pop_delete_retry($1, $2, $3, $4, $5, $6, $7)",
            Self::ForUpdate => "SELECT * FROM posthaste.pop_for_update($1, $2, $3, $4, $5, $6, $7)",
            Self::RepeatableRead => "SELECT * FROM posthaste.pop_repeatable_read($1, $2, $3, $4, $5, $6, $7)",
            Self::MarkUpdate => "SELECT * FROM posthaste.pop_mark_update($1, $2, $3, $4, $5, $6, $7)",
        }
    }
}

impl Backoff {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::None, Self::Exponential];

    /// Returns the pause after this many losses.
    pub(super) fn pause(self, losses: u32) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Exponential => {
                let most = PAUSE_MIN.saturating_mul(1 << losses.saturating_sub(1).min(16)).min(PAUSE_MAX);
                most.mul_f64(fastrand::f64())
            }
        }
    }
}

impl fmt::Display for PopStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PopStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|strategy| strategy.name() == text);
        known.ok_or_else(|| {
            format!("unknown pop strategy {text}; known are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Exponential => "exponential",
        })
    }
}

impl FromStr for Backoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|backoff| backoff.to_string() == text);
        known.ok_or_else(|| format!("unknown back-off {text}; known are none, exponential"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, PopStrategy};

    #[test]
    fn every_strategy_is_known_by_the_name_it_shows() {
        for strategy in PopStrategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            let function = strategy.to_string().replace('-', "_");
            assert!(strategy.statement().contains(&format!("pop_{function}(")), "{strategy}");
        }
        assert!("skip".parse::<PopStrategy>().expect_err("no name").contains("skip-locked, delete-retry"));
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let longest = |losses| (0..1000).map(|_| Backoff::Exponential.pause(losses)).max().expect("some");
        assert!(longest(1) <= Duration::from_millis(1));
        let fourth = longest(4);
        assert!(fourth > Duration::from_millis(4) && fourth <= Duration::from_millis(8), "{fourth:?}");
        assert!(longest(u32::MAX) <= Duration::from_millis(64));
        assert_eq!(Backoff::None.pause(9), Duration::ZERO);
    }
}
