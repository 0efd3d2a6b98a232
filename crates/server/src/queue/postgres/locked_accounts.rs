//! Accounts that another, uncommitted transaction creates or logs in: an application, say, that called `login` for the
//! first time in a transaction it left open.
//!
//! A LOGIN of such an account, or a SEND to it, waits a second for the end of that transaction. Then requests that name
//! the account are refused, and the rest of their batch is tried again. For a while after that the account is asked for
//! before the batch, because a refused client may try again and again, and no account is waited for: the same
//! transaction may keep hundreds, and one second for each would add up. So would moments: accounts are asked for in one
//! call, not too many of them, and together they are waited for as long as one would be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use posthaste_measure::lock;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Recipient};
use rustc_hash::FxHashMap;

use super::attempt::Attempt;
use super::failure::Failure;
use super::parked::Due;
use super::store::Postgres;
use super::undone::{Changed, undone};
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// SQLSTATE with which `refuse_locked_accounts` fails.
const LOCKED: &str = "PHNAM";

/// How long an account is waited for, in milliseconds, and how long if one was found locked within `REMEMBERED`.
const WAIT_MS: i32 = 1000;
const WAIT_AGAIN_MS: i32 = 10;

/// Accounts that are asked for before a batch: each that is locked takes another millisecond. The rest is refused.
const ASKED_MAX: usize = 32;

/// For how long it is remembered that an account was locked.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Why a request is refused that names such an account.
const WHY: &str = "an open transaction keeps the account that this names (posthaste admin store names it)";

/// Accounts that were found locked, and when that was.
#[derive(Default)]
pub(super) struct LockedAccounts {
    found: Mutex<FxHashMap<Box<str>, Instant>>,
    /// Whether there are any: nearly always there are none, and then the mutex is not taken.
    any: AtomicBool,
}

impl LockedAccounts {
    fn found(&self) -> MutexGuard<'_, FxHashMap<Box<str>, Instant>> {
        lock(&self.found)
    }

    /// Notes that an account was found locked.
    pub(super) fn note(&self, name: &str) {
        if self.found().insert(name.into(), Instant::now()).is_none() {
            tracing::warn!(
                "an open transaction keeps account {name:?}: who names it is refused; see posthaste admin store"
            );
        }
        self.any.store(true, Ordering::Release);
    }

    fn forget(&self, names: &[Box<str>]) {
        let mut found = self.found();
        found.retain(|name, _| !names.contains(name));
        self.any.store(!found.is_empty(), Ordering::Release);
    }

    /// Returns the accounts found locked within `REMEMBERED`, and forgets older ones.
    fn recent(&self) -> Vec<Box<str>> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut found = self.found();
        found.retain(|_, at| at.elapsed() < REMEMBERED);
        self.any.store(!found.is_empty(), Ordering::Release);
        found.keys().cloned().collect()
    }

    /// Returns for how many milliseconds a batch waits for accounts that it asks for on their own.
    pub(super) fn patience_ms(&self) -> i32 {
        if self.recent().is_empty() { WAIT_MS } else { WAIT_AGAIN_MS }
    }
}

impl Postgres {
    /// Handles a call that did nothing because other transactions lock accounts: requests that name one are refused, and
    /// the others are tried again.
    pub(super) fn retry_without_locked_accounts(
        &self,
        due: Vec<Due>,
        failure: &Failure,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let names: Vec<Box<str>> = locked_accounts(failure).lines().map(Into::into).collect();
        names.iter().for_each(|name| self.locked_accounts.note(name));
        let others = self.refuse_requests_naming(due, &names, batch);
        if !others.is_empty() {
            self.attempt(others, attempt.in_parts(failure).rest, batch);
        }
    }

