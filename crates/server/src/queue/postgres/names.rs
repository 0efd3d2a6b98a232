//! Names and numbers of accounts, remembered. Neither ever changes in a database, so what a server said once stays true
//! of it. It is not true of the next server, which may have taken over from an earlier state and given a number to
//! another account.
//!
//! A session belongs to one account for as long as its client likes, whichever server is asked. So it has a session
//! number, given by this middleware, which stands for a name: as a rule the number that the account has in the
//! database.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::path::bundle::Bundle;
use crate::queue::rules::AccountId;

/// Accounts this middleware has met at a server.
#[derive(Default)]
pub(super) struct Accounts {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    by_id: FxHashMap<AccountId, Arc<[u8]>>,
    /// Account numbers of those that have sessions, by session number.
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

    /// Returns the account number for a session number; None: that account has had no session at this server yet.
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

    /// Remembers an account that has sessions, and its session number.
    pub(super) fn admit(&mut self, session: AccountId, id: AccountId, name: &[u8]) {
        self.learn(id, name);
        self.of_sessions.insert(session, id);
    }
}

/// Session numbers, which stay the same when the server changes.
#[derive(Default)]
pub(super) struct Sessions {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    names: FxHashMap<AccountId, Arc<[u8]>>,
    /// Session numbers of accounts that have logged in, which `default` need not have.
    logged_in: FxHashSet<AccountId>,
}

impl Sessions {
    /// Returns the session number of a name, if it has logged in.
    pub(super) fn of_login(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied().filter(|number| self.has_logged_in(*number))
    }

    /// Returns whether a session number stands for an account that has logged in.
    pub(super) fn has_logged_in(&self, number: AccountId) -> bool {
        self.logged_in.contains(&number)
    }

    /// Returns the name that a session number stands for.
    pub(super) fn name(&self, number: AccountId) -> Option<Arc<[u8]>> {
        self.names.get(&number).cloned()
    }

    /// Returns the names of all accounts that have logged in.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.logged_in.iter().filter_map(|number| self.names.get(number)).map(|name| &**name)
    }

    /// Notes that an account has logged in.
    pub(super) fn log_in(&mut self, number: AccountId) {
        self.logged_in.insert(number);
    }

    /// Returns the session number of a name, the one it has or a new one: `id` unless that stands for another name.
    pub(super) fn admit(&mut self, id: AccountId, name: &[u8]) -> AccountId {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let free = |number: &AccountId| !self.names.contains_key(number);
        let number = Some(id).into_iter().chain((0..=AccountId::MAX).rev()).find(free).unwrap_or(id);
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(Arc::clone(&name), number);
        self.names.insert(number, name);
        number
    }
}

/// Returns the name of an account or queue as text: names were checked to be UTF-8 when they were parsed.
pub(super) fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_number_and_shares_it_with_nobody() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.admit(5, b"ann"), 5);
        assert_eq!(sessions.admit(7, b"ann"), 5, "at another server");
        let eve = sessions.admit(5, b"eve");
        assert!(eve != 5 && sessions.name(eve).as_deref() == Some(b"eve"));
        assert_eq!(sessions.admit(7, b"bob"), 7);
    }

    #[test]
    fn who_has_a_session_need_not_have_logged_in() {
        let mut sessions = Sessions::default();
        let number = sessions.admit(5, b"default");
        assert!(sessions.of_login(b"default").is_none() && sessions.all().next().is_none());
        sessions.log_in(number);
        assert_eq!(sessions.of_login(b"default"), Some(5));
        assert_eq!(sessions.all().collect::<Vec<_>>(), [b"default"]);
    }
}
