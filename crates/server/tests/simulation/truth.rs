//! The truth: what the plain store in memory says when it is asked the same, in the same order, at the same times.
//!
//! It is kept as a history too. After a crash the real store must be as the truth was after some request: not before
//! the last one that was acknowledged, and not behind the last one that was on its way to the disk. Which one that was
//! is found by asking a copy of the real store everything that can be seen, now and at later times, and then the truth
//! after each request in question.

use posthaste_server::path::bundle::{Address, Bundle};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::Embedded;
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{AccountId, Ask, Flow, Interest, Millis, News, Outcome, Rules};
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::{Operation, Selection};

use super::sights::{asked, first_id, ids, names, sights};
use super::world::world;

/// Identity of a request: where its operation lies in memory, which is its own for as long as its bundle lives.
type RequestId = usize;

/// Something that changed the truth.
#[derive(Clone)]
enum Event {
    Ask { account: AccountId, bytes: Vec<u8>, operation: Operation },
    Account(Vec<u8>),
    Time,
}

/// When it did, and the seed of the receipts after it.
struct Happened {
    now: Millis,
    event: Event,
    receipts: u64,
}

/// A pop that waits.
struct Parked {
    request: RequestId,
    interest: Interest,
    until: Millis,
    account: AccountId,
    bytes: Vec<u8>,
    select: Selection,
}

/// A request that is being executed.
struct Executing {
    request: RequestId,
    address: Address,
    /// How much of the time that it may wait is over.
    waited: Millis,
    /// The store was asked.
    has_looked: bool,
}

/// The truth and its history.
pub(crate) struct Truth {
    seed: u64,
    store: Memory,
    history: Vec<Happened>,
    /// How much of it is acknowledged, and how much is on its way to the disk.
    durable: usize,
    sealed: Option<usize>,
    /// The batch that is executed must not change anything.
    is_refused: bool,
    /// The commit of the batch is full: whoever could be served may have to wait for the next one.
    is_full: bool,
    /// The real store has given up: from now on it only shows what is durable.
    has_failed: bool,
    now: Millis,
    /// The process has not been told the time yet: what was due is due again, and nobody waits for it.
    is_fresh: bool,
    /// The longest waiting first.
    parked: Vec<Parked>,
    /// The batch has got past the point where waits whose time is over are ended; or whoever waits is told that the store
    /// takes nothing now.
    has_ended_waits: bool,
    executing: Vec<Executing>,
    left: Vec<Address>,
    /// The process stops: nobody waits any longer.
    are_waits_over: bool,
}

/// What a request did, as others see it.
pub(crate) struct Done<'a> {
    pub(crate) flow: Flow,
    pub(crate) answer: &'a [u8],
    pub(crate) protocol: Protocol,
    pub(crate) news: &'a [News],
    /// The seed of the receipts after it.
    pub(crate) receipts: u64,
}

