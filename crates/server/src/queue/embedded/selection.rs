//! Which messages a reader gets, and in which order.
//!
//! The first message costs a fixed number of looks at the first lanes of two groups. More messages (`COUNT`) come
//! from merging lanes, opened one by one as their first messages come up: a reader that wants ten of a queue with ten
//! thousand senders opens eleven lanes, not ten thousand. Requests for messages by id do the same, with
//! [`ages`](super::ages) to tell which lane is next.

use std::collections::btree_set;
use std::iter::Peekable;

use super::ages::LaneAge;
use super::lanes::{EMPTY, Group, Lane, LaneHead, LaneId, Lanes};
use super::merge::{Merge, Pick, Stretch};
use super::message::{ANYONE, LaneKey, Place, Rank};
use crate::queue::rules::{AccountId, Interest, MessageId, QueueId};

impl Lanes {
    /// The first message that suits.
    pub(super) fn first(&self, interest: &Interest) -> Option<Pick> {
        let id = match (interest.queue, interest.sender) {
            (Some(queue), Some(sender)) => {
                let lanes = self.both(interest, queue, sender).into_iter().flatten();
                lanes.min_by_key(|id| self.lane(*id).first_rank())?
            }
            _ => {
                let groups = self.groups(interest).into_iter();
                groups.filter_map(|group| self.first_lane(group, interest)).min()?.lane
            }
        };
        let lane = self.lane(id);
        let (&rank, &entry) = lane.messages.first_key_value()?;
        Some(Pick { place: Place { lane: lane.key, rank }, entry })
    }

    /// Every message that suits, in reading order.
    pub(super) fn walk(&self, interest: &Interest) -> Walk<'_> {
        let mut walk = Walk {
            lanes: self,
            left_out: interest.not_own.then_some(interest.reader),
            closed: self.groups(interest).map(|group| group.iter().peekable()),
            open: Merge::by(Rank::number),
        };
        if let (Some(queue), Some(sender)) = (interest.queue, interest.sender) {
            walk.closed = [&EMPTY, &EMPTY].map(|group| group.iter().peekable());
            for id in self.both(interest, queue, sender).into_iter().flatten() {
                walk.open(id);
            }
        }
        walk
    }

    /// The queues that hold something the reader may have, by number.
    pub(super) fn readable_by(&self, reader: AccountId) -> impl Iterator<Item = QueueId> + Clone {
        self.readable(ANYONE).union(self.readable(reader)).copied()
    }

    /// The messages of a queue with ids above `after`, by id, whoever they are for.
    pub(super) fn by_id(&self, queue: QueueId, after: MessageId) -> ById<'_> {
        let closed = self.ages.of(queue).map(Iterator::peekable);
        let all = if closed.is_some() { Vec::new() } else { self.lanes_of(queue) };
        let mut walk = ById { lanes: self, after, closed, open: Merge::by(Rank::id) };
        all.into_iter().for_each(|id| walk.open(id));
        walk
    }

    /// The two lanes of one sender in one queue that the reader may see.
    fn both(&self, interest: &Interest, queue: QueueId, sender: AccountId) -> [Option<LaneId>; 2] {
        if interest.not_own && sender == interest.reader {
            return [None, None];
        }
        let lane = |recipient| self.id(&LaneKey { queue, sender, recipient });
        [lane(ANYONE), if interest.broadcast { None } else { lane(interest.reader) }]
    }

    /// The groups of one queue or one sender that the reader may see.
    fn groups(&self, interest: &Interest) -> [&Group; 2] {
        let audience = match (interest.queue, interest.sender) {
            (Some(queue), _) => self.queue(queue),
            (None, Some(sender)) => self.sender(sender),
            (None, None) => None,
        };
        // All lanes in a sender's groups are its own, so there is no need to look at any.
        let audience = audience.filter(|_| !(interest.not_own && interest.sender == Some(interest.reader)));
        let Some(audience) = audience else { return [&EMPTY, &EMPTY] };
        let own = if interest.broadcast { &EMPTY } else { audience.group(interest.reader) };
        [audience.group(ANYONE), own]
    }

    /// Returns the first lane of a group, without the reader's own lanes if it wants none of its own messages.
    fn first_lane(&self, group: &Group, interest: &Interest) -> Option<LaneHead> {
        let left_out = |id: LaneId| interest.not_own && self.lane(id).key.sender == interest.reader;
        group.iter().find(|head| !left_out(head.lane)).copied()
    }
}

