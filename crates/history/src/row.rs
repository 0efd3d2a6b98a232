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
    places: Vec<Place<K>>,
}

#[derive(Debug)]
struct Place<K> {
    key: K,
    /// Index of the message at this place.
    own: u32,
    /// The longest stand of this place and all before it; until [`Row::finish`] runs, this place's own.
    longest: Stand,
    /// The longest stand so far by a sender other than that of `longest`.
    other: Option<Stand>,
}

impl<K> Default for Row<K> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<K: Ord + Copy> Row<K> {
    /// Adds a message; call [`Row::finish`] after the last one.
    pub(crate) fn push(&mut self, key: K, stand: Stand) {
        self.places.push(Place { key, own: stand.message, longest: stand, other: None });
    }

    /// Sorts the row and computes the longest stands, once all messages have been added.
    pub(crate) fn finish(&mut self) {
        self.places.sort_by_key(|place| place.key);
        for i in 1..self.places.len() {
            let (before, own) = (&self.places[i - 1], self.places[i].longest);
            let (longest, other) = lengthened(before.longest, before.other, own);
            (self.places[i].longest, self.places[i].other) = (longest, other);
        }
    }

    /// Returns how many messages come before `key`.
    pub(crate) fn before(&self, key: K) -> usize {
        self.places.partition_point(|place| place.key < key)
    }

    /// Returns the messages of the first `count`, last first, as long as one of those that remain stood until after
    /// `time`.
    pub(crate) fn back_from(&self, count: usize, time: Time) -> impl Iterator<Item = u32> {
        let places = self.places[..count].iter().rev();
        places.take_while(move |place| place.longest.until > time).map(|place| place.own)
    }

    /// Returns the message that stood longest of the first `count`, without those that `not_from` sent.
    pub(crate) fn longest(&self, count: usize, not_from: Option<Name>) -> Option<Stand> {
        let place = self.places.get(count.checked_sub(1)?)?;
        if not_from == Some(place.longest.sender) { place.other } else { Some(place.longest) }
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
