//! The queues that a run's clients made: their ids are their names, which no other queue gets.

use std::collections::HashMap;

use crate::queue::request::{Account, Queue};

/// Number of queues that are remembered, per thread; about 24 bytes each.
const QUEUES_MAX: usize = 1 << 22;

/// What a thread knows of queues without a name of their own.
#[derive(Debug)]
pub(crate) struct Unnamed {
    /// Number of servers that clients are spread over; each may have a store of its own.
    servers: u32,
    /// By index of the server and id.
    states: HashMap<(u32, Queue), State>,
}

/// Whether a queue is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was made, and no deletion was answered.
    There,
    /// Its deletion was answered with a failure that may have left it or not.
    InDoubt,
    /// It was deleted.
    Gone,
}

impl Unnamed {
    /// Starts without queues, at this many servers.
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: u32::try_from(servers).unwrap_or(u32::MAX).max(1), states: HashMap::new() }
    }

    /// Returns the key of a client's queue: clients, counted from 1, are dealt out to the servers in turn.
    const fn place(&self, client: Account, queue: Queue) -> (u32, Queue) {
        (client.saturating_sub(1) % self.servers, queue)
    }

    /// Notes that a client was given this queue; returns whether it is new.
    pub(crate) fn made(&mut self, client: Account, queue: Queue) -> bool {
        let place = self.place(client, queue);
        if self.states.len() >= QUEUES_MAX && !self.states.contains_key(&place) {
            return true;
        }
        self.states.insert(place, State::There).is_none()
    }

    /// Notes that a client deleted this queue; `done` says whether that took place, None if unknown.
    pub(crate) fn deleted(&mut self, client: Account, queue: Queue, done: Option<bool>) {
        let place = self.place(client, queue);
        if let Some(state) = self.states.get_mut(&place) {
            *state = match done {
                Some(true) => State::Gone,
                Some(false) => *state,
                None => State::InDoubt,
            };
        }
    }

    /// Returns the queues that certainly do not exist any more, each with the index of its server.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (usize, Queue)> {
        let gone = self.states.iter().filter(|(_, state)| **state == State::Gone);
        gone.map(|((server, queue), _)| (*server as usize, *queue))
    }

    /// Returns whether a client's own queue certainly exists.
    pub(crate) fn is_there(&self, client: Account, queue: Queue) -> bool {
        self.states.get(&self.place(client, queue)) == Some(&State::There)
    }
}
