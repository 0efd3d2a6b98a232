//! A store of this process behind the path: nobody goes on waiting while there is a message for them.
//!
//! The clock is driven by hand, and each batch is run by hand, so that messages become available together.

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use posthaste_measure::{Clock, Hand, Stamps};
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::local::Local;
use posthaste_server::path::waiting_line::WaitingLine;
use posthaste_server::path::worker::{Batch, Store, Worker};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{AccountId, Ask, Flow, Millis, News, Outcome, Rules};
use posthaste_server::time::Time;
use posthaste_wire::encode::Protocol;
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::LIST_PIECE;

use support::{Got, decoded, parsed};

const MS: u64 = 1_000_000;

/// The store, and who has asked so far.
struct Desk<R: Rules> {
    store: Arc<Local<R>>,
    hand: &'static Hand,
    clock: Clock,
    clients: u64,
    batch: Batch,
}

impl Desk<Memory> {
    /// With a queue `q`.
    fn new() -> Self {
        let mut desk = Self::of(Memory::new(1));
        desk.ask("ann", "QCREATE q");
        desk
    }
}

impl<R: Rules> Desk<R> {
    fn of(rules: R) -> Self {
        let hand = Hand::at_zero();
        let clock = Clock::by_hand(hand, 0);
        let store = Local::new(rules, Time::of(clock), clock);
        Self { store, hand, clock, clients: 0, batch: Batch::default() }
    }

    /// Asks, each time on a connection of its own; who is answered what.
    fn ask(&mut self, account: &str, request: &str) -> Vec<(u64, Got)> {
        let bundle = self.bundle(account, request);
        self.batch.waiting.push(bundle);
        self.run()
    }

    fn bundle(&mut self, account: &str, request: &str) -> Box<Bundle> {
        self.clients += 1;
        let mut bundle = Box::new(Bundle::new(Address { thread: 0, slot: 0, client: self.clients }));
        let (bytes, operation) = parsed(request);
        let kind = operation.kind();
        (bundle.bytes, bundle.protocol) = (bytes, Protocol::Resp3);
        bundle.account = self.store.account(account.as_bytes()).expect("there is room");
        bundle.requests.push(Request::new(operation, kind, self.clock.stamp()));
        bundle
    }

    /// Lets time pass until it is so late, and has the store look around; who is answered what.
    fn look(&mut self, ms: u64) -> Vec<(u64, Got)> {
        self.look_at(ms * MS)
    }

    fn look_at(&mut self, ns: u64) -> Vec<(u64, Got)> {
        self.hand.set(ns);
        self.run()
    }

    fn run(&mut self) -> Vec<(u64, Got)> {
        self.store.run(&mut self.batch);
        let answered = |bundle: Box<Bundle>| (bundle.address.client, decoded(&bundle.answers));
        self.batch.finished.drain(..).map(answered).collect()
    }
}

/// Of answers that are messages: who got which body.
fn bodies(answers: &[(u64, Got)]) -> Vec<(u64, &str)> {
    answers.iter().map(|(client, message)| (*client, message.text("body"))).collect()
}

#[test]
fn of_two_messages_that_come_at_once_each_goes_to_somebody_who_waits_for_it() {
    let mut desk = Desk::new();
    desk.ask("ann", "SEND q low DELAY 10");
    desk.ask("dan", "SEND q high DELAY 10 PRIORITY 9");
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 1000"), [], "client 4 waits for anything");
    assert_eq!(desk.ask("cy", "POP FROM ann BLOCK 1000"), [], "client 5 for what ann sends");
    let answers = desk.look(11);
    assert_eq!(bodies(&answers), [(4, "high"), (5, "low")]);
}

#[test]
fn of_two_messages_that_come_at_once_the_one_for_whom_has_waited_longest_is_not_given_to_another() {
    let mut desk = Desk::new();
    desk.ask("ann", "SEND q low DELAY 10");
    desk.ask("dan", "SEND q high DELAY 10 PRIORITY 9");
    assert_eq!(desk.ask("cy", "POP FROM dan BLOCK 1000"), [], "client 4 waits for what dan sends");
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 1000"), [], "client 5 for anything");
    let answers = desk.look(11);
    assert_eq!(bodies(&answers), [(4, "high"), (5, "low")]);
}

