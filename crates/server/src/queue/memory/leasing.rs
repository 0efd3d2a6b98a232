//! ACK, NACK, EXTEND, and what time does: leases and delays end, messages expire.

use std::sync::Arc;

use posthaste_wire::operation::{Handle, Handles};

use super::message::{Death, Message, State};
use super::{Memory, Reply};
use crate::queue::counts::MessageEvent;
use crate::queue::rules::{AccountId, MessageId, Millis, News, QueueId, after};

impl Memory {
    pub(super) fn ack(&mut self, account: AccountId, handles: &Handles) -> Reply {
        let mut done = 0;
        for handle in handles.iter() {
            if self.holds(account, handle) {
                self.stock.remove(handle.id);
                done += 1;
            }
        }
        self.counts.add(MessageEvent::Acknowledged, done);
        Reply::Integer(done)
    }

    pub(super) fn nack(
        &mut self,
        account: AccountId,
        handle: Handle,
        delay_ms: Millis,
        news: &mut Vec<News>,
    ) -> Reply {
        if !self.holds(account, handle) {
            return Reply::Integer(0);
        }
        self.give_back(handle.id, "nack", self.clock, delay_ms, news);
        Reply::Integer(1)
    }

    pub(super) fn extend(
        &mut self,
        account: AccountId,
        handle: Handle,
        lease_ms: Millis,
        news: &mut Vec<News>,
    ) -> Reply {
        if !self.holds(account, handle) {
            return Reply::Integer(0);
        }
        if let Some(mut message) = self.stock.remove(handle.id) {
            if let State::Leased(lease) = &mut message.state {
                lease.until = after(self.clock, lease_ms);
            }
            self.stock.insert(handle.id, message, news);
        }
        Reply::Integer(1)
    }

    /// Does what was due at `at`: the message expires, or its delay or lease ends.
    pub(super) fn fire(&mut self, at: Millis, id: MessageId, news: &mut Vec<News>) {
        match self.stock.indexed(id).state {
            State::Leased(_) => self.give_back(id, "lease ran out", at, 0, news),
            State::Ready | State::Delayed { .. } => {
                if let Some(message) = self.take_out(id, at) {
                    self.stock.insert(id, Message { state: State::Ready, ..message }, news);
                }
            }
        }
    }

    /// Takes a message out that `at` is time to change. Returns None if its TTL is over then: so it stays out.
    fn take_out(&mut self, id: MessageId, at: Millis) -> Option<Message> {
        let message = self.stock.remove(id)?;
        if message.is_expired(at) {
            self.counts.add(MessageEvent::Expired, 1);
            return None;
        }
        Some(message)
    }

    /// Returns whether the handle names a lease under way: by its receipt, whichever account shows it, or by the id
    /// alone if the account holds the lease.
    fn holds(&self, account: AccountId, handle: Handle) -> bool {
        let lease = self.stock.message(handle.id).and_then(Message::lease);
        lease.is_some_and(|lease| match handle.receipt {
            Some(receipt) => receipt == lease.receipt,
            None => account == lease.holder,
        })
    }

    /// Gives back a leased message without an ACK: it is removed if its TTL is over at `at`, becomes a dead letter if
    /// it was handed out often enough, and otherwise can be read again.
    fn give_back(
        &mut self,
        id: MessageId,
        reason: &'static str,
        at: Millis,
        delay_ms: Millis,
        news: &mut Vec<News>,
    ) {
        let Some(mut message) = self.take_out(id, at) else { return };
        message.state = match delay_ms {
            0 => State::Ready,
            _ => State::Delayed { until: after(at, delay_ms) },
        };
        let grave = self.dead_letter_queue(&message);
        let event = if grave.is_some() { MessageEvent::DeadLettered } else { MessageEvent::Returned };
        self.counts.add(event, 1);
        if let Some(grave) = grave {
            let first_queue = match message.dead {
                Some(death) => death.first_queue,
                None => Arc::clone(&self.stock.queue(message.queue).name),
            };
            message.dead = Some(Death { first_queue, reason });
            message.queue = grave;
            message.state = State::Ready;
        }
        self.stock.insert(id, message, news);
    }

    /// Returns the queue to which the message goes if it was handed out often enough; None if it stays.
    fn dead_letter_queue(&self, message: &Message) -> Option<QueueId> {
        let policy = self.stock.queue(message.queue).options.dead_letter.as_ref()?;
        if message.deliveries < policy.after { None } else { self.stock.queue_id(&policy.queue) }
    }
}
