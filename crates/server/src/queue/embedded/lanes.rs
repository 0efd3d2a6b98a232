//! The messages that can be read now, in the order in which any reader would get them.
//!
//! A lane holds the messages of one sender to one recipient (or to anyone) in one queue, by rank. Readers ask for a
//! queue, a sender or both, and may read what is for anyone or for them; so lanes are grouped by (queue, recipient)
//! and by (sender, recipient), and each group is ordered by the first ranks of its lanes. The first message for a
//! reader is then at the head of the first lane of two groups, however deep the lanes are, and a group is touched only
//! when the first message of a lane changes.
//!
//! Rejected: one ordered set per kind of query. It costs each message an entry in every set; lanes cost it one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::ages::{Ages, FEW_LANES, LaneAge, MANY_LANES};
use super::changes::Changes;
use super::discarded::Discarded;
use super::message::{ANYONE, Entry, LaneKey, Place, Rank};
use crate::queue::rules::{AccountId, MessageId, QueueId};

/// Index of a lane while it exists.
pub(super) type LaneId = u32;

/// A lane with the rank of its first message, by which lanes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneHead {
    pub(super) rank: Rank,
    pub(super) lane: LaneId,
}

/// Lanes that the same readers see, ordered by their first messages.
pub(super) type Group = BTreeSet<LaneHead>;

/// Number of empty lanes that keep a little memory for their next message: enough for queues that are read as fast as
/// they are written, but not for every lane that ever held something.
const FREE_LANES_WITH_MEMORY: usize = 1024;

/// One lane.
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) messages: BTreeMap<Rank, Entry>,
}

/// All lanes that hold a message.
#[derive(Default)]
pub(super) struct Lanes {
    slots: Vec<Lane>,
    free: Vec<LaneId>,
    ids: FxHashMap<LaneKey, LaneId>,
    queues: FxHashMap<QueueId, Audience>,
    senders: FxHashMap<AccountId, Audience>,
    /// Queues that hold something for a recipient, by recipient.
    readable: FxHashMap<AccountId, BTreeSet<QueueId>>,
    /// Indexes by age for the queues with many lanes.
    pub(super) ages: Ages,
}

/// The groups of one queue or one sender, by recipient.
#[derive(Default)]
pub(super) struct Audience {
    anyone: Group,
    named: FxHashMap<AccountId, Group>,
    /// Number of lanes in all these groups.
    lanes: usize,
}

/// A group without lanes.
pub(super) static EMPTY: Group = Group::new();

impl Audience {
    /// The lanes with messages to this recipient.
    pub(super) fn group(&self, recipient: AccountId) -> &Group {
        if recipient == ANYONE { &self.anyone } else { self.named.get(&recipient).unwrap_or(&EMPTY) }
    }

    /// Returns all groups; only the one for anyone may be empty.
    fn groups(&self) -> impl Iterator<Item = &Group> {
        std::iter::once(&self.anyone).chain(self.named.values())
    }

    /// Moves a lane whose first message has changed. Returns whether its group holds anything now.
    fn move_head(&mut self, to: AccountId, lane: LaneId, before: Option<Rank>, after: Option<Rank>) -> bool {
        let group = if to == ANYONE { &mut self.anyone } else { self.named.entry(to).or_default() };
        if let Some(rank) = before {
            group.remove(&LaneHead { rank, lane });
        }
        if let Some(rank) = after {
            group.insert(LaneHead { rank, lane });
        }
        self.lanes = self.lanes + usize::from(before.is_none()) - usize::from(after.is_none());
        let filled = !group.is_empty();
        if !filled && to != ANYONE {
            self.named.remove(&to);
        }
        filled
    }
}

impl Lanes {
    /// Puts a message in.
    pub(super) fn insert(&mut self, place: &Place, entry: Entry, changes: &mut Changes) {
        let id = self.open(place.lane);
        let (before, age) = (self.lane(id).first_rank(), self.age(id));
        self.lane_mut(id).messages.insert(place.rank, entry);
        self.move_head(id, before, changes);
        self.move_age(id, age);
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, place: &Place, changes: &mut Changes) -> Option<Entry> {
        let id = self.id(&place.lane)?;
        let (before, age) = (self.lane(id).first_rank(), self.age(id));
        let entry = self.lane_mut(id).messages.remove(&place.rank)?;
        self.move_head(id, before, changes);
        self.move_age(id, age);
        Some(entry)
    }

    /// A message's entry.
    pub(super) fn entry(&self, place: &Place) -> Option<Entry> {
        self.lane(self.id(&place.lane)?).messages.get(&place.rank).copied()
    }

    /// Takes out every message of a queue. They are freed later.
    pub(super) fn clear_queue(&mut self, queue: QueueId, discarded: &mut Discarded, changes: &mut Changes) {
        for id in self.lanes_of(queue) {
            let lane = self.lane_mut(id);
            let before = lane.first_rank();
            discarded.add(std::mem::take(&mut lane.messages));
            self.move_head(id, before, changes);
        }
        self.queues.remove(&queue);
    }

