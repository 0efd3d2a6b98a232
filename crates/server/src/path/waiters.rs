//! Pops that wait for a message: first come, first served.
//!
//! A blocked pop is parked here with its bundle. News of a message finds the longest waiting pop that it suits in
//! three lists at most (by queue, by sender, by both; for this reader or for any), never by a walk over all
//! parked pops: every pop in such a list takes the message, unless its own account sent it and it asked for none of
//! those (NOTOWN).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::bundle::{Address, Bundle};
use super::tickets::Tickets;
use crate::queue::rules::{AccountId, Interest, Millis, News, QueueId};

/// A parked pop's place in the order of arrival.
pub type Ticket = u64;

/// What the pops in one list wait for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// Pops that would take a message of this queue and sender (None: any), addressed to this reader (None: to any
    /// reader).
    Message { queue: Option<QueueId>, sender: Option<AccountId>, recipient: Option<AccountId> },
    /// Pops that name this queue.
    Queue(QueueId),
}

/// A parked pop.
pub struct ParkedPop {
    /// The bundle whose next request is the pop.
    pub bundle: Box<Bundle>,
    /// The messages that would end the wait.
    pub interest: Interest,
    /// When the pop gives up.
    pub deadline: Millis,
}

/// All parked pops of a store.
#[derive(Default)]
pub struct Waiters {
    next_ticket: Ticket,
    parked: BTreeMap<Ticket, ParkedPop>,
    by_key: FxHashMap<Key, Tickets>,
    by_deadline: BTreeSet<(Millis, Ticket)>,
    by_address: FxHashMap<Address, Ticket>,
    /// Connections that have left while their pop was under way, and so not parked.
    departed: FxHashSet<Address>,
    /// Whether the tier stops, so that nobody waits any longer.
    are_over: bool,
}

impl Waiters {
    /// Parks a pop behind all others.
    pub fn park(&mut self, pop: ParkedPop) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.insert(ticket, pop);
    }

    /// Returns the longest waiting pop that the news may satisfy, from this ticket on.
    #[must_use]
    pub fn first_match(&self, news: News, from: Ticket) -> Option<Ticket> {
        keys_for(news)
            .iter()
            .flatten()
            .filter_map(|key| self.by_key.get(key)?.first_for_sender(from, sender_of(news)))
            .min()
    }

    /// Takes out the longest waiting pop that the news may satisfy.
    pub fn take_match(&mut self, news: News) -> Option<(Ticket, ParkedPop)> {
        let ticket = self.first_match(news, 0)?;
        self.take(ticket).map(|pop| (ticket, pop))
    }

    /// Puts a pop back in its old place.
    pub fn put_back(&mut self, ticket: Ticket, pop: ParkedPop) {
        self.insert(ticket, pop);
    }

    /// Takes out every pop, the longest waiting first.
    pub fn take_all(&mut self) -> Vec<(Ticket, ParkedPop)> {
        let tickets: Vec<Ticket> = self.parked.keys().copied().collect();
        tickets.into_iter().filter_map(|ticket| self.take(ticket).map(|pop| (ticket, pop))).collect()
    }

    /// Returns the parked pops from this ticket on, with what they wait for.
    pub fn interests(&self, from: Ticket) -> impl Iterator<Item = (Ticket, Interest)> {
        self.parked.range(from..).map(|(ticket, pop)| (*ticket, pop.interest))
    }

    /// Takes out one pop whose deadline has passed.
    pub fn take_expired(&mut self, now: Millis) -> Option<(Ticket, ParkedPop)> {
        let &(deadline, ticket) = self.by_deadline.first()?;
        if deadline > now && !self.are_over { None } else { Some((ticket, self.take(ticket)?)) }
    }

    /// Ends all waits, as if their deadlines had passed, and those of pops that are parked later.
    pub fn end_waits(&mut self) {
        self.are_over = true;
    }

    /// Notes that a connection has left: its pop is taken out, or will not be parked when it arrives.
    pub fn record_departure(&mut self, address: Address) -> Option<ParkedPop> {
        match self.by_address.get(&address) {
            Some(&ticket) => self.take(ticket),
            None => {
                self.departed.insert(address);
                None
            }
        }
    }

    /// Returns whether the connection of a pop that is about to be executed or parked has left.
    #[must_use]
    pub fn has_departed(&self, address: Address) -> bool {
        self.departed.contains(&address)
    }

    /// Returns whether any connection with a pop under way has left.
    #[must_use]
    pub fn has_departures(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Forgets that a connection has left, once its pop is back.
    pub fn forget_departure(&mut self, address: Address) {
        self.departed.remove(&address);
    }

    /// Returns the earliest deadline of a parked pop.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.by_deadline.first().map(|(deadline, _)| if self.are_over { 0 } else { *deadline })
    }

    /// Returns how many pops are parked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Returns whether no pop is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    fn insert(&mut self, ticket: Ticket, pop: ParkedPop) {
        let Interest { reader, not_own, .. } = pop.interest;
        for key in keys_of(&pop.interest).into_iter().flatten() {
            self.by_key.entry(key).or_default().insert(ticket, not_own.then_some(reader));
        }
        self.by_deadline.insert((pop.deadline, ticket));
        self.by_address.insert(pop.bundle.address, ticket);
        self.parked.insert(ticket, pop);
    }

    /// Takes out the pop with this ticket.
    pub fn take(&mut self, ticket: Ticket) -> Option<ParkedPop> {
        let pop = self.parked.remove(&ticket)?;
        for key in keys_of(&pop.interest).into_iter().flatten() {
            if let Some(list) = self.by_key.get_mut(&key) {
                list.remove(ticket);
                if list.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
        self.by_deadline.remove(&(pop.deadline, ticket));
        self.by_address.remove(&pop.bundle.address);
        Some(pop)
    }
}

/// Returns the lists that contain a waiting pop.
fn keys_of(interest: &Interest) -> [Option<Key>; 3] {
    let Interest { reader, queue, sender, broadcast, .. } = *interest;
    [
        Some(Key::Message { queue, sender, recipient: None }),
        (!broadcast).then_some(Key::Message { queue, sender, recipient: Some(reader) }),
        queue.map(Key::Queue),
    ]
}

/// Returns the sender of the message that the news is about.
fn sender_of(news: News) -> Option<AccountId> {
    match news {
        News::Available { sender, .. } => Some(sender),
        News::QueueGone(_) => None,
    }
}

/// Returns the lists of the pops that the news may satisfy.
fn keys_for(news: News) -> [Option<Key>; 3] {
    match news {
        News::Available { queue, sender, recipient } => [
            Some(Key::Message { queue: Some(queue), sender: None, recipient }),
            Some(Key::Message { queue: Some(queue), sender: Some(sender), recipient }),
            Some(Key::Message { queue: None, sender: Some(sender), recipient }),
        ],
        News::QueueGone(queue) => [Some(Key::Queue(queue)), None, None],
    }
}
