//! What all journals together say of one message: when it can have been there, and when it can have gone.
//!
//! Certain and possible are kept apart throughout: `acked` and `there_by` are times by which it was certainly there,
//! `hidden_from` and `removed_from` the first times at which it may have gone, `removed_by` the time by which it
//! certainly had.

use std::ops::Range;

use crate::names::Name;
use crate::operation::{Select, Send};
use crate::verdict::At;
use crate::{NEVER, Time};

/// One message that somebody tried to send.
#[derive(Clone, Debug)]
pub(crate) struct Message<'a> {
    /// Its send, or the first attempt.
    pub(crate) at: At,
    /// Which of the send's bodies it is.
    pub(crate) index: u32,
    /// How it was sent.
    pub(crate) send: &'a Send,
    /// By whom.
    pub(crate) sender: Name,
    /// Before this it did not exist.
    pub(crate) begun: Time,
    /// By this it had been acknowledged.
    pub(crate) acked: Time,
    /// How often it was sent under its key.
    pub(crate) attempts: u32,
    /// How many attempts were refused.
    pub(crate) refused: u32,
    /// What the acknowledgement said.
    pub(crate) id: Option<u64>,
    /// Of the story's deliveries, in the order in which it was handed out.
    pub(crate) handed: Range<usize>,
    /// Found in its queue at the end: of what the story was shown.
    pub(crate) left: Option<usize>,
    /// By this it was certainly there, whether acknowledged or not.
    pub(crate) there_by: Time,
    /// From this on it may have gone with its queue, or its time to live.
    pub(crate) ends_from: Time,
    /// From this on it may have been with somebody, or gone.
    pub(crate) hidden_from: Time,
    /// From this on it may have been gone for good.
    pub(crate) removed_from: Time,
    /// By this it was certainly gone for good.
    pub(crate) removed_by: Time,
}

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was acknowledged.
    Acknowledged,
    /// Every attempt was refused.
    Refused,
    /// Nobody knows.
    InDoubt,
}

impl<'a> Message<'a> {
    /// One that an operation tried to send.
    pub(crate) fn new(at: At, index: u32, send: &'a Send, sender: Name) -> Self {
        Self {
            at,
            index,
            send,
            sender,
            begun: NEVER,
            acked: NEVER,
            attempts: 0,
            refused: 0,
            id: None,
            handed: 0..0,
            left: None,
            there_by: NEVER,
            ends_from: NEVER,
            hidden_from: NEVER,
            removed_from: NEVER,
            removed_by: NEVER,
        }
    }

    /// What became of its send.
    pub(crate) fn fate(&self) -> Fate {
        if self.acked < NEVER {
            Fate::Acknowledged
        } else if self.refused == self.attempts {
            Fate::Refused
        } else {
            Fate::InDoubt
        }
    }
}

/// Why a reader with these conditions must not see a message, wherever it lies; None: it may.
pub(crate) fn hides(message: &Message<'_>, reader: Name, select: &Select) -> Option<&'static str> {
    if message.send.to.is_some_and(|to| to != reader) {
        Some("it is for somebody else")
    } else if select.broadcast && message.send.to.is_some() {
        Some("it is addressed, where only messages to anyone were asked for")
    } else if select.from.is_some_and(|from| from != message.sender) {
        Some("it is from another sender than was asked for")
    } else if select.not_own && message.sender == reader {
        Some("the reader sent it, and asked for none of its own")
    } else {
        None
    }
}
