//! The queues that a run's clients created: their ids are their names, which no other queue gets.
//!
//! A store numbers its queues one after the other, so each takes two bits, and no more than a byte or two of memory in
//! all.

use std::collections::HashMap;

use crate::queue::request::{Account, Queue};
use crate::violations::Violations;

/// Queues whose states stand in one word.
const PER_WORD: Queue = 32;

/// The lower bit of each state in a word.
const LOWER_BITS: u64 = 0x5555_5555_5555_5555;

/// Number of words that are kept, per thread; about 50 bytes each.
const WORDS_MAX: usize = 1 << 21;

/// Whether a queue is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No client created it, or it was not noted.
    Unknown = 0,
    /// It was created, and no deletion was answered.
    There = 1,
    /// A deletion was answered with a failure that may have left it or not.
    InDoubt = 2,
    /// It was deleted.
    Gone = 3,
}

/// How a deletion was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The queue is deleted.
    Done,
    /// It was refused.
    Refused,
    /// There is no such queue.
    NoQueue,
    /// It failed, and may have taken effect or not.
    Unknown,
}

/// The queues that clients created.
#[derive(Debug)]
pub(crate) struct CreatedQueues {
    /// Number of stores. Clients are dealt out to the servers in turn, of which each has a store of its own, or all
    /// have the same.
    stores: u32,
    /// Two bits for each queue, by index of the store and number of the word.
    words: HashMap<(u32, Queue), u64>,
    words_max: usize,
    /// Number of queues that were not noted for want of memory.
    unchecked: u64,
}

impl CreatedQueues {
    /// Starts without queues, in this many stores.
    pub(crate) fn new(stores: usize) -> Self {
        Self::within(WORDS_MAX, stores)
    }

    fn within(words_max: usize, stores: usize) -> Self {
        let stores = u32::try_from(stores).unwrap_or(u32::MAX).max(1);
        Self { stores, words: HashMap::new(), words_max, unchecked: 0 }
    }

    /// Returns the index of the store in which a client, counted from 1, has its queues.
    const fn store_of(&self, client: Account) -> u32 {
        client.saturating_sub(1) % self.stores
    }

    fn state(&self, store: u32, queue: Queue) -> State {
        let word = self.words.get(&(store, queue / PER_WORD)).copied().unwrap_or(0);
        match word >> (queue % PER_WORD * 2) & 3 {
            0 => State::Unknown,
            1 => State::There,
            2 => State::InDoubt,
            _ => State::Gone,
        }
    }

    fn set(&mut self, store: u32, queue: Queue, state: State) {
        let word = self.words.entry((store, queue / PER_WORD)).or_default();
        let place = queue % PER_WORD * 2;
        *word = *word & !(3 << place) | (state as u64) << place;
    }

    /// Notes that a client was given this queue; returns whether it is new.
    pub(crate) fn created(&mut self, client: Account, queue: Queue) -> bool {
        let store = self.store_of(client);
        if self.words.len() >= self.words_max && !self.words.contains_key(&(store, queue / PER_WORD)) {
            self.unchecked += 1;
            return true;
        }
        let is_new = self.state(store, queue) == State::Unknown;
        self.set(store, queue, State::There);
        is_new
    }

    /// Notes how a client's deletion of this queue was answered.
    pub(crate) fn deleted(&mut self, client: Account, queue: Queue, deletion: Deletion) {
        let store = self.store_of(client);
        let state = match (self.state(store, queue), deletion) {
            (State::Unknown, _) | (_, Deletion::Refused) => return,
            // An earlier deletion took effect; otherwise the answer is wrong, and is reported as such.
            (State::There, Deletion::NoQueue) => return,
            (_, Deletion::Done | Deletion::NoQueue) => State::Gone,
            (_, Deletion::Unknown) => State::InDoubt,
        };
        self.set(store, queue, state);
    }

    /// Returns whether a client's own queue certainly exists.
    pub(crate) fn is_there(&self, client: Account, queue: Queue) -> bool {
        self.state(self.store_of(client), queue) == State::There
    }

    /// Returns whether a queue at the server with this index certainly does not exist any more.
    pub(crate) fn is_gone(&self, server: usize, queue: Queue) -> bool {
        self.state(server as u32 % self.stores, queue) == State::Gone
    }

    /// Notes that a queue that a client left at the server with this index was deleted after the run.
    pub(crate) fn swept(&mut self, server: usize, queue: Queue) {
        let store = server as u32 % self.stores;
        if self.state(store, queue) != State::Unknown {
            self.set(store, queue, State::Gone);
        }
    }

