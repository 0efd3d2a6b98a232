//! Pop strategies on PostgreSQL: whichever way readers agree on who gets a message, each gets it once; and flags that
//! make no sense together are refused.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use client::Client;
use news::{is_told, wait_for_info, wait_until_blocked};
use session::Session;
use support::Server;
use support::patience::wait_until;

const CONNECTIONS: usize = 16;
const EACH: usize = 60;

/// Every strategy, and those that can lose with a back-off too.
const STRATEGIES: [&[&str]; 9] = [
    &["--pop-strategy", "skip-locked"],
    &["--pop-strategy", "delete-retry"],
    &["--pop-strategy", "for-update"],
    &["--pop-strategy", "repeatable-read"],
    &["--pop-strategy", "mark-update"],
    &["--pop-strategy", "delete-retry", "--pop-backoff", "exponential"],
    &["--pop-strategy", "for-update", "--pop-backoff", "exponential"],
    &["--pop-strategy", "repeatable-read", "--pop-backoff", "exponential"],
    &["--pop-strategy", "mark-update", "--pop-backoff", "exponential"],
];

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(words).output().expect("the program runs")
}

/// A server in the reports' design: eight workers, one request each.
fn start(url: &str, strategy: &[&str]) -> Server {
    Server::start(url, &[&["--workers", "8"], strategy].concat())
}

/// Sends its numbered messages, popping between them, then pops until all is gone: what it got.
fn send_and_pop(server: SocketAddr, number: usize, senders_left: &AtomicBool) -> Vec<String> {
    let mut client = Client::login(server, &format!("c{number}")).expect("it runs");
    let mut got = Vec::new();
    let mut pop = |client: &mut Client| {
        let answer = client.ask(&["POP", "QUEUE", "q"]).expect("it runs");
        match answer.body() {
            Some(body) => got.push(body.to_owned()),
            None => assert_eq!(answer, client::Answer::Null),
        }
        answer != client::Answer::Null
    };
    for message in 0..EACH {
        let sent = client.ask(&["SEND", "q", &format!("{number} {message}")]).expect("it runs");
        assert!(sent.integer().is_some_and(|id| id > 0), "{sent:?}");
        if message % 2 == 0 {
            pop(&mut client);
        }
    }
    loop {
        let over = !senders_left.load(Ordering::SeqCst);
        if !pop(&mut client) && over {
            return got;
        }
        if !over {
            senders_left.store(false, Ordering::SeqCst);
        }
    }
}

#[test]
fn every_message_reaches_exactly_one_of_sixteen() {
    let postgres = postgres::shared();
    for strategy in STRATEGIES {
        let database = postgres.create_database();
        let server = start(&postgres.url(&database), strategy);
        Client::connect(server.addr()).expect("it runs").ask(&["QCREATE", "q"]).expect("it runs");
        let senders_left = AtomicBool::new(true);
        let got: Vec<String> = thread::scope(|scope| {
            let run = |n| send_and_pop(server.addr(), n, &senders_left);
            let clients: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(move || run(n))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("a client is done")).collect()
        });
        let mut last = Client::connect(server.addr()).expect("it runs");
        let mut all = got;
        while let Some(body) = last.ask(&["POP", "QUEUE", "q"]).expect("it runs").body() {
            all.push(body.to_owned());
        }
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (CONNECTIONS * EACH, CONNECTIONS * EACH), "{strategy:?}");
        assert_eq!(last.ask(&["QDELETE", "q"]).expect("it runs").integer(), Some(0), "{strategy:?}");
        assert_nothing_is_left(postgres, &database, strategy);
    }
}

/// What was popped leaves the tables too, if not at once.
fn assert_nothing_is_left(postgres: &postgres::Postgres, database: &str, strategy: &[&str]) {
    wait_until(format!("{strategy:?}: no rows are left"), || {
        postgres.psql(database, "SELECT count(*) FROM posthaste.message") == "0"
    });
}

/// With mark-update a tick removes what was taken, as it removes what has expired.
#[test]
fn what_is_taken_is_not_counted_as_expired() {
    let postgres = postgres::shared();
    for strategy in &STRATEGIES[..5] {
        let database = postgres.create_database();
        let server = start(&postgres.url(&database), strategy);
        let mut client = Client::connect(server.addr()).expect("it runs");
        client.ask(&["QCREATE", "q"]).expect("it runs");
        for _ in 0..EACH {
            client.ask(&["SEND", "q", "x"]).expect("it runs");
            assert_eq!(client.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), Some("x"));
        }
        client.ask(&["SEND", "q", "x", "TTL", "1"]).expect("it runs");
        assert_nothing_is_left(postgres, &database, strategy);
        wait_for_info(server.addr(), "messages_expired:1");
        wait_for_info(server.addr(), &format!("messages_taken:{EACH}"));
    }
}

#[test]
fn the_twelve_steps_hold_with_every_strategy() {
    let postgres = postgres::shared();
    for strategy in &STRATEGIES[..6] {
        let server = start(&postgres.url(&postgres.create_database()), strategy);
        let address = server.addr().to_string();
        let bench = run(&[
            "bench",
            "queue",
            "--connect",
            &address,
            "--clients",
            "16",
            // Counted, not timed: on a slow machine nothing may be answered in a short time.
            "--requests",
            "120",
            "--check",
        ]);
        let said = String::from_utf8_lossy(&bench.stdout).into_owned();
        assert!(bench.status.success(), "{strategy:?}: {said}{}", String::from_utf8_lossy(&bench.stderr));
        assert_eq!(server.log().lines().filter(|line| line.contains("WARN")).count(), 0, "{}", server.log());
    }
}

