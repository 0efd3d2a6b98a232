//! What can happen to the store: one value per kind of log record.
//!
//! The rules decide, and what they decided is an effect: it is applied to the state and appended to the log, and on
//! opening the same effects are read and applied again. So an effect holds outcomes, never questions: numbers that
//! were given out, moments that were computed. What time does alone (a delay is over, a TTL runs out) needs no effect,
//! because the message's own record says when.

use super::message::{Lease, Place, Reason, State};
use super::remembered::RequestKey;
use crate::queue::options::Options;
use crate::queue::rules::{AccountId, MessageId, Millis, QueueId};

/// One change of the store.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect<'a> {
    /// A name got a number, or logged in for the first time.
    Account { id: AccountId, known: bool, name: &'a [u8] },
    /// A queue was made, or got other options.
    Queue { id: QueueId, name: &'a [u8], options: Options },
    /// A queue was removed with its messages.
    QueueGone { id: QueueId },
    /// A queue's messages were removed.
    Purged { id: QueueId },
    /// A message came in, or was written again, in its present state, at the end of the log.
    Message(Written<'a>),
    /// A message was removed.
    Removed(Place),
    /// A message was handed out on a lease, or the lease was extended.
    Leased { place: Place, lease: Lease, deliveries: u32 },
    /// A leased message came back; it can be read from `until` on, or at once.
    Returned { place: Place, until: Option<Millis> },
    /// A message was moved to another queue (or anew into its own), where it can be read at once.
    Moved { place: Place, to: QueueId, deliveries: u32, death: Option<DeathNote<'a>> },
    /// A SEND with a key was answered.
    Answered { key: RequestKey, end: Millis, answer: u64 },
    /// A POP with a key was answered with these messages.
    Handed { key: RequestKey, end: Millis, answer: HandedOut<'a> },
    /// Numbers up to these were given out. Recorded because the records that show it may be dropped.
    Counters { message: MessageId, queue: QueueId },
}

/// A message with everything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written<'a> {
    pub(super) place: Place,
    pub(super) sent_ms: Millis,
    pub(super) deliveries: u32,
    pub(super) expires: Option<Millis>,
    pub(super) state: State,
    pub(super) death: Option<DeathNote<'a>>,
    /// Headers in the stored form.
    pub(super) headers: &'a [u8],
    pub(super) body: &'a [u8],
}

/// What the record of a dead letter says of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeathNote<'a> {
    pub(super) reason: Reason,
    pub(super) first_queue: &'a [u8],
}

/// The answer of a POP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandedOut<'a> {
    /// Whether an array was asked for.
    pub(super) many: bool,
    pub(super) copies: Copies<'a>,
}

/// Messages as they were when they were handed out, each with the name of its queue at that time; see
/// [`Copies::push`](super::record).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies<'a>(pub(super) &'a [u8]);
