//! Queues as a whole: made, deleted, emptied, redriven, listed and browsed.

use std::sync::Arc;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{LIST_PIECE, QueueOptions, REDRIVE_PIECE};
use posthaste_wire::span::Span;

use super::Source;
use super::show::UNREADABLE_MAX;
use crate::queue::answer::{Answer, QueueDetail, QueueView};
use crate::queue::bounds::ANSWER_BYTES;
use crate::queue::counts::MessageEvent;
use crate::queue::embedded::Embedded;
use crate::queue::embedded::effect::Effect;
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::message::{Message, Place};
use crate::queue::embedded::record::bounds::{CHANGE_BYTES, REQUEST_BYTES};
use crate::queue::faults;
use crate::queue::options::{Options, dead_letters_of};
use crate::queue::rules::{Ask, MessageId, Millis, News, Outcome, QueueId};

impl Embedded {
    pub(super) fn create_queue(
        &mut self,
        ask: Ask<'_>,
        name: Option<Span>,
        options: Option<&QueueOptions>,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        let queues = &self.stock.queues;
        let (new_id, name) = match name {
            Some(name) => (queues.last_id() + 1, ask.bytes_of(name).to_vec()),
            None => {
                let id = queues.next_unnamed_id(dead_letters_of(ask, options));
                (id, id.to_string().into_bytes())
            }
        };
        let found = queues.find(&name);
        if let (Some(id), None) = (found, options) {
            return Ok(answer.integer(id));
        }
        let options = options.map(|options| Options::of(ask, options)).unwrap_or_default();
        let dead_letters = options.dead_letter.as_ref().map(|policy| Arc::clone(&policy.queue));
        if dead_letters.as_deref() == Some(&name) {
            return Err(faults::own_dead_letters(&name));
        }
        let is_known = |name: &Arc<[u8]>| self.stock.queues.find(name).is_some();
        let dead_letters = dead_letters.filter(|name| !is_known(name));
        if found.is_none() || dead_letters.is_some() {
            self.has_memory()?;
        }
        self.reserve(2 * REQUEST_BYTES, Purpose::Add)?;
        let id = found.unwrap_or(new_id);
        self.record(&Effect::Queue { id, name: &name, options });
        if let Some(name) = dead_letters {
            let id = self.stock.queues.last_id() + 1;
            self.record(&Effect::Queue { id, name: &name, options: Options::default() });
        }
        Ok(answer.integer(id))
    }

