//! Lazy freeing: messages of purged queues, which are freed little by little.
//!
//! A purge takes the lanes of its queue out whole. To free their entries, and to take each off the live bytes of its
//! segment, would have every other client wait: for ten million messages, a good part of a second.
//!
//! Until then they count as memory of the store and as live bytes of the log. So each commit frees at least twice as
//! many as it has records: whatever is sent and purged again and again, no more of them are left. They are freed in the
//! order of the purges, because those that were discarded first hold the oldest segments.

use std::collections::btree_map::IntoValues;
use std::collections::{BTreeMap, VecDeque};

use super::message::{Entry, Rank};

/// Lanes that are out of every index but not freed.
#[derive(Default)]
pub(super) struct Discarded {
    lanes: VecDeque<IntoValues<Rank, Entry>>,
    messages: u64,
}

impl Discarded {
    /// Takes over the messages of a lane, of which there is at least one.
    pub(super) fn add(&mut self, lane: BTreeMap<Rank, Entry>) {
        self.messages += lane.len() as u64;
        self.lanes.push_back(lane.into_values());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// How many messages are to be freed.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// How many lanes they were in.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Frees the next messages, `count` at most, calling `gone` for each.
    pub(super) fn free(&mut self, count: usize, mut gone: impl FnMut(&Entry)) {
        for _ in 0..count {
            let Some(lane) = self.lanes.front_mut() else { return };
            if let Some(entry) = lane.next() {
                self.messages -= 1;
                gone(&entry);
            }
            if lane.len() == 0 {
                self.lanes.pop_front();
            }
        }
    }
}
