//! A census of the ring: which lanes held something at one moment. It is taken while the ring is long and full of
//! messages that are gone, where a search for the next one that is left walks over all those.
//!
//! Messages enter the ring by being sent and leave it for good. So of what was settled at that moment only the lanes of
//! the census can still hold something, each from its first place on; elsewhere only newer messages need be read.

use rustc_hash::FxHashMap;

use crate::queue::rules::AccountId;

/// A lane that held something, as SQL tells it.
#[derive(Clone, Copy)]
pub(super) struct Occupied {
    pub(super) queue: i64,
    pub(super) sender: AccountId,
    /// 0: anyone.
    pub(super) recipient: AccountId,
    /// Its first place that held a message.
    pub(super) place: i64,
}

/// A census; an empty one says nothing.
#[derive(Default)]
pub(super) struct Census {
    /// Place up to which the census is complete; 0: there was none.
    up_to: i64,
    /// First places by recipient and queue.
    queues: FxHashMap<AccountId, FxHashMap<i64, i64>>,
    /// First places in all queues, by sender and recipient.
    senders: FxHashMap<(AccountId, AccountId), i64>,
}

impl Census {
    /// Makes a census from what was found when everything up to a place was settled.
    pub(super) fn new(up_to: i64, found: impl IntoIterator<Item = Occupied>) -> Self {
        let mut census = Self { up_to, ..Self::default() };
        for lane in found {
            let queues = census.queues.entry(lane.recipient).or_default();
            let first = queues.entry(lane.queue).or_insert(lane.place);
            *first = lane.place.min(*first);
            let first = census.senders.entry((lane.sender, lane.recipient)).or_insert(lane.place);
            *first = lane.place.min(*first);
        }
        census
    }

    /// Returns the place below which nothing is left of what a sender sent to a recipient, whatever the queue.
    pub(super) fn floor(&self, sender: AccountId, recipient: AccountId) -> i64 {
        self.senders.get(&(sender, recipient)).map_or(self.up_to, |first| self.up_to.min(*first))
    }
}

/// The part of a census that QREADABLEs need, column by column.
#[derive(Default)]
pub(super) struct Excerpt {
    /// Place up to which the census is complete; 0: there is none.
    pub(super) up_to: i64,
    pub(super) recipients: Vec<i32>,
    pub(super) queues: Vec<i64>,
    pub(super) places: Vec<i64>,
    told: Vec<AccountId>,
}

impl Excerpt {
    /// Adds a reader's lanes and those for anyone. `floor` may be newer than the census: below it nothing is left.
    pub(super) fn add(&mut self, census: &Census, floor: i64, reader: AccountId) {
        if census.up_to == 0 {
            return;
        }
        self.up_to = census.up_to.max(floor);
        if census.up_to <= floor {
            return;
        }
        for recipient in [0, reader] {
            if self.told.contains(&recipient) {
                continue;
            }
            self.told.push(recipient);
            for (queue, first) in census.queues.get(&recipient).into_iter().flatten() {
                self.recipients.push(recipient.cast_signed());
                self.queues.push(*queue);
                self.places.push((*first).max(floor));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: [Occupied; 4] = [
        Occupied { queue: 7, sender: 1, recipient: 0, place: 30 },
        Occupied { queue: 7, sender: 2, recipient: 0, place: 20 },
        Occupied { queue: 8, sender: 1, recipient: 0, place: 40 },
        Occupied { queue: 8, sender: 1, recipient: 5, place: 60 },
    ];

    #[test]
    fn a_sender_s_floor_is_its_first_place_in_any_queue() {
        let census = Census::new(50, FOUND);
        assert_eq!(census.floor(1, 0), 30);
        assert_eq!(census.floor(2, 0), 20);
        assert_eq!(census.floor(3, 0), 50, "nothing of it was left");
        assert_eq!(census.floor(1, 5), 50, "what came later does not make it higher than what was settled");
        assert_eq!(Census::default().floor(1, 0), 0, "nobody looked");
    }

    #[test]
    fn an_excerpt_has_each_queue_once_for_each_reader_and_for_anyone() {
        let census = Census::new(50, FOUND);
        let mut excerpt = Excerpt::default();
        for reader in [5, 6, 5] {
            excerpt.add(&census, 25, reader);
        }
        assert_eq!(excerpt.up_to, 50);
        let mut rows: Vec<_> = excerpt.recipients.iter().zip(&excerpt.queues).zip(&excerpt.places).collect();
        rows.sort_unstable();
        assert_eq!(
            rows,
            [((&0, &7), &25), ((&0, &8), &40), ((&5, &8), &60)],
            "and none begins below the floor"
        );
    }

    #[test]
    fn a_census_that_the_floor_has_passed_leaves_what_came_since() {
        let mut excerpt = Excerpt::default();
        excerpt.add(&Census::new(50, FOUND), 60, 5);
        assert_eq!((excerpt.up_to, excerpt.queues.len()), (60, 0));
    }

    #[test]
    fn nobody_s_census_says_nothing() {
        let mut excerpt = Excerpt::default();
        excerpt.add(&Census::default(), 60, 5);
        assert_eq!((excerpt.up_to, excerpt.queues.len()), (0, 0));
    }
}