    pub(super) fn delete_queue(
        &mut self,
        name: &[u8],
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Outcome, Fault> {
        let id = self.expect_queue(name)?;
        self.reserve(REQUEST_BYTES, Purpose::Empty)?;
        let removed = self.stock.queues.get(id).map_or(0, |queue| queue.messages);
        self.record(&Effect::QueueGone { id });
        self.counts.add(MessageEvent::Purged, removed);
        news.push(News::QueueGone(id));
        Ok(answer.integer(removed))
    }

    pub(super) fn purge_queue(&mut self, name: &[u8], answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let id = self.expect_queue(name)?;
        self.reserve(REQUEST_BYTES, Purpose::Empty)?;
        let removed = self.stock.queues.get(id).map_or(0, |queue| queue.messages);
        if removed > 0 {
            self.record(&Effect::Purged { id });
            self.counts.add(MessageEvent::Purged, removed);
        }
        Ok(answer.integer(removed))
    }

    /// Moves dead letters back to their first queue, or to `to`, and resets their deliveries. Leased ones stay, and so
    /// do, without `to`, those whose first queue is gone.
    ///
    /// They are moved piece by piece, each piece with a commit of its own, and by ascending ids, so that a letter
    /// that dies again meanwhile is not moved again.
    pub(super) fn redrive(
        &mut self,
        ask: Ask<'_>,
        from: Span,
        to: Option<Span>,
        after: MessageId,
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Outcome, Fault> {
        let from = self.expect_queue(ask.bytes_of(from))?;
        let to = to.map(|to| self.expect_queue(ask.bytes_of(to))).transpose()?;
        let queue = self.stock.queues.get(from);
        let letters = queue.into_iter().flat_map(|queue| queue.special.range(after.saturating_add(1)..));
        let piece: Vec<MessageId> = letters.take(REDRIVE_PIECE).copied().collect();
        let messages = piece.iter().filter_map(|id| self.stock.special(*id));
        let ways: Vec<_> = messages.filter_map(|message| self.way_back(message, to)).collect();
        self.reserve(ways.len() as u64 * CHANGE_BYTES, Purpose::Add)?;
        for &(place, to) in &ways {
            news.extend(self.record(&Effect::Moved { place, to, deliveries: 0, death: None }));
        }
        let moved = ways.len() as u64;
        match piece.last() {
            Some(&last) if piece.len() == REDRIVE_PIECE => {
                answer.array(2);
                answer.integer(moved);
                Ok(answer.integer(last))
            }
            _ => Ok(answer.integer(moved)),
        }
    }

    pub(super) fn list_queues(&mut self, after: QueueId, answer: &mut Answer<'_>) -> Outcome {
        let mut queues: Vec<(QueueId, Millis)> = Vec::new();
        let (mut next, mut bytes) = (self.stock.queues.first_after(after), 0);
        while let Some(id) = next.filter(|_| queues.len() < LIST_PIECE && bytes <= ANSWER_BYTES) {
            let Some((oldest_ms, read)) = self.oldest_ms(id, Source::Disk) else { break };
            queues.push((id, oldest_ms));
            bytes += read;
            next = self.stock.queues.first_after(id);
        }
        // A full piece need not say that there may be more.
        let goes_on = next.filter(|_| queues.len() < LIST_PIECE).and(queues.last());
        answer.array(queues.len() + usize::from(goes_on.is_some()));
        for (id, oldest_ms) in &queues {
            self.write_queue(*id, *oldest_ms, None, answer);
        }
        if let Some((last, _)) = goes_on {
            answer.integer(*last);
        }
        Outcome::Ok
    }

    /// Answers QINFO; None: not from this source.
    pub(super) fn queue_info(
        &mut self,
        name: &[u8],
        source: Source,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Outcome>, Fault> {
        let id = self.expect_queue(name)?;
        let Some((oldest_ms, _)) = self.oldest_ms(id, source) else { return Ok(None) };
        let queue = self.stock.queues.get(id);
        let detail = queue.map(|queue| queue.options.detail(queue.leased, queue.delayed));
        self.write_queue(id, oldest_ms, detail.as_ref(), answer);
        Ok(Some(Outcome::Ok))
    }

    /// Answers QBROWSE; None: not from this source.
    pub(super) fn browse(
        &mut self,
        name: &[u8],
        after: MessageId,
        count: u32,
        source: Source,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Outcome>, Fault> {
        let id = self.expect_queue(name)?;
        self.found.choose_from(self.stock.by_id(id, after), count + UNREADABLE_MAX);
        if source == Source::Memory && !self.found.is_in_memory(&self.log, count as usize) {
            return Ok(None);
        }
        self.found.load_readable(&mut self.log, count as usize)?;
        answer.array(self.found.len());
        for (index, pick) in self.found.picks().iter().enumerate() {
            let message = self.stock.picked(pick);
            let written = self.found.written(index).as_now(&message);
            let queue = self.stock.queues.name(id);
            self.stock.write(queue, &written, Some(message.state.name()), answer);
        }
        Ok(Some(Outcome::Ok))
    }

    /// Returns the queue that a dead letter can go back to; None for other messages, leased ones and orphans.
    fn way_back(&self, message: &Message, to: Option<QueueId>) -> Option<(Place, QueueId)> {
        let death = message.death.as_ref().filter(|_| message.lease().is_none())?;
        let to = to.or_else(|| self.stock.queues.find(&death.first_queue))?;
        Some((message.place, to))
    }

    /// Returns the age of a queue's oldest message, and how many bytes were read for it. The age is 0 if the queue is
    /// empty, or if that message cannot be read: it must not fail a whole list of queues, and its readers get the
    /// error. None: the source does not say.
    ///
    /// Only a message's record says when it was sent. The record may be large, so the time is noted once it was read.
    fn oldest_ms(&mut self, queue: QueueId, source: Source) -> Option<(Millis, usize)> {
        let Some(oldest) = self.stock.by_id(queue, 0).next() else { return Some((0, 0)) };
        let id = oldest.place.id();
        if let Some(sent_ms) = self.stock.queues.oldest_sent_ms(queue, id) {
            return Some((self.clock.saturating_sub(sent_ms), 0));
        }
        self.found.choose_from(std::iter::once(oldest), 1);
        if source == Source::Memory && !self.found.is_in_memory(&self.log, 1) {
            return None;
        }
        if self.found.load(&mut self.log).is_err() {
            return Some((0, oldest.entry.home.len as usize));
        }
        let sent_ms = self.found.written(0).sent_ms;
        self.stock.queues.note_oldest(queue, id, sent_ms);
        Some((self.clock.saturating_sub(sent_ms), oldest.entry.home.len as usize))
    }

    fn write_queue(
        &self,
        id: QueueId,
        oldest_ms: Millis,
        detail: Option<&QueueDetail<'_>>,
        answer: &mut Answer<'_>,
    ) {
        let Some(queue) = self.stock.queues.get(id) else { return };
        let view =
            QueueView { name: &queue.name, id, messages: queue.messages, bytes: queue.bytes, oldest_ms };
        answer.queue(&view, detail);
    }
}
