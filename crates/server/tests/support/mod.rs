//! A store with a hand-driven clock, asked in the words of the wire.
//!
//! Requests are written as a client would type them and go through the real parser; answers come back decoded.
//! So a test reads like a dialogue but decides itself what time it is.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeMap;

use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::rules::{
    AccountId, Ask, Commit as _, Flow, Interest, Millis, News, Rules, after,
};
use posthaste_wire::command::{self, Command};
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::Operation;
use posthaste_wire::reply::{Reply, Value, decode};
use posthaste_wire::span::Span;

/// Largest body that a test may send, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A store under test, with its time.
pub(crate) struct World<S> {
    /// The store under test.
    pub(crate) store: S,
    /// Time on the store's clock, which the test sets.
    pub(crate) now: Millis,
    /// News since they were last taken.
    pub(crate) news: Vec<News>,
    accounts: BTreeMap<String, AccountId>,
}

/// A decoded answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Got {
    /// Null.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
    /// An error: its word and its sentence.
    Error(String),
    /// An array.
    List(Vec<Got>),
    /// A map.
    Map(BTreeMap<String, Got>),
}

/// How many messages were sent, taken and so on, by the figure's name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Returns what was counted before, with what a store has counted since it was opened.
pub(crate) fn counted(before: &Counts, figures: Vec<(&'static str, u64)>) -> Counts {
    let mut counts = before.clone();
    for (name, count) in figures.into_iter().filter(|(name, _)| name.starts_with("messages_")) {
        *counts.entry(name).or_default() += count;
    }
    counts
}

impl<S: Rules> World<S> {
    /// Creates a world with an empty store.
    pub(crate) fn new(store: S) -> Self {
        Self { store, now: 1_000_000, news: Vec::new(), accounts: BTreeMap::new() }
    }

    /// Executes a request of an account, which logs in with its first one.
    pub(crate) fn ask(&mut self, account: &str, request: &str) -> Got {
        self.try_ask(account, request).unwrap_or_else(|interest| panic!("{request} waits: {interest:?}"))
    }

    /// Executes a request that may have to wait; the error is what it waits for.
    pub(crate) fn try_ask(&mut self, account: &str, request: &str) -> Result<Got, Interest> {
        match self.execute(account, request) {
            (Flow::Done(_), bytes) => Ok(decoded(&bytes)),
            (Flow::Waits(interest), _) => Err(interest),
        }
    }

    /// Executes a request and returns the bytes of its answer.
    pub(crate) fn ask_bytes(&mut self, account: &str, request: &str) -> Vec<u8> {
        self.execute(account, request).1
    }

    /// Executes a pop that has to wait, and returns what it waits for.
    pub(crate) fn interest(&mut self, account: &str, request: &str) -> Interest {
        match self.try_ask(account, request) {
            Err(interest) => interest,
            Ok(answer) => panic!("{request} does not wait: {answer:?}"),
        }
    }

    /// Returns what the store answers without executing the request; None: it must be executed.
    pub(crate) fn read(&mut self, account: &str, request: &str) -> Option<Vec<u8>> {
        let account = self.log_in(account);
        let (bytes, operation) = parsed(request);
        let mut out = Vec::new();
        let ask = Ask { account, operation: &operation, bytes: &bytes };
        let outcome = self.store.read(self.now, ask, &mut Answer::new(&mut out, Protocol::Resp3));
        outcome.map(|_| out)
    }

    /// Executes several requests in one batch, none of which waits.
    pub(crate) fn ask_together(&mut self, account: &str, requests: &[&str]) -> Vec<Got> {
        let done = self.execute_together(account, requests);
        done.iter().map(|(_, bytes)| decoded(bytes)).collect()
    }

    fn execute(&mut self, account: &str, request: &str) -> (Flow, Vec<u8>) {
        self.execute_together(account, &[request]).remove(0)
    }

    fn execute_together(&mut self, account: &str, requests: &[&str]) -> Vec<(Flow, Vec<u8>)> {
        let account = self.log_in(account);
        let requests: Vec<_> = requests.iter().map(|request| parsed(request)).collect();
        let request_bytes = requests.iter().map(|(bytes, _)| bytes.len()).sum();
        self.store.prepare(requests.len(), request_bytes).expect("there is room");
        let mut done = Vec::new();
        for (bytes, operation) in &requests {
            let mut out = Vec::new();
            let ask = Ask { account, operation, bytes };
            let mut answer = Answer::new(&mut out, Protocol::Resp3);
            let flow = self.store.execute(self.now, ask, &mut answer, &mut self.news);
            assert_eq!(out.is_empty(), matches!(flow, Flow::Waits(_)), "one answer, or none while it waits");
            done.push((flow, out));
        }
        self.commit();
        done
    }

    /// Commits what was executed.
    fn commit(&mut self) {
        if let Some(mut commit) = self.store.seal() {
            let result = commit.sync();
            assert_eq!(result, Ok(()));
            self.store.committed(commit, &result);
        }
    }

    /// Returns the number of an account.
    pub(crate) fn log_in(&mut self, account: &str) -> AccountId {
        if let Some(id) = self.accounts.get(account) {
            return *id;
        }
        let id = self.store.account(account.as_bytes()).expect("there is room");
        self.commit();
        self.accounts.insert(account.to_owned(), id);
        id
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ms: Millis) {
        self.now += ms;
        self.store.tick(self.now, &mut self.news);
        self.commit();
    }

    /// Waits until a lease or a delay that begins now has ended.
    pub(crate) fn run_out(&mut self, ms: Millis) {
        self.wait(after(self.now, ms) - self.now);
    }

    /// Closes the store, then opens another in its place.
    pub(crate) fn reopen(self, open: impl FnOnce() -> S) -> Self {
        let Self { store, now, news, accounts } = self;
        drop(store);
        Self { store: open(), now, news, accounts }
    }

    /// Executes a SEND and returns the id.
    pub(crate) fn send(&mut self, account: &str, request: &str) -> i64 {
        match self.ask(account, &format!("SEND {request}")) {
            Got::Integer(id) => id,
            other => panic!("SEND {request}: {other:?}"),
        }
    }

    /// Returns the bodies of all messages in a queue that the account can read, in order.
    pub(crate) fn bodies(&mut self, account: &str, queue: &str) -> Vec<String> {
        self.ask(account, &format!("PEEK QUEUE {queue} COUNT 1000")).bodies()
    }
}

impl Got {
    /// Returns a field of a map.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &Got {
        match self {
            Self::Map(fields) => fields.get(name).unwrap_or_else(|| panic!("no {name} in {fields:?}")),
            other => panic!("no map: {other:?}"),
        }
    }

    /// Returns an integer field of a map.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> i64 {
        match self.field(name) {
            Self::Integer(number) => *number,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns a text field of a map.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.field(name) {
            Self::Text(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns the items of an array.
    #[track_caller]
    pub(crate) fn items(&self) -> &[Got] {
        match self {
            Self::List(items) => items,
            other => panic!("no array: {other:?}"),
        }
    }

    /// Returns the bodies of an array of messages.
    #[track_caller]
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.items().iter().map(|message| message.text("body").to_owned()).collect()
    }

    /// Returns the first word of an error.
    #[track_caller]
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Error(error) => error.split(' ').next().unwrap_or_default(),
            other => panic!("no error: {other:?}"),
        }
    }
}

