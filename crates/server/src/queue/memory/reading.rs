//! PEEK, POP and QREADABLE: which messages a reader may have, and how they are handed out.
//!
//! Only [`Interest::matches`] says what suits a reader, and it also decides whose wait ends: a reader that is woken
//! up finds a message, and none keeps waiting for a message that it could have.

use std::sync::Arc;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Pop, Selection};

use super::message::{Lease, Message, Rank, State};
use super::recent::RequestKey;
use super::stock::Queue;
use super::{Memory, Reply};
use crate::queue::answer::{Answer, DeadLetterOrigin, Headers, MessageView};
use crate::queue::bounds::ANSWER_BYTES;
use crate::queue::counts::MessageEvent;
use crate::queue::rules::{AccountId, Ask, Interest, MessageId, Millis, News, Outcome, QueueId, after};

/// The answer of a POP, with whole messages so that it can be given again after they are gone.
#[derive(Clone)]
pub(super) struct HandedOut {
    copies: Vec<Snapshot>,
    /// Whether an array was asked for.
    many: bool,
}

/// A message as it was when it was handed out.
#[derive(Clone)]
struct Snapshot {
    id: MessageId,
    message: Message,
    queue: Arc<[u8]>,
}

impl Memory {
    pub(super) fn peek(
        &self,
        ask: Ask<'_>,
        selection: &Selection,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        let found = self.find(self.interest(ask, selection)?, selection.count);
        let copies = found.into_iter().map(|id| self.snapshot(id)).collect();
        Ok(self.hand_out(&HandedOut { copies, many: selection.count.is_some() }, answer))
    }

    pub(super) fn pop(&mut self, ask: Ask<'_>, pop: &Pop, news: &mut Vec<News>) -> Result<Reply, Fault> {
        let queue = self.named_queue(ask, &pop.select)?;
        let key = pop.request_id.map(|key| RequestKey {
            account: ask.account,
            queue,
            text: ask.bytes_of(key).into(),
        });
        if let Some(first) = key.as_ref().and_then(|key| self.pops.get(key)) {
            return Ok(Reply::HandedOut(first.clone()));
        }
        if let (Some(sender), true) = (pop.select.sender, pop.block_ms > 0)
            && self.accounts.find(ask.bytes_of(sender)).is_none()
        {
            self.has_memory()?;
            self.accounts.meet(ask.bytes_of(sender)); // so that the sender's first message wakes up this reader
        }
        let interest = self.interest(ask, &pop.select)?;
        let found = self.find(interest, pop.select.count);
        if let (true, true, Some(interest)) = (found.is_empty(), pop.block_ms > 0, interest) {
            return Ok(Reply::Waits(interest));
        }
        if !found.is_empty() && (pop.lease_ms.is_some() || key.is_some()) {
            self.has_memory_to_remember()?;
        }
        self.counts.add(MessageEvent::Taken, found.len() as u64);
        let copies = found.into_iter().map(|id| self.take(ask.account, id, pop.lease_ms, news)).collect();
        let handed = HandedOut { copies, many: pop.select.count.is_some() };
        if let (Some(key), false) = (key, handed.copies.is_empty()) {
            let bytes = handed.copies.iter().map(|copy| copy.message.bytes()).sum();
            self.pops.remember(self.clock, key, handed.clone(), bytes);
        }
        Ok(Reply::HandedOut(handed))
    }

    pub(super) fn readable(
        &self,
        ask: Ask<'_>,
        not_own: bool,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        let reader = ask.account;
        let anything = Interest { reader, queue: None, sender: None, not_own, broadcast: false };
        let readable = |queue: &&Queue| queue.ready.iter().any(|rank| self.suits(rank, &anything));
        let names: Vec<_> = self.stock.queues().map(|(_, queue)| queue).filter(readable).collect();
        answer.array(names.len());
        names.iter().for_each(|queue| answer.text(&queue.name));
        Ok(Outcome::Ok)
    }

    /// Writes the answer of a POP.
    pub(super) fn hand_out(&self, handed: &HandedOut, answer: &mut Answer<'_>) -> Outcome {
        match (handed.many, handed.copies.len()) {
            (false, 0) => return answer.null(),
            (true, 0) => return answer.empty(),
            (false, _) => {}
            (true, len) => answer.array(len),
        }
        for copy in &handed.copies {
            self.write_message(copy.id, &copy.message, &copy.queue, None, answer);
        }
        Outcome::Ok
    }

