//! SEND and SENDMANY: every refusal is decided before anything is stored.

use std::sync::Arc;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Recipient, Send};
use posthaste_wire::span::Span;

use super::message::{Message, State};
use super::recent::RequestKey;
use super::{Memory, Reply};
use crate::queue::counts::MessageEvent;
use crate::queue::faults;
use crate::queue::rules::{AccountId, Ask, MessageId, News, QueueId, after};

impl Memory {
    pub(super) fn send(&mut self, ask: Ask<'_>, send: &Send, news: &mut Vec<News>) -> Result<Reply, Fault> {
        let queue = self.stock.expect_queue(ask.bytes_of(send.queue))?;
        let key = send.dedup.map(|key| RequestKey {
            account: ask.account,
            queue: Some(queue),
            text: ask.bytes_of(key).into(),
        });
        if let Some(&first) = key.as_ref().and_then(|key| self.sends.get(key)) {
            self.counts.add(MessageEvent::Deduplicated, 1);
            return Ok(Reply::Integer(first));
        }
        self.check_recipient(queue, ask, send.to)?;
        let copies = self.copies(ask.account, send.to);
        self.check_room(queue, copies, copies * u64::from(send.body.len))?;

        let draft = self.draft(queue, ask, send);
        let answer = match send.to {
            Recipient::Anyone => self.store(draft, None, news),
            Recipient::Account(name) => {
                let recipient = self.accounts.meet(ask.bytes_of(name));
                self.store(draft, Some(recipient), news)
            }
            Recipient::Everyone => {
                for recipient in self.others(ask.account) {
                    self.store(draft.clone(), Some(recipient), news);
                }
                copies
            }
        };
        if let Some(key) = key {
            self.sends.remember(self.clock, key, answer, 0);
        }
        Ok(Reply::Integer(answer))
    }

    pub(super) fn send_many(
        &mut self,
        ask: Ask<'_>,
        queue: Span,
        bodies: &[Span],
        news: &mut Vec<News>,
    ) -> Result<Reply, Fault> {
        let id = self.stock.expect_queue(ask.bytes_of(queue))?;
        let bytes = bodies.iter().map(|body| u64::from(body.len)).sum();
        self.check_room(id, bodies.len() as u64, bytes)?;
        let ids = bodies.iter().map(|body| {
            let draft = self.draft(id, ask, &Send::plain(queue, *body));
            self.store(draft, None, news)
        });
        Ok(Reply::Ids(ids.collect()))
    }

    /// Checks FORBIDSELF and STRICT, which concern a named recipient only: `TO *` leaves out the sender.
    fn check_recipient(&self, queue: QueueId, ask: Ask<'_>, to: Recipient) -> Result<(), Fault> {
        let Recipient::Account(name) = to else { return Ok(()) };
        let (name, queue) = (ask.bytes_of(name), self.stock.queue(queue));
        if queue.options.forbid_self && self.accounts.find(name) == Some(ask.account) {
            return Err(faults::forbidden_self(&queue.name));
        }
        if queue.options.strict && self.accounts.known(name).is_none() {
            return Err(faults::no_account(name, &queue.name));
        }
        Ok(())
    }

    /// Checks MAXMSGS and MAXBYTES, where messages in every state count, and the memory limit.
    fn check_room(&self, queue: QueueId, messages: u64, bytes: u64) -> Result<(), Fault> {
        let queue = self.stock.queue(queue);
        let messages = messages + queue.messages.len() as u64;
        let bytes = bytes + queue.bytes;
        match (queue.options.messages_max, queue.options.bytes_max) {
            (Some(max), _) if messages > max => Err(faults::full_messages(&queue.name, max)),
            (_, Some(max)) if bytes > max => Err(faults::full_bytes(&queue.name, max)),
            _ => self.has_memory(),
        }
    }

    /// Returns how many messages a SEND becomes.
    fn copies(&self, sender: AccountId, to: Recipient) -> u64 {
        match to {
            Recipient::Anyone | Recipient::Account(_) => 1,
            Recipient::Everyone => self.others(sender).len() as u64,
        }
    }

    /// Every known account but this one.
    fn others(&self, sender: AccountId) -> Vec<AccountId> {
        self.accounts.all_known().map(|(id, _)| id).filter(|id| *id != sender).collect()
    }

    /// Returns the message that a SEND asks for, without a recipient.
    fn draft(&self, queue: QueueId, ask: Ask<'_>, send: &Send) -> Message {
        let ttl_ms = send.ttl_ms.or(self.stock.queue(queue).options.ttl_ms);
        Message {
            queue,
            sender: ask.account,
            recipient: None,
            sent_ms: self.clock,
            expires: ttl_ms.map(|ttl_ms| self.clock.saturating_add(ttl_ms)),
            priority: send.priority,
            deliveries: 0,
            headers: ask.headers(&send.headers).into(),
            body: Arc::from(ask.bytes_of(send.body)),
            state: match send.delay_ms {
                0 => State::Ready,
                delay_ms => State::Delayed { until: after(self.clock, delay_ms) },
            },
            dead: None,
        }
    }

    fn store(&mut self, draft: Message, recipient: Option<AccountId>, news: &mut Vec<News>) -> MessageId {
        let id = self.stock.next_message_id();
        self.counts.add(MessageEvent::Sent, 1);
        self.stock.insert(id, Message { recipient, ..draft }, news);
        id
    }
}
