//! What a server has missed while it was away, which it must forget before it takes part again.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use super::chronicle::Chronicle;
use super::identity::Run;

/// Keys noted for one server; one more, and it is flushed.
pub(super) const MISSED_KEYS_MAX: usize = 16 * 1024;

/// A key as it is written in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Missed {
    /// The key.
    pub key: Vec<u8>,
    /// It is written in base64.
    pub base64: bool,
}

/// What must be done before a server may take part again.
#[derive(Debug)]
pub enum Before {
    /// Wait: it was taken out, or threads still use it.
    Wait,
    /// Read these connections to their ends.
    Drain(Vec<OwnedFd>),
    /// Delete these keys.
    Delete(Vec<Missed>),
    /// Forget everything.
    Flush,
    /// Nothing: it takes part from now on.
    Nothing,
}

/// What a server has missed, the connections to it that were given up, and what the record is told of it.
#[derive(Default)]
pub(super) struct Journal {
    keys: HashSet<Missed>,
    everything: bool,
    given_up: Vec<OwnedFd>,
    /// Which run of it takes part, if that was told.
    pub(super) run: Option<Run>,
    /// Which one is to do so next.
    pub(super) next_run: Option<Run>,
    pub(super) chronicle: Chronicle,
}

impl Journal {
    /// Nothing was missed.
    pub(super) fn new(chronicle: Chronicle) -> Self {
        Self { chronicle, ..Self::default() }
    }

    /// A write that it does not get; None: of everything.
    pub(super) fn note(&mut self, key: Option<Missed>) {
        match key {
            Some(key) if !self.everything && self.keys.len() < MISSED_KEYS_MAX => {
                self.keys.insert(key);
            }
            _ => {
                self.everything = true;
                self.keys.clear();
            }
        }
    }

    /// A connection over which it may still read what it was sent.
    pub(super) fn give_up(&mut self, socket: Option<OwnedFd>) {
        self.given_up.extend(socket);
    }

    /// What must be done first, which then counts as done; None when there is nothing.
    pub(super) fn take_first(&mut self) -> Option<Before> {
        if !self.given_up.is_empty() {
            return Some(Before::Drain(std::mem::take(&mut self.given_up)));
        }
        if std::mem::take(&mut self.everything) {
            self.keys.clear();
            return Some(Before::Flush);
        }
        (!self.keys.is_empty()).then(|| Before::Delete(self.keys.drain().collect()))
    }

    /// What was taken to be done could not be done.
    pub(super) fn put_back(&mut self, before: Before) {
        match before {
            Before::Drain(sockets) => self.given_up.extend(sockets),
            Before::Delete(keys) => keys.into_iter().for_each(|key| self.note(Some(key))),
            Before::Flush => self.note(None),
            Before::Wait | Before::Nothing => {}
        }
    }
}
