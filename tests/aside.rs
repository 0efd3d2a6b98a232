//! What is kept aside while a transaction elsewhere keeps everything that was removed: reads do not walk ever more of
//! that, for the table is rewritten, and no message changes or is lost meanwhile.

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
use support::patience::{wait_for, wait_until};

/// Rows of the aside that are removed, and bytes of the table with its indexes that they take at least.
const REMOVED: usize = 20_000;
const REMOVED_BYTES: u64 = 2 << 20;

/// How often each load is run at most, and how often the table must be rewritten meanwhile.
const GOES: usize = 20;
const REWRITTEN: usize = 3;

/// A database in which a transaction is open, and a middleware.
struct Place {
    server: &'static Postgres,
    database: String,
    elsewhere: Session,
}

impl Place {
    fn new() -> Self {
        let server = postgres::shared();
        let database = server.create_database();
        let mut elsewhere = Session::open(server, &database, "postgres");
        elsewhere.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
        Self { server, database, elsewhere }
    }

    fn middleware(&self, arguments: &[&str]) -> Server {
        Server::start(&self.server.url(&self.database), arguments)
    }

    fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql)
    }

    /// Messages that came and went in queue 1, from account 1 to anyone.
    fn remove(&self) {
        let put = "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
            SELECT 2, n, posthaste.place_of(9, n), 1, 1, 0, 1, 'gone' FROM generate_series(900000000,";
        self.sql(&format!("{put} 900000000 + {REMOVED}) AS n"));
        self.sql("DELETE FROM posthaste.message WHERE id >= 900000000");
    }

    fn bytes(&self) -> u64 {
        self.sql("SELECT pg_total_relation_size('posthaste.message_aside')").parse().expect("a number")
    }

    /// Another one after each time that the table was rewritten.
    fn file(&self) -> String {
        self.sql("SELECT pg_relation_filenode('posthaste.message_aside')")
    }
}

fn ask(client: &mut Client, request: &str) -> Answer {
    let answer = client.ask(&request.split(' ').collect::<Vec<_>>()).expect("it runs");
    assert!(!matches!(answer, Answer::Error(_)), "{request}: {answer:?}");
    answer
}

#[test]
fn what_stays_is_the_same_after_the_rest_has_been_cleared_away() {
    let mut place = Place::new();
    let server = place.middleware(&["--max-message", "200000"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    for queue in ["q", "leased", "delayed"] {
        ask(&mut client, &format!("QCREATE {queue}"));
    }
    let large = "x".repeat(100_000);
    ask(&mut client, &format!("SEND q {large} PRIORITY 2 HEADER k v"));
    ask(&mut client, "SEND q small PRIORITY 3 TTL 3600000 TO ann");
    ask(&mut client, "SEND leased work");
    ask(&mut client, "SEND delayed later DELAY 3600000");
    let leased = ask(&mut client, "POP QUEUE leased LEASE 3600000");
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
    place.remove();
    let (before, file) = (place.bytes(), place.file());
    assert!(before > REMOVED_BYTES, "{before}");
    let rows = "SELECT md5(string_agg(m::text, ' ' ORDER BY id)) FROM posthaste.message AS m";
    let held = place.sql(rows);
    // Each walks what was removed.
    wait_for("it is rewritten", || {
        assert_eq!(ask(&mut client, "PEEK QUEUE q").body(), Some("small"));
        if place.file() == file {
            Err(place.sql("SELECT posthaste.entries_walked('posthaste.message_aside')"))
        } else {
            Ok(())
        }
    });
    assert!(place.bytes() < before / 4, "{} of {before} bytes", place.bytes());
    assert_eq!(place.sql(rows), held);
    assert_eq!(ask(&mut client, "POP QUEUE q").body(), Some("small"));
    assert_eq!(ask(&mut client, "POP QUEUE q").body(), Some(large.as_str()));
    assert_eq!(ask(&mut client, &format!("ACK {receipt}")), Answer::Integer(1));
    assert_eq!(place.elsewhere.run("SELECT 1"), "1", "it was open all the time");
}

#[test]
fn where_readers_keep_it_locked_it_is_left_alone_and_tried_again() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    ask(&mut client, "QCREATE q");
    place.remove();
    let file = place.file();
    let mut reader = Session::open(place.server, &place.database, "postgres");
    assert_eq!(reader.run("BEGIN; SELECT count(*) FROM posthaste.message_aside WHERE id = 1"), "0");
    // A middleware asks for it once it is worth it; then by hand, which gives up.
    let worth = || -> bool {
        ask(&mut client, "PEEK QUEUE q");
        place.sql("SELECT posthaste.entries_walked('posthaste.message_aside') > 400000") == "t"
    };
    wait_until("much is walked", worth);
    let said = place.sql("SELECT posthaste.rewrite_aside(10)");
    assert!(said.is_empty() || said == "readers keep a lock on message_aside", "{said}");
    assert_eq!(place.file(), file);
    reader.run("COMMIT");
    wait_until("it is rewritten", || place.file() != file);
}

#[test]
fn under_load_no_message_is_lost_doubled_or_out_of_order() {
    let place = Place::new();
    // Here all messages are kept aside.
    for strategy in ["skip-locked", "repeatable-read"] {
        let server = place.middleware(&["--pop-strategy", strategy]);
        let mut files = vec![place.file()];
        for _ in 0..GOES {
            let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
            bench.args([
                "bench",
                "queue",
                "--check",
                "--duration",
                "5s",
                "--warmup",
                "0s",
                "--cooldown",
                "0s",
            ]);
            bench.args(["--workload", "pairs", "--connect", &server.addr().to_string()]);
            let output = bench.output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{strategy}: {said}{}", String::from_utf8_lossy(&output.stderr));
            files.push(place.file());
            files.dedup();
            if files.len() > REWRITTEN {
                break;
            }
        }
        assert!(files.len() > REWRITTEN, "{strategy}: rewritten {} times only", files.len() - 1);
    }
}
