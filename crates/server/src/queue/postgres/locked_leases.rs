//! Leases whose rows another transaction keeps locked: an application, say, that called `delete_queue` in a transaction
//! it left open.
//!
//! ACK, NACK and EXTEND wait two seconds for such a row; then their whole batch fails, and the other requests in it
//! have waited for nothing. So the database is asked which leases are locked, and only bundles that name one are
//! refused. For `APART_MS` after that, requests that name any lease go in calls of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_wire::operation::Operation;
use rustc_hash::FxHashSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::attempt::Attempt;
use super::failure::Failure;
use super::parked::Due;
use super::store::{Postgres, only_counts};
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// For how long requests that name leases go in calls of their own after one was found locked: its holder may retry.
const APART_MS: u64 = 10_000;

/// Whether leases were found locked lately.
#[derive(Default)]
pub(super) struct LockedLeases {
    /// Until then requests that name leases go in calls of their own; 0: none was found locked yet.
    apart_until_ms: AtomicU64,
}

impl Postgres {
    /// Handles a call that did nothing because a row was locked: bundles that name a locked lease are refused, and the
    /// others are tried again. If no lease is locked it was another row, and all are tried in parts or refused.
    pub(super) fn retry_without_locked_leases(
        &self,
        mut due: Vec<Due>,
        failure: &Failure,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let locked = self.locked_of(&due).unwrap_or_default();
        let refused: Vec<Due> = due
            .extract_if(.., |Due { bundle, .. }| leases_of(bundle).any(|lease| locked.contains(&lease)))
            .collect();
        if refused.is_empty() {
            return self.attempt_in_parts_or_give_up(due, failure, attempt, batch);
        }
        self.locked_leases.apart_until_ms.store(self.shared.time.millis() + APART_MS, Ordering::Relaxed);
        self.give_up(refused, failure, batch);
        if !due.is_empty() {
            self.attempt(due, attempt.in_parts(failure).rest, batch);
        }
    }

    /// Asks the database which of the leases named in these bundles are locked.
    fn locked_of(&self, due: &[Due]) -> Result<FxHashSet<i64>, Failure> {
        let named: Vec<i64> = due.iter().flat_map(|Due { bundle, .. }| leases_of(bundle)).collect();
        let now = self.shared.now_ms();
        let rows = self.links.with(|link| {
            let sql = "SELECT posthaste.locked_leases($1, $2)";
            link.ask(sql, &[(&now, Type::INT8), (&named, Type::INT8_ARRAY)])
        })?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Leaves new bundles that name a lease for another call if one was found locked lately, unless all bundles do.
    pub(super) fn set_aside_leases(&self, mut due: Vec<Due>, batch: &mut Batch) -> Vec<Due> {
        if !self.keeps_apart() || due.iter().all(|Due { bundle, .. }| names_lease(bundle)) {
            return due;
        }
        let apart = due.extract_if(.., |Due { seat, bundle }| seat.is_none() && names_lease(bundle));
        batch.waiting.extend(apart.map(|one| one.bundle));
        due
    }

    /// Returns whether these bundles go without woken and expired pops, which would wait for a locked lease with them.
    pub(super) fn go_apart(&self, waiting: &[Box<Bundle>]) -> bool {
        self.keeps_apart()
            && waiting.iter().any(|bundle| names_lease(bundle))
            && waiting.iter().all(|bundle| names_lease(bundle) || only_counts(bundle))
    }

    fn keeps_apart(&self) -> bool {
        let until = self.locked_leases.apart_until_ms.load(Ordering::Relaxed);
        until != 0 && self.shared.time.millis() < until
    }
}

/// Returns whether the call was refused because of a locked row, perhaps that of a lease named in these bundles.
pub(super) fn may_be_cause(due: &[Due], failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
        && due.iter().any(|Due { bundle, .. }| names_lease(bundle))
}

fn names_lease(bundle: &Bundle) -> bool {
    leases_of(bundle).next().is_some()
}

/// Returns the ids of the messages whose leases are named in this turn of a bundle.
fn leases_of(bundle: &Bundle) -> impl Iterator<Item = i64> {
    let handles = bundle.requests[bundle.pending()].iter().flat_map(|request| {
        let (first, more) = match &request.operation {
            Operation::Ack { handles } => (Some(handles.first), &handles.more[..]),
            Operation::Nack { handle, .. } | Operation::Extend { handle, .. } => (Some(*handle), &[][..]),
            _ => (None, &[][..]),
        };
        first.into_iter().chain(more.iter().copied())
    });
    handles.map(|handle| handle.id.cast_signed())
}