impl Truth {
    /// Of an empty store that draws receipts from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            store: Memory::new(seed),
            history: Vec::new(),
            durable: 0,
            sealed: None,
            is_refused: false,
            is_full: false,
            has_failed: false,
            now: 0,
            is_fresh: true,
            parked: Vec::new(),
            has_ended_waits: true,
            executing: Vec::new(),
            left: Vec::new(),
            are_waits_over: false,
        }
    }

    /// The process has begun anew, and knows of nobody.
    pub(crate) fn restart(&mut self) {
        (self.sealed, self.has_failed, self.is_fresh) = (None, false, true);
        self.are_waits_over = false;
        self.parked.clear();
        self.executing.clear();
        self.left.clear();
    }

    /// A store in memory was lost.
    pub(crate) fn forget(&mut self) {
        self.history.clear();
        (self.store, self.durable) = (Memory::new(self.seed), 0);
    }

    /// The seed of the receipts as it is now.
    pub(crate) fn receipts(&self) -> u64 {
        self.history.last().map_or(self.seed, |last| last.receipts)
    }

    /// The store was told the time.
    pub(crate) fn see(&mut self, now: Millis) {
        assert!(now >= self.now, "the clock went from {} back to {now}", self.now);
        self.now = now;
    }

    /// Time that passes twice in a row passes once.
    fn note(&mut self, event: Event, receipts: u64) {
        let passed = self
            .history
            .last_mut()
            .filter(|last| matches!((&last.event, &event), (Event::Time, Event::Time)));
        if let Some(last) = passed {
            last.now = self.now;
            return;
        }
        self.history.push(Happened { now: self.now, event, receipts });
    }

    /// A request was decided: whether it was decided so.
    pub(crate) fn decide(&mut self, ask: Ask<'_>, done: &Done<'_>) {
        let request = request_id(ask.operation);
        self.executing.iter_mut().filter(|one| one.request == request).for_each(|one| one.has_looked = true);
        let shown = String::from_utf8_lossy(&done.answer[..done.answer.len().min(60)]);
        let (kind, account) = (ask.operation.kind(), ask.account);
        world().note(format_args!("decided {kind:?} of account {account}: {:?} {shown:?}", done.flow));
        if self.has_failed {
            return;
        }
        let (mut answer, mut news) = (Vec::new(), Vec::new());
        if done.answer.starts_with(b"-STORE") {
            self.store.tick(self.now, &mut news);
            self.note(Event::Time, done.receipts);
            self.unpark(request);
            return world().count("STORE errors", 1);
        }
        if self.parked.iter().all(|parked| parked.request != request) {
            self.end_waits();
        }
        let ahead = self.whoever_is_passed_over(request, done);
        let mut out = Answer::new(&mut answer, done.protocol);
        let flow = self.store.execute(self.now, ask, &mut out, &mut news);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(done.answer), text(&answer), "{:?} of account {}", ask.operation, ask.account);
        assert_eq!(done.flow, flow, "{:?}", ask.operation);
        assert_eq!(sorted(done.news), sorted(&news), "news of {:?}", ask.operation);
        assert!(ahead.is_none(), "{:?} got a message that one before it waits for: {ahead:?}", ask.operation);
        if !ask.operation.is_read() {
            let event = Event::Ask {
                account: ask.account,
                bytes: ask.bytes.to_vec(),
                operation: ask.operation.clone(),
            };
            self.note(event, done.receipts);
        }
        self.park(request, ask, flow);
    }

    /// A read was answered on the spot.
    pub(crate) fn show(&mut self, ask: Ask<'_>, protocol: Protocol, answer: &[u8], outcome: Outcome) {
        if self.has_failed {
            return;
        }
        let mut expected = Vec::new();
        let shown = self.store.read(self.now, ask, &mut Answer::new(&mut expected, protocol));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(answer), text(&expected), "{:?} of account {}", ask.operation, ask.account);
        assert_eq!(Some(outcome), shown, "{:?}", ask.operation);
    }

    /// Time passed.
    pub(crate) fn tick(&mut self, told: &[News], receipts: u64) {
        if self.has_failed {
            return;
        }
        let mut news = Vec::new();
        self.store.tick(self.now, &mut news);
        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
        assert!(is_fresh || sorted(told) == sorted(&news), "time told {told:?}, not {news:?}");
        self.note(Event::Time, receipts);
    }

    /// An account was made sure of.
    pub(crate) fn meet_account(&mut self, name: &[u8], id: AccountId, receipts: u64) {
        assert_eq!(self.store.meet_account(name), Ok(id), "the number of {}", String::from_utf8_lossy(name));
        self.note(Event::Account(name.to_vec()), receipts);
    }

    /// What was decided so far is on its way to the disk; or there is nothing to write.
    pub(crate) fn seal(&mut self, writes: bool) {
        if writes {
            self.sealed = Some(self.history.len());
        } else if !self.has_failed && self.sealed.is_none() {
            self.durable = self.history.len();
        }
    }

    /// It got there, or not.
    pub(crate) fn commit(&mut self, is_durable: bool) {
        if is_durable {
            self.durable = self.sealed.take().unwrap_or(self.durable);
        } else {
            assert!(world().has_disk_trouble(), "a commit failed for no reason");
            self.has_failed = true;
        }
    }

    /// Whether the real store has given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// Pops that wait.
impl Truth {
    /// A bundle is about to be executed, at this stamp.
    pub(crate) fn meet(&mut self, bundle: &Bundle, stamp: u64) {
        let address = bundle.address;
        let executing = |request| Executing { request, address, waited: 0, has_looked: false };
        self.executing.extend(requests(bundle).map(executing));
        if let Some(Operation::Pop(pop)) = bundle.requests.first().map(|request| &request.operation) {
            // As if it began to wait long after the epoch.
            let now = 1 << 40;
            let waited = now + pop.block_ms + 1 - bundle.pop_deadline(now, stamp);
            let first = requests(bundle).next();
            self.executing
                .iter_mut()
                .filter(|one| Some(one.request) == first)
                .for_each(|one| one.waited = waited);
        }
    }

