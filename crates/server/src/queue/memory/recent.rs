//! Answers that are given again to a repeated request: the memory behind `DEDUP` and `REQID`.
//!
//! A key counts from its first use: repeating a request does not keep it alive.

use std::collections::{HashMap, VecDeque};

use crate::queue::bounds::REMEMBERED_MS;
use crate::queue::rules::{AccountId, Millis, QueueId};

/// Whose key it is, and where it counts: in one queue, or anywhere when the request named none.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) account: AccountId,
    pub(super) queue: Option<QueueId>,
    pub(super) text: Box<[u8]>,
}

/// What was answered in the last ten minutes.
pub(super) struct Recent<T> {
    answers: HashMap<Key, T>,
    ends: VecDeque<(Millis, Key)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { answers: HashMap::new(), ends: VecDeque::new() }
    }
}

impl<T> Recent<T> {
    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        self.answers.get(key)
    }

    /// Remembers the first answer to a key that is not remembered yet.
    pub(super) fn remember(&mut self, now: Millis, key: Key, answer: T) {
        self.ends.push_back((now.saturating_add(REMEMBERED_MS), key.clone()));
        self.answers.insert(key, answer);
    }

    /// Drops what is too old.
    pub(super) fn forget(&mut self, now: Millis) {
        while let Some((_, key)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            self.answers.remove(&key);
        }
    }
}
