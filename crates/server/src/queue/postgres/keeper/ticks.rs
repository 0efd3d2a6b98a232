//! Letting time pass in the database: messages whose lease or delay has ended become ready, and expired ones are removed.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::failure::Failure;
use super::super::link::{ANSWER_WITHIN, Argument, Link};
use super::super::parked::Parked;
use super::super::replies::{Replies, Ticked};
use super::super::shared::Shared;
use super::news::{Outbox, pass_on};
use super::past::{self, Past, Stretch};

/// How often time passes: timers may be 200 ms late.
const EVERY: Duration = Duration::from_millis(50);

/// How far behind the last tick the next one begins, for transactions that commit late.
const BEHIND_MS: i64 = 10_000;

/// Where a tick begins while the server's time is not known: after everything, so that it only tells the time.
const NO_TIME_MS: i64 = i64::MAX;

/// How far time has passed.
pub(super) struct Ticks {
    ticked: Instant,
    /// Where the next tick begins.
    from_ms: i64,
    past: Past,
    /// Time has passed since a stretch of the past was gone through.
    is_past_due: bool,
    /// The last tick did as much as one may: the next one follows at once, after whatever else the keeper has to do.
    is_behind: bool,
}

impl Ticks {
    /// Returns ticks that begin now; what was due before is found by going through the past.
    pub(super) fn new() -> Self {
        Self {
            ticked: Instant::now(),
            from_ms: NO_TIME_MS,
            past: Past::new(),
            is_past_due: false,
            is_behind: false,
        }
    }

    /// Returns whether there is more to do at once.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Begins as if nothing were known: the server may have another clock, or too much is due for one tick.
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
                shared.wake(Parked::repeat_undone);
                shared.keeper_counts.note_tick(shared.time.millis());
                self.from_ms = ticked.map_or(NO_TIME_MS, |ticked| self.next_from_ms(ticked.done_ms));
                self.is_behind = ticked.is_some_and(Ticked::is_behind);
                self.is_past_due = true;
            }
            // It would take too long the next time too.
            Err(Failure::Stopped(_)) => self.begin_anew(),
            Err(_) => {}
        }
    }

    /// Returns where the next tick begins, after one that has done everything before this time.
    fn next_from_ms(&self, done_ms: i64) -> i64 {
        // A tick that had too much to expire has done nothing to the end, and begins at the same place again.
        if done_ms == self.from_ms { done_ms } else { done_ms - BEHIND_MS }
    }

    /// Goes through the next stretch of the past, if one is due: one after a tick.
    pub(super) fn look_at_the_past(&mut self, shared: &Shared, link: &mut Link, outbox: &Outbox) {
        if !std::mem::take(&mut self.is_past_due) || self.from_ms == NO_TIME_MS {
            return;
        }
        let Some(Stretch { from_ms, to_ms }) = self.past.next(self.from_ms) else { return };
        let begun = Instant::now();
        link.wait_for(past::WITHIN);
        let ticked = let_time_pass(shared, link, outbox, Some(to_ms), from_ms);
        link.wait_for(ANSWER_WITHIN);
        match ticked {
            Ok(ticked) => {
                let is_behind = ticked.is_some_and(Ticked::is_behind);
                match is_behind {
                    true => self.past.done_in_part(begun.elapsed()),
                    false => self.past.done(begun.elapsed()),
                }
                self.is_behind |= is_behind;
            }
            Err(Failure::Stopped(_)) => self.past.cut(),
            Err(_) => {}
        }
    }
}

/// Has the database do what is due from one time to another (None: to now), and passes the news on, here and elsewhere.
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
    shared.count_all(&replies.counts);
    pass_on(shared, &replies.news);
    outbox.add(&replies.news);
    Ok(replies.ticked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_there_is_too_much_to_expire_at_once_ticks_begin_at_the_same_place() {
        let mut ticks = Ticks::new();
        ticks.from_ms = 50_000;
        assert_eq!(ticks.next_from_ms(50_000), 50_000);
        assert_eq!(ticks.next_from_ms(70_000), 60_000);
        assert_eq!(ticks.next_from_ms(40_000), 30_000, "the server's clock was set back");
    }
}
