//! What all threads of a server share.

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

/// The shared parts, made once at the start.
pub struct House {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Where requests wait for it.
    pub line: Arc<WaitingLine>,
    /// The instrument.
    pub meter: Arc<Meter>,
    /// The time of the stamps.
    pub clock: Clock,
    /// Who is connected.
    pub clients: Clients,
    /// Who may log in.
    pub entrance: Entrance,
    /// Who is let in.
    pub gate: Arc<Gate>,
    /// The network threads' mailboxes.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Largest body.
    pub message_bytes_max: usize,
    /// Most requests in a bundle.
    pub bundle_requests_max: usize,
    /// Most of them that may answer a message.
    pub bundle_reads_max: usize,
    /// Name of the store, for INFO; without secrets.
    pub store_name: String,
    /// Whether what it has acknowledged outlives the process.
    pub store_is_durable: bool,
    /// Where an embedded store is.
    pub store_dir: Option<PathBuf>,
    /// How many queues stand in the metrics.
    pub metrics_queues: usize,
    /// Who is told of requests that took too long.
    pub slow: Option<SlowLog>,
    /// Who is told of messages with traces.
    pub tracer: Option<Tracer>,
}

/// How accounts are admitted.
pub enum Entrance {
    /// Any name may log in; who does not is this account (`default`).
    Open(AccountId),
    /// Only accounts whose secret the authenticator accepts.
    Closed(Authenticator),
}

impl House {
    /// A worker of this house.
    #[must_use]
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.line), Arc::clone(&self.store), self.mailboxes.clone(), self.clock)
    }

    /// Why nothing new is accepted at present, in a sentence that says what helps; None: it is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if self.gate.is_closing() {
            return Some("the server is stopping".into());
        }
        self.store.trouble()
    }

    /// How the logins ended whose secrets were to be checked; None: anybody may log in.
    #[must_use]
    pub fn logins(&self) -> Option<&Logins> {
        match &self.entrance {
            Entrance::Open(_) => None,
            Entrance::Closed(authenticator) => Some(authenticator.logins()),
        }
    }

    /// The account of a connection that has not logged in; None: it may not ask the store.
    #[must_use]
    pub fn default_account(&self) -> Option<AccountId> {
        match self.entrance {
            Entrance::Open(account) => Some(account),
            Entrance::Closed(_) => None,
        }
    }
}
