//! For how long a batch is tried. A batch that took too long, or waited for a lock, is tried in parts that share one
//! time limit, so that the request to blame does not keep the others waiting once for each part. A part gets half of
//! the time left, and the last part all of it.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use super::failure::Failure;
use super::link::ANSWER_WITHIN;
use super::locked_accounts;
use super::under_way::Since;

/// A batch that is tried, whole or in parts.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// The call that the batch is part of.
    pub(super) since: Since,
    /// When the batch's time is over; None: every call has the usual limit.
    until: Option<Instant>,
}

/// The attempts for the parts of a batch that has failed as a whole.
pub(super) struct Parts {
    pub(super) first: Attempt,
    pub(super) rest: Attempt,
}

impl Attempt {
    /// Returns the first attempt of a batch.
    pub(super) fn first(since: Since) -> Self {
        Self { since, until: None }
    }

    /// Returns how long the database may take; None: the time is over.
    pub(super) fn within(self) -> Option<Duration> {
        let left = self.until.map_or(ANSWER_WITHIN, |until| until.saturating_duration_since(Instant::now()));
        (!left.is_zero()).then_some(left)
    }

    /// Returns the attempts for the parts of a batch that has failed like this.
    pub(super) fn in_parts(self, failure: &Failure) -> Parts {
        let now = Instant::now();
        let until = self.until.or_else(|| waited(failure).then(|| now + ANSWER_WITHIN));
        let half = until.map(|until| now + until.saturating_duration_since(now) / 2);
        Parts { first: Self { until: half, ..self }, rest: Self { until, ..self } }
    }
}

/// Returns whether a part that fails like this takes long to do so.
fn waited(failure: &Failure) -> bool {
    match failure {
        Failure::Stopped(_) => true,
        Failure::Refused(error) => {
            error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) || locked_accounts::is_cause(failure)
        }
        Failure::Unreachable(_) | Failure::Elsewhere | Failure::Broken(_) => false,
    }
}

/// Returns whether the database may have failed because it was asked for too much at once.
pub(super) fn was_too_much(failure: &Failure) -> bool {
    match failure {
        Failure::Stopped(_) => true,
        Failure::Refused(error) => {
            matches!(error.code(), Some(&SqlState::OUT_OF_MEMORY | &SqlState::CONFIGURATION_LIMIT_EXCEEDED))
        }
        Failure::Unreachable(_) | Failure::Elsewhere | Failure::Broken(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::postgres::under_way::{Mode, UnderWay};

    #[test]
    fn the_parts_of_what_took_too_long_have_one_time_together() {
        let first = Attempt::first(UnderWay::default().begin(0, 0, Mode::Shared));
        assert_eq!(first.within(), Some(ANSWER_WITHIN));
        let Parts { first: mut part, rest } = first.in_parts(&Failure::told_to_stop());
        assert!(rest.within().is_some_and(|left| left <= ANSWER_WITHIN));
        for halves in 1..5 {
            assert!(part.within().is_some_and(|left| left <= ANSWER_WITHIN / (1 << halves)));
            let Parts { first: half, rest: all } = part.in_parts(&Failure::told_to_stop());
            assert_eq!(all.until, part.until, "no more than it had");
            part = half;
        }
        assert_eq!(first.in_parts(&Failure::Elsewhere).first.within(), Some(ANSWER_WITHIN));
        assert!(Attempt { until: Some(Instant::now()), ..first }.within().is_none());
    }
}
