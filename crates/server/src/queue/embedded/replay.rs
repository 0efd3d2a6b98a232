//! Rebuilds the state from the records of a log, one after the other.

use rustc_hash::FxHashMap;

use super::effect::Effect;
use super::log::Location;
use super::message::{Home, Place};
use super::stock::Stock;
use crate::queue::rules::{MessageId, Millis};

/// The state as rebuilt so far.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) stock: Stock,
    /// When the most recent message was sent.
    pub(super) last_sent_ms: Millis,
    numbers: Numbers,
}

impl Replay {
    /// Applies one record.
    ///
    /// # Errors
    /// Says why it makes no sense.
    pub(super) fn apply(&mut self, at: Location, bytes: &[u8]) -> Result<(), String> {
        let effect = Effect::decode(bytes)?;
        self.stock.can_be(&effect)?;
        if let Effect::Message(written) = &effect {
            self.can_come(&written.place)?;
            self.last_sent_ms = self.last_sent_ms.max(written.sent_ms);
        }
        let len = u32::try_from(bytes.len()).map_err(|_| "a record beyond 4 GiB".to_owned())?;
        self.stock.apply(&effect, Home { at, len });
        Ok(())
    }

    /// Checks that a message's number is new, or that the message is recorded again and in the place where it is.
    fn can_come(&mut self, place: &Place) -> Result<(), String> {
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
