//! The state that the rules decide on: accounts, queues, messages, remembered answers.
//!
//! A message enters by [`Stock::insert`] and leaves by [`Stock::remove`], and changes by leaving and entering again.
//! These two keep lanes, counts, timers and live bytes in step. All messages of a queue leave by [`Stock::empty_queue`],
//! whereupon most of them still count as live until they are freed. Ready messages without a past are in a lane and
//! nowhere else; of the others a [`Message`] is kept as well.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::accounts::Accounts;
use super::changes::Changes;
use super::discarded::Discarded;
use super::lanes::Lanes;
use super::live::Live;
use super::merge::Pick;
use super::message::{Message, Place};
use super::queues::Queues;
use super::remembered::Remembered;
use super::timers::{Timer, Timers};
use crate::queue::rules::{AccountId, MessageId, Millis, News, QueueId};

/// Bytes of memory for a message's entry in a lane.
const PER_MESSAGE: u64 = 64;

/// Bytes of memory for a name, of a queue or an account.
const PER_NAME: u64 = 640;

/// Everything but the log.
#[derive(Default)]
pub(super) struct Stock {
    pub(super) accounts: Accounts,
    pub(super) queues: Queues,
    pub(super) lanes: Lanes,
    pub(super) remembered: Remembered,
    pub(super) live: Live,
    pub(super) changes: Changes,
    discarded: Discarded,
    special: BTreeMap<MessageId, Message>,
    timers: Timers,
    last_message: MessageId,
}

impl Stock {
    /// Puts a message in. Returns news if it can be read from now on.
    pub(super) fn insert(&mut self, message: Message) -> Option<News> {
        self.skip_ids_up_to(message.place.id());
        self.live.add(message.entry.home);
        self.queues.count_in(&message);
        let news = message.is_ready().then(|| message.place.news());
        if news.is_some() {
            self.lanes.insert(&message.place, message.entry, &mut self.changes);
        }
        if !message.is_plain() {
            let id = message.place.id();
            if let Some(at) = message.timer() {
                self.timers.set(Timer { at, message: id });
            }
            self.special.insert(id, message);
        }
        news
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, place: &Place) -> Option<Message> {
        let message = match self.take_special(place.id()) {
            Some(message) => {
                if message.is_ready() {
                    self.lanes.remove(&message.place, &mut self.changes);
                }
                message
            }
            None => Message::plain(*place, self.lanes.remove(place, &mut self.changes)?),
        };
        self.queues.count_out(&message);
        self.live.remove(message.entry.home);
        Some(message)
    }

    /// Returns the number of messages of which more than an entry is kept.
    pub(super) fn specials(&self) -> u64 {
        self.special.len() as u64
    }

    /// Returns a message if more than its entry is kept.
    pub(super) fn special(&self, id: MessageId) -> Option<&Message> {
        self.special.get(&id)
    }

    /// Returns a message with all that is kept of it, if there is one. A moved message is found by its id.
    pub(super) fn message(&self, place: &Place) -> Option<Message> {
        let special = self.special(place.id()).cloned();
        special.or_else(|| self.lanes.entry(place).map(|entry| Message::plain(*place, entry)))
    }

    /// Returns whether there is a message in that place.
    pub(super) fn holds(&self, place: &Place) -> bool {
        match self.special(place.id()) {
            Some(message) => message.place == *place,
            None => self.lanes.entry(place).is_some(),
        }
    }

    /// Returns a message found in a lane with all that is kept of it.
    pub(super) fn picked(&self, pick: &Pick) -> Message {
        let special = self.special(pick.place.id()).cloned();
        special.unwrap_or_else(|| Message::plain(pick.place, pick.entry))
    }

    /// The messages of a queue with ids above `after`, in every state, by id.
    pub(super) fn by_id(&self, queue: QueueId, after: MessageId) -> impl Iterator<Item = Pick> {
        let mut ready = self.lanes.by_id(queue, after).peekable();
        let above = (Bound::Excluded(after), Bound::Unbounded);
        let special = self.queues.get(queue).into_iter().flat_map(move |queue| queue.special.range(above));
        let mut special = special.copied().peekable();
        // Special messages may be ready too, perhaps all of them: so no step looks at more than one.
        std::iter::from_fn(move || {
            loop {
                let first_ready = ready.peek().map(|pick| pick.place.id());
                let Some(id) = special.next_if(|id| first_ready.is_none_or(|ready| *id <= ready)) else {
                    return ready.next();
                };
                let message = self.special(id).filter(|message| !message.is_ready());
                if let Some(Message { place, entry, .. }) = message {
                    return Some(Pick { place: *place, entry: *entry });
                }
            }
        })
    }

