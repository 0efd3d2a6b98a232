//! A store that is watched: every call goes to the real one, and the [`Truth`] is asked the same.

use std::sync::{Arc, Mutex, MutexGuard};

use posthaste_measure::lock;
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::rules::{AccountId, Ask, Commit, Flow, Interest, Millis, News, Outcome, Rules};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Recipient};

use super::mutants::Mutant;
use super::truth::{Done, Truth};
use super::world::{current, world};

/// The store, and what it should be.
pub(crate) struct Witness<R> {
    store: R,
    truth: Arc<Mutex<Truth>>,
    /// The seed of the receipts that the store would draw now.
    receipts: fn(&R) -> u64,
}

/// A commit; None: of a store without a disk, which takes its time all the same.
pub(crate) struct Watched<C>(Option<C>);

impl<R: Rules> Witness<R> {
    pub(crate) fn new(store: R, truth: Arc<Mutex<Truth>>, receipts: fn(&R) -> u64) -> Self {
        Self { store, truth, receipts }
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        lock(&self.truth)
    }

    /// What a pop that waits goes on waiting for, though its message is there.
    fn passes_over(&self, operation: &Operation) -> Option<Interest> {
        let world = world();
        let passes = world.mutant == Some(Mutant::PassedOver) && world.chance(500);
        if passes { self.truth().waits_for(operation) } else { None }
    }

    /// What a mutant makes of a request.
    fn spoiled(&self, operation: &Operation) -> Operation {
        let mut spoiled = operation.clone();
        match (world().mutant, &mut spoiled) {
            (Some(Mutant::AnyRecipient), Operation::Send(send)) => send.to = Recipient::Anyone,
            (Some(Mutant::TakenTwice), Operation::Pop(pop))
                if pop.block_ms == 0 && pop.lease_ms.is_none() =>
            {
                spoiled = Operation::Peek(pop.select);
            }
            _ => {}
        }
        spoiled
    }
}

impl<R: Rules> Rules for Witness<R> {
    type Commit = Watched<R::Commit>;

    const REPORTED_TIME: Option<&'static str> = R::REPORTED_TIME;

    fn awaited(&self, requests: usize, bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        self.store.awaited(requests, bytes)
    }

    fn prepare(&mut self, requests: usize, request_bytes: usize) -> Result<(), Fault> {
        let world = world();
        let mut prepared = self.store.prepare(requests, request_bytes);
        if prepared.is_ok() && world.chance(world.plan.refusals) {
            world.count("refused batches", 1);
            prepared = Err(Fault::new(Word::Store, "not now"));
        }
        self.truth().begin(prepared.is_ok());
        prepared
    }

    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        self.truth().see(now);
        if let Some(interest) = self.passes_over(ask.operation) {
            return Flow::Waits(interest);
        }
        let (before, mut told) = (answer.written().len(), Vec::new());
        let spoiled = world().mutant.map(|_| self.spoiled(ask.operation));
        let asked = Ask { operation: spoiled.as_ref().unwrap_or(ask.operation), ..ask };
        let flow = self.store.execute(now, asked, answer, &mut told);
        let receipts = (self.receipts)(&self.store);
        let protocol = answer.protocol();
        let done = Done { flow, answer: &answer.written()[before..], protocol, news: &told, receipts };
        self.truth().decide(ask, &done);
        if world().mutant == Some(Mutant::LostNews) && world().chance(100) {
            told.pop();
        }
        news.append(&mut told);
        flow
    }

    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        let before = answer.written().len();
        let outcome = self.store.read(now, ask, answer)?;
        let mut truth = self.truth();
        truth.see(now);
        truth.show(ask, answer.protocol(), &answer.written()[before..], outcome);
        Some(outcome)
    }

    fn tick(&mut self, now: Millis, news: &mut Vec<News>) {
        let mut told = Vec::new();
        self.store.tick(now, &mut told);
        let receipts = (self.receipts)(&self.store);
        let mut truth = self.truth();
        truth.see(now);
        truth.tick(&told, receipts);
        news.append(&mut told);
    }

    fn deadline(&self) -> Option<Millis> {
        self.store.deadline()
    }

    fn has_work_left(&self) -> bool {
        let has_work_left = self.store.has_work_left();
        if let Some(world) = current() {
            world.count("purges left to free", u64::from(has_work_left));
        }
        has_work_left
    }

    fn seal(&mut self) -> Option<Self::Commit> {
        let world = current()?; // where it is over, the store is dropped and nobody asks what became of it
        let sealed = self.store.seal();
        if world.mutant == Some(Mutant::AnswerBeforeSync) {
            self.truth().seal(false);
            return None;
        }
        let has_disk = R::REPORTED_TIME.is_some();
        let commit = if has_disk { sealed.map(|commit| Watched(Some(commit))) } else { Some(Watched(None)) };
        self.truth().seal(commit.is_some());
        commit
    }

    fn is_commit_full(&self) -> bool {
        let is_full = self.store.is_commit_full();
        if is_full {
            world().count("full commits", 1);
            self.truth().fill();
        }
        is_full
    }

    fn committed(&mut self, commit: Self::Commit, result: &Result<(), Fault>) {
        if world().has_crashed() {
            return; // there is nobody any more to whom this could matter
        }
        if let Some(commit) = commit.0 {
            self.store.committed(commit, result);
        }
        self.truth().commit(result.is_ok());
    }

    fn account(&mut self, _name: &[u8]) -> Result<AccountId, Fault> {
        unreachable!("a simulated tier has no accounts file")
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        let id = self.store.meet_account(name)?;
        let receipts = (self.receipts)(&self.store);
        self.truth().meet_account(name, id, receipts);
        Ok(id)
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.store.figures()
    }
}

impl<C: Commit> Commit for Watched<C> {
    fn sync(&mut self) -> Result<(), Fault> {
        let world = world();
        world.syncs(true);
        let result = match &mut self.0 {
            Some(commit) => commit.sync(),
            None => {
                world.linger(world.below(1 + world.plan.sync_ns));
                Ok(())
            }
        };
        world.syncs(false);
        if world.mutant == Some(Mutant::FalseAlarm) && world.chance(20) {
            return Err(Fault::new(Word::Store, "not now"));
        }
        result
    }
}
