//! Names and numbers of accounts, remembered: both never change, so what was learned once stays true.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::queue::rules::AccountId;

/// Accounts this middleware has met.
#[derive(Default)]
pub(super) struct Accounts {
    by_name: FxHashMap<Arc<[u8]>, AccountId>,
    by_id: FxHashMap<AccountId, Arc<[u8]>>,
    logged_in: FxHashSet<AccountId>,
}

impl Accounts {
    /// The number of a name.
    pub(super) fn id(&self, name: &[u8]) -> Option<AccountId> {
        self.by_name.get(name).copied()
    }

    /// The number of a name that has logged in.
    pub(super) fn logged_in(&self, name: &[u8]) -> Option<AccountId> {
        self.id(name).filter(|id| self.logged_in.contains(id))
    }

    /// The name of a number.
    pub(super) fn name(&self, id: AccountId) -> Option<&[u8]> {
        self.by_id.get(&id).map(|name| &**name)
    }

    /// Learns a name.
    pub(super) fn learn(&mut self, id: AccountId, name: &[u8]) {
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(Arc::clone(&name), id);
        self.by_id.insert(id, name);
    }

    /// Learns that it has logged in.
    pub(super) fn log_in(&mut self, id: AccountId, name: &[u8]) {
        self.learn(id, name);
        self.logged_in.insert(id);
    }
}
