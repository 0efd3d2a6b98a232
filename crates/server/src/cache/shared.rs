//! What all threads of a cache tier share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_measure::{Clock, Ending, Meter};
use posthaste_wire::memcached::decode::Limits;
use tokio::sync::oneshot;

use super::admin::find_server;
use super::admin_state::AdminState;
use super::client_rate_limiters::ClientRateLimiters;
use super::fleet::{Fleet, Topic};
use super::held_memory::HeldMemory;
use super::worker::Reads;
use super::worker_line::{Parcel, WorkerLine};
use crate::front::gate::Gate;
use crate::front::mailbox::Mailbox;
use crate::slow::SlowLog;

/// Kinds of requests that memcached counts together. Classic gets are missing: their keys are counted instead.
const META_GETS: &[&str] = &["meta_get"];
const STORES: &[&str] = &["set", "add", "replace", "append", "prepend", "cas", "meta_set"];
const DELETES: &[&str] = &["delete", "meta_delete"];

/// A message to a network thread.
pub enum Mail {
    /// A request that a worker has answered.
    Answered(Box<Parcel>),
    /// Retry deferred requests: a claim that a request waits for was released, a server's state was set, or routes are
    /// new.
    Retry,
    /// Describe the `most` clients whose ids come next after this one.
    List {
        /// The id before the first one.
        after: u64,
        /// Most clients to describe.
        most: usize,
        /// Where to answer.
        answer: oneshot::Sender<Vec<ClientInfo>>,
    },
    /// Close the connection of this client.
    Close {
        /// The client's id.
        id: u64,
        /// Answers whether the client was on this thread.
        answer: oneshot::Sender<bool>,
    },
}

/// One client, as shown to operators.
#[derive(Debug)]
pub struct ClientInfo {
    /// The client's number, from 1.
    pub id: u64,
    /// The client's address.
    pub peer: String,
    /// When the client connected, on the clock of the stamps.
    pub connected_ns: u64,
    /// Requests read from the client.
    pub requests: u64,
    /// Bytes that are held for the client.
    pub held_bytes: usize,
}

/// What all threads share, made once at the start.
pub struct CacheShared {
    /// Servers and routes.
    pub fleet: Arc<Fleet>,
    /// Where requests wait for workers, in that mode.
    pub line: WorkerLine,
    /// What the tier's measurements are noted in.
    pub meter: Arc<Meter>,
    /// The clock of the stamps.
    pub clock: Clock,
    /// The network threads' mailboxes.
    pub mailboxes: Vec<Arc<Mailbox<Mail>>>,
    /// How large a request of a client may be.
    pub limits: Limits,
    /// How many requests clients may send.
    pub client_rate_limiters: ClientRateLimiters,
    /// How many bytes the network threads hold for clients, and may.
    pub held_memory: HeldMemory,
    /// How connections are let in, and whether the tier stops.
    pub gate: Arc<Gate>,
    /// How long workers wait for servers.
    pub reads: Reads,
    /// Clients cut because they held too much memory.
    pub cut: AtomicU64,
    /// The log of requests that took too long.
    pub slow: Option<SlowLog>,
}

/// A guard that has writes wait as long as it lives.
pub struct WritePause<'a>(&'a CacheShared);

impl Drop for WritePause<'_> {
    fn drop(&mut self) {
        self.0.fleet.pauses.fetch_sub(1, Ordering::AcqRel);
        self.0.tell_retry();
    }
}

impl CacheShared {
    /// Has writes wait that have not begun. Drop the guard soon: their clients wait too.
    #[must_use]
    pub fn pause_writes(&self) -> WritePause<'_> {
        self.fleet.pauses.fetch_add(1, Ordering::AcqRel);
        WritePause(self)
    }

    /// Sets what an operator wants of a server, and has all threads look again.
    ///
    /// # Errors
    /// The name is not that of one server ([`find_server`]).
    pub fn set_server_state(&self, name: &str, wanted: AdminState) -> Result<(), String> {
        find_server(&self.fleet.table(), name)?.health.set_admin_state(wanted);
        self.tell_retry();
        Ok(())
    }

    /// Tells all threads to retry deferred requests ([`Mail::Retry`]).
    pub fn tell_retry(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::Retry));
        self.line.wake_claim_waiters();
    }

    /// Returns whether there is a server to ask; None: not known yet, since the tier has just started.
    #[must_use]
    pub fn is_ready(&self) -> Option<bool> {
        if self.gate.is_closing() {
            return Some(false);
        }
        let table = self.fleet.table();
        if table.settings.mock.is_some() { Some(true) } else { table.answers() }
    }

    /// Why the tier is not ready, in a sentence that says what helps; None: it is ready, or that is not known yet.
    #[must_use]
    pub fn trouble(&self) -> Option<&'static str> {
        match self.is_ready() {
            Some(false) if self.gate.is_closing() => Some("the router is stopping"),
            Some(false) => Some("no server answers: see the log, and whether they run"),
            Some(true) | None => None,
        }
    }

    /// The lines that `stats` adds to the fleet's.
    #[must_use]
    pub fn about(&self, topic: Topic) -> Vec<(&'static str, String)> {
        match topic {
            Topic::Figures => self.figures(),
            Topic::Settings => self.settings(),
        }
    }

    /// How the process is set, under memcached's names.
    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("maxconns", self.gate.connections_max().to_string()),
            ("num_threads", self.mailboxes.len().to_string()),
            ("item_size_max", self.limits.value_bytes.to_string()),
        ]
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        let now_ns = self.clock.now();
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut lines = vec![
            ("uptime", (now_ns / 1_000_000_000).to_string()),
            ("time", (unix_ns / 1_000_000_000).to_string()),
            ("unix_ns", unix_ns.to_string()),
            ("now_s", format!("{:.6}", now_ns as f64 / 1e9)),
            ("requests_so_far", self.meter.requests_so_far().to_string()),
            ("curr_connections", self.gate.connections().to_string()),
            ("total_connections", self.gate.accepted().to_string()),
            ("max_connections", self.gate.connections_max().to_string()),
            ("connections_cut", self.cut.load(Ordering::Relaxed).to_string()),
            ("threads", self.mailboxes.len().to_string()),
            ("line_requests", self.line.len().to_string()),
        ];
        lines.extend(
            self.client_rate_limiters.refused().map(|count| ("client_limit_refused", count.to_string())),
        );
        let counts = self.gate.newcomers.counts().into_iter().chain(self.commands());
        lines.extend(counts.map(|(name, count)| (name, count.to_string())));
        lines
    }

    /// What clients asked, under memcached's names and counted as it counts: of gets each key, of other commands
    /// those that were no errors.
    fn commands(&self) -> [(&'static str, u64); 7] {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let done = |kinds: &[&str]| self.meter.ended_so_far(kinds, Ending::Ok);
        let not_done = |kinds: &[&str]| self.meter.ended_so_far(kinds, Ending::Null);
        let hits = count(&self.fleet.hits) + done(META_GETS);
        let misses = count(&self.fleet.misses) + not_done(META_GETS);
        [
            ("cmd_get", hits + misses),
            ("cmd_set", done(STORES) + not_done(STORES)),
            ("cmd_flush", done(&["flush_all"])),
            ("get_hits", hits),
            ("get_misses", misses),
            ("delete_hits", done(DELETES)),
            ("delete_misses", not_done(DELETES)),
        ]
    }
}
