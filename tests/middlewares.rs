//! Two middlewares over one database: what happens at one wakes whoever waits at the other.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use support::Server;

/// Far less than the second after which everybody looks for himself, so that it must be a notification.
const TOLD_WITHIN: Duration = Duration::from_millis(250);

/// How late a timer may be, and the telling.
const TIMER_WITHIN: Duration = Duration::from_millis(450);

struct Two {
    here: Server,
    there: Server,
}

impl Two {
    fn new() -> Self {
        let postgres = postgres::shared();
        let url = postgres.url(&postgres.create_database());
        Self { here: Server::start(&url, &[]), there: Server::start(&url, &[]) }
    }

    fn bob(&self) -> Client {
        let mut bob = Client::login(self.there.addr(), "bob").expect("it runs");
        ask(&mut bob, "QCREATE q");
        bob
    }

    /// A pop at the one, waiting when this returns; with its answer comes the time at which it came.
    fn waiting_pop(&self) -> JoinHandle<(Answer, Instant)> {
        let here = self.here.addr();
        let pop = thread::spawn(move || {
            let mut ann = Client::login(here, "ann").expect("it runs");
            (ask(&mut ann, "POP QUEUE q BLOCK 10000"), Instant::now())
        });
        sleep(Duration::from_millis(300));
        pop
    }
}

fn ask(client: &mut Client, request: &str) -> Answer {
    let words: Vec<&str> = request.split(' ').collect();
    client.ask(&words).expect("it runs")
}

/// The pop got the message, this long after `since`; before it the pop waited.
fn woken(pop: JoinHandle<(Answer, Instant)>, since: Instant) -> Duration {
    let (answer, at) = pop.join().expect("the pop");
    assert_eq!(answer.body(), Some("x"), "{answer:?}");
    at.checked_duration_since(since).expect("not before")
}

#[test]
fn a_send_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let pop = two.waiting_pop();
            let sent = Instant::now();
            ask(&mut bob, "SEND q x");
            woken(pop, sent)
        })
        .collect();
    times.sort_unstable();
    println!("woken after {times:?}");
    // Not the slowest: on a busy machine anything may have to wait for a processor.
    assert!(times[8] < TOLD_WITHIN, "{times:?}");
    assert!(times[5] < Duration::from_millis(100), "typically: {times:?}");
}

#[test]
fn a_message_given_back_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            ask(&mut bob, "SEND q x");
            let leased = ask(&mut bob, "POP QUEUE q LEASE 60000");
            let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
            let pop = two.waiting_pop();
            let given_back = Instant::now();
            assert_eq!(ask(&mut bob, &format!("NACK {receipt}")).integer(), Some(1));
            woken(pop, given_back)
        })
        .collect();
    times.sort_unstable();
    assert!(times[2] < TOLD_WITHIN, "typically: {times:?}");
}

#[test]
fn the_end_of_a_lease_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    ask(&mut bob, "SEND q x");
    assert_eq!(ask(&mut bob, "POP QUEUE q LEASE 900").body(), Some("x"));
    let ends = Instant::now() + Duration::from_millis(900);
    let (answer, at) = two.waiting_pop().join().expect("the pop");
    assert_eq!(answer.body(), Some("x"), "{answer:?}");
    assert!(at + Duration::from_millis(20) > ends, "the lease had not ended");
    assert!(at < ends + TIMER_WITHIN, "{:?} after the end", at - ends);
}

#[test]
fn a_pop_waits_no_longer_than_it_said() {
    let two = Two::new();
    let mut bob = two.bob();
    let start = Instant::now();
    // Longer than it takes until everybody looks for himself: the wait must not begin anew with that.
    assert_eq!(ask(&mut bob, "POP QUEUE q BLOCK 2500"), Answer::Null);
    let time = start.elapsed();
    assert!(time >= Duration::from_millis(2_450) && time < Duration::from_millis(2_800), "{time:?}");
}
