//! The store in PostgreSQL compared with the memory store: the same requests at the same times must get the same
//! answers, one at a time and many at once.

#[path = "../crates/server/tests/support/lives.rs"]
mod lives;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "../crates/server/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lives::{BEGINNING, Receipts, Step, lives, views};
use posthaste_measure::Clock;
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::worker::{Batch, Store};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use support::{Got, World, decoded, parsed};

/// Where the one client of this test is.
const ADDRESS: Address = Address { thread: 0, slot: 0, client: 1 };

/// A database, asked in words, with a clock moved by hand.
struct Database {
    store: Postgres,
    hand: Arc<AtomicI64>,
    accounts: BTreeMap<String, u32>,
    receipts: Receipts,
}

impl Database {
    fn open(url: &str) -> Self {
        let hand = Arc::new(AtomicI64::new(1_000_000));
        let address = url.parse().expect("a URL");
        let store = Postgres::open_by_hand(&address, Arc::clone(&hand), Clock::start()).expect("a store");
        Self { store, hand, accounts: BTreeMap::new(), receipts: Receipts::default() }
    }

    /// The answer, with receipts by their number; what would wait says so.
    fn ask(&mut self, account: &str, request: &str) -> Got {
        let store = &self.store;
        let account =
            *self.accounts.entry(account.to_owned()).or_insert_with(|| store.account(account.as_bytes()));
        let (bytes, operation) = parsed(&self.receipts.filled_in(request));
        let mut bundle = Box::new(Bundle::new(ADDRESS));
        bundle.reset(ADDRESS, account, Protocol::Resp3, 0);
        bundle.bytes = bytes;
        bundle.requests.push(Request::new(operation, Kind::Send, 0));
        let mut batch = Batch { waiting: vec![bundle], ..Batch::default() };
        self.store.run(&mut batch);
        let Some(bundle) = batch.finished.pop() else {
            self.store.leave(ADDRESS).expect("a pop that waits can be called off");
            return Got::Text("waits".into());
        };
        let mut answer = decoded(&bundle.answers);
        self.receipts.number(&mut answer);
        answer
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
                let Database { hand, receipts, .. } = database;
                database = Database { receipts, ..Database::open(url) };
                database.hand.store(hand.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        for (account, view) in views() {
            let expected = model.ask(account, &view);
            prop_assert_eq!(expected, database.ask(account, &view), "{} after {:?}", view, step);
        }
    }
    Ok(())
}

#[test]
fn the_store_in_postgresql_is_a_memory_store_that_survives() {
    let postgres = postgres::Postgres::start(&["fsync=off"]);
    let cases = std::env::var("LIVES").map_or(30, |lives| lives.parse().expect("LIVES is a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let compared = TestRunner::new(config).run(&lives(true), |steps| {
        let database = postgres.create_database();
        compare(&steps, &postgres.url(&database))
    });
    compared.expect("the same answers");
}
