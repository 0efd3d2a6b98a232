//! A stored message: who may read it, and what time will do to it.

use std::sync::Arc;

use crate::queue::rules::{AccountId, MessageId, Millis, News, QueueId};

/// A message with everything except its id.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) queue: QueueId,
    pub(super) sender: AccountId,
    /// Recipient; None: anyone.
    pub(super) recipient: Option<AccountId>,
    pub(super) sent_ms: Millis,
    /// When its TTL ends, in milliseconds; None: never.
    pub(super) expires: Option<Millis>,
    pub(super) priority: u8,
    /// Number of times it was handed out.
    pub(super) deliveries: u32,
    /// Headers in the stored form.
    pub(super) headers: Arc<[u8]>,
    pub(super) body: Arc<[u8]>,
    pub(super) state: State,
    /// Origin of a message in a dead-letter queue.
    pub(super) dead: Option<Death>,
}

/// Whether a message can be read.
#[derive(Clone)]
pub(super) enum State {
    Ready,
    Delayed { until: Millis },
    Leased(Lease),
}

/// A reader's hold on a message.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) holder: AccountId,
    /// Number of this lease, by which a late answer to an earlier lease is recognised.
    pub(super) receipt: u64,
    pub(super) until: Millis,
}

/// Origin of a dead letter.
#[derive(Clone)]
pub(super) struct Death {
    /// Name of its first queue; not the number, so that a queue made anew under this name takes its letters back.
    pub(super) first_queue: Arc<[u8]>,
    pub(super) reason: &'static str,
}

/// Place in reading order: higher priority first, then lower id.
pub(super) type Rank = (u8, MessageId);

impl Message {
    pub(super) fn rank(&self, id: MessageId) -> Rank {
        (u8::MAX - self.priority, id)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Leased(lease) => Some(lease),
            State::Ready | State::Delayed { .. } => None,
        }
    }

    /// Returns about how many bytes of memory the message takes, with its places in all indexes, rounded up.
    pub(super) fn bytes(&self) -> u64 {
        const BESIDE_TEXTS: u64 = 512;
        BESIDE_TEXTS + (self.body.len() + self.headers.len()) as u64
    }

    /// Returns whether its TTL has ended at the time `at`.
    pub(super) fn is_expired(&self, at: Millis) -> bool {
        self.expires.is_some_and(|expires| expires <= at)
    }

    /// Returns when time next changes it. A leased message outlives its TTL: its reader may still acknowledge it.
    pub(super) fn timer(&self) -> Option<Millis> {
        match &self.state {
            State::Ready => self.expires,
            State::Delayed { until } => Some(self.expires.map_or(*until, |expires| expires.min(*until))),
            State::Leased(lease) => Some(lease.until),
        }
    }

    /// Returns the news of this message. Exactly the readers whom it would wake up may read the message.
    pub(super) fn news(&self) -> News {
        News::Available { queue: self.queue, sender: self.sender, recipient: self.recipient }
    }

    /// Returns the state's name in QBROWSE.
    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::Ready => "ready",
            State::Delayed { .. } => "delayed",
            State::Leased(_) => "leased",
        }
    }
}
