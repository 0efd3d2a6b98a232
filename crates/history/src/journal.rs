//! What one client asked and was told, in program order.
//!
//! An operation is written down before its bytes leave, so that a client that dies leaves no effect without a cause.

use crate::Time;
use crate::names::{Name, Names};
use crate::operation::{Call, Outcome};

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Before this its bytes had not left.
    pub begin: Time,
    /// At this its answer was there, or was given up; the latest time there is, while neither is so.
    pub end: Time,
    /// What was asked.
    pub call: Call,
    /// What was told.
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

    /// The same where all names are [numbers](Name::number).
    #[must_use]
    pub fn numbered(client: u32, account: Name) -> Self {
        Self { client, account, names: Names::default(), entries: Vec::new() }
    }

    /// Which client.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.client
    }

    /// Who it was logged in as.
    #[must_use]
    pub fn account(&self) -> Name {
        self.account
    }

    /// Its names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The name of a queue or account.
    pub fn name(&mut self, word: &str) -> Name {
        self.names.name(word)
    }

    /// Its operations, by number.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Begins an operation and gives its number.
    pub fn begin(&mut self, at: Time, call: Call) -> usize {
        self.entries.push(Entry { begin: at, end: Time::MAX, call, outcome: Outcome::Info });
        self.entries.len() - 1
    }

    /// Ends operation `number`, which may have been done before: then the last word counts.
    ///
    /// # Panics
    /// It never began.
    pub fn end(&mut self, number: usize, at: Time, outcome: Outcome) {
        let entry = &mut self.entries[number];
        (entry.end, entry.outcome) = (at, outcome);
    }

    /// The client is known to have been gone at `at`: what was under way has ended, nobody knows how.
    pub fn close(&mut self, at: Time) {
        for entry in self.entries.iter_mut().filter(|entry| entry.end == Time::MAX) {
            entry.end = at.max(entry.begin);
        }
    }
}
