//! What is remembered while one server answers, and forgotten when it is another one.
//!
//! A server that takes over, or is restored, may be in an earlier state: account numbers belong to other names there,
//! and ids that were used up come again. A new connection would show this, but not behind a transaction pooler. So
//! every call that relies on what is remembered carries the start time of the server that it is meant for, which no two
//! servers have in common, and the OID of a table, which another schema of the same name does not have in common with
//! it. Another server does nothing of the call.
//!
//! A server with `synchronous_commit` off that loses one of its processes is in an earlier state too, with the same
//! start time. So each new connection asks for the server's life, which is then another one; behind a pooler the keeper
//! asks for it again and again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::failure::Failure;
use super::link::{Link, Server};
use super::names::Accounts;

/// What is remembered of one server.
pub(super) struct Era {
    /// The server that it is about.
    pub(super) server: Server,
    accounts: RwLock<Accounts>,
    /// Number of messages that the last SEND to everyone became.
    copies: AtomicUsize,
    /// Whether all accounts that logged in before this era are registered at its server.
    has_all_accounts: AtomicBool,
}

impl Era {
    /// Returns the accounts met at this server, to look them up.
    pub(super) fn accounts(&self) -> RwLockReadGuard<'_, Accounts> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the accounts met at this server, to add others.
    pub(super) fn accounts_mut(&self) -> RwLockWriteGuard<'_, Accounts> {
        self.accounts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether all accounts that logged in before this era are registered at its server, as far as is known.
    pub(super) fn has_all_accounts(&self) -> bool {
        self.has_all_accounts.load(Ordering::Acquire)
    }

    /// Notes that all accounts that logged in before this era are registered.
    pub(super) fn note_all_accounts(&self) {
        self.has_all_accounts.store(true, Ordering::Release);
    }

    /// Returns how many messages a SEND to everyone becomes, if known; before the first, more than fit any call.
    pub(super) fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed).max(self.accounts().len())
    }

    /// Notes how many messages a SEND to everyone became.
    pub(super) fn note_copies(&self, copies: usize) {
        self.copies.store(copies, Ordering::Relaxed);
    }
}

/// The current era, if one has begun.
#[derive(Default)]
pub(super) struct CurrentEra(RwLock<Option<Arc<Era>>>);

impl CurrentEra {
    /// Returns the current era, if one has begun.
    pub(super) fn get(&self) -> Option<Arc<Era>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the current era, which begins now if there is none. If the connection led to another server when that was
    /// asked last, it is asked again.
    pub(super) fn or_begin(&self, link: &mut Link) -> Result<Arc<Era>, Failure> {
        if let Some(era) = self.get() {
            if !link.is_to(era.server) {
                link.server()?;
            }
            return Ok(era);
        }
        let server = link.server()?;
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let begin = || {
            Arc::new(Era {
                server,
                accounts: RwLock::default(),
                copies: AtomicUsize::new(usize::MAX),
                has_all_accounts: AtomicBool::new(false),
            })
        };
        Ok(Arc::clone(now.get_or_insert_with(begin)))
    }

    /// Ends an era if it is the current one: another server has answered.
    pub(super) fn end(&self, era: &Arc<Era>) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        now.take_if(|now| Arc::ptr_eq(now, era));
    }
}