    /// A bundle is answered. Nobody but those who have left is told that there is nothing before the store was asked.
    pub(crate) fn part(&mut self, bundle: &Bundle) {
        let has_left = self.left.contains(&bundle.address);
        for request in bundle.requests.iter().filter(|request| request.outcome == Outcome::Null) {
            let id = request_id(&request.operation);
            let has_looked = self.executing.iter().any(|one| one.request == id && one.has_looked);
            assert!(has_left || has_looked, "{:?} gives up without a look", request.operation);
        }
        for request in requests(bundle) {
            self.unpark(request);
            self.executing.retain(|one| one.request != request);
        }
    }

    /// A client left before its pop could wait.
    pub(crate) fn leave(&mut self, address: Address) {
        self.left.push(address);
    }

    /// What it had under way is back.
    pub(crate) fn forget_who_left(&mut self, address: Address) {
        self.left.retain(|left| *left != address);
    }

    /// The process stops: all waits are over.
    pub(crate) fn end_all_waits(&mut self) {
        self.are_waits_over = true;
        let now = self.now;
        self.parked.iter_mut().for_each(|parked| parked.until = parked.until.min(now));
    }

    /// Whether anything is kept for somebody who has left.
    pub(crate) fn remembers_who_left(&self) -> bool {
        !self.left.is_empty()
    }

    fn park(&mut self, request: RequestId, ask: Ask<'_>, flow: Flow) {
        let is_parked = self.parked.iter().any(|parked| parked.request == request);
        match (flow, ask.operation) {
            (Flow::Waits(interest), Operation::Pop(pop)) if !is_parked => {
                let found = self.executing.iter().find(|one| one.request == request);
                let (address, waited) = (found.map(|one| one.address), found.map_or(0, |one| one.waited));
                if address.is_some_and(|address| self.left.contains(&address)) {
                    return;
                }
                world().count("waits", 1);
                world().note(format_args!("it waits: {address:?} {:?}", pop));
                let until = if self.are_waits_over { self.now } else { self.now + pop.block_ms + 1 - waited };
                let (account, bytes, select) = (ask.account, ask.bytes.to_vec(), pop.select);
                self.parked.push(Parked { request, interest, until, account, bytes, select });
            }
            (Flow::Done(_), _) => self.unpark(request),
            _ => {}
        }
    }

    /// Returns what this pop waits for; None if it does not wait.
    pub(crate) fn waits_for(&self, operation: &Operation) -> Option<Interest> {
        let request = request_id(operation);
        self.parked.iter().find(|parked| parked.request == request).map(|parked| parked.interest)
    }

    /// The connection of one of them.
    pub(crate) fn someone_who_waits(&self) -> Option<Address> {
        let request = self.parked.first()?.request;
        self.executing.iter().find(|one| one.request == request).map(|one| one.address)
    }

    fn unpark(&mut self, request: RequestId) {
        self.parked.retain(|parked| parked.request != request);
    }

    /// A pop that waited has got a message: one that came before it and would take the same.
    fn whoever_is_passed_over(&mut self, request: RequestId, done: &Done<'_>) -> Option<Selection> {
        let before = self.parked.iter().position(|parked| parked.request == request)?;
        if done.flow != Flow::Done(Outcome::Ok) {
            return None;
        }
        let taken = first_id(done.answer);
        let (now, store) = (self.now, &mut self.store);
        let wants = |parked: &&Parked| {
            parked.until > now && taken.is_some() && first_id(&parked.sees(store)) == taken
        };
        self.parked[..before].iter().find(wants).map(|parked| parked.select)
    }

    /// A batch begins; `takes_changes`: and not only reads.
    pub(crate) fn begin(&mut self, takes_changes: bool) {
        (self.is_refused, self.is_full) = (!takes_changes, false);
        self.has_ended_waits = !takes_changes;
    }

    /// The commit has become full.
    pub(crate) fn fill(&mut self) {
        self.is_full = true;
    }

    /// Whether there is a reason for the answer that the store failed.
    pub(crate) fn may_fail(&self) -> bool {
        self.is_refused || self.has_failed || world().has_disk_trouble()
    }

    /// Nobody is told that there is nothing, because their time is over, while there is something.
    pub(crate) fn end_waits(&mut self) {
        if std::mem::replace(&mut self.has_ended_waits, true) || self.has_failed || self.is_full {
            return;
        }
        let (now, store) = (self.now, &mut self.store);
        for parked in self.parked.iter().filter(|parked| parked.until <= now) {
            let seen = parked.sees(store);
            assert!(first_id(&seen).is_none(), "{:?} gives up, and there is a message", parked.select);
        }
    }

