//! Messages ordered by a key; for each *n* it is known which of the first *n* stood longest.
//!
//! That turns "is there a message that was acknowledged before this time and that nobody touched until after that
//! time?" into one binary search.

use crate::Time;
use crate::names::Name;

/// How long a message certainly stood where it was sent, for everybody it was for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    /// Time up to which nobody can have touched it.
    pub(crate) until: Time,
    /// The account that sent it.
    pub(crate) sender: Name,
    /// Index of the message in `Story::messages`.
    pub(crate) message: u32,
}

/// A row of messages, ordered by `K`.
#[derive(Debug)]
pub(crate) struct Row<K> {
    entries: Vec<Entry<K>>,
}

/// One message of a row.
#[derive(Debug)]
struct Entry<K> {
    key: K,
    /// Index of the message.
    own: u32,
    /// The longest stand of this entry and all before it; until [`Row::finish`] runs, this entry's own.
    longest: Stand,
    /// The longest stand so far by a sender other than that of `longest`.
    other: Option<Stand>,
}

impl<K> Default for Row<K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Ord + Copy> Row<K> {
    /// Adds a message; call [`Row::finish`] after the last one.
    pub(crate) fn push(&mut self, key: K, stand: Stand) {
        self.entries.push(Entry { key, own: stand.message, longest: stand, other: None });
    }

    /// Sorts the row and computes the longest stands, once all messages have been added.
    pub(crate) fn finish(&mut self) {
        self.entries.sort_by_key(|entry| entry.key);
        for i in 1..self.entries.len() {
            let (before, own) = (&self.entries[i - 1], self.entries[i].longest);
            let (longest, other) = lengthened(before.longest, before.other, own);
            (self.entries[i].longest, self.entries[i].other) = (longest, other);
        }
    }

    /// Returns how many messages come before `key`.
    pub(crate) fn before(&self, key: K) -> usize {
        self.entries.partition_point(|entry| entry.key < key)
    }

    /// Returns the messages of the first `count`, last first, as long as one of those that remain stood until after
    /// `time`.
    pub(crate) fn back_from(&self, count: usize, time: Time) -> impl Iterator<Item = u32> {
        let entries = self.entries[..count].iter().rev();
        entries.take_while(move |entry| entry.longest.until > time).map(|entry| entry.own)
    }

    /// Returns the message that stood longest of the first `count`, without those that `not_from` sent.
    pub(crate) fn longest(&self, count: usize, not_from: Option<Name>) -> Option<Stand> {
        let entry = self.entries.get(count.checked_sub(1)?)?;
        if not_from == Some(entry.longest.sender) { entry.other } else { Some(entry.longest) }
    }
}

fn lengthened(longest: Stand, other: Option<Stand>, new: Stand) -> (Stand, Option<Stand>) {
    if new.until > longest.until {
        let other = if new.sender == longest.sender { other } else { Some(longest) };
        (new, other)
    } else if new.sender != longest.sender && other.is_none_or(|other| new.until > other.until) {
        (longest, Some(new))
    } else {
        (longest, other)
    }
}