/// The last that is recorded may be somebody who was entered in the accounts file, in no batch.
#[test]
fn a_store_is_closed_in_order_whatever_was_recorded_last() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = EmbeddedOptions { segment_bytes: 1 << 16, ..EmbeddedOptions::default() };
    let open = || Embedded::open(home.path(), options.clone());
    let mut desk = Desk::of(open().expect("a new store"));
    desk.ask("ann", "QCREATE q");
    desk.ask("ann", "SEND q precious");
    desk.store.account(b"newcomer").expect("there is room");
    drop(desk);

    let file = home.path().join("0000000001.log");
    let sound = std::fs::read(&file).expect("the log");
    for word in ["precious", "newcomer"] {
        let at = sound.windows(word.len()).position(|bytes| bytes == word.as_bytes());
        let mut damaged = sound.clone();
        damaged[at.unwrap_or_else(|| panic!("{word} is nowhere"))] ^= 1;
        std::fs::write(&file, damaged).expect("it can be written");
        let told = open().err().unwrap_or_else(|| panic!("{word} is gone, and nobody was told"));
        assert!(told.to_string().contains("0000000001.log is damaged"), "{told}");
    }
    std::fs::write(&file, sound).expect("it can be written");
    let store = open().expect("it is sound again");
    assert!(store.figures().contains(&("accounts", 2)), "{:?}", store.figures());
}

/// Who waits for the store gets it in between, however long a piece took.
#[test]
fn between_pieces_of_work_that_nobody_waits_for_is_a_millisecond() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = EmbeddedOptions { freed_at_once: 1, ..EmbeddedOptions::default() };
    let mut desk = Desk::of(Embedded::open(home.path(), options).expect("a new store"));
    desk.ask("ann", "QCREATE q");
    desk.ask("ann", "SENDMANY q a b c d e");
    let mut now = 9 * MS + 900_000; // late in a millisecond
    desk.hand.set(now);
    desk.ask("ann", "QPURGE q"); // which frees two
    for left in (0..3).rev() {
        let next = desk.store.deadline().expect("there is more to free");
        assert_eq!(desk.hand.at(next), now + MS);
        now += MS;
        desk.look_at(now);
        assert_eq!(desk.store.deadline().is_some(), left > 0, "{left} are left");
    }
}

#[test]
fn a_wait_lasts_as_long_as_was_asked_and_a_millisecond_more_at_most() {
    let mut desk = Desk::new();
    // Late in a millisecond, as most requests come.
    desk.look_at(9 * MS + 900_000);
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 15"), [], "client 2 waits");
    assert_eq!(desk.look_at(24 * MS + 899_999), [], "not 15 ms yet");
    assert_eq!(desk.look_at(25 * MS + 900_000), [(2, Got::Null)]);
}

#[test]
fn what_a_pop_has_waited_for_its_turn_is_part_of_its_time() {
    let mut desk = Desk::new();
    desk.look(10);
    let mut bundle = desk.bundle("bob", "POP QUEUE q BLOCK 1000");
    bundle.stamp_all(|stamps| stamps.enqueued = 10 * MS);
    desk.batch.waiting.push(bundle);
    assert_eq!(desk.look(910), [], "its turn comes after 900 ms");
    assert_eq!(desk.look(1009), []);
    assert_eq!(desk.look(1011), [(2, Got::Null)]);
}

#[test]
fn a_pop_whose_client_left_before_its_turn_takes_nothing() {
    let mut desk = Desk::new();
    desk.ask("ann", "SEND q x");
    let bundle = desk.bundle("bob", "POP QUEUE q BLOCK 1000");
    assert!(desk.store.record_departure(bundle.address).is_none(), "it is still on its way");
    desk.batch.waiting.push(bundle);
    let answers = desk.run();
    assert!(matches!(&*answers, [(3, Got::Error(text))] if text.contains("it took nothing")), "{answers:?}");
    assert_eq!(bodies(&desk.ask("cy", "POP QUEUE q")), [(4, "x")]);
}

