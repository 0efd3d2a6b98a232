//! One fault, again and again, and what was counted meanwhile.
//!
//! `make test` does a few of each, so that the campaigns themselves stay in order. `make faults` does `KILLS` of each
//! (or those that fit into `FAULT_SECONDS`), and leaves a row for every campaign: the tables in docs/trust.md are made of
//! these rows. A campaign ends at the first broken promise, with a row that says so.

use std::time::{Duration, Instant};

use crate::rows::{commit, leave, number};
use crate::verdict::Tally;

/// A campaign.
pub(crate) struct Campaign {
    name: &'static str,
    wanted: u64,
    until: Option<Instant>,
    begun: Instant,
    done: u64,
    tally: Tally,
}

impl Campaign {
    /// Begins one that does `few` faults when nobody says how many.
    pub(crate) fn new(name: &'static str, few: u64) -> Self {
        let begun = Instant::now();
        let until = number("FAULT_SECONDS").map(|seconds| begun + Duration::from_secs(seconds));
        let wanted = number("KILLS").unwrap_or(few);
        Self { name, wanted, until, begun, done: 0, tally: Tally::default() }
    }

    /// How many faults may still be done, at most so many.
    pub(crate) fn more(&self, most: u64) -> u64 {
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        if is_over { 0 } else { most.min(self.wanted.saturating_sub(self.done)) }
    }

    /// The same for clients that others may keep from the processor: more than were asked for as long as no read could
    /// be judged.
    pub(crate) fn more_until_judged(&self, most: u64) -> u64 {
        const TIMES: u64 = 10;
        match self.more(most) {
            0 if self.tally.judged == 0 && self.done < TIMES * self.wanted => most.min(self.wanted),
            more => more,
        }
    }

    /// Counts faults and what they left; ends the campaign if a promise was broken.
    pub(crate) fn count(&mut self, faults: u64, tally: &Tally) {
        self.done += faults;
        self.tally.add(tally);
        if !tally.broken.is_empty() {
            self.report();
            panic!("{}: after {} faults: {}", self.name, self.done, tally.broken.join("\n"));
        }
    }

    /// The same for faults that cut clients off from their answers: where none was left in doubt, none was cut off.
    pub(crate) fn finish_in_doubt(self) {
        assert!(self.tally.in_doubt > 0, "{}: {} faults, and every client was told", self.name, self.done);
        self.finish();
    }

    /// Sees that the rounds so far said something: a store that always hides what it may hold is judged by nothing.
    pub(crate) fn has_judged(&self) {
        assert!(self.tally.judged > 0, "{}: no read could be judged", self.name);
    }

    /// Leaves the row.
    pub(crate) fn finish(self) {
        assert!(
            self.done > 0 && self.tally.acknowledged > 0,
            "{}: there was no load, or no fault",
            self.name
        );
        self.report();
    }

    fn report(&self) {
        let tally = &self.tally;
        // Where nothing was judged, as with a cache, which may forget, a 0 would claim what nobody looked at.
        let judged = |count: u64| if tally.judged == 0 { "–".to_owned() } else { count.to_string() };
        let counts = [
            self.done.to_string(),
            tally.acknowledged.to_string(),
            judged(tally.lost),
            judged(tally.doubled),
            tally.invented.to_string(),
            tally.reordered.to_string(),
            judged(tally.wrong_nulls),
            judged(tally.judged),
            tally.in_doubt.to_string(),
            self.begun.elapsed().as_secs().to_string(),
        ];
        let counts = counts.join(" | ");
        leave(&format!("| {} | {counts} | {} |", self.name, commit()));
    }
}
