//! Rebuilds the state from the records of a log, one after the other.

use posthaste_measure::Clock;
use rustc_hash::FxHashMap;

use super::effect::Effect;
use super::log::{Location, Owner, Progress};
use super::message::{Home, Place};
use super::opening::OpeningLog;
use super::stock::Stock;
use crate::queue::rules::{MessageId, Millis};

/// The state as rebuilt so far.
pub(super) struct Replay {
    stock: Stock,
    /// When the most recent message was sent.
    last_sent_ms: Millis,
    numbers: Numbers,
    opening: OpeningLog,
}

impl Owner for Replay {
    fn replay(&mut self, at: Location, record: &[u8]) -> Result<(), String> {
        let effect = Effect::decode(record)?;
        self.stock.check_record(&effect)?;
        if let Effect::Message(written) = &effect {
            self.check_message(&written.place)?;
            self.last_sent_ms = self.last_sent_ms.max(written.sent_ms);
        }
        let len = u32::try_from(record.len()).map_err(|_| "a record beyond 4 GiB".to_owned())?;
        self.stock.apply(&effect, Home { at, len });
        self.stock.free_discarded(usize::MAX);
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.stock.check_complete()
    }

    fn note_progress(&mut self, progress: Progress) {
        self.opening.log_progress(progress);
    }
}

impl Replay {
    /// Begins with an empty state. Without a clock, no progress is logged.
    pub(super) fn begin(clock: Option<Clock>) -> Self {
        let opening = OpeningLog::begin(clock);
        Self { stock: Stock::default(), last_sent_ms: 0, numbers: Numbers::default(), opening }
    }

    /// Returns the state once every record was replayed, and logs what was read.
    pub(super) fn finish(self) -> Stock {
        self.opening.log_end(self.stock.queues.messages(), self.stock.queues.len());
        self.opening.warn_of_late_clock(self.last_sent_ms);
        self.stock
    }

    /// Checks that a message's number is new, or that the message is recorded again and in the place where it is.
    fn check_message(&mut self, place: &Place) -> Result<(), String> {
        match self.numbers.add(place.id()) || self.stock.holds(place) {
            true => Ok(()),
            false => Err(format!("message {} is recorded again, and is not where it should be", place.id())),
        }
    }
}

/// A set of message numbers, one bit each, since they are nearly consecutive.
#[derive(Default)]
struct Numbers(FxHashMap<u64, u64>);

impl Numbers {
    /// Adds a number. Returns whether it is new.
    fn add(&mut self, number: MessageId) -> bool {
        let (sixty_four, bit) = (self.0.entry(number / 64).or_default(), 1 << (number % 64));
        let is_new = *sixty_four & bit == 0;
        *sixty_four |= bit;
        is_new
    }
}
