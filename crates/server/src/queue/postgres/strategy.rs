//! Pop strategies: the ways for many readers to agree on who gets a message, one request at a time.
//!
//! They exist to be measured against each other and against the batch. See sql/0009_unbatched.sql and the files after
//! it, one for each strategy.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The longest first pause, and the longest of all: about one commit, and what no client takes for a failure yet.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// How a pop that takes one message makes sure that nobody else has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopStrategy {
    /// Passes over what others are taking.
    SkipLocked,
    /// Deletes; when somebody else did, looks again.
    DeleteRetry,
    /// Waits for the row's lock, then deletes.
    ForUpdate,
    /// Deletes in a REPEATABLE READ transaction; does it again when that fails.
    RepeatableRead,
    /// Marks the row as taken; the tick removes it.
    MarkUpdate,
}

/// What a pop does that was not the fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Tries again at once.
    #[default]
    None,
    /// Tries again after a random time, twice as long at most after each loss.
    Exponential,
}

/// How single pops are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popping {
    /// Who gets the message.
    pub strategy: PopStrategy,
    /// What the others do.
    pub backoff: Backoff,
}

impl PopStrategy {
    const ALL: [Self; 5] =
        [Self::SkipLocked, Self::DeleteRetry, Self::ForUpdate, Self::RepeatableRead, Self::MarkUpdate];

    /// Its name on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::SkipLocked => "skip-locked",
            Self::DeleteRetry => "delete-retry",
            Self::ForUpdate => "for-update",
            Self::RepeatableRead => "repeatable-read",
            Self::MarkUpdate => "mark-update",
        }
    }

    /// Whether a pop can find that somebody else was faster.
    #[must_use]
    pub const fn can_lose(self) -> bool {
        !matches!(self, Self::SkipLocked)
    }

    /// The statement that pops one message.
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
    /// The pause after so many losses.
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
        match text {
            "none" => Ok(Self::None),
            "exponential" => Ok(Self::Exponential),
            _ => Err(format!("unknown back-off {text}; known are none, exponential")),
        }
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
