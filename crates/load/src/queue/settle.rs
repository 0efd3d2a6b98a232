//! After the last answer of a run on the queue tier: the books are closed and the server is swept.

use std::sync::{Arc, PoisonError};

use crate::bench::Played;
use crate::error::LoadError;
use crate::queue::QueueBench;
use crate::queue::check::CheckReport;
use crate::queue::check::drain::{Territory, drain};
use crate::queue::check::inspector::{Findings, Inspector};
use crate::queue::check::ledger::Ledger;
use crate::queue::request::{Account, Queue};
use crate::queue::session::Session;
use crate::queue::setup::{Ground, accounts, shared_queues};
use crate::violations::Violations;

/// What the clients leave behind.
#[derive(Debug)]
pub(crate) struct Leavings {
    /// By client: messages sent.
    sent: Vec<(Account, u64)>,
    /// Queues made and not deleted.
    queues: Vec<Queue>,
    findings: Vec<Findings>,
}

impl Leavings {
    /// Collects them.
    pub(crate) fn of(played: Played<QueueBench>) -> Self {
        Self {
            sent: played.dialogues.iter().map(|d| (d.account(), d.sent())).collect(),
            queues: played.dialogues.iter().flat_map(|d| d.leftovers()).collect(),
            findings: played
                .shared
                .into_iter()
                .filter_map(|desk| desk.audit)
                .map(|audit| audit.inspector.findings())
                .collect(),
        }
    }
}

/// Drains the servers and accounts for every message; None without `--check`.
pub(crate) fn settle(bench: &QueueBench, ground: Ground, leavings: &mut Leavings) -> Option<CheckReport> {
    let ledger = Arc::into_inner(ground.ledger?)?;
    let mut ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shared = shared_queues(bench);
    let territory = Territory { shared, own: leavings.queues.iter().copied().collect() };
    let mut inspector = Inspector::new(ground.run, shared, ledger.allows_foreign());
    let mut violations = Violations::default();
    let mut drained = 0;
    if bench.workload.needs_queues() {
        for address in &bench.connect {
            let session = Session::connect(address, bench.secret_file.as_ref());
            let popped = session
                .and_then(|session| drain(session, accounts(bench), &territory, &mut inspector, &mut ledger));
            match popped {
                Ok(popped) => drained += popped,
                Err(error) => violations.add(|| format!("what is left cannot be popped: {error}")),
            }
        }
        inspector.hand_over(&mut ledger);
    }
    Some(close(ledger, ground.sent, leavings, inspector, violations, drained))
}

fn close(
    ledger: Ledger,
    mut sent: Vec<u64>,
    leavings: &mut Leavings,
    inspector: Inspector,
    mut violations: Violations,
    drained: u64,
) -> CheckReport {
    for (account, count) in &leavings.sent {
        sent[*account as usize - 1] = *count;
    }
    let (mut check, kept) = ledger.close(&sent);
    violations.absorb(kept);
    for findings in leavings.findings.drain(..).chain([inspector.findings()]) {
        check.peeked += findings.peeked;
        check.order_unchecked += findings.order_unchecked;
        violations.absorb(findings.violations);
    }
    CheckReport { drained, violations: violations.count, first_violations: violations.first, ..check }
}

/// Deletes queues that clients made and left behind; a server that has gone cannot be swept, and need not be.
pub(crate) fn sweep(bench: &QueueBench, leavings: &Leavings) {
    let delete = || -> Result<(), LoadError> {
        let mut session = Session::connect(&bench.connect[0], bench.secret_file.as_ref())?;
        session.log_in(1)?;
        let delete = |queue: &Queue| vec!["QDELETE".to_owned(), queue.to_string()];
        // A client's own QDELETE may have been carried out without an answer in time.
        session.accept_all_but(leavings.queues.iter().map(delete), "NOQUEUE")
    };
    if !leavings.queues.is_empty()
        && let Err(error) = delete()
    {
        eprintln!("queues of the run are left on the server: {error}");
    }
}