/// A null says that there was nothing; so a stop must not give one to a pop that has not looked yet.
#[test]
fn a_stop_ends_waits_but_a_pop_still_gets_the_message_that_is_there() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 1000"), [], "client 2 waits");
    desk.store.end_waits();
    assert!(desk.store.deadline().is_some_and(|at| at <= desk.clock.instant()), "a worker is to look");
    assert_eq!(desk.run(), [(2, Got::Null)]);
    desk.ask("ann", "SEND q x");
    assert_eq!(bodies(&desk.ask("bob", "POP QUEUE q BLOCK 1000")), [(4, "x")]);
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 1000"), [], "it has looked, and found nothing");
    assert!(desk.store.deadline().is_some_and(|at| at <= desk.clock.instant()), "a worker is to look");
    assert_eq!(desk.run(), [(5, Got::Null)]);
}

#[test]
fn a_pop_that_repeats_an_earlier_one_leaves_the_message_to_the_next_who_waits() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask("bob", "POP QUEUE q REQID k BLOCK 1000"), [], "client 2");
    assert_eq!(desk.ask("bob", "POP QUEUE q REQID k BLOCK 1000"), [], "client 3 asks the same again");
    assert_eq!(desk.ask("cy", "POP QUEUE q BLOCK 1000"), [], "client 4");
    let answers = desk.ask("ann", "SENDMANY q one two");
    assert_eq!(bodies(&answers[..3]), [(2, "one"), (3, "one"), (4, "two")]);
}

#[test]
fn a_message_that_came_in_time_is_given_to_a_wait_that_is_ended_late() {
    let mut desk = Desk::new();
    desk.ask("ann", "SEND q late DELAY 10");
    assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 15"), [], "client 3 waits for longer than the delay");
    let answers = desk.look(20);
    assert_eq!(bodies(&answers), [(3, "late")]);
}

/// More than the store lets come back at once.
#[test]
fn what_comes_of_age_while_others_are_served_is_given_too() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut desk = Desk::of(Embedded::open(home.path(), EmbeddedOptions::default()).expect("a new store"));
    let many = format!("SENDMANY a{}", " x".repeat(16_384));
    for request in ["QCREATE a", "QCREATE b", many.as_str(), "SEND b y"] {
        desk.ask("ann", request);
    }
    for request in
        ["POP QUEUE a LEASE 10 COUNT 10000", "POP QUEUE a LEASE 10 COUNT 6384", "POP QUEUE b LEASE 11"]
    {
        desk.ask("ann", request);
    }
    assert!(desk.ask("ann", "POP QUEUE a BLOCK 60000").is_empty());
    assert!(desk.ask("ann", "POP QUEUE b BLOCK 60000").is_empty());
    let mut answers = desk.look(20);
    answers.sort_by_key(|(client, _)| *client);
    let got: Vec<&str> = bodies(&answers).into_iter().map(|(_, body)| body).collect();
    assert_eq!(got, ["x", "y"]);
}

/// Until its commit all of it stands in memory, and nobody else is served.
#[test]
fn a_commit_that_is_large_already_takes_no_more_requests() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut desk = Desk::of(Embedded::open(home.path(), EmbeddedOptions::default()).expect("a new store"));
    desk.ask("ann", "QCREATE q");
    for number in 0..40 {
        desk.store.account(format!("reader{number}").as_bytes()).expect("there is room");
    }
    let send = format!("SEND q {} TO *", "x".repeat(1 << 20));
    let [mut three, one] = [(); 2].map(|()| desk.bundle("ann", &send));
    let again = |bundle: &Bundle| {
        let Request { operation, kind, .. } = &bundle.requests[0];
        Request::new(operation.clone(), *kind, 0)
    };
    three.requests.extend([again(&three), again(&three)]);
    desk.batch.waiting.extend([three, one]);
    let mut calls = Vec::new();
    while !desk.batch.waiting.is_empty() {
        desk.store.run(&mut desk.batch);
        let mut answered = Vec::new();
        for bundle in desk.batch.finished.drain(..) {
            answered.push((bundle.address.client, bundle.pending().start));
            // What is left of it comes again, behind the others.
            desk.batch.waiting.extend((!bundle.is_done()).then_some(bundle));
        }
        calls.push(answered);
    }
    assert_eq!(calls, [vec![(2, 2)], vec![(3, 1), (2, 3)]], "who had how many answers after each commit");
}

