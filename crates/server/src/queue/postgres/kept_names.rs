//! Accounts that another transaction keeps: an application that has called `login` for the first time in a transaction it left open,
//! say.
//!
//! A LOGIN of such an account, or a SEND to it, waits a second for the end. Then who names it is refused, and what stands in one batch
//! with it is asked again. For a while after that it is asked for alone, and hardly waited for: whoever was refused may ask again and
//! again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Recipient};
use rustc_hash::FxHashMap;

use super::attempt::Attempt;
use super::link::Failure;
use super::parked::Called;
use super::store::Postgres;
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// What `refuse_kept` fails with.
const KEPT: &str = "PHNAM";

/// For how long an account is waited for, and one that was found kept a while ago.
const WAIT_MS: i32 = 1000;
const WAIT_AGAIN_MS: i32 = 10;

/// How long it is remembered that one was kept.
const REMEMBERED: Duration = Duration::from_secs(10);

const FAULT: Fault = Fault::new(
    Word::Store,
    "an open transaction keeps the account that this names; nothing was changed; try again when it has ended: posthaste admin store \
     names it",
);

/// Accounts that were found kept, and when that was.
#[derive(Default)]
pub(super) struct KeptNames {
    found: Mutex<FxHashMap<Box<str>, Instant>>,
    /// Whether there are any: nearly always there are none, and then no lock is taken.
    any: AtomicBool,
}

impl KeptNames {
    fn found(&self) -> MutexGuard<'_, FxHashMap<Box<str>, Instant>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, name: &str) {
        if self.found().insert(name.into(), Instant::now()).is_none() {
            tracing::warn!(
                "an open transaction keeps account {name:?}: who names it is refused; see posthaste admin store"
            );
        }
        self.any.store(true, Ordering::Release);
    }

    fn are_free(&self, names: &[Box<str>]) {
        let mut found = self.found();
        found.retain(|name, _| !names.contains(name));
        self.any.store(!found.is_empty(), Ordering::Release);
    }

    /// Those that were found kept of late.
    fn recent(&self) -> Vec<Box<str>> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut found = self.found();
        found.retain(|_, at| at.elapsed() < REMEMBERED);
        self.any.store(!found.is_empty(), Ordering::Release);
        found.keys().cloned().collect()
    }

    /// For how many milliseconds it is waited for.
    pub(super) fn patience_ms(&self, name: &str) -> i32 {
        let was_kept = self.recent().iter().any(|kept| **kept == *name);
        if was_kept { WAIT_AGAIN_MS } else { WAIT_MS }
    }
}

impl Postgres {
    /// Nothing was done, because somebody keeps these accounts: requests that name one are refused, and the others are asked again.
    pub(super) fn refuse_names(
        &self,
        called: Vec<Called>,
        failure: &Failure,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let names: Vec<Box<str>> = kept_names(failure).lines().map(Into::into).collect();
        names.iter().for_each(|name| self.names.note(name));
        let (_, rest) = attempt.in_parts(failure);
        let others = self.refuse_who_names(called, &names, batch);
        if !others.is_empty() {
            self.attempt(others, rest, batch);
        }
    }

    /// While accounts are kept: asks for those that are named here alone, and refuses who names one that still is.
    pub(super) fn leave_names(&self, called: Vec<Called>, batch: &mut Batch) -> Vec<Called> {
        let mut names = self.names.recent();
        names.retain(|name| called.iter().any(|(_, bundle)| self.place_of(bundle, name).is_some()));
        if names.is_empty() {
            return called;
        }
        let (kept, free): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| {
            let met = self.links.with(|link| {
                self.remembering(link, |link, era| self.meet_at(link, era, name.as_bytes(), false))
            });
            met.is_err_and(|failure| is_kept(&failure))
        });
        self.names.are_free(&free);
        self.refuse_who_names(called, &kept, batch)
    }

    /// Answers a LOGIN that has failed.
    pub(super) fn refusal_of_login(&self, failure: &Failure) -> Option<Fault> {
        kept_names(failure).lines().for_each(|name| self.names.note(name));
        is_kept(failure).then_some(FAULT)
    }

    /// Refuses requests that name one of these accounts; those behind others are held back until these are done.
    fn refuse_who_names(&self, called: Vec<Called>, names: &[Box<str>], batch: &mut Batch) -> Vec<Called> {
        let mut others = Vec::with_capacity(called.len());
        for (mut seat, mut bundle) in called {
            let first = |bundle: &Bundle| names.iter().filter_map(|name| self.place_of(bundle, name)).min();
            while first(&bundle).is_some_and(|place| place == bundle.answered) {
                seat.take().into_iter().for_each(|seat| self.shared.parked().done(seat));
                bundle.refuse_one(&FAULT);
            }
            if bundle.open().is_empty() {
                batch.finished.push(bundle);
                continue;
            }
            bundle.held_back = first(&bundle).or(bundle.held_back);
            others.push((seat, bundle));
        }
        others
    }

    /// Where in this turn of a bundle this account is first named, or the first place of what is asked in its name.
    fn place_of(&self, bundle: &Bundle, name: &str) -> Option<usize> {
        let names_it = |place: &usize| match &bundle.requests[*place].operation {
            Operation::Send(send) => {
                matches!(send.to, Recipient::Account(to) if to.of(&bundle.bytes) == name.as_bytes())
            }
            // Whose first message must find who waits for it.
            Operation::Pop(pop) if pop.block_ms > 0 => {
                pop.select.sender.is_some_and(|sender| sender.of(&bundle.bytes) == name.as_bytes())
            }
            _ => false,
        };
        if self.sessions().name(bundle.account).is_some_and(|account| *account == *name.as_bytes()) {
            return bundle.open().next();
        }
        bundle.open().find(names_it)
    }
}

/// The accounts that somebody keeps, by the database's refusal, each on a line of its own; empty: that was refused for something else.
fn kept_names(failure: &Failure) -> &str {
    failure.detail(KEPT)
}

/// Whether a call was refused because somebody keeps an account.
pub(super) fn is_kept(failure: &Failure) -> bool {
    !kept_names(failure).is_empty()
}
