//! Answers that wait for those to requests taken together with theirs, so that all of them leave in one write.
//!
//! memcached sends a pipelined request's answer as soon as it has it, so a router that passes on what came in each
//! turn writes once for each. Only answers to requests taken together wait, and only for each other: a client that
//! sends one request at a time, or shares a connection among many threads, waits for nothing that came later. The
//! wait is short, because a server may be slow, and large answers do not wait.

use std::collections::VecDeque;
use std::time::Duration;

use super::client::Client;
use super::limits::SPARE_MAX;
use super::router::Finished;
use crate::front::connections::Connections;
use crate::front::tier::Tier;

/// How long an answer waits at most: as short as the system's shortest sleep.
const WAIT_MAX: Duration = Duration::from_millis(1);
const WAIT_NS_MAX: u64 = WAIT_MAX.as_nanos() as u64;

/// Most bytes that wait for one client: a larger write would save little.
pub(super) const WAITING_BYTES_MAX: usize = 64 * 1024;

/// A client whose answers wait, and since when.
#[derive(Clone, Copy)]
struct Held {
    since_ns: u64,
    slot: usize,
    number: u64,
}

/// The clients of a thread whose answers wait, in the order in which the waits began.
#[derive(Default)]
pub(super) struct Cork {
    now_ns: u64,
    held: VecDeque<Held>,
    /// Empty lists for [`Client::held`], kept for reuse.
    spare: Vec<Vec<Finished>>,
}

impl Cork {
    /// Begins a turn of the thread.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Returns whether a client's answers may wait for more. If so they wait, from now on unless they did already.
    pub(super) fn hold(&mut self, slot: usize, client: &mut Client) -> bool {
        match client.held_since_ns {
            Some(since_ns) => self.now_ns < since_ns + WAIT_NS_MAX,
            None => {
                let held = Held { since_ns: self.now_ns, slot, number: client.peer.number };
                client.held_since_ns = Some(held.since_ns);
                self.held.push_back(held);
                true
            }
        }
    }

    /// Keeps an answered request, to be counted when the answer leaves.
    pub(super) fn hold_count(&mut self, client: &mut Client, done: Finished) {
        if client.held.capacity() == 0 {
            client.held = self.spare.pop().unwrap_or_default();
        }
        client.held.push(done);
    }

    /// Ends a client's wait: the requests whose answers leave now join `finished`.
    pub(super) fn release(&mut self, client: &mut Client, finished: &mut Vec<Finished>) {
        if client.held_since_ns.take().is_some() && !client.held.is_empty() {
            let mut held = std::mem::take(&mut client.held);
            finished.append(&mut held);
            if self.spare.len() < SPARE_MAX {
                self.spare.push(held);
            }
        }
    }

    /// The slots of clients whose answers have waited long enough.
    pub(super) fn due<T>(&mut self, connections: &mut Connections<T>) -> impl Iterator<Item = usize>
    where
        T: Tier<Connection = Client>,
    {
        std::iter::from_fn(move || {
            let held = self.held.pop_front_if(|held| {
                let client = connections.find(held.slot, held.number);
                let waits = client.is_some_and(|client| client.held_since_ns == Some(held.since_ns));
                !waits || self.now_ns >= held.since_ns + WAIT_NS_MAX
            })?;
            Some(held.slot)
        })
    }

    /// Returns how long the thread may wait for events at most, as far as held answers are concerned.
    #[must_use]
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        (!self.held.is_empty()).then_some(WAIT_MAX)
    }
}
