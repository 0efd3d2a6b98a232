//! What every store counts of messages: how many were sent, taken, and so on, since the process began.
//!
//! A message that was sent is still in a queue, or was taken without a lease, acknowledged, expired or purged. A lease
//! that ends without an ACK counts once, by what became of its message: returned, dead-lettered or expired.

/// What happens to a message, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageEvent {
    /// SEND or SENDMANY put it in a queue. Each copy of a `SEND … TO *` counts.
    Sent,
    /// POP handed it out, with a lease or for good. An answer that is given again for its REQID does not count.
    Taken,
    /// ACK removed it.
    Acknowledged,
    /// Its lease ran out or was ended by NACK, and it went back to its queue.
    Returned,
    /// Its TTL was over, and it was removed.
    Expired,
    /// It was moved to the queue for dead letters.
    DeadLettered,
    /// QPURGE or QDELETE removed it.
    Purged,
    /// It was not sent, because its DEDUP key was that of an earlier one. A SEND counts once, whoever it was to.
    Deduplicated,
}

/// What stands before the name of the event in the name of a figure.
const PREFIX: &str = "messages_";

/// The names of the figures, in the order of [`MessageEvent`].
const FIGURES: [&str; 8] = [
    "messages_sent",
    "messages_taken",
    "messages_acknowledged",
    "messages_returned",
    "messages_expired",
    "messages_dead_lettered",
    "messages_purged",
    "messages_deduplicated",
];

/// How many messages each event happened to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageCounts([u64; FIGURES.len()]);

impl MessageCounts {
    /// Counts that an event happened to so many messages.
    pub(crate) fn add(&mut self, event: MessageEvent, messages: u64) {
        self.0[event as usize] += messages;
    }

    /// Adds counts to these.
    pub(crate) fn add_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(count, other)| *count += other);
    }

    /// Returns the figures, each with its name.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FIGURES.into_iter().zip(self.0)
    }
}

/// Returns the name of the event that a figure counts; None: it is another figure.
pub(crate) fn event_name(figure: &str) -> Option<&str> {
    FIGURES.contains(&figure).then(|| figure.strip_prefix(PREFIX))?
}
