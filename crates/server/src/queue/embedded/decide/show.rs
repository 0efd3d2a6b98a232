//! PEEK and QREADABLE, and how a message is written for its reader.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Selection;

use super::{Source, View};
use crate::queue::answer::{Answer, DeadLetterOrigin, Headers, MessageView};
use crate::queue::embedded::Embedded;
use crate::queue::embedded::effect::Written;
use crate::queue::embedded::merge::Pick;
use crate::queue::embedded::message::{ANYONE, Message};
use crate::queue::embedded::stock::Stock;
use crate::queue::rules::{AccountId, Ask, Interest, Outcome, QueueId};

/// Most unreadable messages that one request skips to find readable ones.
pub(super) const UNREADABLE_MAX: u32 = 1000;

/// Most messages with a due timer that are looked at for one answer; if there are more, no answer is certain.
const DUE_MAX: usize = 10_000;

impl Embedded {
    /// Answers a PEEK. Returns None if the answer might depend on what is not durable yet, or is not in this source.
    pub(super) fn peek(
        &mut self,
        ask: Ask<'_>,
        selection: &Selection,
        view: View,
        source: Source,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Outcome>, Fault> {
        if view == View::Durable && !self.is_selection_durable(ask, selection) {
            return Ok(None);
        }
        let queue = self.named_queue(ask, selection)?;
        let interest = self.interest(ask, selection, queue);
        self.find(interest, selection.count);
        if source == Source::Memory && !self.found.is_in_memory(&self.log, usize::MAX) {
            return Ok(None);
        }
        self.load(ask, selection, queue)?;
        if view == View::Durable && !self.found_is_certain(interest) {
            return Ok(None);
        }
        if self.found.is_empty() {
            return Ok(Some(nothing(selection, answer)));
        }
        if selection.count.is_some() {
            answer.array(self.found.len());
        }
        for (index, pick) in self.found.picks().iter().enumerate() {
            let message = self.stock.picked(pick);
            let queue = self.stock.queues.name(message.place.lane.queue);
            self.stock.write(queue, &self.found.written(index).as_now(&message), None, answer);
        }
        Ok(Some(Outcome::Ok))
    }

    /// Returns whether what was found is durable and stays so. A failed store cannot make durable what time changes.
    fn found_is_certain(&self, interest: Option<Interest>) -> bool {
        let picks = self.found.picks();
        picks.iter().all(|pick| self.is_durable(pick.place.id()))
            && (self.failed.is_none() || self.is_timeless(picks, interest))
    }

    /// Returns whether time has changed nothing about these messages: none has expired, and no other may have become
    /// readable that belongs among them.
    fn is_timeless(&self, picks: &[Pick], interest: Option<Interest>) -> bool {
        let has_come = |message| interest.is_some_and(|interest| self.may_come(message, &interest));
        let mut due = self.stock.all_due(self.clock).enumerate();
        picks.iter().all(|pick| !self.stock.picked(pick).is_expired(self.clock))
            && due.all(|(place, message)| place < DUE_MAX && !has_come(message))
    }

    /// Returns whether this reader can read a message whose delay or lease is over, in its queue or as a dead letter.
    fn may_come(&self, message: &Message, interest: &Interest) -> bool {
        let comes_to = |queue| {
            let mut place = message.place;
            place.lane.queue = queue;
            interest.matches(place.news())
        };
        !message.is_ready()
            && !message.is_expired(self.clock)
            && (comes_to(message.place.lane.queue) || self.dead_letter_queue(message).is_some_and(comes_to))
    }

    /// Answers QREADABLE, with NOTOWN by what others have sent. Returns None if what is not durable yet may decide the
    /// answer.
    pub(super) fn readable(
        &mut self,
        reader: AccountId,
        not_own: bool,
        view: View,
        answer: &mut Answer<'_>,
    ) -> Option<Outcome> {
        let all = self.stock.lanes.readable_by(reader);
        let first = |queue| {
            let interest = Interest { reader, queue: Some(queue), sender: None, not_own, broadcast: false };
            self.stock.lanes.first(&interest)
        };
        let queues = all.clone().filter(|queue| !not_own || first(*queue).is_some());
        let changes = &self.stock.changes;
        let is_recipient_durable = |recipient| changes.is_recipient_durable(recipient, self.clock);
        let is_first_durable = |queue| first(queue).is_some_and(|pick| self.is_durable(pick.place.id()));
        // A queue in which messages of others come and go beside those of the reader begins or ceases to be listed too.
        let is_listed_for_good = |queue| !not_own || changes.is_queue_durable(queue, self.clock);
        let is_durable = || {
            is_recipient_durable(ANYONE)
                && is_recipient_durable(reader)
                && queues.clone().all(is_first_durable)
                && all.clone().all(is_listed_for_good)
        };
        if view == View::Durable && (!is_durable() || self.stock.due_timer(self.clock).is_some()) {
            return None;
        }
        answer.array(queues.clone().count());
        queues.for_each(|queue| answer.text(self.stock.queues.name(queue)));
        Some(Outcome::Ok)
    }

    /// Returns the number of the queue that the selection names, if it names one.
    pub(super) fn named_queue(&self, ask: Ask<'_>, selection: &Selection) -> Result<Option<QueueId>, Fault> {
        selection.queue.map(|queue| self.expect_queue(ask.bytes_of(queue))).transpose()
    }

    /// Returns the selection with numbers for names; None if its sender was never met, so that nothing can suit.
    pub(super) fn interest(
        &self,
        ask: Ask<'_>,
        selection: &Selection,
        queue: Option<QueueId>,
    ) -> Option<Interest> {
        let sender = match selection.sender {
            Some(sender) => Some(self.stock.accounts.find(ask.bytes_of(sender))?),
            None => None,
        };
        let Selection { not_own, broadcast, .. } = *selection;
        Some(Interest { reader: ask.account, queue, sender, not_own, broadcast })
    }

    /// Finds the first messages that suit: one, or up to `count`.
    pub(super) fn find(&mut self, interest: Option<Interest>, count: Option<u32>) {
        match (interest, count) {
            (None, _) => self.found.choose(std::iter::empty(), 0),
            (Some(interest), None) => self.found.choose(self.stock.lanes.first(&interest).into_iter(), 1),
            (Some(interest), Some(count)) => self.found.choose(self.stock.lanes.walk(&interest), count),
        }
    }

    /// Reads what was found. Where order matters, the answer ends before a message that cannot be read; otherwise
    /// that message is left out, and others are found in its place.
    pub(super) fn load(
        &mut self,
        ask: Ask<'_>,
        selection: &Selection,
        queue: Option<QueueId>,
    ) -> Result<(), Fault> {
        if !selection.any_order {
            return self.found.load(&mut self.log);
        }
        let count = selection.count.unwrap_or(1);
        let found = self.found.len();
        if self.found.load_readable(&mut self.log, found).is_ok() {
            return Ok(());
        }
        let interest = self.interest(ask, selection, queue);
        let candidates = interest.iter().flat_map(|interest| self.stock.lanes.walk(interest));
        self.found.choose_from(candidates, count + UNREADABLE_MAX);
        self.found.load_readable(&mut self.log, count as usize)
    }

    /// Returns whether the durable messages that suit the selection are all in memory, and no others: no commit under
    /// way takes one or brings one back.
    fn is_selection_durable(&self, ask: Ask<'_>, selection: &Selection) -> bool {
        let changes = &self.stock.changes;
        match (selection.queue, selection.sender) {
            (Some(name), _) => match self.stock.queues.find(ask.bytes_of(name)) {
                Some(queue) => queue <= self.durable.queue && changes.is_queue_durable(queue, self.clock),
                None => changes.are_names_durable(),
            },
            (None, Some(name)) => {
                let sender = self.stock.accounts.find(ask.bytes_of(name));
                sender.is_none_or(|sender| changes.is_sender_durable(sender, self.clock))
            }
            (None, None) => true,
        }
    }

    fn is_durable(&self, id: u64) -> bool {
        id <= self.durable.message
    }
}

impl Stock {
    /// Writes one message map. `state` is given if an onlooker asks, who is shown no receipt.
    pub(in crate::queue::embedded) fn write(
        &self,
        queue: &[u8],
        message: &Written<'_>,
        state: Option<&'static str>,
        answer: &mut Answer<'_>,
    ) {
        let lane = message.place.lane;
        answer.message(&MessageView {
            id: message.place.id(),
            queue,
            from: self.accounts.name(lane.sender),
            to: (lane.recipient != ANYONE).then(|| self.accounts.name(lane.recipient)),
            sent_ms: message.sent_ms,
            deliveries: message.deliveries,
            body: message.body,
            priority: message.place.rank.priority(),
            receipt: message.state.lease().filter(|_| state.is_none()).map(|lease| lease.receipt),
            headers: Headers(message.headers),
            dead: message
                .death
                .map(|note| DeadLetterOrigin { first_queue: note.first_queue, reason: note.reason.text() }),
            state,
        });
    }
}

/// Writes the answer for a selection that no message suits.
pub(super) fn nothing(selection: &Selection, answer: &mut Answer<'_>) -> Outcome {
    if selection.count.is_some() { answer.empty() } else { answer.null() }
}
