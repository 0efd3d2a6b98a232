//! Several stretches of lanes read as one sequence.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, btree_map};

use super::message::{Entry, LaneKey, Place, Rank};

/// A message that was found, with its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) place: Place,
    pub(super) entry: Entry,
}

/// A stretch of a lane in reading order.
pub(super) type Stretch<'a> = btree_map::Range<'a, Rank, Entry>;

/// Merges stretches of lanes into one sequence by `order`, in which each stretch must ascend.
pub(super) struct Merge<'a> {
    order: fn(Rank) -> u64,
    cursors: BinaryHeap<Reverse<Cursor<'a>>>,
}

/// A stretch being read: its current message and the rest.
struct Cursor<'a> {
    order: u64,
    pick: Pick,
    rest: Stretch<'a>,
}

impl<'a> Merge<'a> {
    pub(super) fn by(order: fn(Rank) -> u64) -> Self {
        Self { order, cursors: BinaryHeap::new() }
    }

    /// Adds a stretch.
    pub(super) fn push(&mut self, lane: LaneKey, mut rest: Stretch<'a>) {
        if let Some((&rank, &entry)) = rest.next() {
            let pick = Pick { place: Place { lane, rank }, entry };
            self.cursors.push(Reverse(Cursor { order: (self.order)(rank), pick, rest }));
        }
    }

    /// Returns the next message without taking it.
    pub(super) fn peek(&self) -> Option<&Pick> {
        self.cursors.peek().map(|Reverse(cursor)| &cursor.pick)
    }
}

impl Iterator for Merge<'_> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        let Reverse(Cursor { pick, rest, .. }) = self.cursors.pop()?;
        self.push(pick.place.lane, rest);
        Some(pick)
    }
}

impl Ord for Cursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl PartialOrd for Cursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Cursor<'_> {}
