//! Queues and messages with their indexes: names, reading order, timers.
//!
//! A message enters by [`Stock::insert`] and leaves by [`Stock::remove`], and changes by leaving and entering again.
//! These two are the only places where the indexes are kept in step, so they are in step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use posthaste_wire::fault::Fault;

use super::message::{Message, Rank};
use crate::queue::faults;
use crate::queue::options::Options;
use crate::queue::rules::{MessageId, Millis, News, QueueId};

/// Everything that is stored except accounts and remembered keys.
#[derive(Default)]
pub(super) struct Stock {
    queues: BTreeMap<QueueId, Queue>,
    names: HashMap<Arc<[u8]>, QueueId>,
    messages: BTreeMap<MessageId, Message>,
    timers: BTreeSet<(Millis, MessageId)>,
    message_bytes: u64,
    last_queue: QueueId,
    last_message: MessageId,
}

/// A queue and where its messages stand.
pub(super) struct Queue {
    pub(super) name: Arc<[u8]>,
    pub(super) options: Options,
    /// Messages in every state.
    pub(super) messages: BTreeSet<MessageId>,
    /// Messages that can be read, in reading order.
    pub(super) ready: BTreeSet<Rank>,
    pub(super) leased: usize,
    /// Bytes of all bodies.
    pub(super) bytes: u64,
}

impl Queue {
    /// How many of its messages are delayed.
    pub(super) fn delayed(&self) -> usize {
        self.messages.len() - self.ready.len() - self.leased
    }
}

impl Stock {
    /// The number of the queue of that name.
    pub(super) fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.names.get(name).copied()
    }

    /// Returns the number of a queue that must exist.
    pub(super) fn expect_queue(&self, name: &[u8]) -> Result<QueueId, Fault> {
        self.queue_id(name).ok_or_else(|| faults::no_queue(name))
    }

    /// Returns a queue by a number that this store gave out and whose queue exists.
    pub(super) fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[&id]
    }

    /// Returns the options of an existing queue, to replace them.
    pub(super) fn options_mut(&mut self, id: QueueId) -> &mut Options {
        &mut self.queue_mut(id).options
    }

    /// Every queue by number.
    pub(super) fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.iter().map(|(id, queue)| (*id, queue))
    }

    /// Returns every queue above this number, by number.
    pub(super) fn queues_after(&self, id: QueueId) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.range(id.saturating_add(1)..).map(|(id, queue)| (*id, queue))
    }

    /// The number that the next queue with a name gets.
    pub(super) fn next_queue_id(&self) -> QueueId {
        self.last_queue + 1
    }

    /// Returns the number that the next queue without a name gets. The number is its name too, so a name in use is
    /// skipped, and so is the name of its dead-letter queue.
    pub(super) fn next_unnamed_id(&self, dead_letters: Option<&[u8]>) -> QueueId {
        let in_use = |name: &[u8]| self.names.contains_key(name) || dead_letters == Some(name);
        let mut id = self.next_queue_id();
        while in_use(id.to_string().as_bytes()) {
            id += 1;
        }
        id
    }

    /// Makes a queue with the next number of its kind, and a name that is not in use.
    pub(super) fn add_queue(&mut self, id: QueueId, name: &[u8]) {
        let name: Arc<[u8]> = name.into();
        self.last_queue = id;
        self.names.insert(Arc::clone(&name), id);
        self.queues.insert(id, Queue::new(name));
    }

    /// Removes a queue with its messages. Returns the number of messages.
    pub(super) fn remove_queue(&mut self, id: QueueId) -> u64 {
        let removed = self.empty_queue(id);
        if let Some(queue) = self.queues.remove(&id) {
            self.names.remove(&queue.name);
        }
        removed
    }

    /// Removes a queue's messages. Returns their number.
    pub(super) fn empty_queue(&mut self, id: QueueId) -> u64 {
        let ids = self.queue(id).messages.clone();
        ids.iter().filter_map(|id| self.remove(*id)).count() as u64
    }

    /// Draws the id of the next message.
    pub(super) fn next_message_id(&mut self) -> MessageId {
        self.last_message += 1;
        self.last_message
    }

    /// A stored message.
    pub(super) fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// A message by an id found in an index.
    pub(super) fn indexed(&self, id: MessageId) -> &Message {
        &self.messages[&id]
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// About how many bytes of memory all this takes.
    pub(super) fn bytes(&self) -> u64 {
        const PER_QUEUE: u64 = 640;
        self.message_bytes + self.queues.len() as u64 * PER_QUEUE
    }

    /// Puts a message in. Adds news if it can be read from now on.
    pub(super) fn insert(&mut self, id: MessageId, message: Message, news: &mut Vec<News>) {
        let queue = self.queue_mut(message.queue);
        queue.messages.insert(id);
        queue.bytes += message.body.len() as u64;
        queue.leased += usize::from(message.lease().is_some());
        if message.is_ready() {
            queue.ready.insert(message.rank(id));
            news.push(message.news());
        }
        self.message_bytes += message.bytes();
        self.timers.extend(message.timer().map(|at| (at, id)));
        self.messages.insert(id, message);
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, id: MessageId) -> Option<Message> {
        let message = self.messages.remove(&id)?;
        let queue = self.queue_mut(message.queue);
        queue.messages.remove(&id);
        queue.bytes -= message.body.len() as u64;
        queue.leased -= usize::from(message.lease().is_some());
        queue.ready.remove(&message.rank(id));
        self.message_bytes -= message.bytes();
        if let Some(at) = message.timer() {
            self.timers.remove(&(at, id));
        }
        Some(message)
    }

    /// Returns the message whose timer has been due longest, and since when. Removing it cancels the timer.
    pub(super) fn due_timer(&self, now: Millis) -> Option<(Millis, MessageId)> {
        self.timers.first().copied().filter(|(at, _)| *at <= now)
    }

    /// When the next timer is due.
    pub(super) fn next_timer(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("messages and names lead to queues that exist")
    }
}

impl Queue {
    fn new(name: Arc<[u8]>) -> Self {
        Self {
            name,
            options: Options::default(),
            messages: BTreeSet::new(),
            ready: BTreeSet::new(),
            leased: 0,
            bytes: 0,
        }
    }
}