    /// Writes one message map.
    pub(super) fn write_message(
        &self,
        id: MessageId,
        message: &Message,
        queue: &[u8],
        state: Option<&'static str>,
        answer: &mut Answer<'_>,
    ) {
        answer.message(&MessageView {
            id,
            queue,
            from: self.accounts.name(message.sender),
            to: message.recipient.map(|recipient| self.accounts.name(recipient)),
            sent_ms: message.sent_ms,
            deliveries: message.deliveries,
            body: &message.body,
            priority: message.priority,
            receipt: message.lease().filter(|_| state.is_none()).map(|lease| lease.receipt),
            headers: Headers(&message.headers),
            dead: message
                .dead
                .as_ref()
                .map(|death| DeadLetterOrigin { first_queue: &death.first_queue, reason: death.reason }),
            state,
        });
    }

    /// The number of the queue that the selection names, if it names one.
    fn named_queue(&self, ask: Ask<'_>, selection: &Selection) -> Result<Option<QueueId>, Fault> {
        selection.queue.map(|queue| self.stock.expect_queue(ask.bytes_of(queue))).transpose()
    }

    /// Returns the selection with numbers for names; None if its sender was never met, so that nothing can suit.
    fn interest(&self, ask: Ask<'_>, selection: &Selection) -> Result<Option<Interest>, Fault> {
        let queue = self.named_queue(ask, selection)?;
        let sender = selection.sender.map(|sender| self.accounts.find(ask.bytes_of(sender)));
        if sender == Some(None) {
            return Ok(None);
        }
        Ok(Some(Interest {
            reader: ask.account,
            queue,
            sender: sender.flatten(),
            not_own: selection.not_own,
            broadcast: selection.broadcast,
        }))
    }

    /// Returns the first messages in reading order that suit: one, or up to `count`.
    fn find(&self, interest: Option<Interest>, count: Option<u32>) -> Vec<MessageId> {
        let Some(interest) = interest else { return Vec::new() };
        let count = count.unwrap_or(1) as usize;
        let mut found: Vec<Rank> = match interest.queue {
            Some(queue) => self.find_in(self.stock.queue(queue), &interest, count).collect(),
            None => {
                self.stock.queues().flat_map(|(_, queue)| self.find_in(queue, &interest, count)).collect()
            }
        };
        found.sort_unstable();
        found.truncate(count);
        self.within_one_answer(found.into_iter().map(|(_, id)| id))
    }

    fn find_in<'a>(
        &'a self,
        queue: &'a Queue,
        interest: &'a Interest,
        count: usize,
    ) -> impl Iterator<Item = Rank> + 'a {
        queue.ready.iter().copied().filter(|rank| self.suits(rank, interest)).take(count)
    }

    fn suits(&self, rank: &Rank, interest: &Interest) -> bool {
        interest.matches(self.stock.indexed(rank.1).news())
    }

    /// Returns as many of the messages, from the first, as one answer may hold, but at least one.
    pub(super) fn within_one_answer(&self, ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
        let (mut bytes, mut first) = (0, true);
        let fits = |id: &MessageId| {
            let message = self.stock.indexed(*id);
            bytes += message.body.len() + message.headers.len();
            std::mem::take(&mut first) || bytes <= ANSWER_BYTES
        };
        ids.take_while(fits).collect()
    }

    /// Hands a message out: for good, or until the lease ends.
    fn take(
        &mut self,
        reader: AccountId,
        id: MessageId,
        lease_ms: Option<Millis>,
        news: &mut Vec<News>,
    ) -> Snapshot {
        let mut message = self.stock.remove(id).expect("found under the same borrow");
        message.deliveries += 1;
        if let Some(lease_ms) = lease_ms {
            let receipt = self.receipts.draw();
            let until = after(self.clock, lease_ms);
            message.state = State::Leased(Lease { holder: reader, receipt, until });
            self.stock.insert(id, message.clone(), news);
        }
        let queue = Arc::clone(&self.stock.queue(message.queue).name);
        Snapshot { id, message, queue }
    }

    fn snapshot(&self, id: MessageId) -> Snapshot {
        let message = self.stock.indexed(id).clone();
        let queue = Arc::clone(&self.stock.queue(message.queue).name);
        Snapshot { id, message, queue }
    }
}
