//! The load generator for the queue tier: its workloads, its clients, its checks.

mod after_run;
pub mod balance;
pub mod check;
pub mod dialogue;
pub mod loops;
pub mod mix;
pub mod options;
mod probe;
pub mod program;
pub mod request;
pub mod secret;
mod session;
mod settle;
mod setup;
pub mod stamp;
pub mod twelve_step;
pub mod workload;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;
use serde::Serialize;

use crate::address::{Address, BlockingStream};
use crate::bench::{Bench, Details, FinishedClients, Settled};
use crate::error::LoadError;
use crate::probe::Probe;
use crate::run_options::RunOptions;
use crate::tally::Counts;
use after_run::ServersAfterRun;
use check::CheckReport;
use check::inspector::Inspector;
use check::ledger::Ledger;
use check::witness::Witness;
use dialogue::{Audit, QueueDialogue, QueueThreadState};
use mix::{Mix, Recipe};
pub use options::QueueBench;
use probe::QueueProbe;
use program::Program;
use session::Session;
use settle::Leftovers;
use setup::{Prepared, accounts, shared_queues};
use twelve_step::STEPS;
use workload::Workload;

/// The part of a report that only the queue tier has.
#[derive(Clone, Debug, Serialize)]
pub struct QueueDetails {
    /// Outcomes of the twelve steps, first to last; empty in other workloads.
    pub steps: Vec<Counts>,
}

impl Details for QueueDetails {
    fn footnote(&self, _: f64) -> Option<String> {
        None
    }
}

impl Bench for QueueBench {
    type Dialogue = QueueDialogue;
    type Prepared = Prepared;
    type Details = QueueDetails;
    type Check = CheckReport;

    fn options(&self) -> &RunOptions {
        &self.run
    }

    fn options_mut(&mut self) -> &mut RunOptions {
        &mut self.run
    }

    fn servers(&self) -> &[Address] {
        &self.connect
    }

    fn servers_mut(&mut self) -> &mut [Address] {
        &mut self.connect
    }

    fn title(&self) -> String {
        self.workload.to_string()
    }

    fn validate(&self) -> Result<(), LoadError> {
        Self::validate(self)
    }

    fn prepare(&self, run: u32) -> Result<Prepared, LoadError> {
        let mut prepared = Prepared {
            run,
            sent: vec![0; accounts(self) as usize],
            ledger: None,
            stores: self.connect.len(),
            budget: None,
            preloaded: BTreeMap::new(),
            recipe: recipe(self),
        };
        let foreign = if self.has_queues() { setup::prepare(self, &mut prepared)? } else { 0 };
        if self.check {
            let mut ledger = Ledger::new(accounts(self), foreign);
            setup::enter(&prepared, &mut ledger);
            prepared.ledger = Some(Arc::new(Mutex::new(ledger)));
        }
        Ok(prepared)
    }

    fn prepared_before(&mut self) {
        // The preloaded messages are still there, unless every run begins or ends with empty queues.
        if !self.check && self.dataset.is_none() {
            self.preload = 0;
        }
    }

    fn connect(
        &self,
        prepared: &Prepared,
        number: u32,
        server: &Address,
    ) -> Result<(BlockingStream, QueueDialogue), LoadError> {
        let account = self.first_client + number - 1;
        let mut session = Session::connect(server, self.secret_file.as_ref())?;
        if self.logs_in() {
            session.log_in(account)?;
        }
        let program = match &prepared.recipe {
            None => Program::twelve_step(account, self.run.pipeline as usize),
            Some(recipe) => Program::Mix(Mix::new(Arc::clone(recipe), self.run.seed, account)),
        };
        let witness = prepared.budget.as_ref().and_then(|budget| Witness::new(budget, account, account));
        let dialogue = QueueDialogue::new(account, program, prepared.sent[number as usize - 1])
            .seeded(self.run.seed)
            .witnessed(witness);
        Ok((session.into_stream(), dialogue))
    }

    fn shared(&self, prepared: &Prepared) -> QueueThreadState {
        let audit = prepared.ledger.as_ref().map(|ledger| {
            let allows_foreign = lock(ledger).allows_foreign();
            let inspector =
                Inspector::new(prepared.run, prepared.stores, shared_queues(self), allows_foreign);
            Audit { inspector, ledger: Arc::clone(ledger) }
        });
        QueueThreadState::new(self.message_bytes.clone(), prepared.run, audit)
    }

    fn probe(&self, server: &Address) -> Box<dyn Probe> {
        Box::new(QueueProbe::new(self, server))
    }

    fn settle(&self, prepared: Prepared, finished: FinishedClients<Self>) -> Settled<Self> {
        let mut steps = [Counts::default(); STEPS as usize];
        for shared in &finished.shared {
            steps.iter_mut().zip(&shared.steps).for_each(|(all, one)| all.absorb(*one));
        }
        let steps = if self.workload.has_steps() { steps.to_vec() } else { Vec::new() };
        let mut servers = ServersAfterRun::new(self, finished.unanswered);
        let mut leftovers = Leftovers::of(self, prepared.stores, finished);
        let mut check = settle::settle(self, prepared, &mut leftovers, &mut servers);
        settle::sweep(self, &mut leftovers, &mut servers);
        if let Some(check) = &mut check {
            settle::add_survivors(self, &leftovers, &mut servers, check);
        }
        Settled { details: QueueDetails { steps }, check }
    }
}

fn recipe(bench: &QueueBench) -> Option<Arc<Recipe>> {
    let Workload::Mix(shares) = &bench.workload else { return None };
    Some(Arc::new(Recipe {
        shares: shares.clone(),
        queues: bench.queues.into(),
        accounts: (bench.first_client, bench.first_client + bench.run.clients - 1),
        broadcast_share: bench.broadcast_share,
        remove_share: bench.remove_share,
        constant_size: bench.constant_size,
    }))
}
