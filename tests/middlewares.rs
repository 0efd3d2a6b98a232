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

/// Whether eleven pops are woken as soon as they should be. Not the slowest: on a busy machine anything may have to wait for a
/// processor. If all have to, there are ten tries; without news, nine of eleven would hardly come in time in any of them.
fn all_are_woken_soon(mut woken: impl FnMut() -> Duration, typically: Duration) -> bool {
    (0..10).any(|_| {
        let mut times: Vec<Duration> = (0..11).map(|_| woken()).collect();
        times.sort_unstable();
        println!("woken after {times:?}");
        times[8] < TOLD_WITHIN && times[5] < typically
    })
}

#[test]
fn a_send_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        let pop = two.waiting_pop();
        let sent = Instant::now();
        ask(&mut bob, "SEND q x");
        woken(pop, sent)
    };
    assert!(all_are_woken_soon(after, Duration::from_millis(100)));
}

#[test]
fn a_message_given_back_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        ask(&mut bob, "SEND q x");
        let leased = ask(&mut bob, "POP QUEUE q LEASE 60000");
        let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
        let pop = two.waiting_pop();
        let given_back = Instant::now();
        assert_eq!(ask(&mut bob, &format!("NACK {receipt}")).integer(), Some(1));
        woken(pop, given_back)
    };
    assert!(all_are_woken_soon(after, TOLD_WITHIN));
}

#[test]
fn the_end_of_a_lease_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    ask(&mut bob, "SEND q x");
    let lease = Duration::from_millis(900);
    let asked = Instant::now();
    assert_eq!(ask(&mut bob, "POP QUEUE q LEASE 900").body(), Some("x"));
    let answered = Instant::now();
    let (answer, at) = two.waiting_pop().join().expect("the pop");
    assert_eq!(answer.body(), Some("x"), "{answer:?}");
    // The database counts whole milliseconds.
    assert!(at + Duration::from_millis(2) > asked + lease, "the lease had not ended");
    assert!(at < answered + lease + TIMER_WITHIN, "{:?} after the end", at - answered - lease);
}

/// So many pops wait at `here`, for less than the second after which everybody looks for himself; then `send` sends them all
/// their messages at once. How many went away empty; None if the sending came too late to tell.
fn empty_handed(two: &Two, sender: &mut Client, request: &str) -> Option<usize> {
    let start = Instant::now();
    let pops: Vec<JoinHandle<Answer>> = (0..POPS)
        .map(|_| {
            let here = two.here.addr();
            thread::spawn(move || {
                ask(&mut Client::login(here, "ann").expect("it runs"), "POP QUEUE q BLOCK 500")
            })
        })
        .collect();
    let mut watcher = Client::login(two.here.addr(), "watcher").expect("it runs");
    let all_wait = format!("blocked_clients:{POPS}\r\n");
    while !ask(&mut watcher, "INFO").text().is_some_and(|text| text.contains(&all_wait)) {
        if start.elapsed() > Duration::from_millis(500) {
            break;
        }
    }
    ask(sender, request);
    let was_in_time = start.elapsed() < Duration::from_millis(350);
    let answers = pops.into_iter().map(|pop| pop.join().expect("the pop"));
    let empty = answers.filter(|answer| *answer == Answer::Null).count();
    let mut rest = Client::login(two.here.addr(), "ann").expect("it runs");
    while ask(&mut rest, "POP QUEUE q") != Answer::Null {}
    was_in_time.then_some(empty)
}

const POPS: usize = 5;

#[test]
fn messages_sent_together_wake_as_many_pops() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut ben = Client::login(two.here.addr(), "ben").expect("it runs");
    let bodies = " x".repeat(POPS);
    for _ in 0..6 {
        let here = || empty_handed(&two, &mut ben, &format!("SENDMANY q{bodies}"));
        assert_eq!(std::iter::repeat_with(here).take(20).flatten().next(), Some(0), "sent here");
        let there = || empty_handed(&two, &mut bob, &format!("SENDMANY q{bodies}"));
        assert_eq!(std::iter::repeat_with(there).take(20).flatten().next(), Some(0), "sent there");
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
    // Again where the machine was busy with other things.
    assert!((0..10).any(|_| wait() < Duration::from_millis(2_800)));
}
