//! The store in PostgreSQL compared with the memory store: the same requests at the same times must get the same
//! answers, one at a time and many at once.

#[path = "../crates/server/tests/support/lives.rs"]
mod lives;

#[path = "support/postgres.rs"]
mod postgres;

mod support;

#[path = "../crates/server/tests/support/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lives::{BEGINNING, Receipts, Step, lives, views};
use posthaste_measure::Clock;
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::worker::{Batch, Store};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_server::queue::rules::Rules as _;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use world::{Counts, Got, World, counted, decoded, decoded_all, parsed, parsed_after};

/// Where the one client of this test is.
const ADDRESS: Address = Address { thread: 0, slot: 0, client: 1 };

/// A database, asked in words, with a clock moved by hand.
struct Database {
    store: Postgres,
    hand: Arc<AtomicI64>,
    accounts: BTreeMap<String, u32>,
    receipts: Receipts,
    /// What the stores that were closed have counted.
    counts: Counts,
}

impl Database {
    fn open(url: &str) -> Self {
        let hand = Arc::new(AtomicI64::new(1_000_000));
        let address = url.parse().expect("a URL");
        let store = Postgres::open_by_hand(&address, Arc::clone(&hand), Clock::start()).expect("a store");
        let (accounts, receipts, counts) = (BTreeMap::new(), Receipts::default(), Counts::new());
        Self { store, hand, accounts, receipts, counts }
    }

    /// The answer, with receipts by their number; what would wait says so.
    fn ask(&mut self, account: &str, request: &str) -> Got {
        let bundle = self.bundle(account, request);
        let mut batch = Batch { waiting: vec![bundle], ..Batch::default() };
        self.store.run(&mut batch);
        let Some(bundle) = batch.finished.pop() else {
            self.store.record_departure(ADDRESS).expect("a pop that waits can be called off");
            return Got::Text("waits".into());
        };
        let mut answer = decoded(&bundle.answers);
        self.receipts.number(&mut answer);
        answer
    }

    /// The same for requests that come in one go.
    fn ask_at_once(&mut self, account: &str, requests: &[String]) -> Vec<Got> {
        let mut bundle = self.bundle(account, &requests[0]);
        for request in &requests[1..] {
            let operation = parsed_after(&mut bundle.bytes, &self.receipts.filled_in(request));
            bundle.requests.push(Request::new(operation, Kind::Send, 0));
        }
        let (mut batch, mut answers, mut rest) = (Batch::default(), Vec::new(), Some(bundle));
        // Of what may be much work only the first part is done, and the rest comes again.
        while let Some(bundle) = rest {
            batch.waiting.push(bundle);
            self.store.run(&mut batch);
            let mut bundle = batch.finished.pop().expect("nothing waits");
            rest = (!bundle.is_done()).then(|| bundle.split_rest());
            answers.extend(decoded_all(&bundle.answers));
        }
        answers.iter_mut().for_each(|answer| self.receipts.number(answer));
        answers
    }

    fn bundle(&mut self, account: &str, request: &str) -> Box<Bundle> {
        let store = &self.store;
        let number = || store.account(account.as_bytes()).expect("it waits for the database");
        let account = *self.accounts.entry(account.to_owned()).or_insert_with(number);
        let (bytes, operation) = parsed(&self.receipts.filled_in(request));
        let mut bundle = Box::new(Bundle::new(ADDRESS));
        (bundle.account, bundle.protocol) = (account, Protocol::Resp3);
        bundle.bytes = bytes;
        bundle.requests.push(Request::new(operation, Kind::Send, 0));
        bundle
    }

    /// How many messages were sent, taken and so on.
    fn counts(&self) -> Counts {
        counted(&self.counts, self.store.figures())
    }

    fn wait(&mut self, ms: u64) {
        self.hand.fetch_add(ms.cast_signed(), Ordering::SeqCst);
        self.store.tick();
    }
}

