//! What one client asked and was told, in program order.
//!
//! An operation is recorded before its bytes are sent, so that a client that dies leaves no effect without a cause.

use crate::Time;
use crate::names::{Name, Names};
use crate::operation::{Call, Outcome};

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time before which none of the request's bytes had been sent.
    pub begin: Time,
    /// Time at which the answer had been received or was given up; `Time::MAX` while the operation is under way.
    pub end: Time,
    /// The request.
    pub call: Call,
    /// How the request ended.
    pub outcome: Outcome,
}

/// The journal of one life of one connection. Requests take effect in its order.
///
/// An operation may hold several attempts under one key (`DEDUP`, `REQID`), from the first attempt's begin to the last
/// one's end. Attempts may also stand as operations of their own, with the same key.
#[derive(Clone, Debug)]
pub struct Journal {
    client: u32,
    account: Name,
    names: Names,
    entries: Vec<Entry>,
}

impl Journal {
    /// The journal of client number `client` of its history, logged in as `account`.
    #[must_use]
    pub fn new(client: u32, account: &str) -> Self {
        let mut names = Names::default();
        let account = names.name(account);
        Self { client, account, names, entries: Vec::new() }
    }

    /// Creates a journal in which all names are [numbers](Name::number).
    #[must_use]
    pub fn numbered(client: u32, account: Name) -> Self {
        Self { client, account, names: Names::default(), entries: Vec::new() }
    }

    /// Returns the number of the client.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.client
    }

    /// Returns the account that the client was logged in as.
    #[must_use]
    pub fn account(&self) -> Name {
        self.account
    }

    /// Returns the names of the journal, with their words.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the [`Name`] for the word of a queue or account.
    pub fn name(&mut self, word: &str) -> Name {
        self.names.name(word)
    }

    /// Returns the operations, by number.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Records that an operation begins, and returns its number.
    pub fn begin(&mut self, at: Time, call: Call) -> usize {
        self.entries.push(Entry { begin: at, end: Time::MAX, call, outcome: Outcome::Info });
        self.entries.len() - 1
    }

    /// Records how operation `number` ended; a later call replaces what an earlier one recorded.
    ///
    /// # Panics
    /// If the operation never began.
    pub fn end(&mut self, number: usize, at: Time, outcome: Outcome) {
        let entry = &mut self.entries[number];
        (entry.end, entry.outcome) = (at, outcome);
    }

    /// Ends all operations under way with unknown outcome: the client is known to have been gone at `at`.
    pub fn close(&mut self, at: Time) {
        for entry in self.entries.iter_mut().filter(|entry| entry.end == Time::MAX) {
            entry.end = at.max(entry.begin);
        }
    }
}
