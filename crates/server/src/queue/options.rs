//! What QCREATE set for a queue, as both stores keep it.

use std::sync::Arc;

use posthaste_wire::operation::{DeadLetter, QueueOptions};

use super::answer::{DeadLetterView, QueueDetail};
use super::rules::{Ask, Millis};

/// Returns the queue for the dead letters of a queue with these options.
pub(crate) fn dead_letters_of<'a>(ask: Ask<'a>, options: Option<&QueueOptions>) -> Option<&'a [u8]> {
    Some(options?.dead_letter?.queue.of(ask.bytes))
}

/// The options of a queue; what is absent is not limited or not wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) messages_max: Option<u64>,
    pub(crate) bytes_max: Option<u64>,
    pub(crate) ttl_ms: Option<Millis>,
    pub(crate) dead_letter: Option<DeadLetterPolicy>,
    pub(crate) forbid_self: bool,
    pub(crate) strict: bool,
}

/// When messages of a queue become dead letters, and where they go then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetterPolicy {
    /// Name of the queue for dead letters.
    pub(crate) queue: Arc<[u8]>,
    /// Number of deliveries after which a message goes there.
    pub(crate) after: u32,
}

impl DeadLetterPolicy {
    fn of(ask: Ask<'_>, option: DeadLetter) -> Self {
        Self { queue: ask.bytes_of(option.queue).into(), after: option.after }
    }

    fn view(&self) -> DeadLetterView<'_> {
        DeadLetterView { queue: &self.queue, after: self.after }
    }
}

impl Options {
    /// Returns the options of a request in a form that outlives it.
    pub(crate) fn of(ask: Ask<'_>, options: &QueueOptions) -> Self {
        Self {
            messages_max: options.messages_max,
            bytes_max: options.bytes_max,
            ttl_ms: options.ttl_ms,
            dead_letter: options.dead_letter.map(|option| DeadLetterPolicy::of(ask, option)),
            forbid_self: options.forbid_self,
            strict: options.strict,
        }
    }

    /// Returns the options as QINFO shows them, with the counts that only QINFO shows.
    pub(crate) fn detail(&self, leased: u64, delayed: u64) -> QueueDetail<'_> {
        QueueDetail {
            leased,
            delayed,
            messages_max: self.messages_max,
            bytes_max: self.bytes_max,
            ttl_ms: self.ttl_ms,
            dead_letter: self.dead_letter.as_ref().map(DeadLetterPolicy::view),
            forbid_self: self.forbid_self,
            strict: self.strict,
        }
    }
}
