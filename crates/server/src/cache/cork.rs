//! Answers that wait for those that were asked for together with them, so that all of them leave in one write.
//!
//! memcached sends a pipelined request's answer as soon as it has it, so a router that passes on what came in each turn
//! writes once for each. Only what was taken together waits, and only for each other: a client that sends one request at
//! a time, or shares a connection among many askers, waits for nothing that came later. Nothing waits long, because a
//! server may be slow, and nothing large.

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

/// Bytes that wait for one client at most. What a larger write would save is little.
pub(super) const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Since when answers of which client wait.
#[derive(Clone, Copy)]
struct Held {
    since_ns: u64,
    slot: usize,
    number: u64,
}

/// Those of a thread whose answers wait.
#[derive(Default)]
pub(super) struct Cork {
    now_ns: u64,
    held: VecDeque<Held>,
    /// Lists of what was answered that nobody uses.
    spare: Vec<Vec<Finished>>,
}

impl Cork {
    /// A turn begins.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Whether a client's answers may wait for more of them. Then they do, from now on if they did not.
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

    /// What was answered is counted when the answer leaves.
    pub(super) fn hold_count(&mut self, client: &mut Client, done: Finished) {
        if client.held.capacity() == 0 {
            client.held = self.spare.pop().unwrap_or_default();
        }
        client.held.push(done);
    }

    /// A client's answers leave now: what they answer joins the `finished`.
    pub(super) fn release(&mut self, client: &mut Client, finished: &mut Vec<Finished>) {
        if client.held_since_ns.take().is_some() && !client.held.is_empty() {
            let mut held = std::mem::take(&mut client.held);
            finished.append(&mut held);
            if self.spare.len() < SPARE_MAX {
                self.spare.push(held);
            }
        }
    }

    /// The slots of those whose answers have waited long enough.
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

    /// How long the thread may sleep for their sake.
    #[must_use]
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.held.is_empty()).then_some(WAIT_MAX)
    }
}
