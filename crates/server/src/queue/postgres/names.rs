//! Names and numbers of accounts, remembered. Neither ever changes in a database, so what a server said once stays true of it; but
//! not of the next one, which may have taken over from an earlier state and given a number to somebody else since.
//!
//! A session is one account for as long as its client likes. So it has a number of this middleware's, which stands for a name:
//! as a rule the one that the account has in the database.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::path::bundle::Bundle;
use crate::queue::rules::AccountId;

/// Accounts this middleware has met at a server.
#[derive(Default)]
pub(super) struct Accounts {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    by_id: FxHashMap<AccountId, Arc<[u8]>>,
    /// Of those who have logged in, by the numbers of their sessions.
    of_sessions: FxHashMap<AccountId, AccountId>,
}

impl Accounts {
    /// The number of a name.
    pub(super) fn id(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied()
    }

    /// The name of a number.
    pub(super) fn name(&self, id: AccountId) -> Option<&[u8]> {
        self.by_id.get(&id).map(|name| &**name)
    }

    /// The number of the account that has this one in its sessions; None: it was not met here yet.
    pub(super) fn of_session(&self, number: AccountId) -> Option<AccountId> {
        self.of_sessions.get(&number).copied()
    }

    /// The number of who asks for what is in a bundle.
    pub(super) fn number(&self, bundle: &Bundle) -> AccountId {
        self.of_session(bundle.account).unwrap_or(bundle.account)
    }

    /// How many were met.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Learns a name.
    pub(super) fn learn(&mut self, id: AccountId, name: &[u8]) {
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(Arc::clone(&name), id);
        self.by_id.insert(id, name);
    }

    /// Learns that it has logged in.
    pub(super) fn log_in(&mut self, session: AccountId, id: AccountId, name: &[u8]) {
        self.learn(id, name);
        self.of_sessions.insert(session, id);
    }
}

/// The numbers of sessions, which stay.
#[derive(Default)]
pub(super) struct Sessions {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    names: FxHashMap<AccountId, Arc<[u8]>>,
}

impl Sessions {
    /// The number of a name that has logged in.
    pub(super) fn number(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied()
    }

    /// Whose number this is.
    pub(super) fn name(&self, number: AccountId) -> Option<Arc<[u8]>> {
        self.names.get(&number).cloned()
    }

    /// All of them who have logged in.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.keys().map(|name| &**name)
    }

    /// The number of a name whose account has this one: the same, unless it stands for another name already.
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
