//! Letting time pass in the database: messages whose lease has run out or whose delay is over come back, and those whose life is over go.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::link::{ANSWER_WITHIN, Argument, Failure, Link};
use super::super::replies::{Replies, Ticked};
use super::super::shared::Shared;
use super::news::{Outbox, pass_on};
use super::past::{self, Past};

/// How often time passes: timers may be 200 ms late.
const EVERY: Duration = Duration::from_millis(50);

/// How far behind the last tick the next one begins, for who commits late.
const BEHIND_MS: i64 = 10_000;

/// Where a tick begins that does not know what time it is at the server: after everything, so that it finds that out.
const NO_TIME_MS: i64 = i64::MAX;

/// How far time has passed.
pub(super) struct Ticks {
    ticked: Instant,
    /// Where the next tick begins.
    from_ms: i64,
    past: Past,
    /// The last tick did as much as one does: the next one follows at once, though after whatever else is due.
    is_behind: bool,
}

impl Ticks {
    /// Ticks begin now, and what was due before is found in the past.
    pub(super) fn new() -> Self {
        Self { ticked: Instant::now(), from_ms: NO_TIME_MS, past: Past::new(), is_behind: false }
    }

    /// Whether there is more to do at once.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Begins as if nothing were known: the server has another clock, perhaps, or there is too much before it for a tick.
    pub(super) fn begin_anew(&mut self) {
        self.from_ms = NO_TIME_MS;
        self.past = Past::new();
    }

    /// Lets time pass, if it is time to.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link, outbox: &Outbox) {
        if !self.is_behind && self.ticked.elapsed() < EVERY {
            return;
        }
        self.ticked = Instant::now();
        self.is_behind = false;
        match let_time_pass(shared, link, outbox, None, self.from_ms) {
            Ok(ticked) => {
                shared.reach.works();
                shared.keeper_counts.note_tick(shared.time.millis());
                self.from_ms = ticked.map_or(NO_TIME_MS, |ticked| ticked.done_ms - BEHIND_MS);
                self.is_behind = ticked.is_some_and(Ticked::is_behind);
                self.go_through_the_past(shared, link, outbox);
            }
            // It would take too long the next time too.
            Err(Failure::Stopped(_)) => self.begin_anew(),
            Err(_) => {}
        }
    }

    /// One stretch of it.
    fn go_through_the_past(&mut self, shared: &Shared, link: &mut Link, outbox: &Outbox) {
        if self.from_ms == NO_TIME_MS {
            return;
        }
        let Some((from_ms, to_ms)) = self.past.next(self.from_ms) else { return };
        let begun = Instant::now();
        link.wait_for(past::WITHIN);
        let ticked = let_time_pass(shared, link, outbox, Some(to_ms), from_ms);
        link.wait_for(ANSWER_WITHIN);
        match ticked {
            Ok(ticked) => {
                let is_behind = ticked.is_some_and(Ticked::is_behind);
                self.past.done(begun.elapsed(), is_behind);
                self.is_behind |= is_behind;
            }
            Err(Failure::Stopped(_)) => self.past.cut(),
            Err(_) => {}
        }
    }
}

/// What is due from a time on to another one, or to now, comes back; and whoever waits for it is called, here and elsewhere.
fn let_time_pass(
    shared: &Shared,
    link: &mut Link,
    outbox: &Outbox,
    to_ms: Option<i64>,
    from_ms: i64,
) -> Result<Option<Ticked>, Failure> {
    let arguments: [Argument<'_>; 2] = [(&to_ms, Type::INT8), (&from_ms, Type::INT8)];
    let rows = link.ask_prepared("SELECT * FROM posthaste.upkeep($1, $2, 1000)", &arguments)?;
    let replies = Replies::new(rows, &[], &[]);
    pass_on(shared, &replies.news);
    outbox.add(&replies.news);
    Ok(replies.ticked)
}
