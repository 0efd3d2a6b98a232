//! Stores compared with the memory store: the same requests at the same times must get the same answers.
//!
//! Requests are drawn at random from everything a client can ask, over few queues, accounts and keys so that they
//! meet; time passes in leaps that end on the interesting milliseconds. After every step all that can be seen of
//! the store is compared too, so a difference is found where it arises. Receipts are random in each store: the
//! k-th receipt of one stands for the k-th of the other.

mod support;

#[path = "support/home.rs"]
mod home;
#[path = "support/lives.rs"]
mod lives;

use std::cell::Cell;

use lives::{Receipts, Step, lives, views};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{AccountId, Ask, Flow, Millis, News, Outcome, Rules};
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Operation, Recipient};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use support::{Counts, Got, World, counted};

/// A store, asked in words, whose receipts are counted.
struct Side<S> {
    world: World<S>,
    receipts: Receipts,
    /// What the stores that were closed have counted.
    counts: Counts,
}

impl<S: Rules> Side<S> {
    fn new(store: S) -> Self {
        let (world, receipts) = (World::new(store), Receipts::default());
        let mut side = Self { world, receipts, counts: Counts::new() };
        for request in lives::BEGINNING {
            side.ask("ann", request);
        }
        side
    }

    /// The answer, with receipts by their number, once it is durable. Blocked pops answer what they wait for.
    fn ask(&mut self, account: &str, request: &str) -> String {
        let mut answer = match self.world.try_ask(account, &self.receipts.filled_in(request)) {
            Ok(answer) => answer,
            Err(interest) => return format!("{interest:?}"),
        };
        self.receipts.number(&mut answer);
        format!("{answer:?}")
    }

    /// What a reader is shown, at once where the store can.
    fn read(&mut self, account: &str, request: &str) -> Got {
        match self.world.read(account, request) {
            Some(bytes) => support::decoded(&bytes),
            None => self.world.ask(account, request),
        }
    }

    /// How many messages were sent, taken and so on.
    fn counts(&self) -> Counts {
        counted(&self.counts, self.world.store.figures())
    }

    /// The news since this was last asked, in no particular order.
    fn news(&mut self) -> Vec<String> {
        let mut news: Vec<_> = self.world.news.drain(..).map(|news: News| format!("{news:?}")).collect();
        news.sort();
        news
    }
}

/// Does the same to the memory store and to what `open` opens, and compares all that can be seen.
fn compare<S: Rules>(steps: &[Step], mut open: impl FnMut() -> S) -> Result<(), TestCaseError> {
    let mut model = Side::new(Memory::new(1));
    let mut side = Side::new(open());
    for step in steps {
        match step {
            Step::Ask(account, request) => {
                let expected = model.ask(account, request);
                prop_assert_eq!(expected, side.ask(account, request), "{} asked {}", account, request);
            }
            Step::Wait(ms) => {
                model.world.wait(*ms);
                side.world.wait(*ms);
            }
            Step::Reopen => {
                side = Side { counts: side.counts(), world: side.world.reopen(&mut open), ..side };
                side.world.wait(0); // what was due is due again
                side.world.news.clear(); // nobody waits across a restart
            }
        }
        prop_assert_eq!(model.news(), side.news(), "news of {:?}", step);
        prop_assert_eq!(model.counts(), side.counts(), "counts after {:?}", step);
        compare_views(&mut model, &mut side, step)?;
    }
    Ok(())
}

/// Everything that reads show.
fn compare_views<S: Rules>(
    model: &mut Side<Memory>,
    side: &mut Side<S>,
    step: &Step,
) -> Result<(), TestCaseError> {
    for (account, view) in views() {
        prop_assert_eq!(model.read(account, &view), side.read(account, &view), "{} after {:?}", view, step);
    }
    Ok(())
}

#[test]
fn two_memory_stores_cannot_be_told_apart() {
    let runner = &mut TestRunner::new(config(20));
    runner.run(&lives(false), |steps| compare(&steps, || Memory::new(2))).expect("the same answers");
}

