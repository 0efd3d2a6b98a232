//! Two middlewares over one database: what happens at one wakes whoever waits at the other.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use news::{is_told, wait_until_blocked};
use support::Server;

/// Longer than any client here waits for an answer: a pop that nobody wakes fails its test.
const BLOCK: &str = "POP QUEUE q BLOCK 600000";

/// How many pops wait together.
const POPS: usize = 5;

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

    /// Pops at the one, waiting when this returns; with each answer comes the time at which it came.
    fn waiting_pops(&self, pops: usize) -> Vec<JoinHandle<(Answer, Instant)>> {
        let here = self.here.addr();
        let pop = move || (ask(&mut Client::login(here, "ann").expect("it runs"), BLOCK), Instant::now());
        let pops: Vec<_> = (0..pops).map(|_| thread::spawn(pop)).collect();
        wait_until_blocked(here, pops.len());
        pops
    }
}

fn ask(client: &mut Client, request: &str) -> Answer {
    let words: Vec<&str> = request.split(' ').collect();
    client.ask(&words).expect("it runs")
}

/// Each pop got a message, the last of them this long after `since`; before it they waited.
fn woken(pops: Vec<JoinHandle<(Answer, Instant)>>, since: Instant) -> Duration {
    let late = pops.into_iter().map(|pop| {
        let (answer, at) = pop.join().expect("the pop");
        assert_eq!(answer.body(), Some("x"), "{answer:?}");
        at.checked_duration_since(since).expect("not before")
    });
    late.max().expect("there are pops")
}

#[test]
fn a_send_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        let pop = two.waiting_pops(1);
        let sent = Instant::now();
        ask(&mut bob, "SEND q x");
        woken(pop, sent)
    };
    assert!(is_told(after));
}

#[test]
fn a_message_given_back_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        ask(&mut bob, "SEND q x");
        let leased = ask(&mut bob, "POP QUEUE q LEASE 600000");
        let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
        let pop = two.waiting_pops(1);
        let given_back = Instant::now();
        assert_eq!(ask(&mut bob, &format!("NACK {receipt}")).integer(), Some(1));
        woken(pop, given_back)
    };
    assert!(is_told(after));
}

#[test]
fn the_end_of_a_lease_there_wakes_a_pop_here() {
    const LEASE: Duration = Duration::from_millis(300);
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        ask(&mut bob, "SEND q x");
        let asked = Instant::now();
        assert_eq!(ask(&mut bob, "POP QUEUE q LEASE 300").body(), Some("x"));
        let answered = Instant::now();
        let here = two.here.addr();
        let mut ann = Client::login(here, "ann").expect("it runs");
        assert_eq!(ask(&mut ann, BLOCK).body(), Some("x"));
        // The database counts whole milliseconds.
        assert!(asked.elapsed() + Duration::from_millis(2) > LEASE, "the lease had not ended");
        answered.elapsed().saturating_sub(LEASE)
    };
    assert!(is_told(after));
}

#[test]
fn messages_sent_together_wake_as_many_pops() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut ben = Client::login(two.here.addr(), "ben").expect("it runs");
    let bodies = " x".repeat(POPS);
    for sender in [&mut ben, &mut bob] {
        let after = || {
            let pops = two.waiting_pops(POPS);
            let sent = Instant::now();
            ask(sender, &format!("SENDMANY q{bodies}"));
            woken(pops, sent)
        };
        assert!(is_told(after));
    }
}

#[test]
fn a_pop_waits_no_longer_than_it_said() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut wait = || {
        let start = Instant::now();
        // Longer than it takes until everybody looks for himself: the wait must not begin anew with that.
        assert_eq!(ask(&mut bob, "POP QUEUE q BLOCK 2500"), Answer::Null);
        let time = start.elapsed();
        assert!(time >= Duration::from_millis(2_450), "{time:?}");
        time
    };
    // Again where the machine was busy with other things; less than one more second, so that none began anew.
    assert!((0..10).any(|_| wait() < Duration::from_millis(3_400)));
}
