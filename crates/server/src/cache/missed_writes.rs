//! What a server has missed while it was away, and the steps by which it forgets that before it takes part again.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use posthaste_wire::memcached::request::Request;

use super::identity::Run;
use super::server_events::ServerEvents;

/// Most keys noted for one server; with one more it is flushed instead.
pub const MISSED_WRITES_MAX: usize = 16 * 1024;

/// What a write concerns that a server does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissedWrite {
    /// One key.
    Key(MissedKey),
    /// Every key, as by a `flush_all`.
    AllKeys,
}

/// A key as it is written in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MissedKey {
    /// The key's bytes, as they stand in the command.
    pub key: Vec<u8>,
    /// The key is written in base64.
    pub base64: bool,
}

impl MissedKey {
    /// The key of a request, whose text is `bytes`.
    #[must_use]
    pub fn of_request(request: &Request, bytes: &[u8]) -> Self {
        Self { key: request.key.of(bytes).to_vec(), base64: request.base64 }
    }
}

/// What must be done before a server may take part again.
#[derive(Debug)]
pub enum RecoveryStep {
    /// Wait: the server was taken out, or threads still use it.
    Wait,
    /// Read these connections to their ends.
    DrainConnections(Vec<OwnedFd>),
    /// Delete these keys.
    Delete(Vec<MissedKey>),
    /// Flush the server.
    Flush,
    /// Nothing: the server takes part from now on.
    Done,
}

/// What a server's recovery depends on: what the server has missed, the connections to it that were given up, its run,
/// and the events of its losses and returns.
#[derive(Default)]
pub(super) struct Recovery {
    keys: HashSet<MissedKey>,
    /// The server has missed writes of more keys than are noted, or of all.
    all_keys: bool,
    given_up: Vec<OwnedFd>,
    /// The run of the server that takes part, if it was told.
    pub(super) run: Option<Run>,
    /// The run that takes its place when the server takes part again.
    pub(super) next_run: Option<Run>,
    pub(super) events: ServerEvents,
}

impl Recovery {
    /// The recovery of a server that has missed nothing.
    pub(super) fn new(events: ServerEvents) -> Self {
        Self { events, ..Self::default() }
    }

    /// Notes a write that the server does not get.
    pub(super) fn note(&mut self, write: MissedWrite) {
        match write {
            MissedWrite::Key(key) if !self.all_keys && self.keys.len() < MISSED_WRITES_MAX => {
                self.keys.insert(key);
            }
            MissedWrite::Key(_) | MissedWrite::AllKeys => {
                self.all_keys = true;
                self.keys.clear();
            }
        }
    }

    /// Returns how many keys are noted, and whether the server is to be flushed instead.
    pub(super) fn missed(&self) -> (usize, bool) {
        (self.keys.len(), self.all_keys)
    }

    /// Keeps a connection over which the server may still read what it was sent.
    pub(super) fn give_up(&mut self, socket: Option<OwnedFd>) {
        self.given_up.extend(socket);
    }

    /// Takes the next step, which then counts as done; None when there is nothing to do.
    pub(super) fn take_step(&mut self) -> Option<RecoveryStep> {
        if !self.given_up.is_empty() {
            return Some(RecoveryStep::DrainConnections(std::mem::take(&mut self.given_up)));
        }
        if std::mem::take(&mut self.all_keys) {
            self.keys.clear();
            return Some(RecoveryStep::Flush);
        }
        (!self.keys.is_empty()).then(|| RecoveryStep::Delete(self.keys.drain().collect()))
    }

    /// Takes back a step that could not be done.
    pub(super) fn put_back(&mut self, step: RecoveryStep) {
        match step {
            RecoveryStep::DrainConnections(sockets) => self.given_up.extend(sockets),
            RecoveryStep::Delete(keys) => keys.into_iter().for_each(|key| self.note(MissedWrite::Key(key))),
            RecoveryStep::Flush => self.note(MissedWrite::AllKeys),
            RecoveryStep::Wait | RecoveryStep::Done => {}
        }
    }
}
