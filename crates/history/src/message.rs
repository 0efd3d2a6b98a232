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

/// A message that a client tried to send.
#[derive(Clone, Debug)]
pub(crate) struct Message<'a> {
    /// The operation that sent it first.
    pub(crate) at: At,
    /// Index of the message among the bodies of its send.
    pub(crate) index: u32,
    /// The send's arguments.
    pub(crate) send: &'a Send,
    /// The account that sent it.
    pub(crate) sender: Name,
    /// Time before which the message did not exist.
    pub(crate) begun: Time,
    /// Time by which its send had been acknowledged; [`NEVER`] if no attempt was.
    pub(crate) acked: Time,
    /// Number of attempts to send it.
    pub(crate) attempts: u32,
    /// Number of attempts that were refused.
    pub(crate) refused: u32,
    /// The id that the acknowledgement told.
    pub(crate) id: Option<u64>,
    /// Range of its deliveries in `Story::handed`, in the order in which it was handed out.
    pub(crate) handed: Range<usize>,
    /// Index in `Story::shown` of the drain's answer that found it still in its queue.
    pub(crate) left: Option<usize>,
    /// Whether an answer showed it as a dead letter.
    pub(crate) was_moved: bool,
    /// Time by which it was certainly there, whether acknowledged or not.
    pub(crate) there_by: Time,
    /// Time from which it may have gone with its queue or by its time to live.
    pub(crate) ends_from: Time,
    /// Time from which a client may have held it, or it may have been gone.
    pub(crate) hidden_from: Time,
    /// Time from which it may have been gone for good.
    pub(crate) removed_from: Time,
    /// Time by which it was certainly gone for good.
    pub(crate) removed_by: Time,
}

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was acknowledged.
    Acknowledged,
    /// Every attempt was refused.
    Refused,
    /// No attempt was acknowledged, and at least one has an unknown outcome.
    InDoubt,
}

impl<'a> Message<'a> {
    /// Creates a message of which nothing is known yet but its send.
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
            was_moved: false,
            there_by: NEVER,
            ends_from: NEVER,
            hidden_from: NEVER,
            removed_from: NEVER,
            removed_by: NEVER,
        }
    }

    /// Returns what became of its send.
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

/// Returns why a reader with these conditions must not see a message, whatever its queue; None if it may.
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
