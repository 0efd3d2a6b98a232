//! Queues as a whole: made, deleted, emptied, redriven, listed and browsed; and the list of accounts.

use std::sync::Arc;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{ACCOUNTS_PIECE, LIST_PIECE, QueueOptions, REDRIVE_PIECE};
use posthaste_wire::span::Span;

use super::message::{Message, State};
use super::stock::Queue;
use super::{Memory, Reply};
use crate::queue::answer::{Answer, QueueView};
use crate::queue::counts::MessageEvent;
use crate::queue::faults;
use crate::queue::options::{Options, dead_letters_of};
use crate::queue::rules::{Ask, MessageId, News, Outcome, QueueId};

impl Memory {
    pub(super) fn create_queue(
        &mut self,
        ask: Ask<'_>,
        name: Option<Span>,
        options: Option<&QueueOptions>,
    ) -> Result<Reply, Fault> {
        let (id, name) = match name {
            Some(name) => (self.stock.next_queue_id(), ask.bytes_of(name).to_vec()),
            None => {
                let id = self.stock.next_unnamed_id(dead_letters_of(ask, options));
                (id, id.to_string().into_bytes())
            }
        };
        let options = options.map(|options| Options::of(ask, options));
        let policy = options.as_ref().and_then(|options| options.dead_letter.as_ref());
        let dead_letters = policy.map(|policy| Arc::clone(&policy.queue));
        if dead_letters.as_deref() == Some(&name) {
            return Err(faults::own_dead_letters(&name));
        }
        let is_new = |name: &[u8]| self.stock.queue_id(name).is_none();
        if is_new(&name) || dead_letters.as_deref().is_some_and(is_new) {
            self.has_memory()?;
        }
        let id = self.find_or_add_queue(id, &name);
        if let Some(dead_letters) = dead_letters {
            self.find_or_add_queue(self.stock.next_queue_id(), &dead_letters);
        }
        if let Some(options) = options {
            *self.stock.options_mut(id) = options;
        }
        Ok(Reply::Integer(id))
    }

    pub(super) fn delete_queue(&mut self, name: &[u8], news: &mut Vec<News>) -> Result<Reply, Fault> {
        let id = self.stock.expect_queue(name)?;
        news.push(News::QueueGone(id));
        let removed = self.stock.remove_queue(id);
        self.counts.add(MessageEvent::Purged, removed);
        Ok(Reply::Integer(removed))
    }

    pub(super) fn purge_queue(&mut self, name: &[u8]) -> Result<Reply, Fault> {
        let id = self.stock.expect_queue(name)?;
        let removed = self.stock.empty_queue(id);
        self.counts.add(MessageEvent::Purged, removed);
        Ok(Reply::Integer(removed))
    }

    /// Moves dead letters back to their first queue, or to `to`, and resets their deliveries. Leased ones stay, and so
    /// do, without `to`, those whose first queue is gone.
    pub(super) fn redrive(
        &mut self,
        ask: Ask<'_>,
        from: Span,
        to: Option<Span>,
        after: MessageId,
        news: &mut Vec<News>,
    ) -> Result<Reply, Fault> {
        let from = self.stock.expect_queue(ask.bytes_of(from))?;
        let to = to.map(|to| self.stock.expect_queue(ask.bytes_of(to))).transpose()?;
        let mut moved = 0;
        let letters = self.stock.queue(from).messages.range(after.saturating_add(1)..);
        let piece: Vec<MessageId> = letters.take(REDRIVE_PIECE).copied().collect();
        for &id in &piece {
            let Some(queue) = self.way_back(id, to) else { continue };
            let Some(message) = self.stock.remove(id) else { continue };
            let fresh = Message { queue, deliveries: 0, state: State::Ready, dead: None, ..message };
            self.stock.insert(id, fresh, news);
            moved += 1;
        }
        Ok(match piece.last() {
            Some(&last) if piece.len() == REDRIVE_PIECE => Reply::Ids(vec![moved, last]),
            _ => Reply::Integer(moved),
        })
    }

    pub(super) fn list_queues(&self, after: QueueId, answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let piece: Vec<(QueueId, &Queue)> = self.stock.queues_after(after).take(LIST_PIECE).collect();
        answer.array(piece.len());
        piece.into_iter().for_each(|(id, queue)| answer.queue(&self.view(id, queue), None));
        Ok(Outcome::Ok)
    }

    pub(super) fn queue_info(&self, name: &[u8], answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let id = self.stock.expect_queue(name)?;
        let queue = self.stock.queue(id);
        answer.queue(
            &self.view(id, queue),
            Some(&queue.options.detail(queue.leased as u64, queue.delayed() as u64)),
        );
        Ok(Outcome::Ok)
    }

    pub(super) fn browse(
        &self,
        name: &[u8],
        after: MessageId,
        count: u32,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        let queue = self.stock.queue(self.stock.expect_queue(name)?);
        let ids = queue.messages.range(after.saturating_add(1)..).copied().take(count as usize);
        let ids = self.within_one_answer(ids);
        answer.array(ids.len());
        for id in ids {
            let message = self.stock.indexed(id);
            self.write_message(id, message, &queue.name, Some(message.state_name()), answer);
        }
        Ok(Outcome::Ok)
    }

    pub(super) fn login(&mut self, name: &[u8]) -> Result<Reply, Fault> {
        if self.accounts.find(name).is_none() {
            self.has_memory()?;
        }
        Ok(Reply::Integer(self.accounts.log_in(name).into()))
    }

    pub(super) fn list_accounts(&self, after: u64, answer: &mut Answer<'_>) -> Outcome {
        let last = after + ACCOUNTS_PIECE as u64;
        let goes_on = last < self.accounts.len() as u64;
        let piece = || self.accounts.known_among(after, ACCOUNTS_PIECE);
        answer.array(piece().count() + usize::from(goes_on));
        piece().for_each(|(id, name)| answer.account(name, id));
        if goes_on { answer.integer(last) } else { Outcome::Ok }
    }

    fn find_or_add_queue(&mut self, new_id: QueueId, name: &[u8]) -> QueueId {
        self.stock.queue_id(name).unwrap_or_else(|| {
            self.stock.add_queue(new_id, name);
            new_id
        })
    }

    /// Returns the queue that a dead letter can go back to; None for other messages, leased ones and orphans.
    fn way_back(&self, id: MessageId, to: Option<QueueId>) -> Option<QueueId> {
        let message = self.stock.message(id).filter(|message| message.lease().is_none())?;
        let death = message.dead.as_ref()?;
        to.or_else(|| self.stock.queue_id(&death.first_queue))
    }

    fn view<'a>(&self, id: QueueId, queue: &'a Queue) -> QueueView<'a> {
        let oldest = queue.messages.first().map(|id| self.stock.indexed(*id).sent_ms);
        QueueView {
            name: &queue.name,
            id,
            messages: queue.messages.len() as u64,
            bytes: queue.bytes,
            oldest_ms: oldest.map_or(0, |sent_ms| self.clock - sent_ms),
        }
    }
}
