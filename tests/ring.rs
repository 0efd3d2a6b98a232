//! The ring turns under load, while a transaction elsewhere is held open that keeps every dead row from being removed:
//! no message is lost, doubled or out of order, and the tables stay small.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::process::Command;

use client::{Answer, Client};
use postgres::Postgres;
use session::Session;
use support::Server;

/// Turns that each load must bring about for the test to mean anything, and in how many goes: on a slow machine little passes
/// through the ring in one.
const TURNS: i64 = 3;
const GOES: usize = 30;
/// Of the ring with its indexes; what passes through it is several times as much.
const BYTES_MAX: i64 = 64 << 20;

/// A load over both middlewares that checks every answer; large bodies fill the ring soon.
fn load(servers: &[Server; 2], workload: &[&str]) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args(["bench", "queue", "--check", "--duration", "5s", "--warmup", "0s", "--cooldown", "0s"]);
    bench.args(["--clients", "32", "--message-bytes", "1900"]).args(workload);
    for server in servers {
        bench.args(["--connect", &server.addr().to_string()]);
    }
    let output = bench.output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{workload:?}: {}", String::from_utf8_lossy(&said));
}

/// Load until the ring has turned often enough.
fn turn(server: &Postgres, database: &str, servers: &[Server; 2], workload: &[&str]) {
    let turns = || number(server, database, "SELECT last_value FROM posthaste.ring_turn");
    let before = turns();
    for _ in 0..GOES {
        load(servers, workload);
        if turns() - before >= TURNS {
            return;
        }
    }
    panic!("{workload:?}: only {} turns", turns() - before);
}

fn number(server: &Postgres, database: &str, sql: &str) -> i64 {
    server.psql(database, sql).parse().expect("a number")
}

#[test]
fn the_ring_turns_under_load_although_a_transaction_is_held_open() {
    let server = Postgres::start(&["fsync=off"]);
    let database = server.create_database();
    let servers = [(); 2].map(|()| Server::start(&server.url(&database), &[]));
    let mut elsewhere = Session::open(&server, &database, "postgres");
    elsewhere.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    for workload in [
        &["--workload", "pairs", "--preload", "500"][..],
        &["--workload", "twelve-step"],
        &["--workload", "mix:send=0.45,pop=0.45,peek=0.1"],
    ] {
        turn(&server, &database, &servers, workload);
        let bytes = "SELECT pg_total_relation_size('posthaste.message_0') + pg_total_relation_size('posthaste.message_1')";
        let bytes = number(&server, &database, bytes);
        assert!(bytes < BYTES_MAX, "{workload:?}: {bytes} bytes in the ring");
        assert_eq!(number(&server, &database, "SELECT count(*) FROM posthaste.message"), 0, "{workload:?}");
    }
    assert!(
        elsewhere.run("SELECT count(*) FROM pg_class").parse::<i64>().is_ok(),
        "it was open all the time"
    );
    for server in servers {
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}

/// Messages that nobody reads, and how many are read at once in the end: an answer has its limit.
const UNREAD: usize = 5000;
const AT_ONCE: &str = "500";

/// They would keep their part of the ring from being emptied, with every message that came after them.
#[test]
fn what_nobody_reads_is_set_aside_and_not_forgotten() {
    let server = Postgres::start(&["fsync=off"]);
    let database = server.create_database();
    let servers = [(); 2].map(|()| Server::start(&server.url(&database), &[]));
    let mut client = Client::login(servers[0].addr(), "reader").expect("a login");
    client.ask(&["QCREATE", "unread"]).expect("it runs");
    for first in (0..UNREAD).step_by(500) {
        let bodies: Vec<String> = (first..first + 500).map(|number| format!("{number:0900}")).collect();
        let words = ["SENDMANY", "unread"].into_iter().chain(bodies.iter().map(String::as_str));
        let sent = client.ask(&words.collect::<Vec<_>>()).expect("it runs");
        assert!(matches!(sent, Answer::List(_)), "{sent:?}");
    }
    turn(&server, &database, &servers, &["--workload", "pairs"]);
    assert_eq!(number(&server, &database, "SELECT count(*) FROM posthaste.message_aside"), UNREAD as i64);
    let mut read = Vec::new();
    while let Answer::List(messages) =
        client.ask(&["POP", "QUEUE", "unread", "COUNT", AT_ONCE]).expect("it runs")
        && !messages.is_empty()
    {
        read.extend(
            messages
                .iter()
                .map(|message| message.body().expect("a body").parse::<usize>().expect("a number")),
        );
    }
    assert!(read.into_iter().eq(0..UNREAD), "all of them, in their order");
}
