//! Answers that are given again to a repeated request: the memory behind `DEDUP` and `REQID`.
//!
//! A key counts from its first use: repeating a request does not keep it alive. What a POP handed out is read again
//! from its own record in the log, which holds copies; so it stays what it was, whatever became of the messages.
//!
//! Ordered maps, not hash tables: clients choose the keys, and a table that doubles its size at ten million keys
//! stops all requests for a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::Home;
use crate::queue::rules::{AccountId, Millis, QueueId};

/// A key, with the account and the queue for which it counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    pub(super) account: AccountId,
    /// 0 when the request named no queue.
    pub(super) queue: QueueId,
    pub(super) kind: KeyKind,
    pub(super) text: Arc<[u8]>,
}

/// Option that a key came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyKind {
    Dedup,
    RequestId,
}

/// The answer to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RememberedAnswer {
    /// The record of the answer.
    pub(super) home: Home,
    /// When the answer is forgotten.
    pub(super) end: Millis,
    /// What a SEND answered; not used for a POP.
    pub(super) answer: u64,
}

/// What was answered in the last ten minutes.
#[derive(Default)]
pub(super) struct Remembered {
    answers: BTreeMap<RequestKey, RememberedAnswer>,
    ends: BTreeSet<(Millis, RequestKey)>,
    text_bytes: u64,
}

impl Remembered {
    pub(super) fn get(&self, key: &RequestKey) -> Option<&RememberedAnswer> {
        self.answers.get(key)
    }

    /// Remembers an answer. Returns the home of an earlier answer to this key, if any.
    pub(super) fn set(&mut self, key: RequestKey, known: RememberedAnswer) -> Option<Home> {
        let before = self.remove(&key);
        self.text_bytes += key.text.len() as u64;
        self.ends.insert((known.end, key.clone()));
        self.answers.insert(key, known);
        before
    }

    /// Drops one answer that is too old. Returns the home of its record.
    pub(super) fn forget_one(&mut self, now: Millis) -> Option<Home> {
        let (end, key) = self.ends.first()?;
        if *end > now {
            return None;
        }
        let key = key.clone();
        self.remove(&key)
    }

    /// How many answers are remembered.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Bytes of all keys.
    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn remove(&mut self, key: &RequestKey) -> Option<Home> {
        let known = self.answers.remove(key)?;
        self.text_bytes -= key.text.len() as u64;
        self.ends.remove(&(known.end, key.clone()));
        Some(known.home)
    }
}
