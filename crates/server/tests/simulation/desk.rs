//! The store as the path sees it, with somebody beside it who takes minutes: which request was given which answer.
//!
//! Requests are known by their connection and their order on it, or, when they were answered on the spot, by their bytes.
//! So between here and a client every answer can be followed, through the worker, the mailbox, the network thread, the
//! connection's output and the wire.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use posthaste_measure::{Clock, lock};
use posthaste_server::path::bundle::{Address, Bundle};
use posthaste_server::path::worker::{Batch, Store};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::rules::{Ask, Outcome};
use posthaste_wire::decode::Decoded;
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use super::mutants::Mutant;
use super::requests;
use super::truth::Truth;
use super::world::{Name, World, world};

/// A request and its answer, as they stand on the wire.
type Exchange = (Vec<u8>, Vec<u8>);

/// What was asked and answered.
#[derive(Default)]
pub(crate) struct Minutes {
    /// By a worker, for each connection in order.
    carried: BTreeMap<Name, VecDeque<Exchange>>,
    /// Of a bundle that was not answered in one go: the number of the next request, and the bytes of those before it.
    begun: BTreeMap<Name, (u64, usize)>,
    /// On the spot, by request.
    spoken: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Minutes {
    /// The answer of a worker to the next request of this connection, if it is this one.
    pub(crate) fn carried(&mut self, name: Name, request: &[u8]) -> Option<Vec<u8>> {
        let exchanges = self.carried.get_mut(&name)?;
        exchanges.pop_front_if(|(asked, _)| asked == request).map(|(_, answer)| answer)
    }

    /// Whether a worker answered so, and the next request of this connection is this one.
    pub(crate) fn was_carried(&mut self, name: Name, request: &[u8], answer: &[u8]) -> bool {
        let is_it = |(asked, answered): &mut Exchange| asked == request && answered == answer;
        self.carried.get_mut(&name).and_then(|exchanges| exchanges.pop_front_if(is_it)).is_some()
    }

    /// What a worker answered next on this connection, in words.
    pub(crate) fn next_carried(&self, name: Name) -> String {
        let exchange = self.carried.get(&name).and_then(VecDeque::front);
        exchange.map_or("nothing".into(), |(asked, answered)| {
            format!("{:?} to {:?}", String::from_utf8_lossy(answered), String::from_utf8_lossy(asked))
        })
    }

    /// Whether that request was answered so on the spot; each such answer counts once.
    pub(crate) fn was_spoken(&mut self, request: &[u8], answer: &[u8]) -> bool {
        let Some(answers) = self.spoken.get_mut(request) else { return false };
        let place = answers.iter().position(|spoken| spoken == answer);
        place.is_some_and(|place| !answers.swap_remove(place).is_empty())
    }

    /// A connection is over.
    pub(crate) fn close(&mut self, name: Name) {
        self.carried.remove(&name);
        self.begun.remove(&name);
    }

    fn take_down(&mut self, life: u64, bundle: &Bundle) {
        let name = Name { life, number: bundle.address.client };
        let exchanges = self.carried.entry(name).or_default();
        // The rest of a bundle that was not answered in one go has the bytes of all.
        let begun = self.begun.remove(&name).filter(|(next, _)| *next == bundle.number);
        let before = begun.map_or(0, |(_, bytes)| bytes);
        let (mut asked, mut answered) = (&bundle.bytes[before..], &bundle.answers[..]);
        for request in &bundle.requests[..bundle.answered] {
            if matches!(request.operation, Operation::Login { .. }) {
                continue; // the session answers in other words
            }
            let (question, later) = asked.split_at(request.request_bytes as usize);
            let (answer, others) = answered.split_at(request.answer_bytes as usize);
            (asked, answered) = (later, others);
            exchanges.push_back((question.to_vec(), answer.to_vec()));
        }
        if !bundle.is_done() {
            let next = bundle.number + bundle.answered as u64;
            self.begun.insert(name, (next, bundle.bytes.len() - asked.len()));
        }
    }
}

/// A store with minutes.
pub(crate) struct Desk {
    store: Arc<dyn Store>,
    truth: Arc<Mutex<Truth>>,
    clock: Clock,
    life: u64,
}

impl Desk {
    /// Beside a store, in the process of this number.
    pub(crate) fn new(store: Arc<dyn Store>, truth: Arc<Mutex<Truth>>, clock: Clock, life: u64) -> Self {
        Self { store, truth, clock, life }
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        lock(&self.truth)
    }

