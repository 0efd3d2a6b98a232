//! What a server has missed while it was away, which it must forget before it takes part again.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use super::identity::Run;
use super::server_events::ServerEvents;

/// Most keys noted for one server; with one more it is flushed instead.
pub(super) const MISSED_WRITES_MAX: usize = 16 * 1024;

/// A key as it is written in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MissedWrite {
    /// The key's bytes, as they stand in the command.
    pub key: Vec<u8>,
    /// The key is written in base64.
    pub base64: bool,
}

/// What must be done before a server may take part again.
#[derive(Debug)]
pub enum RecoveryStep {
    /// Wait: the server was taken out, or threads still use it.
    Wait,
    /// Read these connections to their ends.
    Drain(Vec<OwnedFd>),
    /// Delete these keys.
    Delete(Vec<MissedWrite>),
    /// Flush the server.
    Flush,
    /// Nothing: the server takes part from now on.
    Done,
}

/// What a server has missed, the connections to it that were given up, and the events of its losses and returns.
#[derive(Default)]
pub(super) struct Journal {
    keys: HashSet<MissedWrite>,
    everything: bool,
    given_up: Vec<OwnedFd>,
    /// The run of the server that takes part, if it was told.
    pub(super) run: Option<Run>,
    /// The run that takes its place when the server takes part again.
    pub(super) next_run: Option<Run>,
    pub(super) events: ServerEvents,
}

impl Journal {
    /// A journal in which nothing was missed.
    pub(super) fn new(events: ServerEvents) -> Self {
        Self { events, ..Self::default() }
    }

    /// Notes a write that the server does not get; None: of everything.
    pub(super) fn note(&mut self, key: Option<MissedWrite>) {
        match key {
            Some(key) if !self.everything && self.keys.len() < MISSED_WRITES_MAX => {
                self.keys.insert(key);
            }
            _ => {
                self.everything = true;
                self.keys.clear();
            }
        }
    }

    /// Keeps a connection over which the server may still read what it was sent.
    pub(super) fn give_up(&mut self, socket: Option<OwnedFd>) {
        self.given_up.extend(socket);
    }

    /// Takes what must be done first, which then counts as done; None when there is nothing.
    pub(super) fn take_first(&mut self) -> Option<RecoveryStep> {
        if !self.given_up.is_empty() {
            return Some(RecoveryStep::Drain(std::mem::take(&mut self.given_up)));
        }
        if std::mem::take(&mut self.everything) {
            self.keys.clear();
            return Some(RecoveryStep::Flush);
        }
        (!self.keys.is_empty()).then(|| RecoveryStep::Delete(self.keys.drain().collect()))
    }

    /// Takes back a task that could not be done.
    pub(super) fn put_back(&mut self, step: RecoveryStep) {
        match step {
            RecoveryStep::Drain(sockets) => self.given_up.extend(sockets),
            RecoveryStep::Delete(keys) => keys.into_iter().for_each(|key| self.note(Some(key))),
            RecoveryStep::Flush => self.note(None),
            RecoveryStep::Wait | RecoveryStep::Done => {}
        }
    }
}
