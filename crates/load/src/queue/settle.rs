//! After the last answer of a run on the queue tier: completes the checks and deletes the queues that clients left.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};

use posthaste_history::{At, History};

use crate::bench::FinishedClients;
use crate::error::LoadError;
use crate::halt::is_interrupted;
use crate::queue::QueueBench;
use crate::queue::after_run::ServersAfterRun;
use crate::queue::check::again::log_in_again;
use crate::queue::check::created::CreatedQueues;
use crate::queue::check::deleted::find_survivors;
use crate::queue::check::drain::{DrainChecks, RunQueues, drain};
use crate::queue::check::inspector::{Findings, Inspector};
use crate::queue::check::judgment::{ask_depths, judge};
use crate::queue::check::witness::{AUDIT, JournalBudget, Witness};
use crate::queue::check::{CheckReport, Found};
use crate::queue::dialogue::QueueDialogue;
use crate::queue::request::{Account, Queue};
use crate::queue::session::Session;
use crate::queue::setup::{Prepared, accounts, shared_queues};
use crate::stderr::complain;

/// What the clients leave behind.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// For each client: number of messages sent.
    sent: Vec<(Account, u64)>,
    /// For each server: queues made there and not deleted. Servers with separate stores give the same ids to different
    /// queues.
    queues: Vec<Vec<Queue>>,
    /// All queues that clients created, with `--check`.
    created: CreatedQueues,
    findings: Vec<Findings>,
    /// The journals, with `--check`.
    witnesses: Vec<Witness>,
}

impl Leftovers {
    /// Collects what the clients leave behind.
    pub(crate) fn of(bench: &QueueBench, stores: usize, finished: FinishedClients<QueueBench>) -> Self {
        let dialogues = &finished.dialogues;
        let mut queues = vec![Vec::new(); bench.connect.len()];
        for dialogue in dialogues {
            let server = (dialogue.account() - bench.first_client) as usize % bench.connect.len();
            queues[server].extend(dialogue.leftovers());
        }
        let (mut created, mut findings) = (CreatedQueues::new(stores), Vec::new());
        for audit in finished.shared.into_iter().filter_map(|shared| shared.audit) {
            let (found, of_thread) = audit.inspector.close();
            findings.extend([found, created.absorb(of_thread).into()]);
        }
        Self {
            sent: dialogues.iter().map(|d| (d.account(), d.sent())).collect(),
            queues,
            created,
            findings,
            witnesses: finished.dialogues.into_iter().filter_map(QueueDialogue::into_witness).collect(),
        }
    }

    /// Ends the journals of the clients and of the preload, and puts them together.
    fn history(&mut self, preloaded: BTreeMap<Account, Witness>) -> History {
        let mut history = History::default();
        for mut witness in std::mem::take(&mut self.witnesses).into_iter().chain(preloaded.into_values()) {
            witness.close();
            witness.add_to(&mut history);
        }
        history
    }

