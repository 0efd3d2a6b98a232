//! What all threads of a cache tier share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_measure::{Clock, Meter};
use posthaste_wire::memcached::decode::Limits;
use tokio::sync::oneshot;

use super::fleet::Fleet;
use super::line::{Line, Task};
use super::worker::Reads;
use crate::front::gate::Gate;
use crate::front::mailbox::Mailbox;
use crate::slow::SlowLog;

/// Something for a network thread.
pub enum Mail {
    /// A request that a worker has answered.
    Answered(Box<Task>),
    /// Look again: a claim that somebody waits for was released, a server's state was set, or routes are new.
    Retry,
    /// Tell of the `most` clients whose ids come next after this one.
    List {
        /// The id.
        after: u64,
        /// How many.
        most: usize,
        /// Where to tell.
        answer: oneshot::Sender<Vec<Card>>,
    },
    /// Close the connection of this client.
    Close {
        /// Its id.
        id: u64,
        /// Whether it was here.
        answer: oneshot::Sender<bool>,
    },
}

/// A client, for people.
#[derive(Debug)]
pub struct Card {
    /// Its number, from 1.
    pub id: u64,
    /// Its address.
    pub peer: String,
    /// When it came, on the clock of the stamps.
    pub connected_ns: u64,
    /// Requests read from it.
    pub requests: u64,
    /// Bytes that are held for it.
    pub held_bytes: usize,
}

/// The shared parts, made once at the start.
pub struct Hall {
    /// Servers and routes.
    pub fleet: Arc<Fleet>,
    /// With workers: where requests wait for them.
    pub line: Line,
    /// The instrument.
    pub meter: Arc<Meter>,
    /// The time of the stamps.
    pub clock: Clock,
    /// The network threads' mailboxes.
    pub mailboxes: Vec<Arc<Mailbox<Mail>>>,
    /// What clients may send.
    pub limits: Limits,
    /// How long a server may take to answer.
    pub server_timeout: Duration,
    /// Bytes that may be held for clients, by each network thread.
    pub memory_per_thread: usize,
    /// Who is let in.
    pub gate: Arc<Gate>,
    /// What workers wait for.
    pub reads: Reads,
    /// Clients cut because they held too much memory.
    pub cut: AtomicU64,
    /// Who is told of requests that took too long.
    pub slow: Option<SlowLog>,
}

impl Hall {
    /// Tells all threads to look again.
    pub fn tell_retry(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::Retry));
        self.line.claims_released();
    }

    /// Whether there is a server to ask; None: nobody knows yet, since the tier has just started.
    #[must_use]
    pub fn is_ready(&self) -> Option<bool> {
        let table = self.fleet.table();
        if table.settings.mock.is_some() { Some(true) } else { table.answers() }
    }

    /// The lines that stand in `stats` beside the fleet's.
    #[must_use]
    pub fn about(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("uptime", (self.clock.now() / 1_000_000_000).to_string()),
            ("curr_connections", self.gate.connections().to_string()),
            ("total_connections", self.gate.accepted().to_string()),
            ("connections_cut", self.cut.load(Ordering::Relaxed).to_string()),
            ("threads", self.mailboxes.len().to_string()),
            ("line_requests", self.line.len().to_string()),
        ];
        lines.extend(self.gate.newcomers.counts().map(|(name, count)| (name, count.to_string())));
        lines
    }
}
