//! Turning the ring: what is left in its older part is set aside, so that the part can be truncated and be the next to be
//! appended to.

use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::link::{Argument, Link};
use super::super::shared::Shared;
use super::dumps::{self, Dumps};
use super::one_more;
use crate::queue::EVENT_SOURCE;

/// How often the ring is looked at.
const EVERY: Duration = Duration::from_millis(250);

/// Pause after an attempt that had to give up; at least `REST` times as long as the attempt took, since a look at a large
/// backlog takes long.
const AGAIN: Duration = Duration::from_secs(1);
const REST: u32 = 10;

/// Longest pause while readers keep the part locked, as a dump does: during each attempt all other transactions wait.
const AGAIN_MAX: Duration = Duration::from_secs(8);

/// Bytes of the ring's current part above which it turns, and how long its readers are waited for.
const BYTES: i64 = 2 << 20;
const PATIENCE_MS: i32 = 50;

/// Messages that are set aside at once to empty a part: few at first, because those left may be about to be read; twice
/// as many each time one call after the other sets some aside.
const PIECE_MIN: i32 = 50;
const PIECE_MAX: i32 = 2000;

/// What a call of `turn_ring` did, as its column `said` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing was to be done.
    Idle,
    /// The part that was empty is appended to from now on.
    Turned,
    /// The part that is not appended to was emptied.
    Emptied,
    /// Some messages of the part that is to be emptied were set aside.
    Eased,
    /// The part could not be locked, since transactions read it, or is left as it is for a dump.
    Locked,
    /// The part is left as it is for another reason.
    Postponed,
}

impl Step {
    /// Returns what the database has said that it did; None: it did not answer, or has said nothing.
    fn of(said: Option<&str>) -> Self {
        let Some(said) = said else { return Self::Idle };
        if said.starts_with(dumps::POSTPONED) {
            return Self::Locked;
        }
        match said.split(' ').next() {
            Some("turned") => Self::Turned,
            Some("emptied") => Self::Emptied,
            Some("eased") => Self::Eased,
            Some("readers") => Self::Locked,
            _ => Self::Postponed,
        }
    }

    /// Returns the kind of event that is recorded.
    fn event(self) -> Option<&'static str> {
        match self {
            Self::Turned => Some("ring turned"),
            Self::Emptied => Some("ring emptied"),
            Self::Eased => Some("ring eased"),
            Self::Idle | Self::Locked | Self::Postponed => None,
        }
    }
}

/// How far turning has come.
pub(super) struct Turning {
    /// When the ring is looked at next.
    at: Instant,
    /// Pause after an attempt that had to give up.
    again: Duration,
    /// Place of the first message in the part that is to be emptied, as the last call returned it.
    oldest: Option<i64>,
    /// How far the messages of that part have been set aside, as the last call returned it.
    head: Option<String>,
    /// How many of them the next call sets aside.
    piece: i32,
}

impl Turning {
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), again: AGAIN, oldest: None, head: None, piece: PIECE_MIN }
    }

    /// Takes the next step of turning the ring, if it is time to.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link, dumps: &mut Dumps) {
        if Instant::now() < self.at {
            return;
        }
        let events = &shared.reach.events;
        let (began, began_ns) = (Instant::now(), events.now());
        let row = self.turn(shared, link, dumps);
        let took = began.elapsed();
        self.oldest = row.as_ref().and_then(|row| row.get("oldest"));
        self.head = row.as_ref().and_then(|row| row.get("head"));
        let said: Option<String> = row.and_then(|row| row.get("said"));
        dumps.look(said.as_deref(), link);
        let step = Step::of(said.as_deref());
        self.plan(step, took);
        shared.keeper_counts.note_ring(step == Step::Locked, shared.time.millis());
        if let Some(kind) = step.event() {
            events.since(began_ns, EVENT_SOURCE, kind);
        }
        if step == Step::Turned {
            one_more(&shared.keeper_counts.ring_turns);
        }
        if let Some(said) = said {
            tracing::debug!("the ring of messages: {said}");
        }
    }

    fn turn(&self, shared: &Shared, link: &mut Link, dumps: &Dumps) -> Option<Row> {
        let elsewhere = dumps.elsewhere();
        let arguments: [Argument<'_>; 6] = [
            (&BYTES, Type::INT8),
            (&PATIENCE_MS, Type::INT4),
            (&self.piece, Type::INT4),
            (&self.oldest, Type::INT8),
            (&self.head, Type::TEXT),
            (&elsewhere, Type::TEXT_ARRAY),
        ];
        let turned = link.ask("SELECT * FROM posthaste.turn_ring($1, $2, $3, $4, $5, $6)", &arguments);
        if turned.is_err() {
            one_more(&shared.keeper_counts.turn_failures);
        }
        turned.ok()?.into_iter().next()
    }

    /// Decides when the ring is looked at next, and how many messages are set aside then.
    fn plan(&mut self, step: Step, took: Duration) {
        self.piece = if step == Step::Eased { PIECE_MAX.min(2 * self.piece) } else { PIECE_MIN };
        self.again = if step == Step::Locked { AGAIN_MAX.min(2 * self.again) } else { AGAIN };
        let pause = match step {
            Step::Idle | Step::Turned | Step::Emptied | Step::Eased => EVERY,
            Step::Locked | Step::Postponed => self.again.max(took * REST),
        };
        self.at = Instant::now() + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    #[test]
    fn what_the_database_says_is_told_by_its_first_word() {
        let sql = include_str!("../../../../../../sql/0008_upkeep.sql");
        for (said, step) in [
            ("turned", Step::Turned),
            ("emptied ", Step::Emptied),
            ("eased %s, %s messages set aside", Step::Eased),
            ("readers keep a lock on ", Step::Locked),
            ("pg_dump may be about to read ", Step::Locked),
            ("backlog in ", Step::Postponed),
        ] {
            assert!(sql.contains(&format!("'{said}'")), "{said}");
            assert_eq!(Step::of(Some(said)), step);
        }
        assert_eq!(Step::of(None), Step::Idle);
    }

    #[test]
    fn while_readers_keep_it_locked_it_is_tried_ever_more_seldom() {
        let mut turning = Turning::new();
        let rests: Vec<u64> = (0..5)
            .map(|_| {
                turning.plan(Step::Locked, QUICK);
                turning.again.as_secs()
            })
            .collect();
        assert_eq!(rests, [2, 4, 8, 8, 8]);
        turning.plan(Step::Turned, QUICK);
        assert_eq!(turning.again, AGAIN);
    }

    #[test]
    fn pieces_grow_while_one_follows_another() {
        let mut turning = Turning::new();
        for _ in 0..10 {
            turning.plan(Step::Eased, QUICK);
        }
        assert_eq!(turning.piece, PIECE_MAX);
        turning.plan(Step::Idle, QUICK);
        assert_eq!(turning.piece, PIECE_MIN);
    }

    #[test]
    fn after_a_look_that_took_long_and_gave_up_it_rests() {
        let mut turning = Turning::new();
        turning.plan(Step::Postponed, Duration::from_secs(1));
        assert!(turning.at > Instant::now() + Duration::from_secs(9));
    }
}
