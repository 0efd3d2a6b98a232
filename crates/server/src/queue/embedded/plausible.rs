//! Refuses a log that cannot be true though each of its records can be read: numbers that were never given out,
//! messages of queues that have no record, two numbers with one name, or one number with two. (Two messages of one
//! number: see [`replay`](super::replay).)
//!
//! The checksums were right, so another program or a defect wrote this. Accepted, it would do harm later: the next
//! number would be too high to be counted, an answer would lack its queue's name, a queue would have another name
//! once old segments are gone. So opening fails and says where.

use std::fmt::Display;

use super::effect::Effect;
use super::stock::Stock;
use crate::queue::rules::{MessageId, QueueId};

/// Numbers given out stay below this; see [`MessageId`].
const ID_END: u64 = 1 << 53;

impl Stock {
    /// Checks that a record can be true, given those before it.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(super) fn check_record(&self, effect: &Effect<'_>) -> Result<(), String> {
        match effect {
            Effect::Account { id, name, .. } => {
                let named = self.accounts.recorded(*id).map(|account| &*account.name);
                check_name("account", *id, name, named, self.accounts.find(name))
            }
            Effect::Queue { id, name, .. } => {
                check_queue_id(*id)?;
                let recorded = self.queues.get(*id).filter(|queue| queue.home.is_some());
                check_name("queue", *id, name, recorded.map(|queue| &*queue.name), self.queues.find(name))
            }
            Effect::Message(written) => {
                check_message_id(written.place.id())?;
                check_queue_id(written.place.lane.queue)
            }
            Effect::Moved { to, .. } => check_queue_id(*to),
            Effect::Counters { message, queue } if *message >= ID_END || *queue >= ID_END => {
                Err(format!("the numbers {message} and {queue} cannot have been given out"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that all records together can be true.
    ///
    /// # Errors
    /// Says why they cannot.
    pub(super) fn check_complete(&self) -> Result<(), String> {
        if let Some(id) = self.accounts.gap() {
            return Err(format!("it names accounts with numbers above {id} and none with {id}"));
        }
        match self.queues.all().any(|queue| queue.home.is_none()) {
            true => Err("it holds messages of a queue that it does not name".to_owned()),
            false => Ok(()),
        }
    }
}

fn check_message_id(id: MessageId) -> Result<(), String> {
    match (1..ID_END).contains(&id) {
        true => Ok(()),
        false => Err(format!("a message cannot have the number {id}")),
    }
}

fn check_queue_id(id: QueueId) -> Result<(), String> {
    match (1..ID_END).contains(&id) {
        true => Ok(()),
        false => Err(format!("a queue cannot have the number {id}")),
    }
}

/// Checks that a number can have a name, given the name that it has already and the number that has the name already.
fn check_name<Id: PartialEq + Display>(
    kind: &str,
    id: Id,
    name: &[u8],
    named: Option<&[u8]>,
    numbered: Option<Id>,
) -> Result<(), String> {
    if named.is_some_and(|named| named != name) {
        return Err(format!("{kind} {id} has two names"));
    }
    match numbered.filter(|other| *other != id) {
        Some(other) => Err(format!("{kind} {id} has the name of {kind} {other}")),
        None => Ok(()),
    }
}