    /// Returns, by account from 1, how many messages were sent, where so many were before the run.
    fn sent(&self, mut before: Vec<u64>) -> Vec<u64> {
        for (account, count) in &self.sent {
            before[*account as usize - 1] = *count;
        }
        before
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
    let mut history = leftovers.history(prepared.preloaded);
    let budget = prepared.budget.as_ref();
    let mut unasked = Vec::new();
    if let Some(budget) = budget.filter(|_| bench.has_queues() && !ledger.allows_foreign()) {
        unasked.extend(audit(bench, budget, servers, &mut history));
    }
    let mut drained = Drained { popped: 0, is_whole: true };
    if bench.has_queues() {
        let (stores, shared) = (prepared.stores, shared_queues(bench));
        let mut inspector = Inspector::new(prepared.run, stores, shared, ledger.allows_foreign());
        let mut witnesses = Vec::new();
        let mut checks =
            DrainChecks { inspector: &mut inspector, ledger: &mut ledger, budget, witnesses: &mut witnesses };
        drained = drain_all(bench, &leftovers.queues, servers, &mut checks, &mut unasked);
        inspector.hand_over(&mut ledger);
        leftovers.findings.push(inspector.close().0);
        witnesses.iter().for_each(|witness| witness.add_drain_to(&mut history));
    }
    if !drained.is_whole {
        ledger.excuse(u64::MAX);
    }
    // The history does not know what was there before the run, or was not drained.
    let knows_all = drained.is_whole && !ledger.allows_foreign();
    let messages = ledger.close(&leftovers.sent(prepared.sent));
    let blamed = leftovers.blamed().union(&messages.blamed).copied().collect();
    let history = budget.map(|budget| judge(&mut history, budget, blamed));
    let answers = std::mem::take(&mut leftovers.findings);
    Some(CheckReport {
        drained: drained.popped,
        queues_unchecked: leftovers.created.unchecked(),
        unasked,
        ..CheckReport::of(Found { messages, answers, history, knows_all })
    })
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
    checks: &mut DrainChecks<'_>,
    unasked: &mut Vec<String>,
) -> Drained {
    let was_interrupted = is_interrupted();
    let may_go_on = || was_interrupted || !is_interrupted();
    let mut drained = Drained { popped: 0, is_whole: true };
    for (server, own) in queues.iter().enumerate() {
        // If the server has a store of its own, it may hold earlier messages of a sender.
        checks.inspector.forget_order();
        let queues = RunQueues { shared: shared_queues(bench), own: own.iter().copied().collect() };
        let popped =
            servers.ask(server, |session| drain(session, accounts(bench), &queues, checks, &may_go_on));
        match popped {
            Ok(popped) => drained.popped += popped,
            Err(error) => {
                unasked.push(format!("remaining messages cannot be popped, so losses are unknown: {error}"));
                drained.is_whole = false;
            }
        }
    }
    drained.is_whole &= may_go_on();
    drained
}

/// Asks for the depths of queues, which the history checker compares with what should be there. Returns why that could
/// not be done, if so.
fn audit(
    bench: &QueueBench,
    budget: &Arc<JournalBudget>,
    servers: &mut ServersAfterRun<'_>,
    history: &mut History,
) -> Option<String> {
    let mut witness = Witness::new(budget, AUDIT, 1)?;
    let asked = servers.ask(0, |mut session| ask_depths(&mut session, shared_queues(bench), &mut witness));
    witness.add_to(history);
    // If the server is gone, the drain reports it.
    let error = asked.err().filter(|_| !servers.is_gone(0))?;
    Some(format!("the depths of queues cannot be asked for: {error}"))
}

/// Deletes queues that clients made and left behind, each at its own server; a server that has gone cannot be swept,
/// and need not be.
pub(crate) fn sweep(bench: &QueueBench, leftovers: &mut Leftovers, servers: &mut ServersAfterRun<'_>) {
    for (server, queues) in leftovers.queues.iter().enumerate().filter(|(_, queues)| !queues.is_empty()) {
        match servers.ask(server, |session| delete(session, bench.first_client, queues)) {
            Ok(()) => queues.iter().for_each(|queue| leftovers.created.swept(server, *queue)),
            Err(error) => complain(format_args!("queues of the run are left on the server: {error}")),
        }
    }
}

/// Looks for queues that were deleted, by clients or by the sweep, and are still there: in each store once.
pub(crate) fn add_survivors(
    bench: &QueueBench,
    leftovers: &Leftovers,
    servers: &mut ServersAfterRun<'_>,
    check: &mut CheckReport,
) {
    let created = &leftovers.created;
    for store in (0..created.stores()).filter(|store| created.gone(*store).next().is_some()) {
        let asked = servers
            .ask(store, |mut session| find_survivors(&mut session, bench.first_client, created, store));
        match asked {
            Ok(found) => check.add(found),
            // If the server is gone, the drain has reported it.
            Err(_) if servers.is_gone(store) => {}
            Err(error) => check.unasked.push(format!("deleted queues cannot be looked for: {error}")),
        }
    }
}

fn delete(mut session: Session, account: Account, queues: &[Queue]) -> Result<(), LoadError> {
    log_in_again(&mut session, account)?;
    let delete = |queue: &Queue| vec!["QDELETE".to_owned(), queue.to_string()];
    // A client's own QDELETE may have been carried out without an answer in time.
    session.accept_all_but(queues.iter().map(delete), "NOQUEUE")
}
