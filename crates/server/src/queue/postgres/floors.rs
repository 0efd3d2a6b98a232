//! Floors of lanes: the place in reading order below which the ring holds nothing for a lane.
//!
//! A queue's row is locked by every transaction that appends to the queue, so its messages come in the order of their
//! ids, and what was once seen to be gone stays gone. Without a floor a read walks the index entries of every message
//! that was read before it, until the ring turns. A floor is only a hint. If it is too low, reads are slow; it is never
//! too high, not even for a queue made anew under an old name, because ids only grow.

use rustc_hash::FxHashMap;

use super::census::{Census, Excerpt};
use super::link::Server;
use crate::queue::rules::AccountId;

/// Number of lanes above which those are forgotten whose floor is no higher than the ring's, which includes queues that
/// other middlewares have deleted. If more than half remain, all are forgotten: they come back by themselves.
const LANES_MAX: usize = 100_000;

/// A lane within a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LaneOfQueue {
    /// None: any.
    sender: Option<AccountId>,
    /// 0: anyone.
    recipient: AccountId,
}

/// How far a floor may lag behind: to walk fewer dead entries than this is faster than to ask for a new floor.
const BEHIND_MAX: i64 = 500;

/// Source of floors: a server, and the number of connections made so far, which shows that it has been away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) server: Server,
    pub(super) made: u64,
}

/// What is known about a lane.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    /// Place below which the ring holds nothing for the lane.
    pub(super) place: i64,
    /// The highest place met when the database told the floor. A lane may hold an old message; then its floor stays as it
    /// is.
    told: i64,
}

/// All floors that this middleware knows.
#[derive(Default)]
pub(super) struct Floors {
    server: Option<Source>,
    /// The highest place that this middleware has met.
    newest: i64,
    /// The floor of the ring as a whole.
    ring: i64,
    /// The last census: what was left in the ring then.
    census: Census,
    queues: FxHashMap<Box<[u8]>, FxHashMap<LaneOfQueue, Floor>>,
    lanes: usize,
}

impl Floors {
    /// Returns the floor of a queue's lane.
    pub(super) fn of(&self, queue: &[u8], sender: Option<AccountId>, recipient: AccountId) -> Floor {
        let floor = self.queues.get(queue).and_then(|lanes| lanes.get(&LaneOfQueue { sender, recipient }));
        let floor = floor.copied().unwrap_or_default();
        Floor { place: floor.place.max(self.ring), ..floor }
    }

    /// Returns the floor of the ring as a whole.
    pub(super) fn ring(&self) -> i64 {
        self.ring
    }

    /// Returns the floor of what a sender sent to a recipient (0: anyone) in all queues.
    pub(super) fn of_all_queues(&self, sender: Option<AccountId>, recipient: AccountId) -> i64 {
        self.ring.max(sender.map_or(0, |sender| self.census.floor(sender, recipient)))
    }

    /// Adds what the last census says of a reader's lanes.
    pub(super) fn tell(&self, excerpt: &mut Excerpt, reader: AccountId) {
        excerpt.add(&self.census, self.ring, reader);
    }

    /// Replaces the census, and returns the one before.
    pub(super) fn count(&mut self, census: Census) -> Census {
        std::mem::replace(&mut self.census, census)
    }

    /// Raises the floor of every lane.
    pub(super) fn raise_ring(&mut self, floor: i64) {
        self.ring = self.ring.max(floor);
    }

    /// Returns whether a new floor of a lane is worth asking for.
    pub(super) fn is_due(&self, floor: Floor) -> bool {
        floor.place.max(floor.told) + BEHIND_MAX < self.newest
    }

    /// Returns the highest place met.
    pub(super) fn newest(&self) -> i64 {
        self.newest
    }

    /// Notes that a place was met.
    pub(super) fn meet(&mut self, place: i64) {
        self.newest = self.newest.max(place);
    }

    /// Raises a lane's floor, but not above the highest place met: after a crash ids that others drew may come again.
    pub(super) fn raise(
        &mut self,
        queue: &[u8],
        sender: Option<AccountId>,
        recipient: AccountId,
        floor: i64,
    ) {
        if self.lanes >= LANES_MAX {
            self.clear_lanes();
        }
        let lanes = match self.queues.get_mut(queue) {
            Some(lanes) => lanes,
            None => self.queues.entry(queue.into()).or_default(),
        };
        let before = lanes.len();
        let known = lanes.entry(LaneOfQueue { sender, recipient }).or_default();
        *known = Floor { place: floor.min(self.newest).max(known.place), told: self.newest };
        self.lanes += lanes.len() - before;
    }

    /// Forgets a queue that was deleted.
    pub(super) fn forget_queue(&mut self, queue: &[u8]) {
        let lanes = self.queues.remove(queue).map_or(0, |lanes| lanes.len());
        self.lanes -= lanes;
    }

    /// Makes room for other lanes. The ring's floor stays: without it reads would walk everything that is gone.
    fn clear_lanes(&mut self) {
        let ring = self.ring;
        self.queues.retain(|_, lanes| {
            lanes.retain(|_, floor| floor.place > ring);
            !lanes.is_empty()
        });
        self.lanes = self.queues.values().map(FxHashMap::len).sum();
        if self.lanes > LANES_MAX / 2 {
            self.queues.clear();
            self.lanes = 0;
        }
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        *self = Self { server: self.server, ..Self::default() };
    }

    /// Forgets everything if it is from another source: another server may have taken over with an earlier state.
    pub(super) fn belong_to(&mut self, server: Source) {
        if self.server != Some(server) {
            *self = Self { server: Some(server), ..Self::default() };
        }
    }

    /// Returns whether the floors are from this source.
    pub(super) fn are_of(&self, server: Source) -> bool {
        self.server == Some(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_no_higher_than_what_was_met() {
        let mut floors = Floors::default();
        floors.meet(10);
        floors.raise(b"q", None, 0, 20);
        assert_eq!(floors.of(b"q", None, 0).place, 10, "ids up to 20 were drawn, perhaps for nothing");
        floors.meet(30);
        floors.raise(b"q", None, 0, 20);
        assert_eq!(floors.of(b"q", None, 0).place, 20);
    }

    #[test]
    fn of_a_queue_that_was_deleted_nothing_is_kept() {
        let mut floors = Floors::default();
        floors.meet(10);
        for (queue, recipient) in [(b"q", 0), (b"q", 1), (b"r", 0)] {
            floors.raise(queue, None, recipient, 10);
        }
        floors.forget_queue(b"q");
        floors.forget_queue(b"unknown");
        assert_eq!((floors.lanes, floors.queues.len()), (1, 1));
        assert_eq!(floors.of(b"r", None, 0).place, 10);
    }

    #[test]
    fn many_lanes_do_not_make_it_forget_the_ring() {
        let mut floors = Floors::default();
        floors.meet(1_000_000);
        floors.raise_ring(500);
        floors.raise(b"hot", None, 0, 900);
        for number in 0..3 * LANES_MAX {
            floors.raise(number.to_string().as_bytes(), None, 0, 400);
            assert!(floors.lanes <= LANES_MAX);
        }
        assert_eq!(floors.of(b"hot", None, 0).place, 900, "what is more than the ring's is kept");
        for number in 0..2 * LANES_MAX {
            floors.raise(number.to_string().as_bytes(), None, 0, 600);
            assert!(floors.lanes <= LANES_MAX);
        }
        assert_eq!(floors.ring(), 500);
        assert_eq!(floors.of(b"hot", None, 0).place, 500, "that was too many");
    }
}
