//! Account names and their numbers.
//!
//! A name gets its number when it is first met, even as a recipient that has never logged in: so it finds its
//! messages when it does. Only its login makes it known, which is what `TO *`, `STRICT` and `ACCOUNTS` ask for.
//! Accounts are never removed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::message::Home;
use crate::queue::rules::AccountId;

/// All names ever met, numbered from 1.
#[derive(Default)]
pub(super) struct Accounts {
    ids: HashMap<Arc<[u8]>, AccountId>,
    entries: Vec<Account>,
    /// How many have logged in.
    known: usize,
    /// Only while the log is replayed: accounts whose record comes before that of the account numbered just below,
    /// because that one was written again later.
    early: BTreeMap<AccountId, Account>,
}

/// One account.
pub(super) struct Account {
    pub(super) name: Arc<[u8]>,
    /// Whether it ever logged in.
    pub(super) known: bool,
    pub(super) home: Home,
}

impl Accounts {
    /// Returns the name's number, whether it has logged in or not.
    pub(super) fn find(&self, name: &[u8]) -> Option<AccountId> {
        self.ids.get(name).copied()
    }

    /// Returns the name's number if it has logged in.
    pub(super) fn known(&self, name: &[u8]) -> Option<AccountId> {
        self.find(name).filter(|id| self.get(*id).is_some_and(|account| account.known))
    }

    /// An account by its number.
    pub(super) fn get(&self, id: AccountId) -> Option<&Account> {
        self.entries.get((id as usize).checked_sub(1)?)
    }

    /// Returns an account by its number, even if one with a lower number was not recorded yet.
    pub(super) fn recorded(&self, id: AccountId) -> Option<&Account> {
        self.get(id).or_else(|| self.early.get(&id))
    }

    /// The name behind a number.
    pub(super) fn name(&self, id: AccountId) -> &[u8] {
        self.get(id).map_or(b"", |account| &account.name)
    }

    /// Every account that has logged in, by number.
    pub(super) fn all_known(&self) -> impl Iterator<Item = (AccountId, &Account)> {
        self.known_among(0, usize::MAX)
    }

    /// Those among the first `count` names with numbers above `after`.
    pub(super) fn known_among(
        &self,
        after: u64,
        count: usize,
    ) -> impl Iterator<Item = (AccountId, &Account)> {
        let start = usize::try_from(after).unwrap_or(usize::MAX).min(self.entries.len());
        let numbered = (1..).skip(start).zip(self.entries[start..].iter().take(count));
        numbered.filter(|(_, account)| account.known)
    }

    /// How many accounts have logged in.
    pub(super) fn known_count(&self) -> usize {
        self.known
    }

    /// The number that the next new name gets.
    pub(super) fn next_id(&self) -> AccountId {
        AccountId::try_from(self.entries.len() + 1).expect("memory ends before 2^32 accounts do")
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a number that no record names although one above it has a name.
    pub(super) fn gap(&self) -> Option<AccountId> {
        (!self.early.is_empty()).then(|| self.next_id())
    }

    /// Sets what a number stands for. Returns the home of its earlier record, if any.
    pub(super) fn set(&mut self, id: AccountId, name: &[u8], known: bool, home: Home) -> Option<Home> {
        let index = (id as usize).checked_sub(1)?;
        if let Some(account) = self.entries.get_mut(index).or(self.early.get_mut(&id)) {
            self.known += usize::from(known && !account.known);
            account.known |= known;
            return Some(std::mem::replace(&mut account.home, home));
        }
        let name: Arc<[u8]> = name.into();
        self.known += usize::from(known);
        self.ids.insert(Arc::clone(&name), id);
        self.early.insert(id, Account { name, known, home });
        while let Some(account) = self.early.remove(&self.next_id()) {
            self.entries.push(account);
        }
        None
    }
}
