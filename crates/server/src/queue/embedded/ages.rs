//! Finds the lane with a queue's oldest message without a look at every lane.
//!
//! Groups order lanes as readers want them, by priority first and each recipient's apart, so a request for messages
//! by id would have to look at all lanes of a queue. For a queue with many lanes (one for each of 100,000 recipients,
//! say) this index holds each lane with the id of its oldest message, and moves it when that message is removed: a
//! message costs one step in a set of lanes, and takes no memory. A queue with few lanes has no index: to look at
//! each is as cheap.

use std::collections::BTreeSet;
use std::collections::btree_set::Iter;

use rustc_hash::FxHashMap;

use super::lanes::LaneId;
use crate::queue::rules::{MessageId, QueueId};

/// Number of lanes from which on a queue has an index.
pub(super) const MANY_LANES: usize = 64;

/// Number of lanes below which a queue loses its index again.
pub(super) const FEW_LANES: usize = MANY_LANES / 2;

/// A lane with the id of its oldest message, by which lanes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneAge {
    pub(super) oldest: MessageId,
    pub(super) lane: LaneId,
}

/// The indexes of all queues with many lanes.
#[derive(Default)]
pub(super) struct Ages(FxHashMap<QueueId, BTreeSet<LaneAge>>);

impl Ages {
    /// Returns whether this queue has an index.
    pub(super) fn has(&self, queue: QueueId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&queue)
    }

    /// Returns a queue's lanes from the one with the oldest message on; None if it has no index.
    pub(super) fn of(&self, queue: QueueId) -> Option<Iter<'_, LaneAge>> {
        self.0.get(&queue).map(BTreeSet::iter)
    }

    /// Gives a queue an index of these lanes.
    pub(super) fn begin(&mut self, queue: QueueId, lanes: BTreeSet<LaneAge>) {
        self.0.insert(queue, lanes);
    }

    /// Drops the index of a queue.
    pub(super) fn end(&mut self, queue: QueueId) {
        if !self.0.is_empty() {
            self.0.remove(&queue);
        }
    }

    /// Moves a lane whose oldest message has changed; None: the lane holds no message.
    pub(super) fn set(
        &mut self,
        queue: QueueId,
        lane: LaneId,
        before: Option<MessageId>,
        after: Option<MessageId>,
    ) {
        let Some(lanes) = self.0.get_mut(&queue).filter(|_| before != after) else { return };
        if let Some(oldest) = before {
            lanes.remove(&LaneAge { oldest, lane });
        }
        if let Some(oldest) = after {
            lanes.insert(LaneAge { oldest, lane });
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::super::changes::Changes;
    use super::super::discarded::Discarded;
    use super::super::lanes::Lanes;
    use super::super::log::Location;
    use super::super::message::{Entry, Home, LaneKey, Place, Rank};

    const QUEUE: u64 = 7;
    const ENTRY: Entry = Entry { home: Home { at: Location { segment: 0, offset: 0 }, len: 0 }, body_len: 0 };

    fn place(recipient: u32, priority: u8, id: u64) -> Place {
        let lane = LaneKey { queue: QUEUE, sender: 1 + recipient % 3, recipient };
        Place { lane, rank: Rank::new(priority, id) }
    }

    /// Compares each answer with a plain list of all messages.
    #[test]
    fn messages_come_by_their_ids_however_many_lanes_there_are() {
        let (mut dice, mut changes) = (Rng::with_seed(1), Changes::default());
        for most in [10, 60, 100, 300] {
            let (mut lanes, mut truth) = (Lanes::default(), Vec::<Place>::new());
            for id in 1..2_000 {
                // They become many, then few, then many again.
                let is_full = truth.len() > if id % 700 < 350 { 2 * most } else { 5 };
                if is_full || (dice.u8(..4) == 0 && !truth.is_empty()) {
                    let gone = truth.swap_remove(dice.usize(..truth.len()));
                    assert_eq!(lanes.remove(&gone, &mut changes), Some(ENTRY));
                } else {
                    let id = if dice.bool() { id } else { 10_000 - id }; // some come back
                    let priority = if dice.u8(..4) == 0 { dice.u8(..3) } else { 0 };
                    truth.push(place(dice.u32(..most as u32), priority, id));
                    lanes.insert(&truth[truth.len() - 1], ENTRY, &mut changes);
                }
                let after = if dice.bool() { 0 } else { dice.u64(..10_000) };
                let mut expected: Vec<u64> = truth.iter().map(Place::id).filter(|id| *id > after).collect();
                expected.sort_unstable();
                let count = dice.usize(1..20);
                let found: Vec<u64> =
                    lanes.by_id(QUEUE, after).map(|pick| pick.place.id()).take(count).collect();
                assert_eq!(found, expected[..count.min(expected.len())]);
            }
            let mut discarded = Discarded::default();
            lanes.clear_queue(QUEUE, &mut discarded, &mut changes);
            discarded.free(usize::MAX, |_| truth.truncate(truth.len() - 1));
            assert!(truth.is_empty() && lanes.by_id(QUEUE, 0).next().is_none() && !lanes.ages.has(QUEUE));
        }
    }

    /// A look at every recipient for each message would take hours.
    #[test]
    fn the_oldest_message_is_found_however_many_recipients_there_are() {
        const RECIPIENTS: u32 = 50_000;
        let (mut lanes, mut changes) = (Lanes::default(), Changes::default());
        for id in 1..=2 * RECIPIENTS {
            lanes.insert(&place(id % RECIPIENTS, 0, id.into()), ENTRY, &mut changes);
        }
        for id in 1..=2 * RECIPIENTS {
            let oldest = lanes.by_id(QUEUE, 0).next().map(|pick| pick.place);
            assert_eq!(oldest, Some(place(id % RECIPIENTS, 0, id.into())));
            assert_eq!(lanes.remove(&place(id % RECIPIENTS, 0, id.into()), &mut changes), Some(ENTRY));
        }
    }
}