/// As in a large redrive: more comes for those who wait than should stand in memory.
#[test]
fn those_who_wait_are_served_in_several_commits_and_before_anybody_else() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut desk = Desk::of(Embedded::open(home.path(), EmbeddedOptions::default()).expect("a new store"));
    desk.ask("ann", "QCREATE q");
    let mebibyte = "x".repeat(1 << 20);
    for _ in 0..84 {
        desk.ask("ann", &format!("SEND q {mebibyte} DELAY 10"));
    }
    // What a pop is given under a key is written down.
    let waiting: Vec<u64> = (0..11)
        .map(|number| {
            assert_eq!(desk.ask("bob", &format!("POP QUEUE q COUNT 8 REQID k{number} BLOCK 15")), []);
            desk.clients
        })
        .collect();
    desk.hand.set(20 * MS);
    let other = desk.bundle("cy", "POP QUEUE q COUNT 8");
    desk.batch.waiting.push(other);
    let mut served = Vec::new();
    while served.len() < 12 {
        let now = desk.clock.instant();
        assert!(!desk.batch.waiting.is_empty() || desk.store.deadline().is_some_and(|at| at <= now));
        let answers = desk.run();
        assert!((1..11).contains(&answers.len()), "{} at once", answers.len());
        let messages = |got: &Got| if let Got::List(messages) = got { messages.len() } else { 0 };
        assert!(answers.iter().all(|(_, got)| messages(got) == 7), "there is something for everybody");
        served.extend(answers.into_iter().map(|(client, _)| client));
    }
    assert_eq!(served[..11], waiting);
}

/// The commit that brings them is full, so the news of them is left for the next.
#[test]
fn messages_of_one_kind_that_fill_a_commit_go_to_all_who_wait_for_them() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut desk = Desk::of(Embedded::open(home.path(), EmbeddedOptions::default()).expect("a new store"));
    desk.ask("ann", "QCREATE q");
    for _ in 0..2 {
        assert_eq!(desk.ask("bob", "POP QUEUE q BLOCK 1000"), []);
    }
    let bodies = [(); 5].map(|()| "x".repeat(14 << 20));
    let sent = desk.ask("ann", &format!("SENDMANY q {}", bodies.join(" ")));
    assert_eq!(sent.len(), 1, "nobody is served in that commit");
    let served: Vec<u64> = desk.run().into_iter().map(|(client, _)| client).collect();
    assert_eq!(served, [2, 3]);
}

#[test]
fn the_time_that_a_pop_is_parked_is_in_none_of_its_stages() {
    let mut desk = Desk::new();
    let line = Arc::new(WaitingLine::new(desk.clock, 100, Vec::new()));
    let mut worker = Worker::new(line, Arc::clone(&desk.store) as Arc<dyn Store>, Vec::new(), desk.clock);
    let mut pops: Vec<Box<Bundle>> =
        ["POP QUEUE q BLOCK 60000", "POP QUEUE q BLOCK 9000"].map(|pop| desk.bundle("bob", pop)).into();
    desk.hand.set(2 * MS);
    pops.iter_mut().for_each(|pop| pop.stamp_all(|stamps| stamps.enqueued = 2 * MS));
    desk.hand.set(5 * MS);
    worker.run_here(&mut pops, 0);
    assert!(worker.next_done_here().is_none(), "both wait");
    desk.hand.set(8_000 * MS);
    let mut sends = vec![desk.bundle("ann", "SEND q x")];
    worker.run_here(&mut sends, 0);
    desk.hand.set(10_000 * MS);
    let mut done: Vec<Box<Bundle>> = std::iter::from_fn(|| worker.next_done_here()).collect();
    worker.run_here(&mut Vec::new(), 0);
    done.extend(std::iter::from_fn(|| worker.next_done_here()));
    done.sort_by_key(|bundle| bundle.address.client);
    let stamps = |received, enqueued, taken| Stamps {
        received: received * MS,
        enqueued: enqueued * MS,
        dequeued: taken * MS,
        sent: taken * MS,
        answered: taken * MS,
        replied: 0,
    };
    let found: Vec<Stamps> = done.iter().map(|bundle| bundle.requests[0].stamps).collect();
    let sent = Stamps { enqueued: 0, ..stamps(8_000, 0, 8_000) };
    assert_eq!(found, [stamps(7_995, 7_997, 8_000), stamps(9_995, 9_997, 10_000), sent]);
}

