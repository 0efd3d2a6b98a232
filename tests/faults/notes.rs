//! A client's journal, kept in memory or, by a client that may be killed itself, in a file.

use posthaste_history::{Call, Journal, Name, Outcome, Writer};

use crate::witness::now;

/// The journal of one life of a client.
pub(crate) enum Notes {
    InMemory(Journal),
    OnDisk(Writer),
}

impl Notes {
    /// Writes down a request that is about to be made: its number.
    pub(crate) fn begin(&mut self, call: &Call) -> usize {
        match self {
            Self::InMemory(journal) => journal.begin(now(), call.clone()),
            Self::OnDisk(writer) => writer.begin(now(), call).expect("a journal can be written"),
        }
    }

    /// Writes down what became of it.
    pub(crate) fn end(&mut self, number: usize, outcome: &Outcome) {
        match self {
            Self::InMemory(journal) => journal.end(number, now(), outcome.clone()),
            Self::OnDisk(writer) => writer.end(number, now(), outcome).expect("a journal can be written"),
        }
    }

    /// How a queue or an account is called in this journal.
    pub(crate) fn name(&mut self, name: &str) -> Name {
        match self {
            Self::InMemory(journal) => journal.name(name),
            Self::OnDisk(writer) => writer.name(name),
        }
    }
}
