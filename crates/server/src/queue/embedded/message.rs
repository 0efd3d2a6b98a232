//! What is kept in memory of a message: its place, the location of its record, and what time will do to it.
//!
//! The body is never kept. A message that is simply waiting to be read (no TTL, never handed out) needs its rank and
//! an [`Entry`], 24 bytes in all; the other fields here exist only for the few messages that need them.

use super::log::Location;
use crate::queue::rules::{AccountId, MessageId, Millis, News, QueueId};

/// Stands for the recipient of a message to anyone; accounts count from 1.
pub(super) const ANYONE: AccountId = 0;

/// Place in reading order as one number: higher priority first, then lower id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u64);

/// Ids stay below 2^53, so the priority fits above them.
const PRIORITY_SHIFT: u32 = 56;
const ID_MASK: u64 = (1 << PRIORITY_SHIFT) - 1;

impl Rank {
    pub(super) fn new(priority: u8, id: MessageId) -> Self {
        Self((u64::from(u8::MAX - priority) << PRIORITY_SHIFT) | id.min(ID_MASK))
    }

    /// Returns a rank behind every message of this priority.
    pub(super) fn last(priority: u8) -> Self {
        Self::new(priority, ID_MASK)
    }

    /// Returns the rank whose [`Rank::number`] this is.
    pub(super) fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns a number that orders like the rank.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn id(self) -> MessageId {
        self.0 & ID_MASK
    }

    pub(super) fn priority(self) -> u8 {
        u8::MAX - (self.0 >> PRIORITY_SHIFT) as u8
    }
}

/// Messages of one sender to one recipient in one queue: no reader can tell them apart but by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) queue: QueueId,
    pub(super) sender: AccountId,
    /// Recipient, or [`ANYONE`] for a message without one.
    pub(super) recipient: AccountId,
}

/// Everything needed to find a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lane: LaneKey,
    pub(super) rank: Rank,
}

impl Place {
    pub(super) fn id(&self) -> MessageId {
        self.rank.id()
    }

    pub(super) fn news(&self) -> News {
        let LaneKey { queue, sender, recipient } = self.lane;
        News::Available { queue, sender, recipient: (recipient != ANYONE).then_some(recipient) }
    }
}

/// The record that holds the present state of something, except for what later records changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) at: Location,
    /// Bytes of the record.
    pub(super) len: u32,
}

/// What is kept of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) home: Home,
    pub(super) body_len: u32,
}

/// A message with all that is kept of it: one that needs more than an entry, or one lifted out of the indexes.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) entry: Entry,
    /// Number of times it was handed out.
    pub(super) deliveries: u32,
    /// When its TTL ends, in milliseconds; None: never.
    pub(super) expires: Option<Millis>,
    pub(super) state: State,
    /// Only in a dead-letter queue.
    pub(super) death: Option<Box<Death>>,
    /// Whether it was moved since its record was written: by the queue in that record it would not be found.
    pub(super) moved: bool,
}

/// Whether a message can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Delayed { until: Millis },
    Leased(Lease),
}

/// A reader's hold on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: AccountId,
    /// Number of this lease, by which a late answer to an earlier lease is recognised.
    pub(super) receipt: u64,
    pub(super) until: Millis,
}

/// Origin of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    /// Name of its first queue; not the number, so that a queue made anew under this name takes its letters back.
    pub(super) first_queue: Box<[u8]>,
    pub(super) reason: Reason,
}

/// Why a message became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    LeaseRanOut,
    Nack,
}

impl Reason {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::LeaseRanOut => "lease ran out",
            Self::Nack => "nack",
        }
    }
}

impl State {
    pub(super) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Leased(lease) => Some(lease),
            Self::Ready | Self::Delayed { .. } => None,
        }
    }

    /// Returns the state's name in QBROWSE.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed { .. } => "delayed",
            Self::Leased(_) => "leased",
        }
    }
}

impl Message {
    /// Returns a message of which nothing is kept but its entry.
    pub(super) fn plain(place: Place, entry: Entry) -> Self {
        Self { place, entry, deliveries: 0, expires: None, state: State::Ready, death: None, moved: false }
    }

    /// Returns whether nothing but its entry needs to be kept.
    pub(super) fn is_plain(&self) -> bool {
        self.is_ready()
            && self.deliveries == 0
            && self.expires.is_none()
            && self.death.is_none()
            && !self.moved
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.state.lease()
    }

    /// Returns whether its TTL has ended at the time `at`.
    pub(super) fn is_expired(&self, at: Millis) -> bool {
        self.expires.is_some_and(|expires| expires <= at)
    }

    /// Returns when time next changes it. A leased message outlives its TTL: its reader may still acknowledge it.
    pub(super) fn timer(&self) -> Option<Millis> {
        match self.state {
            State::Ready => self.expires,
            State::Delayed { until } => Some(self.expires.map_or(until, |expires| expires.min(until))),
            State::Leased(lease) => Some(lease.until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_orders_by_priority_then_id_and_gives_both_back() {
        let ranks = [Rank::new(255, 9), Rank::new(1, 2), Rank::new(0, 1), Rank::new(0, (1 << 53) - 1)];
        assert!(ranks.is_sorted());
        assert_eq!((ranks[3].priority(), ranks[3].id()), (0, (1 << 53) - 1));
        assert_eq!((ranks[0].priority(), ranks[0].id()), (255, 9));
    }
}
