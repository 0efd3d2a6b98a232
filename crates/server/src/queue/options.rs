//! What QCREATE set for a queue, as both stores keep it.

use std::sync::Arc;

use posthaste_wire::operation::QueueOptions;

use super::answer::QueueDetail;
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
    /// Name of the queue for dead letters, and the number of deliveries after which a message goes there.
    pub(crate) dead_letter: Option<(Arc<[u8]>, u32)>,
    pub(crate) forbid_self: bool,
    pub(crate) strict: bool,
}

impl Options {
    /// Returns the options of a request in a form that outlives it.
    pub(crate) fn of(ask: Ask<'_>, options: &QueueOptions) -> Self {
        let name = |span: posthaste_wire::span::Span| span.of(ask.bytes).into();
        Self {
            messages_max: options.messages_max,
            bytes_max: options.bytes_max,
            ttl_ms: options.ttl_ms,
            dead_letter: options.dead_letter.map(|dead| (name(dead.queue), dead.after)),
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
            dead_letter: self.dead_letter.as_ref().map(|(name, after)| (&**name, *after)),
            forbid_self: self.forbid_self,
            strict: self.strict,
        }
    }
}