/// Does the same to the memory store and to a database, and compares all that can be seen.
fn compare(steps: &[Step], url: &str) -> Result<(), TestCaseError> {
    let (mut model, mut receipts) = (World::new(Memory::new(1)), Receipts::default());
    let mut database = Database::open(url);
    for request in BEGINNING {
        prop_assert_eq!(model.ask("ann", request), database.ask("ann", request));
    }
    for step in steps {
        match step {
            Step::Ask(account, request) => {
                let mut expected = match model.try_ask(account, &receipts.filled_in(request)) {
                    Ok(answer) => answer,
                    Err(_) => Got::Text("waits".into()),
                };
                receipts.number(&mut expected);
                prop_assert_eq!(expected, database.ask(account, request), "{} asked {}", account, request);
            }
            Step::Wait(ms) => {
                model.wait(*ms);
                database.wait(*ms);
            }
            Step::Reopen => {
                let counts = database.counts();
                let Database { hand, receipts, .. } = database;
                database = Database { receipts, counts, ..Database::open(url) };
                database.hand.store(hand.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        for (account, view) in views() {
            let expected = model.ask(account, &view);
            prop_assert_eq!(expected, database.ask(account, &view), "{} after {:?}", view, step);
        }
        let expected = counted(&Counts::new(), model.store.figures());
        prop_assert_eq!(expected, database.counts(), "counts after {:?}", step);
    }
    Ok(())
}

/// The same with all requests until time passes sent in one go by one client: they must be answered as if one by one,
/// whatever the batch makes of them.
fn compare_pipelines(steps: &[Step], url: &str) -> Result<(), TestCaseError> {
    let (mut model, mut receipts) = (World::new(Memory::new(1)), Receipts::default());
    let mut database = Database::open(url);
    for request in BEGINNING {
        prop_assert_eq!(model.ask("ann", request), database.ask("ann", request));
    }
    // Everybody is known before: a batch makes its accounts first, in the order of their names.
    for (account, view) in views() {
        prop_assert_eq!(model.ask(account, &view), database.ask(account, &view));
    }
    for steps in steps.split_inclusive(|step| !matches!(step, Step::Ask(..))) {
        let asked: Vec<String> = steps.iter().filter_map(unblocked).collect();
        if let Some(Step::Ask(account, _)) = steps.first()
            && !asked.is_empty()
        {
            let filled: Vec<String> = asked.iter().map(|request| receipts.filled_in(request)).collect();
            let mut expected: Vec<Got> = filled.iter().map(|request| model.ask(account, request)).collect();
            expected.iter_mut().for_each(|answer| receipts.number(answer));
            prop_assert_eq!(expected, database.ask_at_once(account, &asked), "{} asked {:?}", account, asked);
        }
        if let Some(Step::Wait(ms)) = steps.last() {
            model.wait(*ms);
            database.wait(*ms);
        }
        for (account, view) in views() {
            let expected = model.ask(account, &view);
            prop_assert_eq!(expected, database.ask(account, &view), "{} after {:?}", view, asked);
        }
        let expected = counted(&Counts::new(), model.store.figures());
        prop_assert_eq!(expected, database.counts(), "counts after {:?}", asked);
    }
    Ok(())
}

/// A request without its BLOCK.
fn unblocked(step: &Step) -> Option<String> {
    let Step::Ask(_, request) = step else { return None };
    let words: Vec<&str> = request.split(' ').collect();
    Some(match words.iter().position(|word| *word == "BLOCK") {
        Some(at) => [&words[..at], &words[at + 2..]].concat().join(" "),
        None => request.clone(),
    })
}

#[test]
fn the_store_in_postgresql_is_a_memory_store_that_survives() {
    let postgres = postgres::Postgres::start(&["fsync=off"]);
    let cases = std::env::var("LIVES").map_or(30, |lives| lives.parse().expect("LIVES is a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let compared = TestRunner::new(config.clone()).run(&lives(true), |steps| {
        let database = postgres.create_database();
        compare(&steps, &postgres.url(&database))
    });
    compared.expect("the same answers");
    let compared = TestRunner::new(config).run(&lives(false), |steps| {
        let database = postgres.create_database();
        compare_pipelines(&steps, &postgres.url(&database))
    });
    compared.expect("the same answers to requests that come in one go");
}
