//! Thirty-two senders and thirty-two poppers on one queue: each message reaches exactly one of them, each sender's
//! messages in the order sent.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use client::Client;
use support::Server;

const SENDERS: usize = 32;
const POPPERS: usize = 32;
const EACH: usize = 200;

/// Sends its numbered messages.
fn send(server: SocketAddr, sender: usize) {
    let mut client = Client::login(server, &format!("sender{sender}")).expect("it runs");
    for number in 0..EACH {
        let answer = client.ask(&["SEND", "q", &format!("{sender} {number}")]).expect("it runs");
        assert!(answer.integer().is_some(), "{answer:?}");
    }
}

/// Pops until told that nothing more comes and nothing is left: what it got, as (sender, number).
fn pop(server: SocketAddr, popper: usize, over: &AtomicBool) -> Vec<(usize, usize)> {
    let mut client = Client::login(server, &format!("popper{popper}")).expect("it runs");
    // Every kind of pop: plain, one that waits, several at once, by sender, leased and acknowledged.
    let sender = format!("sender{}", popper / 6);
    let words: &[&str] = match popper % 6 {
        0 => &["POP", "QUEUE", "q"],
        1 => &["POP", "QUEUE", "q", "BLOCK", "20"],
        2 => &["POP", "QUEUE", "q", "COUNT", "3"],
        3 => &["POP", "QUEUE", "q", "FROM", &sender],
        4 => &["POP", "FROM", &sender],
        _ => &["POP", "QUEUE", "q", "LEASE", "60000"],
    };
    let mut got = Vec::new();
    loop {
        let was_over = over.load(Ordering::SeqCst);
        let answer = client.ask(words).expect("it runs");
        let messages = if answer.body().is_some() { vec![answer] } else { answer.list() };
        for message in &messages {
            let (sender, number) = message.body().and_then(|body| body.split_once(' ')).expect("a body");
            got.push((sender.parse().expect("a number"), number.parse().expect("a number")));
            if let Some(receipt) = message.get("receipt").and_then(client::Answer::text) {
                assert_eq!(client.ask(&["ACK", receipt]).expect("it runs").integer(), Some(1));
            }
        }
        if messages.is_empty() && was_over {
            return got;
        }
    }
}

fn every_message_reaches_exactly_one(store: &str, arguments: &[&str]) {
    every_message_reaches_exactly_one_of(&[Server::start(store, arguments)]);
}

/// The servers share one store.
fn every_message_reaches_exactly_one_of(servers: &[Server]) {
    let at = |n: usize| servers[n % servers.len()].addr();
    Client::connect(at(0)).expect("it runs").ask(&["QCREATE", "q"]).expect("it runs");
    let over = AtomicBool::new(false);
    let got: Vec<Vec<(usize, usize)>> = thread::scope(|scope| {
        let (over, at) = (&over, &at);
        let poppers: Vec<_> = (0..POPPERS).map(|n| scope.spawn(move || pop(at(n), n, over))).collect();
        let senders: Vec<_> = (0..SENDERS).map(|n| scope.spawn(move || send(at(n), n))).collect();
        for sender in senders {
            sender.join().expect("a sender is done");
        }
        over.store(true, Ordering::SeqCst);
        poppers.into_iter().map(|popper| popper.join().expect("a popper is done")).collect()
    });
    for messages in &got {
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (sender, number) in messages {
            let before = last.insert(*sender, *number);
            assert!(
                before.is_none_or(|before| before < *number),
                "sender {sender}: {before:?}, then {number}"
            );
        }
    }
    let all: Vec<(usize, usize)> = got.concat();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(all.len(), SENDERS * EACH, "messages popped");
    assert_eq!(distinct.len(), SENDERS * EACH, "different messages popped");
}

#[test]
fn on_the_memory_store() {
    every_message_reaches_exactly_one("memory:", &["--workers", "4"]);
}

#[test]
fn on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    every_message_reaches_exactly_one(&format!("embedded:{}", dir.path().display()), &[]);
}

#[test]
fn on_the_embedded_store_one_request_at_a_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    every_message_reaches_exactly_one(&format!("embedded:{}", dir.path().display()), &["--batch", "1"]);
}

#[test]
fn on_postgresql() {
    let postgres = postgres::shared();
    every_message_reaches_exactly_one(&postgres.url(&postgres.create_database()), &[]);
}

#[test]
fn on_postgresql_one_request_at_a_time() {
    let postgres = postgres::shared();
    every_message_reaches_exactly_one(&postgres.url(&postgres.create_database()), &["--batch", "1"]);
}

#[test]
fn on_three_middlewares_over_one_database() {
    let postgres = postgres::shared();
    let url = postgres.url(&postgres.create_database());
    every_message_reaches_exactly_one_of(&[(); 3].map(|()| Server::start(&url, &[])));
}