    /// Takes a queue's messages out. Most are still to be freed by [`Stock::free_discarded`].
    pub(super) fn empty_queue(&mut self, queue: QueueId) {
        self.lanes.clear_queue(queue, &mut self.discarded, &mut self.changes);
        for id in self.queues.count_all_out(queue) {
            if let Some(message) = self.take_special(id).filter(|message| !message.is_ready()) {
                self.live.remove(message.entry.home);
            }
        }
    }

    /// Frees messages of emptied queues, `count` at most, and the bytes that they take in the log.
    pub(super) fn free_discarded(&mut self, count: usize) {
        let live = &mut self.live;
        self.discarded.free(count, |entry| live.remove(entry.home));
    }

    /// Returns whether all this takes at most `limit` bytes of memory, once messages of emptied queues are freed to make
    /// room: no more of them than that takes, and `count` at most.
    pub(super) fn fits(&mut self, limit: u64, count: usize) -> bool {
        let excess = self.bytes().saturating_sub(limit).div_ceil(PER_MESSAGE);
        self.free_discarded(usize::try_from(excess).unwrap_or(usize::MAX).min(count));
        self.bytes() <= limit
    }

    /// Returns whether messages of emptied queues are still to be freed.
    pub(super) fn has_discarded(&self) -> bool {
        !self.discarded.is_empty()
    }

    /// Returns the message whose timer has been due longest, and since when. Removing it cancels the timer.
    pub(super) fn due_timer(&self, now: Millis) -> Option<(Millis, &Message)> {
        self.timers.first().filter(|timer| timer.at <= now).and_then(|timer| self.with_message(timer))
    }

    /// Returns the message whose timer has been deferred longest, and when it was due.
    pub(super) fn deferred(&self) -> Option<(Millis, &Message)> {
        self.timers.first_deferred().and_then(|timer| self.with_message(timer))
    }

    /// Returns the messages of all timers that are due, including those deferred.
    pub(super) fn all_due(&self, now: Millis) -> impl Iterator<Item = &Message> {
        self.timers.due(now).filter_map(|timer| self.special.get(&timer.message))
    }

    /// Defers a timer that found no space.
    pub(super) fn defer(&mut self, timer: Timer) {
        self.timers.defer(timer);
    }

    /// Returns when the next timer is due, except those deferred.
    pub(super) fn next_timer(&self) -> Option<Millis> {
        self.timers.first().map(|timer| timer.at)
    }

    /// The number last given to a message.
    pub(super) fn last_message(&self) -> MessageId {
        self.last_message
    }

    /// Makes sure that no message gets this number, or a lower one, from now on.
    pub(super) fn skip_ids_up_to(&mut self, id: MessageId) {
        self.last_message = self.last_message.max(id);
    }

    /// Every known account but this one.
    pub(super) fn others(&self, sender: AccountId) -> Vec<AccountId> {
        self.accounts.all_known().map(|(id, _)| id).filter(|id| *id != sender).collect()
    }

    /// About how many bytes of memory all this takes, with what is still to be freed; measured on deep queues and
    /// rounded up.
    pub(super) fn bytes(&self) -> u64 {
        const PER_SPECIAL: u64 = 320;
        const PER_LANE: u64 = 640;
        (self.queues.messages() + self.discarded.messages()) * PER_MESSAGE
            + self.special.len() as u64 * PER_SPECIAL
            + (self.lanes.len() + self.discarded.lanes()) as u64 * PER_LANE
            + self.answer_bytes()
            + self.queues.len() as u64 * PER_NAME
            + self.name_bytes()
    }

    /// Returns how many of [`Stock::bytes`] the remembered answers take.
    pub(super) fn answer_bytes(&self) -> u64 {
        const PER_ANSWER: u64 = 320;
        self.remembered.len() as u64 * PER_ANSWER + self.remembered.text_bytes()
    }

    /// Returns how many of [`Stock::bytes`] the names of accounts take.
    pub(super) fn name_bytes(&self) -> u64 {
        self.accounts.len() as u64 * PER_NAME
    }

    fn with_message(&self, timer: Timer) -> Option<(Millis, &Message)> {
        Some((timer.at, self.special.get(&timer.message)?))
    }

    fn take_special(&mut self, id: MessageId) -> Option<Message> {
        if self.special.is_empty() {
            return None;
        }
        let message = self.special.remove(&id)?;
        if let Some(at) = message.timer() {
            self.timers.clear(Timer { at, message: id });
        }
        Some(message)
    }
}
