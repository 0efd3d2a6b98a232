//! What is remembered while one server is asked, and forgotten when it is another one.
//!
//! A server that takes over, or is restored, may be in an earlier state: numbers of accounts belong to others there, ids come
//! again that were used up. A connection made anew would show it, but not behind a transaction pooler. So every call says
//! when the server was started that it is meant for, which no two have in common, and another one does nothing of it.
//!
//! A server with `synchronous_commit` off that loses one of its processes is in an earlier state too, though it was started when it
//! was. Whoever connects asks for its life, which is another one then, and the keeper asks again and again behind a pooler.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::link::{Failure, Link, Server};
use super::names::Accounts;

/// One server's time.
pub(super) struct Era {
    /// Which one.
    pub(super) server: Server,
    accounts: RwLock<Accounts>,
    /// As how many messages the last one for everyone was stored.
    copies: AtomicUsize,
    /// Whether all accounts are there that were logged in before it began.
    all_are_there: AtomicBool,
}

impl Era {
    /// Who was met.
    pub(super) fn accounts(&self) -> RwLockReadGuard<'_, Accounts> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, to meet others.
    pub(super) fn accounts_mut(&self) -> RwLockWriteGuard<'_, Accounts> {
        self.accounts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all accounts are there that were logged in before it began, as far as is known.
    pub(super) fn has_all(&self) -> bool {
        self.all_are_there.load(Ordering::Acquire)
    }

    /// They are.
    pub(super) fn note_all(&self) {
        self.all_are_there.store(true, Ordering::Release);
    }

    /// As how many messages one for everyone is stored, as far as is known; before any was: more than can be done at once.
    pub(super) fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed).max(self.accounts().len())
    }

    /// One was stored as so many.
    pub(super) fn note_copies(&self, copies: usize) {
        self.copies.store(copies, Ordering::Relaxed);
    }
}

/// The one that it is now.
#[derive(Default)]
pub(super) struct CurrentEra(RwLock<Option<Arc<Era>>>);

impl CurrentEra {
    /// It, if it has begun.
    pub(super) fn get(&self) -> Option<Arc<Era>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It; one begins if there is none. A connection that was to another server when that was asked asks again.
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
                all_are_there: AtomicBool::new(false),
            })
        };
        Ok(Arc::clone(now.get_or_insert_with(begin)))
    }

    /// It has ended: another server answered.
    pub(super) fn end(&self, era: &Arc<Era>) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        now.take_if(|now| Arc::ptr_eq(now, era));
    }
}