#[test]
fn the_time_that_a_list_in_pieces_takes_is_all_in_its_stages() {
    let mut desk = Desk::new();
    for number in 0..LIST_PIECE {
        desk.ask("ann", &format!("QCREATE q{number}"));
    }
    let line = Arc::new(WaitingLine::new(desk.clock, 100, Vec::new()));
    let mut worker = Worker::new(line, Arc::clone(&desk.store) as Arc<dyn Store>, Vec::new(), desk.clock);
    let mut list = desk.bundle("bob", "QLIST");
    for (at, is_last) in [(3, false), (9, true)] {
        desk.hand.set(at * MS);
        worker.run_here(&mut vec![list], 0);
        list = worker.next_done_here().expect("a piece");
        list.absorb_piece();
        assert_eq!(list.awaits_next_piece(), !is_last);
    }
    let Stamps { received, sent, answered, .. } = list.requests[0].stamps;
    assert_eq!([received, sent, answered].map(|ns| ns / MS), [0, 3, 9]);
}

/// A store whose next batch has to wait until its disk has made room.
struct Hindered {
    memory: Memory,
    wait: Mutex<Option<WaitForRoom>>,
}

struct WaitForRoom {
    begins: Sender<()>,
    room: Receiver<()>,
}

impl Rules for Hindered {
    type Commit = <Memory as Rules>::Commit;

    fn awaited(&self, _: usize, _: usize) -> Option<Box<dyn FnOnce() + Send>> {
        let WaitForRoom { begins, room } = self.wait.lock().expect("nobody panicked").take()?;
        Some(Box::new(move || {
            begins.send(()).expect("the test listens");
            room.recv().expect("the test makes room");
        }))
    }

    fn prepare(&mut self, requests: usize, request_bytes: usize) -> Result<(), Fault> {
        self.memory.prepare(requests, request_bytes)
    }

    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        self.memory.execute(now, ask, answer, news)
    }

    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        self.memory.read(now, ask, answer)
    }

    fn tick(&mut self, now: Millis, news: &mut Vec<News>) {
        self.memory.tick(now, news);
    }

    fn deadline(&self) -> Option<Millis> {
        self.memory.deadline()
    }

    fn has_work_left(&self) -> bool {
        self.memory.has_work_left()
    }

    fn seal(&mut self) -> Option<Self::Commit> {
        self.memory.seal()
    }

    fn is_commit_full(&self) -> bool {
        self.memory.is_commit_full()
    }

    fn committed(&mut self, commit: Self::Commit, result: &Result<(), Fault>) {
        self.memory.committed(commit, result);
    }

    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.memory.account(name)
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        self.memory.meet_account(name)
    }

    fn trouble(&self) -> Option<String> {
        self.memory.trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.memory.figures()
    }
}

#[test]
fn while_a_batch_waits_for_the_disk_others_can_read() {
    let (begins, has_begun) = channel();
    let (make_room, room) = channel();
    let (says, heard) = channel();
    let wait = Mutex::new(Some(WaitForRoom { begins, room }));
    let mut desk = Desk::of(Hindered { memory: Memory::new(1), wait });
    let store = Arc::clone(&desk.store);
    thread::scope(|scope| {
        let sends = scope.spawn(move || desk.ask("ann", "QCREATE q"));
        has_begun.recv_timeout(Duration::from_secs(30)).expect("the batch waits for room");
        scope.spawn(move || says.send(store.figures().len()));
        let figures = heard.recv_timeout(Duration::from_secs(30));
        make_room.send(()).expect("the batch waits");
        assert!(figures.is_ok_and(|count| count > 0), "the store was locked");
        assert_eq!(sends.join().expect("no panic").len(), 1);
    });
}
