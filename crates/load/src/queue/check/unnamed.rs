//! The queues that a run's clients made: their ids are their names, which no other queue gets.

use std::collections::HashMap;

use crate::queue::request::{Account, Queue};

/// Queues that are remembered, per thread; about 24 bytes each.
const QUEUES_MAX: usize = 1 << 22;

/// What a thread knows of queues without a name of their own.
#[derive(Debug)]
pub(crate) struct Unnamed {
    /// Clients are spread over so many servers, which may have stores of their own.
    servers: u32,
    /// By server and id.
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
    /// None yet, at so many servers.
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: u32::try_from(servers).unwrap_or(u32::MAX).max(1), states: HashMap::new() }
    }

    /// Clients are dealt out to the servers in turn.
    const fn place(&self, client: Account, queue: Queue) -> (u32, Queue) {
        (client % self.servers, queue)
    }

    /// A client was given this queue; says whether it is new.
    pub(crate) fn made(&mut self, client: Account, queue: Queue) -> bool {
        let place = self.place(client, queue);
        if self.states.len() >= QUEUES_MAX && !self.states.contains_key(&place) {
            return true;
        }
        self.states.insert(place, State::There).is_none()
    }

    /// A client deleted this queue; `done`: None if nobody knows.
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

    /// Whether a client's own queue is there for certain.
    pub(crate) fn is_there(&self, client: Account, queue: Queue) -> bool {
        self.states.get(&self.place(client, queue)) == Some(&State::There)
    }
}
