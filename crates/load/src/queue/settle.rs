//! After the last answer of a run on the queue tier: completes the checks and deletes the queues that clients left.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use posthaste_history::{At, History};

use crate::bench::FinishedClients;
use crate::error::LoadError;
use crate::halt::is_interrupted;
use crate::queue::QueueBench;
use crate::queue::after_run::ServersAfterRun;
use crate::queue::check::CheckReport;
use crate::queue::check::deleted::find_survivors;
use crate::queue::check::drain::{Audience, Territory, drain};
use crate::queue::check::inspector::{Findings, Inspector};
use crate::queue::check::judgment::{Judgment, Told, ask_depths, judge};
use crate::queue::check::ledger::Ledger;
use crate::queue::check::witness::{AUDIT, Room, Witness};
use crate::queue::dialogue::QueueDialogue;
use crate::queue::request::{Account, Queue};
use crate::queue::session::Session;
use crate::queue::setup::{Prepared, accounts, shared_queues};
use crate::stderr::complain;
use crate::violations::Violations;

/// What the clients leave behind.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// For each client: number of messages sent.
    sent: Vec<(Account, u64)>,
    /// For each server: queues made there and not deleted. Servers with separate stores give the same ids to different
    /// queues.
    queues: Vec<Vec<Queue>>,
    /// For each server, with `--check`: queues made there and deleted.
    deleted: Vec<HashSet<Queue>>,
    findings: Vec<Findings>,
    /// The journals, with `--check`.
    witnesses: Vec<Witness>,
}

impl Leftovers {
    /// Collects what the clients leave behind.
    pub(crate) fn of(bench: &QueueBench, finished: FinishedClients<QueueBench>) -> Self {
        let dialogues = &finished.dialogues;
        let mut queues = vec![Vec::new(); bench.connect.len()];
        let mut deleted = vec![HashSet::new(); bench.connect.len()];
        let inspectors = finished.shared.iter().filter_map(|desk| desk.audit.as_ref());
        for (server, queue) in inspectors.flat_map(|audit| audit.inspector.queues_deleted()) {
            deleted[server].insert(queue);
        }
        for dialogue in dialogues {
            let server = (dialogue.account() - bench.first_client) as usize % bench.connect.len();
            queues[server].extend(dialogue.leftovers());
        }
        Self {
            sent: dialogues.iter().map(|d| (d.account(), d.sent())).collect(),
            queues,
            deleted,
            findings: finished
                .shared
                .into_iter()
                .filter_map(|desk| desk.audit)
                .map(|audit| audit.inspector.findings())
                .collect(),
            witnesses: finished.dialogues.into_iter().filter_map(QueueDialogue::into_witness).collect(),
        }
    }

    /// Takes the requests whose answers broke a promise, as inspectors found.
    fn blamed(&mut self) -> HashSet<At> {
        self.findings.iter_mut().flat_map(|findings| findings.blamed.drain()).collect()
    }
}

/// Drains the servers and accounts for every message; None without `--check`. An interruption ends the drain; but if
/// the run was interrupted before, the drain is made, as the user wants to know what the run was worth.
pub(crate) fn settle(
    bench: &QueueBench,
    prepared: Prepared,
    leftovers: &mut Leftovers,
    servers: &mut ServersAfterRun<'_>,
) -> Option<CheckReport> {
    let ledger = Arc::into_inner(prepared.ledger?)?;
    let mut ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut violations = Violations::default();
    let mut history = History::default();
    let witnesses =
        std::mem::take(&mut leftovers.witnesses).into_iter().chain(prepared.preloaded.into_values());
    for mut witness in witnesses {
        witness.close();
        witness.testify(&mut history);
    }
    let room = prepared.room.as_ref();
    if let Some(room) = room.filter(|_| bench.has_queues() && !ledger.allows_foreign()) {
        audit(bench, room, servers, &mut history, &mut violations);
    }
    let shared = shared_queues(bench);
    let mut inspector = Inspector::new(prepared.run, bench.connect.len(), shared, ledger.allows_foreign());
    let mut drained = Drained { popped: 0, is_whole: true };
    if bench.has_queues() {
        let mut witnesses = Vec::new();
        let mut audience =
            Audience { inspector: &mut inspector, ledger: &mut ledger, room, witnesses: &mut witnesses };
        drained = drain_all(bench, &leftovers.queues, servers, &mut audience, &mut violations);
        inspector.hand_over(&mut ledger);
        if !drained.is_whole {
            ledger.excuse(u64::MAX);
        }
        witnesses.iter().for_each(|witness| witness.testify_of_drain(&mut history));
    }
    // The history does not know what was there before the run, or was not drained.
    let knows_all = drained.is_whole && !ledger.allows_foreign();
    leftovers.findings.push(inspector.findings());
    let judgment = room.map(|room| {
        let (judgment, told) = judge(&mut history, room, leftovers.blamed());
        (judgment, if knows_all { told } else { Told { of_others: Violations::default(), ..told } })
    });
    Some(close(ledger, prepared.sent, leftovers, violations, drained.popped, judgment))
}

