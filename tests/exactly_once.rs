//! Thirty-two senders and thirty-two poppers on one queue: the history checker finds each message with exactly one of
//! them, in the order sent, and every null honest.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "../crates/server/tests/support/home.rs"]
mod home;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/witness.rs"]
mod witness;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use posthaste_history::{Ending, History, Journal, Kind, Requests, check};
use support::Server;
use support::ends::Ends;
use support::patience::PATIENCE;
use witness::Witness;

const SENDERS: usize = 32;
const POPPERS: usize = 32;
const EACH: usize = 200;

const ENDINGS: [(Ending, &str); 3] = [(Ending::Ok, "ok"), (Ending::Null, "null"), (Ending::Error, "error")];

/// Sends its numbered messages.
fn send(server: SocketAddr, sender: usize) -> Journal {
    let mut witness = Witness::login(server, sender as u32, &format!("sender{sender}")).expect("it runs");
    for number in 0..EACH {
        let answer = witness.ask(&["SEND", "q", &format!("{sender} {number}")]).expect("it runs");
        assert!(answer.integer().is_some(), "{answer:?}");
    }
    witness.journal().clone()
}

/// Pops until told that nothing more comes and nothing is left.
fn pop(server: SocketAddr, popper: usize, over: &AtomicBool) -> Journal {
    let client = (SENDERS + popper) as u32;
    let mut witness = Witness::login(server, client, &format!("popper{popper}")).expect("it runs");
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
    loop {
        let was_over = over.load(Ordering::SeqCst);
        let answer = witness.ask(words).expect("it runs");
        if let Some(receipt) = answer.get("receipt").and_then(Answer::text) {
            assert_eq!(witness.ask(&["ACK", receipt]).expect("it runs").integer(), Some(1));
        }
        if answer.list().is_empty() && was_over {
            return witness.journal().clone();
        }
    }
}

fn every_message_reaches_exactly_one(store: &str, arguments: &[&str]) {
    every_message_reaches_exactly_one_of(&[Server::start_with_http(store, arguments)]);
}

/// The servers share one store.
fn every_message_reaches_exactly_one_of(servers: &[Server]) {
    let at = |n: usize| servers[n % servers.len()].addr();
    Client::connect(at(0)).expect("it runs").ask(&["QCREATE", "q"]).expect("it runs");
    let over = AtomicBool::new(false);
    let mut history = History::default();
    thread::scope(|scope| {
        let (over, at, ends) = (&over, &at, Ends(&over));
        let poppers: Vec<_> = (0..POPPERS).map(|n| scope.spawn(move || pop(at(n), n, over))).collect();
        let senders: Vec<_> = (0..SENDERS).map(|n| scope.spawn(move || send(at(n), n))).collect();
        for sender in senders {
            history.add(&sender.join().expect("a sender is done"));
        }
        drop(ends);
        poppers.into_iter().for_each(|popper| history.add(&popper.join().expect("a popper is done")));
    });
    witness::drain(at(0), 1000, &["drain".to_owned()], &["q"])
        .iter()
        .for_each(|journal| history.drain(journal));
    count_requests(servers, &mut history);
    let verdict = check(&history);
    println!("{verdict}");
    assert!(verdict.is_valid() && verdict.undecided.is_empty(), "{verdict}");
    let counts = verdict.counts;
    assert_eq!((counts.popped, counts.drained), ((SENDERS * EACH) as u64, 0), "{verdict}");
    assert_eq!(counts.reads_in_doubt, 0, "{verdict}");
}

/// Adds what all servers counted of the kinds that only the witnesses ask. Windows must be over first.
fn count_requests(servers: &[Server], history: &mut History) {
    let kinds = [(Kind::Send, "send"), (Kind::Pop, "pop"), (Kind::Ack, "ack")];
    let asked: u64 = kinds.iter().map(|(kind, _)| history.requests_of(*kind)).sum();
    let start = Instant::now();
    loop {
        let pages: Vec<String> = servers.iter().map(|server| server.page("/metrics").1).collect();
        let counted = |kind: &str, ending: &str| -> u64 {
            let name = format!("posthaste_requests_total{{kind=\"{kind}\",ending=\"{ending}\"}} ");
            let lines = pages.iter().flat_map(|page| page.lines());
            lines.filter_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).sum()
        };
        let all: Vec<_> = kinds
            .iter()
            .flat_map(|(kind, name)| ENDINGS.map(|(ending, word)| (*kind, ending, counted(name, word))))
            .collect();
        if all.iter().map(|(.., counted)| counted).sum::<u64>() >= asked || start.elapsed() > PATIENCE {
            all.into_iter()
                .for_each(|(kind, ending, counted)| history.count(Requests { kind, ending, counted }));
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn on_the_memory_store() {
    every_message_reaches_exactly_one("memory:", &["--workers", "4"]);
}

#[test]
fn on_the_embedded_store() {
    let dir = home::home();
    every_message_reaches_exactly_one(&format!("embedded:{}", dir.path().display()), &[]);
}

#[test]
fn on_the_embedded_store_one_request_at_a_time() {
    let dir = home::home();
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
    every_message_reaches_exactly_one_of(&[(); 3].map(|()| Server::start_with_http(&url, &[])));
}
