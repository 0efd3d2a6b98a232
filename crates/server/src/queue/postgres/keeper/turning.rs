//! Turning the ring: what is left in its older part is set aside, so that the part can be emptied as a whole and be the next to fill.

use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::link::{Argument, Link};
use super::super::shared::Shared;
use super::one_more;
use crate::queue::EVENT_SOURCE;

/// How often it is looked at; after an attempt that had to give up, not for a while, and for so many times as long as it
/// took: a look at a large backlog takes long.
const EVERY: Duration = Duration::from_millis(250);
const AGAIN: Duration = Duration::from_secs(1);
const REST: u32 = 10;
/// While somebody reads it and does not end, as a dump does: all others wait for as long as this is tried.
const AGAIN_MAX: Duration = Duration::from_secs(8);

/// Bytes of the ring's current part above which it turns, and how long its readers are waited for.
const BYTES: i64 = 2 << 20;
const PATIENCE_MS: i32 = 50;

/// Messages that are set aside at once to empty a part of it: few, for it may be a straggler before others that are about to be
/// read, or all that stood still for a moment; twice as many each time that is followed by another.
const PIECE_MIN: i32 = 50;
const PIECE_MAX: i32 = 2000;

/// What the database says that it did to the ring, by the first word; and as an event.
const TURNED: &str = "turned";
const EASED: &str = "eased";
const READ: &str = "somebody reads";
const WORK: [(&str, &str); 3] = [(TURNED, "ring turned"), ("emptied", "ring emptied"), (EASED, "ring eased")];

/// Where it stands.
pub(super) struct Turning {
    /// When it is looked at next.
    at: Instant,
    /// How long it is left alone when it cannot be turned.
    again: Duration,
    /// The oldest message in the part of the ring that is to be emptied.
    oldest: Option<i64>,
    /// How far its messages have been set aside.
    head: Option<String>,
    /// How many of them are next.
    piece: i32,
}

impl Turning {
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), again: AGAIN, oldest: None, head: None, piece: PIECE_MIN }
    }

    /// Turns the ring a little further, if it is time to.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        if Instant::now() < self.at {
            return;
        }
        let events = &shared.reach.events;
        let (began, began_ns) = (Instant::now(), events.now());
        let row = self.turn(shared, link);
        let took = began.elapsed();
        self.oldest = row.as_ref().and_then(|row| row.get("oldest"));
        self.head = row.as_ref().and_then(|row| row.get("head"));
        let said: Option<String> = row.and_then(|row| row.get("said"));
        let work = said.as_ref().and_then(|said| WORK.iter().find(|work| said.starts_with(work.0)));
        self.plan(said.as_deref(), work.map(|work| work.0), took);
        if let Some((word, kind)) = work {
            events.since(began_ns, EVENT_SOURCE, *kind);
            if *word == TURNED {
                one_more(&shared.keeper_counts.ring_turns);
            }
        }
        if let Some(said) = said {
            tracing::debug!("the ring of messages: {said}");
        }
    }

    fn turn(&self, shared: &Shared, link: &mut Link) -> Option<Row> {
        let arguments: [Argument<'_>; 5] = [
            (&BYTES, Type::INT8),
            (&PATIENCE_MS, Type::INT4),
            (&self.piece, Type::INT4),
            (&self.oldest, Type::INT8),
            (&self.head, Type::TEXT),
        ];
        let turned = link.ask("SELECT * FROM posthaste.turn_ring($1, $2, $3, $4, $5)", &arguments);
        if turned.is_err() {
            one_more(&shared.keeper_counts.turn_failures);
        }
        turned.ok()?.into_iter().next()
    }

    /// When it is looked at next, and with how large a piece, after the database has said something or nothing and done `work` or none.
    fn plan(&mut self, said: Option<&str>, work: Option<&str>, took: Duration) {
        self.piece = if work == Some(EASED) { PIECE_MAX.min(2 * self.piece) } else { PIECE_MIN };
        let is_read = said.is_some_and(|said| said.starts_with(READ));
        self.again = if is_read { AGAIN_MAX.min(2 * self.again) } else { AGAIN };
        let is_done = said.is_none() || work.is_some();
        self.at = Instant::now() + if is_done { EVERY } else { self.again.max(took * REST) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    #[test]
    fn while_somebody_reads_it_is_tried_ever_more_seldom() {
        let mut turning = Turning::new();
        let rests: Vec<u64> = (0..5)
            .map(|_| {
                turning.plan(Some("somebody reads it"), None, QUICK);
                turning.again.as_secs()
            })
            .collect();
        assert_eq!(rests, [2, 4, 8, 8, 8]);
        turning.plan(Some("turned"), Some(TURNED), QUICK);
        assert_eq!(turning.again, AGAIN);
    }

    #[test]
    fn pieces_grow_while_one_follows_another() {
        let mut turning = Turning::new();
        for _ in 0..10 {
            turning.plan(Some("eased"), Some(EASED), QUICK);
        }
        assert_eq!(turning.piece, PIECE_MAX);
        turning.plan(None, None, QUICK);
        assert_eq!(turning.piece, PIECE_MIN);
    }

    #[test]
    fn after_a_look_that_took_long_and_gave_up_it_rests() {
        let mut turning = Turning::new();
        turning.plan(Some("too much to do"), None, Duration::from_secs(1));
        assert!(turning.at > Instant::now() + Duration::from_secs(9));
    }
}