impl Lane {
    /// The messages with ids above `after`, one stretch per priority.
    pub(super) fn stretches(&self, after: MessageId) -> impl Iterator<Item = Stretch<'_>> {
        let mut next = self.first_rank();
        std::iter::from_fn(move || {
            let priority = next?.priority();
            let last = Rank::last(priority);
            next = self.messages.range(last..).next().map(|(rank, _)| *rank);
            Some(self.messages.range(Rank::new(priority, after.saturating_add(1)).min(last)..last))
        })
    }
}

/// Messages by id. Where their queue has an index by age, lanes are opened as they are needed.
pub(super) struct ById<'a> {
    lanes: &'a Lanes,
    after: MessageId,
    closed: Option<Peekable<btree_set::Iter<'a, LaneAge>>>,
    open: Merge<'a>,
}

impl ById<'_> {
    fn open(&mut self, id: LaneId) {
        let lane = self.lanes.lane(id);
        lane.stretches(self.after).for_each(|stretch| self.open.push(lane.key, stretch));
    }

    /// The next lane to open: one that holds an older message than the first of all open lanes.
    fn next_closed(&mut self) -> Option<LaneId> {
        let first = self.open.peek().map(|pick| pick.place.id());
        let may_come_first = |age: &&LaneAge| first.is_none_or(|first| age.oldest < first);
        self.closed.as_mut()?.next_if(may_come_first).map(|age| age.lane)
    }
}

impl Iterator for ById<'_> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        while let Some(id) = self.next_closed() {
            self.open(id);
        }
        self.open.next()
    }
}

/// Messages in reading order, from lanes opened as they are needed.
pub(super) struct Walk<'a> {
    lanes: &'a Lanes,
    left_out: Option<AccountId>,
    closed: [Peekable<btree_set::Iter<'a, LaneHead>>; 2],
    open: Merge<'a>,
}

impl Walk<'_> {
    fn open(&mut self, id: LaneId) {
        let lane = self.lanes.lane(id);
        if self.left_out != Some(lane.key.sender) {
            self.open.push(lane.key, lane.messages.range(..));
        }
    }

    /// The next lane to open: the one whose first message comes before those of all open lanes.
    fn next_closed(&mut self) -> Option<LaneId> {
        let heads = self.closed.iter_mut().filter_map(|group| Some((**group.peek()?, group)));
        let (head, group) = heads.min_by_key(|(head, _)| *head)?;
        if self.open.peek().is_some_and(|open| open.place.rank < head.rank) {
            return None;
        }
        group.next();
        Some(head.lane)
    }
}

impl Iterator for Walk<'_> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        while let Some(id) = self.next_closed() {
            self.open(id);
        }
        self.open.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::embedded::changes::Changes;
    use crate::queue::embedded::log::Location;
    use crate::queue::embedded::message::{Entry, Home};

    #[test]
    fn who_wants_none_of_its_own_looks_at_no_lane_of_its_own() {
        const SELF: AccountId = 1;
        let at = Location { segment: 0, offset: 0 };
        let mut lanes = Lanes::default();
        for queue in 1..=100 {
            let lane = LaneKey { queue, sender: SELF, recipient: ANYONE };
            let entry = Entry { home: Home { at, len: 0 }, body_len: 0 };
            lanes.insert(&Place { lane, rank: Rank::new(0, queue) }, entry, &mut Changes::default());
        }
        let looked_at = |reader, not_own| {
            let interest = Interest { reader, queue: None, sender: Some(SELF), not_own, broadcast: false };
            lanes.groups(&interest).map(Group::len).iter().sum::<usize>()
        };
        assert_eq!([looked_at(SELF, true), looked_at(SELF, false), looked_at(2, true)], [0, 100, 100]);
    }
}
