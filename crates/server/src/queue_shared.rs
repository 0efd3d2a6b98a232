//! What all threads of a queue tier share.

use std::path::PathBuf;
use std::sync::Arc;

use posthaste_measure::{Clock, Meter};

use crate::authenticator::{Authenticator, Logins};
use crate::clients::Clients;
use crate::front::gate::Gate;
use crate::path::mail::Mailbox;
use crate::path::waiting_line::WaitingLine;
use crate::path::worker::{Store, Worker};
use crate::queue::rules::AccountId;
use crate::slow::SlowLog;
use crate::trace::Tracer;

/// Everything that the threads of a queue tier share, made once at the start.
pub struct QueueShared {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The line where requests wait for the store.
    pub line: Arc<WaitingLine>,
    /// The meter that records all requests.
    pub meter: Arc<Meter>,
    /// The clock of the stamps.
    pub clock: Clock,
    /// The connected clients.
    pub clients: Clients,
    /// Which accounts may log in.
    pub entrance: Entrance,
    /// Decides which connections are let in.
    pub gate: Arc<Gate>,
    /// The network threads' mailboxes.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Length of the largest body in bytes.
    pub message_bytes_max: usize,
    /// Most requests in a bundle.
    pub bundle_requests_max: usize,
    /// Most requests in a bundle that may answer a message.
    pub bundle_reads_max: usize,
    /// Name of the store, for INFO; without secrets.
    pub store_name: String,
    /// Whether what the store has acknowledged survives the process.
    pub store_is_durable: bool,
    /// Directory of an embedded store; None: the store is elsewhere.
    pub store_dir: Option<PathBuf>,
    /// How many queues the metrics show.
    pub metrics_queues: usize,
    /// The log of slow requests; None: `--slow` is off.
    pub slow: Option<SlowLog>,
    /// Sends the spans of traced messages; None: `--traces` is off.
    pub tracer: Option<Tracer>,
}

/// How accounts are admitted.
pub enum Entrance {
    /// Any name may log in; a connection without a login uses this account (`default`).
    Open(AccountId),
    /// Only accounts whose secret the authenticator accepts.
    Closed(Authenticator),
}

impl QueueShared {
    /// Returns a new worker for the line and the store.
    #[must_use]
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.line), Arc::clone(&self.store), self.mailboxes.clone(), self.clock)
    }

    /// Returns why nothing new is accepted at present, with what helps; None: it is accepted.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if self.gate.is_closing() {
            return Some("the server is stopping".into());
        }
        self.store.trouble()
    }

    /// Returns the counts of logins; None: any name may log in, so nothing is checked.
    #[must_use]
    pub fn logins(&self) -> Option<&Logins> {
        match &self.entrance {
            Entrance::Open(_) => None,
            Entrance::Closed(authenticator) => Some(authenticator.logins()),
        }
    }

    /// Returns the account of a connection that has not logged in; None: such a connection may not use the store.
    #[must_use]
    pub fn default_account(&self) -> Option<AccountId> {
        match self.entrance {
            Entrance::Open(account) => Some(account),
            Entrance::Closed(_) => None,
        }
    }
}