#[test]
fn each_request_is_a_statement_of_its_own() {
    // A batch takes the row locks of its queues, and would wait for a transaction that holds one; single requests
    // pass it by, but for the deletion of the queue.
    let postgres = postgres::shared();
    for strategy in &STRATEGIES[..5] {
        let database = postgres.create_database();
        let server = start(&postgres.url(&database), strategy);
        let mut client = Client::login(server.addr(), "c").expect("it runs");
        client.ask(&["QCREATE", "q"]).expect("it runs");
        // Whoever waited for this transaction would wait for good: it ends when all have their answers.
        let mut holder = Session::open(postgres, &database, "postgres");
        assert_eq!(
            holder.run("BEGIN; SELECT count(*) FROM (SELECT FROM posthaste.queue FOR NO KEY UPDATE) AS q"),
            "1"
        );
        assert!(client.ask(&["SEND", "q", "m"]).expect("it runs").integer().is_some());
        assert_eq!(client.ask(&["PEEK", "QUEUE", "q"]).expect("it runs").body(), Some("m"));
        assert_eq!(client.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), Some("m"), "{strategy:?}");
        assert_eq!(client.ask(&["POP", "QUEUE", "q"]).expect("it runs"), client::Answer::Null);
        assert_eq!(holder.run("COMMIT"), "");
    }
}

#[test]
fn the_other_requests_work_as_well() {
    let postgres = postgres::shared();
    for strategy in &STRATEGIES[..5] {
        let server = start(&postgres.url(&postgres.create_database()), strategy);
        let mut client = Client::login(server.addr(), "c").expect("it runs");
        let mut ask = |words: &[&str]| client.ask(words).expect("it runs");
        assert!(ask(&["POP", "QUEUE", "q"]).is_error("NOQUEUE"));
        assert!(ask(&["SEND", "q", "m"]).is_error("NOQUEUE"));
        assert!(ask(&["QDELETE", "q"]).is_error("NOQUEUE"));
        assert!(ask(&["PEEK", "QUEUE", "q"]).is_error("NOQUEUE"));
        ask(&["QCREATE", "q", "MAXMSGS", "2"]);
        ask(&["SEND", "q", "first", "PRIORITY", "1"]);
        ask(&["SEND", "q", "second", "TO", "c"]);
        assert!(ask(&["SEND", "q", "third"]).is_error("FULL"));
        assert_eq!(ask(&["QREADABLE"]), client::Answer::List(vec![client::Answer::Text(b"q".to_vec())]));
        let leased = ask(&["POP", "QUEUE", "q", "LEASE", "60000"]);
        assert_eq!(leased.body(), Some("first"));
        let receipt = leased.get("receipt").and_then(client::Answer::text).expect("a receipt");
        let second = ask(&["POP", "FROM", "c"]);
        assert_eq!(
            (second.body(), second.get("queue").and_then(client::Answer::text)),
            (Some("second"), Some("q"))
        );
        assert_eq!(second.get("deliveries").and_then(client::Answer::integer), Some(1));
        let info = ask(&["QINFO", "q"]);
        assert_eq!(info.get("messages").and_then(client::Answer::integer), Some(1), "{strategy:?}");
        assert_eq!(ask(&["ACK", receipt]).integer(), Some(1));
        ask(&["SEND", "q", "left"]);
        assert_eq!(ask(&["QDELETE", "q"]).integer(), Some(1));
    }
}

#[test]
fn a_pop_that_waits_is_woken() {
    let postgres = postgres::shared();
    let server = start(&postgres.url(&postgres.create_database()), STRATEGIES[1]);
    let mut reader = Client::login(server.addr(), "reader").expect("it runs");
    let mut sender = Client::login(server.addr(), "sender").expect("it runs");
    sender.ask(&["QCREATE", "q"]).expect("it runs");
    let woken_after = || {
        reader.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
        wait_until_blocked(server.addr(), 1);
        let start = Instant::now();
        sender.ask(&["SEND", "q", "m"]).expect("it runs");
        assert_eq!(reader.answer().expect("it runs").body(), Some("m"));
        start.elapsed()
    };
    assert!(is_told(woken_after));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let url = "postgres://nobody@127.0.0.1:1/none";
    for (words, names) in [
        (&["--store", "memory:", "--batch", "1", "--pop-strategy", "for-update"][..], "postgres://"),
        (&["--store", url, "--batch", "2", "--pop-strategy", "skip-locked"], "--batch 1"),
        (&["--store", url, "--batch", "1", "--pop-strategy", "lottery"], "delete-retry"),
        (&["--store", url, "--pop-backoff", "exponential"], "--pop-strategy"),
        (
            &["--store", url, "--batch", "1", "--pop-strategy", "for-update", "--pop-backoff", "linear"],
            "exponential",
        ),
    ] {
        let output = run(&[&["queue"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{words:?}: {error}");
        assert!(error.contains(names), "{words:?}: {error}");
    }
}
