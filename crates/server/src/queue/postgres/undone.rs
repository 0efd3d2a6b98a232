//! What is said of a request that was not done, or not to the end: why, and what it has changed. Clients go by that:
//! after "nothing was changed" they may repeat anything.

use std::fmt;

use posthaste_wire::fault::{Fault, Word};

use super::failure::Failure;
use crate::queue::faults;

/// What a request has changed that goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It has removed at least so many messages, in transactions of their own.
    Removed(u64),
    /// It has moved at least so many messages, in transactions of their own.
    Moved(u64),
    /// Nobody can tell whether it was done.
    Unknown,
}

impl Changed {
    pub(super) const NOTHING: Self = Self::Removed(0);

    /// Returns what a request has changed that had changed this before a call for it failed like this.
    fn once_failed(self, failure: &Failure) -> Self {
        match (self, failure) {
            (Self::Removed(0) | Self::Moved(0), Failure::Broken(_)) => Self::Unknown,
            _ => self,
        }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(0) | Self::Moved(0) => f.write_str("nothing was changed; try again"),
            Self::Removed(messages) => {
                write!(f, "at least {messages} messages were removed; ask again for the rest")
            }
            Self::Moved(messages) => f.write_str(&faults::moved_before(*messages)),
            Self::Unknown => f.write_str("it is unknown whether the request was done"),
        }
    }
}

/// Returns the refusal of a request that goes no further: why, and what it has changed.
pub(super) fn undone(word: Word, why: impl fmt::Display, changed: Changed) -> Fault {
    Fault::about(word, format!("{why}; {changed}"))
}

/// Returns the refusal of a request for which a call has failed; `before`: what it had changed before.
pub(super) fn failed(failure: &Failure, before: Changed) -> Fault {
    undone(Word::Store, failure, before.once_failed(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_surely_changed_nothing_is_said_to_have_changed_nothing() {
        let (sure, unsure) = (Failure::Elsewhere, Failure::Broken("it broke".into()));
        for (before, failure, said) in [
            (Changed::NOTHING, &sure, "nothing was changed"),
            (Changed::Moved(0), &sure, "nothing was changed"),
            (Changed::NOTHING, &unsure, "it is unknown"),
            (Changed::Moved(0), &unsure, "it is unknown"),
            (Changed::Removed(7), &sure, "at least 7 messages were removed"),
            (Changed::Removed(7), &unsure, "at least 7 messages were removed"),
            (Changed::Moved(7), &sure, "at least 7 messages were moved"),
            (Changed::Moved(7), &unsure, "at least 7 messages were moved"),
        ] {
            let Fault { word, text } = failed(failure, before);
            assert!(word == Word::Store && text.contains(said), "{before:?}, {failure:?}: {text}");
            let are_said = ["nothing was changed", "it is unknown", "at least"].iter();
            assert_eq!(are_said.filter(|said| text.contains(**said)).count(), 1, "{text}");
        }
    }
}
