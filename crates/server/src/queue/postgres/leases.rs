//! Leases whose rows another transaction keeps locked: an application that has called `delete_queue` in a transaction it left open,
//! say.
//!
//! ACK, NACK and EXTEND wait two seconds for such a row, then their whole batch fails, and those who stand in it with them have waited
//! for nothing. So it is asked which leases these are, and only who names one is refused. For a while after that whoever names any
//! lease goes in calls without the others.

use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_wire::operation::Operation;
use rustc_hash::FxHashSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::attempt::Attempt;
use super::link::Failure;
use super::parked::Called;
use super::store::{Postgres, only_counts};
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// How long those who name leases go without the others, after one was found locked: its holder may ask again.
const APART_MS: u64 = 10_000;

/// Whether leases are kept.
#[derive(Default)]
pub(super) struct KeptLeases {
    /// They go without the others until then.
    apart_until_ms: AtomicU64,
}

impl Postgres {
    /// Nothing was done, because somebody keeps a row: whoever names a lease that is kept is refused, and the others are asked
    /// again. All of them, if it was another row.
    pub(super) fn refuse_kept(
        &self,
        mut called: Vec<Called>,
        failure: &Failure,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let kept = self.kept_of(&called).unwrap_or_default();
        let refused: Vec<Called> = called
            .extract_if(.., |(_, bundle)| leases_of(bundle).any(|lease| kept.contains(&lease)))
            .collect();
        if refused.is_empty() {
            return self.attempt_in_parts_or_give_up(called, failure, attempt, batch);
        }
        self.leases.apart_until_ms.store(self.shared.time.millis() + APART_MS, Ordering::Relaxed);
        self.give_up(refused, failure, batch);
        if !called.is_empty() {
            let (_, others) = attempt.in_parts(failure);
            self.attempt(called, others, batch);
        }
    }

    /// Those of the leases named in these bundles whose rows somebody keeps.
    fn kept_of(&self, called: &[Called]) -> Result<FxHashSet<i64>, Failure> {
        let named: Vec<i64> = called.iter().flat_map(|(_, bundle)| leases_of(bundle)).collect();
        let now = self.shared.now_ms();
        let rows = self.links.with(|link| {
            let kept = "SELECT posthaste.kept_leases($1, $2)";
            link.ask(kept, &[(&now, Type::INT8), (&named, Type::INT8_ARRAY)])
        })?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// While leases are kept: leaves those who name one for another call, if there are others.
    pub(super) fn leave_leases(&self, mut called: Vec<Called>, batch: &mut Batch) -> Vec<Called> {
        if !self.keeps_leases_apart() || called.iter().all(|(_, bundle)| names_lease(bundle)) {
            return called;
        }
        let apart = called.extract_if(.., |(seat, bundle)| seat.is_none() && names_lease(bundle));
        batch.waiting.extend(apart.map(|(_, bundle)| bundle));
        called
    }

    /// Whether these are to go without pops that are woken, or whose time is over, which would wait with them.
    pub(super) fn go_apart(&self, waiting: &[Box<Bundle>]) -> bool {
        self.keeps_leases_apart()
            && waiting.iter().any(|bundle| names_lease(bundle))
            && waiting.iter().all(|bundle| names_lease(bundle) || only_counts(bundle))
    }

    fn keeps_leases_apart(&self) -> bool {
        let until = self.leases.apart_until_ms.load(Ordering::Relaxed);
        until != 0 && self.shared.time.millis() < until
    }
}

/// Whether the call was refused because somebody keeps a row, of a lease that one of these bundles names perhaps.
pub(super) fn may_be_kept(called: &[Called], failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
        && called.iter().any(|(_, bundle)| names_lease(bundle))
}

fn names_lease(bundle: &Bundle) -> bool {
    leases_of(bundle).next().is_some()
}

/// The messages whose leases are named in this turn of a bundle.
fn leases_of(bundle: &Bundle) -> impl Iterator<Item = i64> {
    let handles = bundle.requests[bundle.open()].iter().flat_map(|request| {
        let (first, more) = match &request.operation {
            Operation::Ack { handles } => (Some(handles.first), &handles.more[..]),
            Operation::Nack { handle, .. } | Operation::Extend { handle, .. } => (Some(*handle), &[][..]),
            _ => (None, &[][..]),
        };
        first.into_iter().chain(more.iter().copied())
    });
    handles.map(|handle| handle.id.cast_signed())
}
