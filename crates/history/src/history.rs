//! All journals of a history, their names translated to one common set.

use std::collections::HashMap;

use crate::Time;
use crate::journal::{Entry, Journal};
use crate::names::{Name, Names};
use crate::operation::{Answer, Call, Delivery, Kind, Outcome, Send};

/// A history: the journals of all clients, and what else is needed to judge them.
#[derive(Clone, Debug)]
pub struct History {
    /// How long after its client gave it up an operation of unknown outcome may still take effect, or be undone: the
    /// database may not have noticed yet that its transaction has ended. Messages that a pop may hold are hidden from
    /// other readers meanwhile, so nulls and orders of that time are not judged. 0 where nothing outlives the process
    /// that was killed.
    pub limbo: Time,
    /// How late a lease, a delay or a time to live may end. Servers promise 200 ms; a machine that is busy with other
    /// things is allowed more.
    pub timers_late: Time,
    names: Names,
    journals: Vec<Record>,
    requests: Vec<Requests>,
    drained: bool,
    cut: Option<Time>,
}

/// A journal whose names are those of the history.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) client: u32,
    pub(crate) account: Name,
    pub(crate) drain: bool,
    pub(crate) entries: Vec<Entry>,
}

/// The growth of a server's counter of requests between two idle moments, one before and one after all journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// The kind of the requests counted.
    pub kind: Kind,
    /// How the requests counted ended.
    pub ending: Ending,
    /// The counter's growth.
    pub counted: u64,
}

/// How servers say that a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Answered with a result.
    Ok,
    /// Answered with null: there was no message.
    Null,
    /// Answered with an error.
    Error,
}

impl Default for History {
    fn default() -> Self {
        Self {
            limbo: 5_000_000_000,
            timers_late: 1_000_000_000,
            names: Names::default(),
            journals: Vec::new(),
            requests: Vec::new(),
            drained: false,
            cut: None,
        }
    }
}

impl History {
    /// Creates an empty history with this [`limbo`](Self::limbo).
    #[must_use]
    pub fn with_limbo(limbo: Time) -> Self {
        Self { limbo, ..Self::default() }
    }

    /// Adds a client's journal.
    pub fn add(&mut self, journal: &Journal) {
        self.record(journal, false);
    }

    /// Adds the journal of the final drain, or of one reader's part of it: every message that was left when all clients
    /// had stopped. Without a drain rule A cannot be decided.
    pub fn drain(&mut self, journal: &Journal) {
        self.drained = true;
        self.record(journal, true);
    }

    /// Adds the growth of one of a server's counters.
    pub fn count(&mut self, requests: Requests) {
        self.requests.push(requests);
    }

    /// Returns how many requests of a kind are in the journals.
    #[must_use]
    pub fn requests_of(&self, kind: Kind) -> u64 {
        let entries = self.journals.iter().flat_map(|journal| &journal.entries);
        entries.filter(|entry| entry.call.kind() == kind).count() as u64
    }

    /// Declares that all journals hold only operations that began before `at`. Whatever a rule cannot decide without
    /// later operations stays undecided.
    pub fn cut(&mut self, at: Time) {
        self.cut = Some(self.cut.map_or(at, |cut| cut.min(at)));
    }

    /// Returns the names of the history, with their words.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn journals(&self) -> &[Record] {
        &self.journals
    }

    pub(crate) fn requests(&self) -> &[Requests] {
        &self.requests
    }

    /// Returns whether all operations are known, and all messages that were left at the end.
    pub(crate) fn is_whole(&self) -> bool {
        self.drained && self.cut.is_none()
    }

    /// Returns the time from which on not all operations are known; `Time::MAX` if all are.
    pub(crate) fn known_until(&self) -> Time {
        self.cut.unwrap_or(Time::MAX)
    }

    fn record(&mut self, journal: &Journal, drain: bool) {
        let mut translation =
            Translation { from: journal.names(), to: &mut self.names, known: HashMap::new() };
        let account = translation.name(journal.account());
        let entries = journal.entries().iter().map(|entry| translation.entry(entry)).collect();
        self.journals.push(Record { client: journal.client(), account, drain, entries });
    }
}

/// Translates a journal's names to those of the history.
struct Translation<'a> {
    from: &'a Names,
    to: &'a mut Names,
    known: HashMap<Name, Name>,
}

impl Translation<'_> {
    fn name(&mut self, name: Name) -> Name {
        let (from, to) = (self.from, &mut *self.to);
        *self.known.entry(name).or_insert_with(|| to.name(&from.word(name)))
    }

    fn option(&mut self, name: Option<Name>) -> Option<Name> {
        name.map(|name| self.name(name))
    }

    fn entry(&mut self, entry: &Entry) -> Entry {
        let call = self.call(&entry.call, &entry.outcome);
        let outcome = match &entry.outcome {
            Outcome::Ok(Answer::Messages(messages)) => {
                Outcome::Ok(Answer::Messages(messages.iter().map(|message| self.delivery(message)).collect()))
            }
            other => other.clone(),
        };
        Entry { begin: entry.begin, end: entry.end, call, outcome }
    }

    fn call(&mut self, call: &Call, outcome: &Outcome) -> Call {
        match call {
            Call::Send(send) => {
                let (queue, to) = (self.name(send.queue), self.option(send.to));
                Call::Send(Send { queue, to, ..send.clone() })
            }
            Call::Pop(select) | Call::Peek(select) => {
                let mut select = *select;
                (select.queue, select.from) = (self.option(select.queue), self.option(select.from));
                if call.kind() == Kind::Pop { Call::Pop(select) } else { Call::Peek(select) }
            }
            Call::Create { queue } => Call::Create {
                queue: match (queue, outcome) {
                    (None, Outcome::Ok(Answer::Number(id))) => Some(self.to.name(&id.to_string())),
                    (queue, _) => self.option(*queue),
                },
            },
            Call::Delete { queue } => Call::Delete { queue: self.name(*queue) },
            Call::Purge { queue } => Call::Purge { queue: self.name(*queue) },
            Call::Info { queue } => Call::Info { queue: self.name(*queue) },
            Call::Browse { queue } => Call::Browse { queue: self.name(*queue) },
            Call::Ack { .. } | Call::Nack { .. } | Call::Extend { .. } => call.clone(),
        }
    }

    fn delivery(&mut self, delivery: &Delivery) -> Delivery {
        Delivery {
            queue: self.name(delivery.queue),
            from: self.name(delivery.from),
            to: self.option(delivery.to),
            first_queue: self.option(delivery.first_queue),
            ..delivery.clone()
        }
    }
}