#[test]
fn the_embedded_store_is_a_memory_store_that_survives() {
    let home = home::home();
    let life = Cell::new(0);
    let runner = &mut TestRunner::new(config(100));
    let compared = runner.run(&lives(true), |steps| {
        life.set(life.get() + 1);
        let directory = home.path().join(life.get().to_string());
        compare(&steps, || Embedded::open(&directory, small_segments()).expect("a store"))
    });
    compared.expect("the same answers");
}

/// Small enough that even a short life fills several.
fn small_segments() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 1 << 16, freed_at_once: 1, ..EmbeddedOptions::default() }
}

#[test]
fn a_store_with_any_of_these_defects_is_found_out() {
    for (name, defect) in DEFECTS {
        let runner = &mut TestRunner::new(Config { max_shrink_iters: 0, ..config(500) });
        let open = || Defective { store: Memory::new(2), defect };
        assert!(runner.run(&lives(false), |steps| compare(&steps, open)).is_err(), "{name}");
    }
}

fn config(lives: u32) -> Config {
    Config { cases: lives, failure_persistence: None, ..Config::default() }
}

/// A way to misunderstand a request.
type Defect = fn(&mut Operation);

const DEFECTS: [(&str, Defect); 8] = [
    ("every message is for anyone", |operation| {
        if let Operation::Send(send) = operation {
            send.to = Recipient::Anyone;
        }
    }),
    ("priorities are ignored", |operation| {
        if let Operation::Send(send) = operation {
            send.priority = 0;
        }
    }),
    ("DEDUP is ignored", |operation| {
        if let Operation::Send(send) = operation {
            send.dedup = None;
        }
    }),
    ("a delay is a millisecond too long", |operation| {
        if let Operation::Send(send) = operation {
            send.delay_ms += u64::from(send.delay_ms > 0);
        }
    }),
    ("NOTOWN is ignored", |operation| {
        if let Operation::Pop(pop) = operation {
            pop.select.not_own = false;
        }
    }),
    ("REQID is ignored", |operation| {
        if let Operation::Pop(pop) = operation {
            pop.request_id = None;
        }
    }),
    ("a lease is a millisecond too short", |operation| {
        if let Operation::Pop(pop) = operation {
            pop.lease_ms = pop.lease_ms.map(|ms| ms - 1);
        }
    }),
    ("only the first of several is acknowledged", |operation| {
        if let Operation::Ack { handles } = operation {
            handles.more.clear();
        }
    }),
];

/// A store that misunderstands requests.
struct Defective {
    store: Memory,
    defect: Defect,
}

impl Rules for Defective {
    type Commit = <Memory as Rules>::Commit;

    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        let mut operation = ask.operation.clone();
        (self.defect)(&mut operation);
        self.store.execute(now, Ask { operation: &operation, ..ask }, answer, news)
    }

    fn awaited(&self, requests: usize, bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        self.store.awaited(requests, bytes)
    }

    fn prepare(&mut self, requests: usize, request_bytes: usize) -> Result<(), Fault> {
        self.store.prepare(requests, request_bytes)
    }

    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        self.store.read(now, ask, answer)
    }

    fn tick(&mut self, now: Millis, news: &mut Vec<News>) {
        self.store.tick(now, news);
    }

    fn deadline(&self) -> Option<Millis> {
        self.store.deadline()
    }

    fn has_work_left(&self) -> bool {
        self.store.has_work_left()
    }

    fn seal(&mut self) -> Option<Self::Commit> {
        self.store.seal()
    }

    fn is_commit_full(&self) -> bool {
        self.store.is_commit_full()
    }

    fn committed(&mut self, commit: Self::Commit, result: &Result<(), Fault>) {
        self.store.committed(commit, result);
    }

    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.store.account(name)
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.store.meet_account(name)
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.store.figures()
    }
}