/// What was popped after the run, and whether that is all there was.
struct Drained {
    popped: u64,
    is_whole: bool,
}

/// Pops what is left at each server, in shared queues and in those that its clients made.
fn drain_all(
    bench: &QueueBench,
    queues: &[Vec<Queue>],
    servers: &mut ServersAfterRun<'_>,
    audience: &mut Audience<'_>,
    violations: &mut Violations,
) -> Drained {
    let was_interrupted = is_interrupted();
    let may_go_on = || was_interrupted || !is_interrupted();
    let mut drained = Drained { popped: 0, is_whole: true };
    for (server, own) in queues.iter().enumerate() {
        // If the server has a store of its own, it may hold earlier messages of a sender.
        audience.inspector.forget_order();
        let territory = Territory { shared: shared_queues(bench), own: own.iter().copied().collect() };
        let popped =
            servers.ask(server, |session| drain(session, accounts(bench), &territory, audience, &may_go_on));
        match popped {
            Ok(popped) => drained.popped += popped,
            Err(error) => {
                violations
                    .add(|| format!("remaining messages cannot be popped, so losses are unknown: {error}"));
                drained.is_whole = false;
            }
        }
    }
    drained.is_whole &= may_go_on();
    drained
}

/// Asks for the depths of queues, which the history checker compares with what should be there.
fn audit(
    bench: &QueueBench,
    room: &Arc<Room>,
    servers: &mut ServersAfterRun<'_>,
    history: &mut History,
    violations: &mut Violations,
) {
    let Some(mut witness) = Witness::new(room, AUDIT, 1) else { return };
    let asked = servers.ask(0, |mut session| ask_depths(&mut session, shared_queues(bench), &mut witness));
    // If the server is gone, the drain reports it.
    if let Err(error) = asked
        && !servers.is_gone(0)
    {
        violations.add(|| format!("the depths of queues cannot be asked for: {error}"));
    }
    witness.testify(history);
}

fn close(
    ledger: Ledger,
    mut sent: Vec<u64>,
    leftovers: &mut Leftovers,
    mut violations: Violations,
    drained: u64,
    judged: Option<(Judgment, Told)>,
) -> CheckReport {
    for (account, count) in &leftovers.sent {
        sent[*account as usize - 1] = *count;
    }
    let (mut check, kept) = ledger.close(&sent);
    violations.absorb(kept);
    for findings in leftovers.findings.drain(..) {
        check.peeked += findings.peeked;
        check.order_unchecked += findings.order_unchecked;
        violations.absorb(findings.violations);
    }
    let (history, told) = judged.unzip();
    let Told { of_times, of_others } = told.unwrap_or_default();
    if violations.count == 0 {
        violations.absorb(of_others);
    }
    violations.absorb(of_times);
    CheckReport {
        drained,
        history,
        violations: violations.count,
        first_violations: violations.first,
        ..check
    }
}

/// Deletes queues that clients made and left behind, each at its own server; a server that has gone cannot be swept,
/// and need not be.
pub(crate) fn sweep(bench: &QueueBench, leftovers: &mut Leftovers, servers: &mut ServersAfterRun<'_>) {
    for (server, queues) in leftovers.queues.iter().enumerate().filter(|(_, queues)| !queues.is_empty()) {
        match servers.ask(server, |session| delete(session, bench.first_client, queues)) {
            Ok(()) => leftovers.deleted[server].extend(queues),
            Err(error) => complain(format_args!("queues of the run are left on the server: {error}")),
        }
    }
}

/// Looks for queues that were deleted, by clients or by the sweep, and are still there.
pub(crate) fn survivors(
    bench: &QueueBench,
    leftovers: &Leftovers,
    servers: &mut ServersAfterRun<'_>,
) -> Violations {
    let mut survivors = Violations::default();
    for (server, deleted) in leftovers.deleted.iter().enumerate().filter(|(_, deleted)| !deleted.is_empty()) {
        let asked =
            servers.ask(server, |mut session| find_survivors(&mut session, bench.first_client, deleted));
        match asked {
            Ok(found) => survivors.absorb(found),
            // If the server is gone, the drain has reported it.
            Err(_) if servers.is_gone(server) => {}
            Err(error) => survivors.add(|| format!("deleted queues cannot be looked for: {error}")),
        }
    }
    survivors
}

fn delete(mut session: Session, account: Account, queues: &[Queue]) -> Result<(), LoadError> {
    session.log_in(account)?;
    let delete = |queue: &Queue| vec!["QDELETE".to_owned(), queue.to_string()];
    // A client's own QDELETE may have been carried out without an answer in time.
    session.accept_all_but(queues.iter().map(delete), "NOQUEUE")
}