    /// The lanes of a queue, in no particular order.
    pub(super) fn lanes_of(&self, queue: QueueId) -> Vec<LaneId> {
        let audience = self.queues.get(&queue);
        audience.into_iter().flat_map(Audience::groups).flatten().map(|head| head.lane).collect()
    }

    /// The groups of a queue.
    pub(super) fn queue(&self, queue: QueueId) -> Option<&Audience> {
        self.queues.get(&queue)
    }

    /// The groups of a sender.
    pub(super) fn sender(&self, sender: AccountId) -> Option<&Audience> {
        self.senders.get(&sender)
    }

    /// The queues that hold something for this recipient.
    pub(super) fn readable(&self, recipient: AccountId) -> &BTreeSet<QueueId> {
        static NONE: BTreeSet<QueueId> = BTreeSet::new();
        self.readable.get(&recipient).unwrap_or(&NONE)
    }

    /// The number of a lane, if it holds anything.
    pub(super) fn id(&self, key: &LaneKey) -> Option<LaneId> {
        self.ids.get(key).copied()
    }

    /// A lane by its number.
    pub(super) fn lane(&self, id: LaneId) -> &Lane {
        &self.slots[id as usize]
    }

    /// How many lanes hold something.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        &mut self.slots[id as usize]
    }

    fn open(&mut self, key: LaneKey) -> LaneId {
        if let Some(id) = self.id(&key) {
            return id;
        }
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize].key = key;
                id
            }
            None => {
                self.slots.push(Lane { key, messages: BTreeMap::new() });
                LaneId::try_from(self.slots.len() - 1).expect("memory ends before 2^32 lanes do")
            }
        };
        self.ids.insert(key, id);
        id
    }

    /// Returns the id of a lane's oldest message, if its queue has an index by age.
    fn age(&self, id: LaneId) -> Option<MessageId> {
        let lane = self.lane(id);
        if self.ages.has(lane.key.queue) { lane.oldest() } else { None }
    }

    /// Moves a lane in its queue's index by age, if its oldest message has changed.
    fn move_age(&mut self, id: LaneId, before: Option<MessageId>) {
        let after = self.age(id);
        self.ages.set(self.lane(id).key.queue, id, before, after);
    }

    /// Begins or ends a queue's index by age after a change of its number of lanes.
    fn keep_ages(&mut self, queue: QueueId, lanes: usize) {
        if lanes < FEW_LANES {
            self.ages.end(queue);
        } else if lanes >= MANY_LANES && !self.ages.has(queue) {
            let lanes = self.lanes_of(queue).into_iter();
            let ages =
                lanes.filter_map(|lane| Some(LaneAge { oldest: self.lane(lane).oldest()?, lane })).collect();
            self.ages.begin(queue, ages);
        }
    }

    /// Moves a lane in its groups if its first message has changed, and frees it if it is empty. Notes its recipient if
    /// that can now read from one queue more, or one less.
    fn move_head(&mut self, id: LaneId, before: Option<Rank>, changes: &mut Changes) {
        let Lane { key, .. } = self.slots[id as usize];
        let after = self.lane(id).first_rank();
        if before == after {
            return;
        }
        self.senders.entry(key.sender).or_default().move_head(key.recipient, id, before, after);
        let queue = self.queues.entry(key.queue).or_default();
        let filled = queue.move_head(key.recipient, id, before, after);
        let lanes = queue.lanes;
        if before.is_none() || after.is_none() {
            self.keep_ages(key.queue, lanes);
        }
        let is_changed = if before.is_none() && filled {
            self.readable.entry(key.recipient).or_default().insert(key.queue)
        } else {
            !filled && self.readable.get_mut(&key.recipient).is_some_and(|queues| queues.remove(&key.queue))
        };
        if is_changed {
            changes.note_recipient(key.recipient);
        }
        if after.is_none() {
            self.ids.remove(&key);
            if self.free.len() >= FREE_LANES_WITH_MEMORY {
                self.lane_mut(id).messages = BTreeMap::new();
            }
            self.free.push(id);
        }
    }
}

impl Lane {
    /// The rank of its first message.
    pub(super) fn first_rank(&self) -> Option<Rank> {
        self.messages.first_key_value().map(|(rank, _)| *rank)
    }

    /// The id of its oldest message.
    fn oldest(&self) -> Option<MessageId> {
        let (first, last) = (self.first_rank()?, *self.messages.last_key_value()?.0);
        if first.priority() == last.priority() {
            return Some(first.id());
        }
        self.stretches(0).filter_map(|mut stretch| stretch.next()).map(|(rank, _)| rank.id()).min()
    }
}
