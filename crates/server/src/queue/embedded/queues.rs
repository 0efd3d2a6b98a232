//! Queues by number and by name, with their options and counts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::message::{Home, Message, State};
use crate::queue::options::Options;
use crate::queue::rules::{MessageId, Millis, QueueId};

/// Every queue.
#[derive(Default)]
pub(super) struct Queues {
    by_id: FxHashMap<QueueId, Queue>,
    names: HashMap<Arc<[u8]>, QueueId>,
    order: BTreeSet<QueueId>,
    last: QueueId,
    messages: u64,
    bytes: u64,
}

/// One queue.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) name: Arc<[u8]>,
    pub(super) options: Options,
    /// None only while the log is replayed and messages name the queue before its own record does.
    pub(super) home: Option<Home>,
    /// Number of messages, in every state.
    pub(super) messages: u64,
    /// Bytes of all bodies.
    pub(super) bytes: u64,
    pub(super) leased: u64,
    pub(super) delayed: u64,
    /// Messages of which more than an entry is kept, in every state.
    pub(super) special: BTreeSet<MessageId>,
    /// The oldest message when the queue was last listed, and when that message was sent.
    oldest: Option<(MessageId, Millis)>,
}

impl Queues {
    /// Returns the number of the queue of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<QueueId> {
        self.names.get(name).copied()
    }

    /// A queue by its number.
    pub(super) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.by_id.get(&id)
    }

    /// The name behind a number.
    pub(super) fn name(&self, id: QueueId) -> &[u8] {
        self.get(id).map_or(b"", |queue| &queue.name)
    }

    /// Returns the number of the next queue above this one.
    pub(super) fn first_after(&self, id: QueueId) -> Option<QueueId> {
        self.order.range(id.saturating_add(1)..).next().copied()
    }

    /// Returns when this message, a queue's oldest, was sent, if that was noted.
    pub(super) fn oldest_sent_ms(&self, queue: QueueId, id: MessageId) -> Option<Millis> {
        let (noted, sent_ms) = self.get(queue)?.oldest?;
        (noted == id).then_some(sent_ms)
    }

    /// Notes when a queue's oldest message was sent.
    pub(super) fn note_oldest(&mut self, queue: QueueId, id: MessageId, sent_ms: Millis) {
        if let Some(queue) = self.by_id.get_mut(&queue) {
            queue.oldest = Some((id, sent_ms));
        }
    }

    /// Every queue, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Queue> {
        self.by_id.values()
    }

    /// How many queues there are.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Messages of all queues.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Body bytes of all queues.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number last given to a queue.
    pub(super) fn last_id(&self) -> QueueId {
        self.last
    }

    /// Returns the number that the next queue without a name gets. The number is its name too, so a name in use is
    /// skipped, and so is the name of its dead-letter queue.
    pub(super) fn next_unnamed_id(&self, dead_letters: Option<&[u8]>) -> QueueId {
        let in_use = |name: &[u8]| self.names.contains_key(name) || dead_letters == Some(name);
        (self.last + 1..).find(|id| !in_use(id.to_string().as_bytes())).unwrap_or(QueueId::MAX)
    }

    /// Makes sure that no queue gets this number, or a lower one, from now on.
    pub(super) fn skip_ids_up_to(&mut self, id: QueueId) {
        self.last = self.last.max(id);
    }

    /// Sets what a number stands for. Returns the home of its earlier record, if any.
    pub(super) fn set(&mut self, id: QueueId, name: &[u8], options: &Options, home: Home) -> Option<Home> {
        self.skip_ids_up_to(id);
        let queue = self.by_id.entry(id).or_default();
        if queue.home.is_none() {
            queue.name = name.into();
            self.names.insert(Arc::clone(&queue.name), id);
            self.order.insert(id);
        }
        queue.options = options.clone();
        queue.home.replace(home)
    }

    /// Takes a queue away.
    pub(super) fn remove(&mut self, id: QueueId) -> Option<Queue> {
        let queue = self.by_id.remove(&id)?;
        self.names.remove(&queue.name);
        self.order.remove(&id);
        Some(queue)
    }

    /// Counts a message that came in.
    pub(super) fn count_in(&mut self, message: &Message) {
        let bytes = u64::from(message.entry.body_len);
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + bytes);
        let queue = self.by_id.entry(message.place.lane.queue).or_default();
        queue.messages += 1;
        queue.bytes += bytes;
        match message.state {
            State::Ready => {}
            State::Delayed { .. } => queue.delayed += 1,
            State::Leased(_) => queue.leased += 1,
        }
        if !message.is_plain() {
            queue.special.insert(message.place.id());
        }
    }

    /// Takes a message that went out off the counts.
    pub(super) fn count_out(&mut self, message: &Message) {
        let Some(queue) = self.by_id.get_mut(&message.place.lane.queue) else { return };
        let bytes = u64::from(message.entry.body_len);
        (self.messages, self.bytes) = (self.messages - 1, self.bytes - bytes);
        queue.messages -= 1;
        queue.bytes -= bytes;
        match message.state {
            State::Ready => {}
            State::Delayed { .. } => queue.delayed -= 1,
            State::Leased(_) => queue.leased -= 1,
        }
        if !message.is_plain() {
            queue.special.remove(&message.place.id());
        }
    }

    /// Takes all messages of a queue off the counts. Returns those of which more than an entry was kept.
    pub(super) fn count_all_out(&mut self, id: QueueId) -> BTreeSet<MessageId> {
        let Some(queue) = self.by_id.get_mut(&id) else { return BTreeSet::new() };
        (self.messages, self.bytes) = (self.messages - queue.messages, self.bytes - queue.bytes);
        (queue.messages, queue.bytes, queue.leased, queue.delayed) = (0, 0, 0, 0);
        std::mem::take(&mut queue.special)
    }
}