    /// A batch is over: nobody waits who need not.
    pub(crate) fn check_waits(&mut self) {
        if self.has_failed || self.is_full {
            return;
        }
        let store = &mut self.store;
        for parked in &self.parked {
            let seen = parked.sees(store);
            let is_there = first_id(&seen).is_some();
            assert!(!is_there, "{:?} waits, and there is {}", parked.select, String::from_utf8_lossy(&seen));
        }
    }

    /// Somebody who has waited longer than they asked to, at this time.
    pub(crate) fn overdue(&self, now: Millis) -> Option<String> {
        let overdue = self.parked.iter().find(|parked| parked.until + 2 < now)?;
        Some(format!("{:?} should have ended at {}, and it is {now}", overdue.select, overdue.until))
    }
}

impl Parked {
    /// What it would get, as far as the store has been told the time.
    fn sees(&self, store: &mut Memory) -> Vec<u8> {
        let operation = Operation::Peek(self.select);
        let ask = Ask { account: self.account, operation: &operation, bytes: &self.bytes };
        let mut seen = Vec::new();
        store.read(0, ask, &mut Answer::new(&mut seen, Protocol::Resp3));
        seen
    }
}

/// After a crash.
impl Truth {
    /// Goes back to where the real store is, of which this is a copy. `in_order`: it was closed in order.
    pub(crate) fn recover(&mut self, now: Millis, copy: &mut Embedded, in_order: bool) {
        let last = self.sealed.unwrap_or(self.durable);
        let all = self.history.len();
        let range = self.durable..=if in_order && !self.has_failed { all } else { last };
        let found = sights(copy, now);
        let mut seen = None;
        for length in range.clone().rev() {
            if length != *range.start() && !self.changes(length - 1) {
                continue;
            }
            let mut candidate = self.after(length);
            let expected = sights(&mut candidate, now);
            if expected == found {
                let undone = self.history[length..]
                    .iter()
                    .filter(|happened| matches!(happened.event, Event::Ask { .. }));
                world().count("requests rolled back", undone.count() as u64);
                world().note(format_args!("recovered {length} of {all} events, {range:?}"));
                self.history.truncate(length);
                (self.store, self.durable) = (self.after(length), length);
                return;
            }
            seen.get_or_insert(expected);
        }
        let seen = seen.unwrap_or_default();
        let differs = found.iter().zip(&seen).find(|(found, seen)| found != seen);
        panic!(
            "after a crash the store is as it never was at {range:?} of {all}; it shows, not: {differs:#?}"
        );
    }

    /// Whether that event may have changed more than the time.
    fn changes(&self, event: usize) -> bool {
        !matches!(self.history[event].event, Event::Time)
    }

    /// The truth after so many events.
    fn after(&self, events: usize) -> Memory {
        let mut store = Memory::new(self.seed);
        for Happened { now, event, .. } in &self.history[..events] {
            match event {
                Event::Time => store.tick(*now, &mut Vec::new()),
                Event::Account(name) => {
                    store.meet_account(name).expect("it holds any");
                }
                Event::Ask { account, bytes, operation } => {
                    let ask = Ask { account: *account, operation, bytes };
                    let mut out = Vec::new();
                    store.execute(*now, ask, &mut Answer::new(&mut out, Protocol::Resp3), &mut Vec::new());
                }
            }
        }
        store
    }

    /// Ids of all messages.
    pub(crate) fn ids(&mut self) -> Vec<u64> {
        let now = self.now;
        let queues = names(&asked(&mut self.store, now, "QLIST"));
        let browse = |queue: &String| asked(&mut self.store, now, &format!("QBROWSE {queue} COUNT 10000"));
        let pages: Vec<Vec<u8>> = queues.iter().map(browse).collect();
        pages.iter().flat_map(|page| ids(page)).collect()
    }
}

/// Returns the identity of the request with this operation.
fn request_id(operation: &Operation) -> RequestId {
    std::ptr::from_ref(operation).addr()
}

/// Returns the identities of a bundle's requests.
fn requests(bundle: &Bundle) -> impl Iterator<Item = RequestId> {
    bundle.requests.iter().map(|request| request_id(&request.operation))
}

/// News as texts; there is no order between them.
pub(super) fn sorted(news: &[News]) -> Vec<String> {
    let mut news: Vec<_> = news.iter().map(|news| format!("{news:?}")).collect();
    news.sort();
    news
}
