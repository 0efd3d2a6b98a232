//! Answers that are given again to a repeated request: the memory behind `DEDUP` and `REQID`.
//!
//! A key counts from its first use: repeating a request does not keep it alive.

use std::collections::{HashMap, VecDeque};

use crate::queue::bounds::REMEMBERED_MS;
use crate::queue::rules::{AccountId, Millis, QueueId};

/// A key, with its account and the queue in which it counts: in all, if the request named none.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct RequestKey {
    pub(super) account: AccountId,
    pub(super) queue: Option<QueueId>,
    pub(super) text: Box<[u8]>,
}

/// What was answered in the last ten minutes.
pub(super) struct Recent<T> {
    answers: HashMap<RequestKey, T>,
    ends: VecDeque<End>,
    bytes: u64,
}

/// When a key is dropped, and how many bytes of memory it takes with its answer.
struct End {
    at: Millis,
    key: RequestKey,
    bytes: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { answers: HashMap::new(), ends: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Recent<T> {
    pub(super) fn get(&self, key: &RequestKey) -> Option<&T> {
        self.answers.get(key)
    }

    /// Remembers the answer to a key that is not remembered yet. `bytes` is the size of the answer.
    pub(super) fn remember(&mut self, now: Millis, key: RequestKey, answer: T, bytes: u64) {
        const PER_ANSWER: u64 = 320;
        let bytes = PER_ANSWER + key.text.len() as u64 + bytes;
        self.bytes += bytes;
        self.ends.push_back(End { at: now.saturating_add(REMEMBERED_MS), key: key.clone(), bytes });
        self.answers.insert(key, answer);
    }

    /// Drops all answers that are too old.
    pub(super) fn forget(&mut self, now: Millis) {
        while let Some(end) = self.ends.pop_front_if(|end| end.at <= now) {
            self.answers.remove(&end.key);
            self.bytes -= end.bytes;
        }
    }

    /// About how many bytes of memory all this takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