    fn before(&self, batch: &mut Batch) {
        let world = world();
        world.note(format_args!("store: {} requests in {} bundles", batch.requests(), batch.waiting.len()));
        if world.mutant == Some(Mutant::LostBundle) && world.chance(50) {
            batch.waiting.pop();
        }
        let stamp = self.clock.stamp();
        batch.waiting.iter().for_each(|bundle| self.truth().meet(bundle, stamp));
    }

    fn after(&self, batch: &mut Batch) {
        let world = world();
        if world.has_crashed() {
            return;
        }
        self.truth().end_waits();
        for bundle in &batch.finished {
            self.check_failures(bundle);
            self.truth().part(bundle);
            world.minutes().take_down(self.life, bundle);
        }
        self.truth().check_waits();
        self.spoil(&world, batch);
    }

    /// That the store failed is only said when it did.
    fn check_failures(&self, bundle: &Bundle) {
        let mut answers = &bundle.answers[..];
        for request in &bundle.requests {
            let (answer, others) = answers.split_at(request.answer_bytes as usize);
            let text = String::from_utf8_lossy(answer);
            let has_reason = !answer.starts_with(b"-STORE") || self.truth().may_fail();
            assert!(has_reason, "{:?} was answered {text:?} for no reason", request.operation);
            answers = others;
        }
    }

    /// What mutants do.
    fn spoil(&self, world: &World, batch: &mut Batch) {
        let Some(mutant) = world.mutant.filter(|_| world.chance(200)) else { return };
        match (mutant, &mut batch.finished[..]) {
            (Mutant::SwappedAnswers, [one, two, ..]) => std::mem::swap(&mut one.answers, &mut two.answers),
            (Mutant::WrongConnection, [one, two, ..]) => std::mem::swap(&mut one.address, &mut two.address),
            (Mutant::WrongWake, _) => batch.finished.extend(self.wake_somebody(world)),
            _ => {}
        }
    }

    /// A pop that waits, answered with nothing.
    fn wake_somebody(&self, world: &World) -> Option<Box<Bundle>> {
        let waiting = self.truth().someone_who_waits()?;
        let bundle = self.store.record_departure(waiting)?;
        self.truth().part(&bundle);
        world.minutes().take_down(self.life, &bundle);
        Some(bundle)
    }
}

impl Store for Desk {
    fn run(&self, batch: &mut Batch) {
        self.before(batch);
        world().is_busy(true);
        self.store.run(batch);
        world().is_busy(false);
        self.after(batch);
    }

    fn try_run(&self, batch: &mut Batch) -> bool {
        if world().busy() {
            return self.store.try_run(batch);
        }
        self.before(batch);
        world().is_busy(true);
        let is_done = self.store.try_run(batch);
        world().is_busy(false);
        assert!(is_done, "nobody is at the store, and it is busy");
        self.after(batch);
        is_done
    }

    fn may_answer_at_once(&self, operation: &Operation) -> bool {
        self.store.may_answer_at_once(operation)
    }

    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        let before = answer.written().len();
        let outcome = self.store.answer(ask, answer)?;
        let world = world();
        if !matches!(ask.operation, Operation::Login { .. }) {
            let (decoded, _) = requests::decoded(ask.bytes);
            let Decoded::Request { end } = decoded else { panic!("a request that is none: {decoded:?}") };
            let said = answer.written()[before..].to_vec();
            world.minutes().spoken.entry(ask.bytes[..end].to_vec()).or_default().push(said);
            world.count("answers on the spot", 1);
        }
        Some(outcome)
    }

    fn deadline(&self) -> Option<Instant> {
        self.store.deadline().filter(|_| world().mutant != Some(Mutant::LostTimer))
    }

    fn record_departure(&self, address: Address) -> Option<Box<Bundle>> {
        let left = self.store.record_departure(address);
        match &left {
            Some(bundle) => {
                self.truth().part(bundle);
                world().minutes().take_down(self.life, bundle);
            }
            None => {
                let name = Name { life: self.life, number: address.client };
                assert!(world().has_left(name), "{address:?} has not left: its pop is to look");
                self.truth().leave(address);
            }
        }
        left
    }

    fn forget_departure(&self, address: Address) {
        self.truth().forget_who_left(address);
        self.store.forget_departure(address);
    }

    fn end_waits(&self) {
        self.truth().end_all_waits();
        self.store.end_waits();
    }

    fn account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.store.account(name)
    }

    fn meet_account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.store.meet_account(name)
    }

    fn reported_time(&self) -> Option<&'static str> {
        self.store.reported_time()
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.store.figures()
    }
}