    /// Returns the queues that certainly do not exist any more in the store with this index.
    pub(crate) fn gone(&self, store: usize) -> impl Iterator<Item = Queue> {
        let words = self.words.iter().filter(move |((of, _), _)| *of as usize == store);
        words.flat_map(|(&(_, number), &word)| {
            let gone = (0..PER_WORD).filter(move |place| word >> (place * 2) & 3 == State::Gone as u64);
            gone.map(move |place| number * PER_WORD + place)
        })
    }

    /// Returns the number of stores.
    pub(crate) const fn stores(&self) -> usize {
        self.stores as usize
    }

    /// Returns the number of queues that were not noted for want of memory.
    pub(crate) const fn unchecked(&self) -> u64 {
        self.unchecked
    }

    /// Adds the queues that the clients of another thread created; returns those that both have, which is a violation
    /// of each.
    pub(crate) fn absorb(&mut self, other: Self) -> Violations {
        let mut twice = Violations::default();
        self.unchecked += other.unchecked;
        for ((store, number), theirs) in other.words {
            let ours = self.words.entry((store, number)).or_default();
            let (mine, both) = (known(*ours), known(*ours) & known(theirs));
            for bit in (0..u64::BITS).filter(|bit| both >> bit & 1 == 1) {
                let queue = number * PER_WORD + Queue::from(bit / 2);
                twice.add(|| format!("queue id {queue} was given to two clients that created a queue"));
            }
            *ours |= theirs & !(mine * 3);
        }
        twice
    }
}

/// Returns the lower bit of each state of a word that is not unknown.
const fn known(word: u64) -> u64 {
    (word | word >> 1) & LOWER_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_new_once_and_there_until_it_is_deleted() {
        let mut queues = CreatedQueues::new(2);
        // Clients 1 and 3 are at the first server, client 2 is at the second.
        assert!(queues.created(1, 31) && queues.created(2, 31) && queues.created(3, 32));
        assert!(!queues.created(3, 31), "the first server gave it to client 1");
        assert!(queues.is_there(1, 32) && !queues.is_there(2, 32));
        for (deletion, is_there, is_gone) in [
            (Deletion::Refused, true, false),
            (Deletion::NoQueue, true, false),
            (Deletion::Unknown, false, false),
            (Deletion::Refused, false, false),
            (Deletion::NoQueue, false, true),
        ] {
            queues.deleted(1, 31, deletion);
            assert_eq!((queues.is_there(1, 31), queues.is_gone(0, 31)), (is_there, is_gone), "{deletion:?}");
        }
        queues.deleted(3, 32, Deletion::Done);
        queues.deleted(3, 33, Deletion::Done);
        let mut gone: Vec<_> = queues.gone(0).collect();
        gone.sort_unstable();
        assert_eq!(gone, [31, 32], "nobody created queue 33");
        assert!(queues.gone(1).next().is_none() && queues.is_there(2, 31));
        assert!(!queues.created(1, 31), "no id is given again");
    }

    #[test]
    fn an_id_that_clients_of_two_threads_were_given_is_found() {
        let mut threads = [CreatedQueues::new(1), CreatedQueues::new(1)];
        for queue in 1..=100 {
            assert!(threads[queue as usize % 2].created(1, queue));
        }
        threads[0].deleted(1, 40, Deletion::Unknown);
        threads[1].deleted(1, 7, Deletion::Done);
        let [mut one, mut other] = threads;
        assert!(other.created(1, 40));
        let twice = one.absorb(other);
        assert_eq!((twice.count, twice.first[0].contains("queue id 40 ")), (1, true), "{twice:?}");
        assert!((1..=100).all(|queue| one.is_there(1, queue) != [7, 40].contains(&queue)));
        assert!(one.is_gone(0, 7) && !one.is_gone(0, 40), "nobody knows what became of 40");
    }

    #[test]
    fn queues_for_which_there_is_no_memory_are_counted() {
        let mut queues = CreatedQueues::within(2, 1);
        assert!((0..64).all(|queue| queues.created(1, queue)));
        assert!(queues.unchecked() == 0 && !queues.created(1, 63));
        assert!(queues.created(1, 64) && queues.created(1, 64) && !queues.is_there(1, 64));
        assert_eq!(queues.unchecked(), 2);
    }
}
