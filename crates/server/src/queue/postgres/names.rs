//! Names and numbers of accounts, remembered. Neither ever changes in a database, so what a server said once stays true
//! of it. It is not true of the next server, which may have taken over from an earlier state and given a number to
//! another account.
//!
//! A session belongs to one account for as long as its client likes, whichever server is asked. So it has a session
//! number, given by this middleware, which stands for a name: as a rule the number that the account has in the
//! database.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::path::bundle::Bundle;
use crate::queue::rules::AccountId;

/// Accounts this middleware has met at a server.
#[derive(Default)]
pub(super) struct Accounts {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    by_id: FxHashMap<AccountId, Arc<[u8]>>,
    /// Account numbers of those that have logged in, by session number.
    of_sessions: FxHashMap<AccountId, AccountId>,
}

impl Accounts {
    /// Returns the number of the account of this name.
    pub(super) fn id(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of the account with this number.
    pub(super) fn name(&self, id: AccountId) -> Option<&[u8]> {
        self.by_id.get(&id).map(|name| &**name)
    }

    /// Returns the account number for a session number; None: that account has not logged in at this server yet.
    pub(super) fn of_session(&self, number: AccountId) -> Option<AccountId> {
        self.of_sessions.get(&number).copied()
    }

    /// Returns the number, at this server, of the account whose requests a bundle holds.
    pub(super) fn number(&self, bundle: &Bundle) -> AccountId {
        self.of_session(bundle.account).unwrap_or(bundle.account)
    }

    /// Returns how many names are known.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Remembers the name and number of an account.
    pub(super) fn learn(&mut self, id: AccountId, name: &[u8]) {
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(Arc::clone(&name), id);
        self.by_id.insert(id, name);
    }

    /// Remembers an account that has logged in, and its session number.
    pub(super) fn log_in(&mut self, session: AccountId, id: AccountId, name: &[u8]) {
        self.learn(id, name);
        self.of_sessions.insert(session, id);
    }
}

/// Session numbers, which stay the same when the server changes.
#[derive(Default)]
pub(super) struct Sessions {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    names: FxHashMap<AccountId, Arc<[u8]>>,
}

impl Sessions {
    /// Returns the session number of a name, if it has logged in.
    pub(super) fn number(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied()
    }

    /// Returns the name that a session number stands for.
    pub(super) fn name(&self, number: AccountId) -> Option<Arc<[u8]>> {
        self.names.get(&number).cloned()
    }

    /// Returns the names of all accounts that have logged in.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.keys().map(|name| &**name)
    }

    /// Returns the session number of a name, the one it has or a new one: `id` unless that stands for another name.
    pub(super) fn log_in(&mut self, id: AccountId, name: &[u8]) -> AccountId {
        if let Some(number) = self.number(name) {
            return number;
        }
        let free = |number: &AccountId| !self.names.contains_key(number);
        let number = Some(id).into_iter().chain((0..=AccountId::MAX).rev()).find(free).unwrap_or(id);
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(Arc::clone(&name), number);
        self.names.insert(number, name);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_number_and_shares_it_with_nobody() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.log_in(5, b"ann"), 5);
        assert_eq!(sessions.log_in(7, b"ann"), 5, "at another server");
        let eve = sessions.log_in(5, b"eve");
        assert!(eve != 5 && sessions.name(eve).as_deref() == Some(b"eve"));
        assert_eq!(sessions.log_in(7, b"bob"), 7);
    }
}
