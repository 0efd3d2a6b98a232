//! Account names and their numbers.
//!
//! A name gets its number when it is first met, even as a recipient that has never logged in: so it finds its
//! messages when it does. Only its login makes it known, which is what `TO *`, `STRICT` and `ACCOUNTS` ask for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::queue::rules::AccountId;

/// All names ever met, numbered from 1.
#[derive(Default)]
pub(super) struct Accounts {
    ids: HashMap<Arc<[u8]>, AccountId>,
    entries: Vec<Entry>,
    /// How many have logged in.
    known: usize,
}

struct Entry {
    name: Arc<[u8]>,
    logged_in: bool,
}

impl Accounts {
    /// Returns the name's number, whether it has logged in or not; None if it was never met.
    pub(super) fn find(&self, name: &[u8]) -> Option<AccountId> {
        self.ids.get(name).copied()
    }

    /// The name's number if it has logged in.
    pub(super) fn known(&self, name: &[u8]) -> Option<AccountId> {
        self.find(name).filter(|&id| self.entry(id).logged_in)
    }

    /// Returns the name's number, and gives it one if it has none.
    pub(super) fn meet(&mut self, name: &[u8]) -> AccountId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let name: Arc<[u8]> = name.into();
        self.entries.push(Entry { name: Arc::clone(&name), logged_in: false });
        let id = AccountId::try_from(self.entries.len()).expect("fewer accounts than 2^32");
        self.ids.insert(name, id);
        id
    }

    /// Makes the name known and returns its number.
    pub(super) fn log_in(&mut self, name: &[u8]) -> AccountId {
        let id = self.meet(name);
        let entry = &mut self.entries[id as usize - 1];
        self.known += usize::from(!std::mem::replace(&mut entry.logged_in, true));
        id
    }

    /// The name behind a number this store gave out.
    pub(super) fn name(&self, id: AccountId) -> &[u8] {
        &self.entry(id).name
    }

    /// Every account that has logged in, by number.
    pub(super) fn all_known(&self) -> impl Iterator<Item = (AccountId, &[u8])> {
        self.known_among(0, usize::MAX)
    }

    /// Those among the first `count` names with numbers above `after`.
    pub(super) fn known_among(&self, after: u64, count: usize) -> impl Iterator<Item = (AccountId, &[u8])> {
        let start = usize::try_from(after).unwrap_or(usize::MAX).min(self.entries.len());
        let numbered = (1..).skip(start).zip(self.entries[start..].iter().take(count));
        numbered.filter(|(_, entry)| entry.logged_in).map(|(id, entry)| (id, &*entry.name))
    }

    /// How many accounts have logged in.
    pub(super) fn known_count(&self) -> usize {
        self.known
    }

    /// How many names were ever met.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// About how many bytes of memory all this takes.
    pub(super) fn bytes(&self) -> u64 {
        const PER_NAME: u64 = 640;
        self.entries.len() as u64 * PER_NAME
    }

    fn entry(&self, id: AccountId) -> &Entry {
        &self.entries[id as usize - 1]
    }
}