    /// Asks on its own for accounts found locked lately and named here; refuses requests naming one that still is, or
    /// was not asked for.
    pub(super) fn refuse_locked_accounts(&self, due: Vec<Due>, batch: &mut Batch) -> Vec<Due> {
        let mut names = self.locked_accounts.recent();
        names.retain(|name| due.iter().any(|Due { bundle, .. }| self.place_of(bundle, name).is_some()));
        if names.is_empty() {
            return due;
        }
        // Others each time, so that one that is free again is not refused for long.
        fastrand::shuffle(&mut names);
        // What the database cannot say now, the batch will find out.
        let Ok(free) = self.free_among(&names[..names.len().min(ASKED_MAX)]) else { return due };
        self.locked_accounts.forget(&free);
        names.retain(|name| !free.contains(name));
        self.refuse_requests_naming(due, &names, batch)
    }

    /// Returns those of these accounts that no other transaction keeps; they are met.
    fn free_among(&self, names: &[Box<str>]) -> Result<Vec<Box<str>>, Failure> {
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        self.links.with(|link| {
            self.remembering(link, |link, era| {
                let ids = self.meet_all_at(link, era, &bytes, false)?;
                let mut accounts = era.accounts_mut();
                let free = names.iter().zip(ids).filter_map(|(name, id)| {
                    accounts.learn(id?, name.as_bytes());
                    Some(name.clone())
                });
                Ok(free.collect())
            })
        })
    }

    /// Returns the refusal of a LOGIN whose account is locked; None: it failed for another reason.
    pub(super) fn refusal_of_login(&self, failure: &Failure) -> Option<Fault> {
        locked_accounts(failure).lines().for_each(|name| self.locked_accounts.note(name));
        is_cause(failure).then(refusal_of_locked_account)
    }

    /// Refuses requests at the front of bundles that name one of these accounts; such requests behind others are held
    /// back until those are done. Returns the bundles with requests left for this turn.
    fn refuse_requests_naming(&self, due: Vec<Due>, names: &[Box<str>], batch: &mut Batch) -> Vec<Due> {
        let mut others = Vec::with_capacity(due.len());
        for Due { mut seat, mut bundle } in due {
            let first = |bundle: &Bundle| names.iter().filter_map(|name| self.place_of(bundle, name)).min();
            while first(&bundle).is_some_and(|place| place == bundle.answered) {
                seat.take().into_iter().for_each(|seat| self.shared.parked().done(seat));
                let removed = bundle.progress.removal.messages;
                bundle.refuse_one(&undone(Word::Store, WHY, Changed::Removed(removed)));
            }
            if bundle.pending().is_empty() {
                batch.finished.push(bundle);
                continue;
            }
            bundle.progress.held_back = first(&bundle).or(bundle.progress.held_back);
            others.push(Due { seat, bundle });
        }
        others
    }

    /// Returns the place in a bundle's turn of the first request that names this account, or is made in its name.
    fn place_of(&self, bundle: &Bundle, name: &str) -> Option<usize> {
        let names_it = |place: &usize| match &bundle.requests[*place].operation {
            Operation::Send(send) => {
                matches!(send.to, Recipient::Account(to) if to.of(&bundle.bytes) == name.as_bytes())
            }
            // The sender's account must exist: its first message has to wake the pop.
            Operation::Pop(pop) if pop.block_ms > 0 => {
                pop.select.sender.is_some_and(|sender| sender.of(&bundle.bytes) == name.as_bytes())
            }
            _ => false,
        };
        if self.sessions().name(bundle.account).is_some_and(|account| *account == *name.as_bytes()) {
            return bundle.pending().next();
        }
        bundle.pending().find(names_it)
    }
}

/// Returns the refusal of a LOGIN whose account is locked.
pub(super) fn refusal_of_locked_account() -> Fault {
    undone(Word::Store, WHY, Changed::NOTHING)
}

/// Returns the locked accounts that the database's refusal names, one a line; empty: it failed for another reason.
fn locked_accounts(failure: &Failure) -> &str {
    failure.detail(LOCKED)
}

/// Returns whether a call was refused because another transaction locks an account.
pub(super) fn is_cause(failure: &Failure) -> bool {
    !locked_accounts(failure).is_empty()
}