/// Decodes bytes that are exactly one answer.
pub(crate) fn decoded(bytes: &[u8]) -> Got {
    match decode(bytes) {
        Reply::Value(value, used) if used == bytes.len() => got(&value),
        other => panic!("not one whole answer: {other:?}"),
    }
}

/// Decodes bytes that are any number of answers.
pub(crate) fn decoded_all(mut bytes: &[u8]) -> Vec<Got> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        match decode(bytes) {
            Reply::Value(value, used) => {
                answers.push(got(&value));
                bytes = &bytes[used..];
            }
            other => panic!("not whole answers: {other:?}"),
        }
    }
    answers
}

fn got(value: &Value<'_>) -> Got {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Null => Got::Null,
        Value::Integer(number) => Got::Integer(*number),
        Value::Bulk(bytes) | Value::Simple(bytes) => Got::Text(text(bytes)),
        Value::Error(bytes) => Got::Error(text(bytes)),
        Value::Array(items) => Got::List(items.iter().map(got).collect()),
        Value::Map(pairs) => Got::Map(pairs.iter().map(|(key, value)| (named(key), got(value))).collect()),
        other => panic!("no answer of ours: {other:?}"),
    }
}

fn named(key: &Value<'_>) -> String {
    match key {
        Value::Bulk(name) => String::from_utf8_lossy(name).into_owned(),
        other => panic!("no name: {other:?}"),
    }
}

/// Parses a request as a store gets it: words split at spaces, through the parser of the wire.
pub(crate) fn parsed(request: &str) -> (Vec<u8>, Operation) {
    let mut bytes = Vec::new();
    let operation = parsed_after(&mut bytes, request);
    (bytes, operation)
}

/// Parses a request that stands behind others in the same bytes.
pub(crate) fn parsed_after(bytes: &mut Vec<u8>, request: &str) -> Operation {
    let mut words = Vec::new();
    for word in request.split(' ') {
        words.push(Span { start: bytes.len() as u32, len: word.len() as u32 });
        bytes.extend_from_slice(word.as_bytes());
    }
    match command::parse(&words, bytes, BODY_BYTES_MAX) {
        Ok(Command::Store(operation)) => operation,
        // The session's LOGIN becomes the store's when its secret is accepted.
        _ if words[0].of(bytes) == b"LOGIN" => Operation::Login { account: words[1] },
        other => panic!("{request} is no request to a store: {other:?}"),
    }
}
